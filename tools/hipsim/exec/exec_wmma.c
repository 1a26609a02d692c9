/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GFX12's matrix instructions, WMMA (CDNA5 ISA, 7.12; RDNA4 ISA, 7.12): D = A * B + C over the 32
 * lanes of a wave.
 *
 * Lane 16 h + r (h is 0 or 1, r is 0 to 15) holds row r of A, or column r of B. Neighbours along k
 * form groups of g elements, which the halves h of the wave hold alternately. Element e of a lane
 * has k = e / g * 2 g + h * g + e % g.
 *
 * A row of the table may set g (struct wmma, `group`). Otherwise g follows from the bits of an
 * element: 8 for 16 and 8 bits, 16 for 8 bits of f8f6f4, 32 for 6 and 4 bits, 2 for 32 bits.
 *
 * C and D have column r in lane 16 h + r. Register v holds row 8 h + v; with 16-bit elements rows
 * 8 h + 2 v and the next. In shapes with 32 rows, the second half of the registers of A, C and D
 * holds rows 16 to 31.
 *
 * SWMMAC has a sparse A: of every four elements along k, two are stored (CDNA5 ISA, 7.12.3 to
 * 7.12.5; RDNA4 ISA, 7.12.3). Source 2 is the index: 2 bits for each stored element, its k
 * modulo 4. The registers of D are also C. The stored elements of A have the layout of a WMMA with
 * half of the k. B has groups of 2 g, so that a half of the wave holds the same k of A and of B.
 * Bits 4 j to 4 j + 3 of a lane's index belong to its elements 2 j and 2 j + 1. The pseudo-code
 * of 7.12.4 in the CDNA5 manual names other lanes than the text above it; the text is followed.
 *
 * How the hardware rounds sums is not published. Here products are exact, and sums are in double in
 * the order of k, beginning with C. The result is rounded once. Denormals are kept; EXEC is
 * ignored.
 */
#include <math.h>
#include <string.h>

#include "access.h"
#include "decode.h"
#include "mfma_vec.h"
#include "narrow.h"

enum wmma_type {
    W_F32,
    W_F16,
    W_BF16,
    W_FP8,
    W_BF8,
    W_FP6,
    W_BF6,
    W_FP4,
    W_IU8,
    W_IU4,
    W_I32,
    W_ANY
};

/* Shape and types of a table row; N is 16. W_ANY: the instruction's format fields name the type. */
struct wmma {
    uint8_t m, k;
    uint8_t a, b, c, d; /* enum wmma_type */
    uint8_t block;      /* elements along k per scale; 0: no scales */
    bool f8f6f4;        /* true: f8f6f4, which has another group for 8 bits */
    uint8_t group;      /* g of the file's comment; 0: it follows from the bits of an element */
    bool signs;         /* true: NEG negates the even and NEG_HI the odd elements of A and B */
};

/* Type and shape of an operand in registers: A as it is stored, or B with its columns as rows. */
struct part {
    enum wmma_type type;
    unsigned rows, k; /* number of rows, and of elements in registers for each row */
    unsigned group;   /* group along k (see the file's comment) */
    bool neg[2];      /* the operand's bits of NEG and NEG_HI */
};

enum { N = 16, MAX_M = 32, MAX_K = 128 };

/* A decoded operand: A, or B with its columns as rows. An element times its scale may exceed the
 * numbers of f32. */
struct matrix {
    double value[MAX_K][MAX_M]; /* by k, then by row */
    uint32_t valid;             /* mask of the rows that are defined */
};

typedef double vec_d __attribute__((vector_size(VEC_BYTES)));
enum { ROW_VECTORS = N * sizeof(double) / VEC_BYTES };

/* A row of sums, or a row of B for one k; also as vectors of the host. */
union line {
    double value[N];
    vec_d vector[ROW_VECTORS];
};

/* Returns the bits of an element of type t. */
static unsigned width_of(enum wmma_type t)
{
    static const uint8_t bits[] = {32, 16, 16, 8, 8, 6, 6, 4, 8, 4, 32};
    return bits[t];
}

/* Returns g, the group along k (see the file's comment), for elements of `bits` bits. */
static unsigned group_of(const struct wmma *s, unsigned bits)
{
    if (s->group)
        return s->group;
    return bits == 32 ? 2 : bits < 8 ? 32 : s->f8f6f4 && bits == 8 ? 16 : 8;
}

/* Returns the value of an element of type t from its bits. `is_signed` matters for integers
 * only. */
static inline __attribute__((always_inline)) float decoded(enum wmma_type t, uint32_t code,
                                                           bool is_signed)
{
    switch (t) {
    case W_F32: return as_f32(code);
    case W_F16: return f16_to_f32(code);
    case W_BF16: return bf16_to_f32(code);
    case W_FP8: return narrow_decode(&fp8_ocp, code);
    case W_BF8: return narrow_decode(&bf8_ocp, code);
    case W_FP6: return narrow_decode(&fp6_mx, code);
    case W_BF6: return narrow_decode(&bf6_mx, code);
    case W_FP4: return narrow_decode(&fp4_mx, code);
    case W_IU4: return is_signed ? (float)((int8_t)(code << 4) >> 4) : (float)code;
    default: return is_signed ? (float)(int8_t)code : (float)(int32_t)code;
    }
}

/* Sets code[] to element `e` of the 16 lanes of `half` from rows of registers. Elements have `bits`
 * bits. */
static void read_codes(uint32_t (*rows)[WAVE_LANES], unsigned half, unsigned bits, unsigned e,
                       uint32_t code[N])
{
    const unsigned at = bits * e, shift = at % 32;
    const uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1;
    const uint32_t *low = rows[at / 32] + N * half;
    for (unsigned r = 0; r < N; r++)
        code[r] = low[r] >> shift & mask;
    if (shift + bits <= 32)
        return;
    const uint32_t *high = rows[at / 32 + 1] + N * half;
    for (unsigned r = 0; r < N; r++)
        code[r] |= high[r] << (32 - shift) & mask;
}

/* Decodes the bits of 16 elements of type t, which is a constant where this is inlined. */
static inline __attribute__((always_inline)) void decode_as(const enum wmma_type t,
                                                            const uint32_t code[N], bool is_signed,
                                                            float value[N])
{
    for (unsigned r = 0; r < N; r++)
        value[r] = decoded(t, code[r], is_signed);
}

/* Decodes the bits of 16 elements of type t. */
static void decode_codes(enum wmma_type t, const uint32_t code[N], bool is_signed, float value[N])
{
    switch (t) {
    case W_F32: decode_as(W_F32, code, false, value); return;
    case W_F16: decode_as(W_F16, code, false, value); return;
    case W_BF16: decode_as(W_BF16, code, false, value); return;
    case W_FP8: decode_as(W_FP8, code, false, value); return;
    case W_BF8: decode_as(W_BF8, code, false, value); return;
    case W_FP6: decode_as(W_FP6, code, false, value); return;
    case W_BF6: decode_as(W_BF6, code, false, value); return;
    case W_FP4: decode_as(W_FP4, code, false, value); return;
    default: decode_as(t, code, is_signed, value); return;
    }
}

/* Decodes the registers of operand o, of type and shape *p, to *to. */
static void read_matrix(struct wave *w, const struct opnd *o, const struct wmma *s,
                        const struct part *p, struct matrix *to)
{
    const unsigned bits = width_of(p->type), registers = p->k * bits / 64, g = p->group;
    const struct reg_rows r = reg_rows(w, o);
    uint32_t code[N];
    float value[N];
    to->valid = UINT32_MAX;
    for (unsigned m0 = 0; m0 < p->rows; m0 += N) {
        uint32_t (*regs)[WAVE_LANES] = r.row + m0 / N * registers;
        for (unsigned half = 0; half < 2; half++)
            for (unsigned e = 0; e < p->k / 2; e++) {
                /* see the file's comment */
                double *row = to->value[e / g * 2 * g + half * g + e % g] + m0;
                read_codes(regs, half, bits, e, code);
                decode_codes(p->type, code, p->neg[0], value);
                for (unsigned i = 0; i < N; i++)
                    row[i] = (double)value[i];
                for (unsigned i = 0; s->signs && p->neg[e % 2] && i < N; i++)
                    row[i] = -row[i];
            }
        uint64_t valid = UINT64_MAX;
        for (unsigned i = 0; i < registers; i++)
            valid &= r.valid[m0 / N * registers + i];
        const uint32_t undefined = ~(uint32_t)(valid & valid >> 16) & 0xffff;
        to->valid &= ~(undefined << m0);
    }
}

/* The functions from here on read and apply scales. */

/* Formats of block scales, as the instruction numbers them. */
enum scale_type { SCALE_E8M0, SCALE_E5M3, SCALE_E4M3 };

/* Returns the number that `code` represents in the scale format `type` (enum scale_type). */
static float scale_value(unsigned type, uint32_t code)
{
    if (type == SCALE_E8M0)
        return code == 255 ? as_f32(QUIET_NAN32) : ldexpf(1.0f, (int)code - 127);
    const unsigned ebits = type == SCALE_E5M3 ? 5 : 4, bias = type == SCALE_E5M3 ? 15 : 7;
    const uint32_t magnitude = code & ((1u << (ebits + 3)) - 1);
    const uint32_t e = magnitude >> 3, m = magnitude & 7;
    if (magnitude == (1u << (ebits + 3)) - 1)
        return as_f32(QUIET_NAN32);
    return e ? ldexpf((float)(8 + m), (int)(e - bias) - 3) : ldexpf((float)m, 1 - (int)bias - 3);
}

/* Returns the scale's code for block `block` along k of the row in `lane`. A constant operand means
 * a factor of 1; an SGPR has one byte for all rows. */
static uint32_t scale_code(struct wave *w, const struct opnd *o, unsigned lane, unsigned block)
{
    if (o->kind == OPND_IMM)
        return 0x7f;
    if (o->kind != OPND_VGPR)
        return src_scalar(w, o) & 0xff;
    return w->v[o->reg + block / 4][lane] >> 8 * (block % 4) & 0xff;
}

/* Multiplies `rows` rows of a matrix by their scales of format `type`. With 16 rows, `upper`
 * selects the scales in lanes 16 to 31. */
static void apply_scales(struct wave *w, const struct opnd *o, const struct wmma *s, unsigned type,
                         unsigned rows, bool upper, struct matrix *to)
{
    for (unsigned m = 0; m < rows; m++) {
        const unsigned lane = rows == 32 ? m : m + 16 * upper;
        for (unsigned block = 0; block < s->k / s->block; block++) {
            const double factor = (double)scale_value(type, scale_code(w, o, lane, block));
            for (unsigned k = block * s->block; k < (block + 1u) * s->block; k++)
                to->value[k][m] *= factor;
        }
        if (o->kind == OPND_VGPR && !(src_valid(w, o) >> lane & 1))
            to->valid &= ~(1u << m);
    }
}

/* The functions from here on read C, write D and execute the instructions. */

/* True if the instruction adds to D, which is also C. */
static bool accumulates(const struct inst *in) { return in->row->flags & ROW_DST_IS_SRC; }

/* Returns the operand with C. */
static const struct opnd *c_operand(const struct inst *in)
{
    return &in->src[accumulates(in) ? 3 : 2];
}

/* Returns the register, counted from the operand's first, that holds row m of C or D. `half`: an
 * element has 16 bits. */
static unsigned register_of(unsigned m, bool half)
{
    return m / 16 * (half ? 4 : 8) + (half ? m % 8 / 2 : m % 8);
}

/* Returns the first lane that holds row m of C or D. */
static unsigned lane_of(unsigned m) { return m / 8 % 2 * N; }

/* Sets c[] to row m of C, of type t. NEG and NEG_HI change C only where it is source 2. */
static void read_c(struct wave *w, const struct inst *in, enum wmma_type t, unsigned m, double c[N])
{
    const struct opnd *o = c_operand(in);
    const bool half = width_of(t) == 16, negates = !accumulates(in);
    const unsigned shift = half && o->kind == OPND_VGPR ? m % 2 * 16 : 0;
    uint32_t code[N];
    float f[N];
    if (o->kind == OPND_VGPR)
        memcpy(code, w->v[o->reg + register_of(m, half)] + lane_of(m), sizeof(code));
    else
        for (unsigned n = 0; n < N; n++)
            code[n] = (uint32_t)src_scalar(w, o);
    for (unsigned n = 0; t == W_I32 && n < N; n++)
        c[n] = (double)(int32_t)code[n];
    if (t == W_I32)
        return;
    for (unsigned n = 0; n < N; n++)
        code[n] = half ? code[n] >> shift & 0xffff : code[n];
    decode_codes(t, code, false, f);
    for (unsigned n = 0; negates && in->neg_hi & 4 && n < N; n++)
        f[n] = fabsf(f[n]);
    for (unsigned n = 0; negates && in->neg_lo & 4 && n < N; n++)
        f[n] = -f[n];
    for (unsigned n = 0; n < N; n++)
        c[n] = (double)f[n];
}

/* Returns the mask of the columns in which row m of C, of type t, is defined. */
static uint32_t c_valid(struct wave *w, const struct inst *in, enum wmma_type t, unsigned m)
{
    const struct opnd *o = c_operand(in);
    if (o->kind != OPND_VGPR)
        return src_scalar_valid(w, o) ? 0xffff : 0;
    return w->v_valid[o->reg + register_of(m, width_of(t) == 16)] >> lane_of(m) & 0xffff;
}

/* Returns the bits of the sum `r` rounded to D's type. With MODE.FP16_OVFL, or for integers
 * with the clamp bit, an overflow gives the largest number of the type. */
static inline uint32_t rounded(const struct wave *w, const struct inst *in, enum wmma_type t,
                               double r)
{
    const bool largest = w->mode & MODE_FP16_OVFL;
    if (t == W_I32)
        return largest || in->clamp ? (uint32_t)(int32_t)fmin(fmax(r, -0x1p31), 0x1.fffffffcp30)
                                    : (uint32_t)(int64_t)r;
    const float f = (float)r;
    if (t == W_F32)
        return nan32(f32_bits(f)) ? QUIET_NAN32 : f32_bits(f);
    if (isnan(f))
        return t == W_F16 ? 0x7e00 : 0x7fc0;
    const uint32_t u = t == W_F16 ? f64_to_f16_nearest(r) : f32_to_bf16(f);
    const uint32_t inf = t == W_F16 ? 0x7c00 : 0x7f80;
    return largest && (u & 0x7fff) == inf && isfinite(r) ? u - 1 : u;
}

/* Rounds a row of sums to D's type t, as rounded() does. */
static void round_row(const struct wave *w, const struct inst *in, enum wmma_type t,
                      const double sum[N], uint32_t value[N])
{
    for (unsigned n = 0; t == W_F32 && n < N; n++)
        value[n] = rounded(w, in, W_F32, sum[n]);
    for (unsigned n = 0; t != W_F32 && n < N; n++)
        value[n] = rounded(w, in, t, sum[n]);
}

/* Room for the result until all is computed, since D may overlap A, B and C. */
struct result {
    uint32_t row[16][WAVE_LANES];
    uint64_t valid[16];
};

/* Rounds the sums and writes them to D. A result is defined if its row of A, its column of B and
 * its C are. */
static void finish(struct wave *w, const struct inst *in, const struct wmma *s,
                   const struct matrix *a, const struct matrix *b, const union line *sum)
{
    struct result r = {.valid = {0}};
    const bool half = width_of((enum wmma_type)s->d) == 16;
    const unsigned registers = in->dst.dwords;
    memset(r.valid, 0xff, sizeof(r.valid));
    for (unsigned m = 0; m < s->m; m++) {
        const unsigned reg = register_of(m, half), shift = half ? m % 2 * 16 : 0;
        uint32_t *row = r.row[reg] + lane_of(m), value[N];
        round_row(w, in, (enum wmma_type)s->d, sum[m].value, value);
        for (unsigned n = 0; n < N; n++)
            row[n] = shift ? row[n] | value[n] << shift : value[n];
        const uint32_t valid = a->valid >> m & 1 ? b->valid & c_valid(w, in, s->c, m) : 0;
        r.valid[reg] &= ~((uint64_t)(~valid & 0xffff) << lane_of(m));
    }
    const struct reg_rows d = reg_rows(w, &in->dst);
    for (unsigned i = 0; i < registers; i++) {
        memcpy(d.row[i], r.row[i], 32 * sizeof(uint32_t));
        d.valid[i] = (d.valid[i] & ~w->all) | (r.valid[i] & w->all);
    }
}

/* Returns operand `k` of the instruction, 0 for A or 1 for B: `rows` rows of type `type`, each with
 * `stored` elements in registers, in groups of `group`. */
static struct part part_of(const struct inst *in, unsigned k, enum wmma_type type, unsigned rows,
                           unsigned stored, unsigned group)
{
    return (struct part){type, rows, stored, group, {in->neg_lo >> k & 1, in->neg_hi >> k & 1}};
}

/* Adds to two rows of the sums, m and m + 1, their products of A and B in the order of k. */
static void add_products(const struct matrix *a, const union line *column, unsigned m,
                         unsigned depth, union line *sum)
{
    vec_d first[ROW_VECTORS], second[ROW_VECTORS];
    for (unsigned i = 0; i < ROW_VECTORS; i++) {
        first[i] = sum[0].vector[i];
        second[i] = sum[1].vector[i];
    }
    for (unsigned k = 0; k < depth; k++) {
        const double f0 = a->value[k][m], f1 = a->value[k][m + 1];
        for (unsigned i = 0; i < ROW_VECTORS; i++) {
            first[i] += f0 * column[k].vector[i];
            second[i] += f1 * column[k].vector[i];
        }
    }
    for (unsigned i = 0; i < ROW_VECTORS; i++) {
        sum[0].vector[i] = first[i];
        sum[1].vector[i] = second[i];
    }
}

/* Executes a WMMA: decodes A, B and C, applies the scales and sums in the order of k. */
static void exec_wmma(struct wave *w, const struct inst *in)
{
    static const uint8_t formats[8] = {W_FP8, W_BF8, W_FP6, W_BF6, W_FP4, W_FP8, W_FP8, W_FP8};
    const struct wmma *s = in->row->lanes;
    const enum wmma_type ta = s->a == W_ANY ? formats[in->op_sel] : s->a;
    const enum wmma_type tb = s->b == W_ANY ? formats[in->op_sel_hi] : s->b;
    const struct part pa = part_of(in, 0, ta, s->m, s->k, group_of(s, width_of(ta)));
    const struct part pb = part_of(in, 1, tb, N, s->k, group_of(s, width_of(tb)));
    struct matrix a, b;
    union line sum[MAX_M], column[MAX_K];

    read_matrix(w, &in->src[0], s, &pa, &a);
    read_matrix(w, &in->src[1], s, &pb, &b);
    if (s->block) {
        const uint32_t w0 = in->raw[0], w1 = in->raw[1];
        apply_scales(w, &in->src[3], s, w1 >> 29 & 3, s->m, w0 >> 11 & 1, &a);
        apply_scales(w, &in->src[4], s, w0 >> 8 & 3, N, w1 >> 27 & 1, &b);
    }
    for (unsigned k = 0; k < s->k; k++)
        for (unsigned n = 0; n < N; n++)
            column[k].value[n] = b.value[k][n];
    for (unsigned m = 0; m < s->m; m++)
        read_c(w, in, (enum wmma_type)s->c, m, sum[m].value);
    for (unsigned m = 0; m < s->m; m += 2)
        add_products(&a, column, m, s->k, &sum[m]);
    finish(w, in, s, &a, &b, sum);
}

/* Returns k of B for the stored element `at` of row m of a sparse A. The index has 2 bits for each
 * element of a lane. On gfx1201 OPSEL selects half of the register if 16 bits suffice. */
static unsigned sparse_k(struct wave *w, const struct inst *in, const struct part *a, unsigned m,
                         unsigned at)
{
    const unsigned g = a->group, lane = at / g % 2 * 16 + m, e = at / (2 * g) * g + at % g;
    const unsigned bit = 2 * e + (a->k < 32 && in->op_sel & 1 ? 16 : 0);
    const uint32_t word = w->v[in->src[2].reg + bit / 32][lane];
    return at / 2 * 4 + (word >> bit % 32 & 3);
}

/* Returns the mask of the rows of A whose index is defined. */
static uint32_t index_valid(const struct wave *w, const struct opnd *o)
{
    uint64_t valid = UINT64_MAX;
    for (unsigned i = 0; i < o->dwords; i++)
        valid &= w->v_valid[o->reg + i];
    return (uint32_t)(valid & valid >> 16) & 0xffff;
}

/* Executes a SWMMAC: decodes A, B and C, and sums the products of A's stored elements. */
static void exec_swmmac(struct wave *w, const struct inst *in)
{
    const struct wmma *s = in->row->lanes;
    const enum wmma_type ta = (enum wmma_type)s->a, tb = (enum wmma_type)s->b;
    const struct part pa = part_of(in, 0, ta, N, s->k / 2u, group_of(s, width_of(ta)));
    const struct part pb = part_of(in, 1, tb, N, s->k, 2 * group_of(s, width_of(tb)));
    struct matrix a, b;
    union line sum[MAX_M];

    read_matrix(w, &in->src[0], s, &pa, &a);
    read_matrix(w, &in->src[1], s, &pb, &b);
    a.valid &= index_valid(w, &in->src[2]);
    for (unsigned m = 0; m < N; m++) {
        read_c(w, in, (enum wmma_type)s->c, m, sum[m].value);
        for (unsigned at = 0; at < pa.k; at++) {
            const unsigned k = sparse_k(w, in, &pa, m, at);
            for (unsigned n = 0; n < N; n++)
                sum[m].value[n] += a.value[at][m] * b.value[k][n];
        }
    }
    finish(w, in, s, &a, &b, sum);
}

/* The table of the instructions' rows follows, with their shapes. */

/* Shapes without scales, and with `block` elements per scale. */
#define SHAPE(m, k, a, b, c, d) &(const struct wmma){m, k, a, b, c, d, 0, false, 0, false}
#define SHAPE_OF(m, k, a, b, block, f8f6f4) \
    &(const struct wmma){m, k, a, b, W_F32, W_F32, block, f8f6f4, 0, false}
#define WMMA(gfx, n, td, ta, tb, tc, shape, f)         \
    {.name = "v_wmma_" n,                              \
     .exec = exec_wmma,                                \
     .dst = td,                                        \
     .src = {ta, tb, tc},                              \
     .flags = ROW_VALU | ROW_MFMA | ROW_NO_EXEC | (f), \
     .lanes = shape,                                   \
     .targets = gfx}
#define SCALED(n, td, ta, tb, scale, shape)                   \
    {.name = "v_wmma_" n,                                     \
     .exec = exec_wmma,                                       \
     .dst = td,                                               \
     .src = {ta, tb, td, scale, scale},                       \
     .flags = ROW_VALU | ROW_MFMA | ROW_NO_EXEC | ROW_OP_SEL, \
     .lanes = shape,                                          \
     .targets = GFX1250}
#define SWMMAC(gfx, n, td, ta, tb, index, shape)                  \
    {.name = "v_swmmac_" n,                                       \
     .exec = exec_swmmac,                                         \
     .dst = td,                                                   \
     .src = {ta, tb, index, td},                                  \
     .flags = ROW_VALU | ROW_MFMA | ROW_NO_EXEC | ROW_DST_IS_SRC, \
     .lanes = shape,                                              \
     .targets = gfx}
#define SPARSE_EIGHT(t, A, B)                                                 \
    SWMMAC(GFX1250, "f32_16x16x128_" t, T_F32X8, T_B256, T_B512, T_B64,       \
           SHAPE(16, 128, A, B, W_F32, W_F32)),                               \
        SWMMAC(GFX1250, "f16_16x16x128_" t, T_PKF16X4, T_B256, T_B512, T_B64, \
               SHAPE(16, 128, A, B, W_F16, W_F16)),                           \
        SWMMAC(GFX1201, "f32_16x16x32_" t, T_F32X8, T_B64, T_B128, T_B32,     \
               SHAPE(16, 32, A, B, W_F32, W_F32))
#define EIGHT(n, t, regs, kk, A, B)                                           \
    WMMA(GFX1250, "f32_16x16x" n "_" t, T_F32X8, regs, regs, T_F32X8,         \
         SHAPE(16, kk, A, B, W_F32, W_F32), 0),                               \
        WMMA(GFX1250, "f16_16x16x" n "_" t, T_PKF16X4, regs, regs, T_PKF16X4, \
             SHAPE(16, kk, A, B, W_F16, W_F16), 0)
#define EIGHTS(n, regs, kk)                                                                   \
    EIGHT(n, "fp8_fp8", regs, kk, W_FP8, W_FP8), EIGHT(n, "fp8_bf8", regs, kk, W_FP8, W_BF8), \
        EIGHT(n, "bf8_fp8", regs, kk, W_BF8, W_FP8), EIGHT(n, "bf8_bf8", regs, kk, W_BF8, W_BF8)

/* A shape of RDNA4 (RDNA4 ISA, 7.12.2). A and B have type `ab`, C and D have type `cd`. */
#define RDNA4(k, ab, cd, group, signs) \
    &(const struct wmma){16, k, ab, ab, cd, cd, 0, false, group, signs}
#define RDNA4_EIGHT(t, A, B)                                         \
    WMMA(GFX1201, "f32_16x16x16_" t, T_F32X8, T_B64, T_B64, T_F32X8, \
         SHAPE(16, 16, A, B, W_F32, W_F32), 0)

const struct op_row LOCAL(exec_wmma_rows)[] = {
    WMMA(GFX1250, "f32_16x16x4_f32", T_F32X8, T_B64, T_B64, T_F32X8,
         SHAPE(16, 4, W_F32, W_F32, W_F32, W_F32), 0),
    WMMA(GFX1250, "f32_16x16x32_bf16", T_F32X8, T_B256, T_B256, T_F32X8,
         SHAPE(16, 32, W_BF16, W_BF16, W_F32, W_F32), 0),
    WMMA(GFX1250, "f32_16x16x32_f16", T_F32X8, T_B256, T_B256, T_F32X8,
         SHAPE(16, 32, W_F16, W_F16, W_F32, W_F32), 0),
    WMMA(GFX1250, "f16_16x16x32_f16", T_PKF16X4, T_B256, T_B256, T_PKF16X4,
         SHAPE(16, 32, W_F16, W_F16, W_F16, W_F16), 0),
    WMMA(GFX1250, "bf16_16x16x32_bf16", T_PKBF16X4, T_B256, T_B256, T_PKBF16X4,
         SHAPE(16, 32, W_BF16, W_BF16, W_BF16, W_BF16), 0),
    WMMA(GFX1250, "bf16f32_16x16x32_bf16", T_PKBF16X4, T_B256, T_B256, T_F32X8,
         SHAPE(16, 32, W_BF16, W_BF16, W_F32, W_BF16), 0),
    EIGHTS("64", T_B256, 64),
    EIGHTS("128", T_B512, 128),
    WMMA(GFX1250, "i32_16x16x64_iu8", T_I32X8, T_B256, T_B256, T_I32X8,
         SHAPE(16, 64, W_IU8, W_IU8, W_I32, W_I32), 0),
    WMMA(GFX1250, "f32_16x16x128_f8f6f4", T_F32X8, T_B512, T_B512, T_F32X8,
         SHAPE_OF(16, 128, W_ANY, W_ANY, 0, true), ROW_OP_SEL),
    WMMA(GFX1250, "f32_32x16x128_f4", T_F32X16, T_B512, T_B256, T_F32X16,
         SHAPE(32, 128, W_FP4, W_FP4, W_F32, W_F32), 0),
    SCALED("scale_f32_16x16x128_f8f6f4", T_F32X8, T_B512, T_B512, T_B32,
           SHAPE_OF(16, 128, W_ANY, W_ANY, 32, true)),
    SCALED("scale16_f32_16x16x128_f8f6f4", T_F32X8, T_B512, T_B512, T_B64,
           SHAPE_OF(16, 128, W_ANY, W_ANY, 16, true)),
    SCALED("scale_f32_32x16x128_f4", T_F32X16, T_B512, T_B256, T_B32,
           SHAPE_OF(32, 128, W_FP4, W_FP4, 32, false)),
    SCALED("scale16_f32_32x16x128_f4", T_F32X16, T_B512, T_B256, T_B64,
           SHAPE_OF(32, 128, W_FP4, W_FP4, 16, false)),
    WMMA(GFX1201, "f32_16x16x16_bf16", T_F32X8, T_B128, T_B128, T_F32X8,
         RDNA4(16, W_BF16, W_F32, 4, true), 0),
    WMMA(GFX1201, "f32_16x16x16_f16", T_F32X8, T_B128, T_B128, T_F32X8,
         RDNA4(16, W_F16, W_F32, 4, true), 0),
    WMMA(GFX1201, "f16_16x16x16_f16", T_PKF16X4, T_B128, T_B128, T_PKF16X4,
         RDNA4(16, W_F16, W_F16, 4, true), 0),
    WMMA(GFX1201, "bf16_16x16x16_bf16", T_PKBF16X4, T_B128, T_B128, T_PKBF16X4,
         RDNA4(16, W_BF16, W_BF16, 4, true), 0),
    WMMA(GFX1201, "i32_16x16x16_iu8", T_I32X8, T_B64, T_B64, T_I32X8,
         RDNA4(16, W_IU8, W_I32, 8, false), 0),
    WMMA(GFX1201, "i32_16x16x16_iu4", T_I32X8, T_B32, T_B32, T_I32X8,
         RDNA4(16, W_IU4, W_I32, 8, false), 0),
    WMMA(GFX1201, "i32_16x16x32_iu4", T_I32X8, T_B64, T_B64, T_I32X8,
         RDNA4(32, W_IU4, W_I32, 16, false), 0),
    RDNA4_EIGHT("fp8_fp8", W_FP8, W_FP8),
    RDNA4_EIGHT("fp8_bf8", W_FP8, W_BF8),
    RDNA4_EIGHT("bf8_fp8", W_BF8, W_FP8),
    RDNA4_EIGHT("bf8_bf8", W_BF8, W_BF8),
    SWMMAC(GFX1250, "f32_16x16x64_f16", T_F32X8, T_B256, T_B512, T_B32,
           SHAPE(16, 64, W_F16, W_F16, W_F32, W_F32)),
    SWMMAC(GFX1250, "f32_16x16x64_bf16", T_F32X8, T_B256, T_B512, T_B32,
           SHAPE(16, 64, W_BF16, W_BF16, W_F32, W_F32)),
    SWMMAC(GFX1250, "f16_16x16x64_f16", T_PKF16X4, T_B256, T_B512, T_B32,
           SHAPE(16, 64, W_F16, W_F16, W_F16, W_F16)),
    SWMMAC(GFX1250, "bf16_16x16x64_bf16", T_PKBF16X4, T_B256, T_B512, T_B32,
           SHAPE(16, 64, W_BF16, W_BF16, W_BF16, W_BF16)),
    SWMMAC(GFX1250, "bf16f32_16x16x64_bf16", T_F32X8, T_B256, T_B512, T_B32,
           SHAPE(16, 64, W_BF16, W_BF16, W_F32, W_F32)),
    SWMMAC(GFX1250, "i32_16x16x128_iu8", T_I32X8, T_B256, T_B512, T_B64,
           SHAPE(16, 128, W_IU8, W_IU8, W_I32, W_I32)),
    SWMMAC(GFX1201, "f32_16x16x32_f16", T_F32X8, T_B128, T_B256, T_B32,
           RDNA4(32, W_F16, W_F32, 4, true)),
    SWMMAC(GFX1201, "f32_16x16x32_bf16", T_F32X8, T_B128, T_B256, T_B32,
           RDNA4(32, W_BF16, W_F32, 4, true)),
    SWMMAC(GFX1201, "f16_16x16x32_f16", T_PKF16X4, T_B128, T_B256, T_B32,
           RDNA4(32, W_F16, W_F16, 4, true)),
    SWMMAC(GFX1201, "bf16_16x16x32_bf16", T_PKBF16X4, T_B128, T_B256, T_B32,
           RDNA4(32, W_BF16, W_BF16, 4, true)),
    SWMMAC(GFX1201, "i32_16x16x32_iu8", T_I32X8, T_B64, T_B128, T_B32,
           RDNA4(32, W_IU8, W_I32, 8, false)),
    SWMMAC(GFX1201, "i32_16x16x32_iu4", T_I32X8, T_B32, T_B64, T_B32,
           RDNA4(32, W_IU4, W_I32, 8, false)),
    SWMMAC(GFX1201, "i32_16x16x64_iu4", T_I32X8, T_B64, T_B128, T_B32,
           RDNA4(64, W_IU4, W_I32, 16, false)),
    SPARSE_EIGHT("fp8_fp8", W_FP8, W_FP8),
    SPARSE_EIGHT("fp8_bf8", W_FP8, W_BF8),
    SPARSE_EIGHT("bf8_fp8", W_BF8, W_FP8),
    SPARSE_EIGHT("bf8_bf8", W_BF8, W_BF8),
    {.name = NULL},
};
