/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that are on their way: between wait.c, which delivers to registers, wait_lds.c, which
 * delivers to LDS, and those who make room for them. wave.h has what handlers call.
 */
#ifndef HIPSIM_WAIT_H
#define HIPSIM_WAIT_H

#include "access.h"

/* What the destination of a load held before it, or, of a held load, the data that it brings. */
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

/* Of a wave: as many as it can have loads outstanding. */
#define KEPT_SLOTS 128u
#define NO_SLOT 255u

/**
 * Waits until the counters of `in` can count one more operation. The data of those that return go
 * to registers and LDS, so this comes before anything of `in` is read, compared or kept.
 */
void wave_make_room(struct wave *w, const struct inst *in);

/** Keeps what the destination of the load `in` holds, which is about to run. */
void wave_keep(struct wave *w, const struct inst *in);

/* A load to LDS whose data some wave may not find there yet: lane l has `size` bytes at
 * first + l * size. A workgroup has room for LATE_LOADS per wave. */
struct late_lds {
    uint64_t arrival; /* on any wave's clock */
    uint64_t lanes;
    uint32_t first;
    uint8_t size;
    bool held; /* LDS has the old bytes, this the data; */
    uint8_t bytes[WAVE_LANES * 16], states[WAVE_LANES * 16]; /* else the other way round */
};
#define LATE_LOADS 64u

/** Keeps what the lanes of `to` have in LDS, which a load is about to overwrite. NULL: no lanes. */
struct late_lds *lds_keep(struct wave *w, const struct lane_mem *to, uint32_t first, unsigned size);

/** The load has been issued, and has written its data. */
void lds_issue(struct wave *w, const struct inst *in, struct late_lds *e);

/** The wave is about to access LDS: it finds what is there by its time. */
void lds_touch(struct wave *w, const struct lane_mem *m);

/** All waves' clocks have come to `clock`. */
void lds_deliver(struct workgroup *wg, uint64_t clock);

/** The wave has waited for a load to LDS. */
void lds_waited(struct wave *w, const struct pending *p);

#endif
