/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares what kernels share that compute recurrences in chunks of tokens. A workgroup
 * has one sequence, one value head and some of its value elements. It goes over chunks of ATT_CHUNK
 * tokens from the sequence's first token on. Products are by matrix instructions of 16 rows and 16
 * columns. Rows of a chunk beyond the sequence's last token are read as 0 and never written.
 */
#ifndef TEMPLATES_LINEAR_CHUNK_H
#define TEMPLATES_LINEAR_CHUNK_H

#include "ir/matrix.h"
#include "templates/linear/sequence.h"
#include "templates/linear/state.h"

enum { ATT_CHUNK = 64 /* tokens of a chunk */ };

/** Returns a view of head `head` (i32) in tensor `t`, with a row for each token of the chunk whose
 * first token is `token` (i32). A row has `width` elements of 16 bits, from element `first` (i32)
 * on. The sequence has `left` (i32) tokens from `token` on. */
struct tir_view att_chunk_rows(struct tir_builder *b, struct att_tensor t, struct tir_value token,
                               struct tir_value left, struct tir_value head, struct tir_value first,
                               unsigned width);

/** Returns a view of tensor `t` [token, head] with a row for each token of a chunk: the tensor's
 * number for head `head` (i32), of `size` bytes. The chunk's first token is `token` (i32), and the
 * sequence has `left` (i32) tokens from there on. */
struct tir_view att_chunk_numbers(struct tir_builder *b, struct att_tensor t,
                                  struct tir_value token, struct tir_value left,
                                  struct tir_value head, int size);

/** Returns the tile type of `rows` x `cols` elements of `dtype` (enum tir_dtype), by which all
 * waves of the workgroup together load whole rows from memory. A lane loads 16 bytes. */
struct tir_type att_chunk_staged(struct tir_builder *b, unsigned dtype, unsigned rows,
                                 unsigned cols);

/** Returns the tile type of one number for each token of a chunk: ATT_CHUNK x 1 of `dtype` (enum
 * tir_dtype), one row for each lane. Every wave has the numbers of all tokens. */
struct tir_type att_chunk_numbers_type(struct tir_builder *b, unsigned dtype);

/** Returns, as a scalar, the number of a chunk's last token. `numbers`: a tile of
 * att_chunk_numbers_type(). */
struct tir_value att_chunk_last(struct tir_builder *b, struct tir_value numbers);

#endif
