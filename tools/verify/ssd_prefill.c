/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of ssd_prefill kernels.
 */
#include "tools/verify/ssd_layer.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { CHUNK = 64 };

static const struct recurrent_shape shapes[] = {
    {{"lengths", FRESH}, 1, 2, 6, 0, 1, {1, 63, 64, 65, 0, 199}},
    {{"rank", FUSED | PADDED | WIDE_LISTS}, 2, 6, 4, 0, 1, {70, 3, 17, 129}},
    {{"forks", FORKS | FRESH | WIDE_LISTS}, 1, 1, 4, 0, 1, {5, 128, 66, 2}},
    {{"uniform", UNIFORM}, 1, 3, 3, 100, 1, {0}},
    {{"extremes", EXTREMES | FRESH}, 1, 2, 3, 0, 1, {150, 1, 97}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 1, {2, 65, 0, 80}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 1, {2, 70}},
    {{"long", FRESH}, 1, 1, 2, 0, 1, {1030, 640}},
};

static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 1, 16, 8, 2048, 1, {0}};

static struct ssd_layer of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_PROMPTS(c, ssd_prefill, SSD_PREFILL);
    return SSD_LAYER_OF(c, ssd_prefill, SSD_PREFILL, r, CHUNK);
}

static void size(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_size(&l);
}

static void place(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_place(&l);
}

static void fill(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_fill(&l);
}

static void compare(struct call *c)
{
    const struct ssd_layer l = of(c);
    ssd_layer_compare(&l);
}

static double least_bytes(const struct call *c)
{
    const struct ssd_layer l = of((struct call *)c);
    return ssd_layer_least_bytes(&l);
}

const struct verify_op verify_ssd_prefill = {
    .op = "ssd_prefill",
    .shapes = shapes,
    .shape_size = sizeof(shapes[0]),
    .shape_count = COUNT(shapes),
    .trace = &traced,
    .tuned = {"batch=8,length=2048", "batch=64,length=256"},
    .dimensions =
        {
            {"heads", offsetof(struct recurrent_shape, heads), 1024, "of b and c"},
            {"value_heads", offsetof(struct recurrent_shape, value_heads), 1024,
             "of x, a multiple of heads"},
            {"batch", offsetof(struct recurrent_shape, batch), RECURRENT_BATCH_MAX, "sequences"},
            {"length", offsetof(struct recurrent_shape, length), 1 << 16, "tokens of each"},
        },
    .own_size = sizeof(struct recurrent_own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
