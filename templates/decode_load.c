/* SPDX-License-Identifier: Apache-2.0
 *
 * K and V of decode: tiles of a paged cache, straight to registers. A block of 16 keys lies in one
 * page, so that its page number is a scalar and its address a buffer resource whose size ends at
 * the last key: what is beyond reads as 0, which neither a page number nor garbage can spoil.
 *
 * V is loaded as it lies, a lane holding neighbours of one token, and used transposed: the lanes of
 * the matrix operand stand for rows of V^T that are a load apart, and the registers for those in
 * between. O^T inherits the order, and goes back to memory in it.
 */
#include "templates/decode.h"
#include "templates/scalar.h"

#include <assert.h>
#include <stdio.h>

static unsigned log2u(unsigned x) { return (unsigned)__builtin_ctz(x); }

/* Registers and lanes of a layout, bit by bit. */
static void add_reg(struct tir_layout *l, uint32_t image)
{
    l->basis[l->reg_bits++] = image;
}

/* Bits of dv that one load covers. */
static unsigned v_vector_bits(const struct decode *d)
{
    const unsigned widest = log2u(16 / d->kv_bytes), all = log2u(d->value.width) - 4;
    return widest < all ? widest : all;
}

/* Lanes 0..3 walk dv from the vector on, lanes 4 and 5 the keys that the scores have there. */
static void add_v_lanes(const struct decode *d, struct tir_layout *l)
{
    const unsigned vector = v_vector_bits(d);
    l->lane_bits = 6;
    for (unsigned i = 0; i < 4; i++)
        l->basis[l->reg_bits + i] = TIR_RC(0, 1u << (vector + i));
    l->basis[l->reg_bits + 4] = TIR_RC(4, 0);
    l->basis[l->reg_bits + 5] = TIR_RC(8, 0);
}

static void add_v_columns(const struct decode *d, struct tir_layout *l)
{
    const unsigned vector = v_vector_bits(d), all = log2u(d->value.width);
    for (unsigned i = 0; i < all; i++)
        if (i < vector || i >= vector + 4)
            add_reg(l, TIR_RC(0, 1u << i));
}

static void choose_v(struct decode *d)
{
    struct tir_layout *const loaded = &d->value.block, *const used = &d->v_operand;
    add_v_columns(d, loaded);
    add_reg(loaded, TIR_RC(1, 0));
    add_reg(loaded, TIR_RC(2, 0));
    add_v_lanes(d, loaded);

    add_reg(used, TIR_RC(1, 0));
    add_reg(used, TIR_RC(2, 0));
    for (unsigned key = DECODE_BLOCK; key < d->keys; key *= 2)
        add_reg(used, TIR_RC(key, 0));
    add_v_columns(d, used);
    add_v_lanes(d, used);
}

/* O^T = V^T P^T: rows in the order of V's lanes and registers. */
static void choose_output(struct decode *d)
{
    const unsigned step = 1u << v_vector_bits(d);
    struct tir_layout o = {.lane_bits = 6};
    add_reg(&o, TIR_RC(step, 0));
    add_reg(&o, TIR_RC(2 * step, 0));
    struct tir_layout columns = {0};
    add_v_columns(d, &columns);
    for (unsigned i = 0; i < columns.reg_bits; i++)
        add_reg(&o, TIR_RC(tir_rc_col(columns.basis[i]), 0));
    for (unsigned column = 16; column < d->columns; column *= 2)
        add_reg(&o, TIR_RC(0, column));
    for (unsigned i = 0; i < 4; i++)
        o.basis[o.reg_bits + i] = TIR_RC(0, 1u << i);
    o.basis[o.reg_bits + 4] = TIR_RC(4 * step, 0);
    o.basis[o.reg_bits + 5] = TIR_RC(8 * step, 0);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &o);
}

void decode_choose_layouts(struct decode *d)
{
    const struct tir_mma *const qk = &d->m->mma[d->qk];
    const struct tir_layout s = tir_mma_result(qk, d->keys, d->columns, 0);
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &s);
    d->depth = tir_contract_rows(qk, d->k.width, 16 / d->kv_bytes);
    d->k.block = tir_mma_operand(qk, DECODE_BLOCK, 0, &d->depth);
    choose_v(d);
    choose_output(d);
}

static struct tir_value stride_of(struct decode *d, const struct decode_cache *c, const char *what)
{
    char name[32];
    snprintf(name, sizeof(name), "%s_%s_stride", c->name, what);
    return att_stride(&d->b, name, (int)d->kv_bytes);
}

static void find_one(struct decode *d, struct decode_cache *c)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at =
        tir_mul(b, att_wide(b, d->item.kv_head), stride_of(d, c, "head"));
    c->base = tir_add(b, tir_arg(b, c->name, TIR_I64), at);
    c->page_stride = stride_of(d, c, "page");
    c->token_stride = tir_convert(b, stride_of(d, c, "token"), TIR_I32);
}

void decode_find_cache(struct decode *d)
{
    find_one(d, &d->k);
    find_one(d, &d->value);
}

struct tir_value decode_page_shift(struct decode *d)
{
    if (!d->v->page_size)
        return tir_arg(&d->b, "page_shift", TIR_I32);
    return tir_i32(&d->b, (int)log2u((unsigned)d->v->page_size));
}

void decode_find_pages(struct decode *d, struct tir_value key,
                       struct tir_value pages[DECODE_MAX_BLOCKS])
{
    struct tir_builder *b = &d->b;
    const struct tir_value last = att_plus(b, d->item.end_key, -1);
    for (unsigned i = 0; i < d->keys / DECODE_BLOCK; i++) {
        const struct tir_value at = tir_min(b, att_plus(b, key, (int)(i * DECODE_BLOCK)), last);
        const struct tir_value page = tir_shr(b, at, decode_page_shift(d));
        pages[i] = tir_scalar_load(b, d->item.table, tir_shl(b, page, tir_i32(b, 2)), TIR_I32);
    }
}

static struct tir_value load_block(struct decode *d, const struct decode_cache *c,
                                   struct tir_value key, struct tir_value page)
{
    struct tir_builder *b = &d->b;
    struct tir_value base =
        tir_add(b, c->base, tir_mul(b, tir_zext(b, page, TIR_I64), c->page_stride));
    if (d->v->page_size > DECODE_BLOCK) {
        const struct tir_value in_page = tir_and(b, key, tir_i32(b, d->v->page_size - 1));
        base = tir_add(b, base, tir_zext(b, tir_mul(b, in_page, c->token_stride), TIR_I64));
    }
    const struct tir_value rows =
        tir_min(b, tir_sub(b, d->item.end_key, key), tir_i32(b, DECODE_BLOCK));
    const struct tir_view view =
        att_view(b, base, rows, c->token_stride, (int)(c->width * d->kv_bytes), 0);
    return tir_tile_load(b, view, tir_i32(b, 0),
                         tir_tile(b->f, d->kv_dtype, DECODE_BLOCK, c->width, &c->block));
}

/* Blocks one above the other: 2 or 4 become one tile. */
static struct tir_value load_tile(struct decode *d, const struct decode_cache *c,
                                  struct tir_value key,
                                  const struct tir_value pages[DECODE_MAX_BLOCKS])
{
    struct tir_builder *b = &d->b;
    struct tir_value block[DECODE_MAX_BLOCKS];
    unsigned n = d->keys / DECODE_BLOCK;
    for (unsigned i = 0; i < n; i++)
        block[i] = load_block(d, c, att_plus(b, key, (int)(i * DECODE_BLOCK)), pages[i]);
    for (; n > 1; n /= 2)
        for (unsigned i = 0; i < n / 2; i++)
            block[i] = tir_stack(b, block[2 * i], block[2 * i + 1]);
    return block[0];
}

struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct tir_value pages[DECODE_MAX_BLOCKS])
{
    return tir_named(&d->b, "k", load_tile(d, &d->k, key, pages));
}

struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct tir_value pages[DECODE_MAX_BLOCKS])
{
    return tir_named(&d->b, "v", load_tile(d, &d->value, key, pages));
}

struct tir_value decode_turn_v(struct decode *d, struct tir_value loaded)
{
    return tir_transpose(&d->b, tir_relayout(&d->b, loaded, &d->v_operand));
}
