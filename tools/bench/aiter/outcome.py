# SPDX-License-Identifier: Apache-2.0
"""Compares results with references, and prints the outcome of cases and of code objects."""
import os

import numpy as np

MARGINS = ("lds_before", "lds_after", "vector_before", "vector_after")
HEADER = ("| target | object | cases | right | error | LDS before | after | vector before | after | "
          "findings | seeds |\n|" + " --- |" * 11)


def compare(got, want):
    """Returns the largest difference over the largest value of `want`. Infinities must be equal."""
    got, want = np.asarray(got, float), np.asarray(want, float)
    same = np.isinf(want) & (got == want)
    difference = np.where(same, 0, np.abs(np.where(same, 0, got) - np.where(same, 0, want)))
    if not np.all(np.isfinite(difference)):
        return float("inf")
    top = np.max(np.abs(want[np.isfinite(want)]), initial=1e-30)
    return float(np.max(difference, initial=0) / top)


def outcome(verdict="ok", note=""):
    return {"verdict": verdict, "note": note, "error": 0.0, "margins": {}, "findings": 0,
            "kinds": [], "reports": [], "seeds": None, "objects": []}


def judge(result, checks):
    """Adds the checks of a run, tuples (name, got, want, bound), to its result. A check whose bound is None is
    only noted."""
    for name, got, want, bound in checks:
        if bound is None:
            result["note"] += name + "; " if name not in result["note"] else ""
            continue
        error = compare(got, want)
        result["error"] = max(result["error"], error)
        if not error <= bound:
            result["verdict"] = "WRONG"
            result["note"] += "%s %.3g; " % (name, error)


def orderly(result):
    """True if the result is right and the checks found no dependence on wave order or latency."""
    return result["verdict"] == "ok" and not {"race", "wait"} & set(result["kinds"])


def least(results):
    """Returns the smallest margins of several runs by name, in clocks; None: no such use."""
    found = {m: [r["margins"][m] for r in results if r["margins"].get(m) is not None]
             for m in MARGINS}
    return {m: min(v) if v else None for m, v in found.items()}


def text_of(margins):
    return ["-" if margins.get(m) is None else str(margins[m]) for m in MARGINS]


def line(target, name, r):
    """Formats one case as a line."""
    return "%-6s %-76s %-6s %8.2e %s %6d %s%s %s" % (
        target, name, r["verdict"], r["error"], " ".join("%5s" % t for t in text_of(r["margins"])),
        r["findings"], ",".join(r["kinds"]), "" if r["seeds"] is None else " seeds: %s" % r["seeds"],
        r["note"])


def family_of(path):
    """Returns the family of a code object: the last folder of its path."""
    return os.path.basename(os.path.dirname(path))


def families(target, results, objects):
    """Returns the lines of a table with a row for each family of objects. `objects` are the paths of all code
    objects of the target."""
    ran = {path for r in results for path in r["objects"]}
    lines = ["| target | family | objects | of them run | cases | right | error | findings |\n|" + " --- |" * 8]
    for family in sorted({family_of(path) for path in objects}):
        there = [path for path in objects if family_of(path) == family]
        cases = [r for r in results if family in {family_of(path) for path in r["objects"]}]
        lines.append("| " + " | ".join([
            target, family, str(len(there)), str(len(ran.intersection(there))), str(len(cases)),
            str(sum(r["verdict"] == "ok" for r in cases)),
            "%.2g" % max([r["error"] for r in cases], default=0),
            ", ".join(sorted({k for r in cases for k in r["kinds"]}))]) + " |")
    return lines


def row(target, name, results):
    """Returns the row of an object in the table of HEADER, for all its cases together."""
    right = sum(r["verdict"] == "ok" for r in results)
    seeds = [r["seeds"] for r in results if r["seeds"] is not None]
    cells = [target, "`%s`" % name, str(len(results)), str(right),
             "%.2g" % max(r["error"] for r in results), *text_of(least(results)),
             ", ".join(sorted(set(k for r in results for k in r["kinds"]))),
             "" if not seeds else "right" if set(seeds) == {"right"} else "WRONG"]
    return "| " + " | ".join(cells) + " |"
