# SPDX-License-Identifier: Apache-2.0
"""Tests calls with torch's CPU tensors on the simulated GPU, and torch operators with their meta kernels. Tests are
skipped without torch."""
import gc
import sys
import unittest
import warnings

import numpy as np

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

import attn
import support
from attn import torch_ops
from attn.attention import BatchDecode

BF16 = 2.0 ** -8  # relative error of one rounding to bf16
HEADS, KV_HEADS, DIM, PAGE = 4, 2, 64, 16


def random(shape, seed, dtype=torch.bfloat16):
    return torch.from_numpy(support.random(shape, seed, np.float32)).to(dtype)


def double(x):
    return x.to(torch.float64).numpy()


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = support.device(
            {"op": "prefill", "head_dim": DIM, "lse": True},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": 2},
            {"op": "decode", "head_dim": DIM, "page_size": PAGE, "gqa": 2, "kv_dtype": "fp8",
             "kv_scale": "tensor"},
            {"op": "combine", "head_dim": DIM, "partials": "csr"}, {"op": "plan"},
            {"op": "cache_write", "head_dim": DIM}, dtype="bf16")

    def prefill(self):
        return self.device.prefill(dtype="bf16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                                   lse=True)

    def decode(self, **cache):
        return self.device.decode(dtype="bf16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                                  cache=attn.CacheDesc(page_size=PAGE, **cache))

    def test_views_and_gone_tensors(self):
        op = self.prefill()
        for seed in range(3):
            qkv = random((20, HEADS + 2 * KV_HEADS, DIM), seed)
            q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS], 1)
            cu = torch.tensor([0, 8, 20], dtype=torch.int32)
            out, lse = torch.zeros(q.shape, dtype=q.dtype), torch.zeros(HEADS, 20)
            op(q=q, k=k, v=v, out=out, lse=lse, cu_seqlens_q=cu, cu_seqlens_k=cu)
            for rows in (slice(0, 8), slice(8, 20)):
                want, want_lse = support.attention(double(q[rows]), double(k[rows]), double(v[rows]))
                support.close(double(out[rows]), want, support.bound(double(v), BF16))
                support.close(lse[:, rows].numpy(), want_lse, 1e-3)
            del qkv, q, k, v
            gc.collect()

    def test_tensors_without_memory(self):
        q, k, cu = random((5, HEADS, DIM), 1), random((5, KV_HEADS, DIM), 2), torch.tensor([0, 5], dtype=torch.int32)
        call = dict(q=q, k=k, v=k, out=q.clone(), lse=torch.zeros(HEADS, 5), cu_seqlens_q=cu, cu_seqlens_k=cu)
        for name, x in (("q", q.to("meta")), ("lse", call["lse"].to_sparse())):
            with self.assertRaisesRegex(TypeError, f"{name}: a tensor of .* has no memory"):
                self.prefill()(**{**call, name: x})

    def test_operators(self):
        layer = torch_ops.register(self.prefill())
        q, k, v = (random((9, n, DIM), i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS)))
        cu = torch.tensor([0, 9], dtype=torch.int32)
        out, lse = torch.ops.attn.prefill_new(layer, q, k, v, cu, cu, 9, 9)
        want, want_lse = support.attention(double(q), double(k), double(v))
        support.close(double(out), want, support.bound(double(v), BF16))
        support.close(lse.numpy(), want_lse, 1e-3)
        again = torch.zeros_like(out)
        torch.ops.attn.prefill(layer, q=q, k=k, v=v, out=again, lse=lse, cu_seqlens_q=cu,
                               cu_seqlens_k=cu)
        self.assertTrue(torch.equal(again, out))
        with self.assertRaisesRegex(Exception, "77 is no prefill"):
            torch.ops.attn.prefill_new(77, q, k, v, cu, cu, 9, 9)
        torch_ops.forget(layer)

    def test_meta(self):
        layer = torch_ops.register(self.prefill())
        q, k = (torch.empty((9, n, DIM), dtype=torch.bfloat16, device="meta") for n in (4, 2))
        cu = torch.empty(2, dtype=torch.int32, device="meta")
        out, lse = torch.ops.attn.prefill_new(layer, q, k, k, cu, cu, 9, 9)
        self.assertEqual((out.shape, out.dtype, lse.shape, lse.dtype),
                         (q.shape, q.dtype, (HEADS, 9), torch.float32))
        self.assertIsNone(torch.ops.attn.prefill(layer, q=q, k=k, v=k, out=out, lse=lse,
                                                 cu_seqlens_q=cu, cu_seqlens_k=cu))

    def test_traced_with_fake_tensors(self):
        from torch.fx.experimental.proxy_tensor import make_fx
        layer = torch_ops.register(self.decode())

        def step(q, k_cache, v_cache, lens, table):
            return torch.ops.attn.decode_new(layer, q * 2, k_cache, v_cache, lens, table)[0] + 1

        given = (random((2, HEADS, DIM), 1), random((4, PAGE, KV_HEADS, DIM), 2),
                 random((4, PAGE, KV_HEADS, DIM), 3), torch.tensor([5, 20], dtype=torch.int32),
                 torch.tensor([[2, 0], [1, 3]], dtype=torch.int32))
        traced = make_fx(step, tracing_mode="fake")(*given)
        self.assertIn("attn.decode_new", traced.code)
        self.assertTrue(torch.equal(traced(*given), step(*given)))
        q, k, v, lens, table = given
        keys = double(k[table[1].long()]).reshape(-1, KV_HEADS, DIM)[:20]
        values = double(v[table[1].long()]).reshape(-1, KV_HEADS, DIM)[:20]
        want, _ = support.attention(double(q[1:] * 2), keys, values)
        support.close(double(traced(*given))[1:], want + 1,
                      support.bound(values, BF16) + 4 * BF16)

    def test_compiled(self):
        if not hasattr(torch, "compile"):
            self.skipTest(f"torch {torch.__version__} has no torch.compile")
        layer = torch_ops.register(self.prefill())
        q, k, v = (random((9, n, DIM), i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS)))
        cu = torch.tensor([0, 9], dtype=torch.int32)

        def layer_of(q, k, v):
            return torch.ops.attn.prefill_new(layer, q, k, v, cu, cu, 9, 9)[0]

        compiled = torch.compile(layer_of, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v), layer_of(q, k, v)))

    def test_exported(self):
        if not hasattr(torch, "export"):
            self.skipTest(f"torch {torch.__version__} has no torch.export")
        layer = torch_ops.register(self.prefill())

        class Layer(torch.nn.Module):
            def forward(self, q, k, v, cu):
                return torch.ops.attn.prefill_new(layer, q, k, v, cu, cu, 9, 9)[0] + 1

        given = [random((9, n, DIM), i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS))]
        given.append(torch.tensor([0, 9], dtype=torch.int32))
        exported = torch.export.export(Layer(), tuple(given))
        self.assertIn("attn.prefill_new", exported.graph_module.code)
        self.assertTrue(torch.equal(exported.module()(*given), Layer()(*given)))
        checks = torch.library.opcheck(torch.ops.attn.prefill_new.default,
                                       (layer, *given, given[3], 9, 9))
        self.assertEqual(set(checks.values()), {"SUCCESS"})

    def step(self):
        """Returns (step, given). step() writes a layer's cache and attends to it by torch's operators. given(batch)
        returns arguments of step()."""
        cache = attn.CacheDesc(page_size=PAGE)
        write = torch_ops.register(self.device.cache_write(
            dtype="bf16", head_dim=DIM, kv_heads=KV_HEADS, cache=cache))
        attend = torch_ops.register(self.decode())

        def step(q, k, v, k_cache, v_cache, slots, lens, table):
            torch.ops.attn.cache_write(write, k_in=k, v_in=v, slot_mapping=slots, k_cache=k_cache,
                                       v_cache=v_cache)
            out = torch.empty_like(q)
            torch.ops.attn.decode(attend, q=q * 2, out=out, k_cache=k_cache, v_cache=v_cache,
                                  block_table=table, kv_lens=lens)
            return out + 1

        def given(batch):
            table = torch.arange(2 * batch, dtype=torch.int32).reshape(batch, 2)
            lens = torch.tensor([5 + 7 * s % 20 for s in range(batch)], dtype=torch.int32)
            slots = table[:, 0].long() * PAGE + (lens.long() - 1) % PAGE
            return [*(random((batch, n, DIM), i) for i, n in enumerate((HEADS, KV_HEADS, KV_HEADS))),
                    *(random((2 * batch, PAGE, KV_HEADS, DIM), i) for i in (3, 4)), slots, lens, table]

        return step, given

    def same(self, one, other, batches, given):
        """Checks that two functions return the same tensor and write the same caches. given(batch) returns their
        arguments."""
        for batch in batches:
            a, b = given(batch), given(batch)
            self.assertTrue(torch.equal(one(*a), other(*b)))
            self.assertTrue(torch.equal(a[3], b[3]) and torch.equal(a[4], b[4]))
            self.assertFalse(torch.equal(a[3], given(batch)[3]))

    def test_a_compiled_step(self):
        if not hasattr(torch, "compile"):
            self.skipTest(f"torch {torch.__version__} has no torch.compile")
        step, given = self.step()
        for dynamic in (None, True):
            torch._dynamo.reset()
            compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            self.same(compiled, step, (2, 3), given)

    def test_an_exported_step(self):
        if not hasattr(torch, "export"):
            self.skipTest(f"torch {torch.__version__} has no torch.export")
        step, given = self.step()

        class Layer(torch.nn.Module):
            def forward(self, *tensors):
                return step(*tensors)

        b = torch.export.Dim("b", min=2, max=64)
        sizes = tuple({0: 2 * b if i in (3, 4) else b} for i in range(8))
        exported = torch.export.export(Layer(), tuple(given(2)), dynamic_shapes=(sizes,))
        self.same(exported.module(), step, (2, 5), given)

    def test_plan_and_run(self):
        decode = BatchDecode(self.device, dtype="bf16", head_dim=DIM, heads=HEADS, kv_heads=KV_HEADS,
                             cache=attn.CacheDesc(page_size=PAGE), max_batch=2, lists=8)
        cache = random((2, 16, PAGE, KV_HEADS, DIM), 1)
        table = torch.randperm(16).to(torch.int32).reshape(2, 8)
        decode.plan(torch.tensor([120, 7], dtype=torch.int32), block_table=table)
        q = random((2, HEADS, DIM), 2)
        out = decode.run(q, cache[0], cache[1])
        for s, n in enumerate((120, 7)):
            keys, values = (double(c[table[s].long()]).reshape(-1, KV_HEADS, DIM)[:n] for c in cache)
            want, _ = support.attention(double(q[s:s + 1]), keys, values)
            support.close(double(out[s:s + 1]), want, support.bound(values, BF16))
        again = torch.zeros_like(out)
        torch.ops.attn.run(torch_ops.register(decode), q, cache[0], cache[1], again)
        self.assertTrue(torch.equal(again, out))
        with self.assertRaisesRegex(Exception, "is no BatchDecode or BatchPrefill"):
            torch.ops.attn.run(torch_ops.register(self.prefill()), q, cache[0], cache[1], again)

    def test_written_caches(self):
        op = self.device.cache_write(dtype="bf16", head_dim=DIM, kv_heads=KV_HEADS,
                                     cache=attn.CacheDesc(page_size=PAGE))
        layer = torch_ops.register(op)
        k_cache, v_cache = (torch.zeros(4, PAGE, KV_HEADS, DIM, dtype=torch.bfloat16)
                            for _ in range(2))
        k, v = random((3, KV_HEADS, DIM), 1), random((3, KV_HEADS, DIM), 2)
        slots = torch.tensor([17, -1, 60])
        torch.ops.attn.cache_write(layer, k_in=k, v_in=v, slot_mapping=slots, k_cache=k_cache,
                                   v_cache=v_cache)
        for cache, rows in ((k_cache, k), (v_cache, v)):
            want = torch.zeros_like(cache)
            want.view(-1, KV_HEADS, DIM)[[17, 60]] = rows[[0, 2]]
            self.assertTrue(torch.equal(cache, want))
        text = str(torch.ops.attn.cache_write.default._schema)
        self.assertRegex(text, r"Tensor\(a\d!\)\? k_cache")
        self.assertNotRegex(text, r"Tensor\(a\d!\)\? k_in")


if __name__ == "__main__":
    unittest.main()
