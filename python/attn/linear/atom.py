# SPDX-License-Identifier: Apache-2.0
"""The calls of linear attention as ATOM makes them (atom.model_ops.mamba_ops, atom.model_ops.fla_ops): the same names,
arguments in the same order, results in the same place. `attn.linear.use()` names the packs.

    import attn.linear.atom as atom
    q, k, v = atom.causal_conv1d_update(x, conv_state, weight, k_dim, v_dim, bias, "silu", conv_state_indices=slots)

States of the calls without `vk` are [slots, value heads, K, V], states of chunk_gated_delta_rule_vk and
fused_sigmoid_gating_delta_rule_update [slots, value heads, V, K]. A call may read a state from one slot and write it to
another. A form that no kernel has raises NotServed with the reason.
"""
from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.attention import new_like
from attn.linear import _calls as l


def _parts(call, rows, weight, bias, state, slots, activation, pad, widths, **more):
    """Launches the convolution of rows [tokens, channels]. Returns three new tensors: q and k with widths[0] channels
    each, v with widths[1]."""
    k_dim, v_dim = widths
    if rows.shape[1] != 2 * k_dim + v_dim:
        raise NotServed(call, f"{rows.shape[1]} channels that are not twice {k_dim} and {v_dim}")
    q, k, v = (new_like(rows, (rows.shape[0], n)) for n in (k_dim, k_dim, v_dim))
    l.convolve(call, rows, weight, bias, state, l.indices(slots), activation, l.first_slot(call, pad), q_out=q, k_out=k,
               out=v, **more)
    return q, k, v


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, k_dim_size, v_dim_size, cache_indices=None,
                     cache_indices_in=None, has_initial_state=None, activation="silu", pad_slot_id=-1,
                     block_idx_first_scheduled_token=None, block_idx_last_scheduled_token=None, initial_state_idx=None,
                     num_computed_tokens=None, block_size_to_align=0, metadata=None, validate_data=False):
    """Convolves prompts: x is [channels, tokens], the transpose of a contiguous tensor. Returns q and k [tokens,
    k_dim_size] and v [tokens, v_dim_size]."""
    call = "causal_conv1d_fn"
    states = dict(state_slots_in=l.indices(cache_indices_in))
    states.update(l.fn_slots(call, cache_indices, block_idx_first_scheduled_token, block_idx_last_scheduled_token,
                             initial_state_idx, num_computed_tokens, block_size_to_align, x.shape[1], pad_slot_id))
    return _parts(call, x.T, weight, bias, conv_states, states.pop("slots"), activation, pad_slot_id,
                  (k_dim_size, v_dim_size), **states, cu_seqlens=l.indices(query_start_loc),
                  has_state=None if has_initial_state is None else c.reinterpret(has_initial_state, "uint8"),
                  max_seqlen=x.shape[1])


def causal_conv1d_update(x, conv_state, weight, k_dim_size, v_dim_size, bias=None, activation=None,
                         conv_state_indices=None, conv_state_indices_in=None, num_accepted_tokens=None,
                         query_start_loc=None, max_query_len=-1, pad_slot_id=-1, block_idx_last_scheduled_token=None,
                         initial_state_idx=None, validate_data=False):
    """Convolves a step: x is [batch, channels], or with query_start_loc [tokens, channels], and is not changed.
    Returns q and k [tokens, k_dim_size] and v [tokens, v_dim_size]."""
    call = "causal_conv1d_update"
    states = dict(state_slots_in=l.indices(conv_state_indices_in))
    states.update(l.step_slots(call, x, conv_state_indices, block_idx_last_scheduled_token, initial_state_idx))
    return _parts(call, x, weight, bias, conv_state, states.pop("slots"), activation, pad_slot_id,
                  (k_dim_size, v_dim_size), **states,
                  cu_seqlens=l.indices(query_start_loc), accepted=l.indices(num_accepted_tokens),
                  max_seqlen=1 if query_start_loc is None else max_query_len)


def _prompts(call, order, q, k, v, gate, decay, scale, initial_state, output_final_state, cu_seqlens, l2_norm, o):
    """Launches gated_delta_prefill on states that are not in a pool. Returns (output, last states or None)."""
    if cu_seqlens is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens")
    dims = (k.shape[3], v.shape[3]) if order == "k_major" else (v.shape[3], k.shape[3])
    state, lists = l.own_states(q, initial_state, (cu_seqlens.shape[0] - 1, v.shape[2]) + dims)
    out = l.delta("gated_delta_prefill", q, k, v, order=order, gate=gate, decay=decay, l2_norm=l2_norm, scale=scale, out=o,
                  cu_seqlens=l.indices(cu_seqlens), max_seqlen=q.shape[1], **lists)
    return out, state if output_final_state else None


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None,
                           head_first=False, use_qk_l2norm_in_kernel=False, o=None):
    """Computes prompts of GDN, with states [sequences, value heads, K, V]. Other tensors are [1, tokens, heads, ...].
    Returns (output, states after the sequences), both new."""
    if head_first:
        raise NotServed("chunk_gated_delta_rule", "tensors [batch, heads, tokens, ...]")
    return _prompts("chunk_gated_delta_rule", "k_major", q, k, v, l.gates(g, beta), "head", scale, initial_state,
                    output_final_state, cu_seqlens, use_qk_l2norm_in_kernel, o)


def chunk_gated_delta_rule_vk(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None,
                              use_qk_l2norm_in_kernel=False, o=None):
    """Computes prompts of GDN like chunk_gated_delta_rule(), with states [sequences, value heads, V, K]."""
    return _prompts("chunk_gated_delta_rule_vk", "v_major", q, k, v, l.gates(g, beta), "head", scale, initial_state,
                    output_final_state, cu_seqlens, use_qk_l2norm_in_kernel, o)


def _step(call, order, q, k, v, state, gate, decay, slots, cu_seqlens, accepted, l2_norm, scale=None, out=None,
          slots_in=None):
    """Launches gated_delta over a pool of states that it updates in place. Returns the output."""
    if slots is None or state is None or cu_seqlens is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens, or states that are not updated in place by ssm_state_indices")
    slots = l.steps(slots)
    more = {} if slots_in is None else {"state_slots_in": l.steps(slots_in)}
    return l.delta("gated_delta", q, k, v, state, order, gate, decay=decay, l2_norm=l2_norm, scale=scale, out=out, **more,
                   **l.recurrence(slots, cu_seqlens, accepted, slots.shape[1] if slots.shape[1] > 1 else q.shape[1]))


def fused_recurrent_gated_delta_rule(q, k, v, g, beta=None, scale=None, initial_state=None, inplace_final_state=True,
                                     cu_seqlens=None, ssm_state_indices=None, ssm_state_indices_in=None,
                                     num_accepted_tokens=None, use_qk_l2norm_in_kernel=False):
    """Computes a step of GDN over states [slots, value heads, K, V]. Returns (output, initial_state); initial_state is
    updated in place."""
    call = "fused_recurrent_gated_delta_rule"
    if not inplace_final_state or beta is None:
        raise NotServed(call, "states that are not updated in place, or no beta")
    out = _step(call, "k_major", q, k, v, initial_state, l.gates(g, beta), "head", ssm_state_indices, cu_seqlens,
                num_accepted_tokens, use_qk_l2norm_in_kernel, scale, slots_in=ssm_state_indices_in)
    return out, initial_state


def fused_sigmoid_gating_delta_rule_update(A_log, a, b, dt_bias, q, k, v, o=None, beta=1.0, threshold=20.0, scale=None,
                                           initial_state=None, inplace_final_state=True, cu_seqlens=None,
                                           ssm_state_indices=None, num_accepted_tokens=None,
                                           use_qk_l2norm_in_kernel=False, is_kda=False, lower_bound=None):
    """Computes a step of GDN, or with is_kda of KDA, over states [slots, value heads, V, K], from the logits of its
    gates. a is [tokens, value heads], for KDA [tokens, value heads, K]; b is [tokens, value heads]. Returns (output,
    initial_state). The output is `o` if given; initial_state is updated in place."""
    call = "fused_sigmoid_gating_delta_rule_update"
    if (beta, threshold) != (1.0, 20.0):
        raise NotServed(call, f"a softplus with beta {beta} and threshold {threshold}")
    if not inplace_final_state:
        raise NotServed(call, "states that are not updated in place")
    heads, tokens = v.shape[2], v.shape[1]
    shape = (1, tokens, heads, k.shape[3]) if is_kda else (1, tokens, heads)
    gate = l.gates(c.view(a, *shape), c.view(b, 1, tokens, heads), A_log, dt_bias, lower_bound, raw=True)
    out = _step(call, "v_major", q, k, v, initial_state, gate, "channel" if is_kda else "head", ssm_state_indices,
                cu_seqlens, num_accepted_tokens, use_qk_l2norm_in_kernel, scale, o)
    return out if o is None else o, initial_state


def gdn_decode_update_lossy_fast(A_log, a, b, dt_bias, q, k, v, initial_state, ssm_state_indices,
                                 ssm_state_indices_in=None, scale=None, use_qk_l2norm_in_kernel=False):
    """Computes a step with one token for each sequence over states [slots, value heads, K, V], as exactly as
    fused_recurrent_gated_delta_rule(). Returns (output, initial_state); initial_state is updated in place."""
    tokens, heads = v.shape[1], v.shape[2]
    gate = l.gates(c.view(a, 1, tokens, heads), c.view(b, 1, tokens, heads), A_log, dt_bias, raw=True)
    out = _step("gdn_decode_update_lossy_fast", "k_major", q, k, v, initial_state, gate, "head", ssm_state_indices,
                c.arange(q, tokens + 1), None, use_qk_l2norm_in_kernel, scale, slots_in=ssm_state_indices_in)
    return out, initial_state
