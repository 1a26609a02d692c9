/* SPDX-License-Identifier: Apache-2.0 */
/* This file is separate from hip.h, because hip_entry.c must not see HIP's own prototypes. */
#ifndef HIPSIM_HIP_ENTRY_H
#define HIPSIM_HIP_ENTRY_H

/** Returns the library's function for a name in a program built for HIP `version`, 100 * major +
 * minor. NULL if there is none. */
void *hip_entry_point(const char *name, int version);

#endif
