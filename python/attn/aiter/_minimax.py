# SPDX-License-Identifier: Apache-2.0
"""AITER's calls for MiniMax-M3 after the QKV projection: norm and rotation of queries and keys of attention and of the
indexer, and their writes to caches."""
from attn.aiter import _common as c
from attn.aiter._cache import heads_of, of_kind, rope, write

# {kv_cache_dtype: kind of the cache's scales; None: a cache of 16 bits}. Newer versions of AITER have the last two.
SCALES = {"auto": None, "fp8": "token", "fp8_e4m3": "token", "fp8_e4m3_unit": "none", "fp8_e4m3_static": "tensor"}


def pages_of(call, k, v, own, kv_cache_dtype, k_scale, v_scale, shuffled, block_size):
    """Returns the Cache that keys and values go to. Raises NotServed if k_scale, v_scale or block_size do not fit
    kv_cache_dtype and k."""
    c.refuse(call, kv_cache_dtype=(kv_cache_dtype not in SCALES, f"it is {kv_cache_dtype!r}"))
    kind, stored = SCALES[kv_cache_dtype], c.dtype(k)
    scales = (k_scale, v_scale) if kind else (None, None)
    missing, given = (any((x is None) == none for x in scales) for none in (True, False))
    c.refuse(call, kv_cache_dtype=(stored != ("fp8" if kind else own), f"it is {kv_cache_dtype!r}, the cache is {stored}"),
             k_scale=(kind == "none" and given, f"kv_cache_dtype is {kv_cache_dtype!r}, which has none"),
             v_scale=(kind in ("token", "tensor") and missing, f"kv_cache_dtype is {kv_cache_dtype!r}, which has two"))
    if kind == "token" and not shuffled:  # scales are [heads, slots]
        pages, page, heads = k.shape[:3]
        c.refuse(call, k_scale=(any(x.ndim != 2 or x.shape[0] != heads or x.shape[1] < pages * page for x in scales),
                                f"dimensions {tuple(k_scale.shape)}: they are [{heads} heads, {pages * page} slots]"))
        scales = [c.swap(c.view(x[:, :pages * page], heads, pages, page), 0, 1) for x in scales]
    cache = c.Cache(call, k, v, own, *scales, shuffled=shuffled, kinds=(kind,))
    if kind:
        of_kind(call, cache, kind)
    c.refuse(call, block_size=(block_size != cache.page, f"it is {block_size}, the cache has pages of {cache.page}"))
    return cache


def fused_qknorm_idxrqknorm(qkv, q_norm_weight, k_norm_weight, cos_sin_cache, positions, num_heads, num_kv_heads, rotary_dim,
                            eps, index_q_norm_weight=None, index_k_norm_weight=None, num_index_heads=0, slot_mapping=None,
                            kv_cache_k=None, kv_cache_v=None, index_cache=None, block_size=0, q_out=None, index_q_out=None,
                            index_slot_mapping=None, kv_cache_dtype="auto", index_cache_dtype=None, k_scale=None,
                            v_scale=None, asm_layout=False, skip_index_branch=False):
    """Applies norm (factor 1 + weight) and rotation to rows of q, k, and with num_index_heads the indexer's q and k;
    rows also have v. q goes to q_out and the indexer's to index_q_out, or in place. With a cache, k and v go to the
    cache, and qkv keeps its keys and values. The indexer's key goes to index_cache, in rows of D without a scale.
    Without a cache, k and the indexer's key are written in place. With skip_index_branch the indexer's rows are not
    read."""
    call, own, tokens, dim = "fused_qknorm_idxrqknorm", c.dtype(qkv), qkv.shape[0], c.count(q_norm_weight)
    counts = [num_heads, num_kv_heads, num_kv_heads, *((num_index_heads, 1) if num_index_heads else ())]
    index, insert = num_index_heads > 0 and not skip_index_branch, kv_cache_k is not None
    c.refuse(call, qkv=(qkv.shape[1] != sum(counts) * dim, f"rows of {qkv.shape[1]} elements, {sum(counts)} heads of {dim}"),
             cos_sin_cache=(c.dtype(cos_sin_cache) != own or cos_sin_cache.shape[1] != rotary_dim,
                            f"[{cos_sin_cache.shape[0]}, {cos_sin_cache.shape[1]}] of {c.dtype(cos_sin_cache)}"),
             kv_cache_v=(insert != (kv_cache_v is not None), "one of the caches is given"),
             slot_mapping=(insert and slot_mapping is None, "it is needed with a cache"),
             index_q_norm_weight=(index and (index_q_norm_weight is None or index_k_norm_weight is None), "it is needed"),
             index_q_out=(index_q_out is not None and c.dtype(index_q_out) != own, "outputs are of the type of qkv"),
             index_cache=(index and insert and (index_cache is None or c.dtype(index_cache) not in (own, "fp8")),
                          "it is needed, of the type of qkv or fp8"))
    s, heads, parts, at = c.session(qkv), heads_of(qkv, sum(counts), dim), [], 0
    for n in counts:
        parts.append(heads[:, at:at + n])
        at += n
    cache = insert and pages_of(call, kv_cache_k, kv_cache_v, own, kv_cache_dtype, k_scale, v_scale, asm_layout, block_size)
    more = {"positions": positions, "table": cos_sin_cache, "neox": True, "norm": "gemma_rms", "eps": eps,
            "rotary_dim": rotary_dim}
    rope(call, s, *parts[:3], cache, slot_mapping if insert else None, weights=(q_norm_weight, k_norm_weight), keep=not insert,
         q_out=None if q_out is None else heads_of(q_out, num_heads, dim), **more)
    if not index:
        return
    key = c.new_like(parts[4]) if insert else None
    rope(call, s, parts[3], parts[4], None, None, None, weights=(index_q_norm_weight, index_k_norm_weight), keep=True, k_out=key,
         q_out=None if index_q_out is None else heads_of(index_q_out, num_index_heads, dim), **more)
    if insert:
        insert_index(call, key, index_cache, index_cache_dtype, slot_mapping if index_slot_mapping is None else index_slot_mapping)


def insert_index(call, key, index_cache, index_cache_dtype, slots):
    """Writes keys [tokens, 1, D] to rows of an index cache. The two halves of a row are passed to the kernel as a key
    and a value."""
    stored, dim = c.dtype(index_cache), key.shape[2]
    c.refuse(call, index_cache_dtype=(index_cache_dtype is not None and index_cache_dtype.startswith("fp8") != (stored == "fp8"),
                                      f"it is {index_cache_dtype!r}, the cache is {stored}"))
    rows = c.rows_of(index_cache, dim)
    half = dim // 2
    write(call, key[..., :half], key[..., half:], rows[..., :half], rows[..., half:], slots[:key.shape[0]], shuffled=False)
