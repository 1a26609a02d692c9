/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the tokens of gated_rmsnorm among workgroups. */
#include "runtime/fill.h"
#include "runtime/host.h"

/* Elements that a workgroup of 4 waves processes in a step, as in templates/gated_rmsnorm.c; number
 * of workgroups that keeps a GPU busy; most steps of a workgroup. */
enum { STEP_ELEMENTS = 2048, WORKGROUPS_WANTED = 2048, STEPS_MOST = 8 };

int32_t attn_gated_rmsnorm_run(int32_t tokens, int32_t groups, int32_t width)
{
    const int64_t step = width < STEP_ELEMENTS ? STEP_ELEMENTS / width : 1;
    const int64_t workgroups = attn_parts(tokens, step) * groups;
    const int64_t steps = attn_parts(workgroups, WORKGROUPS_WANTED);
    return (int32_t)(step * (steps < 1 ? 1 : steps < STEPS_MOST ? steps : STEPS_MOST));
}
