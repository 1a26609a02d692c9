/* SPDX-License-Identifier: Apache-2.0 */
/* The check for divergent barriers without a second barrier after them; exec_control.c compares two
 * barriers. */
#ifndef HIPSIM_CHECK_DIVERGE_H
#define HIPSIM_CHECK_DIVERGE_H

#include "check.h"

extern const struct check check_diverge;

#endif
