/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks DLPack tensors against the tensors in an op's schema, and copies their pointers, strides
 * and counts to the op's argument struct.
 */
#include <dlpack/dlpack.h>
#include <stdio.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/error.h"
#include "runtime/op.h"
#include "runtime/tensors.h"

/* The counts and shared strides that the tensors of a call have determined so far. */
struct binding {
    int ordinal; /* HIP's number of the op's GPU */
    struct {
        const void *where; /* address of the count or stride in the argument struct */
        int64_t value;
        const char *name; /* name of the tensor that set the value */
    } numbers[ATTN_NUMBERS_MAX];
    int count;
};

/* Returns the DLPack type of an element type of libattn. ATTN_FP8 is the e4m3 variant that the GPU
 * has. DLPack distinguishes the two variants and HIP does not, so such tensors are passed as
 * bytes. */
static DLDataType element_type(int element)
{
    switch (element) {
    case ATTN_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case ATTN_FP16: return (DLDataType){kDLFloat, 16, 1};
    case ATTN_FP8: return (DLDataType){kDLUInt, 8, 1};
    case ATTN_F32: return (DLDataType){kDLFloat, 32, 1};
    case ATTN_I32: return (DLDataType){kDLInt, 32, 1};
    case ATTN_I64: return (DLDataType){kDLInt, 64, 1};
    case ATTN_U8: return (DLDataType){kDLUInt, 8, 1};
    default: return (DLDataType){kDLInt, 8, 1};
    }
}

/* A type code of DLPack 1.0 that older headers lack. */
enum { CODE_BOOL = 6 };

/* The first type code of DLPack whose name includes the width in bits: float8_e3m4. */
enum { CODE_FLOAT8 = 7 };

/* Returns the name of a type code of DLPack, without width. */
static const char *code_name(unsigned code)
{
    static const char *const names[] = {
        "int",
        "uint",
        "float",
        "opaque handle",
        "bfloat",
        "complex",
        "bool",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    };
    return code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown type";
}

/* Writes the name that numpy and torch have for a type to `text` of `size` bytes: "int64",
 * "bfloat16", "bool". */
static void name_type(DLDataType t, char *text, size_t size)
{
    const bool plain = t.code == CODE_BOOL ? t.bits == 8 : t.code >= CODE_FLOAT8;
    int n = snprintf(text, size, "%s", code_name(t.code));
    if (!plain)
        n += snprintf(text + n, size - (size_t)n, "%u", t.bits);
    if (t.lanes != 1)
        snprintf(text + n, size - (size_t)n, " in vectors of %u", t.lanes);
}

/* Checks the element type of the tensor `given` for argument `t`. A bool tensor may be given for
 * bytes. */
static int check_type(const struct attn_tensor *t, const DLTensor *given)
{
    const DLDataType is = given->dtype, wanted = element_type(t->element);
    const bool byte = t->element == ATTN_U8 && is.code == CODE_BOOL;
    if ((is.code == wanted.code || byte) && is.bits == wanted.bits && is.lanes == 1)
        return ATTN_OK;
    char is_name[64], wanted_name[64];
    name_type(is, is_name, sizeof(is_name));
    name_type(wanted, wanted_name, sizeof(wanted_name));
    return attn_fail(ATTN_BAD_ARGUMENT, "%s is of %s; %s is needed", t->name, is_name, wanted_name);
}

/* Checks that the tensor `given` is on the GPU with HIP's number `ordinal`. ROCm builds of
 * frameworks may use ROCm's device type or CUDA's. */
static int check_device(const struct attn_tensor *t, const DLTensor *given, int ordinal)
{
    const int type = (int)given->device.device_type;
    if (type != kDLROCM && type != kDLCUDA)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is on a device of DLPack's type %d, not on a GPU",
                         t->name, type);
    if (given->device.device_id != ordinal)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is on GPU %d, the op on GPU %d", t->name,
                         given->device.device_id, ordinal);
    return ATTN_OK;
}

/* Returns the stride in elements that the dimension would have in a contiguous tensor of this
 * shape. */
static int64_t dense_stride(const DLTensor *t, int dimension)
{
    int64_t n = 1;
    for (int d = dimension + 1; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

/* Returns the stride of a dimension in elements. A DLPack tensor without strides is contiguous. */
static int64_t stride(const DLTensor *t, int dimension)
{
    return t->strides ? t->strides[dimension] : dense_stride(t, dimension);
}

/* Returns the value recorded for the count or stride at `where`, an address in the arguments. If
 * there is none, records `value`, with `name` as the tensor that set it, and returns it. */
static int64_t settle(struct binding *b, const void *where, int64_t value, const char *name)
{
    for (int i = 0; i < b->count; i++) {
        if (b->numbers[i].where == where)
            return b->numbers[i].value;
    }
    if (b->count < ATTN_NUMBERS_MAX) {
        b->numbers[b->count].where = where;
        b->numbers[b->count].name = name;
        b->numbers[b->count++].value = value;
    }
    return value;
}

/* Returns the name of the tensor that set the value recorded for `where`, which must exist. */
static const char *setter(const struct binding *b, const void *where)
{
    int i = 0;
    while (b->numbers[i].where != where)
        i++;
    return b->numbers[i].name;
}

/* Checks the size of dimension `d` of the tensor `given` for argument `t`. If the size determines a
 * count of the call, records the count in `b`, or compares it with the recorded one. */
static int check_dimension(struct binding *b, const struct attn_tensor *t, const DLTensor *given,
                           int d)
{
    const struct attn_dimension *wanted = &t->dims[d];
    const int64_t is = given->shape[d];
    int64_t needed = wanted->more;
    if (is < 0)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld", t->name, d, (long long)is);
    if (t->shared && d == 0 && is == 1)
        return ATTN_OK;
    if (!wanted->count && wanted->more < 0)
        return ATTN_OK; /* any size: kernels have 64-bit addresses */
    if (wanted->count && is - wanted->more > INT32_MAX)
        return attn_fail(ATTN_BAD_ARGUMENT,
                         "%s: dimension %d is %lld, at most %lld is served: a call counts in int32",
                         t->name, d, (long long)is, INT32_MAX + (long long)wanted->more);
    if (wanted->count && is < wanted->more)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s has no element", t->name);
    if (wanted->count && is - wanted->more < wanted->least)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld, at least %lld is needed",
                         t->name, d, (long long)is, (long long)(wanted->more + wanted->least));
    if (wanted->count)
        needed = settle(b, wanted->count, is - wanted->more, t->name) + wanted->more;
    if (is == needed)
        return ATTN_OK;
    return attn_fail(ATTN_BAD_ARGUMENT, "%s: dimension %d is %lld, %lld is needed", t->name, d,
                     (long long)is, (long long)needed);
}

/* True if the tensor has no elements; its strides are then arbitrary. */
static bool is_empty(const DLTensor *t)
{
    for (int d = 0; d < t->ndim; d++) {
        if (!t->shape[d])
            return true;
    }
    return false;
}

/*
 * Returns the stride of a dimension for the argument struct, in elements. It is 0, which means
 * contiguous, for tensors without elements and for dimensions of one element: numpy and PyTorch
 * give such strides arbitrary values.
 */
static int64_t stride_of(const DLTensor *t, int dimension)
{
    return is_empty(t) || t->shape[dimension] == 1 ? 0 : stride(t, dimension);
}

/* Checks that the kernel can read the tensor `given` for argument `t` with its strides. Strides
 * that arguments share are recorded in `b`. */
static int check_strides(struct binding *b, const struct attn_tensor *t, const DLTensor *given)
{
    if (is_empty(given))
        return ATTN_OK;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t is = stride_of(given, d), dense = dense_stride(given, d);
        if (given->shape[d] <= 1 && !t->shared)
            continue;
        if (is == 0 && !t->shared) /* 0 means contiguous in the argument structs */
            return attn_fail(ATTN_BAD_ARGUMENT, "%s is expanded: dimension %d has stride 0",
                             t->name, d);
        if (d >= t->free && is != dense)
            return attn_fail(ATTN_BAD_ARGUMENT, "%s: its %s dimension has stride %lld, not %lld",
                             t->name, d == t->ndim - 1 ? "last" : "inner", (long long)is,
                             (long long)dense);
        if (d < t->free && t->strides[d] && settle(b, t->strides[d], is, t->name) != is)
            return attn_fail(ATTN_BAD_ARGUMENT, "%s and %s have different strides",
                             setter(b, t->strides[d]), t->name);
    }
    return ATTN_OK;
}

/* Checks the tensor `given` for argument `t`: presence, element type, device, number of dimensions,
 * sizes and strides. NULL: not given. */
static int check(struct binding *b, const struct attn_tensor *t, const DLTensor *given)
{
    if (!t->needed || (t->optional && !given))
        return ATTN_OK;
    if (!given)
        return attn_fail(ATTN_BAD_ARGUMENT, "%s is NULL", t->name);
    int r = check_type(t, given);
    if (!r)
        r = check_device(t, given, b->ordinal);
    if (!r && given->ndim != t->ndim)
        r = attn_fail(ATTN_BAD_ARGUMENT, "%s has %d dimensions, %d are needed", t->name,
                      given->ndim, t->ndim);
    for (int d = 0; !r && d < t->ndim; d++)
        r = check_dimension(b, t, given, d);
    return r ? r : check_strides(b, t, given);
}

/* Writes the address and strides of a checked tensor, and the counts that its sizes determine, to
 * the argument struct. */
static void take(const struct binding *b, const struct attn_tensor *t, const DLTensor *given)
{
    if (!t->needed)
        return;
    void *address = given ? (char *)given->data + given->byte_offset : NULL;
    memcpy(t->pointer, &address, sizeof(address));
    for (int d = 0; given && d < t->ndim; d++) {
        if (d < t->free && t->strides[d])
            *t->strides[d] = stride_of(given, d);
        for (int i = 0; t->dims[d].count && i < b->count; i++) {
            if (b->numbers[i].where == t->dims[d].count)
                *t->dims[d].count = (int32_t)b->numbers[i].value;
        }
    }
}

int attn_set_tensors(const struct attn_op *op, const struct attn_family *family,
                     const void *tensors, size_t size, void *args)
{
    if (!op || !tensors || !args || op->family != family)
        return attn_fail_fixed(ATTN_BAD_ARGUMENT, "set_tensors: NULL, or an op of another family");
    struct {
        size_t size;
        const DLTensor *given[ATTN_TENSORS_MAX];
    } known;
    union attn_args known_args;
    int r = attn_adopt_named("set_tensors: tensors", &known, size, tensors);
    if (!r)
        r = attn_adopt_named("set_tensors: args", &known_args, family->args_size, args);
    if (r)
        return r;
    struct attn_tensor t[ATTN_TENSORS_MAX];
    const unsigned count = family->tensors(&op->desc, &known_args, t);
    struct binding b = {.ordinal = op->device->ordinal};
    for (unsigned i = 0; i < count; i++) {
        r = check(&b, &t[i], known.given[i]);
        if (r)
            return r;
    }
    for (unsigned i = 0; i < count; i++)
        take(&b, &t[i], known.given[i]);
    attn_give(args, &known_args, family->args_size);
    return ATTN_OK;
}
