/* SPDX-License-Identifier: Apache-2.0 */
/* Tests into which segments libattn cuts the sequences of ssd_prefill, and the memory for them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/attn.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

enum { UNITS_MI300X = 304, UNITS_MI308X = 80, HEADS = 16, N = 128, P = 64 };

static struct attn_ssd_prefill_desc rank(void)
{
    return (struct attn_ssd_prefill_desc){.size = sizeof(struct attn_ssd_prefill_desc),
                                          .head_dim = N,
                                          .head_dim_v = P,
                                          .heads = 1,
                                          .value_heads = HEADS};
}

static struct attn_ssd_prefill_segments choose_on(const char *target, int32_t batch, int32_t tokens,
                                                  int32_t units)
{
    const struct attn_ssd_prefill_desc d = rank();
    const struct attn_ssd_prefill_shape s = {.size = sizeof(s),
                                             .batch = batch,
                                             .max_seqlen = tokens,
                                             .compute_units = units,
                                             .target = target};
    struct attn_ssd_prefill_segments found;
    assert_int_equal(attn_ssd_prefill_plan(&d, &s, &found), ATTN_OK);
    return found;
}

static struct attn_ssd_prefill_segments choose(int32_t batch, int32_t tokens, int32_t units)
{
    return choose_on("gfx942", batch, tokens, units);
}

static void whole(struct attn_ssd_prefill_segments s)
{
    const struct attn_ssd_prefill_segments none = {0};
    assert_memory_equal(&s, &none, sizeof(s));
}

TEST(sequences_that_fill_the_gpu_are_not_cut)
{
    whole(choose(64, 256, UNITS_MI300X));
    whole(choose(64, 16384, UNITS_MI300X));
    whole(choose(10, 2048, UNITS_MI308X));
    whole(choose(1, 64, UNITS_MI300X));
    whole(choose(0, 16384, UNITS_MI300X));
    whole(choose(4, 0, UNITS_MI300X));
}

/* A sequence of 16 heads: 19 segments give 304 compute units one workgroup each. */
TEST(few_long_sequences_are_cut)
{
    const struct attn_ssd_prefill_segments s = choose(1, 16384, UNITS_MI300X);
    const int32_t segments = (16384 + s.segment_tokens - 1) / s.segment_tokens;
    assert_int_equal(s.segment_tokens % 64, 0);
    assert_in_range(segments, 12, 19);
    assert_int_equal(s.segment_rows, segments);
    assert_int_equal(s.state_bytes, (size_t)segments * HEADS * N * P * 4);
    assert_int_equal(s.sum_bytes, (size_t)segments * HEADS * 4);
}

TEST(fewer_compute_units_get_longer_segments)
{
    const struct attn_ssd_prefill_segments few = choose(1, 16384, UNITS_MI308X);
    const struct attn_ssd_prefill_segments many = choose(1, 16384, UNITS_MI300X);
    assert_true(few.segment_tokens > many.segment_tokens);
    assert_in_range(few.segment_rows, 8, 12);
}

/* Each sequence has the rows of the longest one. */
TEST(rows_are_those_of_all_sequences)
{
    const struct attn_ssd_prefill_segments s = choose(3, 5000, UNITS_MI300X);
    assert_true(s.segment_tokens > 0);
    assert_int_equal(s.segment_rows, 3 * ((5000 + s.segment_tokens - 1) / s.segment_tokens));
}

/* A chunk takes half as long on MI355X as on MI300X, and a launch about as long. So a prompt of
 * 1,536 tokens has fewer segments on MI355X. */
TEST(targets_have_costs_of_their_own)
{
    const int32_t first = choose_on("gfx942", 1, 1536, 256).segment_tokens;
    assert_true(first > 0);
    assert_true(choose_on("gfx950", 1, 1536, 256).segment_tokens > first);
    assert_int_equal(choose_on(NULL, 1, 1536, 256).segment_tokens, first);
}

TEST(numbers_out_of_range_are_refused)
{
    struct attn_ssd_prefill_desc d = rank();
    struct attn_ssd_prefill_shape s = {
        .size = sizeof(s), .batch = 1, .max_seqlen = 1024, .compute_units = UNITS_MI300X};
    struct attn_ssd_prefill_segments found;
#define REFUSED(text) refused(attn_ssd_prefill_plan(&d, &s, &found), ATTN_BAD_ARGUMENT, text)
    d.value_heads = 0;
    REFUSED("value_heads 0 is below 1");
    d = rank();
    d.head_dim = 257;
    REFUSED("head_dim 257");
    d = rank();
    s.batch = 65536;
    REFUSED("batch 65536 is not in 0 to 65535");
    s.batch = 1;
    s.max_seqlen = -1;
    REFUSED("max_seqlen -1 is negative");
    s.max_seqlen = 1;
    s.compute_units = 4097;
    REFUSED("compute_units 4097 is not in 1 to 4096");
    s.compute_units = 1;
    s.size = 1;
    REFUSED("ssd_prefill: shape.size is 1");
#undef REFUSED
    s.size = sizeof(s);
    assert_int_equal(attn_ssd_prefill_plan(NULL, &s, &found), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_ssd_prefill_plan(&d, NULL, &found), ATTN_BAD_ARGUMENT);
    assert_int_equal(attn_ssd_prefill_plan(&d, &s, NULL), ATTN_BAD_ARGUMENT);
}

int main(void) { return run_unit_tests(); }
