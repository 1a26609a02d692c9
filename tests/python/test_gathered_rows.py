# SPDX-License-Identifier: Apache-2.0
"""Tests a prompt over rows of 584 bytes in two ways, against references in doubles. mla_decode reads these rows, or
cache_gather makes rows of 16 bits, and mla_decode reads those. attn_mla_decode_gather_plan() chooses between the two
ways."""
import unittest

import attn
import numpy as np
from attn.attention import choose_gather

import support
from support import FP8, TARGET

DIM, ROTARY, PAGE, HEADS, WINDOW, RATIO = 512, 64, 16, 8, 12, 4
FORM = {"kv_dtype": "fp8", "kv_layout": "scales_last", "page_size": PAGE}
KERNELS = [
    {"op": "cache_gather", "head_dim": DIM - ROTARY, "head_dim_v": ROTARY, **FORM}, {"op": "chosen_lists"},
    {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": HEADS, "sparse": "slots", "two_sources": True, **FORM},
    {"op": "mla_decode", "head_dim": DIM, "head_dim_v": DIM, "gqa": HEADS, "sparse": "slots", "page_size": 1},
]


class Gathered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device, cls.random = support.device(*KERNELS), np.random.default_rng(7)
        cls.form = attn.CacheDesc(dtype="fp8", layout="scales_last", page_size=PAGE)
        shape = dict(dtype="fp16", head_dim=DIM, head_dim_v=DIM, heads=HEADS, sparse="slots")
        cls.direct = cls.device.mla_decode(**shape, two_sources=True, cache=cls.form)
        cls.plain = cls.device.mla_decode(**shape, cache=attn.CacheDesc(page_size=1))
        cls.gather = cls.device.cache_gather(dtype="fp16", head_dim=DIM - ROTARY, head_dim_v=ROTARY, kv_heads=1, cache=cls.form)

    def pages(self, n):
        """Returns n pages [n, PAGE * 584] of random rows, and the 512 values of each row."""
        narrow = self.random.integers(0, 112, (n, PAGE, DIM - ROTARY)).astype(np.uint8)
        narrow |= (self.random.integers(0, 2, narrow.shape) << 7).astype(np.uint8)
        narrow[narrow == 0x80] = 0
        wide = np.float16(self.random.standard_normal((n, PAGE, ROTARY)))
        exponents = self.random.integers(119, 123, (n, PAGE, 7)).astype(np.uint8)
        out = np.zeros((n, PAGE * 584), np.uint8)
        out[:, :PAGE * 576] = np.concatenate([narrow, wide.view(np.uint8)], -1).reshape(n, -1)
        out[:, PAGE * 576:].reshape(n, PAGE, 8)[..., :7] = exponents
        values = FP8[narrow] * np.repeat(2.0 ** (exponents.astype(int) - 127), 64, -1)
        return out, np.concatenate([values, np.float64(wide)], -1).reshape(-1, DIM)

    def test_a_prompt_of_two_sequences(self):
        # Pages 0 to 7 of the pool have rows of groups. The next pages have the windows: a ring of 2 pages for each
        # slot.
        pool, rows = self.pages(8 + 3 * 2)
        chunk, own = self.pages(2)
        table, sequences, slots = np.int32([[3, 0, 5], [7, 2, 1]]), np.int32([0] * 9 + [1] * 6), np.int32([2, 0])
        sees = np.int32([*range(101, 110), *range(41, 47)])
        new = np.int32([*range(1, 10), *range(1, 7)])
        ring, first, second = 2 * PAGE, 8 * PAGE, len(rows)
        tokens, room = len(sees), int(sees.max()) // RATIO + WINDOW
        numbers = dict(kv_lens=sees, row_sequences=sequences, kv_heads=1, ratio=RATIO, page_entries=PAGE, window=WINDOW, ring=ring,
                       window_stride=ring, new_lens=new)
        lists, lens = np.zeros((tokens, room), np.int32), np.zeros(tokens, np.int32)
        self.device.chosen_lists()(block_table=table, window_slots=slots, window_first=first, second_first=second, lists=lists,
                                   list_lens=lens, **numbers)
        q = np.float16(self.random.standard_normal((tokens, HEADS, DIM)) / 4)
        out, direct = np.zeros_like(q), np.zeros_like(q)
        self.direct(q=q, out=direct, k_cache=pool, block_table=lists, kv_lens=lens, second=chunk, second_first=second, scale=DIM ** -0.5)

        # The workspace has each sequence's rows of groups in whole pages, then the ring of each sequence, then the rows
        # of the chunk.
        groups = -(-(np.int32([109, 46]) // RATIO) // PAGE) * PAGE
        starts = np.int32(np.cumsum([0, *groups, ring, ring]))
        places = np.zeros((4, 3), np.int32)
        places[:2] = table
        places[2:, :2] = 8 + 2 * slots[:, None] + np.arange(2)
        workspace = np.full((starts[-1] + len(own), DIM), np.nan, np.float16)
        for at, k_cache, pages, ends, longest in ((0, pool, places, starts, 3 * PAGE),
                                                  (starts[-1], chunk, np.int32([[0, 1]]), np.int32([0, len(own)]), len(own))):
            part = workspace[at:at + ends[-1], None]
            self.gather(k_out=part[..., :-ROTARY], v_out=part[..., -ROTARY:], k_cache=k_cache, block_table=pages, cu_seqlens_k=ends,
                        max_seqlen_k=longest)
        own_lists, own_lens = np.zeros((tokens, room), np.int32), np.zeros(tokens, np.int32)
        self.device.chosen_lists()(block_table=starts[:2, None] // PAGE + np.arange(3, dtype=np.int32), window_slots=np.int32([0, 1]),
                                   window_first=int(starts[2]), second_first=int(starts[-1]), lists=own_lists, list_lens=own_lens, **numbers)
        np.testing.assert_array_equal(own_lens, lens)
        self.plain(q=q, out=out, k_cache=workspace.reshape(-1, 1, 1, DIM), block_table=own_lists, kv_lens=own_lens, scale=DIM ** -0.5)

        both = np.concatenate([rows, own])
        for t in range(tokens):
            keys = both[lists[t, :lens[t]]][:, None]
            want = support.attention(q[t:t + 1], keys, keys, causal=False)[0][0]
            for got, bound in ((out, 8 * support.HALF), (direct, 2.0 ** -6)):
                far = np.linalg.norm(got[t] - want, axis=-1) / np.linalg.norm(want, axis=-1)
                self.assertLess(float(far.max()), bound)

    def test_the_choice(self):
        self.assertEqual(choose_gather(self.direct, 4096, 1279, 10240), 10240)
        self.assertEqual(choose_gather(self.direct, 64, 640, 1 << 20), 0)
        self.assertEqual(choose_gather(self.direct, 4096, 1279, 10240, bytes_most=1 << 20), 0)
        self.assertEqual(choose_gather(self.plain, 4096, 1279, 10240), 0)
        self.assertIn(TARGET, ("gfx942", "gfx950"))


if __name__ == "__main__":
    unittest.main()
