/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads structs of callers that were built with other versions of the headers. Each struct begins
 * with its size. A shorter one is from an older caller: the missing members are 0. A longer one is
 * from a newer caller: it is accepted if all bytes after the known ones are 0. New members are
 * therefore added at the end of a struct, after its padding, and 0 selects the behaviour without
 * them.
 */
#ifndef ATTN_ABI_H
#define ATTN_ABI_H

#include <stdbool.h>
#include <stddef.h>

/* The result of attn_adopt(). FITS: the struct is copied. SIZE_UNSET: its size member is
 * implausible. SURPLUS_SET: a member that the library does not have is not 0. */
enum attn_fit { ATTN_FITS, ATTN_SIZE_UNSET, ATTN_SURPLUS_SET };

/* Copies the caller's struct `given`, whose first member is its size, to `known`, the library's
 * version of the struct with `size` bytes. Members that `given` lacks become 0. */
enum attn_fit attn_adopt(void *known, size_t size, const void *given);

/* Like attn_adopt(), but returns ATTN_OK, or ATTN_BAD_ARGUMENT with a message in which `what` names
 * the struct. */
int attn_adopt_named(const char *what, void *known, size_t size, const void *given);

/* Copies the library's struct `known` of `size` bytes to the caller's struct `given`, whose size
 * member is kept and limits the copy. Members that the library does not have become 0. */
void attn_give(void *given, const void *known, size_t size);

/* True if the size member of the caller's struct `given` is plausible. Call it before attn_give(),
 * which trusts the size. */
bool attn_can_give(const void *given);

#endif
