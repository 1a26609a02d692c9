/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads and stores the states of sequences in the pool, by their slots: before a
 * sequence, after it, and after blocks of a prefix cache.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/blocks.h"
#include "templates/linear/product_state.h"
#include "templates/linear/state.h"

/* Returns the address (i64) of the value head's state in slot `slot` (i32) of the pool. */
static struct tir_value state_at(struct delta *d, struct tir_value slot)
{
    struct tir_builder *b = &d->b;
    const int size = att_state_size(d->v);
    const struct tir_value bytes = tir_i64(b, d->v->head_dim * d->v->head_dim_v * size);
    const struct tir_value head = tir_mul(b, att_wide(b, d->value_head), bytes);
    const struct tir_value base = att_at(b, ARG_STATE, head);
    return att_row(b, base, slot, ARG_STATE_SLOT_STRIDE, size);
}

/* Returns the index (i32) of the slot that has the state before the sequence; negative: the
 * sequence is padding of a batch. */
static struct tir_value slot_to_read(struct delta *d)
{
    return att_strided_entry(&d->b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE,
                             d->sequence.index);
}

void delta_find_slot(struct delta *d) { d->real = att_is_slot(&d->b, slot_to_read(d)); }

struct tir_value delta_load_state(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot = slot_to_read(d);
    const struct tir_value there = tir_and(b, d->real, d->sequence.has_state);
    return att_product_state_load(b, d->v, state_at(d, slot), d->first, there, d->t.state);
}

void delta_store_block_state(struct delta *d, struct tir_value after, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    struct att_block_end end = att_begin_block_end(b, &d->sequence, d->block_row, after);
    att_product_state_store(b, d->v, state_at(d, end.slot), d->first, d->real, state);
    att_finish_block_end(b, &end);
}

void delta_store_state(struct delta *d, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot =
        att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, d->sequence.index);
    const struct tir_value there = tir_and(b, d->real, att_is_slot(b, slot));
    att_product_state_store(b, d->v, state_at(d, slot), d->first, there, state);
}
