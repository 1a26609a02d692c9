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

#include "tools/hipsim/engine.h"
#include "tools/hipsim/hipsim_time.h"
#include "tools/hipsim/time_memory.h"
#include "tools/hipsim/time_op.h"

/* What one instruction of the code has cost, summed over the waves. */
struct time_line {
    uint64_t count;
    uint64_t clocks;                      /* from the previous issue of the wave to this one */
    uint64_t stall[HIPSIM_STALL_COUNT];   /* of them, by cause; the rest is issue */
};

/* One issued instruction, for traces. */
struct time_event {
    const struct workgroup *wg;
    const struct wave *wave;
    const struct inst *in;
    const struct time_op *op;
    unsigned slot;    /* of the wave in its SIMD's order: SIMD = slot % 4 */
    uint64_t ready;   /* when the wave came to it */
    uint64_t issued;
    uint64_t done;    /* when its result is there */
    enum hipsim_stall cause;
    uint64_t lanes_bytes; /* memory: bytes moved */
};

struct time_sink {
    void *ctx;
    void (*event)(void *ctx, const struct time_event *event);
};

/* Of one code range: costs made once per instruction, profile summed over all that run. */
struct time_code {
    struct code *code;
    const struct time_params *p;
    struct time_op **ops;    /* by offset / 4 */
    struct time_line *lines; /* by offset / 4 */
};

struct time_code *time_code_create(struct code *code, const struct time_params *p);
void time_code_destroy(struct time_code *tc);

struct time_cu_result {
    uint64_t clocks;              /* from the first workgroup's start to the last one's end */
    uint64_t instructions;
    uint64_t waves;
    uint64_t matrix_clocks;       /* of all SIMDs */
    uint64_t valu_clocks;
    uint64_t lds_clocks;          /* of the banks */
    uint64_t l1_clocks;
    uint64_t bytes[LEVEL_COUNT];
    uint64_t stall[HIPSIM_STALL_COUNT]; /* wave clocks */
    uint64_t issue;               /* wave clocks spent issuing */
};

/* How a compute unit stands when its workgroups start. */
struct time_cu_setup {
    struct time_share share;
    double mhz;                   /* the clock that nanoseconds are turned into */
    bool warm_code;               /* earlier workgroups have brought the code */
    const struct time_sink *sink; /* NULL: none */
};

/*
 * Runs `count` workgroups of the launch together on one compute unit, from their start to the last
 * one's end; launch->counters counts them. False after a fault, which is in launch->fault.
 */
bool time_cu_run(struct launch *launch, struct time_code *code, const struct time_cu_setup *setup,
                 const uint64_t *workgroups, unsigned count, struct time_cu_result *result);

#endif
