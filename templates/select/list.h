/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are selected from, and the lists that are made of them: arguments that topk and
 * indexer_topk share. Workgroup (t, p) has part p of row t; with a plan it has the items of a work
 * list, each part of a row, and lists of parts are merged to rows.
 */
#ifndef TEMPLATES_SELECT_LIST_H
#define TEMPLATES_SELECT_LIST_H

#include "templates/select/select.h"

struct att_list {
    struct tir_builder *b;
    struct tir_value row, part;
    struct tir_value start;    /* the row's first column: row_starts */
    struct tir_value all;      /* scores of the row */
    struct tir_value first;    /* column of the part's first score: start and its position */
    struct tir_value position; /* of that score in its row */
    struct tir_value n;        /* scores of the part; all i32 scalars */
    struct tir_value partial;  /* the part's list among those of a plan, below 0 where the row has
                                * one part; id 0: there is no plan */
    struct tir_value to;       /* list of the output, where it is not `splits` row + part */
};

/** This workgroup's part of a row: of row_starts, row_ends and `splits`. `columns` bounds rows and
 * stands for row_ends without them; id 0: there is no bound. */
struct att_list att_list_begin(struct tir_builder *b, struct tir_value columns);

/** This workgroup's part of another row, without a bound. */
struct att_list att_list_of_row(struct tir_builder *b, struct tir_value row);

/** Item number `item` of a plan. */
struct att_list att_list_of_item(struct tir_builder *b, struct tir_value item);

/** The lists of a row's parts, or a run of them, one behind the other; n is 0 where there are
 * none. */
struct att_list att_list_of_parts(struct tir_builder *b, unsigned k);

/** Cuts a row of `all` scores, whose columns begin at `start`, into the parts. */
void att_list_cut(struct att_list *l, struct tir_value start, struct tir_value all);

/** Element `at` (i32 a lane) of an array of 32 bits at `base`. */
struct tir_value att_list_gather(const struct att_list *l, struct tir_value base,
                                 struct tir_value at, unsigned dtype);

/** Slots of positions that count from the sequence's first token, by block_table. */
struct tir_value att_list_slots(const struct att_list *l, struct tir_value at);

/** Makes the elements to be written of an entry of the buffer, one in every lane: out[0] is for
 * indices (i32), out[1] for values (f32). */
struct att_list_names {
    void (*name)(void *context, struct tir_value entry, struct tir_value out[2]);
    void *context;
    const char *indices, *values, *counts;        /* arguments */
    const char *partial_indices, *partial_values; /* where there is a plan */
};

/** Writes `count` entries to the list's part of the three arrays. */
void att_list_write(const struct att_list *l, const struct att_select *s, struct tir_value count,
                    const struct att_list_names *names);

#endif
