/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds a decode step of a GDN or KDA layer in one launch: the short convolution, the
 * gated delta rule and the gated norm. It also serves the verification of drafts. Results have the
 * same bits as in three separate launches.
 *
 * A workgroup processes one head of q and k of one sequence, with all of its value heads. Each wave
 * convolves 64 channels at a time and stores them in LDS, while the loads of the state run. Then it
 * advances a part of a state, as in gated_delta.c. One wave of each value head normalises the
 * outputs that the head's waves have stored in LDS. With drafts all tokens of the sequence are
 * convolved first, and the waves of a value head share the norms of these tokens.
 *
 * Every column of both states is read and written by one wave, so a step in place has no race.
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
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/fp8.h"

#include <stdio.h>

/* ELEM: bytes of an element of bf16 or fp16. CHANNELS: number of channels of a wave in the
 * convolution. CHUNK: number of elements that a lane loads at once for the norm. LEAST_KEY: least
 * head_dim. DRAFTS: most tokens of a sequence with drafts. */
enum { ELEM = 2, CHANNELS = ATT_CONV_CHANNELS, CHUNK = 8, LEAST_KEY = 128, DRAFTS = 8 };
enum { GROUP = 128 /* number of elements of a row of out that share a scale */ };

/* Index in att_tile.own after ATT_STATE_ELEMENTS. 1: att_delta.late is set, and gates and weights
 * are loaded late, at their use. 0: they are loaded at the kernel's start. */
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

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct step {
    /* The recurrence. It is the first member, since functions of the recurrence take its
     * address. */
    struct att_delta d;
    const struct tir_machine *m;
    /* waves: number of waves of the workgroup. parts: number of waves that share a value head.
     * rounds: number of rounds in which the workgroup convolves all of its channels. */
    int waves, parts, rounds;
    /* i32: index of the wave's value head among the value heads of the workgroup */
    struct tir_value own;
    struct tir_value part;  /* i32: index of the wave among the waves of its value head */
    struct tir_value row;   /* i32: row index of the sequence's first token in x, gates and out */
    struct tir_value count; /* i32: number of tokens of the sequence */
    /* i32: index of the first column of conv_state that is read: att_accepted(), or 0 without
     * drafts */
    struct tir_value history;
    /* i32: index of the slot of conv_state that is written; without drafts also the slot of
     * `state` */
    struct tir_value slot;
    struct tir_value slot_in; /* i32: index of the slot of conv_state that is read */
    /* i1: conv_state is read and written; false: the sequence has no slot, as padding of a batch,
     * or no tokens */
    struct tir_value moves;
    /* Bytes in LDS of the convolved channels of one token, and of the zeros that idle waves store
     * after these. */
    int token_bytes;
    /* i32: LDS address of the workgroup's convolved channels of q, k and v, token by token. */
    struct tir_value inputs;
    /* i32: LDS address of the outputs of the recurrence, token by token, and for each token by
     * value head. */
    struct tir_value outputs;
};

/* ---- Variants and tiles that can be built ---- */

/* Doubles the waves of a tile with LATE on machines with waves of 32 lanes, and halves the elements
 * of a wave. With as many waves as on 64 lanes, a lane would have twice the elements, and spill. */
static void rules(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t)
{
    (void)v;
    const unsigned fewer = t->own[LATE] ? TIR_WAVE_BITS - m->lane_bits : 0;
    t->waves = (uint8_t)(t->waves << fewer);
    t->waves_per_simd = (uint8_t)(t->waves_per_simd << fewer);
    t->own[ATT_STATE_ELEMENTS] >>= fewer;
}

/* Returns the largest number of tokens of a sequence in one call: DRAFTS with drafts, else 1. */
static int tokens_of(const struct att_variant *v) { return v->drafts ? DRAFTS : 1; }

/* Returns the number of waves that share a value head with tile `t`. */
static int parts_of(const struct att_variant *v, const struct att_tile *t)
{
    return v->head_dim_v / (int)att_state_rows(v, t);
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const int waves = v->gqa * parts_of(v, t);
    if (waves != t->waves)
        return att_reject(why, ATT_GQA,
                          "%d value heads of a key head take %d waves, a workgroup has %d", v->gqa,
                          waves, t->waves);
    if (v->decay == ATT_DECAY_CHANNEL && t->waves_per_simd > 2)
        return att_reject(why, ATT_DECAY, "decays of keys leave registers for 2 waves of a SIMD");
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS && t->waves_per_simd > 3)
        return att_reject(why, ATT_STATE_LAYOUT, "leaves registers for 3 waves of a SIMD");
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
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
    if (v->out_dtype == ATT_OUT_DTYPE_FP8 && v->head_dim_v < GROUP)
        return att_reject(why, ATT_OUT_DTYPE,
                          "out_dtype fp8 has a scale for %d elements, a value head has only %d",
                          GROUP, v->head_dim_v);
    return att_check_tile(v, m, why);
}

/* ---- The convolution ---- */

/* Returns the index (i32) in x of the first channel of the workgroup's block `chunk` (i32, index)
 * of 64 channels. Blocks are numbered over the channels of the head's q, of its k, and of its value
 * heads. */
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

/* Names of the arguments of the convolution and of its state. */
static const struct att_conv_args arguments = {
    .weight = ARG_CONV_WEIGHT,
    .bias = ARG_CONV_BIAS,
    .state = ARG_CONV_STATE,
    .slot_stride = ARG_CONV_STATE_SLOT_STRIDE,
    .channel_stride = ARG_CONV_STATE_CHANNEL_STRIDE,
    .column_stride = ARG_CONV_STATE_COLUMN_STRIDE,
    .columns = ARG_CONV_COLUMNS,
};

/* Operands of the convolution of 64 channels. */
struct inputs {
    /* 16-bit, 1 x 64 each: the last taps - 1 inputs before the call, oldest first; then the call's
     * tokens. */
    struct tir_value in[ATT_CONV_TAPS - 1 + DRAFTS];
    /* Weights of each tap, and bias: f32, 1 x 64. */
    struct tir_value weights[ATT_CONV_TAPS], bias;
};

/* Issues the loads of history, tokens, weights and bias of the channels of `c` into *i. History and
 * tokens are zeros if `there` (i1) is false. Tokens after the call's last one are zeros too. */
static void load_inputs(struct step *s, const struct att_conv *c,
                        const struct att_conv_shape *shape, struct tir_value there,
                        struct inputs *i)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int last = r->v->taps - 1;
    for (int j = 0; j < last; j++)
        i->in[j] =
            att_conv_load(b, c, shape, s->slot_in, there, tir_add(b, s->history, tir_i32(b, j)));
    const struct tir_value x =
        tir_add(b, att_row(b, tir_arg(b, ARG_X, TIR_I64), s->row, ARG_X_TOKEN_STRIDE, ELEM),
                att_wide(b, att_times(b, c->channel, ELEM)));
    const struct tir_value rows = tir_select(b, there, s->count, tir_i32(b, 0));
    const struct tir_view view =
        att_view(b, x, rows, att_stride32(b, ARG_X_TOKEN_STRIDE, ELEM), CHANNELS * ELEM, 0);
    for (int t = 0; t < tokens_of(r->v); t++)
        i->in[last + t] = tir_tile_load(b, view, tir_i32(b, t), shape->row);
    att_conv_taps(b, c, shape, i->weights);
    i->bias = att_conv_bias(b, c, shape);
}

/* Stores the state of the convolution from *i: the last taps - 2 columns of the history, and then
 * all tokens. Stores nothing if `there` (i1) is false. */
static void store_inputs(struct step *s, const struct att_conv *c, struct tir_value there,
                         const struct inputs *i)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int last = r->v->taps - 1;
    for (int j = 1; j < last + tokens_of(r->v); j++) {
        const struct tir_value is =
            j <= last ? there : tir_and(b, there, tir_cmp_gt(b, s->count, tir_i32(b, j - last)));
        att_conv_store(b, c, s->slot, is, tir_i32(b, j - 1), i->in[j]);
    }
}

/* Returns token `t` (index) of 64 channels after the convolution and silu, in 16 bits; zeros if
 * `there` (i1) is false. */
static struct tir_value convolve(struct step *s, const struct inputs *i, struct tir_value there,
                                 int t)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    struct tir_value y = i->bias;
    for (int j = 0; j < r->v->taps; j++)
        y = tir_fma(b, tir_convert(b, i->in[t + j], TIR_F32), i->weights[j], y);
    const struct tir_value kept = tir_select(b, there, tir_f32(b, 1), tir_f32(b, 0));
    y = tir_mul(b, att_silu(b, y), att_like(b, kept, y));
    return tir_convert_short(b, y, r->dtype);
}

/* Convolves the workgroup's channels, and stores the results in LDS and the state of the
 * convolution in the pool. Waves without channels in the last round store zeros in LDS after the
 * channels, which nothing reads. */
static void convolve_all(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int chunks = (2 * r->v->head_dim + r->v->gqa * r->v->head_dim_v) / CHANNELS;
    const struct tir_layout map = tir_row_major(1, CHANNELS);
    const struct att_conv_shape shape = att_conv_shape(b, r->v, CHANNELS, 1);
    s->rounds = (chunks + s->waves - 1) / s->waves;
    s->token_bytes = s->rounds * s->waves * CHANNELS * ELEM;
    s->inputs = tir_lds_buffer(b, (unsigned)(tokens_of(r->v) * s->token_bytes), 16);
    for (int i = 0; i < s->rounds; i++) {
        const struct tir_value chunk = att_plus(b, tir_wave_id(b), i * s->waves);
        const struct tir_value there =
            tir_and(b, s->moves, tir_cmp_lt(b, chunk, tir_i32(b, chunks)));
        const struct att_conv c = {
            .v = r->v,
            .args = arguments,
            .channels = CHANNELS,
            .channel = channel_of(s, tir_min(b, chunk, tir_i32(b, chunks - 1))),
        };
        struct inputs inputs;
        /* This copy makes LLVM compute the sizes of stores again in each round, so that they take
         * no registers meanwhile. */
        if (i && r->v->drafts)
            s->count = tir_materialize(b, s->count);
        load_inputs(s, &c, &shape, there, &inputs);
        store_inputs(s, &c, there, &inputs);
        const struct tir_value to = tir_add(b, s->inputs, att_times(b, chunk, CHANNELS * ELEM));
        for (int t = 0; t < tokens_of(r->v); t++)
            tir_tile_lds_store(b, att_plus(b, to, t * s->token_bytes),
                               convolve(s, &inputs, there, t), &map);
    }
    att_lds_barrier(b);
}

/* ---- The recurrence ---- */

/* Reads q and k of a token, and v at the wave's value elements, from LDS into *t. `inputs` (i32) is
 * the LDS address of the token's channels. */
static void read_inputs(struct step *s, struct tir_value inputs, struct att_delta_token *t)
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
    t->q = tir_tile_lds_load(b, inputs, keys, &row);
    t->k = tir_tile_lds_load(b, att_plus(b, inputs, key * ELEM), keys, &row);
    const struct tir_value v = att_plus(b, att_times(b, first, ELEM), 2 * key * ELEM);
    t->v = tir_transpose(b, tir_tile_lds_load(b, tir_add(b, inputs, v), line, &part));
}

/* Returns the LDS bytes of a token's outputs of all value heads of the workgroup. */
static int output_bytes(const struct step *s)
{
    return s->d.r.v->gqa * s->d.r.v->head_dim_v * ELEM;
}

/* Stores `out` (f32), this wave's outputs of a token, in LDS, rounded as gated_delta.c rounds them.
 * `outputs` (i32) is the LDS address of the token's outputs. */
static void write_outputs(struct step *s, struct tir_value outputs, struct tir_value out)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_layout part = tir_row_major(1, r->state.rows);
    const struct tir_value first = tir_add(b, att_times(b, s->own, r->v->head_dim_v), r->first);
    const struct tir_value line = tir_transpose(b, tir_convert_short(b, out, r->dtype));
    tir_tile_lds_store(b, tir_add(b, outputs, att_times(b, first, ELEM)), line, &part);
}

/* ---- The norm ---- */

/* Returns the type of a value head's row, 1 x head_dim_v of 16 bits. gated_rmsnorm uses the same
 * type, so that sums have the same order. */
static struct tir_type row_type(struct step *s)
{
    const unsigned width = (unsigned)s->d.r.v->head_dim_v;
    const struct tir_layout l = tir_spread_chunks(s->m, 1, CHUNK, 1, width);
    return tir_tile(s->d.r.b.f, s->d.r.dtype, 1, width, &l);
}

/* Returns a view of the wave's value head in row `row` (i32, index) of argument `arg`, z or out.
 * token_stride and head_stride are names of arguments. An element has `size` bytes. The view is
 * empty if `there` (i1) is false. */
static struct tir_view row_view(struct step *s, const char *arg, const char *token_stride,
                                const char *head_stride, int size, struct tir_value row,
                                struct tir_value there)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value token = att_row(b, tir_arg(b, arg, TIR_I64), row, token_stride, size);
    const struct tir_value base = att_row(b, token, r->value_head, head_stride, size);
    const struct tir_value rows = tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0));
    return att_view(b, base, rows, tir_i32(b, 0), r->v->head_dim_v * size, 0);
}

/* Stores the scales of the wave's value head in row `row` (i32, index) of out, if `own` (i1) is
 * true. Row i of `scale` (f32) is the scale of the elements from 128 i on. */
static void store_scales(struct step *s, struct tir_value row, struct tir_value own,
                         struct tir_value scale)
{
    enum { FLOAT = 4 };
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int groups = r->v->head_dim_v / GROUP;
    const struct tir_value first = att_times(b, r->value_head, groups);
    const struct tir_value token =
        att_row(b, tir_arg(b, ARG_OUT_SCALE, TIR_I64), row, ARG_OUT_SCALE_TOKEN_STRIDE, FLOAT);
    const struct tir_value base = att_row(b, token, first, ARG_OUT_SCALE_GROUP_STRIDE, FLOAT);
    const struct tir_value index =
        tir_convert(b, tir_row_index(b, tir_with_dtype(tir_typeof(b->f, scale), TIR_I32)), TIR_I64);
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value stride =
        tir_select(b, own, att_stride(b, ARG_OUT_SCALE_GROUP_STRIDE, FLOAT), tir_i64(b, 0));
    const struct tir_value none = tir_select(b, own, tir_i64(b, 0), tir_i64(b, -1));
    const struct tir_value at =
        tir_add(b, tir_mul(b, index, tir_splat(b, stride, t)), tir_splat(b, none, t));
    tir_tile_scatter(b, base, at, tir_i32(b, 0), scale);
}

/* Stores `y` (f32) as the wave's value head in row `row` (i32, index) of out, if `own` (i1) is
 * true. If out is fp8, quantises `y` and stores the scales. */
static void store_row(struct step *s, struct tir_value y, struct tir_value row,
                      struct tir_value own)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const bool narrow = r->v->out_dtype == ATT_OUT_DTYPE_FP8;
    const struct tir_view to = row_view(s, ARG_OUT, ARG_OUT_TOKEN_STRIDE, ARG_OUT_HEAD_STRIDE,
                                        narrow ? 1 : ELEM, row, own);
    if (narrow) {
        const struct tir_value groups = tir_split_blocks(b, y, GROUP);
        const struct tir_value scale = att_fp8_scale(b, tir_row_max(b, tir_abs(b, groups)));
        store_scales(s, row, own, scale);
        y = tir_join_blocks(b, att_fp8_divide(b, groups, scale), 1);
    } else {
        y = tir_convert_short(b, y, r->dtype);
    }
    tir_tile_store(b, to, tir_i32(b, 0), y);
}

/* Loads z, the gate of the norm, at the wave's value head in row `row` (i32, index). */
static struct tir_value load_z(struct step *s, struct tir_value row)
{
    const struct tir_view gates =
        row_view(s, ARG_Z, ARG_Z_TOKEN_STRIDE, ARG_Z_HEAD_STRIDE, ELEM, row, s->d.r.real);
    return tir_tile_load(&s->d.r.b, gates, tir_i32(&s->d.r.b, 0), row_type(s));
}

/* Loads the weights of the norm, 1 x head_dim_v, which all value heads share. */
static struct tir_value load_weight(struct step *s)
{
    struct tir_builder *b = &s->d.r.b;
    const struct tir_view weights = att_view(b, tir_arg(b, ARG_WEIGHT, TIR_I64), tir_i32(b, 1),
                                             tir_i32(b, 0), s->d.r.v->head_dim_v * ELEM, 0);
    return tir_tile_load(b, weights, tir_i32(b, 0), row_type(s));
}

/* Normalises the outputs of the wave's value head, and stores them in row `row` (i32, index) of out
 * if `own` (i1) is true. `outputs` (i32) is the LDS address of the token's outputs. `z` and
 * `weight` are the loaded gates and weights. */
static void normalise(struct step *s, struct tir_value outputs, struct tir_value z,
                      struct tir_value weight, struct tir_value row, struct tir_value own)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const int width = r->v->head_dim_v;
    const struct tir_layout map = tir_row_major(1, (unsigned)width);
    const struct tir_value at = tir_add(b, outputs, att_times(b, s->own, width * ELEM));
    const struct tir_value w = tir_convert(b, weight, TIR_F32);
    struct tir_value y = tir_convert(b, tir_tile_lds_load(b, at, row_type(s), &map), TIR_F32);
    att_norm_apply(b, r->v, width, 1, &y, &z, &w);
    store_row(s, y, row, own);
}

/* ---- A step ---- */

/* Sets the wave's head, its value head, and its part of that value head's state: `rows` value
 * elements. */
static void open_step(struct step *s, unsigned rows)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value wave = tir_wave_id(b);
    const int bits = (int)tir_bits((unsigned)s->parts);
    s->own = tir_shr(b, wave, tir_i32(b, bits));
    s->part = tir_and(b, wave, tir_i32(b, s->parts - 1));
    r->state = att_state(b, r->v, r->v->head_dim, r->v->head_dim_v, rows);
    r->first = att_times(b, s->part, (int)rows);
    r->head = tir_block_id(b, 0);
    r->value_head = tir_add(b, att_times(b, r->head, r->v->gqa), s->own);
}

/* Sets the token and the slots of a sequence of one token. The token's row in x is the index of the
 * sequence. */
static void open_token(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value index = tir_block_id(b, 1);
    r->sequence.index = s->row = index;
    s->count = tir_i32(b, 1);
    s->history = tir_i32(b, 0);
    s->slot = att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, index);
    s->slot_in =
        att_strided_entry(b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, index);
    r->slot = s->slot_in;
    r->real = s->moves = tir_and(b, att_is_slot(b, s->slot), att_is_slot(b, r->slot));
}

/* Issues the loads into *t of gate and beta of the token in row `row` (i32, index). */
static void load_gates(struct step *s, struct tir_value row, struct att_delta_token *t)
{
    struct att_recurrence *r = &s->d.r;
    t->gate = att_delta_load_gate(r, row, r->real);
    t->beta = att_delta_load_beta(r, row, r->real);
}

/* Reserves LDS for the outputs of all tokens, and sets s->outputs. */
static void allocate_outputs(struct step *s)
{
    const unsigned bytes = (unsigned)(tokens_of(s->d.r.v) * output_bytes(s));
    s->outputs = tir_lds_buffer(&s->d.r.b, bytes, 16);
}

/* Computes the step of a sequence of one token. Loads of the state and, without late, of gates and
 * weights are issued before the convolution, so that these loads overlap the convolution's
 * loads. */
static void visit_token(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    struct att_delta_token t;
    struct att_delta_update did;
    struct tir_value z, weight;
    open_token(s);
    struct tir_value state =
        att_state_load(b, &r->state, att_recurrence_state(r, r->slot), r->first, r->real);
    if (!s->d.late) {
        load_gates(s, s->row, &t);
        att_delta_load_head(r);
        z = load_z(s, s->row);
        weight = load_weight(s);
    }
    convolve_all(s);
    if (s->d.late) {
        load_gates(s, s->row, &t);
        att_delta_load_head(r);
    }
    read_inputs(s, s->inputs, &t);
    const struct tir_value out = att_delta_advance(&s->d, &t, &state, &did);
    allocate_outputs(s);
    write_outputs(s, s->outputs, out);
    att_lds_barrier(b);
    att_state_store(b, &r->state, att_recurrence_state(r, s->slot), r->first, r->real, state);
    if (s->d.late) {
        z = load_z(s, s->row);
        weight = load_weight(s);
    }
    normalise(s, s->outputs, z, weight, s->row, tir_cmp_eq(b, s->part, tir_i32(b, 0)));
}

/* ---- Verification of drafts ---- */

/* Sets the tokens and the slots of a sequence with drafts. */
static void open_drafts(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value zero = tir_i32(b, 0);
    r->sequence = att_sequence_tokens(b, tir_block_id(b, 1));
    s->row = r->sequence.start;
    s->count = tir_min(b, r->sequence.count, tir_i32(b, DRAFTS));
    s->history = att_accepted(b, r->sequence.index);
    s->slot = att_recurrence_slot(r, zero);
    s->slot_in = att_recurrence_slot_in(r, zero);
    r->slot = att_recurrence_slot_in(r, s->history);
    const struct tir_value some = tir_cmp_gt(b, s->count, zero);
    r->real = tir_and(b, att_is_slot(b, r->slot), some);
    s->moves = tir_and(b, tir_and(b, att_is_slot(b, s->slot), att_is_slot(b, s->slot_in)), some);
}

/* Stores `state` as the state after draft `t` (i32, index in the sequence), in that draft's
 * slot. */
static void store_draft(struct step *s, struct tir_value t, struct tir_value state)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    const struct tir_value slot = att_recurrence_slot(r, t);
    att_state_store(b, &r->state, att_recurrence_state(r, slot), r->first,
                    tir_and(b, r->real, att_is_slot(b, slot)), state);
}

/* Advances `state` (f32) by all tokens of the sequence. Stores the outputs in LDS, and the state
 * after each token in the pool. Gates of the next token are loaded while one token is computed. */
static void advance_drafts(struct step *s, struct tir_value state)
{
    enum { GATE, BETA, STATE, CARRIED };
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    struct att_delta_token t, next;
    struct att_delta_update did;
    load_gates(s, s->row, &t);
    att_delta_load_head(r);
    struct tir_value carried[CARRIED] = {t.gate, t.beta, state};
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), s->count, tir_i32(b, 1), carried, CARRIED);
    t.gate = carried[GATE];
    t.beta = carried[BETA];
    const struct tir_value last = att_plus(b, s->count, -1);
    load_gates(s, tir_add(b, s->row, tir_min(b, att_plus(b, loop.index, 1), last)), &next);
    read_inputs(s, tir_add(b, s->inputs, att_times(b, loop.index, s->token_bytes)), &t);
    const struct tir_value out = att_delta_advance(&s->d, &t, &carried[STATE], &did);
    write_outputs(s, tir_add(b, s->outputs, att_times(b, loop.index, output_bytes(s))), out);
    store_draft(s, loop.index, carried[STATE]);
    carried[GATE] = next.gate;
    carried[BETA] = next.beta;
    tir_end_for(b, &loop, carried, CARRIED);
}

/* Computes the step of a sequence of up to 8 tokens. The waves of a value head share the norms of
 * the tokens. */
static void visit_drafts(struct step *s)
{
    struct att_recurrence *r = &s->d.r;
    struct tir_builder *b = &r->b;
    open_drafts(s);
    const struct tir_value state =
        att_state_load(b, &r->state, att_recurrence_state(r, r->slot), r->first, r->real);
    convolve_all(s);
    allocate_outputs(s);
    advance_drafts(s, state);
    att_lds_barrier(b);
    const struct tir_value weight = load_weight(s);
    struct tir_loop loop = tir_begin_for(b, s->part, s->count, tir_i32(b, s->parts), NULL, 0);
    const struct tir_value row = tir_add(b, s->row, loop.index);
    const struct tir_value at = tir_add(b, s->outputs, att_times(b, loop.index, output_bytes(s)));
    normalise(s, at, load_z(s, row), weight, row, tir_bool(b, true));
    tir_end_for(b, &loop, NULL, 0);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned rows = att_state_rows(v, &tile);
    struct step s = {
        .d = {.r = {.v = v, .dtype = att_dtype(v)}, .late = tile.own[LATE]},
        .m = m,
        .waves = tile.waves,
        .parts = parts_of(v, &tile),
    };
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    s.d.r.b = tir_at_end(f, f->body);
    open_step(&s, rows);
    if (v->drafts)
        visit_drafts(&s);
    else
        visit_token(&s);
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
    .takes = OP_TAKES_GATED_DELTA_STEP | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"elements", "late"},
    .rules = rules,
    .fits = fits,
    .check = check,
    .build = build,
};
