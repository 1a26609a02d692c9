# SPDX-License-Identifier: Apache-2.0
"""Launches kernels of code objects on hipsim through the HIP API, and reads hipsim's statistics."""
import ctypes
import re

import numpy as np

from outcome import MARGINS

# hipModuleLaunchKernel: HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
EXTRA_POINTER, EXTRA_SIZE, EXTRA_END = 1, 2, 3


CLUSTER_DIMENSION = 4  # hipLaunchAttributeClusterDimension


class Attribute(ctypes.Structure):
    """hipLaunchAttribute."""
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """HIP_LAUNCH_CONFIG."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("lds", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint)]


class Margin(ctypes.Structure):
    _fields_ = [("any", ctypes.c_bool), ("clocks", ctypes.c_uint32), ("offset", ctypes.c_int64)]


class Stats(ctypes.Structure):
    """struct hipsim_launch_stats of tools/hipsim/hip/hipsim.h."""
    _fields_ = [
        ("size", ctypes.c_size_t), ("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
        ("lds_bytes", ctypes.c_uint32), ("registers", ctypes.c_uint32 * 4),
        ("workgroups", ctypes.c_uint64), ("waves", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64 * 8), ("microseconds", ctypes.c_double),
        ("device", ctypes.c_int), ("lds_before", Margin), ("lds_after", Margin),
        ("findings", ctypes.c_uint64), ("vector_before", Margin), ("vector_after", Margin),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_char_p), ("kernel", ctypes.c_char_p), ("workgroup", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32), ("lanes", ctypes.c_uint64), ("pc", ctypes.c_uint64),
        ("text", ctypes.c_char_p),
    ]


REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Report))


class Failure(Exception):
    """Reports a failed HIP call."""


def kernel_of(path):
    """Returns the name of the only kernel of a code object."""
    with open(path, "rb") as f:
        names = sorted(set(re.findall(rb"(\w+)\.kd\0", f.read())))
    return names[0].decode() if names else None


class Device:
    """A HIP device of hipsim. A process can have only one, because the HIP library is loaded once."""

    def __init__(self, library, options):
        self.hip = ctypes.CDLL(library)
        why = ctypes.create_string_buffer(400)
        if not self.hip.hipsim_configure(options.encode(), why, len(why)):
            raise Failure(why.value.decode())
        self.reports, self.launches, self.objects = [], [], []
        self.callback = REPORT(self.note)
        self.hip.hipsim_set_report(self.callback, None)

    def note(self, _, report):
        r = report.contents
        self.reports.append((r.kind.decode(), r.text.decode()))

    def call(self, name, *args):
        error = getattr(self.hip, name)(*args)
        if error:
            text = " ".join(t for k, t in self.reports if k == "api")
            raise Failure("%s: error %d %s" % (name, error, text))

    def room(self, count, kind, value=None):
        """Allocates memory for `count` numbers of type `kind` and returns its address. Its bytes become `value`;
        None: they are undefined."""
        p = ctypes.c_void_p()
        size = max(16, int(count) * np.dtype(kind).itemsize)
        self.call("hipMalloc", ctypes.byref(p), ctypes.c_size_t(size))
        if value is not None:
            self.call("hipMemset", p, ctypes.c_int(value), ctypes.c_size_t(size))
        return p.value

    def put(self, array):
        array = np.ascontiguousarray(array)
        p = self.room(array.size, array.dtype)
        self.call("hipMemcpy", ctypes.c_void_p(p), ctypes.c_void_p(array.ctypes.data),
                  ctypes.c_size_t(array.nbytes), 1)
        return p

    def get(self, p, shape, kind):
        array = np.empty(shape, kind)
        self.call("hipMemcpy", ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(p),
                  ctypes.c_size_t(array.nbytes), 2)
        return array

    def launch(self, path, grid, block, args, cluster=None, lds=0):
        """Launches the only kernel of a code object and waits for it. `lds`: bytes of dynamic LDS. `cluster`:
        workgroups of a cluster by dimension; None: no clusters."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        kernel = kernel_of(path)
        self.call("hipModuleLoad", ctypes.byref(module), path.encode())
        self.call("hipModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        buffer = ctypes.create_string_buffer(args, len(args))
        size = ctypes.c_size_t(len(args))
        extra = (ctypes.c_void_p * 5)(EXTRA_POINTER, ctypes.addressof(buffer), EXTRA_SIZE,
                                      ctypes.addressof(size), EXTRA_END)
        if cluster:
            attribute = Attribute(CLUSTER_DIMENSION, 0, (ctypes.c_uint * 16)(*cluster))
            config = Config((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(block, 1, 1), lds, None,
                            ctypes.pointer(attribute), 1)
            self.call("hipDrvLaunchKernelEx", ctypes.byref(config), function, None, extra)
        else:
            self.call("hipModuleLaunchKernel", function, *(ctypes.c_uint(n) for n in grid),
                      ctypes.c_uint(block), ctypes.c_uint(1), ctypes.c_uint(1), ctypes.c_uint(lds),
                      None, None, extra)
        self.call("hipDeviceSynchronize")
        stats = Stats(size=ctypes.sizeof(Stats))
        self.hip.hipsim_last_launch(ctypes.byref(stats))
        self.launches.append(stats)
        self.objects.append(path)

    def margins(self):
        """Returns the arrival margins of each launch by name, in clocks; None: no such use."""
        return [{m: getattr(s, m).clocks if getattr(s, m).any else None for m in MARGINS}
                for s in self.launches]


def slots(*values):
    """Packs arguments of AITER's kernels, 16 bytes each."""
    out = b""
    for v in values:
        if isinstance(v, float):
            out += np.float32(v).tobytes() + bytes(12)
        else:
            out += (int(v) & 2**64 - 1).to_bytes(8, "little") + bytes(8)
    return out
