/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the host's half of the layer: what is not attention, in plain C, with made-up
 * weights. The shapes are those of Qwen3-8B.
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
    QUERY = HEADS * DIM, /* elements of a token's queries, and of the layer's attention output */
    KEY = KV_HEADS * DIM,
    QKV = QUERY + 2 * KEY
};

static const float rms_eps = 1e-6f;
static const double rope_base = 1e6;

struct model {
    int8_t *qkv;                       /* [QKV, HIDDEN] */
    int8_t *output;                    /* [HIDDEN, QUERY] */
    uint16_t q_norm[DIM], k_norm[DIM]; /* bf16 */
};

struct model model_make(void);
void model_free(struct model *m);

/* RMSNorm and QKV projection: bf16, as the kernels take it. */
void model_project(const struct model *m, const float *hidden, uint16_t *qkv);

/* Output projection of the attention result, added to the hidden state. */
void model_add_output(const struct model *m, const uint16_t *attention, float *hidden);

#endif
