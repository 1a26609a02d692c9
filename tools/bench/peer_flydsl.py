# SPDX-License-Identifier: Apache-2.0
"""Compares prompts of GDN and KDA with ROCm/aiter's Triton and FlyDSL kernels, for tools/bench/peers.

Both compilers work for an absent GPU. A folder has AITER's package `aiter` as source and the package `flydsl`. A package is
loaded for one target, so peers runs this as a program:

    peer_flydsl.py launches FOLDER gdn|kda TARGET DIRECTORY CONFIGS BATCH TOKENS
    peer_flydsl.py compile FOLDER gdn|kda TARGET DIRECTORY

`launches` prints the Triton launches of AITER's function, in the form of peer_fla.py. `compile` writes the code objects of
the layer's FlyDSL kernels to DIRECTORY. FlyDSL 0.3.1 writes no file of a code object: it is a string in a dumped module.
"""
import contextlib
import functools
import glob
import os
import re
import shutil
import struct
import sys
import types

import peer_delta
import peer_fla
import peer_triton

DIM, CHUNK = peer_fla.DIM, 64
VALUES = (16, 32, 64)  # value elements of a workgroup of the scan
BF16, FP32, INT32 = 2, 4, 4  # bytes of an element

# Paths that a folder needs, with what they are.
PIECES = [
    ("flydsl/__init__.py", "package flydsl (pip install --target FOLDER flydsl==0.3.1)"),
    ("aiter/ops/flydsl/kernels/gdn_prepare.py", "FlyDSL kernel of AITER for the coefficients of GDN"),
    ("aiter/ops/flydsl/kernels/chunk_gated_delta_h_opt.py", "FlyDSL kernel of AITER for the scan"),
    ("aiter/ops/triton/gated_delta_net/gated_delta_rule.py", "Triton function of AITER for GDN"),
    ("aiter/ops/triton/kimi_delta_attn", "Triton function of AITER for KDA"),
    ("aiter/ops/triton/_triton_kernels/chunk_delta_attn/flash_kda.py", "Triton kernels of AITER for KDA"),
    ("aiter/ops/prefill_batch_metadata.py", "module of AITER that its Triton functions load"),
]

# Packages of AITER that are loaded without their __init__.py, which wants a GPU.
PACKAGES = ("aiter", "aiter.jit", "aiter.ops", "aiter.ops.triton", "aiter.ops.flydsl")

# Triton kernels of AITER's GDN in whose place one FlyDSL launch can be.
COEFFICIENTS = ("fused_chunk_local_cumsum_scaled_dot_kkt_fwd_kernel", "merge_16x16_to_64x64_inverse_kernel",
                "recompute_w_u_head_major_kernel")
SCAN = ("chunk_gated_delta_rule_fwd_kernel_h_opt_vk",)


def check_folder(folder):
    """Ends the program if a folder lacks a piece, and names it."""
    for path, what in PIECES:
        if not os.path.exists(os.path.join(folder, path)):
            sys.exit("peers: %s has no %s, the %s" % (folder, path, what))


def load_packages(folder):
    """Makes AITER's modules and flydsl of a folder importable."""
    sys.path.insert(0, folder)
    for name in PACKAGES:
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = module


def replace_cuda(target):
    """Replaces the functions of PyTorch that look for a GPU."""
    import torch

    properties = types.SimpleNamespace(multi_processor_count=peer_fla.UNITS[target], gcnArchName=target,
                                       total_memory=1 << 37)
    torch.cuda.device = torch.cuda.device_of = lambda *args, **named: contextlib.nullcontext()
    torch.cuda.get_device_properties = lambda *args: properties
    torch.cuda.current_device = lambda: 0


def sequences(batch, tokens):
    """Returns cu_seqlens of equal sequences in 32 bits, as AITER's functions take them."""
    import torch

    return peer_fla.sequences(batch, tokens).to(torch.int32)


def gdn(batch, tokens):
    """Calls AITER's prompts of GDN for a rank of Qwen3-Next at TP 8. Decays and beta are given."""
    from aiter.ops.triton.gated_delta_net.gated_delta_rule import chunk_gated_delta_rule_opt_vk

    gate = peer_fla.empty(1, batch * tokens, 4, kind="float32")
    chunk_gated_delta_rule_opt_vk(
        *peer_fla.rows(batch, tokens, 2, 4), g=gate, beta=gate, output_final_state=True, use_qk_l2norm_in_kernel=True,
        initial_state=peer_fla.empty(batch, 4, DIM, DIM, kind="float32"), cu_seqlens=sequences(batch, tokens))


def kda(batch, tokens):
    """Calls AITER's prompts of KDA for a rank of Kimi-K3 at TP 8. Tables of segments are made on the host, as they need
    data."""
    import torch
    import aiter.ops.triton._triton_kernels.chunk_delta_attn.flash_kda as flash_kda
    from aiter.ops.triton.kimi_delta_attn import chunk_kimi_delta_attn

    build = flash_kda._build_segments
    flash_kda._build_segments = lambda *args: build(*args[:-1], torch.device("cpu"))
    given = dict(peer_fla.kda_call(batch, tokens), cu_seqlens=sequences(batch, tokens),
                 beta=peer_fla.empty(1, batch * tokens, 12, kind="float32"))
    chunk_kimi_delta_attn(**given, safe_gate=True, state_v_first=True)


def compile_coefficients(heads, value_heads):
    """Compiles FlyDSL's coefficients of GDN in one launch. The sizes of the tensors do not matter."""
    import flydsl.compiler
    import flydsl.expr
    import torch
    from aiter.ops.flydsl.kernels.gdn_prepare import compile_gdn_prepare

    rows, gate = torch.empty(DIM * CHUNK, dtype=torch.bfloat16), torch.empty(CHUNK)
    kernel = compile_gdn_prepare(BT=CHUNK, K=DIM, V=DIM, is_varlen=True, g_scale=1.4426950408889634)  # 1 / ln 2
    flydsl.compiler.compile(kernel, rows, rows, gate, gate, torch.empty(2, dtype=torch.int32), rows, rows, gate, CHUNK,
                            value_heads, heads, 1, value_heads, flydsl.expr.Stream(0))


def compile_scan(target, heads, value_heads, values, channel):
    """Compiles FlyDSL's scan with `values` value elements of a workgroup. channel: a decay for each channel."""
    import flydsl.compiler
    import flydsl.expr
    import torch
    from aiter.ops.flydsl.kernels.chunk_gated_delta_h_opt import compile_chunk_gated_delta_h_opt

    def rows(*shape):
        return torch.empty(1, *shape, DIM, dtype=torch.bfloat16)

    kernel = compile_chunk_gated_delta_h_opt(
        K=DIM, V=DIM, BT=CHUNK, BV=values, H=value_heads, Hg=heads, USE_G=not channel, USE_GK=channel,
        USE_INITIAL_STATE=True, STORE_FINAL_STATE=True, SAVE_NEW_VALUE=True, IS_VARLEN=True, WU_CONTIGUOUS=True,
        STATE_DTYPE_BF16=False, SNAPSHOT_DTYPE_BF16=True, G_IS_LOG2_SCALED=True, USE_STATE_INDICES=False,
        SCHED_GFX942=target == "gfx942", G_HEAD_MAJOR=True, BF16_CONVERT_TRUNC=True)
    one, state = torch.empty(1), torch.empty(1, value_heads, DIM, DIM)
    each = rows(value_heads, CHUNK)
    gates = (one, torch.empty(1, CHUNK, value_heads, DIM)) if channel else (torch.empty(1, value_heads, CHUNK), one)
    starts, slots = torch.empty(2, dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    flydsl.compiler.compile(kernel, rows(CHUNK, heads), each, each, each, *gates, rows(1, value_heads, DIM), state, state,
                            starts, starts, slots, CHUNK, CHUNK, 1, DIM // values, value_heads, flydsl.expr.Stream(0))


def code_object(module):
    """Returns the code object in the text of a module, in which bytes may be escaped: \\\\, \\" or two hexadecimal digits."""
    found = re.search(rb'"(\\7FELF(?:[^"\\]|\\.)*)"', module, re.DOTALL)
    if not found:
        raise SystemExit("FlyDSL's module has no code object")
    return re.sub(rb'\\([\\"]|[0-9A-Fa-f]{2})',
                  lambda m: m[1] if len(m[1]) == 1 else bytes([int(m[1], 16)]), found[1])


def compile_kernels(layer, target, directory):
    """Writes DIRECTORY/LAYER-KERNEL.hsaco of each FlyDSL kernel of a layer: coefficients (GDN alone), scan16, ..."""
    os.environ.update(FLYDSL_GPU_ARCH=target, COMPILE_ONLY="1", FLYDSL_DUMP_IR="1", FLYDSL_RUNTIME_ENABLE_CACHE="0",
                      FLYDSL_RUNTIME_CACHE_DIR=os.path.join(directory, "cache"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    _, _, *heads = peer_delta.LAYERS[layer]
    channel = layer == "kda"
    jobs = {"scan%d" % n: functools.partial(compile_scan, target, *heads, n, channel) for n in VALUES}
    if not channel:
        jobs["coefficients"] = functools.partial(compile_coefficients, *heads)
    for name, job in jobs.items():
        stem = os.path.join(directory, "%s-%s" % (layer, name))
        os.environ["FLYDSL_DUMP_DIR"] = stem
        try:
            with FakeTensorMode():
                job()
        except Exception as e:  # of the compiler's passes or the linker, with a whole module as text
            raise SystemExit("%s: %s" % (name, " ".join(str(e).splitlines()[:2])[:300]))
        modules = glob.glob(stem + "/*/*_gpu_module_to_binary.mlir")
        if len(modules) != 1:
            raise SystemExit("FlyDSL wrote %d modules of %s instead of one" % (len(modules), name))
        with open(modules[0], "rb") as f, open(stem + ".hsaco", "wb") as out:
            out.write(code_object(f.read()))


def words(form, *numbers):
    """Returns packed numbers as lines of 32 bits each for `calibrate --shape object:`."""
    packed = struct.pack("<" + form, *numbers)
    return ["i %d" % n for n in struct.unpack("<%di" % (len(packed) // 4), packed)]


def tensor(size, *shape, path=None):
    """Returns the lines of a FlyDSL tensor: the pointer, sizes of 32 bits, and strides but the last of 64, packed. `size`:
    bytes of an element; `path`: of its data."""
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    nbytes = max(size * strides[0] * shape[0], 16)
    pointer = "f " + path if path else "b %d" % nbytes
    return [pointer] + words("i" * len(shape) + "q" * (len(shape) - 1), *shape, *strides[:-1])


class Kernels:
    """FlyDSL's kernels of a layer for a target, compiled at the first use."""

    def __init__(self, folder, layer, time_object, target, directory):
        self.folder, self.layer, self.time_object, self.target = folder, layer, time_object, target
        self.directory = os.path.join(directory, "flydsl-" + target)
        self.compiled = False
        _, _, self.heads, self.value_heads = peer_delta.LAYERS[layer]

    def compile(self):
        """Compiles the kernels in another process."""
        os.makedirs(self.directory, exist_ok=True)
        rocm = os.environ.get("ROCM_PATH") or link_linker(self.directory)
        peer_triton.run_program("FlyDSL", __file__, "compile", self.folder, self.layer, self.target, self.directory,
                                ROCM_PATH=rocm)
        self.compiled = True

    def time(self, kernel, symbol, grid, samples, lines):
        """Returns the us of a launch. 0 samples: all workgroups run."""
        if not self.compiled:
            self.compile()
        stem = os.path.join(self.directory, "%s-%s" % (self.layer, kernel))
        with open(stem + ".launch", "w") as f:
            f.write("%s.hsaco %s %d %d 1 256 0 %d\n" % (stem, symbol, *grid, samples))
            f.write("".join(line + "\n" for line in lines))
        return self.time_object("object:" + stem + ".launch")["us"]

    def starts(self, batch, step):
        """Returns the lines of a tensor with 0, step, 2 step, ..., batch step: where equal sequences begin."""
        os.makedirs(self.directory, exist_ok=True)
        path = os.path.join(self.directory, "starts-%d-%d" % (batch, step))
        with open(path, "wb") as f:
            f.write(struct.pack("<%di" % (batch + 1), *[i * step for i in range(batch + 1)]))
        return tensor(INT32, batch + 1, path=path)

    def coefficients(self, batch, tokens):
        """Returns the name and us of the launch of coefficients. AITER makes the number of columns odd."""
        total, n, chunks = batch * tokens, self.value_heads, -(-tokens // CHUNK)
        rows, gate = tensor(BF16, total * n * DIM), tensor(FP32, total * n)
        lines = tensor(BF16, total * self.heads * DIM) + rows + gate + gate + self.starts(batch, tokens) + rows + rows + gate
        columns = chunks | 1 if chunks > 1 else 1
        return "gdn_prepare (FlyDSL)", self.time("coefficients", "gdn_prepare_kernel", (columns, batch * n), 0,
                                                 lines + words("iii", total, n, self.heads))

    def scan(self, batch, tokens):
        """Returns the name and us of the fastest scan."""
        total, n, chunks = batch * tokens, self.value_heads, -(-tokens // CHUNK)
        rows, state, one = tensor(BF16, 1, n, total, DIM), tensor(FP32, batch, n, DIM, DIM), tensor(FP32, 1)
        gates = one + tensor(FP32, 1, total, n, DIM) if self.layer == "kda" else tensor(FP32, 1, n, total) + one
        lines = tensor(BF16, 1, total, self.heads, DIM) + rows * 3 + gates + tensor(
            BF16, 1, batch * chunks, n, DIM, DIM) + state * 2 + self.starts(batch, tokens) + self.starts(
                batch, chunks) + tensor(INT32, 1) + words("iii", total, total, batch)
        us, values = min((self.time("scan%d" % values, "chunk_gdn_fwd_h_flydsl_opt", (DIM // values, batch * n),
                                    peer_fla.SAMPLES, lines), values) for values in VALUES)
        return "chunk_gated_delta_h_opt (FlyDSL, %d value elements)" % values, us


def link_linker(directory):
    """Returns a folder in which FlyDSL finds LLVM's linker as in ROCm."""
    linker = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if not linker:
        sys.exit("peers: FlyDSL: neither ld.lld-22 nor ld.lld is in PATH, and ROCM_PATH is not set")
    rocm = os.path.join(directory, "rocm")
    os.makedirs(os.path.join(rocm, "llvm/bin"), exist_ok=True)
    link = os.path.join(rocm, "llvm/bin/ld.lld")
    if not os.path.lexists(link):
        os.symlink(linker, link)
    return rocm


def faster(launches, kernels, form):
    """Returns launches with the faster of two: their `kernels`, or the launch `form` in the place of these. Each launch is
    (kernel, us)."""
    names = [name for name, _ in launches]
    missing = [name for name in kernels if name not in names]
    if missing:
        sys.exit("peers: AITER's function no longer launches %s" % missing[0])
    if form[1] >= sum(us for name, us in launches if name in kernels):
        return launches
    at = names.index(kernels[0])
    return [launch for launch in launches[:at] if launch[0] not in kernels] + [form] + [
        launch for launch in launches[at:] if launch[0] not in kernels]


class Peer(peer_delta.Peer):
    """AITER's Triton kernels of a layer, and FlyDSL's of GDN where they are faster."""

    NAME = "AITER"

    def __init__(self, folder, time_object, target, directory):
        super().__init__(time_object, target, directory)
        self.folder = folder
        self.kernels = Kernels(folder, "gdn", time_object, target, directory)

    def launches(self, call, batch, tokens):
        """Returns the Triton launches of AITER's function."""
        return peer_fla.launches(call, self.target, self.directory, peer_delta.CONFIGS, batch, tokens, self.NAME,
                                 (__file__, "launches", self.folder))

    def times(self, call, batch, tokens):
        """Returns (kernel, us) of each launch of a call, with FlyDSL's in the place of slower ones."""
        found = super().times(call, batch, tokens)
        if call != "gdn":  # FlyDSL has no coefficients of KDA
            return found
        found = faster(found, COEFFICIENTS, self.kernels.coefficients(batch, tokens))
        return faster(found, SCAN, self.kernels.scan(batch, tokens))


def scans(folder, trace, time_object, build, target, directory, units, shapes):
    """Yields the rows of KDA's scan for shapes in which ours is a launch of its own."""
    kernels = Kernels(folder, "kda", time_object, target, directory)
    for batch, tokens in shapes:
        segment, stages = peer_delta.planned(build, "kda", batch, tokens, units, target)
        of_scan = [stage for stage in stages if stage in ("segments", "scan")]
        if of_scan:
            reports = peer_delta.prompt(trace, target, "kda", batch, tokens, segment, of_scan)
            what = peer_delta.LAYERS["kda"][0] + ", scan"
            yield peer_delta.row(target, what, batch, tokens, reports, segment, [kernels.scan(batch, tokens)])


def prompts(folder, trace, time_object, build, target, directory, units, shapes):
    """Yields the rows of prompts of a target."""
    folder = os.path.abspath(folder)
    yield from peer_delta.prompts(trace, lambda: Peer(folder, time_object, target, directory), build, target, units, shapes)
    yield from scans(folder, trace, time_object, build, target, directory, units, shapes)


def main(what, folder, call, target, directory, *numbers):
    """Compiles the kernels of a layer, or prints the launches of a call."""
    load_packages(folder)
    if what == "compile":
        compile_kernels(call, target, directory)
        return
    replace_cuda(target)
    peer_fla.record({"gdn": gdn, "kda": kda}, call, target, directory, *numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
