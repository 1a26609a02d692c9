/* SPDX-License-Identifier: Apache-2.0 */
/* The result of refused functions. This header is separate from hip.h, since hip_refused.c must not
 * see HIP's own prototypes. */
#ifndef HIPSIM_HIP_REFUSED_H
#define HIPSIM_HIP_REFUSED_H

#include <stdbool.h>

/** Returns hipErrorNotSupported for the API call `name`, which hipsim lacks. With `say`, reports
 * the call. */
int hip_refuse(const char *name, bool say);

#endif
