/* SPDX-License-Identifier: Apache-2.0 */
/* This file tests the bounds of attention: elements that are off, one by one and all together. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_passes),
        cmocka_unit_test(one_element_fails),
        cmocka_unit_test(all_elements_fail_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
