/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what LLVM must preserve in a loop: the order of the ops, counted waits, values carried in
 * registers without copies, and cold code out of line.
 */
#include "tests/targets/harness.h"

#include <stdio.h>
#include <string.h>

enum { VALU_PER_MFMA = 7, CHAIN = 8 };

static const struct tir_type f32 = {.kind = TIR_VEC, .dtype = TIR_F32, .count = 1};
static const struct tir_type acc32 = {.kind = TIR_VEC, .dtype = TIR_F32, .count = 16};
static const struct tir_type no_type = {0};

/* Begins a loop from 0 to the argument n that carries `carried`. */
static struct tir_loop begin_loop(struct kernel *k, struct tir_value *carried, unsigned n)
{
    struct tir_value zero = tir_i32(&k->b, 0), one = tir_i32(&k->b, 1);
    return tir_begin_for(&k->b, zero, tir_arg(&k->b, "n", TIR_I32), one, carried, n);
}

static int mma32(const struct kernel *k, unsigned dtype)
{
    return tir_find_mma(&k->t->machine, 32, 32, 0, dtype);
}

static struct tir_type operand_type(const struct kernel *k, int instr)
{
    const struct tir_mma *row = &k->t->machine.mma[instr];
    return tir_vec(row->in_dtype, row->m * row->k / 64);
}

static struct tir_value mfma(struct kernel *k, int instr, struct tir_value a, struct tir_value b,
                             struct tir_value c)
{
    struct tir_value abc[3] = {a, b, c};
    return make(k, TIR_mfma, acc32, abc, 3, instr, 0, 0);
}

static struct tir_value mfma_in_agprs(struct kernel *k, int instr, struct tir_value a,
                                      struct tir_value b, struct tir_value c)
{
    struct tir_value abc[3] = {a, b, c};
    return make(k, TIR_mfma, acc32, abc, 3, instr, 1, 0);
}

static struct tir_value element(struct kernel *k, struct tir_value v, unsigned i)
{
    return make(k, TIR_extract, f32, &v, 1, i, 0, 0);
}

static struct tir_value zero_acc(struct kernel *k)
{
    return make(k, TIR_const_float, acc32, NULL, 0, 0, 0, 0);
}

static void keep_acc(struct kernel *k, struct tir_value acc)
{
    for (unsigned e = 0; e < 16; e += 4)
        keep(k, make(k, TIR_extract, tir_vec(TIR_F32, 4), &acc, 1, e, 0, 0));
}

/* Writes one letter for each matrix or vector instruction of the hot loop. */
static void loop_letters(const struct compiled *c, char *letters, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < c->code.count && n + 1 < size; i++) {
        const struct tgt_inst *inst = &c->code.insts[i];
        bool inside = inst->offset >= c->facts.loop.start && inst->offset < c->facts.loop.end;
        if (inside && inst->text[0] == 'v')
            letters[n++] = strncmp(inst->text, "v_mfma", 6) ? 'v' : 'M';
    }
    letters[n] = 0;
}

/* An MFMA chain over two accumulators, with seven independent multiplications after each MFMA. */
TEST(order_of_matrix_and_vector_instructions_is_kept)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 8, 2);
        int instr = mma32(&k, TIR_BF16);
        struct tir_value a = unknown(&k, operand_type(&k, instr));
        struct tir_value b = unknown(&k, operand_type(&k, instr)), scale = unknown(&k, f32);
        struct tir_value some = unknown(&k, f32);
        struct tir_value carried[3] = {zero_acc(&k), zero_acc(&k),
                                       make(&k, TIR_splat, acc32, &some, 1, 0, 0, 0)};
        struct tir_loop loop = begin_loop(&k, carried, 3);

        struct tir_value out[4 * 16];
        for (unsigned i = 0; i < 16; i++)
            out[i] = element(&k, carried[2], i);
        for (unsigned m = 0, v = 0; m < CHAIN; m++) {
            carried[m % 2] = mfma(&k, instr, a, b, carried[m % 2]);
            for (unsigned i = 0; i < VALU_PER_MFMA; i++, v++)
                out[v % 16] = tir_mul(&k.b, out[v % 16], scale);
        }
        carried[2] = make(&k, TIR_concat, acc32, out, 16, 0, 0, 0);
        tir_end_for(&k.b, &loop, carried, 3);
        for (unsigned i = 0; i < 3; i++)
            keep_acc(&k, carried[i]);

        struct compiled c = kernel_compile(&k);
        char letters[256], expected[256] = "";
        for (unsigned m = 0; m < CHAIN; m++)
            strcat(expected, "Mvvvvvvv");
        loop_letters(&c, letters, sizeof(letters));
        assert_string_equal(letters, expected);
        assert_int_equal(c.facts.loop.copies, 0);
        assert_int_equal(c.facts.vgpr_spills, 0);
        assert_int_equal(c.facts.scratch_bytes, 0);
        compiled_free(&c);
    }
}

static struct tir_value lds_read(struct kernel *k, struct tir_value at, int offset)
{
    return make(k, TIR_lds_read, tir_vec(TIR_F32, 4), &at, 1, offset, 0, 0);
}

/* Direct-to-LDS loads of the next tile stay in flight while this one is read. */
TEST(reads_of_lds_do_not_wait_for_loads_to_lds)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 8, 2);
        unsigned bytes = tir_lane_copy(&(*t)->machine, 0)->bytes;
        k.f->lds_bytes = 32768;
        struct tir_value lane = tir_lane_id(&k.b);
        struct tir_value at = tir_mul(&k.b, lane, tir_int_like(&k.b, lane, 16));
        struct tir_value base = tir_arg(&k.b, "in", TIR_I64);
        struct tir_value size = tir_arg(&k.b, "bytes", TIR_I32);
        struct tir_value rsrc = tir_make_rsrc(&k.b, base, size);
        struct tir_value carried = make(&k, TIR_const_float, tir_vec(TIR_F32, 4), NULL, 0, 0, 0, 0);
        struct tir_loop loop = begin_loop(&k, &carried, 1);

        for (int i = 0; i < 2; i++) {
            struct tir_value copy[4] = {rsrc, tir_i32(&k.b, 16384 + 4096 * i), at, loop.index};
            make(&k, TIR_buffer_to_lds, no_type, copy, 4, 0, bytes, 1024 * i);
        }
        struct tir_value sum = tir_add(&k.b, lds_read(&k, at, 0), lds_read(&k, at, 4096));
        carried = tir_add(&k.b, carried, sum);
        make(&k, TIR_waitcnt, no_type, NULL, 0, 2, -1, 0);
        make(&k, TIR_barrier, no_type, NULL, 0, 0, 0, 0);
        tir_end_for(&k.b, &loop, &carried, 1);
        keep(&k, carried);

        struct compiled c = kernel_compile(&k);
        const char *expected[] = {"buffer_load_", "buffer_load_",       "ds_read_b128",
                                  "ds_read_b128", "s_waitcnt vmcnt(2)", "s_barrier"};
        assert_sequence(&c, expected, 6);
        assert_int_equal(c.facts.loop.waits_vm0, 0);
        assert_int_equal(c.facts.loop.loads_to_lds, 2);
        assert_int_equal(c.facts.loop.barriers, 1);
        compiled_free(&c);
    }
}

/* Compiles the rescale of an online softmax: a rarely taken branch changes the accumulator. */
static void rescale_in_a_cold_branch(const char *target, unsigned waves_per_simd)
{
    struct kernel k = kernel_create(target, 4 * waves_per_simd, waves_per_simd);
    int instr = mma32(&k, TIR_F16);
    struct tir_value a = unknown(&k, operand_type(&k, instr));
    struct tir_value b = unknown(&k, operand_type(&k, instr)), limit = unknown(&k, f32);
    struct tir_value acc = zero_acc(&k);
    struct tir_loop loop = begin_loop(&k, &acc, 1);
    acc = mfma(&k, instr, a, b, acc);
    struct tir_value grew = tir_any(&k.b, tir_cmp_gt(&k.b, element(&k, acc, 0), limit));
    struct tir_if cold = tir_begin_if(&k.b, grew, true, &acc32, 1);
    struct tir_value scaled[16], same = acc, merged;
    for (unsigned i = 0; i < 16; i++)
        scaled[i] = tir_mul(&k.b, element(&k, acc, i), limit);
    struct tir_value rescaled = make(&k, TIR_concat, acc32, scaled, 16, 0, 0, 0);
    tir_else(&k.b, &cold, &rescaled);
    merged = same;
    tir_end_if(&k.b, &cold, &merged);
    acc = mfma(&k, instr, a, b, merged);
    tir_end_for(&k.b, &loop, &acc, 1);
    keep_acc(&k, acc);

    struct compiled c = kernel_compile(&k);
    char letters[64];
    loop_letters(&c, letters, sizeof(letters));
    assert_string_equal(letters, "MvM"); /* only the comparison */
    assert_true(count_of(&c, "v_mul_f32") + 2 * count_of(&c, "v_pk_mul_f32") >= 16);
    assert_int_equal(c.facts.loop.copies, 0);
    compiled_free(&c);
}

/* One wave per SIMD could keep the accumulator in AGPRs. It would then be copied to VGPRs and back
 * in every iteration, since the branch multiplies it there. */
TEST(cold_code_is_out_of_line_and_costs_no_copies)
{
    FOR_GFX9(t)
    for (unsigned waves = 1; waves <= 2; waves++)
        rescale_in_a_cold_branch((*t)->machine.name, waves);
}

/* Eight accumulators are in AGPRs, ten in VGPRs. A branch multiplies the accumulators in AGPRs.
 * The loop copies none of them. The first reader waits for all results. */
TEST(accumulators_stay_in_agprs)
{
    enum { THERE = 8, ALL = 18 };
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 4, 1);
        const int instr = mma32(&k, TIR_BF16);
        const struct tir_value a = unknown(&k, operand_type(&k, instr)), limit = unknown(&k, f32);
        struct tir_value acc[ALL], rescaled[THERE];
        struct tir_type types[THERE];
        for (unsigned i = 0; i < ALL; i++)
            acc[i] = zero_acc(&k);
        struct tir_loop loop = begin_loop(&k, acc, ALL);
        for (unsigned i = 0; i < THERE; i++)
            acc[i] = mfma_in_agprs(&k, instr, a, a, acc[i]);
        for (unsigned i = THERE; i < ALL; i++)
            acc[i] = mfma(&k, instr, a, a, acc[i]);
        for (unsigned i = 0; i < THERE; i++)
            types[i] = acc32;
        const struct tir_value grew =
            tir_any(&k.b, tir_cmp_gt(&k.b, element(&k, acc[ALL - 1], 0), limit));
        struct tir_if cold = tir_begin_if(&k.b, grew, true, types, THERE);
        for (unsigned i = 0; i < THERE; i++) {
            struct tir_value scaled[16];
            for (unsigned e = 0; e < 16; e++)
                scaled[e] = tir_mul(&k.b, element(&k, acc[i], e), limit);
            rescaled[i] = make(&k, TIR_concat, acc32, scaled, 16, 0, 0, 0);
        }
        tir_else(&k.b, &cold, rescaled);
        tir_end_if(&k.b, &cold, acc);
        tir_end_for(&k.b, &loop, acc, ALL);
        for (unsigned i = 0; i < ALL; i++)
            keep_acc(&k, acc[i]);
        struct compiled c = kernel_compile(&k);
        assert_int_equal(c.facts.agprs, 16 * THERE);
        assert_int_equal(c.facts.vgpr_spills, 0);
        assert_int_equal(c.facts.loop.copies, 0);
        const char *expected[] = {"v_mfma", "s_nop 15", "s_nop 3", "v_accvgpr_read"};
        assert_sequence(&c, expected, 4);
        assert_int_equal(count_of(&c, "s_nop 15"), 2); /* in the branch and after the loop */
        compiled_free(&c);
    }
}

/* A concat that replaces one element of an accumulator in AGPRs leaves the other elements there. */
TEST(one_element_of_an_accumulator_is_replaced)
{
    FOR_GFX9(t)
    for (unsigned replaced = 0; replaced < 16; replaced += 5) {
        struct kernel k = kernel_create((*t)->machine.name, 4, 1);
        const int instr = mma32(&k, TIR_BF16);
        const struct tir_value a = unknown(&k, operand_type(&k, instr)), other = unknown(&k, f32);
        const struct tir_value acc = mfma_in_agprs(&k, instr, a, a, zero_acc(&k));
        struct tir_value parts[16];
        for (unsigned i = 0; i < 16; i++)
            parts[i] = i == replaced ? other : element(&k, acc, i);
        const struct tir_value changed = make(&k, TIR_concat, acc32, parts, 16, 0, 0, 0);
        keep_acc(&k, mfma_in_agprs(&k, instr, a, a, changed));
        struct compiled c = kernel_compile(&k);
        assert_int_equal(c.facts.agprs, 16);
        assert_in_range(count_of(&c, "v_accvgpr_write"), 1, 2);
        compiled_free(&c);
    }
}

/* Each settle emits some of the wait states until a result can be read; the rest comes before the
 * read. */
TEST(settle_emits_wait_states)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 4, 1);
        const int instr = mma32(&k, TIR_BF16);
        const struct tir_value a = unknown(&k, operand_type(&k, instr));
        const struct tir_value acc = mfma_in_agprs(&k, instr, a, a, zero_acc(&k));
        tir_settle(&k.b, 6);
        tir_barrier(&k.b);
        tir_settle(&k.b, 9);
        tir_barrier(&k.b);
        keep_acc(&k, acc);
        struct compiled c = kernel_compile(&k);
        const char *expected[] = {"v_mfma",    "s_nop 5", "s_barrier",   "s_nop 8",
                                  "s_barrier", "s_nop 4", "global_store"};
        assert_sequence(&c, expected, 7);
        compiled_free(&c);
    }
}

/* A scale per block is in a register that the loop writes, without a mask for its byte. A constant
 * scale is in a register from before the loop. Neither needs an instruction before the product. */
TEST(scales_need_no_further_instruction)
{
    FOR_GFX9(t)
    {
        const struct tir_machine *const m = &(*t)->machine;
        const int instr = tir_find_mma_scaled(m, 32, 32, TIR_MX_E4M3, TIR_MX_E4M3);
        if (instr < 0)
            continue;
        struct kernel k = kernel_create(m->name, 4, 1);
        const struct tir_type dwords = tir_vec(TIR_I32, 4);
        const struct tir_value halves[] = {unknown(&k, dwords), unknown(&k, dwords)};
        const struct tir_value all = make(&k, TIR_concat, tir_vec(TIR_I32, 8), halves, 2, 0, 0, 0);
        const struct tir_value a = tir_bitcast(&k.b, all, tir_vec(TIR_FP8, 32));
        struct tir_value carried[] = {zero_acc(&k), unknown(&k, tir_vec(TIR_I32, 1))};
        struct tir_loop loop = begin_loop(&k, carried, 2);
        carried[1] = tir_add(&k.b, carried[1], carried[1]);
        const struct tir_value operands[] = {
            a, a, carried[0], tir_i32(&k.b, 127),
            make(&k, TIR_convert, tir_vec(TIR_I8, 1), &carried[1], 1, 0, 0, 0)};
        carried[0] =
            tir_build(&k.b, TIR_mfma_scaled, no_type, operands, 5, (int64_t[]){instr, 0, 0, 1});
        tir_end_for(&k.b, &loop, carried, 2);
        keep_acc(&k, carried[0]);
        struct compiled c = kernel_compile(&k);
        char letters[64];
        loop_letters(&c, letters, sizeof(letters));
        assert_string_equal(letters, "vM");
        assert_int_equal(c.facts.agprs, 16);
        compiled_free(&c);
    }
}

/* Around a short branch the result is read no earlier than the path past the branch allows. */
TEST(a_short_branch_leaves_no_state_out)
{
    struct kernel k = kernel_create("gfx942", 4, 1);
    const int instr = mma32(&k, TIR_F16);
    const struct tir_value a = unknown(&k, operand_type(&k, instr)), limit = unknown(&k, f32);
    struct tir_value acc = zero_acc(&k), merged = limit;
    const struct tir_value grew =
        tir_any(&k.b, tir_cmp_gt(&k.b, limit, tir_mul(&k.b, limit, limit)));
    acc = mfma(&k, instr, a, a, acc);
    make(&k, TIR_barrier, no_type, NULL, 0, 0, 0, 0);
    struct tir_if cold = tir_begin_if(&k.b, grew, true, &f32, 1);
    const struct tir_value twice = tir_add(&k.b, limit, limit);
    tir_else(&k.b, &cold, &twice);
    tir_end_if(&k.b, &cold, &merged);
    keep(&k, tir_add(&k.b, element(&k, acc, 0), merged));
    struct compiled c = kernel_compile(&k);
    /* 8 passes and 3 more states: the barrier, the branch, a load and 8 of the nop. */
    const char *expected[] = {"v_mfma",         "s_barrier", "s_cbranch",
                              "s_load_dwordx2", "s_nop 7",   "v_add_f32"};
    assert_sequence(&c, expected, 6);
    compiled_free(&c);
}

/* A cold branch with accumulators begins with wait states; a bare one has none, because its author
 * asserts that no result is in flight. */
TEST(a_bare_branch_has_no_states)
{
    for (int bare = 0; bare < 2; bare++) {
        struct kernel k = kernel_create("gfx942", 4, 1);
        const int instr = mma32(&k, TIR_F16);
        const struct tir_value a = unknown(&k, operand_type(&k, instr)), limit = unknown(&k, f32);
        struct tir_value acc = zero_acc(&k), out[16];
        struct tir_loop loop = begin_loop(&k, &acc, 1);
        acc = mfma_in_agprs(&k, instr, a, a, acc);
        const struct tir_value grew =
            tir_any(&k.b, tir_cmp_gt(&k.b, limit, tir_mul(&k.b, limit, limit)));
        struct tir_if cold = bare ? tir_begin_bare_if(&k.b, grew, &acc32, 1)
                                  : tir_begin_if(&k.b, grew, true, &acc32, 1);
        for (unsigned e = 0; e < 16; e++)
            out[e] = tir_mul(&k.b, element(&k, acc, e), limit);
        const struct tir_value scaled = make(&k, TIR_concat, acc32, out, 16, 0, 0, 0);
        tir_else(&k.b, &cold, &scaled);
        tir_end_if(&k.b, &cold, &acc);
        tir_end_for(&k.b, &loop, &acc, 1);
        keep_acc(&k, acc);
        struct compiled c = kernel_compile(&k);
        assert_int_equal(count_of(&c, "s_nop 15"), 2 - bare); /* one is after the loop */
        compiled_free(&c);
    }
}

/* LLVM handles no hazards of assembly. A permuted operand must be two wait states old when a
 * product in AGPRs reads it (tools/hipsim/docs/hipsim-checks.md: VALU writes a VGPR, MFMA reads
 * it). Two other products replace these states. */
TEST(permuted_operands_wait_for_a_product_in_agprs)
{
    unsigned states[3];
    for (int others = 0; others < 3; others++) {
        struct kernel k = kernel_create("gfx942", 4, 1);
        const int instr = mma32(&k, TIR_BF16);
        const struct tir_type t = operand_type(&k, instr);
        const struct tir_value a = unknown(&k, t), raw = unknown(&k, tir_vec(TIR_I32, 2));
        struct tir_value word[2], acc[4], swapped[2];
        for (unsigned i = 0; i < 2; i++)
            word[i] = make(&k, TIR_extract, tir_vec(TIR_I32, 1), &raw, 1, i, 0, 0);
        for (int i = 0; i < 4; i++)
            acc[i] = mfma_in_agprs(&k, instr, a, a, zero_acc(&k));
        for (unsigned i = 0; i < 2; i++)
            swapped[i] = make(&k, TIR_byte_perm, tir_vec(TIR_I32, 1), word, 2,
                              i ? 0x07060302 : 0x05040100, 0, 0);
        const struct tir_value both =
            make(&k, TIR_concat, tir_vec(TIR_I32, 2), swapped, 2, 0, 0, 0);
        for (int i = 0; i < others; i++)
            acc[i] = mfma_in_agprs(&k, instr, a, a, acc[i]);
        acc[3] = mfma_in_agprs(&k, instr, tir_bitcast(&k.b, both, t), a, acc[3]);
        for (unsigned i = 0; i < 4; i++)
            keep_acc(&k, acc[i]);
        struct compiled c = kernel_compile(&k);
        assert_int_equal(count_of(&c, "v_perm_b32"), 2);
        states[others] = count_of(&c, "s_nop 1") - count_of(&c, "s_nop 15");
        compiled_free(&c);
    }
    assert_int_equal(states[0], states[2] + 1);
    assert_int_equal(states[1], states[2] + 1);
}

/* Waves with 224 accumulator registers, two per SIMD, have no AGPRs and no spills. */
TEST(two_waves_a_simd_have_256_registers_each_without_agprs)
{
    FOR_GFX9(t)
    {
        enum { ACCS = 14 };
        struct kernel k = kernel_create((*t)->machine.name, 8, 2);
        int instr = mma32(&k, TIR_BF16);
        struct tir_value a = unknown(&k, operand_type(&k, instr));
        struct tir_value acc[ACCS];
        for (unsigned i = 0; i < ACCS; i++)
            acc[i] = zero_acc(&k);
        struct tir_loop loop = begin_loop(&k, acc, ACCS);
        for (unsigned i = 0; i < ACCS; i++)
            acc[i] = mfma(&k, instr, a, a, acc[i]);
        tir_end_for(&k.b, &loop, acc, ACCS);
        for (unsigned i = 0; i < ACCS; i++)
            keep_acc(&k, acc[i]);
        struct compiled c = kernel_compile(&k);
        assert_int_equal(c.facts.agprs, 0);
        assert_true(c.facts.vgprs > 16 * ACCS && c.facts.vgprs <= 256);
        assert_int_equal(c.facts.occupancy, 2);
        assert_int_equal(c.facts.vgpr_spills, 0);
        assert_int_equal(c.facts.loop.copies, 0);
        compiled_free(&c);
    }
}

/* The kernel has both loops, and the inner one is hot. */
TEST(the_hot_loop_is_the_innermost_with_matrix_instructions)
{
    struct kernel k = kernel_create("gfx942", 4, 1);
    int instr = mma32(&k, TIR_F16);
    struct tir_value a = unknown(&k, operand_type(&k, instr)), acc = zero_acc(&k);
    struct tir_loop outer = begin_loop(&k, &acc, 1);
    acc = mfma(&k, instr, a, a, acc);
    struct tir_loop inner = begin_loop(&k, &acc, 1);
    for (int i = 0; i < 2; i++)
        acc = mfma(&k, instr, a, a, acc);
    tir_end_for(&k.b, &inner, &acc, 1);
    tir_end_for(&k.b, &outer, &acc, 1);
    keep_acc(&k, acc);
    struct compiled c = kernel_compile(&k);
    assert_count(&c, "v_mfma", 3);
    assert_int_equal(c.facts.loop.mfma, 2);
    assert_int_equal(c.facts.loop.mfma_cycles, 64);
    assert_int_equal(c.facts.mfma_duty, 1000);
    compiled_free(&c);
}

enum { BLOCK_INSTS = 4, MAX_BLOCKS = 16 };

/* A block of BLOCK_INSTS instructions of 4 bytes. `matrix` of them are matrix instructions, and
 * the last may branch to a block. */
struct drawn {
    unsigned matrix;
    int to; /* -1: no branch */
    bool falls_through;
};

/* Builds code from the blocks, with matrix instructions named `matrix`. Finds its hot loop. Returns
 * false if it has no loop. */
static bool find_loop(const char *matrix, const struct drawn *blocks, size_t n,
                      struct tgt_range *loop)
{
    struct tgt_inst insts[MAX_BLOCKS * BLOCK_INSTS] = {{0}};
    const struct tgt_code code = {insts, n * BLOCK_INSTS};
    for (size_t i = 0; i < code.count; i++) {
        const struct drawn *const b = &blocks[i / BLOCK_INSTS];
        const size_t at = i % BLOCK_INSTS;
        const bool ends = at == BLOCK_INSTS - 1 && (b->to >= 0 || !b->falls_through);
        insts[i] = (struct tgt_inst){.offset = (uint32_t)(4 * i),
                                     .size = 4,
                                     .target = ends && b->to >= 0 ? 4 * BLOCK_INSTS * b->to : -1,
                                     .ends_block = ends,
                                     .falls_through = !ends || b->falls_through};
        snprintf(insts[i].text, sizeof(insts[i].text), "%s", at < b->matrix ? matrix : "v_add");
    }
    return tgt_find_hot_loop(&code, loop);
}

static void assert_no_loop(const struct drawn *blocks, size_t n)
{
    struct tgt_range loop;
    assert_false(find_loop("v_mfma_", blocks, n, &loop));
}

/* Checks the first and the last block of the hot loop of the blocks, with matrix instructions of
 * each generation. */
static void assert_hot_loop(const struct drawn *blocks, size_t n, size_t first, size_t last)
{
    static const char *const names[] = {"v_mfma_", "v_smfmac_", "v_wmma_"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tgt_range loop;
        assert_true(find_loop(names[i], blocks, n, &loop));
        assert_int_equal(loop.first, first * BLOCK_INSTS);
        assert_int_equal(loop.end, (last + 1) * BLOCK_INSTS);
    }
}

/* LLVM's layout of loops with a cold branch at the end. A block before the head is the target of
 * both ways back, and the loop is entered after that block. The outer loop has the same layout. */
TEST(a_hot_loop_may_begin_with_its_latch)
{
    static const struct drawn blocks[] = {
        {0, 2, false},  /* 0: enters the outer loop at 2 */
        {0, 9, true},   /* latch of the outer loop: ends or repeats it */
        {0, -1, true},  /* 2: head of the outer loop */
        {1, 5, false},  /* 3: enters the inner one at 5 */
        {0, 8, true},   /* latch of the inner loop: ends or repeats it */
        {0, 10, true},  /* its head, branches to a cold block */
        {3, 4, true},   /* both ways lead back */
        {0, 4, false},  /* 7 */
        {1, 1, false},  /* after the inner loop */
        {0, -1, false}, /* 9: the end */
        {0, 6, false},  /* 10: cold, back to 6 */
    };
    assert_hot_loop(blocks, sizeof(blocks) / sizeof(blocks[0]), 4, 7);
}

/* The usual layout: the latch ends the loop, and cold blocks follow it. */
TEST(cold_blocks_are_no_part_of_the_hot_loop)
{
    static const struct drawn blocks[] = {
        {0, -1, true},  /* 0 */
        {2, 4, true},   /* 1: head, to the cold block */
        {2, 1, true},   /* 2: latch */
        {0, -1, false}, /* 3: the end */
        {0, 2, false},  /* 4: cold */
    };
    assert_hot_loop(blocks, sizeof(blocks) / sizeof(blocks[0]), 1, 2);
}

/* The loop with more matrix instructions is hot, in either order; among equals the
 * longer one. */
TEST(the_hot_loop_has_the_most_matrix_instructions)
{
    static const struct drawn later[] = {
        {1, -1, true},
        {0, 0, true},
        {2, 2, true},
        {0, -1, false}, /* loops: blocks 0 to 1, and block 2 */
    };
    static const struct drawn earlier[] = {
        {2, 0, true},
        {1, -1, true},
        {0, 1, true},
        {0, -1, false}, /* loops: block 0, and blocks 1 to 2 */
    };
    static const struct drawn longer[] = {
        {2, 0, true},
        {1, -1, true},
        {1, 1, true},
        {0, -1, false},
    };
    static const struct drawn empty[] = {{0, 0, true}, {0, -1, true}, {0, 1, true}, {0, -1, false}};
    assert_hot_loop(later, 4, 2, 2);
    assert_hot_loop(earlier, 4, 0, 0);
    assert_hot_loop(longer, 4, 1, 2);
    assert_hot_loop(empty, 4, 1, 2);
}

/* Block 2 is never reached. Its branch to block 1 makes no loop. In `blocks` it is not in the loop
 * of blocks 3 and 4, which has its latch before its head. */
TEST(unreachable_blocks_are_in_no_loop)
{
    static const struct drawn straight[] = {
        {1, -1, true},
        {0, 3, false},
        {3, 1, true},
        {0, -1, false}, /* 3: the end */
    };
    static const struct drawn blocks[] = {
        {1, 0, true},   /* 0: a loop of its own */
        {0, 4, false},  /* 1: enters the other one at 4 */
        {1, -1, true},  /* 2 */
        {1, 5, true},   /* 3: latch: ends or repeats the loop */
        {1, 3, false},  /* 4: head */
        {0, -1, false}, /* 5: the end */
    };
    assert_no_loop(straight, 4);
    assert_hot_loop(blocks, 6, 3, 4);
}

/* Anchors, priorities and phases emit no instruction except s_setprio. */
TEST(anchors_and_phases_cost_nothing)
{
    struct kernel k = kernel_create("gfx950", 8, 2);
    int instr = mma32(&k, TIR_BF16);
    struct tir_value a = unknown(&k, operand_type(&k, instr)), acc = zero_acc(&k);
    struct tir_loop loop = begin_loop(&k, &acc, 1);
    for (int i = 0; i < 4; i++) {
        struct tir_value held[2];
        tir_phase(&k.b, 1);
        tir_set_priority(&k.b, i & 1);
        acc = mfma(&k, instr, a, a, acc);
        held[0] = acc;
        held[1] = a;
        make(&k, TIR_anchor, no_type, held, 2, 0, 0, 0);
    }
    tir_end_for(&k.b, &loop, &acc, 1);
    keep_acc(&k, acc);
    struct compiled c = kernel_compile(&k);
    char letters[64];
    loop_letters(&c, letters, sizeof(letters));
    assert_string_equal(letters, "MMMM");
    assert_count(&c, "s_setprio", 4);
    compiled_free(&c);
}

/* Checks that the next instruction has the alignment of the op after any number of instructions.
 * It follows at most 32 + 28 bytes of s_nop, and LLVM's passes leave them together. */
static void check_place(const char *machine, unsigned words, unsigned of, unsigned before)
{
    struct kernel k = kernel_create(machine, 1, 1);
    struct tir_value v = unknown(&k, f32);
    for (unsigned i = 0; i < before; i++)
        tir_set_priority(&k.b, 1);
    tir_align_code(&k.b, words, of);
    tir_set_priority(&k.b, 2);
    struct tir_loop loop = begin_loop(&k, &v, 1);
    v = tir_mul(&k.b, v, v);
    tir_end_for(&k.b, &loop, &v, 1);
    keep(&k, v);
    struct compiled c = kernel_compile(&k);
    size_t i = 0;
    while (i < c.code.count && strcmp(c.code.insts[i].text, "s_setprio 2"))
        i++;
    assert_true(i < c.code.count);
    assert_int_equal(c.code.insts[i].offset % (4 * of), 4 * words);
    assert_count(&c, "s_setprio 2", 1);
    assert_count(&c, "s_setprio 1", before);
    compiled_free(&c);
}

TEST(code_is_aligned_to_its_window)
{
    static const unsigned sizes[] = {TIR_FETCH_WORDS, TIR_PAIR_WORDS};
    FOR_GFX9(t)
    for (unsigned i = 0; i < 2; i++)
        for (unsigned words = 0; words < sizes[i]; words++)
            for (unsigned before = 0; before < 3; before++)
                check_place((*t)->machine.name, words, sizes[i], before);
}

/* A loop with no iterations returns its initial values. */
TEST(a_loop_guards_its_first_round)
{
    struct kernel k = kernel_create("gfx942", 1, 1);
    struct tir_value v = unknown(&k, f32), step = unknown(&k, f32);
    struct tir_loop loop = begin_loop(&k, &v, 1);
    v = tir_add(&k.b, v, step);
    tir_end_for(&k.b, &loop, &v, 1);
    keep(&k, v);
    struct compiled c = kernel_compile(&k);
    const char *expected[] = {"s_cmp", "s_cbranch", "v_add_f32", "s_cbranch", "global_store"};
    assert_sequence(&c, expected, 5);
    compiled_free(&c);
}

/* Returns the offset of the last instruction whose text begins with `prefix`. */
static uint64_t last_of(const struct compiled *c, const char *prefix)
{
    uint64_t at = 0;
    for (size_t i = 0; i < c->code.count; i++)
        if (!strncmp(c->code.insts[i].text, prefix, strlen(prefix)))
            at = c->code.insts[i].offset;
    return at;
}

/* A scalar is loaded before a barrier and a branch, and used after both. LLVM's sinking pass would
 * move the load to its use. */
TEST(a_load_stays_before_branches)
{
    FOR_GFX9(t)
    {
        struct kernel k = kernel_create((*t)->machine.name, 2, 1);
        struct tir_builder *b = &k.b;
        struct tir_value n = tir_arg(b, "n", TIR_I32);
        struct tir_value v = tir_scalar_load_here(b, tir_arg(b, "table", TIR_I64), n, TIR_I32);
        tir_barrier(b);
        struct tir_if branch = tir_begin_if(b, tir_cmp_gt(b, n, tir_i32(b, 64)), false, NULL, 0);
        keep(&k, unknown(&k, f32));
        tir_end_if(b, &branch, NULL);
        keep(&k, tir_splat(b, v, tir_vec(TIR_I32, 1)));
        struct compiled c = kernel_compile(&k);
        assert_true(last_of(&c, "s_load_dword ") < last_of(&c, "s_barrier"));
        compiled_free(&c);
    }
}

int main(void) { return run_unit_tests(); }
