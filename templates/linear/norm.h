/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the gated norm of rows in registers: x / sqrt(mean(x^2) + eps) w, times silu
 * or sigmoid of a gate z, or the norm of x silu(z). A row may be several panels of columns.
 */
#ifndef TEMPLATES_LINEAR_NORM_H
#define TEMPLATES_LINEAR_NORM_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** Most panels into which the columns of a row may be split. */
enum { ATT_NORM_PANELS = 16 };

/** Returns the largest |x| of each row if `largest`, else the sum of squares of each row. The
 * columns of a row are in `n` panels, x[]. */
struct tir_value att_norm_over_rows(struct tir_builder *b, const struct tir_value *x, unsigned n,
                                    bool largest);

/** Returns 1 / sqrt(sum * share + eps) of each row. `share`: 1 / number of elements of a row. eps
 * is an argument of the kernel. The result is finite even for a sum and an eps of 0, so that zeros
 * remain 0. */
struct tir_value att_norm_inverse_root(struct tir_builder *b, struct tir_value sum,
                                       struct tir_value share);

/** Returns 1 / sqrt(mean(x^2) + eps) of each row. The columns of a row are in `n` panels, x[], with
 * `width` columns in all. */
struct tir_value att_norm_inverse_rms(struct tir_builder *b, int width, const struct tir_value *x,
                                      unsigned n);

/** Sets gates[] (f32) to the variant's activation of the gate inputs z, n panels of any dtype. With
 * ATT_ACT_SILU_FIRST it also multiplies the panels y (f32) by the gates. A variant without gates
 * changes nothing and reads no z. */
void att_norm_gates(struct tir_builder *b, const struct att_variant *v, unsigned n,
                    struct tir_value *y, const struct tir_value *z, struct tir_value *gates);

/** Multiplies the n panels y in place by `rms` (f32, rows x 1: 1 / root mean square of each row),
 * by the norm's weights w (f32), and by the gates that apply after the norm. */
void att_norm_scale(struct tir_builder *b, const struct att_variant *v, unsigned n,
                    struct tir_value *y, struct tir_value rms, const struct tir_value *gates,
                    const struct tir_value *w);

/** Replaces rows y (f32) of `width` columns, in n panels, by their RMS norms, with weights w (f32)
 * and with gates computed from z (any dtype). z is not read if the variant has no gates. */
void att_norm_apply(struct tir_builder *b, const struct att_variant *v, int width, unsigned n,
                    struct tir_value *y, const struct tir_value *z, const struct tir_value *w);

#endif
