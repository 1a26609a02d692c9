/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/abi.h"

#include <stdint.h>
#include <string.h>

#include "runtime/error.h"

/* Bytes of the smallest and of the largest plausible struct. The smallest has a size and one member
 * of pointer size; the largest fills a page of memory. */
enum { SMALLEST = 2 * sizeof(size_t), LARGEST = 4096 };
_Static_assert(SMALLEST == 16, "messages name it");

/* Returns the first member of the caller's struct `given`: its size in bytes. */
static size_t size_of(const void *given) { return *(const size_t *)given; }

bool attn_can_give(const void *given)
{
    return size_of(given) >= SMALLEST && size_of(given) <= LARGEST;
}

enum attn_fit attn_adopt(void *known, size_t size, const void *given)
{
    const size_t given_size = size_of(given);
    const size_t shared = given_size < size ? given_size : size;
    if (!attn_can_give(given) && given_size != size)
        return ATTN_SIZE_UNSET;
    for (size_t i = size; i < given_size; i++) {
        if (((const uint8_t *)given)[i])
            return ATTN_SURPLUS_SET;
    }
    memcpy(known, given, shared);
    memset((uint8_t *)known + shared, 0, size - shared);
    *(size_t *)known = size;
    return ATTN_FITS;
}

int attn_adopt_named(const char *what, void *known, size_t size, const void *given)
{
    switch (attn_adopt(known, size, given)) {
    case ATTN_FITS: return ATTN_OK;
    case ATTN_SIZE_UNSET:
        return attn_fail(ATTN_BAD_ARGUMENT, "%s.size is %zu, %s: this library knows %zu", what,
                         size_of(given),
                         size_of(given) < SMALLEST ? "less than 16" : "more than 4096", size);
    case ATTN_SURPLUS_SET: break;
    }
    return attn_fail(ATTN_BAD_ARGUMENT,
                     "%s.size is %zu, this library knows %zu bytes, and a member after them is set",
                     what, size_of(given), size);
}

void attn_give(void *given, const void *known, size_t size)
{
    const size_t given_size = size_of(given);
    const size_t shared = given_size < size ? given_size : size;
    memcpy((uint8_t *)given + sizeof(size_t), (const uint8_t *)known + sizeof(size_t),
           shared - sizeof(size_t));
    memset((uint8_t *)given + shared, 0, given_size - shared);
}
