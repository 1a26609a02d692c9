/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/pipeline_iteration.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* True if `op` is a wait or barrier, which ends a phase. */
static bool ends_phase(const struct tir_op *op)
{
    return op->opcode == TIR_wait || op->opcode == TIR_barrier ||
           op->opcode == TIR_barrier_signal || op->opcode == TIR_barrier_wait;
}

/* True if `op` copies to LDS. */
static bool is_copy(const struct tir_op *op)
{
    return op->opcode == TIR_copy_to_lds || op->opcode == TIR_gather_to_lds ||
           op->opcode == TIR_tensor_to_lds;
}

/* True if `a` runs before `b` in an iteration; program order decides among equals. */
static bool comes_before(const struct tir_op *a, const struct tir_op *b)
{
    if (a->phase != b->phase)
        return a->phase < b->phase;
    if (ends_phase(a) != ends_phase(b))
        return ends_phase(b);
    return tir_stage_of(a) > tir_stage_of(b); /* older tiles first */
}

/* Sorts the body into the order of an iteration; program order decides among equals. */
static void sort_iteration(struct tir_rotation *r)
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

unsigned tir_def_stage(const struct tir_rotation *r, struct tir_value v)
{
    return tir_stage_of(tir_op(r->f, r->f->values[v.id].def));
}

/* True if an op of the loop body computes `v`. */
static bool made_in_body(const struct tir_rotation *r, struct tir_value v)
{
    return v.id < r->max_id && r->is_op_value[v.id];
}

/* Returns the index of body parameter `v`, or -1. */
static int param_index(const struct tir_rotation *r, struct tir_value v)
{
    for (unsigned i = 0; i < r->body->n_params; i++)
        if (r->body->params[i].id == v.id)
            return (int)i;
    return -1;
}

/* Returns the value that the body yields for carried parameter i. */
static struct tir_value yielded(const struct tir_rotation *r, int param)
{
    return r->yield->operands[param - 1];
}

/* Returns the index, in the order of an iteration, of the op that defines v. */
static unsigned place_of(const struct tir_rotation *r, struct tir_value v)
{
    unsigned i = 0;
    while (r->order[i].id != r->f->values[v.id].def.id)
        i++;
    return i;
}

static void keep(struct tir_rotation *r, unsigned place);

/* Marks the ops that compute an operand of an op of the walk, also through a loop's carried
 * value. */
static bool keep_operands(void *context, struct tir_block *b, struct tir_ref ref)
{
    struct tir_rotation *const r = context;
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

/* Sets `kept` for the op of this place in the order, and for the ops of the loop that it needs. */
static void keep(struct tir_rotation *r, unsigned place)
{
    if (r->kept[place])
        return;
    r->kept[place] = true;
    tir_walk_op(r->f, r->body, r->order[place], keep_operands, r);
}

/* Chooses the ops to emit: all, or only copies to LDS and what these need. */
static void choose_kept(struct tir_rotation *r, bool only_copies)
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

/* Adds the value `v` of `age` iterations ago to what the loop carries, once. */
static void add_carry(struct tir_rotation *r, struct tir_value v, unsigned age)
{
    for (unsigned i = 0; i < r->n_carries; i++)
        if (r->carries[i].v.id == v.id && r->carries[i].age == age)
            return;
    r->carries[r->n_carries++] = (struct tir_carry){v, age};
}

/* Returns how many iterations before its use by `stage` the carried value `param` was computed: 1
 * if that stage computes it, for the previous tile; 0 if the next stage does, earlier in the same
 * iteration. */
static unsigned carried_age(const struct tir_rotation *r, int param, unsigned stage)
{
    const struct tir_value next = yielded(r, param);
    assert(made_in_body(r, next) && tir_def_stage(r, next) - stage <= 1);
    return 1 + stage - tir_def_stage(r, next);
}

/* Adds the carried values that a use of `v` in `stage` needs. */
static void note_use(struct tir_rotation *r, unsigned stage, struct tir_value v)
{
    if (made_in_body(r, v)) {
        const unsigned made = tir_def_stage(r, v);
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
    struct tir_rotation *r;
    unsigned stage;
};

/* Adds the carried values that an op of the walk needs. */
static bool note_uses(void *context, struct tir_block *b, struct tir_ref ref)
{
    const struct uses *const u = context;
    const struct tir_op *const op = tir_op(u->r->f, ref);
    (void)b;
    for (unsigned k = 0; k < op->n_operands; k++)
        note_use(u->r, u->stage, op->operands[k]);
    return false;
}

/* Marks the results of the body's ops. */
static void note_values(struct tir_rotation *r)
{
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        for (unsigned k = 0; k < op->n_results; k++)
            r->is_op_value[op->result.id + k] = true;
    }
}

/* Finds the values of earlier iterations that the rotated loop carries. */
static void find_carries(struct tir_rotation *r)
{
    unsigned capacity = 0;
    for (unsigned i = 0; i < r->n_order; i++)
        capacity += tir_op(r->f, r->order[i])->n_results * TIR_MAX_STAGES;
    r->carries = tir_alloc(r->f, (capacity + 1) * sizeof(r->carries[0]));
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        struct uses u = {r, tir_stage_of(op)};
        if (r->kept[i])
            tir_walk_op(r->f, r->body, r->order[i], note_uses, &u);
    }
    for (unsigned i = 0; i < r->yield->n_operands; i++)
        if (made_in_body(r, r->yield->operands[i]) && r->kept[place_of(r, r->yield->operands[i])])
            add_carry(r, r->yield->operands[i], 1);
}

/* Emits each stage's tile index: a later stage works on an earlier tile. */
static void number_tiles(struct tir_iteration *e)
{
    e->tile[0] = e->newest;
    for (unsigned s = 1; s <= (unsigned)e->last_stage; s++)
        e->tile[s] = tir_sub(&e->b, e->newest, tir_i32(&e->b, (int)s));
}

/* Returns the new value that replaces `v` of the old loop in `stage` of this iteration. */
static struct tir_value mapped(struct tir_iteration *e, unsigned stage, struct tir_value v)
{
    struct tir_rotation *r = e->r;
    if (v.id < r->max_id && e->nested[v.id].id)
        return e->nested[v.id];
    if (made_in_body(r, v))
        return r->iteration[stage - tir_def_stage(r, v)][v.id];
    const int param = param_index(r, v);
    if (param < 0)
        return v;
    if (param == 0)
        return e->tile[stage];
    if (e->number == stage) /* the first tile of this stage */
        return r->loop->operands[3 + param - 1];
    return r->iteration[carried_age(r, param, stage)][yielded(r, param).id];
}

static void clone_into(struct tir_iteration *e, unsigned stage, const struct tir_block *from,
                       struct tir_block *to);

/* Returns the number of copies of this wait's group that are issued after the awaited one and
 * before the wait. */
static int newer_copies(const struct tir_iteration *e, const struct tir_op *wait)
{
    const struct tir_rotation *r = e->r;
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *copy = tir_op(r->f, r->order[i]);
        if (!is_copy(copy) || copy->imm[0] != wait->imm[0])
            continue;
        const int distance = (int)tir_stage_of(wait) - (int)tir_stage_of(copy);
        const bool before = comes_before(copy, wait);
        const bool issued = (int)tir_stage_of(copy) >= e->first_stage && before;
        return distance > 0 ? distance - !issued : 0;
    }
    return 0;
}

/* Creates a copy of `op` with the operands of `stage` of this iteration. */
static struct tir_ref clone_op(struct tir_iteration *e, unsigned stage, const struct tir_op *op)
{
    struct tir_rotation *r = e->r;
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

/* Copies the blocks of `op` to op `ref`. */
static void clone_blocks(struct tir_iteration *e, unsigned stage, const struct tir_op *op,
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

/* Copies the ops of block `from` to block `to` for `stage`. */
static void clone_into(struct tir_iteration *e, unsigned stage, const struct tir_block *from,
                       struct tir_block *to)
{
    struct tir_rotation *r = e->r;
    for (unsigned i = 0; i < from->n_ops; i++) {
        const struct tir_op *op = tir_op(r->f, from->ops[i]);
        const struct tir_ref ref = clone_op(e, stage, op);
        tir_append(r->f, to, ref);
        for (unsigned k = 0; k < op->n_results; k++)
            e->nested[op->result.id + k] = tir_result(tir_op(r->f, ref), k);
        clone_blocks(e, stage, op, ref, to);
    }
}

/* True if `phase` has matrix instructions by the schedule. */
static bool is_matrix_phase(const struct tir_iteration *e, int phase)
{
    return e->r->schedule->loop.matrix_phases >> phase & 1;
}

/* Marks the beginning of a phase and sets the wave's priority for it. */
static void begin_phase(struct tir_iteration *e, int phase)
{
    const struct tir_schedule *s = e->r->schedule;
    const bool matrix = is_matrix_phase(e, phase);
    tir_phase(&e->b, matrix);
    if (s->memory_priority && !(matrix && s->early_priority))
        tir_set_priority(&e->b, matrix ? 0 : s->memory_priority);
}

/* Emits the barrier between phases. Before a matrix phase it may also lower the priority and align
 * the code. Waves wait here anyway, so an s_nop costs nothing. */
static void place_barrier(struct tir_iteration *e, int phase, bool steady)
{
    const struct tir_schedule *s = e->r->schedule;
    if (is_matrix_phase(e, phase))
        return;
    if (s->memory_priority && s->early_priority)
        tir_set_priority(&e->b, 0);
    if (s->even_code && steady)
        tir_align_code(&e->b, s->early_priority, TIR_PAIR_WORDS);
}

/* Ends a phase. With two roles every phase ends with a barrier, so that the groups stay one phase
 * apart. In the prologue the stage with the barrier op may not run yet. So each phase of the
 * prologue also ends with a barrier, except in the first `bare_iterations`. */
static void end_phase(struct tir_iteration *e, int phase, bool barrier_seen, bool steady)
{
    const struct tir_schedule *s = e->r->schedule;
    const bool bare = (steady || e->number < s->loop.bare_iterations) && s->loop.roles < 2;
    if (barrier_seen || s->loop.barriers == TIR_BARRIERS_OPS || bare)
        return;
    place_barrier(e, phase, steady);
    tir_barrier(&e->b);
}

/* True if another barrier of this iteration follows in the same phase. Then that one suffices,
 * since a phase ends with its waits and barriers. Both exist for iterations that lack one of the
 * stages. */
static bool barrier_follows(const struct tir_iteration *e, unsigned i)
{
    const struct tir_rotation *r = e->r;
    const unsigned phase = tir_op(r->f, r->order[i])->phase;
    for (i++; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        const int stage = (int)tir_stage_of(op);
        if (op->phase != phase)
            return false;
        if (op->opcode == TIR_barrier && stage >= e->first_stage && stage <= e->last_stage)
            return true;
    }
    return false;
}

/* True if phase `next` continues `phase` without a barrier between them. */
static bool is_joined(const struct tir_schedule *s, int phase, int next)
{
    return phase >= 0 && next == phase + 1 && s->loop.open_phases >> phase & 1;
}

void tir_append_held(struct tir_rotation *r, struct tir_block *block, unsigned number, int phase)
{
    for (unsigned i = 0; i < r->n_held; i++) {
        struct tir_op *const op = tir_op(r->f, r->held[i]);
        if (op->stage != number || op->phase > phase)
            continue;
        op->stage = TIR_NO_STAGE;
        op->phase = 0;
        tir_append(r->f, block, r->held[i]);
    }
}

void tir_emit_iteration(struct tir_iteration *e, bool steady)
{
    struct tir_rotation *r = e->r;
    int phase = -1;
    bool barrier = false;
    number_tiles(e);
    for (unsigned i = 0; i < r->n_order; i++) {
        const struct tir_op *op = tir_op(r->f, r->order[i]);
        const int stage = (int)tir_stage_of(op);
        if (stage < e->first_stage || stage > e->last_stage)
            continue;
        if (op->phase != phase && !is_joined(r->schedule, phase, op->phase)) {
            if (phase >= 0)
                end_phase(e, phase, barrier, steady);
            barrier = false;
            tir_append_held(r, e->b.block, e->number, op->phase);
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
            r->iteration[0][op->result.id + k] = tir_result(tir_op(r->f, ref), k);
        clone_blocks(e, (unsigned)stage, op, ref, e->b.block);
    }
    end_phase(e, phase, barrier, steady);
}

void tir_age_iterations(struct tir_rotation *r)
{
    struct tir_value *oldest = r->iteration[TIR_MAX_STAGES + 1];
    memmove(&r->iteration[1], &r->iteration[0], (TIR_MAX_STAGES + 1) * sizeof(r->iteration[0]));
    r->iteration[0] = oldest;
    memset(oldest, 0, r->max_id * sizeof(oldest[0]));
}
void tir_move_phase(struct tir_rotation *r, unsigned stage, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < r->n_order; i++) {
        struct tir_op *const op = tir_op(r->f, r->order[i]);
        if (tir_stage_of(op) == stage && op->phase == from)
            op->phase = (uint8_t)to;
    }
    sort_iteration(r);
}

void *tir_alloc_clear(struct tir_func *f, size_t size)
{
    return memset(tir_alloc(f, size), 0, size);
}

struct tir_rotation tir_begin_rotation(struct tir_func *f, const struct tir_schedule *s,
                                       struct tir_op *loop, unsigned last, bool only_copies)
{
    struct tir_rotation r = {.f = f, .schedule = s, .loop = loop, .last = last};
    r.body = r.loop->blocks[0];
    r.yield = tir_op(f, r.body->ops[r.body->n_ops - 1]);
    r.max_id = f->n_values;
    r.is_op_value = tir_alloc_clear(f, r.max_id * sizeof(bool));
    for (unsigned i = 0; i < TIR_MAX_STAGES + 2; i++)
        r.iteration[i] = tir_alloc_clear(f, r.max_id * sizeof(r.iteration[i][0]));
    sort_iteration(&r);
    note_values(&r);
    choose_kept(&r, only_copies);
    find_carries(&r);
    return r;
}
