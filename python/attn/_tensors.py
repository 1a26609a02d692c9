# SPDX-License-Identifier: Apache-2.0
"""Reads a tensor's address, and its sign: a value that changes with dtype, shape, strides and device. Each class of
tensors has a reader. Objects of other classes need __cuda_array_interface__ or __dlpack__."""
import ctypes
import sys

from attn._native import AttnError

# DLPack's codes of element types, and then of devices.
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
CPU, ROCM = 1, 10

NUMPY = {
    "int8": (INT, 8), "int32": (INT, 32), "int64": (INT, 64), "uint8": (UINT, 8),
    "bool": (BOOL, 8), "float16": (FLOAT, 16), "float32": (FLOAT, 32), "float64": (FLOAT, 64),
    "bfloat16": (BFLOAT, 16),
    "uint16": (BFLOAT, 16),  # numpy has no bfloat16, so its bits are passed as uint16
    "int16": (INT, 16), "uint32": (UINT, 32), "uint64": (UINT, 64),
}
# The targets of the two forms of e4m3: fn has a negative zero, fnuz has none.
FP8 = {"float8_e4m3fn": "gfx950", "float8_e4m3fnuz": "gfx942"}
TYPESTR = {"|u1": (UINT, 8), "|i1": (INT, 8), "|b1": (BOOL, 8), "<f2": (FLOAT, 16),
           "<f4": (FLOAT, 32), "<f8": (FLOAT, 64), "<i4": (INT, 32), "<i8": (INT, 64),
           "<u2": (BFLOAT, 16), "<i2": (INT, 16), "<u4": (UINT, 32), "<u8": (UINT, 64)}


UNEVEN = "a stride is not a multiple of the element's size"

# Element types of descriptors by the names that torch and numpy have for them. numpy's own bf16 are uint16.
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float8_e4m3fn": "fp8",
          "float8_e4m3fnuz": "fp8"}


def dtype_name(value, target=None):
    """Returns attnc's name of a dtype of torch or numpy, or of a dtype's name there. Other values are returned as they
    are. Raises an error for the fp8 format that the target does not have."""
    name = value
    if not isinstance(value, str):
        numpy = sys.modules.get("numpy")
        if str(value).startswith("torch."):
            name = str(value)[len("torch."):]
        elif numpy and (isinstance(value, numpy.dtype) or isinstance(value, type) and issubclass(
                value, numpy.generic)):
            name = numpy.dtype(value).name
        else:
            name = getattr(value, "__name__", None) if isinstance(value, type) else None
    if target and FP8.get(name, target) != target:
        raise AttnError("ATTN_BAD_ARGUMENT", f"{name} is the fp8 of {FP8[name]}, which {target} does not have")
    return DTYPES.get(name, value if isinstance(value, str) else name or value)


def is_bool(value):
    """True if a value is a bool of Python or numpy."""
    return type(value).__name__ in ("bool", "bool_")


class Sign(tuple):
    """The form of a tensor: (code, bits, shape, strides in elements, device's type, device's number, fp8's GPU)."""


def dense(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return tuple(strides)


def read_none(_, op):
    return 0, None


def read_torch(x, op):
    if x.is_cuda:
        return x.data_ptr(), (x.dtype, x.shape, x.stride(), True)
    op.device.host.hold(x, op.device.hip)
    return x.data_ptr(), (x.dtype, x.shape, x.stride(), False)


def read_numpy(x, op):
    op.device.host.hold(x, op.device.hip)
    return x.ctypes.data, (x.dtype, x.shape, x.strides, False)


def expand(x, sign, device):
    """Returns the Sign of a tensor from the sign that its reader returned."""
    if type(sign) is Sign:
        return sign
    if not hasattr(x, "data_ptr"):
        code = NUMPY.get(x.dtype.name)
        fp8 = FP8.get(x.dtype.name)
        if not code and not fp8:
            raise TypeError(f"attn has no use for numpy's dtype {x.dtype}")
        if not x.dtype.isnative:
            raise TypeError(f"numpy's {x.dtype.str} has the byte order of other machines, use astype({x.dtype.name!r})")
        size = x.dtype.itemsize
        if any(s % size for s in x.strides):
            raise TypeError(UNEVEN)
        strides = tuple(s // size for s in x.strides)
        return Sign((*(code or (UINT, 8)), x.shape, strides, ROCM, device.ordinal, fp8))
    name = str(x.dtype).rsplit(".", 1)[-1]
    code, fp8 = NUMPY.get(name) if name != "uint16" else None, FP8.get(name)
    if not code and not fp8:
        raise TypeError(f"attn has no use for {x.dtype}")
    ordinal = x.get_device() if x.is_cuda else device.ordinal
    return Sign((*(code or (UINT, 8)), tuple(x.shape), tuple(x.stride()), ROCM, ordinal, fp8))


def read_array_interface(x, op):
    """Reads __cuda_array_interface__: of arrays of numba and CuPy on ROCm, and of DeviceArray."""
    i = x.__cuda_array_interface__
    code = TYPESTR.get(i["typestr"])
    if not code:
        raise TypeError(f"attn has no use for {i['typestr']}")
    size, strides = code[1] // 8, i.get("strides")
    if strides and any(s % size for s in strides):
        raise TypeError(UNEVEN)
    strides = tuple(s // size for s in strides) if strides else dense(i["shape"])
    return i["data"][0], Sign((*code, tuple(i["shape"]), strides, ROCM, op.device.ordinal, None))


def is_read_only(x):
    """True if numpy or __cuda_array_interface__ says that a tensor must not be written."""
    interface = getattr(x, "__cuda_array_interface__", None)
    return interface["data"][1] if interface else not getattr(getattr(x, "flags", None), "writeable", True)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def read_dlpack(x, op):
    """Reads a tensor through __dlpack__. The capsule is not consumed, so the caller's tensor keeps the memory."""
    t = _DLTensor.from_address(_capsule_pointer(x.__dlpack__(), b"dltensor"))
    if t.lanes != 1:
        raise TypeError(f"each element has {t.lanes} numbers")
    shape = tuple(t.shape[:t.ndim])
    strides = tuple(t.strides[:t.ndim]) if t.strides else dense(shape)
    return (t.data or 0) + t.byte_offset, Sign((t.code, t.bits, shape, strides, t.device_type,
                                                t.device_id, None))


class Readers(dict):
    """{class of tensors: its reader}. The reader of a new class is looked up at its first tensor."""

    def __missing__(self, cls):
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch and issubclass(cls, torch.Tensor):
            reader = read_torch
        elif numpy and issubclass(cls, numpy.ndarray):
            reader = read_numpy
        elif hasattr(cls, "__cuda_array_interface__"):
            reader = read_array_interface
        elif hasattr(cls, "__dlpack__"):
            reader = read_dlpack
        else:
            raise TypeError(f"{cls.__name__} is no tensor: it has neither "
                            "__cuda_array_interface__ nor __dlpack__")
        self[cls] = reader
        return reader


READ = Readers({type(None): read_none})
