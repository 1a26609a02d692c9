/* SPDX-License-Identifier: Apache-2.0
 *
 * This file appends the body of a pipelined loop, row by row, and translates the table for
 * lower_pipeline.
 */
#include "templates/pipeline/pipeline.h"

const struct pipe_op pipe_await = {.name = "here", .kind = PIPE_AWAIT};
const struct pipe_op pipe_await_stores = {.name = "here", .kind = PIPE_AWAIT_STORES};
const struct pipe_op pipe_release = {.name = "free", .kind = PIPE_RELEASE};
const struct pipe_op pipe_barrier = {.name = "barrier", .kind = PIPE_BARRIER};
const struct pipe_op pipe_part = {.name = "shared rows", .kind = PIPE_PART};

/* Appends the ops of a row's step, or of the step's part that the row names. */
static void build_step(const struct pipe_row *row, void *context)
{
    if (row->op->build)
        row->op->build(context);
    else
        row->op->build_part(context, row->part);
}

/* Appends the ops of one row: its step, wait or barrier. */
static void build_row(struct tir_builder *b, const struct pipeline *p, const struct pipe_row *row,
                      void *context)
{
    switch (row->op->kind) {
    case PIPE_STEP: build_step(row, context); break;
    case PIPE_AWAIT:
        tir_wait(b, p->buffers[row->part].queue,
                 p->buffers[row->part].early - p->buffers[row->part].early_wait);
        break;
    case PIPE_AWAIT_STORES:
    case PIPE_RELEASE: tir_wait(b, TIR_LDS_WRITES, 0); break;
    case PIPE_BARRIER:
        if (p->late) {
            tir_barrier_wait(b);
            tir_barrier_signal(b);
        } else {
            tir_barrier(b);
        }
        break;
    case PIPE_PART: break; /* a plan has no rows of this kind: pipe_resolve() replaces them */
    }
}

void pipe_build(struct tir_builder *b, const struct pipe_plan *plan, void *context)
{
    for (unsigned i = 0; i < plan->n_rows; i++) {
        b->stage = plan->row[i].stage;
        b->phase = plan->row[i].phase;
        build_row(b, plan->of, &plan->row[i], context);
    }
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
}

/* Returns the description of the plan's loop (stages, roles, prologue, drain) for
 * lower_pipeline. */
static struct tir_loop_plan loop_plan(const struct pipe_plan *plan)
{
    const struct pipeline *const p = plan->of;
    struct tir_loop_plan loop = {
        .stages = plan->stages,
        .roles = p->roles,
        .barriers = pipe_has_barriers(plan) && p->bare != PIPE_ALL ? TIR_BARRIERS_PROLOGUE
                                                                   : TIR_BARRIERS_OPS,
        .bare_iterations = p->bare == PIPE_ALL ? 0 : p->bare,
        .shift_early = p->shift_early,
        .drain = p->drain,
        .drain_from = p->drain_from,
        .drain_to = p->drain_to,
        .one_wave = p->hides_itself,
    };
    for (unsigned i = 0; p->phases[i].name; i++) {
        if (p->phases[i].kind == PIPE_MATRIX)
            loop.matrix_phases |= (uint8_t)(1u << i);
        if (p->phases[i].open)
            loop.open_phases |= (uint8_t)(1u << i);
    }
    return loop;
}

struct tir_schedule pipe_schedule(const struct pipe_plan *plan)
{
    const struct pipe_spread *const s = &plan->of->spread;
    return (struct tir_schedule){
        .loop = loop_plan(plan),
        .cover = s->cover,
        .bare_last = s->bare_last,
        .read_ahead = s->read_ahead,
        .read_group = s->read_group,
        .transpose_ahead = s->transpose_ahead,
        .late_ahead = s->late_ahead,
        .exchange_ahead = s->exchange_ahead,
        .result_after = s->result_after,
        .hoist_vgprs = s->hoist_vgprs,
        .holds = s->holds,
        .reads_apart = s->reads_apart,
    };
}
