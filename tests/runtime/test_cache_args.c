/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what cache_write, cache_gather and cache_copy refuse before a launch, how cache_copy
 * divides a page by its strides, and how ATTN_CHECK_DATA checks slots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host.h"
#include "runtime/op.h"
#include "runtime/tensors.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static struct attn_call call;
static union attn_desc desc;

/* Returns an aligned address that is never read. */
static void *at(uintptr_t address) { return (void *)address; }

static struct attn_cache_write_desc write_desc(void)
{
    return (struct attn_cache_write_desc){
        .size = sizeof(struct attn_cache_write_desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .kv_heads = 2,
        .cache = {.dtype = ATTN_FP8, .scale = ATTN_KV_SCALE_TOKEN, .page_size = 16},
    };
}

static struct attn_cache_write_args write_args(void)
{
    return (struct attn_cache_write_args){
        .size = sizeof(struct attn_cache_write_args),
        .stream = FAKE_STREAM,
        .k_in = at(4096),
        .v_in = at(8192),
        .cache = {.k = at(16), .v = at(32), .k_scale = at(4), .v_scale = at(8)},
        .slot_mapping = at(64),
        .tokens = 3,
    };
}

static int normalise_write(struct attn_cache_write_desc d)
{
    return attn_family_cache_write.normalise(&d, &desc);
}

static int fill_write(struct attn_cache_write_args a)
{
    return attn_family_cache_write.fill(&desc, &a, &call);
}

TEST(descriptors_that_no_cache_has_are_refused)
{
    struct attn_cache_write_desc d = write_desc();
    assert_int_equal(normalise_write(d), ATTN_OK);
    assert_int_equal(desc.cache_write.head_dim_v, 128);
    d.dtype = ATTN_FP8;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "dtype 3");
    d = write_desc();
    d.kv_heads = 0;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "kv_heads 0 is not 1 to 65535");
    d = write_desc();
    d.head_dim = -16;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "head_dim -16");
    d = write_desc();
    d.cache.page_size = 65537;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "page_size 65537");
    d = write_desc();
    d.cache.dtype = ATTN_BF16;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "has no scale");
    d = write_desc();
    d.cache.layout = ATTN_KV_SHUFFLE;
    d.cache.page_size = 8;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "page_size 8");
}

/* Packed rows are given as whole rows, or as latents and the rest separately. Their fp8 kind has
 * one head only. */
TEST(packed_rows_have_their_sizes)
{
    static const int dims[][3] = {{576, 512, 1}, {512, 64, 1}, {576, 64, 0}, {512, 512, 0}};
    struct attn_cache_write_desc d = write_desc();
    d.kv_heads = 1;
    d.cache.layout = ATTN_KV_PACKED;
    d.cache.scale = ATTN_KV_SCALE_NONE;
    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
        d.head_dim = dims[i][0];
        d.head_dim_v = dims[i][1];
        if (dims[i][2])
            assert_int_equal(normalise_write(d), ATTN_OK);
        else
            refused(normalise_write(d), ATTN_BAD_ARGUMENT,
                    "layout PACKED has one head of 512 + 64 elements");
    }
    d.head_dim = 512;
    d.head_dim_v = 64;
    d.kv_heads = 2;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "layout PACKED has one head");
    d.kv_heads = 1;
    d.cache.scale = ATTN_KV_SCALE_TOKEN;
    refused(normalise_write(d), ATTN_BAD_ARGUMENT, "layout PACKED has one head");
}

/* A packed cache has whole rows at k, so no tensor of values is needed. */
TEST(packed_rows_are_one_tensor)
{
    const struct attn_cache_heads heads = {.head_dim = 512, .head_dim_v = 64};
    struct attn_cache cache = {0};
    struct attn_cache_desc d = {.dtype = ATTN_FP8, .layout = ATTN_KV_PACKED};
    struct attn_tensor t[4];
    assert_int_equal(attn_cache_tensors(&d, &heads, &cache, NULL, true, false, t), 4);
    assert_true(t[0].needed);
    assert_false(t[1].needed || t[2].needed || t[3].needed);
    d = (struct attn_cache_desc){.dtype = ATTN_FP8, .scale = ATTN_KV_SCALE_TENSOR};
    attn_cache_tensors(&d, &heads, &cache, NULL, true, false, t);
    assert_true(t[0].needed && t[1].needed && t[2].needed && t[3].needed);
    attn_cache_tensors(&d, &heads, &cache, NULL, false, false, t);
    assert_false(t[0].needed || t[1].needed || t[2].needed || t[3].needed);
}

TEST(arguments_of_cache_write_are_checked)
{
    assert_int_equal(normalise_write(write_desc()), ATTN_OK);
    struct attn_cache_write_args a = write_args();
    assert_int_equal(fill_write(a), ATTN_OK);
    assert_false(call.empty);
    assert_int_equal(call.values[ATTN_ARG_K_IN_TOKEN_STRIDE].i64, 256);
    a.tokens = -1;
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "tokens is negative");
    a = write_args();
    a.slot_mapping = at(4);
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "slot_mapping");
    a = write_args();
    a.k_in = at(8);
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "aligned to 16 bytes");
    a = write_args();
    a.v_in_head_stride = 132;
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "multiple of 8 elements");
    a = write_args();
    a.k_in_token_stride = INT64_C(1) << 22;
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "above");
    a = write_args();
    a.cache.v_scale = NULL;
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "v_scale is NULL");
    a = (struct attn_cache_write_args){.size = sizeof(a)};
    assert_int_equal(fill_write(a), ATTN_OK);
    assert_true(call.empty);
}

TEST(arguments_of_cache_gather_are_checked)
{
    const struct attn_cache_gather_desc d = {
        .size = sizeof(d),
        .dtype = ATTN_FP16,
        .head_dim = 64,
        .kv_heads = 1,
        .cache = {.page_size = 16},
    };
    assert_int_equal(attn_family_cache_gather.normalise(&d, &desc), ATTN_OK);
    struct attn_cache_gather_args a = {
        .size = sizeof(a),
        .stream = FAKE_STREAM,
        .k_out = at(4096),
        .v_out = at(8192),
        .cache = {.k = at(16), .v = at(32)},
        .cu_seqlens_k = at(4),
        .batch = 1,
        .total_k = 9,
        .max_seqlen_k = 9,
        .pages = {.block_table = at(8), .entries = 1},
    };
    assert_int_equal(attn_family_cache_gather.fill(&desc, &a, &call), ATTN_OK);
    /* Workgroups begin at multiples of 8 tokens, so 7 tokens may be before the first. */
    assert_int_equal(call.values[ATTN_ARG_MAX_SEQLEN_K].i64, 9 + 7);
    a.pages.block_table = NULL;
    refused(attn_family_cache_gather.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT,
            "block_table is NULL");
    a.cu_seqlens_k = NULL;
    refused(attn_family_cache_gather.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT,
            "cu_seqlens_k is NULL");
    a.batch = -1;
    refused(attn_family_cache_gather.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT,
            "batch is not 0 to 134217728");
}

static struct attn_cache_copy_args copy_args(void)
{
    return (struct attn_cache_copy_args){
        .size = sizeof(struct attn_cache_copy_args),
        .stream = FAKE_STREAM,
        .to = {.k = at(16), .v = at(32)},
        .page_pairs = at(64),
        .pairs = 2,
    };
}

TEST(a_page_is_copied_in_the_fewest_parts)
{
    const struct attn_cache_copy_desc d = {
        .size = sizeof(d),
        .head_dim = 64,
        .kv_heads = 4,
        .cache = {.dtype = ATTN_BF16, .page_size = 16},
    };
    assert_int_equal(attn_family_cache_copy.normalise(&d, &desc), ATTN_OK);
    struct attn_cache_copy_args a = copy_args();
    assert_int_equal(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_COPY_PARTS].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_K_RUN_BYTES].i64, 16 * 4 * 64 * 2);
    a.to.k_token_stride = a.to.v_token_stride = 4 * 64 + 8; /* a gap after each token */
    assert_int_equal(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_COPY_PARTS].i64, 16);
    assert_int_equal(call.values[ATTN_ARG_K_RUN_BYTES].i64, 4 * 64 * 2);
    a.from = (struct attn_cache){.k = at(16), .v = at(32)};
    refused(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT, "differ in a stride");
    a = copy_args();
    a.page_pairs = at(8);
    refused(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT, "page_pairs");
    a.pairs = -1;
    refused(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT, "pairs is negative");
}

/* Strides of 0 share scales. A kernel that begins at a later sequence has its scales. */
TEST(scales_of_heads_have_the_strides_that_are_given)
{
    struct attn_cache_write_desc d = write_desc();
    d.cache.scale = ATTN_KV_SCALE_HEAD;
    assert_int_equal(normalise_write(d), ATTN_OK);
    struct attn_cache_write_args a = write_args();
    assert_int_equal(fill_write(a), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_SCALE_HEAD_STRIDE].i64, 0);
    assert_int_equal(call.values[ATTN_ARG_SCALE_PAGE_STRIDE].i64, 0);
    a.cache.scale_head_stride = 3;
    a.cache.scale_page_stride = 24;
    assert_int_equal(fill_write(a), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_SCALE_HEAD_STRIDE].i64, 3);
    attn_cache_skip(&desc.cache_write.cache, 5, call.values);
    assert_ptr_equal(call.values[ATTN_ARG_K_SCALE].ptr, at(4 + 5 * 24 * 4));
    assert_ptr_equal(call.values[ATTN_ARG_V_SCALE].ptr, at(8 + 5 * 24 * 4));
    desc.cache_write.cache.scale = ATTN_KV_SCALE_TOKEN;
    attn_cache_skip(&desc.cache_write.cache, 5, call.values);
    assert_ptr_equal(call.values[ATTN_ARG_K_SCALE].ptr, at(4 + 5 * 24 * 4));
    a.cache.v_scale = NULL;
    refused(fill_write(a), ATTN_BAD_ARGUMENT, "v_scale is NULL");
}

TEST(a_copy_asks_for_the_scales_of_tokens_and_blocks_alone)
{
    static const enum attn_kv_scale scales[] = {ATTN_KV_SCALE_TENSOR, ATTN_KV_SCALE_TOKEN,
                                                ATTN_KV_SCALE_BLOCK, ATTN_KV_SCALE_HEAD};
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
        const enum attn_kv_scale scale = scales[i];
        const struct attn_cache_copy_desc d = {
            .size = sizeof(d),
            .head_dim = 64,
            .kv_heads = 4,
            .cache = {.dtype = ATTN_INT8, .scale = scale, .page_size = 16},
        };
        assert_int_equal(attn_family_cache_copy.normalise(&d, &desc), ATTN_OK);
        struct attn_cache_copy_args a = copy_args();
        if (scale == ATTN_KV_SCALE_TENSOR || scale == ATTN_KV_SCALE_HEAD)
            assert_int_equal(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_OK);
        else
            refused(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_BAD_ARGUMENT,
                    "k_scale or v_scale is NULL");
    }
}

/* Packed rows are keys and values and are copied once. */
TEST(packed_rows_are_copied_whole)
{
    static const int dims[][2] = {{512, 64}, {576, 512}};
    for (int i = 0; i < 2; i++) {
        const struct attn_cache_copy_desc d = {
            .size = sizeof(d),
            .head_dim = dims[i][0],
            .head_dim_v = dims[i][1],
            .kv_heads = 1,
            .cache = {.dtype = ATTN_FP8, .layout = ATTN_KV_PACKED, .page_size = 16},
        };
        assert_int_equal(attn_family_cache_copy.normalise(&d, &desc), ATTN_OK);
        struct attn_cache_copy_args a = copy_args();
        a.to.v = NULL;
        assert_int_equal(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_OK);
        assert_int_equal(call.values[ATTN_ARG_COPY_PARTS].i64, 1);
        assert_int_equal(call.values[ATTN_ARG_K_RUN_BYTES].i64, 16 * 656);
        assert_int_equal(call.values[ATTN_ARG_V_RUN_BYTES].i64, 0);
        a.to.k_token_stride = 672;
        assert_int_equal(attn_family_cache_copy.fill(&desc, &a, &call), ATTN_OK);
        assert_int_equal(call.values[ATTN_ARG_COPY_PARTS].i64, 16);
        assert_int_equal(call.values[ATTN_ARG_K_RUN_BYTES].i64, 656);
        assert_int_equal(call.values[ATTN_ARG_V_RUN_BYTES].i64, 0);
    }
}

TEST(a_workgroup_looks_for_runs_in_few_tokens)
{
    static const struct {
        int page_size, tokens, each;
    } shares[] = {
        {16, 1, 1},        {16, 2047, 1},   {16, 4096, 4}, {16, 5000, 4},
        {16, 1 << 20, 16}, {128, 4096, 16}, {1024, 64, 1}, {1024, 1 << 20, 128},
    };
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        struct attn_cache_write_desc d = write_desc();
        d.cache.page_size = shares[i].page_size;
        assert_int_equal(normalise_write(d), ATTN_OK);
        struct attn_cache_write_args a = write_args();
        a.tokens = shares[i].tokens;
        assert_int_equal(fill_write(a), ATTN_OK);
        const int64_t each = call.values[ATTN_ARG_RUN_TOKENS].i64;
        assert_int_equal(each, shares[i].each);
        assert_int_equal(call.values[ATTN_ARG_TOKEN_RUNS].i64, (a.tokens + each - 1) / each);
    }
}

/* The fake's device memory is host memory. */
TEST(slots_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    struct attn_cache_write_desc d = write_desc();
    d.cache.scale = ATTN_KV_SCALE_BLOCK;
    const struct attn_op block = {.device = b.device, .desc.cache_write = d};
    const struct attn_op token = {.device = b.device, .desc.cache_write = write_desc()};
    /* The end of page 1, the beginning of page 2, page 4, two unused slots, page 3. */
    int64_t slots[] = {30, 31, 32, 33, 64, 65, -1, INT64_MIN, 50};
    struct attn_cache_write_args a = write_args();
    a.slot_mapping = slots;
    a.tokens = 9;
    a.cache.page_count = 5;
    assert_int_equal(attn_family_cache_write.check_data(&block, &a), ATTN_OK);
    slots[8] = 80;
    assert_int_equal(attn_family_cache_write.check_data(&block, &a), ATTN_BAD_DATA);
    says("slot_mapping[8] is 80, the cache has 80 slots");

    static const int64_t wrong[] = {66, 67, 34, 16};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[80];
        slots[8] = wrong[i];
        assert_int_equal(attn_family_cache_write.check_data(&token, &a), ATTN_OK);
        assert_int_equal(attn_family_cache_write.check_data(&block, &a), ATTN_BAD_DATA);
        snprintf(text, sizeof(text), "[8] is %d: the tokens that a call has for page %d",
                 (int)wrong[i], (int)wrong[i] / 16);
        says(text);
    }
    close_bench(&b);
}

/* Waves share the heads of a token and its key, which counts as 8 heads. A call that writes only
 * keys has no waves for heads. */
TEST(a_wave_has_the_key_of_the_indexer)
{
    static const _Alignas(16) char memory[16];
    void *const m = (void *)(uintptr_t)memory;
    const union attn_desc desc = {.indexer_rope_cache = {.size = sizeof(desc.indexer_rope_cache),
                                                         .dtype = ATTN_BF16,
                                                         .heads = 12,
                                                         .rope = ATTN_ROPE_NEOX}};
    struct attn_indexer_rope_cache_args a = {
        .size = sizeof(a),
        .k = m,
        .k_weight = m,
        .slot_mapping = m,
        .positions = m,
        .cos_sin = m,
        .keys = m,
        .tokens = 1,
        .page_stride = 144,
    };
    struct attn_call call;
    assert_int_equal(attn_family_indexer_rope_cache.fill(&desc, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_HEAD_ROWS].i64, 8);
    a.q = a.weights = m;
    a.q_out = m;
    a.weights_out = m;
    assert_int_equal(attn_family_indexer_rope_cache.fill(&desc, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_HEAD_ROWS].i64, 20);
}

/* The indexer's cache is no cache of K and V; its number of pages is an argument of its own. */
TEST(slots_of_the_indexer_are_checked_too)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_op op = {.device = b.device};
    int64_t slots[] = {0, -1, INT64_MIN, 2 * 48}, positions[] = {0, 0, 0, 0};
    struct attn_indexer_rope_cache_args a = {
        .size = sizeof(a),
        .stream = FAKE_STREAM,
        .slot_mapping = slots,
        .positions = positions,
        .tokens = 4,
        .page_size = 48,
        .page_count = 2,
    };
    assert_int_equal(attn_family_indexer_rope_cache.check_data(&op, &a), ATTN_BAD_DATA);
    says("slot_mapping[3] is 96, the cache has 96 slots");
    slots[3] = 95;
    assert_int_equal(attn_family_indexer_rope_cache.check_data(&op, &a), ATTN_OK);
    slots[3] = INT64_MAX;
    a.page_count = 0; /* not given */
    assert_int_equal(attn_family_indexer_rope_cache.check_data(&op, &a), ATTN_OK);
    slots[3] = 2;
    a.page_size = 0; /* 1 */
    a.page_count = 2;
    assert_int_equal(attn_family_indexer_rope_cache.check_data(&op, &a), ATTN_BAD_DATA);
    close_bench(&b);
}

static void positions_are(const struct attn_op *op, const struct attn_rope_qk_norm_cache_args *a,
                          const char *wrong)
{
    const int r = attn_family_rope_qk_norm_cache.check_data(op, a);
    assert_int_equal(r, wrong ? ATTN_BAD_DATA : ATTN_OK);
    if (wrong)
        says(wrong);
}

/* The table of angles has rows 0 to max_position - 1. Three streams are 5 elements apart; the
 * elements in between are no positions. */
TEST(positions_have_rows_of_the_table)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    struct attn_op op = {.device = b.device};
    op.desc.rope_qk_norm_cache.rope = ATTN_ROPE_NEOX;
    int64_t positions[] = {7, 0, 7, 7, -9, 7, 1, 7, 7, 8, 0, 7, 7, 7};
    struct attn_rope_qk_norm_cache_args a = {.size = sizeof(a),
                                             .stream = FAKE_STREAM,
                                             .positions = positions,
                                             .tokens = 4,
                                             .max_position = 8};
    positions_are(&op, &a, NULL);
    positions[0] = 8;
    positions_are(&op, &a, "positions[0] is 8, not 0 to 7");
    a.max_position = 0; /* not given */
    positions_are(&op, &a, NULL);
    a.max_position = 8;
    positions[0] = -1;
    positions_are(&op, &a, "positions[0] is -1");
    positions[0] = 0;
    positions[3] = 8;
    positions_are(&op, &a, "positions[3] is 8");
    positions[3] = 7;
    op.desc.rope_qk_norm_cache.mrope = ATTN_MROPE_SECTIONS;
    a.positions_stride = 5;
    positions_are(&op, &a, NULL);
    positions[13] = 8;
    positions_are(&op, &a, "positions[3] is 8");
    op.desc.rope_qk_norm_cache.mrope = ATTN_MROPE_NONE;
    positions_are(&op, &a, NULL);
    positions[0] = 8;
    op.desc.rope_qk_norm_cache.rope = ATTN_ROPE_NONE; /* no table */
    positions_are(&op, &a, NULL);
    close_bench(&b);
}

/* kv_indptr is only read for kv_indices: other kinds write it or have none. */
TEST(starts_of_index_arrays_are_checked)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    struct attn_op op = {.device = b.device};
    int32_t indptr[] = {0, 5, 9};
    const struct attn_metadata_args a = {
        .size = sizeof(a), .stream = FAKE_STREAM, .kv_indptr = indptr, .batch = 2, .entries = 10};
    op.desc.metadata.kind = ATTN_METADATA_KV_INDICES;
    assert_int_equal(attn_family_metadata.check_data(&op, &a), ATTN_OK);
    indptr[2] = 4;
    assert_int_equal(attn_family_metadata.check_data(&op, &a), ATTN_BAD_DATA);
    says("kv_indptr");
    op.desc.metadata.kind = ATTN_METADATA_PAGE_TABLE;
    assert_int_equal(attn_family_metadata.check_data(&op, &a), ATTN_OK);
    close_bench(&b);
}

/* Work lists of a call with 2 sequences of one query and one head. */
struct lists {
    const int32_t *indptr, *info;
    int32_t partial_rows; /* 0: not given */
};

#define LISTS(l) \
    .stream = FAKE_STREAM, .work_indptr = (l)->indptr, .work_info = (l)->info, .work_lists = 2
#define SEQUENCES(l) LISTS(l), .partial_rows = (l)->partial_rows, .batch = 2, .tokens = 2
#define PAGED .pages = {.entries = 4} /* of 16 keys */

static int check_decode(struct attn_op *op, const struct lists *l)
{
    const struct attn_decode_args a = {SEQUENCES(l), PAGED};
    op->desc.decode = (struct attn_decode_desc){.heads = 1, .q_len = 1, .cache = {.page_size = 16}};
    return attn_decode_check_work(op, &a);
}

static int check_mla_decode(struct attn_op *op, const struct lists *l)
{
    const struct attn_mla_decode_args a = {SEQUENCES(l), PAGED};
    op->desc.mla_decode =
        (struct attn_mla_decode_desc){.heads = 1, .q_len = 1, .cache = {.page_size = 16}};
    return attn_mla_decode_check_work(op, &a);
}

static int check_prefill(struct attn_op *op, const struct lists *l)
{
    const struct attn_prefill_args a = {SEQUENCES(l), PAGED, .q_tile = 1, .max_seqlen_q = 2};
    op->desc.prefill =
        (struct attn_prefill_desc){.heads = 1, .planned = true, .cache = {.page_size = 16}};
    return attn_prefill_check_work(op, &a);
}

static int check_indexer_topk(struct attn_op *op, const struct lists *l)
{
    const struct attn_indexer_topk_args a = {LISTS(l), .rows = 2, .partials = l->partial_rows};
    op->desc.indexer_topk = (struct attn_indexer_topk_desc){.planned = true};
    return attn_indexer_topk_check_work(op, &a);
}

/* Every op refuses each wrong word of an item. The indexer does not know the number of keys. */
TEST(items_of_work_lists_are_checked)
{
    static int (*const checks[])(struct attn_op *, const struct lists *) = {
        check_indexer_topk, check_decode, check_mla_decode, check_prefill};
    static const int32_t good[3][8] = {
        {0, 4, 0, 1, 0, 32, 8, 1 << 16},
        {0, 5, 0, 1, 32, 40, 0, 1 << 16},
        {1, -1, 1, 2, 0, 16, 0, 1 << 16},
    };
    static const struct {
        int item, word;
        int32_t value;
        const char *text;
    } wrong[] = {
        {0, 0, 2, "work_info[0][0] is 2, sequences are 2"},
        {1, 0, -1, "work_info[1][0] is -1"},
        {1, 1, 6, "work_info[1][1] is 6, partial rows are 6"},
        {1, 1, -2, "work_info[1][1] is -2"},
        {2, 2, 3, "work_info[2][3] is 2, queries"},
        {2, 3, 3, "work_info[2][3] is 3, queries"},
        {0, 3, 2, "a sequence's queries are at most 1"},
        {0, 4, 33, "work_info[0][5] is 32, keys begin at 0, end in order"},
        {2, 7, 2 << 16, "head ranges are not empty and end by 1"},
        {2, 7, 1 | 1 << 16, "head ranges"},
        {1, 5, 65, "work_info[1][5] is 65, keys"},
        {1, 6, 25, "work_info[1][6] is 25, and keys after"},
    };
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    struct attn_op op = {.device = b.device};
    for (size_t c = 0; c < sizeof(checks) / sizeof(checks[0]); c++) {
        int32_t indptr[] = {0, 1, 3};
        _Alignas(16) int32_t info[3][8];
        const struct lists l = {indptr, info[0], 6}, no_rows = {indptr, info[0], 0};
        memcpy(info, good, sizeof(info));
        assert_int_equal(checks[c](&op, &l), ATTN_OK);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]) - (c ? 0 : 2); i++) {
            memcpy(info, good, sizeof(info));
            info[wrong[i].item][wrong[i].word] = wrong[i].value;
            refused(checks[c](&op, &l), ATTN_BAD_DATA, wrong[i].text);
        }
        memcpy(info, good, sizeof(info));
        info[1][1] = 6;
        assert_int_equal(checks[c](&op, &no_rows), ATTN_OK);
        indptr[1] = 4;
        refused(checks[c](&op, &l), ATTN_BAD_DATA, "work_indptr[2] is 3, below work_indptr[1]");
    }
    close_bench(&b);
}

/* Ops that are not planned do not read the lists. */
TEST(only_planned_calls_have_work_lists)
{
    static const int32_t falls[] = {0, 2, 1};
    const struct attn_prefill_args prefill = {.work_indptr = falls, .work_lists = 2};
    const struct attn_indexer_topk_args indexer = {.work_indptr = falls, .work_lists = 2};
    const struct attn_op op = {0};
    assert_int_equal(attn_prefill_check_work(&op, &prefill), ATTN_OK);
    assert_int_equal(attn_indexer_topk_check_work(&op, &indexer), ATTN_OK);
}

/* The dimensions after the number of pages cover a page, and each stride that a caller may choose
 * has a member of its own. */
TEST(tensors_of_every_layout_have_the_elements_of_a_page)
{
    enum { TOKENS = 48, HEADS = 2, DIM = 128 };
    static const enum attn_kv_layout layouts[] = {ATTN_KV_NHD, ATTN_KV_SHUFFLE, ATTN_KV_SHUFFLE_K,
                                                  ATTN_KV_SCALES_LAST};
    const struct attn_cache_heads heads = {.kv_heads = HEADS, .head_dim = DIM, .head_dim_v = DIM};
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        const struct attn_cache_desc d = {
            .dtype = ATTN_FP8, .layout = layouts[l], .page_size = TOKENS};
        struct attn_cache c = {.page_count = 3};
        struct attn_tensor t[4];
        assert_int_equal(attn_cache_tensors(&d, &heads, &c, NULL, true, false, t), 4);
        for (int value = 0; value < 2 && t[value].needed; value++) {
            int64_t elements = 1;
            for (int i = 1; i < t[value].ndim; i++)
                elements *= t[value].dims[i].more;
            assert_int_equal(elements, layouts[l] == ATTN_KV_SCALES_LAST ? attn_mixed_page(TOKENS)
                                                                         : TOKENS * HEADS * DIM);
            assert_ptr_equal(t[value].dims[0].count, &c.page_count);
            assert_in_range(t[value].free, 1, t[value].ndim - 1);
            for (int i = 0; i < t[value].free; i++) {
                assert_non_null(t[value].strides[i]);
                for (int j = 0; j < i; j++)
                    assert_ptr_not_equal(t[value].strides[j], t[value].strides[i]);
            }
        }
        assert_true(t[0].needed && t[1].needed == (layouts[l] != ATTN_KV_SCALES_LAST));
    }
}

int main(void) { return run_unit_tests(); }
