/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar ALU: SOP1, SOP2, SOPK, SOPC. Semantics from the CDNA3 ISA manual, chapter "Instructions",
 * SOP sections; a row's comment is its pseudo-code where the expression does not say it already.
 *
 * Validity: logic and shifts by a defined amount work bit by bit, because lane masks pass through
 * them; a defined zero decides a product; everything else is defined when all of its sources are.
 */
#include "exec_salu.h"
#include "tables.h"

/* One scalar operation on its way: values, their defined bits, and the SCC that results. */
struct sop {
    uint64_t a, b;
    uint64_t va, vb; /* defined bits */
    uint64_t d, vd;
    bool scc; /* in: SCC before; out: SCC after */
    bool scc_in_valid, vscc;
};

typedef void (*sop_fn)(struct sop *s);

enum sop_arg {
    SOP_SCC = 1 << 0,    /* SCC = s->scc */
    SOP_SCC_NZ = 1 << 1, /* SCC = result != 0 */
    SOP_READS_SCC = 1 << 2,
    SOP_KEEPS = 1 << 3,  /* conditional move: without SCC the destination stays */
    SOP_NO_DST = 1 << 4, /* the destination is not written: compares */
};

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
}

/* A nonzero test is decided by one defined bit that is set, or by all bits. */
static uint8_t nonzero_valid(uint64_t value, uint64_t valid, uint64_t mask)
{
    return (valid & mask) == mask || (value & valid & mask) != 0;
}

static void exec_sop(struct wave *w, const struct inst *in)
{
    const struct op_row *row = in->row;
    uint32_t arg = row->arg;
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
    ((sop_fn)row->kernel)(&s); /* may refine vd and vscc */
    s.d &= mask;
    if (arg & SOP_SCC_NZ) {
        s.scc = s.d != 0;
        s.vscc = nonzero_valid(s.d, s.vd, mask);
    }
    if (!(arg & SOP_NO_DST) && (taken || !(arg & SOP_KEEPS)))
        salu_write(w, &in->dst, s.d, s.vd & mask);
    if (arg & (SOP_SCC | SOP_SCC_NZ)) {
        w->scc = s.scc;
        w->scc_valid = s.vscc;
    }
}

static uint32_t u32(uint64_t v) { return (uint32_t)v; }

static int32_t i32(uint64_t v) { return (int32_t)(uint32_t)v; }

static uint64_t product_bits(const struct sop *s)
{
    bool a_zero = !u32(s->a) && u32(s->va) == UINT32_MAX;
    bool b_zero = !u32(s->b) && u32(s->vb) == UINT32_MAX;
    return a_zero || b_zero ? UINT64_MAX : s->vd;
}

static uint64_t low_ones(unsigned n) { return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1; }

/* The bit mask of a field of the given width moved up, in 32 bits. */
static uint32_t field_mask32(unsigned width, unsigned at)
{
    return ((1u << (width & 31)) - 1) << (at & 31);
}

/*
 * S_BFE: offset S1[4:0] or [5:0], width S1[22:16]. A width beyond the register takes all of it, and
 * a width of zero gives zero.
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

static uint64_t reverse(uint64_t v, unsigned n)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < n; i++)
        r |= (v >> i & 1) << (n - 1 - i);
    return r;
}

/* S_WQM: every quad with a bit set becomes whole. */
static uint64_t whole_quads(uint64_t v)
{
    uint64_t any = (v | v >> 1 | v >> 2 | v >> 3) & UINT64_C(0x1111111111111111);
    return any * 15;
}

static uint64_t quad_mask(uint64_t v, unsigned n)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < n / 4; i++)
        r |= (uint64_t)((v >> 4 * i & 15) != 0) << i;
    return r;
}

static uint64_t doubled(uint64_t v)
{
    uint64_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (v >> i & 1) * UINT64_C(3) << 2 * i;
    return r;
}

/* Index of the first bit equal to `want`, or -1. */
static uint64_t find_low(uint64_t v, unsigned n, bool want)
{
    v = (want ? v : ~v) & low_ones(n);
    return v ? (uint64_t)__builtin_ctzll(v) : UINT64_MAX;
}

static uint64_t find_high(uint64_t v, unsigned n)
{
    v &= low_ones(n);
    return v ? (uint64_t)__builtin_clzll(v) - (64 - n) : UINT64_MAX;
}

/* Distance from the top of the first bit unlike the sign, or -1. */
static uint64_t find_sign(uint64_t v, unsigned n)
{
    bool sign = v >> (n - 1) & 1;
    return find_high(sign ? ~v : v, n);
}

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
