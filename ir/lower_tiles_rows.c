/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is the part of lower_tiles for tiles whose rows are at arbitrary addresses: pages of a
 * cache, slots of a batch. Every row has its own 64-bit byte offset, so a cache may exceed 4 GiB.
 */
#include "ir/address_map.h"
#include "ir/lower_tiles.h"

#include <assert.h>

#include "ir/bits.h"

enum { MAX_ACCESS = 16 /* most bytes that a lane accesses at once */ };

/* The addresses of a tile whose rows are at arbitrary places in memory. */
struct rows {
    const struct tir_layout *l;
    /* i64 address; Mx1 tile of i64 byte offsets, one for each row */
    struct tir_value base, address;
    struct tir_value lane; /* byte offset of each lane within its row: vec of i64 */
    unsigned apart, per;   /* bytes between two columns; columns of one access */
};

/* Emits the column offsets of a lane's elements for a gather or scatter of tile type `t`. */
static struct rows rows_of(struct tir_expander *x, const struct tir_op *op, struct tir_type t)
{
    struct tir_builder *b = &x->b;
    struct rows r = {.l = tir_layout_of(x->f, t)};
    const unsigned bytes = tir_dtype_bits(t.dtype) / 8;
    r.apart = op->imm[0] ? (unsigned)op->imm[0] : bytes;
    uint32_t cols[TIR_LAYOUT_MAX_BITS] = {0};
    /* An index is composed by xor of bits, so its images may contain only powers of two. */
    const unsigned factor = tir_is_power(r.apart) ? 1 : r.apart;
    for (int i = 0; i < r.l->lane_bits + r.l->wave_bits; i++)
        cols[i] = tir_rc_col(r.l->basis[r.l->reg_bits + i]) * (r.apart / factor);
    r.per = r.apart == bytes ? 1u << tir_layout_contiguous(r.l, 1) : 1;
    while (r.per * bytes > MAX_ACCESS)
        r.per /= 2;
    r.base = tir_scalar_now(x, op->operands[0]);
    r.address = op->operands[1];
    const struct tir_value byte =
        tir_splat(b, tir_scalar_now(x, op->operands[2]), tir_vec(TIR_I32, 1));
    struct tir_value column = tir_lane_index(x, cols, r.l->wave_bits);
    if (factor > 1)
        column = tir_mul(b, column, tir_splat(b, tir_i32(b, (int)factor), tir_vec(TIR_I32, 1)));
    const struct tir_value at = tir_add(b, column, byte);
    r.lane = tir_convert(b, at, TIR_I64);
    return r;
}

/* Returns the row address that register `reg` of the tile uses. */
static struct tir_value row_address(struct tir_expander *x, const struct rows *r, unsigned reg)
{
    const struct tir_layout *vector = tir_layout_of(x->f, tir_typeof(x->f, r->address));
    const unsigned row = tir_rc_row(tir_layout_apply(r->l, reg, 0, 0));
    for (unsigned i = 0; i < 1u << vector->reg_bits; i++)
        if (tir_rc_row(tir_layout_apply(vector, i, 0, 0)) == row)
            return tir_elements(x, r->address, i, 1);
    assert(!"row addresses do not cover the tile's rows");
    return (struct tir_value){0};
}

/* Returns the bytes that register `reg` adds to the lane's column offset. */
static int64_t own_offset(const struct rows *r, unsigned reg)
{
    return (int64_t)tir_rc_col(tir_layout_apply(r->l, reg, 0, 0)) * r->apart;
}

/* True if all lanes of a wave have the same elements. */
static bool is_uniform(const struct tir_layout *l)
{
    for (int i = 0; i < l->lane_bits; i++)
        if (l->basis[l->reg_bits + i])
            return false;
    return true;
}

/* Loads a uniform element by a scalar load. LLVM would wait for a vector load at once, to move its
 * element to a scalar register. */
static struct tir_value load_scalar(struct tir_expander *x, const struct rows *r, unsigned reg,
                                    unsigned dtype)
{
    struct tir_builder *b = &x->b;
    const struct tir_value at = tir_add(b, row_address(x, r, reg), r->lane);
    const struct tir_value operands[] = {tir_add(b, r->base, tir_first_lane(b, at)), tir_i32(b, 0)};
    const struct tir_value v = tir_build(b, TIR_scalar_load, tir_scalar(dtype), operands, 2,
                                         (int64_t[]){own_offset(r, reg), 0});
    return tir_splat(b, v, tir_vec(dtype, 1));
}

void tir_expand_gather(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type t = tir_typeof(x->f, op->result);
    const struct rows r = rows_of(x, op, t);
    if (op->imm[1] && r.per == 1 && tir_dtype_bits(t.dtype) >= 32 && is_uniform(r.l)) {
        struct tir_pieces p = tir_alloc_pieces(x, 1u << r.l->reg_bits, 1);
        for (unsigned i = 0; i < p.n; i++)
            p.v[i] = load_scalar(x, &r, i, t.dtype);
        tir_set_pieces(x, op->result, p);
        return;
    }
    struct tir_pieces p = tir_alloc_pieces(x, (1u << r.l->reg_bits) / r.per, r.per);
    for (unsigned i = 0; i < p.n; i++) {
        const struct tir_value operands[] = {r.base,
                                             tir_add(&x->b, row_address(x, &r, i * r.per), r.lane)};
        p.v[i] = tir_build(&x->b, TIR_global_load, tir_vec(t.dtype, r.per), operands, 2,
                           (int64_t[]){own_offset(&r, i * r.per)});
    }
    tir_set_pieces(x, op->result, p);
}

/* Loads rows through a resource: rows are 32-bit offsets, and a register's part is the
   instruction's immediate offset. */
void tir_expand_fetch(struct tir_expander *x, const struct tir_op *op)
{
    struct tir_builder *b = &x->b;
    const struct tir_type t = tir_typeof(x->f, op->result);
    struct rows r = {.l = tir_layout_of(x->f, t), .address = op->operands[1]};
    uint32_t cols[TIR_LAYOUT_MAX_BITS] = {0};
    r.apart = tir_dtype_bits(t.dtype) / 8;
    for (int i = 0; i < r.l->lane_bits + r.l->wave_bits; i++)
        cols[i] = tir_rc_col(r.l->basis[r.l->reg_bits + i]) * r.apart;
    r.per = 1u << tir_layout_contiguous(r.l, 1);
    while (r.per * r.apart > MAX_ACCESS)
        r.per /= 2;
    const struct tir_value lane = tir_lane_index(x, cols, r.l->wave_bits), zero = tir_i32(b, 0);
    struct tir_pieces p = tir_alloc_pieces(x, (1u << r.l->reg_bits) / r.per, r.per);
    for (unsigned i = 0; i < p.n; i++) {
        const struct tir_value at = tir_add(b, row_address(x, &r, i * r.per), lane);
        const struct tir_value operands[] = {tir_scalar_now(x, op->operands[0]), at, zero};
        p.v[i] = tir_build(b, TIR_buffer_load, tir_vec(t.dtype, r.per), operands, 3,
                           (int64_t[]){op->imm[0] + own_offset(&r, i * r.per)});
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_scatter(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value a = op->operands[3];
    const struct rows r = rows_of(x, op, tir_typeof(x->f, a));
    for (unsigned reg = 0; reg < 1u << r.l->reg_bits; reg += r.per) {
        const struct tir_value row = row_address(x, &r, reg);
        const struct tir_value operands[] = {tir_cmp_ge(&x->b, row, tir_int_like(&x->b, row, 0)),
                                             r.base, tir_add(&x->b, row, r.lane),
                                             tir_elements(x, a, reg, r.per)};
        tir_build(&x->b, TIR_global_store_if, (struct tir_type){0}, operands, 4,
                  (int64_t[]){own_offset(&r, reg)});
    }
}

/* True if an instruction's immediate offset can hold `bytes`. */
static bool fits_offset(int64_t bytes)
{
    enum { OFFSETS = 4096 };
    return bytes < OFFSETS;
}

/* Copies rows to LDS; every wave makes all rounds. Register bits that overlap columns of lanes are
   flipped in the address, and the others are added. */
void tir_expand_gather_to_lds(struct tir_expander *x, const struct tir_op *op)
{
    struct tir_builder *b = &x->b;
    const struct tir_machine *const m = x->f->machine;
    const struct tir_layout *const map = x->f->layouts[op->imm[2]];
    const unsigned bytes = tir_dtype_bits(tir_unpack_type(op->imm[1]).dtype) / 8;
    const unsigned access = tir_map_access(map, m, bytes), per = access / bytes;
    const struct tir_layout l = tir_map_lanes(map, m, x->f->waves, bytes);
    const struct rows r = {.l = &l, .address = op->operands[1]};
    const bool wide = tir_typeof(x->f, r.address).dtype == TIR_I64;
    uint32_t cols[TIR_LAYOUT_MAX_BITS] = {0};
    for (int i = 0; i < l.lane_bits; i++)
        cols[i] = tir_rc_col(l.basis[l.reg_bits + i]) * bytes;
    const struct tir_value byte =
        tir_splat(b, tir_scalar_now(x, op->operands[2]), tir_vec(TIR_I32, 1));
    const struct tir_value column = tir_lane_index(x, cols, 0);
    uint32_t of_lanes = 0;
    for (int i = 0; i < l.lane_bits; i++)
        of_lanes |= cols[i];
    const struct tir_value base = tir_scalar_now(x, op->operands[0]);
    const struct tir_value lds = tir_scalar_now(x, op->operands[3]);
    for (unsigned i = 0; i < 1u << l.reg_bits; i += per) {
        const int64_t before =
            op->imm[3] + op->imm[4] + tir_lds_address(map, i << m->lane_bits, bytes);
        const int64_t own = (int64_t)tir_rc_col(tir_layout_apply(&l, i, 0, 0)) * bytes;
        const int64_t flipped = own & of_lanes, beside = own - flipped;
        const int64_t both = op->imm[4] + (fits_offset(op->imm[4] + beside) ? beside : 0);
        const int64_t added = op->imm[4] + beside - both;
        struct tir_value at =
            flipped ? tir_xor(b, column, tir_int_like(b, column, flipped)) : column;
        at = tir_add(b, at, byte);
        if (added)
            at = tir_add(b, at, tir_int_like(b, at, added));
        if (wide)
            at = tir_convert(b, at, TIR_I64);
        const struct tir_value operands[] = {base, lds, tir_add(b, row_address(x, &r, i), at)};
        tir_build(b, TIR_global_to_lds, (struct tir_type){0}, operands, 3,
                  (int64_t[]){op->imm[0], access, before - both, both});
    }
}
