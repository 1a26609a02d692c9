/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads the bytes of a custom mask for a tile of keys. A wave loads the rows of its
 * queries at once, with any alignment. A later step looks for hidden keys while a product runs.
 * Tiles without a hidden key are not masked.
 *
 * A mask may end where mapped memory ends. A tile with keys after the last one is therefore loaded
 * byte by byte.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/scalar.h"

/* Returns the type in which the bytes of a tile are loaded, queries x keys. Adjacent lanes have
 * adjacent queries, and each lane has adjacent keys. */
static struct tir_type whole_rows(struct prefill *p)
{
    const unsigned queries = tir_bits(p->tile->rows), keys = tir_bits(p->tile->keys);
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    const unsigned lanes = tir_spread_room(&s, TIR_LANES) - queries;
    tir_spread_cols(&s, TIR_REGS, keys - lanes);
    tir_spread_rows(&s, TIR_LANES, queries);
    tir_spread_cols(&s, TIR_LANES, lanes);
    tir_spread_rows(&s, TIR_WAVES, tir_bits(p->tile->waves));
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->b.f, TIR_I8, prefill_queries(p), p->tile->keys, &l);
}

/* Loads the bytes of the tile whose first key is `key` (i32). All of its keys must exist. */
static struct tir_value load_words(struct prefill *p, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct att_position *const at = &p->attention.at;
    const struct tir_type t = whole_rows(p);
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_value row = tir_relayout(b, tir_transpose(b, at->mask_row), &rows);
    const struct tir_value base = at->mask.id ? at->mask : tir_arg(b, ARG_CUSTOM_MASK, TIR_I64);
    return tir_transpose(b, tir_tile_gather(b, base, row, key, t));
}

/* Loads the bytes of any tile, one by one. Keys after the last one get 0: hidden. */
static struct tir_value load_bytes(struct prefill *p, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct tir_value byte = tir_zext(b, att_load_mask(&p->attention, key), TIR_I32);
    const struct tir_type t = tir_typeof(b->f, byte);
    const struct tir_value end = tir_splat(b, tir_sub(b, p->attention.at.end, key), t);
    const struct tir_value there = tir_cmp_lt(b, tir_row_index(b, t), end);
    return tir_convert(b, tir_select(b, there, byte, tir_int_like(b, byte, 0)), TIR_I8);
}

struct tir_value prefill_load_seen(struct prefill *p, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct tir_type rows = whole_rows(p);
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, rows));
    const struct tir_type t = tir_tile(b->f, TIR_I8, rows.cols, rows.rows, &l);
    const struct tir_value end = att_plus(b, key, (int)rows.cols);
    struct tir_if beyond = tir_begin_if(b, tir_cmp_gt(b, end, p->attention.at.end), true, &t, 1);
    const struct tir_value bytes = tir_relayout(b, load_bytes(p, key), &l);
    tir_else(b, &beyond, &bytes);
    struct tir_value words = load_words(p, key);
    tir_end_if(b, &beyond, &words);
    return words;
}

void prefill_check_seen(struct prefill *p)
{
    enum { ONES = 0x01010101 };
    struct tir_builder *b = &p->b;
    struct att_block *const block = &p->attention.now.block;
    const struct tir_value words = tir_words(b, tir_transpose(b, block->seen));
    block->hides = tir_any(b, tir_cmp_ne(b, words, tir_int_like(b, words, ONES)));
}
