# SPDX-License-Identifier: Apache-2.0
"""Parts that attn's backends for vLLM share: the device that all layers of a process use, and conversions of vLLM's
tensors."""
import torch
from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

import attn.aiter as aiter
from attn import _engine
from attn.aiter import _common as calls


class Forms:
    """Members of a backend that vLLM reads before it chooses one for a layer. `impl` is the class of a layer's
    attention, `builder` plans its steps. `sizes` are the supported head sizes in elements (None: supports_head_size()
    decides). `pages` are the supported page sizes in tokens."""
    name = impl = builder = sizes = None
    pages = (16, 32, 64, 128, 256)
    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3"]

    @classmethod
    def get_name(cls):
        return cls.name

    @classmethod
    def get_impl_cls(cls):
        return cls.impl

    @classmethod
    def get_builder_cls(cls):
        return cls.builder

    @classmethod
    def get_supported_head_sizes(cls):
        return list(cls.sizes or ())

    @classmethod
    def get_supported_kernel_block_sizes(cls, kv_cache_spec=None):
        return list(cls.pages)


_sessions = {}  # {ordinal of a GPU: (entries of a description, Session with their kernels)}


def session(vllm_config, device):
    """Returns attn.aiter's Session of a GPU. It is opened once, with kernels for all layers that the plugin serves."""
    layers = [getattr(layer, "impl", layer) for layer in get_layers_from_vllm_config(vllm_config, AttentionLayerBase).values()]
    kernels = _engine.unique([entry for layer in layers for entry in getattr(layer, "kernels", list)()] + _engine.kernels(
        [layer.kind for layer in layers if hasattr(layer, "kind")], decode_queries(vllm_config)))
    ordinal = device.index or 0
    if _sessions.get(ordinal, (None,))[0] != kernels:
        aiter.use(device=_engine.open_device(kernels, ordinal))
        _sessions[ordinal] = (kernels, calls._devices[ordinal])
    return _sessions[ordinal][1]


def decode_queries(vllm_config):
    """Returns the largest number of queries per sequence in decode: one token, and the tokens that a draft model
    proposes."""
    speculative = vllm_config.speculative_config
    return 1 + ((speculative.num_speculative_tokens or 0) if speculative else 0)


def dtype_name(dtype):
    """Returns attnc's name, bf16 or fp16, of torch's dtype; other dtypes as a string."""
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, str(dtype))


def fp8_dtype():
    """Returns torch's fp8 dtype of the platform's GPU."""
    from vllm.platforms import current_platform
    return current_platform.fp8_dtype()


def stream(x):
    """Returns the number of torch's current stream for a tensor on a GPU; None for the host's."""
    return calls.stream(x)


def scale(layer, name, shape=(1,)):
    """Returns the layer's member `name`, scales of its cache, in the shape [1] or [1, kv heads]. Every call returns the
    same object. One scale is expanded: layers that vLLM does not quantise have one even in a model with scales of
    heads."""
    return calls.copy_of(layer, name, getattr(layer, name), lambda x: x.view(-1).expand(shape).contiguous())


def kept(module, name, tensor):
    """Returns a module's parameter `tensor` in float32. Calls with the same tensor return the same object."""
    return calls.copy_of(module, name, tensor, lambda x: x.detach().float())


def in_piece():
    """True if the current step runs as several captured graphs with attention between them (vLLM's PIECEWISE mode)."""
    from vllm.config import CUDAGraphMode
    from vllm.forward_context import get_forward_context, is_forward_context_available
    return is_forward_context_available() and get_forward_context().cudagraph_runtime_mode == CUDAGraphMode.PIECEWISE


def table(cosines):
    """Returns a table of cosines and sines in a type that the packs of ATTN_PACKS read: its own if possible, else
    float32. The float32 copy is exact, and is made once."""
    if not hasattr(cosines, "attn_as_is"):
        short = {kernel["key"].get("cos_sin") for kernel in _engine.named_kernels() if "rope" in kernel["op"]}
        cosines.attn_as_is = "same" in short or not short
    return cosines if cosines.attn_as_is else calls.copy_of(cosines, "table", cosines, torch.Tensor.float)
