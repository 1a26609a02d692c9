/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of plan kernels: every integer must equal the host planner's, and nothing else may
 * be written.
 */
#include <string.h>

#include "tools/verify/call.h"

/* Flags of a shape. */
enum {
    ZEROS = 1 << 0, /* some sequences have no keys */
    /* no sequence has keys */
    ALL_ZERO = 1 << 1,
    ONE_LONG = 1 << 2, /* one sequence has a hundred times as many keys as each other */
    /* all sequences have equally many keys */
    EQUAL = 1 << 3,
    RAGGED_Q = 1 << 4, /* qo_indptr: some sequences have fewer than q_len queries */
    SHORT_Q = 1 << 5,  /* most sequences have one query */
};

/* The shapes. keys: largest number of keys of a sequence; longest: number of keys of the first
 * sequence, 0: as the others. The kernel plans 64 sequences at a time. */
static const struct shape {
    struct verify_shape is;
    int keys, batch, q_len, heads, kv_heads, lists, window, longest, item_cost, merge_rate;
    int q_tile, tokens, right, unit_keys;
} shapes[] = {
    {{"one", 0}, 9000, 1, 1, 64, 8, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"one head", 0}, 60000, 1, 1, 16, 1, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"few", RAGGED_Q}, 3000, 3, 4, 12, 2, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"even", EQUAL}, 4096, 64, 1, 64, 8, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"equal pieces", EQUAL}, 4096, 8, 1, 64, 8, 256, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"a list each", RAGGED_Q}, 5000, 70, 2, 16, 2, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"two hundred", ZEROS | RAGGED_Q}, 3000, 200, 2, 4, 1, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"ragged", RAGGED_Q}, 2000, 65, 2, 20, 4, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"no keys", ALL_ZERO}, 0, 63, 1, 4, 1, 64, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"padded", ZEROS}, 700, 200, 1, 96, 8, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"one long", ONE_LONG}, 900, 128, 3, 16, 2, 256, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"large pages", ZEROS}, 40000, 30, 1, 10, 1, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"few lists", ZEROS}, 1000, 20, 1, 32, 8, 5, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"odd heads", ONE_LONG}, 3000, 70, 1, 5, 5, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"full", ZEROS | ONE_LONG}, 5000, 512, 1, 64, 8, 304, 0, 0, 0, 0, 0, 0, 0, 0},
    {{"window", ZEROS | ONE_LONG | RAGGED_Q}, 16384, 130, 4, 64, 8, 304, 128, 0, 0, 0, 0, 0, 0, 0},
    {{"window of one", RAGGED_Q}, 300, 40, 3, 8, 1, 256, 1, 0, 0, 0, 0, 0, 0, 0},
    {{"odd window", RAGGED_Q}, 3000, 70, 2, 8, 1, 256, 500, 0, 0, 0, 0, 0, 0, 0},
    {{"wide window", ONE_LONG}, 2000, 64, 1, 16, 2, 304, 4096, 0, 0, 0, 0, 0, 0, 0},
    {{"costly items", RAGGED_Q}, 2000, 90, 2, 20, 4, 304, 0, 0, 9, 1, 0, 0, 0, 0},
    {{"costly parts", 0}, 60000, 2, 1, 16, 1, 304, 0, 0, 1, 1, 0, 0, 0, 0},
    {{"cheap parts", ZEROS}, 60000, 2, 1, 16, 1, 304, 0, 0, 256, 256, 0, 0, 0, 0},
    {{"rate of 256", ONE_LONG}, 5000, 64, 1, 12, 3, 304, 0, 0, 0, 256, 0, 0, 0, 0},
    {{"rate of 128", EQUAL}, 15405, 1, 1, 4, 1, 100, 0, 0, 3, 128, 0, 0, 0, 0},
    {{"one chunk", 0}, 8192, 1, 128, 8, 1, 256, 0, 0, 6, 16, 32, 0, 0, 0},
    {{"chunks", RAGGED_Q}, 3000, 5, 300, 8, 2, 304, 0, 0, 0, 0, 32, 0, 0, 0},
    {{"mixed", RAGGED_Q | SHORT_Q | ONE_LONG},
     3000,
     100,
     700,
     8,
     1,
     256,
     0,
     0,
     7,
     8,
     37,
     9000,
     0,
     0},
    {{"all in one tile", RAGGED_Q | ZEROS}, 2000, 70, 20, 16, 2, 304, 0, 0, 0, 0, 32, 0, 0, 0},
    {{"tiles, no mask", RAGGED_Q}, 700, 40, 90, 8, 1, 256, 0, 0, 0, 0, 16, 0, -1, 0},
    {{"tiles, window", RAGGED_Q}, 4000, 66, 150, 8, 1, 256, 500, 0, 12, 0, 64, 7000, 0, 0},
    {{"tiles, both sides", ZEROS}, 900, 9, 100, 8, 4, 304, 70, 0, 0, 0, 24, 0, 30, 0},
    {{"causal", EQUAL}, 4096, 1, 4096, 8, 1, 256, 0, 0, 6, 16, 32, 0, 0, 0},
    {{"long causal", EQUAL}, 8192, 1, 8192, 8, 1, 256, 0, 0, 6, 16, 32, 0, 0, 0},
    {{"whole tiles", EQUAL}, 4096, 1, 4096, 8, 1, 32, 512, 0, 6, 16, 32, 0, 0, 0},
    {{"uneven lists", EQUAL}, 4096, 1, 4096, 8, 1, 48, 512, 0, 6, 16, 32, 0, 0, 0},
    {{"tiles of one", EQUAL}, 5, 3, 7, 4, 1, 64, 0, 0, 0, 0, 1, 0, 0, 0},
    {{"small units", RAGGED_Q | ZEROS}, 700, 90, 2, 16, 1, 304, 0, 0, 1, 128, 0, 0, 0, 32},
    {{"equal small units", EQUAL}, 640, 64, 1, 16, 1, 256, 0, 0, 0, 0, 0, 0, 0, 32},
    {{"long, small units", ONE_LONG}, 60000, 70, 1, 16, 2, 256, 0, 0, 0, 256, 0, 0, 0, 16},
};

/* The shape with which a trace begins. */
static const struct shape traced = {
    {"trace", EQUAL}, 4096, 64, 1, 64, 8, 304, 0, 0, 0, 0, 0, 0, 0, 0};

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    c->args.plan.shape = (struct attn_decode_plan_shape){
        .size = sizeof(c->args.plan.shape),
        .batch = s->batch,
        .q_len = s->q_len,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .lists = s->lists,
        .window = s->window,
        .item_cost = s->item_cost,
        .merge_rate = s->merge_rate,
        .q_tile = s->q_tile,
        .tokens = s->tokens,
        .window_right = s->right,
        .unit_keys = s->unit_keys,
    };
    if (c->traced && c->desc.plan.q_tiles && !s->q_tile)
        c->args.plan.shape.q_tile = 32;
}

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c)
{
    const struct shape *s = c->shape;
    return c->desc.plan.q_tiles == (s->q_tile > 0);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    struct attn_decode_plan_sizes sizes = {0};
    attn_decode_plan_sizes(&c->args.plan.shape, &sizes);
    operand_resize(call_operand(c, PLAN_WORK_INFO), 0, sizes.work_items);
    operand_resize(call_operand(c, PLAN_REDUCE_PARTIAL_MAP), 0, sizes.partials);
    operand_resize(call_operand(c, PLAN_REDUCE_INDPTR), 0, sizes.tiles + 1);
    operand_resize(call_operand(c, PLAN_REDUCE_FINAL_MAP), 0, sizes.tiles);
    operand_resize(call_operand(c, PLAN_TILE_INFO), 1, sizes.tiles);
    if (!call_has(c, RAGGED_Q))
        operand_leave_out(call_operand(c, PLAN_QO_INDPTR));
}

/* Returns a random number of keys for sequence `b`. */
static int32_t random_length(struct call *c, int b)
{
    const struct shape *s = c->shape;
    if (b == 0 && s->longest)
        return s->longest;
    if (call_has(c, ALL_ZERO) || (call_has(c, ZEROS) && random_bits(&c->random) % 4 == 0))
        return 0;
    if (call_has(c, ONE_LONG) && b == s->batch / 3)
        return 100 * s->keys;
    return call_has(c, EQUAL) ? s->keys
                              : 1 + (int32_t)(random_bits(&c->random) % (unsigned)s->keys);
}

/* Sets element `i` of an operand of integers, if it is given. */
static void set_int(struct call *c, unsigned number, int64_t i, int64_t value)
{
    if (call_operand(c, number)->given)
        operand_set_int(call_operand(c, number), AT(i), value);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct shape *s = c->shape;
    int64_t queries = 0;
    set_int(c, PLAN_QO_INDPTR, 0, 0);
    for (int b = 0; b < s->batch; b++) {
        const int32_t length = random_length(c, b);
        const bool one = call_has(c, SHORT_Q) && b % 16;
        queries += one ? 1 : (int64_t)(random_bits(&c->random) % (unsigned)(s->q_len + 1));
        /* A negative length means 0. */
        set_int(c, PLAN_KV_LENS, b, b == 0 && call_has(c, ZEROS) ? -1 : length);
        set_int(c, PLAN_QO_INDPTR, b + 1, queries);
    }
}

/* Returns a copy of operand `number` before the launch, into which the host's planner writes the
 * expected plan. */
static int32_t *expected(struct call *c, unsigned number)
{
    const struct operand *o = call_operand(c, number);
    int32_t *copy = call_allocate(c, o->span + 1, 1);
    return memcpy(copy, o->image, o->span);
}

/* Compares an operand of integers with `values`. */
static void compare_ints(struct call *c, unsigned number, const int32_t *values)
{
    struct operand *o = call_operand(c, number);
    const int64_t columns = o->schema.ndim == 2 ? o->dims[1] : 1;
    for (int64_t i = 0; i < operand_count(o); i++) {
        const int64_t *at = o->schema.ndim == 2 ? AT(i / columns, i % columns) : AT(i);
        if (values[i] != operand_int(o, at))
            call_compare_int(c, o, at, values[i]);
    }
}

/* Compares a tile: its sequence, first query, end of queries, keys before the window, and keys from
 * the window's start on. */
static void compare_tile(struct call *c, int64_t tile, int32_t s, int32_t start, int32_t end)
{
    struct operand *info = call_operand(c, PLAN_TILE_INFO);
    const struct attn_decode_plan_shape *shape = &c->args.plan.shape;
    const int64_t length = operand_int(call_operand(c, PLAN_KV_LENS), AT(s));
    const int64_t all = length > 0 ? length : 0;
    const struct operand *qo = call_operand(c, PLAN_QO_INDPTR);
    const int64_t last = qo->given ? operand_int(qo, AT(s + 1)) : (int64_t)(s + 1) * shape->q_len;
    /* number of keys up to the position of the tile's last query */
    const int64_t own = all - (last - end);
    const int64_t right = shape->window_right < 0 ? INT32_MAX : shape->window_right;
    int64_t seen = own + right < 0 ? 0 : own + right > all ? all : own + right;
    seen = start < end ? seen : 0;
    const int q = shape->q_tile < shape->q_len ? shape->q_tile : shape->q_len;
    const int64_t reached = seen < own ? seen : own;
    const int64_t before = shape->window ? reached - (q + shape->window - 1) : 0;
    const int64_t skip = before > 0 ? before / 16 * 16 : 0;
    const int64_t words[] = {s, start, end, skip, seen - skip};
    for (int i = 0; i < 5; i++)
        call_compare_int(c, info, AT(i, tile), words[i]);
}

/* Compares the tiles of sequence s from number `tile` on, whose queries are q to last - 1. Tiles
 * are numbered alternately from both ends of the queries. Returns the number after the last
 * tile. */
static int64_t compare_sequence(struct call *c, int64_t tile, int32_t s, int64_t q, int64_t last)
{
    const int64_t size = c->args.plan.shape.q_tile;
    int64_t end = last; /* end of the queries that are not in a tile yet */
    bool front = true;
    do {
        const int64_t from = front || end == q ? q : (end - 1 - q) / size * size + q;
        const int64_t to = front && from + size < end ? from + size : end;
        compare_tile(c, tile++, s, (int32_t)from, (int32_t)to);
        q = front ? to : q;
        end = front ? end : from;
        front = !front;
    } while (q < end);
    return tile;
}

/* Compares the tiles of all sequences. */
static void compare_tiles(struct call *c)
{
    const struct attn_decode_plan_shape *shape = &c->args.plan.shape;
    const struct operand *qo = call_operand(c, PLAN_QO_INDPTR);
    int64_t tile = 0;
    for (int32_t s = 0; s < shape->batch; s++) {
        const int64_t q = qo->given ? operand_int(qo, AT(s)) : (int64_t)s * shape->q_len;
        const int64_t last = qo->given ? operand_int(qo, AT(s + 1)) : q + shape->q_len;
        tile = compare_sequence(c, tile, s, q, last);
    }
}

/* Compares the plan with the one that the host makes. */
static void compare(struct call *c)
{
    const struct attn_decode_plan_lengths lengths = {
        .kv_lens = (const int32_t *)call_operand(c, PLAN_KV_LENS)->image,
        .qo_indptr = call_operand(c, PLAN_QO_INDPTR)->given
                         ? (const int32_t *)call_operand(c, PLAN_QO_INDPTR)->image
                         : NULL,
    };
    const struct attn_decode_plan plan = {
        .work_indptr = expected(c, PLAN_WORK_INDPTR),
        .work_info = expected(c, PLAN_WORK_INFO),
        .reduce_indptr = expected(c, PLAN_REDUCE_INDPTR),
        .reduce_final_map = expected(c, PLAN_REDUCE_FINAL_MAP),
        .reduce_partial_map = expected(c, PLAN_REDUCE_PARTIAL_MAP),
    };
    if (attn_decode_plan(&c->args.plan.shape, &lengths, &plan))
        verify_fail(c->row, "attn_decode_plan: %s", attn_last_error());
    compare_ints(c, PLAN_WORK_INDPTR, plan.work_indptr);
    compare_ints(c, PLAN_WORK_INFO, plan.work_info);
    compare_ints(c, PLAN_REDUCE_INDPTR, plan.reduce_indptr);
    compare_ints(c, PLAN_REDUCE_FINAL_MAP, plan.reduce_final_map);
    compare_ints(c, PLAN_REDUCE_PARTIAL_MAP, plan.reduce_partial_map);
    if (c->args.plan.shape.q_tile)
        compare_tiles(c);
}

/* Returns 0, since the part of the plan that is written depends on the lengths. */
static double least_bytes(const struct call *c)
{
    (void)c;
    return 0;
}

const struct verify_op verify_plan = {
    .op = "plan",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64"},
    .dimensions =
        {
            {"batch", offsetof(struct shape, batch), 1 << 16, "sequences"},
            {"keys", offsetof(struct shape, keys), 1 << 24, "of each"},
            {"longest", offsetof(struct shape, longest), 1 << 24,
             "of the first; keys where left out"},
            {"q", offsetof(struct shape, q_len), 1 << 20, "query tokens of each"},
            {"q_tile", offsetof(struct shape, q_tile), 1 << 16,
             "query tokens of a tile, for a kernel of tiles; left out: 32"},
            {"heads", offsetof(struct shape, heads), 1024, "query heads"},
            {"kv_heads", offsetof(struct shape, kv_heads), 1024, "key/value heads"},
            {"lists", offsetof(struct shape, lists), 1 << 16,
             "workgroups of the launch that is planned"},
            {"window", offsetof(struct shape, window), 1 << 24,
             "keys that a query sees; left out: all"},
            {"item_cost", offsetof(struct shape, item_cost), 256, "of the plan; left out: 2"},
            {"merge_rate", offsetof(struct shape, merge_rate), 256, "of the plan; left out: 4"},
            {"unit_keys", offsetof(struct shape, unit_keys), 64, "of the plan; left out: 64"},
        },
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
