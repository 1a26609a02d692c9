/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares prefix sums over 64 numbers of a wave, by way of LDS. Waves do not wait for
 * each other: each has an LDS region of its own.
 */
#ifndef TEMPLATES_WORKGROUP_SCAN_H
#define TEMPLATES_WORKGROUP_SCAN_H

#include "ir/builder.h"

enum { ATT_SCAN_ROWS = 64 }; /* numbers that a wave adds up: rows of a tile */

/* Types, and the LDS region of this wave, for prefix sums over ATT_SCAN_ROWS numbers. */
struct att_scan {
    /* Type of the numbers: i32, ATT_SCAN_ROWS x 1, in the lanes of the wave. */
    struct tir_type lane;
    struct tir_layout map; /* LDS layout of the numbers */
    struct tir_value lds;  /* i32: LDS address of this wave's region: 64 zeros, then 64 numbers */
};

/** Reserves LDS for all waves of the kernel, and clears this wave's region. Returns the types and
 * the region. */
struct att_scan att_scan_begin(struct tir_builder *b);

/** Returns a tile whose row i has row i - `distance` of `a`, or 0 in the first `distance` rows. */
struct tir_value att_scan_shift(struct tir_builder *b, const struct att_scan *s, struct tir_value a,
                                int distance);

/** Returns exclusive prefix sums: row i of the result is the sum of rows 0 to i - 1 of `a`. */
struct tir_value att_scan_before(struct tir_builder *b, const struct att_scan *s,
                                 struct tir_value a);

#endif
