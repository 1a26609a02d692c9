# SPDX-License-Identifier: Apache-2.0
"""Chooses the launches of prompts as libattn plans them: one, or several if few long sequences would leave compute
units idle."""
from attn import _native
from attn._native import AttnError, check, ffi
from attn.aiter import _common as c


def longest(x, cu_seqlens):
    """Returns an upper bound of the tokens of a sequence. It is the exact maximum if cu_seqlens is in host memory. Else
    it is the number of all tokens, since reading cu_seqlens would wait for the GPU."""
    return x.shape[0] if getattr(cu_seqlens, "is_cuda", False) else int((cu_seqlens[1:] - cu_seqlens[:-1]).max())


def _sized(name, values):
    """Returns a new struct attn_<name> with its member `size` and the members `values` set."""
    return ffi.new(f"struct {name} *", {"size": ffi.sizeof(f"struct {name}"), **values})


def plan_for(target, op, result, desc, **numbers):
    """Returns struct `result` as attn_<op>_plan() fills it for a target such as "gfx942". desc and numbers are members of
    the op's descriptor and of its shape."""
    _native.declare(op)
    found, name = ffi.new(f"struct {result} *"), ffi.new("char[]", target.encode())
    shape = _sized(f"attn_{op}_shape", {"target": name, **numbers})
    check(getattr(_native.lib, f"attn_{op}_plan")(_sized(f"attn_{op}_desc", desc), shape, found))
    return found


def plan(s, op, result, desc, **numbers):
    """Returns plan_for() with the target and the compute units of session s."""
    return plan_for(s.device.target, op, result, desc, compute_units=s.device.compute_units, **numbers)


def ops_of(makers):
    """Returns the ops that the functions `makers` return; an empty list if the packs lack a kernel for one."""
    try:
        return [make() for make in makers]
    except AttnError as e:
        if e.status != "ATTN_NO_KERNEL":
            raise
        return []


def of_delta(s, q, v, decay, batch, max_seqlen, make):
    """Returns the ops of gated_delta_prefill for tensors [1, tokens, heads, ...] in the order of their launches, and
    arguments that they need beside the usual ones. make(stage=...) returns an op."""
    desc = dict(head_dim=q.shape[3], head_dim_v=v.shape[3], heads=q.shape[2], value_heads=v.shape[2],
                decay=s.device.enums["attn_decay"][decay])
    found = plan(s, "gated_delta_prefill", "attn_gated_delta_prefill_launches", desc, batch=batch, tokens=q.shape[1],
                 max_seqlen=max_seqlen)
    cut = ["segments"] if found.segment_tokens else []
    stages = ["chunks", *cut, "scan", "outputs"] if found.chunk_rows else []
    ops = ops_of([lambda stage=stage: make(stage=stage) for stage in stages])
    if not ops:
        return [make()], {}
    memory = lambda rows, size: c.integers(q, (rows, v.shape[2], size // (4 * rows * v.shape[2])))
    more = dict(chunks=memory(found.chunk_rows, found.chunk_bytes), segment_tokens=found.segment_tokens)
    if cut:
        more["segments"] = memory(found.segment_rows, found.segment_bytes)
    return ops, more
