/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads biases and the weights of a full norm, [head, head_dim]. They are the same for
 * every token, and as many bytes as a token has. So a workgroup with several tokens reads them
 * once, into LDS, if they fit there. A tensor in LDS has its spans one after the other, each with
 * all heads.
 */
#include "ir/address_map.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum { ROOM = 32768 /* bytes of LDS, so that two workgroups fit on a compute unit of 64 KiB */ };

/* Returns the number of bytes of one row of type *t. */
static unsigned width_bytes(const struct tir_type *t)
{
    return t->cols * tir_dtype_bits(t->dtype) / 8;
}

/* Returns the LDS layout of a span of type *t: heads one after the other. */
static struct tir_layout map_of(const struct tir_type *t)
{
    return tir_row_major(t->rows, t->cols);
}

/* Returns the LDS address (i32) of span *span of tensor `t`, at head `row` (i32 index). */
static struct tir_value address(struct rope *p, const struct rope_vectors *t,
                                const struct rope_span *span, struct tir_value row)
{
    struct tir_builder *b = &p->b;
    const struct tir_value before = att_times(b, t->rows, span->first * ROPE_ELEM);
    const struct tir_value at = att_times(b, row, (int)width_bytes(&span->heads));
    return tir_add(b, tir_add(b, t->lds, before), at);
}

/* Issues the loads from memory of a tile's vectors in tensor `t`, from head `row` (i32 index) on,
 * into the spans raw[]. */
static void load_global(struct rope *p, const struct rope_source *s, const struct rope_vectors *t,
                        struct tir_value row, struct tir_value *raw)
{
    struct tir_builder *b = &p->b;
    const int stride = t->stride ? t->stride : (int)s->shape->dim;
    const struct tir_value base = att_at(b, t->tensor, tir_i64(b, t->first * ROPE_ELEM));
    rope_load(p, s->shape, base, s->all, tir_i32(b, stride * ROPE_ELEM), row, false, raw);
}

/* Copies the vectors of all heads of tensor `t` to LDS. The waves divide the tiles of heads. */
static void fill(struct rope *p, const struct rope_source *s, const struct rope_vectors *t)
{
    struct tir_builder *b = &p->b;
    struct tir_value raw[ROPE_MAX_SPANS];
    struct tir_loop loop = tir_begin_for(b, att_times(b, p->wave, p->rows), s->all,
                                         tir_i32(b, p->waves * p->rows), NULL, 0);
    load_global(p, s, t, loop.index, raw);
    for (unsigned i = 0; i < s->shape->n_spans; i++) {
        const struct rope_span *span = &s->shape->spans[i];
        const struct tir_layout map = map_of(&span->heads);
        tir_tile_lds_store(b, address(p, t, span, loop.index), raw[i], &map);
    }
    tir_end_for(b, &loop, NULL, 0);
}

/* Sets member `lds` of the n tensors t[] to byte offsets (i32) in the LDS buffer, one tensor after
 * the other. Sets member `rows` to the number of heads, rounded up to whole tiles. of[i] is the
 * source of t[i]. Returns the total bytes (i32). */
static struct tir_value place(struct rope *p, struct rope_vectors *const t[], unsigned n,
                              struct rope_source *const of[])
{
    struct tir_builder *b = &p->b;
    struct tir_value bytes = tir_i32(b, 0);
    for (unsigned i = 0; i < n; i++) {
        const struct tir_value up = att_plus(b, of[i]->all, p->rows - 1);
        t[i]->rows = tir_and(b, up, tir_i32(b, -p->rows));
        t[i]->lds = bytes;
        bytes = tir_add(b, bytes, att_times(b, t[i]->rows, (int)of[i]->shape->dim * ROPE_ELEM));
    }
    return bytes;
}

void rope_keep_vectors(struct rope *p, struct rope_source of[ROPE_SOURCES])
{
    struct tir_builder *b = &p->b;
    struct rope_vectors *t[2 * ROPE_SOURCES];
    struct rope_source *owner[2 * ROPE_SOURCES];
    unsigned n = 0;
    for (unsigned i = 0; i < (p->v->gate ? ROPE_SOURCES : ROPE_GATE); i++) {
        struct rope_vectors *const all[] = {&of[i].weight, &of[i].bias};
        const bool used[] = {p->v->norm == ATT_NORM_FULL && all[0]->tensor, p->v->bias};
        for (unsigned j = 0; j < 2; j++) {
            if (!used[j])
                continue;
            owner[n] = &of[i];
            t[n++] = all[j];
        }
    }
    if (!n)
        return;
    const struct tir_value bytes = place(p, t, n, owner);
    const struct tir_value fits = tir_cmp_le(b, bytes, tir_i32(b, ROOM));
    p->keeps_vectors =
        tir_and(b, fits, tir_cmp_gt(b, tir_arg(b, ARG_RUN_TOKENS, TIR_I32), tir_i32(b, 1)));
    const struct tir_value lds = tir_lds_buffer(b, ROOM, 16);
    for (unsigned i = 0; i < n; i++)
        t[i]->lds = tir_add(b, lds, t[i]->lds);
    struct tir_if keep = att_begin_if(b, p->keeps_vectors);
    for (unsigned i = 0; i < n; i++)
        fill(p, owner[i], t[i]);
    tir_end_if(b, &keep, NULL);
    att_lds_barrier(b);
}

struct rope_parts rope_load_vectors(struct rope *p, const struct rope_source *s,
                                    const struct rope_vectors *t, struct tir_value row)
{
    struct tir_builder *b = &p->b;
    struct tir_value raw[ROPE_MAX_SPANS];
    struct tir_type types[ROPE_MAX_SPANS];
    for (unsigned i = 0; i < s->shape->n_spans; i++)
        types[i] = s->shape->spans[i].heads;
    struct tir_if kept = tir_begin_if(b, p->keeps_vectors, false, types, s->shape->n_spans);
    for (unsigned i = 0; i < s->shape->n_spans; i++) {
        const struct tir_layout map = map_of(&types[i]);
        raw[i] = tir_tile_lds_load(b, address(p, t, &s->shape->spans[i], row), types[i], &map);
    }
    tir_else(b, &kept, raw);
    load_global(p, s, t, row, raw);
    tir_end_if(b, &kept, raw);
    return rope_unpack(p, s->shape, raw);
}
