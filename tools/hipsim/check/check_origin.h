/* SPDX-License-Identifier: Apache-2.0 */
/* The origins of undefined values: check_uninit's state per workgroup. */
#ifndef HIPSIM_CHECK_ORIGIN_H
#define HIPSIM_CHECK_ORIGIN_H

#include "check.h"

/** Tracks undefined values through `in`, which has executed: from loaded memory or from its sources
 *  to its results. Call it only if w->copies. */
void origins_follow(const struct wave *w, const struct inst *in);

/** Finds the code offset of the load that undefined sources of `in` come from. False if none is
 *  known. */
bool origins_find(void *state, const struct wave *w, const struct inst *in, uint64_t *offset);

void *origins_create(const struct launch *l, void *launch_state);
void origins_destroy(void *state);
void origins_begin(void *state, const struct workgroup *wg);

#endif
