/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of selective_scan kernels against the recurrence, token by token.
 */
#include <float.h>
#include <math.h>

#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

enum { DIM_MAX = RECURRENT_DIM_MAX };

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

/* The shape of a trace: Jamba's 8,192 channels. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 1, 128, 64, 1, 1, {0}};

/* Returns the recurrent layer of the call. */
static struct recurrent of(struct call *c)
{
    return RECURRENT_OF(c, selective_scan, SELECTIVE_SCAN);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct recurrent r = of(c);
    struct attn_selective_scan_args *a = &c->args.selective_scan;
    c->desc.selective_scan.heads = r.shape->heads;
    c->desc.selective_scan.value_heads = r.shape->value_heads;
    recurrent_size(&r);
    a->scale = call_has(c, PLAIN) ? 0 : 0.375f;
    a->dt_min = call_has(c, EXTREMES) ? 0.25f : 0;
    a->dt_max = call_has(c, EXTREMES) ? 2 : 0;
}

/* Places x, dt, b and c of a token in one row, in this order. */
static void place_fused(struct call *c)
{
    const struct attn_selective_scan_desc *d = &c->desc.selective_scan;
    struct operand *const x = call_operand(c, SELECTIVE_SCAN_X);
    struct operand *const parts[] = {call_operand(c, SELECTIVE_SCAN_DT),
                                     call_operand(c, SELECTIVE_SCAN_B),
                                     call_operand(c, SELECTIVE_SCAN_C)};
    const int values = d->value_heads * d->head_dim_v, keys = d->heads * d->head_dim;
    const int first[] = {values, 2 * values, 2 * values + keys}, all = 2 * (values + keys);
    operand_set_stride(x, 0, all);
    for (int i = 0; i < 3; i++) {
        operand_set_stride(parts[i], 0, all);
        operand_place_inside(parts[i], x, first[i]);
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct recurrent r = of(c);
    recurrent_place(&r);
    if (call_has(c, FUSED))
        place_fused(c);
    if (call_has(c, PLAIN)) {
        operand_leave_out(call_operand(c, SELECTIVE_SCAN_D));
        operand_leave_out(call_operand(c, SELECTIVE_SCAN_DT_BIAS));
    }
}

/* Fills a token's time steps; with EXTREMES some are at the ends of their range. */
static void fill_steps(struct call *c, int token)
{
    struct operand *dt = call_operand(c, SELECTIVE_SCAN_DT);
    for (int head = 0; head < dt->dims[1]; head++)
        for (int p = 0; p < dt->dims[2]; p++) {
            double x = random_value(&c->random);
            if (call_has(c, EXTREMES) && (token + p) % 4 < 2)
                x = (token + p) % 4 ? -96 : 96;
            operand_set(dt, AT(token, head, p),
                        c->desc.selective_scan.gates == ATTN_GATES_GIVEN ? fabs(x) : 2 * x);
        }
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct recurrent r = of(c);
    struct operand *rate = call_operand(c, SELECTIVE_SCAN_RATE);
    struct operand *bias = call_operand(c, SELECTIVE_SCAN_DT_BIAS);
    recurrent_fill(&r);
    for (int t = 0; t < r.starts[*r.batch]; t++) {
        operand_set_random_row(call_operand(c, SELECTIVE_SCAN_X), t, &c->random);
        operand_set_random_row(call_operand(c, SELECTIVE_SCAN_B), t, &c->random);
        operand_set_random_row(call_operand(c, SELECTIVE_SCAN_C), t, &c->random);
        operand_set_random_row(call_operand(c, SELECTIVE_SCAN_Z), t, &c->random);
        fill_steps(c, t);
    }
    for (int head = 0; head < rate->dims[0]; head++)
        for (int p = 0; p < rate->dims[1]; p++) {
            for (int n = 0; n < rate->dims[2]; n++)
                operand_set(rate, AT(head, p, n),
                            call_has(c, EXTREMES) && n % 2 ? -320
                                                           : -fabs(random_value(&c->random)));
            if (bias->given)
                operand_set(bias, AT(head, p), fabs(random_value(&c->random)));
        }
    if (call_operand(c, SELECTIVE_SCAN_D)->given)
        operand_set_random(call_operand(c, SELECTIVE_SCAN_D), &c->random);
}

/* The state of a value head of a sequence. off[v][k] bounds the error of each element. */
struct head {
    struct recurrent_head of;
    double off[DIM_MAX][DIM_MAX];
};

/* Returns the time step of token t for channel p of head `head`. Sets *w_off to the largest
 * relative error that a kernel's time step may have. */
static double time_step(struct call *c, int t, int head, int p, double *w_off)
{
    const struct attn_selective_scan_args *a = &c->args.selective_scan;
    const double y = operand_value(call_operand(c, SELECTIVE_SCAN_DT), AT(t, head, p)) +
                     operand_value_or_zero(call_operand(c, SELECTIVE_SCAN_DT_BIAS), AT(head, p));
    const bool soft = c->desc.selective_scan.gates == ATTN_GATES_SOFTPLUS;
    const double w = fmax(soft ? ref_softplus(y) : y, a->dt_min);
    *w_off = (soft ? 3 * fabs(y) + 12 : 1) * STORED_F;
    return a->dt_max > 0 ? fmin(w, a->dt_max) : w;
}

/*
 * Advances a channel by token t. Returns S c, and sets *bound to the bound of its error. All errors
 * are relative to the exact numbers, and f = 2^-24. g = rate w has the error of the time step w and
 * f. exp(g) has |g| times the error of g, and (2 |g| + 2) f. A step multiplies the error of S[n] by
 * the decay, and adds three errors: of S[n] times the decay, the decay's error and f; of |w x
 * b[n]|, the time step's error and 2 f; f of the new S[n]. S c adds N f of the sum of its terms'
 * magnitudes.
 */
static double advance(struct call *c, int t, int head, int p, struct head *h, double *bound)
{
    const struct attn_selective_scan_desc *d = &c->desc.selective_scan;
    const int of = head / (d->value_heads / d->heads);
    const double x = operand_value(call_operand(c, SELECTIVE_SCAN_X), AT(t, head, p));
    double w_off, y = 0, terms = 0;
    const double w = time_step(c, t, head, p, &w_off);
    *bound = h->of.error[p] = 0;
    for (int n = 0; n < d->head_dim; n++) {
        const double g = w * operand_value(call_operand(c, SELECTIVE_SCAN_RATE), AT(head, p, n));
        const double b = operand_value(call_operand(c, SELECTIVE_SCAN_B), AT(t, of, n));
        const double q = operand_value(call_operand(c, SELECTIVE_SCAN_C), AT(t, of, n));
        const double g_off = fabs(g) * (w_off + STORED_F) + (2 * fabs(g) + 2) * STORED_F;
        const double faded = exp(g) * h->of.state[p][n], added = w * x * b;
        h->of.state[p][n] = faded + added;
        h->off[p][n] = exp(g) * h->off[p][n] + (STORED_F + g_off) * fabs(faded) +
                       (w_off + 2 * STORED_F) * fabs(added) + STORED_F * fabs(h->of.state[p][n]);
        h->of.error[p] = fmax(h->of.error[p], h->off[p][n]);
        y += h->of.state[p][n] * q;
        terms += fabs(h->of.state[p][n] * q);
        *bound += fabs(q) * h->off[p][n];
    }
    *bound += d->head_dim * STORED_F * terms;
    return y;
}

/* Compares the output of token t for channel p of head `head`, and advances the channel's state in
 * `h`. With f = 2^-24, the product with scale, d x and their sum add errors of 3 f. silu(z) adds an
 * error of (2 |z| + 7) f. */
static void compare_channel(struct call *c, int t, int head, int p, struct head *h)
{
    struct operand *out = call_operand(c, SELECTIVE_SCAN_OUT);
    const float given = c->args.selective_scan.scale;
    const double x = operand_value(call_operand(c, SELECTIVE_SCAN_X), AT(t, head, p));
    const double skip = operand_value_or_zero(call_operand(c, SELECTIVE_SCAN_D), AT(head, p)) * x;
    const double scale = given != 0 ? (double)given : 1;
    double bound, off, y = scale * advance(c, t, head, p, h, &off);
    off = fabs(scale) * off + 3 * STORED_F * (fabs(y) + fabs(skip));
    y += skip;
    if (c->desc.selective_scan.act == ATTN_ACT_SILU) {
        const double z = operand_value(call_operand(c, SELECTIVE_SCAN_Z), AT(t, head, p));
        off = fabs(ref_silu(z)) * (off + (2 * fabs(z) + 7) * STORED_F * fabs(y));
        y *= ref_silu(z);
    }
    const double expected = stored_value(out->precision, 1, y, off, &bound);
    call_compare(c, out, AT(t, head, p), expected, bound);
}

/* Compares the outputs of head `head` for sequence i, and the state after each token that has a
 * slot for it. `h` is memory for the state. */
static void compare_head(struct call *c, int i, int head, struct head *h)
{
    const struct recurrent r = of(c);
    const struct recurrent_sequence s = recurrent_sequence(&r, i);
    recurrent_load_state(&r, &s, head, &h->of);
    for (int p = 0; p < DIM_MAX; p++)
        for (int n = 0; n < DIM_MAX; n++)
            h->off[p][n] = 0;
    for (int t = 0; t < s.count; t++) {
        for (int p = 0; p < c->desc.selective_scan.head_dim_v; p++)
            compare_channel(c, s.start + t, head, p, h);
        const int to = recurrent_target(&r, i, t);
        if (to >= 0)
            recurrent_compare_state(&r, to, head, &h->of);
    }
}

/* Compares all sequences and heads. */
static void compare(struct call *c)
{
    const struct recurrent r = of(c);
    struct head *h = call_allocate(c, 1, sizeof(*h));
    for (int i = 0; i < c->args.selective_scan.batch; i++) {
        const struct recurrent_sequence s = recurrent_sequence(&r, i);
        if (s.padding)
            recurrent_compare_padding(&r, call_operand(c, SELECTIVE_SCAN_OUT), &s);
        for (int head = 0; head < c->desc.selective_scan.value_heads && !s.padding; head++)
            compare_head(c, i, head, h);
    }
}

/* Returns the bytes of states that are read and written, of rates, and of the rows of all
 * tokens. */
static double least_bytes(const struct call *c)
{
    const struct attn_selective_scan_desc *d = &c->desc.selective_scan;
    const struct attn_selective_scan_args *a = &c->args.selective_scan;
    const double states = d->state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double stored = a->state_steps > 1 ? a->tokens : a->batch;
    const double values = (double)d->value_heads * d->head_dim_v;
    const double rows = 2.0 * d->heads * d->head_dim + values * (d->act == ATTN_ACT_SILU ? 4 : 3);
    return (states * (a->batch + stored) + 4) * values * d->head_dim + 2 * a->tokens * rows;
}

const struct verify_op verify_selective_scan = {
    .op = "selective_scan",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("b and c", "x"),
            RECURRENT_STEPS_ROW,
        },
    .own_size = sizeof(struct recurrent_own),
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
