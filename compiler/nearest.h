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
    size_t distance;  /* of `name`; without one, the smallest distance that is too far */
};

struct attnc_nearest attnc_nearest_to(const char *wanted);

/** Considers a candidate, which must outlive `n`. Of equally near names the first is kept. */
void attnc_nearest_offer(struct attnc_nearest *n, const char *name);

#endif
