/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear layouts.
 */
#include "ir/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The 32x32 accumulator of CDNA: lane 0..31 is the column, rows 8 * (reg / 4) + 4 * (lane / 32) +
 * reg mod 4 (CDNA3 ISA, matrix layouts). */
static const struct tir_layout acc32 = {
    .reg_bits = 4,
    .lane_bits = 6,
    .basis = {TIR_RC(1, 0), TIR_RC(2, 0), TIR_RC(8, 0), TIR_RC(16, 0), TIR_RC(0, 1), TIR_RC(0, 2),
              TIR_RC(0, 4), TIR_RC(0, 8), TIR_RC(0, 16), TIR_RC(4, 0)},
};

static void apply_gives_the_documented_row_and_column(void **state)
{
    (void)state;
    for (unsigned reg = 0; reg < 16; reg++)
        for (unsigned lane = 0; lane < 64; lane++) {
            const uint32_t rc = tir_layout_apply(&acc32, reg, lane, 0);
            assert_int_equal(tir_rc_row(rc), 8 * (reg / 4) + 4 * (lane / 32) + reg % 4);
            assert_int_equal(tir_rc_col(rc), lane % 32);
        }
}

static void conversion_between_half_wave_orders_crosses_lane_bit_5(void **state)
{
    (void)state;
    struct tir_layout eight = acc32; /* 8 consecutive rows a lane */
    eight.basis[2] = TIR_RC(4, 0);
    eight.basis[9] = TIR_RC(8, 0);
    struct tir_conversion c;
    assert_true(tir_layout_conversion(&acc32, &eight, &c));
    assert_int_equal(c.kind, TIR_CONVERT_LANES);
    assert_int_equal(c.lanes, 32);
    assert_true(tir_layout_conversion(&acc32, &acc32, &c));
    assert_int_equal(c.kind, TIR_CONVERT_NONE);
}

static void fold_rows_keeps_the_row_bits_of_lanes(void **state)
{
    (void)state;
    unsigned rows;
    const struct tir_layout f = tir_layout_fold_rows(&acc32, &rows);
    assert_int_equal(rows, 2);
    assert_int_equal(f.reg_bits, 0);
    for (unsigned lane = 0; lane < 64; lane++)
        assert_int_equal(tir_layout_apply(&f, 0, lane, 0), TIR_RC(lane / 32, lane % 32));
    const struct tir_layout t = tir_layout_transpose(&acc32);
    const struct tir_layout g = tir_layout_fold_rows(&t, &rows);
    assert_int_equal(rows, 32);
    assert_true(tir_layout_equal(&g, &t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apply_gives_the_documented_row_and_column),
        cmocka_unit_test(fold_rows_keeps_the_row_bits_of_lanes),
        cmocka_unit_test(conversion_between_half_wave_orders_crosses_lane_bit_5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
