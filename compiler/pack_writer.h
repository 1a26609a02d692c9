/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pack writer: makes one pack (pack/pack_format.h) from kernels in memory. The bytes do not depend
 * on the order in which kernels are added. It knows no op family.
 */
#ifndef ATTNC_PACK_WRITER_H
#define ATTNC_PACK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/pack_format.h"

/** A field of the dispatch key, spelt as in descriptions: ("head_dim", "128"). */
struct attnc_pack_pair {
    const char *field;
    const char *value;
};

/** A kernel argument: the value `arg` of ops/ at `offset` of the kernarg segment. */
struct attnc_pack_kernarg {
    const char *arg;
    uint16_t offset;
    enum attn_arg_kind kind;
};

/** A factor of a grid dimension: ceil(arg / number), or `number` if arg is NULL. */
struct attnc_pack_factor {
    const char *arg;
    uint32_t number;
};

/** A condition on the calls that the kernel is for: min <= arg <= max. */
struct attnc_pack_when {
    const char *arg;
    int64_t min, max;
};

/** One kernel. Strings are printable ASCII; those marked "may be empty" may be NULL. */
struct attnc_pack_kernel {
    const char *name;       /* unique in the pack */
    const char *symbol;     /* in the code object, without ".kd" */
    const char *op;         /* "prefill" */
    const char *target;     /* "gfx942" */
    const char *tuning;     /* "block_q=128 ..."; may be empty */
    const char *provenance; /* may be empty */

    const struct attnc_pack_pair *key;
    size_t key_count;
    const struct attnc_pack_kernarg *kernargs;
    size_t kernarg_count;
    uint32_t kernarg_size; /* of the segment in bytes, as the code object declares it */
    const struct attnc_pack_factor *grid[3]; /* factors of the workgroups in x, y, z; none: 1 */
    size_t grid_count[3];
    uint16_t workgroups_most; /* as in struct attn_pack_kernel */
    const struct attnc_pack_when *when;
    size_t when_count;
    const struct attn_pack_split *splits; /* in the format of packs */
    size_t split_count;
    uint32_t workgroup[3];

#define NUMBER(type, name) type name;
#include "pack/kernel_numbers.def"

    const void *code; /* the code object */
    size_t code_size;
};

struct attnc_pack_writer;

/** Creates an empty writer. Returns NULL if memory is exhausted. */
struct attnc_pack_writer *attnc_pack_writer_create(void);
/** Frees the writer and all that it has copied. */
void attnc_pack_writer_destroy(struct attnc_pack_writer *w);

/** Copies a kernel into the pack. Returns false on failure: attnc_pack_writer_error() then has a
 * sentence, and all later calls fail. One thread at a time. */
bool attnc_pack_writer_add(struct attnc_pack_writer *w, const struct attnc_pack_kernel *kernel);

/**
 * Adds the n-th kernel of a pack in memory, 8-byte aligned. libattn must have accepted the whole
 * pack (attn_pack_check() and attn_pack_kernel()). `every_call` drops the kernel's conditions.
 * False as in attnc_pack_writer_add().
 */
bool attnc_pack_copy(struct attnc_pack_writer *w, const void *bytes, uint32_t n, bool every_call);

/** Like attnc_pack_copy() with the kernel's conditions, but adds to its key every pair of `count`
 * whose field it lacks. */
bool attnc_pack_copy_completed(struct attnc_pack_writer *w, const void *bytes, uint32_t n,
                               const struct attnc_pack_pair *pairs, size_t count);

/** True if the n-th kernel of such a pack shares its key with others, so that each call chooses
 * one. */
bool attnc_pack_shares_key(const void *bytes, uint32_t n);

/** True if kernels `n` and `other` of such a pack have the same key, so that each call chooses one
 * of them. */
bool attnc_pack_same_key(const void *bytes, uint32_t n, uint32_t other);

/** Lays out the pack. On success sets *size and *bytes, which the caller frees. False as in
 * attnc_pack_writer_add(). */
bool attnc_pack_writer_finish(struct attnc_pack_writer *w, void **bytes, size_t *size);

/** Returns the message of the first failure, or "". */
const char *attnc_pack_writer_error(const struct attnc_pack_writer *w);

/** Convert a pack to a C header or an object file, for engines that embed it in their binary.
 * `name` is a C identifier; the symbols are attn_pack_<name> (4 KiB aligned) and
 * attn_pack_<name>_size (size_t). On success *out (freed by the caller) and *out_size are set.
 * Returns false if memory is exhausted, or if `name` is no identifier of at most 128 characters. */
bool attnc_pack_to_header(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);
bool attnc_pack_to_object(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);

#endif
