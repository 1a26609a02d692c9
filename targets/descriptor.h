/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_DESCRIPTOR_H
#define ATTNC_TARGETS_DESCRIPTOR_H

#include "targets/codegen.h"

/** Reduces what a GFX9 kernel claims in its descriptor, in a relocatable object.
 *
 * With `registers` the number of registers becomes the number of VGPRs that the code uses; the
 * kernel must have no AGPRs, which are not counted. The workgroup indices from dimension `dims` (0
 * to 3) on are removed from the SGPRs with which waves start; the kernel must not read them. They
 * stay if waves also start with a workgroup size or scratch offset. Returns false with a sentence
 * in `why` if the descriptor is absent. */
bool tgt_trim_descriptor(struct tgt_blob *object, const char *kernel, bool registers, unsigned dims,
                         char why[TGT_WHY]);

#endif
