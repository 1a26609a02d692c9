/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the timing model's units with the numbers of targets/facts/. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hipsim/tests/program.h"
#include "tools/hipsim/core/gfx_part.h"
#include "tools/hipsim/time/time_lds.h"
#include "tools/hipsim/time/time_op.h"
#include "tools/hipsim/time/time_sharing.h"

TEST(parameters_have_sources)
{
    const enum gfx_target targets[] = {GFX942, GFX950, GFX1250};
    for (unsigned t = 0; t < 3; t++) {
        size_t n;
        const struct time_param_row *rows = time_param_rows(targets[t], &n);
        size_t other;
        const struct time_param_row *others = time_param_rows(targets[(t + 1) % 3], &other);
        assert_int_equal(n, other);
        for (size_t i = 0; i < n; i++) {
            assert_string_equal(rows[i].name, others[i].name);
            assert_true(strlen(rows[i].source) > 0);
            assert_true(rows[i].low <= rows[i].value && rows[i].value <= rows[i].high);
            if (rows[i].tag == TIME_U)
                assert_true(rows[i].low < rows[i].high);
        }
    }
    struct time_params p = time_params_default(GFX942);
    assert_true(time_params_set(&p, "trans_cycles", 8));
    assert_true(p.trans_cycles == 8);
    assert_false(time_params_set(&p, "trans_cycles", -1));
    assert_false(time_params_set(&p, "no_such_parameter", 1));
}

TEST(parameters_are_numbers_from_0_on)
{
    struct time_params p = time_params_default(GFX942);
    assert_true(p.trans_cycles > 0 && time_params_set(&p, "trans_cycles", 0));
    assert_true(p.trans_cycles == 0);
    assert_false(time_params_set(&p, "trans_cycles", -1));
    assert_false(time_params_set(&p, "trans_cycles", (double)INFINITY));
    assert_false(time_params_set(&p, "trans_cycles", (double)NAN));
    assert_false(time_params_set(&p, "trans", 1));
    assert_true(p.trans_cycles == 0);
}

/* Tests clocks of matrix instructions by target and by the formats in cbsz and blgp. */
TEST(matrix_instructions_take_their_passes)
{
    static const struct {
        const char *name;
        unsigned gfx942, gfx950, cbsz, blgp;
    } rows[] = {
        {"v_mfma_f32_32x32x8_bf16", 32, 32, 0, 0},
        {"v_mfma_f32_16x16x16_f16", 16, 16, 0, 0},
        {"v_mfma_f32_32x32x4_2b_f16", 64, 64, 0, 0},
        {"v_mfma_f32_16x16x4_4b_bf16", 32, 32, 0, 0},
        {"v_mfma_f32_4x4x4_16b_f16", 8, 8, 0, 0},
        {"v_mfma_f32_32x32x16_bf16", 32, 32, 0, 0},
        {"v_mfma_f32_16x16x32_bf16", 16, 16, 0, 0},
        {"v_mfma_f32_32x32x16_fp8_fp8", 32, 32, 0, 0},
        {"v_mfma_f32_16x16x32_fp8_bf8", 16, 16, 0, 0},
        {"v_mfma_f32_32x32x64_f8f6f4", 64, 64, 0, 0},
        {"v_mfma_f32_32x32x64_f8f6f4", 64, 64, 4, 1},
        {"v_mfma_f32_32x32x64_f8f6f4", 32, 32, 4, 4},
        {"v_mfma_scale_f32_16x16x128_f8f6f4", 32, 32, 0, 4},
        {"v_mfma_scale_f32_16x16x128_f8f6f4", 16, 16, 2, 4},
        {"v_mfma_i32_32x32x16_i8", 32, 32, 0, 0},
        {"v_mfma_i32_16x16x64_i8", 16, 16, 0, 0},
        {"v_mfma_f32_32x32x2_f32", 64, 64, 0, 0},
        {"v_mfma_f32_16x16x4_f32", 32, 32, 0, 0},
        {"v_mfma_f32_16x16x8_xf32", 16, 16, 0, 0},
        {"v_mfma_f64_16x16x4_f64", 32, 64, 0, 0},
        {"v_mfma_f64_4x4x4_4b_f64", 16, 16, 0, 0},
        {"v_smfmac_f32_16x16x32_f16", 16, 16, 0, 0},
        {"v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, 0, 0},
        {"v_add_f32", 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(time_matrix_cycles(GFX942, rows[i].name, rows[i].cbsz, rows[i].blgp),
                         rows[i].gfx942);
        assert_int_equal(time_matrix_cycles(GFX950, rows[i].name, rows[i].cbsz, rows[i].blgp),
                         rows[i].gfx950);
    }
    static const struct {
        const char *name;
        unsigned clocks, a, b;
    } wmma[] = {
        {"v_wmma_f32_16x16x32_bf16", 8, 0, 0},
        {"v_wmma_f16_16x16x32_f16", 8, 0, 0},
        {"v_wmma_f32_16x16x64_fp8_bf8", 4, 0, 0},
        {"v_wmma_f32_16x16x128_fp8_fp8", 8, 0, 0},
        {"v_wmma_f32_16x16x128_f8f6f4", 8, 0, 4},
        {"v_wmma_f32_16x16x128_f8f6f4", 8, 2, 2},
        {"v_wmma_scale16_f32_16x16x128_f8f6f4", 4, 4, 4},
        {"v_wmma_scale_f32_32x16x128_f4", 8, 0, 0},
        {"v_wmma_i32_16x16x64_iu8", 16, 0, 0},
        {"v_wmma_f32_16x16x4_f32", 16, 0, 0},
        {"v_swmmac_f32_16x16x64_bf16", 8, 0, 0},
        {"v_add_f32", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(wmma) / sizeof(wmma[0]); i++)
        assert_int_equal(time_matrix_cycles(GFX1250, wmma[i].name, wmma[i].a, wmma[i].b),
                         wmma[i].clocks);
}

static struct time_op op_with(const struct time_params *p, enum gfx_target target, const char *text)
{
    size_t bytes;
    char line[200];
    snprintf(line, sizeof(line), "%s\n", text);
    void *machine = assemble(target, line, &bytes);
    struct code *code = code_create(target, machine, bytes, (uint64_t)(uintptr_t)machine);
    assert_non_null(code);
    const struct time_op op = time_op_make(p, target, code_inst(code, 0));
    code_destroy(code);
    free(machine);
    return op;
}

static struct time_op op_of(enum gfx_target target, const char *text)
{
    const struct time_params p = time_params_default(target);
    return op_with(&p, target, text);
}

/* Each instruction has a port and an issue cost. The cost is a parameter of the model. */
TEST(instructions_have_a_port_and_a_cost)
{
    struct time_params p = time_params_default(GFX950);
    p.valu_cycles = 5, p.trans_cycles = 7, p.lane_swap_cycles = 11; /* all costs differ */
    p.valu_f64_cycles = 13, p.valu_mul32_cycles = 17, p.issue_period = 19;
    p.lds_write_b128_issue = 23, p.scalar_cycles = 29, p.nop_cycles = 31, p.sleep_cycles = 37,
    p.wait_cycles = 41;
    const struct {
        const char *text;
        enum time_unit unit;
        enum time_kind kind;
        double issue;
    } cases[] = {
        {"v_add_f32 v0, v1, v2", UNIT_VALU, KIND_PLAIN, p.valu_cycles},
        {"v_exp_f32 v0, v1", UNIT_VALU, KIND_TRANS, p.trans_cycles},
        {"v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", UNIT_VALU, KIND_PACKED_F32, p.valu_cycles},
        {"v_pk_add_f16 v0, v1, v2", UNIT_VALU, KIND_PLAIN, p.valu_cycles},
        {"v_permlane32_swap_b32 v0, v1", UNIT_VALU, KIND_PLAIN, p.lane_swap_cycles},
        {"v_permlane16_swap_b32 v0, v1", UNIT_VALU, KIND_PLAIN, p.lane_swap_cycles},
        {"v_add_f64 v[0:1], v[2:3], v[4:5]", UNIT_VALU, KIND_PLAIN, p.valu_f64_cycles},
        {"v_mul_lo_u32 v0, v1, v2", UNIT_VALU, KIND_PLAIN, p.valu_mul32_cycles},
        {"v_mul_hi_i32 v0, v1, v2", UNIT_VALU, KIND_PLAIN, p.valu_mul32_cycles},
        {"v_mad_u64_u32 v[0:1], vcc, v1, v2, v[4:5]", UNIT_VALU, KIND_PLAIN, p.valu_mul32_cycles},
        {"v_mad_i64_i32 v[0:1], vcc, v1, v2, v[4:5]", UNIT_VALU, KIND_PLAIN, p.valu_mul32_cycles},
        {"v_mul_u32_u24 v0, v1, v2", UNIT_VALU, KIND_PLAIN, p.valu_cycles},
        {"v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]", UNIT_MATRIX, KIND_PLAIN,
         p.issue_period},
        {"ds_read_b32 v0, v1", UNIT_LDS, KIND_PLAIN, p.issue_period},
        {"ds_write_b64 v0, v[2:3]", UNIT_LDS, KIND_PLAIN, p.issue_period},
        {"ds_write_b128 v0, v[4:7]", UNIT_LDS, KIND_PLAIN, p.lds_write_b128_issue},
        {"global_load_dword v0, v1, s[2:3]", UNIT_VMEM, KIND_PLAIN, p.issue_period},
        {"s_load_dword s0, s[2:3], 0x0", UNIT_SMEM, KIND_PLAIN, p.issue_period},
        {"s_branch over\nover:", UNIT_BRANCH, KIND_PLAIN, p.issue_period},
        {"s_add_u32 s0, s1, s2", UNIT_SCALAR, KIND_PLAIN, p.scalar_cycles},
        {"s_nop 3", UNIT_NONE, KIND_NOP, p.nop_cycles * 4},
        {"s_waitcnt vmcnt(0)", UNIT_NONE, KIND_WAITCNT, p.wait_cycles},
        {"s_barrier", UNIT_NONE, KIND_BARRIER, p.issue_period},
        {"s_sleep 5", UNIT_NONE, KIND_SLEEP, p.sleep_cycles * 5 + p.issue_period},
        {"s_endpgm", UNIT_NONE, KIND_END, p.issue_period},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct time_op op = op_with(&p, GFX950, cases[i].text);
        if (op.unit != cases[i].unit || op.kind != cases[i].kind || op.issue != cases[i].issue)
            fail_msg("%s: unit %u, kind %u, %u clocks", cases[i].text, op.unit, op.kind, op.issue);
        assert_int_equal(op.wide_store, strstr(cases[i].text, "write_b128") != NULL);
    }
}

TEST(waits_and_pairs_have_their_numbers)
{
    const struct time_op both = op_of(GFX950, "s_waitcnt vmcnt(17) lgkmcnt(3)");
    assert_int_equal(both.wait[WAIT_VM], 17);
    assert_int_equal(both.wait[WAIT_LGKM], 3);
    assert_int_equal(both.wait[WAIT_EXP], UINT16_MAX);
    const struct time_op exports = op_of(GFX950, "s_waitcnt expcnt(2)");
    assert_int_equal(exports.wait[WAIT_VM], UINT16_MAX);
    assert_int_equal(exports.wait[WAIT_LGKM], UINT16_MAX);
    assert_int_equal(exports.wait[WAIT_EXP], 2);
    const struct time_op pair = op_of(GFX1250, "s_wait_loadcnt_dscnt 0x503");
    assert_int_equal(pair.wait[WAIT_VM], 5);
    assert_int_equal(pair.wait[WAIT_LGKM], 3);
    assert_int_equal(pair.wait[WAIT_STORE], UINT16_MAX);
    const struct time_op single = op_of(GFX1250, "s_wait_asynccnt 0x7");
    assert_int_equal(single.wait[WAIT_ASYNC], 7);
    assert_int_equal(single.wait[WAIT_VM], UINT16_MAX);
    assert_int_equal(op_of(GFX1250, "s_wait_idle").wait[WAIT_TENSOR], 0);
    const struct {
        const char *text;
        bool two;
        int second;
    } pairs[] = {
        {"ds_read_b64 v[0:1], v2 offset:8", false, 0},
        {"ds_read2_b32 v[0:1], v2 offset0:1 offset1:3", true, 8},
        {"ds_read2_b64 v[0:3], v4 offset0:3 offset1:1", true, -16},
        {"ds_read2st64_b32 v[0:1], v2 offset0:1 offset1:3", true, 512},
        {"ds_write2st64_b64 v0, v[2:3], v[4:5] offset0:3 offset1:1", true, -1024},
        {"ds_wrxchg2_rtn_b32 v[0:1], v2, v3, v4 offset1:1", true, 4},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const struct time_op op = op_of(GFX950, pairs[i].text);
        assert_int_equal(op.two, pairs[i].two);
        assert_int_equal(op.second, pairs[i].second);
    }
}

/* f32 and f64 matrix instructions leave no slots for vector instructions. The width is the wider
 * operand's. */
TEST(matrix_instructions_have_a_shadow_and_a_width)
{
    static const struct {
        enum gfx_target target;
        const char *text;
        enum time_matrix width;
        bool full;
    } cases[] = {
        {GFX942, "v_mfma_f32_32x32x8_f16 a[0:15], v[16:17], v[18:19], a[0:15]", MATRIX_16, false},
        {GFX942, "v_mfma_f32_16x16x16_bf16 a[0:3], v[16:17], v[18:19], a[0:3]", MATRIX_16, false},
        {GFX942, "v_mfma_f32_32x32x2_f32 a[0:15], v16, v17, a[0:15]", MATRIX_32, true},
        {GFX942, "v_mfma_f32_16x16x8_xf32 a[0:3], v[16:17], v[18:19], a[0:3]", MATRIX_32, false},
        {GFX942, "v_mfma_f64_16x16x4_f64 a[0:7], v[16:17], v[18:19], a[0:7]", MATRIX_32, true},
        {GFX942, "v_mfma_i32_16x16x32_i8 a[0:3], v[16:17], v[18:19], a[0:3]", MATRIX_8, false},
        {GFX942, "v_mfma_f32_16x16x32_fp8_bf8 a[0:3], v[16:17], v[18:19], a[0:3]", MATRIX_8, false},
        {GFX950, "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[8:15], v[16:23], a[0:3]", MATRIX_8, false},
        {GFX950, "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[8:13], v[16:23], a[0:3] cbsz:2", MATRIX_8,
         false},
        {GFX950, "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[8:13], v[16:19], a[0:3] cbsz:2 blgp:4",
         MATRIX_4, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct time_params p = time_params_default(cases[i].target);
        const struct time_op op = op_of(cases[i].target, cases[i].text);
        const double shadow = op.matrix <= 16 ? p.matrix_closed_short : p.matrix_closed;
        const double closed = cases[i].full ? op.matrix : shadow;
        const double states =
            op.matrix <= 8 ? p.matrix_result_states_short : p.matrix_result_states;
        assert_int_equal(op.matrix_class, cases[i].width);
        assert_int_equal(op.closed, closed < op.matrix ? closed : op.matrix);
        assert_int_equal(op.result, op.matrix + 4 * (states + 1));
        assert_int_equal(op.nreads, 2);
        assert_int_equal(op.acc.first, 256); /* register a0 */
        assert_int_equal(op.acc.count, op.writes.count);
    }
}

/* Tests all pairs of formats: fp8, bf8, fp6, bf6 and fp4, whose operands have 8, 6 or 4 registers.
 * Only a product of two narrow formats takes half the clocks, and has the class of fp4. */
TEST(both_formats_decide_the_class)
{
    enum { FORMATS = 5 };
    static const unsigned registers[FORMATS] = {8, 8, 6, 6, 4};
    const unsigned wide = time_matrix_cycles(GFX950, "v_mfma_f32_16x16x128_f8f6f4", 0, 0);
    for (unsigned a = 0; a < FORMATS; a++) {
        for (unsigned b = 0; b < FORMATS; b++) {
            char text[160];
            snprintf(text, sizeof(text),
                     "v_mfma_f32_16x16x128_f8f6f4 a[0:3], v[8:%u], v[16:%u], a[0:3] cbsz:%u "
                     "blgp:%u",
                     7 + registers[a], 15 + registers[b], a, b);
            const struct time_op op = op_of(GFX950, text);
            const bool narrow = registers[a] < 8 && registers[b] < 8;
            assert_int_equal(op.matrix_class, narrow ? MATRIX_4 : MATRIX_8);
            assert_int_equal(op.matrix, narrow ? wide / 2 : wide);
            assert_int_equal(op.reads[0].count, registers[a]);
            assert_int_equal(op.reads[1].count, registers[b]);
        }
    }
}

static struct time_lds_cost lds(enum gfx_target target, bool is_store, unsigned bytes,
                                unsigned stride)
{
    struct time_params p = time_params_default(target);
    p.lds_conflict_full = WAVE_LANES;
    uint64_t addr[WAVE_LANES];
    for (unsigned i = 0; i < WAVE_LANES; i++)
        addr[i] = (uint64_t)i * stride;
    return time_lds_cost(&p, target, is_store, bytes, UINT64_MAX, addr);
}

/* Tests clocks of one LDS instruction without conflicts, and the bank period. */
TEST(lds_widths_take_their_phases)
{
    assert_int_equal(lds(GFX942, false, 4, 4).clocks, 2);
    assert_int_equal(lds(GFX942, false, 8, 8).clocks, 4);
    assert_int_equal(lds(GFX942, false, 16, 16).clocks, 8);
    assert_int_equal(lds(GFX950, false, 4, 4).clocks, 1);
    assert_int_equal(lds(GFX950, false, 8, 8).clocks, 2);
    assert_int_equal(lds(GFX950, false, 16, 16).clocks, 4);
    assert_int_equal(lds(GFX950, false, 12, 16).clocks, 8);
    assert_int_equal(lds(GFX950, true, 8, 8).clocks, 4);
    assert_int_equal(lds(GFX950, true, 16, 16).clocks, 8);
    assert_int_equal(lds(GFX942, false, 4, 128).clocks, 64);
    assert_int_equal(lds(GFX942, false, 16, 128).clocks, 64);
    assert_int_equal(lds(GFX950, false, 8, 256).clocks, 64);
    assert_int_equal(lds(GFX942, false, 4, 0).clocks, 2); /* all lanes read one address */
}

/*
 * Lanes 0 to 7, and every further eight, access different banks. Lanes 0 to 3 and 20 to 23 access
 * the same banks. A store has eight neighbouring lanes per phase. A wide load has four lanes of
 * each of two rows (SHARK, empirical-lds; HipKittens, phase solver), on CDNA4 for 12 bytes.
 */
TEST(wide_loads_and_stores_have_phases_of_their_own)
{
    struct time_params p = time_params_default(GFX942);
    struct time_params p950 = time_params_default(GFX950);
    uint64_t addr[WAVE_LANES];
    p.lds_conflict_full = p950.lds_conflict_full = WAVE_LANES;
    for (unsigned l = 0; l < WAVE_LANES; l++)
        addr[l] = 1024 * l + 16 * (l % 8 ^ l / 16 % 2 * 4);
    assert_int_equal(time_lds_cost(&p, GFX942, true, 16, UINT64_MAX, addr).clocks, 8);
    assert_int_equal(time_lds_cost(&p, GFX942, true, 12, UINT64_MAX, addr).clocks, 8);
    assert_int_equal(time_lds_cost(&p, GFX942, false, 16, UINT64_MAX, addr).clocks, 16);
    assert_int_equal(time_lds_cost(&p950, GFX950, true, 16, UINT64_MAX, addr).clocks, 8);
    assert_int_equal(time_lds_cost(&p950, GFX950, false, 12, UINT64_MAX, addr).clocks, 16);
}

/* Checks that each lane is in exactly one phase. */
TEST(lds_phases_cover_the_wave)
{
    const unsigned widths[] = {1, 2, 4, 8, 12, 16};
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned i = 0; i < 2 * 6; i++) {
            uint64_t phases[8], all = 0;
            unsigned n = time_lds_phases(t ? GFX950 : GFX942, i & 1, widths[i / 2], phases);
            for (unsigned k = 0; k < n; k++) {
                assert_int_equal(all & phases[k], 0);
                all |= phases[k];
            }
            assert_true(all == UINT64_MAX);
        }
    }
}

/*
 * Row C6 of tools/hipsim/docs/timing.md, with 32 banks: rows are 128 B of bf16 (64 elements), and
 * an MFMA 32x32 reads 8 elements per lane. Lane l reads row l % 32, column block l / 32. A swizzle
 * (vector, per phase, phases) XORs a 16-byte block's number with (row / per phase) % phases.
 * Returns the clocks of conflicts.
 */
static unsigned swizzled(unsigned per_phase)
{
    struct time_params p = time_params_default(GFX942);
    uint64_t addr[WAVE_LANES];
    for (unsigned l = 0; l < WAVE_LANES; l++) {
        unsigned row = l % 32, block = l / 32;
        addr[l] = (uint64_t)row * 128 + ((block ^ row / per_phase % 8) * 16);
    }
    struct time_lds_cost cost = time_lds_cost(&p, GFX942, false, 16, UINT64_MAX, addr);
    return cost.clocks - cost.floor;
}

TEST(swizzles_have_different_conflicts)
{
    assert_int_equal(swizzled(1), 0);
    assert_true(swizzled(2) > 0);
}

/*
 * GLUON gemm/gfx942 measured 14.00 and 13.33 LDS clocks per instruction with the swizzle (8,2,8),
 * and 8 with (8,1,8). Reads take twice as long: 24 reads with 8 writes, 32 reads with 16 writes.
 * Lane l reads 16 bytes of row l % 16 at l / 16. Rows have 128 bytes.
 */
TEST(two_way_conflicts_take_twice)
{
    const struct time_params p = time_params_default(GFX942);
    for (unsigned per_phase = 1; per_phase <= 2; per_phase++) {
        uint64_t addr[WAVE_LANES];
        for (unsigned l = 0; l < WAVE_LANES; l++)
            addr[l] = l % 16 * 128 + (l / 16 ^ l % 16 / per_phase % 8) * 16;
        assert_int_equal(time_lds_cost(&p, GFX942, false, 16, UINT64_MAX, addr).clocks,
                         8 * per_phase);
    }
}

/* n workgroups load n^b times the lines of one. Cases: all lines in common, rows and columns, none
 * in common. */
TEST(sharing_grows_as_a_power)
{
    assert_true(time_lines_growth(100, 800, 8) == 0);
    assert_true(time_lines_growth(800, 800, 8) == 1);
    const double b = time_lines_growth(6, 16, 8); /* 4 x 2 tiles of a product load 6 of 16 panels */
    assert_true(b > 0.5 && b < 0.55);
}

/* Returns the lines of a workgroup that loads `rows` rows of 64 lines. `first` is its first row. */
static struct time_lines *lines_of(unsigned first, unsigned rows)
{
    enum { ROW = 64 * WAVE_LANES };
    struct time_lines *const lines = time_lines_create();
    const struct observer see = time_lines_observer(lines);
    struct mem_access access = {
        .space = ACCESS_GLOBAL, .is_load = true, .bytes = 128, .lanes = UINT64_MAX};
    for (unsigned i = 0; i < rows; i++) {
        for (unsigned l = 0; l < WAVE_LANES; l++)
            access.addr[l] = (uint64_t)(first + i) * 128 * ROW + l * 128;
        see.inst(see.ctx, NULL, NULL, &access);
    }
    return lines;
}

/* A set that has to grow during a tensor copy has all lines of the copy. */
TEST(a_large_tensor_copy_is_counted_whole)
{
    enum { LINES = 8192 };
    struct time_lines *const set = time_lines_create();
    const struct observer see = time_lines_observer(set);
    const struct mem_access last = {.space = ACCESS_GLOBAL, .is_load = true};
    struct tensor_lines *const copy = time_lines_tensor(set);
    copy->line = malloc(LINES * sizeof(*copy->line));
    assert_non_null(copy->line);
    copy->room = LINES;
    for (copy->n = 0; copy->n < LINES; copy->n++)
        copy->line[copy->n] = copy->n;
    see.inst(see.ctx, NULL, NULL, &last);
    assert_true(fabs(time_lines_bytes(set) / (LINES * 128) - 1) < 0.1); /* estimate from a sample */
    assert_int_equal(copy->n, 0);
    assert_int_equal(copy->room, LINES); /* the next copy reuses the memory */
    time_lines_destroy(set);
}

/* Models nine neighbours. They share `rows` rows in groups of `size`, and have `own` rows each. The
 * first group began `before` workgroups earlier. Returns the number that share a line; 0 if there
 * are no groups. */
static double group_of(unsigned size, unsigned before, unsigned rows, unsigned own)
{
    enum { EIGHT = 8, OWN = 10000 };
    struct time_lines *lines[EIGHT + 1];
    for (unsigned i = 0; i <= EIGHT; i++) {
        struct time_lines *const others = lines_of(OWN + i * own, own);
        lines[i] = lines_of((i + before) / size * rows, rows);
        time_lines_merge(lines[i], others);
        time_lines_destroy(others);
    }
    const bool groups = time_lines_in_groups(lines, EIGHT);
    const double n = time_lines_group(lines, EIGHT + 1);
    for (unsigned i = 0; i <= EIGHT; i++)
        time_lines_destroy(lines[i]);
    return groups ? n : 0;
}

/* Two or four workgroups read the same keys, from any position of the first one, and may also have
 * their own data. Eight workgroups that all read the same are no group, since its end is
 * unknown. */
TEST(neighbours_share_in_groups)
{
    const double near = 0.1; /* tolerance: a quarter of the lines is sampled */
    for (unsigned before = 0; before < 4; before++) {
        assert_true(fabs(group_of(2, before, 32, 0) - 2) < near);
        assert_true(fabs(group_of(4, before, 32, 0) - 4) < near);
    }
    assert_true(group_of(8, 0, 32, 0) == 0);
    assert_true(group_of(1, 0, 32, 0) == 0);
    const double some = 4.0 / 3; /* a group loads 96 rows with 128 loads of rows */
    assert_true(fabs(group_of(2, 0, 32, 32) - some) < near);
}

/* Tests instruction mixes of fav4 (32 matrix instructions, 24 of 6 slots) and of the eager
 * kernel. */
TEST(the_bound_adds_slots_that_do_not_fit)
{
    struct time_params p = time_params_default(GFX950);
    struct time_mix mix = {.matrix = 64 * 32, .closed = 64 * 8, .valu = 4 * 384};
    assert_true(time_loop_bound(&p, &mix, 2) == 4096);
    mix.valu = 4 * (384 + 48);
    assert_true(time_loop_bound(&p, &mix, 2) == 4096 + 2 * 4 * 48);
    mix.packed_f32 = 24;
    assert_true(time_loop_bound(&p, &mix, 2) == 4096 + 2 * 4 * 48 + 2 * 4 * 24);
    p = time_params_default(GFX1250); /* packed instructions take two of a product's four slots */
    mix = (struct time_mix){.matrix = 16, .closed = 8, .packed_f32 = 4};
    assert_true(time_loop_bound(&p, &mix, 1) == 16);
    mix.packed_f32 = 6;
    assert_true(time_loop_bound(&p, &mix, 1) == 18);
    mix.valu = 4;
    assert_true(time_loop_bound(&p, &mix, 1) == 20);
}

/* The tables of parameters and of parts agree on the first part of each target. Other parts differ
 * by the entries of the table of parts. */
TEST(parts_have_parameters_of_their_own)
{
    for (unsigned i = 0; i < PARTS; i++) {
        const struct gfx_part *part = &gfx_parts[i];
        const struct time_params p = time_params_of_part(part),
                                 base = time_params_default(part->target);
        if (part == gfx_part_of(part->target))
            assert_memory_equal(&p, &base, sizeof(p));
        assert_true(p.cus == part->compute_units && p.xcds == part->xcds);
        assert_true(p.max_mhz == part->mhz && p.hbm_gb_per_s == part->hbm_gb_per_s);
        assert_true(p.law_mhz == base.law_mhz * part->law);
        assert_true(part->law_low <= part->law && part->law <= part->law_high);
        assert_true(p.hbm_gb_per_s < p.hbm_peak_gb_per_s);
        assert_true(p.lds_bytes == base.lds_bytes && p.trans_cycles == base.trans_cycles);
    }
}

int main(void) { return run_unit_tests(); }
