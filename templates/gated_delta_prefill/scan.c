/* SPDX-License-Identifier: Apache-2.0
 *
 * This file scans a chunk: it computes W, the outputs, and the state after the chunk. Each wave
 * processes some value elements of all tokens, and the state's columns for them. Right operands of
 * its products are the state and W, in the registers in which they were computed.
 */
#include "templates/gated_delta_prefill/chunk.h"

struct tir_value delta_transposed(struct delta *d, struct tir_value strip)
{
    struct tir_builder *b = &d->b;
    const struct tir_value transposed = tir_transpose(b, strip);
    const struct tir_layout l = tir_layout_regs_first(
        tir_layout_of(b->f, tir_typeof(b->f, transposed)), TIR_RC(0, DELTA_BLOCK - 1));
    return tir_relayout(b, transposed, &l);
}

void delta_store_transposed(struct delta *d, struct tir_value strip)
{
    const int bytes = d->v->head_dim * DELTA_BLOCK * DELTA_ELEM;
    tir_tile_lds_store(&d->b, delta_own(d, d->lds.transposed, bytes), delta_transposed(d, strip),
                       &d->map.panel);
}

struct tir_value delta_rounded(struct delta *d, struct tir_value a)
{
    return tir_convert_ties_any(&d->b, a, d->dtype);
}

struct tir_value delta_zeros(struct delta *d)
{
    return tir_splat(&d->b, tir_f32(&d->b, 0), d->t.values);
}

/* ---- Loads from LDS, ahead of use ---- */

/* Keys or queries of 16 tokens, and factors of the rows of their product with the state. */
struct strip {
    /* 16 x head_dim: left operand of the product with the state; f32, 16 x 1: a factor for each row
     * of that product. */
    struct tir_value left, factors;
    /* f32, 16 x 1: decay from the chunk's first token to each token; no value with a decay per
     * channel. */
    struct tir_value decays;
};

/* Coefficients of the chunk by block. n: blocks of N, with the inverse M on the diagonal. p: blocks
 * of P. Both are in the order of delta_block_of(). last: f32, 16 x 1, the decays from a block's
 * tokens to the chunk's last one; no values with a decay per channel. */
struct rest {
    struct tir_value n[DELTA_TRIANGLE], p[DELTA_TRIANGLE], last[DELTA_BLOCKS];
};

/* Loads the numbers of the tokens of block i (index) from the line at LDS address `line` (i32):
 * f32, 16 x 1. */
static struct tir_value load_rows(struct delta *d, struct tir_value line, int i)
{
    return tir_tile_lds_load(&d->b, att_plus(&d->b, line, i * DELTA_ROWS_BYTES), d->t.value_rows,
                             &d->map.rows);
}

/* Returns the LDS address (i32) of line `line` of this wave's lines. */
static struct tir_value line_of(struct delta *d, enum delta_line line)
{
    return att_plus(&d->b, d->lds.sums, line * DELTA_LINE_BYTES);
}

/* Loads strip `n` (index) from LDS: keys of block n, or queries of block n - DELTA_BLOCKS if n is
 * not below DELTA_BLOCKS. With a decay per channel the rows in LDS are decayed already. */
static struct strip load_strip(struct delta *d, int n)
{
    struct tir_builder *b = &d->b;
    const bool queries = n >= DELTA_BLOCKS;
    const int i = n % DELTA_BLOCKS, bytes = d->v->head_dim * DELTA_BLOCK * DELTA_ELEM;
    const struct tir_value at = att_plus(b, queries ? d->lds.q : d->lds.k, i * bytes);
    struct strip s = {.left = tir_tile_lds_load(b, at, d->t.left, &d->map.strip)};
    s.factors = load_rows(d, att_plus(b, d->lds.scales, queries ? DELTA_LINE_BYTES : 0), i);
    if (!delta_by_channel(d))
        s.decays = load_rows(d, line_of(d, DELTA_FROM_FIRST), i);
    return s;
}

/* Loads block `n` (index) of coefficients N or P. `region` (i32): LDS address of all blocks. The
 * block is loaded, as a left operand of products over 16 tokens. */
static struct tir_value load_block(struct delta *d, struct tir_value region, int n)
{
    return tir_tile_lds_load(&d->b, att_plus(&d->b, region, n * DELTA_BLOCK_BYTES),
                             d->t.coefficients, &d->map.block);
}

/* Loads the keys of 32 tokens from LDS as columns, head_dim x 32: the first 32 if `half` is 0, the
 * last 32 if 1. */
static struct tir_value load_transposed(struct delta *d, int half)
{
    const int bytes = d->v->head_dim * DELTA_CHUNK / 2 * DELTA_ELEM;
    return tir_tile_lds_load(&d->b, att_plus(&d->b, d->lds.transposed, half * bytes),
                             d->t.transposed, &d->map.transposed);
}

/* Loads all blocks of the coefficients N and P from LDS into *r. If all channels share a decay,
 * loads the decays to the chunk's last token too. */
static void load_rest(struct delta *d, struct rest *r)
{
    for (int n = 0; n < DELTA_TRIANGLE; n++) {
        r->n[n] = load_block(d, d->lds.n, n);
        r->p[n] = load_block(d, d->lds.p, n);
    }
    for (int i = 0; i < DELTA_BLOCKS && !delta_by_channel(d); i++)
        r->last[i] = load_rows(d, line_of(d, DELTA_TO_LAST), i);
}

/* ---- Products ---- */

/* Returns `rows`, a tile of 16 rows, with 16 rows of zeros after them. */
static struct tir_value pad(struct delta *d, struct tir_value rows)
{
    return tir_stack(&d->b, rows, tir_float_like(&d->b, rows, 0));
}

struct tir_value delta_add_block(struct delta *d, struct tir_value coefficients,
                                 struct tir_value rows, struct tir_value sum)
{
    struct tir_builder *b = &d->b;
    if (d->m->mma[d->by_block].k > DELTA_BLOCK) {
        coefficients = tir_transpose(b, pad(d, tir_transpose(b, coefficients)));
        rows = tir_relayout(b, pad(d, rows), tir_layout_of(b->f, d->t.padded));
    }
    return tir_mma(b, d->by_block, coefficients, rows, sum);
}

struct tir_value delta_times_rows(struct delta *d, struct tir_value a, struct tir_value rows)
{
    return tir_mul(&d->b, a, tir_broadcast(&d->b, rows, d->t.values));
}

/* Sets products[] to the products (f32) of all strips, first of keys and then of queries, with the
 * state. Rows are multiplied by their factors and decays. Also loads *r, the coefficients. The next
 * strip is loaded during each product, and *r during the last product. */
static void multiply_state(struct delta *d, struct tir_value state, struct tir_value *products,
                           struct rest *r)
{
    enum { STRIPS = 2 * DELTA_BLOCKS };
    struct tir_builder *b = &d->b;
    struct strip next = load_strip(d, 0);
    const struct tir_value operand = delta_operand(d, state);
    for (int n = 0; n < STRIPS; n++) {
        const struct strip s = next;
        if (n + 1 < STRIPS)
            next = load_strip(d, n + 1);
        else
            load_rest(d, r);
        tir_phase(b, 1);
        const struct tir_value product = tir_mma(b, d->over_keys, s.left, operand, delta_zeros(d));
        const struct tir_value factors =
            delta_by_channel(d) ? s.factors : tir_mul(b, s.factors, s.decays);
        products[n] = delta_times_rows(d, product, factors);
        tir_phase(b, 0);
    }
}

struct tir_value delta_operand(struct delta *d, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    return tir_relayout(b, delta_rounded(d, state), tir_layout_of(b->f, d->t.operand));
}

struct tir_value delta_without(struct delta *d, struct tir_value v, struct tir_value known)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout *const to = tir_layout_of(b->f, d->t.values);
    return tir_sub(b, tir_convert(b, tir_relayout(b, v, to), TIR_F32), known);
}

struct tir_view delta_out_view(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_OUT, TIR_I64), d->value_head, ARG_OUT_HEAD_STRIDE, DELTA_ELEM);
    const struct tir_value own = tir_add(b, head, att_wide(b, att_times(b, d->first, DELTA_ELEM)));
    const struct tir_value base = att_row(b, own, d->token, ARG_OUT_TOKEN_STRIDE, DELTA_ELEM);
    const struct tir_value left = tir_min(b, d->left, tir_i32(b, DELTA_CHUNK));
    return att_view(b, base, left, att_stride32(b, ARG_OUT_TOKEN_STRIDE, DELTA_ELEM),
                    (int)d->values * DELTA_ELEM, 0);
}

void delta_store_out(struct delta *d, struct tir_view view, int i, struct tir_value out)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout *const to = tir_layout_of(b->f, d->t.stored);
    const struct tir_value stored = tir_relayout(b, tir_convert_short(b, out, d->dtype), to);
    tir_tile_store(b, view, tir_i32(b, i * DELTA_BLOCK), stored);
}

/* Returns `a`, two blocks of 16 tokens x value elements, with tokens in the order of records. This
 * is four tokens of the first block, the same four of the second block, then the next four. */
static struct tir_value pack_tokens(struct delta *d, struct tir_value a)
{
    enum { FOUR = 4 };
    struct tir_builder *b = &d->b;
    const struct tir_value by_block = tir_join_blocks(b, a, DELTA_BLOCK);
    const struct tir_value groups = tir_split_blocks(b, tir_transpose(b, by_block), FOUR);
    return tir_split_blocks(b, tir_transpose(b, groups), d->values);
}

struct tir_value delta_advance(struct delta *d, struct tir_value keys, const struct tir_value *w,
                               struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout *const to = tir_layout_of(b->f, d->t.tokens);
    struct tir_value both = tir_stack(b, w[0], w[1]);
    if (delta_in_stages(d))
        both = pack_tokens(d, both);
    const struct tir_value tokens = tir_relayout(b, both, to);
    return tir_mma(b, d->over_tokens, keys, tokens, state);
}

struct tir_value delta_scan(struct delta *d, const struct delta_rows *rows, struct tir_value state)
{
    const struct tir_view view = delta_out_view(d);
    struct tir_value products[2 * DELTA_BLOCKS], last[DELTA_BLOCKS];
    struct tir_value *const left = products, *const out = products + DELTA_BLOCKS;
    struct tir_value keys = {0};
    struct rest r;
    multiply_state(d, state, products, &r);
    for (int i = 0; i < DELTA_BLOCKS; i++)
        left[i] = delta_without(d, rows->v[i], left[i]);
    state = delta_fade(d, state);
    /* Forward substitution: once W of block j is known, its product with N is subtracted from all
     * later blocks. */
    for (int j = 0; j < DELTA_BLOCKS; j++) {
        if (j % 2 == 0)
            keys = load_transposed(d, j / 2);
        const struct tir_value own = delta_add_block(d, r.n[delta_block_of(j, j)],
                                                     delta_rounded(d, left[j]), delta_zeros(d));
        const struct tir_value w = delta_rounded(d, own);
        for (int i = j + 1; i < DELTA_BLOCKS; i++)
            left[i] = delta_add_block(d, r.n[delta_block_of(i, j)], w, left[i]);
        for (int i = j; i < DELTA_BLOCKS; i++)
            out[i] = delta_add_block(d, r.p[delta_block_of(i, j)], w, out[i]);
        last[j] = delta_by_channel(d) ? w : delta_rounded(d, delta_times_rows(d, own, r.last[j]));
        delta_store_out(d, view, j, out[j]);
        if (j % 2)
            state = delta_advance(d, keys, last + j - 1, state);
    }
    return state;
}
