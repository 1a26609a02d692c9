/* SPDX-License-Identifier: Apache-2.0 */
/* Tests in which launches libattn computes gated_delta_prefill, and the memory for them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { UNITS_MI300X = 304, UNITS_MI308X = 80, K = 128, V = 64 };

static struct attn_gated_delta_prefill_desc layer(enum attn_decay decay, int32_t value_heads)
{
    return (struct attn_gated_delta_prefill_desc){.size =
                                                      sizeof(struct attn_gated_delta_prefill_desc),
                                                  .head_dim = K,
                                                  .head_dim_v = V,
                                                  .heads = 1,
                                                  .value_heads = value_heads,
                                                  .decay = decay};
}

static struct attn_gated_delta_prefill_launches choose_on(
    const char *target, const struct attn_gated_delta_prefill_desc *d, int32_t batch,
    int32_t tokens, int32_t units)
{
    const struct attn_gated_delta_prefill_shape s = {.size = sizeof(s),
                                                     .batch = batch,
                                                     .tokens = batch * tokens,
                                                     .max_seqlen = tokens,
                                                     .compute_units = units,
                                                     .target = target};
    struct attn_gated_delta_prefill_launches found;
    assert_int_equal(attn_gated_delta_prefill_plan(d, &s, &found), ATTN_OK);
    return found;
}

static struct attn_gated_delta_prefill_launches choose(
    const struct attn_gated_delta_prefill_desc *d, int32_t batch, int32_t tokens, int32_t units)
{
    return choose_on("gfx942", d, batch, tokens, units);
}

static void one_launch(struct attn_gated_delta_prefill_launches l)
{
    assert_int_equal(l.chunk_rows, 0);
    assert_int_equal(l.segment_rows, 0);
    assert_int_equal(l.segment_tokens, 0);
    assert_int_equal(l.chunk_bytes + l.segment_bytes, 0);
}

TEST(sequences_that_fill_the_gpu_take_one_launch)
{
    const struct attn_gated_delta_prefill_desc d = layer(ATTN_DECAY_HEAD, 4);
    one_launch(choose(&d, 64, 256, UNITS_MI300X));
    one_launch(choose(&d, 1, 64, UNITS_MI300X));
    one_launch(choose(&d, 0, 4096, UNITS_MI300X));
    one_launch(choose(&d, 4, 0, UNITS_MI300X));
}

/* 12 heads of 8 prompts are 96 wide workgroups, which take two rounds on 80 compute units. That is
 * 1,137 us, modelled, in one launch, and 938 in three. 4 heads of 8 prompts have narrow workgroups:
 * 215 us in one launch, and 232 in three. */
TEST(small_parts_have_launches_of_their_own)
{
    struct attn_gated_delta_prefill_desc channel = layer(ATTN_DECAY_CHANNEL, 12);
    struct attn_gated_delta_prefill_desc head = layer(ATTN_DECAY_HEAD, 4);
    channel.head_dim_v = head.head_dim_v = 128;
    const struct attn_gated_delta_prefill_launches l = choose(&channel, 8, 2048, UNITS_MI308X);
    assert_int_equal(l.chunk_rows, (8 * 2048 - 1) / 64 + 8);
    assert_int_equal(l.segment_tokens, 0);
    one_launch(choose(&head, 8, 2048, UNITS_MI308X));
}

/* The bytes follow from the dimensions in the schema. */
TEST(memory_is_that_of_all_rows)
{
    const struct attn_gated_delta_prefill_desc head = layer(ATTN_DECAY_HEAD, 4);
    const struct attn_gated_delta_prefill_desc channel = layer(ATTN_DECAY_CHANNEL, 4);
    struct attn_gated_delta_prefill_launches l = choose(&head, 1, 16384, UNITS_MI300X);
    assert_int_equal(l.chunk_rows, 16384 / 64);
    assert_int_equal(l.chunk_bytes,
                     (size_t)l.chunk_rows * 4 * 4 * (2756 + 32 * K + 32 * V + K * V / 2));
    assert_int_equal(l.segment_tokens % 64, 0);
    assert_in_range(l.segment_tokens, 64, 8192);
    assert_int_equal(l.segment_rows, 16383 / l.segment_tokens + 1);
    assert_int_equal(l.segment_bytes, (size_t)l.segment_rows * 4 * 4 * K * (V + K / 2));
    l = choose(&channel, 1, 16384, UNITS_MI300X);
    assert_int_equal(l.chunk_bytes,
                     (size_t)l.chunk_rows * 4 * 4 * (2752 + 97 * K + 32 * V + K * V / 2));
}

TEST(more_sequences_are_cut_less)
{
    const struct attn_gated_delta_prefill_desc d = layer(ATTN_DECAY_CHANNEL, 12);
    const struct attn_gated_delta_prefill_launches one = choose(&d, 1, 32768, UNITS_MI300X);
    const struct attn_gated_delta_prefill_launches few = choose(&d, 1, 32768, UNITS_MI308X);
    const struct attn_gated_delta_prefill_launches many = choose(&d, 16, 2048, UNITS_MI300X);
    assert_true(one.segment_tokens > 0);
    assert_true(few.segment_tokens == 0 || few.segment_tokens > one.segment_tokens);
    assert_int_equal(many.segment_tokens, 0);
    assert_int_equal(many.segment_bytes, 0);
    assert_int_equal(many.segment_rows, 0);
}

/* A chunk of the scan costs less relative to a fold on MI355X than on MI300X, so MI355X has longer
 * segments. A target without costs of its own has the costs of gfx942. */
TEST(targets_have_costs_of_their_own)
{
    enum { UNITS = 256 };
    struct attn_gated_delta_prefill_desc d = layer(ATTN_DECAY_HEAD, 4);
    d.head_dim_v = 128;
    const int32_t first = choose_on("gfx942", &d, 1, 16384, UNITS).segment_tokens;
    assert_true(choose_on("gfx950", &d, 1, 16384, UNITS).segment_tokens > first);
    assert_int_equal(choose_on("gfx1250", &d, 1, 16384, UNITS).segment_tokens, first);
    assert_int_equal(choose_on(NULL, &d, 1, 16384, UNITS).segment_tokens, first);
}

TEST(memory_may_be_limited)
{
    const struct attn_gated_delta_prefill_desc d = layer(ATTN_DECAY_HEAD, 4);
    struct attn_gated_delta_prefill_shape s = {.size = sizeof(s),
                                               .batch = 1,
                                               .tokens = 16384,
                                               .max_seqlen = 16384,
                                               .compute_units = UNITS_MI300X};
    const struct attn_gated_delta_prefill_launches any = choose(&d, 1, 16384, UNITS_MI300X);
    struct attn_gated_delta_prefill_launches found;
    s.bytes_most = any.chunk_bytes + any.segment_bytes;
    assert_int_equal(attn_gated_delta_prefill_plan(&d, &s, &found), ATTN_OK);
    assert_int_equal(found.chunk_bytes, any.chunk_bytes);
    assert_int_equal(found.segment_tokens, any.segment_tokens);
    s.bytes_most--;
    assert_int_equal(attn_gated_delta_prefill_plan(&d, &s, &found), ATTN_OK);
    one_launch(found);
}

TEST(numbers_out_of_range_are_refused)
{
    struct attn_gated_delta_prefill_desc d = layer(ATTN_DECAY_HEAD, 0);
    struct attn_gated_delta_prefill_shape s = {.size = sizeof(s),
                                               .batch = 1,
                                               .tokens = 1024,
                                               .max_seqlen = 1024,
                                               .compute_units = UNITS_MI300X};
    struct attn_gated_delta_prefill_launches found;
#define REFUSED(text) \
    refused(attn_gated_delta_prefill_plan(&d, &s, &found), ATTN_BAD_ARGUMENT, text)
    REFUSED("value_heads 0 is below 1");
    d = layer(ATTN_DECAY_HEAD, 4);
    d.head_dim = 257;
    REFUSED("head_dim 257");
    d.head_dim = K;
    d.decay = (enum attn_decay)2;
    REFUSED("decay 2 is unknown");
    d.decay = ATTN_DECAY_HEAD;
    s.batch = 65536;
    REFUSED("batch 65536 is not in 0 to 65535");
    s.batch = 1;
    s.tokens = -1;
    REFUSED("tokens -1 is negative");
    s.tokens = 1;
    s.compute_units = 4097;
    REFUSED("compute_units 4097 is not in 1 to 4096");
    s.compute_units = 1;
    s.size = 1;
    REFUSED("gated_delta_prefill: shape.size is 1");
#undef REFUSED
    s.size = sizeof(s);
    assert_int_equal(attn_gated_delta_prefill_plan(NULL, &s, &found), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_gated_delta_prefill_plan(&d, NULL, &found), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_gated_delta_prefill_plan(&d, &s, NULL), ATTN_BAD_ARGUMENT);
}

int main(void) { return run_unit_tests(); }
