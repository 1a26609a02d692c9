/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the norms after linear attention and state-space layers, with out in 16 bits or
 * fp8. For each group of a token's elements, out = x / sqrt(mean(x^2) + eps) w, times silu or
 * sigmoid of a gate z; or out is the norm of x silu(z).
 *
 * Groups that several ranks share need two launches. The first one stores the sum of squares of
 * each row, and the second one reads the sums of all ranks.
 *
 * A row is a group of a token. A workgroup has rows of one group; waves share rows that are wider
 * than a wave. With a scale for each 128 elements it has rows in the order of their scales in
 * memory: all groups of a token and then the next token, or the tokens of a group. A workgroup that
 * stored one scale of each token would write a small part of many cache lines.
 *
 * With one scale for a whole token, a workgroup has the groups of one token as rows. It reads them
 * twice, for the scale and for the result; the second reads hit the L2.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/linear/norm.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

/* CHUNK: number of elements that a lane loads at once. ELEM: bytes of an element of bf16 or fp16.
 * GROUP: number of elements that share a scale of fp8. LEAST: the width of a group must be a
 * multiple of this number. */
enum { CHUNK = 8, ELEM = 2, GROUP = 128, LEAST = 32 };

/* Index in att_tile.own. 1: all waves of a workgroup share a row; 0: each wave has rows of its
 * own. */
enum { SHARED };

static const struct att_tile tiles[] = {
    {.head_dim = 1024,
     .waves = 4,
     .waves_per_simd = 4,
     .why = "a wave has rows of its own, and its SIMD others that wait for theirs"},
    {.head_dim = 8192,
     .waves = 4,
     .waves_per_simd = 4,
     .own = {[SHARED] = 1},
     .why = "a row of 8192 takes 32 registers of each wave, and as many for its gate"},
};

static const struct att_knob knobs[] = {
    {"waves_per_simd", 2, {2, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. A
 * workgroup processes `rows` rows at once: a tile. A row has v->width elements, in panels whose
 * widths are powers of two. */
struct norm {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    struct att_tile tile;       /* the row of tiles[] that the variant uses */
    unsigned rows, n;           /* number of rows of a tile, and number of panels of a row */
    int first[ATT_NORM_PANELS]; /* index in the row of the first column of each panel */
    /* Type of each panel as loaded: 16-bit, `rows` x the panel's width. */
    struct tir_type panel[ATT_NORM_PANELS];
    /* i32, indices: token and group of the tile's row 0. Further rows are the next tokens of the
     * group, or, with row_scale, the next groups of the token. If is_ordered() is true, `token` is
     * the run's first one, and `group` has no value. */
    struct tir_value token, group;
    /* i32: number of the tile's rows that exist; no value if is_ordered() is true. */
    struct tir_value left;
    /* The next three members have values only if is_ordered() is true. A run is ARG_RUN_TOKENS
     * adjacent tokens, which the workgroups with the same x in the grid share. */
    struct tir_value tokens; /* i32: number of tokens of the run */
    struct tir_value number; /* i32: index of the tile in the run */
    /* i32: 1: the scales of a token are neighbours in memory; 0: the scales of a group. */
    struct tir_value by_token;
};

/* True if a tile's rows are in the order of their scales in memory: out is fp8 with a scale for
 * each 128 elements. */
static bool is_ordered(const struct norm *k)
{
    return k->v->out_dtype == ATT_OUT_DTYPE_FP8 && !k->v->row_scale;
}

/* Returns the number of elements that all lanes of a wave load at once. */
static unsigned wave_row(const struct norm *k) { return CHUNK * tir_lanes(k->m); }

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    if (v->width > t->head_dim)
        return att_reject(why, ATT_WIDTH, "is for groups of up to %d elements", t->head_dim);
    if (t->own[SHARED] && v->row_scale)
        return att_reject(why, ATT_ROW_SCALE, "waves that share a row have one row at once");
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->width % LEAST)
        return att_reject(why, ATT_WIDTH, "%d is not a multiple of %d", v->width, LEAST);
    if (v->out_dtype == ATT_OUT_DTYPE_FP8 && v->width % GROUP)
        return att_reject(why, ATT_WIDTH, "%d is not a multiple of %d, which share a scale",
                          v->width, GROUP);
    if (v->row_scale && v->out_dtype != ATT_OUT_DTYPE_FP8)
        return att_reject(why, ATT_ROW_SCALE, "the rows of 16-bit numbers have no scale");
    if (v->stage != ATT_STAGE_ALL && v->stage != ATT_STAGE_SUMS && v->stage != ATT_STAGE_OUTPUTS)
        return att_reject(why, ATT_STAGE, "a norm has the launches sums and outputs");
    if (v->stage == ATT_STAGE_SUMS && v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU_FIRST)
        return att_reject(why, ATT_ACT, "a gate after the norm is not part of the sums");
    if (v->stage == ATT_STAGE_SUMS && (v->gemma || v->out_dtype == ATT_OUT_DTYPE_FP8))
        return att_reject(why, ATT_STAGE, "the launch of sums has neither weights nor out");
    return att_check_tile(v, m, why);
}

/* Returns the type of a panel of k->rows x `width`, 16-bit: 16 bytes in a lane, adjacent lanes
 * along the row, further lanes on further rows. */
static struct tir_type panel_type(struct norm *k, unsigned width)
{
    struct tir_spread l = tir_spread(k->m, k->tile.waves);
    const unsigned lanes = width < wave_row(k) ? width / CHUNK : tir_lanes(k->m);
    const bool shared = k->tile.own[SHARED];
    tir_spread_cols(&l, TIR_REGS, tir_bits(CHUNK));
    tir_spread_cols(&l, TIR_LANES, tir_bits(lanes));
    if (shared)
        tir_spread_fill(&l, TIR_WAVES, 1, width);
    tir_spread_fill(&l, TIR_REGS, 1, width);
    if (!shared) {
        tir_spread_rows(&l, TIR_LANES, tir_bits(k->rows / k->tile.waves));
        tir_spread_rows(&l, TIR_WAVES, tir_bits(k->tile.waves));
    }
    const struct tir_layout layout = tir_spread_layout(&l);
    return tir_tile(k->b.f, att_dtype(k->v), k->rows, width, &layout);
}

/* Sets the number of rows of a tile, and the panels of a row. */
static void choose_panels(struct norm *k)
{
    const unsigned waves = k->tile.own[SHARED] ? k->tile.waves : 1, width = (unsigned)k->v->width;
    const bool narrow = tir_is_power(width) && width < wave_row(k);
    k->rows = k->tile.own[SHARED] ? 1 : k->tile.waves * (narrow ? wave_row(k) / width : 1);
    for (unsigned first = 0; first < width; k->n++) {
        const unsigned left = width - first, whole = waves * wave_row(k);
        const unsigned panel = left < whole ? 1u << tir_bits_floor(left) : whole;
        k->first[k->n] = (int)first;
        k->panel[k->n] = panel_type(k, panel);
        first += panel;
    }
}

/* Returns a view of the tile's rows of tensor `arg` [token, group, element], from column `first`
 * on. The strides are names of arguments. A row has `row` elements of `size` bytes. Only if
 * is_ordered() is false. */
static struct tir_view view_of(struct norm *k, const char *arg, const char *token_stride,
                               const char *group_stride, int first, int size, int row)
{
    struct tir_builder *b = &k->b;
    const struct tir_value at = tir_add(b, att_offset(b, k->token, token_stride, size),
                                        att_offset(b, k->group, group_stride, size));
    const struct tir_value base = att_at(b, arg, at);
    const char *step = k->v->row_scale ? group_stride : token_stride;
    return att_view(b, base, k->left, att_stride32(b, step, size), row * size, first * size);
}

/* Returns view_of() of these arguments, for a tensor whose rows are as wide as a group. */
static struct tir_view rows_view(struct norm *k, const char *arg, const char *token_stride,
                                 const char *group_stride, int first, int size)
{
    return view_of(k, arg, token_stride, group_stride, first, size, k->v->width);
}

/* Returns the type of an f32 number for each row, rows x 1, in the lanes of the rows of panel `i`
 * (index). */
static struct tir_type column_type(struct norm *k, unsigned i)
{
    const struct tir_layout layout = tir_layout_slice(tir_layout_of(k->b.f, k->panel[i]), 1);
    return tir_tile(k->b.f, TIR_F32, k->rows, 1, &layout);
}

/* The token and the group of each row of a tile whose rows are in the order of their scales. All
 * members are rows x 1. */
struct places {
    /* i32, indices: the row's token in the run, at most the run's last one; the row's group. */
    struct tir_value token, group;
    struct tir_value there; /* i1: the row exists; false: it is after the run's last row */
};

/* Masks for numbers that the op's schema limits: bytes between tokens and indices of tokens;
 * indices of groups. The masks show LLVM that the numbers are below 2^24, whose products take one
 * instruction. */
enum { SHORT_MASK = 0xffffff, GROUPS_MASK = 0xffff };

/* Returns the token and the group of the tile's rows `row` (i32, indices in the tile). A run has at
 * most 128 tokens, so it has fewer than 2^24 rows. */
static struct places find_places(struct norm *k, struct tir_value row)
{
    struct tir_builder *b = &k->b;
    const struct tir_type t = tir_typeof(b->f, row);
    const struct tir_value groups = tir_splat(b, tir_arg(b, ARG_GROUPS, TIR_I32), t);
    const struct tir_value tile = tir_splat(b, k->number, t), rows = tir_int_like(b, row, k->rows);
    const struct tir_value by_token =
        tir_cmp_eq(b, tir_splat(b, k->by_token, t), tir_int_like(b, row, 1));
    const struct tir_value in_run = tir_add(b, tir_mul(b, tile, rows), row);
    const struct tir_value number = tir_select(b, by_token, in_run, tile);
    const struct tir_value whole = att_divide_short(b, number, groups);
    const struct tir_value in_group = tir_add(b, tir_mul(b, whole, rows), row);
    const struct tir_value token = tir_select(b, by_token, whole, in_group);
    const struct tir_value last = tir_splat(b, att_plus(b, k->tokens, -1), t);
    const struct tir_value rest = tir_sub(b, number, tir_mul(b, whole, groups));
    return (struct places){
        .token = tir_min(b, token, last),
        .group = tir_and(b, rest, tir_int_like(b, row, GROUPS_MASK)),
        .there = tir_cmp_le(b, token, last),
    };
}

/* Returns the byte offsets (i64, rows x 1) of rows `p` from the run's first token, in a tensor with
 * elements of `size` bytes. The strides are names of arguments. token_stride is NULL if the tensor
 * is the same for all tokens. */
static struct tir_value place_offsets(struct norm *k, const struct places *p,
                                      const char *token_stride, const char *group_stride, int size)
{
    struct tir_builder *b = &k->b;
    const struct tir_type t = tir_typeof(b->f, p->token);
    const struct tir_value group = att_wide(b, p->group);
    const struct tir_value at =
        tir_mul(b, group, att_like(b, att_stride(b, group_stride, size), group));
    if (!token_stride)
        return at;
    const struct tir_value mask = tir_int_like(b, p->token, SHORT_MASK);
    const struct tir_value step = tir_splat(b, att_stride32(b, token_stride, size), t);
    const struct tir_value token = tir_mul(b, tir_and(b, p->token, mask), tir_and(b, step, mask));
    return tir_add(b, at, att_wide(b, token));
}

/* Returns place_offsets() of these arguments for a store. Rows that do not exist get -1, which
 * drops their stores. */
static struct tir_value store_offsets(struct norm *k, const struct places *p,
                                      const char *token_stride, const char *group_stride, int size)
{
    const struct tir_value at = place_offsets(k, p, token_stride, group_stride, size);
    return tir_select(&k->b, p->there, at, tir_int_like(&k->b, at, -1));
}

/* Returns the places of the tile's rows, in the lanes of the rows of panel `i` (index). */
static struct places panel_places(struct norm *k, unsigned i)
{
    return find_places(k, tir_row_index(&k->b, tir_with_dtype(column_type(k, i), TIR_I32)));
}

/* Returns the address (i64) of the run's first token in tensor `arg` with elements of `size` bytes.
 * If token_stride is NULL, the tensor is the same for all tokens, and the address is the
 * tensor's. */
static struct tir_value run_base(struct norm *k, const char *arg, const char *token_stride,
                                 int size)
{
    const struct tir_value base = tir_arg(&k->b, arg, TIR_I64);
    return token_stride ? att_row(&k->b, base, k->token, token_stride, size) : base;
}

/* Loads panel `i` (index) of the tile's rows of tensor `arg`. A row that does not exist is a copy
 * of a row of the run's last token. Only if is_ordered() is true. The strides are names of
 * arguments. token_stride is NULL if the tensor is the same for all tokens. */
static struct tir_value gather_rows(struct norm *k, const char *arg, const char *token_stride,
                                    const char *group_stride, unsigned i)
{
    const struct places p = panel_places(k, i);
    return tir_tile_gather(&k->b, run_base(k, arg, token_stride, ELEM),
                           place_offsets(k, &p, token_stride, group_stride, ELEM),
                           tir_i32(&k->b, k->first[i] * ELEM), k->panel[i]);
}

/* Returns a view of argument `squares` for the tile's rows: one f32 for each row. */
static struct tir_view squares_view(struct norm *k)
{
    return view_of(k, ARG_SQUARES, ARG_SQUARES_TOKEN_STRIDE, ARG_SQUARES_GROUP_STRIDE, 0,
                   sizeof(float), 1);
}

/* Loads panel `i` (index) of the tile's rows of tensor `arg` [token, group, element], 16-bit. The
 * strides are names of arguments. */
static struct tir_value load_rows(struct norm *k, const char *arg, const char *token_stride,
                                  const char *group_stride, unsigned i)
{
    struct tir_builder *b = &k->b;
    if (is_ordered(k))
        return gather_rows(k, arg, token_stride, group_stride, i);
    const struct tir_view view = rows_view(k, arg, token_stride, group_stride, k->first[i], ELEM);
    return tir_tile_load(b, view, tir_i32(b, 0), k->panel[i]);
}

/* Loads the weights of panel `i` (index), 16-bit: of one group for all rows, or of each row's own
 * group. */
static struct tir_value load_weight(struct norm *k, unsigned i)
{
    struct tir_builder *b = &k->b;
    if (is_ordered(k))
        return gather_rows(k, ARG_WEIGHT, NULL, ARG_WEIGHT_GROUP_STRIDE, i);
    const struct tir_value base =
        att_at(b, ARG_WEIGHT, att_offset(b, k->group, ARG_WEIGHT_GROUP_STRIDE, ELEM));
    const struct tir_value step =
        k->v->row_scale ? att_stride32(b, ARG_WEIGHT_GROUP_STRIDE, ELEM) : tir_i32(b, 0);
    const struct tir_value rows = k->v->row_scale ? k->left : tir_i32(b, (int)k->rows);
    const struct tir_view view =
        att_view(b, base, rows, step, k->v->width * ELEM, k->first[i] * ELEM);
    return tir_tile_load(b, view, tir_i32(b, 0), k->panel[i]);
}

/* Returns the factors (f32) of a panel's elements from `loaded`, its weights: the weight, or 1 +
 * the weight for gemma. */
static struct tir_value weight_of(struct norm *k, struct tir_value loaded)
{
    struct tir_builder *b = &k->b;
    const struct tir_value w = tir_convert(b, loaded, TIR_F32);
    return k->v->gemma ? tir_add(b, w, tir_float_like(b, w, 1)) : w;
}

/* Issues the loads of the tile's rows: x into y[] by panel, and z into z[] if there are gates. */
static void load_inputs(struct norm *k, struct tir_value *y, struct tir_value *z)
{
    for (unsigned i = 0; i < k->n; i++) {
        y[i] = load_rows(k, ARG_X, ARG_X_TOKEN_STRIDE, ARG_X_GROUP_STRIDE, i);
        if (k->v->act != ATT_ACT_NONE)
            z[i] = load_rows(k, ARG_Z, ARG_Z_TOKEN_STRIDE, ARG_Z_GROUP_STRIDE, i);
    }
}

/* Converts y[] to f32, and sets gates[] (f32) from z[], all by panel. With ATT_ACT_SILU_FIRST y[]
 * is multiplied by gates[], too. */
static void gate_inputs(struct norm *k, struct tir_value *y, const struct tir_value *z,
                        struct tir_value *gates)
{
    for (unsigned i = 0; i < k->n; i++)
        y[i] = tir_convert(&k->b, y[i], TIR_F32);
    att_norm_gates(&k->b, k->v, k->n, y, z, gates);
}

/* Loads the sum of squares of each row over all ranks: f32, rows x 1, in the lanes of the rows of
 * panel 0. */
static struct tir_value load_squares(struct norm *k)
{
    struct tir_builder *b = &k->b;
    const struct tir_type column = column_type(k, 0);
    if (!is_ordered(k))
        return tir_tile_load(b, squares_view(k), tir_i32(b, 0), column);
    const struct places p = panel_places(k, 0);
    return tir_tile_gather(
        b, run_base(k, ARG_SQUARES, ARG_SQUARES_TOKEN_STRIDE, sizeof(float)),
        place_offsets(k, &p, ARG_SQUARES_TOKEN_STRIDE, ARG_SQUARES_GROUP_STRIDE, sizeof(float)),
        tir_i32(b, 0), column);
}

/* Returns 1 / sqrt(mean(y^2) + eps) of each row: f32, rows x 1. y[] (f32) has the rows by panel. If
 * several ranks share a group, the mean is over all of them. */
static struct tir_value inverse_rms(struct norm *k, const struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    if (k->v->stage == ATT_STAGE_ALL)
        return att_norm_inverse_rms(b, k->v->width, y, k->n);
    const struct tir_value share = tir_arg(b, ARG_SQUARES_SHARE, TIR_F32);
    return att_norm_inverse_root(b, load_squares(k), tir_splat(b, share, column_type(k, 0)));
}

/* Loads the tile's rows and sets y[] (f32, by panel) to their results. w[] has weights by panel. If
 * w is NULL, the weights are loaded with x and z, and the code waits for all of them at once. */
static void normalise(struct norm *k, const struct tir_value *w, struct tir_value *y)
{
    struct tir_value z[ATT_NORM_PANELS], gates[ATT_NORM_PANELS], loaded[ATT_NORM_PANELS];
    for (unsigned i = 0; !w && i < k->n; i++)
        loaded[i] = load_weight(k, i);
    load_inputs(k, y, z);
    for (unsigned i = 0; !w && i < k->n; i++)
        loaded[i] = weight_of(k, loaded[i]);
    gate_inputs(k, y, z, gates);
    att_norm_scale(&k->b, k->v, k->n, y, inverse_rms(k, y), gates, w ? w : loaded);
}

/* Stores the scales of panel `i` (index). A block is 128 elements of a row. Row c * rows + r of
 * `scale` (f32) is the scale of block c of the panel's row r. */
static void store_scales(struct norm *k, unsigned i, struct tir_value scale)
{
    struct tir_builder *b = &k->b;
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, scale), TIR_I32);
    const struct tir_value index = tir_row_index(b, t);
    const struct tir_value row = tir_and(b, index, tir_int_like(b, index, k->rows - 1));
    const struct tir_value block = tir_shr(b, index, tir_int_like(b, index, tir_bits(k->rows)));
    struct places p = find_places(k, row);
    const int blocks = k->v->width / GROUP, before = k->first[i] / GROUP;
    p.group = tir_add(b, tir_mul(b, p.group, tir_int_like(b, row, blocks)),
                      tir_add(b, block, tir_int_like(b, row, before)));
    const struct tir_value at =
        store_offsets(k, &p, ARG_OUT_SCALE_TOKEN_STRIDE, ARG_OUT_SCALE_GROUP_STRIDE, sizeof(float));
    tir_tile_scatter(b, run_base(k, ARG_OUT_SCALE, ARG_OUT_SCALE_TOKEN_STRIDE, sizeof(float)), at,
                     tir_i32(b, 0), scale);
}

/* Quantises y[] (f32, by panel) to fp8 with a scale for each 128 elements, and stores the
 * scales. */
static void quantise_groups(struct norm *k, struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    for (unsigned i = 0; i < k->n; i++) {
        const struct tir_value blocks = tir_split_blocks(b, y[i], GROUP);
        const struct tir_value scale = att_fp8_scale(&k->b, tir_row_max(b, tir_abs(b, blocks)));
        store_scales(k, i, scale);
        y[i] = tir_join_blocks(b, att_fp8_divide(&k->b, blocks, scale), k->rows);
    }
}

/* Stores y[] (fp8, by panel) as the tile's rows of out. Only if is_ordered() is true. */
static void scatter_rows(struct norm *k, const struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    const struct tir_value base = run_base(k, ARG_OUT, ARG_OUT_TOKEN_STRIDE, 1);
    for (unsigned i = 0; i < k->n; i++) {
        const struct places p = panel_places(k, i);
        const struct tir_value at =
            store_offsets(k, &p, ARG_OUT_TOKEN_STRIDE, ARG_OUT_GROUP_STRIDE, 1);
        tir_tile_scatter(b, base, at, tir_i32(b, k->first[i]), y[i]);
    }
}

/* Stores y[] (by panel) as the tile's rows of out: f32 is rounded to the op's dtype, and fp8 is
 * stored as is. Only if is_ordered() is false. */
static void store(struct norm *k, const struct tir_value *y)
{
    struct tir_builder *b = &k->b;
    const bool narrow = k->v->out_dtype == ATT_OUT_DTYPE_FP8;
    for (unsigned i = 0; i < k->n; i++) {
        const struct tir_view to = rows_view(k, ARG_OUT, ARG_OUT_TOKEN_STRIDE, ARG_OUT_GROUP_STRIDE,
                                             k->first[i], narrow ? 1 : ELEM);
        const struct tir_value out = narrow ? y[i] : tir_convert_short(b, y[i], att_dtype(k->v));
        tir_tile_store(b, to, tir_i32(b, 0), out);
    }
}

/* Loads the tile's rows, and stores the sum of squares of each to argument `squares`. */
static void store_squares(struct norm *k)
{
    struct tir_value y[ATT_NORM_PANELS], z[ATT_NORM_PANELS], gates[ATT_NORM_PANELS];
    load_inputs(k, y, z);
    gate_inputs(k, y, z, gates);
    tir_tile_store(&k->b, squares_view(k), tir_i32(&k->b, 0),
                   att_norm_over_rows(&k->b, y, k->n, false));
}

/* Loads the tile's rows, and stores their results to out. w[] has weights by panel; NULL: loads the
 * weights. */
static void store_norms(struct norm *k, const struct tir_value *w)
{
    struct tir_value y[ATT_NORM_PANELS];
    normalise(k, w, y);
    if (!is_ordered(k)) {
        store(k, y);
        return;
    }
    quantise_groups(k, y);
    scatter_rows(k, y);
}

/* Normalises and stores the workgroup's run of tokens in one group, tile by tile. The launch of
 * sums only stores the rows' sums of squares. */
static void visit_tokens(struct norm *k)
{
    struct tir_builder *b = &k->b;
    struct tir_value w[ATT_NORM_PANELS];
    const bool sums = k->v->stage == ATT_STAGE_SUMS;
    const struct tir_value run = tir_arg(b, ARG_RUN_TOKENS, TIR_I32);
    const struct tir_value first = tir_mul(b, tir_block_id(b, 0), run);
    const struct tir_value end =
        tir_min(b, tir_add(b, first, run), tir_arg(b, ARG_TOKENS, TIR_I32));
    k->group = tir_block_id(b, 1);
    for (unsigned i = 0; !sums && i < k->n; i++)
        w[i] = weight_of(k, load_weight(k, i));
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, (int)k->rows), NULL, 0);
    k->token = loop.index;
    k->left = tir_min(b, tir_sub(b, end, loop.index), tir_i32(b, (int)k->rows));
    if (sums)
        store_squares(k);
    else
        store_norms(k, w);
    tir_end_for(b, &loop, NULL, 0);
}

/* Returns the number of tiles (i32) of `rows` rows (i32). */
static struct tir_value tiles_of(struct norm *k, struct tir_value rows)
{
    struct tir_builder *b = &k->b;
    return tir_shr(b, att_plus(b, rows, (int)k->rows - 1), tir_i32(b, (int)tir_bits(k->rows)));
}

/* Normalises and stores the workgroup's share of a run, in the order of the rows' scales. A share
 * has as many tiles as one group of a run has. The last workgroups of a run may have no tile. */
static void visit_in_order(struct norm *k)
{
    struct tir_builder *b = &k->b;
    const struct tir_value run = tir_arg(b, ARG_RUN_TOKENS, TIR_I32), one = tir_i32(b, 1);
    const struct tir_value groups = tir_arg(b, ARG_GROUPS, TIR_I32);
    k->token = tir_mul(b, tir_block_id(b, 0), run);
    k->tokens = tir_min(b, tir_sub(b, tir_arg(b, ARG_TOKENS, TIR_I32), k->token), run);
    k->by_token = tir_select(b,
                             tir_cmp_lt(b, tir_arg(b, ARG_OUT_SCALE_GROUP_STRIDE, TIR_I64),
                                        tir_arg(b, ARG_OUT_SCALE_TOKEN_STRIDE, TIR_I64)),
                             one, tir_i32(b, 0));
    const struct tir_value steps = tiles_of(k, k->tokens);
    const struct tir_value by_group = tir_mul(b, steps, groups);
    const struct tir_value tiles = tir_select(b, tir_cmp_eq(b, k->by_token, one),
                                              tiles_of(k, tir_mul(b, k->tokens, groups)), by_group);
    const struct tir_value first = tir_mul(b, tir_block_id(b, 1), steps);
    const struct tir_value end = tir_min(b, tir_add(b, first, steps), tiles);
    struct tir_loop loop = tir_begin_for(b, first, end, one, NULL, 0);
    k->number = loop.index;
    store_norms(k, NULL);
    tir_end_for(b, &loop, NULL, 0);
}

/* ---- One scale for all groups of a token ---- */

/* Begins a loop over the groups of a token, k->rows groups at once, and sets k->group and k->left.
 * The loop carries the `n` values carried[]. */
static struct tir_loop begin_groups(struct norm *k, struct tir_value *carried, unsigned n)
{
    struct tir_builder *b = &k->b;
    const struct tir_value groups = tir_arg(b, ARG_GROUPS, TIR_I32);
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), groups, tir_i32(b, (int)k->rows), carried, n);
    k->group = loop.index;
    k->left = tir_min(b, tir_sub(b, groups, loop.index), tir_i32(b, (int)k->rows));
    return loop;
}

/* Returns the largest |out| of the workgroup's token, f32, 1 x 1, in all waves. Rows that do not
 * exist are 0, since their weights are 0. */
static struct tir_value token_absmax(struct norm *k)
{
    struct tir_builder *b = &k->b;
    struct tir_value y[ATT_NORM_PANELS];
    const struct tir_layout one = tir_spread_one(k->m);
    struct tir_value all = tir_splat(b, tir_f32(b, 0), tir_tile(b->f, TIR_F32, 1, 1, &one));
    struct tir_loop loop = begin_groups(k, &all, 1);
    normalise(k, NULL, y);
    const struct tir_value rows = att_norm_over_rows(b, y, k->n, true);
    const struct tir_value some = tir_relayout(b, tir_col_max(b, rows), &one);
    all = tir_max(b, all, some);
    tir_end_for(b, &loop, &all, 1);
    return all;
}

/* Normalises and stores all groups of the workgroup's token in fp8, with one scale. */
static void visit_token(struct norm *k)
{
    struct tir_builder *b = &k->b;
    struct tir_value y[ATT_NORM_PANELS];
    k->token = tir_block_id(b, 0);
    const struct tir_value scale = att_fp8_scale(&k->b, token_absmax(k));
    const struct tir_value base = att_row(b, tir_arg(b, ARG_OUT_SCALE, TIR_I64), k->token,
                                          ARG_OUT_SCALE_TOKEN_STRIDE, sizeof(float));
    const struct tir_view to = att_view(b, base, tir_i32(b, 1), tir_i32(b, 0), sizeof(float), 0);
    tir_tile_store(b, to, tir_i32(b, 0), scale);
    const struct tir_value same = tir_first_lane(b, scale);
    struct tir_loop loop = begin_groups(k, NULL, 0);
    normalise(k, NULL, y);
    for (unsigned i = 0; i < k->n; i++) {
        y[i] = att_fp8_divide(&k->b, y[i], tir_splat(b, same, column_type(k, i)));
    }
    store(k, y);
    tir_end_for(b, &loop, NULL, 0);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct norm k = {.v = v, .m = m};
    att_find_tile(v, m, &k.tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, k.tile.waves, k.tile.waves_per_simd);
    k.b = tir_at_end(f, f->body);
    choose_panels(&k);
    if (v->row_scale)
        visit_token(&k);
    else if (v->out_dtype == ATT_OUT_DTYPE_FP8)
        visit_in_order(&k);
    else
        visit_tokens(&k);
    tir_return(&k.b);

    *out = (struct att_kernel){
        .func = f,
        .grid = {{v->row_scale ? ARG_TOKENS : ARG_TOKEN_RUNS, 1, 1},
                 {v->row_scale ? NULL : ARG_GROUPS, 1, 1},
                 {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "rows=%u waves=%d", k.rows, k.tile.waves);
}

const struct att_template att_template_gated_rmsnorm = {
    .name = "gated_rmsnorm",
    .description = "RMS norm of groups of a token, with a gate",
    .takes = OP_TAKES_GATED_RMSNORM | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"shared"},
    .fits = fits,
    .check = check,
    .build = build,
};
