/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the check of results against the formulas, in double precision, from the very
 * bf16 numbers that a kernel was given, and how far its result may be from them.
 */
#ifndef FORMULAS_H
#define FORMULAS_H

#include <stdbool.h>
#include <stdint.h>

/* `worst` becomes the error of a result as a part of its bound, where that is larger: beyond 1 the
 * result is wrong. */
void note_error(double *worst, double got, double expected, double bound);

/* A head behind the rotation, at a position, and behind an RMSNorm if it has weights. */
struct rotation {
    int dim;
    double base, eps;
    const uint16_t *weight; /* [dim], or NULL */
};
void check_head(double *worst, const struct rotation *r, const uint16_t *given, int position,
                const uint16_t *got);

/* The keys and values that a query sees, numbers first to end - 1, `stride` elements from one to
 * the next. */
struct seen_keys {
    int dim, first, end, stride;
    double sink; /* one more term of the sum of exponentials; -INFINITY: none */
    const uint16_t *k, *v;
};
void check_row(double *worst, const struct seen_keys *keys, const uint16_t *q, const uint16_t *got);

/* Prints a call, the contexts of its sequences and its worst errors. Returns whether all is
 * right. */
bool report_call(const char *what, int number, const int *lengths, int batch, double rotated,
                 double attention);

#endif
