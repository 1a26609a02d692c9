/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests decode in libattn: which kernel covers a layer, what a launch passes to it, and which
 * arguments are refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_dlpack.h"
#include "tests/runtime/decode_calls.h"
#include "tests/unit_test.h"

static void choose(const struct bench *b, const struct attn_decode_desc *d, const char *name,
                   const char *why)
{
    struct attn_op *op;
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_decode_lookup(b->device, d, &op))
        fail_msg("%s", attn_last_error());
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    assert_string_equal(info.kernel.name, name);
    assert_string_equal(info.why, why);
    attn_op_destroy(op);
}

TEST(the_cheapest_kernel_that_covers_a_layer_is_taken)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "plain"},
        {.name = "page_16", .page_size = "16"},
        {.name = "exact", .gqa = "4", .page_size = "16"},
        {.name = "window", .mask = "window"},
        {.name = "verify_2", .q_len = "2"},
        {.name = "verify_8", .q_len = "8"},
        {.name = "whole_8", .q_len = "8", .mask = "none"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    choose(&b, &d, "exact", "exact");
    d.heads = 6;
    choose(&b, &d, "page_16", "the cheapest that covers it: gqa any covers 3");
    d.cache.page_size = 64;
    choose(&b, &d, "plain",
           "the cheapest that covers it: gqa any covers 3, page_size any covers 64");
    d.mask = ATTN_MASK_NONE; /* equivalent for one query */
    choose(&b, &d, "plain",
           "the cheapest that covers it: gqa any covers 3, mask causal covers "
           "none, page_size any covers 64");
    d.q_len = 2;
    choose(&b, &d, "whole_8",
           "the cheapest that covers it: gqa any covers 3, page_size any covers "
           "64, q_len 8 covers 2");
    d.mask = ATTN_MASK_CAUSAL;
    choose(&b, &d, "verify_2",
           "the cheapest that covers it: gqa any covers 3, page_size any covers 64");
    d.q_len = 3;
    choose(&b, &d, "verify_8",
           "the cheapest that covers it: gqa any covers 3, page_size any "
           "covers 64, q_len 8 covers 3");
    struct attn_op *op;
    static const int others[] = {3, 48, 272};
    for (size_t i = 0; i < COUNT(others); i++) {
        char text[80];
        d.cache.page_size = others[i];
        assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_NO_KERNEL);
        snprintf(text, sizeof(text), "has page_size any power of two instead of %d", others[i]);
        says(text);
    }
    const struct attn_prefill_desc absent = plain_desc();
    refused(attn_prefill_lookup(b.device, &absent, &op), ATTN_NO_KERNEL,
            "the pack has no prefill kernel at all");
    d.cache.page_size = 64;
    d.q_len = 9;
    refused(attn_decode_lookup(b.device, &d, &op), ATTN_NO_KERNEL, "q_len");
    close_bench(&b);
}

TEST(caches_have_kernels_of_their_own)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "bf16"},
        {.name = "fp16", .kv_dtype = "fp16"},
        {.name = "fp8", .kv_dtype = "fp8", .kv_scale = "token", .kv_layout = "shuffle"},
        {.name = "indices", .page_table = "indices"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    static const char any[] =
        "the cheapest that covers it: gqa any covers 4, page_size any covers 16";
    d.cache.dtype = ATTN_BF16; /* the op's dtype */
    choose(&b, &d, "bf16", any);
    d.cache.dtype = ATTN_FP16;
    choose(&b, &d, "fp16", any);
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TOKEN, 16};
    choose(&b, &d, "fp8", any);
    d.cache = (struct attn_cache_desc){.page_size = 16};
    d.page_table = ATTN_PAGES_INDICES;
    choose(&b, &d, "indices", any);
    close_bench(&b);
}

TEST(contiguous_caches_need_no_strides)
{
    struct fakehip *f = fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "nhd", .q_len = "4"},
        {.name = "shuffle", .kv_layout = "shuffle", .kv_dtype = "fp8", .kv_scale = "token"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.q_len = 3;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_decode_args a = decode_args();
    a.q_len = 1;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(f->grid[0], 6); /* 3 sequences, 2 kv heads */
    assert_ptr_equal((void *)(intptr_t)i64_at(f, AT_K), decode_tensor);
    assert_int_equal(i64_at(f, AT_K_HEAD), 128);
    assert_int_equal(i64_at(f, AT_K_TOKEN), 256);
    assert_int_equal(i64_at(f, AT_K_PAGE), 16 * 256);
    assert_int_equal(i64_at(f, AT_V_PAGE), 16 * 256);
    assert_int_equal(i64_at(f, AT_TABLE_STRIDE), 4);
    assert_int_equal(i32_at(f, AT_PAGE_SIZE), 16);
    assert_int_equal(i32_at(f, AT_PAGE_SHIFT), 4);
    assert_int_equal(i32_at(f, AT_Q_LEN), 1);
    assert_int_equal(i32_at(f, AT_RIGHT), 0);
    const int32_t work[8] = {0};
    a.work_indptr = work;
    a.work_info = (const int32_t *)(const void *)decode_tensor;
    a.partial_out = (float *)(void *)decode_tensor;
    a.partial_lse = (float *)(void *)decode_tensor;
    a.work_lists = 304;
    a.cache.k_page_stride = (INT64_C(1) << 31) - 8; /* just below 4 GiB */
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(f->grid[0], 304);
    assert_int_equal(i64_at(f, AT_K_PAGE), (INT64_C(1) << 31) - 8);
    attn_op_destroy(op);

    d = decode_desc();
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TOKEN, 32};
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    a = decode_args();
    a.cache.k_scale = a.cache.v_scale = (float *)(void *)decode_tensor;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(i64_at(f, AT_K_HEAD), 128 * 32);
    assert_int_equal(i64_at(f, AT_K_PAGE), 2 * 128 * 32);
    assert_int_equal(i64_at(f, AT_SCALE_HEAD), 32);
    assert_int_equal(i64_at(f, AT_SCALE_PAGE), 64);
    attn_op_destroy(op);
    close_bench(&b);
}

/* DLPack: a cache of 10 pages, three sequences, 3 queries. */

enum { D_Q, D_OUT, D_K, D_V, D_K_SCALE, D_V_SCALE, D_LENS, D_TABLE, D_TENSORS };

struct dlpack {
    int64_t shapes[D_TENSORS][5];
    DLTensor t[D_TENSORS];
    struct attn_decode_tensors tensors;
};

static void make_dlpack(struct dlpack *p, bool shuffle)
{
    const struct {
        int ndim;
        uint8_t code, bits;
        int64_t shape[5];
    } made[D_TENSORS] = {
        {3, kDLBfloat, 16, {3, 8, 128}},
        {3, kDLBfloat, 16, {3, 8, 128}},
        {4, kDLBfloat, 16, {10, 16, 2, 128}},
        {4, kDLBfloat, 16, {10, 16, 2, 128}},
        {3, kDLFloat, 32, {10, 2, 32}},
        {3, kDLFloat, 32, {10, 2, 32}},
        {1, kDLInt, 32, {3}},
        {2, kDLInt, 32, {3, 4}},
    };
    memset(p, 0, sizeof(*p));
    for (int i = 0; i < D_TENSORS; i++) {
        memcpy(p->shapes[i], made[i].shape, sizeof(p->shapes[i]));
        p->t[i] = (DLTensor){
            .data = decode_tensor,
            .device = {kDLROCM, 0},
            .ndim = made[i].ndim,
            .dtype = {made[i].code, made[i].bits, 1},
            .shape = p->shapes[i],
        };
    }
    for (int i = D_K; shuffle && i <= D_V; i++) { /* fp8: 16 elements in 16 bytes, pages of 32 */
        const int64_t shape[2][5] = {{10, 2, 8, 32, 16}, {10, 2, 2, 128, 16}};
        memcpy(p->shapes[i], shape[i - D_K], sizeof(shape[0]));
        p->t[i].ndim = 5;
        p->t[i].dtype = (DLDataType){kDLUInt, 8, 1};
    }
    p->tensors = (struct attn_decode_tensors){
        .size = sizeof(p->tensors),
        .q = &p->t[D_Q],
        .out = &p->t[D_OUT],
        .k_cache = &p->t[D_K],
        .v_cache = &p->t[D_V],
        .k_scale = &p->t[D_K_SCALE],
        .v_scale = &p->t[D_V_SCALE],
        .kv_lens = &p->t[D_LENS],
        .block_table = &p->t[D_TABLE],
    };
}

TEST(tensors_become_a_cache_and_its_pages)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "nhd"},
        {.name = "shuffle", .kv_layout = "shuffle", .kv_dtype = "fp8", .kv_scale = "token"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    struct attn_decode_args a = {.size = sizeof(a), .scale = 0.5f};
    struct dlpack p;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    make_dlpack(&p, false);
    int64_t view[] = {1, 512, 128 * 4096, 1}; /* of a pool [head, token, page, element] */
    p.t[D_K].strides = view;
    p.t[D_TABLE].byte_offset = 4;
    assert_int_equal(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_OK);
    assert_ptr_equal(a.cache.k, decode_tensor);
    assert_int_equal(a.cache.k_page_stride, 1);
    assert_int_equal(a.cache.k_token_stride, 512);
    assert_int_equal(a.cache.k_head_stride, 128 * 4096);
    assert_int_equal(a.cache.v_page_stride, 16 * 2 * 128);
    assert_int_equal(a.cache.v_token_stride, 2 * 128);
    assert_int_equal(a.cache.v_head_stride, 128);
    assert_null(a.cache.k_scale); /* the descriptor has none */
    assert_int_equal(a.cache.page_count, 10);
    assert_ptr_equal(a.pages.block_table, (const char *)decode_tensor + 4);
    assert_int_equal(a.pages.block_table_stride, 4);
    assert_int_equal(a.pages.entries, 4);
    assert_int_equal(a.batch, 3);
    assert_int_equal(a.tokens, 3);
    assert_null(a.qo_indptr);
    assert_true(a.scale == 0.5f); /* set by the caller */
    attn_op_destroy(op);

    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TOKEN, 32};
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    make_dlpack(&p, true);
    assert_int_equal(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_OK);
    assert_int_equal(a.cache.k_page_stride, 2 * 32 * 128);
    assert_int_equal(a.cache.k_head_stride, 32 * 128);
    assert_int_equal(a.cache.v_head_stride, 32 * 128);
    assert_ptr_equal(a.cache.k_scale, decode_tensor);
    assert_int_equal(a.cache.scale_page_stride, 64);
    assert_int_equal(a.cache.scale_head_stride, 32);
    attn_op_destroy(op);
    close_bench(&b);
}

/* Scales are of each sequence and head, or of each head: [batch, kv heads] or [1, kv heads]. */
TEST(scales_of_heads_may_serve_all_sequences)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "head", .kv_layout = "shuffle", .kv_dtype = "fp8", .kv_scale = "head"},
    };
    static const struct {
        int64_t rows, strides[2], page_stride, head_stride;
    } cases[] = {{3, {2, 1}, 2, 1}, {3, {8, 2}, 8, 2}, {3, {0, 1}, 0, 1},
                 {3, {0, 0}, 0, 0}, {1, {2, 1}, 0, 1}, {1, {7, 3}, 0, 3}};
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_HEAD, 32};
    struct attn_op *op;
    struct dlpack p;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attn_decode_args a = {.size = sizeof(a)};
        int64_t strides[] = {cases[i].strides[0], cases[i].strides[1]};
        make_dlpack(&p, true);
        for (int s = D_K_SCALE; s <= D_V_SCALE; s++) {
            p.t[s].ndim = 2;
            p.shapes[s][0] = cases[i].rows;
            p.t[s].strides = strides;
        }
        assert_int_equal(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_OK);
        assert_int_equal(a.batch, 3);
        assert_int_equal(a.cache.scale_page_stride, cases[i].page_stride);
        assert_int_equal(a.cache.scale_head_stride, cases[i].head_stride);
        p.shapes[D_K_SCALE][0] = p.shapes[D_V_SCALE][0] = 2; /* neither 1 nor batch */
        refused(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_BAD_ARGUMENT, "dimension 0 is");
        p.shapes[D_K_SCALE][0] = cases[i].rows == 1 ? 3 : 1;
        p.shapes[D_V_SCALE][0] = cases[i].rows;
        if (cases[i].page_stride || cases[i].rows == 1) {
            refused(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_BAD_ARGUMENT,
                    "k_scale and v_scale have different strides");
        }
    }
    attn_op_destroy(op);
    close_bench(&b);
}

/* Scales of queries for each sequence and KV head lie as the cache's scales do. */
TEST(scales_of_queries_have_the_strides_of_the_cache)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "head",
         .kv_dtype = "fp8",
         .kv_scale = "head",
         .q_dtype = "fp8",
         .q_scale = "kv_head"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.q_dtype = ATTN_FP8;
    d.q_scale = ATTN_Q_SCALE_KV_HEAD;
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_NHD, ATTN_KV_SCALE_HEAD, 16};
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct dlpack p;
    make_dlpack(&p, false);
    int64_t shape[] = {3, 2}, strides[] = {0, 5}, others[] = {2, 1};
    p.t[D_Q].dtype = p.t[D_K].dtype = p.t[D_V].dtype = (DLDataType){kDLUInt, 8, 1};
    for (int s = D_K_SCALE; s <= D_V_SCALE; s++) {
        p.t[s].ndim = 2;
        p.t[s].shape = shape;
        p.t[s].strides = strides;
    }
    DLTensor q_scale = p.t[D_K_SCALE];
    p.tensors.q_scale = &q_scale;
    struct attn_decode_args a = {.size = sizeof(a)};
    assert_int_equal(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_OK);
    assert_int_equal(a.cache.scale_page_stride, 0);
    assert_int_equal(a.cache.scale_head_stride, 5);
    assert_int_equal(a.q_scale_token_stride, 0);
    q_scale.strides = others;
    refused(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_BAD_ARGUMENT,
            "k_scale and q_scale have different strides");
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(tensors_that_are_no_cache_are_named)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "shuffle", .kv_layout = "shuffle", .kv_dtype = "fp8", .kv_scale = "token"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.cache = (struct attn_cache_desc){ATTN_FP8, ATTN_KV_SHUFFLE, ATTN_KV_SCALE_TOKEN, 32};
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
#define REFUSED(change, text)                                                             \
    do {                                                                                  \
        struct attn_decode_args a = {.size = sizeof(a)};                                  \
        struct dlpack p;                                                                  \
        make_dlpack(&p, true);                                                            \
        change;                                                                           \
        assert_int_equal(attn_decode_set_tensors(op, &p.tensors, &a), ATTN_BAD_ARGUMENT); \
        says(text);                                                                       \
        assert_null(a.q); /* nothing was written */                                       \
    } while (0)
    int64_t apart[] = {8192, 4096, 1024, 32, 1}, wide[] = {128, 64, 1};
    REFUSED(p.tensors.k_cache = NULL, "k_cache is NULL");
    REFUSED(p.t[D_K].dtype.code = 10, "k_cache is of float8_e4m3fn; uint8 is needed");
    REFUSED(p.shapes[D_K][3] = 16, "k_cache: dimension 3 is 16, 32 is needed");
    REFUSED(p.shapes[D_V][0] = 9, "v_cache: dimension 0 is 9, 10 is needed");
    REFUSED(p.t[D_V].strides = apart, "v_cache: its inner dimension has stride 1024, not 2048");
    REFUSED(p.t[D_K].ndim = 4, "k_cache has 4 dimensions, 5 are needed");
    REFUSED(p.tensors.v_scale = NULL, "v_scale is NULL");
    REFUSED(p.shapes[D_K_SCALE][2] = 16, "k_scale: dimension 2 is 16, 32 is needed");
    REFUSED(p.t[D_V_SCALE].strides = wide, "k_scale and v_scale have different strides");
    REFUSED(p.shapes[D_TABLE][0] = 2, "block_table: dimension 0 is 2, 3 is needed");
    REFUSED(p.shapes[D_TABLE][1] = -1, "block_table: dimension 1 is -1");
    REFUSED(p.tensors.qo_indptr = &p.t[D_LENS], "qo_indptr: dimension 0 is 3, 4 is needed");
    REFUSED(p.tensors.size = 8, "set_tensors: tensors.size is 8, less than 16");
#undef REFUSED
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(bad_descriptors_are_refused)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "plain"}};
    struct bench b = decode_open(kernels, 1, 0);
#define REFUSED(change, text)                                                       \
    do {                                                                            \
        struct attn_op *op;                                                         \
        struct attn_decode_desc d = decode_desc();                                  \
        change;                                                                     \
        assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT); \
        says(text);                                                                 \
    } while (0)
    REFUSED(d.size = 8, "desc.size is 8");
    REFUSED(d.dtype = ATTN_FP8, "dtype 3 is neither");
    REFUSED(d.mask = ATTN_MASK_BLOCKS + 1, "mask 6");
    REFUSED(d.page_table = 2, "page_table 2");
    REFUSED(d.head_dim = 0, "head_dim 0");
    REFUSED(d.heads = 7, "7 heads are not a multiple of 2 kv_heads");
    REFUSED(d.q_len = 65, "q_len 65 is not 1 to 64");
    REFUSED(d.cache.dtype = 9, "cache.dtype 9");
    REFUSED(d.cache.layout = (enum attn_kv_layout)99, "cache.layout ");
    REFUSED(d.cache.scale = 6, "cache.scale 6");
    REFUSED(d.cache.page_size = 0, "page_size 0 is not in 1 to 65536");
    REFUSED(d.cache.page_size = -16, "page_size -16 is not in 1 to 65536");
    REFUSED(d.cache.page_size = 1 << 17, "page_size 131072 is not in 1 to 65536");
    REFUSED(d.cache.scale = ATTN_KV_SCALE_TENSOR, "a bf16 cache has no scale");
    REFUSED(d.cache.dtype = ATTN_INT8, "an int8 cache needs a scale");
    REFUSED((d.cache.layout = ATTN_KV_SHUFFLE, d.cache.page_size = 4),
            "have a multiple of 8 tokens");
    REFUSED((d.cache.layout = ATTN_KV_SHUFFLE, d.cache.page_size = 40, d.cache.dtype = ATTN_FP8),
            "have a multiple of 16 tokens");
    REFUSED(d.head_dim = 100, "not a multiple of 8");
    REFUSED((d.head_dim = 100, d.head_dim_v = 128), "head_dim 100 or head_dim_v 128");
    REFUSED(d.head_dim_v = 100, "head_dim 128 or head_dim_v 100");
    REFUSED(d.q_dtype = ATTN_FP8, "q_dtype is ATTN_FP8, cache.dtype is not");
    REFUSED(d.q_scale = ATTN_Q_SCALE_TOKEN, "q_scale is set, q_dtype is not ATTN_FP8");
    REFUSED((d.q_scale = ATTN_Q_SCALE_KV_HEAD, d.q_dtype = d.cache.dtype = ATTN_FP8),
            "q_scale is ATTN_Q_SCALE_KV_HEAD, cache.scale is not ATTN_KV_SCALE_HEAD");
#undef REFUSED
    close_bench(&b);
}

#define REFUSED(change, text)                                            \
    do {                                                                 \
        struct attn_decode_args a = good;                                \
        change;                                                          \
        assert_int_equal(attn_decode_launch(op, &a), ATTN_BAD_ARGUMENT); \
        says(text);                                                      \
    } while (0)
static void refuse_strides(const struct attn_op *op, struct attn_decode_args good)
{
    REFUSED(a.cache.k_page_stride = 8, "a stride of k or v"); /* 8 bytes of fp8 */
    REFUSED((a.cache.k_token_stride = (1 << 27) + 16, a.cache.k_page_stride = 16),
            "more than 2 GiB, or less");
    REFUSED(a.cache.k_page_stride = INT64_C(1) << 32, "k_page_stride or v_page_stride is 4 GiB");
    REFUSED(a.cache.v_page_stride = -16, "4 GiB or more, or negative");
    REFUSED((a.cache.v_token_stride = -256, a.cache.v_page_stride = 16),
            "more than 2 GiB, or less");
    REFUSED((a.cache.k_head_stride = (1 << 30) + 16, a.cache.k_token_stride = 16,
             a.cache.k_page_stride = 16),
            "with k_head_stride or v_head_stride a page has more than 2 GiB");
    REFUSED((a.cache.v_head_stride = -16, a.cache.v_token_stride = 16, a.cache.v_page_stride = 16),
            "more than 2 GiB, or less than nothing");
    REFUSED(a.cache.k_page_stride = 16, "a page ends after the next one begins");
    REFUSED((a.cache.v_token_stride = 4096, a.cache.v_page_stride = 4096),
            "a page ends after the next one begins");
    REFUSED(a.cache.scale_head_stride = (1 << 28) + 1,
            "with scale_head_stride the scales of a page have more than 2 GiB");
    REFUSED(a.cache.scale_page_stride = INT64_C(1) << 30, "scale_page_stride is 4 GiB or more");
}

TEST(bad_arguments_are_refused)
{
    struct fakehip *f = fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "blocks", .kv_dtype = "fp8", .kv_scale = "tensor", .q_len = "2"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.cache.dtype = ATTN_FP8;
    d.cache.scale = ATTN_KV_SCALE_TENSOR;
    d.q_len = 2;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    float scale[2];
    struct attn_decode_args good = decode_args();
    good.cache.k_scale = good.cache.v_scale = scale;
    good.tokens = 6;
    assert_int_equal(attn_decode_launch(op, &good), ATTN_OK);
    REFUSED(a.size = 0, "args.size");
    REFUSED(a.q = NULL, "q is NULL");
    REFUSED(a.out = (char *)a.out + 2, "not aligned to 16");
    REFUSED(a.batch = -1, "batch is not 0 to 134217728");
    REFUSED(a.q_len = 3, "above desc.q_len");
    REFUSED(a.tokens = 5, "tokens is below batch * q_len");
    REFUSED(a.q_head_stride = 4, "q_token_stride or q_head_stride is negative");
    REFUSED(a.scale = INFINITY, "scale is not 0 to 1e30");
    REFUSED(a.cache.k = NULL, "k or v is NULL");
    REFUSED(a.cache.v = (char *)a.cache.v + 8, "k or v is NULL or not aligned");
    refuse_strides(op, good);
    REFUSED(a.cache.v_scale = NULL, "k_scale or v_scale is NULL");
    REFUSED(a.cache.k_scale = (float *)((char *)scale + 2), "not aligned to 4");
    REFUSED(a.cache.page_count = -1, "page_count is negative");
    REFUSED(a.pages.kv_lens = NULL, "kv_lens is NULL");
    REFUSED(a.pages.block_table = NULL, "block_table is NULL");
    REFUSED(a.pages.entries = 0, "neither block_table_stride nor entries");
    REFUSED(a.pages.block_table_stride = -4, "is negative");
    REFUSED((a.work_indptr = decode_lens, a.work_info = a.cache.k, a.partial_out = a.cache.k,
             a.partial_lse = a.cache.k),
            "work_lists is 0");
    REFUSED((a.work_indptr = decode_lens, a.work_lists = 2), "work_info is NULL");
    REFUSED((a.work_indptr = decode_lens, a.work_lists = 2, a.work_info = (const int32_t *)a.q),
            "partial_out is NULL");
    assert_int_equal(f->launches, 1);
    const struct attn_decode_args none = {.size = sizeof(none)};
    assert_int_equal(attn_decode_launch(op, &none), ATTN_OK);
    assert_int_equal(f->launches, 1);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(missing_masks_and_lists_are_refused)
{
    fake_reset();
    static const struct decode_kernel kernels[] = {
        {.name = "custom", .page_table = "indices", .mask = "custom"},
    };
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.mask = ATTN_MASK_CUSTOM;
    d.page_table = ATTN_PAGES_INDICES;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    const struct attn_decode_args good = decode_args();
    REFUSED((void)a, "custom_mask is NULL");
    REFUSED((a.custom_mask = (const uint8_t *)decode_tensor, a.mask_indptr = (const int64_t *)a.q),
            "kv_indptr or kv_indices is NULL");
    attn_op_destroy(op);
    close_bench(&b);
}
#undef REFUSED

/* A kernel that combines needs ticket counters, but only with a work list. */
TEST(one_launch_takes_tickets)
{
    struct fakehip *f = fake_reset();
    static const struct decode_kernel kernels[] = {{.name = "plain"},
                                                   {.name = "one", .one_launch = "true"}};
    struct bench b = decode_open(kernels, COUNT(kernels), 0);
    struct attn_decode_desc d = decode_desc();
    d.one_launch = true;
    struct attn_op *op;
    assert_int_equal(attn_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_decode_args a = decode_args();
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    static _Alignas(16) int32_t words[8];
    a.work_indptr = a.work_info = words;
    a.work_lists = 1;
    a.partial_out = a.partial_lse = (float *)(void *)decode_tensor;
    refused(attn_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "reduce_indptr is NULL");
    a.reduce_indptr = a.reduce_partial_map = words;
    refused(attn_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "tickets is NULL");
    a.tickets = words;
    assert_int_equal(attn_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(f->launches, 2);
    attn_op_destroy(op);
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
