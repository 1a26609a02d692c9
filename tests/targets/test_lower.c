/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the instructions of each single register-level op on each target.
 */
#include "ir/passes.h"
#include "tests/targets/harness.h"

#include <stdio.h>
#include <string.h>

static const struct tir_type f32 = {.kind = TIR_VEC, .dtype = TIR_F32, .count = 1};
static const struct tir_type i32 = {.kind = TIR_VEC, .dtype = TIR_I32, .count = 1};
static const struct tir_type no_type = {0};

/* An op on unknown f32 or i32 values, and the instruction that it becomes. Its result is kept. */
struct elementwise {
    unsigned opcode;
    bool on_int;
    const char *instruction;
};

static void check_elementwise(const char *target, const struct elementwise *e)
{
    struct kernel k = kernel_create(target, 1, 1);
    struct tir_value operands[3];
    int n = tir_ops[e->opcode].operands;
    for (int i = 0; i < n; i++)
        operands[i] = unknown(&k, e->on_int ? i32 : f32);
    keep(&k, make(&k, e->opcode, e->on_int ? i32 : f32, operands, (unsigned)n, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, e->instruction, 1);
    assert_count(&c, "v_max_f32_e32 v0, v0, v0", 0);
    compiled_free(&c);
}

TEST(elementwise_ops_are_one_instruction)
{
    static const struct elementwise cases[] = {
        {TIR_add, false, "v_add_f32"},    {TIR_sub, false, "v_sub_f32"},
        {TIR_mul, false, "v_mul_f32"},    {TIR_fma, false, "v_fma"},
        {TIR_min, false, "v_min_f32"},    {TIR_max, false, "v_max_f32"},
        {TIR_max3, false, "v_max3_f32"},  {TIR_exp2, false, "v_exp_f32"},
        {TIR_log2, false, "v_log_f32"},   {TIR_rcp, false, "v_rcp_f32"},
        {TIR_rsq, false, "v_rsq_f32"},    {TIR_ceil, false, "v_ceil_f32"},
        {TIR_add, true, "v_add_u32"},     {TIR_sub, true, "v_sub_u32"},
        {TIR_mul, true, "v_mul_lo_u32"},  {TIR_min, true, "v_min_i32"},
        {TIR_max, true, "v_max_i32"},     {TIR_max3, true, "v_max3_i32"},
        {TIR_and, true, "v_and_b32"},     {TIR_or, true, "v_or_b32"},
        {TIR_xor, true, "v_xor_b32"},     {TIR_shl, true, "v_lshlrev_b32"},
        {TIR_shr, true, "v_lshrrev_b32"}, {TIR_sar, true, "v_ashrrev_i32"},
    };
    FOR_GFX9(t)
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_elementwise((*t)->machine.name, &cases[i]);
}

/* Operands need no v_max x, x to quiet NaNs before the maximum. */
TEST(maximum_needs_no_canonical_operand)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value a = unknown(&k, f32), b = unknown(&k, f32), c = unknown(&k, f32);
        keep(&k, tir_max(&k.b, tir_max3(&k.b, a, b, c), unknown(&k, f32)));
        struct compiled r = kernel_compile(&k);
        assert_int_equal(count_of(&r, "v_max"), 2);
        compiled_free(&r);
    }
}

TEST(multiply_and_add_are_rounded_apart)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value a = unknown(&k, f32), b = unknown(&k, f32), c = unknown(&k, f32);
    keep(&k, tir_add(&k.b, tir_mul(&k.b, a, b), c));
    struct compiled r = kernel_compile(&k);
    assert_count(&r, "v_mul_f32", 1);
    assert_count(&r, "v_add_f32", 1);
    assert_count(&r, "v_fma", 0);
    compiled_free(&r);
}

/* Clamped halves and their products: LLVM must find the clamp. */
TEST(pairs_of_f16_are_one_instruction_each)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value a = unknown(&k, f32), b = unknown(&k, f32);
    struct tir_value pair = tir_unit_pair(&k.b, a, b);
    keep(&k, tir_dot2(&k.b, pair, unknown(&k, i32), unknown(&k, f32)));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_cvt_pk_f16_f32", 1);
    assert_count(&c, "v_dot2c_f32_f16", 1);
    assert_count(&c, "v_pk_", 0);
    assert_count(&c, "v_max", 0);
    assert_count(&c, "v_min", 0);
    compiled_free(&c);
}

/* The workaround keeps LLVM from adding an s_nop between dependent maxima; see
 * lower_max3_pair(). */
TEST(dependent_maxima_of_pairs_need_no_nop)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value a[3] = {unknown(&k, i32), unknown(&k, i32), unknown(&k, i32)};
    a[0] = make(&k, TIR_max3_pair, i32, a, 3, 0, 0, 0);
    keep(&k, make(&k, TIR_max3_pair, i32, a, 3, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_pk_maximum3_f16", 2);
    assert_count(&c, "v_alignbit_b32", 0);
    assert_count(&c, "s_nop", 0);
    compiled_free(&c);
}

TEST(packing_two_bf16_is_one_instruction_where_there_is_one)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
    keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_cvt_pk_bf16_f32", 1);
    compiled_free(&c);
}

/* Each element takes bfe, add3, cmp and cndmask, the pair one perm. */
TEST(packing_two_bf16_in_software_takes_nine_instructions)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
    keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_bfe_u32", 2);
    assert_count(&c, "v_add3_u32", 2);
    assert_count(&c, "v_cmp_", 2);
    assert_count(&c, "v_cndmask_b32", 2);
    assert_count(&c, "v_perm_b32", 1);
    compiled_free(&c);
}

/* Each element takes one add, the pair one perm. NaNs with a non-zero low half are still kept. */
TEST(packing_two_bf16_takes_three_where_ties_go_up)
{
    for (int64_t short_nan = 0; short_nan < 2; short_nan++) {
        struct kernel k = kernel_create("gfx942", 1, 1);
        struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
        keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_BF16, 2), ab, 2, short_nan, 1, 0));
        struct compiled c = kernel_compile(&k);
        assert_count(&c, "v_bfe_u32", short_nan ? 0 : 2);
        assert_count(&c, "v_add_u32", short_nan ? 2 : 0);
        assert_count(&c, "v_cndmask_b32", short_nan ? 0 : 2);
        assert_count(&c, "v_perm_b32", 1);
        compiled_free(&c);
    }
}

/* bf16 results are the high halves; f16 has an instruction with this rounding. */
TEST(packing_two_toward_zero_is_one_instruction)
{
    FOR_GFX9(t)
    {
        for (int half = 0; half < 2; half++) {
            struct kernel k = kernel_create((*t)->machine.name, 1, 1);
            struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
            const unsigned dtype = half ? TIR_F16 : TIR_BF16;
            keep(&k, make(&k, TIR_convert_pair, tir_vec(dtype, 2), ab, 2, 1, TIR_TOWARD_ZERO, 0));
            struct compiled c = kernel_compile(&k);
            assert_count(&c, half ? "v_cvt_pkrtz_f16_f32" : "v_perm_b32", 1);
            assert_count(&c, "v_add_u32", 0);
            compiled_free(&c);
        }
    }
}

TEST(packing_two_f16_rounds_each)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
        keep(&k, make(&k, TIR_convert_pair, tir_vec(TIR_F16, 2), ab, 2, 0, 0, 0));
        struct compiled c = kernel_compile(&k);
        if (count_of(&c, "v_cvt_pk_f16_f32") != 1) { /* nearest even, unlike v_cvt_pkrtz */
            assert_count(&c, "v_cvt_f16_f32", 2);
            assert_count(&c, "v_pack_b32_f16", 1);
        }
        compiled_free(&c);
    }
}

static void check_convert(const char *target, struct tir_type from, struct tir_type to,
                          const char *instruction, unsigned n)
{
    struct kernel k = kernel_create(target, 1, 1);
    struct tir_value a = unknown(&k, from);
    keep(&k, make(&k, TIR_convert, to, &a, 1, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, instruction, n);
    compiled_free(&c);
}

TEST(conversions_use_the_conversion_instructions)
{
    FOR_GFX9(t)
    {
        const char *name = (*t)->machine.name;
        check_convert(name, i32, f32, "v_cvt_f32_i32", 1);
        check_convert(name, f32, i32, "v_cvt_i32_f32", 1);
        check_convert(name, f32, tir_vec(TIR_F16, 1), "v_cvt_f16_f32", 1);
        check_convert(name, tir_vec(TIR_F16, 1), f32, "v_cvt_f32_f16", 1);
        check_convert(name, tir_vec(TIR_BF16, 2), tir_vec(TIR_F32, 2), "v_and_b32_e32 v", 1);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_FP8, 4), "v_cvt_pk_fp8_f32", 2);
        check_convert(name, tir_vec(TIR_FP8, 4), tir_vec(TIR_F32, 4), "v_cvt_pk_f32_fp8", 2);
        check_convert(name, tir_vec(TIR_F32, 2), tir_vec(TIR_FP8, 2), "v_cvt_pk_fp8_f32", 1);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_FP8, 4), "v_med3_f32", 4);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_FP8, 4), "s_nop", 0);
        const bool direct = (*t)->machine.has_cvt_scale;
        check_convert(name, tir_vec(TIR_FP8, 4), tir_vec(TIR_BF16, 4),
                      direct ? "v_cvt_scalef32_pk_bf16_fp8" : "v_perm_b32", 2);
        check_convert(name, tir_vec(TIR_FP8, 4), tir_vec(TIR_F16, 4),
                      direct ? "v_cvt_scalef32_pk_f16_fp8" : "v_cvt_pkrtz_f16_f32", 2);
        check_convert(name, tir_vec(TIR_I8, 4), tir_vec(TIR_BF16, 4), "v_perm_b32", 2);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_I8, 4), "v_rndne_f32", 4);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_I8, 4), "v_med3_i32", 4);
        check_convert(name, tir_vec(TIR_F32, 4), tir_vec(TIR_I8, 4), "v_perm_b32", 3);
        check_convert(name, f32, tir_vec(TIR_BF16, 1),
                      (*t)->machine.has_cvt_pk_bf16 ? "v_cvt_pk_bf16_f32" : "v_add3_u32", 1);
    }
}

/* Loads an operand by one or two loads, since a load has at most 16 bytes per lane. */
static struct tir_value unknown_operand(struct kernel *k, struct tir_type t)
{
    if (t.count * tir_dtype_bits(t.dtype) <= 128)
        return unknown(k, t);
    const struct tir_type half = tir_vec(t.dtype, t.count / 2);
    struct tir_value halves[2] = {unknown(k, half), unknown(k, half)};
    return make(k, TIR_concat, t, halves, 2, 0, 0, 0);
}

/* Builds a row's instruction with unknown operands and scales. */
static struct tir_value unknown_product(struct kernel *k, const struct tir_mma *row, unsigned index)
{
    struct tir_type acc = tir_vec(row->acc_dtype, row->m * row->n / 64);
    struct tir_value operands[5] = {
        unknown_operand(k, tir_vec(row->in_dtype, 1u << row->a.reg_bits)),
        unknown_operand(k, tir_vec(row->right_dtype, 1u << row->b.reg_bits)),
        make(k, TIR_splat, acc, (struct tir_value[]){unknown(k, tir_vec(row->acc_dtype, 1))}, 1, 0,
             0, 0)};
    if (!row->scaled)
        return make(k, TIR_mfma, acc, operands, 3, index, 0, 0);
    operands[3] = tir_i32(&k->b, 118);
    operands[4] = unknown(k, tir_vec(TIR_I8, 4));
    return make(k, TIR_mfma_scaled, acc, operands, 5, index, 0, 3);
}

TEST(every_matrix_instruction_is_itself)
{
    FOR_GFX9(t)
    {
        for (unsigned i = 0; i < (*t)->machine.n_mma; i++) {
            const struct tir_mma *row = &(*t)->machine.mma[i];
            struct kernel k = kernel_create((*t)->machine.name, 1, 1);
            struct tir_value d = unknown_product(&k, row, i);
            for (unsigned e = 0; e < row->m * row->n / 64; e += 4)
                keep(&k, make(&k, TIR_extract, tir_vec(row->acc_dtype, 4), &d, 1, e, 0, 0));
            struct compiled c = kernel_compile(&k);
            char name[64];
            snprintf(name, sizeof(name), "v_%.*s ", (int)strcspn(row->name, " "), row->name);
            assert_count(&c, name, 1);
            compiled_free(&c);
        }
    }
}

static void check_lane_xor(const char *target, unsigned mask, const char *instruction, unsigned n)
{
    struct kernel k = kernel_create(target, 1, 1);
    struct tir_value a = unknown(&k, f32);
    keep(&k, make(&k, TIR_lane_xor, f32, &a, 1, mask, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, instruction, n);
    compiled_free(&c);
}

TEST(lane_xor_takes_the_cheapest_move)
{
    FOR_GFX9(t)
    {
        static const unsigned two_moves[] = {4, 5, 6, 9, 10, 11, 12, 13, 14};
        static const unsigned one_move[] = {1, 2, 3, 7, 8, 15};
        const char *name = (*t)->machine.name;
        for (size_t i = 0; i < sizeof(one_move) / sizeof(one_move[0]); i++)
            check_lane_xor(name, one_move[i], "v_mov_b32_dpp", 1);
        for (size_t i = 0; i < sizeof(two_moves) / sizeof(two_moves[0]); i++)
            check_lane_xor(name, two_moves[i], "v_mov_b32_dpp", 2);
    }
    check_lane_xor("gfx942", 16, "ds_swizzle_b32", 1);
    check_lane_xor("gfx942", 32, "ds_bpermute_b32", 1);
    check_lane_xor("gfx950", 16, "v_permlane16_swap_b32", 1);
    check_lane_xor("gfx950", 32, "v_permlane32_swap_b32", 1);
}

TEST(both_results_of_a_swap_come_from_one_instruction)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value ab[2] = {unknown(&k, f32), unknown(&k, f32)};
    struct tir_value first = make(&k, TIR_lane_swap, f32, ab, 2, 32, 0, 0);
    struct tir_value second = make(&k, TIR_lane_swap, f32, ab, 2, 32, 1, 0);
    keep(&k, tir_max(&k.b, first, second));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_permlane32_swap_b32", 1);
    compiled_free(&c);
}

TEST(any_is_a_scalar_branch_condition)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value a = unknown(&k, f32), b = unknown(&k, f32);
    struct tir_value some = tir_any(&k.b, tir_cmp_lt(&k.b, a, b));
    struct tir_if s = tir_begin_if(&k.b, some, false, NULL, 0);
    keep(&k, a);
    tir_end_if(&k.b, &s, NULL);
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_cmp_", 1);
    assert_int_equal(count_of(&c, "s_cbranch_"), 1);
    assert_count(&c, "s_and_saveexec", 0);
    compiled_free(&c);
}

/* The functions from here on test accesses to memory. */

static struct tir_value rsrc(struct kernel *k)
{
    return tir_make_rsrc(&k->b, tir_arg(&k->b, "in", TIR_I64), tir_arg(&k->b, "bytes", TIR_I32));
}

TEST(buffer_ops_take_their_offset_into_the_instruction)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value operands[4] = {rsrc(&k), tir_lane_id(&k.b),
                                        tir_arg(&k.b, "where", TIR_I32)};
        operands[3] = make(&k, TIR_buffer_load, tir_vec(TIR_BF16, 8), operands, 3, 2048, 0, 0);
        make(&k, TIR_buffer_store, no_type, operands, 4, 1024, 0, 0);
        struct compiled c = kernel_compile(&k);
        assert_count(&c, "buffer_load_dwordx4", 1);
        assert_count(&c, "buffer_store_dwordx4", 1);
        for (size_t i = 0; i < c.code.count; i++) {
            const char *text = c.code.insts[i].text;
            if (strncmp(text, "buffer_load", 11) == 0)
                assert_non_null(strstr(text, "offen offset:2048"));
            if (strncmp(text, "buffer_store", 12) == 0)
                assert_non_null(strstr(text, "offen offset:1024"));
        }
        compiled_free(&c);
    }
}

TEST(narrow_loads_stay_apart_when_a_wait_counts_them)
{
    for (int counted = 0; counted < 2; counted++) {
        struct kernel k = kernel_create("gfx942", 1, 1);
        struct tir_value operands[3] = {rsrc(&k), tir_lane_id(&k.b), tir_i32(&k.b, 0)};
        struct tir_value a = make(&k, TIR_buffer_load, f32, operands, 3, 0, 0, 0);
        struct tir_value b = make(&k, TIR_buffer_load, f32, operands, 3, 4, 0, 0);
        if (counted)
            make(&k, TIR_waitcnt, no_type, NULL, 0, 1, -1, 0);
        keep(&k, tir_add(&k.b, a, b));
        struct compiled c = kernel_compile(&k);
        assert_count(&c, "buffer_load_dword ", counted ? 2 : 0);
        compiled_free(&c);
    }
}

TEST(global_ops_use_a_scalar_base)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    keep(&k, unknown(&k, tir_vec(TIR_F32, 4)));
    struct compiled c = kernel_compile(&k);
    const char *expected[] = {"s_load_dword", "global_load_dwordx4 ", "global_store_dwordx4 "};
    assert_sequence(&c, expected, 3);
    for (size_t i = 0; i < c.code.count; i++)
        if (strncmp(c.code.insts[i].text, "global_", 7) == 0)
            assert_non_null(strstr(c.code.insts[i].text, "s["));
    compiled_free(&c);
}

TEST(scalar_loads_are_scalar)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value base = tir_arg(&k.b, "in", TIR_I64);
    struct tir_value at = tir_mul(&k.b, tir_block_id(&k.b, 0), tir_i32(&k.b, 4));
    struct tir_value v = tir_scalar_load(&k.b, base, at, TIR_I32);
    struct tir_value lane = tir_lane_id(&k.b);
    struct tir_value add[2] = {lane, v};
    keep(&k, make(&k, TIR_add, i32, add, 2, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "global_load", 0);
    assert_true(count_of(&c, "s_load_dword") >= 2);
    compiled_free(&c);
}

/* LLVM would otherwise make one zero after the barrier and copy it. */
TEST(materialized_constants_are_not_moved)
{
    const struct tir_type t = tir_vec(TIR_F32, 4);
    FOR_GFX9(target)
    {
        struct kernel k = kernel_create((*target)->machine.name, 4, 4);
        struct tir_value v[2];
        for (int i = 0; i < 2; i++)
            v[i] = tir_materialize(&k.b, tir_splat(&k.b, tir_f32(&k.b, 0), t));
        tir_barrier(&k.b);
        for (int i = 0; i < 2; i++)
            keep(&k, v[i]);
        struct compiled c = kernel_compile(&k);
        unsigned registers = 0;
        for (size_t i = 0; i < c.code.count && !strstr(c.code.insts[i].text, "s_barrier"); i++) {
            registers += !strncmp(c.code.insts[i].text, "v_mov_b32", 9);
            registers += 2 * !strncmp(c.code.insts[i].text, "v_mov_b64", 9);
        }
        if (registers < 8)
            fail_msg("%u registers of 8 are made in front of the barrier", registers);
        compiled_free(&c);
    }
}

/* LLVM would load and wait for those that a branch needs first, and load the others after it. */
TEST(anchored_scalars_are_loaded_before_a_wait)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        struct tir_value base = tir_arg(&k.b, "in", TIR_I64), v[4];
        struct tir_value at = tir_mul(&k.b, tir_block_id(&k.b, 0), tir_i32(&k.b, 64));
        for (int i = 0; i < 4; i++)
            v[i] = tir_scalar_load(&k.b, base, tir_add(&k.b, at, tir_i32(&k.b, 16 * i)), TIR_I32);
        tir_anchor_all(&k.b, v, 4);
        const struct tir_value first = tir_sub(&k.b, v[1], v[0]);
        struct tir_if some =
            tir_begin_if(&k.b, tir_cmp_gt(&k.b, first, tir_i32(&k.b, 0)), false, NULL, 0);
        keep(&k, tir_splat(&k.b, tir_sub(&k.b, v[3], v[2]), i32));
        tir_end_if(&k.b, &some, NULL);
        struct compiled c = kernel_compile(&k);
        unsigned loads = 0;
        for (size_t i = 0; i < c.code.count && loads < 4; i++) {
            if (!strncmp(c.code.insts[i].text, "s_load_dword ", 13))
                loads++;
            else if (loads)
                assert_null(strstr(c.code.insts[i].text, "s_waitcnt"));
        }
        assert_int_equal(loads, 4);
        compiled_free(&c);
    }
}

/* LLVM's AMDGPUUsage, "Memory Model gfx942": a release for the agent writes back the L2 and waits
 * before the atomic, also if the wave has waited for its stores before. An acquire invalidates
 * caches. An arrival does not acquire. */
TEST(arrivals_release_and_acquires_invalidate)
{
    FOR_GFX9(t)
    for (int waits = 0; waits < 2; waits++) {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        const struct tir_value at = tir_arg(&k.b, "in", TIR_I64);
        keep(&k, tir_lane_id(&k.b));
        if (waits)
            tir_wait_memory(&k.b);
        keep(&k, tir_splat(&k.b, tir_arrive(&k.b, at, tir_i32(&k.b, 5)), i32));
        struct compiled c = kernel_compile(&k);
        const char *release[] = {"global_store_dword ", "buffer_wbl2 sc1", "s_waitcnt vmcnt(0)",
                                 "global_atomic_inc "};
        assert_sequence(&c, release, 4);
        assert_count(&c, "buffer_inv", 0);
        compiled_free(&c);

        k = kernel_create((*t)->machine.name, 1, 1);
        tir_acquire(&k.b);
        c = kernel_compile(&k);
        assert_count(&c, "buffer_inv sc1", 1);
        compiled_free(&c);
    }
}

/* An atomic add writes back the L2 only if its op requests a release. */
TEST(adding_releases_on_request)
{
    FOR_GFX9(t)
    for (int release = 0; release < 2; release++) {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        const struct tir_value at = tir_arg(&k.b, "in", TIR_I64);
        const struct tir_value n = tir_i32(&k.b, 7);
        keep(&k, tir_splat(&k.b, tir_atomic_add(&k.b, at, n, release), i32));
        struct compiled c = kernel_compile(&k);
        assert_count(&c, "global_atomic_add ", 1);
        assert_count(&c, "buffer_wbl2 sc1", (unsigned)release);
        assert_count(&c, "v_mbcnt", 0); /* one lane adds, so there is no sum over lanes */
        compiled_free(&c);
    }
}

/* A poll reads past the caches and sleeps before the next one; leaving is a compare-and-swap. */
TEST(polls_sleep_and_leave)
{
    FOR_GFX9(t)
    for (unsigned sleep = 0; sleep < 3; sleep++) {
        struct kernel k = kernel_create((*t)->machine.name, 1, 1);
        const struct tir_value at = tir_arg(&k.b, "in", TIR_I64);
        keep(&k, tir_splat(&k.b, tir_await(&k.b, at, tir_i32(&k.b, 3), 9, sleep), i32));
        struct compiled c = kernel_compile(&k);
        assert_count(&c, "s_sleep ", sleep ? 1 : 0);
        assert_count(&c, "global_atomic_cmpswap ", 1);
        assert_count(&c, "buffer_wbl2", 0);
        unsigned past_caches = 0;
        for (size_t i = 0; i < c.code.count; i++)
            past_caches += !strncmp(c.code.insts[i].text, "global_load_dword ", 18) &&
                           strstr(c.code.insts[i].text, "sc1");
        assert_int_equal(past_caches, 1);
        compiled_free(&c);
    }
}

TEST(lds_ops_take_their_offset_into_the_instruction)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 2, 1);
        k.f->lds_bytes = 16384;
        struct tir_value lane = tir_lane_id(&k.b);
        struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, 16));
        struct tir_value write[2] = {at, unknown(&k, tir_vec(TIR_F32, 4))};
        make(&k, TIR_lds_write, no_type, write, 2, 2048, 0, 0);
        make(&k, TIR_wait, no_type, NULL, 0, -1, 0, 0);
        make(&k, TIR_barrier, no_type, NULL, 0, 0, 0, 0);
        keep(&k, make(&k, TIR_lds_read, tir_vec(TIR_F32, 4), &at, 1, 4096, 0, 0));
        struct compiled c = kernel_compile(&k);
        const char *expected[] = {"ds_write_b128", "s_waitcnt lgkmcnt(0)", "s_barrier",
                                  "ds_read_b128",  "s_waitcnt lgkmcnt(0)", "global_store"};
        assert_sequence(&c, expected, 6);
        assert_int_equal(c.facts.lds_bytes, 16384);
        compiled_free(&c);
    }
}

TEST(transposing_reads_are_for_targets_that_have_them)
{
    struct kernel k = kernel_create("gfx950", 1, 1);
    struct tir_value lane = tir_lane_id(&k.b);
    struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, 8));
    keep(&k, make(&k, TIR_lds_read_tr, tir_vec(TIR_BF16, 4), &at, 1, 512, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "ds_read_b64_tr_b16", 1);
    compiled_free(&c);
}

/* A wait for the older of two copies, in groups of their own, leaves the newer one in flight. */
TEST(the_tensor_mover_has_a_counter_of_its_own)
{
    struct kernel k = kernel_create("gfx1250", 1, 1);
    const struct tir_value at = tir_arg(&k.b, "p", TIR_I64), zero = tir_i32(&k.b, 0);
    const struct tir_rows r = {at, tir_i64(&k.b, 256), tir_i32(&k.b, 5), 8, 256};
    k.f->lds_bytes = 8192;
    tir_tensor_to_lds(&k.b, 0, &r, zero, 256, 16);
    tir_tensor_to_lds(&k.b, 1, &r, tir_i32(&k.b, 4096), 256, 16);
    tir_wait(&k.b, 0, 0);
    tir_barrier(&k.b);
    tir_lower_waits(k.f, NULL);
    struct tir_value lane = tir_lane_id(&k.b);
    struct tir_value own = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, 16));
    keep(&k, make(&k, TIR_lds_read_tr, tir_vec(TIR_BF16, 8), &own, 1, 0, 0, 0));
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "tensor_load_to_lds", 2);
    assert_count(&c, "s_wait_tensorcnt 0x1", 1);
    assert_count(&c, "ds_load_tr16_b128", 1);
    compiled_free(&c);
}

static void check_refused(struct kernel *k, const char *sentence)
{
    struct tgt_codegen_options o = {.kind = TGT_EMIT_OBJECT};
    struct tgt_blob out = {0};
    char why[TGT_WHY];
    tir_return(&k->b);
    assert_false(tgt_emit(k->f, k->t, &o, &out, why));
    assert_null(out.data);
    assert_string_equal(why, sentence);
    tir_func_destroy(k->f);
}

TEST(what_a_target_lacks_is_refused_with_a_sentence)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value lane = tir_lane_id(&k.b);
    make(&k, TIR_lds_read_tr, tir_vec(TIR_BF16, 4), &lane, 1, 0, 0, 0);
    check_refused(&k, "gfx942 has no transposing LDS read");

    k = kernel_create("gfx942", 1, 1);
    struct tir_value zero = tir_i32(&k.b, 0);
    struct tir_value operands[4] = {rsrc(&k), zero, tir_lane_id(&k.b), zero};
    make(&k, TIR_buffer_to_lds, no_type, operands, 4, 0, 16, 0);
    check_refused(&k, "gfx942 copies no 16 bytes a lane to LDS");

    k = kernel_create("gfx1250", 1, 1); /* whose instructions copy 4 or 16 bytes of these sizes */
    zero = tir_i32(&k.b, 0);
    const struct tir_value three[4] = {rsrc(&k), zero, tir_lane_id(&k.b), zero};
    make(&k, TIR_buffer_to_lds, no_type, three, 4, 0, 12, 0);
    check_refused(&k, "gfx1250 copies no 12 bytes a lane to LDS");

    k = kernel_create("gfx942", 1, 1);
    make(&k, TIR_wait, no_type, NULL, 0, 2, 1, 0);
    check_refused(&k, "wait on copy group 2 has not been counted");

    k = kernel_create("gfx950", 1, 1);
    make(&k, TIR_barrier_signal, no_type, NULL, 0, 0, 0, 0);
    check_refused(&k, "gfx950's barriers have no halves");
}

int main(void) { return run_unit_tests(); }
