/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares 64 channels of a short causal convolution: their weights, their bias, and
 * their columns of a sequence's state, in which channels may be any distance apart.
 */
#ifndef TEMPLATES_LINEAR_CONV_H
#define TEMPLATES_LINEAR_CONV_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

enum { ATT_CONV_CHANNELS = 64, ATT_CONV_CHUNK = 8, ATT_CONV_TAPS = 6 };

/** Names of the arguments of a convolution. */
struct att_conv_args {
    const char *weight, *bias;
    const char *state, *slot_stride, *channel_stride, *column_stride;
    /* Name of the argument with the number of columns of a slot; NULL: a slot has conv_width - 1
     * columns. */
    const char *columns;
    /* Name of the argument with the elements between a slot's windows, one for each draft; NULL: a
     * slot has one window. */
    const char *step_stride;
};

/** The channels that a wave convolves, and the names of the arguments that describe the tensors. */
struct att_conv {
    const struct att_variant *v;
    struct att_conv_args args;
    struct tir_value channel; /* i32: index of the wave's first channel */
    /* C, number of channels of the wave: ATT_CONV_CHANNELS, or a multiple of it if a tile has one
     * token. */
    unsigned channels;
    /* i32: index of the draft whose window is loaded or stored; not read if args.step_stride is
     * NULL. */
    struct tir_value step;
};

/** Types of tiles with C channels and the variant's dtype: `rows` x C, 1 x C, and C x 1. The last
 * one serves memory whose channels lie any distance apart. */
struct att_conv_shape {
    unsigned lanes; /* number of lanes that hold ATT_CONV_CHANNELS channels together */
    struct tir_type tile, row, column;
};
struct att_conv_shape att_conv_shape(struct tir_builder *b, const struct att_variant *v,
                                     unsigned channels, unsigned rows);

/** Loads the weights of the wave's channels. Sets taps[] to one tile of 1 x C f32 for each tap. */
void att_conv_taps(struct tir_builder *b, const struct att_conv *c, const struct att_conv_shape *s,
                   struct tir_value *taps);

/** Issues the loads of the weights into loaded[], in the dtype of memory: one load for all taps if
 * their number is a power of two, else one for each tap. */
void att_conv_load_taps(struct tir_builder *b, const struct att_conv *c,
                        const struct att_conv_shape *s, struct tir_value *loaded);

/** Converts taps[], as att_conv_load_taps() loads them, to one tile of 1 x C f32 for each tap. */
void att_conv_convert_taps(struct tir_builder *b, const struct att_conv *c,
                           const struct att_conv_shape *s, struct tir_value *taps);

/** Loads the bias, zeros where the variant has none: 1 x C, f32. */
struct tir_value att_conv_bias(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s);

/** Loads column `column` (i32) of the state in slot `slot` (i32) of the pool, 1 x C. Returns zeros
 * where `there` (i1) is false. */
struct tir_value att_conv_load(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s, struct tir_value slot,
                               struct tir_value there, struct tir_value column);

/** Stores `a`, 1 x C, as column `column` (i32) of the state in slot `slot` (i32) of the pool.
 * Stores nothing where `there` (i1) is false. */
void att_conv_store(struct tir_builder *b, const struct att_conv *c, struct tir_value slot,
                    struct tir_value there, struct tir_value column, struct tir_value a);

#endif
