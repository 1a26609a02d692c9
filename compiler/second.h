/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds to a description the kernels that some calls of a dispatch key use instead of the key's
 * first kernel: see att_template.second.
 */
#ifndef COMPILER_SECOND_H
#define COMPILER_SECOND_H

#include "compiler/description.h"

/** Adds the further kernels of each variant that leaves its tile open, for calls that no tuned
 * kernel of the same key is for. Call it once, after attnc_tuning_apply(). Returns false if memory
 * is exhausted or if a key has more kernels than libattn considers; `d` has the message. */
bool attnc_add_seconds(struct attnc_description *desc, struct attnc_diag *d);

#endif
