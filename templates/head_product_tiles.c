/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of `head_product`: which variants there are, and which calls are for which kernel.
 */
#include "templates/head_product.h"

#include <stddef.h>

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
};

static const struct att_knob knobs[] = {
    {"waves_per_simd", 5, {1, 2, 3, 4, 5}},
    {"hoist_vgprs", 2, {16, 64}},
};

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const bool much = v->head_dim == 256 && v->weights != ATT_WEIGHTS_SAME;
    (void)m;
    if (t->own[HEAD_PRODUCT_ONE_X] && (!v->shared || t->waves_per_simd != 2))
        return att_reject(why, ATT_TILE, "is for one x, and 2 waves a SIMD");
    if (t->own[HEAD_PRODUCT_ONE_X])
        return true;
    if (t->own[HEAD_PRODUCT_SHARE_COLUMNS] && v->head_dim != t->head_dim)
        return att_reject(why, ATT_TILE, "is for x of %d columns", t->head_dim);
    return v->head_dim + much <= t->head_dim ||
           att_reject(why, ATT_TILE, "has no registers for w of %d columns", v->head_dim);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
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
    return att_find_tile(v, m, &tile, why);
}

/* Finds a tile that fits, of those that share columns or of those that do not. 0: there is none. */
static unsigned find_tile(const struct att_variant *v, const struct tir_machine *m, bool shares)
{
    struct att_why why;
    for (unsigned i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++)
        if (!tiles[i].own[HEAD_PRODUCT_ONE_X] &&
            tiles[i].own[HEAD_PRODUCT_SHARE_COLUMNS] == shares && fits(v, &tiles[i], m, &why))
            return i + 1;
    return 0;
}

/* The kernel for few tokens, where attn_head_product_fill() says that waves share columns. That for
 * one x reads 256 rows of w for each compute unit, however few tokens there are. So it leaves
 * launches of up to 128 to the former, and to the one for x of each head those that do not give
 * every compute unit two workgroups. */
static bool second(const struct att_variant *v, const struct tir_machine *m, unsigned n,
                   struct att_second *second)
{
    enum { FEW_TOKENS = 128 };
    const unsigned few = find_tile(v, m, true), other = v->shared ? find_tile(v, m, false) : 0;
    const unsigned numbers[] = {few ? few : other, few ? other : 0};
    if (n >= sizeof(numbers) / sizeof(numbers[0]) || !numbers[n])
        return false;
    second->tile = numbers[n];
    if (numbers[n] == other)
        second->calls = (struct att_box){
            .rows = {{ARG_SHARE_COLUMNS, 0, 0}, {ARG_WORKGROUPS, 0, m->cus}}, .count = 2};
    else
        second->calls =
            (struct att_box){.rows = {{ARG_SHARE_COLUMNS, 1, 1},
                                      {ARG_TOKENS, 0, v->shared ? FEW_TOKENS : INT32_MAX}},
                             .count = v->shared ? 2 : 1};
    return true;
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    if (tile.own[HEAD_PRODUCT_ONE_X])
        head_product_shared_build(v, m, k);
    else
        head_product_each_build(v, m, &tile, k);
}

const struct att_template att_template_head_product = {
    .name = "head_product",
    .description = "a product per head: absorption and up-projection of latent attention",
    .takes = OP_TAKES_HEAD_PRODUCT | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"share_columns", "one_x"},
    .fits = fits,
    .second = second,
    .check = check,
    .build = build,
};
