# SPDX-License-Identifier: Apache-2.0
"""Decode over all compute units: a batch that has fewer workgroups than these is planned, and its
sequences are split over their keys, where the packs have the kernels for it."""
from attn.aiter import _common as c
from attn.attention import plan_sizes


def parts_of(s, batch, kv_heads, most):
    """Workgroups for each kv head: 0 where each sequence is to be one workgroup. `most` is what a
    call allows for a sequence, or None."""
    units = s.device.compute_units
    if most == 1 or batch == 0 or batch * kv_heads >= units:
        return 0
    parts = min(units // kv_heads, batch * most if most else units)
    return parts if parts > batch else 0


def buffers(s, q, key, shapes):
    """Tensors of a plan and the parts. torch's are of its allocator, which knows streams and graphs;
    others are kept, for a stream and a size."""
    if c.is_torch(q):
        return [c.integers(q, shape) if n < 5 else c.floats(q, shape) for n, shape in enumerate(shapes)]
    kept = s.buffers.get(key)
    if kept is None:
        kept = s.buffers[key] = [
            c.integers(q, shape) if n < 5 else c.floats(q, shape) for n, shape in enumerate(shapes)]
    return kept


def launch(s, kind, desc, call, batch, most=None):
    """Launches decode or mla_decode. `call` has its arguments without work lists; `most` bounds the
    workgroups that a sequence and kv head get, on average: 1 is no split."""
    q, out, op = call["q"], call["out"], s.op(kind, **desc)
    stream, heads, kv_heads = c.stream(q), desc["heads"], desc.get("kv_heads", 1)
    parts = parts_of(s, batch, kv_heads, most)
    joined = {"dtype": desc["dtype"], "head_dim": desc["head_dim_v"], "heads": heads, "partials": "csr"}
    if not parts or not s.has("plan") or not s.has("combine", **joined):
        op(**call, stream=stream)
        return
    window = call["window_left"] + 1 if desc["mask"] == "window" else 0
    shape = (batch, desc["q_len"], heads, kv_heads, parts * kv_heads, window)
    sizes = s.sizes.get(shape)
    if sizes is None:
        sizes = s.sizes[shape] = plan_sizes(*shape)
    items, partials, rows = sizes
    lists, info, tiles, final, partial, part_out, part_lse = buffers(
        s, q, (stream, shape, desc["head_dim_v"]),
        ((shape[4] + 1,), (items, 8), (batch + 1,), (batch, 2), (max(partials, 1),),
         (max(rows, 1), heads, desc["head_dim_v"]), (max(rows, 1), heads)))
    s.op("plan")(kv_lens=call["kv_lens"], qo_indptr=call.get("qo_indptr"), work_indptr=lists,
                 work_info=info, reduce_indptr=tiles, reduce_final_map=final,
                 reduce_partial_map=partial, q_len=desc["q_len"], heads=heads, kv_heads=kv_heads,
                 window=window, stream=stream)
    op(**call, work_indptr=lists, work_info=info, partial_out=part_out, partial_lse=part_lse,
       partial_rows=rows, stream=stream)
    s.op("combine", **joined)(
        out=out, lse=call.get("lse"), sinks=call.get("sinks"), partial_out=part_out,
        partial_lse=part_lse, reduce_indptr=tiles, reduce_final_map=final, reduce_partial_map=partial,
        q_len=desc["q_len"], partial_rows=rows, stream=stream)
