/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/attnc/trace/events.h"

#include <ctype.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>

/* Finds the file with the shader clock of a GPU: freq1_input, in Hz, in the hwmon folder of its PCI
 * device (Linux, amdgpu, "hwmon Interfaces"). `library` is the HIP library, `ordinal` HIP's number
 * of the GPU. */
static void find_clock(struct events *e, void *library, int ordinal)
{
    int (*hipDeviceGetPCIBusId)(char *id, int size, int device);
    char id[32], pattern[128];
    glob_t found;
    if (!gpu_find_function(library, "hipDeviceGetPCIBusId", &hipDeviceGetPCIBusId) ||
        hipDeviceGetPCIBusId(id, sizeof(id), ordinal))
        return;
    for (char *c = id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    snprintf(pattern, sizeof(pattern), "/sys/bus/pci/devices/%s/hwmon/hwmon*/freq1_input", id);
    if (glob(pattern, 0, NULL, &found) == 0) {
        snprintf(e->clock, sizeof(e->clock), "%s", found.gl_pathv[0]);
        globfree(&found);
    }
}

bool events_open(struct events *e, struct trace_session *t, size_t flush, char *why,
                 size_t why_size)
{
    *e = (struct events){.flush_size = flush};
    struct attn_device_info info = {.size = sizeof(info)};
    attn_device_describe(t->gpu.device, &info);
    void *library = dlopen(info.hip_library, RTLD_NOW | RTLD_LOCAL);
    if (!library || !gpu_find_function(library, "hipEventCreate", &e->hipEventCreate) ||
        !gpu_find_function(library, "hipEventRecord", &e->hipEventRecord) ||
        !gpu_find_function(library, "hipEventSynchronize", &e->hipEventSynchronize) ||
        !gpu_find_function(library, "hipEventElapsedTime", &e->hipEventElapsedTime) ||
        !gpu_find_function(library, "hipMemsetAsync", &e->hipMemsetAsync)) {
        snprintf(why, why_size, "%s has no events", info.hip_library);
        return false;
    }
    find_clock(e, library, info.ordinal);
    if (e->hipEventCreate(&e->start) || e->hipEventCreate(&e->stop) ||
        (flush && t->gpu.hipMalloc(&e->flush, flush))) {
        snprintf(why, why_size, "no event, or no %zu bytes for the cache's flush", flush);
        return false;
    }
    return true;
}

/* Returns true if `error` is 0. Otherwise writes a message about the failed HIP function `call` to
 * `why`. */
static bool fail(struct trace_session *t, const char *call, int error, char *why, size_t size)
{
    if (error)
        snprintf(why, size, "%s: %s", call, t->gpu.hipGetErrorName(error));
    return error == 0;
}

bool events_time(struct events *e, struct trace_session *t, double *us, char *why, size_t why_size)
{
    float milliseconds = 0;
    if (e->flush && !fail(t, "hipMemsetAsync", e->hipMemsetAsync(e->flush, 0, e->flush_size, NULL),
                          why, why_size))
        return false;
    if (!fail(t, "hipEventRecord", e->hipEventRecord(e->start, NULL), why, why_size))
        return false;
    if (t->run.call.schema->launch(t->run.op, &t->run.call.args)) {
        snprintf(why, why_size, "%s", attn_last_error());
        return false;
    }
    if (!fail(t, "hipEventRecord", e->hipEventRecord(e->stop, NULL), why, why_size) ||
        !fail(t, "hipEventSynchronize", e->hipEventSynchronize(e->stop), why, why_size) ||
        !fail(t, "hipEventElapsedTime", e->hipEventElapsedTime(&milliseconds, e->start, e->stop),
              why, why_size))
        return false;
    *us = 1000.0 * (double)milliseconds;
    return true;
}

double events_clock(const struct events *e)
{
    double hz = 0;
    FILE *f = e->clock[0] ? fopen(e->clock, "r") : NULL;
    if (!f)
        return 0;
    if (fscanf(f, "%lf", &hz) != 1)
        hz = 0;
    fclose(f);
    return hz / 1e6;
}
