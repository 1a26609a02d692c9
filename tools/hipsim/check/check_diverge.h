/* SPDX-License-Identifier: Apache-2.0 */
/* The diverge check: finds lanes that skipped a barrier and act again after it. It needs no second
 * barrier. exec_control.c compares the active lanes at two barriers. */
#ifndef HIPSIM_CHECK_DIVERGE_H
#define HIPSIM_CHECK_DIVERGE_H

#include "check.h"

extern const struct check check_diverge;

#endif
