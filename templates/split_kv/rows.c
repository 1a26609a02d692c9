/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of an item, a query and a head each, are the columns of its products. This file computes
 * the query and head of each column and the keys that it sees, and ends a wave's loop over keys.
 */
#include "templates/split_kv/split_kv.h"
#include "templates/workgroup/scalar.h"

bool split_kv_by_lane(const struct att_variant *v)
{
    /* wide: rows so long that no registers are left for numbers of blocks of keys. */
    const bool wide = v->head_dim > 256 || v->head_dim_v > 256;
    return v->page_size == 0 || v->page_size % SPLIT_KV_BLOCK || wide;
}

struct split_kv_cache split_kv_cache(int dim)
{
    struct split_kv_cache c = {.width = 1};
    while (c.width < (unsigned)dim)
        c.width *= 2;
    c.overlap = c.width - (unsigned)dim;
    return c;
}

struct split_kv_rows split_kv_rows(struct split_kv *d, struct tir_value column)
{
    struct tir_builder *b = &d->b;
    struct split_kv_rows r;
    if (d->row_columns)
        column = tir_and(b, column, tir_int_like(b, column, d->row_columns - 1));
    const struct tir_value row = tir_add(b, column, att_like(b, d->first_row, column));
    r.valid = tir_cmp_lt(b, row, att_like(b, d->n_rows, row));
    r.row = tir_min(b, row, att_like(b, att_plus(b, d->n_rows, -1), row));
    const struct tir_value gqa = att_like(b, d->gqa, row);
    const struct tir_value token = tir_div(b, r.row, gqa);
    const struct tir_value head = tir_sub(b, r.row, tir_mul(b, token, gqa));
    r.token = tir_add(b, token, att_like(b, d->item.first_token, token));
    r.head = tir_add(b, head, att_like(b, split_kv_first_head(d), head));
    return r;
}

/* Implements the declaration in split_kv.h. The columns are queries of one sequence for the query
 * heads of one KV head. */
void split_kv_find_position(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    const struct split_kv_item *const item = &d->item;
    struct att_position *const at = &d->attention.at;
    const struct tir_type t = tir_with_dtype(d->attention.softmax.vector, TIR_I32);
    const struct split_kv_rows rows = split_kv_rows(d, tir_col_index(b, t));
    const bool window = d->v->mask == ATT_MASK_WINDOW;
    const struct tir_value first = tir_add(b, item->diagonal, item->first_token);
    const struct tir_value end = tir_add(b, item->diagonal, item->end_token);
    const struct tir_value before = tir_add(b, item->diagonal, item->first_token);
    *at = (struct att_position){
        .q_len = tir_sub(b, item->kv_len, before),
        .kv_len = item->kv_len,
        .end = item->end_key,
        .diagonal = tir_add(b, rows.token, tir_splat(b, item->diagonal, t)),
        .lowest = first,
        .highest = att_plus(b, end, -1),
        .right = window ? tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32) : tir_i32(b, 0),
        .head = rows.head,
    };
    if (att_hides_early(d->v))
        at->reach = att_reach(b, d->v);
    if (d->v->mask == ATT_MASK_CUSTOM) {
        const struct tir_value query = tir_sub(b, rows.token, tir_splat(b, item->first_token, t));
        at->mask_row = att_mask_row(&d->attention, item->sequence, query);
    }
}

struct split_kv_state split_kv_end_keys(struct split_kv *d, struct tir_if *some,
                                        struct tir_loop *loop, struct tir_value inside[ATT_N_CARRY],
                                        struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *b = &d->b;
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
    tir_end_for(b, loop, inside, ATT_N_CARRY);
    tir_else(b, some, inside);
    /* The materialised zero keeps LLVM from clearing O for both paths before the branch, ahead of
     * the first loads of K. LLVM then clears O only on the path of the loop, while K is in
     * flight. */
    if (d->zero_late)
        carried[ATT_CARRY_O] = tir_materialize(b, carried[ATT_CARRY_O]);
    tir_end_if(b, some, carried);
    return (struct split_kv_state){att_attention_maximum(&d->attention, carried),
                                   carried[ATT_CARRY_L], carried[ATT_CARRY_O]};
}
