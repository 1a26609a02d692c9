/* SPDX-License-Identifier: Apache-2.0 */
/* This file declares the pack reader as dispatch sees it: kernels by hash, checked when read. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include <stdatomic.h>

#include "runtime/attn.h"
#include "runtime/pack_format.h"

struct attn_pack {
    const uint8_t *bytes;
    size_t size;
    bool mapped;      /* else the caller's memory */
    atomic_uint refs; /* the caller and each device */
    uint32_t kernel_count;
    /* Inside `bytes`, bounds checked when the pack was opened. */
    const struct attn_pack_section *sections;
    const char *strings;
    const struct attn_pack_index_row *rows;
    const uint32_t *record_offsets;
};

/* A kernel whose record has been checked; all pointers are into the pack. */
struct attn_pack_record {
    const struct attn_pack_kernel *k;
    const struct attn_pack_pair *pairs;
    const struct attn_pack_kernarg *kernargs;
    const struct attn_pack_factor *factors; /* of x, y, z in turn */
    const struct attn_pack_when *whens;
    const char *op, *target, *name, *symbol, *tuning, *provenance;
};

void attn_pack_ref(struct attn_pack *pack);

/* Checks the n-th kernel's record (n < kernel_count). */
int attn_pack_read(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record);

/* Checks and gives the code object of a record. */
int attn_pack_read_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                        const void **code);

/* A string of a checked record. */
static inline const char *attn_pack_text(const struct attn_pack *pack, attn_pack_string s)
{
    return pack->strings + s;
}

/* The share of one (field, value) pair in the hash of a key; the hash is the sum. */
uint64_t attn_pack_hash_pair(const char *field, const char *value);

/* The first index row with this hash; kernel_count where there is none. */
uint32_t attn_pack_find(const struct attn_pack *pack, uint64_t hash);

/* Fills info->size bytes. */
int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info);

#endif
