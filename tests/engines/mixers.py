# SPDX-License-Identifier: Apache-2.0
"""Compares each call of the plugin's Mamba2 layer with vLLM's own layer.

vLLM's `conv_ssm_forward()` gets the same rows, step and states in the same process, all in float32. Triton's
interpreter runs vLLM's kernels for GPUs on the host; its products of bf16 are wrong. Outputs, convolution windows and
states are compared. The gated norm after the layer is vLLM's own.

MIXER_LIMIT in run.py follows from 6 roundings to bf16: of x, B, C, weights of tokens, the state in a product, and the
output. Each is at most 2^-9 of a term. If errors are independent, a sum's error is the same fraction of the sum's norm.
Windows are copies without error."""
import importlib.util
import math
import sys
import types
from unittest import mock

import torch

OPS = "vllm.model_executor.layers.mamba.ops."


def gpu_module(name):
    """Returns a copy of vLLM's module `name` as a process with a GPU has it. On the CPU vLLM replaces functions by
    operators that its wheel for GPUs lacks."""
    from vllm.platforms import current_platform
    spec = importlib.util.find_spec(OPS + name)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(type(current_platform), "is_cpu", lambda platform: False):
        spec.loader.exec_module(module)
    return module


def largest_blocks():
    """Removes all configurations but one of each kernel that Triton would tune, since tuning times them on a GPU. The one
    with the largest blocks stays: it has the fewest programs, and the interpreter takes as long for a large block as for a
    small one."""
    from triton.runtime.autotuner import Autotuner
    for name, module in list(sys.modules.items()):
        for kernel in vars(module).values() if name.startswith(OPS) else ():
            if isinstance(kernel, Autotuner):
                kernel.configs = [max(kernel.configs, key=lambda one: math.prod(
                    n for what, n in one.kwargs.items() if what.startswith("BLOCK_SIZE")))]


class CopiedGrid:
    """A kernel whose grid is a function. The function gets a copy of the arguments, since vLLM's adds tensors to
    them, which Triton's interpreter does not accept."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return self.kernel[lambda arguments: grid(dict(arguments))]


def replacements():
    """Returns {name: function} of vLLM's layer, as a process with a GPU has them."""
    from vllm.v1.attention.backends.utils import compute_causal_conv1d_metadata
    conv, scan = gpu_module("causal_conv1d"), gpu_module("ssd_combined").mamba_chunk_scan_combined_varlen
    conv._causal_conv1d_fwd_kernel = CopiedGrid(conv._causal_conv1d_fwd_kernel)
    largest_blocks()
    update = gpu_module("mamba_ssm")
    update.try_get_optimal_ssm_config = lambda head_dim, *args, **more: (head_dim, 4)  # rows of a program, warps

    def convolve(*args, metadata, query_start_loc, **more):
        programs = compute_causal_conv1d_metadata(query_start_loc, device=query_start_loc.device)
        programs = types.SimpleNamespace(**dict(zip(("nums_dict", "batch_ptr", "token_chunk_offset_ptr"), programs)))
        return conv.causal_conv1d_fn(*args, metadata=programs, query_start_loc=query_start_loc, **more)

    return {"causal_conv1d_fn": convolve, "causal_conv1d_update": conv.causal_conv1d_update,
            "mamba_chunk_scan_combined_varlen": scan, "selective_state_update": update.selective_state_update}


class Wide:
    """A wrapper with the attributes of one of vLLM's layers, except that weights and states are float32."""

    def __init__(self, layer):
        self.layer, self.kv_cache = layer, tuple(cache.to(torch.float32, copy=True) for cache in layer.kv_cache)
        self.conv_weights, self.D, self.dt_bias = (x.data.float() for x in (layer.conv_weights, layer.D, layer.dt_bias))
        self.conv1d = types.SimpleNamespace(bias=layer.conv1d.bias if layer.conv1d.bias is None else layer.conv1d.bias.data.float())

    def __getattr__(self, name):
        return getattr(self.layer, name)


class Mixers:
    """Compares all calls of the plugin's layer with vLLM's. `worst` has the largest differences of all calls, divided
    by the norm of vLLM's values. `calls` is the number of calls, `groups` has pairs: groups of B and C, and of the
    norm."""

    def __init__(self):
        from attn.vllm._mamba import Mixer, MambaMixer2
        from vllm.forward_context import get_forward_context
        from vllm.model_executor.layers.mamba import mamba_mixer2 as layers
        self.worst, self.calls, self.groups = {"outputs": 0.0, "windows": 0.0, "states": 0.0}, 0, set()
        ours, others = Mixer.conv_ssm_forward, replacements()

        def forward(layer, projected_states, output):
            steps = get_forward_context().attn_metadata
            if not isinstance(steps, dict) or layer.prefix not in steps:
                return ours(layer, projected_states, output)
            wide, want = Wide(layer), torch.zeros_like(output, dtype=torch.float32)
            with mock.patch.multiple(layers, **others):
                MambaMixer2.conv_ssm_forward(wide, projected_states.float(), want)
            ours(layer, projected_states, output)
            self.compare(steps[layer.prefix], output, want, layer.kv_cache, wide.kv_cache)
            self.calls += 1
            self.groups.add((layer.n_groups, layer.norm.n_groups))
            return None

        Mixer.conv_ssm_forward = forward

    def compare(self, step, output, want, caches, wanted):
        """Records the differences of a call: its tokens' outputs, and the slots of the cache that it wrote."""
        tokens = step.num_decode_tokens + step.num_prefill_tokens
        lists = [step.state_indices_tensor_d if step.num_decodes else None,
                 step.state_indices_tensor_p if step.num_prefills else None]
        slots = torch.cat([x.flatten() for x in lists if x is not None]).long()
        slots = slots[slots > 0]
        pairs = {"outputs": (output[:tokens], want[:tokens]), "windows": (caches[0][slots], wanted[0][slots]),
                 "states": (caches[1][slots], wanted[1][slots])}
        for name, (a, b) in pairs.items():
            error = float((a.double() - b.double()).norm() / b.double().norm())
            self.worst[name] = max(self.worst[name], error if error == error else float("inf"))
