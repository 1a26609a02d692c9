/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the pack reader as dispatch sees it: kernels by hash, checked when read. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include <stdatomic.h>
#include <stddef.h>

#include "runtime/attn.h"
#include "pack/pack_format.h"

struct attn_pack_record;

struct attn_pack {
    const uint8_t *bytes; /* of a pack in memory; NULL for a file */
    int fd;               /* of a file; else -1 */
    bool mapped;          /* `bytes` are attn_pack_map()'s */
    size_t size;
    atomic_uint refs; /* the caller and each device */
    uint8_t *copy;    /* of a file: header, strings and index */
    uint32_t kernel_count;
    /* Inside `bytes` or `copy`, checked when the pack was opened. */
    const struct attn_pack_section *sections;
    const char *strings;
    const struct attn_pack_index_row *rows;
    const uint32_t *record_offsets;
    /* Per kernel: its checked record, once it has been asked for. */
    _Atomic(struct attn_pack_record *) *records;
};

/* A kernel's record that has been checked; all pointers live as long as the pack. */
struct attn_pack_record {
    const struct attn_pack_kernel *k;
    const struct attn_pack_pair *pairs;
    const struct attn_pack_kernarg *kernargs;
    const struct attn_pack_factor *factors; /* of x, y, z in turn */
    const struct attn_pack_when *whens;
    const struct attn_pack_split *splits;
    const char *op, *target, *name, *symbol, *tuning, *provenance;
};

void attn_pack_ref(struct attn_pack *pack);

/* The n-th kernel's record (n < kernel_count): read and checked once, then kept. Any thread. */
int attn_pack_read(const struct attn_pack *pack, uint32_t n,
                   const struct attn_pack_record **record);

/* The n-th kernel's record of a pack in memory, checked and not kept. */
int attn_pack_view(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record);

/* Reads from the pack's file. */
int attn_pack_fetch(const struct attn_pack *pack, uint64_t offset, size_t size, void *to);

/*
 * The whole pack in memory, for walks over all kernels that should leave nothing behind: a file is
 * mapped. attn_pack_close() the result.
 */
int attn_pack_map(const struct attn_pack *pack, struct attn_pack **whole);

/*
 * A kernel's code object, checked. Of a file it is mapped, until attn_pack_unmap(); of a pack in
 * memory `mapping` is left alone and may be NULL.
 */
struct attn_pack_mapping {
    void *bytes;
    size_t size;
};
int attn_pack_map_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                       const void **code, struct attn_pack_mapping *mapping);
void attn_pack_unmap(struct attn_pack_mapping *mapping);

/* Nothing but NULs and printable ASCII? */
bool attn_pack_is_text(const char *text, size_t size);

/* A string of a checked record. */
static inline const char *attn_pack_text(const struct attn_pack *pack, attn_pack_string s)
{
    return pack->strings + s;
}

/* The share of one (field, value) pair in the hash of a key; the hash is the sum. */
uint64_t attn_pack_hash_pair(const char *field, const char *value);
/* The same in two steps, for a field of many values. */
uint64_t attn_pack_hash_field(const char *field);
uint64_t attn_pack_hash_value(uint64_t field, const char *value);

/* The first index row with this hash; kernel_count where there is none. */
uint32_t attn_pack_find(const struct attn_pack *pack, uint64_t hash);

/* Fills info->size bytes. */
int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info);

#endif
