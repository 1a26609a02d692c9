/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the scalar instructions that GFX12 has and gfx9 lacks: floats, 64-bit products, operations
 * on EXEC of 32 lanes, and loads of bytes and halves. Expectations are from the pseudo-code of
 * SOP1, SOP2, SOPC and SMEM in the RDNA4 and CDNA5 ISA.
 */
#include <math.h>
#include <stdio.h>

#include "tools/hipsim/tests/device.h"
#include "tools/hipsim/tests/program.h"

static const enum gfx_target targets[] = {GFX1250, GFX1201};
#define EACH_TARGET for (unsigned t = 0; t < 2; t++)

/* Runs a scalar operation on the operands of a case, in s0, s1 and s2. The result is s2. */
#define SCALAR(text)                                                                            \
    "v_readfirstlane_b32 s0, v2\nv_readfirstlane_b32 s1, v4\nv_readfirstlane_b32 s2, v6\n" text \
    "\nv_mov_b32 v0, s2"
#define HALF(text) SCALAR(text "\ns_and_b32 s2, s2, 0xffff")

#define ONE 0x3f800000u
#define TWO 0x40000000u
#define MINUS 0x80000000u
#define INF 0x7f800000u
#define QUIET 0x7fc00001u

TEST(f32)
{
    static const struct op_case cases[] = {
        {SCALAR("s_add_f32 s2, s0, s1"), ONE, TWO, 0, 0x40400000},
        {SCALAR("s_add_f32 s2, s0, s1"), ONE, 0x33800000, 0, ONE}, /* a tie, to even */
        {SCALAR("s_add_f32 s2, s0, s1"), ONE, 0x33800001, 0, ONE + 1},
        {SCALAR("s_add_f32 s2, s0, s1"), QUIET, ONE, 0, QUIET},
        {SCALAR("s_add_f32 s2, s0, s1"), 1, 2, 0, 3}, /* denormals */
        {SCALAR("s_sub_f32 s2, s0, s1"), ONE, TWO, 0, ONE | MINUS},
        {SCALAR("s_sub_f32 s2, s0, s1"), ONE, ONE, 0, 0},
        {SCALAR("s_mul_f32 s2, s0, s1"), 0x3fc00000, 0x3fc00000, 0, 0x40100000},
        {SCALAR("s_mul_f32 s2, s0, s1"), 0x3f800001, 0x3f800001, 0, 0x3f800002},
        /* fused: the product is not rounded */
        {SCALAR("s_fmac_f32 s2, s0, s1"), 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
        {SCALAR("s_fmaak_f32 s2, s0, s1, 0x40000000"), TWO, TWO, 0, 0x40c00000},
        {SCALAR("s_fmamk_f32 s2, s0, 0x40000000, s1"), TWO, ONE, 0, 0x40a00000},
        {SCALAR("s_min_num_f32 s2, s0, s1"), QUIET, ONE, 0, ONE},
        {SCALAR("s_min_num_f32 s2, s0, s1"), 0, MINUS, 0, MINUS},
        {SCALAR("s_max_num_f32 s2, s0, s1"), MINUS, 0, 0, 0},
        {SCALAR("s_max_num_f32 s2, s0, s1"), ONE, QUIET, 0, ONE},
        {SCALAR("s_minimum_f32 s2, s0, s1"), ONE, QUIET, 0, QUIET},
        {SCALAR("s_minimum_f32 s2, s0, s1"), ONE, TWO, 0, ONE},
        {SCALAR("s_maximum_f32 s2, s0, s1"), QUIET, ONE, 0, QUIET},
        {SCALAR("s_maximum_f32 s2, s0, s1"), MINUS, 0, 0, 0},
        {SCALAR("s_ceil_f32 s2, s0"), 0xbf000000, 0, 0, MINUS},
        {SCALAR("s_ceil_f32 s2, s0"), 0x3fa00000, 0, 0, TWO},
        {SCALAR("s_floor_f32 s2, s0"), 0xbf000000, 0, 0, ONE | MINUS},
        {SCALAR("s_trunc_f32 s2, s0"), 0xbfe00000, 0, 0, ONE | MINUS},
        {SCALAR("s_rndne_f32 s2, s0"), 0x3fc00000, 0, 0, TWO},
        {SCALAR("s_rndne_f32 s2, s0"), 0x40200000, 0, 0, TWO},
        {SCALAR("s_rndne_f32 s2, s0"), INF, 0, 0, INF},
    };
    EACH_TARGET CHECK_CASES(targets[t], MODE_DEFAULT, cases);
}

TEST(f16)
{
    static const struct op_case cases[] = {
        {HALF("s_add_f16 s2, s0, s1"), 0x3c00, 0x4000, 0, 0x4200},
        {HALF("s_add_f16 s2, s0, s1"), 0x3c00, 0x1000, 0, 0x3c00}, /* 2^-11: a tie */
        {HALF("s_add_f16 s2, s0, s1"), 1, 1, 0, 2},
        {HALF("s_sub_f16 s2, s0, s1"), 0x3c00, 0x4000, 0, 0xbc00},
        {HALF("s_mul_f16 s2, s0, s1"), 0x7bff, 0x4000, 0, 0x7c00},
        {HALF("s_fmac_f16 s2, s0, s1"), 0x3c01, 0x3c01, 0xbc02, 0x0010},
        {HALF("s_min_num_f16 s2, s0, s1"), 0x7e00, 0x3c00, 0, 0x3c00},
        {HALF("s_max_num_f16 s2, s0, s1"), 0x8000, 0, 0, 0},
        {HALF("s_minimum_f16 s2, s0, s1"), 0x3c00, 0x7e01, 0, 0x7e01},
        {HALF("s_maximum_f16 s2, s0, s1"), 0x3c00, 0xbc00, 0, 0x3c00},
        {HALF("s_ceil_f16 s2, s0"), 0x3d00, 0, 0, 0x4000},
        {HALF("s_floor_f16 s2, s0"), 0xbd00, 0, 0, 0xc000},
        {HALF("s_trunc_f16 s2, s0"), 0xbd00, 0, 0, 0xbc00},
        {HALF("s_rndne_f16 s2, s0"), 0x3e00, 0, 0, 0x4000},
    };
    EACH_TARGET CHECK_CASES(targets[t], MODE_DEFAULT, cases);
}

TEST(conversions)
{
    static const struct op_case cases[] = {
        {SCALAR("s_cvt_f32_i32 s2, s0"), 0xffffffff, 0, 0, ONE | MINUS},
        {SCALAR("s_cvt_f32_i32 s2, s0"), 0x01000001, 0, 0, 0x4b800000},
        {SCALAR("s_cvt_f32_u32 s2, s0"), 0xffffffff, 0, 0, 0x4f800000},
        {SCALAR("s_cvt_i32_f32 s2, s0"), 0xbfe00000, 0, 0, 0xffffffff},
        {SCALAR("s_cvt_i32_f32 s2, s0"), 0x4f000000, 0, 0, 0x7fffffff},
        {SCALAR("s_cvt_i32_f32 s2, s0"), INF | MINUS, 0, 0, 0x80000000},
        {SCALAR("s_cvt_i32_f32 s2, s0"), QUIET, 0, 0, 0},
        {SCALAR("s_cvt_u32_f32 s2, s0"), 0x4f7fffff, 0, 0, 0xffffff00},
        {SCALAR("s_cvt_u32_f32 s2, s0"), ONE | MINUS, 0, 0, 0},
        {SCALAR("s_cvt_u32_f32 s2, s0"), INF, 0, 0, 0xffffffff},
        {SCALAR("s_cvt_f32_f16 s2, s0"), 0xdead3c00, 0, 0, ONE},
        {SCALAR("s_cvt_f32_f16 s2, s0"), 1, 0, 0, 0x33800000},
        {SCALAR("s_cvt_f32_f16 s2, s0"), 0x7e01, 0, 0, 0x7fc02000},
        {SCALAR("s_cvt_f32_f16 s2, s0"), 0x7c01, 0, 0, 0x7fc02000},
        {SCALAR("s_cvt_hi_f32_f16 s2, s0"), 0x4000dead, 0, 0, TWO},
        {SCALAR("s_cvt_hi_f32_f16 s2, s0"), 0xfe01dead, 0, 0, 0xffc02000},
        {HALF("s_cvt_f16_f32 s2, s0"), 0x477ff000, 0, 0, 0x7c00},
        {HALF("s_cvt_f16_f32 s2, s0"), 0x3f802000, 0, 0, 0x3c01},
        {HALF("s_cvt_f16_f32 s2, s0"), 0x3f801000, 0, 0, 0x3c00},
        {SCALAR("s_cvt_pk_rtz_f16_f32 s2, s0, s1"), 0x3f803fff, 0x477fffff, 0, 0x7bff3c01},
        {SCALAR("s_pack_hl_b32_b16 s2, s0, s1"), 0x12345678, 0x9abcdef0, 0, 0xdef01234},
    };
    EACH_TARGET CHECK_CASES(targets[t], MODE_DEFAULT, cases);
}

/* Transcendentals of scalars, at arguments whose results are exact. */
TEST(transcendentals)
{
    static const struct op_case cases[] = {
        {SCALAR("v_s_exp_f32 s2, s0"), 0xc0000000, 0, 0, 0x3e800000},
        {SCALAR("v_s_log_f32 s2, s0"), 0x3e800000, 0, 0, 0xc0000000},
        {SCALAR("v_s_rcp_f32 s2, s0"), 0x40800000, 0, 0, 0x3e800000},
        {SCALAR("v_s_rcp_f32 s2, s0"), MINUS, 0, 0, INF | MINUS},
        {SCALAR("v_s_rsq_f32 s2, s0"), 0x40800000, 0, 0, 0x3f000000},
        {SCALAR("v_s_sqrt_f32 s2, s0"), 0x40800000, 0, 0, TWO},
        {SCALAR("v_s_sqrt_f32 s2, -s0"), 0xc0800000, 0, 0, TWO},
        {HALF("v_s_exp_f16 s2, s0"), 0x4200, 0, 0, 0x4800},
        {HALF("v_s_log_f16 s2, s0"), 0x4800, 0, 0, 0x4200},
        {HALF("v_s_rcp_f16 s2, s0"), 0x4400, 0, 0, 0x3400},
        {HALF("v_s_rsq_f16 s2, s0"), 0x4400, 0, 0, 0x3800},
        {HALF("v_s_sqrt_f16 s2, s0"), 0x4400, 0, 0, 0x4000},
    };
    EACH_TARGET CHECK_CASES(targets[t], MODE_DEFAULT, cases);
}

/* Comparisons, in the order of their results' bits. */
static const char *const relations[] = {"lt", "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                        "u",  "nge", "nlg", "ngt", "nle", "neq", "nlt"};
enum { RELATIONS = sizeof(relations) / sizeof(relations[0]) };

/* Returns the outcomes of all comparisons of a and b, the last one in bit 0. */
static uint32_t outcomes(double a, double b)
{
    const bool u = isnan(a) || isnan(b);
    const bool all[RELATIONS] = {a < b,    a == b,    a <= b, !u && a > b, !u && a != b,
                                 a >= b,   !u,        u,      !(a >= b),   u || a == b,
                                 !(a > b), !(a <= b), a != b, !(a < b)};
    uint32_t bits = 0;
    for (unsigned i = 0; i < RELATIONS; i++)
        bits = bits << 1 | all[i];
    return bits;
}

TEST(comparisons_set_scc)
{
    static const struct {
        double value;
        uint32_t f32, f16;
    } numbers[] = {
        {0.0, 0, 0},
        {-0.0, MINUS, 0x8000},
        {1.0, ONE, 0x3c00},
        {-2.0, 0xc0000000, 0xc000},
        {INFINITY, INF, 0x7c00},
        {NAN, QUIET, 0x7e00},
    };
    enum { N = sizeof(numbers) / sizeof(numbers[0]) };
    /* s[0:5] are f32 and s[8:13] f16; s[20 + pair] gets the outcomes. s16 is a bit. */
    EACH_TARGET for (unsigned half = 0; half < 2; half++)
    {
        static char text[N * N * RELATIONS * 120];
        struct program p = program_new(targets[t]);
        size_t used = 0;
        p.block = 32;
        for (unsigned i = 0; i < N; i++)
            p.s[i] = half ? numbers[i].f16 : numbers[i].f32;
        for (unsigned pair = 0; pair < N * N; pair++)
            for (unsigned r = 0; r < RELATIONS; r++)
                used += (size_t)snprintf(text + used, sizeof(text) - used,
                                         "s_cmp_%s_%s s%u, s%u\ns_cselect_b32 s16, 1, 0\n"
                                         "s_lshl_b32 s%u, s%u, %u\ns_or_b32 s%u, s%u, s16\n",
                                         relations[r], half ? "f16" : "f32", pair / N, pair % N,
                                         20 + pair, 20 + pair, r ? 1 : 31, 20 + pair, 20 + pair);
        for (unsigned pair = 0; pair < N * N; pair++)
            p.s[20 + pair] = 0;
        program_run(&p, text);
        for (unsigned pair = 0; pair < N * N; pair++)
            assert_int_equal(p.s[20 + pair],
                             outcomes(numbers[pair / N].value, numbers[pair % N].value));
    }
}

/* EXEC after an operation on it, SDST, and SCC: 1 if EXEC is not zero. */
TEST(operations_on_exec)
{
    const uint32_t exec = 0xff00ff00, a = 0xf0f0f0f0;
    const struct {
        const char *name;
        uint32_t exec;
        bool old; /* true: SDST gets the old EXEC; false: the new one */
    } cases[] = {
        {"s_and_saveexec_b32", a & exec, true},       {"s_or_saveexec_b32", a | exec, true},
        {"s_xor_saveexec_b32", a ^ exec, true},       {"s_nand_saveexec_b32", ~(a & exec), true},
        {"s_nor_saveexec_b32", ~(a | exec), true},    {"s_xnor_saveexec_b32", ~(a ^ exec), true},
        {"s_and_not0_saveexec_b32", ~a & exec, true}, {"s_or_not0_saveexec_b32", ~a | exec, true},
        {"s_and_not1_saveexec_b32", a & ~exec, true}, {"s_or_not1_saveexec_b32", a | ~exec, true},
        {"s_and_not0_wrexec_b32", ~a & exec, false},  {"s_and_not1_wrexec_b32", a & ~exec, false},
    };
    EACH_TARGET for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    {
        struct program p = program_new(targets[t]);
        char text[64];
        p.block = 32;
        p.exec = exec;
        p.s[4] = a;
        p.scc = 0;
        snprintf(text, sizeof(text), "%s s5, s4\n", cases[i].name);
        program_run(&p, text);
        assert_int_equal(p.exec, cases[i].exec);
        assert_int_equal(p.s[5], cases[i].old ? exec : cases[i].exec);
        assert_int_equal(p.scc, 1);
    }
}

TEST(wide_integers)
{
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        p.block = 32;
        program_s64_set(&p, 0, UINT64_C(0x123456789abcdef0));
        program_s64_set(&p, 2, UINT64_C(0xfedcba9876543211));
        program_run(&p, "s_mul_u64 s[4:5], s[0:1], s[2:3]\ns_sub_nc_u64 s[6:7], s[0:1], s[2:3]\n"
                        "s_add_nc_u64 s[8:9], s[0:1], s[2:3]\n");
        const uint64_t a = UINT64_C(0x123456789abcdef0), b = UINT64_C(0xfedcba9876543211);
        assert_true(program_s64(&p, 4) == a * b);
        assert_true(program_s64(&p, 6) == a - b);
        assert_true(program_s64(&p, 8) == a + b);
    }
}

/* Loads of bytes and halves extend to a dword; addresses need no alignment to dwords. */
TEST(scalar_loads)
{
    static const uint32_t data[16] = {0x84838281, 0x88878685, 0x11223344, 0x55667788};
    void *const from = device_alloc(sizeof(data), data);
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        p.block = 32;
        program_s64_set(&p, 0, (uint64_t)(uintptr_t)from);
        p.s[16] = (uint32_t)(uintptr_t)from;
        program_run(&p, "s_load_i8 s4, s[0:1], 1\ns_load_u8 s5, s[0:1], 1\n"
                        "s_load_i16 s6, s[0:1], 2\ns_load_u16 s7, s[0:1], 2\n"
                        "s_load_b96 s[8:10], s[0:1], 4\ns_wait_kmcnt 0\n");
        assert_int_equal(p.s[4], 0xffffff82);
        assert_int_equal(p.s[5], 0x82);
        assert_int_equal(p.s[6], 0xffff8483);
        assert_int_equal(p.s[7], 0x8483);
        assert_memory_equal(&p.s[8], &data[1], 12);
    }
    hipsim_mem_free(from);
}

int main(void) { return run_unit_tests(); }
