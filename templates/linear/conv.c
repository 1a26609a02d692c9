/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/conv.h"

#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/template.h"

enum { ELEM = 2 }; /* bytes of an element */

/* Returns the number of adjacent channels that one lane holds. */
static unsigned lane_channels(const struct att_conv_shape *s)
{
    return ATT_CONV_CHANNELS / s->lanes;
}

/* Adds the wave's `channels` channels to the columns of *spread, `each` columns for a channel.
 * Every ATT_CONV_CHANNELS channels are spread over all lanes, and a lane's channels among these are
 * adjacent. */
static void spread_channels(struct tir_spread *spread, const struct att_conv_shape *s,
                            unsigned channels, unsigned each)
{
    tir_spread_cols(spread, TIR_REGS, tir_bits(each * lane_channels(s)));
    tir_spread_cols(spread, TIR_LANES, tir_bits(s->lanes));
    tir_spread_cols(spread, TIR_REGS, tir_bits(channels / ATT_CONV_CHANNELS));
}

struct att_conv_shape att_conv_shape(struct tir_builder *b, const struct att_variant *v,
                                     unsigned channels, unsigned rows)
{
    struct tir_func *f = b->f;
    struct tir_spread spread = tir_spread(f->machine, 1);
    const unsigned of_wave = tir_lanes(f->machine);
    const unsigned wide = ATT_CONV_CHANNELS < of_wave ? ATT_CONV_CHANNELS : of_wave;
    struct att_conv_shape s = {.lanes = rows > 1 ? ATT_CONV_CHANNELS / ATT_CONV_CHUNK : wide};
    spread_channels(&spread, &s, channels, 1);
    tir_spread_fill(&spread, TIR_LANES, rows, channels);
    tir_spread_fill(&spread, TIR_REGS, rows, channels);
    const struct tir_layout tile = tir_spread_layout(&spread), row = tir_layout_slice(&tile, 0);
    const struct tir_layout column = tir_layout_transpose(&row);
    const unsigned dtype = att_dtype(v);
    s.tile = tir_tile(f, dtype, rows, channels, &tile);
    s.row = tir_tile(f, dtype, 1, channels, &row);
    s.column = tir_tile(f, dtype, channels, 1, &column);
    return s;
}

static struct tir_value widen(struct tir_builder *b, struct tir_value a)
{
    return tir_convert(b, a, TIR_F32);
}

/* ---- Weights ---- */

/* Returns the address (i64) of the weights of the wave's first channel. A channel's weights are a
 * row of `taps` elements of 16 bits. */
static struct tir_value weight_base(struct tir_builder *b, const struct att_conv *c)
{
    const int step = c->v->taps * ELEM;
    return att_at(b, c->args.weight, att_wide_times(b, c->channel, step));
}

/* Issues the load of the weights of tap j (index) for the wave's C channels, a tile of C x 1. */
static struct tir_value load_tap(struct tir_builder *b, const struct att_conv *c,
                                 const struct att_conv_shape *s, int j)
{
    const int step = c->v->taps * ELEM;
    const struct tir_view view = att_view(b, weight_base(b, c), tir_i32(b, (int)c->channels),
                                          tir_i32(b, step), step, j * ELEM);
    return tir_tile_load(b, view, tir_i32(b, 0), s->column);
}

/* Issues one load of the weights of all taps, 2 or 4: a tile of 1 x (C * taps) for the wave's C
 * channels. The taps of a channel are adjacent columns. */
static struct tir_value load_all_taps(struct tir_builder *b, const struct att_conv *c,
                                      const struct att_conv_shape *s)
{
    const unsigned taps = (unsigned)c->v->taps, n = c->channels * taps;
    struct tir_spread spread = tir_spread(b->f->machine, 1);
    spread_channels(&spread, s, c->channels, taps);
    const struct tir_layout line = tir_spread_layout(&spread);
    const struct tir_view view =
        att_view(b, weight_base(b, c), tir_i32(b, 1), tir_i32(b, 0), (int)n * ELEM, 0);
    return tir_tile_load(b, view, tir_i32(b, 0), tir_tile(b->f, att_dtype(c->v), 1, n, &line));
}

/* Returns `all`, the result of load_all_taps(), as a tile of `taps` x channels, f32. */
static struct tir_value sort_taps(struct tir_builder *b, unsigned taps, struct tir_value all)
{
    const struct tir_value rows = tir_transpose(b, tir_split_blocks(b, widen(b, all), taps));
    const struct tir_layout *own = tir_layout_of(b->f, tir_typeof(b->f, rows));
    const struct tir_layout sorted = tir_layout_regs_first(own, TIR_RC(0, 0xffff));
    return tir_relayout(b, rows, &sorted);
}

void att_conv_load_taps(struct tir_builder *b, const struct att_conv *c,
                        const struct att_conv_shape *s, struct tir_value *loaded)
{
    if (tir_is_power((unsigned)c->v->taps))
        loaded[0] = load_all_taps(b, c, s);
    for (int j = 0; !tir_is_power((unsigned)c->v->taps) && j < c->v->taps; j++)
        loaded[j] = load_tap(b, c, s, j);
}

void att_conv_convert_taps(struct tir_builder *b, const struct att_conv *c,
                           const struct att_conv_shape *s, struct tir_value *taps)
{
    const struct tir_layout *row = tir_layout_of(b->f, s->row);
    if (!tir_is_power((unsigned)c->v->taps)) {
        for (int j = 0; j < c->v->taps; j++)
            taps[j] = widen(b, tir_transpose(b, taps[j]));
        return;
    }
    taps[0] = sort_taps(b, (unsigned)c->v->taps, taps[0]);
    for (int n = 1; n < c->v->taps; n *= 2)
        for (int i = n; i-- > 0;) {
            const struct tir_value both = taps[i];
            taps[2 * i] = tir_half(b, both, 0);
            taps[2 * i + 1] = tir_half(b, both, 1);
        }
    for (int j = 0; j < c->v->taps; j++)
        taps[j] = tir_relayout(b, taps[j], row);
}

void att_conv_taps(struct tir_builder *b, const struct att_conv *c, const struct att_conv_shape *s,
                   struct tir_value *taps)
{
    att_conv_load_taps(b, c, s, taps);
    att_conv_convert_taps(b, c, s, taps);
}

struct tir_value att_conv_bias(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s)
{
    if (!c->v->bias)
        return tir_splat(b, tir_f32(b, 0), tir_with_dtype(s->row, TIR_F32));
    const struct tir_value base = att_at(b, c->args.bias, att_wide_times(b, c->channel, ELEM));
    const struct tir_view view =
        att_view(b, base, tir_i32(b, 1), tir_i32(b, 0), (int)c->channels * ELEM, 0);
    return widen(b, tir_tile_load(b, view, tir_i32(b, 0), s->row));
}

/* ---- The state ---- */

/* Returns a view of the convolution's state in slot `slot` (i32) of the pool, from column `column`
 * (i32) on. Each of the wave's channels is a row. If `there` (i1) is false, loads through the view
 * return zeros and stores have no effect. */
static struct tir_view state_view(struct tir_builder *b, const struct att_conv *c,
                                  struct tir_value slot, struct tir_value there,
                                  struct tir_value column)
{
    const struct att_conv_args *a = &c->args;
    const struct tir_value channel = att_stride(b, a->channel_stride, ELEM);
    const struct tir_value step = att_stride32(b, a->column_stride, ELEM);
    const struct tir_value own = tir_mul(b, att_wide(b, c->channel), channel);
    struct tir_value base =
        tir_add(b, att_row(b, tir_arg(b, a->state, TIR_I64), slot, a->slot_stride, ELEM), own);
    if (a->step_stride)
        base = att_row(b, base, c->step, a->step_stride, ELEM);
    const struct tir_value row = tir_convert(b, channel, TIR_I32);
    const struct tir_value last =
        a->columns ? att_plus(b, tir_arg(b, a->columns, TIR_I32), -1) : tir_i32(b, c->v->taps - 2);
    const struct tir_value bytes = att_plus(
        b, tir_add(b, att_times(b, row, (int)c->channels - 1), tir_mul(b, last, step)), ELEM);
    const struct tir_value size = tir_select(b, there, bytes, tir_i32(b, 0));
    return (struct tir_view){tir_make_rsrc(b, base, size), row, tir_mul(b, column, step)};
}

struct tir_value att_conv_load(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s, struct tir_value slot,
                               struct tir_value there, struct tir_value column)
{
    const struct tir_view view = state_view(b, c, slot, there, column);
    return tir_transpose(b, tir_tile_load(b, view, tir_i32(b, 0), s->column));
}

void att_conv_store(struct tir_builder *b, const struct att_conv *c, struct tir_value slot,
                    struct tir_value there, struct tir_value column, struct tir_value a)
{
    const struct tir_view view = state_view(b, c, slot, there, column);
    tir_tile_store(b, view, tir_i32(b, 0), tir_transpose(b, a));
}
