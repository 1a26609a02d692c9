/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the list of cache rows or pages that a query attends to; ops/chosen_lists.def
 * has the formula. */
#ifndef REFERENCE_CHOSEN_LISTS_H
#define REFERENCE_CHOSEN_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* A query and KV head, and the groups of tokens that are chosen for them. */
struct ref_chosen {
    /* Tokens that the query sees; tokens of a group; entries of a list for each group. */
    int tokens, ratio, group_entries;
    /* [count]: numbers of groups, ascending; NULL: all complete groups */
    const int32_t *chosen;
    /* Number of chosen groups. */
    int count;
    bool open_group;      /* true: the newest group is added, even if it is incomplete */
    const int32_t *table; /* page numbers of the sequence */
    /* Entries for the groups in a page; KV heads of the call; KV head of this list. */
    int page_entries, kv_heads, head;
    /* Tokens of the window, 0: none; rows of the ring buffer that a sequence has for its window. */
    int window, ring;
    int first_row; /* index of the first row of the sequence's ring buffer */
    /* Number of the newest tokens, which are rows of the second source; the query's own row
     * there. */
    int fresh, own_row;
};

/* Writes the first `room` entries of the list and returns the length of the whole list. *length
 * gets the expected list_lens: the number of entries, or with open_group the number of tokens. */
int ref_chosen_list(const struct ref_chosen *c, int32_t *list, int room, int *length);

#endif
