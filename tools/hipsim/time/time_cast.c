/* SPDX-License-Identifier: Apache-2.0 */
#include "time_cast.h"

#include <stdlib.h>

#define CASTS 512  /* most loads that wait at once; further requests are loads of their own */
#define MEMBERS 16 /* most workgroups of a cluster */

/* A multicast load that workgroups of its mask have requested. */
struct cast {
    uint64_t cluster, line; /* number of the cluster; number of the first line of 128 bytes */
    uint32_t n, mask;       /* number of lines; workgroups that share the load, a bit each */
    uint32_t requested;     /* workgroups that requested the load, a bit each; 0: free entry */
    uint64_t data;          /* clock at which the lines have arrived for all these workgroups */
    uint64_t limit;         /* last clock at which other workgroups may join */
    struct time_cast_request by[MEMBERS];
    uint64_t workgroup[MEMBERS]; /* indices in the grid of the workgroups of by[] */
    unsigned members;            /* number of entries of by[] */
};

struct time_casts {
    struct cast cast[CASTS];
};

struct time_casts *time_casts_create(void) { return calloc(1, sizeof(struct time_casts)); }

void time_casts_destroy(struct time_casts *casts) { free(casts); }

/* Returns the later clock. */
static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns the bit of the wave's workgroup in masks of its cluster. */
static uint32_t own_bit(const struct wave *w)
{
    const uint32_t *n = w->launch->cluster, *at = w->wg->in_cluster;
    return 1u << (at[0] + n[0] * (at[1] + n[1] * at[2]));
}

/* Returns the load that the request joins at clock `now`; NULL if there is none. */
static struct cast *find(struct time_casts *casts, const struct time_cast_request *r, uint64_t now)
{
    const struct tensor_lines *const t = r->lines;
    for (unsigned i = 0; i < CASTS; i++) {
        struct cast *const c = &casts->cast[i];
        if (c->requested && c->limit >= now && c->cluster == r->wave->w->wg->cluster &&
            c->line == t->line[0] && c->n == t->n && c->mask == t->mask &&
            !(c->requested & own_bit(r->wave->w)))
            return c;
    }
    return NULL;
}

/* Returns an entry that is free, or whose load nobody can join at clock `now`; NULL if there is
 * none. */
static struct cast *unused(struct time_casts *casts, uint64_t now)
{
    for (unsigned i = 0; i < CASTS; i++)
        if (!casts->cast[i].requested || casts->cast[i].limit < now)
            return &casts->cast[i];
    return NULL;
}

/* Adds a workgroup's request to the multicast. */
static void add_member(struct cast *c, const struct time_cast_request *r)
{
    c->requested |= own_bit(r->wave->w);
    c->by[c->members] = *r;
    c->workgroup[c->members++] = r->wave->w->wg->index;
}

/* Sets the completion time of each request whose workgroup still runs, and frees the entry. */
static void settle(struct cast *c)
{
    for (unsigned i = 0; i < c->members; i++) {
        const struct time_cast_request *const r = &c->by[i];
        if (r->wave->w && r->wave->w->wg->index == c->workgroup[i])
            time_counter_set(r->counter, r->number, c->data);
    }
    c->requested = 0;
}

uint64_t time_cast(struct time_memory *m, uint64_t now, const struct time_cast_request *r,
                   bool *settled)
{
    const struct tensor_lines *const t = r->lines;
    struct cast *c = find(m->casts, r, now);
    const enum time_copy kind = c ? COPY_RECEIVE : COPY_CAST;
    const uint64_t data = time_memory_copy(m, now, kind, t->line, t->n);
    if (c) {
        c->data = later(c->data, data);
    } else {
        c = unused(m->casts, now);
        if (!c)
            return data;
        const uint64_t wait = t->early ? data : now + (uint64_t)m->p->multicast_wait_cycles;
        *c = (struct cast){
            .cluster = r->wave->w->wg->cluster,
            .line = t->line[0],
            .n = t->n,
            .mask = t->mask,
            .data = data,
            .limit = wait,
        };
    }
    add_member(c, r);
    const bool all = c->requested == c->mask;
    const uint64_t done = all ? c->data : later(c->data, c->limit);
    *settled = all && c->members > 1;
    if (all)
        settle(c);
    return done;
}
