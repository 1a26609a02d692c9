/* SPDX-License-Identifier: Apache-2.0
 *
 * With `one_launch` parts of many heads are added up by all workgroups that are there. A workgroup
 * that has written its part waits a while for the others', and those that see the last one come
 * share the rows, or halves of them. Whoever has waited long enough leaves, and the ticket says so.
 * If nobody has, rows are dealt out: no wave asks for the number of its own. Else each wave claims
 * one, and then the next, until no row is left. The last workgroup never waits: so none needs
 * another to run, and a row is the sum of all parts in their order whoever adds them up.
 */
#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/decode/part_sum.h"
#include "templates/workgroup/scalar.h"

enum {
    LINE = 128,    /* bytes of memory that a sequence has for its counts */
    POLLS = 16,    /* for the last part, 400 to 600 clocks each: as long as one would need alone */
    SLEEP = 2,     /* times 64 clocks between them, where many wait at one ticket */
    FEW_POLLS = 28 /* of few parts, 260 to 400 clocks each */
};

struct share {
    struct decode *d;
    struct decode_part_sum sum;
    struct tir_value ticket, claims; /* i64: where parts are counted, and slices claimed */
    struct tir_value behind;         /* parts that came later than the workgroup's own */
    struct tir_value left;           /* workgroups that did not wait for the last part; -1: this one
                                        did not */
};

/* A word that all lanes have. */
static struct tir_type word_type(struct decode *d)
{
    const struct tir_spread one = tir_spread(d->m, d->waves);
    const struct tir_layout l = tir_spread_layout(&one);
    return tir_tile(d->b.f, TIR_I32, 1, 1, &l);
}

/* Counts the parts and waits for the last one. Sets s->behind, and s->left to how many have left,
 * or to -1 where this workgroup has. All waves have written their part when one of them counts, and
 * learn the rest from that. */
static void await_parts(struct share *s)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32), t = word_type(d);
    const struct tir_layout map = tir_row_major(1, 1);
    const bool few = s->sum.way == DECODE_PARTS_AT_ONCE;
    const struct tir_value left_bit = tir_i32(b, TIR_LEFT_BIT);
    tir_wait_memory(b);
    tir_anchor(b, d->touched);
    tir_barrier(b);
    struct tir_if first = tir_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)), false, NULL, 0);
    const struct tir_value was = tir_atomic_add(b, s->ticket, tir_i32(b, 1), true);
    const struct tir_value behind =
        tir_sub(b, att_plus(b, s->sum.count, -1), tir_and(b, was, tir_i32(b, TIR_ARRIVED)));
    struct tir_value left = tir_sar(b, was, left_bit);
    struct tir_if early = tir_begin_if(b, tir_cmp_gt(b, behind, tir_i32(b, 0)), false, &i32, 1);
    const struct tir_value seen =
        tir_await(b, s->ticket, s->sum.count, few ? FEW_POLLS : POLLS, few ? 0 : SLEEP);
    tir_else(b, &early, &seen);
    tir_end_if(b, &early, &left);
    const struct tir_value said = tir_or(b, tir_shl(b, left, left_bit), behind);
    tir_tile_lds_store(b, d->lds, tir_splat(b, said, t), &map);
    tir_end_if(b, &first, NULL);
    decode_meet(d);
    const struct tir_value all = tir_first_lane(b, tir_tile_lds_load(b, d->lds, t, &map));
    decode_meet(d);
    s->left = tir_sar(b, all, left_bit);
    s->behind = tir_and(b, all, tir_i32(b, TIR_ARRIVED));
}

/* ---- All are there ---- */

/* Slices go round the workgroups, from the last that came: it knows first that all are there. Then
 * it makes the ticket 0 for the next launch. */
static void sum_up_dealt(struct share *s, struct tir_value n)
{
    struct decode *const d = s->d;
    struct tir_builder *b = &d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value first = tir_add(b, tir_mul(b, d->wave, s->sum.count), s->behind);
    const struct tir_value waves = att_times(b, s->sum.count, (int)d->waves);
    struct tir_loop slice = tir_begin_for(b, first, n, waves, NULL, 0);
    decode_part_sum_slice(&s->sum, slice.index);
    tir_end_for(b, &slice, NULL, 0);
    struct tir_if last = tir_begin_if(b, tir_cmp_eq(b, first, zero), false, NULL, 0);
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, s->sum.count), false);
    tir_end_if(b, &last, NULL);
}

/* ---- Some have left ---- */

static struct tir_value claim(struct share *s)
{
    return tir_atomic_add(&s->d->b, s->claims, tir_i32(&s->d->b, 1), false);
}

/* Sums up the slice that was claimed, if it is one, and claims another. */
static struct tir_value sum_up_claim(struct share *s, struct tir_value own, struct tir_value n)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    decode_part_sum_slice(&s->sum, own);
    const struct tir_value next = claim(s);
    tir_else(b, &some, &next);
    tir_end_if(b, &some, &own);
    return own;
}

/* Each wave that claims does so once in vain; the last of these makes both counters 0 for the next
 * launch. */
static void reset_counters(struct share *s, struct tir_value own, struct tir_value n)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value waves =
        att_times(b, tir_sub(b, s->sum.count, s->left), (int)s->d->waves);
    const struct tir_value claims = tir_add(b, n, waves);
    struct tir_if last =
        tir_begin_if(b, tir_cmp_eq(b, att_plus(b, own, 1), claims), false, NULL, 0);
    const struct tir_value left = tir_shl(b, s->left, tir_i32(b, TIR_LEFT_BIT));
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, tir_add(b, left, s->sum.count)), false);
    tir_atomic_add(b, s->claims, tir_sub(b, zero, claims), false);
    tir_end_if(b, &last, NULL);
}

/* Claims grow, so that no wave has more of them than are left behind its first one. Most have one
 * or two, and pass the turns that are left in steps of TURNS. */
static void sum_up_claimed(struct share *s, struct tir_value n)
{
    enum { TURNS = 6 };
    struct tir_builder *b = &s->d->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    const struct tir_value turns = tir_i32(b, TURNS);
    struct tir_value own = claim(s);
    struct tir_loop loop = tir_begin_for(b, own, n, turns, &own, 1);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    struct tir_value inner = own;
    struct tir_loop turn = tir_begin_for(b, tir_i32(b, 0), turns, tir_i32(b, 1), &inner, 1);
    inner = sum_up_claim(s, inner, n);
    tir_end_for(b, &turn, &inner, 1);
    tir_else(b, &some, &inner);
    tir_end_if(b, &some, &own);
    tir_end_for(b, &loop, &own, 1);
    reset_counters(s, own, n);
}

/* Waits for all parts and adds them up, if this workgroup is there then. */
static void await_and_sum_up(struct share s, enum decode_part_way way)
{
    struct tir_builder *b = &s.d->b;
    decode_part_sum_find(&s.sum, way);
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value n = decode_part_sum_slices(&s.sum);
    await_parts(&s);
    struct tir_if all = tir_begin_if(b, tir_cmp_eq(b, s.left, zero), false, NULL, 0);
    tir_acquire(b);
    sum_up_dealt(&s, n);
    tir_else(b, &all, NULL);
    struct tir_if some = tir_begin_if(b, tir_cmp_gt(b, s.left, zero), false, NULL, 0);
    tir_acquire(b);
    sum_up_claimed(&s, n);
    tir_end_if(b, &some, NULL);
    tir_end_if(b, &all, NULL);
}

static void sum_up_many(const struct share *s)
{
    struct tir_builder *b = &s->d->b;
    const struct tir_value narrow = decode_parts_lie_side_by_side(&s->sum);
    if (!narrow.id) {
        await_and_sum_up(*s, DECODE_PARTS_ONE_BY_ONE);
        return;
    }
    struct tir_if branch = tir_begin_if(b, narrow, false, NULL, 0);
    await_and_sum_up(*s, DECODE_PARTS_SIDE_BY_SIDE);
    tir_else(b, &branch, NULL);
    await_and_sum_up(*s, DECODE_PARTS_ONE_BY_ONE);
    tir_end_if(b, &branch, NULL);
}

/* Asks for all arguments of a sum in one round, while what this workgroup has is being stored. */
static void ask_arguments(struct decode *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value asked[] = {
        tir_arg(b, ARG_REDUCE_PARTIAL_MAP, TIR_I64), tir_arg(b, ARG_PARTIAL_LSE, TIR_I64),
        tir_arg(b, ARG_PARTIAL_OUT, TIR_I64),        tir_arg(b, ARG_OUT, TIR_I64),
        tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64),   tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64),
    };
    tir_anchor_all(b, asked, sizeof(asked) / sizeof(asked[0]));
}

void decode_ask_part_ends(struct decode *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value cut = tir_cmp_ge(b, d->item.partial, tir_i32(b, 0));
    const struct tir_value at = tir_shl(b, att_wide(b, d->item.sequence), tir_i64(b, 2));
    const struct tir_value ends = tir_add(b, tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64), at);
    const struct tir_value q = tir_arg(b, ARG_Q, TIR_I64), from = tir_select(b, cut, ends, q);
    const struct tir_value ticket =
        tir_add(b, tir_arg(b, ARG_TICKETS, TIR_I64),
                tir_mul(b, att_wide(b, d->item.sequence), tir_i64(b, LINE)));
    d->ticket = tir_select(b, cut, ticket, q);
    for (int i = 0; i < 2; i++)
        d->part_ends[i] = tir_scalar_load(b, from, tir_i32(b, 4 * i), TIR_I32);
}

struct tir_value decode_untouched(struct decode *d) { return tir_undef(&d->b, word_type(d)); }

void decode_touch_ticket(struct decode *d)
{
    enum { LAST = LINE - 4 /* a word that counts nothing */ };
    struct tir_builder *b = &d->b;
    const struct tir_type t = word_type(d);
    const struct tir_value none = tir_splat(b, tir_i64(b, 0), tir_with_dtype(t, TIR_I64));
    const struct tir_value at = tir_add(b, d->ticket, tir_i64(b, LAST));
    d->touched = tir_tile_gather(b, at, none, tir_i32(b, 0), t);
}

void decode_share_parts(struct decode *d)
{
    struct tir_builder *b = &d->b;
    struct tir_if part = tir_begin_if(b, decode_is_part(d), false, NULL, 0);
    ask_arguments(d);
    const struct tir_value count = tir_sub(b, d->part_ends[1], d->part_ends[0]);
    struct share s = {.d = d, .ticket = d->ticket};
    s.claims = tir_add(b, s.ticket, tir_i64(b, 4));
    s.sum = decode_part_sum(d, d->part_ends[0], count);
    const struct tir_value most = tir_i32(b, DECODE_FEW_PARTS);
    struct tir_if few = tir_begin_if(b, tir_cmp_le(b, count, most), false, NULL, 0);
    await_and_sum_up(s, DECODE_PARTS_AT_ONCE);
    tir_else(b, &few, NULL);
    sum_up_many(&s);
    tir_end_if(b, &few, NULL);
    tir_end_if(b, &part, NULL);
}
