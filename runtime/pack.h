/* SPDX-License-Identifier: Apache-2.0 */
/* Pack reader for dispatch: finds kernels by hash and checks them when it reads them. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include <stdatomic.h>
#include <stddef.h>

#include "runtime/attn.h"
#include "pack/pack_format.h"

struct attn_pack_record;

struct attn_pack {
    const uint8_t *bytes; /* a pack in memory; NULL: a file */
    int fd;               /* a file; -1: memory */
    bool mapped;          /* attn_pack_map() mapped `bytes` */
    size_t size;
    atomic_uint refs; /* references: the caller's and one per device */
    uint8_t *copy;    /* of a file: header, strings and index */
    uint32_t kernel_count;
    /* Inside `bytes` or `copy`, checked when the pack was opened. */
    const struct attn_pack_section *sections;
    const char *strings;
    const struct attn_pack_index_row *rows;
    const uint32_t *record_offsets;
    /* Per kernel: its checked record; NULL until the first read. */
    _Atomic(struct attn_pack_record *) *records;
};

/* A kernel's checked record; all pointers live as long as the pack. */
struct attn_pack_record {
    const struct attn_pack_kernel *k;
    const struct attn_pack_pair *pairs;
    const struct attn_pack_kernarg *kernargs;
    const struct attn_pack_factor *factors; /* of x, then y, then z */
    const struct attn_pack_when *whens;
    const struct attn_pack_split *splits;
    const char *op, *target, *name, *symbol, *tuning, *provenance;
};

/* Adds a reference to a pack. */
void attn_pack_ref(struct attn_pack *pack);

/* Returns the n-th kernel's record (n < kernel_count). It is read and checked once, then kept. Any
 * thread. */
int attn_pack_read(const struct attn_pack *pack, uint32_t n,
                   const struct attn_pack_record **record);

/* Reads and checks the n-th kernel's record of a pack in memory, without keeping it. */
int attn_pack_view(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record);

/* Reads `size` bytes at `offset` of the pack's file into `to`. */
int attn_pack_fetch(const struct attn_pack *pack, uint64_t offset, size_t size, void *to);

/*
 * Returns the whole pack in memory, for walks over all kernels that should leave no cached records.
 * A file is mapped. Release the result with attn_pack_close().
 */
int attn_pack_map(const struct attn_pack *pack, struct attn_pack **whole);

/*
 * Checks a kernel's code object and returns it. A file's is mapped until attn_pack_unmap(). For a
 * pack in memory `mapping` is unused and may be NULL.
 */
struct attn_pack_mapping {
    void *bytes;
    size_t size;
};
/* Checks kernel code and sets `*code` to it; see struct attn_pack_mapping. */
int attn_pack_map_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                       const void **code, struct attn_pack_mapping *mapping);
/* Unmaps the code of attn_pack_map_code(). */
void attn_pack_unmap(struct attn_pack_mapping *mapping);

/* True if the text has only NULs and printable ASCII. */
bool attn_pack_is_text(const char *text, size_t size);

/* Returns a string of a checked record. */
static inline const char *attn_pack_text(const struct attn_pack *pack, attn_pack_string s)
{
    return pack->strings + s;
}

/* Returns the hash of one (field, value) pair. The hash of a key is the sum over its pairs, modulo
 * 2^64. */
uint64_t attn_pack_hash_pair(const char *field, const char *value);
/* Compute the hash of a pair in two steps, for a field with many values: the second takes the
 * first's result. */
uint64_t attn_pack_hash_field(const char *field);
uint64_t attn_pack_hash_value(uint64_t field, const char *value);

/* Returns the first index row with this hash, or kernel_count if none exists. */
uint32_t attn_pack_find(const struct attn_pack *pack, uint64_t hash);

/* Writes a record's description to the caller's struct `info`, info->size bytes. ATTN_BAD_ARGUMENT:
 * that size is invalid. */
int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info);

#endif
