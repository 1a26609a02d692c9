/* SPDX-License-Identifier: Apache-2.0 */
/* This file reads fields of a kernel's dispatch key. */
#include <string.h>

#include "tools/verify/verify.h"

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

const char *verify_logits(const struct attn_pack *pack, uint32_t n)
{
    const char *logits = verify_field(pack, n, "logits");
    return strcmp(logits, "none") ? logits : NULL;
}
