/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets every member of every descriptor and argument struct in the schemas to extreme values.
 * libattn must refuse the call with a sentence, or a kernel must get sound values. Sound means:
 * pointers are aligned, no stride is negative, rows of an output do not coincide, and the last
 * element is less than 2^62 bytes away.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlpack/dlpack.h>
#include <float.h>
#include <math.h>

#include "attn_dlpack.h"
#include "runtime/device.h"
#include "runtime/op.h"
#include "runtime/tensors.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum kind { I32, I64, F32, BOOL, ENUM, TEXT, PTR };
enum half { DESC, ARGS };

static const struct row {
    const char *op, *path;
    enum half half;
    enum kind kind;
    size_t offset;
} members[] = {
#define desc DESC
#define args ARGS
#define STRUCT_desc(op) struct attn_##op##_desc
#define STRUCT_args(op) struct attn_##op##_args
#define MEMBER(op_, half_, path_, kind_) \
    {#op_, #path_, half_, kind_, offsetof(STRUCT_##half_(op_), path_)},
#include "op_members.def"
#undef desc
#undef args
};

enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

static const struct attn_family *const families[] = {
#define OP(name) &attn_family_##name,
#include "ops/ops.def"
};

static _Alignas(64) char memory[256];

union call {
    size_t size;
    char bytes[1024];
};

static void put(char *at, enum kind kind, int64_t i, double f, const void *p)
{
    const int32_t narrow = (int32_t)i;
    const float single = (float)f;
    switch (kind) {
    case I64: memcpy(at, &i, sizeof(i)); break;
    case F32: memcpy(at, &single, sizeof(single)); break;
    case BOOL: *at = (char)(i & 1); break;
    case TEXT:
    case PTR: memcpy(at, &p, sizeof(p)); break;
    default: memcpy(at, &narrow, sizeof(narrow));
    }
}

/* The values of members in a valid call. Enums and strides without a row are 0. */
static const struct {
    const char *path;
    int value;
    const char *op; /* name of the op; NULL: every op without an earlier row of its own */
} plain[] = {
    {"head_dim", 576, "mla_decode"},
    {"head_dim_v", 512, "mla_decode"},
    {"cache.scale", ATTN_KV_SCALE_TENSOR, "mla_decode"},
    {"slots", 0, "indexer_topk"},
    {"block_size", 8, "indexer_topk"},
    {"top_blocks", 0, "indexer_topk"},
    {"planned", 0, "indexer_topk"},
    {"planned", 0, "prefill"},
    {"one_launch", 0, "prefill"},
    {"splits", 1, "topk"},
    {"first_blocks", 0, "indexer_topk"},
    {"last_blocks", 0, "indexer_topk"},
    {"small_pages", 0, NULL},
    {"sharded", 0, NULL},
    {"two_sources", 0, NULL},
    {"same_rows", 0, NULL},
    {"shape.unit_keys", 0, NULL},
    {"page_size", 32, "indexer_topk"},
    {"page_size", 32, "indexer_logits"},
    {"page_stride", 132 * 32, "indexer_topk"},
    {"page_stride", 132 * 32, "indexer_logits"},
    {"page_stride", 132 * 16, "indexer_rope_cache"},
    {"page_stride", 132 * 16, "indexer_gather"},
    {"head_dim", 576, "mla_rope_cache"},
    {"head_dim_v", 512, "mla_rope_cache"},
    {"cache.scale", ATTN_KV_SCALE_TENSOR, "mla_rope_cache"},
    {"norm", ATTN_NORM_RMS, "mla_rope_cache"},
    {"width", 1536, "qk_rmsnorm"},
    {"norm", ATTN_NORM_RMS, "compress"},
    {"product_dim", 0, NULL},
    {"block_tokens", 64, NULL},
    {"kv_heads", 1, "chosen_lists"},
    {"kv_heads", 1, "shared_lists"},
    {"mask_stride", 1 << 28, "shared_lists"},
    {"ratio", 64, "shared_lists"},
    {"group_entries", 16, "shared_lists"},
    {"open_group", 0, "chosen_lists"},
    {"norm", ATTN_NORM_RMS, "rope_heads"},
    {"act", ATTN_ACT_SIGMOID, "rope_heads"},
    {"rotary_first", 64, "rope_heads"},
    {"norm", ATTN_NORM_RMS, "rope_decode"},
    {"row_dtype", ATTN_FP8, "compress"},
    {"ring", 8, "compress"},
    {"rotary_first", 64, "compress"},
    {"page_stride", 132 * 16, "compress"},
    {"act", ATTN_ACT_SILU, "conv1d"},
    {"act", ATTN_ACT_SILU, "gated_delta_step"},
    {"channels", 192, "conv1d"},
    {"value_heads", 16, NULL},
    {"act", ATTN_ACT_SILU, "ssd"},
    {"state_steps", 4, "ssd"},
    {"gates", ATTN_GATES_SOFTPLUS, "gated_delta"},
    {"state_steps", 4, "gated_delta"},
    {"gates", ATTN_GATES_SOFTPLUS, "gated_delta_prefill"},
    {"segment_tokens", 0, NULL},
    {"q_channels", 64, "conv1d"},
    {"k_channels", 64, "conv1d"},
    {"out_channels", 64, "conv1d"},
    {"state_columns", 8, "conv1d"},
    {"first_slot", 0, NULL},
    {"replay", 0, NULL},
    {"tree", 0, NULL},
    {"drafts", 0, NULL},
    {"max_seqlen", 4, "gated_delta_step"},
    {"state_steps", 4, "gated_delta_step"},
    {"window_steps", 4, NULL},
    {"record_steps", 4, NULL},
    {"max_bytes", 64, "state_copy"},
    {"taps", 4, "conv1d"},
    {"width", 128, "gated_rmsnorm"},
    {"act", ATTN_ACT_SILU, "gated_rmsnorm"},
    {"width_kv", 512, "qk_rmsnorm"},
    {"dtype", ATTN_BF16, NULL},
    {"cache.dtype", ATTN_FP8, NULL},
    {"cache.scale", ATTN_KV_SCALE_TOKEN, NULL},
    {"head_dim", 128, NULL},
    {"head_dim_v", 128, NULL},
    {"cache.page_size", 16, NULL},
    {"page_size", 16, NULL},
    {"heads", 8, NULL},
    {"kv_heads", 2, NULL},
    {"shape.heads", 8, NULL},
    {"rotary_dim", 64, NULL},
    {"rope", ATTN_ROPE_NEOX, NULL},
    {"norm", ATTN_NORM_FULL, NULL},
    {"q_len", 2, NULL},
    {"kind", ATTN_METADATA_KV_INDICES, NULL},
    {"tokens", 6, NULL},
    {"table_of_slots", 0, NULL},
    {"q_out_dtype", ATTN_FP8, NULL},
    {"out_dtype", ATTN_FP8, NULL},
    {"sections[0]", 8, NULL},
    {"sections[1]", 8, NULL},
    {"sections[2]", 16, NULL},
    {"mrope", ATTN_MROPE_SECTIONS, NULL},
};

static int64_t plain_value(const struct row *r)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (!strcmp(plain[i].path, r->path) && (!plain[i].op || !strcmp(plain[i].op, r->op)))
            return plain[i].value;
    }
    if (r->kind == BOOL)
        return strcmp(r->path, "paged") && strcmp(r->path, "cos_sin_short");
    return r->kind == I32 ? 3 : 0;
}

static void make(const struct attn_family *family, unsigned variant, union call *d, union call *a)
{
    memset(d, 0, sizeof(*d));
    memset(a, 0, sizeof(*a));
    d->size = family->desc_size;
    a->size = family->args_size;
    for (int i = 0; i < MEMBERS; i++) {
        const struct row *r = &members[i];
        if (strcmp(r->op, family->op))
            continue;
        int64_t value = plain_value(r);
        if (r->kind == ENUM && (!strcmp(r->path, "partials") || !strcmp(r->path, "kind") ||
                                !strcmp(r->path, "page_table")))
            value = variant;
        if (!strcmp(r->path, "paged"))
            value = variant & 1;
        put((r->half == DESC ? d : a)->bytes + r->offset, r->kind, value, 1,
            r->kind == TEXT ? NULL : memory);
    }
    if (!strcmp(family->op, "plan"))
        ((struct attn_plan_args *)(void *)a)->shape.size = sizeof(struct attn_decode_plan_shape);
    if (!strcmp(family->op, "plan"))
        ((struct attn_plan_args *)(void *)a)->shape.kv_heads = 2;
}

static int element_bytes(int element)
{
    static const int bytes[] = {
        [ATTN_F32] = 4,
        [ATTN_I32] = 4,
        [ATTN_I64] = 8,
        [ATTN_U8] = 1,
    };
    return element <= ATTN_INT8 ? attn_dtype_size(element) : bytes[element];
}

static bool sound_tensor(const struct attn_tensor *t)
{
    const char *p;
    memcpy(&p, t->pointer, sizeof(p));
    if (!t->needed || (t->optional && !p))
        return true;
    if (!p || (uintptr_t)p % (unsigned)(t->vector * element_bytes(t->element)))
        return false;
    long double last = 0, dense = 1;
    for (int i = t->ndim; i-- > 0;) {
        const int64_t count =
            t->dims[i].count ? *t->dims[i].count + t->dims[i].more : t->dims[i].more;
        const int64_t given = i < t->free && t->strides[i] ? *t->strides[i] : 0;
        const long double stride = given && count > 1 ? (long double)given : dense;
        if (stride < 0 || (t->written && i < t->free && count > 1 && stride < 1))
            return false;
        last += count > 0 ? stride * (long double)(count - 1) : 0;
        dense = count > 0 ? stride * (long double)count : dense;
    }
    return last * element_bytes(t->element) < 0x1p62L;
}

static bool sets(const struct attn_family *family, enum attn_arg value)
{
    for (unsigned i = 0; i < family->arg_count; i++) {
        if (family->args[i] == value)
            return true;
    }
    return false;
}

/* Checks that libattn refuses the call with a sentence, or accepts it with sound values. */
static void answer(const struct attn_family *family, const union call *d, union call *a,
                   const char *what, long long value)
{
    union attn_desc normal;
    struct attn_call call;
    memset(&call, 0, sizeof(call));
    int r = family->normalise(d, &normal);
    struct attn_key key = {.count = 0};
    if (!r) {
        family->make_key(&normal, &key);
        r = family->fill(&normal, a, &call);
    }
    if (r) {
        assert_int_equal(r, ATTN_BAD_ARGUMENT);
        assert_true(strlen(attn_last_error()) > 12);
        return;
    }
    static const enum attn_arg finite[] = {ATTN_ARG_SCALE, ATTN_ARG_SCALE_LOG2, ATTN_ARG_EPS};
    for (size_t i = 0; i < sizeof(finite) / sizeof(finite[0]); i++)
        assert_true(call.empty || !sets(family, finite[i]) || isfinite(call.values[finite[i]].f32));
    struct attn_tensor t[ATTN_TENSORS_MAX];
    const unsigned count = call.empty ? 0 : family->tensors(&normal, a, t);
    assert_true(count <= ATTN_TENSORS_MAX);
    for (unsigned i = 0; i < count; i++) {
        if (!sound_tensor(&t[i]))
            fail_msg("%s: %s = %lld is taken, and %s is unsound", family->op, what, value,
                     t[i].name);
    }
}

static const int64_t integers[] = {
    0,
    1,
    -1,
    2,
    7,
    INT32_MAX,
    INT32_MIN,
    INT32_MAX - 1,
    1 << 30,
    1 << 16,
    1 << 20,
    INT64_C(1) << 31,
    INT64_MAX,
    INT64_MIN,
    INT64_C(1) << 32,
    (INT64_C(1) << 40) + 8,
    8,
    INT64_MAX - 7,
};
static const double numbers[] = {0, -0.0, -1, 1e30, FLT_MAX, -FLT_MAX};

static void drive(const struct attn_family *family, unsigned variant, const struct row *r)
{
    union call d, a;
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        make(family, variant, &d, &a);
        const char *p = (uint64_t)integers[i] < 256 ? memory + integers[i] : NULL;
        if (r->kind == TEXT)
            p = i % 2 ? "a_hook" : NULL;
        const double number = i == 0   ? NAN
                              : i == 1 ? INFINITY
                              : i == 2 ? -INFINITY
                                       : numbers[i % 6];
        put((r->half == DESC ? &d : &a)->bytes + r->offset, r->kind, integers[i], number, p);
        answer(family, &d, &a, r->path, (long long)integers[i]);
    }
}

/* Sets member r of the descriptor d or the arguments a to the n-th extreme value; a pointer becomes
 * an odd address. Returns the integer among these values, for messages. */
static long long disturb(const struct row *r, unsigned n, union call *d, union call *a)
{
    static const size_t count = sizeof(integers) / sizeof(integers[0]);
    const int64_t value = integers[n % count];
    const char *p = memory + (value > 0 && value < 256 ? value : 0);
    if (r->kind == TEXT)
        p = n % 2 ? "a_hook" : NULL;
    put((r->half == DESC ? d : a)->bytes + r->offset, r->kind, value, numbers[n % 6], p);
    return (long long)value;
}

/* Returns the n-th member of an op, modulo their number. */
static const struct row *member(const struct attn_family *family, unsigned n)
{
    int first = 0, count = 0;
    for (int i = MEMBERS; i-- > 0;) {
        if (!strcmp(members[i].op, family->op)) {
            first = i;
            count++;
        }
    }
    return &members[first + (int)(n % (unsigned)count)];
}

/* Sets two members, each at most to its own limit: products of a count and a stride, or of heads
 * and a dimension, become extreme. No pointer is NULL, since libattn ignores the strides of
 * missing tensors. */
TEST(two_members_at_once_are_refused_or_sound)
{
    uint64_t random = 1;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        for (int i = 0; i < 3000; i++) {
            union call d, a;
            unsigned n[5];
            for (int k = 0; k < 5; k++) {
                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                n[k] = (unsigned)(random >> 33);
            }
            const struct row *r[2] = {member(families[f], n[0]), member(families[f], n[1])};
            make(families[f], n[2] % 5, &d, &a);
            char what[128];
            long long value = 0;
            snprintf(what, sizeof(what), "%s with %s", r[0]->path, r[1]->path);
            for (int k = 0; k < 2; k++)
                value = disturb(r[k], n[3 + k], &d, &a);
            answer(families[f], &d, &a, what, value);
        }
    }
}

TEST(plain_calls_are_taken)
{
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        union call d, a;
        union attn_desc normal;
        static struct attn_call call;
        make(families[f], 0, &d, &a);
        int r = families[f]->normalise(&d, &normal);
        if (!r)
            r = families[f]->fill(&normal, &a, &call);
        if (r)
            fail_msg("%s", attn_last_error());
        assert_false(call.empty);
    }
}

TEST(every_member_at_its_extremes_is_refused_or_sound)
{
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        for (unsigned variant = 0; variant < 5; variant++) {
            for (int i = 0; i < MEMBERS; i++) {
                if (!strcmp(members[i].op, families[f]->op))
                    drive(families[f], variant, &members[i]);
            }
        }
    }
}

/* ---- DLPack: for every op, the tensors of a valid call give its pointers, strides and counts
 * ---- */

struct given {
    size_t size;
    const DLTensor *tensors[ATTN_TENSORS_MAX];
};

static DLDataType type_of(int element)
{
    static const DLDataType types[] = {
        [ATTN_BF16] = {kDLBfloat, 16, 1}, [ATTN_FP16] = {kDLFloat, 16, 1},
        [ATTN_FP8] = {kDLUInt, 8, 1},     [ATTN_INT8] = {kDLInt, 8, 1},
        [ATTN_F32] = {kDLFloat, 32, 1},   [ATTN_I32] = {kDLInt, 32, 1},
        [ATTN_I64] = {kDLInt, 64, 1},     [ATTN_U8] = {kDLUInt, 8, 1},
    };
    return types[element];
}

static void describe(const struct attn_tensor *t, DLTensor *to, int64_t *shape)
{
    for (int i = 0; i < t->ndim; i++) {
        const int64_t more = t->dims[i].more;
        shape[i] = t->dims[i].count ? *t->dims[i].count + more : more < 0 ? 5 : more;
    }
    *to = (DLTensor){
        .data = memory,
        .device = {kDLROCM, 0},
        .ndim = t->ndim,
        .dtype = type_of(t->element),
        .shape = shape,
    };
}

/* Adds an address to a set, which has `count`. Returns the new number. */
static unsigned add_address(const void **set, unsigned count, const void *address)
{
    for (unsigned i = 0; i < count; i++) {
        if (set[i] == address)
            return count;
    }
    set[count] = address;
    return count + !!address;
}

/* Checks that a binding has room for all counts and strides of an op. */
static void check_numbers(const struct attn_family *family, const struct attn_tensor *t,
                          unsigned count)
{
    const void *set[2 * ATTN_DIMENSIONS_MAX * ATTN_TENSORS_MAX + 1];
    unsigned numbers = 0;
    for (unsigned i = 0; i < count; i++) {
        for (int d = 0; d < t[i].ndim; d++) {
            numbers = add_address(set, numbers, t[i].dims[d].count);
            numbers = add_address(set, numbers, d < t[i].free ? t[i].strides[d] : NULL);
        }
    }
    if (numbers > ATTN_NUMBERS_MAX)
        fail_msg("%s: tensors have %u counts and strides", family->op, numbers);
}

static void bind_all(const struct attn_family *family, unsigned variant)
{
    union call d, a;
    static struct attn_call call;
    struct attn_device device = {.ordinal = 0};
    struct attn_op op = {.device = &device, .family = family};
    make(family, variant, &d, &a);
    if (family->normalise(&d, &op.desc))
        return;
    struct attn_tensor t[ATTN_TENSORS_MAX];
    DLTensor tensors[ATTN_TENSORS_MAX];
    int64_t shapes[ATTN_TENSORS_MAX][ATTN_DIMENSIONS_MAX];
    const unsigned count = family->tensors(&op.desc, &a, t);
    check_numbers(family, t, count);
    struct given given = {.size = sizeof(size_t) + count * sizeof(given.tensors[0])};
    for (unsigned i = 0; i < count; i++) {
        describe(&t[i], &tensors[i], shapes[i]);
        given.tensors[i] = t[i].needed ? &tensors[i] : NULL;
    }
    const void *const none = NULL;
    for (unsigned i = 0; i < count; i++)
        memcpy(t[i].pointer, &none, sizeof(none));
    if (attn_set_tensors(&op, family, &given, given.size, &a))
        fail_msg("%s: %s", family->op, attn_last_error());
    for (unsigned i = 0; i < count; i++) {
        const void *pointer;
        memcpy(&pointer, t[i].pointer, sizeof(pointer));
        if (pointer != (t[i].needed ? memory : NULL))
            fail_msg("%s: %s is not bound", family->op, t[i].name);
    }
    assert_int_equal(family->fill(&op.desc, &a, &call), ATTN_OK);
    for (unsigned i = 0; i < count; i++) {
        if (!t[i].needed || t[i].optional)
            continue;
        tensors[i].dtype.bits += 1;
        assert_int_equal(attn_set_tensors(&op, family, &given, given.size, &a), ATTN_BAD_ARGUMENT);
        says(t[i].name);
        tensors[i].dtype.bits -= 1;
        tensors[i].ndim++;
        assert_int_equal(attn_set_tensors(&op, family, &given, given.size, &a), ATTN_BAD_ARGUMENT);
        says(t[i].name);
        tensors[i].ndim--;
    }
}

TEST(tensors_of_every_op_are_bound)
{
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        for (unsigned variant = 0; variant < 2; variant++)
            bind_all(families[f], variant);
    }
}

/* Parts of 0 must not become the default of 1: the tensor has no element for that part. */
TEST(zero_parts_are_not_replaced_by_the_default)
{
    struct attn_device device = {.ordinal = 0};
    struct attn_op *op = calloc(1, sizeof(*op));
    const struct attn_topk_desc d = {.size = sizeof(d), .top_k = 64};
    op->device = &device;
    op->family = &attn_family_topk;
    assert_int_equal(attn_family_topk.normalise(&d, &op->desc), ATTN_OK);
    int64_t rows[] = {2, 500}, parts[] = {2, 0, 64};
    DLTensor scores = {.data = memory,
                       .device = {kDLROCM, 0},
                       .ndim = 2,
                       .dtype = {kDLFloat, 32, 1},
                       .shape = rows};
    DLTensor indices = {.data = memory,
                        .device = {kDLROCM, 0},
                        .ndim = 3,
                        .dtype = {kDLInt, 32, 1},
                        .shape = parts};
    const struct attn_topk_tensors t = {.size = sizeof(t), .scores = &scores, .indices = &indices};
    struct attn_topk_args a = {.size = sizeof(a)};
    assert_int_equal(attn_set_tensors(op, op->family, &t, sizeof(t), &a), ATTN_BAD_ARGUMENT);
    assert_string_equal(attn_last_error(), "indices: dimension 1 is 0, at least 1 is needed");
    parts[1] = 3;
    assert_int_equal(attn_set_tensors(op, op->family, &t, sizeof(t), &a), ATTN_OK);
    assert_int_equal(a.splits, 3);
    free(op);
}

int main(void) { return run_unit_tests(); }
