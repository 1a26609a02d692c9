/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how the work of the ops around latent attention is divided among workgroups, at both sides
 * of every threshold in the number of tokens.
 */

#include "runtime/host.h"
#include "tests/unit_test.h"

static char memory[16];

static void expect(const union attn_value *v, enum attn_arg arg, int64_t number)
{
    assert_int_equal(v[arg].i64, number);
}

TEST(norms_of_both_share_workgroups_where_the_device_is_full)
{
    static const struct {
        int32_t tokens;
        bool kv;
        int run, groups, all;
    } rows[] = {
        {1, true, 1, 1, 2},        {4095, true, 3, 342, 684},  {4096, true, 2, 0, 512},
        {12288, true, 2, 0, 1536}, {12289, true, 8, 385, 770}, {4096, false, 4, 256, 256},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct attn_qk_rmsnorm_desc d = {.size = sizeof(d)};
        const struct attn_qk_rmsnorm_args a = {.tokens = rows[i].tokens,
                                               .kv = rows[i].kv ? memory : NULL};
        union attn_value v[ATTN_ARG_COUNT] = {0};
        assert_int_equal(attn_qk_rmsnorm_fill(&d, &a, v), ATTN_OK);
        expect(v, ATTN_ARG_RUN_TOKENS, rows[i].run);
        expect(v, ATTN_ARG_ROW_GROUPS, rows[i].groups);
        expect(v, ATTN_ARG_WORKGROUPS, rows[i].all);
    }
}

TEST(waves_share_columns_of_few_tokens)
{
    static const struct {
        int32_t dim, dim_v, heads, tokens;
        int share, groups, all;
    } rows[] = {
        {512, 128, 16, 128, 1, 1, 64},       {512, 128, 16, 129, 0, 3, 48},
        {512, 128, 16, 8192, 0, 40, 640},    {512, 128, 127, 129, 0, 3, 381},
        {512, 128, 128, 256, 1, 1, 512},     {512, 128, 128, 257, 0, 5, 640},
        {256, 192, 16, 100000, 0, 40, 1280}, {128, 512, 16, 64, 0, 1, 64},
        {128, 512, 16, 65, 0, 2, 128},       {128, 512, 16, 100000, 0, 20, 1280},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct attn_head_product_desc d = {
            .head_dim = rows[i].dim, .head_dim_v = rows[i].dim_v, .heads = rows[i].heads};
        const struct attn_head_product_args a = {.tokens = rows[i].tokens};
        union attn_value v[ATTN_ARG_COUNT] = {0};
        assert_int_equal(attn_head_product_fill(&d, &a, v), ATTN_OK);
        expect(v, ATTN_ARG_SHARE_COLUMNS, rows[i].share);
        expect(v, ATTN_ARG_TOKEN_GROUPS, rows[i].groups);
        expect(v, ATTN_ARG_WORKGROUPS, rows[i].all);
    }
}

TEST(rows_of_latents_join_the_queries_of_many_tokens)
{
    static const struct {
        int32_t heads, tokens;
        bool nope;
        int whole, run, rows, rotated, all;
    } rows[] = {
        {128, 511, true, 0, 1, 128, 1022, 5238}, {128, 512, true, 1, 1, 0, 0, 1024},
        {128, 4096, true, 4, 2, 0, 0, 2048},     {8, 8192, true, 0, 8, 256, 2048, 10496},
        {16, 8192, true, 1, 4, 0, 0, 2048},      {128, 512, false, 0, 1, 128, 1024, 1152},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct attn_mla_rope_cache_desc d = {
            .head_dim = 576, .head_dim_v = 512, .heads = rows[i].heads};
        const struct attn_mla_rope_cache_args a = {.tokens = rows[i].tokens,
                                                   .q_nope = rows[i].nope ? memory : NULL};
        union attn_value v[ATTN_ARG_COUNT] = {0};
        assert_int_equal(attn_mla_rope_fill(&d, &a, v), ATTN_OK);
        expect(v, ATTN_ARG_RUN_PARTS, rows[i].whole);
        expect(v, ATTN_ARG_RUN_TOKENS, rows[i].run);
        expect(v, ATTN_ARG_ROW_GROUPS, rows[i].rows);
        expect(v, ATTN_ARG_ROTATED_GROUPS, rows[i].rotated);
        expect(v, ATTN_ARG_WORKGROUPS, rows[i].all);
    }
}

int main(void) { return run_unit_tests(); }
