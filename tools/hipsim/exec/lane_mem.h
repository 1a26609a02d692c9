/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of an access by all 64 lanes, compiled once per instruction set of the host. The memory is
 * LDS or a private segment, which only one host thread accesses. If several lanes store to the same
 * bytes, memory has all dwords of the highest of these lanes.
 */
#ifndef HIPSIM_LANE_MEM_H
#define HIPSIM_LANE_MEM_H

#include "access.h"

/* States of the bytes of an access: the bits that all of them have, and the bits that any of them
 * has. Eight bytes of state are compared at once. */
struct lane_states {
    uint64_t all, any;
};

struct lane_loops {
    /* Sets addr[l] to row[l] + offset, modulo 2^32, for each lane l. */
    void (*address)(const uint32_t *row, uint32_t offset, uint64_t *addr);
    /* Sets m->ptr of lane l to base + l * stride + its address, and m->low and m->bits. Returns the
     * highest address. */
    uint64_t (*resolve)(struct lane_mem *m, uint8_t *base, uint64_t stride);
    /* Returns the bits of state that all bytes of an access have, and those that any has. The
     * access is to `bytes` bytes (4, 8 or 16) at addr[l] for each lane l. state[a] is of the byte
     * at address a. */
    struct lane_states (*states)(const uint8_t *state, const uint64_t *addr, unsigned bytes);
    /* Sets state[] of the `bytes` bytes (4, 8 or 16) at addr[l], for each lane l, to `is`. */
    void (*mark)(uint8_t *state, const uint64_t *addr, unsigned bytes, uint8_t is);
    /* Move `dwords` dwords (1, 2 or 4) of each lane from or to ptr[lane], which need not be
     * aligned. row[i] has the i-th dword of all lanes. */
    void (*load)(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES]);
    void (*store)(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES]);
};

/** Returns the loops that are compiled for host_isa(). */
const struct lane_loops *lane_loops(void);

/** True if lane_loops() can execute the access: all lanes, to LDS, of 4, 8 or 16 bytes each. */
static inline bool lane_loops_apply(const struct lane_mem *m, unsigned bytes)
{
    return m->lanes == UINT64_MAX && m->space == MEM_LDS &&
           (bytes == 4 || bytes == 8 || bytes == 16);
}

#endif
