/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_CACHE_H
#define TOOLS_ATTNC_CACHE_H

#include <limits.h>
#include <stdint.h>

/** The most bytes that a cache has after a build, by default. */
#define CACHE_DEFAULT_LIMIT (UINT64_C(1) << 30)

/** Returns the directory of compiled kernels: `given`, or the cache directory of the XDG base
 * directory specification. Returns NULL if the environment names none. */
const char *cache_directory(const char *given, char path[PATH_MAX]);

/** Reads "512M", "2G", "0"; without a letter it is bytes. Returns an exit_code after a message. */
int read_cache_limit(const char *command, const char *option, const char *text, uint64_t *bytes);

#endif
