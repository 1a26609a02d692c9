#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `calibrate --shape object:FILE` with a kernel of calibrate's own: calibrate runs the launch that the file
describes.

Usage: object_launch.py CALIBRATE OBJECT TARGET
"""
import array
import json
import os
import subprocess
import sys
import tempfile

HEADS, QUERIES, PARTS = 8, 2, 4


def time(calibrate, target, directory, lines):
    """Writes a launch file of `lines`. Returns the finished process of calibrate with it."""
    path = os.path.join(directory, "launch")
    with open(path, "w") as f:
        f.write("".join(line + "\n" for line in lines))
    return subprocess.run([calibrate, "--shape", "object:" + path, target], capture_output=True,
                          text=True)


def main():
    calibrate, code, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as d:
        rows = HEADS * QUERIES * PARTS
        with open(d + "/lse", "wb") as f:
            array.array("f", [1.0] * rows).tofile(f)
        head = "%s reduce %d %d 1 128 0 " % (code, HEADS, QUERIES)
        arguments = ["b %d" % (rows * 512 * 4), "f " + d + "/lse", "b %d" % (HEADS * QUERIES * 1024),
                     "i %d" % PARTS, "i %d" % HEADS]
        done = time(calibrate, target, d, [head + "0"] + arguments)
        if done.returncode:
            sys.exit("object_launch: " + done.stderr)
        report = json.loads(done.stdout)
        # The launch reads or writes partial results and the output once each.
        least = rows * 512 * 4 + HEADS * QUERIES * 1024
        if not report["complete"] or not least <= report["bytes"] < 1.1 * least:
            sys.exit("object_launch: not %d bytes of all workgroups: %s" % (least, done.stdout))
        fewer = json.loads(time(calibrate, target, d, [head + "1"] + arguments).stdout)
        if fewer["complete"]:
            sys.exit("object_launch: one sample is not all workgroups: %s" % fewer)
        for lines, why in (([head + "0", "x 1"], "does not describe a launch"),
                           (["kernel"], "does not describe a launch"),
                           ([head + "0", "f " + d + "/none"], "cannot read")):
            done = time(calibrate, target, d, lines)
            if done.returncode != 2 or why not in done.stderr:
                sys.exit("object_launch: %s is not refused: %s" % (lines, done.stderr))


main()
