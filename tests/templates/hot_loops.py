#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the modelled hot loops of shipped tiles, and launches of them, with the recorded figures.

Usage: hot_loops.py ATTNC DESCRIPTION RECORD [--write]

The model is deterministic, so a figure that differs was changed by a commit. Where that is meant,
--write records the new ones.
"""
import fnmatch
import json
import subprocess
import sys
import tempfile

# Which kernels (GLOB_gfx...) are launched on what; the first that matches.
SHAPES = {
    "prefill_*_d192_v128*": "batch=8,q=1024,heads=8,kv_heads=8",  # each head has its keys
    "prefill_*": "q=1024,heads=8,kv_heads=1",
    "decode_*": "batch=4,k=2048,kv_heads=2",
    "mla_decode_*": "batch=4,k=2048",
    "head_product_*_shared*": "tokens=16384,heads=16,shared=1",
    "head_product_*_tile5": "tokens=64,heads=128",  # where w streams, all of a workgroup is one turn
    "head_product_*_tile4": "tokens=32,heads=8",
    "head_product_*": "tokens=512,heads=8",
    "combine_*": "tokens=8,parts=64",
    "topk": "rows=4,columns=16384",
    "indexer_topk_*": "rows=4,keys=8192",
    "indexer_logits_*": "rows=16,keys=4096",
    "indexer_rope_cache_*": "tokens=1024,heads=64",
    "rope_qk_norm_cache_*": "tokens=1024",
    "mla_rope_cache_*": "tokens=1024",
    "qk_rmsnorm_*": "tokens=4096",
    "cache_*": "tokens=1024",
}

# Of which the cycles of a launch are recorded too, which say how many blocks a query visits, and what stands in
# front of a loop, behind it and between turns.
LAUNCHES = {
    "prefill_*_mask_window*": "q=2048,heads=8,kv_heads=1,window=300",
    "prefill_*_mask_chunk*": "q=1024,heads=8,kv_heads=1,window=256",
    "prefill_bf16_d64_mask_none": "q=1024,heads=8,kv_heads=1,growth=5",  # where the maximum follows
    "prefill_fp16_d64_mask_none": "q=1024,heads=8,kv_heads=1,growth=3",
    "prefill_bf16_d128": "q=2560,heads=40,kv_heads=5",  # more tiles than compute units
    "prefill_bf16_d128_mask_none": "q=2100,heads=40,kv_heads=5",  # the last turn's are halves
    "prefill_*_d192_v128*": SHAPES["prefill_*_d192_v128*"],
    "prefill_*": SHAPES["prefill_*"],
    "decode_*_one_launch*": "batch=4,k=8192,kv_heads=2,lists=64",
    "decode_*_mask_window*": "batch=4,k=8192,kv_heads=2,window=1000",
    "decode_*_mask_chunk*": "batch=4,k=9000,kv_heads=2",  # 808 keys of the second chunk
    "decode_bf16_d128_g8_p16": "batch=32,k=2048,kv_heads=2",  # 64 workgroups are a crowd
    "decode_*": SHAPES["decode_*"],
    "combine_*": "tokens=1024,parts=3",
    "topk": SHAPES["topk"],
    "indexer_topk_*": SHAPES["indexer_topk_*"],
}


def shape_of(kernel, shapes):
    return next((shape for glob, shape in shapes.items() if fnmatch.fnmatch(kernel, glob + "_gfx???")), None)


def trace(attnc, pack, kernel, shape):
    run = subprocess.run([attnc, "trace", pack, kernel, "--shape", shape, "--samples-only", "--json"],
                         check=True, capture_output=True, text=True)
    return json.loads(run.stdout)[0]


def measure(attnc, description):
    """Lines of the record: kernel, cycles of an iteration, the bound. Where nothing loops, cycles of the launch
    of 0; of some kernels those of a launch beside them. _calls are other calls of the same code."""
    lines = []
    with tempfile.NamedTemporaryFile(suffix=".attnpack") as pack:
        subprocess.run([attnc, "build", description, "-q", "-o", pack.name], check=True)
        listed = subprocess.run([attnc, "list", pack.name, "--json"], check=True, capture_output=True, text=True)
        for kernel in [k["name"] for k in json.loads(listed.stdout) if "_calls" not in k["name"]]:
            shape, launched = shape_of(kernel, SHAPES), shape_of(kernel, LAUNCHES)
            report = trace(attnc, pack.name, kernel, shape)
            lines.append("%-48s %9.2f of %7.2f" % (
                kernel, report["loop_cycles"] or report["cycles"], report["loop_bound"]))
            if launched and report["loop_cycles"]:
                launch = report if launched == shape else trace(attnc, pack.name, kernel, launched)
                lines.append("%-48s %9.0f a launch" % (kernel, launch["cycles"]))
    return sorted(lines)


def main():
    attnc, description, record = sys.argv[1:4]
    found = measure(attnc, description)
    if sys.argv[4:] == ["--write"]:
        with open(record, "w") as f:
            f.write("\n".join(found) + "\n")
        return 0
    with open(record) as f:
        expected = f.read().splitlines()
    for line in sorted(set(expected) - set(found)):
        print("recorded: " + line)
    for line in sorted(set(found) - set(expected)):
        print("now:      " + line)
    return found != expected


sys.exit(main())
