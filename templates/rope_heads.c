/* SPDX-License-Identifier: Apache-2.0
 *
 * This file normalises, rotates and gates the heads of a token:
 *
 *   out = scale act(gate) act(head_gate) R(position) (x / rms(x) w)
 *
 * R is the rotation by the token's position, w the norm's weight, and `act` the variant's
 * activation of gates. Here x is q before attention, or attention's output. DeepSeek-V4 rotates the
 * last 64 elements of both, the output by negative angles. Other models multiply the output by
 * gates. A wave has 512 elements: one head or several heads of one token.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/linear/gates.h"
#include "templates/linear/norm.h"
#include "templates/rope/rotate_rows.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

/* CHUNK: elements of a lane's load. ELEM: bytes of a 16-bit element. GROUP: elements that share an
 * fp8 scale. WAVE_ELEMENTS: elements of a wave. LEAST: least head_dim. */
enum { CHUNK = 8, ELEM = 2, GROUP = 128, WAVE_ELEMENTS = 512, LEAST = 64 };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 8, .why = "short waves, of which many wait for memory"},
};

static const struct att_knob knobs[] = {
    {"waves", 2, {2, 8}},
    {"waves_per_simd", 1, {4}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct heads {
    const struct att_variant *v;
    struct tir_builder b;
    unsigned rows;          /* number of heads of a wave */
    struct tir_type tile;   /* type of the wave's heads, of dtype, rows x head_dim */
    struct tir_value token; /* i32: index of the wave's token */
    struct tir_value first; /* i32: the wave's first head */
    struct tir_value left;  /* i32: number of heads that exist from `first` on */
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    return att_fits_waves(v, t, m, why);
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->norm != ATT_NORM_NONE && v->norm != ATT_NORM_RMS)
        return att_reject(why, ATT_NORM, "heads have norm none or rms");
    if (v->layer_norm && v->norm == ATT_NORM_NONE)
        return att_reject(why, ATT_LAYER_NORM, "layer_norm is set, and norm is none");
    if (v->act == ATT_ACT_SILU_FIRST)
        return att_reject(why, ATT_ACT, "gates pass through silu or sigmoid, after the norm");
    if (!tir_is_power((unsigned)v->head_dim) || v->head_dim < LEAST || v->head_dim > WAVE_ELEMENTS)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is no power of two from %d to %d",
                          v->head_dim, LEAST, WAVE_ELEMENTS);
    if (v->out_dtype == ATT_OUT_DTYPE_FP8 && v->head_dim < GROUP)
        return att_reject(why, ATT_OUT_DTYPE,
                          "out_dtype fp8 has a scale for %d elements, a head has only %d", GROUP,
                          v->head_dim);
    if (v->rope != ATT_ROPE_NONE &&
        (v->rotary_dim > v->head_dim || !tir_is_power((unsigned)v->rotary_dim)))
        return att_reject(why, ATT_ROTARY_DIM, "rotary_dim %d is above head_dim or no power of two",
                          v->rotary_dim);
    return att_check_tile(v, m, why);
}

/* Sets h->rows and h->tile. A lane has 16 bytes of a head, adjacent lanes continue the head, and
 * further lanes have further heads. Heads for which a wave of 32 lanes has no lanes are in further
 * registers. */
static void choose_type(struct heads *h, const struct tir_machine *m)
{
    const unsigned dim = (unsigned)h->v->head_dim;
    h->rows = WAVE_ELEMENTS / dim;
    const struct tir_layout l = tir_spread_chunks(m, 1, CHUNK, h->rows, dim);
    h->tile = tir_tile(h->b.f, att_dtype(h->v), h->rows, dim, &l);
}

/* Returns a view of the wave's heads in tensor `t` [token, head, element] with elements of `size`
 * bytes. If `there` (i1) is false the view has no rows, and loads read zeros. */
static struct tir_view heads_of(struct heads *h, struct att_tensor t, int size,
                                struct tir_value there)
{
    struct tir_builder *b = &h->b;
    const struct tir_value at = tir_add(b, att_offset(b, h->token, t.token_stride, size),
                                        att_offset(b, h->first, t.head_stride, size));
    const struct tir_value base = att_at(b, t.arg, at);
    return att_view(b, base, tir_select(b, there, h->left, tir_i32(b, 0)),
                    att_stride32(b, t.head_stride, size), h->v->head_dim * size, 0);
}

/* Loads the wave's heads from `view`, a head in each row, and converts them to f32. */
static struct tir_value load(struct heads *h, struct tir_view view)
{
    struct tir_builder *b = &h->b;
    return tir_convert(b, tir_tile_load(b, view, tir_i32(b, 0), h->tile), TIR_F32);
}

/* Loads vector argument `arg` of the norm (head_dim elements) as f32, repeated for all of the
 * wave's heads. All elements are `absent` if the argument is NULL. */
static struct tir_value load_vector(struct heads *h, const char *arg, float absent)
{
    struct tir_builder *b = &h->b;
    const struct tir_value given = att_is_given(b, arg), zero = tir_i32(b, 0);
    const struct tir_value rows = tir_select(b, given, tir_i32(b, (int)h->rows), zero);
    const struct tir_value x =
        load(h, att_view(b, tir_arg(b, arg, TIR_I64), rows, zero, h->v->head_dim * ELEM, 0));
    return tir_select(b, given, x, tir_float_like(b, x, absent));
}

/* Returns heads x normalised and multiplied by the weight. With layer_norm the mean is subtracted
 * first, and the bias is added last. */
static struct tir_value normalise(struct heads *h, struct tir_value x)
{
    struct tir_builder *b = &h->b;
    const struct tir_type t = tir_typeof(b->f, x);
    const struct tir_value w = load_vector(h, ARG_WEIGHT, 1);
    if (h->v->layer_norm) {
        const struct tir_value sum = tir_row_sum(b, x);
        const struct tir_value share = tir_float_like(b, sum, 1.0f / (float)h->v->head_dim);
        x = tir_sub(b, x, tir_broadcast(b, tir_mul(b, sum, share), t));
    }
    const struct tir_value rms = att_norm_inverse_rms(b, h->v->head_dim, &x, 1);
    const struct tir_value z = tir_mul(b, tir_mul(b, x, tir_broadcast(b, rms, t)), w);
    return h->v->layer_norm ? tir_add(b, z, load_vector(h, ARG_BIAS, 0)) : z;
}

/* Returns heads z rotated by the angles of their token's position, or by the negative angles if
 * argument turns_back is set. */
static struct tir_value rotate(struct heads *h, struct tir_value z)
{
    enum { POSITION = 8 };
    struct tir_builder *b = &h->b;
    const struct tir_value positions =
        att_at(b, ARG_POSITIONS, att_wide_times(b, h->token, POSITION));
    const struct tir_value position = tir_scalar_load(b, positions, tir_i32(b, 0), TIR_I64);
    const struct rope_angles angles = {
        h->v, tir_convert(b, position, TIR_I32), tir_arg(b, ARG_ROTARY_FIRST, TIR_I32),
        tir_cmp_ne(b, tir_arg(b, ARG_TURNS_BACK, TIR_I32), tir_i32(b, 0))};
    return rope_rotate_rows(b, &angles, z);
}

/* Returns silu(x) or sigmoid(x) of gates x by field act, or 1 if `there` (i1) is false. */
static struct tir_value act(struct heads *h, struct tir_value x, struct tir_value there)
{
    struct tir_builder *b = &h->b;
    const struct tir_value y = h->v->act == ATT_ACT_SILU ? att_silu(b, x) : att_sigmoid(b, x);
    return tir_select(b, there, y, tir_float_like(b, y, 1.0f));
}

/* Loads one gate for each of the wave's heads as f32, a tile of heads x 1; zeros if `there` (i1) is
 * false. */
static struct tir_value load_head_gates(struct heads *h, struct tir_value there)
{
    struct tir_builder *b = &h->b;
    const struct tir_layout one = tir_layout_slice(tir_layout_of(b->f, h->tile), 1);
    const struct tir_type t = tir_tile(b->f, att_dtype(h->v), h->rows, 1, &one);
    const struct tir_value at =
        tir_add(b, att_offset(b, h->token, ARG_HEAD_GATE_TOKEN_STRIDE, ELEM),
                att_wide(b, att_times(b, h->first, ELEM)));
    const struct tir_value base = att_at(b, ARG_HEAD_GATE, at);
    const struct tir_view view =
        att_view(b, base, tir_select(b, there, h->left, tir_i32(b, 0)), tir_i32(b, ELEM), ELEM, 0);
    return tir_convert(b, tir_tile_load(b, view, tir_i32(b, 0), t), TIR_F32);
}

/* Returns heads y times the gates of their elements (argument gate) and of whole heads (head_gate).
 * An argument that is NULL has no effect. */
static struct tir_value apply_gates(struct heads *h, struct tir_value y)
{
    struct tir_builder *b = &h->b;
    const struct tir_value each = att_is_given(b, ARG_GATE), whole = att_is_given(b, ARG_HEAD_GATE);
    const struct tir_value gate = load(h, heads_of(h, ATT_HEADS(GATE), ELEM, each));
    const struct tir_value head_gate = act(h, load_head_gates(h, whole), whole);
    y = tir_mul(b, y, act(h, gate, each));
    return att_scaled(b, y, head_gate);
}

/* Returns the byte offset (i64) in argument out_scale of the scale of each row of type `column`.
 * Row c * rows + i is group c (128 elements) of head i. Heads after the last one have -1, so that
 * nothing is stored. */
static struct tir_value scale_offsets(struct heads *h, struct tir_type column)
{
    struct tir_builder *b = &h->b;
    const struct tir_type t = tir_with_dtype(column, TIR_I32);
    const struct tir_value index = tir_row_index(b, t);
    const struct tir_value head = tir_and(b, index, tir_int_like(b, index, (int)h->rows - 1));
    const struct tir_value block =
        tir_shr(b, index, tir_int_like(b, index, (int)tir_bits(h->rows)));
    const struct tir_value groups = tir_int_like(b, index, h->v->head_dim / GROUP);
    const struct tir_value all = tir_add(b, head, tir_splat(b, h->first, t));
    const struct tir_value group =
        tir_convert(b, tir_add(b, tir_mul(b, all, groups), block), TIR_I64);
    const struct tir_value stride =
        att_like(b, att_stride(b, ARG_OUT_SCALE_GROUP_STRIDE, sizeof(float)), group);
    const struct tir_value there = tir_cmp_lt(b, head, tir_splat(b, h->left, t));
    const struct tir_value at = tir_mul(b, group, stride);
    return tir_select(b, there, at, tir_int_like(b, at, -1));
}

/* Stores heads y (f32) as fp8, and a scale for each 128 of their elements. */
static void store_fp8(struct heads *h, struct tir_value y)
{
    struct tir_builder *b = &h->b;
    const struct tir_value groups = tir_split_blocks(b, y, GROUP);
    const struct tir_value absmax = tir_row_max(b, tir_abs(b, groups));
    const struct tir_value scale = att_fp8_rounded_scale(b, absmax);
    const struct tir_value base = att_row(b, tir_arg(b, ARG_OUT_SCALE, TIR_I64), h->token,
                                          ARG_OUT_SCALE_TOKEN_STRIDE, sizeof(float));
    tir_tile_scatter(b, base, scale_offsets(h, tir_typeof(b->f, scale)), tir_i32(b, 0), scale);
    const struct tir_value inverse = tir_broadcast(b, tir_rcp(b, scale), tir_typeof(b->f, groups));
    const struct tir_value small = tir_mul(b, groups, inverse);
    const struct tir_value bytes = tir_convert(b, tir_join_blocks(b, small, h->rows), TIR_FP8);
    tir_tile_store(b, heads_of(h, ATT_HEADS(OUT), 1, tir_bool(b, true)), tir_i32(b, 0), bytes);
}

/* Loads the wave's heads, normalises, rotates, gates and stores them. */
static void visit_heads(struct heads *h)
{
    struct tir_builder *b = &h->b;
    const struct tir_value yes = tir_bool(b, true);
    struct tir_value y = load(h, heads_of(h, ATT_HEADS(X), ELEM, yes));
    if (h->v->norm != ATT_NORM_NONE)
        y = normalise(h, y);
    if (h->v->rope != ATT_ROPE_NONE)
        y = rotate(h, y);
    if (h->v->act != ATT_ACT_NONE)
        y = apply_gates(h, y);
    y = tir_mul(b, y, att_arg_like(b, ARG_SCALE, y));
    if (h->v->out_dtype == ATT_OUT_DTYPE_FP8)
        store_fp8(h, y);
    else
        tir_tile_store(b, heads_of(h, ATT_HEADS(OUT), ELEM, yes), tir_i32(b, 0),
                       tir_convert_short(b, y, att_dtype(h->v)));
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct heads h = {.v = v};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    h.b = tir_at_end(f, f->body);
    struct tir_builder *b = &h.b;
    choose_type(&h, m);
    const struct tir_value wave =
        tir_add(b, att_times(b, tir_block_id(b, 1), tile.waves), tir_wave_id(b));
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    h.token = tir_block_id(b, 0);
    h.first = att_times(b, wave, (int)h.rows);
    h.left = tir_min(b, tir_sub(b, heads, h.first), tir_i32(b, (int)h.rows));
    struct tir_if some = att_begin_if(b, tir_cmp_gt(b, h.left, tir_i32(b, 0)));
    visit_heads(&h);
    tir_end_if(b, &some, NULL);
    tir_return(b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_TOKENS, 1, 1}, {ARG_HEADS, tile.waves * (int)h.rows, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "heads=%u waves=%d", h.rows, tile.waves);
}

const struct att_template att_template_rope_heads = {
    .name = "rope_heads",
    .description = "norm, rotation either way and gates of a token's heads",
    .takes = OP_TAKES_ROPE_HEADS | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = fits,
    .check = check,
    .build = build,
};
