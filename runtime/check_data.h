/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the checks of device-side contents behind ATTN_CHECK_DATA. */
#ifndef ATTN_CHECK_DATA_H
#define ATTN_CHECK_DATA_H

#include "runtime/device.h"

/* int32 [batch + 1] on the device: starts at 0 or above, never falls, ends at `total` or below. */
struct attn_indptr {
    const char *name;
    const int32_t *data;
    int32_t batch, total, longest;
};

/*
 * Waits for the stream and copies `size` bytes from the device; free() them. A stream in capture
 * cannot be waited for: *copy is NULL then, and there is nothing to check.
 */
int attn_read_back(const struct attn_device *device, const void *data, size_t size, void *stream,
                   void **copy);

/* Waits for the stream. ATTN_BAD_DATA names the element; a stream in capture is let pass. */
int attn_check_indptr(const struct attn_device *device, const struct attn_indptr *p, void *stream);

/* int32 or int64 [count] on the device, each from `least` to `most`. */
struct attn_elements {
    const char *name;
    const void *data;
    size_t size; /* of an element, in bytes */
    int64_t count, least, most;
};

/* Waits for the stream. ATTN_BAD_DATA names the element; a stream in capture is let pass. */
int attn_check_elements(const struct attn_device *device, const struct attn_elements *elements,
                        void *stream);

#endif
