/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what the roundings of a row's weights do to its output. */
#ifndef REFERENCE_ROUNDINGS_H
#define REFERENCE_ROUNDINGS_H

#include "tools/reference/attention.h"

/** Fills the fields of `row` from `moved` on; `out` is there. `weights` are relative to the
 * denominator, 0 of hidden keys. */
void ref_add_roundings(const struct ref_attention *a, const struct ref_keys *keys,
                       const double *weights, struct ref_row *row);

#endif
