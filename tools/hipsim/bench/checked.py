# SPDX-License-Identifier: Apache-2.0
"""Runs commands on hipsim and reads what its checks report."""
import csv
import json
import os
import subprocess
import tempfile


class Outcome:
    """Holds what a command did. status: its exit status, -1 if it did not end in time. output: what it printed. findings: how many
    places each check reported. kernels: (check, kernel) of them. launches: of kernels."""

    def __init__(self, status, output):
        self.status, self.output = status, output
        self.findings, self.kernels, self.launches = {}, set(), 0

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


def run(command, settings, seconds, folder=None):
    """Runs a command with settings of hipsim beside the environment's, for some seconds at most. {options} in a word of
    it becomes the settings. Returns its outcome."""
    with tempfile.TemporaryDirectory() as scratch:
        report, counters = os.path.join(scratch, "report"), os.path.join(scratch, "counters")
        text = ",".join(filter(None, [os.environ.get("HIPSIM"), "summary=off", f"json={report}", f"counters={counters}", settings]))
        words = [word.replace("{options}", "," + text) for word in command]
        try:
            done = subprocess.run(words, env=dict(os.environ, HIPSIM=text), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, cwd=folder)
            outcome = Outcome(done.returncode, done.stdout)
        except subprocess.TimeoutExpired:
            outcome = Outcome(-1, "timeout")
        outcome.read_report(report)
        if os.path.exists(counters):
            with open(counters, encoding="utf-8", newline="") as rows:
                outcome.launches = sum(1 for _ in csv.DictReader(rows))
        return outcome
