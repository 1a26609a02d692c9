# SPDX-License-Identifier: Apache-2.0
"""A platform of SGLang for machines without a GPU: tensors are in the host's memory, attention runs on hipsim. SGLang
treats it as an out-of-tree platform and runs other layers in plain torch."""
import torch
import torch._dynamo
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum

from attn import _engine

_device_module = torch.get_device_module


def device_module(device=None):
    """Replaces torch.get_device_module(), from which models read the current device. Without `device` it returns the
    CPU's module, and not the one of the GPU that PyTorch was built for."""
    return _device_module(device or "cpu")


def capability(device=None):
    """Replaces torch.cuda.get_device_capability(), which SGLang calls for models with an indexer. Returns the simulated
    GPU's capability."""
    return 9, 4 if _engine.simulated_target() == "gfx942" else 5


def synchronize(device=None):
    """Replaces torch.cuda.synchronize(), which models call when a draft model shares the target's embedding and head.
    Returns at once, since the simulator's launches end before their calls return."""


device_module.__wrapped__ = _device_module.__wrapped__  # PyTorch's compiler reads this attribute
torch._dynamo.config.disable = True  # functions that SGLang would compile for a GPU run without compilation
torch.get_device_module = device_module
torch.cuda.get_device_capability = capability
torch.cuda.synchronize = synchronize


def take_trees():
    """Makes SGLang build and verify trees of drafts by its kernels in Triton, which TRITON_INTERPRET=1 runs on the
    host. SGLang has these kernels for a fixed list of platforms only, so this platform claims to be XPU."""
    from sglang.kernels.ops.speculative import spec_tree
    spec_tree._is_xpu = True


def cache_slots(*, req_pool_indices, req_to_token, start_offset, end_offset, **sizes):
    """Returns the pool's slots of tokens start_offset to end_offset - 1 of each sequence, concatenated in the order of
    sequences."""
    column = torch.arange(req_to_token.shape[1], device=req_to_token.device)
    inside = (column >= start_offset[:, None]) & (column < end_offset[:, None])
    return req_to_token[req_pool_indices.long()][inside].long()


class Platform(CpuSRTPlatform):
    """The CPU as SGLang's device."""
    _enum = PlatformEnum.OOT

    def get_default_attention_backend(self):
        return "attn"

    def get_default_speculative_draft_attention_backend(self, algorithm):
        return "attn"

    def get_speculative_cache_locs_fn(self):
        return cache_slots

    def supports_speculative_algorithm(self, algorithm):
        return True

    def supports_speculative_draft_attention_backend(self, algorithm, backend):
        return backend == "attn"

    def get_torch_distributed_backend_str(self):
        return "gloo"

    def get_dispatch_key_name(self):
        return "native"
