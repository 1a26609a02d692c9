/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the selection of the largest scores, by its definition. */
#ifndef REFERENCE_TOPK_H
#define REFERENCE_TOPK_H

#include <stdint.h>

/**
 * Positions of the k largest of n scores, ascending; returns how many. Of equal scores the earlier
 * ones; a NaN is below every number; a score of which all bits are set is none. `out` has room for
 * n.
 */
int32_t ref_topk(const float *scores, int32_t n, int32_t k, int32_t *out);

#endif
