/* SPDX-License-Identifier: Apache-2.0 */
#include "check_race_later.h"

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

/* The race as the load sees it. */
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

/* False: there is no room. */
static bool keep(struct race_spare *s, const struct inst *load, const struct race_other *writer,
                 uint16_t readers)
{
    unsigned i = 0;
    while (i < s->count && (s->kept[i].load != load || s->kept[i].writer.at != writer->at))
        i++;
    if (i == SPARE_KEPT)
        return false;
    if (i == s->count) {
        s->kept[i].load = load;
        s->kept[i].writer = *writer;
        s->kept[i].readers = 0;
        s->count++;
    }
    s->kept[i].readers |= readers;
    return true;
}

bool race_spare_report(struct race_spare *s, struct wave *w, const struct inst *in,
                       const struct race_other *o, enum mem_direction direction)
{
    const bool loads = direction == MEM_READ;
    const struct race_other writer = loads ? *o : writer_of(w, in, o);
    const struct inst *load = loads ? in : code_inst(w->launch->code, o->at);
    if (!o->readers || o->readers & s->stored || !load || !keep(s, load, &writer, o->readers))
        return race_report(w, in, o, direction);
    return true;
}

bool race_spare_stores(struct race_spare *s, struct wave *w)
{
    const uint16_t bit = (uint16_t)(1u << w->id);
    unsigned n = 0;
    bool ok = true;
    if (s->stored & bit)
        return true;
    s->stored |= bit;
    for (unsigned i = 0; i < s->count; i++) {
        if (!(s->kept[i].readers & bit))
            s->kept[n++] = s->kept[i];
        else if (ok)
            ok = race_report(w, s->kept[i].load, &s->kept[i].writer, MEM_READ);
    }
    s->count = (uint16_t)n;
    return ok;
}
