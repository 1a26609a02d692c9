/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how ops with a state for each sequence find a sequence: its tokens, and the
 * slots of the state pool for its states.
 */
#ifndef TEMPLATES_LINEAR_SEQUENCE_H
#define TEMPLATES_LINEAR_SEQUENCE_H

#include "ir/builder.h"
#include "templates/workgroup/scalar.h"

/* A sequence of the batch, as a workgroup reads it from the arguments. */
struct att_sequence {
    struct tir_value index; /* i32: index of the sequence in the batch */
    /* i32: row of the sequence's first token, and one past the row of its last. */
    struct tir_value start, end;
    struct tir_value count; /* i32: number of the sequence's tokens in this call */
    /* i32: index of the token of the previous call whose state the sequence continues
     * (att_accepted()); 0 unless drafts are verified */
    struct tir_value accepted;
    struct tir_value verifies; /* i1: the argument `accepted` is not NULL */
    /* i1: the sequence begins with a state from the pool; false: with a state of zeros. */
    struct tir_value has_state;
};

/** Reads sequence `index` (i32) of the batch by the arguments cu_seqlens, max_seqlen, accepted and
 * has_state. */
struct att_sequence att_sequence(struct tir_builder *b, struct tir_value index);

/** Reads the tokens of sequence `index` (i32), for an op without the argument has_state. Of the
 * other members only `index` is set. */
struct att_sequence att_sequence_tokens(struct tir_builder *b, struct tir_value index);

/** Reads sequence `index` (i32) for an op without the argument `accepted`. Members `accepted` and
 * `verifies` are not set. */
struct att_sequence att_sequence_of_prompt(struct tir_builder *b, struct tir_value index);

/** Returns entry `index` (i32) of the int32 array in argument `arg`. The argument named `stride`
 * has the distance of two entries, in elements. */
struct tir_value att_strided_entry(struct tir_builder *b, const char *arg, const char *stride,
                                   struct tir_value index);

/** Returns entry [row][column] (i32 indices) of the matrix of int32 in argument `arg`. The
 * arguments named `row_stride` and `column_stride` have the strides, in elements. */
struct tir_value att_matrix_entry(struct tir_builder *b, const char *arg, const char *row_stride,
                                  struct tir_value row, const char *column_stride,
                                  struct tir_value column);

/** Returns the index (i32) of the token of the previous call whose state sequence `index` (i32)
 * continues: accepted[index] - 1. The result is 0 if that is negative or argument `accepted` is
 * NULL. */
struct tir_value att_accepted(struct tir_builder *b, struct tir_value index);

/** Returns the parent (i32) of a draft in a tree, as an index of a token in the sequence. `token`
 * (i32) is the draft's row of argument `parents`. A parent that is not an earlier token is replaced
 * by the previous token; the root has parent 0. */
struct tir_value att_parent(struct tir_builder *b, const struct att_sequence *s,
                            struct tir_value token);

/** Returns the address (i64) of value head `head` (i32) in row `row` (i32) of the array in argument
 * `arg`. Each row has `bytes` bytes for each value head. */
struct tir_value att_value_head_row(struct tir_builder *b, const char *arg, struct tir_value row,
                                    struct tir_value head, int bytes);

/** Returns an i1: true if `slot` (i32) is at least the argument first_slot, so that it is a slot of
 * the pool. A lower slot number marks a padding sequence of the batch. */
struct tir_value att_is_slot(struct tir_builder *b, struct tir_value slot);

#endif
