/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares how structs of callers are read that were built with other headers. Each
 * begins with its size. One of fewer bytes is an older caller's: the members that it lacks are 0.
 * One of more bytes is a newer caller's: it is taken if all bytes after the known ones are 0. New
 * members therefore go to the end of a struct, after its padding, and 0 means what the library did
 * without them.
 */
#ifndef ATTN_ABI_H
#define ATTN_ABI_H

#include <stdbool.h>
#include <stddef.h>

/* The result of attn_adopt(). */
enum attn_fit { ATTN_FITS, ATTN_SIZE_UNSET, ATTN_SURPLUS_SET };

/* Copies a struct of a caller to one of `size` bytes, which the library knows. */
enum attn_fit attn_adopt(void *known, size_t size, const void *given);

/* The same with the sentence for what does not fit; `what` names the struct. */
int attn_adopt_named(const char *what, void *known, size_t size, const void *given);

/* Copies a result of `size` bytes to the struct of a caller, which keeps its own size. A member
 * that only the caller knows becomes 0. */
void attn_give(void *given, const void *known, size_t size);

/* True if a struct for a result has a size that attn_give() can fill. */
bool attn_can_give(const void *given);

#endif
