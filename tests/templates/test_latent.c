/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the ops around latent attention on every target. The variants of models compile into
 * registers that leave room for as many waves as the template assumes. A variant that cannot be
 * built is refused with the reason. Results are tested by `attnc verify`.
 */
#include <string.h>

#include "targets/tgt.h"
#include "tests/templates/kernel.h"

extern const struct att_template att_template_mla_decode, att_template_mla_rope_cache,
    att_template_head_product, att_template_qk_rmsnorm, att_template_rope_heads,
    att_template_rope_qk_norm_cache;

enum { COUNT = 12 }; /* settings of a case */

#define LATENT {ATT_HEAD_DIM, 576}, {ATT_HEAD_DIM_V, 512}
#define POOLED                                                                    \
    {ATT_HEAD_DIM, 512}, {ATT_HEAD_DIM_V, 448}, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, \
    {                                                                             \
        ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED_FP4                                   \
    }
#define FP8_CACHE \
    {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, { ATT_KV_SCALE, ATT_KV_SCALE_TENSOR }

#define PACKED \
    {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, { ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED }

/* An op and its settings as a model has them. An all-zero setting ends the list. `registers` is
 * the most registers of a lane. */
static const struct model {
    const struct att_template *op;
    unsigned registers;
    struct setting settings[COUNT];
} models[] = {
    {&att_template_mla_rope_cache,
     64,
     {LATENT, {ATT_ROPE, ATT_ROPE_GPTJ}, {ATT_NORM, ATT_NORM_RMS}, {ATT_KEEP_KV, 1}}},
    {&att_template_mla_rope_cache,
     64,
     {LATENT, FP8_CACHE, {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}, {ATT_NORM, ATT_NORM_RMS}}},
    {&att_template_mla_rope_cache,
     64,
     {LATENT,
      FP8_CACHE,
      {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8},
      {ATT_ROPE, ATT_ROPE_GPTJ},
      {ATT_COS_SIN, ATT_COS_SIN_SAME},
      {ATT_DTYPE, ATT_DTYPE_FP16},
      {ATT_KEEP_KV, 1},
      {ATT_NORM, ATT_NORM_RMS}}},
    {&att_template_mla_rope_cache, 64, {LATENT, {ATT_ROPE, ATT_ROPE_NONE}}}, /* Kimi-K3 */
    {&att_template_mla_rope_cache, 64, {LATENT, PACKED, {ATT_NORM, ATT_NORM_RMS}}},
    {&att_template_mla_rope_cache, 64, {{ATT_HEAD_DIM, 320}, {ATT_HEAD_DIM_V, 256}}},
    {&att_template_mla_rope_cache,
     64,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 448},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SCALES_LAST}}},
    {&att_template_mla_rope_cache,
     64,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 448},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PLANES}}},
    {&att_template_mla_rope_cache, 64, {{ATT_HEAD_DIM, 512}, {ATT_ROPE, ATT_ROPE_NONE}}},
    {&att_template_head_product, 128, {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 512}}},
    {&att_template_head_product, 256, {{ATT_HEAD_DIM, 512}, {ATT_HEAD_DIM_V, 256}}}, /* GLM-5 */
    {&att_template_head_product,
     128,
     {{ATT_HEAD_DIM, 192}, {ATT_HEAD_DIM_V, 512}, {ATT_WEIGHTS, ATT_WEIGHTS_FP8}}},
    {&att_template_head_product,
     256,
     {{ATT_HEAD_DIM, 256}, {ATT_HEAD_DIM_V, 512}, {ATT_WEIGHTS, ATT_WEIGHTS_FP8}}},
    {&att_template_head_product,
     256,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 128},
      {ATT_DTYPE, ATT_DTYPE_FP16},
      {ATT_WEIGHTS, ATT_WEIGHTS_FP8_BLOCK}}},
    {&att_template_qk_rmsnorm, 64, {{ATT_WIDTH, 1536}, {ATT_WIDTH_KV, 512}}},
    {&att_template_qk_rmsnorm,
     64,
     {{ATT_WIDTH, 2048}, {ATT_WIDTH_KV, 512}, {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}}},
    {&att_template_qk_rmsnorm,
     128,
     {{ATT_WIDTH, 4096}, {ATT_WIDTH_KV, 4096}, {ATT_OUT_DTYPE, ATT_OUT_DTYPE_FP8}, {ATT_GEMMA, 1}}},
};

TEST(models_fit_their_registers)
{
    FOR_LARGE_WAVES(t)
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        const struct att_variant v =
            variant_of(models[i].op, tgt_all[t]->machine.name, models[i].settings);
        compile_kernel(&v, models[i].registers);
    }
}

static const struct wrong {
    const struct att_template *op;
    struct setting settings[COUNT];
    enum att_field field;
    const char *text;
} wrong[] = {
    {&att_template_mla_rope_cache,
     {{ATT_HEAD_DIM, 192}, {ATT_HEAD_DIM_V, 128}},
     ATT_HEAD_DIM_V,
     "head_dim_v 128, the latent's width, is not 256 or 512"},
    {&att_template_mla_rope_cache,
     {{ATT_HEAD_DIM, 640}, {ATT_HEAD_DIM_V, 512}},
     ATT_HEAD_DIM,
     "head_dim 640 is neither head_dim_v 512 nor 64 more"},
    {&att_template_mla_rope_cache, {{ATT_HEAD_DIM, 512}}, ATT_ROPE, "nothing rotates"},
    {&att_template_mla_rope_cache, {LATENT, {ATT_NORM, ATT_NORM_FULL}}, ATT_NORM, "none or rms"},
    {&att_template_mla_rope_cache,
     {LATENT, {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SHUFFLE}},
     ATT_KV_LAYOUT,
     "a latent cache has kv_layout nhd, or one"},
    {&att_template_rope_heads,
     {{ATT_HEAD_DIM, 512}, {ATT_NORM, ATT_NORM_GEMMA_RMS}},
     ATT_NORM,
     "none or rms"},
    {&att_template_rope_heads,
     {{ATT_HEAD_DIM, 512}, {ATT_ACT, ATT_ACT_SILU_FIRST}},
     ATT_ACT,
     "gates pass through silu or sigmoid, after the norm"},
    {&att_template_rope_qk_norm_cache,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 64},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED}},
     ATT_KV_LAYOUT,
     "rows of kv_layout packed are not written by this op"},
    {&att_template_mla_rope_cache,
     {LATENT, {ATT_KV_DTYPE, ATT_KV_DTYPE_INT8}, {ATT_KV_SCALE, ATT_KV_SCALE_TENSOR}},
     ATT_KV_DTYPE,
     "int8"},
    {&att_template_mla_rope_cache,
     {LATENT, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_TOKEN}},
     ATT_KV_SCALE,
     "one scale, or those in its rows"},
    {&att_template_mla_rope_cache,
     {LATENT, {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8}, {ATT_KV_SCALE, ATT_KV_SCALE_E8M0}},
     ATT_KV_SCALE,
     "e8m0 is of kv_layout packed"},
    {&att_template_mla_rope_cache,
     {{ATT_HEAD_DIM, 448},
      {ATT_HEAD_DIM_V, 448},
      {ATT_ROPE, ATT_ROPE_NONE},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_SCALES_LAST}},
     ATT_KV_LAYOUT,
     "rows of kv_layout scales_last have head_dim 512"},
    {&att_template_mla_rope_cache,
     {{ATT_HEAD_DIM, 448},
      {ATT_HEAD_DIM_V, 448},
      {ATT_ROPE, ATT_ROPE_NONE},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED_MXFP8}},
     ATT_KV_LAYOUT,
     "rows of kv_layout packed_mxfp8 have head_dim 512"},
    {&att_template_mla_rope_cache,
     {POOLED, {ATT_NORM, ATT_NORM_RMS}},
     ATT_NORM,
     "rows of kv_layout packed_fp4 need norm none"},
    {&att_template_mla_rope_cache,
     {POOLED, {ATT_PRODUCT_DIM, 64}},
     ATT_PRODUCT_DIM,
     "rows of kv_layout packed_fp4 are for queries without product_dim"},
    {&att_template_mla_decode,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 512},
      {ATT_SPARSE, ATT_SPARSE_SLOTS},
      {ATT_TWO_SOURCES, 1},
      {ATT_KV_DTYPE, ATT_KV_DTYPE_FP8},
      {ATT_KV_LAYOUT, ATT_KV_LAYOUT_PACKED_MXFP8},
      {ATT_SAME_ROWS, 1}},
     ATT_SAME_ROWS,
     "same_rows needs two_sources and a cache of rows of e2m1"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 576}, {ATT_HEAD_DIM_V, 512}},
     ATT_HEAD_DIM,
     "head_dim 576 is not a multiple of 64 of at most 512"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 512}, {ATT_ACTIVATIONS, ATT_ACTIVATIONS_FP8}},
     ATT_ACTIVATIONS,
     "activations fp8 are for weights of fp8"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 192}, {ATT_HEAD_DIM_V, 512}, {ATT_WEIGHTS, ATT_WEIGHTS_FP8_BLOCK}},
     ATT_HEAD_DIM,
     "head_dim 192 is not a multiple of 128"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 512},
      {ATT_HEAD_DIM_V, 128},
      {ATT_WEIGHTS, ATT_WEIGHTS_FP8},
      {ATT_ACTIVATIONS, ATT_ACTIVATIONS_FP8},
      {ATT_SHARED, 1}},
     ATT_SHARED,
     "shared is for activations of dtype"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 512}, {ATT_SHARED, 1}},
     ATT_HEAD_DIM,
     "head_dim 128, with shared, is not 256 or 512"},
    {&att_template_head_product,
     {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 160}},
     ATT_HEAD_DIM_V,
     "head_dim_v 160 is not a multiple of 64"},
    {&att_template_qk_rmsnorm,
     {{ATT_WIDTH, 1500}, {ATT_WIDTH_KV, 512}},
     ATT_WIDTH,
     "1500 is not a multiple of 128"},
    {&att_template_qk_rmsnorm,
     {{ATT_WIDTH, 1536}, {ATT_WIDTH_KV, 8192}},
     ATT_WIDTH_KV,
     "8192 is not a multiple of 128 of at most 4096"},
    {&att_template_qk_rmsnorm,
     {{ATT_WIDTH, 1536}, {ATT_WIDTH_KV, 512}, {ATT_ROW_SCALE, 1}},
     ATT_ROW_SCALE,
     "the rows of 16-bit numbers have no scale"},
};

TEST(what_cannot_be_built_says_why)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct att_variant v = variant_of(wrong[i].op, "gfx942", wrong[i].settings);
        expect_refused(&v, wrong[i].field, wrong[i].text);
    }
}

static bool is_in(const struct att_box *box, int64_t share, int64_t workgroups, int64_t tokens)
{
    bool all = box->count > 0;
    for (unsigned i = 0; i < box->count; i++) {
        const struct att_when *const w = &box->rows[i];
        const int64_t is = !strcmp(w->arg, "share_columns") ? share
                           : !strcmp(w->arg, "workgroups")  ? workgroups
                                                            : tokens;
        all = all && is >= w->min && is <= w->max;
    }
    return all;
}

/* Returns the number of the alternative kernel that a call selects by its ranges, or -1. */
static int chosen(const struct att_variant *v, int64_t share, int64_t workgroups, int64_t tokens)
{
    struct att_second second;
    int found = -1;
    for (unsigned n = 0; v->op->second(v, &tgt_find(v->target)->machine, n, &second); n++) {
        bool any = is_in(&second.calls, share, workgroups, tokens);
        for (unsigned i = 0; i < ATT_SECOND_ALSO; i++)
            any = any || is_in(&second.also[i], share, workgroups, tokens);
        assert_true(!any || found < 0);
        found = any ? (int)n : found;
    }
    return found;
}

/* With many heads, the kernel for two tiles of tokens streams w if a workgroup's part fits into
 * LDS. */
TEST(many_heads_stream)
{
    enum { SHARES, STREAMS };
    struct setting values[COUNT] = {{ATT_HEAD_DIM, 512}, {ATT_HEAD_DIM_V, 128}};
    const struct att_variant long_one = variant_of(&att_template_head_product, "gfx950", values);
    assert_int_equal(chosen(&long_one, 1, 512, 32), SHARES);
    assert_int_equal(chosen(&long_one, 1, 256, 33), STREAMS);
    assert_int_equal(chosen(&long_one, 1, 252, 33), SHARES);
    assert_int_equal(chosen(&long_one, 1, 512, 64), STREAMS);
    assert_int_equal(chosen(&long_one, 1, 512, 65), SHARES);
    struct setting keys[COUNT] = {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 512}};
    const struct att_variant short_one = variant_of(&att_template_head_product, "gfx950", keys);
    assert_int_equal(chosen(&short_one, 0, 512, 64), 0);
    assert_int_equal(chosen(&short_one, 0, 512, 65), -1);
    const struct att_variant other = variant_of(&att_template_head_product, "gfx942", keys);
    assert_int_equal(chosen(&other, 0, 304, 64), 0);
    assert_int_equal(chosen(&other, 0, 303, 64), -1);
    keys[0].value = 192;
    const struct att_variant large = variant_of(&att_template_head_product, "gfx942", keys);
    assert_int_equal(chosen(&large, 0, 512, 64), -1);
}

static bool is_trimmed(const struct att_variant *v)
{
    struct att_kernel k;
    v->op->build(v, &tgt_find(v->target)->machine, &k);
    const bool trimmed = k.func->trimmed;
    tir_func_destroy(k.func);
    return trimmed;
}

/* The streaming kernel takes the registers of waves for which LDS has no room. */
TEST(what_streams_takes_the_registers_that_it_uses)
{
    enum { STREAM = 5 };
    struct setting keys[COUNT] = {{ATT_HEAD_DIM, 128}, {ATT_HEAD_DIM_V, 512}};
    const struct att_variant each = variant_of(&att_template_head_product, "gfx950", keys);
    assert_false(is_trimmed(&each));
    keys[2] = (struct setting){ATT_TILE, STREAM};
    const struct att_variant streams = variant_of(&att_template_head_product, "gfx950", keys);
    assert_true(is_trimmed(&streams));
}

/* The kernel with one x for all heads is for many tokens. Fewer tokens select the kernels with an x
   for each head. */
TEST(few_tokens_have_kernels_of_their_own)
{
    enum { SHARES, EACH };
    struct setting each[COUNT] = {{ATT_HEAD_DIM, 512}, {ATT_HEAD_DIM_V, 128}};
    const struct att_variant other = variant_of(&att_template_head_product, "gfx942", each);
    assert_int_equal(chosen(&other, 1, 512, 256), SHARES);
    assert_int_equal(chosen(&other, 0, 16, 256), -1);
    each[2] = (struct setting){ATT_SHARED, 1};
    const struct att_variant one = variant_of(&att_template_head_product, "gfx942", each);
    assert_int_equal(chosen(&one, 1, 512, 128), SHARES);
    assert_int_equal(chosen(&one, 1, 512, 129), -1);
    assert_int_equal(chosen(&one, 0, 304, 1216), EACH);
    assert_int_equal(chosen(&one, 0, 320, 1280), -1);
    each[0] = (struct setting){ATT_HEAD_DIM, 256}; /* no waves share it */
    const struct att_variant half = variant_of(&att_template_head_product, "gfx942", each);
    assert_int_equal(chosen(&half, 0, 16, 64), 0);
    assert_int_equal(chosen(&half, 0, 320, 1280), -1);
}

/* Two workgroups walk a list if waves are in pairs. They do not if half of the lists fill the
 * device. */
TEST(many_lists_have_a_workgroup_each)
{
    struct setting latent[COUNT] = {LATENT, {ATT_GQA, 128}, {ATT_PAGE_SIZE, 64}};
    const struct att_variant pairs = variant_of(&att_template_mla_decode, "gfx950", latent);
    assert_int_equal(chosen(&pairs, 0, 128, 0), -1);
    assert_int_equal(chosen(&pairs, 0, 129, 0), 0);
    assert_int_equal(chosen(&pairs, 0, 224, 0), 0);
    assert_int_equal(chosen(&pairs, 0, 225, 0), -1);
    const struct att_variant other = variant_of(&att_template_mla_decode, "gfx942", latent);
    assert_int_equal(chosen(&other, 0, 304, 0), -1);
    latent[2].value = 64;
    const struct att_variant half = variant_of(&att_template_mla_decode, "gfx950", latent);
    assert_int_equal(chosen(&half, 0, 256, 0), -1);
    latent[2].value = 128;
    latent[4] = (struct setting){ATT_SPARSE, ATT_SPARSE_SLOTS};
    const struct att_variant slots = variant_of(&att_template_mla_decode, "gfx950", latent);
    static const struct {
        int lists, kernel;
    } calls[] = {{128, -1}, {129, 0}, {256, 0}, {257, -1}, {384, -1},
                 {385, 0},  {512, 0}, {513, 0}, {640, 0},  {4096, 0}};
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        assert_int_equal(chosen(&slots, 0, calls[i].lists, 0), calls[i].kernel);
}

int main(void) { return run_unit_tests(); }
