# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's calls with values in the layout [page, head, D, token], and with values shorter than keys."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from support import FP8
from test_aiter import D, GQA, H, HK, P, X

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
LONG = 192  # elements of MiMo's keys; its values have D elements
LONG_KEYS = {"head_dim": LONG, "head_dim_v": D}
KERNELS += [
    {"op": "decode", **LONG_KEYS, "page_size": P, "gqa": GQA, "kv_layout": ["nhd", "shuffle"]},
    {"op": "decode", **LONG_KEYS, "page_size": P, "gqa": GQA, "kv_layout": "shuffle", "mask": "window",
     "sinks": True},
    {"op": "prefill", **LONG_KEYS, "mask": ["causal", "window"], "sinks": [False, True]},
    {"op": "prefill", **LONG_KEYS, "paged": True, "page_size": P},
    {"op": "cache_write", **LONG_KEYS, "kv_layout": "shuffle"},
]


def values_k(pages):
    """Returns the values of NHD pages as [page, head, D, token]."""
    return np.ascontiguousarray(pages.transpose(0, 2, 3, 1))


class Layouts:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

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

    def long_keys(self, lengths):
        """Returns random pages of k and v, k with more elements, a page table of sequences of `lengths` keys, and each
        sequence's keys and values."""
        need = [-(-n // P) for n in lengths]
        order = np.random.default_rng(1).permutation(sum(need)).astype(np.int32)
        k, v = (support.random((len(order), P, HK, dim), dim) for dim in (LONG, D))
        table = np.full((len(need), max(need)), -1, np.int32)
        for s, n in enumerate(need):
            table[s, :n] = order[sum(need[:s]):][:n]
        keys, values = ([x[table[s, :n]].reshape(-1, HK, x.shape[3])[:lengths[s]]
                         for s, n in enumerate(need)] for x in (k, v))
        return k, v, table, keys, values

    def test_values_shorter_than_keys(self):
        lengths, cu = [333, 9], np.arange(3, dtype=np.int32)
        k, v, table, keys, values = self.long_keys(lengths)
        q, sinks = support.random((2, H, LONG), 2), support.random((H,), 3)
        k5, v5 = (self.t(np.zeros((len(k), HK, *shape), np.float16))
                  for shape in ((LONG // X, P, X), (P // X, D, X)))
        slots = np.arange(len(k) * P)
        aiter.reshape_and_cache(self.t(k.reshape(-1, HK, LONG)), self.t(v.reshape(-1, HK, D)), k5, v5,
                                self.t(slots), "auto", asm_layout=True)
        np.testing.assert_array_equal(self.back(k5), base.shuffle_k(k))
        np.testing.assert_array_equal(self.back(v5), base.shuffle_v(v))
        lens, rows = self.t(np.array(lengths, np.int32)), self.t(table)
        for window, given in ((0, None), (24, self.t(sinks))):
            out = self.t(np.zeros((2, H, D), np.float16))
            aiter.pa_decode_gluon(out, self.t(q), k5, v5, lens, rows, 0.1, 1, 8, 128, sinks=given,
                                  sliding_window=window, ps=True)
            how = {"window": (window - 2, 0), "sinks": sinks} if window else {}
            self.check(out, q, cu, keys, values, scale=0.1, **how)
        for starts in (cu, np.array([0, 30, 31], np.int32)):  # two decode steps; a prompt and a decode step
            many = support.random((int(starts[-1]), H, LONG), 4)
            out = self.t(np.zeros((len(many), H, D), np.float16))
            aiter.unified_attention(
                self.t(many), self.t(k), self.t(v), out, self.t(starts), int(np.diff(starts).max()), lens, 333,
                0.1, True, (-1, -1), rows, 0, None, None, None)
            self.check(out, many, starts, keys, values, scale=0.1)

    def test_prompts_with_values_shorter_than_keys(self):
        cu = np.array([0, 5, 40], np.int32)
        q, k, v = (support.random((40, h, dim), h) for h, dim in ((H, LONG), (HK, LONG), (HK, D)))
        sinks = support.random((H,), 3)
        keys, values = ([x[cu[s]:cu[s + 1]] for s in range(2)] for x in (k, v))
        given = [self.t(x) for x in (q, k, v, cu, cu)]
        for how in ({}, {"window": (9, 0), "sinks": sinks}):
            more = {"window_size": (9, 0, 0), "sink_ptr": self.t(sinks)} if how else {}
            out = aiter.flash_attn_varlen_func(*given, 35, 35, softmax_scale=0.1, causal=True, **more)
            self.check(out, q, cu, keys, values, scale=0.1, **how)


WithNumpy, WithTorch = base.twice(Layouts)


if __name__ == "__main__":
    unittest.main()
