/* SPDX-License-Identifier: Apache-2.0 */
/* This file divides the work of the ops of linear attention among workgroups. */
#include "runtime/fill.h"
#include "runtime/host.h"

/* A workgroup of 4 waves has 4 x 512 elements at once, as templates/gated_rmsnorm.c does. */
enum { STEP_ELEMENTS = 2048, WORKGROUPS_WANTED = 2048, STEPS_MOST = 8 };

int32_t attn_gated_rmsnorm_run(int32_t tokens, int32_t groups, int32_t width)
{
    const int64_t step = width < STEP_ELEMENTS ? STEP_ELEMENTS / width : 1;
    const int64_t workgroups = attn_parts(tokens, step) * groups;
    const int64_t steps = attn_parts(workgroups, WORKGROUPS_WANTED);
    return (int32_t)(step * (steps < 1 ? 1 : steps < STEPS_MOST ? steps : STEPS_MOST));
}
