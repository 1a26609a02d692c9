/* SPDX-License-Identifier: Apache-2.0
 *
 * Flash attention over packed sequences: O = softmax(scale Q K^T + mask) V, in one pass over K and
 * V with a running maximum m and denominator l (Dao, arXiv 2205.14135; 2307.08691).
 *
 * Everything is computed transposed. S^T = K Q^T gives each lane whole columns of scores of one
 * query, so the softmax needs one cross-lane step. The registers of S^T are, without any move, the
 * operand of O^T = V^T P^T. A workgroup has a tile of queries, and each of its waves has some of
 * them. All waves share the tiles of K and V in LDS.
 *
 * The loop over tiles of keys is a pipeline: prefill/pipelines/ has a table for each style, and
 * prefill/pipeline.c chooses one.
 */
#include "ir/builder.h"
#include "ir/bits.h"
#include "templates/prefill/pipelines/pipelines.h"
#include "templates/prefill/item_rows.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>
#include <string.h>

/* Reserves LDS for the second halves of the columns of K and V. The second half of K begins at a
 * new LDS segment. Sets which waves copy the second halves (p->second). Sets which waves read them
 * first (p->swapped): the waves on the second pair of SIMDs. Wave w is on SIMD w % 4, and SIMDs 0
 * and 1 are a pair. */
static void reserve_halves(struct prefill *p)
{
    enum { SECOND_PAIR = 2 /* bit of a SIMD's number that is set in the second pair */ };
    struct tir_builder *b = &p->b;
    struct prefill_panel *const n = p->k.panels;
    n[1].buffer = tir_lds_buffer(b, p->k.room, p->m->lds_segment_bytes);
    p->value.other = tir_lds_buffer(b, p->value.room, 16);
    const struct tir_value pair = tir_and(b, tir_wave_id(b), tir_i32(b, SECOND_PAIR));
    p->swapped = tir_cmp_ne(b, pair, tir_i32(b, 0));
    p->second = tir_cmp_ge(b, tir_wave_id(b), tir_i32(b, (int)prefill_copying_waves(p)));
    for (unsigned i = 0; i < 2; i++) {
        const struct tir_value v[] = {p->value.buffer, p->value.other};
        n[i].read_from = tir_select(b, p->swapped, n[1 - i].buffer, n[i].buffer);
        p->value.read_from[i] = tir_select(b, p->swapped, v[1 - i], v[i]);
    }
}

/* Reserves LDS for tiles of K and V, and for rows of Q and O on their way between registers and
 * memory. */
static void reserve(struct prefill *p)
{
    const struct tir_layout s = prefill_scores_layout(p);
    p->shape.scores = tir_tile(p->b.f, TIR_F32, p->tile->keys, prefill_queries(p), &s);
    for (unsigned i = 0; i < (prefill_has_halves(p) ? 1 : p->k.n_panels); i++)
        p->k.panels[i].buffer = tir_lds_buffer(
            &p->b, i ? p->k.tiles * prefill_k_bytes(p, &p->k.panels[i]) : p->k.room, 16);
    p->value.buffer = tir_lds_buffer(&p->b, p->value.room, 16);
    if (prefill_has_halves(p))
        reserve_halves(p);
    if (p->staging.home == PREFILL_KV_ROOM)
        p->staging.buffer = p->k.panels[0].buffer;
    else if (p->staging.home == PREFILL_V_ROOM)
        p->staging.buffer = p->value.buffer;
    else if (p->staging.bytes || p->staging.item_bytes)
        p->staging.buffer = tir_lds_buffer(&p->b, p->staging.bytes + p->staging.item_bytes, 16);
}

struct tir_value prefill_head_base(struct prefill *p, struct att_tensor t, struct tir_value token,
                                   struct tir_value head, unsigned bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_add(b, att_offset(b, token, t.token_stride, (int)bytes),
                                        att_offset(b, head, t.head_stride, (int)bytes));
    return att_at(b, t.arg, at);
}

/* Loads a scale (f32) from array argument `name`: the only scale if the variant's scales are per
 * tensor, else the scale of the sequence and of head `head` (i32) of `heads`. */
static struct tir_value load_descale(struct prefill *p, const char *name, struct tir_value heads,
                                     struct tir_value head)
{
    struct tir_builder *b = &p->b;
    struct tir_value at = tir_i32(b, 0);
    if (p->v->qkv_scale != ATT_QKV_SCALE_TENSOR)
        at = tir_shl(b, tir_add(b, tir_mul(b, p->work.sequence, heads), head), tir_i32(b, 2));
    return tir_scalar_load(b, tir_arg(b, name, TIR_I64), at, TIR_F32);
}

/* Loads the scales of q, k and v if q is fp8. With pages, find_cache() loads the scales of K and V,
 * and a scale of q for each KV head. */
static void find_scales(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const bool by_kv_head = p->v->qkv_scale == ATT_QKV_SCALE_KV_HEAD;
    if (p->v->q_dtype != ATT_Q_DTYPE_FP8)
        return;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    if (!by_kv_head)
        p->source.q_scale = load_descale(p, ARG_Q_DESCALE, heads, prefill_own_head(p));
    if (p->v->paged)
        return;
    const struct tir_value gqa = p->v->gqa ? tir_i32(b, p->v->gqa) : tir_arg(b, ARG_GQA, TIR_I32);
    const struct tir_value kv_heads = tir_div(b, heads, gqa);
    if (by_kv_head)
        p->source.q_scale = load_descale(p, ARG_Q_DESCALE, kv_heads, p->work.kv_head);
    p->source.k.scale = load_descale(p, ARG_K_DESCALE, kv_heads, p->work.kv_head);
    p->source.v.scale = load_descale(p, ARG_V_DESCALE, kv_heads, p->work.kv_head);
}

/* Sets the caches of K and V and loads their scales, and the scale of Q if q has a scale for each
 * KV head. Does nothing in variants without pages. */
static void find_cache(struct prefill *p)
{
    if (!p->v->paged)
        return;
    p->source.k.cache = att_cache(&p->b, p->v, p->m, false, p->work.kv_head);
    p->source.v.cache = att_cache(&p->b, p->v, p->m, true, p->work.kv_head);
    att_cache_of_sequence(&p->source.k.cache, p->work.sequence);
    att_cache_of_sequence(&p->source.v.cache, p->work.sequence);
    if (att_shares_scale(p->v)) {
        p->source.k.scale = att_cache_tensor_scale(&p->source.k.cache);
        p->source.v.scale = att_cache_tensor_scale(&p->source.v.cache);
    }
    if (p->v->qkv_scale == ATT_QKV_SCALE_KV_HEAD)
        p->source.q_scale = att_cache_head_scale(&p->source.k.cache, ARG_Q_DESCALE,
                                                 p->work.sequence, p->work.kv_head);
}

/* Sets attention.at's members for the rows of a custom mask: `mask`, an address, and `mask_row`,
 * the byte offset of each query's row from there. `t` is the type of an i32 for each query. Queries
 * after the sequence's last one get the last query's row. A sequence without keys has no rows, so
 * the first bytes of mask_indptr are loaded instead. */
static void find_mask(struct prefill *p, struct tir_type t)
{
    struct tir_builder *b = &p->b;
    struct att_position *const at = &p->attention.at;
    const struct tir_value query =
        tir_min(b, tir_add(b, tir_col_index(b, t), tir_splat(b, p->work.row0, t)),
                tir_splat(b, att_plus(b, p->work.q_len, -1), t));
    const struct tir_value some = tir_cmp_gt(b, p->work.kv_len, tir_i32(b, 0));
    const struct tir_value row = att_mask_row(&p->attention, p->work.sequence, query);
    const struct tir_value used = tir_select(b, some, tir_i64(b, -1), tir_i64(b, 0));
    at->mask_row = tir_and(b, row, att_like(b, used, row));
    at->mask = tir_select(b, some, tir_arg(b, ARG_CUSTOM_MASK, TIR_I64),
                          tir_arg(b, ARG_MASK_INDPTR, TIR_I64));
    prefill_find_last_keys(p);
}

struct tir_value prefill_first_position(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (!p->v->planned)
        return tir_add(b, p->work.row0, p->work.offset);
    return tir_add(b, p->item.position, tir_div(b, p->work.row0, p->item.gqa));
}

/* Returns the index (i32) of the wave in its key group. */
static struct tir_value own_wave(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value wave = tir_wave_id(b);
    const int waves = (int)(p->tile->waves / prefill_groups(p));
    return prefill_groups(p) == 1 ? wave : tir_and(b, wave, tir_i32(b, waves - 1));
}

/* Sets attention.at, the positions of the workgroup's queries, which are the columns of S^T. A wave
 * has tile->rows queries. */
static void find_position(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    struct att_position *const at = &p->attention.at;
    const bool window = p->v->mask == ATT_MASK_WINDOW;
    const struct tir_value first = tir_add(b, prefill_first_row(p), p->work.offset);
    const struct tir_type t = tir_with_dtype(p->attention.softmax.vector, TIR_I32);
    *at = (struct att_position){
        .q_len = p->work.q_len,
        .kv_len = p->work.kv_len,
        .end = p->work.kv_len,
        .diagonal = tir_add(b, tir_col_index(b, t), tir_splat(b, first, t)),
        .lowest = tir_add(b, first, att_times(b, own_wave(p), (int)p->tile->rows)),
        .head = prefill_own_head(p),
        .right = window ? tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32) : tir_i32(b, 0),
    };
    at->highest = att_plus(b, at->lowest, (int)p->tile->rows - 1);
    if (att_hides_early(p->v))
        at->reach = att_reach(b, p->v);
    if (att_has_mask_rows(p->v))
        find_mask(p, t);
}

/* Returns the number of blocks (i32) from work.first_key to key `end` (i32), at least 1. A block
 * has a tile for each key group. */
static struct tir_value count_blocks(struct prefill *p, struct tir_value end)
{
    struct tir_builder *b = &p->b;
    const unsigned all = p->tile->keys * prefill_groups(p);
    const struct tir_value keys = att_plus(b, tir_sub(b, end, p->work.first_key), (int)all - 1);
    return tir_max(b, tir_sar(b, keys, tir_i32(b, (int)tir_bits(all))), tir_i32(b, 1));
}

/* Sets work.first_key to the start of the tile of keys that contains the first key that any query
 * of the workgroup sees. */
static void find_first_key(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->work.first_key = tir_i32(b, 0);
    if (att_hides_early(p->v)) {
        const struct tir_value from =
            att_first_seen(b, p->v, att_reach(b, p->v), tir_add(b, p->work.row0, p->work.offset));
        p->work.first_key =
            tir_and(b, tir_max(b, from, tir_i32(b, 0)), tir_i32(b, -(int)p->tile->keys));
    }
}

/* Sets work.first_key: find_first_key(). Returns the number of blocks (i32) of keys from there to
 * the last one that any query sees, at least 1. */
static struct tir_value count_tiles(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (p->v->planned)
        return count_blocks(p, p->attention.at.end);
    const struct tir_value rows =
        tir_min(b, tir_sub(b, p->work.q_len, p->work.row0), prefill_tile_tokens(p));
    struct tir_value end = p->work.kv_len;
    if (att_hides_late(p->v)) {
        const struct tir_value reach = tir_add(b, tir_add(b, p->work.row0, rows), p->work.offset);
        end = tir_min(b, end, tir_add(b, reach, p->attention.at.right));
    }
    find_first_key(p);
    return count_blocks(p, end);
}

void prefill_fetch(struct prefill *p)
{
    find_first_key(p);
    prefill_locate_keys(p);
    if (p->work.gqa.id) { /* a tile without queries has no row of Q to gather */
        const struct tir_value some = tir_cmp_lt(&p->b, p->work.row0, p->work.q_len);
        struct tir_if there = tir_begin_if(&p->b, some, false, NULL, 0);
        prefill_copy_q(p, 0);
        tir_end_if(&p->b, &there, NULL);
    } else {
        prefill_copy_q(p, 0);
    }
    prefill_copy_first_keys(p);
}

/* Issues the copy of the first tile of K together with Q, where LDS has separate room for both. The
 * loop copies the same tile again; these rows come from the L1. */
static void copy_first_keys_early(struct prefill *p)
{
    if (!p->v->paged && !prefill_fetches_ahead(p) && p->staging.home != PREFILL_KV_ROOM)
        prefill_copy_first_keys(p);
}

/* Initialises the loop's carried values (O, m, l) while Q is in flight. Otherwise LLVM would set O
 * to zero later, just before the loop. Kernels of one wave per SIMD have O in accumulation
 * registers, which an anchor would copy. */
static void begin_state(struct prefill *p)
{
    const unsigned dv = prefill_dv(p), queries = prefill_queries(p);
    const struct tir_layout o = tir_mma_result(prefill_mma(p), dv, queries, prefill_waves(p));
    att_attention_begin(&p->attention, tir_tile(p->b.f, TIR_F32, dv, queries, &o), p->carried);
    if (p->tile->waves > 4)
        p->carried[ATT_CARRY_O] = tir_materialize(&p->b, p->carried[ATT_CARRY_O]);
}

/* True if the loop's instructions are padded to 8 bytes. Loops with a soft cap, a hook or an fp8
 * cache take longer with padding in modelled time. */
static bool has_even_code(const struct prefill *p)
{
    const bool wanted = p->tile->copy_bytes >= 16 || p->tile->own[PREFILL_EVEN_CODE];
    return wanted && prefill_side(p) == 32 && !att_scales_scores(p->v) &&
           !(p->v->paged && p->shape.dtype == TIR_FP8);
}

/* True if l is the sum of the rounded weights, added two at a time. The output is then a mean with
 * exactly the weights of the product P V, and loops are up to 4 % shorter in modelled time. An LSE
 * from that sum would have the weights' rounding error, so variants with LSE sum weights in f32. */
static bool sums_pairs(const struct prefill *p) { return prefill_bytes(p) == 2 && !p->v->lse; }

/* Returns tir_schedule.loop_at, the alignment of the loop's code: the tile's PREFILL_LOOP_AT, or if
 * that is 0 its PREFILL_EVEN_CODE, so that padded code begins a fetch window. */
static uint8_t loop_at(const struct prefill *p)
{
    const uint16_t *const own = p->tile->own;
    return (uint8_t)(own[PREFILL_LOOP_AT] ? own[PREFILL_LOOP_AT] : own[PREFILL_EVEN_CODE]);
}

/* Log2 of the largest bf16 weight: when a weight would exceed 2^64, O is rescaled. bf16 has the
 * exponents of O and l in f32. Weights use half of that range, and leave the other half for
 * values. */
enum { BF16_ROOM = 64 };

/* Returns att_attention.room, the log2 of the largest weight; 0: the default. A lane's sum of 32
 * fp16 weights stays below 2^13 if no weight exceeds 2^8. */
static uint8_t room(const struct prefill *p)
{
    enum { FP16_SUM_ROOM = 13 };
    if (p->shape.dtype == TIR_BF16)
        return BF16_ROOM;
    return prefill_checks_weights(p) && p->value.tail != PREFILL_TAIL_SUM ? FP16_SUM_ROOM : 0;
}

/* Returns att_attention.packed_eighths, the eighths of a tile's weights that are rounded to 16 bits
 * in the first part of the exponentials. Rounded weights take half of the registers. Sums by
 * products need no weights in f32. */
static uint8_t packed_eighths(const struct prefill *p)
{
    if (prefill_sums_by_product(p))
        return prefill_late_eighths(p);
    return p->value.tail == PREFILL_TAIL_SUM && prefill_checks_weights(p);
}

/* Sets p->attention, except its member `at`. */
static void describe_attention(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    p->attention = (struct att_attention){
        .b = b,
        .v = p->v,
        .product = p->shape.product,
        .dtype = p->shape.dtype,
        .family = p,
        .first_key = prefill_key_of_block,
        .room = room(p),
        .check = prefill_find_check(p),
        .wide_powers = has_even_code(p),
        .late_eighths = prefill_late_eighths(p),
        .packed_eighths = packed_eighths(p),
        .ties_any = true,
        .in_agprs = prefill_is_one_wave(p) && prefill_residents(p->tile) == 1,
        .value_parts = (uint8_t)(p->tile->keys / prefill_v_part_keys(p)),
        .cut = !p->m->has_cvt_pk_bf16 && !p->v->sinks,
        .sum_pairs = sums_pairs(p),
        .rest_product = prefill_rest_product(p),
        .sum_row = p->value.tail == PREFILL_TAIL_SUM ? (unsigned)p->v->head_dim_v : 0};
    if (p->value.tail == PREFILL_TAIL_REST)
        p->attention.rest = prefill_rest(p);
    struct tir_value scale = p->source.k.scale;
    if (p->source.q_scale.id)
        scale = scale.id ? tir_mul(b, p->source.q_scale, scale) : p->source.q_scale;
    att_attention_scale(&p->attention, p->shape.scores, scale);
    if (p->shape.dtype == TIR_FP8)
        att_attention_weights_fp8(&p->attention);
    else if (prefill_sums_by_product(p))
        att_attention_sum_by_product(&p->attention);
}

/* Builds the attention of the work tile p->work: loads of Q, the loop over tiles of keys, and the
 * output. */
static void attend(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (prefill_groups(p) > 1)
        p->work.group = tir_shr(b, tir_wave_id(b),
                                tir_i32(b, (int)tir_bits(p->tile->waves / prefill_groups(p))));
    find_scales(p);
    find_cache(p);
    describe_attention(p);
    if (p->v->planned)
        prefill_find_item_position(p);
    else
        find_position(p);
    if (p->staging.item_q != PREFILL_NO_ROOM)
        prefill_issue_q_rows(p);
    else if (!p->staging.bytes)
        prefill_load_q(p, 0);
    else if (!prefill_fetches_ahead(p))
        prefill_copy_q(p, 0);
    prefill_locate_keys(p);
    const struct tir_value n = count_tiles(p);
    if (!prefill_fetches_ahead(p))
        prefill_fill_padding(p);
    begin_state(p);
    struct tir_value requested = {0};
    if (p->source.kind == PREFILL_PAGE_COPIES)
        requested = prefill_request_pages(p);
    if (p->staging.item_q != PREFILL_NO_ROOM) {
        if (p->source.kind == PREFILL_PAGE_COPIES)
            prefill_copy_first_keys(p);
        prefill_store_q_rows(p);
        prefill_load_q(p, 0);
        prefill_await_q_reads(p);
    }
    if (p->staging.bytes) {
        copy_first_keys_early(p);
        prefill_await_q(p);
    }
    if (requested.id)
        tir_anchor(b, requested); /* one wait then covers Q and the page numbers */
    /* No wave reads O of the previous work tile from the padding's LDS any more. */
    if (prefill_fetches_ahead(p))
        prefill_fill_padding(p);

    struct tir_value *const carried = p->carried;
    struct tir_value kept[ATT_MOST_CARRY];
    const unsigned n_kept = att_attention_kept(&p->attention, carried, kept);
    if (prefill_splits_last_tiles(p))
        tir_only_copies(b, prefill_is_spare(p));
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), kept, n_kept);
    att_attention_unpack(&p->attention, kept, carried);
    att_begin_block(&p->attention, loop.index, carried);
    pipe_build(b, &p->plan, &p->attention);
    att_attention_kept(&p->attention, carried, kept);
    tir_end_for(b, &loop, kept, n_kept);
    att_attention_unpack(&p->attention, kept, carried);
}

/* Returns the schedule of the loop: the pipeline's schedule with the knobs of the tile. */
static struct tir_schedule schedule_of(const struct prefill *p)
{
    const uint16_t *const own = p->tile->own;
    /* True if two exponentials take more issue slots than a matrix instruction leaves to the
     * VALU. */
    const bool long_exp2 = 2 * p->m->exp_slots > prefill_mma(p)->shadow_slots;
    struct tir_schedule s = pipe_schedule(&p->plan);
    s.loop.unroll = prefill_unrolls(p) ? 2 : 1;
    s.loop.shift_early = (uint8_t)own[PREFILL_SHIFT_EARLY];
    s.cover = prefill_side(p) == 32 && long_exp2 ? TIR_COVER_MIXED : TIR_COVER_EVEN;
    s.even_code = has_even_code(p);
    s.bare_last = p->tile->late_maximum;
    s.hoist_vgprs = p->tile->hoist_vgprs;
    s.memory_priority = p->tile->memory_priority;
    s.early_priority = (uint8_t)own[PREFILL_EARLY_PRIORITY];
    s.loop_at = loop_at(p);
    s.fresh_lanes = prefill_has_few_registers(p);
    return s;
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct prefill p = prefill_with_tile(v, m, &tile);
    struct tir_func *f =
        att_begin_kernel(v, m, p.tile->waves, p.tile->waves / 4 * prefill_residents(&tile));
    p.b = tir_at_end(f, f->body);
    reserve(&p);
    if (v->planned)
        prefill_walk_items(&p, attend);
    else
        prefill_walk_tiles(&p, attend);
    tir_return(&p.b);

    const int groups = prefill_workgroups(&p);
    *k = (struct att_kernel){
        .func = f,
        .schedule = schedule_of(&p),
        .workgroups_most = (uint16_t)groups,
        .grid = {{ARG_HEADS, 1, 1},
                 {ARG_BATCH, 1, 1},
                 {ARG_MAX_SEQLEN_Q, (int)prefill_queries(&p), 1}},
    };
    if (v->planned) {
        k->grid[0] = (struct att_grid){ARG_WORKGROUPS, 1, 1};
        k->grid[1] = k->grid[2] = (struct att_grid){NULL, 1, 1};
    }
    snprintf(k->tuning, sizeof(k->tuning), "q=%u kv=%u waves=%u stages=%d pingpong=%d",
             prefill_queries(&p), p.tile->keys, p.tile->waves, k->schedule.loop.stages,
             k->schedule.loop.roles);
    if (prefill_groups(&p) > 1)
        snprintf(k->tuning + strlen(k->tuning), sizeof(k->tuning) - strlen(k->tuning),
                 " key_groups=%u", prefill_groups(&p));
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
            "key_groups", "whole_heads", "early_priority", "workgroups", "even_code",
            "fresh_offsets", "most_keys", "halves", "side"},
    .renamed = {"alone", "workgroups"},
    .n_knobs = PREFILL_N_KNOBS,
    .pipelines = prefill_pipelines,
    .rules = prefill_rules,
    .fitted = prefill_fitted,
    .n_fitted = PREFILL_N_FITTED,
    .fits = prefill_fits,
    .check = prefill_check,
    .second = prefill_second,
    .build = build,
};
