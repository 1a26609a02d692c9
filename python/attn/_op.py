# SPDX-License-Identifier: Apache-2.0
"""The base class Op of all ops in attn._ops, and calls that are bound to their tensors."""
import functools
import threading
import typing

from attn import _fast, _native
from attn._native import AttnError, check, ffi, text
from attn._tensors import READ, dtype_name, expand, is_bool, is_read_only

__all__ = ["Op", "entry", "stream_handle"]

# largest number of forms of calls (names, dtypes, shapes, numbers) for which an op keeps a generated function
CALLS = 64
ENUM_OF_CACHE = {"layout": "attn_kv_layout", "scale": "attn_kv_scale"}


def stream_handle(stream):
    """Returns the hipStream_t of a caller's stream: None, a number, or an object with .handle, .cuda_stream or
    .ptr."""
    if stream is None or isinstance(stream, int):
        return stream or 0
    for name in ("handle", "cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    raise TypeError(f"{type(stream).__name__} is no stream")


def wait(hip, stream):
    """Waits for a stream, so that results in host memory are complete. Returns at once during a capture, in which
    nothing has run yet."""
    if not hip.capturing(stream):
        hip.call("hipStreamSynchronize", stream)


def failed(status):
    raise _native.failure(status)


Declared = typing.TypeVar("Declared")


def entry(declared: Declared) -> Declared:
    """Decorates __call__ of a class of attn._ops. The result gets the name, text and signature of `declared`, a typed
    declaration without code."""

    def __call__(self, *, stream=None, **call):
        known = self._calls.get(tuple(call))
        if known is None or not known(stream, call):
            self._learn(stream, call)

    return functools.update_wrapper(__call__, declared)


class Slot:
    """Memory for a DLTensor that describes one tensor of a call, so that libattn can check it."""

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
    """A kernel that was chosen and loaded for a descriptor. Calling the object launches the kernel. Any thread may call
    it."""

    NAME, SLOTS, PATHS, MOVING, OUTPUTS = "", (), (), (), ()
    NUMBERS, COUNTS, ENUMS = (), (), {}

    def __init__(self, device, desc):
        self.device, self.desc = device, desc
        lib, n = _native.lib, self.NAME
        _native.declare(n)
        self._handle = ffi.NULL
        self._texts = []
        out = ffi.new("struct attn_op **")
        try:
            check(getattr(lib, f"attn_{n}_lookup")(device._handle, self._descriptor(desc), out))
        except AttnError as e:
            raise AttnError(e.status, f"{e}{device._hint}") if device._hint else e from None
        self._handle = out[0]
        self._lock = threading.Lock()
        self._launch = getattr(lib, f"attn_{n}_launch")
        self._set_tensors = getattr(lib, f"attn_{n}_set_tensors")
        self._args = ffi.new(f"struct attn_{n}_args *")
        self._tensors = ffi.new(f"struct attn_{n}_tensors *")
        self._slots = [Slot() for _ in self.SLOTS]
        self._paths = [path.split(".") for path in self.NUMBERS]
        self._calls, self._last = {}, None

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
            elif name == "dtype" or name.endswith("_dtype"):
                setattr(d, name, self._dtype(name, value))
            else:
                self._set_member(d, name, value)
        return d

    def _cache_desc(self, d, value):
        enums = self.device.enums
        if value is None:
            return
        if not hasattr(value, "page_size"):
            raise TypeError(f"cache is {value!r}: an attn.CacheDesc is needed")
        if value.dtype is not None:
            d.dtype = self._dtype("cache.dtype", value.dtype)
        for name, enum in ENUM_OF_CACHE.items():
            setattr(d, name, self._number(f"cache.{name}", getattr(value, name), enums[enum]))
        self._set_member(d, "page_size", value.page_size)

    def _dtype(self, name, value):
        known = self.device.enums["attn_dtype"]
        return self._number(name, dtype_name(value, self.device.target), known)

    @staticmethod
    def _number(name, value, known):
        if not isinstance(value, str) or value not in known:
            raise AttnError("ATTN_BAD_ARGUMENT",
                            f"{name} is {value!r}: it is one of {', '.join(known)}")
        return known[value]

    def _clear(self):
        args = self._args
        ffi.buffer(args)[:] = bytes(ffi.sizeof(args[0]))
        args.size = ffi.sizeof(args[0])
        if self.NAME == "plan":
            args.shape.size = ffi.sizeof(args.shape)

    def _learn(self, stream, call, count=0):
        """Checks and launches a call whose form is not in self._calls. If the call before had the same form, a function
        for it is added to self._calls. The function takes a dict with the call's names, or, if `count` is not 0, that
        number of values. Calls with tensors in host memory never get functions, since their registration may end with
        another view of the memory."""
        key, values = count or tuple(call), self._values(call)
        with self._lock:
            if self._calls.pop(key, None) is None and len(self._calls) >= CALLS:
                self._calls.clear()
            self._set(values)
            args = self._args
            args.stream = stream_handle(stream)
            status = self._launch(self._handle, args)
            if status:
                raise _native.failure(status)
            if self._host:
                wait(self.device.hip, args.stream)
                return
            form = (key, self._signs, values[len(self.SLOTS):])
            if form == self._last:
                self._calls[key] = self._function(call, not count)
            self._last = form

    def _values(self, call):
        """Returns every tensor and number of a call in the declared order; absent ones have their defaults."""
        defaults = type(self).__call__.__wrapped__.__kwdefaults__
        for name in call:
            if name not in defaults:
                raise TypeError(f"{self.NAME} has no argument {name}")
        return tuple(call.get(name, value) for name, value in defaults.items() if name != "stream")

    def _function(self, call, named):
        """Returns the launching function of a call: see _fast.function(). The function has its own copy of libattn's
        arguments. `named`: True if the function takes a dict."""
        args = ffi.new(f"struct attn_{self.NAME}_args *", self._args[0])
        arguments = []
        for name, x in call.items():
            if name not in self.SLOTS:
                arguments.append(_fast.Number(x))
            elif x is None:
                arguments.append(_fast.Nothing())
            else:
                i = self.SLOTS.index(name)
                arguments.append(_fast.Seen(x, self._pointers[i], self._signs[i], self._word(self.PATHS[i]),
                                            i in self.MOVING))
        return _fast.function(self, arguments, args, self._word("stream"), threading.Lock(), failed,
                              unpack="x.values()" if named else "x")

    def _word(self, path):
        """Returns the offset of the member `path` in libattn's arguments, in units of 8 bytes."""
        return ffi.offsetof(f"struct attn_{self.NAME}_args", *path.split(".")) // 8

    def _set(self, values):
        """Sets libattn's arguments from the values of a call. libattn checks the tensors' shapes and types."""
        tensors, numbers = values[:len(self.SLOTS)], values[len(self.SLOTS):]
        self._clear()
        try:
            given = list(zip(self._paths, numbers))
            for path, value in given:  # before the tensors, whose expected shapes may depend on numbers
                self._set_number(path, value)
            self._check_tensors(tensors)
            for path, value in given:
                if value and path[-1] in self.COUNTS:  # the caller's count replaces the tensors'; 0 keeps the tensors'
                    self._set_number(path, value)
            self._bounds(numbers)
        except BaseException:
            self._clear()
            raise

    def _set_number(self, path, value):
        at = self._args
        for part in path[:-1]:
            at = getattr(at, part)
        self._set_member(at, path[-1], tuple(value) if isinstance(value, (tuple, list)) else value)

    @staticmethod
    def _set_member(struct, name, value):
        if is_bool(value):
            kind = ffi.typeof(struct)
            members = dict((kind.item if kind.kind == "pointer" else kind).fields)
            if name in members and members[name].type.cname != "_Bool":
                raise TypeError(f"{name}: a number is required, not {value}")
        try:
            setattr(struct, name, value)
        except (TypeError, OverflowError) as e:
            raise type(e)(f"{name}: {e}") from None

    def _longest(self):
        """Returns a number of tokens that no sequence of the call exceeds: all tokens, or fewer if states or records of
        a sequence have room for fewer, or if all sequences have as many."""
        a = self._args
        most = a.tokens if a.cu_seqlens else a.tokens // max(a.batch, 1)
        for name, least in (("state_steps", 1 if self.desc.get("drafts") else 2), ("record_steps", 1)):
            steps = getattr(a, name, 0)
            most = min(most, steps) if steps >= least else most
        return most

    def _bounds(self, numbers):
        """Sets the arguments max_seqlen_q, max_seqlen_k, max_seqlen and entries that the caller has not set to the most
        that the tensors can hold."""
        a = self._args
        for name, value in zip(self.NUMBERS, numbers):
            if name == "max_seqlen_q" and not value:
                a.max_seqlen_q = a.tokens
            elif name == "max_seqlen" and not value:
                a.max_seqlen = self._longest()
            elif name == "max_seqlen_k" and not value:
                cache = self.desc.get("cache")
                paged = cache is not None and hasattr(a, "pages") and a.pages.entries
                a.max_seqlen_k = (min(a.pages.entries * cache.page_size, 2**31 - 1) if paged
                                  else a.total_k)
        if self.NAME == "state_copy" and a.span_count and not a.max_bytes:
            raise AttnError("ATTN_BAD_ARGUMENT", "max_bytes is 0: it is needed, and no span has more bytes")
        if self.NAME == "metadata" and a.kv_indices and not a.entries:
            width, step = self._slots[self.SLOTS.index("block_table")].shape[1], a.page_size
            a.entries = min(-(-width // step) if a.table_of_slots and step > 0 else width, 2**24)

    def _check_tensors(self, tensors):
        device, record = self.device, self._tensors
        ffi.buffer(record)[:] = bytes(ffi.sizeof(record[0]))
        record.size = ffi.sizeof(record[0])
        pointers, signs = [], []
        for name, slot, x in zip(self.SLOTS, self._slots, tensors):
            try:
                pointer, sign = READ[x.__class__](x, self)
                full = expand(x, sign, device) if x is not None else None
                if name in self.OUTPUTS and is_read_only(x):
                    raise TypeError("it is written, and the array is read-only")
            except TypeError as e:
                raise TypeError(f"{name}: {e}") from None
            pointers.append(pointer)
            signs.append(sign)
            if x is not None:
                setattr(record, name, slot.fill(name, pointer, full, device.target))
        check(self._set_tensors(self._handle, record, self._args))
        self._pointers, self._signs = pointers, signs
        self._host = any(type(s) is tuple and not s[-1] for s in signs)

    def bind(self, *, stream=None, **call):
        """Checks a call without launching it, and returns a Bound that launches it. Arguments are the same as in a call
        of the op."""
        values = self._values(call)
        with self._lock:
            self._set(values)
            self._args.stream = stream_handle(stream)
            return Bound(self, values[:len(self.SLOTS)])

    def _info(self):
        info = ffi.new("struct attn_op_info *")
        info.size = ffi.sizeof(info[0])
        check(_native.lib.attn_op_describe(self._handle, info))
        return info

    @property
    def why(self):
        """Returns "exact", or the fields in which the kernel is more general than the descriptor."""
        info = self._info()
        return text(info.why)

    @property
    def kernel(self):
        """Returns the kernel's name in its pack."""
        info = self._info()
        return text(info.kernel.name)

    def __repr__(self):
        return f"<attn.{type(self).__name__} {self.kernel}: {self.why}>"


class Bound:
    """A checked call with its tensors, which Op.bind() makes. Calling the object launches the call, also with other
    queries and outputs of the same shape, dtype and strides. A tensor that is left out is the last call's, which the
    object keeps alive. A launch is cheap enough for each layer and step."""

    def __init__(self, op, tensors):
        self.op, self.device = op, op.device
        self._lock = threading.Lock()
        self._args = ffi.new(f"struct attn_{op.NAME}_args *", op._args[0])
        self._calls, self._stream = {}, op._args.stream
        self._launch, self._handle, self._host = op._launch, op._handle, op._host
        self._held, self._moved = tensors, {}
        self._index = {op.SLOTS[i]: i for i in op.MOVING}
        self._places = {name: op._word(op.PATHS[i]) for name, i in self._index.items()}
        self._places["stream"] = op._word("stream")
        self._pointers, self._signs = op._pointers, op._signs

    def __call__(self, stream=None, **moving):
        known = self._calls.get(tuple(moving))
        if known is None:
            known = self._calls[tuple(moving)] = self._function(tuple(moving), True)
        if stream is None:
            stream = self._stream
        self._stream = stream
        if not known(stream, moving):
            raise self._unlike(next(n for n, x in moving.items() if READ[x.__class__](
                x, self)[1] != self._signs[self._index[n]]))
        self._moved.update(moving)

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
        """Returns a function of a stream and the tensors `names`. The function launches and returns True. If a tensor
        differs from the bound one in dtype, shape, strides or device, it returns False without a launch."""
        return self._function(names, False)

    def _function(self, names, named):
        arguments = []
        for name in names:
            i = self._index.get(name)
            if i is None:
                raise TypeError(f"{name} is bound, or no tensor of {self.op.NAME}")
            arguments.append(_fast.Seen(self._held[i], self._pointers[i], self._signs[i],
                                        self._places[name], True))
        return _fast.function(self, arguments, self._args, self._places["stream"], self._lock,
                              self._finish, unpack="x.values()" if named else None, waits=self._host)
