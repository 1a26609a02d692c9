/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the HIP runtime as libattn sees it: loaded with dlopen(), any version from 5
 * to 7, without HIP's headers.
 */
#ifndef ATTN_HIP_LOADER_H
#define ATTN_HIP_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* hipModuleLaunchKernel's `extra`: kernargs as one buffer (hip_runtime_api.h). */
#define HIP_LAUNCH_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_END ((void *)3)

enum { HIP_MEMCPY_DEVICE_TO_HOST = 2 };

/* hipDeviceAttributeMultiprocessorCount, the same number since HIP 5 (hip_runtime_api.h). */
enum { HIP_ATTRIBUTE_COMPUTE_UNITS = 63 };

struct attn_hip {
    void *library;
    char path[4096]; /* the name under which it was found */
#define HIP(needed, name, parameters) int(*name) parameters;
#include "runtime/hip_functions.def"
    const char *(*hipGetErrorName)(int error);
};

/*
 * Loads `path`, or with NULL what the process has loaded already, else libamdhip64.so.7, .6, .5 or
 * no suffix. The library stays in the process: HIP's own threads outlive every handle.
 */
int attn_hip_load(struct attn_hip *hip, const char *path);

/* Gives the handle back; may be called after a failure and twice. */
void attn_hip_unload(struct attn_hip *hip);

/* Notes a failed call for attn_last_error() and returns its status. May be used by a launch. */
int attn_hip_fail(const struct attn_hip *hip, const char *call, int error);

/* The same for a call without which there is no GPU: names the file of the library too, since a
 * machine may have several. */
int attn_hip_fail_to_start(const struct attn_hip *hip, const char *call, int error);

struct attn_hip_properties {
    char name[256];
    char arch[256]; /* "gfx942:sramecc+:xnack-" */
};

int attn_hip_get_properties(const struct attn_hip *hip, int ordinal,
                            struct attn_hip_properties *properties);

#endif
