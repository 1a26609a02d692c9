/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undefined values below the size of a register: single undefined bits, and values that were only
 * moved since they were loaded. Operations that combine or split bits are tracked bit by bit
 * (core/bits.h has the state). All others use v_valid.
 */
#ifndef HIPSIM_CHECK_UNINIT_H
#define HIPSIM_CHECK_UNINIT_H

#include "check.h"

extern const struct check check_uninit;

/** Executes `in` and tracks undefined bits and copies of undefined values through it. */
void uninit_execute(struct wave *w, const struct inst *in);

#endif
