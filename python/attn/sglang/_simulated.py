# SPDX-License-Identifier: Apache-2.0
"""A platform of SGLang for machines without a GPU: tensors are in the host's memory, attention runs on hipsim. It is an
out-of-tree platform, for which SGLang takes its layers in plain torch."""
import torch
import torch._dynamo
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum

from attn import _engine

_device_module = torch.get_device_module


def device_module(device=None):
    """Like torch.get_device_module(), but a call without a device is for the CPU. PyTorch's own is for the kind of GPU that
    it was built for. Models take the current device from it."""
    return _device_module(device or "cpu")


def capability(device=None):
    """Like torch.cuda.get_device_capability(), but of the simulated GPU. SGLang reads it for models with an indexer."""
    return 9, 4 if _engine.simulated_target() == "gfx942" else 5


def synchronize(device=None):
    """Returns at once, where torch.cuda.synchronize() would look for a GPU: no launch of the simulator is pending. Models call it
    when they share a target's embedding and head with a draft model."""


device_module.__wrapped__ = _device_module.__wrapped__  # which PyTorch's compiler reads
torch._dynamo.config.disable = True  # functions that SGLang compiles for a GPU run as they are
torch.get_device_module = device_module
torch.cuda.get_device_capability = capability
torch.cuda.synchronize = synchronize


def take_trees():
    """Makes SGLang build and verify trees of drafts by its kernels in Triton, which TRITON_INTERPRET=1 runs on the host. SGLang's
    source lists the platforms of these kernels, so this platform passes for XPU."""
    from sglang.kernels.ops.speculative import spec_tree
    spec_tree._is_xpu = True


def cache_slots(*, req_pool_indices, req_to_token, start_offset, end_offset, **sizes):
    """Returns the slots of the pool for tokens start_offset up to end_offset - 1 of each sequence, in the order of sequences."""
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
