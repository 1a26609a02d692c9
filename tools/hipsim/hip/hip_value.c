/* SPDX-License-Identifier: Apache-2.0 */
/* Values that streams write and wait for, singly and in batches, also in graphs. */
#include "hip_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spin.h"

/* The functions from here on write a value or wait for one. */

/* Returns a fill of one dword. */
static struct hip_fill one_dword(void *dst, uint32_t value)
{
    return (struct hip_fill){
        .dst = dst, .width = 1, .height = 1, .depth = 1, .element = 4, .value = value};
}

/* Submits a write of one dword. */
static hipError_t write_dword(hipStream_t stream, void *dst, uint32_t value)
{
    return hip_submit(stream, (struct hip_work){.kind = WORK_FILL, .fill = one_dword(dst, value)});
}

/* Submits a write of a value of `size` bytes, 4 or 8. A value of 8 bytes is written as two
 * dwords. */
static hipError_t write_value(hipStream_t stream, void *dst, uint64_t value, size_t size)
{
    const hipError_t error = write_dword(stream, dst, (uint32_t)value);

    if (error != hipSuccess || size == 4)
        return error;
    return write_dword(stream, (char *)dst + 4, (uint32_t)(value >> 32));
}

HIP_EXPORT hipError_t hipStreamWriteValue32(hipStream_t stream, void *dst, uint32_t value,
                                            unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipStreamWriteValue32, write_value(stream, dst, value, 4));
}

HIP_EXPORT hipError_t hipStreamWriteValue64(hipStream_t stream, void *dst, uint64_t value,
                                            unsigned int flags)
{
    (void)flags;
    return HIP_CALL(hipStreamWriteValue64, write_value(stream, dst, value, 8));
}

/* True if the value in memory now fulfils the condition of *v. */
static bool is_there(const struct hip_value *v)
{
    const uint64_t value = v->value & v->mask;
    const uint64_t found =
        v->mask & (v->size == 4 ? __atomic_load_n((const uint32_t *)v->at, __ATOMIC_ACQUIRE)
                                : __atomic_load_n((const uint64_t *)v->at, __ATOMIC_ACQUIRE));

    switch (v->flags) {
    case hipStreamWaitValueGte:
        return v->size == 4 ? (int32_t)(found - value) >= 0 : (int64_t)(found - value) >= 0;
    case hipStreamWaitValueEq: return found == value;
    case hipStreamWaitValueAnd: return (found & value) != 0;
    default: return (~(found | value) & v->mask) != 0;
    }
}

/* Milliseconds after which a wait for a value fails. The fuzzer of HIP calls, in which no other
 * thread stores values, sets fewer. */
#ifndef HIPSIM_WAIT_MS
#    define HIPSIM_WAIT_MS 60000u
#endif

hipError_t hip_value_run(const struct hip_value *v)
{
    if (is_there(v))
        return hipSuccess;
    if (hip_order_may_postpone())
        return hipErrorNotReady;
    for (unsigned i = 0; i < HIPSIM_WAIT_MS && spin_others_run(1); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (is_there(v))
            return hipSuccess;
    }
    return hip_fail(hipErrorLaunchTimeOut,
                    "the host waits for a stream, and that for a value at %p which nobody stores",
                    v->at);
}

/* Checks the address and the flags of a wait for a value. */
static hipError_t check_value(const void *at, unsigned size, unsigned flags)
{
    struct hipsim_mem_cursor cursor = {0};

    if ((uintptr_t)at % size ||
        hipsim_mem_check(&cursor, (uintptr_t)at, size, false) != HIPSIM_MEM_OK)
        return hip_fail(hipErrorInvalidValue, "%p is no aligned address of %u bytes on the device",
                        at, size);
    return flags <= hipStreamWaitValueNor ? hipSuccess : hipErrorInvalidValue;
}

/* Submits a wait until the value at `src`, of `size` bytes, fulfils the condition in `flags`. */
static hipError_t wait_value(hipStream_t stream, const void *src, uint64_t value, uint64_t mask,
                             unsigned flags, unsigned size)
{
    hipError_t error;

    if (hip_is_capturing(stream, &error))
        return hipErrorStreamCaptureUnsupported;
    error = check_value(src, size, flags);
    if (error != hipSuccess)
        return error;
    const struct hip_work work = {
        .kind = WORK_VALUE,
        .value = {.at = src, .value = value, .mask = mask, .flags = flags, .size = size},
    };
    return hip_submit(stream, work);
}

HIP_EXPORT hipError_t hipStreamWaitValue32(hipStream_t stream, void *src, uint32_t value,
                                           unsigned int flags, uint32_t mask)
{
    return HIP_CALL(hipStreamWaitValue32, wait_value(stream, src, value, mask, flags, 4));
}

HIP_EXPORT hipError_t hipStreamWaitValue64(hipStream_t stream, void *src, uint64_t value,
                                           unsigned int flags, uint64_t mask)
{
    return HIP_CALL(hipStreamWaitValue64, wait_value(stream, src, value, mask, flags, 8));
}

/* The functions from here on run batches of writes and waits. */

/* Values of hipStreamBatchMemOpType. */
enum { WAIT_32 = 1, WRITE_32 = 2, WAIT_64 = 4, WRITE_64 = 5 };

/* The layout of hipStreamBatchMemOpParams. */
struct batch_operation {
    int type;
    void *address;
    union {
        uint32_t value;
        uint64_t value_64;
    };
    unsigned flags;
    uint64_t pad[2];
};

static_assert(sizeof(struct batch_operation) == 48, "hipStreamBatchMemOpParams");

/* The layout of hipBatchMemOpNodeParams. */
struct batch_params {
    hipCtx_t context;
    unsigned count;
    struct batch_operation *operations;
    unsigned flags;
};

struct hip_batch {
    struct batch_params params; /* parameters, whose operations are after them */
    struct batch_operation operations[];
};

/* Returns the bytes of an operation's value. */
static unsigned operand_bytes(const struct batch_operation *o)
{
    return o->type == WAIT_32 || o->type == WRITE_32 ? 4 : 8;
}

/* Returns the value of an operation. */
static uint64_t operand(const struct batch_operation *o)
{
    return operand_bytes(o) == 4 ? o->value : o->value_64;
}

/* Checks all operations of a batch. */
static hipError_t check_batch(const struct batch_params *p)
{
    hipError_t error =
        p && p->operations && p->count && !p->flags ? hipSuccess : hipErrorInvalidValue;

    for (unsigned i = 0; error == hipSuccess && i < p->count; i++) {
        const struct batch_operation *o = &p->operations[i];
        switch (o->type) {
        case WAIT_32:
        case WAIT_64: error = check_value(o->address, operand_bytes(o), o->flags); break;
        case WRITE_32:
        case WRITE_64: error = check_value(o->address, operand_bytes(o), 0); break;
        default:
            error = hip_fail(hipErrorNotSupported, "operations of type %d in a batch", o->type);
        }
    }
    return error;
}

/* Sets *work to a batch with a copy of the operations. */
static hipError_t batch_work(const struct batch_params *p, struct hip_work *work)
{
    const hipError_t error = check_batch(p);

    *work = (struct hip_work){.kind = WORK_EMPTY};
    if (error != hipSuccess)
        return error;
    struct hip_batch *batch = malloc(sizeof(*batch) + p->count * sizeof(*p->operations));
    if (!batch)
        return hipErrorOutOfMemory;
    batch->params = *p;
    batch->params.operations = batch->operations;
    memcpy(batch->operations, p->operations, p->count * sizeof(*p->operations));
    *work = (struct hip_work){.kind = WORK_BATCH, .batch = batch};
    return hipSuccess;
}

struct hip_batch *hip_batch_copy(const struct hip_batch *batch)
{
    struct hip_work work;

    return batch_work(&batch->params, &work) == hipSuccess ? work.batch : NULL;
}

/* Runs one operation of a batch. */
static hipError_t run_operation(const struct batch_operation *o, struct hip_device *device,
                                double *time)
{
    const uint64_t value = operand(o);

    if (o->type == WAIT_32 || o->type == WAIT_64)
        return hip_value_run(&(struct hip_value){.at = o->address,
                                                 .value = value,
                                                 .mask = UINT64_MAX,
                                                 .flags = o->flags,
                                                 .size = operand_bytes(o)});
    const struct hip_fill low = one_dword(o->address, (uint32_t)value);
    hipError_t error = hip_fill_run(&low, device, time);
    if (error != hipSuccess || o->type == WRITE_32)
        return error;
    const struct hip_fill high = one_dword((char *)o->address + 4, (uint32_t)(value >> 32));
    return hip_fill_run(&high, device, time);
}

hipError_t hip_batch_run(const struct hip_batch *batch, struct hip_device *device, double *time)
{
    hipError_t error = hipSuccess;

    for (unsigned i = 0; error == hipSuccess && i < batch->params.count; i++)
        error = run_operation(&batch->operations[i], device, time);
    return error;
}

/* Submits a batch. Each operation is work of its own, so that one that waits can be postponed. */
static hipError_t submit_batch(hipStream_t stream, const struct batch_params *p)
{
    hipError_t error = check_batch(p);

    for (unsigned i = 0; error == hipSuccess && i < p->count; i++) {
        const struct batch_operation *o = &p->operations[i];
        const unsigned size = operand_bytes(o);
        error = o->type == WAIT_32 || o->type == WAIT_64
                    ? wait_value(stream, o->address, operand(o), UINT64_MAX, o->flags, size)
                    : write_value(stream, o->address, operand(o), size);
    }
    return error;
}

/* Submits a batch, or adds it to the stream's capture. */
static hipError_t batch(hipStream_t stream, unsigned count, struct batch_operation *operations,
                        unsigned flags)
{
    const struct batch_params p = {.count = count, .operations = operations, .flags = flags};
    struct hip_work work;
    hipError_t error;

    if (!hip_is_capturing(stream, &error))
        return submit_batch(stream, &p);
    error = batch_work(&p, &work);
    return error == hipSuccess ? hip_submit(stream, work) : error;
}

hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned count,
                               struct batch_operation *operations, unsigned flags);
hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t *node, hipGraph_t graph,
                                     const hipGraphNode_t *needs, size_t count,
                                     const struct batch_params *params);
hipError_t hipGraphBatchMemOpNodeGetParams(hipGraphNode_t node, struct batch_params *params);
hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t node, struct batch_params *params);
hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                               const struct batch_params *params);

HIP_EXPORT hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned count,
                                          struct batch_operation *operations, unsigned flags)
{
    return HIP_CALL(hipStreamBatchMemOp, batch(stream, count, operations, flags));
}

/* Adds a batch node to a graph. */
static hipError_t add_node(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *needs,
                           size_t count, const struct batch_params *params)
{
    struct hip_work work;
    const hipError_t error = batch_work(params, &work);

    return hip_graph_add_checked(node, graph, needs, count, error, work);
}

HIP_EXPORT hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t *node, hipGraph_t graph,
                                                const hipGraphNode_t *needs, size_t count,
                                                const struct batch_params *params)
{
    return HIP_CALL(hipGraphAddBatchMemOpNode, add_node(node, graph, needs, count, params));
}

/* Returns a node's parameters. The node still owns the operations. */
static hipError_t get_node(hipGraphNode_t handle, struct batch_params *params)
{
    struct hipGraphNode *node = params ? hip_graph_node_get(handle, WORK_BATCH) : NULL;

    if (!node)
        return hipErrorInvalidValue;
    hip_graph_lock();
    *params = node->work.batch->params;
    hip_graph_unlock();
    hip_object_put(node);
    return hipSuccess;
}

HIP_EXPORT hipError_t hipGraphBatchMemOpNodeGetParams(hipGraphNode_t node,
                                                      struct batch_params *params)
{
    return HIP_CALL(hipGraphBatchMemOpNodeGetParams, get_node(node, params));
}

/* Replaces the parameters of a batch node, in its graph or an executable. */
static hipError_t set_node(hipGraphExec_t exec, bool in_exec, hipGraphNode_t node,
                           const struct batch_params *params)
{
    struct hip_work work;
    const hipError_t error = batch_work(params, &work);

    return hip_graph_replace(exec, in_exec, node, error, work);
}

HIP_EXPORT hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t node,
                                                      struct batch_params *params)
{
    return HIP_CALL(hipGraphBatchMemOpNodeSetParams, set_node(NULL, false, node, params));
}

HIP_EXPORT hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                          const struct batch_params *params)
{
    return HIP_CALL(hipGraphExecBatchMemOpNodeSetParams, set_node(exec, true, node, params));
}
