/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test double of the HIP runtime: it runs nothing, records its calls and fails on demand. The
 * launch benchmark uses it, since its launch returns at once.
 */
#ifndef FAKEHIP_H
#define FAKEHIP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The stream that tests pass. The fake counts copies and waits on other streams. */
#define FAKE_STREAM ((void *)64)

struct fakehip {
    /* ---- Set by a test ---- */
    const char *arch[2];     /* name of each of the two GPUs; NULL: "gfx942:sramecc+:xnack-" */
    atomic_int device_count; /* number of GPUs */
    atomic_int fail_at;      /* the n-th call from here on fails (1: the next one); 0: none */
    atomic_int fail_with;    /* the error of the call that fails, a hipError_t */
    atomic_int capturing;    /* result of hipStreamIsCapturing() */
    atomic_int quiet;        /* launches are not recorded, for benchmarks and many threads */

    /* ---- Written by the fake ---- */
    atomic_int calls;   /* number of calls of the fake */
    atomic_int modules; /* modules that are loaded at present */
    atomic_int loads;   /* number of modules loaded so far */
    atomic_int strays;  /* copies from the device, and waits, on a stream other than FAKE_STREAM */
    atomic_int current; /* ordinal of the current GPU */
    atomic_long launches; /* number of launches */
    /* Sizes of the last launch: workgroups by dimension, work items of a workgroup by dimension,
     * and bytes of LDS. */
    unsigned grid[3], block[3], lds;
    void *stream;        /* stream of the last launch */
    void *function;      /* kernel of the last launch */
    size_t kernarg_size; /* bytes of kernargs in the last launch */
    uint8_t kernargs[1024];
    char failed[64]; /* name of the call that failed on demand */
};

/* Returns the state of the fake. A test finds this function in the library, with dlsym(). */
struct fakehip *fakehip_state(void);

#endif
