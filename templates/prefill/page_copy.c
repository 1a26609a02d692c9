/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of tiles of K and V from pages to LDS without registers, 16 bytes per lane. A wave copies
 * neighbouring rows of one page: the page number is a scalar, and lanes have the same offsets as
 * for a tensor. So the loop needs the same registers and tiles as a loop over tensors.
 *
 * A page may hold a NaN in rows without a key, and 0 times NaN is NaN. So rows of other keys are
 * copied instead: the last key's row for rows after it, and the first visible key's row for rows
 * before it. Their weights are 0, and no row of LDS has to be cleared.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

enum { COPY_BYTES = 16 };

bool prefill_copies_pages(const struct prefill *p)
{
    const struct att_variant *const v = p->v;
    const unsigned rows = prefill_copied_rows(p);
    unsigned narrowest = (unsigned)v->head_dim_v;
    if (!v->paged || att_is_shuffled(v) || att_scales_rows(v))
        return false;
    for (unsigned i = 0; i < p->k.n_panels; i++)
        narrowest = p->k.panels[i].width < narrowest ? p->k.panels[i].width : narrowest;
    const bool converts = att_cache_dtype(v) != p->shape.dtype;
    const bool fits = rows && v->page_size && v->page_size % (int)rows == 0;
    return fits && !converts && !prefill_transposes_v(p) && p->tile->copy_bytes >= COPY_BYTES &&
           p->tile->own[PREFILL_WORKGROUPS] != 1 && prefill_dv(p) == (unsigned)v->head_dim_v &&
           rows * narrowest * prefill_bytes(p) >= COPY_BYTES * tir_lanes(p->m);
}

/* Returns the index (i32) of the key of the first row that the wave copies of tile `tile` (i32:
 * index). If that row is in no page with visible keys, returns the nearest row that is. */
static struct tir_value first_row(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const int rows = (int)prefill_copied_rows(p);
    const struct tir_value before = att_times(b, prefill_copying_wave(p), rows),
                           whole = tir_i32(b, -rows);
    const struct tir_value key = tir_add(
        b,
        tir_add(b, p->work.first_key, att_times(b, tile, (int)(p->tile->keys * prefill_groups(p)))),
        before);
    const struct tir_value row = tir_min(b, key, tir_and(b, p->source.pages.last_key, whole));
    if (!att_hides_early(p->v))
        return row;
    const struct tir_value seen = tir_min(b, p->source.first_seen, p->source.pages.last_key);
    return tir_max(b, row, tir_and(b, tir_max(b, seen, tir_i32(b, 0)), whole));
}

struct tir_value prefill_find_entry(struct prefill *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const struct tir_value entry = att_page_of(&p->source.pages.entries, first_row(p, tile));
    return tir_shl(b, entry, tir_i32(b, 2));
}

struct tir_value prefill_load_page(struct prefill *p, struct tir_value entry)
{
    return tir_scalar_load_here(&p->b, p->source.pages.table, entry, TIR_I32);
}

struct tir_value prefill_request_pages(struct prefill *p)
{
    enum { ENTRY = 4, LINE_ENTRIES = 128 / ENTRY };
    struct tir_builder *b = &p->b;
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    tir_spread_rows(&s, TIR_LANES, p->m->lane_bits);
    tir_spread_rows(&s, TIR_WAVES, tir_bits(p->tile->waves));
    const struct tir_layout l = tir_spread_layout(&s);
    const struct tir_type t = tir_tile(b->f, TIR_I32, p->tile->waves << p->m->lane_bits, 1, &l);
    const struct att_paging *const entries = &p->source.pages.entries;
    const struct tir_value end = tir_max(b, att_plus(b, p->attention.at.end, -1), tir_i32(b, 0));
    const struct tir_value first = att_page_of(entries, tir_min(b, p->work.first_key, end));
    const struct tir_value line =
        tir_mul(b, tir_row_index(b, t), tir_splat(b, tir_i32(b, LINE_ENTRIES), t));
    const struct tir_value entry = tir_min(b, tir_add(b, line, tir_splat(b, first, t)),
                                           tir_splat(b, att_page_of(entries, end), t));
    const struct tir_value bytes =
        tir_mul(b, tir_convert(b, entry, TIR_I64),
                tir_splat(b, tir_i64(b, ENTRY), tir_with_dtype(t, TIR_I64)));
    return tir_tile_gather_constant(b, p->source.pages.table, bytes, t);
}

/* Returns the byte offsets (i32) of the rows with indices `index` (i32), from the row of key
 * `first` (i32) in its page. Rows without a visible key get the offset of the nearest row with one.
 * `stride` (i32): bytes of a row. No copy multiplies per lane: the bounds are multiplied as
 * scalars, and the products of `index` are the same in all iterations. */
static struct tir_value row_bytes(struct prefill *p, struct tir_value index, struct tir_value first,
                                  struct tir_value stride)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value most = tir_i32(b, (int)prefill_copied_rows(p) - 1);
    const struct tir_value last = tir_min(b, tir_sub(b, p->source.pages.last_key, first), most);
    const struct tir_value own = tir_mul(b, index, tir_splat(b, stride, t));
    const struct tir_value at = tir_min(b, own, tir_splat(b, tir_mul(b, last, stride), t));
    if (!att_hides_early(p->v))
        return at;
    const struct tir_value seen = tir_min(b, p->source.first_seen, p->source.pages.last_key);
    const struct tir_value before = tir_max(b, tir_sub(b, seen, first), tir_i32(b, 0));
    return tir_max(b, at, tir_splat(b, tir_mul(b, before, stride), t));
}

/* Returns the index (i64) of the row of key `first` (i32) in its page. The index is 0 if a page has
 * as many rows as a wave copies, since `first` is a multiple of that number. */
static struct tir_value place_in_page(struct prefill *p, struct tir_value first)
{
    struct tir_builder *b = &p->b;
    if (p->v->page_size == (int)prefill_copied_rows(p))
        return tir_i64(b, 0);
    return att_wide(b, att_page_place(&p->source.pages.paging, first));
}

/* Issues the copy c, of the wave's rows of a tile, to LDS by the tensor data mover. The first row
 * is key `first` (i32), at address `base` (i64). */
static void move_page(struct prefill *p, const struct prefill_page_copy *c, struct tir_value base,
                      struct tir_value first)
{
    struct tir_builder *b = &p->b;
    const unsigned of_wave =
        tir_lds_address(c->lds, prefill_copied_rows(p) * c->width, prefill_bytes(p));
    const struct tir_value to =
        tir_add(b, c->to, att_times(b, prefill_copying_wave(p), (int)of_wave));
    const unsigned bytes = prefill_bytes(p);
    const struct tir_value from = prefill_copied_from(p, c->first * bytes, c->width * bytes);
    const struct tir_rows r = {.base = tir_add(b, base, from),
                               .stride = c->cache->token_stride,
                               .there = att_plus(b, tir_sub(b, p->source.pages.last_key, first), 1),
                               .rows = prefill_copied_rows(p),
                               .bytes = c->width * prefill_bytes(p)};
    tir_tensor_to_lds(b, c->queue, &r, to, r.bytes, c->lds->pad * prefill_bytes(p));
}

void prefill_copy_page(struct prefill *p, const struct prefill_page_copy *c, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout map =
        att_lds_rows(p->m, prefill_copied_rows(p), c->width, prefill_bytes(p));
    const struct tir_layout l = tir_map_lanes(&map, p->m, p->tile->waves, prefill_bytes(p));
    const struct tir_type t = tir_tile(b->f, p->shape.dtype, prefill_copied_rows(p), c->width, &l);
    const struct tir_layout slice = tir_layout_slice(&l, 1);
    const struct tir_value index = tir_row_index(b, tir_tile(b->f, TIR_I32, t.rows, 1, &slice));

    const struct tir_value first = first_row(p, tile);
    const struct tir_value token = place_in_page(p, first);
    const struct tir_value page = tir_zext(b, tir_and(b, c->page, p->source.pages.used), TIR_I64);
    const struct tir_value base = tir_add(b, c->cache->base, att_cache_row(c->cache, page, token));
    if (prefill_moves_tensors(p)) {
        move_page(p, c, base, first);
        return;
    }
    const struct tir_value stride = tir_convert(b, c->cache->token_stride, TIR_I32);
    const struct tir_value at = row_bytes(p, index, first, stride);

    const unsigned of_wave =
        tir_lds_address(c->lds, prefill_copied_rows(p) * c->width, prefill_bytes(p));
    const struct tir_value to = tir_add(b, c->to, att_times(b, tir_wave_id(b), (int)of_wave));
    tir_gather_to_lds(b, c->queue, base, at, tir_i32(b, (int)(c->first * prefill_bytes(p))), to, 0,
                      t, &map);
}
