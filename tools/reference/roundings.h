/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the effects of rounded weights on an output row. */
#ifndef REFERENCE_ROUNDINGS_H
#define REFERENCE_ROUNDINGS_H

#include "tools/reference/attention.h"

/** Sets the members of `row` from `moved` on: the effects of rounded weights. row->out must be set.
 * `weights` has the weight of each key over the denominator; 0 for hidden keys. */
void ref_add_roundings(const struct ref_attention *a, const struct ref_keys *keys,
                       const double *weights, struct ref_row *row);

#endif
