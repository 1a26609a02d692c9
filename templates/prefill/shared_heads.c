/* SPDX-License-Identifier: Apache-2.0
 *
 * Work tiles with several heads of a KV head, for windows and chunks without a plan. Each wave
 * has a wave tile: some tokens of one head. Wave tiles of a KV head are numbered with heads inner,
 * and a work tile has as many successive ones as waves. With 8 heads and 256 rows the work tile has
 * 32 tokens, whose windows cover 31 keys more than one window; 256 tokens of one head cover 255
 * more. With 5 heads a work tile has wave tiles of two or three times 32 tokens. Its first wave
 * tile may be of any head. All waves also meet the ends of their windows in nearly the same
 * iterations.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

bool prefill_shares_heads(const struct prefill *p)
{
    const bool plain = !p->v->planned && prefill_groups(p) == 1;
    if (!att_hides_early(p->v) || !plain || p->tile->own[PREFILL_SIDE])
        return false;
    /* The gather of Q reads whole panels, so these may have no columns after the last one of Q. */
    for (unsigned i = 0; i < p->k.n_panels; i++)
        if (prefill_valid(p, &p->k.panels[i]) < p->k.panels[i].width)
            return false;
    return true;
}

/* Log2 of the numerator of work.reciprocal. 28 bits make divide() exact for numbers below the ratio
 * plus 7 (a head plus a wave's index), up to a ratio of 16,384. Lookups refuse more. The products
 * have 31 bits. */
enum { RECIPROCAL_BITS = 28 };

/* Returns n / work.gqa, rounded down (i32). */
static struct tir_value divide(struct prefill *p, struct tir_value n)
{
    struct tir_builder *const b = &p->b;
    return tir_shr(b, tir_mul(b, n, p->work.reciprocal), tir_i32(b, RECIPROCAL_BITS));
}

/* Returns the number of KV heads (i32): query heads divided by the GQA ratio. Query heads have 16
 * bits, so a reciprocal with numerator 2^16 keeps the product within 32 bits. It may be 1 too
 * large; the quotient is exact, since query heads are a multiple of the ratio. */
static struct tir_value count_kv_heads(struct prefill *p)
{
    enum { HEADS_BITS = 16 };
    struct tir_builder *const b = &p->b;
    const struct tir_value less = tir_i32(b, RECIPROCAL_BITS - HEADS_BITS);
    const struct tir_value reciprocal = att_plus(b, tir_shr(b, p->work.reciprocal, less), 1);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    return tir_shr(b, tir_mul(b, heads, reciprocal), tir_i32(b, HEADS_BITS));
}

void prefill_find_heads(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!prefill_shares_heads(p))
        return;
    const struct tir_value gqa = p->v->gqa ? tir_i32(b, p->v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    p->work.gqa = gqa;
    p->work.reciprocal = tir_div(b, att_plus(b, gqa, (1 << RECIPROCAL_BITS) - 1), gqa);
    p->work.kv_heads = count_kv_heads(p);
}

struct tir_value prefill_count_wave_tiles(struct prefill *p, struct tir_value tokens)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value up = att_plus(b, tokens, (int)p->tile->rows - 1);
    return tir_mul(b, tir_shr(b, up, tir_i32(b, (int)tir_bits(p->tile->rows))), p->work.gqa);
}

void prefill_find_wave_tiles(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value first = att_times(b, tile, (int)p->tile->waves);
    const struct tir_value steps = tir_div(b, first, p->work.gqa);
    p->work.head = tir_sub(b, first, tir_mul(b, steps, p->work.gqa));
    p->work.row0 = att_times(b, steps, (int)p->tile->rows);
}

/* Emits the number of tokens, divided by tile->rows, from the work tile's first wave tile to its
 * wave tile `n`. Both are i32, and `n` counts from 0. Wave tiles of the same tokens have distance
 * 0. */
static struct tir_value steps_before(struct prefill *p, struct tir_value n)
{
    return divide(p, tir_add(&p->b, p->work.head, n));
}

struct tir_value prefill_tile_tokens(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!p->work.gqa.id)
        return tir_i32(b, (int)prefill_queries(p));
    const struct tir_value last = steps_before(p, tir_i32(b, (int)p->tile->waves - 1));
    return att_times(b, att_plus(b, last, 1), (int)p->tile->rows);
}

struct tir_value prefill_own_head(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!p->work.gqa.id)
        return p->work.head;
    const struct tir_value wave = tir_wave_id(b);
    const struct tir_value past = tir_sub(b, p->work.kv_head, steps_before(p, wave));
    return tir_add(b, tir_mul(b, past, p->work.gqa), tir_add(b, p->work.head, wave));
}

struct tir_value prefill_first_row(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!p->work.gqa.id)
        return p->work.row0;
    const struct tir_value wave = tir_wave_id(b), steps = steps_before(p, wave);
    return tir_add(b, p->work.row0, att_times(b, tir_sub(b, steps, wave), (int)p->tile->rows));
}

struct tir_value prefill_rows_left(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    return tir_min(b, tir_sub(b, p->work.q_len, prefill_first_row(p)),
                   tir_i32(b, (int)prefill_queries(p)));
}

void prefill_copy_own_q(struct prefill *p, const struct prefill_panel *n)
{
    struct tir_builder *const b = &p->b;
    const unsigned rows = (unsigned)p->tile->rows, bytes = prefill_bytes(p);
    const struct tir_layout all = prefill_q_lds(p, n),
                            map = att_lds_rows(p->m, rows, n->width, bytes);
    const struct tir_layout l = tir_map_lanes(&map, p->m, p->tile->waves, bytes);
    const struct tir_layout slice = tir_layout_slice(&l, 1);
    const struct tir_value index = tir_row_index(b, tir_tile(b->f, TIR_I32, rows, 1, &slice));
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value token =
        tir_add(b, prefill_first_row(p), att_times(b, tir_wave_id(b), (int)rows));
    const struct tir_value last =
        tir_max(b, att_plus(b, tir_sub(b, p->work.q_len, token), -1), tir_i32(b, 0));
    struct tir_value stride = att_stride32(b, ARG_Q_TOKEN_STRIDE, (int)bytes);
    if (prefill_fetches_ahead(p))
        stride = tir_materialize(b, stride);
    const struct tir_value at =
        tir_mul(b, tir_min(b, index, tir_splat(b, last, t)), tir_splat(b, stride, t));
    const struct tir_value from = prefill_head_base(
        p, ATT_HEADS(Q),
        tir_add(b, p->work.q_begin, tir_min(b, token, att_plus(b, p->work.q_len, -1))),
        prefill_own_head(p), bytes);
    const unsigned of_wave = tir_lds_address(&all, rows * n->width, bytes);
    const struct tir_value to =
        tir_add(b, prefill_q_buffer(p, n), att_times(b, tir_wave_id(b), (int)of_wave));
    tir_gather_to_lds(b, PREFILL_COPIES_OF_Q, from, at, tir_i32(b, (int)(n->first * bytes)), to, 0,
                      tir_tile(b->f, p->shape.dtype, rows, n->width, &l), &map);
}
