# SPDX-License-Identifier: Apache-2.0
"""AITER's calls that write and read a cache, that norm and rotate before the write, and that merge attention states."""
from attn.aiter import _common as c
from attn.aiter._common import NotServed


def write(call, key, value, key_cache, value_cache, slot_mapping, k_scale=None, v_scale=None,
          shuffled=None, kv_scale=("tensor",)):
    s = c.session(key)
    cache = c.Cache(call, key_cache, value_cache, c.dtype(key), k_scale, v_scale, shuffled=shuffled,
                    kinds=kv_scale)
    desc = cache.desc
    tokens = min(key.shape[0], slot_mapping.shape[0])
    op = s.op("cache_write", dtype=c.dtype(key), head_dim=cache.head_dim,
              head_dim_v=cache.head_dim_v, kv_heads=cache.kv_heads, cache=desc)
    op(k_in=key[:tokens], v_in=value[:tokens], slot_mapping=c.cast(slot_mapping[:tokens], "int64"),
       **cache.tensors(), stream=c.stream(key))


def typed(call, key_cache, kv_cache_dtype, k_scale, v_scale):
    """Returns (k_scale, v_scale) for a cache of the type kv_cache_dtype; (None, None) for a type of 16 bits. Raises
    NotServed if the cache has another type."""
    stored, plain = c.dtype(key_cache), kv_cache_dtype in ("auto", "bf16", "bfloat16", "half", "float16")
    if not plain and kv_cache_dtype not in ("fp8", "fp8_e4m3"):
        raise NotServed(call, f"kv_cache_dtype {kv_cache_dtype!r}")
    if stored in ("fp8", "int8") if plain else stored != "fp8":
        raise NotServed(call, f"kv_cache_dtype is {kv_cache_dtype!r}, the cache is {stored}")
    return (None, None) if plain else (k_scale, v_scale)


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale=None,
                      v_scale=None, asm_layout=False):
    """Writes new tokens to SHUFFLE pages, or without asm_layout to pages with values [page, head, D, token]."""
    call = "reshape_and_cache"
    k_scale, v_scale = typed(call, key_cache, kv_cache_dtype, k_scale, v_scale)
    if asm_layout:
        value_cache = as_shuffled(key_cache, value_cache)
    write(call, key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale, True)


def as_shuffled(key_cache, value_cache):
    """Returns the values as [page, head, token / x, D, x], the order of their memory with asm_layout. Some engines pass
    this memory with four dimensions."""
    if value_cache.ndim == 4 and key_cache.ndim == 5:
        pages, heads, dim, page = value_cache.shape
        x = key_cache.shape[4]
        return c.view(value_cache, pages, heads, page // x, dim, x)
    return value_cache


def reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale,
                            v_scale):
    """Writes new tokens to NHD pages. k_scale and v_scale have one element, or one for each KV head, as vLLM passes them."""
    call = "reshape_and_cache_flash"
    k_scale, v_scale = typed(call, key_cache, kv_cache_dtype, k_scale, v_scale)
    write(call, key, value, key_cache, value_cache, slot_mapping, k_scale, v_scale, False, ("tensor", "head"))


def of_tokens(call, scales, key_cache, asm_layout):
    """Returns scales of tokens as [pages, kv heads, P]. Without asm_layout the caller's are [kv heads, slots]."""
    if asm_layout:
        return scales
    pages, heads, page = key_cache.shape[0], key_cache.shape[1], key_cache.shape[3]
    c.refuse(call, k_dequant_scales=(
        scales.ndim != 2 or scales.shape[0] != heads or scales.shape[1] < pages * page,
        f"dimensions {tuple(scales.shape)}; without asm_layout they are [{heads} heads, {pages * page} slots]"))
    return c.swap(c.view(scales[:, :pages * page], heads, pages, page), 0, 1)


def reshape_and_cache_with_pertoken_quant(key, value, key_cache, value_cache, k_dequant_scales,
                                          v_dequant_scales, slot_mapping, asm_layout):
    """Writes new tokens to fp8 or int8 pages, and computes and stores a scale for each token and head. Scales are
    [pages, kv heads, P]. Without asm_layout they are [kv heads, slots], and values are [page, head, D, token]."""
    call = "reshape_and_cache_with_pertoken_quant"
    c.refuse(call, k_dequant_scales=(asm_layout and k_dequant_scales.ndim != 3,
                                     "its layout [heads, tokens] is that of asm_layout=False"))
    if asm_layout:
        value_cache = as_shuffled(key_cache, value_cache)
    scales = [of_tokens(call, x, key_cache, asm_layout) for x in (k_dequant_scales, v_dequant_scales)]
    write(call, key, value, key_cache, value_cache, slot_mapping, *scales, True, kv_scale=("token",))


def of_pages(call, scales, pages, heads, asm_layout):
    """Returns scales of pages as [pages, kv heads]. With asm_layout that is their order in memory, whatever dimensions
    the caller's tensor has. Without asm_layout the order in memory is [kv heads, pages]."""
    c.refuse(call, k_dequant_scales=(c.count(scales) != pages * heads, f"{c.count(scales)} scales for "
                                     f"{pages} pages of {heads} heads"))
    return c.view(scales, pages, heads) if asm_layout else c.transpose(c.view(scales, heads, pages))


def reshape_and_cache_with_block_quant(key, value, key_cache, value_cache, k_dequant_scales,
                                       v_dequant_scales, slot_mapping, asm_layout):
    """Writes new tokens to fp8 or int8 pages with one scale for each page and head. Scales are [pages, kv heads].
    Without asm_layout they are [kv heads, pages], and values are [page, head, D, token]."""
    call = "reshape_and_cache_with_block_quant"
    if asm_layout:
        value_cache = as_shuffled(key_cache, value_cache)
    scales = [of_pages(call, x, *key_cache.shape[:2], asm_layout) for x in (k_dequant_scales, v_dequant_scales)]
    write(call, c.view(key, -1, *key.shape[-2:]), c.view(value, -1, *value.shape[-2:]), key_cache, value_cache,
          c.view(slot_mapping, -1), *scales, True, kv_scale=("block",))


def cp_mha_gather_cache(key_cache, value_cache, key, value, block_tables, k_scales, v_scales,
                        cu_seqlens_kv, token_to_batch, seq_starts, dequant, kv_cache_layout,
                        total_tokens, per_token_quant=True):
    """Gathers keys and values of sequences from NHD or SHUFFLE pages into packed tensors. Elements of fp8 are
    multiplied by their scales; with dequant=False they are copied unchanged."""
    call = "cp_mha_gather_cache"
    stored = c.dtype(key_cache) in ("fp8", "int8")
    c.refuse(call, dequant=(dequant and not stored, f"the cache is {c.dtype(key_cache)}"),
             key=(c.dtype(key) not in ("bf16", "fp16"), f"bytes are not copied: it is {c.dtype(key)}"),
             per_token_quant=(dequant and not per_token_quant and c.count(k_scales) > 1,
                              f"it is False, there are {c.count(k_scales) if dequant else 0} scales"),
             kv_cache_layout=(kv_cache_layout not in ("NHD", "SHUFFLE"), str(kv_cache_layout)))
    s = c.session(key)
    if kv_cache_layout == "SHUFFLE":
        key_cache, value_cache = as_pages(key_cache, value_cache)
    cache = c.Cache(call, key_cache, value_cache, c.dtype(key), k_scales if dequant else None,
                    v_scales if dequant else None, shuffled=kv_cache_layout == "SHUFFLE",
                    kinds=("token", "tensor"))
    op = s.op("cache_gather", dtype=c.dtype(key), head_dim=cache.head_dim,
              head_dim_v=cache.head_dim_v, kv_heads=cache.kv_heads, cache=cache.desc)
    batch = cu_seqlens_kv.shape[0] - 1
    op(k_out=key, v_out=value, cu_seqlens_k=cu_seqlens_kv, seq_starts=seq_starts[:batch],
       block_table=block_tables[:batch], max_seqlen_k=int(total_tokens), **cache.tensors(),
       stream=c.stream(key))


def as_pages(k, v):
    """Returns SHUFFLE pages k and v in five dimensions. Some engines pass their memory with the dimensions [pages, P,
    heads, D]."""
    if k.ndim != 4:
        return k, v
    pages, page, heads, dim = k.shape
    x = 8 if c.dtype(k) in ("bf16", "fp16") else 16
    return c.view(k, pages, heads, dim // x, page, x), c.view(v, pages, heads, page // x, v.shape[3], x)


def merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse=None,
                      prefill_tokens_with_context=None, output_scale=None):
    """Merges attention outputs and LSEs over two sets of keys, a prefix and a suffix. Tokens from
    prefill_tokens_with_context on have no prefix: their output is the suffix's."""
    call = "merge_attn_states"
    tokens, heads, dim = output.shape
    n = tokens if prefill_tokens_with_context is None else int(prefill_tokens_with_context)
    own = c.dtype(prefix_output)
    c.refuse(call, output_scale=(output_scale is not None and c.dtype(output) == own,
                                 f"it is given, the output is {own}"),
             prefill_tokens_with_context=(n < tokens and output_scale is not None,
                                          "fp8 outputs with tokens that have no context"))
    op = c.session(output).op("combine", dtype=own, head_dim=dim, heads=heads, partials="pair",
                              out_dtype=c.dtype(output) if c.dtype(output) != own else None)
    if n:
        op(out=output[:n], lse=None if output_lse is None else output_lse[:, :n],
           prefix=prefix_output[:n], suffix=suffix_output[:n], prefix_lse=prefix_lse[:, :n],
           suffix_lse=suffix_lse[:, :n], stream=c.stream(output),
           out_scale=None if output_scale is None else c.scalar(call, "output_scale", output_scale))
    if n < tokens:
        output[n:] = suffix_output[n:]
        if output_lse is not None:
            output_lse[:, n:] = suffix_lse[:, n:]


def heads_of(x, heads, dim):
    """Returns x, [tokens, heads, dim] or [tokens, heads * dim], as [tokens, heads, dim]."""
    return x if x.ndim == 3 else c.view(x, x.shape[0], heads, dim)


def of_kind(call, cache, kind):
    """Raises NotServed for fp8 or int8 pages whose scales are not of `kind`, such as "token", which the call
    computes."""
    if cache.desc.dtype in ("fp8", "int8") and cache.desc.scale != kind:
        raise NotServed(call, f"the cache is {cache.desc.dtype}, without scales of a {kind}")


def rope(call, s, q, k, v, cache, slots, positions, table, neox, norm=None, weights=(None, None),
         eps=0.0, q_out=None, k_out=None, v_out=None, keep=False, rotary_dim=0, mrope=None, sections=(), gate=None):
    """Launches rope_qk_norm_cache. With `gate` each head of q is followed by an output gate, which is copied to
    `gate`."""
    own, three = c.dtype(q), {} if mrope is None else {"sections": tuple(int(n) for n in sections)}
    fp8_out = q_out is not None and c.dtype(q_out) == "fp8"
    short = c.dtype(table) != "f32"
    if short and c.dtype(table) != own:
        raise NotServed(call, f"cosines are {c.dtype(table)}: they are float32 or of the model's type")
    op = s.op("rope_qk_norm_cache", dtype=own, q_out_dtype="fp8" if fp8_out else None,
              head_dim=k.shape[2], heads=q.shape[1], kv_heads=k.shape[1], gate=gate is not None,
              rope="neox" if neox else "gptj", rotary_dim=rotary_dim or table.shape[1],
              cos_sin_short=short, norm=norm or "none", keep_kv=keep, cache=cache.desc if cache else c.CacheDesc(page_size=1),
              mrope=mrope or "none")
    tokens = q.shape[0]
    op(q=q, k=k, v=v, q_out=q_out, k_out=k_out, v_out=v_out, gate=gate,
       slot_mapping=None if slots is None else c.cast(slots[:tokens], "int64"),
       positions=c.cast(positions, "int64")[..., :tokens],
       cos_sin=table, **three, q_weight=weights[0], k_weight=weights[1], eps=eps,
       q_out_scale=c.one(s, q) if fp8_out else None, **(cache.tensors() if cache else {}), stream=c.stream(q))


def fused_qk_norm_rope_cache_quant_shuffle(q, k, v, num_heads_q, num_heads_k, num_heads_v, head_dim,
                                           eps, qw, kw, cos_sin_cache, is_neox_style, pos_ids,
                                           k_cache, v_cache, slot_mapping, kv_cache_dtype, k_scale,
                                           v_scale):
    """Norms each head of q and k by its RMS and rotates it, in place. Writes k and v to SHUFFLE pages, as fp8 with
    a scale per token and head that the call computes."""
    call = "fused_qk_norm_rope_cache_quant_shuffle"
    s = c.session(q)
    q, k, v = (heads_of(x, n, head_dim) for x, n in ((q, num_heads_q), (k, num_heads_k),
                                                     (v, num_heads_v)))
    k_scale, v_scale = typed(call, k_cache, kv_cache_dtype, k_scale, v_scale)
    cache = c.Cache(call, k_cache, as_shuffled(k_cache, v_cache), c.dtype(q), k_scale, v_scale,
                    shuffled=True, kinds=("token",))
    of_kind(call, cache, "token")
    rope(call, s, q, k, v, cache, slot_mapping, pos_ids, cos_sin_cache, is_neox_style, "rms", (qw, kw),
         eps, keep=True)


def fused_qk_norm_rope_cache_block_quant_shuffle(qkv, num_heads_q, num_heads_k, num_heads_v, head_dim,
                                                 eps, qw, kw, cos_sin_cache, is_neox_style, pos_ids,
                                                 k_cache, v_cache, slot_mapping, cu_q_len,
                                                 kv_cache_dtype, k_scale, v_scale,
                                                 max_tokens_per_batch=0):
    """Norms, rotates and writes like fused_qk_norm_rope_cache_quant_shuffle(), for packed q, k, v, with a scale for
    each page and KV head, [pages, KV heads]. A page's first token sets its scale. Later tokens can only raise the
    scale; numbers that the page has are then rounded again. The tokens of a sequence are adjacent; cu_q_len has their
    starts."""
    call = "fused_qk_norm_rope_cache_block_quant_shuffle"
    s = c.session(qkv)
    qkv = heads_of(qkv, num_heads_q + num_heads_k + num_heads_v, head_dim)
    q, k = qkv[:, :num_heads_q], qkv[:, num_heads_q:num_heads_q + num_heads_k]
    v = qkv[:, num_heads_q + num_heads_k:]
    k_scale, v_scale = typed(call, k_cache, kv_cache_dtype, k_scale, v_scale)
    cache = c.Cache(call, k_cache, as_shuffled(k_cache, v_cache), c.dtype(qkv), k_scale, v_scale,
                    shuffled=True, kinds=("block",))
    of_kind(call, cache, "block")
    rope(call, s, q, k, v, cache, slot_mapping, pos_ids, cos_sin_cache, is_neox_style, "rms", (qw, kw),
         eps, keep=True)


def fused_qk_norm_rope_cache_pts_quant_shuffle(qkv, qw, kw, cos_sin, positions, num_tokens,
                                               num_heads_q, num_heads_k, num_heads_v, head_size,
                                               is_neox_style, eps, q_out, k_cache, v_cache,
                                               slot_mapping, per_tensor_k_scale, per_tensor_v_scale,
                                               k_out, v_out, return_kv, use_shuffle_layout,
                                               block_size, x, rotary_dim=0):
    """Norms and rotates packed q, k, v; q goes to q_out, k and v to NHD or SHUFFLE pages, as fp8 with a scale per
    tensor. With return_kv k and v are also written to k_out and v_out; one of them may be None."""
    packed("fused_qk_norm_rope_cache_pts_quant_shuffle", qkv, (qw, kw), cos_sin, positions, num_tokens,
           (num_heads_q, num_heads_k, num_heads_v), head_size, is_neox_style, eps, q_out, (k_cache, v_cache), slot_mapping,
           (per_tensor_k_scale, per_tensor_v_scale), (k_out, v_out) if return_kv else (None, None), use_shuffle_layout,
           block_size, rotary_dim)


def fused_qk_norm_mrope_3d_cache_pts_quant_shuffle(qkv, qw, kw, cos_sin, positions, num_tokens, num_heads_q, num_heads_k,
                                                   num_heads_v, head_size, is_neox_style, mrope_section_, is_interleaved,
                                                   eps, q_out, k_cache, v_cache, slot_mapping, per_tensor_k_scale,
                                                   per_tensor_v_scale, k_out, v_out, return_kv, use_shuffle_layout,
                                                   block_size, x, rotary_dim=0, gemma_norm=False):
    """Norms, rotates and writes like fused_qk_norm_rope_cache_pts_quant_shuffle(), with three positions [3, tokens] for
    each token. mrope_section_ has the number of rotated pairs for each of the three. A block_size of 0 means caches
    [slots, KV heads, D]. With gemma_norm the factor is 1 + weight."""
    packed("fused_qk_norm_mrope_3d_cache_pts_quant_shuffle", qkv, (qw, kw), cos_sin, positions, num_tokens,
           (num_heads_q, num_heads_k, num_heads_v), head_size, is_neox_style, eps, q_out, (k_cache, v_cache), slot_mapping,
           (per_tensor_k_scale, per_tensor_v_scale), (k_out, v_out) if return_kv else (None, None), use_shuffle_layout,
           block_size, rotary_dim, "gemma_rms" if gemma_norm else "rms", mrope="interleaved" if is_interleaved else "sections",
           sections=mrope_section_)


def packed(call, qkv, weights, cos_sin, positions, num_tokens, counts, head_size, neox, eps, q_out, caches, slot_mapping,
           scales, kept, shuffled, block_size, rotary_dim, norm="rms", **more):
    """Rotates packed q, k and v with `counts` heads each; `kept` are k_out and v_out, `more` goes to rope()."""
    s, (k_cache, v_cache), (n_q, n_k, n_v) = c.session(qkv), caches, counts
    qkv = heads_of(qkv, n_q + n_k + n_v, head_size)[:num_tokens]
    q, k, v = qkv[:, :n_q], qkv[:, n_q:n_q + n_k], qkv[:, n_q + n_k:]
    if shuffled:
        v_cache = as_shuffled(k_cache, v_cache)
    scales = [c.near(s, x, qkv) for x in scales]  # vLLM's scales may be in the host's memory
    cache = c.Cache(call, k_cache, v_cache, c.dtype(qkv), *scales, shuffled=bool(shuffled), kinds=("tensor",))
    if cache.page != (block_size or 1):
        raise NotServed(call, f"block_size is {block_size}, the cache has pages of {cache.page}")
    outs = {}
    given = [None if x is None else heads_of(x, n, head_size)[:num_tokens] for x, n in zip(kept, (n_k, n_v))]
    stored, some = cache.desc.dtype, any(x is not None for x in given)
    c.refuse(call, return_kv=(any(x is not None and c.dtype(x) != (stored or c.dtype(qkv)) for x in given),
                              f"outputs get what the cache gets, {stored or c.dtype(qkv)}"))
    # also if only one is given; values are never changed in place, and keys go to a new tensor
    if some and stored is None:
        outs = {"k_out": c.new_like(k) if given[0] is None else given[0], "keep": True, "v_out": given[1]}
    rope(call, s, q, k, v, cache, slot_mapping, positions, cos_sin, neox, norm, weights, eps,
         q_out=heads_of(q_out, n_q, head_size)[:num_tokens], rotary_dim=rotary_dim, **outs, **more)
    if some and stored is not None:
        bytes_written(cache, slot_mapping[:num_tokens], *given)


def fused_qkv_split_qk_norm_rope_cache(qkv, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slot_mapping,
                                       qh, kvh, head_dim, is_neox=True, offsets=None, reuse_freqs_front_part=True,
                                       attn_output_gate=False, k_scale=None, v_scale=None, eps=1e-5,
                                       gated_qkv_layout="interleaved", kv_cache_layout="HND"):
    """Norms packed rows of q, k and v, and rotates them by the rows positions + offsets of cos and sin. Writes k and v
    to HND or NHD pages. With attn_output_gate a gate follows each head of q, or with gated_qkv_layout "blocked" all
    heads. Returns (q, gate, k, v), without the gate if there is none. k and v are returned before they are divided by
    the fp8 scales k_scale and v_scale."""
    call, own, stored, n = "fused_qkv_split_qk_norm_rope_cache", c.dtype(qkv), c.dtype(key_cache), qh * head_dim
    layout, blocked = kv_cache_layout.upper(), gated_qkv_layout == "blocked"
    c.refuse(call, kv_cache_layout=(layout not in ("HND", "NHD"), f"it is {kv_cache_layout!r}"),
             gated_qkv_layout=(not blocked and gated_qkv_layout != "interleaved", f"it is {gated_qkv_layout!r}"),
             reuse_freqs_front_part=(not reuse_freqs_front_part, "a pair of elements has one cosine"),
             positions=(positions is None, "it is needed"),
             k_scale=(stored != "fp8" and not (k_scale is None and v_scale is None),
                      f"AITER divides by it, and the cache is {stored}"))
    s, tokens = c.session(qkv), qkv.shape[0]
    caches = [c.swap(x, 1, 2) if layout == "HND" else x for x in (key_cache, value_cache)]
    cache = c.Cache(call, *caches, own, k_scale, v_scale, shuffled=False, kinds=("tensor",))
    wide = 2 * n if attn_output_gate else n
    whole = attn_output_gate and not blocked
    q = heads_of(qkv[:, :wide if whole else n], qh, 2 * head_dim if whole else head_dim)
    k, v = (heads_of(x, kvh, head_dim) for x in (qkv[:, wide:wide + kvh * head_dim], qkv[:, wide + kvh * head_dim:]))
    q_out, k_out, v_out = (c.rows(qkv, (tokens, heads, head_dim), own) for heads in (qh, kvh, kvh))
    gate = c.new_like(q_out) if attn_output_gate else None
    rope(call, s, q, k, v, cache, slot_mapping, positions if offsets is None else positions + offsets,
         c.cosines(s, cos, sin), is_neox, "rms", (q_weight, k_weight), eps, q_out, k_out, v_out, keep=True,
         gate=gate if whole else None)
    if attn_output_gate and blocked:
        gate[...] = heads_of(qkv[:, n:wide], qh, head_dim)
    return (q_out, gate, k_out, v_out) if attn_output_gate else (q_out, k_out, v_out)


def bytes_written(cache, slots, k_out, v_out):
    """Copies the keys and values of tokens from their slots to k_out and v_out [tokens, heads, D] of the cache's type.
    Rows of tokens without a slot are not changed."""
    here = slots >= 0
    at = c.cast(slots * here, "int64")
    page, token = at // cache.page, at % cache.page
    for x, out, pages in ((0, k_out, cache.k), (1, v_out, cache.v)):
        if out is None:
            continue
        pages, out = c.bytes_of(pages), c.bytes_of(out)
        if cache.desc.layout == "nhd":
            rows = pages[page, token]
        elif x == 0:
            rows = pages[page, :, :, token].reshape(out.shape)
        else:
            rows = pages[page, :, token // pages.shape[4], :, token % pages.shape[4]]
        out[...] = c.where(here[:, None, None], rows, out)


def fused_qk_rope_reshape_and_cache(q, k, v, key_cache, value_cache, slot_mapping, pos, cos, sin,
                                    k_scale, v_scale, is_neox, flash_layout, apply_scale=True,
                                    offs=None, q_out=None, k_out=None, output_zeros=True,
                                    zeros_out=None, upcast_operand=False):
    """Rotates q and k, and writes k and v to NHD or SHUFFLE pages. cos and sin are joined into one table, once for each
    pair. Returns (q_out, k_out, key_cache, value_cache), and with output_zeros a tensor of zeros."""
    call = "fused_qk_rope_reshape_and_cache"
    c.refuse_bytes(call, key_cache, "fp4")
    if not apply_scale:
        k_scale = v_scale = None
    stored = c.dtype(key_cache)
    c.refuse(call, offs=(offs is not None, "positions have no offsets"),
             k_scale=(stored != "fp8" and not (k_scale is None and v_scale is None),
                      f"AITER divides by it, and the cache is {stored}: apply_scale=False does not"),
             cos=(cos.shape[-1] * 2 != q.shape[2],
                  f"{cos.shape[-1]} cosines of a head of {q.shape[2]}: a pair of elements has one"))
    s = c.session(q)
    cache = c.Cache(call, key_cache, value_cache, c.dtype(q), k_scale, v_scale, shuffled=not flash_layout,
                    kinds=("tensor",))
    table = c.cosines(s, cos, sin)
    q_out = c.new_like(q) if q_out is None else q_out
    k_out = c.new_like(k) if k_out is None else k_out
    rope(call, s, q, k, v, cache, slot_mapping, pos, table, is_neox, q_out=q_out, k_out=k_out,
         keep=True)
    if zeros_out is None and not output_zeros:
        return q_out, k_out, key_cache, value_cache
    zeros_out = c.new_like(q) if zeros_out is None else zeros_out
    c.zero(zeros_out)
    return q_out, k_out, key_cache, value_cache, zeros_out
