# SPDX-License-Identifier: Apache-2.0
"""Says whether a comparison of peers holds in the ranges of the parameters that sources leave open.

All comparisons run again with every such parameter of the timing model at the ends of its range, for
both sides alike. A ratio that comes to lie on the other side of 1 says nothing about hardware.
"""
import contextlib
import io
import subprocess


def ends(calibrate, target):
    """Name and value of each end that is not what the table has."""
    listed = subprocess.run([calibrate, "--list", target], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        name, value, low, high, _ = line.split()
        for end in (low, high):
            if end != value:
                yield "%s=%s" % (name, end)


def show(calibrate, target, compare, set_parameters):
    """Prints a line for each row. compare() returns a table, whose rows begin with name and ratio."""
    base = [(name, ratio) for name, ratio, *_ in compare()[-1]]
    found = [[(ratio, "")] for _, ratio in base]
    for setting in ends(calibrate, target):
        set_parameters(setting)
        with contextlib.redirect_stdout(io.StringIO()):
            again = compare()[-1]
        for kept, (_, ratio, *_) in zip(found, again):
            kept.append((ratio, setting))
    set_parameters(None)
    print("%-44s  ratio, least, largest" % "in the ranges of the model's parameters")
    for (name, ratio), kept in zip(base, found):
        least, largest = min(kept), max(kept)
        changed = [setting for other, setting in kept if (other < 1) != (ratio < 1)]
        print("%-44s  %5.2f, %5.2f (%s), %5.2f (%s)%s" % (
            name, ratio, *least, *largest, "  CHANGES: " + ", ".join(changed) if changed else ""),
            flush=True)
