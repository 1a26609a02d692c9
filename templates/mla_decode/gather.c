/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, one wave per SIMD: rows whose addresses are computed one by one. Each wave copies a
 * part of a block's rows. A lane reads a list entry and computes its row's address. All lanes copy
 * a row of the latent, so its address is moved to a scalar. Pipeline row_pairs finds the rows of
 * pages in the same way, with page numbers as entries.
 *
 * A negative entry means no key. Slot 0 is copied instead, and the latent's row is cleared after
 * the copy: the weight is 0, but 0 times NaN is NaN. Most blocks have no such entry, so clearing is
 * in a cold branch, and so is the mask, which reads the entries again. Keys after an item's end are
 * cleared too.
 *
 * vmcnt counts in order, so a wait for entries that are issued after a block's copies would be a
 * wait for these copies too. So entries are copied to LDS in an earlier iteration, and stay there
 * until the block's scores are masked.
 */
#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/mla_decode/one_wave.h"
#include "templates/mla_decode/pipelines/pipelines.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    COPY_BYTES = 1024 /* bytes of a latent, which all lanes of a wave copy with one instruction */,
    ENTRY_BYTES = 2048 /* bytes of LDS in which a wave keeps the list entries of 8 blocks */
};

/* Returns the number of rows of a block that one wave copies. */
static unsigned own_rows(const struct mla *s) { return s->d.keys / s->d.waves; }

/* Returns the spread over lanes of cache rows in a tile of type `t`, for the addresses of these
 * rows. The element type of `t` is not used. */
static struct att_paged_tile rows_like(const struct mla *s, struct tir_type t)
{
    return (struct att_paged_tile){
        .cache = s->d.k.c, .tokens = t.rows, .cols = t.cols, .run = t.cols, .gathered = t};
}

/* Returns the type of the tile that one wave copies to LDS: `rows` rows with the columns of the LDS
 * layout `map`. */
static struct tir_type copied(struct mla *s, unsigned rows, const struct tir_layout *map)
{
    const struct tir_layout l = tir_map_lanes(map, s->d.m, s->d.waves, mla_kq_bytes(s));
    return tir_tile(s->d.b.f, s->number.kq, rows, (1u << map->reg_bits) / rows, &l);
}

/* Returns the spread of `rows` cache rows over lanes, one lane per row. */
static struct att_paged_tile one_lane_tile(struct mla *s, unsigned rows)
{
    const struct tir_layout l = tir_spread_column(s->d.m, s->d.waves, rows);
    return rows_like(s, tir_tile(s->d.b.f, TIR_I32, rows, 1, &l));
}

/* Returns the spread over lanes of the cache rows of a block that this wave copies, with a few
 * lanes per row: mla_row_copies.own_tile. The lanes of a row copy its rotated key or its cache
 * lines. */
static struct att_paged_tile few_lanes_tile(struct mla *s)
{
    const struct tir_layout map = mla_one_wave_map(s, own_rows(s), PANEL);
    return rows_like(s, copied(s, own_rows(s), &map));
}

/* Returns the spread over lanes of the cache rows of a block that this wave copies, one lane per
 * row: mla_row_copies.own_tile. */
static struct att_paged_tile own_rows_tile(struct mla *s) { return one_lane_tile(s, own_rows(s)); }

struct tir_type mla_gather_rows(struct mla *s)
{
    const struct tir_type t = s->form->copies->own_tile(s).gathered;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(s->d.b.f, t), 1);
    return tir_tile(s->d.b.f, TIR_I32, t.rows, 1, &l);
}

/* Returns the spread over lanes of all cache rows of a block, one lane per row. */
static struct att_paged_tile block_tile(struct mla *s) { return one_lane_tile(s, s->d.keys); }

struct tir_value mla_gather_pages(struct mla *s, struct tir_value block)
{
    const struct att_paged_tile keys = block_tile(s);
    return att_page_numbers(&s->d.b, &s->source.pages, &keys, mla_first_key(s, block));
}

/* Returns the LDS layout of the sparse-list entries (i32) of `rows` rows of a block. */
static struct tir_layout entry_map(unsigned rows) { return tir_row_major(rows, 1); }

/* Returns the LDS address (i32) of the wave's copy of the sparse-list entries of block `block`
 * (i32: index). At least 256 bytes (COPIED) are copied for a block. Blocks whose indices differ by
 * ENTRY_BYTES / COPIED share an address. */
static struct tir_value entry_place(struct mla *s, struct tir_value block)
{
    enum { COPIED = 256 };
    struct tir_builder *const b = &s->d.b;
    const struct tir_value which = tir_and(b, block, tir_i32(b, ENTRY_BYTES / COPIED - 1));
    const struct tir_value first = tir_add(b, s->lds.entries, att_times(b, s->d.wave, ENTRY_BYTES));
    return tir_add(b, first, att_times(b, which, COPIED));
}

void mla_gather_take_lds(struct mla *s)
{
    enum { UNREAD = 1024 /* bytes of a latent of 16-bit elements, or of two vectors of f32 */ };
    struct split_kv *const d = &s->d;
    s->lds.entries = tir_lds_buffer(&d->b, d->waves * ENTRY_BYTES, 16);
    s->lds.unread = tir_lds_buffer(&d->b, UNREAD, 16);
}

/* Issues the copy to LDS of the sparse-list entries of all keys of block `block` (i32: index). Each
 * wave copies all of them to a place of its own. */
static void copy_entries(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = entry_map(s->d.keys);
    const struct tir_layout l = tir_map_lanes(&map, s->d.m, s->d.waves, sizeof(int32_t));
    const struct tir_type t = tir_tile(b->f, TIR_I32, s->d.keys, 1, &l);
    const struct att_paged_tile rows = rows_like(s, t);
    tir_gather_to_lds(b, ENTRIES, s->source.pages.table,
                      att_entry_offsets(b, &s->source.pages, &rows, mla_first_key(s, block)),
                      tir_i32(b, 0), entry_place(s, block), 0, t, &map);
}

/* Returns the slots (i32, rows x 1) of the rows of t, from their list entries in LDS. The first of
 * these rows is row `first` (i32) of block `block`. */
static struct tir_value read_slots(struct mla *s, const struct att_paged_tile *t,
                                   struct tir_value block, struct tir_value first)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t->gathered), 1);
    const struct tir_layout map = entry_map(t->gathered.rows);
    const struct tir_value at = tir_add(b, entry_place(s, block), tir_shl(b, first, tir_i32(b, 2)));
    const struct tir_value entries =
        tir_tile_lds_load(b, at, tir_tile(b->f, TIR_I32, t->gathered.rows, 1, &l), &map);
    return att_entry_slots(b, &s->source.pages, t, tir_add(b, mla_first_key(s, block), first),
                           entries);
}

/* Returns the index (i32) in a block of the first row that the wave copies. */
static struct tir_value own_first(struct mla *s)
{
    return att_times(&s->d.b, s->d.wave, (int)own_rows(s));
}

/* Returns the slots of read_slots(), with -1 for keys after the item's last one. A slot below 0
 * means no key; a sparse list may itself contain negative entries. */
static struct tir_value read_keys(struct mla *s, const struct att_paged_tile *t,
                                  struct tir_value block, struct tir_value first)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value slots = read_slots(s, t, block, first);
    if (s->d.v->sparse != ATT_SPARSE_NONE)
        return slots;
    const struct tir_type type = tir_typeof(b->f, slots);
    const struct tir_value left =
        tir_sub(b, s->d.item.end_key, tir_add(b, mla_first_key(s, block), first));
    return tir_select(b, tir_cmp_lt(b, tir_row_index(b, type), tir_splat(b, left, type)), slots,
                      tir_int_like(b, slots, -1));
}

/* Returns the number of lanes per row in few_lanes_tile(): mla_row_copies.lanes. */
static unsigned few_lanes(const struct mla *s) { return (1u << s->d.m->lane_bits) / own_rows(s); }

/* Returns 1, since each row has one lane in own_rows_tile(): mla_row_copies.lanes. */
static unsigned one_lane(const struct mla *s)
{
    (void)s;
    return 1;
}

/* Returns the index (i32) of the first lane that has the address of the wave's row `row` (index in
 * the wave's rows). */
static struct tir_value lane_of(struct mla *s, unsigned row)
{
    return tir_i32(&s->d.b, (int)(row * s->form->copies->lanes(s)));
}

/* Returns the address (i64) of the wave's row i as a scalar. `rows`: the addresses of all of the
 * wave's rows, in lanes. */
static struct tir_value row_of(struct mla *s, struct tir_value rows, unsigned i)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value low = tir_convert(b, rows, TIR_I32);
    const struct tir_value high =
        tir_convert(b, tir_shr(b, rows, tir_int_like(b, rows, 32)), TIR_I32);
    const struct tir_value l = tir_zext(b, tir_lane_read(b, low, lane_of(s, i)), TIR_I64);
    const struct tir_value h = tir_zext(b, tir_lane_read(b, high, lane_of(s, i)), TIR_I64);
    return tir_or(b, tir_shl(b, h, tir_i64(b, 32)), l);
}

/* Returns the LDS address (i32) of the first row of part p that the wave copies in block `block`
 * (i32). */
static struct tir_value own_place(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned of_wave = mla_one_wave_before(s, p, own_rows(s));
    const struct tir_value place = s->form->copies->place(s, p, block);
    return tir_add(b, place, att_times(b, s->d.wave, (int)of_wave));
}

/* Returns the LDS address (i32) of the block whose copy is in flight, as find_columns() has
 * computed it: mla_row_copies.place. */
static struct tir_value flight_place(struct mla *s, const struct part *p, struct tir_value block)
{
    (void)p;
    (void)block;
    return s->now.flight.place;
}

/* Returns the addresses of the wave's rows in lanes and as scalars. `rows`: the addresses (i64) in
 * lanes. */
static struct mla_found find_rows(struct mla *s, struct tir_value rows)
{
    struct mla_found f = {.rows = rows};
    assert(s->source.part->width * mla_kq_bytes(s) == COPY_BYTES && own_rows(s) <= MLA_MOST_ROWS);
    for (unsigned i = 0; i < own_rows(s); i++)
        f.row[i] = row_of(s, rows, i);
    return f;
}

/* Issues the copies to LDS of part p of the wave's rows of block `block` (i32). `rows`: addresses
 * (i64) of the rows, in the copy's lanes. `group`: the copies' queue. */
static void copy_part(struct mla *s, int group, const struct part *p, struct tir_value block,
                      struct tir_value rows)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = mla_one_wave_map(s, own_rows(s), p->width);
    tir_gather_to_lds(b, group, tir_i64(b, 0), rows, tir_i32(b, (int)(p->first * mla_kq_bytes(s))),
                      own_place(s, p, block), 0, copied(s, own_rows(s), &map), &map);
}

/* Issues the copies to LDS of half `half` (0 or 1) of the cache lines of the wave's rows:
 * mla_row_pairs_copy(). */
static void copy_lines(struct mla *s, int group, struct tir_value block,
                       const struct mla_row_pairs *lines, unsigned half)
{
    mla_row_pairs_copy(s, group, own_place(s, s->source.part, block), own_rows(s), lines, half);
}

/* Issues the copies to LDS of some columns of the wave's latents, from column `first` on. `row`:
 * addresses (i64) of the rows. `map`: LDS layout of these columns of one row. `group`: the copies'
 * queue. */
static void copy_columns(struct mla *s, int group, struct tir_value block,
                         const struct tir_value *row, unsigned first, const struct tir_layout *map)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned bytes = first * mla_kq_bytes(s);
    const struct tir_type t = copied(s, 1, map);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_value at = tir_splat(b, tir_i32(b, 0), tir_tile(b->f, TIR_I32, 1, 1, &l));
    const struct tir_value place = own_place(s, s->source.part, block);
    for (unsigned i = 0; i < own_rows(s); i++)
        tir_gather_to_lds(b, group, row[i], at, tir_i32(b, (int)bytes), place,
                          mla_one_wave_before(s, s->source.part, i) + bytes, t, map);
}

/* Issues the copies to LDS of the wave's rows of block `block` (i32), the latent and the rotated
 * key. `f`: addresses of these rows. `group`: the copies' queue. */
static void copy_rows(struct mla *s, int group, struct tir_value block, const struct mla_found *f)
{
    const struct tir_layout map = mla_one_wave_map(s, 1, s->source.part->width);
    copy_columns(s, group, block, f->row, 0, &map);
    if (mla_count_parts(s) > 1)
        copy_part(s, group, s->source.part + 1, block, f->rows);
}

void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows)
{
    const struct mla_found f = find_rows(s, rows);
    copy_rows(s, group, block, &f);
}

void mla_gather_lines(struct mla *s, int group, struct tir_value block,
                      const struct mla_row_pairs *lines)
{
    for (unsigned half = 0; half < 2; half++)
        copy_lines(s, group, block, lines, half);
}

/* Returns the number of columns of the latent: mla_row_copies.piece for rows whose latent is one
 * piece. Sets *before to the bytes in LDS from the wave's first row to row `row`. */
static unsigned whole_row(const struct mla *s, unsigned row, unsigned n, unsigned *before)
{
    (void)n;
    *before = mla_one_wave_before(s, s->source.part, row);
    return s->source.part->width;
}

/* Returns the number of columns in piece n of row `row`; 0: no such piece: mla_row_copies.piece.
 * Sets *before to the bytes in LDS from the wave's first row to the piece. */
static unsigned line_piece(const struct mla *s, unsigned row, unsigned n, unsigned *before)
{
    unsigned width;
    *before = mla_row_pairs_piece(s, row, n, &width);
    return width;
}

/* Returns the LDS layout of `width` columns of one row, as mla_one_wave_map() has it:
 * mla_row_copies.row_map. */
static struct tir_layout one_row_map(const struct mla *s, unsigned width)
{
    return mla_one_wave_map(s, 1, width);
}

/* Returns the LDS layout of `width` columns of one row, contiguous in LDS:
 * mla_row_copies.row_map. */
static struct tir_layout plain_row_map(const struct mla *s, unsigned width)
{
    (void)s;
    return tir_row_major(1, width);
}

/* Stores zeros to piece n of the latent (mla_row_copies.piece), in LDS, in the wave's rows of block
 * `block` that have no key. For rows with a key, the stores write to a place that nobody reads. */
static void clear_rows(struct mla *s, struct tir_value block, unsigned n)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = s->source.part;
    const struct mla_row_copies *const copies = s->form->copies;
    const struct att_paged_tile own = copies->own_tile(s);
    const struct tir_value entries = read_keys(s, &own, block, own_first(s));
    for (unsigned i = 0; i < own_rows(s); i++) {
        unsigned before;
        const unsigned width = copies->piece(s, i, n, &before);
        if (!width)
            continue;
        const struct tir_layout map = copies->row_map(s, width);
        const struct tir_type t = copied(s, 1, &map);
        const struct tir_type wide = tir_tile(b->f, TIR_F32, 1, t.cols, tir_layout_of(b->f, t));
        const struct tir_value zero =
            tir_convert(b, tir_splat(b, tir_f32(b, 0.0f), wide), s->number.kq);
        const struct tir_value entry = tir_lane_read(b, entries, lane_of(s, i));
        const struct tir_value row = att_plus(b, own_place(s, p, block), (int)before);
        const struct tir_value at =
            tir_select(b, tir_cmp_lt(b, entry, tir_i32(b, 0)), row, s->lds.unread);
        tir_tile_lds_store(b, at, zero, &map);
    }
}

/* Waits until the wave's copies of blocks to LDS have arrived. */
static void await_copies(struct mla *s)
{
    tir_wait(&s->d.b, GROUP, 0);
    if (s->form->copies->in_halves)
        tir_wait(&s->d.b, LATER, 0);
}

/* Stores zeros to the latents, in LDS, of the wave's rows of block `block` without a key. The
 * branch is taken if the block has such rows. `gaps` (i32): number of these rows in the block. */
static void clear_gaps(struct mla *s, struct tir_value block, struct tir_value gaps)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_if some = tir_begin_if(b, tir_cmp_ne(b, gaps, tir_i32(b, 0)), true, NULL, 0);
    await_copies(s);
    for (unsigned i = 0; i < s->form->copies->pieces; i++)
        clear_rows(s, block, i);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_end_if(b, &some, NULL);
}

/* Returns the number (i32) of rows without a key in block `block` (i32): entries below 0, or
 * without a list, keys after the item's end. `slots`: slots of the block's rows. */
static struct tir_value count_gaps(struct mla *s, struct tir_value block,
                                   const struct mla_slots *slots)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value all = slots->all, none = tir_i32(b, 0);
    if (s->d.v->sparse != ATT_SPARSE_NONE)
        return tir_lane_count(b, tir_cmp_lt(b, all, tir_int_like(b, all, 0)));
    const struct tir_value end = att_plus(b, mla_first_key(s, block), (int)s->d.keys);
    return tir_max(b, tir_sub(b, end, s->d.item.end_key), none);
}

/* Returns the addresses (i64) in memory of the wave's rows of block `block`. `slots`: slots (i32)
 * of these rows. */
static struct tir_value own_addresses(struct mla *s, struct tir_value block, struct tir_value slots)
{
    struct tir_builder *const b = &s->d.b;
    const struct att_paged_tile own = s->form->copies->own_tile(s);
    const struct tir_value key = tir_add(b, mla_first_key(s, block), own_first(s));
    const struct tir_value offsets = att_paged_rows(b, &s->source.pages, &own, key, slots);
    return tir_add(b, offsets, att_like(b, s->d.k.c.base, offsets));
}

/* Returns the slots of all rows of block `block` and of the wave's own rows, from the list entries
 * in LDS. */
static struct mla_slots read_block(struct mla *s, struct tir_value block)
{
    const struct att_paged_tile own = s->form->copies->own_tile(s), all = block_tile(s);
    struct mla_slots slots;
    slots.all = read_slots(s, &all, block, tir_i32(&s->d.b, 0));
    slots.own = read_slots(s, &own, block, own_first(s));
    return slots;
}

void mla_gather_begin(struct mla *s) { copy_entries(s, tir_i32(&s->d.b, 0)); }

struct tir_value mla_gather_entries(void *family, const struct att_block *block)
{
    struct mla *const s = family;
    const struct att_paged_tile keys = rows_like(s, s->d.scores);
    const struct tir_value first =
        tir_sub(&s->d.b, mla_one_wave_first_key(s, block->index), mla_first_key(s, block->index));
    return read_slots(s, &keys, block->index, first);
}

/* ---- The ways of copying a wave's rows: struct mla_row_copies ---- */

/* Sets s->now.found, the rows' addresses for copies of whole rows: mla_row_copies.find. `rows`:
 * addresses (i64) of the wave's rows, in lanes. */
static void find_whole_rows(struct mla *s, struct tir_value block, struct tir_value rows)
{
    (void)block;
    s->now.found = find_rows(s, rows);
}

/* Sets s->now.found, the rows' addresses, and the block's LDS address for copies of halves of the
 * columns: mla_row_copies.find. `rows`: addresses (i64) of the wave's rows, in lanes. */
static void find_columns(struct mla *s, struct tir_value block, struct tir_value rows)
{
    s->now.flight = (struct mla_flight){.place = mla_buffer_of(s, s->source.part, block)};
    s->now.found = find_rows(s, rows);
}

/* Sets s->now.lines, the addresses of cache lines for copies of row pairs: mla_row_copies.find.
 * `rows`: addresses (i64) of the wave's rows, in lanes. */
static void find_lines(struct mla *s, struct tir_value block, struct tir_value rows)
{
    (void)block;
    s->now.lines = mla_row_pairs_find(s, rows);
}

const struct mla_row_copies mla_whole_rows = {
    .own_tile = few_lanes_tile,
    .lanes = few_lanes,
    .place = mla_one_wave_place,
    .find = find_whole_rows,
    .row_map = one_row_map,
    .piece = whole_row,
    .pieces = 1,
};

const struct mla_row_copies mla_columns_of_rows = {
    .own_tile = own_rows_tile,
    .lanes = one_lane,
    .place = flight_place,
    .find = find_columns,
    .row_map = plain_row_map,
    .piece = whole_row,
    .pieces = 1,
    .in_halves = true,
};

const struct mla_row_copies mla_lines_of_row_pairs = {
    .own_tile = few_lanes_tile,
    .lanes = few_lanes,
    .place = mla_one_wave_place,
    .find = find_lines,
    .row_map = plain_row_map,
    .piece = line_piece,
    .pieces = MLA_ROW_PAIR_PIECES,
    .in_halves = true,
};

/* ---- Steps of pipelines over sparse lists ---- */

/* Issues the copy to LDS of the sparse list's entries for the current block. */
static void build_copy_entries(void *context)
{
    struct mla *const s = mla_of(context);
    copy_entries(s, mla_block_of(s));
}

/* Reads the slots of the current block's rows from LDS. */
static void build_read_entries(void *context)
{
    struct mla *const s = mla_of(context);
    s->now.slots = read_block(s, mla_block_of(s));
}

/* Records `gaps` (i32), the current block's number of rows without a key, for clear_gaps() and,
 * with sparse lists, for the mask. */
static void note_gaps(struct mla *s, struct tir_value gaps)
{
    s->now.gaps = gaps;
    if (s->d.v->sparse !=
        ATT_SPARSE_NONE) /* without a list, the mask compares keys with the item's end */
        s->d.attention.now.block.gaps = gaps;
}

/* Counts the current block's rows without a key, and computes the addresses of the rows that the
 * wave copies. */
static void build_find(void *context)
{
    struct mla *const s = mla_of(context);
    const struct tir_value block = mla_block_of(s);
    note_gaps(s, count_gaps(s, block, &s->now.slots));
    s->form->copies->find(s, block, own_addresses(s, block, s->now.slots.own));
}

/* Issues the copies to LDS of the wave's rows of the current block, latents and rotated keys. */
static void build_copy(void *context)
{
    struct mla *const s = mla_of(context);
    copy_rows(s, GROUP, mla_block_of(s), &s->now.found);
}

/* Waits for the copies of the block, and stores zeros to the latents, in LDS, of the wave's rows
 * without a key. Does nothing if every row has a key. */
static void build_clear(void *context)
{
    struct mla *const s = mla_of(context);
    clear_gaps(s, mla_block_of(s), s->now.gaps);
}

/* Issues the copies to LDS of half `part` (0 or 1) of the columns of the wave's latents. */
static void build_copy_columns(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    const unsigned width = s->source.part->width / 2;
    const struct tir_layout map = tir_row_major(1, width);
    copy_columns(s, part ? LATER : GROUP, mla_block_of(s), s->now.found.row, part * width, &map);
}

/* ---- Steps of pipeline row_pairs ---- */

/* Issues the copy to LDS of the entries of the block after the current one. */
static void build_copy_next_entries(void *context)
{
    struct mla *const s = mla_of(context);
    copy_entries(s, att_plus(&s->d.b, mla_block_of(s), 1));
}

/* Issues the copies to LDS of half `part` (0 or 1) of the cache lines of the wave's rows. */
static void build_copy_lines(void *context, unsigned part)
{
    struct mla *const s = mla_of(context);
    copy_lines(s, part ? LATER : GROUP, mla_block_of(s), &s->now.lines, part);
}

#define ENTRIES_LDS (1u << MLA_LDS_ENTRIES)

const struct pipe_op mla_list_copy_entries = {"entries to LDS", build_copy_entries,
                                              .lds_writes = ENTRIES_LDS, .flags = PIPE_ASYNC};
const struct pipe_op mla_list_read_entries = {"read entries", .build = build_read_entries,
                                              .writes = ATT_SLOT(K_PAGES),
                                              .lds_reads = ENTRIES_LDS};
const struct pipe_op mla_list_find = {"find rows", build_find, ATT_SLOT(K_PAGES), ATT_SLOT(K_DATA),
                                      .flags = 0};
const struct pipe_op mla_list_copy = {"block to LDS", .build = build_copy,
                                      .reads = ATT_SLOT(K_DATA), .lds_writes = 1u << MLA_LDS_BLOCK,
                                      .flags = PIPE_ASYNC};
const struct pipe_op mla_list_copy_first = {"columns to LDS", .build_part = build_copy_columns,
                                            .reads = ATT_SLOT(K_DATA),
                                            .lds_writes = 1u << MLA_LDS_FIRST, .flags = PIPE_ASYNC};
const struct pipe_op mla_list_copy_last = {"columns to LDS", .build_part = build_copy_columns,
                                           .reads = ATT_SLOT(K_DATA),
                                           .lds_writes = 1u << MLA_LDS_LAST, .flags = PIPE_ASYNC};
const struct pipe_op mla_lines_copy_entries = {"entries to LDS", build_copy_next_entries,
                                               .lds_writes = ENTRIES_LDS, .flags = PIPE_ASYNC};
const struct pipe_op mla_lines_copy_first = {
    "lines to LDS", .build_part = build_copy_lines, .reads = ATT_SLOT(K_DATA),
    .lds_writes = 1u << MLA_LDS_FIRST, .flags = PIPE_ASYNC};
const struct pipe_op mla_lines_copy_last = {"lines to LDS", .build_part = build_copy_lines,
                                            .reads = ATT_SLOT(K_DATA),
                                            .lds_writes = 1u << MLA_LDS_LAST, .flags = PIPE_ASYNC};
const struct pipe_op mla_list_clear = {"clear gaps", build_clear, .lds_reads = ENTRIES_LDS,
                                       .flags = PIPE_BRANCH};
