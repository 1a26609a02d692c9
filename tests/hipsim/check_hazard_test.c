/* SPDX-License-Identifier: Apache-2.0 */
/* The hazard check: a kernel one wait state short of LLVM's figure, and the same one with it. */
#include <stdio.h>

#include "tests/hipsim/device.h"

static enum fault_kind run(enum gfx_target target, const char *first, int states,
                           const char *second, uint32_t checks)
{
    char text[512], nops[256] = "";
    for (int left = states, n = 0; left > 0; left -= 8)
        n += snprintf(nops + n, sizeof(nops) - (size_t)n, "s_nop %d\n", left < 8 ? left - 1 : 7);
    snprintf(text, sizeof(text), "%s\n%s%s\ns_nop 7\ns_nop 7\ns_nop 7", first, nops, second);
    struct program p = program_new(target);
    p.checks = checks;
    void *memory = device_alloc(4096, NULL);
    program_s64_set(&p, 2, (uint64_t)(uintptr_t)memory);
    program_try(&p, text);
    hipsim_mem_free(memory);
    return p.fault.kind;
}

static void expect(enum gfx_target target, const char *first, int need, const char *second)
{
    if (need > 0) {
        if (run(target, first, need - 1, second, CHECK_HAZARD) != FAULT_HAZARD)
            fail_msg("%d wait states pass: %s, %s", need - 1, first, second);
        assert_int_equal(run(target, first, need - 1, second, CHECK_BARRIER), FAULT_NONE);
    }
    if (run(target, first, need, second, CHECK_HAZARD) != FAULT_NONE)
        fail_msg("%d wait states are too few: %s, %s", need, first, second);
}

static void matrix_results(void **state)
{
    (void)state;
    const char *small = "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]";
    const char *large = "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], v[16:31]";
    expect(GFX942, small, 7, "v_mov_b32 v40, v1");
    expect(GFX950, small, 8, "v_mov_b32 v40, v1");
    expect(GFX942, large, 11, "v_mov_b32 v40, v1");
    expect(GFX942, large, 11, "v_mov_b32 v1, v40");
    expect(GFX950, large, 12, "global_store_dword v40, v1, s[2:3]");
    expect(GFX942, "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, v[16:31]", 18, "v_mov_b32 v40, v1");
    expect(GFX942, small, 7, "v_mfma_f32_16x16x16_f16 v[40:43], v[0:1], v[34:35], v[36:39]");
    expect(GFX942, small, 0, "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[0:3]");
    expect(GFX942, small, 5, "v_mfma_f32_16x16x16_f16 v[40:43], v[32:33], v[34:35], v[2:5]");
    expect(GFX950, small, 6, "v_mfma_f32_16x16x16_f16 v[40:43], v[32:33], v[34:35], v[2:5]");
}

static void vector_results(void **state)
{
    (void)state;
    expect(GFX942, "v_mov_b32 v32, v40", 2,
           "v_mfma_f32_16x16x16_f16 v[0:3], v[32:33], v[34:35], v[36:39]");
    expect(GFX942, "v_mov_b32 v1, v2", 2, "v_mov_b32_dpp v3, v1 row_shr:1");
    expect(GFX942, "v_cmpx_eq_u32 v1, v1", 5, "v_mov_b32_dpp v3, v4 row_shr:1");
    expect(GFX942, "v_exp_f32 v1, v2", 1, "v_add_f32 v3, v1, v4");
    expect(GFX942, "v_exp_f32 v1, v2", 0, "v_exp_f32 v3, v1");
    expect(GFX942, "v_mov_b32 v1, v2", 1, "v_readfirstlane_b32 s8, v1");
    expect(GFX942, "v_mov_b32 v1, v2", 0, "v_add_u32 v3, v1, v1");
}

static void scalar_results(void **state)
{
    (void)state;
    expect(GFX942, "v_readfirstlane_b32 s8, v1", 4, "v_readlane_b32 s9, v2, s8");
    expect(GFX942, "v_cmp_eq_u32 vcc, v1, v2", 4, "v_div_fmas_f32 v3, v4, v5, v6");
    expect(GFX942, "v_cmp_eq_u32 vcc, v1, v2", 2, "v_cndmask_b32 v3, v4, v5, vcc");
    expect(GFX942, "v_mov_b32 v9, s3\ns_nop 4\nv_readfirstlane_b32 s3, v9", 5,
           "global_store_dword v40, v4, s[2:3]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_results),
        cmocka_unit_test(vector_results),
        cmocka_unit_test(scalar_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
