/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads the mask for a tile of keys: the bytes of a custom mask, or the words of a mask
 * of blocks. A later step looks for hidden keys while a product runs. Tiles without a hidden key
 * are not masked.
 *
 * A wave loads the bytes of its queries' rows at once, with any alignment. A custom mask may end
 * where mapped memory ends. A tile with keys after the last one is therefore loaded byte by byte.
 *
 * A mask of blocks has a bit for 64 keys. A tile has at most 64 keys, so each query needs one word.
 * The bit says whether the query sees the tile, up to the query's last key.
 */
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    MASK_BLOCK = 64, /* keys that one bit of a mask of blocks hides or shows */
    MASK_WORD = 32,  /* bits of a word of a mask of blocks */
};

/* Returns the type in which the mask bytes of a tile are loaded, queries x keys. Adjacent lanes
 * have adjacent queries, and each lane has adjacent keys. */
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

/* Returns the mask bytes of the tile whose first key is `key` (i32): i8, keys x queries. A load has
 * several bytes, so all keys of the tile must exist. */
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

/* Returns the mask bytes of the tile whose first key is `key` (i32): i8, keys x queries. Loads byte
 * by byte. Keys after the last one get 0: hidden. */
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

/* Loads a word of each query's row of a mask of blocks: i32, 1 x queries. `word` (i32): index of
 * the word in the row. */
static struct tir_value load_word(struct prefill *p, struct tir_value word)
{
    struct tir_builder *b = &p->b;
    const struct att_position *const at = &p->attention.at;
    const struct tir_value rows = tir_transpose(b, at->mask_row);
    const struct tir_value mask = at->mask.id ? at->mask : tir_arg(b, ARG_CUSTOM_MASK, TIR_I64);
    const struct tir_value base = tir_add(b, mask, tir_shl(b, att_wide(b, word), tir_i64(b, 2)));
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, rows), TIR_I32);
    return tir_transpose(b, tir_tile_gather(b, base, rows, tir_i32(b, 0), t));
}

void prefill_find_last_keys(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    if (p->v->mask != ATT_MASK_BLOCKS)
        return;
    const struct tir_value sees = load_word(p, tir_i32(b, 0));
    p->attention.at.last = tir_sub(b, sees, tir_int_like(b, sees, 1));
}

struct tir_value prefill_load_words(struct prefill *p, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    const struct tir_value most = att_plus(b, p->attention.at.end, -1);
    const struct tir_value there = tir_max(b, tir_min(b, key, most), tir_i32(b, 0));
    const int bits = (int)tir_bits(MASK_BLOCK * MASK_WORD);
    return load_word(p, att_plus(b, tir_shr(b, there, tir_i32(b, bits)), 1));
}

void prefill_check_words(struct prefill *p, struct tir_value key)
{
    struct tir_builder *b = &p->b;
    struct att_block *const block = &p->attention.now.block;
    assert(p->tile->keys <= MASK_BLOCK); /* a tile has keys of one bit */
    const struct tir_value word = block->word, top = tir_int_like(b, word, MASK_WORD - 1);
    const struct tir_type t = tir_typeof(b->f, word);
    const struct tir_value number = tir_shr(b, key, tir_i32(b, (int)tir_bits(MASK_BLOCK)));
    const struct tir_value left =
        tir_sub(b, tir_i32(b, MASK_WORD - 1), tir_and(b, number, tir_i32(b, MASK_WORD - 1)));
    const struct tir_value seen = tir_sar(b, tir_shl(b, word, tir_splat(b, left, t)), top);
    block->last = tir_or(b, p->attention.at.last, tir_xor(b, seen, tir_int_like(b, seen, -1)));
    const struct tir_value end = tir_splat(b, att_plus(b, key, (int)p->tile->keys - 1), t);
    const struct tir_value zero = tir_int_like(b, seen, 0);
    block->hides = tir_any(b, tir_cmp_eq(b, seen, zero));
    block->ends =
        tir_any(b, tir_and(b, tir_cmp_ne(b, seen, zero), tir_cmp_lt(b, p->attention.at.last, end)));
}
