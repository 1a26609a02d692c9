# SPDX-License-Identifier: Apache-2.0
"""Runs other projects' tests of AITER's calls, with attn.aiter in AITER's place, and compares the results with a list.

op_tests.py has AITER's own tests, vllm_tests.py has vLLM's, sglang_tests.py has SGLang's."""
import collections
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import build_tree

HERE = pathlib.Path(__file__).resolve().parent

# path: file of the list. rows: {target: [row() or script()]}. engine: the owner of the tests, "aiter", "vllm" or
# "sglang". tests: folder of the tests, in AITER's checkout or in FOLDER; "" for SGLang's tests, which are in the
# environment.
Suite = collections.namedtuple("Suite", "path rows engine tests")


def row(file, functions="", cases=24, most=300, leave="", **limits):
    """Returns a row for functions of a test file of pytest; "" means all functions. `cases`: largest number of cases
    for each function. `most`: largest number in a case's parameters; `limits` has other limits for single parameters.
    Cases whose name matches `leave` do not run."""
    return {"file": file, "functions": functions.split(), "cases": cases, "most": most, "leave": leave, "limits": limits}


def script(file, *arguments, strict=True):
    """Returns a row for a file that runs as a script with arguments. Each call of a function under AITER's @benchmark()
    is a case. `strict`: True if a case fails where AITER's checkAllclose() prints `failed`; False: only the file's own
    assertions fail."""
    return {"file": file, "script": list(arguments), "strict": strict}


def environment(build, target):
    """Returns the environment of a process that runs tests."""
    return dict(build_tree.environment(build, f"target={target}"), ATTN_HOOKS=str(HERE.parents[1] / "examples" / "hooks"))


def read(path):
    """Returns the results in a file whose last line may be unfinished."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def wait(process, target, out, period=20):
    """Waits for a process that writes results to the file `out`. Each `period` seconds it prints their number, if that
    changed. Returns the exit code, and kills the process at an interrupt."""
    last = -1
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(period)
            results = read(out)
            if len(results) != last:
                last = len(results)
                print(f"{target}: {last} cases in {sum(one[5] for one in results):.0f} CPU seconds", file=sys.stderr, flush=True)
    except BaseException:
        process.kill()
        raise


def run(suite, build, folder, checkout, target, rows):
    """Runs rows in another process. Returns [(file, function, case, kind, sentence, seconds)]. A row without any case
    ends the program."""
    tests = (checkout if suite.engine == "aiter" else folder) / suite.tests
    program = HERE / ("sglang_run.py" if suite.engine == "sglang" else "op_run.py")
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "results"
        out.touch()
        job = {"target": target, "checkout": str(checkout), "rows": rows, "out": str(out), "vllm": suite.engine == "vllm",
               "folder": str(tests)}
        command = [build_tree.python(build, folder), program, json.dumps(job)]
        log = pathlib.Path(work) / "log"
        with open(log, "wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder,
                                                         env=environment(build, target)) as process:
            code = wait(process, target, out)
        results, printed = read(out), log.read_text(errors="replace").splitlines()
    without = {one["file"] for one in rows} - {result[0] for result in results}
    if code or without:
        sys.exit("\n".join([*printed[-40:], f"exit code {code}; no case of {sorted(without)}"]))
    return results


def lines(target, results):
    """Returns the lines of the list for a target's results."""
    groups = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for file, function, _, kind, sentence, _ in results:
        groups[file, function][kind][sentence] += 1
    out = []
    for (file, function), kinds in groups.items():
        out.append(f"{target} {file} {function}: {kinds['passed'].total()} pass")
        for kind in ("passed", "refused", "left", "wrong"):
            out += [f"    {count} {kind}: {sentence}" for sentence, count in sorted(kinds[kind].items()) if sentence]
    return out


def parse(suite, text):
    """Returns the arguments of the command line. `text` is the program's documentation."""
    parser = build_tree.parser(text, "files", "a part of the names of the rows that run")
    parser.add_argument("--aiter", metavar="CHECKOUT", type=pathlib.Path, help="AITER's sources, FOLDER/aiter without it")
    parser.add_argument("--target", metavar="GFX", choices=suite.rows, help="one target; without it all")
    parser.add_argument("--write", action="store_true", help=f"write {suite.path.name}")
    args = parser.parse_intermixed_args()
    unknown = build_tree.unknown(args.files, [one["file"] for rows in suite.rows.values() for one in rows])
    if unknown:
        parser.error(f"no row has {' or '.join(map(repr, unknown))} in its name")
    return args


def main(suite, text):
    """Runs a suite with the arguments of the command line. Returns the exit code: 77 without the environment, 1 if a
    case is wrong or the list lacks a line."""
    args = parse(suite, text)
    build, folder = args.build, args.folder
    checkout = (args.aiter or folder / "aiter").resolve()
    needed = [build_tree.python(build, folder), checkout / "op_tests", *([folder / suite.tests] if suite.engine == "vllm" else [])]
    if not all(path.exists() for path in needed):
        print(f"skipped: {HERE}/prepare.sh {folder} makes {', '.join(map(str, needed))}")
        return 77
    out, counts, seconds = [], collections.Counter(), 0
    for target, rows in suite.rows.items():
        chosen = [one for one in rows if not args.files or any(name in one["file"] for name in args.files)]
        if not chosen or args.target not in (None, target):
            continue
        results = run(suite, build, folder, checkout, target, chosen)
        seconds += sum(one[5] for one in results)
        counts.update(one[3] for one in results)
        out += lines(target, results)
        for file, function, case, kind, sentence, _ in results:
            if kind == "wrong":
                print(f"WRONG {target} {file} {function}{case}: {sentence}")
    print(*out, sep="\n")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), f"in {seconds:.0f} CPU seconds")
    if args.write:
        suite.path.write_text("\n".join(out) + "\n")
    known = suite.path.read_text().splitlines() if suite.path.exists() else []
    missing = [line for line in out if line not in known]
    if missing:
        print(f"not in {suite.path.name}:", *missing, sep="\n  ")
    return bool(counts["wrong"] or missing or not counts["passed"])
