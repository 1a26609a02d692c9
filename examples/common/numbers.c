/* SPDX-License-Identifier: Apache-2.0 */
/* Makes weights and multiplies by them. */
#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int8_t random_byte(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int8_t)(*state >> 56);
}

void *host_allocate(size_t size)
{
    void *p = malloc(size);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return p;
}

int8_t *make_weights(size_t count, uint64_t seed)
{
    int8_t *w = host_allocate(count);
    for (size_t i = 0; i < count; i++)
        w[i] = random_byte(&seed);
    return w;
}

void make_norm(uint16_t *weights, int count, uint64_t *state)
{
    for (int i = 0; i < count; i++)
        weights[i] = bf16_from_float(1 + (float)random_byte(state) / 512);
}

void embed(int token, float *hidden, int count)
{
    uint64_t state = 1000 + (uint64_t)token;
    for (int i = 0; i < count; i++)
        hidden[i] = (float)random_byte(&state) / 64;
}

/* Divides by the standard deviation of the random weights, 74. */
float dot(const int8_t *w, const float *x, int count)
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

void project_rows(const int8_t *w, int rows, const float *x, int count, uint16_t *out)
{
    for (int i = 0; i < rows; i++)
        out[i] = bf16_from_float(dot(w + (size_t)i * (size_t)count, x, count));
}

void normalise(const float *hidden, int count, float eps, float *x)
{
    float squares = 0;
    for (int i = 0; i < count; i++)
        squares += hidden[i] * hidden[i];
    const float factor = 1 / sqrtf(squares / (float)count + eps);
    for (int i = 0; i < count; i++)
        x[i] = hidden[i] * factor;
}

void add_product(const int8_t *w, int rows, const uint16_t *in, int count, float *hidden)
{
    float *x = host_allocate((size_t)count * sizeof(*x));
    for (int i = 0; i < count; i++)
        x[i] = bf16_to_float(in[i]);
    for (int i = 0; i < rows; i++)
        hidden[i] += dot(w + (size_t)i * (size_t)count, x, count);
    free(x);
}
