/* SPDX-License-Identifier: Apache-2.0
 *
 * Every matrix instruction of every target on the simulator: operands spread as the table's layouts
 * say give the product spread as its layout says.
 */
#include "tests/targets/run.h"

#include <string.h>

static int small_number(unsigned row, unsigned col)
{
    return (int)((row * 5 + col * 3 + row * col) % 4) - 1; /* -1 .. 2 */
}

/* -1, 0, 1, 2 in a dtype. */
static uint32_t encode(const struct tgt *t, unsigned dtype, int x)
{
    static const uint32_t bf16[4] = {0xbf80, 0, 0x3f80, 0x4000};
    static const uint32_t f16[4] = {0xbc00, 0, 0x3c00, 0x4000};
    static const uint32_t fnuz[4] = {0xc0, 0, 0x40, 0x48}, ocp[4] = {0xb8, 0, 0x38, 0x40};
    switch (dtype) {
    case TIR_BF16: return bf16[x + 1];
    case TIR_F16: return f16[x + 1];
    case TIR_FP8: return t->machine.fp8_is_fnuz ? fnuz[x + 1] : ocp[x + 1];
    default: return (uint8_t)x;
    }
}

static void fill_operand(const struct tgt *t, const struct tir_layout *l, unsigned dtype,
                         struct values *v, unsigned slot)
{
    const unsigned bytes = tir_dtype_bits(dtype) / 8;
    for (unsigned lane = 0; lane < 64; lane++) {
        for (unsigned e = 0; e < 1u << l->reg_bits; e++) {
            uint32_t rc = tir_layout_apply(l, e, lane, 0);
            uint32_t x = encode(t, dtype, small_number(tir_rc_row(rc), tir_rc_col(rc)));
            memcpy(&v->in[slot + e * bytes / 16][lane].b[e * bytes % 16], &x, bytes);
        }
    }
}

static int product(const struct tir_mma *row, unsigned i, unsigned j)
{
    int sum = (int)(i + 100 * j);
    for (unsigned k = 0; k < row->k; k++)
        sum += small_number(i, k) * small_number(k, j);
    return sum;
}

static unsigned operand_slots(const struct tir_mma *row)
{
    const unsigned bytes = row->m * row->k / 64 * tir_dtype_bits(row->in_dtype) / 8;
    return bytes > 16 ? bytes / 16 : 1;
}

/* An operand from the 16 bytes a lane that each slot has, of one slot or two. */
static struct tir_value unknown_operand(struct kernel *k, const struct tir_mma *row)
{
    const unsigned slots = operand_slots(row), count = row->m * row->k / 64;
    const struct tir_type part = tir_vec(row->in_dtype, count / slots);
    struct tir_value parts[2] = {unknown(k, part)};
    if (slots == 1)
        return parts[0];
    parts[1] = unknown(k, part);
    return make(k, TIR_concat, tir_vec(row->in_dtype, count), parts, slots, 0, 0, 0);
}

static void check_mfma(const struct tgt *t, unsigned instr)
{
    static struct values v;
    const struct tir_mma *row = &t->machine.mma[instr];
    struct kernel k = kernel_create(t->machine.name, 1, 1);
    const unsigned out_count = row->m * row->n / 64;
    struct tir_type quad = tir_vec(row->acc_dtype, 4);
    const unsigned slots = operand_slots(row);
    struct tir_value parts[4];
    struct tir_value abc[3] = {unknown_operand(&k, row), unknown_operand(&k, row)};
    for (unsigned q = 0; q < out_count / 4; q++)
        parts[q] = unknown(&k, quad);
    struct tir_type acc = tir_vec(row->acc_dtype, out_count);
    abc[2] = make(&k, TIR_concat, acc, parts, out_count / 4, 0, 0, 0);
    struct tir_value d = make(&k, TIR_mfma, acc, abc, 3, instr, 0, 0);
    for (unsigned q = 0; q < out_count / 4; q++)
        keep(&k, make(&k, TIR_extract, quad, &d, 1, 4 * q, 0, 0));

    fill_operand(t, &row->a, row->in_dtype, &v, 0);
    fill_operand(t, &row->b, row->in_dtype, &v, slots);
    for (unsigned lane = 0; lane < 64; lane++)
        for (unsigned e = 0; e < out_count; e++) {
            uint32_t rc = tir_layout_apply(&row->d, e, lane, 0);
            int start = (int)(tir_rc_row(rc) + 100 * tir_rc_col(rc));
            if (row->acc_dtype == TIR_F32)
                v.in[2 * slots + e / 4][lane].f[e % 4] = (float)start;
            else
                v.in[2 * slots + e / 4][lane].i[e % 4] = start;
        }
    struct compiled c = kernel_compile(&k);
    run(&c, &v, NULL, 0);
    compiled_free(&c);
    for (unsigned lane = 0; lane < 64; lane++)
        for (unsigned e = 0; e < out_count; e++) {
            uint32_t rc = tir_layout_apply(&row->d, e, lane, 0);
            int expected = product(row, tir_rc_row(rc), tir_rc_col(rc));
            int got = row->acc_dtype == TIR_F32 ? (int)v.out[e / 4][lane].f[e % 4]
                                                : v.out[e / 4][lane].i[e % 4];
            if (got != expected)
                fail_msg("%s %s: D[%u][%u] is %d, not %d", t->machine.name, row->name,
                         tir_rc_row(rc), tir_rc_col(rc), got, expected);
        }
}

static void matrix_instructions_multiply_as_their_layouts_say(void **state)
{
    (void)state;
    for (const struct tgt *const *t = tgt_all; *t; t++)
        for (unsigned i = 0; i < (*t)->machine.n_mma; i++)
            check_mfma(*t, i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_instructions_multiply_as_their_layouts_say),
    };
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
