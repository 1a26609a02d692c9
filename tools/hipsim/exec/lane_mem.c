/* SPDX-License-Identifier: Apache-2.0 */
/* Implements lane_mem.h for one instruction set of the host, whose name ISA is. */
#include "lane_mem.h"

#include <string.h>

#include "lanes.h"

typedef uint32_t quad __attribute__((vector_size(16))); /* four lanes, or a lane's four dwords */
typedef uint64_t pair __attribute__((vector_size(16)));

/* Sets addr[l] to lane l's byte address: its value in the register plus the offset. */
static void address(const uint32_t *row, uint32_t offset, uint64_t *addr)
{
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = row[l] + offset;
}

/* Sets the host pointer of each lane: base + l * stride + the lane's address. */
static uint64_t resolve(struct lane_mem *m, uint8_t *base, uint64_t stride)
{
    uint64_t low = UINT64_MAX, top = 0, bits = 0;

    for (unsigned l = 0; l < WAVE_LANES; l++) {
        const uint64_t at = m->addr[l];
        m->ptr[l] = base + l * stride + at;
        low = at < low ? at : low;
        top = at > top ? at : top;
        bits |= at;
    }
    m->low = low;
    m->bits = bits;
    return top;
}

/* Returns the bits of state that all bytes, and that any byte, of the lanes' accesses of 4 bytes
 * have. */
static struct lane_states states_of_4(const uint8_t *state, const uint64_t *addr)
{
    uint32_t all = UINT32_MAX, any = 0, s;

    for (unsigned l = 0; l < WAVE_LANES; l++) {
        memcpy(&s, state + addr[l], sizeof(s));
        all &= s;
        any |= s;
    }
    return (struct lane_states){(uint64_t)all << 32 | all, any};
}

/* Returns the bits of state that all bytes, and that any byte, of the lanes' accesses of 8 bytes
 * have. */
static struct lane_states states_of_8(const uint8_t *state, const uint64_t *addr)
{
    struct lane_states of = {.all = UINT64_MAX};
    uint64_t s;

    for (unsigned l = 0; l < WAVE_LANES; l++) {
        memcpy(&s, state + addr[l], sizeof(s));
        of.all &= s;
        of.any |= s;
    }
    return of;
}

/* Returns the bits of state that all bytes, and that any byte, of the lanes' accesses of 16 bytes
 * have. */
static struct lane_states states_of_16(const uint8_t *state, const uint64_t *addr)
{
    pair all[2] = {~(pair){0}, ~(pair){0}}, any[2] = {{0}}, s[2];

    for (unsigned l = 0; l < WAVE_LANES; l += 2) { /* two independent chains */
        for (unsigned i = 0; i < 2; i++) {
            memcpy(&s[i], state + addr[l + i], sizeof(s[i]));
            all[i] &= s[i];
            any[i] |= s[i];
        }
    }
    all[0] &= all[1];
    any[0] |= any[1];
    return (struct lane_states){all[0][0] & all[0][1], any[0][0] | any[0][1]};
}

/* Combines the shadow states of `bytes` bytes at each lane's address. */
static struct lane_states states(const uint8_t *state, const uint64_t *addr, unsigned bytes)
{
    return bytes == 4   ? states_of_4(state, addr)
           : bytes == 8 ? states_of_8(state, addr)
                        : states_of_16(state, addr);
}

/* Sets the shadow states of `bytes` bytes at each lane's address to `is`. */
static void mark(uint8_t *state, const uint64_t *addr, unsigned bytes, uint8_t is)
{
    if (bytes == 4)
        for (unsigned l = 0; l < WAVE_LANES; l++)
            memset(state + addr[l], is, 4);
    else if (bytes == 8)
        for (unsigned l = 0; l < WAVE_LANES; l++)
            memset(state + addr[l], is, 8);
    else
        for (unsigned l = 0; l < WAVE_LANES; l++)
            memset(state + addr[l], is, 16);
}

/* Loads 16 bytes from any address. */
static inline quad get(const void *p)
{
    quad v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Stores 16 bytes at any address. */
static inline void put(void *p, quad v) { memcpy(p, &v, sizeof(v)); }

/* Transposes a matrix of four rows of four dwords, in place. */
static inline void transpose(quad m[4])
{
    const quad a = __builtin_shufflevector(m[0], m[1], 0, 4, 1, 5);
    const quad b = __builtin_shufflevector(m[2], m[3], 0, 4, 1, 5);
    const quad c = __builtin_shufflevector(m[0], m[1], 2, 6, 3, 7);
    const quad d = __builtin_shufflevector(m[2], m[3], 2, 6, 3, 7);

    m[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    m[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    m[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    m[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* Returns a vector of two 8-byte numbers at any addresses. */
static inline pair get_pair(const uint8_t *first, const uint8_t *second)
{
    uint64_t a, b;

    memcpy(&a, first, sizeof(a));
    memcpy(&b, second, sizeof(b));
    return (pair){a, b};
}

/* Loads 8 bytes of each lane: row[0] gets the first dwords, row[1] the second ones. */
static void load_8(uint8_t *const *ptr, uint32_t (*row)[WAVE_LANES])
{
    for (unsigned l = 0; l < WAVE_LANES; l += 4) {
        const quad a = (quad)get_pair(ptr[l], ptr[l + 1]);
        const quad b = (quad)get_pair(ptr[l + 2], ptr[l + 3]);
        put(&row[0][l], __builtin_shufflevector(a, b, 0, 2, 4, 6));
        put(&row[1][l], __builtin_shufflevector(a, b, 1, 3, 5, 7));
    }
}

/* Loads 16 bytes of each lane: row[i] gets the i-th dwords. */
static void load_16(uint8_t *const *ptr, uint32_t (*row)[WAVE_LANES])
{
    for (unsigned l = 0; l < WAVE_LANES; l += 4) {
        quad m[4] = {get(ptr[l]), get(ptr[l + 1]), get(ptr[l + 2]), get(ptr[l + 3])};
        transpose(m);
        for (unsigned i = 0; i < 4; i++)
            put(&row[i][l], m[i]);
    }
}

/* Loads `dwords` dwords of each lane: row[i] gets the i-th dwords. */
static void load(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES])
{
    if (dwords == 4) {
        load_16(ptr, row);
    } else if (dwords == 2) {
        load_8(ptr, row);
    } else {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            memcpy(&row[0][l], ptr[l], 4);
    }
}

/* Stores 8 bytes of each lane: row[0] has the first dwords, row[1] the second ones. */
static void store_8(uint8_t *const *ptr, uint32_t (*row)[WAVE_LANES])
{
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        const uint64_t v = row[0][l] | (uint64_t)row[1][l] << 32;
        memcpy(ptr[l], &v, sizeof(v));
    }
}

/* Stores 16 bytes of each lane: row[i] has the i-th dwords. */
static void store_16(uint8_t *const *ptr, uint32_t (*row)[WAVE_LANES])
{
    for (unsigned l = 0; l < WAVE_LANES; l += 4) {
        quad m[4] = {get(&row[0][l]), get(&row[1][l]), get(&row[2][l]), get(&row[3][l])};
        transpose(m);
        for (unsigned i = 0; i < 4; i++)
            put(ptr[l + i], m[i]);
    }
}

/* Stores `dwords` dwords of each lane: row[i] has the i-th dwords. */
static void store(uint8_t *const *ptr, unsigned dwords, uint32_t (*row)[WAVE_LANES])
{
    if (dwords == 4) {
        store_16(ptr, row);
    } else if (dwords == 2) {
        store_8(ptr, row);
    } else {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            memcpy(ptr[l], &row[0][l], 4);
    }
}

const struct lane_loops LOCAL(lane_loops) = {address, resolve, states, mark, load, store};
