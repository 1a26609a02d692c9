/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/state.h"

#include "ir/bits.h"
#include "ir/spread.h"

/* ACCESS: bytes that a lane loads or stores at once. LINE_LANES: number of lanes that load a line
 * of 128 bytes. FOUR: number of adjacent elements of a key in a group of K_FOURS. */
enum { ACCESS = 16, LINE_LANES = 8, FOUR = 4 };

unsigned att_state_dtype(const struct att_variant *v)
{
    return v->state_dtype == ATT_STATE_DTYPE_F32    ? TIR_F32
           : v->state_dtype == ATT_STATE_DTYPE_BF16 ? TIR_BF16
                                                    : TIR_F16;
}

int att_state_size(const struct att_variant *v)
{
    return v->state_dtype == ATT_STATE_DTYPE_F32 ? 4 : 2;
}

/* Returns the number of lanes that together load a row of `cols` elements of `size` bytes, 16 bytes
 * each, at most LINE_LANES. */
static unsigned lanes_of_row(unsigned cols, unsigned size)
{
    const unsigned accesses = cols * size / ACCESS;
    return accesses < LINE_LANES ? accesses : LINE_LANES;
}

unsigned att_state_least_rows(const struct att_variant *v, const struct tir_machine *m)
{
    return tir_lanes(m) / lanes_of_row((unsigned)v->head_dim, (unsigned)att_state_size(v));
}

/* Returns the type of a tile of rows x cols elements of a state, as loads and stores take them from
 * memory. A lane has 16 bytes of a row, and up to eight lanes have adjacent 16 bytes. With
 * `rows_first` a lane has four consecutive rows. For K_MAJOR these are four adjacent elements of a
 * key, so that a lane loads 8 bytes of a 16-bit key at once. With eight rows of 16-bit elements
 * LLVM 22.1 crashes. */
static struct tir_type memory_type(struct tir_builder *b, const struct att_state *s, unsigned rows,
                                   unsigned cols, bool rows_first)
{
    struct tir_spread l = tir_spread(b->f->machine, 1);
    const unsigned chunk = ACCESS / (unsigned)s->size;
    const unsigned lanes = lanes_of_row(cols, (unsigned)s->size);
    tir_spread_cols(&l, TIR_REGS, tir_bits(chunk));
    if (rows_first)
        tir_spread_rows(&l, TIR_REGS, tir_bits(FOUR));
    tir_spread_cols(&l, TIR_LANES, tir_bits(lanes));
    tir_spread_rows(&l, TIR_LANES, tir_spread_room(&l, TIR_LANES));
    tir_spread_fill(&l, TIR_REGS, rows, cols);
    const struct tir_layout layout = tir_spread_layout(&l);
    return tir_tile(b->f, s->dtype, rows, cols, &layout);
}

/* ---- The order of K_FOURS ----
 *
 * With bits of columns and rows named from the lowest on, memory is [row: k / 4][column: k % 4, v].
 * Its transpose as one row has columns k / 4, k % 4, v; rows of K columns of that are the state. */

/* Converts `memory`, a tile in the order K_FOURS (groups of four elements of a key), to a part of a
 * state, rows x `key`. */
static struct tir_value from_fours(struct tir_builder *b, struct tir_value memory, int key)
{
    const struct tir_value line = tir_join_blocks(b, tir_transpose(b, memory), 1);
    return tir_split_blocks(b, line, (unsigned)key);
}

/* Converts `tile`, a part of a state, rows x `key`, to the order K_FOURS (groups of four elements
 * of a key). */
static struct tir_value to_fours(struct tir_builder *b, struct tir_value tile, int key)
{
    const struct tir_value line = tir_join_blocks(b, tile, 1);
    return tir_transpose(b, tir_split_blocks(b, line, (unsigned)key / FOUR));
}

/* Returns the layout of from_fours()'s result for a tile of layout `memory`. A state has `key`
 * elements of a key. */
static struct tir_layout layout_from_fours(const struct tir_layout *memory, unsigned key)
{
    const struct tir_layout transposed = tir_layout_transpose(memory);
    const struct tir_layout line = tir_layout_join_blocks(&transposed, 1, key / FOUR);
    return tir_layout_split_blocks(&line, 1, key);
}

/* Returns the layout of to_fours()'s result for a state of layout `tile`, with `key` elements of a
 * key. */
static struct tir_layout layout_to_fours(const struct tir_layout *tile, unsigned key)
{
    const struct tir_layout line = tir_layout_join_blocks(tile, 1, key);
    const struct tir_layout split = tir_layout_split_blocks(&line, 1, key / FOUR);
    return tir_layout_transpose(&split);
}

/* Returns the layout of 1 x `key` numbers in the order of memory, for numbers that att_state_keys()
 * converts to layout *keys. */
static struct tir_layout layout_of_memory_keys(const struct tir_layout *keys, unsigned key)
{
    const struct tir_layout split = tir_layout_split_blocks(keys, 1, key / FOUR);
    const struct tir_layout transposed = tir_layout_transpose(&split);
    return tir_layout_join_blocks(&transposed, 1, FOUR);
}

/* ---- The state ---- */

/* Sets s->memory, the tile type of loads and stores of the part, by the order of a state's elements
 * in memory. Returns the layout that a loaded part has as rows x head_dim. */
static struct tir_layout choose_memory(struct tir_builder *b, struct att_state *s)
{
    const unsigned key = (unsigned)s->key;
    switch (s->order) {
    case ATT_STATE_LAYOUT_K_MAJOR: s->memory = memory_type(b, s, key, s->rows, true); break;
    case ATT_STATE_LAYOUT_K_FOURS:
        s->memory = memory_type(b, s, key / FOUR, s->rows * FOUR, false);
        break;
    default: s->memory = memory_type(b, s, s->rows, key, false);
    }
    const struct tir_layout *l = tir_layout_of(b->f, s->memory);
    if (s->order == ATT_STATE_LAYOUT_V_MAJOR)
        return *l;
    return s->order == ATT_STATE_LAYOUT_K_MAJOR ? tir_layout_transpose(l)
                                                : layout_from_fours(l, key);
}

/* Returns the description of a part, `rows` value elements, of a state of `key` x `value` elements.
 * Its types are not set. */
static struct att_state state_of(const struct att_variant *v, int key, int value, unsigned rows)
{
    return (struct att_state){
        .order = v->state_layout,
        .dtype = att_state_dtype(v),
        .size = att_state_size(v),
        .key = key,
        .value = value,
        .rows = rows,
    };
}

/* Sets s->tile to the type of the part in registers with layout *tile, and the types of its row,
 * column and scalar operands. */
static void set_types(struct tir_builder *b, struct att_state *s, const struct tir_layout *tile)
{
    const unsigned key = (unsigned)s->key;
    const struct tir_layout keys = tir_layout_slice(tile, 0), values = tir_layout_slice(tile, 1);
    const struct tir_layout one = tir_layout_slice(&keys, 1);
    s->tile = tir_tile(b->f, TIR_F32, s->rows, key, tile);
    s->keys = tir_tile(b->f, TIR_F32, 1, key, &keys);
    s->values = tir_tile(b->f, TIR_F32, s->rows, 1, &values);
    s->one = tir_tile(b->f, TIR_F32, 1, 1, &one);
}

struct att_state att_state(struct tir_builder *b, const struct att_variant *v, int key, int value,
                           unsigned rows)
{
    struct att_state s = state_of(v, key, value, rows);
    const struct tir_layout tile = choose_memory(b, &s);
    set_types(b, &s, &tile);
    return s;
}

struct att_state att_state_of_layout(struct tir_builder *b, const struct att_variant *v, int key,
                                     int value, unsigned rows, const struct tir_layout *tile)
{
    struct att_state s = state_of(v, key, value, rows);
    const unsigned k = (unsigned)key;
    const struct tir_layout transposed = tir_layout_transpose(tile),
                            fours = layout_to_fours(tile, k);
    set_types(b, &s, tile);
    switch (s.order) {
    case ATT_STATE_LAYOUT_K_MAJOR: s.memory = tir_tile(b->f, s.dtype, k, rows, &transposed); break;
    case ATT_STATE_LAYOUT_K_FOURS:
        s.memory = tir_tile(b->f, s.dtype, k / FOUR, rows * FOUR, &fours);
        break;
    default: s.memory = tir_tile(b->f, s.dtype, rows, k, tile);
    }
    return s;
}

struct tir_value att_state_at(struct tir_builder *b, const struct att_state *s,
                              struct tir_value slot, struct tir_value value_head)
{
    const struct tir_value bytes = tir_i64(b, s->key * s->value * s->size);
    const struct tir_value head = tir_mul(b, att_wide(b, value_head), bytes);
    const struct tir_value base = att_at(b, ARG_STATE, head);
    return att_row(b, base, slot, ARG_STATE_SLOT_STRIDE, s->size);
}

/* Returns a view of the state at address `base` (i64), from value element `first` (i32) on, with a
 * row for each row of s->memory. The view is empty if `there` (i1) is false. */
static struct tir_view part_view(struct tir_builder *b, const struct att_state *s,
                                 struct tir_value base, struct tir_value first,
                                 struct tir_value there)
{
    const int all = s->key * s->value * s->size;
    const struct tir_value size = tir_select(b, there, tir_i32(b, all), tir_i32(b, 0));
    const int step = s->order == ATT_STATE_LAYOUT_V_MAJOR   ? s->key * s->size
                     : s->order == ATT_STATE_LAYOUT_K_MAJOR ? s->value * s->size
                                                            : s->value * s->size * FOUR;
    const int apart = s->order == ATT_STATE_LAYOUT_V_MAJOR   ? s->key
                      : s->order == ATT_STATE_LAYOUT_K_MAJOR ? 1
                                                             : FOUR;
    return (struct tir_view){tir_make_rsrc(b, base, size), tir_i32(b, step),
                             att_times(b, first, apart * s->size)};
}

struct tir_value att_state_load(struct tir_builder *b, const struct att_state *s,
                                struct tir_value base, struct tir_value first,
                                struct tir_value there)
{
    const struct tir_view view = part_view(b, s, base, first, there);
    const struct tir_value raw = tir_tile_load(b, view, tir_i32(b, 0), s->memory);
    const struct tir_value a = tir_convert(b, raw, TIR_F32);
    if (s->order == ATT_STATE_LAYOUT_V_MAJOR)
        return a;
    return s->order == ATT_STATE_LAYOUT_K_MAJOR ? tir_transpose(b, a) : from_fours(b, a, s->key);
}

void att_state_store(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                     struct tir_value first, struct tir_value there, struct tir_value a)
{
    const struct tir_view view = part_view(b, s, base, first, there);
    if (s->order == ATT_STATE_LAYOUT_K_MAJOR)
        a = tir_transpose(b, a);
    else if (s->order == ATT_STATE_LAYOUT_K_FOURS)
        a = to_fours(b, a, s->key);
    tir_tile_store(b, view, tir_i32(b, 0), tir_convert(b, a, s->dtype));
}

/* ---- Vectors ---- */

/* Returns a view of one row of `count` elements of `dtype` at address `base` (i64). The view is
 * empty if `there` (i1) is false. */
static struct tir_view line_view(struct tir_builder *b, struct tir_value base,
                                 struct tir_value there, unsigned dtype, unsigned count)
{
    const int bytes = (int)(count * tir_dtype_bits(dtype) / 8);
    return att_view(b, base, tir_select(b, there, tir_i32(b, 1), tir_i32(b, 0)), tir_i32(b, 0),
                    bytes, 0);
}

struct tir_type att_state_raw_keys(struct tir_builder *b, const struct att_state *s, unsigned dtype)
{
    const unsigned key = (unsigned)s->key;
    if (s->order != ATT_STATE_LAYOUT_K_FOURS)
        return tir_with_dtype(s->keys, dtype);
    const struct tir_layout l = layout_of_memory_keys(tir_layout_of(b->f, s->keys), key);
    return tir_tile(b->f, dtype, 1, key, &l);
}

struct tir_value att_state_load_keys(struct tir_builder *b, const struct att_state *s,
                                     struct tir_value base, unsigned dtype, struct tir_value there)
{
    const struct tir_view view = line_view(b, base, there, dtype, (unsigned)s->key);
    return tir_tile_load(b, view, tir_i32(b, 0), att_state_raw_keys(b, s, dtype));
}

struct tir_value att_state_keys(struct tir_builder *b, const struct att_state *s,
                                struct tir_value raw)
{
    const struct tir_value a = tir_convert(b, raw, TIR_F32);
    if (s->order != ATT_STATE_LAYOUT_K_FOURS)
        return a;
    return tir_join_blocks(b, tir_transpose(b, tir_split_blocks(b, a, FOUR)), 1);
}

void att_state_store_keys(struct tir_builder *b, const struct att_state *s, struct tir_value base,
                          struct tir_value there, struct tir_value keys)
{
    if (s->order == ATT_STATE_LAYOUT_K_FOURS) {
        const struct tir_value split = tir_split_blocks(b, keys, (unsigned)s->key / FOUR);
        keys = tir_join_blocks(b, tir_transpose(b, split), 1);
    }
    const struct tir_view view = line_view(b, base, there, TIR_F32, (unsigned)s->key);
    tir_tile_store(b, view, tir_i32(b, 0), keys);
}

void att_state_store_one(struct tir_builder *b, struct tir_value base, struct tir_value there,
                         struct tir_value a)
{
    const unsigned dtype = tir_typeof(b->f, a).dtype;
    tir_tile_store(b, line_view(b, base, there, dtype, 1), tir_i32(b, 0), a);
}

struct tir_value att_state_load_values(struct tir_builder *b, const struct att_state *s,
                                       struct tir_value base, unsigned dtype,
                                       struct tir_value there)
{
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, s->values));
    const struct tir_type t = tir_tile(b->f, dtype, 1, s->rows, &l);
    const struct tir_view view = line_view(b, base, there, dtype, s->rows);
    return tir_transpose(b, tir_tile_load(b, view, tir_i32(b, 0), t));
}

void att_state_store_values(struct tir_builder *b, struct tir_value base, struct tir_value there,
                            struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    const struct tir_view view = line_view(b, base, there, t.dtype, t.rows);
    tir_tile_store(b, view, tir_i32(b, 0), tir_transpose(b, a));
}

struct tir_value att_state_load_one(struct tir_builder *b, const struct att_state *s,
                                    struct tir_value base, unsigned dtype, struct tir_value there)
{
    return tir_tile_load(b, line_view(b, base, there, dtype, 1), tir_i32(b, 0),
                         tir_with_dtype(s->one, dtype));
}

struct tir_value att_state_spread(struct tir_builder *b, const struct att_state *s,
                                  struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a);
    if (t.rows == 1 && t.cols == 1)
        a = tir_broadcast(b, a, s->keys);
    return tir_broadcast(b, a, s->tile);
}
