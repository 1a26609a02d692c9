/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the short convolution before linear attention, y[t][d] = act(bias[d] + sum_j
 * w[d][j] x[t - W + 1 + j][d]), with W taps. A pool keeps the last W - 1 inputs of each sequence:
 * its history, or state.
 *
 * A wave processes 64 channels of one sequence. If the sequence has a single token, a lane has one
 * channel, with its history in registers. If it has more, a lane has 8 channels of several tokens.
 * Each tap is then a separate load, shifted by a token; all but the first hit the L1. Only the wave
 * that has a sequence's first tokens reads the history, and then writes the state.
 *
 * Further kernels serve calls with sequences of one token. A wave processes all tokens of 64 or 256
 * channels, and the tokens of a longer sequence one by one.
 */
#include "templates/linear/blocks.h"
#include "templates/linear/conv.h"
#include "templates/linear/gates.h"
#include "templates/linear/sequence.h"
#include "templates/template.h"

#include <stdio.h>

/* ELEM: bytes of an element of bf16 or fp16. CHANNELS: number of channels of a block. ROWS: number
 * of tokens of a tile. */
enum { ELEM = 2, CHANNELS = ATT_CONV_CHANNELS, ROWS = 32 };

/* Indices in att_tile.own. STEPS: number of tiles, of ROWS tokens each, that a wave computes; 0:
 * BLOCKS applies. BLOCKS: number of blocks, of CHANNELS channels each, whose tokens of a whole
 * sequence a wave computes; 0: STEPS applies. */
enum { STEPS, BLOCKS };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 4, .own = {[STEPS] = 2}, .why = "short runs fill the device"},
    {.waves = 4,
     .waves_per_simd = 2,
     .own = {[STEPS] = 2},
     .why = "each tap has a tile of x in registers"},
    {.waves = 4,
     .waves_per_simd = 8,
     .own = {[BLOCKS] = 1},
     .why = "a token waits for its slot, and then for its history: many waves cover that"},
    {.waves = 4,
     .waves_per_simd = 8,
     .own = {[BLOCKS] = 4},
     .why = "more channels share the scalar work of a sequence"},
};

static const struct att_knob knobs[] = {
    {"steps", 3, {1, 4, 8}},
    {"waves", 3, {1, 2, 8}},
    {"waves_per_simd", 1, {3}},
};

/* Returns the number of vector registers that a lane needs: for a tile of x of each tap, and for
 * addresses. */
static unsigned registers(const struct att_variant *v)
{
    enum { TILE_OF_X = 32, OTHERS = 36 };
    return TILE_OF_X * (unsigned)v->taps + OTHERS;
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned most = tir_wave_vgprs(m, t->waves_per_simd);
    if (t->own[BLOCKS] && v->tree)
        return att_reject(why, ATT_TREE, "a tree has several drafts");
    if (t->own[BLOCKS] && t->own[STEPS])
        return att_reject(why, ATT_TILE, "a wave with all tokens has no tiles of them");
    if (!t->own[BLOCKS] && registers(v) > most)
        return att_reject(why, ATT_TAPS, "%d taps take %u registers of %u", v->taps, registers(v),
                          most);
    return att_fits_waves(v, t, m, why);
}

/* Sets *second to kernel `n` (index) of the two kernels for sequences of one token: 64 or 256
 * channels a wave. Returns false if n > 1. Launches with three waves or more of 256 channels a
 * compute unit take less time with 256 channels (modelled). Launches of that size also use the
 * kernel of 64 channels for sequences of a few tokens. The kernel for all lengths has few waves at
 * once. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    enum {
        FIRST = 3 /* 1 + index in tiles[] of the first kernel's row */,
        WAVES = 3, /* number of waves of a compute unit from which 256 channels are faster */
        SHORT = 16 /* most tokens of a sequence that the kernels of one token serve */
    };
    const int64_t many = (int64_t)m->cus * WAVES;
    if (n > 1 || v->tree)
        return false;
    *second = (struct att_second){
        .tile = FIRST + n,
        .calls = {.rows = {{ARG_MAX_SEQLEN, 0, 1},
                           {ARG_WIDE_BLOCKS, n ? many : 0, n ? INT32_MAX : many - 1}},
                  .count = 2},
    };
    if (!n)
        second->also[0] = (struct att_box){
            .rows = {{ARG_MAX_SEQLEN, 2, SHORT}, {ARG_WIDE_BLOCKS, many, INT32_MAX}},
            .count = 2,
        };
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU)
        return att_reject(why, ATT_ACT, "sums pass through none or silu");
    return att_check_tile(v, m, why);
}

/* The place of a wave's results in an output tensor. */
struct target {
    struct tir_value base;   /* i64: address of the sequence's first token, at the first channel */
    struct tir_value stride; /* i64: bytes in the tensor from a token to the next */
};

/* Names of the arguments with weights and with the pool of states. */
static const struct att_conv_args arguments = {
    .weight = ARG_WEIGHT,
    .bias = ARG_BIAS,
    .state = ARG_STATE,
    .slot_stride = ARG_STATE_SLOT_STRIDE,
    .channel_stride = ARG_STATE_CHANNEL_STRIDE,
    .column_stride = ARG_STATE_COLUMN_STRIDE,
    .columns = ARG_STATE_COLUMNS,
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct conv {
    const struct att_variant *v;
    struct tir_builder b;
    /* The row of tiles[] that the variant uses. */
    struct att_tile tile;
    struct att_sequence sequence;
    struct att_conv own; /* the wave's channels, in weights and in the pool of states */
    /* i1: the sequence has slots of the pool; false: it is padding of a batch. */
    struct tir_value real;
    struct tir_value block_row; /* i64: result of att_block_row() for the sequence */
    struct tir_value slot_in;   /* i32: index of the pool's slot from which the state is read */
    struct tir_value slot;      /* i32: index of the pool's slot to which the state is written */
    /* i64: address in x of the sequence's first token, at the wave's first channel */
    struct tir_value x;
    struct tir_value x_stride; /* i32: bytes in x from a token to the next */
    /* i32: index in the sequence of the first token whose input the wave's run of tiles reads */
    struct tir_value run_first;
    struct target out; /* the output tensor of the wave's first channel */
};

/* Returns `a` as f32. */
static struct tir_value widen(struct conv *c, struct tir_value a)
{
    return tir_convert(&c->b, a, TIR_F32);
}

/* ---- The state ---- */

/* Loads column `i` (i32, index; 0 is the oldest input) of the history: 1 x channels of x's dtype.
 * Returns zeros if `wanted` (i1) is false. */
static struct tir_value load_history(struct conv *c, const struct att_conv_shape *s,
                                     struct tir_value i, struct tir_value wanted)
{
    struct tir_builder *b = &c->b;
    const struct tir_value column = tir_add(b, i, c->sequence.accepted);
    const struct tir_value there = tir_and(b, tir_and(b, c->real, c->sequence.has_state), wanted);
    return att_conv_load(b, &c->own, s, c->slot_in, there, column);
}

/* Stores `a`, inputs of 1 x channels, as column `column` (i32, index) of the state, if `wanted`
 * (i1) is true. */
static void store_column(struct conv *c, struct tir_value column, struct tir_value a,
                         struct tir_value wanted)
{
    att_conv_store(&c->b, &c->own, c->slot, tir_and(&c->b, c->real, wanted), column, a);
}

/* ---- Tokens ---- */

/* Returns a view of up to `most` tokens of x at the wave's channels, from token `first` (i32, index
 * in the sequence) on. Few tokens keep its bytes below 4 GiB. The view of a padding sequence has no
 * tokens. */
static struct tir_view inputs_view(struct conv *c, struct tir_value first, int most)
{
    struct tir_builder *b = &c->b;
    const struct tir_value left =
        tir_min(b, tir_sub(b, c->sequence.count, first), tir_i32(b, most));
    const struct tir_value count = tir_select(b, c->real, left, tir_i32(b, 0));
    const struct tir_value base = att_row(b, c->x, first, ARG_X_TOKEN_STRIDE, ELEM);
    return att_view(b, base, count, c->x_stride, (int)c->own.channels * ELEM, 0);
}

/* Stores act(y) to output `to`. `y` (f32) has sums of CHANNELS channels, with a row for each token.
 * Row 0 is `row` (i32) tokens after token `first` (i32, index in the sequence). Only the `most`
 * tokens from `first` on are stored. A padding sequence gets zeros. */
static void store_outputs(struct conv *c, const struct target *to, struct tir_value first, int most,
                          struct tir_value row, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    if (c->v->act == ATT_ACT_SILU)
        y = att_silu(b, y);
    const struct tir_value kept = tir_select(b, c->real, tir_f32(b, 1), tir_f32(b, 0));
    y = tir_mul(b, y, att_like(b, kept, y));
    const struct tir_value base = tir_add(b, to->base, tir_mul(b, att_wide(b, first), to->stride));
    const struct tir_value left =
        tir_min(b, tir_sub(b, c->sequence.count, first), tir_i32(b, most));
    const struct tir_view view =
        att_view(b, base, left, tir_convert(b, to->stride, TIR_I32), CHANNELS * ELEM, 0);
    tir_tile_store(b, view, row, tir_convert_short(b, y, att_dtype(c->v)));
}

/* Returns the sums (f32, 1 x channels) of a sequence's only token, and stores the state after it.
 * Weights are converted after all loads are issued. */
static struct tir_value convolve_token(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct att_conv_shape s = att_conv_shape(b, c->v, c->own.channels, 1);
    const int taps = c->v->taps;
    struct tir_value in[ATT_CONV_TAPS], weights[ATT_CONV_TAPS];
    att_conv_load_taps(b, &c->own, &s, weights);
    for (int i = 0; i < taps - 1; i++)
        in[i] = load_history(c, &s, tir_i32(b, i), tir_bool(b, true));
    const struct tir_value zero = tir_i32(b, 0);
    in[taps - 1] = tir_tile_load(b, inputs_view(c, zero, 1), zero, s.row);
    struct tir_value y = att_conv_bias(b, &c->own, &s);
    att_conv_convert_taps(b, &c->own, &s, weights);
    for (int i = 0; i < taps; i++)
        y = tir_fma(b, widen(c, in[i]), weights[i], y);
    for (int i = 1; i < taps; i++)
        store_column(c, tir_i32(b, i - 1), in[i], tir_bool(b, true));
    return y;
}

enum { STEP = 4 /* number of columns of a state that a wave copies at once */ };

/* Sets in[] to the STEP inputs of the sequence from index `from` (i32) on. Inputs with negative
 * indices are columns of the history: W - 1 higher, with W taps. Loads both; the load that does not
 * apply returns 0, and the results are combined by a bitwise or after all loads are issued. */
static void load_either(struct conv *c, const struct att_conv_shape *s, struct tir_value from,
                        struct tir_value *in)
{
    struct tir_builder *b = &c->b;
    const struct tir_type bits = tir_with_dtype(s->row, TIR_I16);
    const struct tir_value zero = tir_i32(b, 0), before = tir_min(b, from, zero);
    const struct tir_view own = inputs_view(c, tir_max(b, from, zero), STEP);
    struct tir_value old[STEP];
    for (int i = 0; i < STEP; i++) {
        const struct tir_value at = att_plus(b, from, i);
        in[i] = tir_tile_load(b, own, att_plus(b, before, i), s->row);
        old[i] = load_history(c, s, att_plus(b, at, c->v->taps - 1), tir_cmp_lt(b, at, zero));
    }
    for (int i = 0; i < STEP; i++) {
        const struct tir_value both =
            tir_or(b, tir_bitcast(b, in[i], bits), tir_bitcast(b, old[i], bits));
        in[i] = tir_bitcast(b, both, s->row);
    }
}

/* Writes the state after the sequence: column i becomes input i + `ahead` of the sequence; inputs
 * with negative indices are columns of the old state. Columns are written in ascending order. No
 * column is read after it is written. */
static void write_state(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct att_conv_shape s = att_conv_shape(b, c->v, c->own.channels, 1);
    const int last = c->v->taps - 1;
    const struct tir_value count = c->sequence.count, verifies = c->sequence.verifies;
    const struct tir_value ahead =
        tir_select(b, verifies, tir_i32(b, 1 - last), att_plus(b, count, -last));
    const struct tir_value columns =
        tir_select(b, verifies, att_plus(b, count, last - 1), tir_i32(b, last));
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), columns, tir_i32(b, STEP), NULL, 0);
    const struct tir_value from = tir_add(b, loop.index, ahead);
    struct tir_value in[STEP];
    load_either(c, &s, from, in);
    for (int i = 0; i < STEP; i++) {
        const struct tir_value column = att_plus(b, loop.index, i);
        store_column(c, column, in[i], tir_cmp_lt(b, column, columns));
    }
    tir_end_for(b, &loop, NULL, 0);
}

/* Returns the number of tokens of a wave's run, and of those before it that its taps read. */
static int run_tokens(const struct conv *c) { return ROWS * c->tile.own[STEPS] + c->v->taps - 1; }

/* Loads the inputs of tap `j` (index) for the ROWS tokens from `first` (i32, index in the sequence)
 * on. Inputs before the sequence are 0. */
static struct tir_value load_inputs(struct conv *c, const struct att_conv_shape *s,
                                    struct tir_value first, int j)
{
    struct tir_builder *b = &c->b;
    const struct tir_value row = att_plus(b, tir_sub(b, first, c->run_first), j - (c->v->taps - 1));
    return tir_tile_load(b, inputs_view(c, c->run_first, run_tokens(c)), row, s->tile);
}

/* Returns `in` (f32), the inputs of tap `j` (index) for a sequence's first ROWS tokens. Inputs from
 * before the sequence are replaced by history[], the oldest first. */
static struct tir_value add_history(struct conv *c, const struct att_conv_shape *s,
                                    struct tir_value in, const struct tir_value *history, int j)
{
    struct tir_builder *b = &c->b;
    const struct tir_type t = tir_with_dtype(s->tile, TIR_F32);
    const struct tir_value index = tir_row_index(b, tir_with_dtype(s->tile, TIR_I32));
    for (int row = 0; row + j < c->v->taps - 1; row++) {
        const struct tir_value is = tir_cmp_eq(b, index, tir_int_like(b, index, row));
        in = tir_select(b, is, tir_broadcast(b, widen(c, history[row + j]), t), in);
    }
    return in;
}

/* Convolves the ROWS tokens from `first` (i32, index in the sequence) on, and stores their outputs.
 * taps[]: f32 weights of each tap. `bias`: f32 bias. history[] has the inputs before the sequence,
 * one fewer than the taps (the oldest first); NULL: the tile is not the sequence's first. With
 * history[] the state is written too. */
static void visit_tile(struct conv *c, const struct att_conv_shape *s, const struct tir_value *taps,
                       struct tir_value bias, struct tir_value first,
                       const struct tir_value *history)
{
    struct tir_builder *b = &c->b;
    const struct tir_type t = tir_with_dtype(s->tile, TIR_F32);
    struct tir_value in[ATT_CONV_TAPS];
    for (int j = 0; j < c->v->taps; j++)
        in[j] = load_inputs(c, s, first, j);
    if (history)
        write_state(c);
    struct tir_value y = tir_broadcast(b, bias, t);
    for (int j = 0; j < c->v->taps; j++) {
        struct tir_value x = widen(c, in[j]);
        if (history)
            x = add_history(c, s, x, history, j);
        y = tir_fma(b, x, tir_broadcast(b, taps[j], t), y);
    }
    store_outputs(c, &c->out, c->run_first, run_tokens(c), tir_sub(b, first, c->run_first), y);
}

/* Stores the inputs before token `after` (i32, index in the sequence), one fewer than the taps, as
 * a state if a block of a prefix cache ends there. `after` is the first token of a tile. A block
 * has at least as many tokens as a state has columns. */
static void store_block_state(struct conv *c, struct tir_value after)
{
    struct tir_builder *b = &c->b;
    const struct tir_value token = tir_add(b, c->sequence.start, after);
    const int last = c->v->taps - 1;
    struct att_block_end end = att_begin_block_end(b, &c->sequence, c->block_row, token);
    const struct att_conv_shape s = att_conv_shape(b, c->v, c->own.channels, 1);
    for (int i = 0; i < last; i++) {
        const struct tir_value row = att_plus(b, tir_sub(b, after, c->run_first), i - last);
        const struct tir_value in =
            tir_tile_load(b, inputs_view(c, c->run_first, run_tokens(c)), row, s.row);
        att_conv_store(b, &c->own, end.slot, c->real, tir_i32(b, i), in);
    }
    att_finish_block_end(b, &end);
}

/* Convolves this wave's STEPS tiles of tokens of the sequence, one by one. */
static void visit_run(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct att_conv_shape s = att_conv_shape(b, c->v, CHANNELS, ROWS);
    const int run = ROWS * c->tile.own[STEPS];
    c->block_row = att_block_row(b, &c->sequence);
    struct tir_value taps[ATT_CONV_TAPS], history[ATT_CONV_TAPS];
    att_conv_taps(b, &c->own, &s, taps);
    const struct tir_value bias = att_conv_bias(b, &c->own, &s), zero = tir_i32(b, 0);
    const struct tir_value start = att_times(b, tir_block_id(b, 2), run);
    const struct tir_value begins = tir_cmp_eq(b, start, zero);
    c->run_first = tir_max(b, att_plus(b, start, 1 - c->v->taps), zero);
    struct tir_if first = att_begin_if(b, begins);
    for (int i = 0; i < c->v->taps - 1; i++)
        history[i] = load_history(c, &s, tir_i32(b, i), tir_bool(b, true));
    visit_tile(c, &s, taps, bias, zero, history);
    tir_end_if(b, &first, NULL);
    const struct tir_value from = tir_select(b, begins, tir_i32(b, ROWS), start);
    const struct tir_value end = tir_min(b, c->sequence.count, att_plus(b, start, run));
    struct tir_loop loop = tir_begin_for(b, from, end, tir_i32(b, ROWS), NULL, 0);
    visit_tile(c, &s, taps, bias, loop.index, NULL);
    store_block_state(c, att_plus(b, loop.index, ROWS));
    tir_end_for(b, &loop, NULL, 0);
}

/* ---- Trees of drafts ---- */

/* Names of the arguments with the windows of drafts. */
static const struct att_conv_args window_arguments = {
    .state = ARG_WINDOWS,
    .slot_stride = ARG_WINDOWS_SLOT_STRIDE,
    .channel_stride = ARG_WINDOWS_CHANNEL_STRIDE,
    .column_stride = ARG_WINDOWS_COLUMN_STRIDE,
    .step_stride = ARG_WINDOWS_STEP_STRIDE,
};

/* Returns the wave's channels in the window of draft `step` (i32, index in the sequence). A window
 * has the last inputs up to and including its draft, one fewer than the taps. */
static struct att_conv window_of(const struct conv *c, struct tir_value step)
{
    return (struct att_conv){c->v, window_arguments, c->own.channel, CHANNELS, step};
}

/* Loads the inputs before the root of the tree, one fewer than the taps, to history[], the oldest
 * first. Reads them from the window of the draft that was accepted last, or from the state if
 * argument `accepted` is NULL. */
static void load_root_history(struct conv *c, const struct att_conv_shape *s,
                              struct tir_value *history)
{
    struct tir_builder *b = &c->b;
    const int n = c->v->taps - 1;
    const struct tir_value there = tir_and(b, c->real, c->sequence.has_state);
    const struct att_conv window = window_of(c, c->sequence.accepted);
    struct tir_type types[ATT_CONV_TAPS];
    for (int i = 0; i < n; i++)
        types[i] = s->row;
    struct tir_if after_step = tir_begin_if(b, c->sequence.verifies, false, types, (unsigned)n);
    for (int i = 0; i < n; i++)
        history[i] = att_conv_load(b, &window, s, c->slot_in, there, tir_i32(b, i));
    tir_else(b, &after_step, history);
    for (int i = 0; i < n; i++)
        history[i] = att_conv_load(b, &c->own, s, c->slot_in, there, tir_i32(b, i));
    tir_end_if(b, &after_step, history);
}

/* Returns the index (i32) of the input before input `i` (i32) in the convolution: its parent in the
 * tree of drafts. Indices below 0 are inputs of the history. */
static struct tir_value input_before(struct conv *c, struct tir_value i)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0), token = tir_max(b, i, zero);
    const struct tir_value parent =
        att_parent(b, &c->sequence, tir_add(b, token, c->sequence.start));
    return tir_select(b, tir_cmp_gt(b, i, zero), parent, att_plus(b, i, -1));
}

/* Returns input `i` (i32) of the sequence, 1 x 64. If `i` is negative, returns history[i + W - 1],
 * with W taps. */
static struct tir_value input_at(struct conv *c, const struct att_conv_shape *s,
                                 const struct tir_value *history, struct tir_value i)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_view own = inputs_view(c, tir_max(b, i, zero), 1);
    struct tir_value in = tir_tile_load(b, own, tir_min(b, i, zero), s->row);
    for (int n = 0; n < c->v->taps - 1; n++) {
        const struct tir_value is = tir_cmp_eq(b, i, tir_i32(b, n - (c->v->taps - 1)));
        in = tir_select(b, is, history[n], in);
    }
    return in;
}

/* Convolves draft `draft` (i32, index in the sequence), and stores its output and its window.
 * weights[] has a tile for each tap, history[] a tile for each input, both with the oldest input
 * first. */
static void visit_draft(struct conv *c, const struct att_conv_shape *s,
                        const struct tir_value *history, const struct tir_value *weights,
                        struct tir_value draft)
{
    struct tir_builder *b = &c->b;
    const int taps = c->v->taps;
    const struct att_conv window = window_of(c, draft);
    struct tir_value in[ATT_CONV_TAPS], index = draft;
    for (int j = taps; j-- > 0; index = input_before(c, index))
        in[j] = input_at(c, s, history, index);
    struct tir_value y = att_conv_bias(b, &c->own, s);
    for (int j = 0; j < taps; j++)
        y = tir_fma(b, widen(c, in[j]), weights[j], y);
    for (int j = 1; j < taps; j++)
        att_conv_store(b, &window, c->slot, c->real, tir_i32(b, j - 1), in[j]);
    store_outputs(c, &c->out, draft, 1, tir_i32(b, 0), y);
}

/* Convolves a tree of drafts, the last draft first: outputs may overwrite x, and only a draft and
 * later ones read the draft's input. */
static void visit_tree(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct att_conv_shape s = att_conv_shape(b, c->v, c->own.channels, 1);
    struct tir_value history[ATT_CONV_TAPS], weights[ATT_CONV_TAPS];
    load_root_history(c, &s, history);
    att_conv_taps(b, &c->own, &s, weights);
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), c->sequence.count, tir_i32(b, 1), NULL, 0);
    const struct tir_value last = att_plus(b, c->sequence.count, -1);
    visit_draft(c, &s, history, weights, tir_sub(b, last, loop.index));
    tir_end_for(b, &loop, NULL, 0);
}

/* ---- A sequence ---- */

/* Returns the output tensor (q_out, k_out or out), at the sequence's first token, for the CHANNELS
 * channels from `channel` (i32, index in x) on. */
static struct target choose_target(struct conv *c, struct tir_value channel)
{
    struct tir_builder *b = &c->b;
    const struct tir_value q = tir_arg(b, ARG_Q_CHANNELS, TIR_I32);
    const struct tir_value k = tir_add(b, q, tir_arg(b, ARG_K_CHANNELS, TIR_I32));
    const struct tir_value in_q = tir_cmp_lt(b, channel, q), in_k = tir_cmp_lt(b, channel, k);
    const struct tir_value tensor = tir_select(
        b, in_q, tir_arg(b, ARG_Q_OUT, TIR_I64),
        tir_select(b, in_k, tir_arg(b, ARG_K_OUT, TIR_I64), tir_arg(b, ARG_OUT, TIR_I64)));
    const struct tir_value stride =
        tir_select(b, in_q, att_stride(b, ARG_Q_OUT_TOKEN_STRIDE, ELEM),
                   tir_select(b, in_k, att_stride(b, ARG_K_OUT_TOKEN_STRIDE, ELEM),
                              att_stride(b, ARG_OUT_TOKEN_STRIDE, ELEM)));
    const struct tir_value before = tir_select(b, in_q, tir_i32(b, 0), tir_select(b, in_k, q, k));
    const struct tir_value column = att_times(b, tir_sub(b, channel, before), ELEM);
    const struct tir_value row = tir_mul(b, att_wide(b, c->sequence.start), stride);
    return (struct target){
        .base = tir_add(b, tir_add(b, tensor, row), att_wide(b, column)),
        .stride = stride,
    };
}

/* Sets c->x to the address of the sequence's first token in x, at the wave's first channel. */
static void find_inputs(struct conv *c)
{
    struct tir_builder *b = &c->b;
    c->x = tir_add(
        b, att_row(b, tir_arg(b, ARG_X, TIR_I64), c->sequence.start, ARG_X_TOKEN_STRIDE, ELEM),
        att_wide(b, att_times(b, c->own.channel, ELEM)));
}

/* Sets the members of `c` for this workgroup's sequence. c->own.channel is set before. */
static void open_sequence(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value index = tir_block_id(b, 1);
    c->sequence = att_sequence(b, index);
    c->slot = att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, index);
    c->slot_in =
        att_strided_entry(b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, index);
    c->real = tir_and(b, att_is_slot(b, c->slot), att_is_slot(b, c->slot_in));
    c->x_stride = att_stride32(b, ARG_X_TOKEN_STRIDE, ELEM);
    find_inputs(c);
    c->out = choose_target(c, c->own.channel);
}

/* Stores the outputs of token `first` (i32, index in the sequence) from its sums `y` (f32, 1 x
 * channels). Each block of CHANNELS channels has one output tensor. */
static void store_token(struct conv *c, struct tir_value first, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const unsigned blocks = c->own.channels / CHANNELS;
    const struct tir_value rows = blocks > 1 ? tir_split_blocks(b, y, CHANNELS) : y;
    for (unsigned i = 0; i < blocks; i++) {
        const struct target to = choose_target(c, att_plus(b, c->own.channel, (int)i * CHANNELS));
        store_outputs(c, &to, first, 1, tir_i32(b, 0), att_part(b, rows, i, blocks));
    }
}

/* Convolves the sequence's only token, or the wave's run of its tokens if it has several. */
static void visit_chain(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1),
                           none = tir_cmp_eq(b, c->sequence.count, tir_i32(b, 0));
    const struct tir_value begins = tir_cmp_eq(b, tir_block_id(b, 2), tir_i32(b, 0));
    struct tir_if single = att_begin_if(b, tir_cmp_eq(b, c->sequence.count, one));
    struct tir_if its = att_begin_if(b, begins);
    store_token(c, zero, convolve_token(c));
    tir_end_if(b, &its, NULL);
    tir_else(b, &single, NULL);
    struct tir_if empty = att_begin_if(b, none);
    tir_else(b, &empty, NULL);
    visit_run(c);
    tir_end_if(b, &empty, NULL);
    tir_end_if(b, &single, NULL);
}

/* Stores in[], the last inputs of the sequence's first `count` (i32) tokens (one fewer than the
 * taps), if a block of a prefix cache ends there. */
static void store_inputs(struct conv *c, struct tir_value count, const struct tir_value *in)
{
    /* number of tokens; a block of a prefix cache has a multiple of this number */
    enum { UNIT = 32 };
    struct tir_builder *b = &c->b;
    const struct tir_value rest = tir_and(b, count, tir_i32(b, UNIT - 1));
    struct tir_if whole = att_begin_if(b, tir_cmp_eq(b, rest, tir_i32(b, 0)));
    const struct tir_value token = tir_add(b, c->sequence.start, count);
    struct att_block_end end = att_begin_block_end(b, &c->sequence, c->block_row, token);
    for (int i = 0; i < c->v->taps - 1; i++)
        att_conv_store(b, &c->own, end.slot, c->real, tir_i32(b, i), in[i]);
    att_finish_block_end(b, &end);
    tir_end_if(b, &whole, NULL);
}

/* Convolves the sequence's tokens one by one, with the last inputs in registers, and stores the
 * outputs. The state is written first, since outputs may overwrite x. */
static void visit_tokens(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct att_conv_shape s = att_conv_shape(b, c->v, c->own.channels, 1);
    const int last = c->v->taps - 1;
    const struct tir_value one = tir_i32(b, 1), zero = tir_i32(b, 0);
    struct tir_value in[ATT_CONV_TAPS], weights[ATT_CONV_TAPS];
    c->block_row = att_block_row(b, &c->sequence);
    for (int i = 0; i < last; i++)
        in[i] = load_history(c, &s, tir_i32(b, i), tir_bool(b, true));
    write_state(c);
    att_conv_taps(b, &c->own, &s, weights);
    const struct tir_value bias = att_conv_bias(b, &c->own, &s);
    struct tir_loop loop = tir_begin_for(b, zero, c->sequence.count, one, in, (unsigned)last);
    struct tir_value y = bias;
    in[last] = tir_tile_load(b, inputs_view(c, loop.index, 1), zero, s.row);
    for (int i = 0; i <= last; i++)
        y = tir_fma(b, widen(c, in[i]), weights[i], y);
    store_token(c, loop.index, y);
    store_inputs(c, att_plus(b, loop.index, 1), &in[1]);
    tir_end_for(b, &loop, &in[1], (unsigned)last);
}

/* Convolves the sequence in blocks of CHANNELS channels, up to channel `end` - 1 (i32, index in x),
 * and in each block token by token. */
static void visit_blocks(struct conv *c, struct tir_value end)
{
    struct conv block = *c;
    struct tir_loop loop =
        tir_begin_for(&block.b, c->own.channel, end, tir_i32(&block.b, CHANNELS), NULL, 0);
    block.own.channel = loop.index;
    block.own.channels = CHANNELS;
    find_inputs(&block);
    visit_tokens(&block);
    tir_end_for(&block.b, &loop, NULL, 0);
    c->b = block.b;
}

/* Convolves all tokens of the sequence at the wave's channels. A separate path serves the usual
 * case: one token, and a wave whose channels all exist. */
static void visit_sequence(struct conv *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value one = tir_i32(b, 1), zero = tir_i32(b, 0);
    const struct tir_value end = att_plus(b, c->own.channel, (int)c->own.channels);
    const struct tir_value channels = tir_arg(b, ARG_CHANNELS, TIR_I32);
    const struct tir_value all = tir_cmp_le(b, end, channels);
    const struct tir_value single = tir_cmp_eq(b, c->sequence.count, one);
    struct tir_if usual = att_begin_if(b, tir_and(b, all, single));
    store_token(c, zero, convolve_token(c));
    tir_else(b, &usual, NULL);
    struct tir_if more = att_begin_if(b, tir_cmp_gt(b, c->sequence.count, zero));
    visit_blocks(c, tir_min(b, end, channels));
    tir_end_if(b, &more, NULL);
    tir_end_if(b, &usual, NULL);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct conv c = {.v = v, .own = {.v = v, .args = arguments}};
    att_find_tile(v, m, &c.tile, NULL);
    const int waves = c.tile.waves, run = ROWS * c.tile.own[STEPS];
    const int blocks = c.tile.own[BLOCKS] ? c.tile.own[BLOCKS] : 1;
    c.own.channels = (unsigned)blocks * CHANNELS;
    /* True: a wave has all tokens of a sequence. */
    const bool whole = v->tree || c.tile.own[BLOCKS];
    struct tir_func *f = att_begin_kernel(v, m, waves, c.tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    struct tir_builder *b = &c.b;
    const struct tir_value block =
        tir_add(b, att_times(b, tir_block_id(b, 0), waves), tir_wave_id(b));
    c.own.channel = att_times(b, block, blocks * CHANNELS);
    const struct tir_value there = tir_cmp_lt(b, c.own.channel, tir_arg(b, ARG_CHANNELS, TIR_I32));
    struct tir_if own = att_begin_if(b, there);
    open_sequence(&c);
    if (v->tree)
        visit_tree(&c);
    else if (c.tile.own[BLOCKS])
        visit_sequence(&c);
    else
        visit_chain(&c);
    tir_end_if(b, &own, NULL);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{ARG_CHANNELS, waves * blocks * CHANNELS, 1},
                 {ARG_BATCH, 1, 1},
                 {whole ? NULL : ARG_MAX_SEQLEN, whole ? 1 : run, 1}},
    };
    if (c.tile.own[BLOCKS])
        snprintf(out->tuning, sizeof(out->tuning), "channels=%u waves=%d", c.own.channels, waves);
    else
        snprintf(out->tuning, sizeof(out->tuning), "tokens=%d waves=%d", run, waves);
}

const struct att_template att_template_conv1d = {
    .name = "conv1d",
    .description = "short causal convolution of each channel, with states",
    .takes = OP_TAKES_CONV1D | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"steps", "blocks"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};
