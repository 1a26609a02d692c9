/* SPDX-License-Identifier: Apache-2.0 */
/* Tests operations of both targets of GFX12 that GFX9 lacks (RDNA4 ISA, chapter 16; CDNA5 ISA,
 * chapter 15). */
#include <math.h>
#include <stdio.h>

#include "tests/unit_test.h"
#include "tools/hipsim/tests/device.h"

static const enum gfx_target targets[] = {GFX1250, GFX1201};
#define EACH_TARGET for (unsigned t = 0; t < 2; t++)

/* V_MOVREL*: M0 is added to the number of the source, of the destination or of both. */
TEST(registers_are_relative_to_m0)
{
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        for (unsigned r = 8; r < 16; r++)
            program_fill(&p, r, 100 + r);
        program_run(&p, "s_mov_b32 m0, 3\nv_movrels_b32 v0, v8\nv_movreld_b32 v20, v9\n"
                        "v_movrelsd_b32 v1, v10\ns_mov_b32 m0, 0x20004\n"
                        "v_movrelsd_2_b32 v3, v8\nv_mov_b32 v30, 1\nv_mov_b32 v34, 2\n"
                        "s_mov_b32 m0, 0x40000\nv_swaprel_b32 v30, v30\n");
        assert_int_equal(p.v[0][0], 111);  /* v11 */
        assert_int_equal(p.v[23][5], 109); /* v20 + 3 */
        assert_int_equal(p.v[4][0], 113);  /* v1 + 3 = v10 + 3 */
        assert_int_equal(p.v[5][31], 112); /* v3 + 2 = v8 + 4 */
        assert_int_equal(p.v[30][0], 2);
        assert_int_equal(p.v[34][0], 1);
    }
}

/* Lanes outside of EXEC keep the destination, and the number of a register that the kernel lacks is
 * a fault. */
TEST(relative_registers_have_limits)
{
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        program_fill(&p, 4, 7);
        program_fill(&p, 10, 9);
        program_run(&p, "s_mov_b32 m0, 2\ns_mov_b32 exec_lo, 0xf\nv_movreld_b32 v8, v4\n");
        assert_int_equal(p.v[10][3], 7);
        assert_int_equal(p.v[10][4], 9);
        static const char *const bad[] = {"s_mov_b32 m0, 0x400\nv_movrels_b32 v0, v1\n",
                                          "s_mov_b32 m0, 0x400\nv_movreld_b32 v0, v1\n",
                                          "s_movk_i32 m0, -2\nv_movrels_b32 v0, v1\n"};
        for (unsigned i = 0; i < 3; i++) {
            struct program q = program_new(targets[t]);
            program_try(&q, bad[i]);
            assert_int_equal(q.fault.kind, FAULT_REGISTER);
        }
    }
}

/* The check `wait` follows the register that M0 selects. */
TEST(relative_registers_are_waited_for)
{
    static const uint32_t data[64] = {5, 5};
    void *const from = device_alloc(sizeof(data), data);
    EACH_TARGET for (unsigned i = 0; i < 2; i++)
    {
        struct program p = program_new(targets[t]);
        p.checks = CHECK_WAIT | CHECK_UNINIT;
        p.block = 32;
        program_s64_set(&p, 2, (uint64_t)(uintptr_t)from);
        program_fill(&p, 1, 0);
        char text[300];
        snprintf(text, sizeof(text),
                 "s_mov_b32 m0, 3\nglobal_load_b32 v7, v1, s[2:3]\n%s"
                 "v_movrels_b32 v8, v4\nglobal_store_b32 v1, v8, s[2:3]\n",
                 i ? "s_wait_loadcnt 0\n" : "");
        program_try(&p, text);
        assert_int_equal(p.fault.kind, i ? FAULT_NONE : FAULT_WAIT);
    }
    hipsim_mem_free(from);
}

/* An atomic without its space, and bits of memory and operand before it, of memory after it. */
struct atomic_case {
    const char *name;
    uint32_t memory, data, want;
};

#define QUIET 0x7fc00001u
#define SIGNALLING 0x7f800001u
#define ONE 0x3f800000u
#define TWO 0x40000000u

static const struct atomic_case atomics[] = {
    {"cond_sub_u32", 7, 5, 2},
    {"cond_sub_u32", 5, 7, 5},
    {"cond_sub_u32", 5, 5, 0},
    {"sub_clamp_u32", 7, 5, 2},
    {"sub_clamp_u32", 5, 7, 0},
    {"min_num_f32", TWO, ONE, ONE},
    {"max_num_f32", TWO, ONE, TWO},
    {"min_num_f32", 0, 0x80000000, 0x80000000},
    {"max_num_f32", 0x80000000, 0, 0},
    {"min_num_f32", SIGNALLING, ONE, ONE}, /* a number wins over any NaN */
    {"max_num_f32", ONE, SIGNALLING, ONE},
    {"max_num_f32", QUIET, 0xff800002, 0xffc00002}, /* of two NaNs the operand, quiet */
    {"min_num_f32", 1, 2, 1},                       /* denormals are kept */
};

/* Runs an atomic in memory or LDS, and returns what it leaves there. Checks that it returned the
 * old value. */
static uint32_t run_atomic(enum gfx_target target, const char *space, const struct atomic_case *c)
{
    void *const at = device_alloc(64, (uint32_t[16]){c->memory});
    struct program p = program_new(target);
    char text[400];
    p.block = 32;
    p.lds_bytes = 64;
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)at);
    program_fill(&p, 1, 0);
    program_fill(&p, 2, c->data);
    program_fill64(&p, 6, (uint64_t)(uintptr_t)at);
    program_fill(&p, 8, c->memory);
    program_resource(&p, 8, at, 0, 64);
    if (strcmp(space, "ds") == 0)
        snprintf(text, sizeof(text),
                 "s_mov_b32 exec_lo, 1\nds_store_b32 v1, v8\ns_wait_dscnt 0\n"
                 "ds_%.*s_rtn_%s v3, v1, v2\ns_wait_dscnt 0\nds_load_b32 v4, v1\n"
                 "s_wait_dscnt 0\n",
                 (int)(strrchr(c->name, '_') - c->name), c->name, strrchr(c->name, '_') + 1);
    else
        snprintf(text, sizeof(text),
                 "s_mov_b32 exec_lo, 1\n%s_atomic_%s v3, %s th:TH_ATOMIC_RETURN\n"
                 "s_wait_loadcnt_dscnt 0\nglobal_load_b32 v4, v1, s[2:3]\ns_wait_loadcnt 0\n",
                 space, c->name, strcmp(space, "flat") == 0 ? "v[6:7], v2" : "v1, v2, s[2:3]");
    program_run(&p, text);
    hipsim_mem_free(at);
    assert_int_equal(p.v[3][0], c->memory);
    return p.v[4][0];
}

TEST(atomics_of_gfx12)
{
    static const char *const spaces[] = {"global", "flat", "ds"};
    EACH_TARGET for (size_t i = 0; i < sizeof(atomics) / sizeof(atomics[0]);
                     i++) for (unsigned s = 0; s < 3; s++)
    {
        const uint32_t got = run_atomic(targets[t], spaces[s], &atomics[i]);
        if (got != atomics[i].want)
            fail_msg("%s %s: 0x%08x, not 0x%08x", spaces[s], atomics[i].name, got, atomics[i].want);
    }
}

TEST(instructions_of_both_targets)
{
    static const struct op_case cases[] = {
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", 0x7f800000, 0, ONE, ONE},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", TWO, TWO, ONE, 0x40a00000},
        /* The first NaN, made quiet; else the default. A zero selects C, even a signalling NaN. */
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", 0x7f800011, 0xffc00022, 0x7fc00033, 0x7fc00011},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", ONE, 0xffc00022, 0x7fc00033, 0xffc00022},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", 0x7fc00011, ONE, 0xffc00033, 0x7fc00011},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", ONE, TWO, 0x7f800033, 0x7fc00033},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", 0x7f800000, ONE, 0xff800000, 0xffc00000},
        {"v_fma_dx9_zero_f32 v0, v2, v4, v6", 0, ONE, 0x7f800033, 0x7f800033},
        {"v_mullit_f32 v0, v2, v4, v6", 0xff800011, TWO, ONE, 0xffc00011},
        {"v_mullit_f32 v0, v2, v4, v6", 0x7fc00011, 0, ONE, 0},
        {"v_mullit_f32 v0, v2, v4, v6", TWO, TWO, ONE, 0x40800000},
        {"v_mullit_f32 v0, v2, v4, v6", TWO, TWO, 0, 0xff7fffff},
        {"v_mullit_f32 v0, v2, v4, v6", TWO, 0xff800000, ONE, 0xff7fffff},
        {"v_mullit_f32 v0, v2, v4, v6", TWO, TWO, 0x7fc00000, 0xff7fffff},
        {"v_mullit_f32 v0, v2, v4, v6", 0, 0x7f800000, ONE, 0},
        /* The halves of VOP1 and VOPC: bit 7 of the register's number. */
        {".long 0x7e00dd82 ; v_cvt_pk_f32_fp8_e32 v[0:1], v2.h", 0x38400000, 0, 0,
         0x3f80000040000000},
        {".long 0x7cfb0902 ; v_cmp_class_f16_e32 vcc_lo, v2.l, v4.h\n"
         "v_cndmask_b32 v0, 0, 1, vcc_lo",
         0x3c00, 0x01000000, 0, 1},
        {"v_cvt_pk_f32_fp8 v[0:1], v2 op_sel:[1,0]", 0x38400000, 0, 0, 0x3f80000040000000},
        {"v_cvt_pk_f32_bf8 v[0:1], v2", 0x3c40, 0, 0, 0x3f80000040000000},
    };
    EACH_TARGET check_cases(targets[t], MODE_DEFAULT, cases, sizeof(cases) / sizeof(cases[0]));
}

/* DS_BPERMUTE_FI reads lanes outside of EXEC. */
TEST(bpermute_fi_reads_all_lanes)
{
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        p.block = 32;
        for (unsigned l = 0; l < 32; l++) {
            p.v[1][l] = 4 * (31 - l);
            p.v[2][l] = 100 + l;
        }
        program_run(&p, "s_sleep_var 1\ns_mov_b32 exec_lo, 0xffff\n"
                        "ds_bpermute_fi_b32 v3, v1, v2\nds_bpermute_b32 v4, v1, v2\n"
                        "s_wait_dscnt 0\n");
        assert_int_equal(p.v[3][2], 129);
        assert_int_equal(p.v[4][2], 0);
    }
}

/* Conversions of 16 bits, tables and limits of gfx1250. */
TEST(instructions_of_gfx1250)
{
    static const struct op_case cases[] = {
        {"v_cvt_f16_fp8 v0, v2", 0x38, 0, 0, 0xdead3c00},
        {"v_cvt_f16_fp8 v0, v2 byte_sel:1", 0xb838, 0, 0, 0xdeadbc00},
        {"v_cvt_f16_fp8 v0, v2 byte_sel:2", 0x380000, 0, 0, 0xdead3c00},
        {"v_cvt_f16_fp8 v0, v2 byte_sel:3", 0x38000000, 0, 0, 0xdead3c00},
        {"v_cvt_f16_fp8 v0, v2", 0x01, 0, 0, 0xdead1800}, /* 2^-9 */
        {"v_cvt_f16_bf8 v0, v2", 0x3c, 0, 0, 0xdead3c00},
        {"v_cvt_f16_bf8 v0, v2", 0x01, 0, 0, 0xdead0100}, /* 2^-16, a denormal of f16 */
        {"v_cvt_pk_f16_fp8 v0, v2", 0xb838, 0, 0, 0xbc003c00},
        {"v_cvt_pk_f16_bf8 v0, v2", 0xfc3c, 0, 0, 0xfc003c00},
        {"v_cvt_pk_fp8_f16 v0, v2", 0xbc003c00, 0, 0, 0xdeadb838},
        {"v_cvt_pk_fp8_f16 v0, -v2", 0xbc003c00, 0, 0, 0xdead38b8},
        {"v_cvt_pk_bf8_f16 v0, v2", 0x7c003c00, 0, 0, 0xdead7c3c},
        {"v_cvt_sr_fp8_f16 v0, v2, v4", 0x3c40, 0, 0, 0xdeadbe38},
        {"v_cvt_sr_fp8_f16 v0, v2, v4", 0x3c40, 0x80000000, 0, 0xdeadbe39},
        {"v_cvt_sr_fp8_f16 v0, v2, v4 byte_sel:3", 0x3c00, 0, 0, 0x38adbeef},
        {"v_cvt_sr_bf8_f16 v0, -v2, v4 byte_sel:1", 0x3c80, 0x80000000, 0, 0xdeadbdef},
        {"v_cvt_sr_pk_bf16_f32 v0, v2, v4, v6", 0x3f808000, 0x3f80ffff, 0x00007fff, 0x3f803f80},
        {"v_cvt_sr_pk_bf16_f32 v0, v2, v4, v6", 0x3f808000, 0x3f80ffff, 0x00018000, 0x3f813f81},
        {"v_cvt_sr_pk_bf16_f32 v0, v2, v4, v6", 0x7f800000, 0xff800000, UINT64_MAX, 0xff807f80},
        {"v_cvt_sr_pk_f16_f32 v0, v2, v4, v6", 0x3f801000, 0x3f801000, 0x7fff8000, 0x3c003c01},
        {"v_sat_pk4_i4_i8 v0, v2", 0x7ff9807f, 0, 0, 0xdead7987},
        {"v_sat_pk4_u4_u8 v0, v2", 0xff0f1005, 0, 0, 0xdeadfff5},
        {"v_permlane_idx_gen_b32 v0, v2, 32", 5, 0, 0, 20},
        {"v_perm_pk16_b4_u4 v[0:1], v2, v4, v[6:7]", 0x76543210, 0xfedcba98, 0x0123456789abcdef,
         0x89abcdef01234567},
    };
    check_cases(GFX1250, MODE_DEFAULT, cases, sizeof(cases) / sizeof(cases[0]));
}

/* V_PERM_PK16_B6 and _B8: tables of more than two dwords. V_CVT_SCALEF32_SR_PK8 and PK16: without
 * random bits they truncate, and all ones round up. */
TEST(wide_instructions_of_gfx1250)
{
    struct program p = program_new(GFX1250);
    p.block = 32;
    for (unsigned r = 0; r < 4; r++)
        program_fill(&p, 4 + r, 0x03020100 + 0x04040404 * r); /* bytes 0 to 15 */
    program_fill64(&p, 8, 0xfedcba9876543210);
    program_fill(&p, 10, 0x3f100000); /* 0.5625, between 0.5 and 0.625 in fp6 */
    program_run(&p, "v_perm_pk16_b8_u4 v[12:15], v[6:7], v[4:5], v[8:9]\n"
                    "v_perm_pk16_b6_u4 v[16:18], v6, v[4:5], v[8:9]\n"
                    "v_mov_b32 v20, 1.0\nv_mov_b32 v21, 0\nv_mov_b32 v22, -1\n"
                    "v_mov_b32 v24, v10\nv_mov_b32 v25, v10\nv_mov_b32 v26, v10\n"
                    "v_mov_b32 v27, v10\nv_mov_b32 v28, v10\nv_mov_b32 v29, v10\n"
                    "v_mov_b32 v30, v10\nv_mov_b32 v31, v10\n"
                    "v_cvt_scalef32_sr_pk8_fp4_f32 v32, v[24:31], v21, v20\n"
                    "v_cvt_scalef32_sr_pk8_fp4_f32 v33, v[24:31], v22, v20\n"
                    "v_cvt_scalef32_sr_pk8_fp8_f32 v[34:35], v[24:31], v21, v20\n"
                    "v_cvt_scalef32_pk8_fp8_f32 v[36:37], v[24:31], v20\n");
    for (unsigned r = 0; r < 4; r++)
        assert_int_equal(p.v[12 + r][9], p.v[4 + r][9]);
    for (unsigned r = 0; r < 3; r++) /* all elements in order: the table itself */
        assert_int_equal(p.v[16 + r][0], p.v[4 + r][0]);
    assert_int_equal(p.v[32][7], 0x11111111);  /* 0.5 */
    assert_int_equal(p.v[33][7] & 0xff, 0x22); /* 1 */
    assert_int_equal(p.v[34][7], 0x31313131);  /* 0.5625 is exact in fp8 */
    assert_int_equal(p.v[35][7], p.v[37][7]);
}

/* Returns the value of an OCP code of 8 bits with `mbits` bits of mantissa, by the formula of the
 * format (OCP OFP8, 5.2). The caller leaves out infinities and NaNs. */
static double value_of(unsigned code, unsigned mbits)
{
    const int bias = mbits == 3 ? 7 : 15, e = (int)(code >> mbits & ((1u << (7 - mbits)) - 1));
    const double m = (double)(code & ((1u << mbits) - 1)) / (1u << mbits);
    const double magnitude = e ? ldexp(1 + m, e - bias) : ldexp(m, 1 - bias);
    return code & 0x80 ? -magnitude : magnitude;
}

/* Returns the value of a finite f16. */
static double value_of_f16(unsigned h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double magnitude = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* Every finite code of fp8 and bf8 keeps its value in f16, and comes back. */
TEST(all_codes_of_8_bits)
{
    struct program p = program_new(GFX1250);
    char text[2000], *at = text;
    p.block = 32;
    for (unsigned r = 0; r < 8; r++) {
        for (unsigned l = 0; l < 32; l++)
            p.v[r][l] = 32 * r + l;
        at += sprintf(at,
                      "v_cvt_f16_fp8 v%u, v%u\nv_cvt_f16_bf8 v%u, v%u\n"
                      "v_cvt_pk_fp8_f16 v%u, v%u\nv_cvt_pk_bf8_f16 v%u, v%u\n",
                      8 + r, r, 16 + r, r, 24 + r, 8 + r, 32 + r, 16 + r);
    }
    program_run(&p, text);
    for (unsigned code = 0; code < 256; code++) {
        const unsigned r = code / 32, l = code % 32;
        if ((code & 0x7f) != 0x7f) {
            assert_true(value_of_f16(p.v[8 + r][l] & 0xffff) == value_of(code, 3));
            assert_int_equal(p.v[24 + r][l] & 0xff, code);
        }
        if ((code & 0x7f) < 0x7c) {
            assert_true(value_of_f16(p.v[16 + r][l] & 0xffff) == value_of(code, 2));
            assert_int_equal(p.v[32 + r][l] & 0xff, code);
        }
    }
}

/* VOP1, VOP2 and VOPC have DPP in their VOP3 form as well, with modifiers and scalar results
 * (RDNA4 ISA, 7.4). LLVM writes these mnemonics with the suffix _e64_dpp. */
TEST(long_forms_have_dpp)
{
    EACH_TARGET
    {
        struct program p = program_new(targets[t]);
        p.block = 32;
        program_lanes(&p, 0, 1);
        program_fill(&p, 1, 0xfffffff8);
        program_fill(&p, 4, bits_of(3));
        program_run(&p, "v_add_co_u32_e64_dpp v2, vcc_lo, v0, v1 row_shr:1 row_mask:0xf "
                        "bank_mask:0xf bound_ctrl:1\n"
                        "s_mov_b32 s4, vcc_lo\n"
                        "v_cmp_eq_u32_e64_dpp s5, v0, v0 quad_perm:[0,0,2,2] row_mask:0xf "
                        "bank_mask:0xf\n"
                        "v_cvt_f32_u32_e64_dpp v3, v0 row_xmask:1 row_mask:0xf bank_mask:0xf\n"
                        "v_add_f32_e64_dpp v5, v3, -v4 row_xmask:1 row_mask:0xf bank_mask:0xf\n"
                        "v_mov_b32 v6, s4\nv_mov_b32 v7, s5\n");
        uint32_t carries = 0;
        for (unsigned l = 0; l < 32; l++) {
            const unsigned from = l % 16 ? l - 1 : 0;
            assert_int_equal(p.v[2][l], from + 0xfffffff8);
            carries |= (uint32_t)(from >= 8) << l;
            assert_true(float_of(p.v[3][l]) == (float)(l ^ 1));
            assert_true(float_of(p.v[5][l]) == (float)l - 3);
        }
        assert_int_equal(p.v[6][0], carries);
        assert_int_equal(p.v[7][0], 0x55555555);
    }
}

/* Scales of 8 bits may be E5M3 or E4M3: five or four bits of exponent, three of mantissa. The
 * largest code of each is a NaN. */
TEST(scales_have_formats)
{
    struct program p = program_new(GFX1250);
    p.block = 32;
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned i = 0; i < 32; i++)
            p.v[8 + i][l] = 0x38383838; /* A and B have ones */
        for (unsigned block = 0; block < 4; block++) {
            p.v[40][l] |= ((15 + block) << 3 | l % 8) << 8 * block;      /* E5M3 */
            p.v[41][l] |= ((7 - block) << 3 | (l + 3) % 8) << 8 * block; /* E4M3 */
        }
    }
    p.v[40][5] = 3;       /* a denormal in block 0, and 0 in the others */
    p.v[40][6] |= 0xff;   /* NaN */
    p.v[41][7] |= 0x7f00; /* NaN */
    program_run(
        &p, "v_wmma_scale_f32_16x16x128_f8f6f4 v[48:55], v[8:23], v[24:39], 0, v40, v41 "
            "matrix_a_scale_fmt:MATRIX_SCALE_FMT_E5M3 matrix_b_scale_fmt:MATRIX_SCALE_FMT_E4M3\n");
    for (unsigned m = 0; m < 16; m++) {
        for (unsigned n = 0; n < 16; n++) {
            const float got = float_of(p.v[48 + m % 8][m / 8 * 16 + n]);
            const double a = 8 + m % 8, b = 8 + (n + 3) % 8;
            if (m == 6 || n == 7)
                assert_true(isnan(got));
            else if (m == 5)
                assert_true((double)got == ldexp(32 * 3 * b, -14 - 3 - 3));
            else
                assert_true((double)got == 4 * 32 * a * b / 64);
        }
    }
}

int main(void) { return run_unit_tests(); }
