/* SPDX-License-Identifier: Apache-2.0
 *
 * Software pipelining by loop rotation. A loop whose ops carry stages 0..S,
 *
 *     for i in 0..n { a(i) @0; b(i) @1; c(i) @2 }
 *
 * becomes, with S = 2,
 *
 *     a(0); a(1), b(0);                              prologue, S rounds
 *     for i in 0..n-1 { c(i); b(i+1); a(i+2) }       steady state
 *     c(n-1)                                         epilogue: the last stage alone
 *
 * Within a round, ops stand phase by phase, older tiles first, and each phase ends with its waits
 * and barriers. What one stage hands to a later one becomes a carried value of the loop.
 *
 * The trap: every stage but the last two runs for tiles past the bound (a(n) above), and the whole
 * prologue runs even if n is 1. So stages 0..S-2 must be harmless for tiles that do not exist, and
 * n must be at least 1. Templates keep both promises: early stages only load, and loads past the
 * end of a resource read 0. The verifier refuses what this pass does not do: a second loop with
 * stages, stages inside of a loop that has them, too many of either.
 *
 * Barriers of several stages in one phase are one barrier, behind the waits of all of them.
 *
 * An op in front of the loop may have a stage too: it stands in front of the round of the prologue
 * in which that stage begins, behind the rounds that only earlier stages have, or inside of that
 * round in front of its own phase. So what the loop reads once may be asked for while the first
 * tiles' earlier stages wait.
 *
 * An op behind the loop that has a stage stands in front of the epilogue: it takes nothing that the
 * last stage makes.
 *
 * With `late_rounds` the last rounds of the steady state stand behind the loop, without the stages
 * that have no tile any more, so that nothing is asked for in vain; S = 3, one of them:
 *
 *     for i in 0..n-2 { d(i); c(i+1); b(i+2); a(i+3) }
 *     if n > 1 { d(n-2); c(n-1) }
 *     d(n-1)
 *
 * The first of them may have what it brings in another phase, so that what can be done without it
 * is not behind it. Such loops copy nothing to LDS, whose waits count what steady rounds issue.
 *
 * `only_copies` in front of the loop makes two loops of it, and a branch: waves of which it is true
 * run one of which nothing is left but copies, LDS writes, waits and barriers, and what these need.
 * All barriers are, so that such waves meet the others, which are in the whole loop.
 *
 * A `wait` says "the copy of this tile is there", or that of `pending` tiles before; here it learns
 * how many newer copies of its group are under way by then. All ops end up without a stage.
 */
#include "ir/pipeline_round.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The half of the waves with the larger numbers runs a phase behind. */
static void offset_groups(struct tir_builder *b, bool upper)
{
    const struct tir_value half = tir_i32(b, (int)b->f->waves / 2);
    const struct tir_value wave = tir_wave_id(b);
    struct tir_if s = tir_begin_if(b, upper ? tir_cmp_ge(b, wave, half) : tir_cmp_lt(b, wave, half),
                                   false, NULL, 0);
    tir_barrier(b);
    tir_else(b, &s, NULL);
    tir_end_if(b, &s, NULL);
}

/* Takes the ops in front of the loop that have a stage out of its block. */
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

/* The last round is the first one that works on what has arrived. */
static void emit_prologue(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    for (unsigned k = 0; k < r->last; k++) {
        tir_append_held(r, b->block, k, 0);
        if (r->schedule->loop.shift_early && k + 1 == r->last)
            offset_groups(b, true);
        struct tir_round e = {.r = r,
                              .b = *b,
                              .newest = tir_i32(b, (int)k),
                              .number = k,
                              .last_stage = (int)k,
                              .nested = nested};
        e.b = *b;
        tir_emit_round(&e, false);
        *b = e.b;
        tir_age_rounds(r);
    }
}

/* The next round finds in `carried` what rounds hand on. */
static void set_carried(struct tir_rotation *r, const struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        r->round[r->carries[i].age][r->carries[i].v.id] = carried[i];
}

static void get_carried(const struct tir_rotation *r, struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        carried[i] = r->round[r->carries[i].age][r->carries[i].v.id];
}

static void emit_steady_round(struct tir_rotation *r, struct tir_builder *b,
                              struct tir_value newest, struct tir_value *nested)
{
    struct tir_round e = {.r = r,
                          .b = *b,
                          .newest = newest,
                          .number = TIR_MAX_STAGES + 1,
                          .last_stage = (int)r->last,
                          .nested = nested};
    tir_emit_round(&e, true);
    *b = e.b;
    tir_age_rounds(r);
}

/* Rounds in pairs leave one where their number is odd. */
static void emit_odd_round(struct tir_rotation *r, struct tir_builder *b, struct tir_value bound,
                           struct tir_value *carried, struct tir_value *nested)
{
    struct tir_type *types = tir_alloc(r->f, (r->n_carries + 1) * sizeof(types[0]));
    struct tir_value *now = tir_alloc(r->f, (r->n_carries + 1) * sizeof(now[0]));
    for (unsigned i = 0; i < r->n_carries; i++)
        types[i] = tir_typeof(r->f, carried[i]);
    const struct tir_value rounds = tir_sub(b, bound, tir_i32(b, (int)r->last));
    const struct tir_value odd = tir_cmp_ne(b, tir_and(b, rounds, tir_i32(b, 1)), tir_i32(b, 0));
    struct tir_if branch = tir_begin_if(b, odd, false, types, r->n_carries);
    emit_steady_round(r, b, tir_sub(b, bound, tir_i32(b, 1)), nested);
    get_carried(r, now);
    tir_else(b, &branch, now);
    tir_end_if(b, &branch, carried);
    set_carried(r, carried);
}

static void emit_steady(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    struct tir_func *f = r->f;
    const bool pairs = r->schedule->loop.unroll > 1;
    struct tir_value *carried = tir_alloc(f, (r->n_carries + 1) * sizeof(carried[0]));
    for (unsigned i = 0; i < r->n_carries; i++) {
        carried[i] = r->round[r->carries[i].age][r->carries[i].v.id];
        /* Made by the last stage alone: the first tile starts from the loop's own input. */
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
    emit_steady_round(r, b, loop.index, nested);
    if (pairs)
        emit_steady_round(r, b, tir_add(b, loop.index, tir_i32(b, 1)), nested);
    get_carried(r, carried);
    tir_end_for(b, &loop, carried, r->n_carries);
    set_carried(r, carried);
    if (pairs)
        emit_odd_round(r, b, bound, carried, nested);
}

/* Forgets what no later round needs: values of tiles that there are not, with `left` rounds to come
 * behind the next one. */
static void forget_carries(struct tir_rotation *r, unsigned left)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n_carries; i++)
        if (tir_def_stage(r, r->carries[i].v) + r->carries[i].age > r->last - left)
            r->carries[n++] = r->carries[i];
    r->n_carries = n;
}

/* The round behind which `left` come, the epilogue among them: stages that have no tile any
 * more are not in it. Where the prologue had it already, nothing is done. */
static void emit_late_round(struct tir_rotation *r, struct tir_builder *b, unsigned left,
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
    struct tir_round e = {.r = r,
                          .b = *b,
                          .newest = tir_add(b, tiles, tir_i32(b, (int)(r->last - 1 - left))),
                          .number = TIR_MAX_STAGES + 1,
                          .first_stage = (int)(r->last - left),
                          .last_stage = (int)r->last,
                          .nested = nested};
    e.b = *b;
    tir_emit_round(&e, true);
    *b = e.b;
    tir_age_rounds(r);
    get_carried(r, now);
    tir_else(b, &branch, now);
    tir_end_if(b, &branch, carried);
    set_carried(r, carried);
}

static void emit_late_rounds(struct tir_rotation *r, struct tir_builder *b,
                             struct tir_value *nested)
{
    const struct tir_schedule *const s = r->schedule;
    assert(!s->loop.drain || (s->loop.unroll < 2 && s->loop.drain < r->last));
    if (s->loop.drain)
        tir_move_phase(r, r->last - s->loop.drain, s->loop.drain_from, s->loop.drain_to);
    for (unsigned left = s->loop.drain; left > 0; left--)
        emit_late_round(r, b, left, nested);
}

static void emit_epilogue(struct tir_rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    const struct tir_value newest = tir_add(b, r->loop->operands[1], tir_i32(b, (int)r->last - 1));
    struct tir_round e = {.r = r,
                          .b = *b,
                          .newest = newest,
                          .number = TIR_MAX_STAGES + 1,
                          .first_stage = (int)r->last,
                          .last_stage = (int)r->last,
                          .nested = nested};
    tir_emit_round(&e, true);
    *b = e.b;
}

/* Appends what stands behind the loop and has a stage. */
static void append_behind(struct tir_rotation *r, struct tir_block *block)
{
    for (unsigned i = 0; i < r->n_behind; i++) {
        struct tir_op *const op = tir_op(r->f, r->behind[i]);
        op->stage = TIR_NO_STAGE;
        op->phase = 0;
        tir_append(r->f, block, r->behind[i]);
    }
}

static void emit_loop(struct tir_rotation *r, struct tir_builder *b)
{
    struct tir_value *nested = tir_alloc_clear(r->f, r->max_id * sizeof(nested[0]));
    const struct tir_schedule *const s = r->schedule;
    emit_prologue(r, b, nested);
    tir_append_held(r, b->block, r->last, TIR_MAX_PHASES);
    if (s->loop.roles > 1 && !s->loop.shift_early)
        offset_groups(b, true);
    emit_steady(r, b, nested);
    emit_late_rounds(r, b, nested);
    append_behind(r, b->block);
    emit_epilogue(r, b, nested);
    if (s->loop.roles > 1)
        offset_groups(b, false);
}

/* Sets `made` to what the last round yields. */
static void get_yielded(const struct tir_rotation *r, struct tir_value *made)
{
    for (unsigned i = 0; i < r->yield->n_operands; i++) {
        const struct tir_value v = r->yield->operands[i];
        made[i] = r->round[r->last - tir_def_stage(r, v)][v.id];
    }
}

/* Waves that only copy yield what the loop began with. What a stage before the last two yields is
 * known to none behind the loop. */
static void emit_both(struct tir_rotation *r, struct tir_builder *b, struct tir_value only_copies,
                      struct tir_value *made)
{
    const unsigned n = r->yield->n_operands;
    struct tir_type *const types = tir_alloc(r->f, (n + 1) * sizeof(types[0]));
    struct tir_value *const begun = tir_alloc(r->f, (n + 1) * sizeof(begun[0]));
    struct tir_value *const known = tir_alloc(r->f, (n + 1) * sizeof(known[0]));
    unsigned n_known = 0;
    assert(!r->schedule->loop.drain && !r->n_behind);
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

static bool is_behind(const struct tir_rotation *r, struct tir_ref op)
{
    for (unsigned i = 0; i < r->n_behind; i++)
        if (r->behind[i].id == op.id)
            return true;
    return false;
}

/* Takes `only_copies` away from in front of the loop: its operand, or none. */
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

static void rotate(struct tir_func *f, const struct tir_schedule *s, struct tir_block *outer,
                   unsigned index, unsigned last)
{
    const struct tir_value only_copies = take_condition(f, outer, &index);
    struct tir_rotation r = tir_begin_rotation(f, s, tir_op(f, outer->ops[index]), last, false);
    struct tir_value *const made = tir_alloc(f, (r.yield->n_operands + 1) * sizeof(made[0]));

    /* The new code goes to the end of a fresh block list: everything after the loop is
     * re-appended. */
    const unsigned n_rest = outer->n_ops - index - 1;
    struct tir_ref *rest = tir_alloc(f, (n_rest + 1) * sizeof(rest[0]));
    memcpy(rest, outer->ops + index + 1, n_rest * sizeof(rest[0]));
    r.behind = tir_alloc(f, (n_rest + 1) * sizeof(r.behind[0]));
    for (unsigned i = 0; i < n_rest; i++)
        if (tir_op(f, rest[i])->stage != TIR_NO_STAGE)
            r.behind[r.n_behind++] = rest[i];
    hold(&r, outer, index);

    struct tir_builder b = tir_at_end(f, outer);
    if (only_copies.id) {
        emit_both(&r, &b, only_copies, made);
    } else {
        emit_loop(&r, &b);
        get_yielded(&r, made);
    }
    for (unsigned i = 0; i < n_rest; i++)
        if (!is_behind(&r, rest[i]))
            tir_append(f, outer, rest[i]);
    for (unsigned i = 0; i < r.yield->n_operands; i++)
        tir_replace_uses(f, outer, tir_result(r.loop, i), made[i]);
}

/* The highest stage of a loop's ops; 0 when it has none. */
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
