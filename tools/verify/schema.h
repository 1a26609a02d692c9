/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file declares parts of every op that are generated from ops/<op>.def: the descriptor, the
 * tensors of a call, and the functions for lookup and launch. Code that handles all ops alike uses
 * them.
 */
#ifndef TOOLS_VERIFY_SCHEMA_H
#define TOOLS_VERIFY_SCHEMA_H

#include "op_operands.h"
#include "runtime/tensors.h"
#include "tools/verify/verify.h"

/** The arguments of any op. */
union verify_args {
    size_t size; /* `size`, the first member of each arguments struct */
#define OP(name) struct attn_##name##_args name;
#include "ops/ops.def"
};

/* An op's name, sizes of its structs in bytes, and functions. */
struct verify_schema {
    const char *op;
    size_t desc_size, args_size;

    /** Sets *desc to the descriptor of the n-th kernel of a pack. Members that the kernel's key
     * lacks are 0. So is a page size if the key says "any". */
    void (*describe)(const struct attn_pack *pack, uint32_t n, union attn_desc *desc);

    /** Lists the tensors of a call in the order of op_operands.h; see struct attn_family. */
    unsigned (*tensors)(const union attn_desc *desc, void *args, struct attn_tensor *tensors);

    /** The functions attn_<op>_lookup() and attn_<op>_launch() of libattn. */
    int (*lookup)(struct attn_device *device, const void *desc, struct attn_op **op);
    int (*launch)(const struct attn_op *op, const void *args);
};

/** Returns the schema of an op; NULL if libattn does not know it. */
const struct verify_schema *verify_schema_of(const char *op);

/* Functions that convert fields of a dispatch key to members of a descriptor. */

/** Returns the dtype that a field of the n-th kernel's key names; `same` if the field is "same". */
enum attn_dtype verify_dtype(const struct attn_pack *pack, uint32_t n, const char *field,
                             enum attn_dtype same);

/** Returns the value of a field of the n-th kernel's key; NULL for "none". */
const char *verify_name(const struct attn_pack *pack, uint32_t n, const char *field);

/** Returns the cache descriptor of the n-th kernel. page_size is 0 if the kernel takes any page
 * size. */
struct attn_cache_desc verify_cache_desc(const struct attn_pack *pack, uint32_t n);

#endif
