# SPDX-License-Identifier: Apache-2.0
"""python -m hipsim: runs a script whose Triton kernels run on a simulated GPU."""
import os
import runpy
import sys

import hipsim

USAGE = """Usage: python -m hipsim [--KEY VALUE | --KEY=VALUE | --KEY]... SCRIPT [ARGUMENT]...
       python -m hipsim [OPTION]... -m MODULE [ARGUMENT]...
Run a Python program whose Triton kernels compile for, and run on, a simulated MI300X or MI355X.

  --target GPU     mi300x (default), mi355x, or another name that `hipsim --help` lists
  --checks WHICH   on, off, or names joined by +; all but strict are on by default
  --time           prints the modelled time of every launch

Every other option of `hipsim --help` is taken as well. Tensors are torch's CPU tensors, and device="cuda" means their
memory. No figure is measured on hardware. Exit status: the script's; 2: bad option; 3: a check found something."""
SWITCHES = {"time", "stats", "hints"}
FINDINGS = 3


def parse(words):
    """Splits the command line into options, whether the program is a module, and its words."""
    options, at = {}, 0
    while at < len(words) and words[at].startswith("--"):
        key, equals, value = words[at][2:].partition("=")
        if not equals and key in SWITCHES:
            value = "on"
        elif not equals:
            at += 1
            if at == len(words):
                raise hipsim.HipsimError(f"no value of --{key}")
            value = words[at]
        options[key] = value
        at += 1
    is_module = words[at:at + 1] == ["-m"]
    return options, is_module, words[at + is_module:]


def run(is_module, words):
    """Runs a program in this process as python itself would."""
    sys.argv = words
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def main():
    if sys.argv[1:2] in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    try:
        options, is_module, words = parse(sys.argv[1:])
        if not words:
            raise hipsim.HipsimError("no script; python -m hipsim --help says how")
        if not is_module and not os.path.exists(words[0]):
            raise hipsim.HipsimError(f"{words[0]}: no such file")
        hipsim.use(**options)
    except ModuleNotFoundError as e:
        print(f"hipsim: {e.name} is not installed, and scripts need it: pip install {e.name}", file=sys.stderr)
        return 2
    except hipsim.HipsimError as e:
        print(f"hipsim: {e}", file=sys.stderr)
        return 2
    try:
        run(is_module, words)
    except SystemExit as e:
        if e.code not in (None, 0):
            raise
    return FINDINGS if hipsim.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
