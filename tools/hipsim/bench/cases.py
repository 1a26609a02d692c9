# SPDX-License-Identifier: Apache-2.0
"""Runs functions of Python files that launch kernels, each in a process forked after the imports."""
import ctypes
import fnmatch
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import traceback

import checked

PREFIX = "case_"
# Most seconds on the clock for each second of CPU time: other work shares the machine, and a case may wait without end.
PATIENCE = 10


def import_cases(path):
    """Imports a file. Returns its functions that are cases, by name without the prefix."""
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return {name[len(PREFIX):]: f for name, f in vars(module).items() if name.startswith(PREFIX)}


def end_process(status):
    """Ends a forked process. Runs the C library's exit handlers, which write the simulator's files, but not Python's."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(status)


def forked(work, output):
    """Calls work() in a forked process that prints to the file `output`. Returns its exit status; negative: a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            status = work() or 0
        except BaseException:  # any exception of a case is a result
            traceback.print_exc()
        end_process(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_case(function, seconds):
    """Runs a case in its own process, for at most `seconds` of CPU time or PATIENCE times as many on the clock. Returns
    its Outcome."""
    import hipsim
    with tempfile.TemporaryDirectory() as scratch:
        report, counters = os.path.join(scratch, "report"), os.path.join(scratch, "counters")

        def work():
            """Runs the case with limits on its time. Returns the status of the process."""
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
            signal.alarm(int(PATIENCE * seconds))
            hipsim.library().configure(json=report, counters=counters, summary=False)
            text = function()
            print(text if text is not None else "")

        with open(os.path.join(scratch, "output"), "w+", encoding="utf-8", errors="replace") as output:
            status = forked(work, output)
            output.seek(0)
            late = status in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
            end = f"\nended by signal {-status}" if status < 0 else ""
            outcome = checked.Outcome(None if late else status, output.read() + end)
        outcome.read_report(report)
        outcome.read_counters(counters)
        return outcome


def run_target(paths, target, checks, seconds, only, tell):
    """Simulates `target` for HIP, and for Triton if that is installed. Imports the files and runs their cases. Calls
    tell(name, Outcome) after each."""
    import hipsim
    has_triton = importlib.util.find_spec("triton") is not None
    (hipsim.use if has_triton else hipsim.library().configure)(target=target, checks=checks, halt="off")
    for path in paths:
        for name, function in import_cases(path).items():
            if fnmatch.fnmatch(name, only):
                tell(name, run_case(function, seconds))


def run(paths, target, checks, seconds, only):
    """Runs the cases of the files on `target`, in a process of its own for the target. Yields (name, Outcome) of each."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        os.close(read)
        try:
            with os.fdopen(write, "w", encoding="utf-8") as pipe:
                run_target(paths, target, checks, seconds, only,
                           lambda name, outcome: print(json.dumps([name, outcome.as_list()]), file=pipe, flush=True))
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        for line in pipe:
            name, fields = json.loads(line)
            yield name, checked.Outcome.from_list(fields)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"alarms: the cases cannot run on {target}")
