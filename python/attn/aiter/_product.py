# SPDX-License-Identifier: Apache-2.0
"""AITER's matrix products for heads of latent attention: absorption with fp8 weights, and expansion of latents to keys
and values."""
from attn.aiter import _common as c
from attn.aiter._common import NotServed

GROUP = 128  # elements of a row of X that share a scale


def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
        X, WQ, w_scale, group_size=128, bias=None, dtype="bfloat16", splitK=None, YQ=None,
        transpose_bm=False, transpose_bm_in=False, config=None):
    """Computes X[i] WQ[i]^T for each head i. X is [heads, tokens, K], or with transpose_bm_in [tokens, heads, K], and
    is rounded to fp8 with a scale for each 128 elements. With transpose_bm the result is [tokens, heads, N] too."""
    call = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"
    own = c.dtype(X)
    made = c.NAMES.get(getattr(dtype, "__name__", str(dtype).rsplit(".", 1)[-1]))
    if YQ is not None:
        made = c.dtype(YQ)
    c.refuse(call, group_size=(group_size != GROUP, f"it is {group_size}: {GROUP} elements share a scale"),
             bias=(bias is not None, "no bias is added"),
             splitK=(splitK is not None, "AITER has none either"),
             WQ=(c.dtype(WQ) != "fp8", f"weights are {c.dtype(WQ)}: fp8 is served"),
             X=(made != own, f"it is {own}, the result {made}: one type is served"))
    x = X if transpose_bm_in else c.swap(X, 0, 1)
    tokens, heads, dim, dim_v = *x.shape, WQ.shape[1]
    s = c.session(X)
    scales = s.made.of(f"scales of {heads}", (w_scale,), lambda one: c.cast(
        c.scalar(call, "w_scale", one), "float32").repeat(heads))
    out = YQ
    if out is None:
        out = c.rows(X, (tokens, heads, dim_v) if transpose_bm else (heads, tokens, dim_v), own)
    s.op("head_product", dtype=own, weights="fp8", activations="fp8", head_dim=dim, head_dim_v=dim_v,
         heads=heads)(x=x, w=WQ, w_scale=scales, out=out if transpose_bm else c.swap(out, 0, 1),
                      stream=c.stream(X))
    return out


# elements of a latent; elements of its rotated key; rows, and columns, of a block of weights that shares a scale
LATENT, ROPE, BLOCK = 512, 64, 128


def weight_parts(call, s, weight, scale, heads, nope, dim_v, own):
    """Splits kv_b_proj's weight. Returns head_product's (weights, w, w_scale) for keys, and the same for values."""
    rows = c.view(weight, heads, nope + dim_v, LATENT)
    parts = rows[:, :nope], rows[:, nope:]
    if scale is None:
        c.refuse(call, kv_proj_weight=(c.dtype(weight) != own, f"it is {c.dtype(weight)} without a scale"))
        return [("same", w, None) for w in parts]
    shape = (heads * (nope + dim_v) // BLOCK, LATENT // BLOCK)
    c.refuse(call, kv_proj_weight=(c.dtype(weight) != "fp8", f"it is {c.dtype(weight)} with a scale: fp8 is served"),
             kv_proj_scale=(tuple(scale.shape) != shape or nope % BLOCK != 0 or dim_v % BLOCK != 0,
                            "a scale for each 128 x 128 of a head's keys and of its values is served"))

    def cut(all_scales):
        blocks = c.view(c.cast(all_scales, "float32"), heads, -1, LATENT // BLOCK)
        return [c.dense(x) for x in (blocks[:, :nope // BLOCK], blocks[:, nope // BLOCK:])]

    scales = s.made.of(f"blocks of {heads}, {nope}", (scale,), cut)
    return [("fp8_block", w, x) for w, x in zip(parts, scales)]


def gather_kv_b_proj(k_buffer, k_scale, kv_indptr, kv_indices, kv_prefix_sum_context_lens, kv_proj_weight,
                     kv_proj_scale, k_prefix, v_prefix, weight_preshuffle=False, shuffled_kv_cache=False):
    """Expands latents of listed pages [pages, P, 576] to keys [tokens, heads, nope + 64] and values [tokens, heads, D].
    Launches a gather and two products."""
    call = "gather_kv_b_proj"
    c.refuse(call, weight_preshuffle=(weight_preshuffle, "weights are read row by row"),
             shuffled_kv_cache=(shuffled_kv_cache, "latent caches of fragments are not read"))
    own, (tokens, heads, dim), dim_v = c.dtype(k_prefix), k_prefix.shape, v_prefix.shape[2]
    pages = k_buffer if k_buffer.ndim == 4 else k_buffer[:, :, None]
    nope, s, batch = dim - ROPE, c.session(k_prefix), kv_indptr.shape[0] - 1
    if pages.shape[3] != LATENT + ROPE or pages.shape[2] != 1:
        raise NotServed(call, f"rows of {pages.shape[3]} elements: latents have {LATENT} + {ROPE}")
    parts = weight_parts(call, s, kv_proj_weight, kv_proj_scale, heads, nope, dim_v, own)
    cache = c.Cache(call, pages[..., :LATENT], pages[..., LATENT:], own, k_scale, k_scale)
    stream, latents = c.stream(k_prefix), c.rows(k_prefix, (tokens, 1, LATENT), own)
    rope = c.rows(k_prefix, (tokens, 1, ROPE), own)
    s.op("cache_gather", dtype=own, head_dim=LATENT, head_dim_v=ROPE, kv_heads=1, cache=cache.desc,
         page_table="indices")(
        k_out=latents, v_out=rope, cu_seqlens_k=kv_prefix_sum_context_lens[:batch + 1], kv_indptr=kv_indptr,
        kv_indices=kv_indices, max_seqlen_k=tokens, **cache.tensors(), stream=stream)
    # AITER ignores the scale of a bf16 cache, but not of an fp16 cache
    if c.dtype(k_buffer) == "fp16" and k_scale is not None:
        for x in (latents, rope):
            x *= c.scalar(call, "k_scale", k_scale)
    outs = {"out": k_prefix[..., :nope], "tail": rope[:, 0], "tail_out": k_prefix[..., nope:]}, {"out": v_prefix}
    for (weights, w, scale), more in zip(parts, outs):
        s.op("head_product", dtype=own, weights=weights, head_dim=LATENT, head_dim_v=w.shape[1], heads=heads,
             shared=True)(x=latents, w=w, w_scale=scale, **more, stream=stream)
