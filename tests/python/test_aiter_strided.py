# SPDX-License-Identifier: Apache-2.0
"""Tests attn.aiter's calls over caches with gaps between pages: a layer's part of a pool of all layers, or pages padded
to the size of another layer's. Gaps do not change results."""
import unittest

import numpy as np

import attn
import attn.aiter as aiter
import support

P, IP, H, HK, D, LATENT, ROPE = 16, 64, 8, 2, 128, 512, 64
KERNELS = [
    {"op": "indexer_logits", "index_heads": 64, "paged": True}, {"op": "indexer_rope_cache", "rope": "neox"},
    {"op": "indexer_rope_cache", "rope": "neox", "layer_norm": True}, {"op": "indexer_gather"},
    {"op": "mla_decode", "head_dim": LATENT + ROPE, "head_dim_v": LATENT, "gqa": 16, "page_size": "any",
     "page_table": ["indices", "blocks"]},
    {"op": "combine", "head_dim": [LATENT, D], "partials": ["csr", "dense"]}, {"op": "plan"},
    {"op": "mla_rope_cache", "head_dim": LATENT + ROPE, "head_dim_v": LATENT, "rope": "none"}, {"op": "cache_write", "head_dim": D},
    {"op": "cache_write", "head_dim": D, "kv_layout": ["shuffle", "shuffle_k"]},
    {"op": "cache_write", "head_dim": D // 2},
    {"op": "cache_gather", "head_dim": D, "kv_layout": ["nhd", "shuffle"]},
    {"op": "decode", "head_dim": D, "gqa": H // HK, "page_size": P, "kv_layout": ["nhd", "shuffle"]},
]
SLOTS = np.array([1, 33, 95], np.int64)
TABLE, LENS = np.array([[5, 1, 0], [2, 0, 0]], np.int32), np.array([40, 9], np.int32)


class Strided:
    """The tests. A subclass chooses the library of tensors: t(x) makes a tensor of an array, t_strided(base, x) a
    tensor with the strides of x in the memory of `base`."""

    @classmethod
    def setUpClass(cls):
        cls.device = support.device(*KERNELS)
        aiter.use(device=cls.device)

    def half(self, *shape, seed=0):
        return self.t(support.random(shape, seed))

    def both(self, pages, call, extra=128):
        """Checks that call(pages) returns the same bits over pages without gaps and over pages of a pool with `extra`
        bytes after each page. It returns a list of tensors."""
        want = call(self.t(pages.copy()))
        room = pages[0].nbytes + extra
        base = np.zeros(room * len(pages) // pages.itemsize, pages.dtype)
        wide = np.lib.stride_tricks.as_strided(base, pages.shape, (room, *pages.strides[1:]))
        wide[...] = pages
        for a, b in zip(want, call(self.t_strided(base, wide))):
            np.testing.assert_array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))

    def index_cache(self):
        """Returns pages of an indexer's cache: fp8 keys of 128 bytes, then a float32 scale for each key."""
        pages = support.fp8_bytes((5, IP, 1, 132), 1)
        flat = pages.reshape(5, -1)
        flat[:, IP * 128:] = np.random.default_rng(2).random((5, IP)).astype(np.float32).view(np.uint8)
        return pages

    def test_deepgemm_fp8_paged_mqa_logits(self):
        q, lens = self.t(support.fp8_bytes((2, 1, 64, 128), 3)), np.array([100, 5], np.int32)
        table, weights = self.t(np.array([[4, 1], [2, 0]], np.int32)), self.t(np.ones((2, 64), np.float32))

        def call(cache):
            out = self.t(np.zeros((2, 128), np.float32))
            aiter.deepgemm_fp8_paged_mqa_logits(q, cache, weights, out, self.t(lens), table, 128, KVBlockSize=IP)
            return [out[i, :n] for i, n in enumerate(lens)]
        self.both(self.index_cache(), call)

    def test_indexer_k_quant_and_cache(self):
        k, slots = self.half(3, 128), self.t(np.array([3, 70, 200], np.int64))

        def call(cache):
            aiter.indexer_k_quant_and_cache(k, cache, slots, 128, "ue8m0")
            return [np.array(cache)]
        self.both(self.index_cache(), call)

    def test_indexer_qk_rope_quant_and_cache(self):
        q, k, slots = self.half(3, 64, 128), self.half(3, 128, seed=1), self.t(np.array([3, 70, 200], np.int64))
        table = self.t(np.random.default_rng(3).random((8, 32)).astype(np.float32))
        norm = self.t(np.ones(128, np.float32))

        def call(cache):
            out, weights = self.t(np.zeros((3, 64, 128), np.uint8)), self.t(np.zeros((3, 64), np.float32))
            aiter.indexer_qk_rope_quant_and_cache(
                q, out, self.half(3, 64, seed=2), weights, k, cache, slots, norm, norm, self.t(np.arange(3)), table, table,
                1e-6, 128, "ue8m0", 0.5)
            return [np.array(cache), out, weights]
        self.both(self.index_cache(), call)

    def test_cp_gather_indexer_k_quant_cache(self):
        table, cu = self.t(np.array([[4, 1], [2, 0]], np.int32)), self.t(np.array([0, 100, 105], np.int32))

        def call(cache):
            k, scales = self.t(np.zeros((105, 128), np.uint8)), self.t(np.zeros((105, 1), np.float32))
            aiter.cp_gather_indexer_k_quant_cache(cache, k, scales, table, cu)
            return [k, scales]
        self.both(self.index_cache(), call)

    def test_index_pages_that_cannot_be_read(self):
        base = self.index_cache()
        keys, step = np.zeros((4, 128), np.float16), base.strides[0]
        for pages, why in ((np.lib.stride_tricks.as_strided(base, base.shape, (step + 8, *base.strides[1:])), "8456 bytes apart"),
                           (base[:, ::2], "bytes of a page are neighbours"), (base[..., :131], "131 bytes for a key")):
            with self.assertRaisesRegex(aiter.NotServed, why):
                aiter.indexer_k_quant_and_cache(keys, pages, np.arange(4), 128, "ue8m0")

    def latent(self, seed=4):
        return support.random((6, P, 1, LATENT + ROPE), seed)

    def test_mla_decode_fwd(self):
        q = self.half(2, 16, LATENT + ROPE, seed=5)
        lists = [self.t(np.array(x, np.int32)) for x in ([0, 1, 2], [0, 3, 4], [5, 2, 0, 3], [7, 16])]

        def call(cache):
            out = self.half(2, 16, LATENT, seed=6)
            aiter.mla_decode_fwd(q, cache, out, *lists, 1, page_size=P, sm_scale=0.07)
            return [out]
        self.both(self.latent(), call)

    def test_mla_decode_fwd_of_fragments(self):
        """ATOM calls the same function with positional arguments, as Triton's version has them."""
        q, cache, out = self.half(2, 16, LATENT + ROPE), self.t(self.latent()), self.half(2, 16, LATENT)
        with self.assertRaisesRegex(aiter.NotServed, "^mla_decode_fwd: shuffled_kv_cache: .*fragments"):
            aiter.mla_decode_fwd(q, cache, out, self.t(np.array([0, 1, 2], np.int32)), self.t(LENS), 40, self.t(TABLE), 0.07,
                                 LATENT, ROPE, True, None, None, shuffled_kv_cache=True)

    def test_concat_and_cache_mla(self):
        kv_c, k_pe, slots = self.half(3, LATENT, seed=7), self.half(3, ROPE, seed=8), self.t(SLOTS)

        def call(cache):
            aiter.concat_and_cache_mla(kv_c, k_pe, cache, slots, "auto", self.t(np.ones(1, np.float32)))
            return [np.array(cache)]
        self.both(self.latent()[:, :, 0], call)

    def pages(self, seed=9):
        return support.random((6, P, HK, D), seed)

    def test_reshape_and_cache_flash(self):
        k, slots, one = self.half(3, HK, D, seed=10), self.t(SLOTS), self.t(np.ones(1, np.float32))

        def call(cache):
            aiter.reshape_and_cache_flash(k, k, cache, self.t(self.pages(11)), slots, "auto", one, one)
            return [np.array(cache)]
        self.both(self.pages(), call)

    def test_reshape_and_cache(self):
        k, slots, x = self.half(3, HK, D, seed=12), self.t(SLOTS), 8
        values = support.random((6, HK, D, P), 13)

        def call(asm):
            def write(cache):
                v = self.t(values.copy())
                aiter.reshape_and_cache(k, k, cache, v, slots, "auto", asm_layout=asm)
                return [np.array(cache), np.array(v)]
            return write
        for asm in (False, True):
            self.both(support.random((6, HK, D // x, P, x), 14), call(asm))

        def of_values(cache):
            aiter.reshape_and_cache(k, k, self.t(support.random((6, HK, D // x, P, x), 15)), cache, slots, "auto",
                                    asm_layout=True)
            return [np.array(cache)]
        self.both(values, of_values)

    def test_decode(self):
        q, lens, table = self.half(2, H, D, seed=16), self.t(LENS), self.t(TABLE)

        def call(cache):
            out = self.half(2, H, D, seed=17)
            aiter.unified_attention(q, cache, cache, out, self.t(np.array([0, 1, 2], np.int32)), 1, lens, 40, 0.09, True,
                                    (-1, -1), table, 0.0, None, None, None)
            return [out]
        self.both(self.pages(), call)

    def test_cp_mha_gather_cache(self):
        more = [self.t(np.array([0, 40, 49], np.int32)), self.t(np.repeat([0, 1], LENS).astype(np.int32)),
                self.t(np.zeros(2, np.int32))]

        def call(layout):
            def gather(cache):
                k, v = self.half(49, HK, D), self.half(49, HK, D)
                aiter.cp_mha_gather_cache(cache, cache, k, v, self.t(TABLE), None, None, *more, False, layout, 49)
                return [k, v]
            return gather
        for layout in ("NHD", "SHUFFLE"):
            self.both(self.pages(), call(layout))

    def test_insert_of_index_keys(self):
        from attn.aiter._minimax import insert_index
        key, slots = self.half(3, 1, D, seed=18), self.t(SLOTS)

        def call(cache):
            insert_index("call", key, cache, None, slots)
            return [np.array(cache)]
        self.both(support.random((6, P, D), 19), call)

    def test_views_that_need_a_copy(self):
        apart = self.latent()[:, :, 0]
        with self.assertRaisesRegex(attn.AttnError,
                                    r"a tensor of dimensions \(6, 8, 576\) with gaps.*cannot be read as one of"):
            aiter.mla_gluon(self.half(2, 16, LATENT), self.half(2, 16, ROPE), self.t(apart)[:, :8],
                            self.half(2, 16, LATENT), self.t(TABLE), self.t(LENS), 0.1)


class WithNumpy(Strided, unittest.TestCase):
    @staticmethod
    def t(x):
        return x

    @staticmethod
    def t_strided(base, x):
        return x


torch = support.find_torch()


@unittest.skipIf(torch is None, "torch is not installed")
class WithTorch(Strided, unittest.TestCase):
    @staticmethod
    def t(x):
        return torch.from_numpy(np.ascontiguousarray(x))

    @staticmethod
    def t_strided(base, x):
        return torch.from_numpy(base).as_strided(x.shape, [n // x.itemsize for n in x.strides])


if __name__ == "__main__":
    unittest.main()
