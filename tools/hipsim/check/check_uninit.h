/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undefined values below the size of a register: single undefined bits, and values that were only
 * moved since they were loaded. Operations that combine or split bits are computed bit by bit
 * (core/bits.h has the state). For all others v_valid suffices.
 */
#ifndef HIPSIM_CHECK_UNINIT_H
#define HIPSIM_CHECK_UNINIT_H

#include "check.h"

extern const struct check check_uninit;

/** Executes `in`, and records undefined bits and copies of undefined values in its results. */
void uninit_execute(struct wave *w, const struct inst *in);

#endif
