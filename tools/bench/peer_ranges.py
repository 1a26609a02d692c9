# SPDX-License-Identifier: Apache-2.0
"""Tests whether a comparison of peers holds for all values of the timing model's open parameters.

The comparison is repeated with each open parameter at the ends of its range, for both sides. A ratio that crosses
1 says nothing about hardware.
"""
import contextlib
import io
import subprocess
import sys


def ends(calibrate, target):
    """Returns the settings NAME=VALUE of the lowest values of all parameters, and of the highest, without those
    that equal the present value."""
    listed = subprocess.run([calibrate, "--list", target], capture_output=True, text=True, check=True)
    lowest, highest = [], []
    for line in listed.stdout.splitlines():
        name, value, low, high, _ = line.split()
        if low != value:
            lowest.append("%s=%s" % (name, low))
        if high != value:
            highest.append("%s=%s" % (name, high))
    return lowest, highest


BLOCK = 6  # settings that are tried at once


def felt(settings, ratios_with, base):
    """Yields (setting, ratios) for each setting that changes a ratio. Neighbours are first tried as a block,
    which is skipped if no ratio changes."""
    for at in range(0, len(settings), BLOCK):
        block = settings[at:at + BLOCK]
        if len(block) > 1 and ratios_with(",".join(block)) == base:
            continue
        for setting in block:
            yield setting, ratios_with(setting)


def show(calibrate, target, compare, set_parameters):
    """Prints the range of each row's ratio. compare() returns a table whose rows begin with name and ratio.
    Meanwhile prints the ratios with each setting to standard error."""
    rows = compare()[-1]
    base = [ratio for _, ratio, *_ in rows]
    found = [[(ratio, "")] for ratio in base]

    def ratios_with(setting):
        set_parameters(setting)
        with contextlib.redirect_stdout(io.StringIO()):
            ratios = [ratio for _, ratio, *_ in compare()[-1]]
        print(setting, *("%.3f" % ratio for ratio in ratios), file=sys.stderr, flush=True)
        return ratios

    for settings in ends(calibrate, target):
        for setting, again in felt(settings, ratios_with, base):
            for kept, ratio in zip(found, again):
                kept.append((ratio, setting))
    set_parameters(None)
    print("%-44s  ratio, least, largest" % "in the ranges of the model's parameters")
    for (name, ratio, *_), kept in zip(rows, found):
        least, largest = min(kept), max(kept)
        changed = [setting for other, setting in kept if (other < 1) != (ratio < 1)]
        print("%-44s  %5.2f, %5.2f (%s), %5.2f (%s)%s" % (
            name, ratio, *least, *largest, "  CHANGES: " + ", ".join(changed) if changed else ""),
            flush=True)
