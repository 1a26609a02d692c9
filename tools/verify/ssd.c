/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of ssd kernels: decode steps and verification of drafts.
 */
#include "tools/verify/ssd_layer.h"

/* The shapes on which kernels are verified. */
static const struct recurrent_shape shapes[] = {
    {{"decode", UNIFORM}, 1, 2, 3, 1, 1, {0}},
    {{"decode of a rank", UNIFORM | FUSED | PADDED}, 2, 6, 4, 1, 1, {0}},
    {{"forks", UNIFORM | FORKS | FRESH | WIDE_LISTS}, 1, 1, 4, 1, 1, {0}},
    {{"verify", UNIFORM | ACCEPTED}, 1, 3, 3, 4, 4, {0}},
    {{"verify ragged", ACCEPTED | PADDED | FUSED | WIDE_LISTS}, 1, 2, 6, 0, 8, {8, 1, 3, 0, 5, 2}},
    {{"extremes", EXTREMES | FRESH}, 1, 2, 3, 0, 1, {40, 1, 33}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 2, {2, 1, 0, 2}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 1, {2, 1}},
    {{"prompts", FRESH}, 1, 2, 3, 0, 1, {130, 0, 65}},
};

/* The shape with which a trace begins. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 8, 128, 64, 1, 1, {0}};

/* True if the kernel is verified on the shape. */
static bool takes(const struct call *c) { return recurrent_takes(c->shape, c->desc.ssd.tree); }

/* Returns the layer of the call. */
static struct ssd_layer of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_TREES(c, ssd, SSD);
    return SSD_LAYER_OF(c, ssd, SSD, r, 0);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_size(&l);
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_place(&l);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_fill(&l);
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_compare(&l);
}

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct ssd_layer l = of((struct call *)c);
    return ssd_layer_least_bytes(&l);
}

const struct verify_op verify_ssd = {
    .op = "ssd",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("b and c", "x"),
            RECURRENT_STEPS_ROW,
        },
    .own_size = sizeof(struct recurrent_own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
