/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race check: two waves of a workgroup touch the same bytes of LDS or global memory between
 * the same two barriers, at least one of them writes, and not both are atomic.
 * docs/hipsim-checks.md says what it finds and what it leaves alone.
 *
 * A shadow belongs to one host thread, which runs one workgroup after the other with it.
 */
#ifndef HIPSIM_CHECK_RACE_H
#define HIPSIM_CHECK_RACE_H

#include "tools/hipsim/mem.h"

struct race;

/** A shadow for workgroups with `lds_bytes` of LDS; NULL when memory is short. */
struct race *race_create(uint32_t lds_bytes);
void race_destroy(struct race *race);

/** Forgets everything: a workgroup begins. */
void race_begin(struct race *race);

/**
 * Notes an access that mem_resolve() has allowed and compares it with what other waves did since
 * the last barrier. False after a report. Stores that collide are only remembered:
 * race_settle() judges them when their data is in memory.
 */
bool race_access(struct wave *w, const struct inst *in, const struct lane_mem *m, unsigned bytes,
                 enum mem_direction direction);

/** Reports collisions of the instruction that has just run, unless it left all bytes as they were:
 *  waves that repeat another wave's copy do no harm. To be called while wg->race_open is set. */
void race_settle(struct wave *w, const struct inst *in);

#endif
