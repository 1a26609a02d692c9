# SPDX-License-Identifier: Apache-2.0
"""Tests the parts that the plugins of engines share, without an engine: steps are planned once, and each kind of layer runs
in them."""
import os
import tempfile
import unittest
from unittest import mock

import numpy as np

import attn
from attn import _engine
from attn.aiter import _common
from attn.linear import _calls
import support

torch = support.find_torch()

PAGE, HEADS, KV_HEADS, DIM = 16, 4, 2, 64
FULL = _engine.Kind(dtype="fp16", heads=HEADS, kv_heads=KV_HEADS, head_dim=DIM, head_dim_v=DIM, scale=0.11)
NEAR = FULL._replace(window=19, sinks=True, soft_cap=5.0, scale=0.2)
SINKS = np.array([0.5, -1.0, 2.0, 0.0], np.float32)
LATENT = _engine.LatentKind(dtype="fp16", heads=4, latent=512, rope=64, head_dim=192, head_dim_v=128, scale=0.07)


def pages(lengths, width, seed):
    """Returns random pages [pages, PAGE, width...] of sequences in scattered order, the page table, and each sequence's
    rows."""
    need = [-(-n // PAGE) for n in lengths]
    order = np.random.default_rng(seed).permutation(sum(need) + 2)
    cache = support.random((len(order), PAGE, *width), seed)
    table, rows, at = np.zeros((len(lengths), max(need)), np.int32), [], 0
    for s, n in enumerate(need):
        table[s, :n] = order[at:at + n]
        rows.append(cache[table[s, :n]].reshape(-1, *width)[:lengths[s]])
        at += n
    return cache, table, rows


class Steps(unittest.TestCase):
    """Tests steps of a model with two kinds of layers, with and without a window."""

    @classmethod
    def setUpClass(cls):
        entries = _engine.kernels([FULL, NEAR], decode_queries=2)
        cls.device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")

    def steps(self, queries):
        return _engine.Steps(self.device, [FULL, NEAR, FULL], page_size=PAGE, max_batch=4, max_tokens=64,
                             decode_queries=queries)

    def check(self, steps, lengths, counts, seed):
        """Checks a step of sequences with `lengths` keys and `counts` queries. Each kind of layer is compared with
        attention in double precision."""
        keys, table, k = pages(lengths, (KV_HEADS, DIM), seed)
        values = support.random(keys.shape, seed + 1)
        v = [values[t[:-(-n // PAGE)]].reshape(-1, KV_HEADS, DIM)[:n] for t, n in zip(table, lengths)]
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        q = support.random((starts[-1], HEADS, DIM), seed + 2)
        steps.plan(np.array(lengths, np.int32), table, starts, max(counts))
        for kind, sinks in ((FULL, None), (NEAR, SINKS)):
            out = np.zeros_like(q)
            steps.run(kind, q, keys, values, out, sinks=sinks)
            for s, (a, b) in enumerate(zip(starts, starts[1:])):
                want, _ = support.attention(q[a:b], k[s], v[s], scale=kind.scale, window=(kind.window, -1), sinks=sinks,
                                            cap=kind.soft_cap)
                support.close(out[a:b], want, support.bound(v[s]), f"{kind} {s}")

    def test_prompts_chunks_and_decode_in_one_step(self):
        self.check(self.steps(1), (300, 40, 90), (1, 23, 30), 3)

    def test_decode(self):
        steps = self.steps(1)
        self.check(steps, (300, 40, 17), (1, 1, 1), 4)
        self.check(steps, (33, 1), (1, 1), 5)

    def test_decode_with_drafts(self):
        self.check(self.steps(2), (300, 40, 17), (2, 1, 2), 6)

    def test_the_step_decides_how_it_is_launched(self):
        steps = self.steps(2)
        for counts, way in (((1, 2), 2), ((3, 1), "prefill"), ((1, 1), 1), ((0, 1), 1)):
            self.check(steps, (40, 50), counts, 7)
            self.assertEqual(steps.current, way)
        self.assertEqual({n: steps.calls[FULL][n].q_len for n in (1, 2)}, {1: 1, 2: 2})

    def test_the_keys_of_a_sequence_choose_the_tiles_of_prefill(self):
        with mock.patch("attn.attention.choose_split", wraps=attn.attention.choose_split) as choose:
            _engine.Steps(self.device, [FULL], page_size=PAGE, max_batch=4, max_tokens=64, kv_len=5000)
        keys = [call.args[2] for call in choose.call_args_list if call.kwargs.get("tokens")]
        self.assertEqual(keys, [5000])

    def test_tensors_of_the_same_memory_are_one(self):
        steps, memory = self.steps(1), np.zeros(8, np.int32)
        first = steps.same("lengths", memory[:4])
        self.assertIs(steps.same("lengths", memory[:4]), first)
        self.assertIsNot(steps.same("lengths", memory[:3]), first)
        self.assertIsNot(steps.same("lengths", memory[1:4]), first)


class HeadScales(unittest.TestCase):
    """Tests a layer whose fp8 cache has a scale for each KV head."""

    def test_prompts_and_decode(self):
        kind = FULL._replace(kv_dtype="fp8", kv_scale="head")
        device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": _engine.kernels([kind])}), hip="sim")
        steps = _engine.Steps(device, [kind], page_size=PAGE, max_batch=4, max_tokens=64, decode_queries=1)
        scales = [np.array([x], np.float32) for x in ((0.02, 0.005), (0.3, 1.1))]
        for lengths, counts in (((300, 40, 90), (1, 23, 30)), ((300, 40, 17), (1, 1, 1))):
            _, table, _ = pages(lengths, (KV_HEADS, DIM), 9)
            k, v = (support.fp8_bytes((int(table.max()) + 1, PAGE, KV_HEADS, DIM), i) for i in (1, 2))
            starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
            q, out = support.random((starts[-1], HEADS, DIM), 5), np.zeros((starts[-1], HEADS, DIM), np.float16)
            steps.plan(np.array(lengths, np.int32), table, starts, max(counts))
            steps.run(kind, q, k, v, out, k_scale=scales[0], v_scale=scales[1])
            for s, n in enumerate(lengths):
                keys, values = (support.FP8[x[table[s, :-(-n // PAGE)]]].reshape(-1, KV_HEADS, DIM)[:n] * scale[0][:, None]
                                for x, scale in zip((k, v), scales))
                rows = slice(starts[s], starts[s + 1])
                want, _ = support.attention(q[rows], keys, values, scale=kind.scale)
                support.close(out[rows], want, support.bound(values) * 4, f"sequence {s} of {lengths}")


class Mamba(unittest.TestCase):
    """Tests the description of a Mamba2 layer's kernels."""

    def test_kernels_of_a_layer(self):
        kind = _engine.MambaKind("fp16", taps=4, state=128, head_dim=64, state_dtype="f32", act="silu", bias=True)
        entries = _engine.mamba_kernels([kind, kind])
        self.assertEqual([entry["op"] for entry in entries], ["conv1d", "ssd", "ssd_prefill"])
        device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")
        scan = dict(dtype="fp16", head_dim=128, head_dim_v=64, heads=1, value_heads=8, gates="softplus", state_dtype="f32")
        device.conv1d(dtype="fp16", taps=4, channels=768, act="silu", bias=True)
        device.ssd(**scan, act="none")
        for segments in ("none", "states", "outputs"):
            device.ssd_prefill(**scan, act="none", segments=segments)


class Trees(unittest.TestCase):
    """Tests steps that verify drafts which form trees."""

    @classmethod
    def setUpClass(cls):
        entries = _engine.kernels([FULL, NEAR], 3, trees=True)
        cls.device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")

    def test_a_draft_sees_its_ancestors(self):
        parents, lengths = ((-1, 0, 0), (-1, 0, 1)), (40, 19)
        keys, table, k = pages(lengths, (KV_HEADS, DIM), 31)
        values, q = support.random(keys.shape, 32), support.random((6, HEADS, DIM), 33)
        masks = []
        for n, above in zip(lengths, parents):
            mask = np.ones((3, n), np.uint8)
            mask[:, n - 3:] = 0
            for draft in range(3):
                at = draft
                while at >= 0:
                    mask[draft, n - 3 + at], at = 1, above[at]
            masks.append(mask)
        starts = np.array([0, 3 * lengths[0], 3 * sum(lengths)], np.int64)
        steps = _engine.Steps(self.device, [FULL], page_size=PAGE, max_batch=4, max_tokens=64, decode_queries=3, trees=True)
        tree = np.concatenate([mask.ravel() for mask in masks]), starts
        steps.plan(np.array(lengths, np.int32), table, np.array([0, 3, 6], np.int32), 3, tree=tree)
        out = np.zeros_like(q)
        steps.run(FULL, q, keys, values, out)
        for s, mask in enumerate(masks):
            v = values[table[s, :-(-lengths[s] // PAGE)]].reshape(-1, KV_HEADS, DIM)[:lengths[s]]
            want, _ = support.attention(q[3 * s:3 * s + 3], k[s], v, scale=FULL.scale, causal=False, mask=mask.astype(bool))
            support.close(out[3 * s:3 * s + 3], want, support.bound(v), f"sequence {s}")

    def test_a_window_has_no_trees(self):
        steps = _engine.Steps(self.device, [NEAR], page_size=PAGE, max_batch=4, max_tokens=64, trees=True)
        with self.assertRaisesRegex(attn.AttnError, "a tree of drafts in a layer with a window"):
            steps.plan(np.array([5], np.int32), np.zeros((1, 1), np.int32), np.array([0, 3], np.int32), 3,
                       tree=(np.ones(15, np.uint8), np.array([0, 15], np.int64)))


class Rotated(unittest.TestCase):
    """Tests decode steps in which one launch rotates, writes the cache and attends."""

    ROTATION = _engine.Rotation("neox", DIM)

    @classmethod
    def setUpClass(cls):
        rotated = {"op": "rope_decode", "dtype": "fp16", "head_dim": DIM, "gqa": HEADS // KV_HEADS, "page_size": PAGE,
                   "one_launch": True, "rope": "neox", "cos_sin": "same"}
        entries = _engine.kernels([FULL, NEAR]) + [rotated]
        cls.device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")

    def setUp(self):
        self.steps = _engine.Steps(self.device, [FULL, NEAR], page_size=PAGE, max_batch=70, max_tokens=80)

    def plan(self, lengths, table, queries=1):
        starts = np.arange(len(lengths) + 1, dtype=np.int32) * queries
        self.steps.plan(np.array(lengths, np.int32), table, starts, queries)

    def test_a_step_of_decode(self):
        lengths, angles = (300, 40, 17), support.random((512, DIM), 1)
        keys, table, k = pages(lengths, (KV_HEADS, DIM), 2)
        values = support.random(keys.shape, 3)
        v = [values[t[:-(-n // PAGE)]].reshape(-1, KV_HEADS, DIM)[:n] for t, n in zip(table, lengths)]
        rows = support.random((3, HEADS + 2 * KV_HEADS, DIM), 4)
        new, positions = np.split(rows, [HEADS, HEADS + KV_HEADS], axis=1), np.array([299, 39, 400])
        self.plan(lengths, table)
        self.assertIsNotNone(self.steps.fused(FULL, self.ROTATION))
        out = np.zeros((3, HEADS, DIM), np.float16)
        self.steps.run_rotated(FULL, self.ROTATION, *new, keys, values, out, positions=positions, cos_sin=angles)
        cos, sin = np.split(angles[positions].astype(float)[:, None], 2, axis=-1)
        q, key = (np.concatenate((x * cos - y * sin, y * cos + x * sin), -1) for x, y in (
            np.split(part.astype(float), 2, axis=-1) for part in new[:2]))
        for s, n in enumerate(lengths):
            page, row = table[s, (n - 1) // PAGE], (n - 1) % PAGE
            support.close(keys[page, row], key[s], 2 * support.HALF * np.abs(key[s]).max(), f"key {s}")
            np.testing.assert_array_equal(values[page, row], new[2][s])
            k[s][-1], v[s][-1] = keys[page, row], new[2][s]
            want, _ = support.attention(q[s:s + 1].astype(np.float16), k[s], v[s], scale=FULL.scale)
            # A rounded element of q may differ in its last bit. A score then differs by up to 2^-11 of the product of q
            # and k.
            moved = support.HALF * FULL.scale * np.abs(q[s]).max() * np.abs(k[s].astype(float)).sum(-1).max()
            support.close(out[s:s + 1], want, support.bound(v[s]) + 2 * moved * np.abs(v[s].astype(float)).max(), f"{s}")

    def test_other_steps_have_launches_of_their_own(self):
        self.plan((40,) * 64, np.zeros((64, 3), np.int32))
        self.assertIsNotNone(self.steps.fused(FULL, self.ROTATION))
        with mock.patch.dict(os.environ, ATTN_FUSE="0"):
            self.assertIsNone(self.steps.fused(FULL, self.ROTATION))
        self.assertIsNone(self.steps.fused(NEAR, self.ROTATION), "a kind that the pack lacks")
        self.assertIsNone(self.steps.fused(FULL, self.ROTATION._replace(rope="gptj")))
        self.plan((40,) * 65, np.zeros((65, 3), np.int32))
        self.assertIsNone(self.steps.fused(FULL, self.ROTATION), "too many sequences")
        self.plan((40,), np.zeros((1, 3), np.int32), queries=2)
        self.assertIsNone(self.steps.fused(FULL, self.ROTATION), "a prompt")


class Latent(unittest.TestCase):
    def test_decode(self):
        entries = _engine.latent_kernels([LATENT])
        device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")
        steps = _engine.LatentSteps(device, LATENT, page_size=PAGE, max_batch=3)
        lengths = (300, 7, 33)
        cache, table, rows = pages(lengths, (576,), 8)
        q, out = support.random((3, 4, 576), 9), np.zeros((3, 4, 512), np.float16)
        steps.plan(np.array(lengths, np.int32), table, np.arange(4, dtype=np.int32))
        steps.run(q, cache, out)
        for s in range(3):
            want, _ = support.attention(q[s:s + 1], rows[s][:, None], rows[s][:, None, :512], scale=LATENT.scale)
            support.close(out[s:s + 1], want, support.bound(rows[s]), f"sequence {s}")


    def test_decode_with_products(self):
        entries = _engine.latent_kernels([LATENT])
        device = attn.Device(attn.build({"targets": [support.TARGET], "kernels": entries}), hip="sim")
        steps = _engine.LatentSteps(device, LATENT, page_size=PAGE, max_batch=4)
        lengths = (300, 7, 33)
        cache, table, rows = pages(lengths, (576,), 8)
        new, q = support.random((3, 576), 10), support.random((3, 4, 192), 11)
        w_uk, w_uv = (support.random((4, *size), 12) * np.float16(size[1] ** -0.5) for size in ((512, 128), (128, 512)))
        slots = np.array([table[s, (n - 1) // PAGE] * PAGE + (n - 1) % PAGE for s, n in enumerate(lengths)], np.int64)
        slots[1] = -1
        out = np.zeros((3, 4, 128), np.float16)
        steps.plan(np.array(lengths, np.int32), table, np.arange(4, dtype=np.int32))
        steps.run_products(q, new[:, :512], new[:, 512:], slots, cache, w_uk, w_uv, out)
        for s in (0, 2):
            rows[s][-1] = new[s]
        np.testing.assert_array_equal(cache.reshape(-1, 576)[slots[slots >= 0]], new[[0, 2]])
        for s in range(3):
            absorbed = np.einsum("hld,hd->hl", w_uk.astype(float), q[s, :, :128].astype(float)).astype(np.float16)
            full = np.concatenate((absorbed, q[s, :, 128:]), -1)[None]
            latent, _ = support.attention(full, rows[s][:, None], rows[s][:, None, :512], scale=LATENT.scale)
            want = np.einsum("hvl,hl->hv", w_uv.astype(float), latent[0])
            # An output adds up errors of latents, weighted by a row of W_UV. A rounding of the absorbed query changes
            # scores, which adds `moved`.
            reach = np.abs(w_uv.astype(float)).sum(-1).max()
            moved = support.HALF * LATENT.scale * np.abs(absorbed).max() * np.abs(rows[s].astype(float)).sum(-1).max()
            limit = reach * (support.bound(rows[s]) + 2 * moved * np.abs(rows[s].astype(float)).max())
            support.close(out[s], want, limit, f"sequence {s}")
            self.assertLess(np.abs(out[s] - want).max(), 0.02 * np.abs(want).max())

    def test_products_are_left_out(self):
        with mock.patch.dict(os.environ, ATTN_FUSE="0"):
            self.assertFalse([e for e in _engine.latent_kernels([LATENT]) if "product_dim" in e])


class Descriptions(unittest.TestCase):
    def test_scales_and_caps_are_numbers_of_a_launch(self):
        again = NEAR._replace(scale=0.5, soft_cap=50.0)
        self.assertEqual(_engine.kernels([FULL, NEAR]), _engine.kernels([FULL, NEAR, again, FULL._replace(scale=1.0)]))

    def test_fp8_caches_have_a_scale_of_the_tensor(self):
        for entries in (_engine.kernels([FULL._replace(kv_dtype="fp8")]),
                        _engine.latent_kernels([LATENT._replace(kv_dtype="fp8")])):
            for entry in entries:
                if entry["op"] in ("decode", "cache_write", "mla_decode", "mla_rope_cache"):
                    self.assertEqual((entry["kv_dtype"], entry["kv_scale"]), ("fp8", "tensor"), entry)
        for entry in _engine.kernels([FULL._replace(kv_dtype="fp8", kv_scale="head")]):
            self.assertIn(entry.get("kv_scale"), ("head", None), entry)


@unittest.skipUnless(torch, "torch is not installed")
class Copies(unittest.TestCase):
    """Tests copies of weights in another type, after an engine reloaded the weights."""

    def setUp(self):
        self.module, self.like = torch.nn.Conv1d(2, 2, 4, bias=False), torch.zeros(1, dtype=torch.bfloat16)
        with torch.inference_mode():  # engines run models in this mode
            self.copy = self.typed()
        self.address = self.copy.data_ptr()

    def typed(self):
        return _calls.typed(self.module, "weight", self.like)

    def check(self, value):
        """Checks that the copy has the weight's number `value`, at the same address as at first."""
        self.assertEqual(self.copy.unique().tolist(), [value])
        self.assertIs(self.typed(), self.copy)
        self.assertEqual(self.copy.data_ptr(), self.address)

    def test_writes_that_torch_counts(self):
        with torch.no_grad():
            self.module.weight.fill_(2)
        self.typed()
        self.check(2)

    def test_memory_that_is_replaced(self):
        self.module.weight.data = torch.full((2, 2, 4), 3.0)
        self.typed()
        self.check(3)

    def test_a_weight_that_is_replaced(self):
        self.module.weight = torch.nn.Parameter(torch.full((2, 2, 4), 4.0))
        self.assertEqual(self.typed().unique().tolist(), [4])

    def test_writes_that_torch_does_not_count(self):
        import attn.sglang

        class Updater:
            def update_weights_from_disk(updater, value):
                self.module.weight.data.fill_(value)
                return True, "done"

            load_weights_from_distributed = update_weights_from_disk

        for _ in range(2):  # a second call, as SGLang may make it, changes nothing
            attn.sglang.refresh_after(Updater)
        self.assertEqual(Updater().update_weights_from_disk(5), (True, "done"))
        self.check(5)
        Updater().load_weights_from_distributed(6)
        self.check(6)

    def test_tables_of_several_tensors(self):
        made, one, other = _common.Made(), torch.ones(2), torch.ones(2)
        first = made.of("joined", (one, other), lambda a, b: torch.cat((a, b)))
        other.data.fill_(7)
        self.assertIs(made.of("joined", (one, other), None), first)
        self.assertEqual(first.tolist(), [1, 1, 1, 1])
        _common.refresh_copies()
        self.assertEqual(first.tolist(), [1, 1, 7, 7])
        del one
        self.assertEqual(len(made.kept), 0)


class Environment(unittest.TestCase):
    def test_the_simulated_gpu(self):
        for text, want in (("", "gfx942"), ("stats=on,target=gfx950", "gfx950"), ("target=gfx942", "gfx942")):
            with mock.patch.dict(os.environ, HIPSIM=text, ATTN_HIP="sim"):
                self.assertEqual(_engine.target(), want)

    def test_packs_that_are_named_are_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.attnpack")
            attn.build({"targets": [support.TARGET], "kernels": [{"op": "plan"}]}, output=path)
            with mock.patch.dict(os.environ, ATTN_PACKS=path, ATTN_HIP="sim"):
                device = _engine.open_device([{"op": "no such op"}])
                self.assertEqual(_engine.named_ops(), {"plan"})
        self.assertEqual([k["op"] for pack in device.packs for k in pack.kernels()], ["plan"])
        with mock.patch.dict(os.environ, ATTN_PACKS=""):
            self.assertEqual(_engine.named_ops(), set())

    def test_aiter_needs_packs(self):
        with mock.patch.dict(os.environ, ATTN_PACKS="", ATTN_AITER="1", ATTN_HIP="sim"):
            with self.assertRaisesRegex(attn.AttnError, "ATTN_PACKS"):
                _engine.serve_aiter()

    def test_entry_points_without_an_engine(self):
        import attn.sglang
        import attn.vllm
        for hip, names in (("sim", ("attn.vllm._simulated.Platform", "attn.sglang._simulated.Platform")), ("", (None, None))):
            with mock.patch.dict(os.environ, ATTN_HIP=hip):
                self.assertEqual((attn.vllm.platform(), attn.sglang.platform()), names)


if __name__ == "__main__":
    unittest.main()
