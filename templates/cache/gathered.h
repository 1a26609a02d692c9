/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows that a call gathers out of pages, one sequence after the other: token seq_starts[s] + i
 * of sequence s becomes row cu_seqlens_k[s] + i.
 */
#ifndef TEMPLATES_CACHE_GATHERED_H
#define TEMPLATES_CACHE_GATHERED_H

#include "ir/builder.h"

/** The gathered rows of one sequence: i32 scalars. */
struct att_gathered {
    struct tir_value row;        /* of the output: the first one */
    struct tir_value start, end; /* tokens of the sequence */
};

/** Reads cu_seqlens_k and, unless it is NULL, seq_starts. `sequence` is an i32 scalar. */
struct att_gathered att_gathered(struct tir_builder *b, struct tir_value sequence);

/** list[index], of a list of i32 that is the argument `list`; all uniform. */
struct tir_value att_gathered_entry(struct tir_builder *b, const char *list,
                                    struct tir_value index);

#endif
