# SPDX-License-Identifier: Apache-2.0
"""AITER's calls for DeepSeek-V4: attention of each query over a list of rows, from one pool or from two sources."""
from attn.aiter import _common as c
from attn.aiter import _split
from attn.attention import new_like

# MIXED_ROW: bytes of a row with 448 of fp8, 64 elements of 16 bits, and scales. A page has a multiple of CHUNK bytes
MIXED_ROW, CHUNK = 584, 16
# A row in two tensors has PLANE_ROW bytes in the first tensor: 448 of fp8, 7 scales of one byte, each twice, and 50
# unused bytes. The second tensor has ROTATED elements of 16 bits.
PLANE_ROW, ROTATED = 512, 64
RUN = 64  # elements of fp8 that share a float32 scale of another tensor


def pool_of(call, q, pool):
    """Returns (descriptor of a pool, its tensors as mla_decode takes them, its number of rows). Pools are [rows, D],
    [pages, P, D] or, of bytes, [pages, P, 584]: the rows of a page, then their scales. A pool in two tensors is a pair:
    [rows, 512] bytes of fp8 and scales, and [rows, 64] elements of 16 bits."""
    if isinstance(pool, tuple):
        cache, tensors = planes_of(call, *pool)
        return cache, tensors, pool[0].shape[0]
    pages, page = pool.shape[0], pool.shape[1] if pool.ndim == 3 else 1
    if pool.ndim == 3 and pool.shape[2] == MIXED_ROW:
        c.refuse(call, unified_kv=(page * MIXED_ROW % CHUNK != 0, f"a page of {page} rows of 584 bytes is no multiple of 16 bytes"))
        rows = c.view(pool, pages, page * MIXED_ROW)
        return c.CacheDesc(dtype="fp8", layout="scales_last", page_size=page), {"k_cache": rows}, pages * page
    c.refuse(call, unified_kv=(c.dtype(pool) != c.dtype(q), f"the pool is {c.dtype(pool)}, queries are {c.dtype(q)}"))
    return c.CacheDesc(page_size=page), {"k_cache": c.view(pool, pages, page, 1, pool.shape[-1])}, pages * page


def planes_of(call, narrow, wide, page=1):
    """Returns (descriptor, tensors) of a cache whose rows lie in two tensors: `narrow` [rows, 512] bytes of fp8 and
    scales, `wide` [rows, 64] elements of 16 bits. A page has `page` rows."""
    rows = c.count(narrow) // PLANE_ROW
    c.refuse(call, rows=(narrow.shape[-1] != PLANE_ROW or wide.shape[-1] != ROTATED or c.count(wide) // ROTATED != rows,
                         f"a row has {narrow.shape[-1]} bytes and {wide.shape[-1]} elements, not 512 and 64"))
    return c.CacheDesc(dtype="fp8", layout="planes", page_size=page), {
        "k_cache": c.view(c.bytes_of(narrow), rows // page, page, 1, PLANE_ROW),
        "v_cache": c.view(c.reinterpret(wide, "uint8"), rows // page, page, 1, 2 * ROTATED)}


def joined_queries(call, narrow, wide):
    """Returns q [tokens, heads, 512] of 16 bits from queries in two tensors. cache_gather reads each head as a row of a
    cache."""
    s, (tokens, heads) = c.session(wide), narrow.shape[:2]
    page = heads & -heads  # largest power of two that divides the heads, since kernels take such page sizes only
    cache, tensors = planes_of(call, narrow, wide, page)
    q = c.rows(wide, (tokens, heads, PLANE_ROW), c.dtype(wide))
    if tokens == 0:
        return q
    rows = c.view(q, tokens * heads, 1, PLANE_ROW)
    s.op("cache_gather", dtype=c.dtype(wide), head_dim=PLANE_ROW - ROTATED, head_dim_v=ROTATED, kv_heads=1, cache=cache)(
        k_out=rows[..., :-ROTATED], v_out=rows[..., -ROTATED:], cu_seqlens_k=c.arange(wide, 2) * (tokens * heads),
        block_table=c.view(c.arange(wide, tokens * heads // page), 1, -1), max_seqlen_k=tokens * heads, **tensors,
        stream=c.stream(wide))
    return q


def scaled_rows(call, q, pool, scales, entries):
    """Returns (rows, entries) of a pool of fp8 [rows, D] with a float32 scale for each RUN elements, scales
    [rows, D / RUN]. The rows are those that the entries of lists name, in q's type: row i has entry i. Entries below 0
    name no row, here as there. cache_gather reads both halves of a row as heads of a key and of a value."""
    dim, n = pool.shape[-1], entries.shape[0]
    c.refuse(call, unified_kv=(pool.ndim != 2 or c.dtype(pool) != "fp8" or dim % (2 * RUN) != 0,
                               f"kv_scales is of rows of fp8, [rows, D] with D a multiple of {2 * RUN}: here "
                               f"{c.dtype(pool)} {tuple(pool.shape)}"),
             kv_scales=(c.dtype(scales) != "f32" or tuple(scales.shape) != (pool.shape[0], dim // RUN),
                        f"{c.dtype(scales)} {tuple(scales.shape)} has no float32 scale for each {RUN} elements of a row"))
    s, half = c.session(q), dim // RUN // 2
    rows = c.rows(q, (n, 2 * half, RUN), c.dtype(q))
    if n == 0:
        return c.view(rows, n, dim), entries
    runs, own = c.view(c.bytes_of(pool), pool.shape[0], 1, 2 * half, RUN), scales[:, :, None]
    named = c.least(c.most(entries, 0), pool.shape[0] - 1)  # entries after the last list may be any number
    s.op("cache_gather", dtype=c.dtype(q), head_dim=RUN, head_dim_v=RUN, kv_heads=half,
         cache=c.CacheDesc(dtype="fp8", scale="token", page_size=1))(
        k_out=rows[:, :half], v_out=rows[:, half:], cu_seqlens_k=c.arange(q, 2) * n, block_table=c.view(named, 1, n),
        max_seqlen_k=n, k_cache=runs[:, :, :half], v_cache=runs[:, :, half:], k_scale=own[:, :half], v_scale=own[:, half:],
        stream=c.stream(q))
    return c.view(rows, n, dim), c.where(entries < 0, entries, c.arange(entries, n))


def merged(first, first_starts, then, then_starts, offset):
    """Returns (entries, starts) of lists that join the two lists of each query. `offset` is added to the second list's
    entries, except negative ones, which name no row."""
    starts = c.cast(first_starts, "int64") + c.cast(then_starts, "int64")
    n, m, rows = first.shape[0], then.shape[0], starts.shape[0] - 1
    if m == 0:
        return first, first_starts
    shifted = c.where(then < 0, then, then + offset)
    if n == 0:
        return shifted, then_starts
    entry = c.arange(first, n + m, "int64")
    row = c.least(c.place(starts[1:], entry), rows - 1)
    own, begin, other = entry - starts[row], c.cast(first_starts, "int64"), c.cast(then_starts, "int64")
    count = begin[row + 1] - begin[row]
    left = first[c.least(begin[row] + own, n - 1)]
    right = shifted[c.least(c.most(other[row] + own - count, 0), m - 1)]
    return c.cast(c.where(own < count, left, right), "int32"), c.cast(starts, "int32")


def attend(call, q, pool, indices, indptr, sinks, scale, out=None, second=None):
    """Attends with q [tokens, heads, D] to lists of rows: query t has the list indices[indptr[t]:indptr[t + 1]].
    Entries from the pool's number of rows on name rows of `second`, which is [rows, D] or a pair of tensors like a
    pool. An entry below 0 names no row. sinks is [heads] or None. Returns out, which is allocated if it is None."""
    cache, tensors, last = pool_of(call, q, pool)
    out = new_like(q) if out is None else out
    # torch has no address for an empty tensor, so indptr is passed in place of empty lists
    indices = indices if indices.shape[0] else indptr
    more = {} if second is None else {"second": second, "second_first": last}
    if isinstance(second, tuple):
        more["second"], more["second_rotated"] = c.bytes_of(second[0]), second[1]
    desc = {"dtype": c.dtype(q), "q_dtype": None, "head_dim": q.shape[2], "head_dim_v": q.shape[2], "heads": q.shape[1],
            "q_len": 1, "mask": "causal", "sinks": sinks is not None, "lse": False, "page_table": "indices", "sparse": "slots",
            "two_sources": second is not None, "cache": cache}
    s, tokens = c.session(q), q.shape[0]
    _split.launch(s, "mla_decode", desc, {
        "q": q, "out": out, "lse": None, "sinks": c.sinks_of(s, sinks), "scale": float(scale), **tensors,
        "kv_lens": indptr[1:tokens + 1] - indptr[:tokens], "kv_indptr": indptr[:tokens + 1], "kv_indices": indices, **more}, tokens)
    return out


def pa_decode_sparse(q, unified_kv, kv_indices, kv_indptr, attn_sink, softmax_scale, kv_scales=None, block_h=None, kv_splits=None,
                     has_invalid=True, skip_reduce=False, USE_EXP2=None, *, extra_cache=None, extra_indices=None, extra_indptr=None):
    """Decodes over lists of rows of a pool, rows of 16 bits or of 584 bytes, and of extra_cache, a pool of the same
    form. With kv_scales rows are fp8, and the listed ones are converted first. libattn chooses tiles and parts: block_h, kv_splits, has_invalid and USE_EXP2 are ignored. skip_reduce has no
    effect if kv_splits is 1, as in AITER; else it raises NotServed."""
    call = "pa_decode_sparse"
    c.refuse(call, skip_reduce=(bool(skip_reduce) and kv_splits != 1,
                                "the parts of an output and its sinks are always combined: their number follows from the plan"),
             extra_cache=(kv_scales is not None and extra_cache is not None, "a second cache of fp8 would need scales too"))
    if kv_scales is not None:
        unified_kv, kv_indices = scaled_rows(call, q, unified_kv, kv_scales, kv_indices)
    if any(x is None for x in (extra_cache, extra_indices, extra_indptr)) or extra_indices.shape[0] == 0:
        return attend(call, q, unified_kv, kv_indices, kv_indptr, attn_sink, softmax_scale)
    mixed = unified_kv.ndim == 3 and unified_kv.shape[2] == MIXED_ROW
    c.refuse(call, extra_cache=(c.dtype(extra_cache) != c.dtype(unified_kv) or extra_cache.shape[-1] != unified_kv.shape[-1] or
                                (mixed and extra_cache.shape[1] != unified_kv.shape[1]),
                                f"attention to two caches needs rows of one form, and pages of one size where rows have 584 "
                                f"bytes: here {tuple(unified_kv.shape)} and {tuple(extra_cache.shape)}"))
    last = unified_kv.shape[0] * (unified_kv.shape[1] if unified_kv.ndim == 3 else 1)
    indices, starts = merged(kv_indices, kv_indptr, extra_indices, extra_indptr, last)
    rows = c.view(extra_cache, extra_cache.shape[0], -1) if mixed else c.view(extra_cache, -1, extra_cache.shape[-1])
    return attend(call, q, unified_kv, indices, starts, attn_sink, softmax_scale, second=rows)


def two_lists(call, q, unified_kv, first, first_starts, kv, then, then_starts, sinks, scale, out=None):
    """Attends to rows of a pool, listed in first, and to rows of kv, the rows of this prefill, listed in then, in one
    launch. kv may be None or have no row."""
    if kv is None or kv.shape[0] == 0:
        return attend(call, q, unified_kv, first, first_starts, sinks, scale, out)
    c.refuse(call, unified_kv=(c.dtype(unified_kv) != c.dtype(kv), f"the pool is {c.dtype(unified_kv)}, kv is {c.dtype(kv)}"))
    last = unified_kv.shape[0] * (unified_kv.shape[1] if unified_kv.ndim == 3 else 1)
    indices, starts = merged(first, first_starts, then, then_starts, last)
    return attend(call, q, unified_kv, indices, starts, sinks, scale, out, kv)


def pa_prefill_sparse(q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend, kv_indptr_extend, attn_sink,
                      softmax_scale, has_invalid=None):
    """Computes prefill over lists of rows of a pool and of kv, the rows of this prefill, on every target. has_invalid
    is ignored."""
    return two_lists("pa_prefill_sparse", q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend,
                     kv_indptr_extend, attn_sink, softmax_scale)


def pa_sparse_prefill_opus(q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend, kv_indptr_extend, attn_sink,
                           softmax_scale, out=None):
    """Computes prefill like pa_prefill_sparse(). Returns out, which is allocated if it is None."""
    return two_lists("pa_sparse_prefill_opus", q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend,
                     kv_indptr_extend, attn_sink, softmax_scale, out)


def mla_decode_fwd_v4_nm(q, qrope, kv_buffer, kvrope, output, qo_indptr, kv_indptr, kv_page_indices, max_seqlen_q, *, sink,
                         split_indptr=None, sm_scale=None, out_16_nosplit=0, num_kv_splits=None, logits=None, attn_lse=None,
                         kv_last_page_lens=None):
    """Decodes over lists of rows in two tensors, with queries in two tensors, on every target. Scores are multiplied by
    sm_scale, which AITER's kernel ignores; None: 1 / sqrt(512). libattn chooses the parts. Returns (output as [tokens,
    1, heads, 512], None)."""
    call = "mla_decode_fwd_v4_nm"
    c.refuse(call, max_seqlen_q=(max_seqlen_q != 1, "queries that share a list: each query needs its own"),
             logits=(logits is not None or attn_lse is not None, "the parts of an output are not returned"),
             kv_buffer=(kv_buffer.ndim == 4 and kv_buffer.shape[2] != 1, f"{kv_buffer.shape[-2]} KV heads: rows have one"))
    tokens = q.shape[0]
    scale = PLANE_ROW ** -0.5 if sm_scale is None else sm_scale
    pool = c.view(kv_buffer, -1, PLANE_ROW), c.view(kvrope, -1, ROTATED)
    attend(call, joined_queries(call, q, qrope), pool, kv_page_indices, kv_indptr[:tokens + 1], sink, scale, output)
    return c.view(output, tokens, 1, *output.shape[1:]), None


def mla_decode_v4_asm(Q, qrope, KV, kvrope, qo_indptr, kv_indptr, kv_page_indices, split_indptr, sink, max_seqlen_q, softmax_scale,
                      out_16_nosplit, num_kv_splits, splitData, splitLse, output, valid_split_count=None,
                      use_valid_split_count_reduce=0, kv_last_page_lens=None):
    """Decodes like mla_decode_fwd_v4_nm(), by the arguments of AITER's kernel. Raises NotServed unless num_kv_splits is
    1. Writes output."""
    c.refuse("mla_decode_v4_asm", out_16_nosplit=(not out_16_nosplit or num_kv_splits != 1,
                                                  "the parts of an output are not returned"))
    mla_decode_fwd_v4_nm(Q, qrope, KV, kvrope, output, qo_indptr, kv_indptr, kv_page_indices, max_seqlen_q, sink=sink,
                         sm_scale=softmax_scale)


def pa_sparse_prefill_fp8_opus(q_nope, q_rope, unified_kv_nope, unified_kv_rope, kv_indices_prefix, kv_indptr_prefix, kv_nope,
                               kv_rope, kv_indices_extend, kv_indptr_extend, attn_sink, softmax_scale, out=None):
    """Computes prefill over lists of rows of a pool and of this prefill, both in two tensors, on every target. Returns
    out, which is allocated if it is None."""
    call = "pa_sparse_prefill_fp8_opus"
    q, pool = joined_queries(call, q_nope, q_rope), (unified_kv_nope, unified_kv_rope)
    if kv_nope is None or kv_nope.shape[0] == 0:
        return attend(call, q, pool, kv_indices_prefix, kv_indptr_prefix, attn_sink, softmax_scale, out)
    indices, starts = merged(kv_indices_prefix, kv_indptr_prefix, kv_indices_extend, kv_indptr_extend, unified_kv_nope.shape[0])
    return attend(call, q, pool, indices, starts, attn_sink, softmax_scale, out, (kv_nope, kv_rope))
