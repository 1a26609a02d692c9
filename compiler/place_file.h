/* SPDX-License-Identifier: Apache-2.0 */
/* The first and the last step of writing a file atomically: making its folders, and renaming its
 * temporary copy. Readers see all of the file or nothing. */
#ifndef ATTNC_PLACE_FILE_H
#define ATTNC_PLACE_FILE_H

#include <stdbool.h>

/** Creates the folders above the file `path` that do not exist. `path` is unchanged on return.
 * Returns false with errno if one cannot be created. */
bool attnc_make_parents(char *path);

/** Closes `fd`, which is open on the file `temporary`. If `written` is true, because all bytes were
 * written, renames the file to `path`. Otherwise, or if that fails, removes the file, leaves `path`
 * unchanged, and returns false with errno. */
bool attnc_place_file(int fd, bool written, const char *temporary, const char *path);

#endif
