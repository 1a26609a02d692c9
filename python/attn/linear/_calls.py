# SPDX-License-Identifier: Apache-2.0
"""Launches of the ops of linear attention from tensors as engines have them, for all modules of attn.linear: the
convolution, the recurrences over a few tokens and over prompts, and the gated norm."""
import sys

from attn.aiter import _common as c
from attn.aiter._common import NotServed
from attn.attention import new_like
from attn.linear import _launches as launches

layouts = {}


def layout(x):
    """Returns the order of states, "v_major" or "k_major", that attn.linear.use() set for the GPU of a tensor."""
    return layouts[x.get_device() if getattr(x, "is_cuda", False) else 0]


def act(call, activation):
    """Returns conv1d's name, silu or none, of an engine's activation. `call` is the name in errors."""
    if activation in (None, False):
        return "none"
    if activation in (True, "silu", "swish"):
        return "silu"
    raise NotServed(call, f"activation {activation!r}")


def first_slot(call, pad):
    """Returns the smallest slot that is no padding, if slots -1 and `pad` mean padding."""
    if pad not in (-1, 0):
        raise NotServed(call, f"slot {pad} as padding")
    return pad + 1


def first_of_two(call, pad, null):
    """Returns the smallest slot that is no padding, if slot `pad` and slot `null` mean padding. null None: only `pad`
    does."""
    return max(first_slot(call, pad), 0 if null is None else first_slot(call, null))


def indices(x):
    """Returns x as int32; None stays None."""
    return None if x is None else c.cast(x, "int32")


def given(**tensors):
    """Returns the arguments that are not None, as float32."""
    return {name: c.cast(t, "float32") for name, t in tensors.items() if t is not None}


def typed(module, name, like):
    """Returns the tensor `name` of a module in the type of `like`, by copy_of(); None stays None. Engines keep weights
    of some convolutions in float32."""
    given, dtype = getattr(module, name), like.dtype
    if given is None or given.dtype == dtype:
        return given
    return c.copy_of(module, name, given, lambda x: x.detach().to(dtype))


def aligned(rows):
    """Returns rows [tokens, channels] of 16 bits that begin at multiples of 16 bytes, as kernels need: `rows`, or a
    dense copy. Rows that are a part of a wider projection may begin elsewhere."""
    return rows if c.strides(rows)[0] % 8 == 0 and c.address(rows) % 16 == 0 else c.dense(rows)


def there(**tensors):
    """Returns the arguments that are not None, unchanged."""
    return {name: t for name, t in tensors.items() if t is not None}


def parents(tokens):
    """Returns the parents of drafts [batch, drafts] as one list, as the op reads them."""
    return c.view(indices(tokens), -1)


def steps(slots):
    """Returns a list of slots [batch] as [batch, 1]; a matrix stays as it is."""
    slots = c.cast(slots, "int32")
    return slots if slots.ndim == 2 else slots[:, None]


def recurrence(slots, cu_seqlens, accepted, longest):
    """Returns the tensors and numbers that all recurrences take."""
    return there(state_slots=steps(slots), cu_seqlens=indices(cu_seqlens), accepted=indices(accepted),
                 max_seqlen=longest)


def prompt_slots(call, slots):
    """Returns the slots of a convolution of prompts as arguments of convolve(). `slots` must be a list."""
    if slots is None or slots.ndim != 1:
        raise NotServed(call, "cache_indices that are no list of slots")
    return dict(slots=indices(slots))


def step_slots(call, x, slots, last, initial):
    """Returns the slots of a step's convolution as arguments of convolve(). `slots` is a list, or with `last` and `initial` a
    table of blocks, as block_ends() takes it. x must have two dimensions."""
    if x.ndim != 2:
        raise NotServed(call, "x of three dimensions")
    if last is not None:
        return block_ends(call, slots, last, initial)
    if slots is None or slots.ndim != 1:
        raise NotServed(call, "conv_state_indices that are no list of slots")
    return dict(slots=indices(slots))


def entries(table, columns):
    """Returns table[i, columns[i]] for each row i, or with a matrix of columns table[i, columns[i, j]]. Columns outside of
    the table are replaced by its first or last one."""
    columns = c.most(c.least(c.cast(columns, "int64"), table.shape[1] - 1), 0)
    rows = c.arange(table, table.shape[0], "int64")
    return indices(table)[rows if columns.ndim == 1 else rows[:, None], columns]


def block_ends(call, table, last, initial):
    """Returns the slots of sequences whose states are in blocks of a prefix cache, as arguments of convolve(). The state of
    sequence i is read from slot table[i, initial[i]] and written to slot table[i, last[i]]."""
    if table is None or table.ndim != 2 or initial is None:
        raise NotServed(call, "blocks without a table of them or without initial_state_idx")
    return dict(slots=entries(table, last), state_slots_in=entries(table, initial))


def fn_slots(call, table, first, last, initial, computed, tokens, longest, pad):
    """Returns the slots of a convolution of prompts as arguments of convolve(). `table` is a list of slots, or with `last` a
    table of blocks of `tokens` tokens, at whose ends states are kept too. `longest`: tokens of the call; `pad`: the slot
    number that means no slot."""
    if last is None:
        return prompt_slots(call, table)
    return dict(block_ends(call, table, last, initial),
                **block_states(call, table, first, last, computed, tokens, longest, pad))


def in_capture(x):
    """True if the current stream of a tensor's GPU captures a graph."""
    return c.session(x).device.hip.capturing(c.stream(x) or 0)


def block_states(call, table, first, last, computed, tokens, longest, pad):
    """Returns arguments of convolve() for the states at the ends of blocks that end inside of the call, `tokens` tokens each.
    For sequence i they go to slots table[i, first[i]] to table[i, last[i] - 1]. `computed` has the tokens of each
    sequence before the call, which must be whole blocks."""
    if first is None or computed is None or not tokens or tokens % 64:
        raise NotServed(call, f"blocks of {tokens} tokens, which are no multiple of 64, or no first block")
    if in_capture(table):
        raise NotServed(call, "blocks in the capture of a graph: where pieces begin is checked on the host")
    if bool((computed % tokens != 0).any()):
        raise NotServed(call, "a piece of a prompt that does not begin at the end of a block")
    columns = c.arange(table, max(longest // tokens, 1))[None]
    inside = columns < (c.cast(last, "int32") - c.cast(first, "int32"))[:, None]
    slots = entries(table, c.cast(first, "int32")[:, None] + columns)
    return dict(block_slots=c.where(inside, slots, slots * 0 + pad), block_tokens=tokens)


def convolve(call, x, weight, bias, state, slots, activation, first, tree=None, **more):
    """Launches conv1d on x [tokens, channels]. `first` is the first slot that is no padding, `tree` conv1d's field of that
    name. `more` are further arguments of the op, None for absent ones."""
    op = c.session(x).op("conv1d", dtype=c.dtype(x), taps=weight.shape[1], channels=x.shape[1],
                         act=act(call, activation), bias=bias is not None, **there(tree=tree))
    op(x=x, weight=weight, state=state, state_slots=slots, first_slot=first, stream=c.stream(x),
       **there(bias=bias, **more))


def gates(g, beta, a_log=None, dt_bias=None, lower_bound=None, raw=False):
    """Returns the value of the field `gates` and the tensors of a recurrence's gates, without the first dimension of 1.
    raw: g and beta are the logits; else they are the natural logarithm of the decay, and beta itself."""
    if not raw:
        return "given", dict(log_decay=c.cast(g[0], "float32"), beta=c.cast(beta[0], "float32"))
    dt_bias = None if dt_bias is None else c.view(dt_bias, *g.shape[2:])
    tensors = dict(gate_in=g[0], beta_in=beta[0], **given(a_log=a_log, dt_bias=dt_bias))
    return ("softplus", tensors) if lower_bound is None else ("bounded", dict(tensors, lower_bound=lower_bound))


def activated(g, a_log, dt_bias, lower_bound):
    """Returns the natural logarithm of decays from their logits, in float32: -exp(a_log) softplus(g + dt_bias), or with
    lower_bound that times sigmoid(exp(a_log) (g + dt_bias)). For callers whose beta is no logit."""
    library = sys.modules["torch" if c.is_torch(g) else "numpy"]
    x, heads = c.cast(g, "float32"), g.shape[2]
    rate = library.exp(c.cast(a_log, "float32")).reshape(heads, *[1] * (g.ndim - 3))
    x = x if dt_bias is None else x + c.cast(dt_bias, "float32").reshape(heads, *g.shape[3:])
    if lower_bound is not None:
        return lower_bound / (1 + library.exp(-rate * x))
    return -rate * library.where(x > 20, x, library.log1p(library.exp(library.where(x > 20, 0 * x, x))))


def delta_op(s, name, q, v, state, kind, order, decay, l2_norm, **more):
    """Returns the op of a gated delta rule for tensors [1, tokens, heads, ...]."""
    return s.op(name, dtype=c.dtype(q), head_dim=q.shape[3], head_dim_v=v.shape[3], heads=q.shape[2],
                value_heads=v.shape[2], gates=kind, l2_norm=l2_norm, decay=decay, state_dtype=c.dtype(state),
                state_layout=order, **more)


def delta(name, q, k, v, state, order, gate, *, decay, l2_norm, scale=None, out=None, wide=None, tree=None, **more):
    """Launches gated_delta or gated_delta_prefill on tensors [1, tokens, heads, ...]. `gate` is gates()'s pair, `wide` and
    `tree` gated_delta's fields beta_wide and tree, and `more` are further arguments. Returns the output, [1, tokens,
    value heads, V]."""
    kind, tensors = gate
    s = c.session(q)

    def make(**stage):
        return delta_op(s, name, q, v, state, kind, order, decay, l2_norm, **there(beta_wide=wide, tree=tree), **stage)

    ops, memory = [make()] if name == "gated_delta" else [], {}
    if not ops:
        if "cu_seqlens" in more:
            more["max_seqlen"] = launches.longest(q[0], more["cu_seqlens"])
        ops, memory = launches.of_delta(s, q, v, decay, more["state_slots"].shape[0], more["max_seqlen"], make)
    out = new_like(v, tuple(v.shape)) if out is None else c.view(out, *v.shape)
    for op in ops:
        op(q=q[0], k=k[0], v=v[0], state=state, out=out[0], l2_eps=1e-6, stream=c.stream(q),
           scale=q.shape[3] ** -0.5 if scale is None else scale, **tensors, **memory, **more)
    return out


def own_states(like, initial, shape):
    """Returns states that a call may write, a copy of the initial ones or memory for float32, and their arguments."""
    state = c.floats(like, shape) if initial is None else new_like(initial)
    lists = dict(state=state, state_slots=c.arange(like, shape[0]))
    if initial is None:
        none = c.arange(like, shape[0])
        c.zero(none)
        lists["has_state"] = c.cast(none, "uint8")
    else:
        state[...] = initial
    return state, lists


def norm(call, x, z, weight, bias, eps, width, gate, shared):
    """Returns the gated norm of rows [tokens, groups * width]."""
    if bias is not None:
        raise NotServed(call, "a bias")
    groups = x.shape[1] // width
    op = c.session(x).op("gated_rmsnorm", dtype=c.dtype(x), width=width, groups=groups, act=gate, shared_weight=shared)
    out, rows = new_like(x, tuple(x.shape)), (x.shape[0], groups, width)
    op(x=c.view(x, *rows), weight=weight if shared else c.view(weight, groups, width), out=c.view(out, *rows), eps=eps,
       stream=c.stream(x), **({} if z is None else {"z": c.view(z, *rows)}))
    return out


def norm_over_ranks(x, z, weight, eps, ranks, all_reduce):
    """Returns the norm of rows [tokens, width] that were multiplied by silu(z) before. A row is one rank's part of a
    group that `ranks` ranks share. all_reduce returns the sum of a tensor over these ranks."""
    rows, out = (x.shape[0], 1, x.shape[1]), new_like(x, tuple(x.shape))
    sums, outputs = (c.session(x).op("gated_rmsnorm", dtype=c.dtype(x), width=x.shape[1], groups=1, act="silu_first",
                                     shared_weight=True, stage=stage) for stage in ("sums", "outputs"))
    common = dict(x=c.view(x, *rows), z=c.view(z, *rows), eps=eps, stream=c.stream(x))
    squares = c.floats(x, (x.shape[0], 1))
    sums(squares=squares, **common)
    outputs(squares=all_reduce(squares), count=ranks * x.shape[1], weight=weight, out=c.view(out, *rows), **common)
    return out


def norm_gate(call, activation, z, first):
    """Returns gated_rmsnorm's name of a gate. `first`: True if the gate multiplies before the norm."""
    if z is None:
        return "none"
    if activation in ("swish", "silu"):
        return "silu_first" if first else "silu"
    if activation == "sigmoid" and not first:
        return "sigmoid"
    raise NotServed(call, f"a gate of {activation!r}")


def joined(parts):
    """Returns a new matrix with the columns of all parts [tokens, columns], one part after the other."""
    return sys.modules["torch"].cat(parts, 1) if c.is_torch(parts[0]) else sys.modules["numpy"].concatenate(parts, 1)


def strided(x, shape, strides):
    """Returns a view of x's memory with other dimensions. Strides count as x's library counts them: bytes in numpy,
    elements in torch."""
    if c.is_torch(x):
        return x.as_strided(shape, strides)
    return sys.modules["numpy"].lib.stride_tricks.as_strided(x, shape, strides)


def columns(x, first, end, heads, dim):
    """Returns columns `first` to `end` of rows [tokens, channels] as [tokens, heads, dim], without a copy. heads -1: as
    many as there are."""
    heads = (end - first) // dim if heads < 0 else heads
    token, element = c.strides(x)
    return strided(x[:, first:end], (x.shape[0], heads, dim), (token, dim * element, element))


def packed(rows, width, k_dim, v_dim):
    """Returns q, k and v [1, tokens, heads, ...] as views of rows [tokens, 2 width + value heads v_dim]."""
    cut = ((0, width, k_dim), (width, 2 * width, k_dim), (2 * width, rows.shape[1], v_dim))
    return [columns(rows, first, end, -1, dim)[None] for first, end, dim in cut]
