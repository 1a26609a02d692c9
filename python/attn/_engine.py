# SPDX-License-Identifier: Apache-2.0
"""Parts that the plugins for serving engines share: the device with its packs, and which GPU is simulated.

ATTN_PACKS names packs, separated by colons. Without it the kernels that the model's layers need are compiled when the
engine starts; the compiler's cache keeps them. ATTN_AITER=1 serves an engine's own AMD backends instead, by those packs."""
import os
import typing

from attn._compiler import build
from attn._device import Device
from attn._native import AttnError
from attn._ops import CacheDesc
from attn._pack import Pack
from attn.aiter._common import address, strides
from attn.attention import BatchDecode, BatchPrefill, BatchStep, Lists, choose_split, new_like

ROTATED_SEQUENCES = 64  # largest number of sequences in a step for which rope_decode is faster than two launches
PRODUCT_TOKENS = 64  # largest number of tokens in a step for which kernels also multiply by W_UK and W_UV
ROTATED_QUERIES = 8  # largest number of queries per sequence that rope_decode takes


def fuses():
    """True unless ATTN_FUSE is 0: launches may then do the work of several ops."""
    return os.environ.get("ATTN_FUSE", "1") != "0"


def simulated_target():
    """Returns the name of the GPU that hipsim simulates: HIPSIM's `target=`, else gfx942."""
    for word in os.environ.get("HIPSIM", "").split(","):
        if word.startswith("target="):
            return word.partition("=")[2]
    return "gfx942"


def target(ordinal=0):
    """Returns the name of the GPU that launches go to, such as gfx942: the simulated one if ATTN_HIP is sim, else
    torch's GPU `ordinal`."""
    if os.environ.get("ATTN_HIP") == "sim":
        return simulated_target()
    import torch
    if not torch.cuda.is_available() or not torch.version.hip:
        raise AttnError("ATTN_NO_DEVICE", "PyTorch has no AMD GPU; ATTN_HIP=sim takes the simulated one")
    return torch.cuda.get_device_properties(ordinal).gcnArchName.split(":")[0]


def named_packs():
    """Returns the paths in ATTN_PACKS; an empty list if the variable is not set."""
    return [path for path in os.environ.get("ATTN_PACKS", "").split(":") if path]


def named_kernels():
    """Returns the kernels in the packs of ATTN_PACKS. Packs that the plugin compiles itself have no kernel with
    rotation, since the kind of rotation is not known then."""
    return [kernel for path in named_packs() for kernel in Pack(path).kernels()]


def named_ops():
    """Returns the names of all ops for which the packs of ATTN_PACKS have kernels."""
    return {kernel["op"] for kernel in named_kernels()}


def open_device(kernels, ordinal=0):
    """Opens a Device with the packs of ATTN_PACKS. Without ATTN_PACKS the pack is compiled from `kernels`, entries of a
    description."""
    paths = named_packs()
    if not paths and not kernels:
        raise AttnError("ATTN_BAD_ARGUMENT", "ATTN_AITER=1 needs packs, which ATTN_PACKS names")
    packs = [Pack(path) for path in paths] or [build({"targets": [target(ordinal)], "kernels": kernels})]
    return Device(*packs, ordinal=ordinal)


def serve_aiter():
    """Calls attn.aiter.install() if the environment has ATTN_AITER=1, so that an engine's own AMD backends run on
    the packs of ATTN_PACKS. Otherwise does nothing. Engines load plugins in each of their processes."""
    if os.environ.get("ATTN_AITER") != "1":
        return
    from attn import aiter
    from attn.aiter import _common
    if not _common._devices:
        aiter.use(device=open_device([]))
    aiter.install()


class Kind(typing.NamedTuple):
    """The fields that choose the kernels of an attention layer, and the numbers of each of its launches."""
    dtype: str  # element type of queries and outputs: bf16 or fp16
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    scale: float  # factor of q k^T before softmax
    window: int = -1  # number of keys before a query's own that the query sees; -1: all
    sinks: bool = False
    soft_cap: float = 0.0  # limit of scores: soft_cap * tanh(score / soft_cap); 0: none
    kv_dtype: str = "same"  # or fp8 kv_scale
    kv_scale: str = "tensor"  # scales of an fp8 cache: one for the tensor, or one for each KV head ("head")

    def form(self):
        """Returns the fields that prefill and decode share in descriptions and descriptors."""
        return {"dtype": self.dtype, "head_dim": self.head_dim, "head_dim_v": self.head_dim_v, "sinks": self.sinks,
                "mask": "causal" if self.window < 0 else "window", "soft_cap": self.soft_cap > 0}

    def cache(self, page_size):
        """Returns the descriptor of the layer's KV cache with pages of page_size tokens; -1 as in CacheDesc."""
        fp8 = self.kv_dtype == "fp8"
        return CacheDesc(dtype="fp8" if fp8 else None, scale=self.kv_scale if fp8 else "none", page_size=page_size)


def kernels(kinds, decode_queries=1, trees=False):
    """Returns entries of a description for layers of these kinds. They have decode, planned prefill, work lists, sums
    of parts, and the cache's writes with and without rotation. Pages may have any size. `trees` adds kernels that
    verify trees of drafts by a mask, for layers without a window."""
    out = [{"op": "plan", "q_tiles": [False, True]}]
    for kind in dict.fromkeys(kind._replace(scale=0.0, soft_cap=min(kind.soft_cap, 1.0)) for kind in kinds):
        kv = {"kv_dtype": "fp8", "kv_scale": kind.kv_scale} if kind.kv_dtype == "fp8" else {}
        paged = {**kind.form(), **kv, "page_size": "any"}
        size = {"dtype": kind.dtype, "head_dim": kind.head_dim, "head_dim_v": kind.head_dim_v}
        lengths = {"q_len": sorted({1, decode_queries})}
        out += [{"op": "decode", **paged, **lengths, "gqa": kind.heads // kind.kv_heads, "one_launch": [False, True]},
                {"op": "prefill", **paged, "paged": True, "planned": [False, True]},
                {"op": "combine", "dtype": kind.dtype, "head_dim": kind.head_dim_v, "partials": "csr"},
                {"op": "cache_write", **size, **kv}]
        if trees and kind.window < 0:
            out.append({"op": "prefill", **paged, "mask": "custom", "paged": True, "planned": True})
    return unique(out)


def unique(entries):
    """Returns the entries in their order, without repetitions."""
    return list({repr(sorted(entry.items())): entry for entry in entries}.values())


class Rotation(typing.NamedTuple):
    """The work on queries and keys before attention that rope_decode does in the same launch."""
    rope: str  # order of the elements of a rotated pair: neox or gptj
    rotary_dim: int  # elements at the beginning of a head that are rotated
    norm: str = "none"  # norm of each head of queries and keys before the rotation: none or rms
    eps: float = 0.0  # added to the mean square in the norm
    cos_sin_short: bool = True  # True: the table of cosines and sines has the queries' dtype; False: float32


class Steps:
    """The attention of an engine's steps. plan() takes lengths and pages of a step and has one launch for each kind of
    layer. run() computes a layer. Steps whose sequences have few queries are decode, with a kernel of one query a
    sequence if none has more. All others are planned prefill, in which prompts, chunks of prompts and decode steps may
    be mixed. Memory is allocated at construction, for max_batch sequences with max_tokens queries together. `trees`:
    plan() also takes masks of drafts that form trees, unless a layer has a window. `kv_len`: the approximate number of
    keys of a sequence, from which planned prefill chooses its tiles; 0: unknown."""

    def __init__(self, device, kinds, *, page_size, max_batch, max_tokens, decode_queries=1, trees=False,
                 kv_len=0):
        self.decode_queries, self.kept, self.current, self.batch = decode_queries, {}, None, 0
        self.device, self.calls, self.shapes, self.rotated = device, {}, {}, {}
        # self.calls[kind]: {a number of queries per sequence: BatchDecode, or a name: BatchPrefill}
        for kind in dict.fromkeys(kinds):
            shape = self.shapes[kind] = dict(
                kind.form(), heads=kind.heads, kv_heads=kind.kv_heads, scale=kind.scale, soft_cap=kind.soft_cap,
                cache=kind.cache(page_size), window_left=kind.window, max_batch=max_batch)
            made = self.calls[kind] = {n: BatchDecode(device, **shape, q_len=n) for n in {1, decode_queries}}
            made["prefill"] = BatchPrefill(device, **shape, max_tokens=max_tokens, kv_len=kv_len)
            if trees and kind.window < 0:
                made["trees"] = BatchPrefill(device, **dict(shape, mask="custom"), planned=True, max_tokens=max_tokens,
                                             kv_len=kv_len)

    def same(self, name, tensor):
        """Returns the object that an earlier step passed under `name`, if `tensor` has the same memory, shape and
        strides; else `tensor`. Bound launches recognise tensors by the object."""
        last = self.kept.get(name)
        if last is not None and address(last) == address(tensor) and last.shape == tensor.shape and (
                strides(last) == strides(tensor)):
            return last
        self.kept[name] = tensor
        return tensor

    def plan(self, lengths, table, starts, longest, stream=None, tree=None):
        """Plans a step. Tensors are int32 on the device. lengths [batch]: keys of each sequence. table [batch, pages]:
        its pages. starts [batch + 1]: its first query, and at the end the number of queries. `longest` is the largest
        number of queries of a sequence. `tree` is the mask of drafts that form trees, a pair: bytes, 1 if a query sees
        a key, and the offset of each sequence's rows in them, int64 [batch + 1]. None: no trees."""
        lengths, table, starts = (self.same(name, x) for name, x in (("lengths", lengths), ("table", table),
                                                                     ("starts", starts)))
        few = longest <= self.decode_queries
        self.current = "trees" if tree else (1 if longest <= 1 else self.decode_queries) if few else "prefill"
        self.batch, masks = lengths.shape[0], dict(zip(("custom_mask", "mask_indptr"), tree or ()))
        for calls in self.calls.values():
            if self.current not in calls:
                raise AttnError("ATTN_NO_KERNEL", "a tree of drafts in a layer with a window, or without trees=True")
            if few and not tree:
                calls[self.current].plan(lengths, block_table=table, stream=stream,
                                         qo_indptr=starts if self.decode_queries > 1 else None)
            else:
                calls[self.current].plan(starts, longest, kv_lens=lengths, block_table=table, stream=stream, **masks)

    def run(self, kind, q, k, v, out, *, k_scale=None, v_scale=None, sinks=None, stream=None):
        """Computes a layer of the planned step: q and out [tokens, heads, D], k and v the cache's pages [pages, P, kv
        heads, D]."""
        if kind.kv_dtype == "same":
            k_scale = v_scale = None
        self.calls[kind][self.current].run(q, k, v, out=out, k_scale=k_scale, v_scale=v_scale, sinks=sinks, stream=stream)

    def fused(self, kind, rotation):
        """Returns the BatchStep that rotates, writes the cache and attends in one launch. None: the planned step is not
        decode, has more than 64 sequences, or the packs lack the kernel. The first call for a kind, a rotation and a
        number of queries looks the kernel up."""
        queries = self.current
        if not isinstance(queries, int) or self.batch > ROTATED_SEQUENCES or queries > ROTATED_QUERIES or not fuses():
            return None
        if (kind, rotation, queries) not in self.rotated:
            self.rotated[kind, rotation, queries] = self._look_up(kind, rotation, queries)
        return self.rotated[kind, rotation, queries]

    def run_rotated(self, kind, rotation, q, k, v, k_cache, v_cache, out, *, k_scale=None, v_scale=None, **tensors):
        """Computes a layer of the planned step by the BatchStep of fused(): q, k and v [tokens, heads, D] are the
        output of the QKV projection. `tensors` are further arguments of BatchStep.run()."""
        if kind.kv_dtype == "same":
            k_scale = v_scale = None
        self.fused(kind, rotation).run(q, k, v, k_cache, v_cache, out=out, k_scale=k_scale, v_scale=v_scale, **tensors)

    def _look_up(self, kind, rotation, queries):
        """Returns a new BatchStep that uses the plan of decode with up to `queries` queries of a sequence. Returns None
        if the packs have no kernel with this rotation."""
        shape = {name: x for name, x in self.shapes[kind].items() if name != "head_dim_v"}
        if kind.head_dim_v != kind.head_dim:
            return None
        try:
            return BatchStep(self.device, **shape, q_len=queries, decode=self.calls[kind][queries],
                             **rotation._asdict())
        except AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                raise
        return None


class LinearKind(typing.NamedTuple):
    """The fields that choose the kernels of a gated delta net or of a KDA layer. Kernels take any number of heads."""
    dtype: str  # element type of queries and outputs: bf16 or fp16
    taps: int  # of the convolution head_dim
    head_dim: int  # elements of a head of queries and keys
    head_dim_v: int
    state_dtype: str  # element type of recurrent states: f32, bf16 or fp16
    act: str  # activation after the convolution: silu or none
    # "head": each head has one decay; "channel": each element of a key has its own, as in KDA layers
    decay: str = "head"
    # formula of decays: "softplus", or "bounded" with a lower bound of their logarithms, as in some KDA layers
    gates: str = "softplus"


def linear_kernels(kinds, trees=False):
    """Returns the entries of a description for layers of `kinds`: the convolution, the recurrence of decode steps and
    drafts, and the recurrence of prompts. The recurrence of prompts has one launch, or several for few long prompts.
    `trees` adds kernels for drafts that form trees."""
    out, tree = [], {"tree": [False, True]} if trees else {}
    for kind in dict.fromkeys(kinds):
        delta = {"dtype": kind.dtype, "head_dim": kind.head_dim, "head_dim_v": kind.head_dim_v, "gates": kind.gates,
                 "decay": kind.decay, "l2_norm": True, "state_dtype": kind.state_dtype}
        out += [{"op": "conv1d", "dtype": kind.dtype, "taps": kind.taps, "act": kind.act, **tree},
                {"op": "gated_delta", **delta, **tree},
                {"op": "gated_delta_prefill", **delta, "stage": ["all", "chunks", "segments", "scan", "outputs"]}]
    return unique(out)


class MambaKind(typing.NamedTuple):
    """The fields that choose the kernels of a Mamba2 layer. Kernels take any number of heads and groups."""
    dtype: str  # element type of x, B, C, time steps and outputs: bf16 or fp16
    taps: int  # number of taps of the convolution
    state: int  # N, the elements of a row of B and C
    head_dim: int  # P, the elements of a head
    state_dtype: str  # element type of recurrent states: f32, bf16 or fp16
    act: str  # activation after the convolution: silu or none
    bias: bool  # True: the convolution has a bias


def mamba_kernels(kinds, trees=False):
    """Returns the entries of a description for layers of `kinds`: the convolution, the recurrence of decode steps and
    drafts, and the recurrence of prompts. The recurrence of prompts has one launch, or two for few long prompts.
    `trees` adds kernels for drafts that form trees."""
    out, tree = [], {"tree": [False, True]} if trees else {}
    for kind in dict.fromkeys(kinds):
        scan = {"dtype": kind.dtype, "head_dim": kind.state, "head_dim_v": kind.head_dim, "gates": "softplus",
                "state_dtype": kind.state_dtype}
        out += [{"op": "conv1d", "dtype": kind.dtype, "taps": kind.taps, "act": kind.act, "bias": kind.bias, **tree},
                {"op": "ssd", **scan, **tree}, {"op": "ssd_prefill", **scan, "segments": ["none", "states", "outputs"]}]
    return unique(out)


class LatentKind(typing.NamedTuple):
    """The fields that choose the kernels of a layer with latent attention, and its scale."""
    dtype: str  # element type of queries and outputs: bf16 or fp16
    heads: int
    latent: int  # elements of a latent, which keys and values share
    rope: int  # rotated elements of a key, after the latent
    head_dim: int  # elements of a head of expanded queries and keys
    head_dim_v: int
    scale: float
    kv_dtype: str = "same"  # element type of the cache: "same" as dtype, or fp8 with one scale

    def cache(self, page_size):
        """Returns the descriptor of the layer's cache, whose pages have page_size latent rows."""
        fp8 = self.kv_dtype == "fp8"
        return CacheDesc(dtype="fp8" if fp8 else None, scale="tensor" if fp8 else "none", page_size=page_size)


def latent_kernels(kinds, decode_queries=1, absorbed=False):
    """Returns entries of a description for layers of these kinds: absorbed decode, the cache's writes, work lists and
    sums of parts. `absorbed`: the engine absorbs prompts too. Without it there is also prefill of expanded keys, with
    and without LSE. Unless ATTN_FUSE is 0, there are also kernels that include products: absorbed decode with W_UV, the
    cache's writes with W_UK."""
    out = [{"op": "plan"}]
    for kind in dict.fromkeys(kind._replace(scale=0.0) for kind in kinds):
        kv = {"kv_dtype": "fp8", "kv_scale": "tensor"} if kind.kv_dtype == "fp8" else {}
        row = {"dtype": kind.dtype, "head_dim": kind.latent + kind.rope, "head_dim_v": kind.latent, **kv}
        out += [{"op": "mla_decode", **row, "gqa": kind.heads, "page_size": "any", "q_len": sorted({1, decode_queries})},
                {"op": "mla_rope_cache", **row, "rope": "none"},
                {"op": "combine", "dtype": kind.dtype, "head_dim": kind.latent, "partials": "csr"}]
        if absorbed:
            continue
        if fuses():
            out += [{**out[-3], "one_launch": True, "product_dim": kind.head_dim_v},
                    {**out[-2], "product_dim": kind.head_dim - kind.rope}]
        out.append({"op": "prefill", "dtype": kind.dtype, "head_dim": kind.head_dim, "head_dim_v": kind.head_dim_v,
                    "mask": ["causal", "none"], "lse": [False, True]})
    return unique(out)


class LatentSteps:
    """Absorbed decode of an engine's steps over a cache of latents: plan() is called once a step, run() once a layer.
    Memory is allocated at construction, for max_batch sequences. `sparse`: "slots" if sequences have lists of slots in
    place of pages. `kv_len`: the approximate number of keys of a sequence; 0: unknown."""

    def __init__(self, device, kind, *, page_size, max_batch, decode_queries=1, sparse="none", kv_len=0):
        self.kind, self.queries = kind, decode_queries
        self.decodes = False  # set by the engine's plugin: True if run_products() may run the whole planned step
        self.op = device.mla_decode(dtype=kind.dtype, head_dim=kind.latent + kind.rope, head_dim_v=kind.latent,
                                    heads=kind.heads, q_len=decode_queries, sparse=sparse, cache=kind.cache(page_size))
        split = choose_split(self.op, max_batch, kv_len)
        self.lists = Lists(device, batch=max_batch, q_len=decode_queries, heads=kind.heads, kv_heads=1,
                           head_dim_v=kind.latent, lists=split.lists, item_cost=split.item_cost, merge_rate=split.merge_rate,
                           unit_keys=split.unit_keys)
        self.combine = device.combine(dtype=kind.dtype, head_dim=kind.latent, heads=kind.heads, partials="csr")
        self.products = self._look_up_products(device, page_size) if fuses() and sparse == "none" else None
        if self.products:
            self.tickets, self.product_tickets = (device.array(x, "int32") for x in ([[0] * 32] * max_batch, [0] * 32))

    def _look_up_products(self, device, page_size):
        """Returns mla_rope_cache with the product with W_UK and mla_decode with the product with W_UV, or None if the
        packs lack one of them."""
        kind, cache = self.kind, self.kind.cache(page_size)
        row = dict(dtype=kind.dtype, head_dim=kind.latent + kind.rope, head_dim_v=kind.latent, heads=kind.heads, cache=cache)
        try:
            return (device.mla_rope_cache(**row, rope="none", product_dim=kind.head_dim - kind.rope),
                    device.mla_decode(**row, q_len=self.queries, one_launch=True, product_dim=kind.head_dim_v))
        except AttnError as e:
            if e.status != "ATTN_NO_KERNEL":
                raise
        return None

    def plan(self, lengths, table, starts, stream=None):
        """Plans a step. Tensors are int32 on the device. lengths [batch]: keys of each sequence. table [batch, pages]:
        its pages. starts [batch + 1]: its first query, and at the end the number of queries."""
        starts = starts if self.queries > 1 else None
        self.step = {"kv_lens": lengths, "block_table": table, "qo_indptr": starts}
        self.lists.plan(lengths, starts, stream)

    def run(self, q, cache, out, *, k_scale=None, stream=None):
        """Computes a layer: q [tokens, heads, latent + rope], the cache's rows [pages, P, latent + rope], out [tokens,
        heads, latent]."""
        plan = self.lists.of(self.step["kv_lens"].shape[0])
        parts = {"partial_out": self.lists.partial_out, "partial_lse": self.lists.partial_lse,
                 "partial_rows": self.lists.rows}
        self.op(q=q, out=out, k_cache=cache[:, :, None], k_scale=k_scale if self.kind.kv_dtype == "fp8" else None,
                scale=self.kind.scale, work_indptr=plan["work_indptr"], work_info=plan["work_info"], **parts, **self.step,
                stream=stream)
        self.combine(out=out, q_len=self.queries, **parts, **{name: plan[name] for name in (
            "reduce_indptr", "reduce_final_map", "reduce_partial_map")}, stream=stream)

    def run_products(self, q, kv_c, k_pe, slots, cache, w_uk, w_uv, out, *, k_scale=None, stream=None):
        """Computes a layer, with its products, in two launches. q [tokens, heads, head_dim] is the query before W_UK,
        rotated already; kv_c [tokens, latent] and k_pe [tokens, rope] are the new rows of the cache, which go to
        `slots` [tokens]; a slot of -1 is not written. w_uk is [heads, latent, head_dim - rope], w_uv [heads,
        head_dim_v, latent], out [tokens, heads, head_dim_v]. Only steps of up to PRODUCT_TOKENS tokens may call it, if
        self.products is not None."""
        kind, plan = self.kind, self.lists.of(self.step["kv_lens"].shape[0])
        rows, scale = cache[:, :, None], k_scale if kind.kv_dtype == "fp8" else None
        nope = kind.head_dim - kind.rope
        absorbed = new_like(q, (*q.shape[:2], kind.latent + kind.rope))
        latents = new_like(q, (*q.shape[:2], kind.latent))
        write, attend = self.products
        write(q_nope=q[..., :nope], q_pe=q[..., nope:], w_uk=w_uk, q_out=absorbed, kv_c=kv_c, k_pe=k_pe, slot_mapping=slots,
              k_cache=rows, k_scale=scale, stream=stream)
        attend(q=absorbed, out=latents, k_cache=rows, k_scale=scale, scale=kind.scale, w_uv=w_uv, product_out=out,
               tickets=self.tickets.first(self.step["kv_lens"].shape[0]), product_tickets=self.product_tickets,
               partial_out=self.lists.partial_out, partial_lse=self.lists.partial_lse, partial_rows=self.lists.rows,
               **{name: plan[name] for name in ("work_indptr", "work_info", "reduce_indptr", "reduce_partial_map")},
               **self.step, stream=stream)
