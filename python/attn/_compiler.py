# SPDX-License-Identifier: Apache-2.0
"""attnc from Python: descriptions of models, and packs compiled from descriptions."""
import json
import operator
import os
import pathlib
import subprocess
import tempfile

from attn import _native
from attn._native import AttnError
from attn._pack import Pack
from attn._tensors import dtype_name, is_bool

MISSING = 3  # attnc's exit code if a model needs something that attnc does not have


def spelled(x):
    """Returns a copy of a description in which dtypes of torch and numpy have attnc's names, and integers and bools of
    numpy are Python's."""
    def value(name, v):
        if name != "dtype" and not name.endswith("_dtype"):
            return spelled(v)
        return [dtype_name(one) for one in v] if isinstance(v, (list, tuple)) else dtype_name(v)

    if isinstance(x, dict):
        return {name: value(str(name), v) for name, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [spelled(v) for v in x]
    if is_bool(x):
        return bool(x)
    return operator.index(x) if hasattr(x, "__index__") else x


def attnc(caller, *arguments, quiet=()):
    """Runs the command attnc with `arguments` and returns (exit code, standard output). Raises AttnError if the exit
    code is neither 0 nor in `quiet`. The error's text names `caller`, the function of this package that needed the
    command."""
    command = [_native.compiler_path(), *arguments]
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except (FileNotFoundError, PermissionError):
        raise AttnError("ATTN_BAD_ARGUMENT", f"attn.{caller} needs the compiler, and {command[0]} is no command here: "
                        "install attnc (Debian's package attnc, or the wheel with the compiler), or set ATTN_ATTNC to "
                        "its path; packs that were built elsewhere open without it") from None
    if run.returncode and run.returncode not in quiet:
        raise AttnError("ATTN_BAD_ARGUMENT", run.stderr.strip() or run.stdout.strip())
    return run.returncode, run.stdout


class Description(dict):
    """A model's attention, as `attnc describe` read it: kinds of layers with their heads, notes, and missing features.
    `text` is the description in YAML, which build() compiles."""
    text = ""


def describe(config, *, tp=1, page_size=16, kv_dtype="same", kv_scale="none", kv_layout="nhd", draft_tokens=None,
             draft_tree=False):
    """Reads a model's configuration: the path of a config.json or of its folder, a dict, or an object of transformers.
    Returns a Description of the kernels that a step launches. Its "missing" lists features of the model that attnc
    lacks.

    tp: ranks of tensor parallelism, one number or a list. page_size: tokens of a page, or "any". kv_dtype, kv_scale and
    kv_layout describe the KV cache. draft_tokens: speculative tokens of a step; None: as many as the configuration
    says. draft_tree: True adds kernels that verify drafts which form a tree, of 2 or more."""
    ranks = [tp] if isinstance(tp, int) else tp
    options = {"--tp": ",".join(map(str, ranks)), "--page-size": page_size, "--kv-dtype": dtype_name(kv_dtype),
               "--kv-scale": kv_scale, "--kv-layout": kv_layout, "--draft-tokens": draft_tokens}
    with tempfile.TemporaryDirectory(prefix="attn-") as folder:
        if hasattr(config, "to_dict"):
            config = config.to_dict()
        if isinstance(config, dict):
            source = pathlib.Path(folder) / "config.json"
            source.write_text(json.dumps(config, default=str))
        else:
            source = os.fspath(config)
        path = pathlib.Path(folder) / "description.yaml"
        given = [str(x) for name, value in options.items() if value is not None for x in (name, value)]
        given += ["--draft-tree"] * draft_tree
        _, output = attnc("describe", "describe", source, "-o", path, "--json", *given, quiet=(MISSING,))
        out = Description(json.loads(output))
        out.text = path.read_text()
    del out["output"]
    return out


def build(description, output=None, quiet=True):
    """Compiles a description and opens the pack. The description is a dict, a Description, or the path of a YAML file.
    `output` is the path of the pack; None: a file that is deleted when the process ends. The compiler's cache keeps the
    kernels in any case. In a dict, dtypes may be torch's and numpy's, or their names."""
    with tempfile.TemporaryDirectory(prefix="attn-") as folder:
        if isinstance(description, dict):
            source = pathlib.Path(folder) / "description.yaml"
            source.write_text(getattr(description, "text", None) or json.dumps(spelled(description)))
        else:
            source = os.fspath(description)
        path = output or os.path.join(folder, "kernels.attnpack")
        attnc("build", "build", source, "-o", path, *(["-q"] if quiet else []))
        return Pack(path)
