/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests mla_decode in libattn: descriptors and launches with lists of slots, and what
 * ATTN_CHECK_DATA finds in the lists.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "attn_dlpack.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum {
    AT_KV_LENS = 0,
    AT_ENTRIES = 8,
    AT_PAGE = 16,
    AT_TOKEN = 24,
    AT_V_PAGE = 32,
    AT_V_TOKEN = 40,
    AT_V = 48,
    AT_SIZE = 56
};

static void add(struct attnc_pack_writer *w, const char *name, const char *sparse,
                const char *page_table, const char *kind)
{
    const bool packed = !strcmp(kind, "packed"), fp8 = !strcmp(kind, "fp8");
    const bool scaled = !strcmp(kind, "scaled"), planes = !strcmp(kind, "planes");
    const bool fp4 = !strcmp(kind, "fp4");
    const bool mixed = planes || fp4 || !strcmp(kind, "mixed");
    const bool two = mixed || !strcmp(kind, "two_sources");
    const struct attnc_pack_pair key[] = {
        {"dtype", "bf16"},
        {"gqa", "any"},
        {"head_dim", mixed ? "512" : "576"},
        {"head_dim_v", "512"},
        {"kv_dtype", packed || fp8 || scaled || mixed ? "fp8" : "same"},
        {"kv_layout", packed   ? "packed"
                      : planes ? "planes"
                      : fp4    ? "packed_fp4"
                      : mixed  ? "scales_last"
                               : "nhd"},
        {"kv_scale", scaled ? "tensor" : "none"},
        {"lse", "false"},
        {"mask", "causal"},
        {"one_launch", strcmp(kind, "one_launch") ? "false" : "true"},
        {"page_size", "any"},
        {"page_table", page_table},
        {"product_dim", "none"},
        {"same_rows", fp4 ? "true" : "false"},
        {"q_len", "1"},
        {"sharded", strcmp(kind, "sharded") ? "false" : "true"},
        {"sinks", "false"},
        {"sparse", sparse},
        {"two_sources", two ? "true" : "false"},
        {"weights", "same"},
        {"q_dtype", fp8 ? "fp8" : "same"},
    };
    static const struct attnc_pack_kernarg kernargs[] = {
        {"kv_lens", AT_KV_LENS, ATTN_KIND_I64},
        {"list_entries", AT_ENTRIES, ATTN_KIND_I32},
        {"k_page_stride", AT_PAGE, ATTN_KIND_I64},
        {"k_token_stride", AT_TOKEN, ATTN_KIND_I64},
        {"v_page_stride", AT_V_PAGE, ATTN_KIND_I64},
        {"v_token_stride", AT_V_TOKEN, ATTN_KIND_I64},
        {"v", AT_V, ATTN_KIND_I64},
    };
    add_small(w, (struct attnc_pack_kernel){
                     .name = name,
                     .op = "mla_decode",
                     .key = key,
                     .key_count = COUNT(key),
                     .kernargs = kernargs,
                     .kernarg_count = COUNT(kernargs),
                     .kernarg_size = AT_SIZE,
                 });
}

static struct bench open_kernels(uint32_t flags)
{
    struct attnc_pack_writer *w = attnc_pack_writer_create();
    add(w, "dense", "none", "blocks", "same");
    add(w, "fp8", "none", "blocks", "fp8");
    add(w, "sharded", "none", "blocks", "sharded");
    add(w, "once", "none", "blocks", "one_launch");
    add(w, "rows", "slots", "blocks", "same");
    add(w, "packed", "slots", "blocks", "packed");
    add(w, "scaled", "slots", "blocks", "scaled");
    add(w, "blocks", "blocks", "blocks", "same");
    add(w, "lists", "slots", "indices", "same");
    add(w, "two", "slots", "indices", "two_sources");
    add(w, "two mixed", "slots", "indices", "mixed");
    add(w, "two planes", "slots", "indices", "planes");
    add(w, "two fp4", "slots", "indices", "fp4");
    return open_writer(w, flags);
}

/* Returns a descriptor of a kernel with lists of slots: bf16, keys of 576 and values of 512
 * elements, 8 heads, pages of 16. */
static struct attn_mla_decode_desc desc(enum attn_page_table table)
{
    return (struct attn_mla_decode_desc){
        .size = sizeof(struct attn_mla_decode_desc),
        .dtype = ATTN_BF16,
        .head_dim = 576,
        .head_dim_v = 512,
        .heads = 8,
        .cache = {.page_size = 16},
        .page_table = table,
        .sparse = ATTN_SPARSE_SLOTS,
    };
}

static _Alignas(16) uint16_t tensor[8];
static const int32_t lens[] = {3, 0, 1};
static const int32_t rows[3][4] = {{159, -1, 0, 7000}, {0, 0, 0, 0}, {17, 0, 0, 0}};
static const int32_t indptr[] = {0, 3, 3, 4}, list[] = {159, -1, 0, 17};

/* Returns arguments with three queries, and a cache of 10 pages. */
static struct attn_mla_decode_args args(enum attn_page_table table)
{
    struct attn_mla_decode_args a = {
        .size = sizeof(struct attn_mla_decode_args),
        .stream = FAKE_STREAM,
        .q = tensor,
        .out = tensor,
        .cache = {.k = tensor, .page_count = 10},
        .pages = {.kv_lens = lens, .entries = 4},
        .batch = 3,
        .tokens = 3,
        .scale = 0.07f,
    };
    a.pages.block_table = table == ATTN_PAGES_BLOCKS ? rows[0] : NULL;
    a.pages.kv_indptr = table == ATTN_PAGES_INDICES ? indptr : NULL;
    a.pages.kv_indices = table == ATTN_PAGES_INDICES ? list : NULL;
    return a;
}

static struct attn_op *look_up(const struct bench *b, enum attn_page_table table, const char *name)
{
    const struct attn_mla_decode_desc d = desc(table);
    struct attn_op *op;
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_mla_decode_lookup(b->device, &d, &op))
        fail_msg("%s", attn_last_error());
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    assert_string_equal(info.kernel.name, name);
    return op;
}

TEST(lists_of_slots_have_kernels_of_their_own)
{
    fake_reset();
    struct bench b = open_kernels(0);
    attn_op_destroy(look_up(&b, ATTN_PAGES_BLOCKS, "rows"));
    attn_op_destroy(look_up(&b, ATTN_PAGES_INDICES, "lists"));
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.mask = ATTN_MASK_CUSTOM;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "sparse is not ATTN_SPARSE_NONE, mask is ATTN_MASK_CUSTOM");
    d = desc(ATTN_PAGES_BLOCKS);
    d.sparse = 3;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT, "sparse 3");
    close_bench(&b);
}

TEST(queries_of_fp8_have_a_scale)
{
    fake_reset();
    struct bench b = open_kernels(0);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.q_dtype = ATTN_FP8;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "q_dtype is ATTN_FP8, cache.dtype is not");
    d.q_dtype = ATTN_FP16;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "q_dtype 2 is neither dtype nor ATTN_FP8");
    d.q_dtype = ATTN_FP8;
    d.cache.dtype = ATTN_FP8;
    d.sparse = ATTN_SPARSE_NONE;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "q_scale is NULL");
    const float scale = 1;
    a.q_scale = &scale;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(two_sources_are_of_lists_of_rows)
{
    fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_INDICES);
    struct attn_op *op;
    d.two_sources = true;
    d.sparse = ATTN_SPARSE_BLOCKS;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "two_sources is set, sparse is not ATTN_SPARSE_SLOTS");
    d.sparse = ATTN_SPARSE_SLOTS;
    d.cache.dtype = ATTN_FP8;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "two_sources is set, and rows of the cache are ATTN_KV_PACKED, or ATTN_FP8 and "
            "ATTN_KV_NHD");
    d.cache.dtype = 0;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_INDICES);
    const int32_t far[] = {159, 1000, 1002, 17};
    a.pages.kv_indices = far;
    a.second_first = 1000;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "second is NULL");
    a.second = tensor;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT,
            "desc.two_sources is set, second_rows is 0");
    a.second_rows = 3;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.second_rows = 2;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 2 of list 0 is 1002, the cache has 160 slots, second has too few rows");
    close_bench(&b);
}

/* A second source of rows of scales_last has pages. Their rows may be more than 2^31. */
TEST(second_pages_have_many_rows)
{
    fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_INDICES);
    struct attn_op *op;
    d.two_sources = true;
    d.head_dim = 512;
    d.cache = (struct attn_cache_desc){
        .dtype = ATTN_FP8, .layout = ATTN_KV_SCALES_LAST, .page_size = 256};
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_INDICES);
    const int32_t far[] = {159, 3000, INT32_MAX, 17}, near[] = {159, 3000, 3512, 17};
    a.pages.kv_indices = far;
    a.second = tensor;
    a.second_first = 3000;
    a.second_rows = 1 << 24;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.pages.kv_indices = near;
    a.second_rows = 2;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 2 of list 0 is 3512, the cache has 2560 slots, second has too few rows");
    close_bench(&b);
}

TEST(rows_of_e2m1_are_in_both_sources)
{
    fake_reset();
    struct bench b = open_kernels(0);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_INDICES);
    struct attn_op *op;
    d.head_dim = 512;
    d.cache =
        (struct attn_cache_desc){.dtype = ATTN_FP8, .layout = ATTN_KV_PACKED_FP4, .page_size = 64};
    d.same_rows = true;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "same_rows is set, two_sources is not");
    d.two_sources = true;
    d.cache.layout = ATTN_KV_PACKED_MXFP8;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "same_rows is set, cache.layout is neither ATTN_KV_PACKED_FP4 nor");
    d.cache.layout = ATTN_KV_PACKED_FP4;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_INDICES);
    a.second = tensor;
    a.second_first = 1000;
    a.second_rows = 2;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.second_row_stride = 288 + 4;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "second");
    close_bench(&b);
}

TEST(a_shard_is_one_of_several)
{
    fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.sharded = true;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "sharded is set, sparse is not ATTN_SPARSE_NONE");
    d.sparse = ATTN_SPARSE_NONE;
    d.mask = ATTN_MASK_CUSTOM;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "sharded is set, mask is not ATTN_MASK_CAUSAL");
    d.mask = ATTN_MASK_CAUSAL;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    const int32_t some[] = {1, 0, 0}, none[3] = {0}, broken[] = {8, -1, 2};
    static const int32_t pages[3][4];
    a.pages.kv_lens = some;
    a.pages.block_table = pages[0];
    a.shards = a.shard = 2;
    a.context_lens = none;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "shard is not below shards");
    a.shard = 1;
    a.context_lens = NULL;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "context_lens is NULL");
    a.context_lens = broken;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "context_lens[1] is -1");
    attn_op_destroy(op);
    close_bench(&b);
}

/* Returns the n-th argument of the last launch. */
static int64_t handed(const struct fakehip *fake, int at, size_t size)
{
    int64_t v = 0;
    memcpy(&v, fake->kernargs + at, size);
    return v;
}

TEST(packed_rows_are_of_one_kind)
{
    const struct fakehip *const fake = fake_reset();
    struct bench b = open_kernels(0);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.cache.layout = ATTN_KV_PACKED;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "a cache with layout PACKED has one head of 512 + 64 elements, dtype ATTN_FP8");
    d.cache.dtype = ATTN_FP8;
    d.cache.scale = ATTN_KV_SCALE_TENSOR;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "dtype ATTN_FP8 and scale NONE or E8M0");
    d.cache.scale = ATTN_KV_SCALE_E8M0;
    d.cache.layout = ATTN_KV_NHD;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "cache.scale says e8m0, which is of layout PACKED; cache.layout says nhd");
    d.cache.scale = ATTN_KV_SCALE_NONE;
    d.cache.layout = ATTN_KV_SHUFFLE;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "cache.layout is ATTN_KV_SHUFFLE or ATTN_KV_SHUFFLE_K");
    d.cache.layout = ATTN_KV_PACKED;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(handed(fake, AT_TOKEN, 8), 656);
    assert_int_equal(handed(fake, AT_PAGE, 8), 16 * 656);
    a.cache.v_page_stride = a.cache.v_token_stride = a.cache.v_head_stride = -1; /* not read */
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    d.cache.layout = ATTN_KV_SCALES_LAST;
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "a cache with layout scales_last has one head of 512 elements that are key and value");
    d.head_dim = 512;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_NO_KERNEL);
    static const enum attn_kv_layout of_one_type[] = {ATTN_KV_PACKED_FP4, ATTN_KV_PACKED_MXFP4,
                                                      ATTN_KV_PACKED_MXFP8};
    for (unsigned i = 0; i < sizeof(of_one_type) / sizeof(of_one_type[0]); i++) {
        d.cache.layout = of_one_type[i];
        d.cache.scale = ATTN_KV_SCALE_NONE;
        assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_NO_KERNEL);
        d.cache.scale = ATTN_KV_SCALE_TENSOR;
        refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
                " has one head of 512 elements that are key and value");
    }
    close_bench(&b);
}

/* Rows of planes are in two tensors of bytes, of the cache and of the second source. */
TEST(rows_are_in_two_tensors)
{
    const struct fakehip *const fake = fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_INDICES);
    struct attn_op *op;
    d.two_sources = true;
    d.cache =
        (struct attn_cache_desc){.dtype = ATTN_FP8, .layout = ATTN_KV_PLANES, .page_size = 16};
    refused(attn_mla_decode_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "a cache with layout planes has one head of 512 elements that are key and value");
    d.head_dim = 512;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_INDICES);
    static _Alignas(16) uint8_t plane[16];
    const int32_t far[] = {159, 1000, 1002, 17};
    a.pages.kv_indices = far;
    a.second = tensor;
    a.second_first = 1000;
    a.second_rows = 3;
    a.cache.v = NULL;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "second_rotated is NULL");
    a.second_rotated = tensor;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "k or v is NULL");
    a.cache.v = plane;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(handed(fake, AT_TOKEN, 8), 512);
    assert_int_equal(handed(fake, AT_PAGE, 8), 16 * 512);
    assert_int_equal(handed(fake, AT_V_TOKEN, 8), 128);
    assert_int_equal(handed(fake, AT_V_PAGE, 8), 16 * 128);
    assert_true(handed(fake, AT_V, 8) == (int64_t)(uintptr_t)plane);
    a.cache.v_page_stride = 4096;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    assert_int_equal(handed(fake, AT_V_PAGE, 8), 4096);
    a.second_rows = 2;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 2 of list 0 is 1002, the cache has 160 slots, second has too few rows");
    attn_op_destroy(op);
    close_bench(&b);
}

/* A tensor of packed rows has bytes: 512 elements, 4 scales and 64 elements of 16 bits. A cache
 * with one scale takes the scale as a tensor too. */
TEST(tensors_are_rows_of_the_cache_and_its_scale)
{
    fake_reset();
    struct bench b = open_kernels(0);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.cache.layout = ATTN_KV_PACKED;
    d.cache.dtype = ATTN_FP8;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    enum { Q, OUT, CACHE, LENS, TABLE, SCALE, N };
    int64_t shape[N][4] = {{3, 8, 576}, {3, 8, 512}, {10, 16, 1, 656}, {3}, {3, 4}, {1}};
    static const struct {
        int ndim;
        DLDataType dtype;
    } kind[N] = {{3, {kDLBfloat, 16, 1}}, {3, {kDLBfloat, 16, 1}}, {4, {kDLUInt, 8, 1}},
                 {1, {kDLInt, 32, 1}},    {2, {kDLInt, 32, 1}},    {1, {kDLFloat, 32, 1}}};
    DLTensor t[N];
    for (int i = 0; i < N; i++)
        t[i] = (DLTensor){.data = tensor,
                          .device = {kDLROCM, 0},
                          .ndim = kind[i].ndim,
                          .dtype = kind[i].dtype,
                          .shape = shape[i]};
    struct attn_mla_decode_tensors given = {.size = sizeof(given),
                                            .q = &t[Q],
                                            .out = &t[OUT],
                                            .k_cache = &t[CACHE],
                                            .kv_lens = &t[LENS],
                                            .block_table = &t[TABLE]};
    struct attn_mla_decode_args a = {.size = sizeof(a)};
    assert_int_equal(attn_mla_decode_set_tensors(op, &given, &a), ATTN_OK);
    assert_int_equal(a.cache.k_page_stride, 16 * 656);
    assert_int_equal(a.cache.k_token_stride, 656);
    assert_int_equal(a.cache.page_count, 10);
    shape[CACHE][3] = 576;
    refused(attn_mla_decode_set_tensors(op, &given, &a), ATTN_BAD_ARGUMENT,
            "k_cache: dimension 3 is 576, 656 is needed");
    attn_op_destroy(op);
    d.cache.layout = ATTN_KV_NHD;
    d.cache.scale = ATTN_KV_SCALE_TENSOR;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    refused(attn_mla_decode_set_tensors(op, &given, &a), ATTN_BAD_ARGUMENT, "k_scale is NULL");
    given.k_scale = &t[SCALE];
    assert_int_equal(attn_mla_decode_set_tensors(op, &given, &a), ATTN_OK);
    assert_ptr_equal(a.cache.k_scale, tensor);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(lists_may_have_no_lengths)
{
    const struct fakehip *const fake = fake_reset();
    struct bench b = open_kernels(0);
    struct attn_op *op = look_up(&b, ATTN_PAGES_BLOCKS, "rows");
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    assert_true(handed(fake, AT_KV_LENS, 8) == (int64_t)(uintptr_t)lens);
    a.pages.kv_lens = NULL;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    assert_true(handed(fake, AT_KV_LENS, 8) == 0);
    assert_int_equal(handed(fake, AT_ENTRIES, 4), 4);
    a.pages.block_table_stride = 4;
    a.pages.entries = 0;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT,
            "kv_lens is NULL, and entries is not set");
    attn_op_destroy(op);
    op = look_up(&b, ATTN_PAGES_INDICES, "lists");
    a = args(ATTN_PAGES_INDICES);
    a.pages.kv_lens = NULL;
    a.pages.entries = 0;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.pages.kv_indptr = NULL;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "kv_indptr or kv_indices is NULL");
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(slots_are_checked_on_request)
{
    fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_op *op = look_up(&b, ATTN_PAGES_BLOCKS, "rows");
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    const int32_t many[] = {3, 0, 5}, negative[] = {3, -1, 1}, all[] = {4, 0, 1};
    a.pages.kv_lens = many;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "kv_lens[2] is 5; the list has 4 slots");
    a.pages.kv_lens = negative;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "kv_lens[1] is -1");
    a.pages.kv_lens = all;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 3 of list 0 is 7000, the cache has 160");
    a.pages.kv_lens = NULL;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 3 of list 0 is 7000, the cache has 160");
    a.cache.page_count = 0; /* not given */
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    op = look_up(&b, ATTN_PAGES_INDICES, "lists");
    a = args(ATTN_PAGES_INDICES);
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.pages.kv_lens = NULL;
    a.cache.page_count = 9;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "slot 0 of list 0 is 159, the cache has 144");
    a.pages.kv_lens = many;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "slot 0 of list 0 is 159");
    a.pages.entries = 3;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "kv_indptr[3] is 4");
    attn_op_destroy(op);
    close_bench(&b);
}

/* The third block has 32 of the 160 slots. */
TEST(blocks_are_checked_on_request)
{
    fake_reset();
    static const int32_t whole[] = {256, 0, 64}, more[] = {257, 0, 64}, ends[] = {96, 0, 33};
    static const int32_t blocks[3][4] = {{1, 2, -1, 3}, {0, 0, 0, 0}, {2, 0, 0, 0}};
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    struct attn_op *op;
    d.sparse = ATTN_SPARSE_BLOCKS;
    assert_int_equal(attn_mla_decode_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    a.pages.block_table = blocks[0];
    a.pages.kv_lens = more;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "kv_lens[0] is 257; the list has 256 slots");
    a.pages.kv_lens = whole;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "block 1 of list 0 is 2, the cache has 160 slots");
    a.pages.kv_lens = ends;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "block 0 of list 2 is 2, the cache has 160 slots");
    static const int32_t fit[] = {96, 0, 32};
    a.pages.kv_lens = fit;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    close_bench(&b);
}

/* A sequence has a cache line of tickets; only its first count must be 0 between launches. */
TEST(lines_of_tickets_are_checked_on_request)
{
    fake_reset();
    struct bench b = open_kernels(ATTN_CHECK_DATA);
    struct attn_mla_decode_desc d = desc(ATTN_PAGES_BLOCKS);
    d.sparse = ATTN_SPARSE_NONE;
    d.one_launch = true;
    struct attn_op *op;
    if (attn_mla_decode_lookup(b.device, &d, &op))
        fail_msg("%s", attn_last_error());
    static const int32_t pages[3] = {0, 1, 2};
    static _Alignas(16) int32_t words[8], parts[4] = {0, 2, 2, 4}, tickets[3][32];
    struct attn_mla_decode_args a = args(ATTN_PAGES_BLOCKS);
    a.pages.block_table = pages;
    a.pages.entries = 1;
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    a.work_indptr = a.work_info = words;
    a.work_lists = 1;
    a.partial_out = a.partial_lse = (float *)(void *)tensor;
    a.partial_rows = 4;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "reduce_indptr is NULL");
    a.reduce_indptr = parts;
    a.reduce_partial_map = words;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_ARGUMENT, "tickets is NULL");
    a.tickets = tickets[0];
    assert_int_equal(attn_mla_decode_launch(op, &a), ATTN_OK);
    tickets[2][0] = 1;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "tickets[64] is 1, and 0 between launches");
    tickets[2][0] = 0;
    tickets[1][1] = 7;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA,
            "tickets[33] is 7, and 0 between launches");
    tickets[1][1] = 0;
    parts[3] = 5;
    refused(attn_mla_decode_launch(op, &a), ATTN_BAD_DATA, "reduce_indptr");
    attn_op_destroy(op);
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
