/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares functions that allocate and copy memory of verified calls, on the host and on
 * the device. */
#ifndef TOOLS_VERIFY_MEMORY_H
#define TOOLS_VERIFY_MEMORY_H

#include "tools/verify/verify.h"

/* Most allocations of a call. */
enum { DEVICE_BLOCKS_MAX = 40 };

/** All device memory of one call. `error` is the first hipError_t that is not 0; after an error all
 * functions do nothing. */
struct device_memory {
    struct gpu *gpu;
    void *blocks[DEVICE_BLOCKS_MAX];
    int count;
    int error;
};

/** Allocates zeroed host memory for `count` elements of `size` bytes, which the caller frees with
 * free(). Ends the program if memory is exhausted. */
void *verify_allocate(size_t count, size_t size);

/** Allocates device memory with undefined contents. Returns NULL after an error. */
void *device_allocate(struct device_memory *m, size_t size);
/** Copies `size` bytes from the host to device memory; an error is stored in `m`. */
void device_write(struct device_memory *m, void *to, const void *from, size_t size);

/** Allocates device memory of `size` bytes and copies `bytes` to it. Returns NULL after an
 * error. */
void *device_copy(struct device_memory *m, const void *bytes, size_t size);
/** Copies `size` bytes from device memory to the host; an error is stored in `m`. */
void device_read(struct device_memory *m, void *to, const void *from, size_t size);
/** Frees all device memory of a call. */
void device_free(struct device_memory *m);

#endif
