# SPDX-License-Identifier: Apache-2.0
"""AITER's calls of linear attention: of aiter.ops.triton.kimi_delta_attn, gated_delta_net and conv, and of aiter.ops.flydsl.
States are in the order of AITER's call. Arguments that choose among AITER's own kernels have no effect."""
from attn._op import stream_handle
from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.attention import new_like
from attn.linear import _calls as l
from attn.linear import atom, fla, sglang


def chunk_kimi_delta_attn(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, initial_state=None,
                          output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
                          use_beta_sigmoid_in_kernel=False, safe_gate=False, lower_bound=None, state_v_first=False,
                          disable_recompute=False, chunk_size=None, cu_seqlens=None):
    """Computes prompts of KDA: fla.chunk_kda() in AITER's order of arguments. With use_beta_sigmoid_in_kernel beta has
    logits, which are rounded to the type of q. This is exact for ATOM, which widens logits of 16 bits to float.
    chunk_size has no effect."""
    if use_beta_sigmoid_in_kernel:
        beta = c.cast(beta, str(q.dtype).removeprefix("torch."))
    return fla.chunk_kda(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                         use_gate_in_kernel, use_beta_sigmoid_in_kernel, lower_bound=lower_bound,
                         state_v_first=state_v_first, cu_seqlens=cu_seqlens, A_log=A_log, dt_bias=dt_bias)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    """Computes prompts of GDN, with states [sequences, value heads, K, V]. Returns (output, last states or None)."""
    return fla.chunk_gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
                                      cu_seqlens=cu_seqlens)



def chunk_gated_delta_rule_opt_vk(q, k, v, o=None, g=None, beta=None, scale=None, initial_state=None,
                                  output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None,
                                  use_chunk_hip=False, use_chunk_flydsl=False, use_prepare_flydsl=False, state_dtype=None,
                                  use_exp2=True, num_decodes=0, num_decode_tokens=0, seq_lens_cpu=None,
                                  prefill_metadata=None, initial_state_indices=None, inplace_final_state=None,
                                  snapshot_dtype=None):
    """Computes prompts of GDN, with states [sequences, value heads, V, K]. With initial_state_indices, a slot for each
    sequence, initial_state is a pool [slots, value heads, V, K] that the call updates. cu_seqlens begins with
    num_decodes sequences of a decode step, num_decode_tokens tokens, which no other tensor has. Returns the output,
    and the last states, the pool, or None."""
    call = "chunk_gated_delta_rule_opt_vk"
    if g is None or beta is None:
        raise NotServed(call, "no g or no beta")
    if cu_seqlens is not None and num_decodes:
        cu_seqlens = cu_seqlens[num_decodes:] - num_decode_tokens
    if initial_state_indices is None:
        return fla.chunk_gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state,
                                          use_qk_l2norm_in_kernel, state_v_first=True, cu_seqlens=cu_seqlens) \
            if o is None else atom.chunk_gated_delta_rule_vk(q, k, v, g, beta, scale, initial_state, output_final_state,
                                                             cu_seqlens, use_qk_l2norm_in_kernel, o)
    if inplace_final_state is False or cu_seqlens is None:
        raise NotServed(call, "a pool of states that is not updated in place, or no cu_seqlens")
    out = l.delta("gated_delta_prefill", q, k, v, initial_state, "v_major", l.gates(g, beta), decay="head", scale=scale,
                  l2_norm=use_qk_l2norm_in_kernel, out=o, cu_seqlens=l.indices(cu_seqlens), max_seqlen=q.shape[1],
                  state_slots=l.indices(initial_state_indices))
    return out, initial_state if output_final_state else None


def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None, initial_state=None,
                                     output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    """Computes GDN, or with gk KDA, token by token, with states [sequences, value heads, K, V]. Returns (output, last
    states or None)."""
    return fla.fused_recurrent_gated_delta_rule(q, k, v, g, gk, gv, beta, scale, initial_state, output_final_state,
                                                use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)




def fused_rearrange_sigmoid_gated_delta_rule(A_log, a, b, dt_bias, qkv, key_dim, value_dim, head_k_dim, head_v_dim,
                                             beta=1.0, threshold=20.0, scale=None, initial_state=None,
                                             inplace_final_state=True, cu_seqlens=None, ssm_state_indices=None,
                                             num_accepted_tokens=None, use_qk_l2norm_in_kernel=False, is_kda=False,
                                             core_attn_out=None):
    """Computes a step of GDN, or with is_kda of KDA. A row of qkv [tokens, 2 key_dim + value_dim] has q, k and v of a
    token, one after the other. States are [slots, value heads, V, K]. Returns (output, initial_state); initial_state is
    updated in place."""
    rows = c.view(qkv, -1, qkv.shape[-1])
    q, k = (l.columns(rows, i * key_dim, (i + 1) * key_dim, -1, head_k_dim)[None] for i in (0, 1))
    v = l.columns(rows, 2 * key_dim, 2 * key_dim + value_dim, -1, head_v_dim)[None]
    return atom.fused_sigmoid_gating_delta_rule_update(
        A_log, a, b, dt_bias, q, k, v, core_attn_out, beta, threshold, scale, initial_state, inplace_final_state,
        cu_seqlens, ssm_state_indices, num_accepted_tokens, use_qk_l2norm_in_kernel, is_kda)


def flydsl_gdr_decode(query, key, value, a, b, dt_bias, A_log, indices, state, out, use_qk_l2norm, need_shuffle_state,
                      stream=None, read_indices=None, write_indices=None):
    """Computes a decode step of GDN. query, key and value are [batch, 1, heads, ...] or [1, batch, heads, ...], states
    [slots, value heads, V, K]. States are read from the slots read_indices and written to the slots write_indices;
    None: `indices`. The output goes to out."""
    call = "flydsl_gdr_decode"
    if need_shuffle_state or stream is not None and stream_handle(stream) != stream_handle(c.stream(query)):
        raise NotServed(call, "states K x V, or a stream that is not the current one")
    tokens, heads = indices.shape[0], value.shape[-2]
    if query.shape[0] * query.shape[1] != tokens:
        raise NotServed(call, "several tokens of a sequence")
    rows = [x[0] if x.shape[0] == 1 else x[:, 0] for x in (query, key, value)]
    gate = l.gates(c.view(a, 1, tokens, heads), c.view(b, 1, tokens, heads), A_log, dt_bias, raw=True)
    to, of = (indices if x is None else x for x in (write_indices, read_indices))
    l.delta("gated_delta", *(x[None] for x in rows), state, "v_major", gate, decay="head", l2_norm=use_qk_l2norm,
            out=c.view(out, 1, tokens, heads, value.shape[-1]), max_seqlen=1, state_slots=l.steps(to),
            state_slots_in=l.steps(of))


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, seq_lens_cpu, cache_indices=None, has_initial_state=None,
                     activation="silu", pad_slot_id=-1, validate_data=False, **kwargs):
    """Convolves prompts, x [channels, tokens]. Returns an output of the same dimensions."""
    return sglang.causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, seq_lens_cpu, cache_indices,
                                   has_initial_state, activation, pad_slot_id, validate_data, **kwargs)


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None, conv_state_indices=None,
                         num_accepted_tokens=None, intermediate_conv_window=None, pad_slot_id=-1, metadata=None,
                         validate_data=False):
    """Convolves a step's tokens, x [batch, channels] or [batch, channels, tokens]. Returns an output of the same
    dimensions."""
    if intermediate_conv_window is not None:
        raise NotServed("causal_conv1d_update", "windows of drafts without slots of their own")
    return sglang.causal_conv1d_update(x, conv_state, weight, bias, activation, cache_seqlens, conv_state_indices,
                                       num_accepted_tokens, pad_slot_id=pad_slot_id, metadata=metadata,
                                       validate_data=validate_data)


def causal_conv1d_split_qkv_triton_tile_fn(x, weight, bias, conv_states, query_start_loc, k_dim, v_dim, cache_indices=None,
                                           has_initial_state=None, activation="silu", pad_slot_id=-1, block_m=64, block_n=32,
                                           num_warps=4, metadata=None, preserve_input_dtype=False):
    """Convolves prompts, x [channels, tokens]. Returns q and k [tokens, k_dim] and v [tokens, v_dim], in the type of x."""
    return atom.causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, k_dim, v_dim, cache_indices,
                                 has_initial_state=has_initial_state, activation=activation, pad_slot_id=pad_slot_id)


def _unpacked(rows, gates, k_heads, v_heads, k_dim, v_dim, interleaved):
    """Splits packed rows: `rows` have q, k, v and z, `gates` have b and a. Returns (q, k and v joined, z, b, a), each
    [tokens, columns]. Interleaved rows have all columns of a head of q and k, then those for the next head."""
    n, width, ratio = rows.shape[0], 2 * k_heads * k_dim + v_heads * v_dim, v_heads // k_heads
    if not interleaved:
        return rows[:, :width], rows[:, width:], gates[:, :v_heads], gates[:, v_heads:]
    heads, pairs = rows.reshape(n, k_heads, -1), gates.reshape(n, k_heads, -1)
    ends = (0, k_dim, 2 * k_dim, 2 * k_dim + ratio * v_dim, heads.shape[2])
    parts = [heads[:, :, first:end].reshape(n, -1) for first, end in zip(ends, ends[1:])]
    mixed = l.joined(parts[:3])
    return mixed, parts[3], pairs[:, :, :ratio].reshape(n, -1), pairs[:, :, ratio:].reshape(n, -1)


def fused_reshape_causal_conv1d_update_single_token(
        x, num_actual_tokens, num_k_heads, num_v_heads, head_k_dim, head_v_dim, ba, z_out, core_attn_out, conv_state, weight,
        bias=None, activation=None, conv_state_indices=None, num_accepted_tokens=None, query_start_loc=None, max_query_len=-1,
        pad_slot_id=-1, block_idx_last_scheduled_token=None, initial_state_idx=None, validate_data=False,
        qkvz_layout="interleaved"):
    """Convolves a decode step from packed rows: x has q, k, v and z of each token, ba has b and a. z is copied to
    z_out. The rows of z_out and core_attn_out after num_actual_tokens become 0. Returns (q, k and v joined as rows
    [tokens, channels], b, a)."""
    call, n = "fused_reshape_causal_conv1d_update_single_token", num_actual_tokens
    if qkvz_layout not in ("interleaved", "flat"):
        raise NotServed(call, f"qkvz_layout {qkvz_layout!r}")
    if any(t is not None for t in (num_accepted_tokens, query_start_loc, block_idx_last_scheduled_token)):
        raise NotServed(call, "drafts, or states at the boundaries of blocks")
    rows, gates = (c.view(t, t.shape[0], -1)[:n] for t in (x, ba))
    mixed, z, b, a = _unpacked(rows, gates, num_k_heads, num_v_heads, head_k_dim, head_v_dim, qkvz_layout == "interleaved")
    out = new_like(mixed, tuple(mixed.shape))
    slots = c.arange(x, n) if conv_state_indices is None else l.indices(conv_state_indices)
    l.convolve(call, mixed, weight, bias, conv_state, slots, activation, l.first_slot(call, pad_slot_id), max_seqlen=1,
               out=out)
    c.view(z_out, z_out.shape[0], -1)[:n] = z
    z_out[n:], core_attn_out[n:] = 0, 0
    return out, b, a
