/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes register rows to operands, PART_COLS lanes at a time, in the order of k. */
#include "mfma_decode.h"

#include <stddef.h>

#include "mfma_vec.h"
#include "smallfloat.h"

/* The elements of one k in the lanes of a block, and where their decoded values go. */
struct run {
    /* Dwords of the lanes that hold the element, or its low bits if it is in two dwords. */
    const uint32_t *from;
    /* dwords of the lanes that hold the element's high bits; NULL: it is in one dword */
    const uint32_t *from_high;
    /* Number of the element's first bit in its dword. */
    unsigned shift;
    float *value;
    uint32_t *ea; /* exponents of the decoded values: ea for A, eb for B; the other is NULL */
    int8_t *eb;
};

/* Values that a vector of codes represents. */
struct decoded {
    vec_f value;
    vec_i exponent, special; /* special: ~0 for infinities and NaNs, whose exponent is 0 */
};

/* Decodes binary32. */
static inline struct decoded decode_f32(vec_u bits)
{
    const vec_i field = (vec_i)(bits >> 23) & 255;

    return (struct decoded){
        .value = (vec_f)bits,
        .exponent = (vec_max_i(field, (vec_i){0} + 1) - 127) & ~(vec_i)(field == 255),
        .special = field == 255,
    };
}

/* Decodes xf32, the upper 19 bits of a binary32. Sets a mantissa bit of NaNs, since their low bits
 * are cut. */
static inline struct decoded decode_xf32(vec_u bits)
{
    const vec_u nan = (vec_u)((vec_i)(bits & 0x7fffffff) > 0x7f800000);

    return decode_f32((bits & 0xffffe000) | (nan & 0x400000));
}

/* Decodes a format narrower than binary32 by moving its bits to binary32's positions. Subnormal
 * numbers are converted as integers: the host multiplies subnormal floats a hundred times
 * slower. */
static inline __attribute__((always_inline)) struct decoded decode_small(struct mfma_small f,
                                                                         vec_u code)
{
    const int width = f.exponent_bits + f.mantissa_bits, top = (1 << f.exponent_bits) - 1;
    const vec_u magnitude = code & ((1u << width) - 1), sign = (code >> width & 1) << 31;
    const vec_i field = (vec_i)(magnitude >> f.mantissa_bits);
    const vec_u where = magnitude << (23 - f.mantissa_bits);
    const float least = float_from_bits((uint32_t)(128 - f.bias - f.mantissa_bits) << 23);
    struct decoded d = {.exponent = vec_max_i(field, (vec_i){0} + 1) - f.bias};
    const vec_i zero = magnitude == 0;

    d.exponent = (d.exponent & ~zero) | (zero & EXPONENT_OF_ZERO);
    switch (f.special) {
    case SPECIAL_TOP_FIELD: d.special = field == top; break;
    case SPECIAL_ALL_ONES: d.special = magnitude == (1u << width) - 1; break;
    case SPECIAL_MINUS_ZERO: d.special = (vec_i)(code & ((2u << width) - 1)) == 1 << width; break;
    default: d.special = (vec_i){0}; break;
    }
    d.exponent &= ~d.special;
    const vec_f normal = (vec_f)(where + ((uint32_t)(127 - f.bias) << 23));
    const vec_f subnormal = vec_to_f((vec_i)magnitude) * vec_f_from(least);
    vec_u bits = (vec_u)vec_pick(field == 0, subnormal, normal) | sign;
    if (f.special == SPECIAL_TOP_FIELD)
        bits |= (vec_u)d.special & 0x7f800000;
    else
        bits |= (vec_u)d.special & 0x7fc00000;
    d.value = (vec_f)bits;
    return d;
}

/* Decodes codes of any float format except f64. */
static inline __attribute__((always_inline)) struct decoded decode(enum mfma_format format,
                                                                   vec_u code)
{
    switch (format) {
    case FORMAT_F32: return decode_f32(code);
    case FORMAT_XF32: return decode_xf32(code);
    case FORMAT_BF16: return decode_f32(code << 16);
    default: return decode_small(mfma_small_format(format), code);
    }
}

/* Decodes a run of `lanes` lanes of A (`is_a`) or B. Returns ~0 in lanes with an infinity or NaN.
 * The arguments are constants where this is inlined. */
static inline __attribute__((always_inline)) vec_i decode_run(const struct run *r,
                                                              enum mfma_format format, bool is_a,
                                                              unsigned lanes)
{
    vec_i special = {0};

    for (unsigned l = 0; l < lanes; l += PART_COLS) {
        vec_u code = load_u(r->from + l) >> r->shift;
        if (r->from_high)
            code |= load_u(r->from_high + l) << (32 - r->shift);
        const struct decoded d = decode(format, code);
        store_f(r->value + l, d.value);
        special |= d.special;
        if (is_a) {
            const vec_u four = vec_four_times(d.exponent);
            memcpy(r->ea + l, &four, sizeof(four));
            continue;
        }
        narrow_b(r->eb + l, d.exponent);
        if (lanes == COLS)
            narrow_b(r->eb + COLS + l, d.exponent);
    }
    return special;
}

/* Registers of A or B, and the block to decode. */
struct operand {
    const struct mfma_shape *shape;
    const uint32_t (*rows)[MFMA_LANES];
    unsigned block;
};

/* Decodes elements first to first + count - 1 of the lanes from `lane` on, to lines k and following
 * of A (`is_a`) or B. Returns ~0 in columns with an infinity or NaN. */
static inline __attribute__((always_inline)) vec_i decode_group(struct operands *o,
                                                                const struct operand *from,
                                                                enum mfma_format format, bool is_a,
                                                                unsigned lane, unsigned first,
                                                                unsigned count, unsigned k)
{
    const unsigned width = is_a ? from->shape->m : from->shape->n;
    const unsigned bits = mfma_element_bits(format);
    uint32_t narrow[COLS] = {0};
    vec_i special = {0};

    for (unsigned e = first; e < first + count; e++, k++) {
        const unsigned word = e * bits / 32, shift = e * bits % 32;
        struct run r = {
            .from = from->rows[word] + lane,
            .from_high = shift + bits > 32 ? from->rows[word + 1] + lane : NULL,
            .shift = shift,
            .value = is_a ? o->a[k] : o->b[k],
            .ea = is_a ? o->ea[k] : NULL,
            .eb = is_a ? NULL : o->eb[k],
        };
        if (width == LINE) {
            special |= decode_run(&r, format, is_a, LINE);
            continue;
        }
        if (width < COLS) { /* a full vector would exceed the row's end */
            memcpy(narrow, r.from, width * sizeof(*r.from));
            r.from = narrow;
        }
        special |= decode_run(&r, format, is_a, COLS);
    }
    return special;
}

/* Decodes all elements of A (`is_a`) or B of a block. True if one is an infinity or NaN. */
static inline __attribute__((always_inline)) bool decode_operand(struct operands *o,
                                                                 const struct operand *from,
                                                                 enum mfma_format format, bool is_a)
{
    const struct mfma_shape *s = from->shape;
    const unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    const unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    const unsigned stripe = 128 / mfma_element_bits(format);
    const unsigned count = mfma_is_striped(format, per_lane) ? stripe : per_lane;
    vec_i special = {0};

    for (unsigned g = 0; g * lanes < MFMA_LANES; g++)
        for (unsigned e = 0; e < per_lane; e += count)
            special |= decode_group(o, from, format, is_a, g * lanes + from->block * width, e,
                                    count, mfma_k(s, format, is_a, g, e));
    return vec_any_i(special);
}

/* Calls decode_operand() with the format as a constant. */
static inline __attribute__((always_inline)) bool decode_format(struct operands *o,
                                                                const struct operand *from,
                                                                enum mfma_format format, bool is_a)
{
    switch (format) {
    case FORMAT_F32: return decode_operand(o, from, FORMAT_F32, is_a);
    case FORMAT_XF32: return decode_operand(o, from, FORMAT_XF32, is_a);
    case FORMAT_F16: return decode_operand(o, from, FORMAT_F16, is_a);
    case FORMAT_BF16: return decode_operand(o, from, FORMAT_BF16, is_a);
    case FORMAT_FP8_FNUZ: return decode_operand(o, from, FORMAT_FP8_FNUZ, is_a);
    case FORMAT_BF8_FNUZ: return decode_operand(o, from, FORMAT_BF8_FNUZ, is_a);
    case FORMAT_FP8: return decode_operand(o, from, FORMAT_FP8, is_a);
    case FORMAT_BF8: return decode_operand(o, from, FORMAT_BF8, is_a);
    case FORMAT_FP6: return decode_operand(o, from, FORMAT_FP6, is_a);
    case FORMAT_BF6: return decode_operand(o, from, FORMAT_BF6, is_a);
    default: return decode_operand(o, from, FORMAT_FP4, is_a);
    }
}

/* Decodes A; true if one of its elements is an infinity or NaN. */
static __attribute__((noinline)) bool decode_a(struct operands *o, const struct operand *from,
                                               enum mfma_format format)
{
    return decode_format(o, from, format, true);
}

/* Decodes B; true if one of its elements is an infinity or NaN. */
static __attribute__((noinline)) bool decode_b(struct operands *o, const struct operand *from,
                                               enum mfma_format format)
{
    return decode_format(o, from, format, false);
}

void JOIN(mfma_move_lanes, ISA)(const struct mfma_job *job, uint32_t (*moved)[MFMA_LANES])
{
    unsigned bits = mfma_b_per_lane(&job->shape) * mfma_element_bits(job->b_format);

    for (unsigned r = 0; r < (bits + 31) / 32; r++)
        for (unsigned l = 0; l < MFMA_LANES; l++)
            moved[r][l] = job->b[r][mfma_blgp_lane(l, job->blgp)];
}

void JOIN(mfma_decode, ISA)(struct operands *o, const struct mfma_job *job, unsigned block)
{
    uint32_t moved[8][MFMA_LANES];
    const struct operand a = {&job->shape, job->a, mfma_block_of_a(job, block)};
    struct operand b = {&job->shape, job->b, block};

    if (job->blgp) {
        JOIN(mfma_move_lanes, ISA)(job, moved);
        b.rows = (const uint32_t (*)[MFMA_LANES])moved;
    }
    o->wide = job->a_format == FORMAT_BF16 || job->a_format == FORMAT_XF32;
    o->special = decode_a(o, &a, job->a_format);
    o->special |= decode_b(o, &b, job->b_format);
}
