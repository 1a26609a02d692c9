# SPDX-License-Identifier: Apache-2.0
"""Tests the classes of ops, tensors of every kind, errors, streams and graphs."""
import gc
import subprocess
import sys
import threading
import typing
import unittest

import numpy as np

import attn
import support
from attn import _ops

PAGE, HEADS, KV_HEADS, DIM = 16, 8, 2, 128


def paged(lengths, seed, pages=None):
    """Returns (cache, table, keys, values): a random cache [pages, 2, PAGE, heads, D] of k and v, the page table, and
    the keys and values of each sequence. Pages of a sequence are scattered. `pages` is their number; None: a few more
    than sequences need."""
    rng = np.random.default_rng(seed)
    need = [-(-n // PAGE) for n in lengths]
    total = pages or sum(need) + 3
    order = rng.permutation(total)
    cache = support.random((total, 2, PAGE, KV_HEADS, DIM), seed)
    table = np.zeros((len(lengths), max(need)), np.int32)
    keys, values, at = [], [], 0
    for s, n in enumerate(need):
        table[s, :n] = order[at:at + n]
        keys.append(cache[table[s, :n], 0].reshape(-1, KV_HEADS, DIM)[:lengths[s]])
        values.append(cache[table[s, :n], 1].reshape(-1, KV_HEADS, DIM)[:lengths[s]])
        at += n
    return cache, table, keys, values


class Decode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": HEADS // KV_HEADS})

    def op(self, **more):
        return self.device.decode(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                                  cache=attn.CacheDesc(page_size=PAGE), **more)

    def expect(self, out, q, keys, values):
        for s, (k, v) in enumerate(zip(keys, values)):
            want, _ = support.attention(q[s:s + 1], k, v)
            support.close(out[s:s + 1], want, support.bound(v), f"sequence {s}")

    def run_once(self, op, lengths, seed, **more):
        cache, table, keys, values = paged(lengths, seed)
        q = support.random((len(lengths), HEADS, DIM), seed + 1)
        out = np.zeros_like(q)
        op(q=q, out=out, k_cache=cache[:, 0], v_cache=cache[:, 1], block_table=table,
           kv_lens=np.array(lengths, np.int32), **more)
        self.expect(out, q, keys, values)

    def test_views_of_one_cache(self):
        op = self.op()
        self.run_once(op, [5, 33, 64], 1)
        self.run_once(op, [100], 2)  # the tensors have other shapes and strides, and the earlier memory was freed
        gc.collect()
        self.run_once(op, [5, 33, 64], 3)

    def test_same_tensors_new_contents(self):
        op = self.op()
        cache, table, keys, values = paged([40, 7], 4)
        lens, out = np.array([40, 7], np.int32), np.zeros((2, HEADS, DIM), np.float16)
        for seed in range(3):
            q = support.random((2, HEADS, DIM), seed)
            op(q=q, out=out, k_cache=cache[:, 0], v_cache=cache[:, 1], block_table=table, kv_lens=lens)
            self.expect(out, q, keys, values)

    def test_numbers_do_not_stick(self):
        op = self.op()
        cache, table, keys, values = paged([40, 7], 5)
        q, out = support.random((2, HEADS, DIM), 6), np.zeros((2, HEADS, DIM), np.float16)
        tensors = dict(q=q, out=out, k_cache=cache[:, 0], v_cache=cache[:, 1], block_table=table,
                       kv_lens=np.array([40, 7], np.int32))
        op(**tensors, scale=0.5)
        want, _ = support.attention(q[:1], keys[0], values[0], scale=0.5)
        support.close(out[:1], want, support.bound(values[0]), "scale 0.5")
        op(**tensors)
        self.expect(out, q, keys, values)

    def test_a_call_that_breaks_off_leaves_no_address(self):
        op = self.op()
        cache, table, keys, values = paged([40, 7], 5)
        q, out = support.random((2, HEADS, DIM), 6), np.zeros((2, HEADS, DIM), np.float16)
        tensors = dict(q=q, k_cache=cache[:, 0], v_cache=cache[:, 1], block_table=table,
                       kv_lens=np.array([40, 7], np.int32))
        op(**tensors, out=out)
        with self.assertRaises((TypeError, attn.AttnError)):
            op(**tensors, q_scale=np.ones(1, np.float32), out=object())
        op(**tensors, out=out)
        self.assertFalse(op._args.q_scale)
        self.expect(out, q, keys, values)

    def test_arrays_without_elements(self):
        cache = np.zeros((3, PAGE, KV_HEADS, DIM), np.float16)
        none = np.zeros((0, HEADS, DIM), np.float16)  # numpy's strides of an array without elements are 0
        self.op()(q=none, out=none.copy(), k_cache=cache, v_cache=cache, kv_lens=np.zeros(0, np.int32),
                  block_table=np.zeros((0, 3), np.int32))

    def test_gpu_memory_streams_and_graph(self):
        op, device = self.op(), self.device
        cache, table, keys, values = paged([40, 7], 7)
        q = support.random((2, HEADS, DIM), 8)
        on_gpu = {"k_cache": cache[:, 0], "v_cache": cache[:, 1], "block_table": table,
                  "kv_lens": np.array([40, 7], np.int32), "q": q}
        on_gpu = {name: device.array(x) for name, x in on_gpu.items()}
        out = device.array(np.zeros_like(q))
        stream = device.stream()
        op(**on_gpu, out=out, stream=stream)
        stream.synchronize()
        self.expect(out.numpy(), q, keys, values)
        again = device.array(np.zeros_like(q))
        with device.graph() as graph:
            op(**on_gpu, out=again, stream=graph.stream)
        self.assertFalse(again.numpy().any())
        graph.replay()
        self.expect(again.numpy(), q, keys, values)

    def test_host_tensors_in_a_graph(self):
        op = self.op()
        cache, table, keys, values = paged([40, 7], 9)
        q, out = support.random((2, HEADS, DIM), 10), np.zeros((2, HEADS, DIM), np.float16)
        lens, k, v = np.array([40, 7], np.int32), cache[:, 0], cache[:, 1]
        with self.device.graph() as graph:
            op(q=q, out=out, k_cache=k, v_cache=v, block_table=table, kv_lens=lens,
               stream=graph.stream)
        q[:] = support.random(q.shape, 11)
        graph.replay()
        self.expect(out, q, keys, values)

    def test_threads_share_an_op(self):
        op, failures = self.op(), []

        def work(seed):
            try:
                for i in range(4):
                    self.run_once(op, [10 + seed, 40], 20 + seed + i)
            except BaseException as e:  # the main thread of the test reports the error
                failures.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_errors_say_what_is_wrong(self):
        op = self.op()
        cache, table, _, _ = paged([40, 7], 12)
        q, out = support.random((2, HEADS, DIM), 13), np.zeros((2, HEADS, DIM), np.float16)
        good = dict(q=q, out=out, k_cache=cache[:, 0], v_cache=cache[:, 1], block_table=table,
                    kv_lens=np.array([40, 7], np.int32))
        for name, value, words in (
                ("kv_lens", np.array([40, 7]), "kv_lens is of int64; int32 is needed"),
                ("q", q[:, :4], "q: dimension 1 is 4, 8 is needed"),
                ("q", q[:1], "tokens|out"),
                ("q", q.astype(np.float32), "^q"),
                ("out", None, "out is NULL"),
                ("out", out.transpose(0, 2, 1).copy().transpose(0, 2, 1), "last dimension has stride"),
                ("block_table", table.astype(np.int64), "block_table")):
            with self.assertRaisesRegex(attn.AttnError, words) as caught:
                op(**{**good, name: value})
            self.assertEqual(caught.exception.status, "ATTN_BAD_ARGUMENT")
        with self.assertRaisesRegex(TypeError, "kv_lens: list is no tensor"):
            op(**{**good, "kv_lens": [40, 7]})
        with self.assertRaisesRegex(TypeError, "q: .*complex64"):
            op(**{**good, "q": q.astype(np.complex64)})
        for name in ("q", "kv_lens"):
            with self.assertRaisesRegex(TypeError, f"{name}: .*byte order of other machines"):
                op(**{**good, name: good[name].astype(good[name].dtype.newbyteorder())})
        frozen = out.copy()
        frozen.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "out: it is written, and the array is read-only"):
            op(**{**good, "out": frozen})
        for name, value, words in (("scale", "a", "scale: must be real number"),
                                   ("q_len", 2 ** 40, "q_len: "), ("scales", 1, "no argument scales")):
            with self.assertRaisesRegex((TypeError, OverflowError), words):
                op(**good, **{name: value})
        op(**good)  # the failed calls have changed nothing

    def test_a_missing_kernel_is_explained(self):
        with self.assertRaisesRegex(attn.AttnError, "head_dim") as caught:
            self.device.decode(dtype="fp16", head_dim=64, heads=8, kv_heads=2,
                               cache=attn.CacheDesc(page_size=PAGE))
        self.assertEqual(caught.exception.status, "ATTN_NO_KERNEL")
        with self.assertRaisesRegex(attn.AttnError, "mask is 'diagonal': it is one of causal"):
            self.op(mask="diagonal")
        with self.assertRaisesRegex(TypeError, "cache is 16: an attn.CacheDesc is needed"):
            self.device.decode(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS, cache=16)
        with self.assertRaisesRegex(attn.AttnError, "q_dtype is 'int32': it is one of bf16"):
            self.op(q_dtype=np.int32)
        with self.assertRaisesRegex(TypeError, "q_len: an integer is required"):
            self.op(q_len=[2])
        with self.assertRaisesRegex(TypeError, "q_len: an integer is required"):
            self.op(q_len="2")
        with self.assertRaisesRegex(OverflowError, "page_size: "):
            self.device.decode(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                               cache=attn.CacheDesc(page_size=2 ** 40))
        with self.assertRaisesRegex(attn.AttnError, "no indexer_topk kernel"):
            self.device.indexer_topk(top_k=8, heads=4)  # the argument top_blocks has a default
        with self.assertRaises(TypeError):
            attn.build([{"op": "plan"}])  # a list is neither a description nor a path
        self.assertEqual(self.op().why, "exact")
        self.assertIn("decode_fp16_d128", self.op().kernel)


class Foreign:
    """An array of another library, which has one interface for tensors and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()


class Rows:
    """Rows of 2 x 64 half-precision numbers in a GPU array, `step` bytes apart."""

    def __init__(self, array, step):
        self.array, self.step = array, step

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, "shape": (3, 2, 64), "strides": (self.step, 128, 2)}


class Interfaces(unittest.TestCase):
    def test_strides_of_an_array_interface(self):
        device = support.device({"op": "combine", "partials": "pair", "head_dim": 64})
        op = device.combine(dtype="fp16", head_dim=64, heads=2, partials="pair")
        a, b = (support.random((3, 2, 64), i) for i in (1, 2))
        room = device.array(np.concatenate([a, b], 1))
        rows, sums = device.array(b), device.array(np.zeros((2, 3), np.float32))
        out = device.array(np.zeros_like(a))
        call = dict(suffix=rows, prefix_lse=sums, suffix_lse=sums, out=out)
        with self.assertRaisesRegex(TypeError, "prefix: a stride is not a multiple of the element's size"):
            op(prefix=Rows(room, 513), **call)
        op(prefix=Rows(room, 512), **call)
        device.synchronize()
        support.close(out.numpy(), (a.astype(float) + b) / 2, 4 * support.HALF * 4, "combine")

    def test_dlpack(self):
        device = support.device({"op": "combine", "partials": "pair", "head_dim": 64})
        op = device.combine(dtype="fp16", head_dim=64, heads=2, partials="pair")
        a, b = support.random((3, 2, 64), 1), support.random((3, 2, 64), 2)
        la, lb = support.random((2, 3), 3, np.float32), support.random((2, 3), 4, np.float32)
        out = np.zeros_like(a)
        with self.assertRaisesRegex(attn.AttnError, "DLPack's type 1, not on a GPU"):
            op(prefix=Foreign(a), suffix=b, prefix_lse=la, suffix_lse=lb, out=out)
        op(prefix=a, suffix=b, prefix_lse=la, suffix_lse=lb, out=out)
        weight = (1 / (1 + np.exp(lb - la))).T[..., None]
        support.close(out, weight * a + (1 - weight) * b, 4 * support.HALF * 4, "combine")

    def test_a_cache_has_the_words_of_the_schema(self):
        words = typing.get_type_hints(attn.CacheDesc)
        for field, enum in (("layout", "attn_kv_layout"), ("scale", "attn_kv_scale")):
            self.assertEqual(typing.get_args(words[field]), tuple(_ops.ENUMS[enum]))
        optional = typing.get_args(words["dtype"])[0]
        self.assertEqual(typing.get_args(optional), tuple(_ops.ENUMS["attn_dtype"]))

    def test_pack(self):
        pack = attn.build({"targets": ["gfx942", "gfx950"], "kernels": [{"op": "plan"}]})
        pack.check()
        self.assertEqual([k["target"] for k in pack.kernels()], ["gfx942", "gfx950"])
        self.assertEqual({k["op"] for k in pack.kernels()}, {"plan"})
        with self.assertRaisesRegex(attn.AttnError, "no op|op"):
            attn.build({"targets": ["gfx942"], "kernels": [{"op": "prefil"}]})
        with self.assertRaisesRegex(attn.AttnError, "nowhere.attnpack"):
            attn.Pack("nowhere.attnpack")
        with self.assertRaisesRegex(attn.AttnError, 'nowhere.so.*; hip="sim" takes the simulated GPU') as caught:
            attn.Device(pack, hip="nowhere.so")
        self.assertEqual(caught.exception.status, "ATTN_NO_HIP")


class Metadata(unittest.TestCase):
    def test_kv_indices_of_pages_and_slots(self):
        device = support.device({"op": "metadata", "metadata": "kv_indices"})
        op = device.metadata(kind="kv_indices")
        pages = np.random.default_rng(1).permutation(12).astype(np.int32).reshape(3, 4)
        indptr = np.array([0, 4, 4, 7], np.int32)
        slots = np.repeat(pages * PAGE, PAGE, 1) + np.tile(np.arange(PAGE, dtype=np.int32), 4)
        for table, of_slots in ((pages, False), (slots[:, :-5], True)):  # the last page of a sequence is not full
            out = np.full(8, -7, np.int32)
            op(block_table=np.ascontiguousarray(table), kv_indptr=indptr, kv_indices=out, page_size=PAGE,
               table_of_slots=of_slots)
            self.assertEqual(out.tolist(), [*pages[0], *pages[2, :3], -7])


class Counts(unittest.TestCase):
    """Tests counts that no dimension of a tensor gives."""

    def test_entries_of_page_lists(self):
        op = support.device({"op": "metadata", "metadata": "kv_indices"}).metadata(kind="kv_indices")
        table, indptr = np.arange(12, dtype=np.int32).reshape(3, 4), np.array([0, 3, 3, 5], np.int32)
        out = np.full(6, -1, np.int32)
        op(block_table=table, kv_indptr=indptr, kv_indices=out, page_size=16, entries=4)
        self.assertEqual(out.tolist(), [0, 1, 2, 8, 9, -1])

    def test_entries_that_a_tensor_has(self):
        op = support.device({"op": "metadata", "metadata": "page_table"}).metadata(kind="page_table")
        table, lens = np.arange(8, dtype=np.int32).reshape(2, 4), np.array([33, 16], np.int32)
        out = np.full((2, 3), -1, np.int32)
        op(block_table=table, kv_lens=lens, page_table=out, page_size=16)
        self.assertEqual(out.tolist(), [[0, 1, 2], [4, -1, -1]])

    def test_runs_of_planned_lists(self):
        device = support.device({"op": "topk", "top_k": 2, "planned": True})
        op = device.topk(top_k=2, planned=True)
        scores = np.array([[1, 0], [5, 2], [3, 4], [6, 7], [9, 8]], np.float32)
        source = np.arange(10, dtype=np.int32).reshape(5, 2)
        indptr, runs = np.array([0, 5], np.int32), np.full((2, 1, 2), -1, np.int32)
        op(scores=scores, source=source, reduce_indptr=indptr, indices=runs, run=3, splits=2)
        self.assertEqual(runs.tolist(), [[[2, 5]], [[8, 9]]])


class Prefill(unittest.TestCase):
    def test_packed_sequences_in_a_fused_tensor(self):
        device = support.device({"op": "prefill", "head_dim": 64, "lse": True})
        op = device.prefill(dtype="fp16", head_dim=64, heads=4, kv_heads=2, lse=True)
        lengths = [5, 0, 70]
        total = sum(lengths)
        qkv = support.random((total, 8, 64), 1)
        q, k, v = qkv[:, :4], qkv[:, 4:6], qkv[:, 6:]
        out, lse = np.zeros((total, 4, 64), np.float16), np.zeros((4, total), np.float32)
        cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        op(q=q, k=k, v=v, out=out, lse=lse, cu_seqlens_q=cu, cu_seqlens_k=cu)
        for s in range(3):
            rows = slice(cu[s], cu[s + 1])
            want, want_lse = support.attention(q[rows], k[rows], v[rows])
            support.close(out[rows], want, support.bound(v), f"out {s}")
            support.close(lse[:, rows], want_lse, 1e-3, f"lse {s}")

    def test_one_token_with_heads_far_apart(self):
        """The stride between tokens is not read if there is one token. The stride between heads exceeds the limit for
        tokens."""
        device = support.device({"op": "prefill", "head_dim": 64})
        op = device.prefill(dtype="fp16", head_dim=64, heads=2, kv_heads=2)
        step = (8 << 20) // 2
        base = np.zeros((4, step + 64), np.float16)
        q, k, v, out = (np.lib.stride_tricks.as_strided(x, (1, 2, 64), (2, 2 * step, 2)) for x in base)
        for seed, x in enumerate((q, k, v)):
            x[...] = support.random((1, 2, 64), seed)
        cu = np.array([0, 1], np.int32)
        op(q=q, k=k, v=v, out=out, cu_seqlens_q=cu, cu_seqlens_k=cu)
        np.testing.assert_array_equal(out, v)

    def test_a_list_without_pages_at_the_end_of_its_array(self):
        device = support.device({"op": "prefill", "head_dim": 64, "paged": True, "page_size": PAGE,
                                 "page_table": "indices"})
        op = device.prefill(dtype="fp16", head_dim=64, heads=1, kv_heads=1, paged=True,
                            page_table="indices", cache=attn.CacheDesc(page_size=PAGE))
        cache, q = support.random((2, PAGE, 1, 64), 1), support.random((3, 1, 64), 2)
        for lengths in ([0, 0, 0], [3, 0, 0]):
            pages = [-(-n // PAGE) for n in lengths]
            out = np.ones_like(q)
            op(q=q, out=out, k_cache=cache, v_cache=cache, cu_seqlens_q=np.arange(4, dtype=np.int32),
               kv_lens=np.array(lengths, np.int32), kv_indices=np.zeros(sum(pages), np.int32),
               kv_indptr=np.cumsum([0] + pages).astype(np.int32), max_seqlen_q=1, max_seqlen_k=PAGE)
            self.assertFalse(out[sum(pages):].any())


class Import(unittest.TestCase):
    def test_an_import_parses_no_op(self):
        code = """
import attn
from attn import _native
names = [name for name in attn._ops.DECLARATIONS if name]
assert sorted(_native._undeclared) == sorted(names)
for name in names + names:
    _native.declare(name)
    assert _native.ffi.sizeof(f"struct attn_{name}_args")
assert not _native._undeclared
"""
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
