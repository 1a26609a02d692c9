/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds all variants of a description: hooks first, then every variant from the cache or through
 * the pipeline, in several processes, with results in the description's order.
 */
#ifndef COMPILER_DRIVER_H
#define COMPILER_DRIVER_H

#include "compiler/description.h"
#include "compiler/pipeline.h"

/** attnc_compile()'s type, so that tests can put something cheap in its place. */
typedef bool attnc_compile_fn(const struct att_variant *v, const struct tgt_blob *hooks,
                              const struct attnc_compile_options *o, FILE *log,
                              struct attnc_kernel *out, char why[ATTNC_WHY]);

/** An event in the build of one variant; reported as it happens. */
struct attnc_progress {
    size_t done, total;
    const char *name;
    bool cached, failed;
};

struct attnc_build_options {
    struct attnc_compile_options compile;
    attnc_compile_fn *compile_one;
    unsigned jobs;
    const char *cache_dir; /* NULL: no cache. Only whole kernels without passes left out go there */
    uint64_t identity;     /* attnc_compiler_identity() */
    bool spills_are_errors;
    FILE *log; /* where --print output goes, in the order of variants */
    void (*progress)(void *user, const struct attnc_progress *p); /* or NULL */
    void *user;
};

struct attnc_build_result {
    struct attnc_kernel *kernels; /* one per variant, in order; empty where it failed */
    size_t count, cached, failed;
    int cache_error; /* errno of the first entry that could not be written, or 0 */
};

/**
 * Builds the description. Failures are added to `d` at the place of their variant, a compile that
 * died among them, and the others are built all the same. True when all succeeded. Free the result
 * in either case. compile_one runs in child processes: the caller must have no other threads.
 */
bool attnc_build(const struct attnc_description *desc, const struct attnc_build_options *options,
                 struct attnc_build_result *result, struct attnc_diag *d);

void attnc_build_result_free(struct attnc_build_result *r);

#endif
