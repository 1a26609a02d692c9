/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc verify: how far attention kernels may be off, and the comparison of what they wrote with
 * the reference, by several threads.
 */
#ifndef TOOLS_VERIFY_COMPARE_H
#define TOOLS_VERIFY_COMPARE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/verify/mean.h"
#include "tools/verify/operand.h"
#include "tools/reference/attention.h"

/** The position of an output row, for messages. */
/* The position of an output row, for messages: its sequence, query head, and query of the
 * sequence. */
struct place {
    int s, head;
    int64_t row;
};

/* The comparison of an attention call's output rows, divided into tasks for several threads. */
struct comparison {
    const struct precision *precision; /* of the second product, q and out */
    const struct ref_attention *attention;
    /* Largest relative error of keys and values that the kernel rounds before the products; 0:
     * none. */
    double inputs;
    /* Number of tasks. */
    int tasks;
    /** Compares the rows of one task by compare_result(). Called from several threads. */
    void (*task)(struct comparison *c, int task);
    const void *problem; /* passed to `task` through the comparison */

    /* Set by comparison_run(): sums of squares over all elements, under the lock. */
    struct verify_row *row;
    atomic_int next;
    pthread_mutex_t lock;
    /* Sums of squares over all elements: of errors, of expected values, of bounds of final
     * roundings, and of bounds of arithmetic. */
    double error, norm, rounded, arithmetic;
    double closest, largest, largest_bound;
    struct mean means[MEAN_KINDS], to_largest,
        lse; /* errors of elements; times ref_row.to_largest; of the LSE */
};

/** Compares one row of the output with `row`, the reference's. The kernel wrote it to out
 * [token, head, d], and its LSE to `lse_at` of `lse`; NULL: no LSE. A float32 output was not
 * rounded at the end. */
void compare_result(struct comparison *c, const struct place *at, struct operand *out,
                    int64_t token, struct operand *lse, const int64_t lse_at[],
                    const struct ref_row *row);

/** Runs all tasks. Sets the numbers of `row`, and its fault if a bound was exceeded. */
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

/** Returns a power of two for the magnitude of all elements of a query. If its signs are the key's,
 * its logit times log2(e) is then 28 to 57. That exceeds the growth at which a maximum is rescaled
 * and the range of fp16, but not the range of float32. */
double late_query(const double *key, int dim, double scale);

#endif
