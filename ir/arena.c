/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is a bump allocator. Everything of a function is allocated here and freed with it.
 */
#include "ir/arena.h"

#include <stdlib.h>

#include "ir/ir.h"

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char data[];
};

struct tir_arena {
    struct chunk *newest;
};

void (*tir_out_of_memory)(void);

void *tir_checked(void *p)
{
    if (p)
        return p;
    if (tir_out_of_memory)
        tir_out_of_memory();
    abort();
}

void *tir_scratch(size_t n, size_t size) { return tir_checked(calloc(n ? n : 1, size)); }

struct tir_arena *tir_arena_create(void) { return calloc(1, sizeof(struct tir_arena)); }

void tir_arena_destroy(struct tir_arena *a)
{
    if (!a)
        return;
    for (struct chunk *c = a->newest; c;) {
        struct chunk *const next = c->next;
        free(c);
        c = next;
    }
    free(a);
}

void *tir_arena_alloc(struct tir_arena *a, size_t bytes)
{
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct chunk *c = a->newest;
    if (!c || c->size - c->used < bytes) {
        const size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = calloc(1, sizeof(*c) + size);
        if (!c)
            return NULL;
        c->size = size;
        c->next = a->newest;
        a->newest = c;
    }
    void *const p = c->data + c->used;
    c->used += bytes;
    return p;
}
