# SPDX-License-Identifier: Apache-2.0
"""The base of the classes of attn._ops."""
import threading

from attn import _native
from attn._native import AttnError, check, ffi, text
from attn._tensors import READ, expand

__all__ = ["READ", "Op", "stream_handle"]

ENUM_OF_CACHE = {"layout": "attn_kv_layout", "scale": "attn_kv_scale"}


def stream_handle(stream):
    """The hipStream_t of what a caller gives as a stream."""
    if stream is None or isinstance(stream, int):
        return stream or 0
    for name in ("handle", "cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    raise TypeError(f"{type(stream).__name__} is no stream")


def wait(hip, stream):
    """For results in host memory; a stream that is being captured has none yet."""
    if not hip.capturing(stream):
        hip.call("hipStreamSynchronize", stream)


class Slot:
    """A tensor of a call as DLPack says it, for libattn to check."""

    def __init__(self):
        self.shape = ffi.new("int64_t[]", 8)
        self.strides = ffi.new("int64_t[]", 8)
        self.tensor = ffi.new("DLTensor *", {"shape": self.shape, "strides": self.strides})

    def fill(self, name, pointer, sign, target):
        code, bits, shape, strides, kind, number, fp8 = sign
        if fp8 and fp8 != target:
            raise AttnError("ATTN_BAD_ARGUMENT", f"{name} has the fp8 numbers of {fp8}, which "
                            f"{target} does not have")
        if len(shape) > 8:
            raise AttnError("ATTN_BAD_ARGUMENT", f"{name} has {len(shape)} dimensions")
        t = self.tensor
        t.data, t.ndim, t.dtype = pointer, len(shape), (code, bits, 1)
        t.device = (kind, number)
        for i, n in enumerate(shape):
            self.shape[i], self.strides[i] = n, strides[i]
        return t


class Op:
    """An op of a layer: a kernel that was chosen and loaded. Calling it launches. Any thread
    may."""

    NAME, SLOTS, HELD, MOVING, NUMBERS, ENUMS = "", (), (), (), (), {}

    def __init__(self, device, desc):
        self.device, self.desc = device, desc
        lib, n = _native.lib, self.NAME
        self._handle = ffi.NULL
        self._texts = []
        out = ffi.new("struct attn_op **")
        check(getattr(lib, f"attn_{n}_lookup")(device._handle, self._descriptor(desc), out))
        self._handle = out[0]
        self._lock = threading.Lock()
        self._launch = getattr(lib, f"attn_{n}_launch")
        self._set_tensors = getattr(lib, f"attn_{n}_set_tensors")
        self._args = ffi.new(f"struct attn_{n}_args *")
        self._tensors = ffi.new(f"struct attn_{n}_tensors *")
        self._slots = [Slot() for _ in self.SLOTS]
        self._paths = [path.split(".") for path in self.NUMBERS]
        self._forget()

    def __del__(self):
        if getattr(self, "_handle", None) and _native is not None and _native.lib is not None:
            _native.lib.attn_op_destroy(self._handle)

    def _descriptor(self, values):
        d = ffi.new(f"struct attn_{self.NAME}_desc *")
        d.size = ffi.sizeof(d[0])
        for name, value in values.items():
            if name == "cache":
                self._cache_desc(d.cache, value)
            elif value is None:
                continue
            elif name in self.ENUMS:
                setattr(d, name, self._number(name, value, self.ENUMS[name]))
            elif isinstance(value, str) and name == "logits":
                self._texts.append(ffi.new("char[]", value.encode()))
                setattr(d, name, self._texts[-1])
            elif isinstance(value, str):
                setattr(d, name, self._number(name, value, self.device.enums["attn_dtype"]))
            else:
                setattr(d, name, value)
        return d

    def _cache_desc(self, d, value):
        enums = self.device.enums
        if value is None:
            return
        if value.dtype is not None:
            d.dtype = self._number("cache.dtype", value.dtype, enums["attn_dtype"])
        for name, enum in ENUM_OF_CACHE.items():
            setattr(d, name, self._number(f"cache.{name}", getattr(value, name), enums[enum]))
        d.page_size = value.page_size

    @staticmethod
    def _number(name, value, known):
        if value not in known:
            raise AttnError("ATTN_BAD_ARGUMENT",
                            f"{name} is {value!r}: it is one of {', '.join(known)}")
        return known[value]

    def _forget(self):
        """The next call is checked as the first one is."""
        self._held = (None,) * len(self.HELD)
        self._seen = (0,) * len(self.MOVING)
        self._addresses, self._pointers = [], []
        self._numbers = None
        self._host = False
        self._clear()

    def _clear(self):
        args = self._args
        ffi.buffer(args)[:] = bytes(ffi.sizeof(args[0]))
        args.size = ffi.sizeof(args[0])
        if self.NAME == "plan":
            args.shape.size = ffi.sizeof(args.shape)
        self._stream_given = None

    def _moved(self):
        """Returns whether a remembered tensor was given other memory since. Host memory is looked
        at in every call, as its registration may have gone with another view of it."""
        return self._host or [address() for address in self._addresses] != self._pointers

    def _set(self, changed, tensors, numbers):
        """Sets the arguments that differ from the last call. libattn checks the tensors if one does."""
        try:
            if changed:
                self._check_tensors(tensors)
            for path, value in zip(self._paths, numbers):
                at = self._args
                for part in path[:-1]:
                    at = getattr(at, part)
                setattr(at, path[-1], tuple(value) if isinstance(value, (tuple, list)) else value)
            self._bounds(numbers)
            self._numbers = numbers
        except BaseException:
            self._forget()
            raise

    def _bounds(self, numbers):
        """A launch's bounds, where the caller gives none: what the tensors hold."""
        a = self._args
        for name, value in zip(self.NUMBERS, numbers):
            if name == "max_seqlen_q" and not value:
                a.max_seqlen_q = a.total_q
            elif name == "max_seqlen_k" and not value:
                cache = self.desc.get("cache")
                paged = cache is not None and hasattr(a, "pages") and a.pages.entries
                a.max_seqlen_k = (min(a.pages.entries * cache.page_size, 2**31 - 1) if paged
                                  else a.total_k)

    def _check_tensors(self, tensors):
        device, record = self.device, self._tensors
        self._clear()
        ffi.buffer(record)[:] = bytes(ffi.sizeof(record[0]))
        record.size = ffi.sizeof(record[0])
        signs = []
        for name, slot, x in zip(self.SLOTS, self._slots, tensors):
            pointer, sign = READ[x.__class__](x, self)
            signs.append(sign)
            if x is not None:
                full = expand(x, sign, device)
                setattr(record, name, slot.fill(name, pointer, full, device.target))
        check(self._set_tensors(self._handle, record, self._args))
        self._host = any(type(s) is tuple and not s[-1] for s in signs)
        self._held = tuple(tensors[i] for i in self.HELD)
        self._seen = tuple(signs[i] for i in self.MOVING)
        self._addresses = [x.data_ptr for x in self._held if hasattr(x, "data_ptr")]
        self._pointers = [address() for address in self._addresses]

    def _take_stream(self, stream):
        self._args.stream = stream_handle(stream)
        self._stream_given = stream

    def _finish(self, status):
        """An error, or tensors in host memory: then the caller finds the result there."""
        if status:
            error = _native.failure(status)
            self._forget()
            raise error
        wait(self.device.hip, self._args.stream)

    def bind(self, *, stream=None, **call):
        """Checks a call and remembers it, without a launch: see Bound. Takes what the call
        takes."""
        defaults = type(self).__call__.__kwdefaults__
        unknown = sorted(call.keys() - defaults.keys())
        if unknown:
            raise TypeError(f"{self.NAME} has no argument {unknown[0]}")
        values = {**defaults, **call}
        numbers = list(defaults)[len(self.SLOTS):-1]
        tensors = tuple(values[name] for name in self.SLOTS)
        with self._lock:
            self._set(True, tensors, tuple(values[name] for name in numbers))
            self._take_stream(stream)
            return Bound(self, tuple(tensors[i] for i in self.MOVING))

    def _info(self):
        info = ffi.new("struct attn_op_info *")
        info.size = ffi.sizeof(info[0])
        check(_native.lib.attn_op_describe(self._handle, info))
        return info

    @property
    def why(self):
        """"exact", or which fields a more general kernel covers."""
        info = self._info()
        return text(info.why)

    @property
    def kernel(self):
        """The kernel's name in its pack."""
        info = self._info()
        return text(info.kernel.name)

    def __repr__(self):
        return f"<attn.{type(self).__name__} {self.kernel}: {self.why}>"


class Bound:
    """A call with its tensors: called again, it launches with other queries and outputs of the same
    shape, dtype and strides. Made by Op.bind(); cheap enough for a launch per layer and step."""

    def __init__(self, op, moving):
        self.op = op
        self._lock = threading.Lock()
        self._args = ffi.new(f"struct attn_{op.NAME}_args *", op._args[0])
        self._words = memoryview(ffi.buffer(self._args)).cast("Q")
        self._launch, self._handle, self._host = op._launch, op._handle, op._host
        names = [op.SLOTS[i] for i in op.MOVING]
        self._index = {name: n for n, name in enumerate(names)}
        self._places = {name: self._word(name) for name in (*names, "stream")}
        self._seen, self._held = op._seen, (op._held, moving)
        self.device = op.device

    def _word(self, member):
        """Returns which 8 bytes of the arguments a pointer is."""
        return ffi.offsetof(f"struct attn_{self.op.NAME}_args", member) // 8

    def __call__(self, stream=None, **moving):
        with self._lock:
            words = self._words
            for name, x in moving.items():
                n = self._index.get(name)
                if n is None:
                    raise TypeError(f"{name} is bound, or no tensor of {self.op.NAME}")
                pointer, sign = READ[x.__class__](x, self)
                if sign != self._seen[n]:
                    raise self._unlike(name)
                words[self._places[name]] = pointer
            if stream is not None:
                words[self._places["stream"]] = stream_handle(stream)
            self._finish(self._launch(self._handle, self._args))

    @staticmethod
    def _unlike(name):
        return AttnError("ATTN_BAD_ARGUMENT", f"{name} has another dtype, shape, stride or device "
                         "than the tensor that was bound")

    def _finish(self, status):
        if status:
            raise _native.failure(status)
        if self._host:
            wait(self.device.hip, self._args.stream)

    def launcher(self, *names):
        """A function of these tensors and a hipStream_t as a number, which launches and returns True,
        or, where a tensor is not like the one that was bound, does nothing and returns False."""
        words, places = self._words, [self._places[name] for name in names]
        seen = [self._seen[self._index[name]] for name in names]
        launch, handle, args, lock = self._launch, self._handle, self._args, self._lock
        at, finish, host = self._places["stream"], self._finish, self._host

        def one(x, stream):
            pointer, sign = READ[x.__class__](x, self)
            if sign != seen_x:
                return False
            with lock:
                words[place_x], words[at] = pointer, stream
                status = launch(handle, args)
                if status or host:
                    finish(status)
            return True

        def two(x, y, stream):
            pointer, sign = READ[x.__class__](x, self)
            other, sign_y = READ[y.__class__](y, self)
            if sign != seen_x or sign_y != seen_y:
                return False
            with lock:
                words[place_x], words[place_y], words[at] = pointer, other, stream
                status = launch(handle, args)
                if status or host:
                    finish(status)
            return True

        def three(x, y, z, stream):
            pointer, sign = READ[x.__class__](x, self)
            other, sign_y = READ[y.__class__](y, self)
            third, sign_z = READ[z.__class__](z, self)
            if sign != seen_x or sign_y != seen_y or sign_z != seen[2]:
                return False
            with lock:
                words[place_x], words[place_y], words[places[2]] = pointer, other, third
                words[at] = stream
                status = launch(handle, args)
                if status or host:
                    finish(status)
            return True

        place_x, seen_x = places[0], seen[0]
        place_y, seen_y = (places[1], seen[1]) if len(names) > 1 else (None, None)
        return (one, two, three)[len(names) - 1]
