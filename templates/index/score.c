/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/index/query.h"

#include "op_names.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    DIM = ATT_INDEX_DIM,
    ROWS = 32, /* number of heads of a block */
    VECTOR = ATT_INDEX_VECTOR,
    TILE = 16, /* number of tokens that SHUFFLE interleaves, and bytes of a token's chunk */
    FOURTHS = ATT_INDEX_FOURTHS,
    LOADS = 4,  /* number of steps in which the parts of a key are loaded */
    STEPS = 8,  /* number of steps of other work between the matrix instructions of a product */
    LEVELS = 4, /* number of priorities of a wave */
    FINISH_STEPS = 6, /* number of steps in which the scores of a set are finished */
    SCALES = 4,       /* bytes of a key's scale, or of its four mxfp4 scales */
    ONE = 127,        /* the e8m0 scale of 1 */
};
static_assert(STEPS == 2 * FOURTHS, "a fourth is added in two steps");

/* Returns the number of keys of a product, which is the number of rows and of columns of its matrix
 * instruction. */
static unsigned group_of(const struct tir_machine *m) { return tir_lanes(m) / 2; }

/* Returns the enum tir_dtype of q's elements, and of keys other than mxfp4. */
static enum tir_dtype element_of(const struct att_variant *v)
{
    switch (v->index_keys) {
    case ATT_INDEX_KEYS_BF16: return TIR_BF16;
    case ATT_INDEX_KEYS_FP16: return TIR_F16;
    default: return TIR_FP8;
    }
}

bool att_index_check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    /* Number of rows of the matrix instruction for which a slice may be half of a lane's chunk. */
    enum { WIDE = 32 };
    const unsigned side = group_of(m);
    const enum tir_dtype element = element_of(v);
    const int product = tir_find_mma(m, side, side, 0, element);
    if (product < 0)
        return att_reject(why, ATT_FIELD_COUNT, "%s has no %ux%u matrix product of %s", m->name,
                          side, side, tir_dtype_name(element));
    const unsigned held = 1u << m->mma[product].a.reg_bits,
                   chunk = VECTOR * 8 / tir_dtype_bits(element);
    if (side < WIDE && held < chunk)
        return att_reject(why, ATT_INDEX_KEYS,
                          "a lane of %s multiplies %u elements of %s, and loads chunks of %u",
                          m->name, held, tir_dtype_name(element), chunk);
    if (v->kv_layout == ATT_KV_LAYOUT_SHUFFLE && !v->paged)
        return att_reject(why, ATT_KV_LAYOUT, "kv_layout shuffle is for pages: paged is false");
    if (v->kv_layout != ATT_KV_LAYOUT_NHD && v->kv_layout != ATT_KV_LAYOUT_SHUFFLE)
        return att_reject(why, ATT_KV_LAYOUT, "the indexer's keys are nhd or shuffle");
    if (v->small_pages && !v->paged)
        return att_reject(why, ATT_SMALL_PAGES, "small_pages is set, paged is false");
    if (v->index_keys != ATT_INDEX_KEYS_MXFP4)
        return true;
    if (!v->paged)
        return att_reject(why, ATT_INDEX_KEYS, "index_keys mxfp4 is for pages: paged is false");
    if (tir_find_mma_scaled(m, side, side, TIR_MX_E4M3, TIR_MX_E2M1) < 0)
        return att_reject(why, ATT_INDEX_KEYS,
                          "index_keys mxfp4 is for targets that multiply fp4, and %s does not",
                          m->name);
    return true;
}

/* Returns a tile with `scalar` (i32) in every lane. */
static struct tir_value number(const struct att_index *x, struct tir_value scalar)
{
    return tir_splat(x->b, scalar, x->lane);
}

/* Returns a tile with `n` in every lane. */
static struct tir_value constant(const struct att_index *x, int n)
{
    return number(x, tir_i32(x->b, n));
}

/* True if keys have scales: one for each key, or one for each mxfp4 block of a key. */
static bool has_scales(const struct att_index *x) { return x->scaled || x->mxfp4; }

/* Returns the index of the scales among the values that the loop carries for a group. In order,
 * these are parts of keys, scales if keys have any, and the page number of the group that is loaded
 * next. */
static unsigned carried_scale(const struct att_index *x) { return x->parts; }

/* Returns the index of the page number among the values that the loop carries for a group. */
static unsigned carried_page(const struct att_index *x) { return x->parts + has_scales(x); }

/* Returns the number of values in flight that the loop carries for one group of keys. */
static unsigned carried_each(const struct att_index *x) { return carried_page(x) + 1; }

/* Returns the number of bytes of a key without its scale. */
static int key_bytes(const struct att_index *x) { return (int)x->parts * 2 * VECTOR; }

static struct tir_value part_offset(const struct att_index *x, struct tir_value inside);
static struct tir_value scale_offset(const struct att_index *x, struct tir_value inside);

bool att_index_has_pairs(const struct att_variant *v, const struct tir_machine *m)
{
    return v->index_keys == ATT_INDEX_KEYS_FP8 && !v->all_signs &&
           tir_find_mma_scaled(m, group_of(m), group_of(m), TIR_MX_E4M3, TIR_MX_E4M3) >= 0;
}

/* Returns the index in tir_machine.mma of the matrix instruction of the products: of those that the
 * machine has, the instruction with the longest contraction. A lane's part of an operand is two
 * chunks, one chunk or half of a chunk. */
static int find_product(const struct tir_machine *m, const struct att_index *x)
{
    const unsigned side = x->group;
    if (x->mxfp4 || x->pairs)
        return tir_find_mma_scaled(m, side, side, TIR_MX_E4M3,
                                   x->mxfp4 ? TIR_MX_E2M1 : TIR_MX_E4M3);
    int found = -1;
    for (unsigned k = 4 * x->vector; found < 0 && k >= x->vector; k /= 2)
        found = tir_find_mma(m, side, side, k, x->element);
    return found;
}

/* Sets x->order, by which each head gets a row of a product. Bit 2 of a head's index selects one of
 * the two lanes that load a key, so each lane has every other four heads. Rows of a 32x32
 * instruction already have that order. In an instruction of 16 rows bit 3 selects the lane, so bits
 * 2 and 3 are swapped. */
static void order_heads(struct att_index *x)
{
    enum { LANE_BIT = 2 };
    for (uint8_t i = 0; i < TIR_LAYOUT_MAX_BITS; i++)
        x->order[i] = i;
    if (x->group == ROWS)
        return;
    x->order[LANE_BIT] = LANE_BIT + 1;
    x->order[LANE_BIT + 1] = LANE_BIT;
}

struct att_index att_index_begin(struct tir_builder *b, const struct att_variant *v, bool pairs)
{
    const struct tir_machine *const m = b->f->machine;
    const unsigned lanes = tir_lanes(m);
    const struct tir_layout lane = tir_spread_column(m, 1, lanes);
    struct att_index x = {.b = b,
                          .lanes = lanes,
                          .group = group_of(m),
                          .paged = v->paged,
                          .shuffle = v->kv_layout == ATT_KV_LAYOUT_SHUFFLE,
                          .listed = v->listed,
                          .by_lane = v->listed || (v->paged && v->small_pages),
                          .mxfp4 = v->index_keys == ATT_INDEX_KEYS_MXFP4,
                          .scaled = v->index_keys == ATT_INDEX_KEYS_FP8,
                          .element = element_of(v),
                          .pairs = pairs,
                          .all_signs = v->all_signs,
                          .block_size = (unsigned)v->block_size,
                          .heads = (unsigned)v->index_heads,
                          .blocks = ((unsigned)v->index_heads + ROWS - 1) / ROWS};
    assert(x.blocks <= ATT_INDEX_BLOCKS_MAX);
    x.vector = 8 * VECTOR / tir_dtype_bits(x.element);
    x.mma = find_product(m, &x);
    order_heads(&x);
    x.parts = DIM / x.vector / (x.mxfp4 ? 4 : 2);
    x.slices = DIM / m->mma[x.mma].k;
    x.lane = tir_tile(b->f, TIR_I32, lanes, 1, &lane);
    x.halves = tir_spread_chunks(m, 1, 2, lanes, 2);
    const struct tir_layout chunk = tir_spread_chunks(m, 1, x.vector, lanes, x.vector);
    x.chunk = tir_tile(b->f, x.mxfp4 ? TIR_I8 : x.element, lanes, x.vector, &chunk);
    const struct tir_layout result =
        tir_mma_result(&m->mma[x.mma], ROWS, x.group, (struct tir_waves){0});
    const struct tir_layout products = tir_layout_permute_rows(&result, x.order);
    x.products = tir_tile(b->f, TIR_F32, ROWS, x.group, &products);
    x.lane_index = tir_row_index(b, x.lane);
    x.token = tir_and(b, x.lane_index, constant(&x, (int)x.group - 1));
    x.key_offset = part_offset(&x, x.token);
    x.scale_offset = scale_offset(&x, x.token);
    x.keys = tir_arg(b, ARG_KEYS, TIR_I64);
    if (x.paged) {
        x.page_stride =
            tir_zext(b, tir_convert(b, tir_arg(b, ARG_PAGE_STRIDE, TIR_I64), TIR_I32), TIR_I64);
        x.paging = att_paging_by_argument(b, !x.by_lane);
        x.scales = tir_add(b, x.keys,
                           att_wide(b, att_times(b, att_page_tokens(&x.paging), key_bytes(&x))));
    } else if (x.scaled) {
        x.scales = tir_arg(b, ARG_KEY_SCALES, TIR_I64);
    }
    return x;
}

/* Returns slice `s` (index) of a group's mxfp4 keys, 32 bytes x group, from the loads chunks[]. A
 * lane has two of the four blocks of a key. */
static struct tir_value key_bytes_of(const struct att_index *x, const struct tir_value *chunks,
                                     unsigned s)
{
    return tir_transpose(x->b, tir_join_blocks(x->b, chunks[s], x->group));
}

/* Returns the scales of slice `s` (index) of a group's mxfp4 keys, 2 x group. `scales` has two
 * scales of each lane. */
static struct tir_value key_scales_of(const struct att_index *x, struct tir_value scales,
                                      unsigned s)
{
    struct tir_builder *b = x->b;
    const struct tir_value own = tir_half(b, tir_transpose(b, scales), s);
    return tir_transpose(b, tir_join_blocks(b, tir_transpose(b, own), x->group));
}

/* Returns `sum` (f32) plus the product of one slice of q and of keys. Slice `s` (index) of q is of
 * block `block` of query heads; the loads of the group's keys are in carried[]. */
static struct tir_value multiply_slice(const struct att_index *x, const struct att_index_query *own,
                                       unsigned block, unsigned s, const struct tir_value *carried,
                                       struct tir_value sum)
{
    struct tir_builder *b = x->b;
    const struct tir_value q = own->q[block][s];
    if (x->mxfp4)
        return tir_mma_scaled(b, x->mma, q, key_bytes_of(x, carried, s), sum, tir_i32(b, ONE),
                              key_scales_of(x, carried[carried_scale(x)], s));
    const struct tir_value keys = tir_transpose(b, att_index_slice_of(x, carried, s, x->group));
    if (x->pairs)
        return tir_mma_scaled(b, x->mma, q, keys, sum, own->scale, tir_i32(b, ONE));
    return tir_mma(b, x->mma, q, keys, sum);
}

/* ---- The rows ---- */

struct tir_value att_index_sequence(struct tir_builder *b, struct tir_value row)
{
    return att_entry_or(b, ARG_ROW_SEQUENCES, row, row);
}

/* Returns the address (i64) in the block table of the pages of the sequence of row `row` (i32) of
 * scores. */
static struct tir_value find_table(struct att_index *x, struct tir_value row)
{
    struct tir_builder *b = x->b;
    const struct tir_value stride = att_stride(b, ARG_BLOCK_TABLE_STRIDE, 4);
    const struct tir_value sequence = att_index_sequence(b, row);
    const struct tir_value at = tir_mul(b, att_wide(b, sequence), stride);
    return att_at(b, ARG_BLOCK_TABLE, at);
}

/* Implements the declaration in score.h, and sets the number of groups in flight. With many
 * products per group, few groups are in flight, since products read a group's keys until the loads
 * that replace these keys are issued. */
void att_index_rows(struct att_index *x, const struct tir_value *rows, unsigned n,
                    struct tir_value first, struct tir_value end)
{
    assert(n <= ATT_INDEX_ROWS_MAX);
    x->rows = n;
    const bool few = n * x->blocks > 2 || tir_dtype_bits(x->element) > 8;
    x->ahead = few ? ATT_INDEX_AHEAD_MAX / 2 : ATT_INDEX_AHEAD_MAX;
    x->first = first;
    x->last = att_plus(x->b, end, -1);
    if (x->paged)
        x->table = find_table(x, rows[0]);
    for (unsigned r = 0; r < n; r++)
        x->query[r].row = rows[r];
}

/* ---- Keys ---- */

/* The index of a group's first key is a multiple of x->group, the number of keys of a group. A page
 * whose number of tokens is a power of two and at least x->group has whole groups. The keys of a
 * group are then contiguous in memory, and the group's address is a scalar. */

/* Returns the first key (i32) of the group that has key `key` (i32), or of the last group if that
 * is earlier. */
static struct tir_value last_group(const struct att_index *x, struct tir_value key)
{
    struct tir_builder *b = x->b;
    return tir_min(b, key, tir_and(b, x->last, tir_i32(b, -(int)x->group)));
}

/* Returns the page (i32) of the group that has key `key` (i32), by a scalar load from the block
 * table. */
static struct tir_value scalar_page(const struct att_index *x, struct tir_value key)
{
    struct tir_builder *b = x->b;
    const struct tir_value entry = att_page_of(&x->paging, last_group(x, key));
    return tir_scalar_load(b, x->table, tir_shl(b, entry, tir_i32(b, 2)), TIR_I32);
}

/* Returns the address (i64) of element `index` (i32) of an array at address `base` (i64), with
 * elements of `bytes` bytes. */
static struct tir_value row_address(const struct att_index *x, struct tir_value base,
                                    struct tir_value index, int bytes)
{
    struct tir_builder *b = x->b;
    return tir_add(b, base, att_wide(b, att_times(b, index, bytes)));
}

/* Returns a buffer resource of one group's part of an array with `bytes` bytes for each key. The
 * group has key `key` (i32), or is the last group if that is earlier. The array begins at address
 * `base` (i64), or with pages at `base` plus the offset of page `page` (i32). */
static struct tir_value find_group(const struct att_index *x, struct tir_value key,
                                   struct tir_value page, struct tir_value base, int bytes)
{
    struct tir_builder *b = x->b;
    const struct tir_value first = last_group(x, key);
    if (x->paged) {
        const struct tir_value inside = att_page_place(&x->paging, first);
        const struct tir_value start = tir_mul(b, tir_zext(b, page, TIR_I64), x->page_stride);
        return tir_make_rsrc(b, row_address(x, tir_add(b, base, start), inside, bytes),
                             tir_i32(b, (int)x->group * bytes));
    }
    const struct tir_value left = att_plus(b, tir_sub(b, x->last, first), 1);
    const struct tir_value n = tir_min(b, left, tir_i32(b, (int)x->group));
    const struct tir_value at = att_wide_times(b, first, bytes);
    return tir_make_rsrc(b, tir_add(b, base, at), att_times(b, n, bytes));
}

/* Returns a buffer resource of the keys of the group that begins at key `first` (i32), in page
 * `page` (i32). */
static struct tir_value find_keys(const struct att_index *x, struct tir_value first,
                                  struct tir_value page)
{
    return find_group(x, first, page, x->keys, key_bytes(x));
}

/* Returns a buffer resource of the scales of the group that begins at key `first` (i32), in page
 * `page` (i32). */
static struct tir_value find_scales(const struct att_index *x, struct tir_value first,
                                    struct tir_value page)
{
    return find_group(x, first, page, x->scales, SCALES);
}

/* Returns the tile type of a group's scales: one f32 for each lane, or with mxfp4 the two scales of
 * the lane's blocks. */
static struct tir_type scale_type(const struct att_index *x)
{
    struct tir_type t = x->lane;
    if (x->mxfp4)
        return tir_tile(x->b->f, TIR_I8, x->lanes, 2, &x->halves);
    t.dtype = TIR_F32;
    return t;
}

/* Returns the distance in bytes, within a key, of the first parts that the key's two lanes load.
 * The two lanes have alternate parts of fp8 keys, and halves of mxfp4 keys. */
static int lanes_apart(const struct att_index *x)
{
    return (x->shuffle ? TILE * TILE : VECTOR) * (x->mxfp4 ? 2 : 1);
}

/* Returns the distance in bytes of consecutive parts of a key that a lane loads. */
static int apart(const struct att_index *x)
{
    return (x->shuffle ? TILE * TILE : VECTOR) * (x->mxfp4 ? 1 : 2);
}

/* Returns `a` (i32, not negative) as i64. */
static struct tir_value wide(const struct att_index *x, struct tir_value a)
{
    return tir_zext(x->b, a, TIR_I64);
}

/* Returns the byte offset (i32) of each lane's first part of a key from the start of the page or
 * group. `inside` (i32) is the key's index there. */
static struct tir_value part_offset(const struct att_index *x, struct tir_value inside)
{
    struct tir_builder *b = x->b;
    const struct tir_value half = tir_shr(b, x->lane_index, constant(x, (int)tir_bits(x->group)));
    const struct tir_value own =
        tir_shl(b, half, constant(x, (int)tir_bits((unsigned)lanes_apart(x))));
    const unsigned bytes = (unsigned)key_bytes(x);
    if (!x->shuffle)
        return tir_add(b, tir_shl(b, inside, constant(x, (int)tir_bits(bytes))), own);
    /* A shuffled page has the first 16 bytes of 16 tokens, then the next 16 bytes of these tokens,
     * and so on. */
    const struct tir_value tile = tir_shr(b, inside, constant(x, (int)tir_bits(TILE)));
    const struct tir_value token = tir_and(b, inside, constant(x, TILE - 1));
    const struct tir_value at =
        tir_add(b, tir_shl(b, tile, constant(x, (int)tir_bits(TILE * bytes))),
                tir_shl(b, token, constant(x, (int)tir_bits(TILE))));
    return tir_add(b, at, own);
}

/* Returns the byte offset (i32) of each lane's scale, or with mxfp4 of its two scales, from the
 * page's first scale. `inside` (i32) is the key's index in the page. */
static struct tir_value scale_offset(const struct att_index *x, struct tir_value inside)
{
    struct tir_builder *b = x->b;
    const struct tir_value at = tir_shl(b, inside, constant(x, (int)tir_bits(SCALES)));
    if (!x->mxfp4)
        return at;
    const struct tir_value half = tir_shr(b, x->lane_index, constant(x, (int)tir_bits(x->group)));
    return tir_add(b, at, tir_shl(b, half, constant(x, 1)));
}

/* Byte offsets (i64, one in each lane) of the lane's key from x->keys, and of its scale from
 * x->scales. */
struct places {
    struct tir_value keys, scales;
};

/* Returns the keys (i32) at positions `at` (i32, one in each lane) of the row's list of blocks. */
static struct tir_value listed_key(const struct att_index *x, struct tir_value at)
{
    struct tir_builder *b = x->b;
    const struct tir_value bits = constant(x, (int)tir_bits(x->block_size));
    const struct tir_value entry = wide(x, tir_shl(b, tir_shr(b, at, bits), constant(x, 2)));
    const struct tir_value block = tir_tile_gather(b, x->list, entry, tir_i32(b, 0), x->lane);
    const struct tir_value inside = tir_and(b, at, constant(x, (int)x->block_size - 1));
    const struct tir_value key = tir_add(b, tir_shl(b, block, bits), inside);
    return tir_add(b, key, number(x, x->start));
}

/* Returns the places of each lane's key and scale, in the group that begins at key or list position
 * `first` (i32). */
static struct places find_lanes(const struct att_index *x, struct tir_value first)
{
    struct tir_builder *b = x->b;
    const unsigned bytes = (unsigned)key_bytes(x);
    struct tir_value key = tir_min(b, tir_add(b, x->token, number(x, first)), number(x, x->last));
    if (x->listed)
        key = listed_key(x, key);
    if (!x->paged)
        return (struct places){
            .keys = tir_add(b, tir_shl(b, wide(x, key), wide(x, constant(x, (int)tir_bits(bytes)))),
                            wide(x, part_offset(x, constant(x, 0)))),
            .scales = tir_shl(b, wide(x, key), wide(x, constant(x, 2))),
        };
    /* The group may begin before the first key that a row sees, in a page that must not be read.
     * Such lanes read the first key instead. */
    if (!x->listed)
        key = tir_max(b, key, number(x, x->first));
    const struct tir_value entry = att_page_of(&x->paging, key);
    const struct tir_value page =
        wide(x, tir_tile_gather(b, x->table, wide(x, tir_shl(b, entry, constant(x, 2))),
                                tir_i32(b, 0), x->lane));
    const struct tir_value inside = tir_sub(b, key, att_page_first(&x->paging, entry));
    const struct tir_value start = tir_mul(b, page, att_like(b, x->page_stride, page));
    return (struct places){
        .keys = tir_add(b, start, wide(x, part_offset(x, inside))),
        .scales = tir_add(b, start, wide(x, scale_offset(x, inside))),
    };
}

/* ---- Walking ---- */

/* Returns the key (i32) at which group `g` (index) of the wave begins. Groups are counted from the
 * current round's first one, and may be in a later round. */
static struct tir_value key_of(const struct att_index *x, const struct att_index_walk *w,
                               unsigned g)
{
    const int rounds = (int)(g / w->groups), group = (int)(g % w->groups);
    return att_plus(x->b, w->own, rounds * w->stride + group * (int)x->group);
}

/* Returns the page number (i32) of group `g` (index); 0 if keys are not paged or each lane finds
 * the page of its own key. */
static struct tir_value page_of(const struct att_index *x, const struct att_index_walk *w,
                                unsigned g)
{
    return x->paged && !x->by_lane ? scalar_page(x, key_of(x, w, g)) : tir_i32(x->b, 0);
}

/* Issues the loads of the keys of group `g` (index), whose page is `page` (i32), into carried[].
 * Returns the place of the keys' scales: the page number, or each lane's byte offset (i64). */
static struct tir_value send_keys(const struct att_index *x, const struct att_index_walk *w,
                                  unsigned g, struct tir_value page, struct tir_value *carried)
{
    const struct tir_value first = key_of(x, w, g);
    if (x->by_lane) {
        const struct places at = find_lanes(x, first);
        for (unsigned i = 0; i < x->parts; i++)
            carried[i] =
                tir_tile_gather(x->b, x->keys, at.keys, tir_i32(x->b, (int)i * apart(x)), x->chunk);
        return at.scales;
    }
    const struct tir_value keys = find_keys(x, first, page);
    for (unsigned i = 0; i < x->parts; i++)
        carried[i] = tir_tile_fetch(x->b, keys, x->key_offset, i * (unsigned)apart(x), x->chunk);
    return page;
}

/* Issues the loads of the scales of group `g` (index) and returns them. `at`: place of the scales,
 * a result of send_keys(). */
static struct tir_value send_scales(const struct att_index *x, const struct att_index_walk *w,
                                    unsigned g, struct tir_value at)
{
    const struct tir_type type = scale_type(x);
    if (x->by_lane)
        return tir_tile_gather(x->b, x->scales, at, tir_i32(x->b, 0), type);
    return tir_tile_fetch(x->b, find_scales(x, key_of(x, w, g), at), x->scale_offset, 0, type);
}

unsigned att_index_carried(const struct att_index *x) { return x->ahead * carried_each(x); }

void att_index_send(struct att_index *x, const struct att_index_walk *w, struct tir_value *carried)
{
    for (unsigned g = 0; g < x->ahead; g++, carried += carried_each(x)) {
        const struct tir_value at = send_keys(x, w, g, page_of(x, w, g), carried);
        if (has_scales(x))
            carried[carried_scale(x)] = send_scales(x, w, g, at);
        carried[carried_page(x)] = page_of(x, w, g + x->ahead);
    }
    for (unsigned row = 0; row < x->rows; row++)
        att_index_load_query(x, &x->query[row]);
    for (unsigned row = 0; x->pairs && row < x->rows; row++)
        att_index_scale_pairs(x, &x->query[row]);
}

/* ---- Scores ---- */

/* The products of the latest block of heads, which are not yet added to a sum. The VALU adds them
 * between the next product's matrix instructions, so that it and the matrix unit work at the same
 * time. */
struct pending {
    /* f32: products, and weights, of each fourth of the block's heads. */
    struct tir_value products[FOURTHS], weights[FOURTHS];
    /* weights of the whole block, two f16 in each element; set with att_index.pairs */
    const struct tir_value *weight_pairs;
    /* relu of the products that are added next, a fourth of the block's: f32, or with
     * att_index.pairs two tiles of pairs of f16 */
    struct tir_value positive[2];
    struct tir_value *sum; /* the sum to which the products are added */
    bool is; /* true: products[] has products to add; false: before the first product */
};

/* Computes the relu of fourth `i` (index) of the pending products into p->positive. Negative
 * products and NaNs become 0, unless all signs count. A NaN in a key is not lost: it is in all
 * products, and each sum begins with 0 times a product before its relu. */
static void clear_negative(const struct att_index *x, struct pending *p, int i)
{
    struct tir_builder *b = x->b;
    const struct tir_value zero = tir_float_like(b, p->products[i], 0.0f);
    struct tir_value rows[FOURTHS];
    if (x->pairs || !p->sum->id)
        att_index_cut_rows(x, p->products[i], rows);
    if (!p->sum->id)
        *p->sum = tir_mul(b, rows[0], tir_float_like(b, rows[0], 0.0f));
    if (!x->pairs) {
        p->positive[0] = x->all_signs ? p->products[i] : tir_max(b, p->products[i], zero);
        return;
    }
    p->positive[0] = tir_unit_pair(b, rows[0], rows[1]);
    p->positive[1] = tir_unit_pair(b, rows[2], rows[3]);
}

/* Builds step `step`, below STEPS, of adding the pending products to their sum. Two steps add one
 * fourth of a block's rows. */
static void add_step(const struct att_index *x, struct pending *p, int step)
{
    struct tir_builder *b = x->b;
    const int i = step / 2;
    if (!p->is)
        return;
    if (step % 2 == 0) {
        clear_negative(x, p, i);
        return;
    }
    if (x->pairs) {
        for (int j = 0; j < 2; j++)
            *p->sum = tir_dot2(b, p->positive[j], p->weight_pairs[2 * i + j], *p->sum);
        return;
    }
    struct tir_value scores[FOURTHS], weights[FOURTHS];
    att_index_cut_rows(x, p->positive[0], scores);
    att_index_cut_rows(x, p->weights[i], weights);
    for (int j = 0; j < FOURTHS; j++)
        *p->sum = tir_fma(b, scores[j], weights[j], *p->sum);
}

/* A round under construction: scores of several groups of keys. Loads of a group's scales are
 * issued only after the previous scales in the same register have been used. */
struct round {
    const struct att_index_walk *walk; /* the wave's keys */
    /* Loads in flight of the next x->ahead groups: parts of keys, scales, and a page number. */
    struct tir_value *carried;
    const struct att_index_user *user; /* consumer of the scores */
    struct pending pending;
    /* f32: sum of products of each row and group. `places`: place of the scales of each next group,
     * a result of send_keys(). */
    struct tir_value sums[ATT_INDEX_ROWS_MAX][ATT_INDEX_GROUPS_MAX], places[ATT_INDEX_GROUPS_MAX];
    struct tir_value keys; /* buffer resource of the keys of the group being loaded */
    /* f32, lanes x 1: each row's scores of the set in progress. */
    struct tir_value set[ATT_INDEX_ROWS_MAX];
    struct tir_value scale; /* f32, lanes x 1: the scales of the keys of the set in progress */
};

/* Returns a pointer to the values in flight of group `g` (index), in r->carried. */
static struct tir_value *carried_of(const struct att_index *x, const struct round *r, unsigned g)
{
    return r->carried + g % x->ahead * carried_each(x);
}

/* Issues step `step`, below STEPS, of the loads that replace group `g` (index), which has been
 * multiplied. Scales of mxfp4 keys, which the products have used, are replaced by the same
 * steps. */
static void send_step(const struct att_index *x, struct round *r, unsigned g, int step)
{
    struct tir_value *const own = carried_of(x, r, g);
    const unsigned next = g + x->ahead, part = (unsigned)step - 1;
    /* Number of parts of a key that one step loads. */
    const unsigned each = (x->parts + LOADS - 1) / LOADS;
    if (x->by_lane) {
        if (step == 0)
            r->places[g] = send_keys(x, r->walk, next, own[carried_page(x)], own);
        if (step == 0 && x->mxfp4)
            own[carried_scale(x)] = send_scales(x, r->walk, next, r->places[g]);
        return;
    }
    if (step == 0) {
        r->places[g] = own[carried_page(x)];
        r->keys = find_keys(x, key_of(x, r->walk, next), r->places[g]);
    }
    for (unsigned i = part * each; step > 0 && i < (part + 1) * each && i < x->parts; i++)
        own[i] = tir_tile_fetch(x->b, r->keys, x->key_offset, i * (unsigned)apart(x), x->chunk);
    if (step > 0 && part == x->parts && x->mxfp4)
        own[carried_scale(x)] = send_scales(x, r->walk, next, r->places[g]);
    if (step == LOADS + 1)
        own[carried_page(x)] = page_of(x, r->walk, g + 2 * x->ahead);
}

/* Returns the scores of two groups from their sums[], lanes x 1. The two halves of a key's sum come
 * from lanes whose indices differ by x->group. */
static struct tir_value add_halves(const struct att_index *x, const struct tir_value sums[2])
{
    struct tir_builder *b = x->b;
    const struct tir_value low = tir_transpose(b, tir_split_blocks(b, sums[0], x->group));
    const struct tir_value high = tir_transpose(b, tir_split_blocks(b, sums[1], x->group));
    const struct tir_value halves = tir_relayout(b, tir_stack(b, low, high), &x->halves);
    return tir_relayout(b, tir_row_sum(b, halves), tir_layout_of(b->f, x->lane));
}

/* Returns the scales (f32, lanes x 1) of the keys of groups g (index) and g + 1, which are a
 * set. */
static struct tir_value scale_of_set(const struct att_index *x, const struct round *r, unsigned g)
{
    struct tir_builder *b = x->b;
    const struct tir_value first = tir_cmp_lt(b, x->lane_index, constant(x, (int)x->group));
    return tir_select(b, first, carried_of(x, r, g)[carried_scale(x)],
                      carried_of(x, r, g + 1)[carried_scale(x)]);
}

/* Builds step `step`, below FINISH_STEPS, of finishing set `j` of row `row`: multiplies the sums of
 * two groups by the factors att_index_query.unscale and the keys' scales, and passes the scores to
 * att_index_user.take(). All rows use the same scales of keys. */
static void finish_step(const struct att_index *x, struct round *r, unsigned row, unsigned j,
                        int step)
{
    struct tir_builder *b = x->b;
    const unsigned g = 2 * j + (unsigned)(step == 3);
    const bool scales = x->scaled && row == 0;
    struct tir_value *const set = &r->set[row];
    if (step == 0)
        r->user->prepare(r->user->context, row, j);
    if (step == 1) {
        if (scales)
            r->scale = scale_of_set(x, r, g);
        *set = add_halves(x, &r->sums[row][g]);
    }
    if (scales && (step == 2 || step == 3))
        carried_of(x, r, g)[carried_scale(x)] = send_scales(x, r->walk, g + x->ahead, r->places[g]);
    if (step == 2 && x->pairs)
        *set = tir_mul(b, *set, att_like(b, x->query[row].unscale, *set));
    if (step == FINISH_STEPS - 1)
        r->user->take(r->user->context, row, j, x->scaled ? tir_mul(b, *set, r->scale) : *set);
}

/* A product of a round: of a group of keys and a block of heads. A row's scores are finished
 * between later products, after the row's own products have been added. */
struct product_at {
    unsigned g;       /* index of the group of keys */
    unsigned product; /* index among the group's products: row * blocks + block of heads */
};

/* Returns the number of products of a group: one for each row and block of heads. */
static unsigned products_of(const struct att_index *x) { return x->rows * x->blocks; }

/* True if the steps that finish scores of row `row` (index) are placed between matrix instructions
 * of product `t`. */
static bool finishes(const struct att_index *x, const struct product_at *t, unsigned row)
{
    const unsigned later = row * x->blocks + 1, last = products_of(x) - 1;
    return last > 0 && t->g && t->g % 2 == 0 && t->product == (later < last ? later : last);
}

/* Calls the consumer's prepare() for the rows whose scores are finished beside product `t`. Only
 * with att_index.pairs: prepare() has a branch, which ends the code that can be scheduled together,
 * so the branch precedes the product's few matrix instructions. */
static void prepare_rows(const struct att_index *x, struct round *r, const struct product_at *t)
{
    for (unsigned row = 0; x->pairs && row < x->rows; row++)
        if (finishes(x, t, row))
            finish_step(x, r, row, t->g / 2 - 1, 0);
}

/* Builds the other work after step `step` of product `t`: a step of adding pending products, of
 * finishing scores, and of loading keys. */
static void fill_step(const struct att_index *x, struct round *r, const struct product_at *t,
                      int step)
{
    /* spread: steps between two steps of loads. The queue holds few loads, and with one row and
     * pairs, products take little time. */
    const int spread = x->pairs && products_of(x) == 2 ? 2 : 1;
    const int at = (int)t->product * STEPS + step;
    if (step)
        add_step(x, &r->pending, step - 1);
    if (t->g && at % spread == 0 && at / spread < STEPS)
        send_step(x, r, t->g - 1, at / spread);
    for (unsigned row = 0; (step || !x->pairs) && row < x->rows; row++)
        if (finishes(x, t, row))
            finish_step(x, r, row, t->g / 2 - 1, step);
}

/* Builds the products of group `g` (index) with every block of heads of every row. Places steps
 * that add earlier products, and loads that replace the previous group's keys, between the matrix
 * instructions. */
static void multiply(const struct att_index *x, struct round *r, unsigned g)
{
    struct tir_builder *b = x->b;
    struct pending *const p = &r->pending;
    const struct tir_value *const keys = carried_of(x, r, g);
    /* number of matrix instructions, between which the steps are placed */
    const unsigned slices = x->slices;
    for (unsigned i = 0; i < products_of(x); i++) {
        const struct product_at at = {g, i};
        const unsigned row = i / x->blocks, block = i % x->blocks;
        const struct att_index_query *const own = &x->query[row];
        struct tir_value s = tir_splat(b, tir_f32(b, 0.0f), x->products);
        prepare_rows(x, r, &at);
        for (int step = 0; step < STEPS; step++) {
            const unsigned end = ((unsigned)step + 1) * slices;
            for (unsigned part = (unsigned)step * slices; part < end; part++)
                if (part % STEPS == 0)
                    s = multiply_slice(x, own, block, part / STEPS, keys, s);
            fill_step(x, r, &at, step);
        }
        add_step(x, p, STEPS - 1);
        if (p->is)
            tir_anchor(b, *p->sum);
        if (x->pairs)
            /* Without this anchor LLVM moves the products after the consumer's code. */
            tir_anchor(b, s);
        att_index_cut(x, tir_named(b, "s", s), p->products);
        att_index_cut(x, own->weights[block], p->weights);
        p->weight_pairs = own->weight_pairs[block];
        p->sum = &r->sums[row][g];
        p->is = true;
    }
}

/* Returns the wave's priority in quarter `fourth` (0 to 3) of a round. With one row, waves that are
 * late have the higher priority. With two rows, the workgroup that is ahead has the higher
 * priority, so that one workgroup selects while another one computes scores. */
static unsigned priority_of(const struct att_index *x, unsigned fourth)
{
    return x->rows > 1 ? fourth : LEVELS - 1 - fourth;
}

/* Builds all steps of finishing set `j` of every row. */
static void finish_rows(const struct att_index *x, struct round *r, unsigned j)
{
    for (unsigned row = 0; row < x->rows; row++)
        for (int step = 0; step < FINISH_STEPS; step++)
            finish_step(x, r, row, j, step);
}

void att_index_score(const struct att_index *x, const struct att_index_walk *w,
                     struct tir_value *carried, const struct att_index_user *user)
{
    struct round r = {.walk = w, .carried = carried, .user = user};
    const unsigned n = w->groups;
    assert(n <= ATT_INDEX_GROUPS_MAX && n % x->ahead == 0 && n % 2 == 0);
    for (unsigned g = 0; g < n; g++) {
        if (n >= LEVELS && g % (n / LEVELS) == 0)
            tir_set_priority(x->b, (int)priority_of(x, g / (n / LEVELS)));
        multiply(x, &r, g);
        if (products_of(x) == 1 && g && g % 2 == 0)
            finish_rows(x, &r, g / 2 - 1);
    }
    for (int step = 0; step < STEPS; step++) {
        add_step(x, &r.pending, step);
        send_step(x, &r, n - 1, step);
    }
    finish_rows(x, &r, n / 2 - 1);
}
