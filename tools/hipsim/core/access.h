/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares a wave's memory access, lane by lane, and registers as rows of lanes. */
#ifndef HIPSIM_ACCESS_H
#define HIPSIM_ACCESS_H

#include "row.h"

enum mem_space { MEM_GLOBAL, MEM_LDS, MEM_SCRATCH };

enum mem_direction { MEM_READ = 1, MEM_WRITE = 2, MEM_MODIFY = 3 };

static inline enum mem_direction mem_direction_of(const struct inst *in)
{
    bool load = in->row->flags & ROW_LOAD, store = in->row->flags & ROW_STORE;

    return load && store ? MEM_MODIFY : store ? MEM_WRITE : MEM_READ;
}

/* Memory that the lanes of an access touch: each lane's bytes, and the range of all lanes. */
struct lane_mem {
    enum mem_space space;
    uint64_t lanes;            /* lanes that access memory */
    uint64_t dropped;          /* lanes whose access is out of range: load 0, do not store */
    uint64_t addr[WAVE_LANES]; /* device address, LDS byte or byte of the lane's private segment */
    uint8_t *ptr[WAVE_LANES];  /* host address of each lane's bytes; lanes in `lanes` only */
    uint64_t low, span;        /* bytes of addr that all lanes together touch; span 0: unknown */
    uint64_t bits;             /* LDS: bitwise OR of all lanes' addresses */
    uint8_t bytes;             /* per lane, as passed to mem_resolve() */
    bool tracked;              /* some bytes may be uninitialised */
    bool scanned;              /* the initialised bits of all bytes were tested at once */
};

/* Prepares an access of `lanes`. Addresses and pointers keep their values: zeroing them would take
 * as long as a whole instruction. */
static inline void lane_mem_begin(struct lane_mem *m, enum mem_space space, uint64_t lanes)
{
    m->space = space;
    m->lanes = lanes;
    m->dropped = 0;
    m->low = m->span = m->bits = 0;
    m->bytes = 0;
    m->tracked = m->scanned = false;
}

/* The registers of an operand in a wave: pointers to the first row, and to the masks of its lanes
 * in v_valid, v_copied and v_part of struct wave (a_* for AGPRs). */
struct reg_rows {
    uint32_t (*row)[WAVE_LANES];
    uint64_t *valid, *copied, *part;
};

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

static inline uint32_t mem_get32(const uint8_t *p)
{
    uint32_t value;

    if (((uintptr_t)p & 3) == 0)
        return __atomic_load_n((const uint32_t *)(const void *)p, __ATOMIC_RELAXED);
    __builtin_memcpy(&value, p, sizeof(value));
    return value;
}

static inline void mem_put32(uint8_t *p, uint32_t value)
{
    if (((uintptr_t)p & 3) == 0)
        __atomic_store_n((uint32_t *)(void *)p, value, __ATOMIC_RELAXED);
    else
        __builtin_memcpy(p, &value, sizeof(value));
}

static inline bool mem_checks(const struct wave *w, uint32_t bit)
{
    return (w->launch->checks & bit) != 0;
}

#endif
