/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled kernels on disk, found by a hash of all that went into them. An entry that is damaged or
 * was written by anything else is no entry.
 */
#ifndef COMPILER_CACHE_H
#define COMPILER_CACHE_H

#include "compiler/pipeline.h"

/** 128 bits, as 32 hexadecimal digits. */
struct attnc_cache_key {
    char text[33];
};

/**
 * Identifies this compiler: a hash over its own executable, the libraries that it has loaded and
 * the linker that it calls. Another build of any of them is another compiler.
 */
uint64_t attnc_compiler_identity(void);

/** Hash of all that decides a variant's result: compiler, variant, bitcode of its hook. */
struct attnc_cache_key attnc_cache_key(uint64_t identity, const struct att_variant *v,
                                       const struct tgt_blob *hooks);

/** True when the entry is there and whole; `out` then as from attnc_compile(). Any thread. */
bool attnc_cache_load(const char *dir, const struct attnc_cache_key *key, struct attnc_kernel *out);

/** Writes the entry in one step, so that readers see all of it or nothing; creates `dir`. False
 * with errno when that cannot be done, which costs time, not correctness. Any thread. */
bool attnc_cache_store(const char *dir, const struct attnc_cache_key *key,
                       const struct attnc_kernel *k);

/** Size of a cache, and of the entries that were removed. */
struct attnc_cache_size {
    size_t kernels, removed;
    uint64_t bytes;
};

/**
 * Removes kernels, those first that were not used for longest, until at most `limit` bytes are
 * left; UINT64_MAX only counts. A directory that is not there is an empty cache. False with errno.
 */
bool attnc_cache_trim(const char *path, uint64_t limit, struct attnc_cache_size *size);

#endif
