/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diverge check: reports lanes that skipped a barrier and then execute an instruction together
 * with lanes that passed it.
 *
 * A lane that returned early never executes again, so it causes no finding. Nor does the other side
 * of a branch: its code is executed only for the lanes that skipped the barrier. Accesses to
 * private memory are excluded, since compilers spill with EXEC all ones. Tensor copies are
 * excluded, since they have no lanes.
 */
#include "check_diverge.h"

#include <stdlib.h>

#include "decode.h"

/* Returns the address of a dummy state, since the core requires one; the real state is in the
 * wave. */
static void *create(const struct launch *l, void *launch_state)
{
    (void)l;
    (void)launch_state;
    return malloc(1);
}

/* Reports an access in which only some of the active lanes skipped the wave's last barrier. False
 * after a fault. */
static bool accessed(void *state, struct wave *w, const struct inst *in, const struct lane_mem *m,
                     unsigned bytes, enum mem_direction direction)
{
    uint64_t skipped = m->lanes & w->skipped_barrier;

    (void)state;
    (void)bytes;
    (void)direction;
    if (!skipped || skipped == m->lanes || m->space == MEM_SCRATCH || in->encoding == ENC_TENSOR)
        return true;
    const uint64_t entry = w->launch->entry_pc - code_address(w->launch->code);
    w->skipped_barrier = 0; /* one report per barrier */
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
