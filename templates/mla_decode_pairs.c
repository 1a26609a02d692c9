/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: waves that are alone, in pairs. Two waves have the same 32 queries, each half of the
 * keys of every round, and they add up at the end. So a workgroup has 64 queries, and two of them
 * walk the same list on one XCD (mla_decode_passes.c): a list needs not be cut for each compute
 * unit to have work, and nobody writes partial results.
 *
 * The columns are 128 as those of waves that are alone are, and the upper 64 stand for the queries
 * of the lower ones. S^T of 16 keys is made by an instruction of 16 rows and columns, and two lanes
 * have half of the weights that the product with c takes from one, and exchange them. The product
 * of fp8 takes 64 keys at once: there pairs divide the latent for it, mla_decode_halves.c. What is
 * here of Q is theirs too.
 *
 * Two compute units share HBM's rate for a block, so that its bytes come for as long as a round is.
 * It has two rounds to arrive, as LDS has room for: it is waited for where its scores begin, and
 * none of it is read before.
 *
 *   PAGES   the numbers of the keys' pages  M1
 *   FIND    the addresses of their rows  C2
 *   COPY    copy the block to LDS  BEGIN
 *   SCORES  it has arrived  M1    read it, S = K Q  C1    mask, maximum  M2    P  C2
 *   VALUES  rescale  M1    sum of P, P in 16 bits, read the first of c  C1    O += c P  C2
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/mla_decode_alone.h"
#include "templates/scalar.h"

enum { PIECES = 4 /* in which half of O goes to the other wave */ };

bool mla_pairs_take(const struct att_variant *v)
{
    enum { ROWS = 64 };
    const int rows = v->gqa * v->q_len;
    return rows > ROWS && rows <= 2 * ROWS && !v->one_launch;
}

void mla_pairs_visit(struct mla *s, struct att_block block, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const l = &carried[ATT_CARRY_L], *const o = &carried[ATT_CARRY_O];
    s->d.attention.source->fetch_keys(s, &block);
    const struct tir_value x =
        att_attention_modify(&s->d.attention, mla_alone_scores(s, &block), &block);
    mla_alone_at(s, A_SCORES, M2);
    const struct tir_value unmoved = tir_undef(b, s->softmax.vector);
    const struct att_softmax_step step =
        att_softmax_maximum(b, &s->softmax, x, unmoved, &carried[ATT_CARRY_M]);
    mla_alone_at(s, A_SCORES, C2);
    const struct tir_value p =
        tir_exp2(b, att_softmax_exponent(b, &s->softmax, x, carried[ATT_CARRY_M]));
    mla_alone_at(s, A_VALUES, M1);
    att_softmax_rescale(b, &step, l, o);
    mla_alone_await_values(s);
    mla_alone_at(s, A_VALUES, C1);
    *l = tir_named(b, "l", tir_add(b, *l, tir_col_fold_sum(b, tir_named(b, "p", p))));
    const struct tir_layout held = mla_alone_weights(s);
    const struct tir_value weights = tir_relayout(b, tir_convert_short(b, p, s->p_dtype), &held);
    const struct tir_value c = mla_alone_values(s, &block, 0);
    mla_alone_at(s, A_VALUES, C2);
    *o = tir_named(b, "o", tir_mma_in_agprs(b, s->d.pv, c, weights, *o));
}

/* ---- Q ----
 *
 * Lanes that load their parts of Q take much longer than copies of its rows do. So these go to LDS
 * where the third and the fourth block will be, as rows of K do, and from there to registers.
 */

/* Finds where rows of Q begin in memory, i64: from the pass's row `first` on. */
static struct tir_value query_rows(struct mla *s, struct tir_value first)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = mla_gather_rows(s);
    const struct tir_value index = tir_row_index(b, t);
    const struct decode_rows r = decode_rows(&s->d, tir_add(b, index, tir_splat(b, first, t)));
    const struct tir_value rows = mla_query_offsets(s, &r);
    return tir_add(b, rows, mla_like(s, tir_arg(b, ARG_Q, TIR_I64), rows));
}

/* The block that has the queries of a wave, or of its number of them. */
static struct tir_value query_block(struct mla *s, struct tir_value number)
{
    enum { FIRST = 2 };
    return att_plus(&s->d.b, number, FIRST);
}

static void read_queries(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned own = s->d.columns / s->d.waves;
    const struct tir_value part = tir_and(b, s->d.wave, tir_i32(b, (int)(s->d.waves / 2 - 1)));
    for (unsigned i = 0; i < s->n_panels; i++) {
        const struct panel *const n = &s->panel[i];
        const struct part *const p = n->first < s->part->width ? s->part : s->part + 1;
        const struct tir_layout map = mla_alone_map(s, s->d.columns, p->width);
        /* The map has a place for each wave's columns. */
        const int apart = (int)tir_lds_address(&map, own * p->width, s->kq_bytes);
        const struct tir_value block = own < s->d.keys ? tir_i32(b, 0) : part;
        const struct tir_value inside = own < s->d.keys ? att_times(b, part, apart) : tir_i32(b, 0);
        const struct tir_value place =
            tir_add(b, mla_alone_place(s, p, query_block(s, block)), inside);
        const struct tir_value from = tir_sub(b, place, att_times(b, s->d.wave, apart));
        const int column = (int)((n->first - p->first) * s->kq_bytes);
        s->q[i] = tir_named(b, "q", tir_tile_lds_load(b, att_plus(b, from, column), n->q, &map));
    }
}

void mla_pairs_load_q(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned own = s->d.keys / s->d.waves;
    if (!mla_alone_gathers(s)) /* behind the first block */
        b->stage = mla_alone_stage(s, A_WAIT);
    if (s->halves) {
        mla_gather_begin(s);
        b->stage = mla_alone_stage(s, A_FIND);
    }
    for (unsigned i = 0; i * s->d.keys < s->d.row_columns; i++) {
        const struct tir_value first =
            att_plus(b, att_times(b, s->d.wave, (int)own), (int)(i * s->d.keys));
        mla_gather_copy(s, QUERIES, query_block(s, tir_i32(b, (int)i)), query_rows(s, first));
    }
    b->stage = mla_alone_stage(s, A_SCORES);
    tir_wait(b, QUERIES, 0);
    tir_barrier(b);
    if (s->halves)
        mla_halves_read_q(s, query_block(s, tir_i32(b, 0)));
    else
        read_queries(s);
    mla_meet(s);
    b->stage = TIR_NO_STAGE;
}

/* ---- The end of an item ---- */

/* Returns where the other wave of the pair has what this one has at `at`: the two lie `apart` bytes
 * from each other. */
static struct tir_value across(struct mla *s, struct tir_value at, unsigned apart)
{
    struct tir_builder *const b = &s->d.b;
    return att_plus(b, tir_sub(b, at, att_times(b, mla_alone_half(s), 2 * (int)apart)), (int)apart);
}

static struct tir_value piece_of(struct tir_builder *b, struct tir_value o, unsigned i)
{
    for (unsigned n = PIECES; n > 1; n /= 2, i %= n)
        o = tir_half(b, o, i >= n / 2);
    return o;
}

static struct tir_layout piece_map(struct tir_builder *b, struct tir_value piece)
{
    enum { VECTOR = 4 };
    return tir_lane_major(tir_layout_of(b->f, tir_typeof(b->f, piece)), VECTOR);
}

static struct tir_value piece_place(struct mla *s, unsigned i)
{
    const unsigned bytes = s->part->width / 2 * s->d.columns * (unsigned)sizeof(float) / PIECES;
    return att_plus(&s->d.b, s->part->buffer, (int)(i * bytes));
}

static void give(struct mla *s, struct tir_value o)
{
    struct tir_builder *const b = &s->d.b;
    for (unsigned i = 0; i < PIECES; i++) {
        const struct tir_value piece = piece_of(b, o, i);
        const struct tir_layout map = piece_map(b, piece);
        tir_tile_lds_store(b, piece_place(s, i), piece, &map);
    }
}

/* Half of O times alpha, and what the other wave has of it. */
static struct tir_value take(struct mla *s, struct tir_value o, struct tir_value alpha,
                             unsigned first, unsigned n)
{
    struct tir_builder *const b = &s->d.b;
    if (n > 1) {
        const struct tir_value upper = take(s, tir_half(b, o, 0), alpha, first, n / 2);
        return tir_stack(b, upper, take(s, tir_half(b, o, 1), alpha, first + n / 2, n / 2));
    }
    const struct tir_type t = tir_typeof(b->f, o);
    const struct tir_layout map = piece_map(b, o);
    const unsigned apart = t.rows * s->d.row_columns * (unsigned)sizeof(float);
    const struct tir_value other =
        tir_tile_lds_load(b, across(s, piece_place(s, first), apart), t, &map);
    return tir_fma(b, o, tir_broadcast(b, alpha, t), other);
}

/* Waves have half of O each, the first one in their registers, and give the other away. */
static struct tir_value exchange(struct mla *s, struct tir_value o, struct tir_value alpha)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value other = tir_half(b, o, 1);
    give(s, tir_mul(b, other, tir_broadcast(b, alpha, tir_typeof(b->f, other))));
    mla_meet(s);
    const struct tir_value mine = take(s, tir_half(b, o, 0), alpha, 0, PIECES);
    tir_barrier(b); /* what comes next to LDS is another item's */
    return mine;
}

void mla_pairs_join(struct mla *s, struct decode_state *state)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned bytes = s->d.columns * (unsigned)sizeof(float);
    const struct tir_layout map = tir_row_major(1, s->d.columns);
    const struct tir_value at = s->unread, at_l = att_plus(b, at, (int)bytes);
    const struct tir_value m = mla_beside_output(s, state->m), l = mla_beside_output(s, state->l);
    const struct tir_type t = tir_typeof(b->f, m);
    tir_wait(b, GROUP, 0); /* of blocks behind the last one */
    tir_barrier(b);
    tir_tile_lds_store(b, at, m, &map);
    tir_tile_lds_store(b, at_l, l, &map);
    mla_meet(s);
    const struct tir_value other = tir_tile_lds_load(b, across(s, at, bytes / 2), t, &map);
    const struct tir_value other_l = tir_tile_lds_load(b, across(s, at_l, bytes / 2), t, &map);
    const struct tir_value top = tir_max(b, m, other);
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, m, top));
    const struct tir_value other_alpha = tir_exp2(b, tir_sub(b, other, top));
    state->m = top;
    state->l = tir_fma(b, other_l, other_alpha, tir_mul(b, l, alpha));
    state->o = exchange(s, state->o, alpha);
    s->d.output = tir_typeof(b->f, state->o);
    s->d.value.width = s->d.output.rows;
    s->d.first_value = att_times(b, mla_alone_half(s), s->d.output.rows);
}
