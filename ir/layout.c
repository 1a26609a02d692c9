/* SPDX-License-Identifier: Apache-2.0
 *
 * This file implements linear algebra over GF(2) on bases of at most 32 bits. A vector is a word,
 * and addition is xor.
 */
#include "ir/layout.h"

#include <string.h>

/* Vectors in row echelon form, each with the combination of inputs that yields it. */
struct echelon {
    unsigned n;
    uint32_t vector[TIR_LAYOUT_MAX_BITS];
    uint32_t inputs[TIR_LAYOUT_MAX_BITS];
};

/* Eliminates the leading bits of the vectors in `e` from v. *inputs collects the inputs used. */
static uint32_t reduce(const struct echelon *e, uint32_t v, uint32_t *inputs)
{
    for (unsigned i = 0; i < e->n; i++) {
        const uint32_t lead = 0x80000000u >> __builtin_clz(e->vector[i]);
        if (v & lead) {
            v ^= e->vector[i];
            *inputs ^= e->inputs[i];
        }
    }
    return v;
}

/* Adds vector v, to which the set `inputs` of input bits maps. A v that depends on earlier vectors
 * is ignored, so low input bits are preferred. */
static void add_vector(struct echelon *e, uint32_t v, uint32_t inputs)
{
    v = reduce(e, v, &inputs);
    if (!v)
        return;
    e->vector[e->n] = v;
    e->inputs[e->n] = inputs;
    e->n++;
}

/* Writes to *inputs a set of input bits whose images xor to `target`. Returns false if there is
 * none. */
static bool solve_one(const struct echelon *e, uint32_t target, uint32_t *inputs)
{
    *inputs = 0;
    return reduce(e, target, inputs) == 0;
}

uint32_t tir_layout_apply(const struct tir_layout *l, unsigned reg, unsigned lane, unsigned wave)
{
    const uint64_t x =
        reg | (uint64_t)lane << l->reg_bits | (uint64_t)wave << (l->reg_bits + l->lane_bits);
    uint32_t rc = 0;
    for (int i = 0; i < tir_layout_bits(l); i++)
        if (x >> i & 1)
            rc ^= l->basis[i];
    return rc;
}

struct tir_layout tir_layout_transpose(const struct tir_layout *l)
{
    struct tir_layout t = *l;
    for (int i = 0; i < tir_layout_bits(l); i++)
        t.basis[i] = TIR_RC(tir_rc_col(l->basis[i]), tir_rc_row(l->basis[i]));
    return t;
}

struct tir_layout tir_layout_permute_rows(const struct tir_layout *l, const uint8_t *to)
{
    struct tir_layout t = *l;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        uint32_t row = 0;
        for (unsigned from = tir_rc_row(l->basis[i]); from; from &= from - 1)
            row |= 1u << to[__builtin_ctz(from)];
        t.basis[i] = TIR_RC(row, tir_rc_col(l->basis[i]));
    }
    return t;
}

struct tir_layout tir_layout_sort_regs(const struct tir_layout *l)
{
    struct tir_layout t = *l;
    for (int i = 1; i < t.reg_bits; i++)
        for (int k = i; k > 0 && t.basis[k] < t.basis[k - 1]; k--) {
            const uint32_t image = t.basis[k];
            t.basis[k] = t.basis[k - 1];
            t.basis[k - 1] = image;
        }
    return t;
}

struct tir_layout tir_layout_regs_first(const struct tir_layout *l, uint32_t mask)
{
    struct tir_layout t = *l;
    unsigned n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < l->reg_bits; i++)
            if ((pass == 0) == ((l->basis[i] & mask) != 0))
                t.basis[n++] = l->basis[i];
    return t;
}

struct tir_layout tir_layout_deal_regs(const struct tir_layout *l, unsigned regs, unsigned n)
{
    struct tir_layout t = {.lane_bits = l->lane_bits, .wave_bits = (uint8_t)n};
    for (unsigned i = 0; i < l->reg_bits; i++)
        if (i + n < regs || i >= regs)
            t.basis[t.reg_bits++] = l->basis[i];
    for (unsigned i = 0; i < l->lane_bits; i++)
        t.basis[t.reg_bits + i] = l->basis[l->reg_bits + i];
    for (unsigned i = 0; i < n; i++)
        t.basis[t.reg_bits + t.lane_bits + i] = l->basis[regs - n + i];
    return t;
}

struct tir_layout tir_layout_join_blocks(const struct tir_layout *l, unsigned rows, unsigned width)
{
    struct tir_layout t = *l;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned row = tir_rc_row(l->basis[i]), col = tir_rc_col(l->basis[i]);
        t.basis[i] = TIR_RC(row % rows, col + row / rows * width);
    }
    return t;
}

struct tir_layout tir_layout_split_blocks(const struct tir_layout *l, unsigned rows, unsigned width)
{
    struct tir_layout t = *l;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned row = tir_rc_row(l->basis[i]), col = tir_rc_col(l->basis[i]);
        t.basis[i] = TIR_RC(row + col / width * rows, col % width);
    }
    return t;
}

int tir_layout_find_bit(const struct tir_layout *l, uint32_t rc)
{
    for (int i = 0; i < tir_layout_bits(l); i++)
        if (l->basis[i] == rc)
            return i;
    return -1;
}

struct tir_layout tir_layout_swap(const struct tir_layout *l, uint32_t image, uint32_t other)
{
    const int i = tir_layout_find_bit(l, image), k = tir_layout_find_bit(l, other);
    struct tir_layout r = *l;
    if (i < 0 || k < 0)
        return r;
    r.basis[i] = other;
    r.basis[k] = image;
    return r;
}

struct tir_layout tir_layout_stack(const struct tir_layout *l, unsigned rows)
{
    struct tir_layout r = *l;
    memmove(r.basis + l->reg_bits + 1, l->basis + l->reg_bits,
            (size_t)(l->lane_bits + l->wave_bits) * sizeof(r.basis[0]));
    r.basis[r.reg_bits++] = TIR_RC(rows, 0);
    return r;
}

struct tir_layout tir_layout_half(const struct tir_layout *l)
{
    struct tir_layout r = *l;
    r.reg_bits--;
    memmove(r.basis + r.reg_bits, l->basis + l->reg_bits,
            (size_t)(l->lane_bits + l->wave_bits) * sizeof(r.basis[0]));
    return r;
}

struct tir_layout tir_layout_join_cols(const struct tir_layout *l, unsigned bits)
{
    struct tir_layout r = *l;
    r.reg_bits = (uint8_t)(l->reg_bits - bits);
    for (int i = 0; i < tir_layout_bits(&r); i++) {
        const uint32_t image = l->basis[i + (int)bits];
        r.basis[i] = TIR_RC(tir_rc_row(image), tir_rc_col(image) >> bits);
    }
    return r;
}

struct tir_layout tir_layout_split_cols(const struct tir_layout *l, unsigned bits)
{
    struct tir_layout r = *l;
    r.reg_bits = (uint8_t)(l->reg_bits + bits);
    for (unsigned i = 0; i < bits; i++)
        r.basis[i] = TIR_RC(0, 1u << i);
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const uint32_t image = l->basis[i];
        r.basis[i + (int)bits] = TIR_RC(tir_rc_row(image), tir_rc_col(image) << bits);
    }
    return r;
}

bool tir_layout_has_neighbours(const struct tir_layout *l, unsigned bits)
{
    const uint32_t low = TIR_RC(0, (1u << bits) - 1);
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const bool first = i < (int)bits && i < l->reg_bits;
        if (first ? l->basis[i] != TIR_RC(0, 1u << i) : l->basis[i] & low)
            return false;
    }
    return bits <= l->reg_bits;
}

bool tir_layout_has_halves(const struct tir_layout *l, unsigned rows)
{
    return rows > 1 && l->reg_bits && l->basis[l->reg_bits - 1] == TIR_RC(rows / 2, 0);
}

struct tir_layout tir_layout_slice(const struct tir_layout *l, int axis)
{
    const uint32_t keep = axis == 0 ? TIR_RC(0, 0xffff) : TIR_RC(0xffff, 0);
    struct tir_layout s = {.lane_bits = l->lane_bits, .wave_bits = l->wave_bits};
    int n = 0;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const uint32_t image = l->basis[i] & keep;
        if (i < l->reg_bits && !image)
            continue;
        s.reg_bits += i < l->reg_bits;
        s.basis[n++] = image;
    }
    return s;
}

/* Returns the bits of x that `mask` selects, moved together. */
static unsigned compact(unsigned x, unsigned mask)
{
    unsigned y = 0;
    for (int to = 0; mask; mask &= mask - 1)
        y |= (x >> __builtin_ctz(mask) & 1) << to++;
    return y;
}

struct tir_layout tir_layout_fold_rows(const struct tir_layout *l, unsigned *rows)
{
    unsigned folded = 0, all = 0;
    struct echelon by_regs = {0};
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned row = tir_rc_row(l->basis[i]);
        all |= row;
        if (i < l->reg_bits) {
            folded |= row;
            add_vector(&by_regs, row, 0);
        }
    }
    *rows = 0;
    struct tir_layout f = {.lane_bits = l->lane_bits, .wave_bits = l->wave_bits};
    int n = 0;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned row = compact(tir_rc_row(l->basis[i]), all & ~folded);
        const uint32_t image = TIR_RC(row, tir_rc_col(l->basis[i]));
        if (i < l->reg_bits && !image)
            continue;
        f.reg_bits += i < l->reg_bits;
        f.basis[n++] = image;
    }
    if (by_regs.n == (unsigned)__builtin_popcount(folded))
        *rows = 1u << __builtin_popcount(all & ~folded);
    return f;
}

/* Returns the packed row and column of one bit of a row (`axis` 0) or column (`axis` 1) index. */
static uint32_t image_of_part(unsigned bit, int axis)
{
    return axis ? TIR_RC(0, 1u << bit) : TIR_RC(1u << bit, 0);
}

struct tir_layout tir_layout_name_waves(const struct tir_layout *l, uint32_t waves, int axis)
{
    struct tir_layout own = *l;
    unsigned bit = 0;
    for (unsigned i = 0; i < l->wave_bits; i++)
        if (waves >> i & 1)
            own.basis[l->reg_bits + l->lane_bits + i] |= image_of_part(bit++, axis);
    return own;
}

struct tir_layout tir_layout_hold_waves(const struct tir_layout *l, uint32_t waves, int axis)
{
    struct tir_layout all = *l;
    const unsigned n = (unsigned)__builtin_popcount(waves);
    memmove(all.basis + n, l->basis, (size_t)tir_layout_bits(l) * sizeof(all.basis[0]));
    all.reg_bits = (uint8_t)(l->reg_bits + n);
    for (unsigned i = 0; i < n; i++)
        all.basis[i] = image_of_part(i, axis);
    return all;
}

struct tir_layout tir_layout_of_one_wave(const struct tir_layout *l)
{
    struct tir_layout one = *l;
    one.wave_bits = 0;
    return one;
}

bool tir_layout_covers(const struct tir_layout *l, unsigned rows, unsigned cols)
{
    const uint32_t inside = TIR_RC(rows - 1, cols - 1);
    struct echelon e = {0};
    for (int i = 0; i < tir_layout_bits(l); i++) {
        if (l->basis[i] & ~inside)
            return false;
        add_vector(&e, l->basis[i], 0);
    }
    return e.n == (unsigned)__builtin_popcount(inside);
}

bool tir_layout_equal(const struct tir_layout *a, const struct tir_layout *b)
{
    return a->reg_bits == b->reg_bits && a->lane_bits == b->lane_bits &&
           a->wave_bits == b->wave_bits && a->pad == b->pad &&
           (!a->pad || a->pad_shift == b->pad_shift) &&
           !memcmp(a->basis, b->basis, (size_t)tir_layout_bits(a) * sizeof(a->basis[0]));
}

bool tir_layout_solve(const struct tir_layout *to, const struct tir_layout *from,
                      uint32_t m[TIR_LAYOUT_MAX_BITS])
{
    struct echelon e = {0};
    for (int i = 0; i < tir_layout_bits(to); i++)
        add_vector(&e, to->basis[i], 1u << i);
    for (int i = 0; i < tir_layout_bits(from); i++)
        if (!solve_one(&e, from->basis[i], &m[i]))
            return false;
    return true;
}

int tir_low_bits_alone(const uint32_t *images, int regs, int all)
{
    int n = 0;
    uint32_t others = 0;
    while (n < regs && images[n] == 1u << n)
        n++;
    for (int i = n; i < all; i++)
        others |= images[i];
    return others && __builtin_ctz(others) < n ? __builtin_ctz(others) : n;
}

int tir_layout_contiguous(const struct tir_layout *l, int axis)
{
    uint32_t images[TIR_LAYOUT_MAX_BITS];
    for (int i = 0; i < tir_layout_bits(l); i++) {
        const unsigned row = tir_rc_row(l->basis[i]), col = tir_rc_col(l->basis[i]);
        images[i] = axis == 0 ? row | col << 16 : col | row << 16;
    }
    return tir_low_bits_alone(images, l->reg_bits, tir_layout_bits(l));
}

/*
 * Sets *source to the cheapest set of input bits of `from` whose combined image is `image`. `own`
 * is the bit with the role of the destination's bit; 0: none. The function first tries the set that
 * has only `own`. It then tries sets of register bits, then sets of register and lane bits, and
 * last sets of any bits. Each of these three searches runs with `own` in the set first, and without
 * it second. Returns false if no set has that image.
 */
static bool cheapest_source(const struct tir_layout *from, const struct echelon by_cost[3],
                            uint32_t own, uint32_t image, uint32_t *source)
{
    const uint32_t own_image = own ? from->basis[__builtin_ctz(own)] : 0;
    if (own && own_image == image) {
        *source = own;
        return true;
    }
    for (int cost = 0; cost < 3; cost++) {
        if (own && solve_one(&by_cost[cost], image ^ own_image, source)) {
            *source ^= own;
            return true;
        }
        if (solve_one(&by_cost[cost], image, source))
            return true;
    }
    return false;
}

/* Returns the packed bit of `from` that has the role (register, lane or wave bit) of bit i of
   `to`. */
static uint32_t same_bit(const struct tir_layout *from, const struct tir_layout *to, int i)
{
    const int lane = i - to->reg_bits, wave = lane - to->lane_bits;
    if (lane < 0)
        return i < from->reg_bits ? 1u << i : 0;
    if (wave < 0)
        return lane < from->lane_bits ? 1u << (from->reg_bits + lane) : 0;
    return wave < from->wave_bits ? 1u << (from->reg_bits + from->lane_bits + wave) : 0;
}

/* Returns a mask of the low `n` bits. */
static uint32_t low_bits(unsigned n) { return n < 32 ? (1u << n) - 1 : ~0u; }

/* Chooses the cheapest kind of conversion from `from` to `to`: none, registers, lanes or LDS. */
static void classify(const struct tir_layout *from, const struct tir_layout *to,
                     struct tir_conversion *c)
{
    const uint32_t regs = low_bits(from->reg_bits);
    const uint32_t lanes = low_bits(from->reg_bits + from->lane_bits) & ~regs;
    bool same = true;
    uint32_t crossing = 0, waves = 0;
    for (int i = 0; i < tir_layout_bits(to); i++) {
        const uint32_t own = same_bit(from, to, i);
        const bool is_reg = i < to->reg_bits, is_wave = i >= to->reg_bits + to->lane_bits;
        const uint32_t moved = c->map.column[i] ^ (is_reg ? 0 : own);
        if (is_reg)
            same = same && c->map.column[i] == own && own;
        else
            c->selects = c->selects || (moved & regs);
        crossing |= moved & lanes;
        waves |= moved & ~regs & (is_wave ? ~0u : ~lanes);
    }
    c->lanes = crossing >> from->reg_bits;
    if (waves)
        c->kind = TIR_CONVERT_LDS;
    else if (crossing)
        c->kind = TIR_CONVERT_LANES;
    else
        c->kind = same && !c->selects ? TIR_CONVERT_NONE : TIR_CONVERT_REGISTERS;
}

bool tir_layout_conversion(const struct tir_layout *from, const struct tir_layout *to,
                           struct tir_conversion *c)
{
    /* by registers only; registers and lanes; registers, lanes and waves */
    struct echelon by_cost[3] = {0};
    for (int i = 0; i < tir_layout_bits(from); i++)
        for (int cost = 0; cost < 3; cost++)
            if (cost == 2 || i < from->reg_bits + (cost == 1 ? from->lane_bits : 0))
                add_vector(&by_cost[cost], from->basis[i], 1u << i);
    *c = (struct tir_conversion){.map.n_bits = (uint8_t)tir_layout_bits(to)};
    for (int i = 0; i < tir_layout_bits(to); i++) {
        const uint32_t own = same_bit(from, to, i);
        if (!cheapest_source(from, by_cost, own, to->basis[i], &c->map.column[i]))
            return false;
    }
    classify(from, to, c);
    return true;
}
