# SPDX-License-Identifier: Apache-2.0
"""The attention calls of AITER, as ATOM, SGLang and vLLM make them: the same names, arguments in
the same order, layouts and outputs, served by kernels of packs.

    import attn.aiter as aiter
    aiter.use("engine.attnpack")
    aiter.flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_q, max_k, causal=True)

The functions of calls that are not served raise NotServed with the reason. A served call raises NotServed if no kernel
has the form of its arguments. `served(name)` and `reason(name)` tell beforehand. install() makes `import aiter` give
these functions, for engines that run unchanged. docs/python.md has the table of calls. On a simulated GPU tensors may
be numpy's.
"""
from attn.aiter._attention import (flash_attn_fp8_pertensor_func, flash_attn_varlen_fp8_pertensor_func, flash_attn_varlen_func,
                                   flydsl_flash_attn_fp8_func, flydsl_flash_attn_fp8_supported,
                                   get_pa_metadata_info_v1, get_pa_metadata_v1,
                                   mha_batch_prefill_func, pa_decode_gluon, pa_fwd_asm,
                                   pa_persistent_fwd, pa_reduce_v1, unified_attention)
from attn.aiter._atom_m3 import (minimax_m3_build_sparse_block_table, minimax_m3_build_sparse_block_table_prefill,
                                 minimax_m3_fused_qknorm_rope_kv_insert_shuffle, minimax_m3_index_topk,
                                 minimax_m3_index_topk_decode, minimax_m3_sparse_attn, minimax_m3_sparse_attn_decode,
                                 minimax_m3_sparse_attn_decode_asm, minimax_m3_sparse_attn_prefill_asm)
from attn.aiter._atom_v4 import (inverse_rope_group_quant, inverse_rope_inplace, qk_norm_rope_maybe_quant, sparse_attn,
                                 sparse_attn_ragged, sparse_attn_v4_paged_decode, sparse_attn_v4_paged_prefill, swa_scatter_rows, swa_write)
from attn.aiter._blocks import reshape_and_cache_with_block_quant_for_asm_pa
from attn.aiter._cache import (cp_mha_gather_cache, fused_qk_norm_mrope_3d_cache_pts_quant_shuffle,
                               fused_qk_norm_rope_cache_block_quant_shuffle,
                               fused_qk_norm_rope_cache_pts_quant_shuffle,
                               fused_qk_norm_rope_cache_quant_shuffle,
                               fused_qk_rope_reshape_and_cache, fused_qkv_split_qk_norm_rope_cache, merge_attn_states,
                               reshape_and_cache, reshape_and_cache_flash,
                               reshape_and_cache_with_block_quant,
                               reshape_and_cache_with_pertoken_quant)
from attn.aiter._common import NotServed, use
from attn.aiter._extend import extend_attention_fwd
from attn.aiter._indexer import (cp_gather_indexer_k_quant_cache, deepgemm_fp8_paged_mqa_logits, flydsl_fp8_mqa_logits,
                                 fp8_mqa_logits, indexer_k_quant_and_cache, indexer_qk_rope_quant_and_cache, top_k_per_row_decode,
                                 top_k_per_row_prefill)
from attn.aiter._linear import (causal_conv1d_fn, causal_conv1d_split_qkv_triton_tile_fn, causal_conv1d_update,
                                chunk_gated_delta_rule, chunk_gated_delta_rule_opt_vk, chunk_kimi_delta_attn, flydsl_gdr_decode,
                                fused_rearrange_sigmoid_gated_delta_rule, fused_recurrent_gated_delta_rule,
                                fused_reshape_causal_conv1d_update_single_token)
from attn.aiter._minimax import fused_qknorm_idxrqknorm
from attn.aiter._mla import (_fused_qk_rmsnorm, cat_and_cache_mla, concat_and_cache_mla, csr_to_dense_block_table, decode_attention_fwd,
                             decode_update_mla_metadata_v1, fused_qk_rmsnorm,
                             fused_qk_rmsnorm_group_quant, fused_qk_rmsnorm_per_token_quant, fused_qk_rope_cat_and_cache_mla,
                             fused_qk_rope_concat_and_cache_mla,
                             get_meta_param,
                             get_mla_metadata_info_v1, get_mla_metadata_v1, get_ps_metadata_info_v1,
                             get_ps_metadata_v1, mla_decode_fwd, mla_gluon, mla_prefill_fwd,
                             mla_prefill_ps_asm_fwd, mla_reduce_v1, unified_attention_sparse_mla)
from attn.aiter._paged import (flash_attn_func, get_recommended_splits, paged_attention_common,
                               paged_attention_ragged, paged_attention_rocm, paged_attention_v1)
from attn.aiter._product import (
    batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant, gather_kv_b_proj)
from attn.aiter._rope import (minimax_qk_norm_rope, rope_cached_2c_fwd_inplace, rope_cached_positions_2c_fwd_inplace,
                              rope_cached_positions_fwd_inplace, rope_cached_thd_positions_2c_fwd_inplace,
                              rope_cached_thd_positions_offsets_2c_fwd_inplace)
from attn.aiter._sparse import (mla_decode_fwd_v4_nm, mla_decode_v4_asm, pa_decode_sparse, pa_prefill_sparse,
                                pa_sparse_prefill_fp8_opus, pa_sparse_prefill_opus)
from attn.aiter._forms import flash_attn_with_kvcache
from attn.aiter._table import NOT_SERVED, SERVED, reason, served, table

def _refusal(name):
    def call(*args, **kwargs):
        raise NotServed(name, NOT_SERVED[name])
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Not served: {NOT_SERVED[name]}."
    call.served = False
    return call


for _name in NOT_SERVED:
    globals()[_name] = _refusal(_name)

from attn.aiter._install import NotInstalled, install, uninstall  # noqa: E402  _install.py imports the functions above

__all__ = ["NotInstalled", "NotServed", "install", "uninstall", "use", "served", "reason", "table", *SERVED, *NOT_SERVED]
