/* SPDX-License-Identifier: Apache-2.0
 *
 * A software pipeline as a value: a table of rows {step, stage, phase} over phases, LDS buffers and
 * roles of waves. The table is the schedule; the steps are the maths. So a schedule can be drawn,
 * proved safe and changed without touching a step.
 *
 *     stage   which tile of the loop a step works on: k is k iterations older than the newest
 *     phase   the step's slot in an iteration; phases run in the order of the table
 *     group   phases joined by `open`; between two groups is a boundary
 *     role    an equal share of the waves; role 1 runs one group after role 0
 *
 * With two roles every boundary is a barrier. With one role a barrier exists only where the
 * table has a row `pipe_barrier`. The pass lower_pipeline (ir/) rotates the loop and emits
 * prologue, steady state and epilogue.
 *
 * The trap: rows are in program order, and that order is part of the kernel. Steps of one stage
 * and one phase run in it.
 */
#ifndef TEMPLATES_PIPELINE_PIPELINE_H
#define TEMPLATES_PIPELINE_PIPELINE_H

#include <stdio.h>

#include "ir/builder.h"
#include "ir/passes.h"

enum {
    PIPE_MAX_ROWS = 64,
    PIPE_MAX_BUFFERS = 6,
    PIPE_WHY = 160,    /* bytes of a refusal */
    PIPE_UNSAFE = 255, /* depth of a buffer that no number of tiles makes safe */
    PIPE_ALL = 255,    /* pipeline.bare: all iterations of the prologue */
};

/** Kinds of phases: memory and vector work, or matrix instructions with other work under them. */
enum pipe_kind { PIPE_MEMORY, PIPE_MATRIX };

/** A phase of an iteration. A list ends with name NULL. */
struct pipe_phase {
    const char *name;
    uint8_t kind;     /* enum pipe_kind */
    uint8_t open;     /* 1: no boundary at its end; it belongs to the group of the next phase */
    uint8_t branches; /* 1: steps with branches may be after matrix instructions, whose cover then
                         has only what is before the branch */
};

/** The waves that read what a wave writes to a buffer: all of its workgroup, or itself only. */
enum pipe_scope { PIPE_WORKGROUP, PIPE_WAVE };

/** A buffer of tiles in LDS. A list ends with name NULL. A number of a buffer that only
 * other pipelines of the same steps use has an empty name. */
struct pipe_buffer {
    const char *name;
    uint8_t queue; /* number of the wait queue that counts its asynchronous copies */
    uint8_t scope; /* enum pipe_scope */
    uint8_t with; /* 1 + the buffer whose wait covers this one's copies, which are older; 0: none */
    uint8_t early; /* tiles from the one that a writing step is at to the one that it writes; the
                      code before the loop writes the first ones */
    uint8_t early_wait; /* tiles from the one that a waiting step is at to the one whose copies it
                           waits for */
};

/** A value in registers that steps hand to each other. A list ends with name NULL. */
struct pipe_slot {
    const char *name;
    uint8_t carried; /* 1: loop-carried: an iteration starts with the value of the one before */
};

/** Kinds of ops: steps, and the waits of the pipeline itself. */
enum pipe_op_kind {
    PIPE_STEP,         /* calls build() or build_part() */
    PIPE_AWAIT,        /* waits for this wave's asynchronous copies to buffer `part` */
    PIPE_AWAIT_STORES, /* waits for its stores to buffer `part`, and for its reads of LDS */
    PIPE_RELEASE,      /* waits for its reads of LDS: they are in registers */
    PIPE_BARRIER,      /* a barrier */
    PIPE_PART,         /* the rows of another list, pipe_row.rows */
};

/** Properties of steps that the checker needs. */
enum pipe_flags {
    PIPE_BRANCH = 1,  /* contains a branch, which ends the cover of matrix instructions */
    PIPE_PRODUCT = 2, /* contains matrix instructions */
    PIPE_ASYNC = 4,   /* writes LDS by copies that the wave does not wait for */
};

/** A step: what it is called, what it touches, how it is built. */
struct pipe_op {
    const char *name; /* in drawings and refusals */
    /** Appends the step's ops, with the row's stage and phase set. NULL: see build_part. */
    void (*build)(void *context);
    uint32_t reads, writes; /* bits of slots */
    /** Appends a part of a step that is cut into parts: pipe_row.part. */
    void (*build_part)(void *context, unsigned part);
    uint32_t reads_part, writes_part; /* slots of part 0; part n has the bits n places higher */
    uint8_t lds_reads, lds_writes;    /* bits of buffers */
    uint8_t flags;                    /* of enum pipe_flags */
    uint8_t kind;                     /* enum pipe_op_kind */
};

extern const struct pipe_op pipe_await, pipe_await_stores, pipe_release, pipe_barrier, pipe_part;

/** A row of the table. A list ends with op NULL. */
struct pipe_row {
    const struct pipe_op *op;
    uint8_t stage, phase;
    uint8_t part;                /* which piece of a cut step; the buffer of pipe_await */
    uint32_t needs;              /* bits of the variant's features, and the row wants all */
    uint32_t unless;             /* bits of features: each of them drops the row */
    const struct pipe_row *rows; /* of pipe_part: a list that tables share, whose stages and phases
                                    count from this row's */
};

/** Returns the slots that a row reads, or writes. */
static inline uint32_t pipe_reads(const struct pipe_row *r)
{
    return r->op->reads | r->op->reads_part << r->part;
}
static inline uint32_t pipe_writes(const struct pipe_row *r)
{
    return r->op->writes | r->op->writes_part << r->part;
}

/** Puts a step elsewhere in kernels that have all features of `needs`. Moves apply in the order of
 * their list, which ends with op NULL. */
struct pipe_move {
    const struct pipe_op *op;
    uint8_t part, stage, phase;
    uint32_t needs;
};

/** The spread of other work over a loop's matrix instructions: members of struct tir_schedule with
 * the same names. 0: the pass's default. */
struct pipe_spread {
    uint8_t cover; /* enum tir_cover */
    uint8_t read_ahead, transpose_ahead, late_ahead, exchange_ahead, result_after;
    uint8_t hoist_vgprs;
    uint8_t bare_last, holds, reads_apart;
};

struct pipeline {
    const char *name;
    const char *when; /* the kernels that it is for */
    const char *why;  /* what makes it fast there */
    const struct pipe_phase *phases;
    const struct pipe_buffer *buffers; /* NULL: nothing passes through LDS in the loop */
    const struct pipe_slot *slots;
    const struct pipe_row *rows;
    const struct pipe_move *moves; /* NULL: none */
    const char *const *features;   /* names of the bits of `needs`, for drawings; ends with NULL */
    struct pipe_spread spread;
    uint8_t roles;        /* 1 or 2 equal groups of waves, each a group of phases apart */
    uint8_t hides_itself; /* 1: a SIMD has one wave, whose own reads, copies and scalar work
                                    hide under its matrix instructions */
    uint8_t bare;  /* first iterations of the prologue that have only the barriers of `rows`, none
                      after each group; PIPE_ALL: all iterations of the prologue */
    uint8_t drain; /* iterations after the loop that run only the stages that have a tile */
    uint8_t drain_from, drain_to; /* in the first of these, the lowest stage's rows of phase
                                     drain_from run in phase drain_to */
    uint8_t shift_early;  /* 1: two roles part before the prologue's last iteration, not after it */
    uint8_t barrier_last; /* 1: code after the loop waits for stores to LDS and has a barrier,
                             before the last stage runs for the last time */
};

/** The variant of a table that a kernel runs. */
struct pipe_variant {
    uint32_t has;            /* bits of features */
    uint8_t waves;           /* of a workgroup; 0: any number */
    uint8_t delay_at, delay; /* rows from stage delay_at on run `delay` iterations later; 0: none */
};

/** A table as one kernel runs it: rows that it lacks are dropped, stages count from 0. */
struct pipe_plan {
    const struct pipeline *of;
    struct pipe_row row[PIPE_MAX_ROWS]; /* in program order */
    unsigned n_rows;
    uint32_t has;        /* the features of the kernel */
    uint8_t first_stage; /* of the table: stage 0 of the plan */
    uint8_t delay_at, delay;
    uint8_t stages; /* number of stages: one more than the highest stage of a row */
    uint8_t depth[PIPE_MAX_BUFFERS]; /* tiles in LDS: the least that is safe; 0: it is not used */
};

/* resolve.c */

/** Lists the rows of a table in `rows`, with the rows of a shared list in place of its pipe_part.
 * Returns their number, at most PIPE_MAX_ROWS. */
unsigned pipe_list_rows(const struct pipeline *p, struct pipe_row rows[PIPE_MAX_ROWS]);

/** Makes a plan of a table, checks it, and derives the depth of its buffers. False, with a sentence
 * in `why`, if the plan is unsafe or lower_pipeline cannot run it. */
bool pipe_resolve(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan,
                  char why[PIPE_WHY]);

/** Makes a plan of the table that the template has chosen for the variant, as pipe_resolve() does.
 * If it is refused, prints the reason and aborts the process. */
void pipe_choose(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan);

/** Returns the plan's number of a stage of the table. */
uint8_t pipe_stage(const struct pipe_plan *plan, unsigned stage);

/** True if a row of the plan is a barrier, or roles make boundaries barriers. */
bool pipe_has_barriers(const struct pipe_plan *plan);

/* check.c */

/** Checks the order of values, branches and LDS accesses, and sets plan->depth. False, with a
 * sentence in `why`, if the plan is unsafe. */
bool pipe_check(struct pipe_plan *plan, char why[PIPE_WHY]);

/** Returns the group of a phase: phases joined by `open` have one number. */
unsigned pipe_group(const struct pipeline *p, unsigned phase);

/* build.c */

/** Appends the loop's body: every row in program order. The builder's stage is none afterwards. */
void pipe_build(struct tir_builder *b, const struct pipe_plan *plan, void *context);

/** Returns the schedule of a loop: the table's loop plan and its spread. */
struct tir_schedule pipe_schedule(const struct pipe_plan *plan);

/* draw.c */

/** Prints the table as a drawing of an iteration: a line for each phase, the older tiles first.
 * Rows with `needs` are in parentheses. Lines begin with `prefix`. */
void pipe_draw(const struct pipeline *p, const char *prefix, FILE *out);

#endif
