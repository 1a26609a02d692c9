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

/* The result of attn_adopt(): the struct is copied; its size member is invalid; or a member that
 * the library does not have is not 0. */
enum attn_fit { ATTN_FITS, ATTN_SIZE_UNSET, ATTN_SURPLUS_SET };

/* Copies the caller's struct `given` to `known`, the library's version of it with `size` bytes.
 * Members that `given` lacks become 0. */
enum attn_fit attn_adopt(void *known, size_t size, const void *given);

/* Like attn_adopt(), but returns a status and records an error sentence; `what` names the
 * struct. */
int attn_adopt_named(const char *what, void *known, size_t size, const void *given);

/* Copies the result `known` of `size` bytes to the caller's struct `given`, whose size member is
 * kept. Members that the library does not have become 0. */
void attn_give(void *given, const void *known, size_t size);

/* True if the size member of the caller's struct `given` is plausible; attn_give() requires it. */
bool attn_can_give(const void *given);

#endif
