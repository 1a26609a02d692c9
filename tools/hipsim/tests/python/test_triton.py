# SPDX-License-Identifier: Apache-2.0
"""Tests Triton kernels on torch's CPU tensors through `python -m hipsim`; `triton.sh` runs it for each target."""
import math
import subprocess
import sys
import unittest

import torch
import triton
import triton.language as tl

import hipsim

DEVICE = triton.runtime.driver.active.get_active_torch_device()


# Adds two vectors of n elements. Without MASK it also accesses up to BLOCK elements after their end.
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, MASK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < (n if MASK else n + BLOCK)
    tl.store(out + i, tl.load(x + i, mask=keep) + tl.load(y + i, mask=keep), mask=keep)


# All programs store to the same addresses, which is a race.
@triton.jit
def collide(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i + tl.program_id(0))


# Computes causal attention. A program has a block of queries of one head.
@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((32, 1), (64, 4))], key=["n"])
@triton.jit
def attend(q, k, v, out, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    head = tl.program_id(1).to(tl.int64) * n * D
    here = head + rows[:, None] * D + d[None, :]
    queries = tl.load(q + here, mask=rows[:, None] < n, other=0.0)
    m = tl.full([BLOCK], -1e30, tl.float32)
    l = tl.zeros([BLOCK], tl.float32)
    acc = tl.zeros([BLOCK, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        there = head + keys[:, None] * D + d[None, :]
        s = tl.dot(queries, tl.trans(tl.load(k + there, mask=keys[:, None] < n, other=0.0))) * scale
        s = tl.where(rows[:, None] >= keys[None, :], s, -1e30)
        grown = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - grown[:, None])
        alpha = tl.exp(m - grown)
        l = l * alpha + tl.sum(p, 1)
        values = tl.load(v + there, mask=keys[:, None] < n, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(values.dtype), values)
        m = grown
    tl.store(out + here, (acc / l[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < n)


def overrun():
    """Launches add() without its mask, so that it accesses memory after the tensors."""
    x, y, out = (torch.zeros(1000) for _ in range(3))
    add[(4,)](x, y, out, 1000, BLOCK=256, MASK=False)


class Kernels(unittest.TestCase):
    def test_capability_is_the_targets(self):
        target = triton.runtime.driver.active.get_current_target()
        self.assertEqual(torch.cuda.get_device_capability(), {"gfx942": (9, 4), "gfx950": (9, 5), "gfx1201": (12, 0)}[target.arch])

    def test_device_is_described(self):
        target = triton.runtime.driver.active.get_current_target()
        found = torch.cuda.get_device_properties(torch.device("cuda"))
        self.assertEqual((found.gcnArchName.split(":")[0], found.warp_size), (target.arch, target.warp_size))
        self.assertEqual((found.major, found.minor), torch.cuda.get_device_capability())
        self.assertTrue(0 < found.multi_processor_count <= 1024 and found.name == torch.cuda.get_device_name())
        free, total = torch.cuda.mem_get_info()
        self.assertTrue(0 < free <= total == found.total_memory)
        self.assertTrue(torch.version.hip and not torch.version.cuda)

    def test_contexts_streams_and_generators(self):
        x = torch.rand(1000, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3), pin_memory=True)
        self.assertTrue(torch.equal(x, torch.rand(1000, generator=torch.Generator().manual_seed(3)).pin_memory()))
        self.assertIsInstance(torch.default_generator, torch.Generator)
        out, side = torch.empty_like(x), torch.cuda.Stream()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.assertRaises(ValueError, start.elapsed_time, end)
        start.record()
        for context in torch.cuda.device(x.device), torch.cuda.device(None), torch.cuda.device_of(x), torch.cuda.stream(side), side:
            with context:
                add[(4,)](x, x, out.zero_(), 1000, BLOCK=256, MASK=True)
            self.assertTrue(torch.equal(out, 2 * x))
        torch.cuda.current_stream().wait_stream(side)
        end.record(torch.cuda.current_stream())
        end.synchronize()
        self.assertTrue(end.query() and start.elapsed_time(end) > 0)
        self.assertEqual(torch.cuda.current_stream().cuda_stream, 0)
        torch.cuda.manual_seed(5)
        state, first = torch.cuda.get_rng_state(), torch.rand(4, device="cuda")
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.equal(torch.rand(4, device="cuda"), first))

    def test_tensors_of_both_devices(self):
        for n in (1000, 1024):
            x, y = torch.rand(n, device="cuda"), torch.rand(n).cuda()
            self.assertTrue(x.is_cuda and y.is_cuda)
            out = torch.empty_like(x, device=DEVICE)
            add[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256, MASK=True)
            self.assertTrue(torch.equal(out, x + y))

    def test_views_share_their_memory(self):
        whole = torch.rand(3, 512)
        add[(2,)](whole[0], whole[1], whole[2], 512, BLOCK=256, MASK=True)
        self.assertTrue(torch.equal(whole[2], whole[0] + whole[1]))

    def test_access_past_the_end_is_an_error(self):
        done = subprocess.run([sys.executable, "-B", "-m", "hipsim", __file__, "overrun"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("invalid memory access: load of 4 bytes", done.stderr)
        self.assertRegex(done.stderr, r"source .*test_triton.py:\d+")

    def test_race_between_programs_is_counted(self):
        before = hipsim.findings()
        collide[(2,)](torch.zeros(64, dtype=torch.int32), BLOCK=64)
        self.assertGreater(hipsim.findings(), before)

    def test_attention_is_tuned_by_modelled_time(self):
        heads, n, d = 2, 100, 64
        q, k, v = (torch.randn(heads, n, d).half() for _ in range(3))
        out, scale = torch.empty_like(q), 1 / math.sqrt(d)
        attend[lambda meta: (triton.cdiv(n, meta["BLOCK"]), heads)](q, k, v, out, n, scale, D=d)
        s = (q.double() @ k.double().transpose(1, 2)) * scale
        s = s.masked_fill(torch.triu(torch.ones(n, n, dtype=torch.bool), 1), -math.inf)
        want = torch.softmax(s, -1) @ v.double()
        # P and the result are rounded to fp16. Each rounding is at most 2^-11 of max |v|.
        self.assertLess((out.double() - want).abs().max().item(), 2 * 2**-11 * v.double().abs().max().item())
        self.assertEqual(len(attend.configs_timings), 2)
        self.assertTrue(all(t[0] > 0.004 if isinstance(t, list) else t > 0.004
                            for t in attend.configs_timings.values()))

    def test_a_benchmark_is_one_modelled_run(self):
        x, y, out = (torch.zeros(4096) for _ in range(3))
        calls = []

        def call():
            calls.append(1)
            add[(16,)](x, y, out, 4096, BLOCK=256, MASK=True)

        triton.testing.do_bench(call)  # the first run fills the model's caches
        self.assertEqual(len(calls), 1)
        ms = triton.testing.do_bench(call)
        self.assertEqual(len(calls), 2)
        self.assertTrue(0.003 < ms < 0.1, ms)
        again = triton.testing.do_bench(call, quantiles=[0.5, 0.2, 0.8])
        self.assertEqual(again, [again[0]] * 3)
        self.assertAlmostEqual(again[0], ms, places=12)  # the result is a difference of two clocks, which rounds


if __name__ == "__main__":
    if sys.argv[1:] == ["overrun"]:
        overrun()
    unittest.main()
