/* SPDX-License-Identifier: Apache-2.0 */
/* This file is a decoder layer without its attention. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A linear congruential generator (Knuth's MMIX constants); the top byte is the random one. */
static int8_t random_byte(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int8_t)(*state >> 56);
}

static int8_t *make_weights(size_t count, uint64_t seed)
{
    int8_t *w = malloc(count);
    if (!w) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    for (size_t i = 0; i < count; i++)
        w[i] = random_byte(&seed);
    return w;
}

struct model model_make(void)
{
    struct model m = {
        .qkv = make_weights((size_t)QKV * HIDDEN, 1),
        .output = make_weights((size_t)HIDDEN * QUERY, 2),
    };
    uint64_t state = 3;
    for (int d = 0; d < DIM; d++) {
        m.q_norm[d] = bf16_from_float(1 + (float)random_byte(&state) / 512);
        m.k_norm[d] = bf16_from_float(1 + (float)random_byte(&state) / 512);
    }
    return m;
}

void model_free(struct model *m)
{
    free(m->qkv);
    free(m->output);
}

void model_embed(int token, float *hidden)
{
    uint64_t state = 1000 + (uint64_t)token;
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = (float)random_byte(&state) / 64;
}

/* Weights are bytes of a standard deviation of 74: so the result's is that of `x`, about. */
static float dot(const int8_t *w, const float *x, int count)
{
    enum { LANES = 16 };
    float sums[LANES] = {0}, sum = 0;
    for (int i = 0; i < count; i += LANES) {
        for (int j = 0; j < LANES; j++)
            sums[j] += (float)w[i + j] * x[i + j];
    }
    for (int j = 0; j < LANES; j++)
        sum += sums[j];
    return sum / (74 * sqrtf((float)count));
}

void model_project(const struct model *m, const float *hidden, uint16_t *qkv)
{
    float x[HIDDEN], squares = 0;
    for (int i = 0; i < HIDDEN; i++)
        squares += hidden[i] * hidden[i];
    const float factor = 1 / sqrtf(squares / HIDDEN + rms_eps);
    for (int i = 0; i < HIDDEN; i++)
        x[i] = hidden[i] * factor;
    for (int i = 0; i < QKV; i++)
        qkv[i] = bf16_from_float(dot(m->qkv + (size_t)i * HIDDEN, x, HIDDEN));
}

void model_add_output(const struct model *m, const uint16_t *attention, float *hidden)
{
    float x[QUERY];
    for (int i = 0; i < QUERY; i++)
        x[i] = bf16_to_float(attention[i]);
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] += dot(m->output + (size_t)i * QUERY, x, QUERY);
}
