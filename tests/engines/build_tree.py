# SPDX-License-Identifier: Apache-2.0
"""The command lines of the suites here, and the parts of a build tree that their processes use."""
import argparse
import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PARTS = {"ATTN_LIBRARY": "runtime/libattn.so", "ATTN_HIPSIM": "tools/hipsim/hip/libamdhip64.so", "ATTN_ATTNC": "tools/attnc/attnc"}


def environment(build, hipsim):
    """Returns the environment of a process that uses the Python package of a build tree. `hipsim` are settings of the
    simulator."""
    out = dict(os.environ)
    out.update({name: str(build / part) for name, part in PARTS.items()}, PYTHONPATH=f"{build / 'python'}:{HERE}", HIPSIM=hipsim,
               # Threads of OpenMP that wait for each other are most of the time on a machine that others use.
               OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    return out


def build_folder(text):
    """Returns the path of a build tree, for argparse. Refuses a folder that has no build."""
    path = pathlib.Path(text).resolve()
    missing = [part for part in PARTS.values() if not (path / part).exists()]
    if missing:
        raise argparse.ArgumentTypeError(f"{text} has no {missing[0]}: it is not a build tree, or is not built")
    return path


def parser(text, names, of_names):
    """Returns a parser of BUILD, FOLDER and any number of `names`, whose help is `of_names`. `text` is a program's
    documentation."""
    out = argparse.ArgumentParser(description=text.partition(":")[2].strip(), formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("build", metavar="BUILD", type=build_folder, help="the build tree that is tested")
    out.add_argument("folder", metavar="FOLDER", type=lambda path: pathlib.Path(path).resolve(),
                     help=f"the folder that {HERE / 'prepare.sh'} makes")
    out.add_argument(names, metavar=names.upper()[:-1], nargs="*", help=of_names)
    return out


def unknown(names, known):
    """Returns the names that are no part of any known one."""
    return [name for name in names if not any(name in one for one in known)]
