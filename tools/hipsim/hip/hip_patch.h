/* SPDX-License-Identifier: Apache-2.0 */
/* Option `patch`, which changes a dword of a kernel's code. */
#ifndef HIPSIM_HIP_PATCH_H
#define HIPSIM_HIP_PATCH_H

#include "hip.h"

/** Checks options->patch. False, with a sentence in `why`, if it is not "KERNEL+BYTES:WORD". */
bool hip_patch_configure(const struct options *options, char *why, size_t why_size);

/** Changes the dword if the code object has the kernel. Call it before anything has decoded the
 * code. */
void hip_patch_apply(const struct code_object *code);

#endif
