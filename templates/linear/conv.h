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
    const char *columns;     /* number of columns of a slot; NULL: there are W - 1 */
    const char *step_stride; /* distance between a slot's windows, one for each draft; NULL: a
                                slot has one window */
};

/** The channels that a wave convolves, and the names of the arguments that describe the tensors. */
struct att_conv {
    const struct att_variant *v;
    struct att_conv_args args;
    struct tir_value channel; /* i32: the first */
    unsigned channels;        /* C: ATT_CONV_CHANNELS, or a multiple where rows are single tokens */
    struct tir_value step;    /* i32: number of the draft; not read if args.step_stride is NULL */
};

/** Types of tiles with C channels and the variant's dtype: `rows` x C, 1 x C, and C x 1. The last
 * one serves memory whose channels lie any distance apart. */
struct att_conv_shape {
    unsigned lanes; /* lanes that share ATT_CONV_CHANNELS channels */
    struct tir_type tile, row, column;
};
struct att_conv_shape att_conv_shape(struct tir_builder *b, const struct att_variant *v,
                                     unsigned channels, unsigned rows);

/** Loads the weights, 1 x C for each tap, f32. */
void att_conv_taps(struct tir_builder *b, const struct att_conv *c, const struct att_conv_shape *s,
                   struct tir_value *taps);

/** Issues the loads of the weights, as memory has them: one load for all taps if their number is a
 * power of two, else one for each. */
void att_conv_load_taps(struct tir_builder *b, const struct att_conv *c,
                        const struct att_conv_shape *s, struct tir_value *loaded);

/** Converts what att_conv_load_taps() has loaded to 1 x C for each tap, f32. */
void att_conv_convert_taps(struct tir_builder *b, const struct att_conv *c,
                           const struct att_conv_shape *s, struct tir_value *taps);

/** Loads the bias, zeros where the variant has none: 1 x C, f32. */
struct tir_value att_conv_bias(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s);

/** Loads column `column` of the state in `slot`, 1 x C; zeros where `there` (i1) is false. */
struct tir_value att_conv_load(struct tir_builder *b, const struct att_conv *c,
                               const struct att_conv_shape *s, struct tir_value slot,
                               struct tir_value there, struct tir_value column);

/** Stores `a`, 1 x C, as column `column` of the state in `slot`; nothing where `there` (i1) is
 * false. */
void att_conv_store(struct tir_builder *b, const struct att_conv *c, struct tir_value slot,
                    struct tir_value there, struct tir_value column, struct tir_value a);

#endif
