/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the HIP runtime and hides the differences between its versions. */
#include "runtime/hip_loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/error.h"

/* File names of the HIP runtime, the newest version first. */
static const char *const names[] = {
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
};

/* Loads the HIP runtime and sets *found to the name under which it was found. Prefers a library
 * that the process has already loaded: a second HIP runtime would not know the engine's streams.
 * Returns NULL if there is none. */
static void *find_library(const char **found)
{
    for (int flag = RTLD_NOLOAD; flag >= 0; flag = flag ? 0 : -1) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flag);
            if (library) {
                *found = names[i];
                return library;
            }
        }
    }
    return NULL;
}

/* Sets the function pointers of `hip`. Returns ATTN_NO_HIP if the library lacks a needed
 * function. */
static int resolve(struct attn_hip *hip)
{
    const struct {
        bool needed;
        const char *name;
        void *slot;
    } functions[] = {
#define HIP(needed, name, parameters) {needed, #name, &hip->name},
#include "runtime/hip_functions.def"
        {true, "hipGetErrorName", &hip->hipGetErrorName},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *address = dlsym(hip->library, functions[i].name);
        if (!address && functions[i].needed)
            return attn_fail(ATTN_NO_HIP, "%s has no %s: not a HIP runtime of version 5 to 7",
                             hip->path, functions[i].name);
        memcpy(functions[i].slot, &address, sizeof(address));
    }
    if (!hip->hipGetDevicePropertiesR0600 && !hip->hipGetDeviceProperties)
        return attn_fail(ATTN_NO_HIP, "%s has no hipGetDeviceProperties", hip->path);
    return ATTN_OK;
}

int attn_hip_load(struct attn_hip *hip, const char *path)
{
    *hip = (struct attn_hip){0};
    const char *found = path;
    if (path)
        hip->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    else
        hip->library = find_library(&found);
    if (!hip->library) {
        const char *why = dlerror();
        return attn_fail(ATTN_NO_HIP, "the HIP runtime cannot be loaded: %s",
                         why ? why : "not found");
    }
    snprintf(hip->path, sizeof(hip->path), "%s", found);
    return resolve(hip);
}

void attn_hip_unload(struct attn_hip *hip)
{
    if (hip->library)
        dlclose(hip->library);
    hip->library = NULL;
}

/* Returns the enum attn_status for a hipError_t, whose numbers are the same in HIP 5 to 7. */
static int status_of(int error)
{
    switch (error) {
    case 2: /* hipErrorOutOfMemory */ return ATTN_NO_DEVICE_MEMORY;
    case 100: /* hipErrorNoDevice */
    case 101: /* hipErrorInvalidDevice */ return ATTN_NO_DEVICE;
    case 214: /* hipErrorECCNotCorrectable */
    case 700: /* hipErrorIllegalAddress */
    case 702: /* hipErrorLaunchTimeOut */
    case 709: /* hipErrorContextIsDestroyed */
    case 710: /* hipErrorAssert */
    case 719: /* hipErrorLaunchFailure */ return ATTN_DEVICE_LOST;
    default: return ATTN_HIP_FAILED;
    }
}

int attn_hip_fail(const struct attn_hip *hip, const char *call, int error)
{
    return attn_fail_call(status_of(error), call, hip->hipGetErrorName(error));
}

int attn_hip_fail_to_start(const struct attn_hip *hip, const char *call, int error)
{
    Dl_info found;
    void *address;
    memcpy(&address, &hip->hipInit, sizeof(address));
    const char *file = dladdr(address, &found) && found.dli_fname ? found.dli_fname : hip->path;
    return attn_fail(status_of(error), "%s of %s: %s", call, file, hip->hipGetErrorName(error));
}

/*
 * Byte offsets of gcnArchName in hipDeviceProp_t of HIP 5.2 (a struct of 792 bytes) and of HIP 6.0
 * (1472 bytes), from hip_runtime_api.h. Bytes that are enough for either struct. The member `name`
 * is at offset 0 in both.
 */
enum { ARCH_OFFSET = 396, ARCH_OFFSET_R0600 = 1160, PROPERTIES_SIZE = 4096 };

int attn_hip_get_properties(const struct attn_hip *hip, int ordinal,
                            struct attn_hip_properties *properties)
{
    union {
        char bytes[PROPERTIES_SIZE];
        max_align_t align;
    } raw = {0};
    size_t offset = ARCH_OFFSET_R0600;
    int error;
    if (hip->hipGetDevicePropertiesR0600) {
        error = hip->hipGetDevicePropertiesR0600(&raw, ordinal);
    } else {
        offset = ARCH_OFFSET;
        error = hip->hipGetDeviceProperties(&raw, ordinal);
    }
    if (error)
        return attn_hip_fail(hip, "hipGetDeviceProperties", error);
    memcpy(properties->name, raw.bytes, sizeof(properties->name));
    memcpy(properties->arch, raw.bytes + offset, sizeof(properties->arch));
    properties->name[sizeof(properties->name) - 1] = '\0';
    properties->arch[sizeof(properties->arch) - 1] = '\0';
    return ATTN_OK;
}
