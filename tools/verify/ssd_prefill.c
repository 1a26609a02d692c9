/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of ssd_prefill kernels: prompts, in one launch or in segments.
 */
#include "tools/verify/ssd_layer.h"

/* Tokens of a chunk. */
enum { CHUNK = 64 };

/* The shapes on which kernels are verified. */
static const struct recurrent_shape shapes[] = {
    {{"lengths", FRESH}, 1, 2, 6, 0, 1, {1, 63, 64, 65, 0, 199}},
    {{"rank", FUSED | PADDED | WIDE_LISTS | BLOCKS}, 2, 6, 4, 0, 1, {70, 3, 17, 129}},
    {{"forks", FORKS | FRESH | WIDE_LISTS}, 1, 1, 4, 0, 1, {5, 128, 66, 2}},
    {{"uniform", UNIFORM}, 1, 3, 3, 200, 2, {0}},
    {{"extremes", EXTREMES | FRESH}, 1, 2, 3, 0, 1, {150, 1, 97}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 1, {2, 65, 0, 80}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 1, {2, 70}},
    {{"long, with blocks", FRESH | BLOCKS}, 1, 1, 2, 0, 3, {1030, 640}},
    {{"65,536 tokens", UNIFORM}, 1, 1, 1, 1 << 16, 64, {0}},
};

/* The shape of a trace. Member `steps` is the number of chunks of a segment. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 1, 16, 8, 2048, 4, {0}};

/* True if the shape has one sequence of 65536 tokens and is not traced. */
static bool is_long(const struct call *c)
{
    return ((const struct recurrent_shape *)c->shape)->length == 1 << 16 && !c->traced;
}

/* Returns the layer of the call, with its segments. */
static struct ssd_layer of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_PROMPTS(c, ssd_prefill, SSD_PREFILL);
    const struct attn_ssd_prefill_args *const a = &c->args.ssd_prefill;
    struct ssd_layer l = SSD_LAYER_OF(c, ssd_prefill, SSD_PREFILL, r, CHUNK);
    l.segments = c->desc.ssd_prefill.segments;
    l.segment = a->segment_tokens;
    l.segment_count = a->batch ? a->segment_rows / a->batch : 0;
    l.segment_states = call_operand(c, SSD_PREFILL_SEGMENT_STATES);
    l.segment_sums = call_operand(c, SSD_PREFILL_SEGMENT_SUMS);
    return l;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct ssd_layer l = of(c);
    struct attn_ssd_prefill_args *const a = &c->args.ssd_prefill;
    ssd_layer_size(&l);
    *l.r.state_steps = 1;
    if (l.segments == ATTN_SEGMENTS_NONE)
        return;
    a->segment_tokens = l.r.shape->steps * CHUNK;
    a->segment_rows = a->batch * ((a->max_seqlen + a->segment_tokens - 1) / a->segment_tokens);
}

/* True if the kernel is verified on the shape. Only one kernel runs long shapes, since the
 * reference takes seconds for 65,536 tokens. */
static bool takes(const struct call *c)
{
    const struct attn_ssd_prefill_desc *const d = &c->desc.ssd_prefill;
    return !is_long(c) || (d->head_dim == 128 && d->head_dim_v == 64 && d->act == ATTN_ACT_SILU);
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

const struct verify_op verify_ssd_prefill = {
    .op = "ssd_prefill",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=8,length=2048", "batch=64,length=256"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("b and c", "x"),
            {"segment", offsetof(struct recurrent_shape, steps), 1 << 10, "chunks of a segment"},
        },
    .own_size = sizeof(struct recurrent_own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
