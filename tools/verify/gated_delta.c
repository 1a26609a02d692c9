/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_delta kernels against the recurrence, token by token.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/gated_delta.h"
#include "tools/verify/delta_layer.h"
#include "tools/verify/stored.h"

/* The shapes on which kernels are verified. */
static const struct recurrent_shape shapes[] = {
    {{"decode", UNIFORM}, 1, 2, 3, 1, 1, {0}},
    {{"decode of a rank", UNIFORM | FUSED | PADDED}, 2, 4, 4, 1, 1, {0}},
    {{"forks", UNIFORM | FORKS | FRESH | WIDE_LISTS}, 1, 1, 4, 1, 1, {0}},
    {{"verify", UNIFORM | ACCEPTED}, 1, 3, 3, 4, 4, {0}},
    {{"verify ragged", ACCEPTED | PADDED | FUSED | WIDE_LISTS}, 1, 2, 6, 0, 8, {8, 1, 3, 0, 5, 2}},
    {{"verify forks", ACCEPTED | FORKS}, 1, 1, 3, 0, 3, {1, 3, 2}},
    {{"extremes", EXTREMES | FRESH}, 1, 1, 3, 0, 1, {70, 1, 33}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 2, {2, 1, 0, 2}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 1, {2, 1}},
    {{"prompts", FRESH}, 1, 2, 3, 0, 1, {130, 0, 65}},
};

/* The shape with which a trace begins. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 16, 32, 64, 1, 1, {0}};

/* True if the kernel can run the shape. A kernel with `replay` stores no states of single steps, so
 * state_slots must have one column. */
static bool takes(const struct call *c)
{
    const struct recurrent_shape *const s = c->shape;
    return recurrent_takes(s, c->desc.gated_delta.tree) &&
           (!c->desc.gated_delta.replay || s->steps == 1);
}

/* Returns the layer of the call. */
static struct delta_layer of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_TREES(c, gated_delta, GATED_DELTA);
    return DELTA_LAYER_OF(c, gated_delta, GATED_DELTA, r, c->desc.gated_delta.beta_wide);
}

/* Sets the sizes of the call from the shape. */
static void size(struct call *c)
{
    const struct delta_layer l = of(c);
    delta_layer_size(&l);
    c->args.gated_delta.record_steps = c->args.gated_delta.max_seqlen + 1;
}

/* Sets sizes and strides of operands, also of the records of drafts. */
static void place(struct call *c)
{
    const struct delta_layer l = of(c);
    delta_layer_place(&l);
    if (c->desc.gated_delta.replay)
        operand_resize(call_operand(c, GATED_DELTA_RECORDS), 0, l.r.state->dims[0]);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct delta_layer l = of(c);
    delta_layer_fill(&l);
}

/*
 * Bounds. f = 2^-24 is the unit of float32. struct delta_bounds has the errors of gates, keys and
 * queries, relative to the exact numbers.
 *
 * A step is linear in the column S of a value element. It multiplies the error of S by the matrix
 * (1 - beta k k^T) exp(g). That lengthens no vector if beta |k|^2 is at most 2 and g is not
 * positive. So the length e of a column's error grows only by the errors that a step adds:
 *
 *   S exp(g)     (f + the decay's error) |S|
 *   S k          (K f + the key's error) beta |k| |k| |S|; K counts the products and all sums
 *   k u          (beta's error + the key's + 3 f) |u| |k|, and 2 f beta (|v| + |S| |k|) |k|
 *   sum          f |S|
 *
 * A beta below the smallest normal number may become 0.
 *
 * S q is off by |q| e, and by (K f + q's error) of the sum of magnitudes.
 */
/* A token, and the terms of the recurrence that advance() computes for it. */
struct step {
    struct delta_token token;
    double u[RECURRENT_DIM_MAX], u_error[RECURRENT_DIM_MAX];
};

/* Advances the state's column of value element i by a token, and *error, the bound of the length of
 * the column's error. Returns the output, and sets *off to the bound of its error. */
static double advance(struct step *s, int key, int i, double *column, double *error, double *off)
{
    const struct delta_token *const t = &s->token;
    const double f = STORED_F, sums = key * f, k = vector_length(t->k, key);
    double faded = 0, decay = 0, known = 0, terms = 0;
    for (int n = 0; n < key; n++) {
        const double old = t->decay[n] * column[n];
        faded += old * old;
        decay += pow(old * (t->off.decay[n] + f), 2);
        known += old * t->k[n];
    }
    faded = sqrt(faded);
    const double beta = fabs(t->beta[i]), u = beta * fabs(t->v[i] - known);
    const double out = ref_delta_step(column, t->decay, t->k, t->q, key, t->v[i], t->beta[i]);
    s->u[i] = t->beta[i] * (t->v[i] - known);
    s->u_error[i] = beta * k * (*error + sqrt(decay) + (sums + t->off.key) * faded) +
                    (t->off.beta + 3 * f) * u + 2 * f * beta * (fabs(t->v[i]) + faded * k) +
                    FLT_MIN * (fabs(t->v[i]) + faded * k);
    *error += sqrt(decay) + (sums + t->off.key) * beta * k * k * faded +
              (t->off.beta + t->off.key + 3 * f) * u * k +
              2 * f * beta * (fabs(t->v[i]) + faded * k) * k + f * vector_length(column, key);
    for (int n = 0; n < key; n++)
        terms += fabs(column[n] * t->q[n]);
    *off = vector_length(t->q, key) * *error + (sums + t->off.query) * terms;
    return out;
}

/* The state of a value head of a sequence, and its current token. */
struct head {
    struct recurrent_head of;
    struct step step;
};

/* Compares the record of token `step` of a sequence: u, k and g, which are stored as float32. */
static void compare_record(struct call *c, int slot, int value_head, int step, const struct step *s)
{
    const struct delta_token *const t = &s->token;
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const int gates = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    struct operand *o = call_operand(c, GATED_DELTA_RECORDS);
    for (int i = 0; i < d->head_dim_v; i++)
        call_compare(c, o, AT(slot, value_head, step, i), s->u[i], s->u_error[i]);
    for (int i = 0; i < d->head_dim; i++)
        call_compare(c, o, AT(slot, value_head, step, d->head_dim_v + i), t->k[i],
                     t->off.key * fabs(t->k[i]));
    for (int i = 0; i < gates; i++)
        call_compare(c, o, AT(slot, value_head, step, d->head_dim_v + d->head_dim + i), t->log[i],
                     t->off.log[i] * fabs(t->log[i]) + FLT_MIN);
}

/* Compares the output of a token and value head, and advances the state. */
static void compare_token(const struct delta_layer *l, int t, int value_head, struct head *h)
{
    delta_layer_token(l, t, value_head, &h->step.token);
    for (int v = 0; v < l->head_dim_v; v++) {
        double off, bound;
        const double y = advance(&h->step, l->head_dim, v, h->of.state[v], &h->of.error[v], &off);
        const double expected = stored_value(l->out->precision, 1, y, off, &bound);
        call_compare(l->r.c, l->out, AT(t, value_head, v), expected, bound);
    }
}

/* Compares all tokens of sequence `i`, and the states that are stored after them. */
static void compare_sequence(const struct delta_layer *l, int i, struct head *h)
{
    struct call *const c = l->r.c;
    const struct recurrent_sequence s = recurrent_sequence(&l->r, i);
    if (s.padding)
        recurrent_compare_padding(&l->r, l->out, &s);
    for (int head = 0; head < *l->value_heads && s.count && !s.padding; head++) {
        recurrent_load_state(&l->r, &s, head, &h->of);
        for (int t = 0; t < s.count; t++) {
            recurrent_load_parent(&l->r, i, t, head, &h->of);
            compare_token(l, s.start + t, head, h);
            const int to = recurrent_target(&l->r, i, t);
            if (c->desc.gated_delta.replay)
                compare_record(c, s.slot, head, t, &h->step);
            else if (to >= 0)
                recurrent_compare_state(&l->r, to, head, &h->of);
        }
    }
}

/* Compares all sequences of the call. */
static void compare(struct call *c)
{
    const struct delta_layer l = of(c);
    struct head *h = call_allocate(c, 1, sizeof(*h));
    for (int i = 0; i < c->args.gated_delta.batch; i++)
        compare_sequence(&l, i, h);
}

/* Returns the bytes of states that are read and written, and of the rows of all tokens. */
static double least_bytes(const struct call *c)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const struct attn_gated_delta_args *a = &c->args.gated_delta;
    const struct delta_layer l = of((struct call *)c);
    const double states = d->state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double stored = a->state_steps > 1 ? a->tokens : a->batch;
    return states * (a->batch + stored) * d->value_heads * d->head_dim * d->head_dim_v +
           delta_layer_row_bytes(&l);
}

const struct verify_op verify_gated_delta = {
    .op = "gated_delta",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("q and k", "v"),
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
