/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and products on the host: bf16, made-up weights, projections. */
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

/* Rounds a finite number to nearest, ties to even. */
static inline uint16_t bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Returns a random byte: the top byte of a linear congruential generator (Knuth's MMIX
 * constants). */
int8_t random_byte(uint64_t *state);

/* Allocates host memory; ends the program if there is none. */
void *host_allocate(size_t size);

/* Makes random weights of a projection. */
int8_t *make_weights(size_t count, uint64_t seed);

/* Makes weights of a norm: bf16 near 1. */
void make_norm(uint16_t *weights, int count, uint64_t *state);

/* Computes the hidden state of a token number. */
void embed(int token, float *hidden, int count);

/* Returns the sum of w[i] x[i], scaled to about the size of `x`. */
float dot(const int8_t *w, const float *x, int count);

/* Multiplies rows of weights by `x`; the results are bf16. */
void project_rows(const int8_t *w, int rows, const float *x, int count, uint16_t *out);

/* Computes the RMSNorm of `hidden` without weights. */
void normalise(const float *hidden, int count, float eps, float *x);

/* Adds rows of weights times the bf16 vector `in` of `count` elements to `hidden`. */
void add_product(const int8_t *w, int rows, const uint16_t *in, int count, float *hidden);

#endif
