# SPDX-License-Identifier: Apache-2.0
"""Tests batches that exceed the 65,536 workgroups of HIP's grids in y and z. Ops with sequences in y or z make several
launches. Few sequences have tokens, among them the last of a launch and the first of the next."""
import unittest

import numpy as np

import attn
import support

MOST = 65536
BATCH = MOST + 5
LENGTHS = {0: 3, 7: 40, MOST - 1: 5, MOST: 17, MOST + 1: 1, BATCH - 1: 33}
PAGE, DIM, HEADS, KV_HEADS = 16, 64, 1, 1


def lengths():
    n = np.zeros(BATCH, np.int32)
    for s, length in LENGTHS.items():
        n[s] = length
    return n


def starts(n):
    return np.concatenate([[0], np.cumsum(n)]).astype(np.int32)


class LargeBatch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(
            {"op": "metadata", "metadata": ["kv_indices", "page_table"]}, {"op": "indexer_gather"},
            {"op": "cache_gather", "head_dim": DIM}, {"op": "cache_copy"}, {"op": "prefill", "head_dim": DIM, "mask": "custom"},
            {"op": "prefill", "head_dim": DIM, "paged": True, "page_size": PAGE, "page_table": "indices"})
        cls.n = lengths()
        cls.cu = starts(cls.n)
        cls.pages = -(-cls.n // PAGE)
        cls.table = np.full((BATCH, 3), -1, np.int32)  # entries of sequences without tokens are -1 and must not be read
        order, at = np.random.default_rng(1).permutation(int(cls.pages.sum())), 0
        for s in LENGTHS:
            cls.table[s, :cls.pages[s]] = order[at:at + cls.pages[s]]
            at += cls.pages[s]

    def listed(self):
        return np.concatenate([self.table[s, :self.pages[s]] for s in LENGTHS])

    def test_kv_indices(self):
        indptr, out = starts(self.pages), np.full(int(self.pages.sum()) + 1, -7, np.int32)
        self.device.metadata(kind="kv_indices")(
            kv_indptr=indptr, block_table=self.table, kv_indices=out, page_size=PAGE, entries=3)
        np.testing.assert_array_equal(out, [*self.listed(), -7])

    def test_kv_indices_of_requests(self):
        rows = np.arange(BATCH, dtype=np.int64)[::-1].copy()
        first = np.zeros(BATCH, np.int32)
        first[7] = 1
        pages = self.pages - first
        indptr, out = starts(pages), np.zeros(int(pages.sum()), np.int32)
        self.device.metadata(kind="kv_indices")(
            kv_indptr=indptr, block_table=np.ascontiguousarray(self.table[::-1]), request_rows=rows, kv_start=first,
            kv_indices=out, page_size=PAGE, entries=3)
        np.testing.assert_array_equal(out, np.concatenate([self.table[s, first[s]:self.pages[s]] for s in LENGTHS]))

    def test_page_table(self):
        out = np.full((BATCH, 3), -7, np.int32)
        self.device.metadata(kind="page_table")(kv_lens=self.n, block_table=self.table, page_table=out, page_size=PAGE)
        np.testing.assert_array_equal(out, np.where(self.table < 0, -7, self.table))

    def test_indexer_gather(self):
        keys = support.fp8_bytes((int(self.pages.sum()), PAGE * 132), 3)
        total = int(self.cu[-1])
        k, scale = np.zeros((total, 128), np.uint8), np.zeros(total, np.float32)
        self.device.indexer_gather()(
            keys=keys.reshape(-1), block_table=self.table, cu_seqlens_k=self.cu, keys_out=k, key_scales_out=scale,
            max_seqlen_k=40, page_size=PAGE, page_stride=PAGE * 132)
        for s, n in LENGTHS.items():
            own = keys[self.table[s, :self.pages[s]]]
            want = own[:, :PAGE * 128].reshape(-1, 128)[:n]
            np.testing.assert_array_equal(k[self.cu[s]:self.cu[s + 1]], want, f"sequence {s}")
            scales = own[:, PAGE * 128:].reshape(-1, 4)[:n]
            np.testing.assert_array_equal(scale[self.cu[s]:self.cu[s + 1]].view(np.uint8).reshape(-1, 4), scales)

    def caches(self):
        pages = support.random((2, int(self.pages.sum()), PAGE, KV_HEADS, DIM), 5)
        keys, values = ([x[self.table[s, :self.pages[s]]].reshape(-1, KV_HEADS, DIM)[:n] for s, n in LENGTHS.items()]
                        for x in pages)
        return pages, keys, values

    def test_cache_gather(self):
        (k_cache, v_cache), keys, values = self.caches()
        k, v = np.zeros((2, int(self.cu[-1]), KV_HEADS, DIM), np.float16)
        self.device.cache_gather(dtype="fp16", head_dim=DIM, kv_heads=KV_HEADS, cache=attn.CacheDesc(page_size=PAGE))(
            k_out=k, v_out=v, cu_seqlens_k=self.cu, block_table=self.table, k_cache=k_cache, v_cache=v_cache, max_seqlen_k=40)
        np.testing.assert_array_equal(k, np.concatenate(keys))
        np.testing.assert_array_equal(v, np.concatenate(values))

    def test_cache_copy(self):
        """The launch has four workgroups in z for each pair of pages."""
        pages = MOST // 4 + 3
        caches = np.random.default_rng(12).integers(0, 2 ** 15, (2, 2 * pages, 1, 1, 8)).astype(np.float16)
        pairs = np.stack([np.arange(pages), pages + np.random.default_rng(13).permutation(pages)], 1)
        want = caches.copy()
        want[:, pairs[:, 1]] = caches[:, pairs[:, 0]]
        self.device.cache_copy(head_dim=8, kv_heads=1, cache=attn.CacheDesc(dtype="fp16", page_size=1))(
            page_pairs=pairs, to_k_cache=caches[0], to_v_cache=caches[1])
        np.testing.assert_array_equal(caches, want)

    def check(self, out, q, keys, values, **more):
        for s, k, v in zip(LENGTHS, keys, values):
            own = slice(self.cu[s], self.cu[s + 1])
            mask = more["masks"][s] if more else None
            want, _ = support.attention(q[own], k, v, causal=not more, mask=mask)
            support.close(out[own], want, support.bound(v), f"sequence {s}")

    def test_prefill_with_a_mask(self):
        q = support.random((int(self.cu[-1]), HEADS, DIM), 8)
        k, v = support.random((2, int(self.cu[-1]), KV_HEADS, DIM), 9)
        rng = np.random.default_rng(10)
        masks = {s: rng.integers(0, 2, (n, n)).astype(np.uint8) for s, n in LENGTHS.items()}
        sizes = self.n.astype(np.int64) ** 2
        out = np.zeros_like(q)
        op = self.device.prefill(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS, mask="custom")
        op(q=q, k=k, v=v, out=out, cu_seqlens_q=self.cu, cu_seqlens_k=self.cu, max_seqlen_q=40, max_seqlen_k=40,
           custom_mask=np.concatenate([masks[s].reshape(-1) for s in LENGTHS]),
           mask_indptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
        cut = [slice(self.cu[s], self.cu[s + 1]) for s in LENGTHS]
        self.check(out, q, [k[x] for x in cut], [v[x] for x in cut], masks=masks)

    def test_prefill_over_pages(self):
        (k_cache, v_cache), keys, values = self.caches()
        q = support.random((int(self.cu[-1]), HEADS, DIM), 11)
        out = np.zeros_like(q)
        op = self.device.prefill(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS, paged=True,
                                 cache=attn.CacheDesc(page_size=PAGE), page_table="indices")
        op(q=q, out=out, cu_seqlens_q=self.cu, kv_lens=self.n, k_cache=k_cache, v_cache=v_cache, max_seqlen_q=40,
           max_seqlen_k=40, kv_indptr=starts(self.pages), kv_indices=self.listed())
        self.check(out, q, keys, values)

    def test_a_graph_has_all_pieces(self):
        device, out = self.device, np.full((BATCH, 3), -7, np.int32)
        args = {name: device.array(x) for name, x in (("kv_lens", self.n), ("block_table", self.table), ("page_table", out))}
        op, graph = device.metadata(kind="page_table"), device.graph()
        with graph:
            op(**args, page_size=PAGE, stream=graph.stream)
        graph.replay()
        np.testing.assert_array_equal(args["page_table"].numpy(), np.where(self.table < 0, -7, self.table))


if __name__ == "__main__":
    unittest.main()
