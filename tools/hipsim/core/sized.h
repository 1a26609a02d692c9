/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public structs begin with their size in bytes, which the caller sets to its own sizeof. A program
 * and a library of different versions therefore agree: a member that only one of them has is not
 * copied, or 0.
 */
#ifndef HIPSIM_SIZED_H
#define HIPSIM_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Copies members of `from`, a struct of `from_bytes` bytes, to `to`, as far as both structs have
 * them. Sets the rest of `to` to 0 and keeps its size member. False, without a write, if either
 * size is less than a size member's. */
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
