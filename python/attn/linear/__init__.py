# SPDX-License-Identifier: Apache-2.0
"""The calls of linear attention and Mamba2 layers as vLLM makes them in decode, verification and
prompts: the same names, arguments in the same order, results in the same place.

    import attn.linear as linear
    linear.use("engine.attnpack", state_layout="v_major")
    linear.causal_conv1d_update(x, conv_state, weight, bias, "silu", conv_state_indices=slots)

A form that no kernel has raises NotServed with the reason. docs/python.md has the table of calls. On a simulated GPU
tensors may be numpy's.
"""
from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.attention import new_like
from attn.linear import _calls as l
from attn.linear import _launches as plans


def use(*packs, state_layout="v_major", device=None, hip=None, ordinal=0):
    """Sets the packs whose kernels serve the calls on a GPU. state_layout is the order of a head's state in the pools
    of fused_recurrent_gated_delta_rule(): "v_major", [V, K], as vLLM has it, or "k_major", [K, V]."""
    c.use(*packs, device=device, hip=hip, ordinal=ordinal)
    l.layouts[ordinal if device is None else device.ordinal] = state_layout


def causal_conv1d_fn(x, weight, bias, conv_states, query_start_loc, cache_indices=None,
                     has_initial_state=None, activation="silu", pad_slot_id=-1,
                     block_idx_first_scheduled_token=None, block_idx_last_scheduled_token=None,
                     initial_state_idx=None, num_computed_tokens=None, block_size_to_align=0,
                     metadata=None, validate_data=False, null_block_id=0):
    """Convolves prompts: x is [channels, tokens], the transpose of a contiguous tensor; the result is new, of the same
    dimensions. The slots pad_slot_id and null_block_id mean padding. If null_block_id is None, slot 0 may belong to a
    sequence. With block_idx_last_scheduled_token, cache_indices is a table of blocks [sequences, blocks], and the
    states at the ends of blocks are kept too."""
    call = "causal_conv1d_fn"
    first = l.first_of_two(call, pad_slot_id, null_block_id)
    rows = x.T
    states = l.fn_slots(call, cache_indices, block_idx_first_scheduled_token, block_idx_last_scheduled_token,
                        initial_state_idx, num_computed_tokens, block_size_to_align, rows.shape[0], first - 1)
    out = new_like(rows, tuple(rows.shape))
    l.convolve(call, rows, weight, bias, conv_states, activation=activation, first=first, **states,
               cu_seqlens=l.indices(query_start_loc),
               has_state=None if has_initial_state is None else c.reinterpret(has_initial_state, "uint8"),
               max_seqlen=rows.shape[0], out=out)
    return out.T


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, conv_state_indices=None,
                         num_accepted_tokens=None, query_start_loc=None, max_query_len=-1,
                         pad_slot_id=-1, block_idx_last_scheduled_token=None, initial_state_idx=None,
                         validate_data=False, null_block_id=0, out=None):
    """Convolves a step: x is [batch, channels], or with query_start_loc [tokens, channels]. The result goes to out, or
    if out is None, to x itself. Padding is as in causal_conv1d_fn(). With block_idx_last_scheduled_token,
    conv_state_indices is a table of blocks [sequences, blocks]."""
    call = "causal_conv1d_update"
    states = l.step_slots(call, x, conv_state_indices, block_idx_last_scheduled_token, initial_state_idx)
    longest = 1 if query_start_loc is None else max_query_len
    out = x if out is None else out
    l.convolve(call, x, weight, bias, conv_state, activation=activation,
               first=l.first_of_two(call, pad_slot_id, null_block_id), **states,
               cu_seqlens=l.indices(query_start_loc), accepted=l.indices(num_accepted_tokens),
               max_seqlen=longest, out=out)
    return out


def fused_recurrent_gated_delta_rule(q, k, v, g, beta=None, scale=None, initial_state=None,
                                     inplace_final_state=True, cu_seqlens=None,
                                     ssm_state_indices=None, num_accepted_tokens=None,
                                     retrieve_parent_token=None, use_qk_l2norm_in_kernel=False):
    """Computes a step of GDN, or if g has four dimensions, of KDA. q and k are [1, tokens, heads, K], v is [1, tokens,
    value heads, V]. For drafts that form a tree, retrieve_parent_token [batch, drafts] has the parent of each draft.
    Returns (output, initial_state); initial_state is updated in place."""
    call = "fused_recurrent_gated_delta_rule"
    if not inplace_final_state or ssm_state_indices is None or initial_state is None:
        raise NotServed(call, "states that are not updated in place, by ssm_state_indices")
    if cu_seqlens is None or beta is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens or no beta")
    slots = l.steps(ssm_state_indices)
    longest = slots.shape[1] if slots.shape[1] > 1 else q.shape[1]
    tree = {} if retrieve_parent_token is None else dict(tree=True, parents=l.parents(retrieve_parent_token))
    out = l.delta("gated_delta", q, k, v, initial_state, l.layout(q), l.gates(g, beta), scale=scale,
                  decay="channel" if g.ndim == 4 else "head", l2_norm=use_qk_l2norm_in_kernel, wide=beta.ndim == 4,
                  **tree, **l.recurrence(slots, cu_seqlens, num_accepted_tokens, longest))
    return out, initial_state


def fused_recurrent_kda(q, k, v, g, beta=None, scale=None, initial_state=None, inplace_final_state=True,
                        use_qk_l2norm_in_kernel=True, cu_seqlens=None, ssm_state_indices=None, **kwargs):
    """Computes a step of KDA. g has four dimensions: the natural logarithm of the decay of each element of a
    key."""
    if g.ndim != 4:
        raise NotServed("fused_recurrent_kda", "g of a head")
    return fused_recurrent_gated_delta_rule(
        q, k, v, g, beta, scale, initial_state, inplace_final_state, cu_seqlens, ssm_state_indices,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           cu_seqlens=None, chunk_indices=None, chunk_offsets=None,
                           use_qk_l2norm_in_kernel=False, core_attn_out=None):
    """Computes prompts of GDN, or if g has four dimensions, of KDA. q and k are [1, tokens, heads, K], v is [1, tokens,
    value heads, V]. initial_state [sequences, value heads, ...] has the order that use() set. Returns (output, states
    after the sequences), both new."""
    call = "chunk_gated_delta_rule"
    if cu_seqlens is None or q.shape[0] != 1:
        raise NotServed(call, "no cu_seqlens")
    order = l.layout(q)
    dims = (k.shape[3], v.shape[3]) if order == "k_major" else (v.shape[3], k.shape[3])
    state, lists = l.own_states(q, initial_state, (cu_seqlens.shape[0] - 1, v.shape[2]) + dims)
    out = l.delta("gated_delta_prefill", q, k, v, order=order, gate=l.gates(g, beta), scale=scale, out=core_attn_out,
                  decay="channel" if g.ndim == 4 else "head", l2_norm=use_qk_l2norm_in_kernel,
                  cu_seqlens=l.indices(cu_seqlens), max_seqlen=q.shape[1], **lists)
    return out, state if output_final_state else None


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
              use_qk_l2norm_in_kernel=False, cu_seqlens=None, **kwargs):
    """Computes prompts of KDA, like chunk_gated_delta_rule(). g is the natural logarithm of each token's decay, not
    a sum over tokens."""
    if g.ndim != 4:
        raise NotServed("chunk_kda", "g of a head")
    return chunk_gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens,
                                  use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)


def _tied(call, x, axes, name):
    """Returns x without its last `axes` dimensions, over which it must repeat by strides of 0. Refuses other
    tensors; `name` is x in the message."""
    for _ in range(axes):
        if x.shape[-1] > 1 and c.strides(x)[-1] != 0:
            raise NotServed(call, f"{name} of its own for each element of a head")
        x = x[..., 0]
    return x


def _update_channels(call, state, x, dt, A, B, C, D, dt_bias, z, gates, out, steps, first_slot):
    """Computes a step of Mamba1: x [tokens, channels], A [channels, N], B and C [tokens, N]."""
    tokens, channels = x.shape
    if channels % 64:
        raise NotServed(call, f"{channels} channels, no multiple of 64")
    heads, n = channels // 64, B.shape[1]
    s = c.session(x)
    op = s.op("selective_scan", dtype=c.dtype(x), head_dim=n, head_dim_v=64, heads=1, value_heads=heads,
              gates=gates, act="none" if z is None else "silu", state_dtype=c.dtype(state))
    if z is not None:
        steps["z"] = c.view(z, tokens, heads, 64)
    numbers = dict(d=D if D is None else c.view(D, heads, 64),
                   dt_bias=dt_bias if dt_bias is None else c.view(dt_bias, heads, 64))
    op(x=c.view(x, tokens, heads, 64), dt=c.view(dt, tokens, heads, 64), b=c.view(B, tokens, 1, n),
       c=c.view(C, tokens, 1, n), state=c.view(state, state.shape[0], heads, 64, n),
       out=c.view(out, tokens, heads, 64), first_slot=first_slot, stream=c.stream(x), **steps,
       **l.given(rate=c.view(A, heads, 64, n), **numbers))


def selective_state_update(state, x, dt, A, B, C, D, dt_bias, z=None, dt_softplus=False,
                           state_batch_indices=None, dst_state_batch_indices=None, null_block_id=0,
                           out=None, num_accepted_tokens=None, cu_seqlens=None, is_blackwell=False):
    """Computes a step of Mamba2 with x [tokens, heads, P], or of Mamba1 with x [tokens, channels]. For Mamba2 dt,
    A, D and dt_bias have a number for each head, repeated over P and N by strides of 0. The result goes to out."""
    call = "selective_state_update"
    if state_batch_indices is None or out is None:
        raise NotServed(call, "no state_batch_indices or no out")
    slots = state_batch_indices if dst_state_batch_indices is None else dst_state_batch_indices
    steps = l.recurrence(slots, cu_seqlens, num_accepted_tokens, 1)
    if cu_seqlens is not None:
        steps["max_seqlen"] = steps["state_slots"].shape[1]
    if dst_state_batch_indices is not None:
        steps["state_slots_in"] = l.steps(state_batch_indices)
    gates, first_slot = "softplus" if dt_softplus else "given", l.first_slot(call, null_block_id)
    if x.ndim == 2:
        return _update_channels(call, state, x, dt, A, B, C, D, dt_bias, z, gates, out, steps, first_slot)
    s = c.session(x)
    op = s.op("ssd", dtype=c.dtype(x), head_dim=B.shape[2], head_dim_v=x.shape[2], heads=B.shape[1],
              value_heads=x.shape[1], gates=gates, act="none" if z is None else "silu",
              state_dtype=c.dtype(state))
    if z is not None:
        steps["z"] = z
    op(x=x, b=B, c=C, dt=_tied(call, dt, 1, "dt"), state=state, out=out, first_slot=first_slot,
       stream=c.stream(x), **steps,
       **l.given(rate=_tied(call, A, 2, "A"), d=D if D is None else _tied(call, D, 1, "D"),
                dt_bias=dt_bias if dt_bias is None else _tied(call, dt_bias, 1, "dt_bias")))


def _states_of(x, like, shape, name):
    """Returns a copy of the initial states x in the type `name`. If x is None: zeros of this shape on the device of
    `like`."""
    if x is None:
        states = new_like(like, shape, name)
        c.zero(states)
        return states
    return x.to(name, copy=True) if c.is_torch(x) else x.astype(name)


def _scan(s, x, batch, fields, given):
    """Launches ssd_prefill: once, or twice if cutting sequences is faster and the packs have kernels for that."""
    dims = {name: fields[name] for name in ("head_dim", "head_dim_v", "heads", "value_heads")}
    found = plans.plan(s, "ssd_prefill", "attn_ssd_prefill_segments", dims, batch=batch, max_seqlen=given["max_seqlen"])
    variants = [{**fields, "act": "none", "segments": "states"}, {**fields, "segments": "outputs"}]
    makers = [lambda variant=variant: s.op("ssd_prefill", **variant) for variant in variants if found.segment_rows]
    launches = plans.ops_of(makers)
    if launches:
        heads, p, n = fields["value_heads"], fields["head_dim_v"], fields["head_dim"]
        given = dict(given, segment_states=c.floats(x, (found.segment_rows, heads, p, n)),
                     segment_sums=c.floats(x, (found.segment_rows, heads)), segment_tokens=found.segment_tokens)
    without = {name: value for name, value in given.items() if name not in ("c", "z", "out")}
    for i, op in enumerate(launches or [s.op("ssd_prefill", **fields)]):
        op(**(without if launches and i == 0 else given))


def mamba_chunk_scan_combined_varlen(x, dt, A, B, C, chunk_size, cu_seqlens, cu_chunk_seqlens, last_chunk_indices,
                                     seq_idx, out, D=None, z=None, dt_bias=None, initial_states=None,
                                     dt_softplus=False, dt_limit=(0.0, float("inf")),
                                     return_intermediate_states=False, state_dtype=None, final_states_out=None,
                                     final_state_indices=None):
    """Computes prompts of Mamba2: x [tokens, heads, P], dt [tokens, heads], A [heads]. The result goes to out. Returns
    the last states [sequences, heads, P, N]. With final_states_out, a pool, they go to its slots final_state_indices
    instead. Chunks of 64 tokens begin at each sequence's first, so chunk_size and the lists of chunks are not read."""
    call = "mamba_chunk_scan_combined_varlen"
    if return_intermediate_states:
        raise NotServed(call, "states of all chunks")
    batch = cu_seqlens.shape[0] - 1
    shape = (batch, x.shape[1], x.shape[2], B.shape[2])
    if final_states_out is None:
        slots, states = c.arange(x, batch), _states_of(initial_states, x, shape, state_dtype or C.dtype)
    else:
        slots, states = l.indices(final_state_indices), final_states_out
        if initial_states is not None:
            kept = final_state_indices >= 0
            states[final_state_indices[kept]] = _states_of(initial_states, x, shape, states.dtype)[kept]
    s = c.session(x)
    fields = dict(dtype=c.dtype(x), head_dim=B.shape[2], head_dim_v=x.shape[2], heads=B.shape[1],
                  value_heads=x.shape[1], gates="softplus" if dt_softplus else "given",
                  act="none" if z is None else "silu", state_dtype=c.dtype(states))
    if D is not None and D.ndim == 2:
        D = _tied(call, D, 1, "D")
    given = {name: c.cast(t, "float32") for name, t in dict(rate=A, d=D, dt_bias=dt_bias).items() if t is not None}
    if z is not None:
        given["z"] = z
    if initial_states is None:
        given["has_state"] = c.reinterpret(c.arange(x, batch) < 0, "uint8")
    given.update(x=x, b=B, c=C, dt=dt, state=states, state_slots=slots, out=out,
                 cu_seqlens=l.indices(cu_seqlens), max_seqlen=plans.longest(x, cu_seqlens), dt_min=dt_limit[0],
                 dt_max=0 if dt_limit[1] == float("inf") else dt_limit[1], stream=c.stream(x))
    _scan(s, x, batch, fields, given)
    return states if final_states_out is None else None


def rmsnorm_fn(x, weight, bias, z=None, eps=1e-6, group_size=None, norm_before_gate=True,
               activation="swish"):
    """Computes the gated norm of Mamba2, or with norm_before_gate of GDN. Each group of group_size elements of a row
    [tokens, elements] has a norm of its own; None: a row is one group."""
    call = "rmsnorm_fn"
    rows = c.view(x, -1, x.shape[-1])
    gates = None if z is None else c.view(z, -1, x.shape[-1])
    out = l.norm(call, rows, gates, weight, bias, eps, group_size or x.shape[-1],
                l.norm_gate(call, activation, z, not norm_before_gate), False)
    return c.view(out, *x.shape)


def rms_norm_gated(x, g, weight, bias, activation="swish", residual=None, prenorm=False,
                   residual_in_fp32=False, eps=1e-6):
    """Computes the gated norm of GDN and KDA over the last dimension of x. All rows share `weight`."""
    call = "rms_norm_gated"
    if residual is not None or prenorm:
        raise NotServed(call, "a residual")
    width = x.shape[-1]
    out = l.norm(call, c.view(x, -1, width), c.view(g, -1, width), weight, bias, eps, width,
                l.norm_gate(call, activation, g, False), True)
    return c.view(out, *x.shape)


def mixer2_gated_rms_norm(layer, x, gate, all_reduce=None):
    """Computes the gated norm of a Mamba2 layer, as Mixer2RMSNormGated.forward_cuda() of vLLM and SGLang does, from the
    members of `layer`. If a group lies over several ranks, all_reduce returns the sum of a tensor over these ranks:
    tensor_model_parallel_all_reduce for one group."""
    call = "mixer2_gated_rms_norm"
    if not layer.use_rms_norm:
        raise NotServed(call, "a gate without a norm")
    rows, gates = (c.view(t, -1, t.shape[-1]) for t in (x, gate))
    if layer.n_groups % layer.tp_size == 0:
        out = l.norm(call, rows, gates, layer.weight, None, layer.variance_epsilon, layer.group_size, "silu_first", False)
    elif layer.tp_size % layer.n_groups == 0 and all_reduce is not None:
        out = l.norm_over_ranks(rows, gates, layer.weight, layer.variance_epsilon, layer.tp_size // layer.n_groups,
                                all_reduce)
    else:
        raise NotServed(call, "parts of several groups, or of one without all_reduce")
    return c.view(out, *x.shape)
