/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares arenas. A function has one, and a pass may create one for its scratch memory.
 */
#ifndef IR_ARENA_H
#define IR_ARENA_H

#include <stddef.h>

struct tir_arena;

/** Creates an arena. Returns NULL if memory is exhausted. */
struct tir_arena *tir_arena_create(void);
/** Frees the arena and all memory allocated from it. */
void tir_arena_destroy(struct tir_arena *a);
/** Allocates zeroed memory, aligned to 16 bytes. Returns NULL if memory is exhausted. */
void *tir_arena_alloc(struct tir_arena *a, size_t bytes);
/** Returns p. If p is NULL, calls the out-of-memory hook (tir_out_of_memory in ir.h), which does
 * not return. */
void *tir_checked(void *p);
/** Allocates zeroed memory as calloc() does, and never returns NULL. The caller frees it with
 * free(). */
void *tir_scratch(size_t n, size_t size);

#endif
