/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One compute unit in time. It executes its workgroups through engine_group_step(): the wave whose
 * next instruction can issue first goes next, so what the waves see of each other is in the order
 * of modelled time.
 *
 * Every wave issues in order, one instruction per turn of 4 clocks. An instruction issues when the
 * wave is ready (the previous one, the fetch, a counter, a barrier), its registers are (results of
 * matrix instructions) and its port is. Of waves that could issue at the same clock the one of
 * higher priority goes first, then the oldest. docs/timing.md says more.
 */
#ifndef HIPSIM_TIME_CU_H
#define HIPSIM_TIME_CU_H

#include "engine.h"
#include "hipsim_time.h"
#include "time_memory.h"
#include "time_op.h"

/* Cost of one instruction of the code, summed over the waves. */
struct time_line {
    uint64_t count;
    uint64_t clocks;                    /* from the previous issue of the wave to this one */
    uint64_t stall[HIPSIM_STALL_COUNT]; /* of them, by cause; the rest is issue */
};

/* One issued instruction, for traces. */
struct time_event {
    const struct workgroup *wg;
    const struct wave *wave;
    const struct inst *in;
    const struct time_op *op;
    unsigned slot;  /* of the wave in its SIMD's order: SIMD = slot % 4 */
    uint64_t ready; /* when the wave came to it */
    uint64_t issued;
    uint64_t done; /* when its result is there */
    enum hipsim_stall cause;
    uint64_t lanes_bytes; /* memory: bytes moved */
};

struct time_sink {
    void *ctx;
    void (*event)(void *ctx, const struct time_event *event);
};

/* A code range: costs made once per instruction, profile summed over all waves. */
struct time_code {
    struct code *code;
    const struct time_params *p;
    struct time_op **ops;    /* by offset / 4 */
    struct time_line *lines; /* by offset / 4 */
};

struct time_code *time_code_create(struct code *code, const struct time_params *p);
void time_code_destroy(struct time_code *tc);

struct time_cu_result {
    uint64_t clocks; /* from the first workgroup's start to the last one's end */
    uint64_t drain;  /* of them, those after the last instruction, until stores are in memory */
    uint64_t instructions;
    uint64_t waves;
    uint64_t matrix_clocks;             /* of all SIMDs, */
    uint64_t matrix_by[MATRIX_CLASSES]; /* the same by class */
    uint64_t valu_clocks;
    uint64_t lds_clocks; /* of the banks */
    uint64_t l1_clocks;
    uint64_t bytes[LEVEL_COUNT];
    uint64_t stall[HIPSIM_STALL_COUNT]; /* wave clocks */
    uint64_t issue;                     /* wave clocks spent issuing */
};

struct time_cu;

/* The state of a compute unit when its workgroups start. */
struct time_cu_setup {
    struct time_share share;
    double mhz;                       /* the clock that nanoseconds are turned into */
    bool warm_code;                   /* earlier workgroups have brought the code */
    const struct time_sink *sink;     /* NULL: none */
    const struct time_behind *behind; /* memory that it shares with others; NULL: its own part */
    struct time_cu *with; /* another one that runs the same launch, or NULL; outlives it */
};

/*
 * A compute unit under the caller's control, with room for `groups` workgroups at a time. NULL
 * without memory, or with launch->fault filled in. Between time_begin() and time_end().
 */
struct time_cu *time_cu_create(struct launch *launch, struct time_code *code,
                               const struct time_cu_setup *setup, unsigned groups);
void time_cu_destroy(struct time_cu *cu);

/* Starts a workgroup at clock `at` in place of one that has ended, if any. False after a fault. */
bool time_cu_start(struct time_cu *cu, unsigned group, uint64_t index, uint64_t at);

/* The clock at which its next instruction issues; UINT64_MAX when no wave can go on. */
uint64_t time_cu_next(struct time_cu *cu);

struct time_step {
    unsigned ended; /* the group that has ended with it; else how many there are */
    bool idle;      /* and it has stored nothing */
    bool grid;      /* it may have opened a barrier of the grid */
};

/* Issues it; time_cu_next() must have found one. False after a fault. */
bool time_cu_step(struct time_cu *cu, struct time_step *step);

/* Resumes waves blocked on a grid barrier that opened at `now`. False after a fault. */
bool time_cu_grid_opened(struct time_cu *cu, uint64_t now);

/* Adds to launch->counters and tells the result. If all went well so far, no wave can go on, and a
 * workgroup that has not ended is a fault: then false, as without `ok`. */
bool time_cu_finish(struct time_cu *cu, bool ok, struct time_cu_result *result);

void time_cu_result_add(struct time_cu_result *sum, const struct time_cu_result *one);

/* Around the life of compute units; time_end() takes the observer from before and what came. */
void time_begin(struct launch *launch);
void time_end(struct launch *launch, const struct observer *observer, bool ok);

/*
 * Runs `count` workgroups of the launch together on one compute unit, from their start to the last
 * one's end; launch->counters counts them. False after a fault, which is in launch->fault.
 */
bool time_cu_run(struct launch *launch, struct time_code *code, const struct time_cu_setup *setup,
                 const uint64_t *workgroups, unsigned count, struct time_cu_result *result);

#endif
