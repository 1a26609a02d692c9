# SPDX-License-Identifier: Apache-2.0
"""Compares the example of README.md with the output of attnc.

Usage: readme.py ATTNC README

Names, headings and columns have to agree. The kernel must have each line of IR and assembly, apart from the numbers of
values and registers. Times and other figures may differ, since kernels change.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

attnc, readme = sys.argv[1:]
text = pathlib.Path(readme).read_text(encoding="utf-8")
faults = []


def blocks():
    """Returns the indented blocks of the page, as lists of lines without their indentation."""
    found, block = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block:
            found.append(block)
            block = []
    return found


def block_with(word):
    """Returns the only block of the page that has `word`. Ends the program if there is another number of blocks."""
    found = [b for b in blocks() if any(word in line for line in b)]
    if len(found) != 1:
        sys.exit(f"readme: {len(found)} blocks have '{word}'")
    return found[0]


def run(*arguments):
    return subprocess.run([attnc, *arguments], check=True, capture_output=True, text=True).stdout


def numberless(line):
    """Returns a line of IR or assembly without the numbers of values, layouts and registers."""
    line = re.sub(r"[vsa]\[\d+:\d+\]", "R", re.sub(r"\b[vsa]\d+\b", "R", line.strip()))
    return re.sub(r"#\d+", "#", re.sub(r"%\d+", "%", line))


def compare_lines(name, lines, printed):
    """Records a fault for each of `lines` that the output `printed` lacks, apart from numbers."""
    there = {numberless(line) for line in printed.splitlines()}
    for line in lines:
        if numberless(line) not in there:
            faults.append(f"{name} has no line like: {line}")


def compare_list(listed):
    """Compares the page's block with the output of attnc list."""
    block = block_with("SPILL")
    printed = listed.splitlines()
    if block[0].split() != printed[0].split():
        faults.append(f"the heading of attnc list is: {printed[0]}")
    if [r.split()[0] for r in block[1:]] != [r.split()[0] for r in printed[1:]]:
        faults.append("attnc list has other kernels:\n" + listed)
    if any(len(r.split()) != len(block[0].split()) for r in block[1:]):
        faults.append("a row of attnc list has not a number for each column")


def compare_counts(built, listed):
    """Compares what attnc build says of kernels and entries (JSON) with the rows of attnc list."""
    names = [line.split()[0] for line in listed.splitlines()[1:]]
    kernels = [name for name in names if not re.search(r"_calls\d+$", name)]
    if (built["kernels"], built["entries"]) != (len(kernels), len(names)):
        faults.append(f"attnc build says {built['kernels']} kernels and {built['entries']} entries; attnc list:\n{listed}")
    if len(kernels) == len(names):
        faults.append("no kernel of the example has several entries")


def columns(line):
    """Returns a table's line without its first column."""
    return line.split(None, 1)[1]


def compare_verify(printed):
    """Compares the page's block with the output of attnc verify."""
    block = block_with("VERDICT")
    lines = printed.splitlines()
    heading = next(line for line in lines if line.startswith("KERNEL"))
    if columns(block[0]) != columns(heading):  # the first column is as wide as the longest name, so it is left out
        faults.append(f"the heading of attnc verify is:\n    {heading}")
    shape = re.compile(r"(\S+) +(\S.*?)  +(\d\.\d\de[+-]\d\d) +(\d\.\d\de[+-]\d\d) +\S+ +\S+  ok$")
    rows = {m.groups()[:2]: m for m in map(shape.match, lines) if m}
    for line in block[1:]:
        row = shape.match(line)
        there = row and rows.get(row.groups()[:2])
        if not there:
            faults.append(f"attnc verify has no row like: {line}")
        elif columns(line).index(row.group(3)) != columns(there.string).index(there.group(3)):
            faults.append(f"the columns of attnc verify differ: {there.string}")
    starts = {(m.start(3), m.start(4)) for m in map(shape.match, lines) if m}
    if len(starts) != 1 or heading.index("REL.ERR") + len("REL.ERR") != min(starts)[0] + len("1.90e-03"):
        faults.append(f"the columns of attnc verify are not one below the other:\n{printed}")


def main():
    description = re.search(r"```yaml\n# (\S+)\n(.*?)```", text, re.S)
    with tempfile.TemporaryDirectory() as room:
        name, pack, out = f"{room}/{description.group(1)}", f"{room}/x.attnpack", f"{room}/out"
        pathlib.Path(name).write_text(description.group(2))
        build = ("build", name, "--cache", f"{room}/cache", "-q", "-o")
        built = json.loads(run(*build, pack, "--json"))
        compare_list(run("list", pack))
        compare_counts(built, run("list", pack))
        rows = [line.split()[0] for line in block_with("VERDICT")[1:]]
        compare_verify(run("verify", pack, "--device", "sim", "--only", rows[0], "--shapes", "8"))
        first = run("help", "passes").splitlines()[2].split()[0]
        run(*build, out, "--target", "gfx950", "--emit=ir", f"--stop-after={first}")
        compare_lines(f"the IR after {first}", block_with(" : tile<"), pathlib.Path(out).read_text())
        run(*build, out, "--target", "gfx950", "--emit=asm")
        compare_lines("the assembly", block_with("v_mfma_"), pathlib.Path(out).read_text())
        commands = re.findall(r"^  ([a-z-]+)  +[A-Z]", run("help"), flags=re.M)
        for command in re.findall(r"`?attnc ([a-z-]+)", text):
            if command not in commands and re.search(rf"`attnc {command}\b", text):
                faults.append(f"there is no attnc {command}")
    if faults:
        sys.exit("\n".join(f"readme: {f}" for f in faults))


if __name__ == "__main__":
    main()
