/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a grid visits its work items.
 */
#ifndef TEMPLATES_GRID_H
#define TEMPLATES_GRID_H

#include "ir/builder.h"

/**
 * A permutation of the `n` items of a layer, so that each XCD works on neighbours: workgroup i of a
 * launch runs on XCD i mod 8. `place` is the workgroup's number in its layer, `before` that of the
 * workgroups in front of the layer, all i32 scalars; the result is its item, 0 <= item < n. Any n.
 */
struct tir_value att_xcd_item(struct tir_builder *b, struct tir_value place,
                              struct tir_value before, struct tir_value n);

#endif
