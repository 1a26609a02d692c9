# SPDX-License-Identifier: Apache-2.0
"""A platform of SGLang for machines without a GPU: tensors are in the host's memory, attention runs on hipsim. It is an
out-of-tree platform, for which SGLang takes its layers in plain torch."""
import torch
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum


_device_module = torch.get_device_module


def device_module(device=None):
    """Like torch.get_device_module(), but a call without a device is for the CPU. PyTorch's own is for the kind of GPU that
    it was built for. Models take the current device from it."""
    return _device_module(device or "cpu")


torch.get_device_module = device_module


class Platform(CpuSRTPlatform):
    """The CPU as SGLang's device."""
    _enum = PlatformEnum.OOT

    def get_default_attention_backend(self):
        return "attn"

    def get_torch_distributed_backend_str(self):
        return "gloo"

    def get_dispatch_key_name(self):
        return "native"
