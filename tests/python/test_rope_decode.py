# SPDX-License-Identifier: Apache-2.0
"""Tests that rope_decode, a decode step of attention in one launch, has the bits of two launches."""
import unittest

import numpy as np

import attn
import support

PAGE, PAGES, ENTRIES, POSITIONS = 16, 96, 20, 256


class Layer:
    """Random tensors of one layer. Sequences have `lengths` keys, the last n of them new. q, k and v are views of one
    tensor."""

    def __init__(self, lengths, heads, kv_heads, dim, seed, n=1, bias=False, norm=None, kv_dtype=np.float16):
        self.lens, self.batch, self.dim, self.heads, self.kv_heads = (
            np.array(lengths, np.int32), len(lengths), dim, heads, kv_heads)
        rows = self.batch * n
        qkv = support.random((rows, heads + 2 * kv_heads, dim), seed)
        self.q, self.k, self.v = np.split(qkv, [heads, heads + kv_heads], axis=1)
        shape = (PAGES, PAGE, kv_heads, dim)
        fp8 = kv_dtype == np.uint8
        self.cache = [support.fp8_bytes(shape, seed + i) if fp8 else support.random(shape, seed + i) for i in (1, 2)]
        self.scales = [np.full((PAGES, kv_heads, PAGE), 0.25, np.float32) for _ in range(2)] if fp8 else None
        rng = np.random.default_rng(seed + 3)
        self.table = rng.permutation(PAGES)[:self.batch * ENTRIES].reshape(self.batch, ENTRIES).astype(np.int32)
        self.positions = rng.integers(0, POSITIONS, rows)
        self.turn = support.random((POSITIONS, dim), seed + 4, np.float32)
        self.weights = [support.random((dim,), seed + 5 + i) for i in range(2)] if norm else None
        self.biases = [support.random((h, dim), seed + 7 + i)
                       for i, h in enumerate((heads, kv_heads, kv_heads))] if bias else None
        self.sinks = support.random((heads,), seed + 10, np.float32)
        self.n, self.norm, self.fp8 = n, norm, fp8
        self.out = np.zeros((rows, heads, dim), np.float16)

    def heads_of(self):
        """Returns the arguments with which rope_qk_norm_cache and decode are looked up."""
        cache = attn.CacheDesc(page_size=PAGE, **(dict(dtype="fp8", scale="token") if self.fp8 else {}))
        return dict(dtype="fp16", head_dim=self.dim, heads=self.heads, kv_heads=self.kv_heads, cache=cache)

    def turns(self, rope):
        """Returns the arguments of the lookup that describe rotation, norm and bias."""
        return dict(rope=rope, bias=self.biases is not None, **(dict(norm=self.norm) if self.norm else {}))

    def before(self):
        """Returns the arguments of the parts before attention: inputs, positions, weights and biases."""
        call = dict(k=self.k, v=self.v, positions=self.positions, cos_sin=self.turn, eps=1e-5)
        if self.weights:
            call.update(q_weight=self.weights[0], k_weight=self.weights[1])
        if self.biases:
            call.update(zip(("q_bias", "k_bias", "v_bias"), self.biases))
        return call

    def pages(self):
        """Returns the caches, with their scales if they are fp8."""
        call = dict(k_cache=self.cache[0], v_cache=self.cache[1])
        return call | (dict(k_scale=self.scales[0], v_scale=self.scales[1]) if self.fp8 else {})

    def lists(self):
        """Returns the output, the page table and the lengths."""
        return dict(out=self.out, block_table=self.table, kv_lens=self.lens, q_len=self.n)

    def slots(self):
        """Returns the cache slots of the new tokens; -1 for a sequence without keys."""
        keys = self.lens[:, None] - self.n + np.arange(self.n)
        page = np.take_along_axis(self.table, np.maximum(keys, 0) // PAGE, 1)
        return np.where(keys >= 0, page.astype(np.int64) * PAGE + keys % PAGE, -1).reshape(-1)

    def chain(self, device, rope, sinks):
        """Makes the two launches, for rotation with the write of the cache, and for attention."""
        q = np.zeros((self.batch * self.n, self.heads, self.dim), np.float16)
        device.rope_qk_norm_cache(**self.heads_of(), **self.turns(rope))(
            q=self.q, q_out=q, slot_mapping=self.slots(), **self.before(), **self.pages())
        device.decode(**self.heads_of(), q_len=self.n, sinks=sinks)(
            q=q, **self.lists(), **self.pages(), **(dict(sinks=self.sinks) if sinks else {}))

    def step(self, device, rope, sinks):
        """Makes the one launch."""
        device.rope_decode(**self.heads_of(), q_len=self.n, sinks=sinks, **self.turns(rope))(
            q=self.q, **self.lists(), **self.before(), **self.pages(), **(dict(sinks=self.sinks) if sinks else {}))


class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def pair(attention, turns):
            page = {k: v for k, v in attention.items() if k not in ("gqa", "q_len", "sinks", "page_size")}
            return [{"op": "decode", **attention}, {"op": "rope_qk_norm_cache", **page, **turns},
                    {"op": "rope_decode", **attention, **turns}]
        cls.device = support.device(
            *pair({"head_dim": 128, "gqa": 8, "page_size": PAGE}, {"rope": "neox"}),
            {"op": "rope_decode", "head_dim": 128, "gqa": 8, "page_size": PAGE, "one_launch": True}, {"op": "plan"},
            *pair({"head_dim": 64, "gqa": 4, "page_size": PAGE, "sinks": True}, {"rope": "neox", "bias": True}),
            *pair({"head_dim": 64, "gqa": 4, "page_size": PAGE, "q_len": [1, 2]}, {"rope": "gptj", "norm": "rms"}),
            *pair({"head_dim": 128, "gqa": 4, "page_size": PAGE, "kv_dtype": "fp8", "kv_scale": "token"},
                  {"rope": "neox", "norm": "rms"}))

    def check(self, rope="neox", sinks=False, same_tile=True, **layer):
        """Compares outputs and caches of two steps. `same_tile`: True if both kernels have the same tiles, so that
        outputs have the same bits."""
        chain, step = Layer(**layer), Layer(**layer)
        for _ in range(2):  # the second step reads the keys that the first one wrote
            chain.chain(self.device, rope, sinks)
            step.step(self.device, rope, sinks)
            if same_tile:
                np.testing.assert_array_equal(step.out, chain.out, "out")
            # Weights of keys are rounded in another order. Each is off by 2^-11, and values are up to 4.
            np.testing.assert_allclose(step.out.astype(float), chain.out.astype(float), rtol=0, atol=4 * 2 ** -11)
            for name in ("cache", "scales"):
                for ours, theirs in zip(getattr(step, name) or [], getattr(chain, name) or []):
                    np.testing.assert_array_equal(ours, theirs, name)
            for it in (chain, step):
                it.lens += it.lens > 0
        self.assertTrue(np.abs(step.out[0].astype(np.float64)).max() > 0)
        self.assertFalse(step.out[(step.lens == 0).repeat(step.n)].any())

    def test_rotation_has_the_bits_of_two_launches(self):
        self.check(lengths=[70, 1, 0, 16], heads=16, kv_heads=2, dim=128, seed=1)

    def test_so_have_biases_and_sinks(self):
        self.check(lengths=[33, 5], heads=4, kv_heads=1, dim=64, seed=20, bias=True, sinks=True)

    def test_so_have_norms(self):
        self.check(lengths=[40, 17, 64], heads=8, kv_heads=2, dim=64, seed=40, norm="rms", rope="gptj")

    def test_a_planned_step_has_the_sums_of_two_launches(self):
        # The second sequence is so short that some lists have no part of it.
        chain, step = (Layer([300, 20], 16, 2, 128, seed=90) for _ in range(2))
        planned = attn.attention.BatchStep(self.device, **step.heads_of(), max_batch=4, lists=12)
        chain.chain(self.device, "neox", False)
        planned.plan(*(self.device.array(x) for x in (step.lens,)), block_table=self.device.array(step.table))
        out = planned.run(*(self.device.array(x) for x in (step.q, step.k, step.v, *step.cache)),
                          positions=self.device.array(step.positions), cos_sin=self.device.array(step.turn))
        self.assertGreater(planned.lists.rows, 2)
        np.testing.assert_allclose(out.numpy().astype(float), chain.out.astype(float), rtol=0, atol=4 * 2 ** -10)

    def test_drafts_have_the_bits_of_the_cache(self):
        self.check(lengths=[40, 17, 64, 2], heads=8, kv_heads=2, dim=64, seed=40, n=2, norm="rms", rope="gptj",
                   same_tile=False)

    def test_so_has_a_cache_of_fp8(self):
        self.check(lengths=[50, 2, 0], heads=4, kv_heads=1, dim=128, seed=60, norm="rms", kv_dtype=np.uint8)

    def test_a_call_without_a_table_is_refused(self):
        layer = Layer([20], 8, 1, 128, seed=80)
        layer.turn = None
        with self.assertRaisesRegex(Exception, "cos_sin"):
            layer.step(self.device, "neox", False)


if __name__ == "__main__":
    unittest.main()
