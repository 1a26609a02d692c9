/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime as libattn uses it: any version from 5 to 7, loaded with dlopen() and declared
 * here instead of by HIP's headers.
 */
#ifndef ATTN_HIP_LOADER_H
#define ATTN_HIP_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* Words of hipModuleLaunchKernel()'s parameter `extra`, which passes kernel arguments as one buffer
 * (hip_runtime_api.h). */
#define HIP_LAUNCH_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_END ((void *)3)

/* The value of HIP's hipMemcpyDeviceToHost, the kind of copy of hipMemcpyAsync(). */
enum { HIP_MEMCPY_DEVICE_TO_HOST = 2 };

/* hipDeviceAttributeMultiprocessorCount and hipDeviceAttributeWarpSize, which have had these
 * numbers since HIP 5 (hip_runtime_api.h). */
enum { HIP_ATTRIBUTE_COMPUTE_UNITS = 63, HIP_ATTRIBUTE_LANES = 87 };

/* A loaded HIP runtime and its functions. */
struct attn_hip {
    void *library;   /* handle of dlopen(); NULL: not loaded */
    char path[4096]; /* path or file name under which the library was found */
#define HIP(needed, name, parameters) int(*name) parameters;
#include "runtime/hip_functions.def"
    const char *(*hipGetErrorName)(int error);
};

/*
 * Loads the HIP runtime from the file `path`. If `path` is NULL, uses the library that the process
 * has already loaded, else libamdhip64.so.7, .6, .5 or without suffix. The library stays in the
 * process for ever: HIP's own threads outlive every handle. Returns ATTN_OK or ATTN_NO_HIP.
 */
int attn_hip_load(struct attn_hip *hip, const char *path);

/* Releases the handle of attn_hip_load(). A second call, or one after a failure, does nothing. */
void attn_hip_unload(struct attn_hip *hip);

/* Records that HIP's function `call` returned `error`, a hipError_t, for attn_last_error(). Returns
 * the matching enum attn_status. May run during a launch. */
int attn_hip_fail(const struct attn_hip *hip, const char *call, int error);

/* Like attn_hip_fail(), for calls without which no GPU is usable. The message also names the
 * library's file, since a machine may have several. */
int attn_hip_fail_to_start(const struct attn_hip *hip, const char *call, int error);

struct attn_hip_properties {
    char name[256]; /* product name of the GPU */
    char arch[256]; /* GPU architecture with features, such as "gfx942:sramecc+:xnack-" */
};

/* Reads the name and the architecture of the GPU with HIP's number `ordinal`. Returns ATTN_OK or an
 * error. */
int attn_hip_get_properties(const struct attn_hip *hip, int ordinal,
                            struct attn_hip_properties *properties);

#endif
