/* SPDX-License-Identifier: Apache-2.0 */
/* This file reads rows of bytes that end with their scales, and compares them with numbers in
 * double precision. */
#include "tools/verify/pooled_row.h"

#include <math.h>
#include <string.h>

#include "tools/reference/indexer_rope.h"
#include "tools/verify/scaled_row.h"
#include "tools/verify/stored.h"

/* Returns the number with these bits; `type` is a struct precision. */
static double decode(const void *type, uint32_t bits)
{
    return decode_element(type, (uint16_t)bits);
}

/* Sets `at` to the indices of byte `byte` of the row, and returns `at`. */
static const int64_t *byte_at(const struct pooled_row *r, int64_t byte, int64_t at[])
{
    memcpy(at, r->at, sizeof(r->at));
    at[r->axis] += byte;
    return at;
}

const struct ref_pooled_row *paged_row(enum attn_kv_layout layout)
{
    return layout == ATTN_KV_PACKED_FP4     ? &ref_pooled_fp4
           : layout == ATTN_KV_PACKED_MXFP4 ? &ref_pooled_mxfp4
           : layout == ATTN_KV_PACKED_MXFP8 ? &ref_pooled_mxfp8
                                            : NULL;
}

/* Returns the scale of element `d` of a row. `of` reads a byte of the tensor. */
static double scale_of(const struct pooled_row *r, int d, const struct precision *fp8,
                       uint32_t (*of)(const struct operand *, const int64_t *))
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    byte_at(r, r->format->scales + d / r->format->run, at);
    return ref_pooled_scale(r->format, of(r->tensor, at) & 0xff, decode, fp8);
}

double pooled_row_value(const struct pooled_row *r, int d, const struct precision *fp8,
                        uint32_t (*of)(const struct operand *, const int64_t *))
{
    int64_t at[ATTN_DIMENSIONS_MAX];
    byte_at(r, d * r->format->bits / 8, at);
    return ref_pooled_number(r->format, of(r->tensor, at) & 0xff, d, decode, fp8) *
           scale_of(r, d, fp8, of);
}

void pooled_row_convert(const struct pooled_row *r, const struct precision *fp8,
                        struct operand *rows, int64_t to)
{
    const struct ref_pooled_row *const f = &ref_pooled_mxfp8;
    for (int first = 0; first < REF_PACKED_LATENT; first += f->run) {
        double most = 0;
        for (int d = first; d < first + f->run; d += r->format->run)
            most = fmax(most, scale_of(r, d, fp8, operand_bits));
        operand_set_bits(rows, AT(to, f->scales + first / f->run), (uint32_t)(127 + ilogb(most)));
        for (int d = first; d < first + f->run; d++)
            operand_set_bits(rows, AT(to, d),
                             encode_element(fp8, pooled_row_value(r, d, fp8, operand_bits) / most));
    }
}

/* True if `got` may be the scale of a run whose largest magnitude is `absmax` with an error of at
 * most `error`. An e8m0 scale is the smallest power of two that is at least absmax / limit. An fp8
 * scale is the number nearest to that, and `most` is the largest fp8 number. */
static bool may_have_scale(const struct ref_pooled_row *f, double limit, double most, double got,
                           double absmax, double error)
{
    const double off = error + STORED_F * 2 * absmax, wanted = fmax(absmax / limit, f->least);
    int exponent;
    if (f->e8m0)
        return frexp(got, &exponent) == 0.5 && got >= fmax((absmax - off) / limit, f->least) &&
               got < 2 * fmax((absmax + off) / limit, f->least);
    return fabs(got - fmin(wanted, most)) <= wanted * (0x1p-4 + 0x1p-20) + error;
}

/* Returns x rounded to e2m1 times `scale`. Returns `got` if a number within `error` and the
 * rounding of the division from x rounds to it. */
static double nearest_e2m1(double got, double x, double scale, double error)
{
    const double nearest = ref_e2m1(x / scale) * scale;
    const double off = 2 * error + 0x1p-20 * fabs(x);
    return fabs(got - x) <= fabs(nearest - x) + off ? got : nearest;
}

/* Compares the elements from `first` on that share a scale, and the scale. */
static void compare_run(struct call *c, const struct pooled_row *r, int first, const double *x,
                        const double *error)
{
    const struct ref_pooled_row *const f = r->format;
    const struct precision *fp8 = find_cache_precision(ATTN_FP8, c->target);
    int64_t at[ATTN_DIMENSIONS_MAX];
    byte_at(r, f->scales + first / f->run, at);
    const double scale = scale_of(r, first, fp8, operand_result_bits);
    const double limit = f->bits == 4 ? 6 : fp8->limit;
    double absmax = 0, most = 0;
    operand_allow(r->tensor, at);
    for (int d = first; d < first + f->run; d++) {
        absmax = fmax(absmax, fabs(x[d]));
        most = fmax(most, error[d]);
    }
    if (!may_have_scale(f, limit, fp8->limit, scale, absmax, most))
        verify_fail(c->row, "elements %d.. have the scale %g, the largest of them is %g", first,
                    scale, absmax);
    for (int d = first; d < first + f->run; d++) {
        byte_at(r, d * f->bits / 8, at);
        const uint32_t bits = operand_result_bits(r->tensor, at) & 0xff;
        const double got = ref_pooled_number(f, bits, d, decode, fp8) * scale;
        if (f->bits == 4)
            call_compare_value(c, r->tensor, at, got, nearest_e2m1(got, x[d], scale, error[d]), 0);
        else
            call_compare_value(c, r->tensor, at, got, x[d],
                               scaled_row_bound(fp8, x[d], error[d], scale));
    }
}

void pooled_row_compare(struct call *c, const struct pooled_row *r, const double *x,
                        const double *error)
{
    for (int first = 0; first < REF_PACKED_LATENT; first += r->format->run)
        compare_run(c, r, first, x, error);
}

void pooled_row_copy(const struct pooled_row *r, struct operand *rows, int64_t to)
{
    for (int64_t i = 0; i < r->format->bytes; i++)
        operand_set_bits(rows, AT(to, i), operand_bits(r->tensor, AT(r->at[0], r->at[1], 0, i)));
}

void mixed_row_copy(const struct operand *cache, struct operand *other, int page, int from, int to)
{
    for (int64_t i = 0; i < REF_MIXED_ROW; i++)
        operand_set_bits(
            other, AT(to / page, ref_mixed_element(to % page, 0) + i),
            operand_bits(cache, AT(from / page, ref_mixed_element(from % page, 0) + i)));
    for (int d = 0; d < REF_MIXED_FP8; d += REF_MIXED_RUN)
        operand_set_bits(
            other, AT(to / page, ref_mixed_scale(page, to % page, d)),
            operand_bits(cache, AT(from / page, ref_mixed_scale(page, from % page, d))));
}

void plane_row_copy(const struct operand *planes, struct operand *rows, int page, int from, int to)
{
    enum { BYTES = REF_MIXED_FP8 + 2 * (REF_MIXED_FP8 / REF_MIXED_RUN), ROTATED = 64 };
    for (int64_t i = 0; i < BYTES; i++)
        operand_set_bits(rows, AT(to, i), operand_bits(planes, AT(from / page, from % page, 0, i)));
    for (int64_t i = 0; i < ROTATED; i++) {
        const uint32_t low = operand_bits(planes + 1, AT(from / page, from % page, 0, 2 * i));
        const uint32_t high = operand_bits(planes + 1, AT(from / page, from % page, 0, 2 * i + 1));
        operand_set_bits(rows + 1, AT(to, i), low | high << 8);
    }
}
