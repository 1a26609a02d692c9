/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes a kernel's plan from a pipeline's table: it applies moves, drops rows that the
 * kernel lacks, and counts stages from the first one that is left.
 */
#include "templates/pipeline/pipeline.h"

#include <assert.h>
#include <stdlib.h>

enum { SIMDS = 4 /* SIMDs of a compute unit */ };

/* Sets stage and phase of *row by those moves of the table that apply to the kernel. `has`: bits of
 * the kernel's features. */
static void apply_moves(const struct pipeline *p, uint32_t has, struct pipe_row *row)
{
    for (const struct pipe_move *m = p->moves; m && m->op; m++) {
        if (m->op != row->op || m->part != row->part || m->needs & ~has)
            continue;
        row->stage = m->stage;
        row->phase = m->phase;
    }
}

/* Appends the rows of `list` to the n rows in rows[], and returns the new number of rows. Rows of a
 * shared list also get the conditions (needs, unless) of the row pipe_part `of` that includes the
 * list. Their stages and phases count from that row's. */
static unsigned append_rows(const struct pipe_row *list, struct pipe_row of, unsigned n,
                            struct pipe_row rows[PIPE_MAX_ROWS])
{
    for (const struct pipe_row *r = list; r->op; r++) {
        struct pipe_row row = *r;
        row.stage += of.stage;
        row.phase += of.phase;
        row.needs |= of.needs;
        row.unless |= of.unless;
        if (row.op->kind == PIPE_PART) {
            n = append_rows(row.rows, row, n, rows);
            continue;
        }
        assert(n < PIPE_MAX_ROWS);
        rows[n++] = row;
    }
    return n;
}

unsigned pipe_list_rows(const struct pipeline *p, struct pipe_row rows[PIPE_MAX_ROWS])
{
    return append_rows(p->rows, (struct pipe_row){0}, 0, rows);
}

/* Copies the table's rows that the variant's features select to the plan, with their moves
 * applied. */
static void copy_rows(struct pipe_plan *plan, const struct pipe_variant *v)
{
    struct pipe_row all[PIPE_MAX_ROWS];
    const unsigned n = pipe_list_rows(plan->of, all);
    for (unsigned i = 0; i < n; i++) {
        if ((all[i].needs & ~v->has) || (all[i].unless & v->has))
            continue;
        struct pipe_row *const row = &plan->row[plan->n_rows++];
        *row = all[i];
        apply_moves(plan->of, v->has, row);
    }
}

uint8_t pipe_stage(const struct pipe_plan *plan, unsigned stage)
{
    const unsigned later = plan->delay && stage >= plan->delay_at ? plan->delay : 0;
    return (uint8_t)(stage + later - plan->first_stage);
}

/* Changes the stages of the plan's rows so that they count from 0, and sets plan->stages. An empty
 * stage in the middle is a delay and keeps its number. */
static void number_stages(struct pipe_plan *plan)
{
    plan->first_stage = UINT8_MAX;
    for (unsigned i = 0; i < plan->n_rows; i++)
        if (plan->row[i].stage < plan->first_stage)
            plan->first_stage = plan->row[i].stage;
    for (unsigned i = 0; i < plan->n_rows; i++) {
        struct pipe_row *const row = &plan->row[i];
        row->stage = pipe_stage(plan, row->stage);
        if (row->stage >= plan->stages)
            plan->stages = row->stage + 1;
    }
}

bool pipe_has_barriers(const struct pipe_plan *plan)
{
    for (unsigned i = 0; i < plan->n_rows; i++)
        if (plan->row[i].op->kind == PIPE_BARRIER)
            return true;
    return plan->of->roles > 1;
}

bool pipe_resolve(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan,
                  char why[PIPE_WHY])
{
    *plan = (struct pipe_plan){.of = p, .has = v->has, .delay_at = v->delay_at, .delay = v->delay};
    if (v->waves && v->waves < p->roles * SIMDS) {
        snprintf(why, PIPE_WHY,
                 "%s has %u roles, and a SIMD needs a wave of each: %u waves, not %u", p->name,
                 p->roles, p->roles * SIMDS, v->waves);
        return false;
    }
    copy_rows(plan, v);
    number_stages(plan);
    return pipe_check(plan, why);
}

void pipe_choose(const struct pipeline *p, const struct pipe_variant *v, struct pipe_plan *plan)
{
    char why[PIPE_WHY];
    if (pipe_resolve(p, v, plan, why))
        return;
    fprintf(stderr, "pipeline %s, features %#x: %s\n", p->name, v->has, why);
    abort();
}
