/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the known name closest to a misspelt one.
 */
#ifndef COMPILER_NEAREST_H
#define COMPILER_NEAREST_H

#include <stddef.h>

/** A search for the name nearest to `wanted`; initialised by attnc_nearest_to(). */
struct attnc_nearest {
    const char *wanted;
    const char *name; /* the nearest name so far; NULL: none is close */
    /* edit distance of `name`; with `name` NULL, the smallest distance that is too far */
    size_t distance;
};

/** Begins a search for the name nearest to `wanted`, which must outlive the search. */
struct attnc_nearest attnc_nearest_to(const char *wanted);

/** Compares the candidate `name` with n->wanted, and keeps it if it is nearer than the best so far.
 * The string must outlive `n`. */
void attnc_nearest_offer(struct attnc_nearest *n, const char *name);

#endif
