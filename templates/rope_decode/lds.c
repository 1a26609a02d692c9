/* SPDX-License-Identifier: Apache-2.0
 *
 * This file reserves and addresses the LDS of rope_decode: a block of queries of each wave, and the
 * rows of k and v of each new token. A token has as many rows of k and v together as a tile has
 * heads.
 */
#include "templates/rope_decode/rope_decode.h"
#include "templates/workgroup/scalar.h"

#include "ir/address_map.h"

int rope_decode_q_bytes(const struct decode *d)
{
    return (d->kv.v->head_dim + ROPE_DECODE_PAD) * ROPE_ELEM;
}

/* Returns the number of rows of k and v of all new tokens in LDS. Each token has as many rows as a
 * tile has heads. */
static int kv_rows(const struct decode *d) { return d->kv.v->q_len * rope_decode_of(d)->kv.rows; }

void rope_decode_reserve(struct decode *d)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *b = &d->kv.b;
    const int dim = d->kv.v->head_dim, rows = kv_rows(d);
    /* more: a token's last tile of heads may have rows after the end of the block of rows of q. */
    const int more = d->kv.v->gqa % s->rope.rows ? s->rope.rows : 0;
    const int own = (ROPE_DECODE_BLOCK + more) * rope_decode_q_bytes(d);
    const bool scaled = d->kv.v->kv_scale == ATT_KV_SCALE_TOKEN;
    s->stored = rows * dim * ROPE_ELEM;
    s->scales = s->stored + (rope_decode_is_narrow(d) ? rows * dim : 0);
    const int bytes = s->scales + (scaled ? rows * (int)sizeof(float) : 0);
    s->lds = tir_lds_buffer(b, (unsigned)bytes, 16);
    s->lds_q = tir_add(b, tir_lds_buffer(b, d->kv.waves * (unsigned)own, 16),
                       att_times(b, d->kv.wave, own));
}

/* Implements the declaration in rope_decode.h. The first half of a token's rows is k, the second
 * half v. */
struct tir_value rope_decode_address(struct decode *d, int area, int row_bytes, int token,
                                     bool value)
{
    const int rows = rope_decode_of(d)->kv.rows;
    return att_plus(&d->kv.b, rope_decode_of(d)->lds,
                    area + (token * rows + (value ? rows / 2 : 0)) * row_bytes);
}

/* Implements the declaration in rope_decode.h. A packed span has two elements of one byte in each
 * i16. */
struct tir_type rope_decode_stored_type(const struct decode *d, const struct rope_shape *shape,
                                        unsigned span)
{
    const struct tir_type t = shape->spans[span].heads;
    if (!rope_decode_is_narrow(d))
        return t;
    const bool packed = shape->packed && span < shape->n_pieces;
    return tir_with_dtype(t, packed ? TIR_I16 : d->kv.kv_dtype);
}

/* Implements the declaration in rope_decode.h. A packed span has two elements of a row in each
 * element of its map. */
struct rope_decode_place rope_decode_span(struct decode *d, const struct rope_shape *shape,
                                          unsigned span, struct tir_value row, int size, int pad)
{
    const unsigned packed = shape->packed && span < shape->n_pieces;
    const unsigned dim = (unsigned)d->kv.v->head_dim >> packed;
    struct rope_decode_place p = {
        .at = att_plus(&d->kv.b, row, shape->spans[span].first * size),
        .map = tir_row_major(shape->spans[span].heads.rows, dim),
    };
    if (pad)
        tir_map_pad(&p.map, dim, (unsigned)pad >> packed);
    return p;
}

void rope_decode_put(struct decode *d, const struct rope_shape *shape, struct tir_value row,
                     int size, int pad, const struct tir_value *raw)
{
    for (unsigned i = 0; i < shape->n_spans; i++) {
        const struct rope_decode_place p = rope_decode_span(d, shape, i, row, size, pad);
        tir_tile_lds_store(&d->kv.b, p.at, raw[i], &p.map);
    }
}
