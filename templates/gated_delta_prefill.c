/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule over prompts, in chunks of 64 tokens: templates/gated_delta_prefill/chunk.h
 * has the formula. A workgroup goes over the chunks of one sequence and value head. Each of its
 * four waves has some value elements of the state in registers, in float, from where it is read to
 * where it is written. The rows of the next chunk are under way while it works on one.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/product_state.h"
#include "templates/linear/tile.h"
#include "templates/linear/triangle.h"
#include "templates/template.h"

#include <stdio.h>

/* Index in att_tile.own: value elements of a wave. */
enum { VALUES };

static const struct att_tile tiles[] = {
    {.waves = DELTA_WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 32},
     .why = "a strip of keys that is read from LDS is multiplied with two blocks of the state"},
    {.waves = DELTA_WAVES,
     .waves_per_simd = 1,
     .own = {[VALUES] = 16},
     .why = "values of 64 elements, and few sequences and heads"},
};

static const struct att_knob knobs[] = {
    {"values", 1, {16}},
};

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned lds = delta_lds_bytes(v);
    if (t->own[VALUES] * t->waves > (unsigned)v->head_dim_v)
        return att_reject(why, ATT_HEAD_DIM_V, "%u waves have %u value elements each", t->waves,
                          t->own[VALUES]);
    if (lds > m->lds_bytes)
        return att_reject(why, ATT_HEAD_DIM, "a chunk takes %u B of LDS, %s has %u", lds, m->name,
                          m->lds_bytes);
    if (att_triangle_instr(m) < 0 ||
        tir_find_mma(m, DELTA_BLOCK, DELTA_BLOCK, DELTA_BLOCK, att_dtype(v)) < 0)
        return att_reject(why, ATT_FIELD_COUNT, "%s has no matrix instruction of 16 x 16 floats",
                          m->name);
    return att_fits_waves(v, t, m, why);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    enum { KEY_MAX = 128 };
    struct att_tile tile;
    if (!att_state_check_dims(v, why))
        return false;
    if (v->head_dim > KEY_MAX)
        return att_reject(why, ATT_HEAD_DIM, "%d is not 64 or 128", v->head_dim);
    if (v->gates == ATT_GATES_CONSTANT)
        return att_reject(why, ATT_GATES, "the delta rule has decays of each token");
    return att_find_tile(v, m, &tile, why);
}

/* Returns the second kernel, for few sequences and heads, which leave compute units without a
 * workgroup. Half as many value elements for each wave give twice as many workgroups, with half as
 * many products a chunk. The smallest part of a target has a quarter of its compute units (MI308X:
 * 80 of 304); all of these workgroups still run at once there. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    enum { HALF_VALUES = 2 /* candidate: the second row */, SMALLEST_PART = 4 };
    const int least = (int)(tiles[0].own[VALUES] * tiles[0].waves);
    if (n || v->head_dim_v < least)
        return false;
    *second = (struct att_second){
        .tile = HALF_VALUES,
        .calls = {.rows = {{ARG_WORKGROUPS, 0, (int64_t)m->cus / SMALLEST_PART / 2}}, .count = 1}};
    return true;
}

/* ---- Slots ---- */

static struct tir_value state_at(struct delta *d, struct tir_value slot)
{
    struct tir_builder *b = &d->b;
    const int size = d->v->state_dtype == ATT_STATE_DTYPE_F32 ? 4 : 2;
    const struct tir_value base =
        att_row(b, tir_arg(b, ARG_STATE, TIR_I64), slot, ARG_STATE_SLOT_STRIDE, size);
    const struct tir_value bytes = tir_i64(b, d->v->head_dim * d->v->head_dim_v * size);
    return tir_add(b, base, tir_mul(b, att_wide(b, d->value_head), bytes));
}

static struct tir_value load_state(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot = att_strided_entry(
        b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, d->sequence.index);
    d->real = att_is_slot(b, slot);
    const struct tir_value there = tir_and(b, d->real, d->sequence.has_state);
    return att_product_state_load(b, d->v, state_at(d, slot), d->first, there, d->t.state);
}

static void store_state(struct delta *d, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot =
        att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, d->sequence.index);
    const struct tir_value there = tir_and(b, d->real, att_is_slot(b, slot));
    att_product_state_store(b, d->v, state_at(d, slot), d->first, there, state);
}

/* ---- Chunks ---- */

static void begin_chunk(struct delta *d, struct tir_value token)
{
    struct tir_builder *b = &d->b;
    d->left = tir_sub(b, d->sequence.end, token);
    d->loaded = tir_select(b, d->real, d->left, tir_i32(b, 0));
}

/* Stores what coefficients are made of: keys and queries, or by channel keys that are decayed to
 * the ends of their blocks. */
static void store_factors(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const int bytes = DELTA_BLOCK * d->v->head_dim * DELTA_ELEM;
    const struct tir_value own = delta_own(d, d->lds.k, bytes);
    if (delta_by_channel(d)) {
        const struct tir_value total = delta_spread(d, delta_total(d));
        delta_store_strip(d, own, delta_decayed(d, rows->k, tir_sub(b, total, d->local)));
        return;
    }
    delta_store_strip(d, own, rows->k);
    delta_store_strip(d, delta_own(d, d->lds.q, bytes), rows->q);
    delta_store_turned(d, rows->k);
}

/* Stores what the scan takes by channel, in the place of the factors of coefficients. */
static void store_decayed(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const int bytes = DELTA_BLOCK * d->v->head_dim * DELTA_ELEM;
    const struct tir_value from_first = tir_add(b, d->local, delta_spread(d, d->before));
    const struct tir_value rest = tir_sub(b, delta_spread(d, delta_total(d)), d->local);
    const struct tir_value to_last = tir_add(b, rest, delta_spread(d, d->after));
    delta_store_strip(d, delta_own(d, d->lds.k, bytes), delta_decayed(d, rows->k, from_first));
    delta_store_strip(d, delta_own(d, d->lds.q, bytes), delta_decayed(d, rows->q, from_first));
    delta_store_turned(d, delta_decayed(d, rows->k, to_last));
    delta_sync(d);
}

static struct tir_value visit_chunk(struct delta *d, struct tir_value token,
                                    const struct delta_rows *rows, struct tir_value state)
{
    delta_gates(d, rows);
    store_factors(d, rows);
    delta_sync(d);
    if (delta_by_channel(d))
        delta_add_totals(d);
    delta_coefficients(d, rows);
    delta_sync(d);
    if (delta_by_channel(d))
        store_decayed(d, rows);
    state = delta_scan(d, token, rows, state);
    tir_barrier(&d->b);
    return state;
}

static void visit_sequence(struct delta *d)
{
    enum { ROWS = sizeof(struct delta_rows) / sizeof(struct tir_value) };
    struct tir_builder *b = &d->b;
    union {
        struct {
            struct delta_rows rows;
            struct tir_value state;
        } is;
        struct tir_value values[ROWS + 1];
    } carried, next;
    const struct tir_value chunk = tir_i32(b, DELTA_CHUNK);
    carried.is.state = load_state(d);
    delta_load_head(d);
    begin_chunk(d, d->sequence.start);
    delta_load_rows(d, d->sequence.start, &carried.is.rows);
    struct tir_loop loop =
        tir_begin_for(b, d->sequence.start, d->sequence.end, chunk, carried.values, ROWS + 1);
    const struct tir_value after = tir_add(b, loop.index, chunk);
    begin_chunk(d, after);
    delta_load_rows(d, after, &next.is.rows);
    begin_chunk(d, loop.index);
    next.is.state = visit_chunk(d, loop.index, &carried.is.rows, carried.is.state);
    tir_end_for(b, &loop, next.values, ROWS + 1);
    store_state(d, next.is.state);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct delta d = {.v = v, .m = m, .dtype = att_dtype(v)};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    d.values = tile.own[VALUES];
    const int parts = v->head_dim_v / (int)(d.values * tile.waves);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    d.b = tir_at_end(f, f->body);
    struct tir_builder *b = &d.b;
    d.wave = tir_wave_id(b);
    const struct tir_value part = tir_add(b, att_times(b, tir_block_id(b, 0), tile.waves), d.wave);
    d.first = att_times(b, part, (int)d.values);
    d.value_head = tir_block_id(b, 1);
    d.head = tir_div(b, d.value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    d.sequence = att_sequence_of_prompt(b, tir_block_id(b, 2));
    delta_choose(&d);
    const struct tir_value some = tir_cmp_gt(b, d.sequence.count, tir_i32(b, 0));
    struct tir_if has_tokens = tir_begin_if(b, some, false, NULL, 0);
    visit_sequence(&d);
    tir_end_if(b, &has_tokens, NULL);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, parts}, {ARG_VALUE_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", d.values, tile.waves);
}

const struct att_template att_template_gated_delta_prefill = {
    .name = "gated_delta_prefill",
    .description = "gated delta rule over prompts, in chunks, with states",
    .takes = OP_TAKES_GATED_DELTA_PREFILL | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"values"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};
