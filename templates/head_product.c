/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes out[t, h] = w[h] x[t, h] for every token t and head h, as out^T = w x^T: the absorption
 * products of latent attention and the up-projection of its latents. Their contraction is short, so
 * a product is bound by the bytes that it reads and writes. With few tokens most of these bytes are
 * weights.
 *
 * A workgroup keeps 128 rows of w in registers, 32 in each wave, and goes over its tokens in tiles
 * of 32. The next tile is loaded to registers while this one is multiplied from LDS. Workgroups
 * with the same tokens or rows have consecutive indices on one XCD, whose L2 then serves all of
 * them.
 *
 * With few tokens the reads of w take most of the time, and 128 rows for each workgroup leave most
 * compute units without a workgroup. A second kernel shares a long contraction among the four
 * waves. A workgroup has 32 rows, each wave has a quarter of their columns, and the parts are added
 * up through LDS. It has less than half of the registers of the first kernel, and workgroups with
 * fewer registers start earlier.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/grid.h"
#include "templates/head_product/pipelines/pipelines.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>
#include <stdio.h>

/* WAVES: waves of a workgroup. ROWS: rows of w of a wave. TOKENS: tokens of a tile of x. PANEL:
 * columns of a panel of w or x. MAX_PANELS: most panels of a row. BLOCK: columns that share a
 * scale. TAIL: elements of a token's tail, which is copied without a product. The host
 * (runtime/host_mla.c) launches a workgroup for each WAVES * ROWS or for each ROWS rows of w. */
enum { WAVES = 4, ROWS = 32, TOKENS = 32, PANEL = 64, MAX_PANELS = 8, BLOCK = 128, TAIL = 64 };
enum {
    ELEM = 2 /* bytes of an element of bf16 or fp16 */,
    CHUNK = 8 /* number of elements that a lane loads or stores at once */,
    FLOAT = 4,                  /* bytes of an f32 */
    GROUP = BLOCK / PANEL,      /* panels of x that share a scale */
    PLACE = ROWS * PANEL * ELEM /* bytes of LDS of a panel of x or w, ROWS x PANEL elements */
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct product {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype, stored; /* enum tir_dtype of x, and of w in memory */
    /* Enum tir_dtype of both operands of the products, and bytes of an operand's element */
    unsigned used, size;
    int instr; /* index in tir_machine.mma of the matrix instruction */
    /* True: each wave multiplies some columns of w and x, and the waves' products are added. False:
     * each wave has rows of w of its own. */
    bool shares;
    struct tir_contraction k; /* contraction of the product of a panel of w with a panel of x */
    struct tir_type staged;   /* type of a panel of x, spread over the waves of the workgroup */
    /* Number of columns of w that a load reads: a cache line, or fewer if w is narrower */
    unsigned wide;
    struct tir_type rows;     /* type of the rows of w that one wave loads */
    struct tir_type finished; /* type of a wave's part of out, in the order in which it is stored */
    /* type of a panel of w in the layout of an operand, in dtype `stored` */
    struct tir_type taken;
    /* Types of a panel of w and of x as operands, and of out^T. */
    struct tir_type left, right, result;
    /* With `shares`: types of a panel of x for one wave, and of out of all waves */
    struct tir_type part, total;
    struct tir_type scale_of_x; /* f32 type of a scale of x for each token, in the layout of out */
    /* i32: LDS address of the scales of a tile of x: an f32 for each token of a group of panels,
     * group after group; set if the kernel rounds x to fp8. */
    struct tir_value scales;
    /* i32: LDS addresses of the whole workgroup's buffer and of this wave's part of it. */
    struct tir_value lds, own;
    /* i32: indices of the head, and of the slice of 128 rows of the head's w, or of 32 rows with
     * `shares`. */
    struct tir_value head, slice;
    struct tir_value end; /* i32: index of the first token after the workgroup's last one */
    unsigned resident;    /* number of workgroups that the device runs at once */
    /* loaded: the wave's rows of w as loaded. w: panels of these rows as operands. scale: scales of
     * the rows (f32 scalars), one, or one for each block of columns. */
    struct tir_value loaded[MAX_PANELS], w[MAX_PANELS], scale[MAX_PANELS];
};

/* True if the kernel rounds x to fp8 for the products. */
static bool rounds(const struct product *p) { return p->used != p->dtype; }

/* Returns the number of panels, of PANEL columns each, of a row of w. */
static unsigned panels(const struct product *p) { return (unsigned)p->v->head_dim / PANEL; }

/* Returns the number of panels that a wave multiplies if waves share the contraction. */
static unsigned own_panels(const struct product *p) { return panels(p) / WAVES; }

/* Returns the number of slices of a head's rows of w; the last slice may be partial. */
static int slices(const struct product *p)
{
    return (p->v->head_dim_v + WAVES * ROWS - 1) / (WAVES * ROWS);
}

/* ---- Layouts ---- */

/* Returns layout *l of 32 rows with its rows permuted, so that a lane's 16 rows are consecutive. In
 * a 32 x 32 accumulator registers select bits 0, 1, 3 and 4 of a row's index, and lanes bit 2. With
 * two instructions of 16 rows, registers select bits 0, 1, 2 and 4, and lanes bit 3. */
static struct tir_layout reorder(const struct product *p, const struct tir_layout *l)
{
    static const uint8_t order[] = {0, 1, 4, 2, 3}, of_16[] = {0, 1, 2, 4, 3};
    return tir_layout_permute_rows(l, p->m->mma[p->instr].m == ROWS ? order : of_16);
}

/* Returns the tile type of rows x cols elements of `dtype` (enum tir_dtype) in one wave, row by
 * row, with 16 bytes in a lane. */
static struct tir_type whole_rows(struct product *p, unsigned dtype, unsigned rows, unsigned cols)
{
    const struct tir_layout l =
        tir_spread_chunks(p->m, 1, 16 * 8 / tir_dtype_bits(dtype), rows, cols);
    return tir_tile(p->b.f, dtype, rows, cols, &l);
}

/* Sets the types of tiles, and p->k. */
static void choose_layouts(struct product *p)
{
    struct tir_func *f = p->b.f;
    const struct tir_mma *mma = &p->m->mma[p->instr];
    const struct tir_waves one_wave = {0};
    p->k = tir_contract_rows(mma, PANEL, 16 / p->size);
    const struct tir_layout left = tir_mma_left(mma, ROWS, &p->k, one_wave);
    const struct tir_layout right = tir_mma_right(mma, TOKENS, &p->k, one_wave);
    const struct tir_layout result = tir_mma_result(mma, ROWS, TOKENS, one_wave);
    const struct tir_layout rows = reorder(p, &left), out = reorder(p, &result);
    p->left = tir_tile(f, p->used, ROWS, PANEL, &rows);
    p->right = tir_tile(f, p->used, TOKENS, PANEL, &right);
    p->result = tir_tile(f, TIR_F32, ROWS, TOKENS, &out);
    const struct tir_layout columns = tir_layout_slice(&out, 0);
    p->scale_of_x = tir_tile(f, TIR_F32, 1, TOKENS, &columns);

    const struct tir_layout staged = tir_spread_chunks(p->m, WAVES, CHUNK, TOKENS, PANEL);
    p->staged = tir_tile(f, p->dtype, TOKENS, PANEL, &staged);
    p->rows = whole_rows(p, p->stored, ROWS, p->wide);
    p->taken = tir_tile(f, p->stored, ROWS, PANEL, &rows);
    p->part = whole_rows(p, p->dtype, TOKENS, PANEL);
    const struct tir_layout total =
        tir_spread_chunks(p->m, WAVES, TOKENS * ROWS / WAVES / tir_lanes(p->m), TOKENS, ROWS);
    p->total = tir_tile(f, TIR_F32, TOKENS, ROWS, &total);
    p->finished = whole_rows(p, p->dtype, TOKENS, ROWS);
}

/* Returns the LDS layout of a panel of x. 16-bit rows have 128 bytes, and 8 rows swizzle their
 * chunks of 16 bytes. fp8 rows have 64 bytes and are swizzled as in out_map(). */
static struct tir_layout panel_map(const struct product *p)
{
    return p->size == 1 ? att_lds_swizzled(TOKENS, PANEL, 16, 1, 2)
                        : att_lds_swizzled(TOKENS, PANEL, CHUNK, 0, 3);
}

/* Returns the LDS layout of `cols` columns of w, as separate panels. */
static struct tir_layout weight_map(const struct product *p, unsigned cols)
{
    const unsigned count = cols / PANEL;
    const struct tir_layout parts = p->stored == TIR_FP8
                                        ? att_lds_swizzled(ROWS * count, PANEL, 16, 1, 2)
                                        : att_lds_swizzled(ROWS * count, PANEL, CHUNK, 0, 3);
    return tir_layout_join_blocks(&parts, ROWS, PANEL);
}

/* Returns the LDS layout of out, with rows of 64 bytes. Two rows together use all banks, so bits of
 * the row from bit 1 on swizzle the chunks. */
static struct tir_layout out_map(void) { return att_lds_swizzled(TOKENS, ROWS, CHUNK, 1, 2); }

/* Returns the LDS address (i32) of panel `panel` (index) of the tile of x. */
static struct tir_value panel_at(struct product *p, unsigned panel)
{
    return att_plus(&p->b, p->lds, (int)(panel * TOKENS * PANEL * p->size));
}

/* ---- Operands ---- */

/* Loads the scales of the workgroup's rows of w into p->scale. Does nothing if w has no scales. */
static void load_scales(struct product *p)
{
    struct tir_builder *b = &p->b;
    const int blocks = p->v->head_dim / BLOCK;
    if (p->v->weights == ATT_WEIGHTS_FP8)
        p->scale[0] = att_entry(b, ARG_W_SCALE, p->head, TIR_F32);
    if (p->v->weights != ATT_WEIGHTS_FP8_BLOCK)
        return;
    const struct tir_value row = tir_add(b, att_times(b, p->head, slices(p)), p->slice);
    for (int i = 0; i < blocks; i++)
        p->scale[i] = att_entry(b, ARG_W_SCALE, att_plus(b, att_times(b, row, blocks), i), TIR_F32);
}

/* Returns the index (i32) of this wave's first row of w in the head, which may be after the head's
 * last row. */
static struct tir_value first_row(struct product *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value wave = tir_add(b, att_times(b, p->slice, WAVES), tir_wave_id(b));
    return att_times(b, wave, ROWS);
}

/* Issues the loads of this wave's rows of w into p->loaded[]. */
static void load_weights(struct product *p)
{
    struct tir_builder *b = &p->b;
    const int size = (int)tir_dtype_bits(p->stored) / 8;
    const struct tir_value first = first_row(p);
    const struct tir_value left =
        tir_min(b, tir_sub(b, tir_i32(b, p->v->head_dim_v), first), tir_i32(b, ROWS));
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_W, TIR_I64), p->head, ARG_W_HEAD_STRIDE, size);
    const struct tir_value base = att_row(b, head, first, ARG_W_ROW_STRIDE, size);
    const struct tir_value stride = att_stride32(b, ARG_W_ROW_STRIDE, size);
    for (unsigned i = 0; i < panels(p) * PANEL / p->wide; i++) {
        const struct tir_view view =
            att_view(b, base, left, stride, p->v->head_dim * size, (int)(i * p->wide) * size);
        p->loaded[i] = tir_tile_load(b, view, tir_i32(b, 0), p->rows);
    }
}

/* Returns the number of panels for which each wave has LDS of its own. They are all of its panels
 * of x if waves share the contraction and LDS then has room for AT_ONCE workgroups, else one. With
 * fewer workgroups at once, the last ones would start later. */
static unsigned own_places(const struct product *p)
{
    enum { AT_ONCE = 4 };
    const unsigned all = own_panels(p);
    return p->shares && AT_ONCE * WAVES * all * PLACE <= p->m->lds_bytes ? all : 1;
}

/* Returns the bytes of LDS that each wave has of its own. */
static int own_bytes(const struct product *p) { return (int)own_places(p) * PLACE; }

/* Sets p->w[] to the first `count` loaded panels of w in the layout of operands; they pass through
 * LDS. In that layout each lane has another row, so a load from memory would fetch a cache line for
 * each lane. */
static void transpose_weights(struct product *p, unsigned count)
{
    struct tir_builder *b = &p->b;
    const unsigned each = p->wide / PANEL;
    const int bytes = ROWS * PANEL * (int)tir_dtype_bits(p->stored) / 8;
    const struct tir_layout map = weight_map(p, p->wide), panel = weight_map(p, PANEL);
    for (unsigned i = 0; i < count; i++) {
        if (i % each == 0) {
            tir_tile_lds_store(b, p->own, p->loaded[i / each], &map);
            tir_wait(b, TIR_LDS_ORDER, 0);
        }
        const struct tir_value at = att_plus(b, p->own, (int)(i % each) * bytes);
        p->w[i] = tir_tile_lds_load(b, at, p->taken, &panel);
        if (p->stored != p->used)
            p->w[i] = tir_convert(b, p->w[i], p->dtype); /* 8-bit weights are exact in 16 bits */
    }
}

/* Returns a view of the rows of a tile, from token `token` (i32) on, in tensor `t` [token, head,
 * width]. Rows after the last token are read as 0. */
static struct tir_view tile_view(struct product *p, struct att_tensor t, struct tir_value token,
                                 int width)
{
    struct tir_builder *b = &p->b;
    const struct tir_value head =
        att_row(b, tir_arg(b, t.arg, TIR_I64), p->head, t.head_stride, ELEM);
    const struct tir_value base = att_row(b, head, token, t.token_stride, ELEM);
    const struct tir_value left = tir_min(b, tir_sub(b, p->end, token), tir_i32(b, TOKENS));
    const struct tir_value stride = att_stride32(b, t.token_stride, ELEM);
    return att_view(b, base, left, stride, width * ELEM, 0);
}

/* Issues the loads of the panels of x into x[], for the tile whose first token is `token` (i32). */
static void load_tile(struct product *p, struct tir_value token, struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    struct tir_view view = tile_view(p, ATT_HEADS(X), token, p->v->head_dim);
    for (unsigned i = 0; i < panels(p); i++) {
        view.byte = tir_i32(b, (int)i * PANEL * ELEM);
        x[i] = tir_tile_load(b, view, tir_i32(b, 0), p->staged);
    }
}

/* ---- One tile ---- */

/* Returns the LDS address (i32) of the scales of group `group` of panels of x. `group` (i32) is the
 * index of the group in the tile, or with p->shares the wave's index. */
static struct tir_value scales_at(struct product *p, struct tir_value group)
{
    return tir_add(&p->b, p->scales, att_times(&p->b, group, TOKENS * FLOAT));
}

/* Rounds the `count` panels x[] of group `group` (i32, index) to fp8, and stores the scales of
 * their tokens in LDS. */
static void round_group(struct product *p, struct tir_value *x, unsigned count,
                        struct tir_value group)
{
    struct tir_builder *b = &p->b;
    struct tir_value absmax = {0};
    for (unsigned i = 0; i < count; i++) {
        x[i] = tir_convert(b, x[i], TIR_F32);
        const struct tir_value own = tir_row_max(b, tir_abs(b, x[i]));
        absmax = i ? tir_max(b, absmax, own) : own;
    }
    const struct tir_value scale = att_fp8_scale(b, absmax);
    const struct tir_value inverse =
        tir_rcp(b, tir_max(b, scale, tir_float_like(b, scale, 1e-12f)));
    const struct tir_layout map = tir_row_major(TOKENS, 1);
    tir_tile_lds_store(b, scales_at(p, group), scale, &map);
    for (unsigned i = 0; i < count; i++) {
        const struct tir_value factor = tir_broadcast(b, inverse, tir_typeof(b->f, x[i]));
        x[i] = tir_convert_in_range(b, tir_mul(b, x[i], factor), TIR_FP8);
    }
}

/* Converts the panels x[] of a tile to the type of the operands, p->used. */
static void round_tile(struct product *p, struct tir_value *x)
{
    const unsigned count = panels(p);
    for (unsigned i = 0; rounds(p) && i < count; i += GROUP)
        round_group(p, x + i, count - i < GROUP ? count - i : GROUP,
                    tir_i32(&p->b, (int)(i / GROUP)));
}

/* Returns `sum`, the products of group `group` (i32, index) of panels of x, times the scale of each
 * token in that group. */
static struct tir_value rescale(struct product *p, struct tir_value sum, struct tir_value group)
{
    struct tir_builder *b = &p->b;
    if (!rounds(p))
        return sum;
    const struct tir_layout map = tir_row_major(1, TOKENS);
    const struct tir_value scale = tir_tile_lds_load(b, scales_at(p, group), p->scale_of_x, &map);
    return tir_mul(b, sum, tir_broadcast(b, scale, p->result));
}

/* Returns w x^T (f32) of a tile whose panels of x are in LDS. Blocks of w or groups of x with
 * scales of their own are summed separately. */
static struct tir_value multiply(struct product *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout map = panel_map(p);
    const bool block = p->v->weights == ATT_WEIGHTS_FP8_BLOCK;
    const unsigned each = block || rounds(p) ? GROUP : panels(p);
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0), p->result);
    struct tir_value sum = {0};
    for (unsigned first = 0; first < panels(p); first += each) {
        struct tir_value part = zero;
        for (unsigned i = first; i < first + each && i < panels(p); i++) {
            const struct tir_value x = tir_tile_lds_load(b, panel_at(p, i), p->right, &map);
            part = tir_mma(b, p->instr, p->w[i], tir_transpose(b, x), part);
        }
        if (p->stored == p->dtype)
            return part;
        part = rescale(p, part, tir_i32(b, (int)(first / each)));
        const struct tir_value scale = tir_splat(b, p->scale[block ? first / each : 0], p->result);
        sum = sum.id ? tir_fma(b, part, scale, sum) : tir_mul(b, part, scale);
    }
    return sum;
}

/* Stores `sum`, out^T of the tile whose first token is `token` (i32), by way of LDS. */
static void store_tile(struct product *p, struct tir_value token, struct tir_value sum)
{
    struct tir_builder *b = &p->b;
    const struct tir_value first = first_row(p);
    const struct tir_layout map = out_map();
    tir_barrier(b); /* after this barrier all waves have read x, and out may use the LDS of x */
    tir_tile_lds_store(b, p->own, tir_transpose(b, tir_convert(b, sum, p->dtype)), &map);
    tir_wait(b, TIR_LDS_ORDER, 0);
    const struct tir_value out = tir_tile_lds_load(b, p->own, p->finished, &map);
    struct tir_view to = tile_view(p, ATT_HEADS(OUT), token, p->v->head_dim_v);
    to.byte = att_times(b, first, ELEM);
    const struct tir_value there = tir_cmp_lt(b, first, tir_i32(b, p->v->head_dim_v));
    struct tir_if some = att_begin_if(b, there);
    tir_tile_store(b, to, tir_i32(b, 0), out);
    tir_end_if(b, &some, NULL);
}

/* Copies argument tail of the tokens of the tile whose first token is `token` (i32) to the head's
 * rows of tail_out. Only the workgroup with the head's first rows of w copies. */
static void copy_tail(struct product *p, struct tir_value token)
{
    struct tir_builder *b = &p->b;
    const struct tir_value tail = tir_arg(b, ARG_TAIL, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value mine =
        tir_and(b, tir_cmp_ne(b, tail, tir_i64(b, 0)), tir_cmp_eq(b, p->slice, zero));
    struct tir_if some = att_begin_if(b, mine);
    const struct tir_value base = att_row(b, tail, token, ARG_TAIL_TOKEN_STRIDE, ELEM);
    const struct tir_value stride = att_stride32(b, ARG_TAIL_TOKEN_STRIDE, ELEM);
    const struct tir_value left = tir_min(b, tir_sub(b, p->end, token), tir_i32(b, TOKENS));
    const struct tir_view from = att_view(b, base, left, stride, TAIL * ELEM, 0);
    const struct tir_value x = tir_tile_load(b, from, zero, p->staged);
    tir_tile_store(b, tile_view(p, ATT_HEADS(TAIL_OUT), token, TAIL), zero, x);
    tir_end_if(b, &some, NULL);
}

/* ---- A contraction shared by waves ---- */

/* Returns the LDS layout of a wave's sums, with rows of 128 bytes of f32. */
static struct tir_layout sum_map(void) { return att_lds_swizzled(TOKENS, ROWS, CHUNK / 2, 0, 3); }

/* Returns the byte (i32) at which this wave's n-th (from 0) panel begins in a row of elements of
 * `size` bytes. */
static struct tir_value own_byte(struct product *p, unsigned n, int size)
{
    struct tir_builder *b = &p->b;
    const int each = (int)own_panels(p) * PANEL * size;
    return att_plus(b, att_times(b, tir_wave_id(b), each), (int)n * PANEL * size);
}

/* Issues the loads of this wave's columns of the workgroup's rows of w into p->loaded[]. */
static void load_own_weights(struct product *p)
{
    struct tir_builder *b = &p->b;
    const int size = (int)tir_dtype_bits(p->stored) / 8;
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_W, TIR_I64), p->head, ARG_W_HEAD_STRIDE, size);
    const struct tir_value base =
        att_row(b, head, att_times(b, p->slice, ROWS), ARG_W_ROW_STRIDE, size);
    const struct tir_value stride = att_stride32(b, ARG_W_ROW_STRIDE, size);
    for (unsigned i = 0; i < own_panels(p) * PANEL / p->wide; i++) {
        struct tir_view view =
            att_view(b, base, tir_i32(b, ROWS), stride, p->v->head_dim * size, 0);
        view.byte = own_byte(p, i * p->wide / PANEL, size);
        p->loaded[i] = tir_tile_load(b, view, tir_i32(b, 0), p->rows);
    }
}

/* Loads the scale of this wave's columns of w, which belong to one block, into p->scale[0]. */
static void load_own_scale(struct product *p)
{
    struct tir_builder *b = &p->b;
    static_assert(MAX_PANELS * PANEL / WAVES == BLOCK, "a wave has one block of w, one group of x");
    if (p->v->weights != ATT_WEIGHTS_FP8_BLOCK) {
        load_scales(p);
        return;
    }
    const struct tir_value wide = tir_shr(b, p->slice, tir_i32(b, tir_bits(BLOCK / ROWS)));
    const struct tir_value row = tir_add(b, att_times(b, p->head, slices(p)), wide);
    p->scale[0] =
        att_entry(b, ARG_W_SCALE, tir_add(b, att_times(b, row, WAVES), tir_wave_id(b)), TIR_F32);
}

/* Issues the loads of this wave's panels of x of the tile from token `token` (i32) on into x[]. */
static void load_own_tile(struct product *p, struct tir_value token, struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    struct tir_view view = tile_view(p, ATT_HEADS(X), token, p->v->head_dim);
    for (unsigned i = 0; i < own_panels(p); i++) {
        view.byte = own_byte(p, i, ELEM);
        x[i] = tir_tile_load(b, view, tir_i32(b, 0), p->part);
    }
}

/* Issues the loads of the next tile, from token `token` (i32) on, into x[]. After the last tile it
 * loads nothing, so that no wave waits for it. */
static void load_next(struct product *p, struct tir_value token, struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    struct tir_type types[MAX_PANELS];
    for (unsigned i = 0; i < own_panels(p); i++)
        types[i] = p->part;
    struct tir_if more = tir_begin_if(b, tir_cmp_lt(b, token, p->end), false, types, own_panels(p));
    load_own_tile(p, token, x);
    tir_else(b, &more, x);
    for (unsigned i = 0; i < own_panels(p); i++)
        x[i] = tir_undef(b, types[i]);
    tir_end_if(b, &more, x);
}

/* Returns the products (f32) of this wave's columns of w and its panels x[]. Panels pass through
 * LDS, as many at once as LDS has room for, while earlier panels are multiplied. Then sets x[] to
 * loads of the tile from token `next` (i32) on. */
static struct tir_value multiply_own(struct product *p, struct tir_value *x, struct tir_value next)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout map = panel_map(p);
    const unsigned count = own_panels(p), places = own_places(p);
    struct tir_value sum = tir_splat(b, tir_f32(b, 0), p->result), right = {0};
    if (rounds(p))
        round_group(p, x, count, tir_wave_id(b));
    for (unsigned i = 0; i <= count; i++) {
        const bool put = i < count && i % places == 0;
        for (unsigned k = 0; put && k < places; k++)
            tir_tile_lds_store(b, att_plus(b, p->own, (int)k * PLACE), x[i + k], &map);
        if (i)
            sum = tir_mma(b, p->instr, p->w[i - 1], tir_transpose(b, right), sum);
        if (put)
            tir_wait(b, TIR_LDS_ORDER, 0);
        if (i < count)
            right = tir_tile_lds_load(b, att_plus(b, p->own, (int)(i % places) * PLACE), p->right,
                                      &map);
    }
    load_next(p, next, x);
    sum = rescale(p, sum, tir_wave_id(b));
    return p->v->weights == ATT_WEIGHTS_FP8_BLOCK
               ? tir_mul(b, sum, tir_splat(b, p->scale[0], p->result))
               : sum;
}

/* Returns the view of out that store_sum() writes, for the tile from token `token` (i32) on. */
static struct tir_view sum_view(struct product *p, struct tir_value token)
{
    struct tir_builder *b = &p->b;
    struct tir_view to = tile_view(p, ATT_HEADS(OUT), token, p->v->head_dim_v);
    to.byte = att_times(b, p->slice, ROWS * ELEM);
    return to;
}

/* Adds up the waves' sums `part` through LDS, each wave for some of the tokens, and stores the
 * totals in view `to`. */
static void store_sum(struct product *p, struct tir_view to, struct tir_value part)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout map = sum_map();
    tir_tile_lds_store(b, p->own, tir_transpose(b, part), &map);
    att_lds_barrier(b);
    struct tir_value x[WAVES];
    for (int i = 0; i < WAVES; i++)
        x[i] = tir_tile_lds_load(b, att_plus(b, p->lds, i * own_bytes(p)), p->total, &map);
    for (int i = 1; i < WAVES; i++)
        x[0] = tir_add(b, x[0], x[i]);
    if (p->v->weights == ATT_WEIGHTS_FP8)
        x[0] = tir_mul(b, x[0], tir_splat(b, p->scale[0], p->total));
    tir_tile_store(b, to, tir_i32(b, 0), tir_convert(b, x[0], p->dtype));
    /* after this barrier all waves have read LDS, and the next tile may overwrite it */
    tir_barrier(b);
}

/* ---- The workgroup ---- */

/* Indices of the numbers that describe a workgroup's work, all i32. ROW: index of its block of rows
 * of w, counted over slices and heads. GROUP_OF_TOKENS: index of its group of tokens. EACH: tokens
 * of a group. USED: number of workgroups with work. */
enum work { ROW, GROUP_OF_TOKENS, EACH, USED, N_WORK };

/* Returns the workgroup's index (i32) among `used` (i32) workgroups, in an order in which
 * neighbours share an L2. */
static struct tir_value find_item(struct product *p, struct tir_value used)
{
    struct tir_builder *b = &p->b;
    return att_xcd_item(b, tir_block_id(b, 0), tir_i32(b, 0), used);
}

/* Sets work[] so that tokens are divided into as many groups as the device can run workgroups for
 * at once; the host does not know that number. `kept` (i32): number of blocks of rows of w.
 * `wanted` (i32): number of groups that the host wants. Each two consecutive workgroups have the
 * same slice of w and two groups of tokens. Of eight consecutive workgroups, four share x if a head
 * has four slices. */
static void share_tokens(struct product *p, struct tir_value kept, struct tir_value wanted,
                         struct tir_value work[N_WORK])
{
    struct tir_builder *b = &p->b;
    const struct tir_value one = tir_i32(b, 1), two = tir_i32(b, 2);
    const struct tir_value most = tir_div(b, tir_i32(b, (int)p->resident), kept);
    const struct tir_value groups = tir_min(b, wanted, tir_max(b, most, one));
    const struct tir_value tokens = tir_arg(b, ARG_TOKENS, TIR_I32);
    work[USED] = tir_mul(b, groups, kept);
    work[EACH] = tir_div(b, att_plus(b, tir_add(b, tokens, groups), -1), groups);
    const struct tir_value item = find_item(p, work[USED]), both = tir_mul(b, kept, two);
    const struct tir_value pair = tir_div(b, item, both), before = tir_mul(b, pair, two);
    const struct tir_value in_pair = tir_sub(b, item, tir_mul(b, pair, both));
    const struct tir_value width = tir_min(b, tir_sub(b, groups, before), two);
    work[ROW] = tir_div(b, in_pair, width);
    work[GROUP_OF_TOKENS] = tir_add(b, before, tir_sub(b, in_pair, tir_mul(b, work[ROW], width)));
}

/* Sets work[] to the workgroup's rows of w and tokens. If the launch wants one group of tokens, all
 * tokens are in it. That avoids the divisions of share_tokens(), which take time in a launch of few
 * tokens. */
static void find_work(struct product *p, struct tir_value work[N_WORK])
{
    struct tir_builder *b = &p->b;
    struct tir_type types[N_WORK];
    for (int i = 0; i < N_WORK; i++)
        types[i] = tir_scalar(TIR_I32);
    const struct tir_value kept = att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), slices(p));
    const struct tir_value wanted = tir_arg(b, ARG_TOKEN_GROUPS, TIR_I32);
    const struct tir_value several = tir_cmp_gt(b, wanted, tir_i32(b, 1));
    struct tir_if shared = tir_begin_if(b, several, true, types, N_WORK);
    share_tokens(p, kept, wanted, work);
    tir_else(b, &shared, work);
    work[ROW] = find_item(p, kept);
    work[GROUP_OF_TOKENS] = tir_i32(b, 0);
    work[EACH] = tir_arg(b, ARG_TOKENS, TIR_I32);
    work[USED] = kept;
    tir_end_if(b, &shared, work);
}

/* Sets p->head and p->slice to block `row` (i32, index) of rows of w. Blocks are counted over all
 * heads, which have `slices` slices each. */
static void find_slice(struct product *p, struct tir_value row, int slices)
{
    struct tir_builder *b = &p->b;
    const struct tir_value each = tir_i32(b, slices);
    p->head = tir_div(b, row, each);
    p->slice = tir_sub(b, row, tir_mul(b, p->head, each));
}

/* Multiplies the workgroup's tiles of tokens, from token `first` (i32) on. */
static void walk_tiles(struct product *p, struct tir_value first)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout map = panel_map(p);
    struct tir_value x[MAX_PANELS];
    load_weights(p);
    load_scales(p);
    load_tile(p, first, x);
    transpose_weights(p, panels(p));
    struct tir_loop loop = tir_begin_for(b, first, p->end, tir_i32(b, TOKENS), x, panels(p));
    tir_barrier(b); /* after this barrier all waves have read the last tile */
    round_tile(p, x);
    for (unsigned i = 0; i < panels(p); i++)
        tir_tile_lds_store(b, panel_at(p, i), x[i], &map);
    load_tile(p, att_plus(b, loop.index, TOKENS), x);
    att_lds_barrier(b);
    store_tile(p, loop.index, multiply(p));
    copy_tail(p, loop.index);
    tir_end_for(b, &loop, x, panels(p));
}

/* Computes the work of a workgroup whose waves have rows of their own. */
static void visit_tiles(struct product *p)
{
    struct tir_builder *b = &p->b;
    struct tir_value work[N_WORK];
    find_work(p, work);
    const struct tir_value there = tir_cmp_lt(b, tir_block_id(b, 0), work[USED]);
    struct tir_if some = att_begin_if(b, there);
    const struct tir_value first = tir_mul(b, work[GROUP_OF_TOKENS], work[EACH]);
    find_slice(p, work[ROW], slices(p));
    p->end = tir_min(b, tir_add(b, first, work[EACH]), tir_arg(b, ARG_TOKENS, TIR_I32));
    walk_tiles(p, first);
    tir_end_if(b, &some, NULL);
}

/* Loads the arguments that are needed after the first loads, while these are in flight. */
static void load_rest(struct product *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value loaded[] = {
        tir_arg(b, ARG_OUT, TIR_I64), tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64),
        tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64), tir_arg(b, ARG_TAIL, TIR_I64), p->scale[0]};
    tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]) - !p->scale[0].id);
}

/* Computes the product of all tokens with item `item` (i32), a block of 32 rows of w counted over
 * heads. Each wave multiplies some of the columns. */
static void share_rows(struct product *p, struct tir_value item)
{
    struct tir_builder *b = &p->b;
    const struct tir_value first = tir_i32(b, 0);
    struct tir_value x[MAX_PANELS];
    find_slice(p, item, p->v->head_dim_v / ROWS);
    load_own_weights(p);
    load_own_scale(p);
    load_own_tile(p, first, x);
    load_rest(p);
    transpose_weights(p, own_panels(p));
    struct tir_loop loop = tir_begin_for(b, first, p->end, tir_i32(b, TOKENS), x, own_panels(p));
    const struct tir_view to = sum_view(p, loop.index);
    store_sum(p, to, multiply_own(p, x, att_plus(b, loop.index, TOKENS)));
    copy_tail(p, loop.index);
    tir_end_for(b, &loop, x, own_panels(p));
}

/* Divides the work among workgroups whose waves each multiply some of the columns, and computes
 * this workgroup's share. A launch of few tokens has a workgroup for each 32 rows of w; other
 * launches have fewer workgroups. */
static void share_tiles(struct product *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value loaded[] = {tir_arg(b, ARG_W, TIR_I64),
                                       tir_arg(b, ARG_W_HEAD_STRIDE, TIR_I64),
                                       tir_arg(b, ARG_W_ROW_STRIDE, TIR_I64),
                                       tir_arg(b, ARG_X, TIR_I64),
                                       tir_arg(b, ARG_X_HEAD_STRIDE, TIR_I64),
                                       tir_arg(b, ARG_X_TOKEN_STRIDE, TIR_I64)};
    /* All loads are issued before the first wait. */
    tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]));
    const struct tir_value step = tir_arg(b, ARG_WORKGROUPS, TIR_I32);
    const struct tir_value all =
        att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), p->v->head_dim_v / ROWS);
    p->end = tir_arg(b, ARG_TOKENS, TIR_I32);
    struct tir_loop loop = tir_begin_for(b, find_item(p, step), all, step, NULL, 0);
    share_rows(p, loop.index);
    tir_end_for(b, &loop, NULL, 0);
}

void head_product_each_build(const struct att_variant *v, const struct tir_machine *m,
                             const struct att_tile *tile, struct att_kernel *k)
{
    const unsigned dtype = att_dtype(v);
    struct product p = {
        .v = v,
        .m = m,
        .dtype = dtype,
        .stored = v->weights == ATT_WEIGHTS_SAME ? dtype : TIR_FP8,
        .used = v->activations == ATT_ACTIVATIONS_FP8 ? TIR_FP8 : dtype,
    };
    p.size = tir_dtype_bits(p.used) / 8;
    p.wide = p.stored == TIR_FP8 && v->head_dim % (2 * PANEL) == 0 ? 2 * PANEL : PANEL;
    p.instr = tir_find_mma(m, ROWS, TOKENS, 0, p.used);
    if (p.instr < 0)
        p.instr = tir_find_mma(m, ROWS / 2, TOKENS / 2, 0, p.used);
    p.shares = tile->own[HEAD_PRODUCT_SHARE_COLUMNS];
    p.resident = m->cus * tile->waves_per_simd * 4 / WAVES;
    struct tir_func *f = att_begin_kernel(v, m, WAVES, tile->waves_per_simd);
    p.b = tir_at_end(f, f->body);
    choose_layouts(&p);
    const unsigned each = (unsigned)own_bytes(&p), own = WAVES * each;
    const unsigned all = p.shares ? own : panels(&p) * TOKENS * PANEL * p.size;
    p.lds = tir_lds_buffer(&p.b, all > own ? all : own, 16);
    if (rounds(&p))
        p.scales = tir_lds_buffer(&p.b, WAVES * TOKENS * FLOAT, 16);
    p.own = tir_add(&p.b, p.lds, att_times(&p.b, tir_wave_id(&p.b), (int)each));
    if (p.shares)
        share_tiles(&p);
    else
        visit_tiles(&p);
    tir_return(&p.b);

    *k = (struct att_kernel){
        .func = f,
        .schedule = {.hoist_vgprs = tile->hoist_vgprs},
        .grid = {{ARG_WORKGROUPS, 1, 1}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "rows=%d tokens=%d waves=%d", WAVES * ROWS, TOKENS,
             WAVES);
}
