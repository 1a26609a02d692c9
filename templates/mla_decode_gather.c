/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode: lists of slots for waves that are alone. Each wave copies a part of a block's rows
 * from wherever they lie. A lane looks up an entry and finds its row; rows of the latent, which
 * many lanes copy, have their address moved to a scalar.
 *
 * An entry below 0 stands for no key. Slot 0 is copied in its place, and behind the copy the row of
 * the latent is cleared, since a weight of 0 times a NaN is one. Most blocks have none, and that is
 * a branch; so is the mask, which looks entries up again.
 *
 * A wave copies a block's entries to LDS too, a round ahead and in front of the copies of the block
 * before: vmcnt counts in order, and behind these they would be waited for with them. They stay
 * there until the block's scores are masked.
 *
 *   PAGES   copy the entries to LDS  M1
 *   FIND    they have arrived  M1    read them  C1    find rows  C2
 *   COPY    copy them  BEGIN
 *   SCORES  clear rows that stand for no key; all have arrived  M1
 */
#include "ir/address_map.h"
#include "ir/spread.h"
#include "templates/mla_decode_alone.h"
#include "templates/scalar.h"

enum {
    COPY_BYTES = 1024 /* that a wave copies at once */,
    MOST_ROWS = 16 /* that a wave copies of a unit */,
    MOST_UNITS = 2 /* blocks of a round */,
    ENTRY_BYTES = 2048 /* of LDS for a wave's entries of as many rounds as fit */
};

/* Rows of a block that a wave copies. */
static unsigned own_rows(const struct mla *s) { return s->d.keys / s->d.waves; }

/* Rows of `t`, whatever their elements are. */
static struct att_paged_tile rows_like(const struct mla *s, struct tir_type t)
{
    return (struct att_paged_tile){
        .cache = s->d.k.c, .tokens = t.rows, .cols = t.cols, .run = t.cols, .gathered = t};
}

/* A tile that a wave copies by itself: rows x width. */
static struct tir_type copied(struct mla *s, unsigned rows, const struct tir_layout *map)
{
    const struct tir_layout l = tir_map_lanes(map, s->d.m, s->d.waves, s->kq_bytes);
    return tir_tile(s->d.b.f, s->kq_dtype, rows, (1u << map->reg_bits) / rows, &l);
}

/* A wave's own rows as the copy of a part of `width` columns has them. */
static struct att_paged_tile copied_tile(struct mla *s, unsigned width)
{
    const struct tir_layout map = mla_alone_map(s, own_rows(s), width);
    return rows_like(s, copied(s, own_rows(s), &map));
}

/* The same with a lane or some for each of them. */
static struct att_paged_tile own_tile(struct mla *s) { return copied_tile(s, PANEL); }

struct tir_type mla_gather_rows(struct mla *s)
{
    const struct tir_type t = own_tile(s).gathered;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(s->d.b.f, t), 1);
    return tir_tile(s->d.b.f, TIR_I32, t.rows, 1, &l);
}

/* All rows of a block, a lane for each. */
static struct att_paged_tile block_tile(struct mla *s)
{
    const struct tir_layout l = tir_spread_column(s->d.m, s->d.waves, s->d.keys);
    return rows_like(s, tir_tile(s->d.b.f, TIR_I32, s->d.keys, 1, &l));
}

/* Entries of a block's first rows as they stand in LDS. */
static struct tir_layout entry_map(unsigned rows) { return tir_row_major(rows, 1); }

static unsigned units(const struct mla *s) { return 1u << s->serial; }

/* Returns where the wave has those of a round: 256 bytes at least are copied of them. Others may
 * come to that place when there have been more rounds than stages. */
static struct tir_value entry_place(struct mla *s, struct tir_value round)
{
    enum { COPIED = 256 };
    struct tir_builder *const b = &s->d.b;
    const int bytes = COPIED << s->serial;
    const struct tir_value which = tir_and(b, round, tir_i32(b, ENTRY_BYTES / bytes - 1));
    const struct tir_value first = tir_add(b, s->entries, att_times(b, s->d.wave, ENTRY_BYTES));
    return tir_add(b, first, att_times(b, which, bytes));
}

void mla_gather_take_lds(struct mla *s)
{
    enum { UNREAD = 1024 /* a row of 16 bits, or two vectors of f32 */ };
    struct decode *const d = &s->d;
    s->entries = tir_lds_buffer(&d->b, d->waves * ENTRY_BYTES, 16);
    s->unread = tir_lds_buffer(&d->b, UNREAD, 16);
}

static void copy_entries(struct mla *s, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = entry_map(mla_round_keys(s));
    const struct tir_layout l = tir_map_lanes(&map, s->d.m, s->d.waves, sizeof(int32_t));
    const struct tir_type t = tir_tile(b->f, TIR_I32, mla_round_keys(s), 1, &l);
    const struct att_paged_tile rows = rows_like(s, t);
    tir_gather_to_lds(b, ENTRIES, s->pages.table,
                      att_entry_offsets(b, &s->pages, &rows, mla_first_key(s, block)),
                      tir_i32(b, 0), entry_place(s, block), 0, t, &map);
}

/* Slots of the rows of t, the first of which is the block's row `first`. */
static struct tir_value read_slots(struct mla *s, const struct att_paged_tile *t,
                                   struct tir_value block, struct tir_value first)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t->gathered), 1);
    const struct tir_layout map = entry_map(t->gathered.rows);
    const struct tir_value at = tir_add(b, entry_place(s, block), tir_shl(b, first, tir_i32(b, 2)));
    const struct tir_value entries =
        tir_tile_lds_load(b, at, tir_tile(b->f, TIR_I32, t->gathered.rows, 1, &l), &map);
    return att_entry_slots(b, &s->pages, t, tir_add(b, mla_first_key(s, block), first), entries);
}

/* The wave's first row of a unit, as one of the round. */
static struct tir_value own_first(struct mla *s, unsigned unit)
{
    struct tir_builder *const b = &s->d.b;
    return att_plus(b, att_times(b, s->d.wave, (int)own_rows(s)), (int)(unit * s->d.keys));
}

/* The number of a unit among all blocks. */
static struct tir_value unit_of(struct mla *s, struct tir_value round, unsigned unit)
{
    struct tir_builder *const b = &s->d.b;
    return att_plus(b, att_times(b, round, (int)units(s)), (int)unit);
}

/* The lane that has the wave's row i. */
static struct tir_value lane_of(struct mla *s, unsigned row)
{
    return tir_i32(&s->d.b, (int)(row * ((1u << s->d.m->lane_bits) / own_rows(s))));
}

/* Row i of those that rows, i64, are: a scalar. */
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

/* Returns the LDS address of the first of the rows that the wave has of a part. */
static struct tir_value own_place(struct mla *s, const struct part *p, struct tir_value block)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned of_wave = tir_lds_address(&p->lds, own_rows(s) * p->width, s->kq_bytes);
    return tir_add(b, mla_alone_place(s, p, block), att_times(b, s->d.wave, (int)of_wave));
}

static unsigned before_row(const struct mla *s, const struct part *p, unsigned i)
{
    return tir_lds_address(&p->lds, i * p->width, s->kq_bytes);
}

/* Does a row of the latent take all lanes, so that its address may be a scalar? Of fp8 two do. */
static bool row_takes_all(const struct mla *s)
{
    return s->part->width * s->kq_bytes == COPY_BYTES;
}

/* Rows of the latent as their copies have them: scalars, or a tile. */
struct found {
    struct tir_value rows; /* i64 of each, a few lanes to a row */
    struct tir_value row[MOST_ROWS], tile;
};

static struct found find_rows(struct mla *s, struct tir_value rows, struct tir_value tile)
{
    struct found f = {.rows = rows, .tile = tile};
    for (unsigned i = 0; i < own_rows(s) && row_takes_all(s); i++)
        f.row[i] = row_of(s, rows, i);
    return f;
}

/* Copies a part of rows, i64 of each as the copy has them. */
static void copy_part(struct mla *s, int group, const struct part *p, struct tir_value block,
                      struct tir_value rows)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = mla_alone_map(s, own_rows(s), p->width);
    tir_gather_to_lds(b, group, tir_i64(b, 0), rows, tir_i32(b, (int)(p->first * s->kq_bytes)),
                      own_place(s, p, block), 0, copied(s, own_rows(s), &map), &map);
}

static void copy_latent(struct mla *s, int group, struct tir_value block,
                        const struct tir_value *row)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_layout map = mla_alone_map(s, 1, s->part->width);
    const struct tir_type t = copied(s, 1, &map);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_value at = tir_splat(b, tir_i32(b, 0), tir_tile(b->f, TIR_I32, 1, 1, &l));
    const struct tir_value place = own_place(s, s->part, block);
    for (unsigned i = 0; i < own_rows(s); i++)
        tir_gather_to_lds(b, group, row[i], at, tir_i32(b, 0), place, before_row(s, s->part, i), t,
                          &map);
}

static void copy_rows(struct mla *s, int group, struct tir_value block, const struct found *f)
{
    if (row_takes_all(s))
        copy_latent(s, group, block, f->row);
    else
        copy_part(s, group, s->part, block, f->tile);
    if (s->n_parts > 1)
        copy_part(s, group, s->part + 1, block, f->rows);
}

void mla_gather_copy(struct mla *s, int group, struct tir_value block, struct tir_value rows)
{
    const struct tir_layout map = mla_alone_map(s, own_rows(s), s->part->width);
    const struct tir_type t = copied(s, own_rows(s), &map);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(s->d.b.f, t), 1);
    const struct found f =
        find_rows(s, rows, row_takes_all(s) ? rows : tir_relayout(&s->d.b, rows, &l));
    copy_rows(s, group, block, &f);
}

/* Clears rows of the latent that stand for no key. Stores of the others go where nobody reads. */
static void clear_unit(struct mla *s, struct tir_value round, unsigned unit)
{
    struct tir_builder *const b = &s->d.b;
    const struct part *const p = s->part;
    const struct tir_layout map = mla_alone_map(s, 1, p->width);
    const struct tir_type t = copied(s, 1, &map);
    const struct att_paged_tile own = own_tile(s);
    const struct tir_value entries = read_slots(s, &own, round, own_first(s, unit));
    const struct tir_type wide = tir_tile(b->f, TIR_F32, 1, t.cols, tir_layout_of(b->f, t));
    const struct tir_value zero = tir_convert(b, tir_splat(b, tir_f32(b, 0.0f), wide), s->kq_dtype);
    for (unsigned i = 0; i < own_rows(s); i++) {
        const struct tir_value entry = tir_lane_read(b, entries, lane_of(s, i));
        const struct tir_value place = own_place(s, p, unit_of(s, round, unit));
        const struct tir_value row = att_plus(b, place, (int)before_row(s, p, i));
        const struct tir_value at =
            tir_select(b, tir_cmp_lt(b, entry, tir_i32(b, 0)), row, s->unread);
        tir_tile_lds_store(b, at, zero, &map);
    }
}

static void clear_gaps(struct mla *s, const struct att_block *block)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_if some = tir_begin_if(b, tir_cmp_ne(b, block->gaps, tir_i32(b, 0)), true, NULL, 0);
    tir_wait(b, GROUP, 0);
    for (unsigned i = 0; i < units(s); i++)
        clear_unit(s, block->index, i);
    tir_wait(b, TIR_LDS_WRITES, 0);
    tir_else(b, &some, NULL);
    tir_end_if(b, &some, NULL);
}

/* Slots of a unit: of all rows, and of the wave's own with lanes for each and as copies of the
 * latent have them. */
struct slots {
    struct tir_value all, own, copied;
};

static struct tir_value count_gaps(struct mla *s, const struct slots *slots)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value gaps = tir_i32(b, 0);
    for (unsigned i = 0; i < units(s); i++) {
        const struct tir_value all = slots[i].all;
        gaps = tir_add(b, gaps, tir_lane_count(b, tir_cmp_lt(b, all, tir_int_like(b, all, 0))));
    }
    return gaps;
}

/* Finds where the wave's own rows begin, i64, as `t` has them. */
static struct tir_value own_addresses(struct mla *s, const struct att_paged_tile *t,
                                      struct tir_value round, unsigned unit, struct tir_value slots)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_value key = tir_add(b, mla_first_key(s, round), own_first(s, unit));
    const struct tir_value offsets = att_paged_rows(b, &s->pages, t, key, slots);
    return tir_add(b, offsets, tir_splat(b, s->d.k.c.base, tir_typeof(b->f, offsets)));
}

static struct slots read_unit(struct mla *s, struct tir_value round, unsigned unit)
{
    const struct att_paged_tile own = own_tile(s), all = block_tile(s);
    const struct att_paged_tile latent = copied_tile(s, s->part->width);
    const struct tir_value first = tir_i32(&s->d.b, (int)(unit * s->d.keys));
    struct slots slots = {.all = read_slots(s, &all, round, first),
                          .own = read_slots(s, &own, round, own_first(s, unit))};
    slots.copied = slots.own;
    if (!row_takes_all(s))
        slots.copied = read_slots(s, &latent, round, own_first(s, unit));
    return slots;
}

static struct found find_unit(struct mla *s, struct tir_value round, unsigned unit,
                              const struct slots *slots)
{
    const struct att_paged_tile own = own_tile(s), latent = copied_tile(s, s->part->width);
    const struct tir_value rows = own_addresses(s, &own, round, unit, slots->own);
    if (row_takes_all(s))
        return find_rows(s, rows, rows);
    return find_rows(s, rows, own_addresses(s, &latent, round, unit, slots->copied));
}

void mla_gather_fetch(struct mla *s, struct att_block *block)
{
    struct tir_builder *const b = &s->d.b;
    struct slots slots[MOST_UNITS];
    struct found found[MOST_UNITS];
    mla_alone_at(s, A_PAGES, M1);
    copy_entries(s, block->index);
    mla_alone_at(s, A_FIND, M1);
    tir_wait(b, ENTRIES, 0);
    mla_alone_at(s, A_FIND, C1);
    for (unsigned i = 0; i < units(s); i++)
        slots[i] = read_unit(s, block->index, i);
    mla_alone_at(s, A_FIND, C2);
    block->gaps = count_gaps(s, slots);
    for (unsigned i = 0; i < units(s); i++)
        found[i] = find_unit(s, block->index, i, &slots[i]);
    for (unsigned i = 0; i < units(s); i++) {
        mla_alone_at(s, A_COPY, i ? M2 : BEGIN);
        copy_rows(s, GROUP, unit_of(s, block->index, i), &found[i]);
    }
    mla_alone_arrival(s);
    clear_gaps(s, block);
    tir_wait(b, GROUP, 0);
    tir_barrier(b);
}

struct tir_value mla_gather_entries(void *family, const struct att_block *block)
{
    struct mla *const s = family;
    const struct att_paged_tile keys = rows_like(s, s->d.scores);
    const struct tir_value first =
        tir_sub(&s->d.b, mla_alone_first_key(s, block->index), mla_first_key(s, block->index));
    return read_slots(s, &keys, block->index, first);
}
