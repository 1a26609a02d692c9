/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the initial state of a dispatch. Names of sections in comments are from AMDGPUUsage. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "memory.h"

#define MAX_THREADS 1024u
#define SIMDS 4u
#define QUEUE_BYTES 256
#define PACKET_BYTES 64
#define GRID_SYNC_BYTES 48
#define GRID_SYNC_WORKGROUPS 40
/* Bytes that LLVM reserves for calls of unknown depth before code object v5. */
#define STACK_MIN 16384u

/* Byte offsets of two words in amd_queue_t, from which code builds flat addresses. */
#define QUEUE_GROUP_APERTURE_HI 0x40
#define QUEUE_PRIVATE_APERTURE_HI 0x44

/* Returns the number of workgroups in the grid; UINT64_MAX if the product of the three sizes
 * overflows. */
static uint64_t workgroups(const struct dispatch_request *r)
{
    uint64_t count = 1;

    for (unsigned i = 0; i < 3; i++) {
        uint64_t blocks = ((uint64_t)r->grid[i] + r->block[i] - 1) / r->block[i];
        if (__builtin_mul_overflow(count, blocks, &count))
            return UINT64_MAX;
    }
    return count;
}

/* Checks the grid and block sizes of a launch, and sets the reason if they are invalid. */
static enum dispatch_status check_shape(const struct dispatch_request *r, char *why,
                                        size_t why_size)
{
    const struct kernel_metadata *m = &r->kernel->metadata;
    uint64_t threads = 1;

    for (unsigned i = 0; i < 3; i++) {
        threads *= r->block[i];
        if (r->grid[i] == 0 || r->block[i] == 0 || r->block[i] > MAX_THREADS) {
            snprintf(why, why_size,
                     "a grid of %u x %u x %u work-items in blocks of %u x %u x %u "
                     "cannot be launched",
                     r->grid[0], r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2]);
            return DISPATCH_BAD_CONFIGURATION;
        }
        if (m->required_workgroup[i] && m->required_workgroup[i] != r->block[i]) {
            snprintf(why, why_size, "the kernel requires blocks of %u x %u x %u",
                     m->required_workgroup[0], m->required_workgroup[1], m->required_workgroup[2]);
            return DISPATCH_BAD_CONFIGURATION;
        }
        if (m->uniform_workgroup && r->grid[i] % r->block[i]) {
            snprintf(why, why_size,
                     "the kernel was compiled for whole blocks, but %u work-items "
                     "are no multiple of %u",
                     r->grid[i], r->block[i]);
            return DISPATCH_BAD_CONFIGURATION;
        }
    }
    uint32_t most =
        m->max_workgroup && m->max_workgroup < MAX_THREADS ? m->max_workgroup : MAX_THREADS;
    if (threads > most) {
        snprintf(why, why_size, "a block of %llu work-items exceeds the kernel's limit of %u",
                 (unsigned long long)threads, most);
        return DISPATCH_BAD_CONFIGURATION;
    }
    return DISPATCH_OK;
}

/* Checks that a compute unit can hold all waves of a workgroup at once. */
static enum dispatch_status check_resources(const struct dispatch_request *r, char *why,
                                            size_t why_size)
{
    uint64_t lds = (uint64_t)r->kernel->descriptor.group_segment_bytes + r->dynamic_lds;
    const struct isa *isa = isa_of(r->kernel->object->target);
    uint32_t waves = (r->block[0] * r->block[1] * r->block[2] + isa->lanes - 1) / isa->lanes;
    uint32_t registers = r->kernel->vgprs + r->kernel->agprs;

    if (lds > r->lds_limit) {
        snprintf(why, why_size,
                 "the block needs %llu bytes of LDS (%u of them dynamic), the "
                 "device has %u",
                 (unsigned long long)lds, r->dynamic_lds, r->lds_limit);
        return DISPATCH_TOO_LARGE;
    }
    if ((waves + SIMDS - 1) / SIMDS * registers > isa->vgprs) {
        snprintf(why, why_size, "%u waves of %u vector registers do not fit a compute unit", waves,
                 registers);
        return DISPATCH_TOO_LARGE;
    }
    return DISPATCH_OK;
}

/* Allocates a block of device memory. NULL: no memory. */
static void *device_block(const struct dispatch_request *r, size_t size, enum hipsim_mem_kind kind)
{
    struct hipsim_mem_request request = {
        .size = size, .alignment = 256, .kind = kind, .device = r->device};
    void *block = hipsim_mem_alloc(&request);

    if (block)
        memset(block, 0, size);
    return block;
}

/* The functions from here on write the arguments. */

/* Returns the value of a hidden argument (AMDGPUUsage, "Hidden arguments"). */
static uint64_t hidden_value(const struct dispatch_request *r, const struct dispatch *d,
                             enum argument_kind kind)
{
    switch (kind) {
    case ARG_BLOCK_COUNT_X:
    case ARG_BLOCK_COUNT_Y:
    case ARG_BLOCK_COUNT_Z: {
        unsigned i = kind - ARG_BLOCK_COUNT_X;
        return r->grid[i] / r->block[i]; /* a partial workgroup does not count */
    }
    case ARG_GROUP_SIZE_X:
    case ARG_GROUP_SIZE_Y:
    case ARG_GROUP_SIZE_Z: return r->block[kind - ARG_GROUP_SIZE_X];
    case ARG_REMAINDER_X:
    case ARG_REMAINDER_Y:
    case ARG_REMAINDER_Z: {
        unsigned i = kind - ARG_REMAINDER_X;
        return r->grid[i] % r->block[i];
    }
    case ARG_GRID_DIMS: return 3; /* HIP always dispatches three dimensions */
    case ARG_HOSTCALL_BUFFER: return r->hostcall_buffer;
    case ARG_DYNAMIC_LDS_SIZE: return r->dynamic_lds;
    case ARG_PRIVATE_BASE: return PRIVATE_APERTURE >> 32;
    case ARG_SHARED_BASE: return SHARED_APERTURE >> 32;
    case ARG_QUEUE_PTR: return (uintptr_t)d->queue;
    case ARG_MULTIGRID_SYNC: return (uintptr_t)d->grid_sync;
    default:
        /* HIP has no global offsets and no device-side queues. The heap is for runtimes that
         * support malloc() in kernels, which hipsim does not. Kernels that print to a buffer were
         * refused earlier. */
        return 0;
    }
}

/* Writes the kernel's argument block. */
static enum dispatch_status write_arguments(const struct dispatch_request *r, struct dispatch *d,
                                            char *why, size_t why_size)
{
    const struct kernel *kernel = r->kernel;
    uint32_t size = kernel->metadata.kernarg_bytes;

    if (kernel->descriptor.kernarg_bytes > size)
        size = kernel->descriptor.kernarg_bytes;
    if (r->args_bytes > size) {
        snprintf(why, why_size, "%zu bytes of arguments were passed, the kernel takes %u",
                 r->args_bytes, size);
        return DISPATCH_BAD_ARGUMENTS;
    }
    /* "Kernel Argument": the segment's address and size must be multiples of 16. */
    d->kernarg = device_block(r, (size + 16u) & ~15u, HIPSIM_MEM_KERNARG);
    if (!d->kernarg)
        return DISPATCH_OUT_OF_MEMORY;
    if (r->args_bytes)
        memcpy(d->kernarg, r->args, r->args_bytes);
    hipsim_mem_mark((uintptr_t)d->kernarg, r->args_bytes);
    for (uint32_t i = 0; i < kernel->metadata.nargs; i++) {
        const struct kernel_argument *arg = &kernel->metadata.args[i];
        if (!argument_is_hidden(arg->kind))
            continue;
        uint64_t value = hidden_value(r, d, arg->kind);
        memcpy(d->kernarg + arg->offset, &value, arg->size < 8 ? arg->size : 8);
        hipsim_mem_mark((uintptr_t)d->kernarg + arg->offset, arg->size);
    }
    return DISPATCH_OK;
}

/* The functions from here on write the packet and the queue. */

/* Stores the lower 16 bits of `value` at p. */
static void put16(uint8_t *p, uint32_t value) { memcpy(p, &value, 2); }

/* Stores 32 bits at p. */
static void put32(uint8_t *p, uint32_t value) { memcpy(p, &value, 4); }

/* Stores 64 bits at p. */
static void put64(uint8_t *p, uint64_t value) { memcpy(p, &value, 8); }

/* Writes the launch's hsa_kernel_dispatch_packet_t (HSA Runtime Programmer's Reference Manual 1.2,
 * 2.9.6). */
static void write_packet(const struct dispatch_request *r, struct dispatch *d)
{
    const uint32_t header = 2 /* kernel dispatch */ | 2 << 9 | 2 << 11 /* system scope fences */;
    uint8_t *p = d->packet;

    put16(p, header);
    put16(p + 2, 3); /* number of dimensions */
    for (unsigned i = 0; i < 3; i++) {
        put16(p + 4 + 2 * i, r->block[i]);
        put32(p + 12 + 4 * i, r->grid[i]);
    }
    put32(p + 24, d->launch.private_bytes);
    put32(p + 28, d->launch.lds_bytes);
    put64(p + 32, r->kernel->descriptor_address);
    put64(p + 40, (uintptr_t)d->kernarg);
    hipsim_mem_mark((uintptr_t)p, PACKET_BYTES);
}

/* Adds the record through which workgroups of a cooperative launch synchronise if the device
 * libraries do not use GWS (their struct mg_info, ROCm 5.7 or later). It has a pair of counters
 * that begin at 0, and the number of workgroups. Members for several devices are 0, as in HIP's
 * runtime. Kernels access it by plain atomics, which order the workgroups. */
static bool add_grid_sync(const struct dispatch_request *r, struct dispatch *d)
{
    if (!r->cooperative)
        return true;
    d->grid_sync = device_block(r, GRID_SYNC_BYTES, HIPSIM_MEM_DEVICE);
    if (!d->grid_sync)
        return false;
    put32(d->grid_sync + GRID_SYNC_WORKGROUPS, (uint32_t)workgroups(r));
    hipsim_mem_mark((uintptr_t)d->grid_sync, GRID_SYNC_BYTES);
    return true;
}

/* Writes the fields of the queue that kernels read. */
static void write_queue(struct dispatch *d)
{
    put32(d->queue + 24 + 8, 1); /* hsa_queue_t.size: one packet */
    put64(d->queue + 8, (uintptr_t)d->packet);
    put32(d->queue + QUEUE_GROUP_APERTURE_HI, SHARED_APERTURE >> 32);
    put32(d->queue + QUEUE_PRIVATE_APERTURE_HI, PRIVATE_APERTURE >> 32);
    hipsim_mem_mark((uintptr_t)d->queue, QUEUE_BYTES);
}

/* The functions from here on set up the user SGPRs of waves. */

/* Appends a value to the launch's user SGPRs. *at is the number of SGPRs so far. */
static void push32(struct launch *launch, uint32_t *at, uint32_t value)
{
    launch->user_sgpr[(*at)++] = value;
}

/* Appends a 64-bit value to the launch's user SGPRs. */
static void push64(struct launch *launch, uint32_t *at, uint64_t value)
{
    push32(launch, at, (uint32_t)value);
    push32(launch, at, (uint32_t)(value >> 32));
}

/*
 * Writes the user SGPRs in the order of "SGPR Register Set Up Order". gfx942 and gfx950 have
 * architected flat scratch. The buffer resource and the flat scratch words need no address, since
 * hipsim's private memory has none. They are zero, and a buffer access through a zero resource is
 * out of bounds.
 */
static void write_user_sgprs(const struct dispatch_request *r, struct dispatch *d)
{
    const struct kernel_descriptor *desc = &r->kernel->descriptor;
    struct launch *launch = &d->launch;
    uint32_t at = 0;

    if (desc->properties & KERNEL_PRIVATE_SEGMENT_BUFFER) {
        push64(launch, &at, 0);
        push64(launch, &at, 0);
    }
    if (desc->properties & KERNEL_DISPATCH_PTR)
        push64(launch, &at, (uintptr_t)d->packet);
    if (desc->properties & KERNEL_QUEUE_PTR)
        push64(launch, &at, (uintptr_t)d->queue);
    if (desc->properties & KERNEL_KERNARG_SEGMENT_PTR)
        push64(launch, &at, (uintptr_t)d->kernarg);
    if (desc->properties & KERNEL_DISPATCH_ID)
        push64(launch, &at, r->dispatch_id);
    if (desc->properties & KERNEL_FLAT_SCRATCH_INIT)
        push64(launch, &at, 0);
    if (desc->properties & KERNEL_PRIVATE_SEGMENT_SIZE)
        push32(launch, &at, launch->private_bytes);
    for (uint32_t i = 0; i < desc->preload_dwords; i++) {
        uint32_t word;
        memcpy(&word, d->kernarg + 4 * ((size_t)desc->preload_offset + i), 4);
        push32(launch, &at, word);
    }
    launch->nuser_sgpr = r->kernel->user_sgprs;
}

/* Sets the launch's sizes and registers from the kernel's descriptor. */
static void describe_launch(const struct dispatch_request *r, struct launch *launch)
{
    const struct kernel *kernel = r->kernel;
    uint32_t rsrc2 = kernel->descriptor.rsrc2;
    /* GFX12 has the workgroup's number in trap temporaries, not in SGPRs. */
    const bool gfx9 = !isa_of(kernel->object->target)->gfx12;

    launch->code = kernel->object->code;
    launch->kernel = kernel->name;
    /* "Preloaded Kernel Arguments": a kernel's first 256 bytes load the arguments where the
     * firmware does not preload them. Firmware that does skips them. GFX12 has no such code. */
    launch->entry_pc = kernel->entry;
    launch->entry_skip = gfx9 && kernel->descriptor.preload_dwords ? 256 : 0;
    for (unsigned i = 0; i < 3; i++) {
        launch->grid[i] = r->grid[i];
        launch->block[i] = r->block[i];
        launch->sgpr_workgroup_id[i] = gfx9 && rsrc2 >> (7 + i) & 1;
    }
    launch->sgpr_workgroup_info = gfx9 && rsrc2 >> 10 & 1;
    launch->nvgpr = kernel->vgprs;
    launch->nagpr = kernel->agprs;
    launch->nsgpr = kernel->sgprs;
    launch->named_barriers = kernel->named_barriers;
    memcpy(launch->cluster, r->cluster, sizeof(launch->cluster));
    launch->mode = kernel->mode;
    launch->lds_bytes = kernel->descriptor.group_segment_bytes + r->dynamic_lds;
    launch->lds_limit = r->lds_limit;
    launch->private_bytes = kernel->descriptor.private_segment_bytes;
    if (kernel->descriptor.properties & KERNEL_USES_DYNAMIC_STACK)
        launch->private_bytes += r->stack_bytes > STACK_MIN ? r->stack_bytes : STACK_MIN;
}

enum dispatch_status dispatch_prepare(const struct dispatch_request *request,
                                      struct dispatch *dispatch, char *why, size_t why_size)
{
    *dispatch = (struct dispatch){.kernarg = NULL};
    enum dispatch_status status = check_shape(request, why, why_size);
    if (status == DISPATCH_OK)
        status = check_resources(request, why, why_size);
    if (status != DISPATCH_OK)
        return status;
    if (workgroups(request) > UINT32_MAX) {
        snprintf(why, why_size, "a grid of %llu blocks is absurd",
                 (unsigned long long)workgroups(request));
        return DISPATCH_BAD_CONFIGURATION;
    }
    describe_launch(request, &dispatch->launch);
    dispatch->packet = device_block(request, PACKET_BYTES, HIPSIM_MEM_KERNARG);
    dispatch->queue = device_block(request, QUEUE_BYTES, HIPSIM_MEM_RUNTIME);
    status = dispatch->packet && dispatch->queue && add_grid_sync(request, dispatch)
                 ? write_arguments(request, dispatch, why, why_size)
                 : DISPATCH_OUT_OF_MEMORY;
    if (status == DISPATCH_OK) {
        write_packet(request, dispatch);
        write_queue(dispatch);
        write_user_sgprs(request, dispatch);
        return DISPATCH_OK;
    }
    if (status == DISPATCH_OUT_OF_MEMORY)
        snprintf(why, why_size, "out of memory for the dispatch");
    dispatch_release(dispatch);
    return status;
}

void dispatch_release(struct dispatch *dispatch)
{
    hipsim_mem_free(dispatch->kernarg);
    hipsim_mem_free(dispatch->packet);
    hipsim_mem_free(dispatch->queue);
    hipsim_mem_free(dispatch->grid_sync);
    dispatch->kernarg = dispatch->packet = dispatch->queue = dispatch->grid_sync = NULL;
}
