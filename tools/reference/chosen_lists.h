/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the list of entries that a query attends to; ops/chosen_lists.def has the
 * formula. */
#ifndef REFERENCE_CHOSEN_LISTS_H
#define REFERENCE_CHOSEN_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* A query and KV head, and the groups of tokens that are chosen for them. */
struct ref_chosen {
    /* Tokens that the query sees; tokens, and entries, of a group. */
    int tokens, ratio, group_entries;
    /* [count]: numbers of groups, ascending; NULL: all complete groups */
    const int32_t *chosen;
    /* Number of chosen groups. */
    int count;
    bool open_group;      /* the newest group is added if it is not complete */
    const int32_t *table; /* page numbers of the sequence */
    /* Entries of a page; KV heads of the call; KV head of the list. */
    int page_entries, kv_heads, head;
    int window, ring; /* tokens of the window, 0: none; rows of a sequence's ring */
    int first_row;    /* the first row of the sequence's ring */
    /* Newest tokens that are rows of the second source; the query's own row there. */
    int fresh, own_row;
};

/* Writes the first `room` entries of the list, and returns the number of entries that the list
 * has. *length is the expected list_lens: the number of entries, or with open_group of tokens. */
int ref_chosen_list(const struct ref_chosen *c, int32_t *list, int room, int *length);

#endif
