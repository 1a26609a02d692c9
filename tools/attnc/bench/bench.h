/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of attnc bench. bench.c chooses kernels, shapes and the device, and prints.
 * bench_measure.c times one kernel with one shape.
 */
#ifndef TOOLS_ATTNC_BENCH_H
#define TOOLS_ATTNC_BENCH_H

#include "tools/attnc/tune/race.h"
#include "tools/verify/verify.h"

/** Bytes of a kernel name, with the final zero. */
enum { BENCH_NAME = 256 };

/** A kernel and the shape that it is timed with. */
struct bench_pair {
    struct attn_pack *pack; /* the kernels of one key; libattn chooses one by the shape */
    const char *shape;      /* in the form of --shape; NULL: the default of the op */
};

/** Floating-point operations, and the fewest bytes of memory, that a launch needs. 0: unknown for
 * this op. */
struct bench_work {
    double flops, bytes;
};

/** Times of a pair by hipsim's timing model. */
struct bench_model {
    char kernel[BENCH_NAME]; /* name of the kernel that libattn chooses */
    /* Time with launch overhead at the clock that the power law allows; clock cycles without that
     * overhead; the overhead. */
    double us, cycles, launch_us;
    /* Shares of the matrix and the memory roofline that `us` reaches, 0 to 1. */
    double matrix_fraction, memory_fraction;
    struct bench_work work;
};

/** Times of a pair on a GPU. */
struct bench_measured {
    char kernel[BENCH_NAME]; /* name of the kernel that libattn chooses */
    struct race_figure figure;
    struct bench_work work;
    /* Time of the last third of the runs over time of the first third; 1.05 is 5 % slower. */
    double drift;
    /* Lowest and median clock in MHz that the driver reports; 0: it reports none. */
    double mhz_low, mhz;
    /* Name of the GPU and of its HIP library, as the heading has it. */
    char device[160];
};

struct bench_options {
    struct race_options race; /* rules of a measurement: how many runs, how precise, how long */
    /* Bytes of memory that are overwritten before each launch, so that caches are cold; 0: none. */
    size_t flush;
    double patience; /* seconds after which a launch that has not ended counts as hung */
};

/** Models the time of a pair in a child process. On failure returns false, with the reason in
 * `fault`. */
bool bench_model(const struct bench_pair *pair, struct bench_model *model, char fault[200]);

/** Measures the time of a pair on this machine's GPU in a child process. On failure returns false,
 * with the reason in `fault`. */
bool bench_measure(const struct bench_pair *pair, const struct bench_options *o,
                   struct bench_measured *measured, char fault[200]);

#endif
