/* SPDX-License-Identifier: Apache-2.0 */
#include "check_race_later.h"

#include <string.h>

#include "decode.h"

void collision_keep(struct collision *k, const struct race_other *other, uint64_t address,
                    uint16_t mask)
{
    const uint8_t *p = (const uint8_t *)(uintptr_t)address;
    *k = (struct collision){.other = *other, .mask = mask};
    for (unsigned i = 0; i < RACE_GRANULE; i++)
        if (mask >> i & 1)
            k->old[i] = __atomic_load_n(p + i, __ATOMIC_RELAXED);
}

bool collision_changed(const struct collision *k)
{
    const uint64_t granule = k->other.address & ~(uint64_t)(RACE_GRANULE - 1);
    const uint8_t *p = (const uint8_t *)(uintptr_t)granule;
    for (unsigned i = 0; i < RACE_GRANULE; i++)
        if (k->mask >> i & 1 && __atomic_load_n(p + i, __ATOMIC_RELAXED) != k->old[i])
            return true;
    return false;
}

void race_spare_begin(struct race_spare *s)
{
    memset(s->stores, 0, sizeof(s->stores));
    s->lost = s->count = 0;
}

/* Returns the store `in` of wave `w` as the other access of a race, for the load that `o`
 * describes. */
static struct race_other writer_of(const struct wave *w, const struct inst *in,
                                   const struct race_other *o)
{
    struct race_other writer = *o;
    writer.group = w->wg->index;
    writer.at = (uint32_t)in->offset;
    writer.wave = (uint8_t)w->id;
    writer.wrote = true;
    return writer;
}

/* Returns the index of the race in `kept`, or of a free entry. `writer` is the code offset of the
 * store. */
static unsigned find(const struct race_spare *s, const struct inst *load, uint32_t writer)
{
    unsigned i = 0;
    while (i < s->count && (s->kept[i].load != load || s->kept[i].writer.at != writer))
        i++;
    return i;
}

/* True if one of `waves` (a bit each) has executed a store that may depend on the load. */
static bool has_stored(const struct race_spare *s, const struct launch *l, const struct inst *load,
                       uint32_t waves)
{
    if (s->lost & waves)
        return true;
    for (unsigned i = 0; i < STORES_KEPT; i++)
        if (s->stores[i].waves & waves &&
            race_reaches(l, (uint32_t)load->offset, s->stores[i].at - 1))
            return true;
    return false;
}

bool race_spare_report(struct race_spare *s, struct wave *w, const struct inst *in,
                       const struct race_other *o, enum mem_direction direction)
{
    const bool loads = direction == MEM_READ;
    const struct race_other writer = loads ? *o : writer_of(w, in, o);
    const struct inst *load = loads ? in : code_inst(w->launch->code, o->at);
    if (!o->readers || !load)
        return race_report(w, in, o, direction);
    const unsigned i = find(s, load, writer.at);
    const uint32_t new = i < s->count ? o->readers & ~s->kept[i].readers : o->readers;
    if (!new)
        return true;
    if (i == SPARE_KEPT || has_stored(s, w->launch, load, new))
        return race_report(w, in, o, direction);
    if (i == s->count) {
        s->kept[i].load = load;
        s->kept[i].writer = writer;
        s->kept[i].readers = 0;
        s->count++;
    }
    s->kept[i].readers |= new;
    return true;
}

/* Records that the wave with bit `wave` has executed the store `in`. True if that was already
 * recorded. */
static bool note(struct race_spare *s, uint32_t wave, const struct inst *in)
{
    const uint32_t at = (uint32_t)in->offset + 1;
    for (unsigned n = 0; n < STORES_KEPT; n++) {
        const unsigned i = (at / 4 * 0x9e3779b1u / (1u << 25) + n) % STORES_KEPT;
        if (s->stores[i].at && s->stores[i].at != at)
            continue;
        const bool before = s->stores[i].waves & wave;
        s->stores[i].at = at;
        s->stores[i].waves |= wave;
        return before;
    }
    s->lost |= wave;
    return false;
}

bool race_spare_stores(struct race_spare *s, struct wave *w, const struct inst *in)
{
    const uint32_t bit = UINT32_C(1) << w->id;
    unsigned n = 0;
    bool ok = true;
    if (note(s, bit, in))
        return true;
    for (unsigned i = 0; i < s->count; i++) {
        const struct inst *load = s->kept[i].load;
        if (!ok || !(s->kept[i].readers & bit) ||
            !race_reaches(w->launch, (uint32_t)load->offset, (uint32_t)in->offset))
            s->kept[n++] = s->kept[i];
        else
            ok = race_report(w, load, &s->kept[i].writer, MEM_READ);
    }
    s->count = n;
    return ok;
}
