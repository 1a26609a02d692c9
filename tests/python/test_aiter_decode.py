# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's decode calls with batches split over the GPU and with NHD and HND pages. Tests the
norms of latent attention and the table of the documentation."""
import pathlib
import unittest
from unittest import mock

import numpy as np

import attn
import attn.aiter as aiter
import support
import test_aiter as base
from attn.aiter import _common, _forms, _mla, _split
from support import FP8, FP8_MAX
from test_aiter import ALIBI, D, GQA, H, HK, P

KERNELS = [
    {"op": "prefill", "head_dim": D, "lse": True, "mask": ["causal", "none"]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": ["nhd", "shuffle"]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "mask": "window", "sinks": [False, True]},
    {"op": "decode", "head_dim": D, "page_size": "any", "gqa": GQA, "page_table": "indices",
     "soft_cap": [False, True]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "logits": ALIBI},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_dtype": "fp8",
     "kv_scale": "tensor"},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": "shuffle", "kv_dtype": "fp8",
     "kv_scale": ["tensor", "token"]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": "shuffle", "q_len": 2},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": "any",
     "lse": [False, True], "page_table": "indices", "q_len": 4},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": "any",
     "lse": True},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": 1,
     "lse": True, "q_len": 2},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": 1, "page_table": "indices",
     "lse": True, "q_len": 2},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": 1, "page_table": "indices"},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": "any", "lse": True,
     "page_table": "indices", "q_len": 2, "sharded": True},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": "any", "page_size": 1, "page_table": "indices", "lse": True,
     "sinks": True},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": "any", "page_size": 1, "page_table": "indices", "sinks": True,
     "sparse": "slots", "two_sources": [False, True]},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": "any", "page_size": 4, "page_table": "indices", "sinks": True,
     "sparse": "slots", "kv_dtype": "fp8", "kv_layout": "scales_last"},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": "any", "page_size": 4, "page_table": "indices", "sinks": True,
     "sparse": "slots", "kv_dtype": "fp8", "kv_layout": "scales_last", "two_sources": True},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": "any", "page_size": 1, "page_table": "indices", "sinks": True,
     "sparse": "slots", "kv_dtype": "fp8", "kv_layout": "planes", "two_sources": [False, True]},
    {"op": "cache_gather", "head_dim": 448, "head_dim_v": 64, "kv_dtype": "fp8", "kv_layout": "planes", "page_size": "any"},
    *([{"op": "indexer_logits", "index_heads": 64, "paged": True, "index_keys": "mxfp4"}] if support.TARGET == "gfx950" else []),
    {"op": "combine", "head_dim": [D, 512], "partials": "csr"}, {"op": "plan", "q_tiles": [False, True]},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": P, "planned": [False, True]},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": P, "planned": True, "one_launch": True, "mask": "window",
     "sinks": True},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": P, "planned": True, "page_table": "indices",
     "lse": True, "mask": ["causal", "none"]},
    {"op": "qk_rmsnorm", "width": 256, "width_kv": 128, "out_dtype": ["same", "fp8"], "gemma": [False, True]},
    {"op": "qk_rmsnorm", "width": 256, "width_kv": 128, "out_dtype": "fp8", "row_scale": True},
    {"op": "qk_rmsnorm", "width": 256, "width_kv": 256, "out_dtype": "same", "gemma": [False, True]},
    {"op": "qk_rmsnorm", "width": 256, "width_kv": [128, 256], "out_dtype": ["same", "fp8"], "gemma": True, "residual": True},
]
LENGTHS = [900, 7, 0, 130]


class Decode:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    paged, check = base.Calls.paged, base.Calls.check

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def setUp(self):
        self.session = _common._devices[0]
        self.session.buffers.clear()

    def was_split(self, batch):
        """True if the last call split a sequence of the batch into several parts. It reads the plan in numpy's buffers,
        which the session keeps. None with torch, whose buffers it does not keep."""
        if self.torch:
            return None
        kept = list(self.session.buffers.values())
        return bool(kept) and int(kept[-1][2][batch]) > 1

    def cu(self, n):
        """Returns the starts [0, 1, ... n] of n sequences with one query each."""
        return np.arange(n + 1, dtype=np.int32)

    # ---- Splits

    def test_small_batches_are_split(self):
        k, v, table, keys, values = self.paged(LENGTHS, 1)
        q, lens = support.random((4, H, D), 2), self.t(np.array(LENGTHS, np.int32))
        k5, v5 = self.t(base.shuffle_k(k)), self.t(base.shuffle_v(v))
        out = aiter.pa_fwd_asm(self.t(q), k5, v5, self.t(table), lens, table.shape[1])
        self.check(out, q, self.cu(4), keys, values)
        self.assertIn(self.was_split(4), (None, True))
        for most, split in ((4, True), (1, False)):
            self.session.buffers.clear()
            out = self.t(np.zeros_like(q))
            aiter.pa_decode_gluon(out, self.t(q), k5, v5, lens, self.t(table), 0.1, 1, most)
            self.check(out, q, self.cu(4), keys, values, scale=0.1)
            self.assertIn(self.was_split(4), (None, split), f"{most} parts")

    def test_windows_and_sinks_are_split(self):
        k, v, table, keys, values = self.paged(LENGTHS, 3)
        q, sinks = support.random((4, H, D), 4), support.random((H,), 5)
        out = self.t(np.zeros_like(q))
        aiter.unified_attention(
            self.t(q), self.t(k), self.t(v), out, self.t(self.cu(4)), 1,
            self.t(np.array(LENGTHS, np.int32)), 900, D ** -0.5, True, (400, 0), self.t(table), 0, None,
            None, None, sinks=self.t(sinks))
        self.check(out, q, self.cu(4), keys, values, window=(400, 0), sinks=sinks)
        self.assertIn(self.was_split(4), (None, True))

    def mixed(self, **more):
        """Calls unified_attention() for a batch of one decode step and two chunks of prompts. One chunk's sequence has
        no earlier keys."""
        lengths, cu = [900, 130, 20], np.array([0, 1, 40, 60], np.int32)
        k, v, table, keys, values = self.paged(lengths, 21)
        q, out = support.random((60, H, D), 22), self.t(np.zeros((60, H, D), np.float16))
        call = dict(window_size=(-1, -1), softcap=0, q_descale=None, k_descale=None, v_descale=None)
        aiter.unified_attention(
            self.t(q), self.t(k), self.t(v), out, self.t(cu), 39, self.t(np.array(lengths, np.int32)), 900,
            D ** -0.5, True, block_table=self.t(table), **{**call, **more})
        return out, q, cu, keys, values

    def were_tiles(self):
        """True if the last call split a tile of queries into several parts. It reads the plan in numpy's buffers, which
        the session keeps."""
        kept = list(self.session.buffers.values())
        return None if self.torch else bool(kept) and int(kept[-1][2][-1]) > 1

    def test_mixed_batches_are_split(self):
        self.check(*self.mixed())
        self.assertIn(self.were_tiles(), (None, True))
        sinks = support.random((H,), 23)
        got = self.mixed(window_size=(99, 0), sinks=self.t(sinks))
        self.check(*got, window=(99, 0), sinks=sinks)
        self.assertIn(self.were_tiles(), (None, True))

    def test_batches_that_fill_the_gpu_are_not_split(self):
        units, s = self.device.compute_units, self.session
        desc = {"dtype": "fp16", "head_dim": D, "head_dim_v": D, "heads": H, "kv_heads": HK, "mask": "causal",
                "sinks": False, "soft_cap": False, "lse": False, "paged": True,
                "cache": attn.CacheDesc(page_size=P), "logits": None, "q_dtype": None}
        tokens = 128 * units // H
        for batch, n, longest, split in (
                (1, tokens - 1, 64, True), (1, tokens, 64, False), (tokens // 64, tokens, 64, True), (0, 0, 0, False),
                (1, tokens, 4096, True), (1, tokens, 2 * tokens + 1, False), (1, tokens, 4095, False),
                (1, 2 * tokens, 4096, True), (1, 2 * tokens + 1, 4096, False)):
            self.assertEqual(_split.splits_prefill(s, desc, batch, n, longest), split, f"{batch} of {n}, {longest}")
        for other in ({"paged": False}, {"soft_cap": True}):
            self.assertFalse(_split.splits_prefill(s, dict(desc, **other), 1, 9, 9))
        self.assertFalse(_split.splits_prefill(s, dict(desc, mask="none"), 1, tokens, 4096))

    def test_narrow_windows_have_tiles_of_all_heads(self):
        desc = {"mask": "window", "heads": 8, "kv_heads": 2}
        for window, narrow in ((0, False), (1, True), (2048, True), (2049, False)):
            self.assertEqual(_split.is_narrow(desc, window), narrow, window)
        self.assertFalse(_split.is_narrow(dict(desc, kv_heads=4), 128))
        self.assertFalse(_split.is_narrow(dict(desc, mask="causal"), 128))

    def test_mha_batch_prefill_func_is_split(self):
        lengths, cu = [900, 40], np.array([0, 30, 70], np.int32)
        k, v, table, keys, values = self.paged(lengths, 24)
        q, pages = support.random((70, H, D), 25), [-(-n // P) for n in lengths]
        indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
        indices = np.concatenate([table[s, :n] for s, n in enumerate(pages)]).astype(np.int32)
        for causal in (True, False):
            self.session.buffers.clear()
            out, lse = aiter.mha_batch_prefill_func(
                self.t(q), self.t(k), self.t(v), self.t(cu), self.t(indptr), self.t(indices), 40, 900, causal=causal,
                return_lse=True, kv_last_page_lens=self.t(np.array([n - P * (m - 1) for n, m in zip(lengths, pages)],
                                                                   np.int32)))
            self.assertIn(self.were_tiles(), (None, True))
            for s in range(2):
                rows = slice(cu[s], cu[s + 1])
                want, want_lse = support.attention(q[rows], keys[s], values[s], causal=causal)
                support.close(self.back(out)[rows], want, support.bound(values[s]))
                support.close(self.back(lse)[:, rows], want_lse, 1e-3)

    def test_lengths_of_64_bits(self):
        k, v, table, keys, values = self.paged(LENGTHS, 1)
        q, lens = support.random((4, H, D), 2), self.t(np.array(LENGTHS, np.int64))
        for shuffled in (False, True):
            out = self.t(np.zeros_like(q))
            if shuffled:
                aiter.pa_decode_gluon(out, self.t(q), self.t(base.shuffle_k(k)), self.t(base.shuffle_v(v)), lens,
                                      self.t(table.astype(np.int64)), D ** -0.5, 1, 4)
            else:
                aiter.unified_attention(
                    self.t(q), self.t(k), self.t(v), out, self.t(self.cu(4).astype(np.int64)), 1, lens, 900,
                    D ** -0.5, True, (-1, -1), self.t(table.astype(np.int64)), 0, None, None, None)
            self.check(out, q, self.cu(4), keys, values)

    def common(self, q, k, v, table, lengths, **more):
        """Calls paged_attention_common() on the pages k and v and returns its output. `more` replaces arguments."""
        rows = self.t(table)
        call = dict(block_tables=rows, context_lens=self.t(np.array(lengths, np.int32)),
                    block_tables_stride0=table.shape[1], scale=0.1, max_seq_len=max(lengths))
        return aiter.paged_attention_common(self.t(q), self.t(k), self.t(v), None, None, None, **{**call, **more})

    def test_paged_attention_common(self):
        k, v, table, keys, values = self.paged(LENGTHS, 8)
        k5, v5 = base.shuffle_k(k), base.shuffle_v(v)
        q, two = support.random((4, H, D), 9), support.random((7, H, D), 10)
        out = self.t(np.zeros_like(q))
        self.assertIs(self.common(q, k5, v5, table, LENGTHS, out_=out), out)
        self.check(out, q, self.cu(4), keys, values, scale=0.1)
        self.assertIn(self.was_split(4), (None, True))
        cu = np.array([0, 2, 4, 5, 7], np.int32)
        got = self.common(two, k5, v5, table, LENGTHS, max_qlen=2, qo_indptr=self.t(cu))
        self.check(got, two, cu, keys, values, scale=0.1)
        one, tokens = np.array([0.25], np.float32), np.random.default_rng(2).uniform(
            0.1, 0.5, (2, len(k), HK, P)).astype(np.float32)
        kb, vb = (support.fp8_bytes(k.shape, i) for i in range(2))
        stored = base.shuffle_k(kb, 16), base.shuffle_v(vb, 16)
        for scales, by_token, high in (((one, one), False, 1), ((None, None), True, 1), ((one, one), True, 2)):
            x, y = (FP8[b] * (t.transpose(0, 2, 1)[..., None] if by_token else one[0])
                    for b, t in ((kb, tokens[0]), (vb, tokens[1])))
            hip = [None if x is None else self.t(x) for x in scales]
            got = self.common(q, *stored, table, LENGTHS, kv_cache_dtype="fp8", high_precision=high,
                              K_QScale_hip=hip[0], V_QScale_hip=hip[1],
                              K_QScale_asm=self.t(tokens[0]), V_QScale_asm=self.t(tokens[1]))
            rows = [[z[table[s, :-(-n // P)]].reshape(-1, HK, D)[:n] for s, n in enumerate(LENGTHS)] for z in (x, y)]
            for s in range(4):
                want, _ = support.attention(q[s:s + 1], rows[0][s], rows[1][s], scale=0.1)
                support.close(self.back(got)[s:s + 1], want, support.bound(rows[1][s]) * 5)
        for words, more in (("names a kernel", {"kernelName": "x"}), ("stride0 is 3", {"block_tables_stride0": 3}),
                            ("the cache is fp16", {"kv_cache_dtype": "fp8"})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                self.common(q, k5, v5, table, LENGTHS, **more)
        with self.assertRaisesRegex(aiter.NotServed, "values of four dimensions"):
            self.common(q, k5, v5[..., 0], table, LENGTHS)

    def test_get_recommended_splits(self):
        units = 2 * self.device.compute_units
        self.assertEqual(aiter.get_recommended_splits(1, 1), 8)
        self.assertEqual(aiter.get_recommended_splits(units, 1), 1)
        self.assertEqual(aiter.get_recommended_splits(units // 2, 1), 2)
        self.assertEqual(aiter.get_recommended_splits(units // 2, 1, 4), 4)

    # ---- NHD and HND pages

    def v1(self, q, k, v, table, lengths, **more):
        """Calls paged_attention_v1() on the pages k and v and returns its output. `more` replaces arguments."""
        out = self.t(np.zeros_like(q))
        call = dict(scale=D ** -0.5, block_tables=self.t(table), cu_query_lens=self.t(self.cu(len(lengths))[:-1]),
                    context_lens=self.t(np.array(lengths, np.int32)), max_context_len=max(lengths),
                    alibi_slopes=None, kv_cache_dtype="auto", kv_cache_layout="NHD", logits_soft_cap=0.0,
                    k_scale=self.t(np.ones(1, np.float32)), v_scale=self.t(np.ones(1, np.float32)))
        got = aiter.paged_attention_v1(out, None, self.t(q), k, v, **{**call, **more})
        self.assertIs(got, out)
        return out

    def test_paged_attention_v1(self):
        k, v, table, keys, values = self.paged(LENGTHS, 6)
        q, given = support.random((4, H, D), 7), (self.t(k), self.t(v))
        self.check(self.v1(q, *given, table, LENGTHS), q, self.cu(4), keys, values)
        self.assertIn(self.was_split(4), (None, True))
        transposed = [self.t(np.ascontiguousarray(x.transpose(0, 2, 1, 3))) for x in (k, v)]
        out = self.v1(q, *transposed, table, LENGTHS, kv_cache_layout="HND")
        self.check(out, q, self.cu(4), keys, values)
        out = self.v1(q, *given, table, LENGTHS, sliding_window=300)
        self.check(out, q, self.cu(4), keys, values, window=(299, 0))
        slopes = 0.5 ** np.arange(1, H + 1, dtype=np.float32)
        out = self.v1(q, *given, table, LENGTHS, alibi_slopes=self.t(slopes))
        self.check(out, q, self.cu(4), keys, values, slopes=slopes)
        for more, words in (({"mtp": 2}, "mtp"), ({"fp8_out_scale": 1}, "are not AITER's fp8"),
                            ({"kv_cache_dtype": "fp8"}, "the cache is fp16"),
                            ({"kv_cache_layout": "SHUFFLE"}, "kv_cache_layout"),
                            ({"block_tables": self.t(table[:3])}, "4 queries of 3 sequences")):
            with self.assertRaisesRegex(aiter.NotServed, words):
                self.v1(q, *given, table, LENGTHS, **more)

    def test_paged_attention_v1_fp8(self):
        lengths = [70, 9]
        k, v, table, _, _ = self.paged(lengths, 8)
        stored = [np.random.default_rng(i).integers(0, 120, x.shape).astype(np.uint8)
                  for i, x in enumerate((k, v))]
        keys, values = ([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * np.float32(0.02)
                         for s, n in enumerate(lengths)] for b in stored)
        q, scale = support.random((2, H, D), 9), self.t(np.array([0.02], np.float32))
        out = self.v1(q, *map(self.t, stored), table, lengths, kv_cache_dtype="fp8_e4m3", k_scale=scale,
                      v_scale=scale)
        self.check(out, q, self.cu(2), keys, values, support.bound(values[0]) * 4)

    def test_paged_attention_ragged(self):
        k, v, table, keys, values = self.paged(LENGTHS, 10)
        q, one = support.random((4, H, D), 11), self.t(np.ones(1, np.float32))
        for page in (P, 1):  # SGLang has pages of one token
            pages = [-(-n // page) for n in LENGTHS]
            indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
            if page == 1:
                slots = [table[s, np.arange(n) // P] * P + np.arange(n) % P for s, n in enumerate(LENGTHS)]
            else:
                slots = [table[s, :n] for s, n in enumerate(pages)]
            indices = np.concatenate(slots).astype(np.int32)
            last = np.array([(n - 1) % page + 1 if n else 0 for n in LENGTHS], np.int32)
            for cap in (0.0, 20.0):
                out = self.t(np.zeros_like(q))
                aiter.paged_attention_ragged(
                    out, None, self.t(q), self.t(k.reshape(-1, page, HK, D)),
                    self.t(v.reshape(-1, page, HK, D)), 0.1, self.t(indptr), self.t(indices),
                    self.t(last), page, 4, None, "auto", "NHD", cap, one, one, None, 256)
                self.check(out, q, self.cu(4), keys, values, scale=0.1, cap=cap)
        with self.assertRaisesRegex(aiter.NotServed, "block_size: it is 32"):
            aiter.paged_attention_ragged(out, None, self.t(q), self.t(k), self.t(v), 0.1, self.t(indptr),
                                         self.t(indices), self.t(last), 32, 1, None, "auto", "NHD", 0, one,
                                         one)

    def test_flash_attn_func(self):
        q, k, v = (support.random((2, n, h, D), n + h) for n, h in ((5, H), (20, HK), (20, HK)))
        for causal in (False, True):
            out, lse = aiter.flash_attn_func(*map(self.t, (q, k, v)), 0.0, 0.1, causal, return_lse=True)
            for s in range(2):
                want, want_lse = support.attention(q[s], k[s], v[s], scale=0.1, causal=causal)
                support.close(self.back(out)[s], want, support.bound(v))
                support.close(self.back(lse)[s], want_lse, 1e-3)

    def rank(self, rows, q, lengths, ranks, rank, planned):
        """Computes the attention of one of several ranks that share contexts. The rank has rows `rank`, `rank` +
        `ranks`, ... of each context. Returns (out, lse), and for each sequence the start of its rows and the numbers of
        those the rank has."""
        shares = [np.arange(rank, n, ranks) for n in lengths]
        starts, local = (np.concatenate([[0], np.cumsum(n)]).astype(np.int32)
                         for n in (lengths, [len(x) for x in shares]))
        slots = np.concatenate([starts[s] + x for s, x in enumerate(shares)]).astype(np.int32)
        lists = [self.t(x) for x in (np.array([0, 2, 3, 5], np.int32), local, slots, np.ones(3, np.int32))]
        plan, out = {}, self.t(np.zeros((5, 6, 512), np.float16))
        if planned:
            names = ("work_metadata_ptrs", "work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map",
                     "reduce_partial_map")
            room = aiter.get_mla_metadata_info_v1(3, 2, 6, None, None, False)
            plan = {n: self.t(np.zeros(shape, np.int32)) for n, (shape, _) in zip(names, room)}
            aiter.get_mla_metadata_v1(lists[0], lists[1], lists[3], 6, 1, True, **plan, max_seqlen_qo=2,
                                      is_cp_round_robin=True)
            del plan["work_metadata_ptrs"]
        _, lse = aiter.mla_decode_fwd(
            self.t(q), self.t(rows), out, *lists, 2, sm_scale=0.05, return_lse=True, g_kv_indptr=self.t(starts),
            cp_world_size=ranks, cp_rank=rank, **plan)
        return self.back(out), self.back(lse), [(starts[s], x) for s, x in enumerate(shares)]

    def test_contexts_that_ranks_share(self):
        lengths, ranks, cu = [400, 33, 2], 3, [0, 2, 3, 5]
        rows, q = support.random((sum(lengths), 1, 1, 576), 1), support.random((5, 6, 576), 2)
        for rank in range(ranks):
            out, lse, shares = self.rank(rows, q, lengths, ranks, rank, rank == 1)
            for s, (start, tokens) in enumerate(shares):
                for t in range(cu[s], cu[s + 1]):
                    c = rows[start + tokens[tokens <= lengths[s] - cu[s + 1] + t], 0]
                    want, want_lse = support.attention(q[t:t + 1], c, c[..., :512], scale=0.05, causal=False)
                    support.close(out[t:t + 1], want, support.bound(c), f"rank {rank}, query {t}")
                    if np.isfinite(want_lse).all():
                        support.close(lse[t:t + 1].T, want_lse, 1e-3, f"rank {rank}, lse {t}")
                    else:
                        self.assertTrue(np.isneginf(lse[t]).all())
        with self.assertRaisesRegex(aiter.NotServed, "need g_kv_indptr"):
            aiter.mla_decode_fwd(self.t(q), self.t(rows), self.t(q[..., :512]), *[None] * 4, 2, cp_world_size=2)

    # ---- Latent attention

    def latent(self, q_lens, lengths, call, **more):
        """Compares latent attention by the function `call` with the formula in doubles, for sequences of `q_lens`
        queries and `lengths` keys. Returns (out, lse)."""
        heads, cu = 5, np.concatenate([[0], np.cumsum(q_lens)]).astype(np.int32)
        rows, q = support.random((1100, 1, 1, 576), 1), support.random((int(cu[-1]), heads, 576), 2)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        slots = np.random.default_rng(3).permutation(1100)[:indptr[-1]].astype(np.int32)
        out = self.t(np.zeros((int(cu[-1]), heads, 512), np.float16))
        last = self.t(np.ones(len(lengths), np.int32))
        got = call(self.t(q), self.t(rows), out, self.t(cu), self.t(indptr), self.t(slots), last,
                   max(q_lens), sm_scale=0.05, **more)
        lse = None if got[1] is None else self.back(got[1]).reshape(-1, heads)
        for s in range(len(lengths)):
            c = rows[slots[indptr[s]:indptr[s + 1]], 0]
            want, want_lse = support.attention(q[cu[s]:cu[s + 1]], c, c[..., :512], scale=0.05)
            support.close(self.back(out)[cu[s]:cu[s + 1]], want, support.bound(c))
            if lse is not None:
                support.close(lse[cu[s]:cu[s + 1]].T, want_lse, 1e-3)
        return got[0], lse

    def test_mla_decode_fwd_without_metadata(self):
        parts, lse = self.latent([1, 2], [1000, 33], aiter.mla_decode_fwd, return_lse=True)
        self.assertIsNone(parts)
        self.assertIsNotNone(lse)
        self.assertIn(self.was_split(2), (None, True))
        self.session.buffers.clear()
        splits, indptr = aiter.get_meta_param(1, 2, 1033, 5, 2, "bf16")
        self.latent([1, 2], [1000, 33], aiter.mla_decode_fwd, num_kv_splits=splits,
                    num_kv_splits_indptr=indptr)
        self.assertIn(self.was_split(2), (None, False))
        self.assertEqual([int(n) for n in indptr], [0, 1, 2])
        splits, indptr = aiter.get_meta_param(None, 2, 1033, 5, 2, "bf16")
        self.assertEqual([int(n) for n in indptr], [0, splits, 2 * splits])
        self.assertEqual(splits, 16)

    def test_the_plan_of_the_next_draft(self):
        names = ("work_metadata_ptrs", "work_indptr", "work_info_set", "reduce_indptr",
                 "reduce_final_map", "reduce_partial_map")
        room = aiter.get_mla_metadata_info_v1(2, 3, 5, None, None, False)
        plan = {n: self.t(np.zeros(shape, np.int32)) for n, (shape, _) in zip(names, room)}
        last = self.t(np.ones(2, np.int32))
        aiter.get_mla_metadata_v1(self.t(np.array([0, 3, 6], np.int32)),
                                  self.t(np.array([0, 900, 940], np.int32)), last, 5, 1, True, **plan,
                                  max_seqlen_qo=3)
        aiter.decode_update_mla_metadata_v1(  # the first sequence has 100 keys more, the second 7 less
            self.t(np.array([0, 3, 6], np.int32)), self.t(np.array([0, 1000, 1033], np.int32)), last, 5, 1,
            True, **plan, num_reject_tokens=self.t(np.array([-99, 8], np.int32)))
        del plan["work_metadata_ptrs"]
        self.latent([1, 1], [1000, 33], aiter.mla_decode_fwd, **plan)
        self.assertGreater(int(self.back(plan["reduce_indptr"])[2]), 1, "nothing was split")

    def test_mla_prefill_fwd(self):
        out, lse = self.latent([4, 3], [700, 3], aiter.mla_prefill_fwd)
        self.assertIsNotNone(lse)
        # Numbers of queries that no kernel of the pack has, so the call is made in pieces.
        for q_lens in ([3, 1], [65, 4, 9], [1, 80]):
            _, lse = self.latent(q_lens, [400, 90, 30][:len(q_lens)], aiter.mla_prefill_fwd)
            self.assertIsNotNone(lse)
        with self.assertRaisesRegex(aiter.NotServed, "no soft cap"):
            self.latent([3], [700], aiter.mla_prefill_fwd, logit_cap=30.0)

    def test_layers_of_a_step_share_a_plan(self):
        ops, kept = [], []
        original = self.session.op

        def op(kind, **desc):
            ops.append(kind)
            return original(kind, **desc)

        def layer(q, rows, out, *lists, **more):
            if not kept:  # the plan reads the lists, and neither queries nor rows
                nothing = [self.t(np.zeros(x.shape, np.float16)) for x in (q, rows, out)]
                kept.append(_mla.plan_prefill(*nothing, *lists, **more))
            return out, kept[0](q, rows, out)

        with mock.patch.object(self.session, "op", op):
            for _ in range(2):
                self.latent([65, 4, 9], [400, 90, 30], layer)
        self.assertEqual(ops.count("plan"), 1)

    def test_mla_gluon(self):
        lengths, heads = [700, 33, 2], 5
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        rows, slots = support.random((800, 576), 1), np.random.default_rng(3).permutation(800)[:indptr[-1]]
        slots, table = slots.astype(np.int32), np.zeros((3, 700), np.int32)
        for s, n in enumerate(lengths):
            table[s, :n] = slots[indptr[s]:indptr[s + 1]]
        wide, apart = (support.random((3, 2, heads, 576), i) for i in (2, 4))
        # Q and its rotated part are views of one tensor, then two tensors.
        for q, cut in ((wide, lambda x: (x[..., :512], x[..., 512:])),
                       (apart, lambda x: [self.t(np.ascontiguousarray(self.back(y))) for y in (x[..., :512], x[..., 512:])])):
            for lists in ((self.t(table), self.t(np.array(lengths, np.int64)), True),
                          (self.t(slots), self.t(indptr), False)):
                out = self.t(np.zeros((3, 2, heads, 512), np.float16))
                got, lse = aiter.mla_gluon(*cut(self.t(q)), self.t(rows), out, *lists[:2], 0.05, use_2d_view=lists[2],
                                           return_lse=True)
                self.assertIs(got, out)
                for s, n in enumerate(lengths):
                    x = rows[table[s, :n], None]
                    want, want_lse = support.attention(q[s], x, x[..., :512], scale=0.05)
                    support.close(self.back(out)[s], want, support.bound(x))
                    support.close(self.back(lse)[s].T, want_lse, 1e-3)
        one = self.t(np.zeros((3, heads, 512), np.float16))
        given = (self.t(wide[:, 0, :, :512].copy()), self.t(wide[:, 0, :, 512:].copy()), self.t(rows), one, self.t(slots),
                 self.t(indptr), 0.05)
        aiter.mla_gluon(*given, use_2d_view=False)
        want, _ = support.attention(wide[0, :1], rows[table[0], None], rows[table[0], None, :512], scale=0.05)
        support.close(self.back(one)[:1], want, support.bound(rows))
        for words, more in (("one row", {"k_pe": one}), ("the cache is fp16", {"kv_scale": 0.5}),
                            ("512 elements", {"kv_pe_offset": 0})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.mla_gluon(*given, use_2d_view=False, **more)

    def test_mla_gluon_without_pe(self):
        lengths, heads = [1152, 0, 5], 7
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        rows, q = support.random((900, 512), 1), support.random((3, heads, 512), 2)
        # Some slots are in the list twice.
        slots = np.random.default_rng(3).integers(0, 900, indptr[-1]).astype(np.int32)
        sinks, out = support.random(heads, 4, np.float32), self.t(np.zeros((3, heads, 512), np.float16))
        sinks[1] = -np.inf
        _, lse = aiter.mla_gluon(self.t(q), None, self.t(rows), out, self.t(slots), self.t(indptr), 512 ** -0.5,
                                 has_pe=False, attn_sink=self.t(sinks), return_lse=True)
        for s, n in enumerate(lengths):
            x = rows[slots[indptr[s]:indptr[s + 1]], None]
            want, want_lse = support.attention(q[s][None], x, x, scale=512 ** -0.5, sinks=sinks)
            support.close(self.back(out)[s][None], want, support.bound(rows))
            if n:
                support.close(self.back(lse)[s].T, want_lse, 1e-3)
            else:
                np.testing.assert_allclose(self.back(lse)[s, 0], sinks, rtol=1e-6)

    def lists_of_rows(self, lengths, rows, seed):
        """Makes random lists of rows of a pool, one for each query; a ninth of the entries are -1. Returns (entries of
        all lists, starts of the lists)."""
        starts, random = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), np.random.default_rng(seed)
        entries = random.integers(0, rows, starts[-1]).astype(np.int32)
        entries[::9] = -1
        return entries, starts

    def compare_lists(self, got, q, sinks, lists):
        """Compares an output with attention over each query's listed rows. `lists` has (rows, entries, starts) for each
        cache."""
        for t in range(len(q)):
            own = [rows[x[x >= 0]] for rows, x in ((rows, entries[starts[t]:starts[t + 1]]) for rows, entries, starts in lists)]
            x = np.concatenate(own)[:, None]
            want, _ = support.attention(q[t][None], x, x, scale=512 ** -0.5, sinks=sinks)
            support.close(self.back(got)[t][None], want, support.bound(lists[0][0]))

    def test_scores_of_keys_of_4_bits(self):
        random, page, pages, heads = np.random.default_rng(1), 64, 4, 64
        pool, lens = random.integers(0, 256, (pages, page * 68)).astype(np.uint8), np.int32([150, 70])
        pool[:, page * 64:] = random.integers(120, 130, (pages, page * 4))
        q, weights = support.fp8_bytes((2, 2, heads, 128), 2), random.random((4, heads)).astype(np.float32)
        table, logits = np.int32([[3, 0, 2], [1, 2, 0]]), self.t(np.zeros((4, 192), np.float32))
        call = [self.t(x) for x in (q, pool.reshape(pages, page, 1, 68), weights)], [self.t(lens), self.t(table), 192]
        if support.TARGET != "gfx950":
            with self.assertRaisesRegex(aiter.NotServed, "gfx942 has no matrix instruction for keys of 4 bits"):
                aiter.deepgemm_fp8_paged_mqa_logits(*call[0], logits, *call[1], KVBlockSize=page)
            return
        aiter.deepgemm_fp8_paged_mqa_logits(*call[0], logits, *call[1], KVBlockSize=page)
        numbers = np.float64([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        numbers = np.concatenate([numbers, -numbers])
        codes = pool[:, :page * 64].reshape(pages * page, 64)
        scales = 2.0 ** (pool[:, page * 64:].reshape(pages * page, 4).astype(int) - 127)
        keys = numbers[np.stack([codes & 15, codes >> 4], -1).reshape(pages * page, 128)] * np.repeat(scales, 32, -1)
        for r in range(4):
            s, n = r // 2, lens[r // 2] - 1 + r % 2
            own = keys.reshape(pages, page, 128)[table[s]].reshape(-1, 128)[:n]
            products = np.maximum(FP8[q[s, r % 2]] @ own.T, 0)
            want, most = weights[r].astype(np.float64) @ products, (np.abs(FP8[q[s, r % 2]]) @ np.abs(own.T)).sum(0)
            got = self.back(logits)[r]
            self.assertLess(np.abs(got[:n] - want).max(), 2.0 ** -15 * most.max())
            self.assertTrue((got[n:] == 0).all())

    def test_lists_of_rows_of_one_pool(self):
        rows, q, sinks = support.random((300, 512), 1), support.random((4, 7, 512), 2), support.random(7, 4, np.float32)
        entries, starts = self.lists_of_rows([130, 0, 5, 61], 300, 3)
        given = [self.t(x) for x in (q, rows, entries, starts, sinks)]
        self.compare_lists(aiter.pa_decode_sparse(*given, 512 ** -0.5, kv_splits=2), q, sinks, [(rows, entries, starts)])
        got = aiter.pa_prefill_sparse(*given[:4], None, None, None, given[4], 512 ** -0.5)
        self.compare_lists(got, q, sinks, [(rows, entries, starts)])
        pages = [given[0], self.t(rows.reshape(300, 1, 512)), *given[2:]]
        self.compare_lists(aiter.pa_decode_sparse(*pages, 512 ** -0.5), q, sinks, [(rows, entries, starts)])
        none = self.t(entries[:0]), self.t(np.zeros(5, np.int32))
        self.assertTrue((self.back(aiter.pa_decode_sparse(*given[:2], *none, given[4], 512 ** -0.5)) == 0).all())
        # With one part the call without reduction returns the output.
        one = aiter.pa_decode_sparse(*given, 512 ** -0.5, kv_splits=1, skip_reduce=True)
        self.compare_lists(one, q, sinks, [(rows, entries, starts)])
        for words, more in (("kv_scales is of rows of fp8", {"kv_scales": given[4]}), ("skip_reduce", {"skip_reduce": True}),
                            ("extra_cache: .*rows of one form", {"extra_cache": given[4][:, None], "extra_indices": given[2],
                                                                 "extra_indptr": given[3]})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.pa_decode_sparse(*given, 512 ** -0.5, **more)

    def test_lists_of_rows_of_two_caches(self):
        rows, other = support.random((300, 512), 1), support.random((40, 512), 5)
        q, sinks = support.random((4, 7, 512), 2), support.random(7, 4, np.float32)
        pool, own = self.lists_of_rows([70, 0, 5, 0], 300, 3), self.lists_of_rows([3, 20, 0, 0], 40, 6)
        got = aiter.pa_decode_sparse(
            self.t(q), self.t(rows), *map(self.t, pool), self.t(sinks), 512 ** -0.5, extra_cache=self.t(other.reshape(10, 4, 512)),
            extra_indices=self.t(own[0]), extra_indptr=self.t(own[1]))
        self.compare_lists(got, q, sinks, [(rows, *pool), (other, *own)])
        got = aiter.pa_decode_sparse(self.t(q), self.t(rows), *map(self.t, pool), self.t(sinks), 512 ** -0.5,
                                     # A second cache without lists of its rows is not read.
                                     extra_cache=self.t(other.reshape(10, 4, 512)))
        self.compare_lists(got, q, sinks, [(rows, *pool)])

    def test_lists_of_rows_of_a_pool_and_of_this_pass(self):
        rows, new, q = support.random((300, 512), 1), support.random((40, 512), 5), support.random((4, 7, 512), 2)
        sinks = support.random(7, 4, np.float32)
        for lengths, more in (([70, 0, 5, 0], [3, 20, 0, 0]), ([0, 0, 0, 0], [3, 20, 1, 0]), ([9, 1, 5, 2], [0, 0, 0, 0])):
            pool, own = self.lists_of_rows(lengths, 300, 3), self.lists_of_rows(more, 40, 6)
            given = [self.t(x) for x in (q, rows, *pool, new, *own, sinks)]
            lists, out = [(rows, *pool), (new, *own)], self.t(np.zeros_like(q))
            self.compare_lists(aiter.pa_prefill_sparse(*given, 512 ** -0.5), q, sinks, lists)
            self.assertIs(aiter.pa_sparse_prefill_opus(*given, 512 ** -0.5, out=out), out)
            self.compare_lists(out, q, sinks, lists)
        pool, own = self.lists_of_rows([9, 1, 5, 2], 300, 3), self.lists_of_rows([0] * 4, 40, 6)
        given = [self.t(x) for x in (q, rows, *pool, new[:0], *own, sinks)]
        self.compare_lists(aiter.pa_prefill_sparse(*given, 512 ** -0.5), q, sinks, [(rows, *pool)])

    @staticmethod
    def mixed_rows(shape, seed):
        """Returns (a, b, c, values) of random rows: 448 elements of fp8, 64 of 16 bits, the bytes of 7 scales, and the 512
        values."""
        random = np.random.default_rng(seed)
        narrow = random.integers(0, 120, (*shape, 448)).astype(np.uint8)  # bytes of positive fp8 numbers
        wide = support.random((*shape, 64), seed + 1)
        exponents = random.integers(115, 119, (*shape, 7)).astype(np.uint8)
        values = FP8[narrow] * np.repeat(2.0 ** (exponents.astype(int) - 127), 64, -1)
        return narrow, wide, exponents, np.concatenate([values, wide.astype(np.float64)], -1)

    def pool_of_584_bytes(self, pages, page, seed):
        """Returns a pool [pages, page, 584] of rows with fp8 elements, 16-bit elements and scales, and the rows'
        values."""
        narrow, wide, exponents, values = self.mixed_rows((pages, page), seed)
        pool = np.zeros((pages, page * 584), np.uint8)
        pool[:, :page * 576] = np.concatenate([narrow, wide.view(np.uint8)], -1).reshape(pages, -1)
        pool[:, page * 576:].reshape(pages, page, 8)[..., :7] = exponents
        return pool.reshape(pages, page, 584), values.reshape(-1, 512)

    def planes(self, shape, seed):
        """Returns rows in two tensors, [..., 512] of bytes and [..., 64] of 16 bits, and the rows' values. Bytes
        without an element are NaNs of fp8."""
        narrow, wide, exponents, values = self.mixed_rows(shape, seed)
        unused = np.full((*shape, 50), 0xff, np.uint8)
        return np.concatenate([narrow, np.repeat(exponents, 2, -1), unused], -1), wide, values

    def test_lists_of_rows_in_two_tensors(self):
        narrow, wide, rows = self.planes((60,), 1)
        packed, rotated, q = self.planes((3, 7), 4)
        sinks, out = support.random(7, 4, np.float32), self.t(np.zeros((3, 7, 512), np.float16))
        entries, starts = self.lists_of_rows([50, 0, 33], 60, 5)
        pool = self.t(narrow[:, None, None]), self.t(wide[:, None, None])
        given = self.t(packed), self.t(rotated), *pool, out, self.t(self.cu(3)), self.t(starts), self.t(entries)
        got, _ = aiter.mla_decode_fwd_v4_nm(*given, 1, sink=self.t(sinks))
        self.assertEqual(tuple(got.shape), (3, 1, 7, 512))
        self.compare_lists(out, q, sinks, [(rows, entries, starts)])
        aiter.mla_decode_v4_asm(*given[:4], *given[5:], None, self.t(sinks), 1, 512 ** -0.5, 1, 1, None, None, out)
        self.compare_lists(out, q, sinks, [(rows, entries, starts)])
        for words, more in (("max_seqlen_q", {"max_seqlen_q": 2}), ("logits", {"max_seqlen_q": 1, "logits": out})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.mla_decode_fwd_v4_nm(*given, **more, sink=self.t(sinks))
        with self.assertRaisesRegex(aiter.NotServed, "2 KV heads"):
            aiter.mla_decode_fwd_v4_nm(*given[:2], *(self.t(x.reshape(30, 1, 2, -1)) for x in (narrow, wide)), *given[4:], 1,
                                       sink=self.t(sinks))
        with self.assertRaisesRegex(aiter.NotServed, "parts of an output"):
            aiter.mla_decode_v4_asm(*given[:4], *given[5:], None, self.t(sinks), 1, 1.0, 0, 4, None, None, out)

    def test_prompts_of_rows_in_two_tensors(self):
        narrow, wide, rows = self.planes((60,), 1)
        new_narrow, new_wide, new = self.planes((9,), 7)
        packed, rotated, q = self.planes((3, 7), 4)
        sinks = support.random(7, 4, np.float32)
        pool, own = self.lists_of_rows([50, 0, 33], 60, 5), self.lists_of_rows([2, 8, 9], 9, 6)
        given = [self.t(x) for x in (packed, rotated, narrow, wide, *pool, new_narrow, new_wide, *own, sinks)]
        self.compare_lists(aiter.pa_sparse_prefill_fp8_opus(*given, 512 ** -0.5), q, sinks, [(rows, *pool), (new, *own)])
        given[6:10] = given[6][:0], given[7][:0], self.t(own[0][:0]), self.t(np.zeros(4, np.int32))
        self.compare_lists(aiter.pa_sparse_prefill_fp8_opus(*given, 512 ** -0.5), q, sinks, [(rows, *pool)])

    def test_lists_of_rows_of_584_bytes(self):
        pool, rows = self.pool_of_584_bytes(20, 4, 1)
        more, more_rows = self.pool_of_584_bytes(7, 4, 8)
        q, sinks = support.random((3, 7, 512), 3), support.random(7, 4, np.float32)
        entries, starts = self.lists_of_rows([50, 0, 33], len(rows), 5)
        given = [self.t(x) for x in (q, pool, entries, starts, sinks)]
        self.compare_lists(aiter.pa_decode_sparse(*given, 512 ** -0.5), q, sinks, [(rows, entries, starts)])
        own = self.lists_of_rows([9, 4, 0], len(more_rows), 9)
        extra = {"extra_cache": self.t(more), "extra_indices": self.t(own[0]), "extra_indptr": self.t(own[1])}
        got = aiter.pa_decode_sparse(*given, 512 ** -0.5, **extra)
        self.compare_lists(got, q, sinks, [(rows, entries, starts), (more_rows, *own)])
        extra["extra_cache"] = self.t(more.reshape(14, 2, 584))
        with self.assertRaisesRegex(aiter.NotServed, "pages of one size"):
            aiter.pa_decode_sparse(*given, 512 ** -0.5, **extra)
        with self.assertRaisesRegex(aiter.NotServed, "no multiple of 16 bytes"):
            aiter.pa_decode_sparse(self.t(q), self.t(pool.reshape(-1, 1, 584)), self.t(entries), self.t(starts), self.t(sinks), 1.0)

    def test_decode_attention_fwd(self):
        lengths, heads, page = [1000, 33, 0], 5, 16
        pages = [-(-n // page) for n in lengths]
        rows, q = support.random((80, page, 1, 576), 1), support.random((3, heads, 576), 2)
        table = np.full((3, max(pages)), -1, np.int32)
        order = np.random.default_rng(3).permutation(80)
        table[0, :pages[0]], table[1, :pages[1]] = order[:pages[0]], order[-pages[1]:]
        buffer = self.t(rows)
        for splits in (4, 1):
            self.session.buffers.clear()
            out, lse = self.t(np.zeros((3, heads, 512), np.float16)), self.t(np.zeros((3, heads), np.float32))
            aiter.decode_attention_fwd(
                self.t(q), buffer, buffer[..., :512], out, lse, self.t(table),
                self.t(np.array(lengths, np.int32)), None, splits, 0.05, page)
            self.assertIn(self.was_split(3), (None, splits > 1))
            for s, n in enumerate(lengths):
                c = rows[table[s, :pages[s]]].reshape(-1, 1, 576)[:n]
                want, want_lse = support.attention(q[s:s + 1], c, c[..., :512], scale=0.05)
                support.close(self.back(out)[s:s + 1], want, support.bound(c))
                got = self.back(lse)[s]
                if n:
                    support.close(got, want_lse[:, 0], 1e-3)
                else:
                    self.assertTrue(np.isneginf(got).all())
        with self.assertRaisesRegex(aiter.NotServed, "values that are not the first"):
            aiter.decode_attention_fwd(self.t(q), buffer, self.t(rows[..., :512].copy()), out, lse,
                                       self.t(table), self.t(np.array(lengths, np.int32)), None, 1, 0.05, page)

    def test_fused_qk_rmsnorm(self):
        tokens = 5
        qkv = support.random((tokens, 400), 1)  # q and k are views of one tensor, the output of a matrix product
        q, k = qkv[:, :256], qkv[:, 256:384]
        qw, kw = support.random((256,), 2), support.random((128,), 3)
        whole, w = self.t(qkv), [self.t(qw), self.t(kw)]

        def norm(x, weight):
            x = x.astype(np.float64)
            return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * weight

        limit = 4 * support.HALF * float(np.abs(norm(q, qw)).max())
        plain, k_out = self.t(np.zeros((tokens, 256), np.float16)), self.t(np.zeros((tokens, 128), np.float16))
        aiter.fused_qk_rmsnorm(plain, None, whole[:, :256], w[0], 1e-6, None, k_out, None,
                               whole[:, 256:384], w[1], 1e-6)
        older = _forms.fused_qk_rmsnorm(whole[:, :256], w[0], 1e-6, whole[:, 256:384], w[1], 1e-6)
        for outs in ((plain, k_out), older):
            support.close(self.back(outs[0]), norm(q, qw), limit)
            support.close(self.back(outs[1]), norm(k, kw), limit)
        for transposed in (False, True):
            out, scales = self.t(np.zeros((tokens, 256), np.uint8)), self.t(np.zeros((tokens, 2), np.float32))
            plain, k_out = (self.t(np.zeros((tokens, n), np.float16)) for n in (256, 128))
            aiter.fused_qk_rmsnorm_group_quant(
                out, scales, whole[:, :256], w[0], 1e-6, plain, k_out, None, whole[:, 256:384], w[1], 1e-6,
                transpose_scale=transposed)
            scale = self.back(scales).reshape(2, tokens).T if transposed else self.back(scales)
            want = norm(q, qw).reshape(tokens, 2, 128)
            np.testing.assert_allclose(scale, np.abs(want).max(2) / FP8_MAX, 1e-2)
            got = FP8[self.back(out)].reshape(tokens, 2, 128) * scale[..., None]
            self.assertTrue((np.abs(got - want) <= np.abs(want) / 15 + scale[..., None] * 2.0 ** -10).all())
            support.close(self.back(plain), norm(q, qw), limit)
            support.close(self.back(k_out), norm(k, kw), limit)
        for more, words in (({"gemma_norm": True}, "gemma_norm: AITER passes over it"), ({"k_epsilon": 1e-5}, "one for both"),
                            ({"q_residual": plain}, "q_residual: AITER passes over it"), ({"group_size": 32}, "128 elements"),
                            ({"q_residual": plain, "quant_type": 4}, "it needs q_res_out")):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.fused_qk_rmsnorm(**{**dict(
                    q_out_quantized=out, q_out_scale=scales, q=whole[:, :256], q_weight=w[0], k_out=k_out,
                    k=whole[:, 256:384], k_weight=w[1]), **more})
        with self.assertRaisesRegex(aiter.NotServed, "5 scales of 5 rows"):
            aiter.fused_qk_rmsnorm(out, self.t(np.zeros((tokens, 1), np.float32)), whole[:, :256], w[0])


    def test_norms_of_gemma_with_a_residual(self):
        tokens = 5
        q, other, k = (support.random((tokens, n), i) for i, n in enumerate((256, 256, 128)))
        weights = [support.random((n,), n) * np.float16(0.1) for n in (256, 128)]
        total = (q.astype(np.float64) + other).astype(np.float16)

        def norm(x, weight):
            x = x.astype(np.float64)
            return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * (1 + weight.astype(np.float64))

        want = norm(q.astype(np.float64) + other, weights[0])
        limit = 4 * support.HALF * float(np.abs(want).max())

        def once(got):
            """Checks that an element is off by its own rounding only, without the error of a rounded sum."""
            self.assertTrue((np.abs(self.back(got) - want) <= 1.02 * support.HALF * np.abs(want) + 2.0 ** -25).all())

        # ATOM calls the norm first without quantisation, then with a scale for each 128 elements.
        plain, sums = (self.t(np.zeros((tokens, 256), np.float16)) for _ in range(2))
        given, w = [self.t(x) for x in (q, other, k)], [self.t(x) for x in weights]
        aiter.fused_qk_rmsnorm_group_quant(q=given[0], q_weight=w[0], q_epsilon=1e-6, q_out_unquantized=plain,
                                           q_res_out=sums, q_residual=given[1], gemma_norm=True)
        np.testing.assert_array_equal(self.back(sums), total)
        once(plain)
        out, scales = self.t(np.zeros((tokens, 256), np.uint8)), self.t(np.zeros((tokens, 2), np.float32))
        plain, sums, k_out = (self.t(np.zeros((tokens, n), np.float16)) for n in (256, 256, 128))
        sums[...] = given[1]  # one tensor is the residual and then gets the sum
        aiter.fused_qk_rmsnorm(out, scales, given[0], w[0], 1e-6, plain, k_out, sums, given[2], w[1], 1e-6, sums, True,
                               quant_type=4)
        np.testing.assert_array_equal(self.back(sums), total)
        once(plain)
        support.close(self.back(k_out), norm(k, weights[1]), limit)
        scale, parts = self.back(scales), want.reshape(tokens, 2, 128)
        np.testing.assert_allclose(scale, np.abs(parts).max(2) / FP8_MAX, 1e-2)
        got = FP8[self.back(out)].reshape(tokens, 2, 128) * scale[..., None]
        self.assertTrue((np.abs(got - parts) <= np.abs(parts) / 15 + scale[..., None] * 2.0 ** -10).all())


    def test_norms_with_a_scale_of_each_row(self):
        tokens = 5
        q, k = (support.random((tokens, n), i) for i, n in enumerate((256, 128)))
        qw, kw = support.random((256,), 2), support.random((128,), 3)
        x = q.astype(np.float64)
        want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * qw
        for call, kind in ((aiter.fused_qk_rmsnorm_per_token_quant, {}), (aiter.fused_qk_rmsnorm, {"quant_type": 2})):
            out, scales = self.t(np.zeros((tokens, 256), np.uint8)), self.t(np.zeros((tokens, 1), np.float32))
            k_out = self.t(np.zeros((tokens, 128), np.float16))
            call(q_out_quantized=out, q_out_scale=scales, q=self.t(q), q_weight=self.t(qw), q_epsilon=1e-6, k_out=k_out,
                 k=self.t(k), k_weight=self.t(kw), k_epsilon=1e-6, **kind)
            np.testing.assert_allclose(self.back(scales), np.abs(want).max(1, keepdims=True) / FP8_MAX, 1e-2)
            got = FP8[self.back(out)] * self.back(scales)
            self.assertTrue((np.abs(got - want) <= np.abs(want) / 15 + self.back(scales) * 2.0 ** -10).all())
            y = k.astype(np.float64)
            y = y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-6) * kw
            support.close(self.back(k_out), y, 4 * support.HALF * float(np.abs(y).max()))
        with self.assertRaisesRegex(aiter.NotServed, "10 scales of 5 rows: each 256 elements"):
            aiter.fused_qk_rmsnorm_per_token_quant(out, self.t(np.zeros((tokens, 2), np.float32)), self.t(q), self.t(qw), 1e-6)


WithNumpy, WithTorch = base.twice(Decode)


class Table(unittest.TestCase):
    def test_the_page_has_the_table(self):
        page = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"
        self.assertIn("\n\n" + aiter.table() + "\n", page.read_text(),
                      "docs/python.md is old: python3 -m attn.aiter prints its tables")
        own = ("NotInstalled", "NotServed", "install", "uninstall", "use", "served", "reason", "table")
        names = [n for n in aiter.__all__ if n not in own]
        self.assertEqual(sorted(names), sorted(set(names)))
        for name in names:
            self.assertIn(f"`{name}`", aiter.table())
            self.assertEqual(aiter.served(name), getattr(getattr(aiter, name), "served", True), name)


if __name__ == "__main__":
    unittest.main()
