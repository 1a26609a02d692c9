# SPDX-License-Identifier: Apache-2.0
"""Runs matrix products. Arguments as in KernelArgs of csrc/py_itfs_cu/asm_gemm_a16w16.cu and
asm_gemm_a8w8.cu."""
import csv
import os

import numpy as np

from device import slots
from formats import Kind

K = 512


def shuffled(bits):
    """Returns a matrix [N, K] in the layout of AITER's shuffle_weight(): blocks of 16 rows and 32 columns. A
    block has pieces of 16 bytes; pieces of consecutive rows are adjacent."""
    size = 16 // bits.itemsize
    n, k = bits.shape
    return bits.reshape(n // 16, 16, k // 32, 32 // size, size).transpose(0, 2, 3, 1, 4)


def run_bf16(device, path, row, m, n, split, seed):
    random = np.random.default_rng(seed)
    kind = Kind("bf16", device.target)
    (a_bits, a), (b_bits, b) = (kind.make(random.standard_normal(x)) for x in ((m, K), (n, K)))
    with_bias = int(row["bias"])
    bias_bits, bias = kind.make(random.standard_normal(n) * with_bias)
    if row["bPreshuffle"] == "1":
        b_bits = shuffled(b_bits)
    out = device.room(m * n, np.uint16, 0)
    grid = (-(-n // int(row["tileN"])), -(-m // int(row["tileM"])), split)
    device.launch(path, grid, 256, slots(
        out, 0, device.put(a_bits), device.put(b_bits), 1.0, 0.0, n * 2, 0, n * 2, 0, K * 2, 0,
        K * 2, 0, m, n, K, split, 1, device.put(bias_bits), with_bias,
        device.room(4096, np.uint32, 0) if split > 1 else 0))
    return [("out", kind.read(device, out, (m, n)), a @ b.T + bias, 0.01)]


def run_int8(device, path, row, m, n, split, seed):
    random = np.random.default_rng(seed)
    kind = Kind("i8", device.target)
    (a_bits, a), (b_bits, b) = (kind.make(30 * random.standard_normal(x)) for x in ((m, K), (n, K)))
    scales = [random.uniform(0.5, 2, x).astype(np.float32) / 100 for x in (m, n)]
    bias = random.standard_normal(n).astype(np.float32)
    out = device.room(m * n, np.uint16, 0)
    grid = (n // int(row["tile_n"]) * split, -(-m // int(row["tile_m"])), 1)
    device.launch(path, grid, 256, slots(
        out, device.put(a_bits), device.put(shuffled(b_bits)), *(device.put(x) for x in scales),
        device.put(bias), m, n, K, K, K, n * 2, split))
    want = a @ b.T * scales[0][:, None] * scales[1] + bias
    return [("out", Kind("bf16", device.target).read(device, out, (m, n)), want, 0.01)]


def cases(hsa, target):
    for family, run in ("bf16gemm", run_bf16), ("i8gemm", run_int8):
        folder = os.path.join(hsa, target, family)
        for table in sorted(x for x in os.listdir(folder) if x.endswith(".csv")):
            with open(os.path.join(folder, table)) as f:
                rows = list(csv.DictReader(f))
            for row in rows:
                m = int(row.get("tileM") or row["tile_m"]) + 5
                n = 2 * int(row.get("tileN") or row["tile_n"])
                for split in (1, 2) if row["splitK"] == "1" else (1,):
                    name = "%s %dx%d splits %d" % (row["co_name"], m, n, split)
                    path = os.path.join(folder, row["co_name"])
                    if not os.path.exists(path):
                        yield name, "no such object"
                    elif split == 1 and row["co_name"].endswith("_clean.co"):
                        yield name, "the host passes no semaphores"
                    else:
                        yield name, (lambda d, run=run, path=path, row=row, m=m, n=n, split=split:
                                     run(d, path, row, m, n, split, 1))
