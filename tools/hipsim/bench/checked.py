# SPDX-License-Identifier: Apache-2.0
"""Runs commands on hipsim and reads what its checks report."""
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile


class Outcome:
    """The result of a command on hipsim. status: its exit status, None if it did not end in time. output: the text that
    it printed. findings: {check: number of places that it reported}. kernels: set of (check, kernel) of these reports.
    launched: the kernel of each launch."""

    def __init__(self, status, output):
        self.status, self.output = status, output
        self.findings, self.kernels, self.launched = {}, set(), []

    def is_right(self, pattern):
        """True if the command ended with status 0 and printed something that the pattern matches."""
        return self.status == 0 and bool(re.search(pattern, self.output))

    def read_report(self, path):
        """Adds the findings of a file that option json wrote."""
        if not os.path.exists(path):
            return
        for text in open(path, encoding="utf-8"):
            found = json.loads(text)
            check = found.get("check")
            if check not in (None, "api", "note"):
                self.findings[check] = self.findings.get(check, 0) + 1
                self.kernels.add((check, found.get("kernel", "")))

    def read_counters(self, path):
        """Adds the launches that the option `counters` has written to a file."""
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as rows:
                self.launched += [row["Kernel_Name"] for row in csv.DictReader(rows)]

    def as_list(self):
        """Returns the fields as a list that survives JSON; from_list() reverses it."""
        return [self.status, self.output, self.findings, sorted(self.kernels), self.launched]

    @staticmethod
    def from_list(fields):
        outcome = Outcome(*fields[:2])
        outcome.findings, outcome.launched = fields[2], fields[4]
        outcome.kernels = {tuple(pair) for pair in fields[3]}
        return outcome


def run(command, settings, seconds, folder=None):
    """Runs a command in `folder` for `seconds` at most, with `settings` of hipsim after the environment's. {options} in a word
    of the command becomes a comma and all settings. Returns the command's Outcome."""
    with tempfile.TemporaryDirectory() as scratch:
        report, counters = os.path.join(scratch, "report"), os.path.join(scratch, "counters")
        text = ",".join(filter(None, [os.environ.get("HIPSIM"), "summary=off", f"json={report}", f"counters={counters}", settings]))
        words = [word.replace("{options}", "," + text) for word in command]
        try:
            done = subprocess.run(words, env=dict(os.environ, HIPSIM=text), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, cwd=folder)
            outcome = Outcome(done.returncode, done.stdout)
        except subprocess.TimeoutExpired:
            outcome = Outcome(None, "timeout")
        outcome.read_report(report)
        outcome.read_counters(counters)
        return outcome


def programs(path):
    """Yields (name, folder, command, pattern) of a list of programs. A line is NAME | FOLDER | COMMAND | PATTERN. FOLDER is
    where the command runs, seen from the list's folder. The output of a right run has a match of PATTERN, if there is one. Empty
    lines and lines that begin with # are skipped."""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        fields = [field.strip() for field in text.split("|", 3)]
        if len(fields) < 3 or not all(fields[:3]):
            sys.exit(f"{path}:{number}: not NAME | FOLDER | COMMAND | PATTERN")
        yield fields[0], path.resolve().parent / fields[1], shlex.split(fields[2]), fields[3] if len(fields) > 3 else ""
