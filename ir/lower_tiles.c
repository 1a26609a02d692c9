/* SPDX-License-Identifier: Apache-2.0
 *
 * From tiles to registers. Every tile value becomes the vecs that hold it, in the order of its
 * layout's register bits; every tile op becomes one op per machine instruction:
 *
 *     %s : tile<32x256xf32, #0> = fma %a, %b, %c
 *  -> %s0 : vec<1xf32> = fma %a0, %b0, %c0
 *     %s1 : vec<1xf32> = fma %a1, %b1, %c1  ...
 *
 * Accumulators of matrix instructions stay whole (16 or 4 elements a vec) across loops and
 * branches, so that they never move; everything else is carried register by register.
 */
#include "ir/lower_tiles.h"
#include "ir/matrix.h"
#include "ir/passes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

unsigned tir_unit(unsigned dtype, const struct tir_layout *l)
{
    const unsigned bits = tir_dtype_bits(dtype), all = 1u << l->reg_bits;
    const unsigned unit = bits == 16 ? 2 : bits == 8 ? 4 : 1;
    return unit < all ? unit : all;
}

struct tir_value tir_scalar_now(const struct tir_expander *x, struct tir_value v)
{
    return v.id < x->n && x->scalars[v.id].id ? x->scalars[v.id] : v;
}

struct tir_pieces tir_pieces_of(struct tir_expander *x, struct tir_value tile)
{
    assert(tile.id < x->n && x->pieces[tile.id].n);
    return x->pieces[tile.id];
}

struct tir_pieces tir_alloc_pieces(struct tir_expander *x, unsigned n, unsigned per)
{
    return (struct tir_pieces){n, per, tir_alloc(x->f, n * sizeof(struct tir_value))};
}

void tir_set_pieces(struct tir_expander *x, struct tir_value tile, struct tir_pieces p)
{
    const char *name = x->f->values[tile.id].name;
    for (unsigned i = 0; name && i < p.n; i++)
        if (!x->f->values[p.v[i].id].name)
            tir_name(x->f, p.v[i], name);
    x->pieces[tile.id] = p;
}

struct tir_value tir_take(struct tir_expander *x, const struct tir_pieces *p, unsigned dtype,
                          unsigned first, unsigned count)
{
    if (count == p->per)
        return p->v[first / p->per];
    const struct tir_type t = tir_vec(dtype, count);
    if (count < p->per) {
        const int64_t at = first % p->per;
        return tir_build(&x->b, TIR_extract, t, &p->v[first / p->per], 1, &at);
    }
    return tir_build(&x->b, TIR_concat, t, &p->v[first / p->per], count / p->per, NULL);
}

struct tir_value tir_elements(struct tir_expander *x, struct tir_value tile, unsigned first,
                              unsigned count)
{
    const struct tir_pieces p = tir_pieces_of(x, tile);
    return tir_take(x, &p, tir_typeof(x->f, tile).dtype, first, count);
}

/* True if `v` is a tile. */
static bool is_tile(const struct tir_expander *x, struct tir_value v)
{
    return tir_typeof(x->f, v).kind == TIR_TILE;
}

/* True if an operand or result of `op` is a tile. */
static bool has_tile(const struct tir_expander *x, const struct tir_op *op)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        if (is_tile(x, op->operands[i]))
            return true;
    for (unsigned i = 0; i < op->n_results; i++)
        if (is_tile(x, tir_result(op, i)))
            return true;
    return false;
}

/* Returns operand `i` of the yield that ends block `b`. */
static struct tir_value yielded(const struct tir_expander *x, const struct tir_block *b, unsigned i)
{
    return tir_op(x->f, b->ops[b->n_ops - 1])->operands[i];
}

/* Most ops through which a value's definition is traced back: loops, branches, stacks and
 * transposes. */
enum { MOST_DEEP = 8 };

/* Returns the product that holds v in accumulation registers, traced through loops, branches,
   stacks and transposes. NULL if there is none. */
static const struct tir_op *kept_by(const struct tir_expander *x, struct tir_value v, int depth)
{
    const struct tir_ref def = x->f->values[v.id].def;
    if (!def.id || depth == MOST_DEEP)
        return NULL;
    const struct tir_op *const op = tir_op(x->f, def), *by = NULL;
    if (op->opcode == TIR_mma)
        return op->imm[2] ? op : NULL;
    if (op->opcode == TIR_mma_scaled)
        return op->imm[1] ? op : NULL;
    if (op->opcode == TIR_stack || op->opcode == TIR_transpose)
        return kept_by(x, op->operands[0], depth + 1);
    if (op->opcode == TIR_for || op->opcode == TIR_if)
        for (int k = 0; k < 2 && op->blocks[k] && !by; k++)
            by = kept_by(x, yielded(x, op->blocks[k], v.id - op->result.id), depth + 1);
    return by;
}

/* Returns the number of elements of each vec that carries v through a loop or branch. */
static unsigned carried_size(const struct tir_expander *x, struct tir_value v, int depth)
{
    if (v.id < x->n && x->pieces[v.id].n)
        return x->pieces[v.id].per;
    const struct tir_op *const by = kept_by(x, v, depth);
    if (by)
        return tir_mma_acc_regs(&x->f->machine->mma[by->imm[0]]);
    const struct tir_type t = tir_typeof(x->f, v);
    const struct tir_ref def = x->f->values[v.id].def;
    if (def.id && depth < MOST_DEEP) {
        const struct tir_op *op = tir_op(x->f, def);
        if (op->opcode == TIR_mma || op->opcode == TIR_mma_scaled || op->opcode == TIR_mma_halves)
            return tir_mma_acc_regs(&x->f->machine->mma[op->imm[0]]);
        if (op->opcode == TIR_if)
            return carried_size(x, yielded(x, op->blocks[1], v.id - op->result.id), depth + 1);
    }
    return t.kind == TIR_TILE ? tir_unit(t.dtype, tir_layout_of(x->f, t)) : 1;
}

/* Writes the elements of v to `out`, as vecs of `per` elements, or v itself if it is a scalar.
 * Returns the number of values. */
static unsigned flatten(struct tir_expander *x, struct tir_value v, unsigned per,
                        struct tir_value *out)
{
    if (!is_tile(x, v)) {
        out[0] = tir_scalar_now(x, v);
        return 1;
    }
    const struct tir_pieces p = tir_pieces_of(x, v);
    const unsigned n = p.n * p.per / per;
    for (unsigned i = 0; i < n; i++)
        out[i] = tir_elements(x, v, i * per, per);
    return n;
}

/* Writes to `out` the types of the vecs of `per` elements that replace value `v`; returns their
 * count. A value that is no tile keeps its type. */
static unsigned flat_types(struct tir_expander *x, struct tir_value v, unsigned per,
                           struct tir_type *out)
{
    const struct tir_type t = tir_typeof(x->f, v);
    if (t.kind != TIR_TILE) {
        out[0] = t;
        return 1;
    }
    const unsigned n = (1u << tir_layout_of(x->f, t)->reg_bits) / per;
    for (unsigned i = 0; i < n; i++)
        out[i] = tir_vec(t.dtype, per);
    return n;
}

/* Undoes flatten(): makes v consist of the values at[0..]. Returns the number of values used. */
static unsigned unflatten(struct tir_expander *x, struct tir_value v, unsigned per,
                          const struct tir_value *at)
{
    const struct tir_type t = tir_typeof(x->f, v);
    if (t.kind != TIR_TILE) {
        x->scalars[v.id] = at[0];
        return 1;
    }
    struct tir_pieces p = tir_alloc_pieces(x, (1u << tir_layout_of(x->f, t)->reg_bits) / per, per);
    memcpy(p.v, at, p.n * sizeof(at[0]));
    tir_set_pieces(x, v, p);
    return p.n;
}

/* Most vecs that one loop carries or one `if` returns. */
enum { MAX_FLAT = 1024 };

static void expand_block(struct tir_expander *x, const struct tir_block *from);

/* Replaces a loop by one that carries vecs instead of tiles. */
static void expand_for(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_block *body = op->blocks[0];
    const struct tir_op *yield = tir_op(x->f, body->ops[body->n_ops - 1]);
    const unsigned n = op->n_operands - 3;
    struct tir_value *flat = tir_alloc(x->f, MAX_FLAT * sizeof(flat[0]));
    unsigned *per = tir_alloc(x->f, (n + 1) * sizeof(per[0]));
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        per[i] = carried_size(x, yield->operands[i], 0);
        count += flatten(x, op->operands[3 + i], per[i], flat + count);
        assert(count <= MAX_FLAT);
    }
    struct tir_loop loop =
        tir_begin_for(&x->b, tir_scalar_now(x, op->operands[0]), tir_scalar_now(x, op->operands[1]),
                      tir_scalar_now(x, op->operands[2]), flat, count);
    x->scalars[body->params[0].id] = loop.index;
    for (unsigned i = 0, at = 0; i < n; i++)
        at += unflatten(x, body->params[1 + i], per[i], flat + at);
    const struct tir_value lane = x->lane;
    expand_block(x, body);
    for (unsigned i = 0, at = 0; i < n; i++)
        at += flatten(x, yield->operands[i], per[i], flat + at);
    tir_end_for(&x->b, &loop, flat, count);
    x->lane = x->fresh_lanes ? tir_materialize(&x->b, lane) : lane;
    for (unsigned i = 0, at = 0; i < n; i++)
        at += unflatten(x, tir_result(op, i), per[i], flat + at);
}

/* Replaces an `if` by one whose results are vecs instead of tiles. */
static void expand_if(struct tir_expander *x, const struct tir_op *op)
{
    struct tir_value *flat = tir_alloc(x->f, MAX_FLAT * sizeof(flat[0]));
    struct tir_type *types = tir_alloc(x->f, MAX_FLAT * sizeof(types[0]));
    unsigned *per = tir_alloc(x->f, (op->n_results + 1) * sizeof(per[0]));
    unsigned count = 0;
    for (unsigned i = 0; i < op->n_results; i++) {
        per[i] = carried_size(x, tir_result(op, i), 0);
        count += flat_types(x, tir_result(op, i), per[i], types + count);
        assert(count <= MAX_FLAT);
    }
    struct tir_if s =
        tir_begin_if(&x->b, tir_scalar_now(x, op->operands[0]), op->imm[0] != 0, types, count);
    tir_op(x->f, s.op)->imm[1] = op->imm[1];
    for (int k = 0; k < 2; k++) {
        const struct tir_block *block = op->blocks[k];
        const struct tir_value lane = x->lane;
        if (block)
            expand_block(x, block);
        x->lane = lane;
        const struct tir_op *yield =
            block && block->n_ops ? tir_op(x->f, block->ops[block->n_ops - 1]) : NULL;
        for (unsigned i = 0, at = 0; i < op->n_results; i++)
            at += flatten(x, yield->operands[i], per[i], flat + at);
        if (k == 0)
            tir_else(&x->b, &s, flat);
    }
    tir_end_if(&x->b, &s, flat);
    for (unsigned i = 0, at = 0; i < op->n_results; i++)
        at += unflatten(x, tir_result(op, i), per[i], flat + at);
}

typedef void expand_fn(struct tir_expander *x, const struct tir_op *op);

#define OP(name, operands, result, level, flags, attrs, signature, builder, expand, ...) \
    [TIR_##name] = tir_expand_##expand,
static expand_fn *const expansions[TIR_N_OPCODES] = {
#include "ir/ops.def"
};
#undef OP

void tir_expand_none(struct tir_expander *x, const struct tir_op *op)
{
    (void)x, (void)op;
    assert(!"an op that has no tiles");
}

/* Moves an op on scalars to its new place, unchanged. */
static void keep_op(struct tir_expander *x, struct tir_ref ref)
{
    struct tir_op *op = tir_op(x->f, ref);
    for (unsigned i = 0; i < op->n_operands; i++)
        op->operands[i] = tir_scalar_now(x, op->operands[i]);
    tir_append(x->f, x->b.block, ref);
}

/* Copies the ops of block `from` with all tiles replaced by vecs. */
static void expand_block(struct tir_expander *x, const struct tir_block *from)
{
    for (unsigned i = 0; i < from->n_ops; i++) {
        const struct tir_op *op = tir_op(x->f, from->ops[i]);
        x->b.stage = TIR_NO_STAGE;
        x->b.line = op->line;
        if (op->opcode == TIR_yield)
            continue; /* the op that owns the block writes the yield */
        if (op->opcode == TIR_for)
            expand_for(x, op);
        else if (op->opcode == TIR_if)
            expand_if(x, op);
        else if (tir_ops[op->opcode].level == TIR_LEVEL_TILE || has_tile(x, op))
            expansions[op->opcode](x, op);
        else
            keep_op(x, from->ops[i]);
    }
}

bool tir_lower_tiles(struct tir_func *f, const struct tir_schedule *s)
{
    struct tir_block *old = f->body;
    struct tir_expander x = {.f = f,
                             .n = f->n_values,
                             .scratch = (f->lds_bytes + 15) & ~15u,
                             .even_code = s->even_code,
                             .fresh_lanes = s->fresh_lanes};
    x.pieces = tir_alloc(f, x.n * sizeof(x.pieces[0]));
    x.scalars = tir_alloc(f, x.n * sizeof(x.scalars[0]));
    memset(x.pieces, 0, x.n * sizeof(x.pieces[0]));
    memset(x.scalars, 0, x.n * sizeof(x.scalars[0]));
    f->body = tir_create_block(f, NULL, (struct tir_ref){0});
    x.b = tir_at_end(f, f->body);
    x.lane = tir_lane_id(&x.b);
    x.wave = tir_wave_id(&x.b);
    expand_block(&x, old);
    f->lowered = true;
    return true;
}
