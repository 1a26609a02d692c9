/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds all variants of a description. Hooks are compiled first. Each variant then comes from the
 * cache or from the pipeline, in several processes. Results have the description's order.
 */
#ifndef COMPILER_DRIVER_H
#define COMPILER_DRIVER_H

#include "compiler/description.h"
#include "compiler/pipeline.h"

/** The type of attnc_compile(), which tests replace by a cheaper function. */
typedef bool attnc_compile_fn(const struct att_variant *v, const struct tgt_blob *hooks,
                              const struct attnc_compile_options *o, FILE *log,
                              struct attnc_kernel *out, char why[ATTNC_WHY]);

/** Progress of a build, which is reported each time a variant is finished. */
struct attnc_progress {
    size_t done, total; /* numbers of variants: finished, and of the whole build */
    const char *name;   /* name of the variant */
    /* cached: true if the variant was loaded from the cache; failed: true if it could not be
     * built */
    bool cached, failed;
};

struct attnc_build_options {
    struct attnc_compile_options compile;
    attnc_compile_fn *compile_one; /* compiles each variant that is not in the cache */
    unsigned jobs;                 /* most child processes at once */
    /* NULL: no cache. The cache only stores complete kernels for which all passes ran */
    const char *cache_dir;
    uint64_t identity;      /* of the compiler, by attnc_compiler_identity(): part of cache keys */
    bool spills_are_errors; /* true: a kernel that spills is an error; false: a warning */
    FILE *log; /* receives the output of --print, in the order of variants; NULL: none */
    /* receives a report when a variant is finished; NULL: none */
    void (*progress)(void *user, const struct attnc_progress *p);
    void *user; /* the caller's pointer that progress() receives; may be NULL */
};

struct attnc_build_result {
    /* one per variant, in the description's order; zeroed if its compilation failed */
    struct attnc_kernel *kernels;
    size_t count, cached, failed; /* numbers of variants: all, loaded from the cache, not built */
    int cache_error; /* errno of the first cache entry that could not be written; 0: none */
};

/**
 * Builds all variants of a description. Failures, including crashed compilations, are added to `d`
 * at the place of their variant, and the other variants are built nevertheless. Returns true if all
 * succeeded. Free the result in either case. compile_one runs in child processes: the caller must
 * have no other threads.
 */
bool attnc_build(const struct attnc_description *desc, const struct attnc_build_options *options,
                 struct attnc_build_result *result, struct attnc_diag *d);

/** Frees the kernels and messages of a build. */
void attnc_build_result_free(struct attnc_build_result *r);

#endif
