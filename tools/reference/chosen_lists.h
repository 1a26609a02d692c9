/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the list of what a query attends to, entry by entry. */
#ifndef REFERENCE_CHOSEN_LISTS_H
#define REFERENCE_CHOSEN_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* A query: the n tokens that it sees, and the groups that are chosen for it. */
struct ref_chosen {
    int tokens, ratio, group_entries;
    const int32_t *chosen; /* [count]; NULL: all complete groups */
    int count;
    bool open_group;
    const int32_t *table; /* page numbers of the sequence */
    int page_entries, kv_heads, head;
    int window, ring;
    int first_row; /* the first row of the sequence's ring */
};

/* Writes at most `room` entries, and returns how many the whole list has. *length is the number
 * that goes with it: of entries, or with open_group of tokens. */
int ref_chosen_list(const struct ref_chosen *c, int32_t *list, int room, int *length);

#endif
