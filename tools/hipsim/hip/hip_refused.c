/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of HIP that are not simulated. Each one exists, reports its first call, and returns
 * hipErrorNotSupported. They are defined without parameters: on x86-64 and AArch64 the caller
 * passes and removes arguments.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "hip_refused.h"

#define HIP_API(name, version, how) HIP_API_##how(name)
#define HIP_API_DONE(name)
#define HIP_API_REFUSED(name)                                 \
    __attribute__((visibility("default"))) int name(void);    \
    __attribute__((visibility("default"))) int name(void)     \
    {                                                         \
        static _Atomic int said;                              \
        return hip_refuse(#name, !atomic_exchange(&said, 1)); \
    }
/* Defines a refused function that returns a pointer. */
#define HIP_API_REFUSED_NULL(name)                           \
    __attribute__((visibility("default"))) void *name(void); \
    __attribute__((visibility("default"))) void *name(void)  \
    {                                                        \
        static _Atomic int said;                             \
        hip_refuse(#name, !atomic_exchange(&said, 1));       \
        return NULL;                                         \
    }

#include "hip_api.def"
