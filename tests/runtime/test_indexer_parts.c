/* SPDX-License-Identifier: Apache-2.0 */
/* Tests into how many parts libattn cuts the keys of an indexer row, the memory of their lists,
 * and how head_product divides its rows. */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "runtime/host.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { UNITS_MI300X = 304 };

static struct attn_indexer_topk_desc desc_of(int32_t top_k, int32_t top_blocks)
{
    return (struct attn_indexer_topk_desc){
        .size = sizeof(struct attn_indexer_topk_desc),
        .top_k = top_k,
        .heads = 64,
        .top_blocks = top_blocks,
    };
}

static struct attn_indexer_topk_workspace choose(int32_t top_k, int32_t top_blocks, int32_t rows,
                                                 int32_t keys)
{
    const struct attn_indexer_topk_desc d = desc_of(top_k, top_blocks);
    const struct attn_indexer_topk_shape s = {sizeof(s), rows, keys, UNITS_MI300X};
    struct attn_indexer_topk_workspace w;
    assert_int_equal(attn_indexer_topk_workspace_size(&d, &s, &w), ATTN_OK);
    return w;
}

TEST(parts_fill_the_gpu_and_stay_long)
{
    static const struct {
        int32_t top_k, rows, keys, splits;
    } cases[] = {
        {2048, 64, 65536, 4},   /* 256 workgroups; 5 parts would need two rounds */
        {2048, 1, 65536, 32},   /* one round of 2,048 keys, and no selection */
        {2048, 1, 100000, 25},  /* two rounds: more parts would have as many */
        {2048, 14, 100000, 17}, /* three rounds, where there are units for 21 parts */
        {512, 1, 65536, 32},    {2048, 1, 4096, 2},    {512, 1, 4096, 2},
        {2048, 152, 65536, 2},  {2048, 153, 65536, 1}, {2048, 4096, 1 << 20, 1},
        {2048, 1, 1 << 20, 74}, {4096, 1, 65536, 16},  {2048, 0, 65536, 32},
        {2048, 1, 0, 1},        {2048, 1, 2048, 1},    {2048, INT32_MAX, 1, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_indexer_topk_workspace w =
            choose(cases[i].top_k, 0, cases[i].rows, cases[i].keys);
        if (w.splits != cases[i].splits)
            fail_msg("top_k %d, %d rows of %d keys: %d parts, not %d", cases[i].top_k,
                     cases[i].rows, cases[i].keys, w.splits, cases[i].splits);
    }
}

/* A compute unit of MI300X holds two workgroups; one of MI355X holds three with mxfp4 keys. */
TEST(workgroups_that_share_a_unit_count)
{
    static const struct {
        int32_t top_k, top_blocks, rows, units, splits;
    } cases[] = {
        {512, 0, 64, 2 * 304, 9}, {512, 0, 1, 3 * 256, 171},  {64, 64, 16, 4096, 256},
        {4096, 4096, 1, 512, 57}, {4096, 4096, 16, 4096, 31}, /* all 511 parts have memory */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_indexer_topk_desc d = desc_of(cases[i].top_k, cases[i].top_blocks);
        const struct attn_indexer_topk_shape s = {sizeof(s), cases[i].rows, 1 << 20,
                                                  cases[i].units};
        struct attn_indexer_topk_workspace w;
        assert_int_equal(attn_indexer_topk_workspace_size(&d, &s, &w), ATTN_OK);
        assert_int_equal(w.splits, cases[i].splits);
        assert_true(w.bytes < 32 << 20);
    }
}

/* 75 rows have memory for the 300 parts that longer rows would have, 4 of 4,096 keys each. */
TEST(lists_are_contiguous)
{
    struct attn_indexer_topk_workspace w = choose(510, 3, 75, 4096);
    assert_int_equal(w.splits, 2);
    assert_int_equal(w.indices, 0);
    assert_int_equal(w.values, 75 * 4 * 510 * 4);
    assert_int_equal(w.blocks, 2 * w.values);
    assert_int_equal(w.block_values, w.blocks + 75 * 4 * 3 * 4);
    assert_int_equal(w.bytes, w.blocks + 2 * (75 * 4 * 3 * 4));
    w = choose(511, 3, 3, 2048); /* 2 parts: neither 6 x 511 nor 6 x 3 words are multiples of 16 */
    assert_int_equal(w.values % 16 + w.blocks % 16 + w.block_values % 16 + w.bytes % 16, 0);
    assert_true(w.values >= 6 * 511 * 4 && w.values < 6 * 511 * 4 + 16);
    assert_int_equal(choose(2048, 2048, 16384, 4095).bytes, 0); /* too few keys for two parts */
}

/* Fails if a call of these rows and keys has more lists than memory at `w`, or if it has more
 * memory than `room`. Returns its bytes. */
static size_t check_room(int32_t top_k, int32_t rows, int32_t keys, size_t room)
{
    const struct attn_indexer_topk_workspace w = choose(top_k, top_k / 8, rows, keys);
    const size_t lists = w.splits > 1 ? (size_t)rows * (size_t)w.splits : 0;
    const size_t list = 4 * (size_t)top_k, blocks = 4 * (size_t)(top_k / 8);
    if (w.indices + lists * list > w.values || w.values + lists * list > w.blocks ||
        w.blocks + lists * blocks > w.block_values || w.block_values + lists * blocks > w.bytes)
        fail_msg("top_k %d, %d rows of %d keys: %d parts exceed %zu bytes", top_k, rows, keys,
                 w.splits, w.bytes);
    if (w.bytes > room)
        fail_msg("top_k %d, %d rows of %d keys take %zu bytes, and more keys or rows %zu", top_k,
                 rows, keys, w.bytes, room);
    return w.bytes;
}

/* Memory for the most rows and keys suffices for each call with fewer. Parts may be more: a part of
 * exactly top_k keys selects nothing. */
TEST(memory_never_falls_with_more_keys_or_rows)
{
    static const int32_t rows[] = {4096, 305, 304, 153, 152, 8, 3, 1, 0};
    assert_int_equal(choose(2048, 0, 1, 39 * 2048).splits, 39);
    assert_int_equal(choose(2048, 0, 1, 39 * 2048 + 64).splits, 20);
    for (int32_t top_k = 8; top_k <= 4096; top_k *= 8) {
        size_t room[sizeof(rows) / sizeof(rows[0])];
        memset(room, -1, sizeof(room));
        for (int32_t keys = 160 * 2048 + 1; keys > 0; keys -= keys % 2048 == 1 ? 1 : 2047)
            for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
                room[r] = check_room(top_k, rows[r], keys,
                                     r && room[r - 1] < room[r] ? room[r - 1] : room[r]);
    }
}

TEST(no_shape_takes_32_mib)
{
    for (int32_t rows = 1; rows <= 512; rows++) {
        const struct attn_indexer_topk_workspace w = choose(4096, 4096, rows, INT32_MAX);
        if (w.bytes > 32 << 20)
            fail_msg("%d rows: %d parts take %zu bytes", rows, w.splits, w.bytes);
    }
}

static struct attn_indexer_topk_workspace plan_of(int32_t top_k, int32_t top_blocks, int32_t rows,
                                                  int32_t keys, int32_t units)
{
    struct attn_indexer_topk_desc d = desc_of(top_k, top_blocks);
    d.planned = true;
    const struct attn_indexer_topk_shape s = {sizeof(s), rows, keys, units};
    struct attn_indexer_topk_workspace w;
    assert_int_equal(attn_indexer_topk_workspace_size(&d, &s, &w), ATTN_OK);
    return w;
}

/* Makes a plan for a first row of `keys` keys and other rows of one key. Returns the largest
 * number of parts of a row. */
static int32_t parts_of_plan(const struct attn_indexer_topk_workspace *w, int32_t rows,
                             int32_t keys)
{
    const struct attn_decode_plan_shape shape = {
        .size = sizeof(shape),
        .batch = rows,
        .q_len = 1,
        .heads = 1,
        .kv_heads = 1,
        .lists = w->lists,
        .item_cost = w->item_cost,
        .merge_rate = w->merge_rate,
    };
    struct attn_decode_plan_sizes sizes;
    assert_int_equal(attn_decode_plan_sizes(&shape, &sizes), ATTN_OK);
    assert_true(w->work_info + 32 * (size_t)sizes.work_items <= w->reduce_indptr);
    assert_true(w->reduce_partial_map + 4 * (size_t)sizes.partials <= w->bytes);
    int32_t *lens = calloc((size_t)rows, sizeof(*lens));
    char *memory = malloc(w->bytes);
    assert_non_null(lens);
    assert_non_null(memory);
    for (int32_t r = 0; r < rows; r++)
        lens[r] = r ? 1 : keys;
    const struct attn_decode_plan plan = {
        .work_indptr = (int32_t *)(memory + w->work_indptr),
        .work_info = (int32_t *)(memory + w->work_info),
        .reduce_indptr = (int32_t *)(memory + w->reduce_indptr),
        .reduce_final_map = (int32_t *)(memory + w->reduce_final_map),
        .reduce_partial_map = (int32_t *)(memory + w->reduce_partial_map),
    };
    const struct attn_decode_plan_lengths lengths = {.kv_lens = lens};
    assert_int_equal(attn_decode_plan(&shape, &lengths, &plan), ATTN_OK);
    const int32_t parts = plan.reduce_indptr[1];
    assert_true(plan.reduce_indptr[rows] <= sizes.partials);
    free(memory);
    free(lens);
    return parts;
}

/* For any lengths, no row has more parts than its runs hold. */
TEST(a_plan_fits_its_runs)
{
    static const int32_t rows[] = {1, 2, 64, 303, 304, 305, 1000};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int32_t keys = 1; keys <= 1 << 20; keys = keys * 7 / 4 + 1) {
            const struct attn_indexer_topk_workspace w =
                plan_of(2048, 0, rows[i], keys, UNITS_MI300X);
            const int32_t parts = parts_of_plan(&w, rows[i], keys);
            const int32_t room = w.run ? w.run * w.runs : 32;
            if (parts > room)
                fail_msg("%d rows of %d keys: %d parts, room for %d", rows[i], keys, parts, room);
        }
}

/* The lists of parts and of their runs are disjoint. A row's runs begin at half the number of its
 * first part. */
TEST(lists_of_a_plan_have_memory_of_their_own)
{
    static const struct {
        int32_t top_k, top_blocks, rows, keys;
    } cases[] = {{511, 3, 5, 4096}, {512, 63, 5, 1 << 20}, {2048, 0, 64, 1 << 20}, {1, 1, 400, 9}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_indexer_topk_workspace w =
            plan_of(cases[i].top_k, cases[i].top_blocks, cases[i].rows, cases[i].keys, 40);
        const struct attn_decode_plan_shape shape = {
            .size = sizeof(shape),
            .batch = cases[i].rows,
            .q_len = 1,
            .heads = 1,
            .kv_heads = 1,
            .lists = w.lists,
        };
        struct attn_decode_plan_sizes sizes;
        assert_int_equal(attn_decode_plan_sizes(&shape, &sizes), ATTN_OK);
        const size_t parts = (size_t)sizes.partials, runs = w.run ? parts / 2 : 0;
        const size_t keys = 4 * (size_t)cases[i].top_k, blocks = 4 * (size_t)cases[i].top_blocks;
        const struct {
            size_t at, bytes;
        } tensors[] = {
            {w.indices, parts * keys},
            {w.values, parts * keys},
            {w.blocks, parts * blocks},
            {w.block_values, parts * blocks},
            {w.run_indices, runs * keys},
            {w.run_values, runs * keys},
            {w.run_blocks, runs * blocks},
            {w.run_block_values, runs * blocks},
            {w.work_indptr, 4 * ((size_t)w.lists + 1)},
            {w.work_info, 32 * (size_t)sizes.work_items},
            {w.reduce_indptr, 4 * ((size_t)cases[i].rows + 1)},
            {w.reduce_final_map, 8 * (size_t)cases[i].rows},
            {w.reduce_partial_map, 4 * parts},
            {w.bytes, 0},
        };
        for (size_t k = 0; k + 1 < sizeof(tensors) / sizeof(tensors[0]); k++) {
            assert_int_equal(tensors[k].at % 16, 0);
            if (tensors[k].at + tensors[k].bytes > tensors[k + 1].at)
                fail_msg("case %zu: tensor %zu reaches into the next one", i, k);
        }
    }
}

/* A row has at most as many parts as the plan's smallest pieces, and at most as many as lists. 32
 * parts are merged at once; 33 make three runs of 16. */
TEST(runs_are_as_many_as_a_row_needs)
{
    static const struct {
        int32_t keys, units, run, runs;
    } cases[] = {
        {0, 304, 0, 1},         {16384, 304, 0, 1},  {16385, 304, 16, 3},
        {65536, 304, 16, 4},    {65537, 304, 16, 5}, {1 << 19, 304, 16, 17},
        {1 << 20, 304, 16, 19}, {65536, 40, 16, 3},  {1 << 20, 32, 0, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_indexer_topk_workspace w =
            plan_of(512, 0, 64, cases[i].keys, cases[i].units);
        if (w.run != cases[i].run || w.runs != cases[i].runs)
            fail_msg("%d keys, %d units: %d runs of %d", cases[i].keys, cases[i].units, w.runs,
                     w.run);
    }
}

TEST(no_plan_takes_32_mib)
{
    static const int32_t units[] = {1, 256, UNITS_MI300X, 512},
                         rows[] = {0, 1, 64, 304, 512, 4096, 131072};
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
            for (int32_t k = 512; k <= 4096; k *= 2) {
                const struct attn_indexer_topk_workspace w =
                    plan_of(k, k, rows[r], INT32_MAX, units[u]);
                assert_true(w.bytes <= 32 << 20 && w.lists >= 1);
            }
    const struct attn_indexer_topk_workspace w = plan_of(2048, 0, 64, 1 << 20, UNITS_MI300X);
    assert_int_equal(w.lists, UNITS_MI300X);
    assert_int_equal(w.run, 16);
    assert_int_equal(w.splits, 1);
    assert_int_equal(plan_of(2048, 0, 64, 16384, UNITS_MI300X).run, 0);
}

/* Fails unless each tensor of the workspace of a plan has memory of its own: an index and a score
 * for each key and block of a partial result or of a run, and the arrays of attn_plan. */
static void check_tensors_of_plan(int32_t top_k, int32_t top_blocks, int32_t rows, int32_t keys)
{
    const struct attn_indexer_topk_workspace w = plan_of(top_k, top_blocks, rows, keys, 304);
    const size_t lists = (size_t)w.lists, pieces = (size_t)rows + lists - 1;
    const size_t partials = pieces < 2 * (lists - 1) ? pieces : 2 * (lists - 1);
    const size_t runs = w.run ? partials / 2 : 0, key = 4 * (size_t)top_k,
                 block = 4 * (size_t)top_blocks;
    const struct {
        const char *name;
        size_t at, bytes;
    } tensors[] = {
        {"indices", w.indices, partials * key},
        {"values", w.values, partials * key},
        {"blocks", w.blocks, partials * block},
        {"block_values", w.block_values, partials * block},
        {"run_indices", w.run_indices, runs * key},
        {"run_values", w.run_values, runs * key},
        {"run_blocks", w.run_blocks, runs * block},
        {"run_block_values", w.run_block_values, runs * block},
        {"work_indptr", w.work_indptr, 4 * (lists + 1)},
        {"work_info", w.work_info, 32 * pieces},
        {"reduce_indptr", w.reduce_indptr, 4 * ((size_t)rows + 1)},
        {"reduce_final_map", w.reduce_final_map, 8 * (size_t)rows},
        {"reduce_partial_map", w.reduce_partial_map, 4 * partials},
    };
    const size_t count = sizeof(tensors) / sizeof(tensors[0]);
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].at % 16 || tensors[i].at + tensors[i].bytes > w.bytes)
            fail_msg("%d rows of %d keys: %s at %zu of %zu bytes", rows, keys, tensors[i].name,
                     tensors[i].at, w.bytes);
        for (size_t j = 0; j < i; j++)
            if (tensors[j].at < tensors[i].at + tensors[i].bytes &&
                tensors[i].at < tensors[j].at + tensors[j].bytes)
                fail_msg("%d rows of %d keys: %s and %s overlap", rows, keys, tensors[j].name,
                         tensors[i].name);
    }
}

TEST(each_tensor_of_a_plan_has_its_memory)
{
    static const int32_t rows[] = {1, 3, 64, 1000};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (int32_t keys = 4096; keys <= 1 << 20; keys *= 16) {
            check_tensors_of_plan(511, 0, rows[r], keys);
            check_tensors_of_plan(33, 5, rows[r], keys);
        }
}

TEST(what_is_out_of_range_is_refused)
{
    struct attn_indexer_topk_desc d = desc_of(2048, 0);
    struct attn_indexer_topk_shape s = {sizeof(s), 64, 65536, UNITS_MI300X};
    struct attn_indexer_topk_workspace w;
#define REFUSED(text) refused(attn_indexer_topk_workspace_size(&d, &s, &w), ATTN_BAD_ARGUMENT, text)
    d.size = 1;
    REFUSED("indexer_topk: desc.size is 1, less than 16");
    d = desc_of(0, 0);
    REFUSED("top_k 0");
    d = desc_of(2048, 4097);
    REFUSED("top_blocks 4097 not in 0 to 4096");
    d = desc_of(2048, 0);
    s.compute_units = 0;
    REFUSED("compute_units 0 is not in 1 to 4096");
    s.compute_units = 4097;
    REFUSED("compute_units 4097 is not in 1 to 4096");
    s.compute_units = UNITS_MI300X;
    s.rows = -1;
    REFUSED("rows -1");
    s.rows = 64;
    s.max_keys = -1;
    REFUSED("max_keys -1");
    s.max_keys = 1;
    d.planned = true;
    s.rows = 131073;
    REFUSED("131073 rows of a planned call");
    s.rows = 64;
    d.listed = true;
    REFUSED("planned is set, and listed");
    d = desc_of(2048, 0);
#undef REFUSED
    s.max_keys = 1;
    assert_int_equal(attn_indexer_topk_workspace_size(NULL, &s, &w), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_indexer_topk_workspace_size(&d, NULL, &w), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_indexer_topk_workspace_size(&d, &s, NULL), ATTN_BAD_ARGUMENT);
}

/* Workgroups of indexer_logits: fewer with more columns each if there are enough rows. */
TEST(columns_of_logits_are_shared_out)
{
    static const struct {
        int32_t rows, columns, part, parts;
    } cases[] = {
        {1, 1, 1024, 1},
        {8, 8192, 1024, 8},
        {64, 4096, 1024, 4},
        {128, 4096, 2048, 2},
        {128, 4095, 1024, 4},
        {64, 32768, 8192, 4},
        {2048, 8192, 8192, 1},
        {2048, 8193, 8192, 2},
        {INT32_MAX, 1 << 28, 8192, 1 << 15},
        {1, 1 << 28, 8192, 1 << 15},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_indexer_logits_args a = {.rows = cases[i].rows,
                                                   .columns = cases[i].columns};
        union attn_value v[ATTN_ARG_COUNT];
        assert_int_equal(attn_indexer_logits_fill(NULL, &a, v), ATTN_OK);
        assert_int_equal(v[ATTN_ARG_PART_COLUMNS].i64, cases[i].part);
        assert_int_equal(v[ATTN_ARG_COLUMN_PARTS].i64, cases[i].parts);
    }
}

/* head_product: with few tokens a workgroup has 32 rows of w, otherwise groups of tokens share 128
 * rows. */
TEST(few_tokens_share_columns)
{
    static const struct {
        int32_t heads, head_dim, tokens;
        int64_t share, workgroups;
    } cases[] = {
        {16, 512, 1, 1, 64},     {16, 512, 128, 1, 64},   {16, 512, 129, 0, 48},
        {127, 512, 129, 0, 381}, {128, 512, 129, 1, 512}, {128, 512, 256, 1, 512},
        {128, 512, 257, 0, 640}, {16, 448, 1, 0, 16},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_head_product_desc d = {
            .head_dim = cases[i].head_dim, .head_dim_v = 128, .heads = cases[i].heads};
        const struct attn_head_product_args a = {.tokens = cases[i].tokens};
        union attn_value v[ATTN_ARG_COUNT];
        assert_int_equal(attn_head_product_fill(&d, &a, v), ATTN_OK);
        assert_int_equal(v[ATTN_ARG_SHARE_COLUMNS].i64, cases[i].share);
        assert_int_equal(v[ATTN_ARG_WORKGROUPS].i64, cases[i].workgroups);
    }
}

int main(void) { return run_unit_tests(); }
