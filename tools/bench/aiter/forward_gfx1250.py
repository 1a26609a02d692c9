# SPDX-License-Identifier: Apache-2.0
"""Runs forward attention of gfx1250. Arguments as in csrc/py_itfs_cu/asm_fmha_fwd_with_sink.cu and
asm_fmha_fwd_with_sink_varlen.cu."""
import csv
import os
import struct

import numpy as np

from formats import Kind, softmax

HEADS, KV_HEADS = 4, 2
TILE = 128  # queries of a tile; a workgroup does two
OPTIONS = 7  # bits: keys in reverse order, two tiles for each workgroup, heads along x of the grid


class Shape:
    """The sizes and options of a kernel, from its row of the table."""

    def __init__(self, folder, row):
        self.path = os.path.join(folder, row["co_name"])
        self.dim, self.causal = int(row["hdim_q"]), row["mask"] == "1"
        self.sink = self.dim == 64  # kernels of 64 elements have sinks


def reference(s, q, k, v, sink):
    """Returns rows [query, head, dim] of one sequence and the logarithms of their sums."""
    k, v = (np.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
    scores = np.einsum("qhd,khd->qhk", q, k) / np.sqrt(s.dim)
    if s.causal:
        last = len(k) - len(q) + np.arange(len(q))
        scores = np.where(np.arange(len(k))[None, None] <= last[:, None, None], scores, -np.inf)
    if s.sink:
        column = np.broadcast_to(sink[None, :, None], scores.shape[:2] + (1,))
        scores = np.concatenate([scores, column], axis=2)
    p, lse = softmax(scores)
    return np.einsum("qhk,khd->qhd", p[..., :len(k)], v), lse


def fixed(s, pointers, queries, keys, lse):
    """Packs struct KernelArgs of asm_fmha_fwd_with_sink.cu: strides in bytes of rows, heads and
    sequences."""
    row = s.dim * 2
    q = (HEADS * row, row, queries * HEADS * row)
    kv = (KV_HEADS * row, row, keys * KV_HEADS * row)
    out, q_at, k_at, v_at, lse_at, sink = pointers
    return struct.pack("<5Qf20iQ", out, q_at, k_at, v_at, lse_at, s.dim**-0.5, queries, q[0],
                       TILE * q[0], q[1], q[2], HEADS // KV_HEADS, *kv, OPTIONS, lse, keys, HEADS,
                       *kv, *q, queries * 4, sink)


def run(device, s, lengths, packed, seed):
    """Runs a case. `lengths` has (queries, keys) of each sequence, all equal unless `packed`. Returns (name, result,
    reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    kind = Kind("bf16", device.target)
    queries, keys = (np.array(x) for x in zip(*lengths))
    (q_bits, q), (k_bits, k), (v_bits, v) = (
        kind.make(random.standard_normal((rows.sum(), heads, s.dim)))
        for rows, heads in ((queries, HEADS), (keys, KV_HEADS), (keys, KV_HEADS)))
    sink = random.standard_normal(HEADS).astype(np.float32)
    starts = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (queries, keys)]
    out = device.room(queries.sum() * HEADS * s.dim, np.uint16)
    lse = device.room(queries.sum() * HEADS, np.float32, 0xff)
    pointers = [out, *(device.put(b) for b in (q_bits, k_bits, v_bits)), lse,
                device.put(sink) if s.sink else 0]
    most = int(queries.max())
    if packed:
        args = struct.pack("<7Qf5iQ", *pointers[:5], *(device.put(n) for n in starts), s.dim**-0.5,
                           HEADS // KV_HEADS, HEADS, OPTIONS, 1, most, pointers[5])
    else:
        args = fixed(s, pointers, most, int(keys.max()), 1)
    device.launch(s.path, (HEADS, -(-most // (2 * TILE)), len(lengths)), 128, args)
    got = kind.read(device, out, (queries.sum(), HEADS, s.dim))
    if packed:
        logs = device.get(lse, (queries.sum(), HEADS), np.float32)
    else:
        logs = device.get(lse, (len(lengths), HEADS, most), np.float32)
        logs = logs.swapaxes(1, 2).reshape(-1, HEADS)
    checks = []
    for n in range(len(lengths)):
        qs, ks = (slice(x[n], x[n + 1]) for x in starts)
        want, sums = reference(s, q[qs], k[ks], v[ks], sink)
        checks.append(("out %d" % n, got[qs], want, 0.02))
        checks.append(("lse %d" % n, logs[qs], sums, 0.02))
    return checks


def cases(hsa, target):
    for family, packed in (("fmha_fwd_bf16", False), ("fmha_fwd_bf16_varlen", True)):
        folder = os.path.join(hsa, target, family)
        with open(os.path.join(folder, family + ".csv")) as f:
            rows = list(csv.DictReader(f))
        whole = [((256, 256),) * 2, ((300, 300),)]
        for row in rows:
            s = Shape(folder, row)
            for lengths in [((200, 333), (64, 64))] if packed else whole:
                yield "%s %s" % (row["co_name"], lengths), (
                    lambda d, s=s, lengths=lengths, packed=packed: run(d, s, lengths, packed, 1))
