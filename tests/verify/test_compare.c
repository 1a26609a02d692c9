/* SPDX-License-Identifier: Apache-2.0 */
/* This file tests the bounds of attention: elements that are off, one by one and all together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/verify/compare.h"

enum { WIDTH = 64, KEYS = 64 };

struct result {
    struct operand out;
    struct ref_row reference;
};

/* 64 keys of the same weight, and values of 1 and -1 whose mean is 0.5. */
static void compare_row(struct comparison *c, int task)
{
    struct result *r = (struct result *)c->problem;
    const struct place at = {.row = task};
    compare_result(c, &at, &r->out, 0, NULL, NULL, &r->reference);
}

/* The verdict on a row of which `wrong` elements are off by `steps` of bf16, which at 0.5 are u. */
static struct verify_row verdict(int wrong, int steps)
{
    void *pointer;
    const struct attn_tensor schema = {
        .name = "out",
        .pointer = &pointer,
        .element = ATTN_BF16,
        .needed = true,
        .written = true,
        .vector = 1,
        .ndim = 3,
        .dims = {{NULL, 1}, {NULL, 1}, {NULL, WIDTH}},
    };
    static struct result r;
    const struct ref_attention attention = {.dim = WIDTH, .dim_v = WIDTH, .scale = 1};
    struct comparison c = {
        .precision = find_precision("bf16"),
        .attention = &attention,
        .tasks = 1,
        .task = compare_row,
        .problem = &r,
    };
    struct verify_row row = {0};
    r.reference = (struct ref_row){.keys = KEYS};
    operand_init(&r.out, &schema, "gfx942");
    operand_allocate(&r.out);
    for (int d = 0; d < WIDTH; d++) {
        r.reference.out[d] = 0.5;
        r.reference.magnitude[d] = 1;
        r.reference.squares[d] = 1.0 / KEYS;
        operand_set(&r.out, AT(0, 0, d), 0.5 + (d < wrong ? steps * c.precision->unit : 0));
    }
    r.out.result = r.out.image;
    comparison_run(&c, &row);
    r.out.result = NULL;
    operand_free(&r.out);
    return row;
}

static void what_is_right_passes(void **state)
{
    (void)state;
    assert_string_equal(verdict(0, 0).fault, "");
    assert_string_equal(verdict(8, 1).fault, "");
}

/* u for the weights and u for the result, no more. */
static void one_element_fails(void **state)
{
    (void)state;
    assert_non_null(strstr(verdict(1, 2).fault, "element 0 is"));
}

/* Roundings are independent: not all of them are as large as one may be. */
static void all_elements_fail_together(void **state)
{
    (void)state;
    const struct verify_row row = verdict(WIDTH, 1);
    assert_non_null(strstr(row.fault, "the relative error of the whole"));
    assert_true(row.largest < row.largest_bound);
}

/* A weight of 0.8 with a value of 1, one of 0.2 with 0: out is off by d (1 - out) + d' out. */
static struct ref_row two_keys(double sum, double lse)
{
    static const double k[2] = {1, 0}, v[2] = {1, 0}, q = 1;
    double scratch[2];
    struct ref_row row;
    struct ref_attention a = {.dim = 1, .dim_v = 1, .scale = log(4)};
    const struct ref_query query = {.q = &q, .queries = 1, .keys = 2};
    const struct ref_keys keys = {.k = k, .v = v, .k_stride = 1, .v_stride = 1, .end = 2};
    comparison_weights_fp8(&a, "gfx950", false);
    ref_attend(&a, &query, &keys, scratch, &row);
    assert_true(fabs(row.out[0] - 0.8) < 1e-12);
    assert_true(fabs(row.moved[0] - sum) < 1e-12);
    assert_true(fabs(row.roundings - lse) < 1e-12);
    return row;
}

static void roundings_of_weights_move_a_mean(void **state)
{
    (void)state;
    const double d[] = {0.8 / 16, 0.2 / 16};
    const struct ref_row row = two_keys(d[0] * 0.2 + d[1] * 0.8, d[0] + d[1]);
    const double squares = d[0] * 0.2 * d[0] * 0.2 + d[1] * 0.8 * d[1] * 0.8;
    assert_true(fabs(row.moved_squares[0] - squares) < 1e-12);
}

/* Half of the smallest step of fp8 where the largest weight is scaled to 2^4.75, 2^3.875, or with
 * scales of blocks 2^7.75. */
static void small_weights_lose_more(void **state)
{
    (void)state;
    struct ref_attention ocp = {0}, fnuz = {0}, scaled = {0};
    comparison_weights_fp8(&scaled, "gfx950", true);
    comparison_weights_fp8(&ocp, "gfx950", false);
    comparison_weights_fp8(&fnuz, "gfx942", false);
    assert_true(ocp.weight_unit == 0x1p-4 && fnuz.weight_unit == 0x1p-4);
    assert_true(fabs(ocp.weight_tiny * exp2(14.75) - 1) < 1e-12);
    assert_true(fabs(fnuz.weight_tiny * exp2(14.875) - 1) < 1e-12);
    assert_true(fabs(scaled.weight_tiny * exp2(17.75) - 1) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_passes),
        cmocka_unit_test(one_element_fails),
        cmocka_unit_test(all_elements_fail_together),
        cmocka_unit_test(roundings_of_weights_move_a_mean),
        cmocka_unit_test(small_weights_lose_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
