/* SPDX-License-Identifier: Apache-2.0 */
/* Compares matrix products of 8-bit and narrower formats with exact steps. The operands are
 * computed in fixed point, or are just beyond its limits. tools/hipsim/docs/hipsim-matrix.md
 * describes the steps. */
#include <math.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tools/hipsim/exec/mfma.h"
#include "tools/hipsim/exec/smallfloat.h"
#include "tools/hipsim/exec/tables.h"

enum { STEP = 16, LANES = 64 };

/* Registers of the operands and of the result. `start` is C as it is before the instruction. */
struct registers {
    uint32_t a[8][LANES], b[8][LANES], start[16][LANES], c[16][LANES], d[16][LANES];
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
    const struct mfma_small f = mfma_small_format(format);

    return (1u << f.exponent_bits) - 1 - (f.special == SPECIAL_TOP_FIELD);
}

/* Returns a code whose exponent field is `field` to field + span, or the format's last. One code in
 * eight is zero. */
static uint32_t code_near(enum mfma_format format, unsigned field, unsigned span)
{
    const struct mfma_small small = mfma_small_format(format);
    const unsigned sign = 1u << (small.exponent_bits + small.mantissa_bits);
    const unsigned last = last_field(format);
    const uint32_t r = random32();
    const unsigned f = field + (r >> 8) % (span + 1);
    unsigned magnitude = (f < last ? f : last) << small.mantissa_bits;

    magnitude |= r & ((1u << small.mantissa_bits) - 1);
    if (small.special == SPECIAL_ALL_ONES && magnitude == sign - 1)
        magnitude--;
    return magnitude && r >> 29 ? magnitude | (r >> 5 & 1 ? sign : 0) : 0;
}

/* An operand: `width` rows of A, or columns of B, with `k` elements each. */
struct operand {
    uint32_t (*rows)[LANES];
    enum mfma_format format;
    unsigned width, k;
};

/* Returns the bit of the operand's registers at which element `k` of a lane begins, and sets *lane
 * to the lane. 32 elements of 8 bits are in two halves, 16 k of each lane in each half of all k. */
static unsigned element_bit(const struct operand *o, unsigned line, unsigned k, unsigned *lane)
{
    const unsigned per_lane = o->k * o->width / LANES, bits = mfma_element_bits(o->format);
    const bool halves = bits == 8 && per_lane == 32;
    const unsigned within = halves ? k % (o->k / 2) : k, run = halves ? 16 : per_lane;

    *lane = line + o->width * (within / run);
    return bits * (within % run + (halves ? k / (o->k / 2) * 16 : 0));
}

/* Returns the code of element `k` in row or column `line`. */
static unsigned code_of(const struct operand *o, unsigned line, unsigned k)
{
    const unsigned bits = mfma_element_bits(o->format);
    unsigned lane, code = 0;
    const unsigned at = element_bit(o, line, k, &lane);

    for (unsigned i = 0; i < bits; i++)
        code |= (o->rows[(at + i) / 32][lane] >> (at + i) % 32 & 1) << i;
    return code;
}

/* Sets the code of element `k` in row or column `line`, whose bits are 0. */
static void set_code(const struct operand *o, unsigned line, unsigned k, uint32_t code)
{
    const unsigned bits = mfma_element_bits(o->format);
    unsigned lane;
    const unsigned at = element_bit(o, line, k, &lane);

    for (unsigned i = 0; i < bits; i++)
        o->rows[(at + i) / 32][lane] |= (code >> i & 1) << (at + i) % 32;
}

/* Returns a C for products of exponent `e` or less: zero, a number of few bits, one with bits that
 * the alignment cuts, a much larger one, any number, or rarely an infinity. */
static float c_near(int e, unsigned kind)
{
    const uint32_t r = random32();
    const int n = (int32_t)random32() >> 7, few = (int)(r % 12);

    switch (kind % 5) {
    case 0: return r & 1 ? -0.0f : 0.0f;
    case 1: return (float)ldexp(n >> few, e - 24 + (int)(r >> 8) % 8);
    case 2: return (float)ldexp(n, e - 40 + (int)(r >> 8) % 24);
    case 3: return float_from_bits(random32());
    default: return r >> 22 == 0 ? INFINITY : (float)ldexp(n, e - 30 + 4 * few);
    }
}

/* Sets an operand's codes. Lines have few neighbouring exponents, which are the same in all lines
 * of B (`same`). One line in `zeros` is zero; 0: none. Returns the least exponent field. */
static unsigned fill_operand(const struct operand *o, bool same, unsigned zeros)
{
    const unsigned fields = last_field(o->format) + 1, room = fields < 20 ? 14 : 18;
    unsigned field = random32() % fields, span = random32() % room, least = field;

    memset(o->rows, 0, 8 * sizeof(*o->rows));
    for (unsigned i = 0; i < o->width; i++) {
        if (!same) {
            field = random32() % fields;
            span = random32() % room;
            least = field < least ? field : least;
        }
        if (zeros && random32() % zeros == 0)
            continue;
        for (unsigned k = 0; k < o->k; k++)
            set_code(o, i, k, code_near(o->format, field, span));
    }
    return least;
}

/* Sets all registers. */
static void fill(struct registers *r, const struct operand *a, const struct operand *b,
                 unsigned round)
{
    const unsigned zeros = round % 7 == 3 ? 4 : 0;
    const unsigned field_a = fill_operand(a, false, zeros);
    const unsigned field_b = fill_operand(b, true, zeros);
    const int least = (int)(field_a + field_b) - mfma_small_format(a->format).bias -
                      mfma_small_format(b->format).bias;

    for (unsigned i = 0; i < 16; i++)
        for (unsigned l = 0; l < LANES; l++) {
            const int e = least + (int)(random32() % 16);
            r->start[i][l] = bits_from_float(c_near(e, round + (l & 1)));
        }
    if (round % 8 == 7) /* infinities and NaNs of formats of 8 bits */
        r->b[0][random32() % LANES] = 0x80ff7e7f;
    memcpy(r->c, r->start, sizeof(r->c));
    memcpy(r->d, r->start, sizeof(r->d));
}

/* Returns the value of element `k` in row or column `line`, and sets *exponent to its exponent. */
static double element(const struct operand *o, unsigned line, unsigned k, int *exponent)
{
    const struct mfma_small f = mfma_small_format(o->format);
    const unsigned code = code_of(o, line, k), sign = 1u << (f.exponent_bits + f.mantissa_bits);
    const unsigned magnitude = code & (sign - 1), field = magnitude >> f.mantissa_bits;
    const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const int e = (int)(field ? field : 1) - f.bias;

    *exponent = magnitude ? e : EXPONENT_OF_ZERO;
    if (f.special == SPECIAL_MINUS_ZERO && code == sign)
        return NAN;
    if (f.special == SPECIAL_ALL_ONES && magnitude == sign - 1)
        return NAN;
    if (f.special == SPECIAL_TOP_FIELD && field == 31)
        return mantissa ? NAN : code & sign ? -INFINITY : INFINITY;
    const double v = ldexp(mantissa + (field ? 1u << f.mantissa_bits : 0), e - f.mantissa_bits);
    return code & sign ? -v : v;
}

/* Returns c plus the products of row `i` of `a` and column `j` of `b`, by exact steps. */
static float by_exact_steps(const struct operand *a, const struct operand *b, unsigned i,
                            unsigned j, float c)
{
    double product[STEP];
    int exponent[STEP];

    for (unsigned k = 0; k < a->k; k++) {
        int ea, eb;
        product[k % STEP] = element(a, i, k, &ea);
        product[k % STEP] *= element(b, j, k, &eb);
        exponent[k % STEP] = ea + eb;
        if (k % STEP == STEP - 1)
            c = mfma_fused_step(product, exponent, STEP, 0, c, true);
    }
    return c;
}

/* Compares all elements of the result with exact steps. */
static void compare(const struct registers *r, const struct mfma_job *job, const struct operand *a,
                    const struct operand *b, unsigned round)
{
    for (unsigned i = 0; i < a->width; i++) {
        unsigned reg, lane;
        mfma_d_place(&job->shape, false, 0, i, &reg, &lane);
        for (unsigned j = 0; j < b->width; j++) {
            const uint32_t c = r->start[reg][lane + j], have = r->d[reg][lane + j];
            const uint32_t want = bits_from_float(by_exact_steps(a, b, i, j, float_from_bits(c)));
            if (have != want)
                fail_msg("formats %u, %u, round %u, [%u][%u]: %08x, not %08x (c %08x)",
                         job->a_format, job->b_format, round, i, j, have, want, c);
        }
    }
}

/* Computes a product of random operands on the host instruction set `isa`, and compares it. C and D
 * are the same registers in every second round. */
static void one_product(const struct mfma_shape *shape, enum mfma_format a_format,
                        enum mfma_format b_format, enum host_isa isa, unsigned round)
{
    static struct registers r;
    const struct operand a = {r.a, a_format, shape->m, shape->k};
    const struct operand b = {r.b, b_format, shape->n, shape->k};
    const struct mfma_job job = {
        .shape = *shape,
        .a_format = (uint8_t)a_format,
        .b_format = (uint8_t)b_format,
        .a = (const uint32_t (*)[LANES])r.a,
        .b = (const uint32_t (*)[LANES])r.b,
        .c = (const uint32_t (*)[LANES])(round % 2 ? r.c : r.d),
        .d = r.d,
    };

    fill(&r, &a, &b, round);
    host_isa_force(isa);
    mfma_run(&job);
    host_isa_force(HOST_BEST);
    compare(&r, &job, &a, &b, round);
}

/* Formats of the two operands may differ, with FNUZ only among each other. FORMAT_FP6 and later
 * ones have instructions of 64 and 128 k only. */
TEST(products_agree_with_exact_steps)
{
    static const struct mfma_shape shapes[] = {{32, 32, 16, 1, false},
                                               {16, 16, 32, 1, false},
                                               {32, 32, 64, 1, false},
                                               {16, 16, 128, 1, false}};
    static const enum host_isa isas[] = {HOST_PLAIN, HOST_AVX2, HOST_BEST};

    (void)state;
    for (unsigned round = 0; round < 480; round++) {
        const enum host_isa isa = isas[round % 3];
        const unsigned shape = random32() >> 8 & 3, pick_a = random32() >> 8;
        const unsigned pick_b = random32() >> 8;
        const bool fnuz = shape < 2 && random32() >> 31;
        const enum mfma_format first = fnuz ? FORMAT_FP8_FNUZ : FORMAT_FP8;
        const unsigned count = shape < 2 ? 2 : 5;
        if (isa == HOST_BEST || host_isa_supported(isa))
            one_product(&shapes[shape], first + pick_a % count, first + pick_b % count, isa, round);
    }
}

int main(void) { return run_unit_tests(); }
