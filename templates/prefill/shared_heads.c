/* SPDX-License-Identifier: Apache-2.0
 *
 * Work tiles with several heads of a KV head, for windows and chunks without a plan. Each wave
 * has the queries of one head. With 8 heads and 256 rows the tile has 32 tokens, whose windows
 * cover 31 keys more than one window; 256 tokens of one head cover 255 more. All waves then also
 * meet the ends of their windows in the same iterations.
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

void prefill_find_heads(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!prefill_shares_heads(p))
        return;
    const struct tir_value gqa = p->v->gqa ? tir_i32(b, p->v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    struct tir_value bits = tir_i32(b, (int)tir_bits(p->tile->waves));
    for (int i = (int)tir_bits(p->tile->waves) - 1; i >= 0; i--) {
        const struct tir_value odd = tir_and(b, gqa, tir_i32(b, 1 << i));
        bits = tir_select(b, tir_cmp_ne(b, odd, tir_i32(b, 0)), tir_i32(b, i), bits);
    }
    p->work.head_bits = bits;
}

struct tir_value prefill_tile_tokens(struct prefill *p)
{
    const struct tir_value rows = tir_i32(&p->b, (int)prefill_queries(p));
    return p->work.head_bits.id ? tir_shr(&p->b, rows, p->work.head_bits) : rows;
}

struct tir_value prefill_own_head(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!p->work.head_bits.id)
        return p->work.head;
    const struct tir_value heads = tir_shl(b, tir_i32(b, 1), p->work.head_bits);
    return tir_add(b, p->work.head, tir_and(b, tir_wave_id(b), att_plus(b, heads, -1)));
}

struct tir_value prefill_first_row(struct prefill *p)
{
    struct tir_builder *const b = &p->b;
    if (!p->work.head_bits.id)
        return p->work.row0;
    const struct tir_value wave = tir_wave_id(b), before = tir_shr(b, wave, p->work.head_bits);
    return tir_add(b, p->work.row0, att_times(b, tir_sub(b, before, wave), (int)p->tile->rows));
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
