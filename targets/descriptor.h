/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTNC_TARGETS_DESCRIPTOR_H
#define ATTNC_TARGETS_DESCRIPTOR_H

#include "targets/codegen.h"

/** Gives a kernel that has no AGPRs the registers that it uses and no more, in a relocatable object
 * of LLVM's. False: a sentence in why. */
bool tgt_trim_registers(struct tgt_blob *object, const char *kernel, char why[TGT_WHY]);

#endif
