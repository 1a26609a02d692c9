# SPDX-License-Identifier: Apache-2.0
"""The first launch, on a simulated GPU. All queries and keys are zero, so each query weighs all visible keys
equally. Value t is t, so output t is the mean of 0 to t, which is t / 2."""
import attn
import numpy as np

kernels = [{"op": "prefill", "dtype": "fp16", "head_dim": 128}]
pack = attn.build({"targets": ["gfx942"], "kernels": kernels})
device = attn.Device(pack, hip="sim")
prefill = device.prefill(dtype="fp16", head_dim=128, heads=4, kv_heads=1)
q = np.zeros((64, 4, 128), np.float16)
k = np.zeros((64, 1, 128), np.float16)
v = np.zeros_like(k) + np.arange(64, dtype=np.float16)[:, None, None]
out = np.empty_like(q)
cu_seqlens = np.array([0, 64], np.int32)
prefill(q=q, k=k, v=v, out=out, cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens)
print(out[:, 3, 127])
