/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds the host planner to what docs/planning.md promises of any batch: every page of
 * every sequence once and in order, no more items than there is room for, balanced lists, and the
 * partial rows that the reduction names. Random batches, and the closed form written out once more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/attn.h"
#include "tests/runtime/fixture.h"

enum { BATCH_MAX = 40, LISTS_MAX = 320, HEADS_MAX = 8, INFO = 8 };
enum { ITEMS_MAX = (BATCH_MAX + LISTS_MAX) * HEADS_MAX, UNWRITTEN = -77 };

struct case_ {
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan_lengths lengths;
    int32_t kv_lens[BATCH_MAX], qo[BATCH_MAX + 1], pages[BATCH_MAX + 1];
    int32_t work_indptr[LISTS_MAX + 2], work_info[ITEMS_MAX][INFO];
    int32_t reduce_indptr[BATCH_MAX + 2], final_map[BATCH_MAX + 1][2];
    int32_t partial_map[BATCH_MAX + LISTS_MAX + 1];
};

static uint64_t random_state = 1;

static int32_t below(int32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int32_t)((random_state >> 33) % (uint64_t)n);
}

static int32_t keys_of(const struct case_ *c, int32_t b)
{
    return c->kv_lens[b] > 0 ? c->kv_lens[b] : 0;
}

/* As many whole pages as have n tokens. */
static int32_t tokens_of_pages(const struct case_ *c, int32_t n)
{
    int32_t tokens = c->shape.page_size;
    while (tokens < n)
        tokens += c->shape.page_size;
    return tokens;
}

/* Key by key: the first page with a key that a query sees, which stands in as many pages as have 16
 * tokens. */
static int32_t skipped_pages(const struct case_ *c, int32_t b)
{
    int32_t first = keys_of(c, b) - c->shape.q_len - (c->shape.window - 1);
    if (c->shape.window == 0 || first < 0)
        return 0;
    while (first % tokens_of_pages(c, 16))
        first--;
    return first / c->shape.page_size;
}

static int32_t pages_of(const struct case_ *c, int32_t b)
{
    return (keys_of(c, b) + c->shape.page_size - 1) / c->shape.page_size;
}

static void make_case(struct case_ *c)
{
    static const int32_t heads[] = {1, 2, 4, 8}, longest[] = {1, 40, 700, 20000};
    const int32_t kv_heads = heads[below(4)];
    c->shape = (struct attn_decode_plan_shape){
        .size = sizeof(c->shape),
        .batch = below(BATCH_MAX + 1),
        .q_len = 1 + below(4),
        .page_size = below(2) ? 1 << below(11) : 1 + below(1100),
        .heads = kv_heads * (1 + below(16)),
        .kv_heads = kv_heads,
        .lists = 1 + below(LISTS_MAX),
        .window = below(2) * (1 + below(3000)),
    };
    const int32_t bound = longest[below(4)];
    for (int32_t b = 0; b < c->shape.batch; b++) {
        c->kv_lens[b] = below(5) ? 1 + below(bound) : -below(2);
        c->qo[b + 1] = c->qo[b] + below(c->shape.q_len + 1);
        c->pages[b + 1] = c->pages[b] + pages_of(c, b);
    }
    c->lengths = (struct attn_decode_plan_lengths){
        .kv_lens = c->kv_lens,
        .qo_indptr = below(2) ? c->qo : NULL,
        .kv_indptr = below(2) ? c->pages : NULL,
    };
}

static void plan_case(struct case_ *c)
{
    int32_t *words = (int32_t *)&c->work_indptr;
    for (size_t i = 0; i < (sizeof(*c) - offsetof(struct case_, work_indptr)) / 4; i++)
        words[i] = UNWRITTEN;
    const struct attn_decode_plan plan = {
        .work_indptr = c->work_indptr,
        .work_info = c->work_info[0],
        .reduce_indptr = c->reduce_indptr,
        .reduce_final_map = c->final_map[0],
        .reduce_partial_map = c->partial_map,
    };
    assert_int_equal(attn_decode_plan_sizes(&c->shape, &c->sizes), ATTN_OK);
    assert_int_equal(attn_decode_plan(&c->shape, &c->lengths, &plan), ATTN_OK);
}

static int32_t start_of(const struct case_ *c, int32_t b)
{
    return c->lengths.qo_indptr ? c->qo[b] : b * c->shape.q_len;
}

/* The pieces of a sequence for a head: from item `at` on. Returns the item behind them. */
static int32_t check_sequence(const struct case_ *c, int32_t b, int32_t head, int32_t at)
{
    const int32_t base = c->lengths.kv_indptr ? c->pages[b] : 0;
    const int32_t group = c->shape.heads / c->shape.kv_heads;
    const int32_t keys = keys_of(c, b);
    const int32_t rows = c->reduce_indptr[b + 1] - c->reduce_indptr[b];
    int32_t page = base + skipped_pages(c, b), pieces = 0;
    for (; page < base + pages_of(c, b) || pieces == 0; pieces++) {
        const int32_t *info = c->work_info[at + pieces];
        assert_int_equal(info[0], b);
        assert_int_equal(info[2], start_of(c, b));
        assert_int_equal(info[3], start_of(c, b + 1));
        assert_int_equal(info[4], page);
        assert_true(info[5] > page || keys == 0);
        page = info[5];
        const int32_t end = (page - base) * c->shape.page_size;
        assert_int_equal(info[6], end < keys ? keys - end : 0);
        assert_int_equal(info[7], head * group | (head + 1) * group << 16);
        if (rows == 0)
            assert_int_equal(info[1], -1);
        else
            assert_int_equal(info[1], c->partial_map[c->reduce_indptr[b] + pieces]);
    }
    assert_int_equal(page, base + pages_of(c, b));
    assert_int_equal(rows, pieces == 1 ? 0 : pieces);
    return at + pieces;
}

static void check_items(const struct case_ *c)
{
    int32_t at = 0;
    for (int32_t h = 0; h < c->shape.kv_heads; h++) {
        for (int32_t b = 0; b < c->shape.batch; b++)
            at = check_sequence(c, b, h, at);
    }
    assert_true(at <= c->sizes.work_items);
    assert_int_equal(c->work_info[at][0], UNWRITTEN);
    assert_int_equal(c->work_indptr[0], 0);
    for (int32_t i = 0; i < c->shape.lists; i++)
        assert_true(c->work_indptr[i] <= c->work_indptr[i + 1]);
    assert_int_equal(c->work_indptr[c->shape.lists], at);
    assert_int_equal(c->work_indptr[c->shape.lists + 1], UNWRITTEN);
}

static void check_reduction(const struct case_ *c)
{
    assert_int_equal(c->reduce_indptr[0], 0);
    const int32_t partials = c->reduce_indptr[c->shape.batch];
    assert_true(partials <= c->sizes.partials);
    assert_int_equal(c->reduce_indptr[c->shape.batch + 1], UNWRITTEN);
    assert_int_equal(c->partial_map[partials], UNWRITTEN);
    assert_true(c->sizes.partial_rows >= partials * c->shape.q_len);
    for (int32_t k = 0; k < partials; k++)
        assert_int_equal(c->partial_map[k], k * c->shape.q_len); /* no two share a row */
    for (int32_t b = 0; b < c->shape.batch; b++) {
        assert_int_equal(c->final_map[b][0], start_of(c, b));
        assert_int_equal(c->final_map[b][1], start_of(c, b + 1));
    }
    assert_int_equal(c->final_map[c->shape.batch][0], UNWRITTEN);
}

/*
 * With a part to each list, a list costs no more than the payload and what cuts shift into it: less
 * than o that remained of a sequence behind its end, and before its beginning less than 2 o, of a
 * sequence of which no more fitted there, or the o that it takes to go on with one.
 */
static void check_balance(const struct case_ *c)
{
    const int64_t unit = tokens_of_pages(c, 64);
    const int64_t o = 128 / unit > 1 ? 128 / unit : 1;
    const int64_t parts = c->shape.lists / c->shape.kv_heads;
    if (parts < 1)
        return;
    int64_t cost = 0;
    for (int32_t b = 0; b < c->shape.batch; b++) {
        const int32_t skipped = skipped_pages(c, b) * c->shape.page_size;
        cost += (keys_of(c, b) - skipped + unit - 1) / unit + o;
    }
    int64_t payload = (cost + parts - 1) / parts;
    payload = payload < 2 * o ? 2 * o : payload;
    for (int32_t l = 0; l < c->shape.lists; l++) {
        int64_t load = 0;
        for (int32_t i = c->work_indptr[l]; i < c->work_indptr[l + 1]; i++) {
            const int64_t pages = c->work_info[i][5] - c->work_info[i][4];
            load += (pages * c->shape.page_size + unit - 1) / unit + o;
        }
        assert_true(load < payload + 3 * o);
    }
}

static void plans_of_random_batches_keep_their_promises(void **state)
{
    (void)state;
    struct case_ *c = malloc(sizeof(*c));
    assert_non_null(c);
    for (int i = 0; i < 3000; i++) {
        memset(c, 0, sizeof(*c));
        make_case(c);
        plan_case(c);
        check_items(c);
        check_reduction(c);
        check_balance(c);
    }
    free(c);
}

/* One long sequence and two short ones, 4 lists for one head: worked out by hand from the page. */
static void a_long_sequence_is_cut(void **state)
{
    (void)state;
    static struct case_ c;
    c = (struct case_){
        .shape = {.size = sizeof(c.shape),
                  .batch = 3,
                  .q_len = 2,
                  .page_size = 16,
                  .heads = 4,
                  .kv_heads = 1,
                  .lists = 4},
        .kv_lens = {100, 1000, 0},
    };
    c.lengths.kv_lens = c.kv_lens;
    plan_case(&c);
    /* u = 2, 16, 0; o = 2; S = 0, 4, 22, 24; payload = 6. Cuts of the middle one, whose keys begin
     * at 6: at 12 and 18, which are 6 and 12 units of 64 keys. */
    static const int32_t expected[][INFO] = {
        {0, -1, 0, 2, 0, 7, 0, 4 << 16},    {1, 0, 2, 4, 0, 24, 616, 4 << 16},
        {1, 2, 2, 4, 24, 48, 232, 4 << 16}, {1, 4, 2, 4, 48, 63, 0, 4 << 16},
        {2, -1, 4, 6, 0, 0, 0, 4 << 16},
    };
    assert_memory_equal(c.work_info, expected, sizeof(expected));
    static const int32_t indptr[] = {0, 1, 2, 3, 5};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
    static const int32_t reduce[] = {0, 0, 3, 3};
    assert_memory_equal(c.reduce_indptr, reduce, sizeof(reduce));
}

/* 32 sequences of 16k keys with a window of 128, four queries each: 131 keys, of which the first is
 * number 16253 and in page 1015. */
static void pages_before_a_window_are_in_no_item(void **state)
{
    (void)state;
    static struct case_ c;
    c = (struct case_){
        .shape = {.size = sizeof(c.shape),
                  .batch = 32,
                  .q_len = 4,
                  .page_size = 16,
                  .heads = 8,
                  .kv_heads = 1,
                  .lists = 304,
                  .window = 128},
    };
    c.lengths.kv_lens = c.kv_lens;
    for (int32_t b = 0; b < 32; b++)
        c.kv_lens[b] = 16384;
    plan_case(&c);
    check_items(&c);
    assert_int_equal(c.work_info[0][4], 1015);
    int32_t pages = 0;
    for (int32_t i = 0; i < c.work_indptr[304]; i++)
        pages += c.work_info[i][5] - c.work_info[i][4];
    assert_int_equal(pages, 32 * 9);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    const struct attn_decode_plan_shape good = {
        .size = sizeof(good),
        .batch = 1,
        .q_len = 1,
        .page_size = 16,
        .heads = 8,
        .kv_heads = 2,
        .lists = 4,
    };
    struct attn_decode_plan_sizes sizes;
    assert_int_equal(attn_decode_plan_sizes(&good, &sizes), ATTN_OK);
#define REFUSED(change, text)                                                    \
    do {                                                                         \
        struct attn_decode_plan_shape s = good;                                  \
        change;                                                                  \
        assert_int_equal(attn_decode_plan_sizes(&s, &sizes), ATTN_BAD_ARGUMENT); \
        says(text);                                                              \
    } while (0)
    REFUSED(s.size = 0, "shape->size");
    REFUSED(s.batch = -1, "batch -1");
    REFUSED(s.q_len = 0, "q_len 0");
    REFUSED(s.lists = 0, "lists 0");
    REFUSED(s.window = -1, "window -1");
    REFUSED(s.page_size = 65537, "page_size 65537 is not in 1 to 65536");
    REFUSED(s.heads = 7, "7 heads are not a multiple of 2");
    REFUSED((s.batch = INT32_MAX, s.q_len = 2), "more than 2^31");
#undef REFUSED
    const struct attn_decode_plan nothing = {0};
    assert_int_equal(attn_decode_plan(&good, NULL, &nothing), ATTN_BAD_ARGUMENT);
    says("a tensor of it is NULL");
    int32_t room[64];
    const struct attn_decode_plan plan = {room, room, room, room, room};
    assert_int_equal(attn_decode_plan(&good, NULL, &plan), ATTN_BAD_ARGUMENT);
    says("kv_lens is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_random_batches_keep_their_promises),
        cmocka_unit_test(a_long_sequence_is_cut),
        cmocka_unit_test(pages_before_a_window_are_in_no_item),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
