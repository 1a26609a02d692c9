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

/* The pieces of contiguous bytes of a load: one for each lane, or a single one if all lanes
 * load. */
struct pieces {
    uint64_t lanes; /* the first lane of each piece, a bit each */
    unsigned size;  /* bytes of a piece */
};

/* Returns the pieces of a load by `lanes` with `size` bytes for each. */
static struct pieces pieces_of(uint64_t lanes, unsigned size)
{
    return lanes == UINT64_MAX ? (struct pieces){1, WAVE_LANES * size}
                               : (struct pieces){lanes, size};
}

/* Clears the bits `without` and sets the bits `with` in `n` states, eight at once. */
static void set_states(uint8_t *state, size_t n, uint8_t without, uint8_t with)
{
    const uint64_t every = UINT64_MAX / UINT8_MAX, kept = ~(every * without), set = every * with;
    uint64_t word;
    for (; n >= sizeof(word); n -= sizeof(word), state += sizeof(word)) {
        memcpy(&word, state, sizeof(word));
        word = (word & kept) | set;
        memcpy(state, &word, sizeof(word));
    }
    for (; n; n--, state++)
        *state = (uint8_t)((*state & ~without) | with);
}

/* Clears the bits `without` and sets the bits `with` in the states of the load's bytes. */
static void mark(struct workgroup *wg, const struct late_lds *e, uint8_t without, uint8_t with)
{
    const struct pieces p = pieces_of(e->lanes, e->size);
    unsigned l;
    FOR_LANES(l, p.lanes)
    set_states(wg->lds_valid + e->first + l * p.size, p.size, without, with);
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
    const struct pieces p = pieces_of(to->lanes, size);
    FOR_LANES(l, p.lanes)
    {
        memcpy(e->bytes + l * p.size, wg->lds + first + l * p.size, p.size);
        memcpy(e->states + l * p.size, wg->lds_valid + first + l * p.size, p.size);
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
        set_states(w->wg->lds_valid + first, bytes, 0, LDS_IN_FLIGHT);
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
    set_states(w->wg->lds_valid + p->lds_first, p->lds_bytes, LDS_IN_FLIGHT, 0);
    if (w->wg->nwaves == 1)
        lds_deliver(w->wg, w->clock);
}

/* Returns the phase of the LDS barrier at byte `barrier`, 0 to 7 (CDNA5 ISA, 11.2.2). */
static uint32_t phase_of(const struct workgroup *wg, uint32_t barrier)
{
    return mem_get32(wg->lds + barrier) >> 29;
}

/* True if a lane of `m` has the byte of LDS with a barrier's phase. `barrier` is the barrier's byte
 * address. */
static bool has_phase(const struct lane_mem *m, uint32_t barrier)
{
    const uint64_t byte = (uint64_t)barrier + 3;
    unsigned l;
    if (byte < m->low || byte - m->low >= m->span)
        return false;
    FOR_LANES(l, m->lanes)
    if (m->addr[l] <= byte && byte - m->addr[l] < m->bytes)
        return true;
    return false;
}

/* Ends the flight of the bytes of the first `n` operations in a counter's queue. */
static void land(struct wave *w, struct pending *queue, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (queue[i].lds_bytes)
            lds_waited(w, &queue[i]);
        queue[i].lds_bytes = 0;
        w->wg->lds_arrivals -= queue[i].arrives;
        queue[i].arrives = false;
    }
}

void lds_arrives(struct wave *w, enum wait_counter counter, const struct lane_mem *m)
{
    struct pending *p = &w->pending[counter][w->npending[counter] - 1];
    unsigned l;
    if (!m->lanes)
        return;
    p->arrives = true;
    w->wg->lds_arrivals++;
    p->barrier = (uint32_t)m->addr[__builtin_ctzll(m->lanes)];
    p->phase = (uint8_t)phase_of(w->wg, p->barrier);
    FOR_LANES(l, m->lanes)
    if (m->addr[l] != p->barrier)
        land(w, w->pending[counter], w->npending[counter]);
}

void lds_see_arrivals(struct wave *w, const struct lane_mem *m)
{
    static const enum wait_counter counters[] = {WAIT_ASYNC, WAIT_TENSOR};
    for (uint32_t i = 0; i < 2 * w->wg->nwaves; i++) {
        struct wave *from = w->wg->waves[i / 2];
        const enum wait_counter c = counters[i % 2];
        for (unsigned n = from->npending[c]; n > 0; n--) {
            const struct pending *p = &from->pending[c][n - 1];
            if (p->arrives && phase_of(w->wg, p->barrier) != p->phase && has_phase(m, p->barrier)) {
                land(from, from->pending[c], n);
                break;
            }
        }
    }
}
