/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares the functions that open, prepare and time a launch of one kernel, for attnc
 * trace, tune, bench and step. tools/verify/<op>.c makes an op's inputs, as for its verification.
 */
#ifndef TOOLS_ATTNC_TRACE_H
#define TOOLS_ATTNC_TRACE_H

#include "tools/hipsim/time/hipsim_time.h"
#include "tools/verify/call.h"

/** A launch of one kernel on one shape, with its inputs on the device. */
struct trace_run {
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const struct attn_kernel_info *info;
    int shape[VERIFY_DIMENSIONS]; /* sizes in the order of the op's dimensions */
    struct attn_op *op;
    /* Inputs and outputs, made as for verification. */
    struct call call;
    /* Bytes if each input byte is loaded once and each output byte stored once. 0: unknown, for
     * example if keys are loaded for each query tile. */
    double least_bytes;
};

/** Functions of hipsim's timing model, from its library; all NULL on a GPU. */
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
    /* True: `gpu` is open. */
    bool opened;
};

/** The device of a session: a simulated GPU or the machine's. */
struct trace_gpu {
    /* The GPU model to simulate, such as "mi308x"; NULL: the first that the target has. */
    const char *part;
    bool real; /* true: the machine's GPU, and `part` is ignored */
};

/** Opens a device for kernel `n` of `pack` and makes inputs of `shape` ("heads=8,q=64"; NULL: the
 * op's defaults). If `gpu` is NULL, the device is a simulator of the target's first GPU model. A
 * simulator stays loaded until the process ends.
 * Returns an exit_code after a message; it is an error if libattn chooses another kernel for the
 * shape. Call trace_close() even after a failure. */
int trace_open(struct trace_session *t, struct attn_pack *pack, uint32_t n, const char *shape,
               const struct trace_gpu *gpu);

/** Opens a session like trace_open(), for a pack with the kernels of one key. t->info becomes the
 * kernel that libattn chooses for the shape. Call trace_close() even after a failure. */
int trace_open_any(struct trace_session *t, struct attn_pack *pack, const char *shape,
                   const struct trace_gpu *gpu);
/** Closes a session and frees its memory on the device. The session may have failed to open. */
void trace_close(struct trace_session *t);

/** Runs one launch on the simulator and fills *report with its modelled time. Returns an exit_code
 * after a message. */
int trace_time(struct trace_session *t, const struct hipsim_time_options *time,
               struct hipsim_time_report *report);

/** Returns the verified op called `name`; NULL if it is unknown or has no shape for traces. */
const struct verify_op *trace_find_op(const char *name);

/** Returns the size of the dimension called `name` in `shape`, whose sizes are in the order of the
 * op's dimensions; 0 if the op has no such dimension. */
int trace_dimension(const struct verify_op *op, const int *shape, const char *name);

/** Reads `text`, such as "batch=1,q=512", into shape[VERIFY_DIMENSIONS], in the order of the op's
 * dimensions. Dimensions that the text lacks get the op's defaults for traces. Returns an exit_code
 * after a message. */
int trace_parse_shape(const struct verify_op *op, const char *text, int *shape);

/** Prints name, meaning and default of each number that --shape of the op can have. */
void trace_explain_shape(const struct verify_op *op);

#endif
