/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMPILER_READ_FILE_H
#define COMPILER_READ_FILE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Reads the file `path` ("-": standard input), a pipe as well, into memory that the caller frees.
 * A file of more than `most` bytes gives at least `most` + 1 of them. False with errno.
 */
bool attnc_read_file(const char *path, size_t most, char **bytes, size_t *size);

#endif
