/* SPDX-License-Identifier: Apache-2.0
 *
 * The workgroups that wrote the parts of a split result add them up. A workgroup that has written
 * its part waits for the others up to a limit. Those that see the last part arrive share the slices
 * of the result. A workgroup that reaches the limit leaves, and its ticket says so.
 *
 * If no workgroup has left, each wave has fixed slices and claims none. Otherwise each wave claims
 * one slice after the other by an atomic counter, until none is left. The last workgroup to arrive
 * never waits, so no workgroup needs another one to be running. A slice is the sum of all parts in
 * their order, for any wave that adds it up.
 */
#include "templates/attention/share.h"

#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

/* Counts of the workgroups that compute parts of the same result, at the time when this workgroup
 * stops waiting; all i32. */
struct others {
    struct tir_value after; /* number of parts that were counted after this workgroup's own part */
    /* Number of workgroups that left before the last part was counted; -1: this workgroup is to
     * leave. */
    struct tir_value left;
};

/* Returns the type of an i32 that is the same in all lanes of the workgroup. */
static struct tir_type word_type(const struct att_share *s)
{
    const struct tir_layout l = tir_spread_column(s->b->f->machine, s->waves, 1);
    return tir_tile(s->b->f, TIR_I32, 1, 1, &l);
}

/* Waits for the last part, until the number of polls that s->waits chooses. Returns the number
 * (i32) of workgroups that have left, or -1 if this one reaches the limit and leaves. */
static struct tir_value await(const struct att_share *s)
{
    struct tir_builder *b = s->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    if (!s->waits.id)
        return tir_await(b, s->ticket, s->count, s->polls, s->sleep);
    struct tir_if waits = tir_begin_if(b, s->waits, false, &i32, 1);
    const struct tir_value seen = tir_await(b, s->ticket, s->count, s->polls, s->sleep);
    tir_else(b, &waits, &seen);
    const unsigned polls = s->other_polls ? s->other_polls : 1;
    struct tir_value left = tir_await(b, s->ticket, s->count, polls, s->other_sleep);
    tir_end_if(b, &waits, &left);
    return left;
}

/* True if all waves of a workgroup share an L1, so that one of them can discard its lines for all.
 * On GFX12 a workgroup may have two. */
static bool waves_share_l1(const struct att_share *s)
{
    return s->b->f->machine->lane_bits == TIR_WAVE_BITS;
}

/* Counts this workgroup's part, waits for the last part, and returns the counts. One wave counts
 * after all waves have written, and passes the counts to the other waves through LDS. That wave
 * also discards the lines of the L1 before it passes the counts, if it can do so for all waves. */
static struct others await_parts(const struct att_share *s)
{
    struct tir_builder *b = s->b;
    const struct tir_type i32 = tir_scalar(TIR_I32), t = word_type(s);
    const struct tir_layout map = tir_row_major(1, 1);
    const struct tir_value left_bit = tir_i32(b, TIR_LEFT_BIT);
    tir_wait_memory(b);
    if (s->awaited.id)
        tir_anchor(b, s->awaited);
    tir_barrier(b);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, s->wave, tir_i32(b, 0)));
    const struct tir_value was = tir_atomic_add(b, s->ticket, tir_i32(b, 1), true);
    const struct tir_value after =
        tir_sub(b, att_plus(b, s->count, -1), tir_and(b, was, tir_i32(b, TIR_ARRIVED)));
    struct tir_value left = tir_sar(b, was, left_bit);
    struct tir_if early = tir_begin_if(b, tir_cmp_gt(b, after, tir_i32(b, 0)), false, &i32, 1);
    const struct tir_value seen = await(s);
    tir_else(b, &early, &seen);
    tir_end_if(b, &early, &left);
    if (waves_share_l1(s))
        tir_acquire(b);
    const struct tir_value said = tir_or(b, tir_shl(b, left, left_bit), after);
    tir_tile_lds_store(b, s->lds, tir_splat(b, said, t), &map);
    tir_end_if(b, &first, NULL);
    att_lds_barrier(b);
    const struct tir_value all = tir_first_lane(b, tir_tile_lds_load(b, s->lds, t, &map));
    att_lds_barrier(b);
    return (struct others){
        .left = tir_sar(b, all, left_bit),
        .after = tir_and(b, all, tir_i32(b, TIR_ARRIVED)),
    };
}

/* ---- Sums of slices if no workgroup has left: fixed slices ---- */

/* Adds up the slices that belong to this wave if no workgroup has left. `n` (i32): number of all
 * slices. Slices are dealt to workgroups in turn, first to the workgroup that arrived last, which
 * is first to know that all parts are written. That workgroup also clears the counters for the next
 * launch. */
static void add_dealt(const struct att_share *s, const struct others *o, struct tir_value n)
{
    struct tir_builder *b = s->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value first = tir_add(b, tir_mul(b, s->wave, s->count), o->after);
    const struct tir_value waves = att_times(b, s->count, (int)s->waves);
    struct tir_loop slice = tir_begin_for(b, first, n, waves, NULL, 0);
    s->add(s->family, slice.index);
    tir_end_for(b, &slice, NULL, 0);
    struct tir_if last = att_begin_if(b, tir_cmp_eq(b, first, zero));
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, s->count), false);
    tir_end_if(b, &last, NULL);
}

/* ---- Sums of slices if some workgroups have left: claimed slices ---- */

/* Returns the address (i64) of the second word of the counters, which counts claims of slices. */
static struct tir_value claims_of(const struct att_share *s)
{
    return tir_add(s->b, s->ticket, tir_i64(s->b, 4));
}

/* Claims a slice for this wave. Returns the slice's index (i32), which is the number of slices or
 * more if no slice is left. `claims` (i64): address of the counter of claims. */
static struct tir_value claim(const struct att_share *s, struct tir_value claims)
{
    return tir_atomic_add(s->b, claims, tir_i32(s->b, 1), false);
}

/* Adds slice `own` (i32), which the wave has claimed, and returns its next claim. If `own` is at
 * least `n` (i32) there is no such slice, and the result is `own`. */
static struct tir_value add_claim(const struct att_share *s, struct tir_value claims,
                                  struct tir_value own, struct tir_value n)
{
    struct tir_builder *b = s->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    s->add(s->family, own);
    const struct tir_value next = claim(s, claims);
    tir_else(b, &some, &next);
    tir_end_if(b, &some, &own);
    return own;
}

/* Clears the counters of arrivals and of claims for the next launch, if `own` (i32) is the last
 * claim of all waves. Each wave makes one claim that gets no slice, so all claims together are n
 * (i32: number of slices) plus the number of waves. `claims` (i64): address of the counter of
 * claims. */
static void reset_counters(const struct att_share *s, const struct others *o,
                           struct tir_value claims, struct tir_value own, struct tir_value n)
{
    struct tir_builder *b = s->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value waves = att_times(b, tir_sub(b, s->count, o->left), (int)s->waves);
    const struct tir_value all = tir_add(b, n, waves);
    struct tir_if last = att_begin_if(b, tir_cmp_eq(b, att_plus(b, own, 1), all));
    const struct tir_value left = tir_shl(b, o->left, tir_i32(b, TIR_LEFT_BIT));
    tir_atomic_add(b, s->ticket, tir_sub(b, zero, tir_add(b, left, s->count)), false);
    tir_atomic_add(b, claims, tir_sub(b, zero, all), false);
    tir_end_if(b, &last, NULL);
}

/* Claims slices for this wave and adds them, until none of the `n` (i32) slices is left. `claims`
 * (i64) is the address of the counter. Claimed indices grow, so a wave has at most as many claims
 * as there are slices from its first one on. Most waves have one or two claims, and skip the
 * remaining rounds in steps of ROUNDS. */
static void add_claimed(const struct att_share *s, const struct others *o, struct tir_value claims,
                        struct tir_value n)
{
    enum { ROUNDS = 6 };
    struct tir_builder *b = s->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    const struct tir_value rounds = tir_i32(b, ROUNDS);
    struct tir_value own = claim(s, claims);
    struct tir_loop loop = tir_begin_for(b, own, n, rounds, &own, 1);
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, own, n), false, &i32, 1);
    struct tir_value inner = own;
    struct tir_loop round = tir_begin_for(b, tir_i32(b, 0), rounds, tir_i32(b, 1), &inner, 1);
    inner = add_claim(s, claims, inner, n);
    tir_end_for(b, &round, &inner, 1);
    tir_else(b, &some, &inner);
    tir_end_if(b, &some, &own);
    tir_end_for(b, &loop, &own, 1);
    reset_counters(s, o, claims, own, n);
}

void att_share_parts(const struct att_share *s, struct tir_value n)
{
    struct tir_builder *b = s->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value claims = claims_of(s);
    const struct others o = await_parts(s);
    struct tir_if all = att_begin_if(b, tir_cmp_eq(b, o.left, zero));
    if (!waves_share_l1(s))
        tir_acquire(b);
    add_dealt(s, &o, n);
    tir_else(b, &all, NULL);
    struct tir_if some = att_begin_if(b, tir_cmp_gt(b, o.left, zero));
    if (!waves_share_l1(s))
        tir_acquire(b);
    add_claimed(s, &o, claims, n);
    tir_end_if(b, &some, NULL);
    tir_end_if(b, &all, NULL);
}
