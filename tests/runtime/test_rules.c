/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rules of ops that relate arguments to each other: valid calls are filled in, and calls
 * that break a rule are refused with its sentence. No kernel runs.
 */
#include "runtime/family.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static _Alignas(32) char memory[64];
static void *const m = memory;

/* Fills a call; it must be refused with `text`, or succeed if `text` is NULL. */
static void call(const struct attn_family *family, const void *d, const void *a, const char *text)
{
    union attn_desc desc;
    struct attn_call c;
    refused(family->normalise(d, &desc), ATTN_OK, NULL);
    refused(family->fill(&desc, a, &c), ATTN_BAD_ARGUMENT, text);
}

static void lookup(const struct attn_family *family, const void *d, const char *text)
{
    union attn_desc desc;
    refused(family->normalise(d, &desc), ATTN_BAD_ARGUMENT, text);
}

TEST(a_selection_merges_lists_of_plans)
{
    const struct attn_family *const topk = &attn_family_topk;
    const struct attn_topk_desc rows = {.size = sizeof(rows), .top_k = 64};
    struct attn_topk_desc d = rows;
    d.planned = true;
    const struct attn_topk_args of_plan = {.size = sizeof(of_plan),
                                           .scores = m,
                                           .reduce_indptr = m,
                                           .source = m,
                                           .indices = m,
                                           .values = m,
                                           .rows = 3,
                                           .columns = 64};
    struct attn_topk_args a = of_plan;
    call(topk, &d, &a, NULL);
    a.scores_row_stride = a.source_row_stride = 64;
    call(topk, &d, &a, NULL);
    a.scores_row_stride = 128;
    call(topk, &d, &a, "row strides are 0 or top_k");
    a.scores_row_stride = 64;
    a.source_row_stride = 128;
    call(topk, &d, &a, "row strides are 0 or top_k");
    a = of_plan;
    a.source = NULL;
    call(topk, &d, &a, "source is NULL");
    a = of_plan;
    a.run = 2;
    call(topk, &d, &a, "run is below 3");
    a.run = 3;
    call(topk, &d, &a, NULL);
    call(topk, &rows, &a, "run is for a planned call");
    a.block_table = m;
    call(topk, &d, &a, "runs have positions: block_table is set");
    a.of_runs = true;
    call(topk, &d, &a, NULL);
    a.run = 0;
    call(topk, &d, &a, "of_runs is set, run is 0");
    a = of_plan;
    a.splits = 2;
    call(topk, &d, &a, "splits are for the first of two launches");
}

TEST(packed_rows_are_only_of_latent_attention)
{
    const struct attn_cache_desc packed = {
        .dtype = ATTN_FP8, .layout = ATTN_KV_PACKED, .page_size = 64};
    const char *const text = "cache.layout is ATTN_KV_PACKED, which only mla_decode reads";
    const struct attn_decode_desc decode = {.size = sizeof(decode),
                                            .dtype = ATTN_BF16,
                                            .head_dim = 512,
                                            .head_dim_v = 64,
                                            .heads = 16,
                                            .kv_heads = 1,
                                            .cache = packed};
    const struct attn_prefill_desc prefill = {.size = sizeof(prefill),
                                              .dtype = ATTN_BF16,
                                              .head_dim = 512,
                                              .head_dim_v = 64,
                                              .heads = 16,
                                              .kv_heads = 1,
                                              .paged = true,
                                              .cache = packed};
    lookup(&attn_family_decode, &decode, text);
    lookup(&attn_family_prefill, &prefill, text);
}

TEST(products_and_norms_have_whole_sets_of_tensors)
{
    const struct attn_head_product_desc product = {.size = sizeof(product),
                                                   .dtype = ATTN_BF16,
                                                   .head_dim = 512,
                                                   .head_dim_v = 128,
                                                   .heads = 2};
    struct attn_head_product_args p = {.size = sizeof(p), .x = m, .w = m, .out = m, .tokens = 1};
    call(&attn_family_head_product, &product, &p, NULL);
    p.tail = m;
    call(&attn_family_head_product, &product, &p, "tail is set, tail_out is NULL");
    p.tail_out = m;
    call(&attn_family_head_product, &product, &p, NULL);
    const struct attn_qk_rmsnorm_desc norm = {
        .size = sizeof(norm), .dtype = ATTN_BF16, .width = 1536, .width_kv = 512};
    struct attn_qk_rmsnorm_args n = {
        .size = sizeof(n), .q = m, .q_weight = m, .q_out = m, .kv_weight = m, .tokens = 1};
    call(&attn_family_qk_rmsnorm, &norm, &n, NULL);
    n.kv = m;
    call(&attn_family_qk_rmsnorm, &norm, &n, "kv is set, kv_weight or kv_out is NULL");
    n.kv_out = m;
    call(&attn_family_qk_rmsnorm, &norm, &n, NULL);
    n.kv_weight = NULL;
    call(&attn_family_qk_rmsnorm, &norm, &n, "kv is set, kv_weight or kv_out is NULL");
}

TEST(latents_rotate_where_they_have_more_columns)
{
    const struct attn_family *const family = &attn_family_mla_rope_cache;
    struct attn_mla_rope_cache_desc d = {.size = sizeof(d),
                                         .dtype = ATTN_BF16,
                                         .head_dim = 576,
                                         .head_dim_v = 512,
                                         .heads = 16,
                                         .rope = ATTN_ROPE_GPTJ,
                                         .cache = {.dtype = ATTN_BF16, .page_size = 64}};
    struct attn_mla_rope_cache_args a = {.size = sizeof(a),
                                         .cache = {.k = m},
                                         .q_nope = m,
                                         .q_pe = m,
                                         .q_out = m,
                                         .kv_c = m,
                                         .k_pe = m,
                                         .slot_mapping = m,
                                         .positions = m,
                                         .cos_sin = m,
                                         .q_out_scale = m,
                                         .tokens = 1};
    call(family, &d, &a, NULL);
    a.q_out = NULL;
    call(family, &d, &a, "q_nope is set, q_out is NULL");
    a.q_nope = NULL;
    call(family, &d, &a, NULL);
    d.q_out_dtype = ATTN_FP8;
    call(family, &d, &a, "q_out is NULL; it is needed where q_out_dtype == ATTN_FP8");
    d.q_out_dtype = ATTN_BF16;
    d.head_dim = 512;
    lookup(family, &d, "head_dim equals head_dim_v: desc.rope has nothing to rotate");
    d.rope = ATTN_ROPE_NONE;
    lookup(family, &d, NULL);
    d.head_dim_v = 448;
    d.cache =
        (struct attn_cache_desc){.dtype = ATTN_FP8, .layout = ATTN_KV_SCALES_LAST, .page_size = 64};
    lookup(family, &d, NULL);
    d.norm = ATTN_NORM_RMS;
    lookup(family, &d, "rows of cache.layout are key and value, and norm or product_dim is set");
}

TEST(weights_of_fp8_are_for_a_product)
{
    const struct attn_family *const family = &attn_family_mla_rope_cache;
    struct attn_mla_rope_cache_desc d = {.size = sizeof(d),
                                         .dtype = ATTN_BF16,
                                         .head_dim = 512,
                                         .head_dim_v = 512,
                                         .heads = 16,
                                         .weights = ATTN_WEIGHTS_FP8,
                                         .cache = {.dtype = ATTN_BF16, .page_size = 64}};
    lookup(family, &d, "weights is not ATTN_WEIGHTS_SAME, product_dim is 0");
    d.product_dim = 192;
    lookup(family, &d, NULL);
    struct attn_mla_rope_cache_args a = {.size = sizeof(a),
                                         .cache = {.k = m},
                                         .q_nope = m,
                                         .w_uk = m,
                                         .w_uk_scale = m,
                                         .q_out = m,
                                         .kv_c = m,
                                         .slot_mapping = m,
                                         .tokens = 1};
    call(family, &d, &a, NULL);
    a.w_uk = (char *)m + 8;
    call(family, &d, &a, "w_uk is not aligned to 16 bytes");
    a.w_uk = m;
    a.w_uk_row_stride = 200;
    call(family, &d, &a,
         "w_uk has elements of ATTN_FP8, and a stride that is not a multiple of 16");
    d.weights = ATTN_WEIGHTS_FP8_BLOCK;
    lookup(family, &d,
           "weights is ATTN_WEIGHTS_FP8_BLOCK, product_dim 192 is not a multiple of 128");
    struct attn_mla_decode_desc latent = {.size = sizeof(latent),
                                          .dtype = ATTN_BF16,
                                          .head_dim = 576,
                                          .head_dim_v = 512,
                                          .heads = 16,
                                          .weights = ATTN_WEIGHTS_FP8_BLOCK,
                                          .cache = {.dtype = ATTN_BF16, .page_size = 64}};
    lookup(&attn_family_mla_decode, &latent, "weights is not ATTN_WEIGHTS_SAME, product_dim is 0");
}

static struct attn_indexer_topk_args indexer_args(void)
{
    return (struct attn_indexer_topk_args){.size = sizeof(struct attn_indexer_topk_args),
                                           .q = m,
                                           .weights = m,
                                           .keys = m,
                                           .row_ends = m,
                                           .block_table = m,
                                           .indices = m,
                                           .values = m,
                                           .rows = 1,
                                           .page_size = 64,
                                           .page_stride = 64 * 132,
                                           .block_table_stride = 4};
}

TEST(indexers_read_pages_of_their_kind)
{
    const struct attn_family *const family = &attn_family_indexer_topk;
    const struct attn_indexer_topk_desc paged = {
        .size = sizeof(paged), .top_k = 512, .heads = 64, .paged = true};
    struct attn_indexer_topk_desc d = paged;
    struct attn_indexer_topk_args a = indexer_args();
    call(family, &d, &a, NULL);
    static const int32_t small[] = {1, 16, 31, 33, 48}, whole[] = {32, 64};
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
        a.page_size = small[i];
        call(family, &d, &a, "page_size does not fit desc.small_pages");
    }
    d.small_pages = true;
    call(family, &d, &a, NULL);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        a.page_size = whole[i];
        call(family, &d, &a, "page_size does not fit desc.small_pages");
    }
    d = paged;
    d.index_keys = ATTN_INDEX_KEYS_BF16;
    a = indexer_args();
    call(family, &d, &a,
         "page_stride is below page_size keys: of 132 bytes, of 68 with ATTN_INDEX_KEYS_MXFP4, or "
         "of "
         "256 with keys of 16 bits");
    a.page_stride = 256 * (int64_t)a.page_size;
    call(family, &d, &a, NULL);
    d = paged;
    a = indexer_args();
    a.slots = true;
    call(family, &d, &a, NULL);
    a.splits = 2;
    call(family, &d, &a, "slots are for pages, and for splits of 1");
    d.paged = false;
    d.layout = ATTN_KV_SHUFFLE;
    lookup(family, &d, "layout is not ATTN_KV_NHD, and paged is false");
    d.layout = ATTN_KV_NHD;
    d.index_keys = ATTN_INDEX_KEYS_MXFP4;
    lookup(family, &d, "index_keys is ATTN_INDEX_KEYS_MXFP4, and paged is false");
}

TEST(logits_are_of_pages_of_their_kind)
{
    const struct attn_family *const family = &attn_family_indexer_logits;
    struct attn_indexer_logits_desc d = {.size = sizeof(d), .heads = 64, .paged = true};
    struct attn_indexer_logits_args a = {.size = sizeof(a),
                                         .q = m,
                                         .weights = m,
                                         .keys = m,
                                         .row_ends = m,
                                         .block_table = m,
                                         .logits = m,
                                         .rows = 1,
                                         .columns = 64,
                                         .page_size = 64,
                                         .page_stride = 64 * 132,
                                         .block_table_stride = 4};
    call(family, &d, &a, NULL);
    a.page_size = 31;
    call(family, &d, &a, "page_size does not fit desc.small_pages");
    d.small_pages = true;
    call(family, &d, &a, NULL);
    d = (struct attn_indexer_logits_desc){
        .size = sizeof(d), .heads = 64, .layout = ATTN_KV_SHUFFLE};
    lookup(family, &d, "layout is not ATTN_KV_NHD, and paged is false");
    d.layout = ATTN_KV_NHD;
    d.index_keys = ATTN_INDEX_KEYS_MXFP4;
    lookup(family, &d, "index_keys is ATTN_INDEX_KEYS_MXFP4, and paged is false");
}

/* Tests of SHUFFLE pages, which interleave sixteen tokens. Other page layouts have tests of their
 * own. */
TEST(shuffled_pages_have_sixteens_of_tokens)
{
    const struct attn_indexer_gather_desc gather = {.size = sizeof(gather),
                                                    .layout = ATTN_KV_SHUFFLE};
    struct attn_indexer_gather_args g = {.size = sizeof(g),
                                         .keys = m,
                                         .block_table = m,
                                         .cu_seqlens_k = m,
                                         .keys_out = m,
                                         .key_scales_out = m,
                                         .batch = 1,
                                         .total_k = 1,
                                         .max_seqlen_k = 1,
                                         .page_size = 24,
                                         .page_stride = 64 * 132,
                                         .block_table_stride = 4};
    call(&attn_family_indexer_gather, &gather, &g, "page_size is not a multiple of 16");
    g.page_size = 0;
    call(&attn_family_indexer_gather, &gather, &g, "page_size is not a multiple of 16");
    g.page_size = 48;
    call(&attn_family_indexer_gather, &gather, &g, NULL);
    const struct attn_indexer_rope_cache_desc write = {.size = sizeof(write),
                                                       .dtype = ATTN_BF16,
                                                       .heads = 64,
                                                       .rope = ATTN_ROPE_NEOX,
                                                       .layout = ATTN_KV_SHUFFLE};
    struct attn_indexer_rope_cache_args w = {.size = sizeof(w),
                                             .k = m,
                                             .k_weight = m,
                                             .slot_mapping = m,
                                             .positions = m,
                                             .cos_sin = m,
                                             .keys = m,
                                             .tokens = 1,
                                             .page_size = 24,
                                             .page_stride = 64 * 132};
    call(&attn_family_indexer_rope_cache, &write, &w, "page_size is not a multiple of 16");
    w.page_size = 48;
    call(&attn_family_indexer_rope_cache, &write, &w, NULL);
    struct attn_indexer_topk_desc topk = {.size = sizeof(topk),
                                          .top_k = 512,
                                          .heads = 64,
                                          .paged = true,
                                          .small_pages = true,
                                          .layout = ATTN_KV_SHUFFLE};
    struct attn_indexer_topk_args t = indexer_args();
    t.page_size = 24;
    call(&attn_family_indexer_topk, &topk, &t, "page_size is not a multiple of 16");
    t.page_size = 48;
    call(&attn_family_indexer_topk, &topk, &t, NULL);
}

TEST(decode_has_work_lists_and_windows)
{
    struct attn_decode_desc d = {.size = sizeof(d),
                                 .dtype = ATTN_BF16,
                                 .q_dtype = ATTN_BF16,
                                 .head_dim = 128,
                                 .heads = 8,
                                 .kv_heads = 2,
                                 .q_len = 1,
                                 .mask = ATTN_MASK_WINDOW,
                                 .cache = {.dtype = ATTN_BF16, .page_size = 16}};
    const struct attn_decode_args one = {
        .size = sizeof(one),
        .cache = {.k = m, .v = m},
        .pages = {.kv_lens = m, .block_table = m, .block_table_stride = 4},
        .q = m,
        .out = m,
        .partial_out = m,
        .partial_lse = m,
        .batch = 1,
        .tokens = 1,
        .scale = 1,
        .window_left = -1,
        .window_right = -1};
    struct attn_decode_args a = one;
    call(&attn_family_decode, &d, &a, NULL);
    a.window_left = -2;
    call(&attn_family_decode, &d, &a, "a window distance is below -1");
    a = one;
    a.window_right = -2;
    call(&attn_family_decode, &d, &a, "a window distance is below -1");
    a = one;
    a.work_indptr = a.work_info = m;
    call(&attn_family_decode, &d, &a, "work_indptr is set, work_lists is 0");
    a = one;
    a.batch = a.tokens = 1 << 27;
    d.heads = d.kv_heads = 32;
    call(&attn_family_decode, &d, &a, "more than 2^31 workgroups");
    d.mask = ATTN_MASK_CHUNK;
    static const int32_t chunks[] = {0, 3, 96, -8, INT32_MIN};
    a = one;
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        a.chunk = chunks[i];
        call(&attn_family_decode, &d, &a, "chunk is not a power of two");
    }
    a.chunk = 64;
    call(&attn_family_decode, &d, &a, NULL);
}

TEST(latent_decode_has_work_lists)
{
    const struct attn_mla_decode_desc d = {.size = sizeof(d),
                                           .dtype = ATTN_BF16,
                                           .head_dim = 576,
                                           .head_dim_v = 512,
                                           .heads = 16,
                                           .q_len = 1,
                                           .cache = {.dtype = ATTN_BF16, .page_size = 64}};
    struct attn_mla_decode_args a = {
        .size = sizeof(a),
        .cache = {.k = m},
        .pages = {.kv_lens = m, .block_table = m, .block_table_stride = 4},
        .q = m,
        .out = m,
        .batch = 1,
        .tokens = 1,
        .scale = 1};
    call(&attn_family_mla_decode, &d, &a, NULL);
    a.work_indptr = a.work_info = m;
    a.partial_out = a.partial_lse = m;
    call(&attn_family_mla_decode, &d, &a, "work_indptr is set, work_lists is 0");
    a.work_lists = 1;
    call(&attn_family_mla_decode, &d, &a, NULL);
}

TEST(rotated_queries_of_fp8_go_elsewhere)
{
    struct attn_rope_qk_norm_cache_desc d = {.size = sizeof(d),
                                             .dtype = ATTN_BF16,
                                             .head_dim = 128,
                                             .heads = 8,
                                             .kv_heads = 2,
                                             .rope = ATTN_ROPE_NEOX,
                                             .cache = {.dtype = ATTN_BF16, .page_size = 16}};
    struct attn_rope_qk_norm_cache_args a = {.size = sizeof(a),
                                             .q = m,
                                             .k = m,
                                             .positions = m,
                                             .cos_sin = m,
                                             .q_out_scale = m,
                                             .tokens = 1};
    call(&attn_family_rope_qk_norm_cache, &d, &a, NULL);
    d.q_out_dtype = ATTN_FP8;
    call(&attn_family_rope_qk_norm_cache, &d, &a,
         "q_out is NULL; it is needed where q_out_dtype == ATTN_FP8");
    a.q_out = m;
    call(&attn_family_rope_qk_norm_cache, &d, &a, NULL);
}

TEST(prefill_has_windows_and_chunks)
{
    struct attn_prefill_desc d = {.size = sizeof(d),
                                  .dtype = ATTN_BF16,
                                  .q_dtype = ATTN_BF16,
                                  .head_dim = 128,
                                  .heads = 8,
                                  .kv_heads = 2,
                                  .mask = ATTN_MASK_WINDOW};
    const struct attn_prefill_args one = {.size = sizeof(one),
                                          .q = m,
                                          .k = m,
                                          .v = m,
                                          .out = m,
                                          .cu_seqlens_q = m,
                                          .cu_seqlens_k = m,
                                          .batch = 1,
                                          .tokens = 1,
                                          .total_k = 1,
                                          .max_seqlen_q = 1,
                                          .max_seqlen_k = 1,
                                          .scale = 1,
                                          .window_left = -1,
                                          .window_right = -1};
    struct attn_prefill_args a = one;
    call(&attn_family_prefill, &d, &a, NULL);
    a.window_left = -2;
    call(&attn_family_prefill, &d, &a, "a window distance is below -1");
    a = one;
    a.window_right = -2;
    call(&attn_family_prefill, &d, &a, "a window distance is below -1");
    d.mask = ATTN_MASK_CHUNK;
    static const int32_t chunks[] = {0, 3, 96, -8, INT32_MIN};
    a = one;
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        a.chunk = chunks[i];
        call(&attn_family_prefill, &d, &a, "chunk is not a power of two");
    }
    a.chunk = 64;
    call(&attn_family_prefill, &d, &a, NULL);
}

TEST(prefill_has_scales_of_heads)
{
    struct attn_prefill_desc d = {.size = sizeof(d),
                                  .dtype = ATTN_BF16,
                                  .q_dtype = ATTN_BF16,
                                  .head_dim = 128,
                                  .heads = 8,
                                  .kv_heads = 2,
                                  .qkv_scale = ATTN_QKV_SCALE_HEAD};
    lookup(&attn_family_prefill, &d, "qkv_scale is set, q_dtype is not ATTN_FP8");
    d.qkv_scale = ATTN_QKV_SCALE_TENSOR;
    d.one_launch = true;
    lookup(&attn_family_prefill, &d, "one_launch is set, planned is not");
    d.one_launch = false;
    d.qkv_scale = ATTN_QKV_SCALE_HEAD;
    d.q_dtype = ATTN_FP8;
    lookup(&attn_family_prefill, &d, NULL);
    d.qkv_scale = ATTN_QKV_SCALE_KV_HEAD;
    lookup(&attn_family_prefill, &d, NULL);
    d.paged = true;
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_TENSOR, 16};
    lookup(&attn_family_prefill, &d,
           "qkv_scale is ATTN_QKV_SCALE_KV_HEAD, cache.scale is not ATTN_KV_SCALE_HEAD");
    d.cache.scale = ATTN_KV_SCALE_HEAD;
    d.planned = true;
    lookup(&attn_family_prefill, &d, NULL);
    d.qkv_scale = ATTN_QKV_SCALE_HEAD;
    lookup(&attn_family_prefill, &d, "planned is set, and ATTN_QKV_SCALE_HEAD");
    d.planned = d.paged = false;
    d.mask = ATTN_MASK_CUSTOM;
    lookup(&attn_family_prefill, &d, "q_dtype is ATTN_FP8, mask is ATTN_MASK_CUSTOM");
}

TEST(shared_lists_have_room_for_masks)
{
    const struct attn_family *const family = &attn_family_shared_lists;
    const struct attn_shared_lists_desc d = {.size = sizeof(d)};
    const struct attn_shared_lists_args eight = {.size = sizeof(eight),
                                                 .cu_tiles = m,
                                                 .kv_lens = m,
                                                 .chosen = m,
                                                 .counts = m,
                                                 .block_table = m,
                                                 .lists = m,
                                                 .list_lens = m,
                                                 .mask = m,
                                                 .tiles = 3,
                                                 .queries = 22,
                                                 .rows = 44,
                                                 .kv_heads = 2,
                                                 .top_k = 16,
                                                 .entries = 11,
                                                 .mask_stride = 8 * 2,
                                                 .ratio = 128,
                                                 .group_entries = 2};
    static const char words[] = "mask_stride is below a tile's rows";
    struct attn_shared_lists_args a = eight;
    call(family, &d, &a, NULL);
    a.mask_stride--;
    call(family, &d, &a, words);
    a = eight;
    a.entries = 34; /* 17 groups: 2,176 tokens */
    call(family, &d, &a, words);
    a = eight;
    a.queries = 25;
    a.rows = 50;
    call(family, &d, &a, words);
    a.queries = a.rows = 0;
    a.mask_stride = 2;
    call(family, &d, &a, NULL);
}

int main(void) { return run_unit_tests(); }
