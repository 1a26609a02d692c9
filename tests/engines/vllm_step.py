# SPDX-License-Identifier: Apache-2.0
"""Runs a case of run.py through vLLM in this process, a fork of case_server.py.
The last line of output has for each prompt the tokens, and the differences that models.Reference.judge() finds."""
import importlib
import json
import os
import sys
import time

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
os.environ["ATTN_HIP"] = "sim"
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # "" and not unset: else vLLM does not use Triton if it finds no GPU
os.environ["TRITON_INTERPRET"] = "1"  # runs the index kernels of vLLM's AMD backends on the host

import torch  # noqa: E402  the settings above are read at the import
import attn.vllm  # noqa: E402
import aiter_pack  # noqa: E402
import choices  # noqa: E402
import drafts  # noqa: E402
import mixers  # noqa: E402
import models  # noqa: E402


def load():
    """Imports vLLM, its plugins, and the modules that its worker and most models use."""
    from vllm import LLM, SamplingParams  # noqa: F401
    from vllm.config.logging import LoggingConfig
    from vllm.logger import configure_logging_if_needed
    from vllm.model_executor.models import registry
    from vllm.plugins import load_general_plugins
    models.load()
    load_general_plugins()
    configure_logging_if_needed(LoggingConfig())
    registry._run_in_subprocess = lambda function: function()  # vLLM imports a model in another Python first, because of CUDA
    for name in ("v1.worker.cpu_worker", "v1.engine.llm_engine", "model_executor.models.deepseek_v2", "model_executor.models.qwen3",
                 "model_executor.model_loader", "v1.sample.rejection_sampler"):
        importlib.import_module(f"vllm.{name}")


def main(case):
    path = models.write(case["model"], case["folder"])
    if case["backend"].startswith("ROCM_"):
        aiter_pack.prepare(case)
        attn.vllm.platform()  # again: the first call was before the case had packs
    if case["drafts"]:
        drafts.learn(path, case["tokens"])
    made_choices = choices.Choices(case["target"]) if case["backend"] == "ATTN_MLA_SPARSE" else None
    compared = mixers.Mixers() if case["model"] in models.MAMBA2 else None
    speculative = None
    if case["drafts"]:
        speculative = dict(method="custom_class", model="drafts.Drafts", num_speculative_tokens=drafts.COUNT)
    if case["eagle"] and case["model"] in models.PREDICTING:
        speculative = dict(method="mtp", num_speculative_tokens=drafts.COUNT)
    elif case["eagle"]:
        speculative = dict(method="eagle", model=models.write_draft(path, "vllm"), num_speculative_tokens=drafts.COUNT)
    from vllm import LLM, SamplingParams
    llm = LLM(path, skip_tokenizer_init=True, enforce_eager=True, dtype="bfloat16", max_model_len=256, max_num_seqs=4,
              max_num_batched_tokens=case["batched"], kv_cache_memory_bytes=8 << 20, block_size=case["page"],
              enable_prefix_caching=False, enable_chunked_prefill=True, max_logprobs=models.VOCABULARY,
              kv_cache_dtype="fp8" if case["fp8"] else "auto", attention_backend=case["backend"],
              speculative_config=speculative)
    taken = Steps(llm.llm_engine)
    print("BEGIN", file=sys.stderr, flush=True)  # launches after this line are counted
    start = time.perf_counter()
    outs = llm.generate([{"prompt_token_ids": p} for p in models.PROMPTS],
                        SamplingParams(temperature=0, max_tokens=case["tokens"], ignore_eos=True, logprobs=models.VOCABULARY,
                                       detokenize=False), use_tqdm=False)
    seconds = time.perf_counter() - start
    print("END", file=sys.stderr, flush=True)
    kind = getattr(torch, models.FP8[case["target"]]) if case["fp8"] else None
    reference, result = models.Reference(path, kind, made_choices), []
    for prompt, out in zip(models.PROMPTS, outs):
        made = list(out.outputs[0].token_ids)
        rows = torch.tensor([[row[i].logprob for i in range(models.VOCABULARY)] for row in out.outputs[0].logprobs])
        result.append({"tokens": made, "judged": reference.judge(prompt, made, rows)})
    print(json.dumps({"seconds": seconds, "prompts": result,
                      "choices": {"used": made_choices.used, "products": made_choices.products} if made_choices else None,
                      "mixers": dict(vars(compared), groups=sorted(compared.groups)) if compared else None,
                      "steps": drafts.steps([p["tokens"] for p in result]) if case["drafts"] else taken.count - 1 if case["eagle"] else 1,
                      "before": dict(attention=3, plan=3) if case["eagle"] else {}}), flush=True)


class Steps:
    """Counts the calls of an engine's step()."""

    def __init__(self, engine):
        self.count, self.plain, engine.step = 0, engine.step, self.step

    def step(self):
        """Counts a call and makes it."""
        self.count += 1
        return self.plain()
