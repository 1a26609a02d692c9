# SPDX-License-Identifier: Apache-2.0
"""Splits decode and prefill over keys, so that they use all compute units. A batch is split as `attnc tune` has chosen
for the pack. Without tuning a batch is split if it has fewer workgroups than there are compute units. Decode then adds
up the parts in its own launch if the packs have a kernel for that. A split needs kernels of plan, and either such a
kernel or combine."""
from attn.aiter import _common as c
from attn.attention import Split, choose_split, plan_sizes, room_of

WHOLE = Split(0)  # no split: one workgroup for each sequence and KV head


def usual_lists(units, lists, batch, kv_heads, most):
    """Returns the number of work lists without tuning, for a kernel that is fastest with `lists`. 0, no split: the
    batch has a workgroup for each of `units` compute units, or as many sequences as lists."""
    if batch * kv_heads >= units:
        return 0
    parts = min(lists // kv_heads, batch * most if most else lists)
    return parts * kv_heads if parts != batch else 0


def split_of(s, op, batch, kv_heads, most, longest, once=None):
    """Returns the split of a step. `most` is the number of workgroups that the call allows for a sequence and KV
    head, or None. `longest` is the number of keys of the longest sequence, 0 if the call does not say it. `once` is
    the op of the same kernel in one launch, or None. Without tuning the split is for `once` if there is one: its sum
    of parts takes less time than a second launch."""
    if most == 1 or batch == 0:
        return WHOLE
    shift = max(longest.bit_length() - 4, 0)  # similar lengths share a key
    key = (op, batch, most, longest >> shift, shift)
    split = s.splits.get(key)
    if split is None:
        split = choose_split(op, batch, longest)
        if not split.tuned:
            split = choose_split(once, batch, longest) if once is not None else split
            split.lists = usual_lists(s.device.compute_units, split.lists, batch, kv_heads, most)
        elif most:
            split.lists = min(split.lists, batch * most * kv_heads)
        s.splits[key] = split
    return split


def buffers(s, q, key, plan, parts):
    """Returns int32 tensors with the shapes `plan`, for a plan, and float32 tensors with the shapes `parts`, for its
    partial results. torch's allocator knows streams and graphs, so torch tensors are new. Other tensors are kept for
    `key`, which contains the stream and the sizes."""
    kept = None if c.is_torch(q) else s.buffers.get(key)
    if kept is None:
        kept = [c.integers(q, shape) for shape in plan] + [c.floats(q, shape) for shape in parts]
        if not c.is_torch(q):
            s.buffers[key] = kept
    return kept


def tickets_of(s, q, stream, kind, shape):
    """Returns counters of this shape, which are 0 before the first launch and reset by each launch. They are allocated
    once for a stream, and again for each capture of the stream, so that graphs may run at the same time."""
    key, capture = (stream, kind, *shape), s.device.hip.capture(stream or 0)
    kept = s.tickets.get(key)
    if kept is None or kept[0] != capture:
        kept = s.tickets[key] = (capture, c.integers(q, shape))
        c.zero(kept[1])
    return kept[1]


def launch(s, kind, desc, call, batch, most=None, longest=0):
    """Launches decode or mla_decode, after plan if the batch is split. The arguments are plan()'s."""
    plan(s, kind, desc, call, batch, most, longest)(call)


def plan(s, kind, desc, call, batch, most=None, longest=0):
    """Chooses the split of a call of decode or mla_decode, and launches plan if the batch is split. `call` has its
    arguments without work lists; `most` bounds the workgroups that a sequence and kv head get, on average: 1 is no
    split. `longest` is the number of keys of the longest sequence, 0 if not known. Decode adds up its parts in the same
    launch if a pack has that kernel, unless `attnc tune` chose a combine. Returns a function that launches calls with
    these lengths and lists of pages, such as the calls of a step's layers."""
    q, op = call["q"], s.op(kind, **desc)
    stream, heads, kv_heads = c.stream(q), desc["heads"], desc.get("kv_heads", 1)
    once = s.op(kind, **desc, one_launch=True) if s.has(kind, **desc, one_launch=True) else None
    split = split_of(s, op, batch, kv_heads, most, longest, once)
    once = once if split.one_launch else None
    joined = joined_of(desc)
    if not split.lists or not s.has("plan") or not (once or s.has("combine", **joined)):
        return lambda call: op(**call, stream=c.stream(call["q"]))
    window = call["window_left"] + 1 if desc["mask"] == "window" else 0
    shape = (batch, desc["q_len"], heads, kv_heads, split.lists, window)
    sizes = s.sizes.get(shape)
    if sizes is None:
        sizes = s.sizes[shape] = plan_sizes(*shape)
    items, partials, rows = sizes
    lists, info, tiles, final, partial, part_out, part_lse = buffers(
        s, q, (stream, shape, desc["head_dim_v"]),
        ((shape[4] + 1,), (items, 8), (batch + 1,), (batch, 2), (max(partials, 1),)),
        ((max(rows, 1), heads, desc["head_dim_v"]), (max(rows, 1), heads)))
    s.op("plan")(kv_lens=call["kv_lens"], qo_indptr=call.get("qo_indptr"), work_indptr=lists,
                 work_info=info, reduce_indptr=tiles, reduce_final_map=final,
                 reduce_partial_map=partial, q_len=desc["q_len"], heads=heads, kv_heads=kv_heads,
                 window=window, item_cost=split.item_cost, merge_rate=split.merge_rate, unit_keys=split.unit_keys, stream=stream)
    parts = {"partial_out": part_out, "partial_lse": part_lse, "partial_rows": rows}
    reduced = {"reduce_indptr": tiles, "reduce_partial_map": partial}

    def run(call):
        q, stream = call["q"], c.stream(call["q"])
        call = dict(call, work_indptr=lists, work_info=info, **parts, stream=stream)
        if once is not None:
            counters = (batch, 32) if kind == "mla_decode" else (batch, kv_heads, 32)
            once(**call, **reduced, tickets=tickets_of(s, q, stream, kind, counters))
            return
        op(**call)
        s.op("combine", **joined)(
            out=call["out"], lse=call.get("lse"), sinks=call.get("sinks"), **parts, **reduced, reduce_final_map=final,
            q_len=desc["q_len"], stream=stream)

    return run


TILE = 128  # smallest number of a head's queries in a workgroup of prefill
# smallest number of keys of the longest causal tile for which a split is faster if each compute unit has one tile
UNEVEN = 4096
# largest window, in keys, for which tiles with all heads of a KV head see far fewer keys than tiles of one head
NARROW = 2048
SHARED = 4  # smallest number of query heads per KV head for which NARROW applies


def is_uneven(desc, units, batch, tokens, longest):
    """True if each of `units` compute units has one causal tile, and the longest tile has far more keys than the
    others."""
    return (desc["mask"] == "causal" and desc["heads"] * tokens <= 2 * TILE * units and
            UNEVEN <= longest <= 2 * tokens // batch)


def is_narrow(desc, window):
    """True if tiles of few queries and all heads of a KV head suit a window of `window` keys."""
    return desc["mask"] == "window" and 0 < window <= NARROW and desc["heads"] >= SHARED * desc["kv_heads"]


def splits_prefill(s, desc, batch, tokens, longest, window=0):
    """True if a prefill over pages should have a plan, and the packs have the kernels. Without a plan, tiles of a
    head's queries would be too few for the compute units, mostly empty, uneven, or wide beside a window. `longest`:
    keys of the longest sequence; `window`: keys that a query sees, 0: all."""
    if not desc.get("paged") or batch == 0 or tokens == 0:
        return False
    units = s.device.compute_units
    few = desc["heads"] * tokens < TILE * units or tokens < TILE * batch
    wanted = few or is_uneven(desc, units, batch, tokens, longest) or is_narrow(desc, window)
    return wanted and s.has("plan", q_tiles=True) and (adds_up(s, desc, batch) or has_combined(s, desc))


def has_combined(s, desc):
    """True if the packs have kernels of planned prefill and of the combine after it."""
    return s.has("prefill", **desc, planned=True) and s.has("combine", **joined_of(desc))


def adds_up(s, desc, batch):
    """True if prefill itself adds up its parts. Batches of several sequences use a combine if the packs have one, since
    their parts end at different times."""
    return s.has("prefill", **desc, planned=True, one_launch=True) and (batch == 1 or not has_combined(s, desc))


def planned_prefill(s, desc, batch):
    """Returns the op of a prefill with a plan."""
    return s.op("prefill", **desc, planned=True, **({"one_launch": True} if adds_up(s, desc, batch) else {}))


def joined_of(desc):
    """Returns the descriptor of the combine that adds up the parts of a launch."""
    return {"dtype": desc["dtype"], "head_dim": desc["head_dim_v"], "heads": desc["heads"], "partials": "csr"}


def prefill_shape(s, op, desc, call, batch):
    """Returns (shape of the plan of a prefill, sizes of the plan's tensors). Both are computed once for a number of
    sequences, of tokens, and of keys rounded up to a power of two."""
    tokens, longest = call["q"].shape[0], call["max_seqlen_q"]
    keys = 1 << (call["max_seqlen_k"] - 1).bit_length() if call["max_seqlen_k"] > 0 else 0
    window = call.get("window_left", -1) + 1 if desc["mask"] == "window" else 0
    right = {"causal": 0, "window": call.get("window_right", -1)}.get(desc["mask"], -1)
    key = (op, batch, tokens, longest, keys, window, right)
    kept = s.sizes.get(key)
    if kept is None:
        split = choose_split(op, batch, keys, tokens=tokens, window=window)
        shape = dict(q_len=longest, heads=desc["heads"], kv_heads=desc["kv_heads"], window=window,
                     q_tile=split.q_tile, tokens=tokens, window_right=right, item_cost=split.item_cost,
                     merge_rate=split.merge_rate)
        kept = s.sizes[key] = shape, split.lists, room_of(batch, lists=split.lists, **shape)
    return kept


def launch_prefill(s, desc, call):
    """Launches the plan and a planned prefill, which adds up its parts itself if the packs have that kernel; else combine
    does. `call` has the arguments of prefill without work lists."""
    batch, heads = call["cu_seqlens_q"].shape[0] - 1, desc["heads"]
    q, op, stream = call["q"], planned_prefill(s, desc, batch), call["stream"]
    shape, lists, room = prefill_shape(s, op, desc, call, batch)
    rows, tiles = max(room.partial_rows, 1), room.tiles
    work, info, ends, final, partial, tile_info, part_out, part_lse = buffers(
        s, q, (stream, op, batch, lists, *shape.values()),
        ((lists + 1,), (room.work_items, 8), (tiles + 1,), (tiles, 2), (max(room.partials, 1),), (5, tiles)),
        ((rows, heads, desc["head_dim_v"]), (rows, heads)))
    s.op("plan", q_tiles=True)(
        kv_lens=call["kv_lens"], qo_indptr=call["cu_seqlens_q"], work_indptr=work, work_info=info, reduce_indptr=ends,
        reduce_final_map=final, reduce_partial_map=partial, tile_info=tile_info, **shape, stream=stream)
    call.update(work_indptr=work, work_info=info, partial_out=part_out, partial_lse=part_lse,
                partial_rows=room.partial_rows, q_tile=shape["q_tile"])
    if adds_up(s, desc, batch):
        lines = max(room.partials * desc["kv_heads"], 1)
        op(**call, reduce_indptr=ends, reduce_partial_map=partial,
           tickets=tickets_of(s, q, stream, "prefill", (lines, 32)))
        return
    op(**call)
    s.op("combine", **joined_of(desc))(
        out=call["out"], lse=call["lse"], sinks=call["sinks"], partial_out=part_out, partial_lse=part_lse,
        reduce_indptr=ends, reduce_final_map=final, reduce_partial_map=partial, q_len=shape["q_tile"],
        partial_rows=room.partial_rows, stream=stream)
