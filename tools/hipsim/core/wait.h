/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery of loaded data after their latency: wait.c for registers, wait_lds.c for LDS.
 * Instruction handlers use wave_issue() and related functions of wave.h.
 */
#ifndef HIPSIM_WAIT_H
#define HIPSIM_WAIT_H

#include "access.h"

/* The old contents of a load's destination. While the load is `held`: its new contents. */
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

/* Slots per wave, one per outstanding load. */
#define KEPT_SLOTS 128u
#define NO_SLOT 255u

/**
 * Waits until the counters of `in` can count one more operation. The wait delivers data to
 * registers and LDS, so call it before any state for `in` is read, compared or saved.
 */
void wave_make_room(struct wave *w, const struct inst *in);

/** Returns the counter of the target for what gfx9 counts in `counter`. */
static inline enum wait_counter wave_counter(const struct inst *in, enum wait_counter counter)
{
    return counter < WAIT_EXP ? (enum wait_counter)in->counter[counter] : counter;
}

/** Saves the destination registers of the load `in` before it runs. */
void wave_keep(struct wave *w, const struct inst *in);

/* A load to LDS that may not have arrived for every wave. Lane l has `size` bytes at first + l *
 * size. A workgroup has room for LATE_LOADS per wave. */
struct late_lds {
    uint64_t arrival; /* clock of arrival, the same for all waves */
    uint64_t lanes;
    uint32_t first;
    uint8_t size;
    bool held; /* true: LDS has the old bytes and this entry the new ones; false: the reverse */
    uint8_t bytes[WAVE_LANES * 16], states[WAVE_LANES * 16];
};
#define LATE_LOADS 64u

/** Saves the LDS bytes that a load with the lanes of `to` is about to overwrite: `size` bytes of
 *  lane l at first + l * size. Returns NULL if no lane loads. */
struct late_lds *lds_keep(struct wave *w, const struct lane_mem *to, uint32_t first, unsigned size);

/** Issues a load to LDS that has already written its data. `e` is the result of lds_keep(). */
void lds_issue(struct wave *w, const struct inst *in, struct late_lds *e);

/* Bytes of LDS that one operation writes; `end` 0: none. */
struct lds_range {
    uint32_t first, end;
};

/** Marks the bytes that the lanes of `to`, `bytes` each, have written as in flight, and extends the
 *  range to them. */
void lds_mark(struct wave *w, const struct lane_mem *to, unsigned bytes, struct lds_range *range);

/** Counts in `counter` an operation that has marked the bytes of `range` by lds_mark(). When the
 *  wave has waited for it, the bytes are no longer in flight. */
void lds_issue_range(struct wave *w, const struct inst *in, enum wait_counter counter,
                     const struct lds_range *range);

/** Records the distance in clocks between the wave's clock and `arrival`, if it is the least so
 *  far. The instruction at code offset `offset` uses these data without a wait. */
void wave_note_margin(struct wave *w, enum margin_of which, uint64_t arrival, uint64_t offset);

/** Prepares LDS for an access of the wave: its bytes become the ones at the wave's clock. */
void lds_touch(struct wave *w, const struct inst *in, const struct lane_mem *m);

/** Delivers all loads that arrive by `clock`. The clocks of all waves must have reached it. */
void lds_deliver(struct workgroup *wg, uint64_t clock);

/** Returns a load to this byte of LDS that its wave has not waited for, and sets *wave to that
 *  wave's index. NULL if there is none. */
const struct pending *lds_outstanding(const struct workgroup *wg, uint64_t byte, uint32_t *wave);

/** Updates LDS after the wave has waited for the load `p`. */
void lds_waited(struct wave *w, const struct pending *p);

#endif
