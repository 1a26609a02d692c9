/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests of libattn with the fake HIP runtime: they open packs, and read arguments of
 * the last launch. */
#ifndef TESTS_RUNTIME_FIXTURE_H
#define TESTS_RUNTIME_FIXTURE_H

#include "runtime/attn.h"
#include "tests/runtime/fakehip.h"
#include "tests/runtime/packs.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A pack in memory, and the fake's GPU 0, which has opened it. */
struct bench {
    void *bytes;
    struct attn_pack *pack;
    struct attn_device *device;
};

/* Resets the fake's state to its defaults and returns it. */
struct fakehip *fake_reset(void);

/* Return the path of the fake, and of the fake that only has HIP 5's properties. */
const char *fake_path(void);
const char *fake5_path(void);

/* Returns options that open GPU 0 of the fake. */
struct attn_device_options fake_options(void);

/* Makes a pack of these kernels and opens it on GPU 0. */
struct bench open_bench(const struct made *kernels, size_t count);

/* Closes the device and the pack, and frees the pack's memory. */
void close_bench(struct bench *b);

/* Adds a kernel for gfx942 to a pack: `k` has its name, op, key and arguments. Its grid has one
 * workgroup of 256 work items per unit of the argument "workgroups". */
void add_small(struct attnc_pack_writer *w, struct attnc_pack_kernel k);

/* Finishes and destroys a writer, and opens its pack. `flags` is attn_device_options.flags. */
struct bench open_writer(struct attnc_pack_writer *w, uint32_t flags);

/* Return an argument of the last launch, by its offset in the kernarg segment. */
int64_t i64_at(const struct fakehip *f, size_t offset);
int32_t i32_at(const struct fakehip *f, size_t offset);
float f32_at(const struct fakehip *f, size_t offset);

/* Fails the test unless the last error contains this text. */
void says(const char *text);

/* Fails the test unless `status` is `code` and the last error contains `text`; if `text` is NULL,
 * unless `status` is ATTN_OK. */
void refused(int status, int code, const char *text);

/* Returns the *size bytes of the file `path`, which the caller frees. */
void *read_file(const char *path, size_t *size);

#endif
