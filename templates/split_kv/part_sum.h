/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of all partials (parts) of a sequence, slice by slice. A slice is a row of O, or a piece
 * of a row if there are few rows. A wave reads a slice of each part from memory, adds up these
 * slices in the order of the parts, and writes the result.
 */
#ifndef TEMPLATES_SPLIT_KV_PART_SUM_H
#define TEMPLATES_SPLIT_KV_PART_SUM_H

#include "templates/split_kv/split_kv.h"

enum {
    SPLIT_KV_FEW_PARTS = 4,   /* most parts of a result that SPLIT_KV_PARTS_AT_ONCE reads */
    SPLIT_KV_PART_LOADS = 16, /* most loads of a lane in flight */
};

/** The way in which a wave goes over the parts of a slice. */
enum split_kv_part_way {
    SPLIT_KV_PARTS_AT_ONCE,      /* up to SPLIT_KV_FEW_PARTS, with all loads in flight together */
    SPLIT_KV_PARTS_ONE_BY_ONE,   /* a lane has elements of one part at a time */
    SPLIT_KV_PARTS_SIDE_BY_SIDE, /* a wave has eight parts of a slice of 32 elements at once */
    SPLIT_KV_PARTS_OF_ROWS,      /* a wave has eight parts of a slice of 128 elements at once, or of
                                    64 if head_dim_v is below 128; for few parts */
};

/** The sum of a result's parts. split_kv_part_sum() sets the members before `way`.
 * split_kv_part_sum_find() sets `way` and the others, which depend on it. */
struct split_kv_part_sum {
    struct split_kv *d;
    struct tir_value first, count; /* i32: the first entry of reduce_partial_map, and the number of
                                      entries */
    struct tir_value row_bytes;    /* i64: bytes of O of a row of all heads */
    /* f32: a number for each lane, of one part; the n elements of a slice, 1 x n. */
    struct tir_type lanes, slice;
    struct tir_type one; /* type of one number: f32, 1 x 1 */
    enum split_kv_part_way way;
    /* With ONE_BY_ONE, i32 in the layout of `lanes`: rows of partial_out of the first parts. */
    struct tir_value rows;
    /* With AT_ONCE: byte offsets (i64) of each part's lse and O; entries after the last part repeat
     * its offsets. */
    struct tir_value few_lse[SPLIT_KV_FEW_PARTS], few_out[SPLIT_KV_FEW_PARTS];
    /* With SIDE_BY_SIDE and OF_ROWS: */
    struct tir_type some, parts; /* f32: eight parts x elements of a slice; eight parts x 1 */
    struct tir_value
        rows_at[SPLIT_KV_PART_LOADS]; /* i64 in the layout of `parts`: byte offsets of the first
                                         parts' lse */
};

/** Returns the description of a sum of the parts in entries `first` to `first` + `count` - 1 (i32)
 * of reduce_partial_map. The caller sets the way by split_kv_part_sum_find(). */
struct split_kv_part_sum split_kv_part_sum(struct split_kv *d, struct tir_value first,
                                           struct tir_value count);
/** Returns the number of parts whose loads SPLIT_KV_PARTS_OF_ROWS keeps in flight together. */
unsigned split_kv_few_parts_of_rows(const struct split_kv *d);
/** Returns an i1: true if there are enough parts to add them side by side. No value: the result has
 * too many rows for that way. */
struct tir_value split_kv_parts_lie_side_by_side(const struct split_kv_part_sum *s);
/** Sets s->way to `way`, and issues the loads of the rows of the first parts. */
void split_kv_part_sum_find(struct split_kv_part_sum *s, enum split_kv_part_way way);
/** Returns the number of slices (i32) of all rows of the sequence's result. */
struct tir_value split_kv_part_sum_slices(const struct split_kv_part_sum *s);
/** Adds up slice `number` (i32) of all parts and writes it to the result. */
void split_kv_part_sum_slice(struct split_kv_part_sum *s, struct tir_value number);

#endif
