/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of arrays in device memory for ATTN_CHECK_DATA. Every function waits for the stream; on a
 * stream that is being captured it checks nothing and returns ATTN_OK. */
#ifndef ATTN_CHECK_DATA_H
#define ATTN_CHECK_DATA_H

#include "runtime/device.h"

/* An int32 array [batch + 1] in device memory with the first token of each sequence: not negative,
 * not descending, at most `total` at the end. Neighbours differ by at most `longest`. */
struct attn_indptr {
    const char *name; /* name of the argument in messages */
    const int32_t *data;
    /* True: the array indexes packed tokens and must begin at 0, since earlier tokens would belong
     * to no sequence. False: it may begin at any token. */
    bool rows;
    int32_t batch, total, longest;
};

/*
 * Waits for the stream and copies `size` bytes at the device address `data` to *copy, which the
 * caller frees. For a stream that is being captured *copy is NULL. Returns ATTN_OK or an error.
 */
int attn_read_back(const struct attn_device *device, const void *data, size_t size, void *stream,
                   void **copy);

/* Checks the array `p` by the rules of struct attn_indptr. The message of ATTN_BAD_DATA names the
 * element. */
int attn_check_indptr(const struct attn_device *device, const struct attn_indptr *p, void *stream);

/* An array of `count` int32 or int64 in device memory, whose elements must be `least` to `most`. */
struct attn_elements {
    const char *name; /* name of the argument in messages */
    const void *data;
    size_t size; /* bytes of an element, 4 or 8 */
    int64_t count, least, most;
};

/* Checks that all elements of the array are within its bounds. The message of ATTN_BAD_DATA names
 * the element. */
int attn_check_elements(const struct attn_device *device, const struct attn_elements *elements,
                        void *stream);

/* A float32 tensor [rows, columns] in device memory. Strides are in elements; with a row stride of
 * 0 all rows are the same. */
struct attn_floats {
    const char *name; /* name of the argument in messages */
    const float *data;
    int64_t rows, columns, row_stride, column_stride;
};

/* Checks that all elements of the tensor are finite. The message of ATTN_BAD_DATA names the
 * element. */
int attn_check_finite(const struct attn_device *device, const struct attn_floats *floats,
                      void *stream);

/* Host copies of the page lists of a call. All are NULL if the stream is being captured; `lens` is
 * also NULL if the call has no kv_lens. */
struct attn_page_lists {
    /* kv_lens; kv_indptr, NULL with a block table; page numbers */
    int32_t *lens, *indptr, *entries;
    /* of a row of block_table: distance to the next row, and usable entries; both in entries */
    int64_t stride, room;
};

/* Copies the page lists of `batch` sequences to `l` and checks kv_indptr. Call
 * attn_free_page_lists() even after a failure. */
int attn_read_page_lists(const struct attn_device *device, enum attn_page_table table,
                         const struct attn_pages *p, int32_t batch, void *stream,
                         struct attn_page_lists *l);
/* Frees the host copies of page lists. */
void attn_free_page_lists(struct attn_page_lists *l);

/* Returns the index in l->entries of the first page of sequence `s`. */
int64_t attn_page_list_first(const struct attn_page_lists *l, int32_t s);
/* Returns the number of entries that sequence `s` has in l->entries, used or not. */
int64_t attn_page_list_room(const struct attn_page_lists *l, int32_t s);

#endif
