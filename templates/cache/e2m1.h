/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of e2m1 in bytes: two neighbours in a byte, the even one in its low half. A code has a
 * sign above three bits, which number the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
 */
#ifndef TEMPLATES_CACHE_E2M1_H
#define TEMPLATES_CACHE_E2M1_H

#include "ir/builder.h"

/** Returns `code` (i32) plus the code of the e2m1 number nearest to magnitude `size` (f32): the
 * number of midpoints between neighbouring e2m1 numbers that are below `size`. A midpoint equal
 * to `size` counts if the code of the midpoint's upper neighbour is even. */
struct tir_value att_e2m1_add(struct tir_builder *b, struct tir_value code, struct tir_value size);

/** Returns x (f32) rounded to the nearest e2m1, ties to even, at most 6, two elements in a byte.
 * The type is i8, rows x columns / 2, or i16, rows x columns / 4. A lane holds neighbours of a row
 * next to each other. */
struct tir_value att_e2m1_bytes(struct tir_builder *b, struct tir_value x);

/** Returns the bytes of att_e2m1_bytes() (i8) for elements in two tiles of one shape, which is also
 * the shape of the result: `even` has the elements of even columns of each row, `odd` the elements
 * of odd columns. */
struct tir_value att_e2m1_pairs(struct tir_builder *b, struct tir_value even, struct tir_value odd);

/** Returns the elements of `bytes` (i8, rows x columns) times `scale` (f32, rows x 1) in `dtype`:
 * rows x 2 columns. bf16 and fp16 contain a product with a scale of 4 significant bits exactly,
 * unless its exponent exceeds theirs. */
struct tir_value att_e2m1_elements(struct tir_builder *b, struct tir_value bytes,
                                   struct tir_value scale, unsigned dtype);

#endif
