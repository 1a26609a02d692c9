/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes inputs of layers of GDN and KDA, and computes the reference's inputs of each
 * token in double precision.
 */
#include "tools/verify/delta_layer.h"

#include <math.h>

#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/verify/stored.h"

/* True if the shape has any of `flags`. */
static bool is(const struct delta_layer *l, unsigned flags) { return l->r.c->flags & flags; }

void delta_layer_size(const struct delta_layer *l)
{
    *l->heads = l->r.shape->heads;
    *l->value_heads = l->r.shape->value_heads;
    recurrent_size(&l->r);
    *l->scale = 0.375f;
    *l->l2_eps = is(l, EXTREMES) ? 0 : 0.0078125f; /* large enough to change results */
    *l->lower_bound = -5;
}

/* The functions from here on place operands. */

/* Places k and v after q in the same rows, with the rows' stride. */
static void place_fused(const struct delta_layer *l)
{
    struct operand *parts[] = {l->k, l->v};
    const int keys = *l->heads * l->head_dim;
    const int row = 2 * keys + *l->value_heads * l->head_dim_v;
    operand_set_stride(l->q, 0, row);
    for (int i = 0; i < 2; i++) {
        operand_set_stride(parts[i], 0, row);
        operand_place_inside(parts[i], l->q, keys * (i + 1));
    }
}

/* Aligns a gate or beta `o`. `wide`: it has a row of numbers for each head. */
static void place_wide(const struct delta_layer *l, struct operand *o, bool wide)
{
    if (!wide || !o->given)
        return;
    o->align = 16;
    if (is(l, VERIFY_VIEWS))
        operand_set_stride(o, 0, o->dims[1] * o->dims[2] + 24);
}

void delta_layer_place(const struct delta_layer *l)
{
    const bool channels = l->decay == ATTN_DECAY_CHANNEL;
    recurrent_place(&l->r);
    place_wide(l, l->gate_in, channels);
    place_wide(l, l->log_decay, channels);
    place_wide(l, l->beta_in, l->beta_wide);
    place_wide(l, l->beta, l->beta_wide);
    if (channels)
        l->dt_bias->align = 16;
    if (is(l, FUSED))
        place_fused(l);
    if (is(l, PLAIN)) {
        operand_leave_out(l->a_log);
        operand_leave_out(l->dt_bias);
    }
}

/* The functions from here on fill the inputs of a layer. */

/* Returns an element of a key. Keys are short enough that a state does not grow, unless the kernel
 * normalises them. With EXTREMES some are zero or nearly parallel. */
static double key_value(const struct delta_layer *l, int token)
{
    const double x = random_value(&l->r.c->random);
    if (is(l, EXTREMES) && token % 5 == 2)
        return 0;
    const double alike = 1 + ldexp(x, -6) - fmod(ldexp(x, -6), 0x1p-7);
    const double key = is(l, EXTREMES) && token % 5 > 2 ? alike : x;
    return l->l2_norm ? key : ldexp(key, -4);
}

/* Fills a token's heads of an operand at random; keys get key_value(). */
static void fill_row(const struct delta_layer *l, struct operand *o, int token)
{
    for (int head = 0; head < o->dims[1]; head++)
        for (int i = 0; i < o->dims[2]; i++)
            operand_set(o, AT(token, head, i),
                        o == l->k ? key_value(l, token) : random_value(&l->r.c->random));
}

/* Returns a random input of a gate. With EXTREMES some inputs are far beyond the ends of the gate's
 * range. */
static double gate_value(const struct delta_layer *l, int token)
{
    const double x = 2 * random_value(&l->r.c->random);
    if (!is(l, EXTREMES))
        return x;
    return token % 4 == 0 ? 96 : token % 4 == 1 ? -96 : x;
}

/* Returns a random beta or logarithm of a decay of a token, whichever `o` holds. With EXTREMES some
 * are at their limits. */
static double given_value(const struct delta_layer *l, const struct operand *o, int token)
{
    const double x = fabs(random_value(&l->r.c->random));
    if (o == l->beta)
        return is(l, EXTREMES) && token % 4 < 2 ? token % 4 : x / 2;
    return is(l, EXTREMES) && token % 4 < 2 ? token % 4 * -80 : -x;
}

/* Fills the gates of a token. */
static void fill_gates(const struct delta_layer *l, int token)
{
    struct operand *const gates[] = {l->gate_in, l->beta_in, l->log_decay, l->beta};
    for (unsigned i = 0; i < sizeof(gates) / sizeof(gates[0]); i++) {
        struct operand *o = gates[i];
        const int64_t wide = o->schema.ndim > 2 ? o->dims[2] : 1;
        for (int head = 0; o->given && head < o->dims[1]; head++)
            for (int k = 0; k < wide; k++)
                operand_set(o, AT(token, head, k),
                            i < 2 ? gate_value(l, token) : given_value(l, o, token));
    }
}

void delta_layer_fill(const struct delta_layer *l)
{
    recurrent_fill(&l->r);
    for (int t = 0; t < l->r.starts[*l->r.batch]; t++) {
        fill_row(l, l->q, t);
        fill_row(l, l->k, t);
        fill_row(l, l->v, t);
        fill_gates(l, t);
    }
    if (l->a_log->given)
        operand_set_random(l->a_log, &l->r.c->random);
    if (l->dt_bias->given)
        operand_set_random(l->dt_bias, &l->r.c->random);
}

/* The functions from here on compute the inputs of tokens. */

/* Computes g and exp(g) for element i of a key, and bounds of their errors. */
static void compute_decay(const struct delta_layer *l, int t, int head, int i,
                          struct delta_token *out)
{
    const bool wide = l->decay == ATTN_DECAY_CHANNEL;
    double g, off = 0;
    if (l->gates == ATTN_GATES_GIVEN) {
        g = operand_value(l->log_decay, wide ? AT(t, head, i) : AT(t, head));
    } else {
        const double a_log = operand_value_or_zero(l->a_log, AT(head));
        const double x = operand_value(l->gate_in, wide ? AT(t, head, i) : AT(t, head)) +
                         operand_value_or_zero(l->dt_bias, wide ? AT(head, i) : AT(head));
        const double a = exp(a_log), of_a = 2 * fabs(a_log) + 3;
        if (l->gates == ATTN_GATES_SOFTPLUS) {
            g = -a * ref_softplus(x);
            off = of_a + 3 * fabs(x) + 12;
        } else {
            g = *l->lower_bound * ref_sigmoid(a * x);
            off = (of_a + 2) * fabs(a * x) + 2 * fabs(a * x) + 7;
        }
    }
    out->log[i] = g;
    out->off.log[i] = off * STORED_F;
    out->decay[i] = exp(g);
    out->off.decay[i] = (fabs(g) * (off + 2) + 2) * STORED_F;
}

/* Computes the beta of a token and head, for value element i, and a bound of its error. */
static void compute_beta(const struct delta_layer *l, int t, int head, int i,
                         struct delta_token *out)
{
    const bool given = l->gates == ATTN_GATES_GIVEN;
    const double x =
        operand_value(given ? l->beta : l->beta_in, l->beta_wide ? AT(t, head, i) : AT(t, head));
    out->beta[i] = given ? x : ref_sigmoid(x);
    out->off.beta = fmax(out->off.beta, given ? 0 : (2 * fabs(x) + 6) * STORED_F);
}

/* Divides the vector x by sqrt(|x|^2 + l2_eps), in place. Returns the divisor: 0 for a vector of
 * zeros, which stays zero, and 1 without l2_norm. */
static double make_unit(const struct delta_layer *l, double *x)
{
    const int n = l->head_dim;
    const double own = vector_length(x, n), length = sqrt(own * own + (double)*l->l2_eps);
    if (!l->l2_norm)
        return 1;
    for (int i = 0; i < n && own > 0; i++)
        x[i] /= length;
    return own > 0 ? length : 0;
}

void delta_layer_token(const struct delta_layer *l, int t, int value_head, struct delta_token *out)
{
    const int head = value_head / (*l->value_heads / *l->heads);
    out->off = (struct delta_bounds){.key = 0};
    out->off.key = l->l2_norm ? ((l->head_dim + 5) / 2.0 + 4) * STORED_F : 0;
    out->off.query = out->off.key + STORED_F;
    for (int i = 0; i < l->head_dim; i++) {
        out->q[i] = operand_value(l->q, AT(t, head, i));
        out->k[i] = operand_value(l->k, AT(t, head, i));
        compute_decay(l, t, value_head, i, out);
    }
    out->query_length = make_unit(l, out->q) / (double)*l->scale;
    out->length = make_unit(l, out->k);
    for (int i = 0; i < l->head_dim; i++)
        out->q[i] *= (double)*l->scale;
    for (int i = 0; i < l->head_dim_v; i++) {
        out->v[i] = operand_value(l->v, AT(t, value_head, i));
        compute_beta(l, t, value_head, i, out);
    }
}

double delta_layer_row_bytes(const struct delta_layer *l)
{
    const double gates = l->gates == ATTN_GATES_GIVEN ? 4 : 2;
    const double row = 2.0 * (2 * *l->heads * l->head_dim + 2 * *l->value_heads * l->head_dim_v);
    const double decays = l->decay == ATTN_DECAY_CHANNEL ? l->head_dim : 1;
    const double betas = l->beta_wide ? l->head_dim_v : 1;
    return *l->r.tokens * (row + gates * *l->value_heads * (decays + betas));
}
