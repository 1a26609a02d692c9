# SPDX-License-Identifier: Apache-2.0
"""Products of latent attention's heads with weights in fp8."""
from attn.aiter import _common as c

GROUP = 128  # elements of a row that share a scale


def batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant(
        X, WQ, w_scale, group_size=128, bias=None, dtype="bfloat16", splitK=None, YQ=None,
        transpose_bm=False, transpose_bm_in=False, config=None):
    """X[i] WQ[i]^T of each head i, X [heads, tokens, K] or with transpose_bm_in [tokens, heads, K], which is
    rounded to fp8 with a scale for each 128 elements; the result likewise, by transpose_bm."""
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
