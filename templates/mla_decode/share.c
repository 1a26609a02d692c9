/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, the steps of waves that share S^T (mla_split). They are for targets with 64 KiB of
 * LDS, and for tiles of 16 columns on targets whose waves have 32 lanes.
 *
 * Waves with the same columns split the keys of a block in S^T = K Q^T; each has at least the 16
 * rows of an MFMA. Further waves split the columns of K. Each of these has a part of the sum S^T.
 * They add their parts through LDS, and each computes the softmax of all keys. Waves that only
 * split keys compute the softmax of their own keys, and exchange the largest scores through LDS. In
 * both cases all waves know a column's maximum before they round weights. O is rescaled in the
 * iteration of the product.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum {
    /* Log2 of the number of columns of S^T in the result of a 16 x 16 instruction. */
    COLUMN_BITS = 4
};

/* Returns log2 of the number of lanes of a wave that have scores of the same column of S^T. */
static unsigned lane_bits(const struct mla *s) { return s->d.m->lane_bits - COLUMN_BITS; }

void mla_divide_scores(struct mla *s, unsigned product_keys)
{
    const unsigned left = mla_wave_bits(s) - s->split.columns - product_keys;
    const bool small = s->d.m->lds_bytes <= 64 * 1024;
    /* narrow: waves of 32 lanes that each hold all of Q. These need twice the registers, so fewer
     * waves fit a SIMD. */
    const bool narrow = s->d.m->lane_bits < TIR_WAVE_BITS && !s->split.columns;
    s->split.product_keys = s->split.softmax_keys = (uint8_t)product_keys;
    if ((small || narrow) && left) {
        s->split.depth = (uint8_t)left;
        s->split.softmax_keys = 0;
    }
    if (s->split.softmax_keys)
        s->split.agree = small ? MLA_EXCHANGE_MAX : MLA_AGREE_ON_GROWTH;
}

/* Returns the bytes of a block's S^T, keys x columns of f32. */
static unsigned part_bytes(const struct mla *s)
{
    return s->d.keys * s->d.columns * (unsigned)sizeof(float);
}

unsigned mla_shared_bytes(const struct mla *s)
{
    if (s->split.agree == MLA_EXCHANGE_MAX)
        return (1u << (lane_bits(s) + s->split.softmax_keys)) * s->d.columns *
               (unsigned)sizeof(float);
    return s->split.depth ? part_bytes(s) << s->split.depth : 0;
}

/* Returns the layout in registers of the largest scores that each lane has in each of its columns
 * of S^T. Sets *rows to the number of these maxima per column, over all lanes and waves. */
static struct tir_layout folded_scores(const struct mla *s, unsigned *rows)
{
    return tir_layout_fold_rows(tir_layout_of(s->d.b.f, s->type.product), rows);
}

struct tir_layout mla_scores_map(const struct mla *s)
{
    unsigned rows;
    const struct tir_layout folded = folded_scores(s, &rows);
    return s->split.agree == MLA_EXCHANGE_MAX
               ? tir_lane_major(&folded, 1)
               : tir_lane_major(tir_layout_of(s->d.b.f, s->type.product), 4);
}

struct tir_type mla_tops_type(const struct mla *s)
{
    unsigned rows;
    folded_scores(s, &rows);
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_LANES, COLUMN_BITS);
    tir_spread_rows(&l, TIR_LANES, lane_bits(s));
    tir_spread_cols(&l, TIR_WAVES, s->split.columns);
    tir_spread_rows(&l, TIR_REGS, s->split.softmax_keys);
    const struct tir_layout tops = tir_spread_layout(&l);
    return tir_tile(s->d.b.f, TIR_F32, rows, s->d.columns, &tops);
}

unsigned mla_early_panels(const struct mla *s)
{
    enum { MOST = 3 };
    const bool halves = s->source.lead && mla_piece_features(s) >> MLA_HAS_HALVES & 1;
    const unsigned end = halves ? s->source.part->width / 2 >> s->split.depth : 0;
    unsigned n = 0;
    while (n < MOST && n < s->query.n_panels &&
           s->query.panel[n].first + s->query.panel[n].width <= end)
        n++;
    return n;
}

/* ---- Steps that add the waves' parts of S^T through LDS ---- */

/* Stores the wave's part of the sum S^T to LDS. */
static void store_scores(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value own = att_times(b, mla_row_part(s), (int)part_bytes(s));
    const struct tir_layout map = mla_scores_map(s);
    tir_tile_lds_store(b, tir_add(b, s->lds.scores, own), s->d.attention.now.s, &map);
}

/* Reads from LDS the parts of S^T of all waves that split the columns of K. */
static void read_scores(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = mla_scores_map(s);
    for (unsigned i = 0; i < 1u << s->split.depth; i++) {
        const struct tir_value at = att_plus(b, s->lds.scores, (int)(i * part_bytes(s)));
        s->now.quarter[i] = tir_tile_lds_load(b, at, s->d.scores, &map);
    }
}

/* Adds the parts of S^T that read_scores() has read. The sum is S^T. */
static void sum_scores(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value x = s->now.quarter[0];
    for (unsigned i = 1; i < 1u << s->split.depth; i++)
        x = tir_add(&s->d.b, x, s->now.quarter[i]);
    s->d.attention.now.s = tir_named(&s->d.b, "s", x);
}

#define S_LDS (1u << MLA_LDS_S)

const struct pipe_op mla_store_s = {"S to LDS", .build = store_scores, .reads = ATT_SLOT(S),
                                    .lds_writes = S_LDS};
const struct pipe_op mla_read_s = {"read S", .build = read_scores, .writes = ATT_SLOT(TOP),
                                   .lds_reads = S_LDS};
const struct pipe_op mla_sum_s = {"sum S", sum_scores, ATT_SLOT(TOP), ATT_SLOT(S), .flags = 0};

/* ---- The end of an item: waves exchange m and l ---- */

struct tir_value mla_sum_own(struct mla *s, struct tir_value l)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_attention *const a = &s->d.attention;
    if (a->sum.ones.id)
        return att_weight_sum_vector(b, &a->sum, l, a->softmax.vector);
    if (s->split.agree == MLA_EXCHANGE_MAX) /* true: l has rows for the keys of all waves */
        l = tir_join_blocks(b, l, tir_typeof(b->f, l).rows >> s->split.softmax_keys);
    return tir_col_sum(b, l);
}

/* Numbers of the vectors in LDS by which waves exchange m and l at the end of an item. The number
 * before these two may be the last iteration's alpha, which some wave may still read. */
enum { M_BEHIND = N_VECTORS - 1, L_BEHIND };

/* Ends `loop`, the loop over keys, and `some`, the branch that items with keys take. inside[] has
 * the values that the loop carries. Waves exchange m and l through LDS, while the last product
 * runs. Returns m, l and O of the wave's columns; an item without keys has l and O of 0. */
struct split_kv_state mla_share_end(struct mla *s, struct tir_if *some, struct tir_loop *loop,
                                    struct tir_value inside[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
    tir_end_for(b, loop, inside, ATT_N_CARRY);
    b->stage = (uint8_t)(s->plan.stages - 1); /* the exchange is built before the last product */
    struct tir_value l = mla_sum_own(s, inside[ATT_CARRY_L]);
    struct tir_if writers = mla_begin_writers(s);
    mla_store_vector(s, tir_i32(b, M_BEHIND), inside[ATT_CARRY_M]);
    mla_store_vector(s, tir_i32(b, L_BEHIND), l);
    mla_end_writers(s, &writers);
    att_lds_barrier(&s->d.b);
    inside[ATT_CARRY_M] = mla_load_vector(s, tir_i32(b, M_BEHIND), 0, s->type.vector);
    l = mla_load_vector(s, tir_i32(b, L_BEHIND), 0, s->type.vector);
    for (unsigned part = 1; part < mla_parts(s); part++)
        l = tir_add(b, l, mla_load_vector(s, tir_i32(b, L_BEHIND), part, s->type.vector));
    inside[ATT_CARRY_L] = l;
    b->stage = TIR_NO_STAGE;
    tir_else(b, some, inside);
    const struct tir_value zero = tir_f32(b, 0.0f);
    struct tir_value none[ATT_N_CARRY] = {
        [ATT_CARRY_M] = att_softmax_lowest(b, &(struct att_softmax){.vector = s->type.vector}),
        [ATT_CARRY_L] = tir_splat(b, zero, s->type.vector),
        [ATT_CARRY_O] = tir_splat(b, zero, s->d.output),
    };
    none[ATT_CARRY_O] = tir_materialize(b, none[ATT_CARRY_O]);
    tir_end_if(b, some, none);
    return (struct split_kv_state){none[ATT_CARRY_M], none[ATT_CARRY_L], none[ATT_CARRY_O]};
}
