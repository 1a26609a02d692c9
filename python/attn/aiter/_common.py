# SPDX-License-Identifier: Apache-2.0
"""Parts that all calls of attn.aiter share: the device with its packs, ops by their descriptors, and functions that
treat torch's and numpy's tensors alike."""
import sys
import weakref

from attn._device import Device
from attn._native import AttnError
from attn._tensors import READ
from attn._ops import CacheDesc
from attn.attention import new_like, sixteen_bits

_devices = {}


class NotServed(AttnError, NotImplementedError):
    """Raised for a call, or a form of a call, that attn.aiter does not serve. The text says why."""

    def __init__(self, call, why):
        super().__init__("ATTN_NO_KERNEL", f"{call}: {why}")


def use(*packs, device=None, hip=None, ordinal=0):
    """Sets the packs whose kernels serve the calls on a GPU, or a Device that is open already."""
    _devices[ordinal if device is None else device.ordinal] = Session(
        device or Device(*packs, ordinal=ordinal, hip=hip))


class Session:
    """A device and the ops that calls have needed so far."""

    def __init__(self, device):
        self.device, self.ops, self.made = device, {}, Made()
        self.missing = set()  # {(op, descriptor)} for which has() found no kernel
        self.plans = {}  # {key of remember() in _mla.py: what it recorded}
        self.splits, self.sizes, self.buffers, self.tickets = {}, {}, {}, {}  # caches of _split.py

    def op(self, kind, **desc):
        """Returns the op `kind` for the descriptor `desc`. It is looked up once. Raises libattn's AttnError if no pack
        has a kernel."""
        key = (kind, tuple(desc.items()))
        op = self.ops.get(key)
        if op is None:
            op = self.ops[key] = getattr(self.device, kind)(**desc)
        return op

    def has(self, kind, **desc):
        """True if a pack has a kernel for the descriptor."""
        key = (kind, tuple(desc.items()))
        if key in self.ops:
            return True
        if key in self.missing:
            return False
        try:
            self.op(kind, **desc)
        except AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                raise
            self.missing.add(key)
            return False
        return True


_copies = weakref.WeakSet()  # all Copy objects that are in use


class Copy:
    """A tensor that make(*sources) computed from an engine's constants. After a source was written, the tensor is made
    again at the same address, which captured graphs read. torch counts writes, but not writes through Tensor.data, by
    which engines reload weights: after these refresh_copies() is called. `dropped` is called when a source is freed."""

    def __init__(self, sources, make, dropped=None):
        self.sources, self.make = [weakref.ref(x, dropped) for x in sources], make
        self.state, self.made = state_of(sources), make(*sources)
        _copies.add(self)

    def of(self, sources):
        """True if the copy was made from these objects."""
        return all(known() is x for known, x in zip(self.sources, sources))

    def current(self, sources):
        """Returns the tensor. Makes it again first if torch counted a write to a source, or if a source has other
        memory."""
        if self.state != state_of(sources):
            self.refresh(sources)
        return self.made

    def refresh(self, sources):
        """Makes the tensor again."""
        self.state = state_of(sources)
        if is_torch(self.made):
            # the tensor may have been made in this mode, in which engines run models
            with sys.modules["torch"].inference_mode():
                new = self.make(*sources)
                if new.shape == self.made.shape and new.dtype == self.made.dtype:
                    self.made.copy_(new)
                    return
        self.made = self.make(*sources)


def state_of(sources):
    """Returns the addresses of tensors, and how many writes torch counted for each. torch does not count writes of
    tensors that are made in its inference mode."""
    return [(address(x), 0 if not is_torch(x) or x.is_inference() else x._version) for x in sources]


def refresh_copies():
    """Makes all copies of an engine's constants again. Plugins call it after the engine reloaded weights."""
    for copy in list(_copies):
        sources = [known() for known in copy.sources]
        if sources and all(x is not None for x in sources):
            copy.refresh(sources)


def copy_of(holder, name, source, make):
    """Returns make(source), a copy that the object `holder` keeps under `name`. Calls with the same source return the
    same tensor, with up-to-date contents."""
    kept = holder.__dict__.get("attn_" + name)
    if kept is None or not kept.of((source,)):
        kept = holder.__dict__["attn_" + name] = Copy((source,), make)
    return kept.current((source,))


class Made:
    """Keeps tensors that were computed once from an engine's constants, such as sinks as float32."""

    def __init__(self):
        self.kept = {}

    def of(self, tag, sources, make):
        """Returns make(*sources). Calls with the same tag and objects return the same tensor, as Copy makes it."""
        key = (tag, *(id(x) for x in sources))
        kept = self.kept.get(key)
        if kept is None or not kept.of(sources):
            kept = self.kept[key] = Copy(sources, make, lambda _: self.kept.pop(key, None))
        return kept.current(sources)


def session(x):
    """Returns the Session of the GPU that a tensor is on."""
    ordinal = x.get_device() if getattr(x, "is_cuda", False) else 0
    found = _devices.get(ordinal)
    if found is None:
        raise AttnError("ATTN_NO_DEVICE", f"attn.aiter.use(packs) was not called for GPU {ordinal}")
    return found


def stream(x):
    """Returns the number of torch's current stream for a tensor on a GPU; None for others."""
    if not getattr(x, "is_cuda", False):
        return None
    return sys.modules["torch"]._C._cuda_getCurrentRawStream(x.get_device())


NAMES = {"bfloat16": "bf16", "uint16": "bf16", "float16": "fp16", "uint8": "fp8", "int8": "int8",
         "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float32": "f32", "int32": "i32",
         "int64": "i64"}


def dtype(x):
    """Returns the element type of a tensor as descriptions spell it. uint8 means fp8, since numpy and older torch have
    no fp8."""
    name = str(x.dtype).rsplit(".", 1)[-1]
    return NAMES.get(name, name)


def is_torch(x):
    return hasattr(x, "data_ptr")


def cast(x, name):
    """Returns x converted to the type `name`, such as "int64"; x itself if it has that type."""
    if str(x.dtype).rsplit(".", 1)[-1] == name:
        return x
    return x.to(getattr(sys.modules["torch"], name)) if is_torch(x) else x.astype(name)


def view(x, *shape):
    """Returns a view of x with other dimensions. Raises AttnError if x's strides do not allow a view."""
    if is_torch(x):
        try:
            return x.view(*shape)
        except RuntimeError:
            raise no_view(x, shape) from None
    out = x.view()
    try:
        out.shape = shape
    except AttributeError:
        raise no_view(x, shape) from None
    return out


def no_view(x, shape):
    """Returns the AttnError for a tensor whose strides do not allow a view with these dimensions."""
    return AttnError("ATTN_BAD_ARGUMENT", f"a tensor of dimensions {tuple(x.shape)} with gaps, strides {tuple(strides(x))}, "
                     f"cannot be read as one of {tuple(shape)} without a copy")


def rows_of(x, dim):
    """Returns a cache of rows as a view [rows, 1, 1, dim]: pages of one row. If pages have gaps between them, the view
    is [pages, P, 1, dim]."""
    apart = x.ndim > 2 and x.shape[0] > 1 and strides(x)[0] != (1 if is_torch(x) else itemsize(x)) * (
        count(x) // x.shape[0])
    return view(x, x.shape[0], -1, 1, dim) if apart else view(x, count(x) // dim, 1, 1, dim)


def flat_pages(call, name, x):
    """Returns (all bytes from the first page to the end of the last as one view, bytes from a page to the next). x is a
    cache of bytes, whose pages may have gaps between them."""
    size = count(x) // max(x.shape[0], 1)
    step = strides(x)[0] if x.shape[0] > 1 else size
    inner = x[0] if x.shape[0] else x
    solid = inner.is_contiguous() if is_torch(x) else inner.flags.c_contiguous
    refuse(call, **{name: (itemsize(x) != 1 or not solid or step < size,
                           f"pages of dimensions {tuple(x.shape[1:])} and strides {tuple(strides(x)[1:])}: the bytes of a "
                           "page are neighbours, and pages do not overlap")})
    return widened(x, (max(x.shape[0] - 1, 0) * step + size * (x.shape[0] > 0),)), step


def reinterpret(x, name):
    """Returns a view of x's memory as elements of the type `name`."""
    return x.view(getattr(sys.modules["torch"], name) if is_torch(x) else name)


def dense(x):
    """Returns x without gaps in memory: x itself or a copy."""
    return x.contiguous() if is_torch(x) else sys.modules["numpy"].ascontiguousarray(x)


def first(x, n):
    """Returns the first n rows of x; x itself if it has n rows."""
    return x if x.shape[0] == n else x[:n]


def transpose(x):
    return x.t() if is_torch(x) else x.T


def swap(x, i, j):
    """Returns a view of x with the dimensions i and j swapped."""
    return x.transpose(i, j) if is_torch(x) else x.swapaxes(i, j)


def count(x):
    return x.numel() if is_torch(x) else x.size


def zero(x):
    """Fills x with zeros, on torch's current stream."""
    if is_torch(x):
        x.zero_()
    else:
        x[...] = 0


def fill(x, value):
    """Fills x with a number, on torch's current stream."""
    if is_torch(x):
        x.fill_(value)
    else:
        x[...] = value


def ones(like, n):
    """Returns float32 [n] of ones on the device of `like`."""
    if is_torch(like):
        return like.new_ones(n, dtype=sys.modules["torch"].float32)
    return sys.modules["numpy"].ones(n, "float32")


def one(s, like):
    """Returns float32 [1] with 1.0, a scale without effect. It is made once for a session."""
    return s.made.of(("one", type(like)), (), lambda: ones(like, 1))


def arange(like, n, name="int32"):
    """Returns [n] with 0, 1, ... on the device of `like`."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.arange(n, dtype=getattr(torch, name), device=like.device)
    return sys.modules["numpy"].arange(n, dtype=name)


def numbered(n, step):
    """Returns int32 [n] with 0, step, 2 step, ... on torch's GPU if there is one, else in the host's memory."""
    torch = sys.modules.get("torch")
    if torch is None:
        return sys.modules["numpy"].arange(n, dtype="int32") * step
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.arange(0, n * step, step, dtype=torch.int32, device=device)


def squares(x):
    """Returns float32 [tokens] with the sum of squares of each row. numpy's uint16 are bf16."""
    if is_torch(x):
        torch = sys.modules["torch"]
        return torch.linalg.vector_norm(x, 2, -1, dtype=torch.float32).square()
    if x.dtype == "uint16":
        x = (x.astype("uint32") << 16).view("float32")
    return (x.astype("float32") ** 2).sum(-1)


def where(here, a, b):
    return sys.modules["torch" if is_torch(a) else "numpy"].where(here, a, b)


def least(x, n):
    """Returns the smaller of x's element and the number n, for each element."""
    return x.clamp(max=n) if is_torch(x) else sys.modules["numpy"].minimum(x, n)


def smaller(a, b):
    """Returns the smaller of a's and b's element, for each element."""
    return sys.modules["torch" if is_torch(a) else "numpy"].minimum(a, b)


def most(x, n):
    """Returns the larger of x's element and the number n, for each element."""
    return x.clamp(min=n) if is_torch(x) else sys.modules["numpy"].maximum(x, n)


def sums(x, axis=0):
    """Returns the running sums of x along `axis`: x[0], x[0] + x[1], ..."""
    return x.cumsum(axis)


def scattered(n, width, at, x):
    """Returns [n, width] filled with -1, except that row i has the elements of x[i] at the columns at[i]."""
    if is_torch(x):
        return x.new_full((n, width), -1).scatter_(1, at, x)
    out = sys.modules["numpy"].full((n, width), -1, x.dtype)
    sys.modules["numpy"].put_along_axis(out, at, x, 1)
    return out


def permute(x, order):
    """Returns a view of x with its dimensions in this order."""
    return x.permute(*order) if is_torch(x) else x.transpose(order)


def bytes_of(x):
    """Returns a view of a tensor with 1-byte elements as uint8, which all libraries can copy."""
    return x if str(x.dtype).rsplit(".", 1)[-1] in ("uint8", "int8") else reinterpret(x, "uint8")


def as_type(x, like):
    """Returns a view of x's memory as elements of the type of `like`."""
    return x if x.dtype == like.dtype else x.view(like.dtype)


def place(ends, x):
    """Returns for each element of x how many of the ascending `ends` are not larger."""
    if is_torch(x):
        return sys.modules["torch"].searchsorted(ends, x, right=True)
    return sys.modules["numpy"].searchsorted(ends, x, "right")


def repeated(like, n, times):
    """Returns int32 [n * times] with 0 to n - 1, each repeated `times` times, on the device of `like`."""
    each = arange(like, n * times)
    return each // times


def join(a, b):
    """Returns [n, x] and [n, y] joined as [n, x + y]."""
    if is_torch(a):
        return sys.modules["torch"].cat((a, b), -1)
    return sys.modules["numpy"].concatenate((a, b), -1)


def cosines(s, cos, sin):
    """Returns one table [positions, 2 n] of cosines and sines. If cos and sin are the halves of a table, the table
    itself is returned as a view. Other pairs are joined, once for each."""
    rows, n, bits = cos.shape[0], cos.shape[-1], itemsize(cos)
    unit = 1 if is_torch(cos) else bits
    same = all((strides(x)[0], strides(x)[-1]) == (2 * n * unit, unit) and count(x) == rows * n for x in (cos, sin))
    if same and rows > 1 and cos.dtype == sin.dtype and address(sin) == address(cos) + n * bits:
        return widened(cos, (rows, 2 * n))
    return s.made.of("cos_sin", (cos, sin), lambda a, b: join(view(a, a.shape[0], -1), view(b, b.shape[0], -1)))


def itemsize(x):
    return x.element_size() if is_torch(x) else x.itemsize


def widened(x, shape):
    """Returns a dense view with dimensions `shape` of the memory that begins at x. The caller knows that this memory
    exists."""
    if is_torch(x):
        steps = [1]
        for n in reversed(shape[1:]):
            steps.insert(0, steps[0] * n)
        return x.as_strided(shape, steps)
    numpy = sys.modules["numpy"]
    steps = [x.itemsize]
    for n in reversed(shape[1:]):
        steps.insert(0, steps[0] * n)
    return numpy.lib.stride_tricks.as_strided(x, shape, steps)


def beside(a, b):
    """Returns a [..., n] and b [..., m] joined as [..., n + m]: a view if both are parts of one tensor, else a copy."""
    n, m = a.shape[-1], b.shape[-1]
    unit, shape = 1 if is_torch(a) else itemsize(a), (*a.shape[:-1], n + m)
    step, steps = unit * (n + m), [unit]
    for size in reversed(shape[:-1]):
        steps.insert(0, step)
        step *= size
    if address(b) == address(a) + n * itemsize(a) and all(tuple(strides(x)) == tuple(steps) for x in (a, b)):
        return widened(a, shape)
    return join(a, b)


def near(s, x, like):
    """Returns a scale on the device of `like`. A scale in the host's memory is copied once, and again after it was
    written."""
    if x is None or not getattr(like, "is_cuda", False) or getattr(x, "is_cuda", True):
        return x
    return s.made.of("near", (x,), lambda a: a.to(like.device))


def address(x):
    return x.data_ptr() if is_torch(x) else x.ctypes.data


def pointer(op, x):
    """Returns the address of a contiguous tensor, for an argument that is a plain pointer."""
    if not (x.is_contiguous() if is_torch(x) else x.flags.c_contiguous):
        raise AttnError("ATTN_BAD_ARGUMENT", "a tensor that is passed as a pointer is not contiguous")
    return READ[x.__class__](x, op)[0]


def floats(like, shape):
    """Returns a new float32 tensor on the device of `like`, with undefined contents."""
    return new_like(like, shape, sys.modules["torch"].float32 if is_torch(like) else "float32")


def rows(like, shape, name):
    """Returns a new tensor of the type `name`, bf16 or fp16, on the device of `like`, with undefined contents. numpy's
    bf16 are uint16."""
    return new_like(like, shape, sixteen_bits(like, name))


def octets(like, shape):
    """Returns a new uint8 tensor on the device of `like`, with undefined contents."""
    return new_like(like, shape, sys.modules["torch"].uint8 if is_torch(like) else "uint8")


def integers(like, shape):
    """Returns a new int32 tensor on the device of `like`, with undefined contents."""
    return new_like(like, shape, sys.modules["torch"].int32 if is_torch(like) else "int32")


def sinks_of(s, sinks):
    """Returns sinks as float32. If the model has them in another type, they are converted once."""
    if sinks is None or dtype(sinks) == "f32":
        return sinks
    return s.made.of("sinks", (sinks,), lambda x: cast(x, "float32"))


def scalar(call, name, scale):
    """Returns the scale of a whole tensor as [1], from a number, or from a tensor with one number or expanded from one.
    Raises NotServed for several numbers."""
    if count(scale) == 1:
        return view(scale, 1)
    if all(st == 0 for st in (scale.stride() if is_torch(scale) else scale.strides)):
        return scale[(slice(0, 1),) + (0,) * (scale.ndim - 1)]
    raise NotServed(call, f"{name} has {count(scale)} scales; one for the whole tensor is served")


def refuse(call, **rows):
    """Raises NotServed if an argument has a form that is not served. Each `name=(bad, reason)` is an argument's name,
    True if its form is not served, and the reason."""
    for name, (bad, why) in rows.items():
        if bad:
            raise NotServed(call, f"{name}: {why}")


def refuse_bytes(call, x, meant):
    """Raises NotServed for torch's uint8 if torch has fp8 types, since some of AITER's calls read uint8 as the type
    `meant`."""
    torch = sys.modules.get("torch")
    if torch and is_torch(x) and x.dtype == torch.uint8 and hasattr(torch, "float8_e4m3fn"):
        raise NotServed(call, f"a cache of torch.uint8 is {meant} to AITER; view fp8 as its own type")


class Cache:
    """The cache of a call: k and v in the form that libattn takes, and the descriptor. `kinds` are the kinds of scales
    that the call reads. Other kinds raise NotServed: AITER would read only their first element, or beyond their last.
    Scales of kind "head" are [sequences, kv heads], or [1, kv heads] or [kv heads] if all sequences share them."""

    def __init__(self, call, k, v, q_dtype, k_scale=None, v_scale=None, shuffled=None,
                 kinds=("tensor", "token", "block"), sequences=0):
        own = dtype(k)
        if dtype(v) != own:
            raise NotServed(call, f"keys are {own}, values {dtype(v)}: the cache has one type")
        if k.ndim == 3:  # each page is one token
            k, v = k[:, None], v[:, None]
        self.k, self.v, layout = k, v, "nhd"
        if k.ndim == 5:
            layout, self.page, self.kv_heads = "shuffle", k.shape[3], k.shape[1]
            self.head_dim = k.shape[2] * k.shape[4]
            self.head_dim_v = v.shape[3]
            if v.ndim == 4:  # values are [page, head, D, token]
                layout, self.head_dim_v = "shuffle_k", v.shape[2]
        else:
            self.page, self.kv_heads, self.head_dim = k.shape[1], k.shape[2], k.shape[3]
            self.head_dim_v = v.shape[3]
        if shuffled is not None and shuffled == (layout == "nhd"):
            raise NotServed(call, f"a cache of {k.ndim} dimensions is not of the layout that the call "
                            "says")
        kind, self.k_scale, self.v_scale = "none", None, None
        if own in ("fp8", "int8"):
            kind = self.take_scales(call, k_scale, v_scale, kinds, sequences)
        elif own != q_dtype:
            raise NotServed(call, f"queries are {q_dtype}, the cache {own}")
        self.desc = CacheDesc(dtype=own if own != q_dtype else None, layout=layout, scale=kind,
                              page_size=self.page)

    def take_scales(self, call, k_scale, v_scale, kinds, sequences):
        if k_scale is None and v_scale is None:
            return "none"
        refuse(call, k_scale=(k_scale is None, "None, v_scale is not"),
               v_scale=(v_scale is None, "None, k_scale is not"))
        if count(k_scale) > 1 and k_scale.ndim == 4 and k_scale.shape[3] == 1:
            # pa_decode_gluon's scales of tokens have a last dimension of 1
            k_scale, v_scale = k_scale[..., 0], v_scale[..., 0]
        pages, heads = self.k.shape[0], self.kv_heads
        shape = tuple(k_scale.shape)
        of_heads = [tuple(x.shape) in ((heads,), (1, heads), (sequences, heads)) for x in (k_scale, v_scale)]
        if "head" in kinds and all(of_heads) and (differ(k_scale) or differ(v_scale)):
            kind = "head"
            refuse(call, v_scale=(places(k_scale) != places(v_scale), "its shape or strides are not those of k_scale"))
            k_scale, v_scale = (x[None] if x.ndim == 1 else x for x in (k_scale, v_scale))
        elif shape == (pages, heads, self.page) and count(k_scale) > 1:
            kind = "token"
        elif shape == (pages, heads) and count(k_scale) > 1 and min(
                st for st, n in zip(strides(k_scale), shape) if n > 1) > 0:
            kind = "block"
        else:
            k_scale, v_scale = scalar(call, "k_scale", k_scale), scalar(call, "v_scale", v_scale)
            kind = "tensor"
        if kind not in kinds:
            raise NotServed(call, f"k_scale {shape}: scales are of a {' or a '.join(kinds)}")
        self.k_scale, self.v_scale = k_scale, v_scale
        return kind

    def tensors(self):
        return {"k_cache": self.k, "v_cache": self.v, "k_scale": self.k_scale,
                "v_scale": self.v_scale}


def strides(x):
    return x.stride() if is_torch(x) else x.strides


def differ(x):
    """True if x has several numbers in memory. A tensor that is expanded from one number has strides of 0."""
    return any(st for _, st in places(x))


def places(x):
    """Returns (size, stride) of each dimension that has several elements."""
    return [(n, st) for n, st in zip(x.shape, strides(x)) if n > 1]


def lens_of_pages(indptr, last_page_lens, page):
    """Returns the number of keys of each sequence, int32. Sequence i has pages indptr[i] to indptr[i + 1] - 1. All are
    full, except that the last one has last_page_lens[i] tokens."""
    pages = indptr[1:] - indptr[:-1]
    if page == 1:
        return cast(pages, "int32")
    if last_page_lens is None:
        raise NotServed("kv_last_page_lens", f"it is needed with pages of {page} tokens")
    lens = (pages - 1) * page + last_page_lens[:pages.shape[0]]
    return cast(lens * (pages > 0), "int32")
