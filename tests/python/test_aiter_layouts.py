# SPDX-License-Identifier: Apache-2.0
"""attn.aiter's calls over values [page, head, D, token]."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from support import FP8
from test_aiter import D, GQA, H, HK, P, X, torch

SHUFFLE_K = {"head_dim": D, "kv_layout": "shuffle_k"}
KERNELS = [
    {"op": "decode", **SHUFFLE_K, "page_size": P, "gqa": GQA},
    {"op": "decode", **SHUFFLE_K, "page_size": P, "gqa": GQA, "mask": "window", "sinks": True,
     "q_len": 2},
    {"op": "decode", **SHUFFLE_K, "page_size": P, "gqa": GQA, "kv_dtype": "fp8", "kv_scale": "tensor"},
    {"op": "cache_write", **SHUFFLE_K},
    {"op": "rope_qk_norm_cache", **SHUFFLE_K, "rope": "neox", "rotary_dim": D, "keep_kv": True,
     "cos_sin": "same"},
    {"op": "combine", "head_dim": D, "partials": "csr"}, {"op": "plan"},
]


def values_k(pages):
    """Values of NHD pages as [page, head, D, token]."""
    return np.ascontiguousarray(pages.transpose(0, 2, 3, 1))


class Layouts:
    """A subclass says of which library tensors are."""

    paged, check = base.Calls.paged, base.Calls.check
    rotate, table, ROPE = base.Calls.rotate, base.Calls.table, base.Calls.ROPE

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def test_decode(self):
        lengths = [333, 9]
        k, v, table, keys, values = self.paged(lengths, 13)
        k5, v4 = self.t(base.shuffle_k(k)), self.t(values_k(v))
        lens = self.t(np.array(lengths, np.int32))
        q, sinks = support.random((4, H, D), 14), support.random((H,), 15)
        out, cu, n, window = self.t(np.zeros_like(q)), np.array([0, 2, 4], np.int32), 2, 24
        aiter.pa_decode_gluon(out, self.t(q), k5, v4, lens, self.t(table), 0.1, n, 8, 128,
                              sinks=self.t(sinks), sliding_window=window, ps=True)
        self.check(out, q, cu, keys, values, scale=0.1, window=(window - 1 - n, 0), sinks=sinks)
        q, one = support.random((2, H, D), 16), self.t(np.ones(1, np.float32))
        out = self.t(np.zeros_like(q))
        aiter.paged_attention_rocm(out, None, None, None, self.t(q), k5, v4, HK, 0.1, self.t(table), lens,
                                   P, 333, None, "auto", one, one)
        self.check(out, q, np.arange(3), keys, values, scale=0.1)
        with self.assertRaisesRegex(aiter.NotServed, "block_size: it is 32"):
            aiter.paged_attention_rocm(out, None, None, None, self.t(q), k5, v4, HK, 0.1, self.t(table),
                                       lens, 32, 333, None, "auto", one, one)

    def test_decode_of_fp8(self):
        lengths = [70, 9]
        _, _, table, _, _ = self.paged(lengths, 8)
        k, v = (support.fp8_bytes((int(table.max()) + 1, P, HK, D), i) for i in range(2))
        keys, values = ([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * np.float32(0.02)
                         for s, n in enumerate(lengths)] for b in (k, v))
        q, scale = support.random((2, H, D), 9), self.t(np.array([0.02], np.float32))
        out = self.t(np.zeros_like(q))
        aiter.paged_attention_rocm(
            out, None, None, None, self.t(q), self.t(base.shuffle_k(k, 16)), self.t(values_k(v)), HK,
            D ** -0.5, self.t(table), self.t(np.array(lengths, np.int32)), P, 70, None, "fp8", scale, scale)
        self.check(out, q, np.arange(3), keys, values, support.bound(values[0]) * 4)

    def test_written(self):
        k, v = support.random((6, HK, D), 1), support.random((6, HK, D), 2)
        slots = np.array([17, -1, 60, 3, 31, 32], np.int64)
        there = slots >= 0
        kc, vc = (self.t(np.zeros(s, np.float16)) for s in ((4, HK, D // X, P, X), (4, HK, D, P)))
        aiter.reshape_and_cache(self.t(k), self.t(v), kc, vc, self.t(slots), "auto")
        for got, rows in ((base.unshuffle_k(self.back(kc)), k),
                          (self.back(vc).transpose(0, 3, 1, 2), v)):
            want = np.zeros((4 * P, HK, D), np.float16)
            want[slots[there]] = rows[there]
            np.testing.assert_array_equal(got.reshape(-1, HK, D), want)

    def test_fused_qk_rope_reshape_and_cache(self):
        tokens = 4
        q, k, v = (support.random((tokens, h, D), h + i) for i, h in enumerate((H, HK, HK)))
        table, positions = self.table(D, np.float16), np.array([3, 49, 0, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * D // 2:(i + 1) * D // 2])) for i in range(2))
        slots = np.array([40, 2, -1, 17], np.int64)
        kc, vc = (self.t(np.zeros(s, np.float16)) for s in ((3, HK, D // X, P, X), (3, HK, D, P)))
        aiter.fused_qk_rope_reshape_and_cache(
            self.t(q), self.t(k), self.t(v), kc, vc, self.t(slots), self.t(positions), cos, sin, None,
            None, True, flash_layout=False, apply_scale=False, output_zeros=False)
        there = slots >= 0
        want = self.rotate(k, table, positions, True)[there]
        support.close(base.unshuffle_k(self.back(kc)).reshape(-1, HK, D)[slots[there]], want, self.ROPE)
        np.testing.assert_array_equal(
            self.back(vc).transpose(0, 3, 1, 2).reshape(-1, HK, D)[slots[there]], v[there])


class WithNumpy(Layouts, unittest.TestCase):
    torch = False
    t, back = staticmethod(base.WithNumpy.t), staticmethod(base.WithNumpy.back)


@unittest.skipUnless(torch, "torch is not installed")
class WithTorch(Layouts, unittest.TestCase):
    torch = True
    t, back = staticmethod(base.WithTorch.t), staticmethod(base.WithTorch.back)


if __name__ == "__main__":
    unittest.main()
