/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrival of loaded data after their latency: wait.c for registers, wait_lds.c for LDS. Instruction
 * handlers call wave_issue() and related functions of wave.h.
 */
#ifndef HIPSIM_WAIT_H
#define HIPSIM_WAIT_H

#include "access.h"

/* The old contents of a load's destination, or the new contents while the load is held. */
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

/* Number of `struct kept` per wave, one for each load in flight; NO_SLOT: none. */
#define KEPT_SLOTS 128u
#define NO_SLOT 255u

/**
 * Waits until the counters of `in` can count one more operation. The wait delivers data to
 * registers and LDS, so call it before any state for `in` is read, compared or saved.
 */
void wave_make_room(struct wave *w, const struct inst *in);

/** Returns the target's counter for operations of `in` that GFX9 counts in `counter`. */
static inline enum wait_counter wave_counter(const struct inst *in, enum wait_counter counter)
{
    return counter < WAIT_EXP ? (enum wait_counter)in->counter[counter] : counter;
}

/** Saves the destination registers of the load `in` before it executes. */
void wave_keep(struct wave *w, const struct inst *in);

/* A load to LDS that may not have arrived for every wave. Lane l has `size` bytes at first + l *
 * size. A workgroup has room for LATE_LOADS per wave. */
struct late_lds {
    uint64_t arrival; /* clock of the arrival, on the clock of all waves */
    uint64_t lanes;
    uint32_t first;
    uint8_t size;
    bool held; /* true: LDS has the old bytes and `bytes` the new ones; false: the reverse */
    uint8_t bytes[WAVE_LANES * 16], states[WAVE_LANES * 16];
};
#define LATE_LOADS 64u

/** Saves the LDS bytes that a load is about to overwrite: `size` bytes at first + l * size for each
 * lane l of `to`. Returns NULL if no lane loads. */
struct late_lds *lds_keep(struct wave *w, const struct lane_mem *to, uint32_t first, unsigned size);

/** Counts a load to LDS as in flight, after it has written its data. `e` is the result of
 * lds_keep(). */
void lds_issue(struct wave *w, const struct inst *in, struct late_lds *e);

/* Byte offsets of the LDS bytes that one operation writes; `end` 0: none. */
struct lds_range {
    uint32_t first, end;
};

/** Marks the bytes that the lanes of `to`, `bytes` each, have written as in flight, and widens
 * *range to include them. */
void lds_mark(struct wave *w, const struct lane_mem *to, unsigned bytes, struct lds_range *range);

/** Counts in `counter` an operation that has marked the bytes of `range` by lds_mark(). When the
 *  wave has waited for it, the bytes are no longer in flight. */
void lds_issue_range(struct wave *w, const struct inst *in, enum wait_counter counter,
                     const struct lds_range *range);

/** Records how many clocks the wave's clock and `arrival` differ, if no earlier difference was
 * less. The instruction at code offset `offset` uses the data without a wait. */
void wave_note_margin(struct wave *w, enum margin_of which, uint64_t arrival, uint64_t offset);

/** Prepares LDS for an access of the wave: LDS has the bytes that have arrived by the wave's
 * clock. */
void lds_touch(struct wave *w, const struct inst *in, const struct lane_mem *m);

/** Delivers all loads that arrive at or before `clock`. The clocks of all waves must have reached
 * it. */
void lds_deliver(struct workgroup *wg, uint64_t clock);

/** Returns a load in flight to this byte of LDS, and sets *wave to the index of the wave that
 * issued it. NULL if there is none. */
const struct pending *lds_outstanding(const struct workgroup *wg, uint64_t byte, uint32_t *wave);

/** Updates the states of LDS bytes after the wave has waited for its load `p`. */
void lds_waited(struct wave *w, const struct pending *p);

/** Records that the newest operation of `counter` is about to arrive at the LDS barrier at the
 * address of the lanes of `m`. The arrival follows the earlier operations of the counter. Waves
 * that read another phase afterwards need no wait of the counter. If the lanes have several
 * barriers, the flight of these operations' bytes ends at once. The arrival is counted in
 * workgroup.lds_arrivals until its bytes have landed or the wave has waited for it. */
void lds_arrives(struct wave *w, enum wait_counter counter, const struct lane_mem *m);

/** Ends the flight of LDS bytes of async and tensor operations, of any wave, up to an arrival that
 * `w` sees. It sees one if its read `m` covers the barrier's phase, and that phase now differs from
 * the one before the arrival. Else changes nothing. Call it at each LDS read, once m's addresses
 * are resolved and before its bytes are checked to have been waited for. */
void lds_see_arrivals(struct wave *w, const struct lane_mem *m);

#endif
