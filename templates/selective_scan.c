/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrence of Mamba1, token by token. For each channel, S[n] = exp(rate[n] w) S[n] + b[n] w x
 * and out = scale S c + d x, times silu(z). S is the channel's state, w its time step (from dt),
 * and d is argument skip. Channels are grouped in heads, and correspond to the value elements of
 * other recurrences. Each element of a state has a different decay, so the recurrence is no product
 * of matrices.
 */
#include "ir/bits.h"
#include "templates/linear/gates.h"
#include "templates/linear/recurrence.h"
#include "templates/linear/tile.h"
#include "templates/template.h"

enum { FLOAT = 4 }; /* bytes of an f32 */

static const struct att_knob knobs[] = {
    {"elements", 2, {1024, 2048}},
    {"waves_per_simd", 2, {1, 4}},
};

/* Indices of the loaded vectors of a token: c, b, x, dt and z. Z is the last, since a variant may
 * have no z. */
enum { C, B, X, DT, Z, VECTORS };

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct selective {
    /* The first member, since functions of the recurrence have its address */
    struct att_recurrence r;
    /* f32. rate: rate of decay, in the layout of the state. bias: bias of dt. skip: factor of x in
     * out (argument d). The last two have a number for each of the wave's channels, 0 if the
     * argument is NULL */
    struct tir_value rate, bias, skip;
};

/* True if head dim field `field` is a power of two from `least` to 256; if not, the reason is in
 * `why`. */
static bool check_dim(const struct att_variant *v, enum att_field field, int least,
                      struct att_why *why)
{
    enum { MOST = 256 };
    const int dim = att_get(v, field);
    if (!tir_is_power(dim) || dim < least || dim > MOST)
        return att_reject(why, field, "%d is no power of two from %d to %d", dim, least, MOST);
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    enum { LEAST_KEY = 16, LEAST_VALUE = 64 };
    if (!check_dim(v, ATT_HEAD_DIM, LEAST_KEY, why) ||
        !check_dim(v, ATT_HEAD_DIM_V, LEAST_VALUE, why))
        return false;
    if (v->gates != ATT_GATES_SOFTPLUS && v->gates != ATT_GATES_GIVEN)
        return att_reject(why, ATT_GATES, "time steps are given, or a softplus of what is given");
    if (v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU)
        return att_reject(why, ATT_ACT, "z goes through silu");
    if (v->state_layout != ATT_STATE_LAYOUT_V_MAJOR)
        return att_reject(why, ATT_STATE_LAYOUT, "is v_major");
    return att_check_tile(v, m, why);
}

/* Issues the loads of the vectors of token `token` (i32) into raw[]: zeros if `there` (i1) is
 * false. */
static void load_token(struct att_recurrence *r, struct tir_value token, struct tir_value there,
                       struct tir_value *raw)
{
    const struct att_tensor of_values[] = {
        [X] = ATT_HEADS(V_IN), [DT] = ATT_HEADS(DT), [Z] = ATT_HEADS(Z_IN)};
    struct tir_builder *b = &r->b;
    const struct tir_value key = att_recurrence_key(r, ATT_HEADS(K_IN), token);
    const struct tir_value query = att_recurrence_key(r, ATT_HEADS(Q), token);
    raw[C] = att_state_load_keys(b, &r->state, query, r->dtype, there);
    raw[B] = att_state_load_keys(b, &r->state, key, r->dtype, there);
    for (unsigned i = X; i < r->vectors; i++) {
        const struct tir_value at = att_recurrence_value(r, of_values[i], token);
        raw[i] = att_state_load_values(b, &r->state, at, r->dtype, there);
    }
}

/* Returns the address (i64) of the numbers of this wave's channels in array argument `arg` of f32,
 * which has `each` numbers for a channel. */
static struct tir_value part_of(struct att_recurrence *r, const char *arg, int each)
{
    struct tir_builder *b = &r->b;
    const struct tir_value channel =
        tir_add(b, att_times(b, r->value_head, r->state.value), r->first);
    return att_at(b, arg, att_wide_times(b, channel, FLOAT * each));
}

/* Loads an f32 for each of this wave's channels from array `arg`; 0 if the argument is NULL. */
static struct tir_value load_numbers(struct att_recurrence *r, const char *arg)
{
    return att_state_load_values(&r->b, &r->state, part_of(r, arg, 1), TIR_F32,
                                 att_is_given(&r->b, arg));
}

/* Loads the rates, biases and skips of this wave's channels. */
static void load_channels(struct att_recurrence *r)
{
    struct selective *s = (struct selective *)r;
    struct tir_builder *b = &r->b;
    struct att_variant f32 = *r->v;
    f32.state_dtype = ATT_STATE_DTYPE_F32;
    const struct att_state rate = att_state_of_layout(
        b, &f32, r->state.key, r->state.value, r->state.rows, tir_layout_of(b->f, r->state.tile));
    s->rate = att_state_load(b, &rate, part_of(r, ARG_RATE, r->state.key), tir_i32(b, 0),
                             tir_bool(b, true));
    s->bias = load_numbers(r, ARG_DT_BIAS);
    s->skip = load_numbers(r, ARG_SKIP);
}

/* Advances *state by the token whose loaded vectors are raw[], and returns the token's output, an
 * f32 for each of the wave's channels. */
static struct tir_value advance(struct att_recurrence *r, const struct tir_value *raw,
                                struct tir_value *state)
{
    struct tir_builder *b = &r->b;
    struct selective *s = (struct selective *)r;
    const struct att_state *t = &r->state;
    const struct tir_value key = att_state_keys(b, t, raw[B]);
    const struct tir_value query = att_state_keys(b, t, raw[C]);
    const struct tir_value x = tir_convert(b, raw[X], TIR_F32);
    const struct tir_value w = att_time_step(b, r->v, raw[DT], s->bias);
    const struct tir_value decay = att_exp(b, tir_mul(b, s->rate, att_state_spread(b, t, w)));
    const struct tir_value wx = att_state_spread(b, t, tir_mul(b, w, x));
    *state = tir_fma(b, wx, att_state_spread(b, t, key), tir_mul(b, decay, *state));
    const struct tir_value sum = att_recurrence_product(r, *state, query);
    const struct tir_value out =
        tir_fma(b, sum, att_arg_like(b, ARG_SCALE, sum), tir_mul(b, x, s->skip));
    if (r->v->act == ATT_ACT_NONE)
        return out;
    return tir_mul(b, out, att_silu(b, tir_convert(b, raw[Z], TIR_F32)));
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct selective s = {
        .r = {.v = v,
              .dtype = att_dtype(v),
              .vectors = v->act == ATT_ACT_NONE ? Z : VECTORS,
              .load = load_token,
              .begin = load_channels,
              .advance = advance},
    };
    att_recurrence_build(&s.r, m, out);
}

const struct att_template att_template_selective_scan = {
    .name = "selective_scan",
    .description = "recurrence of Mamba1, token by token, with states",
    .takes = OP_TAKES_SELECTIVE_SCAN | ATT_BIT(TILE),
    ATT_TILES(att_state_tiles, knobs),
    .own = {"elements"},
    .fits = att_state_fits,
    .check = check,
    .build = build,
};
