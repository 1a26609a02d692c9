/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the attention of one query over keys that are given as doubles. */
#ifndef REFERENCE_ATTENTION_H
#define REFERENCE_ATTENTION_H

#include <stdint.h>

/* Most elements of a row of q, k or v. */
enum { REF_DIM_MAX = 1024 };

/* A user's logits function: runtime/attn_hook.h. */
typedef float ref_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                         const void *arg);

/* Parameters that all queries of a call share. */
struct ref_attention {
    /* Elements of a row of q and k, and of v. `scale` multiplies q k^T. */
    int dim, dim_v;
    double scale;
    double soft_cap;        /* 0: none */
    ref_logits *logits;     /* NULL: none */
    const void *logits_arg; /* data for `logits`, passed unchanged */
    /* Rounding of a kernel's weights before they are summed: relative to the weight, or if that is
     * more, relative to the row's largest weight. 0: weights are summed before rounding. */
    double weight_unit, weight_tiny;
    /* The part of that rounding with the same sign for all weights, if weights are truncated. 0:
     * they are rounded to the nearest. */
    double weight_drift;
};

/* Directions by which the errors of a row's elements are multiplied and summed. A sum over many
 * rows shows a rounding that is the same in all of them. */
enum ref_direction {
    REF_ALONG_OUT,  /* out: finds results that are all too large, or too small */
    REF_UP,         /* 1: finds results that are all too high, or too low */
    REF_TO_LARGEST, /* the largest weight's value - out: finds a largest weight that is too large */
    REF_DIRECTIONS
};

/* The effect of the roundings of weights on a sum of errors. */
struct ref_drift {
    double squares; /* sum of the squares of the largest roundings, which are independent */
    double mean;    /* sum of their means, which may all have the same sign */
};

/* A query among `queries` of a sequence with `keys` keys. */
struct ref_query {
    const double *q; /* row of q: `dim` doubles */
    /* Index of the query in its sequence, and tokens of the sequence. */
    int64_t row, queries, keys;
    int head;
    const double *sink; /* logit of the attention sink, which joins the denominator; NULL: none */
};

/* Keys and values, `k_stride` and `v_stride` doubles apart. The query sees first .. end - 1. */
struct ref_keys {
    /* Rows of K and of V. */
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
    double out[REF_DIM_MAX]; /* sum of p v; 0 if no key is visible */
    /* Natural logarithm of the denominator; -infinity if that is 0. */
    double lse;
    double magnitude[REF_DIM_MAX];     /* sum of p |v| */
    double squares[REF_DIM_MAX];       /* sum of (p v)^2 */
    double values[REF_DIM_MAX];        /* sum of |v| / denominator, relative to the largest score */
    double moved[REF_DIM_MAX];         /* with rounded weights: sum of rounding |v - out| */
    double moved_squares[REF_DIM_MAX]; /* sum of (rounding (v - out))^2 */
    /* Sum of the roundings of all weights, relative to the denominator. */
    double roundings;
    /* The members from here on bound sums of many independent roundings. If the weights are
     * summed before they are rounded, v replaces v - out, and the rounding is the weight's own. */
    double mean_squares[REF_DIM_MAX];       /* sum of the mean of (rounding (v - out))^2 */
    struct ref_drift drift[REF_DIRECTIONS]; /* of the sums of errors in these directions */
    /* The same for the sum of magnitudes of errors, minus its mean. */
    struct ref_drift absolute;
    struct ref_drift sum;           /* the same for the denominator, relative to it */
    double to_largest[REF_DIM_MAX]; /* factors of the direction REF_TO_LARGEST, by column */
    /* Largest weight of a visible key, relative to the denominator. */
    double largest;
    double score;      /* largest scale * sum of |q k|, or |score| if larger */
    double score_root; /* largest scale * root of the sum of (q k)^2 */
    int64_t keys;      /* number of keys that the row sees */
};

/* Returns the first key that a query at this position sees: at most `left` before it, and in its
 * own chunk. A chunk begins at a multiple of `chunk`; 0: no chunks. */
int64_t ref_first_key(int64_t position, int64_t left, int64_t chunk);

/* Computes a row of attention. `scratch` has room for `keys->end` doubles. */
void ref_attend(const struct ref_attention *a, const struct ref_query *query,
                const struct ref_keys *keys, double *scratch, struct ref_row *row);

#endif
