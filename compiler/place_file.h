/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the last step of writing a file so that readers see all of it or nothing. */
#ifndef ATTNC_PLACE_FILE_H
#define ATTNC_PLACE_FILE_H

#include <stdbool.h>

/** Closes `fd` and, where all of it was `written`, renames `temporary` to `path`; else, or where
 * that fails, removes it. False with errno: there is no new file then. */
bool attnc_place_file(int fd, bool written, const char *temporary, const char *path);

#endif
