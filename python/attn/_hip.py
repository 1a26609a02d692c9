# SPDX-License-Identifier: Apache-2.0
"""The few functions of HIP that the package calls: host memory, streams, graphs."""
import sys
import threading
import weakref

from attn._native import AttnError, ffi, text

ffi.cdef("""
int hipSetDevice(int);
int hipGetDevice(int *);
int hipDeviceSynchronize(void);
int hipMalloc(uintptr_t *, size_t);
int hipFree(uintptr_t);
int hipMemcpy(uintptr_t, uintptr_t, size_t, int);
int hipHostRegister(uintptr_t, size_t, unsigned);
int hipHostUnregister(uintptr_t);
int hipMemGetAddressRange(uintptr_t *, size_t *, uintptr_t);
int hipGetLastError(void);
int hipStreamCreate(uintptr_t *);
int hipStreamDestroy(uintptr_t);
int hipStreamSynchronize(uintptr_t);
int hipStreamIsCapturing(uintptr_t, int *);
int hipStreamGetCaptureInfo(uintptr_t, int *, unsigned long long *);
int hipStreamBeginCapture(uintptr_t, int);
int hipStreamEndCapture(uintptr_t, uintptr_t *);
int hipGraphInstantiate(uintptr_t *, uintptr_t, uintptr_t *, char *, size_t);
int hipGraphLaunch(uintptr_t, uintptr_t);
int hipGraphDestroy(uintptr_t);
int hipGraphExecDestroy(uintptr_t);
const char *hipGetErrorString(int);
""")


class Hip:
    """The HIP library at `path`, which libattn found, for the device `ordinal`. A call that fails raises AttnError."""

    def __init__(self, path, ordinal):
        self.lib, self.path, self.ordinal = ffi.dlopen(path), path, ordinal

    def call(self, name, *args):
        status = getattr(self.lib, name)(*args)
        if status:
            raise AttnError("ATTN_HIP_FAILED", f"{name}: {text(self.lib.hipGetErrorString(status))}")

    def current(self):
        """Makes this device the current one of the calling thread."""
        self.call("hipSetDevice", self.ordinal)

    def covers(self, base, size):
        """True if `size` bytes of host memory from `base` are in one allocation or registration that HIP knows."""
        start, bytes_of_it = ffi.new("uintptr_t *"), ffi.new("size_t *")
        if self.lib.hipMemGetAddressRange(start, bytes_of_it, base):
            self.lib.hipGetLastError()  # clears the error, which torch would report as its own
            return False
        return start[0] <= base and base + size <= start[0] + bytes_of_it[0]

    def capturing(self, stream):
        answer = ffi.new("int *")
        self.call("hipStreamIsCapturing", stream, answer)
        return answer[0] == 1

    def capture(self, stream):
        """Returns the unique number of the capture that a stream is in; 0: the stream captures nothing."""
        answer, number = ffi.new("int *"), ffi.new("unsigned long long *")
        self.call("hipStreamGetCaptureInfo", stream, answer, number)
        return number[0] if answer[0] == 1 else 0


class Span:
    """Host memory that was registered with HIP in one piece, `size` bytes, and the objects that use it."""

    def __init__(self, size, owners):
        self.size, self.owners = size, owners  # {id of an object that uses the memory: weak reference}


class HostMemory:
    """Host memory that was registered with a HIP library, so that numpy arrays and torch's CPU tensors may be
    arguments. All devices of the library share it. The first use of a tensor registers its whole allocation. The
    allocation is unregistered when the last used tensor in it is gone. Memory that other code has pinned or registered
    stays as it is, and every call checks it again."""

    _shared, _lock = {}, threading.RLock()  # reentrant, since a weak reference's callback may run at any time

    @classmethod
    def of(cls, hip):
        """Returns the HostMemory that all devices with the library of `hip` share."""
        with cls._lock:
            return cls._shared.setdefault(hip.path, cls(hip))

    def __init__(self, hip):
        self.hip, self.spans, self.known = hip, {}, {}

    def hold(self, x, hip):
        """Registers the memory of a host tensor for calls of the device of `hip`."""
        if self.known.get(id(x)) is not None:
            return
        with self._lock:
            base, size, owner = allocation(x)
            if size and not self.kept(base, size, owner):
                hip.current()
                if hip.covers(base, size):
                    return
                self.register(base, size, owner)
            key = id(x)
            self.known[key] = weakref.ref(x, lambda _: self.known.pop(key, None))

    def kept(self, base, size, owner):
        """True if one registered span contains the `size` bytes from `base`. The span then stays registered until
        `owner` is gone, too."""
        for start in list(self.spans):
            span = self.spans.get(start)
            if span and start <= base and base + size <= start + span.size:
                self.own(start, span, owner)
                # False if the last owner went away meanwhile, and the span with it
                return self.spans.get(start) is span
        return False

    def own(self, start, span, owner):
        key = id(owner)
        if key not in span.owners:
            span.owners[key] = weakref.ref(owner, lambda _: self.leave(start, span, key))

    def leave(self, start, span, key):
        with self._lock:
            span.owners.pop(key, None)
            if not span.owners and self.spans.get(start) is span:
                self.release(start)

    def register(self, base, size, owner):
        """Registers `size` bytes from `base` for `owner`. Spans that overlap are views of the same memory: they become
        one span with it."""
        end, owners = base + size, {}
        for start in list(self.spans):  # a collection of garbage may remove spans and owners at any time
            span = self.spans.get(start)
            if not span or start >= end or base >= start + span.size:
                continue
            base, end = min(base, start), max(end, start + span.size)
            owners.update((key, ref()) for key, ref in span.owners.copy().items())
            self.release(start)
        self.hip.call("hipHostRegister", base, end - base, 0)
        span = self.spans[base] = Span(end - base, {})
        for one in [owner, *owners.values()]:
            if one is not None:
                self.own(base, span, one)

    def release(self, base):
        if self.spans.pop(base, None) is not None:
            self.known.clear()
            self.hip.lib.hipHostUnregister(base)


def allocation(x):
    """Returns (address, bytes, owner) of the memory that a host tensor is a view of. `owner` is the object that
    keeps the memory alive."""
    if hasattr(x, "data_ptr"):  # torch
        if x.device.type != "cpu" or x.layout != sys.modules["torch"].strided:
            raise TypeError(f"a tensor of {x.layout} on {x.device} has no memory that a GPU can read")
        storage = x.untyped_storage() if hasattr(x, "untyped_storage") else x.storage()
        return storage.data_ptr(), storage.nbytes(), x if x._base is None else x._base
    numpy = sys.modules["numpy"]
    while isinstance(x.base, numpy.ndarray):
        x = x.base
    inside = getattr(x.base, "base", None)  # the array of which as_strided() made a view
    if isinstance(inside, numpy.ndarray) and hasattr(x.base, "__array_interface__"):
        return allocation(inside)
    if x.base is None:
        return x.ctypes.data, x.nbytes, x
    if hasattr(x.base, "data_ptr"):  # memory of a torch tensor whose numpy() made the array
        return allocation(x.base)
    low, high = numpy.lib.array_utils.byte_bounds(x) if hasattr(numpy.lib, "array_utils") else (
        numpy.byte_bounds(x))
    return low, high - low, x


class DeviceStream:
    """A stream of a device: pass it to calls as stream=. `handle` is the hipStream_t as a number."""

    def __init__(self, device):
        self.device = device
        out = ffi.new("uintptr_t *")
        device.hip.current()
        device.hip.call("hipStreamCreate", out)
        self.handle = out[0]
        weakref.finalize(self, device.hip.lib.hipStreamDestroy, self.handle).atexit = False

    def synchronize(self):
        self.device.hip.call("hipStreamSynchronize", self.handle)


class Graph:
    """Launches captured once and replayed. In `with graph:` every call on graph.stream is captured. graph.replay() runs
    the launches again, on the tensors' contents at that time. Tensors, ops and plans of the capture have to outlive the
    graph."""

    def __init__(self, device, stream=None):
        self.device, self.stream = device, stream or DeviceStream(device)
        self.executable = 0

    def __enter__(self):
        self.device.hip.current()
        self.device.hip.call("hipStreamBeginCapture", self.stream.handle, 2)  # relaxed return
        return self

    def __exit__(self, kind, value, trace):
        hip, graph = self.device.hip, ffi.new("uintptr_t *")
        hip.call("hipStreamEndCapture", self.stream.handle, graph)
        try:
            if kind is None:
                made = ffi.new("uintptr_t *")
                hip.call("hipGraphInstantiate", made, graph[0], ffi.NULL, ffi.NULL, 0)
                self.executable = made[0]
                weakref.finalize(self, hip.lib.hipGraphExecDestroy, made[0]).atexit = False
        finally:
            hip.lib.hipGraphDestroy(graph[0])

    def replay(self, wait=True):
        self.device.hip.call("hipGraphLaunch", self.executable, self.stream.handle)
        if wait:
            self.stream.synchronize()


class DeviceArray:
    """Memory of a GPU with a numpy dtype and shape: device.array(a) and device.empty(). A bf16 array has the dtype
    uint16. numpy() copies the contents to the host."""

    def __init__(self, device, shape, dtype, source=None):
        import numpy as np
        self.device, self.shape, self.dtype = device, tuple(shape), np.dtype(dtype)
        self.nbytes = max(1, int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize)
        out = ffi.new("uintptr_t *")
        device.hip.current()
        device.hip.call("hipMalloc", out, self.nbytes)
        self.pointer = out[0]
        weakref.finalize(self, device.hip.lib.hipFree, self.pointer).atexit = False
        if source is not None:
            source = np.ascontiguousarray(source, self.dtype)
            device.hip.call("hipMemcpy", self.pointer, source.ctypes.data, source.nbytes, 1)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False),
                "strides": None, "version": 3}

    def first(self, rows):
        """Returns a DeviceArray of the first `rows` rows, in the same memory."""
        part = object.__new__(DeviceArray)
        part.__dict__.update(self.__dict__, shape=(rows, *self.shape[1:]), whole=self)
        part.nbytes = self.nbytes // max(self.shape[0], 1) * rows
        return part

    def numpy(self):
        import numpy as np
        out = np.empty(self.shape, self.dtype)
        self.device.hip.current()
        self.device.hip.call("hipMemcpy", out.ctypes.data, self.pointer, out.nbytes, 2)
        return out
