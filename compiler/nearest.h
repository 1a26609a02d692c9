/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the known name closest to a misspelt one.
 */
#ifndef COMPILER_NEAREST_H
#define COMPILER_NEAREST_H

#include <stddef.h>

/** The best candidate so far for `wanted`; initialised by attnc_nearest_to(). */
struct attnc_nearest {
    const char *wanted;
    const char *name; /* NULL: nothing is close */
    size_t distance;  /* edit distance of `name`; with `name` NULL, the smallest distance that is
                       * too far */
};

/** Returns a search for the name nearest to `wanted`, to which no name was offered yet. */
struct attnc_nearest attnc_nearest_to(const char *wanted);

/** Compares the candidate `name` with n->wanted, and keeps it if it is nearer than the best so far.
 * The string must outlive `n`. */
void attnc_nearest_offer(struct attnc_nearest *n, const char *name);

#endif
