/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that a call gathers from pages, one sequence after the other: token seq_starts[s] + i of
 * sequence s becomes row cu_seqlens_k[s] + i of the output.
 */
#ifndef TEMPLATES_CACHE_GATHERED_H
#define TEMPLATES_CACHE_GATHERED_H

#include "ir/builder.h"

/** The rows of one sequence that a call gathers, as i32 scalars. */
struct att_gathered {
    struct tir_value row;        /* index of the sequence's first row in the output */
    struct tir_value start, end; /* gathered tokens of the sequence: indices `start` to `end` - 1 */
};

/** Returns the gathered rows of sequence `sequence` (i32 scalar). Reads cu_seqlens_k, and
 * seq_starts unless that is NULL. */
struct att_gathered att_gathered(struct tir_builder *b, struct tir_value sequence);

/** Returns list[index] (i32) of array argument `list`. `index` (i32) and the result are scalars. */
struct tir_value att_gathered_entry(struct tir_builder *b, const char *list,
                                    struct tir_value index);

#endif
