/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a file until its end, or until more than `most` bytes are read. The caller frees *bytes.
 * Returns false with errno on an error. */
static bool read_all(int fd, size_t most, char **bytes, size_t *size)
{
    size_t cap = 1 << 16;
    char *buffer = malloc(cap);
    if (!buffer)
        return false;
    for (*size = 0;;) {
        ssize_t n = read(fd, buffer + *size, cap - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(buffer);
            return false;
        }
        *size += (size_t)n;
        if (n == 0 || *size > most)
            break;
        if (*size == cap) {
            cap *= 2;
            char *grown = realloc(buffer, cap);
            if (!grown) {
                free(buffer);
                errno = ENOMEM;
                return false;
            }
            buffer = grown;
        }
    }
    *bytes = buffer;
    return true;
}

bool attnc_read_file(const char *path, size_t most, char **bytes, size_t *size)
{
    const bool standard_input = strcmp(path, "-") == 0;
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool good = read_all(fd, most, bytes, size);
    if (standard_input)
        return good;
    int error = errno;
    close(fd);
    errno = error;
    return good;
}
