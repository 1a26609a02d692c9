# SPDX-License-Identifier: Apache-2.0
"""Triton kernels of ROCm/aiter for tools/bench/peers, compiled as its wrappers would.

Triton compiles for an absent GPU. The kernels' modules are loaded from a checkout without
the packages around them, which need torch and a GPU; torch itself is used only for annotations.
A module is loaded for one target, so peers runs this as a program, once for each launch:

    peer_triton.py prefill|decode|mixed CHECKOUT TARGET DIRECTORY NUMBER...

writes the launches of a call to DIRECTORY and prints their files, which are for
`calibrate --shape object:FILE`.
"""
import array
import importlib
import json
import os
import random
import subprocess
import sys
import types

BF16 = 2  # bytes of an element
DIM = 128
XCDS = 8
PAGE = 16
PART = 1024  # keys of a split-KV part
UNITS = {"gfx942": 304, "gfx950": 256}


def import_kernels(checkout, target, name):
    """Loads a module of kernels below aiter.ops.triton, for `target`."""
    package = "aiter.ops.triton._triton_kernels.attention"
    parts = package.split(".")
    for i in range(1, len(parts) + 1):
        module = types.ModuleType(".".join(parts[:i]))
        module.__path__ = [os.path.join(checkout, *parts[:i])]
        sys.modules[module.__name__] = module
    arch = types.ModuleType("aiter.ops.triton.utils._triton.arch_info")
    arch.get_arch = lambda: target
    sys.modules[arch.__name__] = arch
    torch = types.ModuleType("torch")
    torch.Tensor = torch.dtype = type("Tensor", (), {})
    torch.float32 = "float32"
    torch.finfo = lambda dtype: types.SimpleNamespace(min=-448.0, max=448.0)  # read only for fp8 outputs
    sys.modules["torch"] = torch
    numbers = types.ModuleType("aiter.ops.triton.utils.types")
    numbers.e4m3_dtype = "float8_e4m3fn"
    sys.modules[numbers.__name__] = numbers
    return importlib.import_module(package + "." + name)


def compile_kernel(kernel, target, values, options):
    """Returns the compiled kernel, and its arguments as lines for `calibrate --shape object:`. `values` are
    the call's arguments by name; a buffer is (form of the line, text, Triton's type), and a missing one is
    None. As in Triton's launcher, 1 and None are constants of the kernel, and so are its constexpr
    parameters. Multiples of 16 are marked as such. A number in the kernel's do_not_specialize is neither
    a constant nor marked."""
    import triton
    from triton.backends.compiler import GPUTarget

    signature, constants, attributes, lines = {}, {}, {}, []
    for i, parameter in enumerate(kernel.params):
        value, special = values.get(parameter.name), not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (special and isinstance(value, int) and value == 1):
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = value
            continue
        if isinstance(value, tuple):
            form, text, signature[parameter.name] = value
        elif isinstance(value, float):
            form, text, signature[parameter.name] = "s", repr(value), "fp32"
        else:
            wide = parameter.annotation_type == "i64"
            form, text, signature[parameter.name] = "l" if wide else "i", str(value), "i64" if wide else "i32"
        if form in "bf" or form in "il" and special and value % 16 == 0:
            attributes[(i,)] = [["tt.divisibility", 16]]
        lines.append("%s %s" % (form, text))
    source = triton.compiler.ASTSource(kernel, signature, constants, attributes)
    compiled = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)
    return compiled, lines + ["n", "n"]  # Triton's scratch memory, which these kernels do not use


def write_launch(compiled, lines, grid, samples, directory, name):
    """Writes the code object and the file that describes its launch; returns the file's path. 0 samples: all
    workgroups run."""
    path = os.path.join(directory, name)
    with open(path + ".hsaco", "wb") as f:
        f.write(compiled.asm["hsaco"])
    meta = compiled.metadata
    with open(path + ".launch", "w") as f:
        f.write("%s.hsaco %s %d %d %d %d %d %d\n" % (path, meta.name, *grid, 64 * meta.num_warps,
                                                     meta.shared, samples))
        f.write("".join(line + "\n" for line in lines))
    return path + ".launch"


def buffer(nbytes, kind="*bf16"):
    return ("b", str(nbytes), kind)


def prefill(checkout, target, directory, batch, heads, kv_heads, length, causal):
    """Writes the launch of forward attention of [batch, length, heads, 128] with the defaults of mha.py.
    Causal workgroups differ, and sampling them needs a regular order. The heads of all sequences therefore
    become heads of one sequence, which is the same work on tensors of the same size."""
    if causal:
        batch, heads, kv_heads = 1, batch * heads, batch * kv_heads
    mha = import_kernels(checkout, target, "mha")
    with open(os.path.join(checkout, "aiter/ops/triton/configs/%s-MHA-DEFAULT.json" % target)) as f:
        config = json.load(f)["fwd"]["default"]
    values = {
        "sm_scale": DIM ** -0.5, "dropout_p": 0.0, "philox_seed": 0, "philox_offset_base_in": 0,
        "SEQLEN_Q": length, "SEQLEN_K": length, "IS_CAUSAL": bool(causal), "NUM_Q_HEADS": heads,
        "NUM_K_HEADS": kv_heads, "BLOCK_DMODEL": DIM, "BLOCK_DMODEL_POW2": DIM,
        "BLOCK_DMODEL_PE": 0, "RETURN_SCORES": False, "ENABLE_DROPOUT": False, "IS_FP8": False,
        "FP8_MAX": 0.0, "VARLEN": False, "BATCH": batch, "NUM_XCD": XCDS, "SWIZZLE": "default",
        "USE_INT64_STRIDES": True, "ENABLE_SINK": False, "SLIDING_WINDOW": 0,
        "HEAD_STRIDE_ALIGNED_8": True, "PRELOAD_V": config["PRELOAD_V"],
        "BLOCK_M": config["BLOCK_M"], "BLOCK_N": config["BLOCK_N"],
    }
    for tensor, axes, count in (("q", "zhmk", heads), ("k", "zhnk", kv_heads),
                                ("v", "zhnk", kv_heads), ("o", "zhmn", heads)):
        pointer = "out_ptr" if tensor == "o" else tensor + "_ptr"
        values[pointer] = buffer(batch * length * count * DIM * BF16)
        strides = (length * count * DIM, DIM, count * DIM, 1)
        values.update(("stride_%s%s_in" % (tensor, axis), n) for axis, n in zip(axes, strides))
    for parameter in mha._attn_fwd.params:  # strides of tensors that the call does not have
        if parameter.name.startswith("stride_"):
            values.setdefault(parameter.name, 0)
    options = {key: config[key] for key in ("num_warps", "num_stages", "waves_per_eu")}
    compiled, lines = compile_kernel(mha._attn_fwd, target, values, options)
    blocks = -(-length // config["BLOCK_M"])
    return [write_launch(compiled, lines, (batch * heads * blocks, 1, 1), 8, directory, "prefill")]


def int32_file(directory, name, numbers):
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        array.array("i", numbers).tofile(f)
    return ("f", path, "*i32")


def decode(checkout, target, directory, heads, kv_heads, keys, batch):
    """Writes the launches of decode over pages [page, head, token, 128], like paged_attention_decode() of
    pa_decode.py: one launch, or parts of 1,024 keys and a second launch that sums them."""
    import triton.language as tl

    module = import_kernels(checkout, target, "pa_decode")
    group, pages = heads // kv_heads, -(-keys // PAGE)
    parts = -(-keys // PART)
    whole = keys <= 8192 and (parts == 1 or batch * heads > 512)
    numbers = list(range(batch * pages))
    random.Random(1).shuffle(numbers)
    cache = buffer(batch * pages * kv_heads * PAGE * DIM * BF16)
    table = int32_file(directory, "pages", numbers)
    lens = int32_file(directory, "lens", [keys] * batch)
    rows = batch * heads * parts
    partial = {"stride_%s%s" % (name, axis): size * n
               for name, size in (("max_logits_", 1), ("exp_sums_", 1), ("logits_", DIM))
               for axis, n in (("s", kv_heads * parts * group), ("nh", parts * group),
                               ("h", parts * group), ("p", group), ("g", 1))}
    values = {
        **partial, "out_ptr": buffer(batch * heads * DIM * BF16),
        "q_ptr": buffer(batch * heads * DIM * BF16), "k_cache_ptr": cache, "v_cache_ptr": cache,
        "exp_sums_ptr": buffer(rows * 4, "*fp32"), "max_logits_ptr": buffer(rows * 4, "*fp32"),
        "logits_ptr": buffer(rows * DIM * BF16), "logits_ptrs": buffer(rows * DIM * BF16),
        "blk_tables_ptr": table, "blk_tables_ptrs": table, "seq_lens_ptr": lens,
        "scale": DIM ** -0.5, "k_scale": 1.0, "v_scale": 1.0, "compute_type": tl.bfloat16,
        "stride_o_s": heads * DIM, "stride_o_nh": DIM, "stride_o_h": DIM,
        "stride_q_s": heads * DIM, "stride_q_nh": DIM, "stride_q_hs": 1,
        "stride_k_b": kv_heads * PAGE * DIM, "stride_k_nh": PAGE * DIM, "stride_k_kb": DIM,
        "stride_k_hs": 1, "stride_bt_s": pages, "HEAD_SZ": DIM, "HEAD_SZ_POW2": DIM,
        "QUERY_GRP_SZ": group, "QUERY_GRP_SZ_POW2": 16, "KV_BLK_SZ": PAGE, "KV_BLK_SZ_POW2": PAGE,
        "SEQ_PARTITION_SZ": PART, "MAX_NUM_SEQ_PARTITIONS_POW2": 1 << (parts - 1).bit_length(),
    }
    launches = [(module._paged_attn_decode_v1_w_dot_kernel, 1)] if whole else [
        (module._paged_attn_decode_v2_w_dot_kernel, parts),
        (module._paged_attn_decode_v2_w_dot_reduce_kernel, 1)]
    files = []
    for kernel, depth in launches:
        grid = (batch, kv_heads, depth)
        compiled, lines = compile_kernel(kernel, target, values, {})
        samples = 0 if batch * kv_heads * depth <= 256 else 1
        files.append(write_launch(compiled, lines, grid, samples, directory, "decode%d" % len(files)))
    return files


def mixed(checkout, target, directory, heads, kv_heads, ones, ones_keys, q, keys):
    """Writes the launches of a batch of `ones` sequences of one query and a chunk of q queries. Pages are [page, token, head,
    128]. As in unified_attention.py one launch makes parts of each sequence, and a second one adds them up. A batch for which
    it takes its kernel without parts is refused."""
    sequences, tokens, group, longest = ones + 1, ones + q, heads // kv_heads, max(keys, ones_keys)
    rows = 16 // group  # queries of a workgroup
    blocks, units = tokens // rows + sequences, 4 * UNITS[target]
    if blocks * kv_heads > units or longest <= 512:
        raise SystemExit("unified_attention takes no parts for %d blocks of %d keys" % (blocks * kv_heads, longest))
    parts = min(max(-(-4 * units // (blocks * kv_heads)), 8), 128, -(-longest // PAGE))
    parts = 1 << (parts - 1).bit_length()
    module = import_kernels(checkout, target, "unified_attention")
    lens, pages = [ones_keys] * ones + [keys], -(-longest // PAGE)
    numbers = list(range(sequences * pages))
    random.Random(1).shuffle(numbers)
    cache = buffer(sequences * pages * PAGE * kv_heads * DIM * BF16)
    values = {
        "segm_output_ptr": buffer(tokens * heads * parts * DIM * 4, "*fp32"),
        "segm_max_ptr": buffer(tokens * heads * parts * 4, "*fp32"),
        "segm_expsum_ptr": buffer(tokens * heads * parts * 4, "*fp32"),
        "output_ptr": buffer(tokens * heads * DIM * BF16), "query_ptr": buffer(tokens * heads * DIM * BF16),
        "key_cache_ptr": cache, "value_cache_ptr": cache,
        "block_tables_ptr": int32_file(directory, "pages", numbers), "seq_lens_ptr": int32_file(directory, "lens", lens),
        "query_start_len_ptr": int32_file(directory, "starts", [*range(sequences), tokens]),
        "scale": DIM ** -0.5, "softcap": 0.0, "num_query_heads": heads, "num_queries_per_kv": group,
        "block_table_stride": pages, "query_stride_0": heads * DIM, "query_stride_1": DIM, "output_stride_0": heads * DIM,
        "output_stride_1": DIM, "qq_bias_stride_0": 0, "BLOCK_SIZE": PAGE, "TILE_SIZE": PAGE, "HEAD_SIZE": DIM,
        "HEAD_SIZE_PADDED": DIM, "USE_ALIBI_SLOPES": False, "USE_QQ_BIAS": False, "USE_SOFTCAP": False, "USE_SINKS": False,
        "SLIDING_WINDOW": 0, "BLOCK_Q": rows, "BLOCK_M": 16, "num_seqs": sequences, "NUM_SEGMENTS_PER_SEQ": parts,
        "num_warps": 2, "waves_per_eu": 2, "num_stages": 2, "FP8_MIN": -448.0, "FP8_MAX": 448.0, "ALL_DECODE": False,
        "SHUFFLED_KV_CACHE": False, "K_WIDTH": 8, "IS_Q_FP8": False, "IS_KV_FP8": False,
    }
    for tensor in "kv":
        strides = (PAGE * kv_heads * DIM, kv_heads * DIM, DIM, 1)
        values.update(("stride_%s_cache_%d" % (tensor, i), n) for i, n in enumerate(strides))
    files = []
    for kernel, grid, warps, stages in ((module.kernel_unified_attention_3d, (blocks, kv_heads, parts), 2, 2),
                                        (module.reduce_segments, (tokens, heads, 1), 1 if parts == 8 else 2, 1)):
        options = {"num_warps": warps, "num_stages": stages, "waves_per_eu": 2}
        compiled, lines = compile_kernel(kernel, target, dict(values, **options), options)
        samples = 0 if kernel is module.kernel_unified_attention_3d else 1  # workgroups of the sum are alike
        files.append(write_launch(compiled, lines, grid, samples, directory, "mixed%d" % len(files)))
    return files


def run_program(what, path, *arguments, **environment):
    """Runs a Python program in another process and returns what it prints. `what`: its name in errors."""
    done = subprocess.run([sys.executable, "-B", os.path.abspath(path), *[str(a) for a in arguments]],
                          env=dict(os.environ, **environment), capture_output=True, text=True)
    if done.returncode:
        sys.exit("peers: %s: %s" % (what, (done.stderr.strip().splitlines() or ["no reason given"])[-1]))
    return done.stdout


def launches(op, hsa, target, directory, *numbers):
    """Returns the files that describe a call's launches. Another process writes them."""
    checkout = os.path.dirname(os.path.abspath(hsa))
    return run_program("Triton", __file__, op, checkout, target, directory, *map(int, numbers),
                       TRITON_CACHE_DIR=os.path.join(directory, "triton"), TRITON_DEFAULT_FP_FUSION="1").split()


if __name__ == "__main__":
    _, what, where, gfx, out, *given = sys.argv
    print(*{"prefill": prefill, "decode": decode, "mixed": mixed}[what](where, gfx, out, *[int(n) for n in given]))
