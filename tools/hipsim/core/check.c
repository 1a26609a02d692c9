/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "parts.h"

#define FOR_CHECKS(i, c)                      \
    for (unsigned i = 0; i < CHECKS_MAX; i++) \
        for (const struct check *c = simulator_parts.checks[i]; c; c = NULL)
/* Loops over the checks that watch the workgroup `wg`: i is the number of a check, c the check. */
#define FOR_WATCHING(i, c, wg) FOR_CHECKS(i, c) if ((wg)->check[i])

void checks_decoded(enum gfx_target target, struct inst *in)
{
    FOR_CHECKS(i, c)
    if (c->decoded)
        c->decoded(target, in);
}

bool checks_launch_begin(struct check_launch *c, const struct launch *l, uint64_t first,
                         uint64_t last)
{
    *c = (struct check_launch){{NULL}, {false}};
    FOR_CHECKS(i, check)
    {
        c->watches[i] = check->group_create && l->checks & check->kinds;
        if (!c->watches[i] || !check->launch_begin)
            continue;
        c->state[i] = check->launch_begin(l, first, last, &c->watches[i]);
        if (c->watches[i] && !c->state[i])
            return false;
    }
    return true;
}

void checks_launch_end(struct check_launch *c, struct launch *l)
{
    FOR_CHECKS(i, check)
    if (c->state[i])
        check->launch_end(l, c->state[i]);
}

bool checks_group_create(const struct check_launch *c, struct workgroup *wg)
{
    FOR_CHECKS(i, check)
    {
        wg->check[i] = c->watches[i] ? check->group_create(wg->launch, c->state[i]) : NULL;
        if (c->watches[i] && !wg->check[i])
            return false;
        if (c->watches[i] && check->fetched)
            wg->fetches |= (uint8_t)(1u << i);
    }
    return true;
}

void checks_group_destroy(struct workgroup *wg)
{
    FOR_WATCHING(i, c, wg)
    c->group_destroy(wg->check[i]);
}

void checks_group_begin(struct workgroup *wg)
{
    wg->unsettled = false;
    FOR_WATCHING(i, c, wg)
    if (c->group_begin)
        c->group_begin(wg->check[i], wg);
}

bool checks_accessed(struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction)
{
    FOR_WATCHING(i, c, w->wg)
    if (c->accessed && !c->accessed(w->wg->check[i], w, in, m, bytes, direction))
        return false;
    return true;
}

void checks_cache(struct wave *w, const struct inst *in)
{
    FOR_WATCHING(i, c, w->wg)
    if (c->cache)
        c->cache(w->wg->check[i], w, in);
}

void checks_settle(struct wave *w, const struct inst *in)
{
    w->wg->unsettled = false;
    FOR_WATCHING(i, c, w->wg)
    if (c->settle)
        c->settle(w->wg->check[i], w, in);
}

void checks_barrier(struct workgroup *wg)
{
    FOR_WATCHING(i, c, wg)
    if (c->barrier)
        c->barrier(wg->check[i], wg);
}

bool checks_origin(const struct wave *w, const struct inst *in, uint64_t *offset)
{
    FOR_WATCHING(i, c, w->wg)
    if (c->origin && c->origin(w->wg->check[i], w, in, offset))
        return true;
    return false;
}

void checks_grid_arrive(struct wave *w)
{
    FOR_WATCHING(i, c, w->wg)
    if (c->grid_arrive)
        c->grid_arrive(w->wg->check[i], w);
}

void checks_grid_pass(struct wave *w)
{
    FOR_WATCHING(i, c, w->wg)
    if (c->grid_pass)
        c->grid_pass(w->wg->check[i], w);
}
