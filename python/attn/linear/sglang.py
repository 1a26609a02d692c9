# SPDX-License-Identifier: Apache-2.0
"""The calls of linear attention as SGLang makes them (sglang.kernels.ops.attention.fla and
sglang.srt.layers.attention.mamba): the same names, arguments in the same order, results in the same place.
`attn.linear.use()` names the packs.

    import attn.linear.sglang as sglang
    out = sglang.fused_sigmoid_gating_delta_rule_update(A_log, a, dt_bias, 1.0, 20.0, q, k, v, b, states, slots, ...)

States are [slots, value heads, V, K]. Verification of drafts writes the state after each draft to a separate buffer,
and not to the pool. Drafts may form a tree, whose first token is the root. A call that no kernel serves raises
NotServed with the reason.
"""
from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.attention import new_like
from attn.linear import _calls as l


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, seq_lens_cpu, cache_indices=None,
                     has_initial_state=None, activation="silu", pad_slot_id=-1, validate_data=False, block_table=None,
                     **kwargs):
    """Convolves prompts: x is [channels, tokens], the transpose of a contiguous tensor. The result is new and has the
    same dimensions. seq_lens_cpu has the lengths, on the host."""
    call = "causal_conv1d_fn"
    if cache_indices is None or conv_states is None or block_table is not None:
        raise NotServed(call, "no cache_indices, or a block_table")
    rows = x.T
    out = new_like(rows, tuple(rows.shape))
    l.convolve(call, rows, weight, bias, conv_states, l.indices(cache_indices), activation,
               l.first_slot(call, pad_slot_id), cu_seqlens=l.indices(query_start_loc),
               has_state=None if has_initial_state is None else c.reinterpret(has_initial_state, "uint8"),
               max_seqlen=max(seq_lens_cpu), out=out)
    return out.T


def _windows(call, x, conv_state, weight, window, rows, slots):
    """Returns the memory of `window` as [rows, channels, drafts + taps - 2], in which the windows after successive
    drafts overlap. Copies the live states to its first columns."""
    n, taps = x.shape[2], weight.shape[1]
    strides = c.strides(window)
    if strides[1] != strides[3]:
        raise NotServed(call, "intermediate_conv_window whose windows do not overlap")
    physical = l.strided(window, (window.shape[0], x.shape[1], n + taps - 2), (strides[0], strides[2], strides[3]))
    at, live = c.cast(rows, "int64"), c.cast(c.most(slots, 0), "int64")
    physical[at, :, :taps - 1] = conv_state[live][:, :, :taps - 1]
    return physical


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None, conv_state_indices=None,
                         num_accept_tokens=None, intermediate_conv_window=None, intermediate_state_indices=None,
                         retrieve_next_token=None, retrieve_next_sibling=None, retrieve_parent_token=None, pad_slot_id=-1,
                         metadata=None, validate_data=False):
    """Convolves a step: x is [batch, channels], or in verification [batch, channels, drafts]. The result is new. With
    intermediate_conv_window [rows, drafts, channels, taps - 1], the window after each draft goes there, and conv_state
    is not written. For drafts that form a tree retrieve_parent_token [batch, drafts] has the parent of each draft."""
    call = "causal_conv1d_update"
    if retrieve_next_token is not None and retrieve_parent_token is None:
        raise NotServed(call, "a tree without retrieve_parent_token")
    if cache_seqlens is not None or num_accept_tokens is not None:
        raise NotServed(call, "cache_seqlens or num_accept_tokens")
    if conv_state_indices is None:
        raise NotServed(call, "no conv_state_indices")
    slots, first = l.indices(conv_state_indices), l.first_slot(call, pad_slot_id)
    if x.ndim == 2 and intermediate_conv_window is None:
        out = new_like(x, tuple(x.shape))
        l.convolve(call, x, weight, bias, conv_state, slots, activation, first, max_seqlen=1, out=out)
        return out
    if x.ndim != 3 or intermediate_conv_window is None or intermediate_state_indices is None:
        raise NotServed(call, "several tokens without intermediate_conv_window and intermediate_state_indices")
    batch, channels, drafts = x.shape
    rows = l.indices(intermediate_state_indices)[:batch]
    tokens = c.view(x.swapaxes(1, 2), batch * drafts, channels)
    out = new_like(tokens, tuple(tokens.shape))
    real = slots >= first  # unlike slot 0, row 0 of the windows is no padding
    if retrieve_parent_token is None:
        state = _windows(call, x, conv_state, weight, intermediate_conv_window, rows, slots)
        more = dict(accepted=slots * 0 + 1)
    else:
        state = conv_state
        more = dict(tree=True, windows=intermediate_conv_window, state_slots_in=slots, parents=l.parents(retrieve_parent_token))
    l.convolve(call, tokens, weight, bias, state, c.where(real, rows, rows * 0 - 1), activation, 0, max_seqlen=drafts,
               out=out, **more)
    return c.view(out, batch, drafts, channels).swapaxes(1, 2)


def _tokens(x, *shape):
    """Returns a gate's tensor as [1, tokens, ...]."""
    return c.view(x, 1, -1, *shape)


def fused_sigmoid_gating_delta_rule_update(A_log, a, dt_bias, softplus_beta, softplus_threshold, q, k, v, b,
                                           initial_state_source, initial_state_indices, scale=None,
                                           use_qk_l2norm_in_kernel=False, cu_seqlens=None, is_kda=False,
                                           lower_bound=None, disable_state_update=False, intermediate_states_buffer=None,
                                           intermediate_state_indices=None, cache_steps=None, retrieve_parent_token=None,
                                           cache_ring=False, replayssm_rawv=None, replayssm_rawk=None, replayssm_g=None,
                                           replayssm_beta=None, match_cutedsl_decode=False):
    """Computes a step of GDN, or with is_kda of KDA, from the logits of its gates. In verification the state after draft t
    of sequence s goes to intermediate_states_buffer[intermediate_state_indices[s], t], and the pool is not written. The
    live state is first copied to draft 0's place. For drafts that form a tree retrieve_parent_token [batch, drafts] has
    the parent of each draft. match_cutedsl_decode, which selects a rounding, has no effect. Returns a new output."""
    call = "fused_sigmoid_gating_delta_rule_update"
    if retrieve_parent_token is not None and not disable_state_update:
        raise NotServed(call, "a tree without intermediate_states_buffer")
    if (softplus_beta, softplus_threshold) != (1.0, 20.0):
        raise NotServed(call, f"a softplus with beta {softplus_beta} and threshold {softplus_threshold}")
    if cache_ring or disable_state_update != (intermediate_states_buffer is not None):
        raise NotServed(call, "a ring of records, or one of disable_state_update and intermediate_states_buffer")
    if cu_seqlens is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens")
    heads = v.shape[2]
    gate = l.gates(_tokens(a, heads, k.shape[3]) if is_kda else _tokens(a, heads), _tokens(b, heads),
                   c.view(A_log, heads), dt_bias, lower_bound, raw=True)
    slots, state, more = l.indices(initial_state_indices), initial_state_source, {}
    if disable_state_update:
        drafts = intermediate_states_buffer.shape[1]
        rows, here = l.indices(intermediate_state_indices)[:slots.shape[0]], slots >= 0
        intermediate_states_buffer[c.cast(rows, "int64"), 0] = state[c.cast(c.most(slots, 0), "int64")]
        state = c.view(intermediate_states_buffer, -1, *state.shape[1:])
        columns = c.arange(slots, drafts)[None] + rows[:, None] * drafts
        slots = c.where(here[:, None], columns, columns * 0 - 1)
        more["state_slots_in"] = slots
    if retrieve_parent_token is not None:
        more.update(tree=True, parents=l.parents(retrieve_parent_token))
    longest = slots.shape[1] if slots.ndim == 2 else q.shape[1]
    return l.delta("gated_delta", q, k, v, state, "v_major", gate, decay="channel" if is_kda else "head", scale=scale,
                   l2_norm=use_qk_l2norm_in_kernel, **more, **l.recurrence(slots, cu_seqlens, None, longest))


def _packed(mixed_qkv, a, b, A_log, dt_bias, scale, state, out, slots, l2_norm, kda, lower_bound=None):
    """Launches a step of one token for each row of mixed_qkv, [tokens, 2 heads K + value heads V]."""
    tokens, heads, v_dim, k_dim = mixed_qkv.shape[0], state.shape[1], state.shape[2], state.shape[3]
    width = (mixed_qkv.shape[1] - heads * v_dim) // 2
    q, k, v = l.packed(mixed_qkv, width, k_dim, v_dim)
    gate = l.gates(_tokens(a, heads, k_dim) if kda else _tokens(a, heads), _tokens(b, heads), c.view(A_log, heads), dt_bias,
                   lower_bound, raw=True)
    l.delta("gated_delta", q, k, v, state, "v_major", gate, decay="channel" if kda else "head", l2_norm=l2_norm, scale=scale,
            out=c.view(out, 1, tokens, heads, v_dim), **l.recurrence(slots, c.arange(mixed_qkv, tokens + 1), None, 1))
    return out, state


def fused_recurrent_gated_delta_rule_packed_decode(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out,
                                                   ssm_state_indices, use_qk_l2norm_in_kernel=False):
    """Computes a step of GDN from packed rows [batch, 2 heads K + value heads V]. Writes out [batch, 1, value heads,
    V]. Returns (out, initial_state); initial_state is updated in place."""
    return _packed(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out, ssm_state_indices, use_qk_l2norm_in_kernel,
                   False)


def fused_recurrent_kda_packed_decode(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out, ssm_state_indices,
                                      use_qk_l2norm_in_kernel=False, lower_bound=None):
    """Computes a step of KDA from packed rows like fused_recurrent_gated_delta_rule_packed_decode(). a is [batch, value
    heads * K]."""
    return _packed(mixed_qkv, a, b, A_log, dt_bias, scale, initial_state, out, ssm_state_indices, use_qk_l2norm_in_kernel,
                   True, lower_bound)


def _prompts(call, q, k, v, gate, decay, scale, state, slots, cu_seqlens, l2_norm, write=True):
    """Launches gated_delta_prefill over a pool of states. write: True if the states after the sequences go to their
    slots."""
    if cu_seqlens is None or slots is None or state is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens or no initial_state_indices")
    slots = l.indices(slots)
    return l.delta("gated_delta_prefill", q, k, v, state, "v_major", gate, decay=decay, l2_norm=l2_norm, scale=scale,
                   state_slots=slots if write else slots * 0 - 1, state_slots_in=slots, cu_seqlens=l.indices(cu_seqlens),
                   max_seqlen=q.shape[1])


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, initial_state_indices=None, cu_seqlens=None,
                           head_first=False, use_qk_l2norm_in_kernel=False, inplace_update=True):
    """Computes prompts of GDN over a pool of states, and updates the pool unless inplace_update is false. Returns
    (output, None, None): states at the boundaries of chunks are not kept."""
    if head_first:
        raise NotServed("chunk_gated_delta_rule", "tensors [batch, heads, tokens, ...]")
    out = _prompts("chunk_gated_delta_rule", q, k, v, l.gates(g, beta), "head", scale, initial_state, initial_state_indices,
                   cu_seqlens, use_qk_l2norm_in_kernel, inplace_update)
    return out, None, None


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, initial_state_indices=None, use_qk_l2norm_in_kernel=False,
              cu_seqlens=None, A_log=None, dt_bias=None, lower_bound=None, output_intermediate_states=False, track_state=None,
              track_chunk_idx=None, beta_is_raw=False, chunk_indices=None, chunk_offsets=None, **kwargs):
    """Computes prompts of KDA over a pool of states, which it updates in place. g is a natural logarithm, or with A_log the
    logit of the gate, [1, tokens, heads, K] or [1, tokens, heads * K]. With beta_is_raw beta is a logit too. Returns the
    output."""
    call, wrong = "chunk_kda", sorted(name for name, value in kwargs.items() if value not in (None, False))
    if output_intermediate_states or track_state is not None or wrong:
        raise NotServed(call, wrong[0] if wrong else "states at the boundaries of chunks")
    if beta_is_raw and A_log is None:
        raise NotServed(call, "beta_is_raw without A_log")
    if A_log is not None:
        g, A_log = c.view(g, *v.shape[:3], k.shape[3]), c.view(A_log, v.shape[2])
    if beta_is_raw:
        gate = l.gates(g, beta, A_log, dt_bias, lower_bound, raw=True)
    else:
        gate = l.gates(g if A_log is None else l.activated(g, A_log, dt_bias, lower_bound), beta)
    return _prompts(call, q, k, v, gate, "channel", scale, initial_state, initial_state_indices, cu_seqlens,
                    use_qk_l2norm_in_kernel)


def rms_norm_gated(*, x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True, is_rms_norm=False,
                   activation="swish"):
    """Computes the gated RMS norm of each group of group_size elements in rows [.., elements]. Each element has a
    weight."""
    call = "rms_norm_gated"
    if not is_rms_norm:
        raise NotServed(call, "a norm that subtracts the mean")
    rows, gates = (None if t is None else c.view(t, -1, t.shape[-1]) for t in (x, z))
    out = l.norm(call, rows, gates, weight, bias, eps, group_size or x.shape[-1],
                 l.norm_gate(call, activation, z, not norm_before_gate), False)
    return c.view(out, *x.shape)


def layernorm_fn(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True, is_rms_norm=False,
                 activation="swish"):
    """Calls rms_norm_gated(), which takes keyword arguments only."""
    return rms_norm_gated(x=x, weight=weight, bias=bias, z=z, eps=eps, group_size=group_size,
                          norm_before_gate=norm_before_gate, is_rms_norm=is_rms_norm, activation=activation)
