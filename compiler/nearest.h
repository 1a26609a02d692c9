/* SPDX-License-Identifier: Apache-2.0
 *
 * The known name that a misspelt one was meant to be.
 */
#ifndef COMPILER_NEAREST_H
#define COMPILER_NEAREST_H

#include <stddef.h>

/** The best candidate so far for `wanted`; start with attnc_nearest_to(). */
struct attnc_nearest {
    const char *wanted;
    const char *name; /* NULL: nothing is close */
    size_t distance;  /* of `name`, or the first distance that is too far */
};

struct attnc_nearest attnc_nearest_to(const char *wanted);

/** Considers `name`, which must outlive `n`; of equally near names the first offered stays. */
void attnc_nearest_offer(struct attnc_nearest *n, const char *name);

#endif
