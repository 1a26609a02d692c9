/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the small arrays for attention that an engine derives from lengths and page numbers in
 * each step. One launch over the batch computes each array; its grid depends only on sizes that are
 * known when a graph is captured. P is the page size. Slots and positions are int64, and all other
 * arrays int32.
 *
 *   indptr         kv_indptr[s] = sum over i < s of ceil(kv_lens[i] / P)
 *   kv_indices     kv_indices[kv_indptr[s] + i] = entry(s, kv_start[s] + i), up to kv_indptr[s + 1]
 *   page_table     page_table[s][i] = entry(s, i) for i < ceil(kv_lens[s] / P)
 *   last_page_len  last_page_lens[s] = (kv_lens[s] - 1) mod P + 1, and 0 of 0
 *   draft_slots    kv_lens[s] += advance, then the slot and the position of the newest token
 *
 * Here entry(s, i) = block_table[row(s)][i * entry_step] / entry_divisor. It is a page number, or,
 * if the table has the slot of every token, the slot of a page's first token divided by P. Entries
 * below 0 are copied unchanged.
 */
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"
#include "templates/workgroup/scan.h"
#include "templates/template.h"

#include <stdio.h>

enum { LANES = ATT_SCAN_ROWS, EACH = 8 /* number of entries that a lane copies */ };

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct metadata {
    struct tir_builder b;
    struct tir_type lane;   /* type i32, LANES x 1: a row for each lane */
    struct tir_value batch; /* i32: number of sequences */
};

/* Returns `scalar` (i32) in every lane. */
static struct tir_value number(struct metadata *d, struct tir_value scalar)
{
    return tir_splat(&d->b, scalar, d->lane);
}

/* Returns a tile with `n` in every lane. */
static struct tir_value constant(struct metadata *d, int n) { return number(d, tir_i32(&d->b, n)); }

/* Returns a view of `n` entries (i32) of `bytes` bytes each of array argument `arg`. The view is
 * empty if the pointer is NULL. */
static struct tir_view array(struct metadata *d, const char *arg, struct tir_value n, int bytes)
{
    struct tir_builder *b = &d->b;
    const struct tir_value rows = tir_select(b, att_is_null(b, arg), tir_i32(b, 0), n);
    return att_view(b, tir_arg(b, arg, TIR_I64), rows, tir_i32(b, bytes), bytes, 0);
}

/* Loads an i32 of array argument `arg` for each lane's sequence, from sequence `first` (i32) on. */
static struct tir_value load(struct metadata *d, const char *arg, struct tir_value first)
{
    return tir_tile_load(&d->b, array(d, arg, d->batch, 4), first, d->lane);
}

/* Loads the number of keys of each lane's sequence, from sequence `first` (i32) on. Negative
 * lengths become 0. */
static struct tir_value lengths(struct metadata *d, struct tir_value first)
{
    return tir_max(&d->b, load(d, ARG_KV_LENS, first), constant(d, 0));
}

/* Returns P, the number of tokens of a page (i32). */
static struct tir_value page(struct metadata *d) { return tir_arg(&d->b, ARG_PAGE_SIZE, TIR_I32); }

/* Returns the number of pages ceil(keys / P) of each lane's number of keys. P is the page size. */
static struct tir_value pages(struct metadata *d, struct tir_value keys)
{
    struct tir_builder *b = &d->b;
    return tir_div(b, tir_add(b, keys, number(d, att_plus(b, page(d), -1))), number(d, page(d)));
}

/* Writes kv_indptr by one wave, 64 sequences at a time. The last entry, with the index of the
 * number of sequences, is the number of all sequences' pages. */
static void build_indptr(struct metadata *d)
{
    struct tir_builder *b = &d->b;
    const struct att_scan scan = att_scan_begin(b);
    const struct tir_value end = att_plus(b, d->batch, 1);
    struct tir_value sum = tir_i32(b, 0);
    struct tir_loop loop = tir_begin_for(b, sum, end, tir_i32(b, LANES), &sum, 1);
    const struct tir_value n = pages(d, lengths(d, loop.index));
    const struct tir_value before = tir_add(b, att_scan_before(b, &scan, n), number(d, sum));
    tir_tile_store(b, array(d, ARG_KV_INDPTR, end, 4), loop.index, before);
    sum = tir_add(b, sum, tir_first_lane(b, tir_col_sum(b, n)));
    tir_end_for(b, &loop, &sum, 1);
}

/* Writes the number of keys in each sequence's last page. */
static void build_last_page_len(struct metadata *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value first = att_times(b, tir_block_id(b, 0), LANES);
    const struct tir_value keys = lengths(d, first), one = constant(d, 1);
    const struct tir_value rest = tir_rem(b, tir_sub(b, keys, one), number(d, page(d)));
    const struct tir_value none = tir_cmp_eq(b, keys, constant(d, 0));
    const struct tir_value length = tir_select(b, none, keys, tir_add(b, rest, one));
    tir_tile_store(b, array(d, ARG_LAST_PAGE_LENS, d->batch, 4), first, length);
}

/* Returns the byte offset (i64) of row `row` (i64) of the block table. */
static struct tir_value table_row(struct metadata *d, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    return tir_mul(b, row, att_stride(b, ARG_BLOCK_TABLE_STRIDE, 4));
}

/* Returns the row (i64) of sequence s in the block table: s itself, or request_rows[s] if that
 * array is given. */
static struct tir_value scalar_row(struct metadata *d, struct tir_value s)
{
    struct tir_builder *b = &d->b;
    const struct tir_type type = tir_scalar(TIR_I64);
    struct tir_value row = att_wide(b, s);
    struct tir_if own = tir_begin_if(b, att_is_null(b, ARG_REQUEST_ROWS), false, &type, 1);
    tir_else(b, &own, &row);
    row = tir_scalar_load(b, tir_arg(b, ARG_REQUEST_ROWS, TIR_I64), tir_shl(b, s, tir_i32(b, 3)),
                          TIR_I64);
    tir_end_if(b, &own, &row);
    return row;
}

/* Loads entry s + offset of array `arg` (i32) as a scalar. */
static struct tir_value scalar_entry(struct metadata *d, const char *arg, struct tir_value s,
                                     int offset)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = att_plus(b, tir_shl(b, s, tir_i32(b, 2)), 4 * offset);
    return tir_scalar_load(b, tir_arg(b, arg, TIR_I64), at, TIR_I32);
}

/* Returns the page numbers for `entries` of the block table: each entry divided by argument
 * entry_divisor. Negative entries stay as they are. */
static struct tir_value page_numbers(struct metadata *d, struct tir_value entries)
{
    struct tir_builder *b = &d->b;
    const struct tir_value sign = tir_sar(b, entries, constant(d, 31));
    const struct tir_value there = tir_and(b, entries, tir_xor(b, sign, constant(d, -1)));
    const struct tir_value by = number(d, tir_arg(b, ARG_ENTRY_DIVISOR, TIR_I32));
    return tir_or(b, tir_div(b, there, by), tir_and(b, entries, sign));
}

/* Copies block table entries of sequence s, as page numbers, to the array at address `to`. The
 * sequence's `count` entries begin at entry `first` of its row; entries are ARG_ENTRY_STEP words
 * apart. This workgroup copies at most EACH * LANES of them, from index `begin` on. */
static void copy_entries(struct metadata *d, struct tir_value s, struct tir_value first,
                         struct tir_value count, struct tir_value begin, struct tir_value to)
{
    struct tir_builder *b = &d->b;
    const struct tir_value step = tir_arg(b, ARG_ENTRY_STEP, TIR_I32);
    const struct tir_value left = tir_min(b, tir_sub(b, count, begin), tir_i32(b, EACH * LANES));
    const struct tir_value at =
        tir_mul(b, att_wide(b, tir_add(b, first, begin)), att_wide(b, step));
    const struct tir_value row = table_row(d, scalar_row(d, s));
    const struct tir_value base =
        tir_add(b, att_at(b, ARG_BLOCK_TABLE, row), tir_mul(b, at, tir_i64(b, 4)));
    const struct tir_view from = att_view(b, base, left, tir_mul(b, step, tir_i32(b, 4)), 4, 0);
    const struct tir_value out = tir_add(b, to, att_wide_times(b, begin, 4));
    const struct tir_view into = att_view(b, out, left, tir_i32(b, 4), 4, 0);
    struct tir_value entries[EACH];
    for (int i = 0; i < EACH; i++)
        entries[i] = tir_tile_load(b, from, tir_i32(b, i * LANES), d->lane);
    for (int i = 0; i < EACH; i++)
        tir_tile_store(b, into, tir_i32(b, i * LANES), page_numbers(d, entries[i]));
}

/* Copies page numbers to kv_indices if `indices`, else to the page table. The grid is (blocks of
 * entries, sequences). */
static void build_entries(struct metadata *d, bool indices)
{
    struct tir_builder *b = &d->b;
    const struct tir_value s = tir_block_id(b, 1);
    const struct tir_value begin = att_times(b, tir_block_id(b, 0), EACH * LANES);
    struct tir_value count, to, at;
    if (indices) {
        at = att_wide(b, scalar_entry(d, ARG_KV_INDPTR, s, 0));
        const struct tir_value end = scalar_entry(d, ARG_KV_INDPTR, s, 1);
        count = tir_sub(b, end, tir_convert(b, at, TIR_I32));
    } else {
        const struct tir_value keys = scalar_entry(d, ARG_KV_LENS, s, 0);
        count = tir_div(b, tir_add(b, tir_max(b, keys, tir_i32(b, 0)), att_plus(b, page(d), -1)),
                        page(d));
        at = tir_mul(b, att_wide(b, s), tir_arg(b, ARG_PAGE_TABLE_STRIDE, TIR_I64));
    }
    count = tir_min(b, count, tir_arg(b, ARG_ENTRIES, TIR_I32));
    to = tir_arg(b, indices ? ARG_KV_INDICES : ARG_PAGE_TABLE, TIR_I64);
    to = tir_add(b, to, tir_mul(b, at, tir_i64(b, 4)));
    struct tir_if some = att_begin_if(b, tir_cmp_lt(b, begin, count));
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value first = indices ? att_entry_or(b, ARG_KV_START, s, zero) : zero;
    copy_entries(d, s, first, count, begin, to);
    tir_end_if(b, &some, NULL);
}

/* Adds argument `advance` to the lengths, and writes the slot and the position of each sequence's
 * newest token. A sequence without keys is padding: its length stays, and its slot is -1. */
static void build_draft_slots(struct metadata *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value first = att_times(b, tir_block_id(b, 0), LANES);
    const struct tir_value old = load(d, ARG_KV_LENS, first), zero = constant(d, 0);
    const struct tir_value live = tir_cmp_gt(b, old, zero);
    const struct tir_value advanced = tir_add(b, old, number(d, tir_arg(b, ARG_ADVANCE, TIR_I32)));
    const struct tir_value keys = tir_select(b, live, advanced, old);
    tir_tile_store(b, array(d, ARG_KV_LENS, d->batch, 4), first, keys);

    const struct tir_value newest = tir_sub(b, keys, constant(d, 1));
    const struct tir_value size = number(d, page(d));
    const struct tir_value index = tir_div(b, newest, size);
    struct tir_value row =
        tir_convert(b, tir_add(b, tir_row_index(b, d->lane), number(d, first)), TIR_I64);
    const struct tir_type wide = tir_typeof(b->f, row);
    row = tir_mul(b, row, tir_splat(b, att_stride(b, ARG_BLOCK_TABLE_STRIDE, 4), wide));
    const struct tir_value at =
        tir_add(b, row, tir_convert(b, tir_shl(b, index, constant(d, 2)), TIR_I64));
    const struct tir_value safe = tir_select(b, live, at, tir_int_like(b, at, 0));
    const struct tir_value entry =
        tir_tile_gather(b, tir_arg(b, ARG_BLOCK_TABLE, TIR_I64), safe, tir_i32(b, 0), d->lane);

    const struct tir_value inside = tir_sub(b, newest, tir_mul(b, index, size));
    const struct tir_value page_slot =
        tir_mul(b, tir_convert(b, entry, TIR_I64), tir_convert(b, size, TIR_I64));
    const struct tir_value slot = tir_add(b, page_slot, tir_convert(b, inside, TIR_I64));
    const struct tir_value none = tir_int_like(b, slot, -1);
    tir_tile_store(b, array(d, ARG_SLOT_MAPPING, d->batch, 8), first,
                   tir_select(b, live, slot, none));
    const struct tir_value position = tir_convert(b, newest, TIR_I64);
    tir_tile_store(b, array(d, ARG_POSITIONS, d->batch, 8), first,
                   tir_select(b, live, position, tir_int_like(b, position, 0)));
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    static const struct att_grid one = {NULL, 1, 1};
    struct tir_func *f = att_begin_kernel(v, m, 1, 4);
    struct metadata d = {.b = tir_at_end(f, f->body)};
    const struct tir_layout lane = tir_spread_column(m, 1, LANES);
    d.lane = tir_tile(f, TIR_I32, LANES, 1, &lane);
    d.batch = tir_arg(&d.b, ARG_BATCH, TIR_I32);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_BATCH, LANES, 1}, one, one},
    };
    switch (v->metadata) {
    case ATT_METADATA_INDPTR:
        build_indptr(&d);
        k->grid[0] = one;
        break;
    case ATT_METADATA_KV_INDICES:
    case ATT_METADATA_PAGE_TABLE:
        build_entries(&d, v->metadata == ATT_METADATA_KV_INDICES);
        k->grid[0] = (struct att_grid){ARG_ENTRIES, EACH * LANES, 1};
        k->grid[1] = (struct att_grid){ARG_BATCH, 1, 1};
        break;
    case ATT_METADATA_LAST_PAGE_LEN: build_last_page_len(&d); break;
    case ATT_METADATA_DRAFT_SLOTS: build_draft_slots(&d); break;
    }
    tir_return(&d.b);
    snprintf(k->tuning, sizeof(k->tuning), "lanes=%d", LANES);
}

const struct att_template att_template_metadata = {
    .name = "metadata",
    .description = "arrays that attention reads, made of lengths and page numbers",
    .takes = OP_TAKES_METADATA,
    .check = att_check_none,
    .build = build,
};
