/* SPDX-License-Identifier: Apache-2.0 */
/* Tests operations of both targets of GFX12 that GFX9 lacks (RDNA4 ISA, chapter 16; CDNA5 ISA,
 * chapter 15). */
#include <stdio.h>

#include "tools/hipsim/tests/device.h"

static const enum gfx_target targets[] = {GFX1250, GFX1201};
#define EACH_TARGET for (unsigned t = 0; t < 2; t++)

/* V_MOVREL*: M0 is added to the number of the source, of the destination or of both. */
static void registers_are_relative_to_m0(void **state)
{
    (void)state;
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
static void relative_registers_have_limits(void **state)
{
    (void)state;
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
static void relative_registers_are_waited_for(void **state)
{
    (void)state;
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

#define QNAN 0x7fc00001u
#define SNAN 0x7f800001u
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
    {"min_num_f32", SNAN, ONE, ONE}, /* a number wins over any NaN */
    {"max_num_f32", ONE, SNAN, ONE},
    {"max_num_f32", QNAN, 0xff800002, 0xffc00002}, /* of two NaNs the operand, quiet */
    {"min_num_f32", 1, 2, 1},                      /* denormals are kept */
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

static void atomics_of_gfx12(void **state)
{
    (void)state;
    static const char *const spaces[] = {"global", "flat", "ds"};
    EACH_TARGET for (size_t i = 0; i < sizeof(atomics) / sizeof(atomics[0]);
                     i++) for (unsigned s = 0; s < 3; s++)
    {
        const uint32_t got = run_atomic(targets[t], spaces[s], &atomics[i]);
        if (got != atomics[i].want)
            fail_msg("%s %s: 0x%08x, not 0x%08x", spaces[s], atomics[i].name, got, atomics[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_are_relative_to_m0),
        cmocka_unit_test(relative_registers_have_limits),
        cmocka_unit_test(relative_registers_are_waited_for),
        cmocka_unit_test(atomics_of_gfx12),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
