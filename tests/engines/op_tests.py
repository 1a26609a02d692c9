#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""op_tests.py BUILD FOLDER [--aiter CHECKOUT] [--target GFX] [--write] [FILE]...: AITER's own tests of the calls that attn.aiter
serves, on the simulated GPU.

FOLDER has the environment that prepare.sh makes, and AITER's sources in FOLDER/aiter unless CHECKOUT says where. The tests are
AITER's files as they are: `aiter` is attn.aiter, tensors of "cuda" are in the host's memory (simulated_cuda.py), and a kernel
that a call needs is compiled then (op_session.py). Of each function as many cases run as the table below says, evenly out of
those with small shapes. op_tests.txt has what became of them and why each refused case is refused. The program fails if a case is
wrong or the text differs; --write writes it. FILEs choose rows."""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "op_tests.txt"
COMMIT = "e4048607a5"  # of AITER, which the list is of


def row(file, functions, cases=24, most=300, leave="", **limits):
    """Functions of a file of pytest's. `cases`: maximum for each function. `most`: maximum of a case's parameters; `limits`
    replaces it for single parameters. Cases whose name matches `leave` are left out."""
    return {"file": file, "functions": functions.split(), "cases": cases, "most": most, "leave": leave, "limits": limits}


def script(file, *arguments, strict=True):
    """A file that is run as a script with arguments; each call of a function under AITER's @benchmark() is a case. `strict`: it
    fails where AITER's checkAllclose() prints `failed`; else only by the file's own assertions."""
    return {"file": file, "script": list(arguments), "strict": strict}


ATTENTION = "triton_tests/attention/"
ROWS = {
    "gfx942": [
        row(ATTENTION + "test_mha.py", "test_mha test_mha_varlen test_mha_with_dropout", most=130, cases=48, BATCH=4,
            NUM_Q_HEADS=8),
        row(ATTENTION + "test_mha_with_sink.py", "test_mha_with_sink test_mha_varlen_with_sink test_mha_with_sink_sliding_window",
            cases=36),
        row(ATTENTION + "test_mha_v3.py", "test_flash_attn_kvcache test_flash_attn_kvcache_sliding_window "
            "test_flash_attn_kvcache_noncontiguous_paged test_mha_fp8 test_mha_varlen_fp8", cases=12),
        row(ATTENTION + "test_mha_with_pe.py", "test_mha_with_pe test_mha_varlen_with_pe", most=200, leave="True",
            NUM_Q_HEADS=8),
        row(ATTENTION + "test_extend_attention.py", "test_op_fwd", most=2000),
        row(ATTENTION + "test_fp8_mqa_logits.py", "test_fp8_mqa_logits", most=600, cases=40),
        row(ATTENTION + "test_unified_attention.py", "test_triton_unified_attn", most=2048, cases=12, leave=r"\[True", head_size=128,
            block_size=16),
        row(ATTENTION + "test_unified_attention_sparse_mla.py", "test_triton_unified_attn", most=2000),
        row("triton_tests/fusions/test_fused_kv_cache.py", "test_fused_qk_rope_cat_and_cache_mla "
            "test_fused_qk_rope_reshape_and_cache", most=17000, T=8),
        row("triton_tests/test_kv_cache.py", "test_cat_and_cache_mla", most=17000, T=8),
        row("triton_tests/rope/test_rope.py", "test_rope_sbhd_fwd test_rope_thd_fwd test_rope_fwd_cached", cases=6),
        row("triton_tests/rope/test_fused_qkv_split_qk_rope.py", "test_fused_qkv_split_qk_rope_with_cache", most=131072),
        script("test_concat_cache_mla.py", "-t", "4", "128", "-hd", "2", "8", "-c", "normal"),
        row("test_pa_ragged.py", "test_paged_attention", most=130, num_seqs=3, leave="quant_cache_dtype"),
        script("test_pa_ps.py", "-n", "10,1", "16,2", "-q", "1", "4", "-c", "7", "282", "-b", "3"),
        script("test_mla.py", "-c", "21", "-b", "3", "-n", "16,1", "16,2"),
        script("test_mla_persistent.py", "-c", "21", "64", "-b", "3", "-n", "16,1", "16,2",
               strict=False),  # the comparisons that it prints are with unrounded caches, and of AITER's own parts
        script("test_fused_qk_norm_rope_cache_quant.py", "-t", "3", "127", "-hd", "4,1", "-hs", "64", "128"),
        script("test_indexer_k_quant_and_cache.py", "-m", "1", "64"),
    ],
    "gfx950": [
        row(ATTENTION + "test_unified_attention.py", "test_triton_unified_attn", most=2048, cases=6, leave=r"\[True",
            head_size=128, block_size=16),
    ],
}


def environment(build, target):
    """The environment of a process of tests."""
    out = dict(os.environ)
    out.update(PYTHONPATH=f"{build / 'python'}:{HERE}", ATTN_LIBRARY=str(build / "runtime" / "libattn.so"),
               ATTN_HIPSIM=str(build / "tools" / "hipsim" / "hip" / "libamdhip64.so"), HIPSIM=f"target={target}",
               ATTN_ATTNC=str(build / "tools" / "attnc" / "attnc"), ATTN_HOOKS=str(HERE.parents[1] / "examples" / "hooks"),
               OMP_NUM_THREADS="1")
    return out


def run(build, folder, checkout, target, rows):
    """Runs rows in a process. Returns [(file, function, case, kind, sentence, seconds)]; a row without any case ends the
    program."""
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "results"
        out.touch()
        job = {"target": target, "checkout": str(checkout), "rows": rows, "out": str(out)}
        done = subprocess.run([folder / "venv" / "bin" / "python", HERE / "op_run.py", json.dumps(job)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment(build, target), cwd=folder, check=False)
        results = [json.loads(line) for line in out.read_text().splitlines()]
    without = {one["file"] for one in rows} - {result[0] for result in results}
    if done.returncode or without:
        sys.exit("\n".join([*done.stdout.splitlines()[-40:], f"exit code {done.returncode}; no case of {sorted(without)}"]))
    return results


def lines(target, results):
    """The lines of op_tests.txt about a target's results."""
    groups = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for file, function, _, kind, sentence, _ in results:
        groups[file, function][kind][sentence] += 1
    out = []
    for (file, function), kinds in groups.items():
        out.append(f"{target} {file} {function}: {kinds['passed'].total()} pass")
        for kind in ("passed", "refused", "left", "wrong"):
            out += [f"    {count} {kind}: {sentence}" for sentence, count in sorted(kinds[kind].items()) if sentence]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--aiter", type=pathlib.Path)
    parser.add_argument("--target", choices=ROWS)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_intermixed_args()
    build, folder = args.build.resolve(), args.folder.resolve()
    checkout = (args.aiter or folder / "aiter").resolve()
    if not (folder / "venv").exists() or not (checkout / "op_tests").exists():
        print(f"skipped: {HERE}/prepare.sh {folder} makes the environment and {checkout}")
        return 77
    text, counts, seconds = [], collections.Counter(), 0
    for target, rows in ROWS.items():
        chosen = [one for one in rows if not args.files or any(name in one["file"] for name in args.files)]
        if not chosen or args.target not in (None, target):
            continue
        results = run(build, folder, checkout, target, chosen)
        seconds += sum(one[5] for one in results)
        counts.update(one[3] for one in results)
        text += lines(target, results)
        for file, function, case, kind, sentence, _ in results:
            if kind == "wrong":
                print(f"WRONG {target} {file} {function}{case}: {sentence}")
    print(*text, sep="\n")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), f"in {seconds:.0f} CPU seconds")
    if args.write:
        LIST.write_text("\n".join(text) + "\n")
    known = LIST.read_text().splitlines() if LIST.exists() else []
    missing = [line for line in text if line not in known]
    if missing:
        print("not in op_tests.txt:", *missing, sep="\n  ")
    return bool(counts["wrong"] or missing or not counts["passed"])


if __name__ == "__main__":
    sys.exit(main())
