/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_DESCRIPTOR_H
#define ATTNC_TARGETS_DESCRIPTOR_H

#include "targets/codegen.h"

/** Reduces the number of registers in a kernel's descriptor to the VGPRs that the code uses, in a
 * relocatable object. The kernel must have no AGPRs, which are not counted. On failure returns
 * false with a sentence in `why`. */
bool tgt_trim_registers(struct tgt_blob *object, const char *kernel, char why[TGT_WHY]);

/** Limits the indices of its workgroup that a wave on GFX9 starts with to the first `dims`
 * dimensions, 0 to 3, in a relocatable object. The kernel must not read the other ones. A
 * kernel with scratch memory keeps all. On failure returns false with a sentence in `why`. */
bool tgt_trim_workgroup_ids(struct tgt_blob *object, const char *kernel, unsigned dims,
                            char why[TGT_WHY]);

#endif
