/* SPDX-License-Identifier: Apache-2.0
 *
 * This file multiplies slices of weights. row_product.h says how the work is divided.
 */
#include "templates/workgroup/row_product.h"

#include "ir/matrix.h"

enum {
    ROWS = ATT_PRODUCT_ROWS,
    TOKENS = 16,                   /* tokens of one matrix instruction */
    COLUMNS = ATT_PRODUCT_COLUMNS, /* columns of w and x that a load takes */
    MAX_LOADS = ATT_PRODUCT_MOST / COLUMNS,
    ELEM = 2 /* bytes of bf16 and fp16 */
};

/* The matrix instruction of a product, and the types of its operands. */
struct types {
    int instr;
    struct tir_type w, x, sums; /* tiles of w and x that a load takes; the sums, rows x tokens */
};

/* Returns the number of loads that a row of w or x takes. */
static unsigned loads(const struct att_row_product *p) { return p->columns / COLUMNS; }

bool att_row_product_check(const struct att_variant *v, const struct tir_machine *m, int multiple,
                           struct att_why *why)
{
    if (v->product_dim % multiple)
        return att_reject(why, ATT_PRODUCT_DIM, "product_dim %d is not a multiple of %d",
                          v->product_dim, multiple);
    return tir_find_mma(m, ROWS, TOKENS, 0, att_dtype(v)) >= 0 ||
           att_reject(why, ATT_PRODUCT_DIM, "%s has no matrix instruction of %d x %d", m->name,
                      ROWS, TOKENS);
}

/* Returns the instruction for p->dtype, and the tiles in which a wave loads and holds its
 * operands. */
static struct types choose_types(const struct att_row_product *p)
{
    struct tir_func *const f = p->b->f;
    const struct tir_waves one_wave = {0};
    struct types t = {.instr = tir_find_mma(f->machine, ROWS, TOKENS, 0, p->dtype)};
    const struct tir_mma *const mma = &f->machine->mma[t.instr];
    const struct tir_contraction k = tir_contract_rows(mma, COLUMNS, 16 / ELEM);
    const struct tir_layout w = tir_mma_left(mma, ROWS, &k, one_wave);
    const struct tir_layout x = tir_mma_right(mma, TOKENS, &k, one_wave);
    const struct tir_layout sums = tir_mma_result(mma, ROWS, TOKENS, one_wave);
    t.w = tir_tile(f, p->dtype, ROWS, COLUMNS, &w);
    t.x = tir_tile(f, p->dtype, TOKENS, COLUMNS, &x);
    t.sums = tir_tile(f, TIR_F32, ROWS, TOKENS, &sums);
    return t;
}

/* Returns a view of a head's rows of `t`: TOKENS tokens from `token` on, or as many as are
 * left. A row has `width` elements of `size` bytes. */
static struct tir_view rows_of(const struct att_row_product *p, struct att_tensor t,
                               struct tir_value head, struct tir_value token, int width, int size)
{
    struct tir_builder *const b = p->b;
    const struct tir_value at = att_row(b, tir_arg(b, t.arg, TIR_I64), head, t.head_stride, size);
    const struct tir_value base = att_row(b, at, token, t.token_stride, size);
    const struct tir_value left = tir_min(b, tir_sub(b, p->tokens, token), tir_i32(b, TOKENS));
    return att_view(b, base, left, att_stride32(b, t.token_stride, size), width * size, 0);
}

/* Loads the rows of `view`: COLUMNS columns to each of to[]. */
static void load_rows(const struct att_row_product *p, struct tir_view view, struct tir_type t,
                      struct tir_value *to)
{
    struct tir_builder *const b = p->b;
    for (unsigned i = 0; i < loads(p); i++) {
        view.byte = tir_i32(b, (int)(i * COLUMNS * ELEM));
        to[i] = tir_tile_load(b, view, tir_i32(b, 0), t);
    }
}

/* Loads a slice: ROWS rows of the head's w, from `row` on. */
static void load_weights(const struct att_row_product *p, const struct types *t,
                         struct tir_value head, struct tir_value row, struct tir_value *w)
{
    struct tir_builder *const b = p->b;
    const struct tir_value at = att_row(b, tir_arg(b, p->w, TIR_I64), head, p->w_head_stride, ELEM);
    const struct tir_view view =
        att_view(b, att_row(b, at, row, p->w_row_stride, ELEM), tir_i32(b, ROWS),
                 att_stride32(b, p->w_row_stride, ELEM), (int)p->columns * ELEM, 0);
    load_rows(p, view, t->w, w);
}

/* Multiplies slice w, which begins at row `row` of a head, with TOKENS tokens from `token` on.
 * Stores the sums in p->out. */
static void multiply(const struct att_row_product *p, const struct types *t,
                     const struct tir_value *w, struct tir_value head, struct tir_value row,
                     struct tir_value token)
{
    struct tir_builder *const b = p->b;
    struct tir_value x[MAX_LOADS], sums = tir_splat(b, tir_f32(b, 0), t->sums);
    load_rows(p, rows_of(p, p->x, head, token, (int)p->columns, ELEM), t->x, x);
    for (unsigned i = 0; i < loads(p); i++)
        sums = tir_mma(b, t->instr, w[i], tir_transpose(b, x[i]), sums);
    struct tir_view to = rows_of(p, p->out, head, token, p->rows, p->out_size);
    to.byte = att_times(b, row, p->out_size);
    const struct tir_value out =
        p->convert ? p->convert(p->family, sums) : tir_convert(b, sums, p->dtype);
    tir_tile_store(b, to, tir_i32(b, 0), tir_transpose(b, out));
}

void att_row_product_slice(const struct att_row_product *p, struct tir_value number)
{
    struct tir_builder *const b = p->b;
    const struct types t = choose_types(p);
    const struct tir_value each = tir_i32(b, p->rows / ROWS);
    const struct tir_value head = tir_div(b, number, each);
    const struct tir_value row = att_times(b, tir_sub(b, number, tir_mul(b, head, each)), ROWS);
    struct tir_value w[MAX_LOADS];
    load_weights(p, &t, head, row, w);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), p->tokens, tir_i32(b, TOKENS), NULL, 0);
    multiply(p, &t, w, head, row, loop.index);
    tir_end_for(b, &loop, NULL, 0);
}
