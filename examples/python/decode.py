# SPDX-License-Identifier: Apache-2.0
"""Runs a decode step of two layers over a paged cache on a simulated GPU. The step is planned once and
replayed as a graph. Every key is zero, so each query gets the mean of its sequence's values."""
import attn
import numpy as np

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 128, 16
defaults = {"dtype": "fp16", "head_dim": DIM}
pack = attn.build({"targets": ["gfx942"], "defaults": defaults, "kernels": [
    {"op": "decode", "gqa": HEADS // KV_HEADS, "page_size": PAGE},
    {"op": "combine", "partials": "csr"},
    {"op": "plan"}]})
device = attn.Device(pack, hip="sim")
decode = attn.attention.BatchDecode(device, dtype="fp16", head_dim=DIM, heads=HEADS,
                                    kv_heads=KV_HEADS, cache=attn.CacheDesc(page_size=PAGE),
                                    max_batch=2)

kv_lens = np.array([300, 40], np.int32)
block_table = np.arange(2 * 20, dtype=np.int32).reshape(2, 20)
k_cache = np.zeros((40, PAGE, KV_HEADS, DIM), np.float16)
v_caches = [np.zeros_like(k_cache) for _ in range(2)]
v_caches[0][:20], v_caches[0][20:] = 1, 2  # a number for each sequence and layer
v_caches[1][:20], v_caches[1][20:] = 3, 4
q = np.zeros((2, HEADS, DIM), np.float16)
outs = [np.zeros_like(q) for _ in v_caches]

with device.graph() as graph:
    decode.plan(kv_lens, block_table=block_table, stream=graph.stream)
    for v_cache, out in zip(v_caches, outs):
        decode.run(q, k_cache, v_cache, out=out, stream=graph.stream)
kv_lens[0] = 17  # read from the GPU's memory in each replay
graph.replay()
print([float(out[s, 0, 0]) for out in outs for s in range(2)])
