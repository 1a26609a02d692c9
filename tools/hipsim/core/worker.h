/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's internals: the state that runs a workgroup, and how its waves start. */
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
    uint64_t last;         /* one past the last workgroup to run */
    _Atomic uint64_t next; /* next workgroup to start */
    uint64_t *sample;      /* workgroups to run, by which `next` and `last` count; NULL: all */
    _Atomic bool stop;
    pthread_mutex_t lock; /* guards launch->counters */
    struct check_launch checks;
    struct host *hosts;
    pthread_t *ids;
    uint32_t threads;         /* maximum number of hosts */
    _Atomic uint32_t started; /* current number of hosts */
    _Atomic uint64_t changes; /* number of time slices with progress */
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
    struct kept *kept; /* KEPT_SLOTS per wave */
    struct late_lds *late;
    uint64_t random;
    struct code_slots code;
    struct spin *spin;             /* detects polling waves; NULL: not created yet */
    struct counters counters;      /* without the kinds of instructions */
    uint64_t kinds[ROW_KINDS + 1]; /* instructions executed, by the ROW_KINDS bits of flags */
    uint32_t nwaves;
    uint32_t lanes;      /* of a wave */
    bool busy;           /* its workgroup has not ended */
    uint64_t steps_left; /* of the time slice; 0: it is over */
    uint64_t step;       /* bit mask: instructions per step, a power of two, minus 1 */
    uint64_t slices;     /* time slices of this workgroup, without brief ones */
    bool paused;         /* the workgroup may be waiting for others, so the host alternates between
                     * workgroups */
};

/* Allocates the worker. False without memory; nothing needs to be freed then. */
bool worker_init(struct worker *k, struct engine *e);
void worker_free(struct worker *k);

/* Returns the counts of all instructions that the worker has executed since its creation. */
struct counters worker_counters(const struct worker *k);

/* Initialises the worker's workgroup as number `index`, with its waves and LDS. */
void worker_begin(struct worker *k, uint64_t index);

#endif
