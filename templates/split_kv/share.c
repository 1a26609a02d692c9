/* SPDX-License-Identifier: Apache-2.0
 *
 * This file adds up the partials (parts) of a sequence in the same launch by all workgroups that
 * still run, as attention/share.h describes. This is for field one_launch, if a sequence has many
 * parts, or parts with many rows. The workgroups divide the rows, or pieces of rows.
 */
#include "templates/attention/share.h"
#include "ir/spread.h"
#include "templates/split_kv/part_sum.h"
#include "templates/workgroup/scalar.h"

enum {
    /* POLLS: most reads of the ticket while a workgroup waits for the last part. A read takes 400
     * to 600 clocks, so the limit is about the time in which one workgroup adds up all parts. */
    POLLS = 16,
    SLEEP = 2,      /* units of 64 clocks between polls, since many workgroups poll one ticket */
    FEW_POLLS = 28, /* polls with SPLIT_KV_PARTS_AT_ONCE, each 260 to 400 clocks, without sleep */
    FEW_ROWS = 16   /* most rows for which there are enough waves for slices of 32 elements */
};

/* Returns the tile type of one i32 that is the same in all lanes. */
static struct tir_type word_type(struct split_kv *d)
{
    const struct tir_layout l = tir_spread_column(d->m, d->waves, 1);
    return tir_tile(d->b.f, TIR_I32, 1, 1, &l);
}

/* Adds up slice `number` (i32 index) of the sum `sum`, a struct split_kv_part_sum: the function is
 * att_share.add. */
static void add_slice(void *sum, struct tir_value number) { split_kv_part_sum_slice(sum, number); }

/* Waits until all parts are written, and adds them up in the way `way`. Gives up after a limited
 * number of reads of the ticket. */
static void await_and_sum_up(struct split_kv *d, struct split_kv_part_sum sum,
                             enum split_kv_part_way way)
{
    const bool few = way == SPLIT_KV_PARTS_AT_ONCE;
    split_kv_part_sum_find(&sum, way);
    const struct tir_value n = split_kv_part_sum_slices(&sum);
    att_share_parts(&(struct att_share){.b = &d->b,
                                        .waves = d->waves,
                                        .wave = d->wave,
                                        .lds = d->lds,
                                        .ticket = d->ticket,
                                        .count = sum.count,
                                        .awaited = d->touched,
                                        .waits = d->last,
                                        .polls = few ? FEW_POLLS : POLLS,
                                        .sleep = few ? 0 : SLEEP,
                                        .add = add_slice,
                                        .family = &sum},
                    n);
}

/* Adds up more parts than SPLIT_KV_PARTS_AT_ONCE serves: side by side if
 * split_kv_parts_lie_side_by_side() permits, else one by one. */
static void sum_up_many(struct split_kv *d, const struct split_kv_part_sum *sum)
{
    struct tir_builder *b = &d->b;
    const struct tir_value narrow = split_kv_parts_lie_side_by_side(sum);
    if (!narrow.id) {
        await_and_sum_up(d, *sum, SPLIT_KV_PARTS_ONE_BY_ONE);
        return;
    }
    struct tir_if branch = att_begin_if(b, narrow);
    await_and_sum_up(d, *sum, SPLIT_KV_PARTS_SIDE_BY_SIDE);
    tir_else(b, &branch, NULL);
    await_and_sum_up(d, *sum, SPLIT_KV_PARTS_ONE_BY_ONE);
    tir_end_if(b, &branch, NULL);
}

/* Issues the loads of all arguments of a sum together, while this workgroup's part is being
 * stored. */
static void load_arguments(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    struct tir_value loaded[] = {
        tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64),
        tir_arg(b, ARG_PARTIAL_LSE, TIR_I64),
        tir_arg(b, ARG_PARTIAL_OUT, TIR_I64),
        tir_arg(b, ARG_OUT, TIR_I64),
        tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64),
        tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64),
        {0},
    };
    unsigned n = sizeof(loaded) / sizeof(loaded[0]) - 1;
    if (d->v->sinks)
        loaded[n++] = tir_arg(b, ARG_SINKS, TIR_I64);
    tir_anchor_all(b, loaded, n);
}

void split_kv_load_part_ends(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value cut = tir_cmp_ge(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value at = tir_shl(b, att_wide(b, d->item.sequence), tir_i64(b, 2));
    const struct tir_value ends = att_at(b, ARG_REDUCE_INDPTR, at);
    const struct tir_value q = tir_arg(b, ARG_Q, TIR_I64), from = tir_select(b, cut, ends, q);
    const struct tir_value ticket =
        att_at(b, ARG_TICKETS, att_wide_times(b, d->item.sequence, ATT_TICKET_LINE));
    d->ticket = tir_select(b, cut, ticket, q);
    for (int i = 0; i < 2; i++)
        d->part_ends[i] = tir_scalar_load(b, from, tir_i32(b, 4 * i), TIR_I32);
}

struct tir_value split_kv_untouched(struct split_kv *d) { return tir_undef(&d->b, word_type(d)); }

void split_kv_touch_ticket(struct split_kv *d)
{
    enum {
        /* byte offset of the last word of the ticket's cache line, which is not the counter */
        LAST = ATT_TICKET_LINE - 4
    };
    struct tir_builder *b = &d->b;
    const struct tir_type t = word_type(d);
    const struct tir_value none = tir_splat(b, tir_i64(b, 0), tir_with_dtype(t, TIR_I64));
    const struct tir_value at = tir_add(b, d->ticket, tir_i64(b, LAST));
    d->touched = tir_tile_gather(b, at, none, tir_i32(b, 0), t);
}

void split_kv_share_narrow(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value count = tir_sub(b, d->part_ends[1], d->part_ends[0]);
    const struct split_kv_part_sum sum = split_kv_part_sum(d, d->part_ends[0], count);
    const struct tir_value most = tir_i32(b, (int)split_kv_few_parts_of_rows(d));
    const unsigned rows = split_kv_known_rows(d);
    if (rows && rows <= FEW_ROWS) {
        await_and_sum_up(d, sum, SPLIT_KV_PARTS_SIDE_BY_SIDE);
        return;
    }
    struct tir_if few = att_begin_if(b, tir_cmp_le(b, count, most));
    await_and_sum_up(d, sum, SPLIT_KV_PARTS_OF_ROWS);
    tir_else(b, &few, NULL);
    await_and_sum_up(d, sum, SPLIT_KV_PARTS_SIDE_BY_SIDE);
    tir_end_if(b, &few, NULL);
}

void split_kv_share_parts(struct split_kv *d)
{
    struct tir_builder *b = &d->b;
    struct tir_if part = att_begin_if(b, split_kv_is_part(d));
    load_arguments(d);
    const struct tir_value count = tir_sub(b, d->part_ends[1], d->part_ends[0]);
    const struct split_kv_part_sum sum = split_kv_part_sum(d, d->part_ends[0], count);
    const struct tir_value most = tir_i32(b, SPLIT_KV_FEW_PARTS);
    struct tir_if few = att_begin_if(b, tir_cmp_le(b, count, most));
    await_and_sum_up(d, sum, SPLIT_KV_PARTS_AT_ONCE);
    tir_else(b, &few, NULL);
    sum_up_many(d, &sum);
    tir_end_if(b, &few, NULL);
    tir_end_if(b, &part, NULL);
}
