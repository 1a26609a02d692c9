/* SPDX-License-Identifier: Apache-2.0 */
/* This file makes the calls of an op for its table of shapes, launches them, and compares the
 * results. */
#include "tools/verify/call.h"
#include "tools/verify/hook.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of a trace: elements of a tensor, alignment of a tensor in bytes (hipMalloc()'s), and
 * floats that hook_arg of a user's logits function points to. */
enum { TRACED_ELEMENTS_MAX = 1 << 30, TRACED_ALIGN = 256, TRACED_HOOK_FLOATS = 65536 };

/* Memory that call_allocate() returned, in a list. */
struct call_block {
    struct call_block *next;
    max_align_t bytes[];
};

bool call_is_tuned(const struct call *c, const char *what)
{
    struct attn_kernel_info info = {.size = sizeof(info)};
    return !attn_pack_kernel(c->pack, c->n, &info) && strstr(info.tuning, what);
}

int call_ratio(const struct call *c) { return atoi(verify_field(c->pack, c->n, "gqa")); }

const char *call_complete_heads(const struct call *c, int *heads, int *kv_heads, int usual)
{
    static char why[100];
    const int ratio = call_ratio(c);
    if (!*kv_heads)
        *kv_heads = !*heads ? 8 : ratio ? *heads / ratio : 1;
    if (!*heads)
        *heads = *kv_heads * (ratio ? ratio : usual);
    if (*kv_heads && *heads % *kv_heads == 0 && (!ratio || *heads / *kv_heads == ratio))
        return NULL;
    snprintf(why, sizeof(why), "%d heads over %d KV heads is not the kernel's ratio", *heads,
             *kv_heads);
    return why;
}

void *call_allocate(struct call *c, size_t count, size_t size)
{
    struct call_block *block = verify_allocate(sizeof(*block) + count * size, 1);
    block->next = c->blocks;
    c->blocks = block;
    return block->bytes;
}

/* The functions from here on make a call. */

/* Gives the scales of K and of V equal strides: the second one takes the first one's. Returns true
 * if `o` is one of these operands and needs no other strides. */
static bool shares_strides(const struct call *c, struct operand *o)
{
    for (const struct operand *other = c->operands; other < o && o->schema.free; other++) {
        if (other->schema.strides[0] != o->schema.strides[0] || !other->schema.free)
            continue;
        memcpy(o->strides, other->strides, sizeof(o->strides));
        return true;
    }
    return false;
}

/* Sets strides with gaps for VERIFY_VIEWS. In every second tensor, and in each without a contiguous
 * dimension, the heads' stride is larger than the tokens'. Pages stay outermost. */
static void spread(struct call *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct operand *o = &c->operands[i];
        const int free = o->schema.free;
        const bool turned = o->schema.paged ? free == 3 : free == o->schema.ndim || i % 2;
        if (!shares_strides(c, o))
            operand_set_strides(o, true, turned);
    }
}

/* Sets c->desc from the kernel's dispatch key. */
static void describe(struct call *c)
{
    memset(&c->desc, 0, sizeof(c->desc));
    memset(&c->args, 0, sizeof(c->args));
    c->schema->describe(c->pack, c->n, &c->desc);
    c->args.size = c->schema->args_size;
}

/* Makes the operands of the call from the tensors of its schema, and sets sizes and strides. */
static void make_operands(struct call *c)
{
    struct attn_tensor tensors[ATTN_TENSORS_MAX];
    c->count = c->schema->tensors(&c->desc, &c->args, tensors);
    for (unsigned i = 0; i < c->count; i++)
        operand_init(&c->operands[i], &tensors[i], c->target);
    if (c->flags & VERIFY_VIEWS)
        spread(c);
    if (c->op->place)
        c->op->place(c);
    for (unsigned i = 0; i < c->count; i++) {
        const struct operand *o = &c->operands[i];
        if (o->given && o->owner)
            o->owner->schema.written |= o->schema.written;
    }
}

/* True if each operand is small enough for trace; else writes a message to `why`. */
static bool fits(const struct call *c, char *why, size_t why_size)
{
    for (unsigned i = 0; i < c->count; i++) {
        const int64_t count = operand_count(&c->operands[i]);
        if (!c->operands[i].given || count <= TRACED_ELEMENTS_MAX)
            continue;
        snprintf(why, why_size, "%s has %lld elements, more than the %d that trace allocates",
                 c->operands[i].schema.name, (long long)count, TRACED_ELEMENTS_MAX);
        return false;
    }
    return true;
}

/* Copies the operands to the device: first operands with their own memory, then operands in the
 * memory of others. */
static void upload(struct call *c)
{
    for (int inside = 0; inside < 2; inside++) {
        for (unsigned i = 0; i < c->count; i++) {
            if ((c->operands[i].owner != NULL) == inside)
                operand_upload(&c->operands[i], &c->memory);
        }
    }
}

/* Allocates the operands' memory, fills it, and copies it to the device. */
static void make_values(struct call *c)
{
    for (int inside = 0; inside < 2; inside++) {
        for (unsigned i = 0; i < c->count; i++) {
            if ((c->operands[i].owner != NULL) == inside)
                operand_allocate(&c->operands[i]);
        }
    }
    c->op->fill(c);
    upload(c);
}

/* True if the n-th kernel was built with a user's logits function. */
static bool has_hook(const struct attn_pack *pack, uint32_t n)
{
    const char *name = verify_name(pack, n, "logits");
    return name && *name;
}

const void *call_fill_hook(struct call *c)
{
    const int count = c->traced ? TRACED_HOOK_FLOATS : HOOK_FLOATS;
    if (!has_hook(c->pack, c->n))
        return NULL;
    c->hook_arg = call_allocate(c, (size_t)count, sizeof(*c->hook_arg));
    for (int i = 0; i < count; i++)
        c->hook_arg[i] = (float)fabs(random_value(&c->random)) / 16;
    return device_copy(&c->memory, c->hook_arg, (size_t)count * sizeof(*c->hook_arg));
}

void call_fill_sinks(struct call *c, struct operand *sinks)
{
    enum { PERIOD = 8, NONE = 1, ALL = 3 }; /* indices of special heads among PERIOD */
    for (int64_t h = 0; sinks->given && h < sinks->dims[0]; h++) {
        const double random = (float)(2 * random_value(&c->random));
        operand_set(sinks, AT(h),
                    h % PERIOD == NONE  ? -INFINITY
                    : h % PERIOD == ALL ? INFINITY
                                        : random);
    }
}

bool call_prepare(struct call *c, void *shape, char *why, size_t why_size)
{
    c->schema = verify_schema_of(c->op->op);
    c->shape = shape;
    c->flags = ((const struct verify_shape *)c->shape)->flags;
    c->random = 1;
    c->traced = true;
    describe(c);
    const char *fault = c->op->complete ? c->op->complete(c, shape) : NULL;
    if (fault) {
        snprintf(why, why_size, "%s", fault);
        return false;
    }
    c->own = call_allocate(c, 1, c->op->own_size);
    c->op->size(c);
    make_operands(c);
    for (unsigned i = 0; i < c->count; i++)
        c->operands[i].align = TRACED_ALIGN;
    if (!fits(c, why, why_size))
        return false;
    make_values(c);
    return true;
}

double call_operand_bytes(const struct call *c)
{
    double bytes = 0;
    for (unsigned i = 0; i < c->count; i++) {
        const struct operand *o = &c->operands[i];
        if (o->given && !o->schema.paged)
            bytes += (double)operand_count(o) * o->size * (o->filled + o->schema.written);
    }
    return bytes;
}

double call_least_bytes(const struct call *c)
{
    return c->op->least_bytes ? c->op->least_bytes(c) : call_operand_bytes(c);
}

void call_free(struct call *c)
{
    device_free(&c->memory);
    for (unsigned i = 0; i < c->count; i++)
        operand_free(&c->operands[i]);
    while (c->blocks) {
        struct call_block *block = c->blocks;
        c->blocks = block->next;
        free(block);
    }
}

/* The functions from here on compare the results of a call. */

/* Writes the indices `at` to `text` as "[3, 0, 17]". */
static void print_indices(const struct operand *o, const int64_t at[], char *text, size_t size)
{
    size_t length = 0;
    for (int k = 0; k < o->schema.ndim && length < size; k++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", k ? ", " : "[",
                                   (long long)at[k]);
    snprintf(text + length, length < size ? size - length : 0, "]");
}

/* Fails the row with a wrong element. The message says so if the kernel has not written the
 * element. */
static void note_fault(struct call *c, const struct operand *o, const int64_t at[], double got,
                       double expected)
{
    char text[100];
    print_indices(o, at, text, sizeof(text));
    if (operand_same(o, at))
        verify_fail(c->row, "%s%s was not written, expected %g", o->schema.name, text, expected);
    verify_fail(c->row, "%s%s is %g, expected %g", o->schema.name, text, got, expected);
}

/* Compares `got`, the number of element `at`, with the expected number. Fails the row if the error
 * exceeds `bound`. */
static void check(struct call *c, struct operand *o, const int64_t at[], double got,
                  double expected, double bound)
{
    operand_allow(o, at);
    if (isinf(expected) ? got != expected : !(fabs(got - expected) <= bound))
        note_fault(c, o, at, got, expected);
}

void call_check(struct call *c, struct operand *o, const int64_t at[], double expected,
                double bound)
{
    check(c, o, at, operand_result(o, at), expected, bound);
}

void call_compare(struct call *c, struct operand *o, const int64_t at[], double expected,
                  double bound)
{
    call_compare_value(c, o, at, operand_result(o, at), expected, bound);
}

/* True if a result of this magnitude was counted before, and otherwise notes it. If the hash table
 * is full, some magnitudes are forgotten. */
static bool was_there(struct call *c, double size)
{
    enum { BITS = 16 };
    uint64_t bits;
    if (!c->sizes)
        c->sizes = call_allocate(c, 1 << BITS, sizeof(*c->sizes));
    memcpy(&bits, &size, sizeof(bits));
    double *const place = &c->sizes[bits * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BITS)];
    const bool before = *place == size;
    *place = size;
    return before;
}

/* Adds an element to the sums over all elements. Equal results, such as products of 255 integers
 * with a scale, have the same rounding and are counted once. Float32 errors before the last
 * rounding are not independent, but are negligible beside a rounding to 8 bits. */
static void add_element(struct call *c, const struct operand *o, double error, double expected,
                        double bound)
{
    const struct precision *p = o->precision;
    double rounding = 0;
    if (was_there(c, fabs(expected)))
        return;
    if (p)
        rounding = p->size == 1 ? bound : fmin(bound, p->unit * fabs(expected));
    mean_add_element(c->means, error, expected, rounding, bound - rounding);
}

void call_compare_value(struct call *c, struct operand *o, const int64_t at[], double got,
                        double expected, double bound)
{
    const double error = fabs(got - expected);
    check(c, o, at, got, expected, bound);
    c->error += error * error;
    c->norm += expected * expected;
    c->bound += bound * bound;
    add_element(c, o, got - expected, expected, bound);
    if (bound > 0 && error / bound >= c->closest) {
        c->closest = error / bound;
        c->row->largest = error;
        c->row->largest_bound = bound;
    }
}

void call_compare_int(struct call *c, struct operand *o, const int64_t at[], int64_t expected)
{
    char text[100];
    const int64_t got = operand_result_int(o, at);
    operand_allow(o, at);
    if (got == expected)
        return;
    print_indices(o, at, text, sizeof(text));
    if (operand_same(o, at))
        verify_fail(c->row, "%s%s was not written, expected %lld", o->schema.name, text,
                    (long long)expected);
    verify_fail(c->row, "%s%s is %lld, expected %lld", o->schema.name, text, (long long)got,
                (long long)expected);
}

/* Fails the row if the norm of the errors of all elements exceeds the norm of their bounds. */
static void sum_up(struct call *c)
{
    struct verify_row *row = c->row;
    if (c->norm == 0 && c->error == 0) /* nothing was compared by call_compare() */
        return;
    row->relative = c->norm > 0 ? sqrt(c->error / c->norm) : sqrt(c->error);
    row->relative_bound = c->norm > 0 ? sqrt(c->bound / c->norm) : sqrt(c->bound);
    if (!(row->relative <= row->relative_bound))
        verify_fail(row, "the relative error of the whole is beyond its bound");
    mean_check(c->means, row);
}

/* Fails the row if the launch changed memory that was not compared. */
static void check_surroundings(struct call *c)
{
    int64_t at = 0;
    for (unsigned i = 0; i < c->count; i++) {
        if (!operand_untouched(&c->operands[i], &at))
            verify_fail_too(c->row,
                            "element %lld of %s's memory belongs to no result and was written",
                            (long long)at, c->operands[i].schema.name);
    }
}

/* Copies the operands back from the device. Returns false if a copy fails. */
static bool download(struct call *c)
{
    for (int inside = 0; inside < 2; inside++) {
        for (unsigned i = 0; i < c->count; i++) {
            if ((c->operands[i].owner != NULL) == inside)
                operand_download(&c->operands[i], &c->memory);
        }
    }
    return verify_copied(&c->memory, c->row);
}

/* Makes all launches of a call (struct verify_op.next). Returns false if one fails. */
static bool launch_all(struct verify_run *run, struct call *c)
{
    do {
        if (!verify_launch(run, &c->memory, &c->desc, &c->args, c->aside, c->row))
            return false;
    } while (c->op->next && c->op->next(c));
    return true;
}

/* Launches a call and compares the results, until op->again() returns false. Each launch starts
 * with the memory that the previous launch left. */
static void run(struct verify_run *run, struct call *c)
{
    for (;;) {
        if (!launch_all(run, c) || !download(c))
            return;
        c->op->compare(c);
        check_surroundings(c);
        c->launches++;
        if (c->row->fault[0])
            return;
        for (unsigned i = 0; c->op->again && i < c->count; i++)
            operand_keep_result(&c->operands[i]);
        if (!c->op->again || !c->op->again(c))
            return;
        upload(c);
    }
}

/* Calls op->size() with each step, until the pack's table selects `kernel` for the sizes. Returns
 * false if it selects it for none. */
static bool choose_sizes(struct verify_run *run, struct call *c, const char *kernel)
{
    bool taken;
    do {
        describe(c);
        c->op->size(c);
        taken = verify_takes(run, &c->desc, kernel);
    } while (!taken && c->step++ < c->op->steps);
    return taken;
}

/* Verifies a kernel on one shape and reports the result. */
static void verify_shape(struct verify_run *run_, const struct attn_kernel_info *info,
                         struct call *c)
{
    struct verify_row row = {
        .kernel = info->name,
        .shape = ((const struct verify_shape *)c->shape)->name,
    };
    c->row = &row;
    c->own = call_allocate(c, 1, c->op->own_size);
    const bool passed_over = !choose_sizes(run_, c, info->name) && c->flags & VERIFY_CHOSEN;
    if (!passed_over) {
        make_operands(c);
        make_values(c);
        run(run_, c);
        sum_up(c);
        verify_report(run_, &row);
    }
    call_free(c);
}

/* Opens the kernel's logits function, if it has one. Returns false if the function cannot be
 * opened, and reports a row with the reason. */
static bool open_hook(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                      struct hook **hook)
{
    char why[400];
    *hook = NULL;
    if (!has_hook(run->pack, n) ||
        (*hook = hook_open(run->hooks, verify_name(run->pack, n, "logits"), why, sizeof(why))))
        return true;
    verify_report_fault(run, info->name, why);
    return false;
}

/* Verifies a kernel on one in `shares` of the shapes that it takes: those whose number among them
 * is `share` modulo `shares`. */
static void verify_share(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                         const struct verify_op *op, struct hook *hook, size_t share, size_t shares)
{
    size_t taken = 0;
    bool covered = true;
    for (size_t i = 0; covered && i < op->shape_count && verify_wants_more(run); i++) {
        struct call c = {
            .op = op,
            .schema = run->schema,
            .pack = run->pack,
            .n = n,
            .target = info->target,
            .shape = (const char *)op->shapes + i * op->shape_size,
            .number = i,
            .random = run->seed * 1000003 + i,
            .threads = run->threads,
            .memory = {.gpu = run->gpu},
            .hook = hook,
        };
        c.flags = ((const struct verify_shape *)c.shape)->flags;
        describe(&c);
        const char *fault = op->covers ? op->covers(&c) : NULL;
        covered = !fault;
        if (fault)
            verify_report_fault(run, info->name, fault);
        else if ((!op->takes || op->takes(&c)) && taken++ % shares == share)
            verify_shape(run, info, &c);
    }
}

void verify_calls(struct verify_run *run, uint32_t n, const struct attn_kernel_info *info,
                  const struct verify_op *op)
{
    struct hook *hook;
    const size_t rows = run->rows;
    size_t shares = run->every > 1 ? run->every : 1;
    if (shares > op->shape_count)
        shares = op->shape_count;
    const bool opened = open_hook(run, n, info, &hook);
    /* If no shape of the share chooses the kernel, the next share may. */
    for (size_t tries = 0; opened && tries < shares && run->rows == rows; tries++)
        verify_share(run, n, info, op, hook, (run->turn + tries) % shares, shares);
    hook_close(hook);
}
