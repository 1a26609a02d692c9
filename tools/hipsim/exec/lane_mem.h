/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of an access by all 64 lanes, compiled once per instruction set of the host. The memory
 * is LDS or a private segment, which only one host thread accesses. If lanes store to the same
 * bytes, all dwords of the highest lane are in memory afterwards.
 */
#ifndef HIPSIM_LANE_MEM_H
#define HIPSIM_LANE_MEM_H

#include "access.h"

/* States of an access's bytes: bits that all bytes have, and bits that any byte has. */
struct lane_states {
    uint64_t all, any;
};

struct lane_loops {
    /* Sets addr[lane] to row[lane] + offset, modulo 2^32. */
    void (*address)(const uint32_t *row, uint32_t offset, uint64_t *addr);
    /* Sets m->ptr to base + lane * stride + address, m->low and m->bits. Returns the highest
     * address. */
    uint64_t (*resolve)(struct lane_mem *m, uint8_t *base, uint64_t stride);
    /* Returns the states of `bytes` bytes (4, 8 or 16) at each address. */
    struct lane_states (*states)(const uint8_t *state, const uint64_t *addr, unsigned bytes);
    /* Sets the states of `bytes` bytes (4, 8 or 16) at each address to `is`. */
    void (*mark)(uint8_t *state, const uint64_t *addr, unsigned bytes, uint8_t is);
    /* Move `dwords` dwords (1, 2 or 4) of each lane between ptr[lane], of any alignment, and
     * register rows. */
    void (*load)(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES]);
    void (*store)(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES]);
};

/** Returns the loops for host_isa(). */
const struct lane_loops *lane_loops(void);

/** True if lane_loops() can execute the access, of `bytes` bytes per lane: all lanes, to LDS. */
static inline bool lane_loops_apply(const struct lane_mem *m, unsigned bytes)
{
    return m->lanes == UINT64_MAX && m->space == MEM_LDS &&
           (bytes == 4 || bytes == 8 || bytes == 16);
}

#endif
