/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares how ops on prompts keep states for a prefix cache: one after each block of
 * tokens of a sequence, in a slot of its own.
 */
#ifndef TEMPLATES_LINEAR_BLOCKS_H
#define TEMPLATES_LINEAR_BLOCKS_H

#include "templates/linear/sequence.h"

/** The three nested branches of att_begin_block_end(). The caller stores the block's state
 * inside the innermost one. */
struct att_block_end {
    /* Branches, outermost first. within: token `after` is in the sequence or at its end. ends: a
     * block ends before `after`. kept: the block has a slot. */
    struct tir_if within, ends, kept;
    struct tir_value slot; /* i32: slot of the state pool for the block's state */
};

/** Returns the address (i64) of the sequence's row of argument block_slots, which has a slot of the
 * pool for each block of tokens. */
struct tir_value att_block_row(struct tir_builder *b, const struct att_sequence *s);

/**
 * Begins three nested branches. Stores in the innermost one run if a block of the prefix cache ends
 * with the token before `after` (i32). The block must have a slot for its state, too. `after` is a
 * multiple of 32 tokens from the sequence's first one. `row` (i64) is the address from
 * att_block_row(). The caller gets it before its loop, which saves scalar registers in the loop.
 */
struct att_block_end att_begin_block_end(struct tir_builder *b, const struct att_sequence *s,
                                         struct tir_value row, struct tir_value after);

/** Ends the branches of att_begin_block_end(). */
void att_finish_block_end(struct tir_builder *b, struct att_block_end *e);

#endif
