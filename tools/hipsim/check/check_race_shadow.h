/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares a launch's record of global memory: pages of cells with a hash table, blocks
 * of four cells for split ones, and intervals. check_race_global.c defines cells and intervals. All
 * of it is reserved address space that uses memory only when touched. The next launch reuses the
 * shadow of the last one.
 */
#ifndef HIPSIM_CHECK_RACE_SHADOW_H
#define HIPSIM_CHECK_RACE_SHADOW_H

#include <stdatomic.h>

#include "check_race_later.h"

#define PAGE RACE_PAGE
#define PAGES_MAX 65536u  /* 256 MiB of memory, 640 MiB of cells */
#define PAGES_KEPT 16384u /* limit for pages of earlier launches: leaves a launch 192 MiB or more */
#define PAGE_SLOT_BITS 17
#define PAGE_SLOTS (1u << PAGE_SLOT_BITS) /* size of the hash table */
#define NO_PAGE UINT32_MAX
#define SPLITS_MAX 524288u /* blocks of four cells: 64 MiB */
#define INTERVALS_MAX 4194304u
#define STRIPES 64u     /* number of locks */
#define LOCATIONS 4096u /* stamps of releases, by hash: a collision only adds order */

#define ATOMIC (UINT32_C(1) << 31) /* flag in the number of an interval: atomic access */
#define LOCAL (UINT32_C(1) << 30)  /* flag: atomic within the workgroup */
#define NUMBER (LOCAL - 1)
#define LOST UINT32_MAX /* value of cell.split: no cells were left */

struct interval {
    uint32_t group, epoch;    /* constant once a cell refers to it */
    uint16_t touched;         /* bit per wave: has accessed memory */
    _Atomic uint16_t covered; /* bit per wave: released at `released` */
    _Atomic uint64_t released;
    _Atomic uint64_t rest; /* stamp at which the other waves were released; 0: not yet */
    uint32_t next;         /* next in the list of unreleased intervals */
    /* For the fence check. */
    uint32_t next_dirty;       /* next in the list of intervals that were not written back */
    uint32_t invalidations;    /* of its workgroup before it */
    _Atomic bool written_back; /* buffer_wbl2 with sc1 came after it */
};

struct cell {
    uint32_t writer, reader;   /* intervals, with ATOMIC or LOCAL for such accesses; 0: none */
    uint32_t other;            /* last reader from a workgroup other than `reader`'s */
    uint16_t writers, readers; /* bit per wave */
    uint16_t written, read;    /* byte masks */
    uint32_t write_at : 31;    /* code offset */
    bool quiet : 1;            /* the only store did not change any byte */
    uint32_t read_at : 31;
    bool read_before : 1;           /* `reader` loaded before the writer stored */
    uint32_t write_time, read_time; /* clocks.now; the earliest of several waves */
    uint32_t split;                 /* index of four cells; 0: not split */
};

/* Lock-free, except for the cells, which are guarded by the lock of their stripe. */
struct race_shadow {
    uint32_t launch;
    _Atomic uint32_t pages_used, splits_used, intervals_used;
    _Atomic bool full;     /* accesses are tracked no more */
    _Atomic bool left_out; /* an outstanding store was not recorded */
    _Atomic uint64_t clock;
    _Atomic uint64_t location[LOCATIONS];
    struct {
        _Alignas(64) _Atomic bool taken;
    } stripe[STRIPES];
    _Atomic uint64_t key[PAGE_SLOTS];   /* page number + 1 */
    _Atomic uint32_t index[PAGE_SLOTS]; /* into `pages`, + 1; 0: about to be set */
    uint32_t tag[PAGES_MAX];            /* launch that the cells belong to */
    struct cell (*pages)[PAGE / RACE_GRANULE];
    struct cell (*splits)[4];
    struct interval *intervals;
};

/** Returns the index of page `number` (address / PAGE), creating it if needed. NO_PAGE, or an index
 *  from PAGES_MAX on, means that it is not tracked. */
uint32_t race_shadow_page(struct race_shadow *s, uint64_t number);

/** Returns the cells of a page. The caller must hold the lock of its stripe. */
struct cell *race_shadow_cells(struct race_shadow *s, uint32_t page);

/** Splits a cell of `bytes` bytes into four. False if no cells are left. */
bool race_shadow_split(struct race_shadow *s, struct cell *c, unsigned bytes);

#endif
