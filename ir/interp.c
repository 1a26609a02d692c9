/* SPDX-License-Identifier: Apache-2.0
 *
 * This file interprets control flow. Waves that disagree about a branch run it one group after the
 * other. The waves of the other groups are inactive meanwhile.
 */
#include "ir/interp_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/arith.h"

/* The number of an op in the order of the printed form. */
struct count {
    struct tir_ref wanted;
    unsigned n;
};

/* Counts an op of the walk; stops at the op whose number is wanted. */
static bool count_op(void *context, struct tir_block *b, struct tir_ref r)
{
    struct count *const c = context;
    (void)b;
    c->n++;
    return r.id == c->wanted.id;
}

bool interp_fail(struct interp *x, const char *format, ...)
{
    if (x->failed)
        return false;
    x->failed = true;
    struct count count = {.wanted = x->at};
    tir_walk(x->f, x->f->body, count_op, &count);
    const struct tir_op *const op = tir_op(x->f, x->at);
    const char *const name = op->n_results ? x->f->values[op->result.id].name : NULL;
    int n =
        snprintf(x->why, TIR_WHY, "workgroup %u,%u,%u, op %u, %s%s%s: ", x->block[0], x->block[1],
                 x->block[2], count.n, tir_ops[op->opcode].name, name ? " " : "", name ? name : "");
    n = n < TIR_WHY ? n : TIR_WHY - 1;
    va_list args;
    va_start(args, format);
    vsnprintf(x->why + n, TIR_WHY - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* Returns the number of stored elements of a value of type `t`, over all waves. */
static size_t n_elements(const struct interp *x, struct tir_type t)
{
    switch (t.kind) {
    case TIR_SCALAR: return x->f->waves * (t.dtype == TIR_RSRC ? 2u : 1u);
    case TIR_VEC: return (size_t)x->f->waves * interp_lanes(x) * t.count;
    default: return (size_t)x->f->waves * t.rows * t.cols;
    }
}

int64_t *interp_value(struct interp *x, struct tir_value v)
{
    if (!x->values[v.id])
        x->values[v.id] = tir_scratch(n_elements(x, tir_typeof(x->f, v)), sizeof(*x->values[v.id]));
    return x->values[v.id];
}

/* Returns, for each wave, lane and register of layout `t.layout`, the packed row and column that it
 * holds. The table is made once per layout. */
static const uint32_t *owned_by(struct interp *x, struct tir_type t)
{
    uint32_t **const cached = &x->owned[t.layout];
    if (*cached)
        return *cached;
    const struct tir_layout *const l = tir_layout_of(x->f, t);
    const unsigned regs = 1u << l->reg_bits, waves = 1u << l->wave_bits;
    *cached = tir_scratch((size_t)x->f->waves * interp_lanes(x) * regs, sizeof(**cached));
    uint32_t *at = *cached;
    for (unsigned w = 0; w < x->f->waves; w++)
        for (unsigned lane = 0; lane < interp_lanes(x); lane++) {
            const uint32_t own = tir_layout_apply(l, 0, lane, w % waves);
            for (unsigned r = 0; r < regs; r++)
                *at++ = own ^ tir_layout_apply(l, r, 0, 0);
        }
    return *cached;
}

size_t interp_wave_elements(struct interp *x, struct tir_type t)
{
    switch (t.kind) {
    case TIR_SCALAR: return t.dtype == TIR_RSRC ? 2 : 1;
    case TIR_VEC: return (size_t)interp_lanes(x) * t.count;
    default: return (size_t)interp_lanes(x) << tir_layout_of(x->f, t)->reg_bits;
    }
}

uint32_t interp_rc(struct interp *x, struct tir_type t, unsigned wave, size_t k)
{
    assert(k < interp_wave_elements(x, t));
    return owned_by(x, t)[wave * interp_wave_elements(x, t) + k];
}

size_t interp_index(struct interp *x, struct tir_type t, unsigned wave, size_t k)
{
    if (t.kind != TIR_TILE)
        return wave * interp_wave_elements(x, t) + k;
    const uint32_t rc = interp_rc(x, t, wave, k);
    return interp_element(t, wave, tir_rc_row(rc), tir_rc_col(rc));
}

int64_t interp_scalar(struct interp *x, const struct tir_op *op, unsigned operand, unsigned wave)
{
    return interp_value(x, op->operands[operand])[wave];
}

/* Copies the active waves' elements of `from` to `to`, which has the same type. */
static void copy_value(struct interp *x, struct tir_value to, struct tir_value from)
{
    const struct tir_type t = tir_typeof(x->f, to);
    int64_t *const d = interp_value(x, to), *const s = interp_value(x, from);
    const size_t n = interp_wave_elements(x, t);
    for (unsigned w = 0; w < x->f->waves; w++)
        for (size_t k = 0; interp_runs(x, w) && k < n; k++) {
            const size_t i = interp_index(x, t, w, k);
            d[i] = s[i];
        }
}

/* Copies `n` values at once from `from` to `to`, so that carried values may be exchanged. */
static void copy_values(struct interp *x, const struct tir_value *to, const struct tir_value *from,
                        uint32_t n)
{
    int64_t **const saved = tir_scratch(n, sizeof(*saved));
    for (uint32_t i = 0; i < n; i++) {
        const size_t bytes = n_elements(x, tir_typeof(x->f, from[i])) * sizeof(int64_t);
        saved[i] = tir_scratch(1, bytes);
        memcpy(saved[i], interp_value(x, from[i]), bytes);
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t *const own = interp_value(x, from[i]);
        x->values[from[i].id] = saved[i];
        if (to[i].id == from[i].id)
            x->values[from[i].id] = own;
        else
            copy_value(x, to[i], from[i]);
        x->values[from[i].id] = own;
    }
    for (uint32_t i = 0; i < n; i++)
        free(saved[i]);
    free(saved);
}

static void run_block(struct interp *x, const struct tir_block *b);

/* Returns the op that ends block `b`, a yield. */
static const struct tir_op *yield_of(const struct interp *x, const struct tir_block *b)
{
    return tir_op(x->f, b->ops[b->n_ops - 1]);
}

/* Returns a new array of the results of `op`; the caller frees it. */
static struct tir_value *results_of(const struct tir_op *op)
{
    struct tir_value *const r = tir_scratch(op->n_results, sizeof(*r));
    for (uint32_t i = 0; i < op->n_results; i++)
        r[i] = tir_result(op, i);
    return r;
}

/* Runs both blocks of an `if`, each with only the waves whose condition selects it. */
static void run_if(struct interp *x, const struct tir_op *op)
{
    const uint32_t all = x->active;
    struct tir_value *const results = results_of(op);
    uint32_t taken = 0;
    for (unsigned w = 0; w < x->f->waves; w++)
        if (interp_runs(x, w) && interp_scalar(x, op, 0, w))
            taken |= 1u << w;
    for (int k = 0; k < 2 && !x->failed; k++) {
        x->active = k ? all & ~taken : taken;
        if (!x->active)
            continue;
        run_block(x, op->blocks[k]);
        copy_values(x, results, yield_of(x, op->blocks[k])->operands, op->n_results);
    }
    x->active = all;
    free(results);
}

/* Runs a `for` loop; waves may have different trip counts, and a wave that has finished is
 * inactive. */
static void run_for(struct interp *x, const struct tir_op *op)
{
    const uint32_t all = x->active;
    const struct tir_block *const body = op->blocks[0];
    const struct tir_op *const yield = yield_of(x, body);
    struct tir_value *const results = results_of(op);
    const struct tir_value index = body->params[0];
    const unsigned dtype = tir_typeof(x->f, index).dtype;
    copy_value(x, index, op->operands[0]);
    copy_values(x, body->params + 1, op->operands + 3, op->n_results);
    while (!x->failed) {
        for (unsigned w = 0; w < x->f->waves; w++)
            if (interp_value(x, index)[w] >= interp_scalar(x, op, 1, w))
                x->active &= ~(1u << w);
        if (!x->active)
            break;
        run_block(x, body);
        copy_values(x, body->params + 1, yield->operands, op->n_results);
        for (unsigned w = 0; w < x->f->waves; w++)
            if (interp_runs(x, w))
                interp_value(x, index)[w] =
                    tir_wrap(dtype, interp_value(x, index)[w] + interp_scalar(x, op, 2, w));
    }
    x->active = all;
    copy_values(x, results, body->params + 1, op->n_results);
    free(results);
}

/* Runs `op` if it is control flow, a wait or a barrier; returns false for all other ops. */
static bool run_flow(struct interp *x, const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_if: run_if(x, op); return true;
    case TIR_for: run_for(x, op); return true;
    case TIR_wait:
    case TIR_waitcnt:
    case TIR_wait_tensor:
    case TIR_barrier:
    case TIR_barrier_signal:
    case TIR_barrier_wait:
    case TIR_acquire:
    case TIR_set_priority:
    case TIR_align_code:
    case TIR_only_copies:
    case TIR_settle:
    case TIR_anchor:
    case TIR_phase:
    case TIR_yield:
    case TIR_return: return true;
    default: return false;
    }
}

/* Runs the ops of block `b` in order until one fails. */
static void run_block(struct interp *x, const struct tir_block *b)
{
    for (uint32_t i = 0; i < b->n_ops && !x->failed; i++) {
        const struct tir_op *const op = tir_op(x->f, b->ops[i]);
        x->at = b->ops[i];
        if (!run_flow(x, op) && !interp_elementwise(x, op) && !interp_registers(x, op) &&
            !interp_tile(x, op) && !interp_memory(x, op))
            interp_fail(x, "the interpreter does not run this op");
    }
}

bool tir_interpret(const struct tir_func *f, const void *kernarg, size_t kernarg_size,
                   const unsigned grid[3], char why[TIR_WHY])
{
    struct interp x = {
        .f = f,
        .kernarg = kernarg,
        .kernarg_size = kernarg_size,
        .values = tir_scratch(f->n_values, sizeof(*x.values)),
        .owned = tir_scratch(f->n_layouts, sizeof(*x.owned)),
        .lds = tir_scratch(f->lds_bytes, 1),
        .lds_written = tir_scratch(f->lds_bytes, 1),
        .why = why,
    };
    const uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t i = 0; i < n && !x.failed; i++) {
        x.block[0] = (unsigned)(i % grid[0]);
        x.block[1] = (unsigned)(i / grid[0] % grid[1]);
        x.block[2] = (unsigned)(i / grid[0] / grid[1]);
        x.active = (1u << f->waves) - 1;
        memset(x.lds_written, 0, f->lds_bytes);
        run_block(&x, f->body);
    }
    for (uint32_t i = 0; i < f->n_values; i++)
        free(x.values[i]);
    for (uint32_t i = 0; i < f->n_layouts; i++)
        free(x.owned[i]);
    free(x.values);
    free(x.owned);
    free(x.lds);
    free(x.lds_written);
    return !x.failed;
}
