/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pack writer makes a pack (pack/pack_format.h) from kernels in memory. The pack's bytes do not
 * depend on the order in which kernels are added. The writer knows no ops: it copies keys and
 * arguments as they are.
 */
#ifndef ATTNC_PACK_WRITER_H
#define ATTNC_PACK_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pack/pack_format.h"

/** A field of a dispatch key and its value, spelt as in descriptions: ("head_dim", "128"). */
struct attnc_pack_pair {
    const char *field;
    const char *value;
};

/** A kernel argument: the value that a schema in ops/ calls `arg`, at byte `offset` of the kernarg
 * segment. */
struct attnc_pack_kernarg {
    const char *arg;
    uint16_t offset;
    enum attn_arg_kind kind;
};

/** A factor of a grid dimension: the launch argument `arg` divided by `number`, rounded up;
 * `number` itself if `arg` is NULL. */
struct attnc_pack_factor {
    const char *arg;
    uint32_t number;
};

/** A condition on the calls that a kernel is for: the launch argument `arg` is `min` to `max`, both
 * included. */
struct attnc_pack_when {
    const char *arg;
    int64_t min, max;
};

/** A kernel for a pack. Strings are printable ASCII. A string whose comment says "may be empty" may
 * be NULL. */
struct attnc_pack_kernel {
    const char *name;                  /* name of the kernel, unique in the pack */
    const char *symbol;                /* name of the kernel in the code object, without ".kd" */
    const char *op;                    /* such as "prefill" */
    const char *target;                /* such as "gfx942" */
    const char *tuning;                /* the tile as text, "block_q=128 ..."; may be empty */
    const char *provenance;            /* the compiler that built it; may be empty */
    const struct attnc_pack_pair *key; /* dispatch key, without op and target; in any order */
    size_t key_count;
    const struct attnc_pack_kernarg *kernargs;
    size_t kernarg_count;
    uint32_t kernarg_size; /* bytes of the kernarg segment, as the code object declares */
    /* factors whose product is the number of workgroups in x, y, z; without factors 1 */
    const struct attnc_pack_factor *grid[3];
    size_t grid_count[3];
    /* most workgroups of a launch; 0: no limit. See struct attn_pack_kernel */
    uint16_t workgroups_most;
    const struct attnc_pack_when *when; /* conditions that a call must all meet; none: every call */
    size_t when_count;
    const struct attn_pack_split *splits; /* table of splits, in the format of packs */
    size_t split_count;
    uint32_t workgroup[3]; /* work-items of a workgroup in x, y and z; none is 0 */

#define NUMBER(type, name) type name;
#include "pack/kernel_numbers.def"

    const void *code; /* the code object, an ELF file of `code_size` bytes */
    size_t code_size;
};

struct attnc_pack_writer;

/** Creates an empty writer. Returns NULL if memory is exhausted. */
struct attnc_pack_writer *attnc_pack_writer_create(void);
/** Frees the writer and all that it has copied. */
void attnc_pack_writer_destroy(struct attnc_pack_writer *w);

/** Adds a copy of a kernel to the pack. On failure returns false: attnc_pack_writer_error() then
 * has a sentence, and all later calls fail. One thread at a time may use a writer. */
bool attnc_pack_writer_add(struct attnc_pack_writer *w, const struct attnc_pack_kernel *kernel);

/** Adds the n-th kernel, counted from 0, of the pack at `bytes`, which is 8-byte aligned. libattn
 * must have accepted the whole pack (attn_pack_check() and attn_pack_kernel()). If `every_call` is
 * true, the kernel loses its conditions on calls. Returns false after a failure, like
 * attnc_pack_writer_add(). */
bool attnc_pack_copy(struct attnc_pack_writer *w, const void *bytes, uint32_t n, bool every_call);

/** Like attnc_pack_copy(), but adds to the kernel's key each of the `count` pairs whose field the
 * key lacks. The kernel's conditions on calls remain. */
bool attnc_pack_copy_completed(struct attnc_pack_writer *w, const void *bytes, uint32_t n,
                               const struct attnc_pack_pair *pairs, size_t count);

/** True if another kernel of the pack at `bytes` has the key of the n-th. The conditions of both
 * then decide which one a call uses. libattn must have accepted the pack. */
bool attnc_pack_shares_key(const void *bytes, uint32_t n);

/** True if kernels `n` and `other` of the pack at `bytes` have the same key. The conditions of both
 * then decide which one a call uses. libattn must have accepted the pack. */
bool attnc_pack_same_key(const void *bytes, uint32_t n, uint32_t other);

/** Lays out the pack of all added kernels. On success sets *bytes, which the caller frees, and its
 * length *size. Returns false after a failure, like attnc_pack_writer_add(). */
bool attnc_pack_writer_finish(struct attnc_pack_writer *w, void **bytes, size_t *size);

/** Returns the message of the writer's first failure, or "". The writer owns the text. */
const char *attnc_pack_writer_error(const struct attnc_pack_writer *w);

/** Converts a pack to the text of a C header, by which engines can embed it in their binary. `name`
 * is a C identifier; the symbols are attn_pack_<name> (4 KiB aligned) and attn_pack_<name>_size
 * (size_t). On success sets *out, which the caller frees, and its length *out_size. Returns false
 * if memory is exhausted, or if `name` is no identifier of at most 128 characters. */
bool attnc_pack_to_header(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);

/** Like attnc_pack_to_header(), but converts the pack to an ELF object of the host. Also returns
 * false on an error of libelf or of its temporary file. */
bool attnc_pack_to_object(const void *pack, size_t size, const char *name, void **out,
                          size_t *out_size);

#endif
