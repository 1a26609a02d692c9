/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of device-side arrays for ATTN_CHECK_DATA. */
#ifndef ATTN_CHECK_DATA_H
#define ATTN_CHECK_DATA_H

#include "runtime/device.h"

/* An int32 array [batch + 1] on the device to check: non-negative, non-decreasing, at most `total`
 * at the end. Neighbours differ by `longest` at most. */
struct attn_indptr {
    const char *name;
    const int32_t *data;
    bool rows; /* indexes packed tokens: must start at 0, or earlier tokens have no sequence */
    int32_t batch, total, longest;
};

/*
 * Waits for the stream and copies `size` bytes from the device; the caller frees *copy. For a
 * stream in capture, which cannot be waited for, *copy is NULL and nothing is to be checked.
 */
int attn_read_back(const struct attn_device *device, const void *data, size_t size, void *stream,
                   void **copy);

/* Checks an indptr array; waits for the stream. ATTN_BAD_DATA names the element. A stream in
 * capture is not checked. */
int attn_check_indptr(const struct attn_device *device, const struct attn_indptr *p, void *stream);

/* int32 or int64 [count] on the device, each from `least` to `most`. */
struct attn_elements {
    const char *name;
    const void *data;
    size_t size; /* bytes of an element */
    int64_t count, least, most;
};

/* Checks array elements; waits for the stream. ATTN_BAD_DATA names the element. A stream in
 * capture is not checked. */
int attn_check_elements(const struct attn_device *device, const struct attn_elements *elements,
                        void *stream);

/* float32 [rows, columns] on the device. Strides count floats; a row stride of 0 shares a row. */
struct attn_floats {
    const char *name;
    const float *data;
    int64_t rows, columns, row_stride, column_stride;
};

/* Checks that floats are finite; waits for the stream. ATTN_BAD_DATA names the element. A stream in
 * capture is not checked. */
int attn_check_finite(const struct attn_device *device, const struct attn_floats *floats,
                      void *stream);

/* Host copies of the lists of attn_pages. All are NULL while a graph is captured; `lens` is also
 * NULL if the call has no kv_lens. */
struct attn_page_lists {
    int32_t *lens, *indptr, *entries; /* indptr: of ATTN_PAGES_INDICES, else NULL */
    int64_t stride, room;             /* of a row of block_table, in entries: distance to the next
                                       * row, and usable entries */
};

/* Reads the page lists and checks kv_indptr. Call attn_free_page_lists() even after a failure. */
int attn_read_page_lists(const struct attn_device *device, enum attn_page_table table,
                         const struct attn_pages *p, int32_t batch, void *stream,
                         struct attn_page_lists *l);
void attn_free_page_lists(struct attn_page_lists *l);

/* Return the index of the first entry of sequence s, and its capacity in entries. */
int64_t attn_page_list_first(const struct attn_page_lists *l, int32_t s);
int64_t attn_page_list_room(const struct attn_page_lists *l, int32_t s);

#endif
