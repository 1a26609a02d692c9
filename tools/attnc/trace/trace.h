/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the parts of attnc trace share. tools/verify/<op>.c makes an op's inputs, as
 * for its verification; trace.c times the launch and prints the report.
 */
#ifndef TOOLS_ATTNC_TRACE_H
#define TOOLS_ATTNC_TRACE_H

#include "tools/hipsim/time/hipsim_time.h"
#include "tools/verify/call.h"

/** A launch of one kernel on one shape, with its data. */
struct trace_run {
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const struct attn_kernel_info *info;
    int shape[VERIFY_DIMENSIONS]; /* in the order of the op's dimensions */
    struct attn_op *op;
    struct call call;   /* what verification makes of the shape; its gpu is open */
    double least_bytes; /* each input byte loaded once, each output byte stored once;
                         * 0: not known, such as when keys are loaded for each query tile */
};

/** The simulator's timing interface, from its library; all NULL on other devices. */
struct trace_timing {
    bool (*enable)(const struct hipsim_time_options *options, char *why, size_t why_size);
    bool (*last)(struct hipsim_time_report *report);
    int (*format)(const struct hipsim_time_report *report, char *text, size_t size);
    const char *(*stall_name)(enum hipsim_stall stall);
};

/** A kernel on a device, ready to be launched on a shape. */
struct trace_session {
    struct attn_kernel_info info;
    struct gpu gpu;
    struct trace_timing timing;
    struct trace_run run;
    bool opened;
};

/** The device of a session. */
struct trace_gpu {
    const char *part; /* the GPU model to simulate, such as "mi308x"; NULL: the target's first */
    bool real;        /* true: the machine's own GPU, not the simulator; `part` is not read */
};

/** Opens a device for the n-th kernel of `pack` and makes the arguments of `shape` ("heads=8,q=64";
 * NULL: the op's defaults). A simulator stays loaded until the process ends. If `gpu` is NULL, it
 * is the simulator with the target's first GPU model. Prints a message and returns an exit code,
 * also if the pack's table selects another kernel for these arguments. Call trace_close() in any
 * case. */
int trace_open(struct trace_session *t, struct attn_pack *pack, uint32_t n, const char *shape,
               const struct trace_gpu *gpu);

/** Opens a session for a pack of one key's kernels; t->info is the kernel that libattn takes for
 * the shape. */
int trace_open_any(struct trace_session *t, struct attn_pack *pack, const char *shape,
                   const struct trace_gpu *gpu);
/** Closes a session and frees its memory on the device. */
void trace_close(struct trace_session *t);

/** Times one launch on the model, into *report. Returns an exit code after a message. */
int trace_time(struct trace_session *t, const struct hipsim_time_options *time,
               struct hipsim_time_report *report);

/** Returns the op of this name; NULL if it is unknown, or cannot be traced. */
const struct verify_op *trace_find_op(const char *name);

/** Reads "batch=1,q=512" into shape[VERIFY_DIMENSIONS], in the order of the op's dimensions; what
 * it leaves out is as in the op's shape for traces. Returns an exit code after a message. */
int trace_parse_shape(const struct verify_op *op, const char *text, int *shape);

/** Prints the names, limits and meanings of the numbers in --shape. */
void trace_explain_shape(const struct verify_op *op);

#endif
