/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix kernels, compiled once per host instruction set (ISA is plain, avx2, avx512).
 *
 * A fused step adds to C the products of 4, 8 or 16 values of k
 * (tools/hipsim/docs/hipsim-matrix.md). The products are aligned to their largest exponent e and
 * truncated to 24 fractional bits, summed, aligned with C, and rounded once. The order of k of a
 * result is the hardware's; vectors extend along the columns.
 *
 * Float instructions do the alignment, which is fast. p * 2^(24 - e), converted with truncation, is
 * the aligned product as an integer; the sum of a step fits in 31 bits. C is added in units of 2^(e
 * - 24), or of 2^(ec - 29) if its exponent ec exceeds e by more than 5. It then always fits, and
 * bits that the sum loses are rounded to odd. Conversion to float rounds the total.
 *
 * Exponents are saturating bytes; exponents that matter are far from saturation. Steps with
 * exponents that single precision cannot scale are computed by mfma_fused_step(). Infinities and
 * NaNs are summed separately (settle_special()), at little extra cost.
 */
#include <math.h>
#include <stddef.h>

#include "mfma_decode.h"
#include "mfma_fixed.h"
#include "mfma_step.h"
#include "smallfloat.h"

#define SCALE_NAN 1000 /* larger than any sum of exponents and another scale */

/* The functions from here on compute one row of the result. */

/* NaNs of a step without infinities: each product with a NaN factor is NaN, whatever the other
 * factor is. */
struct nans {
    uint32_t rows;        /* rows of A that have a NaN, a bit each */
    vec_i columns[PARTS]; /* ~0 for columns of B that have a NaN, from the step's first column on */
};

/* One fused step of a row: `count` lines of A, at the row's element, and of B. For a sparse A,
 * `lines` has the numbers of B's lines. */
struct step {
    const float *a;
    const uint32_t *ea;
    const float *b;   /* first of 16 columns */
    const int8_t *eb; /* exponents of all columns, from column 0 on */
    const uint8_t *lines;
    const int16_t *scale; /* exponents to add in the 16 columns of b; NULL: no scales */
    unsigned count;
    bool two_stage;
    bool far;                /* true: some exponents may exceed E_NEAR */
    bool wide;               /* true: products of the formats may exceed binary32's range */
    const struct nans *nans; /* NaNs of the operands; NULL: there may be infinities */
};

/* The largest exponent of a row's products in each column, plus BIAS, within [E_MIN, E_MAX + 1].
 * Two-stage formats have one for even and one for odd k. */
struct exponents {
    _Alignas(BYTE_COLS) uint8_t e[BYTE_COLS], odd[BYTE_COLS];
};

/* Returns the offset of line k of B in floats: the line itself, or for a sparse A the line that k
 * selects. */
static inline __attribute__((always_inline)) unsigned line(const struct step *s, unsigned k)
{
    return (s->lines ? s->lines[k] : k) * LINE;
}

/* Returns the largest exponents of the products of lines from, from + stride, ... in the columns of
 * vector `span`. */
static inline __attribute__((always_inline)) vec_b largest_exponent(const struct step *s,
                                                                    unsigned from, unsigned stride,
                                                                    unsigned span)
{
    vec_b e = {0};

    for (unsigned k = from; k < s->count; k += stride) {
        vec_b sum =
            vec_add_b(load_b(s->eb + line(s, k) + span * SPAN_COLS), vec_quad(s->ea[k * LINE]));
        e = k == from ? sum : vec_max_b(e, sum);
    }
    return e;
}

/* Stores exponents, limited to [E_MIN, E_MAX + 1] and with BIAS added. If all products are zero,
 * the sum is zero with any exponent. */
static inline __attribute__((always_inline)) void store_exponents(uint8_t *to, vec_b e)
{
    const vec_b bound = vec_min_b(vec_max_b(e, (vec_b){0} + E_MIN), (vec_b){0} + (E_MAX + 1));
    const vec_ub biased = (vec_ub)bound + BIAS;

    memcpy(to, &biased, sizeof(biased));
}

/* First pass: finds the exponents of a row's products. Widens the range *least to *most to include
 * them. */
static inline __attribute__((always_inline)) void find_exponents(const struct step *s,
                                                                 struct exponents *x, vec_b *least,
                                                                 vec_b *most)
{
    for (unsigned i = 0; i < SPANS; i++) {
        vec_b e = largest_exponent(s, 0, s->two_stage ? 2 : 1, i), top = e;
        if (s->two_stage) {
            vec_b odd = largest_exponent(s, 1, 2, i);
            top = vec_max_b(e, odd);
            store_exponents(x->odd + i * SPAN_COLS, odd);
        }
        *least = vec_min_b(*least, top);
        *most = vec_max_b(*most, top);
        store_exponents(x->e + i * SPAN_COLS, e);
    }
}

/* True if a row has columns in which all products may be below 2^E_MIN, or some above 2^E_MAX. */
static bool out_of_range(const struct exponents *x, bool two_stage)
{
    vec_b out = {0};
    for (unsigned i = 0; i < BYTE_COLS; i += SPAN_COLS) {
        vec_ub e, odd;
        memcpy(&e, x->e + i, sizeof(e));
        memcpy(&odd, x->odd + i, sizeof(odd));
        vec_b low = (vec_b)(e <= E_MIN + BIAS), high = (vec_b)(e > E_MAX + BIAS);
        if (two_stage) {
            low &= (vec_b)(odd <= E_MIN + BIAS);
            high |= (vec_b)(odd > E_MAX + BIAS);
        }
        out |= low | high;
    }
    return vec_any_b(out);
}

/* Returns a mask of the `rows` rows for which out_of_range() is true. */
static uint32_t rows_out_of_range(const struct exponents *x, unsigned rows, bool two_stage)
{
    uint32_t out = 0;
    for (unsigned i = 0; i < rows; i++)
        out |= (uint32_t)out_of_range(&x[i], two_stage) << i;
    return out;
}

/* 16 columns of a step's lines of B in vectors, for steps in which all rows use the same lines. */
struct columns {
    vec_f b[16][PARTS];
};

/* Loads 16 columns of the `count` lines of B that begin at `b`. */
static inline __attribute__((always_inline)) void load_columns(struct columns *c, const float *b,
                                                               unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        for (unsigned p = 0; p < PARTS; p++)
            c->b[n][p] = load_f(b + n * LINE + p * PART_COLS);
}

/* Sums of the aligned products in 16 columns of a row. e has the exponents to which they are
 * aligned, in the bits of binary32's exponent field. */
struct sums {
    vec_i sum[PARTS], e[PARTS];
};

/* Returns the sums of the products of lines from, from + stride, ... in 16 columns, aligned to the
 * exponents e[]. */
static inline __attribute__((always_inline)) struct sums add_products(
    const struct step *s, const struct columns *c, unsigned from, unsigned stride, const uint8_t *e)
{
    struct sums w = {.sum = {{0}}};
    vec_f scale[PARTS];

    for (unsigned p = 0; p < PARTS; p++) {
        w.e[p] = in_place(e, p);
        scale[p] = inverse_power(24, w.e[p]);
    }
    for (unsigned k = from; k < s->count; k += stride) {
        const vec_f a = vec_f_from(s->a[k * LINE]);
        for (unsigned p = 0; p < PARTS; p++) {
            vec_f b = c ? c->b[k][p] : load_f(s->b + line(s, k) + p * PART_COLS);
            w.sum[p] = vec_add(w.sum[p], vec_to_i(b * a * scale[p]));
        }
    }
    return w;
}

/* Second pass: returns the sums of the row's products in the 16 columns from column j on. */
static inline __attribute__((always_inline)) struct sums find_sums(const struct step *s,
                                                                   const struct columns *c,
                                                                   const struct exponents *x,
                                                                   unsigned j)
{
    if (!s->two_stage)
        return add_products(s, c, 0, 1, x->e + j);
    struct sums even = add_products(s, c, 0, 2, x->e + j);
    const struct sums odd = add_products(s, c, 1, 2, x->odd + j);
    for (unsigned p = 0; p < PARTS; p++) {
        const vec_i top = vec_max_i(even.e[p], odd.e[p]);
        even.sum[p] = vec_add(vec_shr(even.sum[p], (top - even.e[p]) >> 23),
                              vec_shr(odd.sum[p], (top - odd.e[p]) >> 23));
        even.e[p] = top;
    }
    return even;
}

/* Returns the result of column j + i exactly, by mfma_fused_step(); s->b is at column j. */
static __attribute__((noinline)) float step_exactly(const struct step *s, unsigned j, unsigned i,
                                                    float c)
{
    double product[16];
    int exponent[16];
    for (unsigned k = 0; k < s->count; k++) {
        product[k] = (double)s->a[k * LINE] * s->b[line(s, k) + i];
        exponent[k] = (int8_t)s->ea[k * LINE] + s->eb[line(s, k) + j + i];
    }
    return mfma_fused_step(product, exponent, s->count, s->scale ? s->scale[i] : 0, c,
                           s->two_stage);
}

/* Returns ~0 in columns in which C is an infinity or NaN, otherwise 0. */
static inline vec_i not_finite(vec_f c) { return ((vec_i)c & FIELD) == FIELD; }

/* Returns the exponents of the scales in the columns of vector p; 0 without scales. */
static inline vec_i scale_of(const struct step *s, unsigned p)
{
    return s->scale ? widen_s(s->scale, p) : (vec_i){0};
}

/*
 * Returns `result` with C in columns whose products, of exponents `e`, are below 2^E_MIN. This is
 * exact in two cases. First, C is so large that the sum is less than half of its last bit. Second,
 * all products are zero (`none`) and C loses no bits. Sets `odd` in columns of neither case, and
 * where products exceed 2^E_MAX. For steps without scales.
 */
static inline vec_f keep_c(vec_i e, vec_i none, vec_f c, vec_f result, vec_i *odd)
{
    const vec_i low = e <= (E_MIN + BIAS) * (1 << 23), field = (vec_i)c & FIELD;
    const vec_i whole = (c == vec_f_from(0)) | (field >= (E_MIN + 127) * (1 << 23));
    const vec_i large = field >= (E_MIN + 32 + 127) * (1 << 23);

    *odd |= (e > (E_MAX + BIAS) * (1 << 23)) | (low & ~(large | (none & whole)));
    return vec_pick(low, c + vec_f_from(0), result); /* -0 becomes +0 */
}

/* Third pass: adds C and stores the row's 16 columns from column j on to `d`. Stores them to
 * `aside` and returns false if the row needs look_again() (d may overlap c). `none` has the columns
 * whose products are all zero if products may be out of range; otherwise it is NULL. */
static inline __attribute__((always_inline)) bool find_result(
    const struct step *s, const struct columns *columns, const struct exponents *x, unsigned j,
    bool done, const vec_i *none, const uint32_t *c, float *d, float *aside)
{
    struct sums w = find_sums(s, columns, x, j);
    vec_i odd = {0}, field;
    vec_f out[PARTS];

    for (unsigned p = 0; p < PARTS; p++) {
        const vec_f from = load_f((const float *)c + p * PART_COLS);
        if (s->scale) {
            vec_i e = (w.e[p] >> 23) + scale_of(s, p);
            odd |= (e < E_MIN + BIAS) | (e > E_MAX + BIAS);
            w.e[p] = vec_shl(e, 23);
        }
        out[p] = add_c(from, w.sum[p], w.e[p], s->two_stage, s->far);
        if (__builtin_expect(none != NULL, 0))
            out[p] = keep_c(w.e[p], none[p], from, out[p], &odd);
        const vec_i exponent = (vec_i)from & FIELD;
        field = p ? vec_max_i(field, exponent) : exponent;
    }
    done &= !vec_any_equal(field, (vec_i){0} + FIELD);
    if (s->scale || none)
        done &= !vec_any_i(odd);
    if (__builtin_expect(!done, 0))
        d = aside;
    for (unsigned p = 0; p < PARTS; p++)
        store_f(d + p * PART_COLS, out[p]);
    return done;
}

/*
 * Computes what find_result() does if all products are in range and finite. False if C has an
 * infinity or a NaN; nothing is stored then. C's exponent is rarely more than 5 above the
 * products'. If it is not in any column, C and the sum share the products' scale, and the sum keeps
 * all of its bits.
 */
static inline __attribute__((always_inline)) bool find_in_range(const struct step *s,
                                                                const struct columns *columns,
                                                                const struct exponents *x,
                                                                unsigned j, const uint32_t *c,
                                                                float *d)
{
    const struct sums w = find_sums(s, columns, x, j);
    vec_f from[PARTS];
    bool above = false;

    for (unsigned p = 0; p < PARTS; p++) {
        from[p] = load_f((const float *)c + p * PART_COLS);
        above |= vec_any_above((vec_i)from[p] & FIELD, w.e[p]);
    }
    if (!above) {
        for (unsigned p = 0; p < PARTS; p++) {
            const vec_i whole = floor_c(from[p], inverse_power(24, w.e[p]), s->two_stage, s->far);
            store_f(d + p * PART_COLS, vec_to_f(vec_add(w.sum[p], whole)) * power(-24, w.e[p]));
        }
        return true;
    }
    for (unsigned p = 0; p < PARTS; p++)
        if (vec_any_equal((vec_i)from[p] & FIELD, (vec_i){0} + FIELD))
            return false;
    for (unsigned p = 0; p < PARTS; p++)
        store_f(d + p * PART_COLS, add_c(from[p], w.sum[p], w.e[p], s->two_stage, s->far));
    return true;
}

/* Returns ~0 in the columns of vector `p` in which all products are zero. */
static inline __attribute__((always_inline)) vec_i without_products(const struct step *s,
                                                                    unsigned p)
{
    vec_i some = {0};

    for (unsigned k = 0; k < s->count; k++)
        if (s->a[k * LINE] != 0)
            some |= load_f(s->b + line(s, k) + p * PART_COLS) != 0;
    return ~some;
}

/*
 * Returns `result`, or C in columns of vector `p` whose products are below 2^E_MIN, as of masked
 * keys and padding. C is exact in two cases: it is so large that the sum is less than half of its
 * last bit, or all products are zero and C loses no bits. Sets `lost` in columns of neither case.
 * `sum_e` is the exponent without the scale.
 */
static inline __attribute__((always_inline)) vec_f add_low(const struct step *s, vec_i sum_e,
                                                           unsigned p, vec_f c, vec_f result,
                                                           vec_i *lost)
{
    const vec_i scaled = sum_e + scale_of(s, p);
    const vec_i low = (sum_e <= E_MIN) | (scaled <= E_MIN);

    *lost |= (sum_e > E_MAX) | (scaled > E_MAX);
    if (!vec_any_i(low))
        return result;
    const vec_i ec = (((vec_i)c >> 23) & 255) - 127, e = vec_max_i(scaled, (vec_i){0} + E_MIN);
    const vec_i none = without_products(s, p);
    *lost |= low & ~((ec >= e + 32) | (none & ((ec >= e) | (c == vec_f_from(0)))));
    return vec_pick(low, c + vec_f_from(0), result); /* -0 becomes +0 */
}

/* Returns the sum of the infinities and NaNs among C and the products in columns of vector `p`.
 * Sets `any` to ~0 in columns that have some. */
static inline __attribute__((always_inline)) vec_f add_special(const struct step *s, unsigned p,
                                                               vec_f c, vec_i *any)
{
    *any = not_finite(c);
    vec_f sum = vec_pick(*any, c, vec_f_from(0));

    for (unsigned k = 0; k < s->count; k++) {
        const vec_f a = vec_f_from(s->a[k * LINE]), b = load_f(s->b + line(s, k) + p * PART_COLS);
        if (!s->wide) { /* products and sums of finite factors are finite */
            sum += a * b;
            continue;
        }
        const vec_i special = not_finite(a) | not_finite(b);
        sum += vec_pick(special, a * b, vec_f_from(0));
        *any |= special;
    }
    if (!s->wide)
        *any = not_finite(sum);
    return sum;
}

/*
 * Returns `result`, with infinities and NaNs in columns of vector `p` that have one among C, the
 * products and scales of row `i`. Sets `settled` to ~0 in these columns.
 */
static inline __attribute__((always_inline)) vec_f settle_special(const struct step *s, unsigned i,
                                                                  unsigned p, vec_f c, vec_f result,
                                                                  vec_i *settled)
{
    const vec_i quiet = (vec_i){0} + 0x7fc00000;
    const vec_i bad_scale = scale_of(s, p) >= SCALE_NAN - 127;
    vec_i any;
    vec_f sum = c;

    if (s->nans) {
        const vec_i nan = s->nans->columns[p] | -(int32_t)(s->nans->rows >> i & 1);
        any = not_finite(c) | nan;
        sum = vec_pick(nan, (vec_f)quiet, c);
    } else {
        sum = add_special(s, p, c, &any);
    }
    sum = vec_pick((sum != sum) | bad_scale, (vec_f)quiet, sum);
    *settled = any | bad_scale;
    return vec_pick(*settled, sum, result);
}

/*
 * Corrects `result` of a row's 16 columns from column j on, which was computed as if everything
 * were in range: for products below 2^E_MIN, infinities and NaNs, and cases that need
 * step_exactly().
 */
static __attribute__((noinline)) void look_again(const struct step *s, const struct exponents *x,
                                                 unsigned row, unsigned j, const uint32_t *c,
                                                 float *result)
{
    for (unsigned p = 0; p < PARTS; p++) {
        const vec_f from = load_f((const float *)c + p * PART_COLS);
        float *to = result + p * PART_COLS;
        vec_i e = widen_ub(x->e + j, p), lost = {0}, settled;
        if (s->two_stage)
            e = vec_max_i(e, widen_ub(x->odd + j, p));
        const vec_f low = add_low(s, e - BIAS, p, from, load_f(to), &lost);
        store_f(to, settle_special(s, row, p, from, low, &settled));
        lost &= ~settled;
        if (!vec_any_i(lost))
            continue;
        int32_t exactly[PART_COLS];
        memcpy(exactly, &lost, sizeof(lost));
        for (unsigned i = 0; i < PART_COLS; i++)
            if (exactly[i])
                to[i] =
                    step_exactly(s, j, p * PART_COLS + i, ((const float *)c)[p * PART_COLS + i]);
    }
}

/* The functions from here on compute whole matrices. */

/* Returns the exponent of the E8M0 scale in `lane`, from bit `shift` on. SCALE_NAN if the scale is
 * a NaN. */
static int scale_exponent(const uint32_t *row, unsigned shift, unsigned lane)
{
    unsigned code = row[lane] >> shift & 255;

    return code == 255 ? SCALE_NAN : (int)code - 127;
}

/* Sets scale[j] to the exponent of A's scale for row i plus B's for column j. `kb` is the number of
 * the block of 32 k. */
static void add_scales(const struct mfma_job *job, unsigned i, unsigned kb, int16_t *scale)
{
    const struct mfma_shape *s = &job->shape;
    int a = scale_exponent(job->scale_a, job->scale_a_shift, kb * s->m + i);

    for (unsigned j = 0; j < s->n; j++)
        scale[j] = (int16_t)(a + scale_exponent(job->scale_b, job->scale_b_shift, kb * s->n + j));
}

/* Registers and scales of the rows of a block. */
struct rows {
    const uint32_t *c[LINE]; /* row i of C: a dword for each column, in a register */
    uint32_t *d[LINE];
    uint8_t lines[LINE][MAX_K / 2]; /* numbers of B's lines for each row; sparse only */
    int16_t scale[LINE][LINE];      /* exponents of scales for the current 32 k; scaled only */
};

/* Finds the registers that hold C and D of each row of a block of `size` rows. */
static inline __attribute__((always_inline)) void place_rows(const struct mfma_job *job,
                                                             unsigned block, unsigned size,
                                                             struct rows *r)
{
    const struct mfma_shape s = {.m = (uint8_t)size, .n = (uint8_t)size};
    unsigned reg, lane;

    for (unsigned i = 0; i < size; i++) {
        mfma_d_place(&s, false, block, i, &reg, &lane);
        r->c[i] = &job->c[reg][lane];
        r->d[i] = &job->d[reg][lane];
    }
}

/* True if x is an infinity; false for a NaN. */
static bool infinite(float x) { return x - x != 0 && x == x; }

/* Sets nans->rows to the rows of A that have a NaN in lines k to k + count - 1. False if they have
 * an infinity. */
static bool find_nan_rows(const struct operands *o, unsigned k, unsigned count, unsigned rows,
                          struct nans *nans)
{
    nans->rows = 0;
    for (unsigned n = 0; n < count; n++)
        for (unsigned i = 0; i < rows; i++) {
            const float a = o->a[k + n][i];
            if (infinite(a))
                return false;
            nans->rows |= (uint32_t)(a != a) << i;
        }
    return true;
}

/* Sets nans->columns to the columns of B, from `b` on, that have a NaN in `count` lines. False if
 * they have an infinity. */
static bool find_nan_columns(const float *b, unsigned count, struct nans *nans)
{
    vec_i infinity = {0};
    for (unsigned p = 0; p < PARTS; p++) {
        nans->columns[p] = (vec_i){0};
        for (unsigned n = 0; n < count; n++) {
            const vec_f x = load_f(b + n * LINE + p * PART_COLS);
            nans->columns[p] |= x != x;
            infinity |= not_finite(x) & (x == x);
        }
    }
    return !vec_any_i(infinity);
}

/* Sets zero[] to ~0 in the step's columns in which all of B is zero, otherwise to 0. */
static inline void find_zero_columns(const struct step *s, vec_i zero[PARTS])
{
    for (unsigned p = 0; p < PARTS; p++) {
        zero[p] = ~(vec_i){0};
        for (unsigned k = 0; k < s->count; k++)
            zero[p] &= load_f(s->b + k * LINE + p * PART_COLS) == vec_f_from(0);
    }
}

/* True if the step's part of the row of A is all zeros. */
static inline bool is_zero_row(const struct step *s)
{
    bool zero = true;
    for (unsigned k = 0; k < s->count; k++)
        zero &= s->a[k * LINE] == 0;
    return zero;
}

/* Computes step `s` of all rows in the 16 columns from column j on, if all products are in range.
 * Returns a mask of the rows that it skips, since their C has an infinity or a NaN. */
static inline __attribute__((always_inline)) uint32_t
run_in_range(const struct operands *o, const struct rows *r, const uint32_t *const *from,
             struct step *s, const struct columns *c, const struct exponents *x, unsigned rows,
             unsigned k, unsigned j, uint32_t pending)
{
    uint32_t left = 0;

    s->lines = NULL;
    s->scale = NULL;
    for (unsigned i = 0; i < rows; i++) {
        if (!(pending >> i & 1))
            continue;
        s->a = &o->a[k][i];
        s->ea = &o->ea[k][i];
        const bool done = find_in_range(s, c, &x[i], j, from[i] + j, (float *)(r->d[i] + j));
        left |= (uint32_t)!done << i;
    }
    return left;
}

/* Computes a step of `size` lines from line k on. pending[j / 16] is a mask of the rows to compute
 * in the 16 columns from column j on. The arguments from `size` on are constants where this is
 * inlined. */
static inline __attribute__((always_inline)) void run_step(
    const struct operands *o, const struct rows *r, unsigned rows, unsigned columns, unsigned k,
    const uint32_t pending[static 2], unsigned size, bool two_stage, bool sparse, bool scaled)
{
    const uint32_t *const *from = k ? (const uint32_t *const *)r->d : r->c;
    _Alignas(64) float aside[LINE][COLS];
    struct exponents x[LINE];
    struct columns c;
    struct nans nans = {0};
    uint32_t not_done = 0;
    vec_b least = {0}, most = {0};
    struct step s = {
        .eb = o->eb[sparse ? 0 : k],
        .count = size,
        .two_stage = two_stage,
        .wide = o->wide,
    };

#define ROW_STEP(i, j)                                                                  \
    (s.a = &o->a[k][i], s.ea = &o->ea[k][i], s.lines = sparse ? r->lines[i] + k : NULL, \
     s.scale = scaled ? r->scale[i] + (j) : NULL, &s)
    for (unsigned i = 0; i < rows; i++)
        find_exponents(ROW_STEP(i, 0), &x[i], &least, &most);
    s.far = vec_any_b(most > E_NEAR);
    if (o->special)
        not_done = UINT32_MAX;
    else if (vec_any_b((least < E_MIN) | (most > E_MAX)))
        not_done = rows_out_of_range(x, rows, two_stage);
    /* Rows and columns of zeros, as of masked keys and padding, occur often. keep_c() computes them
     * faster than look_again(). */
    const bool may_keep = not_done && !o->special && !sparse && !scaled;
    const bool in_range = !not_done && !sparse && !scaled;
    vec_i zero[PARTS] = {{0}}, every[PARTS];
    memset(every, 0xff, sizeof(every));
    const bool no_infinity = !o->special || (!sparse && find_nan_rows(o, k, size, rows, &nans));
    for (unsigned j = 0; j < columns; j += COLS) {
        uint32_t again = 0, left = pending[j / COLS]; /* masks of rows */
        s.b = &o->b[sparse ? 0 : k][j];
        if (!sparse)
            load_columns(&c, s.b, size);
        if (in_range && !(left = run_in_range(o, r, from, &s, &c, x, rows, k, j, left)))
            continue;
        s.nans = no_infinity && (!o->special || find_nan_columns(s.b, size, &nans)) ? &nans : NULL;
        if (may_keep)
            find_zero_columns(&s, zero);
        for (unsigned i = 0; i < rows; i++) {
            const bool out = not_done >> i & 1, keep = may_keep && out;
            if (!(left >> i & 1))
                continue;
            const vec_i *none = keep ? is_zero_row(ROW_STEP(i, j)) ? every : zero : NULL;
            again |=
                (uint32_t)!find_result(ROW_STEP(i, j), sparse ? NULL : &c, &x[i], j, !out || keep,
                                       none, from[i] + j, (float *)(r->d[i] + j), aside[i])
                << i;
        }
        for (; again; again &= again - 1) {
            unsigned i = (unsigned)__builtin_ctz(again);
            look_again(ROW_STEP(i, j), &x[i], i, j, from[i] + j, aside[i]);
            memcpy(r->d[i] + j, aside[i], sizeof(aside[i]));
        }
    }
#undef ROW_STEP
}

/* Computes a block step by step. The arguments from `size` on are constants where this is
 * inlined. */
static inline __attribute__((always_inline)) void run_columns(const struct mfma_job *job,
                                                              const struct operands *o,
                                                              unsigned block, unsigned size,
                                                              bool two_stage, bool sparse,
                                                              bool scaled)
{
    const struct mfma_shape *s = &job->shape;
    const uint32_t every[LINE / COLS] = {UINT32_MAX, UINT32_MAX};
    unsigned count = sparse ? s->k / 2u : s->k;
    struct rows r;

    if (s->n == LINE)
        place_rows(job, block, LINE, &r);
    else
        place_rows(job, block, COLS, &r);
    for (unsigned i = 0; i < s->m && sparse; i++)
        mfma_select_lines(job, i, r.lines[i]);
    for (unsigned k = 0; k < count; k += size) {
        if (scaled && k % 32 == 0)
            for (unsigned i = 0; i < s->m; i++)
                add_scales(job, i, k / 32, r.scale[i]);
        run_step(o, &r, s->m, s->n, k, every, size, two_stage, sparse, scaled);
    }
}

/* Computes the 4x4 shapes, whose rows are shorter than the vectors. */
static void run_small(const struct mfma_job *job, const struct operands *o, unsigned block)
{
    const struct mfma_shape *s = &job->shape;
    unsigned reg, lane;

    for (unsigned i = 0; i < s->m; i++) {
        mfma_d_place(s, false, block, i, &reg, &lane);
        for (unsigned j = 0; j < s->n; j++) {
            double product[16];
            int exponent[16];
            for (unsigned k = 0; k < s->k; k++) {
                product[k] = (double)o->a[k][i] * o->b[k][j];
                exponent[k] = (int8_t)o->ea[k][i] + o->eb[k][j];
            }
            float c = float_from_bits(job->c[reg][lane + j]);
            job->d[reg][lane + j] =
                bits_from_float(mfma_fused_step(product, exponent, s->k, 0, c, false));
        }
    }
}

/* Computes the steps of a two-stage format: in fixed point where that is exact, otherwise by
 * run_step(). */
static __attribute__((noinline)) void run_two_stage(const struct mfma_job *job, unsigned block)
{
    const struct mfma_shape *s = &job->shape;
    const uint32_t rows = (uint32_t)((UINT64_C(1) << s->m) - 1);
    struct codes codes;
    struct operands o;
    struct rows r;
    bool decoded = false;

    const bool fixed = JOIN(mfma_codes, ISA)(&codes, job, block);
    place_rows(job, block, s->n, &r);
    for (unsigned k = 0; k < s->k; k += FIXED_STEP) {
        const uint32_t *const *from = k ? (const uint32_t *const *)r.d : r.c;
        uint32_t pending[LINE / COLS] = {rows, s->n > COLS ? rows : 0};
        if (fixed)
            JOIN(mfma_fixed_step, ISA)(&codes, from, r.d, s->m, s->n, k, pending);
        if (!(pending[0] | pending[1]))
            continue;
        if (!decoded)
            JOIN(mfma_decode, ISA)(&o, job, block);
        decoded = true;
        run_step(&o, &r, s->m, s->n, k, pending, FIXED_STEP, true, false, false);
    }
}

/* Computes float shapes other than FP32 and FP64, block by block. */
static void run_fused(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    unsigned size = mfma_step_size((enum mfma_format)job->a_format);
    struct operands o;

    for (unsigned block = 0; block < s->blocks; block++) {
        if (size == FIXED_STEP && s->n >= COLS && !s->sparse && !job->scale_a) {
            run_two_stage(job, block);
            continue;
        }
        JOIN(mfma_decode, ISA)(&o, job, block);
        if (s->n < COLS)
            run_small(job, &o, block);
        else if (size == 16 && s->sparse)
            run_columns(job, &o, block, 16, true, true, false);
        else if (size == 16 && job->scale_a)
            run_columns(job, &o, block, 16, true, false, true);
        else if (size == 8 && s->sparse)
            run_columns(job, &o, block, 8, false, true, false);
        else if (size == 8 && s->k >= 8)
            run_columns(job, &o, block, 8, false, false, false);
        else
            run_columns(job, &o, block, 4, false, false, false);
    }
}

/* Computes FP32 shapes: a chain of fused multiply-adds along k. */
static void run_f32(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    struct operands o;
    unsigned reg, lane;

    for (unsigned block = 0; block < s->blocks; block++) {
        JOIN(mfma_decode, ISA)(&o, job, block);
        for (unsigned i = 0; i < s->m; i++) {
            float acc[LINE];
            mfma_d_place(s, false, block, i, &reg, &lane);
            memcpy(acc, &job->c[reg][lane], s->n * sizeof(*acc));
            for (unsigned k = 0; k < s->k; k++)
                for (unsigned j = 0; j < s->n; j++)
                    acc[j] = fmaf(o.a[k][i], o.b[k][j], acc[j]);
            memcpy(&job->d[reg][lane], acc, s->n * sizeof(*acc));
        }
    }
}

/* Returns the f64 in `lane` from registers 2 * pair and 2 * pair + 1. */
static double pair_f64(const uint32_t (*rows)[MFMA_LANES], unsigned pair, unsigned lane)
{
    uint64_t bits = rows[2 * pair][lane] | (uint64_t)rows[2 * pair + 1][lane] << 32;
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* Computes FP64 shapes: a chain of fused multiply-adds along k. BLGP negates A, B, C. */
static void run_f64(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    unsigned group = (unsigned)s->m * s->blocks, reg, lane;

    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned i = 0; i < s->m; i++) {
            mfma_d_place(s, true, block, i, &reg, &lane);
            for (unsigned j = 0; j < s->n; j++) {
                double acc = pair_f64(job->c, reg, lane + j);
                acc = job->negate & 4 ? -acc : acc;
                for (unsigned k = 0; k < s->k; k++) {
                    double a = pair_f64(job->a, 0, k * group + block * s->m + i);
                    double b = pair_f64(job->b, 0, k * group + block * s->n + j);
                    acc = fma(job->negate & 1 ? -a : a, job->negate & 2 ? -b : b, acc);
                }
                uint64_t bits;
                memcpy(&bits, &acc, sizeof(bits));
                job->d[2 * reg][lane + j] = (uint32_t)bits;
                job->d[2 * reg + 1][lane + j] = (uint32_t)(bits >> 32);
            }
        }
    }
}

void JOIN(mfma_run, ISA)(const struct mfma_job *job)
{
    switch (job->a_format) {
    case FORMAT_F64: run_f64(job); return;
    case FORMAT_F32: run_f32(job); return;
    case FORMAT_I8: JOIN(mfma_run_i8, ISA)(job); return;
    default: run_fused(job); return;
    }
}
