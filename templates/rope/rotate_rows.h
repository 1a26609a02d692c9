/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the rotation of rows in registers, each a head or a pooled row, and their
 * product with the Hadamard matrix. The rotated elements of a row may begin at any multiple of
 * rotary_dim.
 */
#ifndef TEMPLATES_ROPE_ROTATE_ROWS_H
#define TEMPLATES_ROPE_ROTATE_ROWS_H

#include "ir/builder.h"
#include "templates/variant.h"

/** The angles of one position, and the elements of a row that they rotate. */
struct rope_angles {
    const struct att_variant *v; /* variant with the kind of rope, and rotary_dim, a power of two */
    struct tir_value position;   /* i32: position of the token, a row of the argument cos_sin */
    /* i32: index of the first element of a row that rotates, a multiple of rotary_dim. */
    struct tir_value first;
    struct tir_value backwards; /* i1: true if the angles are negated; no value: false */
};

/** Returns the rows z (f32), with rotary_dim elements of every row rotated by the same angles. */
struct tir_value rope_rotate_rows(struct tir_builder *b, const struct rope_angles *a,
                                  struct tir_value z);

/** Multiplies rows of 128 elements (f32) in place by the Hadamard matrix over sqrt 128. The rows
 * are in n_parts tiles x[] of the same type: some bits of an element's index, in any order, select
 * its tile. */
void rope_hadamard(struct tir_builder *b, struct tir_value *x, unsigned n_parts);

#endif
