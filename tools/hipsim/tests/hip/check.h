/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the macros that check conditions and HIP calls in the HIP test programs. A failure
 * prints its file and line. */
#ifndef TESTS_HIPSIM_HIP_CHECK_H
#define TESTS_HIPSIM_HIP_CHECK_H

#include <hip/hip_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#if HIP_VERSION < 50700000
// Debian 12's __syncthreads() calls this function of opencl.bc, which Clang 22 does not link.
extern "C" __device__ inline __attribute__((always_inline)) void __atomic_work_item_fence(
    __cl_mem_fence_flags, __memory_order, __memory_scope)
{
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
#endif

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

#define HIP(call) EXPECT(hipSuccess, call)

#define EXPECT(wanted, call)                                                                      \
    do {                                                                                          \
        hipError_t got_ = (call);                                                                 \
        if (got_ != (wanted)) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorName(got_)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#endif
