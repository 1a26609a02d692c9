/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams on an MI300A, six of MI300X's XCDs over the same memory: the times of MGPUSim's
 * gpu_perf_scripts/mi300a.csv, least of 51 launches. The same data again and again, so most of it
 * is in the MALL before every launch, wherever it fits; and yet loads and stores together come to
 * 4.0 to 4.4 TB/s, as from HBM.
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

void calibrate_streams(struct target *t)
{
    hipModule_t module;
    if (t->gfx950)
        return;
    set_parameters(mi300a);
    check(hipModuleLoad(&module, t->streams), t->streams);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        stream(module, i);
    check(hipModuleUnload(module), "hipModuleUnload");
    set_parameters(NULL);
}
