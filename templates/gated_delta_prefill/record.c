/* SPDX-License-Identifier: Apache-2.0
 *
 * This file addresses, stores and loads the records of argument `chunks`: one for each chunk and
 * value head, in which a launch of the call leaves results for later launches.
 *
 * The rows of sequence s begin with row start / 64 + s. start is the index of its first token, a
 * row of q. So there are enough rows for any lengths, with at most one row too many for each
 * sequence. The row of a chunk follows from its sequence, without a list.
 */
#include "templates/gated_delta_prefill/chunk.h"

#include "ir/bits.h"

/* FOUR: number of adjacent columns of a block, or of tokens, that are together in a record. PACK:
 * number of elements of a row of 16 bytes. */
enum { FOUR = 4, PACK = 2 * FOUR };
enum { FLOATS = 4 /* number of f32 in 16 bytes, the alignment of all parts of a record */ };

/* Returns the bytes of part `part` of a chunk's record; 0 if the variant has no such part. */
static int part_bytes(const struct att_variant *v, enum delta_part part)
{
    const bool channels = v->decay == ATT_DECAY_CHANNEL;
    const int rows = DELTA_CHUNK * DELTA_ELEM;
    switch (part) {
    case DELTA_KEYS:
    case DELTA_QUERIES: return channels ? rows * v->head_dim : 0;
    case DELTA_KEY_COLUMNS: return rows * v->head_dim;
    case DELTA_N:
    case DELTA_P: return DELTA_TRIANGLE * DELTA_BLOCK * DELTA_BLOCK * DELTA_ELEM;
    case DELTA_NUMBERS: return DELTA_NUMBER_LINES * DELTA_LINE_BYTES;
    case DELTA_FADE: return (channels ? v->head_dim : FLOATS) * DELTA_FLOAT;
    case DELTA_STATE: return v->head_dim_v * v->head_dim * DELTA_ELEM;
    case DELTA_W: return rows * v->head_dim_v;
    default: return 0;
    }
}

/* Returns the byte offset of part `part` in a record. */
static int bytes_before(const struct att_variant *v, enum delta_part part)
{
    int bytes = 0;
    for (enum delta_part p = 0; p < part; p++)
        bytes += part_bytes(v, p);
    return bytes;
}

void delta_set_record(struct delta *d, struct tir_value row)
{
    d->row = row;
    d->record =
        att_value_head_row(&d->b, ARG_CHUNKS, row, d->value_head, bytes_before(d->v, DELTA_PARTS));
}

struct tir_view delta_part(struct delta *d, enum delta_part part, int row_bytes, int byte)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = tir_add(b, d->record, tir_i64(b, bytes_before(d->v, part)));
    return (struct tir_view){tir_make_rsrc(b, at, tir_i32(b, part_bytes(d->v, part))),
                             tir_i32(b, row_bytes), tir_i32(b, byte)};
}

void delta_store_block(struct delta *d, enum delta_part part, struct tir_value n,
                       struct tir_value a)
{
    struct tir_builder *b = &d->b;
    const struct tir_value one = tir_i32(b, 1);
    struct tir_view view = delta_part(d, part, PACK * DELTA_ELEM, 0);
    view.byte = att_times(b, tir_and(b, n, one), FOUR * DELTA_ELEM);
    tir_tile_store(b, view, att_times(b, tir_shr(b, n, one), FOUR * DELTA_BLOCK),
                   tir_split_blocks(b, a, FOUR));
}

/* Loads blocks n and n + 1 of `part`, DELTA_N or DELTA_P, which are interleaved in a record, to
 * blocks[n] and blocks[n + 1]. `n` is even. */
static void load_pair(struct delta *d, enum delta_part part, int n, struct tir_value *blocks)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = delta_part(d, part, PACK * DELTA_ELEM, 0);
    const struct tir_value row = tir_i32(b, n / 2 * FOUR * DELTA_BLOCK);
    const struct tir_value pair = tir_transpose(b, tir_tile_load(b, view, row, d->t.packed_blocks));
    for (int i = 0; i < 2; i++) {
        const struct tir_value own = tir_transpose(b, tir_half(b, pair, i));
        blocks[n + i] = tir_join_blocks(b, own, DELTA_BLOCK);
    }
}

void delta_load_blocks(struct delta *d, enum delta_part part, struct tir_value *blocks)
{
    for (int n = 0; n < DELTA_TRIANGLE; n += 2)
        load_pair(d, part, n, blocks);
}

void delta_store_columns(struct delta *d, struct tir_value strip)
{
    struct tir_builder *b = &d->b;
    const struct tir_value one = tir_i32(b, 1), half = tir_shr(b, d->wave, one);
    struct tir_view view = delta_part(d, DELTA_KEY_COLUMNS, PACK * DELTA_ELEM, 0);
    view.byte = att_times(b, tir_and(b, d->wave, one), FOUR * DELTA_ELEM);
    tir_tile_store(b, view, att_times(b, half, FOUR * d->v->head_dim),
                   tir_split_blocks(b, delta_transposed(d, strip), FOUR));
}

struct tir_value delta_load_columns(struct delta *d, int half)
{
    struct tir_builder *b = &d->b;
    const int key = d->v->head_dim;
    const struct tir_view view = delta_part(d, DELTA_KEY_COLUMNS, PACK * DELTA_ELEM, 0);
    const struct tir_value row = tir_i32(b, half * FOUR * key);
    return tir_join_blocks(b, tir_tile_load(b, view, row, d->t.packed_transposed), (unsigned)key);
}

struct tir_value delta_load_numbers(struct delta *d, enum delta_number line, int i)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = delta_part(d, DELTA_NUMBERS, DELTA_ROWS_BYTES, 0);
    return tir_transpose(
        b, tir_tile_load(b, view, tir_i32(b, line * DELTA_BLOCKS + i), d->t.value_numbers));
}

/* ---- Rows ---- */

struct tir_value delta_first_row(struct delta *d, struct tir_value start, struct tir_value index)
{
    struct tir_builder *b = &d->b;
    return tir_add(b, tir_shr(b, start, tir_i32(b, tir_bits(DELTA_CHUNK))), index);
}

/* Returns the row index (i32) in `segments` of the first segment of sequence `index` (i32).
 * `start` (i32) is the row index in q of the sequence's first token. */
static struct tir_value first_segment(struct delta *d, struct tir_value start,
                                      struct tir_value index)
{
    struct tir_builder *b = &d->b;
    return tir_add(b, tir_div(b, start, tir_arg(b, ARG_SEGMENT_LENGTH, TIR_I32)), index);
}

/* Returns the row index in q (i32) of the first token of sequence `index` (i32). */
static struct tir_value start_of(struct delta *d, struct tir_value index)
{
    struct tir_builder *b = &d->b;
    const struct tir_value uniform = tir_mul(b, index, tir_arg(b, ARG_MAX_SEQLEN, TIR_I32));
    return att_entry_or(b, ARG_CU_SEQLENS, index, uniform);
}

/* Returns the index (i32) of the last sequence whose first row is at or before `row` (i32).
 * `first_row` returns the index of a sequence's first row. A binary search determines the index bit
 * by bit. */
static struct tir_value sequence_of(struct delta *d, struct tir_value row,
                                    struct tir_value (*first_row)(struct delta *d,
                                                                  struct tir_value start,
                                                                  struct tir_value index))
{
    struct tir_builder *b = &d->b;
    const struct tir_value batch = tir_arg(b, ARG_BATCH, TIR_I32);
    const struct tir_value bits = tir_arg(b, ARG_SEQUENCE_BITS, TIR_I32), one = tir_i32(b, 1);
    struct tir_value found = tir_i32(b, 0);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), bits, one, &found, 1);
    const struct tir_value bit = tir_shl(b, one, tir_sub(b, att_plus(b, bits, -1), loop.index));
    const struct tir_value next = tir_add(b, found, bit);
    const struct tir_value some = tir_min(b, next, att_plus(b, batch, -1));
    const struct tir_value first = first_row(d, start_of(d, some), some);
    const struct tir_value is = tir_and(b, tir_cmp_lt(b, next, batch), tir_cmp_le(b, first, row));
    found = tir_select(b, is, next, found);
    tir_end_for(b, &loop, &found, 1);
    return found;
}

struct tir_value delta_find_chunk(struct delta *d, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    d->sequence = att_sequence_of_prompt(b, sequence_of(d, row, delta_first_row));
    delta_set_record(d, row);
    const struct tir_value first = delta_first_row(d, d->sequence.start, d->sequence.index);
    const struct tir_value chunk = tir_sub(b, row, first);
    return tir_add(b, d->sequence.start, att_times(b, chunk, DELTA_CHUNK));
}

void delta_find_segment(struct delta *d, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    const struct tir_value tokens = tir_arg(b, ARG_SEGMENT_LENGTH, TIR_I32);
    d->sequence = att_sequence_of_prompt(b, sequence_of(d, row, first_segment));
    const struct tir_value first = first_segment(d, d->sequence.start, d->sequence.index);
    d->segment_row = row;
    d->segment = tir_sub(b, row, first);
    d->token = tir_add(b, d->sequence.start, tir_mul(b, d->segment, tokens));
    const struct tir_value rest = tir_sub(b, d->sequence.end, d->token);
    d->end = tir_add(b, d->token, tir_min(b, rest, tokens));
}
