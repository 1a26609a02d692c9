/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of LDS that the race check has not entered in its cells. Only a store to the same bytes
 * before the next barrier can race with a read. Most reads meet none, so they are kept as lists of
 * addresses, and entered when such a store comes. At the barrier they are dropped.
 */
#ifndef HIPSIM_CHECK_RACE_READS_H
#define HIPSIM_CHECK_RACE_READS_H

#include "check.h"

#define READS_KEPT 1024u /* reads of a workgroup; others are entered at once */
#define READS_WAVES 16u  /* check_race.c watches no larger workgroups */

/* A read of whole dwords by a wave. */
struct kept_read {
    uint32_t at;          /* code offset */
    uint32_t first, end;  /* LDS bytes of all lanes */
    uint8_t wave, dwords; /* dwords per lane */
    uint64_t lanes;       /* lanes that read, as a bit mask */
    uint32_t address[WAVE_LANES];
};

/* The order of a wave's stores to LDS among its LGKM operations; epochs as in the cells. */
struct stores_of_wave {
    uint32_t epoch;     /* of the last store; 0: none */
    uint32_t last;      /* number of the last store of `epoch` */
    uint32_t before;    /* number of the last store of earlier epochs */
    bool before_exists; /* `before` is valid */
};

struct race_reads {
    uint32_t epoch;
    unsigned shift;         /* log2 of the bytes per bit of the masks */
    uint64_t written, read; /* masks: parts of LDS that were accessed in this epoch */
    struct stores_of_wave stores[READS_WAVES];
    unsigned n; /* reads in `kept` */
    struct kept_read kept[READS_KEPT];
};

/** Prepares for workgroups with `lds_bytes` of LDS. */
void reads_create(struct race_reads *r, uint32_t lds_bytes);

/** Forgets the stores of the previous workgroup. */
void reads_begin(struct race_reads *r);

/** Drops the reads of earlier epochs. Called before each access of `epoch`. */
void reads_enter(struct race_reads *r, uint32_t epoch);

/** Returns the mask of the parts that [first, end) touches; first < end. */
uint64_t reads_parts(const struct race_reads *r, uint32_t first, uint32_t end);

/** True if a store of another wave, from before the barrier, may be outstanding. A read must then
 *  be compared with the cells. */
bool reads_unwaited(const struct race_reads *r, const struct wave *w);

/** Keeps a read of `dwords` aligned dwords per lane in [first, end). False if there is no room. */
bool reads_keep(struct race_reads *r, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned dwords, uint32_t first, uint32_t end);

/** Records that `in`, executed by `w`, stores to LDS bytes [first, end). */
void reads_store(struct race_reads *r, const struct wave *w, const struct inst *in, uint32_t first,
                 uint32_t end);

/** Returns how many of the kept reads, in their order, must be entered before an access to
 *  [first, end); 0: none of them meets it. */
unsigned reads_before(const struct race_reads *r, uint32_t first, uint32_t end);

/** Removes the first `n` reads, which have been entered. */
void reads_remove(struct race_reads *r, unsigned n);

#endif
