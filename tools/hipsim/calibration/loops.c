/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of hardware.md 5.4 that small programs of our own stand for (loops.s). */
#include <stdio.h>

#include "tools/hipsim/calibration/calibrate.h"

static struct hipsim_time_report run(hipModule_t module, const char *name, uint32_t groups,
                                     uint32_t block)
{
    hipFunction_t function;
    const uint32_t grid[3] = {groups, 1, 1};
    check(hipModuleGetFunction(&function, module, name), name);
    return launch(function, grid, block, NULL, 0);
}

/* Clocks of a wave from start to end, averaged; four waves of one workgroup. */
static double wave_clocks(const struct hipsim_time_report *r)
{
    uint64_t sum = r->issue_cycles;
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        sum += r->stall_cycles[i];
    return (double)sum / 4;
}

static void lds_blocks(struct target *t, hipModule_t module)
{
    static const struct {
        bool gfx950, fitted;
        const char *kernel, *what;
        double published;
    } rows[] = {
        {false, false, "lds_b32", "64 x ds_read_b32", 501},
        {false, false, "lds_b64", "64 x ds_read_b64", 852},
        {false, false, "lds_b128", "64 x ds_read_b128", 1384},
        {false, true, "lds_b32_128", "64 x ds_read_b32, stride 128 B", 6810},
        {false, true, "lds_b64_128", "64 x ds_read_b64, stride 128 B", 7158},
        {false, true, "lds_b128_128", "64 x ds_read_b128, stride 128 B", 7615},
        {true, false, "lds_b64", "64 x ds_read_b64", 583},
        {true, false, "lds_b64_256", "64 x ds_read_b64, stride 256 B", 10025},
    };
    struct hipsim_time_report none = run(module, "lds_none", 1, 256);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].gfx950 != t->gfx950)
            continue;
        struct hipsim_time_report r = run(module, rows[i].kernel, 1, 256);
        print_row("A8", rows[i].what, rows[i].published, wave_clocks(&r) - wave_clocks(&none),
                  "cycles", rows[i].fitted, "SHARK empirical-lds, 4 waves");
    }
}

/* The matrix rate of a loop of one instruction, in multiply-adds of a wave per clock. */
static double rate(hipModule_t module, const char *name, double macs)
{
    struct hipsim_time_report r = run(module, name, 1, 256);
    return 128 * macs / r.loop_cycles;
}

static bool near(double a, double b)
{
    return a > 0.97 * b && a < 1.03 * b;
}

static void gfx950_loops(struct target *t, hipModule_t module)
{
    double lazy = run(module, "fa_lazy", 256, 512).loop_cycles;
    double eager = run(module, "fa_eager", 256, 512).loop_cycles;
    double apart = run(module, "fa_apart", 256, 512).loop_cycles;
    print_row("A1", "eager softmax loop (fav3), 2 tiles of 64 keys", 4777, eager, "cycles", false,
              "GLUON fav3, 4752-4802");
    print_row("A2", "lazy softmax loop (fav4), 2 tiles of 64 keys", 4336, lazy, "cycles", false,
              "GLUON fav4, 4299-4373");
    print_order(t, "C1", "fav4 < fav3 < FlyDSL eager", lazy < eager && eager < apart);
    double bf16 = rate(module, "rate_bf16", 16 * 16 * 32);
    double fp8 = rate(module, "rate_fp8", 16 * 16 * 32);
    double f8f6f4 = rate(module, "rate_f8f6f4", 16 * 16 * 128);
    print_order(t, "C4", "fp8 16x16x32 as bf16, f8f6f4 twice that",
                near(fp8, bf16) && near(f8f6f4, 2 * bf16));
}

void calibrate_loops(struct target *t)
{
    hipModule_t module;
    check(hipModuleLoad(&module, t->loops), t->loops);
    lds_blocks(t, module);
    if (t->gfx950)
        gfx950_loops(t, module);
    check(hipModuleUnload(module), "hipModuleUnload");
}
