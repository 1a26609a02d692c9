/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode with one wave per SIMD, fp8 weights and 64 KiB of LDS: the steps of pipeline dv_split.
 *
 * No MFMA of this target multiplies weights by a scale. So O must be rescaled when a column's
 * maximum exceeds the range of fp8. In a quarter of the blocks that happens in one of 128 columns.
 * The product computes O = P c instead of O^T = c^T P^T. A column of O^T is then in one register of
 * each 16, and the rest of O does not change. Waves split the columns of the latent, so each has a
 * share of the rescaling. They split S^T by columns, and exchange P and the rescale factors alpha
 * through LDS.
 *
 * A block's c is read to registers in the iteration of its scores. Its place in LDS is then free
 * for the block after the next.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/mla_decode/register_transpose.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    PARTS = 16 /* parts of O^T's 128 columns, 8 columns each */,
    /* number of quarters of O^T's columns; a quarter is the 32 rows of an instruction's result */
    ROWS = 4,
    /* columns that a lane has of each 8 columns of O^T; the other half of the lanes has the other
     * 4 */
    NEIGHBOURS = 4,
    LANES = 32 /* lanes of half a wave, and columns of the instruction's result */,
    /* registers of a lane for a quarter of O^T's columns; a register has one column in each half of
     * the lanes */
    OF_ROWS = 16,
    HALVES = 2 /* parts of a block's keys, one for each instruction */,
    CHUNK = 16 /* bytes of padding after a row in LDS */,
    /* Least excess (log2) of a column's maximum over m with which follow_max() raises m of the
     * column. */
    FOLLOWS = 2
};
/* ---- Layouts of O, P and c in registers, and of P and vectors in LDS ---- */

/* The order in which the product of P and the latent c sums over a block's keys. Keys in a lane's
 * registers of S^T stay in that lane. An instruction multiplies half of the keys. */
static const struct tir_contraction keys_of_lanes = {4, 1, {1, 2, 8, 16}, {4}};
static const struct tir_contraction keys_of_half = {3, 1, {1, 2, 8}, {4}};

/* Returns the layout of O^T in registers. The product computes O, not O^T, so its rows are the
 * columns of O^T. */
static struct tir_layout output(const struct mla *s)
{
    const unsigned rows = mla_pv(s)->m;
    struct tir_layout o = tir_mma_result(mla_pv(s), rows, s->d.value.width, mla_own_waves(s));
    for (unsigned n = rows; n < s->d.columns; n *= 2)
        o = tir_layout_stack(&o, n);
    o = tir_layout_transpose(&o);
    return mla_transpose_columns(&o);
}

/* Returns the layout in registers of P, [keys x n columns], as operand of its product with the
 * latent c. */
static struct tir_layout weights(const struct mla *s, unsigned n)
{
    const struct tir_layout l = tir_mma_left(mla_pv(s), n, &keys_of_lanes, mla_own_waves(s));
    return tir_layout_transpose(&l);
}

/* Returns the layout in registers of the latent c for half of a block's keys, [keys x latent], as
 * operand of its product with P. */
static struct tir_layout values(const struct mla *s)
{
    const struct tir_layout right =
        tir_mma_right(mla_pv(s), s->d.value.width, &keys_of_half, mla_own_waves(s));
    const struct tir_layout l = mla_transpose_columns(&right);
    return tir_layout_transpose(&l);
}

/* Sets the types of scores, weights and O^T in s->type and s->d, and the panels of K:
 * mla_form.choose_layouts. */
static void choose_layouts(struct mla *s)
{
    struct split_kv *const d = &s->d;
    d->qk = d->pv; /* the instruction with 32 rows, for 32 keys */
    const struct tir_layout scores =
        tir_mma_result(mla_pv(s), d->keys, d->columns, mla_own_waves(s));
    const struct tir_layout o = output(s), all = tir_layout_slice(&o, 0);
    const struct tir_layout p = weights(s, d->columns), vector = tir_layout_of_one_wave(&all);
    mla_transpose_add_panels(s);
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &scores);
    s->type.product = d->scores;
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &o);
    s->type.weights = tir_tile(d->b.f, s->number.p, d->keys, d->columns, &p);
    s->type.vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &vector);
}

/* Allocates LDS for blocks, and after them for P of two blocks, and chooses the pipeline:
 * mla_form.take_lds. */
static void take_lds(struct mla *s)
{
    const uint32_t has = mla_reads_once(s) ? 1u << MLA_HAS_STREAMS : 0;
    mla_transpose_take_lds(s);
    s->lds.p = tir_lds_buffer(&s->d.b, MLA_DV_P_BUFFERS * s->d.keys * s->d.columns, 16);
    pipe_choose(&mla_dv_split, &(struct pipe_variant){.has = has}, &s->plan);
    assert(s->plan.depth[MLA_LDS_BLOCK] <= s->lds.blocks);
    assert(s->plan.depth[MLA_LDS_ALPHA] <= s->lds.blocks);
    assert(s->plan.depth[MLA_LDS_P] <= MLA_DV_P_BUFFERS);
}

/* Returns the LDS map of the weights P of a block. 16 bytes of a lane's operand are contiguous. */
static struct tir_layout weights_map(const struct mla *s)
{
    return tir_lane_major(tir_layout_of(s->d.b.f, s->type.weights), 16);
}

/* Returns the LDS address (i32) of the weights P of block `block` (i32: index). Blocks alternate
 * between two places. */
static struct tir_value weights_at(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value slot = tir_and(b, block, tir_i32(b, 1));
    return tir_add(b, s->lds.p, att_times(b, slot, (int)(s->d.keys * s->d.columns)));
}

/* Returns the LDS layout of a vector with an f32 for each of `columns` columns of S^T. The vector
 * is in the padding after rows of a block. */
static struct tir_layout vector_map(const struct mla *s, unsigned columns)
{
    struct tir_layout map = tir_row_major(1, columns);
    tir_map_pad(&map, CHUNK / sizeof(float), s->source.part->width / sizeof(float));
    return map;
}

/* Returns the LDS address (i32) of the vector of vector_map() in the block at LDS address `place`
 * (i32): after the block's first row. */
static struct tir_value vector_at(struct mla *s, struct tir_value place)
{
    return att_plus(&s->d.b, place, (int)s->source.part->width);
}

/* ---- Steps that bring a block to LDS ---- */

/* Computes the byte offset of the block's page number in the page table. */
static void find_page(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.pages[0] = mla_page_offset(s, mla_first_key(s, mla_block_of(s)));
}

/* Loads the block's page number as a scalar. */
static void load_page(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.pages[0] = tir_scalar_load(&s->d.b, s->source.pages.table, s->now.pages[0], TIR_I32);
}

/* Anchors the load of the block's page number. Without the anchor, LLVM would move the first load
 * to the end of the prologue. */
static void keep_page(void *context)
{
    struct mla *const s = mla_of(context);
    tir_anchor(&s->d.b, s->now.pages[0]);
}

/* Issues the copies to LDS of the block's rows, the latent and the rotated key. */
static void copy_block(void *context)
{
    struct mla *const s = mla_of(context);
    for (unsigned i = 0; i < mla_count_parts(s); i++)
        mla_transpose_copy(
            s, &s->now.flight,
            (struct mla_copy_piece){&s->source.part[i], 0, s->d.keys, 0, s->source.part[i].width},
            MLA_COPIES_FIRST);
}

/* ---- Steps from scores to weights ---- */

/* Computes the largest score of each column of S^T, and whether a score exceeds its column's m by
 * too much for weights of fp8. */
static void check_max(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax *const softmax = &s->softmax;
    struct att_now *const now = &s->d.attention.now;
    now->top = tir_col_max(b, now->s);
    const struct tir_value exponent = tir_splat(b, softmax->exponent, softmax->vector);
    const struct tir_value m = now->carried[ATT_CARRY_M];
    const struct tir_value above = tir_fma(b, now->top, exponent, tir_neg(b, m));
    now->step.grown = tir_any(b, tir_cmp_gt(b, above, tir_float_like(b, above, softmax->room)));
}

/* Raises m to the largest score in columns where that exceeds m by more than FOLLOWS (log2), and
 * rescales l. The branch is taken only if check_max() has found a score that is too large for fp8.
 * Sets alpha, the factor of O, which is 1 before the first key. */
static void follow_max(void *context)
{
    enum { M, L, ALPHA, N };
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax *const softmax = &s->softmax;
    struct att_now *const now = &s->d.attention.now;
    const struct tir_value m = now->carried[ATT_CARRY_M], l = now->carried[ATT_CARRY_L];
    const struct tir_value one = tir_splat(b, tir_f32(b, 1.0f), softmax->vector);
    const struct tir_type t[] = {softmax->vector, tir_typeof(b->f, l), softmax->vector};
    struct tir_if branch = tir_begin_bare_if(b, now->step.grown, t, N);
    const struct tir_value top = att_softmax_next(b, softmax, now->top, m);
    const struct tir_value far = tir_cmp_gt(b, tir_sub(b, top, m), tir_float_like(b, m, FOLLOWS));
    const struct tir_value next = tir_select(b, far, top, m);
    const struct tir_value some = tir_cmp_gt(b, m, att_softmax_lowest(b, softmax));
    const struct tir_value alpha = tir_select(b, some, tir_exp2(b, tir_sub(b, m, next)), one);
    const struct tir_value scaled = tir_mul(b, l, tir_broadcast(b, alpha, t[L]));
    tir_else(b, &branch, (struct tir_value[]){next, scaled, alpha});
    struct tir_value both[] = {m, l, one};
    tir_end_if(b, &branch, both);
    now->carried[ATT_CARRY_M] = tir_named(b, "m", both[M]);
    now->carried[ATT_CARRY_L] = both[L];
    now->step.alpha = both[ALPHA];
}

/* Computes P of the wave's columns, rounds it to fp8, and stores P and the rescale factors alpha in
 * LDS for all waves. */
static void store_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    const struct tir_layout map = vector_map(s, s->d.columns), p_map = weights_map(s);
    const struct tir_value exponent =
        att_softmax_exponent(b, &s->softmax, now->s, now->carried[ATT_CARRY_M]);
    const struct tir_value p = tir_named(b, "p", tir_exp2(b, exponent));
    now->weights.p16 = tir_convert_in_range(b, p, TIR_FP8);
    tir_tile_lds_store(b, vector_at(s, s->now.flight.place), now->step.alpha, &map);
    tir_tile_lds_store(b, weights_at(s, mla_block_of(s)), now->weights.p16, &p_map);
}

/* Adds the sum of the block's rounded weights to l. */
static void sum_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    mla_add_sum(s, tir_col_fold_sum(b, tir_convert(b, now->weights.p16, TIR_F32)));
}

/* ---- Steps that rescale O if a column's maximum has grown ---- */

/* Loads the rescale factors alpha of all columns from the block at LDS address `place` (i32). As in
 * O, the two halves of the lanes have different columns, so each lane has the factors of its
 * registers of O. */
static struct tir_value load_alpha(struct mla *s, struct tir_value place)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_spread spread = tir_spread(s->d.m, 1);
    tir_spread_cols(&spread, TIR_LANES, s->d.m->lane_bits);
    tir_spread_cols(&spread, TIR_REGS, tir_bits(s->d.columns) - s->d.m->lane_bits);
    const struct tir_layout plain = tir_spread_layout(&spread), map = vector_map(s, s->d.columns);
    const struct tir_layout columns = tir_layout_transpose(&plain);
    static const uint8_t column[] = {0, 1, 3, 4, 5, 2, 6};
    const struct tir_layout there = tir_layout_permute_rows(&columns, column);
    const struct tir_layout l = tir_layout_transpose(&there);
    const struct tir_type t = tir_tile(b->f, TIR_F32, 1, s->d.columns, &l);
    return tir_tile_lds_load(b, vector_at(s, place), t, &map);
}

/* Returns an i1 for each element of `alpha`: true if that factor is not 1. */
static struct tir_value is_not_one(struct tir_builder *b, struct tir_value alpha)
{
    return tir_cmp_ne(b, alpha, tir_float_like(b, alpha, 1.0f));
}

/* Returns the rescale factors of half `which` (0 or 1) of the columns, and the mask of lanes whose
 * factor is not 1. `alpha`: factors of all columns. Does not set member `registers` of the
 * result. */
static struct mla_alpha take_alpha(struct tir_builder *b, struct tir_value alpha, unsigned which)
{
    const struct tir_value own = tir_half(b, tir_transpose(b, alpha), (int)which);
    return (struct mla_alpha){.of_lanes = own, .lanes = tir_lane_mask(b, is_not_one(b, own))};
}

/* Sets alpha->registers, the mask of registers to rescale. A register of O^T has a column in each
 * half of the lanes. Its bit is the OR of two bits of alpha->lanes. */
static void find_registers(struct tir_builder *b, struct mla_alpha *alpha)
{
    const struct tir_value high = tir_shr(b, alpha->lanes, tir_i64(b, LANES));
    alpha->registers = tir_convert(b, tir_or(b, alpha->lanes, high), TIR_I32);
}

/* Returns an i1: true if `bits` (i32) has a bit of `mask`. */
static struct tir_value is_set(struct tir_builder *b, struct tir_value bits, uint32_t mask)
{
    return tir_cmp_ne(b, tir_and(b, bits, tir_i32(b, (int32_t)mask)), tir_i32(b, 0));
}

/* Returns tile `a`, whose rows are `parts` equal parts, with part i replaced by `part`. */
static struct tir_value put_part(struct tir_builder *b, struct tir_value a, struct tir_value part,
                                 unsigned i, unsigned parts)
{
    if (parts == 1)
        return part;
    struct tir_value half[] = {tir_half(b, a, 0), tir_half(b, a, 1)};
    const unsigned which = i / (parts / 2);
    half[which] = put_part(b, half[which], part, i % (parts / 2), parts / 2);
    return tir_stack(b, half[0], half[1]);
}

/* Returns the part `x` of O, [columns x latent], rescaled. Of each NEIGHBOURS registers, register
 * `which` is multiplied by the factor that `alpha` has in lane `lane` of each half of the lanes. */
static struct tir_value scale_part(struct mla *s, struct tir_value x, struct tir_value alpha,
                                   unsigned lane, unsigned which)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, tir_typeof(b->f, x)), 1);
    const unsigned columns = tir_typeof(b->f, x).rows;
    const struct tir_type t = tir_tile(b->f, TIR_F32, columns, 1, &l);
    const struct tir_type ids = tir_with_dtype(t, TIR_I32);
    const struct tir_value id = tir_row_index(b, ids);
    const struct tir_value high = tir_cmp_ge(b, id, tir_int_like(b, id, NEIGHBOURS));
    const struct tir_value of[] = {tir_lane_read(b, alpha, tir_i32(b, (int)lane)),
                                   tir_lane_read(b, alpha, tir_i32(b, (int)(lane + LANES)))};
    const struct tir_value factor =
        tir_select(b, high, tir_splat(b, of[1], t), tir_splat(b, of[0], t));
    const struct tir_value scaled = att_scaled(b, x, factor);
    const struct tir_value own =
        att_part(b, tir_join_blocks(b, scaled, NEIGHBOURS), which, NEIGHBOURS);
    const struct tir_value all =
        put_part(b, tir_join_blocks(b, x, NEIGHBOURS), own, which, NEIGHBOURS);
    return tir_split_blocks(b, all, s->d.value.width);
}

/* Returns O^T (`o`) with the columns of register i (index) multiplied by their rescale factors.
 * `alpha`: the factors, one per lane. */
static struct tir_value scale_columns(struct mla *s, struct tir_value o, struct tir_value alpha,
                                      unsigned i)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value x = tir_transpose(b, o);
    const struct tir_layout *const own = tir_layout_of(b->f, tir_typeof(b->f, x));
    const struct tir_layout l = tir_layout_regs_first(own, TIR_RC(0, s->d.value.width - 1));
    const unsigned part = i / NEIGHBOURS;
    const struct tir_value all = tir_relayout(b, x, &l);
    const struct tir_value scaled =
        scale_part(s, att_part(b, all, part, PARTS), alpha, i % LANES, i % NEIGHBOURS);
    const struct tir_value changed = put_part(b, all, scaled, part, PARTS);
    return tir_transpose(b, tir_relayout(b, changed, own));
}

/* Returns O^T (`o`) with n registers, from register `first` on, rescaled in columns whose maximum
 * has grown. Few maxima grow, so one test of n registers usually saves a test of each. The
 * rescaling code is in a cold branch. */
static struct tir_value rescale_registers(struct mla *s, const struct mla_alpha *alpha,
                                          unsigned first, unsigned n, struct tir_value o)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = tir_typeof(b->f, o);
    const uint32_t mask = ((1u << n) - 1) << first % LANES;
    const struct tir_value follow = is_set(b, alpha->registers, mask);
    struct tir_value followed = o;
    struct tir_if some =
        n > 1 ? tir_begin_if(b, follow, false, &t, 1) : tir_begin_bare_if(b, follow, &t, 1);
    if (n == 1)
        followed = scale_columns(s, o, alpha->of_lanes, first);
    const unsigned part = n > NEIGHBOURS ? NEIGHBOURS : 1;
    for (unsigned i = 0; i < n && n > 1; i += part)
        followed = rescale_registers(s, alpha, first + i, part, followed);
    tir_else(b, &some, &followed);
    tir_end_if(b, &some, &o);
    return o;
}

/* Reads the factors alpha of all columns from LDS into the two halves of now.alpha. Sets
 * now.alpha_lanes to a value that is not 0 if O must be rescaled. */
static void read_alpha(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value loaded = load_alpha(s, s->now.flight.place);
    for (unsigned i = 0; i < 2; i++)
        s->now.alpha[i] = take_alpha(b, loaded, i);
    s->now.alpha_lanes = tir_or(b, s->now.alpha[0].lanes, s->now.alpha[1].lanes);
}

/* Rescales O^T, in a branch that is taken if the factor alpha of any column is not 1. */
static void rescale(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const o = &s->d.attention.now.carried[ATT_CARRY_O], followed = *o;
    const struct tir_type t = tir_typeof(b->f, *o);
    struct tir_if branch =
        tir_begin_bare_if(b, tir_cmp_ne(b, s->now.alpha_lanes, tir_i64(b, 0)), &t, 1);
    for (unsigned i = 0; i < ROWS; i++) {
        struct mla_alpha *const own = &s->now.alpha[i / 2];
        if (i % 2 == 0)
            find_registers(b, own);
        followed = rescale_registers(s, own, i * OF_ROWS, OF_ROWS, followed);
    }
    tir_else(b, &branch, &followed);
    tir_end_if(b, &branch, o);
}

/* ---- Steps of the product P c ---- */

/* Reads the latent c of half `part` (0 or 1) of the block's keys from LDS. A lane has neighbouring
 * columns of a row. */
static void read_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const unsigned keys = s->d.keys / HALVES, width = s->source.part->width;
    const struct tir_layout l = values(s), along = tir_layout_regs_first(&l, TIR_RC(0, 3));
    const struct tir_type t = tir_tile(b->f, s->number.kq, keys, width, &along);
    struct tir_layout map = tir_row_major(keys, width);
    tir_map_pad(&map, width, CHUNK);
    const struct tir_value from =
        att_plus(b, s->now.flight.place, (int)(part * keys * (width + CHUNK)));
    s->now.quarter[part] = tir_tile_lds_load(b, from, t, &map);
}

/* Converts the latent c of half `part` (0 or 1) of the block's keys to an operand of its product
 * with P. Lanes exchange elements between registers. */
static void transpose_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const c = &s->now.quarter[part];
    const struct tir_layout l = values(s);
    *c = tir_relayout(&s->d.b, *c, &l);
}

/* Reads the weights P of quarter `part` (0 to 3) of the columns of O^T from LDS. */
static void read_weights(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const unsigned columns = s->d.columns / ROWS, bytes = columns * s->d.keys;
    const struct tir_layout l = weights(s, columns), map = tir_lane_major(&l, 16);
    const struct tir_type t = tir_tile(b->f, s->number.p, s->d.keys, columns, &l);
    const struct tir_value from = att_plus(b, weights_at(s, mla_block_of(s)), (int)(part * bytes));
    s->now.p_quarter[part] = tir_tile_lds_load(b, from, t, &map);
}

/* Sets now.o_quarter[part] to quarter `part` (0 to 3) of O^T's columns, which the products of both
 * halves of the keys then change. */
static void take_quarter(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value o = s->d.attention.now.carried[ATT_CARRY_O];
    s->now.o_quarter[part] = att_part(b, tir_transpose(b, o), part, ROWS);
}

/* Adds the product of P and the latent c for half `half` (0 or 1) of the keys to quarter `quarter`
 * (0 to 3) of O's rows. */
static void multiply(struct mla *s, unsigned quarter, unsigned half)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const o = &s->now.o_quarter[quarter];
    const struct tir_value p = tir_transpose(b, tir_half(b, s->now.p_quarter[quarter], (int)half));
    *o = tir_mma_in_agprs(b, s->d.pv, p, s->now.quarter[half], *o);
}

/* Adds the product of P and the latent c for the first half of the keys to quarter `part` (0 to 3)
 * of O's rows. */
static void multiply_first(void *context, unsigned part) { multiply(mla_of(context), part, 0); }

/* Adds the product of P and the latent c for the last half of the keys to quarter `part` (0 to 3)
 * of O's rows. */
static void multiply_last(void *context, unsigned part) { multiply(mla_of(context), part, 1); }

/* Joins the four quarters of columns to O^T, which the loop carries. */
static void join_quarters(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct tir_value all = mla_join_quarters(b, s->now.o_quarter);
    s->d.attention.now.carried[ATT_CARRY_O] = tir_named(b, "o", tir_transpose(b, all));
}

#define BLOCK_LDS (1u << MLA_LDS_BLOCK)
#define P_LDS (1u << MLA_LDS_P)
#define ALPHA_LDS (1u << MLA_LDS_ALPHA)
/* Register slots (enum att_register) of the first quarter of P, and of O, in steps that work on
 * quarters. Each further quarter has the next slot. */
#define QUARTER ATT_SLOT(QUARTERS)
#define O_QUARTER ATT_SLOT(O_QUARTERS)

const struct pipe_op mla_dv_find_page = {"find page", .build = find_page,
                                         .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_dv_load_page = {"load page", load_page, ATT_SLOT(K_PAGES),
                                         ATT_SLOT(K_PAGES), .flags = 0};
const struct pipe_op mla_dv_keep_page = {"keep page", keep_page, ATT_SLOT(K_PAGES),
                                         ATT_SLOT(K_PAGES), .flags = 0};
const struct pipe_op mla_dv_copy = {"block to LDS", .build = copy_block, .reads = ATT_SLOT(K_DATA),
                                    .lds_writes = BLOCK_LDS, .flags = PIPE_ASYNC};
const struct pipe_op mla_dv_check_max = {"check max", check_max, ATT_SLOT(S) | ATT_SLOT(M),
                                         ATT_SLOT(TOP) | ATT_SLOT(GROWN), .flags = 0};
const struct pipe_op mla_dv_follow_max = {
    "max", follow_max, ATT_SLOT(TOP) | ATT_SLOT(GROWN) | ATT_SLOT(M) | ATT_SLOT(L),
    ATT_SLOT(GROWN) | ATT_SLOT(M) | ATT_SLOT(L), .flags = PIPE_BRANCH};
const struct pipe_op mla_dv_store_p = {"P to LDS", store_weights,
                                       ATT_SLOT(S) | ATT_SLOT(M) | ATT_SLOT(GROWN), ATT_SLOT(P16),
                                       .lds_writes = P_LDS | ALPHA_LDS};
const struct pipe_op mla_dv_sum = {"sum P", sum_weights, ATT_SLOT(P16) | ATT_SLOT(L), ATT_SLOT(L),
                                   .flags = 0};
const struct pipe_op mla_dv_read_alpha = {"read alpha", .build = read_alpha, .writes = ATT_SLOT(E),
                                          .lds_reads = ALPHA_LDS};
const struct pipe_op mla_dv_rescale = {"rescale", rescale, ATT_SLOT(E) | ATT_SLOT(O), ATT_SLOT(O),
                                       .flags = PIPE_BRANCH};
const struct pipe_op mla_dv_read_c = {"read c", .build_part = read_c, .writes_part = ATT_SLOT(V),
                                      .lds_reads = BLOCK_LDS};
const struct pipe_op mla_dv_transpose_c = {"transpose c", .build_part = transpose_c,
                                           .reads_part = ATT_SLOT(V), .writes_part = ATT_SLOT(V)};
const struct pipe_op mla_dv_read_p = {"read P", .build_part = read_weights, .writes_part = QUARTER,
                                      .lds_reads = P_LDS};
const struct pipe_op mla_dv_take_o = {"quarter of O", .build_part = take_quarter,
                                      .reads = ATT_SLOT(O), .writes_part = O_QUARTER};
const struct pipe_op mla_dv_product_first = {
    "PV first keys",          .build_part = multiply_first,
    .reads = ATT_SLOT(V),     .reads_part = QUARTER | O_QUARTER,
    .writes_part = O_QUARTER, .flags = PIPE_PRODUCT};
const struct pipe_op mla_dv_product_last = {"PV last keys",
                                            .build_part = multiply_last,
                                            .reads = ATT_SLOT(V_MORE),
                                            .reads_part = QUARTER | O_QUARTER,
                                            .writes_part = O_QUARTER,
                                            .flags = PIPE_PRODUCT};
const struct pipe_op mla_dv_join = {"join O", join_quarters, 15 * O_QUARTER, ATT_SLOT(O),
                                    .flags = 0};

/* Waits for all waves at the end of an item: mla_form.join. After that, the waves may store vectors
 * (split_kv.divisors) in the LDS of P. */
static void join(struct mla *s, struct split_kv_state *state)
{
    (void)state;
    tir_barrier(&s->d.b);
    s->d.divisors = s->lds.p;
}

const struct mla_form mla_dv_split_form = {
    .choose_layouts = choose_layouts,
    .take_lds = take_lds,
    .begin_pass = mla_transpose_begin_pass,
    .load_q = mla_transpose_load_q,
    .read_panel = mla_transpose_read_panel,
    .first_panels = 2,
    .walk = mla_walk,
    .join = join,
    .pass = mla_walk_and_store,
};
