/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: a function's own, and scratch ones of single passes.
 */
#ifndef IR_ARENA_H
#define IR_ARENA_H

#include <stddef.h>

struct tir_arena;

/** NULL when out of memory. */
struct tir_arena *tir_arena_create(void);
void tir_arena_destroy(struct tir_arena *a);
/** Zeroed, aligned to 16 bytes; NULL when out of memory. */
void *tir_arena_alloc(struct tir_arena *a, size_t bytes);
/** p, or the out-of-memory hook when it is NULL (tir_out_of_memory in ir.h). */
void *tir_checked(void *p);
/** calloc that does not return NULL; for scratch memory that free() takes. */
void *tir_scratch(size_t n, size_t size);

#endif
