/* SPDX-License-Identifier: Apache-2.0
 *
 * This file checks loops whose ops have stages: what lower_pipeline requires, so that it can
 * transform every loop that passes. A function has at most one such loop.
 */
#include "ir/verify.h"

/* Returns the pipeline stage of `op`, 0 if it has none. */
static unsigned stage_of(const struct tir_op *op)
{
    return op->stage == TIR_NO_STAGE ? 0 : op->stage;
}

bool tir_is_pipelined(const struct tir_func *f, const struct tir_op *loop)
{
    const struct tir_block *const body = loop->opcode == TIR_for ? loop->blocks[0] : NULL;
    for (uint32_t i = 0; body && i < body->n_ops; i++)
        if (stage_of(tir_op(f, body->ops[i])))
            return true;
    return false;
}

/* One op of the loop's body, with its nested blocks. */
struct use {
    struct tir_verifier *v;
    const struct tir_op *loop;
    const struct tir_block *body;
    unsigned stage, phase;
};

/* True if an op of the loop body, which `*by` receives, computes `value`. */
static bool is_made_in(const struct use *u, struct tir_value value, const struct tir_op **by)
{
    const struct tir_ref def = u->v->f->values[value.id].def;
    for (uint32_t i = 0; def.id && i < u->body->n_ops; i++)
        if (u->body->ops[i].id == def.id) {
            *by = tir_op(u->v->f, def);
            return true;
        }
    return false;
}

/* Checks the use of a carried value. It is used in the stage that makes the next one, or in the
 * stage before. In the latter case, whose tile is newer, the use is in a later phase than the
 * definition. */
static void check_carried(const struct use *u, uint32_t param)
{
    const struct tir_block *const body = u->body;
    const struct tir_op *const yield = tir_op(u->v->f, body->ops[body->n_ops - 1]);
    const struct tir_op *by = NULL;
    if (yield->opcode != TIR_yield || param > yield->n_operands)
        return;
    if (!tir_check(u->v, is_made_in(u, yield->operands[param - 1], &by),
                   "carried value %u of a pipelined loop is not made in it", param))
        return;
    const unsigned made = stage_of(by);
    const bool just_made = made == u->stage + 1 && by->phase < u->phase;
    tir_check(u->v, made == u->stage || just_made,
              "carried value %u is used in stage %u, phase %u and made in stage %u, phase %u",
              param, u->stage, u->phase, made, (unsigned)by->phase);
}

/* Checks the carried values that an op of the walk uses. */
static bool check_operands(void *context, struct tir_block *b, struct tir_ref r)
{
    struct use *const u = context;
    const struct tir_op *const op = tir_op(u->v->f, r);
    (void)b;
    for (uint32_t i = 0; i < op->n_operands; i++)
        for (uint32_t k = 1; k < u->body->n_params; k++)
            if (u->body->params[k].id == op->operands[i].id)
                check_carried(u, k);
    return false;
}

/* True if `v` is the integer constant `number`. */
static bool is_constant(const struct tir_func *f, struct tir_value v, int64_t number)
{
    const struct tir_ref def = f->values[v.id].def;
    return def.id && tir_op(f, def)->opcode == TIR_const_int && tir_op(f, def)->imm[0] == number;
}

/* Checks the order of a phase: waits and barriers end it, so an op that needs their effect belongs
   to a later phase. */
static void check_order(struct tir_verifier *v, const struct tir_block *body, uint32_t at)
{
    const struct tir_op *const op = tir_op(v->f, body->ops[at]);
    const bool reads = op->opcode == TIR_tile_lds_load || op->opcode == TIR_lds_read ||
                       op->opcode == TIR_lds_read_tr;
    for (uint32_t i = 0; reads && i < at; i++) {
        const struct tir_op *const end = tir_op(v->f, body->ops[i]);
        const bool ends = end->opcode == TIR_wait || end->opcode == TIR_barrier ||
                          end->opcode == TIR_barrier_signal || end->opcode == TIR_barrier_wait;
        tir_check(v, !ends || end->phase != op->phase || stage_of(end) != stage_of(op),
                  "comes after a %s that ends its phase", tir_ops[end->opcode].name);
    }
}

void tir_check_pipeline(struct tir_verifier *v, const struct tir_op *loop)
{
    const struct tir_ref self = v->op;
    struct use u = {.v = v, .loop = loop, .body = loop->blocks[0]};
    tir_check(v, v->n_pipelined++ == 0, "is the second pipelined loop of the function");
    tir_check(v, is_constant(v->f, loop->operands[0], 0) && is_constant(v->f, loop->operands[2], 1),
              "a pipelined loop counts from 0 in steps of 1");
    for (uint32_t i = 0; i + 1 < u.body->n_ops; i++) {
        const struct tir_op *const op = tir_op(v->f, u.body->ops[i]);
        v->op = u.body->ops[i];
        u.stage = stage_of(op);
        u.phase = op->phase;
        check_order(v, u.body, i);
        tir_walk_op(v->f, loop->blocks[0], u.body->ops[i], check_operands, &u);
    }
    v->op = self;
}
