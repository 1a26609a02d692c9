# SPDX-License-Identifier: Apache-2.0
"""The table of AITER's calls, with the forms that are served and those that are not. docs/python.md shows the table,
and served() and reason() read it."""


def _own(module, calls, served, refused=""):
    """Returns a row of ROWS for calls that ATOM defines itself. `module` is the module that defines them; "": the same
    as in the row before."""
    return calls, "ATOM", f"ATOM's own{f', of `{module}`' if module else ''}: {served}", refused


# Rows of served calls: (names of calls, engines that make one of them, forms that are served, forms that are not)
ROWS = (
    (("flash_attn_varlen_func",), "ATOM, SGLang, vLLM",
     "causal or not, windows, sinks of any type, soft cap, LSE [heads, queries], which `aiter.ops.triton.mha` has the other "
     "way round (install() gives each module its own), `out`, prefixes, `block_table` over NHD "
     "pages, `alibi_slopes` with any mask",
     "LSE or sinks with `alibi_slopes` and a causal mask, dropout, `bias`, padded `cu_seqlens`, a third window number, "
     "fp8 queries"),
    (("flash_attn_func",), "", "the same of [batch, length, heads, D]", "`cu_seqlens`, `num_splits`"),
    (("flash_attn_varlen_fp8_pertensor_func",), "SGLang, vLLM",
     "causal or not, windows, sinks, soft cap; one scale for each of q, k and v, or scales [sequences, kv heads] for all "
     "three; the output is bf16", "other numbers than fp8"),
    (("flash_attn_fp8_pertensor_func",), "SGLang",
     "the same of [batch, length, heads, D], without a soft cap", "other numbers than fp8"),
    (("flash_attn_with_kvcache",), "vLLM",
     "of `aiter.ops.triton.attention.mha_v3`: NHD pages by `page_table`, causal or not, windows, soft cap, fp8 caches and fp8 "
     "queries with a scale per tensor, or per sequence and KV head, several queries a sequence, LSE [batch, heads, queries]",
     "new keys and values, caches without a table, rotation, `qv`, `attention_chunk`, left padding"),
    (("flydsl_flash_attn_fp8_func", "flydsl_flash_attn_fp8_supported"), "vLLM",
     "packed sequences or [batch, length, heads, D], causal or not, LSE, on both targets; what is said of tiles and schedules "
     "is not looked at", "`stream`"),
    (("mha_batch_prefill_func",), "ATOM, SGLang",
     "`[slots, H, D]`, NHD and SHUFFLE caches, both page tables, fp8 caches with `k_descale` of one number, or of "
     "each sequence and KV head, or `kv_block_descale`, fp8 queries with one `q_descale` beside `k_descale`, or one of each "
     "sequence and KV head beside such a `k_descale`, LSE, `alibi_slopes` as above", "`sink_size`"),
    (("extend_attention_fwd",), "",
     "causal or not, soft cap, a custom mask of the new tokens or of the prefix too, any `kv_indices`; two launches and "
     "their sum, one where there is no prefix. A custom mask stands in place of `is_causal`",
     "a cache of another type than the queries"),
    (("pa_fwd_asm",), "ATOM, vLLM",
     "any D, GQA ratio and page that the pack has; fp8 and int8 with scales per token; several queries; "
     "values of four dimensions are taken as the SHUFFLE memory that they are",
     "`kernelName`; a `block_tables_stride0` that is not the tensor's"),
    (("pa_decode_gluon", "get_recommended_splits"), "ATOM, SGLang",
     "sinks, window, scales per token or tensor, fp8 queries with one scale or a scale for each query "
     "and head; up to 64 of them. One query sees `sliding_window - 1` keys, as AITER's kernel and its "
     "test have it. Values of five dimensions, or `[page, head, D, token]`",
     "`alibi_slopes`, a window with `ps=False`; `exp_sums`, `max_logits` and `temporary_output` are not written"),
    (("paged_attention_rocm",), "ATOM",
     "keys `[page, head, D / x, P, x]`, values `[page, head, D, token]`, a scale per tensor, "
     "`alibi_slopes`; one query for each sequence, its own row",
     "`mtp`, `q_scale`, `fp8_out_scale`; `exp_sums`, `max_logits` and `tmp_out` are not used"),
    (("paged_attention_common",), "vLLM",
     "SHUFFLE pages, several queries, a scale per tensor (`K_QScale_hip`) or, without one, for int8 and with "
     "`high_precision=2`, per token (`K_QScale_asm`); the workspace is not used",
     "`kernelName`, values of four dimensions"),
    (("paged_attention_v1", "paged_attention_ragged"), "SGLang, vLLM",
     "NHD and HND pages of any size, fp8 with a scale per tensor, window, soft cap, `alibi_slopes`; "
     "one query for each sequence, its own row",
     "`mtp`, `fp8_out_scale`, a soft cap with `alibi_slopes`; the workspace is not used"),
    (("unified_attention",), "ATOM, SGLang, vLLM",
     "prompts, decode and both in one batch; NHD and SHUFFLE; window, sinks, soft cap, `alibi_slopes`, "
     "descales of one number, expanded or not, or of each sequence and KV head, which a cache of 16 bits does not "
     "have; fp8 queries, with a descale of one number or of each sequence and KV head",
     "`q_scales`, `output_scale`, `qq_bias`, sinks with `alibi_slopes`, `skip_reduce`"),
    (("get_pa_metadata_info_v1", "get_pa_metadata_v1"), "ATOM", "on the device, capturable",
     "`topk`; `work_metadata_ptrs` is not written"),
    (("pa_persistent_fwd", "pa_reduce_v1"), "ATOM",
     "scales per token, page or tensor; LSE. `softmax_scale` counts, which AITER ignores",
     "no `reduce_final_map`"),
    (("reshape_and_cache", "reshape_and_cache_flash", "reshape_and_cache_with_pertoken_quant",
      "reshape_and_cache_with_block_quant"), "ATOM",
     "SHUFFLE (`asm_layout=True`) and NHD; slots of int32 or int64; with `asm_layout=False` values are `[page, head, D, "
     "token]`, and scales `[head, slot]` or `[head, page]`. int8 is rounded to the nearest, by AITER towards zero", ""),
    (("reshape_and_cache_with_block_quant_for_asm_pa",), "",
     "the same with scales of 128 or 256 tokens in pages of fewer: the blocks that get tokens are copied, written as pages "
     "of that size, and copied back. None of the calls above reads such scales", "sequences whose tokens do not follow each "
     "other"),
    (("cp_mha_gather_cache",), "ATOM, vLLM",
     "NHD, and SHUFFLE of five dimensions or those of NHD; scales per token or tensor, or fp8 as it is without `dequant`",
     "`dequant` of 16 bits, outputs of fp8"),
    (("merge_attn_states",), "ATOM, vLLM", "fp8 outputs, `prefill_tokens_with_context`",
     "the two together, `output_scale` for an output of 16 bits"),
    (("fused_qk_norm_rope_cache_quant_shuffle", "fused_qk_norm_rope_cache_pts_quant_shuffle",
      "fused_qk_norm_rope_cache_block_quant_shuffle"), "ATOM, vLLM",
     "in place, or to `q_out`, and `k_out` or `v_out` or both; scales in the host's memory; partial rotation; scales of tokens, of a tensor, or of "
     "pages that grow; `max_tokens_per_batch` is not looked at. With a cache of fp8 `return_kv` gives its bytes, of tokens with a "
     "slot, copied out of it", "`return_kv` of another type than the cache has"),
    (("fused_qk_norm_mrope_3d_cache_pts_quant_shuffle",), "SGLang",
     "the same as the second of these by three positions, in sections or interleaved, by kernels with `mrope`; `gemma_norm` by "
     "those with `norm: gemma_rms`; a `block_size` of 0, of caches `[slots, H, D]`", "`return_kv` as above"),
    (("fused_qkv_split_qk_norm_rope_cache",), "SGLang",
     "HND and NHD pages, fp8 with a scale; output gates after each head or after all, those by kernels with `gate`; `offsets`",
     "a cosine for each element of a head, a scale of a cache of 16 bits"),
    (("fused_qk_rope_reshape_and_cache",), "ATOM, vLLM",
     "`flash_layout`, or SHUFFLE with values of five dimensions or `[page, head, D, token]`; `cos` and "
     "`sin` are halves of one table, or are joined once; fp8 `q_out`; `k_out` of tokens without a slot is written too",
     "`offs`, a cosine for each element of a head, a scale of a cache of 16 bits"),
    (("rope_cached_positions_fwd_inplace", "rope_cached_positions_2c_fwd_inplace",
      "rope_cached_thd_positions_2c_fwd_inplace", "rope_cached_thd_positions_offsets_2c_fwd_inplace"), "ATOM, vLLM",
     "of 64, 128 or any other width that the pack has, the first or the last elements of a head, by kernels of "
     "`rope_qk_norm_cache` with `keep_kv`", "a cosine for each element of a head, `transpose_output`"),
    (("rope_cached_2c_fwd_inplace",), "SGLang",
     "the same by each token's own number, [length, batch, heads, D]", "as above"),
    (("minimax_qk_norm_rope",), "ATOM",
     "packed q, k and v; the sums of squares are worked out by the tensors' own library",
     "weights and cosines of another type than q's"),
    (("fused_qknorm_idxrqknorm",), "ATOM, SGLang, vLLM",
     "with and without caches, NHD or SHUFFLE, fp8 with scales of tokens, of a tensor (`fp8_e4m3_static`) or none "
     "(`fp8_e4m3_unit`); index caches of 16 bits or fp8, in a launch of their own; `skip_index_branch`, of newer versions",
     "fp8 `index_q_out`"),
    (("mla_decode_fwd", "get_mla_metadata_info_v1", "get_mla_metadata_v1", "mla_reduce_v1",
      "get_meta_param", "decode_update_mla_metadata_v1"), "ATOM, SGLang, vLLM",
     "any number of heads up to 128, pages of any size, fp8 caches and queries, LSE, lists of slots, contexts "
     "that ranks share (`cp_world_size`); with `topk` in the metadata and one query a sequence, each list is a row of `topk` slots",
     "`logit_cap`, `return_logits`, `cp_world_size` with pages of several tokens, `shuffled_kv_cache` of Triton's form"),
    (("mla_prefill_ps_asm_fwd", "get_ps_metadata_info_v1", "get_ps_metadata_v1"), "ATOM, SGLang, vLLM",
     "fp8 prefill over listed keys, causal or not, on both targets; any number of heads; LSE with `need_lse`, or if "
     "it is not said where the pack has kernels with it, else NaN. The plan has no parts, and `splitData` is not used", "pages of several tokens"),
    (("mla_prefill_fwd",), "ATOM, SGLang", "any number of queries: a sequence that has more of them than the pack has "
     "kernels for is in pieces, in one launch", "`logit_cap`"),
    (("mla_gluon",), "SGLang",
     "both forms of lists, several queries a sequence, fp8 caches, LSE, `attn_sink`, rows of DeepSeek-V4 "
     "(`has_pe=False`), on both targets", "latents and rotated keys in two tensors"),
    (("pa_decode_sparse", "pa_prefill_sparse", "pa_sparse_prefill_opus"), "ATOM, SGLang, vLLM",
     "lists of rows of DeepSeek-V4, -1 for none, by kernels with `sparse: slots`, on both targets; pools of 16 bits, for decode of "
     "584-byte rows too (`[pages, P, 584]` of bytes), and of fp8 with `kv_scales`, by `cache_gather` with `kv_scale: token`; prompts over "
     "a pool and this pass's rows, and `extra_cache`, by kernels with "
     "`two_sources`", "`skip_reduce` of several parts, an `extra_cache` of other rows or, of 584 bytes, other pages"),
    (("mla_decode_fwd_v4_nm", "mla_decode_v4_asm", "pa_sparse_prefill_fp8_opus"), "ATOM, SGLang",
     "lists of rows of DeepSeek-V4 in two tensors, 512 bytes with scales and 64 elements, on both targets, by kernels with "
     "`kv_layout: planes`; any number of heads; queries in two tensors are joined by `cache_gather`. Scores are multiplied by "
     "`sm_scale`, which AITER ignores", "several queries of a list, `logits`, `attn_lse`"),
    _own("atom.model_ops.v4_kernels", ("sparse_attn_v4_paged_decode", "sparse_attn_v4_paged_prefill"),
         "the same rows of 16 bits or in two tensors, for decode from a pool, and for prompts from a pool and this pass's rows; `kv_scales`",
         "`kv_scales` of rows in two tensors"),
    _own("atom.model_ops.sparse_attn_v4", ("sparse_attn", "sparse_attn_ragged"),
         "a list of rows for each query, of its sequence or of all rows", "fp8 rows"),
    _own("v4_kernels", ("qk_norm_rope_maybe_quant", "inverse_rope_inplace"),
         "norms and rotation of DeepSeek-V4's queries and rows by `rope_heads`, rows to the window's too, and the output rotated back",
         "`quant_q`, `quant_k`, `fp8_2buff`"),
    (("inverse_rope_group_quant",), "ATOM, SGLang, vLLM",
     "the output of DeepSeek-V4 rotated back and rounded to fp8 by `rope_heads` with `out_dtype: fp8`; scales of e8m0 for each 128 "
     "elements by rows or with `scale_layout=\"mfma_tile\"`, at least 2^-22 or, of fnuz, 2^-21", "other groups than of 128, `n32k4`, `scale_shuffle=True`"),
    _own("v4_kernels", ("swa_write", "swa_scatter_rows"), "rows of 16 bits to windows of a pool, by `cache_write`; of ATOM 15290eb3 "
         "too, whose windows are pages of tables", "rows in two tensors"),
    _own("atom.model_ops.minimax_m3", ("minimax_m3_index_topk", "minimax_m3_index_topk_decode"),
         "index keys of 16 bits, several KV heads and queries, lists of pages with `emit_sparse_block_table`. Blocks ascend, of equal "
         "scores the first one is chosen", "index keys of fp8, `local_blocks` of 0"),
    _own("", ("minimax_m3_build_sparse_block_table", "minimax_m3_build_sparse_block_table_prefill"),
         "ascending `topk_idx`, as the calls above write it, for any number of KV heads"),
    _own("", ("minimax_m3_sparse_attn", "minimax_m3_sparse_attn_decode"),
         "caches `[blocks, 2, 128, heads, D]` of 16 bits, or of fp8 without scales; ascending `topk_idx`"),
    _own("", ("minimax_m3_sparse_attn_decode_asm", "minimax_m3_sparse_attn_prefill_asm"),
         "SHUFFLE caches of pages of 16, fp8 with scales of tokens; lists from the choice, or made of ascending `topk_idx`"),
    _own("", ("minimax_m3_fused_qknorm_rope_kv_insert_shuffle",), "as `fused_qknorm_idxrqknorm` with `asm_layout`",
         "indexers of another head size"),
    (("unified_attention_sparse_mla",), "",
     "slots in any order, -1 for none, by kernels with `sparse: slots`; pages of any size. A row of -1 alone gives 0",
     "caches of fp8"),
    (("decode_attention_fwd", "csr_to_dense_block_table"), "ATOM",
     "latent caches of any page, fp8 with a scale, LSE",
     "values that are a tensor of their own, or have a scale of their own, `logit_cap`; `attn_logits` is not used"),
    (("concat_and_cache_mla", "fused_qk_rope_concat_and_cache_mla"), "ATOM",
     "fp8 caches and `q_out`; queries of tokens without a slot are written too", "`is_nope_first=False`"),
    (("cat_and_cache_mla", "fused_qk_rope_cat_and_cache_mla"), "ATOM, SGLang",
     "caches `[slots, 1, D]`, of fp8 with a scale; `q_out` of fp8; `k_pe_out` by kernels of `mla_rope_cache` with `keep_kv`, of "
     "tokens without a slot too", "`shuffled_kv_cache`, a scale of a cache of 16 bits, a cosine for each element"),
    (("fused_qk_rmsnorm", "fused_qk_rmsnorm_group_quant", "fused_qk_rmsnorm_per_token_quant", "_fused_qk_rmsnorm"),
     "ATOM, vLLM",
     "fp8 with scales of 128 elements, transposed or not, or of rows by kernels with `row_scale: true`, and the unquantised rows beside it; `gemma_norm` by kernels with "
     "`gemma: true`; `q_residual` by kernels with `residual: true`", "fp4, two epsilons"),
    (("batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant",), "ATOM, vLLM",
     "absorption products of fp8 weights with one scale, either order of heads and tokens, `YQ`; `config` is not "
     "looked at", "`bias`, other groups than of 128, weights of int8"),
    (("gather_kv_b_proj",), "ATOM",
     "pages of any size, caches of fp8, and of fp16 too, with a scale, which bf16 does not look at; weights of the model's "
     "type, or of fp8 with a scale for each 128 x 128; three launches", "`weight_preshuffle`, `shuffled_kv_cache`, scales of rows, fp4, keys and values of fp8"),
    (("indexer_qk_rope_quant_and_cache", "indexer_k_quant_and_cache"), "ATOM, SGLang, vLLM",
     "plain and ue8m0 scales, pre-shuffled or not; rows of 132 bytes or longer; queries of tokens without a slot are "
     "written too", "scales of fewer than 128 elements"),
    (("cp_gather_indexer_k_quant_cache",), "ATOM, vLLM",
     "pages of any size, pre-shuffled or not; scales as float32 or as bytes", "scales of fewer than 128 elements"),
    (("fp8_mqa_logits", "flydsl_fp8_mqa_logits", "deepgemm_fp8_paged_mqa_logits"), "ATOM, SGLang, vLLM",
     "pages of any size, with SHUFFLE of a multiple of 16, pre-shuffled or not, several queries a "
     "sequence; on MI355X pages of mxfp4 keys, 68 bytes each", "keys of other than 128 elements"),
    (("top_k_per_row_prefill", "top_k_per_row_decode"), "ATOM, vLLM",
     "any k up to 4096 that the pack has; indices ascend, ties go to the smaller one", ""),
    (("chunk_kimi_delta_attn",), "ATOM",
     "prompts of KDA, gates and betas given or in the kernel, bounded or not, states V x K or K x V; a logit of beta that "
     "was widened to float is narrowed again", ""),
    (("chunk_gated_delta_rule", "chunk_gated_delta_rule_opt_vk"), "ATOM, vLLM",
     "prompts of GDN, with states K x V and V x K; of `_opt_vk` also sequences of a decode step before them, and a pool of "
     "states by `initial_state_indices`", "`inplace_final_state=False` with a pool"),
    (("fused_recurrent_gated_delta_rule",), "ATOM", "GDN token by token, with `gk` KDA; states K x V", "`gv`, both `g` and `gk`"),
    (("fused_rearrange_sigmoid_gated_delta_rule",), "vLLM",
     "steps and drafts of GDN and KDA from rows of q, k and v, states V x K in place", "bounded gates"),
    (("flydsl_gdr_decode",), "ATOM", "a decode step of GDN, states V x K, slots to read and to write of their own",
     "`need_shuffle_state`, several tokens of a sequence"),
    (("causal_conv1d_fn", "causal_conv1d_update"), "ATOM",
     "of `aiter.ops.triton.conv`: prompts and steps, states in place by slots",
     "`intermediate_conv_window`, circular states by `cache_seqlens`; `aiter.ops.causal_conv1d_update` has other arguments"),
    (("causal_conv1d_split_qkv_triton_tile_fn",), "vLLM", "prompts, with q, k and v apart", ""),
    (("fused_reshape_causal_conv1d_update_single_token",), "vLLM", "decode steps from packed rows, interleaved or flat",
     "drafts, states at the boundaries of blocks"),
)

_ENTRY = "it is one kernel of flash_attn_func and flash_attn_varlen_func, which take the same tensors"
_GDN = "AITER's form of it has no call yet; attn.linear has vLLM's, SGLang's and ATOM's calls"
_UP = ("activations that are fp8 already, with a scale for each block of both operands, are not read; head_product "
       "makes keys and values of latents")
_MSA = "scores and choices of MiniMax-M3's blocks are not ops of attnc; fused_qknorm_idxrqknorm writes what they read"
_PACKED = "the segmented layout is of gfx1250"
_PARTS = "the norm, the rotation and attention are launches of their own: fused_qkv_split_qk_norm_rope_cache has the first two"
_ROPE = "it is a class with tables of its own, not a call; the calls rope_cached_* rotate by an engine's table"
_V4 = ("AITER's form of it has no call yet; compress makes the rows of DeepSeek-V4, and pa_decode_sparse attends to "
       "lists of them")
_RINGS = ("its rings have scores to which the terms of positions are added already, in another type than its inputs, and another call "
          "writes them; compress adds the terms when it reads a ring, and writes the ring itself")
_PLANES = "its workspace and its plan of parts are AITER's own; mla_decode_fwd_v4_nm reads the same rows and plans by itself"
_FP4 = ("AITER's order of keys of 4 bits and their scales is not read; deepgemm_fp8_paged_mqa_logits reads DeepGEMM's, with queries "
        "of fp8")

_PLAIN = "it is ATOM's own Triton kernel, without {}, and runs beside these calls as it is"
_LISTS = _PLAIN.format("arithmetic of attention") + "; chosen_lists makes such lists for pools with block tables"
_STATES = ("ATOM's own: its rings have scores to which the terms of positions are added already, and its plan has a row for each group; "
           "compress takes sequences, and writes the ring itself")

_ANGLES = "angles, other orders of rows and new outputs have no kernel; rope_cached_positions_*_inplace rotate rows in place"
_WAYS = "norm and rotation without a cache are no launch of attnc; fused_qk_norm_rope_cache_* write one"
_BLOCKS = "it chooses among AITER's kernels; top_k_per_row_* need no such choice"

# Rotations of AITER that no engine calls.
ROPES = """
    rope_fwd rope_fwd_inplace rope_2c_fwd rope_2c_fwd_inplace rope_cached_fwd rope_cached_fwd_inplace
    rope_cached_2c_fwd rope_thd_fwd rope_thd_fwd_inplace rope_2d_fwd rope_2d_fwd_inplace
    rope_cached_positions_fwd rope_cached_positions_2c_fwd rope_cached_positions_offsets_fwd
    rope_cached_positions_offsets_fwd_inplace rope_cached_positions_offsets_2c_fwd
    rope_cached_positions_offsets_2c_fwd_inplace""".split()

# Rows of calls that are not served: (name, engines that make the call, reason)
MISSING = (
    ("fmha_v3_fwd", "SGLang", _ENTRY),
    ("fmha_v3_varlen_fwd", "SGLang", _ENTRY),
    ("pa_decode_bf16_asm", "ATOM", "it is of gfx1250, with fp8 queries"),
    ("deepgemm_fp8_paged_mqa_logits_stage1", "vLLM",
     "scores of each head are not kept: deepgemm_fp8_paged_mqa_logits adds them up"),
    ("concat_and_cache_mla_seg", "ATOM", _PACKED),
    ("fused_qk_rope_concat_and_cache_mla_seg", "ATOM", _PACKED),
    ("fused_fp8_bmm_rope_cat_and_cache_mla", "ATOM", "the absorbed product is a launch of its own"),
    ("fused_fp4_bmm_rope_cat_and_cache_mla", "ATOM", "weights of 4 bits are not read"),
    ("fused_gemm_a8w8_blockscale_split_cat", "ATOM", _UP),
    ("fused_gemm_a8w8_blockscale_preshuffle_split_cat", "ATOM", _UP),
    ("fused_gemm_afp4wfp4_split_cat", "ATOM", "weights of 4 bits are not read"),
    ("fused_gemm_afp4wfp4_preshuffle_split_cat", "ATOM", "weights of 4 bits are not read"),
    ("flydsl_fused_compress_attn", "ATOM", _RINGS),
    ("flydsl_hca_compress_attn", "ATOM", _RINGS),
    ("fused_compress_attn", "ATOM", _STATES),
    ("update_compressor_states", "ATOM", _STATES),
    ("csa_translate_pack", "ATOM", _LISTS),
    ("write_v4_paged_decode_indices", "ATOM", _LISTS),
    ("write_v4_paged_prefill_indices", "ATOM", _LISTS),
    ("scale_indexer_weights", "ATOM", _PLAIN.format("a product of matrices") + "; indexer_rope_cache multiplies weights by scales of queries"),
    ("qk_norm_rope_maybe_quant_fp8_2buff", "ATOM", "ATOM's own: queries are rounded to fp8 with scales of 64 elements by no op; compress writes "
     "rows in two tensors"),
    ("swa_write_2buff_prepacked", "ATOM", _PLAIN.format("arithmetic") + "; compress writes rows in two tensors"),
    ("dspark_paged_window_gather", "ATOM", _PLAIN.format("arithmetic") + "; cache_gather gathers rows by a block table"),
    ("dspark_paged_window_gather_2buff", "ATOM", "ATOM's own: it reads windows by ATOM's numbers of rows; cache_gather converts rows in two "
     "tensors by a block table"),
    ("flydsl_qk_norm_rope_quant", "ATOM", _V4),
    ("fused_qk_norm_rope_group_quant", "ATOM", _V4),
    ("batched_gemm_a16wfp4", "ATOM, vLLM", "weights of 4 bits are not read"),
    ("rope_rotate_activation", "ATOM", _V4),
    ("compute_varctx_schedule", "ATOM", _FP4),
    ("compute_prefill_schedule", "ATOM", _FP4),
    ("compute_varqlen_windows", "ATOM", _FP4),
    ("flydsl_pa_mqa_logits_fp4", "ATOM", _FP4),
    ("flydsl_pa_mqa_logits_fp4_prefill", "ATOM", _FP4),
    ("flydsl_gdr_prefill", "ATOM", _GDN),
    ("chunk_kda", "vLLM", _GDN),
    ("fused_recurrent_kda", "vLLM", _GDN),
    ("fused_recurrent_kda_packed_decode", "vLLM", _GDN),
    ("build_gated_delta_rule_prefill_metadata", "vLLM", _GDN),
    ("chunk_gated_delta_rule_fwd_h_flydsl_opt", "vLLM", _GDN),
    ("gdn_prepare_flydsl_supported", "vLLM", _GDN),
    ("gdn_prepare_fwd_flydsl", "vLLM", _GDN),
    ("mla_decode_fwd_v4_nm_ps", "SGLang", _PLANES),
    ("get_mla_v4_nm_num_kv_splits", "SGLang", _V4),
    ("get_mla_v4_nm_ps_workspace", "SGLang", _V4),
    ("flydsl_mla_v4_decode_supported", "SGLang", _V4),
    ("sparse_mla_fwd", "vLLM", "ragged lists of slots with extra keys and sinks are not read; mla_decode_fwd and "
     "unified_attention_sparse_mla take lists of slots"),
    ("mla_decode_gluon", "vLLM", "it is an older name of mla_gluon, with other arguments"),
    ("pa_sparse_block_score_decode", "vLLM", _MSA),
    ("pa_sparse_block_score_prefill", "vLLM", _MSA),
    ("pa_sparse_block_topk", "vLLM", _MSA),
    ("pa_sparse_block_topk_cp", "vLLM", _MSA),
    ("topk_cp_candidate_numel", "vLLM", _MSA),
    ("CP_MAX_BLOCKS", "vLLM", _MSA),
    ("SCORE_MFMA_COLS", "vLLM", _MSA),
    ("TOPK_CP_MAX_CAND", "vLLM", _MSA),
    ("pa_mqa_logits_mxfp4", "vLLM", _FP4),
    ("k_norm_rope_mxfp4_cache", "vLLM", _FP4),
    ("q_rope_mxfp4_quant", "vLLM", _FP4),
    ("make_fp4_mqa_plan", "SGLang", _FP4),
    ("CTA_INFO_WIDTH", "SGLang", _FP4),
    ("_prefill_cta_info_kernel", "SGLang", _FP4),
    ("rmsnorm_rope_rotate_activation_fp4quant_kvcache", "SGLang", _FP4),
    ("fused_mla_prefill_qkv_fp8", "vLLM", "keys and values are rounded to fp8 by no kernel of attnc; mla_prefill_ps_asm_fwd "
     "reads those that are"),
    ("fused_attention_qk_norm_rope", "SGLang", _PARTS),
    ("fused_attention_qk_norm_rope_supported", "SGLang", _PARTS),
    ("fused_qk_rope_cat", "SGLang", "rotated and plain parts are joined with the cache's write, by "
     "fused_qk_rope_cat_and_cache_mla"),
    ("fav3_sage_wrapper_func", "SGLang", "queries and keys of int8 with scales of blocks are not read by prefill"),
    ("get_rope", "ATOM, SGLang", _ROPE),
    ("MRotaryEmbedding", "ATOM", _ROPE),
    *((name, "", _ANGLES) for name in ROPES),
    *((name, "", _WAYS) for name in ("fused_qk_norm_rope_1way", "fused_qk_norm_rope_2way")),
    ("topk_use_mulblocks", "", _BLOCKS),
)

SERVED = tuple(name for calls, _, _, _ in ROWS for name in calls)
NOT_SERVED = {name: why for name, _, why in MISSING}


def served(name):
    """True if a call of AITER is served. Some forms of its arguments may still raise NotServed."""
    return name in SERVED


def reason(name):
    """Returns why a call is not served; None if it is served."""
    if name in SERVED:
        return None
    return NOT_SERVED.get(name, "attn.aiter does not know this call")


def table():
    """Returns two tables as Markdown: calls that are served, with their forms, and calls that are not served."""
    lines = ["| call | made by | served | not served |", "| --- | --- | --- | --- |"]
    for calls, engines, what, but in ROWS:
        lines.append(f"| {', '.join(f'`{n}`' for n in calls)} | {engines} | {what} | {but} |")
    lines += ["", "| call | made by | why it is not served |", "| --- | --- | --- |"]
    reasons = {}
    for name, engines, why in MISSING:
        reasons.setdefault((engines, why), []).append(name)
    for (engines, why), names in reasons.items():
        lines.append(f"| {', '.join(f'`{n}`' for n in names)} | {engines} | {why} |")
    return "\n".join(lines) + "\n"
