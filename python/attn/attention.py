# SPDX-License-Identifier: Apache-2.0
"""Attention as engines call it: plan() once for each step, run() once for each layer.

    decode = attn.attention.BatchDecode(device, dtype="bf16", head_dim=128, heads=32, kv_heads=8,
                                        cache=attn.CacheDesc(page_size=16), max_batch=64)
    decode.plan(kv_lens, block_table=table)         # once a step
    decode.run(q, k_cache, v_cache, out=out)        # once a layer
"""
import sys

from attn._native import AttnError, check, ffi
from attn import _native
from attn._op import Bound, stream_handle
from attn._tensors import dtype_name

LAYERS = 1024  # largest number of layers whose bound launches a BatchDecode keeps


def new_like(x, shape=None, dtype=None):
    """Returns new memory on the device of x, as a tensor of the same library. Shape and dtype are x's if None."""
    shape = tuple(x.shape) if shape is None else shape
    if hasattr(x, "new_empty"):
        return x.new_empty(shape, dtype=dtype or x.dtype)
    if type(x).__module__.startswith("attn"):
        return x.device.empty(shape, dtype or x.dtype)
    return sys.modules["numpy"].empty(shape, dtype or x.dtype)


def room_of(batch, q_len, heads, kv_heads, lists, window=0, **tiles):
    """Returns struct attn_decode_plan_sizes: sizes of a plan's tensors that suffice for all lengths of sequences.
    `tiles` are further members of the shape."""
    shape = ffi.new("struct attn_decode_plan_shape *", {
        "size": ffi.sizeof("struct attn_decode_plan_shape"), "batch": batch, "q_len": q_len,
        "heads": heads, "kv_heads": kv_heads, "lists": lists, "window": window, **tiles})
    sizes = ffi.new("struct attn_decode_plan_sizes *")
    check(_native.lib.attn_decode_plan_sizes(shape, sizes))
    return sizes


def plan_sizes(batch, q_len, heads, kv_heads, lists, window=0):
    """Returns (work items, partials, partial rows) of a plan, numbers that suffice for all lengths of sequences."""
    sizes = room_of(batch, q_len, heads, kv_heads, lists, window)
    return sizes.work_items, sizes.partials, sizes.partial_rows


class Split:
    """The best way to split the keys of a step. `lists`: workgroups of the launch; 0: no split, one for each sequence
    and KV head. `item_cost` and `merge_rate`: the planner's costs. `one_launch`: True if attention itself adds up the
    parts. `tuned`: True if `attnc tune` found the split for the op's pack; False: there is a list for each compute
    unit. `q_tile`: query tokens of a tile in a planned prefill. `unit_keys`: keys of the planner's units; 0: 64."""

    def __init__(self, lists, item_cost=0, merge_rate=0, one_launch=False, tuned=False, q_tile=0, unit_keys=0):
        self.lists, self.item_cost, self.merge_rate = lists, item_cost, merge_rate
        self.one_launch, self.tuned, self.q_tile, self.unit_keys = one_launch, tuned, q_tile, unit_keys


def choose_split(op, batch, kv_len=0, tokens=0, window=0):
    """Returns the Split for a step of a decode, mla_decode or planned prefill op. The step has `batch` sequences with
    about `kv_len` keys each; 0: unknown. For a planned prefill, `tokens` are the query tokens of all sequences, and
    `window` is the number of keys that a query sees; 0: all."""
    step = ffi.new("struct attn_decode_step *", {
        "size": ffi.sizeof("struct attn_decode_step"), "batch": batch, "kv_len": kv_len,
        "tokens": tokens, "window": window})
    split = ffi.new("struct attn_decode_split *", {"size": ffi.sizeof("struct attn_decode_split")})
    check(_native.lib.attn_decode_choose_split(op._handle, step, split))
    return Split(split.lists, split.item_cost, split.merge_rate, split.one_launch, split.tuned,
                 split.q_tile, split.unit_keys)


def choose_parts(op, rows, keys):
    """Returns the `splits` of a call of an indexer_topk op: the number of parts of each row's keys. A row sees at most
    `keys` keys. libattn's attn_indexer_topk_workspace_size() chooses the number."""
    shape = ffi.new("struct attn_indexer_topk_shape *", {
        "size": ffi.sizeof("struct attn_indexer_topk_shape"), "rows": rows, "max_keys": keys,
        "compute_units": op.device.compute_units})
    room = ffi.new("struct attn_indexer_topk_workspace *")
    check(_native.lib.attn_indexer_topk_workspace_size(op._descriptor(op.desc), shape, room))
    return room.splits


def choose_gather(op, queries, entries, rows, launches=1, bytes_most=0):
    """Returns how many rows of 16 bits cache_gather should make before a call of an mla_decode op over rows that
    contain their scales. 0: the op is faster on the rows as they are. `entries`: rows in a query's list. `rows`: rows that `launches`
    calls of cache_gather convert. bytes_most: limit of the workspace in bytes; 0: none. attn_mla_decode_gather_plan()
    chooses."""
    shape = ffi.new("struct attn_mla_decode_gather_shape *", {
        "size": ffi.sizeof("struct attn_mla_decode_gather_shape"), "queries": queries, "entries": entries, "rows": rows,
        "launches": launches, "compute_units": op.device.compute_units, "bytes_most": bytes_most})
    target = ffi.new("char[]", op.device.target.encode())
    shape.target = target
    room = ffi.new("struct attn_mla_decode_gather *")
    check(_native.lib.attn_mla_decode_gather_plan(op._descriptor(op.desc), shape, room))
    return room.rows


class Lists:
    """The tensors of a plan on the device, for at most `batch` sequences, and the memory of partial results [rows,
    heads, head_dim_v]. If q_tile is not 0, sequences are planned as tiles of q_tile query tokens, for at most `tokens`
    query tokens. plan() launches the plan kernel on a stream, so that each replay of a captured graph plans anew."""

    def __init__(self, device, *, batch, q_len, heads, kv_heads, head_dim_v, lists=0, window=0,
                 item_cost=0, merge_rate=0, q_tile=0, tokens=0, window_right=0, unit_keys=0):
        self.lists = lists or max(device.compute_units, kv_heads)
        self.tiles = {"q_tile": q_tile, "tokens": tokens, "window_right": window_right}
        sizes = room_of(batch, q_len, heads, kv_heads, self.lists, window, **self.tiles)
        self.rows, self.partials = sizes.partial_rows, sizes.partials
        self.shape = {"q_len": q_len, "heads": heads, "kv_heads": kv_heads, "window": window,
                      "item_cost": item_cost, "merge_rate": merge_rate, "unit_keys": unit_keys, **self.tiles}
        self.op, self.batch, self.device = device.plan(q_tiles=q_tile > 0), batch, device
        self.buffers = {n: device.empty(s, "int32") for n, s in (
            ("work_indptr", (self.lists + 1,)), ("work_info", (sizes.work_items, 8)),
            ("reduce_partial_map", (max(sizes.partials, 1),)))}
        # Smaller batches use the first elements, so that all sizes share the memory.
        self.ends, self.tokens_of = device.empty((sizes.tiles + 1,), "int32"), device.empty((sizes.tiles, 2), "int32")
        self._sized = {}
        rows = max(self.rows, 1)
        self.partial_out = device.empty((rows, heads, head_dim_v), "float32")
        self.partial_lse = device.empty((rows, heads), "float32")

    def of(self, batch):
        """Returns the plan's tensors by name, with the sizes for `batch` sequences."""
        if batch > self.batch:
            raise AttnError("ATTN_BAD_ARGUMENT",
                            f"a batch of {batch} sequences, planned for at most {self.batch}")
        if batch not in self._sized:
            shape = self.shape
            tiles = room_of(batch, shape["q_len"], shape["heads"], shape["kv_heads"], self.lists,
                            shape["window"], **self.tiles).tiles
            self._sized[batch] = dict(self.buffers, reduce_indptr=self.ends.first(tiles + 1),
                                      reduce_final_map=self.tokens_of.first(tiles))
            if shape["q_tile"]:
                self._sized[batch]["tile_info"] = self.device.empty((5, tiles), "int32")
        return self._sized[batch]

    def plan(self, kv_lens, qo_indptr=None, stream=None):
        self.op(kv_lens=kv_lens, qo_indptr=qo_indptr, **self.of(kv_lens.shape[0]), **self.shape,
                stream=stream)


def mask_of(mask, window_left, chunk):
    """Returns (the mask that these arguments select, the numbers of a call with this mask by name)."""
    if (window_left >= 0) + (chunk > 0) + (mask not in ("causal", "window", "chunk")) > 1:
        raise AttnError("ATTN_BAD_ARGUMENT",
                        f"mask {mask}, window_left {window_left} and chunk {chunk} exclude each other")
    if window_left >= 0 or mask == "window":
        return "window", {"window_left": window_left, "window_right": 0}
    return ("chunk", {"chunk": chunk}) if chunk else (mask, {})


class BatchDecode:
    """Decode of a batch over a paged cache: up to q_len queries a sequence, split over the keys.

    With split=True the pack needs kernels of plan and combine (partials: csr) besides decode. With one_launch=True
    decode's own kernel (one_launch: true) adds up the parts, and no combine is needed. `lists` is the number of
    work lists of a launch; one or several workgroups process each. The default is choose_split() for max_batch sequences of about kv_len keys, with the
    planner's costs. If one_launch is None and lists is 0, decode takes one launch if the pack has the kernel, unless
    tuning chose a combine; self.split has the choice. `chunk` is the number of keys in a chunk of Llama 4's mask; 0: no
    chunks. All memory is allocated at construction, for max_batch sequences."""

    def __init__(self, device, *, dtype, head_dim, heads, kv_heads, cache, max_batch, q_len=1,
                 head_dim_v=0, mask="causal", window_left=-1, sinks=False, soft_cap=0.0, lse=False,
                 scale=0.0, logits=None, page_table="blocks", split=True, lists=0, chunk=0,
                 one_launch=None, q_dtype=None, q_scale="tensor", kv_len=0):
        self.device, self.heads, self.head_dim_v = device, heads, head_dim_v or head_dim
        self.q_len, self.lse = q_len, lse
        mask, more = mask_of(mask, window_left, chunk)
        self.numbers = {"scale": scale, "soft_cap": soft_cap, **more}
        desc = dict(dtype=dtype, head_dim=head_dim, head_dim_v=head_dim_v, heads=heads,
                    kv_heads=kv_heads, q_len=q_len, mask=mask, sinks=sinks, soft_cap=soft_cap > 0,
                    lse=lse, logits=logits, cache=cache, page_table=page_table, q_dtype=q_dtype,
                    q_scale=q_scale)
        self.op = device.decode(**desc, one_launch=bool(one_launch))
        self.made = dtype_name(dtype) if q_dtype else None  # element type of the output; None: q's
        self.combine = self.lists = self.tickets = self.split = None
        if split or one_launch:
            self.split = Split(lists, one_launch=bool(one_launch)) if lists else choose_split(
                self.op, max_batch, kv_len)
        if self.split and self.split.lists:
            one_launch = self._launches_once(device, desc, one_launch, None if lists else (max_batch, kv_len))
            window = window_left + 1 if mask == "window" else chunk
            self.lists = Lists(device, batch=max_batch, q_len=q_len, heads=heads, kv_heads=kv_heads,
                               head_dim_v=self.head_dim_v, lists=self.split.lists, window=window,
                               item_cost=self.split.item_cost, merge_rate=self.split.merge_rate)
        if self.lists and one_launch:
            self.tickets = device.array([[[0] * 32] * kv_heads] * max_batch, "int32")
        elif self.lists:
            self.combine = device.combine(dtype=dtype, head_dim=self.head_dim_v, heads=heads,
                                          partials="csr")
        self._step, self._layers = None, {}

    def _launches_once(self, device, desc, one_launch, step):
        """Returns True if decode adds up the parts in its own launch, and then sets self.op to that kernel. one_launch
        is the caller's choice. If the choice is None, a tuned split decides. Without tuning the result is True if the
        pack has the kernel, and self.split becomes the split for that kernel. `step`: (sequences, keys of one); None if
        the caller gave lists."""
        untuned = step and not self.split.tuned
        if one_launch is not None or not (untuned or self.split.one_launch):
            return bool(one_launch)
        try:
            self.op = device.decode(**desc, one_launch=True)
        except AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                raise
            return False
        if untuned:
            self.split = choose_split(self.op, *step)
        return True

    def plan(self, kv_lens, *, block_table=None, kv_indptr=None, kv_indices=None, qo_indptr=None,
             stream=None):
        """Plans a step from its lengths and pages, tensors on the device. Engines should pass the same tensors in each
        step, with new contents: run() then needs no checks."""
        step = {"kv_lens": kv_lens, "block_table": block_table, "kv_indptr": kv_indptr,
                "kv_indices": kv_indices, "qo_indptr": qo_indptr}
        if not self._step or any(step[n] is not self._step[n] for n in step):
            self._step = step
            self._layers.clear()
        if self.lists:
            self.lists.plan(kv_lens, qo_indptr, stream)

    def run(self, q, k_cache, v_cache, *, out=None, lse=None, k_scale=None, v_scale=None, sinks=None,
            q_scale=None, stream=None):
        """Computes a layer. Returns out, or (out, lse). If out or lse is None, the call allocates it; inside a captured
        graph both have to be given. run() is fastest if scales, sinks and caches are the same tensors in each step."""
        layer = self._layers.get(id(k_cache))
        at = 0 if stream is None else stream_handle(stream)
        if (layer is not None and layer[0] is k_cache and layer[1] is v_cache and
                layer[2] is k_scale and layer[3] is v_scale and layer[4] is sinks and
                layer[5] is q_scale):
            if out is not None and not self.lse:
                if layer[6](at, q, out):
                    if layer[7] is not None:
                        layer[7](at, out)
                    return out
        else:
            layer = None
        return self._run(layer, q, out, lse, (k_cache, v_cache, k_scale, v_scale, sinks, q_scale), at)

    def launcher(self):
        """Returns a fast function run(q, k_cache, v_cache, out, stream) for layers without further tensors;
        `stream` is a hipStream_t as a number. PyTorch's operators use it."""
        layers, run = self._layers, self.run

        def launch(q, k_cache, v_cache, out, at):
            layer = layers.get(id(k_cache))
            if (layer is None or layer[8] or layer[0] is not k_cache or layer[1] is not v_cache or
                    not layer[6](at, q, out)):
                run(q, k_cache, v_cache, out=out, stream=at)
            elif layer[7] is not None:
                layer[7](at, out)

        return launch

    def _run(self, layer, q, out, lse, fixed, at):
        """Runs a layer on the slow path: its tensors are new or have another shape, or the caller gave no outputs."""
        out, lse = outputs(self, q, out, lse)
        moving = (out, lse) if self.lse else (out,)
        if layer is None or not layer[6](at, q, *moving):
            layer = self._learn(q, out, lse, fixed)
            if not layer[6](at, q, *moving):
                raise Bound._unlike("q")
        if layer[7] is not None:
            layer[7](at, *moving)
        return (out, lse) if self.lse else out

    def _learn(self, q, out, lse, fixed):
        """Binds the launches of a layer that was not seen before, and keeps them. At LAYERS layers it first drops all
        others, so that callers with new caches in each call do not use up memory."""
        if len(self._layers) >= LAYERS:
            self._layers.clear()
        decode, combine = self._bind(q, out, lse, fixed)
        names = ("out", "lse") if self.lse else ("out",)
        more = self.lse or any(x is not None for x in fixed[2:])
        layer = (*fixed, decode.launcher("q", *names), combine and combine.launcher(*names), more)
        self._layers[id(fixed[0])] = layer
        return layer

    def _bind(self, q, out, lse, fixed):
        k_cache, v_cache, k_scale, v_scale, sinks, q_scale = fixed
        call = dict(self._step, q=q, out=out, lse=lse, k_cache=k_cache, v_cache=v_cache,
                    k_scale=k_scale, v_scale=v_scale, sinks=sinks, q_scale=q_scale, **self.numbers)
        if not self.lists:
            return self.op.bind(**call), None
        batch = self._step["kv_lens"].shape[0]
        plan, joined = self.lists.of(batch), {}
        if self.tickets is not None:
            joined = {"tickets": self.tickets.first(batch), "reduce_indptr": plan["reduce_indptr"],
                      "reduce_partial_map": plan["reduce_partial_map"]}
        decode = self.op.bind(**call, work_indptr=plan["work_indptr"], work_info=plan["work_info"],
                              partial_out=self.lists.partial_out, partial_lse=self.lists.partial_lse,
                              partial_rows=self.lists.rows, **joined)
        if not self.combine:
            return decode, None
        combine = self.combine.bind(
            out=out, lse=lse, sinks=sinks, partial_out=self.lists.partial_out,
            partial_lse=self.lists.partial_lse, reduce_indptr=plan["reduce_indptr"],
            reduce_final_map=plan["reduce_final_map"],
            reduce_partial_map=plan["reduce_partial_map"], q_len=self.q_len,
            partial_rows=self.lists.rows)
        return decode, combine


class BatchStep:
    """A decode step of a layer in one launch of rope_decode: bias, norm and rotation of new tokens, their write into
    the cache, and attention. A step has up to 64 sequences with up to q_len new tokens each.

    The pack needs a kernel of rope_decode. With one_launch=True keys are split over workgroups, and the pack needs a
    kernel of plan too. rope, rotary_dim, norm, bias and cos_sin_short mean the same as in rope_qk_norm_cache. All
    memory is allocated at construction, for max_batch sequences of about kv_len keys. `decode`: a BatchDecode of the
    same layer, sequences and q_len. Its plan(), work lists and partial results then serve the BatchStep too, and
    BatchStep.plan() must not be called."""

    def __init__(self, device, *, dtype, head_dim, heads, kv_heads, cache, max_batch, q_len=1, rope="neox",
                 rotary_dim=0, norm="none", bias=False, cos_sin_short=False, mask="causal", window_left=-1,
                 sinks=False, soft_cap=0.0, lse=False, scale=0.0, eps=0.0, page_table="blocks", chunk=0,
                 one_launch=True, lists=0, kv_len=0, decode=None):
        self.heads, self.head_dim_v, self.q_len, self.lse = heads, head_dim, q_len, lse
        self.made = self.lists = self.tickets = self._step = None
        self.decode = decode
        mask, more = mask_of(mask, window_left, chunk)
        self.numbers = {"scale": scale, "soft_cap": soft_cap, "eps": eps, **more}
        self.op = device.rope_decode(
            dtype=dtype, head_dim=head_dim, heads=heads, kv_heads=kv_heads, q_len=q_len, mask=mask, sinks=sinks,
            soft_cap=soft_cap > 0, lse=lse, one_launch=one_launch, rope=rope, rotary_dim=rotary_dim,
            cos_sin_short=cos_sin_short, norm=norm, bias=bias, cache=cache, page_table=page_table)
        if not one_launch:
            return
        if decode:
            self.lists, self.tickets = decode.lists, decode.tickets
        else:
            split = Split(lists) if lists else choose_split(self.op, max_batch, kv_len)
            self.lists = Lists(device, batch=max_batch, q_len=q_len, heads=heads, kv_heads=kv_heads,
                               head_dim_v=head_dim, lists=split.lists, item_cost=split.item_cost,
                               merge_rate=split.merge_rate, window=window_left + 1 if mask == "window" else chunk)
        if self.lists and self.tickets is None:
            self.tickets = device.array([[[0] * 32] * kv_heads] * max_batch, "int32")

    def plan(self, kv_lens, *, block_table=None, kv_indptr=None, kv_indices=None, qo_indptr=None, stream=None):
        """Takes a step's lengths, which include the new tokens, and its pages: tensors on the device. Launches plan if keys
        are split."""
        self._step = {"kv_lens": kv_lens, "block_table": block_table, "kv_indptr": kv_indptr,
                      "kv_indices": kv_indices, "qo_indptr": qo_indptr}
        if self.lists:
            self.lists.plan(kv_lens, qo_indptr, stream)

    def run(self, q, k, v, k_cache, v_cache, *, positions=None, cos_sin=None, out=None, lse=None, stream=None, **layer):
        """Launches a layer: q, k and v [tokens, heads, D] are the output of the QKV projection. `layer` has the other
        tensors that rope_decode reads: q_weight, k_weight, q_bias, k_bias, v_bias, k_scale, v_scale, sinks. Returns
        out, or (out, lse)."""
        if self.decode:
            self._step = self.decode._step
        out, lse = outputs(self, q, out, lse)
        work = {}
        if self.lists:
            batch = self._step["kv_lens"].shape[0]
            plan = self.lists.of(batch)
            work = {n: plan[n] for n in ("work_indptr", "work_info", "reduce_indptr", "reduce_partial_map")}
            work.update(partial_out=self.lists.partial_out, partial_lse=self.lists.partial_lse,
                        partial_rows=self.lists.rows, tickets=self.tickets.first(batch))
        self.op(q=q, k=k, v=v, k_cache=k_cache, v_cache=v_cache, positions=positions, cos_sin=cos_sin, out=out,
                lse=lse, q_len=self.q_len, **layer, **work, **self._step, **self.numbers, stream=stream)
        return (out, lse) if self.lse else out


class BatchPrefill:
    """Prefill of packed sequences. Keys and values are packed tensors, or with `cache` the pages of a cache.

    With a cache, max_batch and max_tokens, keys are split over the compute units, and a step may have sequences of one
    query and of thousands. max_batch bounds the sequences of a step, max_tokens their query tokens together.
    choose_split() gets max_batch, max_tokens and kv_len, the approximate number of keys of a sequence; 0: unknown. The
    pack needs kernels of prefill (planned: true), plan (q_tiles: true) and combine (partials: csr), or of prefill with
    one_launch: true, which needs no combine. planned=True demands these kernels, planned=False does not use them, None
    uses them if the pack has them. Memory is allocated at construction. self.lists is None if keys are not split."""

    def __init__(self, device, *, dtype, head_dim, heads, kv_heads, cache=None, head_dim_v=0,
                 mask="causal", window_left=-1, sinks=False, soft_cap=0.0, lse=False, scale=0.0,
                 logits=None, page_table="blocks", chunk=0, planned=None, max_batch=0, max_tokens=0, kv_len=0):
        self.heads, self.head_dim_v, self.lse = heads, head_dim_v or head_dim, lse
        self.made = self.lists = self.tickets = None
        mask, more = mask_of(mask, window_left, chunk)
        self.paged = cache is not None
        desc = dict(dtype=dtype, head_dim=head_dim, head_dim_v=head_dim_v, heads=heads,
                    kv_heads=kv_heads, mask=mask, sinks=sinks, soft_cap=soft_cap > 0, lse=lse,
                    logits=logits, paged=self.paged, cache=cache, page_table=page_table)
        if planned or (planned is None and self.paged and max_batch and max_tokens):
            right = {"none": -1, "custom": -1, "blocks": -1}.get(mask, 0)
            self._plan_tiles(device, desc, planned, kv_len, batch=max_batch, q_len=max_tokens,
                             tokens=max_tokens, window_right=right,
                             window=window_left + 1 if mask == "window" else chunk)
        if not self.lists:
            self.op = device.prefill(**desc)
        self.numbers = {"scale": scale, "soft_cap": soft_cap, **more}
        self._step = None

    def _plan_tiles(self, device, desc, planned, kv_len, **room):
        """Looks up the kernels of a planned call and allocates its plan, if the pack has them."""
        try:
            self._plan_ops(device, desc, room["batch"])
            split = choose_split(self.op, room["batch"], kv_len, tokens=room["tokens"],
                                 window=room["window"] if desc["mask"] == "window" else 0)
            self.lists = Lists(device, heads=self.heads, kv_heads=desc["kv_heads"],
                               head_dim_v=self.head_dim_v, lists=split.lists, q_tile=split.q_tile,
                               item_cost=split.item_cost, merge_rate=split.merge_rate, **room)
            if self.op.desc["one_launch"]:
                self.tickets = device.array([[0] * 32] * max(self.lists.partials * desc["kv_heads"], 1), "int32")
        except AttnError as e:
            if planned or e.status != "ATTN_NO_KERNEL":
                raise

    def _plan_ops(self, device, desc, batch):
        """Looks up the planned kernel that adds up its parts, or else one with a combine. A batch of several sequences
        prefers the combine, since its parts end at different times."""
        first = batch == 1
        try:
            self._plan_op(device, desc, first)
        except AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                raise
            self._plan_op(device, desc, not first)

    def _plan_op(self, device, desc, once):
        self.op = device.prefill(**desc, planned=True, one_launch=once)
        if not once:
            self.combine = device.combine(dtype=desc["dtype"], head_dim=self.head_dim_v,
                                          heads=self.heads, partials="csr")

    def plan(self, cu_seqlens_q, max_seqlen_q, *, cu_seqlens_k=None, max_seqlen_k=0, kv_lens=None,
             block_table=None, kv_indptr=None, kv_indices=None, custom_mask=None, mask_indptr=None, stream=None):
        """Takes a step's lengths. Packed keys have cu_seqlens_k, by default cu_seqlens_q; a cache has kv_lens and
        pages. With mask="custom" or "blocks" the mask is given, too. Launches the plan kernel on `stream` if keys are
        split."""
        step = {"cu_seqlens_q": cu_seqlens_q, "max_seqlen_q": max_seqlen_q,
                "max_seqlen_k": max_seqlen_k}
        if custom_mask is not None:
            step.update(custom_mask=custom_mask, mask_indptr=mask_indptr)
        if self.paged:
            step.update(kv_lens=kv_lens, block_table=block_table, kv_indptr=kv_indptr,
                        kv_indices=kv_indices)
        else:
            step["cu_seqlens_k"] = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
        self._step = step
        if self.lists:
            self.lists.plan(kv_lens, cu_seqlens_q, stream)

    def run(self, q, k, v, *, out=None, lse=None, k_scale=None, v_scale=None, sinks=None, stream=None):
        """Computes a layer. k and v are tensors [tokens, kv heads, D], or the caches. Returns out, or (out, lse)."""
        out, lse = outputs(self, q, out, lse)
        keys = ({"k_cache": k, "v_cache": v, "k_scale": k_scale, "v_scale": v_scale} if self.paged
                else {"k": k, "v": v})
        work, plan = {}, None
        if self.lists:
            plan = self.lists.of(self._step["kv_lens"].shape[0])
            work = {n: plan[n] for n in ("work_indptr", "work_info")}
            work.update(partial_out=self.lists.partial_out, partial_lse=self.lists.partial_lse,
                        partial_rows=self.lists.rows, q_tile=self.lists.shape["q_tile"])
        if self.tickets is not None:
            work.update(tickets=self.tickets, **{n: plan[n] for n in ("reduce_indptr", "reduce_partial_map")})
        self.op(q=q, out=out, lse=lse, sinks=sinks, **keys, **work, **self._step, **self.numbers,
                stream=stream)
        if plan and self.tickets is None:
            self.combine(out=out, lse=lse, sinks=sinks, partial_out=self.lists.partial_out,
                         partial_lse=self.lists.partial_lse,
                         reduce_indptr=plan["reduce_indptr"],
                         reduce_final_map=plan["reduce_final_map"],
                         reduce_partial_map=plan["reduce_partial_map"],
                         q_len=self.lists.shape["q_tile"], partial_rows=self.lists.rows,
                         stream=stream)
        return (out, lse) if self.lse else out


def outputs(call, q, out, lse):
    """Returns (out, lse) for a call with query q: the caller's, or new tensors for the ones that are None."""
    if not call._step:
        raise AttnError("ATTN_BAD_ARGUMENT", "run() before plan()")
    if out is None:
        out = new_like(q, (*q.shape[:2], call.head_dim_v), call.made and sixteen_bits(q, call.made))
    if lse is None and call.lse:
        lse = new_like(q, (call.heads, q.shape[0]), float_of(q))
    return out, lse


def sixteen_bits(x, name):
    """Returns the dtype of x's library for `name`, bf16 or fp16. numpy has uint16 for bf16."""
    if hasattr(x, "new_empty"):
        return sys.modules["torch"].bfloat16 if name == "bf16" else sys.modules["torch"].float16
    return "uint16" if name == "bf16" else "float16"


def float_of(x):
    """Returns the dtype float32 of x's library."""
    return sys.modules["torch"].float32 if hasattr(x, "new_empty") else "float32"
