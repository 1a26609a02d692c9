# SPDX-License-Identifier: Apache-2.0
"""Provides `aiter` for AITER's own tests: attn.aiter's calls, AITER's own modules if they only need PyTorch, and a
session that compiles each kernel that a call needs."""
import functools
import importlib
import importlib.abc
import importlib.util
import os
import pathlib
import re
import sys
import types

import torch

import attn
from attn import _compiler, aiter
from attn.aiter import _common

# Modules that are loaded from AITER's checkout: references, comparisons, quantisation in PyTorch.
OWN = frozenset("""aiter.bert_padding aiter.ops.quant aiter.ops.shuffle aiter.ops.triton.utils.shuffle aiter.ops.triton.utils.types
    aiter.test_common aiter.test_mha_common aiter.utility.fp4_utils aiter.utility.mx_types aiter.utility.dtypes
    aiter.utility.aiter_types""".split())
FROM_QUANT = "pertoken_quant per_tensor_quant per_1x32_f4_quant get_torch_quant get_dtype_max"  # AITER has them at its root
# {member of a descriptor: its name in descriptions}, if the names differ
FIELDS = {"q_out_dtype": "out_dtype", "layout": "kv_layout", "kind": "metadata"}


class Backward(Exception):
    """Raised when a test continues with gradients, after it has compared the outputs."""


def backward(*args, **kwargs):
    """Replaces the functions that AITER's tests call for gradients. Raises Backward."""
    raise Backward


STATES = {  # functions with which tests query or set AITER's implementations
    "aiter.ops.triton.attention.unified_attention": {"is_2d_gluon_available": lambda *a, **k: False},
    "aiter.ops.triton.attention.mha": {"mha_set_use_fused_bwd_kernel": backward, "mha_set_use_int64_strides": lambda *a: None},
    "aiter.ops.triton._triton_kernels.flash_attn_triton_amd.utils": {"FP8_ARCHS": ("gfx942", "gfx950")},
}
PLAIN = ("heads", "kv_heads", "value_heads")  # members of descriptors on whose ratio only a kernel depends


class Own(importlib.abc.MetaPathFinder):
    """Finds the modules of OWN in AITER's checkout."""

    def __init__(self, checkout):
        self.checkout = pathlib.Path(checkout)

    def find_spec(self, name, path=None, target=None):
        if name not in OWN:
            return None
        return importlib.util.spec_from_file_location(name, self.checkout.joinpath(*name.split(".")).with_suffix(".py"))


@functools.lru_cache
def fields(kind):
    """Returns the fields that the op `kind` has in descriptions."""
    text = _compiler.attnc("fields", "help", kind)[1].partition("No kernel has")[0]
    return {"op", *re.findall(r"^- `(\w+)`:", text, re.MULTILINE),
            *re.findall(r"`(\w+)`", text.partition("true or false:")[2])}


def entry(kind, desc):
    """Returns the entry of a description whose kernel serves the descriptor `desc` of the op `kind`."""
    out = {"op": kind}
    for name, value in desc.items():
        if name == "cache":
            if value is not None:
                out.update(kv_dtype=value.dtype or "same", kv_layout=value.layout, kv_scale=value.scale, page_size=value.page_size)
        elif name == "cos_sin_short":
            out["cos_sin"] = "same" if value else "f32"
        elif name == "logits":
            if value:
                out["logits"] = os.path.join(os.environ["ATTN_HOOKS"], value + ".c")
        elif name == "heads" and kind.startswith("indexer"):
            out["index_heads"] = value
        elif value is not None and name not in PLAIN:
            out[FIELDS.get(name, name)] = value
    if kind in ("decode", "prefill", "rope_decode"):
        out["gqa"] = desc["heads"] // desc["kv_heads"]
    if kind == "mla_decode":
        out["gqa"] = desc["heads"]
    for name in {"rope", "mask", "norm"} & fields(kind):
        out.setdefault(name, "none")  # the descriptor's default, since a description has other defaults
    unpaged = {"kv_dtype", "kv_layout", "kv_scale", "page_size"} if kind == "prefill" and not desc.get("paged") else set()
    return {name: value for name, value in out.items() if name in fields(kind) - unpaged}


class Compiling(_common.Session):
    """A session that compiles the kernel of a descriptor when a call first needs it. `used` counts the ops that calls
    looked up."""

    used = 0

    def op(self, kind, **desc):
        self.used += 1
        key = (kind, repr(sorted(desc.items())))
        found = self.ops.get(key)
        if found is None:
            found = self.ops[key] = self.compiled(kind, desc)
        if isinstance(found, attn.AttnError):
            raise found
        return found

    def compiled(self, kind, desc):
        """Compiles the kernel and returns the op, or returns the error that says why no kernel serves the
        descriptor."""
        try:
            return getattr(self.device, kind)(**desc)
        except attn.AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                return e
        try:
            pack = attn.build({"targets": [self.device.target], "kernels": [entry(kind, desc)]})
            return getattr(attn.Device(pack, hip="sim"), kind)(**desc)
        except attn.AttnError as e:
            reasons = re.findall(r"error: (.*)", str(e)) or [str(e)]
            return attn.AttnError("ATTN_NO_KERNEL", f"{kind}: {'; '.join(dict.fromkeys(reasons))}")


def absent(path):
    """Returns a function that raises NotInstalled, in place of AITER's function `path`, which is neither attention nor
    PyTorch."""
    def call(*args, **kwargs):
        raise aiter.NotInstalled(path, f"{path} is none of attn.aiter's calls")
    return call


def once(function, *args, **kwargs):
    """Replaces AITER's run_perftest without repetitions. Returns (the function's result, 1 microsecond)."""
    for name in ("num_iters", "num_warmup", "testGraph", "num_rotate_args", "needTrace", "use_cuda_event"):
        kwargs.pop(name, None)
    return function(*args, **kwargs), 1.0


def perftest(*args, **kwargs):
    """Replaces AITER's decorator of the same name: a decorated function runs through once()."""
    return lambda function: functools.wraps(function)(lambda *a, **k: once(function, *a, **k))


def install(checkout, target):
    """Installs `aiter` in this process, as the top of this file describes. Returns the session."""
    pack = attn.build({"targets": [target], "kernels": [{"op": "plan", "q_tiles": [False, True]}]})
    session = _common._devices[0] = Compiling(attn.Device(pack, hip="sim"))
    aiter.install(real=False, placeholders=True)
    sys.meta_path.insert(0, Own(checkout))
    sys.path.append(str(checkout))  # op_tests
    torch.autograd.grad = backward
    core = types.ModuleType("aiter.jit.core")
    core.compile_ops = lambda *a, **k: lambda function: absent(f"aiter.{function.__name__}")
    core.is_experimental_enabled = lambda: False
    sys.modules["aiter.jit.core"] = core
    import aiter as root
    from aiter.ops import quant
    for name in FROM_QUANT.split():
        setattr(root, name, getattr(quant, name))
    # imported by name, since the attribute of `aiter` would be a placeholder
    test_common = importlib.import_module("aiter.test_common")
    for path, names in STATES.items():
        vars(importlib.import_module(path)).update(names)
    test_common.run_perftest, test_common.perftest = once, perftest
    return session
