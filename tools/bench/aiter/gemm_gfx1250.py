# SPDX-License-Identifier: Apache-2.0
"""Runs products of scaled formats of gfx1250, by clusters of workgroups. Arguments as in KernelArgs of
csrc/py_itfs_cu/asm_f4gemm.cu and asm_mxfp8fp4gemm.cu, layouts as in aiter/ops/shuffle.py.

The launches have one cluster: the kernels loop over the output tiles of their cluster."""
import csv
import os
import struct

import numpy as np

from formats import FP4, Kind, fp8_values, small_float

E4M3 = small_float(4, 3, 7)
OUT_BLOCK = 128  # columns per scale of an fp8 result
SPARE = 1 << 16  # bytes after each operand: two kernels load a step past the last k


def tiled(bits, rows, columns):
    """Returns a matrix as tiles of `rows` x `columns`. Tiles are in row-major order, and so are the elements of a
    tile."""
    m, n = bits.shape
    return bits.reshape(m // rows, rows, n // columns, columns).swapaxes(1, 2)


def put(device, tiles):
    """Copies an operand to the device, with SPARE zeros after it. Returns its address."""
    return device.put(np.concatenate([tiles.reshape(-1), np.zeros(SPARE, np.uint8)]))


def fp4_matrix(random, rows, k):
    """Returns the bytes of a random matrix of fp4, the first element in the low half, and its values."""
    codes = random.integers(0, 16, (rows, k)).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, FP4[codes]


def fp8_matrix(random, target, rows, k):
    """Returns the bytes of a random matrix of fp8, and its values."""
    bits, values = Kind("fp8", target).make(random.standard_normal((rows, k)))
    return bits, values


def scales(random, rows, k, block):
    """Returns codes [row, block] and their values along k: powers of two, or fp8 numbers for blocks of
    16."""
    if block == 16:
        codes = random.integers(0x28, 0x48, (rows, k // block)).astype(np.uint8)
        values = E4M3[codes]
    else:
        power = random.integers(-2, 3, (rows, k // block))
        codes, values = (power + 127).astype(np.uint8), 2.0**power
    return codes, np.repeat(values, block, axis=1)


def fp4_values(packed):
    """Returns the values of fp4 numbers that are packed two in a byte."""
    return FP4[np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1)]


def rounded_fp4(x):
    """Rounds to fp4, ties to the even code; larger values become 6."""
    between = (FP4[:7] + FP4[1:8]) / 2
    low, high = (np.searchsorted(between, np.abs(x), side) for side in ("left", "right"))
    return np.copysign(FP4[np.where(low % 2, high, low)], x)


def run_f4(device, path, row, m, n, k, seed):
    """Runs a case. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    block, out_type = (16 if row["intype"] == "nvfp4" else 32), row["outtype"]
    cluster = int(row["cluster_x"]), int(row["cluster_y"]), 1
    (a_bits, a), (b_bits, b) = (fp4_matrix(random, x, k) for x in (m, n))
    (a_codes, a_scale), (b_codes, b_scale) = (scales(random, x, k, block) for x in (m, n))
    if row["scale"] == "0":
        a_scale = b_scale = 1
    want = (a * a_scale) @ (b * b_scale).T
    at = [put(device, tiled(x, 16, 16)) for x in (a_bits, b_bits)]
    at += [put(device, tiled(x, 32, 128 // block)) for x in (a_codes, b_codes)]
    stride = {"bf16": 2 * n, "fp8": n, "fp4": n // 2}[out_type]
    out = device.room(m * stride, np.uint8, 0)
    args = struct.pack("<5Q8I", out, *at, stride, k // 2, k // 2, k // block, k // block, m, n, k)
    if block == 16:
        args += struct.pack("<2f", 0.5, 2.0)
    args += struct.pack("<2I", 0, 0)  # log2 of the grid in clusters
    out_scale = device.room(m * n // OUT_BLOCK, np.uint8, 0)
    if out_type == "fp8":
        args += struct.pack("<Q", out_scale)
    device.launch(path, cluster, 128, args, cluster)
    if out_type == "bf16":
        return [("out", Kind("bf16", device.target).read(device, out, (m, n)), want, 0.01)]
    bits = device.get(out, (m, stride), np.uint8)
    if out_type == "fp4":
        return [("out", fp4_values(bits), rounded_fp4(want), 0.0)]
    codes = device.get(out_scale, (m // 64, n // OUT_BLOCK, 16, 4), np.uint8)
    scale = 2.0**(codes.transpose(0, 3, 2, 1).reshape(m, -1).astype(int) - 127)
    got = fp8_values(device.target)[bits] * np.repeat(scale, OUT_BLOCK, axis=1)
    top = np.repeat(np.abs(want).reshape(m, -1, OUT_BLOCK).max(axis=2), OUT_BLOCK, axis=1)
    return [("out", got / top, want / top, 0.08)]


def run_f8(device, path, row, m, n, k, seed):
    """Runs a case of fp8 with fp8 or fp4. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    cluster = int(row["cluster_x"]), int(row["cluster_y"]), 1
    a_bits, a = fp8_matrix(random, device.target, m, k)
    b_bits, b = (fp4_matrix(random, n, k) if row["b_intype"] == "1"
                 else fp8_matrix(random, device.target, n, k))
    (a_codes, a_scale), (b_codes, b_scale) = (scales(random, x, k, 32) for x in (m, n))
    out = device.room(m * n, np.uint16, 0)
    device.launch(path, cluster, 128, struct.pack(
        "<5Q9I", out, put(device, tiled(a_bits, 2, 128)), put(device, tiled(b_bits, 16, 16)),
        put(device, tiled(a_codes, 32, 4)), put(device, tiled(b_codes, 32, 4)), 2 * n, k, b_bits.shape[1],
        k // 32, k // 32, m, n, k, 1), cluster)
    want = (a * a_scale) @ (b * b_scale).T
    return [("out", Kind("bf16", device.target).read(device, out, (m, n)), want, 0.01)]


def cases(hsa, target):
    for family, run in ("f4gemm", run_f4), ("mxfp8fp4gemm", run_f8):
        folder = os.path.join(hsa, target, family)
        with open(os.path.join(folder, family + ".csv")) as f:
            rows = list(csv.DictReader(f))
        for row in rows:
            m, n = (int(row["tile_" + x]) * int(row["cluster_" + y]) for x, y in ("my", "nx"))
            for k in (512, 768):
                path = os.path.join(folder, row["co_name"])
                yield "%s %dx%dx%d" % (row["co_name"], m, n, k), (
                    lambda d, run=run, path=path, row=row, m=m, n=n, k=k: run(d, path, row, m, n, k, 1))
