/* SPDX-License-Identifier: Apache-2.0 */
/* The work that a stream runs and a graph has: copies, fills, and the choice among all kinds. */
#include "hip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hip_clock.h"
#include "hip_order.h"

bool hip_in_arena(const void *pointer)
{
    return (uintptr_t)pointer - hipsim_arena.base < hipsim_arena.size;
}

/* Sets *extent to the bytes from the first to the last of a box. False if that overflows, or if
 * rows or planes overlap. A box that fits in memory therefore also has a limited time. */
static bool box_extent(size_t pitch, size_t slice, size_t width, size_t height, size_t depth,
                       size_t *extent)
{
    size_t plane, planes;

    return (height == 1 || pitch >= width) && !__builtin_mul_overflow(height - 1, pitch, &plane) &&
           !__builtin_add_overflow(plane, width, &plane) && (depth == 1 || slice >= plane) &&
           !__builtin_mul_overflow(depth - 1, slice, &planes) &&
           !__builtin_add_overflow(planes, plane, extent);
}

/* Checks that the runtime may access [pointer, pointer + size); `role` names it in the report. Host
 * memory that HIP does not know is accepted unless `must_be_device`. */
static hipError_t check_range(const void *pointer, size_t size, bool must_be_device,
                              const char *role)
{
    struct hipsim_mem_cursor cursor = {0};
    char where[300];

    if (!pointer)
        return hip_fail(hipErrorInvalidValue, "the %s is a null pointer", role);
    const struct hipsim_mem_slot *slot = hipsim_mem_find(&cursor, (uintptr_t)pointer);
    if (!hip_in_arena(pointer) && (!must_be_device || slot))
        return hipSuccess;
    if (hip_in_arena(pointer) &&
        hipsim_mem_check(&cursor, (uintptr_t)pointer, size, false) == HIPSIM_MEM_OK)
        return hipSuccess;
    hipsim_mem_describe((uintptr_t)pointer, size, where, sizeof(where));
    return hip_fail(hipErrorInvalidValue, "the %s, %zu bytes at %p, is %s", role, size, pointer,
                    where);
}

/* Copies a row with memmove(). Rows that overlap each other are not treated, as on the hardware. */
static void copy_row(char *dst, const char *src, size_t width)
{
    hip_order_touch(src, width, false);
    hip_order_touch(dst, width, true);
    memmove(dst, src, width);
    if (!hip_in_arena(dst))
        return;
    if (hip_in_arena(src))
        hipsim_mem_copy_marks((uintptr_t)dst, (uintptr_t)src, width);
    else
        hipsim_mem_mark((uintptr_t)dst, width);
}

/* True if the copy has no bytes. */
static bool copies_nothing(const struct hip_copy *copy)
{
    return copy->width == 0 || copy->height == 0 || copy->depth == 0;
}

hipError_t hip_copy_check(const struct hip_copy *copy)
{
    size_t dst_extent, src_extent;

    if (copies_nothing(copy))
        return hipSuccess;
    if (!box_extent(copy->dst_pitch, copy->dst_slice, copy->width, copy->height, copy->depth,
                    &dst_extent) ||
        !box_extent(copy->src_pitch, copy->src_slice, copy->width, copy->height, copy->depth,
                    &src_extent))
        return hip_fail(hipErrorInvalidPitchValue,
                        "rows or planes of the box lie upon each other: pitches of %zu and %zu "
                        "bytes for %zu",
                        copy->dst_pitch, copy->src_pitch, copy->width);
    bool to_device = copy->kind == hipMemcpyHostToDevice || copy->kind == hipMemcpyDeviceToDevice;
    bool from_device = copy->kind == hipMemcpyDeviceToHost || copy->kind == hipMemcpyDeviceToDevice;
    hipError_t error = check_range(copy->dst, dst_extent, to_device, "destination");
    return error == hipSuccess ? check_range(copy->src, src_extent, from_device, "source") : error;
}

hipError_t hip_copy_run(const struct hip_copy *copy, struct hip_device *device, double *time)
{
    const hipError_t error = hip_copy_check(copy);

    if (error != hipSuccess || copies_nothing(copy))
        return error;
    for (size_t z = 0; z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            copy_row((char *)copy->dst + z * copy->dst_slice + y * copy->dst_pitch,
                     (const char *)copy->src + z * copy->src_slice + y * copy->src_pitch,
                     copy->width);
    *time += hip_clock_copy(copy->width * copy->height * copy->depth,
                            !hip_in_arena(copy->dst) || !hip_in_arena(copy->src), device->facts);
    return hipSuccess;
}

/* Fills a row with elements of `element` bytes, each the low bytes of `value`. */
static void fill_row(char *row, size_t elements, unsigned element, uint32_t value)
{
    if (element == 1) {
        memset(row, (int)(value & 0xff), elements);
        return;
    }
    for (size_t i = 0; i < elements; i++)
        memcpy(row + i * element, &value, element); /* little-endian: the low bytes */
}

/* True if the fill has no bytes. */
static bool fills_nothing(const struct hip_fill *fill)
{
    return fill->width == 0 || fill->height == 0 || fill->depth == 0;
}

hipError_t hip_fill_check(const struct hip_fill *fill)
{
    size_t width, extent;

    if (fill->element != 1 && fill->element != 2 && fill->element != 4)
        return hip_fail(hipErrorInvalidValue, "the element size is %u, not 1, 2 or 4",
                        fill->element);
    if (fills_nothing(fill))
        return hipSuccess;
    if ((uintptr_t)fill->dst % fill->element)
        return hip_fail(hipErrorInvalidValue, "the destination %p is not aligned to %u bytes",
                        fill->dst, fill->element);
    if (__builtin_mul_overflow(fill->width, fill->element, &width) ||
        !box_extent(fill->pitch, fill->slice, width, fill->height, fill->depth, &extent))
        return hip_fail(hipErrorInvalidValue,
                        "rows or planes of the box lie upon each other: a "
                        "pitch of %zu bytes for %zu",
                        fill->pitch, width);
    return check_range(fill->dst, extent, true, "destination");
}

hipError_t hip_fill_run(const struct hip_fill *fill, struct hip_device *device, double *time)
{
    const hipError_t error = hip_fill_check(fill);
    const size_t width = fill->width * fill->element;

    if (error != hipSuccess || fills_nothing(fill))
        return error;
    for (size_t z = 0; z < fill->depth; z++) {
        for (size_t y = 0; y < fill->height; y++) {
            char *row = (char *)fill->dst + z * fill->slice + y * fill->pitch;
            hip_order_touch(row, width, true);
            fill_row(row, fill->width, fill->element, fill->value);
            hipsim_mem_mark((uintptr_t)row, width);
        }
    }
    *time += hip_clock_copy(width * fill->height * fill->depth / 2, false, device->facts);
    return hipSuccess;
}

hipError_t hip_work_run(const struct hip_work *work, struct hip_device *device, double *time)
{
    switch (work->kind) {
    case WORK_EMPTY: return hipSuccess;
    case WORK_KERNEL: return hip_kernel_run(&work->kernel, device, time);
    case WORK_COPY: return hip_copy_run(&work->copy, device, time);
    case WORK_FILL: return hip_fill_run(&work->fill, device, time);
    case WORK_HOST: work->host.fn(work->host.data); return hipSuccess;
    case WORK_RECORD:
        pthread_mutex_lock(&work->event->lock);
        work->event->recorded = true;
        work->event->time = *time;
        work->event->device = device->ordinal;
        pthread_mutex_unlock(&work->event->lock);
        return hipSuccess;
    case WORK_WAIT:
        pthread_mutex_lock(&work->event->lock);
        if (work->event->recorded && work->event->time > *time)
            *time = work->event->time;
        pthread_mutex_unlock(&work->event->lock);
        return hipSuccess;
    case WORK_GRAPH: return hip_graph_run(work->graph, device, time);
    case WORK_VALUE: return hip_value_run(&work->value);
    case WORK_BATCH: return hip_batch_run(work->batch, device, time);
    case WORK_ALLOC: return hip_graph_memory_run(work->memory, true);
    case WORK_FREE: return hip_graph_memory_run(work->memory, false);
    }
    return hipErrorUnknown;
}

hipError_t hip_work_copy(const struct hip_work *from, struct hip_work *to)
{
    *to = *from;
    switch (from->kind) {
    case WORK_KERNEL:
        to->kernel.args = malloc(from->kernel.args_bytes + 1);
        if (!to->kernel.args)
            return hipErrorOutOfMemory;
        if (from->kernel.args_bytes)
            memcpy(to->kernel.args, from->kernel.args, from->kernel.args_bytes);
        hip_object_ref(to->kernel.function);
        return hipSuccess;
    case WORK_RECORD:
    case WORK_WAIT: hip_object_ref(to->event); return hipSuccess;
    case WORK_GRAPH:
        to->graph = hip_graph_clone(from->graph);
        if (!to->graph)
            return hipErrorOutOfMemory;
        to->graph->is_child = true;
        return hipSuccess;
    case WORK_ALLOC:
    case WORK_FREE: hip_graph_memory_ref(to->memory); return hipSuccess;
    case WORK_BATCH:
        to->batch = hip_batch_copy(from->batch);
        return to->batch ? hipSuccess : hipErrorOutOfMemory;
    default: return hipSuccess;
    }
}

void hip_work_release(struct hip_work *work)
{
    switch (work->kind) {
    case WORK_KERNEL:
        free(work->kernel.args);
        hip_object_put(work->kernel.function);
        break;
    case WORK_RECORD:
    case WORK_WAIT: hip_object_put(work->event); break;
    case WORK_GRAPH: hip_graph_put(work->graph); break;
    case WORK_ALLOC:
    case WORK_FREE: hip_graph_memory_put(work->memory); break;
    case WORK_BATCH: free(work->batch); break;
    default: break;
    }
    work->kind = WORK_EMPTY;
}
