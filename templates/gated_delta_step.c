/* SPDX-License-Identifier: Apache-2.0
 *
 * A decode step of a GDN or KDA layer in one launch: the short convolution, the gated delta rule
 * and the gated norm, with the bits of the three launches.
 *
 * A workgroup has a head of q and k of one sequence, with all of its value heads. Each wave
 * convolves 64 channels at a time and puts them into LDS; then it has a part of a state, as in
 * gated_delta.c, whose loads were under way all the while. One wave of each value head normalises
 * what the waves of that head have put into LDS. Every column of both states is read and written by
 * one wave, so a step in place has no race.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/linear/conv.h"
#include "templates/linear/delta.h"
#include "templates/linear/gates.h"
#include "templates/linear/norm.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

#include <stdio.h>

enum { ELEM = 2, CHANNELS = ATT_CONV_CHANNELS, CHUNK = 8, LEAST_KEY = 128 };

/* Member of att_tile.own after ATT_STATE_ELEMENTS. 1: gates and weights are loaded by the part that
 * needs them, not at the start of the kernel. */
enum { LATE = 1 };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 2, .own = {4096}, .why = "a value head of 128 x 128"},
    {.waves = 8, .waves_per_simd = 2, .own = {4096}, .why = "two, or one of 128 x 256"},
    {.waves = 12, .waves_per_simd = 3, .own = {4096}, .why = "three value heads"},
    {.waves = 16,
     .waves_per_simd = 4,
     .own = {4096, [LATE] = 1},
     .why = "four value heads; a state leaves no registers for gates and weights"},
    {.waves = 2, .waves_per_simd = 2, .own = {4096}, .why = "a value head of 128 x 64"},
};

static const struct att_knob knobs[] = {
    {"waves_per_simd", 1, {1}},
};

struct step {
    struct att_delta d; /* first: functions of the recurrence are given it */
    const struct tir_machine *m;
    int waves, parts, rounds; /* parts: waves of a value head; rounds: of the convolution */
    bool late;                /* att_tile.own[LATE] */
    struct tir_value own;     /* i32: the wave's value head, counted in the workgroup */
    struct tir_value part;    /* i32: the wave, counted in its value head */
    struct tir_value slot;    /* i32: that states are written to */
    struct tir_value inputs;  /* LDS: convolved channels of the workgroup, q, k and v */
    struct tir_value outputs; /* LDS: of the recurrence, value head after value head */
};

/* ---- Variants and tiles that can be built ---- */

/* Divides the states of four value heads among twice the waves of 32 lanes. Fewer waves with twice
 * the elements a lane spill. */
static void rules(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t)
{
    (void)v;
    const unsigned fewer = t->own[LATE] ? TIR_WAVE_BITS - m->lane_bits : 0;
    t->waves = (uint8_t)(t->waves << fewer);
    t->waves_per_simd = (uint8_t)(t->waves_per_simd << fewer);
    t->own[ATT_STATE_ELEMENTS] >>= fewer;
}

static int parts_of(const struct att_variant *v, const struct att_tile *t)
{
    return v->head_dim_v / (int)att_state_rows(v, t);
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const int waves = v->gqa * parts_of(v, t);
    if (waves != t->waves)
        return att_reject(why, ATT_GQA, "%d value heads of a key head take %d waves, not %d",
                          v->gqa, waves, t->waves);
    if (v->decay == ATT_DECAY_CHANNEL && t->waves_per_simd > 2)
        return att_reject(why, ATT_DECAY, "decays of keys leave registers for 2 waves of a SIMD");
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS && t->waves_per_simd > 3)
        return att_reject(why, ATT_STATE_LAYOUT, "leaves registers for 3 waves of a SIMD");
    return att_fits_waves(v, t, m, why);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (!att_state_check_dims(v, why))
        return false;
    if (v->head_dim < LEAST_KEY)
        return att_reject(why, ATT_HEAD_DIM, "%d is not 128 or 256", v->head_dim);
    if (v->gqa == 0)
        return att_reject(why, ATT_GQA, "a kernel is for one number of value heads of a key head");
    if (v->gates != ATT_GATES_SOFTPLUS && v->gates != ATT_GATES_BOUNDED)
        return att_reject(why, ATT_GATES, "a step computes gates: softplus or bounded");
    if (v->act != ATT_ACT_SILU && v->act != ATT_ACT_SIGMOID)
        return att_reject(why, ATT_ACT, "the gate of the norm is silu or sigmoid");
    return att_find_tile(v, m, &tile, why);
}

/* ---- The convolution ---- */

/* Returns the first channel of 64 of the workgroup's: q, then k, then all of its value heads. */
static struct tir_value channel_of(struct step *s, struct tir_value chunk)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int key = r->v->head_dim, chunks = key / CHANNELS;
    const struct tir_value keys = att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), key);
    const struct tir_value of_key = tir_shr(b, chunk, tir_i32(b, (int)tir_bits((unsigned)chunks)));
    const struct tir_value inside = tir_and(b, chunk, tir_i32(b, chunks - 1));
    const struct tir_value own = att_times(b, r->head, key);
    const struct tir_value q_or_k =
        tir_add(b, tir_add(b, tir_mul(b, of_key, keys), own), att_times(b, inside, CHANNELS));
    const struct tir_value first = att_times(b, r->head, r->v->gqa * r->v->head_dim_v);
    const struct tir_value value = tir_add(b, tir_add(b, att_times(b, keys, 2), first),
                                           att_times(b, att_plus(b, chunk, -2 * chunks), CHANNELS));
    return tir_select(b, tir_cmp_lt(b, chunk, tir_i32(b, 2 * chunks)), q_or_k, value);
}

static const struct att_conv_args arguments = {
    .weight = ARG_CONV_WEIGHT,
    .bias = ARG_CONV_BIAS,
    .state = ARG_CONV_STATE,
    .slot_stride = ARG_CONV_STATE_SLOT_STRIDE,
    .channel_stride = ARG_CONV_STATE_CHANNEL_STRIDE,
    .column_stride = ARG_CONV_STATE_COLUMN_STRIDE,
    .columns = ARG_CONV_COLUMNS,
};

/* Convolves 64 channels, moves their state on by a column, and returns the results in 16 bits:
 * zeros where they are not `there`. */
static struct tir_value convolve(struct step *s, const struct att_conv *c, struct tir_value there)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct att_conv_shape shape = att_conv_shape(b, r->v, 1);
    const int taps = r->v->taps;
    struct tir_value in[ATT_CONV_TAPS], weights[ATT_CONV_TAPS];
    for (int i = 0; i < taps - 1; i++)
        in[i] = att_conv_load(b, c, &shape, r->slot, there, tir_i32(b, i));
    const struct tir_value x = tir_add(
        b, att_row(b, tir_arg(b, ARG_X, TIR_I64), r->sequence.index, ARG_X_TOKEN_STRIDE, ELEM),
        att_wide(b, att_times(b, c->channel, ELEM)));
    const struct tir_value one = tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0));
    const struct tir_view view = att_view(b, x, one, tir_i32(b, 0), CHANNELS * ELEM, 0);
    in[taps - 1] = tir_tile_load(b, view, tir_i32(b, 0), shape.row);
    att_conv_taps(b, c, &shape, weights);
    struct tir_value y = att_conv_bias(b, c, &shape);
    for (int i = 0; i < taps; i++)
        y = tir_fma(b, tir_convert(b, in[i], TIR_F32), weights[i], y);
    for (int i = 1; i < taps; i++)
        att_conv_store(b, c, s->slot, there, tir_i32(b, i - 1), in[i]);
    const struct tir_value kept = tir_select(b, there, tir_f32(b, 1), tir_f32(b, 0));
    y = tir_mul(b, att_silu(b, y), tir_splat(b, kept, tir_typeof(b->f, y)));
    return tir_convert_short(b, y, r->dtype);
}

/* Puts the convolved channels of the workgroup into LDS. Waves without channels in the last round
 * store zeros after them, where nobody reads. */
static void convolve_all(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int chunks = (2 * r->v->head_dim + r->v->gqa * r->v->head_dim_v) / CHANNELS;
    const struct tir_layout map = tir_row_major(1, CHANNELS);
    s->rounds = (chunks + s->waves - 1) / s->waves;
    s->inputs = tir_lds_buffer(b, (unsigned)(s->rounds * s->waves * CHANNELS * ELEM), 16);
    for (int i = 0; i < s->rounds; i++) {
        const struct tir_value chunk = att_plus(b, tir_wave_id(b), i * s->waves);
        const struct tir_value exists = tir_cmp_lt(b, chunk, tir_i32(b, chunks));
        const struct att_conv c = {
            .v = r->v,
            .args = arguments,
            .channel = channel_of(s, tir_min(b, chunk, tir_i32(b, chunks - 1))),
        };
        const struct tir_value y = convolve(s, &c, tir_and(b, r->real, exists));
        const struct tir_value to = tir_add(b, s->inputs, att_times(b, chunk, CHANNELS * ELEM));
        tir_tile_lds_store(b, to, y, &map);
    }
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

/* ---- The recurrence ---- */

/* Reads q, k and v of this wave out of LDS. */
static void read_inputs(struct step *s, struct att_delta_token *t)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct att_state *state = &r->state;
    const int key = r->v->head_dim;
    const struct tir_type keys = att_state_raw_keys(b, state, r->dtype);
    const struct tir_layout row = tir_row_major(1, (unsigned)key);
    const struct tir_layout values = tir_layout_transpose(tir_layout_of(b->f, state->values));
    const struct tir_type line = tir_tile(b->f, r->dtype, 1, state->rows, &values);
    const struct tir_layout part = tir_row_major(1, state->rows);
    const struct tir_value first = tir_add(b, att_times(b, s->own, r->v->head_dim_v), r->first);
    t->q = tir_tile_lds_load(b, s->inputs, keys, &row);
    t->k = tir_tile_lds_load(b, att_plus(b, s->inputs, key * ELEM), keys, &row);
    const struct tir_value v = att_plus(b, att_times(b, first, ELEM), 2 * key * ELEM);
    t->v = tir_transpose(b, tir_tile_lds_load(b, tir_add(b, s->inputs, v), line, &part));
}

/* Puts the outputs of this wave into LDS, rounded as gated_delta.c stores them. */
static void write_outputs(struct step *s, struct tir_value out)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_layout part = tir_row_major(1, r->state.rows);
    const struct tir_value first = tir_add(b, att_times(b, s->own, r->v->head_dim_v), r->first);
    const struct tir_value line = tir_transpose(b, tir_convert_short(b, out, r->dtype));
    s->outputs = tir_lds_buffer(b, (unsigned)(r->v->gqa * r->v->head_dim_v * ELEM), 16);
    tir_tile_lds_store(b, tir_add(b, s->outputs, att_times(b, first, ELEM)), line, &part);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

/* ---- The norm ---- */

/* Returns the type of a row of a value head. It is gated_rmsnorm's, so that sums have the same
 * order. */
static struct tir_type row_type(struct step *s)
{
    struct tir_spread l = tir_spread(s->m, 1);
    const unsigned width = (unsigned)s->d.r.v->head_dim_v;
    tir_spread_cols(&l, TIR_REGS, tir_bits(CHUNK));
    tir_spread_cols(&l, TIR_LANES, tir_bits(width / CHUNK));
    const struct tir_layout layout = tir_spread_layout(&l);
    return tir_tile(s->d.r.b.f, s->d.r.dtype, 1, width, &layout);
}

static struct tir_view row_view(struct step *s, const char *arg, const char *token_stride,
                                const char *head_stride, struct tir_value there)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value token =
        att_row(b, tir_arg(b, arg, TIR_I64), r->sequence.index, token_stride, ELEM);
    const struct tir_value base = att_row(b, token, r->value_head, head_stride, ELEM);
    const struct tir_value rows = tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0));
    return att_view(b, base, rows, tir_i32(b, 0), r->v->head_dim_v * ELEM, 0);
}

/* Loads the gates and weights of the wave's value head. */
static void load_norm(struct step *s, struct tir_value *z, struct tir_value *weight)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_view gates =
        row_view(s, ARG_Z, ARG_Z_TOKEN_STRIDE, ARG_Z_HEAD_STRIDE, r->real);
    const struct tir_view weights = att_view(b, tir_arg(b, ARG_WEIGHT, TIR_I64), tir_i32(b, 1),
                                             tir_i32(b, 0), r->v->head_dim_v * ELEM, 0);
    *z = tir_tile_load(b, gates, tir_i32(b, 0), row_type(s));
    *weight = tir_tile_load(b, weights, tir_i32(b, 0), row_type(s));
}

/* Normalises the outputs of the wave's value head. */
static void normalise(struct step *s, struct tir_value z, struct tir_value weight)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int width = r->v->head_dim_v;
    const struct tir_layout map = tir_row_major(1, (unsigned)width);
    const struct tir_value at = tir_add(b, s->outputs, att_times(b, s->own, width * ELEM));
    const struct tir_value w = tir_convert(b, weight, TIR_F32);
    struct tir_value y = tir_convert(b, tir_tile_lds_load(b, at, row_type(s), &map), TIR_F32);
    att_norm_apply(b, r->v, width, 1, &y, &z, &w);
    const struct tir_view to = row_view(s, ARG_OUT, ARG_OUT_TOKEN_STRIDE, ARG_OUT_HEAD_STRIDE,
                                        tir_cmp_eq(b, s->part, tir_i32(b, 0)));
    tir_tile_store(b, to, tir_i32(b, 0), tir_convert_short(b, y, r->dtype));
}

/* ---- A step ---- */

/* Chooses the head, the value head and the part of its state that this wave has. */
static void open_step(struct step *s, unsigned rows)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value wave = tir_wave_id(b), index = tir_block_id(b, 1);
    const int bits = (int)tir_bits((unsigned)s->parts);
    s->own = tir_shr(b, wave, tir_i32(b, bits));
    s->part = tir_and(b, wave, tir_i32(b, s->parts - 1));
    r->state = att_state(b, r->v, r->v->head_dim, r->v->head_dim_v, rows);
    r->first = att_times(b, s->part, (int)rows);
    r->head = tir_block_id(b, 0);
    r->value_head = tir_add(b, att_times(b, r->head, r->v->gqa), s->own);
    r->sequence.index = index;
    s->slot = att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, index);
    r->slot = att_strided_entry(b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, index);
    r->real = tir_and(b, att_is_slot(b, s->slot), att_is_slot(b, r->slot));
}

static void load_gates(struct step *s, struct att_delta_token *t)
{
    struct att_recurrence *r = &s->d.r;
    t->gate = att_delta_load_gate(r, r->sequence.index, r->real);
    t->beta = att_delta_load_beta(r, r->sequence.index, r->real);
    att_delta_load_head(r);
}

/* Loads come before the convolution, so that they are under way while it waits for its own. */
static void visit(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    struct att_delta_token t;
    struct att_delta_update did;
    struct tir_value z, weight;
    struct tir_value state =
        att_state_load(b, &r->state, att_recurrence_state(r, r->slot), r->first, r->real);
    if (!s->late) {
        load_gates(s, &t);
        load_norm(s, &z, &weight);
    }
    convolve_all(s);
    if (s->late)
        load_gates(s, &t);
    read_inputs(s, &t);
    const struct tir_value out = att_delta_advance(&s->d, &t, &state, &did);
    write_outputs(s, out);
    att_state_store(b, &r->state, att_recurrence_state(r, s->slot), r->first, r->real, state);
    if (s->late)
        load_norm(s, &z, &weight);
    normalise(s, z, weight);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned rows = att_state_rows(v, &tile);
    struct step s = {
        .d = {.r = {.v = v, .dtype = att_dtype(v)}},
        .m = m,
        .waves = tile.waves,
        .parts = parts_of(v, &tile),
        .late = tile.own[LATE],
    };
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    s.d.r.b = tir_at_end(f, f->body);
    open_step(&s, rows);
    visit(&s);
    tir_return(&s.d.r.b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{ARG_HEADS, 1, 1}, {ARG_BATCH, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", rows, tile.waves);
}

const struct att_template att_template_gated_delta_step = {
    .name = "gated_delta_step",
    .description = "a decode step of GDN and KDA: convolution, delta rule and gated norm",
    .any_lanes = true,
    .takes = OP_TAKES_GATED_DELTA_STEP | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"elements", "late"},
    .rules = rules,
    .fits = fits,
    .check = check,
    .build = build,
};
