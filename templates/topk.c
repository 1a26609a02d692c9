/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest scores of each row: one workgroup goes through a row, or a part of it, once.
 * select.h has the algorithm; here are where scores come from and where positions go.
 */
#include "ir/builder.h"
#include "templates/scalar.h"
#include "templates/select.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    LANES = ATT_SELECT_LANES,
    WAVES = 16,
    EACH = 4,
    NO_SCORE = -1, /* bits of a NaN that stands for no score: what pads a list */
};

struct topk {
    struct tir_builder b;
    struct att_select select;
    struct tir_type score;      /* f32, 64 x 1 */
    struct tir_value row, part; /* of this workgroup */
    struct tir_value first, n;  /* column of the part's first score; scores of the part */
    struct tir_value position;  /* of the first score in its row */
};

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const unsigned bytes = att_select_lds_bytes((unsigned)v->top_k, EACH, WAVES);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          bytes, m->name, m->lds_bytes);
    return true;
}

static struct tir_value number(struct topk *t, struct tir_value scalar)
{
    return tir_splat(&t->b, scalar, t->select.lane);
}

static struct tir_value constant(struct topk *t, int n) { return number(t, tir_i32(&t->b, n)); }

static struct tir_value is_null(struct topk *t, const char *arg)
{
    return tir_cmp_eq(&t->b, tir_arg(&t->b, arg, TIR_I64), tir_i64(&t->b, 0));
}

/* arg[row], or `otherwise` without the array. */
static struct tir_value entry_or(struct topk *t, const char *arg, struct tir_value otherwise)
{
    struct tir_builder *b = &t->b;
    const struct tir_type type = tir_scalar(TIR_I32);
    struct tir_value result = otherwise;
    struct tir_if none = tir_begin_if(b, is_null(t, arg), false, &type, 1);
    tir_else(b, &none, &otherwise);
    result =
        tir_scalar_load(b, tir_arg(b, arg, TIR_I64), tir_shl(b, t->row, tir_i32(b, 2)), TIR_I32);
    tir_end_if(b, &none, &result);
    return result;
}

/* The columns of this workgroup: its part of the row. */
static void find_part(struct topk *t)
{
    struct tir_builder *b = &t->b;
    const struct tir_value zero = tir_i32(b, 0), columns = tir_arg(b, "columns", TIR_I32);
    t->row = tir_block_id(b, 0);
    t->part = tir_block_id(b, 1);
    const struct tir_value start = tir_max(b, entry_or(t, "row_starts", zero), zero);
    const struct tir_value end = tir_min(b, entry_or(t, "row_ends", columns), columns);
    const struct tir_value all = tir_max(b, tir_sub(b, end, start), zero);
    const struct tir_value splits = tir_arg(b, "splits", TIR_I32);
    const struct tir_value up = tir_add(b, all, att_plus(b, splits, -1));
    const struct tir_value each = tir_div(b, up, splits);
    t->position = tir_min(b, tir_mul(b, each, t->part), all);
    t->n = tir_min(b, each, tir_sub(b, all, t->position));
    t->first = tir_add(b, start, t->position);
}

/* Address of the part's first element of an array [rows, columns] of 32 bits. */
static struct tir_value part_of(struct topk *t, const char *arg, const char *stride)
{
    struct tir_builder *b = &t->b;
    const struct tir_value row = tir_mul(b, att_wide(b, t->row), att_stride(b, stride, 4));
    const struct tir_value at = tir_mul(b, att_wide(b, t->first), tir_i64(b, 4));
    return tir_add(b, tir_arg(b, arg, TIR_I64), tir_add(b, row, at));
}

static void load_chunk(struct topk *t, struct tir_view scores, struct tir_value first,
                       struct tir_value out[EACH])
{
    struct tir_builder *b = &t->b;
    for (unsigned j = 0; j < EACH; j++) {
        const struct tir_value at = tir_add(b, first, att_select_place(&t->select, j));
        out[j] = tir_tile_load(b, scores, at, t->score);
    }
}

/* Goes through the part; the next chunk is on its way while one is offered. */
static struct tir_value select_part(struct topk *t, struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = &t->b;
    const int chunk = (int)t->select.chunk;
    const struct tir_view scores =
        att_view(b, part_of(t, "scores", "scores_row_stride"), t->n, tir_i32(b, 4), 4, 0);
    struct tir_value carried[ATT_SELECT_N + EACH];
    for (int i = 0; i < ATT_SELECT_N; i++)
        carried[i] = state[i];
    load_chunk(t, scores, tir_i32(b, 0), carried + ATT_SELECT_N);
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), t->n, tir_i32(b, chunk), carried, ATT_SELECT_N + EACH);
    struct tir_value next[EACH], keys[EACH], there[EACH];
    load_chunk(t, scores, att_plus(b, loop.index, chunk), next);
    for (unsigned j = 0; j < EACH; j++) {
        const struct tir_value at = tir_add(b, loop.index, att_select_place(&t->select, j));
        const struct tir_value column = tir_add(b, t->select.lane_index, number(t, at));
        const struct tir_value score = carried[ATT_SELECT_N + j];
        const struct tir_value bits = tir_bitcast(b, score, t->select.lane);
        keys[j] = att_select_key(b, score);
        there[j] = tir_and(b, tir_cmp_lt(b, column, number(t, t->n)),
                           tir_cmp_ne(b, bits, constant(t, NO_SCORE)));
    }
    att_select_offer(&t->select, carried, keys, there, loop.index);
    for (unsigned j = 0; j < EACH; j++)
        carried[ATT_SELECT_N + j] = next[j];
    tir_end_for(b, &loop, carried, ATT_SELECT_N + EACH);
    return att_select_end(&t->select, carried);
}

/* ---- Results ---- */

/* Element `at` (i32, of each lane) of an array of 32 bits at `base`. */
static struct tir_value gather(struct topk *t, struct tir_value base, struct tir_value at,
                               unsigned dtype)
{
    struct tir_builder *b = &t->b;
    struct tir_type type = t->select.lane;
    type.dtype = (uint8_t)dtype;
    const struct tir_value wide = tir_convert(b, at, TIR_I64);
    return tir_tile_gather(b, base, tir_mul(b, wide, tir_int_like(b, wide, 4)), tir_i32(b, 0),
                           type);
}

/* What stands for the column: its position, or what `source` says of it. */
static struct tir_value name_columns(struct topk *t, struct tir_value column)
{
    struct tir_builder *b = &t->b;
    const struct tir_value own = tir_add(b, column, number(t, t->position));
    struct tir_value result = own;
    struct tir_if plain = tir_begin_if(b, is_null(t, "source"), false, &t->select.lane, 1);
    tir_else(b, &plain, &own);
    result = gather(t, part_of(t, "source", "source_row_stride"), column, TIR_I32);
    tir_end_if(b, &plain, &result);
    return result;
}

/* Slots of positions, where there is a table; `at` is not below 0. */
static struct tir_value find_slots(struct topk *t, struct tir_value at)
{
    struct tir_builder *b = &t->b;
    struct tir_value result = at;
    struct tir_if plain = tir_begin_if(b, is_null(t, "block_table"), false, &t->select.lane, 1);
    tir_else(b, &plain, &at);
    const struct tir_value shift = number(t, tir_arg(b, "page_shift", TIR_I32));
    const struct tir_value sequence = entry_or(t, "row_sequences", t->row);
    const struct tir_value row =
        tir_mul(b, att_wide(b, sequence), att_stride(b, "block_table_stride", 4));
    const struct tir_value table = tir_add(b, tir_arg(b, "block_table", TIR_I64), row);
    const struct tir_value page = gather(t, table, tir_shr(b, at, shift), TIR_I32);
    const struct tir_value start = tir_shl(b, page, shift);
    const struct tir_value inside = tir_sub(b, at, tir_shl(b, tir_shr(b, at, shift), shift));
    result = tir_add(b, start, inside);
    tir_end_if(b, &plain, &result);
    return result;
}

/* The workgroup's list in an array [rows, splits, each] of 32 bits; nothing where it is NULL. */
static struct tir_view list_in(struct topk *t, const char *arg, int each)
{
    struct tir_builder *b = &t->b;
    const struct tir_value splits = att_wide(b, tir_arg(b, "splits", TIR_I32));
    const struct tir_value list =
        tir_add(b, tir_mul(b, att_wide(b, t->row), splits), att_wide(b, t->part));
    const struct tir_value base =
        tir_add(b, tir_arg(b, arg, TIR_I64), tir_mul(b, list, tir_i64(b, 4 * each)));
    const struct tir_value n = tir_select(b, is_null(t, arg), tir_i32(b, 0), tir_i32(b, each));
    return att_view(b, base, n, tir_i32(b, 4), 4, 0);
}

static void write_lists(struct topk *t, struct tir_value count)
{
    struct tir_builder *b = &t->b;
    const int k = (int)t->select.k;
    const struct tir_view indices = list_in(t, "indices", k), values = list_in(t, "values", k);
    const struct tir_value scores = part_of(t, "scores", "scores_row_stride");
    const struct tir_value begin = att_times(b, t->select.wave, LANES);
    struct tir_loop loop =
        tir_begin_for(b, begin, tir_i32(b, k), tir_i32(b, LANES * WAVES), NULL, 0);
    const struct tir_value entry = tir_add(b, t->select.lane_index, number(t, loop.index));
    const struct tir_value have = tir_cmp_lt(b, entry, number(t, count));
    const struct tir_type types[] = {t->select.lane, t->score};
    struct tir_value out[2] = {constant(t, -1), tir_bitcast(b, constant(t, NO_SCORE), t->score)};
    struct tir_if some = tir_begin_if(b, tir_any(b, have), false, types, 2);
    const struct tir_value safe = tir_select(b, have, entry, constant(t, 0));
    const struct tir_value column = att_select_position(&t->select, safe);
    const struct tir_value score = gather(t, scores, column, TIR_F32);
    const struct tir_value found[2] = {
        tir_select(b, have, find_slots(t, name_columns(t, column)), out[0]),
        tir_select(b, have, score, out[1]),
    };
    tir_else(b, &some, found);
    tir_end_if(b, &some, out);
    tir_tile_store(b, indices, loop.index, out[0]);
    tir_tile_store(b, values, loop.index, out[1]);
    tir_end_for(b, &loop, NULL, 0);
}

/* The first wave writes the number of the list. */
static void write_count(struct topk *t, struct tir_value count)
{
    struct tir_builder *b = &t->b;
    const struct tir_value row = att_times(b, t->select.wave, LANES);
    tir_tile_store(b, list_in(t, "counts", 1), row, number(t, count));
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    struct tir_func *f = tir_func_create(name, m, WAVES);
    f->waves_per_simd = WAVES / 4;
    struct topk t = {.b = tir_at_end(f, f->body)};
    struct tir_value state[ATT_SELECT_N];
    t.select = att_select_begin(&t.b, (unsigned)v->top_k, EACH, state);
    t.score = t.select.lane;
    t.score.dtype = TIR_F32;
    find_part(&t);
    const struct tir_value count = select_part(&t, state);
    write_lists(&t, count);
    write_count(&t, count);
    tir_return(&t.b);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .interleave = 1},
        .grid = {{"rows", 1, 1}, {"splits", 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d each=%d", WAVES, EACH);
}

const struct att_template att_template_topk = {
    .name = "topk",
    .description = "the positions of the largest scores of each row",
    .takes = OP_TAKES_TOPK,
    .check = check,
    .build = build,
};
