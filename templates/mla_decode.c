/* SPDX-License-Identifier: Apache-2.0
 *
 * Absorbed multi-head latent attention of a few queries per sequence over a paged cache (DeepSeek-V2,
 * arXiv 2405.04434, section 2.1; the weights absorbed as in appendix C). A token's row of the cache
 * is its latent c, which all heads share as key and as value, and its rotated key k_pe:
 *
 *     O = softmax(scale (q_nope c^T + q_pe k_pe^T) + mask) c
 *
 * The queries and heads of a sequence are the columns of S^T = K Q^T and O^T = c^T P^T. The waves of
 * a workgroup walk the same blocks of keys. A block passes through registers, where it gets the type
 * to compute with, into LDS, and is read from there twice: as K, and transposed as V. So memory is
 * read once for both.
 *
 * O^T is 512 x columns of f32, which no wave could hold: waves split its rows. They split the columns
 * of S^T, 16 to a wave, so that the softmax of a column stays within a wave; P and what O is
 * rescaled with go to all waves through LDS. With 16 columns every wave computes S^T by itself: the
 * matrix pipe has time to spare, and P needs no exchange.
 *
 *     columns  waves  registers of a wave, 4 bytes a lane      LDS (gfx942, gfx950)
 *          16      4  O 32, Q 72, S 8, block on its way 36     38 KiB, 76 KiB
 *          32      8  O 32, Q 72, S 8, block on its way 18     40 KiB, 78 KiB
 *          64      8  O 64, Q 72, S 8, block on its way 18     42 KiB, 80 KiB
 *         128      8  O 128, Q 72 or 24, S 4 or 8, block 9 or 18     43 KiB, 143 KiB
 *
 * Of 256 registers a wave, 40 to 60 go to operands that pass through and to addresses. With 128
 * columns that is too much: gfx942, whose LDS is nearly full, takes blocks of 16 keys instead of 32,
 * whose operands need less; gfx950 keeps two thirds of Q in LDS. A block is in LDS while the next is
 * on its way to registers; where there is room for two in LDS, a block needs one barrier less.
 *
 *   stage 0  page numbers            phase NEXT
 *   stage 1  load the block          phase NEXT
 *   stage 2  registers to LDS        phase PLACE
 *            S = K Q                 phase SCORES
 *            mask, softmax, P to LDS phase SOFTMAX
 *            O += c P                phase VALUES
 */
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
enum { LDS_WRITES = -1, ELEM = 2 /* bytes of bf16 and fp16 */, MFMA_ROWS = 16 };
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
    {16, 4, {32, 0}, {32, 0}},
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
    struct tir_value last; /* 1 x columns: the last key that a query sees */
    struct tir_value full_last;
};

static unsigned log2u(unsigned x) { return (unsigned)__builtin_ctz(x); }

static const struct tile *find_tile(const struct att_variant *v)
{
    const int rows = (v->gqa ? v->gqa : 64) * v->q_len;
    const struct tile *t = tiles;
    while (rows > t->columns && t + 1 < tiles + sizeof(tiles) / sizeof(tiles[0]))
        t++;
    return t;
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    (void)m;
    const int rope = v->head_dim - v->head_dim_v;
    if (v->head_dim_v != 256 && v->head_dim_v != 512)
        return att_reject(why, ATT_HEAD_DIM_V, "head_dim_v %d, the latent's width, is not 256 or 512",
                          v->head_dim_v);
    if (rope != 0 && rope != PANEL)
        return att_reject(why, ATT_HEAD_DIM,
                          "head_dim %d is not head_dim_v %d plus 0 or 64 rotated elements",
                          v->head_dim, v->head_dim_v);
    if (v->gqa > 128)
        return att_reject(why, ATT_GQA, "gqa %d: there are at most 128 heads", v->gqa);
    if (v->gqa * v->q_len > MAX_ROWS)
        return att_reject(why, ATT_Q_LEN, "gqa %d times q_len %d is more than %d rows", v->gqa,
                          v->q_len, MAX_ROWS);
    if (v->mask != ATT_MASK_NONE && v->mask != ATT_MASK_CAUSAL)
        return att_reject(why, ATT_MASK, "mla_decode has no such mask: causal or none");
    if (v->kv_dtype == ATT_KV_DTYPE_INT8)
        return att_reject(why, ATT_KV_DTYPE, "a latent cache of int8 is not known");
    if (v->kv_scale != ATT_KV_SCALE_NONE && v->kv_scale != ATT_KV_SCALE_TENSOR)
        return att_reject(why, ATT_KV_SCALE, "a latent cache has one scale or none");
    return att_cache_check(v, why);
}

/* ---- Layouts ---- */

/* `bits` more waves, from the image of the first on. */
static struct tir_layout over_waves(struct tir_layout l, unsigned bits, uint32_t image)
{
    for (unsigned i = 0; i < bits; i++) {
        l.basis[tir_layout_bits(&l)] = image << i;
        l.wave_bits++;
    }
    return l;
}

static const struct tir_mma *qk(const struct mla *s) { return &s->d.m->mma[s->d.qk]; }

/* Elements of a key that a lane reads from LDS at once: the lanes walk the wave's part of the
 * latent. */
static unsigned v_vector_bits(const struct mla *s)
{
    const unsigned own = log2u(s->d.value.width) - s->wave_bits - log2u(MFMA_ROWS);
    return own < 2 ? own : 2;
}

/* c as the left operand of O^T = c^T P^T. It is read along the latent, 16 bytes a lane, and turned
 * in registers: the lanes stand for rows of c^T that are a read apart. `turned`: keys first. */
static struct tir_layout value_layout(const struct mla *s, bool turned)
{
    const unsigned vector = v_vector_bits(s), own = log2u(s->d.value.width) - s->wave_bits;
    struct tir_layout l = {.lane_bits = 6};
    unsigned n = 0;
    for (unsigned i = 0; turned && i < s->keys.n_reg; i++)
        l.basis[n++] = TIR_RC(s->keys.reg[i], 0);
    for (unsigned i = 0; i < own; i++)
        if (i < vector || i >= vector + 4)
            l.basis[n++] = TIR_RC(0, 1u << i);
    for (unsigned i = 0; !turned && i < s->keys.n_reg; i++)
        l.basis[n++] = TIR_RC(s->keys.reg[i], 0);
    l.reg_bits = (uint8_t)n;
    for (unsigned i = 0; i < 4; i++)
        l.basis[n++] = TIR_RC(0, 1u << (vector + i));
    for (unsigned i = 0; i < 2; i++)
        l.basis[n++] = TIR_RC(s->keys.lane[i], 0);
    return over_waves(l, s->wave_bits, TIR_RC(0, 1u << own));
}

/* O^T: rows in the order of c's lanes and registers. */
static struct tir_layout output_layout(const struct mla *s)
{
    const unsigned vector = v_vector_bits(s), own = log2u(s->d.value.width) - s->wave_bits;
    const struct tir_layout *const block = &s->d.m->mma[s->d.pv].d;
    struct tir_layout l = {.lane_bits = 6};
    unsigned n = 0;
    for (int i = 0; i < block->reg_bits; i++)
        l.basis[n++] = TIR_RC(tir_rc_row(block->basis[i]) << vector, 0);
    for (unsigned i = 0; i < own; i++)
        if (i < vector || i >= vector + 4)
            l.basis[n++] = TIR_RC(1u << i, 0);
    for (unsigned column = MFMA_ROWS; column < s->d.columns; column *= 2)
        l.basis[n++] = TIR_RC(0, column);
    l.reg_bits = (uint8_t)n;
    for (int i = block->reg_bits; i < block->reg_bits + 6; i++)
        l.basis[n++] =
            TIR_RC(tir_rc_row(block->basis[i]) << vector, tir_rc_col(block->basis[i]));
    return over_waves(l, s->wave_bits, TIR_RC(1u << own, 0));
}

static void choose_layouts(struct mla *s)
{
    struct decode *const d = &s->d;
    const unsigned own = d->columns >> s->score_waves;
    const struct tir_layout scores = over_waves(tir_mma_result(qk(s), d->keys, own, 0),
                                                s->score_waves, TIR_RC(0, own));
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &scores);
    s->panel = tir_contract_rows(qk(s), PANEL, 16 / ELEM);
    const struct tir_layout q =
        over_waves(tir_mma_operand(qk(s), own, 0, &s->panel), s->score_waves, TIR_RC(own, 0));
    s->q_type = tir_tile(d->b.f, d->dtype, d->columns, PANEL, &q);
    s->keys = tir_contract_acc(&scores, log2u(MFMA_ROWS));
    const struct tir_layout p = tir_mma_operand(&d->m->mma[d->pv], d->columns, 0, &s->keys);
    const struct tir_layout weights = tir_layout_transpose(&p);
    s->weights = tir_tile(d->b.f, d->dtype, d->keys, d->columns, &weights);
    const struct tir_layout loaded = value_layout(s, false), o = output_layout(s);
    s->v_loaded = tir_tile(d->b.f, d->dtype, d->keys, d->value.width, &loaded);
    s->v_operand = value_layout(s, true);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &o);
    struct tir_layout vector = tir_layout_slice(&o, 0);
    vector.wave_bits = 0;
    s->vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &vector);
}

/* ---- LDS ---- */

static bool exchanges(const struct mla *s) { return s->score_waves != 0; }

static unsigned vector_bytes(const struct mla *s) { return s->d.columns * (unsigned)sizeof(float); }

static struct tir_layout vector_map(const struct mla *s)
{
    struct tir_layout map = {0};
    for (unsigned column = 1; column < s->d.columns; column *= 2)
        map.basis[map.reg_bits++] = TIR_RC(0, column);
    return map;
}

/* Rows 32 bytes apart from a multiple of all banks: the 16 rows that lanes read K from, 16 bytes
 * each, then meet every bank once. */
static struct tir_layout block_map(unsigned keys, unsigned width)
{
    struct tir_layout map = {.pad_shift = (uint8_t)log2u(width), .pad = 32 / ELEM};
    for (unsigned column = 1; column < width; column *= 2)
        map.basis[map.reg_bits++] = TIR_RC(0, column);
    for (unsigned key = 1; key < keys; key *= 2)
        map.basis[map.reg_bits++] = TIR_RC(key, 0);
    return map;
}

/* Each column's keys side by side, those that a lane of an operand holds first: what all lanes read
 * at once is one piece. */
static struct tir_layout weights_map(const struct mla *s)
{
    struct tir_layout map = {0};
    unsigned n = 0;
    for (unsigned i = 0; i < s->keys.n_reg; i++)
        map.basis[n++] = TIR_RC(s->keys.reg[i], 0);
    for (unsigned i = 0; i < s->keys.n_lane; i++)
        map.basis[n++] = TIR_RC(s->keys.lane[i], 0);
    for (unsigned column = 1; column < s->d.columns; column *= 2)
        map.basis[n++] = TIR_RC(0, column);
    map.reg_bits = (uint8_t)n;
    return map;
}

/* 16 bytes of each lane side by side, wave after wave. */
static struct tir_layout query_map(const struct mla *s)
{
    const struct tir_layout *const l = tir_layout_of(s->d.b.f, s->q_type);
    const unsigned vector = log2u(16 / ELEM);
    struct tir_layout map = {.reg_bits = (uint8_t)tir_layout_bits(l)};
    unsigned n = vector;
    memcpy(map.basis, l->basis, vector * sizeof(map.basis[0]));
    for (int i = l->reg_bits; i < tir_layout_bits(l); i++)
        map.basis[n++] = l->basis[i];
    memcpy(map.basis + n, l->basis + vector, (l->reg_bits - vector) * sizeof(map.basis[0]));
    return map;
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
    s->buffers = 2 * block + other <= d->m->lds_bytes ? 2 : 1;
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
    tir_wait(&s->d.b, LDS_WRITES, 0);
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

static struct tir_value first_key(struct mla *s, struct tir_value block)
{
    return tir_add(&s->d.b, s->d.item.first_key, att_times(&s->d.b, block, (int)s->d.keys));
}

/* How a block of the latent passes through registers: 16 bytes a lane. Half of the lanes walk a
 * row; a wave that had one row only would have its page number moved to a scalar, with a wait. */
static struct tir_layout transit_layout(const struct mla *s)
{
    const unsigned cols = log2u(s->d.value.width), tokens = log2u(s->d.keys);
    struct tir_layout l = {.lane_bits = 6, .wave_bits = (uint8_t)s->wave_bits};
    unsigned n = 0, col = log2u(16 / s->d.kv_bytes), token = 0, rest = 0;
    uint32_t threads[TIR_LAYOUT_MAX_BITS];
    for (unsigned i = 0; i < col; i++)
        l.basis[n++] = TIR_RC(0, 1u << i);
    while (rest < 5 && col < cols)
        threads[rest++] = TIR_RC(0, 1u << col++);
    while (rest < 6 + s->wave_bits)
        threads[rest++] = TIR_RC(1u << token++, 0);
    for (; col < cols; col++)
        l.basis[n++] = TIR_RC(0, 1u << col);
    for (; token < tokens; token++)
        l.basis[n++] = TIR_RC(1u << token, 0);
    l.reg_bits = (uint8_t)n;
    memcpy(l.basis + n, threads, rest * sizeof(threads[0]));
    return l;
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

static void fetch(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    set_stage(s, PAGES, NEXT);
    const struct tir_value key = first_key(s, block);
    for (unsigned i = 0; i < s->n_parts; i++)
        s->part[i].pages = att_page_numbers(b, &s->pages, &s->part[i].paged, key);
    set_stage(s, LOADS, NEXT);
    for (unsigned i = 0; i < s->n_parts; i++)
        s->part[i].fetched = att_paged_load(b, &s->pages, &s->part[i].paged, first_key(s, block),
                                            s->part[i].pages);
}

/* What a page holds behind the sequence's last token may be anything, a NaN too: P is 0 there, but
 * the product would not be. */
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
    const struct tir_layout l = tir_mma_operand(qk(s), s->d.keys, 0, &s->panel);
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

/* Keys that a query may not see get -inf; only blocks at an edge take the branch. */
static struct tir_value hide(struct mla *s, struct tir_value scores, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value key = first_key(s, block);
    const struct tir_value edge =
        tir_cmp_gt(b, att_plus(b, key, (int)s->d.keys - 1), s->full_last);
    struct tir_if branch = tir_begin_if(b, edge, true, &s->d.scores, 1);
    struct tir_type t = s->d.scores;
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t);
    const struct tir_value keys = tir_add(b, row, like(s, key, row));
    const struct tir_value last = s->last.id ? tir_broadcast(b, s->last, t) : like(s, s->full_last, keys);
    const struct tir_value masked = tir_select(b, tir_cmp_gt(b, keys, last),
                                               tir_float_like(b, scores, -INFINITY), scores);
    tir_else(b, &branch, &masked);
    tir_end_if(b, &branch, &scores);
    return scores;
}

enum { CARRY_M, CARRY_L, CARRY_O, N_CARRY };
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
static struct tir_value exchange(struct mla *s, const struct att_softmax_tile *head,
                                 struct tir_value p16, struct tir_value carried[N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    struct tir_if writers = begin_writers(s);
    tir_tile_lds_store(b, s->p_buffer, p16, &s->p_lds);
    store_vector(s, VECTOR_ALPHA, head->alpha);
    end_writers(s, &writers);
    meet(s);
    set_stage(s, COMPUTE, VALUES);
    carried[CARRY_O] = rescale(s, carried[CARRY_O]);
    return tir_tile_lds_load(b, s->p_buffer, s->weights, &s->p_lds);
}

/* In program order. */
static void visit(struct mla *s, struct tir_value block, struct tir_value carried[N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    fetch(s, block);
    place(s, block);
    struct tir_value scores = compute_scores(s, block);
    set_stage(s, COMPUTE, SOFTMAX);
    scores = hide(s, scores, block);
    const struct att_softmax_tile head =
        att_softmax_head(b, &s->d.softmax, scores, carried[CARRY_M]);
    carried[CARRY_M] = head.m;
    if (!exchanges(s))
        att_softmax_rescale(b, &head, &carried[CARRY_O], &carried[CARRY_L]);
    else
        carried[CARRY_L] = tir_mul(b, carried[CARRY_L],
                                   tir_broadcast(b, head.alpha, tir_typeof(b->f, carried[CARRY_L])));
    carried[CARRY_L] = tir_named(b, "l", tir_add(b, carried[CARRY_L], tir_col_fold_sum(b, head.p)));
    struct tir_value p16 = tir_convert_short(b, head.p, s->d.dtype);
    if (exchanges(s))
        p16 = exchange(s, &head, p16, carried);
    set_stage(s, COMPUTE, VALUES);
    const struct part *const c = s->part;
    const struct tir_value v = tir_relayout(
        b, tir_tile_lds_load(b, buffer_of(s, c, block), s->v_loaded, &c->lds), &s->v_operand);
    carried[CARRY_O] =
        tir_named(b, "o", tir_mma(b, s->d.pv, tir_transpose(b, v), p16, carried[CARRY_O]));
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
        s->q[i] = tir_named(b, "q", tir_tile_gather(b, tir_arg(b, "q", TIR_I64), at, byte, s->q_type));
        if (find_query(s, i, &there))
            tir_tile_lds_store(b, there, s->q[i], &map);
    }
    if (s->q_in_lds)
        tir_wait(b, LDS_WRITES, 0);
}

static void find_reach(struct mla *s)
{
    struct decode *const d = &s->d;
    struct tir_builder *const b = &d->b;
    const struct tir_value end = att_plus(b, d->item.end_key, -1);
    s->full_last = end;
    s->last = (struct tir_value){0};
    if (d->v->mask == ATT_MASK_NONE)
        return;
    struct tir_type t = d->softmax.vector;
    t.dtype = TIR_I32;
    const struct decode_rows rows = decode_rows(d, tir_col_index(b, t));
    const struct tir_value diagonal = tir_add(b, rows.token, tir_splat(b, d->item.diagonal, t));
    s->last = tir_min(b, diagonal, tir_splat(b, end, t));
    s->full_last = tir_min(b, end, tir_add(b, d->item.diagonal, d->item.first_token));
}

static struct decode_state walk_keys(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value zero = tir_f32(b, 0.0f);
    struct tir_value carried[N_CARRY] = {
        [CARRY_M] = tir_splat(b, s->d.softmax.lowest, s->d.softmax.vector),
        [CARRY_L] = tir_splat(b, zero, s->d.softmax.folded),
        [CARRY_O] = tir_splat(b, zero, s->d.output),
    };
    struct tir_type types[N_CARRY];
    for (int i = 0; i < N_CARRY; i++)
        types[i] = tir_typeof(b->f, carried[i]);
    const struct tir_value keys = tir_sub(b, s->d.item.end_key, s->d.item.first_key);
    const struct tir_value n = tir_sar(b, att_plus(b, keys, (int)s->d.keys - 1),
                                       tir_i32(b, (int)log2u(s->d.keys)));
    struct tir_if some = tir_begin_if(b, tir_cmp_gt(b, n, tir_i32(b, 0)), false, types, N_CARRY);
    struct tir_value inside[N_CARRY];
    memcpy(inside, carried, sizeof(inside));
    find_reach(s);
    load_q(s);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), inside, N_CARRY);
    visit(s, loop.index, inside);
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
    tir_end_for(b, &loop, inside, N_CARRY);
    tir_else(b, &some, inside);
    tir_end_if(b, &some, carried);
    return (struct decode_state){carried[CARRY_M], tir_col_sum(b, carried[CARRY_L]),
                                 carried[CARRY_O]};
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

static struct tir_value exponent(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value scale = tir_arg(b, "scale_log2", TIR_F32);
    if (s->d.v->kv_scale != ATT_KV_SCALE_TENSOR)
        return scale;
    return tir_mul(b, scale, att_cache_tensor_scale(&s->d.k.c));
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
    const struct att_softmax softmax = att_softmax(b, d->scores, exponent(s));
    d->n_rows = tir_mul(b, tir_sub(b, d->item.end_token, d->item.first_token), d->gqa);
    struct tir_loop pass =
        tir_begin_for(b, tir_i32(b, 0), d->n_rows, tir_i32(b, (int)d->columns), NULL, 0);
    d->first_row = pass.index;
    d->softmax = softmax;
    struct decode_state state = walk_keys(s);
    share_state(s, &state);
    d->softmax.vector = tir_typeof(b->f, state.m);
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
        .wave_bits = log2u(t->waves),
        .score_waves = log2u(t->columns / MFMA_ROWS),
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
                     .n_phases = N_PHASES,
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
    .takes = ATT_BIT(DTYPE) | ATT_BIT(HEAD_DIM) | ATT_BIT(HEAD_DIM_V) | ATT_BIT(GQA) |
             ATT_BIT(Q_LEN) | ATT_BIT(MASK) | ATT_BIT(LSE) | ATT_BIT(PAGE_SIZE) |
             ATT_BIT(PAGE_TABLE) | ATT_BIT(KV_DTYPE) | ATT_BIT(KV_SCALE),
    .check = check,
    .build = build,
};
