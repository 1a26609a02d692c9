/* SPDX-License-Identifier: Apache-2.0 */
#include "check_race_reads.h"

#include <string.h>

void reads_create(struct race_reads *r, uint32_t lds_bytes)
{
    while ((uint64_t)lds_bytes >> r->shift > 63)
        r->shift++;
}

void reads_begin(struct race_reads *r)
{
    memset(r->stores, 0, sizeof(r->stores));
    r->n = 0;
    r->written = r->read = 0;
}

void reads_enter(struct race_reads *r, uint32_t epoch)
{
    if (r->epoch == epoch)
        return;
    r->epoch = epoch;
    r->n = 0;
    r->written = r->read = 0;
}

uint64_t reads_parts(const struct race_reads *r, uint32_t first, uint32_t end)
{
    const unsigned low = first >> r->shift, high = (end - 1) >> r->shift;
    return UINT64_MAX << low & UINT64_MAX >> (63 - high);
}

bool reads_unwaited(const struct race_reads *r, const struct wave *w)
{
    for (uint32_t i = 0; i < w->wg->nwaves; i++) {
        const struct wave *other = w->wg->waves[i];
        const struct stores_of_wave *s = &r->stores[other->id];
        if (other == w || !other->npending[WAIT_LGKM] || !s->epoch)
            continue;
        const uint32_t number = s->epoch == r->epoch ? s->before : s->last;
        if (s->epoch == r->epoch && !s->before_exists)
            continue;
        if ((int32_t)(number - other->pending[WAIT_LGKM][0].number) >= 0)
            return true;
    }
    return false;
}

bool reads_keep(struct race_reads *r, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned dwords, uint32_t first, uint32_t end)
{
    if (r->n == READS_KEPT)
        return false;
    struct kept_read *k = &r->kept[r->n++];
    k->at = (uint32_t)in->offset;
    k->first = first;
    k->end = end;
    k->wave = (uint8_t)w->id;
    k->dwords = (uint8_t)dwords;
    k->lanes = m->lanes;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        k->address[l] = (uint32_t)m->addr[l];
    r->read |= reads_parts(r, first, end);
    return true;
}

void reads_store(struct race_reads *r, const struct wave *w, const struct inst *in, uint32_t first,
                 uint32_t end)
{
    struct stores_of_wave *s = &r->stores[w->id];
    r->written |= reads_parts(r, first, end);
    if (!(in->row->flags & ROW_LDS))
        return;
    if (s->epoch && s->epoch != r->epoch) {
        s->before = s->last;
        s->before_exists = true;
    }
    s->epoch = r->epoch;
    s->last = w->issued[WAIT_LGKM];
}

unsigned reads_before(const struct race_reads *r, uint32_t first, uint32_t end)
{
    unsigned n = r->n;
    if (!(reads_parts(r, first, end) & r->read))
        return 0;
    while (n && (r->kept[n - 1].end <= first || end <= r->kept[n - 1].first))
        n--;
    return n;
}

void reads_remove(struct race_reads *r, unsigned n)
{
    r->n -= n;
    memmove(r->kept, r->kept + n, r->n * sizeof(r->kept[0]));
}
