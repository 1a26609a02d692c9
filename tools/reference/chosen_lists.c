/* SPDX-License-Identifier: Apache-2.0 */
/* This file implements the lists of ops/chosen_lists.def only. */
#include "tools/reference/chosen_lists.h"

/* A list that is being written. */
struct writer {
    int32_t *list;
    /* Entries that fit; entries so far, including the ones that did not fit. */
    int room, count;
};

/* Adds an entry, or only counts it if there is no room. */
static void add(struct writer *w, int32_t entry)
{
    if (w->count < w->room)
        w->list[w->count] = entry;
    w->count++;
}

/* Returns the number of tokens that the query sees in a group. */
static int tokens_of(const struct ref_chosen *c, int group)
{
    const int left = c->tokens - group * c->ratio;
    return left < c->ratio ? left : c->ratio;
}

/* Adds the entries of a group, found through the page table. With open_group only entries that have
 * tokens are added. */
static void add_group(struct writer *w, const struct ref_chosen *c, int group)
{
    const int n = tokens_of(c, group) * c->group_entries;
    for (int e = 0; e < c->group_entries && (!c->open_group || e * c->ratio < n); e++) {
        const int i = group * c->group_entries + e;
        const int32_t unit = c->table[i / c->page_entries] * c->page_entries + i % c->page_entries;
        add(w, unit * c->kv_heads + c->head);
    }
}

int ref_chosen_list(const struct ref_chosen *c, int32_t *list, int room, int *length)
{
    struct writer w = {list, room, 0};
    const int complete = c->tokens / c->ratio;
    const int n = c->chosen ? c->count : complete;
    int seen = 0, last = -1;
    for (int g = 0; g < n; g++) {
        last = c->chosen ? c->chosen[g] : g;
        add_group(&w, c, last);
        seen += tokens_of(c, last);
    }
    if (c->open_group && c->tokens % c->ratio && last != complete) {
        add_group(&w, c, complete);
        seen += tokens_of(c, complete);
    }
    const int from = c->tokens < c->window ? 0 : c->tokens - c->window;
    for (int p = from; p < c->tokens && c->window; p++)
        add(&w, p < c->tokens - c->fresh ? c->first_row + p % c->ring
                                         : c->own_row - (c->tokens - 1 - p));
    *length = c->open_group ? seen : w.count;
    return w.count;
}
