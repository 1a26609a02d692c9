/* SPDX-License-Identifier: Apache-2.0 */
/* An opened GPU: its packs, the HIP functions, and the code objects that are loaded on it. */
#ifndef ATTN_DEVICE_H
#define ATTN_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/hip_loader.h"
#include "runtime/pack.h"

/* A code object that is loaded on the GPU, in the list attn_device.modules. attn_device.lock guards
 * it. */
struct attn_module {
    struct attn_module *next;
    const struct attn_pack *pack;
    uint64_t code_offset; /* byte offset of the code object in the pack's section of code */
    void *handle;         /* HIP's module */
    unsigned refs;        /* number of ops that use it */
};

struct attn_device {
    struct attn_hip hip;
    int ordinal;           /* number of the GPU in HIP, from 0 */
    uint32_t flags;        /* ATTN_CHECK_DATA or 0 */
    int hip_version;       /* version of the HIP runtime, as hipRuntimeGetVersion() returns it */
    int compute_units;     /* number of CUs */
    int lanes;             /* lanes of a wave */
    char name[256];        /* HIP's name of the GPU */
    char target[64];       /* GPU architecture without feature suffixes, such as "gfx942" */
    attn_log_function log; /* receives messages; NULL: no log */
    void *log_user;
    unsigned forks;       /* result of attn_forks() when the device was opened */
    atomic_uint refs;     /* number of references: the caller's and one per op */
    pthread_mutex_t lock; /* guards `modules` */
    struct attn_module *modules;
    size_t pack_count;
    struct attn_pack *packs[];
};

/* Returns the number of forks between the first attn_device_open() of this process or its ancestors
 * and now. A device whose `forks` differs belongs to a parent process. */
unsigned attn_forks(void);

/* Adds a reference to a device, which attn_device_close() removes. */
void attn_device_ref(struct attn_device *device);

/* Sends a formatted message to the device's log function, if it has one. */
void attn_device_log(const struct attn_device *device, enum attn_log_level level,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Loads the code object of the kernel `record`, unless it is loaded already, and sets *function to
 * HIP's function of the kernel. Release *module with attn_device_unload(). Returns ATTN_OK or an
 * error.
 */
int attn_device_load(struct attn_device *device, const struct attn_pack *pack,
                     const struct attn_pack_record *record, struct attn_module **module,
                     void **function);
/* Removes a reference to a code object, and unloads it if that was the last reference. */
void attn_device_unload(struct attn_device *device, struct attn_module *module);

#endif
