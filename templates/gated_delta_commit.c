/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that advances states of the gated delta rule by records: S = exp(g) S
 * + k u^T for each accepted token. Order and roundings are as in templates/gated_delta.c. A wave
 * has a part of one state, as in that template. The load of the next token's record runs while it
 * applies one.
 */
#include "ir/bits.h"
#include "templates/linear/gates.h"
#include "templates/linear/record.h"
#include "templates/linear/sequence.h"
#include "templates/linear/state.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

#include <stdio.h>

/* Bytes of an f32 number, and of an entry of the arrays of byte offsets by layer. */
enum { FLOAT = 4, WIDE = 8 };

static const struct att_knob knobs[] = {
    {"elements", 2, {2048, 8192}},
    {"waves_per_simd", 2, {1, 4}},
};

/* Indices in raw[] of the vectors of a record: the update u, the key k, and g, the natural
 * logarithm of the decay. */
enum { U, K, G, VECTORS };

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct commit {
    const struct att_variant *v;
    struct tir_builder b;
    struct att_state state; /* the wave's part of a state: types and sizes */
    /* i32, indices: the layer, the value head, and the wave's first value element */
    struct tir_value layer, value_head, first;
    /* i64: address of the records of the sequence's slot */
    struct tir_value records;
    /* i32: number of records to apply, one for each accepted draft */
    struct tir_value count;
};

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (!att_state_check_dims(v, why))
        return false;
    return att_check_tile(v, m, why);
}

/* Issues the loads of the vectors of record `step` (i32, index in the slot's records) into
 * raw[VECTORS]. Vectors are zeros after the last record to apply. */
static void load_record(struct commit *c, struct tir_value step, struct tir_value *raw)
{
    struct tir_builder *b = &c->b;
    const struct tir_value there = tir_cmp_lt(b, step, c->count);
    const struct tir_value at =
        att_record(b, c->records, c->value_head, step, att_record_bytes(c->v));
    const struct tir_value key = tir_add(b, at, tir_i64(b, FLOAT * c->v->head_dim_v));
    const struct tir_value gate = tir_add(b, key, tir_i64(b, FLOAT * c->v->head_dim));
    const struct tir_value own = tir_add(b, at, att_wide(b, att_times(b, c->first, FLOAT)));
    raw[U] = att_state_load_values(b, &c->state, own, TIR_F32, there);
    raw[K] = att_state_load_keys(b, &c->state, key, TIR_F32, there);
    raw[G] = c->v->decay == ATT_DECAY_CHANNEL
                 ? att_state_load_keys(b, &c->state, gate, TIR_F32, there)
                 : att_state_load_one(b, &c->state, gate, TIR_F32, there);
}

/* Returns `state` advanced by a record with vectors raw[VECTORS]. */
static struct tir_value advance(struct commit *c, const struct tir_value *raw,
                                struct tir_value state)
{
    struct tir_builder *b = &c->b;
    const struct att_state *s = &c->state;
    const struct tir_value k = att_state_keys(b, s, raw[K]);
    const struct tir_value g =
        c->v->decay == ATT_DECAY_CHANNEL ? att_state_keys(b, s, raw[G]) : raw[G];
    const struct tir_value old = tir_mul(b, att_state_spread(b, s, att_exp(b, g)), state);
    return tir_fma(b, att_state_spread(b, s, raw[U]), att_state_spread(b, s, k), old);
}

/* Returns the address (i64) of slot `slot` (i32, index) in a tensor of the workgroup's layer. Three
 * names of arguments: `arg` has an address, `layers` an array of each layer's byte offset from that
 * address, `stride` the number of elements between slots. An element has `size` bytes. */
static struct tir_value slot_at(struct commit *c, const char *arg, const char *layers,
                                const char *stride, int size, struct tir_value slot)
{
    struct tir_builder *b = &c->b;
    const struct tir_value entry = att_times(b, c->layer, WIDE);
    const struct tir_value before = tir_scalar_load(b, tir_arg(b, layers, TIR_I64), entry, TIR_I64);
    return att_row(b, att_at(b, arg, before), slot, stride, size);
}

/* Returns the address (i64) of the value head's state in slot `slot` (i32, index) of the
 * workgroup's layer. */
static struct tir_value state_at(struct commit *c, struct tir_value slot)
{
    struct tir_builder *b = &c->b;
    const int size = c->state.size, bytes = c->v->head_dim * c->v->head_dim_v * size;
    const struct tir_value base =
        slot_at(c, ARG_STATE, ARG_LAYER_STATES, ARG_STATE_SLOT_STRIDE, size, slot);
    return tir_add(b, base, att_wide_times(b, c->value_head, bytes));
}

/* Loads the state in slot `slot_in` (i32, index), applies that slot's records, and stores the
 * result in slot `slot` (i32, index). */
static void visit(struct commit *c, struct tir_value slot_in, struct tir_value slot)
{
    struct tir_builder *b = &c->b;
    const struct tir_value there = tir_bool(b, true), zero = tir_i32(b, 0);
    struct tir_value carried[VECTORS + 1], next[VECTORS];
    c->records =
        slot_at(c, ARG_RECORDS, ARG_LAYER_RECORDS, ARG_RECORDS_SLOT_STRIDE, FLOAT, slot_in);
    load_record(c, zero, carried);
    carried[VECTORS] = att_state_load(b, &c->state, state_at(c, slot_in), c->first, there);
    struct tir_loop loop = tir_begin_for(b, zero, c->count, tir_i32(b, 1), carried, VECTORS + 1);
    load_record(c, att_plus(b, loop.index, 1), next);
    carried[VECTORS] = advance(c, carried, carried[VECTORS]);
    for (int i = 0; i < VECTORS; i++)
        carried[i] = next[i];
    tir_end_for(b, &loop, carried, VECTORS + 1);
    att_state_store(b, &c->state, state_at(c, slot), c->first, there, carried[VECTORS]);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct commit c = {.v = v};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned rows = att_state_rows(v, &tile), parts = (unsigned)v->head_dim_v / rows;
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    struct tir_builder *b = &c.b;
    c.state = att_state(b, v, v->head_dim, v->head_dim_v, rows);
    const struct tir_value place = tir_block_id(b, 0), sequence = tir_block_id(b, 2);
    const struct tir_value shift = tir_i32(b, (int)tir_bits(parts));
    c.layer = tir_shr(b, place, shift);
    c.first = att_times(b, tir_and(b, place, tir_i32(b, (int)parts - 1)), (int)rows);
    c.value_head = tir_block_id(b, 1);
    c.count = att_entry(b, ARG_ACCEPTED, sequence, TIR_I32);
    const struct tir_value slot =
        att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, sequence);
    const struct tir_value slot_in =
        att_strided_entry(b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, sequence);
    const struct tir_value real = tir_and(b, att_is_slot(b, slot), att_is_slot(b, slot_in));
    const struct tir_value some = tir_cmp_gt(b, c.count, tir_i32(b, 0));
    struct tir_if own = att_begin_if(b, tir_and(b, real, some));
    visit(&c, slot_in, slot);
    tir_end_if(b, &own, NULL);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{ARG_LAYERS, 1, (int)parts}, {ARG_VALUE_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u", rows);
}

const struct att_template att_template_gated_delta_commit = {
    .name = "gated_delta_commit",
    .description = "states of the gated delta rule advance by records",
    .takes = OP_TAKES_GATED_DELTA_COMMIT | ATT_BIT(TILE),
    ATT_TILES(att_state_tiles, knobs),
    .own = {"elements"},
    .fits = att_fits_waves,
    .check = check,
    .build = build,
};
