/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: from the forms of the API to kernel work, and from kernel work to the engine. */
#include "hip.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hip_clock.h"
#include "hip_counters.h"
#include "hip_debug.h"
#include "hip_findings.h"
#include "hip_order.h"
#include "hipsim_time.h"
#include "launch.h"
#include "time_api.h"

/* The functions from here on copy a kernel's arguments. */

/* Copies the arguments that `params` points to into a block in *work. The block's padding is
 * zero. */
static hipError_t pack_params(const struct kernel *kernel, void **params, struct hip_work *work)
{
    const struct kernel_metadata *m = &kernel->metadata;
    uint32_t bytes = metadata_explicit_bytes(m);
    uint32_t next = 0;

    if (bytes > 0 && !params)
        return hip_fail(hipErrorInvalidValue, "kernel %s takes arguments, but none were passed",
                        kernel->name);
    work->kernel.args = calloc(1, bytes + 1u);
    work->kernel.args_bytes = bytes;
    if (!work->kernel.args)
        return hipErrorOutOfMemory;
    for (uint32_t i = 0; i < m->nargs; i++) {
        const struct kernel_argument *arg = &m->args[i];
        if (argument_is_hidden(arg->kind))
            continue;
        const void *value = params[next++];
        if (!value)
            return hip_fail(hipErrorInvalidValue, "argument %u of kernel %s is a null pointer",
                            next - 1, kernel->name);
        char *to = (char *)work->kernel.args + arg->offset;
        if (arg->kind == ARG_VALUE)
            memcpy(to, value, arg->size);
        else /* dynamic LDS is after the static LDS */
            memcpy(to, &kernel->descriptor.group_segment_bytes, arg->size < 4 ? arg->size : 4);
    }
    return hipSuccess;
}

/* Copies the arguments from `extra`, a list of keys and values with a pointer to the packed block
 * and its size. HIP copies the bytes that the kernel declares and does not check the size. Programs
 * therefore launch kernels with blocks that end before arguments that are not used. Missing bytes
 * are undefined here. */
static hipError_t pack_extra(const struct kernel *kernel, void **extra, struct hip_work *work)
{
    const void *block = NULL;
    size_t size = 0;

    for (unsigned i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
        if (i >= 4 ||
            (extra[i] != HIP_LAUNCH_PARAM_BUFFER_POINTER &&
             extra[i] != HIP_LAUNCH_PARAM_BUFFER_SIZE) ||
            !extra[i + 1])
            return hip_fail(hipErrorInvalidValue, "`extra` holds an unknown key");
        if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
            block = extra[i + 1];
        else
            size = *(const size_t *)extra[i + 1];
    }
    uint32_t needed = metadata_explicit_bytes(&kernel->metadata);
    uint32_t most = kernel->metadata.kernarg_bytes;
    if (most < kernel->descriptor.kernarg_bytes)
        most = kernel->descriptor.kernarg_bytes;
    if (!block != !size || (needed && !block))
        return hip_fail(hipErrorInvalidValue,
                        "`extra` passes %zu bytes of arguments %s, kernel "
                        "%s takes %u",
                        size, block ? "at an address" : "at no address", kernel->name, needed);
    if (size > most)
        size = most;
    work->kernel.args = calloc(1, size + 1);
    work->kernel.args_bytes = size;
    if (!work->kernel.args)
        return hipErrorOutOfMemory;
    if (size)
        memcpy(work->kernel.args, block, size);
    return hipSuccess;
}

hipError_t hip_kernel_work(struct ihipModuleSymbol_t *function, const uint32_t grid[3],
                           const uint32_t block[3], size_t dynamic_lds, void **params, void **extra,
                           struct hip_work *work)
{
    *work = (struct hip_work){.kind = WORK_KERNEL};
    for (unsigned i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0)
            return hip_fail(hipErrorInvalidConfiguration,
                            "kernel %s: a grid of %u x %u x %u "
                            "work-items in blocks of %u x %u x %u cannot be launched",
                            function->kernel->name, grid[0], grid[1], grid[2], block[0], block[1],
                            block[2]);
    if (dynamic_lds > UINT32_MAX)
        return hip_fail(hipErrorInvalidValue, "%zu bytes of dynamic LDS are absurd", dynamic_lds);
    if (params && extra)
        return hip_fail(hipErrorInvalidValue, "both kernelParams and `extra` were passed");
    hipError_t error = extra ? pack_extra(function->kernel, extra, work)
                             : pack_params(function->kernel, params, work);
    if (error != hipSuccess) {
        free(work->kernel.args);
        work->kind = WORK_EMPTY;
        return error;
    }
    work->kernel.function = function;
    hip_object_ref(function);
    for (unsigned i = 0; i < 3; i++) {
        work->kernel.grid[i] = grid[i];
        work->kernel.block[i] = block[i];
    }
    work->kernel.dynamic_lds = (uint32_t)dynamic_lds;
    return hipSuccess;
}

hipError_t hip_kernel_work_blocks(struct ihipModuleSymbol_t *function, dim3 grid, dim3 block,
                                  size_t dynamic_lds, void **params, void **extra,
                                  struct hip_work *work)
{
    const uint32_t blocks[3] = {grid.x, grid.y, grid.z};
    const uint32_t size[3] = {block.x, block.y, block.z};
    uint32_t items[3];

    for (unsigned i = 0; i < 3; i++)
        if (__builtin_mul_overflow(blocks[i], size[i], &items[i]))
            return hip_fail(hipErrorInvalidConfiguration,
                            "%u blocks of %u work-items exceed 32 bits", blocks[i], size[i]);
    return hip_kernel_work(function, items, size, dynamic_lds, params, extra, work);
}

/* The functions from here on run launches. */

/* Returns the error of a launch that ended with a fault of this kind. */
static hipError_t fault_error(enum fault_kind kind)
{
    switch (kind) {
    case FAULT_MEMORY: return hipErrorIllegalAddress;
    case FAULT_DEADLOCK:
    case FAULT_BUDGET: return hipErrorLaunchTimeOut;
    case FAULT_TRAP: return hipErrorAssert;
    default: return hipErrorLaunchFailure;
    }
}

static struct hipsim_margin margin_of(arrival_margin m)
{
    return (struct hipsim_margin){
        .any = m != UINT64_MAX,
        .clocks = (uint32_t)(m >> MARGIN_OFFSET_BITS),
        .offset = (int64_t)(m & ((UINT64_C(1) << MARGIN_OFFSET_BITS) - 1)),
    };
}

/* Returns the figures of a finished launch, without its time. */
static struct hipsim_launch_stats statistics(const struct launch *launch, int device)
{
    const struct counters *c = &launch->counters;
    struct hipsim_launch_stats stats = {
        .size = sizeof(stats),
        .findings = launch->findings,
        .kernel = launch->kernel,
        .lds_bytes = launch->lds_bytes,
        .vgprs = launch->nvgpr,
        .agprs = launch->nagpr,
        .sgprs = launch->nsgpr,
        .private_bytes = launch->private_bytes,
        .workgroups = c->workgroups,
        .waves = c->waves,
        .instructions = c->instructions,
        .salu = c->salu,
        .valu = c->valu,
        .mfma = c->mfma,
        .vmem = c->vmem,
        .smem = c->smem,
        .lds = c->lds,
        .branch = c->branch,
        .device = device,
        .lds_before = margin_of(launch->margins[MARGIN_LDS].before),
        .lds_after = margin_of(launch->margins[MARGIN_LDS].after),
        .vector_before = margin_of(launch->margins[MARGIN_VECTOR].before),
        .vector_after = margin_of(launch->margins[MARGIN_VECTOR].after),
    };

    memcpy(stats.grid, launch->grid, sizeof(stats.grid));
    memcpy(stats.block, launch->block, sizeof(stats.block));
    return stats;
}

static void print_statistics(const struct hipsim_launch_stats *s)
{
    fprintf(stderr,
            "hipsim: %s: grid %u x %u x %u, block %u x %u x %u, %" PRIu64 " instructions "
            "(%" PRIu64 " VALU, %" PRIu64 " MFMA, %" PRIu64 " VMEM, %" PRIu64 " LDS), "
            "%.3f us modelled\n",
            s->kernel, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
            s->instructions, s->valu, s->mfma, s->vmem, s->lds, s->microseconds);
}

static void print_margin(const struct hipsim_margin *m, const char *side)
{
    if (m->any)
        fprintf(stderr, ", %u clocks %s at code+%" PRId64, m->clocks, side, m->offset);
}

static void print_margins(const char *kernel, const char *what, const struct hipsim_margin *before,
                          const struct hipsim_margin *after)
{
    if (!before->any && !after->any)
        return;
    fprintf(stderr, "hipsim: %s: uses %s", kernel, what);
    print_margin(before, "before the data");
    print_margin(after, "after them");
    fputc('\n', stderr);
}

static void print_time(void)
{
    struct hipsim_time_report report = {.size = sizeof(report)};
    char text[2000];

    if (!hipsim_time_last(&report))
        return;
    hipsim_time_format(&report, text, sizeof(text));
    fputs(text, stderr);
}

/* Reports that a check was incomplete, if the user has requested that check by `checks` or `halt`.
 * Only the first such launch is reported, since later ones are likely to be as large. */
static void say_incomplete(const struct launch *launch, const struct options *options)
{
    const bool asked = options->checks != CHECK_DEFAULT || options->halt & CHECK_RACE;
    static _Atomic bool said;
    char text[400];
    struct hipsim_report report = {.kind = "note", .kernel = launch->kernel, .text = text};

    if (!launch->race_incomplete || !asked || atomic_exchange(&said, true))
        return;
    snprintf(text, sizeof(text),
             "the race check ran out of room in kernel %s: of the accesses to global "
             "memory that came later some or all were not compared",
             launch->kernel);
    hip_findings_note(&report);
    hip_report(&report);
}

/* Reports that only a sample of the workgroups ran. Only the first such launch is reported. */
static void say_sampled(const struct launch *launch)
{
    uint64_t groups = 1;
    static _Atomic bool said;
    char text[400];
    struct hipsim_report report = {.kind = "note", .kernel = launch->kernel, .text = text};

    for (unsigned d = 0; d < 3; d++)
        groups *= ((uint64_t)launch->grid[d] + launch->block[d] - 1) / launch->block[d];
    if (!launch->sample || launch->counters.workgroups >= groups || atomic_exchange(&said, true))
        return;
    snprintf(text, sizeof(text),
             "%" PRIu64 " of %" PRIu64 " workgroups of kernel %s ran, as option sample says: the "
             "others stored nothing, and no check saw them or races with them",
             launch->counters.workgroups, groups, launch->kernel);
    hip_findings_note(&report);
    hip_report(&report);
}

/* Records a finished launch in the thread's statistics, and adds its time to *time. `modelled` is
 * the timing model's microseconds, negative if the launch was not timed. `print`: prints a line. */
static void note_launch(const struct launch *launch, struct hip_device *device, bool print,
                        double modelled, double *time)
{
    struct hip_thread *thread = hip_thread();

    thread->stats = statistics(launch, device->ordinal);
    thread->stats.microseconds =
        modelled >= 0 ? modelled : hip_clock_launch(&thread->stats, device->facts);
    thread->has_launched = true;
    *time += thread->stats.microseconds;
    struct hipsim_time_report report = {.size = sizeof(report)};
    const bool timed = modelled >= 0 && hipsim_time_last(&report);
    hip_counters_write(&thread->stats, timed ? &report : NULL);
    if (print) {
        print_statistics(&thread->stats);
        print_margins(thread->stats.kernel, "registers without waiting for LDS",
                      &thread->stats.lds_before, &thread->stats.lds_after);
        print_margins(thread->stats.kernel, "data of vector memory without waiting",
                      &thread->stats.vector_before, &thread->stats.vector_after);
    }
}

/* True if the kernel was compiled with -mprintf-kind=buffered, so that its printf would use a
 * buffer of the runtime and formats in the metadata. Assembly may name the argument without formats
 * and not use it. */
static bool prints_into_buffer(const struct kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->metadata.nargs; i++)
        if (kernel->metadata.args[i].kind == ARG_PRINTF_BUFFER)
            return kernel->object->metadata.nprintf_formats > 0;
    return false;
}

/* Builds the dispatch of a kernel: arguments, packet and registers. */
static hipError_t prepare(const struct hip_kernel_work *work, struct hip_device *device,
                          struct dispatch *dispatch)
{
    static _Atomic uint64_t dispatches;
    const struct kernel *kernel = work->function->kernel;
    char why[400];
    struct dispatch_request request = {
        .kernel = kernel,
        .dynamic_lds = work->dynamic_lds,
        .args = work->args,
        .args_bytes = work->args_bytes,
        .stack_bytes = (uint32_t)device->limits[0],
        .lds_limit = device->facts->lds_bytes,
        .device = (unsigned)device->ordinal,
        .dispatch_id = atomic_fetch_add(&dispatches, 1),
        .hostcall_buffer = hip_hostcall_buffer(device, kernel),
        .cooperative = work->cooperative,
    };
    memcpy(request.cluster, work->cluster, sizeof(request.cluster));

    if (prints_into_buffer(kernel))
        return hip_fail(hipErrorNotSupported,
                        "kernel %s prints into a buffer, which is not "
                        "simulated; compile it with -mprintf-kind=hostcall",
                        kernel->name);
    memcpy(request.grid, work->grid, sizeof(request.grid));
    memcpy(request.block, work->block, sizeof(request.block));
    switch (dispatch_prepare(&request, dispatch, why, sizeof(why))) {
    case DISPATCH_OK: return hipSuccess;
    case DISPATCH_BAD_CONFIGURATION:
        return hip_fail(hipErrorInvalidConfiguration, "kernel %s: %s", kernel->name, why);
    case DISPATCH_TOO_LARGE:
        return hip_fail(hipErrorLaunchOutOfResources, "kernel %s: %s", kernel->name, why);
    case DISPATCH_BAD_ARGUMENTS:
        return hip_fail(hipErrorInvalidValue, "kernel %s: %s", kernel->name, why);
    case DISPATCH_OUT_OF_MEMORY: break;
    }
    return hip_fail(hipErrorOutOfMemory, "kernel %s: %s", kernel->name, why);
}

/* Refuses a cooperative launch whose workgroups the device cannot hold at once. */
static hipError_t check_residency(const struct hip_kernel_work *work,
                                  const struct hip_device *device)
{
    uint64_t blocks = 1;
    uint32_t threads = work->block[0] * work->block[1] * work->block[2];

    for (unsigned i = 0; i < 3; i++)
        blocks *= work->grid[i] / work->block[i];
    int fit = hip_occupancy(work->function->kernel, threads, work->dynamic_lds, device->facts);
    if (blocks <= (uint64_t)fit * (uint64_t)device->facts->compute_units)
        return hipSuccess;
    return hip_fail(hipErrorCooperativeLaunchTooLarge,
                    "%" PRIu64 " blocks cannot be resident together: %d fit on each of %d units",
                    blocks, fit, device->facts->compute_units);
}

/* Sets the members of *launch that the options and `work` determine. */
static void configure(struct launch *launch, const struct hip_kernel_work *work,
                      const struct hip_device *device, const struct options *options)
{
    launch->checks = (uint32_t)options->checks | (options->hints ? CHECK_HINT : 0);
    launch->part = device->facts->part;
    launch->order = options->seed ? ORDER_SEEDED : ORDER_BY_CLOCK;
    launch->seed = options->seed;
    launch->budget = options->budget;
    launch->threads = (uint32_t)options->threads;
    launch->sample = options->sample;
    launch->latency = (uint32_t)options->latency;
    launch->keep_going = (CHECK_ALL & ~(uint32_t)options->halt) | CHECK_HINT;
    launch->cooperative = work->cooperative;
    launch->follows = work->follows;
    launch->may_wait = hip_order_may_postpone() && !work->cooperative;
    launch->sendmsg = hip_hostcall_message;
}

hipError_t hip_kernel_run(const struct hip_kernel_work *work, struct hip_device *device,
                          double *time)
{
    const struct options options = hip_options();
    struct dispatch dispatch;
    hipError_t error;

    if (work->function->module->code->device != (unsigned)device->ordinal)
        return hip_fail(hipErrorInvalidHandle,
                        "kernel %s was loaded for device %u, the stream "
                        "belongs to device %d",
                        work->function->kernel->name, work->function->module->code->device,
                        device->ordinal);
    error = prepare(work, device, &dispatch);
    if (error == hipSuccess && work->cooperative)
        error = check_residency(work, device);
    if (error != hipSuccess)
        return error;
    struct launch *launch = &dispatch.launch;
    configure(launch, work, device, &options);
    hip_findings_watch(launch, work->function->module);
    hip_order_watch(launch);
    if (!(options.checks & CHECK_UNINIT))
        hipsim_mem_trust_existing();
    double modelled;
    const bool debugged = hip_debug_begin(launch, work->function->module);
    const int ended = time_run(launch, options.time && !debugged, &modelled);
    if (debugged)
        hip_debug_end();
    /* the kernel waits for values that the host may still store */
    const bool postponed = launch->polls;
    if (postponed) /* the findings so far are reported */
        launch->fault.kind = FAULT_NONE;
    for (const struct finding *f = launch->first_finding; f; f = f->next)
        hip_findings_report(launch, work->function->module, &f->fault);
    hip_findings_count(launch);
    hip_note_findings(launch->findings);
    say_incomplete(launch, &options);
    if (ended == 0)
        say_sampled(launch);
    if (postponed) {
        error = hipErrorNotReady;
    } else if (ended != 0) {
        hip_findings_report(launch, work->function->module, &launch->fault);
        error = fault_error(launch->fault.kind);
    }
    hip_hostcall_serve(device);
    if (!postponed)
        note_launch(launch, device, options.stats, modelled, time);
    if (options.time && modelled >= 0 && !postponed)
        print_time();
    launch_forget_findings(launch);
    dispatch_release(&dispatch);
    return error;
}

/* From here on there are functions of the HIP API. */

/* Optional parts of a launch. */
struct launch_extras {
    hipEvent_t start, stop; /* events before and after the kernel; NULL: none */
    uint32_t cluster[3];    /* workgroups of a cluster by dimension; 0: no clusters */
};

static hipError_t record(hipEvent_t event, hipStream_t stream)
{
    return event ? hip_event_record(event, stream) : hipSuccess;
}

static hipError_t submit_kernel(struct ihipModuleSymbol_t *function, hipError_t error,
                                struct hip_work work, hipStream_t stream,
                                struct launch_extras extras)
{
    hip_object_put(function);
    if (error != hipSuccess)
        return error;
    error = record(extras.start, stream);
    if (error != hipSuccess) {
        hip_work_release(&work);
        return error;
    }
    error = hip_submit(stream, work);
    return error == hipSuccess ? record(extras.stop, stream) : error;
}

/* Refuses grids that clr's hipModuleLaunchKernel refuses before it examines the kernel: more than
 * INT32_MAX blocks in x, or UINT16_MAX + 1 in y or z. Source: ROCm/clr f9f995c6d, lines 501 to 505
 * of hipamd/src/hip_module.cpp. Its launches of host functions, and launches with a grid in
 * work-items, have no such limit before gfx12 (hip_platform.cpp, ihipLaunchKernel). */
static hipError_t check_blocks(const uint32_t grid[3])
{
    const uint32_t most_yz = UINT16_MAX + 1;

    if (grid[0] <= INT32_MAX && grid[1] <= most_yz && grid[2] <= most_yz)
        return hipSuccess;
    return hip_fail(hipErrorInvalidValue,
                    "a grid of %u x %u x %u blocks: at most %d in x, and %u in y and in z, are "
                    "launched",
                    grid[0], grid[1], grid[2], INT32_MAX, most_yz);
}

/* Launches a module's function. `grid` counts blocks, or work-items if `grid_in_items`. */
static hipError_t launch_module(hipFunction_t handle, const uint32_t grid[3], dim3 block,
                                bool grid_in_items, size_t lds, hipStream_t stream, void **params,
                                void **extra, struct launch_extras extras)
{
    struct hip_work work;
    struct ihipModuleSymbol_t *function;
    hipError_t error = grid_in_items ? hipSuccess : check_blocks(grid);

    if (error != hipSuccess)
        return error;
    error = hip_function_on(handle, hip_stream_device(stream), &function);
    if (error != hipSuccess)
        return hip_fail(hipErrorInvalidHandle, "the function handle %p is invalid", (void *)handle);
    if (grid_in_items)
        error = hip_kernel_work(function, grid, (uint32_t[]){block.x, block.y, block.z}, lds,
                                params, extra, &work);
    else
        error = hip_kernel_work_blocks(function, (dim3){grid[0], grid[1], grid[2]}, block, lds,
                                       params, extra, &work);
    if (error == hipSuccess) {
        work.kernel.host_function = handle;
        memcpy(work.kernel.cluster, extras.cluster, sizeof(work.kernel.cluster));
    }
    return submit_kernel(function, error, work, stream, extras);
}

/* Launches the kernel with host function `host` on the stream's device, also if another device is
 * current, as clr's ihipLaunchKernel() does. */
static hipError_t launch_host(const void *host, dim3 grid, dim3 block, void **params, size_t lds,
                              hipStream_t stream, bool cooperative, struct launch_extras extras)
{
    struct hip_work work;
    struct ihipModuleSymbol_t *function;
    hipError_t error = hip_function_on(host, hip_stream_device(stream), &function);

    if (error != hipSuccess)
        return hip_fail(error, "%p is no kernel of this program", host);
    error = hip_kernel_work_blocks(function, grid, block, lds, params, NULL, &work);
    if (error == hipSuccess) {
        work.kernel.host_function = host;
        work.kernel.cooperative = cooperative;
        memcpy(work.kernel.cluster, extras.cluster, sizeof(work.kernel.cluster));
    }
    return submit_kernel(function, error, work, stream, extras);
}

#define NO_EXTRAS ((struct launch_extras){NULL, NULL, {0}})

hipError_t hip_launch_packed(const void *host, dim3 grid, dim3 block, size_t lds,
                             hipStream_t stream, void **extra)
{
    struct hip_work work;
    struct ihipModuleSymbol_t *function;
    hipError_t error = hip_function_on(host, hip_stream_device(stream), &function);

    if (error != hipSuccess)
        return hip_fail(error, "%p is no kernel of this program", host);
    error = hip_kernel_work_blocks(function, grid, block, lds, NULL, extra, &work);
    if (error == hipSuccess)
        work.kernel.host_function = host;
    return submit_kernel(function, error, work, stream, NO_EXTRAS);
}

HIP_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x,
                                            unsigned int grid_y, unsigned int grid_z,
                                            unsigned int block_x, unsigned int block_y,
                                            unsigned int block_z, unsigned int lds,
                                            hipStream_t stream, void **params, void **extra)
{
    return HIP_CALL(hipModuleLaunchKernel,
                    launch_module(function, (uint32_t[]){grid_x, grid_y, grid_z},
                                  (dim3){block_x, block_y, block_z}, false, lds, stream, params,
                                  extra, NO_EXTRAS));
}

/* Two extensions whose grid counts work-items. HIP's headers declare them as C++ functions. */
hipError_t ext_module_launch(
    hipFunction_t function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
    uint32_t block_y, uint32_t block_z, size_t lds, hipStream_t stream, void **params, void **extra,
    hipEvent_t start, hipEvent_t stop,
    uint32_t
        flags) __asm__("_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_t"
                       "PPvS4_P11ihipEvent_tS6_j");
hipError_t hcc_module_launch(
    hipFunction_t function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
    uint32_t block_y, uint32_t block_z, size_t lds, hipStream_t stream, void **params, void **extra,
    hipEvent_t start,
    hipEvent_t
        stop) __asm__("_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_t"
                      "PPvS4_P11ihipEvent_tS6_");

HIP_EXPORT hipError_t ext_module_launch(hipFunction_t function, uint32_t grid_x, uint32_t grid_y,
                                        uint32_t grid_z, uint32_t block_x, uint32_t block_y,
                                        uint32_t block_z, size_t lds, hipStream_t stream,
                                        void **params, void **extra, hipEvent_t start,
                                        hipEvent_t stop, uint32_t flags)
{
    (void)flags;
    return HIP_CALL(hipExtModuleLaunchKernel,
                    launch_module(function, (uint32_t[]){grid_x, grid_y, grid_z},
                                  (dim3){block_x, block_y, block_z}, true, lds, stream, params,
                                  extra, (struct launch_extras){start, stop, {0}}));
}

HIP_EXPORT hipError_t hcc_module_launch(hipFunction_t function, uint32_t grid_x, uint32_t grid_y,
                                        uint32_t grid_z, uint32_t block_x, uint32_t block_y,
                                        uint32_t block_z, size_t lds, hipStream_t stream,
                                        void **params, void **extra, hipEvent_t start,
                                        hipEvent_t stop)
{
    return ext_module_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds,
                             stream, params, extra, start, stop, 0);
}

HIP_EXPORT hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **params,
                                      size_t lds, hipStream_t stream)
{
    return HIP_CALL(hipLaunchKernel,
                    launch_host(function, grid, block, params, lds, stream, false, NO_EXTRAS));
}

HIP_EXPORT hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **params,
                                         size_t lds, hipStream_t stream, hipEvent_t start,
                                         hipEvent_t stop, int flags)
{
    (void)flags;
    return HIP_CALL(hipExtLaunchKernel,
                    launch_host(function, grid, block, params, lds, stream, false,
                                (struct launch_extras){start, stop, {0}}));
}

HIP_EXPORT hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                                 void **params, unsigned int lds,
                                                 hipStream_t stream)
{
    return HIP_CALL(hipLaunchCooperativeKernel,
                    launch_host(function, grid, block, params, lds, stream, true, NO_EXTRAS));
}

HIP_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int grid_x,
                                                       unsigned int grid_y, unsigned int grid_z,
                                                       unsigned int block_x, unsigned int block_y,
                                                       unsigned int block_z, unsigned int lds,
                                                       hipStream_t stream, void **params)
{
    return HIP_CALL(hipModuleLaunchCooperativeKernel,
                    launch_host(function, (dim3){grid_x, grid_y, grid_z},
                                (dim3){block_x, block_y, block_z}, params, lds, stream, true,
                                NO_EXTRAS));
}

/* A launch that a struct with a list of attributes describes. The layouts are hipLaunchConfig_t and
 * HIP_LAUNCH_CONFIG of ROCm 7's hip_runtime_api.h. */
struct launch_attribute {
    int id;
    char unused[4];
    union {
        int cooperative;
        unsigned cluster[3]; /* workgroups by dimension */
        uint64_t size[8];
    } value;
};

static_assert(sizeof(struct launch_attribute) == 72, "hipLaunchAttribute");

enum { LAUNCH_COOPERATIVE = 2, LAUNCH_CLUSTER = 4 };

struct launch_config {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
    const struct launch_attribute *attributes;
    unsigned attribute_count;
};

struct module_launch_config {
    unsigned grid[3], block[3], lds;
    hipStream_t stream;
    const struct launch_attribute *attributes;
    unsigned attribute_count;
};

hipError_t hipLaunchKernelExC(const struct launch_config *config, const void *function,
                              void **params);
hipError_t hipDrvLaunchKernelEx(const struct module_launch_config *config, hipFunction_t function,
                                void **params, void **extra);

/* Copies the attribute `size`, a cluster's workgroups by dimension, to cluster[3]. One workgroup is
 * no cluster (CDNA5 ISA, 2.3): cluster[3] is unchanged then. */
static hipError_t read_cluster(const unsigned *size, hipStream_t stream, uint32_t *cluster)
{
    const struct hip_device *device = hip_stream_device(stream);
    if (!device->facts->isa->clusters)
        return hip_fail(hipErrorNotSupported, "clusters of workgroups need a later GPU");
    for (unsigned i = 0; i < 3; i++)
        if (!size[i])
            return hip_fail(hipErrorInvalidValue, "a dimension of the cluster is zero");
    if (size[0] > 1 || size[1] > 1 || size[2] > 1)
        memcpy(cluster, size, 3 * sizeof(*cluster));
    return hipSuccess;
}

/* Reads the attributes of a launch. Attributes that affect only caches and priorities have no
 * effect. */
static hipError_t read_attributes(const struct launch_attribute *attributes, unsigned count,
                                  hipStream_t stream, bool *cooperative,
                                  struct launch_extras *extras)
{
    hipError_t error = hipSuccess;
    *cooperative = false;
    *extras = NO_EXTRAS;
    if (count && !attributes)
        return hipErrorInvalidValue;
    for (unsigned i = 0; i < count && error == hipSuccess; i++) {
        if (attributes[i].id == LAUNCH_COOPERATIVE)
            *cooperative = attributes[i].value.cooperative != 0;
        if (attributes[i].id == LAUNCH_CLUSTER)
            error = read_cluster(attributes[i].value.cluster, stream, extras->cluster);
    }
    return error;
}

static hipError_t launch_config(const struct launch_config *c, const void *function, void **params)
{
    struct launch_extras extras;
    bool cooperative;

    if (!c)
        return hipErrorInvalidValue;
    hipError_t error =
        read_attributes(c->attributes, c->attribute_count, c->stream, &cooperative, &extras);
    return error == hipSuccess ? launch_host(function, c->grid, c->block, params, c->lds, c->stream,
                                             cooperative, extras)
                               : error;
}

HIP_EXPORT hipError_t hipLaunchKernelExC(const struct launch_config *config, const void *function,
                                         void **params)
{
    return HIP_CALL(hipLaunchKernelExC, launch_config(config, function, params));
}

static hipError_t launch_module_config(const struct module_launch_config *c, hipFunction_t function,
                                       void **params, void **extra)
{
    struct launch_extras extras;
    bool cooperative;

    if (!c)
        return hipErrorInvalidValue;
    const dim3 grid = {c->grid[0], c->grid[1], c->grid[2]};
    const dim3 block = {c->block[0], c->block[1], c->block[2]};
    hipError_t error =
        read_attributes(c->attributes, c->attribute_count, c->stream, &cooperative, &extras);
    if (error != hipSuccess)
        return error;
    if (cooperative && params)
        return launch_host(function, grid, block, params, c->lds, c->stream, true, extras);
    return launch_module(function, c->grid, block, false, c->lds, c->stream, params, extra, extras);
}

HIP_EXPORT hipError_t hipDrvLaunchKernelEx(const struct module_launch_config *config,
                                           hipFunction_t function, void **params, void **extra)
{
    return HIP_CALL(hipDrvLaunchKernelEx, launch_module_config(config, function, params, extra));
}

/* Launches a list of host functions, each on its own stream. */
static hipError_t launch_many(hipLaunchParams *list, int count, bool cooperative)
{
    if (!list || count <= 0)
        return hipErrorInvalidValue;
    for (int i = 0; i < count; i++) {
        hipError_t error =
            launch_host(list[i].func, list[i].gridDim, list[i].blockDim, list[i].args,
                        list[i].sharedMem, list[i].stream, cooperative, NO_EXTRAS);
        if (error != hipSuccess)
            return error;
    }
    return hipSuccess;
}

HIP_EXPORT hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *list, int count,
                                                         unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipExtLaunchMultiKernelMultiDevice, launch_many(list, count, false));
}

HIP_EXPORT hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *list, int count,
                                                            unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipLaunchCooperativeKernelMultiDevice, launch_many(list, count, true));
}

/* A C++ function of HIP's headers, through which programs launch that do not use Clang's own
 * launches. */
void launch_ggl(
    uintptr_t function, const dim3 *grid, const dim3 *block, uint32_t lds, hipStream_t stream,
    void **params) __asm__("_ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv");

HIP_EXPORT void launch_ggl(uintptr_t function, const dim3 *grid, const dim3 *block, uint32_t lds,
                           hipStream_t stream, void **params)
{
    HIP_CALL(hipLaunchKernelGGLImpl, launch_host((const void *)function, *grid, *block, params, lds,
                                                 stream, false, NO_EXTRAS));
}
