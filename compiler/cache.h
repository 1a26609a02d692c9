/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache of compiled kernels on disk. The key is a hash of every input of the compilation. Damaged
 * entries and foreign files count as missing.
 */
#ifndef COMPILER_CACHE_H
#define COMPILER_CACHE_H

#include "compiler/pipeline.h"

/** A key: 128 bits as 32 hexadecimal digits. */
struct attnc_cache_key {
    char text[33];
};

/**
 * Returns a hash of this executable's contents and of the libraries that it has loaded. A library
 * counts by its GNU build ID, or by path, size and modification time where it has none. libattn
 * does not count: it compiles nothing. Another compiler has another hash. 0: out of memory.
 */
uint64_t attnc_compiler_identity(void);

/** Returns the hash of all inputs: `identity` from attnc_compiler_identity(), the variant, and the
 * bitcode of its hook. */
struct attnc_cache_key attnc_cache_key(uint64_t identity, const struct att_variant *v,
                                       const struct tgt_blob *hooks);

/** Loads the kernel of `key` from the cache directory `dir` to `out`, as attnc_compile() would make
 * it. Returns false if the entry is missing or damaged. May run on any thread. */
bool attnc_cache_load(const char *dir, const struct attnc_cache_key *key, struct attnc_kernel *out);

/** Writes the entry of `key` atomically: readers see all of it or nothing. Creates the directory
 * `dir`. Returns false and sets errno if the entry could not be written: a later build then
 * compiles the kernel again. May run on any thread. */
bool attnc_cache_store(const char *dir, const struct attnc_cache_key *key,
                       const struct attnc_kernel *k);

/** Results of attnc_cache_trim(). */
struct attnc_cache_size {
    size_t kernels, removed; /* numbers of kernels: left in the cache; removed from it */
    uint64_t bytes;          /* bytes of the kernels that are left in the cache */
};

/**
 * Removes the least recently used kernels from the cache directory `path` until at most `limit`
 * bytes remain, and sets *size. With `limit` UINT64_MAX it only counts. A missing directory is an
 * empty cache. Returns false and sets errno on an error.
 */
bool attnc_cache_trim(const char *path, uint64_t limit, struct attnc_cache_size *size);

#endif
