/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares a software pipeline as a value: a table of rows {step, stage, phase} over
 * phases, LDS buffers and roles of waves. The table is the schedule; the steps are the maths. So a
 * schedule can be drawn, proved safe and changed without touching a step.
 *
 *      stage   which tile of the loop a step works on: k is k iterations older than the newest
 *      phase   the step's place in an iteration; phases run in the order of the table
 *      group   phases joined by `open`; between two groups is a boundary
 *      role    an equal share of the waves; role 1 runs one group after role 0
 *
 * With two roles every boundary is a barrier. With one role a barrier exists only where the table
 * has a row `pipe_barrier`. The pass lower_pipeline (ir/) rotates the loop and emits prologue,
 * steady state and epilogue.
 *
 * The trap: rows are in program order, and that order is part of the kernel. Steps of one stage and
 * one phase run in that order.
 */
#ifndef TEMPLATES_PIPELINE_PIPELINE_H
#define TEMPLATES_PIPELINE_PIPELINE_H

#include <stdio.h>

#include "ir/builder.h"
#include "ir/passes.h"

enum {
    PIPE_MAX_ROWS = 64,   /* most rows of a kernel's table */
    PIPE_MAX_BUFFERS = 6, /* most LDS buffers of a table */
    /* Bytes of the sentence that gives the reason of a refusal, with the final NUL. */
    PIPE_WHY = 160,
    PIPE_UNSAFE = 255, /* value of pipe_plan.depth if no number of tiles in LDS is safe */
    PIPE_ALL = 255,    /* value of pipeline.bare for all iterations of the prologue */
};

/** Kinds of phases: memory and vector work (MEMORY), or matrix instructions with other work under
 * them (MATRIX). */
enum pipe_kind { PIPE_MEMORY, PIPE_MATRIX };

/** A phase of an iteration. A list of phases ends with name NULL. */
struct pipe_phase {
    const char *name;
    uint8_t kind; /* kind of the phase: enum pipe_kind */
    /* 1: the phase has no boundary at its end, and belongs to the group of the next phase; 0: a
     * boundary ends the phase. */
    uint8_t open;
    /* 1: steps with branches may follow matrix instructions, under which then only work before the
     * branch runs. 0: such steps may not follow. */
    uint8_t branches;
};

/** The waves that read what a wave writes to a buffer: all waves of its workgroup, or only the wave
 * itself. */
enum pipe_scope { PIPE_WORKGROUP, PIPE_WAVE };

/** A buffer of tiles in LDS. A list of buffers ends with name NULL. A buffer with an empty name is
 * not used by this pipeline, but by others with the same steps. */
struct pipe_buffer {
    const char *name;
    uint8_t queue; /* queue of the asynchronous copies to the buffer, for tir_wait() */
    uint8_t scope; /* readers of what a wave writes to the buffer: enum pipe_scope */
    /* 1 + index of the buffer whose wait also covers the older copies to this buffer; 0: none. */
    uint8_t with;
    /* Number of tiles by which the tile that a step writes to the buffer is later than the step's
     * own tile. Code before the loop writes the first `early` tiles. */
    uint8_t early;
    /* Number of tiles by which the tile whose copies a wait covers is later than the wait's own
     * tile. */
    uint8_t early_wait;
};

/** A slot: a value in registers that steps pass to each other. A list of slots ends with name
 * NULL. */
struct pipe_slot {
    const char *name;
    /* 1: loop-carried: an iteration begins with the value that the previous iteration has written.
     * 0: the value belongs to one tile. */
    uint8_t carried;
};

/** Kinds of ops: steps, and the waits of the pipeline itself. */
enum pipe_op_kind {
    PIPE_STEP,  /* a step, which pipe_op.build or pipe_op.build_part appends */
    PIPE_AWAIT, /* a wait for this wave's asynchronous copies to buffer pipe_row.part */
    /* A wait for this wave's stores to buffer pipe_row.part, and for its reads of LDS. */
    PIPE_AWAIT_STORES,
    PIPE_RELEASE, /* a wait until the data of this wave's reads of LDS are in registers */
    PIPE_BARRIER, /* a barrier of all waves of the workgroup */
    PIPE_PART,    /* not an op: a place for the rows of list pipe_row.rows */
};

/** Properties of steps that the checker needs. */
enum pipe_flags {
    /* The step contains a branch, which ends the work that matrix instructions cover. */
    PIPE_BRANCH = 1,
    PIPE_PRODUCT = 2, /* the step contains matrix instructions */
    PIPE_ASYNC = 4, /* the step writes LDS by asynchronous copies, which a separate row waits for */
};

/** A step: its name, the values and buffers that it reads and writes, and the function that builds
 * it. */
struct pipe_op {
    const char *name; /* name of the step in drawings and refusals */
    /** Appends the step's ops to the builder, which has the row's stage and phase. `context` is an
     * argument of pipe_build(). NULL: build_part appends them. */
    void (*build)(void *context);
    /* pipe_slots that the step reads and writes in each row: bit n is slot n. */
    uint32_t reads, writes;
    /** Appends part `part` (pipe_row.part) of a step that is cut into parts. NULL: build appends
     * the whole step. */
    void (*build_part)(void *context, unsigned part);
    /* pipe_slots that part 0 also reads and writes; part n has the bits n places higher. */
    uint32_t reads_part, writes_part;
    /* pipe_buffers that the step reads and writes: bit n is buffer n. */
    uint8_t lds_reads, lds_writes;
    uint8_t flags; /* properties of the step: bits of enum pipe_flags */
    uint8_t kind;  /* kind of the op: enum pipe_op_kind */
};

extern const struct pipe_op pipe_await, pipe_await_stores, pipe_release, pipe_barrier, pipe_part;

/** A row of a pipeline's table. A list of rows ends with op NULL. */
struct pipe_row {
    const struct pipe_op *op; /* the step, wait or barrier of the row */
    uint8_t stage, phase;     /* index of the stage, and of the phase */
    uint8_t part; /* index of the part of a step that is cut, or of the buffer that a wait is for */
    uint32_t needs;  /* bits of features; a variant must have all of them to have the row */
    uint32_t unless; /* bits of features; a variant with any of them does not have the row */
    /* List of rows that tables share, for pipe_part; the rows' stages and phases count from the
     * stage and phase of this row. NULL: the row has another op. */
    const struct pipe_row *rows;
};

/** Return the slots that row *r reads, or writes: bit n is slot n. */
static inline uint32_t pipe_reads(const struct pipe_row *r)
{
    return r->op->reads | r->op->reads_part << r->part;
}
static inline uint32_t pipe_writes(const struct pipe_row *r)
{
    return r->op->writes | r->op->writes_part << r->part;
}

/** A move: puts the row of step `op` in another stage and phase in kernels that have all features
 * of `needs`. Moves apply in the order of their list, which ends with op NULL. */
struct pipe_move {
    const struct pipe_op *op;
    uint8_t part, stage, phase;
    uint32_t needs;
};

/** The spread of other work over a loop's matrix instructions: members of struct tir_schedule with
 * the same names. 0: the pass's default. */
struct pipe_spread {
    uint8_t cover; /* work that matrix instructions cover: enum tir_cover */
    uint8_t read_ahead, read_group, transpose_ahead, late_ahead, exchange_ahead, result_after;
    uint8_t hoist_vgprs;
    uint8_t bare_last, holds, reads_apart;
};

/* A software pipeline: the table of its steps, and how the loop begins and ends. */
struct pipeline {
    const char *name;
    const char *when; /* text for drawings: the kernels that run the pipeline */
    const char *why;  /* text for drawings: the reason why these kernels are fast with it */
    const struct pipe_phase *phases;   /* phases of an iteration, in order */
    const struct pipe_buffer *buffers; /* buffers in LDS of the loop; NULL: the loop uses no LDS */
    const struct pipe_slot *slots;     /* values in registers */
    const struct pipe_row *rows;       /* the table, in program order */
    const struct pipe_move *moves; /* moves of steps in variants with some features; NULL: none */
    /* Names of the features for drawings, from bit 0 on, with NULL after the last. */
    const char *const *features;
    struct pipe_spread spread; /* spread of other work over matrix instructions */
    /* Number of roles: 1, or 2 equal groups of waves that run one group of phases apart. */
    uint8_t roles;
    /* 1: a SIMD has one wave, whose own reads, copies and scalar work run under its matrix
     * instructions. 0: a second wave's matrix instructions hide this work. */
    uint8_t hides_itself;
    /* Number of the prologue's first iterations with only the barriers of `rows`. Other iterations
     * of the prologue have a barrier after each group of phases. PIPE_ALL: all iterations. */
    uint8_t bare;
    /* Number of iterations after the loop. They run only the stages for which a tile is left. */
    uint8_t drain;
    /* Indices of phases: in the first iteration after the loop, rows of the lowest stage and phase
     * drain_from run in phase drain_to. */
    uint8_t drain_from, drain_to;
    /* 1: the two roles become one group of phases apart before the prologue's last iteration; 0:
     * after it. */
    uint8_t shift_early;
    /* 1: after the loop the waves wait for their stores to LDS and for a barrier, before the last
     * stage runs for the last time; 0: they do not wait. */
    uint8_t barrier_last;
    /* 1: at a barrier a wave waits for the signals of the barrier before, and signals this one, so
     * that waves may be one barrier apart. The template signals before the loop and waits after it.
     * 0: at a barrier a wave waits for the signals of this one. */
    uint8_t late;
};

/** The properties of a kernel that select rows of a pipeline's table. */
struct pipe_variant {
    uint32_t has;  /* bits of the features that the variant has */
    uint8_t waves; /* number of waves of a workgroup; 0: any number */
    /* Rows of stage delay_at and later stages run `delay` iterations later; delay 0: no rows are
     * delayed. */
    uint8_t delay_at, delay;
};

/** A pipeline's table as one kernel runs it: without the rows that the kernel does not have, and
 * with stages from 0 on. */
struct pipe_plan {
    const struct pipeline *of;          /* pipeline whose table the plan is made from */
    struct pipe_row row[PIPE_MAX_ROWS]; /* rows of the kernel, in program order */
    unsigned n_rows;
    uint32_t has;            /* bits of the features that the kernel has */
    uint8_t first_stage;     /* stage of the table that is stage 0 of the plan */
    uint8_t delay_at, delay; /* as in struct pipe_variant */
    uint8_t stages;          /* number of stages: one more than the highest stage of a row */
    /* Number of tiles in LDS of each buffer, the least that is safe; 0: the kernel does not use the
     * buffer. */
    uint8_t depth[PIPE_MAX_BUFFERS];
};

/* Functions of resolve.c: plans made from tables. */

/** Sets rows[] to the rows of the table of `p`. A row pipe_part is replaced by the rows of its
 * shared list. Returns the number of rows, at most PIPE_MAX_ROWS. */
unsigned pipe_list_rows(const struct pipeline *p, struct pipe_row rows[PIPE_MAX_ROWS]);

/** Sets *plan to the plan of table `p` for variant `v`, with the least safe depth of each buffer.
 * Returns false if the plan is unsafe or lower_pipeline cannot run it; the reason is in `why`. */
bool pipe_resolve(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan,
                  char why[PIPE_WHY]);

/** Sets *plan as pipe_resolve() does. The template has checked that the table suits the kernel: if
 * the plan is refused nevertheless, prints the reason and aborts the process. */
void pipe_choose(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan);

/** Returns the index in the plan of stage `stage` of the table. */
uint8_t pipe_stage(const struct pipe_plan *plan, unsigned stage);

/** True if the loop has barriers: from a row of the plan, or from two roles, which make each
 * boundary a barrier. */
bool pipe_has_barriers(const struct pipe_plan *plan);

/* Functions of check.c: the check of a plan. */

/** Sets plan->depth. Returns true if values, branches and LDS accesses of the plan are in a safe
 * order; if not, the reason is in `why`. */
bool pipe_check(struct pipe_plan *plan, char why[PIPE_WHY]);

/* Functions of build.c: ops and schedule of a plan's loop. */

/** Appends the loop's body, every row of the plan in program order. Steps get `context`. The
 * builder has no stage afterwards. */
void pipe_build(struct tir_builder *b, const struct pipe_plan *plan, void *context);

/** Returns the schedule of the plan's loop: the table's loop plan and its spread. */
struct tir_schedule pipe_schedule(const struct pipe_plan *plan);

/* Functions of draw.c: drawings of tables. */

/** Prints the table to `out` as a drawing of an iteration: a line for each phase, the older tiles
 * first. Rows with `needs` or `unless` are in parentheses. Lines begin with `prefix`. */
void pipe_draw(const struct pipeline *p, const char *prefix, FILE *out);

#endif
