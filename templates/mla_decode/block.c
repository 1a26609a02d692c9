/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, pipelines whose waves share the scores of a block: the steps that bring a block of
 * the cache to LDS, multiply it with Q, and multiply P with it. weights.c has the steps between.
 *
 * A block passes through registers in one to three pieces. Its elements may be converted there, and
 * rows without a token are cleared. A piece has the same registers in each iteration, so a table
 * may not load a piece again before it is stored.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

struct tir_value mla_like(struct mla *s, struct tir_value scalar, struct tir_value v)
{
    return att_like(&s->d.b, scalar, v);
}

struct tir_value mla_first_key(void *family, struct tir_value block)
{
    struct mla *const s = family;
    return tir_add(&s->d.b, s->d.item.first_key, att_times(&s->d.b, block, (int)s->d.keys));
}

/* ---- Pieces in which a block passes through registers to LDS ---- */

/* Sets *layout to the layout in registers in which `width` columns of a block's latent pass to LDS:
 * 16 contiguous bytes per lane, or all that a lane has. A wave has at least two rows. LLVM would
 * move the page number of a single row to a scalar register and wait for it. Returns false if the
 * block has too few rows, or lanes would have less than 16 bytes of half of the latent. */
static bool transit_layout(const struct mla *s, unsigned width, struct tir_layout *layout)
{
    const unsigned cols = tir_bits(width), tokens = tir_bits(s->d.keys);
    const unsigned most = tir_bits(16 / s->d.kv_bytes),
                   all = cols + tokens - s->d.m->lane_bits - mla_wave_bits(s);
    const unsigned vector = most < all ? most : all;
    const unsigned widest = s->d.m->lane_bits - 1;
    const unsigned row = cols - vector < widest ? cols - vector : widest;
    const unsigned rows = s->d.m->lane_bits - row + mla_wave_bits(s);
    if (rows > tokens || (vector < most && width < s->d.value.width))
        return false;
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, vector);
    tir_spread_cols(&l, TIR_LANES, row);
    tir_spread_rows(&l, TIR_LANES, s->d.m->lane_bits - row);
    tir_spread_rows(&l, TIR_WAVES, mla_wave_bits(s));
    tir_spread_cols(&l, TIR_REGS, cols - vector - row);
    tir_spread_rows(&l, TIR_REGS, tokens - rows);
    *layout = tir_spread_layout(&l);
    return true;
}

/* True if the columns of a block's latent pass through registers to LDS in two halves. Then sets
 * *transit to the layout of one half in registers. */
static bool passes_in_halves(const struct mla *s, struct tir_layout *transit)
{
    return transit_layout(s, s->source.part->width / 2, transit);
}

/* Adds a piece to s->source: `width` columns of `part` from column `column` on. `c`: the cache.
 * `layout`: layout of the piece in registers; NULL: att_paged_tile() chooses the layout. */
static void add_piece(struct mla *s, struct part *part, const struct att_cache *c, unsigned column,
                      unsigned width, const struct tir_layout *layout)
{
    const unsigned first = s->d.k.c.packed ? column : part->first + column;
    s->source.piece[s->source.n_pieces++] = (struct piece){
        .part = part,
        .column = column,
        .paged = att_paged_tile(&s->d.b, c, s->d.keys, width, first, layout),
    };
}

void mla_find_pieces(struct mla *s)
{
    struct part *const latent = s->source.part, *const rotated = s->source.part + 1;
    const struct att_cache *const c = &s->d.k.c;
    struct tir_layout transit;
    s->source.n_pieces = 0;
    unsigned width = latent->width / 2;
    if (!passes_in_halves(s, &transit)) {
        width = latent->width;
        const bool fits = transit_layout(s, width, &transit);
        assert(fits);
        (void)fits;
    }
    for (unsigned first = 0; first < latent->width; first += width)
        add_piece(s, latent, c, first, width, &transit);
    if (mla_count_parts(s) == 1)
        return;
    const struct att_cache own = c->packed ? att_cache_rotated(c, s->d.dtype) : *c;
    add_piece(s, rotated, &own, 0, rotated->width, NULL);
}

uint32_t mla_piece_features(const struct mla *s)
{
    struct tir_layout transit;
    const bool halves = passes_in_halves(s, &transit), rotated = mla_count_parts(s) > 1;
    return (halves ? 1u << MLA_HAS_HALVES : 0) | (rotated ? 1u << MLA_HAS_ROTATED : 0) |
           (halves || rotated ? 1u << MLA_HAS_PIECES : 0);
}

/* ---- Steps from the cache to LDS ---- */

/* Returns the piece of a block for part `part` of a step. 0: the latent or its first half; 1: the
 * other half of the latent; 2: the rotated key. */
static struct piece *piece_of(struct mla *s, unsigned part)
{
    return &s->source.piece[part == 2 ? s->source.n_pieces - 1u : part];
}

/* Returns the index (i32) of the first key of the block to load. If blocks are loaded an iteration
 * early, the last iteration has no next block to load. It loads the last block again, whose rows
 * are in the caches. */
static struct tir_value key_to_load(struct mla *s)
{
    const struct tir_value block = mla_block_of(s);
    return mla_first_key(s, s->source.lead ? tir_min(&s->d.b, block, s->last_block) : block);
}

/* Loads the page number of each row of piece `part` (index of piece_of()). Pipelines place this
 * step before the loads of all pieces. vmcnt counts in order, so a wait for page numbers that were
 * loaded after a piece would wait for that piece too. */
static void find_pages(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct piece *const p = piece_of(s, part);
    p->pages = att_page_numbers(&s->d.b, &s->source.pages, &p->paged, key_to_load(s));
}

/* Issues the loads of piece `part` (index of piece_of()) of a block to registers. */
static void load_piece(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct piece *const p = piece_of(s, part);
    if (part == 1)
        p->pages = s->source.piece->pages;
    p->fetched = att_paged_load(&s->d.b, &s->source.pages, &p->paged, key_to_load(s), p->pages);
}

/* Loads the bytes of the custom mask for a block. */
static void load_mask(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.block.mask = att_load_mask(&s->d.attention, key_to_load(s));
}

/* Returns `c`, the elements of piece p, with zeros in rows after the sequence's last token and in
 * rows without a list entry. Such a row may contain NaN, and 0, the row's weight P, times NaN is
 * NaN. */
static struct tir_value clear_tail(struct mla *s, const struct piece *p, struct tir_value c)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type type = tir_typeof(b->f, c);
    const struct tir_value left = tir_sub(b, s->d.item.kv_len, mla_first_key(s, mla_block_of(s)));
    struct tir_value edge = tir_cmp_lt(b, left, tir_i32(b, (int)s->d.keys));
    if (s->source.pages.slots)
        edge = tir_or(b, edge, att_has_gaps(b, p->pages));
    struct tir_if branch = tir_begin_if(b, edge, true, &type, 1);
    const struct tir_type t = tir_with_dtype(type, TIR_I32);
    const struct tir_value row = tir_row_index(b, t);
    struct tir_value there = tir_cmp_lt(b, row, mla_like(s, left, row));
    if (s->source.pages.slots) {
        const struct tir_value entry = att_paged_entries(b, &p->paged, p->pages);
        there = tir_and(b, there, tir_cmp_ge(b, entry, tir_int_like(b, entry, 0)));
    }
    const struct tir_value cleared = tir_select(b, there, c, tir_float_like(b, c, 0.0f));
    tir_else(b, &branch, &cleared);
    tir_end_if(b, &branch, &c);
    return c;
}

/* Stores piece `part` (index of piece_of()) of a block to LDS, converted to the element type of
 * rows in LDS. Rows of the latent without a token become zeros. */
static void store_piece(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct piece *const p = piece_of(s, part);
    struct tir_value x = att_paged_elements(b, &p->paged, p->fetched, s->number.kq);
    if (p->part == s->source.part)
        x = clear_tail(s, p, x);
    const struct tir_value at = mla_buffer_of(s, p->part, mla_block_of(s));
    tir_tile_lds_store(b, att_plus(b, at, (int)(p->column * mla_kq_bytes(s))), x, &p->part->lds);
}

/* Stores a block's entries of the sparse list to LDS, one per token. find_pages() has loaded these
 * entries for the last piece. */
static void store_entries(void *context)
{
    struct mla *const s = mla_of(context);
    mla_store_entries(s, mla_block_of(s), s->source.piece[s->source.n_pieces - 1].pages);
}

/* Reads the block's entries of the sparse list from LDS. The mask hides keys whose entry is
 * negative. */
static void read_entries(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.block.entries = mla_load_entries(s, mla_block_of(s));
}

/* ---- Steps that read K and Q, and compute S^T = K Q^T ---- */

struct tir_value mla_read_panel(struct mla *s, const struct panel *panel)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = mla_part_of(s, panel);
    const struct tir_layout l = tir_mma_left(mla_qk(s, panel), s->d.keys, &panel->k, mla_split(s));
    const struct tir_type t = tir_tile(b->f, s->number.kq, s->d.keys, panel->width, &l);
    const struct tir_value column = mla_own_first(s, panel, mla_kq_bytes(s));
    const struct tir_value first = att_plus(b, column, -(int)(p->first * mla_kq_bytes(s)));
    const struct tir_value at = tir_add(b, mla_buffer_of(s, p, mla_block_of(s)), first);
    return tir_tile_lds_load(b, at, t, &p->lds);
}

/* Reads the first mla_early_panels() panels of K from LDS, where their columns arrive before the
 * rest of the block. */
static void read_early(void *context)
{
    struct mla *const s = mla_of(context);
    for (unsigned i = 0; i < mla_early_panels(s); i++)
        s->now.k[i] = s->form->read_panel(s, &s->query.panel[i]);
}

/* Reads panels of K from LDS: the first mla_form.first_panels (part 0), or all others (part 1). */
static void read_k(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    const unsigned first = s->form->first_panels, end = part ? s->query.n_panels : first;
    for (unsigned i = part ? first : 0; i < end; i++)
        s->now.k[i] = s->form->read_panel(s, &s->query.panel[i]);
}

/* Returns panel n of Q^T, the right operand of S^T = K Q^T, from registers or LDS. */
static struct tir_value query_panel(struct mla *s, unsigned n)
{
    const struct panel *const p = &s->query.panel[n];
    const struct tir_layout map = mla_query_map(s, p);
    struct tir_value at, q = s->query.q[n];
    if (mla_find_query(s, n, &at))
        q = tir_tile_lds_load(&s->d.b, at, p->q, &map);
    return tir_transpose(&s->d.b, q);
}

/* Returns panel n of K for K Q^T: the result of an earlier step, or else a read from LDS. */
static struct tir_value key_panel(struct mla *s, unsigned n)
{
    return s->now.k[n].id ? s->now.k[n] : s->form->read_panel(s, &s->query.panel[n]);
}

/* Computes S^T = K Q^T over all panels. If waves split the columns of K, the result is the wave's
 * part of the sum. */
static void multiply_keys(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    struct tir_value x = tir_splat(b, tir_f32(b, 0.0f), s->type.product);
    for (unsigned i = 0; i < s->query.n_panels; i++)
        x = tir_mma(b, s->query.panel[i].product, key_panel(s, i), query_panel(s, i), x);
    s->d.attention.now.s = s->split.depth ? x : tir_named(b, "s", x);
}

/* ---- Steps that read c, and compute O^T += c^T P^T ---- */

/* Reads the block's latent c (keys x latent) from LDS, in the layout of mla_types.v_loaded. */
static void read_c(void *context)
{
    struct mla *const s = mla_of(context);
    s->d.attention.now.v =
        tir_tile_lds_load(&s->d.b, mla_buffer_of(s, s->source.part, mla_block_of(s)),
                          s->type.v_loaded, &s->source.part->lds);
}

/* Converts the latent c from the layout of its LDS read to c^T, the left operand of O^T += c^T
 * P^T. */
static void transpose_c(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const v = &s->d.attention.now.v;
    const struct tir_layout operand = mla_values_operand(s);
    *v = tir_transpose(&s->d.b, tir_relayout(&s->d.b, *v, &operand));
}

/* Adds the block's product with V to the output: O^T += c^T P^T. */
static void product(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O];
    *o = tir_named(b, "o", tir_mma(b, s->d.pv, now->v, now->weights.p16, *o));
}

#define BLOCK_LDS (1u << MLA_LDS_BLOCK)
#define ENTRIES_LDS (1u << MLA_LDS_ENTRIES)
#define FIRST_LDS (1u << MLA_LDS_FIRST_PIECE)

const struct pipe_op mla_find_piece = {"find pages", .build_part = find_pages,
                                       .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_load_piece = {"load", .build_part = load_piece, .reads = ATT_SLOT(K_PAGES),
                                       .writes = ATT_SLOT(K_DATA)};
const struct pipe_op mla_load_mask = {"load mask", .build = load_mask, .writes = ATT_SLOT(MASK)};
const struct pipe_op mla_store_piece = {"block to LDS", .build_part = store_piece,
                                        .reads = ATT_SLOT(K_DATA), .lds_writes = BLOCK_LDS,
                                        .flags = PIPE_BRANCH};
const struct pipe_op mla_store_first = {"block to LDS", .build_part = store_piece,
                                        .reads = ATT_SLOT(K_DATA),
                                        .lds_writes = BLOCK_LDS | FIRST_LDS, .flags = PIPE_BRANCH};
const struct pipe_op mla_store_list = {"entries to LDS", .build = store_entries,
                                       .reads = ATT_SLOT(K_PAGES), .lds_writes = ENTRIES_LDS};
const struct pipe_op mla_read_list = {"read entries", .build = read_entries,
                                      .writes = ATT_SLOT(MASK), .lds_reads = ENTRIES_LDS};
const struct pipe_op mla_read_early = {"read K", .build = read_early, .writes = ATT_SLOT(K),
                                       .lds_reads = FIRST_LDS};
const struct pipe_op mla_multiply_keys = {"QK", .build = multiply_keys, .writes = ATT_SLOT(S),
                                          .lds_reads = BLOCK_LDS, .flags = PIPE_PRODUCT};
const struct pipe_op mla_multiply_early = {
    "QK", multiply_keys, ATT_SLOT(K), ATT_SLOT(S), .lds_reads = BLOCK_LDS, .flags = PIPE_PRODUCT};
const struct pipe_op mla_read_k = {"read K", .build_part = read_k, .writes = ATT_SLOT(K),
                                   .lds_reads = BLOCK_LDS};
const struct pipe_op mla_read_k_in_halves = {"read K", .build_part = read_k, .writes = ATT_SLOT(K),
                                             .lds_reads = 1u << MLA_LDS_FIRST | 1u << MLA_LDS_LAST};
const struct pipe_op mla_product_qk = {"QK", multiply_keys, ATT_SLOT(K), ATT_SLOT(S),
                                       .flags = PIPE_PRODUCT};
const struct pipe_op mla_load_c = {"read c", .build = read_c, .writes = ATT_SLOT(V),
                                   .lds_reads = BLOCK_LDS};
const struct pipe_op mla_transpose_c = {"transpose c", transpose_c, ATT_SLOT(V), ATT_SLOT(V),
                                        .flags = 0};
const struct pipe_op mla_product = {"PV", product, ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O),
                                    ATT_SLOT(O), .flags = PIPE_PRODUCT};
