/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the workgroups of a grid that run if option `sample` limits their number. */
#ifndef HIPSIM_SAMPLE_H
#define HIPSIM_SAMPLE_H

#include <stdint.h>

/** Chooses at most `n` workgroups of a grid of groups[0] * groups[1] * groups[2]. They are its
 * corners, where partial workgroups and masks are, and others at even distances. Returns their
 * indices in ascending order, allocated with malloc(), and sets *chosen to their number. NULL
 * without memory. */
uint64_t *sample_choose(const uint32_t groups[3], uint64_t n, uint64_t *chosen);

#endif
