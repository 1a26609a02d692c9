/* SPDX-License-Identifier: Apache-2.0 */
/* This file tests the bounds of attention: wrong elements, single ones and all together. */
#include <math.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tests/verify/result.h"
#include "tools/verify/compare.h"

enum { WIDTH = 64, KEYS = 64 };

struct result {
    struct operand out;
    struct ref_row reference;
};

/* Fills a row: 64 keys of equal weight, and values of 1 and -1 with a mean of 0.5. */
static void compare_row(struct comparison *c, int task)
{
    struct result *r = (struct result *)c->problem;
    const struct place at = {.row = task};
    compare_result(c, &at, &r->out, 0, NULL, NULL, &r->reference);
}

/* Returns the verdict on a row with `wrong` elements that are off by `steps` of bf16, which are u
   at 0.5. */
static struct verify_row verdict(int wrong, int steps)
{
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
    make_result(&r.out, ATTN_BF16, 1, 1, WIDTH);
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

TEST(what_is_right_passes)
{
    assert_string_equal(verdict(0, 0).fault, "");
    assert_string_equal(verdict(8, 1).fault, "");
}

/* An element's bound is u for the rounding of weights, and u for the rounding of the result. */
TEST(one_element_fails) { assert_non_null(strstr(verdict(1, 2).fault, "element 0 is")); }

/* Roundings are independent, so not all of them may be as large as a single one. */
TEST(all_elements_fail_together)
{
    const struct verify_row row = verdict(WIDTH, 1);
    assert_non_null(strstr(row.fault, "the relative error of the whole"));
    assert_true(row.largest < row.largest_bound);
}

/* The functions from here on test the formulas of the bounds. */

/* A row in which every sum of the reference matters, and a kernel's result for it. */
struct setting {
    int element;        /* index in out */
    double weight_unit; /* rounding of the weights; 0: they are summed before rounding */
    double roundings;
    double got, lse; /* results of the kernel; right are 0.5 and 3 */
};

struct setup {
    struct operand out, lse;
    struct ref_row reference;
};

enum { DIM = 60, ROW_KEYS = 5 };
#define CAP 50.0
#define INPUTS 0x1p-20
#define SCORE 30.0
#define ROOT 4.0
#define OUT 0.5
#define LSE 3.0
#define MAGNITUDE 0.75
#define VALUES 2.5
#define SQUARES 0.125
#define MOVED 0x1p-7
#define MOVED_SQUARES 0x1p-15

static void compare_setting(struct comparison *c, int task)
{
    struct setup *s = (struct setup *)c->problem;
    const struct place at = {.row = task};
    compare_result(c, &at, &s->out, 0, &s->lse, AT(0), &s->reference);
}

static struct verify_row verdict_of(const struct setting *setting, double expected_lse)
{
    static struct setup s;
    const struct ref_attention attention = {.dim = DIM,
                                            .dim_v = WIDTH,
                                            .scale = 1,
                                            .soft_cap = CAP,
                                            .weight_unit = setting->weight_unit};
    struct comparison c = {
        .precision = find_precision("fp16"),
        .attention = &attention,
        .inputs = INPUTS,
        .tasks = 1,
        .task = compare_setting,
        .problem = &s,
    };
    struct verify_row row = {0};
    s.reference = (struct ref_row){.keys = ROW_KEYS,
                                   .score = SCORE,
                                   .score_root = ROOT,
                                   .lse = expected_lse,
                                   .roundings = setting->roundings,
                                   .absolute = {.squares = 1},
                                   .sum = {.squares = 1}};
    for (int i = 0; i < REF_DIRECTIONS; i++) /* bounds of sums are tested in test_mean.c */
        s.reference.drift[i].squares = 1;
    make_result(&s.out, setting->element, 1, 1, WIDTH);
    make_result(&s.lse, ATTN_F32, 1, 1, 1);
    for (int d = 0; d < WIDTH; d++) {
        s.reference.out[d] = OUT;
        s.reference.magnitude[d] = MAGNITUDE;
        s.reference.values[d] = VALUES;
        s.reference.squares[d] = SQUARES;
        s.reference.moved[d] = MOVED;
        s.reference.moved_squares[d] = MOVED_SQUARES;
        operand_set(&s.out, AT(0, 0, d), d == 1 ? setting->got : OUT);
    }
    operand_set(&s.lse, AT(0), setting->lse);
    s.out.result = s.out.image, s.lse.result = s.lse.image;
    comparison_run(&c, &row);
    s.out.result = s.lse.result = NULL;
    operand_free(&s.out), operand_free(&s.lse);
    return row;
}

/* An independent form of compare.c's formulas: the bounds of an element, of the whole and of the
   LSE. */
struct bounds {
    double element, whole, lse;
};

static struct bounds bounds_of(const struct setting *s)
{
    const double f = 0x1p-24, u = 0x1p-11, tiny = 0x1p-25, w = s->weight_unit;
    const bool rounded = s->element != ATTN_F32;
    const double e = 2 * f * ((DIM + 4) * SCORE + 8 * CAP) + (ROW_KEYS + 8) * f;
    const double float32 = e * (MAGNITUDE + OUT) + tiny * VALUES + tiny;
    const double inputs = INPUTS * (2 * SCORE * (MAGNITUDE + OUT) + MAGNITUDE);
    const double of_keys = 2 * ROOT * (MAGNITUDE + OUT);
    const double input_squares = INPUTS * INPUTS * (of_keys * of_keys + SQUARES);
    const double grown = 1 / (1 - s->roundings);
    const double weights = w > 0 ? MOVED * grown : u * MAGNITUDE;
    const double last = rounded ? u * OUT : 0;
    const double squares = w > 0 ? MOVED_SQUARES * grown * grown : u * u * SQUARES;
    return (struct bounds){
        .element = (1 + 4 * u) * (weights + last + (1 + w) * (float32 + inputs)),
        .whole =
            (1 + 4 * u) *
            (sqrt(2 * (squares + last * last + (1 + w) * (1 + w) * input_squares) / (OUT * OUT)) +
             (1 + w) * float32 / OUT),
        .lse = e + 2 * INPUTS * SCORE + 8 * f * (LSE + SCORE) + log(grown),
    };
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

static const struct setting settings[] = {
    {ATTN_FP16, 0, 0, OUT, LSE},         {ATTN_F32, 0, 0, OUT, LSE},
    {ATTN_FP16, 0x1p-4, 0.25, OUT, LSE}, {ATTN_F32, 0x1p-4, 0.25, OUT, LSE},
    {ATTN_FP16, 0x1p-11, 0, OUT, LSE},
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

TEST(bounds_are_those_of_the_formulas)
{
    for (int i = 0; i < SETTINGS; i++) {
        struct setting s = settings[i];
        const struct bounds want = bounds_of(&s);
        const double off = s.element == ATTN_F32 ? 0x1p-12 : 0x1p-11;
        s.got = OUT + off;
        const struct verify_row row = verdict_of(&s, LSE);
        assert_string_equal(row.fault, "");
        assert_true(near(row.largest_bound, want.element));
        assert_true(near(row.largest, off));
        assert_true(near(row.relative_bound, want.whole));
        assert_true(near(row.relative, off / (OUT * sqrt(WIDTH))));
    }
}

/* A NaN exceeds any bound, and so does a finite LSE without a visible key. */
TEST(what_is_beyond_a_bound_is_found)
{
    for (int i = 0; i < SETTINGS; i++) {
        struct setting s = settings[i];
        const struct bounds b = bounds_of(&s);
        s.element = ATTN_F32; /* some float32 numbers lie between the bounds */
        const double bound = bounds_of(&s).element;
        s.got = (float)(OUT + bound * 0.999);
        assert_string_equal(verdict_of(&s, LSE).fault, "");
        s.got = (float)(OUT - bound * 1.001);
        assert_non_null(strstr(verdict_of(&s, LSE).fault, "out: "));
        s.got = NAN;
        assert_non_null(strstr(verdict_of(&s, LSE).fault, "not written, or NaN"));
        s = settings[i];
        s.lse = (float)(LSE + b.lse * 0.999);
        assert_string_equal(verdict_of(&s, LSE).fault, "");
        s.lse = (float)(LSE - b.lse * 1.001);
        assert_non_null(strstr(verdict_of(&s, LSE).fault, "lse: "));
        s.lse = NAN;
        assert_non_null(strstr(verdict_of(&s, LSE).fault, "lse: "));
        s.lse = -INFINITY;
        assert_non_null(strstr(verdict_of(&s, LSE).fault, "lse: "));
        assert_string_equal(verdict_of(&s, -INFINITY).fault, "");
        s.lse = -1e30f;
        assert_non_null(strstr(verdict_of(&s, -INFINITY).fault, "lse: "));
    }
}

/* A row has no error bound if its weights are so small that rounding could make all of them 0. */
TEST(vanishing_weights_bound_nothing)
{
    const struct setting s = {ATTN_FP16, 0x1p-4, 1.5, -40, 30};
    assert_string_equal(verdict_of(&s, LSE).fault, "");
}

/* Truncation changes a weight by up to 2 u of the truncated weight, and by about u on average. */
TEST(cut_weights_lose_twice_as_much)
{
    const struct precision *p = find_precision("bf16");
    struct ref_attention cut = {0}, rounded = {0};
    comparison_weights_rounded(&rounded, p);
    comparison_weights_cut(&cut, p);
    assert_true(rounded.weight_unit == 0x1p-8 && rounded.weight_tiny == 0x1p-134);
    assert_true(near(cut.weight_unit, 1.0 / 255));
    assert_true(near(cut.weight_tiny, 0x1p-133 / (1 - 0x1p-8)));
}

/* Weights of late keys are 2^28 to 2^57 times the earlier ones. That exceeds the 2^8 at which the
 * maximum is updated, and the range 2^16 of fp16. */
TEST(late_queries_have_large_scores)
{
    for (int i = 1; i < 40; i++) {
        const double key[4] = {0.3 * i, -0.01 * i, 0.5, -2.0 / i}, scale = 0.125;
        const double q = late_query(key, 4, scale);
        double score = 0;
        for (int d = 0; d < 4; d++)
            score += scale * q * fabs(key[d]);
        assert_true(q == exp2(round(log2(q))));
        assert_true(score / log(2) >= 28 && score / log(2) <= 57);
    }
    assert_true(late_query((const double[]){0, 0}, 2, 1) == 0);
}

/* Returns a row with a weight of 0.8 for a value of 1, and of 0.2 for a value of 0. A rounding d
 * of the first and d' of the second moves out by d (1 - out) + d' out. */
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

TEST(roundings_of_weights_move_a_mean)
{
    const double d[] = {0.8 / 16, 0.2 / 16};
    const struct ref_row row = two_keys(d[0] * 0.2 + d[1] * 0.8, d[0] + d[1]);
    const double squares = d[0] * 0.2 * d[0] * 0.2 + d[1] * 0.8 * d[1] * 0.8;
    assert_true(fabs(row.moved_squares[0] - squares) < 1e-12);
}

/* The rounding is half of the smallest step of fp8. The largest weight is scaled to 28 or 15, or to
 * 2^7.75 with scales of blocks. */
TEST(small_weights_lose_more)
{
    struct ref_attention ocp = {0}, fnuz = {0}, scaled = {0};
    comparison_weights_fp8(&scaled, "gfx950", true);
    comparison_weights_fp8(&ocp, "gfx950", false);
    comparison_weights_fp8(&fnuz, "gfx942", false);
    assert_true(ocp.weight_unit == 0x1p-4 && fnuz.weight_unit == 0x1p-4);
    assert_true(fabs(ocp.weight_tiny * 28 * 0x1p10 - 1) < 1e-12);
    assert_true(fabs(fnuz.weight_tiny * 15 * 0x1p11 - 1) < 1e-12);
    assert_true(fabs(scaled.weight_tiny * exp2(17.75) - 1) < 1e-12);
}

int main(void) { return run_unit_tests(); }
