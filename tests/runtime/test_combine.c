/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests libattn's messages for wrong combine calls, what ATTN_CHECK_DATA finds in their lists, and
 * the values of correct calls. Only the family's functions run, no kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/op.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static _Alignas(16) char memory[64];

static struct attn_combine_desc layer(enum attn_partials partials)
{
    return (struct attn_combine_desc){
        .size = sizeof(struct attn_combine_desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .heads = 8,
        .partials = partials,
    };
}

static struct attn_combine_args call_args(void)
{
    void *m = memory;
    return (struct attn_combine_args){
        .size = sizeof(struct attn_combine_args),
        .stream = FAKE_STREAM,
        .out = m,
        .lse = m,
        .partial_out = m,
        .partial_lse = m,
        .reduce_indptr = m,
        .reduce_final_map = m,
        .reduce_partial_map = m,
        .prefix = m,
        .suffix = m,
        .prefix_lse = m,
        .suffix_lse = m,
        .tokens = 3,
        .reduce_tiles = 2,
        .splits = 4,
    };
}

static int normalise(const struct attn_combine_desc *d, union attn_desc *out)
{
    return attn_family_combine.normalise(d, out);
}

static void fails(const struct attn_combine_desc *d, const struct attn_combine_args *a,
                  const char *text)
{
    union attn_desc desc;
    struct attn_call call;
    assert_int_equal(normalise(d, &desc), ATTN_OK);
    refused(attn_family_combine.fill(&desc, a, &call), ATTN_BAD_ARGUMENT, text);
}

static struct attn_call fill(const struct attn_combine_desc *d, const struct attn_combine_args *a)
{
    union attn_desc desc;
    struct attn_call call;
    assert_int_equal(normalise(d, &desc), ATTN_OK);
    assert_int_equal(attn_family_combine.fill(&desc, a, &call), ATTN_OK);
    return call;
}

TEST(descriptors_out_of_range_are_refused)
{
    static const struct {
        struct attn_combine_desc desc;
        const char *text;
    } wrong[] = {
        {{.dtype = ATTN_FP8, .head_dim = 128, .heads = 8}, "neither ATTN_BF16 nor ATTN_FP16"},
        {{.dtype = ATTN_BF16, .out_dtype = ATTN_FP16, .head_dim = 128, .heads = 8},
         "neither dtype nor ATTN_FP8"},
        {{.dtype = ATTN_BF16, .head_dim = 128, .heads = 8, .partials = 3},
         "partials 3 is none of enum attn_partials"},
        {{.dtype = ATTN_BF16, .head_dim = 0, .heads = 8}, "head_dim 0 is not 1 to 1024"},
        {{.dtype = ATTN_BF16, .head_dim = 128, .heads = -1}, "heads -1 is not 1 to 65535"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        union attn_desc out;
        assert_int_equal(normalise(&wrong[i].desc, &out), ATTN_BAD_ARGUMENT);
        says(wrong[i].text);
    }
}

/* Changes to valid arguments, each with the message that it causes. */
static const struct {
    enum attn_partials partials;
    enum attn_dtype out_dtype;
    size_t pointer; /* set to `value` */
    const void *value;
    const char *text;
} wrong_pointers[] = {
#define P(member) offsetof(struct attn_combine_args, member)
    {ATTN_PARTIALS_CSR, 0, P(out), NULL, "out is NULL"},
    {ATTN_PARTIALS_CSR, 0, P(out), memory + 8, "out is not aligned to 8 elements"},
    {ATTN_PARTIALS_CSR, ATTN_FP8, P(out), memory + 4, "out is not aligned to 8 elements"},
    {ATTN_PARTIALS_CSR, ATTN_FP8, P(out_scale), NULL, "out_scale is NULL"},
    {ATTN_PARTIALS_CSR, 0, P(partial_out), memory + 4, "partial_out is not aligned to 16 bytes"},
    {ATTN_PARTIALS_DENSE, 0, P(partial_lse), NULL, "partial_lse is NULL"},
    {ATTN_PARTIALS_CSR, 0, P(reduce_indptr), NULL, "reduce_indptr is NULL"},
    {ATTN_PARTIALS_CSR, 0, P(reduce_final_map), NULL, "reduce_final_map is NULL"},
    {ATTN_PARTIALS_CSR, 0, P(reduce_partial_map), NULL, "reduce_partial_map is NULL"},
    {ATTN_PARTIALS_PAIR, 0, P(prefix), memory + 2, "prefix is not aligned to 16 bytes"},
    {ATTN_PARTIALS_PAIR, 0, P(suffix), NULL, "suffix is NULL"},
    {ATTN_PARTIALS_PAIR, 0, P(suffix_lse), NULL, "suffix_lse is NULL"},
    {ATTN_PARTIALS_PAIR, ATTN_FP8, P(out_scale), memory, "out cannot be prefix or suffix"},
#undef P
};

TEST(pointers_that_are_needed_are_named)
{
    for (size_t i = 0; i < sizeof(wrong_pointers) / sizeof(wrong_pointers[0]); i++) {
        struct attn_combine_desc d = layer(wrong_pointers[i].partials);
        struct attn_combine_args a = call_args();
        d.out_dtype = wrong_pointers[i].out_dtype;
        memcpy((char *)&a + wrong_pointers[i].pointer, &wrong_pointers[i].value, sizeof(void *));
        fails(&d, &a, wrong_pointers[i].text);
    }
}

TEST(counts_and_strides_are_checked)
{
    struct attn_combine_desc d = layer(ATTN_PARTIALS_DENSE);
    struct attn_combine_args a = call_args();
    a.tokens = -1;
    fails(&d, &a, "tokens is negative");
    a = call_args();
    a.splits = 0;
    fails(&d, &a, "splits is not positive");
    a = call_args();
    a.out_head_stride = 132;
    fails(&d, &a, "not a multiple of 8 elements");
}

TEST(strides_of_zero_are_those_of_contiguous_tensors)
{
    const struct attn_combine_desc d = layer(ATTN_PARTIALS_PAIR);
    struct attn_combine_args a = call_args();
    a.suffix_lse_token_stride = 8;
    a.suffix_lse_head_stride = 1;
    const struct attn_call call = fill(&d, &a);
    assert_int_equal(call.values[ATTN_ARG_OUT_TOKEN_STRIDE].i64, 8 * 128);
    assert_int_equal(call.values[ATTN_ARG_PREFIX_HEAD_STRIDE].i64, 128);
    assert_int_equal(call.values[ATTN_ARG_LSE_TOKEN_STRIDE].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_PREFIX_LSE_HEAD_STRIDE].i64, 3);
    assert_int_equal(call.values[ATTN_ARG_SUFFIX_LSE_TOKEN_STRIDE].i64, 8);
    assert_int_equal(call.values[ATTN_ARG_SUFFIX_LSE_HEAD_STRIDE].i64, 1);
    assert_int_equal(call.values[ATTN_ARG_MAX_SEQLEN_Q].i64, 1);
}

TEST(nothing_to_do_needs_no_pointers)
{
    const struct attn_combine_desc csr = layer(ATTN_PARTIALS_CSR);
    const struct attn_combine_args no_tokens = {.size = sizeof(no_tokens), .reduce_tiles = 4};
    const struct attn_combine_args no_tiles = {.size = sizeof(no_tiles), .tokens = 4};
    assert_true(fill(&csr, &no_tokens).empty);
    assert_true(fill(&csr, &no_tiles).empty);
}

/* The device memory of the fake HIP is host memory, so the lists are arrays of this test. */
TEST(lists_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_op op = {.device = b.device, .desc.combine = layer(ATTN_PARTIALS_CSR)};
    /* Three tiles of up to two tokens; the second has no parts, so its tokens are ignored. */
    int32_t indptr[] = {0, 2, 2, 3}, tokens[] = {0, 2, 77, -5, 2, 3}, map[] = {4, 0, 7};
    struct attn_combine_args a = call_args();
    a.reduce_indptr = indptr;
    a.reduce_final_map = tokens;
    a.reduce_partial_map = map;
    a.reduce_tiles = 3;
    a.q_len = 2;
    a.partial_rows = 8;
    assert_int_equal(attn_family_combine.check_data(&op, &a), ATTN_OK);

    static const struct {
        int list, at, value;
        const char *text;
    } wrong[] = {
        {0, 2, 1, "reduce_indptr[2] is 1, below reduce_indptr[1], which is 2"},
        {1, 1, 4, "reduce_final_map[0] is 0 to 4 of 3 tokens, at most 2 in a tile"},
        {1, 0, -1, "reduce_final_map[0] is -1 to 2"},
        {1, 4, 4, "reduce_final_map[2] is 4 to 3"},
        {2, 0, 7, "reduce_partial_map[0] is 7, partial_out has 8 rows"},
        {2, 2, -1, "reduce_partial_map[2] is -1, partial_out has 8 rows"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        int32_t *at = (int32_t *[]){indptr, tokens, map}[wrong[i].list] + wrong[i].at;
        const int32_t right = *at;
        *at = wrong[i].value;
        refused(attn_family_combine.check_data(&op, &a), ATTN_BAD_DATA, wrong[i].text);
        *at = right;
    }
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
