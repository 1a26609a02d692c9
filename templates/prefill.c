/* SPDX-License-Identifier: Apache-2.0
 *
 * Flash attention over packed sequences: O = softmax(scale Q K^T + mask) V, one pass over K and V
 * with a running maximum m and denominator l (Dao, arXiv 2205.14135; 2307.08691).
 *
 * Everything is computed transposed. S^T = K Q^T leaves each lane with whole columns of scores for
 * one query, so the softmax needs one cross-lane step, and its registers are, unmoved, the operand
 * of O^T = V^T P^T. A workgroup owns a tile of queries, its waves own rows of it, and they share
 * the tiles of K and V in LDS.
 *
 * The loop is written once, in order; prefill_place() says where the pipeline may run each step.
 */
#include "ir/builder.h"
#include "ir/spread.h"
#include "ir/bits.h"
#include "templates/grid.h"
#include "templates/lds_map.h"
#include "templates/prefill.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <stdio.h>
#include <string.h>

enum group { GROUP_K, GROUP_V, GROUP_Q };

static void reserve(struct prefill *p)
{
    const struct tir_layout s = prefill_scores_layout(p);
    p->scores = tir_tile(p->b.f, TIR_F32, p->kv, prefill_queries(p), &s);
    for (unsigned i = 0; i < p->n_panels; i++)
        p->panels[i].buffer =
            tir_lds_buffer(&p->b, i ? p->k_buffers * p->panels[i].lds_bytes : p->k_room, 16);
    p->v_buffer = tir_lds_buffer(&p->b, p->v_room, 16);
    if (p->rows_in_keys)
        p->row_buffer = p->panels[0].buffer;
    else if (p->rows_in_v)
        p->row_buffer = p->v_buffer;
    else if (p->row_bytes)
        p->row_buffer = tir_lds_buffer(&p->b, p->row_bytes, 16);
}

struct tir_value prefill_head_base(struct prefill *p, struct att_tensor t, struct tir_value token,
                                   struct tir_value head, unsigned bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_add(b, att_offset(b, token, t.token_stride, (int)bytes),
                                        att_offset(b, head, t.head_stride, (int)bytes));
    return tir_add(b, tir_arg(b, t.arg, TIR_I64), at);
}

/* Zero in columns of a panel that another one counts, or that are not there. */
static struct tir_value without_others(struct prefill *p, struct tir_value q, const struct panel *n)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, q), TIR_I32);
    const struct tir_value col = tir_col_index(b, t);
    const struct tir_value bound =
        tir_splat(b, tir_i32(b, (int)(n->counted ? n->counted : n->there)), t);
    const struct tir_value other =
        n->counted ? tir_cmp_lt(b, col, bound) : tir_cmp_ge(b, col, bound);
    return tir_select(b, other, tir_float_like(b, q, 0.0f), q);
}

static struct tir_type q_type(struct prefill *p, const struct panel *n)
{
    const unsigned queries = prefill_queries(p);
    const struct tir_layout l = tir_mma_right(p->mma, queries, &n->k, prefill_waves(p));
    return tir_tile(p->b.f, p->dtype, queries, n->width, &l);
}

static struct tir_view q_view(struct prefill *p, const struct panel *n)
{
    struct tir_builder *b = &p->b;
    const struct tir_value token = tir_add(b, p->q_begin, p->row0);
    struct tir_value stride = att_stride32(b, ARG_Q_TOKEN_STRIDE, (int)p->bytes);
    if (p->ahead) /* lanes' offsets are made anew, and take no registers of a turn's loop */
        stride = tir_materialize(b, stride);
    return att_view(b, prefill_head_base(p, ATT_HEADS(Q), token, p->head, p->bytes),
                    tir_sub(b, p->q_len, p->row0), stride, p->v->head_dim * (int)p->bytes,
                    (int)(n->first * p->bytes));
}

static struct tir_value q_buffer(struct prefill *p, const struct panel *n)
{
    return att_plus(&p->b, p->row_buffer, (int)n->q_at);
}

static void copy_q(struct prefill *p, unsigned part)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->n_panels; i++) {
        const struct panel *n = &p->panels[i];
        if (n->q_part == part)
            tir_copy_to_lds(b, GROUP_Q, q_view(p, n), tir_i32(b, 0), q_buffer(p, n), q_type(p, n),
                            &n->q_lds);
    }
}

/* Q^T stays in registers, panel by panel, as the right operand of S^T = K Q^T. */
static void load_q(struct prefill *p, unsigned part)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->n_panels; i++) {
        struct panel *n = &p->panels[i];
        if (p->row_bytes && n->q_part != part)
            continue;
        const struct tir_type t = q_type(p, n);
        struct tir_value columns = p->row_bytes ? tir_tile_lds_load(b, q_buffer(p, n), t, &n->q_lds)
                                                : tir_tile_load(b, q_view(p, n), tir_i32(b, 0), t);
        if (n->counted || n->used > n->there)
            columns = without_others(p, columns, n);
        n->q = tir_named(b, "q", tir_transpose(b, columns));
    }
}

/* A scale of a head's queries or keys, or of all. */
static struct tir_value load_descale(struct prefill *p, const char *name, struct tir_value heads,
                                     struct tir_value head)
{
    struct tir_builder *b = &p->b;
    struct tir_value at = tir_i32(b, 0);
    if (p->v->qkv_scale == ATT_QKV_SCALE_HEAD)
        at = tir_shl(b, tir_add(b, tir_mul(b, p->sequence, heads), head), tir_i32(b, 2));
    return tir_scalar_load(b, tir_arg(b, name, TIR_I64), at, TIR_F32);
}

static void find_scales(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (p->v->q_dtype != ATT_Q_DTYPE_FP8)
        return;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    p->q_scale = load_descale(p, ARG_Q_DESCALE, heads, p->head);
    if (p->v->paged)
        return;
    const struct tir_value gqa = p->v->gqa ? tir_i32(b, p->v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    const struct tir_value kv_heads = tir_div(b, heads, gqa);
    p->k_scale = load_descale(p, ARG_K_DESCALE, kv_heads, p->kv_head);
    p->v_scale = load_descale(p, ARG_V_DESCALE, kv_heads, p->kv_head);
}

static void find_cache(struct prefill *p)
{
    if (!p->v->paged)
        return;
    p->k_cache = att_cache(&p->b, p->v, p->m, false, p->kv_head);
    p->v_cache = att_cache(&p->b, p->v, p->m, true, p->kv_head);
    if (p->v->kv_scale == ATT_KV_SCALE_TENSOR) {
        p->k_scale = att_cache_tensor_scale(&p->k_cache);
        p->v_scale = att_cache_tensor_scale(&p->v_cache);
    }
}

/* A query behind the last has the row of the last. A sequence without keys has no row, and the
 * bytes that are loaded in spite of it are those of mask_indptr. */
static void find_mask(struct prefill *p, struct tir_type t)
{
    struct tir_builder *b = &p->b;
    struct att_position *const at = &p->attention.at;
    const struct tir_value query =
        tir_min(b, tir_add(b, tir_col_index(b, t), tir_splat(b, p->row0, t)),
                tir_splat(b, att_plus(b, p->q_len, -1), t));
    const struct tir_value some = tir_cmp_gt(b, p->kv_len, tir_i32(b, 0));
    const struct tir_value row = att_mask_row(&p->attention, p->sequence, query);
    const struct tir_value used = tir_select(b, some, tir_i64(b, -1), tir_i64(b, 0));
    at->mask_row = tir_and(b, row, tir_splat(b, used, tir_typeof(b->f, row)));
    at->mask = tir_select(b, some, tir_arg(b, ARG_CUSTOM_MASK, TIR_I64),
                          tir_arg(b, ARG_MASK_INDPTR, TIR_I64));
}

/* This wave's number in its group. */
static struct tir_value own_wave(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value wave = tir_wave_id(b);
    const int waves = (int)(p->waves / p->groups);
    return p->groups == 1 ? wave : tir_and(b, wave, tir_i32(b, waves - 1));
}

/* The columns of the scores are the queries of the workgroup, and a wave has p->rows of them. */
static void find_position(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    struct att_position *const at = &p->attention.at;
    const bool window = p->v->mask == ATT_MASK_WINDOW;
    const struct tir_value first = tir_add(b, p->row0, p->offset);
    const struct tir_type t = tir_with_dtype(p->attention.softmax.vector, TIR_I32);
    *at = (struct att_position){
        .q_len = p->q_len,
        .kv_len = p->kv_len,
        .end = p->kv_len,
        .diagonal = tir_add(b, tir_col_index(b, t), tir_splat(b, first, t)),
        .lowest = tir_add(b, first, att_times(b, own_wave(p), (int)p->rows)),
        .head = p->head,
        .right = window ? tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32) : tir_i32(b, 0),
    };
    at->highest = att_plus(b, at->lowest, (int)p->rows - 1);
    if (att_hides_early(p->v))
        at->reach = att_reach(b, p->v);
    if (p->v->mask == ATT_MASK_CUSTOM)
        find_mask(p, t);
}

/* First and one-past-last tile of keys that some query of the workgroup sees; at least one. */
static struct tir_value count_tiles(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value rows =
        tir_min(b, tir_sub(b, p->q_len, p->row0), tir_i32(b, (int)prefill_queries(p)));
    struct tir_value end = p->kv_len;
    if (att_hides_late(p->v)) {
        const struct tir_value reach = tir_add(b, tir_add(b, p->row0, rows), p->offset);
        end = tir_min(b, end, tir_add(b, reach, p->attention.at.right));
    }
    p->first = tir_i32(b, 0);
    if (att_hides_early(p->v)) {
        const struct tir_value from =
            att_first_seen(b, p->v, p->attention.at.reach, tir_add(b, p->row0, p->offset));
        p->first = tir_and(b, tir_max(b, from, tir_i32(b, 0)), tir_i32(b, -(int)p->kv));
    }
    const unsigned all = p->kv * p->groups;
    const struct tir_value keys = att_plus(b, tir_sub(b, end, p->first), (int)all - 1);
    return tir_max(b, tir_sar(b, keys, tir_i32(b, (int)tir_bits(all))), tir_i32(b, 1));
}

static struct tir_value first_key(struct prefill *p, struct tir_value tile)
{
    return tir_add(&p->b, p->first, att_times(&p->b, tile, (int)(p->kv * p->groups)));
}

/* Adds `of_each` for each group before the wave's own. */
static struct tir_value of_group(struct prefill *p, struct tir_value from, int of_each)
{
    return p->groups == 1 ? from : tir_add(&p->b, from, att_times(&p->b, p->group, of_each));
}

/* The first key of the wave's group: a block has a tile for each group. */
static struct tir_value own_key(struct prefill *p, struct tir_value tile)
{
    return of_group(p, first_key(p, tile), (int)p->kv);
}

/* The rows of K or V of one tile of keys. The base moves with the tile in 64 bits, so that a
 * sequence may span more than 4 GiB. */
static struct tir_view key_rows(struct prefill *p, struct tir_value key, struct tir_value base,
                                struct tir_value stride64, unsigned rows, int row, int byte)
{
    struct tir_builder *b = &p->b;
    /* No key is below 0: two instructions less, which tell where phases are short. */
    const struct tir_value wide = p->padded ? tir_zext(b, key, TIR_I64) : att_wide(b, key);
    const struct tir_value at = tir_add(b, base, tir_mul(b, wide, stride64));
    /* The last block may have none for a group: less than 0, which is none too. A maximum here
     * would be v_med3 with the minimum, and the buffer no longer uniform. */
    const struct tir_value there = tir_min(b, tir_sub(b, p->kv_len, key), tir_i32(b, (int)rows));
    struct tir_value stride = tir_convert(b, stride64, TIR_I32);
    if (p->tile->own[PREFILL_FRESH_OFFSETS])
        stride = tir_materialize(b, stride);
    return att_view(b, at, there, stride, row, byte);
}

/* Tiles take turns in `n` buffers of so many bytes, a power of two of them. */
static struct tir_value turn(struct prefill *p, struct tir_value buffer, struct tir_value tile,
                             unsigned n, unsigned bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value which = tir_and(b, tile, tir_i32(b, (int)n - 1));
    return tir_add(b, buffer, att_times(b, which, (int)bytes));
}

static struct tir_value k_buffer(struct prefill *p, const struct panel *n, struct tir_value tile)
{
    return turn(p, n->buffer, tile, p->k_buffers, n->lds_bytes);
}

/* The page numbers of a tile of K, and of V. Pages of tiles past the end are those of the last. */
static void find_k_pages(struct prefill *p, struct tir_value tile)
{
    for (unsigned i = 0; i < p->n_panels; i++)
        p->panels[i].pages =
            att_page_numbers(&p->b, &p->pages, &p->panels[i].paged, first_key(p, tile));
}

static void copy_k(struct prefill *p, struct tir_value tile, bool in_loop)
{
    struct tir_builder *b = &p->b;
    const struct tir_value key = first_key(p, tile);
    for (unsigned i = 0; i < p->n_panels; i++) {
        struct panel *n = &p->panels[i];
        if (in_loop)
            prefill_place(p, i ? PREFILL_FETCH_MORE_K : PREFILL_FETCH_K);
        if (p->v->paged) {
            n->fetched = att_paged_load(b, &p->pages, &n->paged, key, n->pages);
            continue;
        }
        const unsigned keys = p->kv * p->groups;
        const struct tir_layout l = tir_mma_left(p->mma, keys, &n->k, prefill_waves(p));
        const struct tir_type t = tir_tile(b->f, p->dtype, keys, n->width, &l);
        const struct tir_view k =
            key_rows(p, key, p->k_base, p->k_stride, keys, p->v->head_dim * (int)p->bytes,
                     (int)(n->first * p->bytes));
        tir_copy_to_lds(b, GROUP_K, k, tir_i32(b, 0), k_buffer(p, n, tile), t, &n->lds_all);
    }
}

static void place_k(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    if (!p->v->paged) {
        tir_wait(b, GROUP_K, 0);
        return;
    }
    for (unsigned i = 0; i < p->n_panels; i++) {
        const struct panel *n = &p->panels[i];
        const struct tir_value k = att_paged_elements(b, &n->paged, n->fetched, p->dtype);
        tir_tile_lds_store(b, k_buffer(p, n, tile), k, &n->lds);
    }
    prefill_place(p, PREFILL_AWAIT_K);
    tir_wait(b, TIR_LDS_WRITES, 0);
}

/* S^T = K Q^T, raw: the scale is folded into the exponent. */
static struct tir_value compute_scores(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value k[PREFILL_MAX_PANELS];
    for (unsigned i = 0; i < p->n_panels; i++) {
        prefill_place(p, i ? PREFILL_READ_MORE_K : PREFILL_READ_K);
        const struct panel *n = &p->panels[i];
        const struct tir_layout l = tir_mma_left(p->mma, p->kv, &n->k, prefill_waves(p));
        const struct tir_type t = tir_tile(b->f, p->dtype, p->kv, n->width, &l);
        const unsigned of_each = tir_lds_address(&n->lds_all, p->kv * n->width, p->bytes);
        const struct tir_value at = of_group(p, k_buffer(p, n, tile), (int)of_each);
        k[i] = tir_tile_lds_load_first(b, at, t, &n->lds, n->used > n->there ? n->there : 0);
    }
    prefill_place(p, PREFILL_SCORES);
    struct tir_value s = tir_splat(b, tir_f32(b, 0.0f), p->scores);
    for (unsigned i = 0; i < p->n_panels; i++)
        s = p->panels[i].used < p->panels[i].width
                ? tir_mma_first(b, p->instr, k[i], p->panels[i].q, s, p->panels[i].used)
                : tir_mma(b, p->instr, k[i], p->panels[i].q, s);
    return tir_named(b, "s", s);
}

static struct tir_value v_buffer(struct prefill *p, struct tir_value tile)
{
    return p->by_columns ? p->v_buffer : turn(p, p->v_buffer, tile, 2, p->v_bytes);
}

/* Returns where the tile of this wave's group is in it. */
static struct tir_value own_v_buffer(struct prefill *p, struct tir_value tile)
{
    const unsigned all = p->v_bytes / p->groups, first = p->kv * p->dv;
    const unsigned of_each = p->by_columns ? all : tir_lds_address(&p->v_lds_all, first, p->bytes);
    return of_group(p, v_buffer(p, tile), (int)of_each);
}

/* Starts V of a tile on its way; the value stays empty where it goes to LDS by itself. */
static void fetch_v(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value key = first_key(p, tile);
    for (unsigned i = 0; p->v->paged && i < prefill_v_parts(p); i++)
        p->fetched_v[i] = att_paged_load(b, &p->pages, &p->paged_v[i], key, p->v_pages);
    if (p->v->paged)
        return;
    const int row = p->v->head_dim_v * (int)p->bytes;
    const unsigned keys = p->by_columns ? p->kv : p->kv * p->groups;
    if (p->by_columns)
        key = own_key(p, tile);
    const struct tir_view v = key_rows(p, key, p->v_base, p->v_stride, keys, row, 0);
    const struct tir_type t = prefill_v_registers(p, keys, false);
    if (p->by_columns)
        p->fetched_v[0].bits = tir_tile_load(b, v, tir_i32(b, 0), t);
    else
        tir_copy_to_lds(b, GROUP_V, v, tir_i32(b, 0), v_buffer(p, tile), t, &p->v_lds_all);
}

/* Parts of V, keys x a half of dv, side by side. */
static struct tir_value join_v(struct prefill *p, struct tir_value part[2])
{
    if (prefill_v_parts(p) == 1)
        return part[0];
    return tir_join_blocks(&p->b, tir_stack(&p->b, part[0], part[1]), p->kv);
}

static struct tir_layout turned_layout(struct prefill *p)
{
    const struct tir_layout l = *tir_layout_of(p->b.f, prefill_v_registers(p, p->kv, true));
    if (prefill_v_parts(p) == 1)
        return l;
    const struct tir_layout both = tir_layout_stack(&l, p->kv);
    return tir_layout_join_blocks(&both, p->kv, prefill_v_width(p));
}

static void place_v(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    struct tir_value v = p->fetched_v[0].bits, part[2];
    if (!v.id) {
        tir_wait(b, GROUP_V, 0);
        return;
    }
    if (p->v->paged) {
        prefill_place(p, PREFILL_CLEAR_V);
        for (unsigned i = 0; i < prefill_v_parts(p); i++)
            part[i] = att_paged_elements(b, &p->paged_v[i], p->fetched_v[i], p->dtype);
        v = prefill_clear_unseen(p, join_v(p, part), first_key(p, tile));
        prefill_place(p, PREFILL_PLACE_V);
    }
    if (p->by_columns && !p->v_cache.shuffle) {
        const struct tir_layout turned = turned_layout(p);
        v = tir_relayout(b, v, &turned);
    }
    tir_tile_lds_store(b, own_v_buffer(p, tile), v, &p->v_lds);
}

/* ---- The source of attention's keys and values ---- */

static struct tir_value key_of_block(void *family, struct tir_value index)
{
    return own_key(family, index);
}

static void fetch_keys(void *family, struct att_block *block)
{
    struct prefill *const p = family;
    if (p->v->paged) {
        prefill_place(p, PREFILL_FIND_K_PAGES);
        find_k_pages(p, block->index);
    }
    prefill_place(p, PREFILL_FETCH_K);
    copy_k(p, block->index, true);
    prefill_place(p, PREFILL_PLACE_K);
    place_k(p, block->index);
    if (p->v->paged) {
        prefill_place(p, PREFILL_FIND_V_PAGES);
        p->v_pages = att_page_numbers(&p->b, &p->pages, &p->paged_v[0], first_key(p, block->index));
    }
    prefill_place(p, PREFILL_AWAIT_K);
    if (p->v->mask == ATT_MASK_CUSTOM)
        block->mask = att_load_mask(&p->attention, first_key(p, block->index));
    tir_barrier(&p->b);
}

static struct tir_value scores(void *family, const struct att_block *block)
{
    return compute_scores(family, block->index);
}

static void fetch_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_FETCH_V);
    fetch_v(p, block->index);
}

static void place_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_PLACE_V);
    place_v(p, block->index);
}

static void await_values(void *family)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_AWAIT_V);
    tir_wait(&p->b, TIR_LDS_WRITES, 0);
    tir_barrier(&p->b);
}

static void have_v(struct prefill *p)
{
    prefill_place(p, PREFILL_HAVE_V);
    tir_wait(&p->b, TIR_LDS_WRITES, 0);
}

static struct tir_value values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_READ_V);
    const struct tir_value v = prefill_read_v(p, own_v_buffer(p, block->index));
    have_v(p);
    return v;
}

/* The first product takes what is read in the phase before it, or in the same where that is one of
 * memory, at whose end all parts are awaited. */
static struct tir_value part_of_values(void *family, const struct att_block *block, unsigned part)
{
    struct prefill *const p = family;
    prefill_place(p, part ? PREFILL_READ_MORE_V : PREFILL_READ_V);
    const struct tir_value v = prefill_read_part_of_v(p, own_v_buffer(p, block->index), part);
    if (!prefill_is_alone(p) && (part + 1) * p->v_keys == p->kv)
        have_v(p);
    return v;
}

static struct tir_value rest_of_values(void *family, const struct att_block *block)
{
    struct prefill *const p = family;
    prefill_place(p, PREFILL_READ_V);
    return prefill_read_rest(p, own_v_buffer(p, block->index));
}

static const struct att_source source = {
    .rest_of_values = rest_of_values,
    .part_of_values = part_of_values,
    .first_key = key_of_block,
    .fetch_keys = fetch_keys,
    .scores = scores,
    .fetch_values = fetch_values,
    .place_values = place_values,
    .await_values = await_values,
    .values = values,
};

static void locate_rows(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->k_base = prefill_head_base(p, ATT_HEADS(K), p->kv_begin, p->kv_head, p->bytes);
    p->v_base = prefill_head_base(p, ATT_HEADS(V), p->kv_begin, p->kv_head, p->bytes);
    p->k_stride = att_stride(b, ARG_K_TOKEN_STRIDE, (int)p->bytes);
    p->v_stride = att_stride(b, ARG_V_TOKEN_STRIDE, (int)p->bytes);
}

static void locate_pages(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->first_seen = tir_i32(b, 0);
    if (att_hides_early(p->v))
        p->first_seen =
            att_first_seen(b, p->v, p->attention.at.reach, tir_add(b, p->row0, p->offset));
    p->pages = att_pages(b, p->v, p->sequence, p->kv_len, p->first_seen);
    for (unsigned i = 0; i < p->n_panels; i++) {
        struct panel *n = &p->panels[i];
        n->paged = att_paged_tile(b, &p->k_cache, p->kv, n->width, n->first, NULL);
    }
    const struct tir_type by_two = prefill_v_registers(p, p->kv, false);
    for (unsigned i = 0; i < prefill_v_parts(p); i++)
        p->paged_v[i] =
            att_paged_tile(b, &p->v_cache, p->kv, prefill_v_width(p), prefill_v_first(p, i),
                           p->by_columns ? tir_layout_of(b->f, by_two) : NULL);
}

void prefill_fetch(struct prefill *p)
{
    p->first = tir_i32(&p->b, 0);
    locate_rows(p);
    copy_q(p, 0);
    copy_k(p, tir_i32(&p->b, 0), false);
}

void prefill_await_keys(struct prefill *p)
{
    tir_wait(&p->b, GROUP_K, 0);
    tir_barrier(&p->b);
}

/* The first tile of K is asked for beside Q: the loop's own copy finds it in the L1. */
static void await_q(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (!p->v->paged && !p->ahead && !p->rows_in_keys)
        copy_k(p, tir_i32(b, 0), false);
    for (unsigned i = 0; i < p->q_parts; i++) {
        if (i)
            copy_q(p, i);
        tir_wait(b, GROUP_Q, 0);
        tir_barrier(b);
        load_q(p, i);
        if (!p->rows_in_v && !p->rows_in_keys)
            return;
        tir_wait(b, TIR_LDS_WRITES, 0);
        tir_barrier(b);
    }
}

/* O is made zero while Q is on its way: LLVM would do that in front of the loop. One wave a SIMD
 * has O in accumulation registers, and would copy it. */
static void begin(struct prefill *p)
{
    const unsigned dv = p->dv, queries = prefill_queries(p);
    const struct tir_layout o = tir_mma_result(p->mma, dv, queries, prefill_waves(p));
    att_attention_begin(&p->attention, tir_tile(p->b.f, TIR_F32, dv, queries, &o), p->carried);
    if (p->waves > 4)
        p->carried[ATT_CARRY_O] = tir_materialize(&p->b, p->carried[ATT_CARRY_O]);
}

/* Not where a soft cap, a hook or an fp8 cache brings other work than this is for: those loops were
 * longer with it. */
static bool has_even_code(const struct prefill *p)
{
    const bool wanted = p->tile->copy_bytes >= 16 || p->tile->own[PREFILL_EVEN_CODE];
    return wanted && p->rows == 32 && !att_scales_scores(p->v) &&
           !(p->v->paged && p->dtype == TIR_FP8);
}

/* The softmax of head sizes up to 120 takes longer than the products beside it: l is added two
 * weights at a time. LSE would be off by what that rounds. */
static bool sums_pairs(const struct prefill *p)
{
    const bool short_rows = p->v->head_dim <= 64 && p->bytes == 2 && !p->v->paged;
    return (p->padded || short_rows) && !p->v->lse;
}

/* Waves in memory phases come first. Not on gfx942 where sums come for nothing, or many columns
 * leave time for them: such a loop waits for its products alone, and was up to 1.3 % shorter
 * without. Causal launches were longer. */
static uint8_t memory_priority(const struct prefill *p)
{
    enum { MANY = 96 };
    const bool waits = p->sum_rows || (p->rest && p->v->head_dim >= MANY);
    const bool products_alone = waits && p->by_columns && p->v->mask != ATT_MASK_CAUSAL;
    return products_alone ? 0 : p->tile->memory_priority;
}

/* Even code of gfx942 begins a window of fetch, where it was shortest. */
static uint8_t loop_at(const struct prefill *p)
{
    const uint16_t *const own = p->tile->own;
    return (uint8_t)(own[PREFILL_LOOP_AT] ? own[PREFILL_LOOP_AT] : own[PREFILL_EVEN_CODE]);
}

/* Weights in bf16 have the exponents of O and l, which are in single precision: they take one half
 * of these and leave the other to values, so that fewer blocks follow a maximum that keeps growing.
 */
enum { BF16_ROOM = 64 };

/* The sum of a lane's 32 weights in fp16 stays below 2^13 where none of them is above 2^8. */
static uint8_t room(const struct prefill *p)
{
    enum { FP16_SUM_ROOM = 13 };
    if (p->dtype == TIR_BF16)
        return BF16_ROOM;
    return prefill_votes_late(p) && !p->sum_rows ? FP16_SUM_ROOM : 0;
}

static void describe_attention(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->attention = (struct att_attention){.b = b,
                                          .v = p->v,
                                          .product = p->instr,
                                          .dtype = p->dtype,
                                          .source = &source,
                                          .family = p,
                                          .room = room(p),
                                          .late_vote = prefill_votes_late(p),
                                          .late_maximum = p->tile->late_maximum,
                                          .wide_powers = has_even_code(p),
                                          .late_eighths = prefill_late_eighths(p),
                                          .packed_eighths = p->sum_rows && prefill_votes_late(p),
                                          .ties_any = true,
                                          .in_agprs = prefill_is_alone(p),
                                          .value_parts = (uint8_t)(p->kv / p->v_keys),
                                          .cut = !p->m->has_cvt_pk_bf16 && !p->v->sinks,
                                          .sum_pairs = sums_pairs(p),
                                          .rest_product = p->rest_instr,
                                          .sum_row = p->sum_rows ? (unsigned)p->v->head_dim_v : 0,
                                          .steps = p->steps};
    if (p->rest)
        p->attention.rest = prefill_rest(p);
    struct tir_value scale = p->k_scale;
    if (p->q_scale.id)
        scale = scale.id ? tir_mul(b, p->q_scale, scale) : p->q_scale;
    att_attention_scale(&p->attention, p->scores, scale);
    if (p->dtype == TIR_FP8)
        att_attention_weights_fp8(&p->attention);
}

static void attend(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (p->groups > 1)
        p->group = tir_shr(b, tir_wave_id(b), tir_i32(b, (int)tir_bits(p->waves / p->groups)));
    find_scales(p);
    find_cache(p);
    describe_attention(p);
    find_position(p);
    if (!p->row_bytes)
        load_q(p, 0);
    else if (!p->ahead)
        copy_q(p, 0);
    if (p->v->paged)
        locate_pages(p);
    else
        locate_rows(p);
    const struct tir_value n = count_tiles(p);
    if (!p->ahead)
        prefill_fill_padding(p);
    begin(p);
    if (p->row_bytes)
        await_q(p);
    if (p->ahead) /* by now no wave has O of the turn before there */
        prefill_fill_padding(p);

    struct tir_value *const carried = p->carried;
    struct tir_value kept[ATT_MOST_CARRY];
    const unsigned n_kept = att_attention_kept(&p->attention, carried, kept);
    if (prefill_halves_tiles(p))
        tir_only_copies(b, prefill_is_spare(p));
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), kept, n_kept);
    const struct att_block block = {.index = loop.index};
    att_attention_unpack(&p->attention, kept, carried);
    att_attention_visit(&p->attention, block, carried);
    b->stage = TIR_NO_STAGE;
    att_attention_kept(&p->attention, carried, kept);
    tir_end_for(b, &loop, kept, n_kept);
    att_attention_unpack(&p->attention, kept, carried);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct prefill p = prefill_with_tile(v, m, &tile);
    struct tir_func *f = att_begin_kernel(v, m, p.waves, p.waves / 4);
    p.b = tir_at_end(f, f->body);
    reserve(&p);
    prefill_place_attention(&p);
    prefill_take_turns(&p, attend);
    tir_return(&p.b);

    const int groups = prefill_workgroups(&p);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.interleave = 1,
                     /* Two exponentials and a matrix instruction may take longer than it does. */
                     .mixed = p.rows == 32 && 2 * m->exp_slots > p.mma->shadow_slots,
                     .even_code = has_even_code(&p),
                     .round_pairs = prefill_has_round_pairs(&p),
                     .bare_last = p.tile->late_maximum,
                     .hoist_vgprs = prefill_hoisted(&p),
                     .memory_priority = memory_priority(&p),
                     .early_priority = (uint8_t)p.tile->own[PREFILL_EARLY_PRIORITY],
                     .loop_at = loop_at(&p),
                     .part_early = (uint8_t)p.tile->own[PREFILL_PART_EARLY]},
        .workgroups_most = (uint16_t)groups,
        .grid = {{ARG_HEADS, 1, 1},
                 {ARG_BATCH, 1, 1},
                 {ARG_MAX_SEQLEN_Q, (int)prefill_queries(&p), 1}},
    };
    prefill_schedule(&p, &k->schedule);
    snprintf(k->tuning, sizeof(k->tuning), "q=%u kv=%u waves=%u stages=%d pingpong=%d",
             prefill_queries(&p), p.kv, p.waves, k->schedule.stages, k->schedule.ping_pong);
    if (p.groups > 1)
        snprintf(k->tuning + strlen(k->tuning), sizeof(k->tuning) - strlen(k->tuning),
                 " key_groups=%u", p.groups);
    if (groups)
        snprintf(k->tuning + strlen(k->tuning), sizeof(k->tuning) - strlen(k->tuning),
                 " persistent=%d", groups);
    if (p.attention.sum_row || att_attention_sums_pairs(&p.attention))
        snprintf(k->tuning + strlen(k->tuning), sizeof(k->tuning) - strlen(k->tuning), " sums=%s",
                 p.attention.sum_row && p.attention.cut ? "cut" : "rounded");
}

const struct att_template att_template_prefill = {
    .name = "prefill",
    .description = "flash attention over packed (varlen) sequences",
    .takes = OP_TAKES_PREFILL | ATT_BIT(TILE),
    .tiles = prefill_tiles,
    .n_tiles = PREFILL_N_TILES,
    .knobs = prefill_knobs,
    .own = {"k_buffers", "persistent", "fp8", "loop_at", "keys_first", "late_eighths", "part_early",
            "key_groups", "whole_heads", "early_priority", "alone", "even_code", "fresh_offsets"},
    .n_knobs = PREFILL_N_KNOBS,
    .fits = prefill_fits,
    .check = prefill_check,
    .second = prefill_second,
    .build = build,
};
