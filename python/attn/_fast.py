# SPDX-License-Identifier: Apache-2.0
"""Generates Python functions that repeat a launch quickly. A function is for arguments of one form: it compares each
tensor with that form, writes pointers into libattn's arguments, and launches."""
import functools

from attn._native import ffi
from attn._tensors import READ, Sign

HEAD = """\
def make(acquire, release, READ, owner, words, launch, handle, args, finish, stream_handle, {cells}):
    def call(stream, {parameters}):
        nonlocal {changing}
        {unpacking}
        acquire()
        try:
"""
TAIL = """\
            if stream is not given:
                handle_of_stream, given = stream_handle(stream), stream
            words[stream_word] = handle_of_stream
            status = launch(handle, args)
            if {when}:
                finish(status)
        finally:
            release()
        return True
    return call
"""
# Texts of generated code that checks one argument {i}; each kind of argument has one. The function returns False if the
# argument's form has changed.
NONE = """\
            if x{i} is not None:
                return False
"""
NUMBER = """\
            if x{i} != value{i}:
                return False
"""
# HELD is for a tensor that is usually the same object in each call. The object may have got other memory. KEPT is for
# such an object whose memory cannot change.
HELD = """\
            if x{i} is not held{i} or address{i}() != pointer{i}:
                pointer, sign = READ[x{i}.__class__](x{i}, owner)
                if sign != sign{i}:
                    return False
                words[word{i}] = pointer
                held{i}, address{i}, pointer{i} = x{i}, x{i}.data_ptr, pointer
"""
KEPT = """\
            if x{i} is not held{i}:
                pointer, sign = READ[x{i}.__class__](x{i}, owner)
                if sign != sign{i}:
                    return False
                words[word{i}] = pointer
                held{i} = x{i}
"""
# Texts for a tensor that differs from call to call: DENSE for torch's contiguous tensors, STRIDED for torch's with
# gaps, ANY for other libraries'.
MOVING = """\
            if (x{i}.__class__ is not class{i} or x{i}.dtype is not dtype{i} or x{i}.shape != shape{i}
                    or {strides} or x{i}.get_device() != device{i}):
                return False
            words[word{i}] = x{i}.data_ptr()
"""
DENSE = MOVING.replace("{strides}", "not x{i}.is_contiguous()")
STRIDED = MOVING.replace("{strides}", "x{i}.stride() != strides{i}")
ANY = """\
            pointer, sign = READ[x{i}.__class__](x{i}, owner)
            if sign != sign{i}:
                return False
            words[word{i}] = pointer
"""
TEXTS = {"none": NONE, "number": NUMBER, "held": HELD, "kept": KEPT, "dense": DENSE, "strided": STRIDED,
         "any": ANY}
CELLS = {"none": (), "number": ("value",), "held": ("word", "sign", "held", "address", "pointer"),
         "kept": ("word", "sign", "held"), "dense": ("word", "class", "dtype", "shape", "device"),
         "strided": ("word", "class", "dtype", "shape", "strides", "device"), "any": ("word", "sign")}
CHANGING = {"held": ("held", "address", "pointer"), "kept": ("held",)}


class Number:
    """An argument that is no tensor. The generated function returns False if its value differs from the one here."""
    kind = "number"

    def __init__(self, value):
        self.cells = (value,)


class Nothing:
    """A tensor argument that the call sets to None."""
    kind, cells = "none", ()


class Seen:
    """A tensor of a call that was checked: its address, its sign (attn._tensors), and `word`, the index of its pointer
    in libattn's arguments. `moves`: True if the tensor usually differs from call to call."""

    def __init__(self, x, pointer, sign, word, moves):
        torch = hasattr(x, "data_ptr") and type(sign) is not Sign
        if moves and torch and sign[3]:
            dense = x.is_contiguous()
            self.kind = "dense" if dense else "strided"
            self.cells = (word, x.__class__, x.dtype, x.shape,
                          *(() if dense else (x.stride(),)), x.get_device())
        elif moves:
            self.kind, self.cells = "any", (word, sign)
        elif torch:
            self.kind, self.cells = "held", (word, sign, x, x.data_ptr, pointer)
        else:
            self.kind, self.cells = "kept", (word, sign, x)


@functools.lru_cache(maxsize=None)
def factory(kinds, unpack, waits):
    """Returns a generated function that makes launching functions for arguments of the kinds `kinds` (keys of TEXTS).
    function() explains `unpack` and `waits`."""
    names = ", ".join(f"x{i}" for i in range(len(kinds)))
    cells = [f"{cell}{i}" for i, kind in enumerate(kinds) for cell in CELLS[kind]]
    changing = [f"{cell}{i}" for i, kind in enumerate(kinds) for cell in CHANGING.get(kind, ())]
    text = HEAD.format(cells=", ".join(["stream_word", "given", "handle_of_stream", *cells]),
                       changing=", ".join(["given", "handle_of_stream", *changing]),
                       parameters="x" if unpack else names,
                       unpacking=f"[{names}] = {unpack}" if unpack else "")
    text += "".join(TEXTS[kind].format(i=i) for i, kind in enumerate(kinds))
    text += TAIL.format(when="True" if waits else "status")
    space = {}
    exec(compile(text, f"<attn call of {len(kinds)}>", "exec"), space)
    return space["make"]


def function(owner, arguments, args, stream_word, lock, finish, *, unpack, waits=False):
    """Returns a function of a stream and tensors and numbers, for calls with the same form as the call described by
    `arguments` (Number, Nothing or Seen each). With `unpack`, an expression of x, the function takes one object x
    instead. It launches and returns True. If a number, dtype, shape, stride or device differs, it returns False without
    a launch. `owner` is an op or a bound call. `lock` guards `args`, libattn's arguments; stream_word is the index of
    the stream in them, in units of 8 bytes. finish(status) is called after a launch that failed, or with `waits` after
    every launch."""
    from attn._op import stream_handle
    make = factory(tuple(a.kind for a in arguments), unpack, waits)
    words = memoryview(ffi.buffer(args)).cast("Q")
    cells = [cell for a in arguments for cell in a.cells]
    return make(lock.acquire, lock.release, READ, owner, words, owner._launch, owner._handle, args,
                finish, stream_handle, stream_word, None, 0, *cells)
