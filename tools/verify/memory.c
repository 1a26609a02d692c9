/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify/memory.h"

#include <assert.h>
#include <stdlib.h>

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 }; /* values of hipMemcpyKind */

void *verify_allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

void *device_allocate(struct device_memory *m, size_t size)
{
    void *block = NULL;
    if (!m->error)
        m->error = m->gpu->hipMalloc(&block, size);
    if (m->error)
        return NULL;
    assert(m->count < DEVICE_BLOCKS_MAX);
    m->blocks[m->count++] = block;
    return block;
}

void device_write(struct device_memory *m, void *to, const void *from, size_t size)
{
    if (!m->error)
        m->error = m->gpu->hipMemcpy(to, from, size, HOST_TO_DEVICE);
}

void device_read(struct device_memory *m, void *to, const void *from, size_t size)
{
    if (!m->error)
        m->error = m->gpu->hipMemcpy(to, from, size, DEVICE_TO_HOST);
}

void *device_copy(struct device_memory *m, const void *bytes, size_t size)
{
    void *block = device_allocate(m, size);
    device_write(m, block, bytes, size);
    return block;
}

void device_free(struct device_memory *m)
{
    while (m->count)
        m->gpu->hipFree(m->blocks[--m->count]);
}
