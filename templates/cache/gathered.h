/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that a call gathers out of pages, one sequence after the other: token seq_starts[s] + i
 * of sequence s becomes row cu_seqlens_k[s] + i.
 */
#ifndef TEMPLATES_CACHE_GATHERED_H
#define TEMPLATES_CACHE_GATHERED_H

#include "ir/builder.h"

/** The gathered rows of one sequence, as i32 scalars. */
struct att_gathered {
    struct tir_value row;        /* first row in the output */
    struct tir_value start, end; /* range of the sequence's tokens */
};

/** Reads cu_seqlens_k and, unless it is NULL, seq_starts. `sequence` is an i32 scalar. */
struct att_gathered att_gathered(struct tir_builder *b, struct tir_value sequence);

/** Returns list[index] of the argument `list`, an i32 array; everything is uniform. */
struct tir_value att_gathered_entry(struct tir_builder *b, const char *list,
                                    struct tir_value index);

#endif
