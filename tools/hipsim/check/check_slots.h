/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the checks in simulator_parts.checks and in workgroup->check. */
#ifndef HIPSIM_CHECK_SLOTS_H
#define HIPSIM_CHECK_SLOTS_H

enum check_slot { SLOT_HAZARD, SLOT_UNINIT, SLOT_RACE, SLOT_DIVERGE, SLOT_STALE };

#endif
