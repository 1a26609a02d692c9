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

/* The result of attn_adopt(). */
enum attn_fit { ATTN_FITS, ATTN_SIZE_UNSET, ATTN_SURPLUS_SET };

/* Copies a caller's struct to one of `size` bytes, the library's version of it. */
enum attn_fit attn_adopt(void *known, size_t size, const void *given);

/* Like attn_adopt(), and writes the error sentence if it does not fit; `what` names the struct. */
int attn_adopt_named(const char *what, void *known, size_t size, const void *given);

/* Copies a result of `size` bytes to a caller's struct, whose size member is kept. Members that
 * only the caller knows become 0. */
void attn_give(void *given, const void *known, size_t size);

/* True if the size member of a result struct is valid for attn_give(). */
bool attn_can_give(const void *given);

#endif
