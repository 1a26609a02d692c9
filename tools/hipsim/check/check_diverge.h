/* SPDX-License-Identifier: Apache-2.0 */
/* The diverge check, which needs no second barrier: lanes that skipped a barrier act again after
 * it. exec_control.c compares the lanes at two barriers. */
#ifndef HIPSIM_CHECK_DIVERGE_H
#define HIPSIM_CHECK_DIVERGE_H

#include "check.h"

extern const struct check check_diverge;

#endif
