/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tests the errors of libattn for wrong calls of ops with recurrent states, and what
 * ATTN_CHECK_DATA finds in their slots and spans. It calls the families' functions, without a
 * kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/op.h"
#include "tests/runtime/fixture.h"
#include "tests/unit_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static _Alignas(64) char memory[64];

static const struct attn_gated_delta_desc delta = {
    .size = sizeof(delta),
    .dtype = ATTN_BF16,
    .head_dim = 128,
    .heads = 2,
    .value_heads = 4,
};

static struct attn_gated_delta_args delta_args(void)
{
    void *m = memory;
    return (struct attn_gated_delta_args){
        .size = sizeof(struct attn_gated_delta_args),
        .stream = FAKE_STREAM,
        .q = m,
        .k = m,
        .v = m,
        .gate_in = m,
        .beta_in = m,
        .state = m,
        .state_slots = m,
        .records = m,
        .out = m,
        .tokens = 4,
        .batch = 2,
        .max_seqlen = 2,
        .state_steps = 2,
        .scale = 1,
    };
}

static void expect(const struct attn_family *family, const void *desc, const void *args,
                   const char *text)
{
    union attn_desc normal;
    struct attn_call call;
    int r = family->normalise(desc, &normal);
    if (!r)
        r = family->fill(&normal, args, &call);
    refused(r, ATTN_BAD_ARGUMENT, text);
}

TEST(steps_have_slots)
{
    const struct attn_family *f = &attn_family_gated_delta;
    struct attn_gated_delta_args a = delta_args();
    expect(f, &delta, &a, NULL);
    a.max_seqlen = 3;
    expect(f, &delta, &a, "max_seqlen is above state_steps");
    a.state_steps = 0;
    expect(f, &delta, &a, "state_steps is not 1 to 65535");
    a.state_steps = 1;
    a.tokens = 5;
    expect(f, &delta, &a, "cu_seqlens is NULL, tokens is below batch * max_seqlen");
    a.tokens = 6;
    expect(f, &delta, &a, NULL);
    struct attn_gated_delta_desc d = delta;
    d.replay = true;
    a.record_steps = 2;
    expect(f, &d, &a, "max_seqlen is above record_steps");
    a.record_steps = 3;
    expect(f, &d, &a, NULL);
    a.state_steps = 4;
    expect(f, &d, &a, "state_steps is above 1");
    d.tree = true;
    a.parents = (void *)memory;
    expect(f, &d, &a, "desc.replay and desc.tree are set");
    d.replay = false;
    expect(f, &d, &a, NULL);
    a.state_steps = 1;
    expect(f, &d, &a, "max_seqlen is above state_steps");
    a.parents = NULL;
    expect(f, &d, &a, "parents is NULL");
    d.tree = false;
    d.value_heads = 3;
    expect(f, &d, &a, "value_heads 3 is no multiple of heads 2");
    d.value_heads = 4;
    d.head_dim = 96;
    expect(f, &d, &a, "head_dim 96 is not 64, 128 or 256");
}

static struct attn_gated_delta_step_args step_args(void)
{
    void *m = memory;
    return (struct attn_gated_delta_step_args){
        .size = sizeof(struct attn_gated_delta_step_args),
        .stream = FAKE_STREAM,
        .x = m,
        .conv_weight = m,
        .conv_state = m,
        .gate_in = m,
        .beta_in = m,
        .state = m,
        .state_slots = m,
        .z = m,
        .weight = m,
        .out = m,
        .batch = 2,
        .tokens = 6,
        .max_seqlen = 3,
        .state_steps = 4,
        .conv_columns = 6,
        .scale = 1,
    };
}

static const struct attn_gated_delta_step_desc step = {
    .size = sizeof(step),
    .dtype = ATTN_BF16,
    .head_dim = 128,
    .taps = 4,
    .heads = 1,
    .value_heads = 2,
    .act = ATTN_ACT_SILU,
    .drafts = true,
};

TEST(drafts_have_columns_and_slots)
{
    const struct attn_family *f = &attn_family_gated_delta_step;
    struct attn_gated_delta_step_args a = step_args();
    struct attn_gated_delta_step_desc d = step;
    expect(f, &d, &a, NULL);
    a.conv_columns = 5;
    expect(f, &d, &a, "conv_columns is below taps - 2 + state_steps");
    a = step_args();
    a.state_steps = 2;
    expect(f, &d, &a, "max_seqlen is above state_steps");
    a = step_args();
    a.tokens = 5;
    expect(f, &d, &a, "tokens is below batch * max_seqlen");
    a = step_args();
    a.max_seqlen = 9;
    expect(f, &d, &a, "max_seqlen is not 0 to 8");
    a = step_args();
    d.out_dtype = ATTN_FP8;
    expect(f, &d, &a, "out_scale is NULL");
    d.head_dim_v = 64;
    expect(f, &d, &a, "head_dim_v 64 is not a multiple of 128");
}

TEST(prompts_have_counts_and_a_bound)
{
    const struct attn_family *f = &attn_family_gated_delta_prefill;
    void *m = memory;
    struct attn_gated_delta_prefill_desc d = {.size = sizeof(d),
                                              .dtype = ATTN_BF16,
                                              .head_dim = 128,
                                              .heads = 2,
                                              .value_heads = 4,
                                              .gates = ATTN_GATES_BOUNDED};
    struct attn_gated_delta_prefill_args a = {.size = sizeof(a),
                                              .stream = FAKE_STREAM,
                                              .q = m,
                                              .k = m,
                                              .v = m,
                                              .gate_in = m,
                                              .beta_in = m,
                                              .state = m,
                                              .state_slots = m,
                                              .out = m,
                                              .tokens = 128,
                                              .batch = 2,
                                              .max_seqlen = 64,
                                              .scale = 1,
                                              .lower_bound = -5};
    expect(f, &d, &a, NULL);
    a.max_seqlen = 65;
    expect(f, &d, &a, "cu_seqlens is NULL, tokens is below batch * max_seqlen");
    a.max_seqlen = 64;
    a.lower_bound = 0.5f;
    expect(f, &d, &a, "lower_bound is positive or not finite");
    a.lower_bound = -5;
    a.gate_in = memory + 2;
    expect(f, &d, &a, NULL);
    d.decay = ATTN_DECAY_CHANNEL;
    expect(f, &d, &a, "gates or their stride are not aligned to 16 bytes");
    d.value_heads = 3;
    expect(f, &d, &a, "value_heads 3 is no multiple of heads 2");
    d.value_heads = 4;
    d.head_dim = 256;
    expect(f, &d, &a, "head_dim");
}

TEST(gates_are_aligned_and_bounded)
{
    const struct attn_family *f = &attn_family_gated_delta;
    struct attn_gated_delta_args a = delta_args();
    struct attn_gated_delta_desc d = delta;
    a.gate_in = memory + 2;
    expect(f, &d, &a, NULL);
    d.decay = ATTN_DECAY_CHANNEL;
    expect(f, &d, &a, "gates or their stride are not aligned to 16 bytes");
    a.gate_in = memory;
    a.gate_in_token_stride = 516;
    expect(f, &d, &a, "gates or their stride are not aligned to 16 bytes");
    a.gate_in_token_stride = 520;
    expect(f, &d, &a, NULL);
    d.gates = ATTN_GATES_BOUNDED;
    a.lower_bound = 1;
    expect(f, &d, &a, "lower_bound is positive or not finite");
    d.gates = ATTN_GATES_CONSTANT;
    expect(f, &d, &a, "gates 3 is none of ATTN_GATES_SOFTPLUS");
}

TEST(windows_have_columns)
{
    const struct attn_family *f = &attn_family_conv1d;
    const struct attn_conv1d_desc d = {
        .size = sizeof(d), .dtype = ATTN_BF16, .taps = 4, .channels = 192};
    void *m = memory;
    struct attn_conv1d_args a = {
        .size = sizeof(a),
        .stream = FAKE_STREAM,
        .x = m,
        .weight = m,
        .state = m,
        .state_slots = m,
        .out = m,
        .tokens = 8,
        .batch = 2,
        .max_seqlen = 4,
        .state_columns = 2,
        .out_channels = 192,
    };
    expect(f, &d, &a, "state_columns is below taps - 1");
    a.state_columns = 5;
    expect(f, &d, &a, NULL);
    a.accepted = m;
    expect(f, &d, &a, "state_columns is below taps - 2 + max_seqlen");
    a.state_columns = 6;
    expect(f, &d, &a, NULL);
    a.state_channel_stride = INT32_MAX / 512 / 2; /* a wave reaches 256 channels within 2 GiB */
    expect(f, &d, &a, NULL);
    a.state_channel_stride++;
    expect(f, &d, &a, "state_channel_stride");
    a.state_channel_stride = 0;
    a.q_channels = 64;
    expect(f, &d, &a, "do not add up to channels");
    a.out_channels = 128;
    expect(f, &d, &a, "q_channels is positive, q_out is NULL");
    a.q_out = m;
    expect(f, &d, &a, NULL);
    a.q_channels = 0;
    a.out_channels = 192;
    a.accepted = NULL;
    a.tokens = 66;
    a.max_seqlen = 33;
    expect(f, &d, &a, "the first output is x, max_seqlen is above 32");
}

static void check(const struct attn_family *family, const struct attn_op *op, const void *args,
                  const char *text)
{
    refused(family->check_data(op, args), ATTN_BAD_DATA, text);
}

/* The check finds wrong slots of blocks. Two sequences have two blocks each. */
TEST(slots_of_blocks_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_op op = {.device = b.device};
    const struct attn_family *f = &attn_family_conv1d;
    int32_t slots[] = {1, 2}, blocks[] = {3, 4, -1, 5};
    struct attn_conv1d_args a = {.size = sizeof(a),
                                 .stream = FAKE_STREAM,
                                 .batch = 2,
                                 .state_slots = slots,
                                 .block_slots = blocks,
                                 .block_tokens = 64,
                                 .block_columns = 2,
                                 .state_slot_count = 6};
    check(f, &op, &a, NULL);
    blocks[3] = 3;
    check(f, &op, &a, "block_slots has slot 3 twice");
    blocks[3] = 6;
    check(f, &op, &a, "block_slots[1] is 6, the state has 6 slots");
    a.block_slots = NULL;
    check(f, &op, &a, NULL);
    close_bench(&b);
}

/* The fake's device memory is the host's. */
TEST(slots_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_op op = {.device = b.device, .desc.gated_delta = delta};
    const struct attn_family *f = &attn_family_gated_delta;
    /* Slots of two steps of two sequences. A sequence's slots are every third entry of a row of
     * seven. No other entry is read. */
    int32_t slots[] = {1, 9, 9, 2, 9, 9, 9, 3, 9, 9, -1}, in[] = {1, 1, 0, 5};
    struct attn_gated_delta_args a = delta_args();
    a.state_slots = slots;
    a.state_slots_sequence_stride = 7;
    a.state_slots_step_stride = 3;
    a.state_slot_count = 6;
    check(f, &op, &a, NULL);
    slots[10] = 6;
    check(f, &op, &a, "state_slots[1] is 6, the state has 6 slots");
    slots[10] = 2;
    check(f, &op, &a, "state_slots has slot 2 twice");
    slots[3] = slots[10] = 0;
    check(f, &op, &a, "state_slots has slot 0 twice");
    a.first_slot = 1;
    check(f, &op, &a, NULL);
    a.state_slots_sequence_stride = 0; /* rows of 6 entries */
    check(f, &op, &a, "state_slots[1] is 9, the state has 6 slots");
    a.state_slots_sequence_stride = 7;
    a.state_slots_in = in;
    check(f, &op, &a, NULL);
    in[3] = 7;
    check(f, &op, &a, "state_slots_in[1] is 7, the state has 6 slots");
    in[3] = 1;
    int32_t accepted[] = {0, 3};
    a.accepted = accepted;
    check(f, &op, &a, "accepted[1] is 3, not 0 to 2");
    close_bench(&b);
}

TEST(slots_of_drafts_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_family *f = &attn_family_gated_delta_step;
    struct attn_op op = {.device = b.device, .desc.gated_delta_step = step};
    int32_t slots[] = {1, 2, 3, 4, 5, 6, 7, 5};
    struct attn_gated_delta_step_args a = step_args();
    a.state_slots = slots;
    a.state_slot_count = 8;
    check(f, &op, &a, "state_slots has slot 5 twice");
    slots[7] = 8;
    check(f, &op, &a, "state_slots[1] is 8, the state has 8 slots");
    op.desc.gated_delta_step.drafts = false; /* a list: slots 1 and 2 */
    check(f, &op, &a, NULL);
    close_bench(&b);
}

TEST(parents_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_family *f = &attn_family_gated_delta;
    struct attn_op op = {.device = b.device, .desc.gated_delta = delta};
    int32_t slots[] = {1, 2, 3, 4}, parents[] = {-1, 0, 9, 0}, starts[] = {0, 2, 3};
    struct attn_gated_delta_args a = delta_args();
    a.state_slots = slots;
    a.parents = parents;
    op.desc.gated_delta.tree = true;
    check(f, &op, &a, NULL);
    parents[3] = 1;
    check(f, &op, &a, "parents of token 1 of sequence 1 is 1, not 0 to 0");
    a.cu_seqlens = starts;
    check(f, &op, &a, NULL);
    parents[1] = -1;
    check(f, &op, &a, "parents of token 1 of sequence 0 is -1, not 0 to 0");
    op.desc.gated_delta.tree = false;
    check(f, &op, &a, NULL);
    close_bench(&b);
}

TEST(spans_are_checked_on_request)
{
    fake_reset();
    static const struct made none[] = {{.name = "of another op"}};
    struct bench b = open_bench(none, 1);
    const struct attn_op op = {.device = b.device};
    const struct attn_family *f = &attn_family_state_copy;
    int64_t spans[] = {0, 64, 32, -16, 8, 5, 96, 16, 32};
    struct attn_state_copy_args a = {
        .size = sizeof(a),
        .stream = FAKE_STREAM,
        .source = (void *)memory,
        .target = (void *)memory,
        .spans = spans,
        .span_count = 3,
        .max_bytes = 32,
        .source_bytes = 128,
        .target_bytes = 96,
    };
    check(f, &op, &a, NULL);
    static const struct {
        int at, value;
        const char *text;
    } wrong[] = {
        {0, 8, "no multiple of 16"},
        {2, 24, "no multiple of 16"},
        {2, 48, "spans has 48 bytes, max_bytes is 32"},
        {6, 112, "spans has 32 bytes at 112, there are 128"},
        {1, 80, "spans has 32 bytes at 80, there are 96"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const int64_t right = spans[wrong[i].at];
        spans[wrong[i].at] = wrong[i].value;
        check(f, &op, &a, wrong[i].text);
        spans[wrong[i].at] = right;
    }
    close_bench(&b);
}

TEST(rings_have_windows)
{
    const struct attn_family *f = &attn_family_compress;
    struct attn_compress_desc d = {.size = sizeof(d),
                                   .dtype = ATTN_BF16,
                                   .head_dim = 128,
                                   .rope = ATTN_ROPE_GPTJ,
                                   .rotary_dim = 64,
                                   .row_dtype = ATTN_FP8};
    void *m = memory;
    struct attn_compress_args a = {
        .size = sizeof(a),
        .stream = FAKE_STREAM,
        .x = m,
        .state = m,
        .state_slots = m,
        .context_lens = m,
        .cos_sin = m,
        .slot_mapping = m,
        .pool = m,
        .tokens = 8,
        .batch = 2,
        .max_seqlen = 4,
        .ring = 4,
        .rotary_first = 64,
        .page_size = 16,
        .page_stride = 132 * 16,
    };
    expect(f, &d, &a, "ratio is not positive");
    a.ratio = 4;
    expect(f, &d, &a, NULL);
    a.overlap = true;
    expect(f, &d, &a, "ring is below ratio, or with overlap below 2 ratio");
    a.ring = 8;
    expect(f, &d, &a, NULL);
    a.scores = m;
    expect(f, &d, &a, "state_scores");
    a.state_scores = m;
    a.rotary_first = 96;
    expect(f, &d, &a, "rotary_first is no multiple of rotary_dim below head_dim");
    a.rotary_first = 128;
    expect(f, &d, &a, "rotary_first is no multiple of rotary_dim below head_dim");
    a.rotary_first = 0;
    a.page_stride -= 16;
    expect(f, &d, &a, "page_stride is below the bytes of a page's rows and scales");
    a.page_stride += 32;
    a.max_seqlen = 5;
    expect(f, &d, &a, "tokens is below batch * max_seqlen");
    d.layout = ATTN_KV_SHUFFLE;
    d.head_dim = 256;
    expect(f, &d, &a, "layout is ATTN_KV_SHUFFLE, head_dim 256 is not 128");
    d.rotary_dim = 48;
    expect(f, &d, &a, "rotary_dim 48 is above head_dim or no power of two");
}

int main(void) { return run_unit_tests(); }
