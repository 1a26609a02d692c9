/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the alternative kernels that some calls of a key use: see att_template.second.
 */
#ifndef COMPILER_SECOND_H
#define COMPILER_SECOND_H

#include "compiler/description.h"

/** Adds the alternative kernels of each variant that leaves its tile open. They are for the calls
 * that no tuned kernel of the same key is for. Returns false if memory is exhausted, or if a key
 * has more kernels than fit; `d` says which. */
bool attnc_add_seconds(struct attnc_description *desc, struct attnc_diag *d);

#endif
