# SPDX-License-Identifier: Apache-2.0
"""Runs a case of run.py through SGLang in this process, a fork of case_server.py. SGLang's scheduler is a process of its own.
The last line of output has for each prompt the tokens, and the differences that models.Reference.judge() finds."""
import json
import multiprocessing
import os
import sys
import time

os.environ["ATTN_HIP"] = "sim"
os.environ["TRITON_INTERPRET"] = "1"  # runs the index kernels of SGLang's AMD backend on the host
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402  the settings above are read at the import
import aiter_pack  # noqa: E402
from attn import _engine  # noqa: E402
from attn.aiter import _common as aiter_common  # noqa: E402
import models  # noqa: E402

STEPS = 3  # steps in which a draft model proposes tokens


def load():
    """Imports SGLang with its scheduler and all of its models. SGLang starts its processes as forks then, and not
    in a new Python that imports all again."""
    import sglang.srt.entrypoints.engine  # noqa: F401
    import sglang.srt.managers.scheduler  # noqa: F401
    import sglang.srt.models.registry  # noqa: F401
    models.load()
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *args, **more: None


def reopen():
    """Opens the device again in SGLang's scheduler, a fork of the process in which SGLang has loaded the plugin."""
    aiter_common._devices.clear()  # pylint: disable=protected-access
    _engine.serve_aiter()


def main(case):
    path = models.write(case["model"], case["folder"])
    if case["backend"] == "aiter":
        aiter_pack.prepare(case)
        os.register_at_fork(after_in_child=reopen)
    more = {}
    # each branch has STEPS tokens; the target verifies 4 tokens of a chain or 6 of a tree, including its own last token
    if case["eagle"]:
        draft = None if case["model"] in models.PREDICTING else models.write_draft(path, "sglang")
        more = dict(speculative_algorithm="EAGLE", speculative_draft_model_path=draft,
                    speculative_num_steps=STEPS, speculative_eagle_topk=case["eagle"],
                    speculative_num_draft_tokens=STEPS + 1 if case["eagle"] == 1 else 2 * STEPS)
    chosen = None
    if case["model"].startswith("deepseek-v32"):
        import choices
        chosen, record = choices.Choices(case["target"], record=False), os.path.join(case["outputs"], f"{case['name']}.choices")
        os.environ.update(ATTN_CHOICES=record, ATTN_CHOICES_TARGET=case["target"])  # record.py reads them in SGLang's scheduler
    from sglang import Engine
    engine = Engine(model_path=path, device="cpu", dtype="bfloat16", attention_backend=case["backend"],
                    skip_tokenizer_init=True, max_total_tokens=1024, max_running_requests=4, context_length=256,
                    disable_radix_cache=True, page_size=case["page"], sampling_backend="pytorch", grammar_backend="none",
                    log_level="warning", disable_overlap_schedule=True, mem_fraction_static=0.9, skip_server_warmup=True,
                    disable_hybrid_swa_memory=True, enable_mixed_chunk=case["batched"] < 48,
                    chunked_prefill_size=case["batched"], kv_cache_dtype="fp8_e4m3" if case["fp8"] else "auto", **more)
    print("BEGIN", file=sys.stderr, flush=True)  # launches after this line are counted
    start = time.perf_counter()
    outs = engine.generate(input_ids=models.PROMPTS, return_logprob=True, top_logprobs_num=models.VOCABULARY,
                           sampling_params={"temperature": 0, "max_new_tokens": case["tokens"], "ignore_eos": True})
    seconds = time.perf_counter() - start
    print("END", file=sys.stderr, flush=True)
    kind = getattr(torch, models.FP8[case["target"]]) if case["fp8"] else None
    if chosen:
        chosen.take_record(record)
    reference, result = models.Reference(path, kind, chosen), []
    for prompt, out in zip(models.PROMPTS, outs):
        rows = torch.empty(case["tokens"], models.VOCABULARY)
        for row, top in zip(rows, out["meta_info"]["output_top_logprobs"]):
            row[torch.tensor([each[1] for each in top])] = torch.tensor([each[0] for each in top])
        result.append({"tokens": out["output_ids"], "judged": reference.judge(prompt, out["output_ids"], rows)})
    steps = {}
    if case["eagle"]:  # before: number of launches for the prompts, one for each layer; the target and the draft model have a plan each
        before = case["attention"] - STEPS + 1
        steps = dict(steps=max(out["meta_info"]["spec_verify_ct"] for out in outs), before=dict(attention=before, plan=2))
    if chosen:
        steps["choices"] = {"used": chosen.used, "products": chosen.products}
    print(json.dumps({"seconds": seconds, "prompts": result, **steps}), flush=True)
    engine.shutdown()
