# SPDX-License-Identifier: Apache-2.0
"""A script of gdb that tells tools/mutate which lines a program runs.

The environment's MUTATE_LINES names a file with a list of [path, line] in JSON. The script stops at each line once, and
writes the list of answers to that file: true, false, or null for a line without code of its own. The program's exit
code becomes gdb's.
"""
import json
import os

import gdb  # pylint: disable=import-error

MOST_SKIPPED = 3  # a line's code may begin this many lines below it


class Line(gdb.Breakpoint):
    """A breakpoint that never stops the program. It is disabled once its line has run."""

    def stop(self):
        self.enabled = False
        return False


def place(path, line):
    """Returns a breakpoint at a line; False if the program has no such file, None if the line has no code."""
    try:
        where = gdb.decode_line("%s:%d" % (path, line))[1]
    except gdb.error as error:
        return False if "No source file" in str(error) else None
    if not where or not 0 <= where[0].line - line <= MOST_SKIPPED:
        return None
    return Line("%s:%d" % (path, where[0].line))


def main():
    name = os.environ["MUTATE_LINES"]
    gdb.execute("tbreak main")
    gdb.execute("run")
    gdb.execute("sharedlibrary hip|attn")
    with open(name, encoding="utf-8") as file:
        points = [place(path, line) for path, line in json.load(file)]
    gdb.execute("continue")
    answers = [not point.enabled if isinstance(point, Line) else point for point in points]
    with open(name, "w", encoding="utf-8") as file:
        json.dump(answers, file)
    gdb.execute("quit %d" % int(gdb.parse_and_eval("$_exitcode")))


main()
