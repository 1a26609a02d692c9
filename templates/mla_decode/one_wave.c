/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode with one wave per SIMD. A wave has 32 columns, all keys of a block and all of O^T for
 * these columns. So waves share the blocks in LDS, and exchange nothing of the softmax. O is in
 * AGPRs, Q in half of the VGPRs. pipelines/one_wave.c has the table of the loop.
 *
 * A block has 32 keys, or 64 of fp8. A run is 16 or more keys of a block, or the block, that are in
 * one page. Rows are copied to LDS without registers. The copies have a buffer resource that ends
 * with the item, so that rows after the last token are zeros. Items of a plan begin with a multiple
 * of 64 keys. Rows of lists are copied as for wave pairs (gather.c; table:
 * pipelines/one_wave_lists.c). Kernels with lists copy Q to LDS first: a load of Q as an operand
 * would read only a quarter of each cache line.
 *
 * Keys are permuted in the rows of S^T, so that LDS reads have no bank conflicts. A transposing
 * read of c reads four keys that are four rows apart, and so 64 bytes of the banks. Rows of K that
 * 16 lanes read are 16 bytes of the banks apart. A transposing read of fp8 reads eight keys that
 * are four rows apart, and so 32 bytes of the banks.
 *
 * Both fp8 products use the MFMA of twice the rate, which multiplies all keys of a block at once.
 * The softmax of fp8 kernels has no branch, and runs beside the product of the previous block in
 * phase C2.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/workgroup/lds_map.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    RUN = 16 /* fewest neighbouring keys of a block that are in one page */,
    BLOCKS = 4,
    MOVED_BLOCKS = 8 /* number of blocks in LDS if the tensor data mover copies them */,
    EARLY = 128 /* rows of c^T that are read from LDS in the phase before their product */
};

bool mla_one_wave_takes(const struct att_variant *v, const struct tir_machine *m)
{
    const bool lists = v->sparse != ATT_SPARSE_NONE;
    const bool fp8 = v->kv_dtype == ATT_KV_DTYPE_FP8 && v->q_dtype == ATT_Q_DTYPE_FP8;
    /* With fp8, on targets whose LDS reads do not transpose the latent, a run of neighbouring keys
     * has twice the length: a whole block. The tensor data mover copies the rows of each wave. */
    const bool whole = fp8 && mla_transpose_takes(m) && !tir_tensor_copy(m);
    const int run = whole ? 2 * RUN : RUN;
    const bool in_one_page = lists || (v->page_size && v->page_size % run == 0);
    const bool of_q = v->kv_dtype == ATT_KV_DTYPE_SAME && v->q_dtype == ATT_Q_DTYPE_SAME;
    const bool as_stored = (of_q || fp8) && v->kv_layout == ATT_KV_LAYOUT_NHD;
    return v->head_dim_v == LATENT && in_one_page && as_stored && v->mask != ATT_MASK_CUSTOM &&
           !att_scales_scores(v) &&
           (tir_tensor_copy(m)
                ? !lists
                : mla_transpose_takes(m) || (att_transposes_8_bytes(m) && tir_lane_copy(m, 16)));
}

/* ---- Layouts of scores, weights and panels, and LDS maps ---- */

/* Returns the index in tir_machine.mma of the instruction of S^T = K Q^T, one without scales. */
static int keys_product(const struct mla *s)
{
    if (s->split.pairs && !mla_has_row_pairs(s))
        return s->d.qk;
    const struct tir_mma *const mma = mla_pv(s);
    return s->type.scaled < 0 ? s->d.pv : tir_find_mma(s->d.m, mma->m, mma->n, mma->k, TIR_FP8);
}

/* Returns the number of a block's keys that a wave multiplies in K Q^T. */
static unsigned own_keys(const struct mla *s) { return s->d.keys >> s->split.pairs; }

/* Returns the index (i32) in a block of the first key that the wave multiplies in K Q^T. */
static struct tir_value own_first(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    return s->split.pairs ? att_times(b, mla_one_wave_half(s), (int)own_keys(s)) : tir_i32(b, 0);
}

struct tir_value mla_one_wave_first_key(void *family, struct tir_value block)
{
    struct mla *const s = family;
    return tir_add(&s->d.b, mla_first_key(s, block), own_first(s));
}

/* Returns the number of keys that one instruction of c^T P^T multiplies: in fp8 all of a block. */
static unsigned together(const struct mla *s) { return mla_pv(s)->k; }

/* Returns layout l of S^T or K with its rows permuted into an order of keys that avoids LDS bank
 * conflicts. */
static struct tir_layout with_keys(const struct mla *s, const struct tir_layout *l)
{
    static const uint8_t key[] = {2, 3, 0, 1, 4}, key_fp8[] = {2, 3, 1, 4, 0, 5};
    static const uint8_t key_of_halves[] = {1, 2, 3, 0, 4};
    if (mla_one_wave_moves(s))
        return mla_weights_fp8(s) ? *l : tir_layout_permute_rows(l, key_of_halves);
    if (mla_has_row_pairs(s))
        return mla_exchange_with_keys(l);
    return tir_layout_permute_rows(l, mla_weights_fp8(s) ? key_fp8 : key);
}

/* Returns the layout in registers of one wave's weights, [keys x columns]: the layout of S^T with
 * two bits exchanged. The bit for 16 columns moves from register to lane numbers, and the bit for 4
 * keys from lane to register numbers. */
struct tir_layout mla_one_wave_weights(const struct mla *s)
{
    enum { COLUMNS = 16, ROWS = 4 /* rows of the instruction's result that a lane has together */ };
    const struct tir_mma *const mma = &s->d.m->mma[keys_product(s)];
    const struct tir_layout plain =
        tir_mma_result(mma, own_keys(s), s->d.columns, mla_own_waves(s));
    const struct tir_layout l = tir_layout_swap(&plain, TIR_RC(0, COLUMNS), TIR_RC(ROWS, 0));
    return with_keys(s, &l);
}

/* Returns the order in which K Q^T sums over a panel's columns: a lane has 16 contiguous bytes of a
 * row. */
static struct tir_contraction panel_order(const struct mla *s)
{
    const struct tir_mma *const mma = &s->d.m->mma[keys_product(s)];
    return s->type.scaled >= 0 ? tir_contract_instruction(mla_pv(s), false, PANEL)
                               : tir_contract_rows(mma, PANEL, 16 / mla_kq_bytes(s));
}

/* Sets the types of scores, weights and O^T in s->type and s->d, and the panels of K:
 * mla_form.choose_layouts. */
static void choose_layouts(struct mla *s)
{
    struct split_kv *const d = &s->d;
    const struct tir_waves waves = mla_own_waves(s);
    const struct tir_mma *const mma = &d->m->mma[keys_product(s)];
    const struct tir_layout plain = tir_mma_result(mma, own_keys(s), d->columns, waves);
    const struct tir_layout scores = with_keys(s, &plain);
    const unsigned rows = d->value.width >> s->split.pairs;
    const struct tir_layout o = tir_mma_result(mla_pv(s), rows, d->columns, waves);
    const struct tir_contraction k = panel_order(s);
    mla_add_panels(s, keys_product(s), &k);
    d->scores = tir_tile(d->b.f, TIR_F32, own_keys(s), d->columns, &scores);
    s->type.product = d->scores;
    d->output = tir_tile(d->b.f, TIR_F32, rows, d->columns, &o);
}

/* Returns the LDS map of `keys` rows of `width` columns. In fp8, a wave copies two rows of the
 * latent at once, or 16 of the rotated key. 16 bytes of padding follow each two rows of the latent.
 * In rows of the rotated key, two bits of the row's index permute chunks of 16 bytes within a
 * panel. */
struct tir_layout mla_one_wave_map(const struct mla *s, unsigned keys, unsigned width)
{
    enum { CHUNK = 16 };
    struct tir_layout map = tir_row_major(keys, width);
    if (mla_one_wave_moves(s)) {
        tir_map_pad(&map, width, CHUNK / mla_kq_bytes(s));
        return map;
    }
    if (!mla_weights_fp8(s))
        return att_lds_rows(s->d.m, keys, width, mla_kq_bytes(s));
    if (width < LATENT)
        return att_lds_swizzled(keys, width, CHUNK, 2, 2);
    tir_map_pad(&map, CHUNK << s->d.m->lane_bits, CHUNK);
    return map;
}

/* ---- A block of keys: its pages, its place in LDS, its copies and reads ---- */

struct tir_value mla_one_wave_place(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value which = tir_and(b, block, tir_i32(b, (int)s->lds.blocks - 1));
    return tir_add(b, p->buffer, att_times(b, which, (int)p->bytes));
}

unsigned mla_one_wave_before(const struct mla *s, const struct part *p, unsigned rows)
{
    return mla_has_row_pairs(s) ? rows * MLA_ROW_PAIR_COLUMNS
                                : tir_lds_address(&p->lds, rows * p->width, mla_kq_bytes(s));
}

/* Returns the LDS address (i32) of the first row of part p that the wave reads in block `block`
 * (i32). */
static struct tir_value own_place(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value place = mla_one_wave_place(s, p, block);
    if (!s->split.pairs)
        return place;
    const unsigned before = mla_one_wave_before(s, p, own_keys(s));
    return tir_add(b, place, att_times(b, mla_one_wave_half(s), (int)before));
}

/* Returns the number of keys of a run: the most neighbouring keys of a block that are always in one
 * page. */
static unsigned run_of(const struct mla *s)
{
    unsigned keys = s->d.keys;
    while ((unsigned)s->d.v->page_size % keys)
        keys /= 2;
    return keys;
}

/* Returns the index (i32) in the sequence of the first key of run `run` (index) of block `block`
 * (i32: index). */
static struct tir_value key_of_run(struct mla *s, struct tir_value block, unsigned run)
{
    return att_plus(&s->d.b, mla_first_key(s, block), (int)(run * run_of(s)));
}

struct tir_value mla_page_offset(struct mla *s, struct tir_value key)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value page =
        tir_min(b, att_page_of(&s->source.pages.paging, key), s->source.pages.last);
    return tir_shl(b, page, tir_i32(b, 2));
}

struct tir_value mla_one_wave_page(struct mla *s, struct tir_value key)
{
    return tir_scalar_load(&s->d.b, s->source.pages.table, mla_page_offset(s, key), TIR_I32);
}

/* Returns the view of a run's rows in the cache: from key `key` (i32) on in page `page` (i32), up
 * to the run's or the item's end. */
static struct tir_view rows_of(struct mla *s, struct tir_value key, struct tir_value page)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_cache *const c = &s->d.k.c;
    const struct tir_value inside = att_page_place(&s->source.pages.paging, key);
    const struct tir_value stride = tir_convert(b, c->token_stride, TIR_I32);
    const struct tir_value at = tir_add(b, tir_mul(b, tir_zext(b, page, TIR_I64), c->page_stride),
                                        tir_mul(b, tir_zext(b, inside, TIR_I64), c->token_stride));
    const struct tir_value most = tir_i32(b, (int)run_of(s));
    const struct tir_value there = tir_min(b, tir_sub(b, s->d.item.end_key, key), most);
    /* If a wave pair materialised the stride, multiples of it would stay in registers through the
     * loop. */
    return att_view(b, tir_add(b, c->base, at), there,
                    s->split.pairs ? stride : tir_materialize(b, stride),
                    (int)(s->d.k.width * mla_kq_bytes(s)), 0);
}

/* Issues the copies to LDS of run `run` (index) of block `block` (i32: index). `rows`: view of the
 * run's rows in the cache, which ends with the item's keys. */
static void copy_run(struct mla *s, struct tir_value block, unsigned run, struct tir_view rows)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned keys = run_of(s);
    /* Only the map decides which lane copies what; the layout of `any` has no effect. */
    const struct tir_layout any = tir_mma_left(&s->d.m->mma[s->query.panel->product], s->d.keys,
                                               &s->query.panel->k, mla_own_waves(s));
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        const struct part *const p = &s->source.part[i];
        const struct tir_view v = {rows.rsrc, rows.row_stride,
                                   tir_i32(b, (int)(p->first * mla_kq_bytes(s)))};
        const unsigned before = tir_lds_address(&p->lds, run * keys * p->width, mla_kq_bytes(s));
        const struct tir_layout map = mla_one_wave_map(s, keys, p->width);
        struct tir_type t = tir_tile(b->f, s->number.kq, s->d.keys, PANEL, &any);
        t.rows = (uint16_t)keys;
        t.cols = (uint16_t)p->width;
        tir_copy_to_lds(b, GROUP, v, tir_i32(b, 0),
                        att_plus(b, mla_one_wave_place(s, p, block), (int)before), t, &map);
    }
}

/* Reads panel n of K from LDS, for the wave's keys of the current block: mla_form.read_panel. */
static struct tir_value read_panel(struct mla *s, const struct panel *n)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value block = mla_block_of(s);
    const struct part *const p = mla_part_of(s, n);
    const struct tir_mma *const mma = &s->d.m->mma[n->product];
    const struct tir_layout plain = tir_mma_left(mma, own_keys(s), &n->k, mla_own_waves(s));
    const struct tir_layout l = with_keys(s, &plain);
    const struct tir_type t = tir_tile(b->f, s->number.kq, own_keys(s), n->width, &l);
    if (mla_has_row_pairs(s))
        return mla_row_pairs_read(s, own_place(s, s->source.part, block), t, s->d.keys, n->first);
    const struct tir_layout map = mla_one_wave_map(s, own_keys(s), p->width);
    const unsigned column = n->first - p->first;
    const struct tir_value place = own_place(s, p, block);
    return tir_tile_lds_load(b, att_plus(b, place, (int)(column * mla_kq_bytes(s))), t, &map);
}

/* Reads c^T for `width` columns of the latent from column `first` on, [columns x keys], from LDS.
 * `from`: LDS address (i32) of column 0. */
static struct tir_value read_columns(struct mla *s, struct tir_value from, unsigned first,
                                     unsigned width)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_layout keys = *tir_layout_of(b->f, s->d.scores);
    if (s->split.pairs)
        keys = mla_one_wave_weights(s);
    else if (together(s) < s->d.keys)
        keys = tir_layout_half(&keys);
    const struct tir_contraction k = tir_contract_acc(&keys, tir_bits(mla_pv(s)->n));
    const struct tir_layout a = tir_mma_left(mla_pv(s), width, &k, mla_own_waves(s));
    const struct tir_layout l = tir_layout_transpose(&a);
    const struct tir_type t = tir_tile(b->f, s->number.kq, together(s), width, &l);
    const struct tir_layout map = mla_one_wave_map(s, together(s), s->source.part->width);
    return tir_transpose(
        b, tir_tile_lds_load(b, att_plus(b, from, (int)(first * mla_kq_bytes(s))), t, &map));
}

/* Returns the LDS address (i32) of the wave's first column of the latent, for the keys of part
 * `part` (index) of c^T P^T. A wave of a pair has half of the columns and all keys. */
static struct tir_value columns_from(struct mla *s, unsigned part)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = s->source.part;
    const unsigned before =
        tir_lds_address(&p->lds, part * together(s) * p->width, mla_kq_bytes(s));
    const struct tir_value from =
        att_plus(b, mla_one_wave_place(s, p, mla_block_of(s)), (int)before);
    const int half = (int)(s->d.output.rows * mla_kq_bytes(s));
    return s->split.pairs ? tir_add(b, from, att_times(b, mla_one_wave_half(s), half)) : from;
}

/* Returns the number of rows of c^T that are read from LDS in the phase before their product. */
static unsigned early(const struct mla *s) { return mla_one_wave_moves(s) ? 32 : EARLY; }

/* Reads the first EARLY columns of the latent for the block's first keys, as c^T. read_late() reads
 * the other columns. */
static struct tir_value read_early(struct mla *s)
{
    return read_columns(s, columns_from(s, 0), 0, early(s));
}

/* Reads the columns of the latent that read_early() has not read, as c^T. Returns them appended to
 * v, the result of read_early(). */
static struct tir_value read_late(struct mla *s, struct tir_value v)
{
    for (unsigned width = early(s); width < s->d.output.rows; width *= 2)
        v = tir_stack(&s->d.b, v, read_columns(s, columns_from(s, 0), width, width));
    return v;
}

/* ---- Weights of fp8, with a scale for each column and 32 keys ----
 *
 * Weights are rounded relative to the largest of their block: p = 2^(s - e), with s a score times
 * softmax.exponent. e is the integer that puts the largest p of a column at the top of fp8's
 * range: (2^7.75, 2^8.75]. The instruction multiplies them by 2^(e - m), since O and l of the
 * column are relative to m. So m may be well below the maximum. If m followed the maximum, a third
 * of the blocks would rescale the 256 registers of O. m changes only if an e exceeds m by more than
 * MLA_GROWTH, for which f32 has the range. That is rare after the first block.
 */

/* Returns e - m for each column. `e`: exponents (log2), as a vector or with a row for each part of
 * the keys. `m`: the running maxima, as a vector. */
static struct tir_value above_m(struct tir_builder *b, struct tir_value e, struct tir_value m)
{
    const struct tir_type t = tir_typeof(b->f, e);
    return tir_sub(b, e, t.rows > 1 ? tir_broadcast(b, m, t) : m);
}

/* Rescales O^T (*o) in parts, and l with the first part. Each part has a branch of its own, so that
 * only one part at a time is in vector registers. With fewer registers, a workgroup may start
 * before others end. */
void mla_one_wave_rescale(struct mla *s, const struct att_softmax_step *step, struct tir_value *o,
                          struct tir_value *l, unsigned parts)
{
    struct tir_builder *const b = &s->d.b;
    if (parts == 1) {
        att_softmax_rescale(b, step, o, l);
        return;
    }
    struct tir_value half[2], none = *l;
    for (int i = 0; i < 2; i++)
        half[i] = tir_half(b, *o, i);
    mla_one_wave_rescale(s, step, &half[0], l, parts / 2);
    mla_one_wave_rescale(s, step, &half[1], &none, parts / 2);
    *o = tir_stack(b, half[0], half[1]);
}

/* Raises m to the larger of m and e in all columns, and rescales O and l. The branch is taken if an
 * e exceeds m by more than MLA_GROWTH. Before the first key, O and l are 0 and are not rescaled. */
void mla_one_wave_rescale_to(struct mla *s, struct tir_value e,
                             struct tir_value carried[ATT_N_CARRY])
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value m = carried[ATT_CARRY_M], above = above_m(b, e, m);
    const struct tir_value grown =
        tir_any(b, tir_cmp_gt(b, above, tir_float_like(b, above, MLA_GROWTH)));
    struct tir_if branch = tir_begin_if_like(b, grown, true, carried, ATT_N_CARRY);
    const struct tir_value next =
        tir_max(b, m, tir_typeof(b->f, e).rows > 1 ? tir_col_max(b, e) : e);
    const struct att_softmax_step step = {
        .grown = tir_any(b, tir_cmp_gt(b, m, att_softmax_lowest(b, &s->softmax))),
        .alpha = tir_exp2(b, tir_sub(b, m, next))};
    struct tir_value followed[ATT_N_CARRY] = {
        [ATT_CARRY_M] = next,
        [ATT_CARRY_L] = carried[ATT_CARRY_L],
        [ATT_CARRY_O] = carried[ATT_CARRY_O],
    };
    mla_one_wave_rescale(s, &step, &followed[ATT_CARRY_O], &followed[ATT_CARRY_L],
                         mla_has_row_pairs(s) ? MLA_RESCALE_PARTS : 1);
    tir_else(b, &branch, followed);
    tir_end_if(b, &branch, carried);
}

/* Returns 2^(e - m) as e8m0 bytes, one for each column and 32 keys of the weights. Powers below
 * 2^-MLA_SCALE_BIAS are replaced by that power. The byte n is read from the lowest bits of the
 * float 2^23 + n. */
struct tir_value mla_one_wave_scales(struct mla *s, struct tir_value e, struct tir_value m,
                                     struct tir_type t)
{
    enum { ONES = 1 << 23 };
    struct tir_builder *const b = &s->d.b;
    const struct tir_value power =
        tir_max(b, above_m(b, e, m), tir_float_like(b, e, -MLA_SCALE_BIAS));
    const struct tir_value word = tir_add(b, power, tir_float_like(b, e, ONES + MLA_SCALE_BIAS));
    const struct tir_type bits = tir_with_dtype(tir_typeof(b->f, word), TIR_I32);
    const struct tir_value scales = tir_convert(b, tir_bitcast(b, word, bits), TIR_I8);
    return bits.rows > 1 ? scales : tir_broadcast(b, scales, t);
}

struct tir_value mla_one_wave_multiply(struct mla *s, struct tir_value c, struct tir_value weights,
                                       struct tir_value scales, struct tir_value o)
{
    struct tir_builder *const b = &s->d.b;
    return tir_mma_scaled_in_agprs(b, s->type.scaled, c, weights, o, tir_i32(b, MLA_SCALE_BIAS),
                                   scales);
}

struct tir_type mla_one_wave_scales_type(struct mla *s, const struct tir_layout *right)
{
    struct tir_layout l;
    const bool fits = tir_mma_scales(mla_pv(s), true, right, &l);
    assert(fits);
    (void)fits;
    l = tir_layout_transpose(&l);
    return tir_tile(s->d.b.f, TIR_I8, s->d.keys / TIR_MX_BLOCK, s->d.columns, &l);
}

/* Returns the weights 2^(f x - e) of scores x. f is softmax.exponent, the scale of scores times
 * log2(e). Sets *e (f32, 1 x columns): the integer exponent of each column (row of Q), from
 * mla_scale_exponent(). */
static struct tir_value scale_weights(struct mla *s, struct tir_value x, struct tir_value *e)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value own = mla_scale_exponent(s, x);
    *e = tir_named(b, "e", tir_max(b, own, att_softmax_lowest(b, &s->softmax)));
    return tir_exp2(b, att_softmax_exponent(b, &s->softmax, x, *e));
}

/* ---- The steps of the loop of one wave per SIMD ---- */

/* Loads the page number of each run of the block as a scalar. */
static void find_pages(void *context)
{
    struct mla *const s = mla_of(context);
    for (unsigned i = 0; i < s->d.keys / run_of(s); i++)
        s->now.pages[i] = mla_one_wave_page(s, key_of_run(s, mla_block_of(s), i));
}

/* Issues the copies of the block's rows to LDS, run by run. */
static void copy_block(void *context)
{
    struct mla *const s = mla_of(context);
    const struct tir_value block = mla_block_of(s);
    for (unsigned i = 0; i < s->d.keys / run_of(s); i++)
        copy_run(s, block, i, rows_of(s, key_of_run(s, block, i), s->now.pages[i]));
}

/* Loads the block's page numbers to lanes, an iteration before they are used, since an iteration of
 * a wave pair is short. Scalar loads are not used: while some are in flight, a wait for one LDS
 * access must wait for all. */
static void find_lane_pages(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.pages[0] = mla_gather_pages(s, mla_block_of(s));
}

/* Makes the view of each run's rows in the cache from the page numbers in lanes. */
static void find_run_rows(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    for (unsigned i = 0; i < s->d.keys / run_of(s); i++) {
        const struct tir_value lane = tir_i32(b, (int)(i * run_of(s)));
        s->now.runs[i] =
            rows_of(s, key_of_run(s, mla_block_of(s), i), tir_lane_read(b, s->now.pages[0], lane));
    }
}

/* Issues the copies to LDS of the rows that find_run_rows() found. */
static void copy_run_rows(void *context)
{
    struct mla *const s = mla_of(context);
    for (unsigned i = 0; i < s->d.keys / run_of(s); i++)
        copy_run(s, mla_block_of(s), i, s->now.runs[i]);
}

/* Reads a part of c^T from LDS: for the block's first keys, the first columns (part 0) or the other
 * columns (part 1); for later keys, all columns. */
static void read_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const v = &s->d.attention.now.v;
    if (part == 0)
        *v = read_early(s);
    else if (part == 1)
        *v = read_late(s, *v);
    else
        *v = read_columns(s, columns_from(s, part - 1u), 0, s->d.output.rows);
}

/* Rescales O and l in columns whose maximum has grown, in a branch. */
static void rescale(void *context)
{
    struct mla *const s = mla_of(context);
    struct att_now *const now = &s->d.attention.now;
    att_softmax_rescale_some(&s->d.b, &now->step, &now->carried[ATT_CARRY_L],
                             &now->carried[ATT_CARRY_O]);
}

/* Computes the block's weights from its scores, and the exponents that the weights are relative
 * to. */
static void make_scaled(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.p = scale_weights(s, s->d.attention.now.s, &s->d.attention.now.exponent);
}

/* Raises m, and rescales O and l, if an exponent of the block exceeds m by more than MLA_GROWTH. */
static void rescale_scaled(void *context)
{
    struct mla *const s = mla_of(context);
    mla_one_wave_rescale_to(s, s->d.attention.now.exponent, s->d.attention.now.carried);
}

/* Rounds P to fp8, computes the scales of P, and adds the sum of P to l. The product that follows
 * is inline assembly whose operands need one or two wait states, so l is computed last. */
static void round_scaled(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct att_now *const now = &s->d.attention.now;
    const struct tir_value m = now->carried[ATT_CARRY_M], e = s->d.attention.now.exponent;
    const struct tir_value weights = tir_convert_in_range(b, tir_named(b, "p", now->p), TIR_FP8);
    const struct tir_layout right =
        tir_layout_transpose(tir_layout_of(b->f, tir_typeof(b->f, weights)));
    s->now.scales = mla_one_wave_scales(s, e, m, mla_one_wave_scales_type(s, &right));
    const struct tir_value sum = tir_col_fold_sum(b, tir_convert(b, weights, TIR_F32));
    mla_add_scaled_sum(s, sum, e);
    now->weights.p16 = weights;
}

/* Adds the product of c^T and P^T of fp8, with the scales of P, to O^T. */
static void product_scaled(void *context)
{
    struct mla *const s = mla_of(context);
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O];
    *o = mla_one_wave_multiply(s, now->v, now->weights.p16, s->now.scales, *o);
    tir_named(&s->d.b, "o", *o);
}

#define BLOCK_LDS (1u << MLA_LDS_BLOCK)
#define CARRIED (ATT_SLOT(M) | ATT_SLOT(L) | ATT_SLOT(O))

const struct pipe_op mla_find_pages = {"find pages", .build = find_pages,
                                       .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_copy_block = {"block to LDS", .build = copy_block,
                                       .reads = ATT_SLOT(K_PAGES), .lds_writes = BLOCK_LDS,
                                       .flags = PIPE_ASYNC};
const struct pipe_op mla_find_lane_pages = {"find pages", .build = find_lane_pages,
                                            .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_find_run_rows = {"find rows", find_run_rows, ATT_SLOT(K_PAGES),
                                          ATT_SLOT(K_DATA), .flags = 0};
const struct pipe_op mla_copy_run_rows = {"block to LDS", .build = copy_run_rows,
                                          .reads = ATT_SLOT(K_DATA), .lds_writes = BLOCK_LDS,
                                          .flags = PIPE_ASYNC};
const struct pipe_op mla_read_c = {"read c", .build_part = read_c, .writes = ATT_SLOT(V),
                                   .lds_reads = BLOCK_LDS};
const struct pipe_op mla_rescale_some = {"rescale", rescale,
                                         ATT_SLOT(GROWN) | ATT_SLOT(L) | ATT_SLOT(O),
                                         ATT_SLOT(L) | ATT_SLOT(O), .flags = PIPE_BRANCH};
const struct pipe_op mla_make_scaled = {"P by blocks", make_scaled, ATT_SLOT(S),
                                        ATT_SLOT(P) | ATT_SLOT(E), .flags = 0};
const struct pipe_op mla_rescale_scaled = {"rescale", rescale_scaled, CARRIED | ATT_SLOT(E),
                                           CARRIED, .flags = PIPE_BRANCH};
const struct pipe_op mla_round_scaled = {"round P", round_scaled,
                                         ATT_SLOT(P) | ATT_SLOT(E) | ATT_SLOT(M) | ATT_SLOT(L),
                                         ATT_SLOT(P16) | ATT_SLOT(L), .flags = 0};
const struct pipe_op mla_product_scaled = {"PV", product_scaled,
                                           ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O), ATT_SLOT(O),
                                           .flags = PIPE_PRODUCT};

/* Returns the pipeline of this kernel. */
static const struct pipeline *find_pipeline(const struct mla *s)
{
    if (mla_has_row_pairs(s))
        return &mla_row_pairs;
    if (s->split.pairs)
        return &mla_wave_pair;
    if (mla_one_wave_moves(s))
        return &mla_one_wave_tensor;
    return mla_one_wave_gathers(s) ? &mla_one_wave_lists : &mla_one_wave;
}

/* Sets s->plan to the kernel's pipeline. Asserts that LDS has room for its buffers. */
static void choose_pipeline(struct mla *s)
{
    struct pipe_variant v = {.has = s->type.scaled >= 0 ? 1u << MLA_HAS_SCALED : 0};
    if (mla_weights_fp8(s))
        v.has |= ATT_HAS(FP8_WEIGHTS);
    if (mla_weights_fp8(s) && mla_one_wave_moves(s))
        v.has |= ATT_HAS(SUM_PRODUCT);
    if (s->split.pairs && s->d.v->sparse != ATT_SPARSE_NONE)
        v.has |= 1u << MLA_HAS_LISTS;
    if (s->split.pairs && s->lds.p_places < 2)
        v.has |= 1u << MLA_HAS_ONE_P;
    pipe_choose(find_pipeline(s), &v, &s->plan);
    assert(s->plan.depth[MLA_LDS_BLOCK] <= s->lds.blocks);
    assert(mla_has_row_pairs(s) ? s->plan.depth[MLA_LDS_LAST] <= BLOCKS &&
                                      s->plan.depth[MLA_LDS_PAIR_P] <= s->lds.p_places
                                : !s->split.pairs || s->plan.depth[MLA_LDS_P] <= s->lds.p_places);
}

/* Allocates LDS for blocks of keys, weights that waves exchange, and list entries, and chooses the
 * pipeline: mla_form.take_lds. */
static void take_lds(struct mla *s)
{
    struct split_kv *const d = &s->d;
    s->lds.blocks = mla_one_wave_moves(s) ? MOVED_BLOCKS : BLOCKS;
    for (unsigned i = 0; i < mla_count_parts(s) && !mla_has_row_pairs(s); i++) {
        struct part *const p = &s->source.part[i];
        p->lds = mla_one_wave_map(s, d->keys, p->width);
        p->bytes = (att_lds_bytes(&p->lds, mla_kq_bytes(s)) + 15) & ~15u;
        /* the padding of the last row counts, since Q takes the places of several blocks */
        if (mla_one_wave_moves(s))
            p->bytes = mla_tensor_rows_bytes(s, p, d->keys);
        p->buffer = tir_lds_buffer(&d->b, s->lds.blocks * p->bytes, 16);
    }
    if (s->split.pairs)
        mla_exchange_take_lds(s, BLOCKS);
    if (mla_one_wave_gathers(s))
        mla_gather_take_lds(s);
    else if (s->split.pairs) /* l of both waves of the pair: two vectors for mla_exchange_join() */
        s->lds.unread = tir_lds_buffer(&d->b, 2 * d->columns * (unsigned)sizeof(float), 16);
    if (mla_one_wave_moves(s))
        d->lines = s->source.part->buffer;
    choose_pipeline(s);
}

/* Sets the members of s->d.attention that this pipeline needs: mla_form.begin_pass. */
static void begin_pass(struct mla *s)
{
    struct att_attention *const a = &s->d.attention;
    a->product = s->d.pv;
    a->dtype = s->number.p;
    a->entries = mla_gather_entries;
    a->first_key = mla_one_wave_first_key;
    a->in_agprs = !mla_one_wave_moves(s);
    a->value_parts = (uint8_t)(own_keys(s) / together(s));
}

/* Waits for all waves at the end of an item: mla_form.join. Each wave has m and l of its own
 * columns already. */
static void join(struct mla *s, struct split_kv_state *state)
{
    (void)state;
    if (mla_one_wave_moves(s)) /* copies of blocks after the last one */
        tir_wait(&s->d.b, GROUP, 0);
    tir_barrier(&s->d.b); /* LDS is free for the next item */
}

/* Waits for all waves at the end of an item, and adds l of the waves of a pair: mla_form.join. */
static void join_pair(struct mla *s, struct split_kv_state *state)
{
    tir_barrier(&s->d.b);
    mla_exchange_join(s, state);
}

/* Loads Q to registers, through LDS if the kernel has sparse lists: mla_form.load_q. */
static void load_q(struct mla *s)
{
    if (mla_one_wave_moves(s))
        mla_tensor_load_q(s);
    else if (mla_one_wave_gathers(s))
        mla_wave_pair_load_q(s);
    else
        mla_load_q(s, mla_one_wave_stage(s, A_WAIT));
}

const struct mla_form mla_one_wave_form = {
    .choose_layouts = choose_layouts,
    .take_lds = take_lds,
    .begin_pass = begin_pass,
    .read_panel = read_panel,
    .first_panels = 1,
    .copies = &mla_whole_rows,
    .load_q = load_q,
    .walk = mla_walk,
    .join = join,
    .pass = mla_walk_and_store,
};

const struct mla_form mla_wave_pair_form = {
    .choose_layouts = choose_layouts,
    .take_lds = take_lds,
    .begin_pass = begin_pass,
    .read_panel = read_panel,
    .first_panels = 1,
    .copies = &mla_whole_rows,
    .load_q = mla_wave_pair_load_q,
    .walk = mla_walk,
    .join = join_pair,
    .pass = mla_walk_and_store,
};

const struct mla_form mla_row_pairs_form = {
    .choose_layouts = choose_layouts,
    .take_lds = take_lds,
    .load_arguments = mla_exchange_load_arguments,
    .begin_pass = begin_pass,
    .read_panel = read_panel,
    .first_panels = 1,
    .copies = &mla_lines_of_row_pairs,
    .pass = mla_exchange_pass,
};
