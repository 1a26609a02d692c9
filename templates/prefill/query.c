/* SPDX-License-Identifier: Apache-2.0
 *
 * The loads of Q in prefill, from memory or in whole rows through LDS. Q stays in registers, panel
 * by panel, as the right operand of S^T = K Q^T.
 */
#include "templates/prefill/prefill.h"
#include "templates/workgroup/barrier.h"

/* Returns `q`, panel n of Q (queries x columns), with zeros in padding columns and in columns that
 * another panel also has. */
static struct tir_value clear_unused(struct prefill *p, struct tir_value q,
                                     const struct prefill_panel *n)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_with_dtype(tir_typeof(b->f, q), TIR_I32);
    const struct tir_value col = tir_col_index(b, t);
    const struct tir_value bound =
        tir_splat(b, tir_i32(b, (int)(n->repeated ? n->repeated : prefill_valid(p, n))), t);
    const struct tir_value other =
        n->repeated ? tir_cmp_lt(b, col, bound) : tir_cmp_ge(b, col, bound);
    return tir_select(b, other, tir_float_like(b, q, 0.0f), q);
}

/* Returns the type of panel n of Q in registers: queries x columns, whose transpose is the right
 * operand of K Q^T. */
static struct tir_type q_type(struct prefill *p, const struct prefill_panel *n)
{
    const unsigned queries = prefill_queries(p);
    const struct tir_layout l = tir_mma_right(prefill_mma(p), queries, &n->k, prefill_waves(p));
    return tir_tile(p->b.f, p->shape.dtype, queries, n->width, &l);
}

/* Returns the view of panel n of Q in memory for the queries of the work tile. */
static struct tir_view q_view(struct prefill *p, const struct prefill_panel *n)
{
    struct tir_builder *b = &p->b;
    const struct tir_value token = tir_add(b, p->work.q_begin, prefill_first_row(p));
    struct tir_value stride = att_stride32(b, ARG_Q_TOKEN_STRIDE, (int)prefill_bytes(p));
    /* This copy makes LLVM compute the byte offsets of lanes again for each Q, so that they take no
     * registers in the loop over keys. */
    if (prefill_fetches_ahead(p))
        stride = tir_materialize(b, stride);
    return att_view(
        b, prefill_head_base(p, ATT_HEADS(Q), token, prefill_own_head(p), prefill_bytes(p)),
        prefill_rows_left(p), stride, p->v->head_dim * (int)prefill_bytes(p),
        (int)(n->first * prefill_bytes(p)));
}

struct tir_value prefill_q_buffer(struct prefill *p, const struct prefill_panel *n)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = att_plus(
        b, p->staging.item_q == PREFILL_V_ROOM ? p->value.buffer : p->staging.buffer, (int)n->q_at);
    if (p->staging.item_q == PREFILL_NO_ROOM || prefill_groups(p) == 1)
        return at;
    const struct prefill_panel *const last = &p->k.panels[p->k.n_panels - 1];
    const unsigned of_group = last->q_at + prefill_q_bytes(p, last);
    return tir_add(b, at, att_times(b, p->work.group, (int)of_group));
}

/* Returns the LDS address (i32) from which the wave reads panel i (index) of Q. Waves with
 * p->swapped read panel 1 for 0, and panel 0 for 1. */
static struct tir_value q_source(struct prefill *p, unsigned i)
{
    const struct tir_value own = prefill_q_buffer(p, &p->k.panels[i]);
    return p->swapped.id
               ? tir_select(&p->b, p->swapped, prefill_q_buffer(p, &p->k.panels[1 - i]), own)
               : own;
}

/* Returns the number of parts of Q that pass through LDS one after the other. */
static unsigned q_parts(const struct prefill *p)
{
    return p->k.panels[p->k.n_panels - 1].q_part + 1;
}

void prefill_copy_q(struct prefill *p, unsigned part)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        const struct prefill_panel *n = &p->k.panels[i];
        const struct tir_layout lds = prefill_q_lds(p, n);
        if (n->q_part != part)
            continue;
        if (p->work.gqa.id)
            prefill_copy_own_q(p, n);
        else
            tir_copy_to_lds(b, PREFILL_COPIES_OF_Q, q_view(p, n), tir_i32(b, 0),
                            prefill_q_buffer(p, n), q_type(p, n), &lds);
    }
}

void prefill_load_q(struct prefill *p, unsigned part)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < p->k.n_panels; i++) {
        struct prefill_panel *n = &p->k.panels[i];
        if (p->staging.bytes && n->q_part != part)
            continue;
        const struct tir_type t = q_type(p, n);
        const struct tir_layout lds = prefill_q_lds(p, n);
        struct tir_value columns;
        if (p->v->planned && p->staging.item_q == PREFILL_NO_ROOM)
            columns = prefill_gather_q(p, n, t);
        else if (p->staging.bytes || p->staging.item_q != PREFILL_NO_ROOM)
            columns = tir_tile_lds_load(b, q_source(p, i), t, &lds);
        else
            columns = tir_tile_load(b, q_view(p, n), tir_i32(b, 0), t);
        if (n->repeated || prefill_is_padded(p, n))
            columns = clear_unused(p, columns, n);
        n->q = tir_named(b, "q", tir_transpose(b, columns));
    }
}

void prefill_await_q(struct prefill *p)
{
    struct tir_builder *b = &p->b;
    for (unsigned i = 0; i < q_parts(p); i++) {
        if (i)
            prefill_copy_q(p, i);
        tir_wait(b, PREFILL_COPIES_OF_Q, 0);
        tir_barrier(b);
        prefill_load_q(p, i);
        if (p->staging.home == PREFILL_OWN_ROOM)
            return;
        att_lds_barrier(b);
    }
}
