# SPDX-License-Identifier: Apache-2.0
"""Parses the command lines of the suites in this folder, and finds the parts of a build tree that their processes
use."""
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
               # With several OpenMP threads most of the time is waiting, if other programs use the machine too.
               OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    return out


def build_folder(text):
    """Returns the path of a build tree, as a type of argparse. Raises an error for a folder without a build."""
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
    """Returns the members of `names` that are no part of any string in `known`."""
    return [name for name in names if not any(name in one for one in known)]
