/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar ALU: SOP1, SOP2, SOPK, SOPC (CDNA3 ISA, chapter "Instructions", SOP sections). The comment
 * of a row is its pseudo-code, unless its expression says the same.
 *
 * A bit of a result is defined if it is the same for all values of the undefined bits of the
 * sources. known_bits.h has the rules for sums and comparisons. High halves of products, counts of
 * bits and unsigned differences are defined if all of their sources are.
 */
#include "exec_salu.h"
#include "known_bits.h"
#include "tables.h"

/* State of a scalar operation: sources a and b, result d, SCC, and which of their bits are
 * defined. */
struct sop {
    uint64_t a, b;
    uint64_t va, vb; /* masks of the defined bits of a and b */
    uint64_t d, vd;
    bool scc; /* before the operation the old SCC, after it the new one */
    bool scc_in_valid, vscc;
    /* true after an operation whose result is certainly not 0, even if its bits are undefined */
    bool nonzero;
};

typedef void (*sop_fn)(struct sop *s);

enum sop_arg {
    SOP_SCC = 1 << 0,    /* the operation sets SCC to s->scc */
    SOP_SCC_NZ = 1 << 1, /* SCC = (result != 0) */
    SOP_READS_SCC = 1 << 2,
    SOP_KEEPS = 1 << 3,  /* conditional move: if SCC is 0 the destination keeps its value */
    SOP_NO_DST = 1 << 4, /* compares: no destination */
};

/* Returns the mask of the type's bits: 32 or 64. */
static uint64_t type_mask(uint16_t type)
{
    return TYPE_DWORDS(type) >= 2 ? UINT64_MAX : UINT32_MAX;
}

void salu_write(struct wave *w, const struct opnd *o, uint64_t value, uint64_t valid)
{
    w->sgpr[o->reg] = (uint32_t)value;
    w->s_valid[o->reg] = (uint32_t)valid;
    if (o->dwords >= 2) {
        w->sgpr[o->reg + 1] = (uint32_t)(value >> 32);
        w->s_valid[o->reg + 1] = (uint32_t)(valid >> 32);
    }
    if (o->reg + o->dwords > SGPR_EXEC + 1) { /* a wave of 32 lanes has no upper half of EXEC */
        w->sgpr[SGPR_EXEC + 1] &= (uint32_t)(w->all >> 32);
        w->s_valid[SGPR_EXEC + 1] |= ~(uint32_t)(w->all >> 32);
    }
}

/* True if it is defined whether `value` is 0 under `mask`: one of its defined bits is set, or all
 * are defined. `valid` is the mask of defined bits. */
static uint8_t nonzero_valid(uint64_t value, uint64_t valid, uint64_t mask)
{
    return (valid & mask) == mask || (value & valid & mask) != 0;
}

/* Writes the result of a conditional move whose condition is undefined. A bit is defined if the old
 * and the new value have it alike. `moves`: the condition's present value. */
static void keep_or_move(struct wave *w, const struct opnd *o, const struct sop *s, bool moves)
{
    const bool wide = o->dwords >= 2;
    const uint64_t old = w->sgpr[o->reg] | (wide ? (uint64_t)w->sgpr[o->reg + 1] << 32 : 0);
    const uint64_t bits = wide ? sgpr_valid64(w, o->reg) : w->s_valid[o->reg];
    salu_write(w, o, moves ? s->d : old, s->vd & bits & ~(s->d ^ old));
}

/* Executes a scalar ALU instruction. */
static void exec_sop(struct wave *w, const struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t arg = row->arg;
    if (arg & (SOP_READS_SCC | SOP_KEEPS) && !wave_check_scc(w, in))
        return;
    struct sop s = {.scc = w->scc, .scc_in_valid = w->scc_valid};
    s.a = src_scalar(w, &in->src[0]);
    s.va = src_scalar_bits(w, &in->src[0]);
    s.b = src_scalar(w, &in->src[1]);
    s.vb = src_scalar_bits(w, &in->src[1]);
    uint64_t mask = type_mask(row->dst);
    bool full = (s.va & type_mask(row->src[0])) == type_mask(row->src[0]) &&
                (!row->src[1] || (s.vb & type_mask(row->src[1])) == type_mask(row->src[1])) &&
                (!(arg & SOP_READS_SCC) || w->scc_valid);
    s.vd = full ? mask : 0;
    s.vscc = full;
    bool taken = w->scc;
    ((sop_fn)row->kernel)(&s); /* may change vd and vscc */
    s.d &= mask;
    if (arg & SOP_SCC_NZ) {
        s.scc = s.d != 0;
        s.vscc = s.nonzero || nonzero_valid(s.d, s.vd, mask);
    }
    if (arg & SOP_KEEPS &&
        !s.scc_in_valid) /* if SCC is undefined, bits are defined that the old and the new value
                            have alike */
        keep_or_move(w, &in->dst, &s, taken);
    else if (!(arg & SOP_NO_DST) && (taken || !(arg & SOP_KEEPS)))
        salu_write(w, &in->dst, s.d, s.vd & mask);
    if (arg & (SOP_SCC | SOP_SCC_NZ)) {
        w->scc = s.scc;
        w->scc_valid = s.vscc;
    }
}

static uint32_t u32(uint64_t v) { return (uint32_t)v; }

static int32_t i32(uint64_t v) { return (int32_t)(uint32_t)v; }

/* Returns the mask of the product's defined bits. A defined zero defines all of them. */
static uint64_t product_bits(const struct sop *s)
{
    bool a_zero = !u32(s->a) && u32(s->va) == UINT32_MAX;
    bool b_zero = !u32(s->b) && u32(s->vb) == UINT32_MAX;
    return a_zero || b_zero ? UINT64_MAX : s->vd;
}

/* Returns a mask of the lowest n bits, at most 64. */
static uint64_t low_ones(unsigned n) { return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1; }

/* Returns a mask of `width` bits from bit `at` on; both are taken modulo 32. */
static uint32_t field_mask32(unsigned width, unsigned at)
{
    return ((1u << (width & 31)) - 1) << (at & 31);
}

/*
 * S_BFE: returns the bits of `value` from the offset in b[4:0] or b[5:0] on (`bits_of_offset` 5 or
 * 6). b[22:16] is the width. A width that exceeds the value extends to its end; a width of 0
 * returns 0.
 */
static uint64_t bit_field(uint64_t value, uint64_t b, unsigned bits_of_offset, bool is_signed)
{
    unsigned offset = u32(b) & ((1u << bits_of_offset) - 1), width = u32(b) >> 16 & 0x7f;
    if (width == 0)
        return 0;
    if (!is_signed)
        return value >> offset & low_ones(width);
    int64_t v = (bits_of_offset == 5 ? (int64_t)i32(value) : (int64_t)value) >> offset;
    unsigned up = width >= 64 ? 0 : 64 - width;
    return (uint64_t)((int64_t)((uint64_t)v << up) >> up);
}

/* Returns the lower n bits in reverse order. */
static uint64_t reverse(uint64_t v, unsigned n)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < n; i++)
        r |= (v >> i & 1) << (n - 1 - i);
    return r;
}

/* S_WQM: returns v with all four bits of every quad set that has one set. */
static uint64_t whole_quads(uint64_t v)
{
    uint64_t any = (v | v >> 1 | v >> 2 | v >> 3) & UINT64_C(0x1111111111111111);
    return any * 15;
}

/* Returns a mask with a bit for each 4 of the n bits, set if one of the 4 is set. */
static uint64_t quad_mask(uint64_t v, unsigned n)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < n / 4; i++)
        r |= (uint64_t)((v >> 4 * i & 15) != 0) << i;
    return r;
}

/* Returns each of the lower 32 bits twice. */
static uint64_t doubled(uint64_t v)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (v >> i & 1) * UINT64_C(3) << 2 * i;
    return r;
}

/* Returns the index of the lowest of the n low bits of `v` that equals `want`; -1 if none does. */
static uint64_t find_low(uint64_t v, unsigned n, bool want)
{
    v = (want ? v : ~v) & low_ones(n);
    return v ? (uint64_t)__builtin_ctzll(v) : UINT64_MAX;
}

/* Returns the number of zeros above the highest set bit of n bits; -1: none is set. */
static uint64_t find_high(uint64_t v, unsigned n)
{
    v &= low_ones(n);
    return v ? (uint64_t)__builtin_clzll(v) - (64 - n) : UINT64_MAX;
}

/* Returns the distance from the top of the n-bit number `v` to the first bit that differs from its
 * sign; -1 if none does. */
static uint64_t find_sign(uint64_t v, unsigned n)
{
    bool sign = v >> (n - 1) & 1;
    return find_high(sign ? ~v : v, n);
}

/* Returns a mask of all bits if the condition holds, otherwise `otherwise`. */
static uint64_t all_if(bool condition, uint64_t otherwise)
{
    return condition ? UINT64_MAX : otherwise;
}

/* Returns `a`, the first source or its complement, as a value of n bits (32 or 64) with the
 * source's defined bits. */
static struct known source(const struct sop *s, uint64_t a, unsigned n)
{
    return n == 32 ? known32(a, s->va) : (struct known){a, s->va};
}

#define A32 known32(s->a, s->va)
#define B32 known32(s->b, s->vb)
#define A64 ((struct known){s->a, s->va})
#define B64 ((struct known){s->b, s->vb})
#define NOT_B32 known32(~s->b, s->vb)
#define A32_UP(n) ((struct known){A32.value << (n), A32.bits << (n) | low_ones(n)})
/* Signed operands with the sign bit inverted, so that unsigned comparisons order them. */
#define SIGNED_A known32(s->a ^ UINT64_C(0x80000000), s->va)
#define SIGNED_B known32(s->b ^ UINT64_C(0x80000000), s->vb)

/* Computes which bits of a 32-bit sum are defined, and whether SCC is: the carry, or with
 * `overflow` the signed overflow. `carry` is the carry into bit 0, known if `carry_known`. */
static void sum_bits(struct sop *s, struct known a, struct known b, bool carry, bool carry_known,
                     bool overflow)
{
    const uint64_t bits = known_sum(a, b, carry, carry_known);
    const uint64_t least = known_least(a) + known_least(b) + (carry && carry_known);
    const uint64_t most = known_most(a) + known_most(b) + (carry || !carry_known);
    s->vd = bits;
    s->vscc = least >> 32 || !(most >> 32);
    if (!overflow)
        return;
    const uint64_t carries = known_carries(a, b, carry, carry_known);
    const uint64_t differ = (a.value ^ b.value) & a.bits & b.bits;
    const bool majority = bits >> 32 & 1;
    s->vscc = differ >> 31 & 1 || (carries >> 31 & 1 && majority);
}

/* Computes which bits of a selection between the two sources by SCC are defined. If SCC is
 * undefined (`known` false), these are the defined bits that both sources have alike. */
static void selected_bits(struct sop *s, bool known)
{
    const uint64_t both = s->va & s->vb & ~(s->a ^ s->b);
    const uint64_t chosen = s->scc ? s->va : s->vb;
    s->vd = known ? chosen : both;
    s->vscc = known;
}

/* Returns the lowest bit of each quad of the first source for which it is defined whether the quad
 * is 0. */
static uint64_t quad_bits(const struct sop *s)
{
    const uint64_t one = s->a & s->va, all = s->va;
    const uint64_t any = one | one >> 1 | one >> 2 | one >> 3;
    const uint64_t every = all & all >> 1 & all >> 2 & all >> 3;
    return (any | every) & UINT64_C(0x1111111111111111);
}

/* True if the sign of the first source, of n bits, and the position of the first bit that differs
 * from it are defined. */
static bool sign_ends(const struct sop *s, unsigned n)
{
    const bool negative = s->a >> (n - 1) & 1;
    return s->va >> (n - 1) & 1 && known_highest(source(s, negative ? ~s->a : s->a, n));
}

/* Returns the mask of the defined bits of |a|, for a 32-bit source a. */
static uint64_t magnitude_bits(const struct sop *s)
{
    const struct known zero = {0, UINT64_MAX};
    if (!(s->va >> 31 & 1))
        return 0;
    return i32(s->a) < 0 ? known_sum(zero, known32(~s->a, s->va), 1, true) : s->va;
}

/* Sets the result to `value`, an expression of `a`. Each of its bits must be a bit of the source or
 * a constant, so that the same expression yields the defined bits. */
#define MOVED(value)              \
    uint64_t a = s->a;            \
    s->d = value;                 \
    a = s->a & s->va;             \
    const uint64_t zeros = value; \
    a = s->a | ~s->va;            \
    s->vd = ~(zeros ^ (value))
/* Like MOVED, where the second source selects the bits. The result is undefined unless all bits of
 * `selectors`, a mask, are defined in that source. */
#define SHIFTED(selectors, value) \
    MOVED(value);                 \
    s->vd = (s->vb & (selectors)) == (selectors) ? s->vd : 0

#define AND_BITS(va, a, vb, b) (((va) & (vb)) | ((va) & ~(a)) | ((vb) & ~(b)))
#define OR_BITS(va, a, vb, b) (((va) & (vb)) | ((va) & (a)) | ((vb) & (b)))

#define FN(name, ...) \
    static void do_##name(struct sop *s) { __VA_ARGS__; }
#include "exec_sop.def"
#undef FN

#define ROW(op, fn, d, s0, s1, how) \
    {.name = #op,                   \
     .exec = exec_sop,              \
     .dst = d,                      \
     .src = {s0, s1},               \
     .flags = ROW_SALU,             \
     .arg = how,                    \
     .kernel = (void (*)(void))do_##fn},
const struct op_row exec_sop_rows[] = {
#include "exec_sop.def"
    {.name = NULL},
};

/* Rows that only gfx1250 has. Sums and products of 64 bits are defined if both sources are. */
#define NEW(op, fn, t)   \
    {.name = #op,        \
     .exec = exec_sop,   \
     .dst = t,           \
     .src = {t, t},      \
     .flags = ROW_SALU,  \
     .targets = GFX1250, \
     .kernel = (void (*)(void))do_##fn}
const struct op_row exec_sop_gfx1250_rows[] = {
    NEW(s_add_nc_u64, add_u64, T_U64),
    NEW(s_sub_nc_u64, sub_u64, T_U64),
    NEW(s_mul_u64, mul_u64, T_U64),
    NEW(s_pack_hl_b32_b16, pack_hl, T_B32),
    {.name = NULL},
};
