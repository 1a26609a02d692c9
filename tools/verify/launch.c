/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file looks up and launches any op. Kernels with the same dispatch key share an op, and the
 * pack's table selects one of them for each call. This file determines which kernel it selects.
 */
#include <string.h>

#include "tools/verify/schema.h"
#include "tools/verify/memory.h"

/* True if two kernels have the same key. */
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

/* Returns the number of the kernel called `name` in the pack. Returns the number of all kernels if
 * there is none. */
static uint32_t find_kernel(const struct attn_pack *pack, const char *name)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    uint32_t n = 0;
    while (attn_pack_kernel(pack, n, &info) == ATTN_OK && strcmp(info.name, name))
        n++;
    return n;
}

/* True if `op`, the result of a lookup, has `kernel` or another kernel with the same key. */
static bool gives(const struct attn_pack *pack, const struct attn_op *op, const char *kernel)
{
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_op_describe(op, &info))
        return false;
    return !strcmp(info.kernel.name, kernel) ||
           (info.kernel_count > 1 &&
            same_fields(pack, find_kernel(pack, info.kernel.name), find_kernel(pack, kernel)));
}

bool verify_takes(const struct verify_run *run, const void *desc, const char *kernel)
{
    struct attn_op *op;
    if (run->schema->lookup(run->gpu->device, desc, &op))
        return true;
    const bool same = gives(run->pack, op, kernel);
    attn_op_destroy(op);
    return same;
}

/* True if libattn selects row->kernel for these arguments. Otherwise fails the row, and sets
 * row->elsewhere if several kernels have the key. */
static bool is_chosen(const struct attn_op *op, const void *args, struct verify_row *row)
{
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_op_describe_launch(op, args, &info) || !strcmp(info.kernel.name, row->kernel))
        return true; /* if the query failed, the launch reports the error */
    row->elsewhere = info.kernel_count > 1;
    verify_fail(row, "lookup gives another kernel: %s", info.kernel.name);
    return false;
}

/* Fails the row if `error`, the result of a HIP call, is not 0. Returns true if it is 0. */
static bool note_hip(const struct device_memory *m, const char *call, int error,
                     struct verify_row *row)
{
    if (error)
        verify_fail(row, "%s: %s", call, m->gpu->hipGetErrorName(error));
    return error == 0;
}

bool verify_launch(const struct verify_run *run, struct device_memory *m, const void *desc,
                   const void *args, bool aside, struct verify_row *row)
{
    struct attn_op *op;
    if (!verify_copied(m, row))
        return false;
    if (run->schema->lookup(run->gpu->device, desc, &op)) {
        verify_fail(row, "lookup: %s", attn_last_error());
        return false;
    }
    if (aside || is_chosen(op, args, row)) {
        if (run->schema->launch(op, args))
            verify_fail(row, "launch: %s", attn_last_error());
        else
            note_hip(m, "hipDeviceSynchronize", run->gpu->hipDeviceSynchronize(), row);
    }
    attn_op_destroy(op);
    return !row->fault[0];
}

bool verify_copied(const struct device_memory *m, struct verify_row *row)
{
    return note_hip(m, "hipMalloc or hipMemcpy", m->error, row);
}
