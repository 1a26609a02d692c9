# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's calls with fp8 queries, and products of fp8 weights."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from support import FP8, FP8_MAX
from test_aiter import D, H, HK, P, torch

KERNELS = [
    {"op": "prefill", "head_dim": D, "q_dtype": "fp8", "dtype": "bf16", "mask": ["causal", "none", "window"],
     "lse": [False, True]},
    {"op": "prefill", "head_dim": D, "q_dtype": "fp8", "paged": True, "page_size": "any",
     "kv_dtype": "fp8", "kv_scale": ["tensor", "head"]},
    {"op": "prefill", "head_dim": D, "q_dtype": "fp8", "dtype": "bf16", "qkv_scale": "kv_head"},
    {"op": "prefill", "head_dim": D, "q_dtype": "fp8", "paged": True, "page_size": "any",
     "kv_dtype": "fp8", "kv_scale": "head", "qkv_scale": "kv_head"},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": H // HK, "q_dtype": "fp8", "kv_dtype": "fp8",
     "kv_scale": "head", "q_scale": "kv_head"},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": H // HK, "q_dtype": "fp8", "kv_dtype": "fp8",
     "kv_scale": "tensor", "kv_layout": ["nhd", "shuffle"], "q_scale": ["tensor", "token"]},
    {"op": "combine", "head_dim": D, "partials": "csr"}, {"op": "plan"},
    {"op": "prefill", "head_dim": 192, "head_dim_v": 128, "dtype": "bf16", "q_dtype": "fp8", "kv_dtype": "fp8",
     "kv_scale": "tensor", "paged": True, "page_size": 1, "page_table": "indices", "mask": ["causal", "none"],
     "lse": [False, True]},
    {"op": "cache_gather", "head_dim": 512, "head_dim_v": 64, "page_size": "any", "page_table": "indices"},
    {"op": "cache_gather", "head_dim": 512, "head_dim_v": 64, "page_size": P, "page_table": "indices",
     "kv_dtype": "fp8", "kv_scale": "tensor"},
    {"op": "head_product", "weights": ["same", "fp8_block"], "head_dim": 512, "head_dim_v": 128},
    {"op": "head_product", "weights": "fp8", "activations": "fp8", "head_dim": 192, "head_dim_v": 64},
]
PRODUCT = "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant"


def from_bf16(x):
    """Returns float32 numbers for x, an array of bf16 as uint16. Other types are returned unchanged."""
    return (x.astype(np.uint32) << 16).view(np.float32) if x.dtype == np.uint16 else x


def rounded_groups(x):
    """Returns (x rounded to fp8 with a scale for each 128 elements, half a step at the largest element). AITER's
    product rounds the same way. A number near a tie may be rounded the other way and then differs by about one step."""
    out, step, known = np.zeros(x.shape), 0, np.sort(FP8[np.isfinite(FP8)])
    for first in range(0, x.shape[-1], 128):
        group = x[..., first:first + 128].astype(np.float64)
        scale = np.maximum(np.abs(group).max(-1, keepdims=True), 1e-10) / FP8_MAX
        at = np.searchsorted((known[1:] + known[:-1]) / 2, group / scale)
        out[..., first:first + 128] = known[at] * scale
        step = max(step, scale.max() * FP8_MAX / 16)
    return out, step


class Fp8:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    paged = base.Calls.paged

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def close_to_weights_of_fp8(self, out, want, v):
        """Checks an output whose softmax weights are rounded to fp8. A weight is off by 2^-4 of itself, or by 2^-14 of
        the largest weight. The denominator is a sum of the rounded weights. So an output is off by at most this
        fraction of the distances of values from it."""
        spread = np.abs(v).max() + np.abs(want).max()
        limit = (2.0 ** -4 + len(v) * 2.0 ** -14) * spread + support.bound(v, 2.0 ** -8)
        support.close(out, want, limit)
        error = np.sqrt(np.mean((out - want) ** 2))
        self.assertLess(error, limit / 8, "roundings do not average out")

    def test_flash_attn_varlen_fp8_pertensor_func(self):
        cu_q, cu_k = np.array([0, 5, 40], np.int32), np.array([0, 30, 100], np.int32)
        q, k, v = (support.fp8_bytes((n, h, D), n + h) for n, h in ((40, H), (100, HK), (100, HK)))
        scales = [np.array([s], np.float32) for s in (0.02, 0.03, 0.5)]
        x, y, z = (FP8[b] * s for b, s in zip((q, k, v), scales))
        given = [self.t(b) for b in (q, k, v, *scales, cu_q, cu_k)]
        for causal, window in ((True, (-1, -1)), (False, (-1, -1)), (True, (20, 0))):
            out = aiter.flash_attn_varlen_fp8_pertensor_func(*given, 35, 70, causal=causal,
                                                             window_size=window, softmax_scale=0.1)
            got = self.back_bf16(out)
            for s in range(2):
                keys = slice(cu_k[s], cu_k[s + 1])
                want, _ = support.attention(x[cu_q[s]:cu_q[s + 1]], y[keys], z[keys], scale=0.1,
                                            causal=causal, window=window)
                self.close_to_weights_of_fp8(got[cu_q[s]:cu_q[s + 1]], want, z[keys])
        with self.assertRaisesRegex(aiter.NotServed, "not fp8"):
            aiter.flash_attn_varlen_fp8_pertensor_func(
                self.t(x.astype(np.float16)), *given[1:], 35, 70)
        self.scales_of_sequences_and_heads((q, k, v), cu_q, cu_k, scales)

    def scales_of_sequences_and_heads(self, tensors, cu_q, cu_k, scales):
        """Calls attention with scales [sequences, kv heads] for packed tensors. Scales of q are the same for all
        sequences, by a stride of 0."""
        heads = [np.random.default_rng(i).uniform(0.5, 1.5, (2, HK)).astype(np.float32) * s for i, s in enumerate(scales)]
        heads[0][1] = heads[0][0]
        row = self.t(heads[0][:1])
        given = [row.expand(2, HK) if self.torch else np.broadcast_to(row, (2, HK)), *map(self.t, heads[1:])]
        call, lists = aiter.flash_attn_varlen_fp8_pertensor_func, [self.t(cu_q), self.t(cu_k), 35, 70]
        got = self.back_bf16(call(*map(self.t, tensors), *given, *lists, causal=True, softmax_scale=0.1))
        for s in range(2):
            rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
            q, k, v = (FP8[b[at]] * np.repeat(x[s], b.shape[1] // HK)[:, None]
                       for b, at, x in zip(tensors, (rows, keys, keys), heads))
            want, _ = support.attention(q, k, v, scale=0.1)
            self.close_to_weights_of_fp8(got[rows], want, v)
        with self.assertRaisesRegex(aiter.NotServed, r"k_descale: it is \[1\]: .* \[2, 2\] for sequences and KV heads"):
            call(*map(self.t, tensors), given[0], self.t(scales[1]), given[2], *lists)

    def test_flash_attn_fp8_pertensor_func(self):
        q, k, v = (support.fp8_bytes((2, n, h, D), n + h) for n, h in ((7, H), (60, HK), (60, HK)))
        scales = [np.array([s], np.float32) for s in (0.02, 0.03, 0.5)]
        x, y, z = (FP8[b] * s for b, s in zip((q, k, v), scales))
        for causal, window in ((True, (-1, -1, 0)), (False, (-1, -1, 0)), (True, (20, 0, 0))):
            out = aiter.flash_attn_fp8_pertensor_func(*(self.t(b) for b in (q, k, v, *scales)), causal, window, 0.1)
            self.assertEqual(tuple(out.shape), (2, 7, H, D))
            for s in range(2):
                want, _ = support.attention(x[s], y[s], z[s], scale=0.1, causal=causal, window=window[:2])
                self.close_to_weights_of_fp8(self.back_bf16(out)[s], want, z[s])

    def test_flydsl_flash_attn_fp8_func(self):
        cu_q, cu_k = np.array([0, 5, 40], np.int32), np.array([0, 30, 100], np.int32)
        q, k, v = (support.fp8_bytes((n, h, D), n + h) for n, h in ((40, H), (100, HK), (100, HK)))
        scales = [np.array([s], np.float32) for s in (0.02, 0.03, 0.5)]
        x, y, z = (FP8[b] * s for b, s in zip((q, k, v), scales))
        given, descales = [self.t(b) for b in (q, k, v)], dict(zip(("q_descale", "k_descale", "v_descale"), map(self.t, scales)))
        call = aiter.flydsl_flash_attn_fp8_func
        lists = dict(cu_seqlens_q=self.t(cu_q), cu_seqlens_kv=self.t(cu_k), max_seqlen_q=35, max_seqlen_kv=70, cross_seqlen=True)
        for causal in (True, False):
            out = self.rows_bf16((40, H, D))
            got, lse = call(*given, causal=causal, softmax_scale=0.1, out=out, return_lse=True, **lists, **descales)
            self.assertIs(got, out)
            for s in range(2):
                rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
                want, sums = support.attention(x[rows], y[keys], z[keys], scale=0.1, causal=causal)
                self.close_to_weights_of_fp8(self.back_bf16(out)[rows], want, z[keys])
                support.close(self.back(lse)[:, rows], sums, 2.0 ** -4)
        dense = [self.t(b.reshape(2, -1, *b.shape[1:])) for b in (q, k, v)]
        got, lse = call(*dense, softmax_scale=0.1, return_lse=True, **descales)
        self.assertEqual((tuple(got.shape), tuple(lse.shape)), ((2, 20, H, D), (2, H, 20)))
        for s in range(2):
            want, sums = support.attention(*(b.reshape(2, -1, *b.shape[1:])[s] for b in (x, y, z)), scale=0.1)
            self.close_to_weights_of_fp8(self.back_bf16(got)[s], want, z)
            support.close(self.back(lse)[s], sums, 2.0 ** -4)
        self.assertEqual(tuple(call(*dense, **descales).shape), (2, 20, H, D))
        self.assertTrue(aiter.flydsl_flash_attn_fp8_supported("cuda", H, HK, D, D))
        self.assertFalse(aiter.flydsl_flash_attn_fp8_supported("cuda", 1, 1, 96, 64, dtype="fp8"))
        for words, more in (("a scale each", {"q_descale": None}), ("k has 2 heads", {"num_kv_heads": 4}),
                            ("current stream", {"stream": 1}), ("outputs are bf16", {"out": self.t(q.astype(np.float16))})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                call(*dense, **dict(descales, **more))

    def rows_bf16(self, shape):
        return torch.zeros(shape, dtype=torch.bfloat16) if self.torch else np.zeros(shape, np.uint16)

    def test_mla_prefill_ps_asm_fwd(self):
        lengths, prefix, heads = np.array([40, 3, 25]), np.array([10, 0, 50]), 2
        cu_q, cu_k = (np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (lengths, lengths + prefix))
        slots = np.random.default_rng(1).permutation(150)[:cu_k[-1]].astype(np.int32)
        q, k = support.fp8_bytes((cu_q[-1], heads, 192), 1), support.fp8_bytes((150, heads, 192), 2)
        v = support.fp8_bytes((150, heads, 128), 3)
        scales = [np.float32(s) for s in (0.02, 0.03, 0.5)]
        info = aiter.get_ps_metadata_info_v1(3, heads, 40, qlen_granularity=256)
        plan = [torch.ones(n, dtype=kind) if self.torch else np.ones(n, np.int32) for n, kind in info]
        lists = [self.t(x) for x in (cu_q, cu_k, (lengths + prefix).astype(np.int32))]
        for causal, need_lse, viewed in ((True, False, True), (False, True, False), (True, True, True), (False, None, False)):
            how = {} if need_lse is None else {"need_lse": need_lse}
            aiter.get_ps_metadata_v1(*lists, 1, heads, *plan, qhead_granularity=1, qlen_granularity=256,
                                     kvlen_granularity=128, block_size=1, is_causal=True, **how)
            need_lse = need_lse is not False
            tiles = int(plan[3][-1])  # number of tiles whose outputs have several parts, as vLLM reads it from the plan
            self.assertEqual(tiles, 3 if need_lse else 0)
            if viewed:  # an engine may pass views of the plan's tensors
                plan = [x[:] for x in plan]
            out, final = self.rows_bf16((cu_q[-1], heads, 128)), self.t(np.full((cu_q[-1], heads), 7, np.float32))
            parts = self.t(np.zeros((max(tiles, 1) * 256, heads, 128), np.float32))
            lse = self.t(np.zeros((max(tiles, 1) * 256, heads), np.float32))
            aiter.mla_prefill_ps_asm_fwd(
                *(self.t(x) for x in (q, k, v)), *lists[:2], self.t(slots), plan[1], plan[2], 40, 0.1, causal,
                parts, lse, out, *(self.t(np.array(s)) for s in scales))
            splits = () if viewed else (1,)  # older versions of AITER have no argument for the number of splits
            aiter.mla_reduce_v1(parts, lse, plan[3], plan[4], plan[5], 256, *splits, out, final)
            got = self.back_bf16(out)
            for s in range(3):
                listed, rows = slots[cu_k[s]:cu_k[s + 1]], slice(cu_q[s], cu_q[s + 1])
                values = FP8[v[listed]] * scales[2]
                want, sums = support.attention(FP8[q[rows]] * scales[0], FP8[k[listed]] * scales[1], values,
                                               scale=0.1, causal=causal)
                self.close_to_weights_of_fp8(got[rows], want, values)
                if need_lse:  # sums of weights that are rounded to fp8
                    support.close(self.back(final)[rows].T, sums, 2.0 ** -4)
                else:
                    self.assertTrue((self.back(final)[rows] == 7).all())
        other = [aiter.get_ps_metadata_v1(*lists, 1, heads, *plan, block_size=1), parts[:0], lse[:0]]
        aiter.mla_prefill_ps_asm_fwd(*(self.t(x) for x in (q, k, v)), *lists[:2], self.t(slots), plan[1], plan[2], 40, 0.1,
                                     causal, *other[1:], out)
        aiter.mla_reduce_v1(*other[1:], plan[3], plan[4], plan[5], 256, 0, out, final)
        self.assertTrue(np.isnan(self.back(final)).all())  # NaN: the plan has no lse
        aiter.get_ps_metadata_v1(*lists, 1, heads, *plan, block_size=1, need_lse=True)
        with self.assertRaisesRegex(aiter.NotServed, "68 rows are needed"):
            aiter.mla_prefill_ps_asm_fwd(
                *(self.t(x) for x in (q, k, v)), *lists[:2], self.t(slots), plan[1], plan[2], 40, 0.1, causal,
                parts, lse[:60], out)
        with self.assertRaisesRegex(aiter.NotServed, "listed one by one"):
            aiter.get_ps_metadata_v1(*lists, 1, heads, *plan)
        with self.assertRaisesRegex(aiter.NotServed, "not fp8"):
            aiter.mla_prefill_ps_asm_fwd(
                self.rows_bf16((5, heads, 192)), *(self.t(x) for x in (k, v)), *lists[:2], self.t(slots), None,
                None, 40, 0.1, True, None, None, out)

    def test_fp8_queries_over_pages(self):
        lengths, cu = [50, 20], np.array([0, 25, 30], np.int32)
        _, _, table, _, _ = self.paged(lengths, 3)
        k, v = (support.fp8_bytes((int(table.max()) + 1, P, HK, D), i) for i in range(2))
        q = support.fp8_bytes((30, H, D), 5)
        scales = [np.array([s], np.float32) for s in (0.02, 0.03, 0.5)]
        keys, values = ([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * x[0]
                         for s, n in enumerate(lengths)] for b, x in ((k, scales[1]), (v, scales[2])))
        descales = dict(zip(("q_descale", "k_descale", "v_descale"), map(self.t, scales)))
        out = self.t(np.zeros((30, H, D), np.float16))
        aiter.unified_attention(
            self.t(q), self.t(k), self.t(v), out, self.t(cu), 25, self.t(np.array(lengths, np.int32)), 50,
            0.1, True, (-1, -1), self.t(table), 0, **descales)
        again = self.t(np.zeros((30, H, D), np.float16))
        got = aiter.mha_batch_prefill_func(
            self.t(q), self.t(k), self.t(v), self.t(cu), None, None, 25, 50, softmax_scale=0.1, causal=True,
            out=again, block_table=self.t(table), seqlen_k=self.t(np.array(lengths, np.int32)), **descales)
        self.assertIs(got, again)
        heads = [np.random.default_rng(i).uniform(0.5, 1.5, (2, HK)).astype(np.float32) * scales[i] for i in (1, 2)]
        of_heads = dict(descales, k_descale=self.t(heads[0]), v_descale=self.t(heads[1]))
        call = (*map(self.t, (q, k, v, cu)), None, None, 25, 50)
        more = {"causal": True, "block_table": self.t(table), "seqlen_k": self.t(np.array(lengths, np.int32))}
        other = aiter.mha_batch_prefill_func(*call, softmax_scale=0.1, out=self.t(np.zeros((30, H, D), np.float16)), **more,
                                             **of_heads)
        with self.assertRaisesRegex(aiter.NotServed, "k_descale and v_descale with its strides are needed"):
            aiter.mha_batch_prefill_func(*call, **more, **dict(descales, q_descale=of_heads["k_descale"]))
        with self.assertRaisesRegex(aiter.NotServed, r"q_descale is \[30, 4\]: one number, or \[2, 2\] for sequences"):
            aiter.mha_batch_prefill_func(*call, **more, **dict(of_heads, q_descale=self.t(np.ones((30, H), np.float32))))
        self.queries_with_scales_of_heads(q, k, v, cu, table, lengths, scales)
        for x in (out, again, other):
            for s in range(2):
                rows, factors = slice(cu[s], cu[s + 1]), [1, 1]
                if x is other:
                    factors = [heads[i][s][:, None] / scales[i + 1] for i in range(2)]
                kept, values_s = keys[s] * factors[0], values[s] * factors[1]
                want, _ = support.attention(FP8[q[rows]] * scales[0], kept, values_s, scale=0.1)
                self.close_to_weights_of_fp8(self.back(x)[rows].astype(np.float64), want, values_s)
        cache = self.t(np.zeros(k.shape, np.float16))
        with self.assertRaisesRegex(aiter.NotServed, "queries are fp8, the cache is fp16"):
            aiter.unified_attention(self.t(q), cache, cache, out, self.t(cu), 25, self.t(np.array(lengths, np.int32)), 50, 0.1,
                                    True, (-1, -1), self.t(table), 0, descales["q_descale"], None, None)

    def queries_with_scales_of_heads(self, q, k, v, cu, table, lengths, scales):
        """Calls unified_attention() with scales of queries, keys and values. Each sequence and KV head has a scale, or
        each KV head has one for all sequences. The second call is a decode step."""
        stored, lens, pages = [self.t(b) for b in (k, v)], self.t(np.array(lengths, np.int32)), self.t(table)
        for shape in ((2, HK), (HK,)):
            heads = [np.random.default_rng(i).uniform(0.5, 1.5, shape).astype(np.float32) * s for i, s in enumerate(scales)]
            given = dict(zip(("q_descale", "k_descale", "v_descale"), map(self.t, heads)))
            wide = [np.broadcast_to(x, (2, HK)) for x in heads]
            out, one = self.t(np.zeros((30, H, D), np.float16)), self.t(np.zeros((2, H, D), np.float16))
            aiter.unified_attention(self.t(q), *stored, out, self.t(cu), 25, lens, 50, 0.1, True, (-1, -1), pages, 0, **given)
            again = aiter.mha_batch_prefill_func(
                self.t(q), *stored, self.t(cu), None, None, 25, 50, softmax_scale=0.1, causal=True, block_table=pages,
                seqlen_k=lens, out=self.t(np.zeros((30, H, D), np.float16)), **given)
            aiter.unified_attention(self.t(q[:2]), *stored, one, self.t(np.arange(3, dtype=np.int32)), 1, lens, 50, 0.1, True,
                                    (-1, -1), pages, 0, **given)
            for s, n in enumerate(lengths):
                keys, values = (FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * x[s][:, None]
                                for b, x in ((k, wide[1]), (v, wide[2])))
                scale = np.repeat(wide[0][s], H // HK)[:, None]
                for got, rows in ((out, slice(cu[s], cu[s + 1])), (again, slice(cu[s], cu[s + 1])), (one, slice(s, s + 1))):
                    want, _ = support.attention(FP8[q[rows]] * scale, keys, values, scale=0.1)
                    got = self.back(got)[rows].astype(np.float64)
                    if got.shape[0] == 1:
                        support.close(got, want, support.bound(values) * 5)
                    else:
                        self.close_to_weights_of_fp8(got, want, values)

    def test_decode(self):
        lengths = [300, 9]
        _, _, table, _, _ = self.paged(lengths, 3)
        k, v = (support.fp8_bytes((int(table.max()) + 1, P, HK, D), i) for i in range(2))
        q, lens = support.fp8_bytes((2, H, D), 5), self.t(np.array(lengths, np.int32))
        scales = [np.array([s], np.float32) for s in (0.02, 0.03, 0.5)]
        keys, values = ([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * x[0]
                         for s, n in enumerate(lengths)] for b, x in ((k, scales[1]), (v, scales[2])))
        qs, ks, vs = map(self.t, scales)
        out, again = (self.t(np.zeros((2, H, D), np.float16)) for _ in range(2))
        aiter.unified_attention(
            self.t(q), self.t(k), self.t(v), out, self.t(np.arange(3, dtype=np.int32)), 1, lens, 300, 0.1,
            True, (-1, -1), self.t(table), 0, qs, ks, vs)
        aiter.pa_decode_gluon(
            again, self.t(q), self.t(base.shuffle_k(k, 16)), self.t(base.shuffle_v(v, 16)), lens,
            self.t(table), 0.1, 1, 4, query_scale=qs, key_scale=ks, value_scale=vs)
        for x in (out, again):
            for s in range(2):
                want, _ = support.attention(FP8[q[s:s + 1]] * scales[0], keys[s], values[s], scale=0.1)
                support.close(self.back(x)[s:s + 1], want, support.bound(values[s]) * 5)
        self.decode_with_a_scale_for_each_query_and_head(q, k, v, table, lens, keys, values, (ks, vs))

    def test_products_of_heads(self):
        product, tokens, heads = getattr(aiter, PRODUCT), 5, 3
        x, w = support.random((heads, tokens, 192), 1), support.fp8_bytes((heads, 64, 192), 2)
        w_scale = np.array([0.03], np.float32)
        near, step = rounded_groups(x)
        want = np.einsum("htk,hnk->htn", near, FP8[w] * w_scale)
        bound = step * np.abs(FP8[w]).max() * w_scale[0] + np.abs(want).max() * 2.0 ** -10
        plain = np.einsum("htk,hnk->htn", x.astype(np.float64), FP8[w] * w_scale)
        self.assertGreater(np.abs(want - plain).max(), bound, "the rounding cannot be seen")
        wide = self.t(np.ascontiguousarray(np.concatenate([x, x], -1).swapaxes(0, 1)))  # [tokens, heads, 384]
        view = wide[..., :192]
        transposed = view.transpose(0, 1) if self.torch else view.swapaxes(0, 1)
        half = {"dtype": torch.float16 if self.torch else np.float16}
        w, w_scale = self.t(w), self.t(w_scale)
        out = self.t(np.zeros((tokens, heads, 64), np.float16))
        self.assertIs(product(transposed, w, w_scale, group_size=128, transpose_bm=True, YQ=out), out)
        for got in (self.back(out).swapaxes(0, 1), self.back(product(self.t(x), w, w_scale, **half)),
                    self.back(product(view, w, w_scale, transpose_bm_in=True, **half))):
            support.close(got, want, bound)
        for why, more in (("64 elements|it is 64", {"group_size": 64, **half}), ("no bias", {"bias": out, **half}),
                          ("the result bf16", {})):
            with self.assertRaisesRegex(aiter.NotServed, why):
                product(self.t(x), w, w_scale, **more)

    def test_gather_kv_b_proj(self):
        lengths, heads, page = [70, 9, 33], 2, P
        need = [-(-n // page) for n in lengths]
        indptr, cu = (np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (need, lengths))
        pages = np.random.default_rng(1).permutation(sum(need) + 2)[:sum(need)].astype(np.int32)
        stored = support.fp8_bytes((sum(need) + 2, page, 576), 1), np.array([0.02], np.float32)
        plain = support.random((sum(need) + 2, page, 576), 2)
        weight = support.random((heads * 256, 512), 3)
        bytes_w, scales = support.fp8_bytes((heads * 256, 512), 4), np.random.default_rng(5).uniform(
            0.01, 0.1, (heads * 2, 4)).astype(np.float32)
        wide = np.kron(scales, np.ones((128, 128))) * FP8[bytes_w]
        for rows, given, w, w_given in (
                (FP8[stored[0]] * stored[1], stored, weight.astype(np.float64), (weight, None)),
                (plain.astype(np.float64) * 0.3, (plain, np.array([0.3], np.float32)), wide, (bytes_w, scales)),
                (plain.astype(np.float64), (plain, None), wide, (bytes_w, scales))):
            k, v = (self.t(np.full((cu[-1], heads, n), 7, np.float16)) for n in (192, 128))
            aiter.gather_kv_b_proj(
                self.t(given[0]), None if given[1] is None else self.t(given[1]), self.t(indptr), self.t(pages),
                self.t(cu), self.t(w_given[0]), None if w_given[1] is None else self.t(w_given[1]), k, v)
            at = np.concatenate([pages[indptr[s]:indptr[s + 1]].repeat(page)[:n] * page + np.arange(n) % page
                                 for s, n in enumerate(lengths)])
            x = rows.reshape(-1, 576)[at]
            want = np.einsum("tk,hnk->thn", x[:, :512], w.reshape(heads, 256, 512))
            # Latents and sums are each rounded once.
            bound = 2.0 ** -10 * np.einsum("tk,hnk->thn", np.abs(x[:, :512]), np.abs(w.reshape(heads, 256, 512)))
            got = np.concatenate([self.back(k)[..., :128], self.back(v)], -1).astype(np.float64)
            self.assertTrue((np.abs(got - want) <= bound + 1e-6).all())
            tail = np.repeat(x[:, None, 512:], heads, 1)
            support.close(self.back(k)[..., 128:], tail, np.abs(tail).max() * support.HALF)
        call = [self.t(x) for x in (plain, stored[1], indptr, pages, cu, weight)]
        for words, scale, more in (("row by row", None, {"weight_preshuffle": True}),
                                   ("fragments", None, {"shuffled_kv_cache": True}),
                                   ("it is fp16 with a scale", self.t(scales), {})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.gather_kv_b_proj(*call, scale, k, v, **more)
        call[5] = self.t(bytes_w)
        for words, scale in (("it is fp8 without", None), ("128 x 128", self.t(np.ones(heads * 256, np.float32)))):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.gather_kv_b_proj(*call, scale, k, v)

    def decode_with_a_scale_for_each_query_and_head(self, q, k, v, table, lens, keys, values, kv_scales):
        rng = np.random.default_rng(3)
        wide = rng.uniform(0.005, 0.05, (2, 2 * H, 1)).astype(np.float32)
        keys_s, values_s = self.t(base.shuffle_k(k, 16)), self.t(base.shuffle_v(v, 16))
        for scale in (wide[:, :H].copy(), wide[:, ::2]):  # a tensor of scales, and a view of a wider one
            out = self.t(np.zeros((2, H, D), np.float16))
            given = self.t(wide)[:, ::2] if scale.base is not None else self.t(scale)
            aiter.pa_decode_gluon(out, self.t(q), keys_s, values_s, lens, self.t(table), 0.1, 1, 1,
                                  query_scale=given, key_scale=kv_scales[0], value_scale=kv_scales[1])
            for s in range(2):
                x = FP8[q[s:s + 1]] * scale[s]
                want, _ = support.attention(x, keys[s], values[s], scale=0.1)
                support.close(self.back(out)[s:s + 1], want, support.bound(values[s]) * 5)
        with self.assertRaisesRegex(aiter.NotServed, r"query_scale is \[2, 1\]"):
            aiter.pa_decode_gluon(out, self.t(q), keys_s, values_s, lens, self.t(table), 0.1, 1, 1,
                                  query_scale=self.t(wide[:, 0]), key_scale=kv_scales[0],
                                  value_scale=kv_scales[1])
        for part, over in ((wide[:1, :H], "queries"), (wide[:, :1], "heads")):
            given = self.t(part.copy())
            given = given.expand(2, H, 1) if self.torch else np.broadcast_to(given, (2, H, 1))
            with self.assertRaisesRegex(aiter.NotServed, f"query_scale is expanded over its {over}"):
                aiter.pa_decode_gluon(out, self.t(q), keys_s, values_s, lens, self.t(table), 0.1, 1, 1,
                                      query_scale=given, key_scale=kv_scales[0], value_scale=kv_scales[1])


class WithNumpy(Fp8, unittest.TestCase):
    torch = False
    t, back = staticmethod(base.WithNumpy.t), staticmethod(base.WithNumpy.back)

    @staticmethod
    def back_bf16(x):
        return from_bf16(x).astype(np.float64)


@unittest.skipUnless(torch, "torch is not installed")
class WithTorch(Fp8, unittest.TestCase):
    torch = True
    t, back = staticmethod(base.WithTorch.t), staticmethod(base.WithTorch.back)

    @staticmethod
    def back_bf16(x):
        return x.double().numpy()


if __name__ == "__main__":
    unittest.main()
