/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch's record of global memory: pages of cells with a hash table, blocks of four cells for
 * split ones, and intervals. check_race_global.c explains cells and intervals. All of it is
 * reserved address space that uses memory only where it is accessed. The next launch reuses the
 * record.
 */
#ifndef HIPSIM_CHECK_RACE_SHADOW_H
#define HIPSIM_CHECK_RACE_SHADOW_H

#include <assert.h>
#include <stdatomic.h>

#include "check_race_later.h"

#define PAGE RACE_PAGE
#define PAGES_MAX 65536u /* most pages: 256 MiB of memory, which have 640 MiB of cells */
/* Most pages of earlier launches that keep their cells. With more, the next launch may use all
 * these cells for other addresses. They are in the host's memory and caches; the host has to clear
 * new ones first. */
#define PAGES_NAMED 1024u
/* Most pages whose cells stay in memory between launches. */
#define PAGES_KEPT 16384u
#define PAGE_SLOT_BITS 17
#define PAGE_SLOTS (1u << PAGE_SLOT_BITS) /* entries of the hash table */
#define NO_PAGE UINT32_MAX
#define SPLITS_MAX 524288u /* most blocks of four cells: 64 MiB */
#define INTERVALS_MAX 4194304u
#define STRIPES 64u /* number of locks */
/* Entries of `location`, by hash; two addresses with the same entry only add order. */
#define LOCATIONS 4096u

#define ATOMIC (UINT32_C(1) << 31) /* flag in the number of an interval: the access was atomic */
/* Flag in the number of an interval: atomic within the workgroup. */
#define LOCAL (UINT32_C(1) << 30)
#define NUMBER (LOCAL - 1)
#define CODE_OFFSET (LOCAL - 1) /* mask of the bits of cell.read_at */
#define LOST UINT32_MAX         /* value of cell.parts: no cells were left for the split */

/* Accesses of a workgroup between two of its barriers (an epoch). Cells name intervals by
 * number. */
struct interval {
    /* number of the workgroup, and its barrier openings before; constant once a cell has the
     * interval's number */
    uint32_t group, epoch;
    uint32_t touched; /* waves that have accessed memory, a bit each */
    /* waves whose accesses were released at stamp `released`, a bit each */
    _Atomic uint32_t covered;
    _Atomic uint64_t released;
    _Atomic uint64_t rest; /* stamp at which the other waves' accesses were released; 0: not yet */
    uint32_t next;         /* next interval in the list of unreleased intervals; 0: none */
    /* Members of the fence check. */
    /* next interval in the list of those that were not written back; 0: none */
    uint32_t next_dirty;
    uint32_t invalidations; /* number of the workgroup's invalidations before the interval */
    _Atomic bool flushed;   /* true: a wave has executed buffer_wbl2 with sc1 after the interval */
    /* true: that wave had waited for its buffer_wbl2 when the workgroup made a later release */
    _Atomic bool written_back;
    /* true: that wave released the interval before it waited for its buffer_wbl2 */
    _Atomic bool early;
};

struct cell {
    /* numbers of intervals, with flag ATOMIC or LOCAL for such accesses; 0: none */
    uint32_t writer, reader;
    union {
        /* last reading interval of another workgroup than `reader`'s; 0: none */
        uint32_t other;
        uint32_t parts; /* index of the four cells that replace a split cell, or LOST */
    };
    uint32_t writers, readers; /* waves of the writing and the reading intervals, a bit each */
    uint16_t written, read;    /* masks of the accessed bytes */
    uint32_t write_at : 31;    /* code offset of the write */
    bool quiet : 1;            /* true: the only store changed no byte */
    uint32_t read_at : 30;
    bool read_before : 1; /* true: `reader` loaded before the writer stored */
    /* true: `parts` is valid; unless it is LOST, the other members are not */
    bool split : 1;
    /* values of clocks.now at the write and at the read; the earliest if several waves did */
    uint32_t write_time, read_time;
};
static_assert(sizeof(struct cell) == 40, "2.5 bytes of cells for a byte of memory");

/* The record. All members are accessed without locks except the cells, which the lock of their
 * stripe protects. */
struct race_shadow {
    uint32_t launch;
    _Atomic uint32_t pages_used, splits_used, intervals_used;
    _Atomic bool full;     /* true: accesses are no longer recorded */
    _Atomic bool left_out; /* true: a store in flight was not recorded */
    _Atomic uint64_t clock;
    _Atomic uint64_t location[LOCATIONS];
    struct {
        _Alignas(64) _Atomic bool taken;
    } stripe[STRIPES];
    _Atomic uint64_t key[PAGE_SLOTS];   /* number of the page + 1; 0: empty */
    _Atomic uint32_t index[PAGE_SLOTS]; /* index in `pages` + 1; 0: about to be set */
    uint32_t tag[PAGES_MAX];            /* launch to which the cells of a page belong */
    struct cell (*pages)[PAGE / RACE_GRANULE];
    struct cell (*splits)[4];
    struct interval *intervals;
};

/** Returns the index of page `number` (address / PAGE), which it creates if needed. NO_PAGE, or an
 * index from PAGES_MAX on, means that the page is not recorded. */
uint32_t race_shadow_page(struct race_shadow *s, uint64_t number);

/** Returns the cells of the page with index `page`. The caller must have locked its stripe. */
struct cell *race_shadow_cells(struct race_shadow *s, uint32_t page);

/** Splits a cell of `bytes` bytes into four. False if no cells are left. */
bool race_shadow_split(struct race_shadow *s, struct cell *c, unsigned bytes);

#endif
