/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has the tiles of head_product, and says which variants and which launches each of its
 * kernels serves.
 */
#include "templates/head_product/pipelines/pipelines.h"

#include <stddef.h>

/* ROWS: rows of w of a wave. PANEL: columns of a panel of w. MAX_PANELS: most panels of a row.
 * BLOCK: columns, and rows, of w that share a scale. */
enum { ROWS = 32, PANEL = 64, MAX_PANELS = 8, BLOCK = 128 };

static const struct att_tile tiles[] = {
    {.head_dim = MAX_PANELS * PANEL,
     .waves_per_simd = 2,
     .own = {[HEAD_PRODUCT_ONE_X] = 1},
     .why = "many tokens of one x: the matrix units are the bound"},
    {.head_dim = 256, .waves_per_simd = 4, .why = "w and a tile of x leave room for a second one"},
    {.head_dim = MAX_PANELS * PANEL, .waves_per_simd = 2, .why = "a lane has so much of w"},
    {.head_dim = MAX_PANELS * PANEL,
     .waves_per_simd = 4,
     .own = {[HEAD_PRODUCT_SHARE_COLUMNS] = 1},
     .why = "few tokens: four waves share the columns of w"},
    {.head_dim = MAX_PANELS * PANEL,
     .waves_per_simd = 4,
     .own = {[HEAD_PRODUCT_STREAM] = 1},
     .why = "two tiles of tokens of many heads: HBM is the bound, and LDS takes all that it sends"},
};

static const struct att_knob knobs[] = {
    {"waves_per_simd", 5, {1, 2, 3, 4, 5}},
    {"hoist_vgprs", 2, {16, 64}},
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const bool much = v->head_dim == 256 && v->weights != ATT_WEIGHTS_SAME;
    if ((t->own[HEAD_PRODUCT_ONE_X] || t->own[HEAD_PRODUCT_STREAM]) && m->lane_bits < TIR_WAVE_BITS)
        return att_reject(why, ATT_TILE, "the tile is for waves of %d lanes", TIR_WAVE_LANES);
    if (t->own[HEAD_PRODUCT_ONE_X] && (!v->shared || t->waves_per_simd != 2))
        return att_reject(why, ATT_TILE, "the tile is for one x, and 2 waves a SIMD");
    if (t->own[HEAD_PRODUCT_ONE_X])
        return true;
    if (t->own[HEAD_PRODUCT_STREAM])
        return head_product_stream_fits(v, m, why);
    if (t->own[HEAD_PRODUCT_SHARE_COLUMNS] && v->head_dim != t->head_dim)
        return att_reject(why, ATT_TILE, "the tile is for x of %d columns", t->head_dim);
    return v->head_dim + much <= t->head_dim ||
           att_reject(why, ATT_TILE, "the tile has no registers for w of %d columns", v->head_dim);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->activations == ATT_ACTIVATIONS_FP8 && v->weights == ATT_WEIGHTS_SAME)
        return att_reject(why, ATT_ACTIVATIONS, "activations fp8 are for weights of fp8");
    const bool block = v->weights == ATT_WEIGHTS_FP8_BLOCK;
    const int multiple = block ? BLOCK : PANEL;
    if (v->head_dim % multiple || v->head_dim > MAX_PANELS * PANEL)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not a multiple of %d of at most %d",
                          v->head_dim, multiple, MAX_PANELS * PANEL);
    if (v->head_dim_v % (2 * ROWS) || v->head_dim_v > 512)
        return att_reject(why, ATT_HEAD_DIM_V,
                          "head_dim_v %d is not a multiple of 64 of at most 512", v->head_dim_v);
    if (v->shared && !head_product_shared_check(v, m, why))
        return false;
    return att_check_tile(v, m, why);
}

/* Returns 1 + the index of the first tile that fits the variant and has an x for each head. The
 * tile shares columns if `shares`, and streams w if `streams`. Returns 0 if there is no such
 * tile. */
static unsigned find_tile(const struct att_variant *v, const struct tir_machine *m, bool shares,
                          bool streams)
{
    for (unsigned i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++)
        if (!tiles[i].own[HEAD_PRODUCT_ONE_X] &&
            tiles[i].own[HEAD_PRODUCT_SHARE_COLUMNS] == shares &&
            tiles[i].own[HEAD_PRODUCT_STREAM] == streams && fits(v, &tiles[i], m, NULL))
            return i + 1;
    return 0;
}

/* Least and most tokens of launches that the streaming kernel serves, which have two tiles of
 * tokens. These launches also have at least one workgroup for every compute unit. For launches with
 * fewer, kernels with more workgroups take less time. */
enum { STREAM_LEAST = 33, STREAM_MOST = 64 };

/* Returns the streaming kernel of tile number `tile`, with the launches that it serves. */
static struct att_second stream_calls(const struct tir_machine *m, unsigned tile)
{
    return (struct att_second){.tile = tile,
                               .calls = {.rows = {{ARG_TOKENS, STREAM_LEAST, STREAM_MOST},
                                                  {ARG_WORKGROUPS, m->cus, INT32_MAX}},
                                         .count = 2}};
}

/* Returns the kernel whose waves share columns, tile number `tile`, with the launches that it
 * serves. attn_head_product_fill() decides which launches share columns. If `streams`, launches of
 * the streaming kernel are excluded. */
static struct att_second few_calls(const struct tir_machine *m, unsigned tile, bool streams)
{
    const struct att_when share = {ARG_SHARE_COLUMNS, 1, 1};
    if (!streams)
        return (struct att_second){.tile = tile, .calls = {.rows = {share}, .count = 1}};
    return (struct att_second){
        .tile = tile,
        .calls = {.rows = {share, {ARG_TOKENS, 0, STREAM_LEAST - 1}}, .count = 2},
        .also = {{.rows = {share, {ARG_TOKENS, STREAM_MOST + 1, INT32_MAX}}, .count = 2},
                 {.rows = {share,
                           {ARG_TOKENS, STREAM_LEAST, STREAM_MOST},
                           {ARG_WORKGROUPS, 0, m->cus - 1}},
                  .count = 3}}};
}

/* Sets *second to the n-th (from 0) other kernel for launches that are too small for the kernel
 * with one x for all heads. Returns false if there is none. Even for few tokens the main kernel
 * reads 256 rows of w for each compute unit. Launches of up to 128 tokens that share columns use
 * the kernel whose waves share columns. Other launches of at most one workgroup per compute unit
 * use the kernel with an x for each head. */
static bool second_of_shared(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                             struct att_second *second)
{
    enum { FEW_TOKENS = 128 };
    const unsigned few = find_tile(v, m, true, false), other = find_tile(v, m, false, false);
    const struct att_second calls[] = {
        {.tile = few,
         .calls = {.rows = {{ARG_SHARE_COLUMNS, 1, 1}, {ARG_TOKENS, 0, FEW_TOKENS}}, .count = 2}},
        {.tile = other,
         .calls = {.rows = {{ARG_SHARE_COLUMNS, 0, 0}, {ARG_WORKGROUPS, 0, m->cus}}, .count = 2}}};
    n += !few;
    if (n >= sizeof(calls) / sizeof(calls[0]) || !calls[n].tile)
        return false;
    *second = calls[n];
    return true;
}

/* Sets *second to the n-th (from 0) other kernel of the variant, with the launches that it serves.
 * Returns false if there is none. The function is att_template.second. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    if (v->shared && fits(v, &tiles[0], m, NULL))
        return second_of_shared(v, m, n, second);
    const unsigned few = find_tile(v, m, true, false), streams = find_tile(v, m, false, true);
    n += !few;
    if (n > 1 || !(n ? streams : few))
        return false;
    *second = n ? stream_calls(m, streams) : few_calls(m, few, streams);
    return true;
}

/* Builds the kernel of the variant's tile into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    if (tile.own[HEAD_PRODUCT_ONE_X])
        head_product_shared_build(v, m, k);
    else if (tile.own[HEAD_PRODUCT_STREAM])
        head_product_stream_build(v, m, &tile, k);
    else
        head_product_each_build(v, m, &tile, k);
}

const struct att_template att_template_head_product = {
    .name = "head_product",
    .description = "a product per head: absorption and up-projection of latent attention",
    .takes = OP_TAKES_HEAD_PRODUCT | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"share_columns", "one_x", "stream"},
    .fits = fits,
    .second = second,
    .pipelines = head_product_pipelines,
    .check = check,
    .build = build,
};
