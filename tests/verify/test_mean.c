/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests the bounds of sums of errors. Independent roundings pass. A rounding that is the
 * same everywhere fails, even if each error is within its own bound.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tests/verify/result.h"
#include "tools/verify/call.h"
#include "tools/verify/compare.h"
#include "tools/verify/verify.h"

static double uniform(uint64_t *random) { return (double)(random_bits(random) >> 11) * 0x1p-53; }

/* The functions from here on test sums over elements. */

enum { ELEMENTS = 2000 };
#define UNIT 0x1p-4

/* Returns the error of an element relative to its bound. */
typedef double error_of(double expected, uint64_t *random);

static double independent(double expected, uint64_t *random)
{
    (void)expected;
    return 2 * uniform(random) - 1;
}

static double too_large(double expected, uint64_t *random)
{
    return copysign(fmin(1, 0.4 + independent(0, random)), expected);
}

static double too_small(double expected, uint64_t *random) { return -too_large(expected, random); }

static double too_high(double expected, uint64_t *random)
{
    (void)expected;
    return fmin(1, 0.4 + independent(0, random));
}

static double always_the_most(double expected, uint64_t *random)
{
    (void)expected;
    return random_bits(random) & 1 ? 1 : -1;
}

static struct verify_row verdict(error_of *error, double drift)
{
    struct verify_row row = {0};
    struct mean means[MEAN_KINDS] = {{0}};
    uint64_t random = 1;
    for (int i = 0; i < ELEMENTS; i++) {
        const double expected = 2 * uniform(&random) - 1, most = UNIT * fabs(expected);
        mean_add_element(means, most * error(expected, &random), expected, most, drift * most);
    }
    mean_check(means, &row);
    return row;
}

TEST(errors_of_one_sign_are_found)
{
    assert_string_equal(verdict(independent, 0).fault, "");
    assert_non_null(strstr(verdict(too_large, 0).fault, "results are too large"));
    assert_non_null(strstr(verdict(too_small, 0).fault, "results are too large"));
    assert_non_null(strstr(verdict(too_high, 0).fault, "results are too high"));
    assert_non_null(strstr(verdict(always_the_most, 0).fault, "without regard to sign"));
    assert_string_equal(verdict(too_large, 0.5).fault, "");
    assert_string_equal(verdict(always_the_most, 0.5).fault, "");
}

/* A NaN exceeds any bound, and so does any sum without a bound. An empty sum does not. */
TEST(what_is_no_number_is_found)
{
    const struct mean none = {0}, nan = {.sum = NAN, .drift = 1}, all = {.sum = 1e30};
    assert_false(mean_is_off(&none));
    assert_true(mean_is_off(&nan));
    assert_true(mean_is_off(&all));
}

/* Sums of independent numbers exceed the bound with a probability of 10^-9. */
TEST(bounds_are_those_of_hoeffding)
{
    const struct mean m = {.drift = 3, .squares = 16};
    const double t = (mean_bound(&m) - 3) / 4;
    assert_true(2 * exp(-t * t / 2) < 1e-9 && 2 * exp(-t * t / 2) > 0.9e-9);
}

/* Results of one size have the same rounding. 255 integers times one scale are only 255 roundings,
 * however many elements have them. */
TEST(results_that_come_again_count_once)
{
    struct verify_row row = {0};
    struct call *const c = calloc(1, sizeof(*c));
    struct operand out;
    c->row = &row;
    make_result(&out, ATTN_BF16, 1, 1, 8);
    for (int i = 0; i < 80; i++) {
        const double expected = (i % 8 + 1) * (i % 16 < 8 ? 1 : -1);
        call_compare_value(c, &out, AT(0, 0, i % 8), expected + 0x1p-10, expected, 0x1p-8);
    }
    assert_true(c->means[MEAN_UP].scale == 8);
    assert_true(c->means[MEAN_UP].sum == 8 * 0x1p-10);
    assert_true(c->means[MEAN_ALONG].sum == 36 * 0x1p-10);
    operand_free(&out);
    call_free(c);
    free(c);
}

/* The functions from here on test sums over rows of attention. */

enum { ROWS = 2000, KEYS = 48, DIM = 32 };

/* The format of a kernel's weights. The largest weight of a row is `largest`. A weight has `bits`
 * significant bits, or fewer below 2^lowest. It is rounded to the nearest or toward zero. */
struct weights {
    double largest;
    int bits, lowest;
    bool cut; /* weights are truncated, and there is no LSE */
};

struct attention {
    const struct weights *weights;
    struct operand out, lse;
    double q, k[KEYS], v[KEYS * DIM];
};

static double round_weight(const struct weights *w, double x)
{
    int exponent;
    frexp(x, &exponent); /* x is below 2^exponent */
    const double step = ldexp(1, (exponent <= w->lowest ? w->lowest + 1 : exponent) - w->bits);
    return step * (w->cut ? floor(x / step) : nearbyint(x / step));
}

/* Scores are normal with a deviation of 1.5: a sum of twelve random numbers has a deviation of
   1. */
static void fill_row(struct attention *a, uint64_t *random)
{
    for (int j = 0; j < KEYS; j++) {
        double sum = -6;
        for (int i = 0; i < 12; i++)
            sum += uniform(random);
        a->k[j] = 1.5 * sum;
        for (int d = 0; d < DIM; d++)
            a->v[j * DIM + d] = 2 * uniform(random) - 1;
    }
    a->q = 1;
}

/* Computes attention like a kernel that sums its rounded weights. */
static void run_kernel(struct attention *a, int row)
{
    double top = -INFINITY, sum = 0, out[DIM] = {0};
    for (int j = 0; j < KEYS; j++)
        top = fmax(top, a->k[j]);
    for (int j = 0; j < KEYS; j++) {
        const double p = round_weight(a->weights, a->weights->largest * exp(a->k[j] - top));
        sum += p;
        for (int d = 0; d < DIM; d++)
            out[d] += p * a->v[j * DIM + d];
    }
    for (int d = 0; d < DIM; d++)
        operand_set(&a->out, AT(row, 0, d), (float)(out[d] / sum));
    operand_set(&a->lse, AT(0, row), (float)(top + log(sum / a->weights->largest)));
}

static void compare_row(struct comparison *c, int task)
{
    struct attention *a = (struct attention *)c->problem;
    static struct ref_row r;
    double scratch[KEYS];
    uint64_t random = (uint64_t)task;
    const struct place at = {.row = task};
    const struct ref_query query = {.q = &a->q, .queries = 1, .keys = KEYS};
    const struct ref_keys keys = {
        .k = a->k, .v = a->v, .k_stride = 1, .v_stride = DIM, .end = KEYS};
    fill_row(a, &random);
    run_kernel(a, task);
    ref_attend(c->attention, &query, &keys, scratch, &r);
    compare_result(c, &at, &a->out, task, a->weights->cut ? NULL : &a->lse, AT(0, task), &r);
}

static void compare_rows(struct comparison *c, int task)
{
    (void)task;
    for (int i = 0; i < ROWS; i++)
        compare_row(c, i);
}

static struct verify_row attend(const struct weights *w, void set(struct ref_attention *))
{
    static struct attention a;
    struct ref_attention attention = {.dim = 1, .dim_v = DIM, .scale = 1};
    struct comparison c = {
        .precision = find_precision("bf16"),
        .attention = &attention,
        .tasks = 1,
        .task = compare_rows,
        .problem = &a,
    };
    struct verify_row row = {0};
    set(&attention);
    a.weights = w;
    make_result(&a.out, ATTN_F32, ROWS, 1, DIM);
    make_result(&a.lse, ATTN_F32, 1, ROWS, 1);
    a.out.result = a.out.image, a.lse.result = a.lse.image;
    comparison_run(&c, &row);
    a.out.result = a.lse.result = NULL;
    operand_free(&a.out), operand_free(&a.lse);
    return row;
}

static void set_fp8(struct ref_attention *a) { comparison_weights_fp8(a, "gfx950", false); }

static void set_fnuz(struct ref_attention *a) { comparison_weights_fp8(a, "gfx942", false); }

static void set_rounded(struct ref_attention *a)
{
    comparison_weights_rounded(a, find_precision("bf16"));
}

static void set_cut(struct ref_attention *a) { comparison_weights_cut(a, find_precision("bf16")); }

static void expect_bias(const struct weights *w, void set(struct ref_attention *))
{
    const struct verify_row row = attend(w, set);
    if (!strstr(row.fault, "the largest weights of rows are too large"))
        fail_msg("%g: \"%s\"", w->largest, row.fault);
}

static void expect_none(const struct weights *w, void set(struct ref_attention *))
{
    assert_string_equal(attend(w, set).fault, "");
}

/* 28 and 15 are fp8 numbers; 2^4.75 and 2^3.875 become 26 and 15 in every row. */
TEST(largest_weights_of_fp8_are_exact_or_found)
{
    expect_none(&(struct weights){28, 4, -6, false}, set_fp8);
    expect_bias(&(struct weights){exp2(4.75), 4, -6, false}, set_fp8);
    expect_none(&(struct weights){15, 4, -7, false}, set_fnuz);
    expect_bias(&(struct weights){exp2(3.875), 4, -7, false}, set_fnuz);
}

/* In bf16 the largest weight of every row is 1. It is exact if weights are rounded to the nearest.
 * If they are truncated it loses less than the others, but not if it is a little above 1. */
TEST(largest_weights_of_bf16_are_exact_or_found)
{
    expect_none(&(struct weights){1, 8, -126, false}, set_rounded);
    expect_bias(&(struct weights){1 + 0x1.8p-9, 8, -126, false}, set_rounded);
    expect_none(&(struct weights){1 + 0.7213 * 0x1p-8, 8, -126, true}, set_cut);
    expect_bias(&(struct weights){1, 8, -126, true}, set_cut);
}

/* The sum of a row's weights has the error of its largest one. */
TEST(lse_that_is_off_in_all_rows_is_found)
{
    struct comparison c = {.attention = &(const struct ref_attention){.dim = 1}};
    struct verify_row row = {0};
    c.lse =
        (struct mean){.sum = -0.01 * ROWS, .drift = 0.001 * ROWS, .squares = 0.01, .scale = ROWS};
    mean_check_one(&c.lse, "lse is too high", &row);
    assert_non_null(strstr(row.fault, "lse is too high by -1.00e-02 on the average"));
}

int main(void) { return run_unit_tests(); }
