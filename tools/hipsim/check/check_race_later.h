/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races in global memory that are judged later.
 *
 * Stores that collide: when their data are in memory, by whether they have changed anything.
 *
 * Loads of which nothing comes. Triton lets all waves of a workgroup load what fewer lanes hold,
 * and keeps the spare ones from storing. Where the others then store to the same place, such a load
 * meets a store, and does no harm. So where a wave repeats a load of the wave that stores, the race
 * is kept until it stores something that may depend on the load (race_reaches()), anywhere, and
 * is forgotten if it never does.
 */
#ifndef HIPSIM_CHECK_RACE_LATER_H
#define HIPSIM_CHECK_RACE_LATER_H

#include "check_race.h"

#define RACE_GRANULE 16u
#define SPARE_KEPT 16u
#define STORES_KEPT 128u

struct collision {
    struct race_other other;
    uint16_t mask; /* bytes of the granule */
    uint8_t old[RACE_GRANULE];
};

/** Keeps what the granule at `address` holds before the store. */
void collision_keep(struct collision *k, const struct race_other *other, uint64_t address,
                    uint16_t mask);
bool collision_changed(const struct collision *k);

/* The state of a workgroup. */
struct race_spare {
    uint16_t lost; /* a bit per wave of whose stores some are not among these: */
    uint16_t count;
    struct {
        uint32_t at; /* offset in the code, + 1 */
        uint16_t waves;
    } stores[STORES_KEPT]; /* by a hash of the offset */
    struct {
        const struct inst *load;
        struct race_other writer;
        uint16_t readers;
    } kept[SPARE_KEPT];
};

void race_spare_begin(struct race_spare *s);

/** Reports a race as race_report() does; where `other->readers` have stored nothing that may depend
 *  on the load, only once they do, or never. */
bool race_spare_report(struct race_spare *s, struct wave *w, const struct inst *in,
                       const struct race_other *other, enum mem_direction direction);

/** The wave stores something. False: it has been stopped. */
bool race_spare_stores(struct race_spare *s, struct wave *w, const struct inst *in);

#endif
