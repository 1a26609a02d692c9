/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode on machines whose tensor data mover copies blocks to LDS: with one wave per SIMD, and
 * with up to 16 columns. A wave copies an equal part of the rows of each block, which are in one
 * page. It needs the number of that page, a scalar, and an instruction for each part of the rows.
 * Rows after the item's last key become zeros.
 */
#include "ir/bits.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/scalar.h"

/* Returns the number of rows of a block that a wave copies. */
static unsigned own_rows(const struct mla *s) { return s->d.keys / s->d.waves; }

/* Returns the first key (i32) of the wave's rows of the current block. */
static struct tir_value own_key(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    return tir_add(b, mla_first_key(s, mla_block_of(s)), att_times(b, s->d.wave, (int)own_rows(s)));
}

/* Returns the LDS address (i32) of part p of block `block` (i32). */
static struct tir_value place_of(struct mla *s, const struct part *p, struct tir_value block)
{
    return s->source.moved ? mla_buffer_of(s, p, block) : mla_one_wave_place(s, p, block);
}

/* Loads the number of the page with the wave's rows. */
static void find_page(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.pages[0] = mla_one_wave_page(s, own_key(s));
}

/* Issues the copies of the wave's rows of the block to LDS, one for each part of the rows. */
static void move_rows(void *context)
{
    struct mla *const s = mla_of(context);
    struct tir_builder *const b = &s->d.b;
    const struct att_cache *const c = &s->d.k.c;
    const struct tir_value key = own_key(s), block = mla_block_of(s);
    const struct tir_value inside = att_page_place(&s->source.pages.paging, key);
    const struct tir_value row =
        tir_add(b, tir_mul(b, tir_zext(b, s->now.pages[0], TIR_I64), c->page_stride),
                tir_mul(b, tir_zext(b, inside, TIR_I64), c->token_stride));
    const struct tir_value left = tir_sub(b, s->d.item.end_key, key);
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        const struct part *const p = &s->source.part[i];
        const unsigned bytes = p->width * mla_kq_bytes(s), apart = p->lds.pad * mla_kq_bytes(s);
        const unsigned before = mla_tensor_rows_bytes(s, p, own_rows(s));
        const struct tir_value first = tir_i64(b, (int64_t)(p->first * mla_kq_bytes(s)));
        const struct tir_rows r = {.base = tir_add(b, tir_add(b, c->base, first), row),
                                   .stride = c->token_stride,
                                   .there = tir_max(b, left, tir_i32(b, 0)),
                                   .rows = own_rows(s),
                                   .bytes = bytes};
        const struct tir_value to =
            tir_add(b, place_of(s, p, block), att_times(b, s->d.wave, (int)before));
        tir_tensor_to_lds(b, GROUP, &r, to, bytes, apart);
    }
}

/* ---- Q ---- */

/* Stages of the prologue: in the first, Q is requested before the first block, in the second it is
 * read while that block is in flight. QUERY_PLACE: the block whose place in LDS has the first rows
 * of Q until then; the places before it are for the first blocks. */
enum { STAGE_REQUEST = 1, STAGE_READ = 3, QUERY_PLACE = 4 };

/* Returns the number of rows of Q, heads of a token, that a wave has as columns of S^T. */
static unsigned own_queries(const struct mla *s) { return s->d.columns / s->d.waves; }

/* Returns the LDS address (i32) of the wave's first row of part p of Q. */
static struct tir_value query_place(struct mla *s, const struct part *p)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned before = mla_tensor_rows_bytes(s, p, own_queries(s));
    const struct tir_value place = mla_one_wave_place(s, p, tir_i32(b, QUERY_PLACE));
    return tir_add(b, place, att_times(b, s->d.wave, (int)before));
}

/* Issues the copies of the wave's rows of Q to LDS. They are heads of one token. */
static void move_queries(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    struct split_kv *const d = &s->d;
    const unsigned bytes = mla_kq_bytes(s), own = own_queries(s);
    const struct tir_value row = tir_add(b, d->first_row, att_times(b, d->wave, (int)own));
    const struct tir_value token = tir_div(b, row, d->gqa);
    const struct tir_value head =
        tir_add(b, tir_sub(b, row, tir_mul(b, token, d->gqa)), tir_mul(b, d->item.kv_head, d->gqa));
    const struct tir_value stride = att_stride(b, ARG_Q_HEAD_STRIDE, (int)bytes);
    const struct tir_value from = tir_add(
        b, att_offset(b, tir_add(b, token, d->item.first_token), ARG_Q_TOKEN_STRIDE, (int)bytes),
        tir_mul(b, att_wide(b, head), stride));
    const struct tir_value left = tir_max(b, tir_sub(b, d->n_rows, row), tir_i32(b, 0));
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        const struct part *const p = &s->source.part[i];
        const struct tir_value first = tir_i64(b, (int64_t)(p->first * bytes));
        const struct tir_rows r = {.base = tir_add(b, att_at(b, ARG_Q, first), from),
                                   .stride = stride,
                                   .there = left,
                                   .rows = own,
                                   .bytes = p->width * bytes};
        tir_tensor_to_lds(b, QUERIES, &r, query_place(s, p), r.bytes, p->lds.pad * bytes);
    }
}

void mla_tensor_load_q(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    if (!s->d.v->gqa || s->d.v->gqa % (int)own_queries(s)) {
        mla_load_q(s, STAGE_READ);
        return;
    }
    b->stage = STAGE_REQUEST;
    move_queries(s);
    b->stage = STAGE_READ;
    tir_wait(b, QUERIES, 0);
    for (unsigned i = 0; i < s->query.n_panels; i++) {
        const struct panel *const n = &s->query.panel[i];
        const struct part *const p = mla_part_of(s, n);
        const struct tir_layout map = mla_one_wave_map(s, s->d.columns, p->width);
        const struct tir_value place = mla_one_wave_place(s, p, tir_i32(b, QUERY_PLACE));
        const int column = (int)((n->first - p->first) * mla_kq_bytes(s));
        s->query.q[i] =
            tir_named(b, "q", tir_tile_lds_load(b, att_plus(b, place, column), n->q, &map));
    }
    tir_wait(b, TIR_LDS_WRITES, 0); /* blocks will take the place of Q */
    b->stage = TIR_NO_STAGE;
}

/* ---- The product with c ---- */

/* Adds the product of c^T and the weights to O^T, with few rows of c^T in registers. */
static void multiply_values(void *context)
{
    struct mla *const s = mla_of(context);
    struct att_now *const now = &s->d.attention.now;
    struct tir_value *const o = &now->carried[ATT_CARRY_O];
    *o = tir_named(&s->d.b, "o", tir_mma_by_rows(&s->d.b, s->d.pv, now->v, now->weights.p16, *o));
}

/* Separates the iteration's last product from vector instructions of the next iteration, which may
 * write registers that it reads. */
static void settle(void *context)
{
    enum { GAP = 5 /* vector instructions: CDNA5 ISA, 7.12.1 */ };
    struct mla *const s = mla_of(context);
    tir_settle(&s->d.b, GAP);
}

const struct pipe_op mla_settle = {"settle", .build = settle, .reads = ATT_SLOT(O)};
const struct pipe_op mla_find_row_page = {"find pages", .build = find_page,
                                          .writes = ATT_SLOT(K_PAGES)};
const struct pipe_op mla_move_rows = {"block to LDS", .build = move_rows,
                                      .reads = ATT_SLOT(K_PAGES), .lds_writes = 1u << MLA_LDS_BLOCK,
                                      .flags = PIPE_ASYNC};
const struct pipe_op mla_moved_product = {"PV", multiply_values,
                                          ATT_SLOT(P16) | ATT_SLOT(V) | ATT_SLOT(O), ATT_SLOT(O),
                                          .flags = PIPE_PRODUCT};
