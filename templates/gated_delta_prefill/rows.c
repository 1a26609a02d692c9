/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads a chunk's rows from memory, and computes decays from their gates.
 *
 * Exponents are log2 of decays, as sums from one token to a later one. No sum is positive, so no
 * decay is larger than 1. If all channels share a decay, exponents are differences of two sums from
 * the chunk's first token on. With a decay per channel an exponent adds sums within blocks of 16
 * tokens and sums of whole blocks. Differences would lose low bits in each channel.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/chunk.h"
#include "templates/linear/gates.h"

/* ---- Memory ---- */

/* Returns a view of the rows of tensor `t` from row `row` (i32) of a chunk on, at most 64. The
 * chunk's first token is `token` (i32), and `tokens` (i32) of the chunk's tokens exist. A row of
 * the view begins at `element` (i64), and has `row_bytes` bytes. An element has `size` bytes. */
static struct tir_view view_of(struct delta *d, struct tir_value tokens, struct att_tensor t,
                               int size, struct tir_value token, struct tir_value row,
                               struct tir_value element, int row_bytes)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = tir_mul(b, element, tir_i64(b, size));
    const struct tir_value base = att_at(b, t.arg, at);
    const struct tir_value first = att_row(b, base, tir_add(b, token, row), t.token_stride, size);
    const struct tir_value left = tir_min(b, tir_sub(b, tokens, row), tir_i32(b, DELTA_CHUNK));
    return att_view(b, first, left, att_stride32(b, t.token_stride, size), row_bytes, 0);
}

/* Returns view_of() of these arguments, with d->loaded as the number of tokens that exist. Loads
 * of other rows return 0. */
static struct tir_view rows_view(struct delta *d, struct att_tensor t, int size,
                                 struct tir_value token, struct tir_value row,
                                 struct tir_value element, int row_bytes)
{
    return view_of(d, d->loaded, t, size, token, row, element, row_bytes);
}

/* Returns the index (i32) in the chunk of this wave's first token. */
static struct tir_value own_row(struct delta *d) { return att_times(&d->b, d->wave, DELTA_BLOCK); }

/* Loads a strip, 16 x head_dim of `dtype` (enum tir_dtype): the wave's rows of tensor `t`, from
 * element `element` (i64) of each row on. The chunk's first token is `token` (i32). */
static struct tir_value load_strip(struct delta *d, struct att_tensor t, struct tir_value token,
                                   struct tir_value element, unsigned dtype)
{
    const int size = dtype == TIR_F32 ? DELTA_FLOAT : DELTA_ELEM;
    const struct tir_view view =
        rows_view(d, t, size, token, own_row(d), element, d->v->head_dim * size);
    return tir_tile_load(&d->b, view, tir_i32(&d->b, 0), tir_with_dtype(d->t.strip, dtype));
}

/* Loads the number that tensor `t` [token, head] has for each of the chunk's 64 tokens at the value
 * head: 64 x 1 of `dtype` (enum tir_dtype). The chunk's first token is `token` (i32). */
static struct tir_value load_line(struct delta *d, struct att_tensor t, struct tir_value token,
                                  unsigned dtype)
{
    const int size = dtype == TIR_F32 ? DELTA_FLOAT : DELTA_ELEM;
    const struct tir_value zero = tir_i32(&d->b, 0), head = att_wide(&d->b, d->value_head);
    const struct tir_view view = rows_view(d, t, size, token, zero, head, size);
    return tir_tile_load(&d->b, view, zero, tir_with_dtype(d->t.line, dtype));
}

/* Returns the number of elements (i64) from a token's first element to the first element of head
 * `head` (i32). `stride` is the name of the argument with the elements between heads. */
static struct tir_value head_element(struct delta *d, struct tir_value head, const char *stride)
{
    return tir_mul(&d->b, att_wide(&d->b, head), tir_arg(&d->b, stride, TIR_I64));
}

/* Loads gates and betas into *rows for the chunk whose first token is `token` (i32). Gates are
 * numbers of all 64 tokens, or, with a decay per channel, the wave's rows. */
static void load_gates(struct delta *d, struct tir_value token, struct delta_rows *rows)
{
    const bool given = d->v->gates == ATT_GATES_GIVEN;
    const unsigned dtype = given ? TIR_F32 : d->dtype;
    const struct att_tensor gate = given ? ATT_TOKENS(LOG_DECAY) : ATT_TOKENS(GATE_IN);
    const struct att_tensor beta = given ? ATT_TOKENS(BETA) : ATT_TOKENS(BETA_IN);
    if (delta_by_channel(d))
        rows->gate =
            load_strip(d, gate, token,
                       att_wide(&d->b, att_times(&d->b, d->value_head, d->v->head_dim)), dtype);
    else
        rows->gate = load_line(d, gate, token, dtype);
    rows->beta = load_line(d, beta, token, dtype);
}

void delta_begin_chunk(struct delta *d, struct tir_value token)
{
    struct tir_builder *b = &d->b;
    d->token = token;
    d->left = tir_sub(b, d->sequence.end, token);
    d->loaded = tir_select(b, d->real, d->left, tir_i32(b, 0));
}

struct tir_view delta_rows_of_head(struct delta *d, struct att_tensor t)
{
    return rows_view(d, t, DELTA_ELEM, d->token, tir_i32(&d->b, 0),
                     head_element(d, d->head, t.head_stride), d->v->head_dim * DELTA_ELEM);
}

void delta_load_factors(struct delta *d, struct delta_rows *rows)
{
    const struct tir_value token = d->token;
    const struct tir_value head_k = head_element(d, d->head, ARG_K_IN_HEAD_STRIDE);
    const struct tir_value head_q = head_element(d, d->head, ARG_Q_HEAD_STRIDE);
    rows->k = load_strip(d, ATT_HEADS(K_IN), token, head_k, d->dtype);
    load_gates(d, token, rows);
    rows->q = load_strip(d, ATT_HEADS(Q), token, head_q, d->dtype);
}

struct tir_view delta_rows_of_v(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value head_v = head_element(d, d->value_head, ARG_V_IN_HEAD_STRIDE);
    const struct tir_value tokens = d->v->stage == ATT_STAGE_SEGMENTS
                                        ? tir_select(b, d->seen, d->loaded, tir_i32(b, 0))
                                        : d->loaded;
    return view_of(d, tokens, ATT_HEADS(V_IN), DELTA_ELEM, d->token, tir_i32(b, 0),
                   tir_add(b, head_v, att_wide(b, d->first)), (int)d->values * DELTA_ELEM);
}

void delta_load_values(struct delta *d, struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = delta_rows_of_v(d);
    for (int i = 0; i < DELTA_BLOCKS; i++)
        rows->v[i] = tir_tile_load(b, view, tir_i32(b, i * DELTA_BLOCK), d->t.stored);
}

/* ---- Value heads ---- */

/* Returns the value head's number (f32) in the array argument `arg` [value head]; 0 if the argument
 * is NULL. */
static struct tir_value head_float(struct delta *d, const char *arg)
{
    struct tir_builder *b = &d->b;
    return att_entry_or(b, arg, d->value_head, tir_f32(b, 0));
}

/* Loads dt_bias of all channels of the value head: f32, 1 x head_dim. Returns zeros if the argument
 * is NULL. */
static struct tir_value load_biases(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const int bytes = d->v->head_dim * DELTA_FLOAT;
    const struct tir_value there =
        tir_select(b, att_is_given(b, ARG_DT_BIAS), tir_i32(b, bytes), tir_i32(b, 0));
    const struct tir_value base = att_at(b, ARG_DT_BIAS, att_wide_times(b, d->value_head, bytes));
    const struct tir_view view = {tir_make_rsrc(b, base, there), tir_i32(b, bytes), tir_i32(b, 0)};
    return tir_tile_load(b, view, tir_i32(b, 0), d->t.keys);
}

void delta_load_head(struct delta *d)
{
    struct tir_builder *b = &d->b;
    if (d->v->gates == ATT_GATES_GIVEN)
        return;
    const struct tir_value a = att_exp(b, tir_splat(b, head_float(d, ARG_A_LOG), d->t.line));
    d->a = tir_first_lane(b, a);
    d->bias = delta_by_channel(d) ? load_biases(d) : head_float(d, ARG_DT_BIAS);
}

struct tir_value delta_last_row(struct delta *d, struct tir_value a)
{
    while (tir_typeof(d->b.f, a).rows > 1)
        a = tir_half(&d->b, a, 1);
    return a;
}

/* ---- Gates ---- */

struct tir_value delta_spread(struct delta *d, struct tir_value keys)
{
    return tir_broadcast(&d->b, keys, tir_with_dtype(d->t.strip, TIR_F32));
}

/* Returns g, the natural logarithm of the decay, as f32 in the shape of `raw`: the gates as
 * loaded. */
static struct tir_value log_decay(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->b;
    const struct tir_value in = tir_convert(b, raw, TIR_F32);
    const struct tir_type t = tir_typeof(b->f, in);
    if (d->v->gates == ATT_GATES_GIVEN)
        return in;
    const struct tir_value bias =
        delta_by_channel(d) ? tir_broadcast(b, d->bias, t) : tir_splat(b, d->bias, t);
    return att_log_decay(b, d->v, in, tir_splat(b, d->a, t), bias);
}

/* Returns log_decay() of `raw`. With a decay per channel it computes a few rows at a time, since
 * softplus needs two scalar registers per element for a mask. */
static struct tir_value log_decay_by_parts(struct delta *d, struct tir_value raw)
{
    enum { FEW = 4 };
    struct tir_builder *b = &d->b;
    if (!delta_by_channel(d) || tir_typeof(b->f, raw).rows <= FEW) {
        const struct tir_value g = log_decay(d, raw);
        tir_anchor(b, g);
        return g;
    }
    const struct tir_value upper = log_decay_by_parts(d, tir_half(b, raw, 0));
    return tir_stack(b, upper, log_decay_by_parts(d, tir_half(b, raw, 1)));
}

/* Returns log2 of the decays (f32) of tokens from `raw`, their gates as loaded. Rows from `end`
 * (i32) on are padding and become 0. */
static struct tir_value exponents(struct delta *d, struct tir_value raw, struct tir_value end)
{
    struct tir_builder *b = &d->b;
    const struct tir_value g = log_decay_by_parts(d, raw);
    const struct tir_value x = tir_mul(b, g, tir_float_like(b, g, ATT_LOG2E));
    const struct tir_value row = tir_row_index(b, tir_typeof(b->f, x));
    const struct tir_value is = tir_cmp_lt(b, row, att_like(b, end, row));
    return tir_select(b, is, x, tir_float_like(b, x, 0));
}

/* Returns prefix sums over rows: row i of the result is the sum of rows 0 to i of `x`. */
static struct tir_value sums_of(struct delta *d, struct tir_value x)
{
    struct tir_builder *b = &d->b;
    return tir_transpose(b, tir_row_prefix_sum(b, tir_transpose(b, x)));
}

/* Stores `x`, f32, 64 x 1, to line `line` of the wave's lines in LDS. */
static void store_line(struct delta *d, enum delta_line line, struct tir_value x)
{
    const struct tir_value at = att_plus(&d->b, d->lds.sums, line * DELTA_CHUNK * DELTA_FLOAT);
    tir_tile_lds_store(&d->b, at, x, &d->map.line);
}

/* Computes decays from `raw`, 64 x 1 gates as loaded, stores their lines of enum delta_line to LDS,
 * and sets d->decay. */
static void gates_of_head(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->b;
    const struct tir_value sum = sums_of(d, exponents(d, raw, d->loaded));
    const struct tir_value all = att_chunk_last(b, sum);
    const struct tir_value rest = tir_sub(b, tir_splat(b, all, d->t.line), sum);
    store_line(d, DELTA_SUM, sum);
    store_line(d, DELTA_FROM_FIRST, tir_exp2(b, sum));
    store_line(d, DELTA_TO_LAST, tir_exp2(b, tir_min(b, rest, tir_float_like(b, rest, 0))));
    d->decay = att_chunk_last(b, tir_exp2(b, sum));
}

struct tir_value delta_total(struct delta *d) { return delta_last_row(d, d->local); }

/* Sets d->local from `raw`, the wave's gates as loaded (16 x head_dim). Stores log2 of the decay
 * over the wave's whole block to LDS. */
static void gates_of_channels(struct delta *d, struct tir_value raw)
{
    struct tir_builder *b = &d->b;
    d->local = sums_of(d, exponents(d, raw, tir_sub(b, d->loaded, own_row(d))));
    const struct tir_value at = delta_own(d, d->lds.totals, d->v->head_dim * DELTA_FLOAT);
    tir_tile_lds_store(b, at, delta_total(d), &d->map.keys);
}

void delta_gates(struct delta *d, const struct delta_rows *rows)
{
    struct tir_builder *b = &d->b;
    if (delta_by_channel(d))
        gates_of_channels(d, rows->gate);
    else
        gates_of_head(d, rows->gate);
    const struct tir_value x = tir_convert(b, rows->beta, TIR_F32);
    store_line(d, DELTA_BETA, d->v->gates == ATT_GATES_GIVEN ? x : att_sigmoid(b, x));
}

/* Returns `x` (f32 tile) if `is` (scalar i1) is true, else zeros. */
static struct tir_value where(struct tir_builder *b, struct tir_value is, struct tir_value x)
{
    const struct tir_value all = att_like(b, is, x);
    return tir_select(b, all, x, tir_float_like(b, x, 0));
}

/* Returns the LDS address (i32) of the total of block i (index): log2 of the decay over the block,
 * head_dim f32. */
static struct tir_value total_at(struct delta *d, int i)
{
    return att_plus(&d->b, d->lds.totals, i * d->v->head_dim * DELTA_FLOAT);
}

void delta_add_totals(struct delta *d)
{
    struct tir_builder *b = &d->b;
    for (int i = 0; i < DELTA_BLOCKS; i++) {
        const struct tir_value total =
            tir_tile_lds_load(b, total_at(d, i), d->t.keys, &d->map.keys);
        const struct tir_value block = tir_i32(b, i);
        const struct tir_value before = where(b, tir_cmp_lt(b, block, d->wave), total);
        const struct tir_value after = where(b, tir_cmp_gt(b, block, d->wave), total);
        d->before = i ? tir_add(b, d->before, before) : before;
        d->after = i ? tir_add(b, d->after, after) : after;
    }
}

struct tir_value delta_fade_of_channels(struct delta *d, struct tir_type t,
                                        const struct tir_layout *map)
{
    struct tir_builder *b = &d->b;
    struct tir_value all = {0};
    for (int i = 0; i < DELTA_BLOCKS; i++) {
        const struct tir_value total = tir_tile_lds_load(b, total_at(d, i), t, map);
        all = i ? tir_add(b, all, total) : total;
    }
    return tir_exp2(b, all);
}

struct tir_value delta_fade(struct delta *d, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    if (!delta_by_channel(d))
        return tir_mul(b, state, tir_splat(b, d->decay, d->t.state));
    const struct tir_value fade = delta_fade_of_channels(d, d->t.state_rows, &d->map.state);
    return tir_mul(b, state, tir_broadcast(b, fade, d->t.state));
}

struct tir_value delta_decayed(struct delta *d, struct tir_value strip, struct tir_value exponent)
{
    struct tir_builder *b = &d->b;
    const struct tir_value x = tir_convert(b, strip, TIR_F32);
    return tir_convert_ties_any(b, tir_mul(b, x, tir_exp2(b, exponent)), d->dtype);
}
