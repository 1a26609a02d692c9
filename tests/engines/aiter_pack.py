# SPDX-License-Identifier: Apache-2.0
"""Compiles the packs with which attn.aiter serves an engine's own AMD backend."""
import os

import attn
import models


def kernels(model, fp8):
    """Returns the kernels that engines' AMD backends launch for a model of models.py, as entries of a description.
    `fp8`: True if the cache is fp8."""
    kv = {"kv_dtype": "fp8", "kv_scale": "tensor"} if fp8 else {}
    queries = {"q_dtype": "fp8"} if fp8 else {}  # vLLM rounds queries to fp8, too
    if model == "deepseek":
        size = {"head_dim": 576, "head_dim_v": 512}
        return [{"op": "mla_decode", **size, "gqa": [8, 16], "page_size": ["any", 1], "page_table": ["indices", "blocks"],
                 "lse": [False, True]},
                {"op": "prefill", "head_dim": 192, "head_dim_v": 128, "lse": [False, True], "mask": ["causal", "none"]},
                {"op": "mla_rope_cache", **size, "rope": "none"}, {"op": "combine", "head_dim": 512, "partials": "csr"},
                {"op": "combine", "head_dim": 128, "partials": "pair"}, {"op": "plan"}]
    settings = models.MODELS[model][1]
    size = {"head_dim": settings["head_dim"]}
    form = {**size, "mask": ["causal", "window"], "sinks": model == "gpt-oss", "soft_cap": model == "gemma2"}
    gqa = settings["num_attention_heads"] // settings["num_key_value_heads"]
    tables = {"page_size": "any", "page_table": ["blocks", "indices"]}
    return [{"op": "decode", **form, **kv, **queries, **tables, "gqa": gqa},
            {"op": "prefill", **form, **kv, **queries, **tables, "paged": True}, {"op": "cache_write", **size, **kv},
            {"op": "prefill", **form, "lse": [False, True]}, {"op": "prefill", **size, "mask": "none", "lse": True},
            {"op": "cache_gather", **size, **kv, "page_size": "any"}, {"op": "combine", **size, "partials": ["csr", "pair"]},
            {"op": "plan"}]


def prepare(case):
    """Compiles the pack of a case. Sets the environment so that plugins in this process and its children serve `aiter`
    by the pack."""
    path = os.path.join(case["folder"], f"{case['model']}-{case['target']}{'-fp8' * case['fp8']}.attnpack")
    attn.build({"targets": [case["target"]], "defaults": {"dtype": "bf16"},
                "kernels": kernels(case["model"], case["fp8"])}, output=path)
    os.environ.update(ATTN_PACKS=path, ATTN_AITER="1")
