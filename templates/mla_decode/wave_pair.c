/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode with one wave per SIMD: wave pairs. Two waves have the same 32 queries. Each has half
 * of a block's keys in the product with K and half of the latent in the product with c. They
 * exchange weights through LDS, and l at the end. A workgroup has 64 queries, and two workgroups of
 * one XCD work on the same list (passes.c). So a plan needs fewer lists than compute units, and no
 * workgroup writes partial results.
 *
 * O^T has 128 columns. The upper 64 repeat the queries of the lower ones. S^T uses MFMAs of 16 rows
 * and columns. This file has the steps for elements of 16 bits. wave_pair_exchange.c has the steps
 * for fp8, and the exchange.
 *
 * Both waves have the same m, which O and l are relative to. A wave's weights of a block are
 * relative to its exponent e: m, or its largest score if that is far above m. In a cold branch all
 * are rescaled to the larger of both waves' e. If LDS has room, it has two places for weights, so
 * that no wave waits until all have read them.
 *
 * Two compute units share HBM's rate, so a block takes an iteration to arrive. It has two
 * iterations, since the wait is where its scores begin. pipelines/wave_pair.c has the table.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include <string.h>

bool mla_wave_pair_take(const struct att_variant *v)
{
    enum { ROWS = 64 };
    const int rows = v->gqa * v->q_len;
    return rows > ROWS && rows <= 2 * ROWS && !v->one_launch;
}

/* Returns `weights` multiplied by 2^(e - m) and rounded again. The given weights are relative to
 * exponent e (log2) of their column, and the result is relative to m. */
static struct tir_value rebase(struct mla *s, struct tir_value weights, struct tir_value e,
                               struct tir_value m)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value wide = tir_convert(b, weights, TIR_F32);
    const struct tir_value factor = mla_beside_output(s, tir_exp2(b, tir_sub(b, e, m)));
    return tir_convert_short(b, att_scaled(b, wide, factor), s->number.p);
}

/* Indices of the values that are rescaled to a new maximum, after the carried state: the sum of the
 * wave's weights (F_SUM), and the weights of the pair's first and second wave (F_WEIGHTS, F_WEIGHTS
 * + 1). */
enum { F_SUM = ATT_N_CARRY, F_WEIGHTS, N_FOLLOW = F_WEIGHTS + 2 };

/* Raises m in each column to the larger exponent of the pair's two waves, if an exponent exceeds m.
 * Then rescales the values x to the new m. `e`: the wave's exponents. `other`: the other wave's
 * exponents. */
static void follow(struct mla *s, struct tir_value e, struct tir_value other,
                   struct tir_value x[N_FOLLOW])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value followed[N_FOLLOW];
    memcpy(followed, x, sizeof(followed));
    const struct tir_value m = x[ATT_CARRY_M], next = tir_max(b, e, other);
    const struct tir_value grown = tir_any(b, tir_cmp_gt(b, next, m));
    struct tir_if branch = tir_begin_if_like(b, grown, true, x, N_FOLLOW);
    const struct att_softmax_step step = {
        .grown = tir_any(b, tir_cmp_gt(b, m, att_softmax_lowest(b, &s->softmax))),
        .alpha = tir_exp2(b, tir_sub(b, m, next))};
    followed[ATT_CARRY_M] = next;
    mla_one_wave_rescale(s, &step, &followed[ATT_CARRY_O], &followed[ATT_CARRY_L],
                         MLA_RESCALE_PARTS);
    followed[F_SUM] = att_scaled(b, x[F_SUM], tir_exp2(b, tir_sub(b, e, next)));
    const struct tir_value second = tir_cmp_ne(b, mla_one_wave_half(s), tir_i32(b, 0));
    const struct tir_value of_first = tir_select(b, second, other, e),
                           of_second = tir_select(b, second, e, other);
    followed[F_WEIGHTS] = rebase(s, x[F_WEIGHTS], of_first, next);
    followed[F_WEIGHTS + 1] = rebase(s, x[F_WEIGHTS + 1], of_second, next);
    tir_else(b, &branch, followed);
    tir_end_if(b, &branch, x);
}

/* ---- The steps of the loop of wave pairs in 16 bits ---- */

/* Sets now.exponent, the exponent of each column that the wave's weights are relative to. It is m,
 * or the larger of m and the wave's largest score if a score exceeds m by more than
 * softmax.room. */
static void find_exponent(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    s->d.attention.now.exponent = s->d.attention.now.carried[ATT_CARRY_M];
    att_softmax_maximum(b, &s->softmax, s->d.attention.now.s, tir_undef(b, s->softmax.vector),
                        &s->d.attention.now.exponent);
}

/* Computes the wave's weights relative to its exponent and sums them. Stores weights and exponents
 * in LDS, where the other wave of the pair reads them. */
static void make_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value e = s->d.attention.now.exponent;
    const struct tir_value p = tir_named(
        b, "p", tir_exp2(b, att_softmax_exponent(b, &s->softmax, s->d.attention.now.s, e)));
    s->d.attention.now.weights.sum = tir_col_fold_sum(b, p);
    mla_exchange_store(s, mla_block_of(s), tir_convert_short(b, p, s->number.p), e);
}

/* Reads from LDS the weights of both waves of the pair and the other wave's exponents. */
static void read_weights(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.other_exponent = mla_exchange_load_exponent(
        s, mla_block_of(s), tir_typeof(s->d.b.f, s->d.attention.now.exponent));
    for (unsigned i = 0; i < 2; i++)
        s->now.pair_weights[i] = mla_exchange_load_weights(s, mla_block_of(s), i);
}

/* Rescales O, l and the block's weights to the larger exponent of the pair's two waves, if an
 * exponent of one exceeds m. The branch is rarely taken. */
static void rescale(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const carried = s->d.attention.now.carried;
    struct tir_value all[N_FOLLOW] = {[F_SUM] = s->d.attention.now.weights.sum,
                                      [F_WEIGHTS] = s->now.pair_weights[0],
                                      [F_WEIGHTS + 1] = s->now.pair_weights[1]};
    for (unsigned i = 0; i < ATT_N_CARRY; i++)
        all[i] = carried[i];
    follow(s, s->d.attention.now.exponent, s->now.other_exponent, all);
    for (unsigned i = 0; i < ATT_N_CARRY; i++)
        carried[i] = all[i];
    s->d.attention.now.weights.sum = all[F_SUM];
    s->now.pair_weights[0] = all[F_WEIGHTS];
    s->now.pair_weights[1] = all[F_WEIGHTS + 1];
}

/* Adds the sum of the wave's weights for the block to l. */
static void add_sum(void *context)
{
    struct mla *const s = mla_of(context);
    mla_add_sum(s, s->d.attention.now.weights.sum);
}

/* Adds to O^T the product of c^T and P^T for the keys of wave `part` (0 or 1) of the pair. */
static void product(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O];
    *o = tir_mma_in_agprs(&s->d.b, s->d.pv, now->v, s->now.pair_weights[part], *o);
    if (part)
        tir_named(&s->d.b, "o", *o);
}

#define P_LDS (1u << MLA_LDS_P)
#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))

const struct pipe_op mla_pair_exponent = {"exponent", find_exponent, ATT_SLOT(S) | ATT_SLOT(M),
                                          ATT_SLOT(E), .flags = PIPE_BRANCH};
const struct pipe_op mla_pair_make_p = {"P to LDS", make_weights, ATT_SLOT(S) | ATT_SLOT(E),
                                        ATT_SLOT(TOP), .lds_writes = P_LDS};
const struct pipe_op mla_pair_read_p = {"read P", read_weights, ATT_SLOT(E), ATT_SLOT(P16),
                                        .lds_reads = P_LDS};
const struct pipe_op mla_pair_rescale = {
    "rescale", rescale, CARRIED | ATT_SLOT(E) | ATT_SLOT(P16) | ATT_SLOT(TOP),
    CARRIED | ATT_SLOT(P16) | ATT_SLOT(TOP), .flags = PIPE_BRANCH};
const struct pipe_op mla_pair_sum = {"sum P", add_sum, ATT_SLOT(L) | ATT_SLOT(TOP), ATT_SLOT(L),
                                     .flags = 0};
const struct pipe_op mla_pair_product = {"PV", .build_part = product,
                                         .reads = ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O),
                                         .writes = ATT_SLOT(O), .flags = PIPE_PRODUCT};

/* ---- Q of wave pairs, through LDS ----
 *
 * A load of Q as operands takes much longer than a copy of its rows. So rows of Q are copied to LDS
 * as rows of K are, to the places of the third and the fourth block. Lanes read their operands
 * there.
 */

struct tir_value mla_wave_pair_query_rows(struct mla *s, struct tir_value first)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = mla_gather_rows(s);
    const struct tir_value index = tir_row_index(b, t);
    const struct split_kv_rows r = split_kv_rows(&s->d, tir_add(b, index, tir_splat(b, first, t)));
    const struct tir_value rows = mla_query_offsets(s, &r);
    return tir_add(b, rows, mla_like(s, tir_arg(b, ARG_Q, TIR_I64), rows));
}

/* Returns the index (i32) of a block whose place in LDS is used for rows of Q before the loop: the
 * third block for `number` 0, the fourth for `number` 1. */
static struct tir_value query_block(struct mla *s, struct tir_value number)
{
    enum { FIRST = 2 };
    return att_plus(&s->d.b, number, FIRST);
}

/* Reads the wave's panels of Q from LDS as operands of S^T = K Q^T, into s->query.q. */
static void read_queries(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned own = s->d.columns / s->d.waves;
    const unsigned parts = s->d.waves >> s->split.pairs;
    const struct tir_value part = tir_and(b, s->d.wave, tir_i32(b, (int)(parts - 1)));
    for (unsigned i = 0; i < s->query.n_panels; i++) {
        const struct panel *const n = &s->query.panel[i];
        const struct part *const p = mla_part_of(s, n);
        const struct tir_layout map = mla_one_wave_map(s, s->d.columns, p->width);
        /* apart: bytes in LDS from the columns of one wave to those that the next wave reads. */
        const int apart = (int)tir_lds_address(&map, own * p->width, mla_kq_bytes(s));
        const struct tir_value block = own < s->d.keys ? tir_i32(b, 0) : part;
        const struct tir_value inside = own < s->d.keys ? att_times(b, part, apart) : tir_i32(b, 0);
        const struct tir_value place =
            tir_add(b, mla_one_wave_place(s, p, query_block(s, block)), inside);
        const struct tir_value from = tir_sub(b, place, att_times(b, s->d.wave, apart));
        const int column = (int)((n->first - p->first) * mla_kq_bytes(s));
        s->query.q[i] =
            tir_named(b, "q", tir_tile_lds_load(b, att_plus(b, from, column), n->q, &map));
    }
}

void mla_wave_pair_load_q(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned own = s->d.keys / s->d.waves;
    const unsigned rows = s->split.pairs ? s->d.row_columns : s->d.columns;
    /* without lists, the loads of Q are issued after the first block's */
    if (!mla_one_wave_gathers(s))
        b->stage = mla_one_wave_stage(s, A_WAIT);
    for (unsigned i = 0; i * s->d.keys < rows; i++) {
        const struct tir_value first =
            att_plus(b, att_times(b, s->d.wave, (int)own), (int)(i * s->d.keys));
        mla_gather_copy(s, QUERIES, query_block(s, tir_i32(b, (int)i)),
                        mla_wave_pair_query_rows(s, first));
    }
    b->stage = mla_one_wave_stage(s, s->split.pairs ? A_SCORES : A_COPY);
    tir_wait(b, QUERIES, 0);
    tir_barrier(b);
    read_queries(s);
    att_lds_barrier(&s->d.b);
    b->stage = TIR_NO_STAGE;
}
