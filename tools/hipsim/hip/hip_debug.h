/* SPDX-License-Identifier: Apache-2.0 */
/* The debugger of the options `break` and `gdb`, which stops launches at source lines. */
#ifndef HIPSIM_HIP_DEBUG_H
#define HIPSIM_HIP_DEBUG_H

#include "hip.h"

/** Creates the process's debugger if options->break_at or options->gdb is not empty. False, with a
 * sentence in `why`, if a text is no place or no address. */
bool hip_debug_configure(const struct options *options, char *why, size_t why_size);

/** Makes the debugger observe the launch of a kernel of `module`. False if there is no debugger, or
 * it observes another thread's launch. */
bool hip_debug_begin(struct launch *launch, const struct ihipModule_t *module);
/** Ends the observation that hip_debug_begin() has begun, if it returned true. */
void hip_debug_end(void);

#endif
