# SPDX-License-Identifier: Apache-2.0
"""attn.aiter's calls that are made of several launches: new tokens behind a cached prefix."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from test_aiter import D, H, HK, torch

KERNELS = [
    {"op": "prefill", "head_dim": D, "mask": ["causal", "none", "custom"], "soft_cap": [False, True],
     "lse": [False, True]},
    {"op": "prefill", "head_dim": D, "mask": ["none", "custom"], "soft_cap": [False, True], "lse": True, "paged": True,
     "page_size": "any", "page_table": "indices"},
    {"op": "combine", "head_dim": D, "partials": "pair"},
]


class Extend:
    """A subclass says of which library tensors are."""

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def case(self, new, old):
        """Arrays of q, k, v, caches of keys and values, the starts of new tokens and of slots, and the slots."""
        rng, total = np.random.default_rng(1), sum(new)
        q, k, v = (support.random((total, h, D), i) for i, h in enumerate((H, HK, HK)))
        slots = rng.permutation(sum(old) + 9)[:sum(old)].astype(np.int64)
        caches = [support.random((sum(old) + 9, HK, D), i) for i in (7, 8)]
        starts, first = (np.concatenate([[0], np.cumsum(x)]).astype(np.int32) for x in (new, old))
        return q, k, v, caches, starts, first, slots

    def run_case(self, new, old, causal=True, mask=None, skip=True, scale=None, cap=0.0):
        """`mask`: the visible keys of each sequence, [new, old + new]."""
        q, k, v, caches, starts, first, slots = self.case(new, old)
        packed = masks = None
        if mask is not None:
            packed = self.t(np.concatenate([x.ravel() for x in mask] + [np.ones(5, mask[0].dtype)]))
            masks = self.t(np.concatenate([[0], np.cumsum([x.size for x in mask])]))
        views = [self.t(np.concatenate([k, v], 1))[:, part] for part in (slice(0, HK), slice(HK, None))]
        out = self.t(np.full((len(q), H, D), np.nan, np.float16))
        longer = self.t(np.concatenate([first, [99]]).astype(np.int32))  # SGLang's is as long as its largest batch
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
            # Both parts are rounded before they are added up.
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
                x[:, -n:] |= np.eye(n, dtype=dtype)  # AITER's output of a query that sees nothing is not a number
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
        with self.assertRaises(TypeError):  # SGLang's function of this name has scales in front of sm_scale
            aiter.extend_attention_fwd(*given, *(self.t(x) for x in caches), *rest, 1.0, 1.0, 0.1, logit_cap=0.0)


class WithNumpy(Extend, unittest.TestCase):
    t, back = staticmethod(base.WithNumpy.t), staticmethod(base.WithNumpy.back)


@unittest.skipUnless(torch, "torch is not installed")
class WithTorch(Extend, unittest.TestCase):
    t, back = staticmethod(base.WithTorch.t), staticmethod(base.WithTorch.back)


if __name__ == "__main__":
    unittest.main()
