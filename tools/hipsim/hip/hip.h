/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the HIP library: objects behind HIP's handles, and the frame of every API call.
 *
 * Execution model. Unless option `streams` postpones it, work runs in the thread that submits it,
 * at the time of submission. An asynchronous call has finished its work when it returns. That is
 * one of the orders that HIP allows, and it is the same at every run. Only the *modelled* time is
 * asynchronous. Every stream has a time at which its last work ends. Events, waits and
 * synchronisation pass these times from stream to stream as the hardware would.
 *
 * Locks. A handle is looked up under the registry's lock and then referenced, so another thread may
 * destroy it at any time. Work of a stream runs under the stream's lock. Work of the legacy null
 * stream also excludes work of the device's blocking streams.
 */
#ifndef HIPSIM_HIP_H
#define HIPSIM_HIP_H

#ifndef __HIP_PLATFORM_AMD__
#    define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>

#include <pthread.h>

#include "code_object.h"
#include "hipsim.h"
#include "memory.h"
#include "options.h"

#define HIP_EXPORT __attribute__((visibility("default")))
#define HIP_MAX_DEVICES 64

/* The functions from here on frame each API call. */

/** Begins the API call `name`: counts it, and at the first one initialises the library. The call
 * must at once return a result other than hipSuccess. */
hipError_t hip_enter(const char *name);
/** Records a failure for hipGetLastError(). Returns `error`. */
hipError_t hip_leave(hipError_t error);

#define HIP_CALL(name, expression) \
    hip_leave(hip_enter(#name) == hipSuccess ? (expression) : hip_entry_error())
/** Returns the error of the thread's last hip_enter(). */
hipError_t hip_entry_error(void);

/** Reports a sentence about the current API call (kind "api"). Returns `error`. */
hipError_t hip_fail(hipError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Passes a report to the user's callback, or without one prints it to standard error. */
void hip_report(const struct hipsim_report *report);
/** True if the user has set a callback, so that reports are not printed. */
bool hip_reports_go_elsewhere(void);

/** Adds `findings` to the count that hipsim_findings() returns. */
void hip_note_findings(uint64_t findings);

/** Returns a copy of the current options. */
struct options hip_options(void);

/* The state of a host thread; all zero for a new one. */
struct hip_thread {
    int device;
    hipError_t last_error;
    hipError_t entry_error;
    const char *call;               /* name of the current API call */
    struct ihipCtx_t *contexts[16]; /* the context stack */
    unsigned ncontexts;
    hipStreamCaptureMode capture_mode;
    bool has_launched;
    struct hipsim_launch_stats stats;
    struct {
        dim3 grid, block;
        size_t lds;
        hipStream_t stream;
    } calls[16]; /* launch configurations of __hipPushCallConfiguration */
    unsigned ncalls;
};

struct hip_thread *hip_thread(void);

/* Declarations of handles follow. */

enum hip_kind {
    HIP_CONTEXT = 1,
    HIP_STREAM,
    HIP_EVENT,
    HIP_MODULE,
    HIP_FUNCTION,
    HIP_GRAPH,
    HIP_GRAPH_NODE,
    HIP_GRAPH_EXEC,
    HIP_POOL,
    HIP_MEMORY,
    HIP_USER_OBJECT,
    HIP_RTC_PROGRAM,
    HIP_LIBRARY,
    HIP_KERNEL,
};

/* Head of all objects that have a handle. The handle is the object's address. */
struct hip_object {
    enum hip_kind kind;
    _Atomic unsigned references;
    void (*destroy)(struct hip_object *object);
    struct hip_object *next; /* next object in its bucket of the registry */
};

/** Registers a new object with one reference, which the registry has. `destroy` is called when none
 * is left. */
void hip_object_add(struct hip_object *object, enum hip_kind kind,
                    void (*destroy)(struct hip_object *object));
/** Returns a new reference to a live object of this kind; NULL if the handle is none. */
void *hip_object_get(const void *handle, enum hip_kind kind);
void hip_object_ref(void *object);
void hip_object_put(void *object);
/** Removes a handle from the registry, and drops the registry's reference. False if it is no live
 * handle of this kind. */
bool hip_object_remove(const void *handle, enum hip_kind kind);

/* Declarations about devices follow. */

/* Facts of a simulated GPU, from gfx_parts.def and targets/facts/. */
struct device_facts {
    const struct gfx_part *part;
    enum gfx_target target;
    const struct isa *isa;
    const char *name;
    const char *arch; /* value of gcnArchName */
    int compute_units;
    int clock_khz;
    int memory_clock_khz;
    int memory_bus_bits;
    uint64_t memory_bytes;
    uint32_t lds_bytes; /* bytes of LDS that a workgroup may use */
    uint32_t lds_granule;
    int l2_bytes;
    uint64_t memory_bytes_per_us; /* peak bandwidth in bytes per microsecond */
};

struct hip_device {
    const struct device_facts *facts;
    int ordinal;  /* index among the devices of this process */
    unsigned gpu; /* index among all simulated GPUs, visible or not */
    uint64_t memory_bytes;
    struct ihipStream_t *null_stream;         /* first in the list of the device's streams */
    struct ihipMemPoolHandle_t *default_pool; /* the default pool of the device; needs `lock` */
    struct ihipMemPoolHandle_t *pool;         /* current pool; needs `lock` */
    struct ihipCtx_t *primary;
    pthread_mutex_t lock;
    /* the null stream's work locks it for writing, blocking streams' work for reading */
    pthread_rwlock_t legacy;
    unsigned flags;
    size_t limits[8];       /* limits, by enum hipLimit_t */
    _Atomic uint64_t peers; /* a bit for each device whose memory this device may access */
    /* modelled time in microseconds up to which the host has waited; needs `lock` */
    double synchronized_at;
};

int hip_device_count(void);
/** Returns device number `ordinal`; NULL if there is none. */
struct hip_device *hip_device(int ordinal);
struct hip_device *hip_current_device(void);
bool hip_devices_create(const struct options *options);

/* Declarations of streams, events and the work that they carry follow. */

struct hip_copy { /* a box of bytes; height and depth are 1 in one dimension */
    void *dst;
    const void *src;
    size_t dst_pitch, src_pitch; /* bytes from a row to the next */
    size_t dst_slice, src_slice; /* bytes from a plane to the next */
    size_t width, height, depth;
    hipMemcpyKind kind;
};

struct hip_fill {
    void *dst;
    size_t pitch, slice;
    size_t width; /* elements of a row */
    size_t height, depth;
    unsigned element; /* bytes of an element: 1, 2 or 4 */
    uint32_t value;
};

struct hip_kernel_work {
    struct ihipModuleSymbol_t *function; /* kernel, which the work references */
    /* host function that the program named, for hipGraphKernelNodeGetParams */
    const void *host_function;
    uint32_t grid[3]; /* work-items by dimension */
    uint32_t block[3];
    uint32_t dynamic_lds;
    bool cooperative;
    uint32_t cluster[3]; /* workgroups of a cluster by dimension; 0: no clusters */
    bool follows;        /* true: another kernel of the launched graph runs before this one */
    /* launch priority; like cache_window, a hipAccessPolicyWindow, it has no effect and is only
     * returned by queries */
    int priority;
    uint64_t cache_window[4];
    /* arguments that the program passes, as in the argument segment; the work owns them */
    void *args;
    size_t args_bytes;
};

struct hip_value { /* a condition for which a stream waits */
    const void *at;
    uint64_t value, mask;
    unsigned flags; /* hipStreamWaitValueGte and others */
    unsigned size;  /* bytes of the value: 4 or 8 */
};

enum hip_work_kind {
    WORK_EMPTY,
    WORK_KERNEL,
    WORK_COPY,
    WORK_FILL,
    WORK_HOST,
    WORK_RECORD,
    WORK_WAIT,
    WORK_GRAPH,
    WORK_ALLOC,
    WORK_FREE,
    WORK_VALUE,
    WORK_BATCH,
};

struct hip_work {
    enum hip_work_kind kind;
    union {
        struct hip_kernel_work kernel;
        struct hip_copy copy;
        struct hip_fill fill;
        struct {
            hipHostFn_t fn;
            void *data;
        } host;
        struct hip_value value;
        struct ihipEvent_t *event;       /* event, which the work references */
        struct ihipGraph *graph;         /* child graph, which the work owns */
        struct hip_graph_memory *memory; /* memory, which counts this work */
        struct hip_batch *batch;         /* batch, which the work owns */
    };
};

struct hip_nodes { /* a set of graph nodes */
    struct hipGraphNode **items;
    size_t count, capacity;
};

/* Number of slots for streams. Further streams share the last slot, whose operations never race. */
#define ORDER_SLOTS 128

struct hip_order {            /* the operations that precede something, see hip_order.h */
    uint64_t at[ORDER_SLOTS]; /* for each slot, the number of the last operation that precedes */
};

struct ihipStream_t {
    struct hip_object object;
    struct hip_device *device;
    uint64_t id; /* number that is unique in the process */
    unsigned flags;
    int priority;
    bool is_null;
    pthread_mutex_t lock;
    /* modelled time in microseconds at which the last work ends; needs `lock` */
    double time;
    /* failure of a kernel, which the next synchronisation returns; needs `lock` */
    hipError_t fault;
    struct ihipStream_t *next; /* next stream of the device */
    unsigned slot;             /* index in struct hip_order */
    struct hip_order order;    /* operations before the stream's next one; hip_order.c sets it */

    /* Members that need hip_capture.c's lock. */
    struct hip_capture *capture;
    struct hip_nodes frontier; /* nodes on which the next captured node will depend */
    struct ihipStream_t *next_captured;
};

struct ihipEvent_t {
    struct hip_object object;
    pthread_mutex_t lock;
    unsigned flags;
    bool recorded;
    double time;
    int device;
    struct hip_order order; /* operations that precede the last record; hip_order.c sets it */
    /* capture in which the event was recorded; NULL: none; needs hip_capture.c's lock */
    struct hip_capture *capture;
    struct hip_nodes frontier; /* nodes that precede the event in the capture */
};

/** Makes the device's legacy null stream, which exists as long as the device. False without
 * memory. */
bool hip_stream_create_null(struct hip_device *device);

/** True if a handle is the legacy null stream's: NULL, or HIP 6.3's hipStreamLegacy, 1. */
static inline bool hip_stream_is_legacy(hipStream_t handle) { return (uintptr_t)handle <= 1; }

/** Returns a reference to the stream of a handle (null, per-thread or created); drop it with
 * hip_object_put(). NULL if the handle is invalid. */
struct ihipStream_t *hip_stream_get(hipStream_t handle);
/** Returns the device of a stream. For streams that exist on each device, and for an invalid
 * handle, it is the current device. */
struct hip_device *hip_stream_device(hipStream_t handle);

/** Runs work on a stream, or adds it to the graph that the stream captures. In any case the
 * function owns what the work owns. */
hipError_t hip_submit(hipStream_t stream, struct hip_work work);

/** Runs work as hip_submit() does, but the caller still owns what the work owns. The stream must
 * not be capturing. */
hipError_t hip_submit_borrowed(hipStream_t stream, const struct hip_work *work);

hipError_t hip_event_create(hipEvent_t *event, unsigned flags);
hipError_t hip_event_record(hipEvent_t event, hipStream_t stream);

/** Submits work and waits for it, for blocking calls. */
hipError_t hip_submit_and_wait(hipStream_t stream, struct hip_work work);

/** Runs work on the stream without delay. The stream is locked meanwhile, except for a host
 * function. */
hipError_t hip_stream_run(struct ihipStream_t *stream, const struct hip_work *work);
/** Makes the stream's next synchronisation return `error`. */
void hip_stream_fail(struct ihipStream_t *stream, hipError_t error);

/** Runs work that begins at modelled time *time, in microseconds. Sets *time to its end. */
hipError_t hip_work_run(const struct hip_work *work, struct hip_device *device, double *time);
hipError_t hip_work_copy(const struct hip_work *from, struct hip_work *to);
void hip_work_release(struct hip_work *work);

/** True if the stream is capturing, or a capture forbids the null stream. *error is then the result
 * of a call that cannot be captured. */
bool hip_is_capturing(hipStream_t stream, hipError_t *error);
/** Adds work to the capture of a stream. In any case the function owns what the work owns. */
hipError_t hip_capture_add(struct ihipStream_t *stream, struct hip_work work);
hipError_t hip_capture_record(struct ihipStream_t *stream, struct ihipEvent_t *event);
/** Makes a capturing stream wait for an event; *error is the call's result. False if neither
 * belongs to a capture. */
bool hip_capture_wait(struct ihipStream_t *stream, struct ihipEvent_t *event, hipError_t *error);
bool hip_event_is_captured(const struct ihipEvent_t *event);
/** Removes an event from its capture, since it is about to be recorded again or destroyed. */
void hip_capture_forget_event(struct ihipEvent_t *event);
/** Handles the destruction of a capturing stream: the capture can no longer be ended. */
void hip_capture_abandon(struct ihipStream_t *stream);

hipError_t hip_stream_wait_done(hipStream_t stream);
hipError_t hip_device_wait_done(struct hip_device *device);

/* Declarations about memory follow. */

/** Convert a memory type's number in the program's HIP version to the type in these headers, and
 * back. HIP 6 changed the numbers; see option `hip`. */
hipMemoryType hip_memory_type(unsigned given);
unsigned hip_memory_type_number(hipMemoryType type);

/** True if `kind` is a direction of copies. HIP 6 added one: device to device without compute
 * units. */
bool hip_is_copy_kind(hipMemcpyKind kind);

/** True if hipsim allocated the memory. */
bool hip_in_arena(const void *pointer);

/** Checks a copy, or a fill, before it runs: that its sizes are valid and its memory exists. */
hipError_t hip_copy_check(const struct hip_copy *copy);
hipError_t hip_fill_check(const struct hip_fill *fill);

hipError_t hip_copy_run(const struct hip_copy *copy, struct hip_device *device, double *time);
/** Sets *copy from a hipMemcpy3DParms. Arrays are refused. */
hipError_t hip_copy_from_3d(const struct hipMemcpy3DParms *p, struct hip_copy *copy);
/** Convert between *copy and the HIP_MEMCPY3D at `p`, whose layout depends on option `hip`. */
hipError_t hip_copy_from_driver(const void *p, struct hip_copy *copy);
void hip_copy_to_driver(const struct hip_copy *copy, void *p);
/** Sets *copy to a copy of `size` bytes between `other` and byte `offset` of a registered variable
 * of the current device; `to_symbol`: to the variable. */
hipError_t hip_copy_symbol(const void *symbol, const void *other, size_t size, size_t offset,
                           hipMemcpyKind kind, bool to_symbol, struct hip_copy *copy);
hipError_t hip_fill_run(const struct hip_fill *fill, struct hip_device *device, double *time);
hipError_t hip_value_run(const struct hip_value *value);
/** Runs a batch: writes of values and waits for values, in their order. */
hipError_t hip_batch_run(const struct hip_batch *batch, struct hip_device *device, double *time);
/** Returns a copy of a batch; NULL without memory. */
struct hip_batch *hip_batch_copy(const struct hip_batch *batch);
/** Allocates device memory on the current device, as hipMalloc() does. */
hipError_t hip_allocate(void **pointer, size_t size);
hipError_t hip_allocate_on(void **pointer, size_t size, const struct hip_device *device);
hipError_t hip_release(void *pointer);
/** Subtracts freed memory from the count of the pool that allocated it, if one did. All calls that
 * free memory call it. */
void hip_pool_forget(const void *pointer);

/* Declarations of modules and kernels follow. */

struct ihipModule_t {
    struct hip_object object;
    struct code_object *code;
    struct source_lines *lines; /* source lines; NULL: no debug information */
    /* list of functions, to which lookups of kernels add; needs `lock` */
    struct ihipModuleSymbol_t *functions;
    struct managed_variable *managed; /* variables of hip_module_manage() */
    size_t nmanaged;
    pthread_mutex_t lock;
};

struct ihipModuleSymbol_t {
    struct hip_object object;
    struct ihipModule_t *module; /* module, which the function references */
    const struct kernel *kernel;
    struct ihipModuleSymbol_t *next;
};

struct image;
/** Loads the device's code object in an image, and sets *module. */
hipError_t hip_module_create(struct image *image, struct hip_device *device,
                             struct ihipModule_t **module);
void hip_module_unload(struct ihipModule_t *module);
hipError_t hip_module_from_status(enum code_object_status status, const char *why);
/** Reads an image from the file `path`, or if that is NULL from memory. The caller must release it
 * in any case. */
hipError_t hip_module_read(const char *path, const void *memory, struct image *image);
/** Allocates the module's __managed__ variables in memory that the host can access. The compiler
 * registers the variables of a program's own code instead. */
hipError_t hip_module_manage(struct ihipModule_t *module);
/** Sets *address and *size, which may be NULL, to the variable `name`; with `managed` it must be a
 * __managed__ one. False if there is none. */
bool hip_module_variable(const struct ihipModule_t *module, const char *name, bool managed,
                         void **address, size_t *size);
/** Returns a reference to the module's function `name`; NULL if there is none. */
struct ihipModuleSymbol_t *hip_module_function(struct ihipModule_t *module, const char *name);

/** Sets *function to a reference to the device's function of a registered kernel. `host` is the
 * kernel's host function. */
hipError_t hip_registered_function(const void *host, struct hip_device *device,
                                   struct ihipModuleSymbol_t **function);
/** Sets *address and *size to the device's copy of the registered variable with host address
 * `host`. */
hipError_t hip_registered_variable(const void *host, struct hip_device *device, void **address,
                                   size_t *size);
/** Sets *function to a reference to the device's function of a library kernel's handle. */
hipError_t hip_kernel_function(const void *handle, struct hip_device *device,
                               struct ihipModuleSymbol_t **function);
hipError_t hip_function_attribute(int *value, hipFunction_attribute attribute,
                                  const struct ihipModuleSymbol_t *function);
/** Sets *function to a reference to the function of any handle: a function, a library's kernel or a
 * host function. The latter two are looked up on the current device. */
hipError_t hip_any_function(const void *handle, struct ihipModuleSymbol_t **function);
/** Sets *function as hip_any_function() does, but on `device` instead of the current one. With
 * `device` NULL only a function's own handle is valid. */
hipError_t hip_function_on(const void *handle, struct hip_device *device,
                           struct ihipModuleSymbol_t **function);

/** Sets *work from kernelParams (`params`) or `extra`. `grid` counts work-items, `dynamic_lds`
 * bytes. */
hipError_t hip_kernel_work(struct ihipModuleSymbol_t *function, const uint32_t grid[3],
                           const uint32_t block[3], size_t dynamic_lds, void **params, void **extra,
                           struct hip_work *work);
/** Sets *work as hip_kernel_work() does, from a `grid` that counts blocks. */
hipError_t hip_kernel_work_blocks(struct ihipModuleSymbol_t *function, dim3 grid, dim3 block,
                                  size_t dynamic_lds, void **params, void **extra,
                                  struct hip_work *work);
hipError_t hip_kernel_run(const struct hip_kernel_work *work, struct hip_device *device,
                          double *time);
/** Launches the kernel of the host function or handle `host`. Arguments are in the form of `extra`,
 * `lds` is bytes. */
hipError_t hip_launch_packed(const void *host, dim3 grid, dim3 block, size_t lds,
                             hipStream_t stream, void **extra);
/** Returns the number of workgroups of `threads` work-items that a compute unit can hold; 0 if it
 * can hold none. */
int hip_occupancy(const struct kernel *kernel, uint32_t threads, uint64_t dynamic_lds,
                  const struct device_facts *facts);

/** Returns the address of the buffer through which kernels call the host; the first call makes it.
 * 0 if the kernel needs none. */
uint64_t hip_hostcall_buffer(struct hip_device *device, const struct kernel *kernel);
/** Answers the kernels' requests in the buffer. Called after a launch, and when a wave sends a
 * message. */
void hip_hostcall_serve(struct hip_device *device);
void hip_hostcall_message(struct wave *wave, const struct inst *in);

/* Declarations of graphs follow. */

struct hipGraphNode {
    struct hip_object object;
    struct ihipGraph *graph;
    struct hip_work work;
    struct hip_nodes needs; /* nodes of the same graph that run before the node */
    size_t position;        /* index in graph->nodes */
    const void *origin;     /* original of this clone; compared, never dereferenced; NULL: none */
    bool left_out;          /* true: the node is disabled; in an executable only */
    void **params;          /* array that hipGraphKernelNodeGetParams() returns */
};

/* A graph. Changes need hip_graph_lock(); its owner locks it while it runs. */
struct ihipGraph {
    struct hip_object object;
    struct hip_nodes nodes;             /* nodes in the order of their creation */
    const void *origin;                 /* original of this clone; NULL: none */
    bool captured;                      /* true: a capture still adds nodes */
    bool is_child;                      /* true: a node owns this graph, and destroys it */
    struct hip_user_reference *objects; /* user objects that must exist as long as the graph */
};

/** Copies a graph's list of references to user objects, for a copy of the graph. False without
 * memory. This function and hip_user_references_release() need hip_graph_lock(). */
bool hip_user_references_copy(const struct hip_user_reference *from,
                              struct hip_user_reference **to);
/** Drops the references of a list, and frees the list. Calls the program's destructor of each
 * object that has no reference left. */
void hip_user_references_release(struct hip_user_reference *list);

void hip_graph_lock(void);
void hip_graph_unlock(void);

/** Adds a node to a set, unless the set has it. False without memory. */
bool hip_nodes_add(struct hip_nodes *nodes, struct hipGraphNode *node);
bool hip_nodes_remove(struct hip_nodes *nodes, const struct hipGraphNode *node);
bool hip_nodes_have(const struct hip_nodes *nodes, const struct hipGraphNode *node);
void hip_nodes_clear(struct hip_nodes *nodes);

struct ihipGraph *hip_graph_create(void);
void hip_graph_put(struct ihipGraph *graph);
/** Adds a node that depends on `needs`. In any case the function owns what the work owns. `node`
 * may point into `needs`, since it is written last. */
hipError_t hip_graph_add(struct ihipGraph *graph, const struct hip_nodes *needs,
                         struct hip_work work, struct hipGraphNode **node);
/** Returns a deep copy, whose nodes have their originals in `origin`. NULL without memory. */
struct ihipGraph *hip_graph_clone(const struct ihipGraph *graph);
/** Returns indices in graph->nodes in an order in which no node is before its dependencies; free
 * them with free(). NULL if there is a cycle, or without memory. */
size_t *hip_graph_order(const struct ihipGraph *graph);
/** Adds a node as hip_graph_add() does, after checks of the graph and of the `count` needed nodes.
 * With an `error` it only returns the error. */
hipError_t hip_graph_add_checked(hipGraphNode_t *out, hipGraph_t handle,
                                 const hipGraphNode_t *needs, size_t count, hipError_t error,
                                 struct hip_work work);
/** Replaces a node's work by work of the same kind, in its graph, or with `in_exec` in executable
 * `exec`. In any case the function owns what the work owns. With an `error` it only returns the
 * error. */
hipError_t hip_graph_replace(hipGraphExec_t exec, bool in_exec, hipGraphNode_t node,
                             hipError_t error, struct hip_work work);
/** Returns a reference to the node if its work is of this kind; otherwise NULL. */
struct hipGraphNode *hip_graph_node_get(hipGraphNode_t handle, enum hip_work_kind kind);
/** Sets *work to work that runs a copy of the graph; the work owns the copy. */
hipError_t hip_graph_child_work(hipGraph_t handle, struct hip_work *work);
/** Runs all nodes from modelled time *time on, and sets *time to the end of the last one.
 * Independent nodes overlap. */
hipError_t hip_graph_run(const struct ihipGraph *graph, struct hip_device *device, double *time);

/** Add, and drop, a reference of a node that allocates or frees this memory. The memory is released
 * when no reference is left. */
void hip_graph_memory_ref(struct hip_graph_memory *memory);
void hip_graph_memory_put(struct hip_graph_memory *memory);
/** Runs a node that allocates (`in_use`) or frees memory. */
hipError_t hip_graph_memory_run(struct hip_graph_memory *memory, bool in_use);
/** Frees memory that a graph has allocated, for hipFree(), and sets *error to the call's result.
 * False if `pointer` is no such memory. */
bool hip_graph_memory_free(const void *pointer, hipError_t *error);
/** Set *work for a captured hipMallocAsync(), and for a captured hipFreeAsync() of its memory. */
hipError_t hip_graph_memory_capture(void **pointer, size_t size, const struct hip_device *device,
                                    struct hip_work *work);
hipError_t hip_graph_memory_capture_free(const void *pointer, struct hip_work *work);

/** Returns an executable's copy of `node`; NULL if it has none. */
struct hipGraphNode *hip_exec_node(hipGraphExec_t exec, const struct hipGraphNode *node);
/** Locks an executable so that it does not run while its nodes change. False if the handle is
 * invalid. */
bool hip_exec_lock(hipGraphExec_t exec);
void hip_exec_unlock(hipGraphExec_t exec);

#endif
