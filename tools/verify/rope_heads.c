/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of rope_heads kernels: norm, rotation in both directions, and gates of heads.
 */
#include <math.h>

#include "tools/reference/gated_rmsnorm.h"
#include "tools/reference/indexer_rope.h"
#include "tools/verify/scaled_row.h"
#include "tools/verify/stored.h"

/* Largest number of elements of a head; elements that share a scale; rows of the table of cosines
 * and sines; roundings of a mean. */
enum { DIM_MAX = 512, GROUP = 128, POSITIONS = 5000, MEAN_STEPS = 16 };

/* Flags of a shape. */
enum {
    BACK = 1 << 0,        /* angles are negative: the rotation goes back */
    FIRST = 1 << 1,       /* the first elements of a head rotate, not the last */
    IN_PLACE = 1 << 2,    /* out overwrites x */
    OVER_GATE = 1 << 3,   /* out overwrites the gate */
    HEAD_GATES = 1 << 4,  /* each head has a gate */
    NO_ELEMENTS = 1 << 5, /* elements have no gates */
    /* The norm has no weight. */
    NO_WEIGHT = 1 << 6,
    ZEROS = 1 << 7,     /* some heads are zeros, and eps is 0 */
    POWERS = 1 << 8,    /* scales are powers of two */
    BY_COLUMN = 1 << 9, /* scales are [group, token] */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int tokens, heads;
} shapes[] = {
    {{"one head", BACK | POWERS}, 1, 1},
    {{"heads of a rank", NO_WEIGHT | IN_PLACE}, 5, 12},
    {{"back in place", BACK | IN_PLACE | HEAD_GATES}, 3, 16},
    {{"over gates", OVER_GATE | HEAD_GATES | FIRST}, 4, 5},
    {{"gates of heads", HEAD_GATES | NO_ELEMENTS | BACK}, 7, 33},
    {{"views", VERIFY_VIEWS | HEAD_GATES | POWERS}, 6, 9},
    {{"views backwards", VERIFY_VIEWS | BACK | NO_WEIGHT}, 9, 3},
    {{"zeros", ZEROS}, 4, 8},
    {{"many", BACK | NO_WEIGHT | BY_COLUMN}, 33, 40},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", BACK | NO_WEIGHT}, 64, 128};

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    const struct attn_rope_heads_desc *d = &c->desc.rope_heads;
    struct attn_rope_heads_args *a = &c->args.rope_heads;
    c->desc.rope_heads.heads = s->heads;
    a->tokens = s->tokens;
    a->max_position = POSITIONS;
    a->backwards = call_has(c, BACK);
    a->power_of_two_scales = call_has(c, POWERS);
    a->scale = call_has(c, FIRST) ? 0.75f : 0;
    a->eps = call_has(c, ZEROS) ? 0 : 1e-3f;
    if (d->rope != ATTN_ROPE_NONE && !call_has(c, FIRST))
        a->rotary_first = d->head_dim - d->rotary_dim;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    struct operand *x = call_operand(c, ROPE_HEADS_X), *out = call_operand(c, ROPE_HEADS_OUT);
    struct operand *gate = call_operand(c, ROPE_HEADS_GATE);
    if (call_has(c, NO_WEIGHT)) {
        operand_leave_out(call_operand(c, ROPE_HEADS_WEIGHT));
        operand_leave_out(call_operand(c, ROPE_HEADS_BIAS));
    }
    if (!call_has(c, HEAD_GATES))
        operand_leave_out(call_operand(c, ROPE_HEADS_HEAD_GATE));
    if (call_has(c, NO_ELEMENTS))
        operand_leave_out(gate);
    struct operand *scale = call_operand(c, ROPE_HEADS_OUT_SCALE);
    if (call_has(c, BY_COLUMN) && scale->given) {
        operand_set_stride(scale, 0, 1);
        operand_set_stride(scale, 1, c->args.rope_heads.tokens);
    }
    if (scale->given)
        return; /* out is no tensor of dtype */
    if (call_has(c, IN_PLACE))
        operand_place_inside(out, x, 0);
    if (call_has(c, OVER_GATE) && gate->given)
        operand_place_inside(out, gate, 0);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const int dim = c->desc.rope_heads.head_dim;
    struct operand *x = call_operand(c, ROPE_HEADS_X), *gate = call_operand(c, ROPE_HEADS_GATE);
    struct operand *heads = call_operand(c, ROPE_HEADS_HEAD_GATE);
    struct operand *angles = call_operand(c, ROPE_HEADS_COS_SIN);
    struct operand *positions = call_operand(c, ROPE_HEADS_POSITIONS);
    for (int t = 0; t < c->args.rope_heads.tokens; t++) {
        if (positions->given)
            operand_set_int(positions, AT(t), (int64_t)(random_bits(&c->random) % POSITIONS));
        for (int h = 0; h < c->desc.rope_heads.heads; h++) {
            const bool none = call_has(c, ZEROS) && (t + h) % 3 == 0;
            if (heads->given)
                operand_set(heads, AT(t, h), 8 * random_value(&c->random));
            for (int d = 0; d < dim; d++) {
                operand_set(x, AT(t, h, d), none ? 0 : random_value(&c->random));
                if (gate->given)
                    operand_set(gate, AT(t, h, d), 8 * random_value(&c->random));
            }
        }
    }
    if (call_operand(c, ROPE_HEADS_WEIGHT)->given)
        operand_set_random(call_operand(c, ROPE_HEADS_WEIGHT), &c->random);
    if (call_operand(c, ROPE_HEADS_BIAS)->given)
        operand_set_random(call_operand(c, ROPE_HEADS_BIAS), &c->random);
    for (int d = 0; angles->given && d < angles->dims[1]; d++) {
        const int pairs = (int)angles->dims[1] / 2;
        const double frequency = pow(10000, -(d % pairs) / (double)pairs);
        for (int i = 0; i < angles->dims[0]; i++) {
            const double angle = i * frequency;
            operand_set(angles, AT(i, d), (float)(d < pairs ? cos(angle) : sin(angle)));
        }
    }
}

/* The expected elements of a head, and bounds of their errors. */
struct head {
    double y[DIM_MAX], error[DIM_MAX];
};

/* Normalises a head. The norm has an error of (D + 5) f / 2 + 5 f of the result; rope_compare.c
 * derives it. The mean of layer_norm has up to MEAN_STEPS roundings of the mean magnitude: 8 in a
 * lane, 6 between lanes, and a product. The mean's error changes each difference from the mean by
 * the same amount, and the root of their mean square by at most that amount. */
static void normalise(struct call *c, struct head *head)
{
    const int dim = c->desc.rope_heads.head_dim;
    const struct operand *weight = call_operand(c, ROPE_HEADS_WEIGHT);
    const struct operand *bias = call_operand(c, ROPE_HEADS_BIAS);
    const bool centred = c->desc.rope_heads.layer_norm;
    double mean = 0, size = 0, square = 0;
    for (int d = 0; d < dim && centred; d++) {
        mean += head->y[d] / dim;
        size += fabs(head->y[d]) / dim;
    }
    for (int d = 0; d < dim; d++) {
        head->y[d] -= mean;
        square += head->y[d] * head->y[d] / dim;
    }
    square += c->args.rope_heads.eps;
    for (int d = 0; d < dim; d++) {
        const double w = weight->given ? operand_value(weight, AT(d)) : 1;
        const double inverse = square > 0 ? 1 / sqrt(square) : 0;
        const double off = centred ? MEAN_STEPS * STORED_F * size + STORED_F * fabs(head->y[d]) : 0;
        head->y[d] *= inverse * w;
        head->error[d] = ((dim + 5) / 2.0 + 5) * STORED_F * fabs(head->y[d]) +
                         off * inverse * (fabs(w) + fabs(head->y[d]));
        if (bias->given)
            head->y[d] += operand_value(bias, AT(d));
        head->error[d] += centred ? STORED_F * fabs(head->y[d]) : 0;
    }
}

/* Rotates a head of token t, and updates the bounds of its errors. */
static void rotate(struct call *c, int t, struct head *head)
{
    const struct attn_rope_heads_desc *desc = &c->desc.rope_heads;
    const struct attn_rope_heads_args *a = &c->args.rope_heads;
    const int64_t position = operand_int(call_operand(c, ROPE_HEADS_POSITIONS), AT(t));
    double cos_sin[DIM_MAX];
    for (int d = 0; d < desc->rotary_dim; d++) {
        cos_sin[d] = operand_value(call_operand(c, ROPE_HEADS_COS_SIN), AT(position, d));
        if (a->backwards && d >= desc->rotary_dim / 2)
            cos_sin[d] = -cos_sin[d];
    }
    ref_rotate(head->y + a->rotary_first, head->error + a->rotary_first, cos_sin,
               desc->rotary_dim / 2, desc->rope == ATTN_ROPE_GPTJ);
}

/* Multiplies an element by the gate with input x, and updates the bound of its error.
 * gated_rmsnorm.c bounds a gate's error. */
static void apply_gate(const struct call *c, double x, double *y, double *error)
{
    const double gate = c->desc.rope_heads.act == ATTN_ACT_SILU ? ref_silu(x) : ref_sigmoid(x);
    *error = *error * fabs(gate) + (2 * fabs(x) + 7) * STORED_F * fabs(*y * gate);
    *y *= gate;
}

/* Compares the scale of the 128 elements from `first` on, and returns the scale that the kernel
 * stored. */
static double compare_scale(struct call *c, int t, int h, int first, const struct head *head)
{
    struct operand *out = call_operand(c, ROPE_HEADS_OUT);
    struct operand *scales = call_operand(c, ROPE_HEADS_OUT_SCALE);
    const int64_t *at = AT(t, (h * c->desc.rope_heads.head_dim + first) / GROUP);
    const double got = operand_result(scales, at);
    double largest = 0, error = 0;
    for (int d = first; d < first + GROUP; d++) {
        largest = fmax(largest, fabs(head->y[d]));
        error = fmax(error, head->error[d]);
    }
    operand_allow(scales, at);
    if (!scaled_row_has(got, largest, error, out->precision->limit, call_has(c, POWERS)))
        verify_fail(c->row, "elements %d.. of head %d of token %d have the scale %g for %g", first,
                    h, t, got, largest);
    return got;
}

/* Computes a head and bounds of its errors before the final rounding. */
static void make_head(struct call *c, int t, int h, struct head *head)
{
    const struct attn_rope_heads_desc *desc = &c->desc.rope_heads;
    const double scale = c->args.rope_heads.scale != 0 ? c->args.rope_heads.scale : 1;
    struct operand *gate = call_operand(c, ROPE_HEADS_GATE);
    struct operand *heads = call_operand(c, ROPE_HEADS_HEAD_GATE);
    for (int d = 0; d < desc->head_dim; d++)
        head->y[d] = operand_value(call_operand(c, ROPE_HEADS_X), AT(t, h, d));
    if (desc->norm != ATTN_NORM_NONE)
        normalise(c, head);
    if (desc->rope != ATTN_ROPE_NONE)
        rotate(c, t, head);
    for (int d = 0; d < desc->head_dim; d++) {
        double *const y = &head->y[d], *const error = &head->error[d];
        if (gate->given)
            apply_gate(c, operand_value(gate, AT(t, h, d)), y, error);
        if (heads->given)
            apply_gate(c, operand_value(heads, AT(t, h)), y, error);
        *error = (*error + STORED_F * fabs(*y)) * fabs(scale);
        *y *= scale;
    }
}

/* Compares a rotated head, and the scale of its output if it has one. */
static void compare_head(struct call *c, int t, int h)
{
    struct operand *out = call_operand(c, ROPE_HEADS_OUT);
    const bool scaled = call_operand(c, ROPE_HEADS_OUT_SCALE)->given;
    struct head head = {{0}, {0}};
    double scale = 1;
    make_head(c, t, h, &head);
    for (int d = 0; d < c->desc.rope_heads.head_dim; d++) {
        double bound = 0, expected = 0;
        if (scaled && d % GROUP == 0)
            scale = compare_scale(c, t, h, d, &head);
        if (scale > 0)
            expected = stored_value(out->precision, scale, head.y[d], head.error[d], &bound);
        call_compare(c, out, AT(t, h, d), expected, bound);
    }
}

/* Compares all tokens and heads. */
static void compare(struct call *c)
{
    for (int t = 0; t < c->args.rope_heads.tokens; t++)
        for (int h = 0; h < c->desc.rope_heads.heads; h++)
            compare_head(c, t, h);
}

/* True if the kernel is verified on the shape: false if the kernel has an activation and the shape
 * lacks the gates that need it. */
static bool takes(const struct call *c)
{
    return c->desc.rope_heads.act == ATTN_ACT_NONE || !call_has(c, NO_ELEMENTS) ||
           call_has(c, HEAD_GATES);
}

const struct verify_op verify_rope_heads = {
    .op = "rope_heads",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=4096"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, tokens), 1 << 20, "rows of x"},
            {"heads", offsetof(struct shape, heads), 4096, "heads of a token"},
        },
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
