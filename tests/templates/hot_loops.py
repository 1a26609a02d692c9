#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the modelled hot loops of shipped tiles with the recorded figures.

Usage: hot_loops.py ATTNC DESCRIPTION RECORD [--write]

The model is deterministic, so a figure that differs was changed by a commit. Where that is meant,
--write records the new ones.
"""
import json
import subprocess
import sys
import tempfile

SHAPES = {
    "prefill_*_d192_v128": "batch=8,q=1024,heads=8,kv_heads=8",  # each head has its keys
    "prefill": "q=1024,heads=8,kv_heads=1",
    "decode": "batch=4,k=2048,kv_heads=2",
    "mla_decode": "batch=4,k=2048",
    "head_product": "tokens=16384,heads=16,shared=1",
    "combine": "tokens=8,parts=64",
    "topk": "rows=4,columns=16384",
    "indexer_topk": "rows=4,keys=8192",
}


def measure(attnc, description):
    """Lines of the record: kernel, cycles of an iteration, the bound. The first shape counts."""
    lines = {}
    with tempfile.NamedTemporaryFile(suffix=".attnpack") as pack:
        subprocess.run([attnc, "build", description, "-q", "-o", pack.name], check=True)
        for kernels, shape in SHAPES.items():
            run = subprocess.run(
                [attnc, "trace", pack.name, kernels + "_*", "--shape", shape, "--samples-only", "--json"],
                check=True, capture_output=True, text=True)
            for report in json.loads(run.stdout):
                lines.setdefault(report["kernel"], "%-48s %9.2f of %7.2f" % (
                    report["kernel"], report["loop_cycles"], report["loop_bound"]))
    return sorted(lines.values())


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
