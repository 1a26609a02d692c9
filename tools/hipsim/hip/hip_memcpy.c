/* SPDX-License-Identifier: Apache-2.0 */
/* The many forms of copy and fill. Each builds one struct hip_copy or hip_fill. */
#include "hip.h"

#include <string.h>

/* Returns the work of a copy of `size` bytes. */
static struct hip_work copy_1d(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
    return (struct hip_work){
        .kind = WORK_COPY,
        .copy = {.dst = dst, .src = src, .width = size, .height = 1, .depth = 1, .kind = kind},
    };
}

#define COPY_WITHOUT_COMPUTE_UNITS 1024 /* value of hipMemcpyDeviceToDeviceNoCU */

bool hip_is_copy_kind(hipMemcpyKind kind)
{
    return (unsigned)kind <= hipMemcpyDefault || (unsigned)kind == COPY_WITHOUT_COMPUTE_UNITS;
}

/* Submits a copy to the stream. `wait`: returns after it is done. */
static hipError_t submit(struct hip_work work, hipStream_t stream, bool wait)
{
    hipMemcpyKind kind = work.copy.kind;

    if (work.kind == WORK_COPY && !hip_is_copy_kind(kind))
        return hipErrorInvalidMemcpyDirection;
    return wait ? hip_submit_and_wait(stream, work) : hip_submit(stream, work);
}

/* The functions from here on copy in one dimension. */

HIP_EXPORT hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
    return HIP_CALL(hipMemcpy, submit(copy_1d(dst, src, size, kind), NULL, true));
}

HIP_EXPORT hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind,
                                     hipStream_t stream)
{
    return HIP_CALL(hipMemcpyAsync, submit(copy_1d(dst, src, size, kind), stream, false));
}

HIP_EXPORT hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size,
                                          hipMemcpyKind kind, hipStream_t stream)
{
    return HIP_CALL(hipMemcpyWithStream, submit(copy_1d(dst, src, size, kind), stream, true));
}

#define DRIVER_COPY(name, dst_type, src_type, direction)                                           \
    HIP_EXPORT hipError_t name(dst_type dst, src_type src, size_t size)                            \
    {                                                                                              \
        return HIP_CALL(name, submit(copy_1d(dst, src, size, direction), NULL, true));             \
    }                                                                                              \
    HIP_EXPORT hipError_t name##Async(dst_type dst, src_type src, size_t size, hipStream_t stream) \
    {                                                                                              \
        return HIP_CALL(name##Async, submit(copy_1d(dst, src, size, direction), stream, false));   \
    }

DRIVER_COPY(hipMemcpyHtoD, hipDeviceptr_t, void *, hipMemcpyHostToDevice)
DRIVER_COPY(hipMemcpyDtoH, void *, hipDeviceptr_t, hipMemcpyDeviceToHost)
DRIVER_COPY(hipMemcpyDtoD, hipDeviceptr_t, hipDeviceptr_t, hipMemcpyDeviceToDevice)

/* Copies `size` bytes between two devices. */
static hipError_t copy_peer(void *dst, int to, const void *src, int from, size_t size,
                            hipStream_t stream, bool wait)
{
    if (!hip_device(to) || !hip_device(from))
        return hipErrorInvalidDevice;
    return submit(copy_1d(dst, src, size, hipMemcpyDeviceToDevice), stream, wait);
}

HIP_EXPORT hipError_t hipMemcpyPeer(void *dst, int to, const void *src, int from, size_t size)
{
    return HIP_CALL(hipMemcpyPeer, copy_peer(dst, to, src, from, size, NULL, true));
}

HIP_EXPORT hipError_t hipMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t size,
                                         hipStream_t stream)
{
    return HIP_CALL(hipMemcpyPeerAsync, copy_peer(dst, to, src, from, size, stream, false));
}

/* The functions from here on copy in two dimensions. */

/* Returns the work of a copy of `height` rows of `width` bytes. */
static struct hip_work copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                               size_t width, size_t height, hipMemcpyKind kind)
{
    return (struct hip_work){
        .kind = WORK_COPY,
        .copy = {.dst = dst,
                 .src = src,
                 .dst_pitch = dst_pitch,
                 .src_pitch = src_pitch,
                 .width = width,
                 .height = height,
                 .depth = 1,
                 .kind = kind},
    };
}

HIP_EXPORT hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
                                  size_t width, size_t height, hipMemcpyKind kind)
{
    return HIP_CALL(
        hipMemcpy2D,
        submit(copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind), NULL, true));
}

HIP_EXPORT hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                                       size_t src_pitch, size_t width, size_t height,
                                       hipMemcpyKind kind, hipStream_t stream)
{
    return HIP_CALL(
        hipMemcpy2DAsync,
        submit(copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind), stream, false));
}

/* Returns the memory type that a program's number means. Numbers of HIP 6: 0 unregistered, 1 host,
 * 2 device, 3 managed, 10 array, 11 unified. Older programs use the enum's own numbers. */
hipMemoryType hip_memory_type(unsigned given)
{
    static const hipMemoryType types[] = {hipMemoryTypeHost, hipMemoryTypeHost, hipMemoryTypeDevice,
                                          hipMemoryTypeUnified};

    if (hip_options().hip < 6)
        return (hipMemoryType)given;
    if (given < sizeof(types) / sizeof(*types))
        return types[given];
    return given == 10 ? hipMemoryTypeArray : hipMemoryTypeUnified;
}

unsigned hip_memory_type_number(hipMemoryType type)
{
    if (hip_options().hip < 6)
        return type;
    return type == hipMemoryTypeHost ? 1 : type == hipMemoryTypeDevice ? 2 : 3;
}

/* Returns the direction of a copy between two kinds of memory. */
static hipMemcpyKind direction(hipMemoryType from, hipMemoryType to)
{
    if (from == hipMemoryTypeUnified || to == hipMemoryTypeUnified)
        return hipMemcpyDefault;
    if (from == hipMemoryTypeHost)
        return to == hipMemoryTypeHost ? hipMemcpyHostToHost : hipMemcpyHostToDevice;
    return to == hipMemoryTypeHost ? hipMemcpyDeviceToHost : hipMemcpyDeviceToDevice;
}

/* Returns the error for arrays and textures. */
static hipError_t refuse_arrays(void)
{
    return hip_fail(hipErrorNotSupported, "arrays and textures are not simulated");
}

/* Returns the bytes from a plane to the next. On overflow the result exceeds any memory, so that
 * later checks fail. */
static size_t slice_bytes(size_t pitch, size_t rows)
{
    size_t bytes;

    return __builtin_mul_overflow(pitch, rows, &bytes) ? SIZE_MAX : bytes;
}

/* True if the address is in simulated device memory. */
static bool is_in_arena(uintptr_t address)
{
    return address - hipsim_arena.base < hipsim_arena.size;
}

/* Sets *at to the byte at (x bytes, y rows, z planes) of a box. False if there is no such address,
 * or if the box begins in the arena and that byte is outside of the arena. */
static bool place(const void *base, size_t pitch, size_t rows, size_t x, size_t y, size_t z,
                  void **at)
{
    uintptr_t address = (uintptr_t)base;
    size_t bytes;

    if (__builtin_mul_overflow(z, slice_bytes(pitch, rows), &bytes) ||
        __builtin_add_overflow(address, bytes, &address) ||
        __builtin_mul_overflow(y, pitch, &bytes) ||
        __builtin_add_overflow(address, bytes, &address) ||
        __builtin_add_overflow(address, x, &address))
        return false;
    *at = (void *)address;
    return is_in_arena(address) || !is_in_arena((uintptr_t)base);
}

/* Returns the error for a position outside of a box's memory. */
static hipError_t misplaced(void)
{
    return hip_fail(hipErrorInvalidValue, "a position is in no memory of the box");
}

/* The functions from here on copy in three dimensions. */

/* Submits a copy of a box. */
static hipError_t copy_3d(const struct hipMemcpy3DParms *p, hipStream_t stream, bool wait)
{
    struct hip_work work = {.kind = WORK_COPY};
    hipError_t error = hip_copy_from_3d(p, &work.copy);

    return error == hipSuccess ? submit(work, stream, wait) : error;
}

hipError_t hip_copy_from_3d(const struct hipMemcpy3DParms *p, struct hip_copy *copy)
{
    if (!p)
        return hipErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return refuse_arrays();
    if (!hip_is_copy_kind(p->kind))
        return hipErrorInvalidMemcpyDirection;
    if (!p->srcPtr.ptr || !p->dstPtr.ptr)
        return hipErrorInvalidValue;
    const hipPitchedPtr *dst = &p->dstPtr, *src = &p->srcPtr;
    void *dst_at, *src_at;
    if (!place(dst->ptr, dst->pitch, dst->ysize, p->dstPos.x, p->dstPos.y, p->dstPos.z, &dst_at) ||
        !place(src->ptr, src->pitch, src->ysize, p->srcPos.x, p->srcPos.y, p->srcPos.z, &src_at))
        return misplaced();
    *copy = (struct hip_copy){
        .dst = dst_at,
        .src = src_at,
        .dst_pitch = dst->pitch,
        .src_pitch = src->pitch,
        .dst_slice = slice_bytes(dst->pitch, dst->ysize),
        .src_slice = slice_bytes(src->pitch, src->ysize),
        .width = p->extent.width,
        .height = p->extent.height,
        .depth = p->extent.depth,
        .kind = p->kind,
    };
    return hipSuccess;
}

HIP_EXPORT hipError_t hipMemcpy3D(const struct hipMemcpy3DParms *p)
{
    return HIP_CALL(hipMemcpy3D, copy_3d(p, NULL, true));
}

HIP_EXPORT hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms *p, hipStream_t stream)
{
    return HIP_CALL(hipMemcpy3DAsync, copy_3d(p, stream, false));
}

/* One end of a copy in the driver's API: memory of a type, and a position in a box. */
struct end {
    hipMemoryType type;
    const void *host, *device;
    size_t pitch, rows, x, y, z;
};

struct box {
    struct end src, dst;
    size_t width, height, depth;
};

/* Sets *at to the address of an end. */
static hipError_t find_end(const struct end *e, void **at)
{
    const void *const base = e->type == hipMemoryTypeHost ? e->host : e->device;

    if (!base)
        return hipErrorInvalidValue;
    return place(base, e->pitch, e->rows, e->x, e->y, e->z, at) ? hipSuccess : misplaced();
}

/* Sets *copy to the copy that the driver's box describes. */
static hipError_t box_copy(const struct box *b, struct hip_copy *copy)
{
    const hipMemoryType from = b->src.type, to = b->dst.type;
    void *dst, *src;

    if (from == hipMemoryTypeArray || to == hipMemoryTypeArray)
        return refuse_arrays();
    hipError_t error = find_end(&b->dst, &dst);
    if (error == hipSuccess)
        error = find_end(&b->src, &src);
    if (error != hipSuccess)
        return error;
    *copy = (struct hip_copy){
        .dst = dst,
        .src = src,
        .dst_pitch = b->dst.pitch,
        .src_pitch = b->src.pitch,
        .dst_slice = slice_bytes(b->dst.pitch, b->dst.rows),
        .src_slice = slice_bytes(b->src.pitch, b->src.rows),
        .width = b->width,
        .height = b->height,
        .depth = b->depth,
        .kind = direction(from, to),
    };
    return hipSuccess;
}

/* Submits the copy that the driver's box describes. */
static hipError_t copy_box(const struct box *b, hipStream_t stream, bool wait)
{
    struct hip_work work = {.kind = WORK_COPY};
    const hipError_t error = box_copy(b, &work.copy);

    return error == hipSuccess ? submit(work, stream, wait) : error;
}

/* The layout of HIP_MEMCPY3D in HIP 6, in which former unsigned members are size_t. */
struct memcpy_3d {
    size_t src_x, src_y, src_z, src_lod;
    unsigned src_type;
    void *src_host;
    hipDeviceptr_t src_device;
    hipArray_t src_array;
    size_t src_pitch, src_height, dst_x, dst_y, dst_z, dst_lod;
    unsigned dst_type;
    void *dst_host;
    hipDeviceptr_t dst_device;
    hipArray_t dst_array;
    size_t dst_pitch, dst_height, width, height, depth;
};

/* Returns the box of HIP 6's parameters. */
static struct box box_since_6(const struct memcpy_3d *p)
{
    return (struct box){
        .src = {hip_memory_type(p->src_type), p->src_host, p->src_device, p->src_pitch,
                p->src_height, p->src_x, p->src_y, p->src_z},
        .dst = {hip_memory_type(p->dst_type), p->dst_host, p->dst_device, p->dst_pitch,
                p->dst_height, p->dst_x, p->dst_y, p->dst_z},
        .width = p->width,
        .height = p->height,
        .depth = p->depth,
    };
}

/* Returns the box of HIP 5's parameters. */
static struct box box_before_6(const HIP_MEMCPY3D *p)
{
    return (struct box){
        .src = {hip_memory_type(p->srcMemoryType), p->srcHost, p->srcDevice, p->srcPitch,
                p->srcHeight, p->srcXInBytes, p->srcY, p->srcZ},
        .dst = {hip_memory_type(p->dstMemoryType), p->dstHost, p->dstDevice, p->dstPitch,
                p->dstHeight, p->dstXInBytes, p->dstY, p->dstZ},
        .width = p->WidthInBytes,
        .height = p->Height,
        .depth = p->Depth,
    };
}

hipError_t hip_copy_from_driver(const void *p, struct hip_copy *copy)
{
    if (!p)
        return hipErrorInvalidValue;
    const struct box b = hip_options().hip < 6 ? box_before_6(p) : box_since_6(p);
    return box_copy(&b, copy);
}

/* Sets HIP 6's parameters from a copy. */
static void describe_since_6(const struct hip_copy *c, struct memcpy_3d *p)
{
    const bool from_device = hip_in_arena(c->src), to_device = hip_in_arena(c->dst);

    *p = (struct memcpy_3d){
        .src_type = hip_memory_type_number(from_device ? hipMemoryTypeDevice : hipMemoryTypeHost),
        .src_host = from_device ? NULL : (void *)(uintptr_t)c->src,
        .src_device = from_device ? (hipDeviceptr_t)(uintptr_t)c->src : NULL,
        .src_pitch = c->src_pitch,
        .src_height = c->src_pitch ? c->src_slice / c->src_pitch : c->height,
        .dst_type = hip_memory_type_number(to_device ? hipMemoryTypeDevice : hipMemoryTypeHost),
        .dst_host = to_device ? NULL : c->dst,
        .dst_device = to_device ? c->dst : NULL,
        .dst_pitch = c->dst_pitch,
        .dst_height = c->dst_pitch ? c->dst_slice / c->dst_pitch : c->height,
        .width = c->width,
        .height = c->height,
        .depth = c->depth,
    };
}

void hip_copy_to_driver(const struct hip_copy *copy, void *p)
{
    struct memcpy_3d q;

    describe_since_6(copy, &q);
    if (hip_options().hip >= 6) {
        memcpy(p, &q, sizeof(q));
        return;
    }
    *(HIP_MEMCPY3D *)p = (HIP_MEMCPY3D){
        .srcMemoryType = (hipMemoryType)q.src_type,
        .srcHost = q.src_host,
        .srcDevice = q.src_device,
        .srcPitch = (unsigned)q.src_pitch,
        .srcHeight = (unsigned)q.src_height,
        .dstMemoryType = (hipMemoryType)q.dst_type,
        .dstHost = q.dst_host,
        .dstDevice = q.dst_device,
        .dstPitch = (unsigned)q.dst_pitch,
        .dstHeight = (unsigned)q.dst_height,
        .WidthInBytes = (unsigned)q.width,
        .Height = (unsigned)q.height,
        .Depth = (unsigned)q.depth,
    };
}

/* Submits a copy with the driver's parameters. */
static hipError_t driver_copy_3d(const void *p, hipStream_t stream, bool wait)
{
    struct hip_work work = {.kind = WORK_COPY};
    const hipError_t error = hip_copy_from_driver(p, &work.copy);

    return error == hipSuccess ? submit(work, stream, wait) : error;
}

HIP_EXPORT hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *p)
{
    return HIP_CALL(hipDrvMemcpy3D, driver_copy_3d(p, NULL, true));
}

HIP_EXPORT hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *p, hipStream_t stream)
{
    return HIP_CALL(hipDrvMemcpy3DAsync, driver_copy_3d(p, stream, false));
}

/* Copies a box of one plane; `wait`: blocks until it is copied. */
static hipError_t copy_param_2d(const hip_Memcpy2D *p, hipStream_t stream, bool wait)
{
    if (!p)
        return hipErrorInvalidValue;
    const struct box b = {
        .src = {hip_memory_type(p->srcMemoryType), p->srcHost, p->srcDevice, p->srcPitch, 0,
                p->srcXInBytes, p->srcY, 0},
        .dst = {hip_memory_type(p->dstMemoryType), p->dstHost, p->dstDevice, p->dstPitch, 0,
                p->dstXInBytes, p->dstY, 0},
        .width = p->WidthInBytes,
        .height = p->Height,
        .depth = 1,
    };
    return copy_box(&b, stream, wait);
}

HIP_EXPORT hipError_t hipMemcpyParam2D(const hip_Memcpy2D *p)
{
    return HIP_CALL(hipMemcpyParam2D, copy_param_2d(p, NULL, true));
}

HIP_EXPORT hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *p, hipStream_t stream)
{
    return HIP_CALL(hipMemcpyParam2DAsync, copy_param_2d(p, stream, false));
}

HIP_EXPORT hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *p)
{
    return HIP_CALL(hipDrvMemcpy2DUnaligned, copy_param_2d(p, NULL, true));
}

/* The functions from here on copy to and from symbols. */

hipError_t hip_copy_symbol(const void *symbol, const void *other, size_t size, size_t offset,
                           hipMemcpyKind kind, bool to_symbol, struct hip_copy *copy)
{
    struct hip_device *device = hip_current_device();
    void *address;
    size_t bytes;

    if (!device)
        return hipErrorNoDevice;
    hipError_t error = hip_registered_variable(symbol, device, &address, &bytes);
    if (error != hipSuccess)
        return error;
    if (offset > bytes || size > bytes - offset)
        return hip_fail(hipErrorInvalidValue, "%zu bytes at %zu do not fit a symbol of %zu bytes",
                        size, offset, bytes);
    address = (char *)address + offset;
    *copy = (struct hip_copy){.width = size, .height = 1, .depth = 1, .kind = kind};
    copy->dst = to_symbol ? address : (void *)(uintptr_t)other;
    copy->src = to_symbol ? other : address;
    return hipSuccess;
}

/* Copies to or from a device variable. */
static hipError_t symbol_copy(const void *symbol, const void *other, size_t size, size_t offset,
                              hipMemcpyKind kind, bool to_symbol, hipStream_t stream, bool wait)
{
    struct hip_work work = {.kind = WORK_COPY};
    hipError_t error = hip_copy_symbol(symbol, other, size, offset, kind, to_symbol, &work.copy);

    return error == hipSuccess ? submit(work, stream, wait) : error;
}

HIP_EXPORT hipError_t hipMemcpyToSymbol(const void *symbol, const void *src, size_t size,
                                        size_t offset, hipMemcpyKind kind)
{
    return HIP_CALL(hipMemcpyToSymbol,
                    symbol_copy(symbol, src, size, offset, kind, true, NULL, true));
}

HIP_EXPORT hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *src, size_t size,
                                             size_t offset, hipMemcpyKind kind, hipStream_t stream)
{
    return HIP_CALL(hipMemcpyToSymbolAsync,
                    symbol_copy(symbol, src, size, offset, kind, true, stream, false));
}

HIP_EXPORT hipError_t hipMemcpyFromSymbol(void *dst, const void *symbol, size_t size, size_t offset,
                                          hipMemcpyKind kind)
{
    return HIP_CALL(hipMemcpyFromSymbol,
                    symbol_copy(symbol, dst, size, offset, kind, false, NULL, true));
}

HIP_EXPORT hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t size,
                                               size_t offset, hipMemcpyKind kind,
                                               hipStream_t stream)
{
    return HIP_CALL(hipMemcpyFromSymbolAsync,
                    symbol_copy(symbol, dst, size, offset, kind, false, stream, false));
}

/* The functions from here on fill memory. */

/* Returns the work of a fill of a box with elements of `element` bytes. */
static struct hip_work fill_box(void *dst, size_t pitch, size_t slice, uint32_t value,
                                unsigned element, size_t width, size_t height, size_t depth)
{
    return (struct hip_work){
        .kind = WORK_FILL,
        .fill = {.dst = dst,
                 .pitch = pitch,
                 .slice = slice,
                 .width = width,
                 .height = height,
                 .depth = depth,
                 .element = element,
                 .value = value},
    };
}

/* Returns the work of a fill of `count` elements of `element` bytes. */
static struct hip_work fill_1d(void *dst, uint32_t value, unsigned element, size_t count)
{
    return fill_box(dst, 0, 0, value, element, count, 1, 1);
}

#define FILL_1D(name, pointer, type, element)                                                     \
    HIP_EXPORT hipError_t name(pointer dst, type value, size_t count)                             \
    {                                                                                             \
        return HIP_CALL(name, submit(fill_1d(dst, (uint32_t)value, element, count), NULL, true)); \
    }                                                                                             \
    HIP_EXPORT hipError_t name##Async(pointer dst, type value, size_t count, hipStream_t stream)  \
    {                                                                                             \
        return HIP_CALL(name##Async,                                                              \
                        submit(fill_1d(dst, (uint32_t)value, element, count), stream, false));    \
    }

FILL_1D(hipMemset, void *, int, 1)
FILL_1D(hipMemsetD8, hipDeviceptr_t, unsigned char, 1)
FILL_1D(hipMemsetD16, hipDeviceptr_t, unsigned short, 2)
FILL_1D(hipMemsetD32, hipDeviceptr_t, int, 4)

HIP_EXPORT hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height)
{
    return HIP_CALL(
        hipMemset2D,
        submit(fill_box(dst, pitch, 0, (uint32_t)value, 1, width, height, 1), NULL, true));
}

HIP_EXPORT hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width,
                                       size_t height, hipStream_t stream)
{
    return HIP_CALL(
        hipMemset2DAsync,
        submit(fill_box(dst, pitch, 0, (uint32_t)value, 1, width, height, 1), stream, false));
}

#define FILL_2D(name, type, element)                                                              \
    hipError_t name(hipDeviceptr_t dst, size_t pitch, type value, size_t width, size_t height);   \
    hipError_t name##Async(hipDeviceptr_t dst, size_t pitch, type value, size_t width,            \
                           size_t height, hipStream_t stream);                                    \
    HIP_EXPORT hipError_t name(hipDeviceptr_t dst, size_t pitch, type value, size_t width,        \
                               size_t height)                                                     \
    {                                                                                             \
        return HIP_CALL(                                                                          \
            name, submit(fill_box(dst, pitch, 0, value, element, width, height, 1), NULL, true)); \
    }                                                                                             \
    HIP_EXPORT hipError_t name##Async(hipDeviceptr_t dst, size_t pitch, type value, size_t width, \
                                      size_t height, hipStream_t stream)                          \
    {                                                                                             \
        return HIP_CALL(                                                                          \
            name##Async,                                                                          \
            submit(fill_box(dst, pitch, 0, value, element, width, height, 1), stream, false));    \
    }

FILL_2D(hipMemsetD2D8, unsigned char, 1)
FILL_2D(hipMemsetD2D16, unsigned short, 2)
FILL_2D(hipMemsetD2D32, unsigned int, 4)

/* Returns the work of a fill of a box of bytes. */
static struct hip_work fill_3d(hipPitchedPtr box, int value, hipExtent extent)
{
    return fill_box(box.ptr, box.pitch, slice_bytes(box.pitch, box.ysize), (uint32_t)value, 1,
                    extent.width, extent.height, extent.depth);
}

HIP_EXPORT hipError_t hipMemset3D(hipPitchedPtr box, int value, hipExtent extent)
{
    return HIP_CALL(hipMemset3D, submit(fill_3d(box, value, extent), NULL, true));
}

HIP_EXPORT hipError_t hipMemset3DAsync(hipPitchedPtr box, int value, hipExtent extent,
                                       hipStream_t stream)
{
    return HIP_CALL(hipMemset3DAsync, submit(fill_3d(box, value, extent), stream, false));
}
