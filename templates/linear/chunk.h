/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what chunked forms of recurrences share. A workgroup has one sequence, one
 * value head and some of its value elements. It goes over chunks of ATT_CHUNK tokens from the
 * sequence's first token on. Products are by matrix instructions of 16 rows and 16 columns. Rows of
 * a chunk beyond the sequence's last token are read as 0 and never written.
 */
#ifndef TEMPLATES_LINEAR_CHUNK_H
#define TEMPLATES_LINEAR_CHUNK_H

#include "ir/matrix.h"
#include "templates/linear/sequence.h"
#include "templates/linear/state.h"

enum { ATT_CHUNK = 64 /* tokens of a chunk */ };

/** Returns a view of a head's rows of the chunk whose first token is `token`: `width` elements of
 * 16 bits each, from element `first` on. The sequence has `left` (i32) tokens from `token` on. */
struct tir_view att_chunk_rows(struct tir_builder *b, struct att_tensor t, struct tir_value token,
                               struct tir_value left, struct tir_value head, struct tir_value first,
                               unsigned width);

/** Returns a view of one number of `size` bytes for each token of a chunk: a head's, each in a row
 * of its own. The sequence has `left` (i32) tokens from the chunk's first token `token` on. */
struct tir_view att_chunk_numbers(struct tir_builder *b, struct att_tensor t,
                                  struct tir_value token, struct tir_value left,
                                  struct tir_value head, int size);

/** Returns the type of `rows` x `cols` elements of `dtype` (enum tir_dtype), for loads of whole
 * rows from memory by all waves of the workgroup. A lane loads 16 bytes. */
struct tir_type att_chunk_staged(struct tir_builder *b, unsigned dtype, unsigned rows,
                                 unsigned cols);

/** Returns the type of one number for each token of a chunk: f32, ATT_CHUNK x 1, one row for each
 * lane. Memory has the numbers as `dtype` (enum tir_dtype). Every wave has all of them. */
struct tir_type att_chunk_numbers_type(struct tir_builder *b, unsigned dtype);

/** Returns the last of a chunk's numbers, of att_chunk_numbers_type(), as a scalar. */
struct tir_value att_chunk_last(struct tir_builder *b, struct tir_value numbers);

#endif
