/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the check of the vector instructions between a WMMA and uses of its registers, on
 * instructions as LLVM prints them.
 */
#include "tests/targets/harness.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 24, BYTES = 4 };

#define BF16 "v_wmma_f32_16x16x32_bf16 v[0:7], v[8:15], v[16:23], v[0:7]"
#define NOPS4 "v_nop", "v_nop", "v_nop", "v_nop"

/* Checks the instructions up to the first NULL. A text "s_cbranch N" or "s_branch N" branches to
 * instruction N. */
static bool passes(const char *target, const char *const texts[MOST], char why[TGT_WHY])
{
    struct tgt_inst insts[MOST];
    struct tgt_code code = {.insts = insts};
    for (; code.count < MOST && texts[code.count]; code.count++) {
        struct tgt_inst *const inst = &insts[code.count];
        unsigned to;
        *inst =
            (struct tgt_inst){.offset = (uint32_t)code.count * BYTES, .size = BYTES, .target = -1};
        snprintf(inst->text, sizeof(inst->text), "%s", texts[code.count]);
        inst->falls_through = strncmp(inst->text, "s_branch", 8) != 0;
        if (sscanf(inst->text, "s_branch %u", &to) == 1 ||
            sscanf(inst->text, "s_cbranch %u", &to) == 1)
            inst->target = (int64_t)to * BYTES;
    }
    why[0] = 0;
    return tgt_check_gaps(&code, tgt_find(target), why);
}

TEST(uses_come_after_enough_vector_instructions)
{
    static const struct {
        bool good;
        const char *texts[MOST];
    } cases[] = {
        {true, {BF16, NOPS4, "v_add_f32_e32 v30, v7, v31"}},
        {false, {BF16, "v_nop", "v_nop", "v_nop", "v_add_f32_e32 v30, v7, v31"}},
        {true, {BF16, "v_add_f32_e32 v30, v24, v31"}},   /* other registers */
        {false, {BF16, "v_mul_f32_e32 v[2], v24, v31"}}, /* overwrites the result */
        {false, {BF16, "v_mov_b32_e32 v16, s0"}},        /* overwrites a factor */
        {true, {BF16, "v_add_f32_e32 v30, v16, v9"}},    /* reads factors */
        {true, {BF16, "v_exp_f32_e32 v30, v7"}},         /* a transcendental waits */
        {true, {BF16, BF16}},                            /* adds to the result */
        {true, {BF16, "ds_store_b128 v40, v[0:3]"}},     /* no vector instruction */
        {false, {BF16, NOPS4, "v_wmma_f32_16x16x32_bf16 v[32:39], v[0:7], v[16:23], 0"}},
        {true, {BF16, NOPS4, "v_nop", "v_wmma_f32_16x16x32_bf16 v[32:39], v[0:7], v[16:23], 0"}},
        {false, {BF16, "v_nop", "s_nop 1", "v_add_f32_e32 v30, v7, v31"}},
        {true, {BF16, "v_nop", "s_nop 2", "v_add_f32_e32 v30, v7, v31"}},
        {true, {BF16, "s_wait_alu depctr_va_vdst(0)", "v_add_f32_e32 v30, v7, v31"}},
        {false, {BF16, "s_wait_alu depctr_va_sdst(0)", "v_add_f32_e32 v30, v7, v31"}},
        {false, {BF16, "v_add_co_u32 v30, vcc_lo, v7, v31"}},
        {false, {BF16, "v_permlane16_swap_b32_e32 v30, v8"}},
        {false,
         {"v_wmma_i32_16x16x64_iu8 v[0:7], v[8:15], v[16:23], v[0:7]", NOPS4, "v_nop", "v_nop",
          "v_nop", "v_add_nc_u32_e32 v30, v7, v31"}},
        {true,
         {"v_wmma_i32_16x16x64_iu8 v[0:7], v[8:15], v[16:23], v[0:7]", NOPS4, NOPS4,
          "v_add_nc_u32_e32 v30, v7, v31"}},
        {true,
         {"v_wmma_f32_16x16x4_f32 v[0:7], v[8:9], v[16:17], v[0:7]", "v_add_f32_e32 v30, v7, v31"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[TGT_WHY];
        if (passes("gfx1250", cases[i].texts, why) != cases[i].good)
            fail_msg("case %zu: %s", i, why);
        assert_true(cases[i].good || strstr(why, "gfx1250 needs "));
    }
}

TEST(numbers_of_registers_have_high_bits)
{
    static const struct {
        bool good;
        const char *texts[MOST];
    } cases[] = {
        {true, {"s_set_vgpr_msb 64", BF16, "s_set_vgpr_msb 0", "v_add_f32_e32 v30, v7, v31"}},
        {false, {"s_set_vgpr_msb 64", BF16, "s_set_vgpr_msb 0x4001", "v_add_f32_e32 v30, v7, v31"}},
        {false, {"s_set_vgpr_msb 64", BF16, "s_set_vgpr_msb 4", "v_add_f32_e32 v30, v31, v7"}},
        {false, {"s_set_vgpr_msb 64", BF16, "s_set_vgpr_msb 16", "v_fma_f32 v30, v31, v40, v7"}},
        {false, {"s_set_vgpr_msb 64", BF16, "v_mov_b32_e32 v7, v31"}},
        {true,
         {"s_set_vgpr_msb 64", "s_branch 2", BF16, "s_set_vgpr_msb 64", "v_mov_b32_e32 v7, v31"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[TGT_WHY];
        if (passes("gfx1250", cases[i].texts, why) != cases[i].good)
            fail_msg("case %zu: %s", i, why);
    }
}

TEST(all_paths_are_followed)
{
    static const char *const jump[MOST] = {BF16, "s_cbranch 6", NOPS4,
                                           "v_add_f32_e32 v30, v7, v31"};
    static const char *const back[MOST] = {"v_add_f32_e32 v30, v7, v31", BF16, "s_cbranch 0",
                                           NOPS4};
    static const char *const over[MOST] = {BF16, "s_branch 3", "v_add_f32_e32 v30, v7, v31", NOPS4};
    static const char *const idle[MOST] = {BF16, "s_cbranch 1", NOPS4};
    char why[TGT_WHY];
    assert_false(passes("gfx1250", jump, why));
    assert_false(passes("gfx1250", back, why));
    assert_true(passes("gfx1250", over, why));
    assert_true(passes("gfx1250", idle, why));
}

/* gfx1201's hardware waits for all uses but one: the result as a factor of the next product. */
TEST(targets_have_their_own_rules)
{
#define RDNA4 "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[12:15], v[0:7]"
    static const char *const use[MOST] = {RDNA4, "v_add_f32_e32 v30, v7, v31"};
    static const char *const factor[MOST] = {
        RDNA4, "s_nop 8", "v_wmma_f32_16x16x16_bf16 v[16:23], v[0:3], v[12:15], 0"};
    static const char *const apart[MOST] = {
        RDNA4, "v_nop", "v_wmma_f32_16x16x16_bf16 v[16:23], v[0:3], v[12:15], 0"};
    char why[TGT_WHY];
    assert_true(passes("gfx1201", use, why));
    assert_false(passes("gfx1201", factor, why));
    assert_true(passes("gfx1201", apart, why));
    assert_true(passes("gfx950", factor, why)); /* no WMMA: not checked */
}

int main(void) { return run_unit_tests(); }
