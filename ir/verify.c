/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is the verifier: structure and dominance here, the rules of single ops in verify_ops.c.
 * It collects every finding, shows them in the printed function and blames the pass that ran last.
 */
#include "ir/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/passes.h"
#include "ir/print.h"

/* Facts of the walk about each value and op, by id. */
struct scope {
    bool *visible;                 /* values whose definition dominates the current op */
    bool *sound;                   /* values with a valid type */
    const struct tir_block **home; /* the block of each op visited so far; else NULL */
};

bool tir_add_finding(struct tir_verifier *v, const char *format, ...)
{
    if (v->n_findings == v->cap_findings) {
        v->cap_findings = v->cap_findings ? 2 * v->cap_findings : 16;
        v->findings = tir_checked(realloc(v->findings, v->cap_findings * sizeof(*v->findings)));
    }
    struct tir_finding *const finding = &v->findings[v->n_findings++];
    finding->op = v->op;
    va_list args;
    va_start(args, format);
    vsnprintf(finding->text, sizeof(finding->text), format, args);
    va_end(args);
    return false;
}

/* Checks the definition of `value` by op `def` or block `block`, and makes it visible. */
static void define(struct tir_verifier *v, struct scope *s, struct tir_value value,
                   struct tir_ref def, const struct tir_block *block)
{
    if (!tir_check(v, value.id && value.id < v->f->n_values, "defines no value of the function"))
        return;
    const struct tir_value_info *const info = &v->f->values[value.id];
    tir_check(v, info->def.id == def.id && info->block == block,
              "value says that something else defines it");
    tir_check(v, !s->visible[value.id], "value is defined twice");
    s->visible[value.id] = true;
}

/* Checks the types of `n` values; returns whether all are valid. */
static bool check_types(struct tir_verifier *v, struct scope *s, const struct tir_value *values,
                        uint32_t n)
{
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = values[i].id;
        if (id && id < v->f->n_values)
            s->sound[id] = tir_check_type(v, v->f->values[id].type);
        ok = ok && id && id < v->f->n_values && s->sound[id];
    }
    return ok;
}

/* Checks the result types of `op`. */
static bool check_result_types(struct tir_verifier *v, struct scope *s, const struct tir_op *op)
{
    bool ok = true;
    for (uint32_t i = 0; i < op->n_results; i++)
        ok = check_types(v, s, &(struct tir_value){op->result.id + i}, 1) && ok;
    return ok;
}

/* Checks that the operands of `op` are visible and have valid types. */
static bool check_operands(struct tir_verifier *v, const struct scope *s, const struct tir_op *op)
{
    bool ok = true;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const uint32_t id = op->operands[i].id;
        if (!tir_check(v, id && id < v->f->n_values, "operand %u is no value", i))
            ok = false;
        else
            ok = tir_check(v, s->visible[id], "operand %u is not defined before its use", i) &&
                 s->sound[id] && ok;
    }
    return ok;
}

/* Checks that within an iteration no op uses a value of a later pipeline stage. */
static void check_stages(struct tir_verifier *v, const struct scope *s, const struct tir_op *op,
                         const struct tir_block *b)
{
    if (op->stage == TIR_NO_STAGE)
        return;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tir_ref def = v->f->values[op->operands[i].id].def;
        if (!def.id)
            continue;
        const struct tir_op *const producer = tir_op(v->f, def);
        const bool here = s->home[def.id] == b && producer->stage != TIR_NO_STAGE;
        tir_check(v, !here || producer->stage <= op->stage,
                  "operand %u is of stage %u, this of stage %u", i, producer->stage, op->stage);
    }
}

/* Checks that a group has copies of the tensor data mover only, or none of them. They have a
 * counter of their own (TENSORcnt: CDNA5 ISA, 10.11.1), and a wait for a group reads one. */
static void check_group(struct tir_verifier *v, const struct tir_op *op)
{
    enum { BY_LANES = 1, BY_TENSOR_MOVER = 2 };
    uint8_t kind = BY_LANES;
    switch (op->opcode) {
    case TIR_tensor_to_lds: kind = BY_TENSOR_MOVER; break;
    case TIR_copy_to_lds:
    case TIR_gather_to_lds:
    case TIR_buffer_to_lds:
    case TIR_global_to_lds: break;
    default: return;
    }
    if (!tir_check(v, op->imm[0] >= 0 && op->imm[0] < TIR_COPY_GROUPS, "no such group"))
        return;
    v->copied_by[op->imm[0]] |= kind;
    tir_check(v, v->copied_by[op->imm[0]] == kind,
              "group %lld has copies of the tensor data mover and others", (long long)op->imm[0]);
}

static void check_block(struct tir_verifier *v, struct scope *s, const struct tir_block *b);

/* Checks the number of nested blocks of `op` and their ops. */
static void check_nested(struct tir_verifier *v, struct scope *s, const struct tir_op *op,
                         const struct tir_block *b)
{
    const unsigned expected = op->opcode == TIR_for ? 1 : op->opcode == TIR_if ? 2 : 0;
    for (unsigned i = 0; i < 2; i++) {
        if (!tir_check(v, (i < expected) == !!op->blocks[i], "has the wrong number of blocks") ||
            !op->blocks[i])
            continue;
        tir_check(v, op->blocks[i]->owner.id == v->op.id && op->blocks[i]->parent == b,
                  "block does not belong to this op");
        check_block(v, s, op->blocks[i]); /* does not change v->op */
    }
}

/* Makes the values that block `b` defines invisible again. */
static void leave(struct tir_verifier *v, struct scope *s, const struct tir_block *b)
{
    for (uint32_t i = 0; i < b->n_params; i++)
        if (b->params[i].id < v->f->n_values)
            s->visible[b->params[i].id] = false;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(v->f, b->ops[i]);
        for (uint32_t k = 0; k < op->n_results; k++)
            if (tir_result(op, k).id < v->f->n_values)
                s->visible[tir_result(op, k).id] = false;
    }
}

/* Checks the ops of block `b` and the values that they may use. */
static void check_block(struct tir_verifier *v, struct scope *s, const struct tir_block *b)
{
    const struct tir_ref owner = v->op;
    for (uint32_t i = 0; i < b->n_params; i++)
        define(v, s, b->params[i], (struct tir_ref){0}, b);
    check_types(v, s, b->params, b->n_params);
    tir_check(v, b->n_ops > 0, "has an empty block");
    for (uint32_t i = 0; i < b->n_ops; i++) {
        v->op = b->ops[i];
        if (!tir_check(v, v->op.id && v->op.id < v->f->n_ops, "is no op"))
            continue;
        const struct tir_op *const op = tir_op(v->f, v->op);
        if (!tir_check(v, !s->home[v->op.id], "stands in two places"))
            continue;
        s->home[v->op.id] = b;
        const bool ends = op->opcode == TIR_yield || op->opcode == TIR_return;
        tir_check(v, ends == (i + 1 == b->n_ops),
                  ends ? "ends a block before its end" : "does not end its block");
        tir_check(v, !ends || (op->opcode == TIR_return) == (b == v->f->body),
                  "ends the wrong kind of block");
        const bool operands_ok = check_operands(v, s, op);
        if (check_result_types(v, s, op) && operands_ok) {
            tir_check_op(v);
            check_group(v, op);
            check_stages(v, s, op, b);
        }
        const bool pipelined =
            operands_ok && !v->f->lowered && !v->inside_pipelined && tir_is_pipelined(v->f, op);
        v->inside_pipelined |= pipelined;
        check_nested(v, s, op, b);
        if (pipelined) {
            tir_check_pipeline(v, op);
            v->inside_pipelined = false;
        }
        for (uint32_t k = 0; k < op->n_results; k++)
            define(v, s, tir_result(op, k), v->op, NULL);
    }
    leave(v, s, b);
    v->op = owner;
}

/* Prints the findings about `op` as comments before it. */
static void print_findings(void *context, struct tir_ref op, FILE *out)
{
    const struct tir_verifier *const v = context;
    for (uint32_t i = 0; i < v->n_findings; i++)
        if (v->findings[i].op.id == op.id)
            fprintf(out, "// error: %s\n", v->findings[i].text);
}

bool tir_verify(const struct tir_func *f, const char *after, FILE *out)
{
    struct tir_verifier v = {.f = f};
    struct scope s = {
        .visible = tir_scratch(f->n_values, sizeof(bool)),
        .sound = tir_scratch(f->n_values, sizeof(bool)),
        .home = tir_scratch(f->n_ops, sizeof(s.home[0])),
    };
    const unsigned lanes = f->waves << f->machine->lane_bits;
    tir_check(&v, f->waves > 0 && lanes <= 1024, "%u waves a workgroup", f->waves);
    check_block(&v, &s, f->body);
    const bool ok = v.n_findings == 0;
    if (!ok && out) {
        fprintf(out, "// %u error%s after %s\n", v.n_findings, v.n_findings == 1 ? "" : "s", after);
        tir_print_remarked(f, out, print_findings, &v);
    }
    free(v.findings);
    free(s.visible);
    free(s.sound);
    free(s.home);
    return ok;
}
