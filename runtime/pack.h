/* SPDX-License-Identifier: Apache-2.0 */
/* The pack reader of libattn: finds kernels by the hash of their dispatch key, and checks a kernel
 * when it reads it. */
#ifndef ATTN_PACK_H
#define ATTN_PACK_H

#include <stdatomic.h>
#include <stddef.h>

#include "runtime/attn.h"
#include "pack/pack_format.h"

struct attn_pack_record;

/* An open pack, in memory or a file. */
struct attn_pack {
    const uint8_t *bytes; /* the whole pack in memory; NULL: it is a file */
    int fd;               /* descriptor of the file; -1: the pack is in memory */
    bool mapped;          /* true: `bytes` is a mapping that attn_pack_map() made */
    size_t size;          /* bytes of the pack */
    atomic_uint refs;     /* number of references: the caller's and one per device */
    uint8_t *copy;        /* the first bytes of a file: header, strings and index; NULL: memory */
    uint32_t kernel_count;
    /* Parts of `bytes` or `copy` that were checked when the pack was opened. */
    const struct attn_pack_section *sections;
    const char *strings;
    const struct attn_pack_index_row *rows;
    const uint32_t *record_offsets;
    /* The checked record of each kernel; NULL before it is read for the first time. */
    _Atomic(struct attn_pack_record *) *records;
};

/* A kernel's checked record, and pointers to its tables and texts, which live as long as the
 * pack. */
struct attn_pack_record {
    const struct attn_pack_kernel *k;
    const struct attn_pack_pair *pairs;
    const struct attn_pack_kernarg *kernargs;
    const struct attn_pack_factor *factors; /* factors of the grid in x, then y, then z */
    const struct attn_pack_when *whens;
    const struct attn_pack_split *splits;
    const char *op, *target, *name, *symbol, *tuning, *provenance;
};

/* Adds a reference to a pack, which attn_pack_close() removes. */
void attn_pack_ref(struct attn_pack *pack);

/* Sets *record to the record of the n-th kernel (n < kernel_count). The record is read and checked
 * once and then kept with the pack. Returns ATTN_OK or an error. May run on any thread. */
int attn_pack_read(const struct attn_pack *pack, uint32_t n,
                   const struct attn_pack_record **record);

/* Checks the record of the n-th kernel of a pack in memory, and sets the pointers in *record.
 * Returns ATTN_OK or ATTN_BAD_PACK. The pack does not keep the result. */
int attn_pack_view(const struct attn_pack *pack, uint32_t n, struct attn_pack_record *record);

/* Reads `size` bytes at byte `offset` of the pack's file into `to`. Returns ATTN_OK or ATTN_IO. */
int attn_pack_fetch(const struct attn_pack *pack, uint64_t offset, size_t size, void *to);

/*
 * Sets *whole to another pack with the same bytes in memory; a file is mapped. Walks over all
 * kernels use it, so that `pack` keeps no record of them. Release *whole with attn_pack_close().
 * Returns ATTN_OK or an error.
 */
int attn_pack_map(const struct attn_pack *pack, struct attn_pack **whole);

/*
 * The mapping of a code object of a pack that is a file.
 */
struct attn_pack_mapping {
    void *bytes;
    size_t size;
};
/* Checks a kernel's code object and sets *code to it. The code object of a file is mapped until
 * attn_pack_unmap(). For a pack in memory `mapping` is not used and may be NULL. Returns ATTN_OK or
 * an error. */
int attn_pack_map_code(const struct attn_pack *pack, const struct attn_pack_record *record,
                       const void **code, struct attn_pack_mapping *mapping);
/* Unmaps the code object that attn_pack_map_code() has mapped, if any. */
void attn_pack_unmap(struct attn_pack_mapping *mapping);

/* True if the `size` bytes at `text` are only NULs and printable ASCII. */
bool attn_pack_is_text(const char *text, size_t size);

/* Returns the string at byte offset `s` of the pack's strings. A checked record has only valid
 * offsets. */
static inline const char *attn_pack_text(const struct attn_pack *pack, attn_pack_string s)
{
    return pack->strings + s;
}

/* Returns the hash of a field of a dispatch key and its value. The hash of a key is the sum of the
 * hashes of its pairs, modulo 2^64. */
uint64_t attn_pack_hash_pair(const char *field, const char *value);
/* Returns a hash of a field's name. With attn_pack_hash_value() it gives attn_pack_hash_pair() in
 * two steps, for a field with several values. */
uint64_t attn_pack_hash_field(const char *field);
/* Returns the hash of a pair; `field` is attn_pack_hash_field() of its field. */
uint64_t attn_pack_hash_value(uint64_t field, const char *value);

/* Returns the number of the first row of the index whose hash is `hash`, or kernel_count if there
 * is none. */
uint32_t attn_pack_find(const struct attn_pack *pack, uint64_t hash);

/* Describes a kernel in the caller's struct `info`, which has info->size bytes. Returns ATTN_OK, or
 * ATTN_BAD_ARGUMENT if that size is implausible. */
int attn_pack_describe(const struct attn_pack_record *record, struct attn_kernel_info *info);

#endif
