/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races in global memory that are decided after the access.
 *
 * Stores that conflict are decided when their data are in memory: they race only if they have
 * changed a byte.
 *
 * Redundant loads are decided by their use. Triton lets all waves of a workgroup load data that
 * fewer lanes need, and masks the stores of the redundant ones. If other waves store to the same
 * location, the redundant load conflicts with the store but is harmless. A race between a store and
 * a load that repeats one of the storing wave is therefore recorded only. It is reported when the
 * loading wave stores anything that may depend on the load (race_reaches()), and dropped if it
 * never does.
 */
#ifndef HIPSIM_CHECK_RACE_LATER_H
#define HIPSIM_CHECK_RACE_LATER_H

#include "check_race.h"

#define RACE_GRANULE 16u
#define SPARE_KEPT 16u
#define STORES_KEPT 128u

/* A store that conflicts with the access `other`, from its issue until its data are in memory. */
struct collision {
    struct race_other other;
    uint16_t mask; /* bytes of the granule that the store writes, a bit each */
    /* Bytes of the granule before the store. */
    uint8_t old[RACE_GRANULE];
};

/** Sets *k for a store that conflicts with `other`: saves the bytes of the granule at `address`.
 * `mask` has a bit per byte that the store writes. Call it before the store. */
void collision_keep(struct collision *k, const struct race_other *other, uint64_t address,
                    uint16_t mask);
/** True if the store has changed a saved byte of k->mask. */
bool collision_changed(const struct collision *k);

/* State of the deferred races of a workgroup. */
struct race_spare {
    uint32_t lost;  /* waves for which `stores` lacks stores, a bit each */
    uint32_t count; /* number of entries of `kept` */
    struct {
        uint32_t at; /* code offset of a store + 1; 0: the entry is empty */
        uint32_t waves;
    } stores[STORES_KEPT]; /* hash table by the code offset */
    struct {
        const struct inst *load;
        struct race_other writer;
        uint32_t readers;
    } kept[SPARE_KEPT];
};

void race_spare_begin(struct race_spare *s);

/** Reports a race as race_report() does. If no wave of other->readers has stored a value that
 * depends on the load, reports it when one does. True if the launch goes on. */
bool race_spare_report(struct race_spare *s, struct wave *w, const struct inst *in,
                       const struct race_other *other, enum mem_direction direction);

/** Records the store `in` of the wave, and reports the deferred races that it decides. False if a
 * report stops the wave. */
bool race_spare_stores(struct race_spare *s, struct wave *w, const struct inst *in);

#endif
