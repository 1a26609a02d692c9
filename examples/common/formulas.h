/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks results against the formulas in double precision, from the same bf16 numbers that a kernel
 * was given. Each check has a bound of the rounding error.
 */
#ifndef FORMULAS_H
#define FORMULAS_H

#include <stdbool.h>
#include <stdint.h>

/* Raises *worst to |got - expected| / bound if that is larger. Above 1 the result is wrong. */
void note_error(double *worst, double got, double expected, double bound);

/* A head's RMSNorm, if it has weights, and rotation at a position. */
struct rotation {
    int dim;
    double base, eps;
    const uint16_t *weight; /* [dim]; NULL: no norm */
};
void check_head(double *worst, const struct rotation *r, const uint16_t *given, int position,
                const uint16_t *got);

/* The keys and values that a query sees: numbers first to end - 1, `stride` elements apart. */
struct seen_keys {
    int dim, first, end, stride;
    double sink; /* an additional score in the softmax's denominator; -INFINITY: none */
    const uint16_t *k, *v;
};
void check_row(double *worst, const struct seen_keys *keys, const uint16_t *q, const uint16_t *got);

/* Prints a call, the contexts of its sequences and its worst errors. True if all errors are within
 * their bounds. */
bool report_call(const char *what, int number, const int *lengths, int batch, double rotated,
                 double attention);

#endif
