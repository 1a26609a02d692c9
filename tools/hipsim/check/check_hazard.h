/* SPDX-License-Identifier: Apache-2.0 */
/* The hazard check: finds wait states that the hardware does not insert by itself. */
#ifndef HIPSIM_CHECK_HAZARD_H
#define HIPSIM_CHECK_HAZARD_H

#include "check.h"

extern const struct check check_hazard;

#endif
