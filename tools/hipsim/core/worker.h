/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own: what runs a workgroup, and how its waves begin. */
#ifndef HIPSIM_WORKER_H
#define HIPSIM_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "decode.h"
#include "wait.h"

struct engine {
    struct launch *launch;
    uint32_t groups[3];
    uint64_t last;         /* one past the last workgroup to run */
    _Atomic uint64_t next; /* workgroup to hand out */
    _Atomic bool stop;
    pthread_mutex_t lock; /* launch->counters */
    struct check_launch checks;
    struct host *hosts;
    pthread_t *ids;
    uint32_t threads;         /* of the hosts: how many there may be, */
    _Atomic uint32_t started; /* and how many there are */
    _Atomic uint64_t changes; /* turns that did not only wait */
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
    struct kept *kept; /* KEPT_SLOTS of each wave */
    struct late_lds *late;
    uint64_t random;
    struct code_slots code;
    struct spin *spin; /* the watch over its waves; NULL: not yet */
    struct counters counters;
    uint32_t nwaves;
    bool busy;      /* its workgroup has not ended; */
    uint64_t turn;  /* after so many more steps others go on; 0: now */
    uint64_t step;  /* one less than the instructions of a step, a power of two */
    uint64_t turns; /* that it has had, brief ones left out */
    bool paused;    /* it may be waiting for other workgroups: they take turns */
};

/* False without memory; nothing is left to free then. */
bool worker_init(struct worker *k, struct engine *e);
void worker_free(struct worker *k);

/* Sets the workgroup of this index, its waves and LDS to what they are when it starts. */
void worker_begin(struct worker *k, uint64_t index);

#endif
