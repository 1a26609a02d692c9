# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's calls that consist of several launches or of copies: new tokens after a cached prefix, and caches
with scales of several pages."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from support import FP8, FP8_MAX, FP8_TINY
from test_aiter import D, H, HK, P

KERNELS = [
    {"op": "prefill", "head_dim": D, "mask": ["causal", "none", "custom"], "soft_cap": [False, True],
     "lse": [False, True]},
    {"op": "prefill", "head_dim": D, "mask": ["none", "custom"], "soft_cap": [False, True], "lse": True, "paged": True,
     "page_size": "any", "page_table": "indices"},
    {"op": "combine", "head_dim": D, "partials": "pair"},
    {"op": "cache_write", "head_dim": D, "kv_layout": ["shuffle", "shuffle_k"], "kv_dtype": "fp8", "kv_scale": "block"},
    {"op": "cache_write", "head_dim": D, "kv_layout": "shuffle", "kv_dtype": "int8", "kv_scale": "block"},
]


class Extend:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def case(self, new, old):
        """Makes sequences of new[i] new tokens after old[i] cached ones. Returns q, k, v, the caches of keys and
        values, the starts of new tokens, the starts of slots, and the slots."""
        rng, total = np.random.default_rng(1), sum(new)
        q, k, v = (support.random((total, h, D), i) for i, h in enumerate((H, HK, HK)))
        slots = rng.permutation(sum(old) + 9)[:sum(old)].astype(np.int64)
        caches = [support.random((sum(old) + 9, HK, D), i) for i in (7, 8)]
        starts, first = (np.concatenate([[0], np.cumsum(x)]).astype(np.int32) for x in (new, old))
        return q, k, v, caches, starts, first, slots

    def run_case(self, new, old, causal=True, mask=None, skip=True, scale=None, cap=0.0):
        """Calls extend_attention_fwd() and compares the output with the formula. `mask` has for each sequence a matrix
        [new, old + new] of visible keys; None: all keys. `skip`: True if the mask does not apply to cached keys."""
        q, k, v, caches, starts, first, slots = self.case(new, old)
        packed = masks = None
        if mask is not None:
            packed = self.t(np.concatenate([x.ravel() for x in mask] + [np.ones(5, mask[0].dtype)]))
            masks = self.t(np.concatenate([[0], np.cumsum([x.size for x in mask])]))
        views = [self.t(np.concatenate([k, v], 1))[:, part] for part in (slice(0, HK), slice(HK, None))]
        out = self.t(np.full((len(q), H, D), np.nan, np.float16))
        # SGLang passes an array of its largest batch's length.
        longer = self.t(np.concatenate([first, [99]]).astype(np.int32))
        self.assertIsNone(aiter.extend_attention_fwd(
            self.t(q), *views, out, *(self.t(x) for x in caches), self.t(starts), longer, self.t(slots), packed, causal,
            masks, max(new), scale, cap, skip_prefix_custom_mask=skip))
        for s, (n, m) in enumerate(zip(new, old)):
            rows, own = slice(starts[s], starts[s + 1]), slots[first[s]:first[s + 1]]
            keys, values = (np.concatenate([cache[own], x[rows]]) for cache, x in zip(caches, (k, v)))
            seen = None if mask is None else mask[s].copy()
            if seen is not None and skip:
                seen[:, :m] = 1
            want, _ = support.attention(q[rows], keys, values, scale=scale, causal=causal and mask is None, cap=cap,
                                        mask=seen)
            # The outputs over cached and over new tokens are each rounded to 16 bits before they are merged.
            support.close(self.back(out)[rows], want, 2 * support.bound(values), f"sequence {s}")

    def test_prefix_and_new_tokens(self):
        for causal in (True, False):
            self.run_case([5, 40, 1, 70], [33, 0, 300, 16], causal)
        self.run_case([5, 40], [33, 7], scale=0.2, cap=3.0)
        self.run_case([5, 40], [0, 0])

    def test_custom_masks(self):
        new, old = [5, 40, 1, 70], [33, 0, 300, 16]
        rng = np.random.default_rng(3)
        for dtype in (np.uint8, np.bool_):
            mask = [rng.integers(0, 2, (n, n + m)).astype(dtype) for n, m in zip(new, old)]
            for x, n in zip(mask, new):
                # Each query sees itself, since AITER returns NaN for a query that sees nothing.
                x[:, -n:] |= np.eye(n, dtype=dtype)
            for skip in (True, False):
                self.run_case(new, old, mask=mask, skip=skip)
        self.run_case(new, old, False, mask, True, 0.2, 3.0)
        self.run_case([5, 40], [0, 0], mask=[mask[0][:, 33:], mask[1]], skip=False)

    def test_forms_that_are_refused(self):
        q, k, v, caches, starts, first, slots = self.case([5, 3], [4, 9])
        given = [self.t(x) for x in (q, k, v, q)]
        rest = [self.t(x) for x in (starts, first, slots)] + [None, True, None, 5]
        fp8 = [self.t(np.zeros(x.shape, np.uint8)) for x in caches]
        with self.assertRaisesRegex(aiter.NotServed, "AITER rounds queries"):
            aiter.extend_attention_fwd(*given, *fp8, *rest)
        rest[3] = self.t(np.ones(999, np.uint8))
        with self.assertRaisesRegex(aiter.NotServed, "a custom mask needs it"):
            aiter.extend_attention_fwd(*given, *(self.t(x) for x in caches), *rest)
        with self.assertRaises(TypeError):  # SGLang's function of the same name has scales before sm_scale
            aiter.extend_attention_fwd(*given, *(self.t(x) for x in caches), *rest, 1.0, 1.0, 0.1, logit_cap=0.0)


    # ---- Scales of several pages

    def block_quant(self, size, asm, dtype=np.uint8):
        """Runs three writes of two sequences and compares pages and scales after each. The first sequence has blocks 3,
        1 and 0, the second has block 4. The writes are a prompt, its next chunk, which is three times as large, and one
        token. `asm` chooses the layout of AITER's assembly kernels."""
        call, blocks, split = aiter.reshape_and_cache_with_block_quant_for_asm_pa, 6, size // P
        number, largest, least = (FP8, FP8_MAX, FP8_TINY) if dtype == np.uint8 else (None, 127, 0.5)
        pages = [self.t(np.random.default_rng(i).integers(0, 100, (blocks * split, HK, *shape)).astype(dtype))
                 for i, shape in enumerate(((D // 16, P, 16), (1, D, 16) if asm else (D, P)))]
        before = [self.back(x).copy() for x in pages]
        scales = [self.t(np.full((blocks, HK) if asm else (HK, blocks), 0.5, np.float32)) for _ in range(2)]
        slots = [np.concatenate([np.arange(size) + block * size for block in ids]) for ids in ((3, 1, 0), (4,))]
        held = {block: [np.zeros((0, HK, D))] * 2 for block in range(blocks)}
        for first, n, factor in ((0, size - 20, 1), (size - 20, 25, 3), (size + 5, 1, 2)):
            # Only the first tokens of the second sequence have slots, since it has one block.
            at = np.full((2, n), -1, np.int64)
            at[0], fit = slots[0][first:first + n], slots[1][first:first + n]
            at[1, :len(fit)] = fit
            rows = [support.random((2, n, HK, D), first + i) * np.float16(factor) for i in range(2)]
            call(*map(self.t, rows), *pages, *scales, self.t(at.ravel()), asm, size)
            for s, t in zip(*np.nonzero(at >= 0)):
                block = at[s, t] // size
                held[block] = [np.concatenate([x, r[s, t][None].astype(np.float64)]) for x, r in zip(held[block], rows)]
        for i, (cache, scale, back) in enumerate(zip(pages, scales, (base.unshuffle_k, base.unshuffle_v if asm else (
                lambda x: x.transpose(0, 3, 1, 2))))):
            scale, bits = self.back(scale) if asm else self.back(scale).T, self.back(cache)
            got = back(bits).reshape(blocks, size, HK, D)
            got = got if number is None else number[got]
            for block, rows in ((b, x[i]) for b, x in held.items()):
                n = len(rows)
                if n == 0:
                    part = slice(block * split, (block + 1) * split)
                    np.testing.assert_array_equal(bits[part], before[i][part])
                    np.testing.assert_array_equal(scale[block], 0.5)
                    continue
                np.testing.assert_allclose(scale[block], np.abs(rows).max((0, 2)) / largest, 1e-5)
                # A byte is rounded to e4m3, an error of 1/16. The first tokens are rounded a second time, with the
                # larger scale.
                step = np.abs(rows) / 7.5 if number is not None else 0
                self.assertTrue((np.abs(got[block, :n] * scale[block][:, None] - rows)
                                 <= step + 2.001 * scale[block][:, None] * least).all(), f"block {block}")
                old = back(before[i]).reshape(blocks, size, HK, D)[block, n:]
                np.testing.assert_array_equal(back(bits).reshape(blocks, size, HK, D)[block, n:], old)

    def test_reshape_and_cache_with_block_quant_for_asm_pa(self):
        self.block_quant(128, True)
        self.block_quant(256, True, np.int8)
        self.block_quant(256, False)
        row, slots = self.t(np.zeros((1, 2, HK, D), np.float16)), self.t(np.arange(2))
        pages = [self.t(np.zeros((12, HK, *shape), np.uint8)) for shape in ((D // 16, P, 16), (1, D, 16))]
        scale = self.t(np.ones((1, HK), np.float32))
        for size in (128, 64):
            with self.assertRaisesRegex(aiter.NotServed, f"12 pages of 16 tokens in blocks of {size}"):
                aiter.reshape_and_cache_with_block_quant_for_asm_pa(row, row, *pages, scale, scale, slots, True, size)


WithNumpy, WithTorch = base.twice(Extend)


if __name__ == "__main__":
    unittest.main()
