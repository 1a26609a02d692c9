/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a test's kernel on the simulator's engine, all of its checks on: hazards, waits, races,
 * undefined values. What unknown() reads and keep() writes is at hand as arrays.
 */
#ifndef TESTS_TARGETS_RUN_H
#define TESTS_TARGETS_RUN_H

#include "tests/targets/harness.h"

enum { MAX_VALUES = 24 };

/** The n-th unknown() and keep(): 16 bytes for each lane. */
struct values {
    union {
        uint32_t u[4];
        int32_t i[4];
        float f[4];
        uint16_t h[8];
        uint8_t b[16];
    } in[MAX_VALUES][64], out[MAX_VALUES][64];
};

/** A value for an argument other than "in" and "out", which run() knows. */
struct setting {
    const char *name;
    int64_t value; /* bits */
};

/** One workgroup of the kernel on v->in; v->out starts as 0xaa in every byte. Fails the test, with
 * the simulator's report, on any fault. */
void run(const struct compiled *c, struct values *v, const struct setting *settings, unsigned n);

/** The same of a kernel that is compiled for it, and freed. */
void compile_and_run(struct kernel *k, struct values *v, const struct setting *settings,
                     unsigned n);

#endif
