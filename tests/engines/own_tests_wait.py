#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that own_tests.wait() prints the number of results while a process runs, and stops the process at an interrupt."""
import contextlib
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest.mock

import own_tests

RESULT = json.dumps(["file", "function", "case", "passed", "", 2.0])
# Writes one result and a part of the next one, and ends when its input does.
PROGRAM = "import sys; out = open(sys.argv[1], 'a'); out.write(sys.argv[2] + '\\n' + sys.argv[2][:9]); out.flush(); sys.stdin.read()"


class Watched(subprocess.Popen):
    """A process whose second wait without an exit code ends its input, or is interrupted."""
    interrupt, waits = False, 0

    def wait(self, timeout=None):
        try:
            return super().wait(timeout)
        except subprocess.TimeoutExpired:
            self.waits += bool(own_tests.read(self.path))
            if self.waits == 2 and self.interrupt:
                raise KeyboardInterrupt from None
            if self.waits == 2:
                self.stdin.close()
            raise


def waited(path, interrupt):
    """Returns (exit code, printed text) of a process that own_tests.wait() waits for."""
    path.write_text("")
    printed = io.StringIO()
    process = Watched([sys.executable, "-c", PROGRAM, str(path), RESULT], stdin=subprocess.PIPE)
    process.path, process.interrupt = path, interrupt
    with contextlib.redirect_stderr(printed), contextlib.suppress(KeyboardInterrupt):
        own_tests.wait(process, "gfx942", path, 0.05)
    return subprocess.Popen.wait(process), printed.getvalue()


def main():
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "results"
        code, printed = waited(path, False)
        assert code == 0, code
        assert printed.count("gfx942: 1 cases in 2 CPU seconds") == 1, printed
        code, _ = waited(path, True)
        assert code == -signal.SIGKILL, "the process goes on after an interrupt"
        with unittest.mock.patch.object(own_tests, "print", side_effect=KeyboardInterrupt, create=True):
            code, _ = waited(path, False)
        assert code == -signal.SIGKILL, "the process goes on after an interrupt between two waits"


if __name__ == "__main__":
    sys.exit(main())
