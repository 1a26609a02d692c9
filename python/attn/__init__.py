# SPDX-License-Identifier: Apache-2.0
"""attn: attention kernels for AMD GPUs, compiled ahead of time by attnc, launched through libattn.

    pack = attn.build({"targets": ["gfx942"], "kernels": [{"op": "prefill", "head_dim": 128}]})
    device = attn.Device(pack, hip="sim")
    prefill = device.prefill(dtype="fp16", head_dim=128, heads=4, kv_heads=1)
    prefill(q=q, k=k, v=v, out=out, cu_seqlens_q=cu, cu_seqlens_k=cu)

attn.attention has classes that plan once a step and run once a layer. attn.torch_ops has the
operators for torch.compile, attn.aiter and attn.linear the calls of other libraries.
"""
from attn import _native
from attn._native import AttnError
from attn import _ops

_native.load(_ops.DECLARATIONS)

from attn._compiler import Description, build, describe  # noqa: E402  the library has to be loaded first
from attn._device import Device  # noqa: E402
from attn._pack import Pack  # noqa: E402
from attn._hip import DeviceArray, DeviceStream, Graph  # noqa: E402
from attn._ops import *  # noqa: E402,F401,F403
from attn import attention  # noqa: E402

version = _native.lib.attn_version()
__all__ = ["AttnError", "CacheDesc", "Description", "Device", "DeviceArray", "DeviceStream", "Graph", "Pack",
           "attention", "build", "describe", "version"] + [cls.__name__ for cls in _ops.OPS]
