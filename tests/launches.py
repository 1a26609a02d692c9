#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/launches: a script in place of attnc computes times from known costs, and the tool finds these
costs.

Usage: launches.py SOURCE
"""
import os
import subprocess
import sys
import tempfile

ATTNC = """#!/usr/bin/env -S python3 -IS
import json, sys
if sys.argv[1] == "build":
    open(sys.argv[-1], "w").close()
    sys.exit()
name, units = sys.argv[3], {"mi300x": 304, "mi355x": 256}[sys.argv[sys.argv.index("--part") + 1]]
s = {k: int(v) for k, v in (p.split("=") for p in sys.argv[5].split(","))}
chunks, heads = s["length"] // 64, s["value_heads"] * s["batch"]
segment = s.get("segment", chunks)
segments = chunks // segment
share = lambda workgroups, one, more: one + more * (-(-workgroups // units) - 1)
us = 7
if name.startswith("ssd"):
    us += segment * share(heads * (segments - 1), 1, 0.5) if "_states" in name else segment * share(heads * segments, 2, 1)
    us += (segments - 1) * share(heads * segments, 0.4, 0.2) if "_outputs" in name else 0
elif "_stage_scan" in name:
    us += segment * share(8 * heads * segments, 1, 0.5) + (segments - 1) * share(8 * heads * segments, 0.5, 0.25)
elif "_stage_segments" in name:
    us += segment * share(8 * heads * (segments - 1), 2, 0.3)
elif "_stage_" in name:
    us += heads * chunks / units * (3 if "_outputs" in name else 2)
else:
    us += chunks * (10 if "_tile2" in name else 12)
print(json.dumps([{"us_at_power_clock": us, "memory_bytes": 5 * heads * chunks, "memory_gb_per_s": 1}]))
"""

# Expected costs in hundredths of a microsecond. The launches of chunks and outputs take 2 and 3 us for each chunk of a
# compute unit. The tool subtracts the memory's time, 0.005 us for each of 304 or 256 compute units: 0.48 and 1.48, or
# 0.72 and 1.72 are left. On gfx950 the second is 1.71, since 12 heads of 170 chunks are a little less than 8 chunks for
# each of 256 compute units.
DELTA = "1000, 1200, %d, 50, %d, 50, {100, 50}, {200, 30}, {50, 25}, 700)"
WANTED = [
    "delta_costs.def: COSTS(\"gfx942\", HEAD, " + DELTA % (48, 148),
    "delta_costs.def: COSTS(\"gfx942\", CHANNEL, " + DELTA % (48, 148),
    "ssd_costs.def: COSTS(\"gfx942\", {200, 100}, {100, 50}, {40, 20}, 700)",
    "delta_costs.def: COSTS(\"gfx950\", HEAD, " + DELTA % (72, 171),
    "delta_costs.def: COSTS(\"gfx950\", CHANNEL, " + DELTA % (72, 171),
    "ssd_costs.def: COSTS(\"gfx950\", {200, 100}, {100, 50}, {40, 20}, 700)",
]


def main(source):
    with tempfile.TemporaryDirectory() as build:
        attnc = os.path.join(build, "tools/attnc/attnc")
        os.makedirs(os.path.dirname(attnc))
        with open(attnc, "w") as f:
            f.write(ATTNC)
        os.chmod(attnc, 0o755)
        done = subprocess.run([os.path.join(source, "tools/bench/launches"), "--build", build, "costs"], capture_output=True,
                              text=True)
    if done.stdout.splitlines() != WANTED:
        sys.exit("launches: %s%s\nwanted:\n%s" % (done.stdout, done.stderr, "\n".join(WANTED)))


main(sys.argv[1])
