/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares loads and stores of recurrent states that are results of matrix products. Such
 * a state is a tile of K key elements by some value elements, f32 in registers in any layout. In
 * memory a state has the variant's dtype and order.
 */
#ifndef TEMPLATES_LINEAR_PRODUCT_STATE_H
#define TEMPLATES_LINEAR_PRODUCT_STATE_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** Loads a part of the state at address `base` (i64), from value element `first` (i32) on, as a
 * tile of type `t`, head_dim x values. Returns zeros if `there` (i1) is false. */
struct tir_value att_product_state_load(struct tir_builder *b, const struct att_variant *v,
                                        struct tir_value base, struct tir_value first,
                                        struct tir_value there, struct tir_type t);

/** Stores tile `a`, head_dim x values, rounded to the dtype of states. The place is given by `base`
 * and `first` as in att_product_state_load(). Stores nothing if `there` (i1) is false. */
void att_product_state_store(struct tir_builder *b, const struct att_variant *v,
                             struct tir_value base, struct tir_value first, struct tir_value there,
                             struct tir_value a);

#endif
