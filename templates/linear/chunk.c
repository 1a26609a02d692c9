/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/chunk.h"

#include "ir/spread.h"

/* Bytes of a 16-bit element, and of one access of a lane. */
enum { ELEM = 2, ACCESS = 16 };

struct tir_view att_chunk_rows(struct tir_builder *b, struct att_tensor t, struct tir_value token,
                               struct tir_value left, struct tir_value head, struct tir_value first,
                               unsigned width)
{
    const struct tir_value part = att_wide(b, att_times(b, first, ELEM));
    const struct tir_value base = att_at(b, t.arg, part);
    const struct tir_value row =
        att_row(b, att_row(b, base, head, t.head_stride, ELEM), token, t.token_stride, ELEM);
    const struct tir_value count = tir_min(b, left, tir_i32(b, ATT_CHUNK));
    return att_view(b, row, count, att_stride32(b, t.token_stride, ELEM), (int)width * ELEM, 0);
}

struct tir_view att_chunk_numbers(struct tir_builder *b, struct att_tensor t,
                                  struct tir_value token, struct tir_value left,
                                  struct tir_value head, int size)
{
    const struct tir_value at = att_wide(b, att_times(b, head, size));
    const struct tir_value row = att_row(b, att_at(b, t.arg, at), token, t.token_stride, size);
    const struct tir_value count = tir_min(b, left, tir_i32(b, ATT_CHUNK));
    return att_view(b, row, count, att_stride32(b, t.token_stride, size), size, 0);
}

struct tir_type att_chunk_staged(struct tir_builder *b, unsigned dtype, unsigned rows,
                                 unsigned cols)
{
    const struct tir_layout l = tir_spread_chunks(b->f->machine, b->f->waves,
                                                  ACCESS * 8 / tir_dtype_bits(dtype), rows, cols);
    return tir_tile(b->f, dtype, rows, cols, &l);
}

struct tir_value att_chunk_last(struct tir_builder *b, struct tir_value numbers)
{
    const unsigned lanes = tir_lanes(b->f->machine);
    unsigned rows = ATT_CHUNK;
    for (; rows > lanes; rows /= 2)
        numbers = tir_half(b, numbers, 1);
    return tir_lane_read(b, numbers, tir_i32(b, (int)rows - 1));
}

struct tir_type att_chunk_numbers_type(struct tir_builder *b, unsigned dtype)
{
    const struct tir_layout l = tir_spread_column(b->f->machine, 1, ATT_CHUNK);
    return tir_tile(b->f, dtype, ATT_CHUNK, 1, &l);
}
