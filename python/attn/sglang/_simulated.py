# SPDX-License-Identifier: Apache-2.0
"""A platform of SGLang for machines without a GPU: tensors are in the host's memory, attention runs on hipsim. It is an
out-of-tree platform, for which SGLang takes its layers in plain torch."""
from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum


class Platform(CpuSRTPlatform):
    """The CPU as SGLang's device."""
    _enum = PlatformEnum.OOT

    def get_default_attention_backend(self):
        return "attn"

    def get_torch_distributed_backend_str(self):
        return "gloo"

    def get_dispatch_key_name(self):
        return "native"
