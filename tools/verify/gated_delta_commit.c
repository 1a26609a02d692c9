/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_delta_commit kernels: states of several layers advance by the records of
 * accepted drafts.
 */
#include <math.h>

#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

/* Largest numbers of: layers of a traced call, sequences in a shape's list, elements of a key or
 * value. */
enum { LAYERS_MAX = 128, BATCH_MAX = 6, DIM_MAX = RECURRENT_DIM_MAX };

enum { SOME = 1 << 10 /* some sequences have no accepted token */ };

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    /* Numbers of value heads, sequences, layers, and records of a sequence. */
    int value_heads, batch, layers, steps;
    int accepted; /* accepted tokens of every sequence if `some` is empty */
    /* accepted tokens of each sequence */
    int some[BATCH_MAX];
} shapes[] = {
    {{"one", 0}, 1, 1, 1, 1, 1, {0}},
    {{"layers", 0}, 3, 2, 3, 4, 0, {4, 2}},
    {{"none", SOME | FORKS}, 2, 4, 2, 3, 0, {0, 3, -1, 1}},
    {{"padded", PADDED | FORKS}, 1, 6, 1, 8, 0, {8, 7, 1, 2, 3, 5}},
    {{"views", VERIFY_VIEWS}, 2, 3, 1, 4, 0, {1, 4, 3}},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", 0}, 32, 64, 1, 4, 3, {0}};

/* Returns the number of accepted tokens of sequence `i`. */
static int accepted_of(const struct call *c, int i)
{
    const struct shape *s = c->shape;
    return s->accepted ? s->accepted : s->some[i];
}

/* Returns the number of slots of a layer: one to read and one to write for each sequence, and one
 * that is unused. */
static int slot_count(const struct call *c) { return 2 * c->args.gated_delta_commit.batch + 1; }

/* Returns the state slot that sequence `i` reads or writes; padding has a negative slot or slot
 * 0. */
static int slot_of(const struct call *c, int i, bool read)
{
    return call_slot(c, PADDED, i,
                     read && call_has(c, FORKS) ? 2 * i + 1 : slot_count(c) - 1 - 2 * i);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_gated_delta_commit_args *a = &c->args.gated_delta_commit;
    c->desc.gated_delta_commit.value_heads = s->value_heads;
    a->batch = s->batch;
    a->layers = s->layers;
    a->record_steps = s->steps;
    a->first_slot = call_has(c, PADDED);
}

/* Sets sizes and strides. The states of all layers are in one operand, one layer after the
 * other. */
static void place(struct call *c)
{
    const int layers = c->args.gated_delta_commit.layers;
    operand_resize(call_operand(c, GATED_DELTA_COMMIT_STATE), 0, layers * slot_count(c));
    recurrent_align(c, call_operand(c, GATED_DELTA_COMMIT_STATE));
    operand_resize(call_operand(c, GATED_DELTA_COMMIT_RECORDS), 0, layers * slot_count(c));
    if (!call_has(c, FORKS))
        operand_leave_out(call_operand(c, GATED_DELTA_COMMIT_STATE_SLOTS_IN));
}

/* Fills the addresses of the layers, the slots and the numbers of accepted tokens. */
static void fill_lists(struct call *c)
{
    const struct operand *state = call_operand(c, GATED_DELTA_COMMIT_STATE);
    const struct operand *records = call_operand(c, GATED_DELTA_COMMIT_RECORDS);
    for (int l = 0; l < c->args.gated_delta_commit.layers; l++) {
        operand_set_int(call_operand(c, GATED_DELTA_COMMIT_LAYER_STATES), AT(l),
                        l * slot_count(c) * state->strides[0] * state->size);
        operand_set_int(call_operand(c, GATED_DELTA_COMMIT_LAYER_RECORDS), AT(l),
                        l * slot_count(c) * records->strides[0] * records->size);
    }
    for (int i = 0; i < c->args.gated_delta_commit.batch; i++) {
        operand_set_int(call_operand(c, GATED_DELTA_COMMIT_STATE_SLOTS), AT(i),
                        slot_of(c, i, false));
        if (call_has(c, FORKS))
            operand_set_int(call_operand(c, GATED_DELTA_COMMIT_STATE_SLOTS_IN), AT(i),
                            slot_of(c, i, true));
        operand_set_int(call_operand(c, GATED_DELTA_COMMIT_ACCEPTED), AT(i), accepted_of(c, i));
    }
}

/* Fills the records of `accepted` tokens of row `row`. Records of other tokens hold NaNs. */
static void fill_records(struct call *c, int row, int accepted)
{
    const struct attn_gated_delta_commit_desc *d = &c->desc.gated_delta_commit;
    const int gates = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    struct operand *o = call_operand(c, GATED_DELTA_COMMIT_RECORDS);
    for (int head = 0; head < d->value_heads; head++)
        for (int t = 0; t < accepted; t++)
            for (int i = 0; i < d->head_dim_v + d->head_dim + gates; i++) {
                const double x = random_value(&c->random);
                operand_set(o, AT(row, head, t, i), i < d->head_dim_v + d->head_dim ? x : -fabs(x));
            }
}

/* Fills one row of the state with random numbers. */
static void fill_state(struct call *c, int row)
{
    struct operand *o = call_operand(c, GATED_DELTA_COMMIT_STATE);
    for (int head = 0; head < o->dims[1]; head++)
        for (int i = 0; i < o->dims[2]; i++)
            for (int k = 0; k < o->dims[3]; k++)
                operand_set(o, AT(row, head, i, k), random_value(&c->random));
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    fill_lists(c);
    if (c->traced) {
        operand_set_table(call_operand(c, GATED_DELTA_COMMIT_STATE), 1, &c->random);
        operand_set_table(call_operand(c, GATED_DELTA_COMMIT_RECORDS), 1, &c->random);
        return;
    }
    for (int l = 0; l < c->args.gated_delta_commit.layers; l++)
        for (int i = 0; i < c->args.gated_delta_commit.batch; i++) {
            const int slot = slot_of(c, i, true);
            if (slot < c->args.gated_delta_commit.first_slot || accepted_of(c, i) <= 0)
                continue;
            fill_records(c, l * slot_count(c) + slot, accepted_of(c, i));
            fill_state(c, l * slot_count(c) + slot);
        }
}

/* Compares element (v, k) of a state. A step multiplies the element by exp(g) and adds a product.
 * With f = 2^-24, exp(g) has an error of (2 |g| + 2) f, and the two products and the sum have f
 * each. */
static void compare_element(struct call *c, int from, int to, int head, int v, int k, int accepted)
{
    const struct attn_gated_delta_commit_desc *d = &c->desc.gated_delta_commit;
    const struct operand *records = call_operand(c, GATED_DELTA_COMMIT_RECORDS);
    struct operand *state = call_operand(c, GATED_DELTA_COMMIT_STATE);
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    recurrent_element(d->state_layout, from, head, v, k, at);
    double s = operand_value(state, at), error = 0;
    for (int t = 0; t < accepted; t++) {
        const int gate = d->head_dim_v + d->head_dim + (d->decay == ATTN_DECAY_CHANNEL ? k : 0);
        const double g = operand_value(records, AT(from, head, t, gate));
        const double faded = exp(g) * s;
        s = faded + operand_value(records, AT(from, head, t, v)) *
                        operand_value(records, AT(from, head, t, d->head_dim_v + k));
        error = exp(g) * error + (2 * fabs(g) + 3) * STORED_F * fabs(faded) + STORED_F * fabs(s);
    }
    recurrent_element(d->state_layout, to, head, v, k, at);
    double bound = error;
    if (state->precision)
        s = stored_value(state->precision, 1, s, error, &bound);
    call_compare(c, state, at, s, bound);
}

/* Compares row `to` of the states with row `from` advanced by `accepted` tokens. */
static void compare_state(struct call *c, int from, int to, int accepted)
{
    const struct attn_gated_delta_commit_desc *d = &c->desc.gated_delta_commit;
    for (int head = 0; head < d->value_heads; head++)
        for (int v = 0; v < d->head_dim_v; v++)
            for (int k = 0; k < d->head_dim; k++)
                compare_element(c, from, to, head, v, k, accepted);
}

/* Compares the states of all layers and sequences. */
static void compare(struct call *c)
{
    const struct attn_gated_delta_commit_args *a = &c->args.gated_delta_commit;
    for (int l = 0; l < a->layers; l++)
        for (int i = 0; i < a->batch; i++) {
            const int first = l * slot_count(c), slot = slot_of(c, i, true);
            if (slot >= a->first_slot && accepted_of(c, i) > 0)
                compare_state(c, first + slot, first + slot_of(c, i, false), accepted_of(c, i));
        }
}

/* Returns the bytes of states that are read and written, and of the records. */
static double least_bytes(const struct call *c)
{
    const struct attn_gated_delta_commit_desc *d = &c->desc.gated_delta_commit;
    const struct attn_gated_delta_commit_args *a = &c->args.gated_delta_commit;
    const int gates = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    const double states = d->state_dtype == ATTN_STATE_F32 ? 8 : 4;
    double bytes = 0;
    for (int i = 0; i < a->batch; i++)
        bytes += states * d->head_dim * d->head_dim_v +
                 4.0 * accepted_of(c, i) * (d->head_dim + d->head_dim_v + gates);
    return bytes * a->layers * d->value_heads;
}

const struct verify_op verify_gated_delta_commit = {
    .op = "gated_delta_commit",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64"},
    .dimensions =
        {
            {"value_heads", offsetof(struct shape, value_heads), 1024, "heads with a state"},
            {"batch", offsetof(struct shape, batch), 1024, "sequences"},
            {"layers", offsetof(struct shape, layers), LAYERS_MAX, "layers"},
            {"accepted", offsetof(struct shape, accepted), 4, "tokens of each"},
        },
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
