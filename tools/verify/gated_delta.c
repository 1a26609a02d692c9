/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_delta kernels against the recurrence, token by token.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { DIM_MAX = RECURRENT_DIM_MAX };

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

static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 16, 32, 64, 1, 1, {0}};

/* True if the shape is for the kernel. A call that records writes no state of a step. */
static bool takes(const struct call *c)
{
    return !c->desc.gated_delta.replay || ((const struct recurrent_shape *)c->shape)->steps == 1;
}

static bool is(const struct call *c, unsigned flags) { return c->flags & flags; }

static struct recurrent of(struct call *c) { return RECURRENT_OF(c, gated_delta, GATED_DELTA); }

static void size(struct call *c)
{
    const struct recurrent r = of(c);
    struct attn_gated_delta_args *a = &c->args.gated_delta;
    c->desc.gated_delta.heads = r.shape->heads;
    c->desc.gated_delta.value_heads = r.shape->value_heads;
    recurrent_size(&r);
    a->record_steps = a->max_seqlen + 1;
    a->scale = 0.375f;
    a->l2_eps = is(c, EXTREMES) ? 0 : 0.0078125f; /* large enough to show in a result */
    a->lower_bound = -5;
}

static void place_fused(struct call *c)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    struct operand *q = call_operand(c, GATED_DELTA_Q);
    struct operand *parts[] = {call_operand(c, GATED_DELTA_K), call_operand(c, GATED_DELTA_V)};
    const int keys = d->heads * d->head_dim;
    const int row = 2 * keys + d->value_heads * d->head_dim_v;
    operand_set_stride(q, 0, row);
    for (int i = 0; i < 2; i++) {
        operand_set_stride(parts[i], 0, row);
        operand_place_inside(parts[i], q, keys * (i + 1));
    }
}

static void place(struct call *c)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const struct recurrent r = of(c);
    static const unsigned gates[] = {GATED_DELTA_GATE_IN, GATED_DELTA_BETA_IN,
                                     GATED_DELTA_LOG_DECAY, GATED_DELTA_BETA};
    recurrent_place(&r);
    if (d->replay)
        operand_resize(call_operand(c, GATED_DELTA_RECORDS), 0, r.state->dims[0]);
    for (unsigned i = 0; i < COUNT(gates); i++) { /* wide gates are aligned */
        struct operand *o = call_operand(c, gates[i]);
        const bool wide = i % 2 ? d->beta_wide : d->decay == ATTN_DECAY_CHANNEL;
        if (wide && o->given)
            o->align = 16;
        if (wide && o->given && is(c, VERIFY_VIEWS))
            operand_set_stride(o, 0, o->dims[1] * o->dims[2] + 24);
    }
    if (d->decay == ATTN_DECAY_CHANNEL)
        call_operand(c, GATED_DELTA_DT_BIAS)->align = 16;
    if (is(c, FUSED))
        place_fused(c);
    if (is(c, PLAIN)) {
        operand_leave_out(call_operand(c, GATED_DELTA_A_LOG));
        operand_leave_out(call_operand(c, GATED_DELTA_DT_BIAS));
    }
}

/* Returns an element of a key. Keys are short enough that a state does not grow, unless the kernel
 * normalises them. With EXTREMES some are zero or nearly parallel. */
static double key_value(struct call *c, int token)
{
    const double x = random_value(&c->random);
    if (is(c, EXTREMES) && token % 5 == 2)
        return 0;
    if (is(c, EXTREMES) && token % 5 > 2)
        return 1 + ldexp(x, -6) - fmod(ldexp(x, -6), 0x1p-7);
    return c->desc.gated_delta.l2_norm ? x : ldexp(x, -4);
}

static void fill_row(struct call *c, unsigned number, int token)
{
    struct operand *o = call_operand(c, number);
    for (int head = 0; head < o->dims[1]; head++)
        for (int i = 0; i < o->dims[2]; i++)
            operand_set(o, AT(token, head, i),
                        number == GATED_DELTA_K ? key_value(c, token) : random_value(&c->random));
}

/* Returns a gate's input. With EXTREMES it lies far beyond both ends of the gate's range. */
static double gate_value(struct call *c, int token)
{
    const double x = 2 * random_value(&c->random);
    if (!is(c, EXTREMES))
        return x;
    return token % 4 == 0 ? 96 : token % 4 == 1 ? -96 : x;
}

static double given_value(struct call *c, unsigned number, int token)
{
    const double x = fabs(random_value(&c->random));
    if (number == GATED_DELTA_BETA)
        return is(c, EXTREMES) && token % 4 < 2 ? token % 4 : x / 2;
    return is(c, EXTREMES) && token % 4 < 2 ? token % 4 * -80 : -x;
}

static void fill_gates(struct call *c, int token)
{
    static const unsigned gates[] = {GATED_DELTA_GATE_IN, GATED_DELTA_BETA_IN,
                                     GATED_DELTA_LOG_DECAY, GATED_DELTA_BETA};
    for (unsigned i = 0; i < COUNT(gates); i++) {
        struct operand *o = call_operand(c, gates[i]);
        const int64_t wide = o->schema.ndim > 2 ? o->dims[2] : 1;
        for (int head = 0; o->given && head < o->dims[1]; head++)
            for (int k = 0; k < wide; k++)
                operand_set(o, AT(token, head, k),
                            i < 2 ? gate_value(c, token) : given_value(c, gates[i], token));
    }
}

static void fill(struct call *c)
{
    const struct recurrent r = of(c);
    recurrent_fill(&r);
    for (int t = 0; t < r.starts[*r.batch]; t++) {
        fill_row(c, GATED_DELTA_Q, t);
        fill_row(c, GATED_DELTA_K, t);
        fill_row(c, GATED_DELTA_V, t);
        fill_gates(c, t);
    }
    if (call_operand(c, GATED_DELTA_A_LOG)->given)
        operand_set_random(call_operand(c, GATED_DELTA_A_LOG), &c->random);
    if (call_operand(c, GATED_DELTA_DT_BIAS)->given)
        operand_set_random(call_operand(c, GATED_DELTA_DT_BIAS), &c->random);
}

/*
 * Bounds. f = 2^-24 is the unit of float32. Errors are relative to the exact numbers:
 *
 *   exp(x)       (2 |x| + 2) f: a constant, a product and an ulp
 *   sigmoid(x)   (2 |x| + 6) f
 *   softplus(x)  (3 |x| + 12) f. If x is a sum, its error counts once, since the slope of
 *                log softplus is at most 1.
 *   g            the sum of these and of exp(a_log)'s; exp(g): |g| times that, and exp's own
 *   key / |key|  (K + 5) f / 2 + 4 f; rope_compare.c says why
 *
 * A step is linear in the column S of a value element. It multiplies the error of S by the matrix
 * (1 - beta k k^T) exp(g). That lengthens no vector if beta |k|^2 is at most 2 and g is not
 * positive. So the length e of a column's error grows only by what a step adds:
 *
 *   S exp(g)     (f + the decay's error) |S|
 *   S k          (K f + the key's error) beta |k| |k| |S|; K counts the products and all sums
 *   k u          (beta's error + the key's + 3 f) |u| |k|, and 2 f beta (|v| + |S| |k|) |k|
 *   sum          f |S|
 *
 * A beta below the smallest normal number may be 0.
 *
 * S q is off by |q| e, and by (K f + q's error) of the sum of magnitudes.
 */
struct bounds {
    double decay[DIM_MAX]; /* of exp(g), for each element of a key */
    double log[DIM_MAX];   /* of g */
    double key, query, beta;
};

/* A token of a value head. */
struct token {
    double q[DIM_MAX], k[DIM_MAX], decay[DIM_MAX], beta[DIM_MAX], v[DIM_MAX];
    double log[DIM_MAX];                 /* g */
    double u[DIM_MAX], u_error[DIM_MAX]; /* of advance() */
    struct bounds off;
};

static double given_or(const struct operand *o, const int64_t at[])
{
    return o->given ? operand_value(o, at) : 0;
}

/* Computes exp(g) for one element of a key. */
static void compute_decay(struct call *c, int t, int head, int i, struct token *out)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const bool wide = d->decay == ATTN_DECAY_CHANNEL;
    double g, off = 0;
    if (d->gates == ATTN_GATES_GIVEN) {
        g = operand_value(call_operand(c, GATED_DELTA_LOG_DECAY),
                          wide ? AT(t, head, i) : AT(t, head));
    } else {
        const double a_log = given_or(call_operand(c, GATED_DELTA_A_LOG), AT(head));
        const double x =
            operand_value(call_operand(c, GATED_DELTA_GATE_IN),
                          wide ? AT(t, head, i) : AT(t, head)) +
            given_or(call_operand(c, GATED_DELTA_DT_BIAS), wide ? AT(head, i) : AT(head));
        const double a = exp(a_log), of_a = 2 * fabs(a_log) + 3;
        if (d->gates == ATTN_GATES_SOFTPLUS) {
            g = -a * ref_softplus(x);
            off = of_a + 3 * fabs(x) + 12;
        } else {
            g = c->args.gated_delta.lower_bound * ref_sigmoid(a * x);
            off = (of_a + 2) * fabs(a * x) + 2 * fabs(a * x) + 7;
        }
    }
    out->log[i] = g;
    out->off.log[i] = off * STORED_F;
    out->decay[i] = exp(g);
    out->off.decay[i] = (fabs(g) * (off + 2) + 2) * STORED_F;
}

static void compute_beta(struct call *c, int t, int head, int i, struct token *out)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const bool given = d->gates == ATTN_GATES_GIVEN;
    const struct operand *o = call_operand(c, given ? GATED_DELTA_BETA : GATED_DELTA_BETA_IN);
    const double x = operand_value(o, d->beta_wide ? AT(t, head, i) : AT(t, head));
    out->beta[i] = given ? x : ref_sigmoid(x);
    out->off.beta = fmax(out->off.beta, given ? 0 : (2 * fabs(x) + 6) * STORED_F);
}

static double length_of_vector(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Divides a vector by its length, with eps. A vector of zeros stays zero. */
static void make_unit(struct call *c, double *x)
{
    const int n = c->desc.gated_delta.head_dim;
    const double square = pow(length_of_vector(x, n), 2) + (double)c->args.gated_delta.l2_eps;
    for (int i = 0; i < n && c->desc.gated_delta.l2_norm; i++)
        x[i] /= sqrt(fmax(square, DBL_MIN));
}

static void compute_token(struct call *c, int t, int value_head, struct token *out)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const int head = value_head / (d->value_heads / d->heads);
    out->off = (struct bounds){.key = 0};
    out->off.key = d->l2_norm ? ((d->head_dim + 5) / 2.0 + 4) * STORED_F : 0;
    out->off.query = out->off.key + STORED_F;
    for (int i = 0; i < d->head_dim; i++) {
        out->q[i] = operand_value(call_operand(c, GATED_DELTA_Q), AT(t, head, i));
        out->k[i] = operand_value(call_operand(c, GATED_DELTA_K), AT(t, head, i));
        compute_decay(c, t, value_head, i, out);
    }
    make_unit(c, out->q);
    make_unit(c, out->k);
    for (int i = 0; i < d->head_dim; i++)
        out->q[i] *= (double)c->args.gated_delta.scale;
    for (int i = 0; i < d->head_dim_v; i++) {
        out->v[i] = operand_value(call_operand(c, GATED_DELTA_V), AT(t, value_head, i));
        compute_beta(c, t, value_head, i, out);
    }
}

/* Advances a column of the state and the bound of its error's length. Returns the output and sets
   *off to its bound. */
static double advance(struct token *t, int key, int i, double *column, double *error, double *off)
{
    const double f = STORED_F, sums = key * f, k = length_of_vector(t->k, key);
    double faded = 0, decay = 0, known = 0, terms = 0;
    for (int n = 0; n < key; n++) {
        const double s = t->decay[n] * column[n];
        faded += s * s;
        decay += pow(s * (t->off.decay[n] + f), 2);
        known += s * t->k[n];
    }
    faded = sqrt(faded);
    const double beta = fabs(t->beta[i]), u = beta * fabs(t->v[i] - known);
    const double out = ref_delta_step(column, t->decay, t->k, t->q, key, t->v[i], t->beta[i]);
    t->u[i] = t->beta[i] * (t->v[i] - known);
    t->u_error[i] = beta * k * (*error + sqrt(decay) + (sums + t->off.key) * faded) +
                    (t->off.beta + 3 * f) * u + 2 * f * beta * (fabs(t->v[i]) + faded * k) +
                    FLT_MIN * (fabs(t->v[i]) + faded * k);
    *error += sqrt(decay) + (sums + t->off.key) * beta * k * k * faded +
              (t->off.beta + t->off.key + 3 * f) * u * k +
              2 * f * beta * (fabs(t->v[i]) + faded * k) * k + f * length_of_vector(column, key);
    for (int n = 0; n < key; n++)
        terms += fabs(column[n] * t->q[n]);
    *off = length_of_vector(t->q, key) * *error + (sums + t->off.query) * terms;
    return out;
}

/* A value head of a sequence. */
struct head {
    struct recurrent_head of;
    struct token token;
};

/* Compares the record of token `step` of a sequence: u, k and g in float32. */
static void compare_record(struct call *c, int slot, int value_head, int step,
                           const struct token *t)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const int gates = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    struct operand *o = call_operand(c, GATED_DELTA_RECORDS);
    for (int i = 0; i < d->head_dim_v; i++)
        call_compare(c, o, AT(slot, value_head, step, i), t->u[i], t->u_error[i]);
    for (int i = 0; i < d->head_dim; i++)
        call_compare(c, o, AT(slot, value_head, step, d->head_dim_v + i), t->k[i],
                     t->off.key * fabs(t->k[i]));
    for (int i = 0; i < gates; i++)
        call_compare(c, o, AT(slot, value_head, step, d->head_dim_v + d->head_dim + i), t->log[i],
                     t->off.log[i] * fabs(t->log[i]) + FLT_MIN);
}

static void compare_token(struct call *c, int t, int value_head, struct head *h)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    struct operand *out = call_operand(c, GATED_DELTA_OUT);
    compute_token(c, t, value_head, &h->token);
    for (int v = 0; v < d->head_dim_v; v++) {
        double off, bound;
        const double y = advance(&h->token, d->head_dim, v, h->of.state[v], &h->of.error[v], &off);
        const double expected = stored_value(out->precision, 1, y, off, &bound);
        call_compare(c, out, AT(t, value_head, v), expected, bound);
    }
}

static void compare_padding(struct call *c, const struct recurrent_sequence *s)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    for (int t = s->start; t < s->start + s->count; t++)
        for (int head = 0; head < d->value_heads; head++)
            for (int v = 0; v < d->head_dim_v; v++)
                call_compare(c, call_operand(c, GATED_DELTA_OUT), AT(t, head, v), 0, 0);
}

static void compare_sequence(struct call *c, int i, struct head *h)
{
    const struct recurrent r = of(c);
    const struct recurrent_sequence s = recurrent_sequence(&r, i);
    if (s.padding)
        compare_padding(c, &s);
    for (int head = 0; head < c->desc.gated_delta.value_heads && s.count && !s.padding; head++) {
        recurrent_load_state(&r, &s, head, &h->of);
        for (int t = 0; t < s.count; t++) {
            compare_token(c, s.start + t, head, h);
            const int to = recurrent_target(&r, i, t);
            if (c->desc.gated_delta.replay)
                compare_record(c, s.slot, head, t, &h->token);
            else if (to >= 0)
                recurrent_compare_state(&r, to, head, &h->of);
        }
    }
}

static void compare(struct call *c)
{
    struct head *h = call_allocate(c, 1, sizeof(*h));
    for (int i = 0; i < c->args.gated_delta.batch; i++)
        compare_sequence(c, i, h);
}

/* Bytes of the states in and out, and the rows of all tokens. */
static double least_bytes(const struct call *c)
{
    const struct attn_gated_delta_desc *d = &c->desc.gated_delta;
    const struct attn_gated_delta_args *a = &c->args.gated_delta;
    const double states = d->state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double stored = a->state_steps > 1 ? a->tokens : a->batch;
    const double gates = d->gates == ATTN_GATES_GIVEN ? 4 : 2;
    const double row = 2.0 * (2 * d->heads * d->head_dim + 2 * d->value_heads * d->head_dim_v);
    const double decays = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    const double betas = d->beta_wide ? d->head_dim_v : 1;
    return states * (a->batch + stored) * d->value_heads * d->head_dim * d->head_dim_v +
           a->tokens * (row + gates * d->value_heads * (decays + betas));
}

const struct verify_op verify_gated_delta = {
    .op = "gated_delta",
    .shapes = shapes,
    .shape_size = sizeof(shapes[0]),
    .shape_count = COUNT(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
    .dimensions =
        {
            {"heads", offsetof(struct recurrent_shape, heads), 1024, "of q and k"},
            {"value_heads", offsetof(struct recurrent_shape, value_heads), 1024,
             "of v, a multiple of heads"},
            {"batch", offsetof(struct recurrent_shape, batch), RECURRENT_BATCH_MAX, "sequences"},
            {"length", offsetof(struct recurrent_shape, length), 1 << 16, "tokens of each"},
        },
    .own_size = sizeof(struct recurrent_own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
