/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPILER_READ_FILE_H
#define COMPILER_READ_FILE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Reads the file or pipe `path` ("-": standard input) into *bytes, which the caller frees. If the
 * file has more than `most` bytes, at least `most` + 1 are read, perhaps not all. On an error
 * returns false with errno.
 */
bool attnc_read_file(const char *path, size_t most, char **bytes, size_t *size);

#endif
