/* SPDX-License-Identifier: Apache-2.0 */
/* Declares functions that set up device memory for the small programs of program.h. */
#ifndef TESTS_HIPSIM_DEVICE_H
#define TESTS_HIPSIM_DEVICE_H

#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/core/memory.h"

/* Allocates `bytes` of simulated device memory with the contents of `init`. NULL: the memory
 * counts as never written. */
static inline void *device_alloc(size_t bytes, const void *init)
{
    struct hipsim_mem_request request = {.size = bytes, .kind = HIPSIM_MEM_DEVICE};

    assert_true(hipsim_mem_init());
    void *p = hipsim_mem_alloc(&request);
    assert_non_null(p);
    if (init) {
        memcpy(p, init, bytes);
        hipsim_mem_mark((uint64_t)(uintptr_t)p, bytes);
    }
    return p;
}

static inline void program_s64_set(struct program *p, unsigned reg, uint64_t value)
{
    p->s[reg] = (uint32_t)value;
    p->s[reg + 1] = (uint32_t)(value >> 32);
}

/* Sets an address per lane in v[reg:reg + 1]: base + lane * stride. */
static inline void program_addresses(struct program *p, unsigned reg, const void *base,
                                     uint64_t stride)
{
    for (unsigned l = 0; l < 64; l++) {
        uint64_t a = (uint64_t)(uintptr_t)base + l * stride;
        p->v[reg][l] = (uint32_t)a;
        p->v[reg + 1][l] = (uint32_t)(a >> 32);
    }
}

/* Sets a raw or structured buffer resource in s[reg:reg + 3]. */
static inline void program_resource(struct program *p, unsigned reg, const void *base,
                                    uint32_t stride, uint32_t num_records)
{
    program_s64_set(p, reg, (uint64_t)(uintptr_t)base | (uint64_t)stride << 48);
    p->s[reg + 2] = num_records;
    p->s[reg + 3] = 0x00020000;
}

/* Sets each lane of v[reg] to lane * stride. */
static inline void program_lanes(struct program *p, unsigned reg, uint32_t stride)
{
    for (unsigned l = 0; l < 64; l++)
        p->v[reg][l] = l * stride;
}

#endif
