/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes sequences, slots and states of calls of recurrences, and compares stored states.
 */
#include "tools/verify/recurrent.h"

#include "tools/verify/stored.h"
#include "tools/verify/tree.h"

/* True if the shape has any of `flags`. */
static bool is(const struct recurrent *r, unsigned flags) { return r->c->flags & flags; }

/* Returns the number of tokens of sequence `i`. */
static int length_of(const struct recurrent *r, int i)
{
    return r->shape->length ? r->shape->length : r->shape->lengths[i];
}

bool recurrent_takes(const struct recurrent_shape *s, bool tree)
{
    int most = s->length;
    for (int i = 0; i < RECURRENT_SEQUENCES && !s->length; i++)
        most = s->lengths[i] > most ? s->lengths[i] : most;
    return !tree || most <= s->steps;
}

void recurrent_size(const struct recurrent *r)
{
    *r->batch = r->shape->batch;
    for (int i = 0; i < r->shape->batch; i++) {
        const int length = length_of(r, i);
        r->starts[i + 1] = r->starts[i] + length;
        *r->max_seqlen = length > *r->max_seqlen ? length : *r->max_seqlen;
    }
    *r->tokens =
        r->starts[r->shape->batch] + (r->c->traced ? 0 : 2); /* 2 rows belong to no sequence */
    *r->state_steps = r->shape->steps;
    *r->first_slot = is(r, PADDED);
    if (is(r, BLOCKS)) {
        *r->block_tokens = r->shape->steps == 1 ? 64 : 128;
        *r->block_columns = *r->max_seqlen / *r->block_tokens;
    }
}

/* Returns the number of slots of sequences: one to read and one to write for each column of
 * state_slots, and one that is unused. */
static int own_slot_count(const struct recurrent *r)
{
    return (r->c->traced ? 1 : 2) * *r->batch * *r->state_steps + 1;
}

/* Returns the number of all slots: slots of sequences, and after them slots for states of
 * blocks. */
static int slot_count(const struct recurrent *r)
{
    return own_slot_count(r) + (is(r, BLOCKS) ? *r->batch * *r->block_columns : 0);
}

void recurrent_align(const struct call *c, struct operand *state)
{
    enum { GAP = 24 };
    state->align = 16;
    if (c->flags & VERIFY_VIEWS)
        operand_set_stride(state, 0, state->dims[1] * state->dims[2] * state->dims[3] + GAP);
}

void recurrent_place(const struct recurrent *r)
{
    operand_resize(r->state, 0, slot_count(r));
    recurrent_align(r->c, r->state);
    if (is(r, FAR)) {
        r->state->far = true;
        operand_set_stride(r->state, 0, 1 << 29);
    }
    if (is(r, WIDE_LISTS)) {
        operand_set_stride(r->slots, 0, 3 * *r->state_steps + 1);
        if (r->accepted)
            operand_set_stride(r->slots, 1, 3);
    }
    if (r->block_slots && !is(r, BLOCKS))
        operand_leave_out(r->block_slots);
    else if (r->block_slots)
        operand_set_stride(r->block_slots, 0, 2 * *r->block_columns + 1);
    if (is(r, UNIFORM))
        operand_leave_out(r->cu_seqlens);
    if (r->accepted && !is(r, ACCEPTED))
        operand_leave_out(r->accepted);
    if (!is(r, FORKS))
        operand_leave_out(r->slots_in);
    if (!is(r, FRESH))
        operand_leave_out(r->has_state);
}

/* Returns the slot of entry [i][step] of state_slots, or of state_slots_in if `read`. With PADDED
 * every third sequence is padding: all its entries are slot 0, or all are negative. Another
 * sequence has padding in one column. */
static int slot_of(const struct recurrent *r, int i, int step, bool read)
{
    if (r->c->traced)
        return 1 + i * *r->state_steps + step;
    if (is(r, PADDED) && i % 3 == 1)
        return i % 2 ? 0 : -1;
    if (is(r, PADDED) && !read && i == 2 && step == 1)
        return -1;
    const int n = 2 * (i * *r->state_steps + step);
    return read && is(r, FORKS) ? n + 1 : 2 * *r->batch * *r->state_steps - n;
}

/* Fills the state slots that each sequence reads and writes. */
static void fill_slots(const struct recurrent *r)
{
    for (int i = 0; i < *r->batch; i++)
        for (int step = 0; step < *r->state_steps; step++) {
            operand_set_int(r->slots, AT(i, step), slot_of(r, i, step, false));
            if (is(r, FORKS))
                operand_set_int(r->slots_in, AT(i, step), slot_of(r, i, step, true));
        }
}

/* Returns entry [i][block] of block_slots. Every third entry is padding. */
static int block_slot_of(const struct recurrent *r, int i, int block)
{
    const int n = i * *r->block_columns + block;
    return n % 3 == 2 ? *r->first_slot - 1 : own_slot_count(r) + n;
}

/* Fills the states with random numbers. */
static void fill_states(const struct recurrent *r)
{
    struct operand *s = r->state;
    if (r->c->traced) {
        operand_set_table(s, 1, &r->c->random);
        return;
    }
    for (int slot = 0; slot < slot_count(r); slot++)
        for (int head = 0; head < s->dims[1]; head++)
            for (int i = 0; i < s->dims[2]; i++)
                for (int k = 0; k < s->dims[3]; k++)
                    operand_set(s, AT(slot, head, i, k), random_value(&r->c->random));
}

/* Fills the parents of the drafts of sequence i. The entry of the root is not set, and names no
 * token. */
static void fill_parents(const struct recurrent *r, int i)
{
    for (int t = 1; r->parents && t < r->starts[i + 1] - r->starts[i]; t++)
        operand_set_int(r->parents, AT(r->starts[i] + t), tree_parent(i, t));
}

void recurrent_fill(const struct recurrent *r)
{
    fill_slots(r);
    for (int i = 0; i < *r->batch; i++) {
        if (is(r, ACCEPTED))
            operand_set_int(r->accepted, AT(i), (i + 2) % (*r->state_steps + 1));
        fill_parents(r, i);
        if (is(r, FRESH))
            operand_set_int(r->has_state, AT(i), i % 2);
        for (int block = 0; is(r, BLOCKS) && block < *r->block_columns; block++)
            operand_set_int(r->block_slots, AT(i, block), block_slot_of(r, i, block));
    }
    if (!is(r, UNIFORM))
        operand_set_ints(r->cu_seqlens, r->starts, *r->batch + 1);
    fill_states(r);
}

struct recurrent_sequence recurrent_sequence(const struct recurrent *r, int i)
{
    struct recurrent_sequence s = {
        .start = r->starts[i],
        .count = r->starts[i + 1] - r->starts[i],
        .zero = is(r, FRESH) && i % 2 == 0,
    };
    const int step = is(r, ACCEPTED) ? (int)operand_int(r->accepted, AT(i)) - 1 : 0;
    s.slot = slot_of(r, i, step > 0 ? step : 0, true);
    s.padding = s.slot < *r->first_slot;
    return s;
}

int recurrent_target(const struct recurrent *r, int i, int t)
{
    const bool each = *r->state_steps > 1, last = t == r->starts[i + 1] - r->starts[i] - 1;
    const int slot = slot_of(r, i, each ? t : 0, false);
    return (each || last) && slot >= *r->first_slot ? slot : -1;
}

int recurrent_block_target(const struct recurrent *r, int i, int t)
{
    if (!is(r, BLOCKS) || !t || t % *r->block_tokens)
        return -1;
    const int slot = block_slot_of(r, i, t / *r->block_tokens - 1);
    return slot >= *r->first_slot ? slot : -1;
}

void recurrent_element(enum attn_state_layout layout, int slot, int head, int v, int k,
                       int64_t at[])
{
    at[0] = slot;
    at[1] = head;
    at[2] = layout == ATTN_STATE_V_MAJOR ? v : layout == ATTN_STATE_K_MAJOR ? k : k / 4;
    at[3] = layout == ATTN_STATE_V_MAJOR ? k : layout == ATTN_STATE_K_MAJOR ? v : 4 * v + k % 4;
}

void recurrent_load_state(const struct recurrent *r, const struct recurrent_sequence *s, int head,
                          struct recurrent_head *h)
{
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    for (int v = 0; v < r->values; v++) {
        h->error[v] = 0;
        for (int k = 0; k < r->keys; k++) {
            recurrent_element(r->layout, s->slot, head, v, k, at);
            h->state[v][k] = s->zero ? 0 : operand_value(r->state, at);
        }
    }
}

void recurrent_load_parent(const struct recurrent *r, int i, int t, int head,
                           struct recurrent_head *h)
{
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    if (!r->parents || !t)
        return;
    const int slot = recurrent_target(r, i, tree_parent(i, t));
    for (int v = 0; v < r->values; v++) {
        h->error[v] = 0;
        for (int k = 0; k < r->keys; k++) {
            recurrent_element(r->layout, slot, head, v, k, at);
            h->state[v][k] = slot >= 0 ? operand_result(r->state, at) : 0;
        }
    }
}

void recurrent_compare_padding(const struct recurrent *r, struct operand *out,
                               const struct recurrent_sequence *s)
{
    for (int t = s->start; out->given && t < s->start + s->count; t++)
        for (int64_t head = 0; head < out->dims[1]; head++)
            for (int64_t v = 0; v < out->dims[2]; v++)
                call_compare(r->c, out, AT(t, head, v), 0, 0);
}

void recurrent_compare_state(const struct recurrent *r, int slot, int head,
                             const struct recurrent_head *h)
{
    const struct precision *const stored = r->state->precision; /* NULL: float32 */
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    for (int v = 0; v < r->values; v++)
        for (int k = 0; k < r->keys; k++) {
            double bound = h->error[v], expected = h->state[v][k];
            recurrent_element(r->layout, slot, head, v, k, at);
            if (stored)
                expected = stored_value(stored, 1, expected, h->error[v], &bound);
            call_compare(r->c, r->state, at, expected, bound);
        }
}
