/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: pairs of waves that are alone, of fp8. The two have the same 32 queries. Each makes
 * the scores and weights of half of a block's keys, 32, which is what the product with c takes a
 * scale for; each has half of O^T, and all keys of the block in that product. So they tell each
 * other weights and their exponents, 2 KB of LDS for each block, and at the end nothing of O.
 *
 * Two workgroups walk the same list, as in mla_decode_pairs.c. A round is a block of 64 keys, and
 * has the phases of mla_decode_alone.c:
 *
 *   SCORES  the block has arrived  M1    S = K Q of own keys  C1    mask  M2
 *           e, P, both to LDS  C2
 *   VALUES  they are there  M1    read both waves' P and e, first of c, sum of P  C1
 *           O follows the maximum, all have read P  M2    O += c P  C2
 *
 * mla_decode_gather.c says when a block is asked for.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/mla_decode_alone.h"
#include "templates/scalar.h"

enum {
    VECTOR = 16 /* weights of a lane that lie side by side */,
    PARTS = 2,
    EARLY = 32 /* columns of c that are read in the phase before their product */
};

struct tir_layout mla_halves_with_keys(const struct tir_layout *l)
{
    static const uint8_t key[] = {0, 1, 3, 2, 4, 5};
    return tir_layout_permute_rows(l, key);
}

/* Returns where a wave finds its columns in a buffer of which `bytes` are those of a wave of each
 * pair: the columns of both halves are the same. */
static struct tir_value own_columns(struct mla *s, struct tir_value buffer, unsigned bytes)
{
    struct tir_builder *const b = &s->d.b;
    return tir_sub(b, buffer, att_times(b, mla_alone_half(s), (int)bytes));
}

/* The columns of all waves are twice as many rows as a block has. */
void mla_halves_read_q(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned bytes = mla_alone_before(s, s->part, s->d.row_columns);
    const struct tir_value place = own_columns(s, mla_alone_place(s, s->part, block), bytes);
    for (unsigned i = 0; i < s->n_panels; i++)
        s->q[i] = tir_named(
            b, "q", mla_lines_read(s, place, s->panel[i].q, s->d.columns, s->panel[i].first));
}

/* ---- Weights and exponents pass between waves ---- */

/* Keys of the other wave are behind those of the first one, in further registers. */
static struct tir_contraction keys_order(struct mla *s)
{
    const struct tir_mma *const mma = &s->d.m->mma[s->d.pv];
    struct tir_contraction k =
        tir_contract_acc(tir_layout_of(s->d.b.f, s->d.scores), tir_bits(mma->n));
    k.reg[k.n_reg++] = s->d.scores.rows;
    return k;
}

/* The layout of all weights of a block, [columns x keys]. */
static struct tir_layout all_weights(struct mla *s)
{
    const struct tir_contraction k = keys_order(s);
    return tir_mma_right(&s->d.m->mma[s->d.pv], s->d.columns, &k, mla_alone_waves(s));
}

static struct tir_layout weights_map(struct mla *s)
{
    const struct tir_layout right = all_weights(s), l = tir_layout_transpose(&right);
    return tir_lane_major(&l, VECTOR);
}

/* The buffers have columns for one wave of each pair. */
void mla_halves_take_lds(struct mla *s, unsigned blocks)
{
    struct tir_builder *const b = &s->d.b;
    s->part->bytes = mla_lines_bytes(s);
    s->part->buffer = tir_lds_buffer(b, blocks * s->part->bytes, 16);
    s->p_buffer = tir_lds_buffer(b, s->d.keys * s->d.row_columns, 16);
    s->scale_buffer =
        tir_lds_buffer(b, (PARTS * s->d.columns - s->d.row_columns) * sizeof(float), 16);
}

static struct tir_value weights_place(struct mla *s)
{
    return own_columns(s, s->p_buffer, s->d.keys * s->d.row_columns);
}

static struct tir_value exponents_place(struct mla *s)
{
    return own_columns(s, s->scale_buffer, s->d.row_columns * sizeof(float));
}

/* Weights of own keys and the exponent that they are relative to, one for each column. */
static void tell(struct mla *s, struct tir_value weights, struct tir_value e)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = weights_map(s), exponents = tir_row_major(PARTS, s->d.columns);
    const unsigned before = tir_lds_address(&map, 1u << (tir_bits(VECTOR) + s->d.m->lane_bits), 1);
    const unsigned part = s->d.columns * sizeof(float);
    const struct tir_value half = mla_alone_half(s);
    tir_tile_lds_store(b, tir_add(b, weights_place(s), att_times(b, half, (int)before)), weights,
                       &map);
    tir_tile_lds_store(b, tir_add(b, exponents_place(s), att_times(b, half, (int)part)), e,
                       &exponents);
}

static struct tir_value read_weights(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout right = all_weights(s), l = tir_layout_transpose(&right);
    const struct tir_layout map = weights_map(s);
    return tir_tile_lds_load(b, weights_place(s),
                             tir_tile(b->f, s->p_dtype, s->d.keys, s->d.columns, &l), &map);
}

/* The exponents of both waves, as the product takes their scales. */
static struct tir_value read_exponents(struct mla *s)
{
    const struct tir_layout right = all_weights(s), map = tir_row_major(PARTS, s->d.columns);
    struct tir_type t = mla_alone_scales_type(s, &right);
    t.dtype = TIR_F32;
    return tir_tile_lds_load(&s->d.b, exponents_place(s), t, &map);
}

/* Returns where the wave's half of the latent begins in a block. */
static struct tir_value own_half(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const int bytes = (int)mla_lines_before(s, s->d.output.rows);
    return tir_add(b, mla_alone_place(s, s->part, block), att_times(b, mla_alone_half(s), bytes));
}

/* c^T of columns of the wave's half of the latent, columns x keys. */
static struct tir_value read_columns(struct mla *s, struct tir_value block, unsigned first,
                                     unsigned width)
{
    struct tir_builder *const b = &s->d.b;
    if (width > MLA_LINES_COLUMNS) {
        const struct tir_value upper = read_columns(s, block, first, width / 2);
        return tir_stack(b, upper, read_columns(s, block, first + width / 2, width / 2));
    }
    const struct tir_contraction k = keys_order(s);
    const struct tir_layout a = tir_mma_left(&s->d.m->mma[s->d.pv], width, &k, mla_alone_waves(s));
    const struct tir_layout l = tir_layout_transpose(&a);
    const struct tir_type t = tir_tile(b->f, s->kq_dtype, s->d.keys, width, &l);
    return tir_transpose(b, mla_lines_read(s, own_half(s, block), t, s->d.keys, first));
}

static struct tir_value read_values(struct mla *s, struct tir_value block)
{
    mla_alone_at(s, A_VALUES, C1);
    struct tir_value v = read_columns(s, block, 0, EARLY);
    mla_alone_at(s, A_VALUES, C2);
    for (unsigned width = EARLY; width < s->d.output.rows; width *= 2)
        v = tir_stack(&s->d.b, v, read_columns(s, block, width, width));
    return v;
}

/* The product's instruction is assembly that needs a state or two behind its scales: l is made in
 * between. */
void mla_halves_visit(struct mla *s, struct att_block block, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const l = &carried[ATT_CARRY_L], *const o = &carried[ATT_CARRY_O], e;
    const struct tir_value p = mla_alone_scaled(s, &block, &e);
    const struct tir_value rounded = tir_convert_in_range(b, tir_named(b, "p", p), TIR_FP8);
    tell(s, rounded, e);
    mla_alone_at(s, A_VALUES, M1);
    mla_meet(s);
    mla_alone_at(s, A_VALUES, C1);
    const struct tir_value all = read_exponents(s), weights = read_weights(s);
    const struct tir_value sum = tir_col_fold_sum(b, tir_convert(b, rounded, TIR_F32));
    mla_alone_at(s, A_VALUES, M2);
    mla_alone_follow(s, all, carried);
    tir_barrier(b); /* all have read P: C2 writes the next block's */
    const struct tir_value m = carried[ATT_CARRY_M];
    const struct tir_value scales = mla_alone_scales(s, all, m, tir_typeof(b->f, all));
    const struct tir_value scale = tir_exp2(b, tir_sub(b, e, m));
    *l = tir_named(b, "l", tir_fma(b, sum, tir_broadcast(b, scale, tir_typeof(b->f, *l)), *l));
    const struct tir_value c = read_values(s, block.index);
    *o = tir_named(
        b, "o",
        tir_mma_scaled_in_agprs(b, s->scaled, c, weights, *o, tir_i32(b, MLA_SCALE_BIAS), scales));
}

/* The waves of a pair know one maximum. */
void mla_halves_join(struct mla *s, struct decode_state *state)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned part = s->d.row_columns * sizeof(float);
    const struct tir_layout map = tir_row_major(1, s->d.columns);
    const struct tir_value at = s->unread, half = mla_alone_half(s);
    const struct tir_value l = mla_beside_output(s, state->l);
    tir_wait(b, GROUP, 0); /* of blocks behind the last one */
    tir_wait(b, LATER, 0);
    tir_barrier(b);
    tir_tile_lds_store(b, at, l, &map);
    mla_meet(s);
    const struct tir_value turned = tir_sub(b, at, att_times(b, half, PARTS * (int)part));
    const struct tir_value other =
        tir_tile_lds_load(b, att_plus(b, turned, (int)part), tir_typeof(b->f, l), &map);
    state->m = mla_beside_output(s, state->m);
    state->l = tir_add(b, l, other);
    tir_barrier(b); /* what comes next to LDS is another item's */
    s->d.value.width = s->d.output.rows;
    s->d.first_value = att_times(b, half, s->d.output.rows);
}
