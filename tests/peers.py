#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/peers with tools that answer at once: the launches that it makes, the kernel that it
takes as our fastest, and its peer. It also tests the page, and ratios in the ranges of parameters.

Usage: peers.py SOURCE
"""
import json
import os
import subprocess
import sys
import tempfile

ATTNC = """#!/usr/bin/env -S python3 -IS
import json, sys
if sys.argv[1] == "build":
    open(sys.argv[-1], "w").close()
    sys.exit()
if sys.argv[1] == "list":
    print(json.dumps([{"name": "prefill_bf16_d128" + m + n, "target": "gfx950", "key": {"mask": m}}
                      for m in ("", "_mask_none") for n in ("_gfx950", "_tile9_gfx950")]))
    sys.exit()
kernel, shape = sys.argv[3], sys.argv[5]
setting = sys.argv[sys.argv.index("--parameters") + 1] if "--parameters" in sys.argv else ""
us = 7 if kernel.startswith("combine") else 40 if "lists" not in shape else 30
if "_one_launch" in kernel:
    us = 20 if "batch=8" in shape and "lists=256" in shape else 50
if kernel.startswith("prefill"):
    us = 4 if "_tile9" in kernel else 30 if shape.endswith("q=1024,growth=20") else 10
us *= {"wide=3": 1.1, "wide=9": 0.5}.get(setting.split(",")[0], 1)
print(json.dumps([{"cycles": 1000 * us, "us_at_power_clock": us, "tail": 0.5, "matrix_duty": 0.25,
                   "memory_bytes": 1e6 * us}]))
"""

CALIBRATE = """#!/usr/bin/env -S python3 -IS
import json, sys
if sys.argv[1] == "--list":
    print("wide 5 3 9 U\\nsame 1 1 1 M")
    print("\\n".join("still%d 5 3 9 U" % i for i in range(7)))
    sys.exit()
if sys.argv[4].startswith("object:"):
    with open(sys.argv[4][7:]) as f:
        lines = f.read().splitlines()
    # 16 sequences are launched as the heads of one if the mask is causal.
    assert lines[0].split()[1:] in (["K-1024-64-False", "8192", "1", "1", "512", "4096", "8"],
                                    ["K-1024-1024-True", "8192", "1", "1", "512", "4096", "8"]), lines
    pitch = 1024 * (64 if "False" in lines[0] else 1024) * 128
    assert lines[1:] == ["b 268435456", "b 33554432", "i %d" % pitch, "l 128", "i 1024", "s 0.08838834764831845",
                         "n", "n"], lines
    print(json.dumps({"us": 15}))
    sys.exit()
assert sys.argv[4].startswith(("pa:of_bf16_8,K8,2,", "pa:of_bf16_16,K16,2,")) or \\
    sys.argv[4] in ("16,64,8,1024,0,20", "16,64,8,1024,1,20", "16,64,8,1024,0", "16,64,8,1024,1",
                    "1,32,8,1024,0", "1,32,8,1024,1"), sys.argv
print(json.dumps({"cycles": 40000, "us": 40, "bytes": 4e7, "idle": 0, "duty": 0.1}))
"""

OBJECTS = """qType,kvType,Gqa,Mtp,Msk,Hp,blkSz,knl_name,co_name
bf16,bf16,8,0,0,0,16,K8,of_bf16_8.co
bf16,bf16,8,1,0,0,16,wrong,queries.co
bf16,bf16,8,0,0,1,16,wrong,precise.co
bf16,bf16,8,0,0,0,1024,wrong,pages.co
fp16,bf16,8,0,0,0,16,wrong,type.co
bf16,bf16,16,0,0,0,16,K16,of_bf16_16.co
"""

# A replacement for Triton: it checks arguments of compile(), and names the kernel after them.
TRITON = """
class Compiled: pass
class compiler:
    class ASTSource:
        def __init__(self, kernel, signature, constants, attributes):
            kept = {"q_ptr": "*bf16", "k_ptr": "*bf16", "stride_qz_in": "i32", "stride_qh_in": "i64",
                    "SEQLEN_Q": "i32", "sm_scale": "fp32"}
            constant = dict.fromkeys(("stride_qk_in", "NUM_Q_HEADS", "IS_CAUSAL", "sink_ptr"), "constexpr")
            assert signature == {**kept, **constant}, signature
            assert sorted(attributes) == [(0,), (1,), (2,), (3,), (5,)], attributes
            assert constants["stride_qk_in"] == 1 and constants["sink_ptr"] is None, constants
            self.name = "K-1024-%d-%s" % (constants["NUM_Q_HEADS"], constants["IS_CAUSAL"])
def compile(source, target, options):
    assert target == ("hip", "gfx950", 64) and options == {
        "num_warps": 8, "num_stages": 1, "waves_per_eu": 2}, (target, options)
    c = Compiled()
    c.asm, c.metadata = {"hsaco": b"code"}, Compiled()
    c.metadata.name, c.metadata.num_warps, c.metadata.shared = source.name, 8, 4096
    return c
"""

TRITON_BACKEND = """
def GPUTarget(*target): return target
"""

# A kernel of an AITER checkout with few of its parameters.
MHA = """
import torch, triton
from aiter.ops.triton.utils._triton import arch_info
assert arch_info.get_arch() == "gfx950"
class Parameter:
    do_not_specialize = False
    def __init__(self, name, is_constexpr=False, annotation_type=None):
        self.name, self.is_constexpr, self.annotation_type = name, is_constexpr, annotation_type
class _attn_fwd:
    params = [Parameter(*p) for p in (("q_ptr",), ("k_ptr",), ("stride_qz_in",), ("stride_qh_in", False, "i64"),
              ("stride_qk_in",), ("SEQLEN_Q",), ("sm_scale",), ("sink_ptr",), ("NUM_Q_HEADS", True),
              ("IS_CAUSAL", True))]
"""

MHA_CONFIG = """{"fwd": {"default": {"BLOCK_M": 128, "BLOCK_N": 64, "PRELOAD_V": true,
                 "num_warps": 8, "num_stages": 1, "waves_per_eu": 2}}}"""

# Expected rows: shape, our time and the peer's in us, their ratio, how our kernel is launched.
EXPECTED = [
    ("8/1    1024   1", "37.0", "40.0", "0.93", "256 lists + combine"),
    ("8/1    4096   8", "20.0", "40.0", "0.50", "256 lists, one launch"),
    ("64/8    1024 128", "40.0", "40.0", "1.00", "no list"),
]


# The first row with --ranges: ratio, least and largest ratio, and settings of calibrated parameters on whose change the
# ratio crosses 1.
RANGES = ("8/1 heads, 1024 keys x1 ", "0.93,  0.46 (wide=9),  1.02 (wide=3)  CHANGES: wide=3")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def fail(sentence, text):
    """Ends the program with a sentence and the output in which the fault is."""
    sys.exit("peers: %s\n%s" % (sentence, text))


def run(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **environment))
    if done.returncode:
        fail("it failed", done.stderr)
    return done


def check_delta(source, directory):
    """Tests that a peer's kernels keep the configuration that was the fastest at the first shape, and the ratio in a
    row of linear attention."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(source, "tools/bench"))
    import peer_delta

    asked = []

    def launches(call, target, where, configs, batch, tokens):
        """Replaces the launches of fla's kernels: records the configurations that it gets, and returns fixed times."""
        with open(os.path.join(where, "picks.json")) as f:
            asked.append(json.load(f))
        return [["norm", [["warps: 1", "9"], ["warps: 2", "7"]]], ["scan", [["None", "30"]]]]

    peer_delta.peer_fla.launches = launches
    peer = peer_delta.Peer(lambda text: {"us": float(text[len("object:"):])}, "gfx942", directory)
    first, _ = peer.times("gdn", 8, 2048), peer.times("gdn", 64, 256)
    if first != [("norm", 7.0), ("scan", 30.0)] or asked != [{}, {"norm": "warps: 2", "scan": "None"}]:
        fail("fla's fastest configurations are not kept", "%s %s" % (first, asked))
    report = {"us_at_power_clock": 18.5, "matrix_fraction": 0.2, "memory_fraction": 0.4}
    _, ratio, values = peer_delta.row("gfx942", "layer", 8, 2048, [report], 0, first)
    if ratio != 0.5 or values[2] != "40":
        fail("a row of linear attention is wrong", "%s %s" % (ratio, values))


def ends(function, *arguments):
    """Calls a function that ends the program. Returns the sentence with which it ends."""
    try:
        function(*arguments)
    except SystemExit as e:
        return str(e)
    return "no error"


def check_flydsl(directory):
    """Tests several parts: code objects made of text, tensors of a launch, the choice of FlyDSL's kernels, and a folder
    that lacks a kernel."""
    import peer_flydsl

    text = peer_flydsl.code_object(rb'bin = "no", "\7FELF\00\\A\"\5C\FF end", "\7FELF"')
    if text != b'\x7fELF\0\\A"\\\xff end':
        fail("a code object is wrong", repr(text))
    lines = peer_flydsl.tensor(2, 3, 5, 128)
    if lines != ["b 3840", "i 3", "i 5", "i 128", "i 640", "i 0", "i 128", "i 0"] or (
            peer_flydsl.tensor(4, 1) != ["b 16", "i 1"]) or peer_flydsl.tensor(4, 9, path="p") != ["f p", "i 9"]:
        fail("a FlyDSL tensor is wrong", "\n".join(lines))
    launches = [("norm", 8), ("norm", 8), ("dots", 10), ("inverse", 20), ("scan", 30)]
    parts = ("dots", "inverse")
    if peer_flydsl.faster(launches, parts, ("one", 29)) != [*launches[:2], ("one", 29), launches[4]] or (
            peer_flydsl.faster(launches, parts, ("one", 30)) != launches):
        fail("not the faster launches", "%s" % launches)
    if "no longer launches other" not in ends(peer_flydsl.faster, launches, ("scan", "other"), ("one", 1)):
        fail("no error for a launch that is missing", "")
    for path, _ in peer_flydsl.PIECES:
        if "flydsl has no %s, the " % path not in ends(peer_flydsl.check_folder, directory + "/flydsl"):
            fail("no error for a folder without", path)
        write(os.path.join(directory, "flydsl", path), "")
    peer_flydsl.check_folder(directory + "/flydsl")


def check_split(source, directory):
    """Tests the work lists of the persistent kernel: parts are equal, cover all pages, and occur once."""
    import peer_split

    for shape, units, most in (((64, 4, 4096, 1), 256, 4), ((16, 2, 5000, 3), 4, 2), ((64, 4, 4096, 64), 256, 1)):
        heads, kv_heads, keys, batch = shape
        indptr, items, parts = peer_split.plan(heads, kv_heads, keys, batch, units)
        pages, group = -(-keys // 1024), heads // kv_heads
        lists = [items[a:b] for a, b in zip(indptr, indptr[1:])]
        sizes = [sum(item[5] - item[4] for item in one) for one in lists]
        seen = sorted((item[0], item[7] & 0xffff, page) for item in items for page in range(item[4], item[5]))
        rows = [item[1] for item in items if item[1] >= 0]
        if len(lists) != units or max(sizes) > -(-batch * kv_heads * pages // units) or parts != most or (
                rows != list(range(len(rows)))) or seen != [(s, h * group, s * pages + p) for s in range(batch)
                                                            for h in range(kv_heads) for p in range(pages)] or (
                any(item[7] >> 16 != (item[7] & 0xffff) + group for item in items)):
            fail("the persistent kernel's lists are wrong for %s" % (shape,), "%s %s" % (sizes, items))
    path, _ = peer_split.write_launch(("object", "kernel"), directory, 64, 4, 4096, 8, 256)
    with open(path) as f:
        lines = f.read().splitlines()
    widths = [4 if line[0] in "is" else 8 for line in lines[1:]]
    if sum(widths) != 23 * 16 or lines[0] != "object kernel 256 1 1 256 0 0":
        fail("not 23 arguments of 16 bytes", "\n".join(lines))


def main():
    peers = os.path.join(sys.argv[1], "tools/bench/peers")
    with tempfile.TemporaryDirectory() as d:
        check_delta(sys.argv[1], d)
        check_flydsl(d)
        check_split(sys.argv[1], d)
        write(d + "/build/tools/attnc/attnc", ATTNC)
        write(d + "/build/tools/hipsim/calibration/calibrate", CALIBRATE)
        write(d + "/hsa/gfx950/pa/pa_asm.csv", OBJECTS)
        command = [sys.executable, peers, "--hsa", d + "/hsa", "--build", d + "/build",
                   "--target", "gfx950", "--op", "decode", "--type", "bf16"]
        done = run(command + ["--html", d + "/page.html"])
        for row, ours, theirs, ratio, way in EXPECTED:
            lines = [line for line in done.stdout.splitlines() if row in line]
            if len(lines) != 1 or not all(word in lines[0] for word in (ours, theirs, ratio, way)):
                fail("not %s" % [row, ours, theirs, ratio, way], done.stdout)
        with open(d + "/page.html") as f:
            page = f.read()
        if page.count("<td class=bar>") != len(done.stdout.splitlines()) - 1 or \
                "class=less style='width:25.0%'></i><b>0.50</b>" not in page:
            fail("the page has other bars", page)
        done = run(command + ["--rows", "1", "--ranges"])
        if RANGES[0] not in done.stdout or not done.stdout.endswith(RANGES[1] + "\n"):
            fail("not %s" % [*RANGES], done.stdout)
        tried = [line.split()[0] for line in done.stderr.splitlines()]
        if "still4=3" not in tried or "still5=3,still6=3" not in tried or "still5=3" in tried:
            fail("not each setting of a block that matters, and no other", done.stderr)
        done = run(command + ["--small"])
        if [line.split()[2:5] for line in done.stdout.splitlines()[1:]] != [["64/8", "1024", "8"]]:
            fail("--small has other rows of decode", done.stdout)
        done = run(command[:-3] + ["prefill", "--type", "grow", "--rows", "1"])
        lines = [line for line in done.stdout.splitlines() if " grow " in line]
        if len(lines) != 2 or not all(line.endswith(" 0.75  0.75") for line in lines):
            fail("data that grow are not asked for, or not of both", done.stdout)
        done = run(command[:-3] + ["prefill", "--type", "bf16", "--small"])
        lines = [line for line in done.stdout.splitlines() if " bf16 " in line]
        if len(lines) != 2 or not all(line.endswith(" 0.10  0.10") for line in lines):
            fail("not the kernel that launches of few tiles take", done.stdout)
        check_triton(command, d)


def check_triton(command, d):
    """Tests --triton: it times the kernels that Triton's wrappers would launch, and prints the time in us and the
    ratio."""
    kernels = d + "/aiter/ops/triton/_triton_kernels/"
    write(kernels + "__init__.py", "raise ImportError('packages want a GPU')\n")
    write(kernels + "attention/mha.py", MHA)
    write(d + "/aiter/ops/triton/utils/_triton/core.py", "")
    write(d + "/aiter/ops/triton/configs/gfx950-MHA-DEFAULT.json", MHA_CONFIG)
    write(d + "/python/triton/__init__.py", TRITON)
    write(d + "/python/triton/backends/compiler.py", TRITON_BACKEND)
    command = command[:-3] + ["prefill", "--type", "bf16", "--rows", "1", "--triton"]
    done = run(command, PYTHONPATH=d + "/python")
    lines = [line for line in done.stdout.splitlines() if line.endswith(" 15.0  0.67")]
    if len(lines) != 2:
        fail("not Triton's 15 us, and 10 over 15", done.stdout)
    write(d + "/python/triton/__init__.py", "raise ImportError('there is no Triton')\n")
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=d + "/python"))
    if done.returncode == 0 or "peers: Triton: ImportError: there is no Triton" not in done.stderr:
        fail("it does not say that there is no Triton", done.stderr)


main()
