/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This room keeps what a launch knows of global memory: pages of cells, which a hash table finds,
 * blocks of four cells for those that have split, and intervals. check_race_global.c says what
 * cells and intervals mean. All of it is reserved address space that costs memory only where it is
 * used; the next launch takes over the shadow of the last one.
 */
#ifndef HIPSIM_CHECK_RACE_SHADOW_H
#define HIPSIM_CHECK_RACE_SHADOW_H

#include <stdatomic.h>

#include "check_race_later.h"

#define PAGE RACE_PAGE
#define PAGES_MAX 65536u  /* 256 MiB of memory, 640 MiB of cells */
#define PAGES_KEPT 16384u /* at most, of launches before: a launch has room for 192 MiB or more */
#define PAGE_SLOT_BITS 17
#define PAGE_SLOTS (1u << PAGE_SLOT_BITS) /* of the hash table */
#define NO_PAGE UINT32_MAX
#define SPLITS_MAX 524288u /* blocks of four cells: 64 MiB */
#define INTERVALS_MAX 4194304u
#define STRIPES 64u     /* locks */
#define LOCATIONS 4096u /* stamps of releases, by hash: a collision only orders more */

#define ATOMIC (UINT32_C(1) << 31) /* beside the number of an interval */
#define LOCAL (UINT32_C(1) << 30)  /* atomic within the workgroup */
#define NUMBER (LOCAL - 1)
#define LOST UINT32_MAX /* cell.split: no cells were left */

struct interval {
    uint32_t group, epoch;    /* constant once a cell names it */
    uint16_t touched;         /* waves */
    _Atomic uint16_t covered; /* waves whose accesses were released at `released`; */
    _Atomic uint64_t released;
    _Atomic uint64_t rest; /* those of the others at this stamp; 0: not yet */
    uint32_t next;         /* of those that wait for a release */
};

struct cell {
    uint32_t writer, reader;   /* intervals, with ATOMIC or LOCAL when it was one; 0: none */
    uint32_t other;            /* last reader of another workgroup than `reader` */
    uint16_t writers, readers; /* waves */
    uint16_t written, read;    /* bytes */
    uint32_t write_at : 31;    /* offset in the code */
    bool quiet : 1;            /* the only store left all bytes as they were */
    uint32_t read_at;
    uint32_t write_time, read_time; /* clocks.now; the earliest of `writers`, `readers` */
    uint32_t split;                 /* four cells from here on; 0: whole */
};

/* Lock-free but for the cells, which the lock of their stripe guards. */
struct race_shadow {
    uint32_t launch;
    _Atomic uint32_t pages_used, splits_used, intervals_used;
    _Atomic bool full;
    _Atomic uint64_t clock;
    _Atomic uint64_t location[LOCATIONS];
    struct {
        _Alignas(64) _Atomic bool taken;
    } stripe[STRIPES];
    _Atomic uint64_t key[PAGE_SLOTS];   /* number of the page + 1 */
    _Atomic uint32_t index[PAGE_SLOTS]; /* into `pages` + 1; 0: about to be set */
    uint32_t tag[PAGES_MAX];            /* launch that the cells belong to */
    struct cell (*pages)[PAGE / RACE_GRANULE];
    struct cell (*splits)[4];
    struct interval *intervals;
};

/** The index of page `number` (address / PAGE), a new one if nobody has touched it; NO_PAGE, or
 *  one beyond PAGES_MAX, when it is not followed. */
uint32_t race_shadow_page(struct race_shadow *s, uint64_t number);

/** The cells of a page. The caller holds the lock of its stripe. */
struct cell *race_shadow_cells(struct race_shadow *s, uint32_t page);

/** Splits a cell of `bytes` bytes into four. False when none are left. */
bool race_shadow_split(struct race_shadow *s, struct cell *c, unsigned bytes);

#endif
