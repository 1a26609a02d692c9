/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ATTNC_CACHE_H
#define TOOLS_ATTNC_CACHE_H

#include <limits.h>
#include <stdint.h>

/** Default for the most bytes that the cache has after a build. */
#define CACHE_DEFAULT_LIMIT (UINT64_C(1) << 30)

/** Returns the directory of compiled kernels: `given`, unless it is NULL, or the cache directory of
 * the XDG specification, written to `path`. Returns NULL if `given` is NULL and the environment
 * sets neither XDG_CACHE_HOME nor HOME. */
const char *cache_directory(const char *given, char path[PATH_MAX]);

/** Reads `text`, the argument of --`option`, as a size: "512M", "2G", or bytes without a letter.
 * Returns an exit_code after a message that begins with `command`. */
int read_cache_limit(const char *command, const char *option, const char *text, uint64_t *bytes);

#endif
