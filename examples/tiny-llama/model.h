/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the host's half of the layer: what is not attention, in plain C, with made-up
 * weights. The shapes are those of Qwen3-8B.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>
#include <string.h>

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

static inline float bf16_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* To nearest, ties to even; of finite numbers. */
static inline uint16_t bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct model {
    int8_t *qkv;                       /* [QKV, HIDDEN] */
    int8_t *output;                    /* [HIDDEN, QUERY] */
    uint16_t q_norm[DIM], k_norm[DIM]; /* bf16 */
};

struct model model_make(void);
void model_free(struct model *m);

/* The hidden state that a token number embeds to. */
void model_embed(int token, float *hidden);

/* RMSNorm and QKV projection: bf16, as the kernels take it. */
void model_project(const struct model *m, const float *hidden, uint16_t *qkv);

/* Output projection of the attention result, added to the hidden state. */
void model_add_output(const struct model *m, const uint16_t *attention, float *hidden);

#endif
