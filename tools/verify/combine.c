/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of combine kernels: the lists of parts, the inputs, and the bounds on errors.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/reference/combine.h"
#include "tools/verify/call.h"

/* Largest numbers of: tiles in a shape's list, query tokens of a tile, parts of a tile. */
enum { TILES_MAX = 8, TOKENS_MAX = 70 /* query tokens of a tile */, SPLITS_MAX = 4096 };

enum {
    /* Layouts of partial results for which a shape is made: bits of struct shape.schemes. */
    CSR = 1 << ATTN_PARTIALS_CSR,
    DENSE = 1 << ATTN_PARTIALS_DENSE,
    PAIR = 1 << ATTN_PARTIALS_PAIR,
};

/* Flags of a shape. */
enum {
    /* The call has sinks. */
    SINKS = 1 << 0,
    NO_LSE = 1 << 1, /* the call has no lse output */
    /* many parts have no key: their LSE is an infinity, and their rows hold NaNs */
    EMPTY = 1 << 2,
    APART = 1 << 3,      /* LSEs are from -1000 to 1000, so that one part has nearly all weight */
    COUNTS = 1 << 4,     /* for dense: split_counts limits the number of splits of each token */
    IN_PLACE = 1 << 5,   /* for pair: out overwrites prefix, which has the same type */
    FAR = 1 << 6,        /* for csr: partial_out extends beyond 4 GiB, with rows far apart */
    IN_ORDER = 1 << 7,   /* for csr: partial rows are in the order of the tiles, without gaps */
    FAR_TOKENS = 1 << 8, /* for pair: tokens are 4 MiB apart, the limit */
};

/* The shapes. Each tile is {query tokens, parts}, and the list of tiles is repeated `repeat` times.
 * Layouts dense and pair have no tiles: each token has its own parts, two with pair. */
static const struct shape {
    struct verify_shape is;
    /* Layouts of partial results that run the shape: CSR, DENSE, PAIR. */
    unsigned schemes;
    int heads, repeat;
    struct {
        int tokens, parts;
    } tiles[TILES_MAX];
} shapes[] = {
    {{"one", 0}, CSR | DENSE | PAIR, 1, 1, {{1, 2}}},
    {{"lists", SINKS}, CSR, 12, 1, {{1, 2}, {1, 0}, {1, 1}, {1, 5}, {2, 0}, {1, 17}}},
    {{"lists", SINKS}, DENSE, 12, 1, {{1, 2}, {1, 1}, {1, 5}, {1, 17}}},
    {{"tokens", NO_LSE}, CSR | PAIR, 5, 1, {{4, 3}, {1, 2}, {3, 4}, {2, 16}}},
    {{"long", 0}, CSR | DENSE, 2, 1, {{1, 67}, {1, 33}}},
    {{"many tokens", SINKS}, PAIR, 3, 1, {{70, 2}}},
    {{"empty", EMPTY}, CSR | DENSE | PAIR, 3, 1, {{1, 3}, {2, 2}, {1, 9}, {2, 21}}},
    {{"empty, sinks", EMPTY | SINKS}, CSR | DENSE | PAIR, 2, 1, {{2, 2}, {1, 3}, {1, 1}}},
    {{"far apart", APART}, CSR | DENSE | PAIR, 6, 1, {{1, 4}, {2, 19}, {1, 2}}},
    {{"views", VERIFY_VIEWS | SINKS}, CSR | DENSE | PAIR, 7, 1, {{1, 2}, {2, 6}, {1, 3}}},
    {{"unwritten", COUNTS}, DENSE, 4, 1, {{1, 3}, {1, 0}, {1, 1}, {1, 20}, {1, 70}}},
    {{"in place", IN_PLACE}, PAIR, 2, 1, {{40, 2}}},
    {{"beyond 4 GiB", FAR}, CSR, 2, 1, {{1, 3}, {2, 2}}},
    {{"tokens beyond 4 GiB", FAR_TOKENS}, PAIR, 2, 15, {{69, 2}}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", IN_ORDER}, 0, 8, 64, {{1, 4}}};

/* A tile of query tokens and its partial results. */
struct tile {
    int first, tokens; /* index of the first query token; number of query tokens */
    int parts, index;  /* number of parts, and index of the first */
};

/* The data of a call, in call->own. */
struct own {
    /* [count]: tiles of query tokens */
    struct tile *tiles;
    int *of_token; /* index of the tile of each token */
    /* count: tiles; parts: parts of all tiles; longest: largest number of tokens of a tile */
    int count, parts, longest;
    int64_t block; /* rows from a part to the next in partial_out */
};

/* True if the kernel's partial results have layout `s`. */
static bool scheme(const struct call *c, enum attn_partials s)
{
    return c->desc.combine.partials == s;
}

/* The functions from here on find the parts of a token, in the order of the list. */

/* Returns the tile that contains a query token. */
static const struct tile *tile_of(const struct call *c, int token)
{
    const struct own *own = c->own;
    return &own->tiles[own->of_token[token]];
}

/* Returns the number of partial results of a query token. */
static int count_parts(const struct call *c, int token)
{
    return scheme(c, ATTN_PARTIALS_PAIR) ? 2 : tile_of(c, token)->parts;
}

/* Returns the first row of part `part` in partial_out. Later parts come before earlier ones, unless
 * IN_ORDER. */
static int64_t first_row(const struct call *c, int part)
{
    const struct own *own = c->own;
    return (call_has(c, IN_ORDER) ? part : own->parts - 1 - part) * own->block;
}

/* The place of a partial result: the operands of its values and of its LSE, and indices. */
struct place {
    struct operand *out, *lse;
    int64_t at[2]; /* indices in `out` before [head, d]; the LSE has the same */
};

/* Returns the operands and indices of a partial result. */
static struct place place_of(struct call *c, int token, int part)
{
    const struct tile *t = tile_of(c, token);
    struct place p = {
        .out = call_operand(c, COMBINE_PARTIAL_OUT),
        .lse = call_operand(c, COMBINE_PARTIAL_LSE),
        .at = {token, part},
    };
    if (scheme(c, ATTN_PARTIALS_CSR))
        p.at[0] = first_row(c, t->index + part) + token - t->first;
    if (scheme(c, ATTN_PARTIALS_PAIR)) {
        p.out = call_operand(c, part ? COMBINE_SUFFIX : COMBINE_PREFIX);
        p.lse = call_operand(c, part ? COMBINE_SUFFIX_LSE : COMBINE_PREFIX_LSE);
    }
    return p;
}

/* Writes the indices of element `d` of a partial result to `at`, and returns `at`. */
static const int64_t *out_at(const struct call *c, const struct place *p, int head, int d,
                             int64_t at[])
{
    const bool dense = scheme(c, ATTN_PARTIALS_DENSE);
    at[0] = p->at[0];
    at[1] = dense ? p->at[1] : head;
    at[2] = dense ? head : d;
    at[3] = d;
    return at;
}

/* Writes the indices of a partial LSE to `at`, and returns `at`. */
static const int64_t *lse_at(const struct call *c, const struct place *p, int head, int64_t at[])
{
    const bool pair = scheme(c, ATTN_PARTIALS_PAIR);
    out_at(c, p, head, 0, at);
    if (pair) {
        at[0] = head;
        at[1] = p->at[0];
    }
    return at;
}

/* The functions from here on bound errors. */

/*
 * With f = 2^-24, the unit of float32, u the unit of out, p_k the weights and d_k how far lse_k is
 * below the largest:
 *
 *   e^(lse_k - m) is 2^((lse_k - m) log2 e): a difference, a constant and a product, each rounded,
 *     put the exponent off by 3 f d_k in all, and 2^x is off by one ulp, 2 f. A running maximum
 *     splits d_k into steps that add up to it, each with 2 f for the power and f for the product;
 *     there are fewer than n of them, and 3 more where waves meet;
 *   n such terms are added, and products and sums are rounded: 2 n f more. So the weight of
 *     part k is off by f (3 d_k + 5 n + 16), and the denominator by the mean of that;
 *   the reciprocals, the scale and the last product: 4 f, which the 16 have room for;
 *   a weight below 2^-126 may be lost: 2^-126 |o|;
 *   what that makes of out is rounded: u |out| + tiny, and u of the error before it.
 */
static const double f = 0x1p-24;

/* Returns a bound of the relative error of a combined row. `distance` is the difference between the
 * largest LSE and a part's. */
static double relative_error(const struct ref_combine_row *r, int parts, double distance)
{
    return f * (3 * (distance + r->lse_distance) + 2 * (5 * parts + 16));
}

/* Returns a bound of the error of element `d` before it is rounded to the output's type. */
static double arithmetic_bound(const struct ref_combine_row *r, int parts, int d)
{
    return relative_error(r, parts, 0) * r->magnitude[d] + 3 * f * r->distance[d] +
           0x1p-126 * r->values[d];
}

/* Returns a bound of the error of a combined LSE. */
static double lse_bound(const struct ref_combine_row *r, int parts)
{
    return relative_error(r, parts, 0) + 4 * f * (fabs(r->lse) + r->largest);
}

/* Compares element `d` of a combined row, which is rounded to the output's type. */
static void compare_element(struct call *c, const struct ref_combine_row *r, int parts, int token,
                            int head, int d)
{
    struct operand *out = call_operand(c, COMBINE_OUT);
    const struct operand *given = call_operand(c, COMBINE_OUT_SCALE);
    const double scale = given->given ? operand_value(given, AT(0)) : 1;
    const double u = out->precision->unit, limit = out->precision->limit;
    const double expected = fmin(fmax(r->out[d] / scale, -limit), limit);
    const double arithmetic = arithmetic_bound(r, parts, d) / scale + out->precision->tiny;
    call_compare(c, out, AT(token, head, d), expected, u * fabs(expected) + (1 + u) * arithmetic);
}

/* Reads a partial result and its LSE. */
static void read_part(struct call *c, int token, int part, int head, double *values,
                      struct ref_combine_part *to)
{
    const struct place p = place_of(c, token, part);
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    for (int d = 0; d < c->desc.combine.head_dim; d++)
        values[d] = operand_value(p.out, out_at(c, &p, head, d, at));
    *to = (struct ref_combine_part){values, operand_value(p.lse, lse_at(c, &p, head, at))};
}

/* Compares the combined row of a token and head. */
static void compare_row(struct call *c, int token, int head)
{
    struct ref_combine_part parts[SPLITS_MAX];
    struct ref_combine_row r;
    const int n = count_parts(c, token), dim = c->desc.combine.head_dim;
    const struct operand *sinks = call_operand(c, COMBINE_SINKS);
    double *values = verify_allocate((size_t)n * dim, sizeof(*values));
    for (int i = 0; i < n; i++)
        read_part(c, token, i, head, values + (size_t)i * dim, &parts[i]);
    ref_combine_row(parts, n, sinks->given ? operand_value(sinks, AT(head)) : -INFINITY, dim, &r);
    free(values);
    for (int d = 0; d < dim; d++)
        compare_element(c, &r, n, token, head, d);
    if (!call_has(c, NO_LSE))
        call_check(c, call_operand(c, COMBINE_LSE), AT(head, token), r.lse, lse_bound(&r, n));
}

/* Compares all tokens. The tokens of a tile without parts must be unchanged. */
static void compare(struct call *c)
{
    for (int token = 0; token < c->args.combine.tokens; token++) {
        const bool none = scheme(c, ATTN_PARTIALS_CSR) && count_parts(c, token) == 0;
        for (int head = 0; head < c->desc.combine.heads && !none; head++)
            compare_row(c, token, head);
    }
}

/* The functions from here on fill the inputs of a call. */

/* Sets the tiles of query tokens, and the number and index of each tile's parts. */
static void make_tiles(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    int of_row = 0;
    while (of_row < TILES_MAX && s->tiles[of_row].tokens)
        of_row++;
    own->count = of_row * s->repeat;
    own->tiles = call_allocate(c, (size_t)own->count, sizeof(*own->tiles));
    own->of_token = call_allocate(c, (size_t)own->count * TOKENS_MAX, sizeof(*own->of_token));
    own->parts = own->longest = 0;
    for (int t = 0, token = 0; t < own->count; t++) {
        const int tokens = s->tiles[t % of_row].tokens, parts = s->tiles[t % of_row].parts;
        own->tiles[t] = (struct tile){token, tokens, parts, own->parts};
        own->parts += parts;
        for (int end = token + tokens; token < end; token++)
            own->of_token[token] = t;
        own->longest = own->longest > tokens ? own->longest : tokens;
        c->args.combine.tokens = token;
        if (c->args.combine.splits < parts)
            c->args.combine.splits = parts;
    }
}

/* Sets the numbers of tiles, parts and tokens. */
static void size(struct call *c)
{
    struct attn_combine_args *a = &c->args.combine;
    struct own *own = c->own;
    c->desc.combine.heads = ((const struct shape *)c->shape)->heads;
    make_tiles(c);
    a->q_len = own->longest;
    a->reduce_tiles = own->count;
    own->block = own->longest + !call_has(c, IN_ORDER);
    if (call_has(c, FAR)) /* each part has one GiB of partial_out */
        own->block = ((int64_t)1 << 30) / (c->desc.combine.heads * c->desc.combine.head_dim * 4);
    if (scheme(c, ATTN_PARTIALS_CSR))
        a->partial_rows = (int32_t)(own->parts * own->block);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    static const unsigned spread[] = {COMBINE_PREFIX, COMBINE_SUFFIX, COMBINE_OUT};
    const struct own *own = c->own;
    if (scheme(c, ATTN_PARTIALS_CSR)) {
        operand_resize(call_operand(c, COMBINE_PARTIAL_OUT), 0, c->args.combine.partial_rows);
        operand_resize(call_operand(c, COMBINE_PARTIAL_LSE), 0, c->args.combine.partial_rows);
        operand_resize(call_operand(c, COMBINE_REDUCE_PARTIAL_MAP), 0, own->parts);
        call_operand(c, COMBINE_PARTIAL_OUT)->far = call_has(c, FAR);
        call_operand(c, COMBINE_PARTIAL_LSE)->far = call_has(c, FAR);
    }
    for (size_t i = 0; call_has(c, FAR_TOKENS) && i < COUNT(spread); i++) {
        struct operand *o = call_operand(c, spread[i]);
        operand_set_stride(o, 0, 1 << 21);
        o->far = true;
    }
    if (!call_has(c, SINKS))
        operand_leave_out(call_operand(c, COMBINE_SINKS));
    if (!call_has(c, COUNTS))
        operand_leave_out(call_operand(c, COMBINE_SPLIT_COUNTS));
    if (call_has(c, NO_LSE))
        operand_leave_out(call_operand(c, COMBINE_LSE));
    if (call_has(c, IN_PLACE))
        operand_place_inside(call_operand(c, COMBINE_OUT), call_operand(c, COMBINE_PREFIX), 0);
}

/* Returns a random LSE, an infinity in many calls with EMPTY. */
static double random_lse(struct call *c)
{
    if (call_has(c, EMPTY) && random_bits(&c->random) % 5 < 3)
        return random_bits(&c->random) & 1 ? INFINITY : -INFINITY;
    return (float)(random_value(&c->random) * (call_has(c, APART) ? 500 : 3));
}

/* Returns a random element of a partial result, exact in its type: dtype for layout pair, else
 * float32. */
static double random_out(struct call *c)
{
    return scheme(c, ATTN_PARTIALS_PAIR) ? random_value(&c->random)
                                         : (float)((double)random_bits(&c->random) * 0x1p-63 - 1);
}

/* Marks parts that attention did not write: by split_counts, or without it by an infinite LSE. */
static void fill_unwritten(struct call *c)
{
    struct operand *lse = call_operand(c, COMBINE_PARTIAL_LSE);
    if (!scheme(c, ATTN_PARTIALS_DENSE) || call_has(c, COUNTS))
        return;
    for (int token = 0; token < c->args.combine.tokens; token++)
        for (int split = 0; split < c->args.combine.splits; split++)
            for (int head = 0; head < c->desc.combine.heads; head++)
                operand_set(lse, AT(token, split, head), -INFINITY);
}

/* Fills the parts. The values of an empty part stay NaNs. */
static void fill_parts(struct call *c)
{
    const int heads = c->desc.combine.heads, dim = c->desc.combine.head_dim;
    for (int token = 0; token < c->args.combine.tokens; token++) {
        for (int i = 0; i < count_parts(c, token) * heads; i++) {
            const struct place p = place_of(c, token, i / heads);
            int64_t at[ATTN_DIMENSIONS_MAX] = {0};
            const double lse = random_lse(c);
            operand_set(p.lse, lse_at(c, &p, i % heads, at), lse);
            for (int d = 0; d < dim && !isinf(lse); d++)
                operand_set(p.out, out_at(c, &p, i % heads, d, at), random_out(c));
        }
    }
}

/* Fills the lists that say which parts a tile has. */
static void fill_lists(struct call *c)
{
    const struct own *own = c->own;
    for (int t = 0; t < own->count; t++) {
        const struct tile *tile = &own->tiles[t];
        operand_set_int(call_operand(c, COMBINE_REDUCE_INDPTR), AT(t), tile->index);
        operand_set_int(call_operand(c, COMBINE_REDUCE_FINAL_MAP), AT(t, 0), tile->first);
        operand_set_int(call_operand(c, COMBINE_REDUCE_FINAL_MAP), AT(t, 1),
                        tile->first + tile->tokens);
    }
    operand_set_int(call_operand(c, COMBINE_REDUCE_INDPTR), AT(own->count), own->parts);
    for (int i = 0; i < own->parts; i++)
        operand_set_int(call_operand(c, COMBINE_REDUCE_PARTIAL_MAP), AT(i), first_row(c, i));
}

/* Fills the partial results, sinks and lists. */
static void fill(struct call *c)
{
    fill_unwritten(c);
    fill_parts(c);
    call_fill_sinks(c, call_operand(c, COMBINE_SINKS));
    /* Values use most of fp8's range, and exceed it if one part outweighs the others. */
    if (call_operand(c, COMBINE_OUT_SCALE)->given)
        operand_set(call_operand(c, COMBINE_OUT_SCALE), AT(0), 0.002f);
    if (scheme(c, ATTN_PARTIALS_CSR))
        fill_lists(c);
    for (int t = 0; call_has(c, FAR_TOKENS) && t < c->args.combine.tokens; t++)
        for (int h = 0; h < c->desc.combine.heads; h++)
            operand_touch(call_operand(c, COMBINE_OUT), AT(t, h));
    for (int t = 0; call_has(c, COUNTS) && t < c->args.combine.tokens; t++)
        operand_set_int(call_operand(c, COMBINE_SPLIT_COUNTS), AT(t), count_parts(c, t));
}

/* Returns why the reference does not cover the kernel, or NULL if it does. */
static const char *covers(const struct call *c)
{
    return c->desc.combine.head_dim > REF_COMBINE_DIM_MAX ? "the reference does not cover head_dim"
                                                          : NULL;
}

/* True if the kernel is verified on the shape: the shape is for its layout of partial results and
 * its output type. */
static bool takes(const struct call *c)
{
    const struct shape *s = c->shape;
    const bool fp8 = c->desc.combine.out_dtype == ATTN_FP8;
    return s->schemes >> c->desc.combine.partials & 1 && !(fp8 && call_has(c, IN_PLACE));
}

const struct verify_op verify_combine = {
    .op = "combine",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64,parts=4", "tokens=2048,parts=2"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, repeat), 1 << 20, "query tokens"},
            {"parts", offsetof(struct shape, tiles[0].parts), 4096, "of each; a pair has two"},
            {"heads", offsetof(struct shape, heads), 1024, "query heads"},
        },
    .own_size = sizeof(struct own),
    .covers = covers,
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
