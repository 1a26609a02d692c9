/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_decode with `product_dim`: the product of each head's output with its part of W_UV, in the
 * launch that makes the output.
 *
 *     product_out[t, h] = w_uv[h] out[t, h]
 *
 * All workgroups of the launch count themselves when their items are done. Those that see the last
 * one share slices of 16 rows of w_uv: attention/share.h. A slice is multiplied with the outputs of
 * all tokens, so that W_UV is read once however the plan has cut the sequences. Operands come from
 * memory in the lanes of the matrix instruction: 16 rows of 16 bytes by four lanes each.
 */
#include "ir/matrix.h"
#include "templates/attention/share.h"
#include "templates/mla_decode/mla_decode.h"
#include "templates/workgroup/scalar.h"

enum {
    ROWS = 16,     /* of w_uv in a slice */
    TOKENS = 16,   /* of a product */
    COLUMNS = 64,  /* of out and w_uv that a load covers: half of a cache line of 16-bit elements */
    MAX_LOADS = 8, /* of a row of the latent */
    ELEM = 2,      /* bytes of bf16 and fp16 */
    POLLS = 24,    /* for the last workgroup, of 260 to 400 clocks each */
};

struct product {
    struct mla *s;
    struct tir_builder *b;
    int instr;
    struct tir_type w, x, result; /* a load of w_uv and of out; the product, rows x tokens */
    struct tir_value tokens;      /* i32: rows of out that sequences have */
};

static unsigned loads(const struct product *p) { return p->s->d.value.width / COLUMNS; }

bool mla_product_check(const struct att_variant *v, const struct tir_machine *m,
                       struct att_why *why)
{
    if (!v->product_dim)
        return true;
    if (v->product_dim % ROWS)
        return att_reject(why, ATT_PRODUCT_DIM, "product_dim %d is not a multiple of %d",
                          v->product_dim, ROWS);
    if (!v->one_launch)
        return att_reject(why, ATT_PRODUCT_DIM, "a product in the launch is for one_launch");
    return tir_find_mma(m, ROWS, TOKENS, 0, att_dtype(v)) >= 0 ||
           att_reject(why, ATT_PRODUCT_DIM, "%s has no matrix instruction for the product",
                      m->name);
}

static void choose_types(struct product *p)
{
    const struct split_kv *const d = &p->s->d;
    struct tir_func *const f = p->b->f;
    const struct tir_waves alone = {0};
    p->instr = tir_find_mma(d->m, ROWS, TOKENS, 0, d->dtype);
    const struct tir_mma *const mma = &d->m->mma[p->instr];
    const struct tir_contraction k = tir_contract_rows(mma, COLUMNS, 16 / ELEM);
    const struct tir_layout w = tir_mma_left(mma, ROWS, &k, alone);
    const struct tir_layout x = tir_mma_right(mma, TOKENS, &k, alone);
    const struct tir_layout result = tir_mma_result(mma, ROWS, TOKENS, alone);
    p->w = tir_tile(f, d->dtype, ROWS, COLUMNS, &w);
    p->x = tir_tile(f, d->dtype, TOKENS, COLUMNS, &x);
    p->result = tir_tile(f, TIR_F32, ROWS, TOKENS, &result);
}

/* Returns the end of the last sequence's rows of out, i32. */
static struct tir_value count_tokens(struct product *p)
{
    struct tir_builder *const b = p->b;
    const struct tir_type i32 = tir_scalar(TIR_I32);
    const struct tir_value batch = tir_arg(b, ARG_BATCH, TIR_I32);
    const struct tir_value qo = tir_arg(b, ARG_QO_INDPTR, TIR_I64);
    struct tir_if given = tir_begin_if(b, tir_cmp_ne(b, qo, tir_i64(b, 0)), false, &i32, 1);
    struct tir_value n = tir_scalar_load(b, qo, tir_shl(b, batch, tir_i32(b, 2)), TIR_I32);
    tir_else(b, &given, &n);
    n = tir_mul(b, batch, tir_arg(b, ARG_MAX_SEQLEN_Q, TIR_I32));
    tir_end_if(b, &given, &n);
    return n;
}

/* Returns a head's rows from `token` on, in a tensor [token, head, width]. */
static struct tir_view rows_of(struct product *p, struct att_tensor t, struct tir_value head,
                               struct tir_value token, int width)
{
    struct tir_builder *const b = p->b;
    const struct tir_value at = att_row(b, tir_arg(b, t.arg, TIR_I64), head, t.head_stride, ELEM);
    const struct tir_value base = att_row(b, at, token, t.token_stride, ELEM);
    const struct tir_value left = tir_min(b, tir_sub(b, p->tokens, token), tir_i32(b, TOKENS));
    return att_view(b, base, left, att_stride32(b, t.token_stride, ELEM), width * ELEM, 0);
}

/* Loads rows of `view`, piece by piece. */
static void load_rows(struct product *p, struct tir_view view, struct tir_type t,
                      struct tir_value *to)
{
    struct tir_builder *const b = p->b;
    for (unsigned i = 0; i < loads(p); i++) {
        view.byte = tir_i32(b, (int)(i * COLUMNS * ELEM));
        to[i] = tir_tile_load(b, view, tir_i32(b, 0), t);
    }
}

/* Multiplies the rows w with the outputs of TOKENS tokens, and stores the sums. */
static void multiply_tokens(struct product *p, const struct tir_value *w, struct tir_value head,
                            struct tir_value row, struct tir_value token)
{
    struct tir_builder *const b = p->b;
    const struct split_kv *const d = &p->s->d;
    struct tir_value x[MAX_LOADS], sum = tir_splat(b, tir_f32(b, 0), p->result);
    load_rows(p, rows_of(p, ATT_HEADS(OUT), head, token, (int)d->value.width), p->x, x);
    for (unsigned i = 0; i < loads(p); i++)
        sum = tir_mma(b, p->instr, w[i], tir_transpose(b, x[i]), sum);
    struct tir_view to = rows_of(p, ATT_HEADS(PRODUCT_OUT), head, token, d->v->product_dim);
    to.byte = att_times(b, row, ELEM);
    tir_tile_store(b, to, tir_i32(b, 0), tir_transpose(b, tir_convert(b, sum, d->dtype)));
}

/* Multiplies slice `number`: slices of a head follow each other. */
static void multiply_slice(void *family, struct tir_value number)
{
    struct product *const p = family;
    struct tir_builder *const b = p->b;
    const struct split_kv *const d = &p->s->d;
    const struct tir_value each = tir_i32(b, d->v->product_dim / ROWS);
    const struct tir_value head = tir_div(b, number, each);
    const struct tir_value row = att_times(b, tir_sub(b, number, tir_mul(b, head, each)), ROWS);
    const struct tir_value at =
        att_row(b, tir_arg(b, ARG_W_UV, TIR_I64), head, ARG_W_UV_HEAD_STRIDE, ELEM);
    const struct tir_view view =
        att_view(b, att_row(b, at, row, ARG_W_UV_ROW_STRIDE, ELEM), tir_i32(b, ROWS),
                 att_stride32(b, ARG_W_UV_ROW_STRIDE, ELEM), (int)d->value.width * ELEM, 0);
    struct tir_value w[MAX_LOADS];
    load_rows(p, view, p->w, w);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), p->tokens, tir_i32(b, TOKENS), NULL, 0);
    multiply_tokens(p, w, head, row, loop.index);
    tir_end_for(b, &loop, NULL, 0);
}

void mla_multiply_output(struct mla *s)
{
    struct split_kv *const d = &s->d;
    struct tir_builder *const b = &d->b;
    struct product p = {.s = s, .b = b};
    choose_types(&p);
    p.tokens = count_tokens(&p);
    const struct tir_value slices =
        att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), d->v->product_dim / ROWS);
    att_share_parts(&(struct att_share){.b = b,
                                        .waves = d->waves,
                                        .wave = d->wave,
                                        .lds = s->source.part[0].buffer,
                                        .ticket = tir_arg(b, ARG_PRODUCT_TICKETS, TIR_I64),
                                        .count = tir_arg(b, ARG_WORKGROUPS, TIR_I32),
                                        .polls = POLLS,
                                        .add = multiply_slice,
                                        .family = &p},
                    slices);
}
