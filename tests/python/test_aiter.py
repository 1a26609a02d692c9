# SPDX-License-Identifier: Apache-2.0
"""Tests the calls of attn.aiter against references of AITER's documented semantics. Arguments have the forms that
engines pass: views, None, given outputs, sinks in the model's type. Tests run with numpy, and again with torch where it
is installed."""
import pathlib
import unittest

import numpy as np

import attn
import attn.aiter as aiter
import support
from support import FP8, FP8_MAX, FP8_TINY

torch = support.find_torch()
H, HK, D, P, X = 4, 2, 128, 16, 8
GQA = H // HK


def shuffle_k(pages, x=X):
    """Returns NHD pages of keys [page, token, head, element] in AITER's layout [page, head, element / x, token, x]."""
    n, p, h, d = pages.shape
    return np.ascontiguousarray(pages.reshape(n, p, h, d // x, x).transpose(0, 2, 3, 1, 4))


def shuffle_v(pages, x=X):
    """Returns NHD pages of values [page, token, head, element] in AITER's layout [page, head, token / x, element,
    x]."""
    n, p, h, d = pages.shape
    return np.ascontiguousarray(pages.reshape(n, p // x, x, h, d).transpose(0, 3, 1, 4, 2))


def unshuffle_k(k):
    """Returns NHD pages of keys in AITER's layout: the reverse of shuffle_k()."""
    n, h, dx, p, x = k.shape
    return k.transpose(0, 3, 1, 2, 4).reshape(n, p, h, dx * x)


def unshuffle_v(v):
    """Returns NHD pages of values in AITER's layout: the reverse of shuffle_v()."""
    n, h, px, d, x = v.shape
    return v.transpose(0, 2, 4, 1, 3).reshape(n, px * x, h, d)


ALIBI = str(pathlib.Path(__file__).resolve().parents[2] / "examples/hooks/alibi.c")
KERNELS = [
    {"op": "prefill", "head_dim": D, "logits": ALIBI, "mask": ["causal", "none", "window"]},
    {"op": "prefill", "head_dim": D, "logits": ALIBI, "paged": True, "page_size": "any"},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "logits": ALIBI},
    {"op": "prefill", "head_dim": D, "mask": ["causal", "none"], "lse": [False, True]},
    {"op": "prefill", "head_dim": D, "mask": "window", "sinks": True},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": "any", "lse": [False, True],
     "page_table": "indices"},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": "any"},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": P, "kv_layout": "shuffle",
     "page_table": "indices", "mask": "window"},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": ["nhd", "shuffle"]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": "shuffle", "q_len": 4,
     "kv_dtype": "fp8", "kv_scale": "token", "lse": [False, True],
     "page_table": ["blocks", "indices"]},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_layout": "shuffle", "q_len": 2,
     "mask": "window", "sinks": True},
    {"op": "decode", "head_dim": D, "page_size": P, "gqa": GQA, "kv_dtype": "fp8",
     "kv_scale": ["tensor", "head"]},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": "any", "kv_dtype": "fp8", "kv_scale": "head",
     "page_table": ["blocks", "indices"]},
    {"op": "combine", "head_dim": D, "partials": ["csr", "pair"]}, {"op": "plan"},
    {"op": "combine", "head_dim": 512, "partials": "csr"},
    {"op": "cache_write", "head_dim": D, "kv_layout": ["nhd", "shuffle"]},
    {"op": "cache_write", "head_dim": D, "kv_layout": ["shuffle", "shuffle_k"], "kv_dtype": "fp8",
     "kv_scale": ["token", "block"]},
    {"op": "cache_write", "head_dim": D, "kv_dtype": "fp8", "kv_scale": ["tensor", "head"]},
    {"op": "cache_gather", "head_dim": D, "kv_layout": ["nhd", "shuffle"]},
    {"op": "cache_gather", "head_dim": D, "kv_layout": "shuffle", "kv_dtype": "fp8",
     "kv_scale": "token"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "neox", "norm": "rms", "rotary_dim": 64,
     "keep_kv": True, "kv_layout": "shuffle", "cos_sin": "f32"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "gptj", "norm": "rms", "rotary_dim": D,
     "kv_layout": "nhd", "cos_sin": "same"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "neox", "rotary_dim": D, "keep_kv": True,
     "kv_layout": ["nhd", "shuffle"], "cos_sin": "same"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "rope": "neox", "norm": "rms", "rotary_dim": D,
     "keep_kv": True, "kv_layout": "shuffle", "cos_sin": "same", "kv_dtype": "fp8",
     "kv_scale": "block"},
    {"op": "indexer_logits", "index_heads": 64},
    {"op": "indexer_logits", "index_heads": 64, "paged": True, "kv_layout": ["nhd", "shuffle"],
     "small_pages": [False, True]},
    {"op": "topk", "top_k": 32},
    {"op": "indexer_rope_cache", "rope": "neox", "layer_norm": True, "kv_layout": "shuffle"},
    {"op": "indexer_rope_cache", "rope": "neox", "kv_layout": ["nhd", "shuffle"]},
    {"op": "indexer_gather", "kv_layout": ["nhd", "shuffle"]},
    {"op": "mla_rope_cache", "head_dim": 576, "head_dim_v": 512, "rope": ["none", "gptj"],
     "cos_sin": "f32"},
    {"op": "mla_decode", "head_dim": 576, "head_dim_v": 512, "gqa": "any", "page_size": "any",
     "lse": True, "page_table": "indices", "q_len": 2},
]


class Calls:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def paged(self, lengths, seed):
        """Returns random NHD pages of k and v, a page table of sequences of `lengths` keys, and each sequence's keys
        and values."""
        rng = np.random.default_rng(seed)
        need = [-(-n // P) for n in lengths]
        order = rng.permutation(sum(need) + 2).astype(np.int32)
        k, v = (support.random((len(order), P, HK, D), seed + i) for i in range(2))
        table, keys, values, at = np.full((len(need), max(need)), -1, np.int32), [], [], 0
        for s, n in enumerate(need):
            table[s, :n] = order[at:at + n]
            keys.append(k[table[s, :n]].reshape(-1, HK, D)[:lengths[s]])
            values.append(v[table[s, :n]].reshape(-1, HK, D)[:lengths[s]])
            at += n
        return k, v, table, keys, values

    def check(self, out, q, cu, keys, values, more=0.0, **how):
        """Compares the output with attention in double precision. Rows cu[s] to cu[s + 1] of q are sequence s's. `more`
        is added to the limit of the error. `how` are further arguments of support.attention()."""
        out = self.back(out)
        for s, (k, v) in enumerate(zip(keys, values)):
            rows = slice(cu[s], cu[s + 1])
            want, _ = support.attention(q[rows], k, v, **how)
            support.close(out[rows], want, support.bound(v) + more, f"sequence {s}")

    # ---- Prompts

    def test_flash_attn_varlen_func(self):
        cu = np.array([0, 5, 5, 40], np.int32)
        qkv = support.random((40, H + 2 * HK, D), 1)
        q, k, v = qkv[:, :H], qkv[:, H:H + HK], qkv[:, H + HK:]
        whole = self.t(qkv)
        given = (whole[:, :H], whole[:, H:H + HK], whole[:, H + HK:], self.t(cu), self.t(cu), 35, 35)
        keys, values = ([x[cu[s]:cu[s + 1]] for s in range(3)] for x in (k, v))
        self.check(aiter.flash_attn_varlen_func(*given, causal=True), q, cu, keys, values)
        out = self.t(np.zeros((40, H, D), np.float16))
        got = aiter.flash_attn_varlen_func(*given, causal=False, return_lse=True, out=out)
        self.assertIs(got[0], out)
        self.check(out, q, cu, keys, values, causal=False)
        for s in range(3):
            _, want = support.attention(q[cu[s]:cu[s + 1]], keys[s], values[s], causal=False)
            support.close(self.back(got[1])[:, cu[s]:cu[s + 1]], want, 1e-3, "lse")
        sinks = support.random((H,), 2)
        kept = self.t(sinks)
        for _ in range(2):  # the second call uses the float32 copy of the sinks that the first call made
            out = aiter.flash_attn_varlen_func(*given, 5, 0.0, 0.2, causal=True,
                                               window_size=(9, 0, 0), sink_ptr=kept)
            self.check(out, q, cu, keys, values, scale=0.2, window=(9, 0), sinks=sinks)

    def test_flash_attn_varlen_func_after_a_prefix(self):
        cu_q, cu_k = np.array([0, 3, 10], np.int32), np.array([0, 20, 60], np.int32)
        q, k, v = (support.random((n, h, D), n) for n, h in ((10, H), (60, HK), (60, HK)))
        out = aiter.flash_attn_varlen_func(*map(self.t, (q, k, v, cu_q, cu_k)), 7, 40, causal=True)
        self.check(out, q, cu_q, [k[:20], k[20:]], [v[:20], v[20:]])

    def test_alibi_slopes(self):
        slopes = 0.5 ** np.arange(1, H + 1, dtype=np.float32)
        cu = np.array([0, 10], np.int32)
        q, k, v = (support.random((10, h, D), h + i) for i, h in enumerate((H, HK, HK)))
        given = [self.t(x) for x in (q, k, v, cu, cu)]
        out = aiter.flash_attn_varlen_func(*given, 10, 10, causal=True, alibi_slopes=self.t(slopes))
        self.check(out, q, cu, [k], [v], slopes=slopes)
        for how in ({}, {"window_size": (3, 2)}):
            out = aiter.flash_attn_varlen_func(*given, 10, 10, alibi_slopes=self.t(slopes), **how)
            self.check(out, q, cu, [k], [v], slopes=slopes, causal=False, window=how.get("window_size", (-1, -1)))
        with self.assertRaisesRegex(aiter.NotServed, "alibi_slopes: beside an LSE or sinks"):
            aiter.flash_attn_varlen_func(*given, 10, 10, causal=True, return_lse=True, alibi_slopes=self.t(slopes))
        lengths = [70, 9]
        k, v, table, keys, values = self.paged(lengths, 31)
        for cu in (np.array([0, 1, 2], np.int32), np.array([0, 30, 31], np.int32)):
            q = support.random((int(cu[-1]), H, D), 32)
            out = self.unified(q, self.t(k), self.t(v), table, lengths, cu,
                               alibi_slopes=self.t(slopes))
            self.check(out, q, cu, keys, values, slopes=slopes)

    def test_mha_batch_prefill_func(self):
        lengths, cu = [50, 20], np.array([0, 25, 30], np.int32)
        k, v, table, keys, values = self.paged(lengths, 3)
        q = support.random((30, H, D), 5)
        indptr = np.array([0, 4, 6], np.int32)
        indices = np.concatenate([table[0, :4], table[1, :2]])
        last = np.array([2, 4], np.int32)
        given = [self.t(q), None, None, self.t(cu), self.t(indptr), self.t(indices), 25, 50]
        given[1:3] = self.t(k), self.t(v)
        out, lse = aiter.mha_batch_prefill_func(*given, causal=True, return_lse=True,
                                                kv_last_page_lens=self.t(last))
        self.check(out, q, cu, keys, values)
        support.close(self.back(lse)[:, 25:], support.attention(q[25:], keys[1], values[1])[1], 1e-3)
        given[1:3] = self.t(shuffle_k(k)), self.t(shuffle_v(v))
        out = aiter.mha_batch_prefill_func(*given, causal=True, window_size=(11, 0),
                                           kv_last_page_lens=self.t(last))
        self.check(out, q, cu, keys, values, window=(11, 0))
        slots = np.concatenate([table[s, np.arange(n) // P] * P + np.arange(n) % P
                                for s, n in enumerate(lengths)]).astype(np.int32)
        given[1:6] = (self.t(k.reshape(-1, HK, D)), self.t(v.reshape(-1, HK, D)), self.t(cu),
                      self.t(np.array([0, 50, 70], np.int32)), self.t(slots))
        self.check(aiter.mha_batch_prefill_func(*given, causal=True), q, cu, keys, values)

    # ---- Decode

    def quantised(self, pages):
        """Rounds pages to fp8 with a scale for each token and head. Returns fp8 bytes, scales [pages, heads, P], and
        the values that these represent."""
        scale = np.abs(pages.astype(np.float64)).max(3).transpose(0, 2, 1) / FP8_MAX
        scale = scale.astype(np.float32)
        x = pages.astype(np.float64) / scale.transpose(0, 2, 1)[..., None]
        order = np.argsort(FP8)[:np.count_nonzero(np.isfinite(FP8))]
        at = np.searchsorted((FP8[order][1:] + FP8[order][:-1]) / 2, x)
        stored = order[at].astype(np.uint8)
        return stored, np.ascontiguousarray(scale), FP8[stored] * scale.transpose(0, 2, 1)[..., None]

    def test_pa_fwd_asm(self):
        lengths = [33, 5, 100]
        k, v, table, keys, values = self.paged(lengths, 7)
        q = support.random((3, H, D), 8)
        wide = np.zeros((3, 12), np.int32)
        wide[:, :table.shape[1]] = table
        view = self.t(wide)[:, :table.shape[1]]
        lens = self.t(np.array(lengths, np.int32))
        cu = np.arange(4, dtype=np.int32)
        k5, v5 = self.t(shuffle_k(k)), self.t(shuffle_v(v))
        out = aiter.pa_fwd_asm(self.t(q), k5, v5, view, lens, 12)
        self.check(out, q, cu, keys, values)
        four = self.t(shuffle_v(v).reshape(len(v), HK, D, P))  # the same memory with four dimensions, as ATOM passes it
        given = self.t(np.zeros_like(q))
        self.assertIs(aiter.pa_fwd_asm(self.t(q), k5, four, view, lens, 12, 1, None, None, given), given)
        self.check(given, q, cu, keys, values)
        with self.assertRaisesRegex(aiter.NotServed, "block_tables_stride0 is 7, the tensor's is 12"):
            aiter.pa_fwd_asm(self.t(q), k5, v5, view, lens, 7)

    def test_pa_fwd_asm_fp8_several_queries(self):
        lengths, cu = [33, 5], np.array([0, 3, 4], np.int32)
        k, v, table, _, _ = self.paged(lengths, 9)
        (k8, ks, k), (v8, vs, v) = self.quantised(k), self.quantised(v)
        keys = [k[table[s, :-(-n // P)]].reshape(-1, HK, D)[:n] for s, n in enumerate(lengths)]
        values = [v[table[s, :-(-n // P)]].reshape(-1, HK, D)[:n] for s, n in enumerate(lengths)]
        q = support.random((4, H, D), 10)
        out = aiter.pa_fwd_asm(self.t(q), self.t(shuffle_k(k8, 16)), self.t(shuffle_v(v8, 16)),
                               self.t(table), self.t(np.array(lengths, np.int32)), table.shape[1], 4,
                               self.t(ks), self.t(vs), qo_indptr=self.t(cu))
        # Products of fp8 numbers and scales are rounded to 16 bits, which adds an error to scores and outputs.
        more = 4 * support.HALF * float(np.abs(v).max()) * 8
        self.check(out, q, cu, keys, values, more)

    def test_persistent(self):
        lengths = [333, 20, 0, 64]
        k, v, table, _, _ = self.paged(lengths, 11)
        (k8, ks, k), (v8, vs, v) = self.quantised(k), self.quantised(v)
        pages = [-(-n // P) for n in lengths]
        keys = [k[table[s, :p]].reshape(-1, HK, D)[:lengths[s]] for s, p in enumerate(pages)]
        values = [v[table[s, :p]].reshape(-1, HK, D)[:lengths[s]] for s, p in enumerate(pages)]
        indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
        indices = np.concatenate([table[s, :p] for s, p in enumerate(pages)])
        cu = np.arange(0, 9, 2, dtype=np.int32)
        q = support.random((8, H, D), 12)
        names = ("work_metadata_ptrs", "work_indptr", "work_info", "reduce_indptr",
                 "reduce_final_map", "reduce_partial_map")
        # Shapes of a plan for 6 sequences; the batch has 4.
        room = dict(zip(names, aiter.get_pa_metadata_info_v1(6, HK)))
        plan = {n: self.t(np.zeros(shape, np.int32)) for n, (shape, _) in room.items()}
        lens = self.t(np.array(lengths, np.int32))
        aiter.get_pa_metadata_v1(self.t(cu), self.t(indptr), lens, GQA, HK, True, **plan,
                                 kv_granularity=16, block_size=P, max_seqlen_qo=2, uni_seqlen_qo=2)
        del plan["work_metadata_ptrs"]
        out = self.t(np.zeros_like(q))
        parts, lse = aiter.pa_persistent_fwd(
            Q=self.t(q), K=self.t(shuffle_k(k8, 16)), V=self.t(shuffle_v(v8, 16)), output=out,
            max_qlen=2, qo_indptr=self.t(cu), kv_indptr=self.t(indptr), kv_indices=self.t(indices),
            context_lens=lens, **plan, K_QScale=self.t(ks), V_QScale=self.t(vs), mask=1)
        more = 4 * support.HALF * float(np.abs(v).max()) * 8
        self.check(out, q, cu, keys, values, more)
        for s in (0, 3):
            _, want = support.attention(q[cu[s]:cu[s + 1]], keys[s], values[s])
            support.close(self.back(lse)[cu[s]:cu[s + 1]].T, want, 1e-2, "lse")
        self.assertEqual(tuple(parts.shape[1:]), (1, H, D))
        self.assertGreater(int(self.back(plan["reduce_indptr"])[4]), 1, "nothing was split")

    def test_pa_reduce_v1(self):
        parts, lse = support.random((5, 1, H, D), 1, np.float32), support.random((5, 1, H, 1), 2, np.float32)
        out, final = (self.t(np.zeros(s, t)) for s, t in (((3, H, D), np.float16), ((3, H), np.float32)))
        aiter.pa_reduce_v1(self.t(parts), self.t(lse), self.t(np.array([0, 0, 2], np.int32)),
                           self.t(np.array([[0, 1], [1, 3]], np.int32)),
                           self.t(np.array([0, 3], np.int32)), 2, out, final)
        for j in range(2):
            w = np.exp(np.array([lse[j, 0, :, 0], lse[3 + j, 0, :, 0]], np.float64))
            want = (w[0, :, None] * parts[j, 0] + w[1, :, None] * parts[3 + j, 0]) / w.sum(0)[:, None]
            support.close(self.back(out)[1 + j], want, support.bound(parts))
            support.close(self.back(final)[1 + j], np.log(w.sum(0)), 1e-5)

    def test_pa_decode_gluon(self):
        lengths, n = [70, 9], 2
        k, v, table, keys, values = self.paged(lengths, 13)
        q, sinks = support.random((4, H, D), 14), support.random((H,), 15)
        out, cu = self.t(np.zeros_like(q)), np.array([0, 2, 4], np.int32)
        window = 24  # number of keys, counted from the last key of the sequence
        aiter.pa_decode_gluon(out, self.t(q), self.t(shuffle_k(k)), self.t(shuffle_v(v)),
                              self.t(np.array([*lengths, 5], np.int32)), self.t(np.append(table, table[:1], 0)),
                              0.1, n, 1, 128, sinks=self.t(sinks), sliding_window=window, ps=True)
        self.check(out, q, cu, keys, values, scale=0.1, window=(window - 1 - n, 0), sinks=sinks)

    def unified(self, q, k, v, table, lengths, cu, **more):
        """Calls unified_attention() on the pages k and v and returns its output. Arrays have rows after the batch's, as
        in a captured graph. `more` replaces arguments."""
        out = self.t(np.zeros_like(q))
        longest = int(np.max(np.diff(cu)))
        # Rows after the batch's, as in a graph for larger batches.
        longer = np.append(cu, np.int32(10 ** 6)), np.append(table, table[:1], 0)
        call = dict(cu_seqlens_q=self.t(longer[0]), max_seqlen_q=longest,
                    seqused_k=self.t(np.array(lengths, np.int32)), max_seqlen_k=max(lengths),
                    softmax_scale=D ** -0.5, causal=True, window_size=(-1, -1),
                    block_table=self.t(longer[1]), softcap=0, q_descale=None, k_descale=None,
                    v_descale=None)
        self.assertIs(aiter.unified_attention(self.t(q), k, v, out, **{**call, **more}), out)
        return out

    def test_unified_attention(self):
        lengths = [70, 9]
        k, v, table, keys, values = self.paged(lengths, 16)
        descale = self.t(np.ones(1, np.float32))  # scales of 1, which are not used for a cache of 16 bits
        for cu, shuffled in (([0, 1, 2], False), ([0, 1, 2], True), ([0, 30, 31], False)):
            cu = np.array(cu, np.int32)
            q = support.random((int(cu[-1]), H, D), 17)
            pages = (shuffle_k(k), shuffle_v(v)) if shuffled else (k, v)
            out = self.unified(q, *map(self.t, pages), table, lengths, cu, shuffled_kv_cache=shuffled,
                               k_descale=descale, v_descale=descale)
            self.check(out, q, cu, keys, values)
        q, sinks = support.random((4, H, D), 18), support.random((H,), 19)
        cu = np.array([0, 2, 4], np.int32)
        out = self.unified(q, self.t(shuffle_k(k)), self.t(shuffle_v(v)), table, lengths, cu,
                           sinks=self.t(sinks), window_size=(7, 0), shuffled_kv_cache=True)
        self.check(out, q, cu, keys, values, window=(7, 0), sinks=sinks)

    def test_unified_attention_fp8(self):
        lengths, cu = [70, 9], np.array([0, 1, 2], np.int32)
        k, v, table, _, _ = self.paged(lengths, 20)
        bytes_k, bytes_v = (np.random.default_rng(i).integers(0, 120, x.shape).astype(np.uint8)
                            for i, x in enumerate((k, v)))
        scale = self.t(np.array([0.02], np.float32))
        expanded = scale.expand(2, HK) if torch and self.torch else np.broadcast_to(scale, (2, HK))
        keys, values = ([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * np.float32(0.02)
                         for s, n in enumerate(lengths)] for b in (bytes_k, bytes_v))
        q = support.random((2, H, D), 21)
        out = self.unified(q, self.t(bytes_k), self.t(bytes_v), table, lengths, cu,
                           k_descale=expanded, v_descale=expanded)
        self.check(out, q, cu, keys, values, support.bound(values[0]) * 4)

    def stored_with_scales_of_heads(self, lengths, table):
        """Returns fp8 bytes of K and V, and two cases. In the first each sequence has its own scales. In the second a
        stride of 0 gives all sequences one row of scales. A case has the scales [sequences, kv heads], and the keys and
        values that they represent."""
        shape = (int(table.max()) + 1, P, HK, D)
        stored = [support.fp8_bytes(shape, i) for i in range(2)]
        own = [np.random.default_rng(i).uniform(0.01, 0.04, (2, HK)).astype(np.float32) for i in (2, 3)]
        cases = []
        for shared in (False, True):
            scales = [np.broadcast_to(x[:1], (2, HK)) for x in own] if shared else own
            given = [self.t(x[0]).expand(2, HK) if torch and self.torch else x for x in scales] if shared else list(
                map(self.t, scales))
            cases.append((given, *([FP8[b[table[s, :-(-n // P)]]].reshape(-1, HK, D)[:n] * scale[s][:, None]
                                    for s, n in enumerate(lengths)] for b, scale in zip(stored, scales))))
        return stored, cases

    def test_mha_batch_prefill_func_with_scales_of_heads(self):
        lengths, cu = [50, 20], np.array([0, 25, 30], np.int32)
        _, _, table, _, _ = self.paged(lengths, 3)
        q = support.random((30, H, D), 5)
        lens, indptr = (self.t(np.array(x, np.int32)) for x in (lengths, [0, 4, 6]))
        indices = self.t(np.concatenate([table[0, :4], table[1, :2]]))
        stored, cases = self.stored_with_scales_of_heads(lengths, table)
        for (k_scale, v_scale), keys, values in cases:
            for pages in ({"block_table": self.t(table)}, {}):
                out = aiter.mha_batch_prefill_func(
                    self.t(q), *map(self.t, stored), self.t(cu), indptr, indices, 25, 50, causal=True, seqlen_k=lens,
                    k_descale=k_scale, v_descale=v_scale, **pages)
                self.check(out, q, cu, keys, values, support.bound(values[0]) * 4)
        own, (_, v_same) = cases[0][0], cases[1][0]
        call = [self.t(q), *map(self.t, stored), self.t(cu), indptr, indices, 25, 50]
        for k_scale, v_scale in ((own[0], v_same), (v_same, own[0])):
            with self.assertRaisesRegex(aiter.NotServed, "v_scale: its shape or strides are not those of k_scale"):
                aiter.mha_batch_prefill_func(*call, seqlen_k=lens, k_descale=k_scale, v_descale=v_scale)
        three = self.t(np.ones((3, HK), np.float32))  # scales of 3 sequences; the batch has fewer
        with self.assertRaisesRegex(aiter.NotServed, "k_scale has 6 scales"):
            aiter.mha_batch_prefill_func(*call, seqlen_k=lens, k_descale=three, v_descale=three)

    def test_unified_attention_with_scales_of_heads(self):
        lengths, cu = [70, 9], np.array([0, 10, 11], np.int32)
        _, _, table, _, _ = self.paged(lengths, 20)
        stored, cases = self.stored_with_scales_of_heads(lengths, table)
        for given, keys, values in cases:
            for starts in (cu, np.array([0, 1, 2], np.int32)):  # a prompt and a decode step; two decode steps
                q = support.random((int(starts[-1]), H, D), 21)
                out = self.unified(q, *map(self.t, stored), table, lengths, starts, k_descale=given[0], v_descale=given[1])
                self.check(out, q, starts, keys, values, support.bound(values[0]) * 4)

    def test_cache_write_with_scales_of_heads(self):
        """A cache with scales [kv heads] has the rows of each head divided by that head's scale."""
        rows = [support.random((5, HK, D), i) for i in (1, 2)]
        scales = [np.random.default_rng(i).uniform(0.01, 0.04, HK).astype(np.float32) for i in (3, 4)]
        stored, slots = [np.zeros((2, P, HK, D), np.uint8) for _ in range(2)], np.array([3, 0, -1, P + 1, 7])
        given = list(map(self.t, stored))
        aiter.reshape_and_cache_flash(*map(self.t, rows), *given, self.t(slots), "fp8", *map(self.t, scales))
        for x, scale, cache in zip(rows, scales, given):
            got = FP8[self.back(cache).reshape(-1, HK, D)] * scale[:, None]
            for i, slot in enumerate(slots):
                if slot >= 0:
                    want = np.clip(x[i], -FP8_MAX * scale[:, None], FP8_MAX * scale[:, None])
                    np.testing.assert_array_less(np.abs(got[slot] - want), np.abs(want) / 16 + FP8_TINY * scale[:, None] + 1e-6)

    def test_mla_decode_fwd(self):
        lengths, heads, page = [400, 33], 6, 1
        rows = support.random((450, 1, 1, 576), 1)
        q = support.random((3, heads, 576), 2)
        cu, indptr = np.array([0, 2, 3], np.int32), np.array([0, 400, 433], np.int32)
        slots = np.random.default_rng(3).permutation(450)[:433].astype(np.int32)
        last = np.ones(5, np.int32)  # ATOM passes an array of its largest batch's length
        given = [self.t(x) for x in (q, rows)]
        lists = [self.t(x) for x in (cu, indptr, slots, last)]
        out = self.t(np.zeros((3, heads, 512), np.float16))
        parts, lse = aiter.mla_decode_fwd(*given, out, *lists, 2, sm_scale=0.05, return_lse=True)
        self.assertIsNone(parts)

        def check(out, lse):
            for s in range(2):
                c = rows[slots[indptr[s]:indptr[s + 1]], 0]
                want, want_lse = support.attention(q[cu[s]:cu[s + 1]], c, c[..., :512], scale=0.05)
                support.close(self.back(out)[cu[s]:cu[s + 1]], want, support.bound(c))
                support.close(self.back(lse)[cu[s]:cu[s + 1]].T, want_lse, 1e-3)

        check(out, lse)
        names = ("work_metadata_ptrs", "work_indptr", "work_info_set", "reduce_indptr",
                 "reduce_final_map", "reduce_partial_map")
        room = aiter.get_mla_metadata_info_v1(2, 2, heads, None, None, False)
        plan = {n: self.t(np.zeros(shape, np.int32)) for n, (shape, _) in zip(names, room)}
        aiter.get_mla_metadata_v1(lists[0], lists[1], lists[3], heads, 1, True, **plan,
                                  page_size=page, max_seqlen_qo=2)
        del plan["work_metadata_ptrs"]
        out = self.t(np.zeros((3, heads, 512), np.float16))
        parts, lse = aiter.mla_decode_fwd(*given, out, *lists, 2, sm_scale=0.05, return_lse=True,
                                          **plan)
        check(out, lse)
        self.assertGreater(int(self.back(plan["reduce_indptr"])[2]), 1, "nothing was split")

    def test_latent_rows(self):
        tokens, heads = 4, 3
        kv = support.random((tokens, 576), 1)
        q_nope, q_pe = support.random((tokens, heads, 512), 2), support.random((tokens, heads, 64), 3)
        slots = np.array([40, 2, -1, 17], np.int64)
        there, whole = slots >= 0, self.t(kv)
        cache = self.t(np.zeros((3, P, 1, 576), np.float16))
        one = self.t(np.ones(1, np.float32))
        aiter.concat_and_cache_mla(whole[:, :512], whole[:, 512:], cache, self.t(slots), "auto", one)
        want = np.zeros((3 * P, 576), np.float16)
        want[slots[there]] = kv[there]
        np.testing.assert_array_equal(self.back(cache).reshape(-1, 576), want)

        table, positions = self.table(64, np.float32), np.array([3, 49, 0, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * 32:(i + 1) * 32])) for i in range(2))
        cache = self.t(np.zeros((3, P, 576), np.float16))
        q_out = self.t(np.zeros((tokens, heads, 576), np.float16))
        aiter.fused_qk_rope_concat_and_cache_mla(
            self.t(q_nope), self.t(q_pe), whole[:, :512], whole[:, 512:], cache, q_out,
            self.t(slots), one, one, self.t(positions), cos, sin, False, True)
        np.testing.assert_array_equal(self.back(q_out)[..., :512], q_nope)
        support.close(self.back(q_out)[..., 512:], self.rotate(q_pe, table, positions, False),
                      self.ROPE, "q")
        rows = self.back(cache).reshape(-1, 576)[slots[there]]
        np.testing.assert_array_equal(rows[:, :512], kv[there][:, :512])
        k_pe = self.rotate(kv[:, None, 512:], table, positions, False)[there, 0]
        support.close(rows[:, 512:], k_pe, self.ROPE, "k")

    def index_scores(self, q, keys, scales, weights):
        """Returns an indexer's scores [tokens, keys] in doubles: the sum over heads of weights times positive products
        of q and keys."""
        dots = np.einsum("thd,nd->thn", FP8[q], FP8[keys])
        return np.einsum("th,thn->tn", weights.astype(np.float64), np.maximum(dots, 0)) * scales

    def check_scores(self, got, want):
        # A score is a sum of 128 products and of 64 heads in float32. The limit is 2^12 roundings of the largest score.
        # Sums of 128 products and of 64 heads in single precision, of numbers up to the largest.
        support.close(got, want, 256 * 2.0 ** -24 * float(np.abs(want).max()) * 16, "scores")

    def test_indexer_of_prompts(self):
        rng, rows, keys = np.random.default_rng(1), 5, 70
        q, k = (rng.integers(0, 64, s).astype(np.uint8) for s in ((rows, 64, 128), (keys, 128)))
        q += 128 * rng.integers(0, 2, q.shape).astype(np.uint8)
        q[q == 128] = 0
        scales, weights = (rng.random(s).astype(np.float32) for s in ((keys, 1), (rows, 64)))
        starts, ends = np.array([0, 0, 3, 9, 9], np.int32), np.array([70, 1, 3, 60, 45], np.int32)
        logits = aiter.fp8_mqa_logits(self.t(q), self.t(k), self.t(scales), self.t(weights),
                                      self.t(starts), self.t(ends))
        want = self.index_scores(q, k, scales[:, 0], weights)
        column = np.arange(keys)[None]
        seen = (column >= starts[:, None]) & (column < ends[:, None])
        got = self.back(logits)
        self.check_scores(np.where(seen, got, 0), np.where(seen, want, 0))
        self.assertTrue(np.isneginf(got[~seen]).all())
        wide = self.t(np.full((rows, 40), 7, np.int32))
        values = self.t(np.zeros((rows, 32), np.float32))
        aiter.top_k_per_row_prefill(logits, self.t(starts), self.t(ends), wide[:, :32], values, rows,
                                    256, 1, 32)
        for r in range(rows):
            score = got[r, starts[r]:ends[r]]
            best = np.sort(np.argsort(-score, kind="stable")[:32]) + starts[r]
            row = np.concatenate([best, np.full(32 - len(best), -1)])
            np.testing.assert_array_equal(self.back(wide)[r, :32], row)
            np.testing.assert_array_equal(self.back(values)[r, :len(best)], got[r, best])
        self.assertTrue((self.back(wide)[:, 32:] == 7).all())

    def test_indexer_of_decode(self):
        rng, batch, next_n, pages = np.random.default_rng(2), 2, 2, 6
        q, k = (rng.integers(0, 64, s).astype(np.uint8)
                for s in ((batch, next_n, 64, 128), (pages, P, 128)))
        scales = rng.random((pages, P)).astype(np.float32)
        weights = rng.random((batch * next_n, 64)).astype(np.float32)
        table, lens = np.array([[5, 2, 0], [1, 4, 3]], np.int32), np.array([40, 7], np.int32)
        for shuffled in (False, True):
            stored = k.reshape(pages, P // 16, 16, 8, 16).transpose(0, 1, 3, 2, 4) if shuffled else k
            cache = np.concatenate([stored.reshape(pages, -1), scales.view(np.uint8)], 1)
            logits = self.t(np.full((4, 48), 5, np.float32))
            aiter.deepgemm_fp8_paged_mqa_logits(
                self.t(q), self.t(cache.reshape(pages, P, 1, 132)), self.t(weights), logits,
                self.t(lens), self.t(table), 48, Preshuffle=shuffled, KVBlockSize=P)
            found = self.t(np.zeros((4, 32), np.int32))
            aiter.top_k_per_row_decode(logits, next_n, self.t(lens), found, 4, 48, 1, 32)
            for r in range(4):
                s, n = r // 2, lens[r // 2] - 1 + r % 2
                keys, scale = (x[table[s]].reshape(3 * P, *x.shape[2:])[:n] for x in (k, scales))
                want = self.index_scores(q[s, r % 2][None], keys, scale, weights[r][None])[0]
                got = self.back(logits)[r]
                self.check_scores(got[:n], want)
                self.assertTrue((got[n:] == 5).all())
                best = np.sort(np.argsort(-got[:n], kind="stable")[:32])
                np.testing.assert_array_equal(self.back(found)[r, :len(best)], best)
                self.assertTrue((self.back(found)[r, len(best):] == -1).all())

    def test_indexer_rope_cache(self):
        tokens, heads = 5, 3
        q, k = support.random((tokens, heads, 128), 1), support.random((tokens, 128), 2)
        weights, w, b = (support.random(s, 3 + i) for i, s in enumerate(((tokens, heads), 128, 128)))
        table, positions = self.table(64, np.float16), np.array([3, 49, 0, 7, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * 32:(i + 1) * 32])) for i in range(2))
        slots = np.array([40, 2, -1, 17, 18], np.int64)
        x = k.astype(np.float64)
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6) * w + b
        want_q = self.rotate(q, table, positions, True)
        want_k = self.rotate(x[:, None], table, positions, True)[:, 0]
        for fmt in ("", "ue8m0"):
            q_out = self.t(np.zeros((tokens, heads, 128), np.uint8))
            out = self.t(np.zeros((tokens, heads), np.float32))
            cache = self.t(np.zeros((3, P, 132), np.uint8))
            aiter.indexer_qk_rope_quant_and_cache(
                self.t(q), q_out, self.t(weights), out, self.t(k), cache, self.t(slots), self.t(w),
                self.t(b), self.t(positions), cos, sin, 1e-6, 128, fmt, 0.25, True, True, compute_all_q_rope=fmt == "")
            scale = np.abs(want_q).max(2) / FP8_MAX
            scale = 2.0 ** np.ceil(np.log2(scale)) if fmt else scale
            np.testing.assert_allclose(self.back(out), weights * scale * 0.25, 1e-5)
            pages = self.back(cache).reshape(3, -1)
            keys = pages[:, :P * 128].reshape(3, 8, 16, 16).transpose(0, 2, 1, 3).reshape(-1, 128)
            scales = pages[:, P * 128:].copy().view(np.float32).reshape(-1)
            there = slots >= 0
            for got, want, s in ((FP8[self.back(q_out)], want_q, scale[..., None]),
                                 (FP8[keys[slots[there]]], want_k[there],
                                  scales[slots[there]][:, None])):
                limit = np.abs(want) / 16 + s * FP8_TINY
                self.assertTrue((np.abs(got * s - want) <= limit * (1 + 1e-4)).all())
            amax = np.abs(want_k[there]).max(1) / FP8_MAX
            amax = 2.0 ** np.ceil(np.log2(amax)) if fmt else amax
            np.testing.assert_allclose(scales[slots[there]], amax, 1e-5)

    def test_indexer_keys_as_they_are(self):
        k = support.random((7, 128), 5) * np.float16(2.0) ** np.arange(-6, 8, 2, dtype=np.float16)[:, None]
        k[0] = 0
        slots = np.array([40, 2, -1, 17, 18, 0, 39], np.int64)
        there = slots >= 0
        known = np.sort(FP8[np.isfinite(FP8)])
        for fmt, shuffled in (("", True), ("ue8m0", False), ("ue8m0", True)):
            cache = self.t(np.zeros((3, P, 1, 132), np.uint8))
            aiter.indexer_k_quant_and_cache(self.t(k), cache, self.t(slots), 128, fmt, shuffled)
            pages = self.back(cache).reshape(3, -1)
            keys = pages[:, :P * 128]
            if shuffled:
                keys = keys.reshape(3, 8, 16, 16).transpose(0, 2, 1, 3)
            keys, scales = keys.reshape(-1, 128), pages[:, P * 128:].copy().view(np.float32).reshape(-1)
            want = np.maximum(np.abs(k).max(1).astype(np.float64), 1e-4) / FP8_MAX
            want = 2.0 ** np.ceil(np.log2(want)) if fmt else want
            np.testing.assert_allclose(scales[slots[there]], want[there], 2.0 ** -22)
            exact = k[there] / scales[slots[there]].astype(np.float64)[:, None]
            near = np.abs(exact[..., None] - known).min(-1)
            error = np.abs(FP8[keys[slots[there]]] - exact)
            self.assertTrue((error <= near + np.abs(exact) * 2.0 ** -20).all())
            untouched = np.delete(np.arange(3 * P), slots[there])
            self.assertFalse(keys[untouched].any() or scales[untouched].any())

    def test_indexer_keys_gathered(self):
        rng, pages = np.random.default_rng(6), 5
        keys = rng.integers(0, 256, (pages, P, 128)).astype(np.uint8)
        scales = rng.random((pages, P)).astype(np.float32)
        table, cu = np.array([[4, 1], [0, 3]], np.int32), np.array([0, P + 3, 2 * P + 2], np.int32)
        rows = [(table[s][i // P], i % P) for s in range(2) for i in range(cu[s + 1] - cu[s])]
        for shuffled in (False, True):
            stored = keys.reshape(pages, P // 16, 16, 8, 16).transpose(0, 1, 3, 2, 4) if shuffled else keys
            cache = np.concatenate([stored.reshape(pages, -1), scales.view(np.uint8)], 1)
            for made in (np.zeros((cu[-1], 1), np.float32), np.zeros((cu[-1], 4), np.uint8)):
                k_out, scale_out = self.t(np.zeros((cu[-1], 128), np.uint8)), self.t(made)
                aiter.cp_gather_indexer_k_quant_cache(
                    self.t(cache.reshape(pages, P, 132)), k_out, scale_out, self.t(table), self.t(cu), shuffled)
                np.testing.assert_array_equal(self.back(k_out), [keys[r] for r in rows])
                np.testing.assert_array_equal(self.back(scale_out).view(np.float32)[:, 0], [scales[r] for r in rows])
        with self.assertRaisesRegex(aiter.NotServed, "one scale"):
            aiter.cp_gather_indexer_k_quant_cache(
                self.t(cache.reshape(pages, P, 132)), k_out, self.t(np.zeros((cu[-1], 2), np.float32)),
                self.t(table), self.t(cu))

    # ---- Caches

    def test_caches_written_and_gathered(self):
        k, v = support.random((6, HK, D), 1), support.random((6, HK, D), 2)
        fused = self.t(np.concatenate([k, v], 1))
        k_in, v_in = fused[:, :HK], fused[:, HK:]
        slots = np.array([17, -1, 60, 3, 31, 32], np.int64)
        there = slots >= 0
        for shuffled in (True, False):
            shape_k = (4, HK, D // X, P, X) if shuffled else (4, P, HK, D)
            shape_v = (4, HK, P // X, D, X) if shuffled else (4, P, HK, D)
            kc, vc = self.t(np.zeros(shape_k, np.float16)), self.t(np.zeros(shape_v, np.float16))
            if shuffled:  # SGLang passes slots as int32
                aiter.reshape_and_cache(k_in, v_in, kc, vc, self.t(slots.astype(np.int32)), "auto",
                                        None, None, True)
            else:
                aiter.reshape_and_cache_flash(k_in, v_in, kc, vc, self.t(slots), "auto", None, None)
            for cache, rows, back in ((kc, k, unshuffle_k), (vc, v, unshuffle_v)):
                got = back(self.back(cache)) if shuffled else self.back(cache)
                want = np.zeros((4 * P, HK, D), np.float16)
                want[slots[there]] = rows[there]
                np.testing.assert_array_equal(got.reshape(-1, HK, D), want)
            k_out, v_out = (self.t(np.zeros((3, HK, D), np.float16)) for _ in range(2))
            aiter.cp_mha_gather_cache(
                kc, vc, k_out, v_out, self.t(np.array([[1, 3], [3, -1]], np.int32)), None, None,
                self.t(np.array([0, 2, 3], np.int32)), self.t(np.array([0, 0, 1], np.int32)),
                self.t(np.array([1, 12], np.int32)), False, "SHUFFLE" if shuffled else "NHD", 3)
            np.testing.assert_array_equal(self.back(k_out)[0], k[0])
            np.testing.assert_array_equal(self.back(v_out)[[0, 2]], v[[0, 2]])

    def fp8_pages(self, pages, asm_layout):
        """Returns empty pages of fp8 for keys and values, in the layout that asm_layout chooses."""
        values = (pages, HK, 1, D, 16) if asm_layout else (pages, HK, D, P)
        return [self.t(np.zeros(shape, np.uint8)) for shape in ((pages, HK, D // 16, P, 16), values)]

    def check_stored(self, cache, slots, scale, rows, back):
        """Checks the rows of a quantised cache in `slots`. e4m3 has four significant bits, so an element may be off
        by a sixteenth, or by half a step of the smallest numbers."""
        got = FP8[back(self.back(cache)).reshape(-1, HK, D)[slots]] * scale[..., None]
        limit = np.abs(rows) / 16 + scale[..., None] * FP8_TINY
        self.assertTrue((np.abs(got - rows) <= limit * (1 + 1e-5)).all())

    def test_reshape_and_cache_with_pertoken_quant(self):
        k, v = support.random((5, HK, D), 1), support.random((5, HK, D), 2)
        slots = np.array([17, 33, 0, 1, 47], np.int64)
        for asm in (True, False):
            kc, vc = self.fp8_pages(3, asm)
            ks, vs = (self.t(np.zeros((3, HK, P) if asm else (HK, 3 * P + 5), np.float32)) for _ in range(2))
            aiter.reshape_and_cache_with_pertoken_quant(self.t(k), self.t(v), kc, vc, ks, vs, self.t(slots), asm)
            for cache, scale, rows, back in (
                    (kc, ks, k, unshuffle_k), (vc, vs, v, unshuffle_v if asm else lambda x: x.transpose(0, 3, 1, 2))):
                scale = self.back(scale)
                scale = scale.transpose(0, 2, 1).reshape(-1, HK)[slots] if asm else scale[:, slots].T
                np.testing.assert_allclose(scale, np.abs(rows.astype(np.float64)).max(2) / FP8_MAX, 1e-6)
                self.check_stored(cache, slots, scale, rows, back)
            if asm:
                k_out, v_out = (self.t(np.zeros((2, HK, D), np.float16)) for _ in range(2))
                aiter.cp_mha_gather_cache(kc, vc, k_out, v_out, self.t(np.array([[0]], np.int32)), ks, vs,
                                          self.t(np.array([0, 2], np.int32)), None,
                                          self.t(np.array([0], np.int32)), True, "SHUFFLE", 2)
                support.close(self.back(k_out), k[2:4], float(np.abs(k).max()) / 15)

    def test_reshape_and_cache_with_block_quant(self):
        k, v = support.random((1, 20, HK, D), 1), support.random((1, 20, HK, D), 2)
        slots = np.concatenate([np.arange(16) + 32, np.arange(4)]).astype(np.int64)
        for asm in (True, False):
            kc, vc = self.fp8_pages(3, asm)
            ks, vs = (self.t(np.zeros((3, HK) if asm else (HK, 3), np.float32)) for _ in range(2))
            aiter.reshape_and_cache_with_block_quant(self.t(k), self.t(v), kc, vc, ks, vs, self.t(slots), asm)
            for cache, scale, rows, back in (
                    (kc, ks, k, unshuffle_k), (vc, vs, v, unshuffle_v if asm else lambda x: x.transpose(0, 3, 1, 2))):
                scale = self.back(scale) if asm else self.back(scale).T
                for page, of in ((2, slice(0, 16)), (0, slice(16, 20))):
                    want = np.abs(rows[0, of].astype(np.float64)).max((0, 2)) / FP8_MAX
                    np.testing.assert_allclose(scale[page], want, 1e-6)
                    self.check_stored(cache, slots[of], np.broadcast_to(want, (len(slots[of]), HK)), rows[0, of],
                                      back)
                self.assertFalse(scale[1].any())

    def test_merge_attn_states(self):
        a, b = support.random((5, H, D), 1), support.random((5, H, D), 2)
        la, lb = support.random((H, 5), 3, np.float32), support.random((H, 5), 4, np.float32)
        la[1, 2] = np.inf  # FlashAttention-2's lse of a row without keys
        given = [self.t(x) for x in (a, la, b, lb)]
        for n in (None, 3, 0):
            out, lse = self.t(np.zeros_like(a)), self.t(np.zeros_like(la))
            aiter.merge_attn_states(out, *given, lse, n)
            w = np.where(np.isinf(la), 0, 1 / (1 + np.exp(lb.astype(np.float64) - la)))
            if n is not None:
                w[:, n:] = 0
            want = w.T[..., None] * a + (1 - w).T[..., None] * b
            support.close(self.back(out), want, support.bound(np.maximum(np.abs(a), np.abs(b))))
            want = np.where(w == 0, lb, np.logaddexp(lb.astype(np.float64), la))
            support.close(self.back(lse), want, 1e-5)

    # ---- Norm and rotation

    def rotate(self, x, table, positions, neox, weight=None, eps=0.0):
        """Rotates x [tokens, heads, elements] in double precision, after an RMS norm if there is a weight. `neox`: True
        if pairs are half a row apart, False if they are neighbours."""
        x = x.astype(np.float64)
        if weight is not None:
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight.astype(np.float64)
        rot = table.shape[1]
        angle = table[positions].astype(np.float64)[:, None]
        cos, sin = angle[..., :rot // 2], angle[..., rot // 2:]
        out = x.copy()
        i = np.arange(rot // 2)
        first, second = (i, i + rot // 2) if neox else (2 * i, 2 * i + 1)
        a, b = x[..., first], x[..., second]
        out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
        return out

    def table(self, rot, dtype):
        """Returns the cosines and sines [50, rot] of 50 positions."""
        angle = np.arange(50)[:, None] * 10000.0 ** (-np.arange(rot // 2) / (rot // 2))
        return np.concatenate([np.cos(angle), np.sin(angle)], 1).astype(dtype)

    # Largest error of a rotation of values up to 8: the input, the products with rounded cosines, their sum and the
    # stored result are each rounded to 16 bits.
    ROPE = 4 * support.HALF * 8

    def test_fused_qk_norm_rope_cache_quant_shuffle(self):
        tokens = 5
        qkv = support.random((tokens, (H + 2 * HK) * D), 1)
        q, k, v = np.split(qkv, [H * D, (H + HK) * D], 1)
        qw, kw = support.random((D,), 2), support.random((D,), 3)
        table, positions = self.table(64, np.float32), np.array([3, 49, 0, 7, 7], np.int64)
        slots = np.array([40, 2, -1, 17, 18], np.int64)
        kc, vc = (self.t(np.zeros(s, np.float16)) for s in ((3, HK, D // X, P, X), (3, HK, D, P)))
        whole = self.t(qkv.copy())
        tq, tk, tv = whole[:, :H * D], whole[:, H * D:(H + HK) * D], whole[:, (H + HK) * D:]
        aiter.fused_qk_norm_rope_cache_quant_shuffle(
            tq, tk, tv, H, HK, HK, D, 1e-6, self.t(qw), self.t(kw), self.t(table), True,
            self.t(positions), kc, vc, self.t(slots), "auto", None, None)
        want_q = self.rotate(q.reshape(tokens, H, D), table, positions, True, qw, 1e-6)
        want_k = self.rotate(k.reshape(tokens, HK, D), table, positions, True, kw, 1e-6)
        support.close(self.back(tq).reshape(tokens, H, D), want_q, self.ROPE, "q")
        support.close(self.back(tk).reshape(tokens, HK, D), want_k, self.ROPE, "k")
        there = slots >= 0
        got = unshuffle_k(self.back(kc)).reshape(-1, HK, D)[slots[there]]
        support.close(got, want_k[there], self.ROPE, "k cache")
        got = unshuffle_v(self.back(vc).reshape(3, HK, P // X, D, X)).reshape(-1, HK, D)
        np.testing.assert_array_equal(got[slots[there]], v.reshape(tokens, HK, D)[there])

    def test_fused_qk_norm_rope_cache_block_quant_shuffle(self):
        qw, kw = support.random((D,), 2), support.random((D,), 3)
        table = self.table(D, np.float16)
        kc, vc = (self.t(np.zeros(s, np.uint8)) for s in ((3, HK, D // 16, P, 16), (3, HK, 1, D, 16)))
        # Scales that an earlier sequence left in the pages.
        ks, vs = (self.t(np.full((3, HK), 7, np.float32)) for _ in range(2))
        held = {}  # {name: rows in page 1 so far}; the second write's rows are eight times as large
        for slots, factor in ((np.arange(16, 21), 1), (np.arange(21, 24), 8)):
            tokens = len(slots)
            qkv = support.random((tokens, (H + 2 * HK) * D), 1)
            qkv[:, (H + HK) * D:] *= factor
            q, k, v = np.split(qkv, [H * D, (H + HK) * D], 1)
            weights, positions = (kw * factor).astype(np.float16), slots.astype(np.int64)
            whole = self.t(qkv.copy())
            aiter.fused_qk_norm_rope_cache_block_quant_shuffle(
                whole, H, HK, HK, D, 1e-6, self.t(qw), self.t(weights), self.t(table), True,
                self.t(positions), kc, vc, self.t(positions), self.t(np.array([0, tokens], np.int32)),
                "fp8_e4m3", ks, vs)
            want = self.rotate(q.reshape(tokens, H, D), table, positions, True, qw, 1e-6)
            support.close(self.back(whole)[:, :H * D].reshape(tokens, H, D), want, self.ROPE, "q")
            want = self.rotate(k.reshape(tokens, HK, D), table, positions, True, weights, 1e-6)
            support.close(self.back(whole)[:, H * D:(H + HK) * D].reshape(tokens, HK, D), want,
                          factor * self.ROPE, "k")
            for name, rows in (("k", want), ("v", v.reshape(tokens, HK, D).astype(np.float64))):
                held[name] = np.concatenate([held.get(name, rows[:0]), rows])
        for name, cache, scales, back in (("k", kc, ks, unshuffle_k), ("v", vc, vs, unshuffle_v)):
            rows, scale = held[name], self.back(scales)[1]
            np.testing.assert_allclose(scale, np.abs(rows).max((0, 2)) / FP8_MAX, 2e-3)
            got = FP8[back(self.back(cache))[1][:8]] * scale[:, None]
            # A byte is rounded to e4m3, an error of 1/16. The first tokens are rounded a second time, with the larger
            # scale.
            limit = np.abs(rows) / 7.5 + 2 * scale[:, None] * FP8_TINY
            self.assertTrue((np.abs(got - rows) <= limit).all(), name)
            np.testing.assert_array_equal(self.back(scales)[[0, 2]], 7)

    def test_fused_qk_norm_rope_cache_pts_quant_shuffle(self):
        tokens = 4
        qkv = support.random((tokens, (H + 2 * HK) * D), 1)
        q, k, v = np.split(qkv, [H * D, (H + HK) * D], 1)
        qw, kw = support.random((D,), 2), support.random((D,), 3)
        table, positions = self.table(D, np.float16), np.array([3, 49, 0, 7], np.int64)
        slots = np.array([40, 2, -1, 17], np.int64)
        kc, vc = (self.t(np.zeros((3, P, HK, D), np.float16)) for _ in range(2))
        q_out, one = self.t(np.zeros((tokens, H, D), np.float16)), self.t(np.ones(1, np.float32))
        aiter.fused_qk_norm_rope_cache_pts_quant_shuffle(
            self.t(qkv), self.t(qw), self.t(kw), self.t(table), self.t(positions), tokens, H, HK, HK,
            D, False, 1e-6, q_out, kc, vc, self.t(slots), one, one, None, None, False, False, P, X)
        want = self.rotate(q.reshape(tokens, H, D), table, positions, False, qw, 1e-6)
        support.close(self.back(q_out), want, self.ROPE, "q")
        want = self.rotate(k.reshape(tokens, HK, D), table, positions, False, kw, 1e-6)
        there = slots >= 0
        support.close(self.back(kc).reshape(-1, HK, D)[slots[there]], want[there], self.ROPE, "k")
        np.testing.assert_array_equal(self.back(vc).reshape(-1, HK, D)[slots[there]],
                                      v.reshape(tokens, HK, D)[there])

    def test_fused_qk_rope_reshape_and_cache(self):
        tokens = 4
        q, k, v = (support.random((tokens, h, D), h + i) for i, h in enumerate((H, HK, HK)))
        table, positions = self.table(D, np.float16), np.array([3, 49, 0, 7], np.int64)
        cos, sin = (self.t(np.ascontiguousarray(table[:, i * D // 2:(i + 1) * D // 2]).reshape(
            50, 1, 1, D // 2)) for i in range(2))
        slots = np.array([40, 2, -1, 17], np.int64)
        want_q, want_k = (self.rotate(x, table, positions, True) for x in (q, k))
        for flash in (True, False):
            kc = self.t(np.zeros((3, P, HK, D) if flash else (3, HK, D // X, P, X), np.float16))
            vc = self.t(np.zeros((3, P, HK, D) if flash else (3, HK, P // X, D, X), np.float16))
            got = aiter.fused_qk_rope_reshape_and_cache(
                self.t(q), self.t(k), self.t(v), kc, vc, self.t(slots), self.t(positions), cos, sin,
                None, None, True, flash_layout=flash, apply_scale=False, output_zeros=flash)
            self.assertEqual(len(got), 5 if flash else 4)
            support.close(self.back(got[0]), want_q, self.ROPE, "q")
            support.close(self.back(got[1]), want_k, self.ROPE, "k")
            there, back = slots >= 0, self.back(got[2])
            back = back if flash else unshuffle_k(back)
            support.close(back.reshape(-1, HK, D)[slots[there]], want_k[there], self.ROPE, "cache")
            if flash:
                self.assertFalse(self.back(got[4]).any())


class WithNumpy(Calls, unittest.TestCase):
    torch = False

    @staticmethod
    def t(x):
        return x

    back = t


@unittest.skipUnless(torch, "torch is not installed")
class WithTorch(Calls, unittest.TestCase):
    torch = True

    @staticmethod
    def t(x):
        """Returns a tensor of torch. Bytes become torch's fp8 type of the target, if torch has one."""
        bits = x.dtype == np.uint8 and hasattr(torch, "float8_e4m3fn")
        fp8 = "float8_e4m3fnuz" if support.TARGET == "gfx942" else "float8_e4m3fn"
        return torch.from_numpy(x).view(getattr(torch, fp8)) if bits else torch.from_numpy(x)

    @staticmethod
    def back(x):
        return x.view(torch.uint8).numpy() if "float8" in str(x.dtype) else x.numpy()


def twice(cases):
    """Returns two classes of tests, one with numpy's tensors and one with torch's. The second is skipped where torch is
    not installed."""
    made = []
    for how in (WithNumpy, WithTorch):
        made.append(type(how.__name__, (cases, unittest.TestCase), {
            "torch": how.torch, "t": staticmethod(how.t), "back": staticmethod(how.back), "__module__": cases.__module__}))
    return made[0], unittest.skipUnless(torch, "torch is not installed")(made[1])


if __name__ == "__main__":
    unittest.main()
