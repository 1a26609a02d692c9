/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a dispatch. */
#ifndef HIPSIM_ENGINE_H
#define HIPSIM_ENGINE_H

#include "tools/hipsim/wave.h"

/*
 * Runs all workgroups of the launch, spread over host threads, and returns when they have ended
 * or one has faulted. Returns 0, or -1 with launch->fault filled in. The result does not depend
 * on the number of threads unless the kernel's workgroups race with each other.
 */
int engine_run(struct launch *launch);

#endif
