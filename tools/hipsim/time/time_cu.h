/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing model of one compute unit. It executes its workgroups through engine_group_step() and
 * always steps the wave whose next instruction issues first. Waves therefore see each other's
 * effects in the order of modelled time.
 *
 * Every wave issues in order, at most one instruction per issue slot of 4 clocks. An instruction
 * issues once three things are free: the wave (previous instruction, fetch, counter, barrier), the
 * registers (pending matrix results) and the port. If several waves could issue at the same clock,
 * the one of highest priority issues first, then the one in the lowest slot.
 * tools/hipsim/docs/timing.md has the details.
 */
#ifndef HIPSIM_TIME_CU_H
#define HIPSIM_TIME_CU_H

#include "engine.h"
#include "hipsim_time.h"
#include "time_memory.h"
#include "time_op.h"

/* Profile of one instruction, summed over all waves. */
struct time_line {
    uint64_t count;
    uint64_t waves;  /* sum, over the issues, of the SIMD's waves that have not ended */
    uint64_t clocks; /* clocks from the wave's previous issue to this one */
    uint64_t stall[HIPSIM_STALL_COUNT]; /* part of `clocks` by cause; the rest is issue */
};

/* An issued instruction, for traces. */
struct time_event {
    const struct workgroup *wg;
    const struct wave *wave;
    const struct inst *in;
    const struct time_op *op;
    unsigned slot;   /* slot of the wave; its SIMD is slot % 4 */
    uint64_t ready;  /* clock at which the wave reached the instruction */
    uint64_t issued; /* clock at which the instruction issued */
    uint64_t done;   /* clock at which the instruction's result is available */
    enum hipsim_stall cause;
    uint64_t lanes_bytes; /* bytes that all lanes together access; memory instructions only */
};

struct time_sink {
    void *ctx;
    void (*event)(void *ctx, const struct time_event *event);
};

/* A code range with the cost of each instruction and a profile summed over all waves. */
struct time_code {
    struct code *code;
    const struct time_params *p;
    struct time_op **ops;    /* costs, by byte offset / 4 */
    struct time_line *lines; /* profiles, by byte offset / 4 */
};

struct time_code *time_code_create(struct code *code, const struct time_params *p);
void time_code_destroy(struct time_code *tc);

struct time_cu_result {
    uint64_t clocks; /* clocks from the first workgroup's start to the last one's end */
    uint64_t drain;  /* part of `clocks` after the last instruction, until stores are in memory */
    uint64_t instructions;
    uint64_t waves;
    /* clocks in which matrix units are busy, summed over all SIMDs */
    uint64_t matrix_clocks;
    uint64_t matrix_by[MATRIX_CLASSES]; /* part of matrix_clocks by operand class */
    /* clocks in which VALU ports are busy, summed over all SIMDs */
    uint64_t valu_clocks;
    uint64_t lds_clocks;                /* clocks in which the LDS banks are busy */
    uint64_t lds_conflicts;             /* part of lds_clocks beyond one clock for each phase */
    uint64_t l1_clocks;                 /* clocks in which the L1 is busy */
    uint64_t bytes[LEVEL_COUNT];        /* bytes transferred from and to each level */
    uint64_t stall[HIPSIM_STALL_COUNT]; /* clocks that waves wait, by cause */
    uint64_t issue;                     /* clocks in which waves issue */
};

struct time_cu;

/* The state of a compute unit when its workgroups start. */
struct time_cu_setup {
    struct time_share share;
    double mhz;                   /* clock in MHz, to convert nanoseconds to clocks */
    bool warm_code;               /* true: the code is in the instruction cache at the start */
    const struct time_sink *sink; /* receives every issued instruction; NULL: none */
    /* memory levels that other compute units use too; NULL: this one has its share of them */
    const struct time_shared *shared;
    /* another compute unit of the same launch, to be destroyed after this one; NULL: none */
    struct time_cu *with;
};

/*
 * Creates a compute unit that the caller steps, with room for `groups` workgroups at a time. NULL
 * without memory, or with launch->fault set. Call it only between time_begin() and time_end().
 */
struct time_cu *time_cu_create(struct launch *launch, struct time_code *code,
                               const struct time_cu_setup *setup, unsigned groups);
void time_cu_destroy(struct time_cu *cu);

/* Starts workgroup `index` of the grid at clock `at` in slot `group`, which must be empty or have
 * ended. False after a fault. */
bool time_cu_start(struct time_cu *cu, unsigned group, uint64_t index, uint64_t at);

/* Returns the clock at which the next instruction issues; UINT64_MAX if every wave is blocked. */
uint64_t time_cu_next(struct time_cu *cu);

struct time_step {
    unsigned ended; /* slot of the workgroup that ended; the number of slots if none did */
    bool idle;      /* true: the workgroup that ended has stored nothing */
    /* clock from which waves pass a barrier of the grid or of a cluster that may have opened; 0:
     * none */
    uint64_t resume;
    bool settled; /* true: the step has set completion times of other compute units' loads */
};

/* Issues the instruction that time_cu_next() has found, and sets *step to its effects. Call
 * time_cu_next() before each step. False after a fault. */
bool time_cu_step(struct time_cu *cu, struct time_step *step);

/* A barrier of the grid or of a cluster opened at clock `now`: resumes the waves that it blocks, at
 * clock `at`. False after a fault. */
bool time_cu_grid_opened(struct time_cu *cu, uint64_t now, uint64_t at);

/* Makes time_cu_next() compute again when waves issue. Call it after another compute unit's step
 * has set completion times of multicast loads here. */
void time_cu_recheck(struct time_cu *cu);

/* Adds the unit's counts to launch->counters, and sets *result. Pass `ok` false after a fault; the
 * result is then false. Reports a workgroup that has not ended as a deadlock. */
bool time_cu_finish(struct time_cu *cu, bool ok, struct time_cu_result *result);

/* Adds the figures of `one` to *sum. */
void time_cu_result_add(struct time_cu_result *sum, const struct time_cu_result *one);

/* Prepare a launch to be stepped by compute units, and undo that. time_end() restores the observer
 * that the launch had before time_begin(). If `ok` is false without a fault, it reports lack of
 * memory. */
void time_begin(struct launch *launch);
void time_end(struct launch *launch, const struct observer *observer, bool ok);

/*
 * Runs `count` workgroups of the launch together on one compute unit until the last one ends, and
 * counts them in launch->counters. workgroups[] has their indices. False after a fault, with
 * launch->fault set.
 */
bool time_cu_run(struct launch *launch, struct time_code *code, const struct time_cu_setup *setup,
                 const uint64_t *workgroups, unsigned count, struct time_cu_result *result);

#endif
