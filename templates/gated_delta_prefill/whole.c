/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel of a call in one launch: the loop over the chunks of a sequence.
 */
#include "templates/gated_delta_prefill/chunk.h"

void delta_store_factors(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const int bytes = DELTA_BLOCK * d->v->head_dim * DELTA_ELEM;
    const struct tir_value own = delta_own(d, d->lds.k, bytes);
    if (delta_by_channel(d)) {
        const struct tir_value total = delta_spread(d, delta_total(d));
        const struct tir_value others = tir_cmp_lt(b, d->wave, tir_i32(b, DELTA_BLOCKS - 1));
        struct tir_if early = att_begin_if(b, others);
        delta_store_strip(d, own, delta_decayed(d, rows->k, tir_sub(b, total, d->local)));
        tir_end_if(b, &early, NULL);
        return;
    }
    delta_store_strip(d, own, rows->k);
    delta_store_strip(d, delta_own(d, d->lds.q, bytes), rows->q);
    delta_store_transposed(d, rows->k);
}

struct delta_decayed delta_decay_rows(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const struct tir_value from_first = tir_add(b, d->local, delta_spread(d, d->before));
    const struct tir_value rest = tir_sub(b, delta_spread(d, delta_total(d)), d->local);
    const struct tir_value to_last = tir_add(b, rest, delta_spread(d, d->after));
    return (struct delta_decayed){
        .k = delta_decayed(d, rows->k, from_first),
        .q = delta_decayed(d, rows->q, from_first),
        .to_last = delta_decayed(d, rows->k, to_last),
    };
}

/* Stores to LDS the decayed keys and queries that the scan reads, over the keys of
 * delta_store_factors(). Only kernels with a decay for each channel call it. */
static void store_decayed(struct delta *d, const struct delta_rows *rows)
{
    const int bytes = DELTA_BLOCK * d->v->head_dim * DELTA_ELEM;
    const struct delta_decayed decayed = delta_decay_rows(d, rows);
    delta_store_strip(d, delta_own(d, d->lds.k, bytes), decayed.k);
    delta_store_strip(d, delta_own(d, d->lds.q, bytes), decayed.q);
    delta_store_transposed(d, decayed.to_last);
    delta_sync(d);
}

/* Computes and stores the outputs of the chunk with the loaded `rows`. `state` (f32) is the state
 * before the chunk. Returns the state after it. */
static struct tir_value visit_chunk(struct delta *d, const struct delta_rows *rows,
                                    struct tir_value state)
{
    delta_gates(d, rows);
    delta_store_factors(d, rows);
    delta_sync(d);
    if (delta_by_channel(d))
        delta_add_totals(d);
    delta_coefficients(d, rows);
    delta_sync(d);
    if (delta_by_channel(d))
        store_decayed(d, rows);
    state = delta_scan(d, rows, state);
    tir_barrier(&d->b);
    return state;
}

void delta_visit_sequence(struct delta *d)
{
    enum { ROWS = sizeof(struct delta_rows) / sizeof(struct tir_value) };
    struct tir_builder *b = &d->b;
    union {
        struct {
            struct delta_rows rows;
            struct tir_value state;
        } is;
        struct tir_value values[ROWS + 1];
    } carried, next;
    const struct tir_value chunk = tir_i32(b, DELTA_CHUNK);
    carried.is.state = delta_load_state(d);
    delta_load_head(d);
    delta_begin_chunk(d, d->sequence.start);
    delta_load_factors(d, &carried.is.rows);
    delta_load_values(d, &carried.is.rows);
    struct tir_loop loop =
        tir_begin_for(b, d->sequence.start, d->sequence.end, chunk, carried.values, ROWS + 1);
    const struct tir_value after = tir_add(b, loop.index, chunk);
    delta_begin_chunk(d, after);
    delta_load_factors(d, &next.is.rows);
    delta_load_values(d, &next.is.rows);
    delta_begin_chunk(d, loop.index);
    next.is.state = visit_chunk(d, &carried.is.rows, carried.is.state);
    delta_store_block_state(d, after, next.is.state);
    tir_end_for(b, &loop, next.values, ROWS + 1);
    delta_store_state(d, next.is.state);
}
