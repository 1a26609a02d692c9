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

/* Adds a kernel to a pack: `k` says its name, op, key and arguments. It is a kernel of gfx942 with
 * one workgroup of 256 work items for each of the argument "workgroups". */
void add_small(struct attnc_pack_writer *w, struct attnc_pack_kernel k);

/* The pack of a writer, which it destroys. `flags` is attn_device_options.flags. */
struct bench open_writer(struct attnc_pack_writer *w, uint32_t flags);

/* An argument of the last launch, by its offset among the kernel's arguments. */
int64_t i64_at(const struct fakehip *f, size_t offset);
int32_t i32_at(const struct fakehip *f, size_t offset);
float f32_at(const struct fakehip *f, size_t offset);

/* Fails the test unless the last error says this. */
void says(const char *text);

#endif
