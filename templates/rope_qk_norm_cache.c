/* SPDX-License-Identifier: Apache-2.0
 *
 * Transforms the output of a layer's QKV projection for attention, in one pass:
 *
 *   x = x + bias                                  q, k, v
 *   x = x rsq(mean(x^2) + eps) w                  q, k: per head, or with a given sum of squares
 *   (a, b) = (a cos - b sin, b cos + a sin)       q, k: pairs of elements, by position
 *
 * q is written to its output, k and v to the token's slot in a paged cache. A wave processes one
 * token at a time, so that position and slot are scalars. It goes over the heads tile by tile, and
 * loads the next tile while it computes one. A workgroup has a run of tokens, and reads weights and
 * biases only once for all of them. In launches of few tokens its waves share the heads of a token.
 *
 * The elements a and b of a pair are in two tiles of one layout, so the rotation needs no exchange
 * between lanes. NeoX pairs are rotary_dim / 2 apart, which takes two loads. GPT-J pairs are
 * adjacent: a load of one dword has both, and they are then separated. If half of rotary_dim is no
 * power of two, the pairs are divided into pieces of powers of two.
 */
#include "op_names.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>
#include <string.h>

/* Number of waves of a workgroup as the host (runtime/host_runs.c) counts workgroups, for every
 * tile. */
enum { COUNTED = 8 };

static const struct att_tile tiles[] = {
    {.waves = COUNTED,
     .own = {[ROPE_ELEMENTS] = 16},
     .why = "a lane's two loads of 16 bytes and its part of the weights"},
    {.waves = COUNTED, .own = {[ROPE_ELEMENTS] = 32}, .why = "heads of 512 in waves of 32 lanes"},
};

/* Candidates of `attnc tune`. A tile whose waves_per_simd is 0 gets the result of
 * waves_per_simd(). */
static const struct att_knob knobs[] = {
    {"waves", 2, {4, 16}},
    {"elements", 2, {8, 32}},
    {"waves_per_simd", 3, {2, 4, 8}},
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned usual = tiles[0].own[ROPE_ELEMENTS] << (TIR_WAVE_BITS - m->lane_bits);
    if (v->kv_scale == ATT_KV_SCALE_BLOCK &&
        (t->own[ROPE_ELEMENTS] > usual || t->waves_per_simd > 2))
        return att_reject(why, ATT_TILE, "a page that is rounded again takes the registers");
    const int dim = v->head_dim > v->head_dim_v ? v->head_dim : v->head_dim_v;
    if (dim >= (int)tir_lanes(m) * t->own[ROPE_ELEMENTS])
        return att_reject(why, ATT_TILE,
                          "a head of %d takes all lanes of a wave with %d elements each", dim,
                          t->own[ROPE_ELEMENTS]);
    return !t->waves_per_simd || att_fits_waves(v, t, m, why);
}

/* True if half of `rotary`, the elements that rotate, is a multiple of the elements of a dword as q
 * and k are stored. If not, or if half is too many powers of two, the reason is in `why`. */
static bool check_rotary_dim(const struct att_variant *v, int rotary, struct att_why *why)
{
    const int cache = (int)tir_dtype_bits(att_cache_dtype(v)) / 8, half = rotary / 2;
    const int elements = v->out_dtype == ATT_OUT_DTYPE_FP8 || cache == 1 ? 4 : 2;
    if (rotary > v->head_dim)
        return att_reject(why, ATT_ROTARY_DIM, "rotary_dim %d is more than head_dim %d", rotary,
                          v->head_dim);
    if (rotary % (2 * elements))
        return att_reject(why, ATT_ROTARY_DIM,
                          "rotary_dim %d is not a multiple of %d: half of it has to be whole "
                          "stores of %d elements",
                          rotary, 2 * elements, elements);
    const int most = elements == 4 ? ROPE_FEW_PIECES : ROPE_MAX_PIECES;
    if (__builtin_popcount((unsigned)half) > most)
        return att_reject(why, ATT_ROTARY_DIM,
                          "rotary_dim %d: half of it is more than %d powers of two", rotary, most);
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    const int rotary = rope_rotary_dim(v);
    const int step = 16 * 8 / (int)tir_dtype_bits(att_cache_dtype(v));
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_LAYOUT,
                          "rows of kv_layout packed are not written by this op");
    if (v->head_dim % step || v->head_dim < 16 || v->head_dim > 512)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not a multiple of %d from 16 to 512",
                          v->head_dim, step);
    if (rotary && !check_rotary_dim(v, rotary, why))
        return false;
    if (v->head_dim_v % step || v->head_dim_v < 16 || v->head_dim_v > 512)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d is not a multiple of %d from 16 to 512", v->head_dim_v,
                          step);
    if (v->head_dim_v > 2 * v->head_dim)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d is more than twice head_dim %d: as many heads of it as a "
                          "tile has would not fit the registers",
                          v->head_dim_v, v->head_dim);
    if (v->mrope != ATT_MROPE_NONE && !rotary)
        return att_reject(why, ATT_MROPE, "without rotation there are no sections of it");
    if (v->kv_scale == ATT_KV_SCALE_BLOCK && !att_cache_check_dims(v, why))
        return false;
    return att_cache_check(v, why) && att_find_tile(v, m, &tile, why);
}

/* Sets s->first and s->end, the heads of share `part` (i32) of a token's s->all heads. There are
 * 2^shift shares (shift: i32), each of the same number of whole tiles of heads. The last shares may
 * have fewer heads. */
static void share_out(struct rope *p, struct tir_value part, struct tir_value shift,
                      struct rope_source *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value tile = tir_shl(b, tir_i32(b, p->rows), shift);
    const struct tir_value tiles =
        tir_shr(b, att_plus(b, tir_add(b, s->all, tile), -1),
                tir_add(b, shift, tir_i32(b, __builtin_ctz((unsigned)p->rows))));
    const struct tir_value share = att_times(b, tiles, p->rows);
    s->first = tir_mul(b, part, share);
    s->end = tir_min(b, s->all, tir_add(b, s->first, share));
}

/* Sets s->base to the token's address in the input tensor of `s`, and issues the loads of its first
 * tile of heads into first[]. */
static void open_token(struct rope *p, struct rope_source *s, struct tir_value *first)
{
    s->base = rope_token_base(p, &s->in);
    rope_fetch(p, s, s->first, first);
}

/* Stores the token's v in the cache, unless the workgroup stores v of several tokens at once
 * (p->gathers). Each of the two ways loads the arguments of v's tensors itself, since scalar
 * registers do not suffice to keep them for both. */
static void visit_few_values(struct rope *p, struct rope_source of[ROPE_SOURCES])
{
    struct tir_builder *b = &p->b;
    struct tir_value first[ROPE_MAX_SPANS];
    struct tir_if few = att_begin_if(b, tir_xor(b, p->gathers, tir_bool(b, true)));
    rope_open_source(p, &of[2], ROPE_V);
    open_token(p, &of[2], first);
    rope_visit_kv(p, &of[2], first, true);
    tir_end_if(b, &few, NULL);
}

/* Processes q, k and v of token p->token. With kv_scale block (p->by_pages) it processes only q. */
static void visit_token(struct rope *p, struct rope_source of[ROPE_SOURCES])
{
    struct tir_value first[3][ROPE_MAX_SPANS];
    const int n = p->by_pages ? 1 : rope_gathers_values(p) ? 2 : 3;
    for (int i = 0; i < n; i++)
        open_token(p, &of[i], first[i]);
    if (p->v->rope != ATT_ROPE_NONE)
        rope_find_angles(p);
    if (n > 1)
        rope_load_slot(p);
    rope_visit_q(p, &of[0], first[0]);
    if (p->v->gate)
        rope_visit_gate(p, &of[ROPE_Q], &of[ROPE_GATE]);
    if (n == 1)
        return;
    rope_visit_kv(p, &of[1], first[1], false);
    if (n == 3)
        rope_visit_kv(p, &of[2], first[2], true);
    else
        visit_few_values(p, of);
}

/* Returns an i1: true if this workgroup stores v of several tokens at once, after q and k of all
 * its tokens. The workgroup has `run` consecutive tokens (i32), which must fill a store of 16 bytes
 * of V in SHUFFLE. Argument slot_mapping must not be NULL. */
static struct tir_value gathers(struct rope *p, struct tir_value run)
{
    struct tir_builder *b = &p->b;
    const int x = 16 * 8 / (int)tir_dtype_bits(att_cache_dtype(p->v));
    const struct tir_value slots = att_is_given(b, ARG_SLOT_MAPPING);
    return tir_and(b, slots, tir_cmp_ge(b, run, tir_i32(b, x)));
}

/* Sets of[], the sources of heads (q, k, v and gate), from the arguments, once for all tokens.
 * `part` (i32) is the number of this wave's share of a token's heads; there are 2^shift shares
 * (shift: i32). */
static void open_sources(struct rope *p, struct tir_value part, struct tir_value shift,
                         struct rope_source of[ROPE_SOURCES])
{
    struct tir_builder *b = &p->b;
    const int dim = p->v->head_dim;
    of[ROPE_Q] = (struct rope_source){
        .weight = {.tensor = ARG_Q_WEIGHT},
        .bias = {ARG_Q_BIAS, .stride = p->v->gate ? 2 * dim : 0},
        .squares = ARG_Q_SQUARES,
        .share = ARG_Q_SQUARES_SHARE,
        .shape = &p->rotated,
    };
    of[ROPE_K] = (struct rope_source){
        .weight = {.tensor = ARG_K_WEIGHT},
        .bias = {.tensor = ARG_K_BIAS},
        .squares = ARG_K_SQUARES,
        .share = ARG_K_SQUARES_SHARE,
        .shape = &p->rotated,
    };
    of[ROPE_V] = (struct rope_source){.bias = {.tensor = ARG_V_BIAS}, .shape = &p->values};
    of[ROPE_GATE] = (struct rope_source){
        .bias = {ARG_Q_BIAS, .first = dim, .stride = 2 * dim},
        .shape = &p->gates,
    };
    for (int i = 0; i < (p->v->gate ? ROPE_SOURCES : ROPE_GATE); i++) {
        const bool of_q = i == ROPE_Q || i == ROPE_GATE;
        of[i].all = tir_arg(b, of_q ? ARG_HEADS : ARG_KV_HEADS, TIR_I32);
        share_out(p, part, shift, &of[i]);
        if (of[i].weight.tensor)
            rope_load_weights(p, &of[i]);
    }
    rope_keep_vectors(p, of);
    const bool late = rope_opens_late(p);
    for (int i = 0; i < (p->by_pages ? 1 : rope_gathers_values(p) ? 2 : 3); i++) {
        rope_open_source(p, &of[i], (enum rope_part)i);
        if (i != ROPE_Q && !late)
            rope_open_kept(p, &of[i], i == ROPE_V);
    }
    if (p->v->gate && !late)
        of[ROPE_GATE].out = rope_open_tensor(p, ATT_HEADS(GATE), ROPE_ELEM);
    const struct tir_value none = att_is_null(b, ARG_V_IN);
    of[ROPE_V].end = tir_select(b, none, tir_i32(b, 0), of[ROPE_V].end);
}

/* Processes the tokens of this workgroup. Each wave processes one token after the other, or several
 * waves share the heads of one token. */
static void visit_tokens(struct rope *p)
{
    struct tir_builder *b = &p->b;
    struct rope_source of[ROPE_SOURCES];
    p->wave = tir_wave_id(b);
    struct tir_value shift = tir_arg(b, ARG_HEAD_PART_SHIFT, TIR_I32);
    if (p->waves < COUNTED)
        shift = tir_min(b, shift, tir_i32(b, __builtin_ctz((unsigned)p->waves)));
    const struct tir_value member = tir_shr(b, p->wave, shift);
    open_sources(p, tir_sub(b, p->wave, tir_shl(b, member, shift)), shift, of);

    const struct tir_value run = tir_arg(b, ARG_RUN_TOKENS, TIR_I32);
    const struct tir_value first = tir_mul(b, tir_block_id(b, 0), run);
    const struct tir_value end =
        tir_min(b, tir_add(b, first, run), tir_arg(b, ARG_TOKENS, TIR_I32));
    if (rope_gathers_values(p))
        p->gathers = gathers(p, run);
    struct tir_if others[2];
    for (int i = 0; i < 2 && p->by_pages; i++) {
        const struct tir_value here = tir_cmp_eq(b, tir_block_id(b, 1), tir_i32(b, 1 + i));
        others[i] = att_begin_if(b, here);
        rope_visit_pages(p, &of[1 + i], (enum rope_part)(1 + i), first, end);
        tir_else(b, &others[i], NULL);
    }
    struct tir_loop loop = tir_begin_for(b, tir_add(b, first, member), end,
                                         tir_shr(b, tir_i32(b, p->waves), shift), NULL, 0);
    p->token = loop.index;
    visit_token(p, of);
    tir_end_for(b, &loop, NULL, 0);
    for (int i = 1; i >= 0 && p->by_pages; i--)
        tir_end_if(b, &others[i], NULL);
    if (!rope_gathers_values(p))
        return;
    struct tir_if some = att_begin_if(b, p->gathers);
    rope_visit_values(p, &of[ROPE_V], first, end);
    tir_end_if(b, &some, NULL);
}

/* Returns the number of waves per SIMD, which limits the registers of a wave: the tile's number if
 * that is not 0. For other tiles it is 4. The number is 2 if a lane has more than 16 elements of a
 * head, v of several tokens, or a page to requantise. The number is not less than a SIMD's share of
 * one workgroup. */
static unsigned waves_per_simd(const struct rope *p, const struct att_tile *t)
{
    const bool wide = rope_lane_elements(p, &p->rotated) > 16;
    const unsigned usual = wide || rope_gathers_values(p) || p->by_pages ? 2 : 4;
    const unsigned least = t->waves / 4;
    return t->waves_per_simd ? t->waves_per_simd : usual > least ? usual : least;
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct rope p = {
        .v = v,
        .m = m,
        .dtype = att_dtype(v),
        .narrow_q = v->out_dtype == ATT_OUT_DTYPE_FP8,
        .by_pages = v->kv_scale == ATT_KV_SCALE_BLOCK,
    };
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    p.waves = tile.waves;
    p.elements = tile.own[ROPE_ELEMENTS];
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    p.b = tir_at_end(f, f->body);
    rope_choose_shapes(&p);
    f->waves_per_simd = waves_per_simd(&p, &tile);
    visit_tokens(&p);
    tir_return(&p.b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_TOKEN_RUNS, 1, 1}, {NULL, 1, p.by_pages ? 3 : 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d heads=%d", p.waves, p.rows);
}

const struct att_template att_template_rope_qk_norm_cache = {
    .name = "rope_qk_norm_cache",
    .description = "bias, QK norm, rotary embedding and KV cache write in one pass",
    .takes = OP_TAKES_ROPE_QK_NORM_CACHE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {[ROPE_ELEMENTS] = "elements"},
    .fits = fits,
    .check = check,
    .build = build,
};
