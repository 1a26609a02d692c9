/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of ssd and ssd_prefill kernels: decode steps, verification of drafts, and prompts in
 * one launch or in segments. Results are compared with the recurrence, token by token.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tools/reference/gated_delta.h"
#include "tools/reference/gated_rmsnorm.h"
#include "tools/reference/ssd.h"
#include "tools/verify/recurrent.h"
#include "tools/verify/stored.h"

/* Most elements of a key or value, and tokens of a chunk of ssd_prefill. */
enum { DIM_MAX = RECURRENT_DIM_MAX, CHUNK = 64 };

/* The shapes on which ssd kernels are verified. */
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

/* The shape with which a trace begins. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 8, 128, 64, 1, 1, {0}};

/* The shapes on which ssd_prefill kernels are verified. */
static const struct recurrent_shape prompts[] = {
    {{"lengths", FRESH}, 1, 2, 6, 0, 1, {1, 63, 64, 65, 0, 199}},
    {{"rank", FUSED | PADDED | WIDE_LISTS | BLOCKS}, 2, 6, 4, 0, 1, {70, 3, 17, 129}},
    {{"forks", FORKS | FRESH | WIDE_LISTS}, 1, 1, 4, 0, 1, {5, 128, 66, 2}},
    {{"uniform", UNIFORM}, 1, 3, 3, 200, 2, {0}},
    {{"extremes", EXTREMES | FRESH}, 1, 2, 3, 0, 1, {150, 1, 97}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 1, {2, 65, 0, 80}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 1, {2, 70}},
    {{"long, with blocks", FRESH | BLOCKS}, 1, 1, 2, 0, 3, {1030, 640}},
    {{"65,536 tokens", UNIFORM}, 1, 1, 1, 1 << 16, 64, {0}},
};

/* The shape of a trace. Member `steps` is the number of chunks of a segment. */
static const struct recurrent_shape traced_prompt = {
    {"trace", UNIFORM | FUSED}, 1, 16, 8, 2048, 4, {0}};

/* A call of ssd or ssd_prefill: its operands and settings. */
struct ssd_layer {
    struct recurrent r;
    /* Operands of the call, with the names of ops/ssd.def. */
    struct operand *x, *b, *c, *z, *dt, *dt_bias, *rate, *d, *out;
    enum attn_gates gates;
    enum attn_act act;
    /* Pointers into the call's descriptor and arguments. head_dim: elements of a row of B or C.
     * head_dim_v: elements of a value head. */
    int32_t *heads, *value_heads;
    int head_dim, head_dim_v;
    float *scale, *dt_min, *dt_max;
    int chunk; /* tokens of a matrix product; 0: the kernel works token by token */

    /* Segments of prompts. segments: whether the kernel writes or reads their states. segment:
     * tokens of a segment. segment_count: segments of the longest sequence. Then the operands. */
    enum attn_segments segments;
    int segment, segment_count;
    struct operand *segment_states, *segment_sums;
};

/* Makes a struct ssd_layer for a call. `op` names the members of the unions of descriptors and
 * arguments. OP begins the constants of operands, such as SSD_X. `recurrent` and `tokens` are the
 * members r and chunk. */
#define SSD_LAYER_OF(call, op, OP, recurrent, tokens)  \
    ((struct ssd_layer){                               \
        .r = (recurrent),                              \
        .x = call_operand((call), OP##_X),             \
        .b = call_operand((call), OP##_B),             \
        .c = call_operand((call), OP##_C),             \
        .z = call_operand((call), OP##_Z),             \
        .dt = call_operand((call), OP##_DT),           \
        .dt_bias = call_operand((call), OP##_DT_BIAS), \
        .rate = call_operand((call), OP##_RATE),       \
        .d = call_operand((call), OP##_D),             \
        .out = call_operand((call), OP##_OUT),         \
        .gates = (call)->desc.op.gates,                \
        .act = (call)->desc.op.act,                    \
        .heads = &(call)->desc.op.heads,               \
        .value_heads = &(call)->desc.op.value_heads,   \
        .head_dim = (call)->desc.op.head_dim,          \
        .head_dim_v = (call)->desc.op.head_dim_v,      \
        .scale = &(call)->args.op.scale,               \
        .dt_min = &(call)->args.op.dt_min,             \
        .dt_max = &(call)->args.op.dt_max,             \
        .chunk = (tokens),                             \
    })

/* Returns the layer of a call of ssd. */
static struct ssd_layer step_of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_TREES(c, ssd, SSD);
    return SSD_LAYER_OF(c, ssd, SSD, r, 0);
}

/* Returns the layer of a call of ssd_prefill, with its segments. */
static struct ssd_layer prompt_of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_PROMPTS(c, ssd_prefill, SSD_PREFILL);
    const struct attn_ssd_prefill_args *const a = &c->args.ssd_prefill;
    struct ssd_layer l = SSD_LAYER_OF(c, ssd_prefill, SSD_PREFILL, r, CHUNK);
    l.segments = c->desc.ssd_prefill.segments;
    l.segment = a->segment_tokens;
    l.segment_count = a->batch ? a->segment_rows / a->batch : 0;
    l.segment_states = call_operand(c, SSD_PREFILL_SEGMENT_STATES);
    l.segment_sums = call_operand(c, SSD_PREFILL_SEGMENT_SUMS);
    return l;
}

/* Returns the layer of the call. */
static struct ssd_layer of(struct call *c)
{
    return c->op == &verify_ssd ? step_of(c) : prompt_of(c);
}

/* True if the shape has any of `flags`. */
static bool is(const struct ssd_layer *l, unsigned flags) { return l->r.c->flags & flags; }

/* Sets head counts, token counts, scale, dt_min and dt_max of a call: struct verify_op.size. */
static void size(struct call *c)
{
    const struct ssd_layer l = of(c);
    *l.heads = l.r.shape->heads;
    *l.value_heads = l.r.shape->value_heads;
    recurrent_size(&l.r);
    *l.scale = is(&l, PLAIN) ? 0 : 0.375f;
    *l.dt_min = is(&l, EXTREMES) ? 0.25f : 0;
    *l.dt_max = is(&l, EXTREMES) ? 2 : 0;
}

/* Sets the sizes of a call of ssd_prefill, also of its segments: struct verify_op.size. */
static void size_prompts(struct call *c)
{
    struct attn_ssd_prefill_args *const a = &c->args.ssd_prefill;
    const struct ssd_layer l = of(c);
    size(c);
    *l.r.state_steps = 1;
    if (l.segments == ATTN_SEGMENTS_NONE)
        return;
    a->segment_tokens = l.r.shape->steps * CHUNK;
    a->segment_rows = a->batch * ((a->max_seqlen + a->segment_tokens - 1) / a->segment_tokens);
}

/* Places x, b and c of a token in one row, in this order. */
static void place_fused(const struct ssd_layer *l)
{
    struct operand *const parts[] = {l->b, l->c};
    const int values = *l->value_heads * l->head_dim_v, keys = *l->heads * l->head_dim;
    operand_set_stride(l->x, 0, values + 2 * keys);
    for (int i = 0; i < 2; i++) {
        operand_set_stride(parts[i], 0, values + 2 * keys);
        operand_place_inside(parts[i], l->x, values + i * keys);
    }
}

/* Sets strides and absent operands: struct verify_op.place. With FUSED tensors are slices of one
 * row, with PLAIN d and dt_bias are absent. */
static void place(struct call *c)
{
    const struct ssd_layer l = of(c);
    recurrent_place(&l.r);
    if (is(&l, FUSED))
        place_fused(&l);
    if (is(&l, PLAIN)) {
        operand_leave_out(l.d);
        operand_leave_out(l.dt_bias);
    }
}

/* Fills a token's time steps; with EXTREMES some are at the ends of their range. */
static void fill_steps(const struct ssd_layer *l, int token)
{
    for (int head = 0; l->dt->given && head < l->dt->dims[1]; head++) {
        double x = random_value(&l->r.c->random);
        if (is(l, EXTREMES) && token % 4 < 2)
            x = token % 4 ? -96 : 96;
        operand_set(l->dt, AT(token, head), l->gates == ATTN_GATES_GIVEN ? fabs(x) : 2 * x);
    }
}

/* Fills the inputs and states of the layer. */
static void fill_inputs(const struct ssd_layer *l)
{
    uint64_t *const random = &l->r.c->random;
    recurrent_fill(&l->r);
    for (int t = 0; t < l->r.starts[*l->r.batch]; t++) {
        operand_set_random_row(l->x, t, random);
        operand_set_random_row(l->b, t, random);
        operand_set_random_row(l->c, t, random);
        operand_set_random_row(l->z, t, random);
        fill_steps(l, t);
    }
    for (int head = 0; head < l->rate->dims[0]; head++)
        operand_set(l->rate, AT(head),
                    is(l, EXTREMES) && head % 2 ? -320 : -fabs(random_value(random)));
    if (l->d->given)
        operand_set_random(l->d, random);
    for (int head = 0; l->dt_bias->given && head < l->rate->dims[0]; head++)
        operand_set(l->dt_bias, AT(head), fabs(random_value(random)));
}

/* The factors of a token in the recurrence. */
struct step {
    double w, g, decay;      /* w: time step; g: logarithm of the decay; decay: exp(g) */
    double w_off, decay_off; /* bounds of their relative errors */
    double b[DIM_MAX], c[DIM_MAX], c_length, b_length;
};

/* Computes the time step and decay of a token and value head, and bounds of their errors. */
static void compute_gate(const struct ssd_layer *l, int t, int value_head, struct step *s)
{
    const double rate = operand_value(l->rate, AT(value_head));
    *s = (struct step){.w = 1};
    if (l->gates != ATTN_GATES_CONSTANT) {
        const double y = operand_value(l->dt, AT(t, value_head)) +
                         operand_value_or_zero(l->dt_bias, AT(value_head));
        const bool soft = l->gates == ATTN_GATES_SOFTPLUS;
        s->w = fmax(soft ? ref_softplus(y) : y, *l->dt_min);
        if (*l->dt_max > 0)
            s->w = fmin(s->w, *l->dt_max);
        s->w_off = (soft ? 3 * fabs(y) + 12 : 1) * STORED_F;
    }
    s->g = rate * s->w;
    s->decay = exp(s->g);
    s->decay_off = fabs(s->g) * (s->w_off + STORED_F) + (2 * fabs(s->g) + 2) * STORED_F;
}

/* Computes the inputs of the recurrence for a token and value head. */
static void compute_step(const struct ssd_layer *l, int t, int value_head, struct step *s)
{
    const int head = value_head / (*l->value_heads / *l->heads);
    compute_gate(l, t, value_head, s);
    for (int i = 0; i < l->head_dim; i++) {
        s->b[i] = operand_value(l->b, AT(t, head, i));
        s->c[i] = operand_value_or_zero(l->c, AT(t, head, i));
    }
    s->b_length = vector_length(s->b, l->head_dim);
    s->c_length = vector_length(s->c, l->head_dim);
}

/*
 * Bounds, with f = 2^-24 and numbers relative to the exact ones. A time step has an error of (3 |y|
 * + 12) f from a softplus of y, or of f without it. g has the error of the time step and f. exp(g)
 * has |g| times the error of g, and (2 |g| + 2) f.
 *
 * A kernel that works token by token multiplies the error of column S of a value element by the
 * decay. A step adds to the length of this error: the decay's error and f of |S|, the time step's
 * error and 2 f of |w x b|, and f of the new |S|. The error of S c is |c| times this length, and N
 * f of the sum of the terms' magnitudes.
 *
 * For a kernel with chunks, u is half a step of the operands of products, and `tiny` half a step of
 * their subnormal numbers. A is the sum of w |x| |b| over the chunk's tokens, each times its decay
 * up to the current token. L is the length of S before the chunk, times its decay up to the current
 * token. Exponents are differences of sums of g in a tree of 6 levels. They have the errors of all
 * g, and 15 f of the sum of |g|, each at most 150 ln 2. A factor exp() w has these errors and 3 f,
 * named `off`. S has its error from before the chunk, times the decay; u and `off` of A; `off` of
 * L; and for sums 70 f of both. Outputs are products of c with rounded S and of x with rounded M.
 * They have u and `off` of both L and A, and (N + 70) f.
 */
struct chunk_bound {
    double added, before; /* A and L of the comment above */
    double error;         /* error of S before the chunk, times the decay */
    double x_sum;         /* sum of |x| of the chunk's tokens */
    /* sum of |g|; sum of the errors of g; largest error of a time step */
    double g_sum, g_off, w_off;
};

/* The state of a value head of a sequence, with its current token and bounds. */
struct head {
    struct recurrent_head of;
    struct step step;
    struct chunk_bound chunk[DIM_MAX];
    double
        /* for each row of S: sum of the lengths that were added to the row, each times its decay */
        mass[DIM_MAX];
    double sum, sum_off; /* sum of g over a segment, divided by ln 2; bound of its error */
};

/* Returns the bound of the error of S c after a token. Updates h->of.error[p], the bound of S.
 * `old` is the length of S before the token, `terms` the sum of |S c| over elements. */
static double bound_of_token(const struct ssd_layer *l, struct head *h, int p, double wx,
                             double old, double terms)
{
    const struct step *s = &h->step;
    h->of.error[p] = s->decay * h->of.error[p] + (STORED_F + s->decay_off) * s->decay * old +
                     (s->w_off + 2 * STORED_F) * fabs(wx) * s->b_length +
                     STORED_F * vector_length(h->of.state[p], l->head_dim);
    return s->c_length * h->of.error[p] + l->head_dim * STORED_F * terms;
}

/* Returns and updates the same bounds as bound_of_token(), for a kernel with chunks. `first`: true
 * if a chunk begins with this token. */
static double bound_of_chunk(const struct ssd_layer *l, struct head *h, int p, bool first, double x,
                             double old)
{
    enum { LEVELS = 15, SUMS = 70 };
    static const double most = 150 * 0.6931471805599453;
    const struct step *s = &h->step;
    struct chunk_bound *const k = &h->chunk[p];
    const double u = l->x->precision->unit, tiny = l->x->precision->tiny;
    if (first)
        *k = (struct chunk_bound){.before = old, .error = h->of.error[p]};
    const double g = fmin(fabs(s->g), most);
    k->added = s->decay * k->added + fabs(s->w * x) * s->b_length;
    k->before *= s->decay;
    k->error *= s->decay;
    k->x_sum += fabs(x);
    k->g_sum += g;
    k->g_off += g * (s->w_off + 2 * STORED_F);
    k->w_off = fmax(k->w_off, s->w_off);
    const double off = k->g_off + (LEVELS * k->g_sum + 3) * STORED_F;
    const double both = k->added + k->before, root = sqrt(l->head_dim);
    h->of.error[p] = k->error + (off + SUMS * STORED_F) * both + (u + k->w_off) * k->added +
                     tiny * root * k->x_sum;
    return s->c_length * (k->error + (u + off + (l->head_dim + SUMS) * STORED_F) * both +
                          k->w_off * k->added + tiny * root) +
           tiny * k->x_sum;
}

/* Advances value element p by a token. Returns S c, and sets *off to the bound of its error. */
static double advance_element(const struct ssd_layer *l, bool first, int p, double x,
                              struct head *h, double *off)
{
    const struct step *s = &h->step;
    const double old = vector_length(h->of.state[p], l->head_dim);
    const double y = ref_ssd_step(h->of.state[p], s->decay, s->b, s->c, l->head_dim, s->w * x);
    double terms = 0;
    for (int i = 0; i < l->head_dim; i++)
        terms += fabs(h->of.state[p][i] * s->c[i]);
    *off = l->chunk ? bound_of_chunk(l, h, p, first, x, old)
                    : bound_of_token(l, h, p, s->w * x, old, terms);
    h->mass[p] = s->decay * h->mass[p] + fabs(s->w * x) * s->b_length;
    return y;
}

/* Compares the output `at`. `y` is S c, with an error of at most `off`. The product with scale, d x
 * and their sum add 3 f, and silu(z) adds (2 |z| + 7) f. */
static void compare_element(const struct ssd_layer *l, const int64_t at[], double x, double y,
                            double off)
{
    const double skip = operand_value_or_zero(l->d, AT(at[1])) * x;
    const double scale = *l->scale != 0 ? (double)*l->scale : 1;
    off = fabs(scale) * off + 3 * STORED_F * (fabs(scale * y) + fabs(skip));
    y = scale * y + skip;
    if (l->act == ATTN_ACT_SILU) {
        const double z = operand_value(l->z, at);
        off = fabs(ref_silu(z)) * (off + (2 * fabs(z) + 7) * STORED_F * fabs(y));
        y *= ref_silu(z);
    }
    double bound;
    const double expected = stored_value(l->out->precision, 1, y, off, &bound);
    call_compare(l->r.c, l->out, at, expected, bound);
}

/* The functions from here on handle segments. */

/* With `fills` sets row `row` of the states of segments, as an earlier launch would; else compares
 * that row. With `before` also does this for the sum of g of the segment before. */
static void visit_entry(const struct ssd_layer *l, int row, int head, bool before, bool fills,
                        struct head *h)
{
    for (int p = 0; p < l->head_dim_v; p++)
        for (int n = 0; n < l->head_dim; n++) {
            const int64_t *const at = AT(row, head, p, n);
            if (fills)
                operand_set(l->segment_states, at, (float)h->of.state[p][n]);
            else
                call_compare(l->r.c, l->segment_states, at, h->of.state[p][n], h->of.error[p]);
        }
    if (before && fills)
        operand_set(l->segment_sums, AT(row - 1, head), (float)h->sum);
    else if (before)
        call_compare(l->r.c, l->segment_sums, AT(row - 1, head), h->sum, h->sum_off);
}

/* Begins a segment. For ATTN_SEGMENTS_STATES its state is 0. Else the state gets the errors of
 * adding up the segments before it, whose states and decays are float32. */
static void begin_segment(const struct ssd_layer *l, int row, int t, int head, bool fills,
                          struct head *h)
{
    enum { ROUNDINGS = 8 };
    if (fills || l->segments == ATTN_SEGMENTS_STATES) {
        visit_entry(l, row, head, t > 0, fills, h);
        memset(&h->of, 0, sizeof(h->of));
    }
    for (int p = 0; p < l->head_dim_v; p++)
        h->of.error[p] += t ? ROUNDINGS * STORED_F * h->mass[p] : 0;
    h->sum = h->sum_off = 0;
}

/* Adds g of token t, divided by ln 2, to the sum of its segment. */
static void add_to_sum(int t, struct head *h)
{
    enum { LEVELS = 17, CHUNK = 64 };
    static const double least = -150, ln_2 = 0.6931471805599453;
    const double g = fmax(h->step.g / ln_2, least);
    h->sum += g;
    h->sum_off += fabs(g) * (h->step.w_off + (LEVELS + t / CHUNK) * STORED_F);
}

/* The functions from here on walk over a whole call. */

/* Advances the state of a value head by all tokens of sequence i, and compares results. With
 * `fills` sets the states of segments and compares nothing. */
static void visit_head(const struct ssd_layer *l, int i, int head, bool fills, struct head *h)
{
    const struct recurrent_sequence s = recurrent_sequence(&l->r, i);
    const bool cut = l->segments != ATTN_SEGMENTS_NONE;
    recurrent_load_state(&l->r, &s, head, &h->of);
    for (int p = 0; p < l->head_dim_v; p++)
        h->mass[p] = vector_length(h->of.state[p], l->head_dim);
    for (int t = 0; t < s.count; t++) {
        recurrent_load_parent(&l->r, i, t, head, &h->of);
        if (cut && t % l->segment == 0)
            begin_segment(l, i * l->segment_count + t / l->segment, t, head, fills, h);
        compute_step(l, s.start + t, head, &h->step);
        add_to_sum(t, h);
        for (int p = 0; p < l->head_dim_v; p++) {
            double off;
            const double x = operand_value(l->x, AT(s.start + t, head, p));
            const double y = advance_element(l, l->chunk && t % l->chunk == 0, p, x, h, &off);
            if (!fills && l->out->given)
                compare_element(l, AT(s.start + t, head, p), x, y, off);
        }
        const int to = recurrent_target(&l->r, i, t);
        if (to >= 0 && !fills && l->out->given)
            recurrent_compare_state(&l->r, to, head, &h->of);
        const int block = recurrent_block_target(&l->r, i, t + 1);
        if (block >= 0 && !fills && l->out->given)
            recurrent_compare_state(&l->r, block, head, &h->of);
    }
}

/* Calls visit_head() for all sequences and heads: with `fills` to set the states of segments, else
 * to compare results. */
static void visit_sequences(const struct ssd_layer *l, bool fills)
{
    struct head *h = call_allocate(l->r.c, 1, sizeof(*h));
    for (int i = 0; i < *l->r.batch; i++) {
        const struct recurrent_sequence s = recurrent_sequence(&l->r, i);
        if (s.padding && !fills)
            recurrent_compare_padding(&l->r, l->out, &s);
        for (int head = 0; head < *l->value_heads && s.count && !s.padding; head++)
            visit_head(l, i, head, fills, h);
    }
}

/* Fills the inputs at random: struct verify_op.fill. With EXTREMES time steps and decays are at
 * their bounds. For a kernel that reads states of segments, the reference computes these states. */
static void fill(struct call *c)
{
    const struct ssd_layer l = of(c);
    fill_inputs(&l);
    if (l.segments == ATTN_SEGMENTS_OUTPUTS && !c->traced)
        visit_sequences(&l, true);
}

/* Compares outputs and states with the recurrence: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct ssd_layer l = of(c);
    visit_sequences(&l, false);
}

/* Returns the bytes that a call has to load and store, states and rows of tokens: struct
 * verify_op.least_bytes. */
static double least_bytes(const struct call *c)
{
    const struct ssd_layer l = of((struct call *)c);
    const double state = l.r.state->size;
    const double stored = *l.r.state_steps > 1 ? *l.r.tokens : *l.r.batch;
    const double values = (double)*l.value_heads * l.head_dim_v;
    const double rows =
        2.0 * *l.heads * l.head_dim + values * (l.act == ATTN_ACT_SILU ? 3 : 2) + *l.value_heads;
    return state * (*l.r.batch + stored) * values * l.head_dim + 2 * *l.r.tokens * rows;
}

/* True if the ssd kernel is verified on the shape. */
static bool takes(const struct call *c) { return recurrent_takes(c->shape, c->desc.ssd.tree); }

/* True if the ssd_prefill kernel is verified on the shape. Only one kernel runs the shape of one
 * sequence of 65,536 tokens, since the reference takes seconds for it. */
static bool takes_prompts(const struct call *c)
{
    const struct attn_ssd_prefill_desc *const d = &c->desc.ssd_prefill;
    const struct recurrent_shape *const shape = c->shape;
    return shape->length != 1 << 16 || c->traced ||
           (d->head_dim == 128 && d->head_dim_v == 64 && d->act == ATTN_ACT_SILU);
}

const struct verify_op verify_ssd = {
    .op = "ssd",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"batch=64", "batch=4"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("b and c", "x"),
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

const struct verify_op verify_ssd_prefill = {
    .op = "ssd_prefill",
    VERIFY_SHAPES(prompts),
    .trace = &traced_prompt,
    .tuned = {"batch=8,length=2048", "batch=64,length=256"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("b and c", "x"),
            {"segment", offsetof(struct recurrent_shape, steps), 1 << 10, "chunks of a segment"},
        },
    .own_size = sizeof(struct recurrent_own),
    .takes = takes_prompts,
    .size = size_prompts,
    .place = place,
    .fill = fill,
    .compare = compare,
    .least_bytes = least_bytes,
};
