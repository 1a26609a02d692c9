/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a probe through HIP functions of the machine's library or of hipsim, loaded at run time.
 * Functions here store the first error in `failure`; probe_open() and probe_run() hand it to their
 * caller.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/attnc/on_gpu/probes.h"
#include "tools/hipsim/time/hipsim_time.h"
#include "tools/verify/verify.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The chain that far_chain follows: bytes between two links, number of links, bytes of all. Each
 * link is new to every cache. */
enum { LINK_STRIDE = (16 << 20) + 4352, LINKS = 32, ROOM = LINK_STRIDE * LINKS };
enum { COPIED = 64 << 20 /* bytes of each of the two buffers that `copy` moves data between */ };
enum { AGAIN = 256 /* workgroups of the probe `again`, 32 for each XCD */ };
/* Workgroups of a launch that takes milliseconds, long enough that the power law decides the
 * clock. */
enum { HOT = 262144 };
/* Workgroups of the cooperative launch `meet`; both targets can hold all at once. */
enum { MET = 256 };

const struct probe probes[] = {
    /* All results in microseconds depend on the clock law. The law of gfx950 is known from
     * measurements. */
    {"heat_16", "law_slope", "gfx942", 4, HOT, true, 0},
    {"warm_16", "law_mhz", "gfx942", 4, HOT, true, 0},
    {"mul32", "valu_mul32_cycles", NULL, 1, 1, false, 0},
    {"trans", "trans_cycles", NULL, 1, 1, false, 0},
    {"lane_swap", "lane_swap_cycles", "gfx950", 1, 1, false, 0},
    {"packed_f32", "packed_f32_hazard", NULL, 1, 1, false, 0},
    {"short_shadow", "matrix_closed_short", "gfx950", 1, 1, false, 0},
    {"branch_taken", "branch_taken_cycles", NULL, 1, 1, false, 0},
    {"branch_fall", "branch_fall_cycles", NULL, 1, 1, false, 0},
    {"straddle", "straddle_cycles", NULL, 1, 1, false, 0},
    {"branch_straddle", "branch_straddle_cycles", NULL, 1, 1, false, 0},
    {"barrier", "barrier_cycles", NULL, 4, 1, false, 0},
    {"fetch", "ifetch_latency", NULL, 1, 1, false, 0},
    {"lds_chain", "lds_latency", NULL, 1, 1, false, 0},
    {"lds_stride", "lds_conflict_scale", "gfx942", 4, 1, false, 0},
    {"lds_write", "lds_write_b128_issue", NULL, 1, 1, false, 0},
    {"scalar_chain", "scalar_latency", NULL, 1, 1, false, 0},
    {"near_chain", "l1_latency", NULL, 1, 1, false, 0},
    {"far_chain", "hbm_ns", NULL, 1, 1, false, 0},
    {"tiny", "launch_us", NULL, 1, 1, true, 0},
    {"tiny", "graph_node_us", NULL, 1, 1, true, 64},
    {"tiny", "dispatch_cycles", NULL, 1, 65536, true, 0},
    {"idle", "workgroup_idle_cycles", NULL, 4, 8192, true, 0},
    {"full", "workgroup_cycles", NULL, 4, 8192, true, 0},
    {"copy", "hbm_gb_per_s", NULL, 4, COPIED / 4096, true, 0},
    {"again", "mall_gb_per_s", NULL, 4, AGAIN, true, 0},
    {"writeback", "l2_writeback_cycles", NULL, 1, 1, false, 0},
    {"invalidate", "l1_invalidate_cycles", NULL, 1, 1, false, 0},
    {"atomic", "atomic_cycles", NULL, 4, 1, false, 0},
    {"code", "code_warm", NULL, 1, 1, false, 0},
    {"meet", "grid_barrier_cycles", NULL, 1, MET, true, 0},
    {"heat_8", "power_matrix_8", NULL, 4, HOT, true, 0},
    {"heat_32", "power_matrix_32", NULL, 4, HOT, true, 0},
    {"heat_4", "power_matrix_4", "gfx950", 4, HOT, true, 0},
};

const size_t probe_count = COUNT(probes);

/* HIP functions of the loaded library, and hipsim's own for the timing model. */
static struct {
    int (*init)(unsigned);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*cooperate)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void *, void **);
    int (*allocate)(void **, size_t);
    int (*copy)(void *, const void *, size_t, int);
    int (*set)(void *, int, size_t);
    int (*synchronize)(void);
    int (*event)(void **);
    int (*record)(void *, void *);
    int (*elapsed)(float *, void *, void *);
    int (*stream)(void **);
    int (*begin)(void *, int);
    int (*end)(void *, void **);
    int (*instantiate)(void **, void *, void *, char *, size_t);
    int (*replay)(void *, void *);
    int (*destroy_graph)(void *);
    int (*destroy_executable)(void *);
    const char *(*name)(int);
    /* Sets options of hipsim's timing model; NULL: the library is not hipsim. */
    bool (*time)(const struct hipsim_time_options *, char *, size_t);
} hip;

/* Kinds of hipMemcpy(): hipMemcpyHostToDevice and hipMemcpyDeviceToHost. */
enum { TO_DEVICE = 1, TO_HOST = 2 };

/* The module, buffers, events and stream of the device; NULL: not made yet. */
static struct {
    void *module, *results, *data, *links, *start, *stop, *flush, *stream;
} gpu;

static char failure[200]; /* sentence about the first error; "": none */

bool probe_is_for(const struct probe *p, const char *target)
{
    return !p->target || !strcmp(p->target, target);
}

/* Stores the error of HIP function `call` in `failure`, unless `error` is 0 or an earlier one is
 * stored. Returns false if `error` is not 0. */
static bool check(int error, const char *call)
{
    if (error && !failure[0])
        snprintf(failure, sizeof(failure), "%s: %s", call, hip.name(error));
    return !error;
}

/* Loads the HIP library at `path`, or the machine's if `path` is NULL. Returns NULL with a message
 * in `failure` if there is none. */
static void *open_library(const char *path)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !path && !library && i < COUNT(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(failure, sizeof(failure), "the HIP runtime cannot be loaded: %.150s", dlerror());
    return library;
}

/* Looks up all functions of `hip` in the library. Returns false with a message in `failure` if one
 * is absent. */
static bool bind(void *library)
{
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
        {"hipInit", &hip.init},
        {"hipModuleLoadData", &hip.load},
        {"hipModuleGetFunction", &hip.function},
        {"hipModuleLaunchKernel", &hip.launch},
        {"hipModuleLaunchCooperativeKernel", &hip.cooperate},
        {"hipMalloc", &hip.allocate},
        {"hipMemcpy", &hip.copy},
        {"hipMemset", &hip.set},
        {"hipDeviceSynchronize", &hip.synchronize},
        {"hipEventCreate", &hip.event},
        {"hipEventRecord", &hip.record},
        {"hipEventElapsedTime", &hip.elapsed},
        {"hipStreamCreate", &hip.stream},
        {"hipStreamBeginCapture", &hip.begin},
        {"hipStreamEndCapture", &hip.end},
        {"hipGraphInstantiate", &hip.instantiate},
        {"hipGraphLaunch", &hip.replay},
        {"hipGraphDestroy", &hip.destroy_graph},
        {"hipGraphExecDestroy", &hip.destroy_executable},
        {"hipGetErrorName", &hip.name},
        {"hipsim_time_enable", &hip.time},
    };
    for (size_t i = 0; i < COUNT(functions); i++) {
        if (!gpu_find_function(library, functions[i].name, functions[i].slot) &&
            functions[i].slot != (void *)&hip.time) {
            snprintf(failure, sizeof(failure), "the HIP runtime has no %s", functions[i].name);
            return false;
        }
    }
    return true;
}

/* True for probes with so long launches that the simulator executes only the workgroups that it
 * times. */
static bool is_sampled(const struct probe *p) { return p->groups == HOT || p->groups == AGAIN; }

/* Sets the parameters of the simulator's timing model from `text`, in the form of --parameters.
 * With `sampled` it executes only the workgroups that it times. Does nothing on a GPU. Returns
 * false with a message in `failure`. */
static bool set_parameters(const char *text, bool sampled)
{
    const struct hipsim_time_options options = {
        .size = sizeof(options), .samples_only = sampled, .parameters = text};
    return !hip.time || hip.time(&options, failure, sizeof(failure));
}

/* Loads the target's loops and allocates the buffers. Buffer `links` is a chain: each link holds
 * the offset of the next, 16 MiB on. Returns false with a message in `failure`. */
static bool prepare(const char *target)
{
    extern const unsigned char probes_gfx942[], probes_gfx950[];
    const void *object = strcmp(target, "gfx950") ? probes_gfx942 : probes_gfx950;
    bool good = check(hip.init(0), "hipInit") &&
                check(hip.load(&gpu.module, object), "hipModuleLoadData") &&
                check(hip.allocate(&gpu.results, COPIED), "hipMalloc") &&
                check(hip.allocate(&gpu.data, COPIED), "hipMalloc") &&
                check(hip.allocate(&gpu.links, ROOM), "hipMalloc") &&
                check(hip.event(&gpu.start), "hipEventCreate") &&
                check(hip.event(&gpu.stop), "hipEventCreate");
    for (uint32_t i = 0; good && i < LINKS; i++) {
        const uint32_t next = i + 1 < LINKS ? (i + 1) * LINK_STRIDE : 0;
        good = check(
            hip.copy((char *)gpu.links + (size_t)i * LINK_STRIDE, &next, sizeof(next), TO_DEVICE),
            "hipMemcpy");
    }
    return good;
}

bool probe_open(const char *path, const char *target, char why[200])
{
    void *library = open_library(path);
    const bool good = library && bind(library) && prepare(target);
    if (!good)
        memcpy(why, failure, sizeof(failure));
    return good;
}

/* Evicts the buffers from all caches by writing 512 MiB, more than the caches hold. Does nothing on
 * the simulator, whose launches start with empty caches. */
static bool flush(void)
{
    enum { MORE = 512 << 20 };
    if (hip.time)
        return true;
    return (gpu.flush || check(hip.allocate(&gpu.flush, MORE), "hipMalloc")) &&
           check(hip.set(gpu.flush, 1, MORE), "hipMemset");
}

/* Launches a probe into a stream. `extra` has its arguments. Only `meet` is launched cooperatively,
 * since its workgroups wait for each other; it has no arguments. */
static bool launch(const struct probe *p, void *function, void *stream, void **extra)
{
    if (!strcmp(p->kernel, "meet"))
        return check(hip.cooperate(function, p->groups, 1, 1, 64 * p->waves, 1, 1, 0, stream, NULL),
                     "hipModuleLaunchCooperativeKernel");
    return check(hip.launch(function, p->groups, 1, 1, 64 * p->waves, 1, 1, 0, stream, NULL, extra),
                 "hipModuleLaunchKernel");
}

/* Sets *graph to an executable graph of p->nodes launches, each after the one before; the caller
 * destroys it. *graph is NULL after a failure and if the probe has no graph. */
static bool make_graph(const struct probe *p, void *function, void **extra, void **graph)
{
    void *captured = NULL;
    *graph = NULL;
    if (!p->nodes)
        return true;
    if ((!gpu.stream && !check(hip.stream(&gpu.stream), "hipStreamCreate")) ||
        !check(hip.begin(gpu.stream, 0), "hipStreamBeginCapture"))
        return false;
    bool good = true;
    for (unsigned i = 0; good && i < p->nodes; i++)
        good = launch(p, function, gpu.stream, extra);
    good = check(hip.end(gpu.stream, &captured), "hipStreamEndCapture") && good &&
           check(hip.instantiate(graph, captured, NULL, NULL, 0), "hipGraphInstantiate");
    if (captured)
        check(hip.destroy_graph(captured), "hipGraphDestroy");
    return good;
}

/* Launches `graph`; the probe itself if `graph` is NULL. */
static bool start(const struct probe *p, void *function, void **extra, void *graph)
{
    return graph ? check(hip.replay(graph, NULL), "hipGraphLaunch")
                 : launch(p, function, NULL, extra);
}

/* Prepares the caches and the buffer that the probe's loop reads, and sets *data to the buffer's
 * address. */
static bool set_data(const struct probe *p, void **data)
{
    const bool far = !strcmp(p->kernel, "far_chain"), copies = !strcmp(p->kernel, "copy");
    /* Only these loops read or write more than 4,096 bytes of the buffers. */
    if ((copies || !strcmp(p->kernel, "again")) &&
        (!check(hip.set(gpu.results, 0, COPIED), "hipMemset") ||
         !check(hip.set(gpu.data, 0, COPIED), "hipMemset")))
        return false;
    if ((far || copies) && !flush())
        return false;
    *data = far ? gpu.links : gpu.data;
    if (far)
        return true;
    if (!strcmp(p->kernel, "scalar_chain"))
        return check(hip.copy(gpu.data, &gpu.data, sizeof(gpu.data), TO_DEVICE), "hipMemcpy");
    return check(hip.set(gpu.data, 0, 4096), "hipMemset");
}

/* Runs one launch or graph of a probe. *value gets the clocks that the kernel has stored, or the
 * microseconds between two events. */
static bool run_once(const struct probe *p, double *value)
{
    void *function, *graph = NULL, *args[2] = {gpu.results, NULL};
    size_t size = sizeof(args);
    /* The tags of a buffer of arguments: address, size, end. */
    void *extra[] = {(void *)1, args, (void *)2, &size, (void *)3};
    uint32_t clocks = 0;
    float milliseconds = 0;
    const bool good =
        check(hip.function(&function, gpu.module, p->kernel), "hipModuleGetFunction") &&
        set_data(p, &args[1]) && make_graph(p, function, extra, &graph) &&
        check(hip.synchronize(), "hipDeviceSynchronize") &&
        check(hip.record(gpu.start, NULL), "hipEventRecord") && start(p, function, extra, graph) &&
        check(hip.record(gpu.stop, NULL), "hipEventRecord") &&
        check(hip.synchronize(), "hipDeviceSynchronize") &&
        check(p->event ? hip.elapsed(&milliseconds, gpu.start, gpu.stop)
                       : hip.copy(&clocks, gpu.results, sizeof(clocks), TO_HOST),
              "the result");
    *value = p->event ? 1000.0 * (double)milliseconds : clocks;
    return (!graph || check(hip.destroy_executable(graph), "hipGraphExecDestroy")) && good;
}

/* Compares two doubles, for qsort(). */
static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bool probe_run(const struct probe *p, const char *parameters, struct probe_result *r, char why[200])
{
    double values[PROBE_RUNS], first;
    size_t runs = 1;
    failure[0] = '\0';
    bool good =
        set_parameters(parameters, is_sampled(p)) && run_once(p, &first) && run_once(p, &values[0]);
    /* A GPU, or a simulator that does not repeat its first result. */
    if (good && (!hip.time || values[0] != first))
        while (good && runs < PROBE_RUNS)
            good = run_once(p, &values[runs++]);
    if (!good) {
        memcpy(why, failure, sizeof(failure));
        return false;
    }
    /* With 15 runs, the true median is between the 3rd and the 13th with 99.3 % confidence. Both
     * tails of the binomial distribution have 242 of 32,768 cases. */
    qsort(values, runs, sizeof(values[0]), by_value);
    *r = (struct probe_result){values[runs / 2], values[runs / 6], values[runs - 1 - runs / 6],
                               hip.time != NULL};
    return true;
}

bool probe_model(const struct probe *p, const char *parameters, double *value, char why[200])
{
    failure[0] = '\0';
    const bool good = set_parameters(parameters, is_sampled(p)) && run_once(p, value);
    if (!good)
        memcpy(why, failure, sizeof(failure));
    return good;
}
