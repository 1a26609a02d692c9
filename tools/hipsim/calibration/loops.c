/* SPDX-License-Identifier: Apache-2.0 */
/* Times published loops, which small programs represent (loops.s). */
#include <stdio.h>

#include "tools/hipsim/calibration/calibrate.h"

/* Launches the kernel `name` with `groups` workgroups of `block` work-items. Returns its modelled
 * times. */
static struct hipsim_time_report run(hipModule_t module, const char *name, uint32_t groups,
                                     uint32_t block)
{
    hipFunction_t function;
    const uint32_t grid[3] = {groups, 1, 1};
    check(hipModuleGetFunction(&function, module, name), name);
    return launch(function, grid, block, NULL, 0);
}

/* Returns the average clocks of a wave from start to end, for a launch of one workgroup of four
 * waves. */
static double wave_clocks(const struct hipsim_time_report *r)
{
    uint64_t sum = r->issue_cycles;
    for (unsigned i = 0; i < HIPSIM_STALL_COUNT; i++)
        sum += r->stall_cycles[i];
    return (double)sum / 4;
}

/* Measures blocks of LDS reads and prints them. */
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

/* Returns the matrix rate of a loop of one instruction, in multiply-adds per wave and clock.
 * `macs`: multiply-adds of the instruction. */
static double rate(hipModule_t module, const char *name, double macs)
{
    struct hipsim_time_report r = run(module, name, 1, 256);
    return 128 * macs / r.loop_cycles;
}

/* True if a differs from b by less than 3 %. */
static bool near(double a, double b) { return a > 0.97 * b && a < 1.03 * b; }

/* Compares peaks at the maximum clock with the TFLOP/s of the data sheets. */
static void peaks(struct target *t, hipModule_t module)
{
    static const struct {
        const char *kernel, *what;
        /* operations of a wave's instruction; TFLOP/s of the data sheets, 0: not on this target */
        double operations, gfx942, gfx950;
    } rows[] = {
        {"peak_fma_f64", "vector f64", 2 * 64, 81.7, 78.6},
        {"peak_pk_fma_f32", "vector f32, packed", 4 * 64, 163.4, 157.3},
        {"peak_f64", "matrix f64", 2 * 16 * 16 * 4, 163.4, 78.6},
        {"peak_f32", "matrix f32", 2 * 32 * 32 * 2, 163.4, 157.3},
        {"peak_xf32", "matrix xf32", 2 * 32 * 32 * 4, 653.7, 0},
        {"peak_f16", "matrix f16", 2 * 32 * 32 * 8, 1307.4, 2516.6},
        {"peak_i8", "matrix i8", 2 * 32 * 32 * 16, 2614.9, 5033.2},
        {"peak_fp8", "matrix fp8", 2 * 32 * 32 * 16, 2614.9, 5033.2},
        {"peak_fp6", "matrix fp6", 2 * 32 * 32 * 32, 0, 10066.3},
        {"peak_fp4", "matrix fp4", 2 * 32 * 32 * 32, 0, 10066.3},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double published = t->gfx950 ? rows[i].gfx950 : rows[i].gfx942;
        if (published == 0)
            continue;
        const struct hipsim_time_report r = run(module, rows[i].kernel, 1, 256);
        /* gfx950 has twice the rate; in low precision by four times the depth of an instruction */
        const bool narrow = rows[i].operations == 2 * 32 * 32 * 16 && rows[i].kernel[5] == 'f';
        const double deeper = !t->gfx950 || i < 5 ? 1 : narrow ? 4 : 2;
        print_row("D", rows[i].what, published,
                  deeper * rows[i].operations * 128 / r.loop_cycles * 4 * (t->gfx950 ? 256 : 304) *
                      r.max_mhz / 1e6,
                  "TFLOP/s", false, "data sheet, at the maximum clock");
    }
}

/* Measures attention loops on gfx950 and prints them. */
static void gfx950_loops(struct target *t, hipModule_t module)
{
    double lazy = run(module, "fa_lazy", 256, 512).loop_cycles;
    double eager = run(module, "fa_eager", 256, 512).loop_cycles;
    double apart = run(module, "fa_apart", 256, 512).loop_cycles;
    double bare = run(module, "fa_bare", 256, 512).loop_cycles;
    double between = run(module, "fa_packed_between", 256, 512).loop_cycles;
    double behind = run(module, "fa_packed_behind", 256, 512).loop_cycles;
    print_row("A1", "eager softmax loop (fav3), 2 tiles of 64 keys", 4777, eager, "cycles", false,
              "GLUON fav3, 4752-4802");
    print_row("A2", "lazy softmax loop (fav4), 2 tiles of 64 keys", 4336, lazy, "cycles", false,
              "GLUON fav4, 4299-4373");
    print_row("A3", "eager, matrix and softmax apart (FlyDSL eager)", 6694.5, apart, "cycles",
              false, "GLUON note 3.15; that they are apart is assumed");
    print_not_run(t, "A3", "FlyDSL lazy 4747, less its s_nops 4621",
                  "where its waits and nops stand is not published");
    print_row("A4", "a workgroup's loop, 63 iterations (S 8192)", 268638, 63 * lazy, "cycles",
              false, "GLUON fav4; the number of iterations is assumed");
    print_not_run(t, "A4", "its prologue 16429, epilogue 19020", "their code is not published");
    print_row("A5", "packed between the MFMAs (baseline)", 6282, between, "cycles", false,
              "GLUON mfma_coissue_scheduling; the second run is assumed");
    print_row("A5", "packed behind the MFMAs (K = 3)", 5768, behind, "cycles", false,
              "GLUON mfma_coissue_scheduling; the second run is assumed");
    print_order(t, "A5", "packed behind < between", behind < between);
    print_row("A6", "matrix instructions alone", 4105, bare, "cycles", false,
              "GLUON note 1.1, floor of the ablation");
    print_not_run(t, "A6", "steps of the ablation between 76 and 101 %",
                  "what was removed step by step is not published");
    print_not_run(t, "C2", "d 64: HipKittens before AITER, 1.13 to 1.2",
                  "no code object of HipKittens is published");
    print_not_run(t, "C7", "GEMM, producers and consumers 4/8 < 0/8",
                  "no code object of HipKittens is published");
    print_not_run(t, "C8", "MLA of 16 heads, one sequence: ASM > split",
                  "the Gluon kernel is published as source for its compiler only");
    print_not_run(t, "C9", "sparse decode, BLOCK_K 32 < 64",
                  "the Triton kernel is published as source for its compiler only");
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
    peaks(t, module);
    if (t->gfx950)
        gfx950_loops(t, module);
    check(hipModuleUnload(module), "hipModuleUnload");
}
