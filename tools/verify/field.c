/* SPDX-License-Identifier: Apache-2.0 */
/* This file reads fields of a kernel's dispatch key. */
#include <stdlib.h>
#include <string.h>

#include "tools/verify/numbers.h"
#include "tools/verify/schema.h"

const char *verify_field(const struct attn_pack *pack, uint32_t n, const char *field)
{
    const char *name, *value;
    for (uint32_t i = 0; attn_pack_kernel_field(pack, n, i, &name, &value) == ATTN_OK; i++) {
        if (!strcmp(name, field))
            return value;
    }
    return "";
}

int verify_number_of(const struct attn_pack *pack, uint32_t n, const char *field,
                     const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(verify_field(pack, n, field), names[i]))
            return i;
    }
    return 0;
}

bool verify_flag(const struct attn_pack *pack, uint32_t n, const char *field)
{
    return !strcmp(verify_field(pack, n, field), "true");
}

const char *verify_name(const struct attn_pack *pack, uint32_t n, const char *field)
{
    const char *name = verify_field(pack, n, field);
    return strcmp(name, "none") ? name : NULL;
}

enum attn_dtype verify_dtype(const struct attn_pack *pack, uint32_t n, const char *field,
                             enum attn_dtype same)
{
    const int dtype = VERIFY_NUMBER_OF(pack, n, field, "same", "bf16", "fp16", "fp8", "int8");
    return dtype ? (enum attn_dtype)dtype : same;
}

struct attn_cache_desc verify_cache_desc(const struct attn_pack *pack, uint32_t n)
{
    return (struct attn_cache_desc){
        .dtype = verify_dtype(pack, n, "kv_dtype", verify_dtype(pack, n, "dtype", 0)),
        .layout =
            VERIFY_NUMBER_OF(pack, n, "kv_layout", "nhd", "shuffle", "packed", "shuffle_k",
                             "scales_last", "planes", "packed_fp4", "packed_mxfp4", "packed_mxfp8"),
        .scale = VERIFY_NUMBER_OF(pack, n, "kv_scale", "none", "tensor", "token", "block", "e8m0",
                                  "head"),
        .page_size = atoi(verify_field(pack, n, "page_size")), /* "any" gives 0 */
    };
}
