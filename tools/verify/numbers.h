/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of attnc verify: their bits, how precise they are, random inputs.
 */
#ifndef TOOLS_VERIFY_NUMBERS_H
#define TOOLS_VERIFY_NUMBERS_H

#include <stdint.h>

#include "runtime/attn.h"

/* An element type: its format, and how precisely it rounds. */
struct precision {
    enum attn_dtype dtype;
    const char *name;   /* name in a dispatch key */
    const char *target; /* the only target with this meaning of the name; NULL: any */
    int size;           /* bytes of an element */
    double unit;        /* largest relative error of a rounding */
    double tiny;        /* largest absolute error of a rounding to a subnormal number */
    double limit;       /* largest number, at which roundings saturate; infinity: they do not */
    uint16_t poison;    /* bits of a NaN that no kernel writes; int8: of the lowest number */
};

/** Returns the 16-bit float type of this name, such as "bf16"; NULL if there is none. */
const struct precision *find_precision(const char *name);

/** Returns the element type of a cache. A `dtype` of fp8 is the kind of fp8 that `target` has. */
const struct precision *find_cache_precision(enum attn_dtype dtype, const char *target);

/** Returns the number that `bits` encode in type `p`. */
double decode_element(const struct precision *p, uint16_t bits);

/** Returns the bits of a value that the type represents exactly, such as a random_value() in 16
 * bits. */
uint16_t encode_element(const struct precision *p, double value);

/** Returns reproducible random bits: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators). */
uint64_t random_bits(uint64_t *state);

/** Returns the bits, in type `p`, of a random number of magnitude `limit` at most. */
uint16_t random_element(const struct precision *p, double limit, uint64_t *state);

/** Returns a random value in (-2, 2), mostly within 1, with eight significant bits. */
double random_value(uint64_t *state);

#endif
