/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the state in which a kernel starts: LLVM's AMDGPUUsage, "Kernel Dispatch", "Initial Kernel
 * Execution State" and "Kernel Argument Metadata".
 */
#ifndef HIPSIM_LAUNCH_H
#define HIPSIM_LAUNCH_H

#include "code_object.h"

/* A launch as HIP requests it. */
struct dispatch_request {
    const struct kernel *kernel;
    uint32_t grid[3]; /* work-items by dimension; the last workgroup of each may be partial */
    uint32_t block[3];
    uint32_t dynamic_lds;
    const void *args; /* arguments that the caller passes, as in the kernel argument segment */
    size_t args_bytes;
    uint32_t stack_bytes; /* bytes of stack per work-item, for kernels with a dynamic stack */
    uint32_t lds_limit;   /* bytes of LDS that the device has */
    unsigned device;
    uint64_t dispatch_id;
    uint64_t hostcall_buffer;
    bool cooperative;    /* true: the workgroups may wait for each other */
    uint32_t cluster[3]; /* workgroups of a cluster by dimension; 0: no clusters; gfx1250 only */
};

/* A prepared dispatch: the engine's input and the device memory that it uses. */
struct dispatch {
    struct launch launch;
    uint8_t *kernarg;
    uint8_t *packet;    /* the hsa_kernel_dispatch_packet_t */
    uint8_t *queue;     /* the amd_queue_t */
    uint8_t *grid_sync; /* record of add_grid_sync(); NULL unless the launch is cooperative */
};

enum dispatch_status {
    DISPATCH_OK,
    DISPATCH_BAD_CONFIGURATION, /* the grid or block is invalid */
    DISPATCH_TOO_LARGE,         /* the workgroup needs too much LDS or too many registers */
    DISPATCH_BAD_ARGUMENTS,
    DISPATCH_OUT_OF_MEMORY,
};

/** Checks the request and builds user SGPRs, arguments and packet. On failure `why`, of `why_size`
 * bytes, gets a sentence, and nothing needs to be released. */
enum dispatch_status dispatch_prepare(const struct dispatch_request *request,
                                      struct dispatch *dispatch, char *why, size_t why_size);
void dispatch_release(struct dispatch *dispatch);

#endif
