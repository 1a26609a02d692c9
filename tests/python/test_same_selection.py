# SPDX-License-Identifier: Apache-2.0
"""Tests that ranks with copies of an indexer's keys select the same keys, with equal bits of indices and scores. Keys
lie in other pages on each rank. Launches, replays and numbers of parts differ too. Many scores are equal, and some are
NaNs."""
import os
import unittest

import attn
import numpy as np

TARGET = os.environ.get("ATTN_TEST_TARGET", "gfx942")
ROWS, HEADS, TOP, KEYS, PAGE = 3, 8, 64, 8300, 64
PAGES = -(-KEYS // PAGE)
STRIDE = PAGE * 132
TIES = {"ties": ["smaller", "larger"]}
KERNELS = [{"op": "indexer_topk", "top_k": TOP, "index_heads": HEADS, "paged": True, **TIES}, {"op": "topk", "top_k": TOP, **TIES}]


class Rank:
    """The keys of one sequence on a rank, whose pages are in an order of its own. `ties` says which of equal scores is
    selected first."""

    def __init__(self, device, keys, scales, pages, ties):
        self.ties = ties
        self.device, self.zero_page = device, np.setdiff1d(np.arange(PAGES + 9), pages)[0]  # number of a page of zeros
        self.pages = np.int32(np.tile(pages, (ROWS, 1)))
        self.pool = np.zeros((PAGES + 9, STRIDE), np.uint8)
        for i in range(KEYS):
            page, inside = self.pool[pages[i // PAGE]], i % PAGE
            page[inside * 128:inside * 128 + 128] = keys[i]
            page[PAGE * 128 + 4 * inside:PAGE * 128 + 4 * inside + 4] = scales[i:i + 1].view(np.uint8)
        self.choose = device.indexer_topk(top_k=TOP, heads=HEADS, paged=True, ties=ties)

    def select(self, q, weights, ends, parts=1, stream=None, pages=None):
        """Returns (indices, scores) of the selected keys of each row. `parts`: number of parts of a row's keys whose
        selections are merged."""
        rows, pages = len(ends), self.pages if pages is None else pages
        indices, values = np.zeros((rows, parts, TOP), np.int32), np.zeros((rows, parts, TOP), np.float32)
        self.choose(q=q, weights=weights, keys=self.pool.reshape(-1), row_ends=ends, block_table=pages,
                    indices=indices, values=values, page_size=PAGE, page_stride=STRIDE, stream=stream)
        if parts > 1:
            lists, scores = indices.reshape(rows, -1), values.reshape(rows, -1)
            indices, values = np.zeros((rows, 1, TOP), np.int32), np.zeros((rows, 1, TOP), np.float32)
            self.device.topk(top_k=TOP, ties=self.ties)(scores=scores, source=lists, indices=indices, values=values, splits=1)
        return indices, values


class Selection(unittest.TestCase):
    TIES = "smaller"

    @classmethod
    def setUpClass(cls):
        random = np.random.default_rng(1)
        device = attn.Device(attn.build({"targets": [TARGET], "kernels": KERNELS}), hip="sim")
        different = random.integers(0, 119, (40, 128)).astype(np.uint8) | np.uint8(128) * random.integers(0, 2, (40, 128), np.uint8)
        keys = different[random.integers(0, 40, KEYS)]
        scales = np.ones(KEYS, np.float32)
        scales[random.integers(0, KEYS, 30)] = np.nan
        cls.device = device
        cls.ranks = [Rank(device, keys, scales, random.permutation(PAGES + 9)[:PAGES], cls.TIES) for _ in range(2)]
        cls.q = random.integers(0, 119, (ROWS, HEADS, 128)).astype(np.uint8)
        cls.weights = np.float32(random.standard_normal((ROWS, HEADS)))
        cls.ends = np.array([KEYS, 5000, TOP - 3], np.int32)
        cls.wanted = cls.ranks[0].select(cls.q, cls.weights, cls.ends)

    def check(self, got):
        """Checks that a selection has the bits of the first rank's selection."""
        for own, other in zip(self.wanted, got):
            np.testing.assert_array_equal(own.view(np.uint32), other.view(np.uint32))

    def test_what_is_selected_is_ordered_and_has_ties(self):
        indices, values = self.wanted
        self.assertEqual([int((row >= 0).sum()) for row in indices[:, 0]], [TOP, TOP, TOP - 3])
        for row, scores, n in zip(indices[:, 0], values[:, 0], (TOP, TOP, TOP - 3)):
            self.assertTrue((np.diff(row[:n]) > 0).all())
            self.assertLess(len(np.unique(scores[:n])), n)

    def test_other_ranks_and_launches_select_the_same(self):
        self.check(self.ranks[1].select(self.q, self.weights, self.ends))
        self.check(self.ranks[0].select(self.q, self.weights, self.ends))

    def test_parts_select_the_same(self):
        self.check(self.ranks[1].select(self.q, self.weights, self.ends, parts=3))

    def test_a_row_beyond_2_20_keys_selects_the_same(self):
        """The page table names one page of zero keys 2^20 / PAGE times, then the pages of the keys. Zero keys have a
        score of 0."""
        rank, before = self.ranks[0], 1 << 20
        zero_pages = np.full(before // PAGE, rank.zero_page, np.int32)
        pages = np.concatenate([zero_pages, rank.pages[0]]).astype(np.int32)
        indices, values = rank.select(self.q[:1], self.weights[:1], self.ends[:1] + np.int32(before), parts=32, pages=pages[None])
        self.assertGreater(self.wanted[1][0].min(), 0)
        np.testing.assert_array_equal(indices[0] - before, self.wanted[0][0])
        np.testing.assert_array_equal(values[0].view(np.uint32), self.wanted[1][0].view(np.uint32))

    def test_replays_select_the_same(self):
        with self.device.graph() as graph:
            got = self.ranks[1].select(self.q, self.weights, self.ends, stream=graph.stream)
        for _ in range(2):
            got[0][:] = 0
            graph.replay()
            self.check(got)


class LargerTies(Selection):
    """Runs the tests with ties by the larger position. Scores are as in Selection, and equal scores have later
    positions."""
    TIES = "larger"

    def test_equal_scores_have_the_larger_positions(self):
        rank = self.ranks[0]
        rank.choose = self.device.indexer_topk(top_k=TOP, heads=HEADS, paged=True)
        try:
            first, scores = rank.select(self.q, self.weights, self.ends)
        finally:
            rank.choose = self.device.indexer_topk(top_k=TOP, heads=HEADS, paged=True, ties=self.TIES)
        last, values = self.wanted
        for row in range(2):
            least = scores[row].min()
            self.assertEqual(least, values[row].min())
            above = [set(x[row][s[row] > least]) for x, s in ((first, scores), (last, values))]
            self.assertEqual(*above)
            self.assertGreater(last[row][values[row] == least].min(), first[row][scores[row] == least].min())


if __name__ == "__main__":
    unittest.main()
