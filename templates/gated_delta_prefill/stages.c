/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernels of a call in three launches. The launch of chunks computes
 * coefficients, which need no state, of all chunks at once. The scan goes over the chunks of each
 * sequence, and computes the state before each chunk, and W. The launch of outputs computes the
 * outputs of all chunks at once. Results have the same bits as in one launch.
 *
 * In the scan and in the launch of outputs a wave processes some value elements, and shares nothing
 * with other waves.
 */
#include "ir/bits.h"
#include "templates/gated_delta_prefill/chunk.h"

#include <string.h>

/* Returns the bytes of a key, or of a query: head_dim elements of 16 bits. */
static int key_bytes(const struct delta *d) { return d->v->head_dim * DELTA_ELEM; }

/* ---- The launch of chunks ---- */

/* Stores `strip`, 16 x head_dim, as the wave's rows of `part`, DELTA_KEYS or DELTA_QUERIES, of the
 * chunk's record. */
static void record_strip(struct delta *d, enum delta_part part, struct tir_value strip)
{
    struct tir_builder *b = &d->b;
    tir_tile_store(b, delta_part(d, part, key_bytes(d), 0), att_times(b, d->wave, DELTA_BLOCK),
                   strip);
}

/* Loads the numbers (f32, 1 x 16) of the wave's tokens from the line at LDS address `line`
 * (i32). */
static struct tir_value own_numbers(struct delta *d, struct tir_value line)
{
    return tir_tile_lds_load(&d->b, delta_own(d, line, DELTA_ROWS_BYTES), d->t.cols, &d->map.cols);
}

/* Stores `numbers` (f32, 1 x 16), of the wave's tokens, to line `line` of the chunk's record. */
static void record_numbers(struct delta *d, enum delta_number line, struct tir_value numbers)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = delta_part(d, DELTA_NUMBERS, DELTA_ROWS_BYTES, 0);
    tir_tile_store(b, view, att_plus(b, d->wave, line * DELTA_BLOCKS), numbers);
}

/* Stores the lines of enum delta_number for the wave's tokens to the chunk's record. */
static void record_factors(struct delta *d)
{
    struct tir_builder *b = &d->b;
    struct tir_value keys = own_numbers(d, d->lds.scales);
    struct tir_value queries = own_numbers(d, att_plus(b, d->lds.scales, DELTA_LINE_BYTES));
    if (!delta_by_channel(d)) {
        const struct tir_value decay =
            own_numbers(d, att_plus(b, d->lds.sums, DELTA_FROM_FIRST * DELTA_LINE_BYTES));
        keys = tir_mul(b, keys, decay);
        queries = tir_mul(b, queries, decay);
        record_numbers(d, DELTA_OF_W,
                       own_numbers(d, att_plus(b, d->lds.sums, DELTA_TO_LAST * DELTA_LINE_BYTES)));
    }
    record_numbers(d, DELTA_OF_KEYS, keys);
    record_numbers(d, DELTA_OF_QUERIES, queries);
}

/* Stores the decay of the state over the chunk to the chunk's record. Only the first wave stores
 * it. */
static void record_fade(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value is_first = tir_cmp_eq(b, d->wave, tir_i32(b, 0));
    struct tir_if first = att_begin_if(b, is_first);
    const struct tir_view view = delta_part(d, DELTA_FADE, d->v->head_dim * DELTA_FLOAT, 0);
    const struct tir_value fade = delta_by_channel(d)
                                      ? delta_fade_of_channels(d, d->t.keys, &d->map.keys)
                                      : tir_splat(b, d->decay, d->t.one);
    tir_tile_store(b, view, tir_i32(b, 0), fade);
    tir_end_if(b, &first, NULL);
}

void delta_make_chunk(struct delta *d)
{
    struct delta_rows rows = {0};
    delta_load_head(d);
    delta_load_factors(d, &rows);
    delta_gates(d, &rows);
    if (delta_by_channel(d))
        delta_store_factors(d, &rows);
    delta_sync(d);
    if (delta_by_channel(d))
        delta_add_totals(d);
    delta_coefficients(d, &rows);
    tir_wait(&d->b, TIR_LDS_ORDER, 0);
    record_factors(d);
    record_fade(d);
    if (!delta_by_channel(d)) {
        delta_store_columns(d, rows.k);
        return;
    }
    const struct delta_decayed decayed = delta_decay_rows(d, &rows);
    record_strip(d, DELTA_KEYS, decayed.k);
    record_strip(d, DELTA_QUERIES, decayed.q);
    delta_store_columns(d, decayed.to_last);
}

/* ---- The scan ---- */

/* Operands of a chunk that a wave of the scan loads during the chunk before. All members are tiles.
 * An array's index is a block of 16 tokens, or delta_block_of() for n. */
struct scan_rows {
    /* Keys as left operands, 16-bit; factors DELTA_OF_KEYS, f32; V of all tokens at the wave's
     * value elements, 16-bit. */
    struct tir_value keys[DELTA_BLOCKS], of_keys[DELTA_BLOCKS], v;
    /* Blocks of the coefficients N, with their inverse M on the diagonal, 16-bit; keys of each half
     * of the tokens as columns, 16-bit; decay of the state over the chunk, f32. */
    struct tir_value n[DELTA_TRIANGLE], transposed[2], fade;
    /* Factors DELTA_OF_W, f32; no values with a decay per channel. */
    struct tir_value of_w[DELTA_BLOCKS];
};

/* Number of tiles in struct scan_rows. */
enum { SCAN_ROWS = sizeof(struct scan_rows) / sizeof(struct tir_value) };

/* Returns the number of tiles in struct scan_rows that loads set. With a decay per channel of_w,
 * the last member, is unset. */
static unsigned scan_count(const struct delta *d)
{
    return delta_by_channel(d) ? SCAN_ROWS - DELTA_BLOCKS : SCAN_ROWS;
}

/* Loads the chunk's keys, or with `queries` its queries, into strips[] by block, as left operands
 * of products with the state. */
static void load_strips(struct delta *d, bool queries, struct tir_value *strips)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view =
        delta_by_channel(d) ? delta_part(d, queries ? DELTA_QUERIES : DELTA_KEYS, key_bytes(d), 0)
                            : delta_rows_of_head(d, queries ? ATT_HEADS(Q) : ATT_HEADS(K_IN));
    for (int i = 0; i < DELTA_BLOCKS; i++)
        strips[i] = tir_tile_load(b, view, tir_i32(b, i * DELTA_BLOCK), d->t.left);
}

/* Loads the state's decay over the chunk from the chunk's record: f32, 1 x 1, or head_dim x 1 with
 * a decay per channel. */
static struct tir_value load_fade(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = delta_part(d, DELTA_FADE, DELTA_FLOAT, 0);
    return tir_tile_load(b, view, tir_i32(b, 0), delta_by_channel(d) ? d->t.state_rows : d->t.one);
}

/* Issues the loads of the chunk's keys and V, of the factors of keys, and of the state's decay into
 * *r. */
static void load_keys(struct delta *d, struct scan_rows *r)
{
    struct tir_builder *b = &d->b;
    load_strips(d, false, r->keys);
    r->v = tir_tile_load(b, delta_rows_of_v(d), tir_i32(b, 0), d->t.v_rows);
    for (int i = 0; i < DELTA_BLOCKS; i++)
        r->of_keys[i] = delta_load_numbers(d, DELTA_OF_KEYS, i);
    r->fade = load_fade(d);
}

/* Loads the chunk's blocks of coefficients N into *r and, if all channels share a decay, the
 * factors DELTA_OF_W. */
static void load_triangle(struct delta *d, struct scan_rows *r)
{
    delta_load_blocks(d, DELTA_N, r->n);
    for (int i = 0; i < DELTA_BLOCKS && !delta_by_channel(d); i++)
        r->of_w[i] = delta_load_numbers(d, DELTA_OF_W, i);
}

/* Loads the chunk's keys as columns into *r, in two halves of 32 tokens. */
static void load_transposed(struct delta *d, struct scan_rows *r)
{
    for (int half = 0; half < 2; half++)
        r->transposed[half] = delta_load_columns(d, half);
}

/* Stores `operand`, the state before the chunk in 16 bits, to the chunk's record. The launch of
 * outputs reads it. */
static void record_state(struct delta *d, struct tir_value operand)
{
    struct tir_builder *b = &d->b;
    tir_tile_store(b, delta_part(d, DELTA_STATE, key_bytes(d), 0), d->first,
                   tir_transpose(b, operand));
}

/* Stores `w`, the updates W of block j (index) in 16 bits, to the chunk's record. The launch of
 * outputs reads it. */
static void record_w(struct delta *d, int j, struct tir_value w)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view =
        delta_part(d, DELTA_W, DELTA_CHUNK * DELTA_ELEM, j * DELTA_BLOCK * DELTA_ELEM);
    tir_tile_store(b, view, d->first, tir_transpose(b, w));
}

/* Returns `state` (f32) times `fade`, its decay over a chunk: f32, 1 x 1, or head_dim x 1 with a
 * decay per channel. */
static struct tir_value faded(struct delta *d, struct tir_value state, struct tir_value fade)
{
    struct tir_builder *b = &d->b;
    const struct tir_value all = delta_by_channel(d)
                                     ? tir_broadcast(b, fade, d->t.state)
                                     : tir_splat(b, tir_first_lane(b, fade), d->t.state);
    return tir_mul(b, state, all);
}

/* Sets left[] (f32, by block) to V minus the product of keys with the state: the right-hand sides
 * of the chunk's equations for W. `operand` is the state in 16 bits. */
static void make_rest(struct delta *d, const struct scan_rows *r, struct tir_value operand,
                      struct tir_value *left)
{
    struct tir_builder *b = &d->b;
    tir_tile_lds_store(b, d->lds.v, r->v, &d->map.v);
    tir_wait(b, TIR_LDS_ORDER, 0);
    for (int i = 0; i < DELTA_BLOCKS; i++) {
        const struct tir_value at =
            att_plus(b, d->lds.v, i * DELTA_BLOCK * (int)d->values * DELTA_ELEM);
        const struct tir_value v = tir_tile_lds_load(b, at, d->t.stored, &d->map.v_block);
        const struct tir_value product =
            tir_mma(b, d->over_keys, r->keys[i], operand, delta_zeros(d));
        left[i] = delta_without(d, v, delta_times_rows(d, product, r->of_keys[i]));
    }
    tir_wait(b, TIR_LDS_ORDER, 0);
}

/* Solves the chunk's equations for W, block by block. left[] has the right-hand sides by block, and
 * is overwritten. Sets last[] (16 bits, by block) to W times its factors DELTA_OF_W. With
 * `records`, also stores W to the chunk's record. */
static void solve(struct delta *d, const struct scan_rows *r, bool records, struct tir_value *left,
                  struct tir_value *last)
{
    for (int j = 0; j < DELTA_BLOCKS; j++) {
        const struct tir_value own = delta_add_block(d, r->n[delta_block_of(j, j)],
                                                     delta_rounded(d, left[j]), delta_zeros(d));
        const struct tir_value w = delta_rounded(d, own);
        for (int i = j + 1; i < DELTA_BLOCKS; i++)
            left[i] = delta_add_block(d, r->n[delta_block_of(i, j)], w, left[i]);
        if (records)
            record_w(d, j, w);
        last[j] = delta_by_channel(d) ? w : delta_rounded(d, delta_times_rows(d, own, r->of_w[j]));
    }
}

/* Sets d's chunk members to the chunk whose first token is `token` (i32, row index in q), and whose
 * row in `chunks` is `row` (i32, index). */
static void choose_chunk(struct delta *d, struct tir_value token, struct tir_value row)
{
    delta_begin_chunk(d, token);
    delta_set_record(d, row);
}

/* Runs `load` into *r for the chunk whose first token is `token` (i32), and whose row in `chunks`
 * is `row` (i32). Then sets d's chunk members back to the current chunk. */
static void load_next(struct delta *d, struct tir_value token, struct tir_value row,
                      void (*load)(struct delta *d, struct scan_rows *r), struct scan_rows *r)
{
    const struct tir_value own_token = d->token, own_row = d->row;
    choose_chunk(d, token, row);
    load(d, r);
    choose_chunk(d, own_token, own_row);
}

/* Returns the state (f32) after the current chunk. `state` is the state before it, and *r has the
 * chunk's operands. Loads the next chunk's operands into *r, each part as soon as the current
 * chunk's is used. The next chunk's first token is `after` (i32), and its row in `chunks` is `row`
 * (i32). With `records`, stores the state before the chunk and the updates W in the current chunk's
 * record. */
static struct tir_value scan_chunk(struct delta *d, struct scan_rows *r, bool records,
                                   struct tir_value state, struct tir_value after,
                                   struct tir_value row)
{
    struct tir_value left[DELTA_BLOCKS], last[DELTA_BLOCKS];
    const struct tir_value operand = delta_operand(d, state);
    make_rest(d, r, operand, left);
    if (records)
        record_state(d, operand);
    state = faded(d, state, r->fade);
    load_next(d, after, row, load_keys, r);
    solve(d, r, records, left, last);
    load_next(d, after, row, load_triangle, r);
    for (int half = 0; half < 2; half++)
        state = delta_advance(d, r->transposed[half], last + 2 * half, state);
    load_next(d, after, row, load_transposed, r);
    return state;
}

/* Returns the row index in `chunks` (i32) of the segment's first chunk. */
static struct tir_value first_row_of_segment(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value first = delta_first_row(d, d->sequence.start, d->sequence.index);
    const struct tir_value tokens = tir_sub(b, d->token, d->sequence.start);
    return tir_add(b, first, tir_shr(b, tokens, tir_i32(b, tir_bits(DELTA_CHUNK))));
}

struct tir_value delta_scan_chunks(struct delta *d, struct tir_value state, bool records)
{
    struct tir_builder *b = &d->b;
    union {
        struct scan_rows rows;
        struct tir_value values[SCAN_ROWS];
    } r = {0};
    struct tir_value carried[SCAN_ROWS + 2];
    const unsigned n = scan_count(d);
    const struct tir_value chunk = tir_i32(b, DELTA_CHUNK), first = d->token, end = d->end;
    carried[n] = state;
    carried[n + 1] = first_row_of_segment(d);
    choose_chunk(d, first, carried[n + 1]);
    load_keys(d, &r.rows);
    load_triangle(d, &r.rows);
    load_transposed(d, &r.rows);
    memcpy(carried, r.values, n * sizeof(*carried));
    struct tir_loop loop = tir_begin_for(b, first, end, chunk, carried, n + 2);
    const struct tir_value after = att_plus(b, loop.index, DELTA_CHUNK), row = carried[n + 1];
    const struct tir_value is_last = tir_cmp_ge(b, after, end);
    carried[n + 1] = tir_select(b, is_last, row, att_plus(b, row, 1));
    memcpy(r.values, carried, n * sizeof(*carried));
    choose_chunk(d, loop.index, row);
    carried[n] = scan_chunk(d, &r.rows, records, carried[n], after, carried[n + 1]);
    if (records)
        delta_store_block_state(d, after, carried[n]);
    memcpy(carried, r.values, n * sizeof(*carried));
    tir_end_for(b, &loop, carried, n + 2);
    return carried[n];
}

void delta_scan_segment(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value is_last = tir_cmp_eq(b, d->end, d->sequence.end);
    const struct tir_value state = delta_scan_chunks(d, delta_state_before(d), true);
    d->real = tir_and(b, d->real, is_last);
    delta_store_state(d, state);
}

/* ---- Outputs ---- */

void delta_make_outputs(struct delta *d)
{
    struct tir_builder *b = &d->b;
    struct tir_value queries[DELTA_BLOCKS], w[DELTA_BLOCKS], p[DELTA_TRIANGLE];
    load_strips(d, true, queries);
    delta_load_blocks(d, DELTA_P, p);
    const struct tir_value transposed =
        tir_tile_load(b, delta_part(d, DELTA_STATE, key_bytes(d), 0), d->first, d->t.value_keys);
    const struct tir_value operand = tir_transpose(b, transposed);
    for (int j = 0; j < DELTA_BLOCKS; j++) {
        const struct tir_view view =
            delta_part(d, DELTA_W, DELTA_CHUNK * DELTA_ELEM, j * DELTA_BLOCK * DELTA_ELEM);
        w[j] = tir_transpose(b, tir_tile_load(b, view, d->first, d->t.value_tokens));
    }
    const struct tir_view view = delta_out_view(d);
    for (int i = 0; i < DELTA_BLOCKS; i++) {
        const struct tir_value product =
            tir_mma(b, d->over_keys, queries[i], operand, delta_zeros(d));
        struct tir_value out =
            delta_times_rows(d, product, delta_load_numbers(d, DELTA_OF_QUERIES, i));
        for (int j = 0; j <= i; j++)
            out = delta_add_block(d, p[delta_block_of(i, j)], w[j], out);
        delta_store_out(d, view, i, out);
    }
}
