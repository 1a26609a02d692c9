/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the element types of verified tensors: their encoding, their rounding errors,
 * and random elements.
 */
#ifndef TOOLS_VERIFY_NUMBERS_H
#define TOOLS_VERIFY_NUMBERS_H

#include <math.h>
#include <stdint.h>

#include "runtime/attn.h"

/* An element type: its format and its rounding errors. */
struct precision {
    enum attn_dtype dtype;
    const char *name;   /* name in a dispatch key */
    const char *target; /* target on which the name has this format; NULL: all others */
    int size;           /* bytes of an element */
    double unit;        /* largest relative error of a rounding */
    double tiny;        /* largest absolute error of a rounding to a subnormal number */
    /* largest number, to which larger ones are rounded; infinity: roundings do not saturate */
    double limit;
    /* bits that mark memory as unwritten: a NaN that no kernel writes; int8: the lowest number */
    uint16_t poison;
};

/** Returns the 16-bit float type of this name, such as "bf16"; NULL if there is none. */
const struct precision *find_precision(const char *name);

/** Returns the element type of a cache. ATTN_FP8 means the fp8 format of `target`. */
const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target);

/** Returns the number that `bits` encode in type `p`. */
double decode_element(const struct precision *p, uint16_t bits);

/** Returns the bits of `value` in type `p`, which must represent it exactly. A 16-bit type
 * represents each random_value() exactly. */
uint16_t encode_element(const struct precision *p, double value);

/** Returns 64 reproducible random bits and advances *state, by splitmix64 (Steele, Lea, Flood: Fast
 * splittable pseudorandom number generators). */
uint64_t random_bits(uint64_t *state);

/** Returns the bits, in type `p`, of a random number of magnitude `limit` at most. */
uint16_t random_element(const struct precision *p, double limit, uint64_t *state);

/** Returns a random value in (-2, 2), mostly within 1, with eight significant bits. */
double random_value(uint64_t *state);

/** Returns the Euclidean length of a vector of n elements. */
static inline double vector_length(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

#endif
