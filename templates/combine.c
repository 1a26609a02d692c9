/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that adds split-KV partials, weighted by their LSE, to one output.
 * attention/part_rows.h has the formula.
 *
 * Field partials of the variant says where the parts (partials) of an output are. csr: a plan lists
 * them. dense: each token has equally many. pair: there are two. For csr and dense a workgroup
 * computes some heads of one token. Each lane has 16 bytes of a row and loops over all parts, with
 * several loads in flight. For pair a workgroup computes some tokens of one head. All data are read
 * once, no wave waits for another, and the grid does not depend on data in memory.
 *
 * A second kernel serves launches of few tokens, which would leave most compute units without a
 * workgroup. All waves of a workgroup have the same heads, and share the parts of these heads. If
 * there are few parts, one wave adds them all.
 */
#include "ir/bits.h"
#include "ir/builder.h"
#include "templates/attention/part_rows.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    ELEM = 2,       /* bytes of an element of bf16 or fp16 */
    TOKEN_BITS = 2, /* log2 of the usual number of rows of a lane, with partials pair */
    /* Number of registers that a lane needs for addresses and sums, in addition to registers with
     * elements. */
    OTHERS = 8,
};

/* Indices in att_tile.own. AT_ONCE: number of parts that a wave loads at once; 0: the row of
 * tiles[] is for partials pair. SHARE_PARTS: 1 if the waves share the parts of a row, 0 if each
 * wave has all parts of its rows. */
enum { AT_ONCE, SHARE_PARTS };

/* In a row of tiles[], member `rows` is the number of rows of a lane; 0: one row, or up to four
 * tokens of a pair. */
static const struct att_tile tiles[] = {
    {.waves = 4,
     .waves_per_simd = 8,
     .own = {[AT_ONCE] = 8},
     .why = "a list is short, and its parts are latencies next to each other"},
    {.waves = 4, .waves_per_simd = 4, .own = {[AT_ONCE] = 4}, .why = "a lane has 8 or 12 elements"},
    {.waves = 4, .waves_per_simd = 4, .why = "a pair has two parts of a 16-bit type"},
    {.waves = 4,
     .waves_per_simd = 4,
     .own = {[AT_ONCE] = 8, [SHARE_PARTS] = 1},
     .why = "few tokens of many parts: waves share the parts, and heads have more workgroups"},
};

static const struct att_knob knobs[] = {
    {"at_once", 3, {1, 2, 8}},
    {"waves", 4, {1, 2, 8, 16}},
    {"rows", 4, {1, 2, 4, 8}},
    {"waves_per_simd", 2, {2, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct combine {
    const struct att_variant *v;
    struct att_tile tile;
    struct tir_builder b;
    unsigned dtype; /* enum tir_dtype of 16-bit outputs */
    /* Number of rows of a workgroup: heads of a token, or tokens of a head with partials pair. */
    unsigned rows;
    /* The workgroup's rows of the output, for functions of attention/part_rows.h. */
    struct att_part_rows part_rows;
};

/* True if each token and head has two partials, in the type of the result. */
static bool is_pair(const struct att_variant *v) { return v->partials == ATT_PARTIALS_PAIR; }

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const int dim = v->head_dim;
    if (dim % 8 || dim < 32 || dim > 512)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not a multiple of 8 from 32 to 512",
                          dim);
    return att_check_tile(v, m, why);
}

/* Returns a struct att_part_rows of the variant in which only the members are set that determine
 * the number of elements of a lane. */
static struct att_part_rows sized(const struct att_variant *v, const struct tir_machine *m)
{
    return (struct att_part_rows){.m = m, .head_dim = (unsigned)v->head_dim, .tokens = is_pair(v)};
}

/* Returns log2 of the number of rows that a lane has if the tile's `rows` is 0. */
static unsigned usual_bits(const struct att_variant *v, const struct tir_machine *m)
{
    const struct att_part_rows r = sized(v, m);
    return is_pair(v) ? TOKEN_BITS - (att_parts_elements(&r) > att_parts_per_lane(&r)) : 0;
}

/* Returns log2 of the number of rows that a lane has. */
static unsigned row_bits(const struct combine *c)
{
    return c->tile.rows ? tir_bits(c->tile.rows) : usual_bits(c->v, c->b.f->machine);
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned rows = t->rows ? t->rows : 1u << usual_bits(v, m), at_once = t->own[AT_ONCE];
    const struct att_part_rows r = sized(v, m);
    const unsigned elements = att_parts_elements(&r),
                   registers = tir_wave_vgprs(m, t->waves_per_simd);
    if (t->rows == 1u << usual_bits(v, m))
        return att_reject(why, ATT_TILE, "a lane has %u rows already", t->rows);
    if (is_pair(v) != !at_once)
        return att_reject(why, ATT_TILE, "the tile is for %s",
                          at_once ? "lists of parts" : "pairs");
    if (t->own[SHARE_PARTS] && (t->waves > ATT_PARTS_WAVES || att_parts_row_waves(&r) > 1))
        return att_reject(why, ATT_TILE,
                          "the tile is for rows that one wave holds, and at most %d waves",
                          ATT_PARTS_WAVES);
    if (t->waves < att_parts_row_waves(&r))
        return att_reject(why, ATT_TILE, "%u waves share a row", att_parts_row_waves(&r));
    if (!att_fits_waves(v, t, m, why))
        return false;
    if (OTHERS + rows * (elements * (is_pair(v) ? 3 : at_once + 1) + 2 * at_once) > registers)
        return att_reject(why, ATT_TILE, "%u rows of %u elements take more than %u registers", rows,
                          elements, registers);
    return true;
}

/* Sets *l to the list of parts of this workgroup's token, from the plan, and sets the token.
 * Returns an i1: false if the plan's tile has no such token or the list is empty. */
static struct tir_value find_csr(struct combine *c, struct att_part_list *l)
{
    struct tir_builder *b = &c->b;
    const struct tir_value tile = tir_block_id(b, 0);
    const struct tir_value at = tir_shl(b, tile, tir_i32(b, 2));
    const struct tir_value indptr = tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64);
    const struct tir_value begin = tir_scalar_load(b, indptr, at, TIR_I32);
    const struct tir_value end = tir_scalar_load(b, indptr, att_plus(b, at, 4), TIR_I32);
    const struct tir_value tokens = tir_arg(b, ARG_REDUCE_FINAL_MAP, TIR_I64);
    const struct tir_value pair = tir_shl(b, tile, tir_i32(b, 3));
    const struct tir_value q_start = tir_scalar_load(b, tokens, pair, TIR_I32);
    const struct tir_value q_end = tir_scalar_load(b, tokens, att_plus(b, pair, 4), TIR_I32);
    l->count = tir_sub(b, end, begin);
    l->map = att_at(b, ARG_REDUCE_PARTIAL_MAP, att_wide_times(b, begin, 4));
    l->token = tir_block_id(b, 2);
    c->part_rows.token = tir_add(b, q_start, l->token);
    return tir_and(b, tir_cmp_gt(b, l->count, tir_i32(b, 0)),
                   tir_cmp_lt(b, c->part_rows.token, q_end));
}

/* Sets *l to the parts of this workgroup's token: ARG_SPLITS parts, or split_counts[token] if that
 * is fewer. Returns an i1: false if the token has no parts. */
static struct tir_value find_dense(struct combine *c, struct att_part_list *l)
{
    struct tir_builder *b = &c->b;
    const struct tir_value splits = tir_arg(b, ARG_SPLITS, TIR_I32);
    const struct tir_value counts = tir_arg(b, ARG_SPLIT_COUNTS, TIR_I64);
    const struct tir_type type = tir_scalar(TIR_I32);
    c->part_rows.token = tir_block_id(b, 0);
    l->first = tir_mul(b, c->part_rows.token, splits);
    struct tir_if all = tir_begin_if(b, tir_cmp_eq(b, counts, tir_i64(b, 0)), false, &type, 1);
    tir_else(b, &all, &splits);
    l->count = tir_scalar_load(b, counts, tir_shl(b, c->part_rows.token, tir_i32(b, 2)), TIR_I32);
    l->count = tir_min(b, l->count, splits);
    tir_end_if(b, &all, &l->count);
    return tir_cmp_gt(b, l->count, tir_i32(b, 0));
}

/* Adds the parts of list `l`, and writes the workgroup's rows of the output. */
static void write_list(struct combine *c, const struct att_part_list *l)
{
    struct tir_builder *b = &c->b;
    struct att_part_rows *const r = &c->part_rows;
    if (!c->tile.own[SHARE_PARTS])
        att_parts_finish(r, att_parts_add_list(r, l));
    else
        att_parts_write_shared(r, l, tir_wave_id(b),
                               tir_lds_buffer(b, att_parts_shared_bytes(r), 16));
}

/* Builds the kernel for lists of parts (csr and dense). A token without parts gets no output with
 * csr. With dense it gets O = 0, and the LSE of its sinks. */
static void build_lists(struct combine *c)
{
    struct tir_builder *b = &c->b;
    const bool csr = c->v->partials == ATT_PARTIALS_CSR;
    struct att_part_list l = {0};
    c->part_rows.head = att_times(b, tir_block_id(b, 1), (int)c->rows);
    c->part_rows.n_rows = tir_sub(b, tir_arg(b, ARG_HEADS, TIR_I32), c->part_rows.head);
    struct tir_if some = att_begin_if(b, csr ? find_csr(c, &l) : find_dense(c, &l));
    write_list(c, &l);
    tir_else(b, &some, NULL);
    if (!csr)
        att_parts_finish_empty(&c->part_rows);
    tir_end_if(b, &some, NULL);
}

/* ---- Pairs: two outputs of every token and head, in the type of the result ---- */

/* Loads one partial of a pair for the workgroup's rows: its output from tensor `out`, 16-bit, and
 * its LSE from tensor `lse`. */
static struct att_part_state load_state(struct combine *c, struct att_tensor out,
                                        struct att_tensor lse)
{
    struct tir_builder *b = &c->b;
    struct att_part_rows *const r = &c->part_rows;
    const struct tir_value base = att_parts_place(r, out, ELEM), row = att_parts_step(r, out, ELEM);
    const struct tir_view from = att_view(b, att_parts_place(r, lse, 4), c->part_rows.n_rows,
                                          att_parts_step(r, lse, 4), 4, 0);
    struct att_part_state s = {.lse = tir_tile_load(b, from, tir_i32(b, 0), c->part_rows.type.row)};
    for (unsigned k = 0; k < c->part_rows.type.n; k++) {
        const struct tir_view o = att_view(b, base, c->part_rows.n_rows, row, c->v->head_dim * ELEM,
                                           c->part_rows.type.first[k] * ELEM);
        s.o[k] =
            tir_tile_load(b, o, tir_i32(b, 0), tir_with_dtype(c->part_rows.type.o[k], c->dtype));
    }
    return s;
}

/* Builds the kernel for pairs: adds the two partials and the sinks, and writes the sum. */
static void build_pair(struct combine *c)
{
    struct tir_builder *b = &c->b;
    struct att_part_rows *const r = &c->part_rows;
    c->part_rows.token = att_times(b, tir_block_id(b, 0), (int)c->rows);
    c->part_rows.head = tir_block_id(b, 1);
    const struct tir_value left = tir_sub(b, tir_arg(b, ARG_TOKENS, TIR_I32), c->part_rows.token);
    c->part_rows.n_rows = tir_min(b, left, tir_i32(b, (int)c->rows));
    struct att_part_state s[3];
    s[0] = load_state(c, ATT_HEADS(PREFIX), ATT_HEADS(PREFIX_LSE));
    s[1] = load_state(c, ATT_HEADS(SUFFIX), ATT_HEADS(SUFFIX_LSE));
    for (int i = 0; i < 2; i++) {
        att_parts_read_lse(r, &s[i].lse, 1);
        for (unsigned k = 0; k < c->part_rows.type.n; k++)
            s[i].o[k] = tir_convert(b, s[i].o[k], TIR_F32);
    }
    s[2] = att_parts_sink_state(r, att_parts_load_sinks(r));
    att_parts_finish(r, att_parts_add_states(r, s, 3));
}

/* Sets the grid's x, y and z. csr: tiles of the plan, blocks of heads, tokens of a tile. dense:
 * tokens, blocks of heads. pair: blocks of tokens, heads. */
static void set_grid(const struct combine *c, struct att_grid grid[3])
{
    const bool csr = c->v->partials == ATT_PARTIALS_CSR, pair = is_pair(c->v);
    grid[0] = (struct att_grid){csr ? ARG_REDUCE_TILES : ARG_TOKENS, pair ? (int)c->rows : 1, 1};
    grid[1] = (struct att_grid){ARG_HEADS, pair ? 1 : (int)c->rows, 1};
    grid[2] = (struct att_grid){csr ? ARG_MAX_SEQLEN_Q : NULL, 1, 1};
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct combine c = {.v = v};
    att_find_tile(v, m, &c.tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, c.tile.waves, c.tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    c.dtype = att_dtype(v);
    c.part_rows = sized(v, m);
    c.part_rows.b = &c.b;
    c.part_rows.waves = c.tile.waves;
    c.part_rows.row_bits = row_bits(&c);
    c.part_rows.at_once = c.tile.own[AT_ONCE];
    c.part_rows.lone = c.tile.own[SHARE_PARTS];
    c.part_rows.out_dtype = v->out_dtype == ATT_OUT_DTYPE_FP8 ? TIR_FP8 : c.dtype;
    att_parts_choose_type(&c.part_rows);
    c.rows = c.part_rows.type.row.rows;
    if (is_pair(v))
        build_pair(&c);
    else
        build_lists(&c);
    tir_return(&c.b);
    *k = (struct att_kernel){
        .func = f,
    };
    set_grid(&c, k->grid);
    snprintf(k->tuning, sizeof(k->tuning), "rows=%u waves=%d at_once=%d", c.rows, c.tile.waves,
             c.tile.own[AT_ONCE]);
}

/* Sets *second to the kernel whose waves share parts, for launches of few rows of out, which are
 * heads of a token. Returns false if there is none, or if n > 0. A workgroup of that kernel has the
 * heads of one wave. Launches with at most one such workgroup for each compute unit take less time
 * with it. Tokens times heads is mostly a power of two, so the limit is one too: on gfx942 launches
 * of 257 to 304 workgroups with 16 parts or more take longer (modelled). */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    const bool csr = v->partials == ATT_PARTIALS_CSR;
    const struct att_part_rows r = sized(v, m);
    unsigned groups = 1;
    while (2 * groups <= m->cus)
        groups *= 2;
    for (unsigned i = 0; !n && i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        if (!tiles[i].own[SHARE_PARTS] || !fits(v, &tiles[i], m, NULL))
            continue;
        *second = (struct att_second){
            .tile = i + 1,
            .calls = {.rows = {{csr ? ARG_REDUCE_TILES : ARG_TOKENS, 0, (int)groups},
                               {ARG_RESULT_ROWS, 0, (int)(groups * att_parts_wave_rows(&r))},
                               {ARG_MAX_SEQLEN_Q, 0, 1}},
                      .count = csr ? 3 : 2},
        };
        return true;
    }
    return false;
}

const struct att_template att_template_combine = {
    .name = "combine",
    .description = "partial attention outputs, weighted by their LSE, become one",
    .takes = OP_TAKES_COMBINE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"at_once", "share_parts"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};
