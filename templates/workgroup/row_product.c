/* SPDX-License-Identifier: Apache-2.0
 *
 * This file multiplies slices of weights. row_product.h says how the work is divided.
 */
#include "templates/workgroup/row_product.h"

#include "ir/bits.h"
#include "ir/matrix.h"

enum {
    ROWS = ATT_PRODUCT_ROWS,
    TOKENS = 16,                            /* number of tokens of one matrix instruction */
    COLUMNS = ATT_PRODUCT_COLUMNS,          /* number of columns of w or x that a load reads */
    MAX_LOADS = ATT_PRODUCT_MOST / COLUMNS, /* most loads of a row */
    BLOCK = ATT_PRODUCT_BLOCK,
    MAX_SCALES = ATT_PRODUCT_MOST / BLOCK, /* most scales of a row of w */
    ELEM = 2,                              /* bytes of an element of bf16 or fp16 */
    CHUNK = 16                             /* bytes of a lane's load of w */
};

/* The matrix instruction of a product, and the types of its operands. */
struct types {
    int instr; /* index in tir_machine.mma of the instruction */
    /* w, x: types of the tiles of w and of x that a load reads. sums: type of the sums, f32, rows x
     * tokens. */
    struct tir_type w, x, sums;
};

/* A slice of a head's w: ROWS rows. */
struct slice {
    /* i32: index of the head; index of the slice's first row in the head. */
    struct tir_value head, row;
    /* Loaded elements of the rows: in the dtype of w as loaded, in the products' dtype after
     * convert_weights(). */
    struct tir_value w[MAX_LOADS];
    struct tir_value scale[MAX_SCALES]; /* f32: scale of all columns, or of each BLOCK columns */
};

/* Returns the number of bytes of an element of w in memory. */
static int weight_size(const struct att_row_product *p)
{
    return p->weights == ATT_WEIGHTS_SAME ? ELEM : 1;
}

/* Returns the number of scales that a row of w has; 0: w has none. */
static unsigned row_scales(const struct att_row_product *p)
{
    return p->weights == ATT_WEIGHTS_SAME        ? 0
           : p->weights == ATT_WEIGHTS_FP8_BLOCK ? p->columns / BLOCK
                                                 : 1;
}

/* Returns the number of loads that a row of w or x takes. */
static unsigned loads(const struct att_row_product *p) { return p->columns / COLUMNS; }

bool att_row_product_check(const struct att_variant *v, const struct tir_machine *m, int multiple,
                           struct att_why *why)
{
    if (!v->product_dim)
        return v->weights == ATT_WEIGHTS_SAME ||
               att_reject(why, ATT_WEIGHTS, "weights of fp8 are for a product_dim");
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
    const unsigned adjacent = (unsigned)(CHUNK / weight_size(p));
    const struct tir_contraction k = tir_contract_rows(mma, COLUMNS, adjacent);
    const struct tir_layout w = tir_mma_left(mma, ROWS, &k, one_wave);
    const struct tir_layout x = tir_mma_right(mma, TOKENS, &k, one_wave);
    const struct tir_layout sums = tir_mma_result(mma, ROWS, TOKENS, one_wave);
    t.w = tir_tile(f, p->weights == ATT_WEIGHTS_SAME ? p->dtype : TIR_FP8, ROWS, COLUMNS, &w);
    t.x = tir_tile(f, p->dtype, TOKENS, COLUMNS, &x);
    t.sums = tir_tile(f, TIR_F32, ROWS, TOKENS, &sums);
    return t;
}

/* Returns a view of head `head` (i32) in tensor `t`: rows of TOKENS tokens from token `token` (i32)
 * on, or fewer if fewer tokens are left. A row has `width` elements of `size` bytes. */
static struct tir_view rows_of(const struct att_row_product *p, struct att_tensor t,
                               struct tir_value head, struct tir_value token, int width, int size)
{
    struct tir_builder *const b = p->b;
    const struct tir_value at = att_row(b, tir_arg(b, t.arg, TIR_I64), head, t.head_stride, size);
    const struct tir_value base = att_row(b, at, token, t.token_stride, size);
    const struct tir_value left = tir_min(b, tir_sub(b, p->tokens, token), tir_i32(b, TOKENS));
    return att_view(b, base, left, att_stride32(b, t.token_stride, size), width * size, 0);
}

/* Issues loads `first` to `end` - 1 of the rows of `view`, or fewer if the rows end before. Load i
 * sets to[i], of type `t`, to the COLUMNS columns from i * COLUMNS on. `size`: bytes of an element
 * in memory. */
static void load_rows(const struct att_row_product *p, struct tir_view view, int size,
                      struct tir_type t, unsigned first, unsigned end, struct tir_value *to)
{
    struct tir_builder *const b = p->b;
    for (unsigned i = first; i < end && i < loads(p); i++) {
        view.byte = tir_i32(b, (int)i * COLUMNS * size);
        to[i] = tir_tile_load(b, view, tir_i32(b, 0), t);
    }
}

/* Loads the scales of the rows of slice *s, if w has scales. */
static void load_scales(const struct att_row_product *p, struct slice *s)
{
    struct tir_builder *const b = p->b;
    const int n = (int)row_scales(p);
    struct tir_value first = s->head;
    if (p->weights == ATT_WEIGHTS_FP8_BLOCK) {
        const struct tir_value block = tir_shr(b, s->row, tir_i32(b, tir_bits(BLOCK)));
        first = att_times(
            b, tir_add(b, att_times(b, s->head, (p->rows + BLOCK - 1) / BLOCK), block), n);
    }
    for (int i = 0; i < n; i++)
        s->scale[i] = att_entry(b, p->w_scale, att_plus(b, first, i), TIR_F32);
}

/* Issues the loads of slice *s of w, as it is stored. */
static void load_weights(const struct att_row_product *p, const struct types *t, struct slice *s)
{
    struct tir_builder *const b = p->b;
    const int size = weight_size(p);
    const struct tir_value at =
        att_row(b, tir_arg(b, p->w, TIR_I64), s->head, p->w_head_stride, size);
    const struct tir_view view =
        att_view(b, att_row(b, at, s->row, p->w_row_stride, size), tir_i32(b, ROWS),
                 att_stride32(b, p->w_row_stride, size), (int)p->columns * size, 0);
    load_rows(p, view, size, t->w, 0, loads(p), s->w);
}

/* Converts slice *s, if it is fp8, to the type in which it is multiplied. */
static void convert_weights(const struct att_row_product *p, struct slice *s)
{
    for (unsigned i = 0; weight_size(p) == 1 && i < loads(p); i++)
        s->w[i] = tir_convert(p->b, s->w[i], p->dtype);
}

/* Returns the number of registers of a lane that hold `rows` rows of `columns` elements. */
static unsigned registers_of(const struct att_row_product *p, unsigned rows, unsigned columns)
{
    enum { REGISTER = 4 /* bytes */ };
    return rows * columns * ELEM / (tir_lanes(p->b->f->machine) * REGISTER);
}

/* Returns the number of loads of x that are issued before the products of the tokens begin. These
 * are all loads of a row if w and x leave registers of a wave. Else w and two groups of loads leave
 * some: one group is multiplied while the next one is loaded. */
static unsigned loads_ahead(const struct att_row_product *p)
{
    const unsigned most = p->b->f->machine->wave_vgprs, w = registers_of(p, ROWS, p->columns);
    unsigned n = loads(p);
    if (w + registers_of(p, TOKENS, p->columns) < most)
        return n;
    while (n > 1 && w + 2 * registers_of(p, TOKENS, n * COLUMNS) >= most)
        n = (n + 1) / 2;
    return n;
}

/* Issues loads `first` to `end` - 1 of rows of x, for TOKENS tokens from token `token` (i32) on.
 * Load i sets x[i]. Rows after the last token are 0. */
static void load_tokens(const struct att_row_product *p, const struct types *t,
                        const struct slice *s, struct tir_value token, unsigned first, unsigned end,
                        struct tir_value *x)
{
    const struct tir_view rows = rows_of(p, p->x, s->head, token, (int)p->columns, ELEM);
    load_rows(p, rows, ELEM, t->x, first, end, x);
}

/* Returns the product (f32) of slice *s with the rows x[] of TOKENS tokens from token `token` (i32)
 * on. The first loads_ahead() loads of x[] are already issued; this function issues the others, in
 * groups of that number. Columns that share a scale are summed before the scale multiplies the
 * sum. */
static struct tir_value sum_products(const struct att_row_product *p, const struct types *t,
                                     const struct slice *s, struct tir_value token,
                                     struct tir_value *x)
{
    struct tir_builder *const b = p->b;
    const unsigned scales = row_scales(p), each = scales ? loads(p) / scales : loads(p);
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0), t->sums);
    struct tir_value sum = {0};
    for (unsigned first = 0; first < loads(p); first += each) {
        struct tir_value part = zero;
        for (unsigned i = first; i < first + each; i++) {
            if (i && i % loads_ahead(p) == 0)
                load_tokens(p, t, s, token, i, i + loads_ahead(p), x);
            part = tir_mma(b, t->instr, s->w[i], tir_transpose(b, x[i]), part);
        }
        if (!scales)
            return part;
        const struct tir_value scale = tir_splat(b, s->scale[first / each], t->sums);
        sum = first ? tir_fma(b, part, scale, sum) : tir_mul(b, part, scale);
    }
    return sum;
}

/* Issues the first loads_ahead() loads of rows of x from token `token` (i32) on, into x[]. Keeps
 * x[] if there is no such token. */
static void load_more_tokens(const struct att_row_product *p, const struct types *t,
                             const struct slice *s, struct tir_value token, struct tir_value *x)
{
    struct tir_builder *const b = p->b;
    struct tir_type types[MAX_LOADS];
    const unsigned n = loads_ahead(p);
    for (unsigned i = 0; i < n; i++)
        types[i] = t->x;
    struct tir_value more[MAX_LOADS];
    struct tir_if some = tir_begin_if(b, tir_cmp_lt(b, token, p->tokens), false, types, n);
    load_tokens(p, t, s, token, 0, n, more);
    tir_else(b, &some, more);
    tir_end_if(b, &some, x);
}

/* Stores the sums of slice *s and TOKENS tokens from token `token` (i32) on in p->out. */
static void store_sums(const struct att_row_product *p, const struct slice *s,
                       struct tir_value token, struct tir_value sums)
{
    struct tir_builder *const b = p->b;
    struct tir_view to = rows_of(p, p->out, s->head, token, p->rows, p->out_size);
    to.byte = att_times(b, s->row, p->out_size);
    const struct tir_value out =
        p->convert ? p->convert(p->family, sums) : tir_convert(b, sums, p->dtype);
    tir_tile_store(b, to, tir_i32(b, 0), tir_transpose(b, out));
}

void att_row_product_slice(const struct att_row_product *p, struct tir_value number)
{
    struct tir_builder *const b = p->b;
    const struct types t = choose_types(p);
    const struct tir_value each = tir_i32(b, p->rows / ROWS);
    struct slice s = {.head = tir_div(b, number, each)};
    s.row = att_times(b, tir_sub(b, number, tir_mul(b, s.head, each)), ROWS);
    struct tir_value x[MAX_LOADS];
    const unsigned ahead = loads_ahead(p);
    const struct tir_value first = tir_i32(b, 0), step = tir_i32(b, TOKENS);
    load_weights(p, &t, &s);
    load_tokens(p, &t, &s, first, 0, ahead,
                x); /* rows of x are in flight while weights are converted */
    /* Loads scales last: a wait for an address that is loaded after scales would also wait for the
     * scales. */
    load_scales(p, &s);
    convert_weights(p, &s);
    struct tir_loop loop = tir_begin_for(b, first, p->tokens, step, x, ahead);
    const struct tir_value sums = sum_products(p, &t, &s, loop.index, x);
    load_more_tokens(p, &t, &s, tir_add(b, loop.index, step), x);
    store_sums(p, &s, loop.index, sums);
    tir_end_for(b, &loop, x, ahead);
}
