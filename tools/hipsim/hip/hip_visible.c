/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the simulated GPUs that a process sees, by ROCm's variables. The lists are read as ROCm
 * reads them. ROCR_VISIBLE_DEVICES is the first (ROCR-Runtime, RvdFilter). HIP_VISIBLE_DEVICES, or
 * CUDA_VISIBLE_DEVICES if that is empty, then chooses among the remaining GPUs (ROCm/clr f9f995c6d,
 * rocclr/device/rocm/rocdevice.cpp, Device::init). Both lists end at the first entry that names no
 * GPU.
 */
#include "hip_visible.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = 64, UUID_SHORTEST = 5, UUID_LONGEST = 20 };

/* The GPUs that a list has chosen so far, in its order. */
struct choice {
    const unsigned *from; /* indices of the GPUs to choose among */
    unsigned from_count;
    unsigned *chosen;
    unsigned count;
};

/* True if the list has chosen the GPU already. */
static bool is_chosen(const struct choice *c, unsigned gpu)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->chosen[i] == gpu)
            return true;
    return false;
}

/* Copies the next entry of a comma-separated list to `token`. Returns the rest of the list; NULL
 * after the last entry. */
static const char *next_token(const char *list, char token[TOKEN])
{
    const size_t length = strcspn(list, ",");

    snprintf(token, TOKEN, "%.*s", (int)length, list);
    return list[length] ? list + length + 1 : NULL;
}

void hip_device_uuid(unsigned gpu, char text[HIP_UUID_TEXT])
{
    snprintf(text, HIP_UUID_TEXT, "hipsim-%08x", gpu);
}

/* Returns the index of the GPU whose UUID "GPU-..." is the token (`whole`) or begins with it; -1 if
 * there is none. ROCr accepts no token that fits two GPUs. */
static long find_uuid(const struct choice *c, const char *token, bool whole)
{
    char text[4 + HIP_UUID_TEXT] = "GPU-";
    long found = -1;

    for (unsigned i = 0; i < c->from_count; i++) {
        hip_device_uuid(c->from[i], text + 4);
        const char *at = strstr(text, token);
        if (!at || (whole && at != text))
            continue;
        if (whole && found >= 0)
            return -1;
        if (found < 0)
            found = (long)i;
    }
    return found;
}

/* Returns the index of the GPU that a token means for ROCr, a number or a UUID; -1 if it means
 * none. */
static long rocr_index(const struct choice *c, const char *token)
{
    const size_t length = strlen(token);
    char *end;

    if (token[0] == 'G')
        return length < UUID_SHORTEST || length > UUID_LONGEST ? -1 : find_uuid(c, token, true);
    const long index = strtol(token, &end, 0);
    return !token[0] || *end ? -1 : index;
}

/* Returns the index of the GPU that a token means for HIP, a number or a UUID; -1 if it means
 * none. */
static long hip_index(const struct choice *c, const char *token)
{
    char text[TOKEN];

    if (strstr(token, "GPU-"))
        return find_uuid(c, token, false);
    const int index = atoi(token);
    snprintf(text, sizeof(text), "%d", index);
    return strcmp(text, token) ? -1 : index;
}

/* Chooses GPUs by a list. At a GPU that is named twice ROCr (`rocr`) stops, and HIP continues. */
static void choose(struct choice *c, const char *list, bool rocr)
{
    char token[TOKEN];

    while (list) {
        list = next_token(list, token);
        const long index = rocr ? rocr_index(c, token) : hip_index(c, token);
        if (index < 0 || index >= (long)c->from_count)
            return;
        const unsigned gpu = c->from[index];
        if (!is_chosen(c, gpu))
            c->chosen[c->count++] = gpu;
        else if (rocr)
            return;
    }
}

/* True if the variable exists and is not empty. */
static bool is_set(const char *text) { return text && text[0]; }

unsigned hip_visible_devices(unsigned count, unsigned gpus[HIP_MAX_DEVICES])
{
    const char *rocr = getenv("ROCR_VISIBLE_DEVICES"), *hip = getenv("HIP_VISIBLE_DEVICES");
    unsigned all[HIP_MAX_DEVICES], left[HIP_MAX_DEVICES];
    struct choice of_rocr = {all, count, left, 0};

    for (unsigned i = 0; i < count; i++)
        all[i] = left[i] = i;
    if (rocr) /* empty: no GPU */
        choose(&of_rocr, rocr, true);
    else
        of_rocr.count = count;
    struct choice of_hip = {left, of_rocr.count, gpus, 0};
    if (!is_set(hip))
        hip = getenv("CUDA_VISIBLE_DEVICES");
    if (is_set(hip)) {
        choose(&of_hip, hip, false);
        return of_hip.count;
    }
    memcpy(gpus, left, of_rocr.count * sizeof(*gpus));
    return of_rocr.count;
}
