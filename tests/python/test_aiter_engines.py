# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter by the steps of engines' backends. Their caches have keys and values side by side, attention reads
selected slots, and outputs may be the cache's own bytes."""
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from support import FP8
from test_aiter import ALIBI, D, GQA, H, HK, P

LATENT = {"head_dim": 576, "head_dim_v": 512, "gqa": "any"}
ROPE = {"op": "rope_qk_norm_cache", "head_dim": D, "rotary_dim": D, "keep_kv": True, "cos_sin": "same"}
KERNELS = [
    {"op": "decode", "head_dim": D, "page_size": "any", "gqa": GQA},
    {"op": "decode", "head_dim": D, "page_size": "any", "gqa": GQA, "kv_dtype": "fp8", "kv_scale": "tensor"},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": "any"},
    {"op": "prefill", "head_dim": D, "paged": True, "page_size": "any", "kv_dtype": "fp8", "kv_scale": "tensor"},
    {"op": "prefill", "head_dim": D, "logits": ALIBI},
    {"op": "prefill", "head_dim": D, "lse": True, "mask": ["causal", "none"]},
    {"op": "cache_write", "head_dim": D}, {"op": "cache_gather", "head_dim": D},
    {"op": "combine", "head_dim": D, "partials": "pair"},
    {**ROPE, "rope": "neox"},
    {**ROPE, "rope": "neox", "kv_dtype": "fp8", "kv_scale": "tensor"},
    {**ROPE, "rope": "gptj", "norm": "rms", "keep_kv": False, "kv_dtype": "fp8", "kv_scale": "tensor",
     "kv_layout": ["nhd", "shuffle"]},
    {**ROPE, "rope": "neox", "mrope": ["sections", "interleaved"], "norm": "rms", "keep_kv": False},
    {**ROPE, "rope": "neox", "mrope": "sections", "norm": "gemma_rms", "keep_kv": True, "kv_layout": "shuffle"},
    {**ROPE, "rope": "neox", "mrope": "interleaved", "norm": "rms", "keep_kv": False, "kv_dtype": "fp8", "kv_scale": "tensor"},
    {**ROPE, "rope": "neox", "rotary_dim": 64, "norm": "rms", "gate": [False, True]},
    {**ROPE, "rope": "neox", "rotary_dim": 64, "norm": "rms", "kv_dtype": "fp8", "kv_scale": "tensor"},
    {**ROPE, "rope": "neox", "rotary_dim": 64, "norm": "gemma_rms"},
    {**ROPE, "rope": "neox", "rotary_dim": 64, "norm": "gemma_rms", "keep_kv": False, "kv_layout": ["nhd", "shuffle"]},
    {**ROPE, "rope": "neox", "rotary_dim": 64, "norm": "gemma_rms", "keep_kv": False, "kv_layout": ["nhd", "shuffle"],
     "kv_dtype": "fp8", "kv_scale": ["none", "token", "tensor"]},
    {"op": "cache_write", "head_dim": D // 2}, {"op": "cache_write", "head_dim": D // 2, "kv_dtype": "fp8"},
    {"op": "mla_decode", **LATENT, "page_size": "any", "sparse": "slots"},
    {"op": "mla_decode", **LATENT, "page_size": "any", "page_table": "indices"},
    {"op": "mla_rope_cache", "head_dim": 576, "head_dim_v": 512, "rope": "gptj", "keep_kv": True, "cos_sin": "f32"},
    {"op": "mla_rope_cache", "head_dim": 576, "head_dim_v": 512, "rope": "gptj", "keep_kv": True, "cos_sin": "f32",
     "kv_dtype": "fp8", "kv_scale": "tensor", "out_dtype": "fp8"},
    {"op": "mla_rope_cache", "head_dim": 576, "head_dim_v": 512, "rope": "none"},
    {"op": "combine", "head_dim": [D, 512], "partials": "csr"}, {"op": "plan"},
]
PLAN = ("work_metadata_ptrs", "work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map", "reduce_partial_map")


class Engines:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    rotate, table, ROPE = base.Calls.rotate, base.Calls.table, base.Calls.ROPE

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def side_by_side(self, pages, dtype):
        """Returns vLLM's cache [pages, heads, P, 2 D], and views of its keys and values as [pages, P, heads, D]."""
        whole = self.t(np.zeros((pages, HK, P, 2 * D), dtype))
        transposed = whole.transpose(1, 2) if self.torch else whole.swapaxes(1, 2)
        return whole, transposed[..., :D], transposed[..., D:]

    # ---- vLLM's TRITON_ATTN and ROCM_AITER_UNIFIED_ATTN

    def step(self, dtype, scale):
        """Runs a prompt of 37 tokens, then two decode steps of its sequence beside a second sequence's prompt. Each
        step rotates, writes the cache of type `dtype` with `scale`, and attends."""
        whole, keys, values = self.side_by_side(8, dtype)
        stored, table = dtype == np.uint8, self.table(D, np.float16)
        one = self.t(np.array(scale, np.float32))
        angles = self.t(table)
        cos, sin = angles[:, :D // 2], angles[:, D // 2:]
        blocks = np.array([[5, 1, 6], [0, 3, 2]], np.int32)
        seen = [[np.zeros((0, HK, D), np.float16)] * 2 for _ in range(2)]
        for n, counts in enumerate(((37, 0), (1, 20), (1, 1))):
            tokens = sum(counts)
            qkv = support.random((tokens, (H + 2 * HK) * D), n)
            q, k, v = (x.reshape(tokens, -1, D) for x in np.split(qkv, [H * D, (H + HK) * D], 1))
            lens = np.array([len(a[0]) + c for a, c in zip(seen, counts)])
            at = np.concatenate([np.arange(m - c, m) for m, c in zip(lens, counts)])
            rows = np.repeat(np.arange(2), counts)
            slots = blocks[rows, at // P].astype(np.int64) * P + at % P
            given = self.t(qkv.copy())
            parts = given[:, :H * D], given[:, H * D:(H + HK) * D], given[:, (H + HK) * D:]
            query, key, value = (x.view(tokens, -1, D) if self.torch else x.reshape(tokens, -1, D) for x in parts)
            if not self.torch:  # numpy copies a view that is not contiguous, so writes into it would be lost
                query, key, value = (np.ascontiguousarray(x) for x in (query, key, value))
            got = aiter.fused_qk_rope_reshape_and_cache(
                query, key, value, keys, values, self.t(slots), self.t(at), cos, sin, one, one, True, flash_layout=True,
                apply_scale=stored, q_out=query, k_out=key, output_zeros=False)
            self.assertIs(got[0], query)
            want_q, want_k = (self.rotate(x, table, at, True) for x in (q, k))
            support.close(self.back(query), want_q, self.ROPE)
            for s in range(2):
                for i, x in enumerate((want_k, v)):
                    seen[s][i] = np.concatenate([seen[s][i], x[rows == s]])
            cu = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            out, expanded = self.t(np.zeros((tokens, H, D), np.float16)), one
            if self.torch:
                expanded = one.expand(2, HK)
            else:
                expanded = np.broadcast_to(one, (2, HK))
            aiter.unified_attention(
                query, keys, values, out, self.t(cu), max(counts), self.t(lens.astype(np.int32)), int(lens.max()), D ** -0.5,
                True, (-1, -1), self.t(blocks), 0, None, expanded if stored else None, expanded if stored else None)
            # Error of keys and values of up to 16 scales by rounding to fp8.
            rounding = 2.0 ** -4 * scale * 16 if stored else 0.0
            for s in range(2):
                part = slice(cu[s], cu[s + 1])
                want, _ = support.attention(self.back(query)[part], *seen[s])
                support.close(self.back(out)[part], want, support.bound(seen[s][1]) + self.ROPE + 4 * rounding)
        kept = self.back(whole)
        self.assertFalse(kept[[4, 7]].any(), "a page that nobody has was written")
        return kept

    def test_keys_and_values_side_by_side(self):
        self.step(np.float16, 1.0)

    def test_keys_and_values_side_by_side_of_fp8(self):
        kept = self.step(np.uint8, 0.25)
        self.assertLess(np.nanmax(np.abs(FP8[kept])) * 0.25, 16)

    # ---- vLLM's ROCM_AITER_FA: a chunk of prompts after cached tokens, in two parts, and decode

    def test_chunks_after_cached_tokens(self):
        _, keys, values = self.side_by_side(12, np.float16)
        blocks, cached, new = np.array([[5, 1, 6, 9], [0, 3, 2, 8]], np.int32), [37, 20], [9, 14]
        lens = [a + b for a, b in zip(cached, new)]
        k, v = ([support.random((n, HK, D), 10 * i + s) for s, n in enumerate(lens)] for i in range(2))
        one = self.t(np.ones(1, np.float32))
        for s in range(2):
            at = np.arange(lens[s])
            slots = blocks[s, at // P].astype(np.int64) * P + at % P
            aiter.reshape_and_cache_flash(self.t(k[s]), self.t(v[s]), keys, values, self.t(slots), "auto", one, one)
        cu, cu_old = (np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (new, cached))
        q = support.random((int(cu[2]), H, D), 50)
        fresh = [self.t(np.concatenate([x[s][cached[s]:] for s in range(2)])) for x in (k, v)]
        suffix, suffix_lse = aiter.flash_attn_varlen_func(
            q=self.t(q), k=fresh[0], v=fresh[1], cu_seqlens_q=self.t(cu), cu_seqlens_k=self.t(cu), max_seqlen_q=14,
            max_seqlen_k=14, min_seqlen_q=1, dropout_p=0.0, softmax_scale=D ** -0.5, causal=True, window_size=(-1, -1),
            alibi_slopes=None, return_lse=True)
        parts = []
        for first, end in ((0, 16), (16, 48)):  # cached tokens 0 to 15 of each sequence, then 16 to 47
            n = [min(c, end) - min(c, first) for c in cached]
            starts = np.concatenate([[0], np.cumsum(n)]).astype(np.int32)
            room = [self.t(np.zeros((int(starts[2]), HK, D), np.float16)) for _ in range(2)]
            aiter.cp_mha_gather_cache(
                keys, values, *room, self.t(blocks), None, None, self.t(starts), self.t(np.repeat([0, 1], n).astype(np.int32)),
                self.t(np.array([first, first], np.int32)), False, "NHD", int(starts[2]))
            for s in range(2):
                np.testing.assert_array_equal(self.back(room[0])[starts[s]:starts[s + 1]],
                                              k[s][min(first, cached[s]):min(end, cached[s])])
            parts.append(aiter.flash_attn_varlen_func(
                self.t(q), *room, self.t(cu), self.t(starts), 14, max(n), causal=False, return_lse=True))
        out, lse = (self.t(np.zeros_like(self.back(x))) for x in parts[0])
        aiter.merge_attn_states(out, *parts[0], *parts[1], lse)
        whole = self.t(np.zeros_like(q))
        aiter.merge_attn_states(whole, out, lse, suffix, suffix_lse)
        for s in range(2):
            part = slice(cu[s], cu[s + 1])
            want, _ = support.attention(q[part], k[s], v[s])
            support.close(self.back(whole)[part], want, 2 * support.bound(v[s]))
        one_query, got = support.random((2, H, D), 51), self.t(np.zeros((2, H, D), np.float16))
        aiter.paged_attention_v1(got, None, self.t(one_query), keys, values, D ** -0.5, self.t(blocks), None,
                                 self.t(np.array(lens, np.int32)), 46, None, "auto", "NHD", 0.0, one, one)
        for s in range(2):
            want, _ = support.attention(one_query[s:s + 1], k[s], v[s])
            support.close(self.back(got)[s:s + 1], want, support.bound(v[s]))

    # ---- SGLang's DeepSeek: rotation and cache, and attention to what they wrote

    def latent_tokens(self, tokens, rows, heads=3):
        """Returns q, its rotated part, latents, rotated keys and the table of cosines. Each tensor is a view of a
        longer one."""
        q = support.random((tokens, heads, 640), 1)
        kv = support.random((rows, 1, 600), 2)
        table = self.table(64, np.float32)
        cos, sin = (self.t(np.ascontiguousarray(x).reshape(50, 1, 1, 32)) for x in np.split(table, 2, 1))
        whole, latents = self.t(q), self.t(kv)
        given = whole[..., :512], whole[..., 576:], latents[..., :512], latents[..., 512:576]
        return q, kv, table, (cos, sin), given

    def test_rotated_and_cached_latents(self):
        tokens, rows, heads = 4, 6, 3
        q, kv, table, angles, given = self.latent_tokens(tokens, rows)
        at, slots = np.array([3, 49, 0, 7, 8, 9], np.int64), np.array([40, 2, -1, 17, 18, 19], np.int64)
        cache = self.t(np.zeros((64, 1, 576), np.float16))
        got = aiter.fused_qk_rope_cat_and_cache_mla(*given, cache, self.t(slots), self.t(at), *angles, None, False,
                                                    num_decode_toks_for_zeros=2)
        q_out, q_pe, k_pe, zeros = (self.back(x) for x in got)
        want_q, want_k = (self.rotate(x, table, at[:len(x)], False) for x in (q[..., 576:], kv[..., 512:576]))
        np.testing.assert_array_equal(q_out[..., :512], q[..., :512])
        support.close(q_out[..., 512:], want_q, self.ROPE, "q")
        np.testing.assert_array_equal(q_pe, q_out[:2, :, 512:])
        support.close(k_pe, want_k, self.ROPE, "k")
        self.assertEqual((zeros.shape, zeros.any()), ((2, heads, 512), False))
        kept, there = self.back(cache), slots >= 0
        np.testing.assert_array_equal(kept[slots[there], 0, :512], kv[there, 0, :512])
        np.testing.assert_array_equal(kept[slots[there], 0, 512:], k_pe[there, 0])
        self.assertFalse(np.delete(kept, slots[there], 0).any())
        out = self.t(np.zeros((tokens, heads, 512), np.float16))
        lists, chosen = np.array([0, 2, 2, 5, 6], np.int32), np.array([2, 40, 17, 19, 18, 40], np.int32)
        cu, last = self.t(np.arange(5, dtype=np.int32)), self.t(np.ones(4, np.int32))
        aiter.mla_decode_fwd(got[0], cache.reshape(64, 1, 1, 576), out, cu, self.t(lists), self.t(chosen), last, 1,
                             sm_scale=0.05)
        for s in range(tokens):
            c = kept[chosen[lists[s]:lists[s + 1]]]
            want, _ = support.attention(q_out[s:s + 1], c, c[..., :512], scale=0.05)
            support.close(self.back(out)[s:s + 1], want, support.bound(kept))
        other = self.t(np.zeros((64, 1, 576), np.float16))
        aiter.cat_and_cache_mla(given[2], self.t(k_pe), other, self.t(slots), None)
        np.testing.assert_array_equal(self.back(other), kept)
        one = self.t(np.ones(1, np.float32))
        for more, words in (({"shuffled_kv_cache": True}, "caches of fragments"),
                            ({"k_scale": one}, "AITER divides by it, and the cache is fp16")):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.cat_and_cache_mla(given[2], self.t(k_pe), other, self.t(slots), **{"k_scale": None, **more})

    def test_rotated_and_cached_latents_of_fp8(self):
        q, kv, table, angles, given = self.latent_tokens(4, 4)
        at, slots = np.array([3, 49, 0, 7], np.int64), np.array([40, 2, 3, 17], np.int64)
        cache, scale = self.t(np.zeros((64, 1, 576), np.uint8)), self.t(np.array(0.5, np.float32))
        got = aiter.fused_qk_rope_cat_and_cache_mla(*given, cache, self.t(slots), self.t(at), *angles, scale, False,
                                                    q_out_dtype=cache.dtype)
        want_q, want_k = (self.rotate(x, table, at, False) for x in (q[..., 576:], kv[..., 512:576]))
        for got, want, step in ((FP8[self.back(got[0])], np.concatenate([q[..., :512], want_q], -1), 1),
                                (FP8[self.back(cache)[slots]] * 0.5, np.concatenate([kv[..., :512], want_k], -1), 0.5)):
            self.assertTrue((np.abs(got - want) <= np.abs(want) / 15 + step * 2.0 ** -9 + self.ROPE).all())

    # ---- SGLang's DSA: slots that an indexer selects

    def latents(self, lists, heads=5):
        """Returns a random cache of 640 rows, queries, as many random slots for each query as `lists` says, and an output."""
        rows = support.random((640, 1, 1, 576), 1)
        q = support.random((len(lists), heads, 576), 2)
        rng = np.random.default_rng(3)
        chosen = [rng.permutation(640)[:n].astype(np.int32) for n in lists]
        return rows, q, chosen, self.t(np.zeros((len(lists), heads, 512), np.float16))

    def check(self, out, rows, q, chosen):
        """Compares the output with attention in doubles over each query's chosen slots."""
        for s, slots in enumerate(chosen):
            c = rows.reshape(-1, 1, 576)[slots]
            want, _ = support.attention(q[s:s + 1], c, c[..., :512], scale=0.05)
            support.close(self.back(out)[s:s + 1], want, support.bound(rows))

    def plan(self, indptr, batch, topk, heads=5, **more):
        """Returns a plan of latent attention for `batch` queries with up to `topk` keys each, as get_mla_metadata_v1()
        writes it."""
        room = aiter.get_mla_metadata_info_v1(batch, 1, heads, None, None, True)
        plan = {n: self.t(np.zeros(shape, np.int32)) for n, (shape, _) in zip(PLAN, room)}
        cu, last = self.t(np.arange(batch + 1, dtype=np.int32)), self.t(np.ones(batch, np.int32))
        aiter.get_mla_metadata_v1(cu, indptr, last, heads, 1, False, **plan, page_size=1, kv_granularity=16,
                                  max_seqlen_qo=1, uni_seqlen_qo=1, topk=topk, max_split_per_batch=64, **more)
        del plan["work_metadata_ptrs"]
        return dict(plan, work_meta_data=cu), cu, last

    def test_selected_slots_in_one_list(self):
        rows, q, chosen, out = self.latents([512, 3, 0, 300])
        counts = [len(x) for x in chosen]
        # The list's starts have 4 entries after the batch's, as for a larger batch.
        indptr = self.t(np.concatenate([[0], np.cumsum(counts), [0] * 4]).astype(np.int32))
        slots = self.t(np.concatenate([*chosen, np.full(9, -7, np.int32)]))
        plan, cu, last = self.plan(indptr[:5], 4, 512, fast_mode=False, intra_batch_mode=True)
        aiter.mla_decode_fwd(self.t(q), self.t(rows), out, cu, indptr, slots, last, 1, sm_scale=0.05, logit_cap=0.0,
                             q_scale=None, kv_scale=None, **plan, intra_batch_mode=True, num_kv_splits=64)
        self.check(out, rows, q, chosen)
        self.assertGreater(int(self.back(plan["reduce_indptr"])[4]), 1, "nothing was split")

    def test_selected_slots_in_rows(self):
        k, contexts = 512, [600, 3, 512, 30000]
        rows, q, chosen, out = self.latents([min(n, k) for n in contexts])
        slots = np.full((4, k), -7, np.int32)
        for row, x in zip(slots, chosen):
            row[:len(x)] = x
        indptr = self.t(np.concatenate([[0], np.cumsum(contexts)]).astype(np.int32))
        plan, cu, last = self.plan(indptr, 4, k, fast_mode=True)
        plan["work_indptr"] = plan["work_indptr"][:]  # a view, which an engine may make of the plan's tensor
        given = self.t(q), self.t(rows), out, cu, indptr, self.t(slots.reshape(-1)), last, 1
        aiter.mla_decode_fwd(*given, sm_scale=0.05, **plan)
        self.check(out, rows, q, chosen)
        with self.assertRaisesRegex(aiter.NotServed, "1536 entries, the plan is of 4 rows of 512"):
            aiter.mla_decode_fwd(*given[:5], self.t(slots[:3].reshape(-1)), *given[6:], sm_scale=0.05, **plan)
        with self.assertRaisesRegex(aiter.NotServed, "topk: 2 queries of a sequence"):
            aiter.get_mla_metadata_v1(cu, indptr, last, 5, 1, True, *[None] * 6, max_seqlen_qo=2, topk=k)

    def test_unified_attention_sparse_mla(self):
        for page in (1, 16):
            rows, q, chosen, out = self.latents([300, 64, 3, 0])
            slots = np.full((5, 512), -1, np.int32)
            rng = np.random.default_rng(4)
            for row, x in zip(slots, chosen):  # all other entries of the row are -1: no key
                row[np.sort(rng.permutation(512)[:len(x)])] = x
            slots[4] = 10 ** 6  # slots of a query after the last sequence, which are not read
            five = self.t(np.concatenate([q, q[:1]]))
            out = self.t(np.full((5, 5, 512), 7, np.float16))
            cu, lens = self.t(np.array([0, 1, 4], np.int32)), self.t(np.array([300, 640], np.int32))
            table = self.t(np.zeros((2, 1), np.int32))
            aiter.unified_attention_sparse_mla(five, self.t(rows.reshape(-1, page, 1, 576)), out, cu, 3, lens, 640, 0.05,
                                               self.t(slots), table, 512)
            self.check(out, rows, q, chosen)
            self.assertFalse(self.back(out)[4].any())
        with self.assertRaisesRegex(aiter.NotServed, "kv: the cache is fp8, queries are fp16"):
            aiter.unified_attention_sparse_mla(five, self.t(np.zeros((640, 1, 1, 576), np.uint8)), out, cu, 3, lens, 640,
                                               0.05, self.t(slots), table, 512)

    # ---- SGLang's Qwen3-VL: three positions, into caches of slots

    def rotated_by_three(self, x, table, positions, sections, interleaved, weight):
        """Returns x after the norm and the rotation, in double precision. Three positions belong to each token;
        `sections` says which of them rotates a pair."""
        pair = np.arange(D // 2)
        which = np.repeat([0, 1, 2], sections)
        if interleaved:
            which = np.where((pair % 3 == 1) & (pair < 3 * sections[1]), 1, 0)
            which = np.where((pair % 3 == 2) & (pair < 3 * sections[2]), 2, which)
        # Rows of the table at the positions that rotate the pairs: [tokens, pair, D].
        own = table[positions[which].T][:, pair, :]
        angles = np.concatenate([own[:, pair, pair], own[:, pair, D // 2 + pair]], 1)
        return self.rotate(x, angles, np.arange(len(x)), True, weight, 1e-6)

    def test_three_positions(self):
        tokens, sections = 4, (24, 20, 20)
        qkv = support.random((tokens, H + 2 * HK, D), 1)
        q, k, v = qkv[:, :H], qkv[:, H:H + HK], qkv[:, H + HK:]
        qw, kw = support.random((D,), 2), support.random((D,), 3)
        table, slots = self.table(D, np.float16), np.array([40, 2, -1, 17], np.int64)
        positions = np.array([[3, 49, 0, 7], [4, 20, 1, 9], [11, 0, 2, 8]], np.int64)
        there, one = slots >= 0, self.t(np.ones((), np.float32))

        def call(caches, block, interleaved=False, kept=(None, None), shuffled=False, **more):
            q_out = self.t(np.zeros((tokens, H, D), np.float16))
            aiter.fused_qk_norm_mrope_3d_cache_pts_quant_shuffle(
                self.t(qkv), self.t(qw), self.t(kw), self.t(table), self.t(positions), tokens, H, HK, HK, D, True,
                list(sections), interleaved, 1e-6, q_out, *caches, self.t(slots), one, one, *kept, kept[0] is not None,
                shuffled, block, 8 if shuffled else 0, **more)
            return self.back(q_out)

        for interleaved in (False, True):
            want = [self.rotated_by_three(x, table, positions, sections, interleaved, w) for x, w in ((q, qw), (k, kw))]
            caches = [self.t(np.zeros((48, HK, D), np.float16)) for _ in range(2)]
            support.close(call(caches, 0, interleaved), want[0], self.ROPE, "q")
            support.close(self.back(caches[0])[slots[there]], want[1][there], self.ROPE, "k")
            np.testing.assert_array_equal(self.back(caches[1])[slots[there]], v[there])
        bytes_ = [self.t(np.zeros((48, HK, D), np.uint8)) for _ in range(2)]
        call(bytes_, 0, True)
        got = FP8[self.back(bytes_[0])[slots[there]]]
        self.assertTrue((np.abs(got - want[1][there]) <= np.abs(want[1][there]) / 15 + 2.0 ** -9 + self.ROPE).all())
        pages = [np.zeros((3, P, HK, D), np.float16) for _ in range(2)]
        pages = [self.t(base.shuffle_k(pages[0])), self.t(base.shuffle_v(pages[1]))]
        k_out, v_out = (self.t(np.zeros((tokens, HK * D), np.float16)) for _ in range(2))
        got = call(pages, P, kept=(k_out, v_out), shuffled=True, gemma_norm=True)
        more = [w.astype(np.float64) + 1 for w in (qw, kw)]
        support.close(got, self.rotated_by_three(q, table, positions, sections, False, more[0]), self.ROPE, "q")
        support.close(self.back(k_out).reshape(tokens, HK, D),
                      self.rotated_by_three(k, table, positions, sections, False, more[1]), self.ROPE, "k_out")
        np.testing.assert_array_equal(self.back(v_out).reshape(tokens, HK, D), v)
        kept = base.unshuffle_k(self.back(pages[0])).reshape(-1, HK, D)
        np.testing.assert_array_equal(kept[slots[there]], self.back(k_out).reshape(tokens, HK, D)[there])
        with self.assertRaisesRegex(aiter.NotServed, "block_size is 0, the cache has pages of 16"):
            call([self.t(np.zeros((3, P, HK, D), np.float16)) for _ in range(2)], 0)

    # ---- SGLang's Qwen3.5: queries with output gates

    def test_rows_with_output_gates(self):
        tokens, scale = 4, self.t(np.array(0.5, np.float32))
        qw, kw = support.random((D,), 2), support.random((D,), 3)
        table, slots = self.table(64, np.float16), np.array([40, 2, -1, 17], np.int64)
        at, there, whole = np.array([3, 45, 0, 7], np.int64), slots >= 0, self.t(table)
        for gated, layout, pages, fp8 in ((None, "HND", "HND", False), ("interleaved", "interleaved", "NHD", False),
                                          ("blocked", "blocked", "NHD", False), (None, "interleaved", "NHD", True)):
            q, gate, k, v = (support.random((tokens, n, D), 10 + i) for i, n in enumerate((H, H, HK, HK)))
            first = q
            if gated == "interleaved":
                first = np.concatenate([q, gate], 2)
            elif gated:
                first = np.concatenate([q, gate], 1)
            qkv = np.concatenate([x.reshape(tokens, -1) for x in (first, k, v)], 1)
            shape = (3, HK, P, D) if pages == "HND" else (3, P, HK, D)
            caches = [self.t(np.zeros(shape, np.uint8 if fp8 else np.float16)) for _ in range(2)]
            got = aiter.fused_qkv_split_qk_norm_rope_cache(
                qkv=self.t(qkv), q_weight=self.t(qw), k_weight=self.t(kw), cos=whole[:, :32], sin=whole[:, 32:],
                positions=self.t(at - 2), offsets=self.t(np.full(tokens, 2)), key_cache=caches[0], value_cache=caches[1],
                slot_mapping=self.t(slots), qh=H, kvh=HK, head_dim=D, attn_output_gate=gated is not None, eps=1e-6,
                gated_qkv_layout=gated or "interleaved", kv_cache_layout=pages, k_scale=scale if fp8 else None,
                v_scale=scale if fp8 else None)
            got = [self.back(x) for x in got]
            if gated:
                np.testing.assert_array_equal(got.pop(1), gate)
            want_q, want_k = (self.rotate(x, table, at, True, w, 1e-6) for x, w in ((q, qw), (k, kw)))
            support.close(got[0], want_q, self.ROPE, "q")
            support.close(got[1], want_k, self.ROPE, "k")
            np.testing.assert_array_equal(got[2], v)
            kept = [self.back(x).swapaxes(1, 2) if pages == "HND" else self.back(x) for x in caches]
            for x, want in zip(kept, got[1:]):
                x, want = x.reshape(-1, HK, D)[slots[there]], want[there].astype(np.float64)
                if fp8:
                    self.assertTrue((np.abs(FP8[x] * 0.5 - want) <= np.abs(want) / 15 + 2.0 ** -10).all())
                else:
                    np.testing.assert_array_equal(x, want)
        with self.assertRaisesRegex(aiter.NotServed, "it is 'SHUFFLE'"):
            aiter.fused_qkv_split_qk_norm_rope_cache(
                self.t(qkv), self.t(qw), self.t(kw), whole, whole, self.t(at), *caches, self.t(slots), H, HK, D,
                kv_cache_layout="SHUFFLE")

    # ---- MiniMax-M3: keys and values of attention and keys of an indexer

    HI = 2

    def minimax(self, index, **more):
        """Calls MiniMax's norm and rotation on five tokens. `index`: True if rows have an indexer's part. Returns
        three lists [q, k, v, and the indexer's q and k if there are any]: before the call, expected, and after the call."""
        heads = (H, HK, HK, *((self.HI, 1) if index else ()))
        parts = [support.random((5, n, D), i) for i, n in enumerate(heads)]
        weights = [support.random((D,), 10 + i) for i in range(4)]
        table, at = self.table(64, np.float16), np.array([3, 45, 0, 7, 19], np.int64)
        qkv = self.t(np.concatenate(parts, 1).reshape(5, -1))
        aiter.fused_qknorm_idxrqknorm(
            qkv, *(self.t(w) for w in weights[:2]), self.t(table), self.t(np.append(at, 1)), H, HK, 64, 1e-6,
            *((self.t(w) for w in weights[2:]) if index else (None, None)), len(heads) > 3 and self.HI, **more)
        w = dict(zip((0, 1, 3, 4), weights))
        want = [self.rotate(x, table, at, True, w[i].astype(np.float64) + 1, 1e-6) if i in w else x for i, x in enumerate(parts)]
        now = np.split(self.back(qkv).reshape(5, -1, D), np.cumsum(heads)[:-1], 1)
        return parts, want, now

    def test_minimax_in_place(self):
        parts, want, now = self.minimax(False)
        for i in (0, 1):
            support.close(now[i], want[i], self.ROPE)
        np.testing.assert_array_equal(now[2], parts[2])
        q_out, index_q_out = self.t(np.zeros((5, H * D), np.float16)), self.t(np.zeros((5, self.HI * D), np.float16))
        parts, want, now = self.minimax(True, q_out=q_out, index_q_out=index_q_out)
        for i in (0, 2, 3):
            np.testing.assert_array_equal(now[i], parts[i])
        for x, i in ((self.back(q_out), 0), (self.back(index_q_out), 3), (now[1], 1), (now[4], 4)):
            support.close(x.reshape(5, -1, D), want[i], self.ROPE)
        parts, want, now = self.minimax(True, skip_index_branch=True)
        support.close(now[0], want[0], self.ROPE)
        for i in (2, 3, 4):
            np.testing.assert_array_equal(now[i], parts[i])

    def stored(self, x, scale, want):
        """Checks that the fp8 numbers x times their scales are `want`, rounded once."""
        got = FP8[x] * scale
        self.assertTrue((np.abs(got - want) <= np.abs(want) / 15 + scale * 2.0 ** -9 + self.ROPE).all())

    def minimax_cache(self, kv_cache_dtype, shuffled, index_bytes, skip=False, **more):
        """Makes the call of minimax() with caches, and compares all slots. `shuffled` chooses the layout, `skip` leaves
        the indexer's part out."""
        slots, index_slots = np.array([40, 2, -1, 17, 18], np.int64), np.array([5, -1, 0, 46, 47], np.int64)
        there, fp8 = slots >= 0, kv_cache_dtype != "auto"
        whole = self.t(np.zeros((3, 2, P, HK, D), np.uint8 if fp8 else np.float16))
        caches, pages = [whole[:, 0], whole[:, 1]], [np.zeros((3, P, HK, D), np.uint8 if fp8 else np.float16)] * 2
        if shuffled:
            caches = [self.t(f(x, 16 if fp8 else 8)) for f, x in zip((base.shuffle_k, base.shuffle_v), pages)]
        index = self.t(np.zeros((3, P, D), np.uint8 if index_bytes else np.float16))
        q_out, index_q = self.t(np.zeros((5, H * D), np.float16)), self.t(np.zeros((5, self.HI * D), np.float16))
        parts, want, now = self.minimax(
            True, slot_mapping=self.t(slots), kv_cache_k=caches[0], kv_cache_v=caches[1], index_cache=None if skip else index,
            block_size=P, q_out=q_out, index_q_out=None if skip else index_q, index_slot_mapping=self.t(index_slots),
            kv_cache_dtype=kv_cache_dtype, asm_layout=shuffled, skip_index_branch=skip, **more)
        for x, before in zip(now, parts):
            np.testing.assert_array_equal(x, before)
        support.close(self.back(q_out).reshape(5, H, D), want[0], self.ROPE)
        kept = [self.back(x) for x in caches]
        if shuffled:
            kept = [base.unshuffle_k(kept[0]), base.unshuffle_v(kept[1])]
        kept = [x.reshape(-1, HK, D) for x in kept]
        for x in kept:
            self.assertFalse(np.delete(x, slots[there], 0).any(), "a slot that no token has was written")
        if not fp8:
            support.close(kept[0][slots[there]], want[1][there], self.ROPE)
            np.testing.assert_array_equal(kept[1][slots[there]], want[2][there])
        if not skip:
            support.close(self.back(index_q).reshape(5, self.HI, D), want[3], self.ROPE)
            rows, seen = self.back(index).reshape(-1, D), index_slots >= 0
            self.assertFalse(np.delete(rows, index_slots[seen], 0).any())
            if index_bytes:
                self.stored(rows[index_slots[seen]], 1.0, want[4][seen, 0])
            else:
                support.close(rows[index_slots[seen]], want[4][seen, 0], self.ROPE)
        return [x[slots[there]] for x in kept], [x[there].astype(np.float64) for x in want[1:3]], slots[there]

    def test_minimax_into_caches(self):
        self.minimax_cache("auto", False, False)
        self.minimax_cache("auto", True, True, index_cache_dtype="fp8")
        for shuffled in (False, True):
            for x, want in zip(*self.minimax_cache("fp8_e4m3_unit", shuffled, True)[:2]):
                self.stored(x, 1.0, want)
        scales = [self.t(np.array([x], np.float32)) for x in (0.25, 0.5)]
        for shuffled, skip in ((True, True), (False, False)):
            got, want, _ = self.minimax_cache("fp8_e4m3_static", shuffled, False, skip, k_scale=scales[0], v_scale=scales[1])
            self.stored(got[0], 0.25, want[0])
            self.stored(got[1], 0.5, want[1])

    def test_minimax_with_a_scale_of_each_token(self):
        for shuffled in (False, True):
            scales = [self.t(np.zeros((3, HK, P) if shuffled else (HK, 3 * P + 8), np.float32)) for _ in range(2)]
            got, want, slots = self.minimax_cache("fp8", shuffled, True, k_scale=scales[0], v_scale=scales[1])
            for x, scale, value in zip(got, scales, want):
                scale = self.back(scale)
                scale = scale.swapaxes(1, 2).reshape(-1, HK)[slots] if shuffled else scale[:, slots].T
                support.close(scale, np.abs(value).max(-1) / support.FP8_MAX, self.ROPE)
                self.stored(x, scale[..., None], value)

    def test_minimax_refusals(self):
        one = self.t(np.ones(1, np.float32))
        for words, dtype, shuffled, more in (
                ("kv_cache_dtype: it is 'fp8_e5m2'", "fp8_e5m2", False, {}),
                ("v_scale: kv_cache_dtype is 'fp8', which has two", "fp8", True, {"k_scale": one}),
                ("k_scale: kv_cache_dtype is 'fp8_e4m3_unit', which has none", "fp8_e4m3_unit", True, {"k_scale": one}),
                ("scales are of a token", "fp8", True, {"k_scale": one, "v_scale": one}),
                (r"they are \[2 heads, 48 slots\]", "fp8", False, {"k_scale": one, "v_scale": one}),
                ("index_cache_dtype: it is 'auto', the cache is fp8", "auto", False, {"index_cache_dtype": "auto"})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                self.minimax_cache(dtype, shuffled, True, **more)
        with self.assertRaisesRegex(aiter.NotServed, "outputs are of the type of qkv"):
            self.minimax(True, index_q_out=self.t(np.zeros((5, self.HI * D), np.uint8)))
        with self.assertRaisesRegex(aiter.NotServed, "slot_mapping: it is needed with a cache"):
            pages = [self.t(np.zeros((3, P, HK, D), np.float16)) for _ in range(2)]
            self.minimax(False, kv_cache_k=pages[0], kv_cache_v=pages[1], block_size=P)

    # ---- Outputs that are the cache's bytes

    def test_keys_and_values_given_back_as_bytes(self):
        tokens, slots = 4, np.array([40, 2, -1, 17], np.int64)
        qkv, weight = self.t(support.random((tokens, (H + 2 * HK) * D), 1)), self.t(support.random((D,), 2))
        scale, q_out = self.t(np.array([0.25], np.float32)), self.t(np.zeros((tokens, H, D), np.float16))
        for shuffled in (False, True):
            pages = [np.zeros((3, P, HK, D), np.uint8) for _ in range(2)]
            if shuffled:
                pages = [base.shuffle_k(pages[0], 16), base.shuffle_v(pages[1], 16)]
            caches = [self.t(x) for x in pages]
            outs = [self.t(np.full((tokens, HK * D), 3, np.uint8)) for _ in range(2)]
            aiter.fused_qk_norm_rope_cache_pts_quant_shuffle(
                qkv, weight, weight, self.t(self.table(D, np.float16)), self.t(np.arange(tokens)), tokens, H, HK, HK, D,
                False, 1e-6, q_out, *caches, self.t(slots), scale, scale, *outs, True, shuffled, P, 16)
            kept = [self.back(x) for x in caches]
            if shuffled:
                kept = [base.unshuffle_k(kept[0]), base.unshuffle_v(kept[1])]
            for x, out in zip(kept, outs):
                out = self.back(out).reshape(tokens, HK, D)
                np.testing.assert_array_equal(out[slots >= 0], x.reshape(-1, HK, D)[slots[slots >= 0]])
                self.assertTrue(out[slots >= 0].any())
                self.assertTrue((out[slots < 0] == 3).all())

    # ---- Slopes with a row for each sequence

    def test_rows_of_slopes(self):
        cu = np.array([0, 5, 40], np.int32)
        q, k, v = (support.random((40, n, D), i) for i, n in enumerate((H, HK, HK)))
        slopes = 0.5 ** np.arange(1, H + 1, dtype=np.float32)
        rows = self.t(slopes)[None].expand(2, H) if self.torch else np.broadcast_to(slopes[None], (2, H))
        out = aiter.flash_attn_varlen_func(*(self.t(x) for x in (q, k, v, cu, cu)), 35, 35, causal=True, alibi_slopes=rows)
        for s in range(2):
            part = slice(cu[s], cu[s + 1])
            want, _ = support.attention(q[part], k[part], v[part], slopes=slopes)
            support.close(self.back(out)[part], want, support.bound(v))
        with self.assertRaisesRegex(aiter.NotServed, "a hook does not know of which one"):
            aiter.flash_attn_varlen_func(*(self.t(x) for x in (q, k, v, cu, cu)), 35, 35, causal=True,
                                         alibi_slopes=self.t(np.stack([slopes, slopes])))


WithNumpy, WithTorch = base.twice(Engines)


if __name__ == "__main__":
    unittest.main()
