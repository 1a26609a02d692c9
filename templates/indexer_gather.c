/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies keys of the sparse indexer and their scales out of the pages of its cache, one sequence
 * after the other. Bytes stay as they are stored.
 *
 * A page has the keys of all its tokens, and then their scales. A lane copies 16 bytes of a key,
 * and eight lanes copy a key. In SHUFFLE, which stores 16 tokens together, 16 bytes are a block of
 * 16 elements.
 */
#include "ir/builder.h"
#include "templates/cache/cache.h"
#include "templates/cache/gathered.h"
#include "templates/index/page.h"
#include "templates/index/score.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    DIM = ATT_INDEX_DIM,
    CHUNK = 16, /* bytes of a key that a lane copies at once */
    FLOAT = 4,  /* bytes of a scale */
    INT = 4,    /* bytes of a page number */
};

/* Index in att_tile.own of the number of passes. In a pass each lane of a workgroup copies 16
 * bytes. */
enum { PASSES };

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 4, .own = {[PASSES] = 2}, .why = "two loads under way"},
};

static const struct att_knob knobs[] = {
    {"passes", 2, {1, 4}},
    {"waves", 4, {1, 2, 8, 16}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct gather {
    struct tir_builder b;
    bool shuffle;  /* true: pages have the order of kv_layout shuffle; see index/page.h */
    unsigned rows; /* number of tokens that a workgroup copies */
    struct att_paging paging; /* size of pages */
    struct att_gathered of;   /* the sequence: its range of tokens, and its first output row */
    struct tir_value first;   /* i32: the workgroup's first token */
    struct tir_value table;   /* i64: address of the sequence's page numbers */
};

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->kv_layout != ATT_KV_LAYOUT_NHD && v->kv_layout != ATT_KV_LAYOUT_SHUFFLE)
        return att_reject(why, ATT_KV_LAYOUT, "the indexer's keys are nhd or shuffle");
    return att_check_tile(v, m, why);
}

/* Byte offsets (i64 columns) of keys and of their scales from the cache's first byte. */
struct places {
    struct tir_value key, scale;
};

/* Returns the byte offsets of the keys and scales of this workgroup's tokens, as columns of type
 * `column`. Row i of a column is token g->first + i. A token after the sequence's end gets an
 * offset in the sequence's last page, so that the page exists. */
static struct places find_places(struct gather *g, struct tir_type column)
{
    struct tir_builder *b = &g->b;
    const struct tir_value index = tir_row_index(b, column);
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value token = tir_add(b, index, tir_splat(b, g->first, t));
    const struct tir_value last = att_page_of(&g->paging, att_plus(b, g->of.end, -1));
    const struct tir_value page = att_page_of(&g->paging, token);
    const struct tir_value there = tir_min(b, page, tir_splat(b, last, t));
    const struct tir_value at = tir_mul(b, there, tir_int_like(b, there, INT));
    const struct tir_value number =
        tir_tile_gather(b, g->table, tir_convert(b, at, TIR_I64), tir_i32(b, 0), t);
    const struct tir_value wide = tir_convert(b, number, TIR_I64);
    const struct tir_value stride = tir_arg(b, ARG_PAGE_STRIDE, TIR_I64);
    const struct tir_value start = tir_mul(b, wide, att_like(b, stride, wide));
    const struct tir_value inside = tir_sub(b, token, att_page_first(&g->paging, page));
    const struct tir_value key = att_index_key_byte(b, inside, DIM, g->shuffle);
    const struct tir_value scale = att_index_scale_byte(&g->paging, inside, DIM);
    return (struct places){
        .key = tir_add(b, start, tir_convert(b, key, TIR_I64)),
        .scale = tir_add(b, start, tir_convert(b, scale, TIR_I64)),
    };
}

/* Returns a view of the rows of output tensor `out` that this workgroup writes. They have
 * `row_bytes` bytes each, and are `stride` bytes (i64) apart. */
static struct tir_view open_rows(struct gather *g, const char *out, struct tir_value stride,
                                 int row_bytes)
{
    struct tir_builder *b = &g->b;
    const struct tir_value row = tir_add(b, g->of.row, tir_sub(b, g->first, g->of.start));
    const struct tir_value base = att_at(b, out, tir_mul(b, att_wide(b, row), stride));
    const struct tir_value left = tir_sub(b, g->of.end, g->first);
    const struct tir_value rows = tir_min(b, left, tir_i32(b, (int)g->rows));
    return att_view(b, base, rows, tir_convert(b, stride, TIR_I32), row_bytes, 0);
}

/* Copies the keys of the workgroup's tokens, a tile of type `t`, and their scales to the output. */
static void copy_rows(struct gather *g, struct tir_type t)
{
    struct tir_builder *b = &g->b;
    const struct tir_layout slice = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_type column = tir_tile(b->f, TIR_I64, t.rows, 1, &slice);
    const struct places at = find_places(g, column);
    const struct tir_value base = tir_arg(b, ARG_KEYS, TIR_I64), zero = tir_i32(b, 0);
    const struct att_cache cache = att_index_keys(b, base, g->shuffle);
    const struct tir_value keys = att_cache_load(&cache, at.key, 0, t);
    const struct tir_type f32 = tir_with_dtype(column, TIR_F32);
    const struct tir_value scales = tir_tile_gather(b, base, at.scale, zero, f32);
    const struct tir_value stride = att_stride(b, ARG_KEYS_OUT_TOKEN_STRIDE, 1);
    tir_tile_store(b, open_rows(g, ARG_KEYS_OUT, stride, DIM), zero, keys);
    tir_tile_store(b, open_rows(g, ARG_KEY_SCALES_OUT, tir_i64(b, FLOAT), FLOAT), zero, scales);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const struct att_token_tile cut = {
        .cols = DIM,
        .lanes = DIM / CHUNK,
        .run = 1,
        .passes = tile.own[PASSES],
    };
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct gather g = {
        .b = tir_at_end(f, f->body),
        .shuffle = v->kv_layout == ATT_KV_LAYOUT_SHUFFLE,
    };
    struct tir_builder *b = &g.b;
    const struct tir_layout l = att_token_layout(m, &cut, tile.waves, &g.rows);
    const struct tir_value sequence = tir_block_id(b, 1);
    g.of = att_gathered(b, sequence);
    g.first = tir_add(b, g.of.start, att_times(b, tir_block_id(b, 0), (int)g.rows));
    struct tir_if some = att_begin_if(b, tir_cmp_lt(b, g.first, g.of.end));
    g.paging = att_paging_by_argument(b, false);
    g.table = att_at(b, ARG_BLOCK_TABLE, att_offset(b, sequence, ARG_BLOCK_TABLE_STRIDE, INT));
    copy_rows(&g, tir_tile(f, TIR_FP8, g.rows, DIM, &l));
    tir_end_if(b, &some, NULL);
    tir_return(b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_MAX_SEQLEN_K, (int)g.rows, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "tokens=%u waves=%d", g.rows, tile.waves);
}

const struct att_template att_template_indexer_gather = {
    .name = "indexer_gather",
    .description = "keys of the sparse indexer out of its cache",
    .takes = OP_TAKES_INDEXER_GATHER | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"passes"},
    .fits = att_fits_waves,
    .check = check,
    .build = build,
};
