# SPDX-License-Identifier: Apache-2.0
"""Tests the classes of attn.attention: a step is planned once, and its plan runs in each layer."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import attn
import attn.aiter as aiter
from attn.aiter import _common, _split
from attn.attention import BatchDecode, BatchPrefill
import support
from test_ops import DIM, HEADS, KV_HEADS, PAGE, paged

CACHE = attn.CacheDesc(page_size=PAGE)
SHAPE = dict(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS, cache=CACHE)


TUNED = """
targets: [gfx942]
defaults: { dtype: fp16, head_dim: 64 }
kernels:
  - { op: decode, gqa: 8, page_size: 16, one_launch: [false, true] }
  - { op: combine, partials: csr }
  - { op: plan }
"""


class TunedSplit(unittest.TestCase):
    """Tests a pack with the tuning of tests/runtime/splits_tuning.yaml, which says how decode is split."""

    @classmethod
    def setUpClass(cls):
        rows = pathlib.Path(__file__).parents[1] / "runtime" / "splits_tuning.yaml"
        with tempfile.TemporaryDirectory() as root:
            files = {"d.yaml": TUNED, "t.yaml": rows.read_text().replace("dtype=bf16", "dtype=fp16")}
            for name, text in files.items():
                pathlib.Path(root, name).write_text(text)
            cls.device, cls.untuned = (
                cls.build(root, *args) for args in (
                    ("tuned", "--tuning", "t.yaml", "--allow-stale"), ("untuned",)))

    @staticmethod
    def build(root, name, *more):
        """Builds a pack `name` of TUNED in the folder `root`, with further arguments of attnc. Returns a simulated GPU
        that has opened it."""
        subprocess.run([os.environ["ATTN_ATTNC"], "build", "d.yaml", *more, "-q", "--cache", "cache", "-o", name],
                       cwd=root, check=True)
        return attn.Device(attn.Pack(os.path.join(root, name)), hip="sim")

    def decode(self, heads, kv_heads, **more):
        return BatchDecode(self.device, dtype="fp16", head_dim=64, heads=heads, kv_heads=kv_heads,
                           cache=attn.CacheDesc(page_size=16), **more)

    def test_what_was_tuned_is_the_default(self):
        once = self.decode(8, 1, max_batch=1, kv_len=1024)
        self.assertTrue(once.split.tuned)
        self.assertEqual((once.lists.lists, once.split.one_launch), (304, True))
        self.assertIsNone(once.combine)
        self.assertIsNotNone(once.tickets)
        joined = self.decode(8, 1, max_batch=1, kv_len=16384)
        self.assertEqual((joined.lists.lists, joined.lists.shape["merge_rate"]), (912, 16))
        self.assertIsNotNone(joined.combine)
        self.assertEqual(self.decode(32, 4, max_batch=128, kv_len=1024).lists.shape["item_cost"], 8)
        self.assertIsNone(self.decode(32, 4, max_batch=512, kv_len=1024).lists)

    def test_the_caller_overrules_it(self):
        two = self.decode(8, 1, max_batch=1, kv_len=1024, one_launch=False)
        self.assertEqual((two.lists.lists, two.tickets), (304, None))
        given = self.decode(8, 1, max_batch=1, kv_len=1024, lists=7)
        self.assertEqual((given.lists.lists, given.split.tuned, given.tickets), (7, False, None))
        self.assertIsNone(self.decode(8, 1, max_batch=1, split=False).lists)

    def test_it_runs(self):
        for kv_len in (1024, 16384):
            decode = self.decode(8, 1, max_batch=2, kv_len=kv_len)
            cache = support.random((60, 2, 16, 1, 64), 3)
            lens = np.array([700, 33], np.int32)
            pages = np.arange(60, dtype=np.int32)[::-1]
            table = np.stack([pages[:44], np.roll(pages, 16)[:44]])
            decode.plan(lens, block_table=table)
            q = support.random((2, 8, 64), 4)
            out = decode.run(q, cache[:, 0], cache[:, 1])
            for s, n in enumerate(lens):
                x, y = (cache[table[s], i].reshape(-1, 1, 64)[:n] for i in range(2))
                want, _ = support.attention(q[s:s + 1], x, y)
                support.close(out[s:s + 1], want, support.bound(y), f"{kv_len} {s}")


    def attend(self, longest):
        """Calls unified_attention() for two sequences and checks the output. `longest` is its argument max_seqlen_k."""
        cache = support.random((60, 2, 16, 1, 64), 3)
        lens, pages = np.array([700, 33], np.int32), np.arange(60, dtype=np.int32)[::-1]
        table = np.stack([pages[:44], np.roll(pages, 16)[:44]])
        q, out = support.random((2, 8, 64), 4), np.zeros((2, 8, 64), np.float16)
        aiter.unified_attention(
            q, np.ascontiguousarray(cache[:, 0]), np.ascontiguousarray(cache[:, 1]), out,
            np.arange(3, dtype=np.int32), 1, lens, longest, 0.125, True, (-1, -1), table, 0, None, None, None)
        for i, n in enumerate(lens):
            x, y = (cache[table[i], j].reshape(-1, 1, 64)[:n] for j in range(2))
            want, _ = support.attention(q[i:i + 1], x, y)
            support.close(out[i:i + 1], want, support.bound(y), f"{longest} {i}")

    def test_one_launch_is_the_default_without_tuning(self):
        make = lambda **more: BatchDecode(self.untuned, dtype="fp16", head_dim=64, heads=8, kv_heads=1, max_batch=1,
                                          kv_len=8192, cache=attn.CacheDesc(page_size=16), **more)
        once = make()
        self.assertEqual((once.split.one_launch, once.combine, once.lists.shape["merge_rate"]), (True, None, 32))
        self.assertIsNone(make(one_launch=False).tickets)
        self.assertIsNone(make(lists=7).tickets)

    def test_aiter_takes_one_launch_without_tuning(self):
        aiter.use(device=self.untuned)
        session = _common._devices[0]
        self.attend(1024)
        split, = session.splits.values()
        self.assertEqual((split.tuned, split.one_launch, split.lists, split.merge_rate), (False, True, 304, 4))
        self.assertEqual([kind for kind, _ in session.ops if kind == "combine"], [])
        self.assertEqual([x.any() for _, x in session.tickets.values()], [False])

    def test_aiter_splits_as_tuned(self):
        aiter.use(device=self.device)
        session = _common._devices[0]
        for longest, lists, merge_rate in ((1024, 304, 0), (16384, 912, 16)):
            session.buffers.clear()
            self.attend(longest)
            self.assertEqual([key[1][4] for key in session.buffers], [lists])
            once = longest == 1024
            self.assertNotEqual(once, any(kind == "combine" for kind, _ in session.ops))
            for tickets in session.tickets.values():  # the second call does not change the tickets
                self.assertEqual((tickets[1].shape, tickets[1].any()), ((2, 1, 32), False))
            self.assertEqual(len(session.tickets), 1)
            split = list(session.splits.values())[-1]
            self.assertEqual((split.tuned, split.merge_rate), (True, merge_rate))
        self.assertTrue(next(op for (kind, desc), op in session.ops.items() if ("one_launch", True) in desc))
        op = self.device.decode(dtype="fp16", head_dim=64, heads=32, kv_heads=4,
                                cache=attn.CacheDesc(page_size=16))
        split = _split.split_of(session, op, 512, 4, None, 1024)
        self.assertEqual((split.lists, split.tuned), (0, True))
        split = _split.split_of(session, op, 128, 4, None, 1024)
        self.assertEqual((split.lists, split.item_cost), (608, 8))
        self.assertEqual(_split.split_of(session, op, 16, 4, 2, 1024).lists, 128)
        self.assertEqual(_split.split_of(session, op, 128, 4, 1, 1024).lists, 0)

    def test_aiter_counts_workgroups_of_a_list(self):
        batches = (1, 64, 128, 192, 255, 256)
        self.assertEqual([_split.usual_lists(256, 256, n, 1, None) for n in batches], [256] * 5 + [0])
        self.assertEqual([_split.usual_lists(256, 128, n, 1, None) for n in batches], [128, 128, 0, 128, 128, 0])
        self.assertEqual([_split.usual_lists(256, 128, n, 1, 2) for n in batches], [2, 128, 0, 128, 128, 0])
        self.assertEqual(_split.usual_lists(304, 304, 16, 4, 3), 192)

    def test_aiter_has_tickets_for_each_capture(self):
        aiter.use(device=self.device)
        session, q, stream, second = _common._devices[0], np.zeros(1), self.device.stream(), self.device.stream()
        made = [_split.tickets_of(session, q, stream.handle, "decode", (2, 3))]
        for _ in range(2):
            with self.device.graph(stream):
                made.append(_split.tickets_of(session, q, stream.handle, "decode", (2, 3)))
                self.assertIs(made[-1], _split.tickets_of(session, q, stream.handle, "decode", (2, 3)))
        other = _split.tickets_of(session, q, second.handle, "decode", (2, 3))
        self.assertEqual(len({id(x) for x in (*made, other)}), 4)
        self.assertTrue(all(x.shape == (2, 3) and not x.any() for x in made))


class Decode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        gqa = HEADS // KV_HEADS
        cls.device = support.device(
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": gqa},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": gqa, "mask": "window",
             "q_len": 2, "lse": True, "sinks": True, "page_table": "indices"},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": gqa, "one_launch": True,
             "mask": "chunk"},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": gqa, "q_dtype": "fp8",
             "kv_dtype": "fp8", "kv_scale": "tensor", "q_scale": "token"},
            {"op": "combine", "head_dim": DIM, "partials": "csr"}, {"op": "plan"})

    def test_chunks_in_one_launch(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=3, lists=8, chunk=128, one_launch=True)
        self.assertIsNone(decode.combine)
        lengths = [300, 128, 129]
        cache, table, keys, values = paged(lengths, 3)
        decode.plan(np.array(lengths, np.int32), block_table=table)
        for turn in range(2):  # tickets are 0 again after the first launch, so the second one works too
            q = support.random((3, HEADS, DIM), 5 + turn)
            out = decode.run(q, cache[:, 0], cache[:, 1])
            for s, n in enumerate(lengths):
                first = (n - 1) // 128 * 128
                want, _ = support.attention(q[s:s + 1], keys[s][first:], values[s][first:])
                support.close(out[s:s + 1], want, support.bound(values[s]), f"{turn} {s}")

    def test_one_launch_of_fewer_sequences(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=4, lists=8, chunk=128, one_launch=True)
        for lengths in ([100], [90, 0, 128], [], [7, 100, 128, 1]):
            n = len(lengths)
            cache, table, keys, values = paged([*lengths, 1], 3)
            decode.plan(np.array(lengths, np.int32), block_table=table[:n])
            q = support.random((n, HEADS, DIM), 5)
            out = decode.run(q, cache[:, 0], cache[:, 1])
            for s in range(n):
                want, _ = support.attention(q[s:s + 1], keys[s], values[s])
                support.close(out[s:s + 1], want, support.bound(values[s]) if lengths[s] else 0, f"{n} {s}")

    def test_fp8_queries_with_scales_of_their_own(self):
        cache = attn.CacheDesc(page_size=PAGE, dtype="fp8", scale="tensor")
        decode = BatchDecode(self.device, **dict(SHAPE, cache=cache), max_batch=2, lists=8, q_dtype="fp8",
                             q_scale="token")
        lengths = [300, 40]
        _, table, _, _ = paged(lengths, 7)
        k, v = (support.fp8_bytes((int(table.max()) + 1, PAGE, KV_HEADS, DIM), i) for i in range(2))
        one = np.array([0.05], np.float32)
        decode.plan(np.array(lengths, np.int32), block_table=table)
        for seed in range(2):
            q = support.fp8_bytes((2, HEADS, DIM), 5 + seed)
            q_scale = np.random.default_rng(seed).uniform(0.01, 0.1, (2, HEADS)).astype(np.float32)
            out = decode.run(q, k, v, k_scale=one, v_scale=one, q_scale=q_scale)
            self.assertEqual(out.dtype, np.float16)
            for s, n in enumerate(lengths):
                x, y = (support.FP8[c[table[s, :-(-n // PAGE)]]].reshape(-1, KV_HEADS, DIM)[:n] * one[0]
                        for c in (k, v))
                want, _ = support.attention(support.FP8[q[s:s + 1]] * q_scale[s][:, None], x, y)
                support.close(out[s:s + 1], want, support.bound(y) * 5, f"{seed} {s}")

    def layers(self, decode, lengths, seeds):
        """Yields (key cache, value cache, keys, values) of each layer of a model. Layers have their own caches and
        share the page table."""
        for seed in seeds:
            cache, table, keys, values = paged(lengths, 7)
            cache[:] = support.random(cache.shape, seed)
            for s, n in enumerate(lengths):
                pages = table[s, :-(-n // PAGE)]
                keys[s] = cache[pages, 0].reshape(-1, KV_HEADS, DIM)[:n]
                values[s] = cache[pages, 1].reshape(-1, KV_HEADS, DIM)[:n]
            yield cache[:, 0], cache[:, 1], keys, values

    def test_steps_and_layers(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=4, lists=8)
        lengths = [300, 3, 0, 40]
        _, table, _, _ = paged(lengths, 7)
        lens = np.array(lengths, np.int32)
        layers = list(self.layers(decode, lengths, (1, 2)))
        for step in range(2):
            decode.plan(lens, block_table=table)
            for k_cache, v_cache, keys, values in layers:
                q = support.random((4, HEADS, DIM), 10 + step)
                out = decode.run(q, k_cache, v_cache)
                for s in range(4):
                    want, _ = support.attention(q[s:s + 1], keys[s][:lens[s]], values[s][:lens[s]])
                    support.close(out[s:s + 1], want, support.bound(v_cache), f"{step} {s}")
            lens[0], lens[3] = 291, 33  # the next plan reads other lengths from the same tensor

    def test_window_sinks_lse_two_queries(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=3, q_len=2, lse=True, sinks=True,
                             window_left=20, page_table="indices", lists=8)
        lengths = [200, 1, 65]
        cache, table, keys, values = paged(lengths, 3)
        pages = [-(-n // PAGE) for n in lengths]
        indptr = np.concatenate([[0], np.cumsum(pages)]).astype(np.int32)
        indices = np.concatenate([table[s, :n] for s, n in enumerate(pages)])
        qo = np.array([0, 2, 3, 5], np.int32)
        q = support.random((5, HEADS, DIM), 5)
        sinks = support.random((HEADS,), 6, np.float32)
        decode.plan(np.array(lengths, np.int32), kv_indptr=indptr, kv_indices=indices, qo_indptr=qo)
        out, lse = decode.run(q, cache[:, 0], cache[:, 1], sinks=sinks)
        for s in range(3):
            rows = slice(qo[s], qo[s + 1])
            want, want_lse = support.attention(q[rows], keys[s], values[s], window=(20, 0),
                                               sinks=sinks)
            support.close(out[rows], want, support.bound(values[s]), f"out {s}")
            support.close(lse[:, rows], want_lse, 1e-3, f"lse {s}")

    def test_masks_exclude_each_other(self):
        for more in ({"mask": "none", "window_left": 5}, {"window_left": 5, "chunk": 16},
                     {"mask": "custom", "chunk": 16}):
            with self.assertRaisesRegex(attn.AttnError, "exclude each other"):
                BatchDecode(self.device, **{**SHAPE, **more}, max_batch=2)

    def test_without_split(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=2, split=False)
        cache, table, keys, values = paged([70, 9], 4)
        q, out = support.random((2, HEADS, DIM), 5), np.zeros((2, HEADS, DIM), np.float16)
        with self.assertRaisesRegex(attn.AttnError, r"run\(\) before plan\(\)"):
            decode.run(q, cache[:, 0], cache[:, 1])
        decode.plan(np.array([70, 9], np.int32), block_table=table)
        self.assertIs(decode.run(q, cache[:, 0], cache[:, 1], out=out), out)
        for s in range(2):
            want, _ = support.attention(q[s:s + 1], keys[s], values[s])
            support.close(out[s:s + 1], want, support.bound(values[s]))

    def test_a_captured_step(self):
        device = self.device
        decode = BatchDecode(device, **SHAPE, max_batch=2, lists=8)
        cache, table, keys, values = paged([300, 9], 4)
        k, v = device.array(cache[:, 0]), device.array(cache[:, 1])
        table, host = device.array(table), np.array([300, 9], np.int32)
        lens = device.array(host)
        q = support.random((2, HEADS, DIM), 5)
        q_gpu, out = device.array(q), device.empty((2, HEADS, DIM), np.float16)
        with device.graph() as graph:
            decode.plan(lens, block_table=table, stream=graph.stream)
            decode.run(q_gpu, k, v, out=out, stream=graph.stream)
        for n in (300, 120):
            device.hip.call("hipMemcpy", lens.pointer, np.array([n, 9], np.int32).ctypes.data, 8, 1)
            graph.replay()
            want, _ = support.attention(q[:1], keys[0][:n], values[0][:n])
            support.close(out.numpy()[:1], want, support.bound(values[0]), f"{n} keys")

    def test_a_captured_step_in_one_launch(self):
        device = self.device
        decode = BatchDecode(device, **SHAPE, max_batch=2, lists=8, one_launch=True, chunk=128)
        cache, table, keys, values = paged([300, 9], 4)
        k, v = device.array(cache[:, 0]), device.array(cache[:, 1])
        table, lens = device.array(table), device.array(np.array([300, 9], np.int32))
        q = [support.random((2, HEADS, DIM), 5 + i) for i in range(2)]
        q_gpu, out = device.array(q[0]), device.empty((2, HEADS, DIM), np.float16)
        bound = decode.op.bind(q=q_gpu, out=out, k_cache=k, v_cache=v, kv_lens=lens, block_table=table,
                               chunk=128)
        with device.graph() as graph:  # the plan and the launch that it describes are in one graph
            decode.plan(lens, block_table=table, stream=graph.stream)
            decode.run(q_gpu, k, v, out=out, stream=graph.stream)
        with device.graph() as again:
            bound(stream=again.stream)
        for turn in range(4):
            device.hip.call("hipMemcpy", q_gpu.pointer, q[turn % 2].ctypes.data, q[0].nbytes, 1)
            (graph if turn < 2 else again).replay()
            for s, n in enumerate((300, 9)):
                first = (n - 1) // 128 * 128
                want, _ = support.attention(q[turn % 2][s:s + 1], keys[s][first:n], values[s][first:n])
                support.close(out.numpy()[s:s + 1], want, support.bound(values[s]), f"{turn} {s}")

    def test_batch_beyond_the_plan(self):
        decode = BatchDecode(self.device, **SHAPE, max_batch=1, lists=8)
        with self.assertRaisesRegex(attn.AttnError, "a batch of 2 sequences, planned for at most 1"):
            decode.plan(np.array([1, 2], np.int32), block_table=np.zeros((2, 1), np.int32))


class Prefill(unittest.TestCase):
    def test_paged_after_a_prefix(self):
        device = support.device({"op": "prefill", "head_dim": DIM, "paged": True, "page_size": PAGE,
                                 "gqa": HEADS // KV_HEADS})
        prefill = BatchPrefill(device, **SHAPE)
        cache, table, keys, values = paged([50, 20], 6)
        q = support.random((30, HEADS, DIM), 7)
        cu = np.array([0, 25, 30], np.int32)
        prefill.plan(cu, 25, kv_lens=np.array([50, 20], np.int32), block_table=table)
        out = prefill.run(q, cache[:, 0], cache[:, 1])
        for s in range(2):
            want, _ = support.attention(q[cu[s]:cu[s + 1]], keys[s], values[s])
            support.close(out[cu[s]:cu[s + 1]], want, support.bound(values[s]))

    def test_captured(self):
        device = support.device({"op": "prefill", "head_dim": DIM, "paged": True, "page_size": PAGE,
                                 "gqa": HEADS // KV_HEADS})
        prefill = BatchPrefill(device, **SHAPE)
        cache, table, keys, values = paged([50, 20], 6)
        q, cu = support.random((30, HEADS, DIM), 7), np.array([0, 25, 30], np.int32)
        given = {n: device.array(x) for n, x in (("q", q), ("k", cache[:, 0]), ("v", cache[:, 1]))}
        out, lens = device.empty((30, HEADS, DIM), np.float16), device.array(np.array([50, 20], np.int32))
        prefill.plan(device.array(cu), 25, kv_lens=lens, block_table=device.array(table))
        with device.graph() as graph:
            prefill.run(**given, out=out, stream=graph.stream)
        for n in (50, 41):
            device.hip.call("hipMemcpy", lens.pointer, np.array([n, 20], np.int32).ctypes.data, 8, 1)
            graph.replay()
            for s, m in enumerate((n, 20)):
                want, _ = support.attention(q[cu[s]:cu[s + 1]], keys[s][:m], values[s][:m])
                support.close(out.numpy()[cu[s]:cu[s + 1]], want, support.bound(values[s]), f"{n} {s}")

    def planned(self, once=False, **more):
        device = support.device({"op": "prefill", "head_dim": DIM, "paged": True, "page_size": PAGE,
                                 "gqa": HEADS // KV_HEADS, "planned": True, "one_launch": once},
                                {"op": "plan", "q_tiles": True},
                                {"op": "combine", "head_dim": DIM, "partials": "csr"}, **more)
        return device, BatchPrefill(device, **SHAPE, max_batch=3, max_tokens=40)

    def test_planned_sequences_of_one_query_and_of_many(self):
        self.check_planned(False)

    def test_planned_in_one_launch(self):
        prefill = self.check_planned(True)
        self.assertFalse(prefill.tickets.numpy().any())

    def check_planned(self, once):
        device, prefill = self.planned(once)
        lens, cu = (900, 20, 50), np.array([0, 1, 6, 36], np.int32)
        cache, table, keys, values = paged(lens, 6)
        q = support.random((36, HEADS, DIM), 7)
        prefill.plan(cu, 30, kv_lens=np.array(lens, np.int32), block_table=table)
        out = prefill.run(q, cache[:, 0], cache[:, 1])
        parts = prefill.lists.of(3)["reduce_indptr"].numpy()
        self.assertGreater(parts[1], 1)  # the plan cuts the first sequence into parts
        for s in range(3):
            want, _ = support.attention(q[cu[s]:cu[s + 1]], keys[s], values[s])
            support.close(out[cu[s]:cu[s + 1]], want, support.bound(values[s]))
        return prefill

    def test_planned_in_a_graph(self):
        for once in (False, True):
            self.check_planned_graph(once)

    def check_planned_graph(self, once):
        device, prefill = self.planned(once)
        lens = (700, 20, 50)
        cache, table, keys, values = paged(lens, 6)
        q = support.random((40, HEADS, DIM), 7)
        given = {n: device.array(x) for n, x in (("q", q), ("k", cache[:, 0]), ("v", cache[:, 1]))}
        cu, kv = device.empty((4,), np.int32), device.empty((3,), np.int32)
        out, pages = device.empty((40, HEADS, DIM), np.float16), device.array(table)
        with device.graph() as graph:
            prefill.plan(cu, 40, kv_lens=kv, block_table=pages, stream=graph.stream)
            prefill.run(**given, out=out, stream=graph.stream)
        for queries, n in (((1, 33, 4), (700, 20, 50)), ((20, 0, 1), (641, 9, 50))):
            first = np.cumsum((0,) + queries).astype(np.int32)
            for to, x in ((cu, first), (kv, np.array(n, np.int32))):
                device.hip.call("hipMemcpy", to.pointer, x.ctypes.data, x.nbytes, 1)
            graph.replay()
            for s in range(3):
                want, _ = support.attention(q[first[s]:first[s + 1]], keys[s][:n[s]], values[s][:n[s]])
                got = out.numpy()[first[s]:first[s + 1]]
                support.close(got, want, support.bound(values[s]), f"{queries} {s}")

    def test_check_data_names_a_bad_item(self):
        device, prefill = self.planned(check_data=True)
        cache, table, _, _ = paged((50,), 6)
        q, cu, lens = support.random((6, HEADS, DIM), 7), np.array([0, 6], np.int32), np.array([50], np.int32)
        prefill.plan(cu, 6, kv_lens=lens, block_table=table)
        info = prefill.lists.of(1)["work_info"]
        bad = np.array([7], np.int32)
        device.hip.call("hipMemcpy", info.pointer, bad.ctypes.data, 4, 1)
        with self.assertRaisesRegex(attn.AttnError, r"work_info\[0\]\[0\] is 7"):
            prefill.run(q, cache[:, 0], cache[:, 1])

    def test_check_data_names_a_ticket(self):
        device, prefill = self.planned(True, check_data=True)
        cache, table, _, _ = paged((900,), 6)
        q, cu, lens = support.random((6, HEADS, DIM), 7), np.array([0, 6], np.int32), np.array([900], np.int32)
        prefill.plan(cu, 6, kv_lens=lens, block_table=table)
        one = np.array([1], np.int32)
        device.hip.call("hipMemcpy", prefill.tickets.pointer + 4 * 33, one.ctypes.data, 4, 1)
        with self.assertRaisesRegex(attn.AttnError, r"tickets\[33\] is 1, and 0 between launches"):
            prefill.run(q, cache[:, 0], cache[:, 1])

    def test_a_pack_without_planned_kernels_does(self):
        device = support.device({"op": "prefill", "head_dim": DIM, "paged": True, "page_size": PAGE,
                                 "gqa": HEADS // KV_HEADS})
        self.assertIsNone(BatchPrefill(device, **SHAPE, max_batch=3, max_tokens=40).lists)
        with self.assertRaises(attn.AttnError):
            BatchPrefill(device, **SHAPE, planned=True, max_batch=3, max_tokens=40)


if __name__ == "__main__":
    unittest.main()
