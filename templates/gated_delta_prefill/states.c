/* SPDX-License-Identifier: Apache-2.0
 *
 * The states that sequences begin and end with, by their slots.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/product_state.h"

static struct tir_value state_at(struct delta *d, struct tir_value slot)
{
    struct tir_builder *b = &d->b;
    const int size = d->v->state_dtype == ATT_STATE_DTYPE_F32 ? 4 : 2;
    const struct tir_value base =
        att_row(b, tir_arg(b, ARG_STATE, TIR_I64), slot, ARG_STATE_SLOT_STRIDE, size);
    const struct tir_value bytes = tir_i64(b, d->v->head_dim * d->v->head_dim_v * size);
    return tir_add(b, base, tir_mul(b, att_wide(b, d->value_head), bytes));
}

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

void delta_store_state(struct delta *d, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot =
        att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, d->sequence.index);
    const struct tir_value there = tir_and(b, d->real, att_is_slot(b, slot));
    att_product_state_store(b, d->v, state_at(d, slot), d->first, there, state);
}
