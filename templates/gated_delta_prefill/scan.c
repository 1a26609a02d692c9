/* SPDX-License-Identifier: Apache-2.0
 *
 * The scan of a chunk: each wave has some value elements of all tokens, and the state for them. Its
 * products have the state or W as right operands, in the registers in which they were computed.
 */
#include "templates/gated_delta_prefill/chunk.h"

enum { BLOCK_BYTES = DELTA_BLOCK * DELTA_BLOCK * DELTA_ELEM };
enum { LINE_BYTES = DELTA_CHUNK * DELTA_FLOAT, ROWS_BYTES = DELTA_BLOCK * DELTA_FLOAT };

void delta_store_turned(struct delta *d, struct tir_value strip)
{
    struct tir_builder *b = &d->b;
    const int bytes = d->v->head_dim * DELTA_BLOCK * DELTA_ELEM;
    const struct tir_value turned = tir_transpose(b, strip);
    const struct tir_layout l = tir_layout_regs_first(tir_layout_of(b->f, tir_typeof(b->f, turned)),
                                                      TIR_RC(0, DELTA_BLOCK - 1));
    tir_tile_lds_store(b, delta_own(d, d->lds.turned, bytes), tir_relayout(b, turned, &l),
                       &d->map.panel);
}

static struct tir_value zeros(struct delta *d)
{
    return tir_splat(&d->b, tir_f32(&d->b, 0), d->t.values);
}

/* Rows of block i times the numbers that a line in LDS has for them. */
static struct tir_value times_line(struct delta *d, struct tir_value a, struct tir_value line,
                                   int i)
{
    struct tir_builder *b = &d->b;
    const struct tir_value rows =
        tir_tile_lds_load(b, att_plus(b, line, i * ROWS_BYTES), d->t.value_rows, &d->map.rows);
    return tir_mul(b, a, tir_broadcast(b, rows, d->t.values));
}

static struct tir_value times_decay(struct delta *d, struct tir_value a, enum delta_line line,
                                    int i)
{
    if (delta_by_channel(d))
        return a; /* the keys have it */
    return times_line(d, a, att_plus(&d->b, d->lds.sums, line * LINE_BYTES), i);
}

/* The product of strip i of keys or queries with the state, decayed and scaled. */
static struct tir_value from_state(struct delta *d, struct tir_value region, struct tir_value line,
                                   struct tir_value state, int i)
{
    struct tir_builder *b = &d->b;
    const int bytes = d->v->head_dim * DELTA_BLOCK * DELTA_ELEM;
    const struct tir_value strip =
        tir_tile_lds_load(b, att_plus(b, region, i * bytes), d->t.left, &d->map.strip);
    const struct tir_value product = tir_mma(b, d->over_keys, strip, state, zeros(d));
    return times_line(d, times_decay(d, product, DELTA_FROM_FIRST, i), line, i);
}

/* Adds the product of block [i][j] of a triangle with the rows of block j. */
static struct tir_value add_block(struct delta *d, struct tir_value region, int i, int j,
                                  struct tir_value rows, struct tir_value sum)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = att_plus(b, region, (i * (i + 1) / 2 + j) * BLOCK_BYTES);
    const struct tir_value block = tir_tile_lds_load(b, at, d->t.coefficients, &d->map.block);
    return tir_mma(b, d->by_block, block, rows, sum);
}

static struct tir_value rounded(struct delta *d, struct tir_value a)
{
    return tir_convert_ties_any(&d->b, a, d->dtype);
}

/* W of block i, in float; `w` has the blocks before, rounded. */
static struct tir_value solve(struct delta *d, struct tir_value v, struct tir_value state,
                              const struct tir_value *w, int i)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout *const to = tir_layout_of(b->f, d->t.values);
    const struct tir_value known = from_state(d, d->lds.k, d->lds.scales, state, i);
    struct tir_value rest = tir_sub(b, tir_convert(b, tir_relayout(b, v, to), TIR_F32), known);
    for (int j = 0; j < i; j++)
        rest = add_block(d, d->lds.n, i, j, w[j], rest);
    return add_block(d, d->lds.n, i, i, rounded(d, rest), zeros(d));
}

/* The rows of the chunk of `out`, this wave's value elements. */
static struct tir_view out_view(struct delta *d, struct tir_value token)
{
    struct tir_builder *b = &d->b;
    const struct tir_value head =
        att_row(b, tir_arg(b, ARG_OUT, TIR_I64), d->value_head, ARG_OUT_HEAD_STRIDE, DELTA_ELEM);
    const struct tir_value own = tir_add(b, head, att_wide(b, att_times(b, d->first, DELTA_ELEM)));
    const struct tir_value base = att_row(b, own, token, ARG_OUT_TOKEN_STRIDE, DELTA_ELEM);
    const struct tir_value left = tir_min(b, d->left, tir_i32(b, DELTA_CHUNK));
    return att_view(b, base, left, att_stride32(b, ARG_OUT_TOKEN_STRIDE, DELTA_ELEM),
                    (int)d->values * DELTA_ELEM, 0);
}

static void store_out(struct delta *d, struct tir_view view, int i, struct tir_value out)
{
    struct tir_builder *b = &d->b;
    const struct tir_layout *const to = tir_layout_of(b->f, d->t.stored);
    const struct tir_value stored = tir_relayout(b, tir_convert_short(b, out, d->dtype), to);
    tir_tile_store(b, view, tir_i32(b, i * DELTA_BLOCK), stored);
}

/* S = decay S + (K decayed)^T W; `w` has W decayed up to the last row. */
static struct tir_value advance(struct delta *d, const struct tir_value *w, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value upper = tir_stack(b, w[0], w[1]), lower = tir_stack(b, w[2], w[3]);
    const struct tir_value tokens =
        tir_relayout(b, tir_stack(b, upper, lower), tir_layout_of(b->f, d->t.tokens));
    const struct tir_value keys = tir_tile_lds_load(b, d->lds.turned, d->t.turned, &d->map.turned);
    return tir_mma(b, d->over_tokens, keys, tokens, delta_fade(d, state));
}

struct tir_value delta_scan(struct delta *d, struct tir_value token, const struct delta_rows *rows,
                            struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct tir_value queries = att_plus(b, d->lds.scales, LINE_BYTES);
    const struct tir_value operand =
        tir_relayout(b, rounded(d, state), tir_layout_of(b->f, d->t.operand));
    const struct tir_view view = out_view(d, token);
    struct tir_value w[DELTA_BLOCKS], last[DELTA_BLOCKS];
    for (int i = 0; i < DELTA_BLOCKS; i++) {
        const struct tir_value own = solve(d, rows->v[i], operand, w, i);
        w[i] = rounded(d, own);
        last[i] = delta_by_channel(d) ? w[i] : rounded(d, times_decay(d, own, DELTA_TO_LAST, i));
        struct tir_value out = from_state(d, d->lds.q, queries, operand, i);
        for (int j = 0; j <= i; j++)
            out = add_block(d, d->lds.p, i, j, w[j], out);
        store_out(d, view, i, out);
    }
    return advance(d, last, state);
}
