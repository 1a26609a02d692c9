/* SPDX-License-Identifier: Apache-2.0 */
/* Tests lookup and launch: which kernel is chosen, and what HIP runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static const char *chosen(const struct attn_op *op)
{
    struct attn_op_info info = {.size = sizeof(info)};
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    return info.kernel.name;
}

static void why(const struct attn_op *op, const char *text)
{
    struct attn_op_info info = {.size = sizeof(info)};
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    assert_string_equal(info.why, text);
}

/* Looks up an op and compares the chosen kernel's name. */
static void choose(const struct bench *b, const struct attn_prefill_desc *d, const char *name)
{
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b->device, d, &op), ATTN_OK);
    assert_string_equal(chosen(op), name);
    attn_op_destroy(op);
}

TEST(exact_kernels_come_before_covering_ones)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {
        {.name = "exact", .gqa = "4"},
        {.name = "any_gqa"},
        {.name = "windowed", .gqa = "4", .mask = "window"},
        {.name = "windowed_any", .mask = "window"},
    };
    struct bench b = open_bench(kernels, COUNT(kernels));
    struct attn_prefill_desc d = plain_desc();
    choose(&b, &d, "exact");
    d.heads = 10; /* ratio 5 */
    choose(&b, &d, "any_gqa");
    d.mask = ATTN_MASK_NONE;
    choose(&b, &d, "windowed_any");
    d.heads = 8;
    choose(&b, &d, "windowed");

    struct attn_op *op;
    d = plain_desc();
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    why(op, "exact");
    attn_op_destroy(op);
    d.heads = 10;
    d.mask = ATTN_MASK_NONE;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    why(op, "the cheapest that covers it: gqa any covers 5, mask window covers none");
    attn_op_destroy(op);
    close_bench(&b);
    assert_int_equal(f->modules, 0);
}

TEST(later_packs_override_earlier_ones)
{
    fake_reset();
    const struct made base[] = {{.name = "base_128"}, {.name = "base_64", .head_dim = "64"}};
    const struct made over[] = {{.name = "over_128"}};
    size_t size;
    struct attn_pack *packs[2];
    void *bytes[2] = {make_pack(base, 2, &size)};
    assert_int_equal(attn_pack_open_memory(bytes[0], size, &packs[0]), ATTN_OK);
    bytes[1] = make_pack(over, 1, &size);
    assert_int_equal(attn_pack_open_memory(bytes[1], size, &packs[1]), ATTN_OK);
    const struct attn_device_options o = fake_options();
    struct bench b = {0};
    assert_int_equal(attn_device_open(packs, 2, &o, &b.device), ATTN_OK);
    attn_pack_close(packs[0]); /* the device keeps them */
    attn_pack_close(packs[1]);
    struct attn_prefill_desc d = plain_desc();
    choose(&b, &d, "over_128");
    d.head_dim = 64;
    choose(&b, &d, "base_64");
    attn_device_close(b.device);
    free(bytes[0]);
    free(bytes[1]);
}

TEST(a_missing_kernel_is_explained)
{
    fake_reset();
    const struct made kernels[] = {
        {.name = "near", .head_dim = "64"},
        {.name = "far", .head_dim = "256", .lse = "true"},
        {.name = "elsewhere", .target = "gfx950"},
    };
    struct bench b = open_bench(kernels, COUNT(kernels));
    struct attn_op *op;
    struct attn_prefill_desc d = plain_desc();
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_NO_KERNEL,
            "the nearest, near, has head_dim 64 instead of 128, head_dim_v 64 instead of 128");
    close_bench(&b);
}

TEST(a_pack_for_another_gpu_is_named)
{
    fake_reset();
    const struct made kernels[] = {{.target = "gfx950"}};
    struct bench b = open_bench(kernels, COUNT(kernels));
    struct attn_op *op;
    const struct attn_prefill_desc d = plain_desc();
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_NO_KERNEL,
            "no prefill kernel for gfx942, which this GPU is");
    says("is for gfx950");
    close_bench(&b);
}

TEST(mixed_gpus_get_their_own_kernels)
{
    struct fakehip *f = fake_reset();
    f->device_count = 2;
    f->arch[1] = "gfx950:sramecc+:xnack-";
    const struct made kernels[] = {{.target = "gfx942"}, {.target = "gfx950"}};
    struct bench b = open_bench(kernels, COUNT(kernels));
    struct attn_device_options o = fake_options();
    o.ordinal = 1;
    struct bench second = {0};
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &second.device), ATTN_OK);
    const struct attn_prefill_desc d = plain_desc();
    choose(&b, &d, "prefill_gfx942_d128");
    choose(&second, &d, "prefill_gfx950_d128");
    assert_int_equal(f->current, 0); /* the caller's GPU is current again */
    o.ordinal = 2;
    struct attn_device *none;
    refused(attn_device_open(&b.pack, 1, &o, &none), ATTN_NO_DEVICE, "GPU 2 was asked for");
    attn_device_close(second.device);
    close_bench(&b);
}

/* One pack has kernels of three generations. A GPU takes its own, or an error says why not. */
TEST(each_generation_gets_its_own_kernels)
{
    static const struct {
        const char *arch, *kernel;
    } gpus[] = {{"gfx942:sramecc+:xnack-", "prefill_gfx942_d128"},
                {"gfx1201", "prefill_gfx1201_d128"},
                {"gfx1250", "prefill_gfx1250_d128"},
                {"gfx1200", NULL}};
    const struct made kernels[] = {
        {.target = "gfx1250"}, {.target = "gfx942"}, {.target = "gfx1201"}};
    for (size_t i = 0; i < COUNT(gpus); i++) {
        struct fakehip *f = fake_reset();
        f->arch[0] = gpus[i].arch;
        struct bench b = open_bench(kernels, COUNT(kernels));
        const struct attn_prefill_desc d = plain_desc();
        struct attn_op *op;
        if (gpus[i].kernel) {
            choose(&b, &d, gpus[i].kernel);
        } else {
            refused(attn_prefill_lookup(b.device, &d, &op), ATTN_NO_KERNEL,
                    "no prefill kernel for gfx1200, which this GPU is");
        }
        close_bench(&b);
    }
}

TEST(hip_5_properties_are_read_too)
{
    fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_device_options o = fake_options();
    o.hip_library = fake5_path();
    struct attn_device *device;
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &device), ATTN_OK);
    struct attn_device_info info = {.size = sizeof(info)};
    assert_int_equal(attn_device_describe(device, &info), ATTN_OK);
    assert_string_equal(info.target, "gfx942");
    assert_string_equal(info.name, "fake GPU 0");
    assert_int_equal(info.compute_units, 304);
    assert_string_equal(info.hip_library, fake5_path());
    attn_device_close(device);
    close_bench(&b);
}

/* A grid of more than `most` workgroups (0: no limit) becomes `most` in x. Sequences must be about
 * as long as the longest, in queries, here up to 200, and in keys. Otherwise the grid stays. The
 * kernel gets the number of workgroups in x, or INT32_MAX if the grid stays. */
TEST(a_grid_has_a_limit)
{
    static const struct {
        uint16_t most;
        int32_t batch, tokens, longest_k, total_k;
        uint32_t grid[3];
    } cases[] = {
        {0, 2, 400, 200, 400, {4, 3, 2}},
        {23, 2, 400, 200, 400, {23, 1, 1}},
        {24, 2, 400, 200, 400, {4, 3, 2}},
        {23, 2, 350, 200, 350, {23, 1, 1}},
        {23, 2, 349, 200, 349, {4, 3, 2}},
        {12, 1, 200, 200, 200, {4, 3, 1}},
        {11, 1, 200, 200, 200, {11, 1, 1}},
        {11, 1, 900, 200, 900, {11, 1, 1}},
        {UINT16_MAX, 1 << 20, INT32_MAX, 200, INT32_MAX, {UINT16_MAX, 1, 1}},
        {23, 2, 400, 200, 0, {23, 1, 1}},
        {23, 2, 400, 800, 1600, {23, 1, 1}},
        {23, 2, 400, 800, 1400, {23, 1, 1}},
        {23, 2, 400, 800, 1399, {4, 3, 2}},
        {23, 2, 400, 800, 0, {4, 3, 2}},
        {11, 1, 200, 800, 0, {11, 1, 1}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fakehip *f = fake_reset();
        const struct made kernels[] = {{
            .workgroups_most = cases[i].most,
            .extra_arg = "workgroups",
            .extra_narrow = true,
        }};
        const bool row = cases[i].grid[1] == 1;
        struct bench b = open_bench(kernels, 1);
        const struct attn_prefill_desc d = plain_desc();
        struct attn_op *op;
        assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
        struct attn_prefill_args a = plain_args();
        a.batch = cases[i].batch;
        a.tokens = cases[i].tokens;
        a.max_seqlen_k = cases[i].longest_k;
        a.total_k = cases[i].total_k;
        assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
        assert_int_equal(f->launches, 1);
        for (int k = 0; k < 3; k++)
            assert_int_equal(f->grid[k], cases[i].grid[k]);
        assert_int_equal(i32_at(f, MADE_EXTRA), row ? (int)cases[i].grid[0] : INT32_MAX);
        attn_op_destroy(op);
        close_bench(&b);
    }
}

/* Launches a batch whose kernel takes the array named `arg`. Returns by how many bytes the last
 * piece's pointer differs from the array. */
static int64_t launch_batch(const char *arg, int32_t batch, struct attn_prefill_args a,
                            struct attn_prefill_desc d, const void *array)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.extra_arg = arg}};
    struct bench b = open_bench(kernels, 1);
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    a.batch = batch;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    const int64_t moved = i64_at(f, MADE_EXTRA) - (intptr_t)array;
    attn_op_destroy(op);
    close_bench(&b);
    return moved;
}

/* HIP accepts 65,536 workgroups in y and z of a grid. More sequences take several launches, each
 * with its own part of the arrays. */
TEST(large_batches_are_launched_in_pieces)
{
    enum { MOST = 65536 };
    static const struct {
        int32_t batch;
        int launches;
        uint32_t last;
    } cases[] = {
        {MOST - 1, 1, MOST - 1},        {MOST, 1, MOST}, {MOST + 1, 2, 1}, {2 * MOST, 2, MOST},
        {150000, 3, 150000 - 2 * MOST},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct attn_prefill_args a = plain_args();
        const struct fakehip *f = fake_reset();
        const int64_t moved =
            launch_batch("cu_seqlens_q", cases[i].batch, a, plain_desc(), a.cu_seqlens_q);
        assert_int_equal(f->launches, cases[i].launches);
        assert_int_equal(f->grid[2], cases[i].last);
        assert_int_equal(moved, INT64_C(4) * MOST * (cases[i].launches - 1));
    }
}

/* Batches are refused if each piece still has too many work items. */
TEST(pieces_that_are_too_large_are_refused)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{0}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.batch = 65537;
    a.max_seqlen_q = INT32_MAX;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_ARGUMENT,
            "launch: the grid is larger than HIP takes");
    assert_int_equal(f->launches, 0);
    a.max_seqlen_q = 128;
    f->fail_at = 2; /* the second piece */
    f->fail_with = 1;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_HIP_FAILED);
    assert_int_equal(f->launches, 1);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(every_array_of_sequences_moves_with_a_piece)
{
    enum { MOST = 65536 };
    struct attn_prefill_args a = plain_args();
    const struct attn_prefill_desc d = plain_desc();
    assert_int_equal(launch_batch("cu_seqlens_k", MOST + 1, a, d, a.cu_seqlens_k), 4 * MOST);
    assert_int_equal(launch_batch("out", MOST + 1, a, d, a.out), 0); /* placed by cu_seqlens_q */
    assert_int_equal(launch_batch("lse", MOST + 1, a, d, a.lse), 0);
}

TEST(a_launch_packs_what_the_record_asks_for)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.extra_arg = "v_head_stride"}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.stream = &a;
    a.q_token_stride = INT64_C(1) << 21;
    a.v_head_stride = INT64_C(1) << 29;
    a.v_token_stride = 128;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(f->launches, 1);
    assert_ptr_equal(f->stream, &a);
    assert_int_equal(f->grid[0], 2 * 2); /* ceil(200 / 128) * 2 */
    assert_int_equal(f->grid[1], 3);     /* ceil(8 / 3) */
    assert_int_equal(f->grid[2], 2);
    assert_int_equal(f->block[0], 256);
    assert_int_equal(f->block[1], 1);
    assert_int_equal(f->lds, 512);
    assert_int_equal(f->kernarg_size, MADE_KERNARG_SIZE);
    assert_int_equal(i64_at(f, MADE_Q), (intptr_t)a.q);
    assert_int_equal(i64_at(f, MADE_K), (intptr_t)a.k);
    assert_int_equal(i64_at(f, MADE_OUT), (intptr_t)a.out);
    assert_int_equal(i32_at(f, MADE_TOKENS), 300);
    assert_true(f32_at(f, MADE_SCALE) == 1 / sqrtf(128));
    assert_int_equal(i64_at(f, MADE_Q_STRIDE), INT64_C(1) << 21);
    assert_int_equal(i32_at(f, MADE_LEFT), 1 << 30);
    assert_int_equal(i32_at(f, MADE_RIGHT), 0); /* causal */
    assert_int_equal(i64_at(f, MADE_EXTRA), INT64_C(1) << 29);

    a.q_token_stride = 0; /* contiguous */
    a.scale = 0.5f;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(i64_at(f, MADE_Q_STRIDE), 8 * 128);
    assert_true(f32_at(f, MADE_SCALE) == 0.5f);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(a_window_reaches_the_kernel)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.mask = "window"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    d.mask = ATTN_MASK_WINDOW;
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.window_left = 127;
    a.window_right = -1;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(i32_at(f, MADE_LEFT), 127);
    assert_int_equal(i32_at(f, MADE_RIGHT), 1 << 30);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(a_call_chooses_by_the_packs_table)
{
    struct fakehip *f = fake_reset();
    const struct attnc_pack_when few[] = {{"max_seqlen_q", 1, 64}};
    const struct attnc_pack_when middle[] = {{"max_seqlen_q", 65, 128}, {"batch", 2, 2}};
    const struct made kernels[] = {
        {.name = "any_length"},
        {.name = "few", .when = few, .when_count = 1},
        {.name = "middle", .when = middle, .when_count = 2},
    };
    struct bench b = open_bench(kernels, COUNT(kernels));
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_op_info info = {.size = sizeof(info)};
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    assert_int_equal(info.kernel_count, 3);
    assert_int_equal(f->modules, 3);

    struct attn_prefill_args a = plain_args();
    void *functions[4];
    static const struct {
        int32_t length;
        const char *kernel, *why;
    } calls[] = {
        {64, "few", "; row 1 of 3: max_seqlen_q 64 is 1 to 64"},
        {128, "middle", "; row 2 of 3: max_seqlen_q 128 is 65 to 128, batch 2 is 2 to 2"},
        {200, "any_length", "; row 3 of 3"},
        {1, "few", "; row 1 of 3: max_seqlen_q 1 is 1 to 64"},
    };
    for (int i = 0; i < 4; i++) {
        a.max_seqlen_q = calls[i].length;
        assert_int_equal(attn_op_describe_launch(op, &a, &info), ATTN_OK);
        assert_string_equal(info.kernel.name, calls[i].kernel);
        assert_non_null(strstr(info.why, calls[i].why));
        assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
        functions[i] = f->function;
    }
    assert_ptr_equal(functions[0], functions[3]);
    assert_ptr_not_equal(functions[0], functions[1]);
    assert_ptr_not_equal(functions[1], functions[2]);
    attn_op_destroy(op);
    close_bench(&b);
    assert_int_equal(f->modules, 0);
}

/* Tiles of 128 queries: a partial one counts, and so do all heads and sequences. */
TEST(a_call_chooses_by_its_tiles)
{
    fake_reset();
    const struct attnc_pack_when few[] = {{"tiles", 0, 48}};
    const struct made kernels[] = {
        {.name = "any_number"},
        {.name = "few", .when = few, .when_count = 1},
    };
    static const struct {
        int32_t batch, longest;
        const char *kernel;
    } calls[] = {
        {2, 384, "few"}, /* 8 heads */
        {2, 385, "any_number"}, {3, 256, "few"},        {4, 129, "any_number"},
        {6, 1, "few"},          {7, 128, "any_number"}, {1 << 27, 256, "any_number"},
    };
    struct bench b = open_bench(kernels, COUNT(kernels));
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_op_info info = {.size = sizeof(info)};
    struct attn_prefill_args a = plain_args();
    for (unsigned i = 0; i < COUNT(calls); i++) {
        a.batch = calls[i].batch;
        a.max_seqlen_q = calls[i].longest;
        assert_int_equal(attn_op_describe_launch(op, &a, &info), ATTN_OK);
        assert_string_equal(info.kernel.name, calls[i].kernel);
    }
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(a_code_object_is_loaded_once)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *ops[2];
    assert_int_equal(attn_prefill_lookup(b.device, &d, &ops[0]), ATTN_OK);
    assert_int_equal(attn_prefill_lookup(b.device, &d, &ops[1]), ATTN_OK);
    assert_int_equal(f->loads, 1);
    attn_op_destroy(ops[0]);
    assert_int_equal(f->modules, 1);
    attn_device_close(b.device); /* the op keeps the device */
    const struct attn_prefill_args a = plain_args();
    assert_int_equal(attn_prefill_launch(ops[1], &a), ATTN_OK);
    attn_op_destroy(ops[1]);
    assert_int_equal(f->modules, 0);
    attn_pack_close(b.pack);
    free(b.bytes);
}

TEST(empty_batches_launch_nothing)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    struct bench b = open_bench(kernels, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    const struct attn_prefill_args none = {.size = sizeof(none)};
    assert_int_equal(attn_prefill_launch(op, &none), ATTN_OK);
    assert_int_equal(f->launches, 0);
    attn_op_destroy(op);
    close_bench(&b);
}

/* A descriptor with mask 0 means causal, like a description without a mask. */
TEST(a_mask_of_zero_is_causal)
{
    fake_reset();
    const struct made kernels[] = {
        {.name = "any_window", .mask = "window"},
        {.name = "no_mask", .mask = "none"},
        {.name = "causal", .mask = "causal"},
    };
    struct bench b = open_bench(kernels, 3);
    struct attn_prefill_desc d = plain_desc();
    memset(&d.mask, 0, sizeof(d.mask));
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_op_info info = {.size = sizeof(info)};
    assert_int_equal(attn_op_describe(op, &info), ATTN_OK);
    assert_string_equal(info.kernel.name, "causal");
    attn_op_destroy(op);
    close_bench(&b);
}

/* Mask 0 also means causal if only a kernel for any window exists. */
TEST(a_mask_of_zero_is_causal_in_a_window_kernel)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.mask = "window"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    memset(&d.mask, 0, sizeof(d.mask));
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    const struct attn_prefill_args a = plain_args();
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(i32_at(f, MADE_LEFT), 1 << 30);
    assert_int_equal(i32_at(f, MADE_RIGHT), 0);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(bad_descriptors_are_refused)
{
    fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_op *op = (void *)&b;
    struct attn_prefill_desc d = plain_desc();
    assert_int_equal(attn_prefill_lookup(NULL, &d, &op), ATTN_BAD_ARGUMENT);
    d.size = 8;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT, "desc.size is 8");
    d = plain_desc();
    d.heads = 7;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "7 heads are not a multiple of 2 kv_heads");
    d = plain_desc();
    d.heads = 16385;
    d.kv_heads = 1;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "16385 heads are more than 16384 times 1 kv_heads");
    d = plain_desc();
    d.heads = d.kv_heads = INT32_MAX - 1;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT,
            "heads 2147483646 is not 1 to 65535");
    d = plain_desc();
    d.dtype = 0;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT);
    d = plain_desc();
    d.mask = ATTN_MASK_BLOCKS + 1;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT);
    d = plain_desc();
    d.head_dim = -128;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_ARGUMENT);
    assert_ptr_equal(op, &b); /* outputs are only written on success */
    close_bench(&b);
}

TEST(bad_arguments_are_refused)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.lse = "true"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    d.lse = true;
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args good = plain_args();
    float lse;
    good.lse = &lse;
#define REFUSED(change, text)                                             \
    do {                                                                  \
        struct attn_prefill_args a = good;                                \
        change;                                                           \
        assert_int_equal(attn_prefill_launch(op, &a), ATTN_BAD_ARGUMENT); \
        says(text);                                                       \
    } while (0)
    REFUSED(a.size = 0, "args.size");
    REFUSED(a.q = NULL, "q is NULL");
    REFUSED(a.v = (const char *)a.v + 2, "not aligned to 8 elements");
    REFUSED(a.cu_seqlens_k = NULL, "cu_seqlens_k is NULL");
    REFUSED(a.lse = NULL, "lse is NULL");
    REFUSED(a.batch = -1, "batch is not 0 to 134217728");
    REFUSED(a.k_head_stride = 4, "not a multiple of 8 elements");
    REFUSED(a.scale = NAN, "scale is not 0 to 1e30");
    REFUSED(a.scale = -0.1f, "scale is not 0 to 1e30"); /* the softmax would use -q . k */
    REFUSED(a.out_token_stride = 16 << 20,
            "out_token_stride or out_head_stride is below a row, above");
    REFUSED(a.q_token_stride = 32 << 20,
            "q_token_stride or q_head_stride is negative, above 2097152 and "
            "1073741823, or not a multiple of 8 elements");
    REFUSED(a.k_token_stride = -8, "k_token_stride or k_head_stride is negative");
    REFUSED(a.lse = (float *)((char *)a.lse + 2), "lse is not aligned to 4 bytes");
    REFUSED(a.cu_seqlens_q = (const int32_t *)((const char *)a.cu_seqlens_q + 1),
            "cu_seqlens_q is not aligned to 4 bytes");
    REFUSED(a.max_seqlen_q = INT32_MAX, "larger than HIP takes: more than 2^32 work items");
#undef REFUSED
    assert_int_equal(attn_prefill_launch(NULL, &good), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_prefill_launch(op, NULL), ATTN_BAD_ARGUMENT);
    assert_int_equal(f->launches, 0);
    assert_int_equal(attn_prefill_launch(op, &good), ATTN_OK);
    attn_op_destroy(op);
    close_bench(&b);
}

/* The stride of a dimension with one element is ignored, even if its default follows from other
 * strides that are larger than contiguous. */
TEST(a_stride_of_one_element_has_no_range)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.extra_arg = "lse_head_stride", .lse = "true"}};
    struct bench b = open_bench(kernels, 1);
    struct attn_prefill_desc d = plain_desc();
    d.lse = true;
    d.heads = d.kv_heads = 1;
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.lse = (float *)a.out;
    a.tokens = 1100;
    a.lse_token_stride = 1 << 20;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(i64_at(f, MADE_EXTRA), INT32_MAX >> 2);
    a.lse_head_stride = -5;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    a.lse_token_stride = (1 << 20) + 1;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_ARGUMENT,
            "lse_head_stride or lse_token_stride is below a row or above");
    attn_op_destroy(op);
    d.heads = d.kv_heads = 2;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    a.lse_token_stride = a.lse_head_stride = 0;
    a.batch = a.tokens = 1;
    a.q_head_stride = 1 << 24;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    assert_int_equal(i64_at(f, MADE_Q_STRIDE), 1 << 21);
    a.tokens = 2;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_ARGUMENT,
            "q_token_stride or q_head_stride is negative, above");
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(records_that_ask_for_unknown_values_are_refused)
{
    struct fakehip *f = fake_reset();
    const struct made unknown[] = {{.extra_arg = "q_hat"}};
    struct bench b = open_bench(unknown, 1);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_PACK,
            "takes \"q_hat\", which this library does not give to prefill kernels");
    close_bench(&b);
    const struct made mistyped[] = {{.extra_arg = "scale"}};
    b = open_bench(mistyped, 1);
    refused(attn_prefill_lookup(b.device, &d, &op), ATTN_BAD_PACK,
            "takes \"scale\" as another type");
    close_bench(&b);
    assert_int_equal(f->modules, 0);
}

TEST(device_side_lengths_are_checked_on_request)
{
    struct fakehip *f = fake_reset();
    const struct made kernels[] = {{.gqa = "4"}};
    struct bench b = open_bench(kernels, 1);
    attn_device_close(b.device);
    struct attn_device_options o = fake_options();
    o.flags = ATTN_CHECK_DATA;
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    const struct attn_prefill_desc d = plain_desc();
    struct attn_op *op;
    assert_int_equal(attn_prefill_lookup(b.device, &d, &op), ATTN_OK);
    struct attn_prefill_args a = plain_args();
    a.stream = FAKE_STREAM;
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    const int32_t falls[] = {0, 100, 90};
    a.cu_seqlens_k = falls;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_DATA,
            "cu_seqlens_k[2] is 90, below cu_seqlens_k[1], which is 100");
    const int32_t long_one[] = {0, 250, 300};
    a.cu_seqlens_k = long_one;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_DATA,
            "cu_seqlens_k: sequence 0 has 250 tokens, the bound is 200");
    const int32_t beyond[] = {0, 200, 301};
    a.cu_seqlens_k = beyond;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_DATA,
            "cu_seqlens_k[2] is 301, the tensor has 300 tokens");
    const int32_t negative[] = {-1, 100, 200};
    a.cu_seqlens_q = negative;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_DATA, "cu_seqlens_q[0] is -1");
    const int32_t late[] = {1, 100, 200};
    a.cu_seqlens_q = late;
    refused(attn_prefill_launch(op, &a), ATTN_BAD_DATA, "cu_seqlens_q[0] is 1, not 0");
    assert_int_equal(f->launches, 1);
    f->capturing = 1; /* a read-back would end the capture */
    assert_int_equal(attn_prefill_launch(op, &a), ATTN_OK);
    attn_op_destroy(op);
    close_bench(&b);
}

TEST(the_library_says_what_it_is)
{
    assert_int_equal(attn_version(), ATTN_VERSION_MAJOR * 1000 + ATTN_VERSION_MINOR);
    assert_true(attn_has_feature("prefill"));
    assert_false(attn_has_feature("time-travel"));
    assert_false(attn_has_feature(NULL));
    assert_string_equal(attn_status_name(ATTN_NO_KERNEL), "ATTN_NO_KERNEL");
    assert_string_equal(attn_status_name(1), "unknown status");
}

int main(void) { return run_unit_tests(); }
