/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the comparison of attention's outputs and LSEs with the reference, by several
 * threads, with bounds on the errors.
 */
#ifndef TOOLS_VERIFY_COMPARE_H
#define TOOLS_VERIFY_COMPARE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/verify/mean.h"
#include "tools/verify/operand.h"
#include "tools/reference/attention.h"

/** The position of an output row, for messages: its sequence, query head, and query of the
 * sequence. */
struct place {
    int s, head;
    int64_t row;
};

/* The comparison of an attention call's output rows, divided into tasks for several threads. */
struct comparison {
    /* element type of q, out, and weights in the second product */
    const struct precision *precision;
    const struct ref_attention *attention;
    /* Largest relative error of keys and values if the kernel rounds them before the products; 0:
     * it does not. */
    double inputs;
    int tasks;        /* number of tasks */
    unsigned threads; /* threads that run tasks; 0: one per core */
    /** Compares the rows of one task by compare_result(). Called from several threads. */
    void (*task)(struct comparison *c, int task);
    const void *problem; /* the op's data, which `task` reads */

    /* Set by comparison_run(): the row to fail, the next task, and the lock of all sums below. */
    struct verify_row *row;
    atomic_int next;
    pthread_mutex_t lock;
    /* Sums of squares over all elements: of errors, of expected values, of bounds of final
     * roundings, and of bounds of arithmetic. */
    double error, norm, rounded, arithmetic;
    /* Numbers of the element that is closest to its bound: error divided by bound, error, bound. */
    double closest, largest, largest_bound;
    struct mean means[MEAN_KINDS], to_largest,
        /* means: errors of elements; to_largest: the same times ref_row.to_largest; lse: errors of
         * LSEs */
        lse;
};

/** Compares one row of the output, out [token, at->head], with the reference's `row`. The row's LSE
 * is the element lse_at of `lse`; lse NULL: no LSE. A float32 output has no final rounding. */
void compare_result(struct comparison *c, const struct place *at, struct operand *out,
                    int64_t token, struct operand *lse, const int64_t lse_at[],
                    const struct ref_row *row);

/** Runs all tasks of a comparison. Sets the errors and bounds of `row`, and its fault if a bound is
 * exceeded. */
void comparison_run(struct comparison *c, struct verify_row *row);

/** Makes the reference assume that weights (P) are rounded to the target's fp8. Kernels scale the
 * largest weight of a row to 28 or more (fnuz: 15). With `scaled` they scale the largest of a block
 * of keys to 2^7.75. */
void comparison_weights_fp8(struct ref_attention *a, const char *target, bool scaled);

/** Makes the reference assume that weights (P) are summed after rounding to `p`. The largest weight
 * of a row is 1 or more. */
void comparison_weights_rounded(struct ref_attention *a, const struct precision *p);

/** Makes the reference assume that weights (P) are rounded toward zero to `p` before they are
 * summed. */
void comparison_weights_cut(struct ref_attention *a, const struct precision *p);

/** Returns a power of two as the magnitude of all elements of a query. With the signs of `key`, the
 * query's logit times log2(e) is then 28 to 57. This exceeds the growth at which kernels rescale by
 * a new maximum, and the range of fp16, but not the range of float32. */
double late_query(const double *key, int dim, double scale);

/** Returns the magnitude of all elements of a query; 0 if `key` is 0. If the query's elements have
 * the signs of `key`, its logit for that key is 12 / log2(e). A key with a logit near 0 then has
 * 2^-12 of that weight. fp8 rounds 2^-12 to 0, so a kernel must scale the largest weight to more
 * than 1. `scale`: the softmax scale, times the query's own. */
double slight_query(const double *key, int dim, double scale);

#endif
