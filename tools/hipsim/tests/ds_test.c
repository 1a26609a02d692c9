/* SPDX-License-Identifier: Apache-2.0 */
/* Tests LDS. Expectations come from the pseudo-code of the CDNA3 and CDNA4 ISA manuals, DS_*
 * sections. */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

static struct program lds_program(enum gfx_target target)
{
    struct program p = program_new(target);

    p.lds_bytes = 4096;
    program_lanes(&p, 0, 4);
    return p;
}

TEST(narrow_writes_and_reads_extend_or_merge)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 1, 0x8182f384);
    program_fill(&p, 10, 0xaaaabbbb);
    program_fill(&p, 11, 0xaaaabbbb);
    program_fill(&p, 12, 0xaaaabbbb);
    /* b8 stores bits 7:0, b8_d16_hi bits 23:16, b16_d16_hi bits 31:16. d16 loads clear the
     * other half. */
    program_run(&p, "ds_write_b8 v0, v1\nds_write_b8_d16_hi v0, v1 offset:1\n"
                    "ds_write_b16_d16_hi v0, v1 offset:2\n"
                    "ds_read_u8 v2, v0\nds_read_i8 v3, v0 offset:1\nds_read_u16 v4, v0 offset:2\n"
                    "ds_read_i16 v5, v0 offset:2\nds_read_b32 v6, v0\n"
                    "ds_read_u8_d16 v10, v0\nds_read_i8_d16_hi v11, v0 offset:1\n"
                    "ds_read_u16_d16_hi v12, v0 offset:2\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[2][9], 0x84);
    assert_int_equal(p.v[3][9], 0xffffff82);
    assert_int_equal(p.v[4][9], 0x8182);
    assert_int_equal(p.v[5][9], 0xffff8182);
    assert_int_equal(p.v[6][9], 0x81828284);
    assert_int_equal(p.v[10][9], 0x0084);
    assert_int_equal(p.v[11][9], 0xff820000);
    assert_int_equal(p.v[12][9], 0x81820000);
}

TEST(wide_and_two_address_forms_agree)
{
    struct program p = lds_program(GFX942);
    program_lanes(&p, 0, 16);
    for (unsigned r = 0; r < 4; r++)
        program_lanes(&p, 4 + r, r + 1);
    program_run(&p, "ds_write_b128 v0, v[4:7]\n"
                    "ds_read2_b32 v[8:9], v0 offset0:1 offset1:3\n"
                    "ds_read_b96 v[10:12], v0\nds_read2_b64 v[14:17], v0 offset0:1 offset1:0\n"
                    "ds_read_b64 v[20:21], v0 offset:8\n"
                    "ds_read2st64_b32 v[22:23], v0 offset0:0 offset1:1\ns_waitcnt lgkmcnt(0)");
    for (unsigned l = 0; l < 48; l++) {
        assert_int_equal(p.v[8][l], 2 * l);
        assert_int_equal(p.v[9][l], 4 * l);
        assert_int_equal(p.v[12][l], 3 * l);
        assert_int_equal(p.v[14][l], 3 * l); /* offset0 counts 8 bytes */
        assert_int_equal(p.v[17][l], 2 * l);
        assert_int_equal(p.v[21][l], 4 * l);
        assert_int_equal(p.v[23][l], l + 16); /* offset1 counts 64 * 4 bytes, 16 lanes */
    }
}

/* DS_WRITE2 stores DATA0 to the first address, then DATA1 to the second (CDNA3 ISA). If both
 * addresses are equal, DATA1 remains and decides which bits are defined. */
TEST(pairs_of_writes_go_in_order)
{
    struct program p = lds_program(GFX942);
    program_lanes(&p, 0, 16);
    for (unsigned r = 4; r < 8; r++)
        program_lanes(&p, r, r);
    p.v_valid[12] = 0;
    program_run(&p, "ds_write2_b32 v0, v4, v5 offset0:1 offset1:1\n"
                    "ds_write2_b64 v0, v[4:5], v[6:7] offset0:1 offset1:1\n"
                    "ds_write2_b32 v0, v12, v7 offset0:0 offset1:0\ns_waitcnt lgkmcnt(0)\n"
                    "ds_read_b128 v[8:11], v0\ns_waitcnt lgkmcnt(0)\n"
                    "v_cmp_eq_u32 vcc, 0, v8\ns_cbranch_vccz over\nover:");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[8][l], 7 * l);
        assert_int_equal(p.v[9][l], 5 * l);
        assert_int_equal(p.v[10][l], 6 * l);
        assert_int_equal(p.v[11][l], 7 * l);
    }
}

TEST(atomics_of_colliding_lanes_all_count)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 0, 0);
    program_fill(&p, 1, 0);
    program_lanes(&p, 2, 1);
    program_fill(&p, 3, 3);
    program_run(&p, "ds_write_b64 v0, v[0:1]\nds_add_u32 v0, v2\nds_add_rtn_u32 v4, v0, v2\n"
                    "ds_inc_rtn_u32 v5, v0, v3 offset:4\nds_read_b32 v6, v0\n"
                    "ds_read_b32 v7, v0 offset:4\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[6][0], 2 * 63 * 32);
    assert_int_equal(p.v[4][0], 63 * 32);
    assert_int_equal(p.v[4][63], 63 * 32 + 62 * 63 / 2); /* lanes act in ascending order */
    for (unsigned l = 0; l < 64; l++)                    /* result: tmp >= src ? 0 : tmp + 1 */
        assert_int_equal(p.v[5][l], l % 4);
    assert_int_equal(p.v[7][0], 0);
}

TEST(each_atomic_computes_its_operation)
{
    static const struct {
        const char *name;
        uint32_t old, data, data2, want;
    } cases[] = {
        {"ds_sub_rtn_u32 v4, v0, v2", 5, 7, 0, 0xfffffffe},
        {"ds_rsub_rtn_u32 v4, v0, v2", 5, 7, 0, 2},
        {"ds_dec_rtn_u32 v4, v0, v2", 0, 7, 0, 7},
        {"ds_dec_rtn_u32 v4, v0, v2", 9, 7, 0, 7},
        {"ds_dec_rtn_u32 v4, v0, v2", 6, 7, 0, 5},
        {"ds_min_rtn_i32 v4, v0, v2", 0xffffffff, 7, 0, 0xffffffff},
        {"ds_max_rtn_i32 v4, v0, v2", 0xffffffff, 7, 0, 7},
        {"ds_min_rtn_u32 v4, v0, v2", 0xffffffff, 7, 0, 7},
        {"ds_max_rtn_u32 v4, v0, v2", 0xffffffff, 7, 0, 0xffffffff},
        {"ds_and_rtn_b32 v4, v0, v2", 12, 10, 0, 8},
        {"ds_or_rtn_b32 v4, v0, v2", 12, 10, 0, 14},
        {"ds_xor_rtn_b32 v4, v0, v2", 12, 10, 0, 6},
        {"ds_mskor_rtn_b32 v4, v0, v2, v3", 0xff, 0x0f, 0x100, 0x1f0},
        {"ds_cmpst_rtn_b32 v4, v0, v2, v3", 5, 5, 9, 9},
        {"ds_cmpst_rtn_b32 v4, v0, v2, v3", 5, 6, 9, 5},
        {"ds_cmpst_rtn_f32 v4, v0, v2, v3", 0x80000000, 0, 9, 9}, /* -0 equals +0 */
        {"ds_wrxchg_rtn_b32 v4, v0, v2", 5, 6, 0, 6},
        {"ds_wrap_rtn_b32 v4, v0, v2, v3", 9, 7, 100, 2},
        {"ds_wrap_rtn_b32 v4, v0, v2, v3", 5, 7, 100, 105},
        {"ds_wrap_rtn_b32 v4, v0, v2, v3", 7, 7, 100, 0},
        {"ds_add_rtn_f32 v4, v0, v2", 0x3f800000, 0x40000000, 0, 0x40400000},
        {"ds_min_rtn_f32 v4, v0, v2", 0x3f800000, 0xc0000000, 0, 0xc0000000},
        {"ds_max_rtn_f32 v4, v0, v2", 0x3f800000, 0x7fc00000, 0, 0x3f800000},
        {"ds_pk_add_rtn_f16 v4, v0, v2", 0x3c004000, 0x3c003c00, 0, 0x40004200},
        {"ds_pk_add_rtn_bf16 v4, v0, v2", 0x3f804000, 0x3f803f80, 0, 0x40004040},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program p = lds_program(GFX942);
        char text[256];
        program_fill(&p, 1, cases[i].old);
        program_fill(&p, 2, cases[i].data);
        program_fill(&p, 3, cases[i].data2);
        snprintf(text, sizeof(text),
                 "ds_write_b32 v0, v1\n%s\nds_read_b32 v5, v0\n"
                 "s_waitcnt lgkmcnt(0)",
                 cases[i].name);
        program_run(&p, text);
        assert_int_equal(p.v[4][17], cases[i].old);
        if (p.v[5][17] != cases[i].want)
            fail_msg("%s: %08x, not %08x", cases[i].name, p.v[5][17], cases[i].want);
    }
}

/* Tests offset0 and offset1, which count elements, or 64 elements in the st64 forms. */
TEST(pairs_of_every_form)
{
    struct program p = lds_program(GFX942);
    p.exec = 1;
    for (unsigned r = 0; r < 6; r++)
        p.v[2 + r][0] = 100 + r;
    program_run(&p, "ds_write2st64_b32 v0, v2, v3 offset0:1 offset1:2\n"
                    "ds_write2st64_b64 v0, v[4:5], v[6:7] offset0:2 offset1:3\n"
                    "ds_read_b32 v20, v0 offset:256\nds_read_b32 v21, v0 offset:512\n"
                    "ds_read_b64 v[22:23], v0 offset:1024\nds_read_b64 v[24:25], v0 offset:1536\n"
                    "ds_read2st64_b64 v[26:29], v0 offset0:3 offset1:2\n"
                    "ds_wrxchg2st64_rtn_b32 v[30:31], v0, v3, v2 offset0:1 offset1:2\n"
                    "ds_wrxchg2st64_rtn_b64 v[32:35], v0, v[6:7], v[4:5] offset0:2 offset1:3\n"
                    "ds_wrxchg2_rtn_b32 v[36:37], v0, v4, v5 offset0:64 offset1:128\n"
                    "ds_wrxchg2_rtn_b64 v[38:41], v0, v[4:5], v[6:7] offset0:128 offset1:192\n"
                    "ds_read2st64_b32 v[42:43], v0 offset0:1 offset1:2\n"
                    "ds_read2st64_b64 v[44:47], v0 offset0:2 offset1:3\ns_waitcnt lgkmcnt(0)");
    static const uint32_t want[] = {100, 101, 102, 103, 104, 105, 104, 105, 102, 103,
                                    100, 101, 102, 103, 104, 105, 101, 100, 104, 105,
                                    102, 103, 102, 103, 102, 103, 104, 105};
    for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++)
        if (p.v[20 + i][0] != want[i])
            fail_msg("v%u is %u, not %u", 20 + i, p.v[20 + i][0], want[i]);
}

/* Tests DS_CONDXCHG32_RTN_B64. It exchanges a dword if bit 31 of the operand is set, and stores
 * bits 30:0. */
TEST(dwords_are_exchanged_on_condition)
{
    static const uint64_t data[] = {UINT64_C(0x0000000980000007), UINT64_C(0x8000000900000007)};
    static const uint64_t want[] = {UINT64_C(0x0000000600000007), UINT64_C(0x0000000900000005)};
    for (unsigned i = 0; i < 2; i++) {
        struct program p = lds_program(GFX942);
        p.exec = 1;
        program_fill64(&p, 2, UINT64_C(0x0000000600000005));
        program_fill64(&p, 4, data[i]);
        program_run(&p, "ds_write_b64 v0, v[2:3]\nds_condxchg32_rtn_b64 v[6:7], v0, v[4:5]\n"
                        "ds_read_b64 v[8:9], v0\ns_waitcnt lgkmcnt(0)");
        assert_int_equal(program_v64(&p, 6, 0), UINT64_C(0x0000000600000005));
        assert_int_equal(program_v64(&p, 8, 0), want[i]);
    }
}

TEST(permutes_move_lanes)
{
    struct program p = lds_program(GFX942);
    program_lanes(&p, 1, 1);
    for (unsigned l = 0; l < 64; l++) {
        p.v[2][l] = (63 - l) * 4;
        p.v[3][l] = l / 2 * 4; /* several lanes push to a lane: the highest one remains */
    }
    p.exec = 0x7fffffffffffffff;
    program_run(&p, "ds_bpermute_b32 v4, v2, v1\nds_permute_b32 v5, v3, v1\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[4][0], 0); /* lane 63 is inactive, so the result is 0 */
    assert_int_equal(p.v[4][5], 58);
    assert_int_equal(p.v[5][3], 7);
    assert_int_equal(p.v[5][31], 62);
    assert_int_equal(p.v[5][40], 0); /* no lane pushes to lane 40 */
    p.exec = ~UINT64_C(4);
    p.v_valid[1] = ~UINT64_C(0x84);
    program_run(&p, "ds_bpermute_b32 v4, v2, v1 offset:8\nds_permute_b32 v5, v2, v1 offset:8\n"
                    "s_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[4][20], 45); /* the offset is two lanes */
    assert_int_equal(p.v[5][45], 20);
    assert_int_equal(p.v[4][1], 0); /* lane 64 is lane 0 */
    assert_int_equal(p.v[4][0], 1);
    /* Lane 7 has undefined data. Lane 2 is inactive, so its data are zero. */
    assert_int_equal(p.v_valid[4] | 4, ~(UINT64_C(1) << 58) | 4);
    assert_int_equal(p.v_valid[5] | 4, ~(UINT64_C(1) << 58) | 4);
}

TEST(swizzle_modes)
{
    struct program p = lds_program(GFX942);
    program_lanes(&p, 1, 1);
    program_run(&p, "ds_swizzle_b32 v2, v1 offset:swizzle(QUAD_PERM, 3, 2, 1, 0)\n"
                    "ds_swizzle_b32 v3, v1 offset:swizzle(SWAP, 16)\n"
                    "ds_swizzle_b32 v4, v1 offset:swizzle(BROADCAST, 8, 3)\n"
                    "ds_swizzle_b32 v5, v1 offset:0xc020\n" /* rotates by one lane */
                    "ds_swizzle_b32 v6, v1 offset:0xe000\n" /* FFT mode: reverses the lane's bits */
                    "ds_swizzle_b32 v7, v1 offset:0xe01f\ns_waitcnt lgkmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        assert_int_equal(p.v[2][l], l ^ 3);
        assert_int_equal(p.v[3][l], l ^ 16);
        assert_int_equal(p.v[4][l], (l & ~7u) + 3);
        assert_int_equal(p.v[5][l], (l & 32) | ((l + 1) & 31));
        assert_int_equal(p.v[7][l], l); /* no swizzle */
    }
    assert_int_equal(p.v[6][1], 16); /* the manual counts lanes from 1, in hexadecimal: 1, 11, 9,
                                        19, ... */
    assert_int_equal(p.v[6][2], 8);
    assert_int_equal(p.v[6][35], 32 + 24);
    p.exec = ~UINT64_C(0x20);
    program_run(&p, "ds_swizzle_b32 v2, v1 offset:0xc440\n" /* rotates back by two lanes */
                    "ds_swizzle_b32 v3, v1 offset:0xc038\n" /* in groups of eight lanes */
                    "ds_swizzle_b32 v4, v1 offset:swizzle(SWAP, 1)\ns_waitcnt lgkmcnt(0)");
    for (unsigned l = 0; l < 64; l++) {
        const unsigned back = (l & 32) | ((l - 2) & 31), group = (l & ~7u) | ((l + 1) & 7);
        if (l == 5)
            continue;
        assert_int_equal(p.v[2][l], back == 5 ? 0 : back);
        assert_int_equal(p.v[3][l], group == 5 ? 0 : group);
        assert_int_equal(p.v[4][l], l == 4 ? 0 : l ^ 1); /* lane 5 is inactive */
    }
}

TEST(append_and_addtid_use_m0)
{
    struct program p = lds_program(GFX942);
    program_lanes(&p, 1, 7);
    program_fill(&p, 2, 1024);
    program_fill(&p, 3, 100);
    p.s[SGPR_M0] = 1024;
    p.exec = 0xff;
    program_run(&p, "ds_write_b32 v2, v3\nds_append v4\nds_consume v5\nds_append v6\n"
                    "s_mov_b32 m0, 256\ns_nop 0\nds_write_addtid_b32 v1 offset:64\n"
                    "ds_read_b32 v7, v0 offset:320\nds_read_addtid_b32 v8 offset:64\n"
                    "s_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[4][3], 100);
    assert_int_equal(p.v[5][3], 108);
    assert_int_equal(p.v[6][3], 100);
    assert_int_equal(p.v[7][5], 35);
    assert_int_equal(p.v[8][5], 35);
    p.s[SGPR_M0] = 0xf0400; /* bits 15:0 of M0 count */
    program_run(&p,
                "ds_write_b32 v2, v3 offset:16\nds_append v4 offset:16\nds_append v5 offset:16\n"
                "ds_write_addtid_b32 v1 offset:64\nds_read_b32 v7, v0 offset:1088\n"
                "ds_read_addtid_b32 v8 offset:64\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[4][3], 100);
    assert_int_equal(p.v[5][3], 108);
    assert_int_equal(p.v[7][5], 35);
    assert_int_equal(p.v[8][5], 35);
}

/* Sixteen lanes read the rows of an n x 16 matrix, and each lane receives a column. */
TEST(transposing_reads_give_columns)
{
    static const struct {
        unsigned bits;
        const char *name;
    } forms[] = {
        {16, "ds_read_b64_tr_b16 v[8:9], v1"},
        {8, "ds_read_b64_tr_b8 v[8:9], v1"},
        {4, "ds_read_b64_tr_b4 v[8:9], v1"},
        {6, "ds_read_b96_tr_b6 v[8:10], v1"},
    };

    (void)state;
    for (unsigned f = 0; f < 4; f++) {
        struct program p = lds_program(GFX950);
        unsigned bits = forms[f].bits, dwords = bits == 6 ? 3 : 2, n = dwords * 32 / bits;
        char text[256];
        program_lanes(&p, 1, 16);
        for (unsigned l = 0; l < 64; l++)
            for (unsigned r = 0; r < 4; r++)
                p.v[4 + r][l] = l * 0x9e3779b9u ^ r * 0x85ebca6bu;
        snprintf(text, sizeof(text), "ds_write_b128 v1, v[4:7]\n%s\ns_waitcnt lgkmcnt(0)",
                 forms[f].name);
        program_run(&p, text);
        for (unsigned l = 0; l < 64; l++)
            for (unsigned b = 0; b < n * bits; b++) {
                unsigned e = b / bits, linear = e * 16 + l % 16;
                unsigned from = l / 16 * 16 + linear / n, at = linear % n * bits + b % bits;
                assert_int_equal(p.v[8 + b / 32][l] >> b % 32 & 1,
                                 p.v[4 + at / 32][from] >> at % 32 & 1);
            }
    }
}

/* Tests two rules: EXEC is all ones, and addresses are multiples of 8, of 16 for b6 (CDNA4 ISA,
 * 11.4). */
TEST(transposing_reads_have_rules)
{
    struct program p = lds_program(GFX950);
    program_lanes(&p, 1, 8);
    program_lanes(&p, 2, 16);
    program_fill(&p, 4, 1);
    const char *fill = "ds_write_b128 v2, v[4:7]\ns_waitcnt lgkmcnt(0)\n";
    char text[200];
    static const struct {
        const char *read;
        uint64_t exec;
        enum fault_kind want;
    } cases[] = {
        {"ds_read_b64_tr_b16 v[8:9], v1", UINT64_MAX, FAULT_NONE},
        {"ds_read_b64_tr_b16 v[8:9], v1", UINT64_MAX - 1, FAULT_TRAP},
        {"ds_read_b64_tr_b16 v[8:9], v1 offset:4", UINT64_MAX, FAULT_ALIGN},
        {"ds_read_b96_tr_b6 v[8:10], v2", UINT64_MAX, FAULT_NONE},
        {"ds_read_b96_tr_b6 v[8:10], v2 offset:8", UINT64_MAX, FAULT_ALIGN},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(text, sizeof(text), "%s%s\ns_waitcnt lgkmcnt(0)", fill, cases[i].read);
        p.exec = cases[i].exec;
        program_try(&p, text);
        assert_int_equal(p.fault.kind, cases[i].want);
    }
}

TEST(out_of_range_is_reported_or_reads_zero)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 1, 4096 - 60 * 4);
    program_fill(&p, 2, 77);
    for (unsigned l = 0; l < 64; l++)
        p.v[1][l] = 4096 - 240 + 4 * l; /* lanes 60 to 63 are beyond the end */
    program_try(&p, "ds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    assert_int_equal(p.fault.lanes, 0xf000000000000000);
    p.checks &= ~(uint32_t)CHECK_MEMORY;
    program_run(&p, "ds_write_b32 v1, v2\nds_read_b32 v3, v1\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[3][59], 77);
    assert_int_equal(p.v[3][60], 0);
}

TEST(nothing_is_beyond_all_the_lds_of_a_compute_unit)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 2, 77);
    program_lanes(&p, 1, 128); /* lanes 32 to 63 are beyond the end */
    p.lds_limit = 2 * p.lds_bytes;
    program_try(&p, "ds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_MEMORY);
    assert_int_equal(p.fault.lanes, 0xffffffff00000000);
    p.lds_limit = p.lds_bytes;
    program_run(&p, "ds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\n"
                    "ds_read_b32 v3, v1\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.v[3][31], 77);
    assert_int_equal(p.v[3][32], 0);
}

/* A float atomic (CDNA4 ISA, 9.2 "Float memory atomics"). A compare-and-swap stores v8. */
struct float_case {
    const char *op;
    uint64_t memory, data, want;
};

static void check_float_cases(uint32_t mode, const struct float_case *cases, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct program p = lds_program(GFX942);
        char text[200];
        p.mode = mode;
        p.exec = 1;
        program_fill64(&p, 2, cases[i].memory);
        program_fill64(&p, 4, cases[i].data);
        program_fill64(&p, 8, 0x00000007);
        snprintf(text, sizeof(text),
                 "ds_write_b64 v0, v[2:3]\n%s\nds_read_b64 v[6:7], v0\n"
                 "s_waitcnt lgkmcnt(0)",
                 cases[i].op);
        program_run(&p, text);
        if (program_v64(&p, 6, 0) != cases[i].want)
            fail_msg("%s: %llx, not %llx", cases[i].op, (unsigned long long)program_v64(&p, 6, 0),
                     (unsigned long long)cases[i].want);
    }
}

#define CHECK_FLOATS(mode, cases) check_float_cases(mode, cases, sizeof(cases) / sizeof((cases)[0]))

/* A sum is the first NaN source, made quiet, or the default NaN. For minimum and maximum a
 * signalling NaN wins and becomes quiet, a quiet NaN loses, and -0 is less than +0. A NaN never
 * compares equal. */
TEST(nans_in_float_atomics)
{
    static const struct float_case cases[] = {
        {"ds_add_f32 v0, v4", 0x7f800000, 0xff800000, 0xffc00000},
        {"ds_add_f32 v0, v4", 0xff800001, 0x7fc00005, 0xffc00001},
        {"ds_add_f32 v0, v4", 0x3f800000, 0x7f800002, 0x7fc00002},
        {"ds_add_f64 v0, v[4:5]", UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000),
         UINT64_C(0xfff8000000000000)},
        {"ds_pk_add_f16 v0, v4", 0x7c00ffff, 0xfc007fff, 0xfe00ffff},
        {"ds_pk_add_bf16 v0, v4", 0x7f803f80, 0xff803f80, 0xffc04000},
        {"ds_max_f32 v0, v4", 0xff800003, 0x7f800000, 0xffc00003},
        {"ds_min_f32 v0, v4", 0xff800000, 0x7f800005, 0x7fc00005},
        {"ds_min_f32 v0, v4", 0x7fc00003, 0x3f800000, 0x3f800000},
        {"ds_max_f32 v0, v4", 0x3f800000, 0xffc00003, 0x3f800000},
        {"ds_max_f32 v0, v4", 0x80000000, 0x00000000, 0x00000000},
        {"ds_min_f32 v0, v4", 0x00000000, 0x80000000, 0x80000000},
        {"ds_min_f64 v0, v[4:5]", UINT64_C(0x7ff8000000000001), UINT64_C(0x3ff0000000000000),
         UINT64_C(0x3ff0000000000000)},
        {"ds_cmpst_f32 v0, v4, v8", 0x7fc00000, 0x7fc00000, 0x7fc00000},
    };
    CHECK_FLOATS(MODE_DEFAULT, cases);
}

/* MODE flushes compared values, sums in LDS and the result of a compare-and-swap. It does not flush
 * F64 sums. */
TEST(denormals_in_float_atomics)
{
    static const struct float_case kept[] = {
        {"ds_add_f32 v0, v4", 1, 2, 3},
        {"ds_pk_add_f16 v0, v4", 0x00010200, 0x00020200, 0x00030400},
        {"ds_max_f32 v0, v4", 3, 0x80000007, 3},
        {"ds_cmpst_f32 v0, v4, v8", 3, 0, 3},
    };
    CHECK_FLOATS(MODE_DEFAULT, kept);
    static const struct float_case flushed[] = {
        {"ds_add_f32 v0, v4", 0x00800001, 0x80800000, 0}, /* the sum is subnormal */
        {"ds_add_f64 v0, v[4:5]", 1, 2, 3},
        {"ds_pk_add_f16 v0, v4", 0x04018001, 0x84008002, 0x00008000},
        {"ds_max_f32 v0, v4", 3, 0x80000007, 3},
        {"ds_max_f32 v0, v4", 0x80000003, 5, 5},
        {"ds_max_f32 v0, v4", 3, 5, 3}, /* equal when both are flushed */
        {"ds_min_f64 v0, v[4:5]", 5, 3, 5},
        {"ds_cmpst_f32 v0, v4, v8", 3, 5, 0},
    };
    CHECK_FLOATS(MODE_IEEE, flushed);
}

TEST(undefined_lds_is_reported_where_it_is_stored)
{
    struct program p = lds_program(GFX942);
    void *out = device_alloc(256, NULL);
    program_addresses(&p, 4, out, 4);
    program_run(&p, "ds_read_b32 v3, v0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v6, v3");
    assert_int_equal(p.v_valid[6], 0);
    program_try(&p, "ds_read_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n"
                    "global_store_dword v[4:5], v3, off\ns_waitcnt vmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    program_run(&p, "ds_write_b8 v0, v1 offset:1\nds_read_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n"
                    "v_bfe_u32 v6, v3, 8, 8");
    assert_int_equal(p.v_valid[6], UINT64_MAX);
    program_fill(&p, 1, 5);
    program_run(&p, "ds_write_b32 v0, v1\nds_read_b32 v3, v0\ns_waitcnt lgkmcnt(0)\n"
                    "global_store_dword v[4:5], v3, off\ns_waitcnt vmcnt(0)");
    assert_int_equal(((uint32_t *)out)[63], 5);
}

TEST(undefined_addresses_are_found)
{
    static const char *const texts[] = {
        "ds_read_b32 v8, v1",
        "ds_write_b32 v1, v2",
        "ds_read2_b32 v[8:9], v1 offset1:1",
        "ds_write2_b32 v1, v2, v2 offset1:1",
        "ds_add_rtn_u32 v8, v1, v2",
        "ds_wrxchg2_rtn_b32 v[8:9], v1, v2, v2 offset1:1",
        "ds_permute_b32 v8, v1, v2",
        "ds_bpermute_b32 v8, v1, v2",
        "ds_read_b64_tr_b16 v[8:9], v1",
        "ds_read_addtid_b32 v8",
        "ds_append v8",
    };
    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct program p = lds_program(GFX950);
        char text[200];
        program_lanes(&p, 1, 8);
        p.v_valid[1] = ~(UINT64_C(1) << 33);
        p.s_valid[SGPR_M0] = 0;
        snprintf(text, sizeof(text),
                 "ds_write_b32 v0, v2\nds_write_b32 v0, v2 offset:256\ns_waitcnt lgkmcnt(0)\n%s\n"
                 "s_waitcnt lgkmcnt(0)",
                 texts[i]);
        program_try(&p, text);
        if (p.fault.kind != FAULT_UNINIT)
            fail_msg("%s passes", texts[i]);
    }
    /* Appends to an undefined dword. Without active lanes it accesses nothing. */
    struct program p = lds_program(GFX942);
    program_try(&p, "ds_append v8\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_UNINIT);
    program_run(&p, "s_mov_b64 exec, 0\nds_append v8\ns_waitcnt lgkmcnt(0)");
}

/* An undefined dword of one lane makes all reads of it undefined, at every width, and no other
 * reads. */
TEST(reads_of_undefined_bytes_are_undefined)
{
    struct program p = lds_program(GFX950);
    program_lanes(&p, 1, 16);
    p.v_valid[5] = ~(UINT64_C(1) << 7); /* bytes 116 .. 119 */
    program_run(&p, "ds_write_b128 v1, v[4:7]\nds_read_b128 v[8:11], v1\n"
                    "ds_read_b96 v[12:14], v1\nds_read_b64 v[16:17], v1\n"
                    "ds_read2_b32 v[18:19], v1 offset0:1 offset1:2\nds_read_u16 v20, v1 offset:6\n"
                    "ds_read_b64_tr_b16 v[22:23], v1\ns_waitcnt lgkmcnt(0)");
    const uint64_t all = UINT64_MAX, seventh = ~(UINT64_C(1) << 7);
    const struct {
        unsigned reg;
        uint64_t valid;
    } want[] = {
        {8, all},
        {9, seventh},
        {10, all},
        {11, all},
        {12, all},
        {13, seventh},
        {14, all},
        {16, all},
        {17, seventh},
        {18, seventh},
        {19, all},
        {20, seventh},
        /* Lane 7 loads row 1, columns 12 .. 15 of the matrix: of this width's four rows. */
        {22, ~UINT64_C(0xf000)},
        {23, ~UINT64_C(0xf000)},
    };
    for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++)
        if (p.v_valid[want[i].reg] != want[i].valid)
            fail_msg("v%u: lanes %016llx are defined", want[i].reg,
                     (unsigned long long)p.v_valid[want[i].reg]);
}

TEST(reads_must_be_waited_for)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 1, 5);
    program_try(&p, "ds_write_b32 v0, v1\nds_read_b32 v3, v0\ns_waitcnt lgkmcnt(1)\n"
                    "v_mov_b32 v4, v3\ns_waitcnt lgkmcnt(0)\nds_read_b32 v5, v4");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
    program_run(&p, "ds_write_b32 v0, v1\nds_read_b32 v3, v0\nds_read_b32 v5, v0\n"
                    "s_waitcnt lgkmcnt(1)\nv_mov_b32 v4, v3\ns_waitcnt lgkmcnt(0)");
}

/* LGKM_CNT has four bits (CDNA3 ISA, S_WAITCNT), so the sixteenth read issues when the first one
 * has returned. AITER's paged attention relies on that. */
TEST(a_full_counter_stalls_the_wave)
{
    struct program p = lds_program(GFX942);
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof(text), "ds_write_b32 v0, v1\ns_waitcnt lgkmcnt(0)");
    program_fill(&p, 1, 5);
    for (unsigned i = 0; i < 16; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "\nds_read_b32 v%u, v0", 10 + i);
    snprintf(text + used, sizeof(text) - used, "\nds_write_b32 v0, v10\ns_waitcnt lgkmcnt(0)");
    program_run(&p, text);
    snprintf(text + used, sizeof(text) - used, "\nds_write_b32 v0, v12\ns_waitcnt lgkmcnt(0)");
    program_try(&p, text);
    assert_int_equal(p.fault.kind, FAULT_WAIT);
}

/* LDS operations return in order (CDNA3 ISA, "Manually Inserted Wait States"), so the data of the
 * later read remain. Scalar loads share the counter but return in any order. */
TEST(a_read_may_overwrite_what_an_earlier_one_will_write)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 1, 5);
    program_run(&p, "ds_write_b32 v0, v1\nds_read_b32 v3, v0\nds_read_b32 v3, v0\n"
                    "s_waitcnt lgkmcnt(0)\nv_mov_b32 v4, v3");
    assert_int_equal(p.v[4][7], 5);
    program_try(&p, "ds_write_b32 v0, v1\nds_read_b32 v3, v0\nv_mov_b32 v3, v1\n"
                    "s_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_WAIT);
}

TEST(atomics_must_be_aligned)
{
    struct program p = lds_program(GFX942);
    program_fill(&p, 0, 2);
    program_fill(&p, 1, 1);
    program_try(&p, "ds_write_b64 v0, v[0:1]\nds_add_u32 v0, v1\ns_waitcnt lgkmcnt(0)");
    assert_int_equal(p.fault.kind, FAULT_ALIGN);
}

int main(void) { return run_unit_tests(); }
