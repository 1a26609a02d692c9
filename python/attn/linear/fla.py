# SPDX-License-Identifier: Apache-2.0
"""flash-linear-attention's calls for inference, under its names and with its arguments: chunk_gated_delta_rule,
fused_recurrent_gated_delta_rule, chunk_kda and fused_recurrent_kda. Gradients are not computed. `attn.linear.use()`
names the packs.

    import attn.linear.fla as fla
    out, state = fla.chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)

Tensors are [batch, tokens, heads, ...], or with cu_seqlens [1, tokens, heads, ...]. States are [sequences, value heads,
K, V], or with state_v_first [.., V, K]. The last states are new tensors. A form that no kernel has raises NotServed
with the reason.
"""
from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.linear import _calls as l


def _flat(x):
    """Returns x [batch, tokens, ...] as [1, batch * tokens, ...]; None stays None."""
    return None if x is None else c.view(x, 1, x.shape[0] * x.shape[1], *x.shape[2:])


def _run(call, op, tensors, cu_seqlens, initial_state, v_first, output_final_state, decay, l2_norm, scale, a_log, dt_bias,
         lower_bound, gate_in_kernel, beta_in_kernel, more):
    """Launches gated_delta or gated_delta_prefill, as `op` names it. Returns (output, last states or None)."""
    more.pop("cu_seqlens_cpu", None), more.pop("chunk_indices", None)
    wrong = sorted(name for name, value in more.items() if value not in (None, False))
    if wrong:
        raise NotServed(call, f"{wrong[0]}={more[wrong[0]]!r}")
    q, k, v, g, beta = tensors
    batch, longest = (q.shape[0], q.shape[1]) if cu_seqlens is None else (cu_seqlens.shape[0] - 1, q.shape[1])
    if g is None or beta is None:
        raise NotServed(call, "no g or no beta")
    if beta_in_kernel and not gate_in_kernel:
        raise NotServed(call, "use_beta_sigmoid_in_kernel without use_gate_in_kernel")
    if gate_in_kernel and not beta_in_kernel:
        g, gate_in_kernel = l.activated(g, a_log, dt_bias, lower_bound), False
    shape = v.shape
    q, k, v, g, beta = (_flat(x) for x in tensors[:3] + (g, beta))
    dims = (v.shape[3], k.shape[3]) if v_first else (k.shape[3], v.shape[3])
    state, lists = l.own_states(q, initial_state, (batch, v.shape[2]) + dims)
    if op == "gated_delta":
        lists["state_slots"], lists["wide"] = l.steps(lists["state_slots"]), beta.ndim == 4
    ends = {} if cu_seqlens is None else {"cu_seqlens": l.indices(cu_seqlens)}
    out = l.delta(op, q, k, v, order="v_major" if v_first else "k_major", decay=decay, l2_norm=l2_norm, scale=scale,
                  gate=l.gates(g, beta, a_log, dt_bias, lower_bound, raw=gate_in_kernel), max_seqlen=longest, **ends, **lists)
    return c.view(out, *shape), state if output_final_state else None


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                           state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None,
                           cp_context=None, use_gate_in_kernel=False, A_log=None, dt_bias=None, **kwargs):
    """Computes prompts of GDN, in chunks of 64 tokens. Returns (output, last states or None)."""
    return _run("chunk_gated_delta_rule", "gated_delta_prefill", (q, k, v, g, beta), cu_seqlens, initial_state,
                state_v_first, output_final_state, "head", use_qk_l2norm_in_kernel, scale, A_log, dt_bias, None,
                use_gate_in_kernel, use_beta_sigmoid_in_kernel,
                dict(kwargs, allow_neg_eigval=allow_neg_eigval, cp_context=cp_context))


def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None, initial_state=None,
                                     output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
                                     A_log=None, dt_bias=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
                                     state_v_first=False, cu_seqlens=None, **kwargs):
    """Computes GDN token by token. gk in place of g has a decay for each element of a key. Returns (output, last states
    or None)."""
    call = "fused_recurrent_gated_delta_rule"
    if g is not None and gk is not None:
        raise NotServed(call, "both g and gk")
    return _run(call, "gated_delta", (q, k, v, g if gk is None else gk, beta), cu_seqlens, initial_state, state_v_first,
                output_final_state, "head" if gk is None else "channel", use_qk_l2norm_in_kernel, scale, A_log, dt_bias,
                None, use_gate_in_kernel, use_beta_sigmoid_in_kernel,
                dict(kwargs, gv=gv, allow_neg_eigval=allow_neg_eigval))


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
              use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False,
              lower_bound=None, disable_recompute=False, return_intermediate_states=False, state_v_first=False,
              cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None, A_log=None, dt_bias=None, **kwargs):
    """Computes prompts of KDA, in chunks of 64 tokens. Returns (output, last states or None). safe_gate and
    disable_recompute change nothing: gates are never out of range, and there is no backward pass."""
    return _run("chunk_kda", "gated_delta_prefill", (q, k, v, g, beta), cu_seqlens, initial_state, state_v_first,
                output_final_state, "channel", use_qk_l2norm_in_kernel, scale, A_log, dt_bias, lower_bound,
                use_gate_in_kernel, use_beta_sigmoid_in_kernel,
                dict(kwargs, allow_neg_eigval=allow_neg_eigval, cp_context=cp_context,
                     return_intermediate_states=return_intermediate_states))


def fused_recurrent_kda(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, initial_state=None,
                        output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
                        use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, lower_bound=None, state_v_first=False,
                        cu_seqlens=None, **kwargs):
    """Computes KDA token by token. Returns (output, last states or None)."""
    return _run("fused_recurrent_kda", "gated_delta", (q, k, v, g, beta), cu_seqlens, initial_state, state_v_first,
                output_final_state, "channel", use_qk_l2norm_in_kernel, scale, A_log, dt_bias, lower_bound,
                use_gate_in_kernel, use_beta_sigmoid_in_kernel, dict(kwargs, allow_neg_eigval=allow_neg_eigval))
