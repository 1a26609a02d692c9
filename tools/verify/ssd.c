/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of ssd kernels against the recurrence, token by token.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/reference/ssd.h"
#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { DIM_MAX = RECURRENT_DIM_MAX };

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

static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 8, 128, 64, 1, 1, {0}};

static bool is(const struct call *c, unsigned flags) { return c->flags & flags; }

static struct recurrent of(struct call *c) { return RECURRENT_OF(c, ssd, SSD); }

static void size(struct call *c)
{
    const struct recurrent r = of(c);
    struct attn_ssd_args *a = &c->args.ssd;
    c->desc.ssd.heads = r.shape->heads;
    c->desc.ssd.value_heads = r.shape->value_heads;
    recurrent_size(&r);
    a->scale = is(c, PLAIN) ? 0 : 0.375f;
    a->dt_min = is(c, EXTREMES) ? 0.25f : 0;
    a->dt_max = is(c, EXTREMES) ? 2 : 0;
}

/* x, b and c are parts of one row. */
static void place_fused(struct call *c)
{
    const struct attn_ssd_desc *d = &c->desc.ssd;
    struct operand *x = call_operand(c, SSD_X);
    struct operand *parts[] = {call_operand(c, SSD_B), call_operand(c, SSD_C)};
    const int values = d->value_heads * d->head_dim_v, keys = d->heads * d->head_dim;
    operand_set_stride(x, 0, values + 2 * keys);
    for (int i = 0; i < 2; i++) {
        operand_set_stride(parts[i], 0, values + 2 * keys);
        operand_place_inside(parts[i], x, values + i * keys);
    }
}

static void place(struct call *c)
{
    const struct recurrent r = of(c);
    recurrent_place(&r);
    if (is(c, FUSED))
        place_fused(c);
    if (is(c, PLAIN)) {
        operand_leave_out(call_operand(c, SSD_D));
        operand_leave_out(call_operand(c, SSD_DT_BIAS));
    }
}

static void fill_row(struct call *c, unsigned number, int token)
{
    struct operand *o = call_operand(c, number);
    for (int head = 0; o->given && head < o->dims[1]; head++)
        for (int i = 0; i < o->dims[2]; i++)
            operand_set(o, AT(token, head, i), random_value(&c->random));
}

static void fill(struct call *c)
{
    const struct recurrent r = of(c);
    struct operand *dt = call_operand(c, SSD_DT), *rate = call_operand(c, SSD_RATE);
    recurrent_fill(&r);
    for (int t = 0; t < r.starts[*r.batch]; t++) {
        fill_row(c, SSD_X, t);
        fill_row(c, SSD_B, t);
        fill_row(c, SSD_C, t);
        fill_row(c, SSD_Z, t);
        for (int head = 0; dt->given && head < dt->dims[1]; head++) {
            double x = random_value(&c->random);
            if (is(c, EXTREMES) && t % 4 < 2)
                x = t % 4 ? -96 : 96;
            operand_set(dt, AT(t, head), c->desc.ssd.gates == ATTN_GATES_GIVEN ? fabs(x) : 2 * x);
        }
    }
    for (int head = 0; head < rate->dims[0]; head++)
        operand_set(rate, AT(head),
                    is(c, EXTREMES) && head % 2 ? -320 : -fabs(random_value(&c->random)));
    if (call_operand(c, SSD_D)->given)
        operand_set_random(call_operand(c, SSD_D), &c->random);
    for (int head = 0; call_operand(c, SSD_DT_BIAS)->given && head < rate->dims[0]; head++)
        operand_set(call_operand(c, SSD_DT_BIAS), AT(head), fabs(random_value(&c->random)));
}

/*
 * Bounds, with f = 2^-24 and numbers relative to the exact ones. A time step is off by the
 * (3 |y| + 12) f of a softplus of y, or by f; g by that and f; exp(g) by |g| of that and
 * (2 |g| + 2) f. A step of the recurrence fades what the column S of a value element is off by,
 * and adds, to the length of that error: f and the decay's of |S|; the time step's and 2 f of
 * |w x b|; f of the new |S|. S c is off by |c| of that length and by N f of the terms' sum; the
 * product with scale, d x and their sum have 3 f more, and silu(z) (2 |z| + 7) f.
 */
struct step {
    double w, decay;         /* time step, exp(g) */
    double w_off, decay_off; /* relative */
    double b[DIM_MAX], c[DIM_MAX], c_length, b_length;
};

static double given_or(const struct operand *o, const int64_t at[])
{
    return o->given ? operand_value(o, at) : 0;
}

static void compute_step(struct call *c, int t, int value_head, struct step *s)
{
    const struct attn_ssd_desc *d = &c->desc.ssd;
    const struct attn_ssd_args *a = &c->args.ssd;
    const double rate = operand_value(call_operand(c, SSD_RATE), AT(value_head));
    *s = (struct step){.w = 1};
    if (d->gates != ATTN_GATES_CONSTANT) {
        const double y = operand_value(call_operand(c, SSD_DT), AT(t, value_head)) +
                         given_or(call_operand(c, SSD_DT_BIAS), AT(value_head));
        const bool soft = d->gates == ATTN_GATES_SOFTPLUS;
        s->w = fmax(soft ? ref_softplus(y) : y, a->dt_min);
        if (a->dt_max > 0)
            s->w = fmin(s->w, a->dt_max);
        s->w_off = (soft ? 3 * fabs(y) + 12 : 1) * STORED_F;
    }
    const double g = rate * s->w;
    s->decay = exp(g);
    s->decay_off = fabs(g) * (s->w_off + STORED_F) + (2 * fabs(g) + 2) * STORED_F;
    for (int i = 0; i < d->head_dim; i++) {
        const int head = value_head / (d->value_heads / d->heads);
        s->b[i] = operand_value(call_operand(c, SSD_B), AT(t, head, i));
        s->c[i] = operand_value(call_operand(c, SSD_C), AT(t, head, i));
        s->b_length += s->b[i] * s->b[i];
        s->c_length += s->c[i] * s->c[i];
    }
    s->b_length = sqrt(s->b_length);
    s->c_length = sqrt(s->c_length);
}

static double length_of_vector(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* A value head of a sequence. */
struct head {
    struct recurrent_head of;
    struct step step;
};

static void compare_element(struct call *c, int t, int value_head, int p, struct head *h)
{
    const struct attn_ssd_desc *d = &c->desc.ssd;
    const struct step *s = &h->step;
    struct operand *out = call_operand(c, SSD_OUT);
    const double x = operand_value(call_operand(c, SSD_X), AT(t, value_head, p));
    const double skip = given_or(call_operand(c, SSD_D), AT(value_head)) * x;
    const double scale = c->args.ssd.scale != 0 ? (double)c->args.ssd.scale : 1;
    const double faded = s->decay * length_of_vector(h->of.state[p], d->head_dim);
    double y = ref_ssd_step(h->of.state[p], s->decay, s->b, s->c, d->head_dim, s->w * x), terms = 0;
    h->of.error[p] = s->decay * h->of.error[p] + (STORED_F + s->decay_off) * faded +
                     (s->w_off + 2 * STORED_F) * fabs(s->w * x) * s->b_length +
                     STORED_F * length_of_vector(h->of.state[p], d->head_dim);
    for (int i = 0; i < d->head_dim; i++)
        terms += fabs(h->of.state[p][i] * s->c[i]);
    double off = fabs(scale) * (s->c_length * h->of.error[p] + d->head_dim * STORED_F * terms) +
                 3 * STORED_F * (fabs(scale * y) + fabs(skip));
    y = scale * y + skip;
    if (d->act == ATTN_ACT_SILU) {
        const double z = operand_value(call_operand(c, SSD_Z), AT(t, value_head, p));
        off = fabs(ref_silu(z)) * (off + (2 * fabs(z) + 7) * STORED_F * fabs(y));
        y *= ref_silu(z);
    }
    double bound;
    const double expected = stored_value(out->precision, 1, y, off, &bound);
    call_compare(c, out, AT(t, value_head, p), expected, bound);
}

static void compare_padding(struct call *c, const struct recurrent_sequence *s)
{
    for (int t = s->start; t < s->start + s->count; t++)
        for (int head = 0; head < c->desc.ssd.value_heads; head++)
            for (int p = 0; p < c->desc.ssd.head_dim_v; p++)
                call_compare(c, call_operand(c, SSD_OUT), AT(t, head, p), 0, 0);
}

static void compare_sequence(struct call *c, int i, struct head *h)
{
    const struct recurrent r = of(c);
    const struct recurrent_sequence s = recurrent_sequence(&r, i);
    if (s.padding)
        compare_padding(c, &s);
    for (int head = 0; head < c->desc.ssd.value_heads && s.count && !s.padding; head++) {
        recurrent_load_state(&r, &s, head, &h->of);
        for (int t = 0; t < s.count; t++) {
            compute_step(c, s.start + t, head, &h->step);
            for (int p = 0; p < c->desc.ssd.head_dim_v; p++)
                compare_element(c, s.start + t, head, p, h);
            const int to = recurrent_target(&r, i, t);
            if (to >= 0)
                recurrent_compare_state(&r, to, head, &h->of);
        }
    }
}

static void compare(struct call *c)
{
    struct head *h = call_allocate(c, 1, sizeof(*h));
    for (int i = 0; i < c->args.ssd.batch; i++)
        compare_sequence(c, i, h);
}

/* States in and out, and the rows of all tokens. */
static double least_bytes(const struct call *c)
{
    const struct attn_ssd_desc *d = &c->desc.ssd;
    const struct attn_ssd_args *a = &c->args.ssd;
    const double states = d->state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double stored = a->state_steps > 1 ? a->tokens : a->batch;
    const double values = (double)d->value_heads * d->head_dim_v;
    const double rows =
        2.0 * d->heads * d->head_dim + values * (d->act == ATTN_ACT_SILU ? 3 : 2) + d->value_heads;
    return states * (a->batch + stored) * values * d->head_dim + 2 * a->tokens * rows;
}

const struct verify_op verify_ssd = {
    .op = "ssd",
    .shapes = shapes,
    .shape_size = sizeof(shapes[0]),
    .shape_count = COUNT(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
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
