/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public structs begin with their size in bytes, which the caller sets to its own sizeof. So a
 * program and a library of different age agree: members that one of them lacks are left out, or 0.
 */
#ifndef HIPSIM_SIZED_H
#define HIPSIM_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Copies the members of `from`, a struct of `to_bytes` or any other size, that fit into the
 * `to_bytes` of `to`. Clears the rest of `to`, except for its size. Returns false, and writes
 * nothing, if either size is too small to be one. */
static inline bool sized_copy(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
    const size_t head = sizeof(size_t);
    if (to_bytes < head || from_bytes < head)
        return false;
    const size_t common = to_bytes < from_bytes ? to_bytes : from_bytes;
    memcpy((char *)to + head, (const char *)from + head, common - head);
    memset((char *)to + common, 0, to_bytes - common);
    return true;
}

#endif
