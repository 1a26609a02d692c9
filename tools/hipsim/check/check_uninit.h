/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undefined values below the size of a register: what `uninit` knows of single bits, and of which
 * values have only been moved since they were loaded. Operations that put bits together or take
 * them apart are followed bit by bit (core/bits.h has the state); the others ask v_valid.
 */
#ifndef HIPSIM_CHECK_UNINIT_H
#define HIPSIM_CHECK_UNINIT_H

#include "check.h"

extern const struct check check_uninit;

/** Runs in->exec() and follows undefined bits, and copies of undefined values, through it. */
void uninit_execute(struct wave *w, const struct inst *in);

#endif
