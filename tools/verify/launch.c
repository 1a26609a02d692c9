/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file looks up and launches any op. Kernels with the same key share an op. The pack's table
 * selects one of them for each call, and this file finds out which one.
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

/* Returns the number of the kernel called `name`; the number of kernels if there is none. */
static uint32_t find_kernel(const struct attn_pack *pack, const char *name)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    uint32_t n = 0;
    while (attn_pack_kernel(pack, n, &info) == ATTN_OK && strcmp(info.name, name))
        n++;
    return n;
}

/* True if lookup gives the kernel, or another one of the same key, for the call's arguments. */
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

/* True if libattn selects the row's kernel for these arguments. Otherwise fails the row, and sets
 * row->elsewhere if the key has several kernels. */
static bool is_chosen(const struct attn_op *op, const void *args, struct verify_row *row)
{
    struct attn_op_info info = {.size = sizeof(info)};
    if (attn_op_describe_launch(op, args, &info) || !strcmp(info.kernel.name, row->kernel))
        return true; /* or the launch reports the fault */
    row->elsewhere = info.kernel_count > 1;
    verify_fail(row, "lookup gives another kernel: %s", info.kernel.name);
    return false;
}

/* Reports a failed HIP call; returns whether `error` is 0. */
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
