/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests DPP, SDWA, lane access and compares: CDNA3 ISA, "Data Parallel Processing", "Sub-dword
 * addressing", VOPC, and the lane instructions of VOP1 and VOP3.
 */
#include <stdio.h>

#include "tools/hipsim/tests/program.h"

#define NONE 0xff

/* Each of these functions returns the source lane of lane i, by the definition of a DPP_CTRL
 * value. NONE: lane i has no source lane. */
static unsigned shl1(unsigned i) { return i % 16 < 15 ? i + 1 : NONE; }
static unsigned shr3(unsigned i) { return i % 16 >= 3 ? i - 3 : NONE; }
static unsigned ror2(unsigned i) { return (i & 48) | ((i - 2) & 15); }
static unsigned mirror(unsigned i) { return (i & 48) | (15 - i % 16); }
static unsigned half_mirror(unsigned i) { return (i & 56) | (7 - i % 8); }
static unsigned quad(unsigned i) { return (i & 60) | (unsigned[]){1, 0, 3, 2}[i & 3]; }
static unsigned wave_shl(unsigned i) { return i < 63 ? i + 1 : NONE; }
static unsigned wave_shr(unsigned i) { return i ? i - 1 : NONE; }
static unsigned wave_rol(unsigned i) { return (i + 1) & 63; }
static unsigned wave_ror(unsigned i) { return (i - 1) & 63; }
static unsigned bcast15(unsigned i) { return i >= 16 ? (i & 48) - 1 : NONE; }
static unsigned bcast31(unsigned i) { return i >= 32 ? 31 : NONE; }
static unsigned newbcast5(unsigned i) { return (i & 48) | 5; }

TEST(dpp_moves_lanes)
{
    static const struct {
        const char *ctrl;
        unsigned (*source)(unsigned);
    } forms[] = {
        {"row_shl:1", shl1},
        {"row_shr:3", shr3},
        {"row_ror:2", ror2},
        {"row_mirror", mirror},
        {"row_half_mirror", half_mirror},
        {"quad_perm:[1,0,3,2]", quad},
        {"wave_shl:1", wave_shl},
        {"wave_shr:1", wave_shr},
        {"wave_rol:1", wave_rol},
        {"wave_ror:1", wave_ror},
        {"row_bcast:15", bcast15},
        {"row_bcast:31", bcast31},
        {"row_newbcast:5", newbcast5},
    };
    for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
        struct program p = program_new(GFX942);
        for (unsigned i = 0; i < 64; i++)
            p.v[1][i] = 100 + i;
        program_fill(&p, 0, 7);
        program_fill(&p, 2, 7);
        p.exec &= ~(UINT64_C(1) << 20); /* an inactive source counts as missing */
        char text[256];
        snprintf(text, sizeof(text),
                 "v_mov_b32_dpp v0, v1 %s row_mask:0xf bank_mask:0xf\n"
                 "v_mov_b32_dpp v2, v1 %s row_mask:0xf bank_mask:0xf bound_ctrl:0",
                 forms[k].ctrl, forms[k].ctrl);
        program_run(&p, text);
        for (unsigned i = 0; i < 64; i++) {
            unsigned source = forms[k].source(i);
            bool there = source != NONE && source != 20, on = i != 20;
            assert_int_equal(p.v[0][i], on && there ? 100 + source : 7);
            assert_int_equal(p.v[2][i], !on ? 7 : there ? 100 + source : 0);
        }
    }
}

/* Returns the lane that `lane` reads, from the table of CDNA3 ISA, "DPP_CTRL". */
static unsigned by_control(unsigned control, unsigned lane)
{
    const unsigned n = control & 15, in_row = lane % 16, row = lane - in_row;
    switch (control >> 4) {
    case 0x10: return in_row + n < 16 ? lane + n : NONE;
    case 0x11: return in_row >= n ? lane - n : NONE;
    case 0x12: return row + (in_row + 16 - n) % 16;
    case 0x15: return row + n;
    default: return lane / 4 * 4 + (control >> lane % 4 * 2 & 3);
    }
}

static int write_control(char *text, size_t room, unsigned reg, unsigned control)
{
    static const char *const names[] = {"shl", "shr", "ror", "", "", "newbcast"};
    char name[40];
    if (control < 0x100)
        snprintf(name, sizeof(name), "quad_perm:[%u,%u,%u,%u]", control & 3, control >> 2 & 3,
                 control >> 4 & 3, control >> 6);
    else
        snprintf(name, sizeof(name), "row_%s:%u", names[control / 16 % 16], control & 15);
    return snprintf(text, room, "v_mov_b32_dpp v%u, v1 %s row_mask:0xf bank_mask:0xf%s\n", reg,
                    name, reg % 2 ? "" : " bound_ctrl:0");
}

/* Tests all controls that contain a number. */
TEST(every_dpp_control)
{
    unsigned controls[512], n = 0;
    for (unsigned c = 0; c < 0x160; c++)
        if (c < 0x100 || c >= 0x150 || (c < 0x130 && c & 15))
            controls[n++] = c;
    for (unsigned from = 0; from < n; from += 50) {
        char text[8192];
        int at = 0;
        struct program p = program_new(GFX942);
        for (unsigned k = from; k < n && k < from + 50; k++) {
            at += write_control(text + at, sizeof(text) - (size_t)at, 2 + k - from, controls[k]);
            program_fill(&p, 2 + k - from, 7777);
        }
        for (unsigned i = 0; i < 64; i++)
            p.v[1][i] = 100 + i;
        program_run(&p, text);
        for (unsigned k = from; k < n && k < from + 50; k++)
            for (unsigned lane = 0; lane < 64; lane++) {
                const unsigned reg = 2 + k - from, source = by_control(controls[k], lane);
                const uint32_t none = reg % 2 ? 7777 : 0;
                if (p.v[reg][lane] != (source == NONE ? none : 100 + source))
                    fail_msg("control %#x, lane %u: %u", controls[k], lane, p.v[reg][lane]);
            }
    }
}

TEST(dpp_masks_rows_and_banks)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 1, 5);
    program_fill(&p, 2, 10);
    program_run(&p, "v_add_u32_dpp v0, v1, v2 quad_perm:[0,1,2,3] row_mask:0x5 bank_mask:0x3\n"
                    "v_add_f32_dpp v3, -v1, |v2| row_newbcast:0 row_mask:0xf bank_mask:0xf");
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(p.v[0][i], (i / 16) % 2 == 0 && i / 4 % 4 < 2 ? 15 : 0);
    assert_int_equal(p.v[3][9], 5); /* -5 + 10, as subnormals */
}

TEST(sdwa_selects_and_merges)
{
    static const struct op_case cases[] = {
        {"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:BYTE_2", 0x11223344,
         0, 0, 0x2200},
        {"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2",
         0x11223344, 0, 0, 0xdead22ef},
        {"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_0", 0x112233f4,
         0, 0, 0xfffff400},
        {"v_mov_b32_sdwa v0, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
         0x112233f4, 0, 0, 0x33f4beef},
        {"v_add_u32_sdwa v0, v2, sext(v4) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 "
         "src1_sel:BYTE_3",
         0x00050000, 0xff000000, 0, 4},
        {"v_add_f16_sdwa v0, -v2, |v4| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 "
         "src1_sel:WORD_0",
         0x3c000000, 0xc000, 0, 0x3c00beef},
        {"v_mul_f32_sdwa v0, v2, v4 clamp dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD "
         "src1_sel:DWORD",
         0x40000000, 0x40000000, 0, 0x3f800000},
        {"v_cvt_f32_ubyte0_sdwa v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3",
         0x07000000, 0, 0, 0x40e00000},
    };
    CHECK_CASES(GFX942, MODE_DEFAULT, cases);
    struct program p = program_new(GFX942);
    p.s[2] = 0x00030002;
    program_fill(&p, 1, 0x00000300);
    program_run(&p, "v_add_u32_sdwa v0, s2, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 "
                    "src1_sel:BYTE_1\n"
                    "v_cmp_eq_u32_sdwa s[4:5], v1, v1 src0_sel:BYTE_1 src1_sel:DWORD");
    assert_int_equal(p.v[0][3], 6);
    assert_int_equal(program_s64(&p, 4), 0);
}

TEST(lanes_are_read_and_written)
{
    struct program p = program_new(GFX942);
    for (unsigned i = 0; i < 64; i++)
        p.v[1][i] = i * 3;
    p.s[2] = 70; /* lane 70 modulo 64 */
    p.s[3] = 1000;
    p.exec = UINT64_C(0xff00);
    p.v_valid[1] = ~UINT64_C(1);
    program_run(&p, "v_readlane_b32 s0, v1, s2\nv_readfirstlane_b32 s1, v1\n"
                    "v_writelane_b32 v1, s3, 63\nv_readlane_b32 s4, v1, 63\n"
                    "v_readlane_b32 s5, v1, 0");
    assert_int_equal(p.s[0], 18);
    assert_int_equal(p.s[1], 24);
    assert_int_equal(p.s[4], 1000);
    assert_int_equal(p.s_valid[4], UINT32_MAX);
    assert_int_equal(p.s_valid[5], 0);
    p.s_valid[6] = 0xff;
    p.s_valid[7] = 0;
    program_run(&p, "v_writelane_b32 v2, s6, 0\nv_writelane_b32 v2, s7, 1");
    assert_int_equal(p.v_valid[2], ~UINT64_C(2));
    p.exec = 0;
    program_run(&p, "v_readfirstlane_b32 s1, v1"); /* reads lane 0 if no lane is active */
    assert_int_equal(p.s[1], 0);
}

TEST(swaps)
{
    struct program p = program_new(GFX950);
    for (unsigned i = 0; i < 64; i++) {
        p.v[1][i] = p.v[3][i] = p.v[5][i] = i;
        p.v[2][i] = p.v[4][i] = p.v[6][i] = 100 + i;
    }
    program_run(&p, "v_swap_b32 v1, v2\nv_permlane16_swap_b32 v3, v4\n"
                    "v_permlane32_swap_b32 v5, v6");
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(p.v[1][i], 100 + i);
        assert_int_equal(p.v[2][i], i);
        /* swaps odd rows of vdst with even rows of src0 */
        assert_int_equal(p.v[3][i], i & 16 ? 100 + (i - 16) : i);
        assert_int_equal(p.v[4][i], i & 16 ? 100 + i : i + 16);
        assert_int_equal(p.v[5][i], i & 32 ? 100 + (i - 32) : i);
        assert_int_equal(p.v[6][i], i & 32 ? 100 + i : i + 32);
    }
}

TEST(accumulation_registers)
{
    struct program p = program_new(GFX942);
    program_fill(&p, 1, 55);
    program_run(&p, "v_accvgpr_write_b32 a1, v1\nv_accvgpr_mov_b32 a2, a1\n"
                    "v_accvgpr_read_b32 v0, a2\nv_accvgpr_write_b32 a3, 1.0");
    assert_int_equal(p.v[0][63], 55);
    assert_int_equal(p.a[3][0], 0x3f800000);
}

/* Tests the mask that a compare of each relation gives. Each lane has a pair of values. */
TEST(compares_of_every_relation)
{
    struct program p = program_new(GFX942);
    const uint32_t nan = 0x7fc00000;
    const uint32_t a[4] = {0x3f800000, 0x40000000, 0x40000000, nan};
    const uint32_t b[4] = {0x40000000, 0x40000000, 0x3f800000, 0x3f800000};
    for (unsigned i = 0; i < 4; i++) {
        p.v[1][i] = a[i];
        p.v[2][i] = b[i];
    }
    p.exec = 15;
    /* lane 0: less, 1: equal, 2: greater, 3: unordered */
    static const struct {
        const char *op;
        uint32_t mask;
    } relations[] = {
        {"f", 0},    {"lt", 1},   {"eq", 2},   {"le", 3},   {"gt", 4},   {"lg", 5},
        {"ge", 6},   {"o", 7},    {"u", 8},    {"nge", 9},  {"nlg", 10}, {"ngt", 11},
        {"nle", 12}, {"neq", 13}, {"nlt", 14}, {"tru", 15},
    };
    for (size_t k = 0; k < 16; k++) {
        char text[128];
        snprintf(text, sizeof(text), "v_cmp_%s_f32 vcc, v1, v2\nv_cmpx_%s_f32 s[4:5], v1, v2",
                 relations[k].op, relations[k].op);
        struct program q = p;
        program_run(&q, text);
        assert_int_equal(q.s[SGPR_VCC], relations[k].mask);
        assert_int_equal(q.s[4], relations[k].mask);
        assert_int_equal(q.exec, relations[k].mask);
    }
}

TEST(compares_of_every_type)
{
    static const struct {
        const char *text;
        uint64_t a, b;
        bool want;
    } cases[] = {
        {"v_cmp_lt_i16 vcc, v2, v4", 0x1234ffff, 0xabcd0001, true},
        {"v_cmp_lt_u16 vcc, v2, v4", 0x1234ffff, 0xabcd0001, false},
        {"v_cmp_gt_i32 vcc, v2, v4", 1, 0xffffffff, true},
        {"v_cmp_gt_u32 vcc, v2, v4", 1, 0xffffffff, false},
        {"v_cmp_le_i64 vcc, v[2:3], v[4:5]", UINT64_MAX, 0, true},
        {"v_cmp_le_u64 vcc, v[2:3], v[4:5]", UINT64_MAX, 0, false},
        {"v_cmp_ne_u64 vcc, v[2:3], v[4:5]", UINT64_C(1) << 40, UINT64_C(1) << 41, true},
        {"v_cmp_lt_f16 vcc, v2, v4", 0x8001, 0x0000, true},
        {"v_cmp_lt_f64 vcc, v[2:3], v[4:5]", UINT64_C(0xbff0000000000000), 0, true},
        {"v_cmp_t_i32 vcc, v2, v4", 0, 0, true},
        {"v_cmp_f_u32 vcc, v2, v4", 0, 0, false},
        /* class bits from bit 0: sNaN qNaN -inf -normal -subnormal -0 +0 +subnormal +normal +inf */
        {"v_cmp_class_f32 vcc, v2, v4", 0x7f800001, 0x001, true},
        {"v_cmp_class_f32 vcc, v2, v4", 0x7fc00001, 0x001, false},
        {"v_cmp_class_f32 vcc, v2, v4", 0xff800000, 0x004, true},
        {"v_cmp_class_f32 vcc, v2, v4", 0x80000001, 0x010, true},
        {"v_cmp_class_f32 vcc, v2, v4", 0x80000000, 0x020, true},
        {"v_cmp_class_f32 vcc, v2, v4", 0x3f800000, 0x2ff, false},
        {"v_cmp_class_f16 vcc, v2, v4", 0x0001, 0x080, true},
        {"v_cmp_class_f64 vcc, v[2:3], v4", UINT64_C(0x7ff0000000000000), 0x200, true},
        {"v_cmp_eq_f32_e64 vcc, -v2, |v4|", 0xbf800000, 0xbf800000, true},
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct program p = program_new(GFX942);
        program_fill64(&p, 2, cases[k].a);
        program_fill64(&p, 4, cases[k].b);
        program_run(&p, cases[k].text);
        if (program_s64(&p, SGPR_VCC) != (cases[k].want ? UINT64_MAX : 0))
            fail_msg("%s gives %#llx", cases[k].text,
                     (unsigned long long)program_s64(&p, SGPR_VCC));
    }
}

TEST(a_register_in_flight_must_not_be_used)
{
    struct program p = program_new(GFX942);
    p.lds_bytes = 1024;
    program_try(&p, "v_mov_b32 v1, 0\nds_write_b32 v1, v1\nds_read_b32 v2, v1\n"
                    "v_add_u32 v3, v2, v2\nds_read_b32 v4, v3");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    /* A discarded undefined value is no finding: AITER's paged decode discards some. */
    p = program_new(GFX942);
    p.lds_bytes = 1024;
    program_run(&p, "v_mov_b32 v1, 0\nds_write_b32 v1, v1\nds_read_b32 v2, v1\n"
                    "v_add_u32 v3, v2, v2\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v_valid[3], 0);
    p = program_new(GFX942);
    p.lds_bytes = 1024;
    program_run(&p, "v_mov_b32 v1, 0\nds_write_b32 v1, v1\nds_read_b32 v2, v1\n"
                    "s_waitcnt lgkmcnt(0)\nv_add_u32 v3, v2, v2");
}

int main(void) { return run_unit_tests(); }
