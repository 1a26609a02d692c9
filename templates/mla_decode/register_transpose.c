/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode with one wave per SIMD (one_wave.c) on targets such as gfx942, which transpose c in
 * registers. These targets have 64 KiB of LDS, copies to LDS of 4 bytes per lane, and no LDS reads
 * that transpose.
 *
 * LDS has three blocks: one in the product with P, the next in the product with Q, and one whose
 * copy is in flight. At the barrier of an iteration, that copy has arrived and the first block is
 * in registers. A quarter of the first block's product is left then, and the first columns of the
 * next K are read beside it. The other quarters fill the time in which the matrix unit would wait
 * for scores or the softmax.
 *
 * If each block is read once (feature MLA_HAS_STREAMS), HBM limits the loop and must have copies in
 * flight at the barrier. A second barrier after the first quarter allows copies of half of the
 * columns from phase C3 on. S^T uses the MFMA of 16 rows and O^T the one of 32 columns, so P is
 * moved to other lanes.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/workgroup/lds_map.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/mla_decode/register_transpose.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    BLOCKS = 3,
    QUARTERS = MLA_QUARTERS,
    /* Elements of padding after a row of the latent in LDS. */
    CHUNK = 16
};

bool mla_transpose_takes(const struct tir_machine *m) { return !att_transposes_8_bytes(m); }

/* ---- Layouts of scores, weights and O in registers, and LDS maps ---- */

/* The order in which c^T P^T sums over a block's keys. Keys that a lane has in its registers of S^T
 * stay in that lane. */
static const struct tir_contraction keys_of_lanes = {3, 1, {1, 2, 4}, {8}};

struct tir_layout mla_transpose_columns(const struct tir_layout *l)
{
    static const uint8_t column[] = {2, 3, 4, 5, 6, 0, 1, 7, 8};
    return tir_layout_permute_rows(l, column);
}

void mla_transpose_add_panels(struct mla *s)
{
    const struct tir_contraction k =
        tir_contract_rows(&s->d.m->mma[s->d.qk], PANEL, 16 / mla_kq_bytes(s));
    mla_add_panels(s, s->d.qk, &k);
}

/* Sets the types of scores, weights and O^T in s->type and s->d, and the panels of K:
 * mla_form.choose_layouts. */
static void choose_layouts(struct mla *s)
{
    struct split_kv *const d = &s->d;
    const struct tir_waves waves = mla_own_waves(s);
    const struct tir_layout scores = tir_mma_result(&d->m->mma[d->qk], d->keys, d->columns, waves);
    const struct tir_layout plain = tir_mma_result(mla_pv(s), d->value.width, d->columns, waves);
    const struct tir_layout o = mla_transpose_columns(&plain);
    const struct tir_layout right = tir_mma_right(mla_pv(s), d->columns, &keys_of_lanes, waves);
    const struct tir_layout weights = tir_layout_transpose(&right);
    mla_transpose_add_panels(s);
    d->scores = tir_tile(d->b.f, TIR_F32, d->keys, d->columns, &scores);
    s->type.product = d->scores;
    d->output = tir_tile(d->b.f, TIR_F32, d->value.width, d->columns, &o);
    s->type.weights = tir_tile(d->b.f, s->number.p, d->keys, d->columns, &weights);
}

/* Returns the LDS map of `rows` rows and `cols` columns of a part of a block, whose rows have
 * `width` columns. Rows of the latent are apart by a multiple of all banks plus 32 bytes. A read of
 * 16 bytes of 16 rows of K then uses every bank once. Rows of the rotated key are copied two at a
 * time, so the map swizzles their chunks instead. */
static struct tir_layout block_map(const struct mla *s, unsigned rows, unsigned cols,
                                   unsigned width)
{
    if (width == PANEL)
        return att_lds_swizzled(rows, PANEL, CHUNK, mla_kq_bytes(s) == 1, 2);
    struct tir_layout map = tir_row_major(rows, cols);
    tir_map_pad(&map, cols, width - cols + CHUNK);
    return map;
}

void mla_transpose_take_lds(struct mla *s)
{
    struct split_kv *const d = &s->d;
    unsigned bytes = 0;
    s->lds.blocks = BLOCKS;
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        struct part *const p = &s->source.part[i];
        p->lds = block_map(s, d->keys, p->width, p->width);
        p->before = bytes;
        bytes += (att_lds_bytes(&p->lds, mla_kq_bytes(s)) + 31) & ~31u;
    }
    s->source.part->bytes = bytes;
    s->source.part->buffer = tir_lds_buffer(&d->b, BLOCKS * bytes, 16);
}

/* ---- A block of keys: its addresses, its copies and reads of K ---- */

/* Returns n * stride (i64, bytes), for a number n (i32) of pages or rows. Strides are below 4 GiB,
 * which libattn checks. A product of two values whose upper 32 bits are known to be 0 takes two
 * instructions; another 64-bit product takes four. */
static struct tir_value bytes_of(struct mla *s, struct tir_value n, struct tir_value stride)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value wide = tir_zext(b, n, TIR_I64);
    if (!mla_weights_fp8(s))
        return tir_mul(b, wide, stride);
    return tir_mul(b, wide, tir_zext(b, tir_convert(b, stride, TIR_I32), TIR_I64));
}

/* Returns the addresses of block `block` (i32: index) in memory and in LDS, and its number of rows.
 * `page` (i32): number of the page that has all rows of the block. */
static struct mla_flight find_block(struct mla *s, struct tir_value block, struct tir_value page)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_cache *const c = &s->d.k.c;
    const struct tir_value key = mla_first_key(s, block);
    const struct tir_value inside = att_page_place(&s->source.pages.paging, key);
    const struct tir_value row =
        tir_add(b, bytes_of(s, page, c->page_stride), bytes_of(s, inside, c->token_stride));
    const struct tir_value left = tir_sub(b, s->d.item.end_key, key);
    return (struct mla_flight){mla_buffer_of(s, s->source.part, block), tir_add(b, c->base, row),
                               tir_min(b, left, tir_i32(b, (int)s->d.keys))};
}

void mla_transpose_copy(struct mla *s, const struct mla_flight *f, struct mla_copy_piece c,
                        int group)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = c.part;
    const struct tir_view v =
        att_view(b, f->from, f->there, s->source.row_stride, (int)(s->d.k.width * mla_kq_bytes(s)),
                 (int)((p->first + c.col) * mla_kq_bytes(s)));
    const struct tir_layout map = block_map(s, c.rows, c.cols, p->width);
    const unsigned first = tir_lds_address(&p->lds, c.row * p->width + c.col, mla_kq_bytes(s));
    /* Only the map decides which lane copies what; the layout of `any` has no effect. */
    const struct tir_layout any = *tir_layout_of(b->f, s->d.scores);
    struct tir_type t = tir_tile(b->f, s->number.kq, s->d.keys, s->d.columns, &any);
    t.rows = (uint16_t)c.rows;
    t.cols = (uint16_t)c.cols;
    tir_copy_to_lds(b, group, v, tir_i32(b, (int)c.row),
                    att_plus(b, f->place, (int)(p->before + first)), t, &map);
}

struct tir_value mla_transpose_read_panel(struct mla *s, const struct panel *n)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = mla_part_of(s, n);
    const struct tir_layout l =
        tir_mma_left(&s->d.m->mma[n->product], s->d.keys, &n->k, mla_own_waves(s));
    const struct tir_type t = tir_tile(b->f, s->number.kq, s->d.keys, n->width, &l);
    const unsigned from = p->before + (n->first - p->first) * mla_kq_bytes(s);
    return tir_tile_lds_load(b, att_plus(b, s->now.flight.place, (int)from), t, &p->lds);
}

/* ---- The steps of the loop, for weights of 16 bits ---- */

/* Loads the block's page number as a scalar. */
static void find_page(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.pages[0] = mla_one_wave_page(s, mla_first_key(s, mla_block_of(s)));
}

/* Computes the addresses of the block's rows in memory and in LDS from its page number. */
static void find_rows(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.flight = find_block(s, mla_block_of(s), s->now.pages[0]);
}

/* Issues the copy to LDS of half `part` (0 or 1) of the block's latents, by rows. */
static void copy_rows(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    const struct part *const latent = s->source.part;
    const unsigned half = s->d.keys / 2;
    mla_transpose_copy(s, &s->now.flight,
                       (struct mla_copy_piece){latent, part * half, half, 0, latent->width},
                       MLA_COPIES_LAST);
}

/* Issues the copy to LDS of half `part` (0 or 1) of the columns of the block's latents. */
static void copy_columns(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    const struct part *const latent = s->source.part;
    const unsigned cols = latent->width / 2;
    mla_transpose_copy(s, &s->now.flight,
                       (struct mla_copy_piece){latent, 0, s->d.keys, part * cols, cols},
                       part ? MLA_COPIES_LAST : MLA_COPIES_FIRST);
}

/* Issues the copy to LDS of the block's rotated keys. */
static void copy_rotated(void *context)
{
    struct mla *const s = mla_of(context);
    const struct part *const rotated = s->source.part + 1;
    mla_transpose_copy(s, &s->now.flight,
                       (struct mla_copy_piece){rotated, 0, s->d.keys, 0, rotated->width},
                       MLA_COPIES_LAST);
}

/* Raises m to the largest score in columns where that exceeds m, if the rescale check has found
 * one. Sets alpha, the factor of O and l. */
static void update_max(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_softmax *const softmax = &s->d.attention.softmax;
    struct att_now *const now = &s->d.attention.now;
    struct tir_value *const m = &now->carried[ATT_CARRY_M];
    const struct tir_type t[] = {softmax->vector, softmax->vector};
    struct tir_if branch = tir_begin_if(b, now->step.grown, true, t, 2);
    const struct tir_value next = att_softmax_next(b, softmax, now->s, *m);
    tir_else(b, &branch, (struct tir_value[]){next, tir_exp2(b, tir_sub(b, *m, next))});
    struct tir_value both[] = {*m, tir_splat(b, tir_f32(b, 1.0f), softmax->vector)};
    tir_end_if(b, &branch, both);
    *m = tir_named(b, "m", both[0]);
    now->step.alpha = both[1];
}

/* Moves the rounded weights to the lanes of the right operand of c^T P^T. */
static void order_weights(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const p = &s->d.attention.now.weights.p16;
    *p = tir_relayout(&s->d.b, *p, tir_layout_of(s->d.b.f, s->type.weights));
}

/* Returns the layout of a quarter of the latent's columns in registers, [keys x columns]; its
 * transpose is the left operand of c^T P^T. */
static struct tir_layout quarter_layout(const struct mla *s)
{
    const struct tir_layout plain =
        tir_mma_left(mla_pv(s), s->d.value.width / QUARTERS, &keys_of_lanes, mla_own_waves(s));
    const struct tir_layout a = mla_transpose_columns(&plain);
    return tir_layout_transpose(&a);
}

/* Reads quarter `part` (0 to 3) of the latent's columns from LDS, in the layout of its rows. */
static void read_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const unsigned width = s->d.value.width / QUARTERS, bytes = width * mla_kq_bytes(s);
    const struct tir_layout l = quarter_layout(s), along = tir_layout_regs_first(&l, TIR_RC(0, 3));
    const struct tir_type t = tir_tile(b->f, s->number.kq, s->d.keys, width, &along);
    const struct tir_value from = att_plus(b, s->now.flight.place, (int)(part * bytes));
    s->now.quarter[part] = tir_tile_lds_load(b, from, t, &s->source.part->lds);
}

/* Converts quarter `part` (0 to 3) of the latent's columns to the left operand of c^T P^T. Lanes
 * exchange elements between registers. */
static void transpose_c(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    struct tir_value *const c = &s->now.quarter[part];
    const struct tir_layout l = quarter_layout(s);
    *c = tir_transpose(&s->d.b, tir_relayout(&s->d.b, *c, &l));
}

/* Adds quarter i (0 to 3) of c^T, times P^T, to the same quarter of O^T. The last quarter's step
 * joins all quarters into O^T. */
static void product(void *context, unsigned i)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O], *const part = s->now.quarter;
    part[i] = tir_mma_in_agprs(b, s->d.pv, part[i], now->weights.p16, att_part(b, *o, i, QUARTERS));
    if (i + 1 == QUARTERS)
        *o = tir_named(b, "o", mla_join_quarters(b, part));
}

#define FIRST (1u << MLA_LDS_FIRST)
#define LAST (1u << MLA_LDS_LAST)
/* Register slot (enum att_register) of the first quarter of c^T in steps that work on quarters.
 * Each further quarter has the next slot. */
#define QUARTER ATT_SLOT(QUARTERS)
const struct pipe_op mla_transpose_find_page = {"find page", .build = find_page,
                                                .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_transpose_find_block = {"find rows", find_rows, ATT_SLOT(K_PAGES),
                                                 ATT_SLOT(K_DATA), .flags = 0};
const struct pipe_op mla_transpose_copy_rows = {"rows to LDS", .build_part = copy_rows,
                                                .reads = ATT_SLOT(K_DATA),
                                                .lds_writes = FIRST | LAST, .flags = PIPE_ASYNC};
const struct pipe_op mla_transpose_copy_first = {"columns to LDS", .build_part = copy_columns,
                                                 .reads = ATT_SLOT(K_DATA), .lds_writes = FIRST,
                                                 .flags = PIPE_ASYNC};
const struct pipe_op mla_transpose_copy_last = {"columns to LDS", .build_part = copy_columns,
                                                .reads = ATT_SLOT(K_DATA), .lds_writes = LAST,
                                                .flags = PIPE_ASYNC};
const struct pipe_op mla_transpose_copy_rotated = {"k_pe to LDS", .build = copy_rotated,
                                                   .reads = ATT_SLOT(K_DATA), .lds_writes = LAST,
                                                   .flags = PIPE_ASYNC};
const struct pipe_op mla_transpose_follow = {"max", update_max,
                                             ATT_SLOT(S) | ATT_SLOT(M) | ATT_SLOT(GROWN),
                                             ATT_SLOT(M) | ATT_SLOT(GROWN), .flags = PIPE_BRANCH};
const struct pipe_op mla_transpose_order_p = {"order P", order_weights, ATT_SLOT(P16),
                                              ATT_SLOT(P16), .flags = 0};
const struct pipe_op mla_transpose_read_first = {"read c", .build_part = read_c,
                                                 .writes_part = QUARTER, .lds_reads = FIRST};
const struct pipe_op mla_transpose_read_last = {"read c", .build_part = read_c,
                                                .writes_part = QUARTER, .lds_reads = LAST};
const struct pipe_op mla_transpose_quarter = {"transpose c", .build_part = transpose_c,
                                              .reads_part = QUARTER, .writes_part = QUARTER};
const struct pipe_op mla_transpose_product_pv = {"PV",
                                                 .build_part = product,
                                                 .reads = ATT_SLOT(P16) | ATT_SLOT(O),
                                                 .reads_part = QUARTER,
                                                 .writes = ATT_SLOT(O),
                                                 .flags = PIPE_PRODUCT};

/* Sets s->plan to the kernel's pipeline. Asserts that LDS has room for its buffers. */
static void choose_pipeline(struct mla *s)
{
    const bool lists = s->d.v->sparse != ATT_SPARSE_NONE;
    struct pipe_variant v = {.has = lists || mla_reads_once(s) ? 1u << MLA_HAS_STREAMS : 0};
    if (mla_count_parts(s) > 1)
        v.has |= 1u << MLA_HAS_ROTATED;
    pipe_choose(lists ? &mla_register_transpose_lists : &mla_register_transpose, &v, &s->plan);
    assert(s->plan.depth[MLA_LDS_FIRST] <= BLOCKS && s->plan.depth[MLA_LDS_LAST] == BLOCKS);
}

/* Allocates LDS for blocks and list entries, and chooses the pipeline: mla_form.take_lds. */
static void take_lds(struct mla *s)
{
    mla_transpose_take_lds(s);
    if (s->d.v->sparse != ATT_SPARSE_NONE)
        mla_gather_take_lds(s);
    choose_pipeline(s);
}

void mla_transpose_begin_pass(struct mla *s)
{
    s->d.attention.dtype = s->number.p;
    s->d.attention.entries = mla_gather_entries;
    /* Computed before the loop: inside, the instructions for the stride would separate instructions
     * that the schedule keeps adjacent. */
    const struct tir_value stride = tir_convert(&s->d.b, s->d.k.c.token_stride, TIR_I32);
    s->source.row_stride = tir_materialize(&s->d.b, stride);
}

void mla_transpose_load_q(struct mla *s) { mla_load_q(s, MLA_STAGE_ARRIVES); }

/* Waits for all waves at the end of an item, and converts m and l to the lanes of O^T:
 * mla_form.join. */
static void join(struct mla *s, struct split_kv_state *state)
{
    tir_barrier(&s->d.b); /* LDS is free for the next item */
    state->m = mla_beside_output(s, state->m);
    state->l = mla_beside_output(s, state->l);
}

const struct mla_form mla_transpose_form = {
    .choose_layouts = choose_layouts,
    .take_lds = take_lds,
    .begin_pass = mla_transpose_begin_pass,
    .load_q = mla_transpose_load_q,
    .read_panel = mla_transpose_read_panel,
    .copies = &mla_columns_of_rows,
    .first_panels = 1,
    .walk = mla_walk,
    .join = join,
    .pass = mla_walk_and_store,
};
