# SPDX-License-Identifier: Apache-2.0
"""case_server.py ENGINE [aiter]: runs cases of run.py. This process imports the engine, and each case is a fork of it: an import
takes longer than most cases.

Standard input has a case a line, as JSON: the name of its step module, the arguments of that module's main(), and the
paths of two files for its outputs. For each case this program writes a line: the case's exit code, and the CPU seconds
of its process and all processes that it started. ENGINE is vllm or sglang. With `aiter` the module tree of attn.aiter
is installed before the import, since engines look for it then."""
import ctypes
import gc
import glob
import importlib
import json
import os
import signal
import sys
import traceback

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(): orphans of a case become children of this process


def run(job):
    """Runs a case in this process, which ends."""
    code = 1
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in ((1, job["out"]), (2, job["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    try:
        importlib.import_module(job["step"]).main(job["case"])
        code = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # ends without waiting for the engine's threads


def kill_children():
    """Kills the children of this process, whichever process group or session they are in. Theirs then become its children."""
    for path in glob.glob("/proc/self/task/*/children"):
        with open(path, encoding="ascii") as file:
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)


def finish(child):
    """Waits for the case whose process is `child`, then ends what it left. Returns its exit code, negative for a signal, and the CPU
    seconds of all its processes."""
    code, seconds, ended = 1, 0.0, False
    while True:
        if ended:
            kill_children()
        try:
            pid, status, usage = os.wait3(0)
        except ChildProcessError:
            return code, seconds
        seconds += usage.ru_utime + usage.ru_stime
        if pid == child:
            code, ended = os.waitstatus_to_exitcode(status), True


def main(engine, *options):
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    if "aiter" in options:
        from attn import aiter
        aiter.install()
    importlib.import_module(f"{engine}_step").load()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            run(json.loads(line))
        print(json.dumps(finish(child)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
