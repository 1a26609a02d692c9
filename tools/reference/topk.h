/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the selection of the largest scores, by its definition. */
#ifndef REFERENCE_TOPK_H
#define REFERENCE_TOPK_H

#include <stdbool.h>
#include <stdint.h>

/** Writes the positions of the k largest of n scores to `out`, in ascending order, and returns
 * their number. Of equal scores the smaller positions are taken, or with `later` the larger ones. A
 * NaN is less than every number. A score whose bits are all 1 is no score. `out` has room for n. */
int32_t ref_topk(const float *scores, int32_t n, int32_t k, bool later, int32_t *out);

#endif
