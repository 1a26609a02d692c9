# SPDX-License-Identifier: Apache-2.0
"""Tests repeated calls of an op with tensors in a GPU's memory. The first calls make a function for their form of
arguments. Later calls use it only if nothing of the form differs."""
import sys
import unittest

import numpy as np

import attn
import support
from attn._tensors import READ, read_torch
from attn.attention import BatchDecode

PAGE, HEADS, KV_HEADS, DIM, KEYS = 16, 8, 2, 128, (40, 7)


class OnGpu:
    """A stand-in for a torch tensor on a GPU, with the members that attn reads. Its elements begin at element `at` of
    the array `room`. None: `room` is `values`."""

    def __init__(self, device, values, room=None, at=0):
        values = np.asarray(values)
        room = values if room is None else room
        self.memory = device.array(room)
        self.dtype, self.shape, self.at = sys.intern(values.dtype.name), values.shape, at * values.itemsize
        self.strides, self.gpu = tuple(s // values.itemsize for s in values.strides), 0

    is_cuda = True

    def data_ptr(self):
        return self.memory.pointer + self.at

    def stride(self):
        return self.strides

    def is_contiguous(self):
        return self.strides == tuple(np.cumprod((1, *self.shape[:0:-1]))[::-1])

    def get_device(self):
        return self.gpu

    def numpy(self):
        whole = self.memory.numpy().ravel()[self.at // np.dtype(self.dtype).itemsize:]
        return np.lib.stride_tricks.as_strided(
            whole, self.shape, [s * whole.itemsize for s in self.strides])


def wide(device, values):
    """Returns a tensor of the same values with a gap after each row that is as long as the row."""
    room = np.zeros((values.shape[0], 2, *values.shape[1:]), values.dtype)
    room[:, 0] = values
    return OnGpu(device, room[:, 0], room)


class Again(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        READ[OnGpu] = read_torch
        cls.device = support.device(
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": HEADS // KV_HEADS},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": HEADS // KV_HEADS, "sinks": True})

    @classmethod
    def tearDownClass(cls):
        del READ[OnGpu]

    def setUp(self):
        self.op = self.device.decode(dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                                     cache=attn.CacheDesc(page_size=PAGE))
        self.q = support.random((2, HEADS, DIM), 1)
        self.k, self.v = (support.random((5, PAGE, KV_HEADS, DIM), seed) for seed in (2, 3))
        self.table = np.array([[3, 0, 4], [1, 0, 0]], np.int32)
        self.call = {"q": self.gpu(self.q), "out": self.gpu(np.zeros_like(self.q)),
                     "k_cache": self.gpu(self.k), "v_cache": self.gpu(self.v),
                     "block_table": self.gpu(self.table), "kv_lens": self.gpu(np.array(KEYS, np.int32))}
        for _ in range(3):
            self.op(**self.call)
        self.assertEqual(len(self.op._calls), 1)
        self.known = next(iter(self.op._calls.values()))

    def gpu(self, values, **more):
        return OnGpu(self.device, values, **more)

    def taken(self):
        """True if the function that the first calls made is still in use."""
        return self.known in self.op._calls.values()

    def check(self, q=None, k=None, v=None, lens=KEYS, out=None, table=None, **more):
        """Compares the output with attention in doubles. None: the arguments of the first calls."""
        self.device.synchronize()
        q, k, v = (own if x is None else x for own, x in ((self.q, q), (self.k, k), (self.v, v)))
        table = self.table if table is None else table
        got = (out or self.call["out"]).numpy()
        for s, n in enumerate(lens):
            keys, values = (x[table[s]].reshape(-1, KV_HEADS, DIM)[:n] for x in (k, v))
            want, _ = support.attention(q[s:s + 1], keys, values, **more)
            support.close(got[s:s + 1], want, support.bound(values), f"sequence {s}")

    def again(self, **changed):
        """Sets the output of the first calls to zero, and repeats the call with the arguments `changed`."""
        zeros = np.zeros_like(self.q)
        self.device.hip.call("hipMemcpy", self.call["out"].data_ptr(), zeros.ctypes.data, zeros.nbytes, 1)
        self.op(**{**self.call, **changed})

    def test_other_queries_and_outputs(self):
        for seed in range(3):
            q, out = support.random(self.q.shape, 10 + seed), self.gpu(np.zeros_like(self.q))
            self.op(**{**self.call, "q": self.gpu(q), "out": out})
            self.check(q=q, out=out)
        self.assertTrue(self.taken())

    def test_another_layers_cache(self):
        for seed in range(2):
            k, v = (support.random(self.k.shape, 20 + seed + n) for n in (0, 5))
            self.again(k_cache=self.gpu(k), v_cache=self.gpu(v))
            self.check(k=k, v=v)
        self.again()
        self.check()
        self.assertTrue(self.taken())

    def test_another_layers_cache_without_addresses(self):
        arrays = {name: x.memory for name, x in self.call.items()}
        k = support.random(self.k.shape, 25)
        for cache in (self.k, self.k, self.k, k, self.k):
            held = arrays["k_cache"] if cache is self.k else self.device.array(cache)
            self.again(**{**arrays, "k_cache": held})
            self.check(k=cache)

    def test_a_tensor_with_other_memory(self):
        k = support.random(self.k.shape, 30)
        self.call["k_cache"].memory = self.device.array(k)
        self.again()
        self.check(k=k)
        self.assertTrue(self.taken())

    def test_another_shape(self):
        with self.assertRaisesRegex(attn.AttnError, "out: dimension 0 is 2, 1 is needed"):
            self.again(q=self.gpu(self.q[:1]))
        self.again()
        self.again(q=self.gpu(self.q[:1]), out=self.gpu(self.q[:1]), block_table=self.gpu(self.table[:1]),
                   kv_lens=self.gpu(np.array(KEYS[:1], np.int32)))
        self.assertFalse(self.taken())
        table = np.array([[3, 0, 4, 2], [1, 0, 0, 2]], np.int32)
        self.again(block_table=self.gpu(table))
        self.check(table=table)

    def test_other_strides(self):
        for _ in range(3):
            self.again(q=wide(self.device, self.q))
            self.check()
        strided = next(iter(self.op._calls.values()))
        room = np.zeros((2, 3, HEADS, DIM), np.float16)
        room[:, 1] = self.q
        self.again(q=OnGpu(self.device, room[:, 1], room, HEADS * DIM))
        self.check()
        self.assertNotIn(strided, self.op._calls.values())
        self.again()
        self.check()

    def test_another_type(self):
        self.call["q"].dtype = "bfloat16"
        with self.assertRaisesRegex(attn.AttnError, "^q") as caught:
            self.again()
        self.call["q"].dtype = "float16"
        self.assertEqual(caught.exception.status, "ATTN_BAD_ARGUMENT")
        with self.assertRaisesRegex(attn.AttnError, "block_table"):
            self.again(block_table=self.gpu(self.table.astype(np.int64)))
        with self.assertRaisesRegex(TypeError, "list is no tensor"):
            self.again(q=[1, 2])
        self.again()
        self.check()

    def test_another_gpu(self):
        self.call["q"].gpu = 1
        with self.assertRaisesRegex(attn.AttnError, "q is on"):
            self.again()
        self.call["q"].gpu = 0
        self.again()
        self.check()

    def test_another_library(self):
        self.again(q=self.q)  # an array of numpy, in host memory
        self.check()
        out = np.zeros_like(self.q)
        self.op(**{**self.call, "q": self.device.array(self.q), "out": out})
        support.close(out, self.call["out"].numpy(), 0)

    def test_numbers(self):
        for scale in (0.5, 0.5, 0.5, 0.25):
            self.again(scale=scale)
            self.check(scale=scale)
        self.again()
        self.check()

    def test_more_and_fewer_tensors(self):
        for _ in range(3):
            self.again(qo_indptr=None)
            self.check()
        self.again(qo_indptr=self.gpu(np.array([0, 1, 1], np.int32)))
        self.assertFalse(self.call["out"].numpy()[1].any())
        with self.assertRaisesRegex(attn.AttnError, "out is NULL"):
            self.again(out=None)
        with self.assertRaisesRegex(TypeError, "decode has no argument slopes"):
            self.again(slopes=None)
        self.again()
        self.check()

    def test_streams(self):
        streams = [self.device.stream(), self.device.stream()]
        for stream in (*streams, *streams):
            with self.device.graph(stream) as graph:
                self.again(stream=stream)
            self.assertFalse(self.call["out"].numpy().any())
            graph.replay()
            self.check()
        for stream in (streams[0].handle, None):
            self.again(stream=stream)
            self.check()
        self.assertTrue(self.taken())

    def test_a_launch_that_fails(self):
        odd = self.gpu(self.q)
        odd.at = 2
        with self.assertRaisesRegex(attn.AttnError, "q is not aligned"):
            self.again(q=odd)
        self.again()
        self.check()
        self.assertTrue(self.taken())

    def test_a_planned_layer(self):
        run = BatchDecode(self.device, dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                          cache=attn.CacheDesc(page_size=PAGE), max_batch=2, split=False)
        run.plan(self.call["kv_lens"], block_table=self.call["block_table"])
        caches = self.call["k_cache"], self.call["v_cache"]
        for seed, make in enumerate((self.gpu, self.gpu, lambda x: wide(self.device, x), self.gpu)):
            q, out = support.random(self.q.shape, 40 + seed), self.gpu(np.zeros_like(self.q))
            run.run(make(q), *caches, out=out)
            self.check(q=q, out=out)
        odd = self.gpu(self.q)
        odd.at = 2
        with self.assertRaisesRegex(attn.AttnError, "q is not aligned"):
            run.run(odd, *caches, out=out)

    def test_a_planned_layer_in_host_memory(self):
        run = BatchDecode(self.device, dtype="fp16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                          cache=attn.CacheDesc(page_size=PAGE), max_batch=2, split=False)
        run.plan(self.call["kv_lens"], block_table=self.call["block_table"])
        call, waits = self.device.hip.call, []
        self.device.hip.call = lambda name, *args: (waits.append(name), call(name, *args))
        self.addCleanup(delattr, self.device.hip, "call")
        out = np.zeros_like(self.q)
        for n in range(3):
            run.run(self.q, self.call["k_cache"], self.call["v_cache"], out=out)
            self.assertEqual(waits.count("hipStreamSynchronize"), n + 1)

    def test_a_bound_call(self):
        bound, stream = self.op.bind(**self.call), self.device.stream()
        for seed in range(3):
            q, out = support.random(self.q.shape, 50 + seed), self.gpu(np.zeros_like(self.q))
            with self.device.graph() as graph:
                on_gpu = self.gpu(q)
                bound(stream=graph.stream, q=on_gpu, out=out)
            bound(stream=stream, out=out)
            bound(out=out)
            stream.synchronize()
            self.check(q=q, out=out)
            graph.replay()
            self.check(q=q, out=out)
        with self.assertRaisesRegex(attn.AttnError, "out has another dtype, shape, stride"):
            bound(q=self.gpu(q), out=wide(self.device, q))
        with self.assertRaisesRegex(TypeError, "k_cache is bound, or no tensor of decode"):
            bound(k_cache=self.call["k_cache"])

    def test_a_bound_call_keeps_what_it_was_given_last(self):
        bound, q = self.op.bind(**{**self.call, "q": self.q}), support.random(self.q.shape, 70)
        bound(q=np.array(q), out=self.call["out"])  # the copy has no other owner than the bound call
        bound()
        self.check(q=q, out=self.call["out"])

    def test_a_bound_call_launches_where_it_is_told(self):
        bound, out = self.op.bind(**self.call), self.call["out"]
        bound(q=self.call["q"], stream=0)
        with self.device.graph() as graph:
            bound(out=out, stream=graph.stream)
            zeros = np.zeros_like(self.q)
            self.device.hip.call("hipMemcpy", out.data_ptr(), zeros.ctypes.data, zeros.nbytes, 1)
            bound(q=self.call["q"], stream=0)
        self.check()

    def test_forms_are_not_kept_without_end(self):
        names = list(self.call)
        for n in range(100):
            order = np.random.default_rng(n).permutation(names)
            for _ in range(2):
                self.op(**{name: self.call[name] for name in order})
        self.assertLessEqual(len(self.op._calls), 64)


class GpuArrays(unittest.TestCase):
    def test_arrays_of_another_library(self):
        device = support.device({"op": "combine", "partials": "pair", "head_dim": 64})
        op = device.combine(dtype="fp16", head_dim=64, heads=2, partials="pair")
        a, b = support.random((3, 2, 64), 1), support.random((3, 2, 64), 2)
        la, lb = support.random((2, 3), 3, np.float32), support.random((2, 3), 4, np.float32)
        weight = (1 / (1 + np.exp(lb - la))).T[..., None]
        call = {"suffix": device.array(b), "prefix_lse": device.array(la), "suffix_lse": device.array(lb)}
        for sign in (1, 1, 1, -1, 2):
            out = device.array(np.zeros_like(a))
            op(prefix=device.array(sign * a), out=out, **call)
            device.synchronize()
            support.close(out.numpy(), weight * a * sign + (1 - weight) * b, 4 * support.HALF * 8, "combine")
        self.assertEqual(len(op._calls), 1)
        with self.assertRaisesRegex(attn.AttnError, "prefix"):
            op(prefix=device.array(a[:2]), out=out, **call)


if __name__ == "__main__":
    unittest.main()
