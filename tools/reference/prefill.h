/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares attention over packed sequences as the formula says it, in doubles. */
#ifndef REFERENCE_PREFILL_H
#define REFERENCE_PREFILL_H

#include <stdint.h>

enum { REF_PREFILL_DIM_MAX = 1024 };

/* A user's logits function: runtime/attn_hook.h. */
typedef float ref_logits(float logit, int query, int key, int head, int q_len, int kv_len,
                         const void *arg);

/* Dense tensors: q [token, head, dim], k and v [token, kv head, dim]. */
struct ref_prefill {
    const double *q, *k, *v;
    const int32_t *cu_q, *cu_k; /* [batch + 1] */
    int batch, heads, kv_heads, dim, dim_v;
    double scale;
    double soft_cap;      /* 0: none */
    const double *sinks;  /* [head], NULL: none */
    int64_t left, right;  /* visible keys around the diagonal of the bottom right corner */
    ref_logits *logits;   /* NULL: none */
    const void *logits_arg;
};

/*
 * One row of the output, and what a bound on a kernel's error has to know of it: all sums run over
 * the keys that the row sees.
 */
struct ref_prefill_row {
    double out[REF_PREFILL_DIM_MAX];       /* sum of p v; 0 where no key is seen */
    double lse;                            /* log of the denominator; -infinity where it is 0 */
    double magnitude[REF_PREFILL_DIM_MAX]; /* sum of p |v| */
    double squares[REF_PREFILL_DIM_MAX];   /* sum of (p v)^2 */
    double values[REF_PREFILL_DIM_MAX];    /* sum of |v| / denominator, relative to the top score */
    double score;                          /* largest scale * sum of |q k|, or |score| if larger */
    int64_t keys;
};

/* `scratch` has room for the keys of sequence `s`. */
void ref_prefill_row(const struct ref_prefill *p, int s, int head, int64_t row, double *scratch,
                     struct ref_prefill_row *result);

#endif
