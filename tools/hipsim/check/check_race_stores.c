/* SPDX-License-Identifier: Apache-2.0 */
#include "check_race_stores.h"

#include "wait.h"

/* True if the wave has not waited for its store with this number. Pending entries are in the order
 * of their numbers, mostly without a gap. */
static bool in_flight(const struct wave *w, uint32_t number)
{
    const unsigned n = w->npending[WAIT_STORE];
    if (!n)
        return false;
    const uint32_t first = w->pending[WAIT_STORE][0].number;
    const uint32_t last = w->pending[WAIT_STORE][n - 1].number;
    if (number < first || number > last)
        return false;
    return last - first + 1 == n || wave_outstanding(w, WAIT_STORE, number);
}

/* Removes the stores that their waves have waited for. A wave that ends does not wait for its
 * stores. */
static void remove_waited(struct race_stores *s, const struct workgroup *wg)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++) {
        if (!in_flight(wg->waves[s->out[i].wave], s->out[i].number))
            continue;
        if (n != i)
            s->out[n] = s->out[i];
        n++;
    }
    s->n = n;
}

bool stores_add(struct race_stores *s, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned bytes)
{
    if (!m->lanes)
        return true;
    if (s->n && s->n % STORES_SWEPT == 0)
        remove_waited(s, w->wg);
    if (s->n == STORES_OUT)
        return false;
    struct late_store *e = &s->out[s->n++];
    *e = (struct late_store){
        .low = UINT64_MAX,
        .lanes = m->lanes,
        .number = w->issued[WAIT_STORE],
        .epoch = (uint32_t)w->wg->barriers,
        .at = (uint32_t)in->offset,
        .wave = (uint8_t)w->id,
        .bytes = (uint8_t)bytes,
    };
    unsigned l;
    FOR_LANES(l, m->lanes)
    {
        e->address[l] = m->addr[l];
        e->low = m->addr[l] < e->low ? m->addr[l] : e->low;
        e->end = m->addr[l] + bytes > e->end ? m->addr[l] + bytes : e->end;
    }
    return true;
}

/* True if any of the bytes [address, address + bytes) was stored by `e`. */
static bool stores(const struct late_store *e, uint64_t address, unsigned bytes)
{
    unsigned l;
    if (address >= e->end || address + bytes <= e->low)
        return false;
    FOR_LANES(l, e->lanes)
    if (address < e->address[l] + e->bytes && e->address[l] < address + bytes)
        return true;
    return false;
}

bool stores_meet(struct race_stores *s, const struct wave *w, const struct lane_mem *m,
                 unsigned bytes, struct race_other *other)
{
    if (!s->n)
        return false;
    remove_waited(s, w->wg);
    for (unsigned i = 0; i < s->n; i++) {
        const struct late_store *e = &s->out[i];
        unsigned l;
        if (e->wave == w->id || e->epoch == (uint32_t)w->wg->barriers)
            continue;
        FOR_LANES(l, m->lanes)
        {
            if (!stores(e, m->addr[l], bytes))
                continue;
            *other = (struct race_other){
                .address = m->addr[l],
                .group = w->wg->index,
                .lane = (uint8_t)l,
                .wave = e->wave,
                .wrote = true,
                .at = e->at,
                .unwaited = true,
            };
            return true;
        }
    }
    return false;
}

uint32_t stores_of(struct race_stores *s, const struct workgroup *wg, uint32_t epoch)
{
    uint32_t waves = 0;
    remove_waited(s, wg);
    for (unsigned i = 0; i < s->n; i++)
        waves |= s->out[i].epoch == epoch ? UINT32_C(1) << s->out[i].wave : 0;
    return waves;
}
