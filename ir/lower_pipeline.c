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
 * `only_copies` in front of the loop makes two loops of it, and a branch: waves of which it is true
 * run one of which nothing is left but copies, LDS writes, waits and barriers, and what these need.
 * All barriers are, so that such waves meet the others, which are in the whole loop.
 *
 * A `wait` says "the copy of this tile is there", or that of `pending` tiles before; here it learns
 * how many newer copies of its group are under way by then. All ops end up without a stage.
 */
#include "ir/builder.h"
#include "ir/passes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One value under way: the instance of `v` made `age` rounds ago is `param` of the steady loop. */
struct carry {
    struct tir_value v;
    unsigned age;
};

struct rotation {
    struct tir_func *f;
    const struct tir_schedule *schedule;
    struct tir_op *loop;
    struct tir_block *body;
    const struct tir_op *yield;
    unsigned last; /* S */

    struct tir_ref *order; /* the body's ops in the order of a round */
    unsigned n_order;
    struct tir_ref *held; /* ops in front of the loop that have a stage */
    unsigned n_held;
    bool *kept;        /* by place in `order`; all of them, but in loops that only copy */
    bool *is_op_value; /* by value id: defined by an op of the body */
    unsigned max_id;

    struct carry *carries;
    unsigned n_carries;

    /* round[a][id]: the instance of value id made a rounds ago; a = 0 is the round being
     * emitted. */
    struct tir_value *round[TIR_MAX_STAGES + 2];
};

static unsigned stage_of(const struct tir_op *op)
{
    return op->stage == TIR_NO_STAGE ? 0 : op->stage;
}

static bool ends_phase(const struct tir_op *op)
{
    return op->opcode == TIR_wait || op->opcode == TIR_barrier;
}

static bool is_copy(const struct tir_op *op)
{
    return op->opcode == TIR_copy_to_lds || op->opcode == TIR_gather_to_lds;
}

/* Does `a` stand before `b` in a round, whatever their order in the program? */
static bool comes_before(const struct tir_op *a, const struct tir_op *b)
{
    if (a->phase != b->phase)
        return a->phase < b->phase;
    if (ends_phase(a) != ends_phase(b))
        return ends_phase(b);
    return stage_of(a) > stage_of(b); /* older tiles first */
}

/* Stable: program order decides among equals. */
static void sort_round(struct rotation *r)
{
    const struct tir_block *body = r->body;
    r->n_order = body->n_ops - 1; /* without the yield */
    r->order = tir_alloc(r->f, (r->n_order + 1) * sizeof(r->order[0]));
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_ref ref = body->ops[i];
        const struct tir_op *const op = tir_op(r->f, ref);
        unsigned at = i;
        for (; at > 0 && comes_before(op, tir_op(r->f, r->order[at - 1])); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = ref;
    }
}

/* The stage in which an op of the body, or of a block inside it, makes value v. */
static unsigned def_stage(const struct rotation *r, struct tir_value v)
{
    return stage_of(tir_op(r->f, r->f->values[v.id].def));
}

static bool made_in_body(const struct rotation *r, struct tir_value v)
{
    return v.id < r->max_id && r->is_op_value[v.id];
}

static int param_index(const struct rotation *r, struct tir_value v)
{
    for (unsigned i = 0; i < r->body->n_params; i++)
        if (r->body->params[i].id == v.id)
            return (int)i;
    return -1;
}

/* Returns the value that the body carries from one tile to the next in parameter i. */
static struct tir_value yielded(const struct rotation *r, int param)
{
    return r->yield->operands[param - 1];
}

/* Returns the place of the op that makes v in the order of a round. */
static unsigned place_of(const struct rotation *r, struct tir_value v)
{
    unsigned i = 0;
    while (r->order[i].id != r->f->values[v.id].def.id)
        i++;
    return i;
}

static void keep(struct rotation *r, unsigned place);

static bool keep_operands(void *context, struct tir_block *b, struct tir_ref ref)
{
    struct rotation *const r = context;
    const struct tir_op *const op = tir_op(r->f, ref);
    (void)b;
    for (unsigned k = 0; k < op->n_operands; k++) {
        struct tir_value v = op->operands[k];
        const int param = param_index(r, v);
        if (param > 0)
            v = yielded(r, param);
        if (made_in_body(r, v))
            keep(r, place_of(r, v));
    }
    return false;
}

/* Keeps an op, and what it needs. */
static void keep(struct rotation *r, unsigned place)
{
    if (r->kept[place])
        return;
    r->kept[place] = true;
    tir_walk_op(r->f, r->body, r->order[place], keep_operands, r);
}

static void choose_kept(struct rotation *r, bool only_copies)
{
    r->kept = tir_alloc(r->f, (r->n_order + 1) * sizeof(r->kept[0]));
    memset(r->kept, 0, (r->n_order + 1) * sizeof(r->kept[0]));
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *const op = tir_op(r->f, r->order[i]);
        const bool copies = is_copy(op) || op->opcode == TIR_tile_lds_store;
        if (!only_copies || copies || ends_phase(op))
            keep(r, i);
    }
}

static void add_carry(struct rotation *r, struct tir_value v, unsigned age)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        if (r->carries[i].v.id == v.id && r->carries[i].age == age)
            return;
    r->carries[r->n_carries++] = (struct carry){v, age};
}

/* Returns how many rounds before its use by `stage` a carried value was made. It is 1 if the stage
 * itself made it, for the tile before; a later stage made it earlier in this round. */
static unsigned carried_age(const struct rotation *r, int param, unsigned stage)
{
    const struct tir_value next = yielded(r, param);
    assert(made_in_body(r, next) && def_stage(r, next) - stage <= 1);
    return 1 + stage - def_stage(r, next);
}

static void note_use(struct rotation *r, unsigned stage, struct tir_value v)
{
    if (made_in_body(r, v)) {
        const unsigned made = def_stage(r, v);
        assert(made <= stage);
        for (unsigned age = 1; age <= stage - made; age++)
            add_carry(r, v, age);
        return;
    }
    const int param = param_index(r, v);
    if (param > 0 && carried_age(r, param, stage) > 0)
        add_carry(r, yielded(r, param), 1);
}

struct uses {
    struct rotation *r;
    unsigned stage;
};

static bool note_uses(void *context, struct tir_block *b, struct tir_ref ref)
{
    const struct uses *const u = context;
    const struct tir_op *const op = tir_op(u->r->f, ref);
    (void)b;
    for (unsigned k = 0; k < op->n_operands; k++)
        note_use(u->r, u->stage, op->operands[k]);
    return false;
}

static void note_values(struct rotation *r)
{
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        for (unsigned k = 0; k < op->n_results; k++)
            r->is_op_value[op->result.id + k] = true;
    }
}

static void find_carries(struct rotation *r)
{
    unsigned capacity = 0;
    for (unsigned i = 0; i < r->n_order; i++)
        capacity += tir_op(r->f, r->order[i])->n_results * TIR_MAX_STAGES;
    r->carries = tir_alloc(r->f, (capacity + 1) * sizeof(r->carries[0]));
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        struct uses u = {r, stage_of(op)};
        if (r->kept[i])
            tir_walk_op(r->f, r->body, r->order[i], note_uses, &u);
    }
    for (unsigned i = 0; i < r->yield->n_operands; i++)
        if (made_in_body(r, r->yield->operands[i]) && r->kept[place_of(r, r->yield->operands[i])])
            add_carry(r, r->yield->operands[i], 1);
}

/* One round being emitted: which tile each stage works on. */
struct round {
    struct rotation *r;
    struct tir_builder b;
    struct tir_value newest; /* tile index of stage 0 */
    struct tir_value tile[TIR_MAX_STAGES];
    int first_stage, last_stage;
    unsigned number;          /* rounds before this one; the steady state counts as many */
    struct tir_value *nested; /* by value id: clones inside an `if` */
};

static void number_tiles(struct round *e)
{
    e->tile[0] = e->newest;
    for (unsigned s = 1; s <= (unsigned)e->last_stage; s++)
        e->tile[s] = tir_sub(&e->b, e->newest, tir_i32(&e->b, (int)s));
}

static struct tir_value mapped(struct round *e, unsigned stage, struct tir_value v)
{
    struct rotation *r = e->r;
    if (v.id < r->max_id && e->nested[v.id].id)
        return e->nested[v.id];
    if (made_in_body(r, v))
        return r->round[stage - def_stage(r, v)][v.id];
    const int param = param_index(r, v);
    if (param < 0)
        return v;
    if (param == 0)
        return e->tile[stage];
    if (e->number == stage) /* this stage's first tile */
        return r->loop->operands[3 + param - 1];
    return r->round[carried_age(r, param, stage)][yielded(r, param).id];
}

static void clone_into(struct round *e, unsigned stage, const struct tir_block *from,
                       struct tir_block *to);

/* Copies of this wait's group that are issued after the one it waits for, by the time it runs. */
static int newer_copies(const struct round *e, const struct tir_op *wait)
{
    const struct rotation *r = e->r;
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *copy = tir_op(r->f, r->order[i]);
        if (!is_copy(copy) || copy->imm[0] != wait->imm[0])
            continue;
        const int distance = (int)stage_of(wait) - (int)stage_of(copy);
        const bool before = comes_before(copy, wait);
        const bool issued = (int)stage_of(copy) >= e->first_stage && before;
        return distance > 0 ? distance - !issued : 0;
    }
    return 0;
}

static struct tir_ref clone_op(struct round *e, unsigned stage, const struct tir_op *op)
{
    struct rotation *r = e->r;
    struct tir_func *f = r->f;
    struct tir_value *const operands = tir_alloc(f, (op->n_operands + 1) * sizeof(operands[0]));
    struct tir_type *const types = tir_alloc(f, (op->n_results + 1) * sizeof(types[0]));
    for (unsigned i = 0; i < op->n_operands; i++)
        operands[i] = mapped(e, stage, op->operands[i]);
    for (unsigned i = 0; i < op->n_results; i++)
        types[i] = tir_typeof(f, tir_result(op, i));
    const struct tir_ref ref =
        tir_create_op(f, op->opcode, operands, op->n_operands, types, op->n_results);
    struct tir_op *copy = tir_op(f, ref);
    memcpy(copy->imm, op->imm, sizeof(copy->imm));
    copy->stage = TIR_NO_STAGE;
    if (op->opcode == TIR_wait && op->imm[0] >= 0)
        copy->imm[1] = op->imm[1] + newer_copies(e, op);
    for (unsigned i = 0; i < op->n_results; i++) {
        const char *name = f->values[op->result.id + i].name;
        if (name)
            tir_name(f, tir_result(copy, i), name);
    }
    return ref;
}

static void clone_blocks(struct round *e, unsigned stage, const struct tir_op *op,
                         struct tir_ref ref, struct tir_block *parent)
{
    for (int k = 0; k < 2; k++) {
        if (!op->blocks[k])
            continue;
        struct tir_block *b = tir_create_block(e->r->f, parent, ref);
        tir_op(e->r->f, ref)->blocks[k] = b;
        clone_into(e, stage, op->blocks[k], b);
    }
}

static void clone_into(struct round *e, unsigned stage, const struct tir_block *from,
                       struct tir_block *to)
{
    struct rotation *r = e->r;
    for (unsigned i = 0; i < from->n_ops; i++) {
        const struct tir_op *op = tir_op(r->f, from->ops[i]);
        const struct tir_ref ref = clone_op(e, stage, op);
        tir_append(r->f, to, ref);
        for (unsigned k = 0; k < op->n_results; k++)
            e->nested[op->result.id + k] = tir_result(tir_op(r->f, ref), k);
        clone_blocks(e, stage, op, ref, to);
    }
}

static bool is_matrix_phase(const struct round *e, int phase)
{
    return e->r->schedule->matrix_phases >> phase & 1;
}

static void begin_phase(struct round *e, int phase)
{
    const struct tir_schedule *s = e->r->schedule;
    const bool matrix = is_matrix_phase(e, phase);
    tir_phase(&e->b, matrix);
    if (s->memory_priority && !(matrix && s->early_priority))
        tir_set_priority(&e->b, matrix ? 0 : s->memory_priority);
}

/* Behind the barrier of a memory phase a matrix phase begins, with the priority unless that is set
 * here: two words, or one. Waves that come here wait for others, and have time for a s_nop. */
static void place_barrier(struct round *e, int phase, bool steady)
{
    const struct tir_schedule *s = e->r->schedule;
    if (is_matrix_phase(e, phase))
        return;
    if (s->memory_priority && s->early_priority)
        tir_set_priority(&e->b, 0);
    if (s->even_code && steady)
        tir_align_code(&e->b, s->early_priority, TIR_PAIR_WORDS);
}

/* Ping-pong: every phase ends with a barrier, so that the groups stay one phase apart. So does
 * every phase of the prologue, where the stage that would bring the barrier may not run yet. */
static void end_phase(struct round *e, int phase, bool barrier_seen, bool steady)
{
    const struct tir_schedule *s = e->r->schedule;
    if (barrier_seen || s->apart || (steady && s->ping_pong < 2))
        return;
    place_barrier(e, phase, steady);
    tir_barrier(&e->b);
}

/* Does another barrier of this round follow in the same phase? Then one will do: a phase ends with
 * its waits and barriers, and both may be there for rounds in which one of their stages is not. */
static bool barrier_follows(const struct round *e, unsigned i)
{
    const struct rotation *r = e->r;
    const unsigned phase = tir_op(r->f, r->order[i])->phase;
    for (i++; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        const int stage = (int)stage_of(op);
        if (op->phase != phase)
            return false;
        if (op->opcode == TIR_barrier && stage >= e->first_stage && stage <= e->last_stage)
            return true;
    }
    return false;
}

static bool is_joined(const struct tir_schedule *s, int phase, int next)
{
    return phase >= 0 && next == phase + 1 && s->joined_phases >> phase & 1;
}

/* Ops in front of the loop that have waited for this phase of round `round`, or an earlier one. */
static void append_held(struct rotation *r, struct tir_block *block, unsigned round, int phase)
{
    for (unsigned i = 0; i < r->n_held; i++) {
        struct tir_op *const op = tir_op(r->f, r->held[i]);
        if (op->stage != round || op->phase > phase)
            continue;
        op->stage = TIR_NO_STAGE;
        op->phase = 0;
        tir_append(r->f, block, r->held[i]);
    }
}

static void emit_round(struct round *e, bool steady)
{
    struct rotation *r = e->r;
    int phase = -1;
    bool barrier = false;
    number_tiles(e);
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        const int stage = (int)stage_of(op);
        if (stage < e->first_stage || stage > e->last_stage)
            continue;
        if (op->phase != phase && !is_joined(r->schedule, phase, op->phase)) {
            if (phase >= 0)
                end_phase(e, phase, barrier, steady);
            barrier = false;
            append_held(r, e->b.block, e->number, op->phase);
            begin_phase(e, op->phase);
        }
        phase = op->phase;
        barrier |= op->opcode == TIR_barrier;
        if (!r->kept[i])
            continue;
        if (op->opcode == TIR_barrier && barrier_follows(e, i))
            continue;
        if (op->opcode == TIR_barrier)
            place_barrier(e, phase, steady);
        const struct tir_ref ref = clone_op(e, (unsigned)stage, op);
        tir_append(r->f, e->b.block, ref);
        for (unsigned k = 0; k < op->n_results; k++)
            r->round[0][op->result.id + k] = tir_result(tir_op(r->f, ref), k);
        clone_blocks(e, (unsigned)stage, op, ref, e->b.block);
    }
    end_phase(e, phase, barrier, steady);
}

/* The round just emitted becomes the one before. */
static void age_rounds(struct rotation *r)
{
    struct tir_value *oldest = r->round[TIR_MAX_STAGES + 1];
    memmove(&r->round[1], &r->round[0], (TIR_MAX_STAGES + 1) * sizeof(r->round[0]));
    r->round[0] = oldest;
    memset(oldest, 0, r->max_id * sizeof(oldest[0]));
}

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
static void hold(struct rotation *r, struct tir_block *outer, unsigned index)
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
static void emit_prologue(struct rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    for (unsigned k = 0; k < r->last; k++) {
        append_held(r, b->block, k, 0);
        if (r->schedule->part_early && k + 1 == r->last)
            offset_groups(b, true);
        struct round e = {.r = r,
                          .b = *b,
                          .newest = tir_i32(b, (int)k),
                          .number = k,
                          .last_stage = (int)k,
                          .nested = nested};
        e.b = *b;
        emit_round(&e, false);
        *b = e.b;
        age_rounds(r);
    }
}

/* The next round finds in `carried` what rounds hand on. */
static void set_carried(struct rotation *r, const struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        r->round[r->carries[i].age][r->carries[i].v.id] = carried[i];
}

static void get_carried(const struct rotation *r, struct tir_value *carried)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        carried[i] = r->round[r->carries[i].age][r->carries[i].v.id];
}

static void emit_steady_round(struct rotation *r, struct tir_builder *b, struct tir_value newest,
                              struct tir_value *nested)
{
    struct round e = {.r = r,
                      .b = *b,
                      .newest = newest,
                      .number = TIR_MAX_STAGES + 1,
                      .last_stage = (int)r->last,
                      .nested = nested};
    emit_round(&e, true);
    *b = e.b;
    age_rounds(r);
}

/* Rounds in pairs leave one where their number is odd. */
static void emit_odd_round(struct rotation *r, struct tir_builder *b, struct tir_value bound,
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

static void emit_steady(struct rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    struct tir_func *f = r->f;
    const bool pairs = r->schedule->round_pairs;
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
    const struct tir_value bound = tir_add(b, r->loop->operands[1], tir_i32(b, (int)r->last - 1));
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

static void emit_epilogue(struct rotation *r, struct tir_builder *b, struct tir_value *nested)
{
    const struct tir_value newest = tir_add(b, r->loop->operands[1], tir_i32(b, (int)r->last - 1));
    struct round e = {.r = r,
                      .b = *b,
                      .newest = newest,
                      .number = TIR_MAX_STAGES + 1,
                      .first_stage = (int)r->last,
                      .last_stage = (int)r->last,
                      .nested = nested};
    emit_round(&e, true);
    *b = e.b;
}

static void *alloc_clear(struct tir_func *f, size_t size)
{
    return memset(tir_alloc(f, size), 0, size);
}

static struct rotation begin_rotation(struct tir_func *f, const struct tir_schedule *s,
                                      struct tir_op *loop, unsigned last, bool only_copies)
{
    struct rotation r = {.f = f, .schedule = s, .loop = loop, .last = last};
    r.body = r.loop->blocks[0];
    r.yield = tir_op(f, r.body->ops[r.body->n_ops - 1]);
    r.max_id = f->n_values;
    r.is_op_value = alloc_clear(f, r.max_id * sizeof(bool));
    for (unsigned i = 0; i < TIR_MAX_STAGES + 2; i++)
        r.round[i] = alloc_clear(f, r.max_id * sizeof(r.round[i][0]));
    sort_round(&r);
    note_values(&r);
    choose_kept(&r, only_copies);
    find_carries(&r);
    return r;
}

static void emit_loop(struct rotation *r, struct tir_builder *b)
{
    struct tir_value *nested = alloc_clear(r->f, r->max_id * sizeof(nested[0]));
    const struct tir_schedule *const s = r->schedule;
    emit_prologue(r, b, nested);
    append_held(r, b->block, r->last, TIR_MAX_PHASES);
    if (s->ping_pong > 1 && !s->part_early)
        offset_groups(b, true);
    emit_steady(r, b, nested);
    emit_epilogue(r, b, nested);
    if (s->ping_pong > 1)
        offset_groups(b, false);
}

/* Sets `made` to what the last round yields. */
static void get_yielded(const struct rotation *r, struct tir_value *made)
{
    for (unsigned i = 0; i < r->yield->n_operands; i++) {
        const struct tir_value v = r->yield->operands[i];
        made[i] = r->round[r->last - def_stage(r, v)][v.id];
    }
}

/* Waves that only copy yield what the loop began with. What a stage before the last two yields is
 * known to none behind the loop. */
static void emit_both(struct rotation *r, struct tir_builder *b, struct tir_value only_copies,
                      struct tir_value *made)
{
    const unsigned n = r->yield->n_operands;
    struct tir_type *const types = tir_alloc(r->f, (n + 1) * sizeof(types[0]));
    struct tir_value *const begun = tir_alloc(r->f, (n + 1) * sizeof(begun[0]));
    struct tir_value *const known = tir_alloc(r->f, (n + 1) * sizeof(known[0]));
    unsigned n_known = 0;
    for (unsigned i = 0; i < n; i++) {
        if (def_stage(r, r->yield->operands[i]) + 1 < r->last)
            continue;
        begun[n_known] = r->loop->operands[3 + i];
        types[n_known] = tir_typeof(r->f, begun[n_known]);
        n_known++;
    }
    struct rotation copies = begin_rotation(r->f, r->schedule, r->loop, r->last, true);
    struct tir_if branch = tir_begin_if(b, only_copies, true, types, n_known);
    emit_loop(&copies, b);
    tir_else(b, &branch, begun);
    emit_loop(r, b);
    get_yielded(r, made);
    for (unsigned i = 0, k = 0; i < n; i++)
        if (def_stage(r, r->yield->operands[i]) + 1 >= r->last)
            known[k++] = made[i];
    tir_end_if(b, &branch, known);
    for (unsigned i = 0, k = 0; i < n; i++)
        if (def_stage(r, r->yield->operands[i]) + 1 >= r->last)
            made[i] = known[k++];
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
    struct rotation r = begin_rotation(f, s, tir_op(f, outer->ops[index]), last, false);
    struct tir_value *const made = tir_alloc(f, (r.yield->n_operands + 1) * sizeof(made[0]));

    /* The new code goes to the end of a fresh block list: everything after the loop is
     * re-appended. */
    const unsigned n_rest = outer->n_ops - index - 1;
    struct tir_ref *rest = tir_alloc(f, (n_rest + 1) * sizeof(rest[0]));
    memcpy(rest, outer->ops + index + 1, n_rest * sizeof(rest[0]));
    hold(&r, outer, index);

    struct tir_builder b = tir_at_end(f, outer);
    if (only_copies.id) {
        emit_both(&r, &b, only_copies, made);
    } else {
        emit_loop(&r, &b);
        get_yielded(&r, made);
    }
    for (unsigned i = 0; i < n_rest; i++)
        tir_append(f, outer, rest[i]);
    for (unsigned i = 0; i < r.yield->n_operands; i++)
        tir_replace_uses(f, outer, tir_result(r.loop, i), made[i]);
}

/* The highest stage of a loop's ops; 0 when it has none. */
static unsigned last_stage(const struct tir_func *f, const struct tir_op *loop)
{
    unsigned last = 0;
    for (unsigned i = 0; i < loop->blocks[0]->n_ops; i++) {
        const unsigned s = stage_of(tir_op(f, loop->blocks[0]->ops[i]));
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
    if (s->stages < 2 || !tir_walk(f, f->body, find_loop, &x))
        return false;
    while (x.block->ops[index].id != x.loop.id)
        index++;
    rotate(f, s, x.block, index, last_stage(f, tir_op(f, x.loop)));
    return true;
}
