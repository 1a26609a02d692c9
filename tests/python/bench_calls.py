# SPDX-License-Identifier: Apache-2.0
"""bench_calls.py FAKEHIP: measures the host time of calls from Python. FAKEHIP is a HIP library whose launches return
at once. Tensors are torch's where it is installed, marked as the GPU's, else stand-ins. The program fails if a call
takes more than 3 microseconds in addition to libattn's own launch."""
import ctypes
import functools
import sys
import time

import attn
from attn import _native
from attn.attention import BatchDecode
from attn._tensors import READ, read_torch

LIMIT = 3000  # most time of a call in addition to libattn's launch, in ns


class Stand:
    """An object with the members of a torch tensor that attn reads."""
    is_cuda = True

    def __init__(self, shape, dtype):
        self.dtype, self.shape, self._strides, step = dtype, tuple(shape), [], 1
        for n in reversed(shape):
            self._strides.insert(0, step)
            step *= n
        self._strides = tuple(self._strides)

    def data_ptr(self):
        return 1 << 30

    def stride(self):
        return self._strides

    def get_device(self):
        return 0

    def is_contiguous(self):
        return True


def tensors():
    """Returns a name of the kind of tensors, and a function that makes a tensor from a shape and the name of a type."""
    try:
        import torch
    except ImportError:
        READ[Stand] = read_torch
        return "stand-ins", lambda shape, kind: Stand(shape, kind)

    def read(x, op):  # read_torch() of a tensor on a GPU
        """what read_torch() returns for a tensor on a GPU"""
        return x.data_ptr(), (x.dtype, x.shape, x.stride(), x.is_cuda or True)

    READ[torch.Tensor] = read
    return f"torch {torch.__version__}", lambda shape, kind: torch.zeros(
        shape, dtype=getattr(torch, kind))


def measured(rows, per_round=500, rounds=200):
    """Times the rows (what, call) and returns (what, ns of a call) of each: the least average of its rounds. Every
    round runs all rows, since other work on the machine may slow all calls for a second or more."""
    least = [float("inf")] * len(rows)
    for _ in range(rounds):
        for n, (_, f) in enumerate(rows):
            start = time.thread_time_ns()
            for _ in range(per_round):
                f()
            least[n] = min(least[n], (time.thread_time_ns() - start) / per_round)
    return [(what, ns) for (what, _), ns in zip(rows, least)]


def dispatcher(decode, run, q, out, cache, table, lens):
    """Returns rows that make the same calls through torch's dispatcher. The row before each operator's calls an empty
    operator of the same schema, as its baseline. Also returns the library of these operators, which the caller keeps
    alive."""
    import torch
    from attn import _ops, torch_ops
    layer, planned = torch_ops.register(decode), torch_ops.register(run)
    library = torch.library.Library("attn_bench", "DEF")
    library.define("run(int op, Tensor q, Tensor k, Tensor v, Tensor(a!) out) -> ()")
    library.impl("run", lambda op, q, k, v, out: None, "CPU")
    library.define(torch_ops.schema(_ops.Decode))
    library.impl("decode", lambda op, *values: None, "CPU")
    call = {"q": q, "out": out, "k_cache": cache[0], "v_cache": cache[1], "block_table": table,
            "kv_lens": lens}
    rows = []
    for name, f in (("run(op, q, k_cache, v_cache, out)", lambda op, n: op(n, q, *cache, out)),
                    ("decode(op, q=..., out=..., ...)", lambda op, n: op(n, **call))):
        word = name.split("(")[0]
        nothing = getattr(torch.ops.attn_bench, word).default
        real, number = getattr(torch.ops.attn, word).default, planned if word == "run" else layer
        for _ in range(3):
            f(real, number)
        rows += [(f"an operator as {word} that does nothing", functools.partial(f, nothing, number)),
                 (f"torch.ops.attn.{name}", functools.partial(f, real, number))]
    return rows, library


def main(fakehip):
    """Measures and prints all rows. Returns True if one exceeds LIMIT."""
    name, make = tensors()
    pack = attn.build({"targets": ["gfx942"], "kernels": [
        {"op": "decode", "head_dim": 128, "page_size": 16, "gqa": 4}]})
    device = attn.Device(pack, hip=fakehip)
    decode = device.decode(dtype="bf16", head_dim=128, heads=32, kv_heads=8,
                           cache=attn.CacheDesc(page_size=16))
    q, out = make((16, 32, 128), "bfloat16"), make((16, 32, 128), "bfloat16")
    cache = [make((64, 16, 8, 128), "bfloat16") for _ in range(2)]
    table, lens = make((16, 32), "int32"), make((16,), "int32")

    def typed():
        decode(q=q, out=out, k_cache=cache[0], v_cache=cache[1], block_table=table, kv_lens=lens)

    for _ in range(3):  # the second call of a form makes the function for later calls of this form
        typed()
    launch, handle, args = decode._launch, decode._handle, decode._args
    dll = ctypes.CDLL(_native.library_path())
    c_launch = dll.attn_decode_launch
    c_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    c_handle = int(_native.ffi.cast("uintptr_t", handle))
    c_args = int(_native.ffi.cast("uintptr_t", args))
    bound = decode.bind(q=q, out=out, k_cache=cache[0], v_cache=cache[1], block_table=table,
                        kv_lens=lens)
    run = BatchDecode(device, dtype="bf16", head_dim=128, heads=32, kv_heads=8, max_batch=16,
                      cache=attn.CacheDesc(page_size=16), split=False)
    run.plan(lens, block_table=table)
    rows = [("a function that does nothing", lambda: None),
            ("an empty cffi call", lambda: _native.lib.attn_has_feature(b"plan")),
            ("attn_decode_launch through cffi, arguments ready", lambda: launch(handle, args)),
            ("attn_decode_launch through ctypes, arguments ready", lambda: c_launch(c_handle, c_args)),
            ("decode(q=..., out=..., ...): every tensor looked at", typed),
            ("bound call, q and out new", lambda: bound(q=q, out=out)),
            ("bound call as it is", bound),
            ("BatchDecode.run(q, k_cache, v_cache, out=out)", lambda: run.run(q, *cache, out=out))]
    if name != "stand-ins":
        more, library = dispatcher(decode, run, q, out, cache, table, lens)
        rows += more
    nothing, *rows = measured(rows)
    return report(name, rows, nothing[1])


def report(name, rows, nothing):
    """Prints the rows. True if a time exceeds LIMIT. `nothing` is the time of an empty call in ns. The row before an
    operator's calls an empty operator; only the difference counts, since torch's own time is not attn's."""
    base = max(rows[1][1] - rows[0][1], 0)
    print(f"tensors: {name}; libattn's launch itself takes about {base:.0f} ns")
    bad = False
    for n, (what, total) in enumerate(rows):
        over = total - base - nothing
        ours = total - rows[n - 1][1] - base if what.startswith("torch.ops") else over
        part = "" if ours == over else f", {ours:.0f} of it ours"
        print(f"{what:54} {total - nothing:7.0f} ns, {over:7.0f} over the launch{part}")
        bad = bad or (ours > LIMIT and what.startswith(("decode", "bound", "Batch", "torch.ops")))
    return bad


sys.exit(main(sys.argv[1]))
