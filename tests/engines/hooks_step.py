# SPDX-License-Identifier: Apache-2.0
"""hooks_step.py CASE: calls the hooks of vLLM's backend ATTN that its fusion passes call on ROCm. Queries, keys and the
cache are compared with the formula in double precision. The last line of output has the largest error of each hook."""
import json
import os
import sys
import traceback
import types

os.environ["ATTN_HIP"] = "sim"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402  the settings above are read at the import
import attn  # noqa: E402
import attn.aiter as aiter  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE, TOKENS, EPSILON = 4, 2, 128, 16, 21, 1e-6


def rotated(x, cosines, positions):
    """Rotates x [tokens, heads, D] in double precision, by pairs of halves."""
    cos, sin = (t[:, None] for t in cosines[positions].double().chunk(2, -1))
    a, b = x.double().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def normed(x, weight):
    """Norms each head of x by its mean square, in double precision."""
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight.double()


def hooks(impl):
    """Returns {hook: largest difference from the formula, of its largest value} on a cache of 4 pages."""
    torch.manual_seed(0)
    qkv = torch.randn(TOKENS, (HEADS + 2 * KV_HEADS) * DIM).bfloat16()
    heads = qkv.view(TOKENS, -1, DIM)
    q, k, v = (x.clone() for x in heads.split([HEADS, KV_HEADS, KV_HEADS], 1))
    cosines, positions = torch.randn(64, DIM).bfloat16(), torch.randperm(64)[:TOKENS]
    slots, weights = torch.randperm(4 * PAGE)[:TOKENS], torch.randn(2, DIM).bfloat16()
    layer = types.SimpleNamespace(_k_scale=torch.ones(1), _v_scale=torch.ones(1))
    out = {}
    for name in ("rope", "qk_norm_rope"):
        cache = torch.zeros(4, KV_HEADS, PAGE, 2 * DIM).bfloat16()
        norm = name == "qk_norm_rope"
        want = [rotated(normed(x, w) if norm else x, cosines, positions) for x, w in zip((q, k), weights)]
        if norm:
            q_out = torch.empty_like(q)
            impl.do_qk_norm_rope_kvcache_update(layer, qkv, q_out, torch.empty_like(k), positions, *weights, EPSILON, cosines,
                                                True, cache, slots)
        else:
            q_out, k_out = q.clone(), k.clone()
            impl.do_rope_and_kv_cache_update(layer, q_out, k_out, v, positions, cosines, True, cache, slots)
        keys, values = (x[slots // PAGE, slots % PAGE] for x in cache.transpose(1, 2).split(DIM, -1))
        pairs = ((q_out, want[0]), (keys, want[1]), (values, v.double()))
        out[name] = max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs)
    return out


def main(case):
    kernels = [{"op": "rope_qk_norm_cache", "head_dim": DIM, "rope": "neox", "norm": ["none", "rms"], "keep_kv": [False, True],
                "cos_sin": "same"}]
    aiter.use(attn.build({"targets": [case["target"]], "defaults": {"dtype": "bf16"}, "kernels": kernels}))
    from attn.vllm._backend import Impl
    print(json.dumps(hooks(Impl(HEADS, DIM, 1.0, KV_HEADS, None, None, "auto"))), flush=True)


if __name__ == "__main__":
    code = 1
    try:
        main(json.loads(sys.argv[1]))
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)
