/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix instructions, compiled once per instruction set (ISA is plain, avx2, avx512).
 *
 * A fused step adds to C the products of 4, 8 or 16 values of k (docs/hipsim-matrix.md): products
 * are aligned to their largest exponent e and truncated to 24 fractional bits, summed, aligned with
 * C, and rounded once. Per output element the order of k is the hardware's; the vectors run along
 * the columns.
 *
 * What makes it fast is that float instructions do the alignment. p * 2^(24 - e), converted with
 * truncation, is the aligned product as an integer; the sum of a step fits 31 bits. C joins by one
 * of two ways, d being the exponent of C minus e:
 *   d <= 5: floor(C * 2^(24 - e)) still fits, and the total is rounded by its conversion to float;
 *   d >= 6: the sum is shifted below C, whose low bits it then only influences as rounding to odd.
 * Steps with exponents beyond what single precision can scale, with infinities or NaN, go through
 * mfma_fused_step().
 */
#include <math.h>
#include <stddef.h>

#include "tools/hipsim/mfma.h"
#include "tools/hipsim/mfma_vec.h"
#include "tools/hipsim/smallfloat.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* Exponents of a step that the vector path handles. */
#define E_MIN (-100)
#define E_MAX 125

/* -- decoding of the operands ------------------------------------------------------------------ */

#define LINE 32    /* rows of A, columns of B in a line of operands */
#define MAX_K 128

/*
 * A and B of one block, decoded: line k has A[0 ..][k], or B[k][0 ..]. Exponents are floor(log2)
 * of normal numbers and the least normal exponent of subnormal ones. A has each exponent twice in
 * a dword, which broadcasts into a vector of 16-bit lanes.
 */
struct operands {
    _Alignas(64) float a[MAX_K][LINE];
    _Alignas(64) float b[MAX_K][LINE];
    _Alignas(64) uint32_t ea[MAX_K][LINE];
    _Alignas(64) int16_t eb[MAX_K][LINE];
};

/* A run of lanes in one register that belongs to one k. */
struct run {
    const uint32_t *from;      /* the words that hold the element, */
    const uint32_t *from_high; /* where it crosses a word also the next ones */
    unsigned shift;
    unsigned lanes;
    float *value;
    uint32_t *ea; /* one of these two */
    int16_t *eb;
};

/* Without branches, so that loops over it are vectorised. */
static inline float decode_f16(uint32_t h, int *exponent)
{
    uint32_t field = h >> 10 & 31, magnitude = h & 0x7fff;
    uint32_t bits = bits_from_float(float_from_bits(magnitude << 13) * 0x1p112f);
    int e = (int)field - 15 + (field == 0);

    e += -(magnitude == 0) & (EXPONENT_OF_ZERO + 14);
    *exponent = e + (-(field == 31) & EXPONENT_SPECIAL);
    bits |= -(uint32_t)(field == 31) & 0x7f800000;
    return float_from_bits(bits | (h & 0x8000) << 16);
}

static inline float decode_f32(uint32_t bits, int *exponent)
{
    uint32_t field = bits >> 23 & 255;

    *exponent = (int)field - 127 + (field == 0) + (-(field == 255) & EXPONENT_SPECIAL);
    return float_from_bits(bits);
}

/* xf32 reads the upper 19 bits of its inputs; a NaN must not turn into an infinity by that. */
static inline float decode_xf32(uint32_t bits, int *exponent)
{
    uint32_t cut = bits & 0xffffe000;

    cut |= (bits & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
    return decode_f32(cut, exponent);
}

static inline __attribute__((always_inline)) float decode_element(enum mfma_format format,
                                                                  uint32_t code, int *exponent)
{
    switch (format) {
    case FORMAT_BF16: return decode_f32(code << 16, exponent);
    case FORMAT_F16: return decode_f16(code & 0xffff, exponent);
    case FORMAT_XF32: return decode_xf32(code, exponent);
    default: return decode_f32(code, exponent);
    }
}

/* Whole lines are vectorised, the 4x4 shapes are not worth it. */
static inline __attribute__((always_inline)) void decode_lanes(const struct run *r,
                                                               enum mfma_format format,
                                                               unsigned lanes)
{
    const uint32_t *restrict from = r->from;
    float *restrict value = r->value;
    uint32_t *restrict ea = r->ea;
    int16_t *restrict eb = r->eb;
    unsigned shift = r->shift;
    int exponent;

    if (ea) {
        for (unsigned l = 0; l < lanes; l++) {
            value[l] = decode_element(format, from[l] >> shift, &exponent);
            ea[l] = (uint16_t)exponent | (uint32_t)exponent << 16;
        }
    } else {
        for (unsigned l = 0; l < lanes; l++) {
            value[l] = decode_element(format, from[l] >> shift, &exponent);
            eb[l] = (int16_t)exponent;
        }
    }
}

static inline __attribute__((always_inline)) void decode_wide(const struct run *r,
                                                              enum mfma_format format)
{
    if (r->lanes == 32)
        decode_lanes(r, format, 32);
    else if (r->lanes == 16)
        decode_lanes(r, format, 16);
    else
        decode_lanes(r, format, r->lanes);
}

static void decode_narrow(const struct run *r, enum mfma_format format)
{
    const struct mfma_table *t = mfma_table(format);
    unsigned bits = mfma_element_bits(format);

    for (unsigned l = 0; l < r->lanes; l++) {
        uint32_t code = r->from[l] >> r->shift;
        if (r->from_high)
            code |= r->from_high[l] << (32 - r->shift);
        code &= (1u << bits) - 1;
        r->value[l] = t->value[code];
        if (r->ea)
            r->ea[l] = (uint16_t)t->exponent[code] * UINT32_C(0x10001);
        else
            r->eb[l] = t->exponent[code];
    }
}

static void decode_run(const struct run *r, enum mfma_format format)
{
    switch (format) {
    case FORMAT_BF16:
        decode_wide(r, FORMAT_BF16);
        return;
    case FORMAT_F16:
        decode_wide(r, FORMAT_F16);
        return;
    case FORMAT_F32:
        decode_wide(r, FORMAT_F32);
        return;
    case FORMAT_XF32:
        decode_wide(r, FORMAT_XF32);
        return;
    default:
        decode_narrow(r, format);
        return;
    }
}

/* Decodes A or B of `block`. */
static void decode_operand(struct operands *o, const struct mfma_job *job, bool is_a,
                           unsigned block, const uint32_t (*rows)[MFMA_LANES])
{
    const struct mfma_shape *s = &job->shape;
    enum mfma_format format = is_a ? job->a_format : job->b_format;
    unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);
    unsigned bits = mfma_element_bits(format);

    for (unsigned e = 0; e < per_lane; e++) {
        unsigned word = e * bits / 32, shift = e * bits % 32;
        for (unsigned g = 0; g * lanes < MFMA_LANES; g++) {
            unsigned k = mfma_k(s, format, is_a, g, e), lane = g * lanes + block * width;
            struct run r = {
                .from = rows[word] + lane,
                .from_high = shift + bits > 32 ? rows[word + 1] + lane : NULL,
                .shift = shift, .lanes = width,
                .value = is_a ? o->a[k] : o->b[k],
                .ea = is_a ? o->ea[k] : NULL, .eb = is_a ? NULL : o->eb[k],
            };
            decode_run(&r, format);
        }
    }
}

/* B as BLGP rearranges its lanes. */
static void move_lanes(const struct mfma_job *job, uint32_t (*moved)[MFMA_LANES])
{
    unsigned bits = mfma_b_per_lane(&job->shape) * mfma_element_bits(job->b_format);

    for (unsigned r = 0; r < (bits + 31) / 32; r++)
        for (unsigned l = 0; l < MFMA_LANES; l++)
            moved[r][l] = job->b[r][mfma_blgp_lane(l, job->blgp)];
}

static void decode_block(struct operands *o, const struct mfma_job *job, unsigned block)
{
    uint32_t moved[8][MFMA_LANES];
    const uint32_t (*b)[MFMA_LANES] = job->b;

    if (job->blgp) {
        move_lanes(job, moved);
        b = (const uint32_t (*)[MFMA_LANES])moved;
    }
    decode_operand(o, job, true, mfma_block_of_a(job, block), job->a);
    decode_operand(o, job, false, block, b);
}

/* -- one row of the result --------------------------------------------------------------------- */

/* One fused step of a row: `count` lines of A, whose row is set in the pointers, and of B from its
 * column on. A sparse A takes the lines of B that `lines` names. */
struct step {
    const float *a;
    const uint32_t *ea;
    const float *b;
    const int16_t *eb;
    const uint8_t *lines;
    const int16_t *scale; /* exponents to add per column, or NULL */
    unsigned count;
    bool two_stage;
};

static inline __attribute__((always_inline)) unsigned line(const struct step *s, unsigned k)
{
    return (s->lines ? s->lines[k] : k) * LINE;
}

static inline __attribute__((always_inline)) void largest_exponent(const struct step *s,
                                                                   unsigned from, unsigned stride,
                                                                   vec_s *e)
{
    for (unsigned k = from; k < s->count; k += stride) {
        vec_s ea = vec_pair(s->ea[k * LINE]);
        const int16_t *eb = s->eb + line(s, k);
        for (unsigned i = 0; i < SHORTS; i++) {
            vec_s sum = load_s(eb + i * (COLS / SHORTS)) + ea;
            e[i] = k == from ? sum : vec_max_s(e[i], sum);
        }
    }
}

static inline __attribute__((always_inline)) void add_products(const struct step *s,
                                                               unsigned from, unsigned stride,
                                                               const vec_s *e, vec_i *sum)
{
    vec_f scale[PARTS];

    for (unsigned p = 0; p < PARTS; p++) {
        scale[p] = vec_power(151, -load_wide(e, p)); /* 2^(24 - e) */
        sum[p] = (vec_i){ 0 };
    }
    for (unsigned k = from; k < s->count; k += stride) {
        vec_f a = vec_f_from(s->a[k * LINE]);
        const float *b = s->b + line(s, k);
        for (unsigned p = 0; p < PARTS; p++)
            sum[p] = vec_add(sum[p], vec_to_i(load_f(b + p * PART_COLS) * a * scale[p]));
    }
}

/* C has a larger exponent by six or more: rounds c + sum, the sum's bits below 2^(ec - 31) lost. */
static inline vec_f add_below(vec_f c, vec_i sum, vec_i e)
{
    vec_i field = (vec_i)c & 0x7f800000, ec = (field >> 23) - 127, shift = ec - e - 6;
    vec_i many = shift > 31;

    shift = (shift & ~many) | (many & 31);
    shift &= ~(shift < 0);
    vec_i whole = vec_to_i(c * vec_power(151, -ec));          /* c in units of 2^(ec - 24) */
    vec_i q = vec_shl(sum, 1) >> shift;                            /* in units of 2^(ec - 31) */
    vec_i total = vec_add(vec_shl(whole, 4), (q | ((q & 7) + 7)) >> 3); /* 2^(ec - 28) */
    return vec_to_f(total) * vec_power(127 - 28, ec);
}

/* c + sum * 2^(e - 24), as the hardware aligns and rounds. Sets `large` where C has a larger
 * exponent by six or more, or is infinite or NaN: then the result is meaningless. */
static inline vec_f add_c(vec_f c, vec_i sum, vec_i e, bool two_stage, vec_i *large)
{
    vec_f up = vec_power(151, -e), down = vec_power(103, e);
    vec_f scaled = c * up, magnitude = (vec_f)((vec_i)scaled & 0x7fffffff);
    vec_i whole = vec_to_i(scaled);
    vec_i below = c < vec_to_f(whole) * down; /* truncation went up: make it a floor */

    if (two_stage) /* what lies wholly below the last bit is dropped instead */
        below &= magnitude >= vec_f_from(0.5f);
    *large = ~(magnitude < vec_f_from(0x1p30f));
    return vec_to_f(vec_add(vec_add(sum, whole), below)) * down;
}

/* The 16 columns one by one, exactly. */
static __attribute__((noinline)) void step_exactly(const struct step *s, float *c)
{
    for (unsigned j = 0; j < COLS; j++) {
        double product[16];
        int exponent[16], scale = s->scale ? s->scale[j] : 0;
        for (unsigned k = 0; k < s->count; k++) {
            unsigned b = line(s, k) + j;
            product[k] = (double)s->a[k * LINE] * s->b[b];
            exponent[k] = (int16_t)s->ea[k * LINE] + s->eb[b];
        }
        if (scale >= EXPONENT_SPECIAL - 127) /* a scale is NaN */
            product[0] = NAN;
        c[j] = mfma_fused_step(product, exponent, s->count, scale, c[j], s->two_stage);
    }
}

static inline vec_i at_most_31(vec_i v)
{
    vec_i large = v > 31;

    return (v & ~large) | (large & 31);
}


/*
 * What a step has of one row between its three passes. Each pass runs over all rows before the next
 * one starts: within a row every operation waits for the one before, between rows none does.
 */
struct work {
    vec_s e[SHORTS], odd[SHORTS];
    vec_i sum[PARTS], top[PARTS];
    bool low, high; /* some column's exponent is below E_MIN, above E_MAX */
};

/* First pass: the exponents to align to. */
static inline __attribute__((always_inline)) void find_exponents(const struct step *s,
                                                                 struct work *w)
{
    const vec_s least = (vec_s){ 0 } + E_MIN;
    vec_s e[SHORTS], odd[SHORTS], low = { 0 }, high = { 0 };

    largest_exponent(s, 0, s->two_stage ? 2 : 1, e);
    if (s->two_stage)
        largest_exponent(s, 1, 2, odd);
    for (unsigned i = 0; i < SHORTS; i++) {
        vec_s top = s->two_stage ? vec_max_s(e[i], odd[i]) : e[i];
        low |= top < least;
        high |= top > E_MAX;
        if (s->scale) {
            top += load_s(s->scale + i * (COLS / SHORTS));
            low |= top < least;
            high |= top > E_MAX;
        }
        /* Products that are all zero have a sum of zero with any exponent. */
        w->e[i] = vec_max_s(e[i], least);
        if (s->two_stage)
            w->odd[i] = vec_max_s(odd[i], least);
    }
    w->low = vec_any_s(low);
    w->high = vec_any_s(high);
}

/* Second pass: aligned products; even and odd k apart in the two-stage formats. */
static inline __attribute__((always_inline)) void find_sums(const struct step *s, struct work *w)
{
    vec_i even[PARTS], odd[PARTS];

    add_products(s, 0, s->two_stage ? 2 : 1, w->e, even);
    if (s->two_stage)
        add_products(s, 1, 2, w->odd, odd);
    for (unsigned p = 0; p < PARTS; p++) {
        w->sum[p] = even[p];
        if (!s->two_stage)
            continue;
        vec_i a = load_wide(w->e, p), b = load_wide(w->odd, p), more = b > a;
        w->top[p] = (b & more) | (a & ~more);
        w->sum[p] = vec_add(even[p] >> at_most_31(w->top[p] - a),
                            odd[p] >> at_most_31(w->top[p] - b));
    }
}

static inline __attribute__((always_inline)) vec_i exponents_of(const struct step *s,
                                                                const struct work *w, unsigned p)
{
    vec_i e = s->two_stage ? w->top[p] : load_wide(w->e, p);

    if (s->scale)
        e += load_wide(s->scale, p);
    return e;
}

/* Third pass: C joins. False if the row needs another look; then the result goes to `aside`,
 * because d may be where c is. */
static inline __attribute__((always_inline)) bool find_result(const struct step *s,
                                                              const struct work *w,
                                                              const uint32_t *c, float *d,
                                                              float *aside)
{
    vec_i any = { 0 }, large;
    vec_f out[PARTS];

    for (unsigned p = 0; p < PARTS; p++) {
        vec_f from = load_f((const float *)c + p * PART_COLS);
        out[p] = add_c(from, w->sum[p], exponents_of(s, w, p), s->two_stage, &large);
        any |= large;
    }
    bool done = !(w->low | w->high | vec_any_i(any));
    float *to = done ? d : aside;
    for (unsigned p = 0; p < PARTS; p++)
        store_f(to + p * PART_COLS, out[p]);
    return done;
}

/* Columns all of whose products are zero. */
static inline __attribute__((always_inline)) vec_i without_products(const struct step *s,
                                                                    unsigned p)
{
    vec_i some = { 0 };

    for (unsigned k = 0; k < s->count; k++)
        if (s->a[k * LINE] != 0)
            some |= load_f(s->b + line(s, k) + p * PART_COLS) != 0;
    return ~some;
}

/*
 * Products below E_MIN: masked keys, padding. The result is C where that is larger by so much that
 * the sum is less than half of its last bit, or where all products are zero and C is not cut. Sets
 * `lost` where neither holds.
 */
static inline __attribute__((always_inline)) vec_f add_low(const struct step *s,
                                                           const struct work *w, unsigned p,
                                                           vec_f c, vec_f result, vec_i *lost)
{
    vec_i sum_e = s->two_stage ? w->top[p] : load_wide(w->e, p), e = exponents_of(s, w, p);
    vec_i low = (sum_e <= E_MIN) | (e <= E_MIN), above = e > E_MIN;
    vec_i ec = (((vec_i)c >> 23) & 255) - 127;

    e = (e & above) | (E_MIN & ~above);
    vec_i none = without_products(s, p);
    *lost |= low & ~((ec >= e + 32) | (none & ((ec >= e) | (c == vec_f_from(0)))));
    return vec_pick(low, c + vec_f_from(0), result); /* -0 becomes +0 */
}

/* The other look: a large C, products below E_MIN, or what only step_exactly() can do. */
static inline __attribute__((always_inline)) void look_again(const struct step *s,
                                                             const struct work *w,
                                                             const uint32_t *c, float *result)
{
    vec_i lost = { 0 }, large;

    for (unsigned p = 0; p < PARTS && !w->high; p++) {
        vec_f from = load_f((const float *)c + p * PART_COLS);
        vec_i e = exponents_of(s, w, p);
        vec_f out = add_c(from, w->sum[p], e, s->two_stage, &large);
        if (vec_any_i(large)) {
            lost |= ((vec_i)from & 0x7f800000) == 0x7f800000;
            out = vec_pick(large, add_below(from, w->sum[p], e), out);
        }
        if (w->low)
            out = add_low(s, w, p, from, out, &lost);
        store_f(result + p * PART_COLS, out);
    }
    if (w->high || vec_any_i(lost)) {
        memcpy(result, c, COLS * sizeof *result);
        step_exactly(s, result);
    }
}

/* -- whole matrices ---------------------------------------------------------------------------- */

static unsigned step_size(enum mfma_format format)
{
    switch (format) {
    case FORMAT_XF32: return 4;
    case FORMAT_F16: case FORMAT_BF16: return 8;
    default: return 16;
    }
}

/* The line of B for each stored element of row i of a sparse A. */
static void select_lines(const struct mfma_job *job, unsigned i, uint8_t *lines)
{
    const struct mfma_shape *s = &job->shape;
    unsigned per_lane = mfma_a_per_lane(s);

    for (unsigned k = 0; k < s->k / 2u; k++) {
        uint32_t bits = job->index[k / per_lane * s->m + i] >> job->index_shift;
        lines[k] = (uint8_t)(k / 2 * 4 + (bits >> (2 * (k % per_lane)) & 3));
    }
}

static int scale_exponent(const uint32_t *row, unsigned shift, unsigned lane)
{
    unsigned code = row[lane] >> shift & 255;

    return code == 255 ? EXPONENT_SPECIAL : (int)code - 127;
}

/* Sums of the scale exponents of row i and the columns from j, for block `kb` of 32 k. */
static void add_scales(const struct mfma_job *job, unsigned i, unsigned j, unsigned kb,
                       int16_t *scale)
{
    const struct mfma_shape *s = &job->shape;
    int a = scale_exponent(job->scale_a, job->scale_a_shift, kb * s->m + i);

    for (unsigned c = 0; c < COLS; c++)
        scale[c] = (int16_t)(a + scale_exponent(job->scale_b, job->scale_b_shift,
                                                kb * s->n + j + c));
}

/* What the rows of a block share besides A and B. */
struct rows {
    const uint32_t *c[LINE];        /* from column 0 */
    uint32_t *d[LINE];
    uint8_t lines[LINE][MAX_K / 2]; /* sparse */
    int16_t scale[LINE][COLS];      /* scaled: of the current 32 k and 16 columns */
};

static void place_rows(const struct mfma_job *job, unsigned block, struct rows *r)
{
    unsigned reg, lane;

    for (unsigned i = 0; i < job->shape.m; i++) {
        mfma_d_place(&job->shape, false, block, i, &reg, &lane);
        r->c[i] = &job->c[reg][lane];
        r->d[i] = &job->d[reg][lane];
        if (job->shape.sparse)
            select_lines(job, i, r->lines[i]);
    }
}

/* A step of all rows for the columns from j. All arguments from `size` on are constants where this
 * is inlined. */
static inline __attribute__((always_inline)) void run_step(const struct operands *o,
                                                           const struct rows *r, unsigned rows,
                                                           unsigned k, unsigned j, unsigned size,
                                                           bool two_stage, bool sparse,
                                                           bool scaled)
{
    const uint32_t *const *from = k ? (const uint32_t *const *)r->d : r->c;
    _Alignas(64) float aside[LINE][COLS];
    struct work work[LINE];
    uint32_t again = 0;
    struct step s = {
        .b = &o->b[sparse ? 0 : k][j], .eb = &o->eb[sparse ? 0 : k][j],
        .count = size, .two_stage = two_stage,
    };

#define ROW_STEP(i) \
    (s.a = &o->a[k][i], s.ea = &o->ea[k][i], s.lines = sparse ? r->lines[i] + k : NULL, \
     s.scale = scaled ? r->scale[i] : NULL, &s)
    for (unsigned i = 0; i < rows; i++)
        find_exponents(ROW_STEP(i), &work[i]);
    for (unsigned i = 0; i < rows; i++)
        find_sums(ROW_STEP(i), &work[i]);
    for (unsigned i = 0; i < rows; i++)
        again |= (uint32_t)!find_result(ROW_STEP(i), &work[i], from[i] + j,
                                        (float *)(r->d[i] + j), aside[i]) << i;
    for (; again; again &= again - 1) {
        unsigned i = (unsigned)__builtin_ctz(again);
        look_again(ROW_STEP(i), &work[i], from[i] + j, aside[i]);
        memcpy(r->d[i] + j, aside[i], sizeof aside[i]);
    }
#undef ROW_STEP
}

static inline __attribute__((always_inline)) void run_columns(
    const struct mfma_job *job, const struct operands *o, unsigned block, unsigned size,
    bool two_stage, bool sparse, bool scaled)
{
    const struct mfma_shape *s = &job->shape;
    unsigned count = sparse ? s->k / 2u : s->k;
    struct rows r;

    place_rows(job, block, &r);
    for (unsigned j = 0; j < s->n; j += COLS) {
        for (unsigned k = 0; k < count; k += size) {
            if (scaled && k % 32 == 0)
                for (unsigned i = 0; i < s->m; i++)
                    add_scales(job, i, j, k / 32, r.scale[i]);
            run_step(o, &r, s->m, k, j, size, two_stage, sparse, scaled);
        }
    }
}

/* The 4x4 shapes: too narrow for the vectors. */
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
                exponent[k] = (int16_t)o->ea[k][i] + o->eb[k][j];
            }
            float c = float_from_bits(job->c[reg][lane + j]);
            job->d[reg][lane + j] =
                bits_from_float(mfma_fused_step(product, exponent, s->k, 0, c, false));
        }
    }
}

static void run_fused(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    unsigned size = step_size(job->a_format);
    struct operands o;

    for (unsigned block = 0; block < s->blocks; block++) {
        decode_block(&o, job, block);
        if (s->n < COLS)
            run_small(job, &o, block);
        else if (size == 16 && s->sparse)
            run_columns(job, &o, block, 16, true, true, false);
        else if (size == 16 && job->scale_a)
            run_columns(job, &o, block, 16, true, false, true);
        else if (size == 16)
            run_columns(job, &o, block, 16, true, false, false);
        else if (size == 8 && s->sparse)
            run_columns(job, &o, block, 8, false, true, false);
        else if (size == 8 && s->k >= 8)
            run_columns(job, &o, block, 8, false, false, false);
        else
            run_columns(job, &o, block, 4, false, false, false);
    }
}

/* FP32: a chain of fused multiply-adds along k. */
static void run_f32(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    struct operands o;
    unsigned reg, lane;

    for (unsigned block = 0; block < s->blocks; block++) {
        decode_block(&o, job, block);
        for (unsigned i = 0; i < s->m; i++) {
            float acc[LINE];
            mfma_d_place(s, false, block, i, &reg, &lane);
            memcpy(acc, &job->c[reg][lane], s->n * sizeof *acc);
            for (unsigned k = 0; k < s->k; k++)
                for (unsigned j = 0; j < s->n; j++)
                    acc[j] = fmaf(o.a[k][i], o.b[k][j], acc[j]);
            memcpy(&job->d[reg][lane], acc, s->n * sizeof *acc);
        }
    }
}

static double pair_f64(const uint32_t (*rows)[MFMA_LANES], unsigned pair, unsigned lane)
{
    uint64_t bits = rows[2 * pair][lane] | (uint64_t)rows[2 * pair + 1][lane] << 32;
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}

/* FP64: the same; BLGP negates A, B, C. */
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
                memcpy(&bits, &acc, sizeof bits);
                job->d[2 * reg][lane + j] = (uint32_t)bits;
                job->d[2 * reg + 1][lane + j] = (uint32_t)(bits >> 32);
            }
        }
    }
}

struct int_operands {
    int16_t a[MAX_K][LINE], b[MAX_K][LINE];
};

static void decode_bytes(int16_t (*out)[LINE], const struct mfma_job *job, bool is_a,
                         unsigned block)
{
    const struct mfma_shape *s = &job->shape;
    const uint32_t (*rows)[MFMA_LANES] = is_a ? job->a : job->b;
    unsigned width = is_a ? s->m : s->n, lanes = width * s->blocks;
    unsigned per_lane = is_a ? mfma_a_per_lane(s) : mfma_b_per_lane(s);

    for (unsigned e = 0; e < per_lane; e++) {
        for (unsigned g = 0; g * lanes < MFMA_LANES; g++) {
            int16_t *line = out[mfma_k(s, FORMAT_I8, is_a, g, e)];
            for (unsigned i = 0; i < width; i++) {
                unsigned lane = g * lanes + block * width + i;
                lane = is_a ? lane : mfma_blgp_lane(lane, job->blgp);
                line[i] = (int8_t)(rows[e / 4][lane] >> (8 * (e % 4)));
            }
        }
    }
}

/* acc += a * b along a row; the widths that occur are constants to the compiler. */
static inline void add_row_i8(uint32_t *restrict acc, int a, const int16_t *restrict b, unsigned n)
{
    if (n == 32)
        for (unsigned j = 0; j < 32; j++)
            acc[j] += (uint32_t)(a * b[j]);
    else if (n == 16)
        for (unsigned j = 0; j < 16; j++)
            acc[j] += (uint32_t)(a * b[j]);
    else
        for (unsigned j = 0; j < n; j++)
            acc[j] += (uint32_t)(a * b[j]);
}

/* INT8: exact, wraps. */
static void run_i8(const struct mfma_job *job)
{
    const struct mfma_shape *s = &job->shape;
    unsigned count = s->sparse ? s->k / 2u : s->k, reg, lane;
    uint8_t lines[MAX_K];
    struct int_operands o;

    for (unsigned k = 0; k < MAX_K; k++)
        lines[k] = (uint8_t)k;
    for (unsigned block = 0; block < s->blocks; block++) {
        decode_bytes(o.a, job, true, mfma_block_of_a(job, block));
        decode_bytes(o.b, job, false, block);
        for (unsigned i = 0; i < s->m; i++) {
            uint32_t acc[LINE];
            if (s->sparse)
                select_lines(job, i, lines);
            mfma_d_place(s, false, block, i, &reg, &lane);
            memcpy(acc, &job->c[reg][lane], s->n * sizeof *acc);
            for (unsigned k = 0; k < count; k++)
                add_row_i8(acc, o.a[k][i], o.b[lines[k]], s->n);
            memcpy(&job->d[reg][lane], acc, s->n * sizeof *acc);
        }
    }
}

void JOIN(mfma_run, ISA)(const struct mfma_job *job)
{
    switch (job->a_format) {
    case FORMAT_F64:
        run_f64(job);
        return;
    case FORMAT_F32:
        run_f32(job);
        return;
    case FORMAT_I8:
        run_i8(job);
        return;
    default:
        run_fused(job);
        return;
    }
}
