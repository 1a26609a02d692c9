/* SPDX-License-Identifier: Apache-2.0 */
/* Divergent barriers that no second barrier follows; exec_control.c compares two barriers. */
#ifndef HIPSIM_CHECK_DIVERGE_H
#define HIPSIM_CHECK_DIVERGE_H

#include "check.h"

extern const struct check check_diverge;

#endif
