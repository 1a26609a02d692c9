/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a descriptor into an op and a call of the op into a launch. Lookup decides what does not
 * depend on the call's arguments: names in the pack's record become numbers of enum attn_arg. A
 * launch is then a copy of values to offsets, a few shifts and one call of HIP.
 */
#include "runtime/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/lookup.h"

/* The names of all kernel arguments in one object. An array of pointers to them would need more
 * space, and relocations. */
static const struct arg_names {
#define ARG(ID, name, kind, help) char ID[sizeof(name)];
#include "op_args.def"
} arg_names = {
#define ARG(ID, name, kind, help) .ID = name,
#include "op_args.def"
};

/* The arguments of kernels, by enum attn_arg. */
static const struct {
    uint16_t name; /* byte offset of the argument's name in arg_names */
    uint8_t kind;  /* the argument's type: enum attn_arg_kind */
} args[ATTN_ARG_COUNT] = {
#define PTR ATTN_KIND_I64
#define I64 ATTN_KIND_I64
#define I32 ATTN_KIND_I32
#define F32 ATTN_KIND_F32
#define ARG(ID, name_, kind_, help) [ATTN_ARG_##ID] = {offsetof(struct arg_names, ID), kind_},
#include "op_args.def"
#undef PTR
#undef I64
#undef I32
#undef F32
};

/* Returns the name of the argument `arg` (enum attn_arg). */
static const char *arg_name(uint32_t arg) { return (const char *)&arg_names + args[arg].name; }

static const struct attn_family *const families[] = {
#define OP(name) &attn_family_##name,
#include "ops/ops.def"
};

ATTN_PUBLIC bool attn_has_feature(const char *name)
{
    if (!name)
        return false;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (!strcmp(families[i]->op, name))
            return true;
    }
    return !strcmp(name, "dlpack") || !strcmp(name, "check-data");
}

/* The functions from here on translate a kernel's record in the pack when lookup has found it. */

/* Compares the string `name` with the name of the argument *value (enum attn_arg), for
 * bsearch(). */
static int compare_names(const void *name, const void *value)
{
    return strcmp(name, arg_name(*(const uint16_t *)value));
}

/* Sets *value to the enum attn_arg called `name`. Returns ATTN_BAD_PACK if the family sets no such
 * argument or its kind is not `kind` (enum attn_arg_kind). With a negative `kind`, every kind but
 * F32 is right. */
static int resolve(const struct attn_family *family, const struct attn_pack_record *record,
                   const char *name, int kind, uint32_t *value)
{
    const uint16_t *const found =
        bsearch(name, family->args, family->arg_count, sizeof(*found), compare_names);
    if (!found)
        return attn_fail(ATTN_BAD_PACK,
                         "pack kernels: %s takes \"%s\", which this library does "
                         "not give to %s kernels",
                         record->name, name, family->op);
    const uint16_t i = *found;
    if (kind >= 0 ? args[i].kind != (enum attn_arg_kind)kind : args[i].kind == ATTN_KIND_F32)
        return attn_fail(ATTN_BAD_PACK, "pack kernels: %s takes \"%s\" as another type",
                         record->name, name);
    *value = i;
    return ATTN_OK;
}

/* Adds the words of the kernarg segment from byte `first` up to byte `end` (excluded) to the
 * kernel's holes, which launches zero. */
static void add_holes(struct attn_kernel *kernel, uint32_t first, uint32_t end)
{
    for (; first < end; first += 4)
        kernel->holes[kernel->hole_count++] = (uint16_t)first;
}

/* Sets the kernel's arguments and holes from its record. Returns ATTN_OK or ATTN_BAD_PACK. */
static int translate_kernargs(const struct attn_family *family, const struct attn_pack *pack,
                              const struct attn_pack_record *record, struct attn_kernel *kernel)
{
    uint32_t covered = 0; /* end of the bytes that belong to an argument or a hole */
    for (uint32_t i = 0; i < record->k->kernarg_count; i++) {
        const struct attn_pack_kernarg *a = &record->kernargs[i];
        uint32_t value;
        int r = resolve(family, record, attn_pack_text(pack, a->arg), a->kind, &value);
        if (r)
            return r;
        uint16_t *count = a->size == 8 ? &kernel->wide_count : &kernel->narrow_count;
        struct attn_slot *slots = a->size == 8 ? kernel->wide : kernel->narrow;
        slots[(*count)++] = (struct attn_slot){(uint16_t)value, a->offset};
        add_holes(kernel, covered, a->offset);
        covered = a->offset + a->size; /* the record's check ensures ascending, aligned offsets */
    }
    add_holes(kernel, covered, kernel->kernarg_size);
    return ATTN_OK;
}

/* Returns log2 of `number`, or ATTN_NO_SHIFT if it is no power of two. */
static uint8_t shift_of(uint32_t number)
{
    const bool power = number && (number & (number - 1)) == 0;
    return power ? (uint8_t)__builtin_ctz(number) : ATTN_NO_SHIFT;
}

/* Sets the factors and the limits of the kernel's grid from its record. Returns ATTN_OK or
 * ATTN_BAD_PACK. */
static int translate_grid(const struct attn_family *family, const struct attn_pack *pack,
                          const struct attn_pack_record *record, struct attn_kernel *kernel)
{
    const struct attn_pack_factor *f = record->factors;
    for (int d = 0; d < 3; d++) {
        kernel->factor_count[d] = record->k->factor_count[d];
        for (uint32_t i = 0; i < kernel->factor_count[d]; i++, f++) {
            struct attn_factor *out = &kernel->factors[d][i];
            *out = (struct attn_factor){
                .value = ATTN_ARG_COUNT,
                .number = f->number,
                .shift = shift_of(f->number),
            };
            const char *name = attn_pack_text(pack, f->arg);
            int r = *name ? resolve(family, record, name, -1, &out->value) : ATTN_OK;
            if (r)
                return r;
            out->narrow = out->value != ATTN_ARG_COUNT && args[out->value].kind == ATTN_KIND_I32;
        }
        const uint32_t most = d && !record->k->workgroups_most ? ATTN_GRID_YZ_MAX : INT32_MAX;
        kernel->grid_max[d] = UINT32_MAX / kernel->workgroup[d];
        if (kernel->grid_max[d] > most)
            kernel->grid_max[d] = most;
    }
    kernel->workgroups_most = record->k->workgroups_most;
    return ATTN_OK;
}

/* Sets the kernel's conditions on calls from its record. Returns ATTN_OK or ATTN_BAD_PACK. */
static int translate_conditions(const struct attn_family *family, const struct attn_pack *pack,
                                const struct attn_pack_record *record, struct attn_kernel *kernel)
{
    kernel->condition_count = record->k->when_count;
    for (uint32_t i = 0; i < kernel->condition_count; i++) {
        const struct attn_pack_when *w = &record->whens[i];
        struct attn_condition *out = &kernel->conditions[i];
        *out = (struct attn_condition){.min = w->min, .max = w->max};
        int r = resolve(family, record, attn_pack_text(pack, w->arg), -1, &out->value);
        if (r)
            return r;
        out->narrow = args[out->value].kind == ATTN_KIND_I32;
    }
    return ATTN_OK;
}

/* Fills kernel `n` of an op from the n-th record of `matches` and loads its code. Returns ATTN_OK
 * or an error. */
static int prepare(struct attn_op *op, uint32_t n, const struct attn_matches *matches)
{
    const struct attn_pack *pack = op->device->packs[matches->pack];
    const struct attn_pack_record *record = matches->records[n];
    struct attn_kernel *kernel = &op->kernels[n];
    kernel->number = matches->numbers[n];
    kernel->kernarg_size = record->k->kernarg_size;
    memcpy(kernel->workgroup, record->k->workgroup, sizeof(kernel->workgroup));
    kernel->lds_dynamic = record->k->lds_dynamic;
    int r = translate_kernargs(op->family, pack, record, kernel);
    if (!r)
        r = translate_grid(op->family, pack, record, kernel);
    if (!r)
        r = translate_conditions(op->family, pack, record, kernel);
    if (!r)
        r = attn_device_load(op->device, pack, record, &kernel->module, &kernel->function);
    return r;
}

/* Creates *out, an op for the checked descriptor `desc`, with the kernels of `matches`, and loads
 * their code. Returns ATTN_OK or an error. */
static int create(struct attn_device *device, const struct attn_family *family,
                  const union attn_desc *desc, const struct attn_key *key,
                  const struct attn_matches *matches, struct attn_op **out)
{
    struct attn_op *op = calloc(1, sizeof(*op) + matches->count * sizeof(op->kernels[0]));
    if (!op)
        return attn_fail_fixed(ATTN_NO_MEMORY, "lookup: out of memory");
    op->device = device;
    op->family = family;
    op->desc = *desc;
    op->pack = matches->pack;
    attn_device_ref(device);
    int r = ATTN_OK;
    while (!r && op->kernel_count < matches->count) {
        r = prepare(op, op->kernel_count, matches);
        if (!r)
            op->kernel_count++;
    }
    if (r) {
        attn_op_destroy(op);
        return r;
    }
    attn_explain(key, matches, op->why, sizeof(op->why));
    attn_device_log(device, ATTN_LOG_INFO, "%s: %s (%s)", family->op, matches->records[0]->name,
                    op->why);
    *out = op;
    return ATTN_OK;
}

int attn_lookup(struct attn_device *device, const struct attn_family *family, const void *desc,
                struct attn_op **out)
{
    if (!device || !desc || !out)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "lookup: device, desc or op is NULL");
    char what[48];
    union attn_desc known;
    snprintf(what, sizeof(what), "%s lookup: desc", family->op);
    int r = attn_adopt_named(what, &known, family->desc_size, desc);
    if (r)
        return r;
    if (device->forks != attn_forks())
        return attn_fail_fixed(ATTN_FORKED, "lookup: the device was opened before fork()");
    union attn_desc normal;
    r = family->normalise(&known, &normal);
    if (r)
        return r;
    struct attn_key key;
    key.count = 0;
    family->make_key(&normal, &key);
    struct attn_matches matches;
    r = attn_find_kernels(device, family->op, &key, &matches);
    return r ? r : create(device, family, &normal, &key, &matches, out);
}

ATTN_PUBLIC void attn_op_destroy(struct attn_op *op)
{
    if (!op)
        return;
    for (uint32_t i = 0; i < op->kernel_count; i++)
        attn_device_unload(op->device, op->kernels[i].module);
    attn_device_close(op->device);
    free(op);
}

/* Describes an op and its kernel `kernel` in *info, whose size the caller has set. Returns ATTN_OK
 * or an error. */
static int describe(const struct attn_op *op, const struct attn_kernel *kernel,
                    struct attn_op_info *info)
{
    struct attn_op_info i = {
        .size = sizeof(i),
        .kernel.size = sizeof(i.kernel),
        .kernel_count = op->kernel_count,
        .pack = op->pack,
    };
    int r = attn_pack_kernel(op->device->packs[op->pack], kernel->number, &i.kernel);
    if (r)
        return r;
    memcpy(i.why, op->why, sizeof(i.why));
    attn_give(info, &i, sizeof(i));
    return ATTN_OK;
}

ATTN_PUBLIC int attn_op_describe(const struct attn_op *op, struct attn_op_info *info)
{
    if (!op || !info || !attn_can_give(info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "attn_op_describe: NULL, or info->size is not 16 to 4096");
    return describe(op, &op->kernels[0], info);
}

/* The functions from here on run during a launch. */

/* Marks functions that both attn_launch() and launch_pieces() inline, since a call would be
 * slower. */
#define ON_LAUNCH static inline __attribute__((always_inline))

/* Returns the integer argument `i` (enum attn_arg). If `narrow` is true, it is an int32 and only
 * its low 32 bits are valid. */
static int64_t integer(const union attn_value *values, uint32_t i, bool narrow)
{
    return narrow ? (int32_t)values[i].i64 : values[i].i64;
}

/* True if the arguments meet all conditions of the kernel. */
static bool is_for(const struct attn_kernel *kernel, const union attn_value *values)
{
    const struct attn_condition *c = kernel->conditions;
    for (const struct attn_condition *end = c + kernel->condition_count; c < end; c++) {
        const int64_t value = integer(values, c->value, c->narrow);
        if (value < c->min || value > c->max)
            return false;
    }
    return true;
}

/* Returns the first kernel whose conditions the arguments meet, or NULL. */
static const struct attn_kernel *choose(const struct attn_op *op, const union attn_value *values)
{
    const struct attn_kernel *kernel = op->kernels;
    for (const struct attn_kernel *end = kernel + op->kernel_count; kernel < end; kernel++) {
        if (is_for(kernel, values))
            return kernel;
    }
    return NULL;
}

/* Computes the numbers of workgroups of a launch in x, y and z. Returns false if HIP does not
 * accept the grid. */
ON_LAUNCH bool make_grid(const struct attn_kernel *kernel, const union attn_value *values,
                         uint32_t grid[3])
{
    for (int d = 0; d < 3; d++) {
        uint64_t product = 1;
        const struct attn_factor *f = kernel->factors[d];
        for (const struct attn_factor *end = f + kernel->factor_count[d]; f < end; f++) {
            uint64_t n = f->number;
            if (f->value != ATTN_ARG_COUNT) {
                int64_t value = integer(values, f->value, f->narrow);
                if (value < 0 || value > UINT32_MAX)
                    return false;
                n = (uint64_t)value + f->number - 1;
                n = f->shift == ATTN_NO_SHIFT ? n / f->number : n >> f->shift;
            }
            product *= n; /* no overflow: both factors are below 2^32 */
            if (product > kernel->grid_max[d])
                return false;
        }
        grid[d] = (uint32_t)product;
    }
    return true;
}

/* True if all sequences are about equally long. `total` and `longest` (enum attn_arg) are the
 * arguments with the tokens of all sequences and of the longest. The total is at least 7/8 of the
 * longest times the number of sequences. */
static bool is_even(const union attn_value *values, unsigned total, unsigned longest)
{
    const int64_t places = integer(values, ATTN_ARG_BATCH, true) * integer(values, longest, true);
    return integer(values, total, true) >= places - places / 8;
}

/*
 * Replaces a grid of more than `most` workgroups by `most` workgroups in x, for the persistent
 * scheduler.
 *
 * Each workgroup then has a fixed share of the work. Shares are balanced only if all sequences are
 * about equally long, so other calls keep their grid. If no sequence has more keys than the longest
 * has queries, equal numbers of queries imply equal numbers of keys. ATTN_ARG_WORKGROUPS informs
 * the kernel of the change. `whole` is false for a piece of a call, which keeps its grid. Returns
 * false if the kept grid is larger in y or z than HIP accepts.
 */
ON_LAUNCH bool limit_grid(uint32_t most, union attn_value *values, bool whole, uint32_t grid[3])
{
    const uint64_t layer = (uint64_t)grid[0] * grid[1];
    const bool alone = integer(values, ATTN_ARG_BATCH, true) == 1;
    const bool of_itself = integer(values, ATTN_ARG_MAX_SEQLEN_K, true) <=
                           integer(values, ATTN_ARG_MAX_SEQLEN_Q, true);
    if (layer <= most && layer * grid[2] <= most)
        return true;
    if (!whole || !is_even(values, ATTN_ARG_TOKENS, ATTN_ARG_MAX_SEQLEN_Q) ||
        !(alone || of_itself || is_even(values, ATTN_ARG_TOTAL_K, ATTN_ARG_MAX_SEQLEN_K)))
        return grid[1] <= ATTN_GRID_YZ_MAX && grid[2] <= ATTN_GRID_YZ_MAX;
    values[ATTN_ARG_WORKGROUPS].i64 = most;
    grid[0] = most;
    grid[1] = grid[2] = 1;
    return true;
}

/* Writes the arguments to the kernarg segment `kernargs`, and zeros to its holes. */
ON_LAUNCH void pack_kernargs(const struct attn_kernel *kernel, const union attn_value *values,
                             uint8_t *kernargs)
{
    const struct attn_slot *slot = kernel->wide;
    for (const struct attn_slot *end = slot + kernel->wide_count; slot < end; slot++)
        memcpy(kernargs + slot->offset, &values[slot->value], 8);
    slot = kernel->narrow;
    for (const struct attn_slot *end = slot + kernel->narrow_count; slot < end; slot++)
        memcpy(kernargs + slot->offset, &values[slot->value], 4);
    for (uint32_t i = 0; i < kernel->hole_count; i++)
        memset(kernargs + kernel->holes[i], 0, 4);
}

/* The result of launch() if the grid is larger than HIP accepts; no enum attn_status. */
enum { GRID_TOO_LARGE = 1 };

/* Launches a kernel with the arguments in `call`. `whole` is false for a piece of a call. Returns
 * ATTN_OK, an error, or GRID_TOO_LARGE without a launch. */
static inline __attribute__((always_inline)) int launch(const struct attn_op *op,
                                                        const struct attn_kernel *kernel,
                                                        struct attn_call *call, bool whole)
{
    uint32_t grid[3];
    if (!make_grid(kernel, call->values, grid))
        return GRID_TOO_LARGE;
    if (!grid[0] || !grid[1] || !grid[2])
        return ATTN_OK;
    if (kernel->workgroups_most && !limit_grid(kernel->workgroups_most, call->values, whole, grid))
        return GRID_TOO_LARGE;
    union {
        uint8_t bytes[ATTN_PACK_KERNARG_BYTES_MAX];
        uint64_t align;
    } kernargs;
    size_t size = kernel->kernarg_size;
    pack_kernargs(kernel, call->values, kernargs.bytes);
    void *extra[] = {
        HIP_LAUNCH_BUFFER_POINTER, kernargs.bytes, HIP_LAUNCH_BUFFER_SIZE, &size, HIP_LAUNCH_END,
    };
    int error = op->device->hip.hipModuleLaunchKernel(
        kernel->function, grid[0], grid[1], grid[2], kernel->workgroup[0], kernel->workgroup[1],
        kernel->workgroup[2], kernel->lds_dynamic, call->stream, NULL, extra);
    return error ? attn_hip_fail(&op->device->hip, "hipModuleLaunchKernel", error) : ATTN_OK;
}

/* Launches a call whose grid is too large in pieces, one after the other. Returns ATTN_OK or an
 * error. */
__attribute__((cold, noinline)) static int launch_pieces(const struct attn_op *op,
                                                         const struct attn_kernel *kernel,
                                                         const void *args, struct attn_call *call)
{
    const struct attn_split *const split = &op->family->split;
    const int64_t most = split->each ? ATTN_GRID_YZ_MAX / split->each : INT32_MAX;
    union attn_value *const count = &call->values[split->count];
    int64_t left = integer(call->values, split->count, true);
    int r = left > most ? ATTN_OK : GRID_TOO_LARGE;
    for (bool first = true; !r && left > 0; first = false, left -= most) {
        if (!first)
            split->skip(&op->desc, args, most, call->values);
        count->i64 = left < most ? left : most;
        r = launch(op, kernel, call, false);
    }
    return r == GRID_TOO_LARGE
               ? attn_fail_fixed(ATTN_BAD_ARGUMENT,
                                 "launch: the grid is larger than HIP takes: more than 2^32 work "
                                 "items, 2^31 - 1 workgroups in x, or 65,536 in y or z")
               : r;
}

/* Copies the argument struct of a caller that was built with other headers to `known`. Returns
 * ATTN_OK or ATTN_BAD_ARGUMENT. */
static int adopt_args(const struct attn_op *op, const void *given, union attn_args *known)
{
    return attn_adopt_named("launch: args", known, op->family->args_size, given);
}

/* Returns ATTN_NO_KERNEL with a message that no kernel of the op is for the arguments. */
static int no_kernel(void)
{
    return attn_fail_fixed(ATTN_NO_KERNEL,
                           "launch: no kernel of the op is meant for these arguments");
}

/* Launches a call whose argument struct has another size than the library's. Returns ATTN_OK or an
 * error. */
__attribute__((cold, noinline)) static int launch_other(const struct attn_op *op,
                                                        const struct attn_family *family,
                                                        const void *given)
{
    union attn_args known;
    const int r = adopt_args(op, given, &known);
    return r ? r : attn_launch(op, family, &known);
}

int attn_launch(const struct attn_op *op, const struct attn_family *family, const void *given)
{
    if (!op || !given || op->family != family)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "launch: op or args is NULL, or the op is of another family");
    if (*(const size_t *)given != family->args_size)
        return launch_other(op, family, given);
    if (op->device->forks != attn_forks())
        return attn_fail_fixed(ATTN_FORKED, "launch: the device was opened before fork()");
    struct attn_call call;
    int r = family->fill(&op->desc, given, &call);
    if (r || call.empty)
        return r;
    if (op->device->flags & ATTN_CHECK_DATA) {
        r = family->check_data(op, given);
        if (r)
            return r;
    }
    const struct attn_kernel *kernel = choose(op, call.values);
    if (!kernel)
        return no_kernel();
    r = launch(op, kernel, &call, true);
    return r == GRID_TOO_LARGE ? launch_pieces(op, kernel, given, &call) : r;
}

/* Appends to `why` which of several kernels a call chooses, and by which conditions: "; row 1 of 3:
 * max_seqlen_q 64 is 1 to 64". */
static void explain_choice(const struct attn_op *op, const struct attn_kernel *kernel,
                           const union attn_value *values, char *why, size_t size)
{
    if (op->kernel_count == 1)
        return;
    size_t used = strlen(why);
    used += snprintf(why + used, size - used, "; row %d of %u", (int)(kernel - op->kernels) + 1,
                     op->kernel_count);
    for (uint32_t i = 0; i < kernel->condition_count && used < size; i++) {
        const struct attn_condition *c = &kernel->conditions[i];
        used += snprintf(why + used, size - used, "%s %s %lld is %lld to %lld", i ? "," : ":",
                         arg_name(c->value), (long long)integer(values, c->value, c->narrow),
                         (long long)c->min, (long long)c->max);
    }
}

ATTN_PUBLIC __attribute__((cold)) int attn_op_describe_launch(const struct attn_op *op,
                                                              const void *given,
                                                              struct attn_op_info *info)
{
    if (!op || !given || !info || !attn_can_give(info))
        return attn_fail_fixed(ATTN_BAD_ARGUMENT,
                               "attn_op_describe_launch: NULL, or info->size is not 16 to 4096");
    union attn_args args;
    int r = adopt_args(op, given, &args);
    if (r)
        return r;
    struct attn_call call;
    r = op->family->fill(&op->desc, &args, &call);
    if (r)
        return r;
    const struct attn_kernel *kernel = call.empty ? &op->kernels[0] : choose(op, call.values);
    if (!kernel)
        return no_kernel();
    struct attn_op_info i = {.size = sizeof(i)};
    r = describe(op, kernel, &i);
    if (!r && !call.empty)
        explain_choice(op, kernel, call.values, i.why, sizeof(i.why));
    if (!r)
        attn_give(info, &i, sizeof(i));
    return r;
}
