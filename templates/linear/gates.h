/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the functions that gates of linear attention pass through, in float.
 */
#ifndef TEMPLATES_LINEAR_GATES_H
#define TEMPLATES_LINEAR_GATES_H

#include "ir/builder.h"
#include "templates/variant.h"

/** Computes exp(x), x / ln 2 rounded once: off by 2 |x| + 2 units of float. */
struct tir_value att_exp(struct tir_builder *b, struct tir_value x);

/** Computes 1 / (1 + exp(-x)); infinity where exp overflows makes it 0. */
struct tir_value att_sigmoid(struct tir_builder *b, struct tir_value x);

/** Computes x / (1 + exp(-x)). */
struct tir_value att_silu(struct tir_builder *b, struct tir_value x);

/** Computes log(1 + exp(x)), and x above 20. Small results keep their relative precision. */
struct tir_value att_softplus(struct tir_builder *b, struct tir_value x);

/** Returns an f32 argument in every element of the type of `like`. */
struct tir_value att_arg_like(struct tir_builder *b, const char *arg, struct tir_value like);

/** Computes a time step from x, the given number plus its bias: x or softplus(x), limited to the
 * arguments dt_min and dt_max. */
struct tir_value att_time_step(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value x);

/** Computes g, the natural logarithm of a decay, from what is given for it (`in`, float): that
 * itself, or a gate's input with `bias` and `a` = exp(a_log). `bias` is of the type of `in`; `a` is
 * too, or is one number, 1 x 1 beside it. */
struct tir_value att_log_decay(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value in, struct tir_value a, struct tir_value bias);

#endif
