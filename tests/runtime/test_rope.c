/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libattn's messages for wrong rope_qk_norm_cache calls, and the values of correct ones. Only
 * the family's functions run, no kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/family.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static _Alignas(16) char memory[64];

static struct attn_rope_qk_norm_cache_desc rope_desc(void)
{
    return (struct attn_rope_qk_norm_cache_desc){
        .size = sizeof(struct attn_rope_qk_norm_cache_desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .heads = 8,
        .kv_heads = 2,
        .rope = ATTN_ROPE_NEOX,
        .norm = ATTN_NORM_RMS,
        .cache = {.page_size = 16},
    };
}

static struct attn_rope_qk_norm_cache_args rope_args(void)
{
    void *m = memory;
    return (struct attn_rope_qk_norm_cache_args){
        .size = sizeof(struct attn_rope_qk_norm_cache_args),
        .q = m,
        .k = m,
        .v = m,
        .q_out = m,
        .gate = m,
        .cache = {.k = m, .v = m},
        .slot_mapping = m,
        .positions = m,
        .cos_sin = m,
        .q_weight = m,
        .k_weight = m,
        .q_bias = m,
        .k_bias = m,
        .v_bias = m,
        .q_squares = m,
        .k_squares = m,
        .q_count = 1024,
        .k_count = 256,
        .tokens = 5,
        .eps = 1e-6f,
    };
}

static void refuses(const struct attn_rope_qk_norm_cache_desc *d, const char *text)
{
    union attn_desc desc;
    refused(attn_family_rope_qk_norm_cache.normalise(d, &desc), ATTN_BAD_ARGUMENT, text);
}

static int fill(const struct attn_rope_qk_norm_cache_desc *d,
                const struct attn_rope_qk_norm_cache_args *a, struct attn_call *call)
{
    union attn_desc desc;
    assert_int_equal(attn_family_rope_qk_norm_cache.normalise(d, &desc), ATTN_OK);
    return attn_family_rope_qk_norm_cache.fill(&desc, a, call);
}

static void fails(const struct attn_rope_qk_norm_cache_desc *d,
                  const struct attn_rope_qk_norm_cache_args *a, const char *text)
{
    struct attn_call call;
    refused(fill(d, a, &call), ATTN_BAD_ARGUMENT, text);
}

/* Sets one field of a valid descriptor or of valid arguments to a wrong value. */
#define DESC(text, ...)                                      \
    do {                                                     \
        struct attn_rope_qk_norm_cache_desc d = rope_desc(); \
        __VA_ARGS__;                                         \
        refuses(&d, text);                                   \
    } while (0)
#define ARGS(text, ...)                                      \
    do {                                                     \
        struct attn_rope_qk_norm_cache_desc d = rope_desc(); \
        struct attn_rope_qk_norm_cache_args a = rope_args(); \
        __VA_ARGS__;                                         \
        fails(&d, &a, text);                                 \
    } while (0)

TEST(descriptors_out_of_range_are_refused)
{
    DESC("neither ATTN_BF16 nor ATTN_FP16", d.dtype = ATTN_FP8);
    DESC("q_out_dtype 4 is neither dtype nor ATTN_FP8", d.q_out_dtype = ATTN_INT8);
    DESC("rope 3 is none of enum attn_rope", d.rope = 3);
    DESC("mrope 3 is none of enum attn_mrope", d.mrope = 3);
    DESC("desc.rope is ATTN_ROPE_NONE", d.rope = ATTN_ROPE_NONE; d.mrope = ATTN_MROPE_SECTIONS);
    DESC("norm 4 is none of enum attn_norm", d.norm = 4);
    DESC("head_dim 0", d.head_dim = 0);
    DESC("rotary_dim 130 is odd or above head_dim 128", d.rotary_dim = 130);
    DESC("rotary_dim 7 is odd", d.rotary_dim = 7);
    DESC("kv_heads 0 is not 1 to 65535", d.kv_heads = 0);
    DESC("page_size 36", d.cache.page_size = 36; d.cache.layout = ATTN_KV_SHUFFLE);
    DESC("page_size 4", d.cache.page_size = 4; d.cache.layout = ATTN_KV_SHUFFLE);
}

TEST(arguments_that_are_missing_are_named)
{
    ARGS("tokens is negative", a.tokens = -1);
    ARGS("k is NULL", a.k = NULL);
    ARGS("slot_mapping is set, v is NULL", a.v = NULL);
    ARGS("gate is NULL", d.gate = true; a.gate = NULL);
    ARGS("v_bias is NULL", d.bias = true; a.v_bias = NULL);
    ARGS("positions is NULL", a.positions = NULL);
    ARGS("cos_sin is not aligned to 16 bytes", a.cos_sin = memory + 4);
    ARGS("k_weight is NULL", a.k_weight = NULL);
    ARGS("eps is below 0", a.eps = -1);
    ARGS("k_squares is NULL", d.norm = ATTN_NORM_FULL; a.k_squares = NULL);
    ARGS("q_count or k_count is not positive", d.norm = ATTN_NORM_FULL; a.q_count = 0);
    ARGS("q_out_scale is NULL", d.q_out_dtype = ATTN_FP8);
    ARGS("k_scale or v_scale is NULL", d.cache.dtype = ATTN_FP8;
         d.cache.scale = ATTN_KV_SCALE_TENSOR);
    ARGS("do not add up to rotary_dim / 2", d.mrope = ATTN_MROPE_SECTIONS; a.sections[0] = 63);
    ARGS("positions_stride is below tokens", d.mrope = ATTN_MROPE_SECTIONS; a.sections[0] = 64;
         a.positions_stride = 4);
}

TEST(tensors_are_aligned_and_heads_do_not_overlap)
{
    ARGS("q is not aligned to 16 bytes", a.q = memory + 8);
    ARGS("not a multiple of 8 elements", a.k_token_stride = 1028);
    ARGS("q_out_token_stride or q_out_head_stride is below a row", a.q_out_head_stride = 64);
    ARGS("v_token_stride or v_head_stride is negative, above",
         a.v_head_stride = (INT64_C(1) << 29) + 8);
}

TEST(strides_follow_from_the_shape)
{
    struct attn_rope_qk_norm_cache_desc d = rope_desc();
    struct attn_rope_qk_norm_cache_args a = rope_args();
    struct attn_call call;
    d.gate = true;
    assert_int_equal(fill(&d, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_Q_HEAD_STRIDE].i64, 256);
    assert_int_equal(call.values[ATTN_ARG_Q_TOKEN_STRIDE].i64, 2048);
    assert_int_equal(call.values[ATTN_ARG_OUT_HEAD_STRIDE].i64, 128);
    assert_int_equal(call.values[ATTN_ARG_OUT_TOKEN_STRIDE].i64, 1024);
    a.q_out = NULL; /* in place */
    assert_int_equal(fill(&d, &a, &call), ATTN_OK);
    assert_ptr_equal(call.values[ATTN_ARG_OUT].ptr, a.q);
    assert_int_equal(call.values[ATTN_ARG_OUT_HEAD_STRIDE].i64, 256);
    d.kv_heads = 1; /* with one head the head stride is ignored */
    a.k_head_stride = 3;
    assert_int_equal(fill(&d, &a, &call), ATTN_OK);
    assert_int_equal(call.values[ATTN_ARG_K_IN_HEAD_STRIDE].i64, 128);
}

TEST(without_slots_there_is_no_cache)
{
    const struct attn_rope_qk_norm_cache_desc d = rope_desc();
    struct attn_rope_qk_norm_cache_args a = rope_args();
    struct attn_call call;
    a.slot_mapping = NULL;
    a.cache = (struct attn_cache){.k = NULL};
    a.v = NULL;
    assert_int_equal(fill(&d, &a, &call), ATTN_OK);
    assert_null(call.values[ATTN_ARG_SLOT_MAPPING].ptr);
    assert_null(call.values[ATTN_ARG_K].ptr);
    assert_false(call.empty);
    a.tokens = 0;
    assert_int_equal(fill(&d, &a, &call), ATTN_OK);
    assert_true(call.empty);
}

TEST(waves_follow_the_tokens)
{
    static const struct {
        int32_t heads, tokens;
        bool bias;
        int64_t run, runs, shift;
    } counts[] = {
        {8, 1, false, 1, 1, 0},
        {32, 1, false, 1, 1, 2},
        {64, 300, false, 2, 150, 2},
        {64, 300, true, 4, 75, 1},
        {32, 4096, false, 16, 256, 0},
        {32, 4096, true, 32, 128, 0},
        {32, 4097, false, 17, 241, 0},
        {32, 131072, true, 512, 256, 0},
        {32, INT32_MAX, false, 8388608, 256, 0},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        static const uint16_t bias[8] __attribute__((aligned(16)));
        struct attn_rope_qk_norm_cache_desc d = rope_desc();
        struct attn_rope_qk_norm_cache_args a = rope_args();
        struct attn_call call;
        d.heads = counts[i].heads;
        d.bias = counts[i].bias;
        a.q_bias = a.k_bias = a.v_bias = bias;
        a.tokens = counts[i].tokens;
        assert_int_equal(fill(&d, &a, &call), ATTN_OK);
        assert_int_equal(call.values[ATTN_ARG_RUN_TOKENS].i64, counts[i].run);
        assert_int_equal(call.values[ATTN_ARG_TOKEN_RUNS].i64, counts[i].runs);
        assert_int_equal(call.values[ATTN_ARG_HEAD_PART_SHIFT].i64, counts[i].shift);
    }
}

int main(void) { return run_unit_tests(); }
