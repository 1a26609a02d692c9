#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/gathers: a script in place of attnc computes times from known costs, and the tool finds these
costs.

Usage: gathers.py SOURCE
"""
import os
import subprocess
import sys
import tempfile

# The script's `list` names two kernels. The second one takes twice the time, so that the tool has to choose the first.
ATTNC = """#!/usr/bin/env -S python3 -IS
import json, sys
if sys.argv[1] == "build":
    with open(sys.argv[2]) as f, open(sys.argv[-1], "w") as pack:
        pack.write(f.read())
    sys.exit()
if sys.argv[1] == "list":
    print("KERNEL  VGPR\\nfast  1\\nslow  1")
    sys.exit()
text = open(sys.argv[2]).read()
units = 304 if "gfx942" in text else 256
s = {k: int(v) for k, v in (p.split("=") for p in sys.argv[sys.argv.index("--shape") + 1].split(","))}
forms = {"scales_last": (40, 0.5), "packed_fp4": (70, 0.7), "packed_mxfp8": (30, 0.8)}
per, gather = next((forms[n] for n in forms if n in text), (20, 0))
if "cache_gather" in text:
    us = gather * s["tokens"] / 1000
else:
    per -= 10 if "same_rows" in text else 0
    per *= 2 if "gqa: 64" in text else 1
    us = per * s["batch"] * s["k"] / 1000 / units
print(json.dumps([{"us_at_max_clock": 4 + us * (2 if sys.argv[3] == "slow" else 1), "launch_us": 4}]))
"""

ROW = 'COSTS("%s", %d, {%d, %d, %d, %d}, %d, {50, 70, 80, 80}, 400)'
WANTED = [ROW % (target, heads, *(times * n for n in (4000, 6000, 7000, 3000, 2000)))
          for target in ("gfx942", "gfx950") for heads, times in ((16, 1), (64, 2))]


def main(source):
    with tempfile.TemporaryDirectory() as build:
        attnc = os.path.join(build, "tools/attnc/attnc")
        os.makedirs(os.path.dirname(attnc))
        with open(attnc, "w") as f:
            f.write(ATTNC)
        os.chmod(attnc, 0o755)
        done = subprocess.run([os.path.join(source, "tools/bench/gathers"), "--build", build, "--heads", "16", "--heads", "64"],
                              capture_output=True, text=True)
    if done.stdout.splitlines() != WANTED:
        sys.exit("gathers: %s%s\nwanted:\n%s" % (done.stdout, done.stderr, "\n".join(WANTED)))


main(sys.argv[1])
