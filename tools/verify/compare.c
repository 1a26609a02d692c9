/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file compares results of attention, and bounds their errors. f = 2^-24 is the unit of
 * float32. u is the unit of the kernel's type, and tiny is half of that type's smallest step.
 *
 * Scores: a score s is a float32 sum of D products, scaled and perhaps capped. Its error is at most
 *     e_s = f ((D + 4) S + 8 c),  S = scale sum |q k|,  c the cap.
 *
 * Weights: a weight exp(s) has an error by the factor exp(e_s), about 1 + e_s. So has the sum of n
 * weights. Weight and sum together have a relative error of e = 2 e_s + (n + 8) f.
 *
 * Rounding of weights: the weights in the second product have the kernel's type, which adds an
 * error of u sum p|v|. Subnormal weights add tiny sum |v|, or in float32, where V_EXP_F32 flushes
 * them to 0 (CDNA3 ISA), 2^-126 sum |v|.
 *
 * Rounding of the result adds u |out| + tiny, unless the result is float32. Products of small
 * errors are covered by the factor 1 + 4 u.
 *
 * Sums of rounded weights: the sum of fp8 weights is a sum of the rounded ones, so out is a mean of
 * values. The same holds for 16-bit weights if the kernel's tuning says sums=rounded. No such
 * kernel has an LSE. A rounding d is at most w times its weight (w = 2^-4 or u). For subnormal
 * weights it is at most t times the row's largest weight, which is at least 1, since m never
 * exceeds the maximum. With eta = sum d / sum p,
 *
 *     sum (p + d) v / sum (p + d) - out = sum d (v - out) / sum (p + d),
 *
 * which is at most sum d |v - out| / (1 - eta). This replaces u sum p|v|. Earlier float32 errors
 * are rounded too: a factor 1 + w. The sum is off by a factor of 1 - eta to 1 + eta, and LSE by its
 * log.
 *
 * Truncated weights (sums=cut): p becomes p (1 - c) with 0 <= c < 2 u, or for subnormal weights at
 * least p - 2 t. That is p (1 - u) + d with |d| <= u p, or 2 t. A mean is the same for weights p (1
 * - u) as for p. So the above holds with w = u / (1 - u), and with 2 t / (1 - u) for t. Truncation
 * would not reduce a sink like the weights, so kernels with sinks round to the nearest.
 *
 * A cache of fp8 or int8 adds no error: its elements are exact in the kernel's type, and the
 * reference reads the same bits. A scale is one more float32 product, which the constants 4 and 8
 * above include. A kernel may also apply scales to elements and round the products to its type.
 * Then keys and values have a relative error of `inputs` = u: e_s grows by u S, and the result's
 * error by u sum p|v|. Over a whole tensor these roundings are independent. The error of a score is
 * then u R with R = scale sqrt(sum (q k)^2), and not u S.
 *
 * These bounds hold for single elements, and allow an error of 2^-4 of every fp8 weight. So the
 * errors of all elements are also summed in several ways (struct mean). In these sums independent
 * roundings cancel, and equal roundings in all rows do not.
 */
#include "tools/verify/compare.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Largest number of threads of a comparison. */
enum { THREADS_MAX = 8 };

static const double f = 0x1p-24;

/* Returns e of the comment above: a bound of the relative error of weights and their sum from
 * float32 arithmetic. */
static double relative_error_of_weights(const struct comparison *c, const struct ref_row *r)
{
    const struct ref_attention *a = c->attention;
    const double score = f * ((a->dim + 4) * r->score + 8 * a->soft_cap);
    return 2 * score + (double)(r->keys + 8) * f;
}

/* Returns a bound of the error of element d from float32 arithmetic and subnormal numbers, without
 * roundings to the type. */
static double arithmetic_bound(const struct comparison *c, const struct ref_row *r, double e, int d)
{
    return e * (r->magnitude[d] + fabs(r->out[d])) +
           fmax(c->precision->tiny, 0x1p-126) * r->values[d] + c->precision->tiny;
}

/* Returns a bound of the error of element d from keys and values that the kernel rounded. */
static double input_bound(const struct comparison *c, const struct ref_row *r, int d)
{
    const double of_keys = 2 * r->score * (r->magnitude[d] + fabs(r->out[d]));
    return c->inputs * (of_keys + r->magnitude[d]);
}

/* Returns a bound of the square of input_bound()'s error, if roundings are independent of each
 * other. */
static double input_squares(const struct comparison *c, const struct ref_row *r, int d)
{
    const double of_keys = 2 * r->score_root * (r->magnitude[d] + fabs(r->out[d]));
    return c->inputs * c->inputs * (of_keys * of_keys + r->squares[d]);
}

/* Returns a bound of sum p / sum (p + d). The bound is huge if too many weights may become 0. */
static double growth(const struct ref_row *r)
{
    return r->roundings < 1 ? 1 / (1 - r->roundings) : 0x1p60;
}

/* Bounds of the parts of an element's error. */
struct parts {
    double growth;     /* growth() of the row */
    double arithmetic; /* arithmetic_bound() */
    double inputs;     /* input_bound() */
    double last;       /* of the rounding to the output's type; 0: it is not rounded */
};

/* Returns a bound of the error of element d from rounded weights. */
static double weight_bound(const struct comparison *c, const struct ref_row *r,
                           const struct parts *p, int d)
{
    return c->attention->weight_unit > 0 ? r->moved[d] * p->growth
                                         : c->precision->unit * r->magnitude[d];
}

/* Returns the bounds of the parts of the error of element d. `e`: relative_error_of_weights().
 * `rounded`: true if the output is rounded to its type. `most`: growth(). */
static struct parts parts_of(const struct comparison *c, const struct ref_row *r, double e, int d,
                             bool rounded, double most)
{
    return (struct parts){
        .growth = most,
        .arithmetic = arithmetic_bound(c, r, e, d),
        .inputs = input_bound(c, r, d),
        .last = rounded ? c->precision->unit * fabs(r->out[d]) : 0,
    };
}

/* Returns a bound of the error of element `d` of an output row. */
static double out_bound(const struct comparison *c, const struct ref_row *r, const struct parts *p,
                        int d)
{
    const double u = c->precision->unit, more = 1 + c->attention->weight_unit;
    return (1 + 4 * u) * (weight_bound(c, r, p, d) + p->last + more * (p->arithmetic + p->inputs));
}

/* Returns a bound of the error of log(L): the relative error of L, which is half of e and the
 * sum's, and float32 arithmetic. */
static double lse_arithmetic(const struct ref_row *r, double e)
{
    return e + 8 * f * (fabs(r->lse) + r->score);
}

/* Returns a bound of the error of an LSE. */
static double lse_bound(const struct ref_row *r, double e)
{
    return lse_arithmetic(r, e) + log(growth(r));
}

/* Fails the row with a wrong element or LSE. The message names its position. */
static void note_fault(struct comparison *c, const char *what, const struct place *at, int d,
                       double got, double expected)
{
    verify_fail(c->row, "%s: sequence %d, query %lld, head %d, element %d is %g, expected %g", what,
                at->s, (long long)at->row, at->head, d, got, expected);
}

/*
 * Returns a bound of the norm of the errors of a whole tensor, relative to the tensor's norm.
 * Roundings of the terms p v of an output, and of the output, are independent. Each is at most u of
 * the rounded number, so squares add to at most u^2 sum ((p v)^2 + out^2). A sum of one term has
 * twice that. fp8 weights add sum (d (v - out))^2. Bounds of the arithmetic hold for the worst
 * case, and are added without squares.
 */
static double relative_bound(const struct comparison *c)
{
    if (c->norm == 0)
        return 0;
    const double u = c->precision->unit;
    const double more = 1 + c->attention->weight_unit;
    return (1 + 4 * u) * (sqrt(2 * c->rounded / c->norm) + more * sqrt(c->arithmetic / c->norm));
}

/* Compares element `d` of an attention row and adds its error to the sums. */
static void compare_element(struct comparison *c, const struct place *at, int d, double got,
                            const struct ref_row *r, const struct parts *p)
{
    const double error = fabs(got - r->out[d]);
    const double bound = out_bound(c, r, p, d);
    c->error += error * error;
    c->norm += r->out[d] * r->out[d];
    const double u = c->precision->unit, more = 1 + c->attention->weight_unit;
    c->rounded += p->last * p->last + more * more * input_squares(c, r, d) +
                  (c->attention->weight_unit > 0 ? r->moved_squares[d] * p->growth * p->growth
                                                 : u * u * r->squares[d]);
    c->arithmetic += p->arithmetic * p->arithmetic;
    if (!(error <= bound))
        note_fault(c, isnan(got) ? "not written, or NaN" : "out", at, d, got, r->out[d]);
    if (bound > 0 && error / bound >= c->closest) {
        c->closest = error / bound;
        c->largest = error;
        c->largest_bound = bound;
    }
}

/* Adds the effect of a row's rounded weights to a sum over all rows. */
static void add_drift(struct mean *m, const struct comparison *c, const struct ref_row *r,
                      const struct ref_drift *d)
{
    const bool summed = c->attention->weight_unit > 0;
    const double u = c->precision->unit, most = summed ? growth(r) : u;
    m->squares += d->squares * most * most;
    m->drift += d->mean * most * (summed ? 1 : u);
}

/* Adds the error of an element to the sums in c->means. Rounded keys and values are the same for
 * all queries, so their errors are not independent. */
static void add_element(struct comparison *c, int d, double got, const struct ref_row *r,
                        const struct parts *p)
{
    const bool summed = c->attention->weight_unit > 0;
    const double u = c->precision->unit, error = got - r->out[d];
    const double last = p->last;
    const double drift = (1 + c->attention->weight_unit) * (p->arithmetic + p->inputs);
    mean_add_element(c->means, error, r->out[d], last, drift);
    c->means[MEAN_ABSOLUTE].drift += sqrt(r->mean_squares[d]) * (summed ? p->growth : u);
    c->to_largest.sum += error * r->to_largest[d];
    c->to_largest.squares += last * r->to_largest[d] * last * r->to_largest[d];
    c->to_largest.drift += (drift + u * last) * fabs(r->to_largest[d]);
    c->to_largest.scale += r->largest * r->to_largest[d] * r->to_largest[d];
}

/* True if the row's roundings are independent of other rows. If one key has nearly all weight, the
 * output is this key's value, whose rounding is the same for every such query. */
static bool is_own(const struct ref_row *r) { return r->largest < 0.9375; }

/* Adds the effect of a row's rounded weights to the sums of its elements. */
static void add_row(struct comparison *c, const struct ref_row *r)
{
    const struct ref_drift absolute = {.squares = r->absolute.squares};
    add_drift(&c->means[MEAN_ALONG], c, r, &r->drift[REF_ALONG_OUT]);
    add_drift(&c->means[MEAN_UP], c, r, &r->drift[REF_UP]);
    add_drift(&c->to_largest, c, r, &r->drift[REF_TO_LARGEST]);
    /* mean_add_element() already counts the mean */
    add_drift(&c->means[MEAN_ABSOLUTE], c, r, &absolute);
}

/* Adds the error of an LSE to c->lse. log(1 + x) is x - x^2 / 2 for the sum x of the roundings. The
 * mean of x^2 is less than the sum of the squares of the roundings. */
static void add_lse(struct comparison *c, double got, const struct ref_row *r, double e)
{
    if (isinf(r->lse))
        return;
    c->lse.sum += got - r->lse;
    c->lse.drift += lse_arithmetic(r, e);
    c->lse.scale++;
    if (c->attention->weight_unit > 0) {
        add_drift(&c->lse, c, r, &r->sum);
        c->lse.drift += r->sum.squares;
    }
}

void compare_result(struct comparison *c, const struct place *at, struct operand *out,
                    int64_t token, struct operand *lse, const int64_t lse_at[],
                    const struct ref_row *r)
{
    const double e = relative_error_of_weights(c, r), most = growth(r);
    const bool own = is_own(r), rounded = out->precision != NULL;
    pthread_mutex_lock(&c->lock);
    for (int d = 0; d < c->attention->dim_v; d++) {
        const int64_t *element = AT(token, at->head, d);
        operand_allow(out, element);
        const double got = operand_result(out, element);
        const struct parts p = parts_of(c, r, e, d, rounded, most);
        compare_element(c, at, d, got, r, &p);
        if (own)
            add_element(c, d, got, r, &p);
    }
    if (own)
        add_row(c, r);
    if (lse) {
        const double got = operand_result(lse, lse_at);
        operand_allow(lse, lse_at);
        const double of_weights = e + 2 * c->inputs * r->score;
        const double bound = lse_bound(r, of_weights);
        if (own)
            add_lse(c, got, r, of_weights);
        if (isinf(r->lse) ? got != r->lse : !(fabs(got - r->lse) <= bound))
            note_fault(c, "lse", at, 0, got, r->lse);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Runs tasks of a comparison until none is left: the function of each thread. */
static void *run_tasks(void *arg)
{
    struct comparison *c = arg;
    for (int task; (task = atomic_fetch_add(&c->next, 1)) < c->tasks;)
        c->task(c, task);
    return NULL;
}

/* Runs the tasks of a comparison, with up to THREADS_MAX threads besides this one. */
static void run(struct comparison *c)
{
    const long wanted = c->threads ? (long)c->threads : sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[THREADS_MAX];
    int started = 0;
    while (started < wanted - 1 && started < THREADS_MAX &&
           !pthread_create(&threads[started], NULL, run_tasks, c))
        started++;
    run_tasks(c);
    while (started)
        pthread_join(threads[--started], NULL);
}

void comparison_run(struct comparison *c, struct verify_row *row)
{
    atomic_store(&c->next, 0);
    pthread_mutex_init(&c->lock, NULL);
    c->error = c->norm = c->rounded = c->arithmetic = 0;
    c->closest = c->largest = c->largest_bound = 0;
    memset(c->means, 0, sizeof(c->means));
    c->to_largest = c->lse = (struct mean){0};
    c->row = row;
    run(c);
    pthread_mutex_destroy(&c->lock);
    row->relative = c->norm > 0 ? sqrt(c->error / c->norm) : sqrt(c->error);
    row->relative_bound = relative_bound(c);
    row->largest = c->largest;
    row->largest_bound = c->largest_bound;
    if (!(row->relative <= row->relative_bound))
        verify_fail(row, "the relative error of the whole is beyond its bound");
    mean_check_one(&c->to_largest,
                   "the largest weights of rows are too large, as a part of themselves,", row);
    mean_check_one(&c->lse, "lse is too high", row);
    mean_check(c->means, row);
}

void comparison_weights_fp8(struct ref_attention *a, const char *target, bool scaled)
{
    const struct precision *p = find_cache_precision(ATTN_FP8, target);
    const bool fnuz = p->target != NULL;
    a->weight_unit = p->unit;
    a->weight_tiny = p->tiny / (scaled ? exp2(7.75) : fnuz ? 15 : 28);
}

void comparison_weights_rounded(struct ref_attention *a, const struct precision *p)
{
    a->weight_unit = p->unit;
    a->weight_tiny = p->tiny;
}

/* The drift of truncated weights, in units of u. Truncation removes on average u 2^-x of a weight
 * 2^k 2^x, 0 <= x < 1. The mean over all x, 0.72 u, does not change a mean of values. The variation
 * over x does, and its first harmonic is 0.16. Exponents of random data have a standard deviation
 * of 0.5 or more. A normal distribution with 0.5 leaves exp(-2 (0.5 pi)^2) = 0.007 of the
 * harmonic. */
static const double CUT_DRIFT = 0.16 * 0.007;

void comparison_weights_cut(struct ref_attention *a, const struct precision *p)
{
    a->weight_drift = CUT_DRIFT;
    a->weight_unit = p->unit / (1 - p->unit);
    a->weight_tiny = 2 * p->tiny / (1 - p->unit);
}

/* Returns the sum of the magnitudes of the elements of `key`. */
static double sum_of_magnitudes(const double *key, int dim)
{
    double sum = 0;
    for (int d = 0; d < dim; d++)
        sum += fabs(key[d]);
    return sum;
}

double late_query(const double *key, int dim, double scale)
{
    const double sum = sum_of_magnitudes(key, dim);
    return sum > 0 ? exp2(nearbyint(log2(40 * log(2) / (scale * sum)))) : 0;
}

double slight_query(const double *key, int dim, double scale)
{
    const double sum = sum_of_magnitudes(key, dim);
    return sum > 0 ? 12 * log(2) / (scale * sum) : 0;
}
