# SPDX-License-Identifier: Apache-2.0
"""Tests the forms of arguments of attn.aiter's calls: names and order, longer buffers, scales of each kind, None, and
forms that are refused."""
import inspect
import pathlib
import unittest
from unittest import mock

import numpy as np

import attn
import attn.aiter as aiter
import support
from attn.aiter import _common
import test_aiter as base
from support import FP8, FP8_MAX
from test_aiter import D, H, HK, P, X, torch

KERNELS = [
    {"op": "prefill", "head_dim": D},
    {"op": "cache_gather", "head_dim": D, "kv_layout": "shuffle"},
    {"op": "cache_gather", "head_dim": D, "kv_layout": ["nhd", "shuffle"], "kv_dtype": "fp8"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "neox", "rotary_dim": D, "keep_kv": True, "kv_layout": "nhd",
     "cos_sin": "same", "kv_dtype": "fp8", "kv_scale": ["none", "tensor"]},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "gptj", "norm": "rms", "rotary_dim": D, "kv_layout": "nhd",
     "cos_sin": "same", "keep_kv": [False, True]},
    {"op": "rope_qk_norm_cache", "head_dim": 64, "rope": ["neox", "gptj"], "keep_kv": True, "cos_sin": "same"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "neox", "norm": "full", "rotary_dim": 64, "keep_kv": True,
     "cos_sin": "same"},
    {"op": "mla_rope_cache", "head_dim": 576, "head_dim_v": 512, "rope": "gptj", "cos_sin": "f32"},
    {"op": "indexer_rope_cache", "rope": "neox", "layer_norm": [False, True], "kv_layout": "nhd"},
    {"op": "indexer_gather", "kv_layout": "nhd"},
    {"op": "indexer_logits", "index_heads": 64, "paged": True, "kv_layout": "nhd", "small_pages": True},
    {"op": "qk_rmsnorm", "width": 256, "width_kv": 128, "out_dtype": "same"},
]


class Forms:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    rotate, table, ROPE, index_scores = (getattr(base.Calls, n) for n in ("rotate", "table", "ROPE", "index_scores"))

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def zeros(self, *shape, dtype=np.float16):
        return self.t(np.zeros(shape, dtype))

    def refused(self, words, call, *args, **more):
        """Checks that a call raises NotServed with a message that matches `words`."""
        with self.assertRaisesRegex(aiter.NotServed, words):
            call(*args, **more)

    # ---- Scales

    def test_scales_of_the_wrong_kind(self):
        rows, slots = self.zeros(4, HK, D), self.t(np.arange(4))
        one, tokens, pages = (self.t(np.ones(s, np.float32)) for s in (1, (3, HK, P), (3, HK)))
        nhd = [self.zeros(3, P, HK, D, dtype=np.uint8) for _ in range(2)]
        shuffled = [self.zeros(3, HK, *s, dtype=np.uint8) for s in ((D // 16, P, 16), (P // 16, D, 16))]
        for scale in (tokens, pages):  # AITER would read the first number of such a tensor as the scale of all rows
            self.refused("scales are of a tensor", aiter.reshape_and_cache_flash, rows, rows, *nhd, slots, "fp8",
                         scale, scale)
            self.refused("scales are of a tensor", aiter.reshape_and_cache, rows, rows, *shuffled, slots, "fp8", scale,
                         scale, True)
        self.refused("kv_cache_dtype 'fp8_e5m2'", aiter.reshape_and_cache, rows, rows, *shuffled, slots, "fp8_e5m2",
                     one, one, True)
        self.refused("kv_cache_dtype is 'fp8', the cache is fp16", aiter.reshape_and_cache_flash, rows, rows,
                     *[self.zeros(3, P, HK, D)] * 2, slots, "fp8", one, one)
        self.refused("v_scale: None, k_scale is not", aiter.reshape_and_cache, rows, rows, *shuffled, slots, "fp8",
                     one, None, True)
        q, lens, starts = self.zeros(3, H, D), self.t(np.full(3, 9, np.int32)), self.t(np.arange(4, dtype=np.int32))
        self.refused("scales are of a tensor", aiter.unified_attention, q, *nhd, q, starts, 1, lens, 9, 0.1, True,
                     (-1, -1), self.t(np.zeros((3, 1), np.int32)), 0, None, tokens, tokens)
        self.refused("beside k_descale", aiter.mha_batch_prefill_func, q, *nhd, starts, starts, starts, 1, 1,
                     k_descale=one, v_descale=one, kv_block_descale=self.t(np.ones((3, HK, 2), np.float32)))
        norm = (H, HK, HK, D, 1e-6, rows[0, 0], rows[0, 0], self.t(self.table(D, np.float16)), True, slots)
        for scale, words in ((one, "scales are of a token"), (None, "without scales of a token")):
            self.refused(words, aiter.fused_qk_norm_rope_cache_quant_shuffle, self.zeros(4, H, D), rows, rows, *norm,
                         *shuffled, slots, "fp8", scale, scale)

    def test_gathered_without_their_scale(self):
        k, v = (support.fp8_bytes((3, P, HK, D), i) for i in (1, 2))
        table, starts, cu = np.array([[2, 0]], np.int32), np.array([5], np.int32), np.array([0, 20], np.int32)
        want = [FP8[x[table[0]].reshape(-1, HK, D)[5:25]] for x in (k, v)]
        shuffled = base.shuffle_k(k, 16), base.shuffle_v(v, 16)
        # vLLM passes views with the dimensions of NHD over memory in the order of SHUFFLE.
        views = [x.reshape(k.shape) for x in shuffled]
        for layout, pages in (("NHD", (k, v)), ("SHUFFLE", shuffled), ("SHUFFLE", views)):
            outs = [self.zeros(32, HK, D) for _ in range(2)]
            aiter.cp_mha_gather_cache(*map(self.t, pages), *outs, self.t(table), None, None, self.t(cu), None,
                                      self.t(starts), False, layout, 20)
            for out, numbers in zip(outs, want):
                np.testing.assert_array_equal(self.back(out)[:20], numbers.astype(np.float16))
        short = [support.random((3, P, HK, D), i) for i in (3, 4)]
        pages = [self.t(x.reshape(3, P, HK, D)) for x in (base.shuffle_k(short[0]), base.shuffle_v(short[1]))]
        aiter.cp_mha_gather_cache(*pages, *outs, self.t(table), None, None, self.t(cu), None, self.t(starts), False,
                                  "SHUFFLE", 20)
        for out, x in zip(outs, short):
            np.testing.assert_array_equal(self.back(out)[:20], x[table[0]].reshape(-1, HK, D)[5:25])
        ones = self.t(np.ones((3, HK, P), np.float32))
        given = (self.t(table), ones, ones, self.t(cu), None, self.t(starts), True, "NHD", 20)
        self.refused("the cache is fp16", aiter.cp_mha_gather_cache, *map(self.t, short), *outs, *given)
        self.refused("there are 96 scales", aiter.cp_mha_gather_cache, self.t(k), self.t(v), *outs, *given, False)

    def test_rotated_without_a_scale(self):
        q, k, v = (support.random((4, h, D), h + i) for i, h in enumerate((H, HK, HK)))
        table, positions = self.table(D, np.float16), np.array([3, 49, 0, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * D // 2:(i + 1) * D // 2])) for i in range(2))
        scale, slots = self.t(np.array([0.25], np.float32)), np.array([40, 2, 5, 17], np.int64)
        given = [self.t(x) for x in (q, k, v)]
        want = self.rotate(k, table, positions, True)
        for apply, factor in ((True, 0.25), (False, 1)):
            kc, vc = (self.zeros(3, P, HK, D, dtype=np.uint8) for _ in range(2))
            aiter.fused_qk_rope_reshape_and_cache(*given, kc, vc, self.t(slots), self.t(positions), cos, sin, scale,
                                                  scale, True, True, apply_scale=apply)
            for cache, rows in ((kc, want), (vc, v)):
                got = FP8[self.back(cache).reshape(-1, HK, D)[slots]] * factor
                self.assertTrue((np.abs(got - rows) <= np.abs(rows) / 16 + 0.02).all())
        short = [self.zeros(3, P, HK, D) for _ in range(2)]
        self.refused("AITER divides by it", aiter.fused_qk_rope_reshape_and_cache, *given, *short, self.t(slots),
                     self.t(positions), cos, sin, scale, scale, True, True)

    def test_values_with_another_scale(self):
        rows, q = self.zeros(4, P, 1, 576, dtype=np.uint8), self.zeros(1, 4, 576)
        scales, one = [self.t(np.ones(1, np.float32)) for _ in range(2)], self.t(np.ones((1, 1), np.int32))
        for v_scale in (scales[1], None):
            self.refused("it is not k_scale", aiter.decode_attention_fwd, q, rows, rows[..., :512], q[..., :512], None,
                         one, one[0], None, 4, 0.1, P, 0.0, scales[0], v_scale)
        self.refused("kv_cache_dtype is 'auto', the cache is fp8", aiter.concat_and_cache_mla, q[0, :, :512],
                     q[0, :, 512:], rows, self.t(np.arange(4)), "auto", scales[0])

    def test_bytes_that_are_not_fp8(self):
        if not self.torch:
            return
        rows, k5, v5 = (torch.from_numpy(np.zeros(s, np.uint8)) for s in (
            (3, P, HK, D), (3, HK, D // 16, P, 16), (3, HK, P // 16, D, 16)))
        q, table, lens = self.zeros(3, H, D), self.t(np.zeros((3, 1), np.int32)), self.t(np.full(3, 9, np.int32))
        with mock.patch.object(torch, "float8_e4m3fn", getattr(torch, "float8_e4m3fn", "fp8"), create=True):
            self.refused("is fp4 to AITER", aiter.unified_attention, q, rows, rows, q, lens, 1, lens, 9, 0.1, True,
                         (-1, -1), table, 0, None, None, None)
            self.refused("is int8 to AITER", aiter.pa_fwd_asm, q, k5, v5, table, lens, 1)
            self.refused("is rows of several types to AITER", aiter.mla_decode_fwd, q, rows[:, :1], q, lens, lens, lens,
                         lens, 1)

    # ---- Rows

    def test_fewer_slots_than_rows(self):
        tokens, heads, slots = 5, 3, np.array([40, 2, 17], np.int64)
        kv, pe = support.random((tokens, 576), 1), support.random((tokens, heads, 64), 3)
        q_nope, positions = support.random((tokens, heads, 512), 2), np.array([3, 49, 0, 7, 7], np.int64)
        table, one, whole = self.table(64, np.float32), self.t(np.ones(1, np.float32)), self.t(kv)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * 32:(i + 1) * 32])) for i in range(2))
        cache, q_out = self.zeros(3, P, 576), self.t(np.full((tokens, heads, 576), 7, np.float16))
        aiter.fused_qk_rope_concat_and_cache_mla(
            self.t(q_nope), self.t(pe), whole[:, :512], whole[:, 512:], cache, q_out, self.t(slots), one, one,
            self.t(positions), cos, sin, False, True)
        want = self.rotate(pe, table, positions, False)[:3]
        support.close(self.back(q_out)[:3, :, 512:], want, self.ROPE)
        self.assertTrue((self.back(q_out)[3:] == 7).all())
        np.testing.assert_array_equal(self.back(cache).reshape(-1, 576)[slots, :512], kv[:3, :512])

    def test_pages_with_room_after_their_keys(self):
        """A key and its scale have 132 bytes. AITER also accepts cache rows of more bytes, as here with 144."""
        row, slots = 144, np.array([40, 2, 17], np.int64)
        q, k = support.random((5, 64, 128), 1), support.random((5, 128), 2)
        weights, w, b = (support.random(s, 3 + i) for i, s in enumerate(((5, 64), 128, 128)))
        table = self.table(64, np.float16)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * 32:(i + 1) * 32])) for i in range(2))
        caches = [self.zeros(3, P, row, dtype=np.uint8) for _ in range(2)]
        aiter.indexer_k_quant_and_cache(self.t(k), caches[0], self.t(slots), 128, "")
        q_out, out = self.t(np.full((5, 64, 128), 7, np.uint8)), self.t(np.full((5, 64), 7, np.float32))
        aiter.indexer_qk_rope_quant_and_cache(  # only three rows have slots, so the others are not written
            self.t(q), q_out, self.t(weights), out, self.t(k), caches[1], self.t(slots), self.t(w), self.t(b),
            self.t(np.zeros(5, np.int64)), cos, sin, 1e-6, 128, "", 1.0)
        self.assertTrue((self.back(q_out)[3:] == 7).all() and (self.back(out)[3:] == 7).all())
        self.assertTrue(self.back(out)[:3].any())
        normed = k.astype(np.float64)
        normed = (normed - normed.mean(1, keepdims=True)) / np.sqrt(normed.var(1, keepdims=True) + 1e-6) * w + b
        for cache, rows in zip(caches, (k, normed)):
            pages = self.back(cache).reshape(3, -1)
            self.assertFalse(pages[:, P * 132:].any())
            scales = pages[:, P * 128:P * 132].copy().view(np.float32).reshape(-1)[slots]
            np.testing.assert_allclose(scales, np.abs(rows[:3]).max(1) / FP8_MAX, 2e-3)
        found, scale = self.zeros(3, 128, dtype=np.uint8), self.zeros(3, 1, dtype=np.float32)
        aiter.cp_gather_indexer_k_quant_cache(caches[0], found, scale, self.t(np.array([[2], [0], [1]], np.int32)),
                                              self.t(np.arange(4, dtype=np.int32)))
        want = pages_of = self.back(caches[0]).reshape(3, -1)
        np.testing.assert_array_equal(self.back(found), want[[2, 0, 1], :128])
        stored = pages_of[[2, 0, 1], P * 128:P * 128 + 4].copy().view(np.float32)
        np.testing.assert_array_equal(self.back(scale), stored)
        index, logits = np.random.default_rng(9).integers(0, 64, (1, 1, 64, 128)).astype(np.uint8), self.zeros(
            1, 48, dtype=np.float32)
        aiter.deepgemm_fp8_paged_mqa_logits(
            self.t(index), self.t(self.back(caches[0]).reshape(3, P, 1, row)), self.t(weights[:1].astype(np.float32)),
            logits, self.t(np.array([48], np.int32)), self.t(np.array([[0, 1, 2]], np.int32)), 48, KVBlockSize=P)
        keys = want[:, :P * 128].reshape(-1, 128)
        scales = want[:, P * 128:P * 132].copy().view(np.float32).reshape(-1)
        scores = self.index_scores(index[0], keys, scales, weights[:1])[0]
        support.close(self.back(logits)[0], scores, float(np.abs(scores).max()) * 2.0 ** -10)
        self.refused("131 bytes for a key", aiter.indexer_k_quant_and_cache, self.t(k),
                     self.zeros(3, P, 131, dtype=np.uint8), self.t(slots), 128, "")

    def test_strides_that_are_not_the_tensors(self):
        logits, ends = self.zeros(4, 96, dtype=np.float32)[:, :48], self.t(np.full(4, 48, np.int32))
        found = self.zeros(4, 32, dtype=np.int32)
        self.refused("stride0: it is 48, the tensor's is 96", aiter.top_k_per_row_prefill, logits, ends, ends, found,
                     None, 4, 48, 1, 32)
        self.refused("stride1: it is 2", aiter.top_k_per_row_decode, logits, 1, ends, found, 4, 96, 2, 32)

    def test_rotation_in_place(self):
        table, at = self.table(64, np.float16), np.array([3, 49, 0, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * 32:(i + 1) * 32]).reshape(50, 1, 1, 32))
                    for i in range(2))
        for style, last, tokens in ((0, False, (1, 4)), (0, False, (2, 2)), (1, True, (4, 1))):
            positions = self.t(at.reshape(tokens))
            part = slice(-64, None) if last else slice(64)
            for heads in ((H, HK), (H,), (1,)):
                rows = [support.random((4, h, 192), h) for h in heads]
                kept = [self.t(x.copy().reshape(*tokens, *x.shape[1:])) for x in rows]
                # The call rotates the last elements of a whole row, or the row is a view of the elements that rotate,
                # as ATOM passes it.
                given = kept if last else [x[..., :64] for x in kept]
                call = aiter.rope_cached_positions_2c_fwd_inplace if len(heads) == 2 else (
                    aiter.rope_cached_positions_fwd_inplace)
                self.assertIsNone(call(*given, cos, sin, positions, style, True, last))
                for got, x in zip(kept, rows):
                    want = x.astype(np.float64)
                    want[..., part] = self.rotate(x[..., part], table, at, style == 0)
                    found = self.back(got).reshape(x.shape)
                    support.close(found, want, self.ROPE)
                    still = np.delete(np.arange(192), np.arange(192)[part])
                    np.testing.assert_array_equal(found[..., still], x[..., still])
        self.refused("a pair of elements has one cosine", aiter.rope_cached_positions_fwd_inplace, given[0], cos, sin,
                     positions, 0, False, False)
        self.refused("of which 64 rotate", aiter.rope_cached_positions_fwd_inplace, given[0][..., :32], cos, sin,
                     positions, 0, True, False)

    def test_halves_of_one_table(self):
        table, at = self.table(64, np.float16), np.array([3, 49, 0, 7], np.int64)
        whole, session = self.t(table), _common._devices[0]
        session.made.kept.clear()
        for offsets in (None, np.array([1, 0, 2, -7], np.int64)):
            rows = [support.random((4, h, 64), h) for h in (H, HK)]
            given = [self.t(x.copy()) for x in rows]
            call, more = aiter.rope_cached_thd_positions_2c_fwd_inplace, ()
            if offsets is not None:
                call, more = aiter.rope_cached_thd_positions_offsets_2c_fwd_inplace, (self.t(offsets),)
            got = call(*given, whole[:, :32], whole[:, 32:], self.t(at), *more, 0, reuse_freqs_front_part=True,
                       nope_first=False)
            places = at if offsets is None else at + offsets
            for found, kept, x in zip(got, given, rows):
                self.assertIs(found, kept)
                support.close(self.back(found), self.rotate(x, table, places, True), self.ROPE)
        self.assertFalse(session.made.kept, "a table was copied")
        self.refused("outputs are where", aiter.rope_cached_thd_positions_offsets_2c_fwd_inplace, *given, whole[:, :32],
                     whole[:, 32:], self.t(at), None, 0, True, False, True)
        cos, other = whole[:, :32], whole[:, 32:].clone() if self.torch else whole[:, 32:].copy()
        aiter.rope_cached_thd_positions_offsets_2c_fwd_inplace(*given, cos, other, self.t(at), None, 0, True, False)
        self.assertEqual(len(session.made.kept), 1)

    def test_scales_in_the_hosts_memory(self):
        if not self.torch:
            return
        session, scale = _common.Session(self.device), torch.ones(())
        gpu = mock.Mock(is_cuda=True, device="cpu")
        near = _common.near(session, scale, gpu)
        self.assertIs(_common.near(session, scale, gpu), near)
        self.assertEqual(len(session.made.kept), 1)
        self.assertIs(_common.near(session, scale, scale), scale)
        self.assertIsNone(_common.near(session, None, gpu))

    def test_norm_over_all_heads(self):
        qkv = support.random((4, (H + 2 * HK) * D), 1)
        rows = np.split(qkv, [H * D, (H + HK) * D], 1)
        weights = [support.random(x.shape[1], i) for i, x in enumerate(rows[:2])]
        table, positions = self.table(64, np.float16), np.array([3, 49, 0, 7], np.int64)
        how = dict(num_heads_q=H, num_heads_k=HK, head_dim=D, rotary_dim=64, eps=1e-6, is_neox_style=True)
        given = [self.t(x) for x in (qkv, *weights, table, positions)]
        out = self.zeros(4, HK * D)
        got = aiter.minimax_qk_norm_rope(*given, **how, k_out=out)
        self.assertIs(got[1], out)
        for found, x, w in zip(got, rows, weights):
            x = x.astype(np.float64)
            x = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w
            want = self.rotate(x.reshape(4, -1, D), table, positions, True)
            support.close(self.back(found).reshape(want.shape), want, self.ROPE * 2)
        np.testing.assert_array_equal(self.back(got[2]), rows[2])
        given[1] = self.t(weights[0].astype(np.float32))
        self.refused("weights are f32 and fp16", aiter.minimax_qk_norm_rope, *given, **how)

    def test_lists_of_pages_as_a_table(self):
        indices, indptr = np.arange(100, 111, dtype=np.int32), np.array([0, 4, 4, 11, 11, 99], np.int32)
        wide = self.t(np.full((6, 9), -1, np.int32))
        aiter.csr_to_dense_block_table(self.t(indices), self.t(indptr), wide[:, :8], 7, 4)
        want = np.full((6, 9), -1)
        want[0, :4], want[2, :7] = indices[:4], indices[4:]
        np.testing.assert_array_equal(self.back(wide), want)

    # ---- None

    def test_norm_of_keys_alone(self):
        q, k, w, wk = (support.random(s, i) for i, s in enumerate(((4, 256), (4, 128), 256, 128)))
        out = self.zeros(4, 128)
        aiter.fused_qk_rmsnorm(q=self.t(q), q_weight=self.t(w), k=self.t(k), k_weight=self.t(wk), k_out=out)
        x = k.astype(np.float64)
        want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * wk
        support.close(self.back(out), want, 4 * support.HALF * float(np.abs(want).max()))
        got = aiter._fused_qk_rmsnorm(q_out=None, q=self.t(q), q_weight=self.t(w), q_eps=1e-6, k_out=out, k=self.t(k),
                                      k_weight=self.t(wk), k_eps=1e-6)
        self.assertIs(got[1], out)
        for found, x, weight in zip(got, (q, k), (w, wk)):
            x = x.astype(np.float64)
            want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * weight
            support.close(self.back(found), want, 4 * support.HALF * float(np.abs(want).max()))

    def test_keys_and_values_that_nobody_wants(self):
        qkv, weight = self.t(support.random((4, (H + 2 * HK) * D), 1)), self.t(support.random((D,), 2))
        one, slots, q_out = self.t(np.ones(1, np.float32)), self.t(np.arange(4)), self.zeros(4, H, D)

        def call(k_out, v_out, dtype=np.float16):
            caches = [self.zeros(3, P, HK, D, dtype=dtype) for _ in range(2)]
            aiter.fused_qk_norm_rope_cache_pts_quant_shuffle(
                qkv, weight, weight, self.t(self.table(D, np.float16)), slots, 4, H, HK, HK, D, False, 1e-6, q_out,
                *caches, slots, one, one, k_out, v_out, True, False, P, X)

        call(None, None)
        self.assertTrue(self.back(q_out).any())
        rows, kept = self.zeros(4, HK, D), self.zeros(4, HK, D)
        packed = self.back(qkv).copy()
        call(None, rows)
        np.testing.assert_array_equal(self.back(qkv), packed)
        np.testing.assert_array_equal(self.back(rows), packed[:, (H + HK) * D:].reshape(4, HK, D))
        call(kept, None)
        want = self.rotate(packed[:, H * D:(H + HK) * D].reshape(4, HK, D), self.table(D, np.float16), np.arange(4), False,
                           self.back(weight), 1e-6)
        support.close(self.back(kept), want, self.ROPE)
        np.testing.assert_array_equal(self.back(qkv), packed)
        self.refused("outputs get what the cache gets, fp8", call, rows, rows, np.uint8)

    # ---- What is not served

    def test_two_of_them_together(self):
        q, pages = self.zeros(3, H, D), [self.zeros(3, P, HK, D) for _ in range(2)]
        slopes, one = self.t(np.ones(H, np.float32)), self.t(np.ones(1, np.float32))
        table, lens = self.t(np.zeros((3, 1), np.int32)), self.t(np.full(3, 9, np.int32))
        self.refused("AITER caps what has the bias", aiter.paged_attention_v1, q, None, q, *pages, 0.1, table, None,
                     lens, 9, slopes, "auto", "NHD", 30.0, one, one)
        self.refused("counts from another key", aiter.pa_decode_gluon, q, q, *pages, lens, table, 0.1, 1, 4,
                     sliding_window=8, ps=False)
        lse = self.zeros(H, 3, dtype=np.float32)
        self.refused("output_scale: it is given, the output is fp16", aiter.merge_attn_states, q, q, lse, q, lse,
                     output_scale=one)

    def test_refused_forms(self):
        cu = self.t(np.array([0, 4], np.int32))
        q, k = self.t(support.random((4, H, D), 1)), self.t(support.random((4, HK, D), 2))
        given = (q, k, k, cu, cu, 4, 4)
        for more, words in (
                ({"bias": q}, "flash_attn_varlen_func: bias: attention biases are hooks"),
                ({"alibi_slopes": cu}, r"float32 \[heads\] is served"),
                ({"dropout_p": 0.1}, "dropout_p: inference has none"),
                ({"cu_seqlens_q_padded": cu}, "padding inside"),
                ({"window_size": (9, 0, 4)}, "the first 4 tokens are to stay visible"),
                ({"return_attn_probs": True}, "never in memory")):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.flash_attn_varlen_func(*given, causal=True, **more)
        with self.assertRaisesRegex(aiter.NotServed, "flash_attn_varlen_fp8_pertensor_func takes them"):
            aiter.flash_attn_varlen_func(self.t(np.zeros((4, H, D), np.uint8)), *given[1:])
        # Libattn's message names the kernel that the pack lacks.
        with self.assertRaisesRegex(attn.AttnError, "soft_cap"):
            aiter.flash_attn_varlen_func(*given, causal=True, logits_soft_cap=30.0)
        with self.assertRaisesRegex(aiter.NotServed, "without asm_layout they are"):
            aiter.reshape_and_cache_with_pertoken_quant(
                k, k, self.t(np.zeros((1, HK, D // 16, P, 16), np.uint8)),
                self.t(np.zeros((1, HK, D, P), np.uint8)), *[self.t(np.zeros((1, HK, P), np.float32))] * 2,
                self.t(np.zeros(4, np.int64)), False)


WithNumpy, WithTorch = base.twice(Forms)


class Inspection(unittest.TestCase):
    def test_arguments_have_the_names_and_the_order_of_aiters(self):
        lines = (pathlib.Path(__file__).parent / "aiter_signatures.txt").read_text().splitlines()
        want = [line.split("(", 1) for line in lines if not line.startswith("#")]
        self.assertEqual([name for name, _ in want], list(aiter.SERVED))
        for name, arguments in want:
            self.assertEqual(str(inspect.signature(getattr(aiter, name))).replace(" ", ""),
                             "(" + arguments.replace(" ", ""), name)

    def test_every_name_says_whether_it_is_served(self):
        for name in aiter.SERVED:
            self.assertTrue(aiter.served(name))
            self.assertIsNone(aiter.reason(name))
            self.assertTrue(inspect.isfunction(getattr(aiter, name)))
        for name, why in aiter.NOT_SERVED.items():
            self.assertFalse(aiter.served(name))
            self.assertEqual(aiter.reason(name), why)
            with self.assertRaisesRegex(aiter.NotServed, f"^{name}: "):
                getattr(aiter, name)(1, key=2)
        self.assertIn("does not know", aiter.reason("made_up"))


if __name__ == "__main__":
    unittest.main()
