#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that all ops use the names of counts that ops/README.md lists. A tensor with a stride of tokens has one of these
counts: `tokens`, `total_k` (keys), `batch` (one token of each sequence), `rows` (of an indexer), `ring`
(of a state).

Usage: counts.py SOURCE
"""
import pathlib
import sys

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "ops"))
from schema import Scalar, Schema  # noqa: E402

OF_TOKENS = {"tokens", "total_k", "batch", "rows", "ring"}
OTHER_NAMES = {"total_q", "total_tokens", "num_tokens", "token_count", "num_seqs", "sequences", "seqs", "batch_size", "total_rows",
               "num_rows", "row_count"}

faults, seen = [], 0
for op in Schema(SOURCE / "ops").ops:
    counts = {a.name for a in op.args if isinstance(a, Scalar)}
    faults += [f"{op.name}: the count {name}" for name in sorted(counts & OTHER_NAMES)]
    for t in op.tensors():
        if t.strides and "token" in t.strides and t.strides.index("token") < len(t.dims):
            dim = t.dims[t.strides.index("token")]
            if dim in counts:
                seen += 1
                faults += [] if dim in OF_TOKENS else [f"{op.name}: {t.name} has {dim} tokens"]
print("\n".join(faults) or f"{seen} tensors of tokens")
sys.exit(1 if faults or seen < 50 else 0)
