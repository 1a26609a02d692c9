# SPDX-License-Identifier: Apache-2.0
"""Tests attention over groups of keys that an indexer chooses, from the choice to the output, against references in
doubles. MiniMax-M3 has blocks of 128 tokens for each KV head. Qwen3.8-Flash-Next and GLM-5.3-Flash have groups of 4
tokens, and the newest tokens that form no whole group."""
import os
import unittest
from unittest import mock

import attn
import numpy as np
from attn.attention import BatchPrefill, Split

TARGET = os.environ.get("ATTN_TEST_TARGET", "gfx942")
TOP, BLOCK = 3, 128
BOUND = 4 * 2.0 ** -11  # largest error of a row divided by its norm: fp16 roundings of weights and of the output
KERNELS = [
    {"op": "indexer_topk", "top_k": TOP, "index_heads": 1, "paged": True, "all_signs": True, "top_blocks": TOP,
     "block_size": BLOCK},
    {"op": "chosen_lists"}, {"op": "decode", "head_dim": 128, "gqa": 4, "page_size": BLOCK},
    {"op": "decode", "head_dim": 256, "gqa": 6, "page_size": 4},
    {"op": "mla_decode", "head_dim": 512, "head_dim_v": 512, "gqa": 8, "page_size": 4},
    {"op": "shared_lists"}, {"op": "plan", "q_tiles": True}, {"op": "combine", "head_dim": 128, "partials": "csr"},
    {"op": "prefill", "head_dim": 128, "gqa": 4, "mask": "blocks", "paged": True, "planned": True, "page_size": BLOCK},
]


def e4m3(x):
    """Returns the values of fp8 bytes, which are no NaNs. The bias of the exponent is 8 on gfx942, 7 on other
    targets."""
    bias = 8 if TARGET == "gfx942" else 7
    exponent, mantissa = (x >> 3 & 15).astype(int), (x & 7) / 8
    size = np.where(exponent > 0, (1 + mantissa) * 2.0 ** (exponent - bias), mantissa * 2.0 ** (1 - bias))
    return np.where(x & 128, -size, size)


def attend(q, k, v, scale):
    """Returns the softmax attention of q [head, element] over keys [key, element], in doubles."""
    s = np.float64(q) @ np.float64(k).T * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ np.float64(v)


def mask_words(tokens):
    """Returns the number of 32-bit integers of a query's row of a mask of blocks, if a list has up to `tokens`
    tokens."""
    return 1 + -(-tokens // 2048)


class Chosen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pack = attn.build({"targets": [TARGET], "defaults": {"dtype": "fp16"}, "kernels": KERNELS})
        cls.device, cls.random = attn.Device(pack, hip="sim"), np.random.default_rng(3)

    def numbers(self, *shape):
        return np.float16(self.random.standard_normal(shape))

    def close(self, got, want):
        self.assertLess(float((np.linalg.norm(got - want, axis=-1) / np.linalg.norm(want, axis=-1)).max()), BOUND)

    def choose_blocks(self, lens, heads, pages):
        """Returns the blocks that the indexer chooses for each query and head, and their counts. Compares them with the
        best blocks by scores in doubles."""
        rows, stride = len(lens) * heads, BLOCK * 132
        q, keys = ((self.random.integers(1, 119, shape) | 128 * self.random.integers(0, 2, shape)).astype(np.uint8)
                   for shape in ((rows, 1, 128), (int(max(lens)), 128)))
        pool = np.zeros((pages.max() + 1, stride), np.uint8)
        for i, key in enumerate(keys):
            page, inside = pool[pages[i // BLOCK]], i % BLOCK
            page[inside * 128:inside * 128 + 128] = key
            page[BLOCK * 128 + inside * 4:BLOCK * 128 + inside * 4 + 4] = np.float32([1]).view(np.uint8)
        ends = np.repeat(lens, heads).astype(np.int32)
        blocks, counts = np.zeros((rows, 1, TOP), np.int32), np.zeros((rows, 1), np.int32)
        choose = self.device.indexer_topk(top_k=TOP, heads=1, paged=True, all_signs=True, top_blocks=TOP, block_size=BLOCK)
        choose(q=q, weights=np.full((rows, 1), -0.5, np.float32), keys=pool.reshape(-1), row_ends=ends,
               block_table=pages[None], row_sequences=np.zeros(rows, np.int32), indices=np.zeros((rows, 1, TOP), np.int32),
               blocks=blocks, block_counts=counts, last_blocks=1, page_size=BLOCK, page_stride=stride)
        for row, n, own, count in zip(q, ends, blocks[:, 0], counts[:, 0]):
            scores = -0.5 * e4m3(keys[:n]) @ e4m3(row[0])
            most = [scores[b:b + BLOCK].max() for b in range(0, n, BLOCK)]
            most[-1] = np.inf
            want = np.sort(np.argsort(most)[-TOP:])
            np.testing.assert_array_equal(own[:count], want)
        return blocks[:, 0], counts[:, 0]

    def test_blocks_for_each_kv_head(self):
        heads, group, pages = 2, 4, np.int32([5, 2, 7, 0, 3, 6])
        lens = np.int32([700, 641, 640, 100])
        rows = len(lens) * heads
        chosen, counts = self.choose_blocks(lens, heads, pages)
        k, v = self.numbers(8, heads, BLOCK, 128), self.numbers(8, heads, BLOCK, 128)
        lists, list_lens = np.zeros((rows, TOP), np.int32), np.zeros(rows, np.int32)
        self.device.chosen_lists()(kv_lens=lens, chosen=chosen, counts=counts, block_table=pages[None],
                                   row_sequences=np.zeros(len(lens), np.int32), lists=lists, list_lens=list_lens,
                                   kv_heads=heads, window=0, ratio=BLOCK, open_group=True)
        q, out = self.numbers(rows, group, 128), np.zeros((rows, group, 128), np.float16)
        decode = self.device.decode(dtype="fp16", head_dim=128, heads=group, kv_heads=1, cache=attn.CacheDesc(page_size=BLOCK))
        decode(q=q, out=out, k_cache=k.reshape(-1, BLOCK, 1, 128), v_cache=v.reshape(-1, BLOCK, 1, 128), block_table=lists,
               kv_lens=list_lens)
        for r in range(rows):
            tokens = [b * BLOCK + i for b in chosen[r, :counts[r]] for i in range(BLOCK) if b * BLOCK + i < lens[r // heads]]
            at = pages[np.array(tokens) // BLOCK], r % heads, np.array(tokens) % BLOCK
            self.close(out[r], attend(q[r], k[at], v[at], 128 ** -0.5))

    def test_blocks_that_neighbours_share(self):
        heads, group, tiles = 2, 4, np.int32([0, 8, 13])
        pages, sequences = np.int32([[5, 2, 7, 0, 3, 6, 9], [1, 4, 8, 0, 0, 0, 0]]), np.int32([0, 1])
        lens = np.int32([*range(762, 770), *range(254, 259)])
        rows, owner = len(lens) * heads, np.repeat(sequences, np.diff(tiles))
        chosen, counts = np.full((rows, TOP), -1, np.int32), np.zeros(rows, np.int32)
        for r in range(rows):
            newest = (lens[r // heads] - 1) // BLOCK
            own = np.unique([newest, *self.random.integers(0, newest + 1, TOP - 1)])
            chosen[r, :len(own)], counts[r] = own, len(own)
        room = 8 * TOP
        lists, list_lens = np.zeros((heads, 2, room), np.int32), np.zeros((heads, 2), np.int32)
        mask = np.zeros((heads, 2, 8 * mask_words(room * BLOCK)), np.int32)
        self.device.shared_lists()(cu_tiles=tiles, kv_lens=lens, chosen=chosen, counts=counts, block_table=pages,
                                   tile_sequences=sequences, lists=lists, list_lens=list_lens, mask=mask, kv_heads=heads,
                                   ratio=BLOCK)
        k, v = self.numbers(10, heads, BLOCK, 128), self.numbers(10, heads, BLOCK, 128)
        q, out = self.numbers(heads, len(lens), group, 128), np.zeros((heads, len(lens), group, 128), np.float16)
        call = BatchPrefill(self.device, dtype="fp16", head_dim=128, heads=group, kv_heads=1, mask="blocks",
                                 cache=attn.CacheDesc(page_size=BLOCK), planned=True, max_batch=2, max_tokens=len(lens))
        for h in range(heads):
            call.plan(tiles, 8, max_seqlen_k=room * BLOCK, kv_lens=list_lens[h], block_table=lists[h],
                      custom_mask=mask[h].reshape(-1).view(np.uint8), mask_indptr=np.int64([0, 4, 8]) * mask.shape[2])
            call.run(q[h], *(np.ascontiguousarray(x[:, h])[:, :, None] for x in (k, v)), out=out[h])
        for r in range(rows):
            query, h = divmod(r, heads)
            tokens = np.array([b * BLOCK + i for b in chosen[r, :counts[r]] for i in range(BLOCK) if b * BLOCK + i < lens[query]])
            at = pages[owner[query]][tokens // BLOCK], h, tokens % BLOCK
            self.close(out[h, query], attend(q[h, query], k[at], v[at], 128 ** -0.5))

    def test_check_data_names_a_group_that_is_twice_in_a_row(self):
        pack = attn.build({"targets": [TARGET], "kernels": [{"op": "shared_lists"}]})
        call = attn.Device(pack, hip="sim", check_data=True).shared_lists()
        chosen, counts = np.int32([[0, 1, -1], [1, 0, 1], [2, 2, 2]]), np.int32([2, 2, 1])
        lists, list_lens, mask = np.zeros((1, 1, 9), np.int32), np.zeros((1, 1), np.int32), np.zeros((1, 1, 3 * mask_words(9 * BLOCK)), np.int32)
        numbers = dict(cu_tiles=np.int32([0, 3]), kv_lens=np.int32([400, 401, 402]), chosen=chosen, counts=counts,
                       block_table=np.int32([[3, 1, 2, 0]]), lists=lists, list_lens=list_lens, mask=mask, kv_heads=1, ratio=BLOCK)
        call(**numbers)
        self.assertEqual(list_lens[0, 0], 3 * BLOCK)
        counts[1] = 3
        with self.assertRaisesRegex(attn.AttnError, r"chosen\[1\]\[2\] is 1, which row 1 has already"):
            call(**numbers)

    def test_the_number_of_keys_chooses_the_tiles_of_a_plan(self):
        shape = dict(dtype="fp16", head_dim=128, heads=4, kv_heads=1, mask="blocks", planned=True, max_batch=2,
                     cache=attn.CacheDesc(page_size=BLOCK), max_tokens=100)

        def choose(op, batch, kv_len=0, tokens=0, window=0):
            return Split(4, q_tile=32 if (batch, kv_len, tokens) == (2, 900, 100) else 64)

        with mock.patch("attn.attention.choose_split", choose):
            lists = [BatchPrefill(self.device, **shape, kv_len=n).lists for n in (0, 900)]
        self.assertEqual([x.shape["q_tile"] for x in lists], [64, 32])
        self.assertEqual([x.of(2)["tile_info"].shape[1] for x in lists], [3, 5])

    def groups_of_four(self, lens, pages):
        """Chooses random groups of 4 tokens for each query. Returns page lists, whose pages have 4 tokens, their
        lengths in tokens, and the tokens."""
        room, rows = 9, len(lens)
        chosen, counts, tokens = np.full((rows, room), -1, np.int32), np.zeros(rows, np.int32), []
        for r, n in enumerate(lens):
            own = np.sort(self.random.permutation(n // 4)[:room])
            chosen[r, :len(own)], counts[r] = own, len(own)
            tokens.append([4 * g + i for g in own for i in range(4)] + list(range(n // 4 * 4, n)))
        lists, list_lens = np.zeros((rows, room + 1), np.int32), np.zeros(rows, np.int32)
        self.device.chosen_lists()(kv_lens=lens, chosen=chosen, counts=counts, block_table=pages[None],
                                   row_sequences=np.zeros(rows, np.int32), lists=lists, list_lens=list_lens, kv_heads=1,
                                   window=0, ratio=4, page_entries=4, open_group=True)
        np.testing.assert_array_equal(list_lens, [len(t) for t in tokens])
        return lists, list_lens, [np.array(t) for t in tokens]

    def test_groups_of_four_and_the_newest_tokens(self):
        pages, lens = np.int32([3, 8, 0, 6, 5, 1, 4]), np.int32([103, 100, 3, 38])
        lists, list_lens, tokens = self.groups_of_four(lens, pages)
        k, v = self.numbers(9, 16, 2, 256), self.numbers(9, 16, 2, 256)
        q, out = self.numbers(len(lens), 12, 256), np.zeros((len(lens), 12, 256), np.float16)
        decode = self.device.decode(dtype="fp16", head_dim=256, heads=12, kv_heads=2, cache=attn.CacheDesc(page_size=4))
        decode(q=q, out=out, k_cache=k.reshape(-1, 4, 2, 256), v_cache=v.reshape(-1, 4, 2, 256), block_table=lists,
               kv_lens=list_lens)
        for r, own in enumerate(tokens):
            for h in range(2):
                at = pages[own // 16], own % 16, h
                self.close(out[r, 6 * h:6 * h + 6], attend(q[r, 6 * h:6 * h + 6], k[at], v[at], 1 / 16))

    def test_latent_rows_in_groups_of_four(self):
        pages, lens = np.int32([3, 8, 0, 6, 5, 1, 4]), np.int32([101, 64, 1])
        lists, list_lens, tokens = self.groups_of_four(lens, pages)
        rows = self.numbers(9, 16, 512)
        q, out = self.numbers(len(lens), 8, 512), np.zeros((len(lens), 8, 512), np.float16)
        decode = self.device.mla_decode(dtype="fp16", head_dim=512, head_dim_v=512, heads=8, cache=attn.CacheDesc(page_size=4))
        decode(q=q, out=out, k_cache=rows.reshape(-1, 4, 1, 512), block_table=lists, kv_lens=list_lens, scale=1 / 16)
        for r, own in enumerate(tokens):
            keys = rows[pages[own // 16], own % 16]
            self.close(out[r], attend(q[r], keys, keys, 1 / 16))


if __name__ == "__main__":
    unittest.main()
