# SPDX-License-Identifier: Apache-2.0
"""Tests arguments in host memory. The process registers memory once for all devices, and leaves memory alone that the
engine has registered."""
import ctypes
import gc
import threading
import unittest
import unittest.mock

import numpy as np

import attn
import attn.aiter as aiter
import support
from attn._hip import allocation

DIM = 64
KERNEL = {"op": "prefill", "head_dim": DIM}


def hip_of(device):
    """Returns the HIP library of a device, with the types of the arguments of functions for host memory."""
    hip = ctypes.CDLL(device.hip_library)
    for name in ("hipHostMalloc", "hipHostRegister"):
        getattr(hip, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
    hip.hipHostUnregister.argtypes = hip.hipHostFree.argtypes = [ctypes.c_void_p]
    return hip


def without_base(x):
    """Returns a view of x whose base is a buffer, so that numpy does not know the array that owns the memory."""
    return np.ndarray(x.shape, x.dtype, memory_of(x), strides=x.strides)


def memory_of(x):
    """Returns a buffer over the memory of x, from its first to its last byte."""
    low, high = np.byte_bounds(x) if hasattr(np, "byte_bounds") else np.lib.array_utils.byte_bounds(x)
    return (ctypes.c_char * (high - low)).from_address(low)


class HostMemory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(KERNEL)
        cls.hip = hip_of(cls.device)
        cls.cu = np.array([0, 4], np.int32)

    def op(self, device=None):
        return (device or self.device).prefill(dtype="fp16", head_dim=DIM, heads=1, kv_heads=1)

    def run_ones(self, q, k, v, device=None):
        """Checks that attention over values of 1 returns 1."""
        out = np.zeros((4, 1, DIM), np.float16)
        self.op(device)(q=q, k=k, v=v, out=out, cu_seqlens_q=self.cu, cu_seqlens_k=self.cu)
        np.testing.assert_array_equal(out, np.ones_like(out))

    def columns(self):
        """Returns rows of 1 with q, k and v side by side, and the three views, whose memory is interleaved."""
        row = np.ones((4, 1, 3 * DIM), np.float16)
        return row, [row[..., i * DIM:(i + 1) * DIM] for i in range(3)]

    def test_strided_views_of_one_array(self):
        row, _ = self.columns()
        self.run_ones(*(np.lib.stride_tricks.as_strided(row[..., i * DIM:], (4, 1, DIM), (row.strides[0], 2 * DIM, 2))
                        for i in range(3)))
        self.assertIs(allocation(np.lib.stride_tricks.as_strided(row, (2,), (2,)))[2], row)

    def test_overlapping_views_without_a_base(self):
        row, views = self.columns()
        parts = [without_base(x) for x in views]
        for _ in range(2):
            self.run_ones(*parts)
        held = [s for b, s in self.device.host.spans.items() if b <= parts[0].ctypes.data < b + s.size]
        self.assertEqual(len(held), 1)
        self.assertEqual(len(held[0].owners), 3)
        del parts[0]  # the other views still own the memory
        gc.collect()
        self.assertEqual(len(held[0].owners), 2)
        self.run_ones(without_base(views[0]), *parts)
        size = len(self.device.host.spans)
        del parts
        gc.collect()
        self.assertEqual(len(self.device.host.spans), size - 1)

    def test_garbage_goes_while_memory_is_registered(self):
        class Spans(dict):
            """Collects garbage in a loop over its pairs, as the loop's own allocations may."""

            def items(self):
                for pair in super().items():
                    gc.collect()
                    yield pair

        host, kept = self.device.host, [np.ones((4, 1, DIM), np.float16) for _ in range(3)]
        with unittest.mock.patch.object(host, "spans", Spans(host.spans)):
            gc.disable()
            try:
                for _ in range(8):  # arrays that only a collection of garbage frees
                    x = np.ones((4, 1, DIM), np.float16)
                    self.run_ones(x, x, x)
                    cycle = [x]
                    cycle.append(cycle)
                    del x, cycle
                self.run_ones(*kept)
            finally:
                gc.enable()
            host_spans = dict(host.spans)
        host.spans.clear()
        host.spans.update(host_spans)

    def test_pinned_memory_is_not_registered(self):
        p = ctypes.c_void_p()
        self.assertEqual(self.hip.hipHostMalloc(ctypes.byref(p), 512, 0), 0)
        q = np.frombuffer((ctypes.c_char * 512).from_address(p.value), np.float16).reshape(4, 1, DIM)
        q[:] = 1
        spans = set(self.device.host.spans)
        self.run_ones(q, q, q)
        self.assertFalse(any(b <= p.value < b + s.size for b, s in self.device.host.spans.items() if b not in spans))
        self.assertEqual(self.hip.hipHostFree(p), 0)

    def test_registered_memory_stays_the_engines(self):
        q = np.ones((4, 1, DIM), np.float16)
        self.assertEqual(self.hip.hipHostRegister(q.ctypes.data, q.nbytes, 0), 0)
        self.run_ones(q, q, q)
        self.assertEqual(self.hip.hipHostUnregister(q.ctypes.data), 0)
        self.run_ones(q, q, q)  # the engine's registration is gone, so this call registers the memory
        self.assertNotEqual(self.hip.hipHostRegister(q.ctypes.data, q.nbytes, 0), 0)

    def test_a_failed_question_is_not_left_as_an_error(self):
        self.hip.hipGetLastError()
        q = np.ones((4, 1, DIM), np.float16)
        self.run_ones(q, q, q)
        self.assertEqual(self.hip.hipGetLastError(), 0)

    def test_two_devices(self):
        q = np.ones((4, 1, DIM), np.float16)
        other = attn.Device(*self.device.packs, hip="sim")
        self.assertIs(other.host, self.device.host)
        for device in (self.device, other, self.device):
            self.run_ones(q, q, q, device)
        del other, device
        gc.collect()
        self.run_ones(q, q, q)

    def test_a_device_beside_aiter(self):
        q = np.ones((4, 1, DIM), np.float16)
        self.run_ones(q, q, q)
        aiter.use(*self.device.packs, hip="sim")
        out = aiter.flash_attn_varlen_func(q, q, q, self.cu, self.cu, 4, 4, causal=True)
        np.testing.assert_array_equal(out, np.ones_like(out))
        self.run_ones(q, q, q)

    def test_threads_with_views_of_one_array(self):
        row, views = self.columns()
        failed = []

        def work():
            try:
                for _ in range(4):
                    self.run_ones(*views)
            except BaseException as e:
                failed.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])


class Dtypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(KERNEL)

    def test_names_of_numpy(self):
        for name in (np.float16, np.dtype("float16"), "float16", "half", "fp16"):
            self.assertIn("fp16", self.device.prefill(dtype=name, head_dim=DIM, heads=1, kv_heads=1).kernel)

    def test_others_are_refused_by_name(self):
        for name, text in (("float32", "'float32'"), (np.float32, "'float32'"), (7, "7"), (int, "'int'")):
            with self.assertRaisesRegex(attn.AttnError, f"dtype is {text}: it is one of bf16, fp16"):
                self.device.prefill(dtype=name, head_dim=DIM, heads=1, kv_heads=1)

    def test_the_fp8_of_another_target(self):
        other = {"gfx942": "float8_e4m3fn", "gfx950": "float8_e4m3fnuz"}[self.device.target]
        with self.assertRaisesRegex(attn.AttnError, f"{other} is the fp8 of gfx9.., which {self.device.target} does not"):
            self.device.prefill(dtype="fp16", head_dim=DIM, heads=1, kv_heads=1, q_dtype=other)

    def test_descriptions(self):
        pack = attn.build({"targets": [self.device.target], "defaults": {"dtype": np.float16},
                           "kernels": [{"op": "prefill", "head_dim": DIM, "dtype": ["float16"]}]})
        self.assertEqual({k["key"]["dtype"] for k in pack.kernels()}, {"fp16"})

    def test_numbers_of_numpy(self):
        pack = attn.build({"targets": [self.device.target], "kernels": [
            {"op": "prefill", "head_dim": [np.int64(DIM)], "dtype": "fp16", "lse": np.bool_(True)}]})
        self.assertEqual({(k["key"]["head_dim"], k["key"]["lse"]) for k in pack.kernels()}, {(str(DIM), "true")})

    def test_a_bool_is_no_number(self):
        for value in (True, np.bool_(True)):
            with self.assertRaisesRegex(TypeError, "heads: a number is required, not True"):
                self.device.prefill(dtype="fp16", head_dim=DIM, heads=value, kv_heads=1)
            with self.assertRaisesRegex(attn.AttnError, "head_dim"):
                attn.build({"targets": [self.device.target], "kernels": [
                    {"op": "prefill", "head_dim": value, "dtype": "fp16"}]})
        self.device.prefill(dtype="fp16", head_dim=DIM, heads=np.int64(1), kv_heads=1, lse=False)

    def test_a_build_without_the_compiler(self):
        with unittest.mock.patch.dict("os.environ", {"ATTN_ATTNC": "/no/attnc"}):
            with self.assertRaisesRegex(attn.AttnError, "/no/attnc is no command here: install attnc"):
                attn.build({"kernels": [KERNEL]})


if __name__ == "__main__":
    unittest.main()
