/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is dead code elimination. It drops ops without effect whose results are unused, and
 * values that loops and ifs carry without a use:
 *
 *     %3, %4 = for %i = %0 to %n step %1 with (%5 = %a, %6 = %b)      (%4 and %6 are unused)
 *  -> %3 = for %i = %0 to %n step %1 with (%5 = %a)
 *
 * A carried value that feeds only itself is dead, but its use count is not 0. So liveness is marked
 * from the ops with effects. */
#include <stdlib.h>

#include "ir/arena.h"
#include "ir/passes.h"

struct marks {
    struct tir_func *f;
    /* By id: true if the value, or the op, is live. */
    bool *values, *ops;
    struct tir_block **homes; /* by op id: the block that contains the op */
    /* Queue of live values whose definitions have not been marked yet. */
    struct tir_value *work;
    uint32_t n_work;
};

/* True if `op` writes, copies or fences, so that it stays even without uses. */
static bool has_effect(const struct tir_op *op)
{
    return tir_ops[op->opcode].flags & (TIR_WRITES | TIR_ASYNC | TIR_FENCE) &&
           op->opcode != TIR_yield;
}

/* Marks value `v` as used and queues it, once. */
static void mark_value(struct marks *m, struct tir_value v)
{
    if (m->values[v.id])
        return;
    m->values[v.id] = true;
    m->work[m->n_work++] = v;
}

/* Marks the op and the ops that contain it, with the operands of their control flow. */
static void mark_op(struct marks *m, struct tir_ref r)
{
    while (r.id && !m->ops[r.id]) {
        m->ops[r.id] = true;
        const struct tir_op *const op = tir_op(m->f, r);
        const uint32_t n = op->opcode == TIR_for ? 3 : op->n_operands;
        for (uint32_t i = 0; i < n; i++)
            mark_value(m, op->operands[i]);
        r = m->homes[r.id]->owner;
    }
}

/* Returns the last op of block `b`. */
static struct tir_op *last_op(struct tir_func *f, const struct tir_block *b)
{
    return tir_op(f, b->ops[b->n_ops - 1]);
}

/* Marks result i of a for or if as live, and with it the values that flow into it. */
static void mark_slot(struct marks *m, const struct tir_op *op, uint32_t i)
{
    for (int k = 0; k < 2; k++)
        if (op->blocks[k])
            mark_value(m, last_op(m->f, op->blocks[k])->operands[i]);
    if (op->opcode == TIR_for) {
        mark_value(m, op->operands[3 + i]);
        mark_value(m, op->blocks[0]->params[1 + i]);
    }
    mark_value(m, tir_result(op, i));
}

/* Marks what value `v` depends on: its op, or for a block parameter its loop and the values yielded
 * to it. */
static void flow_back(struct marks *m, struct tir_value v)
{
    const struct tir_value_info *const info = &m->f->values[v.id];
    const struct tir_ref def = info->def.id ? info->def : info->block->owner;
    const struct tir_op *const op = tir_op(m->f, def);
    mark_op(m, def);
    if (info->def.id && op->blocks[0]) {
        mark_slot(m, op, v.id - op->result.id);
    } else if (!info->def.id) {
        for (uint32_t i = 1; i < info->block->n_params; i++)
            if (info->block->params[i].id == v.id)
                mark_slot(m, op, i - 1);
    }
}

/* Stores the block of an op of the walk, and marks an op with an effect. */
static bool note_home(void *context, struct tir_block *b, struct tir_ref r)
{
    struct marks *const m = context;
    m->homes[r.id] = b;
    if (has_effect(tir_op(m->f, r)))
        mark_op(m, r);
    return false;
}

/* Removes values[first + i] for each i < n with live[i] false, in place. Returns the number of
 * values left, the first `first` included. */
static uint32_t keep_live(struct tir_value *values, uint32_t first, uint32_t n, const bool *live)
{
    uint32_t kept = first;
    for (uint32_t i = 0; i < n; i++)
        if (live[i])
            values[kept++] = values[first + i];
    return kept;
}

/* Drops the dead results of a for or if. replaced[] maps an old result to its new value. */
static bool prune_slots(struct marks *m, struct tir_ref r, struct tir_value *replaced)
{
    struct tir_op *const op = tir_op(m->f, r);
    const uint32_t n = op->n_results;
    bool *const live = tir_scratch(n, sizeof(*live));
    uint32_t n_live = 0;
    for (uint32_t i = 0; i < n; i++)
        n_live += live[i] = m->values[op->result.id + i];
    if (n_live < n) {
        const struct tir_value old = op->result;
        op->n_results = 0;
        for (uint32_t i = 0; i < n; i++)
            if (live[i]) {
                const struct tir_value v = {old.id + i};
                replaced[v.id] = tir_add_result(m->f, r, tir_typeof(m->f, v));
                tir_name(m->f, replaced[v.id], m->f->values[v.id].name);
            }
        for (int k = 0; k < 2; k++)
            if (op->blocks[k]) {
                struct tir_op *const yield = last_op(m->f, op->blocks[k]);
                yield->n_operands = keep_live(yield->operands, 0, n, live);
            }
        if (op->opcode == TIR_for) {
            op->n_operands = keep_live(op->operands, 3, n, live);
            op->blocks[0]->n_params = keep_live(op->blocks[0]->params, 1, n, live);
        }
    }
    free(live);
    return n_live < n;
}

/* Removes the unmarked ops of block `b` and the unmarked values that its loops carry. Returns
 * whether anything changed. */
static bool sweep(struct marks *m, struct tir_block *b, struct tir_value *replaced)
{
    bool progress = false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_ref r = b->ops[i];
        const struct tir_op *const op = tir_op(m->f, r);
        if (!m->ops[r.id] && op->opcode != TIR_yield)
            continue;
        b->ops[kept++] = r;
        if (!op->blocks[0])
            continue;
        progress |= prune_slots(m, r, replaced);
        for (int k = 0; k < 2; k++)
            if (op->blocks[k])
                progress |= sweep(m, op->blocks[k], replaced);
    }
    progress |= kept < b->n_ops;
    b->n_ops = kept;
    return progress;
}

struct renaming {
    struct tir_func *f;
    const struct tir_value *replaced;
};

/* Renames the operands of an op of the walk. */
static bool rename_operands(void *context, struct tir_block *b, struct tir_ref ref)
{
    const struct renaming *const r = context;
    struct tir_op *const op = tir_op(r->f, ref);
    (void)b;
    for (uint32_t k = 0; k < op->n_operands; k++)
        if (r->replaced[op->operands[k].id].id)
            op->operands[k] = r->replaced[op->operands[k].id];
    return false;
}

bool tir_opt_dce(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    struct marks m = {
        .f = f,
        .values = tir_scratch(f->n_values, sizeof(*m.values)),
        .ops = tir_scratch(f->n_ops, sizeof(*m.ops)),
        .homes = tir_scratch(f->n_ops, sizeof(*m.homes)),
        .work = tir_scratch(f->n_values, sizeof(*m.work)),
    };
    struct tir_value *const replaced = tir_scratch(f->n_values, sizeof(*replaced));
    tir_walk(f, f->body, note_home, &m);
    while (m.n_work)
        flow_back(&m, m.work[--m.n_work]);
    const bool progress = sweep(&m, f->body, replaced);
    tir_walk(f, f->body, rename_operands, &(struct renaming){f, replaced});
    free(m.values);
    free(m.ops);
    free(m.homes);
    free(m.work);
    free(replaced);
    return progress;
}
