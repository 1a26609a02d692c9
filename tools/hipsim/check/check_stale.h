/* SPDX-License-Identifier: Apache-2.0 */
/* The stale check: scalar loads of lines that the scalar cache may have an old copy of. */
#ifndef HIPSIM_CHECK_STALE_H
#define HIPSIM_CHECK_STALE_H

#include "check.h"

extern const struct check check_stale;

#endif
