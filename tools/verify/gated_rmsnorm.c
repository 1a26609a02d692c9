/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_rmsnorm kernels: outputs, their scales, and sums of squares over ranks.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/call.h"
#include "tools/verify/stored.h"

/* Largest number of elements of a group; elements that share a scale; ranks over which a sum of
 * squares goes. */
enum { WIDTH_MAX = 8192, GROUP = 128, RANKS = 3 };

/* Flags of a shape. */
enum {
    OVER_X = 1 << 0,    /* out overwrites x, if the types agree */
    OVER_Z = 1 << 1,    /* out overwrites z */
    PACKED = 1 << 2,    /* x and z are slices of one wider tensor */
    ZEROS = 1 << 3,     /* some groups are zeros, some gates are large, and eps is 0 */
    BY_COLUMN = 1 << 4, /* scales are [group, token] */
    SHARED = 1 << 5,    /* all heads share one weight */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    /* Number of tokens, and of groups of a token. */
    int tokens, groups;
} shapes[] = {
    {{"one group", 0}, 1, 1},
    {{"heads of a rank", SHARED}, 5, 12},
    {{"over x", OVER_X}, 7, 3},
    {{"over z", OVER_Z | SHARED}, 6, 2},
    {{"packed", PACKED | SHARED | BY_COLUMN}, 33, 4},
    {{"views", VERIFY_VIEWS}, 9, 5},
    {{"views of heads", VERIFY_VIEWS | SHARED}, 17, 8},
    {{"zeros", ZEROS}, 6, 3},
    {{"columns of scales", BY_COLUMN}, 18, 6},
    {{"many tokens", SHARED}, 130, 8},
    {{"runs of tokens", SHARED}, 33, 700},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", SHARED}, 4096, 32};

/* True if the kernel is verified on the shape. Only one kernel of each order of rows runs the shape
 * with many steps per workgroup, since these do not depend on other fields. */
static bool takes(const struct call *c)
{
    const struct attn_gated_rmsnorm_desc *d = &c->desc.gated_rmsnorm;
    const struct shape *s = c->shape;
    return s->groups < 500 || (d->width == GROUP && d->act == ATTN_ACT_SILU && !d->row_scale &&
                               d->stage == ATTN_STAGE_ALL);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    c->desc.gated_rmsnorm.groups = s->groups;
    c->desc.gated_rmsnorm.shared_weight = call_has(c, SHARED);
    c->args.gated_rmsnorm.tokens = s->tokens;
    c->args.gated_rmsnorm.count = RANKS * c->desc.gated_rmsnorm.width;
    /* large enough to change results */
    c->args.gated_rmsnorm.eps = call_has(c, ZEROS) ? 0 : 0.0625f;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct attn_gated_rmsnorm_desc *d = &c->desc.gated_rmsnorm;
    struct operand *x = call_operand(c, GATED_RMSNORM_X), *z = call_operand(c, GATED_RMSNORM_Z);
    struct operand *out = call_operand(c, GATED_RMSNORM_OUT);
    struct operand *scale = call_operand(c, GATED_RMSNORM_OUT_SCALE);
    if (call_has(c, PACKED)) {
        operand_set_stride(x, 0, 2 * d->groups * d->width + 64);
        if (z->given) {
            operand_set_stride(z, 0, 2 * d->groups * d->width + 64);
            operand_place_inside(z, x, d->groups * d->width);
        }
    }
    if (call_has(c, BY_COLUMN) && scale->given && !d->row_scale) {
        operand_set_stride(scale, 0, 1);
        operand_set_stride(scale, 1, c->args.gated_rmsnorm.tokens);
    }
    if (d->out_dtype != d->dtype || !out->given)
        return;
    if (call_has(c, OVER_X))
        operand_place_inside(out, x, 0);
    if (call_has(c, OVER_Z) && z->given)
        operand_place_inside(out, z, 0);
}

/* True if all x of a token's group are 0. */
static bool is_zero(const struct call *c, int token, int group)
{
    return call_has(c, ZEROS) && (token + group) % 3 == 1;
}

/* Fills a token's group of an operand; with ZEROS some groups are 0, and some elements are
 * multiplied by `far`. */
static void fill_row(struct call *c, struct operand *o, int token, int group, double far)
{
    for (int i = 0; o->given && i < c->desc.gated_rmsnorm.width; i++) {
        double x = random_value(&c->random);
        if (call_has(c, ZEROS))
            x = is_zero(c, token, group) && far == 1 ? 0 : x * (i % 7 == 0 ? far : 1);
        operand_set(o, AT(token, group, i), x);
    }
}

/* Fills the sums of squares of all ranks, which do not depend on this rank's x. */
static void fill_squares(struct call *c)
{
    struct operand *squares = call_operand(c, GATED_RMSNORM_SQUARES);
    if (c->desc.gated_rmsnorm.stage != ATTN_STAGE_OUTPUTS)
        return;
    for (int t = 0; t < c->args.gated_rmsnorm.tokens; t++)
        for (int g = 0; g < c->desc.gated_rmsnorm.groups; g++) {
            const double mean = 1.25 + random_value(&c->random) / 2;
            operand_set(squares, AT(t, g),
                        is_zero(c, t, g) ? 0 : (float)(mean * c->args.gated_rmsnorm.count));
        }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    fill_squares(c);
    for (int t = 0; t < c->args.gated_rmsnorm.tokens; t++)
        for (int g = 0; g < c->desc.gated_rmsnorm.groups; g++) {
            fill_row(c, call_operand(c, GATED_RMSNORM_X), t, g, 1);
            fill_row(c, call_operand(c, GATED_RMSNORM_Z), t, g, 64);
        }
    operand_set_random(call_operand(c, GATED_RMSNORM_WEIGHT), &c->random);
}

/*
 * Returns a bound of the relative error of a gate with input z. With f = 2^-24: the argument of
 * exp(-z) has a constant and a product, 2 |z| f, and exp one ulp, 2 f. The sum with 1 and its
 * inverse, exact to an ulp, have 3 f, and a product with z has f.
 */
static double gate_error(const struct attn_gated_rmsnorm_desc *d, double z)
{
    return d->act == ATTN_ACT_NONE ? 0 : (2 * fabs(z) + 6) * STORED_F;
}

/*
 * Returns a bound of the error that underflow adds to a gated element. `ungated` is the element
 * without its gate. A sigmoid below the smallest normal number (z < -87.3) may become 0, since
 * v_rcp_f32 flushes its result. Products after it may become 0, too.
 */
static double underflow(const struct attn_gated_rmsnorm_desc *d, double z, double ungated)
{
    const double factor = d->act == ATTN_ACT_SIGMOID ? 1 : fabs(z) + 1;
    return FLT_MIN * (factor * fabs(ungated) + 1);
}

/* Returns the factor of a gate with input `z`. */
static double gate_of(const struct attn_gated_rmsnorm_desc *d, double z)
{
    return d->act == ATTN_ACT_SIGMOID ? ref_sigmoid(z) : ref_silu(z);
}

/* A group of a token: the expected elements, the sum of squares, and the bounds of their errors. */
struct group {
    double y[WIDTH_MAX], error[WIDTH_MAX];
    double squares, squares_error;
};

/*
 * Computes a group. With f as above, the norm has an error of (D + 5) f / 2 + 5 f of the result;
 * rope_compare.c derives it. A gate before the norm adds its own error and half the error of the
 * squares, which is at most twice a gate's largest error. A gate after the norm adds its own error
 * and a product. A sum of squares that is an input has no error.
 *
 * A sum of squares that is the result has the errors of the squares and at most 32 roundings: 8 for
 * elements of a lane, 16 for panels of columns, 6 for lanes and 2 for waves.
 */
static void compute_group(struct call *c, int t, int g, struct group *out)
{
    const struct attn_gated_rmsnorm_desc *d = &c->desc.gated_rmsnorm;
    const struct operand *weight = call_operand(c, GATED_RMSNORM_WEIGHT);
    const struct operand *zs = call_operand(c, GATED_RMSNORM_Z);
    const bool first = d->act == ATTN_ACT_SILU_FIRST, gated = d->act != ATTN_ACT_NONE;
    double x[WIDTH_MAX], w[WIDTH_MAX], gate[WIDTH_MAX], worst = 0, norm;
    for (int i = 0; i < d->width; i++) {
        const double z = gated ? operand_value(zs, AT(t, g, i)) : 0;
        x[i] = operand_value(call_operand(c, GATED_RMSNORM_X), AT(t, g, i));
        w[i] = !weight->given ? 1
                              : operand_value(weight, d->shared_weight ? AT(i) : AT(g, i)) +
                                    (d->gemma ? 1 : 0);
        gate[i] = gate_of(d, z);
        out->error[i] = gated ? gate_error(d, z) + STORED_F : 0;
        worst = fmax(worst, out->error[i]);
    }
    const double eps = fmax(c->args.gated_rmsnorm.eps, DBL_MIN);
    out->squares = ref_gated_squares(x, first ? gate : NULL, d->width);
    out->squares_error = 32 * STORED_F * out->squares;
    for (int i = 0; first && i < d->width; i++)
        out->squares_error += 2 * out->error[i] * pow(x[i] * gate[i], 2);
    if (d->stage == ATTN_STAGE_OUTPUTS) {
        const double sum = operand_value(call_operand(c, GATED_RMSNORM_SQUARES), AT(t, g));
        ref_gated_part_norm(x, gated ? gate : NULL, w, d->width, sum / c->args.gated_rmsnorm.count,
                            eps, out->y);
        norm = (5 / 2.0 + 5) * STORED_F;
    } else {
        ref_gated_rms_norm(x, gated ? gate : NULL, first, w, d->width, eps, out->y);
        norm = ((d->width + 5) / 2.0 + 5) * STORED_F + (first ? worst : 0);
    }
    for (int i = 0; i < d->width; i++) {
        const double z = gated ? operand_value(zs, AT(t, g, i)) : 0;
        out->error[i] = (out->error[i] + norm) * fabs(out->y[i]);
        if (gated)
            out->error[i] += underflow(d, z, gate[i] != 0 ? out->y[i] / gate[i] : 0);
    }
}

/* Compares a normalised group of a token and, if there are any, the scales of its output. */
static void compare_group(struct call *c, int t, int g, const struct group *group, double scale)
{
    const struct attn_gated_rmsnorm_desc *d = &c->desc.gated_rmsnorm;
    struct operand *out = call_operand(c, GATED_RMSNORM_OUT);
    struct operand *scales = call_operand(c, GATED_RMSNORM_OUT_SCALE);
    for (int i = 0; i < d->width; i++) {
        if (scales->given && !d->row_scale && i % GROUP == 0) {
            double largest = 0, error = 0;
            for (int k = i; k < i + GROUP; k++) {
                largest = fmax(largest, fabs(group->y[k]));
                error = fmax(error, group->error[k]);
            }
            const int64_t *at = AT(t, (g * d->width + i) / GROUP);
            const double expected = largest / out->precision->limit;
            call_check(c, scales, at, expected,
                       error / out->precision->limit + 2 * STORED_F * expected);
            scale = operand_result(scales, at);
        }
        double bound, expected = 0;
        if (scale > 0)
            expected = stored_value(out->precision, scale, group->y[i], group->error[i], &bound);
        call_compare(c, out, AT(t, g, i), expected, scale > 0 ? bound : 0);
    }
}

/* Compares the scale of a whole token and returns it. */
static double compare_row_scale(struct call *c, int t, struct group *group)
{
    const struct attn_gated_rmsnorm_desc *d = &c->desc.gated_rmsnorm;
    const double limit = call_operand(c, GATED_RMSNORM_OUT)->precision->limit;
    struct operand *scales = call_operand(c, GATED_RMSNORM_OUT_SCALE);
    double largest = 0, error = 0;
    for (int g = 0; g < d->groups; g++) {
        compute_group(c, t, g, group);
        for (int i = 0; i < d->width; i++) {
            largest = fmax(largest, fabs(group->y[i]));
            error = fmax(error, group->error[i]);
        }
    }
    const double expected = largest / limit;
    call_check(c, scales, AT(t, 0), expected, error / limit + 2 * STORED_F * expected);
    return operand_result(scales, AT(t, 0));
}

/* Compares the sums of squares of all groups. */
static void compare_squares(struct call *c, struct group *group)
{
    struct operand *squares = call_operand(c, GATED_RMSNORM_SQUARES);
    for (int t = 0; t < c->args.gated_rmsnorm.tokens; t++)
        for (int g = 0; g < c->desc.gated_rmsnorm.groups; g++) {
            compute_group(c, t, g, group);
            call_compare(c, squares, AT(t, g), group->squares, group->squares_error);
        }
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    struct group *group = call_allocate(c, 1, sizeof(*group));
    if (c->desc.gated_rmsnorm.stage == ATTN_STAGE_SUMS) {
        compare_squares(c, group);
        return;
    }
    for (int t = 0; t < c->args.gated_rmsnorm.tokens; t++) {
        const double scale = c->desc.gated_rmsnorm.row_scale ? compare_row_scale(c, t, group) : 1;
        for (int g = 0; g < c->desc.gated_rmsnorm.groups; g++) {
            compute_group(c, t, g, group);
            compare_group(c, t, g, group, scale);
        }
    }
}

const struct verify_op verify_gated_rmsnorm = {
    .op = "gated_rmsnorm",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"tokens=64", "tokens=4096"},
    .dimensions =
        {
            {"tokens", offsetof(struct shape, tokens), 1 << 20, "rows of x"},
            {"groups", offsetof(struct shape, groups), 65535, "groups of a token"},
        },
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
};
