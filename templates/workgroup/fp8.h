/* SPDX-License-Identifier: Apache-2.0
 *
 * The range of fp8 as the target has it: OCP E4M3, or the form without negative zero (fnuz) of
 * CDNA3.
 */
#ifndef TEMPLATES_WORKGROUP_FP8_H
#define TEMPLATES_WORKGROUP_FP8_H

#include "ir/machine.h"

/** Returns the largest number of fp8. */
static inline float att_largest_fp8(const struct tir_machine *m)
{
    return m->fp8_is_fnuz ? 240.0f : 448.0f;
}

#endif
