/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests V_WMMA_SCALE_* and V_WMMA_SCALE16_* of gfx1250 (CDNA5 ISA, 7.12): each pair of formats of A
 * and B, with blocks of 32 and of 16, both shapes and two formats of scales. The expected sums are
 * of doubles.
 *
 * Lane 16 h + r holds row r of A or column r of B. Its elements form groups of g: 16 for 8 bits, 32
 * for fewer. Element e has k = e / g * 2 g + h * g + e % g.
 */
#include <math.h>
#include <stdio.h>

#include "tools/hipsim/tests/program.h"

/* A number format: name in assembly, bits of an element, of its exponent and of its mantissa. */
struct format {
    const char *name;
    unsigned bits, exponent, mantissa;
};

static const struct format formats[] = {
    {"FP8", 8, 4, 3}, {"BF8", 8, 5, 2}, {"FP6", 6, 2, 3}, {"BF6", 6, 3, 2}, {"FP4", 4, 2, 1},
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]), FP4 = FORMATS - 1, K = 128, MAX_ROWS = 32 };

/* Formats of scales: name in assembly, bits of exponent and mantissa. E8M0 has no mantissa. */
static const struct scale {
    const char *name;
    unsigned exponent, mantissa;
} scales[] = {{"E8", 8, 0}, {"E4M3", 4, 3}};

/* Returns the value of a code with `exponent` and `mantissa` bits below its sign. */
static double value_of(unsigned exponent, unsigned mantissa, unsigned code)
{
    const int bias = (1 << (exponent - 1)) - 1;
    const unsigned m = code & ((1u << mantissa) - 1);
    const unsigned e = code >> mantissa & ((1u << exponent) - 1);
    const double one = (double)(1u << mantissa);
    const double magnitude =
        e ? ldexp(one + m, (int)e - bias - (int)mantissa) : ldexp(m, 1 - bias - (int)mantissa);
    return code >> (exponent + mantissa) & 1 ? -magnitude : magnitude;
}

/* Returns the number that a code of scale format *s means. */
static double scale_of(const struct scale *s, unsigned code)
{
    return s->mantissa ? value_of(s->exponent, s->mantissa, code) : ldexp(1, (int)code - 127);
}

/* A matrix as rows of k: codes, and the codes of two kinds of scales. */
struct rows {
    const struct format *format;
    uint8_t code[MAX_ROWS][K];
    uint8_t scale32[MAX_ROWS][K / 32], scale16[MAX_ROWS][K / 16];
};

/* Writes `size` bits of `value` to element e of a lane's registers from v[first] on. */
static void put(struct program *p, unsigned first, unsigned lane, unsigned size, unsigned e,
                unsigned value)
{
    for (unsigned bit = 0; bit < size; bit++) {
        const unsigned at = size * e + bit;
        if (value >> bit & 1)
            p->v[first + at / 32][lane] |= 1u << at % 32;
    }
}

/* Fills a matrix of `rows` rows with random numbers, and writes it to registers from v[first] on.
 * The numbers have neither infinity nor NaN. */
static void fill(struct program *p, unsigned first, unsigned rows, const struct format *f,
                 uint32_t *seed, struct rows *to)
{
    const unsigned g = f->bits == 8 ? 16 : 32, registers = f->bits * K / 64;
    to->format = f;
    for (unsigned i = 0; i < rows * K; i++) {
        uint8_t *code = &to->code[i / K][i % K];
        *code = (uint8_t)(next_random(seed) & ((1u << f->bits) - 1));
        if (f->bits == 8 && (*code & 0x7f) > 0x77)
            *code &= 0xbf;
    }
    for (unsigned m0 = 0; m0 < rows; m0 += 16)
        for (unsigned l = 0; l < 32; l++)
            for (unsigned e = 0; e < K / 2; e++)
                put(p, first + m0 / 16 * registers, l, f->bits, e,
                    to->code[m0 + l % 16][e / g * 2 * g + l / 16 * g + e % g]);
}

/* Fills v[first] and the next register with random codes of scales. `row` selects the scales of
 * a matrix of 16 rows: lanes 0 to 15, or 16 to 31. The codes are numbers in both formats. */
static void fill_scales(struct program *p, unsigned first, unsigned rows, unsigned row,
                        uint32_t *seed, struct rows *to)
{
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned block = 0; block < K / 16; block++) {
            const uint8_t code = (uint8_t)(0x60 + next_random(seed) % 0x1f);
            put(p, first, l, 8, block, code);
            if (rows == 16 && l / 16 != row)
                continue;
            to->scale16[rows == 16 ? l % 16 : l][block] = code;
            if (block < K / 32)
                to->scale32[rows == 16 ? l % 16 : l][block] = code;
        }
    }
}

/* Returns element k of row m times its scale. `block`: elements per scale; 0: no scales. */
static double scaled(const struct rows *a, const struct scale *s, unsigned block, unsigned m,
                     unsigned k)
{
    const double value = value_of(a->format->exponent, a->format->mantissa, a->code[m][k]);
    const unsigned code = block == 16 ? a->scale16[m][k / 16] : a->scale32[m][k / 32];
    return block ? value * scale_of(s, code) : value;
}

/* Checks a product of `rows` rows in the registers from v[first] on. */
static void check_product(const struct program *p, unsigned first, unsigned rows, unsigned block,
                          const struct scale *sa, const struct scale *sb, const struct rows *a,
                          const struct rows *b)
{
    for (unsigned m = 0; m < rows; m++) {
        for (unsigned n = 0; n < 16; n++) {
            double want = 0.5;
            for (unsigned k = 0; k < K; k++)
                want += scaled(a, sa, block, m, k) * scaled(b, sb, block, n, k);
            const float got = float_of(p->v[first + m / 16 * 8 + m % 8][m / 8 % 2 * 16 + n]);
            if (got == (float)want)
                continue;
            print_error("%s x %s, block %u, scales %s %s, [%u][%u]: %a, not %a\n", a->format->name,
                        b->format->name, block, sa->name, sb->name, m, n, (double)got, want);
            fail();
        }
    }
}

/* v0 to v15 hold A, v16 to v31 hold B, v32 to v35 the scales. The last product replaces B. */
static void try_pair(const struct format *fa, const struct format *fb, unsigned row)
{
    static struct rows a, b;
    struct program p = program_new(GFX1250);
    uint32_t seed = (uint32_t)(fa - formats) * 16 + (uint32_t)(fb - formats) + 1;
    char text[1024], types[128];

    p.block = 32;
    fill(&p, 0, 16, fa, &seed, &a);
    fill(&p, 16, 16, fb, &seed, &b);
    fill_scales(&p, 32, 16, row, &seed, &a);
    fill_scales(&p, 34, 16, !row, &seed, &b);
    snprintf(types, sizeof(types), "matrix_a_fmt:MATRIX_FMT_%s matrix_b_fmt:MATRIX_FMT_%s %s",
             fa->name, fb->name,
             row ? "matrix_a_scale:MATRIX_SCALE_ROW1" : "matrix_b_scale:MATRIX_SCALE_ROW1");
    int used = 0;
    static const unsigned first[4] = {36, 44, 52, 16};
    for (unsigned i = 0; i < 4; i++) {
        const bool is_16 = i % 2;
        used +=
            snprintf(text + used, sizeof(text) - (size_t)used,
                     "v_wmma_scale%s_f32_16x16x128_f8f6f4 v[%u:%u], v[0:%u], v[16:%u], 0.5, %s %s "
                     "matrix_a_scale_fmt:MATRIX_SCALE_FMT_%s "
                     "matrix_b_scale_fmt:MATRIX_SCALE_FMT_%s\n",
                     is_16 ? "16" : "", first[i], first[i] + 7, fa->bits * 2 - 1, 15 + fb->bits * 2,
                     is_16 ? "v[32:33], v[34:35]" : "v32, v34", types, scales[i / 2].name,
                     scales[i / 2].name);
    }
    assert_true(used < (int)sizeof(text));
    program_run(&p, text);
    for (unsigned i = 0; i < 4; i++)
        check_product(&p, first[i], 16, i % 2 ? 16 : 32, &scales[i / 2], &scales[i / 2], &a, &b);
}

TEST(each_pair_of_formats_is_scaled)
{
    for (unsigned i = 0; i < FORMATS * FORMATS; i++)
        try_pair(&formats[i / FORMATS], &formats[i % FORMATS], i % 2);
}

/* A has 32 rows of fp4; lanes 16 to 31 have the scales of rows 16 to 31. */
TEST(thirty_two_rows_are_scaled)
{
    static struct rows a, b;
    for (unsigned i = 0; i < 8; i++) {
        struct program p = program_new(GFX1250);
        uint32_t seed = i + 100;
        char text[256];
        const struct scale *sa = &scales[i / 2 % 2], *sb = &scales[i / 4];

        p.block = 32;
        fill(&p, 0, 32, &formats[FP4], &seed, &a);
        fill(&p, 16, 16, &formats[FP4], &seed, &b);
        fill_scales(&p, 32, 32, 0, &seed, &a);
        fill_scales(&p, 34, 16, 1, &seed, &b);
        snprintf(text, sizeof(text),
                 "v_wmma_scale%s_f32_32x16x128_f4 v[36:51], v[0:15], v[16:23], 0.5, %s "
                 "matrix_b_scale:MATRIX_SCALE_ROW1 matrix_a_scale_fmt:MATRIX_SCALE_FMT_%s "
                 "matrix_b_scale_fmt:MATRIX_SCALE_FMT_%s\n",
                 i % 2 ? "16" : "", i % 2 ? "v[32:33], v[34:35]" : "v32, v34", sa->name, sb->name);
        program_run(&p, text);
        check_product(&p, 36, 32, i % 2 ? 16 : 32, sa, sb, &a, &b);
    }
}

/* The same instructions without scales. */
TEST(products_need_no_scales)
{
    static struct rows a, b;
    for (unsigned i = 0; i <= FORMATS; i++) {
        const bool is_32 = i == FORMATS;
        const struct format *fa = &formats[is_32 ? FP4 : i];
        const struct format *fb = &formats[is_32 ? FP4 : (2 * i + 1) % FORMATS];
        struct program p = program_new(GFX1250);
        uint32_t seed = i + 200;
        char text[256];

        p.block = 32;
        fill(&p, 0, is_32 ? 32 : 16, fa, &seed, &a);
        fill(&p, 16, 16, fb, &seed, &b);
        if (is_32)
            snprintf(text, sizeof(text),
                     "v_wmma_f32_32x16x128_f4 v[36:51], v[0:15], v[16:23], 0.5\n");
        else
            snprintf(text, sizeof(text),
                     "v_wmma_f32_16x16x128_f8f6f4 v[36:43], v[0:%u], v[16:%u], 0.5 "
                     "matrix_a_fmt:MATRIX_FMT_%s matrix_b_fmt:MATRIX_FMT_%s\n",
                     fa->bits * 2 - 1, 15 + fb->bits * 2, fa->name, fb->name);
        program_run(&p, text);
        check_product(&p, 36, is_32 ? 32 : 16, 0, &scales[0], &scales[0], &a, &b);
    }
}

/* Products are exact although an element times its scale exceeds the numbers of f32, or is less
 * than them. */
TEST(scales_may_exceed_f32)
{
    struct program p = program_new(GFX1250);
    p.block = 32;
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned i = 0; i < 16; i++) {
            p.v[i][l] = 0x7b7b7b7b;      /* 57344 in bf8 */
            p.v[16 + i][l] = 0x01010101; /* 2^-16 */
        }
        p.v[32][l] = 0xfefefefe; /* 2^127 */
        p.v[33][l] = 0;          /* 2^-127 */
    }
    program_run(&p, "v_wmma_scale_f32_16x16x128_f8f6f4 v[36:43], v[0:15], v[16:31], 0, v32, v33 "
                    "matrix_a_fmt:MATRIX_FMT_BF8 matrix_b_fmt:MATRIX_FMT_BF8\n");
    for (unsigned l = 0; l < 32; l++)
        for (unsigned i = 0; i < 8; i++)
            assert_true(float_of(p.v[36 + i][l]) == 57344.0f * 128 / 65536);
}

int main(void) { return run_unit_tests(); }
