/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention of one query over keys that are there as doubles. */
#ifndef REFERENCE_ATTENTION_H
#define REFERENCE_ATTENTION_H

#include <stdint.h>

enum { REF_DIM_MAX = 1024 };

/* A user's logits function: runtime/attn_hook.h. */
typedef float ref_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                         const void *arg);

/* Parameters that all queries of a call share. */
struct ref_attention {
    int dim, dim_v;
    double scale;
    double soft_cap;    /* 0: none */
    ref_logits *logits; /* NULL: none */
    const void *logits_arg;
    /* By how much a kernel may round a weight before it sums it: relative to the weight, and where
     * that is more, relative to the largest one of the row. 0: it sums what it has. */
    double weight_unit, weight_tiny;
    /* The part of that by which all weights may be off the same way, where they are cut. 0: they
     * are rounded to the nearest. */
    double weight_drift;
};

/* Directions that the errors of a row's elements are multiplied with and summed: a sum over many
 * rows finds what is rounded the same way in all of them. */
enum ref_direction {
    REF_ALONG_OUT,  /* out: all of it is too large, or too small */
    REF_UP,         /* 1: all of it is too high, or too low */
    REF_TO_LARGEST, /* the value of the largest weight - out: that weight is too large */
    REF_DIRECTIONS
};

/* The share of the roundings of weights in a sum of errors. */
struct ref_drift {
    double squares; /* the sum of the squares of the most of each, as they are independent */
    double mean;    /* the sum of their means, whose sign may be the same everywhere */
};

/* A query among `queries` of a sequence with `keys` keys. */
struct ref_query {
    const double *q;
    int64_t row, queries, keys;
    int head;
    const double *sink; /* NULL: none */
};

/* Keys and values, `k_stride` and `v_stride` doubles apart, of which first .. end - 1 are seen. */
struct ref_keys {
    const double *k, *v;
    int64_t k_stride, v_stride;
    int64_t first, end;
    const uint8_t *visible; /* [keys]: 0 hides a key; NULL: none is hidden */
};

/*
 * One row of the output, and what a bound on a kernel's error has to know of it: all sums run over
 * the keys that the row sees.
 */
struct ref_row {
    double out[REF_DIM_MAX];           /* sum of p v; 0 where no key is seen */
    double lse;                        /* log of the denominator; -infinity where it is 0 */
    double magnitude[REF_DIM_MAX];     /* sum of p |v| */
    double squares[REF_DIM_MAX];       /* sum of (p v)^2 */
    double values[REF_DIM_MAX];        /* sum of |v| / denominator, relative to the top score */
    double moved[REF_DIM_MAX];         /* weights rounded: sum of rounding |v - out| */
    double moved_squares[REF_DIM_MAX]; /* sum of (rounding (v - out))^2 */
    double roundings;                  /* their sum, relative to the denominator */
    /* Sums of many independent roundings. If the weights are summed before they are rounded, v
     * takes the place of v - out, and each rounding is the weight. */
    double mean_squares[REF_DIM_MAX];       /* sum of the mean of (rounding (v - out))^2 */
    struct ref_drift drift[REF_DIRECTIONS]; /* of the sums in these directions */
    struct ref_drift absolute;              /* of the sum of |errors|, without its mean */
    struct ref_drift sum;                   /* of the denominator, relative to it */
    double to_largest[REF_DIM_MAX];         /* REF_TO_LARGEST */
    double largest;                         /* weight of that key */
    double score;                           /* largest scale * sum of |q k|, or |score| if larger */
    double score_root;                      /* largest scale * root of the sum of (q k)^2 */
    int64_t keys;
};

/* The first key that a query at this position of the sequence sees: at most `left` before it, and
 * of its own chunk, which begins at a multiple of `chunk`, unless that is 0. */
int64_t ref_first_key(int64_t position, int64_t left, int64_t chunk);

/* `scratch` has room for `keys->end` doubles. */
void ref_attend(const struct ref_attention *a, const struct ref_query *query,
                const struct ref_keys *keys, double *scratch, struct ref_row *row);

#endif
