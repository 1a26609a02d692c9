/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads to LDS in flight. As with registers (wait.c), the data are written at issue and the old
 * bytes are saved. An access before the arrival exchanges the two.
 *
 * The clock of the accessing wave decides, not the loading wave's. The data arrive for all waves at
 * one clock, in whatever order the simulator runs them. It does not matter when the loading wave
 * waits for its data. s_barrier synchronises the clocks of the waves.
 */
#include <string.h>

#include "wait.h"

/* States that belong to the data and are exchanged with them. */
enum { OF_THE_DATA = LDS_DEFINED | LDS_STALE };

/* True if the entry's LDS bytes overlap the range from `first` up to `end`. */
static bool meets(const struct late_lds *e, uint64_t first, uint64_t end)
{
    return e->first < end && first < e->first + (uint64_t)WAVE_LANES * e->size;
}

/* Clears the bits `without` and sets the bits `with` in the states of the load's bytes. */
static void mark(struct workgroup *wg, const struct late_lds *e, uint8_t without, uint8_t with)
{
    const unsigned size = e->lanes == UINT64_MAX ? WAVE_LANES * e->size : e->size;
    /* all lanes: one piece of contiguous bytes */
    const uint64_t starts = e->lanes == UINT64_MAX ? 1 : e->lanes;
    unsigned l;
    FOR_LANES(l, starts)
    {
        uint8_t *state = wg->lds_valid + e->first + l * size;
        for (unsigned i = 0; i < size; i++)
            state[i] = (uint8_t)((state[i] & ~without) | with);
    }
}

/* Writes the saved bytes of a load to LDS; with `swap`, exchanges the two. */
static void put(struct workgroup *wg, struct late_lds *e, bool swap)
{
    unsigned l;
    FOR_LANES(l, e->lanes)
    {
        for (unsigned i = l * e->size; i < (l + 1) * e->size; i++) {
            uint8_t *byte = wg->lds + e->first + i, *state = wg->lds_valid + e->first + i;
            const uint8_t old = *byte, old_state = *state;
            *byte = e->bytes[i];
            *state = (uint8_t)((old_state & ~OF_THE_DATA) | (e->states[i] & OF_THE_DATA));
            if (swap) {
                e->bytes[i] = old;
                e->states[i] = old_state;
            }
        }
    }
}

/* Restores the LDS bytes that a load in flight overwrites, and saves the load's data in the
 * entry. */
static void hold(struct workgroup *wg, struct late_lds *e)
{
    put(wg, e, true);
    e->held = true;
}

/* Ends entry `n` of wg->late: LDS has its data from now on. Other entries with some of its bytes
 * are marked late again. */
static void deliver(struct workgroup *wg, unsigned n)
{
    struct late_lds *e = wg->late[n];
    if (e->held)
        put(wg, e, false);
    mark(wg, e, LDS_LATE, 0);
    memmove(wg->late + n, wg->late + n + 1, (--wg->nlate - n) * sizeof(struct late_lds *));
    wg->late[wg->nlate] = e;
    for (unsigned i = 0; i < wg->nlate; i++)
        if (meets(wg->late[i], e->first, e->first + (uint64_t)WAVE_LANES * e->size))
            mark(wg, wg->late[i], 0, LDS_LATE);
}

void lds_deliver(struct workgroup *wg, uint64_t clock)
{
    while (wg->nlate && wg->late[0]->arrival <= clock)
        deliver(wg, 0);
}

void lds_touch(struct wave *w, const struct inst *in, const struct lane_mem *m)
{
    struct workgroup *wg = w->wg;
    uint64_t first = UINT64_MAX, end = 0;
    unsigned l;
    FOR_LANES(l, m->lanes)
    {
        first = m->addr[l] < first ? m->addr[l] : first;
        end = m->addr[l] + m->bytes > end ? m->addr[l] + m->bytes : end;
    }
    for (unsigned i = 0; i < wg->nlate;) {
        struct late_lds *e = wg->late[i];
        if (meets(e, first, end) && e->arrival <= w->clock) {
            deliver(wg, i);
            continue;
        }
        if (meets(e, first, end)) {
            wave_note_margin(w, MARGIN_VECTOR, e->arrival, in->offset);
            if (!e->held)
                hold(wg, e);
        }
        i++;
    }
}

struct late_lds *lds_keep(struct wave *w, const struct lane_mem *to, uint32_t first, unsigned size)
{
    struct workgroup *wg = w->wg;
    unsigned l;
    if (!to->lanes)
        return NULL;
    if (wg->nlate == LATE_LOADS * wg->nwaves) /* the waves waited for the oldest long ago, and have
                                                 not accessed its bytes since */
        deliver(wg, 0);
    struct late_lds *e = wg->late[wg->nlate];
    e->lanes = to->lanes;
    e->first = first;
    e->size = (uint8_t)size;
    e->held = false;
    FOR_LANES(l, to->lanes)
    {
        memcpy(e->bytes + l * size, wg->lds + first + l * size, size);
        memcpy(e->states + l * size, wg->lds_valid + first + l * size, size);
    }
    return e;
}

void lds_issue(struct wave *w, const struct inst *in, struct late_lds *e)
{
    struct workgroup *wg = w->wg;
    if (!e) {
        wave_issue(w, in, WAIT_VM, OPND_NONE, 0, 0, false);
        return;
    }
    const uint32_t bytes = (64u - (unsigned)__builtin_clzll(e->lanes)) * e->size;
    e->arrival = wave_issue_to_lds(w, in, e->first, bytes);
    wg->lds_in_flight++;
    mark(wg, e, 0, LDS_IN_FLIGHT | LDS_LATE);
    for (unsigned i = 0; i < wg->nlate && !e->held; i++)
        if (meets(wg->late[i], e->first, e->first + bytes)) /* neither load has arrived */
            hold(wg, e);
    unsigned n = wg->nlate;
    for (; n > 0 && wg->late[n - 1]->arrival > e->arrival; n--)
        wg->late[n] = wg->late[n - 1];
    wg->late[n] = e;
    wg->nlate++;
}

void lds_mark(struct wave *w, const struct lane_mem *to, unsigned bytes, struct lds_range *range)
{
    unsigned l;
    FOR_LANES(l, to->lanes)
    {
        const uint32_t first = (uint32_t)to->addr[l], end = first + bytes;
        for (uint32_t i = first; i < end; i++)
            w->wg->lds_valid[i] |= LDS_IN_FLIGHT;
        range->first = !range->end || first < range->first ? first : range->first;
        range->end = end > range->end ? end : range->end;
    }
}

void lds_issue_range(struct wave *w, const struct inst *in, enum wait_counter counter,
                     const struct lds_range *range)
{
    wave_issue(w, in, counter, OPND_NONE, 0, 0, false);
    if (!range->end)
        return;
    const enum wait_counter c = wave_counter(in, counter);
    struct pending *p = &w->pending[c][w->npending[c] - 1];
    p->lds_first = range->first;
    p->lds_bytes = range->end - range->first;
    w->wg->lds_in_flight++;
}

const struct pending *lds_outstanding(const struct workgroup *wg, uint64_t byte, uint32_t *wave)
{
    static const enum wait_counter counters[] = {WAIT_VM, WAIT_ASYNC, WAIT_TENSOR};
    for (*wave = 0; *wave < wg->nwaves; ++*wave) {
        const struct wave *w = wg->waves[*wave];
        for (unsigned k = 0; k < 3; k++) {
            const enum wait_counter c = counters[k];
            for (unsigned i = 0; i < w->npending[c]; i++) {
                const struct pending *p = &w->pending[c][i];
                if (p->lds_first <= byte && byte < (uint64_t)p->lds_first + p->lds_bytes)
                    return p;
            }
        }
    }
    return NULL;
}

void lds_waited(struct wave *w, const struct pending *p)
{
    w->wg->lds_in_flight--;
    for (uint32_t i = 0; i < p->lds_bytes; i++)
        w->wg->lds_valid[p->lds_first + i] &= (uint8_t)~LDS_IN_FLIGHT;
    if (w->wg->nwaves == 1)
        lds_deliver(w->wg, w->clock);
}

void lds_arrived(struct wave *w, enum wait_counter counter)
{
    for (unsigned i = 0; i < w->npending[counter]; i++) {
        struct pending *p = &w->pending[counter][i];
        if (p->lds_bytes)
            lds_waited(w, p);
        p->lds_bytes = 0;
    }
}
