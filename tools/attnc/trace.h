/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc trace: what its parts share. The inputs of an op are those of its verification,
 * tools/verify/<op>.c, or for a few ops trace_<op>.c; trace.c times the launch and prints the
 * report.
 */
#ifndef TOOLS_ATTNC_TRACE_H
#define TOOLS_ATTNC_TRACE_H

#include "tools/hipsim/time/hipsim_time.h"
#include "tools/verify/call.h"

enum {
    TRACE_DIMENSIONS = 16,
    TRACE_HOOK_FLOATS = 65536, /* what a user's logits function finds behind its argument */
};

/** What a shape can say: "heads=32". */
struct trace_dimension {
    const char *name;
    int fallback; /* where the shape leaves it out; 0: prepare() works it out */
    int most;
    const char *help;
};

/** One launch. */
struct trace_run {
    const struct attn_pack *pack;
    uint32_t n; /* number of the kernel in the pack */
    const struct attn_kernel_info *info;
    struct device_memory memory; /* its gpu is open */
    int shape[TRACE_DIMENSIONS]; /* in the order of the family's dimensions */
    struct attn_op *op;          /* trace_lookup() */
    void *args;                  /* the family's argument struct, zeroed */
    struct call call;            /* of an op whose verification makes the call */
    double least_bytes;          /* each input byte loaded once, each output byte stored once;
                                  * 0: not worked out, as where keys are visited per query tile */
};

/** An op family. prepare() makes and uploads the arguments and ends with trace_lookup(); it
 * complains and returns an exit code. */
struct trace_family {
    const char *op;
    size_t args_size;                                    /* of its argument struct */
    struct trace_dimension dimensions[TRACE_DIMENSIONS]; /* up to the first without a name */
    int (*prepare)(struct trace_run *run);
};

extern const struct trace_family trace_topk, trace_indexer_topk;

/** The simulator's timing interface, from its library; all NULL on other devices. */
struct trace_timing {
    bool (*enable)(const struct hipsim_time_options *options, char *why, size_t why_size);
    bool (*last)(struct hipsim_time_report *report);
    int (*format)(const struct hipsim_time_report *report, char *text, size_t size);
    const char *(*stall_name)(enum hipsim_stall stall);
};

/** A kernel on a device, ready to be launched on a shape. */
struct trace_session {
    const struct trace_family *family;
    struct attn_kernel_info info;
    struct gpu gpu;
    struct trace_timing timing;
    struct trace_run run;
    bool opened;
};

/**
 * Opens a device for the n-th kernel of `pack` and makes the arguments that `shape` says
 * ("heads=8,q=64", NULL: all as the family has it): on the simulator, which is this process's from
 * then on, or where `hip` is not NULL on the machine's own GPU. Complains and returns an exit code,
 * also where the pack gives these arguments to another kernel. trace_close() in any case.
 */
int trace_open(struct trace_session *t, struct attn_pack *pack, uint32_t n, const char *shape,
               const char *hip);
void trace_close(struct trace_session *t);

/** One launch in modelled time; complains and returns an exit code. */
int trace_time(struct trace_session *t, const struct hipsim_time_options *time,
               struct hipsim_time_report *report);

/** The family of an op, or NULL. */
const struct trace_family *trace_find_family(const char *op);

/** Reads "batch=1,q=512" into shape[TRACE_DIMENSIONS], in the order of the family's dimensions;
 * what it leaves out has the fallback. Returns an exit code after a message. */
int trace_parse_shape(const struct trace_family *f, const char *text, int *shape);

/** Prints what a family's --shape takes. */
void trace_explain_shape(const struct trace_family *f);

/** Looks the kernel's op up. */
int trace_lookup(struct trace_run *run, const void *desc);

/** Complains of a tensor of more elements than trace allocates. */
int trace_check_elements(double elements);

/** Uploads `count` random elements of a type as a key spells it, "f32" too: small, and finite in
 * every type. NULL on error, which run->memory.error keeps. */
void *trace_random(struct trace_run *run, const char *dtype, size_t count);

/** Room for `count` elements of `size` bytes, zeroed. */
void *trace_room(struct trace_run *run, size_t count, size_t size);

/** Random keys and values, and scales of 1, of a contiguous cache with room for so many tokens of
 * so many heads: `slots` is their product. */
void trace_cache(struct trace_run *run, const struct attn_cache_desc *desc, size_t slots,
                 int head_dim, int head_dim_v, struct attn_cache *cache);

/** Uploads an int32 array of `count` elements from `first` by `step`. */
int32_t *trace_steps(struct trace_run *run, size_t count, int32_t first, int32_t step);

#endif
