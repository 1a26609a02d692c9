/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares memory of a verification, on the host and on the device. */
#ifndef TOOLS_VERIFY_MEMORY_H
#define TOOLS_VERIFY_MEMORY_H

#include "tools/verify/verify.h"

enum { DEVICE_BLOCKS_MAX = 40 };

/** Memory of one shape on the device; `error` is the first hipError_t, after which nothing is
 * done. */
struct device_memory {
    struct gpu *gpu;
    void *blocks[DEVICE_BLOCKS_MAX];
    int count;
    int error;
};

/** Zeroed memory, free() it; a program without memory ends. */
void *verify_allocate(size_t count, size_t size);

/** Memory with undefined contents; NULL after an error. */
void *device_allocate(struct device_memory *m, size_t size);
void device_write(struct device_memory *m, void *to, const void *from, size_t size);

/** Both at once. */
void *device_copy(struct device_memory *m, const void *bytes, size_t size);
void device_read(struct device_memory *m, void *to, const void *from, size_t size);
void device_free(struct device_memory *m);

#endif
