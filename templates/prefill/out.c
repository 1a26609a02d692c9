/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a work tile of `prefill`: merges key groups, computes O / l and lse, and stores them.
 * Rows of O pass through LDS if they have room there.
 */
#include <assert.h>

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/prefill/prefill.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

/* Returns the LDS address (i32) of part `part` (index) of the columns of O. `place`: where O is in
 * LDS. */
static struct tir_value out_buffer(struct prefill *p, const struct prefill_out_place *place,
                                   unsigned part)
{
    return place->in_v ? p->value.buffer
                       : att_plus(&p->b, p->staging.buffer, (int)(place->at + part * place->step));
}

/* Columns of O that are stored to memory together: `width` columns of part `part` (index) of the
 * columns, from column `first` of that part on. `width` is a power of two and divides `first`. */
struct piece {
    unsigned part, first, width;
};

/* Reads the wave's rows of piece n of O from LDS: queries x columns. A lane reads up to 16 bytes,
 * and neighbouring lanes read neighbouring columns. A wave reads only rows that it has written. */
static struct tir_value read_rows(struct prefill *p, const struct prefill_out_place *place,
                                  const struct piece *n)
{
    struct tir_builder *b = &p->b;
    const unsigned queries = prefill_queries(p), columns = prefill_dv(p) / place->parts;
    const unsigned each = n->width * p->tile->rows / tir_lanes(p->m), most = 16 / PREFILL_OUT_BYTES;
    const unsigned vector = tir_bits(each < most ? each : most);
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    tir_spread_cols(&s, TIR_REGS, vector);
    tir_spread_cols(&s, TIR_LANES, tir_bits(n->width) - vector);
    tir_spread_rows(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    tir_spread_rows(&s, TIR_REGS, tir_bits(p->tile->rows) - s.rows);
    tir_spread_rows(&s, TIR_WAVES, tir_bits(p->tile->waves / prefill_groups(p)));
    tir_spread_cols(&s, TIR_REGS, tir_bits(columns) - s.cols);
    const struct tir_layout l = tir_spread_layout(&s);
    const struct tir_type t = tir_tile(b->f, att_dtype(p->v), queries, columns, &l);
    const struct tir_value all =
        tir_tile_lds_load(b, out_buffer(p, place, n->part), t, &place->lds);
    if (n->width == columns)
        return all;
    return tir_transpose(
        b, att_part(b, tir_transpose(b, all), n->first / n->width, columns / n->width));
}

/* Returns rows `o` of O^T (f32) transposed, as queries x columns, in the element type of the tensor
 * out. */
static struct tir_value short_rows(struct prefill *p, struct tir_value o)
{
    return tir_transpose(&p->b, tir_convert_short(&p->b, o, att_dtype(p->v)));
}

/* Stores `rows` of O (queries x columns) to the view `out` of the output, from column `first`
 * on. */
static void store_columns(struct prefill *p, struct tir_view out, struct tir_value rows,
                          unsigned first)
{
    out.byte = tir_i32(&p->b, (int)(first * PREFILL_OUT_BYTES));
    tir_tile_store(&p->b, out, tir_i32(&p->b, 0), rows);
}

/* Returns rows `o` of O^T with zeros in the blocks of rows after prefill_main_rows(). The compiler
 * then removes the products for these rows as dead code. `first`: index of the first row of `o`. */
static struct tir_value clear_padding(struct prefill *p, struct tir_value o, unsigned first)
{
    struct tir_builder *b = &p->b;
    const unsigned rows = tir_typeof(b->f, o).rows, there = prefill_main_rows(p);
    if (first >= there)
        return tir_float_like(b, o, 0.0f);
    if (first + rows <= there || rows <= p->tile->rows)
        return o;
    return tir_stack(b, clear_padding(p, tir_half(b, o, 0), first),
                     clear_padding(p, tir_half(b, o, 1), first + rows / 2));
}

enum { MOST_PIECES = 8 };

/* Sets piece[] to the pieces that cover the columns of part `part` (index) of O, without columns
 * from prefill_main_rows() on. Returns the number of pieces. */
static unsigned find_pieces(const struct prefill *p, const struct prefill_out_place *place,
                            unsigned part, struct piece piece[MOST_PIECES])
{
    const unsigned columns = prefill_dv(p) / place->parts, there = prefill_main_rows(p);
    unsigned n = 0, at = 0;
    for (unsigned width = columns; width; width /= 2)
        if (at + width <= columns && part * columns + at + width <= there) {
            piece[n++] = (struct piece){part, at, width};
            at += width;
        }
    return n;
}

/* Stores O^T (`o`) to the view `out` of memory through LDS. If all parts of the columns use one
 * place in LDS, a part is read back before the next one is written. Memory is written after all
 * parts are read. */
static void store_by_rows(struct prefill *p, struct tir_view out, struct tir_value o,
                          const struct prefill_out_place *place)
{
    struct tir_builder *b = &p->b;
    const bool apart = place->step || place->parts == 1;
    struct piece piece[2 * MOST_PIECES];
    struct tir_value rows[2 * MOST_PIECES];
    unsigned n = 0, n_read = 0;
    assert(place->parts <= 2);
    o = clear_padding(p, o, 0);
    for (unsigned i = 0; i < place->parts; i++) {
        const struct tir_value part = short_rows(p, att_part(&p->b, o, i, place->parts));
        tir_tile_lds_store(b, out_buffer(p, place, i), part, &place->lds);
        n += find_pieces(p, place, i, piece + n);
        if (apart && i + 1 < place->parts)
            continue;
        tir_wait(b, TIR_LDS_WRITES, 0);
        for (; n_read < n; n_read++)
            rows[n_read] = read_rows(p, place, &piece[n_read]);
    }
    for (unsigned i = 0; i < n; i++)
        store_columns(p, out, rows[i],
                      piece[i].part * (prefill_dv(p) / place->parts) + piece[i].first);
}

/* Stores the first half of the rows `o` of O^T to columns of the output in memory, from column
 * `first` on. `o` is one block of rows (prefill_block_rows()). The second half is padding: lanes
 * with rows of it store nothing. */
static void store_half_block(struct prefill *p, struct tir_value o, unsigned first)
{
    struct tir_builder *b = &p->b;
    const unsigned half = tir_typeof(b->f, o).rows / 2;
    const struct tir_value pieces = tir_split_blocks(b, short_rows(p, o), half);
    const struct tir_layout slice =
        tir_layout_slice(tir_layout_of(b->f, tir_typeof(b->f, pieces)), 1);
    const struct tir_value row =
        tir_row_index(b, tir_tile(b->f, TIR_I32, tir_typeof(b->f, pieces).rows, 1, &slice));
    const struct tir_type t = tir_typeof(b->f, row);
    const struct tir_value there = tir_cmp_lt(b, row, tir_splat(b, prefill_rows_left(p), t));
    const struct tir_value wide = tir_convert(b, row, TIR_I64);
    const struct tir_type t64 = tir_typeof(b->f, wide);
    const struct tir_value stride = att_stride(b, ARG_OUT_TOKEN_STRIDE, PREFILL_OUT_BYTES);
    const struct tir_value at = tir_select(b, there, tir_mul(b, wide, tir_splat(b, stride, t64)),
                                           tir_splat(b, tir_i64(b, -1), t64));
    const struct tir_value token = tir_add(b, p->work.q_begin, prefill_first_row(p));
    const struct tir_value base =
        prefill_head_base(p, ATT_HEADS(OUT), token, prefill_own_head(p), PREFILL_OUT_BYTES);
    tir_tile_scatter(b, base, at, tir_i32(b, (int)first * PREFILL_OUT_BYTES), pieces);
}

/* Stores those rows `o` of O^T that are below prefill_main_rows() to the view `out`, without LDS.
 * `o` has `rows` rows from row `first` on. */
static void store_rows(struct prefill *p, struct tir_view out, struct tir_value o, unsigned first,
                       unsigned rows)
{
    struct tir_builder *b = &p->b;
    const unsigned there = prefill_main_rows(p);
    if (first >= there)
        return;
    if (first + rows > there && rows == prefill_block_rows(p)) {
        store_half_block(p, o, first);
        return;
    }
    if (first + rows > there) {
        store_rows(p, out, tir_half(b, o, 0), first, rows / 2);
        store_rows(p, out, tir_half(b, o, 1), first + rows / 2, rows / 2);
        return;
    }
    store_columns(p, out, short_rows(p, o), first);
}

/* The softmax state of a key group: maximum m (in units of log2) and sum l, f32, 1 x queries, and
 * O^T. */
struct state {
    struct tir_value m, l, o;
};

/* Stores vector `a` (f32, one element per query) in LDS for the other key group. `number`: 0: `a`
 * is m; 1: `a` is l. */
static void store_vector(struct prefill *p, struct tir_value a, unsigned number)
{
    const struct tir_layout map = tir_row_major(1, prefill_queries(p));
    const unsigned at = prefill_merge_bytes(p) + number * prefill_queries(p) * sizeof(float);
    tir_tile_lds_store(&p->b, att_plus(&p->b, p->k.panels[0].buffer, (int)at), a, &map);
}

/* Returns a vector of the other key group from LDS, as type t. `number`: 0: m; 1: l. */
static struct tir_value load_vector(struct prefill *p, struct tir_type t, unsigned number)
{
    const struct tir_layout map = tir_row_major(1, prefill_queries(p));
    const unsigned at = prefill_merge_bytes(p) + number * prefill_queries(p) * sizeof(float);
    return tir_tile_lds_load(&p->b, att_plus(&p->b, p->k.panels[0].buffer, (int)at), t, &map);
}

/* Stores part i (index) of the rows of s->o in LDS, and with part 0 also m and l. Only waves of the
 * second key group store. All waves must run this code, since it ends with a barrier. */
static void give_part(struct prefill *p, const struct state *s, unsigned i)
{
    struct tir_builder *b = &p->b;
    const struct tir_value second = tir_cmp_gt(b, p->work.group, tir_i32(b, 0));
    struct tir_if branch = att_begin_if(b, second);
    const struct tir_value o = tir_transpose(b, att_part(&p->b, s->o, i, p->merge_parts));
    const struct tir_layout lds = prefill_merge_lds(p);
    tir_tile_lds_store(b, p->k.panels[0].buffer, o, &lds);
    if (!i) {
        store_vector(p, s->m, 0);
        store_vector(p, s->l, 1);
    }
    tir_end_if(b, &branch, NULL);
    att_lds_barrier(b);
}

/* The factors by which O^T of the own and of the other key group are multiplied before they are
 * added: f32, 1 x queries. */
struct weights {
    struct tir_value own, other;
};

/* Merges m and l of the other key group, from LDS, into s. Returns the factors for O^T of both
 * groups. */
static struct weights merge_vectors(struct prefill *p, struct state *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_typeof(b->f, s->m);
    const struct tir_value m = load_vector(p, t, 0), l = load_vector(p, t, 1);
    const struct tir_value most = tir_max(b, s->m, m);
    const struct weights w = {tir_exp2(b, tir_sub(b, s->m, most)),
                              tir_exp2(b, tir_sub(b, m, most))};
    s->l = tir_add(b, tir_mul(b, s->l, w.own), tir_mul(b, l, w.other));
    s->m = most;
    return w;
}

/* Returns `own`, part of O^T of the first key group, plus the second group's part from LDS, each
 * multiplied by its factor in `w`. */
static struct tir_value merge_part(struct prefill *p, const struct weights *w, struct tir_value own)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_typeof(b->f, own);
    const struct tir_type by_rows = tir_typeof(b->f, tir_transpose(b, own));
    const struct tir_layout lds = prefill_merge_lds(p);
    const struct tir_value o =
        tir_transpose(b, tir_tile_lds_load(b, p->k.panels[0].buffer, by_rows, &lds));
    const struct tir_value scaled = tir_mul(b, own, tir_broadcast(b, w->own, t));
    return tir_fma(b, o, tir_broadcast(b, w->other, t), scaled);
}

/* Returns one tile with the rows of the n parts of O^T in part[], in this order. */
static struct tir_value join_parts(struct prefill *p, const struct tir_value *part, unsigned n)
{
    if (n == 1)
        return part[0];
    return tir_stack(&p->b, join_parts(p, part, n / 2), join_parts(p, part + n / 2, n / 2));
}

/* Merges the states of both key groups into s of the first group's waves. In waves of the second
 * group s does not change. */
static void merge_groups(struct prefill *p, struct state *s)
{
    enum { N_VECTORS = 4 };
    struct tir_builder *b = &p->b;
    const unsigned n = p->merge_parts;
    struct tir_value part[PREFILL_MERGE_PARTS], vectors[N_VECTORS] = {s->m, s->l, s->m, s->l};
    prefill_await_keys(p);
    for (unsigned i = 0; i < n; i++) {
        if (i)
            tir_barrier(b);
        give_part(p, s, i);
        const struct tir_type v = tir_typeof(b->f, s->m);
        struct tir_value now[1 + N_VECTORS] = {att_part(&p->b, s->o, i, n), vectors[0], vectors[1],
                                               vectors[2], vectors[3]};
        const struct tir_type types[1 + N_VECTORS] = {tir_typeof(b->f, now[0]), v, v, v, v};
        const unsigned count = i ? 1 : 1 + N_VECTORS;
        const struct tir_value first = tir_cmp_eq(b, p->work.group, tir_i32(b, 0));
        struct tir_if branch = tir_begin_if(b, first, false, types, count);
        struct state merged = *s;
        struct weights w = {vectors[2], vectors[3]};
        if (!i)
            w = merge_vectors(p, &merged);
        const struct tir_value taken[] = {merge_part(p, &w, now[0]), merged.m, merged.l, w.own,
                                          w.other};
        tir_else(b, &branch, taken);
        tir_end_if(b, &branch, now);
        part[i] = now[0];
        for (unsigned k = 0; !i && k < N_VECTORS; k++)
            vectors[k] = now[1 + k];
    }
    *s = (struct state){vectors[0], vectors[1], join_parts(p, part, n)};
}

/* Stores LSE of the work tile's queries in memory. */
static void store_lse(struct prefill *p, const struct att_softmax_end *end)
{
    struct tir_builder *b = &p->b;
    const struct tir_value rows = prefill_rows_left(p);
    const struct tir_value token = tir_add(b, p->work.q_begin, prefill_first_row(p));
    const struct tir_value lse = att_softmax_lse(b, end);
    /* An element of LSE (f32) has twice the bytes of an element of out. */
    const struct tir_value two = tir_i64(b, 2);
    const struct tir_value lse_at = tir_sub(
        b, prefill_head_base(p, ATT_HEADS(LSE), token, prefill_own_head(p), PREFILL_OUT_BYTES),
        tir_arg(b, ARG_LSE, TIR_I64));
    const struct tir_value base = att_at(b, ARG_LSE, tir_mul(b, lse_at, two));
    const struct tir_value step = tir_convert(
        b, tir_mul(b, att_stride(b, ARG_LSE_TOKEN_STRIDE, PREFILL_OUT_BYTES), two), TIR_I32);
    tir_tile_store(b, att_view(b, base, rows, step, 4, 0), tir_i32(b, 0), tir_transpose(b, lse));
}

/* Stores the results of a work tile, or the result or partial of an item. `place`: where O is in
 * LDS. `s`: m, l and O^T. */
static void finish(struct prefill *p, const struct prefill_out_place *place, const struct state *s)
{
    struct tir_builder *b = &p->b;
    if (p->v->planned) {
        prefill_write_item(p, s->m, s->l, s->o);
        return;
    }
    struct tir_value sink = {0};
    if (p->v->sinks)
        sink = att_entry(b, ARG_SINKS, prefill_own_head(p), TIR_F32);
    const struct att_softmax_end end =
        att_softmax_finish(b, &p->attention.softmax, s->m, s->l, sink);
    const struct tir_type o_type = tir_typeof(b->f, s->o);
    struct tir_value factor = end.inverse;
    if (p->source.v.scale.id)
        factor = tir_mul(b, factor, att_like(b, p->source.v.scale, factor));
    const struct tir_value o = tir_mul(b, s->o, tir_broadcast(b, factor, o_type));
    const struct tir_value rows = prefill_rows_left(p);
    const struct tir_value token = tir_add(b, p->work.q_begin, prefill_first_row(p));
    const struct tir_view out = att_view(
        b, prefill_head_base(p, ATT_HEADS(OUT), token, prefill_own_head(p), PREFILL_OUT_BYTES),
        rows, att_stride32(b, ARG_OUT_TOKEN_STRIDE, PREFILL_OUT_BYTES),
        p->v->head_dim_v * PREFILL_OUT_BYTES, 0);
    /* Kernels that do not fetch ahead and have a padded head_dim_v store O without LDS: through
     * LDS, their modelled launches take 2 % longer. */
    if (p->staging.bytes &&
        (prefill_fetches_ahead(p) || prefill_dv(p) == (unsigned)p->v->head_dim_v))
        store_by_rows(p, out, o, place);
    else if (prefill_v_parts(p) == 1)
        store_rows(p, out, o, 0, prefill_dv(p));
    else
        for (unsigned i = 0; i < 2; i++)
            store_rows(p, out, tir_half(b, o, (int)i), prefill_v_first(p, i), prefill_dv(p) / 2);
    if (p->value.tail == PREFILL_TAIL_REST) {
        const struct tir_value rest = p->carried[ATT_CARRY_REST];
        store_columns(p, out, short_rows(p, att_attention_scale_rest(&p->attention, rest, factor)),
                      prefill_main_rows(p));
    }
    if (p->v->lse)
        store_lse(p, &end);
}

/* Returns O^T (`o`), or zeros if the sequence has no keys. For such a sequence the kernel reads
 * rows of another page, which may hold a NaN. */
static struct tir_value only_with_keys(struct prefill *p, struct tir_value o)
{
    struct tir_builder *b = &p->b;
    const struct tir_type type = tir_typeof(b->f, o);
    const struct tir_value none = tir_cmp_le(b, p->work.kv_len, tir_i32(b, 0));
    struct tir_if branch = tir_begin_if(b, none, true, &type, 1);
    const struct tir_value zero = tir_float_like(b, o, 0.0f);
    tir_else(b, &branch, &zero);
    tir_end_if(b, &branch, &o);
    return o;
}

/* Returns O^T (`o`) with its rows in the order of V's columns. Swaps the halves of the rows in
 * waves that read the second half of V first: prefill_has_halves(). */
static struct tir_value order_halves(struct prefill *p, struct tir_value o)
{
    struct tir_builder *b = &p->b;
    const struct tir_type type = tir_typeof(b->f, o);
    const struct tir_layout *const own = tir_layout_of(b->f, type);
    const struct tir_layout apart =
        tir_layout_regs_first(own, TIR_RC(type.rows / 2 - 1, type.cols - 1));
    struct tir_if branch = tir_begin_if(b, p->swapped, true, &type, 1);
    const struct tir_value rows = tir_relayout(b, o, &apart);
    const struct tir_value other =
        tir_relayout(b, tir_stack(b, tir_half(b, rows, 1), tir_half(b, rows, 0)), own);
    tir_else(b, &branch, &other);
    tir_end_if(b, &branch, &o);
    return o;
}

void prefill_finish(struct prefill *p, const struct prefill_out_place *place)
{
    struct tir_builder *b = &p->b;
    const struct tir_value *const carried = p->carried;
    struct state s = {att_attention_maximum(&p->attention, carried),
                      att_attention_denominator(&p->attention, carried), carried[ATT_CARRY_O]};
    if (p->source.kind == PREFILL_PAGE_COPIES)
        s.o = only_with_keys(p, s.o);
    if (prefill_has_halves(p))
        s.o = order_halves(p, s.o);
    /* Waits, since other waves may still read V from O's place in LDS, and copies of K after the
     * last key may be in flight. prefill_walk_items() has done so in planned kernels. */
    if (p->staging.home == PREFILL_KV_ROOM && !p->v->paged)
        prefill_await_keys(p);
    else if (!p->v->planned && (p->staging.home == PREFILL_KV_ROOM ||
                                (prefill_is_one_wave(p) && p->staging.home == PREFILL_V_ROOM)))
        tir_barrier(b);
    if (prefill_groups(p) == 1) {
        finish(p, place, &s);
        return;
    }
    s.l = tir_col_sum(b, s.l);
    merge_groups(p, &s);
    const struct tir_value first = tir_cmp_eq(b, p->work.group, tir_i32(b, 0));
    struct tir_if branch = att_begin_if(b, first);
    finish(p, place, &s);
    tir_end_if(b, &branch, NULL);
}
