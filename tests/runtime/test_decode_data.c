/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what ATTN_CHECK_DATA finds in the arrays of decode: lengths, page lists, work lists,
 * tickets and scales of heads.
 */
#include <math.h>
#include <string.h>

#include "tests/runtime/decode_calls.h"
#include "tests/unit_test.h"

/* Checks that a launch is refused for its data, with a message that contains `text`. */
static void refuse(const struct attn_op *op, const struct attn_decode_args *a, const char *text)
{
    refused(attn_decode_launch(op, a), ATTN_BAD_DATA, text);
}

TEST(block_tables_are_checked_on_request)
{
    struct fakehip *f = fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "plain", .q_len = "2"}};
    struct bench b = decode_open(kernels, 1, ATTN_CHECK_DATA);
    struct attn_decode_desc d = decode_desc();
    d.q_len = 2;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    const int32_t qo[] = {0, 2, 2, 3};
    struct attn_decode_args a = decode_args();
    a.qo_indptr = qo;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    const int32_t falls[] = {0, 2, 1, 3};
    a.qo_indptr = falls;
    refuse(op, &a, "qo_indptr[2] is 1, below qo_indptr[1], which is 2");
    const int32_t many[] = {0, 3, 3, 3};
    a.qo_indptr = many;
    refuse(op, &a, "qo_indptr: sequence 0 has 3 tokens, the bound is 2");
    const int32_t late[] = {1, 2, 2, 3};
    a.qo_indptr = late;
    refuse(op, &a, "qo_indptr[0] is 1, not 0");
    a.qo_indptr = qo;
    const int32_t negative[] = {40, -1, 16}, too_long[] = {40, 65, 16};
    a.pages.kv_lens = negative;
    refuse(op, &a, "kv_lens[1] is -1");
    a.pages.kv_lens = too_long;
    refuse(op, &a, "kv_lens[1] is 65, 5 pages; it is given 4");
    const int32_t reaches[] = {40, 0, 17};
    a.pages.kv_lens = reaches;
    refuse(op, &a, "block_table[2][1] is -1, the cache has 10 pages");
    a.pages.kv_lens = decode_lens;
    a.cache.page_count = 9;
    refuse(op, &a, "block_table[2][0] is 9, the cache has 9 pages");
    static const int32_t first[3][4] = {{10, 0, 2, -1}, {-1, -1, -1, -1}, {9, -1, -1, -1}};
    a.cache.page_count = 10;
    a.pages.block_table = first[0];
    refuse(op, &a, "block_table[0][0] is 10, the cache has 10 pages");
    a.pages.block_table = decode_table[0];
    a.cache.page_count = 0; /* not given */
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(f->launches, 2);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(page_lists_are_checked_on_request)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "plain", .page_table = "indices"}};
    struct bench b = decode_open(kernels, 1, ATTN_CHECK_DATA);
    struct attn_decode_desc d = decode_desc();
    d.page_table = ATTN_PAGES_INDICES;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    const int32_t indptr[] = {0, 3, 3, 4}, indices[] = {5, 0, 2, 9};
    struct attn_decode_args a = decode_args();
    a.pages = (struct attn_pages){
        .kv_lens = decode_lens,
        .kv_indptr = indptr,
        .kv_indices = indices,
        .entries = 4,
    };
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    const int32_t beyond[] = {0, 3, 3, 5}, short_one[] = {0, 2, 3, 4};
    a.pages.kv_indptr = beyond;
    refuse(op, &a, "kv_indptr[3] is 5");
    a.pages.kv_indptr = short_one;
    refuse(op, &a, "kv_lens[0] is 40, 3 pages; it is given 2");
    a.pages.kv_indptr = indptr;
    const int32_t last_long[] = {40, 0, 17};
    a.pages.kv_lens = last_long;
    refuse(op, &a, "kv_lens[2] is 17, 2 pages; it is given 1");
    a.pages.kv_lens = decode_lens;
    a.cache.page_count = 9;
    refuse(op, &a, "kv_indices[3] is 9, the cache has 9 pages");
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(work_lists_are_checked_on_request)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "plain"}};
    struct bench b = decode_open(kernels, 1, ATTN_CHECK_DATA);
    const struct attn_decode_desc d = decode_desc();
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    static _Alignas(16) int32_t info[3][8];
    static const int32_t good[3][8] = {
        {0, 4, 0, 1, 0, 32, 8, 4 << 16},
        {0, 5, 0, 1, 32, 40, 0, 4 << 16},
        {2, -1, 2, 3, 0, 16, 0, 4 | 8 << 16},
    };
    const int32_t indptr[] = {0, 1, 3}, falls[] = {0, 4, 3};
    struct attn_decode_args a = decode_args();
    a.work_indptr = indptr;
    a.work_info = info[0];
    a.work_lists = 2;
    a.partial_rows = 6;
    a.partial_out = a.partial_lse = (float *)(void *)decode_tensor;
    memcpy(info, good, sizeof(info));
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    info[2][7] = 4 | 9 << 16;
    refuse(op, &a, "work_info[2][7] is 589828, head ranges are not empty and end by 8");
    memcpy(info, good, sizeof(info));
    a.work_indptr = falls;
    refuse(op, &a, "work_indptr[2] is 3, below work_indptr[1], which is 4");
    attn_op_destroy(op);
    close_bench(&b);
}

/* The check finds a ticket that an interrupted launch has left, and parts that are not in the
 * arrays. */
TEST(tickets_are_checked_on_request)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "one", .one_launch = "true"}};
    struct bench b = decode_open(kernels, COUNT(kernels), ATTN_CHECK_DATA);
    struct attn_decode_desc d = decode_desc();
    d.one_launch = true;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    static _Alignas(16) int32_t words[8], tickets[1024], parts[4] = {0, 2, 2, 4};
    struct attn_decode_args a = decode_args();
    a.work_indptr = a.work_info = words;
    a.work_lists = 1;
    a.partial_out = a.partial_lse = (float *)(void *)decode_tensor;
    a.partial_rows = 4;
    a.reduce_indptr = parts;
    a.reduce_partial_map = words;
    a.tickets = tickets;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    tickets[2] = 1;
    refuse(op, &a, "tickets[2] is 1, and 0 between launches");
    tickets[2] = 0;
    parts[3] = 5;
    refuse(op, &a, "reduce_indptr");
    parts[3] = 1;
    refuse(op, &a, "reduce_indptr[3] is 1, below reduce_indptr[2], which is 2");
    attn_op_destroy(op);
    close_bench(&b);
}

/* A stride of 0 shares a row, so that memory after the row is not checked. */
TEST(scales_of_heads_are_finite)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "head",
         .kv_dtype = "fp8",
         .kv_scale = "head",
         .q_dtype = "fp8",
         .q_scale = "kv_head"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), ATTN_CHECK_DATA);
    struct attn_decode_desc d = decode_desc();
    d.q_dtype = ATTN_FP8;
    d.q_scale = ATTN_Q_SCALE_KV_HEAD;
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_HEAD, 16};
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    float q[6] = {1, 1, 1, 1, 1, 1}, k[6] = {1, 1, 1, 1, 1, 1}, v[6] = {1, 1, 1, 1, 1, 1};
    struct attn_decode_args a = decode_args();
    a.q_scale = q;
    a.cache.k_scale = k;
    a.cache.v_scale = v;
    a.cache.scale_page_stride = 2;
    a.cache.scale_head_stride = 1;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    q[3] = NAN; /* of the sequence without keys */
    refuse(op, &a, "q_scale[1][1] is nan, not finite");
    q[3] = 1;
    v[5] = INFINITY;
    refuse(op, &a, "v_scale[2][1] is inf, not finite");
    a.cache.scale_page_stride = 0;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    k[1] = -INFINITY;
    refuse(op, &a, "k_scale[0][1] is -inf, not finite");
    attn_op_destroy(op);
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
