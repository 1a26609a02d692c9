/* SPDX-License-Identifier: Apache-2.0
 *
 * This file verifies a kernel on the shapes of its op, and counts and reports the rows.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/verify/call.h"

/* The name in a row that is about no shape. */
#define NO_SHAPE "-"

/* The verification of each op. */
static const struct verify_op *const verify_ops[] = {
#define OP(op) &verify_##op,
#include "ops/ops.def"
};

const struct verify_op *verify_op_of(const char *op)
{
    for (size_t i = 0; i < sizeof(verify_ops) / sizeof(verify_ops[0]); i++) {
        if (!strcmp(verify_ops[i]->op, op))
            return verify_ops[i];
    }
    return NULL;
}

const char *verify_lacks(const struct attn_pack *pack, uint32_t n, const char *op)
{
    const struct verify_op *const found = verify_op_of(op);
    return found && found->lacks ? found->lacks(pack, n) : NULL;
}

size_t verify_shape_width(const char *op)
{
    const struct verify_op *const found = verify_op_of(op);
    size_t width = strlen(NO_SHAPE);
    for (size_t i = 0; found && i < found->shape_count; i++) {
        const struct verify_shape *const shape =
            (const void *)((const char *)found->shapes + i * found->shape_size);
        const size_t length = strlen(shape->name);
        width = length > width ? length : width;
    }
    return width;
}

void verify_fail(struct verify_row *row, const char *format, ...)
{
    if (row->fault[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->fault, sizeof(row->fault), format, arguments);
    va_end(arguments);
}

void verify_fail_too(struct verify_row *row, const char *format, ...)
{
    const size_t size = sizeof(row->fault), length = strlen(row->fault);
    const int lead = snprintf(row->fault + length, size - length, "%s", length ? "; " : "");
    const size_t at = length + (size_t)lead < size ? length + (size_t)lead : size - 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->fault + at, size - at, format, arguments);
    va_end(arguments);
}

/* Sets run->worst to error / bound if that is larger. */
static void note_worst(struct verify_run *run, double error, double bound)
{
    if (bound > 0 && error / bound > run->worst)
        run->worst = error / bound;
}

void verify_report(struct verify_run *run, const struct verify_row *row)
{
    if (row->elsewhere)
        return;
    run->rows++;
    run->failures += row->fault[0] != '\0';
    note_worst(run, row->relative, row->relative_bound);
    note_worst(run, row->largest, row->largest_bound);
    run->print(run, row);
}

void verify_report_fault(struct verify_run *run, const char *kernel, const char *fault)
{
    struct verify_row row = {.kernel = kernel, .shape = NO_SHAPE};
    verify_fail(&row, "%s", fault);
    verify_report(run, &row);
}

bool verify_wants_more(const struct verify_run *run)
{
    return run->enough == 0 || run->rows < run->enough;
}

void verify_kernel(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                   size_t shapes)
{
    const size_t rows = run->rows;
    run->enough = shapes ? rows + shapes : 0;
    const struct verify_op *op = verify_op_of(info->op);
    run->schema = verify_schema_of(info->op);
    if (op)
        verify_calls(run, n, info, op);
    if (run->rows == rows)
        verify_report_fault(run, info->name,
                            op ? "none of the shapes' arguments choose it "
                                 "from the pack"
                               : "there is no reference for its op");
}
