/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the checks of device-side contents behind ATTN_CHECK_DATA. */
#ifndef ATTN_CHECK_DATA_H
#define ATTN_CHECK_DATA_H

#include "runtime/device.h"

/* int32 [batch + 1] on the device: never negative, never falls, ends at `total` or below. */
struct attn_indptr {
    const char *name;
    const int32_t *data;
    bool rows; /* of packed tokens: it starts at 0, since those before would have no sequence */
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

/* The lists of attn_pages as they are read back. All is NULL where nothing could be read: while a
 * graph is captured; `lens` also where the call has no kv_lens. */
struct attn_page_lists {
    int32_t *lens, *indptr, *entries; /* indptr: of ATTN_PAGES_INDICES, else NULL */
    int64_t stride, room;             /* of a row of block_table */
};

/* Reads them, and checks kv_indptr. attn_free_page_lists() is needed in any case. */
int attn_read_page_lists(const struct attn_device *device, enum attn_page_table table,
                         const struct attn_pages *p, int32_t batch, void *stream,
                         struct attn_page_lists *l);
void attn_free_page_lists(struct attn_page_lists *l);

/* The first entry of sequence s, and how many it has room for. */
int64_t attn_page_list_first(const struct attn_page_lists *l, int32_t s);
int64_t attn_page_list_room(const struct attn_page_lists *l, int32_t s);

#endif
