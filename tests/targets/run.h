/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a test's kernel on the simulator's engine with all its checks: hazards, waits, races,
 * undefined values. The values that unknown() reads and keep() writes are arrays.
 */
#ifndef TESTS_TARGETS_RUN_H
#define TESTS_TARGETS_RUN_H

#include "tests/targets/harness.h"

/** Most calls of unknown(), and of keep(), in a kernel. */
enum { MAX_VALUES = 24 };

/** Memory of the n-th unknown() or keep(): 16 bytes per lane. */
struct values {
    union {
        uint32_t u[4];
        int32_t i[4];
        float f[4];
        uint16_t h[8];
        uint8_t b[16];
    } in[MAX_VALUES][64], out[MAX_VALUES][64];
};

/** The value of a kernel argument. run() sets the arguments "in" and "out". */
struct setting {
    const char *name;
    int64_t value; /* the argument's bits */
};

/** Runs one workgroup of the kernel on v->in. v->out starts as 0xaa in every byte. A fault fails
 * the test with the simulator's report. */
void run(const struct compiled *c, struct values *v, const struct setting *settings, unsigned n);

/** Compiles, runs and frees a kernel. */
void compile_and_run(struct kernel *k, struct values *v, const struct setting *settings,
                     unsigned n);

#endif
