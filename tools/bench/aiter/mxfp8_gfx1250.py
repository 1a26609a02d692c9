# SPDX-License-Identifier: Apache-2.0
"""Runs forward attention of gfx1250 on fp8 with a scale per 32 elements. Arguments as in KernelArgs of
csrc/py_itfs_cu/asm_fmha_fwd_mxfp8.cu, scales as op_tests/test_fmha_fwd_mxfp8_asm.py lays them out."""
import csv
import os
import struct

import numpy as np

import forward
from formats import Kind

HEADS, KV_HEADS = forward.HEADS, forward.KV_HEADS
DIM, BLOCK = 128, 32
TILE_Q, TILE_K = 256, 128
ONE = 127  # the scale 1


def scaled(random, kind, shape, axis):
    """Returns random numbers as (bits [head, row, DIM], codes of their scales, values). A scale belongs to BLOCK
    elements along `axis`."""
    codes_shape = list(shape)
    codes_shape[axis] = -(-shape[axis] // BLOCK)
    power = random.integers(-2, 3, codes_shape)
    scale = np.repeat(2.0**power, BLOCK, axis=axis).take(range(shape[axis]), axis=axis)
    bits, values = kind.make(random.standard_normal(shape) / scale)
    return bits, (power + ONE).astype(np.uint8), values * scale


def padded(codes, rows):
    """Appends rows of the scale 1 to each head, up to a multiple of `rows`."""
    extra = -codes.shape[1] % rows
    return np.pad(codes, ((0, 0), (0, extra), (0, 0)), constant_values=ONE)


def row_scales(codes, tile, spare):
    """Lays out scales [head, row, DIM / BLOCK] of Q or K: in each 32 rows, row i + 16 comes after row i, for
    i below 16. `spare` tiles follow the last head, since kernels load ahead."""
    codes = padded(codes, tile)
    heads, rows, columns = codes.shape
    pairs = codes.reshape(heads, rows // 32, 2, 16, columns).swapaxes(2, 3)
    return np.concatenate([pairs.reshape(-1), np.full(spare * tile * columns, ONE, np.uint8)])


def column_scales(codes):
    """Lays out scales [head, key / BLOCK, DIM] of V in units of 64 columns of TILE_K keys."""
    codes = padded(codes, TILE_K // BLOCK)
    heads, rows, _ = codes.shape
    return codes.reshape(heads, rows // 4, 4, DIM // 64, 64).swapaxes(2, 3)


def run(device, path, causal, queries, keys, batch, seed):
    """Runs a case. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    kind = Kind("fp8", device.target)
    (q_bits, q_codes, q), (k_bits, k_codes, k), (v_bits, v_codes, v) = (
        scaled(random, kind, (batch * heads, rows, DIM), axis)
        for heads, rows, axis in ((HEADS, queries, 2), (KV_HEADS, keys, 2), (KV_HEADS, keys, 1)))
    out = device.room(batch * HEADS * queries * DIM, np.uint16)
    lse = device.room(batch * HEADS * queries, np.float32, 0xff)
    q_strides = (DIM, queries * DIM, HEADS * queries * DIM)
    kv_strides = (DIM, keys * DIM, KV_HEADS * keys * DIM)
    tiles = -(-queries // TILE_Q)
    device.launch(path, (-(-tiles // 2) if causal else tiles, HEADS, batch), 128, struct.pack(
        "<5Qf13i3Q7i", out, device.put(q_bits), device.put(k_bits), device.put(v_bits), lse,
        DIM**-0.5, queries, *q_strides, HEADS // KV_HEADS, *kv_strides, keys, HEADS, *kv_strides,
        device.put(row_scales(q_codes, TILE_Q, 0)), device.put(row_scales(k_codes, TILE_K, 2)),
        device.put(column_scales(v_codes)), TILE_Q * DIM, 0, 1,
        *(2 * n for n in q_strides), queries * 4))
    got = Kind("bf16", device.target).read(device, out, (batch, HEADS, queries, DIM)).swapaxes(1, 2)
    logs = device.get(lse, (batch, HEADS, queries), np.float32)
    shape = forward.Shape.__new__(forward.Shape)
    shape.causal = causal
    checks = []
    for n in range(batch):
        of = slice(n * HEADS, (n + 1) * HEADS), slice(n * KV_HEADS, (n + 1) * KV_HEADS)
        want, sums = forward.reference(shape, *(x.swapaxes(0, 1) for x in (q[of[0]], k[of[1]], v[of[1]])),
                                       DIM**-0.5)
        checks.append(("out %d" % n, got[n], want, 0.08))
        checks.append(("lse %d" % n, logs[n].T, sums, 0.08))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "fmha_fwd_mxfp8")
    with open(os.path.join(folder, "fmha_fwd_mxfp8.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        path, causal = os.path.join(folder, row["co_name"]), row["mask"] == "1"
        for queries, keys, batch in ((256, 256, 2), (300, 384, 1), (600, 640, 1)):
            yield "%s %dx%d, batch %d" % (row["co_name"], queries, keys, batch), (
                lambda d, path=path, causal=causal, queries=queries, keys=keys, batch=batch:
                run(d, path, causal, queries, keys, batch, 1))
