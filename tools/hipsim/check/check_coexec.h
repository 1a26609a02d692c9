/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of the hazard check for gfx1250 and gfx1201: how many independent vector instructions must
 * follow WMMA and transcendentals. */
#ifndef HIPSIM_CHECK_COEXEC_H
#define HIPSIM_CHECK_COEXEC_H

#include "check.h"

struct coexec;

/** Returns an array with a state for each wave of a workgroup, to be freed with free(). NULL
 * without memory. */
struct coexec *coexec_create(void);
/** Resets the states for a workgroup that starts. */
void coexec_begin(struct coexec *state, const struct workgroup *wg);
/** Checks `in` against the instructions that its wave issued last, and adds it to them. False if a
 * report has stopped the wave. */
bool coexec_step(struct coexec *state, struct wave *w, const struct inst *in);

#endif
