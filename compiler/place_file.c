/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/place_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool attnc_make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

bool attnc_place_file(int fd, bool written, const char *temporary, const char *path)
{
    const int written_error = errno;
    bool good = close(fd) == 0 && written;
    if (!written)
        errno = written_error;
    good = good && rename(temporary, path) == 0;
    if (!good) {
        const int error = errno;
        unlink(temporary);
        errno = error;
    }
    return good;
}
