/* SPDX-License-Identifier: Apache-2.0
 *
 * The product of each head's output with its part of W_UV, in the same launch of mla_decode as the
 * output. It is for variants with field product_dim.
 *
 *     product_out[t, h] = w_uv[h] out[t, h]        t: token, h: head
 *
 * Each workgroup adds 1 to a counter when its items are done. Workgroups that see the full count
 * divide the slices of w_uv among themselves: attention/share.h. A slice is multiplied with the
 * outputs of all tokens. So each launch reads W_UV once, however the plan divides the sequences.
 */
#include "templates/attention/share.h"
#include "templates/mla_decode/mla_decode.h"
#include "templates/workgroup/row_product.h"

/* POLLS: most reads of the counter by a workgroup with items, 260 to 400 clocks each. SLEEP: time
 * between two reads, in units of 64 clocks. IDLE_POLLS, IDLE_SLEEP: the same for workgroups without
 * items, which arrive first and wait longer. */
enum { POLLS = 32, SLEEP = 1, IDLE_POLLS = 96, IDLE_SLEEP = 12 };

bool mla_product_check(const struct att_variant *v, const struct tir_machine *m,
                       struct att_why *why)
{
    if (v->product_dim && !v->one_launch)
        return att_reject(why, ATT_PRODUCT_DIM, "a product in the launch is for one_launch");
    return att_row_product_check(v, m, ATT_PRODUCT_ROWS, why);
}

/* Returns the number (i32) of tokens of the call, which is the end of the last sequence's rows of
 * out. */
static struct tir_value count_tokens(struct tir_builder *b)
{
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

/* Computes slice `number` (i32: index) of the product of W_UV and the latent output: att_share.add.
 * `family`: the struct att_row_product. */
static void multiply_slice(void *family, struct tir_value number)
{
    att_row_product_slice(family, number);
}

void mla_multiply_output(struct mla *s, struct tir_value has_items)
{
    struct split_kv *const d = &s->d;
    struct tir_builder *const b = &d->b;
    struct att_row_product product = {.b = b,
                                      .dtype = d->dtype,
                                      .weights = d->v->weights,
                                      .columns = (unsigned)d->v->head_dim_v,
                                      .rows = d->v->product_dim,
                                      .w = ARG_W_UV,
                                      .w_head_stride = ARG_W_UV_HEAD_STRIDE,
                                      .w_row_stride = ARG_W_UV_ROW_STRIDE,
                                      .w_scale = ARG_W_UV_SCALE,
                                      .x = ATT_HEADS(OUT),
                                      .out = ATT_HEADS(PRODUCT_OUT),
                                      .out_size = 2,
                                      .tokens = count_tokens(b)};
    const struct att_share share = {.b = b,
                                    .waves = d->waves,
                                    .wave = d->wave,
                                    .lds = s->source.part[0].buffer,
                                    .ticket = tir_arg(b, ARG_PRODUCT_TICKETS, TIR_I64),
                                    .count = tir_arg(b, ARG_WORKGROUPS, TIR_I32),
                                    .waits = has_items,
                                    .polls = POLLS,
                                    .sleep = SLEEP,
                                    .other_polls = IDLE_POLLS,
                                    .other_sleep = IDLE_SLEEP,
                                    .add = multiply_slice,
                                    .family = &product};
    const int each = d->v->product_dim / ATT_PRODUCT_ROWS;
    att_share_parts(&share, att_times(b, tir_arg(b, ARG_HEADS, TIR_I32), each));
}
