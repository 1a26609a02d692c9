/* SPDX-License-Identifier: Apache-2.0 */
/* A bound GPU: its packs, the HIP functions, and the code objects loaded on it. */
#ifndef ATTN_DEVICE_H
#define ATTN_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/hip_loader.h"
#include "runtime/pack.h"

/* A code object on the GPU, in a list of its device, whose lock guards it. The ops that use it
 * count in `refs`. */
struct attn_module {
    struct attn_module *next;
    const struct attn_pack *pack;
    uint64_t code_offset;
    void *handle;
    unsigned refs;
};

struct attn_device {
    struct attn_hip hip;
    int ordinal;
    uint32_t flags;
    int hip_version;
    int compute_units;
    int lanes; /* lanes of a wave */
    char name[256];
    char target[64]; /* "gfx942", without feature suffixes */
    attn_log_function log;
    void *log_user;
    unsigned forks;   /* attn_forks() when the device was opened */
    atomic_uint refs; /* references: the caller's and one per op */
    pthread_mutex_t lock;
    struct attn_module *modules;
    size_t pack_count;
    struct attn_pack *packs[];
};

/* Returns how often this process or an ancestor forked after a device had been opened. */
unsigned attn_forks(void);

/* Adds a reference to a device. */
void attn_device_ref(struct attn_device *device);

/* Sends a formatted message to the device's log function, if it has one. */
void attn_device_log(const struct attn_device *device, enum attn_log_level level,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Loads a kernel's code object, unless it is loaded already, and returns its function. Release
 * *module with attn_device_unload().
 */
int attn_device_load(struct attn_device *device, const struct attn_pack *pack,
                     const struct attn_pack_record *record, struct attn_module **module,
                     void **function);
/* Removes a reference to a code object and unloads it with the last one. */
void attn_device_unload(struct attn_device *device, struct attn_module *module);

#endif
