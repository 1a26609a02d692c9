/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's part of the layer: everything outside attention, in plain C with made-up weights. The
 * shapes are Qwen3-8B's.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#include "numbers.h"

enum {
    HIDDEN = 4096,
    HEADS = 32,
    KV_HEADS = 8,
    DIM = 128,
    QUERY = HEADS * DIM, /* elements of a token's queries and of its attention output */
    KEY = KV_HEADS * DIM,
    QKV = QUERY + 2 * KEY
};

static const float rms_eps = 1e-6f;
static const double rope_base = 1e6;

struct model {
    int8_t *qkv;                       /* [QKV, HIDDEN]: weights of the QKV projection */
    int8_t *output;                    /* [HIDDEN, QUERY]: weights of the output projection */
    uint16_t q_norm[DIM], k_norm[DIM]; /* bf16 weights of the norms of queries and keys */
};

struct model model_make(void);
void model_free(struct model *m);

/* Computes RMSNorm and the QKV projection in bf16, the kernels' format. */
void model_project(const struct model *m, const float *hidden, uint16_t *qkv);

/* Adds the output projection of the attention result to the hidden state. */
void model_add_output(const struct model *m, const uint16_t *attention, float *hidden);

#endif
