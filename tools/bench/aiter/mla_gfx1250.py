# SPDX-License-Identifier: Apache-2.0
"""Runs decode of latent attention of gfx1250. Arguments as in MlaGfx1250KernelArgs and
MlaGfx1250PackedKernelArgs of csrc/py_itfs_cu/asm_mla.cu."""
import csv
import os
import struct

import numpy as np

from device import slots
from formats import Kind
from mla import QK, V, join, reference

PAGE = 64
Q_ROW = 768  # bytes from one head of q to the next; its 576 values come first
SPARE = 4  # page numbers after each sequence's, since kernels load ahead


class Shape:
    """The sizes and options of a kernel, from its row of mla_asm.csv."""

    def __init__(self, folder, row):
        self.path = os.path.join(folder, row["co_name"])
        self.heads, self.queries = int(row["Gqa"]), int(row["qSeqLen"])
        self.causal, self.ranks = True, False  # several queries have a causal mask, even if the table says otherwise
        self.slots = self.heads == 128  # each argument has 16 bytes; a split has two workgroups


def pages_of(kv, lengths, random):
    """Puts rows [token, QK] of the sequences, one after the other, in shuffled pages. Returns the pages,
    the 512 values of each token before all its 64 rotated ones, and the numbers of each sequence's
    pages."""
    counts = [-(-n // PAGE) for n in lengths]
    order = random.permutation(sum(counts)).astype(np.int32)
    pages = np.zeros((sum(counts), PAGE, QK), kv.dtype)
    at = row = 0
    for n, count in zip(lengths, counts):
        for i in range(count):
            part = kv[at + i * PAGE:at + min(n, (i + 1) * PAGE)]
            pages[order[row + i], :len(part)] = part
        at, row = at + n, row + count
    packed = np.concatenate([pages[..., :V].reshape(len(pages), -1),
                             pages[..., V:].reshape(len(pages), -1)], axis=1)
    return packed, order, counts


def arguments(device, s, splits, buffers, scale):
    """Packs the arguments in the kernel's layout: slots of 16 bytes, or packed. `buffers` are addresses by name."""
    b, row = buffers, s.heads * s.queries
    page = PAGE.bit_length() - 1
    if s.slots:
        return slots(b["parts"], b["lse"], b["q"], b["kv"], b["starts"], b["pages"], b["last"],
                     float(scale), row, splits, row * QK, PAGE * QK, page, b["q starts"],
                     b["split starts"], int(splits == 1), b["q scale"], b["kv scale"])
    return struct.pack("<11QIf6I", b["parts"], b["lse"], b["q"], b["kv"], b["starts"], b["pages"],
                       b["last"], b["q starts"], b["q scale"], b["kv scale"], b["valid"],
                       int(splits == 1), scale, row, splits, PAGE * QK, page, row * QK,
                       int(splits > 1))


def run(device, s, lengths, splits, seed):
    """Runs a case: `lengths` are keys of each sequence. Returns (name, result, reference, bound) of each comparison."""
    random = np.random.default_rng(seed)
    batch, kind = len(lengths), Kind("fp8", device.target)
    rows = batch * s.queries
    q_bits, q = kind.make(random.standard_normal((rows, s.heads, QK)))
    kv_bits, kv = kind.make(random.standard_normal((sum(lengths), QK)))
    q_scale, kv_scale, scale = 0.8, 1.25, QK**-0.5
    want = np.concatenate([w[0] for w in reference(s, q * q_scale, kv * kv_scale, lengths, scale)])
    padded = np.zeros((rows, s.heads, Q_ROW), np.uint8)
    padded[..., :QK] = q_bits
    pages, order, counts = pages_of(kv_bits, lengths, random)
    parts = device.room(rows * splits * s.heads * V, np.uint16 if splits == 1 else np.float32)
    lse = device.room(rows * splits * s.heads, np.float32, 0xff)
    valid = device.put(np.full(batch, splits, np.int32))
    starts = np.cumsum([0] + counts)
    buffers = {
        "parts": parts, "lse": lse, "q": device.put(padded), "kv": device.put(pages),
        "starts": device.put(starts.astype(np.int32)),
        "pages": device.put(np.concatenate([order, np.zeros(SPARE, np.int32)])),
        "last": device.put(np.array([(n - 1) % PAGE + 1 for n in lengths], np.int32)),
        "q starts": device.put(np.arange(batch + 1, dtype=np.int32) * s.queries),
        "split starts": device.put(np.arange(batch + 1, dtype=np.int32) * splits),
        "q scale": device.put(np.array([q_scale], np.float32)),
        "kv scale": device.put(np.array([kv_scale], np.float32)), "valid": valid,
    }
    device.launch(s.path, (1, batch, splits * (2 if s.slots else 1)), 128,
                  arguments(device, s, splits, buffers, scale))
    if splits == 1:
        got = Kind("bf16", device.target).read(device, parts, (rows, s.heads, V))
        return [("out", got, want, 0.08)]
    o = device.get(parts, (rows, splits, s.heads, V), np.float32).astype(float).swapaxes(0, 1)
    logs = device.get(lse, (rows, splits, s.heads), np.float32).astype(float).swapaxes(0, 1)
    used = device.get(valid, (batch,), np.int32)
    checks = []
    for n in range(batch):
        r = slice(n * s.queries, (n + 1) * s.queries)
        checks.append(("parts %d" % n, join(range(used[n]), o[:, r], logs[:, r]), want[r], 0.08))
    return checks


def cases(hsa, target):
    folder = os.path.join(hsa, target, "mla")
    with open(os.path.join(folder, "mla_asm.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        s = Shape(folder, row)
        for splits in (1, 2):
            for lengths in ((333, 64, 129), (21,), (1024, 700)):
                yield "%s %s splits %d" % (row["co_name"], lengths, splits), (
                    lambda d, s=s, lengths=lengths, splits=splits: run(d, s, lengths, splits, 1))
