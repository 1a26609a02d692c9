/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points by name. This header is separate from hip.h, since hip_entry.c must not see HIP's
 * own prototypes. */
#ifndef HIPSIM_HIP_ENTRY_H
#define HIPSIM_HIP_ENTRY_H

/** Returns the address of the library's function `name` for a program that was built for HIP
 * `version`, 100 * major + minor. NULL if there is none. */
void *hip_entry_point(const char *name, int version);

#endif
