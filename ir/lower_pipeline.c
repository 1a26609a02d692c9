/* SPDX-License-Identifier: Apache-2.0
 *
 * Software pipelining by loop rotation. A loop whose ops carry stages 0..S,
 *
 *     for i in 0..n { a(i) @0; b(i) @1; c(i) @2 }
 *
 * becomes, with S = 2,
 *
 *     a(0); a(1), b(0);                              prologue, S iterations
 *     for i in 0..n-1 { c(i); b(i+1); a(i+2) }       steady state
 *     c(n-1)                                         epilogue: only the last stage
 *
 * An iteration runs phase by phase, older tiles first, and each phase ends with its waits and
 * barriers. What one stage hands to a later one becomes a carried value of the loop. Barriers of
 * several stages in one phase become one barrier, after the waits of all of them.
 *
 * The trap: every stage but the last two runs for tiles past the bound (a(n) above), and the whole
 * prologue runs even if n is 1. So stages 0..S-2 must be harmless for tiles that do not exist, and
 * n must be at least 1. Templates keep both promises: early stages only load, and loads past the
 * end of a resource read 0. The verifier refuses what this pass does not do: a second loop with
 * stages, stages inside of a loop that has them, too many of either.
 *
 * An op before the loop may have a stage too. It runs before the prologue's iteration in which that
 * stage begins, or in that iteration before its own phase. So a load that the loop reads once may
 * be in flight while the first tiles' earlier stages wait. An op after the loop that has a stage
 * runs before the epilogue: it uses nothing that the last stage makes.
 *
 * With `drain` the last iterations of the steady state are after the loop. They lack the stages
 * that have no tile any more, so that no load is issued in vain. With S = 3 and drain 1:
 *
 *     for i in 0..n-2 { d(i); c(i+1); b(i+2); a(i+3) }
 *     if n > 1 { d(n-2); c(n-1) }
 *     d(n-1)
 *
 * The first of them may run one phase's ops in another phase: `drain_from`, `drain_to`. Such loops
 * copy nothing to LDS, whose waits count what steady iterations issue.
 *
 * `only_copies` before the loop makes two loops of it, and a branch. Waves for which it is true run
 * a loop of copies, LDS writes, waits and barriers, and of what these need. It has all barriers, so
 * that such waves meet the others, which run the whole loop.
 *
 * A `wait` means that the copy of this tile, or of one `pending` tiles older, has arrived. This
 * pass counts how many newer copies of its group are in flight by then. No op has a stage
 * afterwards.
 */
#include "ir/pipeline_iteration.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Delays the upper (or lower) half of the waves by one phase: an extra barrier for that half. */
static void offset_groups(struct tir_builder *b, bool upper)
{
    const struct tir_value half = tir_i32(b, (int)b->f->waves / 2);
    const struct tir_value wave = tir_wave_id(b);
    struct tir_if s = tir_begin_if(b, upper ? tir_cmp_ge(b, wave, half) : tir_cmp_lt(b, wave, half),
                                   false, NULL, 0);
    tir_barrier(b);
    tir_end_if(b, &s, NULL);
}

/* Removes ops with a stage from before the loop at `index` and holds them for the prologue. */
static void hold(struct tir_rotation *r, struct tir_block *outer, unsigned index)
{
    unsigned kept = 0;
    r->held = tir_alloc(r->f, (index + 1) * sizeof(r->held[0]));
    for (unsigned i = 0; i < index; i++) {
        const struct tir_ref ref = outer->ops[i];
        if (tir_op(r->f, ref)->stage == TIR_NO_STAGE)
            outer->ops[kept++] = ref;
        else
            r->held[r->n_held++] = ref;
    }
    outer->n_ops = kept;
}

/* Emits the prologue. Its last iteration is the first that consumes loaded data. */
static void emit_prologue(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    for (unsigned k = 0; k < r->last; k++) {
        tir_append_held(r, b->block, k, 0);
        if (r->schedule->loop.shift_early && k + 1 == r->last)
            offset_groups(b, true);
        struct tir_iteration e = {.r = r,
                                  .b = *b,
                                  .newest = tir_i32(b, (int)k),
                                  .number = k,
                                  .last_stage = (int)k,
                                  .nested = nested};
        e.b = *b;
        tir_emit_iteration(&e, false);
        *b = e.b;
        tir_age_iterations(r);
    }
}

/* Sets the instances of carried values that the next iteration uses to `carried`, in the order of
 * r->carries. */
static void set_carried(struct tir_rotation *r, const struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        r->iteration[r->carries[i].age][r->carries[i].v.id] = carried[i];
}

/* Collects the values that the rotated loop carries, from the iterations that computed them. */
static void get_carried(const struct tir_rotation *r, struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        carried[i] = r->iteration[r->carries[i].age][r->carries[i].v.id];
}

/* Emits one iteration of the steady state. All stages work on different tiles; `newest` is the tile
 * index of stage 0. */
static void emit_steady_iteration(struct tir_rotation *r, struct tir_builder *b,
                                  struct tir_value newest, struct tir_value *nested)
{
    struct tir_iteration e = {.r = r,
                              .b = *b,
                              .newest = newest,
                              .number = TIR_MAX_STAGES + 1,
                              .last_stage = (int)r->last,
                              .nested = nested};
    tir_emit_iteration(&e, true);
    *b = e.b;
    tir_age_iterations(r);
}

/* Emits the extra iteration for an odd number of iterations, if the loop is unrolled by two.
 * `bound` is the steady loop's bound. */
static void emit_odd_iteration(struct tir_rotation *r, struct tir_builder *b,
                               struct tir_value bound, struct tir_value *carried,
                               struct tir_value *nested)
{
    struct tir_type *types = tir_alloc(r->f, (r->n_carries + 1) * sizeof(types[0]));
    struct tir_value *now = tir_alloc(r->f, (r->n_carries + 1) * sizeof(now[0]));
    for (unsigned i = 0; i < r->n_carries; i++)
        types[i] = tir_typeof(r->f, carried[i]);
    const struct tir_value iterations = tir_sub(b, bound, tir_i32(b, (int)r->last));
    const struct tir_value odd =
        tir_cmp_ne(b, tir_and(b, iterations, tir_i32(b, 1)), tir_i32(b, 0));
    struct tir_if branch = tir_begin_if(b, odd, false, types, r->n_carries);
    emit_steady_iteration(r, b, tir_sub(b, bound, tir_i32(b, 1)), nested);
    get_carried(r, now);
    tir_else(b, &branch, now);
    tir_end_if(b, &branch, carried);
    set_carried(r, carried);
}

/* Emits the loop of the steady state with its carried values; the body contains two iterations if
 * it is unrolled. */
static void emit_steady(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    struct tir_func *f = r->f;
    const bool pairs = r->schedule->loop.unroll > 1;
    struct tir_value *carried = tir_alloc(f, (r->n_carries + 1) * sizeof(carried[0]));
    for (unsigned i = 0; i < r->n_carries; i++) {
        carried[i] = r->iteration[r->carries[i].age][r->carries[i].v.id];
        /* Only the last stage makes this carried value: the first tile starts from the loop's own
         * initial value. */
        for (unsigned k = 0; !carried[i].id && k < r->yield->n_operands; k++)
            if (r->yield->operands[k].id == r->carries[i].v.id)
                carried[i] = r->loop->operands[3 + k];
        assert(carried[i].id);
    }
    const struct tir_value first = tir_i32(b, (int)r->last);
    const int late = r->schedule->loop.drain;
    const struct tir_value bound =
        tir_add(b, r->loop->operands[1], tir_i32(b, (int)r->last - 1 - late));
    if (r->schedule->loop_at)
        tir_align_code(b, r->schedule->loop_at - 1u, TIR_FETCH_WORDS);
    struct tir_loop loop = tir_begin_for(b, first, pairs ? tir_sub(b, bound, tir_i32(b, 1)) : bound,
                                         tir_i32(b, pairs ? 2 : 1), carried, r->n_carries);
    set_carried(r, carried);
    emit_steady_iteration(r, b, loop.index, nested);
    if (pairs)
        emit_steady_iteration(r, b, tir_add(b, loop.index, tir_i32(b, 1)), nested);
    get_carried(r, carried);
    tir_end_for(b, &loop, carried, r->n_carries);
    set_carried(r, carried);
    if (pairs)
        emit_odd_iteration(r, b, bound, carried, nested);
}

/* Drops carried values that belong to tiles beyond the last. `left` iterations follow the next
 * one. */
static void forget_carries(struct tir_rotation *r, unsigned left)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n_carries; i++)
        if (tir_def_stage(r, r->carries[i].v) + r->carries[i].age > r->last - left)
            r->carries[n++] = r->carries[i];
    r->n_carries = n;
}

/* Emits an iteration after the loop, with `left` more to follow, the epilogue included. Stages
 * without a tile are left out, and so are tiles that the prologue has handled. */
static void emit_drained_iteration(struct tir_rotation *r, struct tir_builder *b, unsigned left,
                                   struct tir_value *nested)
{
    struct tir_type *const types = tir_alloc(r->f, (r->n_carries + 1) * sizeof(types[0]));
    struct tir_value *const carried = tir_alloc(r->f, (r->n_carries + 1) * sizeof(carried[0]));
    struct tir_value *const now = tir_alloc(r->f, (r->n_carries + 1) * sizeof(now[0]));
    const struct tir_value tiles = r->loop->operands[1];
    forget_carries(r, left);
    get_carried(r, carried);
    for (unsigned i = 0; i < r->n_carries; i++)
        types[i] = tir_typeof(r->f, carried[i]);
    struct tir_if branch =
        tir_begin_if(b, tir_cmp_gt(b, tiles, tir_i32(b, (int)left)), false, types, r->n_carries);
    struct tir_iteration e = {.r = r,
                              .b = *b,
                              .newest = tir_add(b, tiles, tir_i32(b, (int)(r->last - 1 - left))),
                              .number = TIR_MAX_STAGES + 1,
                              .first_stage = (int)(r->last - left),
                              .last_stage = (int)r->last,
                              .nested = nested};
    e.b = *b;
    tir_emit_iteration(&e, true);
    *b = e.b;
    tir_age_iterations(r);
    get_carried(r, now);
    tir_else(b, &branch, now);
    tir_end_if(b, &branch, carried);
    set_carried(r, carried);
}

/* Emits iterations after the loop in which the first stages have no tile any more. */
static void emit_drain(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    const struct tir_schedule *const s = r->schedule;
    assert(!s->loop.drain || (s->loop.unroll < 2 && s->loop.drain < r->last));
    if (s->loop.drain)
        tir_move_phase(r, r->last - s->loop.drain, s->loop.drain_from, s->loop.drain_to);
    for (unsigned left = s->loop.drain; left > 0; left--)
        emit_drained_iteration(r, b, left, nested);
}

/* Emits the last stage for the last tile. */
static void emit_epilogue(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    const struct tir_value newest = tir_add(b, r->loop->operands[1], tir_i32(b, (int)r->last - 1));
    struct tir_iteration e = {.r = r,
                              .b = *b,
                              .newest = newest,
                              .number = TIR_MAX_STAGES + 1,
                              .first_stage = (int)r->last,
                              .last_stage = (int)r->last,
                              .nested = nested};
    tir_emit_iteration(&e, true);
    *b = e.b;
}

/* Appends the ops after the loop that have a stage. */
static void append_after(struct tir_rotation *r, struct tir_block *block)
{
    for (unsigned i = 0; i < r->n_after; i++) {
        struct tir_op *const op = tir_op(r->f, r->after[i]);
        op->stage = TIR_NO_STAGE;
        op->phase = 0;
        tir_append(r->f, block, r->after[i]);
    }
}

/* Emits the whole rotated loop: prologue, steady state, drain and epilogue. */
static void emit_loop(struct tir_rotation *r, struct tir_builder *b)
{
    struct tir_value *nested = tir_alloc_clear(r->f, r->max_id * sizeof(nested[0]));
    const struct tir_schedule *const s = r->schedule;
    emit_prologue(r, b, nested);
    tir_append_held(r, b->block, r->last, TIR_MAX_PHASES);
    if (s->loop.roles > 1 && !s->loop.shift_early)
        offset_groups(b, true);
    emit_steady(r, b, nested);
    emit_drain(r, b, nested);
    append_after(r, b->block);
    emit_epilogue(r, b, nested);
    if (s->loop.roles > 1)
        offset_groups(b, false);
}

/* Sets `made` to the values that the last iteration yields. */
static void get_yielded(const struct tir_rotation *r, struct tir_value *made)
{
    for (unsigned i = 0; i < r->yield->n_operands; i++) {
        const struct tir_value v = r->yield->operands[i];
        made[i] = r->iteration[r->last - tir_def_stage(r, v)][v.id];
    }
}

/* Emits both loops. Waves that only copy yield the loop's initial values. Nothing after the loop
 * uses the values of a stage before the last two. */
static void emit_both(struct tir_rotation *r, struct tir_builder *b, struct tir_value only_copies,
                      struct tir_value *made)
{
    const unsigned n = r->yield->n_operands;
    struct tir_type *const types = tir_alloc(r->f, (n + 1) * sizeof(types[0]));
    struct tir_value *const begun = tir_alloc(r->f, (n + 1) * sizeof(begun[0]));
    struct tir_value *const known = tir_alloc(r->f, (n + 1) * sizeof(known[0]));
    unsigned n_known = 0;
    assert(!r->schedule->loop.drain && !r->n_after);
    for (unsigned i = 0; i < n; i++) {
        if (tir_def_stage(r, r->yield->operands[i]) + 1 < r->last)
            continue;
        begun[n_known] = r->loop->operands[3 + i];
        types[n_known] = tir_typeof(r->f, begun[n_known]);
        n_known++;
    }
    struct tir_rotation copies = tir_begin_rotation(r->f, r->schedule, r->loop, r->last, true);
    struct tir_if branch = tir_begin_if(b, only_copies, true, types, n_known);
    emit_loop(&copies, b);
    tir_else(b, &branch, begun);
    emit_loop(r, b);
    get_yielded(r, made);
    for (unsigned i = 0, k = 0; i < n; i++)
        if (tir_def_stage(r, r->yield->operands[i]) + 1 >= r->last)
            known[k++] = made[i];
    tir_end_if(b, &branch, known);
    for (unsigned i = 0, k = 0; i < n; i++)
        if (tir_def_stage(r, r->yield->operands[i]) + 1 >= r->last)
            made[i] = known[k++];
}

/* True if `op` is one of the ops that follow the loop. */
static bool is_after(const struct tir_rotation *r, struct tir_ref op)
{
    for (unsigned i = 0; i < r->n_after; i++)
        if (r->after[i].id == op.id)
            return true;
    return false;
}

/* Removes `only_copies` from before the loop. Returns its operand, or no value. */
static struct tir_value take_condition(struct tir_func *f, struct tir_block *outer, unsigned *index)
{
    for (unsigned i = 0; i < *index; i++) {
        const struct tir_op *const op = tir_op(f, outer->ops[i]);
        if (op->opcode != TIR_only_copies)
            continue;
        tir_remove(outer, i);
        --*index;
        return op->operands[0];
    }
    return (struct tir_value){0};
}

/* Replaces the loop at `index` of block `outer` by its software pipeline of stages 0..`last`. */
static void rotate(struct tir_func *f, const struct tir_schedule *s, struct tir_block *outer,
                   unsigned index, unsigned last)
{
    const struct tir_value only_copies = take_condition(f, outer, &index);
    struct tir_rotation r = tir_begin_rotation(f, s, tir_op(f, outer->ops[index]), last, false);
    struct tir_value *const made = tir_alloc(f, (r.yield->n_operands + 1) * sizeof(made[0]));

    /* The new code is appended to an empty list of ops, and then everything after the loop. */
    const unsigned n_rest = outer->n_ops - index - 1;
    struct tir_ref *rest = tir_alloc(f, (n_rest + 1) * sizeof(rest[0]));
    memcpy(rest, outer->ops + index + 1, n_rest * sizeof(rest[0]));
    r.after = tir_alloc(f, (n_rest + 1) * sizeof(r.after[0]));
    for (unsigned i = 0; i < n_rest; i++)
        if (tir_op(f, rest[i])->stage != TIR_NO_STAGE)
            r.after[r.n_after++] = rest[i];
    hold(&r, outer, index);

    struct tir_builder b = tir_at_end(f, outer);
    if (only_copies.id) {
        emit_both(&r, &b, only_copies, made);
    } else {
        emit_loop(&r, &b);
        get_yielded(&r, made);
    }
    for (unsigned i = 0; i < n_rest; i++)
        if (!is_after(&r, rest[i]))
            tir_append(f, outer, rest[i]);
    for (unsigned i = 0; i < r.yield->n_operands; i++)
        tir_replace_uses(f, outer, tir_result(r.loop, i), made[i]);
}

/* Returns the highest stage of a loop's ops; 0 if none has one. */
static unsigned last_stage(const struct tir_func *f, const struct tir_op *loop)
{
    unsigned last = 0;
    for (unsigned i = 0; i < loop->blocks[0]->n_ops; i++) {
        const unsigned s = tir_stage_of(tir_op(f, loop->blocks[0]->ops[i]));
        last = s > last ? s : last;
    }
    return last;
}

struct search {
    struct tir_func *f;
    struct tir_block *block;
    struct tir_ref loop;
};

/* Stops the walk at a loop with more than one stage and stores its block and its op. */
static bool find_loop(void *context, struct tir_block *b, struct tir_ref r)
{
    struct search *const s = context;
    const struct tir_op *const op = tir_op(s->f, r);
    s->block = b;
    s->loop = r;
    return op->opcode == TIR_for && last_stage(s->f, op) > 0;
}

bool tir_lower_pipeline(struct tir_func *f, const struct tir_schedule *s)
{
    struct search x = {.f = f};
    unsigned index = 0;
    if (s->loop.stages < 2 || !tir_walk(f, f->body, find_loop, &x))
        return false;
    while (x.block->ops[index].id != x.loop.id)
        index++;
    rotate(f, s, x.block, index, last_stage(f, tir_op(f, x.loop)));
    return true;
}
