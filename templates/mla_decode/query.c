/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode, pipelines values_between and replicated_scores: Q passes through LDS. A wave has 16
 * rows of Q in S^T = K Q^T. If it loaded them as an operand, each load would read half a cache line
 * of each row. Waves with the same rows would load the same lines. The L1 reserves a whole line for
 * each half, so HBM would be idle.
 *
 * Instead every wave loads whole rows before the first block, since these loads need no page
 * number. The rows are stored to LDS, and read as operands while the first block is in flight.
 *
 * In replicated_scores LDS has no room for the rows beside two blocks. They use the place of the
 * second block, which is stored after all waves have read Q.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/lds_map.h"
#include "templates/mla_decode/mla_decode.h"
#include "templates/workgroup/scalar.h"

#include <assert.h>

enum {
    MOST_BYTES = 16, /* most bytes that a lane loads at once */
    /* Most loads by which all waves load one part (latent or rotated) of all rows. */
    MOST_LOADS = 16
};

/* Returns the LDS map of `rows` rows of part q (latent or rotated) of Q. As for K, rows are apart
 * by a multiple of all banks plus 32 bytes. */
static struct tir_layout map_of(const struct mla *s, const struct part *q, unsigned rows)
{
    struct tir_layout map = tir_row_major(rows, q->width);
    map.pad_shift = (uint8_t)tir_bits(q->width);
    map.pad = (uint8_t)(32 / mla_kq_bytes(s));
    return map;
}

unsigned mla_count_query(struct mla *s)
{
    unsigned bytes = 0;
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        struct part *const q = &s->query.part[i];
        *q = (struct part){.first = s->source.part[i].first, .width = s->source.part[i].width};
        q->lds = map_of(s, q, s->d.columns);
        q->bytes = att_lds_bytes(&q->lds, mla_kq_bytes(s));
        bytes += q->bytes;
    }
    return bytes;
}

void mla_take_query(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    for (unsigned i = 0; i < mla_count_parts(s); i++) {
        struct part *const q = &s->query.part[i];
        const struct part *const block = &s->source.part[i];
        assert(!s->query.in_block || q->bytes <= block->bytes);
        q->buffer = s->query.in_block ? att_plus(b, block->buffer, (int)block->bytes)
                                      : tir_lds_buffer(b, q->bytes, 16);
    }
}

/* Returns the type of the tile of part q that all waves of the workgroup load at once. Neighbouring
 * lanes have neighbouring columns. */
static struct tir_type loaded(const struct mla *s, const struct part *q)
{
    const unsigned lanes = s->d.waves * tir_lanes(s->d.m), all = s->d.columns * q->width / lanes;
    const unsigned most = MOST_BYTES / (tir_dtype_bits(s->number.q) / 8);
    const unsigned vector = all < most ? all : most, rows = vector * lanes / q->width;
    struct tir_spread l = tir_spread(s->d.m, s->d.waves);
    tir_spread_cols(&l, TIR_REGS, tir_bits(vector));
    tir_spread_fill(&l, TIR_LANES, rows, q->width);
    tir_spread_fill(&l, TIR_WAVES, rows, q->width);
    const struct tir_layout layout = tir_spread_layout(&l);
    return tir_tile(s->d.b.f, s->number.q, rows, q->width, &layout);
}

/* True if all rows of Q of a pass are heads of one query, so that they are apart by the stride of
 * heads. */
static bool has_one_query(const struct split_kv *d)
{
    return d->v->gqa && d->head_groups <= 1 && !d->row_columns &&
           (unsigned)d->v->gqa % d->columns == 0;
}

/* Returns byte offsets (i64) of rows of Q that are `heads` heads after the rows with the offsets
 * `at`. */
static struct tir_value after_heads(struct mla *s, struct tir_value at, unsigned heads)
{
    struct tir_builder *const b = &s->d.b;
    const int bytes = (int)tir_dtype_bits(s->number.q) / 8;
    const struct tir_value stride = att_stride(b, ARG_Q_HEAD_STRIDE, bytes);
    return tir_add(b, at, mla_like(s, tir_mul(b, stride, tir_i64(b, (int)heads)), at));
}

/* Issues the loads of part q of all rows of Q. Sets x[] to the loaded tiles and returns their
 * number. Each load has its own addresses, so that the first load is issued before the addresses of
 * later loads are computed. */
static unsigned load(struct mla *s, const struct part *q, struct tir_value *x)
{
    struct tir_builder *const b = &s->d.b;
    const struct tir_type t = loaded(s, q);
    const struct tir_layout rows = tir_layout_slice(tir_layout_of(b->f, t), 1);
    const struct tir_value row = tir_row_index(b, tir_tile(b->f, TIR_I32, t.rows, 1, &rows));
    const int byte = (int)(q->first * tir_dtype_bits(s->number.q) / 8);
    const bool one = has_one_query(&s->d);
    struct tir_value at = {0};
    unsigned n = 0;
    for (unsigned first = 0; first < s->d.columns; first += t.rows) {
        if (first && one) {
            at = after_heads(s, at, t.rows);
        } else {
            const struct split_kv_rows r =
                split_kv_rows(&s->d, tir_add(b, row, tir_int_like(b, row, (int)first)));
            at = mla_query_offsets(s, &r);
        }
        x[n++] = tir_tile_gather(b, tir_arg(b, ARG_Q, TIR_I64), at, tir_i32(b, byte), t);
    }
    assert(n <= MOST_LOADS);
    return n;
}

/* Stores the n tiles x[] of part q, which load() has loaded, to LDS, converted to the type of K
 * there. */
static void store(struct mla *s, const struct part *q, const struct tir_value *x, unsigned n)
{
    struct tir_builder *const b = &s->d.b;
    const unsigned rows = s->d.columns / n;
    const struct tir_layout map = map_of(s, q, rows);
    for (unsigned i = 0; i < n; i++) {
        const unsigned before = i * rows * (q->width + map.pad) * mla_kq_bytes(s);
        const struct tir_value k =
            s->number.q == s->number.kq ? x[i] : tir_convert(b, x[i], s->number.kq);
        tir_tile_lds_store(b, att_plus(b, q->buffer, (int)before), k, &map);
    }
}

/* Reads panel p of Q from LDS as an operand of S^T = K Q^T. */
static struct tir_value read_panel(struct mla *s, const struct panel *p)
{
    const struct part *const q = &s->query.part[p->first < s->source.part->width ? 0 : 1];
    const int before = (int)((p->first - q->first) * mla_kq_bytes(s));
    return tir_tile_lds_load(&s->d.b, att_plus(&s->d.b, q->buffer, before), p->q, &q->lds);
}

void mla_share_query(struct mla *s)
{
    struct tir_builder *const b = &s->d.b;
    struct tir_value rows[2][MOST_LOADS];
    unsigned n[2];
    b->stage = MLA_STAGE_LOADS;
    for (unsigned i = 0; i < mla_count_parts(s); i++)
        n[i] = load(s, &s->query.part[i], rows[i]);
    /* Without this barrier, the last wave would load Q after the other waves have loaded two
     * blocks. */
    tir_barrier(b);
    b->stage = MLA_STAGE_ARRIVES;
    for (unsigned i = 0; i < mla_count_parts(s); i++)
        store(s, &s->query.part[i], rows[i], n[i]);
    if (s->query.in_block)
        att_lds_barrier(b);
    else
        b->phase = MLA_SCORES_PHASE; /* the code is placed after the barrier of the first block */
    for (unsigned i = 0; i < s->query.n_panels; i++)
        s->query.q[i] = tir_named(b, "q", read_panel(s, &s->query.panel[i]));
    if (s->query.in_block)
        att_lds_barrier(b); /* stores of the second block wait here for all reads of Q */
    b->stage = TIR_NO_STAGE;
    b->phase = 0;
}
