/* SPDX-License-Identifier: Apache-2.0 */
/* Last step of writing a file atomically, so that readers see all of it or nothing. */
#ifndef ATTNC_PLACE_FILE_H
#define ATTNC_PLACE_FILE_H

#include <stdbool.h>

/** Closes `fd`, open on the file `temporary`. If `written` (all bytes were written), renames that
 * file to `path`. Otherwise, or if that fails, it removes `temporary`. False with errno: `path` is
 * unchanged. */
bool attnc_place_file(int fd, bool written, const char *temporary, const char *path);

#endif
