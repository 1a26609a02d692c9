# SPDX-License-Identifier: Apache-2.0
"""ATOM's own kernels for DeepSeek-V4 (atom.model_ops.v4_kernels and sparse_attn_v4): norm and rotation of queries and
rows, writes of the window's rows, attention to lists of rows, and the inverse rotation of attention's output. Also
AITER's inverse rotation to fp8."""
import sys
import types

from attn.aiter import _common as c
from attn.aiter import _helpers
from attn.aiter._cache import heads_of, write
from attn.aiter._sparse import PLANE_ROW, ROTATED, attend, joined_queries, merged, scaled_rows, two_lists
from attn.attention import new_like


def planes(narrow, wide):
    """Returns rows that lie in two tensors as views: `narrow` as [rows, 512] bytes, `wide` as [rows, 64]."""
    return c.view(narrow, -1, PLANE_ROW), c.view(wide, -1, ROTATED)


def sparse_attn_v4_paged_decode(q, unified_kv, kv_indices, kv_indptr, attn_sink, softmax_scale, kv_scales=None, unified_kv_rope=None,
                                q_packed_in=None, q_rope_in=None, qo_indptr=None, kv_last_page_lens=None, prefix=""):
    """Decodes over lists of rows of a pool in 16 bits. With unified_kv_rope the pool's rows lie in two tensors, and
    q_packed_in and q_rope_in are the queries. Returns a new output."""
    call = "sparse_attn_v4_paged_decode"
    pool = unified_kv
    if kv_scales is not None:
        c.refuse(call, kv_scales=(unified_kv_rope is not None, "rows in two tensors have no scales of their own"))
        pool, kv_indices = scaled_rows(call, q, pool, kv_scales, kv_indices)
    if unified_kv_rope is not None:
        q, pool = joined_queries(call, q_packed_in, q_rope_in), planes(unified_kv, unified_kv_rope)
    return attend(call, q, pool, kv_indices, kv_indptr[:q.shape[0] + 1], attn_sink, softmax_scale)


def sparse_attn_v4_paged_prefill(q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend, kv_indptr_extend,
                                 attn_sink, softmax_scale, out=None, *, unified_kv_rope=None, q_packed=None, q_rope=None,
                                 k_packed=None, k_rope=None, prefix=""):
    """Computes prefill over lists of rows of a pool and of kv, the rows of this pass, in 16 bits. With unified_kv_rope
    rows lie in two tensors: q_packed and q_rope are the queries, k_packed and k_rope the rows of this pass. Returns
    out, which is allocated if it is None."""
    call = "sparse_attn_v4_paged_prefill"
    first, then = (kv_indices_prefix, kv_indptr_prefix), (kv_indices_extend, kv_indptr_extend)
    if unified_kv_rope is None:
        return two_lists(call, q, unified_kv, *first, kv, *then, attn_sink, softmax_scale, out)
    q, pool = joined_queries(call, q_packed, q_rope), planes(unified_kv, unified_kv_rope)
    if k_packed is None or k_packed.shape[0] == 0:
        return attend(call, q, pool, *first, attn_sink, softmax_scale, out)
    indices, starts = merged(*first, *then, pool[0].shape[0])
    return attend(call, q, pool, indices, starts, attn_sink, softmax_scale, out, planes(k_packed, k_rope))


def sparse_attn_ragged(q, kv, attn_sink, topk_idxs, softmax_scale):
    """Attends with q [tokens, heads, D] to the rows topk_idxs [tokens, k] of kv [rows, D]. An entry below 0 names no
    row."""
    tokens, k = topk_idxs.shape
    starts = c.arange(topk_idxs, tokens + 1) * k
    return attend("sparse_attn_ragged", q, kv, c.cast(c.view(topk_idxs, tokens * k), "int32"), starts, attn_sink, softmax_scale)


def sparse_attn(q, kv, attn_sink, topk_idxs, softmax_scale):
    """Attends with q [batch, queries, heads, D] to the rows topk_idxs [batch, queries, k] of each sequence's kv [batch,
    rows, D]."""
    batch, queries, heads, dim = q.shape
    rows, k = kv.shape[1], topk_idxs.shape[2]
    first = c.arange(topk_idxs, batch)[:, None, None] * rows
    entries = c.where(topk_idxs < 0, topk_idxs, topk_idxs + first)
    out = sparse_attn_ragged(c.view(q, batch * queries, heads, dim), c.view(kv, batch * rows, dim), attn_sink,
                             c.view(entries, batch * queries, k), softmax_scale)
    return c.view(out, batch, queries, heads, dim)


def table_of(s, cos, sin):
    """Returns one float32 table [positions, 2 n] from cosines and sines [positions, ..., n] of any dimensions. The
    table is made once for a pair."""
    return s.made.of("cos_sin_f32", (cos, sin), lambda a, b: c.cast(c.join(
        c.view(a, a.shape[0], -1), c.view(b, b.shape[0], -1)), "float32"))


def rotate(x, out, cos, sin, positions, width, norm="none", weight=None, eps=0.0, backwards=False):
    """Writes x [tokens, heads, D] to out with the last `width` elements of each head rotated, after a norm unless it is
    "none". `backwards`: True for the inverse rotation."""
    tokens, heads, dim = x.shape
    s = c.session(x)
    s.op("rope_heads", dtype=c.dtype(x), head_dim=dim, heads=heads, norm=norm, rope="gptj", rotary_dim=width)(
        x=x, out=out, weight=weight, positions=c.cast(positions[:tokens], "int64"), cos_sin=table_of(s, cos, sin),
        rotary_first=dim - width, eps=float(eps), backwards=backwards, stream=c.stream(x))


def inverse_rope_inplace(x, cos, sin, positions, rope_dim, prefix=""):
    """Rotates the last rope_dim elements of each head of x [tokens, heads, D] back, in place."""
    rotate(x, x, cos, sin, positions, rope_dim, backwards=True)


RUN, TILE = 128, 32  # elements that share a scale; rows of a tile of scales in the layout "mfma_tile"


def place_scales(scales, layout, tokens, groups, x_scale):
    """Writes scales [rows, runs], float32 powers of two, as bytes of e8m0 to x_scale, which is allocated if it is None.
    "row" is [tokens, groups, runs of a group]; "mfma_tile" is [groups, rows, runs of a group] in AITER's order of tiles
    of 32 rows. Returns x_scale."""
    rows, runs = scales.shape[0], scales.shape[1] // groups
    shape = (tokens, groups, runs) if layout == "row" else (groups, rows, runs)
    if x_scale is None:
        x_scale = new_like(scales, shape, _helpers.dtype("fp8_e8m0")) if c.is_torch(scales) else c.octets(scales, shape)
    exponents, out = c.cast(c.reinterpret(scales, "int32") >> 23, "uint8"), c.bytes_of(x_scale)
    if layout == "row":
        out[:, :, :runs] = c.view(exponents, rows, groups, runs)
        return x_scale
    tiles = c.view(exponents, rows // TILE, 2, TILE // 2, groups, runs // 2, 2)
    places = c.view(out, groups, out.shape[1] // TILE, out.shape[2] // 2, TILE // 2, 2, 2)
    places[:, :rows // TILE, :runs // 2] = c.permute(tiles, (3, 0, 4, 2, 5, 1))
    return x_scale


def inverse_rope_group_quant(o, positions, cos_cache, sin_cache, num_groups, quant_group_size=128, scale_layout="row", x_fp8=None,
                             x_scale=None, scale_shuffle=False):
    """Rotates the last elements of each head of o [tokens, heads, D] back, and rounds all to fp8. The scale of 128
    elements is a power of two. Returns (x_fp8 [tokens, num_groups, heads * D / num_groups], x_scale of e8m0), which are
    allocated if they are None. Scales of padding rows are undefined."""
    call, (tokens, heads, dim) = "inverse_rope_group_quant", o.shape
    c.refuse(call, quant_group_size=(quant_group_size != RUN, f"{quant_group_size} elements share a scale: here {RUN} do"),
             scale_layout=(scale_layout not in ("row", "mfma_tile"), f"{scale_layout!r}: scales are by rows, or in tiles of 32 rows"),
             x_scale=(scale_layout == "mfma_tile" and heads * dim // num_groups // RUN % 2 != 0,
                      "a tile has two scales of a row: a group has an odd number of scales"),
             scale_shuffle=(bool(scale_shuffle), "an older AITER's order of scales"),
             num_groups=(heads % num_groups != 0, f"{num_groups} groups do not divide {heads} heads"))
    if x_fp8 is None:
        shape = (tokens, num_groups, heads * dim // num_groups)
        x_fp8 = new_like(o, shape, _helpers.fp8()) if c.is_torch(o) else c.octets(o, shape)
    s, width = c.session(o), 2 * cos_cache.shape[-1]
    rows = tokens if scale_layout == "row" else -(-tokens // TILE) * TILE
    scales = c.floats(o, (rows, heads * dim // RUN))
    s.op("rope_heads", dtype=c.dtype(o), out_dtype="fp8", head_dim=dim, heads=heads, norm="none", rope="gptj", rotary_dim=width)(
        x=o, out=c.view(x_fp8, tokens, heads, dim), out_scale=scales[:tokens], positions=c.cast(positions[:tokens], "int64"),
        cos_sin=table_of(s, cos_cache, sin_cache), rotary_first=dim - width, backwards=True, power_of_two_scales=True,
        stream=c.stream(o))
    return x_fp8, place_scales(scales, scale_layout, tokens, num_groups, x_scale)


def answer(**fields):
    """Returns ATOM's QKNormRopeOut with these fields, or without ATOM an object with its fields."""
    module = sys.modules.get("atom.model_ops.v4_kernels.qk_norm_rope_maybe_quant")
    if module is not None:
        return module.QKNormRopeOut(**fields)
    names = ("q_sa", "kv", "q_scale", "kv_scale", "q_packed", "q_rope", "k_packed", "k_rope")
    return types.SimpleNamespace(**{**dict.fromkeys(names), **fields})


def qk_norm_rope_maybe_quant(q, kv, kv_weight, cos_cache, sin_cache, positions, n_local_heads, head_dim, rope_head_dim, eps,
                             quant_q=False, quant_k=False, swa_kv=None, swa_dest_rows=None, batch_id_per_token=None, prefix="", *,
                             fp8_2buff=False, swa_nope_scale_buff=None, swa_rope_buff=None, swa_block_tables=None,
                             swa_block_size=None, swa_cu_seqlens_q=None, swa_write_per_batch=None):
    """Norms and rotates q [tokens, heads * D], without a weight in the norm, and kv [tokens, D]. Returns ATOM's
    QKNormRopeOut with both in new tensors. With swa_kv, a pool, rows of kv also go to the pool's rows swa_dest_rows,
    except for tokens whose batch_id_per_token is below 0. With swa_block_tables the rows follow from positions, as in
    swa_write()."""
    call = "qk_norm_rope_maybe_quant"
    two = "fused_qk_norm_rope_group_quant of AITER writes them"
    c.refuse(call, quant_q=(quant_q or quant_k, "one scale for a row of fp8 is not written"),
             fp8_2buff=(fp8_2buff, f"queries and rows in two tensors: {two}"))
    tokens = kv.shape[0]
    heads, rows = heads_of(q, n_local_heads, head_dim), heads_of(kv, 1, head_dim)
    q_out, kv_out = new_like(q, (tokens, n_local_heads, head_dim)), new_like(kv, (tokens, head_dim))
    rotate(heads, q_out, cos_cache, sin_cache, positions, rope_head_dim, "rms", eps=eps)
    rotate(rows, c.view(kv_out, tokens, 1, head_dim), cos_cache, sin_cache, positions, rope_head_dim, "rms", kv_weight, eps)
    if swa_kv is not None:
        if swa_block_tables is not None:
            sequences = c.most(c.cast(batch_id_per_token[:tokens], "int64"), 0)
            swa_dest_rows = page_rows(positions[:tokens], sequences, swa_block_tables, swa_block_size)
        swa_scatter_rows(kv_out, swa_dest_rows, batch_id_per_token, swa_kv)
    return answer(q_sa=q_out, kv=kv_out)


TWO_TENSORS = "rows in two tensors are copied by ATOM's own kernel"


def scatter(call, kv, slots, pool, *packed):
    """Writes rows of kv [tokens, D] to the rows `slots` of a pool [rows, D]. A slot outside of the pool is not written,
    as in ATOM. The two halves of a row are passed to the kernel as a key and a value."""
    c.refuse(call, k_packed=(any(x is not None for x in packed), TWO_TENSORS),
             pool=(c.dtype(pool) != c.dtype(kv), f"rows are {c.dtype(kv)}, the pool {c.dtype(pool)}"))
    half, pages = kv.shape[1] // 2, pool[:, None, None]
    slots = c.where(slots < pool.shape[0], slots, slots * 0 - 1)
    write(call, kv[:, None, :half], kv[:, None, half:], pages[..., :half], pages[..., half:], slots, shuffled=False)


def swa_scatter_rows(kv, dest_rows, batch_id_per_token, pool, *, k_packed=None, k_rope=None, pool_rope=None, prefix=""):
    """Writes rows of kv [tokens, D] to the rows dest_rows of a pool in 16 bits. Tokens whose batch_id_per_token is
    below 0 are not written."""
    tokens = kv.shape[0]
    there = batch_id_per_token[:tokens] >= 0
    scatter("swa_scatter_rows", kv, c.where(there, dest_rows[:tokens], dest_rows[:tokens] * 0 - 1), pool, k_packed, k_rope, pool_rope)


def page_rows(positions, sequences, tables, size):
    """Returns the pool's row for each token, [tokens], from the token's position and sequence, both int64 [tokens].
    tables [sequences, pages] has the pages of a sequence, `size` tokens each."""
    at = c.cast(positions, "int64")
    return c.cast(tables[sequences, at // size], "int64") * size + at % size


def ring_rows(positions, sequences, slots, window):
    """Returns the pool's row for each token, [tokens], from the token's position and sequence, both int64 [tokens].
    slots [sequences] has the slot of a sequence's ring of rows. `window` is ATOM's WindowParams: ring_start,
    ring_slots, slot_rows, ring_stride, run_rows."""
    ring, slot = c.cast(positions, "int64") % window.ring_slots, c.cast(slots[sequences], "int64")
    return slot * window.slot_rows + window.ring_start + ring // window.ring_stride * window.run_rows + ring % window.ring_stride


def swa_write(kv, positions, cu_seqlens_q, state_slot_per_seq, pool, window, write_per_batch, *, k_packed=None, k_rope=None,
              pool_rope=None, swa_region_rope=None, prefix=""):
    """Writes the last write_per_batch rows of each sequence's kv to its window in a pool of 16 bits, by ring_rows(). An
    older ATOM passes tables of pages as state_slot_per_seq and the tokens of a page as `window`: then page_rows() gives
    the rows."""
    packed = (k_packed, k_rope, pool_rope, swa_region_rope)
    if kv is None:  # ATOM passes None if rows lie in two tensors
        c.refuse("swa_write", k_packed=(True, TWO_TENSORS))
    tokens, batch = kv.shape[0], state_slot_per_seq.shape[0]
    at = c.arange(cu_seqlens_q, tokens)
    sequence = c.least(c.place(cu_seqlens_q[1:batch + 1], at), batch - 1)
    end = cu_seqlens_q[sequence + 1]
    there = (at < end) & (at >= end - write_per_batch)
    rows = page_rows if state_slot_per_seq.ndim == 2 else ring_rows
    row = rows(positions[:tokens], c.cast(sequence, "int64"), state_slot_per_seq, window)
    scatter("swa_write", kv, c.where(there, row, row * 0 - 1), pool, *packed)
