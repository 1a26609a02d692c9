/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model of one compute unit. It executes its workgroups through engine_group_step() and
 * always steps the wave whose next instruction issues first. Waves therefore see each other's
 * effects in the order of modelled time.
 *
 * Every wave issues in order, at most one instruction per issue slot of 4 clocks. An instruction
 * issues once three things are free: the wave (previous instruction, fetch, counter, barrier), the
 * registers (pending matrix results) and the port. If several waves could issue at the same clock,
 * the one of highest priority goes first, then the lowest slot. tools/hipsim/docs/timing.md says
 * more.
 */
#ifndef HIPSIM_TIME_CU_H
#define HIPSIM_TIME_CU_H

#include "engine.h"
#include "hipsim_time.h"
#include "time_memory.h"
#include "time_op.h"

/* Profile of one instruction, summed over the waves. */
struct time_line {
    uint64_t count;
    uint64_t clocks;                    /* from the previous issue of the wave to this one */
    uint64_t stall[HIPSIM_STALL_COUNT]; /* part of `clocks` by cause; the rest is issue */
};

/* One issued instruction, for traces. */
struct time_event {
    const struct workgroup *wg;
    const struct wave *wave;
    const struct inst *in;
    const struct time_op *op;
    unsigned slot;   /* wave slot; its SIMD is slot % 4 */
    uint64_t ready;  /* clock at which the wave reached the instruction */
    uint64_t issued; /* clock at which it issued */
    uint64_t done;   /* clock at which its result is available */
    enum hipsim_stall cause;
    uint64_t lanes_bytes; /* memory: bytes that all lanes move */
};

struct time_sink {
    void *ctx;
    void (*event)(void *ctx, const struct time_event *event);
};

/* A code range with the cost of each instruction and a profile summed over all waves. */
struct time_code {
    struct code *code;
    const struct time_params *p;
    struct time_op **ops;    /* indexed by byte offset / 4 */
    struct time_line *lines; /* indexed by byte offset / 4 */
};

struct time_code *time_code_create(struct code *code, const struct time_params *p);
void time_code_destroy(struct time_code *tc);

struct time_cu_result {
    uint64_t clocks; /* from the first workgroup's start to the last one's end */
    uint64_t drain;  /* part of `clocks` after the last instruction, until stores are in memory */
    uint64_t instructions;
    uint64_t waves;
    uint64_t matrix_clocks;             /* matrix units busy, summed over all SIMDs */
    uint64_t matrix_by[MATRIX_CLASSES]; /* matrix_clocks by operand class */
    uint64_t valu_clocks;               /* VALU ports busy, summed over all SIMDs */
    uint64_t lds_clocks;                /* LDS banks busy */
    uint64_t lds_conflicts;             /* part of lds_clocks beyond one for each phase */
    uint64_t l1_clocks;                 /* L1 busy */
    uint64_t bytes[LEVEL_COUNT];        /* transferred from or to each level */
    uint64_t stall[HIPSIM_STALL_COUNT]; /* wave clocks */
    uint64_t issue;                     /* wave clocks spent issuing */
};

struct time_cu;

/* The state of a compute unit when its workgroups start. */
struct time_cu_setup {
    struct time_share share;
    double mhz;                       /* converts nanoseconds to clocks */
    bool warm_code;                   /* the code is in the instruction cache at the start */
    const struct time_sink *sink;     /* NULL: none */
    const struct time_shared *shared; /* memory levels shared with other compute units; NULL: a
                                       * private share */
    struct time_cu *with; /* another compute unit of the same launch, or NULL; outlives this one */
};

/*
 * Creates a compute unit that the caller steps, with room for `groups` workgroups at a time.
 * Returns NULL without memory, or with launch->fault filled in. Use only between time_begin() and
 * time_end().
 */
struct time_cu *time_cu_create(struct launch *launch, struct time_code *code,
                               const struct time_cu_setup *setup, unsigned groups);
void time_cu_destroy(struct time_cu *cu);

/* Starts workgroup `index` at clock `at` in slot `group`, which must be empty or have ended. False
 * after a fault. */
bool time_cu_start(struct time_cu *cu, unsigned group, uint64_t index, uint64_t at);

/* Returns the clock at which the next instruction issues; UINT64_MAX if every wave is blocked. */
uint64_t time_cu_next(struct time_cu *cu);

struct time_step {
    unsigned ended;  /* slot of the workgroup that ended; the number of slots if none did */
    bool idle;       /* the workgroup that ended has stored nothing */
    uint64_t resume; /* clock from which waves pass a barrier of the grid or of a cluster that may
                      * have opened; 0: none */
    bool settled;    /* the step has set completion times of other compute units' loads */
};

/* Issues the instruction that time_cu_next() found; call that first. False after a fault. */
bool time_cu_step(struct time_cu *cu, struct time_step *step);

/* Resumes at clock `at` the waves blocked on a barrier of the grid or of a cluster that opened at
 * `now`. False after a fault. */
bool time_cu_grid_opened(struct time_cu *cu, uint64_t now, uint64_t at);

/* Makes time_cu_next() compute anew when waves issue, after a multicast load of another compute
 * unit has set completion times here. */
void time_cu_recheck(struct time_cu *cu);

/* Adds to launch->counters and fills `result`. Pass `ok` false after a fault; the return value is
 * then false. A workgroup that has not ended is reported as a deadlock. */
bool time_cu_finish(struct time_cu *cu, bool ok, struct time_cu_result *result);

/* Adds the figures of `one` to `sum`. */
void time_cu_result_add(struct time_cu_result *sum, const struct time_cu_result *one);

/* Prepare a launch to be stepped by compute units, and undo that. time_end() restores the observer
 * from before time_begin(). If `ok` is false without a fault, it reports lack of memory. */
void time_begin(struct launch *launch);
void time_end(struct launch *launch, const struct observer *observer, bool ok);

/*
 * Runs `count` workgroups of the launch together on one compute unit until the last one ends, and
 * counts them in launch->counters. False after a fault, which is in launch->fault.
 */
bool time_cu_run(struct launch *launch, struct time_code *code, const struct time_cu_setup *setup,
                 const uint64_t *workgroups, unsigned count, struct time_cu_result *result);

#endif
