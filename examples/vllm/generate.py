# SPDX-License-Identifier: Apache-2.0
"""vLLM without a GPU: a tiny model of random weights, whose attention runs on the simulated one.

    python generate.py [FOLDER]    the model's folder (default: tiny-qwen3); it is written if it is not there"""
import os
import sys

os.environ.setdefault("ATTN_HIP", "sim")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process: a tiny model starts sooner
os.environ.setdefault("OMP_NUM_THREADS", "1")


def write(folder):
    """Writes a model of 2 layers and 6 MB."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=128, max_position_embeddings=512, initializer_range=0.2,
                         bos_token_id=None, eos_token_id=None, pad_token_id=None)
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def main(folder):
    if not os.path.exists(os.path.join(folder, "config.json")):
        write(folder)
    from vllm import LLM, SamplingParams
    llm = LLM(folder, skip_tokenizer_init=True, enforce_eager=True, dtype="bfloat16", max_model_len=256, max_num_seqs=4,
              kv_cache_memory_bytes=8 << 20, attention_backend="ATTN")
    outs = llm.generate([{"prompt_token_ids": p} for p in ([5, 17, 300, 41], list(range(40, 77)))],
                        SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, detokenize=False), use_tqdm=False)
    for out in outs:
        print(*out.outputs[0].token_ids)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tiny-qwen3")
