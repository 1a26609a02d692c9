/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how libattn recommends splits of a decode step's keys: from the tuning file's most similar
 * call, and for an untuned kernel.
 */
#include <string.h>

#include "runtime/op.h"
#include "runtime/pack.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

static const char *pack_path;

struct bench_op {
    struct attn_pack *pack;
    struct attn_device *device;
    struct attn_op *op;
};

static struct attn_decode_desc describe(int32_t heads, int32_t kv_heads, int32_t page_size)
{
    return (struct attn_decode_desc){
        .size = sizeof(struct attn_decode_desc),
        .dtype = ATTN_BF16,
        .head_dim = 64,
        .heads = heads,
        .kv_heads = kv_heads,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = page_size},
    };
}

static struct bench_op open_pack(void)
{
    struct bench_op b;
    fake_reset();
    const struct attn_device_options o = fake_options();
    assert_int_equal(attn_pack_open(pack_path, &b.pack), ATTN_OK);
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    return b;
}

static struct bench_op open_op(const struct attn_decode_desc *desc)
{
    struct bench_op b = open_pack();
    if (attn_decode_lookup(b.device, desc, &b.op))
        fail_msg("%s", attn_last_error());
    return b;
}

static void close_op(struct bench_op *b)
{
    attn_op_destroy(b->op);
    attn_device_close(b->device);
    attn_pack_close(b->pack);
}

static struct attn_decode_split choose(const struct attn_op *op, int32_t batch, int32_t kv_len)
{
    const struct attn_decode_step step = {.size = sizeof(step), .batch = batch, .kv_len = kv_len};
    struct attn_decode_split split = {.size = sizeof(split)};
    if (attn_decode_choose_split(op, &step, &split))
        fail_msg("%s", attn_last_error());
    return split;
}

TEST(the_call_that_is_most_alike_decides)
{
    const struct attn_decode_desc desc = describe(32, 4, 16);
    struct bench_op b = open_op(&desc);
    static const struct {
        int32_t batch, kv_len, lists, item_cost, merge_rate;
        bool one_launch;
    } cases[] = {
        {1, 1024, 304, 0, 0, true},    {1, 1, 304, 0, 0, true},      {1, 4000, 304, 0, 0, true},
        {1, 4700, 912, 0, 16, false},  {2, 9999, 912, 0, 16, false}, {60, 1024, 608, 8, 0, false},
        {255, 1024, 608, 8, 0, false}, {300, 1024, 0, 0, 0, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct attn_decode_split s = choose(b.op, cases[i].batch, cases[i].kv_len);
        if (!s.tuned || s.lists != cases[i].lists || s.item_cost != cases[i].item_cost ||
            s.merge_rate != cases[i].merge_rate || s.one_launch != cases[i].one_launch)
            fail_msg("%d of %d keys: %d lists, item_cost %d, merge_rate %d", cases[i].batch,
                     cases[i].kv_len, s.lists, s.item_cost, s.merge_rate);
    }
    close_op(&b);
}

/* The most similar of several rows of the tuning file with equal keys per list has the call's
 * number of heads. */
TEST(heads_count)
{
    const struct attn_decode_desc few = describe(8, 1, 16), many = describe(32, 4, 16);
    struct bench_op b = open_op(&few);
    assert_int_equal(choose(b.op, 14, 1024).lists, 304);
    close_op(&b);
    b = open_op(&many);
    assert_int_equal(choose(b.op, 14, 1024).lists, 608);
    close_op(&b);
}

/* The kernel that a split needs is in the pack although the description lacks it. */
TEST(kernels_of_a_split_are_in_the_pack)
{
    struct attn_decode_desc desc = describe(8, 1, 16);
    struct bench_op b = open_op(&desc);
    desc.one_launch = choose(b.op, 1, 1024).one_launch;
    assert_true(desc.one_launch);
    close_op(&b);
    b = open_op(&desc);
    const struct attn_decode_split s = choose(b.op, 1, 1024);
    assert_true(s.one_launch); /* not tuned, so it keeps its kind */
    assert_false(s.tuned);
    const struct attn_combine_desc combine = {.size = sizeof(combine),
                                              .dtype = ATTN_BF16,
                                              .head_dim = 64,
                                              .heads = 8,
                                              .partials = ATTN_PARTIALS_CSR};
    struct attn_op *op;
    assert_int_equal(attn_combine_lookup(b.device, &combine, &op), ATTN_OK);
    attn_op_destroy(op);
    close_op(&b);
}

TEST(without_tuning_it_is_a_list_for_each_unit)
{
    const struct attn_decode_desc desc = describe(32, 4, 32);
    struct bench_op b = open_op(&desc);
    const struct attn_decode_split s = choose(b.op, 4, 4096);
    assert_false(s.tuned);
    assert_int_equal(s.lists, 304);
    assert_int_equal(s.item_cost, 0);
    assert_int_equal(s.merge_rate, 0);
    assert_false(s.one_launch);
    close_op(&b);
}

TEST(lists_that_workgroups_share_are_fewer)
{
    const struct attn_mla_decode_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 576,
        .head_dim_v = 512,
        .heads = 128,
        .q_len = 4,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = 64},
    };
    struct bench_op b = open_pack();
    assert_int_equal(attn_mla_decode_lookup(b.device, &desc, &b.op), ATTN_OK);
    const struct attn_decode_split s = choose(b.op, 4, 4096);
    assert_false(s.tuned);
    assert_int_equal(s.lists, 304 / 4);
    close_op(&b);
}

/* With up to 64 rows, workgroups share the sums of partials, so that keys may have many parts. */
TEST(few_rows_have_many_parts)
{
    struct attn_mla_decode_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 576,
        .head_dim_v = 512,
        .heads = 64,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = 64},
        .one_launch = true,
    };
    for (int rows = 64; rows <= 65; rows++) {
        struct bench_op b = open_pack();
        desc.heads = rows;
        assert_int_equal(attn_mla_decode_lookup(b.device, &desc, &b.op), ATTN_OK);
        const struct attn_decode_split s = choose(b.op, 1, 4096);
        assert_int_equal(s.item_cost, rows == 64 ? 1 : 0);
        assert_int_equal(s.merge_rate, rows == 64 ? 128 : 0);
        close_op(&b);
    }
}

/* Lists of rows are cut by units of 32 keys if there are up to 16 rows, or short lists. */
TEST(lists_of_rows_have_short_units)
{
    static const struct {
        int32_t heads, keys, unit;
    } cases[] = {{16, 640, 32}, {16, 8192, 32}, {16, 0, 32},   {17, 1024, 32},
                 {17, 1025, 0}, {17, 0, 0},     {64, 640, 32}, {65, 640, 0}};
    struct attn_mla_decode_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 512,
        .head_dim_v = 512,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = 64},
        .sparse = ATTN_SPARSE_SLOTS,
        .one_launch = true,
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench_op b = open_pack();
        desc.heads = cases[i].heads;
        assert_int_equal(attn_mla_decode_lookup(b.device, &desc, &b.op), ATTN_OK);
        const struct attn_decode_split s = choose(b.op, 4, cases[i].keys);
        assert_int_equal(s.unit_keys, cases[i].unit);
        if (s.unit_keys)
            assert_true(s.item_cost == 2 && s.merge_rate == 64);
        assert_int_equal(choose(b.op, 152, cases[i].keys).unit_keys, cases[i].unit);
        assert_int_equal(choose(b.op, 153, cases[i].keys).unit_keys, 0);
        assert_int_equal(choose(b.op, 0, cases[i].keys).unit_keys, 0); /* not known */
        close_op(&b);
    }
}

/* A tuned split has the units of its row in the tuning file. */
TEST(tuned_units_come_from_the_pack)
{
    const struct attn_mla_decode_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .heads = 16,
        .head_dim = 512,
        .head_dim_v = 512,
        .mask = ATTN_MASK_CAUSAL,
        .cache = {.page_size = 32},
        .sparse = ATTN_SPARSE_SLOTS,
        .one_launch = true,
    };
    struct bench_op b = open_pack();
    assert_int_equal(attn_mla_decode_lookup(b.device, &desc, &b.op), ATTN_OK);
    const struct attn_decode_split s = choose(b.op, 32, 640);
    assert_true(s.tuned && s.one_launch);
    assert_int_equal(s.lists, 224);
    assert_int_equal(s.unit_keys, 32);
    close_op(&b);
}

/* Plans of decode have the usual units, even if a split of its kernel in the pack names others. */
TEST(other_ops_have_usual_units)
{
    const struct attn_decode_desc desc = describe(8, 1, 16);
    struct bench_op b = open_op(&desc);
    struct attn_pack_split copies[8];
    (void)choose(b.op, 1, 16384); /* reads the records */
    for (uint32_t i = 0; i < b.op->kernel_count; i++) {
        struct attn_pack_record *const record = b.pack->records[b.op->kernels[i].number];
        assert_non_null(record);
        const uint32_t count = record->k->split_count;
        assert_in_range(count, 1, sizeof(copies) / sizeof(copies[0]));
        memcpy(copies, record->splits, count * sizeof(copies[0]));
        for (uint32_t s = 0; s < count; s++)
            copies[s].unit_keys = 16;
        record->splits = copies;
    }
    const struct attn_decode_split s = choose(b.op, 1, 16384);
    assert_true(s.tuned);
    assert_int_equal(s.lists, 912);
    assert_int_equal(s.unit_keys, 0);
    close_op(&b);
}

/* Tiles have the queries whose heads fill a workgroup: 256 / 8. */
TEST(a_planned_prefill_has_tiles)
{
    struct attn_prefill_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 64,
        .heads = 16,
        .kv_heads = 2,
        .mask = ATTN_MASK_CAUSAL,
        .paged = true,
        .planned = true,
        .cache = {.page_size = 16},
    };
    struct bench_op b = open_pack();
    assert_int_equal(attn_prefill_lookup(b.device, &desc, &b.op), ATTN_OK);
    const struct attn_decode_split s = choose(b.op, 4, 4096);
    assert_false(s.tuned);
    assert_int_equal(s.lists, 304);
    assert_int_equal(s.q_tile, 32);
    assert_int_equal(s.item_cost, 6);
    assert_int_equal(s.merge_rate, 16);
    assert_false(s.one_launch);
    const struct attn_decode_step few = {.size = sizeof(few), .batch = 2, .tokens = 17};
    struct attn_decode_split tiles = {.size = sizeof(tiles)};
    assert_int_equal(attn_decode_choose_split(b.op, &few, &tiles), ATTN_OK);
    assert_int_equal(tiles.q_tile, 32); /* there is no second kernel */
    attn_op_destroy(b.op);
    desc.one_launch = true;
    assert_int_equal(attn_prefill_lookup(b.device, &desc, &b.op), ATTN_OK);
    assert_true(choose(b.op, 4, 4096).one_launch);
    attn_op_destroy(b.op);
    desc.one_launch = desc.planned = false;
    assert_int_equal(attn_prefill_lookup(b.device, &desc, &b.op), ATTN_OK);
    const struct attn_decode_step step = {.size = sizeof(step), .batch = 1};
    struct attn_decode_split split = {.size = sizeof(split)};
    assert_int_equal(attn_decode_choose_split(b.op, &step, &split), ATTN_BAD_ARGUMENT);
    close_op(&b);
}

/* Three workgroups of 128 rows share a compute unit if queries see a small window. Each workgroup
 * has a list. Of many tiles each has a list, but there are at most two for each workgroup that the
 * device holds. */
TEST(a_small_window_has_small_tiles)
{
    static const struct {
        int32_t window, tokens, lists, q_tile;
    } cases[] = {
        {0, 40, 304, 32},
        {1, 40, 3 * 304, 16},
        {256, 40, 3 * 304, 16},
        {257, 40, 304, 32},
        {128, 0, 3 * 304, 16},
        {128, 456 * 16, 3 * 304, 16},
        {128, 456 * 16 + 1, 914, 16},
        {128, 8192, 1024, 16},
        {128, 1 << 20, 6 * 304, 16},
    };
    const struct attn_prefill_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 64,
        .heads = 16,
        .kv_heads = 2,
        .mask = ATTN_MASK_WINDOW,
        .paged = true,
        .planned = true,
        .cache = {.page_size = 16},
    };
    struct bench_op b = open_pack();
    assert_int_equal(attn_prefill_lookup(b.device, &desc, &b.op), ATTN_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        /* An op with tiles of key groups would take small ones for 40 tokens; this op has none. */
        const struct attn_decode_step step = {
            .size = sizeof(step), .batch = 2, .tokens = cases[i].tokens, .window = cases[i].window};
        struct attn_decode_split split = {.size = sizeof(split)};
        assert_int_equal(attn_decode_choose_split(b.op, &step, &split), ATTN_OK);
        assert_int_equal(split.lists, cases[i].lists);
        assert_int_equal(split.q_tile, cases[i].q_tile);
        assert_int_equal(split.item_cost, 6);
    }
    const struct attn_decode_step step = {.size = sizeof(step), .batch = 2, .window = -1};
    struct attn_decode_split split = {.size = sizeof(split)};
    refused(attn_decode_choose_split(b.op, &step, &split), ATTN_BAD_ARGUMENT, "window -1");
    close_op(&b);
}

/* Opens the pack on the fake's second GPU: gfx950 with 256 compute units. */
static struct bench_op open_second_gpu(void)
{
    struct bench_op b;
    struct fakehip *const f = fake_reset();
    struct attn_device_options o = fake_options();
    f->device_count = 2;
    f->arch[1] = "gfx950:sramecc+:xnack-";
    o.ordinal = 1;
    assert_int_equal(attn_pack_open(pack_path, &b.pack), ATTN_OK);
    assert_int_equal(attn_device_open(&b.pack, 1, &o, &b.device), ATTN_OK);
    return b;
}

/* Steps of few keys have fewer lists, which are for the kernel whose workgroups divide the query
 * heads. On gfx942 all steps have these. The second case on gfx950 has one key too many. */
TEST(steps_of_few_keys_divide_the_heads)
{
    struct attn_decode_desc desc = describe(64, 1, 16);
    desc.head_dim = 128;
    const int32_t most = (64 << 20) / (2 * 128 * 2);
    struct bench_op b = open_op(&desc);
    assert_int_equal(choose(b.op, 1, most + 1).lists, 304 / 4);
    close_op(&b);
    b = open_second_gpu();
    if (attn_decode_lookup(b.device, &desc, &b.op))
        fail_msg("%s", attn_last_error());
    assert_int_equal(choose(b.op, 1, most).lists, 256 / 4);
    assert_int_equal(choose(b.op, 1, most + 1).lists, 256);
    assert_int_equal(choose(b.op, 8, most / 8).lists, 256 / 4);
    assert_int_equal(choose(b.op, 8, 0).lists, 256);   /* the keys are not known */
    assert_int_equal(choose(b.op, 0, 128).lists, 256); /* the batch is not known */
    close_op(&b);
}

/* Small tiles have 16 tokens of 8 heads. A call takes them if it has few tiles. It also takes them
 * if a chunk has as many as there are lists, or prompts have twice as many. */
TEST(tiles_that_fill_the_lists_are_small)
{
    static const struct {
        int32_t batch, kv_len, tokens, q_tile;
    } cases[] = {
        {1, 8192, 16, 32},     {2, 8192, 17, 16},    {1, 8192, 2047, 16}, {1, 8192, 2048, 32},
        {1, 8192, 3392, 32},   {1, 8192, 3424, 16},  {1, 8192, 4096, 16}, {1, 8192, 4097, 32},
        {512, 8192, 4096, 32}, {4, 2048, 6816, 32},  {4, 2048, 6832, 16}, {1, 8192, 8192, 16},
        {1, 8193, 8193, 32},   {1, 16384, 8192, 32}, {1, 0, 4096, 32},
    };
    const struct attn_prefill_desc desc = {
        .size = sizeof(desc),
        .dtype = ATTN_BF16,
        .head_dim = 128,
        .heads = 8,
        .kv_heads = 1,
        .mask = ATTN_MASK_CAUSAL,
        .paged = true,
        .planned = true,
        .cache = {.page_size = 16},
    };
    struct bench_op b = open_second_gpu();
    if (attn_prefill_lookup(b.device, &desc, &b.op))
        fail_msg("%s", attn_last_error());
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct attn_decode_step step = {.size = sizeof(step),
                                              .batch = cases[i].batch,
                                              .kv_len = cases[i].kv_len,
                                              .tokens = cases[i].tokens};
        struct attn_decode_split split = {.size = sizeof(split)};
        assert_int_equal(attn_decode_choose_split(b.op, &step, &split), ATTN_OK);
        assert_int_equal(split.lists, 256);
        assert_int_equal(split.q_tile, cases[i].q_tile);
        assert_int_equal(split.item_cost, cases[i].q_tile == 16 ? 12 : 6);
        assert_int_equal(split.merge_rate, cases[i].q_tile == 16 ? 8 : 16);
    }
    close_op(&b);
}

TEST(bad_calls_are_refused)
{
    const struct attn_decode_desc desc = describe(32, 4, 16);
    struct bench_op b = open_op(&desc);
    struct attn_decode_step step = {.size = sizeof(step), .batch = 1, .kv_len = -1};
    struct attn_decode_split split = {.size = sizeof(split)};
    refused(attn_decode_choose_split(b.op, &step, &split), ATTN_BAD_ARGUMENT,
            "batch 1, kv_len -1, tokens 0");
    step.size = 4;
    refused(attn_decode_choose_split(b.op, &step, &split), ATTN_BAD_ARGUMENT, "step.size is 4");
    refused(attn_decode_choose_split(NULL, &step, &split), ATTN_BAD_ARGUMENT, "op is NULL");
    close_op(&b);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    pack_path = argv[1];
    return run_unit_tests();
}
