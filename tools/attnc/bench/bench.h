/* SPDX-License-Identifier: Apache-2.0
 *
 * attnc bench: what its parts share. bench.c chooses kernels, shapes and the device, and prints;
 * bench_measure.c measures one pair.
 */
#ifndef TOOLS_ATTNC_BENCH_H
#define TOOLS_ATTNC_BENCH_H

#include "tools/attnc/tune/race.h"
#include "tools/verify/verify.h"

enum { BENCH_NAME = 256 };

/** A kernel on a shape. */
struct bench_pair {
    struct attn_pack *pack; /* the kernels of one key; libattn chooses one by the shape */
    const char *shape;      /* in the form of --shape; NULL: the default of the op */
};

/** The least that a launch computes and moves. 0: not known for this op. */
struct bench_work {
    double flops, bytes;
};

struct bench_model {
    char kernel[BENCH_NAME];      /* name of the kernel that libattn chooses */
    double us, cycles, launch_us; /* time with launch overhead at the power law's clock; cycles
                                   * without it; the overhead */
    double matrix_fraction, memory_fraction; /* of the rooflines, at `us` */
    struct bench_work work;
};

struct bench_measured {
    char kernel[BENCH_NAME]; /* name of the kernel that libattn chooses */
    struct race_figure figure;
    struct bench_work work;
    double drift;        /* see struct race_result */
    double mhz_low, mhz; /* clock that the driver reports: least, and median; 0: not reported */
    char device[160];
};

struct bench_options {
    struct race_options race;
    size_t flush;    /* bytes that are overwritten before each launch */
    double patience; /* seconds after which a launch that has not ended counts as hung */
};

/** Models the time of a pair, in a process of its own. Returns false with the reason in `fault` on
 * failure. */
bool bench_model(const struct bench_pair *pair, struct bench_model *model, char fault[200]);

/** Measures the time of a pair on the machine's GPU, in a process of its own. Returns false with
 * the reason in `fault` on failure. */
bool bench_measure(const struct bench_pair *pair, const struct bench_options *o,
                   struct bench_measured *measured, char fault[200]);

#endif
