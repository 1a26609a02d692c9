/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the barrier after which every wave may read what others have written to LDS.
 * s_barrier waits for waves and not for their stores, so each wave waits for its own stores first.
 */
#ifndef TEMPLATES_WORKGROUP_BARRIER_H
#define TEMPLATES_WORKGROUP_BARRIER_H

#include "ir/builder.h"

/** Waits for the wave's stores to LDS and appends a barrier. */
static inline void att_lds_barrier(struct tir_builder *b)
{
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_barrier(b);
}

#endif
