/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the host planner's guarantees in docs/planning.md on random batches. Every key of every
 * sequence occurs once and in order, items do not exceed their memory, lists are balanced, and the
 * reduction's rows are right. The closed form is computed independently.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { BATCH_MAX = 40, LISTS_MAX = 320, HEADS_MAX = 8, INFO = 8 };
enum { ITEMS_MAX = (BATCH_MAX + LISTS_MAX) * HEADS_MAX, UNWRITTEN = -77 };

struct case_ {
    struct attn_decode_plan_shape shape;
    struct attn_decode_plan_sizes sizes;
    struct attn_decode_plan_lengths lengths;
    int32_t kv_lens[BATCH_MAX], qo[BATCH_MAX + 1];
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

/* Returns the number of keys before the first visible one, counted key by key and rounded down to
 * 16. */
static int32_t skipped_keys(const struct case_ *c, int32_t b)
{
    int32_t first = keys_of(c, b) - c->shape.q_len - (c->shape.window - 1);
    if (c->shape.window == 0 || first < 0)
        return 0;
    while (first % 16)
        first--;
    return first;
}

static void make_case(struct case_ *c)
{
    static const int32_t heads[] = {1, 2, 4, 8}, longest[] = {1, 40, 700, 20000};
    static const int32_t units[] = {0, 16, 32, 64};
    const int32_t kv_heads = heads[below(4)];
    c->shape = (struct attn_decode_plan_shape){
        .size = sizeof(c->shape),
        .batch = below(BATCH_MAX + 1),
        .q_len = 1 + below(4),
        .heads = kv_heads * (1 + below(16)),
        .kv_heads = kv_heads,
        .lists = 1 + below(LISTS_MAX),
        .window = below(2) * (1 + below(3000)),
        .item_cost = below(2) * below(12),
        .merge_rate = below(2) * below(257),
        .unit_keys = units[below(4)],
    };
    const int32_t bound = longest[below(4)];
    for (int32_t b = 0; b < c->shape.batch; b++) {
        c->kv_lens[b] = below(5) ? 1 + below(bound) : -below(2);
        c->qo[b + 1] = c->qo[b] + below(c->shape.q_len + 1);
    }
    c->lengths = (struct attn_decode_plan_lengths){
        .kv_lens = c->kv_lens,
        .qo_indptr = below(2) ? c->qo : NULL,
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

/* Plans a batch whose sequence b has kv_lens[b] keys; NULL: 0 keys each. */
static void plan_shape(struct case_ *c, struct attn_decode_plan_shape shape, const int32_t *kv_lens)
{
    *c = (struct case_){.shape = shape, .lengths = {.kv_lens = c->kv_lens}};
    c->shape.size = sizeof(c->shape);
    for (int32_t b = 0; kv_lens && b < shape.batch; b++)
        c->kv_lens[b] = kv_lens[b];
    plan_case(c);
}

static int32_t start_of(const struct case_ *c, int32_t b)
{
    return c->lengths.qo_indptr ? c->qo[b] : b * c->shape.q_len;
}

/* Checks the pieces of a sequence for a head, from item `at` on. Returns the next item. */
static int32_t check_sequence(const struct case_ *c, int32_t b, int32_t head, int32_t at)
{
    const int32_t group = c->shape.heads / c->shape.kv_heads;
    const int32_t keys = keys_of(c, b);
    const int32_t rows = c->reduce_indptr[b + 1] - c->reduce_indptr[b];
    int32_t key = skipped_keys(c, b), pieces = 0;
    for (; key < keys || pieces == 0; pieces++) {
        const int32_t *info = c->work_info[at + pieces];
        assert_int_equal(info[0], b);
        assert_int_equal(info[2], start_of(c, b));
        assert_int_equal(info[3], start_of(c, b + 1));
        assert_int_equal(info[4], key);
        assert_true(info[5] > key || keys == 0);
        key = info[5];
        assert_int_equal(info[6], keys - key);
        assert_int_equal(info[7], head * group | (head + 1) * group << 16);
        if (rows == 0)
            assert_int_equal(info[1], -1);
        else
            assert_int_equal(info[1], c->partial_map[c->reduce_indptr[b] + pieces]);
    }
    assert_int_equal(key, keys);
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
        assert_int_equal(c->partial_map[k], k * c->shape.q_len); /* no two parts share a row */
    for (int32_t b = 0; b < c->shape.batch; b++) {
        assert_int_equal(c->final_map[b][0], start_of(c, b));
        assert_int_equal(c->final_map[b][1], start_of(c, b + 1));
    }
    assert_int_equal(c->final_map[c->shape.batch][0], UNWRITTEN);
}

/* Returns the units of `keys` keys. */
static int64_t units_of(const struct case_ *c, int64_t keys)
{
    const int64_t unit = c->shape.unit_keys ? c->shape.unit_keys : 64;
    return (keys + unit - 1) / unit;
}

/* Returns the number of pieces in a batch if none has more than `most` units. */
static int64_t count_pieces(const struct case_ *c, int64_t most)
{
    int64_t n = 0;
    for (int32_t b = 0; b < c->shape.batch; b++) {
        const int64_t units = units_of(c, keys_of(c, b) - skipped_keys(c, b));
        n += units > most ? (units + most - 1) / most : 1;
    }
    return n;
}

/* Checks the load of each list, if each list has one part: less than the payload plus 3 item costs
 * o. Cuts can shift less than o of the previous sequence's rest into a list. They can also shift
 * less than 2 o before the next sequence, which no longer fits, or the o to continue it. If pieces
 * of one size fit, each list has one piece. */
static void check_balance(const struct case_ *c)
{
    const int64_t o = c->shape.item_cost ? c->shape.item_cost : 2;
    const int64_t r = c->shape.merge_rate ? c->shape.merge_rate : 4;
    const int64_t parts = c->shape.lists / c->shape.kv_heads;
    if (parts < 1 || c->shape.batch < 1)
        return;
    int64_t cost = 0;
    for (int32_t b = 0; b < c->shape.batch; b++)
        cost += units_of(c, keys_of(c, b) - skipped_keys(c, b)) + o;
    int64_t payload = (cost + parts - 1) / parts;
    payload = payload < 2 * o ? 2 * o : payload;
    int64_t least = 1, longest_sequence = 0;
    for (int32_t b = 0; b < c->shape.batch; b++) {
        const int64_t units = units_of(c, keys_of(c, b) - skipped_keys(c, b));
        longest_sequence = units > longest_sequence ? units : longest_sequence;
    }
    static const int64_t lengths[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
    for (int i = 0; r * least * least < longest_sequence; i++)
        least = lengths[i];
    const int64_t slack = c->shape.unit_keys ? 64 / c->shape.unit_keys : 0;
    const int64_t longer = payload + (slack > 1 ? slack : 0);
    const int64_t most = longer > least ? longer : least;
    const bool equal = count_pieces(c, most) <= parts;
    for (int32_t l = 0; l < c->shape.lists; l++) {
        int64_t load = 0, longest = 0;
        for (int32_t i = c->work_indptr[l]; i < c->work_indptr[l + 1]; i++) {
            const int64_t units = units_of(c, c->work_info[i][5] - c->work_info[i][4]);
            load += units + o;
            longest = units > longest ? units : longest;
        }
        assert_true(load < most + 3 * o);
        assert_true(!equal || c->work_indptr[l + 1] - c->work_indptr[l] <= 1);
        assert_true(!equal || longest <= least || count_pieces(c, longest - 1) > parts);
    }
}

TEST(plans_of_random_batches_keep_their_promises)
{
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

/* One long sequence and three short ones, 4 lists for one head: computed by hand. */
TEST(a_long_sequence_is_cut)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 5, .q_len = 2, .heads = 4, .kv_heads = 1, .lists = 4},
               (const int32_t[]){100, 1000, 0, 64, 1});
    /* In the terms of docs/planning.md: u = 2, 16, 0, 1, 1; o = 2; S = 0, 4, 22, 24, 27, 30;
     * payload = 8. The second sequence, whose keys begin at 6, is cut at 8 and 16: after 2 and 10
     * units of 64 keys. */
    static const int32_t expected[][INFO] = {
        {0, -1, 0, 2, 0, 100, 0, 4 << 16},    {1, 0, 2, 4, 0, 128, 872, 4 << 16},
        {1, 2, 2, 4, 128, 640, 360, 4 << 16}, {1, 4, 2, 4, 640, 1000, 0, 4 << 16},
        {2, -1, 4, 6, 0, 0, 0, 4 << 16},      {3, -1, 6, 8, 0, 64, 0, 4 << 16},
        {4, -1, 8, 10, 0, 1, 0, 4 << 16},
    };
    assert_memory_equal(c.work_info, expected, sizeof(expected));
    static const int32_t indptr[] = {0, 2, 3, 4, 7};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
    static const int32_t reduce[] = {0, 0, 3, 3, 3, 3};
    assert_memory_equal(c.reduce_indptr, reduce, sizeof(reduce));
}

/* Two sequences of 9 and 2 units, 5 lists: pieces of at most 3 units make 4 pieces. */
TEST(pieces_are_equal_where_lists_suffice)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 2, .q_len = 1, .heads = 2, .kv_heads = 1, .lists = 5},
               (const int32_t[]){550, 128});
    static const int32_t expected[][INFO] = {
        {0, 0, 0, 1, 0, 192, 358, 2 << 16},
        {0, 1, 0, 1, 192, 384, 166, 2 << 16},
        {0, 2, 0, 1, 384, 550, 0, 2 << 16},
        {1, -1, 1, 2, 0, 128, 0, 2 << 16},
    };
    assert_memory_equal(c.work_info, expected, sizeof(expected));
    static const int32_t indptr[] = {0, 1, 2, 3, 4, 4};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
}

/* Two sequences of 20 units of 32 keys, 8 lists: four pieces of 5 units each. With units of 64 keys
 * a sequence of 10 units has three pieces of 3 units, and one of 1. */
TEST(small_units_make_equal_pieces)
{
    static struct case_ c;
    for (int32_t unit = 32; unit <= 64; unit += 32) {
        plan_shape(
            &c,
            (struct attn_decode_plan_shape){
                .batch = 2, .q_len = 1, .heads = 2, .kv_heads = 1, .lists = 8, .unit_keys = unit},
            (const int32_t[]){640, 640});
        const int32_t piece = unit == 32 ? 160 : 192;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(c.work_info[i][0], i / 4);
            assert_int_equal(c.work_info[i][4], i % 4 * piece);
            assert_int_equal(c.work_info[i][5], i % 4 == 3 ? 640 : (i % 4 + 1) * piece);
        }
    }
}

/* The batch of a_long_sequence_is_cut(), with items that cost as much as four units. */
TEST(costly_items_are_cut_later)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 5, .q_len = 1, .heads = 1, .kv_heads = 1, .lists = 4, .item_cost = 4},
               (const int32_t[]){100, 1000, 0, 64, 1});
    /* In the terms of docs/planning.md: u = 2, 16, 0, 1, 1; o = 4; S = 0, 6, 26, 30, 35, 40;
     * payload = 10. The second sequence's keys begin at 10. A cut at 10 would leave nothing before
     * it, and the cut at 20 is after 10 units. */
    static const int32_t reduce[] = {0, 0, 2, 2, 2, 2};
    assert_memory_equal(c.reduce_indptr, reduce, sizeof(reduce));
    assert_int_equal(c.work_info[1][5], 640);
}

/* Eight sequences without keys, more than a head has parts. The last part takes the rest, and the
 * second head's lists begin with its first part. */
TEST(the_last_part_takes_the_rest)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 8, .q_len = 1, .heads = 2, .kv_heads = 2, .lists = 8, .item_cost = 4},
               NULL);
    /* In the terms of docs/planning.md: o = 4; S = 0, 4, ..., 28; payload = 8; first = (S + 7) /
     * 8, and 3 for the last one. */
    static const int32_t indptr[] = {0, 1, 3, 5, 8, 9, 11, 13, 16};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
}

/* Four sequences without keys, which cost 20 together: a part has room for two item costs, not for
 * a third. */
TEST(a_part_has_room_for_two_item_costs)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 4, .q_len = 1, .heads = 1, .kv_heads = 1, .lists = 3, .item_cost = 5},
               NULL);
    /* In the terms of docs/planning.md: o = 5; S = 0, 5, 10, 15; payload = 10; first = (S + 9) /
     * 10. */
    static const int32_t indptr[] = {0, 1, 3, 4};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
}

/* A causal sequence of 512 queries, in tiles of 64. A piece may have half of an item's cost. */
TEST(tiles_are_cut_finer_than_sequences)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){.batch = 1,
                                               .q_len = 512,
                                               .heads = 1,
                                               .kv_heads = 1,
                                               .lists = 5,
                                               .item_cost = 4,
                                               .q_tile = 64},
               (const int32_t[]){512});
    /* In the terms of docs/planning.md: u = 1, 8, 2, 7, 3, 6, 4, 5; o = 4; m = 2; S = 0, 5, 17,
     * 23, 34, 41, 51, 59; payload = 14. The keys of the second tile, with the last queries, begin
     * at 9 and end at 17. The cut at 14 leaves 3 units after it. */
    static const int32_t reduce[] = {0, 0, 2, 2, 2, 2, 2, 2, 2};
    assert_memory_equal(c.reduce_indptr, reduce, sizeof(reduce));
    assert_int_equal(c.work_info[1][2], 448);
    assert_int_equal(c.work_info[1][5], 320);
    assert_int_equal(c.work_info[8][2], 256);
    static const int32_t indptr[] = {0, 2, 4, 6, 7, 9};
    assert_memory_equal(c.work_indptr, indptr, sizeof(indptr));
}

/* Three sequences of 160 queries, in tiles of 64. The items of a tile have all keys that its last
 * query sees of 320. */
TEST(every_sequence_has_its_tiles)
{
    enum { QUERIES = 160, TILE = 64, KEYS = 320 };
    static struct case_ c;
    plan_shape(
        &c,
        (struct attn_decode_plan_shape){
            .batch = 3, .q_len = QUERIES, .heads = 1, .kv_heads = 1, .lists = 4, .q_tile = TILE},
        (const int32_t[]){KEYS, KEYS, KEYS});
    int32_t keys[3 * QUERIES] = {0};
    for (int32_t i = 0; i < c.work_indptr[4]; i++) {
        const int32_t *const w = c.work_info[i];
        assert_in_range(w[2], w[0] * QUERIES, w[3]);
        assert_in_range(w[3], w[2], (w[0] + 1) * QUERIES);
        for (int32_t q = w[2]; q < w[3]; q++)
            keys[q] += w[5] - w[4];
    }
    for (int32_t q = 0; q < 3 * QUERIES; q++) {
        const int32_t end = (q % QUERIES / TILE + 1) * TILE;
        assert_int_equal(keys[q], KEYS - (end < QUERIES ? QUERIES - end : 0));
    }
}

/* The last 128 of 640 tokens, in tiles of 64: 9 and 10 units. Pieces of 9 units are longer than the
 * payload of 8, by less than an item's cost. */
TEST(pieces_of_tiles_may_exceed_the_payload)
{
    static struct case_ c;
    plan_shape(&c,
               (struct attn_decode_plan_shape){
                   .batch = 1, .q_len = 128, .heads = 1, .kv_heads = 1, .lists = 3, .q_tile = 64},
               (const int32_t[]){640});
    static const int32_t expected[][INFO] = {
        {0, -1, 0, 64, 0, 576, 0, 1 << 16},
        {0, 0, 64, 128, 0, 320, 320, 1 << 16},
        {0, 64, 64, 128, 320, 640, 0, 1 << 16},
    };
    assert_memory_equal(c.work_info, expected, sizeof(expected));
}

/* 512 queries in tiles of 64 with a window of 64 keys: 8 tiles of 2 units. Lists of up to 3 tiles
 * cost 12, and the payload is 11. Of 5 lists with a payload of 7, 3 have two tiles. */
TEST(tiles_of_equal_length_stay_whole)
{
    static const struct {
        int32_t lists, indptr[6];
    } cases[] = {{3, {0, 3, 6, 8}}, {5, {0, 2, 4, 6, 7, 8}}};
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        static struct case_ c;
        plan_shape(&c,
                   (struct attn_decode_plan_shape){.batch = 1,
                                                   .q_len = 512,
                                                   .heads = 1,
                                                   .kv_heads = 1,
                                                   .lists = cases[n].lists,
                                                   .window = 64,
                                                   .q_tile = 64},
                   (const int32_t[]){1024});
        for (int i = 0; i <= cases[n].lists; i++)
            assert_int_equal(c.work_indptr[i], cases[n].indptr[i]);
        for (int i = 0; i < 8; i++)
            assert_int_equal(c.work_info[i][1], -1);
    }
}

/* Tests the numbers of items, of partial results and of their rows. They follow from the numbers
 * of sequences, lists, KV heads and queries. */
TEST(sizes_follow_the_definition)
{
    static const struct {
        int32_t batch, lists, kv_heads, q_len, items, partials, rows;
    } cases[] = {
        {1, 1, 1, 1, 1, 0, 0},     {3, 1, 1, 2, 3, 0, 0},       {0, 8, 2, 4, 0, 0, 0},
        {1, 8, 1, 1, 8, 8, 8},     {2, 9, 4, 3, 12, 2, 6},      {100, 8, 1, 4, 107, 14, 56},
        {100, 7, 8, 1, 800, 0, 0}, {6, 304, 8, 2, 344, 43, 86},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct attn_decode_plan_shape shape = {
            .size = sizeof(shape),
            .batch = cases[i].batch,
            .q_len = cases[i].q_len,
            .heads = 8,
            .kv_heads = cases[i].kv_heads,
            .lists = cases[i].lists,
        };
        struct attn_decode_plan_sizes sizes;
        assert_int_equal(attn_decode_plan_sizes(&shape, &sizes), ATTN_OK);
        assert_int_equal(sizes.work_items, cases[i].items);
        assert_int_equal(sizes.partials, cases[i].partials);
        assert_int_equal(sizes.partial_rows, cases[i].rows);
    }
}

/* One sequence has 64 units and 64 lists. The time to merge r parts makes pieces longer: r q^2 is
 * at least 64 for pieces of q units. */
TEST(the_merge_rate_bounds_pieces)
{
    static const struct {
        int32_t rate, keys;
    } cases[] = {{0, 256}, {4, 256}, {1, 512}, {16, 128}, {64, 64}, {256, 64}};
    static struct case_ c;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plan_shape(&c,
                   (struct attn_decode_plan_shape){.batch = 1,
                                                   .q_len = 1,
                                                   .heads = 1,
                                                   .kv_heads = 1,
                                                   .lists = 64,
                                                   .merge_rate = cases[i].rate},
                   (const int32_t[]){4096});
        assert_int_equal(c.work_info[0][5], cases[i].keys);
    }
}

/* 32 sequences of 16k keys with a window of 128 and four queries each: 131 visible keys, from
 * number 16253 on. */
TEST(keys_before_a_window_are_in_no_item)
{
    static struct case_ c;
    c = (struct case_){
        .shape = {.size = sizeof(c.shape),
                  .batch = 32,
                  .q_len = 4,
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
    assert_int_equal(c.work_info[0][4], 16240);
    int32_t keys = 0;
    for (int32_t i = 0; i < c.work_indptr[304]; i++)
        keys += c.work_info[i][5] - c.work_info[i][4];
    assert_int_equal(keys, 32 * 144);
}

TEST(bad_shapes_are_refused)
{
    const struct attn_decode_plan_shape good = {
        .size = sizeof(good),
        .batch = 1,
        .q_len = 1,
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
    REFUSED(s.size = 0, "plan: shape.size is 0, less than 16");
    REFUSED(s.batch = -1, "batch -1");
    REFUSED(s.q_len = 0, "q_len 0");
    REFUSED(s.lists = 0, "lists 0");
    REFUSED(s.window = -1, "window -1");
    REFUSED(s.item_cost = 257, "item_cost 257, merge_rate 0 are not 0 to 256");
    REFUSED(s.merge_rate = -1, "item_cost 0, merge_rate -1");
    REFUSED(s.unit_keys = 8, "plan: unit_keys 8 is not 0, or without q_tile 16, 32 or 64");
    REFUSED(s.unit_keys = 48, "unit_keys 48");
    REFUSED(s.unit_keys = 128, "unit_keys 128");
    REFUSED((s.unit_keys = 32, s.q_tile = 16), "unit_keys 32");
    REFUSED(s.heads = 7, "7 heads are not a multiple of 2");
    REFUSED((s.heads = 65536), "65536 heads are not a multiple of 2 kv_heads, or above 65535");
    REFUSED((s.batch = INT32_MAX, s.q_len = 2), "more than 2^31");
#undef REFUSED
    struct attn_decode_plan_shape many = good;
    many.heads = many.kv_heads = 65535;
    assert_int_equal(attn_decode_plan_sizes(&many, &sizes), ATTN_OK);
    const struct attn_decode_plan nothing = {0};
    refused(attn_decode_plan(&good, NULL, &nothing), ATTN_BAD_ARGUMENT, "a tensor of it is NULL");
    int32_t room[64];
    const struct attn_decode_plan plan = {room, room, room, room, room, NULL};
    refused(attn_decode_plan(&good, NULL, &plan), ATTN_BAD_ARGUMENT, "kv_lens is NULL");
}

TEST(a_plan_fits_into_one_allocation)
{
    struct attn_decode_plan_shape shape = {
        .size = sizeof(shape), .batch = 3, .q_len = 2, .heads = 8, .kv_heads = 2, .lists = 8};
    const int32_t kv_lens[] = {900, 0, 70};
    const struct attn_decode_plan_lengths lengths = {.kv_lens = kv_lens};
    for (int tiled = 0; tiled < 2; tiled++) {
        struct attn_decode_plan_sizes sizes;
        struct attn_decode_plan plan;
        size_t bytes, again;
        shape.q_tile = tiled;
        assert_int_equal(attn_decode_plan_sizes(&shape, &sizes), ATTN_OK);
        assert_int_equal(attn_decode_plan_place(&shape, NULL, &bytes, NULL), ATTN_OK);
        char *memory = aligned_alloc(16, bytes + 16);
        memset(memory, 1, bytes + 16);
        assert_int_equal(attn_decode_plan_place(&shape, memory, &again, &plan), ATTN_OK);
        assert_int_equal(bytes, again);
        const int32_t *const starts[] = {plan.work_indptr,           plan.work_info,
                                         plan.reduce_indptr,         plan.reduce_final_map,
                                         plan.reduce_partial_map,    plan.tile_info,
                                         (int32_t *)(memory + bytes)};
        const int32_t counts[] = {shape.lists + 1, 8 * sizes.work_items, sizes.tiles + 1,
                                  2 * sizes.tiles, sizes.partials,       5 * sizes.tiles};
        assert_ptr_equal(starts[0], memory);
        assert_true((starts[5] != NULL) == tiled);
        for (int i = 0; i < (tiled ? 6 : 5); i++) {
            const int32_t *const end = starts[i + 1] ? starts[i + 1] : starts[6];
            assert_int_equal((uintptr_t)starts[i] % 16, 0);
            assert_true(end >= starts[i] + counts[i] && end > starts[i]);
        }
        assert_int_equal(attn_decode_plan(&shape, &lengths, &plan), ATTN_OK);
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(memory[bytes + i], 1);
        refused(attn_decode_plan_place(&shape, memory + 4, &bytes, &plan), ATTN_BAD_ARGUMENT,
                "not aligned to 16 bytes");
        assert_int_equal(attn_decode_plan_place(&shape, memory, &bytes, NULL), ATTN_BAD_ARGUMENT);
        assert_int_equal(attn_decode_plan_place(&shape, NULL, NULL, NULL), ATTN_BAD_ARGUMENT);
        free(memory);
    }
    shape.lists = 0;
    size_t bytes;
    refused(attn_decode_plan_place(&shape, NULL, &bytes, NULL), ATTN_BAD_ARGUMENT, "lists 0");
}

int main(void) { return run_unit_tests(); }
