/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares what verification knows of every op, made from ops/<op>.def: the descriptor
 * that asks for a kernel, the tensors of a call, the functions that look it up and launch it.
 */
#ifndef TOOLS_VERIFY_SCHEMA_H
#define TOOLS_VERIFY_SCHEMA_H

#include "op_operands.h"
#include "runtime/tensors.h"
#include "tools/verify/verify.h"

/** The arguments of any op. */
union verify_args {
    size_t size; /* the first member of each */
#define OP(name) struct attn_##name##_args name;
#include "ops/ops.def"
};

struct verify_schema {
    const char *op;
    size_t desc_size, args_size;

    /** The descriptor that asks for the n-th kernel; members that are no field of its key stay
     * 0, and so does a page size or a ratio that may be any. */
    void (*describe)(const struct attn_pack *pack, uint32_t n, union attn_desc *desc);

    /** The tensors of a call in the order of op_operands.h: struct attn_family says more. */
    unsigned (*tensors)(const union attn_desc *desc, void *args, struct attn_tensor *tensors);

    /** attn_<op>_lookup() and attn_<op>_launch(). */
    int (*lookup)(struct attn_device *device, const void *desc, struct attn_op **op);
    int (*launch)(const struct attn_op *op, const void *args);
};

/** NULL for an op that libattn does not know. */
const struct verify_schema *verify_schema_of(const char *op);

/* Fields of a key as members of a descriptor. */

/** `same` where the key says "same". */
enum attn_dtype verify_dtype(const struct attn_pack *pack, uint32_t n, const char *field,
                             enum attn_dtype same);

/** NULL for "none". */
const char *verify_name(const struct attn_pack *pack, uint32_t n, const char *field);

/** The cache that the kernel is for; page_size 0 where it takes any. */
struct attn_cache_desc verify_cache_desc(const struct attn_pack *pack, uint32_t n);

#endif
