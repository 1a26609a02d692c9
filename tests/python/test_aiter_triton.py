# SPDX-License-Identifier: Apache-2.0
"""Tests calls of AITER's Triton modules, and a rotation by numbers of each token, against references in double
precision."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from attn.aiter import _forms
from support import FP8
from test_aiter import D, H, HK, P

KERNELS = [
    {"op": "prefill", "head_dim": D, "mask": ["causal", "none"], "lse": [False, True]},
    {"op": "prefill", "head_dim": D, "mask": ["causal", "none", "window"], "lse": [False, True], "paged": True,
     "page_size": "any"},
    {"op": "prefill", "head_dim": D, "mask": "none", "paged": True, "page_size": "any", "kv_dtype": "fp8",
     "kv_scale": ["tensor", "head"]},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rotary_dim": D, "rope": ["neox", "gptj"], "keep_kv": True, "cos_sin": "same"},
]


class Forms:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    rotate, table, paged = base.Calls.rotate, base.Calls.table, base.Calls.paged

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def test_packed_sequences_have_lse_of_queries_and_heads(self):
        cu = np.array([0, 5, 40], np.int32)
        q, k, v = (support.random((40, n, D), i) for i, n in enumerate((H, HK, HK)))
        given = [self.t(x) for x in (q, k, v, cu, cu)]
        out, lse = _forms.flash_attn_varlen_func(*given, 35, 35, causal=True, return_lse=True, softmax_scale=0.2)
        only = _forms.flash_attn_varlen_func(*given, 35, 35, 0.0, 0.2, True)
        np.testing.assert_array_equal(self.back(only), self.back(out))
        self.assertEqual(tuple(lse.shape), (40, H))
        for s in range(2):
            rows = slice(cu[s], cu[s + 1])
            want, logs = support.attention(q[rows], k[rows], v[rows], scale=0.2)
            support.close(self.back(out)[rows], want, support.bound(v))
            support.close(self.back(lse)[rows], logs.T, 1e-3, "lse")
        with self.assertRaisesRegex(aiter.NotServed, "dropout_p"):
            _forms.flash_attn_varlen_func(*given, 35, 35, 0.1)

    def test_sequences_of_one_length(self):
        q, k, v = (support.random((2, n, h, D), h + n) for n, h in ((7, H), (20, HK), (20, HK)))
        out, lse = _forms.flash_attn_func(*(self.t(x) for x in (q, k, v)), 0.0, 0.3, True, return_lse=True)
        for s in range(2):
            want, logs = support.attention(q[s], k[s], v[s], scale=0.3)
            support.close(self.back(out)[s], want, support.bound(v))
            support.close(self.back(lse)[s], logs, 1e-3, "lse")

    def with_cache(self, q, keys, values, table, lengths, **how):
        """Calls flash_attn_with_kvcache() on paged keys and values and returns its result. `how` are further
        arguments."""
        return aiter.flash_attn_with_kvcache(
            self.t(q), self.t(keys), self.t(values), cache_seqlens=self.t(np.array(lengths, np.int32)),
            page_table=self.t(np.maximum(table, 0)), **how)

    def test_queries_with_a_cache(self):
        lengths = [50, 9]
        k, v, table, keys, values = self.paged(lengths, 3)
        q = support.random((2, 3, H, D), 5)
        for how, same in (({"causal": False}, {"causal": False}), ({}, {}),
                          ({"causal": False, "window_size": (6, 0)}, {"causal": False, "window": (6, 0)}),
                          ({"softmax_scale": 0.25}, {"scale": 0.25})):
            out, lse = self.with_cache(q, k, v, table, lengths, return_softmax_lse=True, **how)
            alone = self.with_cache(q, k, v, table, lengths, **how)
            np.testing.assert_array_equal(self.back(alone), self.back(out))
            self.assertEqual(tuple(lse.shape), (2, H, 3))
            for s in range(2):
                want, logs = support.attention(q[s], keys[s], values[s], **same)
                support.close(self.back(out)[s], want, support.bound(v), str(how))
                support.close(self.back(lse)[s], logs, 1e-3, "lse")

    def test_queries_with_a_cache_of_fp8(self):
        lengths, scale = [50, 9], np.float32(0.02)
        _, _, table, _, _ = self.paged(lengths, 3)
        stored = [support.fp8_bytes((table.max() + 1, P, HK, D), i) for i in (6, 7)]
        q, one = support.random((2, 3, H, D), 5), self.t(np.array([scale]))
        out = self.with_cache(q, *stored, table, lengths, causal=False, k_descale=one, v_descale=one)
        for s, n in enumerate(lengths):
            keys, values = (FP8[x[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * scale for x in stored)
            want, _ = support.attention(q[s], keys, values, causal=False)
            support.close(self.back(out)[s], want, 2 * support.bound(values))
        scales = [np.random.default_rng(i).uniform(0.01, 0.04, (2, HK)).astype(np.float32) for i in (2, 3)]
        out = self.with_cache(q, *stored, table, lengths, causal=False, k_descale=self.t(scales[0]),
                              v_descale=self.t(scales[1]))
        for s, n in enumerate(lengths):
            keys, values = (FP8[x[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * of[s][:, None]
                            for x, of in zip(stored, scales))
            want, _ = support.attention(q[s], keys, values, causal=False)
            support.close(self.back(out)[s], want, 2 * support.bound(values))
        with self.assertRaisesRegex(aiter.NotServed, "v_scale: None"):
            self.with_cache(q, *stored, table, lengths, causal=False, k_descale=one)

    def test_what_a_cache_call_refuses(self):
        lengths = [50, 9]
        k, v, table, _, _ = self.paged(lengths, 3)
        q = support.random((2, 3, H, D), 5)
        for name in ("k", "v", "qv", "cu_seqlens_k_new", "rotary_cos", "rotary_sin", "rotary_seqlens", "cache_batch_idx",
                     "cache_leftpad", "cu_seqlens_q"):
            with self.assertRaisesRegex(aiter.NotServed, f"flash_attn_with_kvcache: {name}: "):
                self.with_cache(q, k, v, table, lengths, **{name: self.t(q)})
        with self.assertRaisesRegex(aiter.NotServed, "attention_chunk: "):
            self.with_cache(q, k, v, table, lengths, attention_chunk=64)
        for more, word in (({"cache_seqlens": 50, "page_table": self.t(table)}, "cache_seqlens"),
                           ({"cache_seqlens": self.t(table[0])}, "page_table")):
            with self.assertRaisesRegex(aiter.NotServed, word):
                aiter.flash_attn_with_kvcache(self.t(q), self.t(k), self.t(v), **more)

    def test_rotation_by_own_numbers(self):
        table = self.table(D, np.float16)[:6]
        cos, sin = (np.ascontiguousarray(x).reshape(6, 1, 1, D // 2) for x in (table[:, :D // 2], table[:, D // 2:]))
        for style in (0, 1):
            x, y = (support.random((6, 2, h, D), h) for h in (H, HK))
            given = self.t(x.copy()), self.t(y.copy())
            aiter.rope_cached_2c_fwd_inplace(*given, self.t(cos), self.t(sin), style, True, False)
            for got, was in zip(given, (x, y)):
                for b in range(2):
                    want = self.rotate(was[:, b], table, np.arange(6), style == 0)
                    support.close(self.back(got)[:, b], want, base.Calls.ROPE)

    def test_mla_of_triton_is_refused(self):
        with self.assertRaisesRegex(aiter.NotServed, "aiter.mla.mla_decode_fwd"):
            _forms.mla_decode_fwd(*[None] * 11)


WithNumpy, WithTorch = base.twice(Forms)


if __name__ == "__main__":
    unittest.main()
