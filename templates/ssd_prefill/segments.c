/* SPDX-License-Identifier: Apache-2.0
 *
 * This file divides sequences in segments: few long sequences would leave most compute units
 * without a workgroup. One launch computes, for each segment, the state B that its tokens make from
 * a state of zeros. The next launch computes the state before a segment by S = exp(sum of g) S + B,
 * over earlier segments.
 *
 * segment_states has a row of states for each segment. The row of a sequence's first segment has
 * the state before the sequence, which the second launch may overwrite in the pool. The row of each
 * other segment has B of the segment before it.
 */
#include "templates/linear/blocks.h"
#include "templates/ssd_prefill/ssd_prefill.h"

/* Returns the sequence's entry (i32, a slot of the pool) of array argument `arg`. The argument
 * named `stride` has the distance of two entries, in elements. */
static struct tir_value slot_of(struct ssd_prefill *s, const char *arg, const char *stride)
{
    return att_strided_entry(&s->b, arg, stride, s->sequence.index);
}

/* Sets the sequence, the segment and the segment's tokens from the workgroup's index in z of the
 * grid. */
static void find_segment(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value segments = tir_arg(b, ARG_SEGMENT_COUNT, TIR_I32);
    const struct tir_value tokens = tir_arg(b, ARG_SEGMENT_TOKENS, TIR_I32);
    s->segment_row = tir_block_id(b, 2);
    const struct tir_value sequence = tir_div(b, s->segment_row, segments);
    s->segment = tir_sub(b, s->segment_row, tir_mul(b, sequence, segments));
    s->sequence = att_sequence_of_prompt(b, sequence);
    s->first_token = tir_add(b, s->sequence.start, tir_mul(b, s->segment, tokens));
    s->end = tir_min(b, tir_add(b, s->first_token, tokens), s->sequence.end);
}

void ssd_choose_tokens(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    if (s->v->segments != ATT_SEGMENTS_NONE) {
        find_segment(s);
    } else {
        s->sequence = att_sequence_of_prompt(b, tir_block_id(b, 2));
        s->first_token = s->sequence.start;
        s->end = s->sequence.end;
    }
    if (ssd_has_outputs(s))
        s->block_row = att_block_row(b, &s->sequence);
    s->real = att_is_slot(b, slot_of(s, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE));
}

/* Returns the address (i64) of the value head's state in row `row` (i32) of segment_states. */
static struct tir_value entry_at(struct ssd_prefill *s, struct tir_value row)
{
    return att_value_head_row(&s->b, ARG_SEGMENT_STATES, row, s->value_head,
                              s->entry.key * s->entry.value * s->entry.size);
}

/* Returns the address (i64) of the value head's element in row `row` (i32) of segment_sums, which
 * has sums of g log2(e). */
static struct tir_value sum_at(struct ssd_prefill *s, struct tir_value row)
{
    return att_value_head_row(&s->b, ARG_SEGMENT_SUMS, row, s->value_head, SSD_FLOAT);
}

/* Loads the workgroup's part of the value head's state in row `row` (i32) of segment_states, as a
 * tile of N (head_dim) x values. */
static struct tir_value load_entry(struct ssd_prefill *s, struct tir_value row)
{
    return tir_transpose(&s->b,
                         att_state_load(&s->b, &s->entry, entry_at(s, row), s->first, s->real));
}

/* Loads the workgroup's part of the state with which the sequence begins, as a tile of N x values;
 * zeros if the sequence begins without a state. */
static struct tir_value load_from_slot(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value slot =
        slot_of(s, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE);
    const struct tir_value base = att_state_at(b, &s->state, slot, s->value_head);
    return tir_transpose(b, att_state_load(b, &s->state, base, s->first,
                                           tir_and(b, s->real, s->sequence.has_state)));
}

/* Returns the state before the segment: applies the rows of segment_states and segment_sums of all
 * earlier segments of the sequence, in order, to the sequence's first state. */
static struct tir_value fold_segments(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value row = tir_sub(b, s->segment_row, s->segment);
    struct tir_value state = load_entry(s, row);
    const struct tir_value end = tir_select(b, s->real, s->segment_row, row);
    struct tir_loop loop = tir_begin_for(b, row, end, tir_i32(b, 1), &state, 1);
    const struct tir_value made = load_entry(s, att_plus(b, loop.index, 1));
    const struct tir_value sum = tir_scalar_load(b, sum_at(s, loop.index), tir_i32(b, 0), TIR_F32);
    const struct tir_value decay = att_like(b, tir_exp2(b, sum), state);
    state = tir_fma(b, state, decay, made);
    tir_end_for(b, &loop, &state, 1);
    return state;
}

struct tir_value ssd_first_state(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    switch (s->v->segments) {
    case ATT_SEGMENTS_STATES: {
        const struct tir_layout state = tir_layout_transpose(tir_layout_of(b->f, s->state.tile));
        return tir_splat(b, tir_f32(b, 0),
                         tir_tile(b->f, TIR_F32, (unsigned)s->state.key, s->values, &state));
    }
    case ATT_SEGMENTS_OUTPUTS: return fold_segments(s);
    default: return load_from_slot(s);
    }
}

void ssd_store_last_state(struct ssd_prefill *s, struct tir_value state)
{
    struct tir_builder *b = &s->b;
    const struct tir_value slot = slot_of(s, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE);
    struct tir_value there = tir_and(b, s->real, att_is_slot(b, slot));
    if (s->v->segments != ATT_SEGMENTS_NONE)
        there = tir_and(b, there, tir_cmp_eq(b, s->end, s->sequence.end));
    att_state_store(b, &s->state, att_state_at(b, &s->state, slot, s->value_head), s->first, there,
                    tir_transpose(b, state));
}

void ssd_store_block_state(struct ssd_prefill *s, struct tir_value after, struct tir_value state)
{
    struct tir_builder *b = &s->b;
    struct att_block_end end = att_begin_block_end(b, &s->sequence, s->block_row, after);
    att_state_store(b, &s->state, att_state_at(b, &s->state, end.slot, s->value_head), s->first,
                    s->real, tir_transpose(b, state));
    att_finish_block_end(b, &end);
}

void ssd_share_first_state(struct ssd_prefill *s)
{
    struct tir_builder *b = &s->b;
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, s->segment, tir_i32(b, 0)));
    const struct tir_value state = load_from_slot(s);
    att_state_store(b, &s->entry, entry_at(s, s->segment_row), s->first, s->real,
                    tir_transpose(b, state));
    tir_end_if(b, &first, NULL);
}

void ssd_store_segment(struct ssd_prefill *s, struct tir_value state, struct tir_value sum)
{
    struct tir_builder *b = &s->b;
    const struct tir_value next = att_plus(b, s->segment_row, 1);
    att_state_store(b, &s->entry, entry_at(s, next), s->first, s->real, tir_transpose(b, state));
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value single =
        tir_and(b, tir_cmp_eq(b, tir_wave_id(b), zero), tir_cmp_eq(b, tir_block_id(b, 0), zero));
    const struct tir_value a = tir_splat(b, sum, s->entry.one);
    att_state_store_one(b, sum_at(s, s->segment_row), tir_and(b, s->real, single), a);
}
