/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes a row of a pool from each group of tokens. Compressed attention and its
 * indexers read these rows (DeepSeek-V4, GLM-5.3-Flash, Qwen3.8-Flash-Next). ops/compress.def has
 * the formula.
 *
 * A wave has a group of one sequence, or the waves of a workgroup share a group of more than 16
 * tokens. A token is a row of the call, or, if it is older than the call, a row of the sequence's
 * ring. Only a sequence's first two groups of the call have tokens in the ring. One workgroup has
 * both groups, and writes the ring after all of its waves have read it.
 */
#include "templates/compress/compress.h"
#include "templates/cache/cache.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/linear/sequence.h"

#include <stdio.h>

/* Index in att_tile.own: 1 if the waves of a workgroup share a group; 0: each wave has a group of
 * its own. */
enum { SHARED };

enum {
    SHARED_TOKENS = 17, /* fewest tokens of a group that waves share */
    RATIO_MAX = 128,    /* most tokens of a group */
};

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 2, .why = "eight rows of x and scores under way"},
    {.waves = 8,
     .waves_per_simd = 2,
     .own = {[SHARED] = 1},
     .why = "128 tokens in two steps of each wave"},
    {.waves = 4,
     .waves_per_simd = 2,
     .own = {[SHARED] = 1},
     .why = "waves share a group, where the sums of eight waves have no registers"},
};

static const struct att_knob knobs[] = {
    {"waves", 2, {2, 8}},
    {"waves_per_simd", 2, {1, 3}},
};

/* Returns the number of groups of a workgroup with tile `t`. If waves share a group, the result is
 * 1, although the first workgroup computes two groups. */
static int groups_of(const struct att_tile *t) { return t->own[SHARED] ? 1 : t->waves; }

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const struct compress c = {.v = v, .m = m, .tile = *t, .shared = t->own[SHARED]};
    if (compress_shared_bytes(&c) > m->lds_bytes)
        return att_reject(why, ATT_TILE, "sums of %d waves do not fit LDS", t->waves);
    if (c.shared && compress_sum_registers(&c) > compress_registers(&c))
        return att_reject(why, ATT_TILE, "the tile has no registers for the sums of %d waves",
                          t->waves);
    if (t->waves < 2)
        return att_reject(why, ATT_TILE, "a workgroup has the first two groups, a wave each");
    return att_fits_waves(v, t, m, why);
}

/* Sets *second to the kernel whose waves share a group, for calls with groups of at least
 * SHARED_TOKENS tokens. Returns false if n > 0, since there is one such kernel. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    for (unsigned i = 0; !n && i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        if (!tiles[i].own[SHARED] || !fits(v, &tiles[i], m, NULL))
            continue;
        *second = (struct att_second){
            .tile = i + 1,
            .calls = {.rows = {{ARG_RATIO, SHARED_TOKENS, RATIO_MAX}}, .count = 1},
        };
        return true;
    }
    return false;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const int dim = v->head_dim;
    if (dim != 128 && dim != 256 && dim != 512)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not 128, 256 or 512", dim);
    if (v->rope != ATT_ROPE_NONE && (v->rotary_dim > dim || !tir_is_power((unsigned)v->rotary_dim)))
        return att_reject(why, ATT_ROTARY_DIM, "rotary_dim %d is above head_dim or no power of two",
                          v->rotary_dim);
    if (v->norm == ATT_NORM_FULL)
        return att_reject(why, ATT_NORM, "rows have norm none, rms or gemma_rms");
    if (v->hadamard && dim != 128)
        return att_reject(why, ATT_HADAMARD, "the Hadamard matrix is of head_dim 128");
    if (v->kv_dtype != ATT_KV_DTYPE_SAME && v->kv_dtype != ATT_KV_DTYPE_FP8)
        return att_reject(why, ATT_KV_DTYPE, "rows are of dtype or fp8");
    if (att_is_pooled(v))
        return dim == 512 && v->kv_dtype == ATT_KV_DTYPE_FP8
                   ? att_check_tile(v, m, why)
                   : att_reject(why, ATT_KV_LAYOUT, "kv_layout %s is rows of 512, fp8",
                                att_layout_name(v));
    if (v->kv_layout == ATT_KV_LAYOUT_SHUFFLE ? dim != 128 : v->kv_layout != ATT_KV_LAYOUT_NHD)
        return att_reject(why, ATT_KV_LAYOUT, "rows are nhd, or shuffle with 128 elements");
    return att_check_tile(v, m, why);
}

/* Sets c->row and c->raw, the types of a row of the pool, and c->size. */
static void choose_types(struct compress *c)
{
    static const unsigned dtypes[] = {
        [ATT_STATE_DTYPE_F32] = TIR_F32,
        [ATT_STATE_DTYPE_BF16] = TIR_BF16,
        [ATT_STATE_DTYPE_FP16] = TIR_F16,
    };
    const unsigned dim = (unsigned)c->v->head_dim;
    const struct tir_layout l = tir_spread_chunks(c->m, 1, dim / tir_lanes(c->m), 1, dim);
    c->raw = tir_tile(c->b.f, dtypes[c->v->state_dtype], 1, dim, &l);
    c->row = tir_with_dtype(c->raw, TIR_F32);
    c->size = (int)tir_dtype_bits(c->raw.dtype) / 8;
}

/* Computes and stores the pool's row of a group, unless the group ends after the call's last token.
 * `number` (i32) counts groups from the group with the call's first token. */
static void visit_group(struct compress *c, struct tir_value number)
{
    struct tir_builder *b = &c->b;
    const struct tir_value group = tir_add(b, tir_div(b, c->first, c->ratio), number);
    const struct tir_value end = tir_mul(b, att_plus(b, group, 1), c->ratio);
    struct tir_if whole = att_begin_if(b, tir_cmp_le(b, end, c->end));
    const struct tir_value last = att_plus(b, tir_sub(b, end, c->first), -1);
    const struct tir_value z = compress_pool(c, group);
    const struct tir_value mine =
        c->shared ? tir_cmp_eq(b, tir_wave_id(b), tir_i32(b, 0)) : tir_bool(b, true);
    struct tir_if own = att_begin_if(b, mine);
    compress_finish(c, group, tir_add(b, c->start, last), z);
    tir_end_if(b, &own, NULL);
    tir_end_if(b, &whole, NULL);
}

/* Computes the pool's rows of the workgroup's groups: each wave has a group, or all waves compute
 * one group after the other. */
static void visit_groups(struct compress *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value block = tir_block_id(b, 0), zero = tir_i32(b, 0);
    if (!c->shared) {
        visit_group(c, tir_add(b, att_times(b, block, c->tile.waves), tir_wave_id(b)));
        return;
    }
    const struct tir_value begins = tir_cmp_eq(b, block, zero);
    const struct tir_value first = tir_select(b, begins, zero, att_plus(b, block, 1));
    const struct tir_value end = att_plus(b, block, 2);
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    visit_group(c, loop.index);
    tir_end_for(b, &loop, NULL, 0);
}

/* Copies token `token` (i32 index in the sequence) of source `s` to its row of the ring in c->slot,
 * if `there` (i1) is true. */
static void write_token(struct compress *c, const struct compress_source *s, struct tir_value token,
                        struct tir_value there)
{
    struct tir_builder *b = &c->b;
    const int bytes = c->v->head_dim * c->size;
    const struct tir_value zero = tir_i32(b, 0), place = tir_rem(b, token, c->ring);
    const struct tir_value from = compress_row_of(c, s, token, place);
    const struct tir_value to = compress_ring_row(c, s, c->slot, place);
    struct tir_value has[2] = {there, tir_and(b, there, tir_cmp_ne(b, c->overlap, zero))}, x[2];
    for (int half = 0; half < 2; half++)
        x[half] = compress_load(c, tir_add(b, from, tir_i64(b, (int64_t)half * bytes)), has[half]);
    for (int half = 0; half < 2; half++) {
        const struct tir_value rows = tir_select(b, has[half], tir_i32(b, 1), zero);
        const struct tir_value at = tir_add(b, to, tir_i64(b, (int64_t)half * bytes));
        tir_tile_store(b, att_view(b, at, rows, zero, bytes, 0), zero, x[half]);
    }
}

/* Returns an i1: true if no group of the call has tokens from before the call. In that case the
 * ring may be written at any time. */
static struct tir_value reads_no_ring(struct compress *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value begins = tir_cmp_eq(b, c->first, zero);
    const struct tir_value whole = tir_and(b, tir_cmp_eq(b, c->overlap, zero),
                                           tir_cmp_eq(b, tir_rem(b, c->first, c->ratio), zero));
    return tir_or(b, begins, whole);
}

/* Writes the call's tokens to the ring, or its last tokens if the ring has no room for all. The
 * waves of this workgroup and of `others` (i32) further workgroups divide the tokens. A call that
 * reads one slot and writes another also copies the older tokens that the next group may need. */
static void write_ring(struct compress *c, struct tir_value others)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value forks = tir_cmp_ne(b, c->slot, c->slot_in);
    const struct tir_value older = tir_sub(b, c->first, att_plus(b, c->window, -1));
    const struct tir_value kept = tir_max(b, tir_sub(b, c->end, c->ring), zero);
    const struct tir_value from = tir_max(b, tir_select(b, forks, older, c->first), kept);
    const struct tir_value before = att_times(b, tir_block_id(b, 0), c->tile.waves);
    const struct tir_value own = tir_add(b, from, tir_add(b, before, tir_wave_id(b)));
    const struct tir_value step = att_times(b, att_plus(b, others, 1), c->tile.waves);
    struct tir_loop loop = tir_begin_for(b, own, c->end, step, NULL, 0);
    write_token(c, &compress_x, loop.index, tir_bool(b, true));
    write_token(c, &compress_scores, loop.index, att_is_given(b, ARG_SCORES));
    tir_end_for(b, &loop, NULL, 0);
}

/* Computes this workgroup's groups of its sequence, and writes the ring. */
static void visit_sequence(struct compress *c)
{
    struct tir_builder *b = &c->b;
    const struct tir_value index = tir_block_id(b, 1);
    const struct att_sequence s = att_sequence_tokens(b, index);
    c->start = s.start;
    c->end = att_entry(b, ARG_CONTEXT_LENS, index, TIR_I32);
    c->first = tir_sub(b, c->end, s.count);
    c->slot = att_strided_entry(b, ARG_STATE_SLOTS, ARG_STATE_SLOTS_SEQUENCE_STRIDE, index);
    c->slot_in =
        att_strided_entry(b, ARG_STATE_SLOTS_IN, ARG_STATE_SLOTS_IN_SEQUENCE_STRIDE, index);
    const struct tir_value real = tir_and(b, att_is_slot(b, c->slot), att_is_slot(b, c->slot_in));
    struct tir_if has = att_begin_if(b, real);
    visit_groups(c);
    const struct tir_value zero = tir_i32(b, 0), is_first = tir_cmp_eq(b, tir_block_id(b, 0), zero);
    const int each = groups_of(&c->tile);
    const struct tir_value groups = tir_arg(b, ARG_GROUP_COUNT, TIR_I32);
    const struct tir_value blocks = tir_div(b, att_plus(b, groups, each - 1), tir_i32(b, each));
    const struct tir_value shares = reads_no_ring(c);
    struct tir_if writes = att_begin_if(b, tir_or(b, is_first, shares));
    /* Other waves may still read rows of the ring that this wave will overwrite in write_ring(). */
    tir_barrier(b);
    write_ring(c, tir_select(b, shares, att_plus(b, blocks, -1), zero));
    tir_end_if(b, &writes, NULL);
    tir_end_if(b, &has, NULL);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct compress c = {.v = v, .m = m};
    att_find_tile(v, m, &c.tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, c.tile.waves, c.tile.waves_per_simd);
    c.b = tir_at_end(f, f->body);
    struct tir_builder *b = &c.b;
    choose_types(&c);
    c.shared = c.tile.own[SHARED];
    if (c.shared)
        c.lds = tir_lds_buffer(b, compress_shared_bytes(&c), 16);
    c.ratio = tir_arg(b, ARG_RATIO, TIR_I32);
    c.overlap = tir_arg(b, ARG_OVERLAPS, TIR_I32);
    c.window = tir_shl(b, c.ratio, c.overlap);
    c.ring = tir_arg(b, ARG_RING, TIR_I32);
    visit_sequence(&c);
    tir_return(b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{ARG_GROUP_COUNT, groups_of(&c.tile), 1}, {ARG_BATCH, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "groups=%d waves=%d", groups_of(&c.tile),
             c.tile.waves);
}

const struct att_template att_template_compress = {
    .name = "compress",
    .description = "groups of tokens as rows of a pool: pooling, norm, rotation, fp8",
    .takes = OP_TAKES_COMPRESS | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"shared"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};
