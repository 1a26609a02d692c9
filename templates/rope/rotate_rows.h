/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the rotation of rows in registers whose rotated elements may begin anywhere.
 */
#ifndef TEMPLATES_ROPE_ROTATE_ROWS_H
#define TEMPLATES_ROPE_ROTATE_ROWS_H

#include "ir/builder.h"
#include "templates/variant.h"

/** The angles of one position, and the elements that rotate by them. */
struct rope_angles {
    const struct att_variant *v; /* rope and rotary_dim, a power of two */
    struct tir_value position;   /* i32: row of cos_sin */
    struct tir_value first;      /* i32: the first element that rotates */
    struct tir_value backwards;  /* i1: angles are negative; none: they are not */
};

/** Rotates rotary_dim elements of every row of z (f32) by the same angles. */
struct tir_value rope_rotate_rows(struct tir_builder *b, const struct rope_angles *a,
                                  struct tir_value z);

#endif
