# SPDX-License-Identifier: Apache-2.0
"""SGLang without a GPU: a tiny model of random weights, whose attention runs on the simulated one.

    python generate.py FOLDER    a model's folder; ../vllm/generate.py writes one"""
import os
import sys

os.environ.setdefault("ATTN_HIP", "sim")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(folder):
    from sglang import Engine
    engine = Engine(model_path=folder, device="cpu", dtype="bfloat16", attention_backend="attn", skip_tokenizer_init=True,
                    max_total_tokens=1024, max_running_requests=4, context_length=256, sampling_backend="pytorch",
                    grammar_backend="none", log_level="warning", disable_overlap_schedule=True, mem_fraction_static=0.9,
                    skip_server_warmup=True)
    outs = engine.generate(input_ids=[[5, 17, 300, 41], list(range(40, 77))],
                           sampling_params={"temperature": 0, "max_new_tokens": 8, "ignore_eos": True})
    for out in outs:
        print(*out["output_ids"])
    engine.shutdown()


if __name__ == "__main__":  # SGLang starts processes that import this file
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
