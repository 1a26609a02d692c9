/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/recurrence.h"
#include "templates/linear/tile.h"

#include <stdio.h>

enum { ELEM = 2 /* bytes of a token's element */ };

/* Sets the workgroup's sequence and heads, and the wave's part of the state: `rows` value elements.
 * `waves` is the number of waves of a workgroup. */
static void begin(struct att_recurrence *r, unsigned rows, int waves)
{
    struct tir_builder *b = &r->b;
    const struct tir_value part =
        tir_add(b, att_times(b, tir_block_id(b, 0), waves), tir_wave_id(b));
    r->state = att_state(b, r->v, r->v->head_dim, r->v->head_dim_v, rows);
    r->first = att_times(b, part, (int)rows);
    r->value_head = tir_block_id(b, 1);
    r->head = tir_div(b, r->value_head, tir_arg(b, ARG_HEAD_RATIO, TIR_I32));
    r->sequence = att_sequence(b, tir_block_id(b, 2));
}

/* ---- Addresses: what tokens share comes first, so that loops need not keep its parts ---- */

/* Returns the address (i64) of a token's head `head` (i32) in tensor `t`, whose elements have 16
 * bits. */
static struct tir_value head_at(struct att_recurrence *r, struct att_tensor t,
                                struct tir_value token, struct tir_value head)
{
    struct tir_builder *b = &r->b;
    const struct tir_value base = att_row(b, tir_arg(b, t.arg, TIR_I64), head, t.head_stride, ELEM);
    return att_row(b, base, token, t.token_stride, ELEM);
}

struct tir_value att_recurrence_key(struct att_recurrence *r, struct att_tensor t,
                                    struct tir_value token)
{
    return head_at(r, t, token, r->head);
}

struct tir_value att_recurrence_value(struct att_recurrence *r, struct att_tensor t,
                                      struct tir_value token)
{
    struct tir_builder *b = &r->b;
    const struct tir_value part = att_wide(b, att_times(b, r->first, ELEM));
    const struct tir_value first = att_at(b, t.arg, part);
    const struct tir_value base = att_row(b, first, r->value_head, t.head_stride, ELEM);
    return att_row(b, base, token, t.token_stride, ELEM);
}

struct tir_value att_recurrence_element(struct att_recurrence *r, struct att_tensor t, int size,
                                        struct tir_value token, struct tir_value element)
{
    struct tir_builder *b = &r->b;
    return att_row(b, att_at(b, t.arg, att_wide_times(b, element, size)), token, t.token_stride,
                   size);
}

/* ---- Products ---- */

struct tir_value att_recurrence_scaled(struct att_recurrence *r, struct tir_value state,
                                       struct tir_value a)
{
    return tir_mul(&r->b, att_state_spread(&r->b, &r->state, a), state);
}

struct tir_value att_recurrence_product(struct att_recurrence *r, struct tir_value state,
                                        struct tir_value key)
{
    return tir_row_dot(&r->b, att_state_spread(&r->b, &r->state, key), state);
}

/* ---- Slots ---- */

struct tir_value att_recurrence_slot(struct att_recurrence *r, struct tir_value step)
{
    return att_matrix_entry(&r->b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE,
                            r->sequence.index, ARG_STATE_SLOTS_STEP_STRIDE, step);
}

struct tir_value att_recurrence_slot_in(struct att_recurrence *r, struct tir_value step)
{
    return att_matrix_entry(&r->b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE,
                            r->sequence.index, ARG_STATE_SLOTS_IN_STEP_STRIDE, step);
}

struct tir_value att_recurrence_state(struct att_recurrence *r, struct tir_value slot)
{
    return att_state_at(&r->b, &r->state, slot, r->value_head);
}

/* Stores the state after a token: after each token if state_steps is above 1, else after the last
 * one only. A negative slot stores nothing. */
static void store_state(struct att_recurrence *r, struct tir_value token, struct tir_value state)
{
    struct tir_builder *b = &r->b;
    const struct tir_value steps = tir_arg(b, ARG_STATE_STEPS, TIR_I32);
    const struct tir_value each = tir_cmp_gt(b, steps, tir_i32(b, 1));
    const struct tir_value last = tir_cmp_eq(b, att_plus(b, token, 1), r->sequence.end);
    struct tir_if stores = att_begin_if(b, tir_and(b, r->real, tir_or(b, each, last)));
    const struct tir_value step =
        tir_select(b, each, tir_sub(b, token, r->sequence.start), tir_i32(b, 0));
    const struct tir_value slot = att_recurrence_slot(r, step);
    att_state_store(b, &r->state, att_recurrence_state(r, slot), r->first, att_is_slot(b, slot),
                    state);
    tir_end_if(b, &stores, NULL);
}

/* ---- Trees ---- */

/* Returns the state after the parent of draft `token` (i32 row) in a tree, rounded as it was
 * stored. `state`: state after the previous token. Returns `state` for the root, and if the
 * previous token is the parent and states are float32. Otherwise loads the parent's state, which
 * this wave has stored; zeros if the parent has no slot. */
static struct tir_value parent_state(struct att_recurrence *r, struct tir_value token,
                                     struct tir_value state)
{
    struct tir_builder *b = &r->b;
    const struct tir_type t = tir_typeof(b->f, state);
    const struct tir_value parent = att_parent(b, &r->sequence, token);
    const struct tir_value before = att_plus(b, tir_sub(b, token, r->sequence.start), -1);
    const struct tir_value slot = att_recurrence_slot(r, parent);
    struct tir_value moves = tir_cmp_ge(b, before, tir_i32(b, 0));
    if (r->v->state_dtype == ATT_STATE_DTYPE_F32) {
        const struct tir_value padding = tir_cmp_lt(b, slot, tir_arg(b, ARG_FIRST_SLOT, TIR_I32));
        moves = tir_and(b, moves, tir_or(b, padding, tir_cmp_ne(b, parent, before)));
    }
    struct tir_if other = tir_begin_if(b, moves, false, &t, 1);
    struct tir_value of_parent =
        att_state_load(b, &r->state, att_recurrence_state(r, slot), r->first,
                       tir_and(b, r->real, att_is_slot(b, slot)));
    tir_else(b, &other, &of_parent);
    tir_end_if(b, &other, &state);
    return state;
}

/* ---- Tokens ---- */

/* Issues the loads of the vectors of token `token` (i32 row) into raw[]; zeros if the sequence is
 * padding. */
static void load_token(struct att_recurrence *r, struct tir_value token, struct tir_value *raw)
{
    r->load(r, token, r->real, raw);
}

/* Issues the loads of the vectors of the token after `token` (i32 row) into next[]. After the last
 * token next[] is undefined. raw[] gives the types. */
static void load_next(struct att_recurrence *r, struct tir_value token, const struct tir_value *raw,
                      struct tir_value *next)
{
    struct tir_builder *b = &r->b;
    const struct tir_value after = att_plus(b, token, 1);
    struct tir_if more =
        tir_begin_if_like(b, tir_cmp_lt(b, after, r->sequence.end), false, raw, r->vectors);
    load_token(r, after, next);
    tir_else(b, &more, next);
    for (unsigned i = 0; i < r->vectors; i++)
        next[i] = tir_undef(b, tir_typeof(b->f, raw[i]));
    tir_end_if(b, &more, next);
}

/* Stores a token's output, rows x 1, to its value head of `out`. */
static void store_out(struct att_recurrence *r, struct tir_value token, struct tir_value out)
{
    struct tir_builder *b = &r->b;
    const struct tir_value at = att_recurrence_value(r, ATT_HEADS(OUT), token);
    att_state_store_values(b, at, tir_bool(b, true), tir_convert_short(b, out, r->dtype));
}

/* Loops over the sequence's tokens: advances the state, stores outputs and states. carried[] has
 * the loaded vectors of the first token, followed by the state before that token. At the end the
 * last element is the state after the last token. */
static void visit_tokens(struct att_recurrence *r, struct tir_value *carried)
{
    struct tir_builder *b = &r->b;
    struct tir_value next[ATT_RECURRENCE_VECTORS];
    struct tir_loop loop = tir_begin_for(b, r->sequence.start, r->sequence.end, tir_i32(b, 1),
                                         carried, r->vectors + 1);
    load_next(r, loop.index, carried, next);
    r->token = loop.index;
    if (r->v->tree)
        carried[r->vectors] = parent_state(r, loop.index, carried[r->vectors]);
    store_out(r, loop.index, r->advance(r, carried, &carried[r->vectors]));
    if (!r->keeps_state)
        store_state(r, loop.index, carried[r->vectors]);
    for (unsigned i = 0; i < r->vectors; i++)
        carried[i] = next[i];
    tir_end_for(b, &loop, carried, r->vectors + 1);
}

/* Loads the sequence's state, processes its tokens, and stores states for the next call. */
static void run(struct att_recurrence *r)
{
    struct tir_builder *b = &r->b;
    struct tir_value carried[ATT_RECURRENCE_VECTORS + 1];
    const struct tir_value some = tir_cmp_gt(b, r->sequence.count, tir_i32(b, 0));
    struct tir_if has_tokens = att_begin_if(b, some);
    r->slot = att_recurrence_slot_in(r, r->sequence.accepted);
    r->real = att_is_slot(b, r->slot);
    load_token(r, r->sequence.start, carried);
    if (r->begin)
        r->begin(r);
    carried[r->vectors] = att_state_load(b, &r->state, att_recurrence_state(r, r->slot), r->first,
                                         tir_and(b, r->real, r->sequence.has_state));
    visit_tokens(r, carried);
    tir_end_if(b, &has_tokens, NULL);
}

void att_recurrence_build(struct att_recurrence *r, const struct tir_machine *m,
                          struct att_kernel *out)
{
    const struct att_variant *const v = r->v;
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned rows = att_state_rows(v, &tile), parts = (unsigned)v->head_dim_v / rows;
    struct tir_func *const f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    r->b = tir_at_end(f, f->body);
    begin(r, rows, tile.waves);
    run(r);
    tir_return(&r->b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, (int)parts / tile.waves}, {ARG_VALUE_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "values=%u waves=%d", rows, tile.waves);
}
