# SPDX-License-Identifier: Apache-2.0
"""Helpers that engines' attention modules import from AITER beside calls: element types, the GPU's name, enums.
install() provides them if AITER is not installed. Helpers that depend on the GPU or on torch are computed when they are
read."""
import enum
import logging
import os
import sys

from attn._native import AttnError, lib
from attn.aiter import _common as c

__version__ = f"0+attn.{lib.attn_version()}"
logger = logging.getLogger("aiter")


class ActivationType(enum.IntEnum):
    """Numbers of activations, as in AITER's csrc/include/aiter_enum.h."""
    No, Silu, Gelu, Swiglu, Situv2 = -1, 0, 1, 2, 3


class QuantType(enum.IntEnum):
    """Numbers of kinds of scales, as in AITER's csrc/include/aiter_enum.h."""
    No, per_Tensor, per_Token, per_1x32, per_1x128, per_128x128, per_256x128, per_1024x128 = range(8)


def get_gfx():
    """Returns the GPU's name, such as gfx942: of the device that use() was given, else from AITER's variable GPU_ARCHS,
    else of torch's current GPU."""
    session = next(iter(c._devices.values()), None)
    if session:
        return session.device.target
    archs = [name for name in os.environ.get("GPU_ARCHS", "").split(";") if name.startswith("gfx")]
    if archs:
        return archs[-1]
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available() and torch.version.hip:
        return torch.cuda.get_device_properties(torch.cuda.current_device()).gcnArchName.split(":")[0]
    raise AttnError("ATTN_NO_DEVICE", "the GPU is not known yet: call attn.aiter.use(packs) before the engine is imported, "
                    "or set GPU_ARCHS=gfx942")


get_gfx_runtime = get_arch = get_gfx


def get_cu_num():
    """Returns the number of compute units: of the device that use() was given, else of torch's current GPU."""
    session = next(iter(c._devices.values()), None)
    if session:
        return session.device.compute_units
    import torch
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


get_num_sms = get_cu_num


def make_kernel_repr(base_name, config_keys, name_key=None):
    """Returns a `repr` function for a Triton kernel. The function returns base_name with the values of the constants
    config_keys; "_" replaces letters that a symbol cannot have."""
    def symbol(value):
        letters = str(int(value) if isinstance(value, bool) else value)
        return "".join(x if x.isalnum() else "_" for x in letters).strip("_").upper() or "NONE"

    def named(specialization):
        constants = specialization.constants
        base = constants.get(name_key) if name_key else None
        return "_".join([base or base_name, *(f"{key}_{symbol(constants.get(key))}" for key in config_keys)])
    return named


def torch_compile_guard(mutates_args="unknown", device="cpu", calling_func_=None, gen_fake=None):
    """Returns a decorator that returns its function unchanged, so that torch.compile sees the function. AITER's
    decorator makes an operator of it."""
    return lambda function: function


# {AITER's name: torch's name}; fp8 is the target's
_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp4x2": "float4_e2m1fn_x2",
          "fp8_e8m0": "float8_e8m0fnu", "i16": "int16", "i32": "int32", "i4x2": "int4", "i64": "int64", "i8": "int8",
          "u8": "uint8"}
_PACKED = ("fp4x2", "fp8_e8m0", "i4x2")  # types that are uint8 in a torch that lacks them


def fp8():
    """Returns torch's fp8 dtype of the target, or uint8 in a torch without fp8."""
    import torch
    name = "float8_e4m3fnuz" if get_gfx() == "gfx942" else "float8_e4m3fn"
    return getattr(torch, name, torch.uint8)


def dtype(name):
    """Returns torch's dtype for AITER's name of it."""
    import torch
    if name == "fp8":
        return fp8()
    return getattr(torch, _TYPES[name], *((torch.uint8,) if name in _PACKED else ()))


def read(path, name):
    """Returns the value of the helper `name` of AITER's module `path`."""
    if name == "dtypes":
        import importlib
        return importlib.import_module("aiter.utility.dtypes")
    if name == "d_dtypes":
        return {each: dtype(each) for each in ("fp8", *_TYPES)}
    if name == "e4m3_dtype":
        return fp8()
    if path == "aiter.utility.dtypes":
        return dtype(name)
    return globals()[name]
