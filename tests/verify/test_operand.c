/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests the memory of a call's tensors, with the host as the GPU. Writes outside of what
 * a kernel may change are noticed everywhere. A tensor is aligned to no more than required.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit_test.h"
#include "tools/verify/operand.h"

static int allocate(void **p, size_t size)
{
    *p = aligned_alloc(256, (size + 511) / 256 * 256);
    return *p == NULL;
}

static int release(void *p)
{
    free(p);
    return 0;
}

static int copy(void *to, const void *from, size_t size, int kind)
{
    (void)kind;
    memcpy(to, from, size);
    return 0;
}

static struct gpu host = {.hipMalloc = allocate, .hipFree = release, .hipMemcpy = copy};

enum { TOKENS = 3, HEADS = 2, DIM = 16 };

static int32_t tokens = TOKENS;
static int64_t strides[2];
static void *pointer;

static struct attn_tensor tensor(bool written)
{
    return (struct attn_tensor){
        .name = "t",
        .pointer = &pointer,
        .element = ATTN_BF16,
        .needed = true,
        .written = written,
        .vector = 8,
        .ndim = 3,
        .dims = {{&tokens, 0}, {NULL, HEADS}, {NULL, DIM}},
        .free = 2,
        .strides = {&strides[0], &strides[1]},
    };
}

struct place {
    struct operand operand;
    struct device_memory memory;
};

static void prepare(struct place *p, bool written, bool gaps, bool exchanged)
{
    const struct attn_tensor t = tensor(written);
    *p = (struct place){.memory = {.gpu = &host}};
    operand_init(&p->operand, &t, "gfx942");
    operand_set_strides(&p->operand, gaps, exchanged);
    operand_allocate(&p->operand);
}

static void finish(struct place *p)
{
    device_free(&p->memory);
    operand_free(&p->operand);
}

TEST(strides_have_the_order_and_gaps_that_are_asked_for)
{
    struct place p;
    static const struct {
        bool gaps, exchanged;
        int64_t strides[3];
    } rows[] = {
        {false, false, {HEADS * DIM, DIM, 1}},
        {true, false, {HEADS * (DIM + 8) + 16, DIM + 8, 1}},
        {false, true, {DIM, TOKENS * DIM, 1}},
        {true, true, {DIM + 8, TOKENS * (DIM + 8) + 16, 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        prepare(&p, true, rows[i].gaps, rows[i].exchanged);
        operand_upload(&p.operand, &p.memory);
        for (int k = 0; k < 3; k++)
            assert_int_equal(p.operand.strides[k], rows[i].strides[k]);
        assert_int_equal(strides[0], rows[i].strides[0]);
        assert_int_equal(strides[1], rows[i].strides[1]);
        assert_ptr_equal(pointer, p.operand.device);
        assert_int_equal((uintptr_t)pointer % 32, 16);
        finish(&p);
    }
}

TEST(every_byte_that_is_written_is_noticed)
{
    struct place p;
    int64_t at = 0;
    prepare(&p, true, true, false);
    operand_upload(&p.operand, &p.memory);
    const int64_t end = (int64_t)p.operand.span + 200;
    for (int64_t byte = -200; byte < end; byte++) {
        p.operand.device[byte] ^= 1;
        operand_download(&p.operand, &p.memory);
        p.operand.device[byte] ^= 1;
        assert_false(operand_untouched(&p.operand, &at));
        assert_int_equal(at, (byte - (byte < 0)) / 2);
    }
    operand_download(&p.operand, &p.memory);
    assert_true(operand_untouched(&p.operand, &at));
    finish(&p);
}

TEST(results_may_be_written)
{
    struct place p;
    int64_t at = 0;
    const uint16_t one = 0x3f80;
    prepare(&p, true, true, true);
    operand_upload(&p.operand, &p.memory);
    memcpy(p.operand.device + 2 * operand_index(&p.operand, AT(2, 1, 5)), &one, sizeof(one));
    operand_download(&p.operand, &p.memory);
    assert_false(operand_same(&p.operand, AT(2, 1, 5)));
    assert_true(operand_same(&p.operand, AT(2, 1, 4)));
    assert_true(operand_result(&p.operand, AT(2, 1, 5)) == 1);
    assert_false(operand_untouched(&p.operand, &at));
    operand_allow(&p.operand, AT(2, 1, 5));
    assert_true(operand_untouched(&p.operand, &at));
    operand_keep_result(&p.operand);
    assert_true(operand_value(&p.operand, AT(2, 1, 5)) == 1);
    finish(&p);
}

TEST(an_operand_inside_another_shares_its_memory)
{
    struct place p;
    struct operand inside;
    int64_t at = 0;
    const struct attn_tensor t = tensor(true);
    prepare(&p, true, true, false);
    operand_init(&inside, &t, "gfx942");
    operand_place_inside(&inside, &p.operand, DIM);
    memcpy(inside.strides, p.operand.strides, sizeof(inside.strides));
    operand_allocate(&inside);
    operand_set(&inside, AT(0, 0, 0), 2);
    operand_upload(&p.operand, &p.memory);
    operand_upload(&inside, &p.memory);
    assert_ptr_equal(inside.device, p.operand.device + 2 * DIM);
    assert_true(decode_element(p.operand.precision, *(uint16_t *)inside.device) == 2);
    *(uint16_t *)inside.device = 0x3f80;
    operand_download(&p.operand, &p.memory);
    operand_download(&inside, &p.memory);
    assert_true(operand_result(&inside, AT(0, 0, 0)) == 1);
    assert_false(operand_untouched(&p.operand, &at));
    operand_allow(&inside, AT(0, 0, 0));
    assert_true(operand_untouched(&p.operand, &at));
    finish(&p);
}

/* The device has only those rows of a far tensor that have a value. */
TEST(far_rows_come_back)
{
    struct place p;
    int64_t at = 0;
    const struct attn_tensor t = tensor(true);
    p = (struct place){.memory = {.gpu = &host}};
    operand_init(&p.operand, &t, "gfx942");
    operand_set_stride(&p.operand, 0, 1 << 16);
    p.operand.far = true;
    operand_allocate(&p.operand);
    for (int d = 0; d < DIM; d++)
        operand_set(&p.operand, AT(2, 1, d), d);
    operand_upload(&p.operand, &p.memory);
    uint16_t *row = (uint16_t *)p.operand.device + operand_index(&p.operand, AT(2, 1, 0));
    assert_true(decode_element(p.operand.precision, row[7]) == 7);
    row[7] = 0x3f80;
    operand_download(&p.operand, &p.memory);
    assert_true(operand_result(&p.operand, AT(2, 1, 7)) == 1);
    assert_true(operand_result(&p.operand, AT(2, 1, 8)) == 8);
    assert_false(operand_untouched(&p.operand, &at));
    assert_int_equal(at, operand_index(&p.operand, AT(2, 1, 7)));
    finish(&p);
}

int main(void) { return run_unit_tests(); }
