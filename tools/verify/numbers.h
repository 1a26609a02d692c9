/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of attnc verify: their bits, how precise they are, random inputs.
 */
#ifndef TOOLS_VERIFY_NUMBERS_H
#define TOOLS_VERIFY_NUMBERS_H

#include <stdint.h>

#include "runtime/attn.h"

struct precision {
    enum attn_dtype dtype;
    const char *name;   /* as a dispatch key spells it */
    const char *target; /* the only one that means this by the name; NULL: any */
    int size;           /* bytes */
    double unit;        /* the largest relative error of rounding to it */
    double tiny;        /* the largest absolute error where it is subnormal */
    double limit;       /* where rounding to it saturates; infinity: nowhere */
    uint16_t poison;    /* a NaN that no kernel writes; int8: the lowest number */
};

/** The type of 16 bits by its name; NULL: not known here. */
const struct precision *find_precision(const char *name);

/** The type of a cache's elements; fp8 is the target's. */
const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target);

double decode_element(const struct precision *p, uint16_t bits);

/** The bits of a value that the type holds exactly: one of 16 bits, as all of random_value() are,
 * or of fp8. */
uint16_t encode_element(const struct precision *p, double value);

/** Reproducible: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators). */
uint64_t random_bits(uint64_t *state);

/** Random bits of a number of at most `limit`. */
uint16_t random_element(const struct precision *p, double limit, uint64_t *state);

/** In (-2, 2), most of it within 1: eight significant bits. */
double random_value(uint64_t *state);

#endif
