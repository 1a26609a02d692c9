/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, waves that share scores: layouts of tiles in registers, the choice of the pipeline,
 * and the buffers in LDS. The order of tir_lds_buffer() calls is the order of buffers in LDS, so
 * another order changes the code object.
 */
#include <assert.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/lds_map.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/scalar.h"

/* ---- Layouts of tiles in registers, and panels of K and Q ---- */

const struct tir_mma *mla_qk(const struct mla *s, const struct panel *p)
{
    return &s->d.m->mma[p->product];
}

const struct tir_mma *mla_pv(const struct mla *s) { return &s->d.m->mma[s->d.pv]; }

/* True if LDS reads transpose the latent c. False: lanes exchange elements in registers, with a few
 * instructions. Reads that transpose 8 bytes per lane are not used for 16-bit elements and more
 * than 16 columns. */
static bool reads_transposed(const struct mla *s)
{
    enum { BLOCK = 16 /* bytes of a lane's operand in a product of 32 keys */ };
    const bool few = s->d.columns == MFMA_ROWS, fp8 = mla_weights_fp8(s);
    if (att_transposes_8_bytes(s->d.m))
        return few || fp8;
    return fp8 ? tir_transposing_read(s->d.m, 8, 8) != NULL
               : tir_transposing_read(s->d.m, BLOCK, 16) != NULL;
}

/* Returns log2 of the number of neighbouring elements of a latent that a lane reads from LDS at
 * once, at most 2. 16 lanes read the wave's part of a latent, in one or several contiguous
 * parts. */
static unsigned v_vector_bits(const struct mla *s)
{
    if (reads_transposed(s))
        return 0;
    const unsigned own = tir_bits(s->d.value.width) - mla_wave_bits(s) - tir_bits(mla_pv(s)->m);
    return own < 2 ? own : 2;
}

/* Returns the layout of the latent c (keys x latent) in registers if lanes read it from LDS along
 * rows. */
static struct tir_layout values_as_read(const struct mla *s)
{
    const unsigned vector = v_vector_bits(s), m_bits = tir_bits(mla_pv(s)->m);
    const unsigned keys = tir_bits(tir_mma_acc_regs(mla_pv(s)));
    const unsigned lanes = s->d.m->lane_bits - m_bits;
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, vector);
    tir_spread_cols(&l, TIR_LANES, m_bits);
    tir_spread_cols(&l, TIR_REGS, tir_bits(s->d.value.width) - mla_wave_bits(s) - vector - m_bits);
    tir_spread_cols(&l, TIR_WAVES, mla_wave_bits(s));
    tir_spread_rows(&l, TIR_REGS, keys);
    tir_spread_rows(&l, TIR_LANES, lanes);
    tir_spread_rows(&l, TIR_REGS, tir_bits(s->d.keys) - keys - lanes);
    return tir_spread_layout(&l);
}

/* Returns how waves divide the product O^T += c^T P^T: all waves divide the rows of O^T. */
static struct tir_waves product_waves(const struct mla *s)
{
    return (struct tir_waves){.rows = (uint8_t)mla_wave_bits(s)};
}

/* Returns layout l of O^T or c^T with its rows in the order in which lanes read the columns of c
 * from LDS. */
static struct tir_layout in_read_order(const struct mla *s, const struct tir_layout *l)
{
    const unsigned vector = v_vector_bits(s), m_bits = tir_bits(mla_pv(s)->m);
    uint8_t order[TIR_LAYOUT_MAX_BITS];
    for (unsigned i = 0; i < tir_bits(s->d.value.width); i++)
        order[i] = (uint8_t)(i < m_bits ? vector + i : i < m_bits + vector ? i - m_bits : i);
    return tir_layout_permute_rows(l, order);
}

struct tir_layout mla_values_operand(const struct mla *s)
{
    const struct tir_layout a =
        tir_mma_left(mla_pv(s), s->d.value.width, &s->type.keys, product_waves(s));
    const struct tir_layout v_t = in_read_order(s, &a);
    return tir_layout_transpose(&v_t);
}

/* Sets the types of O^T, c and P of O^T += c^T P^T, and of m and l: s->d.output and members of
 * s->type. */
static void choose_product(struct mla *s)
{
    struct split_kv *const d = &s->d;
    const struct tir_waves split = product_waves(s);
    const struct tir_layout p = tir_mma_right(mla_pv(s), d->columns, &s->type.keys, split);
    const struct tir_layout o = tir_mma_result(mla_pv(s), d->value.width, d->columns, split);
    const struct tir_layout output = in_read_order(s, &o);
    const struct tir_layout weights = tir_layout_transpose(&p);
    const struct tir_layout sliced = tir_layout_slice(&output, 0);
    const struct tir_layout vector_layout = tir_layout_of_one_wave(&sliced);
    s->type.weights = tir_tile(d->b.f, s->number.p, d->keys, d->columns, &weights);
    const struct tir_layout read = reads_transposed(s) ? mla_values_operand(s) : values_as_read(s);
    s->type.v_loaded = tir_tile(d->b.f, s->number.kq, d->keys, d->value.width, &read);
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &output);
    s->type.vector = tir_tile(d->b.f, TIR_F32, 1, d->columns, &vector_layout);
}

struct tir_waves mla_split(const struct mla *s)
{
    return (struct tir_waves){.rows = (uint8_t)s->split.product_keys,
                              .cols = (uint8_t)s->split.columns};
}

/* Adds a panel to s->query and returns it: `width` columns of K and Q from column `first` on.
 * `product`: index of the matrix instruction. `k`: order in which this instruction sums over the
 * panel's columns. `waves`: how waves divide S^T. */
static struct panel *add_panel_of(struct mla *s, unsigned first, unsigned width, int product,
                                  const struct tir_contraction *k, struct tir_waves waves)
{
    struct panel *const p = &s->query.panel[s->query.n_panels++];
    const struct tir_layout q = tir_mma_right(&s->d.m->mma[product], s->d.columns, k, waves);
    *p = (struct panel){.first = first, .width = width, .product = product, .k = *k};
    p->q = tir_tile(s->d.b.f, s->number.kq, s->d.columns, width, &q);
    return p;
}

/* Adds a panel like add_panel_of(), for waves that may divide the columns of K and Q. */
static void add_panel(struct mla *s, unsigned first, unsigned width, int product,
                      const struct tir_contraction *k)
{
    struct panel *const p = add_panel_of(s, first, width, product, k, mla_split(s));
    p->divided = first < s->source.part->width || width < PANEL;
}

/* Implements the declaration in mla_decode.h. Where the tensor data mover copies fp8, a matrix
 * instruction over 128 columns replaces two over 64. Vector instructions can issue while the longer
 * one runs, but not while a shorter one does. */
void mla_add_panels(struct mla *s, int product, const struct tir_contraction *k)
{
    enum { WIDE = 128 };
    const struct tir_machine *const m = s->d.m;
    const bool moved = s->number.kq == TIR_FP8 && tir_tensor_copy(m);
    const int wide = moved ? tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, WIDE, TIR_FP8) : -1;
    unsigned first = 0;
    for (; wide >= 0 && first + WIDE <= s->source.part->width; first += WIDE) {
        const struct tir_contraction of_wide = tir_contract_rows(&m->mma[wide], WIDE, 16);
        add_panel_of(s, first, WIDE, wide, &of_wide, mla_own_waves(s));
    }
    for (; first < s->d.k.width; first += PANEL)
        add_panel_of(s, first, PANEL, product, k, mla_own_waves(s));
}

/* Returns the number of columns of the latent that a wave multiplies in K Q^T. */
static unsigned own_columns(const struct mla *s) { return s->source.part->width >> s->split.depth; }

/* Adds the panel of the rotated key to s->query. Waves divide its columns if a wave's share fills
 * an instruction. Otherwise all waves have the whole panel, and load_panels() sets Q to 0 in all
 * but one group of waves. `whole`: order in which K Q^T sums over the columns of an undivided
 * panel. */
static void add_rotated(struct mla *s, const struct tir_contraction *whole)
{
    const struct tir_mma *const mma = &s->d.m->mma[s->d.qk];
    const unsigned latent = s->d.value.width, own = PANEL >> s->split.depth;
    const unsigned most = 16 / mla_kq_bytes(s), lane = own * (unsigned)mma->m / tir_lanes(s->d.m);
    if (!s->split.depth || own < (unsigned)mma->k) {
        add_panel(s, latent, PANEL, s->d.qk, whole);
        return;
    }
    const struct tir_contraction k = tir_contract_rows(mma, own, lane < most ? lane : most);
    add_panel(s, latent, own, s->d.qk, &k);
}

/* Sets s->query.panel. Some targets have an fp8 instruction of twice the rate, with 128 columns at
 * once. Waves with at least 128 columns of the latent use it. If the instruction has a form with
 * scales, a lane's columns are in that form's order: 16 bytes of each half. Otherwise a lane has 16
 * neighbouring columns at a time. */
static void choose_panels(struct mla *s)
{
    enum { WIDE = 128 };
    const struct tir_machine *const m = s->d.m;
    const struct tir_contraction narrow =
        tir_contract_rows(&m->mma[s->d.qk], PANEL, 16 / mla_kq_bytes(s));
    const bool fills = s->number.kq == TIR_FP8 && own_columns(s) >= WIDE;
    const int wide = fills ? tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, WIDE, TIR_FP8) : -1;
    for (unsigned first = 0; first < own_columns(s) && wide < 0; first += PANEL)
        add_panel(s, first, PANEL, s->d.qk, &narrow);
    if (wide >= 0) {
        const int scaled = tir_find_mma_scaled(m, MFMA_ROWS, MFMA_ROWS, TIR_MX_E4M3, TIR_MX_E4M3);
        const struct tir_contraction k =
            scaled < 0 ? tir_contract_rows(&m->mma[wide], WIDE, 16)
                       : tir_contract_instruction(&m->mma[scaled], false, WIDE);
        for (unsigned first = 0; first < own_columns(s); first += WIDE)
            add_panel(s, first, WIDE, wide, &k);
    }
    if (mla_count_parts(s) > 1)
        add_rotated(s, &narrow);
}

/* Sets s->type.scales, the type of the scales of P. A wave computes the weights of TIR_MX_BLOCK
 * keys or of all keys. */
static void choose_scales(struct mla *s)
{
    const struct tir_layout weights =
        tir_layout_transpose(tir_layout_of(s->d.b.f, s->type.weights));
    struct tir_layout columns;
    const bool fits = tir_mma_scales(mla_pv(s), true, &weights, &columns);
    assert(fits && (mla_parts(s) == 1 || s->d.keys >> s->split.softmax_keys == TIR_MX_BLOCK));
    (void)fits;
    const struct tir_layout scales = tir_layout_transpose(&columns);
    s->type.scales = tir_tile(s->d.b.f, TIR_I8, s->d.keys / TIR_MX_BLOCK, s->d.columns, &scales);
}

void mla_choose_layouts(struct mla *s)
{
    struct split_kv *const d = &s->d;
    choose_panels(s);
    const struct tir_mma *const mma = mla_qk(s, s->query.panel);
    const struct tir_waves columns = {.cols = (uint8_t)s->split.columns};
    const struct tir_layout product = tir_mma_result(mma, d->keys, d->columns, mla_split(s));
    const struct tir_layout whole = tir_mma_result(mma, d->keys, d->columns, columns);
    s->type.product = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &product);
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, s->split.depth ? &whole : &product);
    if (s->type.scaled >= 0)
        s->type.keys = tir_contract_instruction(mla_pv(s), false, d->keys);
    else
        s->type.keys = mla_pv(s)->m == MFMA_ROWS
                           ? tir_contract_acc(&whole, tir_bits(mma->n))
                           : tir_contract_rows(mla_pv(s), d->keys, tir_mma_in_regs(mla_pv(s)));
    choose_product(s);
    if (s->type.scaled >= 0)
        choose_scales(s);
}

struct tir_value mla_row_part(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    const int low = (int)(s->split.columns + s->split.product_keys);
    return low ? tir_shr(b, s->d.wave, tir_i32(b, low)) : s->d.wave;
}

struct tir_value mla_own_first(struct mla *s, const struct panel *p, unsigned size)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned own = p->first < s->source.part->width ? own_columns(s) : p->width;
    if (!s->split.depth || !p->divided)
        return tir_i32(b, (int)(p->first * size));
    /* Each wave has some of the columns that arrive first. */
    if (s->source.lead && p->first < s->source.part->width)
        return att_plus(b, att_times(b, mla_row_part(s), (int)(p->width * size)),
                        (int)((p->first << s->split.depth) * size));
    return att_plus(b, att_times(b, mla_row_part(s), (int)(own * size)), (int)(p->first * size));
}

struct tir_value mla_own_keys(struct mla *s, struct tir_value a)
{
    return s->split.softmax_keys ? tir_join_blocks(&s->d.b, a, s->d.keys >> s->split.softmax_keys)
                                 : a;
}

struct tir_value mla_all_keys(struct mla *s, struct tir_value a)
{
    return s->split.softmax_keys ? tir_split_blocks(&s->d.b, a, s->d.columns) : a;
}

/* ---- Buffers in LDS: their sizes, addresses, stores and loads ---- */

bool mla_exchanges(const struct mla *s) { return s->split.columns != 0; }

/* True if waves exchange parts of S^T, or maxima of its columns, so that a barrier separates K Q^T
 * from the softmax. */
static bool shares_scores(const struct mla *s)
{
    return s->split.depth || s->split.agree == MLA_EXCHANGE_MAX;
}

/* Returns the bytes in LDS of an exchanged vector for one part of the keys: an f32 for each column
 * of S^T. */
static unsigned part_bytes(const struct mla *s) { return s->d.columns * (unsigned)sizeof(float); }

/* Returns the number of vectors (VECTOR_M and others) that have a place in LDS. */
static unsigned n_vectors(const struct mla *s)
{
    if (shares_scores(s))
        return N_VECTORS + 1;
    return s->split.softmax_keys && s->type.scaled < 0 ? 2 * N_VECTORS : N_VECTORS;
}

/* Returns the bytes of an exchanged vector in LDS: one f32 for each column of S^T and part of the
 * keys. */
static unsigned vector_bytes(const struct mla *s) { return mla_parts(s) * part_bytes(s); }

/* Returns the bytes in LDS of the scales of a block's P: a byte for each column of S^T and part of
 * the keys; 0: P has no scales. */
static unsigned scale_bytes(const struct mla *s)
{
    return s->type.scaled >= 0 ? mla_parts(s) * s->d.columns : 0;
}

/* Returns the LDS map of `width` columns of a block of cache rows. Rows are apart by a multiple of
 * all banks plus 32 bytes. A read of 16 bytes of 16 rows of K then uses every bank once. A
 * transposing read of 32 bytes of 8 rows of the latent does so too. */
static struct tir_layout block_map(const struct mla *s, unsigned width)
{
    struct tir_layout map = tir_row_major(s->d.keys, width);
    map.pad_shift = (uint8_t)tir_bits(width);
    map.pad = (uint8_t)(32 / mla_kq_bytes(s));
    return map;
}

/* Returns the LDS map of a block's weights P. The elements that one LDS read of all lanes returns
 * are contiguous. */
static struct tir_layout weights_map(const struct mla *s)
{
    const unsigned all = 1u << s->type.keys.n_reg, most = 128 / tir_dtype_bits(s->number.p);
    return tir_lane_major(tir_layout_of(s->d.b.f, s->type.weights), all < most ? all : most);
}

/* Returns the bytes in LDS of one block's weights P. */
static unsigned weights_bytes(const struct mla *s)
{
    const struct tir_layout map = weights_map(s);
    return att_lds_bytes(&map, tir_dtype_bits(s->number.p) / 8);
}

struct tir_layout mla_query_map(const struct mla *s, const struct panel *p)
{
    const struct tir_layout *const l = tir_layout_of(s->d.b.f, p->q);
    const unsigned most = 16 / mla_kq_bytes(s), own = 1u << l->reg_bits;
    return tir_lane_major(l, own < most ? own : most);
}

/* Returns the bytes of the last n panels of Q in LDS. */
static unsigned query_bytes(const struct mla *s, unsigned n)
{
    unsigned bytes = 0;
    for (unsigned i = s->query.n_panels - n; i < s->query.n_panels; i++)
        bytes += s->d.columns * s->query.panel[i].width * mla_kq_bytes(s);
    return bytes;
}

/* Returns the bytes of a block's entries of the sparse list in LDS: an entry per key. In formats
 * whose rows are key and value and contain scales, no piece has exactly one entry per key. For
 * these formats, each run of each key has an entry. */
static unsigned entry_bytes(const struct mla *s)
{
    const struct att_row_format *const rows = att_row_format(s->d.v);
    const unsigned runs = rows && rows->in_value ? s->d.value.width / (unsigned)rows->run : 1;
    return s->d.keys * runs * (unsigned)sizeof(int32_t);
}

/* True if the kernel can run pipeline values_between. `most`: most blocks in LDS that the tile
 * allows. False with custom masks or converted rows, for which the pipeline's loop would wait. */
static bool fits_between(const struct mla *s, unsigned most)
{
    const bool packed = att_is_packed(s->d.v);
    /* three: LDS may have three blocks. False: the tile limits LDS to two blocks. */
    const bool three = most > 2 || s->type.scaled >= 0;
    return s->d.columns <= 64 && !packed && three && s->d.v->mask != ATT_MASK_CUSTOM;
}

/* Returns the pipeline of the kernel. `most`: most blocks in LDS that its tile allows. */
static const struct pipeline *find_pipeline(const struct mla *s, unsigned most)
{
    /* full: no registers are left in which weights with scales, of 128 columns, could wait for the
     * next iteration. */
    const bool full = s->type.scaled >= 0 && s->d.columns == 128;
    if (!mla_exchanges(s))
        return s->source.moved ? &mla_replicated_tensor : &mla_replicated_scores;
    if (s->lds.blocks == 1 || full)
        return &mla_shared_scores;
    if (shares_scores(s))
        return &mla_early_copy;
    return fits_between(s, most) ? &mla_values_between : &mla_deferred_values;
}

/* Returns the kernel's features (enum mla_feature) as bits of pipe_variant.has. */
static uint32_t features(const struct mla *s)
{
    const struct {
        bool has;
        unsigned feature;
    } all[] = {
        {s->type.scaled >= 0, MLA_HAS_SCALED},
        {s->d.v->sparse != ATT_SPARSE_NONE, MLA_HAS_LISTS},
        {s->d.v->mask == ATT_MASK_CUSTOM, ATT_HAS_MASK_BYTES},
        {s->split.depth, MLA_HAS_ROW_PARTS},
        {s->split.agree == MLA_AGREE_ON_GROWTH, MLA_HAS_KEY_PARTS},
        {s->split.agree == MLA_EXCHANGE_MAX, MLA_HAS_SHARED_MAX},
        {s->lds.blocks == 1, MLA_HAS_ONE_BLOCK},
        {s->lds.blocks == 2, MLA_HAS_TWO_BLOCKS},
        {mla_early_panels(s), MLA_HAS_EARLY_K},
    };
    uint32_t has = mla_piece_features(s);
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        has |= all[i].has ? 1u << all[i].feature : 0;
    return has;
}

/* Sets s->plan to pipeline p for this kernel's features. Asserts that LDS has room for its
 * buffers. */
static void choose_pipeline(struct mla *s, const struct pipeline *p)
{
    pipe_choose(p, &(struct pipe_variant){.has = features(s)}, &s->plan);
    assert(s->plan.depth[MLA_LDS_BLOCK] <= s->lds.blocks &&
           s->plan.depth[MLA_LDS_P] <= s->lds.p_places);
    assert(s->plan.depth[MLA_LDS_S] <= 1 && s->plan.depth[MLA_LDS_ENTRIES] <= s->lds.blocks);
}

/* True if the tensor data mover can copy blocks: rows are stored as LDS has them, and the rows that
 * a wave copies are in one page. */
static bool moves_rows(const struct mla *s)
{
    const struct att_variant *const v = s->d.v;
    const int own = (int)(s->d.keys / s->d.waves);
    return tir_tensor_copy(s->d.m) && !mla_exchanges(s) && v->sparse == ATT_SPARSE_NONE &&
           v->mask != ATT_MASK_CUSTOM && !att_is_packed(v) && s->d.kv_bytes == mla_kq_bytes(s) &&
           v->page_size && v->page_size % own == 0;
}

/* Chooses the number of blocks and of places for P in LDS, the form and the pipeline. All arguments
 * are bytes of LDS. `room`: LDS of a workgroup. `block`: a block of rows. `other`: all other
 * buffers, with one place for P. */
static void choose_buffers(struct mla *s, unsigned room, unsigned block, unsigned other)
{
    const unsigned weights = mla_exchanges(s) ? weights_bytes(s) : 0;
    const unsigned most = s->lds.blocks;
    s->lds.blocks = most > 1 && 2 * block + other <= room ? 2 : 1;
    s->source.moved = most > 2 && 3 * block + other <= room && moves_rows(s);
    if (s->source.moved)
        s->lds.blocks = 3;
    const struct pipeline *const p = find_pipeline(s, most);
    s->source.lead = p == &mla_early_copy;
    const bool in_registers = !s->query.n_in_lds;
    s->query.in_block =
        in_registers && p == &mla_replicated_scores && s->lds.blocks == 2 && !s->split.depth;
    const unsigned query = mla_count_query(s);
    const bool beside = p == &mla_values_between && 2 * block + other + query <= room;
    s->query.shared = s->query.in_block || (in_registers && beside);
    if (p == &mla_deferred_values && most > 2 && 3 * block + other + weights <= room)
        s->lds.blocks = 3;
    s->lds.p_places = s->lds.blocks == 3 ? 2 : 1;
    s->form = s->source.lead ? &mla_early_form : &mla_shared_form;
    choose_pipeline(s, p);
}

void mla_take_lds(struct mla *s)
{
    struct split_kv *const d = &s->d;
    unsigned block = 0, other = 0;
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        struct part *const p = &s->source.part[i];
        p->lds = block_map(s, p->width);
        p->bytes = att_lds_bytes(&p->lds, mla_kq_bytes(s));
        block += p->bytes;
    }
    if (s->query.n_in_lds > s->query.n_panels) /* a narrow latent has fewer panels */
        s->query.n_in_lds = s->query.n_panels;
    if (mla_exchanges(s)) {
        other = weights_bytes(s) + 2 * scale_bytes(s) + n_vectors(s) * vector_bytes(s);
    }
    other += query_bytes(s, s->query.n_in_lds);
    other += mla_shared_bytes(s);
    if (d->v->sparse != ATT_SPARSE_NONE)
        block += entry_bytes(s);
    /* Two workgroups of 4 waves share a compute unit: one loads while the other computes. */
    const unsigned room = d->m->lds_bytes / (d->waves > 4 ? 1 : 2);
    choose_buffers(s, room, block, other);
    for (unsigned i = 0; i < mla_count_parts(s); i++)
        s->source.part[i].buffer =
            tir_lds_buffer(&d->b, s->lds.blocks * s->source.part[i].bytes, 16);
    if (s->query.n_in_lds)
        s->query.buffer = tir_lds_buffer(&d->b, query_bytes(s, s->query.n_in_lds), 16);
    if (s->query.shared)
        mla_take_query(s);
    if (shares_scores(s))
        s->lds.scores = tir_lds_buffer(&d->b, mla_shared_bytes(s), 16);
    if (d->v->sparse != ATT_SPARSE_NONE)
        s->lds.entries = tir_lds_buffer(&d->b, s->lds.blocks * entry_bytes(s), 16);
    if (!mla_exchanges(s))
        return;
    s->lds.p = tir_lds_buffer(&d->b, s->lds.p_places * weights_bytes(s), 16);
    s->lds.vectors = tir_lds_buffer(&d->b, n_vectors(s) * vector_bytes(s), 16);
    if (s->type.scaled >= 0)
        s->lds.scales = tir_lds_buffer(&d->b, s->lds.p_places * scale_bytes(s), 16);
}

/* Returns a modulo 3 (i32), for 0 <= a < 2^31. */
static struct tir_value modulo_3(struct tir_builder *b, struct tir_value a)
{
    const struct tir_value wide = tir_mul(b, tir_zext(b, a, TIR_I64), tir_i64(b, 0x55555556));
    const struct tir_value third = tir_convert(b, tir_shr(b, wide, tir_i64(b, 32)), TIR_I32);
    return tir_sub(b, a, att_times(b, third, 3));
}

/* Returns the index (i32) of the place in LDS of the block with index `block` (i32). */
static struct tir_value slot_of(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    return s->lds.blocks == 3 ? modulo_3(b, block) : tir_and(b, block, tir_i32(b, 1));
}

struct tir_value mla_buffer_of(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    if (s->lds.blocks == 1)
        return p->buffer;
    const struct tir_value which = slot_of(s, block);
    return tir_add(b, p->buffer, att_times(b, which, (int)p->bytes));
}

/* Returns the LDS address (i32) of the entries of the sparse list for the block with index
 * `block`. */
static struct tir_value entries_at(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    if (s->lds.blocks == 1)
        return s->lds.entries;
    const struct tir_value which = slot_of(s, block);
    return tir_add(b, s->lds.entries, att_times(b, which, (int)entry_bytes(s)));
}

void mla_store_entries(struct mla *s, struct tir_value block, struct tir_value entries)
{
    const struct tir_layout map = tir_row_major(tir_typeof(s->d.b.f, entries).rows, 1);
    tir_tile_lds_store(&s->d.b, entries_at(s, block), entries, &map);
}

struct tir_value mla_load_entries(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = tir_row_major(s->d.keys, 1);
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, s->d.scores), 1);
    const struct tir_type t = tir_tile(b->f, TIR_I32, s->d.keys, 1, &rows);
    return tir_tile_lds_load(b, entries_at(s, block), t, &map);
}

bool mla_find_query(struct mla *s, unsigned n, struct tir_value *at)
{
    const unsigned after = s->query.n_panels - n;
    if (after > s->query.n_in_lds)
        return false;
    const unsigned before = query_bytes(s, s->query.n_in_lds) - query_bytes(s, after);
    *at = att_plus(&s->d.b, s->query.buffer, (int)before);
    return true;
}

/* True if no two waves have the same part of S^T, so that every wave stores its values to LDS. */
static bool all_write(const struct mla *s)
{
    return s->split.agree == MLA_EXCHANGE_MAX &&
           s->split.columns + s->split.softmax_keys == mla_wave_bits(s);
}

struct tir_if mla_begin_writers(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    if (all_write(s))
        return (struct tir_if){0};
    const struct tir_value writes =
        tir_cmp_lt(b, s->d.wave, tir_i32(b, 1 << (s->split.columns + s->split.softmax_keys)));
    return att_begin_if(b, writes);
}

void mla_end_writers(struct mla *s, struct tir_if *writers)
{
    if (all_write(s))
        return;
    tir_else(&s->d.b, writers, NULL);
    tir_end_if(&s->d.b, writers, NULL);
}

struct tir_value mla_weights_slot(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    return s->lds.p_places == 2 ? tir_and(b, block, tir_i32(b, 1)) : tir_i32(b, 0);
}

/* Returns the LDS address (i32) of the weights P of block `block` (i32: index). */
static struct tir_value weights_at(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    return tir_add(b, s->lds.p, att_times(b, mla_weights_slot(s, block), (int)weights_bytes(s)));
}

void mla_store_weights(struct mla *s, struct tir_value block, struct tir_value p)
{
    const struct tir_layout map = weights_map(s);
    tir_tile_lds_store(&s->d.b, weights_at(s, block), p, &map);
}

struct tir_value mla_load_weights(struct mla *s, struct tir_value block)
{
    const struct tir_layout map = weights_map(s);
    return tir_tile_lds_load(&s->d.b, weights_at(s, block), s->type.weights, &map);
}

/* Returns the LDS address (i32) of the scales of P of block `block` (i32: index). */
static struct tir_value scales_at(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    return tir_add(b, s->lds.scales, att_times(b, mla_weights_slot(s, block), (int)scale_bytes(s)));
}

/* Returns the layout in registers in which waves store and load scales of P: one scale for each
 * column and part of the keys. */
static struct tir_layout scales_layout(const struct mla *s)
{
    const struct tir_layout *const all = tir_layout_of(s->d.b.f, s->type.scales);
    return mla_parts(s) == 1 ? tir_layout_slice(all, 0) : *all;
}

void mla_store_scales(struct mla *s, struct tir_value block, struct tir_value scales)
{
    const struct tir_layout l = scales_layout(s), map = tir_lane_major_once(&l, l.reg_bits);
    tir_tile_lds_store(&s->d.b, scales_at(s, block), mla_all_keys(s, scales), &map);
}

struct tir_value mla_load_scales(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout l = scales_layout(s), map = tir_lane_major_once(&l, l.reg_bits);
    const unsigned rows = mla_parts(s) == 1 ? 1 : s->type.scales.rows;
    const struct tir_type t = tir_tile(b->f, TIR_I8, rows, s->d.columns, &l);
    const struct tir_value own = tir_tile_lds_load(b, scales_at(s, block), t, &map);
    return mla_parts(s) == 1 ? tir_broadcast(b, own, s->type.scales) : own;
}

struct tir_value mla_find_high_scale(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned n = scale_bytes(s) / sizeof(int32_t);
    struct tir_spread l = tir_spread(s->d.m, 1);
    tir_spread_cols(&l, TIR_LANES, tir_bits(n));
    const struct tir_layout words = tir_spread_layout(&l), map = tir_row_major(1, n);
    const struct tir_type t = tir_tile(b->f, TIR_I32, 1, n, &words);
    const struct tir_value four = tir_tile_lds_load(b, scales_at(s, block), t, &map);
    const struct tir_value high = tir_and(b, four, tir_int_like(b, four, (int32_t)0x80808080));
    return tir_any(b, tir_cmp_ne(b, high, tir_int_like(b, high, 0)));
}

/* Returns the LDS address (i32) of the exchanged vector with number `n` (i32): VECTOR_M or
 * another. */
static struct tir_value vector_at(struct mla *s, struct tir_value n)
{
    struct tir_builder *const b = &s->d.b;
    return tir_add(b, s->lds.vectors, att_times(b, n, (int)vector_bytes(s)));
}

void mla_store_vector(struct mla *s, struct tir_value n, struct tir_value a)
{
    const struct tir_layout map = tir_row_major(1, tir_typeof(s->d.b.f, a).cols);
    tir_tile_lds_store(&s->d.b, vector_at(s, n), a, &map);
}

struct tir_value mla_load_vector(struct mla *s, struct tir_value n, unsigned part,
                                 struct tir_type t)
{
    const struct tir_layout map = tir_row_major(1, s->d.columns);
    const struct tir_value at = att_plus(&s->d.b, vector_at(s, n), (int)(part * part_bytes(s)));
    return tir_tile_lds_load(&s->d.b, at, t, &map);
}
