/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/product_state.h"

#include "ir/bits.h"
#include "templates/linear/state.h"

/* FOUR: number of adjacent elements of a key in layout K_FOURS. COLUMNS: mask of the column's bits
 * in a TIR_RC, a row and a column packed in an integer. */
enum { FOUR = 4, COLUMNS = 0xffff };

/* Returns the type in which a tile of type `t` (K x V), a part of a state, is loaded and stored:
 * K x V in K_MAJOR, else V x K. In K_FOURS a row has four elements of a key for one value element.
 * Rows of the same four elements are adjacent, one for each value element of the tile. Adjacent
 * registers have adjacent columns. */
static struct tir_type memory_type(struct tir_builder *b, const struct att_variant *v,
                                   struct tir_type t)
{
    const struct tir_layout *const own = tir_layout_of(b->f, t);
    struct tir_layout l =
        v->state_layout == ATT_STATE_LAYOUT_K_MAJOR ? *own : tir_layout_transpose(own);
    unsigned rows = v->state_layout == ATT_STATE_LAYOUT_K_MAJOR ? t.rows : t.cols;
    unsigned cols = v->state_layout == ATT_STATE_LAYOUT_K_MAJOR ? t.cols : t.rows;
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS) {
        l = tir_layout_split_blocks(&l, rows, FOUR);
        rows = rows * cols / FOUR;
        cols = FOUR;
    }
    l = tir_layout_regs_first(&l, TIR_RC(0, COLUMNS));
    return tir_tile(b->f, att_state_dtype(v), rows, cols, &l);
}

/* Returns a view of the state at address `base` (i64), from value element `first` (i32) on. The
 * view is empty if `there` (i1) is false. */
static struct tir_view view_of(struct tir_builder *b, const struct att_variant *v,
                               struct tir_value base, struct tir_value first,
                               struct tir_value there)
{
    /* True: rows of memory are elements of a key. */
    const bool keys = v->state_layout == ATT_STATE_LAYOUT_K_MAJOR;
    const int size = att_state_size(v), all = v->head_dim * v->head_dim_v * size;
    const struct tir_value bytes = tir_select(b, there, tir_i32(b, all), tir_i32(b, 0));
    return (struct tir_view){tir_make_rsrc(b, base, bytes),
                             tir_i32(b, (keys ? v->head_dim_v : v->head_dim) * size),
                             att_times(b, first, (keys ? 1 : v->head_dim) * size)};
}

/* Returns the byte offset (i32) in the state of each row of a tile of K_FOURS, whose type is
 * `memory`. With `values` value elements, row n is value element n % values of the four keys from 4
 * (n / values) on. `first` (i32) is the tile's first value element. */
static struct tir_value rows_of_fours(struct tir_builder *b, const struct att_variant *v,
                                      struct tir_type memory, struct tir_value first)
{
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, memory), 1);
    const int values = (int)memory.rows / (v->head_dim / FOUR), row = FOUR * att_state_size(v);
    const struct tir_value n = tir_row_index(b, tir_tile(b->f, TIR_I32, memory.rows, 1, &l));
    const struct tir_value group = tir_shr(b, n, tir_int_like(b, n, tir_bits((unsigned)values)));
    const struct tir_value value = tir_and(b, n, tir_int_like(b, n, values - 1));
    const struct tir_value own = tir_add(b, value, att_like(b, first, n));
    const struct tir_value at = tir_mul(b, group, tir_int_like(b, n, v->head_dim_v));
    return tir_mul(b, tir_add(b, at, own), tir_int_like(b, n, row));
}

struct tir_value att_product_state_load(struct tir_builder *b, const struct att_variant *v,
                                        struct tir_value base, struct tir_value first,
                                        struct tir_value there, struct tir_type t)
{
    const struct tir_type memory = memory_type(b, v, t);
    const struct tir_view view = view_of(b, v, base, first, there);
    const struct tir_layout *const to = tir_layout_of(b->f, t);
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS) {
        const struct tir_value rows = rows_of_fours(b, v, memory, first);
        const struct tir_value raw = tir_tile_fetch(b, view.rsrc, rows, 0, memory);
        const struct tir_value joined = tir_join_blocks(b, tir_convert(b, raw, TIR_F32), t.cols);
        return tir_relayout(b, tir_transpose(b, joined), to);
    }
    const struct tir_value raw = tir_tile_load(b, view, tir_i32(b, 0), memory);
    const struct tir_value a = tir_convert(b, raw, TIR_F32);
    if (v->state_layout == ATT_STATE_LAYOUT_K_MAJOR)
        return tir_relayout(b, a, to);
    return tir_relayout(b, tir_transpose(b, a), to);
}

void att_product_state_store(struct tir_builder *b, const struct att_variant *v,
                             struct tir_value base, struct tir_value first, struct tir_value there,
                             struct tir_value a)
{
    const struct tir_type t = tir_typeof(b->f, a), memory = memory_type(b, v, t);
    const struct tir_layout *const to = tir_layout_of(b->f, memory);
    const struct tir_value rounded = tir_convert(b, a, att_state_dtype(v));
    if (v->state_layout == ATT_STATE_LAYOUT_K_FOURS) {
        const struct tir_value rows = tir_convert(b, rows_of_fours(b, v, memory, first), TIR_I64);
        const struct tir_value is = att_like(b, there, rows);
        const struct tir_value at = tir_select(b, is, rows, tir_int_like(b, rows, -1));
        const struct tir_value split = tir_split_blocks(b, tir_transpose(b, rounded), FOUR);
        tir_tile_scatter(b, base, at, tir_i32(b, 0), tir_relayout(b, split, to));
        return;
    }
    const struct tir_view view = view_of(b, v, base, first, there);
    const bool keys = v->state_layout == ATT_STATE_LAYOUT_K_MAJOR;
    const struct tir_value transposed = keys ? rounded : tir_transpose(b, rounded);
    tir_tile_store(b, view, tir_i32(b, 0), tir_relayout(b, transposed, to));
}
