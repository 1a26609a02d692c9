# SPDX-License-Identifier: Apache-2.0
"""Operators of vLLM's C extension that its wheel for CUDA lacks on the CPU, for the simulated platform only. They are plain
torch, apart from the cache writes of vLLM's AMD backends, which are attnc's kernels."""
import functools
import types

import torch

_libraries = []  # keeps torch.library.Library objects alive, since torch drops the operators of a deleted one

SLOTS = "compute_slot_mapping_kernel_impl(Tensor a, Tensor b, Tensor c, Tensor(d!) d, int e) -> ()"
WRITE = ("reshape_and_cache_flash(Tensor a, Tensor b, Tensor(c!) c, Tensor(d!) d, Tensor e, str f, Tensor g, Tensor h) "
         "-> ()")
PACK = "causal_conv1d_weight_pack(Tensor a) -> Tensor"
PREPACK = "prepack_moe_weight(Tensor a, Tensor(b!) b, str c) -> ()"
EXPERTS = ("cpu_fused_moe(Tensor(a!) a, Tensor b, Tensor c, Tensor d, Tensor? e, Tensor? f, Tensor g, Tensor h, bool i, "
           "str j, str k) -> ()")
WRITE_MLA = "concat_and_cache_mla(Tensor a, Tensor b, Tensor(c!) c, Tensor d, str e, Tensor f, bool g=False) -> ()"


def slot_mapping(query_start_loc, positions, block_table, slots, page):
    """Writes the cache's slot of each token to `slots`, and -1 for entries after the last sequence. `page` is the
    number of tokens in a page."""
    starts = query_start_loc.long()
    tokens = int(starts[-1])
    sequence = torch.searchsorted(starts, torch.arange(tokens), right=True) - 1
    at = positions[:tokens]
    slots[:tokens] = block_table[sequence, at // page].long() * page + at % page
    slots[tokens:] = -1


def prepack(weight, packed, isa):
    """Copies an expert's weights unchanged, since experts() multiplies by torch."""
    packed.copy_(weight)


def experts(out, rows, w13, w2, w13_bias, w2_bias, weights, chosen, unweighted, activation, isa):
    """Computes a layer of experts: out [tokens, K] from rows [tokens, K], by w13 [experts, 2 N, K] and w2 [experts, K,
    N]. `chosen` [tokens, k] has the experts of each token, `weights` their factors."""
    from vllm.model_executor.layers import activation as layers
    act = {"silu": layers.SiluAndMul.forward_native, "swigluoai": functools.partial(
        layers.SwigluOAIAndMul.forward_native, types.SimpleNamespace(alpha=1.702, limit=7.0))}[activation]
    total = torch.zeros(rows.shape, dtype=torch.float32)
    for e in chosen.unique().tolist():
        token, place = (chosen == e).nonzero(as_tuple=True)
        bias = [None if x is None else x[e].to(rows.dtype) for x in (w13_bias, w2_bias)]
        inner = act(torch.nn.functional.linear(rows[token], w13[e], bias[0]))
        made = torch.nn.functional.linear(inner, w2[e], bias[1]).float()
        total.index_add_(0, token, made if unweighted else made * weights[token, place, None])
    out.copy_(total)


def define():
    """Defines the operators, once in a process."""
    if _libraries:
        return
    import attn.aiter as aiter
    core, cache = torch.library.Library("_C", "FRAGMENT"), torch.library.Library("_C_cache_ops", "FRAGMENT")
    _libraries.extend((core, cache))
    rows = ((core, "init_cpu_memory_env(int[] nodes) -> ()", lambda nodes: None, "CompositeExplicitAutograd"),
            (core, SLOTS, slot_mapping, "CPU"),
            (core, "greedy_argmax(Tensor a) -> Tensor", lambda logits: logits.argmax(-1), "CPU"),
            (core, PREPACK, prepack, "CPU"),
            (core, PACK, torch.clone, "CPU"),  # no packing: the convolution takes the weight as it is
            (core, EXPERTS, experts, "CPU"),
            (cache, WRITE, aiter.reshape_and_cache_flash, "CPU"),
            (cache, WRITE_MLA, aiter.concat_and_cache_mla, "CPU"))
    for library, schema, function, key in rows:
        library.define(schema)
        library.impl(schema.split("(")[0], function, key)
    import vllm.model_executor.layers.utils as layers
    layers.check_cpu_sgl_kernel = lambda *args: False  # makes vLLM multiply by torch, not by an extension
