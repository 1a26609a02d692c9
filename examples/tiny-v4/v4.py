# SPDX-License-Identifier: Apache-2.0
"""The three kinds of DeepSeek-V4's layers: prompts in chunks, decode steps, and steps that verify drafts. Outputs of
all tokens except rejected drafts are compared with formulas in doubles, and choices with scores in doubles. Exit status: 0 all
right, 1 wrong results.

Usage: v4.py [gfx942|gfx950 [fp8]]      on the simulated GPU; fp8: rows of 584 bytes"""
import sys

from layers import KERNELS, ROWS_OF_FP8, Layer, WindowStep
from steps import DRAFTS, Engine


def main(target, fp8):
    kernels = KERNELS + ROWS_OF_FP8 if fp8 else KERNELS
    engine = Engine(target, kernels, lambda device: [Layer(n, device, r, fp8) for n, r in enumerate((0, 4, 128))], WindowStep)
    for pieces in ([50, 13], [50, 7], [50, 0], [37, 0]):
        engine.prefill(pieces)
    engine.steps(1, [(1, 1), (1, 1)])
    engine.steps(DRAFTS, [(2, 1), (3, 2), (1, 3)])
    return engine.report(("window", "CSA, 4 tokens", "HCA, 128 tokens"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "gfx942", "fp8" in sys.argv[2:]))
