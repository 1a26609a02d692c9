# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels for gfx1250 or gfx1201 with Triton, without a GPU, and runs them on hipsim. It needs the
package `triton`, for example 3.9.0, but not PyTorch."""
import math
import os
import struct
import tempfile

import numpy as np

from formats import Kind, fp8_values

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
except ImportError:
    triton = None

# By Triton's name of a type: the code of struct.pack for an argument. After a call's arguments, Triton's kernels
# take two pointers to scratch memory.
PACKED = {"*": "Q", "i32": "i", "fp32": "f"}
NUMPY = {"fp32": np.float32, "fp16": np.float16, "i32": np.int32}
MATH = 1e-5  # bound of f32 functions and sums
# Bounds of attention's error, relative to the largest result. A weight P is rounded by at most 2^-11 of it (fp16) or
# 2^-9 (bf16). In these cases the weighted mean of |v| is at most six times the largest result.
P_ROUNDING = {"fp16": 0.003, "bf16": 0.012}

if triton:
    @triton.jit
    def add(x, y, o, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

    @triton.jit
    def normalize(x, o, n, B: tl.constexpr):
        row = tl.program_id(0) * n
        i = tl.arange(0, B)
        v = tl.load(x + row + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + row + i, e / tl.sum(e, 0), mask=i < n)

    @triton.jit
    def rms(x, w, o, n, B: tl.constexpr):
        row = tl.program_id(0) * n
        i = tl.arange(0, B)
        v = tl.load(x + row + i, mask=i < n, other=0.0).to(tl.float32)
        y = v * tl.rsqrt(tl.sum(v * v, 0) / n + 1e-5) * tl.load(w + i, mask=i < n, other=0.0)
        tl.store(o + row + i, y, mask=i < n)

    @triton.jit
    def layer_norm(x, w, b, o, n, B: tl.constexpr):
        row = tl.program_id(0) * n
        i = tl.arange(0, B)
        v = tl.load(x + row + i, mask=i < n, other=0.0).to(tl.float32)
        far = tl.where(i < n, v - tl.sum(v, 0) / n, 0.0)
        y = far * tl.rsqrt(tl.sum(far * far, 0) / n + 1e-5)
        tl.store(o + row + i, y * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)

    @triton.jit
    def rotate(x, o, n, B: tl.constexpr):
        i = tl.arange(0, B)
        row = tl.program_id(0) * n
        angle = tl.program_id(0) * tl.exp2(i * (-8.0 / B))
        a, b = tl.load(x + row + i), tl.load(x + row + B + i)
        tl.store(o + row + i, a * tl.cos(angle) - b * tl.sin(angle))
        tl.store(o + row + B + i, b * tl.cos(angle) + a * tl.sin(angle))

    @triton.jit
    def largest(x, o, n, B: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, B)
        tl.store(o + row, tl.argmax(tl.load(x + row * n + i, mask=i < n, other=-float("inf")), 0))

    @triton.jit
    def count(x, o, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(o + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)

    @triton.jit
    def running_sum(x, o, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(o + i, tl.cumsum(tl.load(x + i), 0))

    @triton.jit
    def in_order(x, o, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(o + i, tl.sort(tl.load(x + i)))

    @triton.jit
    def transpose(x, o, m, n, B: tl.constexpr):
        a = tl.program_id(0) * B + tl.arange(0, B)
        b = tl.program_id(1) * B + tl.arange(0, B)
        v = tl.load(x + a[:, None] * n + b[None, :])
        tl.store(o + b[:, None] * m + a[None, :], tl.trans(v))

    @triton.jit
    def quantize(x, o, s, n, B: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, B)
        v = tl.load(x + row * n + i)
        scale = tl.max(tl.abs(v), 0) / 448.0
        tl.store(s + row, scale)
        tl.store(o + row * n + i, (v / scale).to(tl.float8e4nv))

    @triton.jit
    def rows_of(x, index, o, n, B: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, B)
        tl.store(o + row * n + i, tl.load(x + tl.load(index + row) * n + i))

    @triton.jit
    def functions(x, o, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        v = tl.load(x + i)
        tl.store(o + i, tl.sigmoid(v) * tl.erf(v) + tl.log(tl.abs(v) + 1.0) + tl.sin(v) + tl.sqrt(tl.abs(v)))

    @triton.jit
    def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rm = tl.program_id(0) * BM + tl.arange(0, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        acc = tl.zeros([BM, BN], tl.float32)
        for at in range(0, k, BK):
            x = tl.load(a + rm[:, None] * k + (at + rk)[None, :], mask=rm[:, None] < m, other=0.0)
            y = tl.load(b + (at + rk)[:, None] * n + rn[None, :], mask=rn[None, :] < n, other=0.0)
            acc = tl.dot(x, y, acc)
        tl.store(c + rm[:, None] * n + rn[None, :], acc, mask=(rm[:, None] < m) & (rn[None, :] < n))

    @triton.jit
    def shared_product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
        rm = tl.program_id(0) * BM + tl.arange(0, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.program_id(2) * BK + tl.arange(0, BK)
        acc = tl.zeros([BM, BN], tl.float32)
        for at in range(0, k, BK * PARTS):
            x = tl.load(a + rm[:, None] * k + (at + rk)[None, :])
            acc = tl.dot(x, tl.load(b + (at + rk)[:, None] * n + rn[None, :]), acc)
        tl.atomic_add(c + rm[:, None] * n + rn[None, :], acc)

    @triton.jit
    def product_of_4_bits(a, b, s, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rm = tl.program_id(0) * BM + tl.arange(0, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        acc = tl.zeros([BM, BN], tl.float32)
        scale = tl.load(s + rn)
        for at in range(0, k, BK):
            x = tl.load(a + rm[:, None] * k + (at + rk)[None, :])
            y = tl.load(b + (at + rk)[:, None] // 2 * n + rn[None, :])
            y = ((y >> (rk[:, None] % 2 * 4)) & 15).to(tl.float32) - 8.0
            acc = tl.dot(x, (y * scale[None, :]).to(x.dtype), acc)
        tl.store(c + rm[:, None] * n + rn[None, :], acc)

    @triton.jit
    def integers(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rm = tl.program_id(0) * BM + tl.arange(0, BM)
        rn = tl.program_id(1) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        acc = tl.zeros([BM, BN], tl.int32)
        for at in range(0, k, BK):
            x = tl.load(a + rm[:, None] * k + (at + rk)[None, :])
            acc = tl.dot(x, tl.load(b + (at + rk)[:, None] * n + rn[None, :]), acc, out_dtype=tl.int32)
        tl.store(c + rm[:, None] * n + rn[None, :], acc)

    @triton.jit
    def attend_pages(q, k, v, table, o, length, scale, D: tl.constexpr, HEADS: tl.constexpr, PAGE: tl.constexpr):
        d = tl.arange(0, D)
        heads = tl.arange(0, HEADS)
        queries = tl.load(q + heads[:, None] * D + d[None, :])
        top = tl.full([HEADS], -1e30, tl.float32)
        total = tl.zeros([HEADS], tl.float32)
        acc = tl.zeros([HEADS, D], tl.float32)
        for start in range(0, length, PAGE):
            keys = tl.load(table + start // PAGE) * PAGE + tl.arange(0, PAGE)
            seen = start + tl.arange(0, PAGE) < length
            x = tl.load(k + keys[None, :] * D + d[:, None], mask=seen[None, :], other=0.0)
            s = tl.where(seen[None, :], tl.dot(queries, x) * scale, -1e30)
            grown = tl.maximum(top, tl.max(s, 1))
            p = tl.exp(s - grown[:, None])
            shrink = tl.exp(top - grown)
            total = total * shrink + tl.sum(p, 1)
            values = tl.load(v + keys[:, None] * D + d[None, :], mask=seen[:, None], other=0.0)
            acc = acc * shrink[:, None] + tl.dot(p.to(values.dtype), values)
            top = grown
        tl.store(o + heads[:, None] * D + d[None, :], acc / total[:, None])

    @triton.jit
    def attend(q, k, v, o, n, scale, D: tl.constexpr, B: tl.constexpr):
        rows = tl.program_id(0) * B + tl.arange(0, B)
        d = tl.arange(0, D)
        head = tl.program_id(1) * n * D
        here = head + rows[:, None] * D + d[None, :]
        queries = tl.load(q + here, mask=rows[:, None] < n, other=0.0)
        top = tl.full([B], -1e30, tl.float32)
        total = tl.zeros([B], tl.float32)
        acc = tl.zeros([B, D], tl.float32)
        for start in range(0, (tl.program_id(0) + 1) * B, B):
            keys = start + tl.arange(0, B)
            there = head + keys[:, None] * D + d[None, :]
            s = tl.dot(queries, tl.trans(tl.load(k + there, mask=keys[:, None] < n, other=0.0))) * scale
            s = tl.where(rows[:, None] >= keys[None, :], s, -1e30)
            grown = tl.maximum(top, tl.max(s, 1))
            p = tl.exp(s - grown[:, None])
            shrink = tl.exp(top - grown)
            total = total * shrink + tl.sum(p, 1)
            values = tl.load(v + there, mask=keys[:, None] < n, other=0.0)
            acc = acc * shrink[:, None] + tl.dot(p.to(values.dtype), values)
            top = grown
        tl.store(o + here, acc / total[:, None], mask=rows[:, None] < n)


def launch(device, kernel, types, constants, values, grid, waves=4, stages=2):
    """Compiles a kernel for arguments of these types and constants by name, and launches it."""
    names = kernel.arg_names
    signature = dict(zip(names, types), **dict.fromkeys(constants, "constexpr"))
    source = triton.compiler.ASTSource(kernel, signature, {(names.index(n),): v for n, v in constants.items()})
    code = triton.compile(source, target=GPUTarget("hip", device.target, 32),
                          options={"num_warps": waves, "num_stages": stages})
    args = b""
    for kind, value in zip([*types, "*", "*"], [*values, 0, 0]):
        form = PACKED.get(kind) or PACKED[kind[0]]
        size = struct.calcsize(form)
        args += bytes(-len(args) % size) + struct.pack(form, value)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.co")
        with open(path, "wb") as f:
            f.write(code.asm["hsaco"])
        device.launch(path, (*grid, 1, 1)[:3], 32 * waves, args, lds=code.metadata.shared)


def each(device, random, name):
    """Runs one of the short kernels above by name. Returns (result, reference, bound)."""
    x = random.standard_normal((4, 1024)).astype(np.float32)
    y, out = x[::-1].copy(), device.room(4096, np.float32)
    wide, at = x.astype(float), device.put(x)
    if name == "add":
        launch(device, add, ["*fp32"] * 3 + ["i32"], {"B": 256}, [at, device.put(y), out, 4000], (16,))
        return device.get(out, 4000, np.float32), (wide + y).reshape(-1)[:4000], 1e-6
    if name == "normalize":
        launch(device, normalize, ["*fp32"] * 2 + ["i32"], {"B": 1024}, [at, out, 1000], (4,))
        e = np.exp(wide.reshape(-1)[:4000].reshape(4, 1000))
        return device.get(out, (4, 1000), np.float32), e / e.sum(axis=1, keepdims=True), MATH
    if name == "rms":
        bits, v = Kind("bf16", device.target).make(x)
        launch(device, rms, ["*bf16", "*fp32", "*fp32", "i32"], {"B": 1024}, [device.put(bits), at, out, 1024],
               (4,))
        want = v / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-5) * wide[0]
        return device.get(out, (4, 1024), np.float32), want, MATH
    if name == "layer_norm":
        launch(device, layer_norm, ["*fp32"] * 4 + ["i32"], {"B": 1024},
               [at, device.put(y[0]), device.put(y[1]), out, 1000], (4,))
        v = wide.reshape(-1)[:4000].reshape(4, 1000)
        v = v - v.mean(axis=1, keepdims=True)
        want = v / np.sqrt((v * v).mean(axis=1, keepdims=True) + 1e-5) * y[0, :1000] + y[1, :1000]
        return device.get(out, (4, 1000), np.float32), want, MATH
    if name == "rotate":
        launch(device, rotate, ["*fp32"] * 2 + ["i32"], {"B": 512}, [at, out, 1024], (4,))
        angle = np.arange(4)[:, None] * np.exp2(np.arange(512) * (-8 / 512))
        a, b = wide[:, :512], wide[:, 512:]
        want = np.hstack([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)])
        return device.get(out, (4, 1024), np.float32), want, MATH
    if name == "largest":
        launch(device, largest, ["*fp32", "*i32", "i32"], {"B": 1024}, [at, out, 1000], (4,))
        return device.get(out, 4, np.int32), x.reshape(-1)[:4000].reshape(4, 1000).argmax(axis=1), 0
    if name == "count":
        numbers, sums = random.integers(0, 50, 1000).astype(np.int32), device.put(np.zeros(50, np.int32))
        launch(device, count, ["*i32", "*i32", "i32"], {"B": 256}, [device.put(numbers), sums, 1000], (4,))
        return device.get(sums, 50, np.int32), np.bincount(numbers, minlength=50), 0
    if name == "running_sum":
        launch(device, running_sum, ["*fp32"] * 2, {"B": 512}, [at, out], (1,))
        return device.get(out, 512, np.float32), np.cumsum(wide[0, :512]), MATH
    if name == "in_order":
        launch(device, in_order, ["*fp32"] * 2, {"B": 256}, [at, out], (1,))
        return device.get(out, 256, np.float32), np.sort(x[0, :256]), 0
    if name == "transpose":
        launch(device, transpose, ["*fp32"] * 2 + ["i32"] * 2, {"B": 64}, [at, out, 64, 64], (1, 1))
        return device.get(out, (64, 64), np.float32), x.reshape(-1)[:4096].reshape(64, 64).T, 0
    if name == "quantize":
        bits, scale = device.room(4096, np.uint8), device.room(4, np.float32)
        launch(device, quantize, ["*fp32", "*fp8e4nv", "*fp32", "i32"], {"B": 1024}, [at, bits, scale, 1024], (4,))
        got = fp8_values(device.target)[device.get(bits, (4, 1024), np.uint8)]
        return got * device.get(scale, (4, 1), np.float32), wide, 0.04
    if name == "rows_of":
        index = random.integers(0, 4, 3).astype(np.int32)
        launch(device, rows_of, ["*fp32", "*i32", "*fp32", "i32"], {"B": 1024}, [at, device.put(index), out, 1024],
               (3,))
        return device.get(out, (3, 1024), np.float32), x[index], 0
    launch(device, functions, ["*fp32"] * 2, {"B": 256}, [at, out], (16,))
    want = np.vectorize(math.erf)(wide) / (1 + np.exp(-wide)) + np.log(np.abs(wide) + 1) + np.sin(wide) + \
        np.sqrt(np.abs(wide))
    return device.get(out, (4, 1024), np.float32), want, MATH


def run_product(device, kind, m, n, k, tile, waves):
    """Runs a product of elements of a type by Triton's name, with tiles of (m, n, k)."""
    random = np.random.default_rng(1)
    names = {"bf16": "bf16", "fp16": "fp16", "fp8e4nv": "fp8"}
    (a_bits, a), (b_bits, b) = (
        Kind(names[kind], device.target).make(random.standard_normal(x)) if kind in names
        else (lambda v: (v, v.astype(float)))(random.standard_normal(x).astype(np.float32))
        for x in ((m, k), (k, n)))
    out = device.room(m * n, np.float32)
    launch(device, product, ["*" + kind] * 2 + ["*fp32"] + ["i32"] * 3, dict(zip(("BM", "BN", "BK"), tile)),
           [device.put(a_bits), device.put(b_bits), out, m, n, k], (-(-m // tile[0]), -(-n // tile[1])), waves,
           # With two stages Triton drops masked stores of f32 by an LDS offset of 0x7fffffff, which hipsim reports.
           1 if kind == "fp32" else 2)
    return [("out", device.get(out, (m, n), np.float32), a @ b, MATH)]


def run_shared_product(device, kind, m, n, k, tile, parts):
    """Runs a product whose k is divided between workgroups, which add their sums by atomics."""
    random = np.random.default_rng(2)
    (a_bits, a), (b_bits, b) = (Kind(kind, device.target).make(random.standard_normal(x)) for x in ((m, k), (k, n)))
    out = device.put(np.zeros((m, n), np.float32))
    launch(device, shared_product, ["*" + kind] * 2 + ["*fp32"] + ["i32"] * 3,
           dict(zip(("BM", "BN", "BK", "PARTS"), (*tile, parts))), [device.put(a_bits), device.put(b_bits), out, m, n, k],
           (m // tile[0], n // tile[1], parts))
    return [("out", device.get(out, (m, n), np.float32), a @ b, MATH)]


def run_product_of_4_bits(device, m, n, k, tile):
    """Runs a product with weights of 4 bits, two in a byte, with a scale for each column."""
    random = np.random.default_rng(3)
    a = random.standard_normal((m, k)).astype(np.float16)
    codes = random.integers(0, 16, (k, n)).astype(np.uint8)
    scale = (2.0 ** random.integers(-3, 3, n)).astype(np.float32)  # scaled weights are exact in fp16
    out = device.room(m * n, np.float32)
    launch(device, product_of_4_bits, ["*fp16", "*u8", "*fp32", "*fp32", "i32", "i32"], dict(zip(("BM", "BN", "BK"), tile)),
           [device.put(a), device.put(codes[::2] | codes[1::2] << 4), device.put(scale), out, n, k],
           (m // tile[0], n // tile[1]))
    return [("out", device.get(out, (m, n), np.float32), a.astype(float) @ ((codes - 8.0) * scale), MATH)]


def run_integers(device, m, n, k, tile):
    """Runs a product of signed bytes; the sums are exact."""
    random = np.random.default_rng(4)
    a, b = (random.integers(-128, 128, x).astype(np.int8) for x in ((m, k), (k, n)))
    out = device.room(m * n, np.int32)
    launch(device, integers, ["*i8"] * 2 + ["*i32", "i32", "i32"], dict(zip(("BM", "BN", "BK"), tile)),
           [device.put(a), device.put(b), out, n, k], (m // tile[0], n // tile[1]))
    return [("out", device.get(out, (m, n), np.int32), a.astype(int) @ b.astype(int), 0)]


def run_attention(device, kind, dim, block, n, waves):
    """Runs causal attention of two heads with n queries, in tiles of `block`."""
    random = np.random.default_rng(1)
    (q_bits, q), (k_bits, k), (v_bits, v) = (Kind(kind, device.target).make(random.standard_normal((2, n, dim)))
                                             for _ in "qkv")
    out = device.room(2 * n * dim, np.float32)
    launch(device, attend, ["*" + kind] * 3 + ["*fp32", "i32", "fp32"], {"D": dim, "B": block},
           [device.put(q_bits), device.put(k_bits), device.put(v_bits), out, n, dim**-0.5], (-(-n // block), 2), waves)
    e = np.exp(np.where(np.tri(n, dtype=bool), q @ k.transpose(0, 2, 1) * dim**-0.5, -np.inf))
    want = e / e.sum(axis=2, keepdims=True) @ v
    return [("out", device.get(out, (2, n, dim), np.float32), want, P_ROUNDING[kind])]


def run_pages(device, dim, heads, page, length, waves):
    """Runs attention of a token's heads over keys in pages of shuffled order."""
    random = np.random.default_rng(5)
    pages = -(-length // page)
    q = random.standard_normal((heads, dim)).astype(np.float16)
    k, v = (random.standard_normal((pages * page, dim)).astype(np.float16) for _ in "kv")
    table = random.permutation(pages).astype(np.int32)
    out = device.room(heads * dim, np.float32)
    launch(device, attend_pages, ["*fp16"] * 3 + ["*i32", "*fp32", "i32", "fp32"], {"D": dim, "HEADS": heads, "PAGE": page},
           [device.put(q), device.put(k), device.put(v), device.put(table), out, length, dim**-0.5], (1,), waves)
    at = (table[:, None] * page + np.arange(page)).reshape(-1)[:length]
    e = np.exp(q.astype(float) @ k[at].astype(float).T * dim**-0.5)
    want = e / e.sum(axis=1, keepdims=True) @ v[at].astype(float)
    return [("out", device.get(out, (heads, dim), np.float32), want, P_ROUNDING["fp16"])]


def run_each(device, name):
    got, want, bound = each(device, np.random.default_rng(1), name)
    return [("out", got, want, bound)]


def cases(hsa, target):
    if not triton:
        yield "triton", "Triton is not installed"
        return
    for name in ("add", "normalize", "rms", "layer_norm", "rotate", "largest", "count", "running_sum", "in_order",
                 "transpose", "quantize", "rows_of", "functions"):
        yield name, (lambda d, name=name: run_each(d, name))
    for shape in (("fp16", 128, 128, 128, (64, 64, 32), 4), ("bf16", 100, 130, 192, (64, 64, 64), 4),
                  ("fp8e4nv", 128, 128, 256, (64, 64, 128), 4), ("fp32", 64, 64, 64, (32, 32, 32), 4),
                  ("fp16", 256, 256, 128, (128, 128, 64), 8), ("bf16", 32, 32, 64, (32, 32, 32), 1)):
        yield "product %s %dx%dx%d, tiles %s, %d waves" % shape, (lambda d, s=shape: run_product(d, *s))
    yield "product fp16 64x64x256, tiles (32, 32, 32), 4 parts", \
        lambda d: run_shared_product(d, "fp16", 64, 64, 256, (32, 32, 32), 4)
    yield "product of 4 bits 64x128x128, tiles (32, 64, 64)", \
        lambda d: run_product_of_4_bits(d, 64, 128, 128, (32, 64, 64))
    yield "product i8 64x64x128, tiles (64, 64, 64)", lambda d: run_integers(d, 64, 64, 128, (64, 64, 64))
    for shape in (("fp16", 64, 64, 200, 4), ("fp16", 128, 64, 130, 4), ("fp16", 64, 128, 256, 8), ("fp16", 64, 32, 100, 1),
                  ("bf16", 64, 64, 130, 4), ("bf16", 256, 32, 70, 4)):
        yield "attend %s dim %d, tiles %d, %d queries, %d waves" % shape, (lambda d, s=shape: run_attention(d, *s))
    yield "attend_pages dim 128, 16 heads, pages of 32, 300 keys", lambda d: run_pages(d, 128, 16, 32, 300, 4)
