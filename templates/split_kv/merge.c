/* SPDX-License-Identifier: Apache-2.0
 *
 * This file ends a work item: it merges the waves' states through LDS, and writes the item's result
 * or partial.
 *
 *      m = max(m1, m2)   l = l1 2^(m1 - m) + l2 2^(m2 - m)   O = O1 2^(m1 - m) + O2 2^(m2 - m)
 *
 * If LDS has room for O of all waves, they store their states there. Each wave then adds up and
 * writes a part of the rows. Otherwise half of the waves pass their states to the other half, until
 * one wave is left, which writes the sum.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/split_kv/split_kv.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

/* Returns the layout of O with the two halves of its rows in separate registers if a lane has rows
 * of both: the upper half in the first registers, the lower half after it. */
static struct tir_layout halves_of(const struct split_kv *d)
{
    return tir_layout_regs_first(tir_layout_of(d->b.f, d->output),
                                 TIR_RC(d->value.width / 2 - 1, d->columns - 1));
}

/* Returns the LDS layout of a wave's O, in which 16 bytes of each lane are side by side, without
 * bank conflicts. */
static struct tir_layout o_map(const struct split_kv *d)
{
    const struct tir_layout l = halves_of(d);
    return tir_lane_major(&l, 4);
}

/* Returns the LDS layout of a vector: one f32 for each column. */
static struct tir_layout vector_map(const struct split_kv *d)
{
    return tir_row_major(1, d->columns);
}

/* Returns the bytes of LDS of a wave's O. */
static unsigned o_bytes(const struct split_kv *d) { return d->value.width * d->columns * 4; }

/* Returns the bytes of LDS of a wave's O, m and l. */
static unsigned slot_bytes(const struct split_kv *d) { return o_bytes(d) + 2 * d->columns * 4; }

/* Returns the number of waves that pass on their states at once: half of them if their states fit
 * in half of the LDS, else one. */
static unsigned slots(const struct split_kv *d)
{
    return d->waves / 2 * slot_bytes(d) <= d->m->lds_bytes / 2 ? d->waves / 2 : 1;
}

/* True if each of the workgroups that share a compute unit can have `bytes` bytes of LDS. */
static bool fits_beside(const struct split_kv *d, unsigned bytes)
{
    const unsigned groups = 4 * d->waves_per_simd / d->waves;
    return bytes <= d->m->lds_bytes / (groups ? groups : 1);
}

/* True if each wave adds up and writes a part of the rows: LDS has room for O of all waves, and
 * each wave has registers of rows to add up. */
static bool shares_sum(const struct split_kv *d)
{
    const unsigned regs = d->value.width * d->columns >> d->m->lane_bits;
    return d->waves > 1 && d->k.width <= 256 && fits_beside(d, d->waves * o_bytes(d)) &&
           regs >= 4 * d->waves;
}

/* Returns the bytes of LDS of a wave's m and l. l has several rows, which the waves that load l add
 * up. */
static int number_bytes(const struct split_kv *d)
{
    unsigned rows;
    tir_layout_fold_rows(tir_layout_of(d->b.f, d->scores), &rows);
    return (int)(4 * d->columns * (1 + rows));
}

/* True if LDS has room for m and l of all waves after the O of all waves. */
static bool has_room_for_numbers(const struct split_kv *d)
{
    return fits_beside(d, d->waves * (o_bytes(d) + (unsigned)number_bytes(d)));
}

/* Returns the byte offset in the LDS buffer of m and l of all waves. It is 0 if they use the place
 * of O. */
static int numbers_at(const struct split_kv *d)
{
    return has_room_for_numbers(d) ? (int)(d->waves * o_bytes(d)) : 0;
}

unsigned split_kv_merge_bytes(const struct split_kv *d)
{
    if (shares_sum(d))
        return d->waves * (o_bytes(d) + (has_room_for_numbers(d) ? (unsigned)number_bytes(d) : 0));
    return d->waves > 1 ? slots(d) * slot_bytes(d) : 4 * d->columns;
}

/* Stores O, m and l of state *s in LDS from address `at` (i32) on. */
static void store_state(struct split_kv *d, struct tir_value at, const struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout o = o_map(d), vector = vector_map(d);
    tir_tile_lds_store(b, at, s->o, &o);
    const struct tir_value m_at = att_plus(b, at, (int)o_bytes(d));
    tir_tile_lds_store(b, m_at, s->m, &vector);
    tir_tile_lds_store(b, att_plus(b, m_at, (int)d->columns * 4), s->l, &vector);
}

/* Returns own * own_factor + other * factor. `own` is a part of this wave's O, and `other` the same
 * part of another wave's O, which is in LDS at address `at` (i32). The factors are 1 x columns. */
static struct tir_value join_part(struct split_kv *d, struct tir_value at, struct tir_value own,
                                  struct tir_value own_factor, struct tir_value factor)
{
    struct tir_builder *b = &d->b;
    const struct tir_type t = tir_typeof(b->f, own);
    const struct tir_layout map = tir_lane_major(tir_layout_of(b->f, t), 4);
    const struct tir_value other = tir_tile_lds_load(b, at, t, &map);
    return tir_fma(b, own, tir_broadcast(b, own_factor, t),
                   tir_mul(b, other, tir_broadcast(b, factor, t)));
}

/* Returns O `own` of this wave times own_factor plus another wave's O, at LDS address `at` (i32),
 * times factor. Computes one half after the other, since two whole O would take all registers of a
 * wave. */
static struct tir_value join_output(struct split_kv *d, struct tir_value at, struct tir_value own,
                                    struct tir_value own_factor, struct tir_value factor)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout halves = halves_of(d);
    const struct tir_value o = tir_relayout(b, own, &halves);
    struct tir_value joined[2];
    if (!tir_layout_has_halves(&halves, d->value.width))
        return tir_relayout(b, join_part(d, at, o, own_factor, factor),
                            tir_layout_of(b->f, d->output));
    for (int i = 0; i < 2; i++)
        joined[i] = join_part(d, att_plus(b, at, i * (int)o_bytes(d) / 2), tir_half(b, o, i),
                              own_factor, factor);
    return tir_relayout(b, tir_stack(b, joined[0], joined[1]), tir_layout_of(b->f, d->output));
}

/* Returns the sum of this wave's state *x and another wave's state, which is in LDS at address `at`
 * (i32). */
static struct split_kv_state join(struct split_kv *d, const struct split_kv_state *x,
                                  struct tir_value at)
{
    struct tir_builder *b = &d->b;
    const struct tir_type vector = d->attention.softmax.vector;
    const struct tir_layout map = vector_map(d);
    const struct tir_value m_at = att_plus(b, at, (int)o_bytes(d));
    const struct tir_value m = tir_tile_lds_load(b, m_at, vector, &map);
    const struct tir_value l =
        tir_tile_lds_load(b, att_plus(b, m_at, (int)d->columns * 4), vector, &map);
    struct split_kv_state s = {.m = tir_max(b, x->m, m)};
    const struct tir_value fx = tir_exp2(b, tir_sub(b, x->m, s.m));
    const struct tir_value fy = tir_exp2(b, tir_sub(b, m, s.m));
    s.l = tir_fma(b, x->l, fx, tir_mul(b, l, fy));
    s.o = join_output(d, at, x->o, fx, fy);
    return s;
}

/* Passes the states of n waves, from wave `from` (index) on, to waves 0 to n - 1 through LDS. Each
 * of the latter waves adds a received state to its own state *s. */
static void hand_over(struct split_kv *d, struct split_kv_state *s, unsigned from, unsigned n)
{
    struct tir_builder *b = &d->b;
    const struct tir_value slot = att_plus(b, d->wave, -(int)from);
    struct tir_if giver = att_begin_if(b, tir_cmp_ult(b, slot, tir_i32(b, (int)n)));
    store_state(d, tir_add(b, d->lds, att_times(b, slot, (int)slot_bytes(d))), s);
    tir_end_if(b, &giver, NULL);
    att_lds_barrier(b);

    const struct tir_type t[] = {d->attention.softmax.vector, d->attention.softmax.vector,
                                 d->output};
    struct tir_if taker = tir_begin_if(b, tir_cmp_lt(b, d->wave, tir_i32(b, (int)n)), false, t, 3);
    const struct split_kv_state both =
        join(d, s, tir_add(b, d->lds, att_times(b, d->wave, (int)slot_bytes(d))));
    tir_else(b, &taker, (struct tir_value[]){both.m, both.l, both.o});
    struct tir_value values[] = {s->m, s->l, s->o};
    tir_end_if(b, &taker, values);
    *s = (struct split_kv_state){values[0], values[1], values[2]};
    att_lds_barrier(b);
}

/* Adds up the states of all waves into wave 0's *s, in steps of half of the waves or of one
 * wave. */
static void hand_over_all(struct split_kv *d, struct split_kv_state *s)
{
    const unsigned n = slots(d);
    s->l = tir_col_sum(&d->b, s->l);
    if (n == 1)
        for (unsigned wave = 1; wave < d->waves; wave++)
            hand_over(d, s, wave, 1);
    else
        for (unsigned half = d->waves / 2; half; half /= 2)
            hand_over(d, s, half, half);
}

/* The m and l of each wave as loaded from LDS, and the factor of its O in the sum. */
struct numbers {
    struct tir_value m[SPLIT_KV_MAX_WAVES], l[SPLIT_KV_MAX_WAVES], factor[SPLIT_KV_MAX_WAVES];
};

/* Returns the LDS layout of a wave's l, in which the rows of a column are adjacent. */
static struct tir_layout sum_map(const struct split_kv *d)
{
    const struct tir_layout l = tir_row_major(d->columns, d->attention.softmax.folded.rows);
    return tir_layout_transpose(&l);
}

/* Returns the tile type of l in which one lane has all rows of a column. */
static struct tir_type sum_type(struct split_kv *d)
{
    const struct tir_type folded = d->attention.softmax.folded;
    struct tir_layout l = *tir_layout_of(d->b.f, d->attention.softmax.vector);
    for (unsigned rows = 1; rows < folded.rows; rows *= 2)
        l = tir_layout_stack(&l, rows);
    return tir_tile(d->b.f, TIR_F32, folded.rows, folded.cols, &l);
}

/* Stores m and l of this wave's state in LDS. */
static void store_numbers(struct split_kv *d, const struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout vector = vector_map(d), sums = sum_map(d);
    const int bytes = number_bytes(d);
    const struct tir_value at = att_plus(b, d->lds, numbers_at(d));
    const struct tir_value own = tir_add(b, at, att_times(b, d->wave, bytes));
    tir_tile_lds_store(b, own, s->l, &sums);
    tir_tile_lds_store(b, att_plus(b, own, bytes - 4 * (int)d->columns), s->m, &vector);
}

/* Loads m and l of all waves from LDS. */
static void load_numbers(struct split_kv *d, struct numbers *n)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout vector = vector_map(d), sums = sum_map(d);
    const int bytes = number_bytes(d);
    for (int i = 0; i < (int)d->waves; i++) {
        const struct tir_value at = att_plus(b, d->lds, numbers_at(d) + i * bytes);
        n->l[i] = tir_tile_lds_load(b, at, sum_type(d), &sums);
        n->m[i] = tir_tile_lds_load(b, att_plus(b, at, bytes - 4 * (int)d->columns),
                                    d->attention.softmax.vector, &vector);
    }
}

/* Sets s->m to the largest m of all waves, and s->l to the sum of all l, relative to that m. Sets
 * n->factor[]. */
static void add_numbers(struct split_kv *d, struct numbers *n, struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    s->m = n->m[0];
    for (unsigned i = 1; i < d->waves; i++)
        s->m = tir_max(b, s->m, n->m[i]);
    for (unsigned i = 0; i < d->waves; i++) {
        const struct tir_value l = tir_col_sum(b, n->l[i]);
        n->factor[i] = tir_exp2(b, tir_sub(b, n->m[i], s->m));
        s->l = i ? tir_fma(b, l, n->factor[i], s->l) : tir_mul(b, l, n->factor[i]);
        /* Without this anchor LLVM computes the factor late, before O is multiplied. */
        tir_anchor(b, n->factor[i]);
    }
    tir_anchor(b, s->l);
}

/* Returns the tile type of the rows of O^T that a wave adds up: an equal share of each lane's
 * registers, selected by the last bits of a register's index. Overlapping halves of a row are
 * divided alike. Sets *whole to the layout of O^T in LDS. */
static struct tir_type rows_to_add(struct split_kv *d, struct tir_layout *whole)
{
    const struct tir_type t = split_kv_in_order(d);
    *whole = tir_layout_regs_first(tir_layout_of(d->b.f, t), TIR_RC(0, (int)d->columns - 1));
    const unsigned kept = d->value.overlap ? 1 : 0;
    const struct tir_layout dealt =
        tir_layout_deal_regs(whole, whole->reg_bits - kept, tir_bits(d->waves));
    return tir_tile(d->b.f, TIR_F32, t.rows, t.cols, &dealt);
}

/* Merges the states *s of all waves and writes the result: each wave adds up and writes a part of
 * the rows. The rows' addresses are computed while O is stored in LDS. */
static void share_sum(struct split_kv *d, struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    struct tir_layout whole;
    const struct tir_type part = rows_to_add(d, &whole);
    const struct tir_layout map = tir_lane_major(&whole, 4);
    const bool room = has_room_for_numbers(d);
    const int bytes = (int)o_bytes(d);
    struct numbers numbers;
    struct tir_value o[SPLIT_KV_MAX_WAVES];
    d->output = part;
    struct split_kv_places places = split_kv_load_places(d, SPLIT_KV_EITHER);
    store_numbers(d, s);
    if (!room) { /* O will overwrite m and l in LDS */
        att_lds_barrier(&d->b);
        load_numbers(d, &numbers);
        split_kv_find_out(d, &places);
        att_lds_barrier(&d->b);
    }
    const struct tir_value own = tir_add(b, d->lds, att_times(b, d->wave, bytes));
    tir_tile_lds_store(b, own, tir_relayout(b, s->o, &whole), &map);
    if (room)
        split_kv_find_out(d, &places);
    split_kv_find_lse(d, &places);
    if (!room)
        add_numbers(d, &numbers, s);
    att_lds_barrier(&d->b);
    if (room)
        load_numbers(d, &numbers);
    for (int i = 0; i < (int)d->waves; i++)
        o[i] = tir_tile_lds_load(b, att_plus(b, d->lds, i * bytes), part, &map);
    if (room)
        add_numbers(d, &numbers, s);
    const struct tir_value inverse = split_kv_write_lse(d, s, &places);
    for (unsigned i = 0; i < d->waves; i++) {
        const struct tir_value factor =
            tir_broadcast(b, tir_mul(b, numbers.factor[i], inverse), part);
        s->o = i ? tir_fma(b, o[i], factor, s->o) : tir_mul(b, o[i], factor);
    }
    split_kv_write_out(d, s->o, &places);
    att_lds_barrier(&d->b);
}

void split_kv_end_item(struct split_kv *d, struct split_kv_state *s)
{
    struct tir_builder *b = &d->b;
    if (shares_sum(d)) {
        const struct tir_type output = d->output;
        share_sum(d, s);
        d->output = output;
        return;
    }
    hand_over_all(d, s);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, d->wave, tir_i32(b, 0)));
    split_kv_write_state(d, s);
    tir_end_if(b, &first, NULL);
}
