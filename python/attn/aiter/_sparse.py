# SPDX-License-Identifier: Apache-2.0
"""AITER's calls for DeepSeek-V4: attention of each query over a list of rows, from one pool or from two sources."""
from attn.aiter import _common as c
from attn.aiter import _split
from attn.attention import new_like

MIXED_ROW, CHUNK = 584, 16  # bytes of a row: 448 of fp8, 64 elements of 16 bits, scales; a page has a multiple of CHUNK bytes


def pool_of(call, q, pool):
    """Returns a pool's descriptor, its tensor as mla_decode takes it, and its number of rows. Pools are [rows, D],
    [pages, P, D] or, of bytes, [pages, P, 584]: the rows of a page, then their scales."""
    pages, page = pool.shape[0], pool.shape[1] if pool.ndim == 3 else 1
    if pool.ndim == 3 and pool.shape[2] == MIXED_ROW:
        c.refuse(call, unified_kv=(page * MIXED_ROW % CHUNK != 0, f"a page of {page} rows of 584 bytes is no multiple of 16 bytes"))
        return c.CacheDesc(dtype="fp8", layout="scales_last", page_size=page), c.view(pool, pages, page * MIXED_ROW), pages * page
    c.refuse(call, unified_kv=(c.dtype(pool) != c.dtype(q), f"the pool is {c.dtype(pool)}, queries are {c.dtype(q)}"))
    return c.CacheDesc(page_size=page), c.view(pool, pages, page, 1, pool.shape[-1]), pages * page


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
    """Attention of q [tokens, heads, D] over lists of rows: query t has indices[indptr[t]:indptr[t + 1]]. Entries after the
    pool's last row name rows of `second` [rows, D]. An entry below 0 is no row. sinks [heads], or None. Returns out."""
    cache, rows, last = pool_of(call, q, pool)
    out = new_like(q) if out is None else out
    indices = indices if indices.shape[0] else indptr  # torch has no address for an empty tensor; no entry is read
    more = {} if second is None else {"second": second, "second_first": last}
    desc = {"dtype": c.dtype(q), "q_dtype": None, "head_dim": q.shape[2], "head_dim_v": q.shape[2], "heads": q.shape[1],
            "q_len": 1, "mask": "causal", "sinks": sinks is not None, "lse": False, "page_table": "indices", "sparse": "slots",
            "two_sources": second is not None, "cache": cache}
    s, tokens = c.session(q), q.shape[0]
    _split.launch(s, "mla_decode", desc, {
        "q": q, "out": out, "lse": None, "sinks": c.sinks_of(s, sinks), "scale": float(scale), "k_cache": rows,
        "kv_lens": indptr[1:tokens + 1] - indptr[:tokens], "kv_indptr": indptr[:tokens + 1], "kv_indices": indices, **more}, tokens)
    return out


def pa_decode_sparse(q, unified_kv, kv_indices, kv_indptr, attn_sink, softmax_scale, kv_scales=None, block_h=None, kv_splits=None,
                     has_invalid=True, skip_reduce=False, USE_EXP2=None, *, extra_cache=None, extra_indices=None, extra_indptr=None):
    """Decode over lists of rows of a pool in 16 bits or of 584 bytes. libattn chooses tiles and parts: block_h, kv_splits,
    has_invalid and USE_EXP2 are ignored."""
    call = "pa_decode_sparse"
    c.refuse(call, kv_scales=(kv_scales is not None, "rows of fp8 with float32 scales in another tensor are not read"),
             skip_reduce=(bool(skip_reduce), "the parts of an output are always combined"),
             extra_cache=(extra_cache is not None, "two caches of different pages are not read under one softmax"))
    return attend(call, q, unified_kv, kv_indices, kv_indptr, attn_sink, softmax_scale)


def two_lists(call, q, unified_kv, first, first_starts, kv, then, then_starts, sinks, scale, out=None):
    """Attention over rows of a pool and over kv, the rows of this prefill, in one launch. kv may be None or have no row."""
    if kv is None or kv.shape[0] == 0:
        return attend(call, q, unified_kv, first, first_starts, sinks, scale, out)
    c.refuse(call, unified_kv=(c.dtype(unified_kv) != c.dtype(kv), f"the pool is {c.dtype(unified_kv)}, kv is {c.dtype(kv)}"))
    last = unified_kv.shape[0] * (unified_kv.shape[1] if unified_kv.ndim == 3 else 1)
    indices, starts = merged(first, first_starts, then, then_starts, last)
    return attend(call, q, unified_kv, indices, starts, sinks, scale, out, kv)


def pa_prefill_sparse(q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend, kv_indptr_extend, attn_sink,
                      softmax_scale, has_invalid=None):
    """Prefill over lists of rows of a pool and of kv, the rows of this prefill, on every target. has_invalid is ignored."""
    return two_lists("pa_prefill_sparse", q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend,
                     kv_indptr_extend, attn_sink, softmax_scale)


def pa_sparse_prefill_opus(q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend, kv_indptr_extend, attn_sink,
                           softmax_scale, out=None):
    """Like pa_prefill_sparse(). Returns out, which is allocated if it is None."""
    return two_lists("pa_sparse_prefill_opus", q, unified_kv, kv_indices_prefix, kv_indptr_prefix, kv, kv_indices_extend,
                     kv_indptr_extend, attn_sink, softmax_scale, out)
