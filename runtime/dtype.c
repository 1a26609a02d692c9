/* SPDX-License-Identifier: Apache-2.0 */
/* Names in descriptions and sizes in bytes of element types. */
#include "runtime/cache_args.h"

static const struct {
    const char *name;
    int size;
} dtypes[] = {
    [ATTN_BF16] = {"bf16", 2},
    [ATTN_FP16] = {"fp16", 2},
    [ATTN_FP8] = {"fp8", 1},
    [ATTN_INT8] = {"int8", 1},
};

int attn_dtype_size(enum attn_dtype dtype)
{
    return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[dtype].size : 0;
}

const char *attn_dtype_name(enum attn_dtype dtype) { return dtypes[dtype].name; }
