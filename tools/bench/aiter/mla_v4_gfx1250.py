# SPDX-License-Identifier: Apache-2.0
"""Runs sparse decode of DeepSeek-V4's latent attention of gfx1250. Arguments as in
MlaV4KernelArgsPreload of csrc/py_itfs_cu/asm_mla_v4.cu, rows as op_tests/test_mla_v4_kargpreld.py packs
them."""
import csv
import os
import struct

import numpy as np

from formats import Kind, softmax
from mla import join

PLAIN, ROTATED, ROW = 448, 64, 512  # fp8 elements, bf16 elements, bytes of a row of fp8
TILE = 64  # elements per scale
DIM = PLAIN + ROTATED
SPARE = 64  # rows after the cache


def packed(random, device, rows):
    """Returns the bytes of `rows` random rows, their rotated parts, and their values. Each scale is stored
    twice, after the elements."""
    fp8, bf16 = Kind("fp8", device.target), Kind("bf16", device.target)
    power = random.integers(-2, 3, (rows, PLAIN // TILE))
    scale = np.repeat(2.0**power, TILE, axis=1)
    bits, values = fp8.make(random.standard_normal((rows, PLAIN)) / scale)
    rotated, rotated_values = bf16.make(random.standard_normal((rows, ROTATED)))
    out = np.zeros((rows, ROW), np.uint8)
    out[:, :PLAIN] = bits
    out[:, PLAIN:PLAIN + 2 * PLAIN // TILE] = np.repeat(power + 127, 2, axis=1)
    return out, rotated, np.concatenate([values * scale, rotated_values], axis=1)


def reference(q, kv, sink):
    """Returns rows [query, head, DIM] of one sequence; no query is masked."""
    scores = np.einsum("qhd,kd->qhk", q, kv) / np.sqrt(DIM)
    column = np.broadcast_to(sink[None, :, None], scores.shape[:2] + (1,))
    p, _ = softmax(np.concatenate([scores, column], axis=2))
    return np.einsum("qhk,kd->qhd", p[..., :-1], kv)


def run(device, path, heads, queries, lengths, splits, seed):
    """Runs a case: `lengths` are keys of each sequence. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    batch, rows, total = len(lengths), len(lengths) * queries, sum(lengths)
    q_bits, q_rotated, q = packed(random, device, rows * heads)
    kv_bits, kv_rotated, kv = packed(random, device, total + SPARE)
    order = random.permutation(total).astype(np.int32)
    sink = random.standard_normal(heads).astype(np.float32)
    starts = np.cumsum([0] + list(lengths)).astype(np.int32)
    parts = device.room(rows * splits * heads * DIM, np.uint16 if splits == 1 else np.float32)
    lse = device.room(rows * splits * heads, np.float32, 0xff)
    valid = device.put(np.full(batch, splits, np.int32))
    device.launch(path, (-(-heads * queries // 64), batch, splits), 128, struct.pack(
        "<8Qf4I3QIQ", parts, device.put(q_bits), device.put(kv_bits), device.put(starts), 0,
        device.put(np.arange(batch + 1, dtype=np.int32) * queries), device.put(q_rotated),
        device.put(kv_rotated), DIM**-0.5, heads * queries, splits, total + SPARE,
        int(splits == 1), lse, device.put(np.concatenate([order, np.zeros(SPARE, np.int32)])), valid,
        int(splits > 1), device.put(sink)))
    q = q.reshape(rows, heads, DIM)
    if splits == 1:
        got = Kind("bf16", device.target).read(device, parts, (rows, heads, DIM))
    else:
        o = device.get(parts, (rows, splits, heads, DIM), np.float32).astype(float).swapaxes(0, 1)
        logs = device.get(lse, (rows, splits, heads), np.float32).astype(float).swapaxes(0, 1)
        used = device.get(valid, (batch,), np.int32)
        got = np.concatenate([join(range(used[n]), o[:, n * queries:(n + 1) * queries],
                                   logs[:, n * queries:(n + 1) * queries]) for n in range(batch)])
    checks = []
    for n in range(batch):
        r = slice(n * queries, (n + 1) * queries)
        want = reference(q[r], kv[order[starts[n]:starts[n + 1]]], sink)
        checks.append(("out %d" % n, got[r], want, 0.08))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "mla_v4")
    with open(os.path.join(folder, "mla_v4_asm.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        path, heads, queries = os.path.join(folder, row["co_name"]), int(row["Gqa"]), int(row["qSeqLen"])
        for splits in (1, 2):
            for lengths in ((333, 64, 129), (512,)):
                yield "%s %s splits %d" % (row["co_name"], lengths, splits), (
                    lambda d, path=path, heads=heads, queries=queries, lengths=lengths, splits=splits:
                    run(d, path, heads, queries, lengths, splits, 1))
