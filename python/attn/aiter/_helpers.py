# SPDX-License-Identifier: Apache-2.0
"""Small things that engines' attention modules import from AITER beside calls: element types, the GPU's name, enums.
install() offers them where AITER is not installed. What depends on the GPU or on torch is worked out when it is read."""
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
    """The target: of the device that use() was given, else AITER's variable GPU_ARCHS, else of torch's current GPU."""
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
    """Compute units of the GPU: of the device that use() was given, else of torch's current GPU."""
    session = next(iter(c._devices.values()), None)
    if session:
        return session.device.compute_units
    import torch
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


get_num_sms = get_cu_num


def make_kernel_repr(base_name, config_keys, name_key=None):
    """A `repr` for Triton's kernels: their name with the values of these constants, "_" for what a symbol cannot have."""
    def symbol(value):
        letters = str(int(value) if isinstance(value, bool) else value)
        return "".join(x if x.isalnum() else "_" for x in letters).strip("_").upper() or "NONE"

    def named(specialization):
        constants = specialization.constants
        base = constants.get(name_key) if name_key else None
        return "_".join([base or base_name, *(f"{key}_{symbol(constants.get(key))}" for key in config_keys)])
    return named


def torch_compile_guard(mutates_args="unknown", device="cpu", calling_func_=None, gen_fake=None):
    """A decorator that returns a function as it is. AITER's makes an operator of it; torch.compile sees the function."""
    return lambda function: function


# {AITER's name: torch's name}; fp8 is the target's
_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp4x2": "float4_e2m1fn_x2",
          "fp8_e8m0": "float8_e8m0fnu", "i16": "int16", "i32": "int32", "i4x2": "int4", "i64": "int64", "i8": "int8",
          "u8": "uint8"}
_PACKED = ("fp4x2", "fp8_e8m0", "i4x2")  # bytes, in a torch without them


def fp8():
    """torch's fp8 of the target, or bytes in a torch that has none."""
    import torch
    name = "float8_e4m3fnuz" if get_gfx() == "gfx942" else "float8_e4m3fn"
    return getattr(torch, name, torch.uint8)


def dtype(name):
    """torch's element type of AITER's name for it."""
    import torch
    if name == "fp8":
        return fp8()
    return getattr(torch, _TYPES[name], *((torch.uint8,) if name in _PACKED else ()))


def read(path, name):
    """The value of a helper of the module `path`."""
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
