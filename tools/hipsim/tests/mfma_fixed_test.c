/* SPDX-License-Identifier: Apache-2.0 */
/* Compares matrix products of 8-bit formats with exact steps, on operands that are computed in
 * fixed point and on operands just beyond its limits. The steps are in
 * tools/hipsim/docs/hipsim-matrix.md. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tools/hipsim/exec/mfma.h"
#include "tools/hipsim/exec/smallfloat.h"
#include "tools/hipsim/exec/tables.h"

enum { SIZE = 32, K = 16 };

struct registers {
    uint32_t a[2][64], b[2][64], c[16][64], d[16][64];
};

static uint32_t random32(void)
{
    static uint64_t state = 1;

    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(state >> 32);
}

/* Returns the exponent field that only infinities or NaNs exceed. */
static unsigned last_field(enum mfma_format format)
{
    return format == FORMAT_FP8        ? 14
           : format == FORMAT_BF8      ? 30
           : format == FORMAT_BF8_FNUZ ? 31
                                       : 15;
}

/* Returns four codes whose exponent fields are `field` to field + span, or the format's last. One
 * code in eight is zero. */
static uint32_t codes_near(enum mfma_format format, unsigned field, unsigned span)
{
    const unsigned mantissa_bits = mfma_small_format(format).mantissa_bits,
                   last = last_field(format);
    uint32_t four = 0;

    for (unsigned byte = 0; byte < 4; byte++) {
        const uint32_t r = random32();
        const unsigned f = field + (r >> 8) % (span + 1);
        const unsigned magnitude =
            (f < last ? f : last) << mantissa_bits | (r & ((1u << mantissa_bits) - 1));
        four |= (magnitude && r >> 29 ? magnitude | (r & 0x80) : 0) << 8 * byte;
    }
    return four;
}

/* Returns a C for products of exponent `e` or less: zero, a number of few bits, one with bits that
 * the alignment cuts, a much larger one, or rarely an infinity. */
static float c_near(int e, unsigned kind)
{
    const uint32_t r = random32();
    const int n = (int32_t)random32() >> 7, few = (int)(r % 12);

    switch (kind % 4) {
    case 0: return r & 1 ? -0.0f : 0.0f;
    case 1: return (float)ldexp(n >> few, e - 24 + (int)(r >> 8) % 8);
    case 2: return (float)ldexp(n, e - 40 + (int)(r >> 8) % 24);
    default: return r >> 22 == 0 ? INFINITY : (float)ldexp(n, e - 30 + 4 * few);
    }
}

/* Fills the operands: a row of A, and all columns of B, have few neighbouring exponents. */
static void fill(struct registers *r, enum mfma_format format, unsigned round)
{
    const unsigned fields = last_field(format) + 1, room = fields < 20 ? 14 : 18;
    const unsigned field_b = random32() % fields, span_b = random32() % room;

    for (unsigned i = 0; i < SIZE; i++) {
        const unsigned field_a = random32() % fields, span_a = random32() % room;
        const int e = (int)(field_a + field_b) - 2 * mfma_small_format(format).bias;
        for (unsigned n = 0; n < 4; n++) {
            const unsigned lane = i + SIZE * (n / 2);
            r->a[n % 2][lane] = codes_near(format, field_a, span_a);
            r->b[n % 2][lane] = codes_near(format, field_b, span_b);
        }
        for (unsigned j = 0; j < SIZE; j++)
            r->c[i / 2][i % 2 * SIZE + j] = bits_from_float(c_near(e, round + (j & 1)));
    }
    if (round % 8 == 7) /* infinities and NaNs */
        r->b[0][random32() % 64] = 0x80ff7e7f;
}

/* Returns the value of element `k` in row or column `line`, and sets *exponent to its exponent. */
static double element(enum mfma_format format, const uint32_t (*rows)[64], unsigned line,
                      unsigned k, int *exponent)
{
    const struct mfma_small f = mfma_small_format(format);
    const unsigned code = rows[k % 8 / 4][line + SIZE * (k / 8)] >> 8 * (k % 4) & 255;
    const unsigned magnitude = code & 127, field = magnitude >> f.mantissa_bits;
    const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const int e = (int)(field ? field : 1) - f.bias;

    *exponent = magnitude ? e : EXPONENT_OF_ZERO;
    if (f.special == SPECIAL_MINUS_ZERO ? code == 128 : magnitude == 127)
        return NAN;
    if (f.special == SPECIAL_TOP_FIELD && field == 31)
        return mantissa ? NAN : code & 128 ? -INFINITY : INFINITY;
    const double v = ldexp(mantissa + (field ? 1u << f.mantissa_bits : 0), e - f.mantissa_bits);
    return code & 128 ? -v : v;
}

/* Compares all elements of the result with exact steps. */
static void compare(const struct registers *r, const struct mfma_job *job, unsigned round)
{
    for (unsigned i = 0; i < SIZE; i++) {
        for (unsigned j = 0; j < SIZE; j++) {
            double product[K];
            int exponent[K];
            unsigned reg, lane;
            for (unsigned k = 0; k < K; k++) {
                int ea, eb;
                product[k] = element(job->a_format, job->a, i, k, &ea);
                product[k] *= element(job->b_format, job->b, j, k, &eb);
                exponent[k] = ea + eb;
            }
            mfma_d_place(&job->shape, false, 0, i, &reg, &lane);
            const uint32_t c = r->c[reg][lane + j], have = r->d[reg][lane + j];
            const uint32_t want =
                bits_from_float(mfma_fused_step(product, exponent, K, 0, float_from_bits(c), true));
            if (have != want)
                fail_msg("formats %u, %u, round %u, [%u][%u]: %08x, not %08x (c %08x)",
                         job->a_format, job->b_format, round, i, j, have, want, c);
        }
    }
}

static void products_agree_with_exact_steps(void **state)
{
    static const enum mfma_format formats[] = {FORMAT_FP8, FORMAT_BF8, FORMAT_FP8_FNUZ,
                                               FORMAT_BF8_FNUZ};
    static const enum host_isa isas[] = {HOST_PLAIN, HOST_AVX2, HOST_BEST};
    static struct registers r;

    (void)state;
    for (unsigned round = 0; round < 240; round++) {
        const enum host_isa isa = isas[round % 3];
        const enum mfma_format format = formats[round / 3 % 4];
        struct mfma_job job = {
            .shape = {SIZE, SIZE, K, 1, false},
            .a_format = (uint8_t)format,
            .b_format = (uint8_t)format,
            .a = (const uint32_t (*)[64])r.a,
            .b = (const uint32_t (*)[64])r.b,
            .c = (const uint32_t (*)[64])r.c,
            .d = r.d,
        };
        fill(&r, format, round);
        if (isa != HOST_BEST && !host_isa_supported(isa))
            continue;
        host_isa_force(isa);
        mfma_run(&job);
        host_isa_force(HOST_BEST);
        compare(&r, &job, round);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_exact_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
