#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a table of fitted knobs, targets/tuning/GFX.yaml, into C initialisers of struct tir_fitted.

Usage: fitted.py TUNING.yaml OUTPUT.inc

Reads the part of YAML that `attnc tune --defaults` writes, a row per line; any other line is an error.
compiler/fitted.c reads the same files with a full parser of YAML.
"""
import re
import sys

ROW = re.compile(r"  - \{ kernels: ([\w=| ]+), knob: (\w+), value: (\d+)"
                 r"(?:, gain: (-?[\d.]+), range: \[(-?[\d.]+), (-?[\d.]+)\])? \}")
OTHER = re.compile(r"#.*|defaults: 1|target: gfx[0-9a-f]+|knobs:( \[\])?|")


def main():
    rows = []
    with open(sys.argv[1], encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            row = ROW.fullmatch(line.rstrip("\n"))
            if row:
                kernels, knob, value, *gains = row.groups()
                rows.append('{"%s", "%s", %s, %s},\n' % (
                    kernels, knob, value, ", ".join("%sf" % float(g or 0) for g in gains)))
            elif not OTHER.fullmatch(line.rstrip("\n")):
                sys.exit("%s:%d: no row of a tuning table" % (sys.argv[1], number))
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.writelines(rows)


if __name__ == "__main__":
    main()
