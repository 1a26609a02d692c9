/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes the weighted sum of a group's tokens in op compress: a softmax over the tokens
 * for each element, with a running maximum. The window is the group's tokens, and with overlap the
 * tokens of the group before it. A step loads up to STEP tokens together; tokens after the window
 * are not read.
 */
#include "templates/compress/compress.h"
#include "ir/address_map.h"
#include "templates/linear/sequence.h"
#include "templates/workgroup/barrier.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* STEP: most tokens that are loaded together. FLOAT: bytes of an f32. SUMS: members of struct sum.
 * MOST_WAVES: most waves of a workgroup. */
enum { STEP = 8, FLOAT = 4, SUMS = 3, MOST_WAVES = 16 };

static const float LOWEST = -3e38f; /* the running maximum before the first score */

const struct compress_source compress_x = {ARG_X, ARG_X_TOKEN_STRIDE, ARG_STATE,
                                           ARG_STATE_SLOT_STRIDE, ARG_STATE_TOKEN_STRIDE};
const struct compress_source compress_scores = {ARG_SCORES, ARG_SCORES_TOKEN_STRIDE,
                                                ARG_STATE_SCORES, ARG_STATE_SCORES_SLOT_STRIDE,
                                                ARG_STATE_SCORES_TOKEN_STRIDE};

struct tir_value compress_ring_row(struct compress *c, const struct compress_source *s,
                                   struct tir_value slot, struct tir_value place)
{
    struct tir_builder *b = &c->b;
    const struct tir_value at = tir_add(b, att_offset(b, slot, s->slot_stride, c->size),
                                        att_offset(b, place, s->ring_stride, c->size));
    return att_at(b, s->ring, at);
}

struct tir_value compress_row_of(struct compress *c, const struct compress_source *s,
                                 struct tir_value token, struct tir_value place)
{
    struct tir_builder *b = &c->b;
    const struct tir_value row = tir_add(b, c->start, tir_sub(b, token, c->first));
    const struct tir_value in_call =
        att_row(b, tir_arg(b, s->rows, TIR_I64), row, s->rows_stride, c->size);
    return tir_select(b, tir_cmp_lt(b, token, c->first), compress_ring_row(c, s, c->slot_in, place),
                      in_call);
}

struct tir_value compress_load(struct compress *c, struct tir_value base, struct tir_value there)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0), rows = tir_select(b, there, tir_i32(b, 1), zero);
    return tir_tile_load(b, att_view(b, base, rows, zero, c->v->head_dim * c->size, 0), zero,
                         c->raw);
}

/* A token of the window: the tokens that a row of the pool adds up. */
struct member {
    struct tir_value token; /* i32: index of the token in the sequence */
    struct tir_value place; /* i32: index of the token's row in the ring */
    struct tir_value own;   /* i32: index of the token in its own group */
    /* i64: index of the token's first element in its row: 0, or head_dim for the second half of a
     * row with overlap */
    struct tir_value byte;
    /* i1: true if the window and the sequence have this token; false: its weight is 0 */
    struct tir_value there;
};

/* Returns token i (i32: index) of the window. The window begins with token `from` (i32) of the
 * sequence, which is at row `place` (i32) of the ring. */
static struct member find_member(struct compress *c, struct tir_value i, struct tir_value from,
                                 struct tir_value place)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0), token = tir_add(b, from, i);
    const struct tir_value at = tir_add(b, place, i), late = tir_cmp_ge(b, i, c->ratio);
    const struct tir_value wraps = tir_cmp_ge(b, at, c->ring);
    const struct tir_value column = tir_and(b, late, tir_cmp_ne(b, c->overlap, zero));
    return (struct member){
        .token = token,
        .place = tir_select(b, wraps, tir_sub(b, at, c->ring), at),
        .own = tir_select(b, late, tir_sub(b, i, c->ratio), i),
        .byte = tir_select(b, column, tir_i64(b, c->v->head_dim), tir_i64(b, 0)),
        .there = tir_and(b, tir_cmp_lt(b, i, c->window), tir_cmp_ge(b, token, zero)),
    };
}

/* Issues the load of the head_dim elements of token `m` from source `s`; zeros if `there` (i1) is
 * false. */
static struct tir_value load_member(struct compress *c, const struct compress_source *s,
                                    const struct member *m, struct tir_value there)
{
    struct tir_builder *b = &c->b;
    const struct tir_value column = tir_mul(b, m->byte, tir_i64(b, c->size));
    const struct tir_value row = compress_row_of(c, s, m->token, m->place);
    return compress_load(c, tir_add(b, row, column), there);
}

/* Issues the load of the position embedding (argument ape) that is added to the scores of token
 * `m`; zeros if the argument is NULL. */
static struct tir_value load_ape(struct compress *c, const struct member *m)
{
    struct tir_builder *b = &c->b;
    const struct tir_value there = tir_and(b, m->there, att_is_given(b, ARG_APE));
    const struct tir_value rows = tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0));
    const struct tir_value width =
        /* Elements of a row: twice head_dim with overlap. */
        tir_shl(b, tir_i32(b, c->v->head_dim), c->overlap);
    const struct tir_value at = tir_add(b, att_wide(b, tir_mul(b, m->own, width)), m->byte);
    const struct tir_value base = att_at(b, ARG_APE, tir_mul(b, at, tir_i64(b, FLOAT)));
    return tir_tile_load(b, att_view(b, base, rows, tir_i32(b, 0), c->v->head_dim * FLOAT, 0),
                         tir_i32(b, 0), c->row);
}

/* A sum of weighted tokens, separately for each element (tiles of 1 x head_dim). `top` is the
 * largest score times log2(e). `weights` is the sum of the weights, and `z` the weighted sum of x.
 * Both are divided by 2^top. */
struct sum {
    struct tir_value top, weights, z;
};

/* Returns the number of registers of a lane for a row of f32. */
static unsigned row_registers(const struct compress *c)
{
    return (unsigned)c->v->head_dim / tir_lanes(c->m);
}

/* Returns the number of tokens that are loaded together: STEP, or fewer where their x, scores and
 * position embeddings would take too many registers. */
static int step_of(const struct compress *c)
{
    enum { LOADED = 3 /* rows of a token */ };
    unsigned n = STEP;
    while (n > 1 && n * LOADED * row_registers(c) > compress_registers(c))
        n /= 2;
    return (int)n;
}

/* Returns sum `before` plus step_of() tokens of the window from token i (i32) on. The window begins
 * with token `from` (i32) at row `place` (i32) of the ring. */
static struct sum add_members(struct compress *c, struct tir_value i, struct tir_value from,
                              struct tir_value place, const struct sum *before)
{
    struct tir_builder *b = &c->b;
    const struct tir_value scored = att_is_given(b, ARG_SCORES);
    struct member m[STEP];
    struct tir_value x[STEP], scores[STEP], ape[STEP];
    const int step = step_of(c);
    for (int j = 0; j < step; j++) {
        m[j] = find_member(c, att_plus(b, i, j), from, place);
        x[j] = load_member(c, &compress_x, &m[j], m[j].there);
        scores[j] = load_member(c, &compress_scores, &m[j], tir_and(b, m[j].there, scored));
        ape[j] = load_ape(c, &m[j]);
    }
    struct sum sum = {.top = before->top};
    for (int j = 0; j < step; j++) {
        const struct tir_value none =
            tir_select(b, m[j].there, tir_f32(b, 0.0f), tir_f32(b, -INFINITY));
        const struct tir_value score = tir_add(b, tir_convert(b, scores[j], TIR_F32), ape[j]);
        scores[j] =
            tir_fma(b, score, tir_float_like(b, score, ATT_LOG2E), tir_splat(b, none, c->row));
        sum.top = tir_max(b, sum.top, scores[j]);
    }
    const struct tir_value rescale = tir_exp2(b, tir_sub(b, before->top, sum.top));
    sum.weights = tir_mul(b, before->weights, rescale);
    sum.z = tir_mul(b, before->z, rescale);
    for (int j = 0; j < step; j++) {
        const struct tir_value w = tir_exp2(b, tir_sub(b, scores[j], sum.top));
        sum.weights = tir_add(b, sum.weights, w);
        sum.z = tir_fma(b, w, tir_convert(b, x[j], TIR_F32), sum.z);
    }
    return sum;
}

unsigned compress_shared_bytes(const struct compress *c)
{
    return c->shared ? (unsigned)(c->tile.waves * SUMS * c->v->head_dim * FLOAT) : 0;
}

unsigned compress_sum_registers(const struct compress *c)
{
    return (unsigned)c->tile.waves * SUMS * row_registers(c);
}

/* Returns the LDS address (i32) of member `part` (index in struct sum) of the sum of wave `wave`
 * (i32). */
static struct tir_value place_of(struct compress *c, struct tir_value wave, int part)
{
    struct tir_builder *b = &c->b;
    const int row = c->v->head_dim * FLOAT;
    const struct tir_value first = tir_add(b, c->lds, att_times(b, wave, SUMS * row));
    return att_plus(b, first, part * row);
}

/* Returns the sum over all waves, which exchange their sums through LDS. `own` is this wave's
 * sum. */
static struct sum join_waves(struct compress *c, const struct sum *own)
{
    struct tir_builder *b = &c->b;
    const struct tir_layout map = tir_row_major(1, (unsigned)c->v->head_dim);
    const struct tir_value parts[SUMS] = {own->top, own->weights, own->z}, wave = tir_wave_id(b);
    struct tir_value all[MOST_WAVES][SUMS];
    tir_barrier(b); /* after this barrier no wave reads sums of the previous group */
    for (int i = 0; i < SUMS; i++)
        tir_tile_lds_store(b, place_of(c, wave, i), parts[i], &map);
    att_lds_barrier(b);
    struct sum sum = {0};
    for (int w = 0; w < c->tile.waves; w++)
        for (int i = 0; i < SUMS; i++)
            all[w][i] = tir_tile_lds_load(b, place_of(c, tir_i32(b, w), i), c->row, &map);
    for (int w = 0; w < c->tile.waves; w++)
        sum.top = w ? tir_max(b, sum.top, all[w][0]) : all[w][0];
    for (int w = 0; w < c->tile.waves; w++) {
        const struct tir_value scale = tir_exp2(b, tir_sub(b, all[w][0], sum.top));
        const struct tir_value weights = tir_mul(b, all[w][1], scale);
        sum.weights = w ? tir_add(b, sum.weights, weights) : weights;
        sum.z = w ? tir_fma(b, all[w][2], scale, sum.z) : tir_mul(b, all[w][2], scale);
    }
    return sum;
}

/* Returns the sum of the tokens of the window that begins with token `from` (i32): over all tokens
 * of the window, or over this wave's share of them if waves share a group. */
static struct sum add_window(struct compress *c, struct tir_value from)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0.0f), c->row);
    const struct tir_value place = tir_rem(b, tir_add(b, from, c->ring), c->ring);
    const int own = step_of(c), step = c->shared ? own * c->tile.waves : own;
    const struct tir_value first = c->shared ? att_times(b, tir_wave_id(b), own) : tir_i32(b, 0);
    struct tir_value carried[SUMS] = {tir_float_like(b, zero, LOWEST), zero, zero};
    struct tir_loop loop = tir_begin_for(b, first, c->window, tir_i32(b, step), carried, SUMS);
    const struct sum so_far = {carried[0], carried[1], carried[2]};
    const struct sum sum = add_members(c, loop.index, from, place, &so_far);
    const struct tir_value now[SUMS] = {sum.top, sum.weights, sum.z};
    memcpy(carried, now, sizeof(now));
    tir_end_for(b, &loop, carried, SUMS);
    return (struct sum){carried[0], carried[1], carried[2]};
}

struct tir_value compress_pool(struct compress *c, struct tir_value group)
{
    struct tir_builder *b = &c->b;
    const struct tir_value before = tir_mul(b, c->ratio, c->overlap);
    struct sum sum = add_window(c, tir_sub(b, tir_mul(b, group, c->ratio), before));
    if (c->shared)
        sum = join_waves(c, &sum);
    const struct tir_value least = tir_float_like(b, sum.weights, FLT_MIN);
    return tir_mul(b, sum.z, tir_rcp(b, tir_max(b, sum.weights, least)));
}
