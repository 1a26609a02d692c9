/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the functions and tables that the core calls in other folders (core/parts.h). */
#include "parts.h"

#include "check_diverge.h"
#include "check_hazard.h"
#include "check_race.h"
#include "check_slots.h"
#include "check_stale.h"
#include "check_uninit.h"
#include "tables.h"
#include "time_op.h"

const struct parts simulator_parts = {
    .rows = exec_tables,
    .aliases = exec_aliases,
    .clocks = time_classify,
    .execute = uninit_execute,
    .straight = exec_straight,
    .checks =
        {
            [SLOT_HAZARD] = &check_hazard,
            [SLOT_UNINIT] = &check_uninit,
            [SLOT_RACE] = &check_race,
            [SLOT_DIVERGE] = &check_diverge,
            [SLOT_STALE] = &check_stale,
        },
};
