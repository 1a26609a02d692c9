/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of head_product kernels: rows times the weights of each head, and copied tails.
 */
#include <math.h>

#include "tools/reference/head_product.h"
#include "tools/verify/call.h"
#include "tools/verify/stored.h"
#include "tools/verify/weights.h"

/* Largest number of elements of a row of x; elements that share a scale; elements of a tail. */
enum { DIM_MAX = WEIGHTS_COLUMNS, BLOCK = WEIGHTS_BLOCK, TAIL = 64 };

/* Flags of a shape. */
enum {
    SHARED = 1 << 0, /* all heads multiply the same x */
    /* w is the second half of the rows of a larger tensor, as W_UV is in kv_b_proj */
    PART = 1 << 1,
    KEYS = 1 << 2, /* a tail, the rotated part of a key, follows each head of the output */
    MANY = 1 << 3, /* for kernels with a shared x: each workgroup processes several tiles */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int tokens, heads;
    int shared; /* number of tokens of a trace with a shared x */
} shapes[] = {
    {{"one token", 0}, 1, 2, 0},
    {{"12 heads", PART}, 5, 12, 0},
    {{"views", VERIFY_VIEWS}, 37, 3, 0},
    {{"two tiles", 0}, 64, 1, 0},
    {{"several groups", 0}, 300, 2, 0},
    {{"values", SHARED | PART | VERIFY_VIEWS}, 70, 3, 0},
    {{"keys", SHARED | KEYS}, 33, 2, 0},
    {{"keys of one head", SHARED | KEYS | PART}, 7, 1, 0},
    {{"more groups than fit", 0}, 129, 120, 0},
    {{"many tiles", MANY}, 520, 120, 0},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", 0}, 64, 16, 0};

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c)
{
    return !call_has(c, MANY) || c->desc.head_product.shared;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    c->desc.head_product.heads = s->heads;
    c->desc.head_product.shared |= call_has(c, SHARED) || s->shared;
    c->args.head_product.tokens = s->tokens;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct attn_head_product_desc *d = &c->desc.head_product;
    struct operand *out = call_operand(c, HEAD_PRODUCT_OUT), *w = call_operand(c, HEAD_PRODUCT_W);
    w->align = 16; /* 16 bytes for weights of any type */
    struct operand *tail = call_operand(c, HEAD_PRODUCT_TAIL_OUT);
    if (!call_has(c, KEYS)) {
        operand_leave_out(call_operand(c, HEAD_PRODUCT_TAIL));
        operand_leave_out(tail);
    }
    if (call_has(c, PART))
        operand_set_stride(w, 0, 2 * (int64_t)d->head_dim_v * d->head_dim);
    if (call_has(
            c,
            KEYS)) { /* as in keys of a prefill, the rotated part follows the rest of each head */
        const int key = d->head_dim_v + TAIL;
        for (int i = 0; i < 2; i++) {
            operand_set_stride(i ? tail : out, 1, key);
            operand_set_stride(i ? tail : out, 0, (int64_t)key * d->heads);
        }
        operand_place_inside(tail, out, d->head_dim_v);
    }
}

/* Returns the weights of the call. */
static struct weights weights_of(struct call *c)
{
    return (struct weights){.w = call_operand(c, HEAD_PRODUCT_W),
                            .scale = call_operand(c, HEAD_PRODUCT_W_SCALE),
                            .blocks = c->desc.head_product.weights == ATTN_WEIGHTS_FP8_BLOCK};
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    operand_set_random(call_operand(c, HEAD_PRODUCT_X), &c->random);
    operand_set_random(call_operand(c, HEAD_PRODUCT_TAIL), &c->random);
    const struct weights weights = weights_of(c);
    weights_fill(&weights, 4, &c->random);
}

/* The functions from here on compare the results of a call. */

/* A row of x as the kernel rounds it, and the row of weights with which it is multiplied. */
struct row {
    double x[DIM_MAX];
    struct weights_row of;
    /* off[i]: distance of the other neighbour if x[i] may round to either of two; else 0 */
    double off[DIM_MAX];
};

/* Returns x rounded to nearest even in type `p`, and sets *step to the distance between the type's
 * numbers near x. x must not exceed the type's largest number. */
static double round_to(const struct precision *p, double x, double *step)
{
    int exponent;
    frexp(x, &exponent); /* |x| is less than 2^exponent */
    *step = fmax(2 * p->unit * ldexp(0.5, exponent), 2 * p->tiny);
    return *step * nearbyint(x / *step);
}

/*
 * Rounds each element of x as the kernel does, with the scale of its 128 elements. The scale and
 * its inverse have three float32 roundings, and the product with x has another. If these may move x
 * across the middle between two numbers, either number is accepted.
 */
static void round_activations(struct call *c, struct row *r)
{
    const struct attn_head_product_desc *d = &c->desc.head_product;
    const struct precision *p = call_operand(c, HEAD_PRODUCT_W)->precision;
    for (int first = 0; first < d->head_dim; first += BLOCK) {
        const int end = first + BLOCK < d->head_dim ? first + BLOCK : d->head_dim;
        double largest = 0, step;
        for (int k = first; k < end; k++)
            largest = fmax(largest, fabs(r->x[k]));
        const double scale = largest / p->limit, divisor = fmax(scale, 1e-12);
        for (int k = first; k < end; k++) {
            const double x = r->x[k] / divisor, most = x * (1 + 8 * STORED_F);
            const double below = round_to(p, x * (1 - 8 * STORED_F), &step);
            r->off[k] = fabs(round_to(p, most, &step) - below) * scale;
            r->x[k] = round_to(p, x, &step) * scale;
        }
    }
}

/*
 * Compares a token's products for one head. With f = 2^-24, a float32 sum of K products has an
 * error of K f of the sum of magnitudes, in any order. The products are exact or rounded once. A
 * scale adds two roundings for each block. A matrix instruction may truncate an addition (CDNA3
 * does not say), which doubles the bound. Then out is rounded.
 */
static void compare_head(struct call *c, int t, int h, struct row *r)
{
    const struct attn_head_product_desc *d = &c->desc.head_product;
    struct operand *out = call_operand(c, HEAD_PRODUCT_OUT);
    const struct operand *x = call_operand(c, HEAD_PRODUCT_X);
    operand_read(x, AT(t, d->shared ? 0 : h, 0), d->head_dim, r->x);
    if (d->activations == ATTN_ACTIVATIONS_FP8)
        round_activations(c, r);
    const struct weights weights = weights_of(c);
    /* With many tokens only some of them are compared. */
    const int step = d->heads > 100 ? 61 : c->args.head_product.tokens > 100 ? 7 : 1;
    for (int n = 0; n < d->head_dim_v; n++) {
        double magnitude, bound;
        if ((n + t) % step) {
            operand_allow(out, AT(t, h, n));
            continue;
        }
        weights_read(&weights, h, n, &r->of);
        const double sum =
            ref_head_product(r->x, r->of.w, d->head_dim, r->of.scale, BLOCK, &magnitude);
        double arithmetic = stored_product_error(d->head_dim, magnitude);
        for (int k = 0; k < d->head_dim; k++)
            arithmetic += fabs(r->of.w[k]) * r->of.scale[k / BLOCK] * r->off[k];
        const double expected = stored_value(out->precision, 1, sum, arithmetic, &bound);
        call_compare(c, out, AT(t, h, n), expected, bound);
    }
    for (int i = 0; call_has(c, KEYS) && i < TAIL; i++)
        call_compare(c, call_operand(c, HEAD_PRODUCT_TAIL_OUT), AT(t, h, i),
                     operand_value(call_operand(c, HEAD_PRODUCT_TAIL), AT(t, i)), 0);
}

/* Compares the products of all tokens and heads. */
static void compare(struct call *c)
{
    struct row r = {0};
    for (int t = 0; t < c->args.head_product.tokens; t++)
        for (int h = 0; h < c->desc.head_product.heads; h++)
            compare_head(c, t, h, &r);
}

const struct verify_op verify_head_product = {
    .op = "head_product",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=2048"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, tokens), 1 << 17, "rows of x"},
            {"heads", offsetof(struct shape, heads), 128, "heads of w"},
            {"shared", offsetof(struct shape, shared), 1, "1: all heads have one x"},
        },
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
