/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what a short causal convolution of some channels loads and stores: weights,
 * bias, and the columns of a sequence's state. A state has the last inputs of each channel, a
 * column for each; its channels and columns may be any distance apart.
 */
#ifndef TEMPLATES_LINEAR_CONV_H
#define TEMPLATES_LINEAR_CONV_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/* ATT_CONV_CHANNELS: number of channels of a wave, or a divisor of that number. ATT_CONV_CHUNK:
 * number of channels of a lane in a tile of several tokens. ATT_CONV_TAPS: most taps (weights per
 * channel) of a convolution. */
enum { ATT_CONV_CHANNELS = 64, ATT_CONV_CHUNK = 8, ATT_CONV_TAPS = 6 };

/** Names of the arguments of a convolution: weights, bias, the pool of states, and the state's
 * strides. */
struct att_conv_args {
    const char *weight, *bias;
    const char *state, *slot_stride, *channel_stride, *column_stride;
    /* Name of the argument with the number of columns of a slot; NULL: a slot has conv_width - 1
     * columns. */
    const char *columns;
    /* Name of the argument with the distance in elements of two windows of a slot, one window for
     * each draft; NULL: a slot has one window. */
    const char *step_stride;
};

/** The channels that a wave convolves, and the names of the convolution's arguments. */
struct att_conv {
    const struct att_variant *v;
    struct att_conv_args args;
    struct tir_value channel; /* i32: index of the wave's first channel */
    /* Number of channels of the wave: ATT_CONV_CHANNELS, or a multiple of it if a tile has one
     * token. */
    unsigned channels;
    /* i32: index of the draft whose window is loaded or stored; not read if args.step_stride is
     * NULL. */
    struct tir_value step;
};

/** Types of tiles of the variant's dtype for the wave's C channels: `rows` x C, 1 x C, and C x 1.
 * The last type serves loads and stores of memory whose channels are any distance apart. */
struct att_conv_shape {
    unsigned lanes; /* number of lanes that hold ATT_CONV_CHANNELS channels together */
    struct tir_type tile, row, column;
};
struct att_conv_shape att_conv_shape(struct tir_builder *b, const struct att_variant *v,
                                     unsigned channels, unsigned rows);

/** Loads the weights of the wave's channels, and sets taps[] to an f32 tile for each tap, 1 x C for
 * the wave's C channels. */
void att_conv_taps(struct tir_builder *b, const struct att_conv *c, const struct att_conv_shape *s,
                   struct tir_value *taps);

/** Issues the loads of the weights of the wave's channels into loaded[], in the dtype of memory:
 * one load for all taps if their number is a power of two, else one for each tap. */
void att_conv_load_taps(struct tir_builder *b, const struct att_conv *c,
                        const struct att_conv_shape *s, struct tir_value *loaded);

/** Converts taps[], as att_conv_load_taps() loads them, to an f32 tile for each tap, 1 x C for the
 * wave's C channels. */
void att_conv_convert_taps(struct tir_builder *b, const struct att_conv *c,
                           const struct att_conv_shape *s, struct tir_value *taps);

/** Loads the bias of the wave's channels as f32, 1 x C for the wave's C channels; zeros if the
 * variant has no bias. */
struct tir_value att_conv_bias(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s);

/** Loads column `column` (i32) of the state in slot `slot` (i32) of the pool: an element of each of
 * the wave's C channels, 1 x C. Returns zeros if `there` (i1) is false. */
struct tir_value att_conv_load(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s, struct tir_value slot,
                               struct tir_value there, struct tir_value column);

/** Stores `a` (1 x C: an element of each of the wave's channels) as column `column` (i32) of the
 * state in slot `slot` (i32) of the pool. Stores nothing if `there` (i1) is false. */
void att_conv_store(struct tir_builder *b, const struct att_conv *c, struct tir_value slot,
                    struct tir_value there, struct tir_value column, struct tir_value a);

#endif
