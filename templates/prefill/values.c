/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers in which V of `prefill` is loaded from memory and read from LDS. Also the clearing
 * of rows of V without a visible key.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/lds_map.h"
#include "templates/prefill/prefill.h"

/* Returns the type of a part of V of n_keys keys in registers. If LDS reads cannot transpose, V is
 * transposed before it is stored to LDS. A lane then loads 2 columns of 4 keys, or of 2 keys in
 * small tiles, and exchanges them in registers. */
struct tir_type prefill_v_registers(struct prefill *p, unsigned n_keys, bool lds_order)
{
    const unsigned dv = prefill_v_width(p), kv_bits = tir_bits(n_keys);
    struct tir_spread s = tir_spread(p->m, p->tile->waves / prefill_groups(p));
    const unsigned threads = tir_spread_room(&s, TIR_LANES) + tir_spread_room(&s, TIR_WAVES);
    const unsigned in_lane = kv_bits + tir_bits(dv) - threads;
    if (!lds_order)
        tir_spread_cols(&s, TIR_REGS, 1);
    tir_spread_rows(&s, TIR_REGS, in_lane < 3 ? in_lane - 1 : 2);
    /* 8 keys a lane, so that a lane stores 16 bytes of a row of V^T in LDS. */
    if (in_lane > 3 && p->tile->keys >= 64 && !p->v->paged) {
        tir_spread_rows(&s, TIR_WAVES, 1);
        tir_spread_rows(&s, TIR_REGS, 1);
    }
    if (lds_order)
        tir_spread_cols(&s, TIR_REGS, 1);
    /* With pages, a wave has keys of two lane groups: LLVM would move a page number that all keys
     * of a wave share to a scalar register, and wait for it. */
    const unsigned lane_cols = p->m->lane_bits - (p->v->paged ? 1 : 0), cols = tir_bits(dv) - 1;
    tir_spread_cols(&s, TIR_LANES, cols < lane_cols ? cols : lane_cols);
    tir_spread_rows(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    const unsigned keys = kv_bits - s.rows, room = tir_spread_room(&s, TIR_WAVES);
    tir_spread_rows(&s, TIR_WAVES, keys < room ? keys : room);
    tir_spread_fill(&s, TIR_WAVES, n_keys, dv);
    tir_spread_fill(&s, TIR_REGS, n_keys, dv);
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->b.f, p->shape.dtype, n_keys, dv, &l);
}

/* Returns tile `v` of V with zeros in rows that no query sees. A page may hold a NaN after the
 * sequence's last token. Rows before the first visible key are loaded from that key's page, perhaps
 * from after the last token. */
struct tir_value prefill_clear_unseen(struct prefill *p, struct tir_value v, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct tir_type type = tir_typeof(b->f, v);
    const struct tir_value left = tir_sub(b, p->work.kv_len, key);
    const struct tir_value begin = tir_sub(b, p->source.first_seen, key);
    struct tir_value edge = tir_cmp_lt(b, left, tir_i32(b, (int)p->tile->keys));
    if (att_hides_early(p->v))
        edge = tir_or(b, edge, tir_cmp_gt(b, begin, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, edge, true, &type, 1);
    const struct tir_type t = tir_with_dtype(type, TIR_I32);
    const struct tir_value row = tir_row_index(b, t);
    struct tir_value seen = tir_cmp_lt(b, row, tir_splat(b, left, t));
    if (att_hides_early(p->v))
        seen = tir_and(b, seen, tir_cmp_ge(b, row, tir_splat(b, begin, t)));
    const struct tir_value cleared = tir_select(b, seen, v, tir_float_like(b, v, 0.0f));
    tir_else(b, &branch, &cleared);
    tir_end_if(b, &branch, &v);
    return v;
}

/* ---- V in LDS: reads of operands, and padding columns ---- */

/* Returns the number of columns of V in LDS before the columns of ones (PREFILL_TAIL_SUM); 0: there
 * are no ones. */
static unsigned first_columns(const struct prefill *p)
{
    return p->value.tail == PREFILL_TAIL_SUM ? (unsigned)p->v->head_dim_v : 0;
}

struct tir_value prefill_v_operand(struct prefill *p, struct tir_value buffer)
{
    struct tir_builder *b = &p->b;
    const struct tir_contraction k = prefill_v_contraction(p);
    const unsigned columns = prefill_v_columns(p);
    const struct tir_layout a = tir_mma_left(prefill_mma(p), columns, &k, prefill_waves(p));
    const struct tir_layout l = tir_layout_transpose(&a);
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, p->tile->keys, columns, &l);
    const struct tir_layout lds = prefill_v_lds(p);
    return tir_transpose(b, tir_tile_lds_load_first(b, buffer, t, &lds, first_columns(p)));
}

struct tir_value prefill_v_part(struct prefill *p, struct tir_value buffer, unsigned part)
{
    struct tir_builder *b = &p->b;
    const unsigned part_keys = prefill_v_part_keys(p);
    struct tir_layout s = prefill_scores_layout(p);
    for (unsigned keys = p->tile->keys; keys > part_keys; keys /= 2)
        s = tir_layout_half(&s);
    const struct tir_contraction k = tir_contract_acc(&s, tir_bits(prefill_mma(p)->n));
    const struct tir_layout a = tir_mma_left(prefill_mma(p), prefill_dv(p), &k, prefill_waves(p));
    const struct tir_layout l = tir_layout_transpose(&a);
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, part_keys, prefill_dv(p), &l);
    const struct tir_layout map = att_lds_rows(p->m, part_keys, prefill_dv(p), prefill_bytes(p)),
                            lds = prefill_v_lds(p);
    const unsigned at = tir_lds_address(&lds, part * part_keys * prefill_dv(p), prefill_bytes(p));
    const struct tir_value byte = att_plus(b, buffer, (int)at);
    return tir_transpose(b, tir_tile_lds_load_first(b, byte, t, &map, first_columns(p)));
}

/* Number of columns of V that are read for PREFILL_TAIL_REST: the columns for the 8 rows of O^T,
 * and as many columns of padding. */
enum { REST_READ = 2 * PREFILL_REST_ROWS };

/* Returns the layout in registers of P as right operand of V^T P^T, queries x keys. */
static struct tir_layout weights_layout(const struct prefill *p)
{
    const struct tir_contraction k = prefill_v_contraction(p);
    return tir_mma_right(prefill_mma(p), prefill_queries(p), &k, prefill_waves(p));
}

struct tir_type prefill_rest(struct prefill *p)
{
    const struct tir_layout w = weights_layout(p);
    const struct tir_layout l = tir_mma_halves_result(&p->m->mma[prefill_rest_product(p)], &w);
    return tir_tile(p->b.f, TIR_F32, PREFILL_REST_ROWS, prefill_queries(p), &l);
}

struct tir_value prefill_v_rest(struct prefill *p, struct tir_value buffer)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout w = weights_layout(p), a = tir_mma_halves_left(&w);
    const struct tir_layout l = tir_layout_transpose(&a);
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, p->tile->keys, REST_READ, &l);
    const unsigned first = prefill_main_rows(p), left = prefill_dv(p) - first;
    const struct tir_contraction k = prefill_v_contraction(p);
    struct tir_layout map = att_lds_columns(p->m, p->tile->keys, REST_READ, prefill_bytes(p), &k);
    tir_map_pad(&map, left * p->tile->keys, 16 / prefill_bytes(p));
    const unsigned at = first * p->tile->keys * prefill_bytes(p);
    return tir_transpose(
        b, tir_tile_lds_load_first(b, att_plus(b, buffer, (int)at), t, &map, PREFILL_REST_ROWS));
}

/* Writes ones, or zeros, to the padding of n tiles in LDS, 32 bits a lane. `map`: LDS map of a
 * tile. `buffer`: LDS address (i32) of the first one. */
static void fill(struct prefill *p, struct tir_value buffer, unsigned n,
                 const struct tir_layout *map, bool zeros)
{
    struct tir_builder *b = &p->b;
    const unsigned span = prefill_bytes(p) << map->pad_shift,
                   words = map->pad * prefill_bytes(p) / 4;
    const unsigned pads = n << (map->reg_bits - map->pad_shift);
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    tir_spread_cols(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    const struct tir_layout l = tir_spread_layout(&s);
    const struct tir_type t = tir_tile(b->f, TIR_I32, 1, tir_lanes(p->m), &l);
    const struct tir_value first = att_times(b, tir_wave_id(b), (int)tir_lanes(p->m));
    const struct tir_value index = tir_add(b, tir_col_index(b, t), tir_splat(b, first, t));
    const struct tir_value pad = tir_shr(b, index, tir_int_like(b, index, tir_bits(words)));
    const struct tir_value word = tir_and(b, index, tir_int_like(b, index, words - 1));
    const struct tir_value from = tir_splat(b, att_plus(b, buffer, (int)span), t);
    const struct tir_value apart = tir_int_like(b, index, span + map->pad * prefill_bytes(p));
    const struct tir_value at = tir_add(b, tir_add(b, from, tir_mul(b, pad, apart)),
                                        tir_mul(b, word, tir_int_like(b, word, 4)));
    const int64_t ones = zeros ? 0 : p->shape.dtype == TIR_BF16 ? 0x3f803f80 : 0x3c003c00;
    tir_lds_scatter_if(b, tir_cmp_lt(b, pad, tir_int_like(b, pad, pads)), at,
                       tir_int_like(b, at, ones));
}

void prefill_fill_padding(struct prefill *p)
{
    const struct tir_layout v = prefill_v_lds(p);
    bool some = p->value.tail != PREFILL_TAIL_NONE;
    if (some)
        fill(p, p->value.buffer, p->value.tiles, &v, p->value.tail == PREFILL_TAIL_REST);
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        const struct prefill_panel *n = &p->k.panels[i];
        const struct tir_layout lds = prefill_k_lds(p, n, 1);
        if (prefill_is_padded(p, n))
            fill(p, n->buffer, p->k.tiles, &lds, false);
        some |= prefill_is_padded(p, n);
    }
    if (!some)
        return;
    att_lds_barrier(&p->b);
}
