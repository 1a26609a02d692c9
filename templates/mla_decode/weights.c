/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, pipelines whose waves share the scores of a block: the steps from scores to weights,
 * and the ways in which waves agree on the maximum m (enum mla_agreement). A table has the steps of
 * one protocol:
 *
 *     MLA_OWN_MAX            a wave has all keys of its columns, and so the maximum
 *     MLA_AGREE_ON_GROWTH    waves split the keys. Each makes weights with an m of its own. If one
 *                            has grown, a cold branch makes all weights anew with the largest
 *     MLA_EXCHANGE_MAX       waves split the keys, and exchange the largest scores before weights
 *                            are made
 *     MLA_SCALE_OWN_WEIGHTS  waves split the keys, and each wave's weights have a scale: scaled.c
 *
 * If waves split the columns of S^T, P and the factors alpha of O are exchanged through LDS. alpha
 * is the factor 2^(m - m') by which O and l are rescaled when the maximum grows from m to m'.
 */
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

/* ---- Vectors, one value per column, that waves exchange ---- */

struct tir_value mla_largest(struct mla *s, struct tir_value n, struct tir_type t)
{
    struct tir_value most = mla_load_vector(s, n, 0, t);
    for (unsigned part = 1; part < mla_parts(s); part++)
        most = tir_max(&s->d.b, most, mla_load_vector(s, n, part, t));
    return most;
}

struct tir_value mla_largest_of_parts(struct mla *s, struct tir_value n)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout *const scores = tir_layout_of(b->f, s->d.scores);
    const struct tir_layout column = tir_layout_slice(scores, 0);
    if (!s->split.softmax_keys)
        return mla_largest(s, n, s->softmax.vector);
    const struct tir_value most =
        mla_largest(s, n, tir_tile(b->f, TIR_F32, 1, s->d.columns, &column));
    const struct tir_layout parts =
        tir_layout_split_blocks(tir_layout_of(b->f, s->softmax.vector), 1, s->d.columns);
    const struct tir_type t = tir_tile(b->f, TIR_F32, mla_parts(s), s->d.columns, &parts);
    return tir_join_blocks(b, tir_broadcast(b, most, t), 1);
}

struct tir_value mla_beside_output(struct mla *s, struct tir_value v)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(s->d.b.f, s->d.output), 0);
    return tir_relayout(&s->d.b, v, &l);
}

/* ---- Steps that find the maximum m ---- */

/* Updates m with the block's scores, and sets the rescale factor alpha. For waves that have all
 * keys of their columns (MLA_OWN_MAX). */
static void find_max(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    struct tir_value *const m = &now->carried[ATT_CARRY_M];
    now->step = att_softmax_maximum(b, &s->softmax, now->s, tir_float_like(b, *m, 1.0f), m);
    s->d.attention.now.exponent = *m;
}

/* Computes the maximum of the wave's own keys (MLA_AGREE_ON_GROWTH), from which weights are made.
 * Sets alpha to the excess (log2) of that maximum over the carried m. m does not change here. */
static void find_own_max(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    struct tir_value m = now->carried[ATT_CARRY_M];
    now->s = mla_own_keys(s, now->s);
    att_softmax_maximum(b, &s->softmax, now->s, tir_float_like(b, m, 1.0f), &m);
    s->d.attention.now.step.alpha = tir_sub(b, m, now->carried[ATT_CARRY_M]);
    s->d.attention.now.exponent = m;
}

/* Stores to LDS the largest score that each lane has in each of its columns. */
static void store_tops(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = mla_scores_map(s);
    tir_tile_lds_store(b, s->lds.scores, tir_col_fold_max(b, s->d.attention.now.s), &map);
}

/* Reads from LDS the largest scores that lanes of all waves have in the wave's columns. */
static void read_tops(void *context)
{
    struct mla *const s = mla_of(context);
    const struct tir_layout map = mla_scores_map(s);
    s->d.attention.now.top = tir_tile_lds_load(&s->d.b, s->lds.scores, mla_tops_type(s), &map);
}

/* Updates m with the largest scores of all waves, which read_tops() has read (MLA_EXCHANGE_MAX),
 * and sets the rescale factor alpha. */
static void find_shared_max(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    struct tir_value *const m = &now->carried[ATT_CARRY_M];
    struct att_softmax all = att_softmax(b, mla_tops_type(s), s->softmax.exponent);
    all.room = s->softmax.room;
    all.rise = s->softmax.rise;
    all.from_zero = s->softmax.from_zero;
    now->step = att_softmax_maximum(b, &all, now->top, tir_float_like(b, *m, 1.0f), m);
    s->d.attention.now.exponent = *m;
}

/* ---- Steps that compute, round and sum weights ---- */

/* Returns the weights `p` (f32) rounded to the type of O^T += c^T P^T. Sets *sum to the sum of the
 * weights over each lane's keys, to be added to l. */
static struct tir_value round_weights(struct mla *s, struct tir_value p, struct tir_value *sum)
{
    struct tir_builder *const b = &s->d.b;
    const bool fp8 = mla_weights_fp8(s);
    const struct tir_value used =
        fp8 ? tir_convert_in_range(b, p, TIR_FP8) : tir_convert_short(b, p, s->number.p);
    *sum = tir_col_fold_sum(b, fp8 ? tir_convert(b, used, TIR_F32) : p);
    return used;
}

/* Computes the block's weights 2^(s - exponent), rounds them, and sums them for l. Weights of fp8
 * are summed after rounding, so that out stays a weighted mean of values. */
static void make_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    const struct tir_value x =
        att_softmax_exponent(b, &s->softmax, now->s, s->d.attention.now.exponent);
    now->p = tir_named(b, "p", tir_exp2(b, x));
    now->weights.p16 = round_weights(s, now->p, &s->d.attention.now.weights.sum);
}

void mla_add_sum(struct mla *s, struct tir_value sum)
{
    struct tir_value *const l = &s->d.attention.now.carried[ATT_CARRY_L];
    *l = tir_named(&s->d.b, "l", tir_add(&s->d.b, *l, sum));
}

void mla_add_scaled_sum(struct mla *s, struct tir_value sum, struct tir_value exponent)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const carried = s->d.attention.now.carried, *const l = &carried[ATT_CARRY_L];
    const struct tir_value scale = tir_exp2(b, tir_sub(b, exponent, carried[ATT_CARRY_M]));
    *l = tir_named(b, "l", tir_fma(b, sum, tir_broadcast(b, scale, tir_typeof(b->f, *l)), *l));
}

/* Rescales O and l where the maximum has grown, and adds the block's weights to l. It is for waves
 * that have P and O of the same columns. */
static void rescale_own(void *context)
{
    struct mla *const s = mla_of(context);
    const struct att_now *const now = &s->d.attention.now;
    att_softmax_rescale(&s->d.b, &now->step, &now->carried[ATT_CARRY_O],
                        &now->carried[ATT_CARRY_L]);
    mla_add_sum(s, s->d.attention.now.weights.sum);
}

/* Multiplies l by the rescale factor alpha, and adds the block's weights to it. */
static void sum_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const l = &now->carried[ATT_CARRY_L];
    *l = att_scaled(b, *l, now->step.alpha);
    mla_add_sum(s, s->d.attention.now.weights.sum);
}

/* ---- Steps that pass weights through LDS to all waves ---- */

/* Stores the wave's weights and its rescale factors alpha in LDS for all waves. */
static void store_weights(void *context)
{
    struct mla *const s = mla_of(context);
    const struct att_now *const now = &s->d.attention.now;
    struct tir_if writers = mla_begin_writers(s);
    mla_store_weights(s, mla_block_of(s), now->weights.p16);
    mla_store_vector(s, mla_weights_slot(s, mla_block_of(s)), now->step.alpha);
    mla_end_writers(s, &writers);
}

/* Stores in LDS for all waves the weights of the wave's own keys and its own maximum. Also stores
 * the excess (log2) of that maximum over the carried m. */
static void store_own_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value block = mla_block_of(s);
    struct tir_if writers = mla_begin_writers(s);
    mla_store_weights(s, block, mla_all_keys(s, s->d.attention.now.weights.p16));
    mla_store_vector(s, mla_weights_slot(s, block), s->d.attention.now.step.alpha);
    mla_store_vector(s, att_plus(b, mla_weights_slot(s, block), VECTOR_OWN_M),
                     s->d.attention.now.exponent);
    mla_end_writers(s, &writers);
}

/* Reads the weights of all waves for the block from LDS. */
static void read_weights(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.weights.p16 = mla_load_weights(s, mla_block_of(s));
}

/* ---- Steps that rescale O if m has grown ---- */

/* Reads from LDS the rescale factors alpha for the wave's O^T. */
static void read_alpha(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.step.alpha =
        mla_load_vector(s, mla_weights_slot(s, mla_block_of(s)), 0, s->type.vector);
}

/* Returns O^T (`o`) with each column multiplied by its rescale factor in `alpha` (1 x columns). The
 * branch that multiplies is taken unless all factors are 1. */
static struct tir_value follow(struct mla *s, struct tir_value o, struct tir_value alpha)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = tir_typeof(b->f, o);
    const struct tir_value grown = tir_any(b, tir_cmp_ne(b, alpha, tir_float_like(b, alpha, 1.0f)));
    struct tir_if branch = tir_begin_if(b, grown, true, &t, 1);
    const struct tir_value scaled = tir_mul(b, o, tir_broadcast(b, alpha, t));
    tir_else(b, &branch, &scaled);
    tir_end_if(b, &branch, &o);
    return o;
}

/* Returns half `which` (0 or 1) of the columns of tile `a`. */
static struct tir_value half_of_columns(struct mla *s, unsigned which, struct tir_value a)
{
    struct tir_builder *const b = &s->d.b;
    return tir_transpose(b, tir_half(b, tir_transpose(b, a), (int)which));
}

/* Returns O^T (`o`) times `alpha` (1 x columns), with a separate branch for the columns of each
 * register. Usually maxima have grown in the columns of at most one register. */
static struct tir_value follow_by_columns(struct mla *s, struct tir_value o, struct tir_value alpha)
{
    struct tir_builder *const b = &s->d.b;
    if (tir_typeof(b->f, o).cols == (unsigned)mla_pv(s)->n)
        return follow(s, o, alpha);
    struct tir_value part[2];
    for (unsigned i = 0; i < 2; i++)
        part[i] = tir_transpose(
            b, follow_by_columns(s, half_of_columns(s, i, o), half_of_columns(s, i, alpha)));
    return tir_transpose(b, tir_stack(b, part[0], part[1]));
}

/* Rescales O^T by the factors alpha, with one branch for all columns. */
static void rescale(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const o = &s->d.attention.now.carried[ATT_CARRY_O];
    *o = follow(s, *o, s->d.attention.now.step.alpha);
}

/* Rescales O^T by the factors alpha, with a branch for the columns of each register. */
static void rescale_by_columns(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const o = &s->d.attention.now.carried[ATT_CARRY_O];
    *o = follow_by_columns(s, *o, s->d.attention.now.step.alpha);
}

/* Raises m of all waves to the largest maximum, if the maximum of some wave exceeds m. Then
 * rescales O and l, and stores the weights again, relative to the new m. Only this branch has
 * barriers. Otherwise only adds the weights to l. */
static void agree(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const carried = now->carried;
    const struct tir_value slot = mla_weights_slot(s, mla_block_of(s));
    const struct tir_value growth = mla_largest(s, slot, s->type.vector);
    const struct tir_value grown =
        tir_any(b, tir_cmp_gt(b, growth, tir_float_like(b, growth, 0.0f)));
    struct tir_if branch = tir_begin_if_like(b, grown, true, carried, ATT_N_CARRY);
    const struct tir_value most = mla_largest_of_parts(s, att_plus(b, slot, VECTOR_OWN_M));
    const struct tir_value own_factor = tir_exp2(b, tir_sub(b, s->d.attention.now.exponent, most));
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, carried[ATT_CARRY_M], most));
    const struct tir_value o_alpha = tir_exp2(b, tir_neg(b, growth));
    const struct tir_value p = att_scaled(b, now->p, own_factor);
    struct tir_value gain;
    const struct tir_value used = round_weights(s, p, &gain);
    const struct tir_value l = att_scaled(b, carried[ATT_CARRY_L], alpha);
    const struct tir_value followed[] = {
        [ATT_CARRY_M] = most,
        [ATT_CARRY_L] = tir_add(b, l, gain),
        [ATT_CARRY_O] = att_scaled(b, carried[ATT_CARRY_O], o_alpha),
    };
    struct tir_if writers = mla_begin_writers(s);
    mla_store_weights(s, mla_block_of(s), mla_all_keys(s, used));
    mla_end_writers(s, &writers);
    att_lds_barrier(&s->d.b);
    tir_else(b, &branch, followed);
    carried[ATT_CARRY_L] = tir_add(b, carried[ATT_CARRY_L], s->d.attention.now.weights.sum);
    tir_end_if(b, &branch, carried);
}

#define P_LDS (1u << MLA_LDS_P)
#define S_LDS (1u << MLA_LDS_S)
#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))
#define STEP (ATT_SLOT(GROWN) | ATT_SLOT(EXPONENT)) /* slots that the steps of the maximum write */

const struct pipe_op mla_max = {"max", find_max, ATT_SLOT(S) | ATT_SLOT(M), STEP | ATT_SLOT(M),
                                .flags = PIPE_BRANCH};
const struct pipe_op mla_own_max = {"max", find_own_max, ATT_SLOT(S) | ATT_SLOT(M),
                                    STEP | ATT_SLOT(S), .flags = PIPE_BRANCH};
const struct pipe_op mla_store_tops = {"max to LDS", .build = store_tops, .reads = ATT_SLOT(S),
                                       .lds_writes = S_LDS};
const struct pipe_op mla_read_tops = {"read max", .build = read_tops, .writes = ATT_SLOT(TOP),
                                      .lds_reads = S_LDS};
const struct pipe_op mla_shared_max = {"max", find_shared_max, ATT_SLOT(TOP) | ATT_SLOT(M),
                                       STEP | ATT_SLOT(M), .flags = PIPE_BRANCH};
const struct pipe_op mla_make_p = {"exp2", make_weights, ATT_SLOT(S) | ATT_SLOT(EXPONENT),
                                   ATT_SLOT(P) | ATT_SLOT(P16), .flags = 0};
const struct pipe_op mla_rescale_own = {"rescale", rescale_own,
                                        ATT_SLOT(P) | ATT_SLOT(GROWN) | ATT_SLOT(L) | ATT_SLOT(O),
                                        ATT_SLOT(L) | ATT_SLOT(O), .flags = PIPE_BRANCH};
const struct pipe_op mla_sum = {"sum P", sum_weights, ATT_SLOT(P) | ATT_SLOT(GROWN) | ATT_SLOT(L),
                                ATT_SLOT(L), .flags = 0};
const struct pipe_op mla_store_p = {"P to LDS", .build = store_weights,
                                    .reads = ATT_SLOT(P16) | ATT_SLOT(GROWN), .lds_writes = P_LDS};
const struct pipe_op mla_store_own_p = {"P to LDS", .build = store_own_weights,
                                        .reads = ATT_SLOT(P16) | STEP, .lds_writes = P_LDS};
const struct pipe_op mla_read_alpha = {"read alpha", .build = read_alpha, .writes = ATT_SLOT(E),
                                       .lds_reads = P_LDS};
const struct pipe_op mla_rescale = {"rescale", rescale, ATT_SLOT(E) | ATT_SLOT(O), ATT_SLOT(O),
                                    .flags = PIPE_BRANCH};
const struct pipe_op mla_rescale_columns = {
    "rescale", rescale_by_columns, ATT_SLOT(E) | ATT_SLOT(O), ATT_SLOT(O), .flags = PIPE_BRANCH};
const struct pipe_op mla_agree = {"agree",
                                  .build = agree,
                                  .reads = CARRIED | ATT_SLOT(P) | ATT_SLOT(EXPONENT),
                                  .writes = CARRIED | ATT_SLOT(E),
                                  .lds_reads = P_LDS,
                                  .flags = PIPE_BRANCH};
const struct pipe_op mla_read_p = {"read P", .build = read_weights, .writes = ATT_SLOT(P16),
                                   .lds_reads = P_LDS};
