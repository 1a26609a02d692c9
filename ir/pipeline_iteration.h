/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares one iteration of a pipelined loop, for lower_pipeline.c: its ops in order, the
 * values that it carries to the next one, and its emission for the tiles of its stages.
 */
#ifndef IR_PIPELINE_ITERATION_H
#define IR_PIPELINE_ITERATION_H

#include "ir/builder.h"
#include "ir/passes.h"

/* A value that an iteration of the steady loop uses from an earlier one: `v` of `age` iterations
 * ago. It is a parameter of the steady loop. */
struct tir_carry {
    struct tir_value v;
    unsigned age;
};

/* The rotation of one pipelined loop: its ops and values by stage. */
struct tir_rotation {
    struct tir_func *f;
    const struct tir_schedule *schedule;
    struct tir_op *loop;
    struct tir_block *body;
    const struct tir_op *yield;
    unsigned last; /* number of the last stage */

    struct tir_ref *order; /* the body's ops in the order of an iteration */
    unsigned n_order;
    struct tir_ref *held; /* ops before the loop that have a stage, for the prologue */
    unsigned n_held;
    struct tir_ref *after; /* ops after the loop that have a stage */
    unsigned n_after;
    /* by index in `order`: true if the op is emitted; all true except in loops that only copy */
    bool *kept;
    bool *is_op_value; /* by value id: defined by an op of the body */
    unsigned max_id;   /* one past the largest value id of the function before the rotation */

    struct tir_carry *carries;
    unsigned n_carries;

    /* iteration[a][id] is the instance of value id from `a` iterations ago. a = 0 is the iteration
     * being emitted. */
    struct tir_value *iteration[TIR_MAX_STAGES + 2];
};
/* One iteration being emitted, and the tile on which each stage works. */
struct tir_iteration {
    struct tir_rotation *r;
    struct tir_builder b;
    struct tir_value newest;               /* tile index of stage 0 */
    struct tir_value tile[TIR_MAX_STAGES]; /* by stage: index of its tile */
    int first_stage, last_stage; /* stages that are emitted: from first_stage to last_stage */
    /* iterations before this one; TIR_MAX_STAGES + 1 in the steady state and after it */
    unsigned number;
    struct tir_value *nested; /* by value id of an op in a nested block: its clone */
};

/* Returns the pipeline stage of `op`, 0 if it has none. */
static inline unsigned tir_stage_of(const struct tir_op *op)
{
    return op->stage == TIR_NO_STAGE ? 0 : op->stage;
}

/** Analyses a loop for rotation and returns the result; nothing is emitted yet. `last` is the
 * loop's last stage. With `only_copies` the later emission contains only copies to LDS, LDS writes,
 * waits, barriers, and ops that these need. */
struct tir_rotation tir_begin_rotation(struct tir_func *f, const struct tir_schedule *s,
                                       struct tir_op *loop, unsigned last, bool only_copies);
/** Returns the stage in which an op of the body, or of a nested block, defines v. */
unsigned tir_def_stage(const struct tir_rotation *r, struct tir_value v);
/** Moves the ops of stage `stage` and phase `from` to phase `to`, and sorts the iteration again. */
void tir_move_phase(struct tir_rotation *r, unsigned stage, unsigned from, unsigned to);
/** Appends to `block` the ops from before the loop whose stage is `number` and whose phase is
 * `phase` or less. Ops appended earlier are not repeated: their stage was removed. */
void tir_append_held(struct tir_rotation *r, struct tir_block *block, unsigned number, int phase);
/** Appends an iteration at e->b: with `steady` as in the steady state, else as in the prologue. Ops
 * of stages outside first_stage to last_stage are left out. */
void tir_emit_iteration(struct tir_iteration *e, bool steady);
/** Ages all instances by one iteration: the iteration just emitted becomes iteration[1], and
 * iteration[0] is empty. */
void tir_age_iterations(struct tir_rotation *r);
/** Allocates `size` zeroed bytes that are freed with the function. */
void *tir_alloc_clear(struct tir_func *f, size_t size);

#endif
