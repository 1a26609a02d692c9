/* SPDX-License-Identifier: Apache-2.0
 *
 * head_product of up to 64 tokens, if every compute unit has 256 KB of w or more to read: HBM is
 * the bound, and a workgroup issues all of its loads before it multiplies. They are direct-to-LDS
 * copies, so that no register waits for them: a workgroup has a compute unit to itself, and a
 * workgroup with fewer registers starts sooner.
 *
 * With a short contraction (absorbed keys) a workgroup has 256 rows of w, 64 for each wave, and x
 * is small. Each wave copies the rows of w that it reads, so that no wave waits for another once x
 * has arrived. Waves issue their copies one after the other and end in that order, and results are
 * stored while other rows of w arrive.
 *
 * With a long contraction (absorbed values) a workgroup has 64 rows, 16 for each wave, and x is as
 * large as w. The first tile of x arrives first and the second one last, in panels: all waves have
 * read a panel when the next one arrives, so little work follows the last byte. If LDS has no room
 * for all of it, panels of w and of both tiles use the same LDS, one after the other.
 */
#include <assert.h>
#include <stdio.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/matrix.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/grid.h"
#include "templates/head_product/pipelines/pipelines.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

/* WAVES: waves of a workgroup; WAVE_BITS: log2 of that number. ROWS: rows of w of a wave.
 * BLOCK_ROWS: rows of a block of w. TILE: tokens of a tile of x. TILES: tiles that are multiplied
 * at once. */
enum { WAVES = 4, WAVE_BITS = 2, ROWS = 16, BLOCK_ROWS = WAVES * ROWS, TILE = 32, TILES = 2 };
/* LINE: bytes of a row of x or w that one copy reads. SCALED: columns, or rows, of w that share a
 * scale. TAIL: elements of a token's tail, which is copied without a product. */
enum { LINE = 128, SCALED = 128, TAIL = 64 };
enum { ELEM = 2 /* bytes of an element of bf16 or fp16 */, CHUNK = 8, LDS_CHUNK = 16 };
enum {
    PANEL = LINE / ELEM /* number of columns of x in a panel */,
    STEP = 32 /* number of columns that are read from LDS at once */
};
/* SHORT: most columns of a short contraction. LONG: number of columns of a long one. MOST_BLOCKS:
 * most blocks of w of a workgroup. MOST_SCALES: most scales of a row of w. */
enum { SHORT = 256, LONG = 512, MOST_BLOCKS = 4, MOST_SCALES = LONG / SCALED };
/* Number of panels of x and of w for which LDS has places if p->rings. */
enum { RING = HEAD_PRODUCT_RING };
/* Queues of copies of x and of w, for tir_wait(). */
enum { GROUP_X, GROUP_W };

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct stream {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned dtype, stored; /* enum tir_dtype of x, and of w in memory */
    unsigned wide;          /* number of columns of a panel of w */
    /* Number of blocks of BLOCK_ROWS rows of w that the workgroup has */
    unsigned blocks;
    unsigned slots; /* number of blocks of w for which LDS has room at once */
    /* True: panels of a long contraction pass through RING places in LDS; false: each panel has a
     * place of its own. */
    bool rings;
    int instr; /* index in tir_machine.mma of the matrix instruction */
    /* Types of a panel of x and of a block's panel of w, spread over the waves of the workgroup. */
    struct tir_type x_panel, w_panel;
    /* types for a step of STEP columns: w and x as operands, and the result out^T */
    struct tir_type left, right, result;
    /* Types of out, and of the tail, in the order in which they are stored */
    struct tir_type lines, tail;
    struct tir_layout x_map, w_map; /* LDS layouts of a panel of x and of w */
    /* i32: LDS addresses of the tiles of x, of the blocks of w, and of out */
    struct tir_value x, w, out;
    /* i32, indices: the head, and the workgroup's part of the head's rows of w */
    struct tir_value head, part;
    /* i32: index of the first token, and number of tokens that are multiplied at once */
    struct tir_value token, tokens;
    /* Views in memory of the head's tokens of x, and of the workgroup's rows of w */
    struct tir_view head_x, weights;
    /* f32 scalars: scales of the workgroup's rows of w, block of rows by block of rows; set if w
     * has scales. */
    struct tir_value scale[MOST_SCALES];
};

/* True if the contraction is long, with LONG columns, as for absorbed values. False for absorbed
 * keys. */
static bool is_long(const struct stream *p) { return p->v->head_dim == LONG; }

/* Returns the number of bytes of an element of w. */
static unsigned w_bytes(const struct stream *p) { return tir_dtype_bits(p->stored) / 8; }

/* Returns the number of panels of a row of x. */
static unsigned x_panels(const struct stream *p) { return (unsigned)p->v->head_dim / PANEL; }

/* Returns the number of panels of a row of w. */
static unsigned w_panels(const struct stream *p) { return (unsigned)p->v->head_dim / p->wide; }

/* Returns the number of rows of w that a workgroup has. */
static int rows(const struct stream *p) { return (int)p->blocks * BLOCK_ROWS; }

/* Returns the number of blocks of BLOCK_ROWS rows of w that a workgroup has. */
static unsigned block_count(const struct att_variant *v)
{
    return v->head_dim == LONG ? 1 : MOST_BLOCKS;
}

/* Returns the number of blocks of w for which LDS has room besides x and, with a long contraction,
 * out. */
static unsigned slots(const struct att_variant *v, const struct tir_machine *m)
{
    const int size = v->weights == ATT_WEIGHTS_SAME ? ELEM : 1;
    const int x = v->head_dim * TILES * TILE * ELEM,
              out = v->head_dim == LONG ? TILES * TILE * BLOCK_ROWS * ELEM : 0;
    const int left = (int)m->lds_bytes - x - out, n = left / (v->head_dim * BLOCK_ROWS * size);
    const int all = (int)block_count(v);
    return (unsigned)(n > all ? all : n > 0 ? n : 0);
}

bool head_product_stream_fits(const struct att_variant *v, const struct tir_machine *m,
                              struct att_why *why)
{
    enum { SLOTS_LEAST = 3 };
    const int size = v->weights == ATT_WEIGHTS_SAME ? ELEM : 1, all = (int)block_count(v);
    if (v->shared || v->activations != ATT_ACTIVATIONS_SAME)
        return att_reject(why, ATT_TILE, "the tile is for x of each head, which is not rounded");
    if ((v->head_dim > SHORT && v->head_dim != LONG) || v->head_dim % (LINE / size))
        return att_reject(why, ATT_TILE, "the tile is not for x of %d columns", v->head_dim);
    if (v->head_dim_v % (all * BLOCK_ROWS))
        return att_reject(why, ATT_TILE, "the tile is for multiples of %d rows", all * BLOCK_ROWS);
    if (v->head_dim == LONG && m->lds_bytes >= RING * (TILES * TILE + BLOCK_ROWS) * LINE)
        return true;
    const int least = all < SLOTS_LEAST ? all : SLOTS_LEAST;
    return (int)slots(v, m) >= least ||
           att_reject(why, ATT_TILE, "the tile has LDS for %u of %d blocks of w", slots(v, m),
                      least);
}

/* ---- Layouts ---- */

/* Returns the type of a rows x cols tile of `dtype` (enum tir_dtype), spread over all waves of the
 * workgroup. A lane has CHUNK adjacent elements of a row. */
static struct tir_type over_waves(struct stream *p, unsigned dtype, unsigned rows, unsigned cols)
{
    const struct tir_layout l = tir_spread_chunks(p->m, WAVES, CHUNK, rows, cols);
    return tir_tile(p->b.f, dtype, rows, cols, &l);
}

/* Returns the LDS layout of a panel of w, with chunks swizzled over 8 rows. The order of rows makes
 * each wave copy the rows that it reads: row bits that one load does not cover select the wave. */
static struct tir_layout weight_map(const struct stream *p)
{
    enum { BITS = 6, SWIZZLED = 3 };
    static_assert(1 << BITS == BLOCK_ROWS, "a row has so many bits");
    const unsigned loaded = tir_bits((tir_lane_copy(p->m, 0)->bytes << p->m->lane_bits) / LINE);
    uint8_t order[BITS];
    for (unsigned i = 0; i < BITS; i++)
        order[i] = (uint8_t)(i < loaded               ? i
                             : i < loaded + WAVE_BITS ? BITS - WAVE_BITS + i - loaded
                                                      : i - WAVE_BITS);
    const struct tir_layout plain = tir_row_major(BLOCK_ROWS, p->wide);
    struct tir_layout map = tir_layout_permute_rows(&plain, order);
    for (unsigned i = 0; i < SWIZZLED; i++)
        tir_map_flip(&map, (unsigned)tir_layout_find_bit(&map, TIR_RC(1u << i, 0)),
                     TIR_RC(0, LDS_CHUNK / w_bytes(p) << i));
    return map;
}

/* Returns the LDS layout of a tile of out, TILE tokens of BLOCK_ROWS elements. */
static struct tir_layout lines_map(void) { return att_lds_swizzled(TILE, BLOCK_ROWS, CHUNK, 0, 3); }

/* Sets the types of tiles and the LDS layouts. */
static void choose_layouts(struct stream *p)
{
    struct tir_func *const f = p->b.f;
    const struct tir_mma *const mma = &p->m->mma[p->instr];
    const struct tir_waves one_wave = {0}, by_rows = {.rows = WAVE_BITS};
    const struct tir_contraction k = tir_contract_rows(mma, STEP, CHUNK);
    const struct tir_layout left = tir_mma_left(mma, BLOCK_ROWS, &k, by_rows);
    const struct tir_layout right = tir_mma_right(mma, TILE, &k, one_wave);
    const struct tir_layout result = tir_mma_result(mma, BLOCK_ROWS, TILE, by_rows);
    p->left = tir_tile(f, p->stored, BLOCK_ROWS, STEP, &left);
    p->right = tir_tile(f, p->dtype, TILE, STEP, &right);
    p->result = tir_tile(f, TIR_F32, BLOCK_ROWS, TILE, &result);
    p->x_panel = over_waves(p, p->dtype, TILE, PANEL);
    p->w_panel = over_waves(p, p->stored, BLOCK_ROWS, p->wide);
    p->lines = over_waves(p, p->dtype, TILE, BLOCK_ROWS);
    p->tail = over_waves(p, p->dtype, TILES * TILE, TAIL);
    p->x_map = att_lds_swizzled(TILE, PANEL, CHUNK, 0, 3);
    p->w_map = weight_map(p);
}

/* ---- Operands ---- */

/* Returns a view of the current tokens of the workgroup's head in tensor `t`, [token, head, width
 * elements]. */
static struct tir_view tokens_of(struct stream *p, struct att_tensor t, int width)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value head =
        att_row(b, tir_arg(b, t.arg, TIR_I64), p->head, t.head_stride, ELEM);
    const struct tir_value base = att_row(b, head, p->token, t.token_stride, ELEM);
    const struct tir_value stride = att_stride32(b, t.token_stride, ELEM);
    return att_view(b, base, p->tokens, stride, width * ELEM, 0);
}

/* Returns a view of the workgroup's rows of w. */
static struct tir_view weights_of(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const int size = (int)w_bytes(p);
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_W, TIR_I64), p->head, ARG_W_HEAD_STRIDE, size);
    const struct tir_value base =
        att_row(b, head, att_times(b, p->part, rows(p)), ARG_W_ROW_STRIDE, size);
    const struct tir_value stride = att_stride32(b, ARG_W_ROW_STRIDE, size);
    return att_view(b, base, tir_i32(b, rows(p)), stride, p->v->head_dim * size, 0);
}

/* Returns the LDS address (i32) of panel `panel` of tile `tile` of x; both are indices. */
static struct tir_value x_at(struct stream *p, unsigned tile, unsigned panel)
{
    const unsigned place = p->rings ? panel % RING * TILES + tile : tile * x_panels(p) + panel;
    return att_plus(&p->b, p->x, (int)(place * TILE * LINE));
}

/* Returns the LDS address (i32) of panel `panel` of block `block` of w; both are indices. */
static struct tir_value w_at(struct stream *p, unsigned block, unsigned panel)
{
    const unsigned place = p->rings ? panel % RING : block % p->slots * w_panels(p) + panel;
    return att_plus(&p->b, p->w, (int)(place * BLOCK_ROWS * LINE));
}

/* Issues the copy of panel `panel` of tile `tile` of x to LDS. `x` is a view of the head's
 * tokens. */
static void copy_x(struct stream *p, struct tir_view x, unsigned tile, unsigned panel)
{
    struct tir_builder *const b = &p->b;
    x.byte = tir_i32(b, (int)panel * LINE);
    tir_copy_to_lds(b, GROUP_X, x, tir_i32(b, (int)tile * TILE), x_at(p, tile, panel), p->x_panel,
                    &p->x_map);
    tir_phase(b, false);
}

/* Issues the copy of panel `panel` of block `block` of w to LDS. */
static void copy_w(struct stream *p, unsigned block, unsigned panel)
{
    struct tir_builder *const b = &p->b;
    struct tir_view w = p->weights;
    w.byte = tir_i32(b, (int)panel * LINE);
    tir_copy_to_lds(b, GROUP_W, w, tir_i32(b, (int)block * BLOCK_ROWS), w_at(p, block, panel),
                    p->w_panel, &p->w_map);
    tir_phase(b, false);
}

/* Issues the copies of all panels of block `block` of w. */
static void copy_block(struct stream *p, unsigned block)
{
    for (unsigned k = 0; k < w_panels(p); k++)
        copy_w(p, block, k);
}

/* Makes LLVM compute LDS addresses anew from this point on. Otherwise it would compute all LDS
 * addresses before the first load, and keep them in scalar registers. */
static void find_places(struct stream *p)
{
    p->x = tir_materialize(&p->b, p->x);
    p->w = tir_materialize(&p->b, p->w);
}

/* Issues the copies of panel `panel` (index) of x for all tokens. If a panel of w begins at the
 * same column, issues its copy too. Does nothing if x has no such panel. */
static void copy_panel(struct stream *p, unsigned panel)
{
    if (panel >= x_panels(p))
        return;
    find_places(p);
    if (panel * PANEL % p->wide == 0)
        copy_w(p, 0, panel * PANEL / p->wide);
    for (unsigned t = 0; t < TILES; t++)
        copy_x(p, p->head_x, t, panel);
}

/* Makes LLVM compute the addresses of later loads only after the loads that are already issued. */
static void come_later(struct stream *p)
{
    p->head = tir_materialize(&p->b, p->head);
    p->part = tir_materialize(&p->b, p->part);
}

/* Issues all copies, or the first RING - 1 panels if p->rings, in the order of their use. Barriers
 * between them make the waves issue in that order; otherwise one wave would issue all of its copies
 * before the next one began. */
static void copy_all(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_view x = tokens_of(p, ATT_HEADS(X), p->v->head_dim);
    const unsigned early = is_long(p) ? 1 : TILES;
    p->head_x = x;
    if (p->rings) {
        p->weights = weights_of(p);
        for (unsigned k = 0; k < RING - 1; k++) {
            copy_panel(p, k);
            tir_barrier(b);
        }
        come_later(p);
        return;
    }
    for (unsigned t = 0; t < early; t++)
        for (unsigned k = 0; k < x_panels(p); k++)
            copy_x(p, x, t, k);
    come_later(p);
    tir_barrier(b);
    p->weights = weights_of(p);
    for (unsigned i = 0; i < p->slots; i++)
        copy_block(p, i);
    for (unsigned t = early; t < TILES; t++)
        for (unsigned k = 0; k < x_panels(p); k++) {
            tir_barrier(b);
            copy_x(p, x, t, k);
        }
    come_later(p);
}

/* Waits until all waves' parts of panel `panel` of tile `tile` of x (indices), and of all panels
 * before it, are in LDS. */
static void await_x(struct stream *p, unsigned tile, unsigned panel)
{
    struct tir_builder *const b = &p->b;
    const unsigned all = TILES * x_panels(p);
    tir_wait(b, GROUP_X, (int)(all - 1 - (tile * x_panels(p) + panel)));
    tir_barrier(b);
}

/* Waits until this wave's part of panel `panel` of block `block` of w (indices) is in LDS. Waits
 * count later copies: a further block's copies are issued for each block that has been read. */
static void await_w(struct stream *p, unsigned block, unsigned panel)
{
    const unsigned issued = block + p->slots < p->blocks ? block + p->slots : p->blocks;
    tir_wait(&p->b, GROUP_W, (int)(issued * w_panels(p) - 1 - (block * w_panels(p) + panel)));
}

/* Reads STEP columns of tile `tile` (index) of x from LDS, from column `column` on, as an
 * operand. */
static struct tir_value read_x(struct stream *p, unsigned tile, unsigned column)
{
    return tir_tile_lds_load_from(&p->b, x_at(p, tile, column / PANEL), p->right, &p->x_map,
                                  column % PANEL);
}

/* Reads STEP columns of block `block` (index) of w from LDS, from column `column` on, as an operand
 * in the stored dtype. */
static struct tir_value read_w(struct stream *p, unsigned block, unsigned column)
{
    return tir_tile_lds_load_from(&p->b, w_at(p, block, column / p->wide), p->left, &p->w_map,
                                  column % p->wide);
}

/* Returns `w`, a tile as stored, in x's dtype, in which it is multiplied. Converting 8-bit numbers
 * to 16 bits is exact. */
static struct tir_value widened(struct stream *p, struct tir_value w)
{
    return p->stored == p->dtype ? w : tir_convert(&p->b, w, p->dtype);
}

/* ---- Scales of w ---- */

/* Returns the number of columns of w that share one scale. */
static unsigned scaled_columns(const struct stream *p)
{
    return p->v->weights == ATT_WEIGHTS_FP8_BLOCK ? SCALED : (unsigned)p->v->head_dim;
}

/* Loads the scales of the workgroup's rows of w into p->scale, if w has scales. */
static void load_scales(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const int columns = p->v->head_dim / SCALED, high = (p->v->head_dim_v + SCALED - 1) / SCALED;
    if (p->v->weights == ATT_WEIGHTS_FP8)
        p->scale[0] = att_entry(b, ARG_W_SCALE, p->head, TIR_F32);
    if (p->v->weights != ATT_WEIGHTS_FP8_BLOCK)
        return;
    const struct tir_value first =
        tir_shr(b, att_times(b, p->part, rows(p)), tir_i32(b, tir_bits(SCALED)));
    const struct tir_value row = tir_add(b, att_times(b, p->head, high), first);
    const int n = (rows(p) + SCALED - 1) / SCALED * columns;
    for (int i = 0; i < n; i++)
        p->scale[i] =
            att_entry(b, ARG_W_SCALE, att_plus(b, att_times(b, row, columns), i), TIR_F32);
}

/* Returns the scale (f32 scalar) of block `block` (index) of w at column `column`. */
static struct tir_value scale_at(const struct stream *p, unsigned block, unsigned column)
{
    const unsigned columns = (unsigned)p->v->head_dim / scaled_columns(p);
    const unsigned high = p->v->weights == ATT_WEIGHTS_FP8_BLOCK ? block * BLOCK_ROWS / SCALED : 0;
    return p->scale[high * columns + column / scaled_columns(p)];
}

/* A sum of products of a block of w with a tile of x. Each scale is for a range of columns. */
struct sum {
    /* f32: sum of the products of the columns that the current scale covers. */
    struct tir_value part;
    struct tir_value scaled; /* f32: scaled sum of all columns before */
};

/* Adds the product of `w` and `x`, STEP columns from column `column` on, to the sum *s of block
 * `block` (index). After the last columns of a scale the sum is multiplied by that scale. */
static void add_step(struct stream *p, struct sum *s, unsigned block, unsigned column,
                     struct tir_value w, struct tir_value x)
{
    struct tir_builder *const b = &p->b;
    const unsigned each = scaled_columns(p);
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0), p->result);
    s->part = tir_mma(b, p->instr, w, tir_transpose(b, x), column % each ? s->part : zero);
    if (p->stored == p->dtype || (column + STEP) % each)
        return;
    const struct tir_value scale = tir_splat(b, scale_at(p, block, column), p->result);
    s->part = s->scaled.id ? tir_fma(b, s->part, scale, s->scaled) : tir_mul(b, s->part, scale);
    s->scaled = s->part;
}

/* ---- Absorbed keys: blocks of rows with all tokens ---- */

/* Computes sum[], the products of block `block` (index) of w with each tile of tokens. */
static void multiply_block(struct stream *p, unsigned block, struct sum sum[TILES])
{
    enum { MOST_STEPS = LINE / STEP };
    const unsigned steps = p->wide / STEP;
    for (unsigned k = 0; k < w_panels(p); k++) {
        struct tir_value w[MOST_STEPS], x[TILES];
        await_w(p, block, k);
        for (unsigned i = 0; i < steps; i++)
            w[i] = read_w(p, block, k * p->wide + i * STEP);
        for (unsigned i = 0; i < steps; i++) {
            const unsigned column = k * p->wide + i * STEP;
            for (unsigned t = 0; t < TILES; t++)
                x[t] = read_x(p, t, column);
            w[i] = widened(p, w[i]);
            for (unsigned t = 0; t < TILES; t++)
                add_step(p, &sum[t], block, column, w[i], x[t]);
        }
    }
}

/* Computes the result and stores it to `out`, a view of the head's tokens: one block of rows of w
 * after the other, each for all tokens. */
static void visit_blocks(struct stream *p, struct tir_view out)
{
    struct tir_builder *const b = &p->b;
    await_x(p, TILES - 1, x_panels(p) - 1);
    const struct tir_value first = att_times(b, p->part, rows(p) * ELEM);
    for (unsigned i = 0; i < p->blocks; i++) {
        struct sum sum[TILES] = {0};
        multiply_block(p, i, sum);
        if (i + p->slots < p->blocks) {
            /* includes reads: after it the wave has read what the next copy overwrites */
            tir_wait(b, TIR_LDS_WRITES, 0);
            copy_block(p, i + p->slots);
        }
        out.byte = att_plus(b, first, (int)i * BLOCK_ROWS * ELEM);
        for (unsigned t = 0; t < TILES; t++)
            tir_tile_store(b, out, tir_i32(b, (int)t * TILE),
                           tir_transpose(b, tir_convert_short(b, sum[t].part, p->dtype)));
    }
}

/* ---- Absorbed values: tiles of tokens with all rows ---- */

/* Returns the products (f32) of tile `tile` (index) of x with all rows of w. */
static struct tir_value multiply_tile(struct stream *p, unsigned tile)
{
    enum { STEPS = PANEL / STEP };
    struct sum sum = {0};
    for (unsigned k = 0; k < x_panels(p); k++) {
        struct tir_value w[STEPS], x[STEPS];
        for (unsigned i = 0; i < STEPS && tile; i++)
            w[i] = read_w(p, 0, k * PANEL + i * STEP);
        if (tile || !k)
            await_x(p, tile, tile ? k : x_panels(p) - 1);
        if (!tile && k * PANEL % p->wide == 0)
            await_w(p, 0, k * PANEL / p->wide);
        for (unsigned i = 0; i < STEPS; i++) {
            w[i] = tile ? w[i] : read_w(p, 0, k * PANEL + i * STEP);
            x[i] = read_x(p, tile, k * PANEL + i * STEP);
        }
        for (unsigned i = 0; i < STEPS; i++)
            add_step(p, &sum, 0, k * PANEL + i * STEP, widened(p, w[i]), x[i]);
    }
    return sum.part;
}

/* Stores `sum`, out^T of a tile, to LDS at address `at` (i32) in the output's dtype. store_lines()
 * reads whole cache lines from there. */
static void put_lines(struct stream *p, struct tir_value at, struct tir_value sum)
{
    struct tir_builder *const b = &p->b;
    const struct tir_layout map = lines_map();
    tir_tile_lds_store(b, at, tir_transpose(b, tir_convert_short(b, sum, p->dtype)), &map);
}

/* Stores tile `tile` (index) of out, which put_lines() has left in LDS at address `at` (i32), to
 * memory. `out` is a view of the head's tokens. */
static void store_lines(struct stream *p, struct tir_view out, unsigned tile, struct tir_value at)
{
    struct tir_builder *const b = &p->b;
    const struct tir_layout map = lines_map();
    tir_tile_store(b, out, tir_i32(b, (int)tile * TILE), tir_tile_lds_load(b, at, p->lines, &map));
}

/* Computes the result and stores it to `out`, a view of the head's tokens: one tile of tokens after
 * the other, each for all rows of w. */
static void visit_tiles(struct stream *p, struct tir_view out)
{
    struct tir_builder *const b = &p->b;
    out.byte = att_times(b, p->part, rows(p) * ELEM);
    for (unsigned t = 0; t < TILES; t++) {
        const struct tir_value at = att_plus(b, p->out, (int)t * TILE * BLOCK_ROWS * ELEM);
        put_lines(p, at, multiply_tile(p, t));
        att_lds_barrier(b);
        store_lines(p, out, t, at);
    }
}

/* ---- Absorbed values where LDS does not take all: panels of all rows and tokens ---- */

/* Waits until panel `panel` (index) of w and of x is in LDS for all waves. All waves have then read
 * the previous panel, so its place receives the copy of the next panel. */
static void await_panel(struct stream *p, unsigned panel)
{
    struct tir_builder *const b = &p->b;
    const unsigned n = x_panels(p), each = p->wide / PANEL;
    const unsigned issued = panel + RING - 1 < n ? panel + RING - 1 : n;
    tir_wait(b, GROUP_W, (int)((issued + each - 1) / each - 1 - panel / each));
    tir_wait(b, GROUP_X, (int)((issued - 1 - panel) * TILES));
    tir_wait(b, TIR_LDS_WRITES, 0); /* this wait includes reads of LDS */
    tir_barrier(b);
    copy_panel(p, panel + RING - 1);
}

/* Adds the products of panel `panel` (index) of w and x to sum[], which has one for each tile of
 * tokens. */
static void multiply_panel(struct stream *p, unsigned panel, struct sum sum[TILES])
{
    enum { STEPS = PANEL / STEP };
    struct tir_value w[STEPS], x[STEPS][TILES];
    for (unsigned i = 0; i < STEPS; i++) {
        const unsigned column = panel * PANEL + i * STEP;
        w[i] = read_w(p, 0, column);
        for (unsigned t = 0; t < TILES; t++)
            x[i][t] = read_x(p, t, column);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        w[i] = widened(p, w[i]);
        for (unsigned t = 0; t < TILES; t++)
            add_step(p, &sum[t], 0, panel * PANEL + i * STEP, w[i], x[i][t]);
    }
}

/* Multiplies all panels of w and x as they arrive, and stores `out`, a view of the head's tokens.
 * Results pass through the LDS of panels that have been multiplied. */
static void visit_panels(struct stream *p, struct tir_view out)
{
    struct tir_builder *const b = &p->b;
    struct sum sum[TILES] = {0};
    struct pipe_plan plan;
    pipe_choose(&head_product_panel_ring, &(struct pipe_variant){.waves = WAVES}, &plan);
    assert(plan.depth[0] == RING && plan.depth[1] == RING);
    for (unsigned k = 0; k < x_panels(p); k++) {
        await_panel(p, k);
        multiply_panel(p, k, sum);
    }
    out.byte = att_times(b, p->part, rows(p) * ELEM);
    for (unsigned t = 0; t < TILES; t++)
        put_lines(p, x_at(p, t, x_panels(p) - 2), sum[t].part);
    att_lds_barrier(b);
    for (unsigned t = 0; t < TILES; t++)
        store_lines(p, out, t, x_at(p, t, x_panels(p) - 2));
}

/* ---- The workgroup ---- */

/* Copies argument tail, TAIL elements of each token, to the head's rows of tail_out. Only the
 * workgroup with the head's first rows of w copies. */
static void copy_tail(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value tail = tir_arg(b, ARG_TAIL, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value mine =
        tir_and(b, tir_cmp_ne(b, tail, tir_i64(b, 0)), tir_cmp_eq(b, p->part, zero));
    struct tir_if some = att_begin_if(b, mine);
    const struct tir_value stride = att_stride32(b, ARG_TAIL_TOKEN_STRIDE, ELEM);
    const struct tir_value base = att_row(b, tail, p->token, ARG_TAIL_TOKEN_STRIDE, ELEM);
    const struct tir_view from = att_view(b, base, p->tokens, stride, TAIL * ELEM, 0);
    const struct tir_value x = tir_tile_load(b, from, zero, p->tail);
    tir_tile_store(b, tokens_of(p, ATT_HEADS(TAIL_OUT), TAIL), zero, x);
    tir_end_if(b, &some, NULL);
}

/* Computes the head's part of out for all tokens, TILES * TILE of them at once. */
static void visit(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value all = tir_arg(b, ARG_TOKENS, TIR_I32), most = tir_i32(b, TILES * TILE);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), all, most, NULL, 0);
    p->token = loop.index;
    p->tokens = tir_min(b, tir_sub(b, all, p->token), most);
    find_places(p);
    copy_all(p);
    load_scales(p);
    const struct tir_view out = tokens_of(p, ATT_HEADS(OUT), p->v->head_dim_v);
    if (p->rings)
        visit_panels(p, out);
    else if (is_long(p))
        visit_tiles(p, out);
    else
        visit_blocks(p, out);
    copy_tail(p);
    tir_barrier(b); /* after this barrier all waves have read LDS, which is free again */
    tir_end_for(b, &loop, NULL, 0);
}

/* Issues the loads of all arguments at once. */
static void load_arguments(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const struct tir_value loaded[] = {
        tir_arg(b, ARG_X, TIR_I64),
        tir_arg(b, ARG_X_HEAD_STRIDE, TIR_I64),
        tir_arg(b, ARG_X_TOKEN_STRIDE, TIR_I64),
        tir_arg(b, ARG_HEADS, TIR_I32),
        tir_arg(b, ARG_TOKENS, TIR_I32),
        tir_arg(b, ARG_W, TIR_I64),
        tir_arg(b, ARG_W_HEAD_STRIDE, TIR_I64),
        tir_arg(b, ARG_W_ROW_STRIDE, TIR_I64),
        tir_arg(b, ARG_OUT, TIR_I64),
        tir_arg(b, ARG_OUT_HEAD_STRIDE, TIR_I64),
        tir_arg(b, ARG_OUT_TOKEN_STRIDE, TIR_I64),
        tir_arg(b, ARG_TAIL, TIR_I64),
    };
    tir_anchor_all(b, loaded, sizeof(loaded) / sizeof(loaded[0]));
}

/* Chooses the workgroup's head and part of the head's rows, and computes them. */
static void walk(struct stream *p)
{
    struct tir_builder *const b = &p->b;
    const int parts = p->v->head_dim_v / rows(p);
    load_arguments(p);
    const struct tir_value all = att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), parts);
    const struct tir_value item = att_xcd_item(b, tir_block_id(b, 0), tir_i32(b, 0), all);
    p->head = tir_div(b, item, tir_i32(b, parts));
    p->part = tir_sub(b, item, att_times(b, p->head, parts));
    visit(p);
}

void head_product_stream_build(const struct att_variant *v, const struct tir_machine *m,
                               const struct att_tile *tile, struct att_kernel *k)
{
    const unsigned dtype = att_dtype(v);
    struct stream p = {
        .v = v,
        .m = m,
        .dtype = dtype,
        .stored = v->weights == ATT_WEIGHTS_SAME ? dtype : TIR_FP8,
        .blocks = block_count(v),
    };
    p.slots = slots(v, m);
    p.rings = v->head_dim == LONG && !p.slots;
    p.wide = LINE / w_bytes(&p);
    p.instr = tir_find_mma(m, ROWS, ROWS, 0, p.dtype);
    struct tir_func *const f = att_begin_kernel(v, m, WAVES, tile->waves_per_simd);
    f->trimmed = true;
    p.b = tir_at_end(f, f->body);
    choose_layouts(&p);
    const unsigned x = p.rings ? RING : x_panels(&p), w = p.rings ? RING : p.slots * w_panels(&p);
    p.x = tir_lds_buffer(&p.b, TILES * x * TILE * LINE, LINE);
    p.w = tir_lds_buffer(&p.b, w * BLOCK_ROWS * LINE, LINE);
    if (is_long(&p) && !p.rings)
        p.out = tir_lds_buffer(&p.b, TILES * TILE * BLOCK_ROWS * ELEM, LINE);
    walk(&p);
    tir_return(&p.b);

    *k = (struct att_kernel){
        .func = f,
        .schedule = {.hoist_vgprs = tile->hoist_vgprs},
        .grid = {{ARG_HEADS, 1, v->head_dim_v / rows(&p)}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "rows=%d tokens=%d waves=%d", rows(&p), TILES * TILE,
             WAVES);
}
