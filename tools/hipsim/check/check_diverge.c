/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes that went round a barrier and act together with those that passed it. A lane that has
 * returned early never does, and neither does the other side of the branch that it returned by: its
 * code runs for such lanes alone. Private memory is left out, since compilers spill with EXEC all
 * ones.
 */
#include "check_diverge.h"

#include <stdlib.h>

#include "decode.h"

/* The check keeps its state in the wave; the core wants to see one. */
static void *create(const struct launch *l, void *launch_state)
{
    (void)l;
    (void)launch_state;
    return malloc(1);
}

static bool accessed(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction)
{
    uint64_t skipped = m->lanes & w->skipped_barrier;
    uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);

    (void)state;
    (void)bytes;
    (void)direction;
    if (!skipped || skipped == m->lanes || m->space == MEM_SCRATCH)
        return true;
    w->skipped_barrier = 0; /* one report for a barrier */
    return wave_finding(w, in, FAULT_DIVERGE, skipped,
                        "these lanes were inactive at the wave's barrier at entry%+lld, which "
                        "other lanes of this access have passed",
                        (long long)(w->barrier_at - entry));
}

const struct check check_diverge = {
    .kinds = CHECK_DIVERGE,
    .group_create = create,
    .group_destroy = free,
    .accessed = accessed,
};
