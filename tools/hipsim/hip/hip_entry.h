/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from hip.h, because hip_entry.c must not see HIP's own prototypes. */
#ifndef HIPSIM_HIP_ENTRY_H
#define HIPSIM_HIP_ENTRY_H

/** The function of this library that a program built for HIP `version`, 100 * major + minor, means
 *  by a name; NULL if there is none. */
void *hip_entry_point(const char *name, int version);

#endif
