#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py BUILD FOLDER [NAME]... or run.py --list [NAME]...: serving engines run tiny models on the simulated GPU, and their tokens are compared with
transformers'.

FOLDER holds what does not belong into the tree: the environment that prepare.sh makes (7 GB, from PyPI) and the models.
Several runs may use FOLDER at once.
BUILD is a build tree, or an environment that `prepare.sh FOLDER --wheels DIR` makes,
with a release's wheels.
A case runs if its name contains one of the NAMEs; without NAMEs all run. Each case is a process, a fork of one that has imported the
engine (case_server.py). It passes if three things hold.

* The difference of log probabilities from float32 is at most twice the difference of transformers' own bf16. * Each
token is float32's best token, within the same difference. * hipsim ran the attention kernels that the case lists: one
for each layer and step. So nothing else computed attention.

The exit code is 77, a skipped test, where FOLDER has no environment, and 2 for arguments that
choose nothing."""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import build_tree

HERE = pathlib.Path(__file__).resolve().parent
ATTENTION = re.compile(r"hipsim: ((?:decode|prefill|mla_decode|gated_delta|gated_delta_prefill|ssd|ssd_prefill)_\w+): grid")
PLAN = re.compile(r"hipsim: (plan_\w+): grid")
LIMIT = 2.0  # factor of the difference that transformers' bf16 has from float32
MIXER_LIMIT = 6 * 2.0 ** -9  # limit of a difference divided by the norm of the values; mixers.py derives the number
HOOK_LIMIT = 2.0 ** -8  # limit of a difference divided by the largest value; a rounding to bf16 is half of this limit

# engine: "vllm" or "sglang", names the step script. batched: largest number of tokens in a step. page: tokens of a
# page. drafts: True if steps verify drafts. eagle: number of branches in which an EAGLE draft model proposes drafts; 0:
# no such model. attention, plans: number of launches in all steps, or in each step if drafts decide the number of
# steps; None: not checked.
Case = collections.namedtuple("Case", "name engine model backend target fp8 batched page drafts attention plans eagle")


def case(engine, backend, model, target="gfx942", fp8=False, batched=256, page=16, drafts=False, attention=16,
         plans=None, eagle=0):
    more = ["fp8"] * fp8 + ["chunks"] * (batched < 48) + ["drafts"] * drafts + [f"eagle{eagle}"] * (eagle > 0)
    return Case("-".join([engine, backend.lower(), model, target, *more]), engine, model, backend, target, fp8, batched, page,
                drafts, attention, plans, eagle)


# Models have two layers. There are 8 steps if both prompts are in one step, and 11 with chunks of 16 tokens.
CASES = [
    case("vllm", "ROCM_AITER_UNIFIED_ATTN", "qwen3"),
    case("vllm", "ROCM_AITER_UNIFIED_ATTN", "gpt-oss", "gfx950"),
    case("vllm", "ROCM_AITER_UNIFIED_ATTN", "gemma3", fp8=True),
    case("vllm", "ROCM_AITER_FA", "qwen3"),
    case("vllm", "ROCM_AITER_MLA", "deepseek"),
    case("vllm", "ROCM_AITER_MLA", "deepseek", "gfx950"),
    case("vllm", "ATTN", "qwen3", plans=8),
    case("vllm", "ATTN", "qwen3", "gfx950", fp8=True, plans=8),
    case("vllm", "ATTN", "llama", batched=16, attention=22, plans=11),
    case("vllm", "ATTN", "mistral", "gfx950", batched=16, attention=22, plans=11),
    case("vllm", "ATTN", "gemma2", plans=16),
    case("vllm", "ATTN", "gemma3", fp8=True, plans=16),
    case("vllm", "ATTN", "gpt-oss", plans=16),
    case("vllm", "ATTN", "qwen3-next", plans=8),
    # Three steps are mixed. In these the gated delta net has one launch for prompts and one for decode.
    case("vllm", "ATTN", "qwen3-next", "gfx950", batched=16, attention=25, plans=11),
    case("vllm", "ATTN", "qwen3-next", drafts=True, attention=2, plans=1),
    case("vllm", "ATTN", "qwen3", "gfx950", drafts=True, attention=2, plans=1),
    # Each step launches attention 3 times, also the step with the prompts: to verify drafts, and twice for the draft
    # model.
    case("vllm", "ATTN", "llama-1", attention=3, plans=3, eagle=1),
    case("vllm", "ATTN", "llama-1", "gfx950", attention=3, plans=3, eagle=1),
    case("vllm", "ATTN", "granite-4", plans=8),
    case("vllm", "ATTN", "granite-4", "gfx950", batched=16, attention=25, plans=11),
    case("vllm", "ATTN", "nemotron-h", plans=8),
    case("vllm", "ATTN", "nemotron-h", "gfx950", batched=16, attention=25, plans=11),
    case("hooks", "ATTN", "rope"),
    case("hooks", "attn", "sglang"),
    case("vllm", "ATTN_MLA", "deepseek"),
    case("vllm", "ATTN_MLA", "deepseek", "gfx950", fp8=True),
    case("vllm", "ATTN_MLA", "deepseek", batched=16, attention=None),
    case("vllm", "ATTN_MLA", "deepseek-mtp", attention=3, eagle=1),
    case("vllm", "ATTN_MLA", "deepseek-mtp", "gfx950", attention=3, eagle=1),
    case("vllm", "ATTN_MLA", "kimi-linear"),
    case("vllm", "ATTN_MLA", "kimi-linear", "gfx950", batched=16, attention=None),
    case("vllm", "ATTN_MLA_SPARSE", "deepseek-v32", plans=8),
    case("vllm", "ATTN_MLA_SPARSE", "deepseek-v32", "gfx950", plans=8),
    case("sglang", "aiter", "qwen3", page=1),
    case("sglang", "aiter", "llama", "gfx950", page=1),
    case("sglang", "attn", "qwen3", plans=8),
    case("sglang", "attn", "llama", "gfx950", fp8=True, plans=8),
    # SGLang's Mistral has no window, so the model is Llama
    case("sglang", "attn", "llama", batched=16, attention=None),
    case("sglang", "attn", "gemma2", plans=16),
    case("sglang", "attn", "qwen3-next", plans=8),
    case("sglang", "attn", "qwen3-next", "gfx950", batched=16, attention=22, plans=11),
    # A step launches attention 4 times: to verify drafts, to enter the verified tokens into the draft model, and in two steps of that model.
    case("sglang", "attn", "llama-1", page=1, attention=4, plans=4, eagle=1),
    case("sglang", "attn", "llama-1", "gfx950", attention=4, plans=4, eagle=1),
    case("sglang", "attn", "llama-1", "gfx950", page=1, attention=4, plans=4, eagle=2),
    # The draft model has keys and values.
    case("sglang", "attn", "deepseek-1", attention=4, plans=4, eagle=1),
    case("sglang", "attn", "deepseek-1", "gfx950", attention=4, plans=4, eagle=1),
    # The target has two layers.
    case("sglang", "attn", "deepseek-nextn", attention=5, plans=4, eagle=1),
    case("sglang", "attn", "deepseek-nextn", "gfx950", attention=5, plans=4, eagle=1),
    case("sglang", "attn", "granite-4", plans=8),
    case("sglang", "attn", "granite-4", "gfx950", batched=16, attention=22, plans=11),
    case("sglang", "attn", "nemotron-h", plans=8),
    case("sglang", "attn", "nemotron-h", "gfx950", batched=16, attention=22, plans=11),
    # SGLang's pages of an indexer's keys have 64 tokens.
    case("sglang", "attn", "deepseek-v32-yarn", page=64, plans=8),
    case("sglang", "attn", "deepseek-v32-yarn", "gfx950", page=64, plans=8),
    case("sglang", "attn", "kimi-linear"),
    case("sglang", "attn", "kimi-linear", "gfx950", batched=16, attention=None),
    case("sglang", "attn", "deepseek-yarn", plans=8),  # SGLang's CPU layers refuse the model without scaled positions
]


def environment(build, one):
    """Returns the environment of a case's process."""
    out = build_tree.environment(build, f"target={one.target},stats=on")
    out.pop("PYTHONDONTWRITEBYTECODE", None)
    # A compilation of the sampler by PyTorch takes as long as the rest of a case.
    return dict(out, VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_NO_USAGE_STATS="1", TORCHDYNAMO_DISABLE="1")


def faults(one, result, launches):
    """Returns the faults of a case as sentences. `result` is the last line of its output, `launches` the simulator's
    lines."""
    if one.engine == "hooks":
        return [f"{name}: {error:.4f} of the largest value" for name, error in result.items() if not error <= HOOK_LIMIT]
    out = []
    for n, prompt in enumerate(result["prompts"]):
        ours, bf16, below = prompt["judged"]
        if not ours <= LIMIT * bf16:
            out.append(f"prompt {n}: log probabilities differ by {ours:.3f} from float32's, those of bf16 by {bf16:.3f}")
        if not below <= LIMIT * bf16:
            out.append(f"prompt {n}: a token is {below:.3f} below the best one")
    chosen = result.get("choices")
    if chosen:
        out += [f"the indexer's {name} are off by {part:.3f} of the limit" for name, part in chosen["used"].items() if not part <= 1]
        out += [f"the indexer's {name} are off by {ours:.4f}, bf16's by {bf16:.4f}"
                for name, (ours, bf16) in chosen["products"].items() if not ours <= LIMIT * bf16]
    mixers = result.get("mixers")
    if mixers:
        out += [f"Mamba2's {name} are off from vLLM's own by {error:.4f} of their norm" for name, error in mixers["worst"].items()
                if not error <= (0 if name == "windows" else MIXER_LIMIT)]
        if not mixers["calls"]:
            out.append("no call of a Mamba2 layer was compared")
    for kind, pattern, each in (("attention", ATTENTION, one.attention), ("plan", PLAN, one.plans)):
        count = sum(1 for line in launches if pattern.match(line))
        expected = each and each * result.get("steps", 1) + result.get("before", {}).get(kind, 0)
        if each is not None and count != expected:
            out.append(f"{count} launches of {kind}, {expected} expected")
    if (one.drafts or one.eagle) and result["steps"] >= len(result["prompts"][0]["tokens"]):
        out.append("no draft was accepted")
    return out


def kind(one):
    """Returns what cases of one server have in common: the engine, True if it runs the engine's own AMD backend on AITER's calls, and
    the target. Engines read the last two when they are imported."""
    engine = {"ATTN": "vllm", "attn": "sglang"}[one.backend] if one.engine == "hooks" else one.engine
    return engine, one.backend == "aiter" or one.backend.startswith("ROCM_"), one.target


class Server:
    """A process of case_server.py. It starts with the first case."""

    def __init__(self, python, build, folder, outputs):
        """Stores the arguments. `outputs` is the folder of the cases' outputs, which no other run uses."""
        self.python, self.build, self.folder, self.outputs = python, build, folder, outputs
        self.process = self.kind = None

    def start(self, one):
        """Starts the process for a case and others of its kind."""
        self.stop()
        self.kind = kind(one)
        engine, aiter, _ = self.kind
        with open(self.log(), "w") as log:
            self.process = subprocess.Popen([self.python, HERE / "case_server.py", engine, *["aiter"] * aiter], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment(self.build, one))

    def log(self):
        """Returns the path of the file with the process's errors."""
        return self.outputs / f"{'-'.join(map(str, self.kind))}.err"

    def run(self, one):
        """Runs a case. Returns its exit code, the CPU seconds of its processes, and its outputs: standard output and error."""
        if self.kind != kind(one):
            self.start(one)
        paths = [self.outputs / f"{one.name}.{stream}" for stream in ("out", "err")]
        arguments = dict(one._asdict(), folder=str(self.folder / "models"), outputs=str(self.outputs), tokens=8)
        job = {"step": f"{one.engine}_step", "case": arguments, "out": str(paths[0]), "err": str(paths[1])}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(job), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            code, text = self.process.wait(), self.log().read_text(errors="replace")
            self.kind = None
            return f"{code} of case_server.py", 0.0, "", text
        return *json.loads(answer), *(path.read_text(errors="replace") for path in paths)

    def stop(self):
        """Ends the process, if there is one, and waits for it."""
        if self.process:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def run(one, server):
    """Runs a case. Returns (faults, a line with its results)."""
    code, seconds, printed, errors = server.run(one)
    if code:
        return [f"exit code {code}: " + "\n".join(errors.splitlines()[-30:])], f"{seconds:.1f} CPU s"
    result = json.loads(printed.strip().splitlines()[-1])
    if one.engine == "hooks":
        return faults(one, result, ()), ", ".join(f"{name} {error:.4f}" for name, error in result.items()) + f"; {seconds:.1f} CPU s"
    launches = errors.partition("BEGIN\n")[2].partition("END\n")[0].splitlines()
    kernels = collections.Counter(m.group(1) for m in map(ATTENTION.match, launches) if m)
    numbers = "; ".join(f"{p['judged'][0]:.3f} of {p['judged'][1]:.3f}" for p in result["prompts"])
    text = f"off by {numbers}; {', '.join(f'{n} {name}' for name, n in sorted(kernels.items()))}; {seconds:.1f} CPU s"
    return faults(one, result, launches), text


def chosen_cases(names):
    """Returns the cases whose names contain one of `names`, in the order in which they run: cases of a kind follow each other.
    Without names all cases are returned."""
    return sorted((one for one in CASES if not names or any(name in one.name for name in names)), key=kind)


def main(words):
    if "--list" in words:
        print(*(one.name for one in chosen_cases([word for word in words if word != "--list"])), sep="\n")
        return 0
    parser = build_tree.parser(__doc__, "names", "a part of the names of the cases that run")
    parser.add_argument("--list", action="store_true", help="print the cases, and run none; needs no folders")
    args = parser.parse_args(words)
    unknown = build_tree.unknown(args.names, [one.name for one in CASES])
    if unknown:
        parser.error(f"no case has {' or '.join(map(repr, unknown))} in its name; --list prints all")
    python = build_tree.python(args.build, args.folder)
    if not python.exists():
        print(f"skipped, since there is no {python}: tests/engines/prepare.sh {args.folder} makes it")
        return 77
    chosen, failed, start = chosen_cases(args.names), 0, os.times()
    outputs = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=args.folder))
    server = Server(python, args.build, args.folder, outputs)
    for one in chosen:
        wrong, text = run(one, server)
        failed += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok'} {one.name}: {text}", *wrong, sep="\n  " if wrong else "", flush=True)
    server.stop()
    if failed:
        print(f"{outputs} has the outputs of all cases")
    else:
        shutil.rmtree(outputs)
    used = os.times()
    seconds = used.children_user + used.children_system - start.children_user - start.children_system
    print(f"{len(chosen) - failed} of {len(chosen)} cases pass, in {seconds / 60:.1f} CPU minutes")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
