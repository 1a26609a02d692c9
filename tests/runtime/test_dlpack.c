/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the conversion of DLPack tensors, and the messages for tensors that do not fit. */
#include <string.h>

#include "attn_dlpack.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

/* The tensors of a call with 300 tokens, 8 heads over 2 KV heads. A test changes them before it
 * converts them. */
struct set {
    int64_t shapes[8][3];
    int64_t strides[8][3];
    DLTensor t[8];
    struct attn_prefill_tensors tensors;
};

static _Alignas(16) char memory[64];

static const struct {
    int ndim;
    uint8_t code, bits;
    int64_t shape[3];
} plain[8] = {
    {3, kDLBfloat, 16, {300, 8, 128}}, /* q */
    {3, kDLBfloat, 16, {300, 2, 128}}, /* k */
    {3, kDLBfloat, 16, {300, 2, 128}}, /* v */
    {3, kDLBfloat, 16, {300, 8, 128}}, /* out */
    {2, kDLFloat, 32, {8, 300}},       /* lse */
    {1, kDLFloat, 32, {8}},            /* sinks */
    {1, kDLInt, 32, {3}},              /* cu_seqlens_q */
    {1, kDLInt, 32, {3}},              /* cu_seqlens_k */
};

static void make(struct set *s)
{
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < 8; i++) {
        memcpy(s->shapes[i], plain[i].shape, sizeof(s->shapes[i]));
        s->t[i] = (DLTensor){
            .data = memory,
            .device = {kDLROCM, 0},
            .ndim = plain[i].ndim,
            .dtype = {plain[i].code, plain[i].bits, 1},
            .shape = s->shapes[i],
        };
    }
    s->tensors = (struct attn_prefill_tensors){
        .size = sizeof(s->tensors),
        .q = &s->t[0],
        .k = &s->t[1],
        .v = &s->t[2],
        .out = &s->t[3],
        .lse = &s->t[4],
        .sinks = &s->t[5],
        .cu_seqlens_q = &s->t[6],
        .cu_seqlens_k = &s->t[7],
    };
}

static struct bench bench;
static struct attn_op *op;

static int setup(void **state)
{
    (void)state;
    fake_reset();
    const struct made kernels[] = {{.lse = "true"}};
    bench = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    d.lse = true;
    return attn_prefill_lookup(bench.device, &d, &op);
}

static int teardown(void **state)
{
    (void)state;
    attn_op_destroy(op);
    close_bench(&bench);
    return 0;
}

TEST(tensors_become_pointers_strides_and_counts)
{
    struct set s;
    make(&s);
    const int64_t strides[3] = {4096, 256, 1}; /* a view */
    memcpy(s.strides[1], strides, sizeof(strides));
    s.t[1].strides = s.strides[1];
    s.t[1].byte_offset = 32;
    struct attn_prefill_args a = {.size = sizeof(a), .max_seqlen_q = 200};
    assert_int_equal(attn_prefill_set_tensors(op, &s.tensors, &a), ATTN_OK);
    assert_ptr_equal(a.q, memory);
    assert_ptr_equal(a.k, memory + 32);
    assert_ptr_equal(a.lse, memory);
    assert_null(a.sinks); /* the descriptor has none */
    assert_int_equal(a.q_token_stride, 8 * 128);
    assert_int_equal(a.q_head_stride, 128);
    assert_int_equal(a.k_token_stride, 4096);
    assert_int_equal(a.k_head_stride, 256);
    assert_int_equal(a.lse_head_stride, 300);
    assert_int_equal(a.lse_token_stride, 1);
    assert_int_equal(a.batch, 2);
    assert_int_equal(a.tokens, 300);
    assert_int_equal(a.total_k, 300);
    assert_int_equal(a.max_seqlen_q, 200); /* set by the caller */
}

/* Makes a set with this many rows in k and v, and these strides. */
static void make_rows(struct set *s, int64_t rows, int64_t strides[3])
{
    make(s);
    for (int i = 1; i < 3; i++) { /* k and v */
        s->shapes[i][0] = rows;
        s->t[i].strides = strides;
    }
}

/* numpy gives stride 0 for all dimensions. */
TEST(strides_of_empty_tensors_are_ignored)
{
    static int64_t zeros[3];
    struct set s;
    make_rows(&s, 0, zeros);
    struct attn_prefill_args a = {.size = sizeof(a), .k_head_stride = 8};
    assert_int_equal(attn_prefill_set_tensors(op, &s.tensors, &a), ATTN_OK);
    assert_int_equal(a.k_token_stride, 0);
    assert_int_equal(a.k_head_stride, 0);
    assert_int_equal(a.total_k, 0);
    assert_int_equal(a.q_head_stride, 128);
}

/* In PyTorch a dimension of one element may have any stride. */
TEST(strides_of_one_element_are_ignored)
{
    static int64_t strides[3] = {1, 128, 1};
    struct set s;
    make_rows(&s, 1, strides);
    struct attn_prefill_args a = {.size = sizeof(a), .k_token_stride = 8};
    assert_int_equal(attn_prefill_set_tensors(op, &s.tensors, &a), ATTN_OK);
    assert_int_equal(a.k_token_stride, 0);
    assert_int_equal(a.k_head_stride, 128);
    assert_int_equal(a.v_token_stride, 0);
    assert_int_equal(a.total_k, 1);
}

#define REFUSED(change, text)                                                           \
    do {                                                                                \
        struct set s;                                                                   \
        make(&s);                                                                       \
        change;                                                                         \
        struct attn_prefill_args a = {.size = sizeof(a)};                               \
        refused(attn_prefill_set_tensors(op, &s.tensors, &a), ATTN_BAD_ARGUMENT, text); \
        assert_null(a.q); /* nothing was written */                                     \
    } while (0)

TEST(what_does_not_fit_is_named)
{
    static int64_t apart[3] = {2048, 256, 2};
    REFUSED(s.tensors.q = NULL, "q is NULL");
    REFUSED(s.t[0].dtype.code = kDLFloat, "q is of float16; bfloat16 is needed");
    REFUSED(s.t[1].dtype.bits = 8;
            s.t[1].dtype.code = 10, "k is of float8_e4m3fn; bfloat16 is needed");
    REFUSED(s.t[1].dtype.code = 200, "k is of unknown type");
    REFUSED(s.t[0].dtype.lanes = 2, "q is of bfloat16 in vectors of 2");
    REFUSED(s.t[2].device.device_type = kDLCPU, "v is on a device of DLPack's type 1");
    REFUSED(s.t[2].device.device_id = 3, "v is on GPU 3, the op on GPU 0");
    REFUSED(s.t[3].ndim = 2, "out has 2 dimensions, 3 are needed");
    REFUSED(s.shapes[1][1] = 4, "k: dimension 1 is 4, 2 is needed");
    REFUSED(s.shapes[2][0] = 299, "v: dimension 0 is 299, 300 is needed");
    REFUSED(s.shapes[0][0] = INT64_C(1) << 40,
            "q: dimension 0 is 1099511627776, at most 2147483647 is served");
    REFUSED(s.shapes[6][0] = (INT64_C(1) << 31) + 1,
            "cu_seqlens_q: dimension 0 is 2147483649, at most 2147483648 is served");
    REFUSED(s.shapes[0][0] = -2, "q: dimension 0 is -2");
    REFUSED(s.t[0].strides = apart, "q: its last dimension has stride 2");
    apart[1] = 0;
    REFUSED(s.t[0].strides = apart, "q is expanded: dimension 1 has stride 0");
    REFUSED(s.shapes[4][0] = 300, "lse: dimension 0 is 300, 8 is needed");
    REFUSED(s.shapes[7][0] = 4, "cu_seqlens_k: dimension 0 is 4, 3 is needed");
    REFUSED(s.shapes[6][0] = s.shapes[7][0] = 0, "cu_seqlens_q has no element");
    REFUSED(s.tensors.size = 8, "set_tensors: tensors.size is 8, less than 16");
}

/* The bytes of a mask are not a count of the call: they may exceed int32. */
TEST(dimensions_that_are_not_counted_have_64_bits)
{
    fake_reset();
    const struct made kernels[] = {{.lse = "true", .mask = "custom"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    d.lse = true;
    d.mask = ATTN_MASK_CUSTOM;
    struct attn_op *masked;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &masked), ATTN_OK);
    struct set s;
    make(&s);
    DLTensor mask = s.t[6], starts = s.t[6];
    int64_t bytes = INT64_C(9) << 31, three = 3;
    mask.dtype = (DLDataType){6, 8, 1}; /* bool */
    mask.shape = &bytes;
    starts.dtype.bits = 64;
    starts.shape = &three;
    s.tensors.custom_mask = &mask;
    s.tensors.mask_indptr = &starts;
    struct attn_prefill_args a = {.size = sizeof(a)};
    assert_int_equal(attn_prefill_set_tensors(masked, &s.tensors, &a), ATTN_OK);
    assert_ptr_equal(a.custom_mask, memory);
    bytes = -1;
    refused(attn_prefill_set_tensors(masked, &s.tensors, &a), ATTN_BAD_ARGUMENT,
            "custom_mask: dimension 0 is -1");
    attn_op_destroy(masked);
    close_bench(&b);
}

int main(void) { return run_unit_tests_between(setup, teardown); }
