/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_delta_step kernels: computes convolution, delta rule and gated norm, for
 * one or several tokens of each sequence, in double precision. tests/python/test_linear_step.py
 * compares their bits with the results of three launches.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tools/reference/conv1d.h"
#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

/* Largest numbers of elements of a key or value, taps, and sequences. */
enum { DIM_MAX = RECURRENT_DIM_MAX, TAPS_MAX = 6, BATCH_MAX = RECURRENT_BATCH_MAX };
/* Largest number of tokens of a sequence. */
enum { DRAFTS_MAX = 8 };

/* flag of a shape: states of the convolution are [slot, column, channel] */
enum { BY_COLUMN = 1 << 10 };

/* The shapes on which kernels are verified. */
static const struct shape {
    struct verify_shape is;
    /* Numbers of key heads and of sequences. */
    int heads, batch;
    /* columns of a convolution state in addition to the taps - 2 + steps columns that it needs */
    int extra;
    int steps; /* largest number of tokens of a sequence; kernels without drafts have one */
} shapes[] = {
    {{"decode", UNIFORM}, 1, 3, 0, 1},
    {{"decode of a rank", PADDED | WIDE_LISTS | ACCEPTED}, 2, 4, 0, 4},
    {{"forks", FORKS | BY_COLUMN}, 1, 3, 1, 3},
    {{"extremes", EXTREMES}, 1, 4, 0, 2},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN | ACCEPTED}, 3, 4, 2, 5},
    {{"beyond 4 GiB", FAR}, 1, 2, 0, 2},
    {{"eight drafts", ACCEPTED | UNIFORM}, 1, 2, 0, 8},
};

/* The shape with which a trace begins. */
static const struct shape traced = {{"trace", UNIFORM}, 12, 32, 0, 4};

/* The data of a call, in call->own. */
struct own {
    int32_t starts[BATCH_MAX + 1]; /* first token of each sequence */
};

/* True if the kernel is verified on the shape. The shape with eight drafts is only for kernels with
 * drafts. */
static bool takes(const struct call *c)
{
    return c->desc.gated_delta_step.drafts || ((const struct shape *)c->shape)->steps < DRAFTS_MAX;
}

/* Returns the number of columns of state_slots and state_slots_in. */
static int steps_of(const struct call *c)
{
    return c->desc.gated_delta_step.drafts ? ((const struct shape *)c->shape)->steps : 1;
}

/* Returns the number of tokens of sequence i. Unless all sequences have the same number, some have
 * 0. */
static int tokens_of(const struct call *c, int i)
{
    const int steps = steps_of(c);
    return !c->desc.gated_delta_step.drafts || call_has(c, UNIFORM) ? steps
                                                                    : (3 * i + 2) % (steps + 1);
}

/* Returns the row of x, gates and out for token t of sequence i. */
static int row_of(const struct call *c, int i, int t)
{
    return ((const struct own *)c->own)->starts[i] + t;
}

/* Returns the index of the first column of conv_state that sequence i reads. The column of
 * state_slots_in with the sequence's slot has the same index. */
static int history_of(const struct call *c, int i)
{
    if (!c->desc.gated_delta_step.drafts || !call_has(c, ACCEPTED))
        return 0;
    const int accepted = (i + 2) % (steps_of(c) + 1);
    return accepted > 0 ? accepted - 1 : 0;
}

/* Returns the number of channels of the convolution: q, k and v of all heads. */
static int channels_of(const struct attn_gated_delta_step_desc *d)
{
    return 2 * d->heads * d->head_dim + d->value_heads * d->head_dim_v;
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct shape *s = c->shape;
    struct attn_gated_delta_step_args *a = &c->args.gated_delta_step;
    c->desc.gated_delta_step.heads = s->heads;
    c->desc.gated_delta_step.value_heads = s->heads * call_ratio(c);
    struct own *own = c->own;
    a->batch = s->batch;
    for (int i = 0; i < s->batch; i++)
        own->starts[i + 1] = own->starts[i] + tokens_of(c, i);
    a->tokens = own->starts[s->batch];
    a->max_seqlen = a->state_steps = steps_of(c);
    a->conv_columns = c->desc.gated_delta_step.taps - 2 + steps_of(c) + s->extra;
    a->first_slot = call_has(c, PADDED);
    a->scale = 0.375f;
    a->l2_eps = call_has(c, EXTREMES) ? 0 : 0.0078125f;
    a->lower_bound = -5;
    a->eps = 0.015625f;
}

/* Returns the number of state slots. */
static int slot_count(const struct call *c)
{
    const int all = c->args.gated_delta_step.batch * steps_of(c);
    return c->traced ? all + 1 : 2 * all + 1;
}

/* Sets the sizes and strides of conv_state. */
static void place_conv(struct call *c)
{
    struct operand *state = call_operand(c, GATED_DELTA_STEP_CONV_STATE);
    operand_resize(state, 0, slot_count(c));
    if (call_has(c, BY_COLUMN)) {
        operand_set_stride(state, 1, 1);
        operand_set_stride(state, 2, channels_of(&c->desc.gated_delta_step));
    }
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    struct operand *state = call_operand(c, GATED_DELTA_STEP_STATE);
    struct operand *gates = call_operand(c, GATED_DELTA_STEP_GATE_IN);
    const bool wide = c->desc.gated_delta_step.decay == ATTN_DECAY_CHANNEL;
    operand_resize(state, 0, slot_count(c));
    recurrent_align(c, state);
    place_conv(c);
    if (call_has(c, FAR)) {
        state->far = true;
        operand_set_stride(state, 0, 1 << 29);
    }
    if (call_has(c, WIDE_LISTS))
        operand_set_stride(call_operand(c, GATED_DELTA_STEP_STATE_SLOTS), 0, 3 * steps_of(c));
    if (!c->desc.gated_delta_step.drafts || call_has(c, UNIFORM))
        operand_leave_out(call_operand(c, GATED_DELTA_STEP_CU_SEQLENS));
    if (!c->desc.gated_delta_step.drafts || !call_has(c, ACCEPTED))
        operand_leave_out(call_operand(c, GATED_DELTA_STEP_ACCEPTED));
    if (!call_has(c, FORKS))
        operand_leave_out(call_operand(c, GATED_DELTA_STEP_STATE_SLOTS_IN));
    if (wide) {
        gates->align = 16;
        call_operand(c, GATED_DELTA_STEP_DT_BIAS)->align = 16;
        if (call_has(c, VERIFY_VIEWS))
            operand_set_stride(gates, 0, gates->dims[1] * gates->dims[2] + 24);
    }
    if (call_has(c, PLAIN)) {
        operand_leave_out(call_operand(c, GATED_DELTA_STEP_A_LOG));
        operand_leave_out(call_operand(c, GATED_DELTA_STEP_DT_BIAS));
    }
}

/* Returns entry [i][step] of state_slots, or of state_slots_in if `read` is true. Every third
 * sequence is padding: slot 0 and a negative one, alternately. */
static int slot_of(const struct call *c, int i, int step, bool read)
{
    const int n = i * steps_of(c) + step;
    if (call_has(c, PADDED) && i % 3 == 1)
        return i % 2 ? 0 : -1;
    return c->traced ? n + 1 : read && call_has(c, FORKS) ? 2 * n + 1 : 2 * (n + 1);
}

/* Returns the slot of the initial state of sequence i. */
static int slot_in_of(const struct call *c, int i) { return slot_of(c, i, history_of(c, i), true); }

/* Fills the states of the convolution and of the recurrence with random numbers. */
static void fill_states(struct call *c)
{
    struct operand *const states[] = {call_operand(c, GATED_DELTA_STEP_CONV_STATE),
                                      call_operand(c, GATED_DELTA_STEP_STATE)};
    for (int i = 0; i < 2 && c->traced; i++)
        operand_set_table(states[i], 1, &c->random);
    for (int i = 0; i < 2 && !c->traced; i++)
        operand_set_random(states[i], &c->random);
}

/* Fills the inputs of token t. With EXTREMES the gates of tokens 0 and 1 are far beyond the ends of
 * their range, and x of token 2 is 0. */
static void fill_token(struct call *c, int t)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    static const unsigned gates[] = {GATED_DELTA_STEP_GATE_IN, GATED_DELTA_STEP_BETA_IN};
    for (int i = 0; i < channels_of(d); i++)
        operand_set(call_operand(c, GATED_DELTA_STEP_X), AT(t, i),
                    call_has(c, EXTREMES) && t == 2 ? 0 : random_value(&c->random));
    for (unsigned n = 0; n < COUNT(gates); n++) {
        struct operand *o = call_operand(c, gates[n]);
        const int64_t wide = o->schema.ndim > 2 ? o->dims[2] : 1;
        for (int head = 0; head < d->value_heads; head++)
            for (int k = 0; k < wide; k++) {
                const double x = 2 * random_value(&c->random);
                operand_set(o, AT(t, head, k),
                            !call_has(c, EXTREMES) ? x
                            : t == 0               ? 96
                            : t == 1               ? -96
                                                   : x);
            }
    }
}

/* Fills slots, accepted tokens and the first tokens of sequences. */
static void fill_lists(struct call *c)
{
    const struct operand *cu = call_operand(c, GATED_DELTA_STEP_CU_SEQLENS);
    const struct operand *accepted = call_operand(c, GATED_DELTA_STEP_ACCEPTED);
    const int batch = c->args.gated_delta_step.batch;
    for (int i = 0; i < batch; i++) {
        for (int step = 0; step < steps_of(c); step++) {
            operand_set_int(call_operand(c, GATED_DELTA_STEP_STATE_SLOTS), AT(i, step),
                            slot_of(c, i, step, false));
            if (call_has(c, FORKS))
                operand_set_int(call_operand(c, GATED_DELTA_STEP_STATE_SLOTS_IN), AT(i, step),
                                slot_of(c, i, step, true));
        }
        if (accepted->given)
            operand_set_int(call_operand(c, GATED_DELTA_STEP_ACCEPTED), AT(i),
                            (i + 2) % (steps_of(c) + 1));
    }
    if (cu->given)
        operand_set_ints(call_operand(c, GATED_DELTA_STEP_CU_SEQLENS),
                         ((const struct own *)c->own)->starts, batch + 1);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    static const unsigned random[] = {GATED_DELTA_STEP_CONV_WEIGHT, GATED_DELTA_STEP_CONV_BIAS,
                                      GATED_DELTA_STEP_A_LOG,       GATED_DELTA_STEP_DT_BIAS,
                                      GATED_DELTA_STEP_Z,           GATED_DELTA_STEP_WEIGHT};
    fill_lists(c);
    for (int t = 0; t < row_of(c, c->args.gated_delta_step.batch, 0); t++)
        fill_token(c, t);
    for (unsigned i = 0; i < COUNT(random); i++)
        if (call_operand(c, random[i])->given)
            operand_set_random(call_operand(c, random[i]), &c->random);
    fill_states(c);
}

/* ---- Bounds ----
 *
 * f is 2^-24. Each number has a bound of its error. A vector has a bound for each element, or a
 * bound of the length of its error. Products of two errors are included. Between the three parts
 * numbers are rounded to the type of tensors, which stored_value() bounds. */

/* A vector. error[i] is a bound of the error of x[i]. */
struct vector {
    double x[DIM_MAX], error[DIM_MAX];
};

/* Returns input n of a channel. n counts from the first token of sequence i; negative n are in the
 * history. */
static double input_of(struct call *c, int i, int channel, int n)
{
    const int column = history_of(c, i) + n + c->desc.gated_delta_step.taps - 1;
    return n < 0 ? operand_value(call_operand(c, GATED_DELTA_STEP_CONV_STATE),
                                 AT(slot_of(c, i, 0, true), channel, column))
                 : operand_value(call_operand(c, GATED_DELTA_STEP_X), AT(row_of(c, i, n), channel));
}

/* Sets *x to the convolution of a channel at token t of sequence i, and *error to the bound of its
 * error. conv1d.c derives the bound. */
static void convolve(struct call *c, int i, int t, int channel, double *x, double *error)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    double in[TAPS_MAX], w[TAPS_MAX], terms;
    for (int j = 0; j < d->taps; j++) {
        w[j] = operand_value(call_operand(c, GATED_DELTA_STEP_CONV_WEIGHT), AT(channel, j));
        in[j] = input_of(c, i, channel, t + j - (d->taps - 1));
    }
    const double bias =
        d->bias ? operand_value(call_operand(c, GATED_DELTA_STEP_CONV_BIAS), AT(channel)) : 0;
    const double y = ref_conv1d(in, d->taps - 1, w, d->taps, bias, &terms);
    const double off =
        1.1 * d->taps * STORED_F * terms + (2 * fabs(y) + 7) * STORED_F * fabs(ref_silu(y));
    *x = ref_silu(y);
    stored_value(call_operand(c, GATED_DELTA_STEP_X)->precision, 1, *x, off, error);
}

/* Convolves the `n` channels of a head from channel `first` on. */
static void convolve_head(struct call *c, int i, int t, int first, int n, struct vector *out)
{
    for (int k = 0; k < n; k++)
        convolve(c, i, t, first + k, &out->x[k], &out->error[k]);
}

/* Divides a vector in place by its length, to which eps is added; does nothing without l2_norm. An
 * error of the vector grows by 1 / length at most. Returns a bound of the length of the result's
 * error. */
static double make_unit(struct call *c, struct vector *v)
{
    const int n = c->desc.gated_delta_step.head_dim;
    const double eps = (double)c->args.gated_delta_step.l2_eps;
    const double l = vector_length(v->x, n), off = vector_length(v->error, n);
    if (!c->desc.gated_delta_step.l2_norm)
        return off;
    const double divisor = sqrt(fmax(l * l + eps, DBL_MIN));
    const double least = sqrt(fmax(pow(fmax(l - off, 0), 2) + eps, DBL_MIN));
    for (int k = 0; k < n; k++)
        v->x[k] /= divisor;
    return off == 0 ? 0 : off / least + ((n + 5) / 2.0 + 4) * STORED_F * vector_length(v->x, n);
}

/* The gates of a value head at a token. gated_delta.c derives the bounds of their errors. */
struct gates {
    double decay[DIM_MAX], decay_error[DIM_MAX];
    double beta, beta_error; /* beta_error: relative to beta */
};

/* Computes the decay of channel `k` and the bound of its error. */
static void compute_decay(struct call *c, int row, int head, int k, struct gates *out)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    const bool wide = d->decay == ATTN_DECAY_CHANNEL;
    const double a_log = operand_value_or_zero(call_operand(c, GATED_DELTA_STEP_A_LOG), AT(head));
    const double x = operand_value(call_operand(c, GATED_DELTA_STEP_GATE_IN),
                                   wide ? AT(row, head, k) : AT(row, head)) +
                     operand_value_or_zero(call_operand(c, GATED_DELTA_STEP_DT_BIAS),
                                           wide ? AT(head, k) : AT(head));
    const double a = exp(a_log), of_a = 2 * fabs(a_log) + 3;
    double g, off;
    if (d->gates == ATTN_GATES_SOFTPLUS) {
        g = -a * ref_softplus(x);
        off = of_a + 3 * fabs(x) + 12;
    } else {
        g = c->args.gated_delta_step.lower_bound * ref_sigmoid(a * x);
        off = (of_a + 4) * fabs(a * x) + 7;
    }
    out->decay[k] = exp(g);
    out->decay_error[k] = (fabs(g) * (off + 2) + 2) * STORED_F * out->decay[k] + FLT_MIN;
}

/* Computes the decays and beta of a token and head. */
static void compute_gates(struct call *c, int row, int head, struct gates *out)
{
    const double x = operand_value(call_operand(c, GATED_DELTA_STEP_BETA_IN), AT(row, head));
    for (int k = 0; k < c->desc.gated_delta_step.head_dim; k++)
        compute_decay(c, row, head, k, out);
    out->beta = ref_sigmoid(x);
    out->beta_error = (2 * fabs(x) + 6) * STORED_F;
}

/* A value head of a sequence: the inputs of its current token, and its state. */
struct head {
    struct vector q, k, v, out;
    double q_error, k_error; /* bounds of the lengths of the errors of q and k */
    struct gates gates;
    double state[DIM_MAX][DIM_MAX], state_error[DIM_MAX]; /* [v][k]; length of row v's error */
};

/*
 * Advances the state's row of value element v. The output and the bound of its error go to h->out.
 * The row's error before is multiplied by (1 - beta k k^T) exp(g). This matrix lengthens a vector
 * by a factor of at most 1 or beta |k|^2 - 1. `grows` is the larger factor, with the errors of beta
 * and k.
 */
static void advance(struct call *c, struct head *h, int v)
{
    const int n = c->desc.gated_delta_step.head_dim;
    const double f = STORED_F, sums = n * f, k = vector_length(h->k.x, n),
                 q = vector_length(h->q.x, n);
    const double most = h->gates.beta * (1 + h->gates.beta_error) * pow(k + h->k_error, 2);
    const double grows = fmax(1, most - 1);
    double *row = h->state[v], faded[DIM_MAX], decay[DIM_MAX], known = 0, slowest = 0;
    for (int i = 0; i < n; i++) {
        faded[i] = row[i] * h->gates.decay[i];
        decay[i] = fabs(row[i]) * h->gates.decay_error[i] + fabs(faded[i]) * f;
        known += faded[i] * h->k.x[i];
        slowest = fmax(slowest, h->gates.decay[i] + h->gates.decay_error[i]);
    }
    const double before = slowest * h->state_error[v], off = vector_length(decay, n);
    const double s = vector_length(faded, n) + before;
    const double of_known = off * k + (s + off) * (h->k_error + sums * k);
    const double miss = fabs(h->v.x[v]) + fabs(known) + before * k;
    const double u = fabs(h->gates.beta * (h->v.x[v] - known)) + h->gates.beta * before * k;
    const double of_u = h->gates.beta * (h->v.error[v] + of_known + f * miss) +
                        (h->gates.beta_error + 2 * f) * (u + h->gates.beta * of_known) +
                        FLT_MIN * miss;
    h->out.x[v] = ref_delta_step(row, h->gates.decay, h->k.x, h->q.x, n, h->v.x[v], h->gates.beta);
    const double after = vector_length(row, n);
    h->state_error[v] =
        grows * before + off + (k + h->k_error) * of_u + h->k_error * u + 2 * f * (s + k * u);
    h->out.error[v] =
        (q + h->q_error) * h->state_error[v] + after * (h->q_error + (sums + 2 * f) * q);
}

/* Compares a value head's row of out with y. off[v] is a bound of the error of y[v]. With fp8 each
 * 128 elements have a scale: their largest magnitude divided by the largest number of fp8. */
static void compare_row(struct call *c, int row, int head, const double *y, const double *off)
{
    enum { GROUP = 128 };
    const int n = c->desc.gated_delta_step.head_dim_v;
    struct operand *out = call_operand(c, GATED_DELTA_STEP_OUT);
    struct operand *scales = call_operand(c, GATED_DELTA_STEP_OUT_SCALE);
    double scale = 1;
    for (int v = 0; v < n; v++) {
        if (scales->given && v % GROUP == 0) {
            const double limit = out->precision->limit;
            double largest = 0, error = 0;
            for (int i = v; i < v + GROUP; i++) {
                largest = fmax(largest, fabs(y[i]));
                error = fmax(error, off[i]);
            }
            const int64_t *at = AT(row, (head * n + v) / GROUP);
            call_check(c, scales, at, largest / limit,
                       error / limit + 2 * STORED_F * largest / limit);
            scale = operand_result(scales, at);
        }
        double bound = 0, expected = 0;
        if (scale > 0)
            expected = stored_value(out->precision, scale, y[v], off[v], &bound);
        call_compare(c, out, AT(row, head, v), expected, bound);
    }
}

/* Applies norm and gate to a row of the output, and compares the result. The kernel rounds the
 * output before the norm. The norm multiplies an error by at most 1 / rms. */
static void normalise(struct call *c, int row, int head, struct head *h)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    const struct precision *const between = call_operand(c, GATED_DELTA_STEP_X)->precision;
    const double eps = (double)c->args.gated_delta_step.eps;
    const int n = d->head_dim_v;
    double error[DIM_MAX], y[DIM_MAX], off[DIM_MAX];
    for (int v = 0; v < n; v++)
        stored_value(between, 1, h->out.x[v], h->out.error[v], &error[v]);
    const double mean = vector_length(error, n) / sqrt(n);
    const double rms = sqrt(pow(vector_length(h->out.x, n), 2) / n + eps);
    const double least = fmax(rms - mean, sqrt(eps));
    for (int v = 0; v < n; v++) {
        const double z = operand_value(call_operand(c, GATED_DELTA_STEP_Z), AT(row, head, v));
        const double w = operand_value(call_operand(c, GATED_DELTA_STEP_WEIGHT), AT(v));
        const double gate = w * (d->act == ATTN_ACT_SIGMOID ? ref_sigmoid(z) : ref_silu(z));
        const double x = h->out.x[v] / rms;
        const double of_x = error[v] / least + fabs(x) * mean / least;
        const double own = ((n + 5) / 2.0 + 5 + 2 * fabs(z) + 9) * STORED_F * (fabs(x) + of_x);
        y[v] = x * gate;
        /* a sigmoid, or a product, below the smallest normal number may become 0 */
        const double factor = d->act == ATTN_ACT_SIGMOID ? 1 : fabs(z) + 1;
        off[v] = (of_x + own) * fabs(gate) + FLT_MIN * (factor * fabs(x * w) + 1);
    }
    compare_row(c, row, head, y, off);
}

/* The functions from here on read and compare states. */

/* Loads the state of a sequence and head. */
static void load_state(struct call *c, int i, int head, struct head *h)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    for (int v = 0; v < d->head_dim_v; v++) {
        h->state_error[v] = 0;
        for (int k = 0; k < d->head_dim; k++) {
            recurrent_element(d->state_layout, slot_in_of(c, i), head, v, k, at);
            h->state[v][k] = operand_value(call_operand(c, GATED_DELTA_STEP_STATE), at);
        }
    }
}

/* Compares the state that is stored in a slot. */
static void compare_state(struct call *c, int slot, int head, const struct head *h)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    struct operand *state = call_operand(c, GATED_DELTA_STEP_STATE);
    int64_t at[ATTN_DIMENSIONS_MAX] = {0};
    for (int v = 0; v < d->head_dim_v; v++)
        for (int k = 0; k < d->head_dim; k++) {
            double expected = h->state[v][k], bound = h->state_error[v];
            recurrent_element(d->state_layout, slot, head, v, k, at);
            if (state->precision)
                expected = stored_value(state->precision, 1, expected, h->state_error[v], &bound);
            call_compare(c, state, at, expected, bound);
        }
}

/* Compares the columns of conv_state that sequence i stores: the last W - 2 inputs of its history,
 * and then all tokens. */
static void compare_conv(struct call *c, int i)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    const int columns = d->taps - 2 + tokens_of(c, i);
    for (int channel = 0; channel < channels_of(d) && tokens_of(c, i); channel++)
        for (int j = 0; j < columns; j++)
            call_compare(c, call_operand(c, GATED_DELTA_STEP_CONV_STATE),
                         AT(slot_of(c, i, 0, false), channel, j),
                         input_of(c, i, channel, j - (d->taps - 2)), 0);
}

/* Compares the output of a token and head, and advances the state. */
static void compare_token(struct call *c, int i, int t, int head, struct head *h)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    const int of = head / (d->value_heads / d->heads), keys = d->heads * d->head_dim;
    convolve_head(c, i, t, of * d->head_dim, d->head_dim, &h->q);
    convolve_head(c, i, t, keys + of * d->head_dim, d->head_dim, &h->k);
    convolve_head(c, i, t, 2 * keys + head * d->head_dim_v, d->head_dim_v, &h->v);
    h->q_error = make_unit(c, &h->q) * (double)c->args.gated_delta_step.scale;
    h->k_error = make_unit(c, &h->k);
    for (int k = 0; k < d->head_dim; k++)
        h->q.x[k] *= (double)c->args.gated_delta_step.scale;
    compute_gates(c, row_of(c, i, t), head, &h->gates);
    for (int v = 0; v < d->head_dim_v; v++)
        advance(c, h, v);
    compare_state(c, slot_of(c, i, t, false), head, h);
    normalise(c, row_of(c, i, t), head, h);
}

/* Compares all sequences and heads, and the states after them. */
static void compare(struct call *c)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    static const double zeros[DIM_MAX];
    struct head *h = call_allocate(c, 1, sizeof(*h));
    for (int i = 0; i < c->args.gated_delta_step.batch; i++) {
        const bool real = slot_of(c, i, 0, false) >= c->args.gated_delta_step.first_slot;
        for (int head = 0; head < d->value_heads; head++) {
            if (real)
                load_state(c, i, head, h);
            for (int t = 0; t < tokens_of(c, i); t++) {
                if (real)
                    compare_token(c, i, t, head, h);
                else
                    compare_row(c, row_of(c, i, t), head, zeros, zeros);
            }
        }
        if (real)
            compare_conv(c, i);
    }
}

/* Returns the bytes of states that are read and written, and of the rows of all tokens. */
static double least_bytes(const struct call *c)
{
    const struct attn_gated_delta_step_desc *d = &c->desc.gated_delta_step;
    const double states = d->state_dtype == ATTN_STATE_F32 ? 4 : 2;
    const double head = states * d->head_dim * d->head_dim_v;
    const double decays = d->decay == ATTN_DECAY_CHANNEL ? d->head_dim : 1;
    const double row = channels_of(d) + d->value_heads * (2.0 * d->head_dim_v + decays + 1);
    const int tokens = tokens_of(c, 0), columns = 2 * d->taps - 3 + tokens;
    const double conv = 2.0 * channels_of(d) * columns;
    return c->args.gated_delta_step.batch *
           ((1 + tokens) * d->value_heads * head + conv + 2 * tokens * row);
}

const struct verify_op verify_gated_delta_step = {
    .op = "gated_delta_step",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=32", "batch=1"},
    .dimensions =
        {
            {"heads", offsetof(struct shape, heads), 1024, "of q and k"},
            {"batch", offsetof(struct shape, batch), BATCH_MAX, "sequences"},
            {"length", offsetof(struct shape, steps), DRAFTS_MAX, "tokens of each, with drafts"},
        },
    .own_size = sizeof(struct own),
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
