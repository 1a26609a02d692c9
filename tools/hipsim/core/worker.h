/* SPDX-License-Identifier: Apache-2.0 */
/* The state with which the engine runs a workgroup, and the start of its waves. */
#ifndef HIPSIM_WORKER_H
#define HIPSIM_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "decode.h"
#include "row.h"
#include "wait.h"

struct engine {
    struct launch *launch;
    uint32_t groups[3];
    uint64_t last;         /* number of the last workgroup to run, plus 1 */
    _Atomic uint64_t next; /* number of the next workgroup to start */
    uint64_t *sample;      /* indices of the workgroups to run, by those numbers; NULL: all */
    _Atomic bool stop;
    pthread_mutex_t lock; /* locks launch->counters */
    struct check_launch checks;
    struct host *hosts;
    pthread_t *ids;
    uint32_t threads;         /* most host threads that may run */
    _Atomic uint32_t started; /* number of host threads that run */
    _Atomic uint64_t changes; /* number of time slices in which a workgroup progressed */
};

/* Memory and state to run a workgroup; reused for the next one. */
struct worker {
    struct engine *engine;
    struct workgroup wg;
    struct wave *waves;
    struct wave **list;
    uint32_t *rows;
    uint8_t *scratch;
    uint8_t *scratch_valid;
    struct kept *kept; /* KEPT_SLOTS entries per wave */
    struct late_lds *late;
    uint64_t random;
    struct code_slots code;
    struct spin *spin;        /* detects waves that poll; NULL: not created yet */
    struct counters counters; /* all counters but the kinds of instructions */
    /* number of executed instructions by the ROW_KINDS bits of their flags */
    uint64_t kinds[ROW_KINDS + 1];
    uint32_t nwaves;
    uint32_t lanes;      /* lanes of a wave */
    bool busy;           /* true: the host thread's workgroup has not ended */
    uint64_t steps_left; /* steps left in the time slice; 0: the slice has ended */
    uint64_t step;       /* instructions per step, a power of two, minus 1; used as a mask */
    uint64_t slices;     /* number of time slices of this workgroup, without brief ones */
    /* true: the workgroup may wait for others, so the host thread alternates between workgroups */
    bool paused;
};

/* Allocates the worker's memory. False without memory; nothing needs to be freed then. */
bool worker_init(struct worker *k, struct engine *e);
void worker_free(struct worker *k);

/* Returns the counts of all instructions that the worker has executed since its creation. */
struct counters worker_counters(const struct worker *k);

/* Prepares the worker's workgroup as number `index` of the grid, with its waves and LDS. */
void worker_begin(struct worker *k, uint64_t index);

#endif
