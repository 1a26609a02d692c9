/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of conv1d kernels: prompts, decode steps and verification of drafts, with states in
 * a pool.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/conv1d.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/call.h"
#include "tools/verify/stored.h"
#include "tools/verify/tree.h"

/* Largest numbers of sequences in a shape's list, taps, and tokens of a call; elements between
 * slots that are far apart; tokens of a block. */
enum { SEQUENCES = 6, TAPS_MAX = 6, TOKENS_MAX = 1 << 17, FAR_STRIDE = 1 << 29, BLOCK = 128 };
enum { WIDE_STRIDE = 1 << 21 /* elements between tokens that are 4 MiB apart, the limit */ };
enum { DRAFTS_MAX = 40 /* largest number of drafts of a sequence */ };

/* Flags of a shape. */
enum {
    UNIFORM = 1 << 0,     /* cu_seqlens is NULL */
    VERIFIES = 1 << 1,    /* the call passes `accepted` */
    FORKS = 1 << 2,       /* states are read from and written to different slots */
    FRESH = 1 << 3,       /* some sequences have no state yet */
    PADDED = 1 << 4,      /* some slots are padding, also slot 0 */
    BY_COLUMN = 1 << 5,   /* states are [slot, column, channel] */
    OVER_X = 1 << 6,      /* out overwrites x */
    SPLIT = 1 << 7,       /* the output is three tensors */
    FAR = 1 << 8,         /* slots of states are GiB apart */
    WIDE_LISTS = 1 << 9,  /* the list of slots is a column of a wider array */
    BLOCKS = 1 << 10,     /* states after blocks of 128 tokens are stored too */
    FAR_TOKENS = 1 << 11, /* a sequence's tokens are spread over more than 4 GiB */
};

/* The first four shapes run every path of a kernel: prompts, drafts, and waves of 256 channels. A
 * test may run only these. */
static const struct shape {
    struct verify_shape is;
    int channels, batch, length; /* length: tokens of every sequence if `lengths` is empty */
    int extra;                   /* columns of a state in addition to taps - 1 */
    int lengths[SEQUENCES];
} shapes[] = {
    {{"views", VERIFY_VIEWS | FORKS | PADDED | WIDE_LISTS | BLOCKS},
     320,
     5,
     0,
     2,
     {128, 1, 2, 9, 129}},
    {{"verify ragged", VERIFIES | PADDED | OVER_X}, 64, 6, 0, 7, {8, 1, 3, 0, 5, 2}},
    {{"many channels", FRESH | FORKS | BY_COLUMN | SPLIT | WIDE_LISTS},
     640,
     6,
     0,
     0,
     {1, 0, 1, 3, 1, 1}},
    {{"decode in place", UNIFORM | OVER_X | PADDED}, 512, 4, 1, 0, {0}},
    {{"decode", UNIFORM}, 64, 3, 1, 0, {0}},
    {{"decode by column", UNIFORM | BY_COLUMN | SPLIT | WIDE_LISTS}, 384, 3, 1, 0, {0}},
    {{"decode of drafts", VERIFIES | FORKS}, 128, 5, 0, 3, {1, 1, 1, 1, 1}},
    {{"verify", VERIFIES | UNIFORM | SPLIT}, 192, 4, 4, 3, {0}},
    {{"windows", VERIFIES | UNIFORM | FORKS | BY_COLUMN}, 128, 3, 6, 5, {0}},
    {{"short", FRESH}, 64, 6, 0, 0, {2, 1, 3, 4, 0, 5}},
    {{"prefill", FRESH | SPLIT}, 256, 4, 0, 0, {33, 96, 1, 130}},
    {{"prefill of drafts", FORKS | FRESH | BY_COLUMN}, 64, 4, 0, 4, {31, 2, 64, 7}},
    {{"in place", OVER_X | FRESH}, 128, 3, 0, 0, {32, 17, 1}},
    {{"beyond 4 GiB", FAR | FORKS}, 64, 3, 0, 0, {5, 1, 40}},
    {{"tokens beyond 4 GiB", FAR_TOKENS | BLOCKS}, 64, 2, 0, 0, {1030, 3}},
    {{"long, with blocks", FRESH | BLOCKS}, 64, 2, 0, 0, {2100, 300}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", UNIFORM}, 8192, 64, 1, 0, {0}};

/* The data of a call, in call->own. */
struct own {
    /* [batch + 1]: first token of each sequence */
    int32_t cu[TOKENS_MAX / 64];
    /* [batch]: slots to which states are written, and from which they are read */
    int32_t slots[TOKENS_MAX / 64], slots_in[TOKENS_MAX / 64];
};

/* True if the call passes `accepted`. A traced call does if its states have columns for drafts. */
static bool verifies(const struct call *c)
{
    return call_has(c, VERIFIES) || (c->traced && ((const struct shape *)c->shape)->extra > 0);
}

/* Returns the number of tokens of sequence `i`. */
static int length_of(const struct shape *s, int i) { return s->length ? s->length : s->lengths[i]; }

/* True if the kernel is verified on the shape. Kernels for trees run shapes with few drafts and
 * without BLOCKS. */
static bool takes(const struct call *c)
{
    const struct shape *s = c->shape;
    int most = 0;
    for (int i = 0; i < SEQUENCES; i++)
        most = length_of(s, i) > most ? length_of(s, i) : most;
    return !c->desc.conv1d.tree || (most <= DRAFTS_MAX && !call_has(c, BLOCKS));
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct own *own = c->own;
    struct attn_conv1d_args *a = &c->args.conv1d;
    c->desc.conv1d.channels = s->channels;
    a->batch = s->batch;
    for (int i = 0; i < s->batch; i++) {
        const int length = length_of(s, i);
        own->cu[i + 1] = own->cu[i] + length;
        a->max_seqlen = length > a->max_seqlen ? length : a->max_seqlen;
    }
    a->tokens = own->cu[s->batch] + (c->traced ? 0 : 2); /* 2 rows belong to no sequence */
    a->window_steps = a->max_seqlen > s->extra + 1 ? a->max_seqlen : s->extra + 1;
    a->state_columns = c->desc.conv1d.taps - 1 + s->extra;
    a->q_channels = call_has(c, SPLIT) ? 64 : 0;
    a->k_channels = call_has(c, SPLIT) ? s->channels / 128 * 64 - (s->channels < 256 ? 0 : 64) : 0;
    a->out_channels = s->channels - a->q_channels - a->k_channels;
    a->first_slot = call_has(c, PADDED);
    if (call_has(c, BLOCKS)) {
        a->block_tokens = BLOCK;
        a->block_columns = a->max_seqlen / BLOCK;
    }
}

/* Returns the number of slots of states: two for each sequence, one that is unused, and one for
 * each block. */
static int slot_count(const struct call *c)
{
    const struct attn_conv1d_args *const a = &c->args.conv1d;
    return 2 * a->batch + 1 + a->batch * a->block_columns;
}

/* Returns the slot for the state after a block of sequence i. Every third one is padding, a number
 * below first_slot. */
static int block_slot(const struct call *c, int i, int block)
{
    const struct attn_conv1d_args *const a = &c->args.conv1d;
    const int n = i * a->block_columns + block;
    return n % 3 == 1 ? a->first_slot - 1 : 2 * a->batch + 1 + n;
}

/* Places the tokens of `o`, x or an output, 4 MiB apart. */
static void spread_tokens(struct operand *o)
{
    o->far = true;
    operand_set_stride(o, 0, WIDE_STRIDE);
}

/* Sets sizes of the outputs, q, k and the rest, and with OVER_X places them in the input's
 * memory. */
static void place_outputs(struct call *c)
{
    struct operand *x = call_operand(c, CONV1D_X);
    const struct attn_conv1d_args *a = &c->args.conv1d;
    struct operand *outs[] = {call_operand(c, CONV1D_Q_OUT), call_operand(c, CONV1D_K_OUT),
                              call_operand(c, CONV1D_OUT)};
    const int first[] = {0, a->q_channels, a->q_channels + a->k_channels};
    for (int i = 0; i < 3; i++) {
        if (i < 2 && !(i ? a->k_channels : a->q_channels)) {
            operand_leave_out(outs[i]);
            continue;
        }
        if (call_has(c, FAR_TOKENS))
            spread_tokens(outs[i]);
        if (!call_has(c, OVER_X))
            continue;
        operand_set_stride(outs[i], 0, c->desc.conv1d.channels);
        operand_place_inside(outs[i], x, first[i]);
    }
}

/* Sets the strides of `o`, states or windows, whose last two dimensions are channels and
 * columns. */
static void place_slots(struct call *c, struct operand *o)
{
    const int channel = o->schema.ndim - 2;
    operand_resize(o, 0, slot_count(c));
    if (call_has(c, BY_COLUMN)) {
        operand_set_stride(o, channel, 1);
        operand_set_stride(o, channel + 1, c->desc.conv1d.channels);
    }
    if (call_has(c, FAR)) {
        o->far = true;
        operand_set_stride(o, 0, FAR_STRIDE);
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    place_slots(c, call_operand(c, CONV1D_STATE));
    if (c->desc.conv1d.tree)
        place_slots(c, call_operand(c, CONV1D_WINDOWS));
    if (call_has(c, WIDE_LISTS))
        operand_set_stride(call_operand(c, CONV1D_STATE_SLOTS), 0, 3);
    if (!call_has(c, BLOCKS))
        operand_leave_out(call_operand(c, CONV1D_BLOCK_SLOTS));
    if (call_has(c, UNIFORM))
        operand_leave_out(call_operand(c, CONV1D_CU_SEQLENS));
    if (!verifies(c))
        operand_leave_out(call_operand(c, CONV1D_ACCEPTED));
    if (!call_has(c, FORKS))
        operand_leave_out(call_operand(c, CONV1D_STATE_SLOTS_IN));
    if (!call_has(c, FRESH))
        operand_leave_out(call_operand(c, CONV1D_HAS_STATE));
    if (call_has(c, FAR_TOKENS))
        spread_tokens(call_operand(c, CONV1D_X));
    place_outputs(c);
}

/* Fills the state slots that each sequence reads and writes. */
static void fill_slots(struct call *c)
{
    struct own *own = c->own;
    const int batch = c->args.conv1d.batch;
    for (int i = 0; i < batch; i++) {
        own->slots[i] = call_slot(c, PADDED, i, 2 * batch - 2 * i);
        own->slots_in[i] = call_has(c, FORKS) ? call_slot(c, PADDED, i, 2 * i + 1) : own->slots[i];
        operand_set_int(call_operand(c, CONV1D_STATE_SLOTS), AT(i), own->slots[i]);
        if (call_has(c, FORKS))
            operand_set_int(call_operand(c, CONV1D_STATE_SLOTS_IN), AT(i), own->slots_in[i]);
        if (verifies(c))
            operand_set_int(call_operand(c, CONV1D_ACCEPTED), AT(i),
                            i % (((const struct shape *)c->shape)->extra + 2));
        if (call_has(c, FRESH))
            operand_set_int(call_operand(c, CONV1D_HAS_STATE), AT(i), i % 2);
        for (int block = 0; block < c->args.conv1d.block_columns; block++)
            operand_set_int(call_operand(c, CONV1D_BLOCK_SLOTS), AT(i, block),
                            block_slot(c, i, block));
    }
}

/* Fills the windows, and the parents of all drafts except roots. */
static void fill_tree(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_conv1d_args *a = &c->args.conv1d;
    for (int i = 0; i < a->batch; i++)
        for (int t = 1; t < own->cu[i + 1] - own->cu[i]; t++)
            operand_set_int(call_operand(c, CONV1D_PARENTS), AT(own->cu[i] + t), tree_parent(i, t));
    for (int slot = 0; slot < slot_count(c); slot++)
        for (int step = 0; step < a->window_steps; step++)
            for (int d = 0; d < c->desc.conv1d.channels; d++)
                for (int k = 0; k < c->desc.conv1d.taps - 1; k++)
                    operand_set(call_operand(c, CONV1D_WINDOWS), AT(slot, step, d, k),
                                random_value(&c->random));
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct own *own = c->own;
    const struct attn_conv1d_args *a = &c->args.conv1d;
    struct operand *state = call_operand(c, CONV1D_STATE);
    fill_slots(c);
    if (c->desc.conv1d.tree)
        fill_tree(c);
    if (!call_has(c, UNIFORM))
        operand_set_ints(call_operand(c, CONV1D_CU_SEQLENS), own->cu, a->batch + 1);
    operand_set_random(call_operand(c, CONV1D_WEIGHT), &c->random);
    if (c->desc.conv1d.bias)
        operand_set_random(call_operand(c, CONV1D_BIAS), &c->random);
    for (int t = 0; call_has(c, FAR_TOKENS) && t < own->cu[a->batch]; t++)
        operand_touch(call_operand(c, CONV1D_OUT), AT(t, 0));
    for (int t = 0; t < own->cu[a->batch]; t++)
        for (int d = 0; d < c->desc.conv1d.channels; d++)
            operand_set(call_operand(c, CONV1D_X), AT(t, d), random_value(&c->random));
    for (int slot = 0; slot < slot_count(c); slot++)
        for (int d = 0; d < c->desc.conv1d.channels; d++)
            for (int i = 0; i < a->state_columns; i++)
                operand_set(state, AT(slot, d, i), random_value(&c->random));
}

/* A sequence of the call: its tokens, its slots, and the columns of its state that are read. */
struct sequence {
    int index, start, count, slot, slot_in;
    int history; /* first column of the state that is read; with a tree: step of the window */
    bool real, fresh;
};

/* Returns sequence `i` of the call. */
static struct sequence sequence_of(struct call *c, int i)
{
    const struct own *own = c->own;
    struct sequence s = {.index = i, .start = own->cu[i], .count = own->cu[i + 1] - own->cu[i]};
    s.slot = own->slots[i];
    s.slot_in = own->slots_in[i];
    s.real = s.slot >= c->args.conv1d.first_slot;
    s.fresh = call_has(c, FRESH) && i % 2 == 0;
    if (verifies(c)) {
        const int accepted = (int)operand_int(call_operand(c, CONV1D_ACCEPTED), AT(i));
        s.history = accepted > 0 ? accepted - 1 : 0;
    }
    return s;
}

/* Returns the index of the input that precedes input n of sequence i in the convolution: the
 * parent's if drafts form a tree. Negative indices are in the history. */
static int input_before(const struct call *c, int i, int n)
{
    return c->desc.conv1d.tree && n > 0 ? tree_parent(i, n) : n - 1;
}

/* Returns input n of channel d. n counts from the sequence's first token; negative n are in the
 * history. */
static double input_of(struct call *c, const struct sequence *s, int d, int n)
{
    const int column = n + c->desc.conv1d.taps - 1;
    if (n >= 0)
        return operand_value(call_operand(c, CONV1D_X), AT(s->start + n, d));
    if (s->fresh)
        return 0;
    if (c->desc.conv1d.tree && verifies(c))
        return operand_value(call_operand(c, CONV1D_WINDOWS),
                             AT(s->slot_in, s->history, d, column));
    return operand_value(call_operand(c, CONV1D_STATE), AT(s->slot_in, d, s->history + column));
}

/*
 * Compares channel d of token t. With f = 2^-24: W products and sums are rounded once each, and
 * none exceeds the sum of all magnitudes. A silu of y adds an error of (2 |y| + 7) f, as in
 * gated_rmsnorm, and has a slope of at most 1.1.
 */
static void compare_token(struct call *c, const struct sequence *s, int t, int d, const double *w,
                          double bias)
{
    const struct attn_conv1d_args *a = &c->args.conv1d;
    const int taps = c->desc.conv1d.taps;
    double in[TAPS_MAX], terms, bound;
    int n = t;
    for (int j = taps; j-- > 0; n = input_before(c, s->index, n))
        in[j] = s->real ? input_of(c, s, d, n) : 0;
    double y = ref_conv1d(in, taps - 1, w, taps, bias, &terms), error = taps * STORED_F * terms;
    if (c->desc.conv1d.act == ATTN_ACT_SILU) {
        error = 1.1 * error + (2 * fabs(y) + 7) * STORED_F * fabs(ref_silu(y));
        y = ref_silu(y);
    }
    struct operand *out = call_operand(c, CONV1D_OUT);
    int channel = d;
    if (d < a->q_channels) {
        out = call_operand(c, CONV1D_Q_OUT);
    } else if (d < a->q_channels + a->k_channels) {
        out = call_operand(c, CONV1D_K_OUT);
        channel -= a->q_channels;
    } else {
        channel -= a->q_channels + a->k_channels;
    }
    const double expected = s->real ? stored_value(out->precision, 1, y, error, &bound) : 0;
    call_compare(c, out, AT(s->start + t, channel), expected, s->real ? bound : 0);
}

/* Compares the columns of channel d that the call wrote to the sequence's state. */
static void compare_state(struct call *c, const struct sequence *s, int d)
{
    struct operand *state = call_operand(c, CONV1D_STATE);
    const int last = c->desc.conv1d.taps - 1;
    const int ahead = verifies(c) ? 1 - last : s->count - last;
    const int columns = verifies(c) ? s->count + last - 1 : last;
    for (int i = 0; i < columns && s->real && s->count; i++)
        call_compare(c, state, AT(s->slot, d, i), input_of(c, s, d, i + ahead), 0);
}

/* Compares channel d of the window of each draft: the W - 1 inputs up to the draft. */
static void compare_windows(struct call *c, const struct sequence *s, int d)
{
    for (int t = 0; t < s->count && s->real; t++)
        for (int k = c->desc.conv1d.taps - 1, n = t; k-- > 0; n = input_before(c, s->index, n))
            call_compare(c, call_operand(c, CONV1D_WINDOWS), AT(s->slot, t, d, k),
                         input_of(c, s, d, n), 0);
}

/* Compares channel d of the states after the blocks of sequence i. */
static void compare_blocks(struct call *c, const struct sequence *s, int i, int d)
{
    const int last = c->desc.conv1d.taps - 1;
    for (int end = BLOCK; call_has(c, BLOCKS) && s->real && end <= s->count; end += BLOCK) {
        const int slot = block_slot(c, i, end / BLOCK - 1);
        for (int k = 0; k < last && slot >= c->args.conv1d.first_slot; k++)
            call_compare(c, call_operand(c, CONV1D_STATE), AT(slot, d, k),
                         input_of(c, s, d, end - last + k), 0);
    }
}

/* Compares each channel of each sequence with the reference. */
static void compare(struct call *c)
{
    const struct attn_conv1d_desc *desc = &c->desc.conv1d;
    double w[TAPS_MAX];
    for (int d = 0; d < desc->channels; d++) {
        for (int j = 0; j < desc->taps; j++)
            w[j] = operand_value(call_operand(c, CONV1D_WEIGHT), AT(d, j));
        const double bias = desc->bias ? operand_value(call_operand(c, CONV1D_BIAS), AT(d)) : 0;
        for (int i = 0; i < c->args.conv1d.batch; i++) {
            const struct sequence s = sequence_of(c, i);
            for (int t = 0; t < s.count; t++)
                compare_token(c, &s, t, d, w, bias);
            if (desc->tree)
                compare_windows(c, &s, d);
            else
                compare_state(c, &s, d);
            compare_blocks(c, &s, i, d);
        }
    }
}

/* Returns the bytes of inputs, outputs and the states that are read and written. */
static double least_bytes(const struct call *c)
{
    const struct attn_conv1d_args *a = &c->args.conv1d;
    const int taps = c->desc.conv1d.taps;
    const double columns = taps - 1 + (verifies(c) ? taps - 2 + a->max_seqlen : taps - 1);
    return 2.0 * c->desc.conv1d.channels *
           (2.0 * a->tokens + columns * a->batch + c->desc.conv1d.taps);
}

const struct verify_op verify_conv1d = {
    .op = "conv1d",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=1,length=4096"},
    .dimensions =
        {
            {"channels", offsetof(struct shape, channels), 65536, "of x"},
            {"batch", offsetof(struct shape, batch), 1024, "sequences"},
            {"length", offsetof(struct shape, length), TOKENS_MAX, "tokens of each"},
            {"drafts", offsetof(struct shape, extra), DRAFTS_MAX,
             "columns of a state beyond W - 1; above 0 `accepted` is passed"},
        },
    .own_size = sizeof(struct own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
