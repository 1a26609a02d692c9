/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of qk_rmsnorm kernels: normed rows of q and kv, scales of fp8, and sums with a
 * residual.
 */
#include <math.h>

#include "tools/reference/qk_rmsnorm.h"
#include "tools/verify/call.h"
#include "tools/verify/stored.h"

/* Largest number of elements of a row; elements that share a scale. */
enum { WIDTH_MAX = 4096, GROUP = 128 };

/* Flags of a shape. */
enum {
    ALONE = 1 << 0,    /* the call has no kv tensors */
    IN_PLACE = 1 << 1, /* outputs are the inputs, if the types agree */
    PACKED = 1 << 2,   /* q and kv are slices of one wider tensor */
    ZEROS = 1 << 3,    /* some groups are zeros, and magnitudes differ widely */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int tokens;
} shapes[] = {
    {{"one token", 0}, 1},           {{"q alone", ALONE}, 7},        {{"in place", IN_PLACE}, 5},
    {{"packed", PACKED}, 33},        {{"views", VERIFY_VIEWS}, 9},   {{"zeros", ZEROS}, 6},
    {{"many tokens", PACKED}, 2100}, {{"both", VERIFY_VIEWS}, 4099},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", PACKED}, 4096};

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    c->args.qk_rmsnorm.tokens = s->tokens;
    c->args.qk_rmsnorm.eps = 0.0625f; /* large enough to change results */
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct attn_qk_rmsnorm_desc *d = &c->desc.qk_rmsnorm;
    struct operand *q = call_operand(c, QK_RMSNORM_Q), *kv = call_operand(c, QK_RMSNORM_KV);
    if (call_has(c, ALONE)) {
        operand_leave_out(kv);
        operand_leave_out(call_operand(c, QK_RMSNORM_KV_WEIGHT));
        operand_leave_out(call_operand(c, QK_RMSNORM_KV_OUT));
    }
    if (call_has(c, PACKED)) {
        operand_set_stride(q, 0, d->width + d->width_kv + 64);
        operand_set_stride(kv, 0, d->width + d->width_kv + 64);
        operand_place_inside(kv, q, d->width);
    }
    if (call_has(c, IN_PLACE)) {
        operand_place_inside(call_operand(c, QK_RMSNORM_KV_OUT), kv, 0);
        if (d->residual)
            operand_place_inside(call_operand(c, QK_RMSNORM_Q_SUM),
                                 call_operand(c, QK_RMSNORM_Q_RESIDUAL), 0);
        if (d->q_out_dtype == d->dtype)
            operand_place_inside(call_operand(c, QK_RMSNORM_Q_OUT), q, 0);
    }
}

/* Fills a token's row of an operand; with ZEROS some groups are 0. */
static void fill_row(struct call *c, struct operand *o, int token)
{
    for (int64_t i = 0; o->given && i < o->dims[1]; i++) {
        double x = random_value(&c->random);
        if (call_has(c, ZEROS))
            x = token == 1 || (i / GROUP) % 2 == token % 2 ? 0 : ldexp(x, (int)(i % 9) - 4);
        operand_set(o, AT(token, i), x);
    }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    for (int t = 0; t < c->args.qk_rmsnorm.tokens; t++) {
        fill_row(c, call_operand(c, QK_RMSNORM_Q), t);
        fill_row(c, call_operand(c, QK_RMSNORM_Q_RESIDUAL), t);
        fill_row(c, call_operand(c, QK_RMSNORM_KV), t);
    }
    operand_set_random(call_operand(c, QK_RMSNORM_Q_WEIGHT), &c->random);
    operand_set_random(call_operand(c, QK_RMSNORM_KV_WEIGHT), &c->random);
}

/* True if a residual is added to the input `in`. */
static bool is_added(struct call *c, const struct operand *in)
{
    return c->desc.qk_rmsnorm.residual && in == call_operand(c, QK_RMSNORM_Q);
}

/* Returns element i of row t of `in`, plus the residual if there is one. Compares this sum with the
 * output of sums. */
static double summed(struct call *c, int t, int i, struct operand *in)
{
    const double x = operand_value(in, AT(t, i));
    if (!is_added(c, in))
        return x;
    struct operand *sum = call_operand(c, QK_RMSNORM_Q_SUM);
    const double whole = x + operand_value(call_operand(c, QK_RMSNORM_Q_RESIDUAL), AT(t, i));
    double bound;
    const double expected = stored_value(sum->precision, 1, whole, STORED_F * fabs(whole), &bound);
    call_compare(c, sum, AT(t, i), expected, bound);
    return whole;
}

/*
 * Compares a row. With f = 2^-24, the norm has an error of (D + 5) f / 2 + 5 f of the result;
 * rope_compare.c derives it. A scale is the largest of 128 results times a rounded constant: 2 f
 * more. Numbers that are stored in fp8 are divided by the scale that the kernel stored. A sum with
 * a residual was rounded by f, which adds 2 f to the norm's error.
 */
static void compare_row(struct call *c, int t, struct operand *in, const struct operand *weight,
                        struct operand *out, struct operand *scales)
{
    double x[WIDTH_MAX] = {0}, w[WIDTH_MAX] = {0}, y[WIDTH_MAX];
    const int width = (int)in->dims[1];
    const int added = is_added(c, in) ? 2 : 0;
    const double relative = ((width + 5) / 2.0 + 5 + added) * STORED_F;
    for (int i = 0; i < width; i++) {
        x[i] = summed(c, t, i, in);
        w[i] = operand_value(weight, AT(i)) + (c->desc.qk_rmsnorm.gemma ? 1 : 0);
    }
    ref_rms_norm(x, w, width, c->args.qk_rmsnorm.eps, y);
    const int group = c->desc.qk_rmsnorm.row_scale ? width : GROUP;
    double scale = 1, largest = 0;
    for (int i = 0; i < width; i++) {
        if (scales->given && i % group == 0) {
            largest = 0;
            for (int k = i; k < i + group; k++)
                largest = fmax(largest, fabs(y[k]));
            const double expected = largest / out->precision->limit;
            call_check(c, scales, AT(t, i / group), expected, expected * (relative + 2 * STORED_F));
            scale = operand_result(scales, AT(t, i / group));
        }
        double bound, expected = 0;
        if (scale > 0)
            expected = stored_value(out->precision, scale, y[i], relative * fabs(y[i]), &bound);
        call_compare(c, out, AT(t, i), expected, scale > 0 ? bound : 0);
    }
}

/* Compares the normalised rows of all tokens. */
static void compare(struct call *c)
{
    struct operand none = {.given = false};
    for (int t = 0; t < c->args.qk_rmsnorm.tokens; t++) {
        compare_row(c, t, call_operand(c, QK_RMSNORM_Q), call_operand(c, QK_RMSNORM_Q_WEIGHT),
                    call_operand(c, QK_RMSNORM_Q_OUT), call_operand(c, QK_RMSNORM_Q_OUT_SCALE));
        if (!call_has(c, ALONE))
            compare_row(c, t, call_operand(c, QK_RMSNORM_KV), call_operand(c, QK_RMSNORM_KV_WEIGHT),
                        call_operand(c, QK_RMSNORM_KV_OUT), &none);
    }
}

const struct verify_op verify_qk_rmsnorm = {
    .op = "qk_rmsnorm",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=4096"},
    .dimensions = {{"tokens", offsetof(struct shape, tokens), 1 << 20, "rows of q and kv"}},
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
