/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that some calls of a key take in place of its first: see att_template.second.
 */
#ifndef COMPILER_SECOND_H
#define COMPILER_SECOND_H

#include "compiler/description.h"

/** Adds the second kernels of each variant that leaves its tile open and has some. They get the
 * calls that no tuned kernel of the key has. False: out of memory, or a key has more kernels than
 * fit; `d` says which. */
bool attnc_add_seconds(struct attnc_description *desc, struct attnc_diag *d);

#endif
