/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes shared lists for tiles of neighbouring queries: the union of the groups of tokens
 * that the queries of a tile chose, and a mask of the blocks that each query sees. A workgroup has
 * a tile and a KV head. LDS has a word for each group of the sequence. Query t of the tile adds bit
 * t to the words of its groups. Then a wave moves the words that are not 0 to the front, in place,
 * together with the numbers of their groups. Words only move towards the front, so none is
 * overwritten before it is read.
 */
#include "ir/bits.h"
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <stdio.h>

enum {
    WAVES = 4,
    INT = 4,            /* bytes of a word, and of an entry of a list */
    GROUPS = 8192,      /* most groups of a sequence, a multiple of a wave's lanes */
    QUERIES = 16,       /* most queries of a tile: bits of a word below the group's number */
    TOP_K = 511,        /* most groups of a query */
    TOTAL = GROUPS - 1, /* index of the LDS word that receives the number of groups of the list */
    /* number of tokens for which the mask has a bit; a group has a multiple of this number */
    BLOCK = 64,
    WORD_BITS = 32, /* bits of an integer of the mask */
};
static_assert(QUERIES * TOP_K < GROUPS, "no list reaches the last word");

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct shared {
    struct tir_builder b;
    int lanes;                 /* number of lanes of a wave */
    struct tir_type lane;      /* type i32, lanes x 1: a row for each lane */
    struct tir_value wave;     /* i32: number of the wave */
    struct tir_value tile;     /* i32: number of the tile of queries */
    struct tir_value head;     /* i32: number of the KV head */
    struct tir_value first, n; /* i32: first query of the tile, and its number of queries */
    struct tir_value most;     /* i32: number of tokens that the tile's last query sees */
    struct tir_value groups;   /* i32: number of groups, of `ratio` tokens each, of `most` tokens */
    struct tir_value pages;    /* i32: number of pages that have the first `most` tokens */
    struct tir_value room;     /* i32: number of groups for which a list has room */
    struct tir_value lds;      /* i32: LDS address of the words, one for each group */
};

/* Returns `scalar` (i32) in all lanes. */
static struct tir_value number(struct shared *s, struct tir_value scalar)
{
    return tir_splat(&s->b, scalar, s->lane);
}

/* Returns `n` in all lanes. */
static struct tir_value constant(struct shared *s, int n) { return number(s, tir_i32(&s->b, n)); }

/* Returns argument `arg` (i32). */
static struct tir_value argument(struct shared *s, const char *arg)
{
    return tir_arg(&s->b, arg, TIR_I32);
}

/* Returns `first` (i32) plus the lane's index, in each lane. */
static struct tir_value from(struct shared *s, struct tir_value first)
{
    return tir_add(&s->b, tir_row_index(&s->b, s->lane), number(s, first));
}

/* Returns the LDS addresses (i32) of the words of groups `index` (i32), one in each lane. */
static struct tir_value words_at(struct shared *s, struct tir_value index)
{
    return tir_add(&s->b, tir_shl(&s->b, index, constant(s, 2)), number(s, s->lds));
}

/* Sets the tile's queries, KV head and sizes. `most`, `groups` and `pages` are the numbers of
 * tokens, groups and pages that the tile's last query sees. */
static void open_tile(struct shared *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0), ratio = argument(s, ARG_RATIO);
    s->wave = tir_wave_id(b);
    s->tile = tir_block_id(b, 0);
    s->head = tir_block_id(b, 1);
    s->first = att_entry(b, ARG_CU_TILES, s->tile, TIR_I32);
    const struct tir_value end = att_entry(b, ARG_CU_TILES, att_plus(b, s->tile, 1), TIR_I32);
    s->n = tir_min(b, tir_sub(b, end, s->first), tir_i32(b, QUERIES));
    const struct tir_value some = tir_cmp_gt(b, s->n, zero);
    const struct tir_value last = tir_max(b, att_plus(b, tir_add(b, s->first, s->n), -1), zero);
    const struct tir_type type = tir_scalar(TIR_I32);
    struct tir_if any = tir_begin_if(b, some, false, &type, 1);
    const struct tir_value sees = tir_max(b, att_entry(b, ARG_KV_LENS, last, TIR_I32), zero);
    tir_else(b, &any, &sees);
    s->most = zero;
    tir_end_if(b, &any, &s->most);
    const struct tir_value all = tir_div(b, att_plus(b, tir_add(b, s->most, ratio), -1), ratio);
    s->groups = tir_min(b, all, tir_i32(b, GROUPS));
    const struct tir_value each = argument(s, ARG_GROUP_ENTRIES), page = tir_div(b, ratio, each);
    s->pages = tir_div(b, att_plus(b, tir_add(b, s->most, page), -1), page);
    s->room = tir_div(b, argument(s, ARG_ENTRIES), each);
}

/* Stores 0 in the words of all groups. */
static void clear_words(struct shared *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value first = att_times(b, s->wave, s->lanes);
    struct tir_loop loop =
        tir_begin_for(b, first, s->groups, tir_i32(b, WAVES * s->lanes), NULL, 0);
    const struct tir_value at = from(s, loop.index);
    tir_lds_scatter_if(b, tir_cmp_lt(b, at, number(s, s->groups)), words_at(s, at), constant(s, 0));
    tir_end_for(b, &loop, NULL, 0);
}

/* Adds bit t (i32) in LDS to the words of the groups that query t of the tile chose. */
static void add_query(struct shared *s, struct tir_value t)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value query = tir_add(b, s->first, t);
    const struct tir_value row = tir_add(b, tir_mul(b, query, argument(s, ARG_KV_HEADS)), s->head);
    const struct tir_value n =
        tir_min(b, att_entry(b, ARG_COUNTS, row, TIR_I32), argument(s, ARG_TOP_K));
    const struct tir_value base =
        att_row(b, tir_arg(b, ARG_CHOSEN, TIR_I64), row, ARG_CHOSEN_ROW_STRIDE, INT);
    const struct tir_view chosen = att_view(b, base, tir_max(b, n, zero), tir_i32(b, INT), INT, 0);
    const struct tir_value bit = number(s, tir_shl(b, tir_i32(b, 1), t));
    struct tir_loop loop = tir_begin_for(b, zero, n, tir_i32(b, s->lanes), NULL, 0);
    const struct tir_value group = tir_tile_load(b, chosen, loop.index, s->lane);
    const struct tir_value there = tir_and(b, tir_cmp_lt(b, from(s, loop.index), number(s, n)),
                                           tir_cmp_ult(b, group, number(s, s->groups)));
    tir_lds_add_if(b, there, words_at(s, group), bit);
    tir_end_for(b, &loop, NULL, 0);
}

/* Adds the bits of all queries of the tile to the words in LDS. The waves divide the queries. */
static void add_queries(struct shared *s)
{
    struct tir_builder *b = &s->b;
    struct tir_loop loop = tir_begin_for(b, s->wave, s->n, tir_i32(b, WAVES), NULL, 0);
    add_query(s, loop.index);
    tir_end_for(b, &loop, NULL, 0);
}

/* Returns the byte offset (i64) of element `index` (i32) of an i32 array, for each lane. The offset
 * is -1 in lanes where `there` (i1) is false, so that these lanes store nothing. */
static struct tir_value where(struct shared *s, struct tir_value there, struct tir_value index)
{
    struct tir_builder *b = &s->b;
    const struct tir_value at = att_wide(b, tir_mul(b, index, constant(s, INT)));
    return tir_select(b, there, at, tir_int_like(b, at, -1));
}

/* Writes the page numbers of the groups `groups` (i32: indices, one in each lane) to the tile's
 * list, in lanes where `there` (i1) is true. `u` (i32) is a group's index in the list, whose
 * entries begin at u * group_entries. The page table may end after the last page that has a token,
 * and the list may end within a group. */
static void write_pages(struct shared *s, struct tir_value groups, struct tir_value u,
                        struct tir_value there)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0), each = argument(s, ARG_GROUP_ENTRIES);
    const struct tir_value sequence = att_entry_or(b, ARG_TILE_SEQUENCES, s->tile, s->tile);
    const struct tir_value table =
        att_at(b, ARG_BLOCK_TABLE, att_offset(b, sequence, ARG_BLOCK_TABLE_STRIDE, INT));
    const struct tir_value lists =
        tir_add(b, att_row(b, tir_arg(b, ARG_LISTS, TIR_I64), s->head, ARG_LISTS_HEAD_STRIDE, INT),
                att_offset(b, s->tile, ARG_LISTS_TILE_STRIDE, INT));
    const struct tir_value fits = tir_and(b, there, tir_cmp_lt(b, u, number(s, s->room)));
    struct tir_loop loop = tir_begin_for(b, zero, each, tir_i32(b, 1), NULL, 0);
    const struct tir_value from_entry =
        tir_add(b, tir_mul(b, groups, number(s, each)), number(s, loop.index));
    const struct tir_value to = tir_add(b, tir_mul(b, u, number(s, each)), number(s, loop.index));
    const struct tir_value exists =
        tir_and(b, fits, tir_cmp_lt(b, from_entry, number(s, s->pages)));
    const struct tir_value at = where(s, exists, from_entry);
    const struct tir_value safe = tir_select(b, exists, at, tir_int_like(b, at, 0));
    const struct tir_value page = tir_tile_gather(b, table, safe, zero, s->lane);
    tir_tile_scatter(b, lists, where(s, exists, to), zero, page);
    tir_end_for(b, &loop, NULL, 0);
}

/* Moves the words in LDS that are not 0 to the front, and writes the tile's list. A moved word has
 * the number of its group above the bits of queries. Only wave 0 calls it. The word at TOTAL gets
 * the number of groups of the list. */
static void write_list(struct shared *s)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0), last = tir_i32(b, s->lanes - 1);
    struct tir_value total = zero;
    struct tir_loop loop = tir_begin_for(b, zero, s->groups, tir_i32(b, s->lanes), &total, 1);
    const struct tir_value group = from(s, loop.index);
    const struct tir_value word = tir_lds_gather(b, words_at(s, group), TIR_I32);
    const struct tir_value there =
        tir_and(b, tir_cmp_ne(b, word, constant(s, 0)), tir_cmp_lt(b, group, number(s, s->groups)));
    const struct tir_value one = tir_select(b, there, constant(s, 1), constant(s, 0));
    const struct tir_value below = tir_lane_sum_below(b, one);
    const struct tir_value u = tir_add(b, below, number(s, total));
    tir_lds_scatter_if(b, there, words_at(s, u),
                       tir_or(b, word, tir_shl(b, group, constant(s, QUERIES))));
    write_pages(s, group, u, there);
    total =
        tir_add(b, total, tir_add(b, tir_lane_read(b, below, last), tir_lane_read(b, one, last)));
    tir_end_for(b, &loop, &total, 1);
    const struct tir_value own = tir_cmp_eq(b, tir_row_index(b, s->lane), constant(s, 0));
    tir_lds_scatter_if(b, own, number(s, att_plus(b, s->lds, INT * TOTAL)), number(s, total));
}

/* Returns the word at index `index` (i32) in LDS as a scalar. */
static struct tir_value word_of(struct shared *s, struct tir_value index)
{
    struct tir_builder *b = &s->b;
    return tir_first_lane(b, tir_lds_gather(b, words_at(s, number(s, index)), TIR_I32));
}

/* Returns the number of tokens (i32) of a list of `total` groups (i32). Only the last group, the
 * newest, may be incomplete. */
static struct tir_value tokens_of(struct shared *s, struct tir_value total)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = tir_i32(b, 0), ratio = argument(s, ARG_RATIO);
    const struct tir_value word = word_of(s, tir_max(b, att_plus(b, total, -1), zero));
    const struct tir_value end =
        tir_mul(b, att_plus(b, tir_shr(b, word, tir_i32(b, QUERIES)), 1), ratio);
    const struct tir_value lacks = tir_max(b, tir_sub(b, end, s->most), zero);
    return tir_select(b, tir_cmp_gt(b, total, zero), tir_sub(b, tir_mul(b, total, ratio), lacks),
                      zero);
}

/* Writes `tokens` (i32) as the tile's entry of argument list_lens, by wave 0. */
static void write_length(struct shared *s, struct tir_value tokens)
{
    struct tir_builder *b = &s->b;
    const struct tir_value first = tir_cmp_eq(b, s->wave, tir_i32(b, 0));
    const struct tir_value rows = tir_select(b, first, tir_i32(b, 1), tir_i32(b, 0));
    const struct tir_value base = tir_add(
        b, att_row(b, tir_arg(b, ARG_LIST_LENS, TIR_I64), s->head, ARG_LIST_LENS_HEAD_STRIDE, INT),
        att_wide_times(b, s->tile, INT));
    tir_tile_store(b, att_view(b, base, rows, tir_i32(b, INT), INT, 0), tir_i32(b, 0),
                   number(s, tokens));
}

/* Blocks of 64 tokens of a list, one in each lane. */
struct block {
    struct tir_value chosen; /* i1: true if the query has chosen the block's group */
    struct tir_value seen;   /* i32: number of the block's tokens that the query sees */
};

/* Returns the blocks with indices `index` (i32, one in each lane) of a list of `tokens` (i32)
 * tokens, for query t (i32) of the tile. The query sees `limit` (i32) tokens of the sequence.
 * Blocks after the list's last one are not chosen, and have no tokens. */
static struct block find_blocks(struct shared *s, struct tir_value index, struct tir_value tokens,
                                struct tir_value t, struct tir_value limit)
{
    struct tir_builder *b = &s->b;
    const struct tir_value zero = constant(s, 0), one = constant(s, 1);
    const struct tir_value block_bits = tir_i32(b, (int)tir_bits(BLOCK));
    const struct tir_value each = number(s, tir_shr(b, argument(s, ARG_RATIO), block_bits));
    const struct tir_value u = tir_div(b, index, each);
    const struct tir_value there =
        tir_cmp_lt(b, tir_mul(b, index, constant(s, BLOCK)), number(s, tokens));
    const struct tir_value at = tir_select(b, there, u, zero);
    const struct tir_value word = tir_lds_gather(b, words_at(s, at), TIR_I32);
    const struct tir_value bit = tir_and(b, tir_shr(b, word, number(s, t)), one);
    const struct tir_value group = tir_shr(b, word, constant(s, QUERIES));
    const struct tir_value inside = tir_sub(b, index, tir_mul(b, u, each));
    const struct tir_value first =
        tir_mul(b, tir_add(b, tir_mul(b, group, each), inside), constant(s, BLOCK));
    const struct tir_value rest = tir_sub(b, number(s, limit), first);
    const struct tir_value part = tir_max(b, tir_min(b, rest, constant(s, BLOCK)), zero);
    return (struct block){
        .chosen = tir_and(b, there, tir_cmp_ne(b, bit, zero)),
        .seen = tir_select(b, there, part, zero),
    };
}

/* Writes `values` (i32, one in each lane) to consecutive integers of the mask's row at address
 * `row` (i64), from integer `index` (i32) on. Only the first `count` lanes write, and no integer
 * from `words` (i32) on. */
static void write_words(struct shared *s, struct tir_value row, struct tir_value words,
                        struct tir_value index, int count, struct tir_value values)
{
    struct tir_builder *b = &s->b;
    const struct tir_value at = from(s, index);
    const struct tir_value there =
        tir_and(b, tir_cmp_lt(b, tir_row_index(b, s->lane), constant(s, count)),
                tir_cmp_lt(b, at, number(s, words)));
    tir_tile_scatter(b, row, where(s, there, at), tir_i32(b, 0), values);
}

/* Writes the mask's row of query t (i32) of the tile at address `row` (i64): the number of listed
 * tokens that the query sees, then a bit for each block. `words` (i32) is the number of integers of
 * the row, `tokens` (i32) the number of tokens of the list. */
static void write_row(struct shared *s, struct tir_value row, struct tir_value words,
                      struct tir_value t, struct tir_value tokens)
{
    struct tir_builder *b = &s->b;
    const struct tir_value query = tir_add(b, s->first, t), one = tir_i32(b, 1);
    const struct tir_value limit = att_entry(b, ARG_KV_LENS, query, TIR_I32);
    const struct tir_value blocks =
        tir_shl(b, tir_sub(b, words, one), tir_i32(b, (int)tir_bits(WORD_BITS)));
    struct tir_value seen = constant(s, 0);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), blocks, tir_i32(b, s->lanes), &seen, 1);
    const struct block own = find_blocks(s, from(s, loop.index), tokens, t, limit);
    const struct tir_value mask = tir_lane_mask(b, own.chosen);
    const struct tir_value low = number(s, tir_convert(b, mask, TIR_I32));
    const struct tir_value high =
        number(s, tir_convert(b, tir_shr(b, mask, tir_i64(b, WORD_BITS)), TIR_I32));
    const struct tir_value is_low = tir_cmp_eq(b, tir_row_index(b, s->lane), constant(s, 0));
    const struct tir_value word = tir_shr(b, loop.index, tir_i32(b, (int)tir_bits(WORD_BITS)));
    write_words(s, row, words, tir_add(b, word, one), s->lanes / WORD_BITS,
                tir_select(b, is_low, low, high));
    seen = tir_add(b, seen, own.seen);
    tir_end_for(b, &loop, &seen, 1);
    const struct tir_value last = tir_i32(b, s->lanes - 1), below = tir_lane_sum_below(b, seen);
    const struct tir_value all =
        tir_add(b, tir_lane_read(b, below, last), tir_lane_read(b, seen, last));
    write_words(s, row, words, tir_i32(b, 0), 1, number(s, all));
}

/* Writes the rows of the tile's mask, one for each query. The waves divide the rows. `tokens` (i32)
 * is the number of tokens of the list. */
static void write_mask(struct shared *s, struct tir_value tokens)
{
    struct tir_builder *b = &s->b;
    const int keys = (int)tir_bits(BLOCK * WORD_BITS);
    const struct tir_value words =
        att_plus(b, tir_shr(b, att_plus(b, tokens, BLOCK * WORD_BITS - 1), tir_i32(b, keys)), 1);
    const struct tir_value at =
        tir_add(b, att_row(b, tir_arg(b, ARG_MASK, TIR_I64), s->head, ARG_MASK_HEAD_STRIDE, INT),
                tir_mul(b, att_wide(b, tir_mul(b, s->tile, tir_i32(b, INT))),
                        att_wide(b, argument(s, ARG_MASK_STRIDE))));
    struct tir_loop rows = tir_begin_for(b, s->wave, s->n, tir_i32(b, WAVES), NULL, 0);
    const struct tir_value row = tir_add(
        b, at,
        tir_mul(b, att_wide(b, rows.index), att_wide(b, tir_mul(b, words, tir_i32(b, INT)))));
    write_row(s, row, words, rows.index, tokens);
    tir_end_for(b, &rows, NULL, 0);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct tir_func *f = att_begin_kernel(v, m, WAVES, 4);
    struct shared s = {.b = tir_at_end(f, f->body), .lanes = (int)tir_lanes(m)};
    struct tir_builder *b = &s.b;
    const struct tir_layout lane = tir_spread_column(m, 1, tir_lanes(m));
    s.lane = tir_tile(f, TIR_I32, tir_lanes(m), 1, &lane);
    s.lds = tir_lds_buffer(b, INT * GROUPS, 16);
    open_tile(&s);
    clear_words(&s);
    att_lds_barrier(b);
    add_queries(&s);
    att_lds_barrier(b);
    struct tir_if first = att_begin_if(b, tir_cmp_eq(b, s.wave, tir_i32(b, 0)));
    write_list(&s);
    tir_end_if(b, &first, NULL);
    att_lds_barrier(b);
    const struct tir_value total = tir_min(b, word_of(&s, tir_i32(b, TOTAL)), s.room);
    const struct tir_value tokens = tokens_of(&s, total);
    write_length(&s, tokens);
    write_mask(&s, tokens);
    tir_return(b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_TILES, 1, 1}, {ARG_KV_HEADS, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d", WAVES);
}

const struct att_template att_template_shared_lists = {
    .name = "shared_lists",
    .description = "pages of all groups that a tile of queries chose, and the mask of each query",
    .takes = OP_TAKES_SHARED_LISTS,
    .check = att_check_none,
    .build = build,
};
