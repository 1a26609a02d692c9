/* SPDX-License-Identifier: Apache-2.0
 *
 * Absorbed multi-head latent attention of a few queries per sequence over a paged cache
 * (DeepSeek-V2, arXiv 2405.04434, section 2.1; the weights absorbed as in appendix C). A token's
 * row of the cache is its latent c, which all heads share as key and as value, and its rotated key
 * k_pe:
 *
 *     O = softmax(scale (q_nope c^T + q_pe k_pe^T) + mask) c
 *
 * The queries and heads of a sequence are the columns of S^T = K Q^T and O^T = c^T P^T. The waves
 * of a workgroup walk the same blocks of keys. A block passes through registers, where it gets the
 * type to compute with, into LDS, and is read from there twice: as K, and transposed as V. So
 * memory is read once for both.
 *
 * O^T is 512 x columns of f32, which no wave could hold: waves split its rows. They split the
 * columns of S^T, 16 to a wave, so that the softmax of a column stays within a wave; P and what O
 * is rescaled with go to all waves through LDS. With 16 columns every wave computes S^T by itself:
 * the matrix pipe has time to spare, and P needs no exchange.
 *
 *     columns  waves  registers of a wave, 4 bytes a lane      LDS (gfx942, gfx950)
 *          16      4  O 32, Q 72, S 8, block on its way 36     19 KiB, 76 KiB
 *          32      8  O 32, Q 72, S 8, block on its way 18     40 KiB, 78 KiB
 *          64      8  O 64, Q 72, S 8, block on its way 18     42 KiB, 80 KiB
 *         128      8  O 128, Q 72 or 24, S 4 or 8, block 9 or 18     43 KiB, 143 KiB
 *
 * A wave has 256 registers; passing operands and addresses take 40 to 60 of them. With 128
 * columns that is too much: gfx942, whose LDS is nearly full, takes blocks of 16 keys instead of
 * 32, whose operands need less; gfx950 keeps two thirds of Q in LDS. A block is in LDS while the
 * next is on its way to registers; where there is room for two in LDS, a block needs one barrier
 * less. With 16 columns a compute unit has two workgroups, so that one loads while the other
 * computes: the lists of a plan should be twice its compute units.
 *
 *   stage 0  page numbers            phase NEXT
 *   stage 1  load the block          phase NEXT
 *   stage 2  registers to LDS        phase PLACE
 *            S = K Q                 phase SCORES
 *            mask, softmax, P to LDS phase SOFTMAX
 *            O += c P                phase VALUES
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/decode.h"
#include "templates/lds_map.h"
#include "templates/pages.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum phase { PLACE, NEXT, SCORES, SOFTMAX, VALUES, N_PHASES };
enum stage { PAGES, LOADS, COMPUTE, N_STAGES };
enum { ELEM = 2 /* bytes of bf16 and fp16 */, MFMA_ROWS = 16 };
enum { PANEL = 64 /* columns of K that one step of the contraction takes */, MAX_PANELS = 9 };
enum { MAX_ROWS = 1024 };

/* Columns at once, waves, keys of a block, and panels of Q that stand in LDS because registers have
 * no room for them: `large` where LDS has 160 KiB. The first row with enough columns is taken, else
 * the last. */
static const struct tile {
    uint8_t columns, waves;
    struct {
        uint8_t keys, q_in_lds;
    } small, large;
} tiles[] = {
    {16, 4, {16, 0}, {32, 0}},
    {32, 8, {32, 0}, {32, 0}},
    {64, 8, {32, 0}, {32, 0}},
    {128, 8, {16, 0}, {32, 6}},
};

/* Part of a cache row: the latent, or the rotated key. */
struct part {
    unsigned first, width;
    struct tir_layout lds; /* of a block */
    unsigned bytes;
    struct tir_value buffer;
    struct att_paged_tile paged;
    struct tir_value pages;
    struct att_paged_data fetched;
};

struct mla {
    struct decode d;
    unsigned buffers; /* blocks in LDS: 1 or 2 */
    struct part part[2];
    unsigned n_parts;

    unsigned score_waves; /* log2 of the waves that split the columns of S^T */
    unsigned wave_bits;
    struct tir_contraction panel; /* of PANEL columns of K and Q */
    struct tir_contraction keys;  /* of P and c: as S^T lies in registers */
    struct tir_layout p_lds;      /* keys x columns */
    struct tir_type weights;      /* P^T as the right operand */
    struct tir_type v_loaded;     /* c as it comes out of LDS: keys x latent */
    struct tir_layout v_operand;
    struct tir_type vector; /* 1 x columns beside O^T */
    struct tir_value p_buffer, vector_buffer;
    struct att_pages pages;
    unsigned q_in_lds;      /* of the panels of Q, the last */
    struct tir_type q_type; /* a panel of Q: columns x PANEL */
    struct tir_value q_buffer, q[MAX_PANELS];
};

static const struct tile *find_tile(const struct att_variant *v)
{
    const int rows = (v->gqa ? v->gqa : 64) * v->q_len;
    const struct tile *t = tiles;
    /* Addresses of a mask's bytes would not fit the registers beside 128 columns. */
    const int most = v->mask == ATT_MASK_CUSTOM ? 64 : 128;
    while (t->columns < rows && t->columns < most)
        t++;
    return t;
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    (void)m;
    const int rope = v->head_dim - v->head_dim_v;
    if (v->head_dim_v != 256 && v->head_dim_v != 512)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d, the latent's width, is not 256 or 512", v->head_dim_v);
    if (rope != 0 && rope != PANEL)
        return att_reject(why, ATT_HEAD_DIM,
                          "head_dim %d is not head_dim_v %d plus 0 or 64 rotated elements",
                          v->head_dim, v->head_dim_v);
    if (v->gqa > 128)
        return att_reject(why, ATT_GQA, "gqa %d: there are at most 128 heads", v->gqa);
    if (v->gqa * v->q_len > MAX_ROWS)
        return att_reject(why, ATT_Q_LEN, "gqa %d times q_len %d is more than %d rows", v->gqa,
                          v->q_len, MAX_ROWS);
    if (v->mask == ATT_MASK_WINDOW)
        return att_reject(why, ATT_MASK, "mla_decode has no window: causal, custom or none");
    if (v->kv_layout != ATT_KV_LAYOUT_NHD)
        return att_reject(why, ATT_KV_LAYOUT, "a latent cache has kv_layout nhd");
    if (v->kv_dtype == ATT_KV_DTYPE_INT8)
        return att_reject(why, ATT_KV_DTYPE, "a latent cache of int8 is not known");
    if (v->kv_scale != ATT_KV_SCALE_NONE && v->kv_scale != ATT_KV_SCALE_TENSOR)
        return att_reject(why, ATT_KV_SCALE, "a latent cache has one scale or none");
    return att_cache_check(v, why);
}

/* ---- Layouts ---- */

static const struct tir_mma *qk(const struct mla *s) { return &s->d.m->mma[s->d.qk]; }

static const struct tir_mma *pv(const struct mla *s) { return &s->d.m->mma[s->d.pv]; }

/* Elements of a key that a lane reads from LDS at once: 16 lanes walk the wave's part of the
 * latent, or the first of several runs of it. */
static unsigned v_vector_bits(const struct mla *s)
{
    const unsigned own = tir_bits(s->d.value.width) - s->wave_bits - tir_bits(pv(s)->m);
    return own < 2 ? own : 2;
}

/* c as it is read from LDS: along the latent. */
static struct tir_layout values_as_read(const struct mla *s)
{
    const unsigned vector = v_vector_bits(s), m_bits = tir_bits(pv(s)->m);
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, vector);
    tir_spread_cols(&l, TIR_LANES, m_bits);
    tir_spread_cols(&l, TIR_REGS, tir_bits(s->d.value.width) - s->wave_bits - vector - m_bits);
    tir_spread_cols(&l, TIR_WAVES, s->wave_bits);
    tir_spread_rows(&l, TIR_REGS, 2);
    tir_spread_rows(&l, TIR_LANES, 2);
    tir_spread_rows(&l, TIR_REGS, tir_bits(s->d.keys) - 4);
    return tir_spread_layout(&l);
}

/* O^T = c^T P^T: the rows in the order in which the lanes and registers of c were read. */
static void choose_product(struct mla *s)
{
    struct decode *const d = &s->d;
    const struct tir_waves split = {.rows = (uint8_t)s->wave_bits};
    const unsigned vector = v_vector_bits(s), m_bits = tir_bits(pv(s)->m);
    const struct tir_layout a = tir_mma_left(pv(s), d->value.width, &s->keys, split);
    const struct tir_layout p = tir_mma_right(pv(s), d->columns, &s->keys, split);
    const struct tir_layout o = tir_mma_result(pv(s), d->value.width, d->columns, split);
    uint8_t order[TIR_LAYOUT_MAX_BITS];
    for (unsigned i = 0; i < tir_bits(d->value.width); i++)
        order[i] = (uint8_t)(i < m_bits ? vector + i : i < m_bits + vector ? i - m_bits : i);
    const struct tir_layout v_t = tir_layout_permute_rows(&a, order);
    const struct tir_layout output = tir_layout_permute_rows(&o, order);
    const struct tir_layout weights = tir_layout_transpose(&p), read = values_as_read(s);
    struct tir_layout vector_layout = tir_layout_slice(&output, 0);
    vector_layout.wave_bits = 0;
    s->weights = tir_tile(d->b.f, d->dtype, d->keys, d->columns, &weights);
    s->v_loaded = tir_tile(d->b.f, d->dtype, d->keys, d->value.width, &read);
    s->v_operand = tir_layout_transpose(&v_t);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &output);
    s->vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &vector_layout);
}

static void choose_layouts(struct mla *s)
{
    struct decode *const d = &s->d;
    const struct tir_waves split = {.cols = (uint8_t)s->score_waves};
    const struct tir_layout scores = tir_mma_result(qk(s), d->keys, d->columns, split);
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &scores);
    s->panel = tir_contract_rows(qk(s), PANEL, 16 / ELEM);
    const struct tir_layout q = tir_mma_right(qk(s), d->columns, &s->panel, split);
    s->q_type = tir_tile(d->b.f, d->dtype, d->columns, PANEL, &q);
    s->keys = tir_contract_acc(&scores, tir_bits(qk(s)->n));
    choose_product(s);
}

/* ---- LDS ---- */

static bool exchanges(const struct mla *s) { return s->score_waves != 0; }

static unsigned vector_bytes(const struct mla *s) { return s->d.columns * (unsigned)sizeof(float); }

static struct tir_layout vector_map(const struct mla *s) { return tir_row_major(1, s->d.columns); }

/* Rows 32 bytes apart from a multiple of all banks: the 16 rows that lanes read K from, 16 bytes
 * each, then meet every bank once. */
static struct tir_layout block_map(unsigned keys, unsigned width)
{
    struct tir_layout map = tir_row_major(keys, width);
    map.pad_shift = (uint8_t)tir_bits(width);
    map.pad = 32 / ELEM;
    return map;
}

/* P in LDS: the elements that all lanes of an operand read at once are contiguous. */
static struct tir_layout weights_map(const struct mla *s)
{
    return tir_lane_major(tir_layout_of(s->d.b.f, s->weights), 1u << s->keys.n_reg);
}

static struct tir_layout query_map(const struct mla *s)
{
    return tir_lane_major(tir_layout_of(s->d.b.f, s->q_type), 16 / ELEM);
}

static unsigned query_bytes(const struct mla *s) { return s->d.columns * PANEL * ELEM; }

static void take_lds(struct mla *s)
{
    struct decode *const d = &s->d;
    unsigned block = 0, other = 0;
    for (unsigned i = 0; i < s->n_parts; i++) {
        struct part *const p = &s->part[i];
        p->lds = block_map(d->keys, p->width);
        p->bytes = att_lds_bytes(&p->lds, ELEM);
        block += p->bytes;
    }
    if (exchanges(s)) {
        s->p_lds = weights_map(s);
        other = att_lds_bytes(&s->p_lds, ELEM) + 2 * vector_bytes(s);
    }
    other += s->q_in_lds * query_bytes(s);
    /* Two workgroups of 4 waves share a compute unit: one loads while the other computes. */
    const unsigned room = d->m->lds_bytes / (d->waves > 4 ? 1 : 2);
    s->buffers = 2 * block + other <= room ? 2 : 1;
    for (unsigned i = 0; i < s->n_parts; i++)
        s->part[i].buffer = tir_lds_buffer(&d->b, s->buffers * s->part[i].bytes, 16);
    if (s->q_in_lds)
        s->q_buffer = tir_lds_buffer(&d->b, s->q_in_lds * query_bytes(s), 16);
    if (!exchanges(s))
        return;
    s->p_buffer = tir_lds_buffer(&d->b, att_lds_bytes(&s->p_lds, ELEM), 16);
    s->vector_buffer = tir_lds_buffer(&d->b, 2 * vector_bytes(s), 16);
}

static struct tir_value buffer_of(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    if (s->buffers == 1)
        return p->buffer;
    const struct tir_value which = tir_and(b, block, tir_i32(b, 1));
    return tir_add(b, p->buffer, att_times(b, which, (int)p->bytes));
}

/* All waves may read what the others wrote to LDS before. */
static void meet(struct mla *s)
{
    tir_wait(&s->d.b, TIR_LDS_WRITES, 0);
    tir_barrier(&s->d.b);
}

/* Waves that hold the same columns of S^T: one of them writes. */
static struct tir_if begin_writers(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value writes = tir_cmp_lt(b, s->d.wave, tir_i32(b, 1 << s->score_waves));
    return tir_begin_if(b, writes, false, NULL, 0);
}

static void end_writers(struct mla *s, struct tir_if *writers)
{
    tir_else(&s->d.b, writers, NULL);
    tir_end_if(&s->d.b, writers, NULL);
}

static struct tir_value vector_at(struct mla *s, int n)
{
    return att_plus(&s->d.b, s->vector_buffer, n * (int)vector_bytes(s));
}

static void store_vector(struct mla *s, int n, struct tir_value a)
{
    const struct tir_layout map = vector_map(s);
    tir_tile_lds_store(&s->d.b, vector_at(s, n), a, &map);
}

/* A vector of S^T's columns as O^T has them. */
static struct tir_value load_vector(struct mla *s, int n)
{
    const struct tir_layout map = vector_map(s);
    return tir_tile_lds_load(&s->d.b, vector_at(s, n), s->vector, &map);
}

/* ---- A block of keys ---- */

static void set_stage(struct mla *s, enum stage stage, enum phase phase)
{
    s->d.b.stage = (uint8_t)stage;
    s->d.b.phase = (uint8_t)phase;
}

static struct tir_value like(struct mla *s, struct tir_value scalar, struct tir_value v)
{
    return tir_splat(&s->d.b, scalar, tir_typeof(s->d.b.f, v));
}

static struct tir_value first_key(void *family, struct tir_value block)
{
    struct mla *const s = family;
    return tir_add(&s->d.b, s->d.item.first_key, att_times(&s->d.b, block, (int)s->d.keys));
}

/* How a block of the latent passes through registers: 16 bytes a lane. Half of the lanes walk a
 * row; a wave that had one row only would have its page number moved to a scalar, with a wait. */
static struct tir_layout transit_layout(const struct mla *s)
{
    const unsigned cols = tir_bits(s->d.value.width), tokens = tir_bits(s->d.keys);
    const unsigned vector = tir_bits(16 / s->d.kv_bytes);
    const unsigned row = cols - vector < 5 ? cols - vector : 5, rows = 6 - row + s->wave_bits;
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, vector);
    tir_spread_cols(&l, TIR_LANES, row);
    tir_spread_rows(&l, TIR_LANES, 6 - row);
    tir_spread_rows(&l, TIR_WAVES, s->wave_bits);
    tir_spread_cols(&l, TIR_REGS, cols - vector - row);
    tir_spread_rows(&l, TIR_REGS, tokens - rows);
    return tir_spread_layout(&l);
}

static void find_parts(struct mla *s)
{
    struct decode *const d = &s->d;
    const struct tir_layout transit = transit_layout(s);
    for (unsigned i = 0; i < s->n_parts; i++) {
        struct part *const p = &s->part[i];
        p->paged = att_paged_tile(&d->b, &d->k.c, d->keys, p->width, p->first, i ? NULL : &transit);
    }
}

static void fetch(struct mla *s, struct att_block *block)
{
    struct tir_builder *const b = &s->d.b;
    set_stage(s, PAGES, NEXT);
    const struct tir_value key = first_key(s, block->index);
    for (unsigned i = 0; i < s->n_parts; i++)
        s->part[i].pages = att_page_numbers(b, &s->pages, &s->part[i].paged, key);
    set_stage(s, LOADS, NEXT);
    for (unsigned i = 0; i < s->n_parts; i++)
        s->part[i].fetched = att_paged_load(b, &s->pages, &s->part[i].paged, key, s->part[i].pages);
    if (s->d.v->mask == ATT_MASK_CUSTOM)
        block->mask = att_load_mask(&s->d.attention, key);
}

/* Clears rows behind the sequence's last token. A page may hold anything there, a NaN too; P is 0
 * there, but its product with a NaN is not. */
static struct tir_value clear_tail(struct mla *s, struct tir_value c, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type type = tir_typeof(b->f, c);
    const struct tir_value left = tir_sub(b, s->d.item.kv_len, first_key(s, block));
    const struct tir_value edge = tir_cmp_lt(b, left, tir_i32(b, (int)s->d.keys));
    struct tir_if branch = tir_begin_if(b, edge, true, &type, 1);
    struct tir_type t = type;
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t);
    const struct tir_value there = tir_cmp_lt(b, row, like(s, left, row));
    const struct tir_value cleared = tir_select(b, there, c, tir_float_like(b, c, 0.0f));
    tir_else(b, &branch, &cleared);
    tir_end_if(b, &branch, &c);
    return c;
}

static void place(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    set_stage(s, COMPUTE, PLACE);
    for (unsigned i = 0; i < s->n_parts; i++) {
        const struct part *const p = &s->part[i];
        struct tir_value x = att_paged_elements(b, &p->paged, p->fetched, s->d.dtype);
        if (i == 0)
            x = clear_tail(s, x, block);
        tir_tile_lds_store(b, buffer_of(s, p, block), x, &p->lds);
    }
    meet(s);
}

/* PANEL columns of K, the n-th of the row. */
static struct tir_value read_panel(struct mla *s, struct tir_value block, unsigned n)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *p = s->part;
    if (n * PANEL >= p->width) {
        n -= p->width / PANEL;
        p++;
    }
    const struct tir_waves split = {.cols = (uint8_t)s->score_waves};
    const struct tir_layout l = tir_mma_left(qk(s), s->d.keys, &s->panel, split);
    const struct tir_type t = tir_tile(b->f, s->d.dtype, s->d.keys, PANEL, &l);
    const struct tir_value at = att_plus(b, buffer_of(s, p, block), (int)(n * PANEL * ELEM));
    return tir_tile_lds_load(b, at, t, &p->lds);
}

static unsigned n_panels(const struct mla *s) { return s->d.k.width / PANEL; }

/* Does the n-th panel of Q stand in LDS, and where? */
static bool find_query(struct mla *s, unsigned n, struct tir_value *at)
{
    const unsigned in_registers = n_panels(s) - s->q_in_lds;
    if (n < in_registers)
        return false;
    *at = att_plus(&s->d.b, s->q_buffer, (int)((n - in_registers) * query_bytes(s)));
    return true;
}

/* Q^T, as the right operand of S^T = K Q^T. */
static struct tir_value query_panel(struct mla *s, unsigned n)
{
    const struct tir_layout map = query_map(s);
    struct tir_value at, q = s->q[n];
    if (find_query(s, n, &at))
        q = tir_tile_lds_load(&s->d.b, at, s->q_type, &map);
    return tir_transpose(&s->d.b, q);
}

static struct tir_value compute_scores(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    set_stage(s, COMPUTE, SCORES);
    struct tir_value scores = tir_splat(b, tir_f32(b, 0.0f), s->d.scores);
    for (unsigned i = 0; i < n_panels(s); i++)
        scores = tir_mma(b, s->d.qk, read_panel(s, block, i), query_panel(s, i), scores);
    return tir_named(b, "s", scores);
}

enum { VECTOR_ALPHA, VECTOR_M = 0, VECTOR_L };

/* O follows the maximum, by what the waves that know it left in LDS. */
static struct tir_value rescale(struct mla *s, struct tir_value o)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value alpha = load_vector(s, VECTOR_ALPHA);
    const struct tir_value grown = tir_any(b, tir_cmp_ne(b, alpha, tir_float_like(b, alpha, 1.0f)));
    struct tir_if branch = tir_begin_if(b, grown, true, &s->d.output, 1);
    const struct tir_value scaled = tir_mul(b, o, tir_broadcast(b, alpha, s->d.output));
    tir_else(b, &branch, &scaled);
    tir_end_if(b, &branch, &o);
    return o;
}

/* P and alpha go to all waves; returns P as the right operand of the product with c. */
static struct tir_value exchange(struct mla *s, const struct att_softmax_step *step,
                                 struct tir_value p16, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_if writers = begin_writers(s);
    tir_tile_lds_store(b, s->p_buffer, p16, &s->p_lds);
    store_vector(s, VECTOR_ALPHA, step->alpha);
    end_writers(s, &writers);
    meet(s);
    set_stage(s, COMPUTE, VALUES);
    carried[ATT_CARRY_O] = rescale(s, carried[ATT_CARRY_O]);
    return tir_tile_lds_load(b, s->p_buffer, s->weights, &s->p_lds);
}

/* O and l follow the maximum, l += p, and P^T becomes the right operand of the product with c. */
static struct tir_value use_weights(struct mla *s, const struct att_softmax_step *step,
                                    struct tir_value p, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value *const l = &carried[ATT_CARRY_L];
    const struct tir_type t = tir_typeof(b->f, *l);
    const struct tir_value p16 = tir_convert_short(b, p, s->d.dtype);
    if (exchanges(s))
        *l = tir_mul(b, *l, tir_broadcast(b, step->alpha, t));
    else
        att_softmax_rescale(b, step, &carried[ATT_CARRY_O], l);
    *l = tir_named(b, "l", tir_add(b, *l, tir_col_fold_sum(b, p)));
    return exchanges(s) ? exchange(s, step, p16, carried) : p16;
}

static struct tir_value read_values(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const c = s->part;
    const struct tir_value at = buffer_of(s, c, block);
    const struct tir_value v = tir_tile_lds_load(b, at, s->v_loaded, &c->lds);
    return tir_transpose(b, tir_relayout(b, v, &s->v_operand));
}

/* In program order. */
static void visit(struct mla *s, struct att_block block, struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct att_attention *const a = &s->d.attention;
    fetch(s, &block);
    place(s, block.index);
    struct tir_value x = att_attention_modify(a, compute_scores(s, block.index), &block);
    set_stage(s, COMPUTE, SOFTMAX);
    const struct att_softmax_step step =
        att_softmax_maximum(b, &a->softmax, x, &carried[ATT_CARRY_M]);
    x = att_softmax_exponent(b, &a->softmax, x, carried[ATT_CARRY_M]);
    const struct tir_value p = use_weights(s, &step, tir_named(b, "p", tir_exp2(b, x)), carried);
    set_stage(s, COMPUTE, VALUES);
    carried[ATT_CARRY_O] = tir_named(
        b, "o", tir_mma(b, s->d.pv, read_values(s, block.index), p, carried[ATT_CARRY_O]));
    if (s->buffers == 1)
        meet(s);
}

/* ---- A work item ---- */

/* A wave's columns of Q^T stay with it, panel by panel. */
static void load_q(struct mla *s)
{
    struct decode *const d = &s->d;
    struct tir_builder *const b = &d->b;
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, s->q_type), 1);
    const struct tir_layout map = query_map(s);
    const struct decode_rows r =
        decode_rows(d, tir_row_index(b, tir_tile(b->f, TIR_I32, d->columns, 1, &rows)));
    const struct tir_value token = tir_convert(b, r.token, TIR_I64);
    const struct tir_value head = tir_convert(b, r.head, TIR_I64);
    const struct tir_value at =
        tir_add(b, tir_mul(b, token, like(s, att_stride(b, "q_token_stride", ELEM), token)),
                tir_mul(b, head, like(s, att_stride(b, "q_head_stride", ELEM), head)));
    for (unsigned i = 0; i < n_panels(s); i++) {
        const struct tir_value byte = tir_i32(b, (int)(i * PANEL * ELEM));
        struct tir_value there;
        s->q[i] =
            tir_named(b, "q", tir_tile_gather(b, tir_arg(b, "q", TIR_I64), at, byte, s->q_type));
        if (find_query(s, i, &there))
            tir_tile_lds_store(b, there, s->q[i], &map);
    }
    if (s->q_in_lds)
        tir_wait(b, TIR_LDS_WRITES, 0);
}

static struct decode_state walk_keys(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value carried[ATT_N_CARRY], inside[ATT_N_CARRY];
    struct tir_type types[ATT_N_CARRY];
    att_attention_begin(&s->d.attention, s->d.output, carried);
    for (int i = 0; i < ATT_N_CARRY; i++)
        types[i] = tir_typeof(b->f, carried[i]);
    const struct tir_value keys = tir_sub(b, s->d.item.end_key, s->d.item.first_key);
    const struct tir_value n =
        tir_sar(b, att_plus(b, keys, (int)s->d.keys - 1), tir_i32(b, (int)tir_bits(s->d.keys)));
    struct tir_if some =
        tir_begin_if(b, tir_cmp_gt(b, n, tir_i32(b, 0)), false, types, ATT_N_CARRY);
    memcpy(inside, carried, sizeof(inside));
    decode_find_position(&s->d);
    load_q(s);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), inside, ATT_N_CARRY);
    visit(s, (struct att_block){.index = loop.index}, inside);
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
    tir_end_for(b, &loop, inside, ATT_N_CARRY);
    tir_else(b, &some, inside);
    tir_end_if(b, &some, carried);
    return (struct decode_state){carried[ATT_CARRY_M], tir_col_sum(b, carried[ATT_CARRY_L]),
                                 carried[ATT_CARRY_O]};
}

/* Maximum and denominator as O^T has its columns; LDS is free for the next item then. */
static void share_state(struct mla *s, struct decode_state *state)
{
    struct tir_builder *const b = &s->d.b;
    tir_barrier(b);
    if (!exchanges(s))
        return;
    struct tir_if writers = begin_writers(s);
    store_vector(s, VECTOR_M, state->m);
    store_vector(s, VECTOR_L, state->l);
    end_writers(s, &writers);
    meet(s);
    state->m = load_vector(s, VECTOR_M);
    state->l = load_vector(s, VECTOR_L);
}

/* attention.c builds these steps by itself; visit() builds the rest of a block. */
static const struct att_source source = {.first_key = first_key};
static const struct att_place steps[ATT_N_STEPS] = {[ATT_STEP_MODIFY] = {COMPUTE, SOFTMAX}};

static void begin_attention(struct mla *s)
{
    struct decode *const d = &s->d;
    struct tir_value scale = {0};
    if (d->v->kv_scale == ATT_KV_SCALE_TENSOR)
        scale = att_cache_tensor_scale(&d->k.c);
    d->attention = (struct att_attention){
        .b = &d->b, .v = d->v, .source = &source, .family = s, .steps = steps};
    att_attention_scale(&d->attention, d->scores, scale);
}

/* An item whose rows do not fit the columns at once is gone through once for each part of them. */
static void work_on(struct mla *s, struct tir_value index)
{
    struct decode *const d = &s->d;
    struct tir_builder *const b = &d->b;
    decode_find_item(d, index);
    d->k.c = d->value.c = att_cache(b, d->v, d->m, false, tir_i32(b, 0));
    s->pages = att_pages(b, d->v, d->item.sequence, d->item.kv_len, d->item.first_key);
    find_parts(s);
    d->n_rows = tir_mul(b, tir_sub(b, d->item.end_token, d->item.first_token), d->gqa);
    struct tir_loop pass =
        tir_begin_for(b, tir_i32(b, 0), d->n_rows, tir_i32(b, (int)d->columns), NULL, 0);
    d->first_row = pass.index;
    begin_attention(s);
    struct decode_state state = walk_keys(s);
    share_state(s, &state);
    d->attention.softmax.vector = tir_typeof(b->f, state.m);
    decode_write_state(d, &state);
    tir_end_for(b, &pass, NULL, 0);
}

static void begin(struct mla *s, const struct att_variant *v, const struct tir_machine *m)
{
    char name[ATT_NAME_MAX];
    const struct tile *const t = find_tile(v);
    const bool large = m->lds_bytes > 64 * 1024;
    const unsigned dtype = att_dtype(v), latent = (unsigned)v->head_dim_v;
    *s = (struct mla){
        .d = {.v = v,
              .m = m,
              .dtype = dtype,
              .kv_dtype = att_cache_dtype(v),
              .waves = t->waves,
              .keys = large ? t->large.keys : t->small.keys,
              .columns = t->columns,
              .k = {.width = (unsigned)v->head_dim},
              .value = {.width = latent}},
        .wave_bits = tir_bits(t->waves),
        .score_waves = tir_bits(t->columns / MFMA_ROWS),
        .part = {{.width = latent}, {.first = latent, .width = PANEL}},
        .q_in_lds = large ? t->large.q_in_lds : t->small.q_in_lds,
        .n_parts = v->head_dim > v->head_dim_v ? 2 : 1,
    };
    s->d.kv_bytes = tir_dtype_bits(s->d.kv_dtype) / 8;
    s->d.qk = tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, 0, dtype);
    s->d.pv = tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, s->d.keys < 32 ? 16 : 0, dtype);
    assert(s->d.qk >= 0 && s->score_waves <= s->wave_bits);
    att_variant_name(v, name);
    struct tir_func *const f = tir_func_create(name, m, t->waves);
    f->waves_per_simd = 2;
    s->d.b = tir_at_end(f, f->body);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct mla s;
    begin(&s, v, m);
    struct tir_builder *const b = &s.d.b;
    choose_layouts(&s);
    take_lds(&s);
    s.d.wave = tir_wave_id(b);
    s.d.gqa = v->gqa ? tir_i32(b, v->gqa) : tir_arg(b, "gqa", TIR_I32);
    struct tir_value range[2];
    decode_find_items(&s.d, range);
    struct tir_loop items = tir_begin_for(b, range[0], range[1], tir_i32(b, 1), NULL, 0);
    work_on(&s, items.index);
    tir_end_for(b, &items, NULL, 0);
    tir_return(b);

    *k = (struct att_kernel){
        .func = b->f,
        .schedule = {.stages = N_STAGES,
                     .matrix_phases = 1u << SCORES | 1u << VALUES,
                     .interleave = 1,
                     .ping_pong = 1,
                     .apart = 1},
        .grid = {{"workgroups", 1, 1}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "rows=%u kv=%u waves=%u buffers=%u stages=%d",
             s.d.columns, s.d.keys, s.d.waves, s.buffers, N_STAGES);
}

const struct att_template att_template_mla_decode = {
    .name = "mla_decode",
    .description = "absorbed multi-head latent attention of a few queries over a paged cache",
    .takes = OP_TAKES_MLA_DECODE,
    .check = check,
    .build = build,
};
