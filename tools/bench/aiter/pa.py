# SPDX-License-Identifier: Apache-2.0
"""Runs paged attention. Arguments as in KernelArgs of csrc/py_itfs_cu/asm_pa.cu."""
import csv
import os

import numpy as np

from device import slots
from formats import Kind, fp8_values, softmax

DIM, KV_HEADS = 128, 2


class Shape:
    """The problem that a kernel solves, from its row of pa_asm.csv."""

    def __init__(self, folder, row):
        self.path = os.path.join(folder, row["co_name"])
        self.q, self.kv = row["qType"], "i8" if row["kvType"] == "int8" else row["kvType"]
        self.gqa, self.page = int(row["Gqa"]), int(row["blkSz"])
        more = int(row["Mtp"])
        self.queries = more - 10 if more > 10 else 3 if more else 1
        self.causal, self.listed = row["Msk"] == "1", more > 0  # the kernel has a list of queries


def reference(s, q, k, v):
    """Returns rows [query, head, DIM] of one sequence and head of K and V."""
    scores = np.einsum("qhd,kd->qhk", q, k) / np.sqrt(DIM)
    if s.causal:
        last = len(k) - len(q) + np.arange(len(q))
        scores = np.where(np.arange(len(k))[None, None] <= last[:, None, None], scores, -np.inf)
    return np.einsum("qhk,kd->qhd", softmax(scores)[0], v)


def rounded(kind, q):
    """Returns q as kernels of 8-bit caches round it: each row of a head to the cache's format."""
    if kind.bytes > 1:
        return q
    top = 127 if kind.name == "i8" else np.nanmax(fp8_values(kind.target))
    scale = np.abs(q).max(axis=-1, keepdims=True) / top
    return kind.make(q / scale)[1] * scale


def paged(kind, k, v):
    """Lays out the bits [page, head, token, DIM] of K and V as the kernels read them."""
    pages, heads, page, _ = k.shape
    x = 16 // kind.bytes
    k = k.reshape(pages, heads, page, DIM // x, x).swapaxes(2, 3)
    return k, v.reshape(pages, heads, page // x, x, DIM).swapaxes(3, 4)


def run(device, s, lengths, seed):
    random = np.random.default_rng(seed)
    q_kind, kind = Kind(s.q, device.target), Kind(s.kv, device.target)
    batch, heads = len(lengths), KV_HEADS * s.gqa
    q_bits, q = q_kind.make(random.standard_normal((batch * s.queries, heads, DIM)))
    row = max(-(-n // s.page) for n in lengths)
    shape = (batch * row + 1, KV_HEADS, s.page)  # one page belongs to no sequence
    scales = [random.uniform(0.5, 2, shape) if kind.bytes == 1 else np.ones(shape) for _ in "kv"]
    spread = 30 if s.kv == "i8" else 1
    scales = [x.astype(np.float32) / spread for x in scales] if kind.bytes == 1 else scales
    (k_bits, k), (v_bits, v) = (kind.make(spread * random.standard_normal(shape + (DIM,)))
                                for _ in "kv")
    k, v = k * scales[0][..., None], v * scales[1][..., None]
    table = random.permutation(batch * row).reshape(batch, row).astype(np.int32)
    out = device.room(batch * s.queries * heads * DIM, np.uint16)
    k_bits, v_bits = paged(kind, k_bits, v_bits)
    size = s.page * DIM * kind.bytes
    device.launch(s.path, (KV_HEADS, batch, 1), 256, slots(
        out, device.put(q_bits), device.put(k_bits), device.put(v_bits), device.put(table),
        device.put(np.array(lengths, np.int32)),
        *(device.put(x) if kind.bytes == 1 else 0 for x in scales),
        float(np.log2(np.e) / np.sqrt(DIM)), row, KV_HEADS, heads * DIM * 2, size * KV_HEADS, size,
        s.queries - 1, s.gqa,
        device.put(np.arange(batch + 1, dtype=np.int32) * s.queries) if s.listed else 0))
    got = q_kind.read(device, out, (batch, s.queries, KV_HEADS, s.gqa, DIM))
    q = rounded(kind, q).reshape(batch, s.queries, KV_HEADS, s.gqa, DIM)
    # Weights are rounded too: int8 weights to 1/254 of the largest one, for any number of keys.
    bound = {"fp8": 0.04, "i8": 0.08}.get(s.kv, 0.02)
    checks = []
    for n, keys in enumerate(lengths):
        of_page = [np.concatenate(x[table[n]], axis=1)[:, :keys] for x in (k, v)]
        want = np.stack([reference(s, q[n, :, h], of_page[0][h], of_page[1][h])
                         for h in range(KV_HEADS)], axis=1)
        checks.append(("out %d" % n, got[n], want, bound))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "pa")
    with open(os.path.join(folder, "pa_asm.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        name = row["co_name"]
        if not os.path.exists(os.path.join(folder, name)):
            yield name, "no such object"
            continue
        if row["ps"] == "1":
            yield name, "its work lists are made by a planner"
            continue
        s = Shape(folder, row)
        for lengths in ((333, 64, 129), (21,)):
            yield "%s %s" % (name, lengths), (
                lambda d, s=s, lengths=lengths: run(d, s, lengths, 1))
