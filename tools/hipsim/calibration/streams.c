/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams on an MI300A, which has six of MI300X's eight XCDs and the same memory. The times are
 * from MGPUSim's gpu_perf_scripts/mi300a.csv, the minimum of 51 launches. Launches repeat the same
 * data, so most of it is in the MALL if it fits. Loads plus stores reach 4.0 to 4.4 TB/s
 * nevertheless, as from HBM.
 */
#include "tools/hipsim/calibration/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

static const char mi300a[] = "cus=228,xcds=6";

static const struct {
    const char *kernel;
    uint32_t elements;
    double us;
} rows[] = {
    {"vectoradd", 1 << 21, 9.9},  {"vectoradd", 1 << 22, 15.6}, {"vectoradd", 1 << 23, 27.4},
    {"vectoradd", 1 << 24, 51.0}, {"relu", 1 << 21, 8.7},       {"relu", 1 << 22, 12.5},
    {"relu", 1 << 23, 20.5},      {"relu", 1 << 24, 36.5},
};

/* Measures the published row number `row` of a stream and prints it. */
static void stream(hipModule_t module, size_t row)
{
    hipFunction_t function;
    void *args[3];
    const size_t bytes = (size_t)rows[row].elements * sizeof(float);
    const uint32_t grid[3] = {rows[row].elements / 256, 1, 1};
    char what[64];
    check(hipModuleGetFunction(&function, module, rows[row].kernel), rows[row].kernel);
    for (int i = 0; i < 3; i++) {
        check(hipMalloc(&args[i], bytes), "hipMalloc");
        check(hipMemset(args[i], 0, bytes), "hipMemset");
    }
    const struct hipsim_time_report r = launch(function, grid, 256, args, sizeof(args));
    for (int i = 0; i < 3; i++)
        check(hipFree(args[i]), "hipFree");
    snprintf(what, sizeof(what), "%s, %u elements", rows[row].kernel, rows[row].elements);
    print_row("M", what, rows[row].us, r.us_at_max, "us", false, "MGPUSim mi300a.csv");
}

/* Runs one wave for `rounds` rounds. Returns the cycles of a round. */
static double round_cycles(hipModule_t module, const char *name, void *data, uint64_t rounds)
{
    hipFunction_t function;
    const uint32_t grid[3] = {1, 1, 1};
    struct {
        void *data, *unused;
        uint64_t rounds;
    } args = {data, NULL, rounds};
    check(hipModuleGetFunction(&function, module, name), name);
    return launch(function, grid, 64, &args, sizeof(args)).loop_cycles;
}

/* Compares row A10, measured on an MI210 at 1.7 GHz, with the model: the latencies of L1, L2 and
 * HBM. An MI210 has no MALL, and first accesses are to HBM in the model too. */
static void chases(hipModule_t module)
{
    static const struct {
        const char *what;
        uint32_t bytes, loads;
        double published;
    } levels[] = {
        {"chain of loads in 16 KB: L1", 16 << 10, 1 << 14, 125},
        {"chain of loads in 1 MB: L2", 1 << 20, 1 << 17, 240},
        {"chain of loads in 64 MB: HBM", 64 << 20, 1 << 14, 620},
    };
    set_parameters("max_mhz=1700");
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        const uint32_t words = levels[i].bytes / 4;
        uint32_t *chain = calloc(words, sizeof(*chain));
        void *data;
        for (uint32_t at = 0; chain && at < words; at += 32)
            chain[at] = (at + 32) % words * 4;
        check(chain ? hipMalloc(&data, levels[i].bytes) : hipErrorOutOfMemory, "hipMalloc");
        check(hipMemcpy(data, chain, levels[i].bytes, hipMemcpyHostToDevice), "hipMemcpy");
        print_row("A10", levels[i].what, levels[i].published,
                  round_cycles(module, "chase", data, levels[i].loads / 16) / 16, "cycles", true,
                  "gpu-benches, MI210: the latencies are from there");
        check(hipFree(data), "hipFree");
        free(chain);
    }
    set_parameters(NULL);
}

/* Compares loads of rows of 128 bytes and of 64 bytes, and prints them. */
static void rows_of_lines(struct target *t, hipModule_t module)
{
    void *data;
    check(hipMalloc(&data, 4096), "hipMalloc");
    const double whole = round_cycles(module, "rows_of_128", data, 64);
    const double half = round_cycles(module, "rows_of_64", data, 64);
    check(hipFree(data), "hipFree");
    print_row("C5", "L1 time, rows of 64 B to rows of 128 B", 2, half / whole, "", false,
              "GLUON kernels/gemm/gfx942");
    print_order(t, "C5", "rows of 128 B < rows of 64 B", whole < half);
}

void calibrate_streams(struct target *t)
{
    hipModule_t module;
    if (t->gfx950)
        return;
    check(hipModuleLoad(&module, t->streams), t->streams);
    chases(module);
    rows_of_lines(t, module);
    set_parameters(mi300a);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        stream(module, i);
    check(hipModuleUnload(module), "hipModuleUnload");
    set_parameters(NULL);
}
