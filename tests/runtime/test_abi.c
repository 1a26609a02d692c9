/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests structs of callers with other headers: shorter ones, whose missing members are 0, and
 * longer ones, whose further bytes must be 0.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/abi.h"
#include "runtime/op.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { ROOM = 4096 + 64 };

/* A caller's struct with bytes after it, whose first member is its size. */
union room {
    _Alignas(16) unsigned char bytes[ROOM];
    size_t size;
};

static union room of_size(const void *known, size_t known_size, size_t size)
{
    union room r;
    memset(&r, 0, sizeof(r));
    memcpy(&r, known, known_size < size ? known_size : size);
    r.size = size;
    return r;
}

/* Returns a struct whose only nonzero member is its size. */
static union room zero_of_size(size_t size) { return of_size(&size, sizeof(size), size); }

TEST(members_are_copied_and_missing_ones_are_0)
{
    struct {
        size_t size;
        uint64_t a, b, c;
    } known, given = {0, 1, 2, 3};
    for (size_t size = 16; size <= sizeof(given); size += 8) {
        memset(&known, 0x55, sizeof(known));
        given.size = size;
        assert_int_equal(attn_adopt(&known, sizeof(known), &given), ATTN_FITS);
        assert_int_equal(known.size, sizeof(known));
        assert_int_equal(known.a, 1);
        assert_int_equal(known.b, size > 16 ? 2 : 0);
        assert_int_equal(known.c, size > 24 ? 3 : 0);
    }
    static const size_t wrong[] = {0, 1, 8, 15, 4097, SIZE_MAX};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        given.size = wrong[i];
        assert_int_equal(attn_adopt(&known, sizeof(known), &given), ATTN_SIZE_UNSET);
        assert_false(attn_can_give(&given));
    }
    given.size = 8; /* plan's descriptor, whose only member is size */
    assert_int_equal(attn_adopt(&known, 8, &given), ATTN_FITS);
    given.size = sizeof(given); /* known: without c */
    assert_int_equal(attn_adopt(&known, 24, &given), ATTN_SURPLUS_SET);
    given.c = UINT64_C(1) << 63;
    assert_int_equal(attn_adopt(&known, 24, &given), ATTN_SURPLUS_SET);
    given.c = 0;
    known.c = 7;
    assert_int_equal(attn_adopt(&known, 24, &given), ATTN_FITS);
    assert_int_equal(known.c, 7); /* nothing is written past the known bytes */
}

TEST(results_keep_the_size_of_the_caller)
{
    const struct {
        size_t size, a, b;
    } known = {24, 1, 2};
    size_t given[5] = {40, 9, 9, 9, 9};
    attn_give(given, &known, sizeof(known));
    const size_t longer[5] = {40, 1, 2, 0, 0};
    assert_memory_equal(given, longer, sizeof(longer));
    size_t small[5] = {16, 9, 9, 9, 9};
    attn_give(small, &known, sizeof(known));
    const size_t shorter[5] = {16, 1, 9, 9, 9};
    assert_memory_equal(small, shorter, sizeof(shorter));
}

static const struct attn_family *const families[] = {
#define OP(name) &attn_family_##name,
#include "ops/ops.def"
};

/* Compares lookups of a zero descriptor at several sizes. */
TEST(every_descriptor_may_be_shorter_and_longer)
{
    fake_reset();
    const struct made kernels[] = {{0}};
    struct bench b = open_bench(kernels, 1);
    for (size_t i = 0; i < COUNT(families); i++) {
        const struct attn_family *const f = families[i];
        const size_t size = f->desc_size;
        union room r = zero_of_size(size);
        struct attn_op *op = NULL;
        char usual[400];
        const int status = attn_lookup(b.device, f, &r, &op);
        snprintf(usual, sizeof(usual), "%s", attn_last_error());
        assert_int_not_equal(status, ATTN_OK);
        for (int k = -1; k <= 2; k++) {
            if (size + 8 * (size_t)k < 16)
                continue;
            r = zero_of_size(size + 8 * (size_t)k);
            if (attn_lookup(b.device, f, &r, &op) != status)
                fail_msg("%s, %d bytes: %s, not %s", f->op, 8 * k, attn_last_error(), usual);
            assert_string_equal(attn_last_error(), usual);
        }
        r.bytes[size + 7] = 1;
        refused(attn_lookup(b.device, f, &r, &op), ATTN_BAD_ARGUMENT,
                "bytes, and a member after them is set");
    }
    close_bench(&b);
}

TEST(arguments_may_be_shorter_and_longer)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{0}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    union room desc = of_size(&d, sizeof(d), sizeof(d) + 48);
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, (const void *)&desc, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.stream = &a;
    union room args = of_size(&a, sizeof(a), sizeof(a) + 512);
    assert_int_equal(attn_prefill_launch(op, (const void *)&args), ATTN_OK);
    assert_ptr_equal(f->stream, &a);
    assert_int_equal(i64_at(f, MADE_OUT), (intptr_t)a.out);
    args = of_size(&a, sizeof(a), offsetof(struct attn_prefill_args, stream));
    memset(args.bytes + args.size, 0x55, 64);
    assert_int_equal(attn_prefill_launch(op, (const void *)&args), ATTN_OK);
    assert_null(f->stream); /* the caller's struct is too short to have this member */
    assert_int_equal(f->launches, 2);
    args = of_size(&a, sizeof(a), sizeof(a) + 512);
    args.bytes[sizeof(a) + 511] = 1;
    refused(attn_prefill_launch(op, (const void *)&args), ATTN_BAD_ARGUMENT,
            "bytes, and a member after them is set");
    args.size = 8;
    refused(attn_prefill_launch(op, (const void *)&args), ATTN_BAD_ARGUMENT,
            "launch: args.size is 8, less than 16: this library knows ");
    args.size = 5000;
    refused(attn_prefill_launch(op, (const void *)&args), ATTN_BAD_ARGUMENT,
            "launch: args.size is 5000, more than 4096: this library knows ");
    assert_int_equal(f->launches, 2);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(results_may_be_shorter_and_longer)
{
    fake_reset();
    const struct made kernels[] = {{0}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    const struct attn_prefill_args a = plain_args();
    struct attn_op_info whole = {.size = sizeof(whole)};
    assert_int_equal(attn_op_describe_launch(op, &a, &whole), ATTN_OK);
    const size_t sizes[] = {offsetof(struct attn_op_info, why), sizeof(whole) + 80};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        union room r;
        memset(&r, 0x55, sizeof(r));
        r.size = sizes[i];
        assert_int_equal(attn_op_describe(op, (void *)&r), ATTN_OK);
        assert_int_equal(r.size, sizes[i]);
        const size_t shared = sizes[i] < sizeof(whole) ? sizes[i] : sizeof(whole);
        assert_memory_equal(r.bytes + 8, (const char *)&whole + 8, shared - 8);
        for (size_t k = shared; k < sizes[i]; k++)
            assert_int_equal(r.bytes[k], 0);
        assert_int_equal(r.bytes[sizes[i]], 0x55);
    }
    union room device = zero_of_size(sizeof(struct attn_device_info) + 8);
    device.bytes[device.size - 1] = 1;
    assert_int_equal(attn_device_describe(b.device, (void *)&device), ATTN_OK);
    assert_int_equal(device.bytes[device.size - 1], 0);
    union room kernel = zero_of_size(16);
    assert_int_equal(attn_pack_kernel(b.pack, 0, (void *)&kernel), ATTN_OK);
    assert_int_equal(kernel.bytes[16], 0);
    kernel.size = 8;
    assert_int_equal(attn_pack_kernel(b.pack, 0, (void *)&kernel), ATTN_BAD_ARGUMENT);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(options_and_shapes_may_be_longer)
{
    fake_reset();
    const struct made kernels[] = {{0}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_device_options o = fake_options();
    union room options = of_size(&o, sizeof(o), sizeof(o) + 24);
    struct attn_device *device;
    assert_int_equal(attn_device_open(&b.pack, 1, (const void *)&options, &device), ATTN_OK);
    attn_device_close(device);
    options.bytes[sizeof(o)] = 1;
    refused(attn_device_open(&b.pack, 1, (const void *)&options, &device), ATTN_BAD_ARGUMENT,
            "attn_device_options.size is ");
    const struct attn_decode_plan_shape s = {
        .size = sizeof(s), .batch = 2, .q_len = 1, .heads = 8, .kv_heads = 2, .lists = 16};
    struct attn_decode_plan_sizes sizes, usual;
    assert_int_equal(attn_decode_plan_sizes(&s, &usual), ATTN_OK);
    union room shape = of_size(&s, sizeof(s), sizeof(s) + 8);
    assert_int_equal(attn_decode_plan_sizes((const void *)&shape, &sizes), ATTN_OK);
    assert_memory_equal(&sizes, &usual, sizeof(sizes));
    shape.bytes[sizeof(s)] = 1;
    refused(attn_decode_plan_sizes((const void *)&shape, &sizes), ATTN_BAD_ARGUMENT,
            "plan: shape.size is ");
    close_bench(&b);
}

int main(void) { return run_unit_tests(); }
