/* SPDX-License-Identifier: Apache-2.0 */
/* This file is separate from hip.h, because hip_refused.c must not see HIP's own prototypes. */
#ifndef HIPSIM_HIP_REFUSED_H
#define HIPSIM_HIP_REFUSED_H

#include <stdbool.h>

/** Implements the API call `name`, which hipsim lacks: returns hipErrorNotSupported. With `say`,
 * reports the call. */
int hip_refuse(const char *name, bool say);

#endif
