/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the sum of all partials (parts) of a sequence, slice by slice. A slice is a
 * row of O, or a piece of a row if there are few rows. A wave reads a slice of each part from
 * memory, adds up these slices in the order of the parts, and writes the result.
 */
#ifndef TEMPLATES_SPLIT_KV_PART_SUM_H
#define TEMPLATES_SPLIT_KV_PART_SUM_H

#include "templates/split_kv/split_kv.h"

enum {
    SPLIT_KV_FEW_PARTS = 8,   /* most parts of a result that SPLIT_KV_PARTS_AT_ONCE reads */
    SPLIT_KV_PART_LOADS = 16, /* most loads of a lane in flight */
};

/** The way in which a wave adds up the parts of a slice. */
enum split_kv_part_way {
    SPLIT_KV_PARTS_AT_ONCE, /* for up to SPLIT_KV_FEW_PARTS: all loads are in flight together */
    /* A wave reads one part after the other; each lane has elements of the slice. */
    SPLIT_KV_PARTS_ONE_BY_ONE,
    SPLIT_KV_PARTS_SIDE_BY_SIDE, /* a wave reads eight parts at once, of a slice of 32 elements */
    /* For few parts: a wave reads eight parts at once, of a slice of 128 elements, or of 64 if
     * head_dim_v is below 128. */
    SPLIT_KV_PARTS_OF_ROWS,
};

/** The sum of a result's parts. split_kv_part_sum() sets the members before `way`.
 * split_kv_part_sum_find() sets `way` and the members after it, which depend on `way`. */
struct split_kv_part_sum {
    struct split_kv *d; /* the kernel */
    /* i32: index of the first part's entry of reduce_partial_map, and the number of parts. */
    struct tir_value first, count;
    struct tir_value row_bytes; /* i64: bytes of a row of partial_out, which has all heads */
    /* Types of f32: a number in each lane, of one part; the n elements of a slice, 1 x n. */
    struct tir_type lanes, slice;
    struct tir_type one;        /* type of one number: f32, 1 x 1 */
    enum split_kv_part_way way; /* way in which a wave goes over the parts */
    /* With ONE_BY_ONE, i32 in the layout of `lanes`: row in partial_out of each of the first
     * parts. */
    struct tir_value rows;
    /* With AT_ONCE, i64 scalars: byte offset of each part's row in partial_lse. Entries after the
     * last part have the last part's offset. */
    struct tir_value few_lse[SPLIT_KV_FEW_PARTS];
    /* With SIDE_BY_SIDE and OF_ROWS: types of f32, eight parts x elements of a slice, and eight
     * parts x 1. */
    struct tir_type some, parts;
    struct tir_value
        /* With SIDE_BY_SIDE and OF_ROWS, i64 in the layout of `parts`: byte offsets in partial_lse
         * of the first parts' rows. */
        rows_at[SPLIT_KV_PART_LOADS];
};

/** Returns the description of the sum of the parts in entries `first` to `first` + `count` - 1
 * (i32) of reduce_partial_map. split_kv_part_sum_find() must then set the member `way`. */
struct split_kv_part_sum split_kv_part_sum(struct split_kv *d, struct tir_value first,
                                           struct tir_value count);
/** Returns the number of parts whose loads are in flight together with SPLIT_KV_PARTS_OF_ROWS. */
unsigned split_kv_few_parts_of_rows(const struct split_kv *d);
/** Returns an i1: true if the sum has enough parts to read them side by side. Returns no value if
 * the result has too many rows to read parts side by side. */
struct tir_value split_kv_parts_lie_side_by_side(const struct split_kv_part_sum *s);
/** Sets s->way to `way`, and issues the loads of the rows of the first parts. */
void split_kv_part_sum_find(struct split_kv_part_sum *s, enum split_kv_part_way way);
/** Returns the number (i32) of slices of all rows of the sequence's result. */
struct tir_value split_kv_part_sum_slices(const struct split_kv_part_sum *s);
/** Adds up slice `number` (i32: index) of all parts, and writes the sum to the result. */
void split_kv_part_sum_slice(struct split_kv_part_sum *s, struct tir_value number);

#endif
