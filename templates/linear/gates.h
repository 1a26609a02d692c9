/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the functions that gates of linear attention pass through, in float.
 */
#ifndef TEMPLATES_LINEAR_GATES_H
#define TEMPLATES_LINEAR_GATES_H

#include "ir/builder.h"
#include "templates/variant.h"

/** Computes exp(x) as 2^(x / ln 2), with the exponent rounded once. The error is 2 |x| + 2 units
 * in the last place. */
struct tir_value att_exp(struct tir_builder *b, struct tir_value x);

/** Computes 1 / (1 + exp(-x)). If exp overflows to infinity, the result is 0. */
struct tir_value att_sigmoid(struct tir_builder *b, struct tir_value x);

/** Computes x / (1 + exp(-x)). */
struct tir_value att_silu(struct tir_builder *b, struct tir_value x);

/** Returns a tile with the type of `like` and f32 argument `arg` in every element. */
struct tir_value att_arg_like(struct tir_builder *b, const char *arg, struct tir_value like);

/** Returns the time steps (f32) of tokens from their `dt`, of any dtype, and its `bias` (f32). With
 * x = dt + bias the result is x or softplus(x), by field gates, limited to the range from argument
 * dt_min to argument dt_max. */
struct tir_value att_time_step(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value dt, struct tir_value bias);

/** Returns g (f32), the natural logarithm of a decay. With gates "given" it is `in` itself.
 * Otherwise it follows from `in`, a gate's input, with `bias` and `a`, which is exp(a_log). `bias`
 * has the type of `in`; `a` has that type, or is one number, 1 x 1. */
struct tir_value att_log_decay(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value in, struct tir_value a, struct tir_value bias);

#endif
