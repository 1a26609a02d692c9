/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of mla_decode with `product_dim`: the product of each output with W_UV.
 */
#include "tools/reference/head_product.h"
#include "tools/verify/decode.h"
#include "tools/verify/stored.h"
#include "tools/verify/weights.h"

/* True if the call is mla_decode with the product with W_UV. */
static bool has_product(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.product_dim > 0;
}

/* Returns the weights of the call. */
static struct weights weights_of(struct call *c)
{
    return (struct weights){.w = call_operand(c, MLA_DECODE_W_UV),
                            .scale = call_operand(c, MLA_DECODE_W_UV_SCALE),
                            .blocks = c->desc.mla_decode.weights == ATTN_WEIGHTS_FP8_BLOCK};
}

void value_product_place(struct call *c)
{
    if (has_product(c))
        weights_place(call_operand(c, MLA_DECODE_W_UV));
}

void value_product_fill(struct call *c)
{
    if (!has_product(c))
        return;
    operand_clear(call_operand(c, MLA_DECODE_PRODUCT_TICKETS));
    const struct weights weights = weights_of(c);
    weights_fill(&weights, 1, &c->random);
}

/* Compares a row of product_out with W_UV times the row of `out` that the launch wrote. `out`
 * itself is compared elsewhere. tools/verify/head_product.c derives the bound. */
static void compare_row(struct call *c, int64_t token, int64_t head)
{
    const struct attn_mla_decode_desc *d = &c->desc.mla_decode;
    const struct operand *out = call_operand(c, MLA_DECODE_OUT);
    const struct weights weights = weights_of(c);
    struct operand *product = call_operand(c, MLA_DECODE_PRODUCT_OUT);
    struct weights_row row;
    double x[WEIGHTS_COLUMNS], magnitude, bound;
    for (int k = 0; k < d->head_dim_v; k++)
        x[k] = operand_result(out, AT(token, head, k));
    for (int n = 0; n < d->product_dim; n++) {
        weights_read(&weights, head, n, &row);
        const double sum =
            ref_head_product(x, row.w, d->head_dim_v, row.scale, WEIGHTS_BLOCK, &magnitude);
        const double arithmetic = stored_product_error(d->head_dim_v, magnitude);
        const double expected = stored_value(product->precision, 1, sum, arithmetic, &bound);
        call_compare(c, product, AT(token, head, n), expected, bound);
    }
}

void value_product_compare(struct call *c)
{
    const struct own *own = c->own;
    if (!has_product(c))
        return;
    for (int32_t t = 0; t < own->qo[c->args.mla_decode.batch]; t++)
        for (int h = 0; h < c->desc.mla_decode.heads; h++)
            compare_row(c, t, h);
}

double value_product_bytes(const struct call *c)
{
    const struct attn_mla_decode_desc *d = &c->desc.mla_decode;
    if (!has_product(c))
        return 0;
    const double weights =
        weights_bytes(&c->operands[MLA_DECODE_W_UV], &c->operands[MLA_DECODE_W_UV_SCALE]);
    return weights + 2.0 * d->heads * d->product_dim * c->args.mla_decode.tokens;
}
