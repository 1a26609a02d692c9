# SPDX-License-Identifier: Apache-2.0
"""Runs paged attention of gfx1250. Arguments as in KernelArgs of csrc/py_itfs_cu/asm_pa_decode_bf16.cu,
work lists as op_tests/test_pa_decode_bf16_asm.py makes them."""
import csv
import os
import struct

import numpy as np

from formats import Kind, softmax
from mla import join

KV_HEADS = 2
Q_SCALE, K_SCALE, V_SCALE = 0.8, 1.25, 0.5


class Shape:
    """The problem that a kernel solves, from its row of pa_decode_bf16.csv, with `queries` per sequence."""

    def __init__(self, folder, row, queries):
        self.path = os.path.join(folder, row["co_name"])
        self.dim, self.page, self.gqa = (int(row[k]) for k in ("hdim", "page_size", "gqa"))
        self.queries = queries


def reference(s, q, k, v, sink):
    """Returns rows [query, gqa, dim] of one sequence and KV head. The last query sees all keys."""
    scores = np.einsum("qhd,kd->qhk", q, k) * (Q_SCALE * K_SCALE / np.sqrt(s.dim))
    last = len(k) - s.queries + np.arange(s.queries)
    scores = np.where(np.arange(len(k))[None, None] <= last[:, None, None], scores, -np.inf)
    column = np.broadcast_to(sink[None, :, None], scores.shape[:2] + (1,))
    p, _ = softmax(np.concatenate([scores, column], axis=2))
    return np.einsum("qhk,kd->qhd", p[..., :-1], v) * V_SCALE


def work_list(s, lengths, cut):
    """Makes a work list: each workgroup has the pages of one sequence and KV head, and sequence `cut` has two
    workgroups.
    Returns the items and the first item of each workgroup. The words of an item are: the sequence, the row of
    partial results or -1, first query and end, first page and end. Then follow the number of keys after these
    pages, and first head and end in the halves of a word."""
    items, page = [], 0
    for n, keys in enumerate(lengths):
        pages = -(-keys // s.page)
        ends = [0, pages // 2, pages] if n == cut and pages > 1 else [0, pages]
        for part, (begin, end) in enumerate(zip(ends, ends[1:])):
            row = part * s.queries if len(ends) > 2 else -1
            left = max(0, keys - end * s.page)
            for head in range(KV_HEADS):
                heads = (head + 1) * s.gqa << 16 | head * s.gqa
                items.append([n, row, n * s.queries, (n + 1) * s.queries, page + begin, page + end,
                              left, heads])
        page += pages
    return np.array(items, np.int32), np.arange(len(items) + 1, dtype=np.int32)


def run(device, s, lengths, cut, seed):
    """Runs a case: `lengths` are keys of each sequence, `cut` is work_list()'s. Returns (name, result, reference, bound) of
    each comparison."""
    random = np.random.default_rng(seed)
    kind, batch, heads = Kind("fp8", device.target), len(lengths), KV_HEADS * s.gqa
    q_bits, q = kind.make(random.standard_normal((batch, s.queries, KV_HEADS, s.gqa, s.dim)))
    counts = [-(-n // s.page) for n in lengths]
    starts = np.cumsum([0] + counts).astype(np.int32)
    (k_bits, k), (v_bits, v) = (
        kind.make(random.standard_normal((starts[-1], KV_HEADS, s.page, s.dim))) for _ in "kv")
    order = random.permutation(starts[-1]).astype(np.int32)
    k_bits = k_bits.reshape(-1, KV_HEADS, s.page, s.dim // 16, 16).swapaxes(2, 3)
    v_bits = v_bits.reshape(-1, KV_HEADS, s.page // 16, 16, s.dim).swapaxes(3, 4)
    sink = random.standard_normal(heads).astype(np.float32)
    items, first = work_list(s, lengths, cut)
    out = device.room(batch * s.queries * heads * s.dim, np.uint16, 0)
    parts = device.room(2 * s.queries * heads * s.dim, np.float32)
    logs = device.room(2 * s.queries * heads, np.float32, 0xff)
    size = s.page * s.dim
    device.launch(s.path, (len(first) - 1, 1, 1), 128, struct.pack(
        "<8Q5If8I7Q", device.put(q_bits), device.put(k_bits), device.put(v_bits), device.put(order),
        device.put(np.array(lengths, np.int32)), device.put(starts), device.put(first),
        device.put(items), KV_HEADS, heads * s.dim, KV_HEADS * size, size, s.queries - 1,
        s.dim**-0.5, s.gqa, *[0] * 7, out, parts, logs, device.put(sink),
        *(device.put(np.array([x], np.float32)) for x in (Q_SCALE, K_SCALE, V_SCALE))))
    shape = (s.queries, KV_HEADS, s.gqa)
    got = Kind("bf16", device.target).read(device, out, (batch,) + shape + (s.dim,))
    if np.any(items[:, 1] >= 0):
        o = device.get(parts, (2,) + shape + (s.dim,), np.float32).astype(float)
        got[cut] = join((0, 1), o, device.get(logs, (2,) + shape, np.float32).astype(float))
    checks = []
    for n, keys in enumerate(lengths):
        pages = order[starts[n]:starts[n + 1]]
        of = [np.concatenate(x[pages], axis=1)[:, :keys] for x in (k, v)]
        want = np.stack([reference(s, q[n, :, h], of[0][h], of[1][h], sink[h * s.gqa:(h + 1) * s.gqa])
                         for h in range(KV_HEADS)], axis=1)
        checks.append(("out %d" % n, got[n], want, 0.04))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "pa_decode_bf16")
    with open(os.path.join(folder, "pa_decode_bf16.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        for queries in (1, 2):
            s = Shape(folder, row, queries)
            for lengths, cut in (((333, 64, 1200), -1), ((2100, 21), 0)):
                yield "%s %s queries %d%s" % (row["co_name"], lengths, queries,
                                              ", a cut" if cut == 0 else ""), (
                    lambda d, s=s, lengths=lengths, cut=cut: run(d, s, lengths, cut, 1))
