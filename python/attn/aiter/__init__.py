# SPDX-License-Identifier: Apache-2.0
"""The attention calls of AITER, as ATOM, SGLang and vLLM make them: the same names, arguments in
the same order, layouts and outputs, served by kernels of packs.

    import attn.aiter as aiter
    aiter.use("engine.attnpack")
    aiter.flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_q, max_k, causal=True)

A name that is here and not served is a function that raises NotServed with the reason; so does a
form of a served call that no kernel has. `served(name)` and `reason(name)` say it beforehand.
docs/python.md has the table. Tensors may be numpy's, on a simulated GPU.
"""
from attn.aiter._attention import (flash_attn_varlen_func, get_pa_metadata_info_v1,
                                   get_pa_metadata_v1, mha_batch_prefill_func, pa_decode_gluon,
                                   pa_fwd_asm, pa_persistent_fwd, pa_reduce_v1, unified_attention)
from attn.aiter._cache import (cp_mha_gather_cache, fused_qk_norm_rope_cache_pts_quant_shuffle,
                               fused_qk_norm_rope_cache_quant_shuffle,
                               fused_qk_rope_reshape_and_cache, merge_attn_states,
                               reshape_and_cache, reshape_and_cache_flash,
                               reshape_and_cache_with_block_quant,
                               reshape_and_cache_with_pertoken_quant)
from attn.aiter._common import NotServed, use
from attn.aiter._indexer import (deepgemm_fp8_paged_mqa_logits, fp8_mqa_logits,
                                 indexer_qk_rope_quant_and_cache, top_k_per_row_decode,
                                 top_k_per_row_prefill)
from attn.aiter._mla import (concat_and_cache_mla, fused_qk_rope_concat_and_cache_mla,
                             get_mla_metadata_info_v1, get_mla_metadata_v1, mla_decode_fwd,
                             mla_reduce_v1)

SERVED = ("flash_attn_varlen_func", "mha_batch_prefill_func", "pa_fwd_asm", "pa_decode_gluon",
          "unified_attention", "get_pa_metadata_info_v1", "get_pa_metadata_v1", "pa_persistent_fwd",
          "pa_reduce_v1", "reshape_and_cache", "reshape_and_cache_flash",
          "reshape_and_cache_with_pertoken_quant", "reshape_and_cache_with_block_quant",
          "cp_mha_gather_cache", "merge_attn_states", "fused_qk_norm_rope_cache_quant_shuffle",
          "fused_qk_norm_rope_cache_pts_quant_shuffle", "fused_qk_rope_reshape_and_cache",
          "mla_decode_fwd", "get_mla_metadata_info_v1", "get_mla_metadata_v1", "mla_reduce_v1",
          "concat_and_cache_mla", "fused_qk_rope_concat_and_cache_mla",
          "fp8_mqa_logits", "deepgemm_fp8_paged_mqa_logits", "top_k_per_row_prefill",
          "top_k_per_row_decode", "indexer_qk_rope_quant_and_cache")

_NO_OP = "no op of attnc does this"
_GDN = "linear attention is not an op of attnc yet"
NOT_SERVED = {
    "reshape_and_cache_with_block_quant_for_asm_pa":
        "its scales are of blocks of 128 or 256 tokens, not of pages",
    "fused_qk_norm_rope_cache_block_quant_shuffle":
        "how a page's scale grows there was not compared with rope_qk_norm_cache's rule yet",
    "pa_decode_bf16_asm": "it is of gfx1250, with fp8 queries",
    "paged_attention_rocm": "values as [page, head, D, token] are not read",
    "paged_attention_v1": "values as [page, head, D, token] are not read",
    "paged_attention_ragged": "its arguments are those of a workspace; mha_batch_prefill_func and "
                              "unified_attention read the same cache",
    "extend_attention_fwd": "two caches in one call, with a mask, are not read",
    "flash_attn_varlen_fp8_pertensor_func": "no kernel reads fp8 queries and keys of prefill",
    "mla_prefill_fwd": _NO_OP,
    "mla_prefill_ps_asm_fwd": "no kernel reads fp8 queries and keys of prefill",
    "minimax_qk_norm_rope": "it works out the norm over all heads itself; rope_qk_norm_cache is given "
                            "the sum of squares",
    "fused_qknorm_idxrqknorm": "the index cache of MiniMax-M3 is not written",
    "concat_and_cache_mla_seg": "the segmented layout is of gfx1250",
    "fused_qk_rope_concat_and_cache_mla_seg": "the segmented layout is of gfx1250",
    "gather_kv_b_proj": "it is a product of matrices",
    "indexer_k_quant_and_cache": "keys are written normalised and rotated: "
                                 "indexer_qk_rope_quant_and_cache",
    "cp_gather_indexer_k_quant_cache": "no op of attnc gathers the cache of an indexer",
    "causal_conv1d_fn": _GDN,
    "causal_conv1d_update": _GDN,
    "chunk_gated_delta_rule": _GDN,
    "fused_recurrent_gated_delta_rule": _GDN,
}


def served(name):
    """Whether a call of AITER is served; a form of it may still not be."""
    return name in SERVED


def reason(name):
    """Why a call is not served; None of one that is."""
    if name in SERVED:
        return None
    return NOT_SERVED.get(name, "attn.aiter does not know this call")


def _refusal(name):
    def call(*args, **kwargs):
        raise NotServed(name, NOT_SERVED[name])
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Not served: {NOT_SERVED[name]}."
    call.served = False
    return call


for _name in NOT_SERVED:
    globals()[_name] = _refusal(_name)

__all__ = ["NotServed", "use", "served", "reason", *SERVED, *NOT_SERVED]
