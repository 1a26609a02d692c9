/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of LDS that the race check has not entered in its cells. Only a store to the same bytes
 * before the next barrier can race with a read, and most reads have none. They are therefore
 * recorded as lists of addresses, and entered in the cells when such a store comes. The barrier
 * drops them.
 */
#ifndef HIPSIM_CHECK_RACE_READS_H
#define HIPSIM_CHECK_RACE_READS_H

#include "check.h"

#define READS_KEPT 1024u /* most recorded reads of a workgroup; further ones are entered at once */

/* A read of whole dwords by a wave. */
struct kept_read {
    uint32_t at;          /* code offset of the read */
    uint32_t first, end;  /* range of LDS bytes that all lanes together read */
    uint8_t wave, dwords; /* index of the wave; dwords per lane */
    uint64_t lanes;       /* mask of the lanes that read */
    uint32_t address[WAVE_LANES];
};

/* The order of a wave's stores to LDS among its LGKM operations. An epoch is the time between two
 * barriers of the workgroup. */
struct stores_of_wave {
    uint32_t epoch;     /* epoch of the last store; 0: no store */
    uint32_t last;      /* number of the last store in `epoch`, among the wave's LGKM operations */
    uint32_t before;    /* number of the last store in earlier epochs */
    bool before_exists; /* true: `before` is valid */
};

struct race_reads {
    uint32_t epoch;
    unsigned shift;         /* log2 of the bytes of a part, for which the masks have a bit */
    uint64_t written, read; /* masks of the parts of LDS that were accessed in this epoch */
    struct stores_of_wave stores[WAVES_MAX];
    unsigned n; /* number of reads in `kept` */
    struct kept_read kept[READS_KEPT];
};

/** Prepares the record for workgroups with `lds_bytes` bytes of LDS. */
void reads_create(struct race_reads *r, uint32_t lds_bytes);

/** Removes the reads and stores of the previous workgroup. */
void reads_begin(struct race_reads *r);

/** Begins epoch `epoch` if it is new, and drops the reads of earlier ones. Call it before each
 * access. */
void reads_enter(struct race_reads *r, uint32_t epoch);

/** Returns the mask of the parts that contain LDS bytes [first, end); first < end. */
uint64_t reads_parts(const struct race_reads *r, uint32_t first, uint32_t end);

/** True if a store that another wave made before the barrier may be in flight. A read must then be
 * compared with the cells. */
bool reads_unwaited(const struct race_reads *r, const struct wave *w);

/** Records a read of `dwords` aligned dwords per lane, in LDS bytes [first, end). False if there is
 * no room. */
bool reads_keep(struct race_reads *r, const struct wave *w, const struct inst *in,
                const struct lane_mem *m, unsigned dwords, uint32_t first, uint32_t end);

/** Records that `in`, executed by `w`, stores to LDS bytes [first, end). */
void reads_store(struct race_reads *r, const struct wave *w, const struct inst *in, uint32_t first,
                 uint32_t end);

/** Returns how many of the recorded reads, from the first on, must be entered in the cells before
 * an access to LDS bytes [first, end). 0: none of them has these bytes. */
unsigned reads_before(const struct race_reads *r, uint32_t first, uint32_t end);

/** Removes the first `n` reads, which are entered in the cells. */
void reads_remove(struct race_reads *r, unsigned n);

#endif
