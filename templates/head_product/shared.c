/* SPDX-License-Identifier: Apache-2.0
 *
 * head_product of one x for all heads, out[t, h] = w[h] x[t]: the up-projection of gathered
 * latents. It is one matrix product of many tokens with the rows of all heads, bound by the matrix
 * units, or equally by its stores.
 *
 * A wave keeps 32 rows of w in registers, a workgroup 256, and loops over its tiles of tokens. One
 * half of the waves multiplies while the other half is a phase later on the same SIMDs. In that
 * phase a wave stores its last results and reads its first panel of x. It also issues its part of a
 * later tile's copy to LDS.
 *
 * Loading w takes as long as five tiles. Two tiles are multiplied meanwhile, panel by panel. Each
 * wave has at most three panels in flight. With more, memory would serve all panels of the first
 * waves before the panels of other waves.
 *
 * One workgroup fills a compute unit, and a launch has one for each: it has an equal part of the
 * tokens. Neighbours on an XCD have the same tokens or the same rows, and share them in its L2. The
 * tail is a row of 64 elements of each token, which is copied to tail_out for every head.
 */
#include <assert.h>
#include <stdio.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "templates/workgroup/grid.h"
#include "templates/head_product/pipelines/pipelines.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

/* WAVES: waves of a workgroup. ROWS: rows of w of a wave. WIDEST: most columns of w. MAX_PANELS:
 * most panels of a row of w. MFMA_ROWS: rows of the matrix instruction. BLOCK: rows, and columns,
 * of w that share a scale. */
enum { WAVES = 8, ROWS = 32, WIDEST = 512, MAX_PANELS = 8, MFMA_ROWS = 16, BLOCK = 128 };
/* TAIL: elements of a token's tail, which is copied without a product. TAIL_TOKENS: tokens of a
 * tile of tails. TAILS: tiles of tails that are loaded at once. */
enum { TAIL = 64, TAIL_TOKENS = 64, TAILS = 4 };
enum {
    ELEM = 2 /* bytes of an element of bf16 or fp16 */,
    CHUNK = 8 /* elements that a lane loads or stores at once */
};
enum { LDS_CHUNK = 16 /* bytes of CHUNK elements */ };
/* GROUP_X: queue of copies of x, for tir_wait(). BUFFERS: least number of LDS buffers for tiles of
 * x. WAVES_PER_SIMD: waves on a SIMD. */
enum { GROUP_X, BUFFERS = 4, WAVES_PER_SIMD = 2 };
enum { LINE = 128 /* bytes of a row of w that one load reads */, PANEL_BYTES = ROWS * LINE };
enum { FIRST = 2 /* number of tiles of x that are multiplied while w arrives */ };
enum { W_AHEAD = 3 /* panels of w whose loads are in flight */ };
/* The sum of products of w and x, f32 in the type of out^T. If each block of columns has a scale,
 * `last` is the last block's sum without its scale. `scaled` is the scaled sum of the blocks before
 * it. The last block is scaled while the other half of the waves multiplies. */
struct sums {
    struct tir_value scaled, last;
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct up {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype, stored; /* enum tir_dtype of x, and of w in memory */
    unsigned tokens;        /* number of tokens of a tile of x */
    unsigned panel;         /* number of columns of a panel of w, which pass through LDS at once */
    unsigned buffers;       /* number of LDS buffers for tiles of x */
    /* number of buffers of x, from the first on, that do not overlap the LDS of panels of w */
    unsigned apart;
    int instr;              /* index in tir_machine.mma of the matrix instruction */
    struct tir_type staged; /* type of a tile of x, spread over the waves of the workgroup */
    struct tir_type tail;   /* type of a tile of the tail, spread over the waves of the workgroup */
    struct tir_type rows;   /* type of a panel of w as one wave loads it */
    /* left, right: types of a panel of w and of x as operands; result: type of out^T */
    struct tir_type left, right, result;
    /* LDS layouts of a tile of x, of a panel of x, and of a panel of w. */
    struct tir_layout x_map, x_panel_map, w_map;
    /* i32: LDS addresses of the workgroup's buffers of x, and of this wave's place for a panel of
     * w */
    struct tir_value lds, own;
    /* i32, indices: the workgroup's slice of 256 rows of w; the wave's head, and the wave's first
     * row in that head */
    struct tir_value slice, head, row;
    /* i32: indices of the workgroup's first token, and of the first token after its last one */
    struct tir_value first, end;
    struct tir_view weights; /* view of the wave's rows of w in memory */
    /* The panels of the wave's rows of w; their scales (f32 scalars), one, or one for each block of
     * columns. */
    struct tir_value w[MAX_PANELS], scale[WIDEST / BLOCK];
    struct pipe_plan plan; /* pipeline of the loop over tiles */
    /* Values that a tile's steps pass to each other: index of the tile (i32), and the tile's first
     * panel of x. */
    struct tir_value tile, x;
    struct sums sums; /* products of w and x of the tile, f32 in the type of out^T */
};

/* Returns the number of panels of a row of w, each of p->panel columns. */
static unsigned panels(const struct up *p) { return (unsigned)p->v->head_dim / p->panel; }

/* Returns the bytes of LDS for one tile of x. */
static unsigned buffer_bytes(const struct up *p)
{
    return p->tokens * (unsigned)p->v->head_dim * ELEM;
}

/* Returns the number of tokens of a tile of x: 32, or 16 if LDS has no room for BUFFERS tiles of
 * 32. */
static unsigned tile_tokens(const struct att_variant *v, const struct tir_machine *m)
{
    const unsigned room = m->lds_bytes / (BUFFERS * (unsigned)v->head_dim * ELEM);
    return room >= 2 * MFMA_ROWS ? 2 * MFMA_ROWS : MFMA_ROWS;
}

bool head_product_shared_check(const struct att_variant *v, const struct tir_machine *m,
                               struct att_why *why)
{
    (void)m;
    if (v->activations != ATT_ACTIVATIONS_SAME)
        return att_reject(why, ATT_SHARED, "shared is for activations of dtype");
    if (v->head_dim != WIDEST / 2 && v->head_dim != WIDEST)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d, with shared, is not 256 or 512",
                          v->head_dim);
    return true;
}

/* ---- Layouts ---- */

/* Returns the type of a rows x cols tile of x's dtype, spread over all waves of the workgroup. A
 * lane has CHUNK adjacent elements of a row. */
static struct tir_type over_waves(struct up *p, unsigned rows, unsigned cols)
{
    const struct tir_layout l = tir_spread_chunks(p->m, WAVES, CHUNK, rows, cols);
    return tir_tile(p->b.f, p->dtype, rows, cols, &l);
}

/* Returns layout *l of 32 rows with its rows permuted, so that a lane's 8 rows are consecutive.
 * Bits 0, 1 and 2 of a row's index then come from registers, bits 3 and 4 from lanes. */
static struct tir_layout reorder(const struct tir_layout *l)
{
    static const uint8_t order[] = {0, 1, 3, 4, 2};
    return tir_layout_permute_rows(l, order);
}

/* Returns the LDS layout of `cols` columns of a tile of x. Every 128 bytes of columns form a
 * separate panel, so that panels can be read one by one. Chunks are swizzled over 8 rows. */
static struct tir_layout x_map(const struct up *p, unsigned cols)
{
    enum { COLS = LINE / ELEM };
    const struct tir_layout parts = att_lds_swizzled(p->tokens * (cols / COLS), COLS, CHUNK, 0, 3);
    return tir_layout_join_blocks(&parts, p->tokens, COLS);
}

/* Sets the types of tiles and the LDS layouts. */
static void choose_layouts(struct up *p)
{
    struct tir_func *const f = p->b.f;
    const struct tir_mma *const mma = &p->m->mma[p->instr];
    const struct tir_waves one_wave = {0};
    const struct tir_contraction k = tir_contract_rows(mma, p->panel, CHUNK);
    const struct tir_layout left = tir_mma_left(mma, ROWS, &k, one_wave);
    const struct tir_layout right = tir_mma_right(mma, p->tokens, &k, one_wave);
    const struct tir_layout result = tir_mma_result(mma, ROWS, p->tokens, one_wave);
    const struct tir_layout rows = reorder(&left), out = reorder(&result);
    p->left = tir_tile(f, p->stored, ROWS, p->panel, &rows);
    p->right = tir_tile(f, p->dtype, p->tokens, p->panel, &right);
    p->result = tir_tile(f, TIR_F32, ROWS, p->tokens, &out);
    p->staged = over_waves(p, p->tokens, (unsigned)p->v->head_dim);
    p->tail = over_waves(p, TAIL_TOKENS, TAIL);
    const struct tir_layout whole =
        tir_spread_chunks(p->m, 1, 16 * 8 / tir_dtype_bits(p->stored), ROWS, p->panel);
    p->rows = tir_tile(f, p->stored, ROWS, p->panel, &whole);
    p->x_map = x_map(p, (unsigned)p->v->head_dim);
    p->x_panel_map = x_map(p, p->panel);
    p->w_map = att_lds_swizzled(ROWS, p->panel, LDS_CHUNK * 8 / tir_dtype_bits(p->stored), 0, 3);
}

/* ---- The work of a workgroup ---- */

/* Returns the address (i64) of row `index` (i32) of a tensor of 16-bit elements at address `base`
 * (i64). Argument `stride` has the distance of two rows in elements. */
static struct tir_value row_at(struct up *p, struct tir_value base, struct tir_value index,
                               const char *stride)
{
    return att_row(&p->b, base, index, stride, ELEM);
}

/* Returns argument `stride`, a number of 16-bit elements, in bytes (i32). */
static struct tir_value row_stride(struct up *p, const char *stride)
{
    return att_stride32(&p->b, stride, ELEM);
}

/* Returns ceil(a / n). Both are i32 from 0 to 2^24 - 1, as are all numbers of tiles, workgroups and
 * slices. A division of larger numbers would delay the first loads. */
static struct tir_value parts(struct tir_builder *b, struct tir_value a, struct tir_value n)
{
    return att_divide_short(b, att_plus(b, tir_add(b, a, n), -1), n);
}

/* Sets p->slice of workgroup `item` (i32), one of `slices` (i32) slices of 256 rows. Returns the
 * index (i32) of its group of tokens, below `groups` (i32). For each slice, two groups of tokens
 * are consecutive workgroups. Of eight consecutive workgroups, four therefore have the same tokens,
 * and each two the same rows of w. */
static struct tir_value find_item(struct up *p, struct tir_value item, struct tir_value groups,
                                  struct tir_value slices)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value two = tir_i32(b, 2), both = tir_mul(b, slices, two);
    const struct tir_value pair = att_divide_short(b, item, both), before = tir_mul(b, pair, two);
    const struct tir_value in_pair = tir_sub(b, item, tir_mul(b, pair, both));
    const struct tir_value width = tir_min(b, tir_sub(b, groups, before), two);
    p->slice = tir_shr(b, in_pair, att_plus(b, width, -1));
    return tir_add(b, before, tir_sub(b, in_pair, tir_mul(b, p->slice, width)));
}

/* Sets p->slice and the workgroup's range of tokens, p->first to p->end. Returns an i1: false if
 * the workgroup has no work. */
static struct tir_value find_work(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value tokens = tir_arg(b, ARG_TOKENS, TIR_I32);
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct tir_value tile = tir_i32(b, (int)p->tokens);
    const struct tir_value slices =
        parts(b, att_times(b, heads, p->v->head_dim_v), tir_i32(b, WAVES * ROWS));
    const struct tir_value tiles =
        tir_shr(b, att_plus(b, tokens, (int)p->tokens - 1), tir_i32(b, tir_bits(p->tokens)));
    const struct tir_value all = tir_i32(b, (int)p->m->cus);
    const struct tir_value each = parts(b, tiles, att_divide_short(b, all, slices));
    const struct tir_value groups = parts(b, tiles, each);
    const struct tir_value used = tir_mul(b, groups, slices);
    const struct tir_value block = tir_block_id(b, 0), zero = tir_i32(b, 0);
    const struct tir_value item = att_xcd_item(b, block, zero, used);
    const struct tir_value group = find_item(p, item, groups, slices);
    const struct tir_value run = tir_mul(b, each, tile);
    p->first = tir_mul(b, group, run);
    p->end = tir_min(b, tir_add(b, p->first, run), tokens);
    return tir_cmp_lt(b, block, used);
}

/* Sets p->head and p->row, this wave's first row of w, from p->slice. */
static void find_rows(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const int units = p->v->head_dim_v / ROWS;
    const struct tir_value unit = tir_add(b, att_times(b, p->slice, WAVES), tir_wave_id(b));
    p->head = tir_div(b, unit, tir_i32(b, units));
    p->row = att_times(b, tir_sub(b, unit, att_times(b, p->head, units)), ROWS);
}

/* Returns `n` (i32) if the launch has a head with index `head` (i32), else 0. */
static struct tir_value if_head(struct up *p, struct tir_value head, struct tir_value n)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value there = tir_cmp_lt(b, head, tir_arg(b, ARG_HEADS, TIR_I32));
    return tir_select(b, there, n, tir_i32(b, 0));
}

/* Sets p->weights to a view of this wave's rows of w. The view has no rows if the launch has no
 * head p->head. */
static void find_weights(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const int size = (int)tir_dtype_bits(p->stored) / 8;
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_W, TIR_I64), p->head, ARG_W_HEAD_STRIDE, size);
    const struct tir_value base = att_row(b, head, p->row, ARG_W_ROW_STRIDE, size);
    const struct tir_value rows = if_head(p, p->head, tir_i32(b, ROWS));
    const struct tir_value stride = att_stride32(b, ARG_W_ROW_STRIDE, size);
    p->weights = att_view(b, base, rows, stride, p->v->head_dim * size, 0);
}

/* Issues the loads of panel i of w into registers; nothing if w has no panel i. */
static void load_weights(struct up *p, unsigned i)
{
    struct tir_builder *const b = &p->b;
    struct tir_view view = p->weights;
    if (i >= panels(p))
        return;
    view.byte = tir_i32(b, (int)i * LINE);
    p->w[i] = tir_tile_load(b, view, tir_i32(b, 0), p->rows);
}

/* True if w has scales, so that its stored type is not x's. */
static bool is_scaled(const struct up *p) { return p->v->weights != ATT_WEIGHTS_SAME; }

/* Returns the number of scales of the wave's rows: 0 without scales, 1 for a head, or one for each
 * block of columns. */
static unsigned scales(const struct up *p)
{
    if (!is_scaled(p))
        return 0;
    return p->v->weights == ATT_WEIGHTS_FP8_BLOCK ? (unsigned)p->v->head_dim / BLOCK : 1;
}

/* Loads the scales of the wave's rows of w into p->scale. A wave whose head does not exist loads
 * the last head's. */
static void load_scales(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const bool block = p->v->weights == ATT_WEIGHTS_FP8_BLOCK;
    const unsigned n = scales(p);
    if (!n)
        return;
    const struct tir_value last = att_plus(b, tir_arg(b, ARG_HEADS, TIR_I32), -1);
    struct tir_value row = tir_min(b, p->head, last);
    if (block) {
        const struct tir_value own = tir_shr(b, p->row, tir_i32(b, tir_bits(BLOCK)));
        row = tir_add(b, att_times(b, row, (p->v->head_dim_v + BLOCK - 1) / BLOCK), own);
    }
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value index = att_plus(b, att_times(b, row, (int)n), (int)i);
        p->scale[i] = att_entry(b, ARG_W_SCALE, index, TIR_F32);
    }
}

/* Stores panel i (index) of w from registers to LDS, where take_weights() reads it in the order of
 * the matrix instruction. Memory loads in that order would fetch a cache line for each lane. */
static void put_weights(struct up *p, unsigned i)
{
    tir_tile_lds_store(&p->b, p->own, p->w[i], &p->w_map);
}

/* Reads panel i (index) of w from LDS as an operand of the matrix instruction. 8-bit weights are
 * converted to 16 bits, which is exact. */
static void take_weights(struct up *p, unsigned i)
{
    struct tir_builder *const b = &p->b;
    tir_wait(b, TIR_LDS_WRITES, 0);
    p->w[i] = tir_tile_lds_load(b, p->own, p->left, &p->w_map);
    if (p->stored != p->dtype)
        p->w[i] = tir_convert(b, p->w[i], p->dtype);
    p->w[i] = tir_named(b, "w", p->w[i]);
}

/* ---- One tile ---- */

/* Returns the index (i32) of the first token of tile `tile` (i32, index in the workgroup). */
static struct tir_value tile_token(struct up *p, struct tir_value tile)
{
    return tir_add(&p->b, p->first, att_times(&p->b, tile, (int)p->tokens));
}

/* Returns a view of the rows of a tile, from token `token` (i32) on. The tensor is at address
 * `base` (i64); argument `stride` has its row stride. Rows have `width` elements; rows after the
 * workgroup's last token are read as 0. */
static struct tir_view tile_view(struct up *p, struct tir_value base, const char *stride,
                                 struct tir_value token, int width)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value left = tir_min(b, tir_sub(b, p->end, token), tir_i32(b, (int)p->tokens));
    return att_view(b, row_at(p, base, token, stride), left, row_stride(p, stride), width * ELEM,
                    0);
}

/* Returns the LDS address (i32) of the buffer that has tile `tile` (i32, index) of x. */
static struct tir_value place_of(struct up *p, struct tir_value tile)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value which = tir_rem(b, tile, tir_i32(b, (int)p->buffers));
    return tir_add(b, p->lds, att_times(b, which, (int)buffer_bytes(p)));
}

/* Returns a view in memory of the rows of x of tile `tile` (i32, index in the workgroup). */
static struct tir_view view_x(struct up *p, struct tir_value tile)
{
    return tile_view(p, tir_arg(&p->b, ARG_X, TIR_I64), ARG_X_TOKEN_STRIDE, tile_token(p, tile),
                     p->v->head_dim);
}

/* Issues the copy of tile `tile` (i32 index) of x to its LDS buffer, by all waves. */
static void copy_tile(struct up *p, struct tir_value tile)
{
    struct tir_builder *const b = &p->b;
    tir_copy_to_lds(b, GROUP_X, view_x(p, tile), tir_i32(b, 0), place_of(p, tile), p->staged,
                    &p->x_map);
}

/* Reads panel i (index) of tile `tile` (i32 index) of x from LDS as an operand of the matrix
 * instruction. */
static struct tir_value read_panel(struct up *p, struct tir_value tile, unsigned i)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value at =
        att_plus(b, place_of(p, tile), (int)(i * p->panel * p->tokens) * ELEM);
    return tir_tile_lds_load(b, at, p->right, &p->x_panel_map);
}

/* Returns the whole sum of products: s.last times the scale of the last block, plus s.scaled. */
static struct tir_value add_last(struct up *p, struct sums s)
{
    struct tir_builder *const b = &p->b;
    if (!is_scaled(p))
        return s.last;
    const struct tir_value scale = tir_splat(b, p->scale[scales(p) - 1], p->result);
    return s.scaled.id ? tir_fma(b, s.last, scale, s.scaled) : tir_mul(b, s.last, scale);
}

/* Adds the products of panel i (index) of w and `x` to *s. The sum of a block of columns is
 * multiplied by its scale only after the next block's products, so that no instruction waits. */
static void add_panel(struct up *p, struct sums *s, unsigned i, struct tir_value x)
{
    struct tir_builder *const b = &p->b;
    const unsigned each = is_scaled(p) ? panels(p) / scales(p) : panels(p);
    const struct tir_value before = s->last;
    const bool begins = i % each == 0;
    const struct tir_value sum = begins ? tir_splat(b, tir_f32(b, 0), p->result) : before;
    s->last = tir_mma(b, p->instr, p->w[i], tir_transpose(b, x), sum);
    if (!begins || !i)
        return;
    const struct tir_value scale = tir_splat(b, p->scale[i / each - 1], p->result);
    s->scaled = s->scaled.id ? tir_fma(b, before, scale, s->scaled) : tir_mul(b, before, scale);
}

/* Returns w x^T of tile `tile` (i32 index). `x` is the tile's first panel as an operand. */
static struct sums multiply(struct up *p, struct tir_value tile, struct tir_value x)
{
    struct sums s = {0};
    for (unsigned i = 0; i < panels(p); i++)
        add_panel(p, &s, i, i ? read_panel(p, tile, i) : x);
    return s;
}

/* Converts `sum`, out^T of the tile whose first token is `token` (i32), to x's dtype, and stores
 * it. */
static void store_tile(struct up *p, struct tir_value token, struct tir_value sum)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value out = tir_convert_short(b, sum, p->dtype), zero = tir_i32(b, 0);
    const struct tir_value head =
        row_at(p, tir_arg(b, ARG_OUT, TIR_I64), p->head, ARG_OUT_HEAD_STRIDE);
    const struct tir_value left = tir_min(b, tir_sub(b, p->end, token), tir_i32(b, (int)p->tokens));
    const struct tir_view view =
        att_view(b, row_at(p, head, token, ARG_OUT_TOKEN_STRIDE), if_head(p, p->head, left),
                 row_stride(p, ARG_OUT_TOKEN_STRIDE), p->v->head_dim_v * ELEM, 0);
    struct tir_view to = view;
    to.byte = att_times(b, p->row, ELEM);
    tir_tile_store(b, to, zero, tir_transpose(b, out));
}

/* ---- The tail ---- */

/* Returns a view of up to TAIL_TOKENS rows of TAIL elements, from token `token` (i32) on. The
 * tensor is at address `base` (i64); argument `stride` has its row stride. The view has no rows if
 * `there` (i1) is false. */
static struct tir_view tail_view(struct up *p, struct tir_value base, const char *stride,
                                 struct tir_value token, struct tir_value there)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value end = tir_select(b, there, p->end, tir_i32(b, 0));
    const struct tir_value left = tir_min(b, tir_sub(b, end, token), tir_i32(b, TAIL_TOKENS));
    return att_view(b, row_at(p, base, token, stride), left, row_stride(p, stride), TAIL * ELEM, 0);
}

/* Stores `x`, the tail of the tokens from token `token` (i32) on, for each head whose first row of
 * w is in this slice. */
static void store_tail(struct up *p, struct tir_value token, struct tir_value x)
{
    struct tir_builder *const b = &p->b;
    const int blocks = p->v->head_dim_v / TAIL, own = WAVES * ROWS / TAIL;
    const struct tir_value block = att_times(b, p->slice, own);
    const struct tir_value first = parts(b, block, tir_i32(b, blocks));
    for (int i = 0; i * blocks < own; i++) {
        const struct tir_value head = att_plus(b, first, i);
        const struct tir_value begins =
            tir_cmp_lt(b, att_times(b, head, blocks), att_plus(b, block, own));
        const struct tir_value exists = tir_cmp_lt(b, head, tir_arg(b, ARG_HEADS, TIR_I32));
        const struct tir_value base =
            row_at(p, tir_arg(b, ARG_TAIL_OUT, TIR_I64), head, ARG_TAIL_OUT_HEAD_STRIDE);
        const struct tir_view to =
            tail_view(p, base, ARG_TAIL_OUT_TOKEN_STRIDE, token, tir_and(b, begins, exists));
        tir_tile_store(b, to, tir_i32(b, 0), x);
    }
}

/* Copies the tail of the workgroup's tokens to tail_out, for each head whose first row of w is in
 * this slice. With heads of 64 rows a slice has the first rows of several heads. */
static void copy_tail(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value tail = tir_arg(b, ARG_TAIL, TIR_I64);
    const struct tir_value there = tir_cmp_ne(b, tail, tir_i64(b, 0));
    struct tir_if some = att_begin_if(b, there);
    struct tir_loop loop =
        tir_begin_for(b, p->first, p->end, tir_i32(b, TAILS * TAIL_TOKENS), NULL, 0);
    struct tir_value x[TAILS], token[TAILS];
    for (int i = 0; i < TAILS; i++) {
        token[i] = att_plus(b, loop.index, i * TAIL_TOKENS);
        const struct tir_view from = tail_view(p, tail, ARG_TAIL_TOKEN_STRIDE, token[i], there);
        x[i] = tir_tile_load(b, from, tir_i32(b, 0), p->tail);
    }
    for (int i = 0; i < TAILS; i++)
        store_tail(p, token[i], x[i]);
    tir_end_for(b, &loop, NULL, 0);
    tir_end_if(b, &some, NULL);
}

/* ---- The loop ---- */

/* Reads the first panel of the current tile of x: step "read x". `context` of each step is the
 * struct up. */
static void read_first(void *context)
{
    struct up *const p = context;
    p->x = read_panel(p, p->tile, 0);
}

/* Issues the copy of the tile that is multiplied HEAD_PRODUCT_AHEAD tiles later: step "x to
 * LDS". */
static void copy_later(void *context)
{
    struct up *const p = context;
    copy_tile(p, att_plus(&p->b, p->tile, HEAD_PRODUCT_AHEAD));
}

/* Raises the priority of a wave that multiplies, since instructions of other waves would delay its
 * MFMAs: step "raise priority". */
static void raise_priority(void *context)
{
    struct up *const p = context;
    tir_set_priority(&p->b, 1);
}

/* Multiplies the current tile: step "read x, products". */
static void multiply_tile(void *context)
{
    struct up *const p = context;
    p->sums = multiply(p, p->tile, p->x);
}

/* Sets the wave's priority to the lowest before it stores and copies: step "lower priority". */
static void lower_priority(void *context)
{
    struct up *const p = context;
    tir_set_priority(&p->b, 0);
}

/* Stores the results of the current tile: step "store out". */
static void store_result(void *context)
{
    struct up *const p = context;
    store_tile(p, tile_token(p, p->tile), add_last(p, p->sums));
}

/* Values that steps pass to each other, a bit for each. */
enum { SLOT_X = 1, SLOT_OUT = 2 };
const struct pipe_slot head_product_slots[] = {{"x", 0}, {"out", 0}, {0}};
const struct pipe_op head_product_read_first = {"read x", .build = read_first, .writes = SLOT_X,
                                                .lds_reads = 1};
const struct pipe_op head_product_copy = {"x to LDS", copy_later, .lds_writes = 1,
                                          .flags = PIPE_ASYNC};
const struct pipe_op head_product_raise = {"raise priority", raise_priority, .flags = 0};
const struct pipe_op head_product_multiply = {
    "read x, products", multiply_tile, SLOT_X, SLOT_OUT, .lds_reads = 1, .flags = PIPE_PRODUCT};
const struct pipe_op head_product_lower = {"lower priority", lower_priority, .flags = 0};
const struct pipe_op head_product_store = {"store out", .build = store_result, .reads = SLOT_OUT};

/* ---- The first tiles, while w arrives ---- */

/* Issues the copy of tile `tile` (index) of x, one of the first tiles, and ends the phase, since
 * waits count copies by phase. */
static void copy_first(struct up *p, unsigned tile)
{
    copy_tile(p, tir_i32(&p->b, (int)tile));
    tir_phase(&p->b, false);
}

/* Appends a barrier for the upper half of the waves, or if `upper` is false for the lower half. The
 * other half is at its own barrier at that time. The two halves are afterwards one phase apart
 * (after the first call) or in the same phase again. */
static void add_half_barrier(struct up *p, bool upper)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value half = tir_i32(b, WAVES / 2), wave = tir_wave_id(b);
    const struct tir_value own = upper ? tir_cmp_ge(b, wave, half) : tir_cmp_lt(b, wave, half);
    struct tir_if some = att_begin_if(b, own);
    tir_barrier(b);
    tir_end_if(b, &some, NULL);
}

/* True if LDS has a buffer for another tile while w passes through LDS. */
static bool has_room(const struct up *p) { return p->apart > FIRST; }

/* Issues the copies of the tiles that the main loop needs first, when `left` panels of w are still
 * to be multiplied. The copies are issued after the loads of w, since a wait for w would include
 * them, and before the first stores of results. */
static void copy_next(struct up *p, unsigned left)
{
    struct tir_builder *const b = &p->b;
    const unsigned early = panels(p) > 2 ? 2 : 1;
    if (has_room(p) ? left == early : left == 1) {
        if (!has_room(p))
            tir_barrier(b);
        copy_first(p, FIRST);
    }
    if (left == 1)
        copy_first(p, FIRST + 1);
    if (left == 1 && has_room(p)) {
        tir_wait(b, GROUP_X, 1);
        add_half_barrier(p, true);
    }
}

/* Adds the products of panel i (index) of w and the FIRST tiles to sums[]. Meanwhile panel i + 1 of
 * w passes through LDS, which puts it in the order of the matrix instruction. */
static void multiply_first(struct up *p, unsigned i, struct sums sums[FIRST])
{
    struct tir_builder *const b = &p->b;
    const bool more = i + 1 < panels(p);
    for (unsigned t = 0; t < FIRST; t++) {
        tir_phase(b, true);
        add_panel(p, &sums[t], i, read_panel(p, tir_i32(b, (int)t), i));
        tir_phase(b, false);
        if (more && !t) {
            put_weights(p, i + 1);
            load_weights(p, i + W_AHEAD);
        }
    }
    if (!more)
        return;
    take_weights(p, i + 1);
    copy_next(p, panels(p) - 1 - i);
}

/* Computes the first FIRST tiles of out panel by panel, while panels of w arrive. */
static void begin_tiles(struct up *p)
{
    struct tir_builder *const b = &p->b;
    struct sums sums[FIRST] = {0};
    for (unsigned i = 0; i < FIRST; i++)
        copy_first(p, i);
    find_weights(p);
    load_weights(p, 0);
    tir_barrier(b); /* after this barrier all waves have issued their first loads */
    for (unsigned i = 1; i < W_AHEAD; i++)
        load_weights(p, i);
    load_scales(p);
    put_weights(p, 0);
    take_weights(p, 0);
    tir_wait(b, GROUP_X, 0);
    tir_barrier(b);
    for (unsigned i = 0; i < panels(p); i++)
        multiply_first(p, i, sums);
    for (unsigned t = 0; t < FIRST; t++)
        store_tile(p, tile_token(p, tir_i32(b, (int)t)), add_last(p, sums[t]));
    if (!has_room(p))
        tir_wait(b, GROUP_X, 1);
    if (has_room(p))
        add_half_barrier(p, false);
    else
        tir_barrier(b);
}

/* ---- The workgroup ---- */

/* Computes all tiles of out of the workgroup, and copies the tails (elements without a product) of
 * its tokens. */
static void visit(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value first = tir_i32(b, FIRST), one = tir_i32(b, 1);
    find_rows(p);
    begin_tiles(p);
    const struct tir_value tiles =
        parts(b, tir_sub(b, p->end, p->first), tir_i32(b, (int)p->tokens));
    const struct tir_value left = tir_max(b, tir_sub(b, tiles, first), one);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), left, one, NULL, 0);
    p->tile = tir_add(b, loop.index, first);
    pipe_build(b, &p->plan, p);
    tir_end_for(b, &loop, NULL, 0);
    copy_tail(p);
}

/* Divides LDS between tiles of x and the panels of w that pass through it. The loop needs BUFFERS
 * buffers for x. If there is room for one more, it receives copies while panels of w occupy the
 * last ones. */
static void share_lds(struct up *p)
{
    struct tir_builder *const b = &p->b;
    const unsigned each = buffer_bytes(p), passing = WAVES * PANEL_BYTES, all = p->m->lds_bytes;
    const unsigned apart = (all - passing) / each;
    p->buffers = all >= (BUFFERS + 1) * each ? BUFFERS + 1 : BUFFERS;
    p->apart = apart < p->buffers ? apart : p->buffers;
    const unsigned x = p->buffers * each, at = p->apart * each, end = at + passing;
    p->lds = tir_lds_buffer(b, x > end ? x : end, 16);
    p->own = att_plus(b, tir_add(b, p->lds, att_times(b, tir_wave_id(b), PANEL_BYTES)), (int)at);
}

void head_product_shared_build(const struct att_variant *v, const struct tir_machine *m,
                               struct att_kernel *k)
{
    const unsigned dtype = att_dtype(v);
    struct up p = {
        .v = v,
        .m = m,
        .dtype = dtype,
        .stored = v->weights == ATT_WEIGHTS_SAME ? dtype : TIR_FP8,
        .tokens = tile_tokens(v, m),
    };
    p.panel = LINE * 8 / tir_dtype_bits(p.stored);
    p.instr = tir_find_mma(m, MFMA_ROWS, MFMA_ROWS, 0, p.dtype);
    struct tir_func *const f = att_begin_kernel(v, m, WAVES, WAVES_PER_SIMD);
    p.b = tir_at_end(f, f->body);
    struct tir_builder *const b = &p.b;
    choose_layouts(&p);
    share_lds(&p);
    pipe_choose(&head_product_weight_stationary, &(struct pipe_variant){.waves = WAVES}, &p.plan);
    assert(p.plan.depth[0] <= p.buffers);
    struct tir_if some = att_begin_if(b, find_work(&p));
    visit(&p);
    tir_end_if(b, &some, NULL);
    tir_return(b);

    *k = (struct att_kernel){
        .func = f,
        .schedule = pipe_schedule(&p.plan),
        .grid = {{NULL, 1, (int)m->cus}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "rows=%d tokens=%u waves=%d stages=%d", WAVES * ROWS,
             p.tokens, WAVES, p.plan.stages);
}
