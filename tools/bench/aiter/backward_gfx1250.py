# SPDX-License-Identifier: Apache-2.0
"""Runs backward attention of gfx1250 in three launches: each row's sum of O dO, the gradients, and the conversion
of dQ. Arguments as in csrc/cpp_itfs/mha_bwd.cu and csrc/include/mha_bwd.h.

Queries are multiples of 128. The first kernel's buffer descriptors have num_records as on gfx9, but gfx1250 has
that field shifted by 7 bits. With a partial tile the kernel would write sums of the next head."""
import csv
import os
import struct

import numpy as np

from device import slots
from formats import Kind, softmax

DIM, HEADS, KV_HEADS = 128, 4, 2


def table(folder, name):
    """Returns the rows of one of AITER's tables."""
    with open(os.path.join(folder, name)) as f:
        return list(csv.DictReader(f))


def gradients(q, k, v, d_out, causal):
    """Returns O, the logarithms of the sums, and the gradients of Q, K and V of one head."""
    scale = DIM**-0.5
    scores = q @ k.T * scale
    if causal:
        last = len(k) - len(q) + np.arange(len(q))
        scores = np.where(np.arange(len(k))[None] <= last[:, None], scores, -np.inf)
    p, lse = softmax(scores)
    out = p @ v
    d_scores = p * (d_out @ v.T - (d_out * out).sum(axis=1, keepdims=True)) * scale
    return out, lse, d_scores @ k, d_scores.T @ q, p.T @ d_out


def strides(rows, heads, bytes_each):
    """Returns the bytes from one head, sequence and row to the next of a tensor [sequence, row, head,
    DIM]."""
    row = DIM * bytes_each
    return row, rows * heads * row, heads * row


def run(device, folder, row, queries, keys, batch, seed):
    """Runs a case. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    kind, causal = Kind("bf16", device.target), row["mask"] == "2"
    shapes = {"q": (batch, queries, HEADS, DIM), "k": (batch, keys, KV_HEADS, DIM)}
    bits, values = {}, {}
    for name, like in (("q", "q"), ("k", "k"), ("v", "k"), ("do", "q")):
        bits[name], values[name] = kind.make(random.standard_normal(shapes[like]))
    want = {x: np.zeros(shapes["q"] if x in ("o", "dq") else (batch, keys, HEADS, DIM))
            for x in ("o", "dq", "dk", "dv")}
    lse = np.zeros((batch, HEADS, queries), np.float32)
    for n in range(batch):
        for h in range(HEADS):
            kv = h * KV_HEADS // HEADS
            want["o"][n, :, h], lse[n, h], want["dq"][n, :, h], want["dk"][n, :, h], want["dv"][n, :, h] = \
                gradients(values["q"][n, :, h], values["k"][n, :, kv], values["v"][n, :, kv],
                          values["do"][n, :, h], causal)
    bits["o"] = kind.make(want["o"])[0]
    at = {name: device.put(b) for name, b in bits.items()}
    sums = device.room(batch * HEADS * queries, np.float32, 0xff)
    dq = device.room(batch * queries * HEADS * DIM, np.uint16)
    parts = device.room(batch * HEADS * queries * DIM, np.float32, 0)
    dk, dv = (device.room(batch * keys * HEADS * DIM, np.uint16) for _ in range(2))
    of_q, of_k, of_dk = strides(queries, HEADS, 2), strides(keys, KV_HEADS, 2), strides(keys, HEADS, 2)
    first, last = (table(folder, "fmha_bwd_%s.csv" % x)[0] for x in ("odo", "dq_convert"))
    device.launch(os.path.join(folder, first["co_name"]),
                  (-(-queries // int(first["ts"])), HEADS, batch), 128, struct.pack(
        "<3Q11I2Q", at["o"], at["do"], sums, *of_q, *of_q, queries * 4, HEADS * queries * 4, 4, queries,
        DIM, 0, 0))
    tiles = -(-keys // int(row["ts"]))
    device.launch(os.path.join(folder, row["co_name"]),
                  (-(-tiles // 2) if causal else tiles, HEADS, batch), 128, slots(
        parts, dk, dv, at["q"], at["k"], at["v"], at["do"], device.put(lse), sums, DIM**-0.5,
        float(np.log2(np.e)), queries, int(row["ts"]) * of_k[2], *of_q, HEADS // KV_HEADS, *of_k,
        of_dk[2], keys, DIM, DIM, HEADS, *of_k, *of_q, *of_dk[:2], *of_dk, queries * 4, 0, 0, 0, 0,
        queries, 0, 0))
    device.launch(os.path.join(folder, last["co_name"]),
                  (-(-queries // int(last["ts"])), HEADS, batch), 128, slots(
        parts, dq, queries * DIM * 4, HEADS * queries * DIM * 4, DIM * 4, *of_q, queries, DIM, 0, 0))
    d = device.get(sums, (batch, HEADS, queries), np.float32)
    read = {"dq": dq, "dk": dk, "dv": dv}
    return [("d", d, (values["do"] * want["o"]).sum(axis=3).swapaxes(1, 2), 0.02)] + [
        (name, kind.read(device, p, want[name].shape), want[name], 0.02) for name, p in read.items()]


def cases(hsa, target):
    folder = os.path.join(hsa, target, "fmha_v3_bwd")
    for row in table(folder, "fmha_bwd_dqdkdv.csv"):
        # The causal kernel also changes rows after the last query, unless the lengths differ by a multiple of 32.
        ragged = 320 if row["mask"] == "2" else 300
        for queries, keys, batch in ((256, 256, 2), (128, ragged, 1), (384, 640, 1)):
            yield "%s %dx%d, batch %d" % (row["co_name"], queries, keys, batch), (
                lambda d, row=row, queries=queries, keys=keys, batch=batch:
                run(d, folder, row, queries, keys, batch, 1))
        # No table names the variant without masks for tails. It has the same kernel name and arguments as the row's
        # object, and needs whole tiles of keys.
        whole = dict(row, co_name=row["co_name"].replace(".co", "_perf.co"))
        for queries, keys, batch in ((256, 256, 2), (128, 384, 1), (384, 640, 1)):
            yield "%s %dx%d, batch %d" % (whole["co_name"], queries, keys, batch), (
                lambda d, row=whole, queries=queries, keys=keys, batch=batch:
                run(d, folder, row, queries, keys, batch, 1))
