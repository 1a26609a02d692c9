/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification of gated_delta_prefill kernels: compares results with the recurrence, which goes
 * token by token and has no chunks. Only the bounds follow the roundings of a kernel in chunks.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tools/reference/clones.h"
#include "tools/reference/gated_delta.h"
#include "tools/verify/delta_layer.h"
#include "tools/verify/stored.h"

/* Largest number of elements of a key or value; tokens of a chunk, and of a block. */
enum { DIM_MAX = RECURRENT_DIM_MAX, CHUNK = 64, BLOCK = 16 };

/* The shapes. Member `steps` is the number of chunks of a segment; 0: sequences are not cut into
 * segments. */
static const struct recurrent_shape shapes[] = {
    {{"chunks", FUSED}, 1, 2, 3, 0, 0, {129, 64, 63}},
    {{"tails", FRESH | PLAIN}, 1, 1, 6, 0, 0, {1, 65, 0, 16, 199, 33}},
    {{"forks", FORKS | FRESH | WIDE_LISTS}, 1, 1, 3, 0, 0, {70, 5, 17}},
    {{"padding", PADDED | FUSED}, 2, 4, 4, 0, 0, {31, 80, 3, 48}},
    {{"extremes", EXTREMES | FRESH}, 1, 1, 3, 0, 0, {70, 1, 133}},
    {{"uniform", UNIFORM}, 2, 2, 2, 96, 0, {0}},
    {{"views", VERIFY_VIEWS | FORKS | PADDED | PLAIN}, 2, 6, 4, 0, 0, {66, 20, 0, 2}},
    {{"beyond 4 GiB", FAR}, 1, 1, 2, 0, 0, {67, 18}},
    {{"long, with blocks", FRESH | BLOCKS}, 1, 1, 2, 0, 0, {1031, 320}},
    {{"segments", FRESH | PADDED | PLAIN | BLOCKS}, 1, 1, 5, 0, 1, {70, 130, 0, 64, 1}},
    {{"segments of extremes", EXTREMES | FORKS}, 1, 1, 2, 0, 2, {197, 64}},
    {{"65,536 tokens", UNIFORM | FRESH}, 1, 1, 1, 1 << 16, 0, {0}},
    {{"65,536 tokens in segments", UNIFORM}, 1, 1, 1, 1 << 16, 64, {0}},
};

/* The shape with which a trace begins. */
static const struct recurrent_shape traced = {{"trace", UNIFORM | FUSED}, 2, 4, 1, 4096, 0, {0}};

/** The data of a call. */
struct own {
    struct recurrent_own lists;
    enum attn_stage stage; /* stage of the kernel that is verified */
};

/* Returns the layer of the call. */
static struct delta_layer of(struct call *c)
{
    const struct recurrent r = RECURRENT_OF_PROMPTS(c, gated_delta_prefill, GATED_DELTA_PREFILL);
    return DELTA_LAYER_OF(c, gated_delta_prefill, GATED_DELTA_PREFILL, r, false);
}

/* Sets the sizes in the call's descriptor and arguments from the shape: struct verify_op.size. */
static void size(struct call *c)
{
    const struct delta_layer l = of(c);
    struct attn_gated_delta_prefill_args *const a = &c->args.gated_delta_prefill;
    enum attn_stage *const stage = &c->desc.gated_delta_prefill.stage;
    struct own *const own = c->own;
    delta_layer_size(&l);
    *l.r.state_steps = 1;
    own->stage = *stage;
    if (*stage == ATTN_STAGE_ALL)
        return;
    a->chunk_rows = (a->tokens - 1) / CHUNK + a->batch;
    a->segment_tokens = l.r.shape->steps * CHUNK;
    if (a->segment_tokens)
        a->segment_rows = (a->tokens - 1) / a->segment_tokens + a->batch;
    if (!c->traced) /* all launches of the call have the tensors of the last stage */
        *stage = ATTN_STAGE_OUTPUTS;
}

/* True if the double-precision reference would take minutes for the shape. 65,536 tokens take
 * seconds if keys and values have 64 elements. So only such kernels of all stages, or of the last
 * stage, run long shapes. */
static bool is_too_long(const struct call *c)
{
    const struct attn_gated_delta_prefill_desc *const d = &c->desc.gated_delta_prefill;
    const bool last = d->stage == ATTN_STAGE_ALL || d->stage == ATTN_STAGE_OUTPUTS;
    return ((const struct recurrent_shape *)c->shape)->length == 1 << 16 &&
           (!last || d->head_dim != 64 || d->head_dim_v != 64);
}

/* True if the pack has a kernel of the stage `stage` that otherwise has the target and the key of
 * kernel `n`. */
static bool has_stage(const struct attn_pack *pack, uint32_t n, const char *stage)
{
    struct attn_kernel_info own = {.size = sizeof(own)}, other = {.size = sizeof(other)};
    if (attn_pack_kernel(pack, n, &own) != ATTN_OK)
        return false;
    for (uint32_t i = 0; attn_pack_kernel(pack, i, &other) == ATTN_OK; i++) {
        bool same = !strcmp(own.op, other.op) && !strcmp(own.target, other.target) &&
                    !strcmp(verify_field(pack, i, "stage"), stage);
        const char *name, *value;
        for (uint32_t f = 0; same && !attn_pack_kernel_field(pack, n, f, &name, &value); f++)
            same = !strcmp(name, "stage") || !strcmp(value, verify_field(pack, i, name));
        if (same)
            return true;
    }
    return false;
}

/* Returns the first stage of every call of kernel `n` that the pack has no kernel of; NULL if there
 * is none: struct verify_op.lacks. */
static const char *lacks(const struct attn_pack *pack, uint32_t n)
{
    static const char *const stages[] = {"chunks", "scan", "outputs"};
    for (size_t i = 0; strcmp(verify_field(pack, n, "stage"), "all") && i < COUNT(stages); i++) {
        if (!has_stage(pack, n, stages[i]))
            return stages[i];
    }
    return NULL;
}

/* True if the kernel is verified on the shape. A kernel of all stages runs shapes without segments.
 * A kernel of the stage OUTPUTS runs all shapes, after launches of the other stages. Kernels of
 * other stages run only shapes with segments and without EXTREMES. If the pack has no kernel of the
 * stage SEGMENTS, all run only shapes without segments. */
static bool takes(const struct call *c)
{
    if (is_too_long(c))
        return false;
    const bool cut = ((const struct recurrent_shape *)c->shape)->steps > 0;
    const enum attn_stage stage = c->desc.gated_delta_prefill.stage;
    const bool cuts = stage != ATTN_STAGE_ALL && has_stage(c->pack, c->n, "segments");
    switch (stage) {
    case ATTN_STAGE_ALL: return !cut;
    case ATTN_STAGE_OUTPUTS: return !cut || cuts;
    default: return cut == cuts && !(c->flags & EXTREMES);
    }
}

/* Sets the stage of the next launch in c->desc. Sets c->aside if the verified kernel has another
 * stage. */
static void begin_stage(struct call *c, enum attn_stage stage)
{
    c->desc.gated_delta_prefill.stage = stage;
    c->aside = stage != ((const struct own *)c->own)->stage;
}

/* Prepares the launch of the next stage. Returns false after the last stage. */
static bool next(struct call *c)
{
    const enum attn_stage stage = c->desc.gated_delta_prefill.stage;
    if (stage == ATTN_STAGE_ALL || stage == ATTN_STAGE_OUTPUTS)
        return false;
    const bool cut = c->args.gated_delta_prefill.segment_tokens > 0;
    begin_stage(c, stage == ATTN_STAGE_CHUNKS && !cut ? ATTN_STAGE_SCAN : stage + 1);
    return true;
}

/* Sets sizes and strides of tensors, and omits optional ones: struct verify_op.place. */
static void place(struct call *c)
{
    const struct delta_layer l = of(c);
    delta_layer_place(&l);
}

/* Sets the contents of the input tensors: struct verify_op.fill. */
static void fill(struct call *c)
{
    const struct delta_layer l = of(c);
    delta_layer_fill(&l);
    if (!c->traced && ((const struct own *)c->own)->stage != ATTN_STAGE_ALL)
        begin_stage(c, ATTN_STAGE_CHUNKS);
}

/*
 * Bounds. f is 2^-24, and e is half a step of the 16-bit type. e0 is the largest error of a
 * rounding to a subnormal number. A kernel rounds each of these numbers once to the 16-bit type:
 *
 *   S, the state before a chunk, and u of each token, as operands of products;
 *   y, the right side of the equations for u of a block of 16 tokens;
 *   M, the inverse of the block's triangle of coefficients;
 *   A, coefficients of u between blocks, and P, coefficients of u in the output;
 *   u times its decay to the chunk's end;
 *   with a decay for each channel, keys and queries times their decays. Decays of coefficients are
 *     then products of two such factors.
 *
 * Keys are multiplied as they are, and u is divided by the key's length afterwards. An error e0 of
 * that quotient is an error of e0 times the length in u. A product of n numbers in float32 has an
 * error of n f of the sum of their magnitudes.
 *
 * For one value element, with the exact y, u, S and coefficients:
 *
 *   y has the errors from rounding S, u, A and y, and |A| times the error of u;
 *   u has |M| times the error of y, and |y| times the error of M. M0 = M / beta, the inverse of
 *     T = 1 + beta A, has an error of |M0| times the error of T times |M0|;
 *   out has |P| times the error of u, the errors from rounding P, u and S, and |q| times the length
 *     of the error of S;
 *   S has the length of its earlier error times the largest decay of each token. gated_delta.c
 *     says why. It also has the length of k times the error of u, and float32 errors of the sum.
 *
 * A decay from one token to another has the error of the sums of g. Each g adds its own error, and
 * 12 f of g for the factor 1 / ln 2 and at most six additions, on both sides.
 */
/* The tokens of a chunk for one value head, with the numbers of the comment above. A member with
 * _off is a bound of the error of the member without it. */
struct chunk {
    int count, key;    /* number of tokens; elements of a key */
    bool channels;     /* true: each channel of a key has a decay; false: each head has one */
    double unit, tiny; /* e and e0 */
    struct delta_token t[CHUNK];
    double sum[CHUNK + 1][DIM_MAX];   /* sum of g before each token, by channel */
    double error[CHUNK + 1][DIM_MAX]; /* bounds of the errors of `sum` */
    double a[CHUNK][CHUNK], a_off[CHUNK][CHUNK];
    double p[CHUNK][CHUNK], p_off[CHUNK][CHUNK];
    double m[CHUNK][BLOCK], m_off[CHUNK][BLOCK];
    double known[CHUNK], known_off[CHUNK]; /* of a column: product of S with each k */
    double first[CHUNK], first_off[CHUNK]; /* product of S with each q */
    double v[CHUNK];                       /* v of each token, for the column's value element */
    double y[CHUNK], y_off[CHUNK], u[CHUNK], u_off[CHUNK];
    double out[CHUNK];
    double fade[CHUNK + 1]; /* product of the largest decays of all tokens before each token */
    /* By token and channel: the decay from the chunk's start to after the token, and the bound of
     * its relative error. */
    double decay[CHUNK][DIM_MAX], decay_off[CHUNK][DIM_MAX];
    /* By token: the length of the key after its decays to the chunk's end, and the largest bound of
     * these decays' relative errors. */
    double faded_key[CHUNK], faded_off[CHUNK];
    double query[CHUNK]; /* length of each token's query */
};

/* Returns the relative error of the rounding of keys and queries times their decays, if each
 * channel has a decay; else 0. */
static double of_factor(const struct chunk *x) { return x->channels ? x->unit : 0; }

/* Returns 1 / length; 0 if `length` is 0. */
static double inverse(double length) { return length > 0 ? 1 / length : 0; }

/* Sets x->sum to the sums of g before each token, and x->error to the bounds of their errors. */
static void add_gates(struct chunk *x)
{
    x->fade[0] = 1;
    for (int t = 0; t < x->count; t++) {
        double most = 0;
        for (int k = 0; k < x->key; k++) {
            const double g = x->t[t].log[k];
            most = fmax(most, x->t[t].decay[k]);
            x->sum[t + 1][k] = x->sum[t][k] + g;
            x->error[t + 1][k] = x->error[t][k] + fabs(g) * (x->t[t].off.log[k] + 12 * STORED_F);
        }
        x->fade[t + 1] = x->fade[t] * most;
    }
}

/* Returns the decay of channel k from token j to token i; j -1: from the chunk's start. *off
 * becomes the bound of its relative error. If each channel has a decay, sums begin with the block
 * of j. */
static double decay_between(const struct chunk *x, int j, int i, int k, double *off)
{
    const int from = x->channels && j >= 0 ? j / BLOCK * BLOCK : 0;
    const double log = x->sum[i + 1][k] - x->sum[j + 1][k];
    *off = 2 * (x->error[i + 1][k] - x->error[from][k]) + (2 * fabs(log) + 6) * STORED_F;
    return exp(log);
}

/* Sets decay[k] to the decay of channel k from token j to token i. Sets off[k] to the bound of its
 * relative error. */
static void find_decays(const struct chunk *x, int j, int i, double *decay, double *off)
{
    const int different = x->channels ? x->key : 1;
    for (int k = 0; k < different; k++)
        decay[k] = decay_between(x, j, i, k, &off[k]);
    for (int k = different; k < x->key; k++) {
        decay[k] = decay[0];
        off[k] = off[0];
    }
}

/* Computes the decays from the chunk's start and to its end, and the lengths of the queries and of
 * the decayed keys. They are the same for all value elements. */
static void find_lengths(struct chunk *x)
{
    double decay[DIM_MAX], off[DIM_MAX];
    for (int i = 0; i < x->count; i++) {
        find_decays(x, -1, i, x->decay[i], x->decay_off[i]);
        find_decays(x, i, x->count - 1, decay, off);
        x->faded_off[i] = 0;
        for (int k = 0; k < x->key; k++) {
            decay[k] *= x->t[i].k[k];
            x->faded_off[i] = fmax(x->faded_off[i], off[k]);
        }
        x->faded_key[i] = vector_length(decay, x->key);
        x->query[i] = vector_length(x->t[i].q, x->key);
    }
}

/* Returns the coefficient of u of token j in the result of token i. `of_i` is the key or query of
 * token i, `length_i` the length of that vector. `decay` and `of_decay` are what find_decays() sets
 * for both tokens. Sets *off to the bound of the coefficient's error before the coefficient is
 * stored. */
REF_CLONES static double coefficient(const struct chunk *x, const double *of_i, double length_i,
                                     double own, int i, int j, const double *decay,
                                     const double *of_decay, double *off)
{
    /* Elements of products with a decay for each channel have errors of their own. */
    const double least = x->channels && i != j ? x->tiny : 0;
    const double r_i = inverse(length_i), r_j = inverse(x->t[j].length);
    const double more = 2.1 * of_factor(x) + (x->key + 8) * STORED_F + own;
    const double *const of_j = x->t[j].k;
    double sum = 0, error = 0;
#pragma omp simd reduction(+ : sum, error)
    for (int k = 0; k < x->key; k++) {
        const double term = of_i[k] * of_j[k] * decay[k];
        sum += term;
        error +=
            fabs(term) * (of_decay[k] + more) + least * (r_i * fabs(of_j[k]) + r_j * fabs(of_i[k]));
    }
    *off = error;
    return sum;
}

/* Computes the coefficients of a chunk, products of keys with keys and with queries, and bounds of
 * their errors. */
static void find_coefficients(struct chunk *x)
{
    for (int i = 0; i < x->count; i++) {
        const struct delta_token *t = &x->t[i];
        for (int j = 0; j <= i; j++) {
            const double own = 2 * t->off.query;
            double decay[DIM_MAX], off[DIM_MAX];
            find_decays(x, j, i, decay, off);
            x->a[i][j] =
                i == j ? 0
                       : coefficient(x, t->k, t->length, own, i, j, decay, off, &x->a_off[i][j]);
            x->p[i][j] =
                coefficient(x, t->q, t->query_length, own, i, j, decay, off, &x->p_off[i][j]);
            const double least = x->tiny * inverse(x->t[j].length);
            if (i / BLOCK != j / BLOCK)
                x->a_off[i][j] += x->unit * (fabs(x->a[i][j]) + x->a_off[i][j]) + least;
            x->p_off[i][j] += x->unit * (fabs(x->p[i][j]) + x->p_off[i][j]) + least;
        }
    }
}

/* Computes the inverse of 1 + beta A for the block of `n` tokens that begins with token `first`, by
 * substitution. */
static void invert_block(const struct chunk *x, int first, int n, double inverse[BLOCK][BLOCK])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = i == j;
            for (int k = j; k < i; k++)
                sum -= x->t[first + i].beta[0] * x->a[first + i][first + k] * inverse[k][j];
            inverse[i][j] = j <= i ? sum : 0;
        }
}

/* Returns the bound of the error of one element of 1 + beta A of a block. */
static double triangle_off(const struct chunk *x, int row, int col)
{
    const struct delta_token *t = &x->t[row];
    return fabs(t->beta[0]) * (x->a_off[row][col] + (t->off.beta + 2 * t->off.key + 40 * STORED_F) *
                                                        fabs(x->a[row][col]));
}

/* Computes M, the inverse of a block of the chunk's triangle times beta, and bounds of its
 * errors. */
static void find_block(struct chunk *x, int first, int n)
{
    double inverse[BLOCK][BLOCK], off[BLOCK][BLOCK] = {{0}};
    invert_block(x, first, n, inverse);
    for (int i = 0; i < n; i++) /* error of the triangle, times the inverse */
        for (int j = 0; j < i; j++)
            for (int k = j; k < i; k++)
                off[i][j] += triangle_off(x, first + i, first + k) * fabs(inverse[k][j]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            const struct delta_token *t = &x->t[first + j];
            double of_inverse = 0;
            for (int k = j; k <= i; k++)
                of_inverse += fabs(inverse[i][k]) * off[k][j];
            const double beta = fabs(t->beta[0]), m = beta * fabs(inverse[i][j]);
            x->m[first + i][j] = beta * fabs(inverse[i][j]);
            x->m_off[first + i][j] = (1 + x->unit) * beta * of_inverse +
                                     (x->unit + t->off.beta + t->off.key + 8 * STORED_F) * m +
                                     (x->tiny + FLT_MIN) * fmax(x->t[first + i].length, 1);
        }
}

/* Computes all coefficients of a chunk, and the inverses of its blocks. */
static void prepare(struct chunk *x)
{
    add_gates(x);
    find_lengths(x);
    find_coefficients(x);
    for (int first = 0; first < x->count; first += BLOCK)
        find_block(x, first, x->count - first < BLOCK ? x->count - first : BLOCK);
}

/* The functions from here on compute and compare the column of a value element. */

/* Returns the product of token i's vector, a key or query, with the decayed state before the chunk.
 * Sets *off to the bound of its error. */
REF_CLONES static double of_state(const struct chunk *x, const double *vector, double length,
                                  double own, const double *column, int i, double *off)
{
    const double rest = 1.1 * of_factor(x), inverted = x->channels ? inverse(length) : 0;
    const double more = x->unit + rest + own + (x->key + 12) * STORED_F;
    double sum = 0, error = 0;
#pragma omp simd reduction(+ : sum, error)
    for (int k = 0; k < x->key; k++) {
        const double v = vector[k] * x->decay[i][k], term = v * column[k];
        sum += term;
        error += fabs(term) * (x->decay_off[i][k] + more) +
                 x->tiny * (fabs(v) + fabs(column[k]) * inverted);
    }
    *off = error;
    return sum;
}

/* Computes y of token i and the bound of its error, from u of the tokens of earlier blocks. */
static void find_rest(struct chunk *x, int i)
{
    double sum = x->v[i] - x->known[i],
           off = x->known_off[i] + 4 * STORED_F * (fabs(x->v[i]) + fabs(x->known[i]));
    for (int j = 0; j < i / BLOCK * BLOCK; j++) {
        const double a = fabs(x->a[i][j]), u = fabs(x->u[j]);
        sum -= x->a[i][j] * x->u[j];
        off += x->a_off[i][j] * u + a * x->u_off[j] +
               (a + x->a_off[i][j]) *
                   (x->unit * (u + x->u_off[j]) + x->tiny * x->t[j].length + 70 * STORED_F * u);
    }
    x->y[i] = sum;
    x->y_off[i] = off + x->unit * (fabs(sum) + off) + x->tiny;
}

/* Computes the bound of the error of u of token i. x->u has the values of the recurrence. */
static void find_off(struct chunk *x, int i)
{
    const int first = i / BLOCK * BLOCK;
    double off = 0;
    for (int j = 0; j <= i - first; j++) {
        const double y = fabs(x->y[first + j]), m = x->m[i][j];
        off += m * x->y_off[first + j] +
               (x->m_off[i][j] + 20 * STORED_F * m) * (y + x->y_off[first + j]);
    }
    x->u_off[i] = off + 4 * STORED_F * fabs(x->u[i]);
}

/* Returns the bound of the error of token i's output, if the error of the state's column has the
 * length `error`. */
static double output_off(const struct chunk *x, int i, double error)
{
    double off = x->query[i] * x->fade[i + 1] * error + x->first_off[i];
    for (int j = 0; j <= i; j++) {
        const double p = fabs(x->p[i][j]) + x->p_off[i][j], u = fabs(x->u[j]);
        off += x->p_off[i][j] * u + p * x->u_off[j] +
               p * (x->unit * (u + x->u_off[j]) + x->tiny * x->t[j].length + 90 * STORED_F * u);
    }
    return off + 4 * STORED_F * fabs(x->first[i]);
}

/* Returns a bound of the length that the chunk adds to the error of a column. `before` and `after`
 * are the column before and after the chunk. */
static double state_off(const struct chunk *x, const double *before, const double *after)
{
    const int last = x->count - 1;
    double faded = 0, off = 0, terms = 0;
    for (int k = 0; k < x->key; k++) {
        const double s = before[k] * x->decay[last][k];
        faded += pow(s * (x->decay_off[last][k] + 4 * STORED_F), 2);
    }
    for (int i = 0; i < x->count; i++) {
        const double k = x->faded_key[i], u = fabs(x->u[i]) + x->u_off[i];
        off += k * (x->u_off[i] +
                    u * (x->unit + 1.1 * of_factor(x) + x->faded_off[i] + x->t[i].off.key));
        off += x->tiny * x->t[i].length * k;
        if (x->channels)
            off += x->tiny * sqrt(x->key) * u * inverse(x->t[i].length);
        terms += k * u;
    }
    return off + sqrt(faded) +
           (CHUNK + 8) * STORED_F *
               (terms + vector_length(before, x->key) + vector_length(after, x->key));
}

/* Advances a column of the state by the tokens of the chunk. Sets x->u and x->out. */
static void advance(struct chunk *x, double *column)
{
    for (int i = 0; i < x->count; i++) {
        const struct delta_token *t = &x->t[i];
        double known = 0;
        for (int k = 0; k < x->key; k++)
            known += t->decay[k] * column[k] * t->k[k];
        x->u[i] = t->beta[0] * (x->v[i] - known);
        x->out[i] = ref_delta_step(column, t->decay, t->k, t->q, x->key, x->v[i], t->beta[0]);
    }
}

/* Advances `column`, of value element v, by the chunk; v -1: all values are 0. Returns a bound of
 * the length that the chunk adds to the error of the column. */
static double pass_column(struct chunk *x, int v, double *column)
{
    double before[DIM_MAX];
    memcpy(before, column, sizeof(before));
    for (int i = 0; i < x->count; i++) {
        const struct delta_token *t = &x->t[i];
        x->v[i] = v < 0 ? 0 : t->v[v];
        x->known[i] = of_state(x, t->k, t->length, t->off.key, before, i, &x->known_off[i]);
        x->first[i] = of_state(x, t->q, t->query_length, t->off.query, before, i, &x->first_off[i]);
    }
    advance(x, column);
    for (int first = 0; first < x->count; first += BLOCK) {
        const int end = first + BLOCK < x->count ? first + BLOCK : x->count;
        for (int i = first; i < end; i++)
            find_rest(x, i);
        for (int i = first; i < end; i++)
            find_off(x, i);
    }
    return state_off(x, before, column);
}

/* Compares column `v` of a chunk's outputs, and advances that column of the state. */
static void compare_column(const struct delta_layer *l, struct chunk *x, int token, int head, int v,
                           double *column, double *error)
{
    const double more = pass_column(x, v, column);
    for (int i = 0; i < x->count; i++) {
        double bound;
        const double expected =
            stored_value(l->out->precision, 1, x->out[i], output_off(x, i, *error), &bound);
        call_compare(l->r.c, l->out, AT(token + i, head, v), expected, bound);
    }
    *error = *error * x->fade[x->count] + more;
}

/* ---- Segments ----
 *
 * The state after a segment is A S + B, where S is the state before it. A kernel rounds A and S
 * once each, as operands of the product. B is the state after the segment if S is 0. A column of A
 * is the state's column after the segment if S is that column of the identity and all values are 0.
 * The errors of A and B are bounded like other states'. The length of the error of a value
 * element's column is the sum of
 *
 *   the largest decay of the segment times the error of S, with the rounding of S;
 *   the errors of the columns of A, each times its element of S;
 *   the rounding of A, and of the sum in float32, times |A| |S|;
 *   the error of B.
 */
/* A segment of a sequence for one value head. */
struct segment {
    struct recurrent_head start;      /* S, the state before its first token */
    struct recurrent_head made;       /* B */
    struct recurrent_head transition; /* A: a column in each row */
    double fade;                      /* product of the largest decays of all tokens */
};

/* Begins a segment with the state `h`: A is the identity, and B is 0. */
static void begin_segment(const struct chunk *x, struct segment *s, const struct recurrent_head *h)
{
    memset(&s->made, 0, sizeof(s->made));
    memset(&s->transition, 0, sizeof(s->transition));
    for (int k = 0; k < x->key; k++)
        s->transition.state[k][k] = 1;
    s->start = *h;
    s->fade = 1;
}

/* Updates A and B of a segment, and the bounds of their errors, by the tokens of a chunk. */
static void pass_segment(struct chunk *x, struct segment *s, int values)
{
    for (int v = 0; v < values; v++) {
        const double more = pass_column(x, v, s->made.state[v]);
        s->made.error[v] = s->made.error[v] * x->fade[x->count] + more;
    }
    for (int k = 0; k < x->key; k++) {
        const double more = pass_column(x, -1, s->transition.state[k]);
        s->transition.error[k] = s->transition.error[k] * x->fade[x->count] + more;
    }
    s->fade *= x->fade[x->count];
}

/* Returns the bound of the error of value element v's column after the segment. */
static double folded_off(const struct chunk *x, const struct segment *s, int v)
{
    const double *const before = s->start.state[v], error = s->start.error[v];
    const double size = vector_length(before, x->key) + error;
    double product[DIM_MAX] = {0}, off = 0;
    for (int c = 0; c < x->key; c++) {
        const double element = fabs(before[c]) + error;
        off += element * (s->transition.error[c] * (1 + x->unit) + x->tiny * sqrt(x->key));
        for (int k = 0; k < x->key; k++)
            product[k] += element * fabs(s->transition.state[c][k]);
    }
    return s->fade * (error + x->unit * size + x->tiny * sqrt(x->key)) + off +
           (x->unit + (x->key + 8) * STORED_F) * (1 + x->unit) * vector_length(product, x->key) +
           s->made.error[v] + 4 * STORED_F * vector_length(s->made.state[v], x->key);
}

/* Ends a segment that another follows: sets the bound of each column's error to folded_off(), and
 * begins the next segment. */
static void end_segment(const struct chunk *x, struct segment *s, int values,
                        struct recurrent_head *h)
{
    for (int v = 0; v < values; v++)
        h->error[v] = folded_off(x, s, v);
    begin_segment(x, s, h);
}

/* Compares the chunks of a sequence and head, and the states between segments. */
static void compare_head(const struct delta_layer *l, int n, const struct recurrent_sequence *s,
                         int head, struct chunk *x, struct segment *segment,
                         struct recurrent_head *h)
{
    const int tokens = l->r.c->args.gated_delta_prefill.segment_tokens;
    recurrent_load_state(&l->r, s, head, h);
    begin_segment(x, segment, h);
    for (int t = 0; t < s->count; t += CHUNK) {
        x->count = s->count - t < CHUNK ? s->count - t : CHUNK;
        for (int i = 0; i < x->count; i++)
            delta_layer_token(l, s->start + t + i, head, &x->t[i]);
        prepare(x);
        if (tokens && t && t % tokens == 0)
            end_segment(x, segment, l->head_dim_v, h);
        if (tokens)
            pass_segment(x, segment, l->head_dim_v);
        for (int v = 0; v < l->head_dim_v; v++)
            compare_column(l, x, s->start + t, head, v, h->state[v], &h->error[v]);
        const int block = recurrent_block_target(&l->r, n, t + x->count);
        if (block >= 0)
            recurrent_compare_state(&l->r, block, head, h);
    }
}

/* Compares all heads of a sequence and the state after it. */
static void compare_sequence(const struct delta_layer *l, int n, struct chunk *x,
                             struct segment *segment, struct recurrent_head *h)
{
    const struct recurrent_sequence s = recurrent_sequence(&l->r, n);
    const int to = s.count ? recurrent_target(&l->r, n, s.count - 1) : -1;
    if (s.padding)
        recurrent_compare_padding(&l->r, l->out, &s);
    for (int head = 0; head < *l->value_heads && s.count && !s.padding; head++) {
        compare_head(l, n, &s, head, x, segment, h);
        if (to >= 0)
            recurrent_compare_state(&l->r, to, head, h);
    }
}

/* Allows the kernel to write each element of `o`, a tensor that one launch writes and the next
 * launch reads. */
static void allow_records(struct operand *o)
{
    for (int64_t row = 0; o->given && row < o->dims[0]; row++)
        for (int64_t head = 0; head < o->dims[1]; head++)
            for (int64_t i = 0; i < o->dims[2]; i++)
                operand_allow(o, AT(row, head, i));
}

/* Compares the results of the call with the reference: struct verify_op.compare. */
static void compare(struct call *c)
{
    const struct delta_layer l = of(c);
    struct chunk *x = call_allocate(c, 1, sizeof(*x));
    struct recurrent_head *h = call_allocate(c, 1, sizeof(*h));
    struct segment *segment = call_allocate(c, 1, sizeof(*segment));
    x->key = l.head_dim;
    x->channels = l.decay == ATTN_DECAY_CHANNEL;
    x->unit = l.out->precision->unit;
    x->tiny = l.out->precision->tiny;
    for (int i = 0; i < *l.r.batch; i++)
        compare_sequence(&l, i, x, segment, h);
    allow_records(call_operand(c, GATED_DELTA_PREFILL_CHUNKS));
    allow_records(call_operand(c, GATED_DELTA_PREFILL_SEGMENTS));
}

/* Returns the bytes of states that are read and written, and of the rows of all tokens. */
static double least_bytes(const struct call *c)
{
    const struct delta_layer l = of((struct call *)c);
    const double element = c->desc.gated_delta_prefill.state_dtype == ATTN_STATE_F32 ? 4 : 2;
    return 2 * element * *l.r.batch * *l.value_heads * l.head_dim * l.head_dim_v +
           delta_layer_row_bytes(&l);
}

const struct verify_op verify_gated_delta_prefill = {
    .op = "gated_delta_prefill",
    VERIFY_SHAPES(shapes),
    .trace = &traced,
    .tuned = {"length=4096", "batch=64,length=256"},
    .dimensions =
        {
            RECURRENT_SIZE_ROWS("q and k", "v"),
            {"segment", offsetof(struct recurrent_shape, steps), 1 << 10,
             "chunks of a segment; 0: sequences are not cut"},
        },
    .own_size = sizeof(struct own),
    .lacks = lacks,
    .takes = takes,
    .size = size,
    .place = place,
    .fill = fill,
    .next = next,
    .compare = compare,
    .least_bytes = least_bytes,
};
