/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the HIP library: objects behind HIP's handles, and the frame of every API call.
 *
 * Execution model. Work runs in the thread that submits it, at the time of submission; an
 * asynchronous call has finished its work when it returns. That is one of the orders that HIP
 * allows, and it is the same at every run. Only the *modelled* time is asynchronous: every stream
 * has a time at which its last work ends, and events, waits and synchronisation carry these times
 * from stream to stream as the hardware would.
 *
 * Locks. A handle is looked up under the registry's lock and then referenced, so that destroying
 * it in another thread is safe. Work of a stream runs under the stream's lock; work of the legacy
 * null stream additionally excludes that of the device's blocking streams.
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

/* -- the frame of an API call ------------------------------------------------------------------ */

/** Counts the call, initialises on first use. Not hipSuccess: the call must return that at once. */
hipError_t hip_enter(const char *name);
/** Remembers a failure for hipGetLastError() and passes it on. */
hipError_t hip_leave(hipError_t error);

#define HIP_CALL(name, expression) \
    hip_leave(hip_enter(#name) == hipSuccess ? (expression) : hip_entry_error())
hipError_t hip_entry_error(void);

/** Reports a sentence for the current call and returns `error`. */
hipError_t hip_fail(hipError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Hands a report to the user's callback or to standard error. */
void hip_report(const struct hipsim_report *report);
/** Is there a callback of the user's? */
bool hip_reports_go_elsewhere(void);

/** Adds to what hipsim_findings() returns. */
void hip_note_findings(uint64_t findings);

/** A copy of the options now in force. */
struct options hip_options(void);

/* A host thread's choices; all zero in a fresh one. */
struct hip_thread {
    int device;
    hipError_t last_error;
    hipError_t entry_error;
    const char *call;               /* the API call under way */
    struct ihipCtx_t *contexts[16]; /* the context stack */
    unsigned ncontexts;
    hipStreamCaptureMode capture_mode;
    bool has_launched;
    struct hipsim_launch_stats stats;
    struct {
        dim3 grid, block;
        size_t lds;
        hipStream_t stream;
    } calls[16]; /* __hipPushCallConfiguration */
    unsigned ncalls;
};

struct hip_thread *hip_thread(void);

/* -- handles ----------------------------------------------------------------------------------- */

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

struct hip_object {
    enum hip_kind kind;
    _Atomic unsigned references;
    void (*destroy)(struct hip_object *object);
    struct hip_object *next; /* in its bucket of the registry */
};

/** Enters a new object, with one reference that belongs to the registry. */
void hip_object_add(struct hip_object *object, enum hip_kind kind,
                    void (*destroy)(struct hip_object *object));
/** A reference to the object behind a handle, or NULL if it is no live handle of that kind. */
void *hip_object_get(const void *handle, enum hip_kind kind);
void hip_object_ref(void *object);
void hip_object_put(void *object);
/** Takes the handle out of the registry. False if it was no live handle of that kind. */
bool hip_object_remove(const void *handle, enum hip_kind kind);

/* -- devices ----------------------------------------------------------------------------------- */

/* Facts about a simulated part, of gfx_parts.def and targets/facts/. */
struct device_facts {
    const struct gfx_part *part;
    enum gfx_target target;
    const char *name;
    const char *arch; /* gcnArchName */
    int compute_units;
    int clock_khz;
    int memory_clock_khz;
    int memory_bus_bits;
    uint64_t memory_bytes;
    uint32_t lds_bytes; /* of a compute unit, all of which a workgroup may have */
    uint32_t lds_granule;
    int l2_bytes;
    uint64_t memory_bytes_per_us; /* peak */
};

struct hip_device {
    const struct device_facts *facts;
    int ordinal;  /* as the process counts */
    unsigned gpu; /* its number among all simulated GPUs, visible or not */
    uint64_t memory_bytes;
    struct ihipStream_t *null_stream;         /* heads the list of the device's streams */
    struct ihipMemPoolHandle_t *default_pool; /* guarded by lock */
    struct ihipMemPoolHandle_t *pool;         /* the current one, guarded by lock */
    struct ihipCtx_t *primary;
    pthread_mutex_t lock;
    pthread_rwlock_t legacy; /* written by the null stream's work, read by blocking streams' */
    unsigned flags;
    size_t limits[8];       /* by enum hipLimit_t */
    _Atomic uint64_t peers; /* bit per device that may be accessed */
    double synchronized_at; /* modelled time up to which the host has waited; guarded by lock */
};

int hip_device_count(void);
/** NULL if there is no device of that number. */
struct hip_device *hip_device(int ordinal);
struct hip_device *hip_current_device(void);
bool hip_devices_create(const struct options *options);

/* -- streams, events and the work that they carry ---------------------------------------------- */

struct hip_copy { /* a box of bytes; 1-D: height and depth 1 */
    void *dst;
    const void *src;
    size_t dst_pitch, src_pitch; /* bytes from row to row */
    size_t dst_slice, src_slice; /* bytes from plane to plane */
    size_t width, height, depth;
    hipMemcpyKind kind;
};

struct hip_fill {
    void *dst;
    size_t pitch, slice;
    size_t width; /* in elements */
    size_t height, depth;
    unsigned element; /* 1, 2, 4 bytes */
    uint32_t value;
};

struct hip_kernel_work {
    struct ihipModuleSymbol_t *function; /* referenced by the work */
    const void *host_function;           /* what the user named, for hipGraphKernelNodeGetParams */
    uint32_t grid[3];                    /* work-items */
    uint32_t block[3];
    uint32_t dynamic_lds;
    bool cooperative;
    bool follows; /* True if the graph that is launched has another kernel before it. */
    int priority; /* kept for those who ask, as is hipAccessPolicyWindow */
    uint64_t cache_window[4];
    void *args; /* owned: the explicit part of the argument segment */
    size_t args_bytes;
};

struct hip_value { /* what a stream waits for */
    const void *at;
    uint64_t value, mask;
    unsigned flags; /* hipStreamWaitValueGte and others */
    unsigned size;  /* 4 or 8 bytes */
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
        struct ihipEvent_t *event;       /* referenced */
        struct ihipGraph *graph;         /* owned child */
        struct hip_graph_memory *memory; /* counts this work */
        struct hip_batch *batch;         /* owned */
    };
};

struct hip_nodes { /* a set of graph nodes */
    struct hipGraphNode **items;
    size_t count, capacity;
};

/* Streams that are told apart; those beyond share the last slot, whose operations never race. */
#define ORDER_SLOTS 128

struct hip_order {            /* hip_order.h */
    uint64_t at[ORDER_SLOTS]; /* operations of each stream up to this number come before */
};

struct ihipStream_t {
    struct hip_object object;
    struct hip_device *device;
    uint64_t id; /* unique in the process */
    unsigned flags;
    int priority;
    bool is_null;
    pthread_mutex_t lock;
    double time;               /* modelled end of its last work; guarded by lock */
    hipError_t fault;          /* of a kernel, for the next synchronisation; guarded by lock */
    struct ihipStream_t *next; /* of the device's streams */
    unsigned slot;             /* in struct hip_order */
    struct hip_order order;    /* its work so far, and what comes before that; by hip_order.c */

    /* Guarded by hip_capture.c's lock. */
    struct hip_capture *capture;
    struct hip_nodes frontier; /* the nodes that the next one will depend on */
    struct ihipStream_t *next_captured;
};

struct ihipEvent_t {
    struct hip_object object;
    pthread_mutex_t lock;
    unsigned flags;
    bool recorded;
    double time;
    int device;
    struct hip_order order;      /* what comes before its last record; by hip_order.c */
    struct hip_capture *capture; /* recorded in a capture; guarded by hip_capture.c's lock */
    struct hip_nodes frontier;   /* the nodes that it stands for */
};

/** Makes the device's legacy null stream, which lives as long as the device. */
bool hip_stream_create_null(struct hip_device *device);

/** Says whether a handle is the legacy null stream's: NULL, or HIP 6.3's hipStreamLegacy, 1. */
static inline bool hip_stream_is_legacy(hipStream_t handle) { return (uintptr_t)handle <= 1; }

/** The stream behind a handle: null, per-thread or created. NULL if invalid. Drop the reference
 *  with hip_object_put(). */
struct ihipStream_t *hip_stream_get(hipStream_t handle);
/** The device of a stream; the current one for those that every device has, and for an invalid
 *  handle. */
struct hip_device *hip_stream_device(hipStream_t handle);

/** Runs the work on the stream, or adds it to the graph that the stream is capturing. Takes over
 *  what the work owns. */
hipError_t hip_submit(hipStream_t stream, struct hip_work work);

/** Runs work that stays its owner's. Not for capturing streams. */
hipError_t hip_submit_borrowed(hipStream_t stream, const struct hip_work *work);

hipError_t hip_event_create(hipEvent_t *event, unsigned flags);
hipError_t hip_event_record(hipEvent_t event, hipStream_t stream);

/** Submits work, then synchronises: for the blocking calls. */
hipError_t hip_submit_and_wait(hipStream_t stream, struct hip_work work);

/** Runs work on the stream now, under its locks. */
hipError_t hip_stream_run(struct ihipStream_t *stream, const struct hip_work *work);
/** The stream's next synchronisation returns the error. */
void hip_stream_fail(struct ihipStream_t *stream, hipError_t error);

/** Runs work at modelled time *time and moves it to the end of the work. */
hipError_t hip_work_run(const struct hip_work *work, struct hip_device *device, double *time);
hipError_t hip_work_copy(const struct hip_work *from, struct hip_work *to);
void hip_work_release(struct hip_work *work);

/** Is the stream capturing, or does a capture forbid the null stream? Then `*error` says what a
 *  call that cannot be captured returns. */
bool hip_is_capturing(hipStream_t stream, hipError_t *error);
/** Adds work to the capture of a stream; takes over what it owns. */
hipError_t hip_capture_add(struct ihipStream_t *stream, struct hip_work work);
hipError_t hip_capture_record(struct ihipStream_t *stream, struct ihipEvent_t *event);
/** Makes the stream wait inside a capture. False if neither stream nor event belongs to one. */
bool hip_capture_wait(struct ihipStream_t *stream, struct ihipEvent_t *event, hipError_t *error);
bool hip_event_is_captured(const struct ihipEvent_t *event);
/** The event is recorded anew or dies: it no longer stands for a place in a capture. */
void hip_capture_forget_event(struct ihipEvent_t *event);
/** The stream dies: its capture can no longer be ended. */
void hip_capture_abandon(struct ihipStream_t *stream);

hipError_t hip_stream_wait_done(hipStream_t stream);
hipError_t hip_device_wait_done(struct hip_device *device);

/* -- memory ------------------------------------------------------------------------------------ */

/** The memory type for the number that a program passes, and the number for a type: HIP 6 numbered
 *  them anew, see option `hip`. */
hipMemoryType hip_memory_type(unsigned given);
unsigned hip_memory_type_number(hipMemoryType type);

/** Is this a direction of copies? Device to device without compute units is one since HIP 6. */
bool hip_is_copy_kind(hipMemcpyKind kind);

/** Memory that hipsim gave out, in contrast to what the program has from elsewhere. */
bool hip_in_arena(const void *pointer);

/** Checks that need no run: sizes, and whether the bytes are there. */
hipError_t hip_copy_check(const struct hip_copy *copy);
hipError_t hip_fill_check(const struct hip_fill *fill);

hipError_t hip_copy_run(const struct hip_copy *copy, struct hip_device *device, double *time);
/** A 3-D copy as HIP describes it; arrays are refused. */
hipError_t hip_copy_from_3d(const struct hipMemcpy3DParms *p, struct hip_copy *copy);
/** The same of a HIP_MEMCPY3D, in the layout that option `hip` says, and back. */
hipError_t hip_copy_from_driver(const void *p, struct hip_copy *copy);
void hip_copy_to_driver(const struct hip_copy *copy, void *p);
/** A copy to or from a registered variable of the current device. */
hipError_t hip_copy_symbol(const void *symbol, const void *other, size_t size, size_t offset,
                           hipMemcpyKind kind, bool to_symbol, struct hip_copy *copy);
hipError_t hip_fill_run(const struct hip_fill *fill, struct hip_device *device, double *time);
hipError_t hip_value_run(const struct hip_value *value);
/** Values that are written and waited for, one after the other. */
hipError_t hip_batch_run(const struct hip_batch *batch, struct hip_device *device, double *time);
/** NULL: no memory. */
struct hip_batch *hip_batch_copy(const struct hip_batch *batch);
/** Device memory of the current device, as hipMalloc() gives it. */
hipError_t hip_allocate(void **pointer, size_t size);
hipError_t hip_allocate_on(void **pointer, size_t size, const struct hip_device *device);
hipError_t hip_release(void *pointer);
/** Called before memory is freed, whichever call frees it: pools keep count. */
void hip_pool_forget(const void *pointer);

/* -- modules and kernels ----------------------------------------------------------------------- */

struct ihipModule_t {
    struct hip_object object;
    struct code_object *code;
    struct source_lines *lines;           /* NULL: no debug information */
    struct ihipModuleSymbol_t *functions; /* one for each kernel, made on demand; guarded by lock */
    struct managed_variable *managed;     /* of hip_module_manage() */
    size_t nmanaged;
    pthread_mutex_t lock;
};

struct ihipModuleSymbol_t {
    struct hip_object object;
    struct ihipModule_t *module; /* referenced */
    const struct kernel *kernel;
    struct ihipModuleSymbol_t *next;
};

struct image;
/** Narrows the image to the device's code object and loads that. */
hipError_t hip_module_create(struct image *image, struct hip_device *device,
                             struct ihipModule_t **module);
void hip_module_unload(struct ihipModule_t *module);
hipError_t hip_module_from_status(enum code_object_status status, const char *why);
/** Reads an image from the file or, where that is NULL, from memory; to be released in any case. */
hipError_t hip_module_read(const char *path, const void *memory, struct image *image);
/** Gives the module's __managed__ variables memory that the host sees. Of a program's own code
 *  the compiler registers them. */
hipError_t hip_module_manage(struct ihipModule_t *module);
/** Finds a variable; with `managed` one that is. `address` and `size` may be NULL. */
bool hip_module_variable(const struct ihipModule_t *module, const char *name, bool managed,
                         void **address, size_t *size);
/** A reference to the function of that name. */
struct ihipModuleSymbol_t *hip_module_function(struct ihipModule_t *module, const char *name);

/** The device function that the host function of a registered kernel stands for. References it. */
hipError_t hip_registered_function(const void *host, struct hip_device *device,
                                   struct ihipModuleSymbol_t **function);
/** The device's copy of a registered variable. */
hipError_t hip_registered_variable(const void *host, struct hip_device *device, void **address,
                                   size_t *size);
/** The function on a device that the handle of a library's kernel stands for. References it. */
hipError_t hip_kernel_function(const void *handle, struct hip_device *device,
                               struct ihipModuleSymbol_t **function);
hipError_t hip_function_attribute(int *value, hipFunction_attribute attribute,
                                  const struct ihipModuleSymbol_t *function);
/** Finds the function of a handle, of a library's kernel or of a host function, the latter two on
 *  the current device. References it. */
hipError_t hip_any_function(const void *handle, struct ihipModuleSymbol_t **function);
/** hip_any_function() with the latter two on this device; NULL: there is none. */
hipError_t hip_function_on(const void *handle, struct hip_device *device,
                           struct ihipModuleSymbol_t **function);

/** Builds kernel work from kernelParams or `extra`. `grid` counts work-items. */
hipError_t hip_kernel_work(struct ihipModuleSymbol_t *function, const uint32_t grid[3],
                           const uint32_t block[3], size_t dynamic_lds, void **params, void **extra,
                           struct hip_work *work);
/** hip_kernel_work() with a grid in blocks, as most calls have it. */
hipError_t hip_kernel_work_blocks(struct ihipModuleSymbol_t *function, dim3 grid, dim3 block,
                                  size_t dynamic_lds, void **params, void **extra,
                                  struct hip_work *work);
hipError_t hip_kernel_run(const struct hip_kernel_work *work, struct hip_device *device,
                          double *time);
/** Launches the kernel of a host function or handle with arguments as `extra` passes them. */
hipError_t hip_launch_packed(const void *host, dim3 grid, dim3 block, size_t lds,
                             hipStream_t stream, void **extra);
/** Workgroups that fit on a compute unit, 0 if not even one does. */
int hip_occupancy(const struct kernel *kernel, uint32_t threads, uint64_t dynamic_lds,
                  const struct device_facts *facts);

/** The buffer through which the kernel reaches the host, made at first use. 0 if the kernel asks
 *  for none. */
uint64_t hip_hostcall_buffer(struct hip_device *device, const struct kernel *kernel);
/** Serves what kernels have left in it: after a launch, and whenever a wave sends a message. */
void hip_hostcall_serve(struct hip_device *device);
void hip_hostcall_message(struct wave *wave, const struct inst *in);

/* -- graphs ------------------------------------------------------------------------------------ */

struct hipGraphNode {
    struct hip_object object;
    struct ihipGraph *graph;
    struct hip_work work;
    struct hip_nodes needs; /* nodes of the same graph that run before */
    size_t position;        /* in graph->nodes */
    const void *origin;     /* the node that it was cloned from, as a name only */
    bool left_out;          /* in an executable: it does not run */
    void **params;          /* what hipGraphKernelNodeGetParams() hands out */
};

/* Graphs are changed under hip_graph_lock(), and run under their owner's lock. */
struct ihipGraph {
    struct hip_object object;
    struct hip_nodes nodes;             /* in the order of creation */
    const void *origin;                 /* the graph that it was cloned from */
    bool captured;                      /* a capture still adds to it */
    bool is_child;                      /* a node's own, which ends with the node */
    struct hip_user_reference *objects; /* of the program's, that must live as long */
};

/** A graph's copy holds what the graph holds. False: no memory. Both under hip_graph_lock(). */
bool hip_user_references_copy(const struct hip_user_reference *from,
                              struct hip_user_reference **to);
/** Calls the program back for what nothing else holds. */
void hip_user_references_release(struct hip_user_reference *list);

void hip_graph_lock(void);
void hip_graph_unlock(void);

bool hip_nodes_add(struct hip_nodes *nodes, struct hipGraphNode *node); /* once; false: no memory */
bool hip_nodes_remove(struct hip_nodes *nodes, const struct hipGraphNode *node);
bool hip_nodes_have(const struct hip_nodes *nodes, const struct hipGraphNode *node);
void hip_nodes_clear(struct hip_nodes *nodes);

struct ihipGraph *hip_graph_create(void);
void hip_graph_put(struct ihipGraph *graph);
/** Adds a node and takes over what the work owns, whatever the result. `node` may be among
 *  `needs`: it is written last. */
hipError_t hip_graph_add(struct ihipGraph *graph, const struct hip_nodes *needs,
                         struct hip_work work, struct hipGraphNode **node);
/** A deep copy whose nodes name their originals. NULL: no memory. */
struct ihipGraph *hip_graph_clone(const struct ihipGraph *graph);
/** Positions of the nodes, each after those that it needs. NULL if there is a cycle or no memory;
 *  free it. */
size_t *hip_graph_order(const struct ihipGraph *graph);
/** hip_graph_add() for the API: checks the graph and the needed nodes. With an `error` it does
 *  nothing and returns that. */
hipError_t hip_graph_add_checked(hipGraphNode_t *out, hipGraph_t handle,
                                 const hipGraphNode_t *needs, size_t count, hipError_t error,
                                 struct hip_work work);
/** Replaces a node's work by other work of the same kind, in its graph or, with `in_exec`, in an
 *  executable. Takes over what the work owns; with an `error` it does nothing and returns that. */
hipError_t hip_graph_replace(hipGraphExec_t exec, bool in_exec, hipGraphNode_t node,
                             hipError_t error, struct hip_work work);
/** A reference to the node if its work is of that kind. */
struct hipGraphNode *hip_graph_node_get(hipGraphNode_t handle, enum hip_work_kind kind);
/** Work that runs a copy of the graph. */
hipError_t hip_graph_child_work(hipGraph_t handle, struct hip_work *work);
/** Runs all nodes; *time becomes the end of the last one, independent nodes overlap. */
hipError_t hip_graph_run(const struct ihipGraph *graph, struct hip_device *device, double *time);

/** Memory that graphs allocate: counts the work that allocates or frees it. */
void hip_graph_memory_ref(struct hip_graph_memory *memory);
void hip_graph_memory_put(struct hip_graph_memory *memory);
/** Runs a node that allocates (`in_use`) or frees. */
hipError_t hip_graph_memory_run(struct hip_graph_memory *memory, bool in_use);
/** False if the pointer is not such memory; else frees it, and *error is what hipFree() returns. */
bool hip_graph_memory_free(const void *pointer, hipError_t *error);
/** Work that stands for a captured hipMallocAsync(), or hipFreeAsync() of such memory. */
hipError_t hip_graph_memory_capture(void **pointer, size_t size, const struct hip_device *device,
                                    struct hip_work *work);
hipError_t hip_graph_memory_capture_free(const void *pointer, struct hip_work *work);

/** The copy of `node` that a graph executable holds; NULL if it has none. */
struct hipGraphNode *hip_exec_node(hipGraphExec_t exec, const struct hipGraphNode *node);
/** Keeps an executable from running while its nodes change. False if the handle is invalid. */
bool hip_exec_lock(hipGraphExec_t exec);
void hip_exec_unlock(hipGraphExec_t exec);

#endif
