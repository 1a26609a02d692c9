/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what ops with a state for each sequence read of it: where its tokens are,
 * which slot of the pool its state is read from and which ones it is written to.
 */
#ifndef TEMPLATES_LINEAR_SEQUENCE_H
#define TEMPLATES_LINEAR_SEQUENCE_H

#include "ir/builder.h"
#include "templates/workgroup/scalar.h"

struct att_sequence {
    struct tir_value index;      /* i32: number of the sequence */
    struct tir_value start, end; /* i32: its first token, and one past its last */
    struct tir_value count;      /* i32: tokens */
    struct tir_value accepted;   /* i32: accepted drafts of the previous step */
    struct tir_value verifies;   /* i1: `accepted` was given */
    struct tir_value has_state;  /* i1: false: the state before its first token is 0, whatever
                                    the pool has */
};

/** Reads a sequence by the arguments cu_seqlens, max_seqlen, accepted and has_state. */
struct att_sequence att_sequence(struct tir_builder *b, struct tir_value index);

/** Reads the tokens of a sequence, for an op without the argument has_state. Of the other
 * members only `index` is set. */
struct att_sequence att_sequence_tokens(struct tir_builder *b, struct tir_value index);

/** Reads a sequence for an op without `accepted`: members `accepted` and `verifies` are not set. */
struct att_sequence att_sequence_of_prompt(struct tir_builder *b, struct tir_value index);

/** Returns entry `index` of the int32 array in argument `arg`. Its entries are apart by the
 * argument `stride`, in entries. */
struct tir_value att_strided_entry(struct tir_builder *b, const char *arg, const char *stride,
                                   struct tir_value index);

/** Returns entry [row][column] (i32 both) of the matrix of int32 in argument `arg`. The strides are
 * arguments too, in entries. */
struct tir_value att_matrix_entry(struct tir_builder *b, const char *arg, const char *row_stride,
                                  struct tir_value row, const char *column_stride,
                                  struct tir_value column);

/** Returns the step whose state sequence `index` begins with: accepted[index] - 1, or 0 if that is
 * negative or the argument `accepted` is NULL. */
struct tir_value att_accepted(struct tir_builder *b, struct tir_value index);

/** Returns the parent of a draft in a tree, i32, counted in its sequence. `token`: the draft's row
 * of `parents`. A number that is not of an earlier token is replaced by the nearest one; the root's
 * is 0. */
struct tir_value att_parent(struct tir_builder *b, const struct att_sequence *s,
                            struct tir_value token);

/** Returns an i1: true if a slot number belongs to a sequence, not to padding. */
struct tir_value att_is_slot(struct tir_builder *b, struct tir_value slot);

#endif
