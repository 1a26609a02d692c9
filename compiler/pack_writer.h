/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares the pack writer: kernels in memory become one pack (pack/pack_format.h),
 * the same bytes for the same kernels in whatever order they came. It knows no op family.
 */
#ifndef ATTNC_PACK_WRITER_H
#define ATTNC_PACK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/pack_format.h"

/** A field of the dispatch key as descriptions spell it: ("head_dim", "128"). */
struct attnc_pack_pair {
    const char *field;
    const char *value;
};

/** A kernel argument: the value `arg`, an argument of ops/, at `offset` of the kernarg segment. */
struct attnc_pack_kernarg {
    const char *arg;
    uint16_t offset;
    enum attn_arg_kind kind;
};

/** ceil(arg / number); where arg is NULL, number itself. */
struct attnc_pack_factor {
    const char *arg;
    uint32_t number;
};

/** The kernel is meant for calls with min <= arg <= max. */
struct attnc_pack_when {
    const char *arg;
    int64_t min, max;
};

/** One kernel. Strings are printable ASCII; NULL means empty where "may be empty" is said. */
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
    uint32_t kernarg_size; /* bytes of the segment that the code object declares */
    const struct attnc_pack_factor *grid[3]; /* workgroups in x, y, z: a product; none: 1 */
    size_t grid_count[3];
    uint16_t workgroups_most; /* as in the file */
    const struct attnc_pack_when *when;
    size_t when_count;
    const struct attn_pack_split *splits; /* as they are in the file */
    size_t split_count;
    uint32_t workgroup[3];

#define NUMBER(type, name) type name;
#include "pack/kernel_numbers.def"

    const void *code; /* the code object */
    size_t code_size;
};

struct attnc_pack_writer;

/** An empty pack. NULL: out of memory. */
struct attnc_pack_writer *attnc_pack_writer_create(void);
void attnc_pack_writer_destroy(struct attnc_pack_writer *w);

/**
 * Adds a kernel; everything is copied. False: a sentence in attnc_pack_writer_error(), and the
 * writer refuses all that follows. One thread at a time.
 */
bool attnc_pack_writer_add(struct attnc_pack_writer *w, const struct attnc_pack_kernel *kernel);

/**
 * Adds the n-th kernel of a pack in memory, 8-byte aligned, all of which libattn has accepted
 * (attn_pack_check() and attn_pack_kernel()); `every_call` leaves out its conditions. False as
 * above.
 */
bool attnc_pack_copy(struct attnc_pack_writer *w, const void *bytes, uint32_t n, bool every_call);

/** Does the n-th kernel of such a pack share its key with others, so that each call chooses? */
bool attnc_pack_shares_key(const void *bytes, uint32_t n);

/** Lays the pack out. On success *bytes (free()) and *size are set; false as above. */
bool attnc_pack_writer_finish(struct attnc_pack_writer *w, void **bytes, size_t *size);

/** The message of the first refusal, or "". */
const char *attnc_pack_writer_error(const struct attnc_pack_writer *w);

/**
 * The other shapes of a pack, for engines that want it inside their binary. `name` is a C
 * identifier; the symbols are attn_pack_<name> (4 KiB aligned) and attn_pack_<name>_size (size_t).
 * On success *out (free()) and *out_size are set; false: out of memory or not an identifier of at
 * most 128 characters.
 */
bool attnc_pack_to_header(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);
bool attnc_pack_to_object(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);

#endif
