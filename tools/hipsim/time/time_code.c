/* SPDX-License-Identifier: Apache-2.0 */
/* The timing model's state of a code range: the cost and the profile of each instruction; and the
 * names of stalls. This file also prepares a launch for compute units, and adds their results. */
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "time_cu.h"

const char *hipsim_stall_name(enum hipsim_stall stall)
{
    static const char *const names[HIPSIM_STALL_COUNT] = {
        [HIPSIM_STALL_NONE] = "issue",
        [HIPSIM_STALL_DEPENDENCY] = "s_nop",
        [HIPSIM_STALL_VALU] = "VALU busy",
        [HIPSIM_STALL_MATRIX] = "matrix busy",
        [HIPSIM_STALL_SHADOW] = "matrix shadow",
        [HIPSIM_STALL_RESULT] = "matrix result",
        [HIPSIM_STALL_SCALAR] = "scalar busy",
        [HIPSIM_STALL_LDS_QUEUE] = "LDS queue",
        [HIPSIM_STALL_VMEM_QUEUE] = "vmem queue",
        [HIPSIM_STALL_COUNTER] = "counter full",
        [HIPSIM_STALL_WAIT_LDS] = "lgkm wait",
        [HIPSIM_STALL_WAIT_VMEM] = "vmem wait",
        [HIPSIM_STALL_BARRIER] = "barrier",
        [HIPSIM_STALL_FETCH] = "fetch",
        [HIPSIM_STALL_SLEEP] = "sleep",
    };
    return stall < HIPSIM_STALL_COUNT ? names[stall] : "?";
}

struct time_code *time_code_create(struct code *code, const struct time_params *p)
{
    struct time_code *tc = calloc(1, sizeof(*tc));
    if (!tc)
        return NULL;
    tc->code = code;
    tc->p = p;
    tc->ops = calloc(code_size(code) / 4 + 1, sizeof(*tc->ops));
    tc->lines = calloc(code_size(code) / 4 + 1, sizeof(*tc->lines));
    if (tc->ops && tc->lines)
        return tc;
    time_code_destroy(tc);
    return NULL;
}

void time_code_destroy(struct time_code *tc)
{
    if (!tc)
        return;
    for (size_t i = 0; tc->ops && i < code_size(tc->code) / 4; i++)
        free(tc->ops[i]);
    free(tc->ops);
    free(tc->lines);
    free(tc);
}

void time_cu_result_add(struct time_cu_result *sum, const struct time_cu_result *r)
{
    sum->clocks += r->clocks;
    sum->drain += r->drain;
    sum->instructions += r->instructions;
    sum->waves += r->waves;
    sum->matrix_clocks += r->matrix_clocks;
    sum->valu_clocks += r->valu_clocks;
    sum->lds_clocks += r->lds_clocks;
    sum->lds_conflicts += r->lds_conflicts;
    sum->l1_clocks += r->l1_clocks;
    sum->issue += r->issue;
    for (unsigned i = 0; i < MATRIX_CLASSES; i++)
        sum->matrix_by[i] += r->matrix_by[i];
    for (unsigned i = 0; i < LEVEL_COUNT; i++)
        sum->bytes[i] += r->bytes[i];
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        sum->stall[i] += r->stall[i];
}

/* Ignores the call. Memory instructions record their accesses only while an observer is set. */
static void ignore(void *ctx, const struct wave *w, const struct inst *in,
                   const struct mem_access *access)
{
    (void)ctx;
    (void)w;
    (void)in;
    (void)access;
}

void time_begin(struct launch *launch)
{
    static const struct observer nobody = {.inst = ignore};
    if (!launch->observer)
        launch->observer = &nobody;
    launch->timed = true;
}

void time_end(struct launch *launch, const struct observer *observer, bool ok)
{
    launch->observer = observer;
    launch->tensor = NULL;
    launch->timed = false;
    if (ok || launch->fault.kind != FAULT_NONE)
        return;
    launch->fault.kind = FAULT_TRAP;
    strcpy(launch->fault.text, "out of memory for the timing model");
}
