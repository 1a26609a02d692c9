/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the list of entries that a query attends to; ops/chosen_lists.def has the
 * formula. */
#ifndef REFERENCE_CHOSEN_LISTS_H
#define REFERENCE_CHOSEN_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* A query and KV head, and the groups of tokens that are chosen for them. */
struct ref_chosen {
    int tokens, ratio, group_entries; /* that the query sees; tokens, and entries, of a group */
    const int32_t *chosen;            /* [count]: groups, ascending; NULL: all complete groups */
    int count;
    bool open_group;                  /* the newest group is added if it is not complete */
    const int32_t *table;             /* page numbers of the sequence */
    int page_entries, kv_heads, head; /* entries of a page; KV heads of the call; the row's */
    int window, ring;                 /* tokens of the window, 0: none; rows of a ring */
    int first_row;                    /* the first row of the sequence's ring */
    int fresh, own_row; /* newest tokens that are rows of the second source; row of the last one */
};

/* Writes the first `room` entries of the list, and returns how many it has. *length is the expected
 * list_lens: the number of entries, or with open_group of tokens. */
int ref_chosen_list(const struct ref_chosen *c, int32_t *list, int room, int *length);

#endif
