# SPDX-License-Identifier: Apache-2.0
"""A platform of vLLM for machines without a GPU: tensors are in the host's memory, attention runs on hipsim.

The class is derived from vLLM's CPU platform, which needs no GPU build of PyTorch. vLLM's wheel for CUDA suffices:
_operators.py has the CPU operators that this wheel lacks."""
import types

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability

from attn import _engine


class Platform(CpuPlatform):
    """The CPU as vLLM's device, with the fp8 type and the backends of an AMD GPU."""

    @classmethod
    def get_device_name(cls, device_id=0):
        return f"hipsim {_engine.simulated_target()}"

    @classmethod
    def get_device_capability(cls, device_id=0):
        return DeviceCapability(9, 4 if _engine.simulated_target() == "gfx942" else 5)

    @classmethod
    def is_fp8_fnuz(cls):
        return _engine.simulated_target() == "gfx942"

    @classmethod
    def fp8_dtype(cls):
        return torch.float8_e4m3fnuz if cls.is_fp8_fnuz() else torch.float8_e4m3fn

    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        """Returns the path of the backend that the user chose, which may be one of vLLM's for AMD GPUs; without a
        choice the plugin's."""
        from vllm.v1.attention.backends.registry import AttentionBackendEnum
        latent = "ATTN_MLA_SPARSE" if attn_selector_config.use_sparse else "ATTN_MLA"
        chosen = selected_backend or AttentionBackendEnum[latent if attn_selector_config.use_mla else "ATTN"]
        if chosen.name.startswith("ROCM_"):
            pretend_rocm()
        reasons = chosen.get_class().validate_configuration(device_capability=cls.get_device_capability(),
                                                            **attn_selector_config._asdict())
        if reasons:
            raise ValueError(f"attention backend {chosen.name} does not serve this layer: {', '.join(reasons)}")
        return chosen.get_path()

    @classmethod
    def get_mla_prefill_backend_cls(cls, mla_selector_config):
        """Returns the backend of AITER's calls if attn.aiter is installed for vLLM's own backend, else the plugin's
        Prefill."""
        from vllm.config import get_current_vllm_config
        chosen = get_current_vllm_config().attention_config.backend
        if chosen is not None and chosen.name.startswith("ROCM_"):
            from vllm.v1.attention.backends.mla.prefill.aiter_flash_attn import AiterFlashAttnPrefillBackend
            return AiterFlashAttnPrefillBackend
        from attn.vllm._mla import Prefill
        return Prefill

    @classmethod
    def import_kernels(cls):
        """Imports nothing: the wheel's extensions are for another device."""

    @classmethod
    def check_and_update_config(cls, vllm_config):
        """Applies vLLM's CPU settings, and makes norms, activations and rotation run in plain torch."""
        page = vllm_config.cache_config.block_size
        super().check_and_update_config(vllm_config)
        # restores the page size, since vLLM's CPU settings force pages of 16 for latent attention
        vllm_config.cache_config.block_size = page
        vllm_config.compilation_config.custom_ops = ["none"]


def take_models():
    """Makes vLLM use its AMD implementation of Kimi Linear, since the other implementation needs a GPU of NVIDIA."""
    from vllm import ModelRegistry
    ModelRegistry.register_model("KimiLinearForCausalLM", "vllm.models.kimi_k3.amd.linear:KimiLinearForCausalLM")


def pretend_rocm():
    """Makes vLLM's own AMD backends importable: vllm.platforms.rocm reads the GPU's name from torch, and vLLM registers
    the operator of AITER's latent decode on ROCm only."""
    from vllm.utils.torch_utils import direct_register_custom_op
    properties = types.SimpleNamespace(gcnArchName=_engine.simulated_target(), multi_processor_count=304)
    torch.cuda.get_device_properties = lambda device=None: properties
    if not hasattr(torch.ops.vllm, "rocm_aiter_mla_decode_fwd"):
        from vllm import _aiter_ops
        direct_register_custom_op(op_name="rocm_aiter_mla_decode_fwd", op_func=_aiter_ops._rocm_aiter_mla_decode_fwd_impl,
                                  mutates_args=["o"])
