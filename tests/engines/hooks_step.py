# SPDX-License-Identifier: Apache-2.0
"""Runs a case of run.py that tests functions of the plugins that engines call on ROCm only. For the backend ATTN these are
hooks of vLLM's fusion passes, for attn the function with which SGLang's models rotate. Queries, keys and the cache are
compared with the formula in double precision. A decode step runs twice: with a launch for the hook and one for
attention, and in one launch. Outputs and caches of both are compared. The last line of output is JSON with the largest
error of each hook."""
import json
import os
import types

os.environ["ATTN_HIP"] = "sim"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402  the settings above are read at the import
import attn  # noqa: E402
import attn.aiter as aiter  # noqa: E402
from attn import _engine  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE, TOKENS, EPSILON = 4, 2, 128, 16, 21, 1e-6


def rotated(x, cosines, positions):
    """Rotates x [tokens, heads, D] in double precision. Element i is paired with element i + D / 2."""
    cos, sin = (t[:, None] for t in cosines[positions].double().chunk(2, -1))
    a, b = x.double().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def normed(x, weight):
    """Applies the RMS norm to each head of x, in double precision."""
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight.double()


def hooks(impl):
    """Returns {hook: largest difference from the formula, divided by the formula's largest value} on a cache of 4
    pages."""
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
    """Returns {hook: largest difference between a decode step in one launch and in two, divided by the largest
    value}."""
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


def head_scales(device):
    """Checks layers' scales with a checkpoint that has a scale for each KV head. The caches have 16 bits, fp8, and fp8
    with one head; one layer is not quantised by vLLM."""
    from attn.vllm import _backend
    plain, _backend.scales_heads = _backend.scales_heads, lambda: True
    given = torch.tensor([0.5, 2.0])
    forms = (("auto", KV_HEADS, given, "tensor", None), ("fp8", KV_HEADS, given, "head", [[0.5, 2.0]]),
             ("fp8", 1, given[:1], "tensor", [0.5]), ("fp8", KV_HEADS, given[1], "head", [[2.0, 2.0]]))
    for dtype, heads, scales, kind, want in forms:
        impl = _backend.Impl(HEADS, DIM, DIM ** -0.5, heads, None, None, dtype)
        layer = types.SimpleNamespace(_k_scale=scales, _v_scale=scales)
        got = impl.scales(layer)["v_scale"]
        if impl.kind.kv_scale != kind or (None if got is None else got.tolist()) != want or impl.scales(layer)["v_scale"] is not got:
            raise AssertionError(f"{dtype}, {heads} heads: {impl.kind.kv_scale} {got}")
    _backend.scales_heads = plain
    impl = _backend.Impl(HEADS, DIM, DIM ** -0.5, KV_HEADS, None, None, "auto")
    impl.process_weights_after_loading(torch.bfloat16)
    impl.steps = _engine.Steps(device, [impl.kind], page_size=PAGE, max_batch=1, max_tokens=1)
    impl.steps.plan(torch.ones(1, dtype=torch.int32), torch.zeros(1, 1, dtype=torch.int32), torch.arange(2, dtype=torch.int32), 1)
    rows, cache = torch.randn(1, HEADS, DIM).bfloat16(), torch.zeros(1, KV_HEADS, PAGE, 2 * DIM).bfloat16()
    layer, out = types.SimpleNamespace(_k_scale=given, _v_scale=given), torch.empty(1, HEADS, DIM).bfloat16()
    impl.do_kv_cache_update(layer, rows[:, :KV_HEADS], rows[:, :KV_HEADS], cache, torch.zeros(1, dtype=torch.int64))
    impl.forward(layer, rows, None, None, cache, types.SimpleNamespace(steps=impl.steps, num_actual_tokens=1), out)
    want = rows[:, :KV_HEADS].repeat_interleave(HEADS // KV_HEADS, 1)  # expected output: one key has all the weight
    return {"scales of heads beside 16 bits": float((out - want).abs().max() / want.abs().max())}


def reloaded_sinks():
    """Checks that attn's copy of sinks has new numbers at the same address after vLLM reloaded the sinks through
    Tensor.data."""
    from attn.vllm import _backend, _common
    sinks = torch.nn.Parameter(torch.zeros(HEADS).bfloat16())
    impl = _backend.Impl(HEADS, DIM, DIM ** -0.5, KV_HEADS, None, None, "auto", sinks=sinks)
    impl.process_weights_after_loading(torch.bfloat16)
    made = _common.kept(impl, "sinks", impl.sinks)
    sinks.data.fill_(3)
    impl.process_weights_after_loading(torch.bfloat16)
    if made.tolist() != [3] * HEADS or _common.kept(impl, "sinks", impl.sinks) is not made:
        raise AssertionError(f"the sinks are {made}")


def sglang_trees():
    """Checks the parents of drafts that form trees. Each run of a step computes them anew: runs before the capture of a
    graph have no drafts, and the graph's replays have other drafts."""
    from attn.sglang import _linear
    trees = torch.tensor([[0, 0, 0, 1, 1, 3], [0, 0, 1, 2, 0, 4], [0, 0, 1, 2, 3, 4]], dtype=torch.int32)
    first, sibling = (torch.full_like(trees, -1) for _ in range(2))
    step, layers = types.SimpleNamespace(retrieve_next_token=first, retrieve_next_sibling=sibling), ("first", "second")
    _linear.parents_of(step, layers[0])
    for pointers, parents in zip(zip(first, sibling), trees.tolist()):
        for draft in range(1, len(parents)):
            children = [n for n in range(1, len(parents)) if parents[n] == parents[draft]]
            place = children.index(draft)
            pointers[place > 0][children[place - 1] if place else parents[draft]] = draft
    got = [_linear.parents_of(step, layer) for layer in layers]
    if not torch.equal(got[0], trees) or got[1] is not got[0]:
        raise AssertionError(f"the parents are {got}")


def sglang_steps(device):
    """Returns the largest difference between a decode step of SGLang's backend in one launch and in two, divided by the
    largest value."""
    from sglang.srt.layers.radix_attention import AttentionType
    from attn.sglang import _backend, _rotation

    def plain(q, k, v, key_cache, value_cache, slot_mapping, pos, cos_sin, is_neox, flash_layout, q_out, k_out, k_scale, v_scale,
              **others):
        return aiter.fused_qk_rope_reshape_and_cache(q, k, v, key_cache, value_cache, slot_mapping, pos, *cos_sin.chunk(2, -1),
                                                     k_scale, v_scale, is_neox, flash_layout, apply_scale=False, q_out=q_out,
                                                     k_out=k_out, output_zeros=False)

    torch.manual_seed(2)
    lengths, made = torch.tensor([40, 1, 64], dtype=torch.int32), []
    table, qkv, cosines = torch.randperm(12, dtype=torch.int32).view(3, 4), torch.randn(3, 8, DIM).bfloat16(), torch.randn(64, DIM)
    last, written = lengths.long() - 1, torch.randn(2, 12 * PAGE, KV_HEADS, DIM).bfloat16()
    layer = types.SimpleNamespace(layer_id=0, tp_q_head_num=HEADS, tp_k_head_num=KV_HEADS, qk_head_dim=DIM, v_head_dim=DIM,
                                  scaling=0.1, sliding_window_size=-1, logit_cap=0.0, attn_type=AttentionType.DECODER,
                                  is_cross_attention=False, k_scale=None, v_scale=None)
    for fuse in ("0", "1"):
        os.environ["ATTN_FUSE"] = fuse
        module, pool = types.SimpleNamespace(**{_rotation.NAME: plain}), written.clone()
        backend = object.__new__(_backend.Backend)
        backend.pool = types.SimpleNamespace(get_kv_buffer=lambda i: tuple(pool), get_key_buffer=lambda i: pool[0])
        backend.page, backend.dtype, backend.views, backend.kv_dtype, backend.sinks = PAGE, "bf16", {}, "same", False
        backend.one, backend.pending, kind = torch.ones(1), None, backend.kind(layer, False)
        backend.steps = _engine.Steps(device, [kind], page_size=PAGE, max_batch=4, max_tokens=8)
        backend.steps.plan(lengths, table, torch.arange(4, dtype=torch.int32), 1)
        backend.rotated = {pool[0].data_ptr(): kind}
        _rotation.install(backend, module)
        q, k, v = (x.clone() for x in qkv.split([HEADS, KV_HEADS, KV_HEADS], 1))
        slots = table[torch.arange(3), last // PAGE].long() * PAGE + last % PAGE
        keys, values = (x.view(-1, PAGE, KV_HEADS, DIM) for x in pool)
        q, k, *_ = getattr(module, _rotation.NAME)(
            q=q, k=k, v=v, key_cache=keys, value_cache=values, slot_mapping=slots, pos=last, cos_sin=cosines, is_neox=True,
            flash_layout=True, offs=None, q_out=q, k_out=k, output_zeros=False, k_scale=None, v_scale=None, swa_slot_mapping=None)
        if (backend.pending is not None) != (fuse == "1"):
            raise AssertionError(f"ATTN_FUSE={fuse}: pending is {backend.pending}")
        made += [backend.run(q.view(3, -1), k, v, layer, None, False).double(), pool]
    if not torch.equal(made[1], made[3]):
        raise AssertionError("the caches differ")
    return {"one launch": float((made[2] - made[0]).abs().max() / made[0].abs().max())}


def main(case):
    size = {"head_dim": DIM, "gqa": HEADS // KV_HEADS, "page_size": PAGE}
    kernels = [{"op": "rope_qk_norm_cache", "head_dim": DIM, "rope": "neox", "norm": ["none", "rms"], "keep_kv": [False, True],
                "cos_sin": ["f32", "same"]}, {"op": "cache_write", "head_dim": DIM}, {"op": "decode", **size, "one_launch": [False, True]}, {"op": "prefill", "head_dim": DIM,
                "paged": True, "page_size": PAGE}, {"op": "plan"}, {"op": "combine", "head_dim": DIM, "partials": "csr"},
               {"op": "rope_decode", **size, "rope": "neox", "norm": ["none", "rms"], "cos_sin": ["f32", "same"], "one_launch": True}]
    os.environ["ATTN_PACKS"] = os.path.join(case["folder"], "hooks.attnpack")
    os.makedirs(case["folder"], exist_ok=True)
    attn.build({"targets": [case["target"]], "defaults": {"dtype": "bf16"}, "kernels": kernels}, output=os.environ["ATTN_PACKS"])
    device = _engine.open_device([])
    aiter.use(device=device)
    if case["backend"] == "attn":
        sglang_trees()
        print(json.dumps(sglang_steps(device)), flush=True)
        return
    from attn.vllm._backend import Impl
    impl = Impl(HEADS, DIM, DIM ** -0.5, KV_HEADS, None, None, "auto")
    impl.process_weights_after_loading(torch.bfloat16)
    reloaded_sinks()
    print(json.dumps({**hooks(impl), **steps(impl, device), **head_scales(device)}), flush=True)
