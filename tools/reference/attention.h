/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the attention of one query over keys that are given as doubles. */
#ifndef REFERENCE_ATTENTION_H
#define REFERENCE_ATTENTION_H

#include <stdint.h>

/* Most elements of a row of q, k or v. */
enum { REF_DIM_MAX = 1024 };

/* A user's function on logits, as runtime/attn_hook.h declares it. */
typedef float ref_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                         const void *arg);

/* Parameters that all queries of a call share. */
struct ref_attention {
    /* Elements of a row of q and k, and of v; the factor of q k^T. */
    int dim, dim_v;
    double scale;
    double soft_cap;        /* the score s becomes soft_cap tanh(s / soft_cap); 0: no cap */
    ref_logits *logits;     /* applied to each score after the cap; NULL: none */
    const void *logits_arg; /* data for `logits`, passed unchanged */
    /* Largest rounding of a kernel's weights (exponentials of scores) before they are summed. It is
     * weight_unit times the weight, or weight_tiny times the row's largest weight if that is more.
     * weight_unit 0: weights are summed before they are rounded. */
    double weight_unit, weight_tiny;
    /* Mean of the rounding as a fraction of the largest, if a kernel truncates its weights. 0:
     * weights are rounded to the nearest. */
    double weight_drift;
};

/* A bound for a sum of errors finds roundings that all have the same sign. The errors of a row's
 * elements are multiplied by the numbers that a direction names, and summed over many rows. */
enum ref_direction {
    REF_ALONG_OUT, /* the elements of out: finds results that are all too large, or too small */
    REF_UP,        /* the number 1: finds results that are all too high, or too low */
    /* The value of the key with the largest weight, minus out: finds a largest weight that is too
     * large. */
    REF_TO_LARGEST,
    REF_DIRECTIONS
};

/* The effect of rounded weights on a sum of errors. */
struct ref_drift {
    /* Sum of the squares of the terms' largest roundings; the roundings are independent. */
    double squares;
    /* Sum of the magnitudes of the terms' mean roundings, which may all have the same sign. */
    double mean;
};

/* A query, among `queries` of a sequence that has `keys` keys. */
struct ref_query {
    const double *q; /* row of q: `dim` doubles */
    /* Index of the query in its sequence; numbers of queries and of keys in the sequence. */
    int64_t row, queries, keys;
    /* Index of the query head, for the user's function. */
    int head;
    const double *sink; /* logit of the attention sink, which joins the denominator; NULL: none */
};

/* The keys and values of a sequence, and which of them a query sees. */
struct ref_keys {
    /* First row of K and of V. */
    const double *k, *v;
    /* Doubles from a row of k to the next, and of v. */
    int64_t k_stride, v_stride;
    /* Visible keys: index of the first, and one past the last. */
    int64_t first, end;
    const uint8_t *visible; /* [keys]: 0 hides a key; NULL: all are visible */
};

/*
 * A row of the output, and the quantities from which a kernel's error is bounded. All sums run over
 * the keys that the row sees.
 */
struct ref_row {
    /* Sum of p v, where p is a key's weight over the denominator; 0 if no key is visible. */
    double out[REF_DIM_MAX];
    /* Natural logarithm of the denominator; -infinity if that is 0. */
    double lse;
    double magnitude[REF_DIM_MAX];     /* sum of p |v| */
    double squares[REF_DIM_MAX];       /* sum of (p v)^2 */
    double values[REF_DIM_MAX];        /* sum of |v| / denominator, where the largest weight is 1 */
    double moved[REF_DIM_MAX];         /* with rounded weights: sum of |rounding of p| |v - out| */
    double moved_squares[REF_DIM_MAX]; /* sum of (rounding of p (v - out))^2 */
    /* Sum of the largest roundings of all weights p. */
    double roundings;
    /* The members from here on bound sums of many independent roundings. If a kernel sums weights
     * before rounding, v replaces v - out, and the rounding counts as large as the weight. */
    double mean_squares[REF_DIM_MAX];       /* sum of the mean square of rounding (v - out) */
    struct ref_drift drift[REF_DIRECTIONS]; /* effects on the sums of errors in these directions */
    /* Effect on the sum of the errors' magnitudes; only `squares` is used. */
    struct ref_drift absolute;
    struct ref_drift sum;           /* effect on the denominator, relative to it */
    double to_largest[REF_DIM_MAX]; /* by column: the numbers of the direction REF_TO_LARGEST */
    /* Largest weight of a visible key, relative to the denominator. */
    double largest;
    /* Largest scale * sum of |q k| of a key, or |score| if that is larger. */
    double score;
    /* Largest scale * sqrt(sum of (q k)^2) of a key. */
    double score_root;
    int64_t keys; /* number of keys that the row sees */
};

/* Returns the first key that a query at `position` sees: at most `left` keys before it, and in its
 * own chunk. Chunks begin at multiples of `chunk`; 0: no chunks. */
int64_t ref_first_key(int64_t position, int64_t left, int64_t chunk);

/* Computes attention's row for a query. `scratch` has room for keys->end doubles. */
void ref_attend(const struct ref_attention *a, const struct ref_query *query,
                const struct ref_keys *keys, double *scratch, struct ref_row *row);

#endif
