# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch for every op, so that torch.compile, export and fake tensors see them.

    layer = attn.torch_ops.register(device.decode(dtype="bf16", ...))
    torch.ops.attn.decode(layer, q=q, out=out, k_cache=k, v_cache=v, block_table=table,
    kv_lens=lens) out, lse = torch.ops.attn.prefill_new(prefill_layer, q, k, v, cu, cu, max_q,
    max_k)

torch.ops.attn.run(layer, q, k, v, out) runs a planned BatchDecode or BatchPrefill.

torch.ops.attn.<op> writes its outputs in place, and its schema says which. `<op>_new` of prefill and decode return new
tensors, whose shapes meta kernels compute. On a GPU a launch goes to torch's current stream, so torch.cuda.graph
captures it. The first argument is the number that register() returned for an op.
"""
import torch

from attn import _ops
from attn._native import AttnError

_registered = {}
_layers = {cls: {} for cls in _ops.OPS}  # {class: {number of register(): op}}
# {number of register(): run() of a BatchDecode or BatchPrefill, as a function of q, k, v, out and a stream's number}
_planned = {}
_library = torch.library.Library("attn", "DEF")


def register(op):
    """Returns a number for an op, a BatchDecode or a BatchPrefill, which stays alive until forget()."""
    number = max(_registered, default=0) + 1
    _registered[number] = op
    _layers.setdefault(op.__class__, {})[number] = op
    if hasattr(op, "launcher"):
        _planned[number] = op.launcher()
    elif hasattr(op, "run"):
        _planned[number] = lambda q, k, v, out, at: op.run(q, k, v, out=out, stream=at)
    return number


def forget(number):
    """Releases the op whose number register() returned. No captured graph with the op may be replayed later."""
    del _layers[_registered.pop(number).__class__][number]
    _planned.pop(number, None)


def registered(number, cls):
    op = _registered.get(number)
    if type(op) is not cls:
        raise AttnError("ATTN_BAD_ARGUMENT", f"{number} is no {cls.NAME} that "
                        "attn.torch_ops.register() was given")
    return op


# None in a torch that was built without a GPU's library
_current = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_stream(x):
    """Returns the number of torch's current stream on the GPU of tensor x."""
    return _current(x.get_device()) if x.is_cuda else 0


KINDS = {int: "int", float: "float", bool: "bool", tuple: "int[]"}


def schema(cls):
    """Returns the schema of the operator for an op's class. Each tensor that the op writes has an alias set of its
    own."""
    defaults = cls.__call__.__wrapped__.__kwdefaults__
    alias = {name: f"(a{i}!)" for i, name in enumerate(cls.WRITTEN)}
    rows = [f"Tensor{alias.get(name, '')}? {name}=None" for name in cls.SLOTS]
    for name in list(defaults)[len(cls.SLOTS):-1]:
        value = defaults[name]
        rows.append(f"{KINDS[type(value)]} {name}="
                    f"{list(value) if isinstance(value, tuple) else value}")
    return f"{cls.NAME}(int op, {', '.join(rows)}) -> ()"


def _implement(name, on_cpu, on_gpu, meta):
    for key, launch in (("CPU", on_cpu), ("CUDA", on_gpu)):
        _library.impl(name, launch, key)
    _library.impl(name, meta, "Meta")
    if torch.__version__.startswith("1."):  # torch 1's dispatcher has no fall-through for this key
        _library.impl(name, meta, "AutogradMeta")


def _define(cls):
    _library.define(schema(cls))
    slots, layers, names = cls.SLOTS, _layers[cls], tuple(cls.__call__.__wrapped__.__kwdefaults__)
    usual = slots.index("q" if "q" in slots else cls.WRITTEN[0])

    def implementation(on_gpu):
        # torch passes arguments in the schema's order, up to the last one that differs from its default.
        def launch(op, *values):
            layer = layers.get(op)
            if layer is None:
                registered(op, cls)
            stream = None
            if on_gpu:
                tensor = values[usual] if len(values) > usual else None
                if tensor is None:
                    tensor = next(x for x in values if x is not None)
                stream = current_stream(tensor)
            known = layer._calls.get(len(values))
            if known is None or not known(stream, values):
                layer._learn(stream, dict(zip(names, values)), len(values))
        return launch

    def meta(op, *values):
        return None

    _implement(cls.NAME, implementation(False), implementation(True), meta)


for _cls in _ops.OPS:
    _define(_cls)


def _outputs(q, op):
    """Allocates the outputs of attention over q: (out, lse). lse is empty if the op writes none."""
    dim = op.desc["head_dim_v"] or op.desc["head_dim"]
    rows = (op.desc["heads"], q.shape[0]) if op.desc["lse"] else (0,)
    return q.new_empty((q.shape[0], q.shape[1], dim)), q.new_empty(rows, dtype=torch.float32)


def _new(cls, name, parameters, arguments):
    _library.define(f"{name}(int op, {parameters}) -> (Tensor, Tensor)")

    def launch(number, q, *values):
        op = registered(number, cls)
        out, lse = _outputs(q, op)
        op(q=q, out=out, lse=lse if op.desc["lse"] else None, **dict(zip(arguments, values)),
           stream=current_stream(q))
        return out, lse

    def meta(number, q, *values):
        return _outputs(q, registered(number, cls))

    _implement(name, launch, launch, meta)


_library.define("run(int op, Tensor q, Tensor k, Tensor v, Tensor(a!) out) -> ()")


def _run(number, q, k, v, out):
    run = _planned.get(number)
    if run is None:
        raise AttnError("ATTN_BAD_ARGUMENT", f"{number} is no BatchDecode or BatchPrefill that "
                        "attn.torch_ops.register() was given")
    run(q, k, v, out, _current(q.get_device()) if q.is_cuda else 0)


_implement("run", _run, _run, lambda number, q, k, v, out: None)
_new(_ops.Prefill, "prefill_new",
     "Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, int max_seqlen_q, "
     "int max_seqlen_k, float scale=0.0, int window_left=-1, int window_right=-1, "
     "Tensor? sinks=None, float soft_cap=0.0",
     ("k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "scale",
      "window_left", "window_right", "sinks", "soft_cap"))
_new(_ops.Decode, "decode_new",
     "Tensor q, Tensor k_cache, Tensor v_cache, Tensor kv_lens, Tensor block_table, "
     "Tensor? qo_indptr=None, float scale=0.0, int window_left=-1, int window_right=-1, "
     "Tensor? sinks=None, Tensor? k_scale=None, Tensor? v_scale=None, float soft_cap=0.0",
     ("k_cache", "v_cache", "kv_lens", "block_table", "qo_indptr", "scale", "window_left",
      "window_right", "sinks", "k_scale", "v_scale", "soft_cap"))
