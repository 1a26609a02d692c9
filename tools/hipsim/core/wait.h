/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late data of loads: wait.c delivers to registers, wait_lds.c to LDS. Handlers of instructions use
 * wave_issue() and its kin in wave.h.
 */
#ifndef HIPSIM_WAIT_H
#define HIPSIM_WAIT_H

#include "access.h"

/* The old contents of a load's destination; of a held load, the new contents. */
struct kept {
    union {
        struct {
            uint32_t row[4][WAVE_LANES];
            uint64_t valid[4], copied[4];
        };
        struct {
            uint32_t s[16], s_valid[16];
            uint64_t s_copied[16];
        };
    };
};

/* Slots of a wave: one per load that it can have outstanding. */
#define KEPT_SLOTS 128u
#define NO_SLOT 255u

/**
 * Waits until the counters of `in` can count one more operation. The wait delivers data to
 * registers and LDS, so call it before any state for `in` is read, compared or saved.
 */
void wave_make_room(struct wave *w, const struct inst *in);

/** Saves the destination registers of the load `in`, which is about to run. */
void wave_keep(struct wave *w, const struct inst *in);

/* A load to LDS whose data may not have arrived for every wave: lane l has `size` bytes at
 * first + l * size. A workgroup has room for LATE_LOADS per wave. */
struct late_lds {
    uint64_t arrival; /* on any wave's clock */
    uint64_t lanes;
    uint32_t first;
    uint8_t size;
    bool held; /* LDS has the old bytes and this entry the new ones; else the reverse */
    uint8_t bytes[WAVE_LANES * 16], states[WAVE_LANES * 16];
};
#define LATE_LOADS 64u

/** Saves the LDS bytes that a load with the lanes of `to` is about to overwrite. NULL if it has no
 *  lanes. */
struct late_lds *lds_keep(struct wave *w, const struct lane_mem *to, uint32_t first, unsigned size);

/** Issues the load, which has written its data. `e` is the result of lds_keep(). */
void lds_issue(struct wave *w, const struct inst *in, struct late_lds *e);

/** Notes that the instruction at `offset` uses what arrives at `arrival`, with no wait between. */
void wave_note_margin(struct wave *w, enum margin_of which, uint64_t arrival, uint64_t offset);

/** Prepares LDS for an access of the wave: the bytes become those of the wave's time. */
void lds_touch(struct wave *w, const struct inst *in, const struct lane_mem *m);

/** Delivers all loads that arrive up to `clock`, which the clocks of all waves have reached. */
void lds_deliver(struct workgroup *wg, uint64_t clock);

/** The load to this byte of LDS that has not been waited for, and its wave; NULL: none is. */
const struct pending *lds_outstanding(const struct workgroup *wg, uint64_t byte, uint32_t *wave);

/** Called when the wave has waited for the load `p` to LDS. */
void lds_waited(struct wave *w, const struct pending *p);

#endif
