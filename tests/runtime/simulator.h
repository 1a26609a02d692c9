/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU for tests of libattn: functions of HIP and of hipsim, found with dlsym() in the
 * library that libattn also gets.
 */
#ifndef TESTS_RUNTIME_SIMULATOR_H
#define TESTS_RUNTIME_SIMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hipsim/hip/hipsim.h"

/* Values of hipMemcpyKind, and a mode of hipStreamBeginCapture(). */
enum { HIP_TO_DEVICE = 1, HIP_TO_HOST = 2, HIP_CAPTURE_RELAXED = 2 };

/* Calls SIMULATED(type, name, parameters) for each function of HIP and of hipsim that tests use.
 * HIP's functions return a hipError_t, which is int here. */
#define SIMULATOR_FUNCTIONS(SIMULATED)                                                    \
    SIMULATED(int, hipSetDevice, (int ordinal))                                           \
    SIMULATED(int, hipGetDevice, (int *ordinal))                                          \
    SIMULATED(int, hipMalloc, (void **p, size_t size))                                    \
    SIMULATED(int, hipFree, (void *p))                                                    \
    SIMULATED(int, hipHostMalloc, (void **p, size_t size, unsigned flags))                \
    SIMULATED(int, hipHostFree, (void *p))                                                \
    SIMULATED(int, hipMemcpy, (void *to, const void *from, size_t size, int kind))        \
    SIMULATED(int, hipMemGetInfo, (size_t *free, size_t *total))                          \
    SIMULATED(int, hipStreamCreate, (void **stream))                                      \
    SIMULATED(int, hipStreamDestroy, (void *stream))                                      \
    SIMULATED(int, hipStreamSynchronize, (void *stream))                                  \
    SIMULATED(int, hipStreamBeginCapture, (void *stream, int mode))                       \
    SIMULATED(int, hipStreamEndCapture, (void *stream, void **graph))                     \
    SIMULATED(int, hipGraphInstantiate,                                                   \
              (void **exec, void *graph, void **node, char *log, size_t size))            \
    SIMULATED(int, hipGraphLaunch, (void *exec, void *stream))                            \
    SIMULATED(int, hipGraphExecDestroy, (void *exec))                                     \
    SIMULATED(int, hipGraphDestroy, (void *graph))                                        \
    SIMULATED(bool, hipsim_configure, (const char *text, char *why, size_t why_size))     \
    SIMULATED(void, hipsim_set_report,                                                    \
              (void (*report)(void *ctx, const struct hipsim_report *report), void *ctx)) \
    SIMULATED(void, hipsim_fail_call, (uint64_t nth, int error))                          \
    SIMULATED(uint64_t, hipsim_call_count, (void))                                        \
    SIMULATED(uint64_t, hipsim_live_bytes, (int device))

/* Pointers to these functions, by their names. */
struct simulator {
#define SIMULATED(type, name, parameters) type(*name) parameters;
    SIMULATOR_FUNCTIONS(SIMULATED)
#undef SIMULATED
};

/* Loads the library at `path`; a failure ends the test. */
struct simulator simulator_load(const char *path);

#endif
