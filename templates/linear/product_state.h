/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares loads and stores of recurrent states that are accumulators of products: tiles
 * of K key elements by some value elements in any layout, f32 in registers, whatever their dtype
 * and order in memory.
 */
#ifndef TEMPLATES_LINEAR_PRODUCT_STATE_H
#define TEMPLATES_LINEAR_PRODUCT_STATE_H

#include "templates/variant.h"
#include "templates/workgroup/scalar.h"

/** Loads value elements of the state at `base` (i64), from `first` (i32) on, as a tile of type
 * `t`, K x values; zeros where `there` (i1) is false. */
struct tir_value att_product_state_load(struct tir_builder *b, const struct att_variant *v,
                                        struct tir_value base, struct tir_value first,
                                        struct tir_value there, struct tir_type t);

/** Stores a tile to the place where att_product_state_load() loads it, rounded to the dtype of
 * states; nothing where `there` (i1) is false. */
void att_product_state_store(struct tir_builder *b, const struct att_variant *v,
                             struct tir_value base, struct tir_value first, struct tir_value there,
                             struct tir_value a);

#endif
