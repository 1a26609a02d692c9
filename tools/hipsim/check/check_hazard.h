/* SPDX-License-Identifier: Apache-2.0 */
/* The hazard check: wait states that the hardware does not insert by itself. */
#ifndef HIPSIM_CHECK_HAZARD_H
#define HIPSIM_CHECK_HAZARD_H

#include "wave.h"

/** Fills in->hazard_traits and in->matrix_passes of a decoded instruction. */
void hazard_classify(enum gfx_target target, struct inst *in);

/**
 * Compares `in`, which is about to run, with the instructions that its wave issued last, and notes
 * it. False after a report.
 */
bool hazard_step(struct wave *w, const struct inst *in);

#endif
