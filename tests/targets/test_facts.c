/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the facts of every target: tables are consistent, lane maps agree with AMD's published
 * ones.
 */
#include "tests/targets/harness.h"

#include <string.h>

/*
 * Finds the register and the lane of element (i, k) of A. Formulas: AMD's matrix instruction
 * calculator (--register-layout), dense MFMA of one block: lane = i + m * (k / per_lane), item = k
 * mod per_lane.
 */
static void a_map(const struct tir_mma *mma, unsigned i, unsigned k, unsigned *reg, unsigned *lane)
{
    unsigned per_lane = mma->m * mma->k / 64;
    *lane = i + mma->m * (k / per_lane);
    *reg = k % per_lane;
}

/* Finds the register and the lane of D[i][j]: item = 4 * (i / (4 * groups)) + i mod 4, lane = j +
 * n * (i / 4 mod groups), with groups = 64 / n. */
static void d_map(const struct tir_mma *mma, unsigned i, unsigned j, unsigned *reg, unsigned *lane)
{
    unsigned groups = 64 / mma->n;
    *lane = j + mma->n * (i / 4 % groups);
    *reg = 4 * (i / (4 * groups)) + i % 4;
}

/* Finds the register and the lane of an element of a scaled product. A lane's 32 elements of e4m3
 * are 16 of each half of k. Elements of e2m1 are consecutive, two per byte. Source: the kernels of
 * the ROCm blog "Matrix Core Programming on AMD CDNA3 and CDNA4". */
static void scaled_map(const struct tir_mma *mma, unsigned format, unsigned i, unsigned k,
                       unsigned *reg, unsigned *lane)
{
    const unsigned half = mma->k / 2;
    const bool pairs = format == TIR_MX_E2M1;
    *lane = i + mma->m * (pairs ? k / 32 : k % half / 16);
    *reg = pairs ? k % 32 / 2 : k / half * 16 + k % 16;
}

static void check_scaled(const struct tir_mma *mma)
{
    for (unsigned i = 0; i < mma->m; i++) {
        for (unsigned k = 0; k < mma->k; k++) {
            const unsigned row = mma->right_format == TIR_MX_E2M1 ? k / 2 : k;
            unsigned reg, lane;
            scaled_map(mma, mma->left_format, i, k, &reg, &lane);
            assert_int_equal(tir_layout_apply(&mma->a, reg, lane, 0), TIR_RC(i, k));
            scaled_map(mma, mma->right_format, i, k, &reg, &lane);
            assert_int_equal(tir_layout_apply(&mma->b, reg, lane, 0), TIR_RC(row, i));
        }
    }
}

/* Checks the layouts of WMMA (CDNA5 ISA manual). Along k, the halves of the wave alternate after 2
 * elements of f32, or after 8 of another type. Each half has 8 rows of D. RDNA4 has another order
 * of k for 16 bits. A and B share it, so products do not depend on it (ir/mma_operands.h). */
static void check_wmma(const struct tir_mma *mma)
{
    const unsigned each = mma->in_dtype == TIR_F32 ? 2 : 8;
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned i = lane % 16, half = lane / 16;
        for (unsigned e = 0; e < mma->k / 2; e++) {
            const unsigned k = e / each * 2 * each + half * each + e % each;
            assert_int_equal(tir_layout_apply(&mma->a, e, lane, 0), TIR_RC(i, k));
            assert_int_equal(tir_layout_apply(&mma->b, e, lane, 0), TIR_RC(k, i));
        }
        for (unsigned v = 0; v < 8; v++)
            assert_int_equal(tir_layout_apply(&mma->d, v, lane, 0), TIR_RC(8 * half + v, i));
    }
}

static void check_a_and_b(const struct tir_mma *mma)
{
    if (mma->scaled) {
        check_scaled(mma);
        return;
    }
    for (unsigned i = 0; i < mma->m; i++) {
        for (unsigned k = 0; k < mma->k; k++) {
            unsigned reg, lane;
            a_map(mma, i, k, &reg, &lane);
            assert_int_equal(tir_layout_apply(&mma->a, reg, lane, 0), TIR_RC(i, k));
            assert_int_equal(tir_layout_apply(&mma->b, reg, lane, 0), TIR_RC(k, i));
        }
    }
}

static void check_d(const struct tir_mma *mma)
{
    for (unsigned i = 0; i < mma->m; i++) {
        for (unsigned j = 0; j < mma->n; j++) {
            unsigned reg, lane;
            d_map(mma, i, j, &reg, &lane);
            assert_int_equal(tir_layout_apply(&mma->d, reg, lane, 0), TIR_RC(i, j));
        }
    }
}

TEST(matrix_instructions_hold_operands_as_published)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        for (unsigned i = 0; i < (*t)->machine.n_mma; i++) {
            const struct tir_mma *const row = &(*t)->machine.mma[i];
            if ((*t)->machine.lane_bits == 5) {
                check_wmma(row);
                continue;
            }
            check_a_and_b(row);
            check_d(row);
        }
    }
}

/* Checks a few elements of the documented maps of v_mfma_f32_32x32x8_f16, written out by hand. */
TEST(accumulator_of_32x32_goes_in_groups_of_four_rows)
{
    const struct tir_machine *m = &tgt_find("gfx942")->machine;
    const struct tir_mma *mma = &m->mma[tir_find_mma_name(m, "mfma_f32_32x32x8_f16")];
    assert_int_equal(tir_layout_apply(&mma->d, 0, 33, 0), TIR_RC(4, 1));
    assert_int_equal(tir_layout_apply(&mma->d, 5, 0, 0), TIR_RC(9, 0));
    assert_int_equal(tir_layout_apply(&mma->d, 15, 63, 0), TIR_RC(31, 31));
    assert_int_equal(tir_layout_apply(&mma->a, 3, 32, 0), TIR_RC(0, 7));
}

TEST(matrix_layouts_cover_their_shapes)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        for (unsigned i = 0; i < (*t)->machine.n_mma; i++) {
            const struct tir_mma *mma = &(*t)->machine.mma[i];
            assert_true(tir_layout_covers(&mma->a, mma->m, mma->k));
            const bool pairs = mma->right_format == TIR_MX_E2M1;
            assert_true(tir_layout_covers(&mma->b, mma->k >> pairs, mma->n));
            assert_true(tir_layout_covers(&mma->d, mma->m, mma->n));
            assert_int_equal(1u << tir_layout_bits(&mma->a), mma->m * mma->k);
            assert_int_equal(1u << tir_layout_bits(&mma->d), mma->m * mma->n);
        }
    }
}

TEST(rows_of_one_shape_and_type_come_with_larger_k_first)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const struct tir_machine *m = &(*t)->machine;
        for (unsigned i = 0; i < m->n_mma; i++) {
            const struct tir_mma *row = &m->mma[i];
            int first = tir_find_mma(m, row->m, row->n, 0, row->in_dtype);
            assert_true(row->by_k || row->scaled || m->mma[first].k >= row->k);
            assert_true(first < 0 || !m->mma[first].scaled);
            assert_int_equal(tir_find_mma_name(m, row->name), i);
        }
    }
}

TEST(peak_rate_of_bf16_follows_from_its_fastest_row)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const struct tir_machine *m = &(*t)->machine;
        const int wide = tir_find_mma(m, 32, 32, 0, TIR_BF16);
        const struct tir_mma *row = &m->mma[wide < 0 ? tir_find_mma(m, 16, 16, 0, TIR_BF16) : wide];
        const unsigned slot = tir_lanes(m) == 64 ? 4 : 1; /* clocks: 64 lanes by 16, or 32 */
        assert_int_equal(2u * row->m * row->n * row->k / row->cycles, (*t)->bf16_flop_per_clk);
        assert_true(row->shadow_slots * slot < row->cycles);
    }
}

/* A request for a copy atom, and the atom that a target has for it. */
struct copy_case {
    const char *target;
    enum tir_space from, to;
    unsigned bytes, element_bits;
    bool descriptor;
    const char *name; /* NULL: the target has none */
    unsigned block_lanes, run_lanes;
    enum tir_counter counter;
};

/*
 * Sources, the lists of instructions in the ISA manuals:
 * CDNA3, 9.1.9 and GLOBAL opcodes 38..42: loads to LDS of at most a dword; no DS_READ_*_TR.
 * CDNA4, 10.1: GLOBAL_LOAD_LDS_DWORD, _DWORDX3, _DWORDX4. 9.1.9: _DWORDX3 writes 12 of every 16
 * bytes, which is no copy of 12 bytes a lane. 11.4: DS_READ_B64_TR_B16, _B8.
 * CDNA5, 10.8: GLOBAL_LOAD_ASYNC_TO_LDS_B{8,32,64,128} with ASYNCcnt. 10.11.1: TENSOR_LOAD_TO_LDS
 * with TENSORcnt and a descriptor in scalar registers. 11.2.4: DS_LOAD_TR16_B128, _TR8_B64; 11.2:
 * DScnt.
 * RDNA4, 12.1.2: LDS is accessed from registers only; its DS opcodes have no transposing load.
 */
static const struct copy_case copy_cases[] = {
    {"gfx942", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, false, "global_load_lds_dword", 0, 0,
     TIR_COUNTER_VM},
    {"gfx942", TIR_IN_MEMORY, TIR_IN_LDS, 4, 0, false, "global_load_lds_dword", 0, 0,
     TIR_COUNTER_VM},
    {"gfx942", TIR_IN_MEMORY, TIR_IN_LDS, 16, 0, false, NULL, 0, 0, 0},
    {"gfx942", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, true, NULL, 0, 0, 0},
    {"gfx942", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 16, false, NULL, 0, 0, 0},
    {"gfx942", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 8, false, NULL, 0, 0, 0},

    {"gfx950", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, false, "global_load_lds_dwordx4", 0, 0,
     TIR_COUNTER_VM},
    {"gfx950", TIR_IN_MEMORY, TIR_IN_LDS, 4, 0, false, "global_load_lds_dword", 0, 0,
     TIR_COUNTER_VM},
    {"gfx950", TIR_IN_MEMORY, TIR_IN_LDS, 12, 0, false, NULL, 0, 0, 0},
    {"gfx950", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, true, NULL, 0, 0, 0},
    {"gfx950", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 16, false, "ds_read_b64_tr_b16", 16, 1,
     TIR_COUNTER_LGKM},
    {"gfx950", TIR_IN_LDS, TIR_IN_REGISTERS, 8, 8, false, "ds_read_b64_tr_b8", 16, 1,
     TIR_COUNTER_LGKM},
    {"gfx950", TIR_IN_LDS, TIR_IN_REGISTERS, 16, 16, false, NULL, 0, 0, 0},
    {"gfx950", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 32, false, NULL, 0, 0, 0},

    {"gfx1250", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, false, "global_load_async_to_lds_b128", 0, 0,
     TIR_COUNTER_ASYNC},
    {"gfx1250", TIR_IN_MEMORY, TIR_IN_LDS, 4, 0, false, "global_load_async_to_lds_b32", 0, 0,
     TIR_COUNTER_ASYNC},
    {"gfx1250", TIR_IN_MEMORY, TIR_IN_LDS, 12, 0, false, NULL, 0, 0, 0},
    {"gfx1250", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, true, "tensor_load_to_lds", 0, 0,
     TIR_COUNTER_TENSOR},
    {"gfx1250", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 16, false, "ds_load_tr16_b128", 8, 8,
     TIR_COUNTER_DS},
    {"gfx1250", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 8, false, "ds_load_tr8_b64", 16, 4,
     TIR_COUNTER_DS},
    {"gfx1250", TIR_IN_LDS, TIR_IN_REGISTERS, 8, 16, false, NULL, 0, 0, 0},

    {"gfx1201", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, false, "buffer_load_b128, ds_store_b128", 0, 0,
     TIR_COUNTER_HELD},
    {"gfx1201", TIR_IN_MEMORY, TIR_IN_LDS, 4, 0, false, "buffer_load_b32, ds_store_b32", 0, 0,
     TIR_COUNTER_HELD},
    {"gfx1201", TIR_IN_MEMORY, TIR_IN_LDS, 0, 0, true, NULL, 0, 0, 0},
    {"gfx1201", TIR_IN_LDS, TIR_IN_REGISTERS, 0, 16, false, NULL, 0, 0, 0},
    {"gfx1201", TIR_IN_LDS, TIR_IN_MEMORY, 0, 0, false, NULL, 0, 0, 0},
};

/* Sources: CDNA3 and CDNA4 ISA, S_WAITCNT; CDNA5 and RDNA4 ISA, 5.7.1. */
TEST(counters_have_the_bits_of_the_manuals)
{
    static const struct {
        const char *target;
        uint8_t most[TIR_N_COUNTERS];
        enum tir_counter lds;
    } cases[] = {
        {"gfx942", {[TIR_COUNTER_VM] = 63, [TIR_COUNTER_LGKM] = 15}, TIR_COUNTER_LGKM},
        {"gfx950", {[TIR_COUNTER_VM] = 63, [TIR_COUNTER_LGKM] = 15}, TIR_COUNTER_LGKM},
        {"gfx1250",
         {[TIR_COUNTER_DS] = 63,
          [TIR_COUNTER_STORE] = 63,
          [TIR_COUNTER_ASYNC] = 63,
          [TIR_COUNTER_TENSOR] = 63},
         TIR_COUNTER_DS},
        {"gfx1201",
         {[TIR_COUNTER_DS] = 63, [TIR_COUNTER_STORE] = 63, [TIR_COUNTER_HELD] = 63},
         TIR_COUNTER_DS},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tir_machine *const m = &tgt_find(cases[i].target)->machine;
        assert_memory_equal(m->counters, cases[i].most, sizeof(cases[i].most));
        assert_int_equal(tir_lds_counter(m), cases[i].lds);
        assert_true(m->counters[tir_lane_copy(m, 0)->counter]); /* copies can be awaited */
    }
}

TEST(copy_atoms_are_those_of_the_manuals)
{
    for (unsigned i = 0; i < sizeof(copy_cases) / sizeof(copy_cases[0]); i++) {
        const struct copy_case *const c = &copy_cases[i];
        const struct tir_copy *const copy =
            tir_find_copy(&tgt_find(c->target)->machine, c->from, c->to, c->bytes, c->element_bits,
                          c->descriptor);
        if (!copy || !c->name) {
            if (copy || c->name)
                fail_msg("%s, case %u: %s", c->target, i, copy ? copy->name : "no copy");
            continue;
        }
        assert_string_equal(copy->name, c->name);
        assert_int_equal(copy->block_lanes, c->block_lanes);
        assert_int_equal(copy->run_lanes, c->run_lanes);
        assert_int_equal(copy->counter, c->counter);
        assert_true(!c->bytes || copy->bytes == c->bytes);
    }
}

/* Searches without a number of bytes take the first row, so wider copies come first. Every target
 * copies a dword a lane, the narrowest copy of ir/address_map.c. */
TEST(wider_copies_come_first)
{
    for (const struct tgt *const *t = tgt_all; *t; t++) {
        const struct tir_machine *m = &(*t)->machine;
        for (unsigned i = 0; i < m->n_copies; i++) {
            const struct tir_copy *const c = &m->copies[i];
            assert_ptr_equal(
                tir_find_copy(m, c->from, c->to, c->bytes, c->element_bits, c->descriptor), c);
            assert_true(
                tir_find_copy(m, c->from, c->to, 0, c->element_bits, c->descriptor)->bytes >=
                c->bytes);
            assert_true(!c->element_bits == !c->block_lanes);
            assert_true(!c->block_lanes == !c->run_lanes);
        }
        assert_non_null(tir_lane_copy(m, 4));
    }
}

TEST(occupancy_follows_registers_and_lds)
{
    const struct tgt *t = tgt_find("gfx942");
    /* 512 registers per SIMD in granules of 8, at most 8 waves. */
    assert_int_equal(tgt_occupancy(t, 64, 0, 4), 8);
    assert_int_equal(tgt_occupancy(t, 65, 0, 4), 7);
    assert_int_equal(tgt_occupancy(t, 128, 0, 4), 4);
    assert_int_equal(tgt_occupancy(t, 129, 0, 4), 3);
    assert_int_equal(tgt_occupancy(t, 256, 0, 8), 2);
    assert_int_equal(tgt_occupancy(t, 257, 0, 4), 1);
    assert_int_equal(tgt_occupancy(t, 257, 0, 8), 0);
    assert_int_equal(tgt_occupancy(t, 513, 0, 4), 0);
    /* Two workgroups of 4 waves fit into 64 KiB of LDS. */
    assert_int_equal(tgt_occupancy(t, 64, 32768, 4), 2);
    assert_int_equal(tgt_occupancy(t, 64, 32769, 4), 1);
    assert_int_equal(tgt_occupancy(t, 64, 65537, 4), 0);
    /* gfx950: 160 KiB of LDS in granules of 1280 bytes. */
    assert_int_equal(tgt_occupancy(tgt_find("gfx950"), 64, 40960, 4), 4);
    assert_int_equal(tgt_occupancy(tgt_find("gfx950"), 64, 40961, 4), 3);
    /* Workgroups of one wave fill every SIMD. */
    assert_int_equal(tgt_occupancy(t, 64, 0, 1), 8);
    assert_int_equal(tgt_occupancy(t, 64, 16384, 1), 1);
}

TEST(targets_are_found_by_name)
{
    for (const struct tgt *const *t = tgt_all; *t; t++)
        assert_ptr_equal(tgt_find((*t)->machine.name), *t);
    assert_null(tgt_find("gfx000"));
    assert_null(tgt_find(""));
}

int main(void) { return run_unit_tests(); }
