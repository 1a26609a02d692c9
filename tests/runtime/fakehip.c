/* SPDX-License-Identifier: Apache-2.0 */
/* The test double of the HIP runtime: see fakehip.h. */
#include "tests/runtime/fakehip.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_FOUND = 500 };

static struct fakehip state = {.device_count = 1, .fail_with = 999};

EXPORT struct fakehip *fakehip_state(void) { return &state; }

/* Counts a call, and fails it if a test has requested that. */
static int enter(const char *name)
{
    atomic_fetch_add(&state.calls, 1);
    if (atomic_load(&state.fail_at) == 0 || atomic_fetch_sub(&state.fail_at, 1) != 1)
        return 0;
    snprintf(state.failed, sizeof(state.failed), "%s", name);
    return atomic_load(&state.fail_with);
}

#define ENTER()                      \
    do {                             \
        int error = enter(__func__); \
        if (error)                   \
            return error;            \
    } while (0)

EXPORT int hipInit(unsigned flags);
EXPORT int hipRuntimeGetVersion(int *version);
EXPORT int hipGetDeviceCount(int *count);
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int ordinal);
EXPORT int hipGetDevice(int *ordinal);
EXPORT int hipSetDevice(int ordinal);
EXPORT int FAKEHIP_PROPERTIES(void *properties, int ordinal);
EXPORT int hipModuleLoadData(void **module, const void *image);
EXPORT int hipModuleUnload(void *module);
EXPORT int hipModuleGetFunction(void **function, void *module, const char *name);
EXPORT int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned lds, void *stream,
                                 void **parameters, void **extra);
EXPORT int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream);
EXPORT int hipStreamSynchronize(void *stream);
EXPORT int hipStreamIsCapturing(void *stream, int *status);
EXPORT const char *hipGetErrorName(int error);

int hipInit(unsigned flags)
{
    (void)flags;
    ENTER();
    return 0;
}

int hipRuntimeGetVersion(int *version)
{
    ENTER();
    *version = 60032830;
    return 0;
}

int hipGetDeviceCount(int *count)
{
    ENTER();
    *count = state.device_count;
    return 0;
}

/* Supports the number of compute units, 304 for the first GPU and 256 for the second, and the
 * number of a wave's lanes. */
int hipDeviceGetAttribute(int *value, int attribute, int ordinal)
{
    ENTER();
    if (attribute == 63)
        *value = ordinal ? 256 : 304;
    else if (attribute == 87)
        *value = 64;
    return attribute != 63 && attribute != 87;
}

int hipGetDevice(int *ordinal)
{
    ENTER();
    *ordinal = state.current;
    return 0;
}

int hipSetDevice(int ordinal)
{
    ENTER();
    if (ordinal < 0 || ordinal >= state.device_count)
        return INVALID_DEVICE;
    state.current = ordinal;
    return 0;
}

/* Fills the properties of HIP 6 (gcnArchName at 1160) or, by a macro, of HIP 5 (at 396). */
int FAKEHIP_PROPERTIES(void *properties, int ordinal)
{
    ENTER();
    const char *arch = state.arch[ordinal] ? state.arch[ordinal] : "gfx942:sramecc+:xnack-";
    snprintf(properties, 256, "fake GPU %d", ordinal);
    snprintf((char *)properties + FAKEHIP_ARCH_OFFSET, 256, "%s", arch);
    return 0;
}

int hipModuleLoadData(void **module, const void *image)
{
    ENTER();
    if (!image)
        return OUT_OF_MEMORY;
    atomic_fetch_add(&state.modules, 1);
    /* a number that is never dereferenced */
    *module = (char *)&state + atomic_fetch_add(&state.loads, 1) + 1;
    return 0;
}

int hipModuleUnload(void *module)
{
    (void)module;
    atomic_fetch_sub(&state.modules, 1);
    ENTER();
    return 0;
}

int hipModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER();
    if (!strcmp(name, "absent"))
        return NOT_FOUND;
    *function = module;
    return 0;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned lds, void *stream, void **parameters,
                          void **extra)
{
    (void)parameters;
    if (atomic_load_explicit(&state.quiet, memory_order_relaxed))
        return 0;
    ENTER();
    state.function = function;
    state.grid[0] = gx;
    state.grid[1] = gy;
    state.grid[2] = gz;
    state.block[0] = bx;
    state.block[1] = by;
    state.block[2] = bz;
    state.lds = lds;
    state.stream = stream;
    state.kernarg_size = *(size_t *)extra[3];
    memcpy(state.kernargs, extra[1], state.kernarg_size);
    atomic_fetch_add(&state.launches, 1);
    return 0;
}

int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    (void)kind;
    ENTER();
    state.strays += stream != FAKE_STREAM;
    memcpy(to, from, size);
    return 0;
}

int hipStreamSynchronize(void *stream)
{
    ENTER();
    state.strays += stream != FAKE_STREAM;
    return 0;
}

int hipStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    ENTER();
    *status = state.capturing;
    return 0;
}

const char *hipGetErrorName(int error)
{
    switch (error) {
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case 719: return "hipErrorLaunchFailure";
    default: return "hipErrorUnknown";
    }
}
