# SPDX-License-Identifier: Apache-2.0
"""The modules of AITER that hold attention, and what install() puts into each. Engines import from these paths, not from
one flat module. Paths and names are from AITER's sources of August 2026 and the engines in tests/python/engines.

A name in a module is served by the call of the same name in attn.aiter, unless FORMS has another function for it: some
modules of AITER have calls that share a name and differ in arguments and outputs."""
from attn.aiter._table import NOT_SERVED, ROPES, SERVED

# {path of a module: (older paths of the module, names of calls in it, True if `aiter` itself has the names too)}
MODULES = {
    "aiter.mla": ((), """get_meta_param mla_decode_fwd mla_decode_fwd_v4_nm mla_decode_fwd_v4_nm_ps mla_prefill_fwd
        get_mla_v4_nm_num_kv_splits get_mla_v4_nm_ps_workspace""", False),
    "aiter.ops.attention": ((), """decode_update_mla_metadata_v1 get_mla_metadata_info_v1 get_mla_metadata_v1
        get_pa_metadata_info_v1 get_pa_metadata_v1 get_ps_metadata_info_v1 get_ps_metadata_v1 mla_decode_v4_asm mla_prefill_ps_asm_fwd
        mla_reduce_v1 pa_decode_bf16_asm pa_decode_gluon pa_fwd_asm pa_persistent_fwd pa_reduce_v1 paged_attention_common
        paged_attention_ragged paged_attention_rocm paged_attention_v1""", True),
    "aiter.ops.cache": ((), """concat_and_cache_mla concat_and_cache_mla_seg cp_gather_indexer_k_quant_cache
        fused_qk_rope_concat_and_cache_mla fused_qk_rope_concat_and_cache_mla_seg indexer_k_quant_and_cache
        indexer_qk_rope_quant_and_cache reshape_and_cache reshape_and_cache_flash reshape_and_cache_with_block_quant
        reshape_and_cache_with_block_quant_for_asm_pa reshape_and_cache_with_pertoken_quant
        rmsnorm_rope_rotate_activation_fp4quant_kvcache""", True),
    "aiter.ops.causal_conv1d_update": ((), "causal_conv1d_update", True),
    "aiter.ops.flydsl": ((), """flydsl_flash_attn_fp8_func flydsl_flash_attn_fp8_supported flydsl_fp8_mqa_logits
        flydsl_mla_v4_decode_supported flydsl_pa_mqa_logits_fp4 flydsl_pa_mqa_logits_fp4_prefill flydsl_qk_norm_rope_quant
        make_fp4_mqa_plan""", False),
    "aiter.ops.flydsl.kernels.fused_compress_attn": ((), "flydsl_fused_compress_attn", False),
    "aiter.ops.flydsl.kernels.fused_compress_attn_hca": ((), "flydsl_hca_compress_attn", False),
    "aiter.ops.flydsl.kernels.mqa_logits.pa_mqa_logits_fp4": ((), """compute_varctx_schedule flydsl_pa_mqa_logits_fp4""",
                                                              False),
    "aiter.ops.flydsl.kernels.mqa_logits.pa_mqa_logits_fp4_prefill": ((), """CTA_INFO_WIDTH _prefill_cta_info_kernel
        compute_prefill_schedule compute_varqlen_windows flydsl_pa_mqa_logits_fp4_prefill""", False),
    "aiter.ops.flydsl.linear_attention_kernels": ((), "flydsl_gdr_decode", False),
    "aiter.ops.flydsl.linear_attention_prefill_kernels": ((), """chunk_gated_delta_rule_fwd_h_flydsl_opt
        flydsl_gdr_prefill gdn_prepare_flydsl_supported gdn_prepare_fwd_flydsl""", False),
    "aiter.ops.fused_qk_norm_mrope_cache_quant": ((), "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle", True),
    "aiter.ops.fused_qk_norm_rope_cache_quant": ((), """_fused_qk_rmsnorm fused_qk_norm_rope_cache_block_quant_shuffle
        fused_qk_norm_rope_1way fused_qk_norm_rope_2way fused_qk_norm_rope_cache_pts_quant_shuffle
        fused_qk_norm_rope_cache_quant_shuffle fused_qk_norm_rope_group_quant
        fused_qk_rmsnorm minimax_qk_norm_rope""", True),
    "aiter.ops.fused_qk_rmsnorm_group_quant": ((), """fused_qk_rmsnorm fused_qk_rmsnorm_group_quant
        fused_qk_rmsnorm_per_token_quant""", True),
    "aiter.ops.fused_qknorm_idxrqknorm": ((), "fused_qknorm_idxrqknorm", True),
    "aiter.ops.inverse_rope_group_quant": ((), "inverse_rope_group_quant", True),
    "aiter.ops.mha": ((), """flash_attn_fp8_pertensor_func flash_attn_func flash_attn_varlen_fp8_pertensor_func
        flash_attn_varlen_func fmha_v3_fwd fmha_v3_varlen_fwd mha_batch_prefill_func""", True),
    "aiter.ops.msa_attention": ((), """pa_sparse_block_score_decode pa_sparse_block_score_prefill pa_sparse_block_topk
        pa_sparse_block_topk_cp""", False),
    "aiter.ops.msa_block_select": ((), "CP_MAX_BLOCKS SCORE_MFMA_COLS TOPK_CP_MAX_CAND topk_cp_candidate_numel", False),
    "aiter.ops.pa_sparse_prefill_opus": ((), "pa_sparse_prefill_fp8_opus pa_sparse_prefill_opus", True),
    "aiter.ops.quant": ((), "rope_rotate_activation", True),
    "aiter.ops.rope": ((), " ".join(("rope_cached_2c_fwd_inplace rope_cached_positions_2c_fwd_inplace",
                                     "rope_cached_positions_fwd_inplace", *ROPES)), True),
    "aiter.ops.topk": ((), "top_k_per_row_decode top_k_per_row_prefill topk_use_mulblocks", True),
    "aiter.ops.triton.attention": ((), "pa_mqa_logits_mxfp4", False),
    "aiter.ops.triton.attention.chunk_kda": ((), "chunk_kda", False),
    "aiter.ops.triton.attention.extend_attention": (("aiter.ops.triton.extend_attention",), "extend_attention_fwd", False),
    "aiter.ops.triton.attention.fav3_sage": ((), "fav3_sage_wrapper_func", False),
    "aiter.ops.triton.attention.fp8_mqa_logits": (("aiter.ops.triton.fp8_mqa_logits",), "fp8_mqa_logits", False),
    "aiter.ops.triton.attention.fused_attention_qk_norm_rope": (
        (), "fused_attention_qk_norm_rope fused_attention_qk_norm_rope_supported", False),
    "aiter.ops.triton.attention.kda": ((), "fused_recurrent_kda fused_recurrent_kda_packed_decode", False),
    "aiter.ops.triton.attention.mha": (("aiter.ops.triton.mha",), "flash_attn_func flash_attn_varlen_func", False),
    "aiter.ops.triton.attention.mha_v3": (("aiter.ops.triton.mha_v3",), "flash_attn_with_kvcache", False),
    "aiter.ops.triton.attention.mla": ((), "mla_decode_fwd", False),
    "aiter.ops.triton.attention.mla_decode": (("aiter.ops.triton.mla_decode",),
                                              "csr_to_dense_block_table decode_attention_fwd", False),
    "aiter.ops.triton.attention.pa_decode_sparse": ((), "pa_decode_sparse", False),
    "aiter.ops.triton.attention.pa_mqa_logits": (
        ("aiter.ops.triton.pa_mqa_logits",), "deepgemm_fp8_paged_mqa_logits deepgemm_fp8_paged_mqa_logits_stage1", False),
    "aiter.ops.triton.attention.pa_prefill_sparse": ((), "pa_prefill_sparse", False),
    "aiter.ops.triton.attention.sparse_mla": ((), "sparse_mla_fwd", False),
    "aiter.ops.triton.attention.unified_attention": (("aiter.ops.triton.unified_attention",), "unified_attention", False),
    "aiter.ops.triton.attention.unified_attention_sparse_mla": (
        ("aiter.ops.triton.unified_attention_sparse_mla",), "unified_attention_sparse_mla", False),
    "aiter.ops.triton.conv.causal_conv1d": (("aiter.ops.triton.causal_conv1d",), "causal_conv1d_fn causal_conv1d_update", False),
    "aiter.ops.triton.conv.causal_conv1d_update_single_token": (
        ("aiter.ops.triton.causal_conv1d_update_single_token",), "fused_reshape_causal_conv1d_update_single_token", False),
    "aiter.ops.triton.fusions.fused_bmm_rope_kv_cache": (
        (), "fused_fp4_bmm_rope_cat_and_cache_mla fused_fp8_bmm_rope_cat_and_cache_mla", False),
    "aiter.ops.triton.fusions.fused_kv_cache": (
        ("aiter.ops.triton.fused_kv_cache",), "fused_qk_rope_cat_and_cache_mla fused_qk_rope_reshape_and_cache", False),
    "aiter.ops.triton.fusions.fused_mla_prefill_qkv_fp8": ((), "fused_mla_prefill_qkv_fp8", False),
    "aiter.ops.triton.fusions.fused_qk_concat": (("aiter.ops.triton.fused_qk_concat",), "fused_qk_rope_cat", False),
    "aiter.ops.triton.fusions.k_norm_rope_mxfp4_cache": ((), "k_norm_rope_mxfp4_cache", False),
    "aiter.ops.triton.gated_delta_net": ((), """build_gated_delta_rule_prefill_metadata
        causal_conv1d_split_qkv_triton_tile_fn chunk_gated_delta_rule chunk_gated_delta_rule_opt_vk
        fused_recurrent_gated_delta_rule""", False),
    "aiter.ops.triton.gated_delta_net.fused_rearrange_sigmoid_gdr": ((), "fused_rearrange_sigmoid_gated_delta_rule", False),
    "aiter.ops.triton.gated_delta_net.gated_delta_rule": (
        (), "chunk_gated_delta_rule chunk_gated_delta_rule_opt_vk fused_recurrent_gated_delta_rule", False),
    "aiter.ops.triton.gather_kv_b_proj": ((), "gather_kv_b_proj", False),
    "aiter.ops.triton.gemm.batched.batched_gemm_a16wfp4": (
        ("aiter.ops.triton.batched_gemm_a16wfp4",), "batched_gemm_a16wfp4", False),
    "aiter.ops.triton.gemm.batched.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant": (
        ("aiter.ops.triton.batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant",),
        "batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant", False),
    "aiter.ops.triton.gemm.batched.batched_gemm_afp4wfp4_pre_quant": (
        ("aiter.ops.triton.batched_gemm_afp4wfp4_pre_quant",), "batched_gemm_a16wfp4", False),
    "aiter.ops.triton.gemm.fused.fused_gemm_a8w8_blockscale_split_cat": (
        ("aiter.ops.triton.fused_gemm_a8w8_blockscale_split_cat",),
        "fused_gemm_a8w8_blockscale_preshuffle_split_cat fused_gemm_a8w8_blockscale_split_cat", False),
    "aiter.ops.triton.gemm.fused.fused_gemm_afp4wfp4_split_cat": (
        ("aiter.ops.triton.fused_gemm_afp4wfp4_split_cat",),
        "fused_gemm_afp4wfp4_preshuffle_split_cat fused_gemm_afp4wfp4_split_cat", False),
    "aiter.ops.triton.gluon.mla_decode_gluon": ((), "mla_decode_gluon", False),
    "aiter.ops.triton.gluon.mla_gluon": ((), "mla_gluon", False),
    "aiter.ops.triton.gluon.pa_decode_gluon": ((), "get_recommended_splits pa_decode_gluon", False),
    "aiter.ops.triton.kimi_delta_attn": ((), "chunk_kimi_delta_attn", False),
    "aiter.ops.triton.kv_cache": ((), "cat_and_cache_mla", False),
    "aiter.ops.triton.rope.fused_qkv_split_qk_norm_rope_cache": ((), "fused_qkv_split_qk_norm_rope_cache", False),
    "aiter.ops.triton.rope.q_rope_mxfp4_quant": ((), "q_rope_mxfp4_quant", False),
    "aiter.ops.triton.rope.rope": (
        (), " ".join(("rope_cached_thd_positions_2c_fwd_inplace rope_cached_thd_positions_offsets_2c_fwd_inplace",
                      *(name for name in ROPES if "2" not in name))), False),
    "aiter.rotary_embedding": ((), "MRotaryEmbedding get_rope", False),
}

# ATOM's own modules, in the form of MODULES. The package `v4_kernels` has the names of its modules too. These modules
# exist only if ATOM is installed: served calls replace ATOM's, and others stay ATOM's.
V4 = ("atom.model_ops.v4_kernels",)
ATOM = {
    "atom.model_ops.minimax_m3.index_topk": ((), "minimax_m3_index_topk minimax_m3_index_topk_decode", False),
    "atom.model_ops.minimax_m3.sparse_attn": ((), """minimax_m3_build_sparse_block_table
        minimax_m3_build_sparse_block_table_prefill minimax_m3_fused_qknorm_rope_kv_insert_shuffle minimax_m3_sparse_attn
        minimax_m3_sparse_attn_decode minimax_m3_sparse_attn_decode_asm minimax_m3_sparse_attn_prefill_asm""", False),
    "atom.model_ops.sparse_attn_v4": ((), "sparse_attn sparse_attn_ragged", False),
    "atom.model_ops.v4_kernels.csa_translate_pack": (V4, "csa_translate_pack", False),
    "atom.model_ops.v4_kernels.fused_compress": (V4, "fused_compress_attn", False),
    "atom.model_ops.v4_kernels.indexer_weights": (V4, "scale_indexer_weights", False),
    "atom.model_ops.v4_kernels.inverse_rope": (V4, "inverse_rope_inplace", False),
    "atom.model_ops.v4_kernels.paged_decode": (V4, "sparse_attn_v4_paged_decode", False),
    "atom.model_ops.v4_kernels.paged_decode_indices": (V4, "write_v4_paged_decode_indices", False),
    "atom.model_ops.v4_kernels.paged_prefill": (V4, "sparse_attn_v4_paged_prefill", False),
    "atom.model_ops.v4_kernels.paged_prefill_indices": (V4, "write_v4_paged_prefill_indices", False),
    "atom.model_ops.v4_kernels.qk_norm_rope_maybe_quant": (
        V4, "qk_norm_rope_maybe_quant qk_norm_rope_maybe_quant_fp8_2buff", False),
    "atom.model_ops.v4_kernels.state_writes": (V4, """dspark_paged_window_gather dspark_paged_window_gather_2buff
        swa_scatter_rows swa_write swa_write_2buff_prepacked update_compressor_states""", False),
}

# {(path of a module, name of a call): function in attn.aiter._forms}, for calls that share a name with another call
FORMS = {
    ("aiter.ops.causal_conv1d_update", "causal_conv1d_update"): "causal_conv1d_update",
    ("aiter.ops.fused_qk_norm_rope_cache_quant", "fused_qk_rmsnorm"): "fused_qk_rmsnorm",
    ("aiter.ops.triton.attention.mha", "flash_attn_func"): "flash_attn_func",
    ("aiter.ops.triton.attention.mha", "flash_attn_varlen_func"): "flash_attn_varlen_func",
    ("aiter.ops.triton.attention.mla", "mla_decode_fwd"): "mla_decode_fwd",
}
FORMS_REFUSED = {("aiter.ops.causal_conv1d_update", "causal_conv1d_update"), ("aiter.ops.triton.attention.mla", "mla_decode_fwd")}

# Names that engines import in a `try`, since they can do without the call. Such an import fails with the reason. Any
# other call that is not served can be imported, and raises NotServed when it is called.
PROBED = frozenset("""build_gated_delta_rule_prefill_metadata chunk_gated_delta_rule_fwd_h_flydsl_opt
    chunk_kda concat_and_cache_mla_seg fav3_sage_wrapper_func flydsl_fused_compress_attn flydsl_hca_compress_attn
    flydsl_mla_v4_decode_supported flydsl_qk_norm_rope_quant fused_attention_qk_norm_rope
    fused_attention_qk_norm_rope_supported fused_gemm_a8w8_blockscale_preshuffle_split_cat
    fused_gemm_a8w8_blockscale_split_cat fused_gemm_afp4wfp4_preshuffle_split_cat fused_mla_prefill_qkv_fp8
    fused_qk_norm_rope_group_quant fused_qk_rope_concat_and_cache_mla_seg gdn_prepare_flydsl_supported gdn_prepare_fwd_flydsl get_mla_v4_nm_num_kv_splits
    get_mla_v4_nm_ps_workspace make_fp4_mqa_plan mla_decode_fwd_v4_nm_ps mla_decode_gluon pa_mqa_logits_mxfp4""".split())

# {path of a module: names that attn.aiter._helpers provides for it}, for imports of attention modules beside calls
HELPERS = {
    "aiter": "ActivationType QuantType __version__ dtypes get_gfx get_gfx_runtime logger",
    "aiter.jit.utils.chip_info": "get_cu_num get_gfx get_gfx_runtime",
    "aiter.jit.utils.torch_guard": "torch_compile_guard",
    "aiter.ops.enum": "ActivationType QuantType",
    "aiter.ops.triton.utils._triton.arch_info": "get_arch",
    "aiter.ops.triton.utils._triton.kernel_repr": "make_kernel_repr",
    "aiter.ops.triton.utils.device_info": "get_num_sms",
    "aiter.ops.triton.utils.types": "e4m3_dtype",
    "aiter.utility": "dtypes",
    "aiter.utility.dtypes": "bf16 d_dtypes fp16 fp32 fp4x2 fp8 fp8_e8m0 i16 i32 i4x2 i64 i8 u8",
}

# Calls that engines make as operators, torch.ops.aiter.NAME.
OPERATORS = ("pa_decode_gluon", "paged_attention_ragged", "paged_attention_v1")


def of_aiter(path):
    """True if a module's path begins with the package `aiter`."""
    return path.split(".")[0] == "aiter"


def _layout():
    """Returns {module path: {name of a call: path of its row in MODULES or ATOM}}, with older paths, and with `aiter`
    itself."""
    out = {"aiter": {}}
    for path, (older, names, at_root) in (MODULES | ATOM).items():
        row = dict.fromkeys(names.split(), path)
        for at in (path, *older):
            out.setdefault(at, {}).update(row)
        if at_root:
            out["aiter"].update(row)
    return out


CALLS = _layout()


def _paths():
    """Returns the paths of all modules that install() provides, and of the packages that contain them."""
    out = set()
    for path in (*CALLS, *HELPERS):
        parts = path.split(".")
        out.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
    return frozenset(out)


PATHS = _paths()


def kind(path, name):
    """Returns how install() treats `name` of the module `path`: "served", "refused", "helper", "module", or "passed on"
    to an installed AITER."""
    row = CALLS.get(path, {}).get(name)
    if row is not None:
        return "served" if name in SERVED and (row, name) not in FORMS_REFUSED else "refused"
    if name in HELPERS.get(path, "").split():
        return "helper"
    return "module" if f"{path}.{name}" in PATHS else "passed on"


def find(dotted):
    """Returns (kind, module path, name) of a dotted path, such as `aiter.mla.mla_decode_fwd`; attributes after the name
    are dropped."""
    parts = dotted.split(".")
    if parts[0] == "torch":
        name = parts[3]
        return "served" if name in OPERATORS else "passed on", "torch.ops.aiter", name
    for n in range(len(parts), 0, -1):
        path = ".".join(parts[:n])
        if path in PATHS:
            if n == len(parts):
                return "module", path, ""
            return kind(path, parts[n]), path, parts[n]
    return "passed on", parts[0], ".".join(parts[1:])


def known():
    """Returns the names of all calls in MODULES and ATOM."""
    return {name for names in CALLS.values() for name in names}


assert known() <= set(SERVED) | set(NOT_SERVED), known() - set(SERVED) - set(NOT_SERVED)
