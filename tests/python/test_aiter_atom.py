# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's versions of ATOM's own kernels for MiniMax-M3 and DeepSeek-V4 against references in doubles."""
import types
import unittest

import numpy as np

import attn.aiter as aiter
import support
import test_aiter as base
from attn.aiter import _common
from support import FP8, FP8_MAX
from test_aiter_decode import Decode as Lists

BLOCK, PAGE, D, TOP, GROUP, DIM, ROTARY = 128, 16, 128, 3, 4, 512, 64
SCALE = D ** -0.5
ROW = {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": "any", "page_size": 1, "page_table": "indices", "sinks": True,
       "sparse": "slots", "two_sources": [False, True]}
KERNELS = [
    {"op": "indexer_topk", "top_k": TOP, "index_heads": 1, "paged": True, "all_signs": True, "top_blocks": TOP, "block_size": BLOCK,
     "index_keys": "fp16"},
    {"op": "topk", "top_k": TOP}, {"op": "chosen_lists"}, {"op": "plan"}, {"op": "combine", "head_dim": [D, DIM], "partials": "csr"},
    {"op": "decode", "head_dim": D, "page_size": BLOCK, "gqa": GROUP},
    {"op": "decode", "head_dim": D, "page_size": BLOCK, "gqa": GROUP, "kv_dtype": "fp8"},
    {"op": "decode", "head_dim": D, "page_size": PAGE, "gqa": GROUP, "kv_layout": "shuffle"},
    {"op": "decode", "head_dim": D, "page_size": PAGE, "gqa": GROUP, "kv_layout": "shuffle", "kv_dtype": "fp8", "kv_scale": "token"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "norm": "gemma_rms", "rope": "neox", "rotary_dim": ROTARY,
     "kv_layout": ["shuffle", "nhd"], "cos_sin": "same"},
    {"op": "rope_qk_norm_cache", "head_dim": D, "norm": "gemma_rms", "rope": "neox", "rotary_dim": ROTARY,
     "keep_kv": True, "cos_sin": "same"},
    {"op": "cache_write", "head_dim": [D // 2, DIM // 2]}, ROW, {**ROW, "kv_dtype": "fp8", "kv_layout": "planes"},
    {"op": "cache_gather", "head_dim": 448, "head_dim_v": 64, "kv_dtype": "fp8", "kv_layout": "planes", "page_size": "any"},
    {"op": "cache_gather", "head_dim": 64, "kv_dtype": "fp8", "kv_scale": "token", "page_size": "any"},
    {"op": "rope_heads", "head_dim": DIM, "norm": ["rms", "none"], "rope": "gptj", "rotary_dim": ROTARY},
    {"op": "rope_heads", "head_dim": DIM, "norm": "none", "rope": "gptj", "rotary_dim": ROTARY, "out_dtype": "fp8"},
]


def angles(positions, seed=9):
    """Returns tables of cosines and sines [positions, 1, 1, ROTARY / 2] in fp16."""
    turns = np.random.default_rng(seed).uniform(-3, 3, (positions, 1, 1, ROTARY // 2))
    return np.float16(np.cos(turns)), np.float16(np.sin(turns))


def turned(x, cos, sin, back=False):
    """Returns x [tokens, heads, element] in doubles, with the last ROTARY elements rotated in pairs of neighbours.
    `back`: True to rotate by negative angles."""
    out = np.float64(x).copy()
    cos, sin = (np.float64(t).reshape(len(x), 1, -1) for t in (cos, sin))
    sin = -sin if back else sin
    even, odd = out[..., -ROTARY::2].copy(), out[..., -ROTARY + 1::2].copy()
    out[..., -ROTARY::2], out[..., -ROTARY + 1::2] = even * cos - odd * sin, odd * cos + even * sin
    return out


def normed(x, eps, weight=1.0):
    """Applies the RMS norm to the last dimension of x in doubles."""
    x = np.float64(x)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


class Atom:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, back(x) returns its
    array."""

    lists_of_rows, compare_lists = Lists.lists_of_rows, Lists.compare_lists
    mixed_rows, planes = staticmethod(Lists.mixed_rows), Lists.planes

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def setUp(self):
        self.random = np.random.default_rng(5)
        _common._devices[0].buffers.clear()

    def numbers(self, *shape):
        """Returns random numbers. Their address is a multiple of 64 bytes, since an indexer's queries must begin at a
        multiple of 32."""
        values = np.float16(self.random.standard_normal(shape))
        memory = np.zeros(values.nbytes + 64, np.uint8)
        out = memory[-memory.ctypes.data % 64:][:values.nbytes].view(np.float16).reshape(shape)
        out[...] = values
        return out

    def close(self, got, want, bound=4 * support.HALF):
        """Checks that the norm of each row's error is at most `bound` times the row's norm."""
        far = np.linalg.norm(np.float64(got) - want, axis=-1) / np.maximum(np.linalg.norm(want, axis=-1), 1e-9)
        self.assertLess(float(far.max(initial=0)), bound)

    # ---- MiniMax-M3 ----

    def prompts(self, heads):
        """Sets the batch: 3 sequences with 5, 0 and 9 new queries after cached keys, and their page table [sequence,
        block]. owner[i] is the sequence of query i, sees[i] its number of visible keys."""
        self.news, self.lens = np.int32([5, 0, 9]), np.int32([700, 200, 389])
        self.prefix, self.cu_q = self.lens - self.news, np.int32([0, 5, 5, 14])
        self.table = np.int32([[5, 2, 7, 0, 3, 6], [9, 8, 0, 0, 0, 0], [1, 11, 4, 10, 0, 0]])
        self.owner = np.repeat(np.arange(3), self.news)
        self.sees = np.concatenate([p + 1 + np.arange(n) for p, n in zip(self.prefix, self.news)])
        self.heads = heads

    def blocks_of(self, index_q, keys, owner, sees):
        """Returns the TOP best blocks of each query and head, in ascending order, by scores in doubles. The newest
        block is always among them."""
        out = []
        for q, s, n in zip(index_q, owner, sees):
            at = np.arange(n)
            seen = np.float64(keys[self.table[s, at // BLOCK], at % BLOCK])
            for head in q:
                scores = seen @ np.float64(head)
                most = np.array([scores[b:b + BLOCK].max() for b in range(0, n, BLOCK)])
                most[-1] = np.inf
                out.append(np.sort(np.argsort(most)[-TOP:]))
        return out

    def check_blocks(self, found, want, queries):
        """Compares topk_idx [heads, queries, TOP] with `want`, a list of blocks for each query and head."""
        self.assertEqual(tuple(found.shape), (self.heads, queries, TOP))
        for row, own in enumerate(want):
            got = found[row % self.heads, row // self.heads]
            np.testing.assert_array_equal(got, np.pad(own, (0, TOP - len(own)), constant_values=-1))

    def check_lists(self, lists, lens, want, owner, sees):
        """Compares page lists with the pages of `want`, the blocks of each query and head. lists [queries * heads, TOP
        * 8] has pages of 16 tokens, `lens` has each list's number of tokens."""
        for row, own in enumerate(want):
            query, head = divmod(row, self.heads)
            tokens = np.concatenate([np.arange(b * BLOCK, min((b + 1) * BLOCK, sees[query])) for b in own])
            pages = [(self.table[owner[query], t // BLOCK] * 8 + t % BLOCK // PAGE) * self.heads + head for t in tokens[tokens % PAGE == 0]]
            self.assertEqual(lens[row], len(tokens))
            np.testing.assert_array_equal(lists[row, :len(pages)], pages)
            self.assertFalse(lists[row, -(-len(tokens) // BLOCK) * 8:].any())

    def test_blocks_of_prompts(self):
        for heads in (1, 2):
            self.prompts(heads)
            keys, q = self.numbers(12, BLOCK, D), self.numbers(14, heads, D)
            given = [self.t(x) for x in (q, keys, self.table, self.cu_q, self.lens, self.prefix)]
            found, lists, lens = aiter.minimax_m3_index_topk(*given, 9, 700, TOP, 0, 1, heads, SCALE, True)
            want = self.blocks_of(q, keys, self.owner, self.sees)
            self.check_blocks(self.back(found), want, 14)
            self.check_lists(self.back(lists), self.back(lens), want, self.owner, self.sees)
            self.check_blocks(self.back(aiter.minimax_m3_index_topk(*given, 9, 700, TOP, 0, 1, heads, SCALE)), want, 14)

    def test_blocks_of_decode_steps(self):
        for heads, each in ((1, 1), (2, 2)):
            self.prompts(heads)
            keys, q = self.numbers(12, BLOCK, D), self.numbers(3 * each, heads, D)
            owner = np.repeat(np.arange(3), each)
            sees = self.lens[owner] - each + np.tile(np.arange(each), 3) + 1
            given = [self.t(x) for x in (q, keys, self.table, self.lens)]
            want = self.blocks_of(q, keys, owner, sees)
            for longest in (700, 1 << 20):  # with 2^20 keys the choice is made in several parts
                found, lists, lens = aiter.minimax_m3_index_topk_decode(*given, longest, TOP, 0, 1, heads, SCALE, True, each)
                self.check_blocks(self.back(found), want, 3 * each)
                self.check_lists(self.back(lists), self.back(lens), want, owner, sees)

    def test_forms_of_the_choice_that_are_not_served(self):
        self.prompts(1)
        q, keys = self.t(self.numbers(3, 1, D)), self.t(self.numbers(12, BLOCK, D))
        given = [self.t(self.table), self.t(self.lens), 700, TOP, 0]
        for words, call in (("local_blocks", (q, keys, *given, 0, 1, SCALE)), ("2 KV heads", (q, keys, *given, 1, 2, SCALE)),
                            ("of fp8", (q, self.t(np.zeros((12, BLOCK, D), np.uint8)), *given, 1, 1, SCALE))):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.minimax_m3_index_topk_decode(*call)

    def choice(self, owner, sees, heads):
        """Returns random blocks of each query and head in the form of topk_idx, and a list of the tokens that each
        sees."""
        self.heads, topk, tokens = heads, np.full((heads, len(owner), TOP), -1, np.int32), []
        for query, n in enumerate(sees):
            for head in range(heads):
                newest = (n - 1) // BLOCK
                own = np.unique([newest, *self.random.integers(0, newest + 1, TOP - 1)])
                topk[head, query, :len(own)] = own
                tokens.append(np.concatenate([np.arange(b * BLOCK, min((b + 1) * BLOCK, n)) for b in own]))
        return topk, tokens

    def attention_of(self, q, k, v, tokens, owner):
        """Returns attention outputs [queries, heads, D] in doubles over each row's list of tokens. k and v are caches
        [block, BLOCK, kv heads, D]."""
        out = np.zeros(q.shape)
        for row, own in enumerate(tokens):
            query, head = divmod(row, self.heads)
            at = self.table[owner[query], own // BLOCK], own % BLOCK, head
            part = slice(head * GROUP, (head + 1) * GROUP)
            out[query, part] = support.attention(q[query:query + 1, part], k[at][:, None], v[at][:, None], scale=SCALE)[0][0]
        return out

    def test_attention_to_blocks_of_a_cache(self):
        for heads in (1, 2):
            self.prompts(heads)
            cache = self.numbers(12, 2, BLOCK, heads, D)
            topk, tokens = self.choice(self.owner, self.sees, heads)
            q, out = self.numbers(14, heads * GROUP, D), self.t(np.zeros((14, heads * GROUP, D), np.float16))
            aiter.minimax_m3_sparse_attn(*(self.t(x) for x in (q, cache, topk, self.table, self.cu_q, self.lens, self.prefix)), 9, heads,
                                         SCALE, out)
            self.close(self.back(out), self.attention_of(q, cache[:, 0], cache[:, 1], tokens, self.owner))

    def test_attention_of_decode_steps_to_blocks_of_a_cache(self):
        self.prompts(1)
        stored = support.fp8_bytes((12, 2, BLOCK, 1, D), 3)
        topk, tokens = self.choice(np.arange(3), self.lens, 1)
        q = self.numbers(3, GROUP, D)
        for cache, values in ((self.numbers(12, 2, BLOCK, 1, D), None), (stored, FP8[stored])):
            values, out = cache if values is None else values, self.t(np.zeros((3, GROUP, D), np.float16))
            aiter.minimax_m3_sparse_attn_decode(*(self.t(x) for x in (q, cache, topk, self.table, self.lens)), 1, SCALE, out)
            self.close(self.back(out), self.attention_of(q, values[:, 0], values[:, 1], tokens, np.arange(3)), 2.0 ** -7)

    def shuffled(self, k, v, x):
        """Returns keys and values [block, BLOCK, heads, D] in pages of 16 tokens in AITER's layout, where x elements
        are neighbours."""
        pages, heads = len(k) * 8, k.shape[2]
        k, v = (t.reshape(pages, PAGE, heads, D) for t in (k, v))
        return (np.ascontiguousarray(k.reshape(pages, PAGE, heads, D // x, x).transpose(0, 2, 3, 1, 4)),
                np.ascontiguousarray(v.reshape(pages, PAGE // x, x, heads, D).transpose(0, 3, 1, 4, 2)))

    def test_attention_over_lists_of_pages(self):
        self.prompts(1)
        k, v = (self.numbers(12, BLOCK, 1, D) for _ in range(2))
        pages = [self.t(x) for x in self.shuffled(k, v, 8)]
        topk, tokens = self.choice(self.owner, self.sees, 1)
        q, out = self.numbers(14, GROUP, D), self.t(np.zeros((14, GROUP, D), np.float16))
        want = self.attention_of(q, k, v, tokens, self.owner)
        at = self.t(np.int32(self.owner)), self.t(np.int32(self.sees - 1))
        for owner, more in ((at, {}), ((None, None), {"cu_seqlens_q": self.t(self.cu_q), "prefix_lens": self.t(self.prefix)})):
            out[...] = 0
            aiter.minimax_m3_sparse_attn_prefill_asm(self.t(q), *pages, self.t(topk), self.t(self.table), *owner, None, 1, SCALE, out, **more)
            self.close(self.back(out), want)
        topk, tokens = self.choice(np.arange(3), self.lens, 1)
        out = self.t(np.zeros((3, GROUP, D), np.float16))
        aiter.minimax_m3_sparse_attn_decode_asm(self.t(q[:3]), *pages, self.t(topk), self.t(self.table), self.t(self.lens), 1, SCALE, out)
        self.close(self.back(out), self.attention_of(q[:3], k, v, tokens, np.arange(3)))

    def test_attention_over_lists_of_two_kv_heads(self):
        self.prompts(2)
        stored = [support.fp8_bytes((12, BLOCK, 2, D), n) for n in (1, 2)]
        scales = [np.float32(self.random.uniform(0.01, 0.02, (12 * 8, 2, PAGE))) for _ in range(2)]
        k, v = (FP8[x] * s.transpose(0, 2, 1).reshape(12, BLOCK, 2, 1) for x, s in zip(stored, scales))
        pages = [self.t(x) for x in self.shuffled(*stored, 16)]
        topk, tokens = self.choice(np.arange(3), self.lens, 2)
        lists, lens = aiter.minimax_m3_build_sparse_block_table(self.t(topk), self.t(self.table), self.t(self.lens))
        q, out = self.numbers(3, 2 * GROUP, D), self.t(np.zeros((3, 2 * GROUP, D), np.float16))
        aiter.minimax_m3_sparse_attn_decode_asm(self.t(q), *pages, None, None, None, 2, SCALE, out, *map(self.t, scales), lists, lens)
        self.close(self.back(out), self.attention_of(q, k, v, tokens, np.arange(3)), 2.0 ** -7)

    def test_norm_rotation_and_the_write_of_shuffle_pages(self):
        heads, tokens, slots = (GROUP, 1, 1, 2, 1), 6, np.int64([17, 3, -1, 40, 41, 0])
        qkv, weights = self.numbers(tokens, sum(heads) * D), [self.numbers(D) for _ in range(4)]
        table, positions = self.numbers(64, ROTARY), np.int64([5, 1, 2, 60, 61, 9])
        shape = (5, 1, D // 8, PAGE, 8), (5, 1, PAGE // 8, D, 8), (5 * PAGE, D), (tokens, GROUP * D), (tokens, 2 * D)
        own, other = ([self.t(np.zeros(n, np.float16)) for n in shape] for _ in range(2))
        given = [self.t(qkv), *map(self.t, weights[:2]), self.t(table), self.t(positions), GROUP, 1, ROTARY, 1e-6]
        index = *map(self.t, weights[2:]), 2, self.t(slots)
        aiter.minimax_m3_fused_qknorm_rope_kv_insert_shuffle(*given, *index, *own, D)
        aiter.fused_qknorm_idxrqknorm(*given, *index, *other[:3], PAGE, *other[3:], asm_layout=True)
        for a, b in zip(own, other):
            self.assertTrue(self.back(b).any())
            np.testing.assert_array_equal(self.back(a), self.back(b))
        with self.assertRaisesRegex(aiter.NotServed, "idx_head_dim"):
            aiter.minimax_m3_fused_qknorm_rope_kv_insert_shuffle(*given, *index, *own, 64)

    # ---- DeepSeek-V4 ----

    def test_decode_over_lists_of_rows(self):
        rows, q, sinks = support.random((300, DIM), 1), support.random((4, 7, DIM), 2), support.random(7, 4, np.float32)
        entries, starts = self.lists_of_rows([70, 0, 5, 9], 300, 3)
        given = [self.t(x) for x in (q, rows, entries, starts, sinks)]
        self.compare_lists(aiter.sparse_attn_v4_paged_decode(*given, DIM ** -0.5), q, sinks, [(rows, entries, starts)])
        with self.assertRaisesRegex(aiter.NotServed, "kv_scales is of rows of fp8"):
            aiter.sparse_attn_v4_paged_decode(*given, DIM ** -0.5, kv_scales=given[4])

    def test_decode_over_lists_of_rows_of_fp8_with_scales(self):
        pool, q, sinks = support.fp8_bytes((300, DIM), 1), support.random((4, 7, DIM), 2), support.random(7, 4, np.float32)
        scales = np.random.default_rng(8).uniform(0.01, 0.1, (300, DIM // 64)).astype(np.float32)
        rows = np.float16(np.float32(FP8[pool]) * np.repeat(scales, 64, 1))
        entries, starts = self.lists_of_rows([70, 0, 5, 9], 300, 3)
        padded = np.concatenate([entries, np.int32([10 ** 6, -1])])  # stale entries after the last list
        given = [self.t(x) for x in (q, pool, padded, starts, sinks)]
        call, more = [*given, DIM ** -0.5], {"kv_scales": self.t(scales)}
        for decode in (aiter.sparse_attn_v4_paged_decode, aiter.pa_decode_sparse):
            self.compare_lists(decode(*call, **more), q, sinks, [(rows, entries, starts)])
        with self.assertRaisesRegex(aiter.NotServed, "no float32 scale for each 64 elements"):
            aiter.pa_decode_sparse(*call, kv_scales=self.t(scales[:, :4]))
        with self.assertRaisesRegex(aiter.NotServed, "rows in two tensors have no scales"):
            aiter.sparse_attn_v4_paged_decode(*call, **more, unified_kv_rope=self.t(pool[:, :64]))

    def test_decode_over_lists_of_rows_in_two_tensors(self):
        narrow, wide, rows = self.planes((60,), 1)
        packed, rotated, q = self.planes((3, 7), 4)
        sinks = support.random(7, 4, np.float32)
        entries, starts = self.lists_of_rows([50, 0, 33], 60, 5)
        got = aiter.sparse_attn_v4_paged_decode(
            None, self.t(narrow), self.t(entries), self.t(starts), self.t(sinks), DIM ** -0.5, unified_kv_rope=self.t(wide),
            q_packed_in=self.t(packed), q_rope_in=self.t(rotated))
        self.compare_lists(got, q, sinks, [(rows, entries, starts)])

    def test_prompts_over_rows_of_a_pool_and_of_this_pass(self):
        rows, new, q = support.random((300, DIM), 1), support.random((40, DIM), 5), support.random((4, 7, DIM), 2)
        sinks, out = support.random(7, 4, np.float32), self.t(np.zeros_like(q))
        pool, own = self.lists_of_rows([70, 0, 5, 0], 300, 3), self.lists_of_rows([3, 20, 0, 0], 40, 6)
        given = [self.t(x) for x in (q, rows, *pool, new, *own, sinks)]
        self.assertIs(aiter.sparse_attn_v4_paged_prefill(*given, DIM ** -0.5, out=out), out)
        self.compare_lists(out, q, sinks, [(rows, *pool), (new, *own)])

    def test_prompts_over_rows_in_two_tensors(self):
        narrow, wide, rows = self.planes((60,), 1)
        new_narrow, new_wide, new = self.planes((9, 1), 7)
        packed, rotated, q = self.planes((3, 7), 4)
        sinks = support.random(7, 4, np.float32)
        pool, own = self.lists_of_rows([50, 0, 33], 60, 5), self.lists_of_rows([2, 8, 9], 9, 6)
        more = dict(unified_kv_rope=self.t(wide), q_packed=self.t(packed), q_rope=self.t(rotated))
        lists = [self.t(x) for x in pool], [self.t(x) for x in own]
        got = aiter.sparse_attn_v4_paged_prefill(None, self.t(narrow), *lists[0], None, *lists[1], self.t(sinks), DIM ** -0.5,
                                                 k_packed=self.t(new_narrow), k_rope=self.t(new_wide), **more)
        self.compare_lists(got, q, sinks, [(rows, *pool), (new.reshape(-1, DIM), *own)])
        got = aiter.sparse_attn_v4_paged_prefill(None, self.t(narrow), *lists[0], None, *lists[1], self.t(sinks), DIM ** -0.5, **more)
        self.compare_lists(got, q, sinks, [(rows, *pool)])

    def test_lists_of_equal_length(self):
        rows, q, sinks = support.random((2, 30, DIM), 1), support.random((2, 3, 7, DIM), 2), support.random(7, 4, np.float32)
        chosen = np.int32(self.random.integers(-1, 30, (2, 3, 11)))
        got = self.back(aiter.sparse_attn(*(self.t(x) for x in (q, rows, sinks, chosen)), DIM ** -0.5))
        for s in range(2):
            entries = chosen[s].reshape(-1)
            self.compare_lists(self.t(got[s].copy()), q[s], sinks, [(rows[s], entries, np.arange(4) * 11)])
        got = aiter.sparse_attn_ragged(*(self.t(x) for x in (q[0], rows[0], sinks, chosen[0])), DIM ** -0.5)
        self.compare_lists(got, q[0], sinks, [(rows[0], chosen[0].reshape(-1), np.arange(4) * 11)])

    def test_norm_and_rotation_of_queries_and_rows(self):
        cos, sin = angles(50)
        q, kv, weight, at = self.numbers(6, 3 * DIM), self.numbers(6, DIM), self.numbers(DIM), np.int64([3, 49, 0, 7, 8, 20])
        pool, rows, owner = self.t(np.zeros((40, DIM), np.float16)), np.int32([7, 3, 5, -1, 39, 0]), np.int32([0, 0, -1, 1, 1, 2])
        got = aiter.qk_norm_rope_maybe_quant(*(self.t(x) for x in (q, kv, weight, cos, sin, at)), 3, DIM, ROTARY, 1e-6,
                                             swa_kv=pool, swa_dest_rows=self.t(rows), batch_id_per_token=self.t(owner))
        self.close(self.back(got.q_sa), turned(normed(q.reshape(6, 3, DIM), 1e-6), cos[at], sin[at]))
        self.close(self.back(got.kv), turned(normed(kv[:, None], 1e-6, np.float64(weight)), cos[at], sin[at])[:, 0])
        self.assertEqual((got.q_scale, got.kv_scale, got.q_packed), (None, None, None))
        want = np.zeros((40, DIM), np.float16)
        want[rows[[0, 1, 4, 5]]] = self.back(got.kv)[[0, 1, 4, 5]]
        np.testing.assert_array_equal(self.back(pool), want)
        for words, more in (("quant_q", {"quant_k": True}), ("fp8_2buff", {"fp8_2buff": True})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.qk_norm_rope_maybe_quant(*(self.t(x) for x in (q, kv, weight, cos, sin, at)), 3, DIM, ROTARY, 1e-6, **more)

    def test_rotation_back(self):
        cos, sin = angles(50)
        x, at = self.numbers(6, 3, DIM), np.int64([3, 49, 0, 7, 8, 20])
        given = self.t(x.copy())
        aiter.inverse_rope_inplace(given, self.t(cos), self.t(sin), self.t(at), ROTARY)
        self.close(self.back(given), turned(x, cos[at], sin[at], back=True))
        np.testing.assert_array_equal(self.back(given)[..., :-ROTARY], x[..., :-ROTARY])

    def test_rotation_back_to_fp8(self):
        """40 tokens of 4 heads in two groups: the second tile of 32 rows is not full."""
        cos, sin = angles(50)
        x, at = self.numbers(40, 4, DIM) * np.float16(3), np.int64(self.random.integers(0, 50, 40))
        given = [self.t(a) for a in (x, at, cos.reshape(50, -1), sin.reshape(50, -1))]
        want = turned(x, cos[at], sin[at], back=True).reshape(40, 2, 8, 128)
        rows, scales = (_common.bytes_of(a) for a in aiter.inverse_rope_group_quant(*given, 2, 128))
        rows, scales = self.back(rows), self.back(scales)
        self.assertEqual((rows.shape, scales.shape), ((40, 2, 1024), (40, 2, 8)))
        powers = np.exp2(np.float64(scales) - 127)
        most = abs(want).max(-1) / FP8_MAX / powers
        self.assertTrue((most <= 1.001).all() and (most > 0.499).all())
        got = np.float64(FP8[rows]).reshape(want.shape) * powers[..., None]
        self.close(got.reshape(-1, 128), want.reshape(-1, 128), 2.0 ** -4)
        out, tiles = self.t(np.zeros((40, 2, 1024), np.uint8)), self.t(np.zeros((2, 64, 10), np.uint8))
        more = {"scale_layout": "mfma_tile", "x_fp8": out, "x_scale": tiles}
        self.assertIs(aiter.inverse_rope_group_quant(*given, 2, **more)[1], tiles)
        np.testing.assert_array_equal(self.back(out), rows)
        for m, g, k in np.ndindex(40, 2, 8):
            byte = m // 32 * 10 * 32 + k // 2 * 64 + m % 16 * 4 + k % 2 * 2 + m // 16 % 2
            self.assertEqual(self.back(tiles)[g].reshape(-1)[byte], scales[m, g, k])
        for words, more in (("quant_group_size", {"quant_group_size": 64}), ("n32k4", {"scale_layout": "n32k4"}),
                            ("older", {"scale_shuffle": True}), ("num_groups", {"num_groups": 3})):
            with self.assertRaisesRegex(aiter.NotServed, words):
                aiter.inverse_rope_group_quant(*given, **{"num_groups": 2, **more})
        with self.assertRaisesRegex(aiter.NotServed, "an odd number"):
            aiter.inverse_rope_group_quant(self.t(x[:, :2, :128]), *given[1:], 2, scale_layout="mfma_tile")

    def test_rows_of_windows(self):
        window = types.SimpleNamespace(ring_start=5, ring_slots=12, slot_rows=40, ring_stride=4, run_rows=10)
        kv, at, cu = self.numbers(9, DIM), np.int64([9, 10, 11, 12, 13, 30, 31, 4, 4]), np.int32([0, 5, 5, 7])
        slots, around = np.int32([1, 2, 0]), self.t(np.zeros((600, DIM), np.float16))
        pool = around[:90]
        aiter.swa_write(self.t(kv), self.t(at), self.t(cu), self.t(slots), pool, window, 3)
        want = np.zeros((90, DIM), np.float16)
        for token, slot in ((2, 1), (3, 1), (4, 1), (5, 0), (6, 0)):
            ring = at[token] % 12
            want[slot * 40 + 5 + ring // 4 * 10 + ring % 4] = kv[token]
        np.testing.assert_array_equal(self.back(pool), want)
        aiter.swa_write(self.t(kv), self.t(at), self.t(cu), self.t(np.int32([9, 9, 9])), pool, window, 3)
        aiter.swa_scatter_rows(self.t(kv[:2]), self.t(np.int32([90, 17])), self.t(np.int32([0, 0])), pool)
        want[17] = kv[1]
        np.testing.assert_array_equal(self.back(around)[:90], want)
        self.assertFalse(self.back(around)[90:].any())
        with self.assertRaisesRegex(aiter.NotServed, "two tensors"):
            aiter.swa_write(self.t(kv), self.t(at), self.t(cu), self.t(slots), pool, window, 3, k_packed=pool)

    def test_rows_of_pages(self):
        """An older version of ATOM keeps windows in pages of 4 tokens that a page table names."""
        kv, at, cu = self.numbers(9, DIM), np.int64([9, 10, 11, 12, 13, 2, 3, 4, 4]), np.int32([0, 5, 5, 7])
        tables = np.int32([[7, 6, 5, 4, 3], [0, 0, 0, 0, 0], [9, 8, 0, 0, 0]])
        pool, want = self.t(np.zeros((40, DIM), np.float16)), np.zeros((40, DIM), np.float16)
        aiter.swa_write(self.t(kv), self.t(at), self.t(cu), self.t(tables), pool, 4, 3, swa_region_rope=None)
        for token, row in ((2, 5 * 4 + 3), (3, 4 * 4), (4, 4 * 4 + 1), (5, 9 * 4 + 2), (6, 9 * 4 + 3)):
            want[row] = kv[token]
        np.testing.assert_array_equal(self.back(pool), want)
        with self.assertRaisesRegex(aiter.NotServed, "two tensors"):
            aiter.swa_write(None, self.t(at), self.t(cu), self.t(tables), pool, 4, 3, k_packed=pool, swa_region_rope=pool)
        cos, sin = angles(50)
        q, weight, owner = self.numbers(7, 3 * DIM), self.numbers(DIM), np.int32([0, 0, 0, 2, 2, -1, 2])
        positions = np.int64([0, 5, 19, 0, 7, 0, 1])
        got = aiter.qk_norm_rope_maybe_quant(
            *(self.t(x) for x in (q, kv[:7], weight, cos, sin, positions)), 3, DIM, ROTARY, 1e-6, swa_kv=pool,
            batch_id_per_token=self.t(owner), swa_block_tables=self.t(tables), swa_block_size=4, swa_cu_seqlens_q=self.t(cu),
            swa_write_per_batch=3)
        rows = self.back(got.kv)
        for token, row in ((0, 7 * 4), (1, 6 * 4 + 1), (2, 3 * 4 + 3), (3, 9 * 4), (4, 8 * 4 + 3), (6, 9 * 4 + 1)):
            want[row] = rows[token]
        np.testing.assert_array_equal(self.back(pool), want)


WithNumpy, WithTorch = base.twice(Atom)

if __name__ == "__main__":
    unittest.main()
