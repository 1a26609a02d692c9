/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/cache/pages.h"

#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/cache/e2m1.h"
#include "templates/workgroup/scalar.h"

enum { CHUNK = 16 /* number of bytes that layout SHUFFLE keeps contiguous */ };

/* Returns the address (i64) of the first page number of sequence `batch` (i32, index): in the block
 * table, or in the list of page numbers. */
static struct tir_value table_of(struct tir_builder *b, const struct att_variant *v,
                                 struct tir_value batch)
{
    if (v->page_table == ATT_PAGE_TABLE_BLOCKS)
        return att_at(b, ARG_BLOCK_TABLE, att_offset(b, batch, ARG_BLOCK_TABLE_STRIDE, 4));
    const struct tir_value first = att_entry(b, ARG_KV_INDPTR, batch, TIR_I32);
    return att_at(b, ARG_KV_INDICES, att_wide_times(b, first, 4));
}

/* Returns `table` (i64), the address of the sequence's first entry, if `some` (i1) is true: the
 * sequence has keys. Otherwise returns the address of other readable memory. Kernels read the first
 * entry even without keys and ignore it, but an empty list may be at the end of its array. */
static struct tir_value table_or_any(struct tir_builder *b, const struct att_variant *v,
                                     struct tir_value table, struct tir_value some)
{
    if (v->page_table == ATT_PAGE_TABLE_BLOCKS)
        return table;
    return tir_select(b, some, table, tir_arg(b, ARG_KV_INDPTR, TIR_I64));
}

struct att_pages att_pages(struct tir_builder *b, const struct att_variant *v,
                           struct tir_value batch, struct tir_value kv_len,
                           struct tir_value first_key)
{
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value some = tir_cmp_gt(b, kv_len, zero);
    struct att_pages p = {.v = v, .table = table_or_any(b, v, table_of(b, v, batch), some)};
    p.slots = v->sparse != ATT_SPARSE_NONE;
    p.paging = att_paging(b, v);
    p.entries = p.slots ? att_paging_of_lists(b, v) : p.paging;
    p.last_key = tir_max(b, att_plus(b, kv_len, -1), zero);
    p.last = att_page_of(&p.entries, p.last_key);
    p.first = tir_min(b, att_page_of(&p.entries, tir_max(b, first_key, zero)), p.last);
    p.used = tir_select(b, some, tir_i32(b, -1), zero);
    if (v->two_sources) {
        p.second = tir_arg(b, ARG_SECOND, TIR_I64);
        p.second_stride = att_stride(b, ARG_SECOND_ROW_STRIDE, att_is_packed(v) ? 1 : 2);
        p.second_first = tir_arg(b, ARG_SECOND_FIRST, TIR_I32);
    }
    if (v->two_sources && v->kv_layout == ATT_KV_LAYOUT_PLANES) {
        p.second_plane = tir_arg(b, ARG_SECOND_ROTATED, TIR_I64);
        p.second_plane_stride = att_stride(b, ARG_SECOND_ROTATED_ROW_STRIDE, 2);
    }
    return p;
}

/* Returns a layout of tokens x cols over all waves. A lane has `vector` adjacent columns. The bits
 * of lane numbers select first other columns, then other tokens. Registers and waves have the
 * rest. */
static struct tir_layout spread(struct tir_builder *b, unsigned tokens, unsigned cols,
                                unsigned vector)
{
    struct tir_spread s = tir_spread(b->f->machine, b->f->waves);
    tir_spread_cols(&s, TIR_REGS, tir_bits(vector));
    tir_spread_fill(&s, TIR_LANES, tokens, cols);
    tir_spread_fill(&s, TIR_WAVES, tokens, cols);
    tir_spread_rows(&s, TIR_REGS, tir_bits(tokens) - s.rows);
    tir_spread_fill(&s, TIR_REGS, tokens, cols);
    return tir_spread_layout(&s);
}

/* Returns the number of adjacent columns that a lane has: `elements`, the elements of a tile,
 * divided by all lanes of the workgroup. It is at most 8 (16 bytes of 16-bit elements) and at most
 * `run`. */
static unsigned vector_of(struct tir_builder *b, unsigned elements, unsigned run)
{
    unsigned vector = elements / (b->f->waves << b->f->machine->lane_bits);
    vector = vector > 8 ? 8 : vector ? vector : 1;
    return vector < run ? vector : run;
}

struct att_paged_tile att_paged_tile(struct tir_builder *b, const struct att_cache *cache,
                                     unsigned tokens, unsigned cols, unsigned first,
                                     const struct tir_layout *layout)
{
    struct att_paged_tile t = {.cache = *cache,
                               .tokens = tokens,
                               .cols = cols,
                               .first = first,
                               .run = cache->shuffle  ? (unsigned)cache->x
                                      : cache->packed ? (unsigned)cache->rows->run
                                                      : cols,
                               .blocks = cache->packed || (cache->shuffle && !cache->value)};
    const unsigned elements = tokens * cols;
    struct tir_layout l;
    if (layout && !cache->shuffle)
        l = t.blocks ? tir_layout_split_blocks(layout, tokens, t.run) : *layout;
    else
        l = spread(b, elements / t.run, t.run, vector_of(b, elements, t.run));
    t.gathered = tir_tile(b->f, cache->dtype, elements / t.run, t.run, &l);
    return t;
}

/* Returns the type of one value of `dtype` for each row of a tile of type `t`: rows x 1. */
static struct tir_type of_rows(struct tir_builder *b, struct tir_type t, unsigned dtype)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    return tir_tile(b->f, dtype, t.rows, 1, &l);
}

/* Returns the index in the sequence (i32) of the token of each gathered row. `row` (i32): the rows'
 * indices in the gathered tile. `key` is the index of the tile's first token. If a row is a run of
 * tokens, the result is the run's first token. */
static struct tir_value token_of(struct tir_builder *b, const struct att_paged_tile *t,
                                 struct tir_value row, struct tir_value key)
{
    struct tir_value token = row;
    if (t->blocks)
        token = att_modulo(b, row, (int)t->tokens);
    else if (t->cache.shuffle)
        token = tir_shl(b, tir_shr(b, row, tir_int_like(b, row, tir_bits(t->cols))),
                        tir_int_like(b, row, tir_bits(t->run)));
    return tir_add(b, token, att_like(b, key, token));
}

/* Returns the byte offset (i32) in the table of the entry for each `token` (i32, index in the
 * sequence). An entry outside of p->first to p->last is replaced by the nearer one of these two. */
static struct tir_value entry_offset(struct tir_builder *b, const struct att_pages *p,
                                     struct tir_value token)
{
    if (p->v->sparse == ATT_SPARSE_BLOCKS)
        token = tir_min(b, token, att_like(b, p->last_key, token));
    const struct tir_value page = att_page_of(&p->entries, token);
    const struct tir_value at =
        tir_min(b, tir_max(b, page, att_like(b, p->first, page)), att_like(b, p->last, page));
    return tir_shl(b, at, tir_int_like(b, at, 2));
}

/* Returns the slot (i32) of `token` (i32) if the table is a list of blocks; it is negative if
 * `entry` is. `entry` is the loaded entry of the list that has the token. For other tables returns
 * `entry`. */
static struct tir_value slot_of(struct tir_builder *b, const struct att_pages *p,
                                struct tir_value token, struct tir_value entry)
{
    if (p->v->sparse != ATT_SPARSE_BLOCKS)
        return entry;
    token = tir_min(b, token, att_like(b, p->last_key, token));
    const struct tir_value sign = tir_and(b, entry, tir_int_like(b, entry, INT32_MIN));
    const struct tir_value slot =
        tir_add(b, att_page_first(&p->entries, entry), att_page_place(&p->entries, token));
    return tir_or(b, slot, sign);
}

/* Returns the index in the sequence (i32) of the token of each gathered row. `key` (i32) is the
 * index of the tile's first token. */
static struct tir_value token_of_rows(struct tir_builder *b, const struct att_paged_tile *t,
                                      struct tir_value key)
{
    return token_of(b, t, tir_row_index(b, of_rows(b, t->gathered, TIR_I32)), key);
}

struct tir_value att_entry_offsets(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value key)
{
    return entry_offset(b, p, token_of_rows(b, t, key));
}

struct tir_value att_entry_slots(struct tir_builder *b, const struct att_pages *p,
                                 const struct att_paged_tile *t, struct tir_value key,
                                 struct tir_value entries)
{
    return slot_of(b, p, token_of_rows(b, t, key), entries);
}

struct tir_value att_page_numbers(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_paged_tile *t, struct tir_value key)
{
    const struct tir_value token = token_of_rows(b, t, key), at = entry_offset(b, p, token);
    const struct tir_value entry =
        tir_tile_gather_constant(b, p->table, tir_zext(b, at, TIR_I64), tir_typeof(b->f, at));
    return slot_of(b, p, token, entry);
}

/* Returns, for each gathered row, the index of the run of the token that the row has. `row` (i32):
 * the rows' indices in the gathered tile. */
static struct tir_value block_of(struct tir_builder *b, const struct att_paged_tile *t,
                                 struct tir_value row)
{
    return tir_shr(b, row, tir_int_like(b, row, tir_bits(t->tokens)));
}

/* Returns the byte offset (i32), from the start of its page, of a run of V in SHUFFLE_K: adjacent
 * tokens of one column. `column`: index of the column. `chunk`: index in the page of the group of
 * tokens. */
static struct tir_value run_of_column(struct tir_builder *b, const struct att_paged_tile *t,
                                      struct tir_value column, struct tir_value chunk)
{
    const struct tir_value step = att_like(b, t->cache.block_stride, column);
    return tir_add(b, tir_mul(b, column, step), tir_mul(b, chunk, tir_int_like(b, chunk, CHUNK)));
}

/* Returns log2 of the bytes of a run of a packed row, without its scale. */
static unsigned run_bits(const struct att_paged_tile *t)
{
    return tir_bits((unsigned)att_row_bytes(t->cache.rows, (int)t->run));
}

/* Returns the byte offset (i64) from the start of a page of each gathered row. `row` (i32): the
 * row's index in the tile. `token` (i32): index in the sequence of its token. The offset is
 * computed in 32 bits, since a page has at most 2 GiB. */
static struct tir_value run_offset(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value row,
                                   struct tir_value token)
{
    const struct tir_value inside = att_page_place(&p->paging, token);
    if (!t->cache.shuffle) {
        const struct tir_value stride = tir_convert(b, t->cache.token_stride, TIR_I32);
        struct tir_value at = tir_mul(b, inside, att_like(b, stride, inside));
        if (t->cache.packed) /* a page has at most 2 GiB */
            at = tir_add(b, at, tir_shl(b, block_of(b, t, row), tir_int_like(b, row, run_bits(t))));
        return tir_zext(b, at, TIR_I64);
    }
    struct tir_value run;
    if (t->cache.value) {
        const struct tir_value chunk =
            tir_shr(b, inside, tir_int_like(b, inside, tir_bits(t->run)));
        const struct tir_value in_tile = att_modulo(b, row, (int)t->cols);
        const struct tir_value column = tir_add(b, in_tile, tir_int_like(b, in_tile, t->first));
        /* In SHUFFLE_K all runs of a column are adjacent: one for each group of tokens of the
         * page. */
        if (t->cache.columns)
            return tir_zext(b, run_of_column(b, t, column, chunk), TIR_I64);
        run = tir_add(b, tir_mul(b, chunk, tir_int_like(b, chunk, (unsigned)t->cache.dim)), column);
    } else {
        const struct tir_value chunk =
            tir_add(b, block_of(b, t, row), tir_int_like(b, row, t->first / t->run));
        run = tir_add(b, att_page_first(&p->paging, chunk), inside);
    }
    return tir_zext(b, tir_mul(b, run, tir_int_like(b, run, CHUNK)), TIR_I64);
}

/* Returns the byte offset (i64) of page number `page` (i32) from the cache's base. libattn
 * guarantees that `stride`, the bytes of a page, has 32 bits, so this is one instruction. */
static struct tir_value page_offset(struct tir_builder *b, struct tir_value page,
                                    struct tir_value stride)
{
    const struct tir_value wide = tir_zext(b, page, TIR_I64);
    const struct tir_value narrow = tir_zext(b, tir_convert(b, stride, TIR_I32), TIR_I64);
    return tir_mul(b, wide, att_like(b, narrow, wide));
}

/* Loads the scale (f32) of each gathered row, from the tensor of scales: the scale of page number
 * `page`, or with a scale per token, of `token` in that page. With a scale per token, rows of V in
 * SHUFFLE are runs of tokens and get a scale for each token. */
static struct tir_value load_scales(struct tir_builder *b, const struct att_pages *p,
                                    const struct att_paged_tile *t, struct tir_value page,
                                    struct tir_value token)
{
    struct tir_value at = page_offset(b, page, t->cache.scale_page_stride);
    struct tir_type type = of_rows(b, t->gathered, TIR_F32);
    if (t->cache.scaling == ATT_KV_SCALE_TOKEN) {
        const struct tir_value inside = att_page_place(&p->paging, token);
        const struct tir_value byte = tir_shl(b, inside, tir_int_like(b, inside, 2));
        at = tir_add(b, at, tir_convert(b, byte, TIR_I64));
        if (t->cache.shuffle && t->cache.value) {
            type = t->gathered;
            type.dtype = TIR_F32;
        }
    }
    return tir_tile_gather(b, t->cache.scales, at, tir_i32(b, 0), type);
}

/* Loads the scale of each gathered run, for packed rows that contain their scales. `row` is the
 * index of the gathered row in the tile, and `at` (i64) the byte offset of its run. The scales
 * follow all runs of the row. */
static struct tir_value load_packed_scales(struct tir_builder *b, const struct att_paged_tile *t,
                                           struct tir_value row, struct tir_value at)
{
    const struct att_row_format *const rows = t->cache.rows;
    const int step = att_row_scale_bytes(rows) * rows->copies;
    const struct tir_value block = block_of(b, t, row);
    const struct tir_value back =
        tir_mul(b, block, tir_int_like(b, block, att_row_bytes(rows, rows->run) - step));
    return tir_tile_gather(b, t->cache.base, tir_sub(b, at, tir_zext(b, back, TIR_I64)),
                           tir_i32(b, rows->scales + (int)t->first / rows->run * step),
                           of_rows(b, t->gathered, att_packed_scale_dtype(&t->cache)));
}

/* True if the second source consists of pages, as a cache of scales_last does, and not of rows. */
static bool has_second_pages(const struct att_pages *p, const struct att_cache *c)
{
    return p->v->two_sources && c->packed && c->rows->scales == ATT_AFTER_ROWS;
}

/* Returns the format of the second source's rows. NULL: it is the cache's format, or there is no
 * second source. */
static const struct att_row_format *other_rows(const struct att_pages *p, const struct att_cache *c)
{
    return p->v->two_sources && !p->v->same_rows && c->packed ? c->rows->second : NULL;
}

/* Returns the byte offsets (i64) from the cache's base of the pages with numbers `page`. `entries`:
 * entries of the sparse list. If the second source consists of pages, entries from second_first on
 * are in the second source. */
static struct tir_value offset_of(struct tir_builder *b, const struct att_pages *p,
                                  const struct att_cache *c, struct tir_value entries,
                                  struct tir_value page)
{
    const struct tir_value own = page_offset(b, page, c->page_stride);
    if (!has_second_pages(p, c))
        return own;
    const struct tir_value base = att_like(b, tir_sub(b, p->second, c->base), own);
    const struct tir_value second = tir_add(b, page_offset(b, page, p->second_stride), base);
    const struct tir_value first = att_like(b, p->second_first, entries);
    return tir_select(b, tir_cmp_lt(b, entries, first), own, second);
}

/* Loads the scales (bytes of e8m0) of gathered runs with kv_layout scales_last, which follow all
 * rows of a page. `pages`: byte offsets (i64) from the cache's base of the tokens' pages. `token`:
 * indices of the tokens. */
static struct tir_value load_last_scales(struct tir_builder *b, const struct att_pages *p,
                                         const struct att_paged_tile *t, struct tir_value pages,
                                         struct tir_value token)
{
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    const struct tir_value inside = att_page_place(&p->paging, token);
    const struct tir_value own = tir_mul(b, inside, tir_int_like(b, inside, ATT_MIXED_SCALES));
    const struct tir_value rows = att_times(b, att_page_tokens(&p->paging), ATT_MIXED_ROW);
    const struct tir_value at =
        tir_add(b, tir_add(b, own, block_of(b, t, row)), att_like(b, rows, own));
    return tir_tile_gather(b, t->cache.base, tir_add(b, pages, tir_zext(b, at, TIR_I64)),
                           tir_i32(b, (int)t->first / t->cache.rows->run),
                           of_rows(b, t->gathered, TIR_I8));
}

/* True if a tile includes rotated elements that are a part of key and value: they follow a packed
 * row's scaled elements and are of the op's dtype. */
static bool has_rotated(const struct att_paged_tile *t)
{
    return t->cache.packed && t->cache.rows->in_value &&
           t->first + t->cols > (unsigned)t->cache.rows->scaled;
}

/* Returns the byte offset (i64) from address `base` of each slot's row. Slots below p->second_first
 * are in the cache, at offsets `at`. Other slots are rows of the second source, at address `second`
 * (i64) and `stride` bytes (i64) apart. */
static struct tir_value place_second(struct tir_builder *b, const struct att_pages *p,
                                     struct tir_value base, struct tir_value second,
                                     struct tir_value stride, struct tir_value slots,
                                     struct tir_value at)
{
    const struct tir_value first = att_like(b, p->second_first, slots);
    const struct tir_value row = tir_zext(b, tir_sub(b, slots, first), TIR_I64);
    const struct tir_value apart = att_like(b, tir_sub(b, second, base), row);
    const struct tir_value there = tir_add(b, page_offset(b, row, stride), apart);
    return tir_select(b, tir_cmp_lt(b, slots, first), at, there);
}

/* Returns the byte offset (i64) of each gathered run from the start of its row. */
static struct tir_value run_byte(struct tir_builder *b, const struct att_paged_tile *t)
{
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    const struct tir_value block = block_of(b, t, row);
    return tir_zext(b, tir_shl(b, block, tir_int_like(b, block, run_bits(t))), TIR_I64);
}

/* Loads the last 64 elements of a tile's rows from their own tensor (kv_layout planes), once for
 * each run of a row. Rows are given by their list entries `slots` if they are in the second source,
 * else by `token` in page number `page`. */
static struct tir_value load_plane(struct tir_builder *b, const struct att_pages *p,
                                   const struct att_paged_tile *t, struct tir_value slots,
                                   struct tir_value page, struct tir_value token)
{
    const struct att_cache *const c = &t->cache;
    const struct tir_value inside = att_page_place(&p->paging, token);
    const struct tir_value stride = tir_convert(b, c->plane_token_stride, TIR_I32);
    const struct tir_value in_page = tir_mul(b, inside, att_like(b, stride, inside));
    struct tir_value at =
        tir_add(b, page_offset(b, page, c->plane_page_stride), tir_zext(b, in_page, TIR_I64));
    if (p->v->two_sources)
        at = place_second(b, p, c->plane, p->second_plane, p->second_plane_stride, slots, at);
    return tir_tile_gather(b, c->plane, at, tir_i32(b, 0),
                           tir_with_dtype(t->gathered, att_dtype(p->v)));
}

/* Loads the last 64 elements of each gathered run's row. If a row has several runs, its last
 * elements are loaded once for each run. `at` (i64) is the byte offset of each run from the cache's
 * base. */
static struct tir_value load_rotated(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value at)
{
    return tir_tile_gather(b, t->cache.base, tir_sub(b, at, run_byte(b, t)),
                           tir_i32(b, t->cache.rows->rotated),
                           tir_with_dtype(t->gathered, att_dtype(p->v)));
}

/* Returns x with `rotated` in place of the last 64 elements of each row. `rotated` is of the op's
 * dtype; x has meaningless values there. */
static struct tir_value place_rotated(struct tir_builder *b, const struct att_paged_tile *t,
                                      struct tir_value rotated, struct tir_value x)
{
    const struct tir_value row = tir_row_index(b, tir_with_dtype(t->gathered, TIR_I32));
    const struct att_row_format *const rows = t->cache.rows;
    const int last = (rows->scaled - (int)t->first) / rows->run * (int)t->tokens;
    return tir_select(b, tir_cmp_ge(b, row, tir_int_like(b, row, last)), rotated, x);
}

/* Sets *page from the result of att_page_numbers() to the number of the page that has each gathered
 * row's token. Sets *token to the token's index, which determines its place in the page. `key`
 * (i32): index of the tile's first token. Tokens of a second source of pages are counted from that
 * source's first row. For rows of the second source in another format, sets both to the cache's
 * first row. */
static void find_token(struct tir_builder *b, const struct att_pages *p,
                       const struct att_paged_tile *t, struct tir_value key, struct tir_value *page,
                       struct tir_value *token)
{
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    *page = tir_and(b, *page, att_like(b, p->used, *page));
    *token = token_of(b, t, row, key);
    if (!p->slots)
        return;
    *token = tir_max(b, *page, tir_int_like(b, *page, 0));
    if (has_second_pages(p, &t->cache) || other_rows(p, &t->cache)) {
        const bool pages = has_second_pages(p, &t->cache);
        const struct tir_value first = att_like(b, p->second_first, *token);
        const struct tir_value second = tir_cmp_ge(b, *token, first);
        const struct tir_value there =
            pages ? tir_sub(b, *token, first) : tir_int_like(b, *token, 0);
        *token = tir_select(b, second, there, *token);
    }
    *page = att_page_of(&p->paging, *token);
}

struct tir_value att_paged_rows(struct tir_builder *b, const struct att_pages *p,
                                const struct att_paged_tile *t, struct tir_value key,
                                struct tir_value page)
{
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    const struct tir_value slots = page;
    struct tir_value token;
    find_token(b, p, t, key, &page, &token);
    const struct tir_value at =
        tir_add(b, offset_of(b, p, &t->cache, slots, page), run_offset(b, p, t, row, token));
    if (!p->v->two_sources || has_second_pages(p, &t->cache) || other_rows(p, &t->cache))
        return at;
    /* Byte offset of the row's start, not of the run that a gathered row has. */
    const struct tir_value base = t->cache.packed ? tir_sub(b, at, run_byte(b, t)) : at;
    const struct tir_value rows =
        place_second(b, p, t->cache.base, p->second, p->second_stride, slots, base);
    return t->cache.packed ? tir_add(b, rows, run_byte(b, t)) : rows;
}

/* Returns the type of the stored bytes of gathered rows. A byte has two neighbouring elements of
 * e2m1. */
static struct tir_type stored_type(struct tir_builder *b, const struct att_paged_tile *t)
{
    if (!t->cache.packed || t->cache.rows->bits == 8)
        return t->gathered;
    const struct tir_layout l = tir_layout_join_cols(tir_layout_of(b->f, t->gathered), 1);
    return tir_tile(b->f, TIR_I8, t->gathered.rows, t->gathered.cols / 2u, &l);
}

/* Loads gathered rows from a second source whose rows have the format `rows`, into d->second_*. In
 * place of rows of the cache, loads the second source's first row. `entries`: the rows' entries of
 * the sparse list. */
static void load_second(struct tir_builder *b, const struct att_pages *p,
                        const struct att_paged_tile *t, const struct att_row_format *rows,
                        struct tir_value entries, struct att_paged_data *d)
{
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    const struct tir_value block = block_of(b, t, row);
    /* Log2 of the number of gathered runs that share a scale. */
    const unsigned shared = tir_bits((unsigned)rows->run / t->run);
    const struct tir_value named = tir_max(b, entries, tir_int_like(b, entries, 0));
    d->second_row = tir_sub(b, named, att_like(b, p->second_first, named));
    const struct tir_value own = tir_max(b, d->second_row, tir_int_like(b, entries, 0));
    const struct tir_value at = page_offset(b, own, p->second_stride);
    const int bytes = att_row_bytes(rows, (int)t->run);
    const struct tir_value run =
        tir_zext(b, tir_mul(b, block, tir_int_like(b, block, bytes)), TIR_I64);
    const struct tir_value scale =
        tir_zext(b, tir_shr(b, block, tir_int_like(b, block, shared)), TIR_I64);
    d->second_bits = tir_tile_gather(b, p->second, tir_add(b, at, run),
                                     tir_i32(b, att_row_bytes(rows, (int)t->first)), t->gathered);
    d->second_scale = tir_tile_gather(b, p->second, tir_add(b, at, scale),
                                      tir_i32(b, rows->scales + (int)t->first / rows->run),
                                      of_rows(b, t->gathered, TIR_I8));
}

struct att_paged_data att_paged_load(struct tir_builder *b, const struct att_pages *p,
                                     const struct att_paged_tile *t, struct tir_value key,
                                     struct tir_value page)
{
    struct att_paged_data d = {0};
    struct tir_value token;
    const struct tir_value row = tir_row_index(b, of_rows(b, t->gathered, TIR_I32));
    const struct tir_value entries = page;
    const struct tir_value at = att_paged_rows(b, p, t, key, page);
    find_token(b, p, t, key, &page, &token);
    const int byte = t->cache.packed    ? att_row_bytes(t->cache.rows, (int)t->first)
                     : t->cache.shuffle ? 0
                                        : (int)t->first * t->cache.size;
    d.bits = tir_tile_gather(b, t->cache.base, at, tir_i32(b, byte), stored_type(b, t));
    if (att_scales_rows(p->v))
        d.scale = load_scales(b, p, t, page, token);
    if (t->cache.packed && t->cache.rows->scales == ATT_AFTER_ROWS)
        d.scale = load_last_scales(b, p, t, offset_of(b, p, &t->cache, entries, page), token);
    else if (t->cache.packed)
        d.scale = load_packed_scales(b, t, row, at);
    if (other_rows(p, &t->cache))
        load_second(b, p, t, other_rows(p, &t->cache), entries, &d);
    if (has_rotated(t) && t->cache.rows->rotated == ATT_OWN_PLANE)
        d.rotated = load_plane(b, p, t, entries, page, token);
    else if (has_rotated(t))
        d.rotated = load_rotated(b, p, t, at);
    return d;
}

/* Returns the loaded elements d.bits times their scales, in `dtype`. */
static struct tir_value scaled(struct tir_builder *b, struct att_paged_data d, unsigned dtype)
{
    const struct tir_value wide = tir_convert(b, d.bits, TIR_F32);
    const struct tir_type t = tir_typeof(b->f, wide);
    if (tir_typeof(b->f, d.scale).cols != t.cols)
        d.scale = tir_broadcast(b, d.scale, t);
    return tir_convert_short(b, tir_mul(b, wide, d.scale), dtype);
}

struct tir_value att_paged_entries(struct tir_builder *b, const struct att_paged_tile *t,
                                   struct tir_value entries)
{
    const struct tir_type type = tir_with_dtype(t->gathered, TIR_I32);
    const struct tir_value x = tir_broadcast(b, entries, type);
    return t->blocks ? tir_join_blocks(b, x, t->tokens) : x;
}

/* Returns x with rows of the second source in place of rows of the cache, where d.second_row is not
 * negative. The second source's rows have another format than the cache's. */
static struct tir_value place_other(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, struct tir_value x, unsigned dtype)
{
    struct att_cache other = t->cache;
    other.rows = t->cache.rows->second;
    const struct att_paged_data second = {.bits = d.second_bits,
                                          .scale = att_packed_decode(&other, d.second_scale)};
    const struct tir_value row =
        tir_broadcast(b, d.second_row, tir_with_dtype(t->gathered, TIR_I32));
    return tir_select(b, tir_cmp_ge(b, row, tir_int_like(b, row, 0)), scaled(b, second, dtype), x);
}

struct tir_value att_paged_elements(struct tir_builder *b, const struct att_paged_tile *t,
                                    struct att_paged_data d, unsigned dtype)
{
    struct tir_value x = d.bits;
    if (t->cache.packed)
        d.scale = att_packed_decode(&t->cache, d.scale);
    if (t->cache.packed && t->cache.rows->bits == 4)
        x = att_e2m1_elements(b, d.bits, d.scale, dtype);
    else if (d.scale.id)
        x = scaled(b, d, dtype);
    else if (tir_typeof(b->f, x).dtype != dtype)
        x = tir_convert(b, x, dtype);
    if (d.second_row.id)
        x = place_other(b, t, d, x, dtype);
    if (d.rotated.id)
        x = place_rotated(b, t, d.rotated, x);
    if (t->cache.shuffle || t->blocks)
        x = tir_join_blocks(b, x, t->blocks ? t->tokens : t->cols);
    return t->cache.shuffle && t->cache.value ? tir_transpose(b, x) : x;
}
