/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_DESCRIPTOR_H
#define ATTNC_TARGETS_DESCRIPTOR_H

#include "targets/codegen.h"

/** Reduces the number of registers in a kernel's descriptor to the VGPRs that the code uses, in a
 * relocatable object. The kernel must have no AGPRs, which are not counted. On failure returns
 * false with a sentence in `why`. */
bool tgt_trim_registers(struct tgt_blob *object, const char *kernel, char why[TGT_WHY]);

/** Removes workgroup indices from the SGPRs with which a wave of a GFX9 kernel starts, by its
 * descriptor in a relocatable object. The indices in the first `dims` dimensions (0 to 3) stay; the
 * kernel must not read the other ones. Changes nothing for a kernel with scratch memory. On failure
 * returns false with a sentence in `why`. */
bool tgt_trim_workgroup_ids(struct tgt_blob *object, const char *kernel, unsigned dims,
                            char why[TGT_WHY]);

#endif
