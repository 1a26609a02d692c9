/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the stale check: scalar loads of lines that the scalar cache may have old. */
#ifndef HIPSIM_CHECK_STALE_H
#define HIPSIM_CHECK_STALE_H

#include "check.h"

extern const struct check check_stale;

#endif
