/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file sums the effects of rounded weights on a row of attention.
 * Rounded weights p + d with their own sum as denominator give sum (p + d) v / sum (p + d). The
 * difference from out is sum d x / sum (p + d) with x = v - out. If the denominator is the sum of
 * the weights before rounding, it is sum d x with x = v.
 * Many roundings to nearest nearly cancel: a weight is as likely above the middle of two numbers as
 * below it. The rest of their mean follows from the density of weights, which differs between the
 * ends of a step h: a slope g' gives h^2 g' / 12. A density that falls as p^-3 has g' = 3 / p. With
 * d the largest rounding of p, h = 2 d, the mean is d^2 / p. Every weight below d becomes 0.
 */
#include "tools/reference/roundings.h"
#include "tools/reference/clones.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The rounding of a weight. */
struct rounding {
    double bound;  /* largest rounding, for bounds of single elements; 0: these need none */
    double most;   /* largest rounding of this weight, at most the weight itself */
    double mean;   /* mean of the roundings of many weights of this size */
    bool vanishes; /* true: the weight becomes 0; false: the rounding is evenly distributed */
};

/* Returns the rounding of a weight; `largest` is the row's largest weight. */
static struct rounding rounding_of(const struct ref_attention *a, double weight, double largest)
{
    if (a->weight_unit == 0)
        return (struct rounding){0, weight, weight, false};
    const double bound = fmax(a->weight_unit * weight, a->weight_tiny * largest);
    const bool vanishes = weight < bound;
    const double most = vanishes ? weight : bound;
    return (struct rounding){
        .bound = bound,
        .most = most,
        .mean = fmax(vanishes ? weight : bound * bound / weight, a->weight_drift * most),
        .vanishes = vanishes,
    };
}

/* Adds the rounding `r` of a weight, times `factor`, to a drift. */
static void add_drift(struct ref_drift *d, const struct rounding *r, double factor)
{
    d->squares += r->most * factor * r->most * factor;
    d->mean += r->mean * fabs(factor);
}

/* The sums of a value's elements in the directions of ref_row.drift, and of their magnitudes. */
struct sums {
    double out, up, to_largest, absolute;
};

/* Adds the effects on `row` of the rounding of a weight, whose value has these sums. */
static void add_sums(const struct rounding *r, const struct sums *s, struct ref_row *row)
{
    add_drift(&row->drift[REF_ALONG_OUT], r, s->out);
    add_drift(&row->drift[REF_UP], r, s->up);
    add_drift(&row->drift[REF_TO_LARGEST], r, s->to_largest);
    add_drift(&row->absolute, r, s->absolute);
    add_drift(&row->sum, r, 1);
    row->roundings += r->bound;
}

/* Adds the effects of the rounding of a weight whose value is v, and the squares of the largest
 * effects to `squares`. The denominator is the sum of the rounded weights. */
REF_CLONES static void add_rounding(const struct ref_attention *a, const struct rounding *r,
                                    const double *v, double *squares, struct ref_row *row)
{
    const double bound = r->bound;
    double out = 0, up = 0, to_largest = 0, absolute = 0;
#pragma omp simd reduction(+ : out, up, to_largest, absolute)
    for (int d = 0; d < a->dim_v; d++) {
        const double x = v[d] - row->out[d], most = bound * fabs(x);
        out += x * row->out[d];
        up += x;
        to_largest += x * row->to_largest[d];
        absolute += fabs(x);
        row->moved[d] += most;
        squares[d] += most * most;
    }
    add_sums(r, &(struct sums){out, up, to_largest, absolute}, row);
}

/* Adds the effects of the rounding of a weight whose value is v. The denominator is the sum of the
 * weights before they are rounded. */
REF_CLONES static void add_rounding_after(const struct ref_attention *a, const struct rounding *r,
                                          const double *v, struct ref_row *row)
{
    double out = 0, up = 0, to_largest = 0, absolute = 0;
#pragma omp simd reduction(+ : out, up, to_largest, absolute)
    for (int d = 0; d < a->dim_v; d++) {
        out += v[d] * row->out[d];
        up += v[d];
        to_largest += v[d] * row->to_largest[d];
        absolute += fabs(v[d]);
    }
    add_sums(r, &(struct sums){out, up, to_largest, absolute}, row);
}

/* Adds the mean squares of the rounding of a weight that vanishes. */
REF_CLONES static void add_vanished(const struct ref_attention *a, double square, const double *v,
                                    struct ref_row *row)
{
    for (int d = 0; d < a->dim_v; d++) {
        const double x = v[d] - row->out[d];
        row->mean_squares[d] += square * x * x;
    }
}

/* Returns the key with the largest weight, or -1 if there is none. */
static int64_t find_largest(const struct ref_keys *keys, const double *weights, struct ref_row *row)
{
    int64_t at = -1;
    for (int64_t j = keys->first; j < keys->end; j++) {
        if (weights[j] > row->largest) {
            row->largest = weights[j];
            at = j;
        }
    }
    return at;
}

/* Sets the mean squares of a row. Roundings are evenly distributed up to their bounds, except those
 * in `vanished`. */
static void finish_squares(const struct ref_attention *a, const double *vanished,
                           struct ref_row *row)
{
    const bool after = a->weight_unit == 0;
    for (int d = 0; d < a->dim_v; d++) {
        row->mean_squares[d] += (after ? row->squares[d] : row->moved_squares[d]) / 3;
        row->moved_squares[d] += vanished[d];
    }
}

void ref_add_roundings(const struct ref_attention *a, const struct ref_keys *keys,
                       const double *weights, struct ref_row *row)
{
    double vanished[REF_DIM_MAX]; /* sums of squares, as moved_squares has */
    memset(vanished, 0, (size_t)a->dim_v * sizeof(vanished[0]));
    const int64_t top = find_largest(keys, weights, row);
    for (int d = 0; top >= 0 && d < a->dim_v; d++)
        row->to_largest[d] = keys->v[top * keys->v_stride + d] - row->out[d];
    for (int64_t j = keys->first; j < keys->end; j++) {
        if (keys->visible && !keys->visible[j])
            continue;
        const double *const v = keys->v + j * keys->v_stride;
        const struct rounding r = rounding_of(a, weights[j], row->largest);
        if (a->weight_unit == 0) {
            add_rounding_after(a, &r, v, row);
        } else if (r.vanishes) {
            add_rounding(a, &r, v, vanished, row);
            add_vanished(a, r.most * r.most, v, row);
        } else {
            add_rounding(a, &r, v, row->moved_squares, row);
        }
    }
    finish_squares(a, vanished, row);
}
