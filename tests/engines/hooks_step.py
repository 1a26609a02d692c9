# SPDX-License-Identifier: Apache-2.0
"""hooks_step.py CASE: calls the hooks of vLLM's backend ATTN that its fusion passes call on ROCm. Queries, keys and the
cache are compared with the formula in double precision. A step of decode is run with a launch for the hook and one for
attention, and in one launch: outputs and caches are compared. The last line of output has the largest error of each hook."""
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
from attn import _engine  # noqa: E402

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


def steps(impl, device):
    """Returns {hook: largest difference between a decode step in one launch and in two, of the largest value}."""
    torch.manual_seed(1)
    lengths = torch.tensor([40, 1, 64], dtype=torch.int32)
    table, tokens = torch.randperm(12, dtype=torch.int32).view(3, 4), len(lengths)
    qkv = torch.randn(tokens, (HEADS + 2 * KV_HEADS) * DIM).bfloat16()
    cosines, weights = torch.randn(64, DIM).bfloat16(), torch.randn(2, DIM).bfloat16()
    last, written = lengths.long() - 1, torch.randn(12, KV_HEADS, PAGE, 2 * DIM).bfloat16()
    slots = table[torch.arange(tokens), last // PAGE].long() * PAGE + last % PAGE
    layer = types.SimpleNamespace(_k_scale=torch.ones(1), _v_scale=torch.ones(1))
    impl.steps = _engine.Steps(device, [impl.kind], page_size=PAGE, max_batch=4, max_tokens=8)
    impl.steps.plan(lengths, table, torch.arange(tokens + 1, dtype=torch.int32), 1)
    metadata = types.SimpleNamespace(steps=impl.steps, num_actual_tokens=tokens)
    out = {}
    for name in ("rope", "qk_norm_rope"):
        made = []
        for fuse in ("0", "1"):
            os.environ["ATTN_FUSE"] = fuse
            q, k, v = (x.clone() for x in qkv.view(tokens, -1, DIM).split([HEADS, KV_HEADS, KV_HEADS], 1))
            cache, output = written.clone(), torch.empty(tokens, HEADS, DIM).bfloat16()
            if name == "rope":
                impl.do_rope_and_kv_cache_update(layer, q, k, v, last, cosines, True, cache, slots)
            else:
                impl.do_qk_norm_rope_kvcache_update(layer, qkv, q, k, last, *weights, EPSILON, cosines, True, cache, slots)
            if (impl.pending is not None) != (fuse == "1"):
                raise AssertionError(f"ATTN_FUSE={fuse}: pending is {impl.pending}")
            impl.forward(layer, q, k, v, cache, metadata, output)
            made += [output.double(), cache]
        if not torch.equal(made[1], made[3]):
            raise AssertionError(f"{name}: the caches differ")
        out[f"{name} in one launch"] = float((made[2] - made[0]).abs().max() / made[0].abs().max())
    return out


def main(case):
    size = {"head_dim": DIM, "gqa": HEADS // KV_HEADS, "page_size": PAGE}
    kernels = [{"op": "rope_qk_norm_cache", "head_dim": DIM, "rope": "neox", "norm": ["none", "rms"], "keep_kv": [False, True],
                "cos_sin": "same"}, {"op": "decode", **size, "one_launch": [False, True]}, {"op": "prefill", "head_dim": DIM,
                "paged": True, "page_size": PAGE}, {"op": "plan"}, {"op": "combine", "head_dim": DIM, "partials": "csr"},
               {"op": "rope_decode", **size, "rope": "neox", "norm": ["none", "rms"], "cos_sin": "same", "one_launch": True}]
    device = attn.Device(attn.build({"targets": [case["target"]], "defaults": {"dtype": "bf16"}, "kernels": kernels}))
    aiter.use(device=device)
    from attn.vllm._backend import Impl
    impl = Impl(HEADS, DIM, DIM ** -0.5, KV_HEADS, None, None, "auto")
    impl.process_weights_after_loading(torch.bfloat16)
    print(json.dumps({**hooks(impl), **steps(impl, device)}), flush=True)


if __name__ == "__main__":
    code = 1
    try:
        main(json.loads(sys.argv[1]))
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)
