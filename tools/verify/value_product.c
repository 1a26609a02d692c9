/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of mla_decode with `product_dim`: the product of each output with W_UV.
 */
#include "tools/reference/head_product.h"
#include "tools/verify/decode.h"
#include "tools/verify/stored.h"

enum { LATENT_MAX = 512 };

/* True if the call is mla_decode with the product with W_UV. */
static bool has_product(const struct call *c)
{
    return is_latent(c) && c->desc.mla_decode.product_dim > 0;
}

void value_product_fill(struct call *c)
{
    if (!has_product(c))
        return;
    operand_clear(call_operand(c, MLA_DECODE_PRODUCT_TICKETS));
    operand_set_random(call_operand(c, MLA_DECODE_W_UV), &c->random);
}

/* Compares a row of product_out with the product of `out` as the launch wrote it, since `out` is
 * compared by itself. tools/verify/head_product.c derives the bound. */
static void compare_row(struct call *c, int64_t token, int64_t head)
{
    const struct attn_mla_decode_desc *d = &c->desc.mla_decode;
    const struct operand *out = call_operand(c, MLA_DECODE_OUT);
    const struct operand *weights = call_operand(c, MLA_DECODE_W_UV);
    struct operand *product = call_operand(c, MLA_DECODE_PRODUCT_OUT);
    const double scale[] = {1};
    double x[LATENT_MAX], w[LATENT_MAX], magnitude, bound;
    for (int k = 0; k < d->head_dim_v; k++)
        x[k] = operand_result(out, AT(token, head, k));
    for (int n = 0; n < d->product_dim; n++) {
        for (int k = 0; k < d->head_dim_v; k++)
            w[k] = operand_value(weights, AT(head, n, k));
        const double sum = ref_head_product(x, w, d->head_dim_v, scale, LATENT_MAX, &magnitude);
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
    return 2.0 * d->heads * d->product_dim * (d->head_dim_v + c->args.mla_decode.tokens);
}
