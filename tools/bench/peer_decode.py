# SPDX-License-Identifier: Apache-2.0
"""Compares paged decode at head dim 128 with AITER's `pa` objects, for tools/bench/peers."""
import csv
import os

# Type, heads, KV heads, keys per sequence, batch; pages of 16.
SHAPES = [("bf16", 8, 1, 1024, 1), ("bf16", 8, 1, 4096, 8), ("bf16", 8, 1, 4096, 64),
          ("bf16", 8, 1, 16384, 1)]
SHAPES += [("bf16", 64, 8, 1024, batch) for batch in (1, 8, 64, 128)]
SHAPES += [("bf16", 64, 8, 4096, batch) for batch in (1, 8, 64)]
SHAPES += [("bf16", 64, 8, 16384, 1), ("bf16", 64, 8, 16384, 8), ("bf16", 64, 8, 65536, 1)]
SHAPES += [("bf16", 64, 4, 4096, 1), ("bf16", 64, 4, 4096, 64)]
SHAPES += [("fp8", 64, 8, 4096, batch) for batch in (1, 8, 64)]
SHAPES += [("fp8", 64, 8, 16384, 1), ("fp8", 64, 4, 4096, 1), ("fp8", 64, 4, 4096, 64)]

PAGE = 16

DESCRIPTION = """
targets: [%s]
defaults: { dtype: bf16, head_dim: 128, gqa: [8, 16], page_size: 16, kv_layout: shuffle }
kernels:
  - { op: combine }
  - { op: decode, one_launch: [false, true] }
  - { op: decode, kv_dtype: fp8, kv_scale: token, one_launch: [false, true] }
"""


def objects(hsa, target):
    """Returns {(type, GQA ratio): (file, kernel)} of AITER's objects for one query, as get_heuristic_kernel() of
    csrc/py_itfs_cu/asm_pa.cu finds them."""
    with open(os.path.join(hsa, target, "pa", "pa_asm.csv")) as f:
        return {(row["kvType"], int(row["Gqa"])): (row["co_name"][:-len(".co")], row["knl_name"])
                for row in csv.DictReader(f)
                if row["qType"] == "bf16" and row["Mtp"] == "0" and row["Msk"] == "0" and
                row["Hp"] == "0" and row["blkSz"] == str(PAGE)}


def theirs(calibrate, names, kind, heads, kv_heads, keys, batch):
    """Returns the modelled figures of AITER's object, from calibrate(SHAPE)."""
    name, symbol = names[kind, heads // kv_heads]
    return calibrate("pa:%s,%s,%d,%d,%d,%d,%d,%d" % (name, symbol, 2 if kind == "bf16" else 1, heads,
                                                     kv_heads, batch, keys, PAGE))


def ways(trace, target, kind, heads, kv_heads, keys, batch, page):
    """Yields (name of the way, figures of each launch) for every way in which an engine may launch our kernel."""
    kernel = "decode_bf16_d128_g%d%%s_p%d%s_shuffle%s_%s" % (
        heads // kv_heads, page, *(("_kv_fp8", "_scale_token") if kind == "fp8" else ("", "")), target)
    shape = "batch=%d,k=%d,kv_heads=%d" % (batch, keys, kv_heads)
    cus = 256 if target == "gfx950" else 304
    if keys <= 1024 or batch * kv_heads >= cus // 5:
        # Workgroups with equal work: timing a few of many suffices.
        options = ["--samples-only"] if batch * kv_heads > cus else []
        yield "no list", [trace(kernel % "", shape, *options)]
    if batch * kv_heads >= 4 * cus:
        return
    pairs = batch * kv_heads
    for lists in sorted({cus, 2 * cus, cus // pairs * pairs or cus}):  # the last one cuts all sequences alike
        listed = shape + ",lists=%d" % lists
        parts = min(-(-lists // (batch * kv_heads)), -(-keys // 64))  # a plan makes no parts below 64 keys
        yield "%d lists + combine" % lists, [
            trace(kernel % "", listed),
            trace("combine_bf16_d128_" + target,
                  "tokens=%d,parts=%d,heads=%d" % (batch, parts, heads))]
        if batch * kv_heads < cus:
            yield "%d lists, one launch" % lists, [trace(kernel % "_one_launch", listed)]


def ours(trace, target, shape, page=PAGE):
    """Returns the name and the figures of the fastest way to launch our kernel."""
    best = None
    for what, launches in ways(trace, target, *shape, page):
        us = sum(launch["us_at_power_clock"] for launch in launches)
        if best is None or us < best["us"]:
            best = {"way": what, "us": us, "cycles": sum(l["cycles"] for l in launches),
                    "idle": launches[0]["tail"], "duty": launches[0]["matrix_duty"],
                    "bytes": sum(l["memory_bytes"] for l in launches)}
    return best
