/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests MODE.FP16_OVFL with matrix instructions (CDNA4 ISA, 7.1.2, 7.1.5, 7.5). An overflow of an
 * F32 result becomes the largest number instead of an infinity. An overflow of an I32 result
 * becomes the largest or smallest integer instead of wrapping. F64 ignores MODE (7.4).
 */
#include <float.h>
#include <math.h>

#include "tools/hipsim/tests/program.h"

enum { D = 0, A = 32, B = 40, INDEX = 50, SCALE_A = 52, SCALE_B = 53 };

#define OVFL (MODE_DEFAULT | MODE_FP16_OVFL)
#define MAX_BITS 0x7f7fffffu
#define INF_BITS 0x7f800000u

/* Operands of a case; each has the same bits in all lanes. */
struct overflow_case {
    const char *text;
    enum gfx_target target;
    uint32_t a, b, c;
    uint32_t clamped, plain; /* v0 with FP16_OVFL, v0 without */
};

static void run_case(const struct overflow_case *c, bool set)
{
    struct program p = program_new(c->target);
    p.mode = set ? OVFL : MODE_DEFAULT;
    for (unsigned i = 0; i < 8; i++) {
        program_fill(&p, A + i, c->a);
        program_fill(&p, B + i, c->b);
    }
    for (unsigned i = 0; i < 32; i++)
        program_fill(&p, D + i, c->c);
    program_fill(&p, INDEX, 0x44444444);   /* selects the first two of every four */
    program_fill(&p, SCALE_A, 0xfefefefe); /* scale 2^127 */
    program_fill(&p, SCALE_B, 0xfefefefe);
    program_run(&p, c->text);
    for (unsigned l = 0; l < 64; l++)
        if (p.v[0][l] != (set ? c->clamped : c->plain))
            fail_msg("%s, FP16_OVFL %d, lane %u: %08x, not %08x", c->text, set, l, p.v[0][l],
                     set ? c->clamped : c->plain);
}

#define F16_MAX 0x7bff7bffu
#define BF16_BIG 0x7f007f00u /* 2^127, twice */

static const struct overflow_case cases[] = {
    {"v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, F16_MAX, F16_MAX,
     MAX_BITS, MAX_BITS, MAX_BITS}, /* no overflow: the term is below the last bit */
    {"v_mfma_f32_16x16x16_bf16 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, BF16_BIG, 0x3f803f80, 0,
     MAX_BITS, INF_BITS},
    {"v_mfma_f32_32x32x8_bf16 v[0:15], v[32:33], v[40:41], v[0:15]", GFX942, BF16_BIG, 0xbf80bf80,
     0, 0x80000000 | MAX_BITS, 0x80000000 | INF_BITS},
    {"v_mfma_f32_4x4x4_16b_bf16 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, BF16_BIG, 0x3f803f80,
     0, MAX_BITS, INF_BITS},
    {"v_mfma_f32_16x16x4_f32 v[0:3], v32, v40, v[0:3]", GFX942, 0x7f000000, 0x3f800000, 0, MAX_BITS,
     INF_BITS},
    {"v_mfma_f32_16x16x8_xf32 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x7f000000, 0x3f800000,
     0, MAX_BITS, INF_BITS},
    /* An infinite input is not an overflow. */
    {"v_mfma_f32_16x16x16_bf16 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x7f807f80, 0x3f803f80,
     0, INF_BITS, INF_BITS},
    {"v_mfma_f32_16x16x4_f32 v[0:3], v32, v40, v[0:3]", GFX942, 0, 0, INF_BITS, INF_BITS, INF_BITS},
    {"v_mfma_f32_16x16x16_bf16 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x7fc07fc0, 0x3f803f80,
     0, 0x7fc00000, 0x7fc00000},
    {"v_smfmac_f32_16x16x32_bf16 v[0:3], v[32:33], v[40:43], v50", GFX942, BF16_BIG, 0x3f803f80, 0,
     MAX_BITS, INF_BITS},
    {"v_mfma_f32_16x16x32_bf16 v[0:3], v[32:35], v[40:43], v[0:3]", GFX950, BF16_BIG, 0x3f803f80, 0,
     MAX_BITS, INF_BITS},
    /* Products are 2^8, scales 2^127. */
    {"v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[32:39], v[40:47], v[0:3], v52, v53", GFX950,
     0x58585858, 0x58585858, 0, MAX_BITS, INF_BITS},
    {"v_mfma_i32_16x16x32_i8 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x7f7f7f7f, 0x7f7f7f7f,
     0x7ffffff0, 0x7fffffff, 0x8007e010},
    {"v_mfma_i32_16x16x32_i8 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x80808080, 0x7f7f7f7f,
     0x80000000, 0x80000000, 0x7ff81000},
    {"v_mfma_i32_4x4x4_16b_i8 v[0:3], v32, v40, v[0:3]", GFX942, 0x7f7f7f7f, 0x7f7f7f7f, 0x7ffffff0,
     0x7fffffff, 0x8000fbf4},
    {"v_smfmac_i32_16x16x64_i8 v[0:3], v[32:33], v[40:43], v50", GFX942, 0x7f7f7f7f, 0x7f7f7f7f,
     0x7ffffff0, 0x7fffffff, 0x8007e010},
    {"v_mfma_i32_16x16x32_i8 v[0:3], v[32:33], v[40:41], v[0:3]", GFX942, 0x01010101, 0x7f7f7f7f,
     0x7ff00000, 0x7ff00fe0, 0x7ff00fe0}, /* near the end of the range, but inside */
};

TEST(overflows_are_clamped)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_case(&cases[i], true);
        run_case(&cases[i], false);
    }
}

/* There are two steps of eight. The sum is clamped to the largest number below 2^128 before the
 * second step subtracts 2^127. */
TEST(every_step_is_clamped)
{
    struct program p = program_new(GFX942);
    p.mode = OVFL;
    for (unsigned l = 0; l < 64; l++) {
        const bool first = l < 32, lone = l / 16 % 2 == 0; /* k: groups of 16 lanes have 4 each */
        p.v[A][l] = first ? BF16_BIG : lone ? 0x0000ff00 : 0;
        p.v[A + 1][l] = first ? BF16_BIG : 0;
        p.v[B][l] = p.v[B + 1][l] = 0x3f803f80;
    }
    program_run(&p, "v_mfma_f32_16x16x16_bf16 v[0:3], v[32:33], v[40:41], 0");
    assert_int_equal(p.v[0][5], bits_of(FLT_MAX - 0x1p127f));
}

/* Elements are clamped separately. D may overlap A. f64 overflows to infinity. */
TEST(other_elements_stay)
{
    struct program p = program_new(GFX942);
    p.mode = OVFL;
    for (unsigned l = 0; l < 64; l++) {
        p.v[A][l] = p.v[A + 1][l] = l % 16 == 3 ? BF16_BIG : 0x3f803f80;
        p.v[A + 2][l] = p.v[A + 3][l] = 0;
        p.v[B][l] = p.v[B + 1][l] = l % 16 == 7 ? 0x40004000 : 0x3f803f80;
        p.v[16][l] = p.v[18][l] = 0;
        p.v[17][l] = p.v[19][l] = 0x7fe00000; /* 2^1023 */
    }
    program_run(&p, "v_mfma_f32_16x16x16_bf16 v[32:35], v[32:33], v[40:41], 0\n"
                    "v_mfma_f64_4x4x4_4b_f64 v[20:21], v[16:17], v[18:19], 0");
    assert_int_equal(p.v[A + 3][7], MAX_BITS);
    assert_int_equal(p.v[A + 3][6], MAX_BITS);
    assert_int_equal(p.v[A + 2][7], bits_of(32));
    assert_int_equal(p.v[A + 3][16 + 6], bits_of(16));
    assert_int_equal(program_v64(&p, 20, 0), bits_of64(INFINITY));
}

int main(void) { return run_unit_tests(); }
