/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares what the tests against the fake HIP runtime share. */
#ifndef TESTS_RUNTIME_FIXTURE_H
#define TESTS_RUNTIME_FIXTURE_H

#include "runtime/attn.h"
#include "tests/runtime/fakehip.h"
#include "tests/runtime/packs.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A pack in memory, bound to GPU 0 of the fake. */
struct bench {
    void *bytes;
    struct attn_pack *pack;
    struct attn_device *device;
};

/* The fake's state, set back to its defaults. */
struct fakehip *fake_reset(void);

/* The path of the fake, and of the one with HIP 5's properties only. */
const char *fake_path(void);
const char *fake5_path(void);

struct attn_device_options fake_options(void);

struct bench open_bench(const struct made *kernels, size_t count);
void close_bench(struct bench *b);

/* bf16, head_dim 128, 8 heads over 2, causal. */
struct attn_prefill_desc plain_desc(void);

/* Two sequences, 300 queries in all; the tensors are an array that nobody reads. */
struct attn_prefill_args plain_args(void);

/* Fails the test unless the last error says this. */
void says(const char *text);

#endif
