# SPDX-License-Identifier: Apache-2.0
"""Runs decode of latent attention. Arguments as in csrc/py_itfs_cu/asm_mla.cu."""
import csv
import os

import numpy as np

from device import slots
from formats import Kind, softmax

QK, V = 576, 512
WORKGROUPS = 8
SPARE = 256  # rows after the last sequence's, since kernels prefetch and load past the end of a row
OLDER = ("mla_a8w8_qh64_qseqlen4_gqaratio16", "mla_a8w8_qh64_qseqlen4_gqaratio16_msk0")
# Kernels without a mask that the table lists as masked. The first shares its row's key with an object that has a
# mask.
UNMASKED = ("mla_a16w16_qh8_qseqlen2_gqaratio8", "MLA_A16W16_1TG_4W_64mx1_16nx1_Coex0_Msk1_QH16")
RANKS, RANK = 2, 1  # devices over which some kernels interleave keys, and the one that is simulated


class Shape:
    """The problem that a kernel solves, from its row of mla_asm.csv and its name."""

    def __init__(self, folder, row):
        self.name = row["co_name"][:-3]
        self.path = os.path.join(folder, row["co_name"])
        self.q, self.kv = row["qType"], row["kvType"]
        self.heads, self.queries = int(row["Gqa"]), int(row["qSeqLen"]) or 1
        self.listed = row["ps"] == "1"
        # For bf16 without a list, the row of 64 heads and 0 queries is for several queries.
        if (self.q, self.heads, row["qSeqLen"], self.listed) == ("bf16", 64, "0", False):
            self.queries = 2
        self.causal = row["causal"] == "1" and self.name not in UNMASKED
        self.causal |= self.queries == 1
        # Some kernels read rows of q after the sequence's last: the next sequence's, or unused ones.
        self.past_q = self.q == "bf16" and self.heads == 8 and self.queries == 2
        self.lse, self.ranks = row["lse"] == "1", row.get("cprr") == "1"
        self.page = 1
        # Some kernels write partial rows in float32 even without splits; the host sums them.
        self.float_out = (self.q == "bf16" and self.heads in (8, 16) and self.queries == 1 and
                          not self.listed)
        # Older kernels have the flag for bf16 at the place of the argument ptr_RP.
        self.flag_first = self.name in OLDER and "gfx950" in folder
        # Some kernels read only the cache's scale, and take it for the product of both scales.
        self.one_scale = self.name in ("mla_a8w8_qh64_qseqlen4_gqaratio16_ps",
                                       "mla_a8w8_qh8_qseqlen1_gqaratio8_v1")
    def rows(self):
        """Returns the argument that asm_mla.cu calls s_MQA."""
        queries_apart = self.listed and (
            (self.q == "fp8" and self.heads in (16, 32) and self.queries == 4 and
             "gqaratio" in self.name and "qh64" not in self.name) or
            (self.q == "bf16" and self.heads in (32, 64)))
        if not self.listed and self.heads == 8 and self.queries == 2:
            queries_apart = True
        return self.heads if queries_apart else self.heads * self.queries

    def tile(self):
        """Returns the query rows of a workgroup, for kernels without a work list."""
        if self.heads == 16 and self.q == "bf16":
            return 16 if self.queries == 1 else 128
        if self.heads in (32, 64) and self.q == "bf16":
            return 64
        if self.heads == 8:
            return 8 * self.queries
        if self.heads == 32:
            return 32 * self.queries
        return 64 if self.heads == 16 and self.queries == 4 else 128


def reference(s, q, kv, lengths, scale):
    """Returns, for each sequence, the output rows [query, head, V] and the logarithms of the rows' sums."""
    out, at = [], 0
    for n, keys in enumerate(lengths):
        k = kv[at:at + keys]
        at += keys
        scores = np.einsum("qhd,kd->qhk", q[n * s.queries:(n + 1) * s.queries], k) * scale
        if s.causal:
            position, end = np.arange(keys), keys
            if s.ranks:
                position, end = position * RANKS + RANK, keys * RANKS
            last = end - s.queries + np.arange(s.queries)
            scores = np.where(position[None, None, :] <= last[:, None, None], scores, -np.inf)
        p, lse = softmax(scores)
        out.append((np.einsum("qhk,kd->qhd", p, k[:, :V]), lse))
    return out


def work_list(s, lengths, cut):
    """Makes a work list: sequence `cut` is split over two workgroups, the others have one. Returns the items, the
    first item of each workgroup, and the parts as (sequence, partial row)."""
    info, parts, at, row = [], [], 0, 0
    for n, keys in enumerate(lengths):
        middle = keys // 2 // 64 * 64
        pieces = [(0, middle), (middle, keys)] if n == cut else [(0, keys)]
        pieces = [p for p in pieces if p[0] < p[1]]
        for begin, end in pieces:
            partial = row if n == cut else -1
            unit = s.page
            info.append([n, partial, n * s.queries, (n + 1) * s.queries, (at + begin) // unit,
                         -(-(at + end) // unit), keys - end, 0])
            if n == cut:
                parts.append((n, row))
                row += s.queries
        at += -(-keys // s.page) * s.page
    first = [min(i, len(info)) for i in range(WORKGROUPS + 1)]
    return np.array(info, np.int32), np.array(first, np.int32), parts


def join(parts, out, lse):
    """Returns the LSE-weighted sum of partial rows. `parts` are indices in the first dimension. A NaN as LSE
    marks a part that the kernel has not written, for example one without keys."""
    known = [np.where(np.isnan(lse[i]), -np.inf, lse[i]) for i in parts]
    top = np.max(known, axis=0)
    weights = [np.exp(x - top) for x in known]
    total = sum(weights)
    return sum(w[..., None] * out[i] for w, i in zip(weights, parts)) / total[..., None]


def run(device, s, lengths, splits, seed):
    random = np.random.default_rng(seed)
    batch = len(lengths)
    qk, kk = Kind(s.q, device.target), Kind(s.kv, device.target)
    q_bits, q = qk.make(random.standard_normal((batch * s.queries, s.heads, QK)))
    if s.past_q:
        q_bits = np.concatenate([q_bits, np.zeros_like(q_bits[:s.queries])])
    total = sum(-(-n // s.page) * s.page for n in lengths) + SPARE
    kv_bits, kv = kk.make(random.standard_normal((total, QK)))
    keep = np.concatenate([np.arange(n) + o for n, o in zip(
        lengths, np.cumsum([0] + [-(-n // s.page) * s.page for n in lengths]))])
    q_scale = 0.8 if s.q == "fp8" and not s.one_scale else 1.0
    kv_scale = 1.25 if s.kv == "fp8" and not s.one_scale else 1.0
    scale = 1 / np.sqrt(QK)
    want = reference(s, q * q_scale, kv[keep] * kv_scale, lengths, scale)

    used = (total - SPARE) // s.page
    pages = np.concatenate([random.permutation(used), np.arange(used, total // s.page)])
    shuffled = np.empty_like(kv_bits.reshape(total // s.page, -1))
    shuffled[pages] = kv_bits.reshape(total // s.page, -1)
    starts = np.cumsum([0] + [-(-n // s.page) for n in lengths]).astype(np.int32)
    last = np.array([(n - 1) % s.page + 1 for n in lengths], np.int32)
    rows = batch * s.queries
    whole = device.room(rows * s.heads * V, np.uint16)
    one = device.put(np.array([q_scale, 1], np.float32))
    two = device.put(np.array([kv_scale, 1], np.float32))
    final_lse = device.room(rows * s.heads, np.float32, 0xff)
    info, first, parts = work_list(s, lengths, 0 if splits > 1 else -1)
    partial_rows = len(parts) * s.queries if s.listed else rows * splits
    partial = device.room(max(1, partial_rows) * s.heads * V, np.float32)
    partial_lse = device.room(max(1, partial_rows) * s.heads, np.float32, 0xff)
    if s.listed:
        lists = np.zeros(10, np.uint64)
        lists[0], lists[1] = device.put(first), device.put(info)
        work, grid, nosplit = device.put(lists), (WORKGROUPS, 1, 1), 1
    else:
        work = device.put(np.arange(batch + 1, dtype=np.int32) * splits)
        grid = (-(-s.queries * s.heads // s.tile()), batch, splits)
        nosplit = int(splits == 1)
        if splits == 1:
            whole = partial
    indptr = np.arange(batch + 1, dtype=np.int32) * s.queries
    device.launch(s.path, grid, 256, slots(
        partial, partial_lse, device.put(q_bits), device.put(shuffled), device.put(starts),
        device.put(pages.astype(np.int32)), device.put(last), float(scale), s.rows(),
        1 if s.listed else splits, s.heads * QK * qk.bytes * s.queries, s.page * QK * kk.bytes,
        s.page.bit_length() - 1, device.put(indptr), work,
        whole if s.listed else int(s.flag_first), one, two, nosplit, final_lse if s.lse else 0,
        device.put((starts * RANKS).astype(np.int32)) if s.ranks else 0,
        RANKS if s.ranks else 1, RANK if s.ranks else 0))
    bound = 0.02 if s.q == "bf16" else 0.08
    checks = [("reads behind q", None, None, None)] if s.past_q else []
    if not s.listed and (splits > 1 or s.float_out):
        return checks + [("out", parts_of(device, s, lengths, splits, partial, partial_lse),
                 np.concatenate([w[0] for w in want]), bound)]
    o = Kind("bf16", device.target).read(device, whole, (rows, s.heads, V))
    for n in range(batch):
        r = slice(n * s.queries, (n + 1) * s.queries)
        if parts and parts[0][0] == n:
            po = device.get(partial, (len(parts), s.queries, s.heads, V), np.float32).astype(float)
            pl = device.get(partial_lse, (len(parts), s.queries, s.heads), np.float32).astype(float)
            checks.append(("parts %d" % n, join(range(len(parts)), po, pl), want[n][0], bound))
            continue
        checks.append(("out %d" % n, o[r], want[n][0], bound))
        if s.lse:
            lse = device.get(final_lse, (rows, s.heads), np.float32).astype(float)
            if np.all(np.isnan(lse)):
                checks.append(("writes no LSE", None, None, None))
            else:
                checks.append(("lse %d" % n, lse[r], want[n][1], bound))
    return checks


def parts_of(device, s, lengths, splits, partial, partial_lse):
    """Returns the sum of the splits of a launch without a work list, as _fwd_kernel_stage2_asm computes it."""
    shape = (len(lengths), s.queries, splits, s.heads)
    o = np.swapaxes(device.get(partial, shape + (V,), np.float32).astype(float), 1, 2)
    lse = np.swapaxes(device.get(partial_lse, shape, np.float32).astype(float), 1, 2)
    return np.concatenate([join(range(min(splits, -(-n // least_part(s)))), o[i], lse[i])
                           for i, n in enumerate(lengths)])


def least_part(s):
    """Returns the fewest keys of a split: `mgc` of aiter/mla.py."""
    if s.heads == 128 and s.q == "fp8" or s.heads == 64 and s.q == "bf16" and s.queries == 1:
        return 32
    return 64 if s.heads in (8, 16) and (s.queries == 1 or s.heads == 8 and s.queries == 2) else 16


def left_out(row, splits, target):
    """Returns why a row of the table is not run: AITER's host never launches it, or this module cannot. None: it
    is run."""
    if row["prefill"] == "1":
        return "prefill"
    if row["kvType"] == "byte":
        return "packed rows"
    if row["co_name"].startswith("MLA_") and "16mx4" not in row["co_name"] and splits == 1:
        return "the host passes no output"
    if row["co_name"][:-3] in OLDER and target == "gfx950" and splits > 1:
        return "arguments of an older host"
    return None


def cases(hsa, target):
    folder = os.path.join(hsa, target, "mla")
    with open(os.path.join(folder, "mla_asm.csv")) as f:
        rows = {r["co_name"]: r for r in csv.DictReader(f)}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".co"):
            continue
        if name not in rows:
            yield name, "no row in mla_asm.csv"
            continue
        for splits in (1, 2):
            why = left_out(rows[name], splits, target)
            if why:
                yield "%s splits %d" % (name, splits), why
                continue
            s = Shape(folder, rows[name])
            for lengths in ((333, 64, 129), (21,), (1024, 700)):
                yield "%s %s splits %d" % (name, lengths, splits), (
                    lambda d, s=s, lengths=lengths, splits=splits: run(d, s, lengths, splits, 1))
