# SPDX-License-Identifier: Apache-2.0
"""sglang_run.py JOB: runs cases of SGLang's own tests of attention backends on the simulated GPU. It writes the result of each case
as a JSON line, like op_run.py. JOB is JSON: the target, AITER's checkout, the file to write and rows, whose `file` is "BACKEND KIND".

SGLang's wheel has the cases, the fixtures and the references (sglang.test.kits.attention_unittest). SGLang's cases have
heads of 16 or 32 elements; the cases here have heads of real models' sizes. Comparisons are SGLang's."""
import dataclasses
import importlib
import json
import os
import re
import sys
import time
import traceback
import unittest

os.environ["ATTN_HIP"] = "sim"
os.environ["TRITON_INTERPRET"] = "1"  # runs SGLang's kernels that are not attention on the host
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402  the settings above are read at the import
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.runtime_context import get_spec  # noqa: E402

import op_run  # noqa: E402
import op_session  # noqa: E402

KITS = "sglang.test.kits.attention_unittest."
DRAFTS = {}  # settings of SGLang for the drafts of the current case
# layouts of the pool's slots in SGLang's cases
LAYOUTS = ("shuffled_pages", "interleaved_pages", "non_monotonic_extend")


def kit(name):
    """Returns a module of SGLang's tests."""
    return importlib.import_module(KITS + name)


class Launches:
    """Counts the kernels that the simulator launches. It counts the simulator's lines in the file `path`, to which the
    standard error goes."""

    def __init__(self, path):
        self.path = path
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)

    def count(self):
        """Returns the number of launches so far."""
        with open(self.path, errors="replace") as log:
            return sum(line.startswith("hipsim: ") and ": grid" in line for line in log)


def dense_layers(runner):
    """Returns the attention layers of a fixture's model. SGLang's fixtures only have its configuration."""
    from sglang.srt.layers.radix_attention import RadixAttention
    c = runner.model_config
    window = -1 if c.sliding_window_size is None else c.sliding_window_size
    latent = getattr(c, "kv_lora_rank", None) if runner.use_mla_backend else None
    return [RadixAttention(c.num_attention_heads, c.head_dim, c.head_dim ** -0.5, 1 if latent else c.num_key_value_heads,
                           layer_id=0, v_head_dim=latent or c.head_dim, sliding_window_size=window)]


def linear_layers(case, k_dim, v_dim):
    """Returns layers of a gated delta net or of KDA for SGLang's fixtures, whose convolution has two taps."""
    from sglang.srt.layers.radix_linear_attention import RadixLinearAttention
    return [RadixLinearAttention(0, case.num_k_heads, case.num_k_heads, case.num_v_heads, k_dim, k_dim, v_dim,
                                 conv_weights=torch.empty(1, 2), activation=None)]


def tensors(thing, name="backend", depth=6):
    """Returns {name: tensor} of all tensors in an object of the plugin, also in its members down to `depth`. Each dictionary
    is copied first, since a collected object may leave one at any time."""
    if isinstance(thing, torch.Tensor):
        return {name: thing}
    own = vars(thing) if type(thing).__module__.startswith("attn.") and hasattr(thing, "__dict__") else {}
    parts = thing if isinstance(thing, dict) else dict(enumerate(thing)) if isinstance(thing, (list, tuple)) else own
    out = {}
    for key, part in dict(parts).items() if depth else ():
        out.update(tensors(part, f"{name}.{key}", depth - 1))
    return out


def steady(backend):
    """Changes a backend so that it plans each captured step twice, and fails if the second plan moves a tensor to
    another address: a graph reads the same memory in each replay. Returns the backend."""
    plain = backend.init_forward_metadata_out_graph

    def plan(batch, in_capture=False):
        plain(batch, in_capture)
        if batch.forward_mode.is_cuda_graph():
            first = tensors(backend)
            plain(batch, in_capture)
            moved = [name for name, x in tensors(backend).items() if name in first and x.data_ptr() != first[name].data_ptr()]
            assert not moved, f"the second plan moves {moved}"
    backend.init_forward_metadata_out_graph = plan
    return backend


def plugin(linear=(), kernels=None):
    """Returns the function that makes the plugin's backend for a fixture. `linear` are layers beside attention, `kernels`
    returns the entries of a description for them."""
    from attn.sglang import _backend, _latent

    def make(runner):
        runner.model = torch.nn.ModuleList(dense_layers(runner) + list(linear))
        with get_spec().override(**DRAFTS):
            if runner.use_mla_backend:
                return steady(_latent.LatentBackend(runner))
            return steady(_backend.Backend(runner, kernels(runner) if kernels else ()))
    return make


def aiter(original):
    """Returns the function that makes SGLang's backend `aiter`, which reads more of a runner than fixtures have."""
    def make(runner):
        runner.model_config.dtype = runner.dtype
        runner.token_to_kv_pool_allocator.get_kvcache = lambda: runner.token_to_kv_pool
        return original(runner)
    return make


def layouts(case):
    """Returns the layouts of a pool with which a case runs. The last layout scatters tokens over pages, so it is only
    for pages of one token."""
    return LAYOUTS[:2] if case.forward_mode.is_decode() or case.page_size > 1 else LAYOUTS


def dense(backend):
    """Yields (function, name, call) of each case of attention with keys and values."""
    module = kit("attention_methods.dense_attention")
    cases = (module.make_dense_cases(backend) + module.make_swa_no_prefix_input_config_cases(backend)
             + module.make_swa_prefix_input_config_cases(backend))
    for case in cases:
        for head_dim in (64, 128):
            for layout in layouts(case):
                yield "run_dense_attention_case", f"{case.name}-{head_dim}-{layout}", (
                    lambda test, case=case, head_dim=head_dim, layout=layout: module.run_dense_attention_case(
                        test, case, head_dim=head_dim, loc_layout=layout, device="cpu"))


def latent(backend):
    """Yields (function, name, call) of each case of latent attention, with 16 heads and rows of 576 elements."""
    module = kit("attention_methods.mla_attention")
    for case in module.make_mla_cases(backend):
        case = dataclasses.replace(case, num_heads=16)
        for layout in layouts(case):
            yield "run_mla_attention_case", f"{case.name}-{layout}", (
                lambda test, case=case, layout=layout: module.run_mla_attention_case(
                    test, case, kv_lora_rank=512, qk_rope_head_dim=64, loc_layout=layout, device="cpu"))


def delta(backend):
    """Yields (function, name, call) of each case of gated delta nets."""
    from attn.sglang import _linear
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    module = kit("attention_methods.gdn_attention")
    module.GDNAttnBackend = _linear.LinearBackend

    def call(test, case, size):
        ATTENTION_BACKENDS[backend] = plugin(linear_layers(case, size, size), _linear.kernels)
        module.run_gdn_attention_case(test, case, head_k_dim=size, head_v_dim=size, device="cpu")

    for case in module.make_gdn_cases(backend):
        for size in (64, 128):
            for heads in (2, 4):
                case = dataclasses.replace(case, num_v_heads=heads)
                yield "run_gdn_attention_case", f"{case.name}-{size}-{heads}", (
                    lambda test, case=case, size=size: call(test, case, size))


def kda(backend):
    """Yields (function, name, call) of each case of KDA layers."""
    from attn.sglang import _linear
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    module = kit("attention_methods.kda_attention")
    module.KDAAttnBackend = _linear.KdaBackend

    def call(test, case, size):
        ATTENTION_BACKENDS[backend] = plugin(linear_layers(case, size, size), lambda runner: _linear.kernels(runner, "channel"))
        module.run_kda_attention_case(test, case, head_k_dim=size, head_v_dim=size, device="cpu")

    for case in module.make_kda_cases(backend):
        for size in (64, 128):
            yield "run_kda_attention_case", f"{case.name}-{size}", lambda test, case=case, size=size: call(test, case, size)


def mamba2(backend):
    """Yields (function, name, call) of each case of Mamba2 layers."""
    from attn import _engine
    from attn.sglang import _mamba
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    module = kit("attention_methods.mamba2_attention")
    module.Mamba2AttnBackend = _mamba.MambaBackend

    def call(test, case):
        kind = _engine.MambaKind("bf16", case.conv_kernel, case.state_size, case.head_dim, "f32", "silu", True)
        ATTENTION_BACKENDS[backend] = plugin(kernels=lambda runner: _engine.mamba_kernels([kind]) + [
            _mamba.norm_kernel("bf16", case.intermediate_size // case.n_groups)])
        module.run_mamba2_attention_case(test, case, device="cpu")

    for case in module.make_mamba2_cases(backend):
        for heads, groups, size, state in ((2, 1, 64, 128), (4, 2, 128, 64)):
            case = dataclasses.replace(case, num_heads=heads, n_groups=groups, head_dim=size, state_size=state)
            yield "run_mamba2_attention_case", f"{case.name}-{size}", lambda test, case=case: call(test, case)


def drafts(backend):
    """Yields (function, name, call) of each case that verifies drafts, as a chain and as a tree. Layers have keys and
    values, or latent attention."""
    module, dense_kit = kit("runner_modes.speculative_target_verify_runner"), kit("attention_methods.dense_attention")
    latent_kit = kit("attention_methods.mla_attention")
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    def call(test, run, settings, *args, **sizes):
        DRAFTS.clear()
        DRAFTS.update(settings)
        run(test, *args, device="cpu", **sizes)
        DRAFTS.clear()

    form = dict(backend=backend, forward_mode=ForwardMode.TARGET_VERIFY, page_size=16)
    for kind, topk in (("eagle", 1), ("eagle", 2), ("ngram", 2), ("dflash", 1), ("frozen_kv_mtp", 1)):
        for lens in ((4, 7), (14, 16), (33, 2, 50)):
            for count in (3, 5) if topk == 1 else (3,):  # SGLang's tests have one tree, with 3 drafts
                settings = dict(speculative_num_draft_tokens=count, speculative_eagle_topk=topk,
                                speculative_algorithm=kind.upper())
                case = dense_kit.DenseAttentionCase(name=f"verify_{kind}_{count}_{lens[0]}", num_heads=4, num_kv_heads=2,
                                                    prefix_lens=lens, extend_lens=(count,) * len(lens), **form)
                yield "run_dense_spec_verify_case", f"{case.name}-{topk}", (
                    lambda test, case=case, settings=settings, topk=topk, kind=kind: call(
                        test, module.run_dense_spec_verify_case, settings, case, topk=topk, spec_kind=kind, head_dim=64))
    for topk, heads in ((1, 16), (1, 128), (2, 16)):
        case = latent_kit.MLAAttentionCase(name=f"verify_latent_{heads}", num_heads=heads, prefix_lens=(14, 16),
                                           extend_lens=(3, 3), **form)
        settings = dict(speculative_num_draft_tokens=3, speculative_eagle_topk=topk, speculative_algorithm="EAGLE")
        yield "run_mla_eagle_verify_case", f"{case.name}-{topk}", (
            lambda test, case=case, settings=settings, topk=topk: call(
                test, module.run_mla_eagle_verify_case, settings, case, topk=topk, kv_lora_rank=512, qk_rope_head_dim=64))


def linear_drafts(backend):
    """Yields cases of layers with states that verify drafts: gated delta nets and KDA as chains and trees, Mamba2 as chains
    only, since SGLang has no reference of trees for it."""
    from attn import _engine
    from attn.sglang import _linear, _mamba
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.model_executor.forward_batch_info import ForwardMode
    module = kit("runner_modes.speculative_target_verify_runner")
    gdn, kda_kit, mamba = (kit(f"attention_methods.{name}_attention") for name in ("gdn", "kda", "mamba2"))
    gdn.GDNAttnBackend, kda_kit.KDAAttnBackend, mamba.Mamba2AttnBackend = (
        _linear.LinearBackend, _linear.KdaBackend, _mamba.MambaBackend)

    plain = module._prepare_target_verify_batch

    def prepare(batch, case, device):
        """Prepares a batch as the fixture does, but without extend_num_tokens, which SGLang's workers do not set for drafts."""
        plain(batch, case, device)
        batch.extend_num_tokens = None

    module._prepare_target_verify_batch = prepare

    def call(test, run, make, settings, *args, **sizes):
        DRAFTS.clear()
        DRAFTS.update(settings)
        ATTENTION_BACKENDS[backend] = make
        run(test, *args, device="cpu", **sizes)
        DRAFTS.clear()

    for topk in (1, 2):
        for lens in ((4, 7), (15,)):
            form = dict(backend=backend, forward_mode=ForwardMode.TARGET_VERIFY, page_size=16, prefix_lens=lens,
                        extend_lens=(3,) * len(lens))
            settings = dict(speculative_num_draft_tokens=3, speculative_eagle_topk=topk, speculative_algorithm="EAGLE")
            for kind, cases, decay in (("gdn", gdn.GDNAttentionCase, "head"), ("kda", kda_kit.KDAAttentionCase, "channel")):
                case = cases(name=f"verify_{kind}_{lens[0]}_{topk}", num_k_heads=2, num_v_heads=2, **form)
                yield f"run_{kind}_eagle_verify_case", case.name, (
                    lambda test, kind=kind, case=case, decay=decay, settings=settings, topk=topk: call(
                        test, getattr(module, f"run_{kind}_eagle_verify_case"), plugin(
                            linear_layers(case, 64, 64), lambda runner: _linear.kernels(runner, decay)),
                        settings, case, topk=topk, head_k_dim=64, head_v_dim=64))
            if topk == 1:
                case = mamba.Mamba2AttentionCase(
                    name=f"verify_mamba2_{lens[0]}", num_heads=4, head_dim=64, state_size=128, n_groups=2, conv_kernel=4,
                    mamba_chunk_size=16, hidden_size=32, **form)
                entries = _engine.mamba_kernels([_engine.MambaKind("bf16", 4, 128, 64, "f32", "silu", True)], trees=True)
                yield "run_mamba2_eagle_verify_case", case.name, (lambda test, case=case, settings=settings, entries=entries: call(
                    test, module.run_mamba2_eagle_verify_case, plugin(kernels=lambda runner: [
                        *entries, _mamba.norm_kernel("bf16", 128)]), settings, case, topk=1))


KINDS = {"dense": dense, "latent": latent, "delta": delta, "kda": kda, "mamba2": mamba2, "drafts": drafts,
         "linear-drafts": linear_drafts}


def run(call, launches):
    """Runs a case. Returns (kind, sentence) of op_run.outcome()."""
    before, error = launches.count(), None
    try:
        with torch.no_grad():
            call(unittest.TestCase())
    except Exception as e:  # pylint: disable=broad-except
        error = e
        traceback.print_exception(e, file=sys.stdout)
    return op_run.outcome(error, launches.count() - before)


def main(job):
    job = json.loads(job)
    os.environ["HIPSIM"] += ",stats=on"
    launches = Launches(job["out"] + ".launches")
    load_plugins()
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    torch.cuda.get_rng_state = torch.cuda.set_rng_state = lambda *args, **kwargs: None
    for row in job["rows"]:
        backend, kind = row["file"].split()
        if backend == "aiter":
            op_session.install(job["checkout"], job["target"])
            ATTENTION_BACKENDS[backend] = aiter(ATTENTION_BACKENDS[backend])
        else:
            ATTENTION_BACKENDS[backend] = plugin()
        with open(job["out"], "a", buffering=1) as out:
            for function, name, call in KINDS[kind](backend):
                if row["leave"] and re.search(row["leave"], name):
                    continue
                start = time.process_time()
                out.write(json.dumps((row["file"], function, name, *run(call, launches), time.process_time() - start)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
