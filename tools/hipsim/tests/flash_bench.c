/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the host time of a flash-attention kernel on the simulator, one thread, checks on. A
 * workgroup has 512 work-items, 64 KiB of LDS, 256 queries and 1,000 keys of head size 128. Several
 * workgroups are executed untimed and under the timing model. The kernel is tools/bench/flash.c,
 * built by Clang.
 *
 * Usage: hipsim_flash_bench GFX942_CODE_OBJECT [THREADS]
 * With THREADS, the workgroups are executed untimed only, on this number of host threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/hipsim/hip/hipsim.h"
#include "tools/hipsim/time/hipsim_time.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

enum { QUERIES = 256, KEYS = 1000, D = 128, THREADS = 512, LDS = 64 << 10, HEADS = 8 };
enum { RUNS = 5 };

struct args {
    const void *q, *k, *v;
    void *out;
    const int *cu_q, *cu_k;
    long q_stride, q_head, k_stride, k_head, v_stride, v_head, out_stride, out_head;
    int gqa;
    float scale_log2;
};

static void check(hipError_t error, const char *what)
{
    if (error == hipSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, hipGetErrorString(error));
    exit(1);
}

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(void) { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

/* Allocates device memory with `rows` rows of D bf16 numbers of about -1 to 1. */
static void *tensor(size_t rows)
{
    static uint32_t state = 1;
    uint16_t *host = malloc(rows * D * sizeof(*host));
    void *device = NULL;
    if (!host)
        abort();
    for (size_t i = 0; i < rows * D; i++) {
        state = state * 1664525 + 1013904223;
        float f = (float)(int32_t)state * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof(bits));
        host[i] = (uint16_t)(bits >> 16);
    }
    check(hipMalloc(&device, rows * D * sizeof(*host)), "hipMalloc");
    check(hipMemcpy(device, host, rows * D * sizeof(*host), hipMemcpyHostToDevice), "hipMemcpy");
    free(host);
    return device;
}

static const int *lengths(int length)
{
    int host[2] = {0, length};
    void *device = NULL;
    check(hipMalloc(&device, sizeof(host)), "hipMalloc");
    check(hipMemcpy(device, host, sizeof(host), hipMemcpyHostToDevice), "hipMemcpy");
    return device;
}

static struct args make_args(void)
{
    return (struct args){
        .q = tensor(QUERIES * HEADS),
        .k = tensor(KEYS * HEADS),
        .v = tensor(KEYS * HEADS),
        .out = tensor(QUERIES * HEADS),
        .cu_q = lengths(QUERIES),
        .cu_k = lengths(KEYS),
        .q_stride = D,
        .q_head = (long)QUERIES * D,
        .k_stride = D,
        .k_head = (long)KEYS * D,
        .v_stride = D,
        .v_head = (long)KEYS * D,
        .out_stride = D,
        .out_head = (long)QUERIES * D,
        .gqa = 1,
        .scale_log2 = 1.442695f * 0.08838835f,
    };
}

/* Launches `heads` workgroups and waits for them. */
static void launch(hipFunction_t function, struct args *args, unsigned heads)
{
    int fixed = 0;
    size_t bytes = sizeof(*args);
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     HIP_LAUNCH_PARAM_END};
    check(hipFuncGetAttribute(&fixed, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
          "hipFuncGetAttribute");
    check(hipModuleLaunchKernel(function, 1, heads, 1, THREADS, 1, 1, (unsigned)(LDS - fixed), NULL,
                                NULL, extra),
          "hipModuleLaunchKernel");
    check(hipDeviceSynchronize(), "hipDeviceSynchronize");
}

/* Returns the best time of several launches of `heads` workgroups, in seconds of processor time. */
static double run(hipFunction_t function, struct args *args, unsigned heads)
{
    double best = 1e9;
    for (unsigned i = 0; i < RUNS; i++) {
        const double start = seconds();
        launch(function, args, heads);
        const double taken = seconds() - start;
        best = taken < best ? taken : best;
    }
    return best;
}

static double time_run(hipFunction_t function, struct args *args, unsigned heads)
{
    const struct hipsim_time_options options = {.size = sizeof(options)};
    if (!hipsim_time_enable(&options, NULL, 0))
        exit(1);
    double taken = run(function, args, heads);
    hipsim_time_enable(NULL, NULL, 0);
    return taken;
}

/* Prints the times of a launch of HEADS workgroups, and the share of its processor time that is not
 * spent in workgroups. */
static void print_scaling(hipFunction_t function, struct args *args, const char *threads)
{
    double wall = 1e9;
    for (unsigned i = 0; i < RUNS; i++) {
        const double start = clock_of(CLOCK_MONOTONIC);
        launch(function, args, HEADS);
        const double taken = clock_of(CLOCK_MONOTONIC) - start;
        wall = taken < wall ? taken : wall;
    }
    const double one = run(function, args, 1), all = run(function, args, HEADS);
    printf("%s threads: %d workgroups in %.4f s, %.4f s of processor time; launch alone %.2f %%\n",
           threads, HEADS, wall, all, 100 * (HEADS * one - all) / (HEADS - 1) / all);
}

int main(int argc, char **argv)
{
    char why[256], options[64] = "target=gfx942,threads=";
    hipModule_t module;
    hipFunction_t function;
    struct hipsim_launch_stats stats = {.size = sizeof(stats)};

    if (argc < 2 || argc > 3)
        return 1;
    strncat(options, argc == 3 ? argv[2] : "1", 8);
    if (!hipsim_configure(options, why, sizeof(why)))
        return 1;
    check(hipModuleLoad(&module, argv[1]), argv[1]);
    check(hipModuleGetFunction(&function, module, "prefill"), "prefill");
    struct args args = make_args();
    if (argc == 3) {
        print_scaling(function, &args, argv[2]);
        return 0;
    }
    double one = run(function, &args, 1);
    if (!hipsim_last_launch(&stats))
        return 1;
    printf("%d work-items, %u KiB LDS, %d queries, %d keys, D %d: %.3f s\n", THREADS,
           stats.lds_bytes >> 10, QUERIES, KEYS, D, one);
    printf("  %.2f M instructions, of them %.3f M MFMA, %.2f M VALU: %.1f M/s on one core\n",
           (double)stats.instructions * 1e-6, (double)stats.mfma * 1e-6, (double)stats.valu * 1e-6,
           (double)stats.instructions / one * 1e-6);
    double plain = run(function, &args, HEADS), timed = time_run(function, &args, HEADS);
    printf("%d workgroups: %.3f s, in modelled time %.3f s: %.1f times\n", HEADS, plain, timed,
           timed / plain);
    return 0;
}
