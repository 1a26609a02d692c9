/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every matrix instruction of every target on the simulator: operands in the table's layouts
 * give the product in its layout.
 */
#include "tests/targets/run.h"

#include <math.h>
#include <string.h>

static int small_number(unsigned row, unsigned col)
{
    return (int)((row * 5 + col * 3 + row * col) % 4) - 1; /* -1 .. 2 */
}

/* Returns the code of -1, 0, 1 or 2 in a dtype. */
static uint32_t encode(const struct tgt *t, unsigned dtype, int x)
{
    static const uint32_t bf16[4] = {0xbf80, 0, 0x3f80, 0x4000};
    static const uint32_t f16[4] = {0xbc00, 0, 0x3c00, 0x4000};
    static const uint32_t f32[4] = {0xbf800000, 0, 0x3f800000, 0x40000000};
    static const uint32_t fnuz[4] = {0xc0, 0, 0x40, 0x48}, ocp[4] = {0xb8, 0, 0x38, 0x40};
    switch (dtype) {
    case TIR_BF16: return bf16[x + 1];
    case TIR_F16: return f16[x + 1];
    case TIR_F32: return f32[x + 1];
    case TIR_FP8: return t->machine.fp8_is_fnuz ? fnuz[x + 1] : ocp[x + 1];
    default: return (uint8_t)x;
    }
}

static void fill_operand(const struct tgt *t, const struct tir_layout *l, unsigned dtype,
                         struct values *v, unsigned slot)
{
    const unsigned bytes = tir_dtype_bits(dtype) / 8;
    for (unsigned lane = 0; lane < tir_lanes(&t->machine); lane++) {
        for (unsigned e = 0; e < 1u << l->reg_bits; e++) {
            uint32_t rc = tir_layout_apply(l, e, lane, 0);
            uint32_t x = encode(t, dtype, small_number(tir_rc_row(rc), tir_rc_col(rc)));
            memcpy(&v->in[slot + e * bytes / 16][lane].b[e * bytes % 16], &x, bytes);
        }
    }
}

/* Fills B of a scaled product in e2m1: two k per byte, the even one in the low half. */
static void fill_pairs(const struct tir_layout *l, struct values *v, unsigned slot)
{
    static const uint8_t e2m1[4] = {0xa, 0, 2, 4}; /* -1, 0, 1, 2 */
    for (unsigned lane = 0; lane < 1u << l->lane_bits; lane++)
        for (unsigned e = 0; e < 1u << l->reg_bits; e++) {
            const uint32_t rc = tir_layout_apply(l, e, lane, 0);
            const unsigned k = 2 * tir_rc_row(rc), j = tir_rc_col(rc);
            v->in[slot][lane].b[e] =
                (uint8_t)(e2m1[small_number(k, j) + 1] | e2m1[small_number(k + 1, j) + 1] << 4);
        }
}

/* Returns the exponent of the scale of a row of A or, with `right`, of a column of B. */
static int exponent(bool right, unsigned outer, unsigned block)
{
    return (int)((outer * 3 + block * 5 + (right ? 4 : 0)) % 7) - 3;
}

/* Fills the scales: lane i + m * b has the scale of row or column i and of block b of 32 k. Triton
 * uses the same layout on gfx950 (accelerate-amd-matmul-mfma-gfx950.mlir). The other bytes have
 * other scales. */
static void fill_scales(const struct tir_mma *row, bool right, unsigned byte, struct values *v,
                        unsigned slot)
{
    for (unsigned lane = 0; lane < 64; lane++)
        for (int i = 0; i < 4; i++)
            v->in[slot][lane].b[i] =
                (uint8_t)(i == (int)byte ? 127 + exponent(right, lane % row->m, lane / row->m)
                                         : 100 + i);
}

static float product(const struct tir_mma *row, unsigned i, unsigned j)
{
    float sum = (float)(i + 100 * j);
    for (unsigned k = 0; k < row->k; k++) {
        const int scale = row->scaled ? exponent(false, i, k / 32) + exponent(true, j, k / 32) : 0;
        sum += ldexpf((float)(small_number(i, k) * small_number(k, j)), scale);
    }
    return sum;
}

static unsigned operand_slots(const struct tir_layout *l, unsigned dtype)
{
    const unsigned bytes = (1u << l->reg_bits) * tir_dtype_bits(dtype) / 8;
    return bytes > 16 ? bytes / 16 : 1;
}

enum { MAX_SLOTS = 4 };

/* Loads an operand from up to four slots of 16 bytes per lane. */
static struct tir_value unknown_operand(struct kernel *k, const struct tir_layout *l,
                                        unsigned dtype)
{
    const unsigned slots = operand_slots(l, dtype), count = 1u << l->reg_bits;
    const struct tir_type part = tir_vec(dtype, count / slots);
    struct tir_value parts[MAX_SLOTS];
    for (unsigned i = 0; i < slots; i++)
        parts[i] = unknown(k, part);
    if (slots == 1)
        return parts[0];
    return make(k, TIR_concat, tir_vec(dtype, count), parts, slots, 0, 0, 0);
}

/* The numbers of unknown() that hold the operands of `row`'s instruction. */
struct places {
    unsigned right, acc, scales;
};

static struct tir_value multiply(struct kernel *k, const struct tir_mma *row, unsigned instr,
                                 unsigned byte)
{
    const unsigned out_count = 1u << row->d.reg_bits;
    const struct tir_type acc = tir_vec(row->acc_dtype, out_count);
    struct tir_value parts[4];
    struct tir_value operands[5] = {unknown_operand(k, &row->a, row->in_dtype),
                                    unknown_operand(k, &row->b, row->right_dtype)};
    for (unsigned q = 0; q < out_count / 4; q++)
        parts[q] = unknown(k, tir_vec(row->acc_dtype, 4));
    operands[2] = make(k, TIR_concat, acc, parts, out_count / 4, 0, 0, 0);
    if (!row->scaled)
        return make(k, TIR_mfma, acc, operands, 3, instr, 0, 0);
    operands[3] = unknown(k, tir_vec(TIR_I8, 4));
    operands[4] = unknown(k, tir_vec(TIR_I8, 4));
    return make(k, TIR_mfma_scaled, acc, operands, 5, instr, byte, 3 - byte);
}

static void check_mfma(const struct tgt *t, unsigned instr, unsigned byte)
{
    static struct values v;
    const struct tir_mma *row = &t->machine.mma[instr];
    struct kernel k = kernel_create(t->machine.name, 1, 1);
    const unsigned out_count = 1u << row->d.reg_bits;
    const struct tir_type quad = tir_vec(row->acc_dtype, 4);
    struct places at = {.right = operand_slots(&row->a, row->in_dtype)};
    at.acc = at.right + operand_slots(&row->b, row->right_dtype);
    at.scales = at.acc + out_count / 4;
    struct tir_value d = multiply(&k, row, instr, byte);
    for (unsigned q = 0; q < out_count / 4; q++)
        keep(&k, make(&k, TIR_extract, quad, &d, 1, 4 * q, 0, 0));

    fill_operand(t, &row->a, row->in_dtype, &v, 0);
    if (row->right_format == TIR_MX_E2M1)
        fill_pairs(&row->b, &v, at.right);
    else
        fill_operand(t, &row->b, row->right_dtype, &v, at.right);
    if (row->scaled) {
        fill_scales(row, false, byte, &v, at.scales);
        fill_scales(row, true, 3 - byte, &v, at.scales + 1);
    }
    for (unsigned lane = 0; lane < tir_lanes(&t->machine); lane++)
        for (unsigned e = 0; e < out_count; e++) {
            uint32_t rc = tir_layout_apply(&row->d, e, lane, 0);
            int start = (int)(tir_rc_row(rc) + 100 * tir_rc_col(rc));
            if (row->acc_dtype == TIR_F32)
                v.in[at.acc + e / 4][lane].f[e % 4] = (float)start;
            else
                v.in[at.acc + e / 4][lane].i[e % 4] = start;
        }
    struct compiled c = kernel_compile(&k);
    run(&c, &v, NULL, 0);
    compiled_free(&c);
    for (unsigned lane = 0; lane < tir_lanes(&t->machine); lane++)
        for (unsigned e = 0; e < out_count; e++) {
            uint32_t rc = tir_layout_apply(&row->d, e, lane, 0);
            float expected = product(row, tir_rc_row(rc), tir_rc_col(rc));
            float got = row->acc_dtype == TIR_F32 ? v.out[e / 4][lane].f[e % 4]
                                                  : (float)v.out[e / 4][lane].i[e % 4];
            if (got != expected)
                fail_msg("%s %s: D[%u][%u] is %g, not %g", t->machine.name, row->name,
                         tir_rc_row(rc), tir_rc_col(rc), (double)got, (double)expected);
        }
}

TEST(matrix_instructions_multiply_as_their_layouts_say)
{
    for (const struct tgt *const *t = tgt_all; *t; t++)
        for (unsigned i = 0; i < (*t)->machine.n_mma; i++)
            for (unsigned byte = 0; byte < ((*t)->machine.mma[i].scaled ? 4 : 1); byte++)
                check_mfma(*t, i, byte);
}

/* Twice multiplies and then changes elements 2, 6, 10 and 14 of the accumulator: the others stay.
 * Keeps the last accumulator. */
static void replace_some(struct kernel *k, bool in_agprs, struct tir_value a)
{
    const struct tir_type f32 = tir_vec(TIR_F32, 1), acc16 = tir_vec(TIR_F32, 16);
    const int instr = tir_find_mma(&k->t->machine, 32, 32, 0, TIR_BF16);
    struct tir_value acc = make(k, TIR_const_float, acc16, NULL, 0, 0, 0, 0), parts[16];
    struct tir_loop loop = tir_begin_for(&k->b, tir_i32(&k->b, 0), tir_arg(&k->b, "n", TIR_I32),
                                         tir_i32(&k->b, 1), &acc, 1);
    const struct tir_value abc[3] = {a, a, acc};
    acc = make(k, TIR_mfma, acc16, abc, 3, instr, in_agprs, 0);
    for (unsigned e = 0; e < 16; e++) {
        parts[e] = make(k, TIR_extract, f32, &acc, 1, e, 0, 0);
        if (e % 4 == 2)
            parts[e] = tir_add(&k->b, parts[e], parts[e]);
    }
    acc = make(k, TIR_concat, acc16, parts, 16, 0, 0, 0);
    tir_end_for(&k->b, &loop, &acc, 1);
    for (unsigned e = 0; e < 16; e += 4)
        keep(k, make(k, TIR_extract, tir_vec(TIR_F32, 4), &acc, 1, e, 0, 0));
}

TEST(replaced_elements_of_agprs_are_those_of_vgprs)
{
    static struct values v;
    static const struct setting twice = {"n", 2};
    struct kernel k = kernel_create("gfx942", 1, 1);
    const struct tir_mma *row = &k.t->machine.mma[tir_find_mma(&k.t->machine, 32, 32, 0, TIR_BF16)];
    const struct tir_value a = unknown(&k, tir_vec(TIR_BF16, 1u << row->a.reg_bits));
    replace_some(&k, false, a);
    replace_some(&k, true, a);
    fill_operand(k.t, &row->a, TIR_BF16, &v, 0);
    struct compiled c = kernel_compile(&k);
    assert_true(count_of(&c, "v_accvgpr_write") >= 4);
    run(&c, &v, &twice, 1);
    compiled_free(&c);
    bool any = false;
    for (unsigned lane = 0; lane < 64; lane++)
        for (unsigned e = 0; e < 16; e++) {
            any |= v.out[0][lane].f[2] > 0;
            assert_true(v.out[e / 4][lane].f[e % 4] == v.out[4 + e / 4][lane].f[e % 4]);
        }
    assert_true(any);
}

int main(void) { return run_unit_tests(); }
