/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is the part of lower_tiles that converts tiles between layouts. The composition of the
 * two layouts decides the data path: registers of the lane (renamed, or byte by byte), other lanes
 * of the wave (selects and lane moves), or other waves (through LDS). Reductions over an axis that
 * waves split end here too.
 */
#include <assert.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/convert.h"
#include "ir/lower_tiles.h"

static const struct tir_type none;

/* The functions from here on convert a layout within the registers of a lane. */

/* The source of a byte of the result: the 32-bit register that begins with element `first` of tile
 * `a`, and one of its four bytes. */
struct byte_source {
    unsigned first, byte;
};

/* A tile being converted. */
struct change {
    struct tir_expander *x;
    struct tir_pieces a;
    unsigned dtype;
    unsigned unit; /* elements of a register */
    const struct tir_layout *from, *to;
    struct tir_conversion c;
};

/* Returns the source registers that start at element `first`, as one unit. */
static struct tir_value source_register(const struct change *r, unsigned first)
{
    return tir_take(r->x, &r->a, r->dtype, first, r->unit);
}

/* Permutes bytes by v_perm_b32: byte i of the result is byte pick[i] of `low` (0..3) or `high`
 * (4..7). */
static struct tir_value permute(const struct change *r, struct tir_value low, struct tir_value high,
                                const unsigned pick[4])
{
    const int64_t selector = pick[0] | pick[1] << 8 | pick[2] << 16 | (int64_t)pick[3] << 24;
    return tir_build(&r->x->b, TIR_byte_perm, none, (struct tir_value[]){high, low}, 2, &selector);
}

/* Joins bytes s[0] and s[1] of two registers, beginning with byte *at of the result. If both have
 * the same position in their registers, as in a transposition, the result also holds their
 * neighbours, so that opt_cse can reuse it. */
static struct tir_value join_bytes(const struct change *r, const struct byte_source s[2],
                                   unsigned *at)
{
    const bool same = s[0].byte == s[1].byte;
    const unsigned low = same ? s[0].byte & ~1u : s[0].byte, high = same ? low : s[1].byte;
    *at = same ? 2 * (s[0].byte & 1) : 0;
    return permute(r, source_register(r, s[0].first), source_register(r, s[1].first),
                   (unsigned[]){low, 4 + high, (low + same) & 3, 4 + ((high + same) & 3)});
}

/* Emits the instruction that gathers four bytes from source registers into one register. */
static struct tir_value gather_bytes(const struct change *r, const struct byte_source s[4])
{
    const unsigned first = s[0].first;
    unsigned other = first, pick[4], low_at, high_at;
    bool two = true, whole = true;
    for (unsigned i = 0; i < 4; i++) {
        whole = whole && s[i].first == first && s[i].byte == i;
        if (s[i].first == first || s[i].first == other)
            continue;
        two = two && other == first;
        other = s[i].first;
    }
    if (whole)
        return source_register(r, first);
    if (two) {
        for (unsigned i = 0; i < 4; i++)
            pick[i] = s[i].byte + (s[i].first == first ? 0 : 4);
        return permute(r, source_register(r, first), source_register(r, other), pick);
    }
    const struct tir_value low = join_bytes(r, s, &low_at), high = join_bytes(r, s + 2, &high_at);
    return permute(r, low, high, (unsigned[]){low_at, low_at + 1, 4 + high_at, 5 + high_at});
}

/* Emits the result of a conversion that only renames registers or permutes their bytes. */
static struct tir_pieces change_registers(const struct change *r)
{
    const unsigned unit = r->unit, size = tir_dtype_bits(r->dtype) / 8;
    const uint32_t *const m = r->c.map.column;
    struct tir_pieces p = tir_alloc_pieces(r->x, (1u << r->to->reg_bits) / unit, unit);
    assert(unit == 1 || unit * size == 4);
    for (unsigned i = 0; i < p.n; i++) {
        unsigned source[4] = {0};
        for (unsigned k = 0; k < unit; k++)
            source[k] = tir_xor_images(m, i * unit + k);
        struct byte_source bytes[4];
        for (unsigned k = 0; unit > 1 && k < 4; k++)
            bytes[k] = (struct byte_source){source[k / size] & ~(unit - 1),
                                            source[k / size] % unit * size + k % size};
        p.v[i] = unit > 1 ? gather_bytes(r, bytes) : source_register(r, source[0]);
    }
    return p;
}

/* The functions from here on convert a layout across lanes. */

/* Replaces v[i] by v[i ^ flip] in lanes where `cond` (i1) is true. v[] has n registers. */
static void exchange(struct tir_expander *x, struct tir_value *v, unsigned n, uint32_t flip,
                     struct tir_value cond)
{
    for (unsigned i = 0; i < n; i++) {
        const unsigned k = i ^ flip;
        if (k < i)
            continue;
        const struct tir_value a = v[i], b = v[k];
        v[i] = tir_select(&x->b, cond, b, a);
        v[k] = tir_select(&x->b, cond, a, b);
    }
}

/* Exchanges the n registers v[] by lane bits: flips[j] is the exclusive-or that lane bit j applies
 * to a register's number. Bits with the same flip do so at once, in lanes with an odd number of
 * them set. */
static void exchange_by_lane(struct tir_expander *x, struct tir_value *v, unsigned n,
                             const uint32_t *flips, unsigned lanes)
{
    for (unsigned j = 0; j < lanes; j++) {
        uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
        bool first = flips[j] != 0;
        for (unsigned k = 0; k < j; k++)
            first = first && flips[k] != flips[j];
        if (!first)
            continue;
        for (unsigned k = j; k < lanes; k++)
            images[k] = flips[k] == flips[j];
        const struct tir_value odd = tir_lane_index(x, images, 0);
        exchange(x, v, n, flips[j], tir_cmp_ne(&x->b, odd, tir_int_like(&x->b, odd, 0)));
    }
}

/* Exchanges the n registers v[] in pairs, in the waves where a bit of the wave's number is set.
 * m->wave_reg[i] is the exclusive-or that wave bit i applies to a register's number. */
static void exchange_by_wave(struct tir_expander *x, struct tir_value *v, unsigned n,
                             const struct tir_lane_map *m)
{
    struct tir_builder *b = &x->b;
    for (unsigned i = 0; i < m->waves; i++) {
        if (!m->wave_reg[i])
            continue;
        const struct tir_value bit = tir_and(b, x->wave, tir_i32(b, 1 << i));
        exchange(x, v, n, m->wave_reg[i], tir_cmp_ne(b, bit, tir_i32(b, 0)));
    }
}

/* Returns v as read from the lane s->move(lane) ^ offset. *address is 4 times s->move(lane), made
   at the first call that needs it. */
static struct tir_value move_lanes(struct tir_expander *x, const struct tir_lane_map *m,
                                   const struct tir_lane_steps *s, struct tir_value v,
                                   uint32_t offset, struct tir_value *address)
{
    struct tir_builder *b = &x->b;
    if (s->exchanges && !offset)
        return v;
    if (s->exchanges)
        return tir_build(b, TIR_lane_xor, none, &v, 1, &(int64_t){offset});
    if (!address->id) {
        uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
        for (unsigned j = 0; j < m->lanes; j++)
            images[j] = s->move[j] * 4;
        *address = tir_lane_index(x, images, 0);
    }
    struct tir_value at = *address;
    if (offset)
        at = tir_xor(b, at, tir_int_like(b, at, (int64_t)offset * 4));
    return tir_build(b, TIR_lane_gather, none, (struct tir_value[]){at, v}, 2, NULL);
}

/* Emits a conversion of registers `from` to registers `to` across lanes: exchanges, moves between
 * lanes, exchanges. */
static void run_steps(struct tir_expander *x, const struct tir_lane_map *m,
                      const struct tir_lane_steps *s, struct tir_value *from, struct tir_value *to)
{
    const unsigned n_from = 1u << m->from_regs, n_to = 1u << m->to_regs;
    struct tir_value address = {0};
    exchange_by_wave(x, from, n_from, m);
    exchange_by_lane(x, from, n_from, s->before, m->lanes);
    for (unsigned r = 0; r < n_to; r++)
        to[r] = move_lanes(x, m, s, from[tir_xor_images(s->reg, r)], tir_xor_images(m->reg_lane, r),
                           &address);
    exchange_by_lane(x, to, n_to, s->after, m->lanes);
}

/* Returns the number of instructions of a conversion by the steps `s`, to compare two ways. */
static unsigned cost_of(const struct tir_lane_map *m, const struct tir_lane_steps *s)
{
    enum { SELECT = 1, EXCHANGE = 2, GATHER = 6 };
    unsigned cost = 0;
    for (unsigned j = 0; j < m->lanes; j++)
        cost += ((s->before[j] != 0) << m->from_regs) + ((s->after[j] != 0) << m->to_regs) * SELECT;
    for (unsigned r = 0; r < 1u << m->to_regs; r++)
        if (!s->exchanges)
            cost += GATHER;
        else if (tir_xor_images(m->reg_lane, r))
            cost += EXCHANGE;
    return cost;
}

/* Returns a map: its conversion and then a swap of register bit i with lane bit j are together the
 * conversion `m`. */
static struct tir_lane_map before_swap(const struct tir_lane_map *m, unsigned i, unsigned j)
{
    struct tir_lane_map b = *m;
    b.reg_reg[i] = m->lane_reg[j];
    b.reg_lane[i] = m->lane_lane[j];
    b.lane_reg[j] = m->reg_reg[i];
    b.lane_lane[j] = m->reg_lane[i];
    return b;
}

/* Swaps bit i of the register number with bit j of the lane number in the n registers v[].
 * v_permlane16_swap does so for j = 4, v_permlane32_swap for j = 5. */
static void swap_lanes(struct tir_expander *x, struct tir_value *v, unsigned n, unsigned i,
                       unsigned j)
{
    for (unsigned r = 0; r < n; r++) {
        if (r >> i & 1)
            continue;
        const struct tir_value pair[] = {v[r], v[r | 1u << i]};
        for (int which = 0; which < 2; which++)
            v[r | (unsigned)which << i] = tir_build(&x->b, TIR_lane_swap, tir_typeof(x->f, pair[0]),
                                                    pair, 2, (int64_t[]){1 << j, which});
    }
}

/* Emits the cheapest sequence that moves `from` to `to` between lanes. */
static void change_lanes(struct tir_expander *x, const struct tir_lane_map *m,
                         struct tir_value *from, struct tir_value *to)
{
    enum { SWAP_COST = 2 }; /* instructions for two registers */
    struct tir_lane_steps s, better;
    const bool sound = tir_lane_steps(m, &s);
    assert(sound);
    (void)sound;
    const unsigned cost = cost_of(m, &s);
    for (unsigned j = 4; x->f->machine->has_lane_swap && j < x->f->machine->lane_bits; j++)
        for (unsigned i = 0; i < m->to_regs; i++) {
            const struct tir_lane_map b = before_swap(m, i, j);
            const unsigned swaps = SWAP_COST << (m->to_regs - 1);
            if (!tir_lane_steps(&b, &better) || cost_of(&b, &better) + swaps >= cost)
                continue;
            change_lanes(x, &b, from, to);
            swap_lanes(x, to, 1u << m->to_regs, i, j);
            return;
        }
    run_steps(x, m, &s, from, to);
}

/* Returns a 32-bit register with the `unit` elements of the tile from element `first` on. If they
 * are one element of less than 32 bits, the register has copies of it. */
static struct tir_value word_of(const struct change *r, unsigned first, unsigned unit)
{
    struct tir_builder *b = &r->x->b;
    const struct tir_value e = tir_take(r->x, &r->a, r->dtype, first, unit);
    const unsigned copies = 32 / (unit * tir_dtype_bits(r->dtype));
    struct tir_value all[4] = {e, e, e, e}, v = e;
    if (copies > 1)
        v = tir_build(b, TIR_concat, tir_vec(r->dtype, copies * unit), all, copies, NULL);
    return unit * copies > 1 ? tir_bitcast(b, v, tir_vec(TIR_I32, 1)) : v;
}

/* Returns the first `unit` elements of a 32-bit word. */
static struct tir_value elements_of(const struct change *r, struct tir_value word, unsigned unit)
{
    struct tir_builder *b = &r->x->b;
    const unsigned all = 32 / tir_dtype_bits(r->dtype);
    if (all == 1)
        return word;
    const struct tir_value v = tir_bitcast(b, word, tir_vec(r->dtype, all));
    return unit == all ? v
                       : tir_build(b, TIR_extract, tir_vec(r->dtype, unit), &v, 1, &(int64_t){0});
}

/* Converts elements of up to 32 bits: whole registers if both layouts fill them alike, else single
 * elements. */
static struct tir_pieces move_words(const struct change *r)
{
    struct tir_expander *x = r->x;
    const unsigned full = 32 / tir_dtype_bits(r->dtype);
    struct tir_lane_map m;
    unsigned unit = r->unit == full ? full : 1;
    if (!tir_lane_map(r->from, r->to, &r->c, tir_bits(unit), &m)) {
        unit = 1;
        const bool sound = tir_lane_map(r->from, r->to, &r->c, 0, &m);
        assert(sound);
        (void)sound;
    }
    const unsigned n_from = 1u << m.from_regs, n_to = 1u << m.to_regs;
    struct tir_value *const from = tir_alloc(x->f, n_from * sizeof(from[0]));
    struct tir_value *const to = tir_alloc(x->f, n_to * sizeof(to[0]));
    for (unsigned i = 0; i < n_from; i++)
        from[i] = word_of(r, i * unit, unit);
    change_lanes(x, &m, from, to);
    struct tir_pieces p = tir_alloc_pieces(x, n_to, unit);
    for (unsigned i = 0; i < n_to; i++)
        p.v[i] = elements_of(r, to[i], unit);
    return p;
}

/* Converts elements of 64 bits: the low and the high halves separately. */
static struct tir_pieces move_halves(const struct change *r)
{
    struct tir_expander *x = r->x;
    struct tir_lane_map m;
    const bool sound = tir_lane_map(r->from, r->to, &r->c, 0, &m);
    assert(sound);
    (void)sound;
    const unsigned n_from = 1u << m.from_regs, n_to = 1u << m.to_regs;
    struct tir_value *const from = tir_alloc(x->f, n_from * sizeof(from[0]));
    struct tir_value *const to = tir_alloc(x->f, 2 * n_to * sizeof(to[0]));
    for (int64_t half = 0; half < 2; half++) {
        for (unsigned i = 0; i < n_from; i++) {
            const struct tir_value both =
                tir_bitcast(&x->b, source_register(r, i), tir_vec(TIR_I32, 2));
            from[i] = tir_build(&x->b, TIR_extract, tir_vec(TIR_I32, 1), &both, 1, &half);
        }
        change_lanes(x, &m, from, to + half * n_to);
    }
    struct tir_pieces p = tir_alloc_pieces(x, n_to, 1);
    for (unsigned i = 0; i < n_to; i++) {
        const struct tir_value halves[] = {to[i], to[n_to + i]};
        const struct tir_value both =
            tir_build(&x->b, TIR_concat, tir_vec(TIR_I32, 2), halves, 2, NULL);
        p.v[i] = tir_bitcast(&x->b, both, tir_vec(r->dtype, 1));
    }
    return p;
}

/* The functions from here on convert a layout through LDS. */

/* Returns the address map of a tile in transit through LDS. The registers that a lane of the result
 * reads at once are adjacent. */
static struct tir_layout passage(const struct tir_layout *to, unsigned bytes)
{
    enum { CHUNK = 16 };
    const unsigned wide = tir_bits(CHUNK / bytes);
    return tir_lane_major_once(to, to->reg_bits < wide ? to->reg_bits : wide);
}

/* Returns `bytes` of LDS for each group of 2^wave_bits waves, since groups may hold different
   tiles. */
static struct tir_value scratch(struct tir_expander *x, unsigned bytes, unsigned wave_bits)
{
    struct tir_builder *b = &x->b;
    const unsigned groups = x->f->waves >> wave_bits, all = bytes * (groups ? groups : 1);
    if (x->scratch + all > x->f->lds_bytes)
        x->f->lds_bytes = x->scratch + all;
    const struct tir_value base =
        tir_build(b, TIR_lds_base, tir_scalar(TIR_I32), NULL, 0, &(int64_t){x->scratch});
    if (groups <= 1)
        return base;
    const struct tir_value group = tir_shr(b, x->wave, tir_i32(b, (int)wave_bits));
    return tir_add(b, base, tir_mul(b, group, tir_i32(b, (int)bytes)));
}

/* Waits for the LDS writes of all waves. */
static void meet(struct tir_expander *x)
{
    tir_wait(&x->b, TIR_LDS_WRITES, 0);
    tir_barrier(&x->b);
}

/* Converts through LDS. The second barrier protects the buffer, which the next conversion
   overwrites. */
static struct tir_pieces change_waves(const struct change *r)
{
    struct tir_expander *x = r->x;
    const unsigned bytes = tir_dtype_bits(r->dtype) / 8;
    const struct tir_layout map = passage(r->to, bytes);
    const unsigned from = r->from->wave_bits, to = r->to->wave_bits;
    const struct tir_value lds = scratch(x, bytes << map.reg_bits, from > to ? from : to);
    tir_store_pieces(x, lds, &map, r->from, r->dtype, &r->a);
    meet(x);
    const struct tir_pieces p = tir_load_pieces(x, lds, &map, r->to, r->dtype, 0, 0);
    meet(x);
    return p;
}

/* The functions from here on choose and emit any conversion. */

/* Emits the conversion of a tile by its kind: LDS, registers, or lanes in words. */
static struct tir_pieces change_numbers(struct change *r)
{
    r->unit = tir_unit(r->dtype, r->to);
    if (r->unit * tir_dtype_bits(r->dtype) < 32)
        r->unit = 1; /* a unit of one element is less than a register */
    if (r->c.kind == TIR_CONVERT_LDS)
        return change_waves(r);
    if (r->c.kind <= TIR_CONVERT_REGISTERS && !r->c.selects)
        return change_registers(r);
    return tir_dtype_bits(r->dtype) == 64 ? move_halves(r) : move_words(r);
}

/* Converts a tile of i1 by way of i32 elements 0 and 1. */
static struct tir_pieces change_truth(struct change *r)
{
    struct tir_builder *b = &r->x->b;
    const unsigned n = 1u << r->from->reg_bits;
    struct tir_pieces numbers = tir_alloc_pieces(r->x, n, 1);
    for (unsigned i = 0; i < n; i++)
        numbers.v[i] = tir_zext(b, tir_take(r->x, &r->a, TIR_I1, i, 1), TIR_I32);
    r->a = numbers;
    r->dtype = TIR_I32;
    numbers = change_numbers(r);
    struct tir_pieces p = tir_alloc_pieces(r->x, 1u << r->to->reg_bits, 1);
    for (unsigned i = 0; i < p.n; i++) {
        const struct tir_value v = tir_take(r->x, &numbers, TIR_I32, i, 1);
        p.v[i] = tir_cmp_ne(b, v, tir_int_like(b, v, 0));
    }
    return p;
}

/* Converts the registers `a` of a tile from layout `from` to layout `to`. */
static struct tir_pieces change_layout(struct tir_expander *x, struct tir_pieces a, unsigned dtype,
                                       const struct tir_layout *from, const struct tir_layout *to)
{
    struct change r = {.x = x, .a = a, .dtype = dtype, .from = from, .to = to};
    const bool known = tir_layout_conversion(from, to, &r.c);
    assert(known);
    (void)known;
    const bool moves = r.c.kind > TIR_CONVERT_REGISTERS || r.c.selects;
    return dtype == TIR_I1 && moves ? change_truth(&r) : change_numbers(&r);
}

void tir_expand_relayout(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type t = tir_typeof(x->f, op->result);
    const struct tir_layout *const from = tir_layout_of(x->f, tir_typeof(x->f, op->operands[0]));
    tir_set_pieces(
        x, op->result,
        change_layout(x, tir_pieces_of(x, op->operands[0]), t.dtype, from, tir_layout_of(x->f, t)));
}

struct tir_pieces tir_gather_waves(struct tir_expander *x, struct tir_pieces a, unsigned dtype,
                                   const struct tir_layout *part, uint32_t waves, int axis)
{
    const struct tir_layout own = tir_layout_name_waves(part, waves, axis);
    const struct tir_layout all = tir_layout_hold_waves(part, waves, axis);
    return change_layout(x, a, dtype, &own, &all);
}
