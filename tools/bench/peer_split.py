# SPDX-License-Identifier: Apache-2.0
"""Compares paged decode with AITER's persistent kernels, which split keys over workgroups, for tools/bench/peers.

Caches are fp8 with a scale for each token, in pages of 1,024 keys: the only ones that these kernels read. Arguments are
PsKernelArgs of csrc/py_itfs_cu/asm_pa.cu, work items PaWorkInfo of csrc/include/pa.h."""
import array
import csv
import os

import peer_decode

# Heads, KV heads, keys per sequence, batch.
SHAPES = [(64, 4, 4096, 1), (64, 4, 4096, 8), (64, 4, 16384, 1), (64, 4, 16384, 8), (64, 8, 4096, 8), (64, 4, 4096, 64)]

PAGE, DIM, ROWS = 1024, 128, 16  # ROWS: query heads of a KV head that the object takes

DESCRIPTION = """
targets: [%s]
defaults: { dtype: bf16, head_dim: 128, gqa: [8, 16], page_size: 1024, kv_layout: shuffle }
kernels:
  - { op: combine }
  - { op: decode, kv_dtype: fp8, kv_scale: token, one_launch: [false, true] }
"""


def find_object(hsa, target):
    """Returns (file, kernel) for up to 16 query heads of a KV head, as pa_ps_fwd() of asm_pa.cu finds it."""
    folder = os.path.join(hsa, target, "pa")
    with open(os.path.join(folder, "pa_asm.csv")) as f:
        for row in csv.DictReader(f):
            if (row["ps"], row["qTile"], row["blkSz"], row["kvType"], row["quant_type"]) == ("1", str(ROWS), str(PAGE), "fp8", "2"):
                return os.path.join(folder, row["co_name"]), row["knl_name"]
    raise SystemExit("peers: no persistent kernel for pages of %d in %s" % (PAGE, folder))


def plan(heads, kv_heads, keys, batch, units):
    """Returns (work_indptr, work items of 8 numbers, most parts of a sequence). Each of `units` workgroups gets
    the same number of pages, or none."""
    pages, group = -(-keys // PAGE), heads // kv_heads
    each = -(-batch * kv_heads * pages // units)
    indptr, items, parts, most = [0], [], 0, 1
    left = each
    for sequence in range(batch):
        for head in range(kv_heads):
            first, pieces = 0, 0
            while first < pages:
                count = min(left, pages - first)
                whole = count == pages
                items.append([sequence, -1 if whole else parts, sequence, sequence + 1, sequence * pages + first,
                              sequence * pages + first + count, 0, (head + 1) * group << 16 | head * group])
                parts, pieces, first, left = parts + (not whole), pieces + 1, first + count, left - count
                if not left:
                    indptr.append(len(items))
                    left = each
            most = max(most, pieces)
    indptr += [len(items)] * (units + 1 - len(indptr))
    return indptr, items, most


def write_launch(found, directory, heads, kv_heads, keys, batch, units):
    """Writes the launch of AITER's object to a file in `directory`. Returns the file and the most parts of a
    sequence."""
    path, kernel = found
    pages, group = -(-keys // PAGE), heads // kv_heads
    indptr, items, most = plan(heads, kv_heads, keys, batch, units)
    lists = {"pages": range(batch * pages), "lens": [keys] * batch, "q_ends": range(batch + 1),
             "page_ends": range(0, (batch + 1) * pages, pages), "work": indptr, "items": [n for item in items for n in item]}
    files = {}
    for name, numbers in lists.items():
        files[name] = os.path.join(directory, name)
        with open(files[name], "wb") as f:
            array.array("i", numbers).tofile(f)
    cache, scales = batch * pages * kv_heads * PAGE * DIM, batch * pages * kv_heads * PAGE * 4
    rows = batch * heads * DIM * 2
    room = max(1, sum(item[1] >= 0 for item in items)) * heads * 4  # a float for each part and head
    pointers = ["b %d" % rows, "b %d" % rows, "b %d" % cache, "b %d" % cache, "f " + files["pages"], "f " + files["lens"],
                "b %d" % scales, "b %d" % scales]
    numbers = [kv_heads, heads * DIM * 2, kv_heads * PAGE * DIM, PAGE * DIM, 0, group]
    more = ["f " + files[name] for name in ("q_ends", "page_ends", "work", "items")]
    more += ["b %d" % (room * DIM), "b %d" % room]
    wide = lambda line: [line, "i 0", "i 0", "i 0"]  # every argument has 16 bytes
    lines = ["%s %s %d 1 1 256 0 0" % (path, kernel, units)]
    for pointer in pointers:
        lines += [pointer, "n"]
    lines += wide("s %r" % (1.4426950408889634 / DIM ** 0.5))
    for n in numbers:
        lines += wide("i %d" % n)
    for pointer in more:
        lines += [pointer, "n"]
    for n in (PAGE * 4, kv_heads * PAGE * 4):
        lines += wide("i %d" % n)
    launch = os.path.join(directory, "split.launch")
    with open(launch, "w") as f:
        f.write("".join(line + "\n" for line in lines))
    return launch, most


def compare(trace, calibrate, hsa, target, directory, units, shape):
    """Returns our figures, AITER's figures, and the us of our combine, which counts as the sum of AITER's parts."""
    launch, parts = write_launch(find_object(hsa, target), directory, *shape, units)
    theirs = calibrate("object:" + launch)
    heads, _, _, batch = shape
    total = 0 if parts == 1 else trace("combine_bf16_d128_" + target, "tokens=%d,parts=%d,heads=%d" % (
        batch, parts, heads))["us_at_power_clock"]
    return peer_decode.ours(trace, target, ("fp8", *shape), PAGE), theirs, total
