/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: one block of keys, from the cache to O^T.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/mla_decode/mla_decode.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

void mla_set_stage(struct mla *s, enum stage stage, enum phase phase)
{
    s->d.b.stage = mla_stage(s, stage);
    s->d.b.phase = mla_phase(s, phase);
}

void mla_set_product_stage(struct mla *s)
{
    if (s->late)
        mla_set_stage(s, LATE, s->ahead ? VALUES : EARLIER_VALUES);
    else
        mla_set_stage(s, COMPUTE, VALUES);
}

struct tir_value mla_mask_scores(struct mla *s, struct tir_value x, const struct att_block *block)
{
    s->d.b.stage = s->mask_at.stage;
    s->d.b.phase = s->mask_at.phase;
    return att_attention_modify(&s->d.attention, x, block);
}

struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v)
{
    return tir_splat(&s->d.b, scalar, tir_typeof(s->d.b.f, v));
}

struct tir_value mla_first_key(void *family, struct tir_value block)
{
    struct mla *const s = family;
    return tir_add(&s->d.b, s->d.item.first_key, att_times(&s->d.b, block, (int)s->d.keys));
}

/* Chooses how `cols` columns of a block of the latent pass through registers: 16 bytes a lane, if
 * it has as many. At least two rows are in a wave: one that had one row only would have its page
 * number moved to a scalar, with a wait. False where a part of a row leaves a lane less than it
 * could have. */
static bool transit_layout(const struct mla *s, unsigned width, struct tir_layout *layout)
{
    const unsigned cols = tir_bits(width), tokens = tir_bits(s->d.keys);
    const unsigned most = tir_bits(16 / s->d.kv_bytes),
                   all = cols + tokens - TIR_WAVE_BITS - s->wave_bits;
    const unsigned vector = most < all ? most : all;
    const unsigned row = cols - vector < 5 ? cols - vector : 5;
    const unsigned rows = TIR_WAVE_BITS - row + s->wave_bits;
    if (rows > tokens || (vector < most && width < s->d.value.width))
        return false;
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, vector);
    tir_spread_cols(&l, TIR_LANES, row);
    tir_spread_rows(&l, TIR_LANES, TIR_WAVE_BITS - row);
    tir_spread_rows(&l, TIR_WAVES, s->wave_bits);
    tir_spread_cols(&l, TIR_REGS, cols - vector - row);
    tir_spread_rows(&l, TIR_REGS, tokens - rows);
    *layout = tir_spread_layout(&l);
    return true;
}

static void add_piece(struct mla *s, struct part *part, const struct att_cache *c, unsigned first,
                      unsigned width, const struct tir_layout *layout)
{
    s->piece[s->n_pieces++] = (struct piece){
        .part = part,
        .column = first,
        .paged = att_paged_tile(&s->d.b, c, s->d.keys, width,
                                c->packed || part == s->part ? first : part->first, layout),
    };
}

void mla_find_pieces(struct mla *s)
{
    struct part *const latent = s->part, *const rotated = s->part + 1;
    const struct att_cache *const c = &s->d.k.c;
    struct tir_layout transit;
    s->n_pieces = 0;
    unsigned width = latent->width / 2;
    if (!transit_layout(s, width, &transit)) {
        width = latent->width;
        const bool fits = transit_layout(s, width, &transit);
        assert(fits);
        (void)fits;
    }
    for (unsigned first = 0; first < latent->width; first += width)
        add_piece(s, latent, c, first, width, &transit);
    if (s->n_parts == 1)
        return;
    struct att_cache own = *c;
    if (c->packed)
        own = att_cache_rotated(c, s->d.dtype);
    s->piece[s->n_pieces++] = (struct piece){
        .part = rotated,
        .paged = att_paged_tile(&s->d.b, &own, s->d.keys, rotated->width,
                                c->packed ? 0 : rotated->first, NULL),
    };
}

static bool is_latent(const struct mla *s, const struct piece *p) { return p->part == s->part; }

/* Pieces of a block take turns: when one of a block goes to LDS, the same one of the next block is
 * asked for, so that memory always has something to do. Page
 * numbers are loaded behind the first piece: vmcnt counts in order, and behind the last they would
 * be waited for with all of it. */
static enum phase phase_of(const struct mla *s, unsigned piece)
{
    if (s->ahead)
        return piece ? SOFTMAX : AHEAD;
    return piece == 0 || s->n_pieces == 1 ? PLACE_FIRST : PLACE;
}

/* The first key to ask for. Behind the last block that is asked for again, since caches have it. */
static struct tir_value key_to_fetch(struct mla *s, struct tir_value block)
{
    return mla_first_key(s, s->ahead ? tir_min(&s->d.b, block, s->last_block) : block);
}

static void fetch(struct mla *s, struct att_block *block)
{
    struct tir_builder *const b = &s->d.b;
    for (unsigned i = 0; i < s->n_pieces; i++) {
        struct piece *const p = &s->piece[i];
        mla_set_stage(s, PAGES, s->ahead ? PLACE : phase_of(s, 0));
        if (i && is_latent(s, p))
            p->pages = s->piece->pages;
        else
            p->pages = att_page_numbers(b, &s->pages, &p->paged, key_to_fetch(s, block->index));
        mla_set_stage(s, LOADS, phase_of(s, i));
        p->fetched =
            att_paged_load(b, &s->pages, &p->paged, key_to_fetch(s, block->index), p->pages);
    }
    if (s->d.v->mask != ATT_MASK_CUSTOM)
        return;
    if (s->ahead)
        mla_set_stage(s, PLACES, s->told ? SOFTMAX : REST);
    block->mask = att_load_mask(&s->d.attention, key_to_fetch(s, block->index));
}

/* Clears rows behind the sequence's last token, and those that no entry of a list stands for. A
 * page may hold anything there, a NaN too; P is 0 there, but its product with a NaN is not. */
static struct tir_value clear_tail(struct mla *s, const struct piece *p, struct tir_value c,
                                   struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type type = tir_typeof(b->f, c);
    const struct tir_value left = tir_sub(b, s->d.item.kv_len, mla_first_key(s, block));
    struct tir_value edge = tir_cmp_lt(b, left, tir_i32(b, (int)s->d.keys));
    if (s->pages.slots)
        edge = tir_or(b, edge, att_has_gaps(b, p->pages));
    struct tir_if branch = tir_begin_if(b, edge, true, &type, 1);
    const struct tir_type t = tir_with_dtype(type, TIR_I32);
    const struct tir_value row = tir_row_index(b, t);
    struct tir_value there = tir_cmp_lt(b, row, mla_like(s, left, row));
    if (s->pages.slots) {
        const struct tir_value entry = att_paged_entries(b, &p->paged, p->pages);
        there = tir_and(b, there, tir_cmp_ge(b, entry, tir_int_like(b, entry, 0)));
    }
    const struct tir_value cleared = tir_select(b, there, c, tir_float_like(b, c, 0.0f));
    tir_else(b, &branch, &cleared);
    tir_end_if(b, &branch, &c);
    return c;
}

/* A panel's columns of K. */
static struct tir_value read_panel(struct mla *s, struct tir_value block, const struct panel *panel)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = panel->first < s->part->width ? s->part : s->part + 1;
    const struct tir_layout l = tir_mma_left(mla_qk(s, panel), s->d.keys, &panel->k, mla_split(s));
    const struct tir_type t = tir_tile(b->f, s->kq_dtype, s->d.keys, panel->width, &l);
    const struct tir_value column = mla_own_first(s, panel, s->kq_bytes);
    const struct tir_value first = att_plus(b, column, -(int)(p->first * s->kq_bytes));
    const struct tir_value at = tir_add(b, mla_buffer_of(s, p, block), first);
    return tir_tile_lds_load(b, at, t, &p->lds);
}

/* Reads in front of a barrier what went to LDS in front of the one before. */
static void read_early_panels(struct mla *s, struct tir_value block)
{
    if (!mla_early_panels(s))
        return;
    mla_set_stage(s, PLACES, AHEAD);
    mla_meet(s);
    mla_set_stage(s, PLACES, REST);
    for (unsigned i = 0; i < mla_early_panels(s); i++)
        s->early[i] = read_panel(s, block, &s->panel[i]);
}

static void place(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    for (unsigned i = 0; i < s->n_pieces; i++) {
        const struct piece *const p = &s->piece[i];
        mla_set_stage(s, PLACES, phase_of(s, i));
        struct tir_value x = att_paged_elements(b, &p->paged, p->fetched, s->kq_dtype);
        if (is_latent(s, p))
            x = clear_tail(s, p, x, block);
        const struct tir_value at = mla_buffer_of(s, p->part, block);
        tir_tile_lds_store(b, att_plus(b, at, (int)(p->column * s->kq_bytes)), x, &p->part->lds);
    }
    mla_set_stage(s, PLACES, s->ahead ? REST : PLACE);
    if (s->pages.slots) /* of the last piece, which has one for each token */
        mla_store_entries(s, block, s->piece[s->n_pieces - 1].pages);
    read_early_panels(s, block);
    mla_meet(s);
    if (s->late && !s->ahead) { /* the last block's product has a round of its own */
        mla_set_stage(s, LATE, s->between ? PLACE_FIRST : PLACE);
        mla_meet(s);
    }
}

/* Q^T, as the right operand of S^T = K Q^T. */
static struct tir_value query_panel(struct mla *s, unsigned n)
{
    const struct panel *const p = &s->panel[n];
    const struct tir_layout map = mla_query_map(s, p);
    struct tir_value at, q = s->q[n];
    if (mla_find_query(s, n, &at))
        q = tir_tile_lds_load(&s->d.b, at, p->q, &map);
    return tir_transpose(&s->d.b, q);
}

static struct tir_value key_panel(struct mla *s, struct tir_value block, unsigned n)
{
    return n < mla_early_panels(s) ? s->early[n] : read_panel(s, block, &s->panel[n]);
}

static struct tir_value compute_scores(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    mla_set_stage(s, COMPUTE, SCORES);
    struct tir_value scores = tir_splat(b, tir_f32(b, 0.0f), s->product);
    for (unsigned i = 0; i < s->n_panels; i++) {
        const int product = s->panel[i].product;
        scores = tir_mma(b, product, key_panel(s, block, i), query_panel(s, i), scores);
    }
    if (s->row_waves)
        scores = mla_sum_scores(s, scores);
    return tir_named(b, "s", scores);
}

/* O^T of some columns times alpha, where that is not 1. */
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

/* Some columns of a tile: the first half of them or the second one. */
static struct tir_value half(struct mla *s, unsigned which, struct tir_value a)
{
    struct tir_builder *const b = &s->d.b;
    return tir_transpose(b, tir_half(b, tir_transpose(b, a), (int)which));
}

/* Columns that different registers have follow by themselves: one that has grown seldom has
 * company. */
static struct tir_value follow_apart(struct mla *s, struct tir_value o, struct tir_value alpha)
{
    struct tir_builder *const b = &s->d.b;
    if (tir_typeof(b->f, o).cols == (unsigned)mla_pv(s)->n)
        return follow(s, o, alpha);
    struct tir_value part[2];
    for (unsigned i = 0; i < 2; i++)
        part[i] = tir_transpose(b, follow_apart(s, half(s, i, o), half(s, i, alpha)));
    return tir_transpose(b, tir_stack(b, part[0], part[1]));
}

/* O follows the maximum, by what the waves that know it left in LDS. Where blocks go ahead that is
 * read before the next block's scores are made, and needed behind them. */
static struct tir_value rescale(struct mla *s, struct tir_value block, struct tir_value o)
{
    if (s->ahead)
        mla_set_stage(s, LATE, PLACE);
    const struct tir_value alpha = mla_load_vector(s, mla_turn(s, block), 0, s->vector);
    if (!s->ahead)
        return follow(s, o, alpha);
    mla_set_stage(s, LATE, FOLLOW);
    return follow_apart(s, o, alpha);
}

struct tir_value mla_beside_output(struct mla *s, struct tir_value v)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(s->d.b.f, s->d.output), 0);
    return tir_relayout(&s->d.b, v, &l);
}

/* P and alpha go to all waves; returns P as the right operand of the product with c. */
static struct tir_value exchange(struct mla *s, const struct att_softmax_step *step,
                                 struct tir_value block, struct tir_value p,
                                 struct tir_value carried[ATT_N_CARRY])
{
    struct tir_if writers = mla_begin_writers(s);
    mla_store_weights(s, block, p);
    mla_store_vector(s, mla_turn(s, block), step->alpha);
    mla_end_writers(s, &writers);
    if (!s->late)
        mla_meet(s);
    mla_set_product_stage(s);
    carried[ATT_CARRY_O] = rescale(s, block, carried[ATT_CARRY_O]);
    if (s->ahead)
        mla_set_stage(s, LATE, PLACE);
    return mla_load_weights(s, block);
}

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
    if (!s->key_waves)
        return mla_largest(s, n, s->softmax.vector);
    const struct tir_value most =
        mla_largest(s, n, tir_tile(b->f, TIR_F32, 1, s->d.columns, &column));
    const struct tir_layout parts =
        tir_layout_split_blocks(tir_layout_of(b->f, s->softmax.vector), 1, s->d.columns);
    const struct tir_type t = tir_tile(b->f, TIR_F32, mla_parts(s), s->d.columns, &parts);
    return tir_join_blocks(b, tir_broadcast(b, most, t), 1);
}

struct tir_value mla_round_weights(struct mla *s, struct tir_value p, struct tir_value *sum)
{
    struct tir_builder *const b = &s->d.b;
    const bool fp8 = mla_weights_fp8(s);
    const struct tir_value used =
        fp8 ? tir_convert_in_range(b, p, TIR_FP8) : tir_convert_short(b, p, s->p_dtype);
    *sum = tir_col_fold_sum(b, fp8 ? tir_convert(b, used, TIR_F32) : p);
    return used;
}

static void store_weights(struct mla *s, struct tir_value block, struct tir_value used)
{
    mla_store_weights(s, block, mla_all_keys(s, used));
}

/*
 * Waves split the keys of a block, and each made its weights with a maximum m of its own. Where
 * some part's has grown, all waves see it. They take the largest of them for all parts then, O and
 * l follow it, and weights go to LDS once more.
 */
static void agree(struct mla *s, struct tir_value block, struct tir_value p, struct tir_value m,
                  struct tir_value sum, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value turn = mla_turn(s, block);
    const struct tir_value growth = mla_largest(s, turn, s->vector);
    const struct tir_value grown =
        tir_any(b, tir_cmp_gt(b, growth, tir_float_like(b, growth, 0.0f)));
    struct tir_type types[ATT_N_CARRY];
    for (int i = 0; i < ATT_N_CARRY; i++)
        types[i] = tir_typeof(b->f, carried[i]);
    struct tir_if branch = tir_begin_if(b, grown, true, types, ATT_N_CARRY);
    const struct tir_value most = mla_largest_of_parts(s, att_plus(b, turn, VECTOR_OWN_M));
    const struct tir_value behind = tir_exp2(b, tir_sub(b, m, most));
    const struct tir_value alpha = tir_exp2(b, tir_sub(b, carried[ATT_CARRY_M], most));
    const struct tir_value o_alpha = tir_exp2(b, tir_neg(b, growth));
    struct tir_value gain;
    const struct tir_value used =
        mla_round_weights(s, tir_mul(b, p, tir_broadcast(b, behind, tir_typeof(b->f, p))), &gain);
    const struct tir_value l =
        tir_mul(b, carried[ATT_CARRY_L], tir_broadcast(b, alpha, types[ATT_CARRY_L]));
    const struct tir_value followed[] = {
        [ATT_CARRY_M] = most,
        [ATT_CARRY_L] = tir_add(b, l, gain),
        [ATT_CARRY_O] =
            tir_mul(b, carried[ATT_CARRY_O], tir_broadcast(b, o_alpha, types[ATT_CARRY_O])),
    };
    struct tir_if writers = mla_begin_writers(s);
    store_weights(s, block, used);
    mla_end_writers(s, &writers);
    mla_meet(s);
    tir_else(b, &branch, followed);
    carried[ATT_CARRY_L] = tir_add(b, carried[ATT_CARRY_L], sum);
    tir_end_if(b, &branch, carried);
}

/* P^T of a block whose keys waves have split, as the right operand of the product with c. */
static struct tir_value weights_of_parts(struct mla *s, struct tir_value x, struct tir_value block,
                                         struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax *const softmax = &s->softmax;
    struct tir_value m = carried[ATT_CARRY_M], sum;
    x = mla_own_keys(s, x);
    att_softmax_maximum(b, softmax, x, tir_float_like(b, m, 1.0f), &m);
    const struct tir_value growth = tir_sub(b, m, carried[ATT_CARRY_M]);
    const struct tir_value p =
        tir_named(b, "p", tir_exp2(b, att_softmax_exponent(b, softmax, x, m)));
    const struct tir_value used = mla_round_weights(s, p, &sum);
    struct tir_if writers = mla_begin_writers(s);
    store_weights(s, block, used);
    mla_store_vector(s, mla_turn(s, block), growth);
    mla_store_vector(s, att_plus(b, mla_turn(s, block), VECTOR_OWN_M), m);
    mla_end_writers(s, &writers);
    if (!s->late)
        mla_meet(s);
    mla_set_product_stage(s);
    agree(s, block, p, m, sum, carried);
    return mla_load_weights(s, block);
}

/* O and l follow the maximum, l += p, and P^T becomes the right operand of the product with c.
 * Weights of fp8 are rounded first and then summed: out is a mean of values, whatever the roundings
 * were. */
static struct tir_value use_weights(struct mla *s, const struct att_softmax_step *step,
                                    struct tir_value block, struct tir_value p,
                                    struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const l = &carried[ATT_CARRY_L];
    const struct tir_type t = tir_typeof(b->f, *l);
    struct tir_value sum;
    const struct tir_value used = mla_round_weights(s, p, &sum);
    if (mla_exchanges(s))
        *l = tir_mul(b, *l, tir_broadcast(b, step->alpha, t));
    else
        att_softmax_rescale(b, step, &carried[ATT_CARRY_O], l);
    *l = tir_named(b, "l", tir_add(b, *l, sum));
    return mla_exchanges(s) ? exchange(s, step, block, used, carried) : used;
}

struct tir_value mla_use_scores(struct mla *s, const struct att_softmax_step *step,
                                struct tir_value x, struct tir_value block,
                                struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    if (s->ahead) /* beside the product with the block before */
        mla_set_stage(s, COMPUTE, VALUES);
    x = att_softmax_exponent(b, &s->softmax, x, carried[ATT_CARRY_M]);
    return use_weights(s, step, block, tir_named(b, "p", tir_exp2(b, x)), carried);
}

static struct tir_value weights_of_all(struct mla *s, struct tir_value x, struct tir_value block,
                                       struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax_step step = att_softmax_maximum(
        b, &s->softmax, x, tir_float_like(b, carried[ATT_CARRY_M], 1.0f), &carried[ATT_CARRY_M]);
    return mla_use_scores(s, &step, x, block, carried);
}

struct tir_value mla_read_values(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const c = s->part;
    if (s->ahead) /* before all meet: then the next block but one may come in its place */
        mla_set_stage(s, COMPUTE, SOFTMAX);
    const struct tir_value at = mla_buffer_of(s, c, block);
    struct tir_value v = tir_tile_lds_load(b, at, s->v_loaded, &c->lds);
    if (s->ahead) /* the next block's scores have room beside them */
        mla_set_stage(s, LATE, SCORES);
    /* One instruction makes two bf16 of f32 on some targets, and there the registers of f32 change
     * their order for nothing. Others put the bits together first and change the order after
     * that. */
    if (!mla_weights_fp8(s) && s->kq_dtype != s->d.dtype && s->d.m->has_cvt_pk_bf16)
        v = tir_relayout(b, tir_convert(b, v, TIR_F32), &s->v_operand);
    if (!mla_weights_fp8(s))
        v = tir_convert(b, v, s->d.dtype);
    v = tir_transpose(b, tir_relayout(b, v, &s->v_operand));
    if (s->ahead)
        mla_set_product_stage(s);
    return v;
}

static void use_weights_as_they_are(struct mla *s, struct tir_value x, struct tir_value block,
                                    struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value p;
    if (s->told)
        p = mla_told_weights(s, x, block, carried);
    else if (s->key_waves)
        p = weights_of_parts(s, x, block, carried);
    else
        p = weights_of_all(s, x, block, carried);
    mla_set_product_stage(s);
    carried[ATT_CARRY_O] =
        tir_named(b, "o", tir_mma(b, s->d.pv, mla_read_values(s, block), p, carried[ATT_CARRY_O]));
}

/* In program order. */
void mla_visit(struct mla *s, struct att_block block, struct tir_value carried[ATT_N_CARRY])
{
    fetch(s, &block);
    place(s, block.index);
    mla_set_stage(s, COMPUTE, SCORES);
    if (s->pages.slots)
        block.entries = mla_load_entries(s, block.index);
    struct tir_value x = mla_mask_scores(s, compute_scores(s, block.index), &block);
    mla_set_stage(s, COMPUTE, mla_softmax_phase(s));
    if (s->scaled >= 0)
        mla_use_scaled_weights(s, x, block.index, carried);
    else
        use_weights_as_they_are(s, x, block.index, carried);
    if (s->buffers == 1 || (s->late && s->buffers == 2 && !s->ahead && !s->between))
        mla_meet(s);
}
