/* SPDX-License-Identifier: Apache-2.0 */
/* A wave's memory access, lane by lane, and the registers of an operand as rows of lanes. */
#ifndef HIPSIM_ACCESS_H
#define HIPSIM_ACCESS_H

#include "row.h"

/* The memory of an access: global memory, LDS, or the lanes' private segments. */
enum mem_space { MEM_GLOBAL, MEM_LDS, MEM_SCRATCH };

enum mem_direction { MEM_READ = 1, MEM_WRITE = 2, MEM_MODIFY = 3 };

/* Returns whether the instruction reads memory, writes it or does both. */
static inline enum mem_direction mem_direction_of(const struct inst *in)
{
    bool load = in->row->flags & ROW_LOAD, store = in->row->flags & ROW_STORE;

    return load && store ? MEM_MODIFY : store ? MEM_WRITE : MEM_READ;
}

/* The memory that an instruction accesses: each lane's bytes, and the range of all lanes. */
struct lane_mem {
    enum mem_space space;
    uint64_t lanes;   /* mask of the lanes that access memory */
    uint64_t dropped; /* mask of the lanes out of range: they load 0 and do not store */
    /* device address, or byte offset in LDS or in the lane's private segment */
    uint64_t addr[WAVE_LANES];
    uint8_t *ptr[WAVE_LANES]; /* host address of each lane's bytes; set for the lanes in `lanes` */
    /* first address of all lanes together, and bytes from there to the last; span 0: unknown */
    uint64_t low, span;
    uint64_t bits; /* bitwise OR of all lanes' addresses; LDS only */
    uint8_t bytes; /* bytes of each lane's access, as passed to mem_resolve() */
    bool tracked;  /* true: some bytes may be uninitialised */
    bool scanned;  /* true: mem_written() has tested all bytes at once */
};

/* Prepares an access of `lanes`, a mask. Addresses and pointers keep their old values: zeroing them
 * would last as long as a whole instruction. */
static inline void lane_mem_begin(struct lane_mem *m, enum mem_space space, uint64_t lanes)
{
    m->space = space;
    m->lanes = lanes;
    m->dropped = 0;
    m->low = m->span = m->bits = 0;
    m->bytes = 0;
    m->tracked = m->scanned = false;
}

/* The registers of an operand: pointers to its first row, and to its masks of lanes in v_valid,
 * v_copied and v_part of struct wave (a_* for AGPRs). */
struct reg_rows {
    uint32_t (*row)[WAVE_LANES];
    uint64_t *valid, *copied, *part;
};

/* Returns the values and the lane masks of a vector operand's registers. */
static inline struct reg_rows reg_rows(struct wave *w, const struct opnd *o)
{
    if (o->kind == OPND_AGPR)
        return (struct reg_rows){w->a + o->reg, w->a_valid + o->reg, w->a_copied + o->reg,
                                 w->a_part + o->reg};
    return (struct reg_rows){w->v + o->reg, w->v_valid + o->reg, w->v_copied + o->reg,
                             w->v_part + o->reg};
}

#define FOR_LANES(l, mask)                                                                 \
    for (uint64_t left_ = (mask); left_ && ((l) = (unsigned)__builtin_ctzll(left_), true); \
         left_ &= left_ - 1)

/* Returns the dword at p, which may have any alignment. An aligned read is atomic. */
static inline uint32_t mem_get32(const uint8_t *p)
{
    uint32_t value;

    if (((uintptr_t)p & 3) == 0)
        return __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_RELAXED);
    __builtin_memcpy(&value, p, sizeof(value));
    return value;
}

/* Stores a dword at p, which may have any alignment. An aligned store is atomic. */
static inline void mem_put32(uint8_t *p, uint32_t value)
{
    if (((uintptr_t)p & 3) == 0)
        __atomic_store_n((uint32_t *)(void *)p, value, __ATOMIC_RELAXED);
    else
        __builtin_memcpy(p, &value, sizeof(value));
}

/* True if the launch has the check `bit` (enum check_bits). */
static inline bool mem_checks(const struct wave *w, uint32_t bit)
{
    return (w->launch->checks & bit) != 0;
}

#endif
