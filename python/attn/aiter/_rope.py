# SPDX-License-Identifier: Apache-2.0
"""AITER's calls that rotate by cached cosines and sines, or norm over all heads, without a cache. They launch
rope_qk_norm_cache."""
from attn.aiter import _common as c

STYLES = {0: "neox", 1: "gptj"}


def rotated(x, width, nope_first):
    """Returns the elements of x [s, b, heads, D] that rotate, as a view [tokens, heads, width]: the first `width`
    of a head, or with nope_first the last."""
    if x.shape[0] == 1:
        x = x[0]
    else:
        x = x[:, 0] if x.shape[1] == 1 else c.view(x, x.shape[0] * x.shape[1], *x.shape[2:])
    return x[..., x.shape[2] - width:] if nope_first else x[..., :width]


def rotate(call, x, y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first):
    width = 2 * cos.shape[-1]
    c.refuse(call, rotate_style=(rotate_style not in STYLES, f"it is {rotate_style}: 0 and 1 are known"),
             reuse_freqs_front_part=(not reuse_freqs_front_part, "a pair of elements has one cosine"),
             input=(x.shape[-1] < width, f"heads of {x.shape[-1]} elements, of which {width} rotate"))
    s, q = c.session(x), rotated(x, width, nope_first)
    if y is not None:
        k = rotated(y, width, nope_first)
    elif q.shape[1] > 1:
        q, k = q[:, :-1], q[:, -1:]  # the op needs a key, so the last head is passed as the key
    else:
        k = c.new_like(q, (q.shape[0], 1, width))
        c.zero(k)
    table = c.cosines(s, cos, sin)
    short = c.dtype(table) != "f32"
    if short and c.dtype(table) != c.dtype(x):
        raise c.NotServed(call, f"cosines are {c.dtype(table)}: they are float32 or of the model's type")
    s.op("rope_qk_norm_cache", dtype=c.dtype(x), head_dim=width, heads=q.shape[1], kv_heads=k.shape[1],
         rope=STYLES[rotate_style], rotary_dim=width, cos_sin_short=short, keep_kv=True,
         cache=c.CacheDesc(page_size=1))(
        q=q, k=k, positions=c.cast(c.view(positions, -1), "int64"), cos_sin=table, stream=c.stream(x))


def rope_cached_2c_fwd_inplace(input_x, input_y, cos, sin, rotate_style, reuse_freqs_front_part, nope_first):
    """Rotates two tensors [length, batch, heads, D] in place. A token's position is its index in its sequence."""
    length, batch = input_x.shape[:2]
    positions = c.session(input_x).made.of(("numbers", type(input_x), length, batch), (),
                                           lambda: c.repeated(input_x, length, batch))
    rotate("rope_cached_2c_fwd_inplace", input_x, input_y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first)


def rope_cached_thd_positions_offsets_2c_fwd_inplace(x, y, cos, sin, positions, offsets, rotate_style,
                                                     reuse_freqs_front_part, nope_first, transpose_output=False):
    """Rotates two tensors [tokens, heads, D] in place, by the rows positions + offsets of cos and sin. Returns both
    tensors."""
    call = "rope_cached_thd_positions_offsets_2c_fwd_inplace"
    c.refuse(call, transpose_output=(transpose_output, "outputs are where their inputs are"))
    at = positions if offsets is None else positions + offsets
    rotate(call, x[None], y[None], cos, sin, at, rotate_style, reuse_freqs_front_part, nope_first)
    return x, y


def rope_cached_thd_positions_2c_fwd_inplace(x, y, cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first,
                                             transpose_output=False):
    """Rotates two tensors [tokens, heads, D] in place, by the rows `positions` of cos and sin. Returns both tensors."""
    call = "rope_cached_thd_positions_2c_fwd_inplace"
    c.refuse(call, transpose_output=(transpose_output, "outputs are where their inputs are"))
    rotate(call, x[None], y[None], cos, sin, positions, rotate_style, reuse_freqs_front_part, nope_first)
    return x, y


def minimax_qk_norm_rope(qkv, q_weight, k_weight, cos_sin_cache, positions, *, num_heads_q, num_heads_k, head_dim,
                         rotary_dim, eps, is_neox_style, q_out=None, k_out=None, v_out=None):
    """Applies an RMS norm over all heads, and the rotation, to q and k of packed q, k, v [tokens, n]. Returns q, k and
    v [tokens, heads * D]. The sums of squares are computed before the launch."""
    call, own = "minimax_qk_norm_rope", c.dtype(qkv)
    c.refuse(call, q_weight=(c.dtype(q_weight) != own or c.dtype(k_weight) != own,
                             f"weights are {c.dtype(q_weight)} and {c.dtype(k_weight)}, what they multiply is {own}"),
             cos_sin_cache=(c.dtype(cos_sin_cache) != own or cos_sin_cache.shape[1] != rotary_dim,
                            f"[{cos_sin_cache.shape[0]}, {cos_sin_cache.shape[1]}] of {c.dtype(cos_sin_cache)}"))
    tokens, ends = qkv.shape[0], (num_heads_q * head_dim, (num_heads_q + num_heads_k) * head_dim)
    parts = qkv[:, :ends[0]], qkv[:, ends[0]:ends[1]], qkv[:, ends[1]:]
    outs = [c.new_like(qkv, tuple(x.shape)) if out is None else out for x, out in zip(parts, (q_out, k_out, v_out))]
    q, k, v = (c.view(x, tokens, -1, head_dim) for x in parts)
    s = c.session(qkv)
    s.op("rope_qk_norm_cache", dtype=own, head_dim=head_dim, heads=num_heads_q, kv_heads=num_heads_k, norm="full",
         rope="neox" if is_neox_style else "gptj", rotary_dim=rotary_dim, cos_sin_short=True, keep_kv=True,
         cache=c.CacheDesc(page_size=1))(
        q=q, k=k, v=v, **{n: c.view(out, tokens, -1, head_dim) for n, out in zip(("q_out", "k_out", "v_out"), outs)},
        q_weight=c.view(q_weight, num_heads_q, head_dim), k_weight=c.view(k_weight, num_heads_k, head_dim),
        q_squares=c.squares(parts[0]), k_squares=c.squares(parts[1]), q_count=ends[0], k_count=ends[1] - ends[0],
        positions=c.cast(positions, "int64"), cos_sin=cos_sin_cache, eps=eps, stream=c.stream(qkv))
    return tuple(outs)


def rope_cached_positions_fwd_inplace(input, cos, sin, positions, rotate_style, reuse_freqs_front_part,
                                      nope_first):
    """Rotates input [s, b, heads, D] in place by the rows `positions` [s, b] of cos and sin [positions, 1, 1, width /
    2]. The first `width` elements of a head rotate, or with nope_first the last."""
    rotate("rope_cached_positions_fwd_inplace", input, None, cos, sin, positions, rotate_style,
           reuse_freqs_front_part, nope_first)


def rope_cached_positions_2c_fwd_inplace(input_x, input_y, cos, sin, positions, rotate_style,
                                         reuse_freqs_front_part, nope_first):
    """Rotates like rope_cached_positions_fwd_inplace() two tensors, whose numbers of heads may differ."""
    rotate("rope_cached_positions_2c_fwd_inplace", input_x, input_y, cos, sin, positions, rotate_style,
           reuse_freqs_front_part, nope_first)
