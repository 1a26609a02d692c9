/* SPDX-License-Identifier: Apache-2.0
 *
 * This file opens the device of attnc verify. libattn makes the launches; HIP's memory functions
 * are called directly.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/process.h"
#include "tools/verify/verify.h"

/* Paths of the simulator relative to the program's own directory: in the build tree, and
 * installed. */
static const char *const places[] = {
    "../hipsim/hip/libamdhip64.so.5",
    "../" ATTNC_LIBDIR "/attnc/hipsim/libamdhip64.so.5",
};

bool gpu_find_simulator(char *path, size_t size)
{
    char self[PATH_MAX];
    if (!attnc_program_path(self))
        return false;
    const char *directory = dirname(self);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (snprintf(path, size, "%s/%s", directory, places[i]) < (int)size &&
            access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool gpu_find_function(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);
    memcpy(slot, &address, sizeof(address));
    return address != NULL;
}

/* Removes the variables that select among the machine's GPUs from the environment, so that the
 * simulated GPU is visible. */
static void show_all_gpus(void)
{
    static const char *const names[] = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                        "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

/* Configures the simulator for c->part, or c->target. Called before the first call of HIP. Returns
 * false with a message in `why` on failure. */
static bool configure(const struct gpu_choice *c, char *why, size_t why_size)
{
    bool (*hipsim_configure)(const char *text, char *why, size_t why_size);
    char text[160];
    void *library = dlopen(c->simulator, RTLD_NOW | RTLD_LOCAL);
    if (!library || !gpu_find_function(library, "hipsim_configure", &hipsim_configure)) {
        snprintf(why, why_size, "%s",
                 library ? "the simulator has no hipsim_configure" : dlerror());
        return false;
    }
    show_all_gpus();
    const int length = snprintf(text, sizeof(text), "target=%s,checks=%s,halt=on",
                                c->part ? c->part : c->target, c->checks);
    if (c->threads)
        snprintf(text + length, sizeof(text) - (size_t)length, ",threads=%u", c->threads);
    return hipsim_configure(text, why, why_size);
}

void gpu_identify(const struct attn_device *device, struct gpu_identity *id)
{
    struct attn_device_info info = {.size = sizeof(info)};
    attn_device_describe(device, &info);
    *id = (struct gpu_identity){.hip_version = info.hip_version};
    snprintf(id->name, sizeof(id->name), "%s", info.name);
    snprintf(id->target, sizeof(id->target), "%s", info.target);
    snprintf(id->library, sizeof(id->library), "%s", info.hip_library);
    void *library = dlopen(info.hip_library, RTLD_NOW | RTLD_LOCAL);
    void *init = library ? dlsym(library, "hipInit") : NULL;
    Dl_info found;
    if (init && dladdr(init, &found) && found.dli_fname)
        snprintf(id->library, sizeof(id->library), "%s", found.dli_fname);
    id->simulated = library && dlsym(library, "hipsim_configure");
}

/* Opens the machine's first GPU of the target c->target. Returns false with a message in `why` if
 * there is none. */
static bool open_device(struct gpu *gpu, const struct gpu_choice *c, struct attn_pack *pack,
                        char *why, size_t why_size)
{
    struct attn_device_options o = {.size = sizeof(o), .hip_library = c->simulator};
    for (;; o.ordinal++) {
        int r = attn_device_open(&pack, 1, &o, &gpu->device);
        if (r && o.ordinal && r == ATTN_NO_DEVICE && c->part)
            snprintf(why, why_size, "%s is not a GPU of %s", c->part, c->target);
        else if (r && o.ordinal && r == ATTN_NO_DEVICE)
            snprintf(why, why_size, "none of the %d GPUs of this machine is a %s", o.ordinal,
                     c->target);
        else if (r)
            snprintf(why, why_size, "%s", attn_last_error());
        if (r)
            return false;
        struct attn_device_info info = {.size = sizeof(info)};
        attn_device_describe(gpu->device, &info);
        if (!strcmp(info.target, c->target))
            return true;
        attn_device_close(gpu->device);
    }
}

bool gpu_open(struct gpu *gpu, const struct gpu_choice *choice, struct attn_pack *pack, char *why,
              size_t why_size)
{
    *gpu = (struct gpu){.target = choice->target};
    if (choice->simulator && !configure(choice, why, why_size))
        return false;
    if (!open_device(gpu, choice, pack, why, why_size))
        return false;
    struct attn_device_info info = {.size = sizeof(info)};
    attn_device_describe(gpu->device, &info);
    gpu_identify(gpu->device, &gpu->id);
    snprintf(gpu->title, sizeof(gpu->title), "%s (%s%s), HIP %d from %s", gpu->id.name,
             gpu->id.target, gpu->id.simulated ? ", simulated" : "", gpu->id.hip_version,
             gpu->id.library);
    int (*hipSetDevice)(int);
    void *library = dlopen(info.hip_library, RTLD_NOW | RTLD_LOCAL);
    if (library && gpu_find_function(library, "hipMalloc", &gpu->hipMalloc) &&
        gpu_find_function(library, "hipFree", &gpu->hipFree) &&
        gpu_find_function(library, "hipMemcpy", &gpu->hipMemcpy) &&
        gpu_find_function(library, "hipDeviceSynchronize", &gpu->hipDeviceSynchronize) &&
        gpu_find_function(library, "hipGetErrorName", &gpu->hipGetErrorName) &&
        gpu_find_function(library, "hipSetDevice", &hipSetDevice) &&
        hipSetDevice(info.ordinal) == 0)
        return true;
    snprintf(why, why_size, "%s lacks a memory function, or GPU %d cannot be made current",
             info.hip_library, info.ordinal);
    gpu_close(gpu);
    return false;
}

void gpu_close(struct gpu *gpu)
{
    attn_device_close(gpu->device);
    gpu->device = NULL;
}
