/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of state_copy kernels: compares every byte of both pools.
 */
#include "tools/verify/call.h"

/* Largest number of spans of a call; integers of a span: source offset, target offset, bytes. */
enum { SPANS_MAX = 1024, SPAN = 3 };

/* Flags of a shape. */
enum {
    SKIPS = 1 << 0,  /* some spans have a negative offset or length, so that they are not copied */
    WITHIN = 1 << 1, /* source and target are one pool */
    RAGGED = 1 << 2, /* spans have different lengths, and the first is empty */
};

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    int spans, bytes; /* bytes: length of the longest span */
} shapes[] = {
    {{"one", 0}, 1, 16},
    {{"states", 0}, 6, 65536},
    {{"ragged", RAGGED}, 9, 40016},
    {{"skips", SKIPS | RAGGED}, 8, 4112},
    {{"within", WITHIN}, 5, 16400},
    {{"long", 0}, 2, 300000},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", 0}, 512, 65536};

/* The data of a call, in call->own. */
struct own {
    /* Source offset, target offset and length of each span, in bytes. */
    int64_t spans[SPANS_MAX][SPAN];
};

/* Sets the spans, which are in reverse order in the target. Each span has the memory of the longest
 * and 32 bytes. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    const int64_t room = s->bytes + 32;
    c->args.state_copy.span_count = s->spans;
    c->args.state_copy.max_bytes = s->bytes;
    for (int i = 0; i < s->spans; i++) {
        int64_t *span = own->spans[i];
        span[0] = i * room + 16 * (i % 2);
        span[1] = (s->spans - 1 - i) * room + (call_has(c, WITHIN) ? s->spans * room : 0);
        span[2] = call_has(c, RAGGED) ? s->bytes / 16 * i / (s->spans - 1) * 16 : s->bytes;
        if (call_has(c, SKIPS) && i % 3 == 1)
            span[i / 3 % SPAN] = -16 * (i + 1);
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct shape *s = c->shape;
    struct operand *source = call_operand(c, STATE_COPY_SOURCE);
    struct operand *target = call_operand(c, STATE_COPY_TARGET);
    const int64_t all = s->spans * (int64_t)(s->bytes + 32);
    operand_resize(source, 0, call_has(c, WITHIN) ? 2 * all : all);
    operand_resize(target, 0, call_has(c, WITHIN) ? 2 * all : all);
    if (call_has(c, WITHIN))
        operand_place_inside(source, target, 0);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct own *own = c->own;
    const bool within = call_has(c, WITHIN);
    struct operand *bytes = call_operand(c, within ? STATE_COPY_TARGET : STATE_COPY_SOURCE);
    if (c->traced) {
        operand_set_table(bytes, 1, &c->random);
    } else {
        for (int64_t i = 0; i < operand_count(bytes); i++)
            operand_set_int(bytes, AT(i), (int64_t)(random_bits(&c->random) & 0xff));
    }
    for (int i = 0; i < c->args.state_copy.span_count; i++)
        for (int k = 0; k < SPAN; k++)
            operand_set_int(call_operand(c, STATE_COPY_SPANS), AT(i, k), own->spans[i][k]);
}

/* Compares each copied span with its source. */
static void compare(struct call *c)
{
    const struct own *own = c->own;
    struct operand *target = call_operand(c, STATE_COPY_TARGET);
    const struct operand *source =
        call_has(c, WITHIN) ? target : call_operand(c, STATE_COPY_SOURCE);
    for (int i = 0; i < c->args.state_copy.span_count; i++) {
        const int64_t *span = own->spans[i];
        if (span[0] < 0 || span[1] < 0)
            continue;
        for (int64_t k = 0; k < span[2]; k++)
            call_compare_int(c, target, AT(span[1] + k), operand_int(source, AT(span[0] + k)));
    }
}

/* Returns the fewest bytes that a launch can load and store: struct verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct own *own = c->own;
    double bytes = 0;
    for (int i = 0; i < c->args.state_copy.span_count; i++)
        bytes += 2.0 * (double)own->spans[i][2] + sizeof(own->spans[i]);
    return bytes;
}

const struct verify_op verify_state_copy = {
    .op = "state_copy",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"spans=64"},
    .dimensions =
        {
            {"spans", offsetof(struct shape, spans), SPANS_MAX, "spans"},
            {"bytes", offsetof(struct shape, bytes), 1 << 26, "of each, a multiple of 16"},
        },
    .own_size = sizeof(struct own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
