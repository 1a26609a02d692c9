# SPDX-License-Identifier: Apache-2.0
"""Parses the command lines of the suites in this folder, and finds the parts of attnc that their processes use: in a
build tree, or installed from wheels."""
import argparse
import os
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
PARTS = {"ATTN_LIBRARY": "runtime/libattn.so", "ATTN_HIPSIM": "tools/hipsim/hip/libamdhip64.so", "ATTN_ATTNC": "tools/attnc/attnc"}


def is_environment(build):
    """True if BUILD is a virtual environment of Python, with the wheels of attn, attnc and hipsim; False for a build tree."""
    return (build / "bin" / "python").exists()


def python(build, folder):
    """Returns the path of the Python that runs a process of a suite: BUILD's if it is an environment, else FOLDER's."""
    return (build if is_environment(build) else folder / "venv") / "bin" / "python"


def environment(build, hipsim):
    """Returns the environment variables of a process that uses the Python package of BUILD. `hipsim`: value of the
    variable HIPSIM, the simulator's options."""
    out = dict(os.environ)
    places = [str(HERE)]
    for name, part in PARTS.items():
        out.pop(name, None)
        if not is_environment(build):
            out[name] = str(build / part)
    if not is_environment(build):
        places.insert(0, str(build / "python"))
    if "CC" in out and shutil.which(out["CC"]) is None:
        del out["CC"]  # Triton runs $CC as the name of a program, and fails with `ccache gcc`
    # With several OpenMP threads most of the time is waiting, if other programs use the machine too.
    out.update(PYTHONPATH=os.pathsep.join(places), HIPSIM=hipsim, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    return out


def build_folder(text):
    """Returns the absolute path `text` of a build tree or of an environment with wheels. A function for argparse's
    parameter `type`; raises its error for another folder."""
    path = pathlib.Path(text).absolute()
    if is_environment(path):
        if not any(path.glob("lib/python3*/site-packages/attn/_native.py")):
            raise argparse.ArgumentTypeError(f"{text} is an environment of Python without the wheel of attn")
        return path
    path = path.resolve()
    missing = [part for part in PARTS.values() if not (path / part).exists()]
    if missing:
        raise argparse.ArgumentTypeError(f"{text} has no {missing[0]}: it is not a build tree, or is not built")
    return path


def parser(text, names, of_names):
    """Returns a parser of BUILD, FOLDER and any number of `names`, whose help is `of_names`. `text` is a program's
    documentation."""
    out = argparse.ArgumentParser(description=text.partition(":")[2].strip(), formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("build", metavar="BUILD", type=build_folder, help="the build tree that is tested, or an environment of Python with the wheels of a release")
    out.add_argument("folder", metavar="FOLDER", type=lambda path: pathlib.Path(path).resolve(),
                     help=f"the folder that {HERE / 'prepare.sh'} makes")
    out.add_argument(names, metavar=names.upper()[:-1], nargs="*", help=of_names)
    return out


def unknown(names, known):
    """Returns the members of `names` that are no part of any string in `known`."""
    return [name for name in names if not any(name in one for one in known)]
