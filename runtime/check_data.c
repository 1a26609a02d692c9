/* SPDX-License-Identifier: Apache-2.0 */
/* Copies arrays from the device and checks them on the host. Messages name the faulty element. */
#include "runtime/check_data.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/error.h"

/* True if the stream is being captured to a graph, so that data cannot be read back. */
static bool is_capturing(const struct attn_device *device, void *stream)
{
    int status = 0;
    if (device->hip.hipStreamIsCapturing)
        device->hip.hipStreamIsCapturing(stream, &status);
    return status != 0;
}

/* Checks the host copy `values` of the array `p` by the rules of struct attn_indptr. */
static int check(const struct attn_indptr *p, const int32_t *values)
{
    if (values[0] < 0)
        return attn_fail(ATTN_BAD_DATA, "%s[0] is %d", p->name, values[0]);
    if (p->rows && values[0] > 0)
        return attn_fail(ATTN_BAD_DATA,
                         "%s[0] is %d, not 0: the tokens before would belong to no sequence",
                         p->name, values[0]);
    for (int32_t i = 0; i < p->batch; i++) {
        if (values[i + 1] < values[i])
            return attn_fail(ATTN_BAD_DATA, "%s[%d] is %d, below %s[%d], which is %d", p->name,
                             i + 1, values[i + 1], p->name, i, values[i]);
        if (values[i + 1] - values[i] > p->longest)
            return attn_fail(ATTN_BAD_DATA, "%s: sequence %d has %d tokens, the bound is %d",
                             p->name, i, values[i + 1] - values[i], p->longest);
        if (values[i + 1] > p->total)
            return attn_fail(ATTN_BAD_DATA, "%s[%d] is %d, the tensor has %d tokens", p->name,
                             i + 1, values[i + 1], p->total);
    }
    return ATTN_OK;
}

int attn_read_back(const struct attn_device *device, const void *data, size_t size, void *stream,
                   void **copy)
{
    *copy = NULL;
    if (is_capturing(device, stream))
        return ATTN_OK;
    void *bytes = malloc(size ? size : 1);
    if (!bytes)
        return attn_fail_fixed(ATTN_NO_MEMORY, "ATTN_CHECK_DATA: out of memory");
    int r = ATTN_OK;
    int error = device->hip.hipMemcpyAsync(bytes, data, size, HIP_MEMCPY_DEVICE_TO_HOST, stream);
    if (error)
        r = attn_hip_fail(&device->hip, "hipMemcpyAsync", error);
    else if ((error = device->hip.hipStreamSynchronize(stream)))
        r = attn_hip_fail(&device->hip, "hipStreamSynchronize", error);
    if (r)
        free(bytes);
    else
        *copy = bytes;
    return r;
}

int attn_check_indptr(const struct attn_device *device, const struct attn_indptr *p, void *stream)
{
    void *values;
    int r =
        attn_read_back(device, p->data, ((size_t)p->batch + 1) * sizeof(int32_t), stream, &values);
    if (!r && values)
        r = check(p, values);
    free(values);
    return r;
}

int attn_check_elements(const struct attn_device *device, const struct attn_elements *e,
                        void *stream)
{
    void *copy;
    int r = attn_read_back(device, e->data, (size_t)e->count * e->size, stream, &copy);
    const int32_t *narrow = copy;
    const int64_t *wide = copy;
    for (int64_t i = 0; !r && copy && i < e->count; i++) {
        const int64_t value = e->size == sizeof(*wide) ? wide[i] : narrow[i];
        if (value < e->least || value > e->most)
            r = attn_fail(ATTN_BAD_DATA, "%s[%lld] is %lld, not %lld to %lld", e->name,
                          (long long)i, (long long)value, (long long)e->least, (long long)e->most);
    }
    free(copy);
    return r;
}

int attn_check_finite(const struct attn_device *device, const struct attn_floats *f, void *stream)
{
    if (f->rows < 1 || f->columns < 1)
        return ATTN_OK;
    void *copy;
    const int64_t last = (f->rows - 1) * f->row_stride + (f->columns - 1) * f->column_stride;
    int r = attn_read_back(device, f->data, ((size_t)last + 1) * sizeof(float), stream, &copy);
    const float *values = copy;
    for (int64_t i = 0; !r && copy && i < f->rows * f->columns; i++) {
        const int64_t row = i / f->columns, column = i % f->columns;
        const float value = values[row * f->row_stride + column * f->column_stride];
        if (!isfinite(value))
            r = attn_fail(ATTN_BAD_DATA, "%s[%lld][%lld] is %g, not finite", f->name,
                          (long long)row, (long long)column, (double)value);
    }
    free(copy);
    return r;
}

/* Copies `count` integers at the device address `data` to *array, which the caller frees. *array is
 * NULL if `data` is. */
static int read_array(const struct attn_device *device, const int32_t *data, int64_t count,
                      void *stream, int32_t **array)
{
    void *copy = NULL;
    const int r =
        data ? attn_read_back(device, data, (size_t)count * sizeof(*data), stream, &copy) : ATTN_OK;
    *array = copy;
    return r;
}

int attn_read_page_lists(const struct attn_device *device, enum attn_page_table table,
                         const struct attn_pages *p, int32_t batch, void *stream,
                         struct attn_page_lists *l)
{
    l->stride = p->block_table_stride ? p->block_table_stride : p->entries;
    l->room = p->entries ? p->entries : l->stride;
    int r = read_array(device, p->kv_lens, batch, stream, &l->lens);
    if (r || (p->kv_lens && !l->lens))
        return r;
    if (table == ATTN_PAGES_BLOCKS)
        return read_array(device, p->block_table, (batch - 1) * l->stride + l->room, stream,
                          &l->entries);
    const struct attn_indptr indptr = {
        .name = "kv_indptr",
        .data = p->kv_indptr,
        .batch = batch,
        .longest = INT32_MAX,
        .total = p->entries ? p->entries : INT32_MAX,
    };
    r = attn_check_indptr(device, &indptr, stream);
    if (!r)
        r = read_array(device, p->kv_indptr, batch + 1, stream, &l->indptr);
    if (!r && l->indptr)
        r = read_array(device, p->kv_indices, l->indptr[batch], stream, &l->entries);
    return r;
}

void attn_free_page_lists(struct attn_page_lists *l)
{
    free(l->lens);
    free(l->indptr);
    free(l->entries);
}

int64_t attn_page_list_first(const struct attn_page_lists *l, int32_t s)
{
    return l->indptr ? l->indptr[s] : s * l->stride;
}

int64_t attn_page_list_room(const struct attn_page_lists *l, int32_t s)
{
    return l->indptr ? l->indptr[s + 1] - l->indptr[s] : l->room;
}
