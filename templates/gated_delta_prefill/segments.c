/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the launches for segments of sequences. A call of few long sequences would leave
 * most compute units without a wave in the scan, so a sequence is cut into segments.
 *
 * A segment changes the state S to A S + B. One launch computes A and B of all segments at once. B
 * is the state after the segment if the state before it is 0. Column j of A is the state's column
 * after the segment if the state is column j of the identity and V is 0. The scan begins each
 * segment with the state that follows from A and B of the sequence's earlier segments.
 *
 * The row of a segment in argument `segments` has, for each value head,
 *
 *   head_dim_v x head_dim f32: in a sequence's first segment the state before the sequence, which
 *                              the scan may overwrite in the pool; in others B of the segment
 *                              before
 *   head_dim x head_dim of 16 bits: A of the segment, rounded once.
 *
 * The last segment of a sequence has no A, since nothing follows it.
 */
#include "templates/gated_delta_prefill/chunk.h"
#include "templates/linear/product_state.h"

/* Returns a copy of the variant with the dtype and the layout of states in argument `segments`. */
static struct att_variant kept(const struct delta *d)
{
    struct att_variant v = *d->v;
    v.state_dtype = ATT_STATE_DTYPE_F32;
    v.state_layout = ATT_STATE_LAYOUT_V_MAJOR;
    return v;
}

/* Returns the bytes of a state in argument `segments`: head_dim x head_dim_v f32. */
static int state_bytes(const struct delta *d)
{
    return d->v->head_dim * d->v->head_dim_v * DELTA_FLOAT;
}

/* Returns the bytes of a transition in argument `segments`: head_dim x head_dim elements of 16
 * bits. */
static int transition_bytes(const struct delta *d)
{
    return d->v->head_dim * d->v->head_dim * DELTA_ELEM;
}

/* Returns the address (i64) in row `row` (i32, index) of `segments` of the part for the workgroup's
 * value head. */
static struct tir_value row_at(struct delta *d, struct tir_value row)
{
    return att_value_head_row(&d->b, ARG_SEGMENTS, row, d->value_head,
                              state_bytes(d) + transition_bytes(d));
}

/* Loads the state in row `row` (i32, index) of `segments`, at the wave's value elements. */
static struct tir_value load_kept(struct delta *d, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    const struct att_variant v = kept(d);
    return att_product_state_load(b, &v, row_at(d, row), d->first, tir_bool(b, true), d->t.state);
}

/* Stores `state` (f32), a state at the wave's value elements, to row `row` (i32, index) of
 * `segments`. */
static void keep(struct delta *d, struct tir_value row, struct tir_value state)
{
    struct tir_builder *b = &d->b;
    const struct att_variant v = kept(d);
    att_product_state_store(b, &v, row_at(d, row), d->first, tir_bool(b, true), state);
}

/* Returns a view of the transition A in row `row` (i32, index) of `segments`, from column `first`
 * (i32) on. */
static struct tir_view transition_of(struct delta *d, struct tir_value row, struct tir_value first)
{
    struct tir_builder *b = &d->b;
    const struct tir_value at = tir_add(b, row_at(d, row), tir_i64(b, state_bytes(d)));
    return (struct tir_view){tir_make_rsrc(b, at, tir_i32(b, transition_bytes(d))),
                             tir_i32(b, d->v->head_dim * DELTA_ELEM),
                             att_times(b, first, DELTA_ELEM)};
}

/* ---- The launch of segments ---- */

/* Stores the sequence's state to the segment's row of `segments`, if the segment is the first one
 * of the sequence and d->seen is true. */
static void keep_first_state(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value is_first = tir_cmp_eq(b, d->segment, tir_i32(b, 0));
    struct tir_if first = att_begin_if(b, tir_and(b, is_first, d->seen));
    keep(d, d->segment_row, delta_load_state(d));
    tir_end_if(b, &first, NULL);
}

/* Returns columns `first` (i32) and following of the identity matrix, f32, head_dim x value
 * elements of a wave. Columns with negative indices are 0. */
static struct tir_value identity(struct delta *d, struct tir_value first)
{
    struct tir_builder *b = &d->b;
    struct tir_type t = d->t.state;
    t.dtype = TIR_I32;
    const struct tir_value col = tir_add(b, tir_col_index(b, t), tir_splat(b, first, t));
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0), d->t.state);
    const struct tir_value one = tir_splat(b, tir_f32(b, 1), d->t.state);
    return tir_select(b, tir_cmp_eq(b, tir_row_index(b, t), col), one, zero);
}

/* Computes columns of the segment's transition A, from columns of the identity as state, and stores
 * them. If d->seen is true, computes the state B, from state 0, instead, and stores B to the next
 * segment's row. */
static void make_followed(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value column = att_plus(b, d->first, -d->v->head_dim_v);
    const struct tir_value state = delta_scan_chunks(d, identity(d, column), false);
    struct tir_if made = att_begin_if(b, d->seen);
    keep(d, att_plus(b, d->segment_row, 1), state);
    tir_else(b, &made, NULL);
    tir_tile_store(b, transition_of(d, d->segment_row, column), tir_i32(b, 0),
                   delta_rounded(d, state));
    tir_end_if(b, &made, NULL);
}

void delta_make_segment(struct delta *d)
{
    struct tir_builder *b = &d->b;
    d->seen = tir_cmp_lt(b, d->first, tir_i32(b, d->v->head_dim_v));
    keep_first_state(d);
    const struct tir_value some = tir_cmp_lt(b, d->end, d->sequence.end);
    struct tir_if followed = att_begin_if(b, some);
    make_followed(d);
    tir_end_if(b, &followed, NULL);
}

/* ---- The state before a segment ---- */

/* A segment's transition A, as a left operand, and its state B (`made`, f32). */
struct followed {
    struct tir_value a, made;
};

/* Loads the transition A of the segment with row `row` (i32, index) of `segments`, and the
 * segment's state B from the next row. */
static struct followed load_followed(struct delta *d, struct tir_value row)
{
    struct tir_builder *b = &d->b;
    const struct tir_view view = transition_of(d, row, tir_i32(b, 0));
    struct followed f = {.a = tir_tile_load(b, view, tir_i32(b, 0), d->t.transition)};
    f.made = load_kept(d, att_plus(b, row, 1));
    return f;
}

/* Returns the state (f32) before this segment: the state before the sequence, advanced by A and B
 * of all earlier segments. Loads of the next A and B run during each product. The loop's last loads
 * are not used. */
static struct tir_value fold(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value row = tir_sub(b, d->segment_row, d->segment), one = tir_i32(b, 1);
    const struct tir_value last = tir_max(b, att_plus(b, d->segment_row, -1), tir_i32(b, 0));
    struct tir_value state = load_kept(d, row);
    const struct followed first = load_followed(d, tir_min(b, row, last));
    struct tir_value carried[] = {state, first.a, first.made};
    struct tir_loop loop = tir_begin_for(b, row, d->segment_row, one, carried, 3);
    const struct tir_value operand = delta_operand(d, carried[0]);
    carried[0] = tir_mma(b, d->over_keys, carried[1], operand, carried[2]);
    const struct followed next = load_followed(d, tir_min(b, att_plus(b, loop.index, 1), last));
    carried[1] = next.a;
    carried[2] = next.made;
    tir_end_for(b, &loop, carried, 3);
    return carried[0];
}

struct tir_value delta_state_before(struct delta *d)
{
    struct tir_builder *b = &d->b;
    const struct tir_value tokens = tir_arg(b, ARG_SEGMENT_LENGTH, TIR_I32);
    const struct tir_value is_cut = tir_cmp_lt(b, tokens, tir_arg(b, ARG_MAX_SEQLEN, TIR_I32));
    struct tir_if cut = tir_begin_if(b, is_cut, false, &d->t.state, 1);
    struct tir_value state = fold(d);
    tir_else(b, &cut, &state);
    state = delta_load_state(d);
    tir_end_if(b, &cut, &state);
    return state;
}
