/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_DESCRIPTOR_H
#define ATTNC_TARGETS_DESCRIPTOR_H

#include "targets/codegen.h"

/** Reduces a kernel's register allocation to the registers that it uses, in the kernel descriptor
 * of a relocatable object. The kernel must have no AGPRs. Returns false with a sentence in `why` on
 * failure. */
bool tgt_trim_registers(struct tgt_blob *object, const char *kernel, char why[TGT_WHY]);

#endif
