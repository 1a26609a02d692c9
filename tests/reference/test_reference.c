/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reference with which kernels are compared. Element types are compared with values in
 * their specifications, cache layouts with their formulas, and decode with prefill. The merged
 * results of parts are compared with the results of all keys.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tools/verify/numbers.h"
#include "tools/reference/combine.h"
#include "tools/reference/decode.h"
#include "tools/reference/prefill.h"

enum { PAGE = 16, DIM = 32, KV_HEADS = 2, HEADS = 4, PAGES = 5, KEYS = 37, QUERIES = 3 };
enum { ELEMENTS = PAGES * KV_HEADS * PAGE * DIM };

static void exact(double got, double expected)
{
    if (got != expected)
        fail_msg("%.17g is not %.17g", got, expected);
}

TEST(fp8_is_what_the_target_says)
{
    const struct precision *fnuz = find_cache_precision(ATTN_FP8, "gfx942");
    const struct precision *ocp = find_cache_precision(ATTN_FP8, "gfx950");
    exact(decode_element(fnuz, 0x40), 1);
    exact(decode_element(ocp, 0x38), 1);
    exact(decode_element(fnuz, 0x7f), 240);
    exact(decode_element(ocp, 0x7e), 448);
    exact(decode_element(fnuz, 0xff), -240);
    exact(decode_element(ocp, 0xfe), -448);
    exact(decode_element(fnuz, 0x01), 0x1p-10);
    exact(decode_element(ocp, 0x01), 0x1p-9);
    exact(decode_element(fnuz, 0x08), 0x1p-7);
    exact(decode_element(ocp, 0x08), 0x1p-6);
    assert_true(isnan(decode_element(fnuz, 0x80)));
    assert_true(isnan(decode_element(ocp, 0x7f)) && isnan(decode_element(ocp, 0xff)));
    exact(decode_element(ocp, 0x80), 0);
    exact(decode_element(find_cache_precision(ATTN_INT8, "gfx942"), 0x80), -128);
}

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g is not %.17g", got, expected);
}

static void drift_is(const struct ref_drift *d, double squares, double mean)
{
    near(d->squares, squares);
    near(d->mean, mean);
}

/* Visible keys have weights of 4, 1 and 2, and the sink has 1: p is 1/2, 1/8 and 1/4. The third key
 * is hidden. */
TEST(sums_of_a_row_are_those_of_the_formula)
{
    static const double q[2] = {1, -2}, sink = 0;
    static const double k[4][2] = {{2, 0}, {2, 1}, {100, 100}, {1, 0}};
    static const double v[4][2] = {{8, -4}, {-8, 16}, {50, 50}, {4, 0}};
    static const uint8_t visible[4] = {1, 1, 0, 1};
    const struct ref_attention a = {
        .dim = 2, .dim_v = 2, .scale = log(2), .weight_unit = 0x1p-4, .weight_tiny = 0x1p-5};
    const struct ref_query query = {.q = q, .queries = 1, .keys = 4, .sink = &sink};
    const struct ref_keys keys = {
        .k = k[0], .v = v[0], .k_stride = 2, .v_stride = 2, .end = 4, .visible = visible};
    static struct ref_row row;
    double scratch[4];
    ref_attend(&a, &query, &keys, scratch, &row);
    static const double out[] = {4, 0}, magnitude[] = {6, 4}, squares[] = {18, 8};
    /* A rounding d is 1/32 for the first weight. For the others it is 1/64, half of the smallest
     * step. */
    static const double moved[] = {5.0 / 16, 3.0 / 8}, moved_squares[] = {13.0 / 256, 5.0 / 64};
    for (int d = 0; d < 2; d++) {
        assert_true(fabs(row.out[d] - out[d]) < 1e-12);
        near(row.magnitude[d], magnitude[d]);
        near(row.squares[d], squares[d]);
        near(row.values[d], 10);
        near(row.moved[d], moved[d]);
        near(row.moved_squares[d], moved_squares[d]);
    }
    exact(row.out[2], 0);
    near(row.roundings, 1.0 / 16);
    /* The distances v - out are (4, -4), (-12, 16) and (0, 0). If roundings are many, a term is d^2
     * / p. */
    drift_is(&row.drift[REF_ALONG_OUT], 13.0 / 16, 1.0 / 8);
    drift_is(&row.drift[REF_UP], 1.0 / 256, 1.0 / 128);
    drift_is(&row.drift[REF_TO_LARGEST], 65.0 / 16, 9.0 / 32);
    drift_is(&row.sum, 6.0 / 4096, 5.0 / 1024);
    near(row.absolute.squares, 65.0 / 256);
    near(row.mean_squares[0], 13.0 / 256 / 3);
    near(row.mean_squares[1], 5.0 / 64 / 3);
    near(row.largest, 0.5);
    near(row.to_largest[0], 4);
    near(row.lse, log(8));
    near(row.score, 4 * log(2));
    near(row.score_root, sqrt(8) * log(2));
    assert_int_equal(row.keys, 3);
}

/* Returns the sums of a row of two keys with weights 3/4 and 1/4 and values 8 and 0. */
static struct ref_row two_keys(double unit, double tiny, double drift)
{
    static const double q = 1, k[2] = {1, 0}, v[2] = {8, 0};
    const struct ref_attention a = {.dim = 1,
                                    .dim_v = 1,
                                    .scale = log(3),
                                    .weight_unit = unit,
                                    .weight_tiny = tiny,
                                    .weight_drift = drift};
    const struct ref_query query = {.q = &q, .queries = 1, .keys = 2};
    const struct ref_keys keys = {.k = k, .v = v, .k_stride = 1, .v_stride = 1, .end = 2};
    static struct ref_row row;
    double scratch[2];
    ref_attend(&a, &query, &keys, scratch, &row);
    return row;
}

/* A weight below half of the smallest step is rounded to 0. Here the second weight is so small.
 * Such roundings do not cancel each other. */
TEST(small_weights_are_lost)
{
    const struct ref_row row = two_keys(0x1p-4, 0.5, 0);
    drift_is(&row.sum, 9.0 / 64 + 1.0 / 16, 3.0 / 16 + 1.0 / 4);
    near(row.mean_squares[0], 9.0 / 64 * 4 / 3 + 1.0 / 16 * 36);
    near(row.roundings, 3.0 / 4);
}

/* With a drift of 0.5, the sum of roundings is 0.5 of the sum of their sizes. */
TEST(roundings_may_drift)
{
    const struct ref_row row = two_keys(0x1p-4, 0, 0.5);
    drift_is(&row.sum, 10.0 / 16 / 256, 1.0 / 32);
}

/* If weights are summed before they are rounded, a rounding moves the output by v times the
 * rounding. Otherwise by v - out times the rounding. */
TEST(exact_sums_leave_values)
{
    const struct ref_row row = two_keys(0, 0, 0);
    drift_is(&row.drift[REF_UP], 36, 6);
    near(row.mean_squares[0], 12);
    exact(row.roundings, 0);
    exact(row.moved[0], 0);
}

TEST(a_cap_bounds_scores)
{
    static const double q = 3, k = 5, v = 1;
    const struct ref_attention a = {.dim = 1, .dim_v = 1, .scale = 0.5, .soft_cap = 4};
    const struct ref_query query = {.q = &q, .queries = 1, .keys = 1};
    const struct ref_keys keys = {.k = &k, .v = &v, .k_stride = 1, .v_stride = 1, .end = 1};
    static struct ref_row row;
    double scratch;
    ref_attend(&a, &query, &keys, &scratch, &row);
    near(row.lse, 4 * tanh(7.5 / 4));
    near(row.score, 7.5);
}

TEST(windows_and_chunks_have_a_first_key)
{
    static const struct {
        int64_t position, left, chunk, first;
    } cases[] = {{10, 3, 0, 7},  {2, 3, 0, 0},   {3, 3, 0, 0},   {10, 100, 4, 8}, {10, 1, 4, 9},
                 {12, 5, 4, 12}, {4, 100, 5, 0}, {5, 100, 5, 5}, {-1, 100, 4, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(ref_first_key(cases[i].position, cases[i].left, cases[i].chunk),
                         cases[i].first);
}

/* Returns double number `bits` of an array: the elements of a cache here are indices. */
static double look_up(const void *type, uint32_t bits) { return ((const double *)type)[bits]; }

/* Returns a cache in contiguous memory. Elements have 16 bits, so that x of SHUFFLE is 8. */
static struct ref_cache make_cache(bool shuffle, bool transposed, const uint16_t *elements,
                                   const double *values)
{
    return (struct ref_cache){
        .shuffle = shuffle,
        .transposed = transposed,
        .page_size = PAGE,
        .dim = DIM,
        .element_size = 2,
        .page_stride = KV_HEADS * PAGE * DIM,
        .token_stride = shuffle ? 0 : KV_HEADS * DIM,
        .head_stride = shuffle ? PAGE * DIM : DIM,
        .elements = elements,
        .decode = look_up,
        .type = values,
    };
}

TEST(layouts_are_their_formulas)
{
    const struct ref_cache nhd = make_cache(false, false, NULL, NULL);
    const struct ref_cache k = make_cache(true, false, NULL, NULL);
    const struct ref_cache v = make_cache(true, true, NULL, NULL);
    for (int i = 0; i < ELEMENTS; i++) {
        const int d = i % DIM, token = i / DIM % PAGE, head = i / DIM / PAGE % KV_HEADS;
        const int page = i / DIM / PAGE / KV_HEADS, x = 8;
        assert_int_equal(ref_cache_offset(&nhd, page, token, head, d),
                         ((page * PAGE + token) * KV_HEADS + head) * DIM + d);
        const int block = page * KV_HEADS * DIM * PAGE + head * DIM * PAGE;
        assert_int_equal(ref_cache_offset(&k, page, token, head, d),
                         block + d / x * PAGE * x + token * x + d % x);
        assert_int_equal(ref_cache_offset(&v, page, token, head, d),
                         block + token / x * DIM * x + d * x + token % x);
    }
}

static void fill(double *values, int count, uint64_t *random)
{
    for (int i = 0; i < count; i++)
        values[i] = random_value(random);
}

/* A sequence in pages 3, 0 and 4 of a cache, and its elements in a dense array. */
struct sequence {
    uint16_t elements[2][ELEMENTS];
    double values[2][ELEMENTS];
    float scales[2][PAGES * KV_HEADS * PAGE];
    double dense[2][KEYS * KV_HEADS * DIM];
    double q[QUERIES * HEADS * DIM], sinks[HEADS];
    int32_t qo[2], cu_k[2], kv_lens[1], first_page[1], pages[3];
    struct ref_decode decode;
    struct ref_prefill prefill;
};

static void lay_out(struct sequence *s, int part, bool shuffle)
{
    struct ref_cache c = make_cache(shuffle, part == 1, s->elements[part], s->values[part]);
    c.scale = REF_SCALE_TOKEN;
    c.scales = s->scales[part];
    c.scale_head_stride = PAGE;
    c.scale_page_stride = KV_HEADS * PAGE;
    for (int t = 0; t < KEYS; t++) {
        for (int h = 0; h < KV_HEADS; h++) {
            const int page = s->pages[t / PAGE], slot = t % PAGE;
            float *scale = &s->scales[part][(page * KV_HEADS + h) * PAGE + slot];
            *scale = 0.5f + (float)(t % 4);
            for (int d = 0; d < DIM; d++) {
                const int64_t at = ref_cache_offset(&c, page, slot, h, d);
                s->elements[part][at] = (uint16_t)at;
                s->values[part][at] = s->dense[part][(t * KV_HEADS + h) * DIM + d];
                s->dense[part][(t * KV_HEADS + h) * DIM + d] *= *scale;
            }
        }
    }
    *(part ? &s->decode.v : &s->decode.k) = c;
}

static struct sequence *make_sequence(bool shuffle)
{
    struct sequence *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    uint64_t random = 7;
    fill(s->q, QUERIES * HEADS * DIM, &random);
    fill(s->sinks, HEADS, &random);
    fill(s->dense[0], KEYS * KV_HEADS * DIM, &random);
    fill(s->dense[1], KEYS * KV_HEADS * DIM, &random);
    const struct ref_attention attention = {.dim = DIM, .dim_v = DIM, .scale = 0.2};
    s->qo[1] = QUERIES;
    s->cu_k[1] = s->kv_lens[0] = KEYS;
    memcpy(s->pages, (const int32_t[]){3, 0, 4}, sizeof(s->pages));
    s->decode = (struct ref_decode){
        .attention = attention,
        .q = s->q,
        .qo_indptr = s->qo,
        .kv_lens = s->kv_lens,
        .pages = s->pages,
        .first_page = s->first_page,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .sinks = s->sinks,
        .left = 20,
    };
    lay_out(s, 0, shuffle);
    lay_out(s, 1, shuffle);
    s->prefill = (struct ref_prefill){
        .attention = attention,
        .q = s->q,
        .k = s->dense[0],
        .v = s->dense[1],
        .cu_q = s->qo,
        .cu_k = s->cu_k,
        .batch = 1,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .sinks = s->sinks,
        .left = 20,
    };
    return s;
}

TEST(decode_is_prefill_over_gathered_pages)
{
    static struct ref_row a, b;
    double scratch[KEYS], k[KEYS * DIM], v[KEYS * DIM];
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        struct sequence *s = make_sequence(shuffle);
        for (int i = 0; i < HEADS * QUERIES; i++) {
            const int head = i % HEADS, row = i / HEADS;
            ref_decode_gather(&s->decode, 0, head / (HEADS / KV_HEADS), k, v);
            const struct ref_part whole = {.k = k, .v = v, .end = KEYS};
            ref_decode_row(&s->decode, 0, head, row, &whole, scratch, &a);
            ref_prefill_row(&s->prefill, 0, head, row, scratch, &b);
            assert_memory_equal(&a, &b, sizeof(a));
            assert_int_equal(a.keys, 21);
        }
        free(s);
    }
}

/* Merged: out = sum of e^(lse_i - lse) out_i, with lse = log(sum of e^lse_i + e^sink). */
TEST(states_of_parts_make_the_whole)
{
    struct sequence *s = make_sequence(true);
    static struct ref_row whole, row;
    double scratch[KEYS], k[KEYS * DIM], v[KEYS * DIM], out[DIM] = {0};
    ref_decode_gather(&s->decode, 0, 1, k, v);
    struct ref_part part = {.k = k, .v = v, .end = KEYS};
    ref_decode_row(&s->decode, 0, 3, 1, &part, scratch, &whole);
    part.partial = true;
    double sum = exp(s->sinks[3] - whole.lse);
    static const int cuts[] = {0, 16, 16, 32, KEYS}; /* the second part is empty */
    double outs[4][DIM];
    struct ref_combine_part states[4];
    for (int i = 0; i < 4; i++) {
        part.first = cuts[i];
        part.end = cuts[i + 1];
        ref_decode_row(&s->decode, 0, 3, 1, &part, scratch, &row);
        const double weight = exp(row.lse - whole.lse);
        sum += weight;
        for (int d = 0; d < DIM; d++)
            out[d] += weight * row.out[d];
        memcpy(outs[i], row.out, sizeof(outs[i]));
        states[i] = (struct ref_combine_part){outs[i], row.lse};
    }
    static struct ref_combine_row combined;
    ref_combine_row(states, 4, s->sinks[3], DIM, &combined);
    assert_true(fabs(sum - 1) < 1e-14);
    assert_true(fabs(combined.lse - whole.lse) < 1e-13);
    for (int d = 0; d < DIM; d++) {
        assert_true(fabs(out[d] - whole.out[d]) < 1e-13);
        assert_true(fabs(combined.out[d] - whole.out[d]) < 1e-13);
    }
    free(s);
}

TEST(an_infinite_sink_is_none_or_takes_all_weight)
{
    struct sequence *s = make_sequence(false);
    static struct ref_row none, row;
    static struct ref_combine_row combined;
    double scratch[KEYS], k[KEYS * DIM], v[KEYS * DIM];
    ref_decode_gather(&s->decode, 0, 0, k, v);
    const struct ref_part whole = {.k = k, .v = v, .end = KEYS};
    for (int h = 0; h < HEADS; h++)
        s->sinks[h] = h ? -INFINITY : INFINITY;
    ref_decode_row(&s->decode, 0, 0, 1, &whole, scratch, &row);
    exact(row.lse, INFINITY);
    exact(row.out[0], 0);
    ref_decode_row(&s->decode, 0, 1, 1, &whole, scratch, &row);
    s->decode.sinks = NULL;
    ref_decode_row(&s->decode, 0, 1, 1, &whole, scratch, &none);
    assert_memory_equal(&row, &none, sizeof(row));

    const struct ref_combine_part part = {row.out, row.lse};
    ref_combine_row(&part, 1, INFINITY, DIM, &combined);
    exact(combined.lse, INFINITY);
    exact(combined.out[0], 0);
    ref_combine_row(&part, 1, -INFINITY, DIM, &combined);
    exact(combined.lse, row.lse);
    exact(combined.out[0], row.out[0]);
    free(s);
}

TEST(a_custom_mask_hides_keys)
{
    struct sequence *s = make_sequence(false);
    static struct ref_row row;
    double scratch[KEYS], k[KEYS * DIM], v[KEYS * DIM];
    uint8_t mask[QUERIES * KEYS] = {0};
    static const int64_t mask_indptr[2];
    mask[KEYS + 30] = 1; /* query 1 sees key 30 alone, the others nothing */
    s->decode.mask = mask;
    s->decode.mask_indptr = mask_indptr;
    s->decode.sinks = NULL;
    s->decode.left = s->decode.right = KEYS;
    ref_decode_gather(&s->decode, 0, 0, k, v);
    const struct ref_part whole = {.k = k, .v = v, .end = KEYS};
    ref_decode_row(&s->decode, 0, 0, 1, &whole, scratch, &row);
    for (int d = 0; d < DIM; d++)
        exact(row.out[d], v[30 * DIM + d]);
    ref_decode_row(&s->decode, 0, 0, 2, &whole, scratch, &row);
    exact(row.lse, -INFINITY);
    exact(row.out[0], 0);
    free(s);
}

TEST(the_scale_of_a_page_starts_afresh_or_grows)
{
    const double x[] = {1, -24, 3, 0}, none[] = {0, 0};
    exact(ref_cache_block_scale(x, 4, 0, 1e9, 240), 0.1);
    exact(ref_cache_block_scale(x, 4, 5, 0.05, 240), 0.1);
    exact(ref_cache_block_scale(x, 4, 5, 0.2, 240), 0.2);
    exact(ref_cache_block_scale(none, 2, 0, 1, 127), 1e-6 / 127);
    exact(ref_cache_block_scale(none, 2, 1, 0, 127), 1e-6 / 127);
}

int main(void) { return run_unit_tests(); }
