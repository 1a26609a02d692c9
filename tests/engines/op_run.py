# SPDX-License-Identifier: Apache-2.0
"""op_run.py JOB: runs tests of AITER's or vLLM's on the simulated GPU and writes the result of each case as a JSON
line. JOB is JSON: the target, AITER's checkout, the folder of the tests, the file to write, rows of files, and True if
the tests are vLLM's. Rows are made by row() or script() of own_tests.py. A case

* passes if the test's own comparison does and the call took kernels of attnc; * is refused if attn.aiter raised
NotServed, or no kernel has the form: the sentence is kept; * is left if the test skips it, or needs a function that is
no call of attn.aiter; * is wrong in any other event."""
import collections
import functools
import importlib
import inspect
import json
import os
import re
import runpy
import sys
import time
import traceback
import unittest

import pytest

import op_session
import simulated_cuda
from attn import AttnError, aiter


def causes(error):
    """Yields an exception and all exceptions that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def outcome(error, used):
    """Returns (kind, sentence) of a case; kinds are in the text at the top. `error` is the exception that it raised, or
    None; `used` is the number of ops that it took."""
    for one in causes(error):
        text = str(one)
        if isinstance(one, op_session.Backward):
            return "passed", "outputs only: gradients are for training"
        if isinstance(one, (aiter.NotInstalled, pytest.skip.Exception, unittest.SkipTest)):
            return "left", text.partition(". Install")[0]
        if "Invalid repository ID" in text:
            return "left", "a model's configuration comes from a hub"
        if "_OpNamespace" in text or "libcuda" in text:
            return "left", "an operator of vLLM's own extension is needed"
        if isinstance(one, AttnError) and one.status == "ATTN_NO_KERNEL":
            return "refused", text
    if error is not None:
        return "wrong", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ("passed", "") if used else ("left", "no kernel of attnc was needed")


def largest(x):
    """Returns the largest number in a parameter, which may be nested; 0 if it has no number."""
    if isinstance(x, (list, tuple)):
        return max(map(largest, x), default=0)
    return x if isinstance(x, (int, float)) else 0


class Cases:
    """A plugin of pytest that chooses cases and writes their results. It runs at most row["cases"] cases of a function,
    evenly distributed. No number in a case's parameters exceeds row["most"], or the parameter's own limit in
    row["limits"]."""

    def __init__(self, rows, session, path):
        self.rows, self.session = {row["file"]: row for row in rows}, session
        self.out = open(path, "a", buffering=1)  # pylint: disable=consider-using-with

    def row(self, path):
        """Returns the row of the suite's table for a test file."""
        return next(row for file, row in self.rows.items() if str(path).endswith(file))

    def small(self, row, params):
        """True if none of the parameters `params` exceeds its limit in the row."""
        return all(largest(value) <= row["limits"].get(name, row["most"]) for name, value in params.items())

    def pytest_collection_modifyitems(self, items):
        groups = collections.defaultdict(list)
        for item in items:
            row, params = self.row(item.path), getattr(item, "callspec", None)
            name = getattr(item, "originalname", item.name)
            if name in (row["functions"] or [name]) and not (row["leave"] and re.search(row["leave"], item.name)) and (
                    self.small(row, params.params if params else {})):
                groups[row["file"], name].append(item)
        items[:] = [found[n * len(found) // count] for (file, _), found in groups.items()
                    for count in [min(len(found), self.rows[file]["cases"])] for n in range(count)]

    def note(self, file, function, case, error, start):
        """Writes the result of a case as a JSON line. `start` is the time at which the case began."""
        result = (file, function, case, *outcome(error, self.session.used), time.process_time() - start)
        if result[3] == "wrong":
            traceback.print_exception(error)
        self.out.write(json.dumps(result) + "\n")

    def note_item(self, item, error, start):
        """Writes the result of pytest's case `item` as a JSON line."""
        name = getattr(item, "originalname", item.name)
        self.note(self.row(item.path)["file"], name, item.name[len(name):], error, start)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item):
        start = time.process_time()
        result = yield
        if result.excinfo and not issubclass(result.excinfo[0], pytest.skip.Exception):
            self.note_item(item, result.excinfo[1], start)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        self.session.used, start = 0, time.process_time()
        result = yield
        self.note_item(item, result.excinfo[1] if result.excinfo else None, start)

    def benchmark(self, file):
        """Returns the replacement of AITER's decorator of the same name in a script. Each call of a decorated function
        is a case, and an error ends that case only."""
        def decorator(function):
            def call(*args, **kwargs):
                given = inspect.signature(function).bind(*args, **kwargs).arguments
                self.session.used, start, error, out = 0, time.process_time(), None, None
                try:
                    out = function(*args, **kwargs)
                except Exception as e:  # pylint: disable=broad-except
                    error = e
                self.note(file, function.__name__, str(list(given.values())), error, start)
                return {**given, **(out if isinstance(out, dict) else {})}
            return functools.wraps(function)(call)
        return lambda: decorator


def strict(compare):
    """Returns AITER's checkAllclose(), changed to raise an exception where AITER's prints `failed`."""
    def check(a, b, *args, tol_err_ratio=0.05, msg="", **kwargs):
        share = compare(a, b, *args, tol_err_ratio=tol_err_ratio, msg=msg, **kwargs)
        if share > tol_err_ratio:
            raise AssertionError(f"{msg}: {share:.1%} of the elements differ")
        return share
    return check


def run_script(row, path, cases):
    """Runs a test file of AITER that is a script, with the row's arguments."""
    test_common = importlib.import_module("aiter.test_common")
    test_common.benchmark = cases.benchmark(row["file"])
    was, sys.argv = sys.argv, [path, *row["script"]]
    try:
        runpy.run_path(path, run_name="__main__")
    except (Exception, SystemExit) as e:  # pylint: disable=broad-except
        if isinstance(e, SystemExit) and not e.code:
            return
        cases.session.used = 0
        cases.note(row["file"], "script", "", e, time.process_time())
    finally:
        sys.argv = was


def main(job):
    job = json.loads(job)
    if job["vllm"]:
        import vllm_session  # it needs the package hipsim, which the other suites do without
        vllm_session.use_triton(job["target"])
    simulated_cuda.install(job["target"], triton_runs=job["vllm"])
    session = op_session.install(job["checkout"], job["target"])
    if job["vllm"]:
        vllm_session.install(job["target"], job["folder"])
    cases = Cases(job["rows"], session, job["out"])
    folder = job["folder"]
    files = [os.path.join(folder, row["file"]) for row in job["rows"] if "script" not in row]
    if files:
        pytest.main([*files, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rN",
                     "--continue-on-collection-errors"], plugins=[cases])
    test_common = importlib.import_module("aiter.test_common")
    compare = test_common.checkAllclose
    for row in job["rows"]:
        if "script" in row:
            test_common.checkAllclose = strict(compare) if row["strict"] else compare
            run_script(row, os.path.join(folder, row["file"]), cases)


if __name__ == "__main__":
    main(sys.argv[1])
