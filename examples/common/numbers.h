/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares numbers and products on the host: bf16, made-up weights, projections. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A linear congruential generator (Knuth's MMIX constants); the top byte is the random one. */
int8_t random_byte(uint64_t *state);

/* Memory of the host; ends the program where there is none. */
void *host_allocate(size_t size);

/* Random bytes, as the weights of a projection. */
int8_t *make_weights(size_t count, uint64_t seed);

/* Weights of a norm: bf16 near 1. */
void make_norm(uint16_t *weights, int count, uint64_t *state);

/* The hidden state that a token number embeds to. */
void embed(int token, float *hidden, int count);

/* The sum of w[i] x[i], scaled so that it is about as large as `x`. */
float dot(const int8_t *w, const float *x, int count);

/* Rows of weights times `x`, as bf16. */
void project_rows(const int8_t *w, int rows, const float *x, int count, uint16_t *out);

/* RMSNorm of `hidden` without weights. */
void normalise(const float *hidden, int count, float eps, float *x);

/* Rows of weights times the bf16 vector `in` of `count` elements, added to `hidden`. */
void add_product(const int8_t *w, int rows, const uint16_t *in, int count, float *hidden);

#endif
