/* SPDX-License-Identifier: Apache-2.0 */
/* The origins of undefined values: check_uninit's state for a workgroup. */
#ifndef HIPSIM_CHECK_ORIGIN_H
#define HIPSIM_CHECK_ORIGIN_H

#include "check.h"

/** Records the origins of the results of `in`, which has executed: memory, or the origins of its
 * sources. Call it only if w->copies. */
void origins_follow(const struct wave *w, const struct inst *in);

/** Sets *offset to the code offset of the load from which undefined sources of `in` come. False if
 * it is unknown. */
bool origins_find(void *state, const struct wave *w, const struct inst *in, uint64_t *offset);

/* Creates the origins for the workgroups that a host thread runs one after the other. NULL without
 * memory. */
void *origins_create(const struct launch *l, void *launch_state);
void origins_destroy(void *state);
/* Removes all origins, for a workgroup that starts. */
void origins_begin(void *state, const struct workgroup *wg);

#endif
