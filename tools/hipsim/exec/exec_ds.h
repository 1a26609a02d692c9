/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the handlers of exec_ds_lanes.c, for the table in exec_ds.c. */
#ifndef HIPSIM_EXEC_DS_H
#define HIPSIM_EXEC_DS_H

#include "row.h"

void ds_exec_permute(struct wave *w, const struct inst *in);
void ds_exec_bpermute(struct wave *w, const struct inst *in);
void ds_exec_swizzle(struct wave *w, const struct inst *in);
void ds_exec_read_addtid(struct wave *w, const struct inst *in);
void ds_exec_write_addtid(struct wave *w, const struct inst *in);
void ds_exec_append(struct wave *w, const struct inst *in);
void ds_exec_transpose(struct wave *w, const struct inst *in);
void ds_exec_nop(struct wave *w, const struct inst *in);
void ds_exec_gws_init(struct wave *w, const struct inst *in);
void ds_exec_gws_barrier(struct wave *w, const struct inst *in);
void ds_exec_gws_semaphore(struct wave *w, const struct inst *in);

/** Counts the instruction as an LDS operation in flight that writes its destination. */
void ds_issue(struct wave *w, const struct inst *in);

#endif
