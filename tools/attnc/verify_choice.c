/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file asks which kernel a lookup or a launch takes. Kernels with the same key share an op,
 * and each call chooses among them by the pack's table.
 */
#include <string.h>

#include "tools/attnc/verify.h"

static bool same_fields(const struct attn_pack *pack, uint32_t a, uint32_t b)
{
    const char *name[2], *value[2];
    for (uint32_t i = 0; attn_pack_kernel_field(pack, a, i, &name[0], &value[0]) == ATTN_OK; i++) {
        if (attn_pack_kernel_field(pack, b, i, &name[1], &value[1]) != ATTN_OK ||
            strcmp(name[0], name[1]) || strcmp(value[0], value[1]))
            return false;
    }
    return true;
}

static uint32_t find_kernel(const struct attn_pack *pack, const char *name)
{
    struct attn_kernel_info info = { .size = sizeof(info) };
    uint32_t n = 0;
    while (attn_pack_kernel(pack, n, &info) == ATTN_OK && strcmp(info.name, name))
        n++;
    return n;
}

bool verify_gives(const struct attn_pack *pack, const struct attn_op *op, const char *kernel)
{
    struct attn_op_info info = { .size = sizeof(info) };
    if (attn_op_describe(op, &info))
        return false;
    return !strcmp(info.kernel.name, kernel) ||
           (info.kernel_count > 1 &&
            same_fields(pack, find_kernel(pack, info.kernel.name), find_kernel(pack, kernel)));
}

const char *verify_other_kernel(const struct attn_op *op, const void *args,
                                struct verify_row *row)
{
    struct attn_op_info info = { .size = sizeof(info) };
    if (attn_op_describe_launch(op, args, &info) || !strcmp(info.kernel.name, row->kernel))
        return NULL; /* or the launch says what is wrong */
    row->elsewhere = info.kernel_count > 1;
    return info.kernel.name;
}
