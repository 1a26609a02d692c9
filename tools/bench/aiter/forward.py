# SPDX-License-Identifier: Apache-2.0
"""Runs forward attention. Arguments as in fmha_fwd_v3_args of csrc/include/mha_fwd.h."""
import csv
import os

import numpy as np

from device import slots
from formats import Kind, softmax

HEADS, KV_HEADS = 4, 2


class Shape:
    """The sizes and options of a kernel, from its row of fmha_fwd.csv."""

    def __init__(self, path, row):
        self.path = path
        self.kind = "fp8" if row["dtype"] == "fp8bf16" else "bf16"
        self.qk, self.v = int(row["hdim_q"]), int(row["hdim_v"])
        self.causal, self.group = row["mask"] == "2", row["mode"] == "1"
        self.tile = int(row["ts_qo"])
        self.narrow = self.qk == 192  # true: workgroups have four waves

    def grid(self, target, queries, batch):
        """Returns the grid, as get_grid_dim() of csrc/cpp_itfs/mha_fwd.cu computes it."""
        tiles = -(-queries // self.tile)
        if self.causal and not (target == "gfx942" and self.narrow):
            tiles = (tiles + 1) // 2
        if self.group:
            return HEADS, batch, tiles
        return (HEADS, tiles, batch) if target == "gfx942" and self.narrow else (tiles, HEADS, batch)

    def tuning(self, target):
        if target == "gfx942" and self.narrow:
            return 0
        return 3 if self.causal else 5


def reference(s, q, k, v, scale):
    """Returns the output rows [query, head, V] of one sequence and the logarithms of the rows' sums."""
    k, v = (np.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
    scores = np.einsum("qhd,khd->qhk", q, k) * scale
    if s.causal:
        last = len(k) - len(q) + np.arange(len(q))
        scores = np.where(np.arange(len(k))[None, None] <= last[:, None, None], scores, -np.inf)
    p, lse = softmax(scores)
    return np.einsum("qhk,khd->qhd", p, v), lse


def run(device, s, lengths, seed):
    """Runs a kernel and returns the checks of its results. `lengths` are (queries, keys) of each sequence; they
    are equal unless the kernel takes groups."""
    random = np.random.default_rng(seed)
    kind = Kind(s.kind, device.target)
    queries, keys = (np.array(x) for x in zip(*lengths))
    bits, values = zip(*(kind.make(random.standard_normal(shape)) for shape in (
        (queries.sum(), HEADS, s.qk), (keys.sum(), KV_HEADS, s.qk), (keys.sum(), KV_HEADS, s.v))))
    scales = (0.8, 1.25, 0.5) if s.kind == "fp8" else (1, 1, 1)
    scale = 1 / np.sqrt(s.qk)
    starts = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (queries, keys)]
    out = device.room(queries.sum() * HEADS * s.v, np.uint16)
    lse = device.room(queries.sum() * HEADS, np.float32, 0xff)
    most, many = int(queries.max()), int(keys.max())
    row, kv_row = s.qk * kind.bytes, s.v * kind.bytes
    first = [device.put(n) for n in starts] if s.group else [0, 0]
    apart = 0 if s.group else 1  # sequences between two in the tensors; groups find theirs by lists
    device.launch(
        s.path, s.grid(device.target, most, len(lengths)), 256 if s.narrow else 512, slots(
            out, *(device.put(b) for b in bits), lse, float(scale), most,
            HEADS * row, s.tile * HEADS * row, row, apart * most * HEADS * row, HEADS // KV_HEADS,
            KV_HEADS * row, row, apart * many * KV_HEADS * row, s.tuning(device.target), 1, many,
            s.qk, s.v, HEADS, KV_HEADS * kv_row, kv_row, apart * many * KV_HEADS * kv_row,
            HEADS * s.v * 2, s.v * 2, apart * most * HEADS * s.v * 2, *first,
            (queries.sum() if s.group else most) * 4, *first,
            *(device.put(np.array([x, 1], np.float32)) if s.kind == "fp8" else 0 for x in scales),
            0, 0, 0, 0, 0, 0))
    got = Kind("bf16", device.target).read(device, out, (queries.sum(), HEADS, s.v))
    bound = 0.02 if s.kind == "bf16" else 0.08
    logs = device.get(lse, (HEADS, queries.sum()), np.float32)
    if not s.group:
        logs = np.concatenate(logs.reshape(len(lengths), HEADS, most), axis=1)
    checks = []
    for n in range(len(lengths)):
        qs, ks = (slice(x[n], x[n + 1]) for x in starts)
        want, sums = reference(s, values[0][qs] * scales[0], values[1][ks] * scales[1],
                            values[2][ks] * scales[2], scale)
        checks.append(("out %d" % n, got[qs], want, bound))
        checks.append(("lse %d" % n, logs[:, qs].T, sums, bound))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "fmha_v3_fwd")
    with open(os.path.join(folder, "fmha_fwd.csv")) as f:
        rows = list(csv.DictReader(f))
    for part in ("MI300", "MI308") if target == "gfx942" else ("",):
        for row in rows:
            path = os.path.join(folder, part, row["co_name"])
            name = os.path.join(part, row["co_name"])
            if not os.path.exists(path):
                yield name, "no such object"
                continue
            s = Shape(path, row)
            whole = [((256, 256),) * 2, ((300, 300),)]
            for lengths in [((200, 333), (64, 64))] if s.group else whole:
                yield "%s %s" % (name, lengths), (
                    lambda d, s=s, lengths=lengths: run(d, s, lengths, 1))
