/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of 8-bit and narrower formats in fixed point, compiled once per host instruction set.
 *
 * The elements of a row of A, and of 16 columns of B, are multiples of a power of two. If these
 * multiples have few enough bits, no product loses bits when it is truncated to 24 fractional bits.
 * The sum of the step is then a sum of whole numbers, in any order: one operation of the host
 * multiplies two pairs of 16-bit numbers and adds the products. C is aligned to an exponent between
 * its own and the largest factors' one. A C that loses no bits with the latter loses none with
 * any of these. Rows with other elements of C are left to the general step.
 */
#include "mfma_fixed.h"

#include "mfma_step.h"

#define PAIRS (FIXED_STEP / 2)
#define HALF_BITS 14 /* most bits after the first one of a number in 15 bits and a sign */
#define SUM_BITS 24  /* fractional bits of the product of two such numbers */

/* Calls `fn` with the exponent bits and the mantissa bits of the format, as constants. */
#define WITH_FORMAT(fn, format, ...)                        \
    do {                                                    \
        switch (format) {                                   \
        case FORMAT_FP8:                                    \
        case FORMAT_FP8_FNUZ: fn(4, 3, __VA_ARGS__); break; \
        case FORMAT_BF8:                                    \
        case FORMAT_BF8_FNUZ: fn(5, 2, __VA_ARGS__); break; \
        case FORMAT_FP6: fn(2, 3, __VA_ARGS__); break;      \
        case FORMAT_BF6: fn(3, 2, __VA_ARGS__); break;      \
        default: fn(2, 1, __VA_ARGS__); break;              \
        }                                                   \
    } while (0)

/* Returns the elements of v, which are not negative, each shifted left by its element of `by`, 0 to
 * 31. */
static inline vec_i vec_shl_each(vec_i v, vec_i by)
{
#if defined(__AVX512F__)
    return (vec_i)_mm512_sllv_epi32((__m512i)v, (__m512i)by);
#elif defined(__AVX2__)
    return (vec_i)_mm256_sllv_epi32((__m256i)v, (__m256i)by);
#else
    return (vec_i)((vec_u)v << (vec_u)by);
#endif
}

/* Returns a vector with x in every element. */
static inline vec_i vec_from(int x) { return (vec_i){0} + x; }

/* Stores the elements of v from p on, which need not be aligned. */
static inline void store_u(uint32_t *p, vec_u v) { memcpy(p, &v, sizeof(v)); }

/* The functions from here on copy the codes of the elements. */

typedef uint8_t bytes __attribute__((vector_size(VEC_BYTES)));

/* Infinities and NaNs of an 8-bit format: codes that equal `code` in the bits of `mask`. */
struct special_codes {
    uint8_t mask, code;
};

/* Returns the infinities and NaNs of an 8-bit format. */
static struct special_codes special_codes(struct mfma_small f)
{
    switch (f.special) {
    case SPECIAL_TOP_FIELD: return (struct special_codes){0x7c, 0x7c}; /* e5m2 */
    case SPECIAL_ALL_ONES: return (struct special_codes){0x7f, 0x7f};
    default: return (struct special_codes){0xff, 0x80};
    }
}

/* Registers of A or B of a block. */
struct registers {
    const struct mfma_shape *shape;
    const uint32_t (*rows)[MFMA_LANES];
    unsigned block;
    enum mfma_format format;
    bool is_a;
};

/* Copies 8-bit elements to lines of `out`. Returns a vector that is not 0 if one is an infinity or
 * NaN. */
static vec_i copy_bytes(const struct registers *from, uint32_t (*out)[LINE])
{
    const struct mfma_shape *s = from->shape;
    const struct special_codes x = special_codes(mfma_small_format(from->format));
    const unsigned width = from->is_a ? s->m : s->n, lanes = width * s->blocks;
    const unsigned per_lane = from->is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    bytes special = {0};

    for (unsigned g = 0; g * lanes < MFMA_LANES; g++)
        for (unsigned e = 0; e < per_lane; e += 4) {
            const uint32_t *low = from->rows[e / 4] + g * lanes + from->block * width;
            uint32_t (*to)[LINE] = out + mfma_k(s, from->format, from->is_a, g, e);
            for (unsigned l = 0; l < width; l += PART_COLS) {
                const vec_u four = load_u(low + l);
                special |= (bytes)(((bytes)four & x.mask) == (bytes){0} + x.code);
                for (unsigned b = 0; b < 4; b++)
                    store_u(to[b] + l, four >> 8 * b);
            }
        }
    return (vec_i)special;
}

/* Copies elements of less than 8 bits, which have no infinities and NaNs, to lines of `out`. */
static void copy_codes(const struct registers *from, uint32_t (*out)[LINE])
{
    const struct mfma_shape *s = from->shape;
    const unsigned width = from->is_a ? s->m : s->n, lanes = width * s->blocks;
    const unsigned per_lane = from->is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    const unsigned bits = mfma_element_bits(from->format);

    for (unsigned g = 0; g * lanes < MFMA_LANES; g++)
        for (unsigned e = 0; e < per_lane; e++) {
            const unsigned lane = g * lanes + from->block * width, shift = e * bits % 32;
            const uint32_t *low = from->rows[e * bits / 32] + lane;
            uint32_t *to = out[mfma_k(s, from->format, from->is_a, g, e)];
            for (unsigned l = 0; l < width; l += PART_COLS) {
                vec_u code = load_u(low + l) >> shift;
                if (shift + bits > 32)
                    code |= load_u(low + MFMA_LANES + l) << (32 - shift);
                store_u(to + l, code);
            }
        }
}

/* Copies the elements to lines of `out`. False if one is an infinity or NaN. */
static bool copy(const struct registers *from, uint32_t (*out)[LINE])
{
    if (mfma_element_bits(from->format) == 8)
        return !vec_any_i(copy_bytes(from, out));
    copy_codes(from, out);
    return true;
}

bool JOIN(mfma_codes, ISA)(struct codes *o, const struct mfma_job *job, unsigned block)
{
    uint32_t moved[8][MFMA_LANES];
    struct registers r = {&job->shape, job->a, mfma_block_of_a(job, block), job->a_format, true};

    o->a_format = job->a_format;
    o->b_format = job->b_format;
    if (!copy(&r, o->a))
        return false;
    if (job->blgp)
        JOIN(mfma_move_lanes, ISA)(job, moved);
    r = (struct registers){&job->shape, job->blgp ? (const uint32_t (*)[MFMA_LANES])moved : job->b,
                           block, job->b_format, false};
    return copy(&r, o->b);
}

/* The functions from here on find the ranges of exponents. */

/* Exponent fields of the largest and of the smallest element other than zero of each row or column.
 * Field 0 counts as 1, which has the same exponent. */
struct fields {
    _Alignas(64) int32_t most[LINE], least[LINE];
};

/* Sets x->most and x->least of each row or column from FIXED_STEP lines of codes. */
static inline __attribute__((always_inline)) void find_fields(unsigned exponent_bits,
                                                              unsigned mantissa_bits,
                                                              const uint32_t (*line)[LINE],
                                                              unsigned width, struct fields *x)
{
    const vec_u mask = (vec_u){0} + ((1u << (exponent_bits + mantissa_bits)) - 1);
    for (unsigned l = 0; l < width; l += PART_COLS) {
        vec_i most = {0}, small = {0}; /* small: 256 less the smallest; 0: all are zero */
        for (unsigned n = 0; n < FIXED_STEP; n++) {
            const vec_i magnitude = (vec_i)(load_u(line[n] + l) & mask);
            most = vec_max_i(most, magnitude);
            small = vec_max_i(small, (256 - magnitude) & 255);
        }
        most = vec_max_i(most >> mantissa_bits, vec_from(1));
        small = vec_max_i(((256 - small) & 255) >> mantissa_bits, vec_from(1));
        store_u((uint32_t *)x->most + l, (vec_u)most);
        store_u((uint32_t *)x->least + l, (vec_u)small);
    }
}

/* Sets the fields of 16 neighbouring columns to the fields of all 16. */
static void join_columns(struct fields *x, unsigned columns)
{
    for (unsigned j = 0; j < columns; j += COLS) {
        int32_t most = x->most[j], least = x->least[j];
        for (unsigned c = j; c < j + COLS; c++) {
            most = x->most[c] > most ? x->most[c] : most;
            least = x->least[c] < least ? x->least[c] : least;
        }
        x->most[j] = most;
        for (unsigned c = j; c < j + COLS; c++)
            x->least[c] = least;
    }
}

/* The functions from here on convert elements to fixed-point numbers. */

/* Factors of a step: dword n has the numbers of lines 2 * n and 2 * n + 1 in its halves. */
struct factors {
    _Alignas(64) uint32_t a[PAIRS][LINE], b[PAIRS][LINE];
};

/* Returns the values of codes as integers, in units of the last bit of an element whose exponent
 * field is `least`. */
static inline __attribute__((always_inline)) vec_i numbers_of(unsigned exponent_bits,
                                                              unsigned mantissa_bits, vec_u code,
                                                              vec_i least)
{
    const unsigned width = exponent_bits + mantissa_bits;
    const vec_i magnitude = (vec_i)(code & ((1u << width) - 1));
    const vec_i field = vec_max_i(magnitude >> mantissa_bits, vec_from(1));
    const vec_i digits = magnitude + (1 << mantissa_bits) - (field << mantissa_bits);
    const vec_i number = vec_shl_each(digits, vec_max_i(field - least, (vec_i){0}));
    const vec_i sign = (vec_i)(code << (31 - width)) >> 31;
    return (number ^ sign) - sign;
}

/* Converts the codes of a step to factors: out[n] has the numbers of lines 2 n and 2 n + 1. least[]
 * has the exponent field of each row or column whose last bit is the unit of its numbers. */
static inline __attribute__((always_inline)) void make_factors(unsigned exponent_bits,
                                                               unsigned mantissa_bits,
                                                               const uint32_t (*line)[LINE],
                                                               unsigned width, const int32_t *least,
                                                               uint32_t (*out)[LINE])
{
    for (unsigned l = 0; l < width; l += PART_COLS) {
        const vec_i unit = (vec_i)load_u((const uint32_t *)least + l);
        for (unsigned n = 0; n < PAIRS; n++) {
            const vec_u first = load_u(line[2 * n] + l), second = load_u(line[2 * n + 1] + l);
            const vec_u low = (vec_u)numbers_of(exponent_bits, mantissa_bits, first, unit);
            const vec_u high = (vec_u)numbers_of(exponent_bits, mantissa_bits, second, unit);
            store_u(out[n] + l, (low & 0xffff) | high << 16);
        }
    }
}

/* The functions from here on compute the step. */

/* Adds the products of row `i` with 16 columns from column `j` on to sum[]. */
static inline __attribute__((always_inline)) void add_row(const struct factors *f, unsigned i,
                                                          unsigned j, vec_i sum[PARTS])
{
    for (unsigned p = 0; p < PARTS; p++)
        sum[p] = (vec_i){0};
    for (unsigned n = 0; n < PAIRS; n++)
        for (unsigned p = 0; p < PARTS; p++)
            sum[p] = vec_add(sum[p], vec_dot_halves((vec_u){0} + f->a[n][i],
                                                    load_u(&f->b[n][j + p * PART_COLS])));
}

/* Stores c + sum * 2^(e - 24 + up) in 16 columns. False if C has bits that the alignment to `e` may
 * drop, or is an infinity or NaN; nothing is stored then. */
static inline __attribute__((always_inline)) bool add_whole_c(const vec_i sum[PARTS], int up, int e,
                                                              const uint32_t *c, uint32_t *d)
{
    const vec_i at = vec_from((e + BIAS) * (1 << 23));
    vec_f out[PARTS];
    vec_i lost = {0};

    for (unsigned p = 0; p < PARTS; p++) {
        const vec_f from = (vec_f)load_u(c + p * PART_COLS);
        const vec_i top = vec_max_i((vec_i)from & FIELD, at);
        const vec_f scaled = from * inverse_power(24, top);
        const vec_i addend = vec_to_i(scaled);
        vec_i total = vec_shl(sum[p], up);
        if (__builtin_expect(vec_any_above(top, at), 0))
            total = lower_sum(total, (vec_i)(((vec_u)top - (vec_u)at) >> 23), true);
        lost |= vec_to_f(addend) != scaled;
        out[p] = vec_to_f(vec_add(total, addend)) * power(-24, top);
    }
    if (__builtin_expect(vec_any_i(lost), 0))
        return false;
    for (unsigned p = 0; p < PARTS; p++)
        store_f((float *)d + p * PART_COLS, out[p]);
    return true;
}

/* Limits a row's least field, so that the numbers of the row have at most HALF_BITS bits. Returns
 * the number of bits without the limit. */
static unsigned limit_row(struct fields *x, unsigned i, unsigned mantissa_bits)
{
    const int bits = x->most[i] - x->least[i] + (int)mantissa_bits;
    if (bits > HALF_BITS)
        x->least[i] += bits - HALF_BITS;
    return (unsigned)bits;
}

void JOIN(mfma_fixed_step, ISA)(const struct codes *o, const uint32_t *const *from,
                                uint32_t *const *to, unsigned rows, unsigned columns, unsigned k,
                                uint32_t pending[static 2])
{
    const struct mfma_small fa = mfma_small_format(o->a_format);
    const struct mfma_small fb = mfma_small_format(o->b_format);
    unsigned bits[LINE];
    struct fields a, b;
    struct factors f;

    WITH_FORMAT(find_fields, o->a_format, o->a + k, rows, &a);
    WITH_FORMAT(find_fields, o->b_format, o->b + k, columns, &b);
    join_columns(&b, columns);
    for (unsigned i = 0; i < rows; i++)
        bits[i] = limit_row(&a, i, fa.mantissa_bits);
    WITH_FORMAT(make_factors, o->a_format, o->a + k, rows, a.least, f.a);
    WITH_FORMAT(make_factors, o->b_format, o->b + k, columns, b.least, f.b);
    for (unsigned j = 0; j < columns; j += COLS) {
        const int more = b.most[j] - b.least[j] + fb.mantissa_bits;
        const unsigned most = more > HALF_BITS ? 0 : (unsigned)(SUM_BITS - more);
        for (unsigned i = 0; i < rows; i++) {
            vec_i sum[PARTS];
            if (bits[i] > most || bits[i] > HALF_BITS)
                continue;
            add_row(&f, i, j, sum);
            if (add_whole_c(sum, (int)(most - bits[i]), a.most[i] - fa.bias + b.most[j] - fb.bias,
                            from[i] + j, to[i] + j))
                pending[j / COLS] &= ~(UINT32_C(1) << i);
        }
    }
}
