/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the functions that gates of linear attention pass through, in float.
 */
#ifndef TEMPLATES_LINEAR_GATES_H
#define TEMPLATES_LINEAR_GATES_H

#include "ir/builder.h"

/** Computes exp(x), x / ln 2 rounded once: off by 2 |x| + 2 units of float. */
struct tir_value att_exp(struct tir_builder *b, struct tir_value x);

/** Computes 1 / (1 + exp(-x)); infinity where exp overflows makes it 0. */
struct tir_value att_sigmoid(struct tir_builder *b, struct tir_value x);

/** Computes x / (1 + exp(-x)). */
struct tir_value att_silu(struct tir_builder *b, struct tir_value x);

/** Computes log(1 + exp(x)), and x above 20. Small results keep their relative precision. */
struct tir_value att_softplus(struct tir_builder *b, struct tir_value x);

#endif
